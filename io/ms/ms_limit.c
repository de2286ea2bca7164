/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_limit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "io/msv/msv_file.h"

int msi_ms_failed(int ccc_status)
{
    const int number = ccc_error_number();
    /* A write failed, or a limit of the system other than memory was reached. */
    const int is_write = number == -1 || number == ENOSPC || number == EFBIG || number == EDQUOT || number == EROFS;
    const int is_limit = number == EAGAIN || number == EMFILE || number == ENFILE;
    const int status = ccc_status == CCC_ENOMEM                ? MSI_ENOMEM
                       : ccc_status == CCC_ELOCKED             ? MSI_ELOCKED
                       : ccc_status == CCC_EFAILED && is_write ? MSI_EOUTPUT
                                                               : MSI_EINPUT;
    msi_error_set(status, "%s", ccc_error());
    return is_limit ? msi_error_about(status, "limit") : status;
}

int msi_ms_write_failed(int ccc_status)
{
    const int status = ccc_status == CCC_ENOMEM ? MSI_ENOMEM : ccc_status == CCC_ELOCKED ? MSI_ELOCKED : MSI_EOUTPUT;
    return msi_error_set(status, "%s", ccc_error());
}

static void leave(int code)
{
    msi_child_leave(msi_ms_failed(code));
}

void msi_ms_child_begin(void)
{
    ccc_on_terminate(leave);
}

static int64_t bytes_of(const char *path)
{
    int64_t bytes = 0;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) return info.st_size;
    DIR *d = opendir(path);
    if (!d) return 0;
    for (const struct dirent *e; (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &info, 0) == 0 && S_ISREG(info.st_mode)) bytes += info.st_size;
    closedir(d);
    return bytes;
}

int64_t msi_ms_paths_bytes(const char *const *paths, int n_path)
{
    int64_t bytes = 0;
    for (int i = 0; i < n_path; i++) bytes += bytes_of(paths[i]);
    return bytes;
}

/* Memory of libraries and of buffers for blocks; and memory per byte of the sets. A row of at least 24 bytes needs
 * about 100 bytes; the factor has a generous margin. */
static const int64_t LEAST_BYTES = (int64_t)512 << 20, TIMES_SIZE = 32;

/* For each column that DyscoStMan compresses, casacore starts a thread for each processor. A set has few such
 * columns. */
static const int64_t STACK_BYTES = (int64_t)512 << 10, GUARD_BYTES = (int64_t)64 << 10;
enum { COMPRESSED_COLUMNS = 8, MOST_DESCRIPTION = 4 << 20 };

/* Limits of this process, by which msi_ms_limit_explain distinguishes a damaged set from a lack of memory. */
static struct {
    struct rlimit before;
    /* all_stacks: for COMPRESSED_COLUMNS columns; 0: the limit is lifted, or there is none */
    int64_t by_user, extra, all_stacks;
    int is_by_size;
} limits;

/* Set a limit of address space. Mapped files and stacks take address space but no memory, so they are added to it. */
static int limit_space(int64_t bytes)
{
    return msi_child_limit_memory(bytes < INT64_MAX - limits.extra ? bytes + limits.extra : bytes);
}

static int limit_to(int64_t bytes)
{
    msi_memory_limit_set(bytes < INT64_MAX / 2 ? msi_memory_in_use() + bytes : bytes);
    return limit_space(bytes);
}

/* Reduce the address space that threads take. By default each has a stack of 8 MB and a malloc arena of 64 MB, which
 * for a dozen processors exceeds the limit for a small set. Returns: bytes of the stacks for one compressed column */
static int64_t make_threads_small(void)
{
    pthread_attr_t attributes;
    mallopt(M_ARENA_MAX, 1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)STACK_BYTES);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    return sysconf(_SC_NPROCESSORS_ONLN) * (STACK_BYTES + GUARD_BYTES);
}

/* Count the compressed columns in a table's description, at most COMPRESSED_COLUMNS. (In a multi-MS with hundreds of
 * members, assuming that each has such columns would make stacks most of the limit.) A column may be counted more than
 * once, if the name of its manager occurs more than once. A description that is too long counts as
 * COMPRESSED_COLUMNS. */
static int compressed_columns(const char *path)
{
    static const char manager[] = "DyscoStMan";
    struct stat info;
    char *name, *text = NULL;
    int n = 0;
    if (asprintf(&name, "%s/table.dat", path) < 0) return COMPRESSED_COLUMNS;
    const int fd = stat(name, &info) == 0 && S_ISREG(info.st_mode) ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(name);
    if (fd < 0) return 0;
    const ssize_t length = info.st_size <= MOST_DESCRIPTION && (text = malloc((size_t)info.st_size + 1))
                               ? pread(fd, text, (size_t)info.st_size, 0)
                               : -1;
    close(fd);
    const char *end = length > 0 ? text + length : text;
    for (const char *at = text; length > 0 && n < COMPRESSED_COLUMNS; n++, at += sizeof manager - 1)
        if (!(at = memmem(at, (size_t)(end - at), manager, sizeof manager - 1))) break;
    free(text);
    return length < 0 ? COMPRESSED_COLUMNS : n;
}

void msi_ms_limit_memory(const char *const *paths, int n_path)
{
    const int64_t bytes = msi_ms_paths_bytes(paths, n_path), allowed = msi_memory_limit();
    const int64_t by_size =
        bytes < (INT64_MAX - LEAST_BYTES) / TIMES_SIZE ? LEAST_BYTES + TIMES_SIZE * bytes : INT64_MAX;
    const int64_t stacks = make_threads_small();
    limits.by_user = allowed > LEAST_BYTES ? allowed : LEAST_BYTES;
    limits.extra = 0;
    for (int i = 0; i < n_path; i++)
        limits.extra +=
            msi_msv_is_file(paths[i]) ? msi_ms_paths_bytes(&paths[i], 1) : compressed_columns(paths[i]) * stacks;
    if (getrlimit(RLIMIT_AS, &limits.before) != 0) return;
    limits.all_stacks = n_path * COMPRESSED_COLUMNS * stacks;
    limits.is_by_size = limit_to(by_size < limits.by_user ? by_size : limits.by_user) && by_size <= limits.by_user;
}

void msi_ms_limit_lift(void)
{
    if (!limits.all_stacks) return;
    /* The compressed columns are in other tables, to which this one refers. */
    limits.extra += limits.all_stacks;
    limits.all_stacks = 0;
    setrlimit(RLIMIT_AS, &limits.before);
    if (limits.is_by_size)
        limit_to(limits.by_user);
    else
        limit_space(limits.by_user);
    limits.is_by_size = 0;
}

/* Return 1 if an ordinary allocation succeeds. */
static int has_memory(void)
{
    enum { BYTES = 1 << 20 };
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) munmap(p, BYTES);
    return p != MAP_FAILED;
}

int msi_ms_limit_explain(int status, const char *path)
{
    if (status != MSI_ENOMEM || !limits.is_by_size || strcmp(msi_error_about_get(), "limit") == 0 || !has_memory())
        return status;
    return msi_error_set(
        MSI_EINPUT, "%s: truncated or corrupt: reading it requests more memory than a set of its size can need", path);
}
