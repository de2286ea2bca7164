/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/process.h"
#include "core/status.h"

/* Each block has a header with its size, which msi_free subtracts from the count. The header keeps the alignment. */
enum { HEADER = 64 };

/* Blocks of at least this size are mapped. The kernel provides pages of zeros when a thread first touches them. A
 * mapping begins at a multiple of a huge page, so that the kernel can use huge pages. */
enum { HUGE_PAGE = 2 << 20, MAPPED_FROM = HUGE_PAGE };

/* Blocks of at least this size may be in files. It is the size of an image plane of 128 x 128 pixels. */
enum { FILED_FROM = 1 << 16 };

/* The header of a block. Blocks in files are not counted. */
typedef struct header {
    int64_t bytes, counted;
    int is_in_file, is_unset; /* is_unset: allocated by msi_alloc_unset */
} header;

static _Atomic int64_t in_use, limit;

/* Mapped blocks that were freed are kept for msi_alloc_unset, because the first access to a page takes time, in a
 * virtual machine a lot. They are unmapped before the memory of the process would exceed the most that was ever in
 * use. */
enum { MOST_IDLE = 16, LEAST_IDLE = 8 << 20 };
static struct {
    pthread_mutex_t lock;
    void *block[MOST_IDLE];
    int64_t bytes[MOST_IDLE];
    int n, most;
    _Atomic int64_t all; /* bytes of these blocks */
} idle = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Atomic int64_t most_in_use;

static const char *page_directory; /* NULL: no blocks are in files */
static int pages_work;             /* 1: blocks of msi_alloc_work are in files too */

int64_t msi_memory_physical(void)
{
    int64_t bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    const int64_t of_group = msi_control_group_memory("/proc/self/cgroup", "/sys/fs/cgroup");
    return of_group < bytes ? of_group : bytes;
}

void msi_memory_limit_set(int64_t bytes)
{
    limit = bytes;
}

int64_t msi_memory_limit(void)
{
    if (!limit) limit = msi_memory_physical();
    return limit;
}

int64_t msi_memory_in_use(void)
{
    return in_use;
}

/* Map memory that begins at a huge page. Return NULL on failure. */
static void *map_huge_pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), huge = (size_t)HUGE_PAGE;
    const size_t needed = (bytes + page - 1) / page * page;
    char *p = mmap(NULL, needed + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    const size_t before = (huge - (uintptr_t)p % huge) % huge;
    if (before) munmap(p, before);
    munmap(p + before + needed, huge - before);
    madvise(p + before, needed, MADV_HUGEPAGE);
    return p + before;
}

/* Count bytes as used, unless this would exceed the limit. A refused request is never counted, not even for a moment,
 * because this could make a smaller request of another thread fail. Returned: *before  bytes in use before. Returns: 1
 * if the bytes are counted, else 0. */
static int reserve(int64_t bytes, int64_t *before)
{
    const int64_t most = msi_memory_limit();
    int64_t now = in_use;
    while (now <= most - bytes && !atomic_compare_exchange_weak(&in_use, &now, now + bytes)) continue;
    *before = now;
    return now <= most - bytes;
}

/* ---- Idle blocks ---- */

/* Called before a fork, and unlock_idle after it, so that the child does not find the lock taken by a thread that it
 * does not have. */
static void lock_idle(void)
{
    pthread_mutex_lock(&idle.lock);
}

static void unlock_idle(void)
{
    pthread_mutex_unlock(&idle.lock);
}

static void forget_idle(void)
{
    idle.most = idle.n = 0;
    idle.all = 0;
    pthread_mutex_unlock(&idle.lock);
}

/* Unmap idle blocks until the bytes in use and idle are at most most_bytes. */
static void trim_idle(int64_t most_bytes)
{
    void *block[MOST_IDLE];
    int64_t bytes[MOST_IDLE];
    int n = 0;
    if (!idle.all) return;
    pthread_mutex_lock(&idle.lock);
    while (idle.n && in_use + idle.all > most_bytes) {
        idle.all -= idle.bytes[--idle.n];
        block[n] = idle.block[idle.n];
        bytes[n++] = idle.bytes[idle.n];
    }
    pthread_mutex_unlock(&idle.lock);
    for (int i = 0; i < n; i++) munmap(block[i], (size_t)bytes[i]);
}

/* Keep a mapped block that is no longer in use. Returns: 1; 0 if it must be unmapped */
static int keep_idle(void *block, int64_t bytes)
{
    if (bytes < LEAST_IDLE) return 0;
    pthread_mutex_lock(&idle.lock);
    const int keeps = idle.n < idle.most && in_use + idle.all + bytes <= most_in_use;
    if (keeps) {
        idle.block[idle.n] = block;
        idle.bytes[idle.n++] = bytes;
        idle.all += bytes;
    }
    pthread_mutex_unlock(&idle.lock);
    return keeps;
}

/* Find an idle block of this size. Returns: NULL if there is none */
static void *take_idle(int64_t bytes)
{
    void *block = NULL;
    if (!idle.all) return NULL;
    pthread_mutex_lock(&idle.lock);
    for (int i = idle.n - 1; i >= 0 && !block; i--) {
        if (idle.bytes[i] != bytes) continue;
        block = idle.block[i];
        idle.n--;
        idle.block[i] = idle.block[idle.n];
        idle.bytes[i] = idle.bytes[idle.n];
        idle.all -= bytes;
    }
    pthread_mutex_unlock(&idle.lock);
    return block;
}

void msi_memory_reuse(int n)
{
    static int is_known;
    if (!is_known) is_known = !pthread_atfork(lock_idle, unlock_idle, forget_idle);
    if (!is_known) return;
    idle.most = n < MOST_IDLE ? n : MOST_IDLE;
}

/* Update the most bytes that were in use. */
static void note_use(void)
{
    int64_t most = most_in_use, now = in_use;
    while (now > most && !atomic_compare_exchange_weak(&most_in_use, &most, now)) continue;
    trim_idle(most_in_use);
}

/* ---- Blocks ---- */

/* Compute the size of a block in bytes, with its header. */
static int block_bytes(int64_t n, size_t size, const char *what, int64_t *bytes)
{
    if (n < 0 || __builtin_mul_overflow(n, (int64_t)size, bytes) || *bytes > INT64_MAX - 4 * HEADER)
        return msi_error_set(MSI_ENOMEM, "%s: %lld elements of %zu bytes exceed the address space", what, (long long)n,
                             size);
    *bytes = (*bytes + HEADER + HEADER - 1) / HEADER * HEADER;
    return MSI_OK;
}

/* Allocate a block. Given: touched  bytes to count, at most; takes_idle  1: its contents may be undefined */
static int allocate(void *out, int64_t n, size_t size, int64_t touched, const char *what, int takes_idle)
{
    void **p = out;
    *p = NULL;
    int64_t bytes = 0;
    MSI_TRY(block_bytes(n, size, what, &bytes));
    void *block = NULL;
    int64_t before;
    /* Small blocks are zeroed here, which touches all of their pages. */
    const int64_t counted = touched < bytes && bytes >= MAPPED_FROM ? touched : bytes;
    const int is_allowed = reserve(counted, &before);
    if (is_allowed) {
        if (bytes < MAPPED_FROM) {
            block = aligned_alloc(HEADER, (size_t)bytes);
            if (block) memset(block, 0, (size_t)bytes);
        } else {
            if (takes_idle) block = take_idle(bytes);
            if (!block) block = map_huge_pages((size_t)bytes);
            if (!block && idle.all) {
                trim_idle(0);
                block = map_huge_pages((size_t)bytes);
            }
        }
        if (block) note_use();
    }
    if (!block) {
        if (is_allowed) atomic_fetch_sub(&in_use, counted);
        return msi_error_about(
            msi_error_set(MSI_ENOMEM, "no memory for %s (%.3f GB): %.3f GB are in use and the limit is %.3f GB", what,
                          1e-9 * (double)counted, 1e-9 * (double)before, 1e-9 * (double)msi_memory_limit()),
            "memory");
    }
    memcpy(block, &(header){.bytes = bytes, .counted = counted, .is_unset = takes_idle}, sizeof(header));
    *p = (char *)block + HEADER;
    return MSI_OK;
}

int msi_alloc(void *out, int64_t n, size_t size, const char *what)
{
    return allocate(out, n, size, INT64_MAX, what, 0);
}

int msi_alloc_sparse(void *out, int64_t n, size_t size, int64_t touched, const char *what)
{
    return allocate(out, n, size, touched, what, 0);
}

int msi_alloc_unset(void *out, int64_t n, size_t size, const char *what)
{
    return page_directory ? msi_alloc_paged(out, n, size, what) : allocate(out, n, size, INT64_MAX, what, 1);
}

/* Reserve disk blocks for a file. A signal may interrupt posix_fallocate. Stop signals end the run; after other
 * signals, such as a timer of the caller, the call is repeated. */
static int reserve_blocks(int fd, int64_t size)
{
    int error;
    do error = posix_fallocate(fd, 0, size);
    while (error == EINTR && !msi_interrupt_signal());
    return error;
}

static int make_unlinked(const char *directory, int *fd)
{
    char *name = malloc(strlen(directory) + sizeof "/msimage-store-XXXXXX");
    if (!name) return msi_error_set(MSI_ENOMEM, "no memory for a file name");
    sprintf(name, "%s/msimage-store-XXXXXX", directory);
    *fd = mkostemp(name, O_CLOEXEC);
    const int error = errno;
    if (*fd >= 0) unlink(name);
    free(name);
    if (*fd >= 0) return MSI_OK;
    return msi_error_about(
        msi_error_set(MSI_EOUTPUT, "temp_dir %s: cannot make a temporary file: %s", directory, strerror(error)),
        "temp_dir");
}

/* Disk blocks are reserved before the file is mapped, since writing to a mapping on a full disk would raise SIGBUS. */
int msi_map_file(void *out, int64_t bytes, const char *directory, const char *what)
{
    void **base = out, *p = MAP_FAILED;
    int fd = -1;
    *base = NULL;
    if (!directory) directory = getenv("TMPDIR");
    if (!directory || !*directory) directory = "/tmp";
    MSI_TRY(make_unlinked(directory, &fd));
    int error = reserve_blocks(fd, bytes);
    if (!error) {
        p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) error = errno;
    }
    close(fd);
    if (error == EINTR) return msi_interrupt_check();
    if (error)
        return msi_error_about(msi_error_set(MSI_EOUTPUT,
                                             "temp_dir %s: cannot hold %.3f GB of %s that exceed the memory limit: %s",
                                             directory, 1e-9 * (double)bytes, what, strerror(error)),
                               "temp_dir");
    *base = p;
    return MSI_OK;
}

int msi_alloc_paged(void *out, int64_t n, size_t size, const char *what)
{
    void **p = out, *block;
    int64_t bytes = 0;
    *p = NULL;
    MSI_TRY(block_bytes(n, size, what, &bytes));
    if (!page_directory || bytes < FILED_FROM) return msi_alloc(out, n, size, what);
    MSI_TRY(msi_map_file(&block, bytes, page_directory, what));
    memcpy(block, &(header){.bytes = bytes, .is_in_file = 1}, sizeof(header));
    *p = (char *)block + HEADER;
    return MSI_OK;
}

int msi_alloc_work(void *out, int64_t n, size_t size, const char *what)
{
    return (pages_work ? msi_alloc_paged : msi_alloc)(out, n, size, what);
}

void msi_memory_page_to(const char *directory, int with_work)
{
    page_directory = directory;
    pages_work = directory && with_work;
}

int msi_grow(void *array, int64_t n, int64_t n_new, size_t size, const char *what)
{
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    MSI_TRY(msi_alloc(&grown, n_new, size, what));
    if (n > 0) memcpy(grown, old, (size_t)n * size);
    msi_free(old);
    memcpy(array, &grown, sizeof grown);
    return MSI_OK;
}

void msi_free(void *p)
{
    if (!p) return;
    char *block = (char *)p - HEADER;
    header h;
    memcpy(&h, block, sizeof h);
    if (!h.is_in_file) atomic_fetch_sub(&in_use, h.counted);
    if (h.bytes < MAPPED_FROM && !h.is_in_file)
        free(block);
    else if (!h.is_unset || !keep_idle(block, h.bytes))
        munmap(block, (size_t)h.bytes);
}

uint64_t msi_hash(uint64_t hash, const void *data, int64_t n)
{
    const unsigned char *at = data;
    hash ^= (uint64_t)n;
    while (n > 0) {
        /* Each step is a bijection of hash and word, so every change of one word changes the hash. */
        uint64_t word = 0;
        memcpy(&word, at, (size_t)(n < 8 ? n : 8));
        hash ^= word;
        hash = (hash << 27 | hash >> 37) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
        at += 8;
        n -= 8;
    }
    return hash ^ hash >> 29;
}

int msi_transfer(msi_cursor *c, void *value, int64_t bytes)
{
    const int64_t padded = (bytes + 7) / 8 * 8;
    if (c->from) {
        if (bytes < 0 || padded > c->n - c->at) return 0;
        if (bytes > 0) memcpy(value, c->from + c->at, (size_t)bytes);
    } else if (c->to && bytes > 0) {
        memcpy(c->to + c->at, value, (size_t)bytes);
    }
    c->at += padded;
    return 1;
}

int msi_transfer_array(msi_cursor *c, void *array, int64_t n, size_t size, int *is_whole)
{
    void *values;
    *is_whole = 0;
    if (c->from) {
        if (n < 0 || n > (c->n - c->at) / (int64_t)size) return MSI_OK;
        MSI_TRY(msi_alloc(&values, n > 0 ? n : 1, size, "metadata of the sets"));
        memcpy(array, &values, sizeof values);
    }
    memcpy(&values, array, sizeof values);
    *is_whole = msi_transfer(c, values, n * (int64_t)size);
    return MSI_OK;
}

/* ---- Text files ---- */

enum { MSI_TEXT_FILE_MOST = 64 << 20 };

/* Check an open file. Reading a byte shows whether a pipe has a writer. Returned: *byte  read from a pipe, else EOF */
static int check_kind(int fd, const char *path, int *byte)
{
    struct stat st;
    unsigned char first;
    *byte = EOF;
    if (fstat(fd, &st)) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    if (S_ISREG(st.st_mode)) return MSI_OK;
    if (S_ISDIR(st.st_mode)) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(EISDIR));
    if (!S_ISFIFO(st.st_mode)) return msi_error_set(MSI_EINPUT, "%s: neither a file nor a pipe", path);
    const ssize_t got = read(fd, &first, 1);
    if (!got) return msi_error_set(MSI_EINPUT, "%s: a pipe that nothing writes to; give the name of a file", path);
    if (got < 0 && errno != EAGAIN) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    if (got > 0) *byte = first;
    (void)fcntl(fd, F_SETFL, 0);
    return MSI_OK;
}

int msi_text_file_open(FILE **file, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int byte;
    *file = NULL;
    if (fd < 0) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    int rc = check_kind(fd, path, &byte);
    if (!rc && !(*file = fdopen(fd, "r"))) rc = msi_error_set(MSI_ENOMEM, "%s: %s", path, strerror(errno));
    if (rc)
        close(fd);
    else if (byte != EOF)
        ungetc(byte, *file);
    return rc;
}

int msi_text_file_read(char **text, int64_t *n, const char *path, const char *what)
{
    *text = NULL;
    *n = 0;
    FILE *f;
    MSI_TRY(msi_text_file_open(&f, path));
    int64_t capacity = 1 << 16;
    int rc = msi_alloc(text, capacity + 1, 1, what);
    while (!rc) {
        const size_t got = fread(*text + *n, 1, (size_t)(capacity - *n), f);
        *n += (int64_t)got;
        if (!got && ferror(f)) rc = msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
        if (!got) break;
        if (*n < capacity) continue;
        if (*n >= MSI_TEXT_FILE_MOST)
            rc = msi_error_set(MSI_EINPUT, "%s: longer than %d MiB, the limit for %s", path, MSI_TEXT_FILE_MOST >> 20,
                               what);
        if (!rc) rc = msi_grow(text, capacity + 1, 2 * capacity + 1, 1, what);
        capacity *= 2;
    }
    fclose(f);
    if (rc) {
        msi_free(*text);
        *text = NULL;
        return rc;
    }
    (*text)[*n] = 0;
    return MSI_OK;
}
