/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/msv/msv_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"

/* ---- CRC-32C of eight bytes: by a processor instruction, or bit by bit ---- */

#if defined(__SSE4_2__) && defined(__x86_64__)
#include <nmmintrin.h>

static inline uint32_t add_word(uint32_t crc, uint64_t word)
{
    return (uint32_t)_mm_crc32_u64(crc, word);
}

static inline uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    return _mm_crc32_u8(crc, byte);
}
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>

static inline uint32_t add_word(uint32_t crc, uint64_t word)
{
    return __crc32cd(crc, word);
}

static inline uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    return __crc32cb(crc, byte);
}
#else
static inline uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
    return crc;
}

static inline uint32_t add_word(uint32_t crc, uint64_t word)
{
    for (int k = 0; k < 8; k++, word >>= 8) crc = add_byte(crc, (uint8_t)word);
    return crc;
}
#endif

static inline uint64_t word_at(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* ---- CRC-32C of a range of bytes ---- */

uint32_t msi_crc32c(const void *bytes, int64_t n)
{
    const char *p = bytes;
    uint32_t crc = 0xffffffffU;
    for (; n >= 8; n -= 8, p += 8) crc = add_word(crc, word_at(p));
    for (; n > 0; n--, p++) crc = add_byte(crc, (uint8_t)*p);
    return ~crc;
}

msi_crc4 msi_crc4_of(const void *bytes, int64_t n)
{
    const int64_t quarter = n / 4;
    const char *p0 = bytes, *p1 = p0 + quarter, *p2 = p1 + quarter, *p3 = p2 + quarter;
    uint32_t a = 0xffffffffU, b = a, c = a, d = a;
    /* The instruction has a latency of three cycles and a throughput of one per cycle, so compute four CRCs at once. */
    for (int64_t i = 0; i < quarter; i += 8) {
        a = add_word(a, word_at(p0 + i));
        b = add_word(b, word_at(p1 + i));
        c = add_word(c, word_at(p2 + i));
        d = add_word(d, word_at(p3 + i));
    }
    return (msi_crc4){{~a, ~b, ~c, ~d}};
}

/* Return 1 if all four are equal, else 0. */
static int crc4_equal(const msi_crc4 *a, const msi_crc4 *b)
{
    return memcmp(a->quarter, b->quarter, sizeof a->quarter) == 0;
}

/* ---- State of a Measurement Set ---- */

static uint64_t mix_hash(uint64_t h, uint64_t value)
{
    h = (h ^ value) * 0x9e3779b97f4a7c15U;
    return h ^ h >> 32;
}

static uint64_t hash_name(const char *name)
{
    uint64_t h = 0xcbf29ce484222325U;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3U;
    return h;
}

/* Add the hashes of the files in a directory and its subdirectories. A sum does not depend on their order. */
static int add_directory(int parent, const char *path, uint64_t name, int depth, uint64_t *sum)
{
    const int fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0) close(fd);
    if (!d) return 0;
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat s;
        const uint64_t h = mix_hash(name, hash_name(e->d_name));
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strcmp(e->d_name, "table.lock") == 0 ||
            strcmp(e->d_name, "HISTORY") == 0 || fstatat(fd, e->d_name, &s, 0) != 0)
            continue;
        if (S_ISDIR(s.st_mode) && depth > 0) add_directory(fd, e->d_name, h, depth - 1, sum);
        if (S_ISREG(s.st_mode))
            *sum += mix_hash(mix_hash(mix_hash(h, (uint64_t)s.st_size), (uint64_t)s.st_mtim.tv_sec),
                             (uint64_t)s.st_mtim.tv_nsec);
    }
    closedir(d);
    return 1;
}

int msi_set_state(const char *path, uint64_t *state)
{
    struct stat s;
    *state = 0;
    if (stat(path, &s) == 0 && S_ISREG(s.st_mode)) {
        *state = mix_hash(mix_hash(mix_hash(0, (uint64_t)s.st_size), (uint64_t)s.st_mtim.tv_sec),
                          (uint64_t)s.st_mtim.tv_nsec);
        return 1;
    }
    return add_directory(AT_FDCWD, path, 0, 1, state);
}

/* ---- Opening a store ---- */

int msi_msv_is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

int msi_msv_is_store(const char *path)
{
    char magic[sizeof((msi_msv_header *)NULL)->magic];
    if (!msi_msv_is_file(path)) return 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const int is = fd >= 0 && pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
                   memcmp(magic, MSI_MSV_MAGIC, sizeof magic) == 0;
    if (fd >= 0) close(fd);
    return is;
}

int msi_msv_file_damaged(const char *path, const char *what, int64_t at, int64_t bytes)
{
    return msi_error_set(MSI_EINPUT, "%s: damaged: invalid data in %s (bytes %lld to %lld); make the store again", path,
                         what, (long long)at, (long long)(at + bytes - 1));
}

/* ---- Header ---- */

static int check_header(const char *path, const msi_msv_header *h, int64_t n_read, int64_t file_bytes)
{
    if (n_read < (int64_t)sizeof h->magic || memcmp(h->magic, MSI_MSV_MAGIC, sizeof h->magic) != 0)
        return msi_error_set(MSI_EINPUT,
                             "%s: is a file, but neither a visibility store nor a FITS file, or its first bytes are "
                             "damaged; a Measurement "
                             "Set is a directory",
                             path);
    if (n_read < MSI_MSV_HEADER_BYTES)
        return msi_error_set(MSI_EINPUT, "%s: truncated: %lld bytes are shorter than a header", path,
                             (long long)n_read);
    if (h->crc != msi_crc32c(h, offsetof(msi_msv_header, crc)))
        return msi_msv_file_damaged(path, "its header", 0, MSI_MSV_HEADER_BYTES);
    if (h->version != MSI_MSV_VERSION)
        return msi_error_set(MSI_EINPUT,
                             "%s: visibility store of version %u; this program reads version %d; make the store again",
                             path, h->version, MSI_MSV_VERSION);
    if (file_bytes != h->file_bytes)
        return msi_error_set(MSI_EINPUT, "%s: truncated or extended: %lld bytes instead of %lld", path,
                             (long long)file_bytes, (long long)h->file_bytes);
    if (h->header_bytes != MSI_MSV_HEADER_BYTES || memchr(h->set_path, 0, sizeof h->set_path) == NULL)
        return msi_msv_file_damaged(path, "its header", 0, MSI_MSV_HEADER_BYTES);
    return MSI_OK;
}

static int open_and_check(const char *path, msi_msv_header *h, int *fd)
{
    struct stat s;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = *fd < 0 || fstat(*fd, &s) != 0 ? -1 : pread(*fd, h, sizeof *h, 0);
    const int status = n < 0 ? msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno))
                             : check_header(path, h, (int64_t)n, (int64_t)s.st_size);
    if (status && *fd >= 0) close(*fd);
    return status;
}

int msi_msv_header_read(const char *path, msi_msv_header *h)
{
    int fd;
    MSI_TRY(open_and_check(path, h, &fd));
    close(fd);
    return MSI_OK;
}

int msi_msv_set_changed(const msi_msv_header *h)
{
    uint64_t state;
    return msi_set_state(h->set_path, &state) && state != h->set_state;
}

/* ---- Index ---- */

/* Find the parts of the index. Returns 0 if they do not fill it. */
static int lay_out_index(msi_msv_file *f)
{
    const msi_msv_header *h = f->header;
    const int64_t count[] = {h->about_bytes, h->n_time, h->n_run, h->n_chunk};
    const int64_t size[] = {1, sizeof *f->time_s, sizeof *f->run, sizeof *f->chunk};
    const char *part[4];
    if (h->index_bytes < 0 || h->index_bytes > h->file_bytes || h->index_at < MSI_MSV_HEADER_BYTES ||
        h->index_at != h->file_bytes - h->index_bytes || h->index_at % MSI_MSV_ALIGNMENT ||
        h->index_bytes % MSI_MSV_ALIGNMENT)
        return 0;
    int64_t at = h->index_at, rest = h->index_bytes;
    for (int i = 0; i < 4; i++) {
        if (count[i] < 1 || count[i] > rest / size[i] || msi_msv_aligned(count[i] * size[i]) > rest) return 0;
        part[i] = f->map + at;
        at += msi_msv_aligned(count[i] * size[i]);
        rest -= msi_msv_aligned(count[i] * size[i]);
    }
    f->about = part[0];
    f->time_s = (const double *)(const void *)part[1];
    f->run = (const msi_msv_run *)(const void *)part[2];
    f->chunk = (const msi_msv_chunk *)(const void *)part[3];
    return rest == 0;
}

static int times_are_valid(const msi_msv_file *f)
{
    for (int64_t i = 0; i < f->header->n_time; i++)
        if (!isfinite(f->time_s[i]) || (i > 0 && !(f->time_s[i] > f->time_s[i - 1]))) return 0;
    return 1;
}

static int runs_are_valid(const msi_msv_file *f)
{
    int64_t end = 0;
    for (int64_t i = 0; i < f->header->n_run; i++) {
        const msi_msv_run *r = &f->run[i];
        if (r->row < end || r->row > INT64_MAX / 2 || r->n_row < 1 || r->ordinal < 0 || r->data_desc_id < 0 ||
            r->field_id < 0 || r->time < 0 || r->time >= f->header->n_time)
            return 0;
        end = r->row + r->n_row;
    }
    return 1;
}

/* Compare a chunk with a row by setup, field and ordinal. */
static int compare_to_row(const msi_msv_chunk *c, int32_t data_desc_id, int32_t field_id, int64_t ordinal)
{
    if (c->data_desc_id != data_desc_id) return c->data_desc_id < data_desc_id ? -1 : 1;
    if (c->field_id != field_id) return c->field_id < field_id ? -1 : 1;
    return (c->ordinal > ordinal) - (c->ordinal < ordinal);
}

static int chunks_are_valid(const msi_msv_file *f)
{
    for (int64_t i = 0; i < f->header->n_chunk; i++) {
        const msi_msv_chunk *c = &f->chunk[i], *before = i > 0 ? c - 1 : NULL;
        if (c->at < MSI_MSV_HEADER_BYTES || c->at % MSI_MSV_ALIGNMENT || c->at >= f->header->index_at ||
            c->ordinal < 0 || c->ordinal > INT64_MAX / 2 || c->n_row < 1 || c->n_data_row < 0 ||
            c->n_data_row > c->n_row || (c->weights != MSI_MSV_ROW_WEIGHTS && c->weights != MSI_MSV_WEIGHTS) ||
            (c->flags != MSI_MSV_NO_FLAG && c->flags != MSI_MSV_FLAG_BITS))
            return 0;
        if (before && compare_to_row(before, c->data_desc_id, c->field_id, c->ordinal - before->n_row) > 0) return 0;
    }
    return 1;
}

static int check_index(msi_msv_file *f)
{
    const msi_msv_header *h = f->header;
    /* The CRC of the header is right but its offsets are not, so the header was written wrongly. */
    if (!lay_out_index(f)) return msi_msv_file_damaged(f->path, "its header", 0, MSI_MSV_HEADER_BYTES);
    const msi_crc4 found = msi_crc4_of(f->map + h->index_at, h->index_bytes);
    if (crc4_equal(&found, &h->index_crc) && times_are_valid(f) && runs_are_valid(f) && chunks_are_valid(f))
        return MSI_OK;
    return msi_msv_file_damaged(f->path, "its index", h->index_at, h->index_bytes);
}

/* ---- Open ---- */

int msi_msv_file_open(msi_msv_file **out, const char *path)
{
    msi_msv_header h;
    msi_msv_file *f;
    int fd;
    *out = NULL;
    MSI_TRY(open_and_check(path, &h, &fd));
    void *map = mmap(NULL, (size_t)h.file_bytes, PROT_READ, MAP_SHARED, fd, 0);
    const int why = errno;
    close(fd);
    if (map == MAP_FAILED)
        return msi_error_set(MSI_ENOMEM, "%s: cannot be mapped into memory: %s", path, strerror(why));
    int status = msi_alloc(&f, 1, sizeof *f, "a visibility store");
    if (status) {
        munmap(map, (size_t)h.file_bytes);
        return status;
    }
    *f = (msi_msv_file){.path = path, .map = map, .header = map};
    /* Another program may have replaced the file after the header was read. Check that the map has the same header. */
    status = f->header->crc == h.crc && f->header->file_bytes == h.file_bytes
                 ? check_index(f)
                 : msi_msv_file_damaged(path, "its header", 0, MSI_MSV_HEADER_BYTES);
    if (status)
        msi_msv_file_close(f);
    else
        *out = f;
    return status;
}

void msi_msv_file_close(msi_msv_file *f)
{
    if (!f) return;
    munmap((void *)(uintptr_t)f->map, (size_t)f->header->file_bytes);
    msi_free(f);
}

/* ---- Chunks ---- */

int msi_msv_file_rows(const msi_msv_file *f, const msi_msv_chunk *c, int32_t n_chan, int32_t n_corr, msi_msv_layout *l)
{
    *l = msi_msv_lay_out(c, n_chan, n_corr);
    if (l->bytes < l->rows_bytes || l->bytes > f->header->index_at - c->at)
        return msi_msv_file_damaged(f->path, "its index", f->header->index_at, f->header->index_bytes);
    const msi_crc4 found = msi_crc4_of(f->map + c->at, l->rows_bytes);
    if (crc4_equal(&found, &c->rows_crc)) return MSI_OK;
    return msi_msv_file_damaged(f->path, "the rows of a chunk", c->at, l->rows_bytes);
}

int msi_msv_file_samples(const msi_msv_file *f, const msi_msv_chunk *c, const msi_msv_layout *l)
{
    const msi_crc4 found = msi_crc4_of(f->map + c->at + l->rows_bytes, l->bytes - l->rows_bytes);
    if (crc4_equal(&found, &c->samples_crc)) return MSI_OK;
    return msi_msv_file_damaged(f->path, "the samples of a chunk", c->at + l->rows_bytes, l->bytes - l->rows_bytes);
}

const msi_msv_run *msi_msv_file_run(const msi_msv_file *f, int64_t row)
{
    int64_t low = 0, high = f->header->n_run;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (f->run[middle].row <= row)
            low = middle;
        else
            high = middle;
    }
    const msi_msv_run *r = &f->run[low];
    return row >= r->row && row < r->row + r->n_row ? r : NULL;
}

const msi_msv_chunk *msi_msv_file_chunk(const msi_msv_file *f, int32_t data_desc_id, int32_t field_id, int64_t ordinal)
{
    int64_t low = 0, high = f->header->n_chunk;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (compare_to_row(&f->chunk[middle], data_desc_id, field_id, ordinal) <= 0)
            low = middle;
        else
            high = middle;
    }
    const msi_msv_chunk *c = &f->chunk[low];
    const int holds = c->data_desc_id == data_desc_id && c->field_id == field_id && ordinal >= c->ordinal &&
                      ordinal < c->ordinal + c->n_row;
    return holds ? c : NULL;
}
