/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A file consists of a header; sections, each with its own header and data; and an end section, which has no data
 * and whose index is the number of sections. Numbers have the byte order of the machine, which the file header records.
 * The checksum of a section covers its header and data and continues from the previous checksum, so that a lost,
 * repeated or moved section is detected.
 */
#include "src/clean/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/fits/publish.h"

static const char MAGIC[8] = "MSICLEAN";
enum { VERSION = 2, ORDER = 0x01020304, END = 0, CHUNK = 1 << 20 };

typedef struct file_header {
    char magic[8];
    uint32_t version, order;
    uint64_t options, sets;
    uint64_t checksum; /* checksum of the members above */
} file_header;

typedef struct section_header {
    int64_t kind, index, bytes;
    uint64_t checksum; /* checksum of the members above and the data, continued from the previous section's */
} section_header;

/* ---- The file: writing ---- */

struct msi_checkpoint_writer {
    msi_publish *publish;
    uint64_t checksum;
    int64_t n_section;
};

/* Return 1 if the file begins like a checkpoint or does not exist, otherwise 0. */
static int may_replace(const char *path)
{
    char begin[sizeof MAGIC] = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT;
    const ssize_t n = read(fd, begin, sizeof begin);
    close(fd);
    return n == (ssize_t)sizeof begin && memcmp(begin, MAGIC, sizeof MAGIC) == 0;
}

int msi_checkpoint_check_place(const char *path)
{
    if (may_replace(path)) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "%s: not a checkpoint of msimage; the file is left unchanged", path);
}

/* Remove the unfinished file and free w; NULL is fine. */
static void checkpoint_discard(msi_checkpoint_writer *w)
{
    if (!w) return;
    msi_publish_free(w->publish);
    msi_free(w);
}

int msi_checkpoint_begin(msi_checkpoint_writer **out, const char *path, const msi_checkpoint_run *run)
{
    file_header head = {.version = VERSION, .order = ORDER, .options = run->options, .sets = run->sets};
    msi_checkpoint_writer *w;
    int fd;
    *out = NULL;
    MSI_TRY(msi_checkpoint_check_place(path));
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    head.checksum = msi_hash(0, &head, offsetof(file_header, checksum));
    MSI_TRY(msi_alloc(&w, 1, sizeof *w, "a checkpoint"));
    w->checksum = head.checksum;
    int rc = msi_publish_plan(&w->publish, &path, 1, 1);
    if (!rc) rc = msi_publish_begin(w->publish, 0, &fd);
    if (!rc) rc = msi_publish_write(w->publish, 0, &head, sizeof head);
    if (rc)
        checkpoint_discard(w);
    else
        *out = w;
    return rc;
}

static uint64_t section_checksum(uint64_t before, const section_header *head, const void *data)
{
    const uint64_t hash = msi_hash(before, head, offsetof(section_header, checksum));
    uint64_t sum = hash;
    for (int64_t done = 0; done < head->bytes; done += CHUNK)
        sum = msi_hash(sum, (const char *)data + done, head->bytes - done < CHUNK ? head->bytes - done : CHUNK);
    return sum;
}

static int put_section(msi_checkpoint_writer *w, int64_t kind, int64_t index, const void *data, int64_t bytes)
{
    section_header head = {.kind = kind, .index = index, .bytes = bytes};
    w->checksum = head.checksum = section_checksum(w->checksum, &head, data);
    MSI_TRY(msi_publish_write(w->publish, 0, &head, sizeof head));
    return msi_publish_write(w->publish, 0, data, (size_t)bytes);
}

int msi_checkpoint_put(msi_checkpoint_writer *w, msi_checkpoint_kind kind, int64_t index, const void *data,
                       int64_t bytes)
{
    w->n_section++;
    return put_section(w, kind, index, data, bytes);
}

int msi_checkpoint_commit(msi_checkpoint_writer *w)
{
    int rc = put_section(w, END, w->n_section, "", 0);
    if (!rc) rc = msi_publish_seal(w->publish, 0);
    if (!rc) rc = msi_publish_commit(w->publish);
    checkpoint_discard(w);
    return rc;
}

int64_t msi_checkpoint_bytes(int64_t n_section, int64_t data_bytes)
{
    return (int64_t)sizeof(file_header) + (n_section + 1) * (int64_t)sizeof(section_header) + data_bytes;
}

int msi_checkpoint_remove(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0 && errno == ENOENT) return MSI_OK;
    if (!may_replace(path) || unlink(path) == 0 || errno == ENOENT) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "%s: cannot be removed: %s", path, strerror(errno));
}

int msi_checkpoint_keep(const char *path, char *kept, size_t size)
{
    enum { MOST = 9999 };
    struct stat st;
    for (int i = 1; i <= MOST; i++) {
        const int n = snprintf(kept, size, "%s.%d", path, i);
        if (n < 0 || (size_t)n >= size) break;
        if (lstat(kept, &st) == 0) continue;
        if (rename(path, kept) == 0) return MSI_OK;
        return msi_error_set(MSI_EOUTPUT, "%s: cannot be renamed to %s: %s", path, kept, strerror(errno));
    }
    return msi_error_set(MSI_EOUTPUT,
                         "%s: the checkpoint of an earlier run, which cannot be kept under another name; "
                         "use -resume to continue from it, or remove it",
                         path);
}

/* ---- The file: reading ---- */

typedef struct section {
    section_header head;
    int64_t offset;  /* offset of the data */
    uint64_t before; /* the checksum before it */
} section;

struct msi_checkpoint {
    int fd;
    int64_t size; /* size of the file */
    section *s;   /* [n_section], space for capacity */
    int64_t n_section, capacity;
    char *path, *chunk;
};

static int damaged(const msi_checkpoint *c, const char *how)
{
    return msi_error_set(MSI_EINPUT, "%s: the checkpoint is damaged: %s", c->path, how);
}

/* Read n bytes at an offset. */
static int read_at(const msi_checkpoint *c, int64_t offset, void *data, int64_t n)
{
    for (int64_t done = 0; done < n;) {
        const ssize_t got = pread(c->fd, (char *)data + done, (size_t)(n - done), offset + done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return msi_error_set(MSI_EINPUT, "%s: cannot be read: %s", c->path, strerror(errno));
        if (got == 0) return damaged(c, "it is truncated");
        done += got;
    }
    return MSI_OK;
}

static int check_header(const msi_checkpoint *c, const msi_checkpoint_run *run, uint64_t *checksum)
{
    file_header head;
    if (c->size < (int64_t)sizeof head) return damaged(c, "it is truncated");
    MSI_TRY(read_at(c, 0, &head, sizeof head));
    if (memcmp(head.magic, MAGIC, sizeof MAGIC) != 0)
        return msi_error_set(MSI_EINPUT, "%s: not a checkpoint of msimage", c->path);
    *checksum = msi_hash(0, &head, offsetof(file_header, checksum));
    if (head.checksum != *checksum) {
        if (head.order != ORDER || head.version != VERSION)
            return msi_error_set(
                MSI_EINPUT, "%s: the checkpoint is damaged, or was written by another version or on another machine",
                c->path);
        return damaged(c, "the checksum of its header is wrong");
    }
    if (head.order != ORDER || head.version != VERSION)
        return msi_error_set(
            MSI_EINPUT,
            "%s: the checkpoint was written by another version (format %u, expected %d) or on another machine", c->path,
            (unsigned)head.version, VERSION);
    if (head.options != run->options)
        return msi_error_set(MSI_EINPUT, "%s: the checkpoint belongs to a run with other options", c->path);
    if (head.sets != run->sets)
        return msi_error_set(MSI_EINPUT, "%s: the checkpoint belongs to other Measurement Sets, or they have changed",
                             c->path);
    return MSI_OK;
}

/* Read the data of a section, into `data` or in chunks, and compare the checksum. */
static int check_section(const msi_checkpoint *c, const section *s, char *data)
{
    uint64_t sum = msi_hash(s->before, &s->head, offsetof(section_header, checksum));
    for (int64_t done = 0; done < s->head.bytes; done += CHUNK) {
        const int64_t n = s->head.bytes - done < CHUNK ? s->head.bytes - done : CHUNK;
        char *to = data ? data + done : c->chunk;
        MSI_TRY(msi_interrupt_check());
        MSI_TRY(read_at(c, s->offset + done, to, n));
        sum = msi_hash(sum, to, n);
    }
    return sum == s->head.checksum ? MSI_OK : damaged(c, "the checksum of a section is wrong");
}

static int keep_section(msi_checkpoint *c, const section *s)
{
    if (c->n_section == c->capacity) {
        MSI_TRY(msi_grow(&c->s, c->n_section, 2 * c->capacity + 16, sizeof *c->s, "a checkpoint"));
        c->capacity = 2 * c->capacity + 16;
    }
    c->s[c->n_section++] = *s;
    return MSI_OK;
}

static int check_sections(msi_checkpoint *c, uint64_t checksum)
{
    for (int64_t offset = sizeof(file_header);;) {
        section s = {.before = checksum};
        if (c->size - offset < (int64_t)sizeof s.head) return damaged(c, "it is truncated");
        MSI_TRY(read_at(c, offset, &s.head, sizeof s.head));
        s.offset = offset + (int64_t)sizeof s.head;
        if (s.head.bytes < 0 || s.head.bytes > c->size - s.offset)
            return damaged(c, "a section is longer than the file");
        MSI_TRY(check_section(c, &s, NULL));
        checksum = s.head.checksum;
        offset = s.offset + s.head.bytes;
        if (s.head.kind != END) {
            MSI_TRY(keep_section(c, &s));
            continue;
        }
        if (s.head.index != c->n_section || s.head.bytes) return damaged(c, "sections are missing");
        return offset == c->size ? MSI_OK : damaged(c, "there are data after its end");
    }
}

static int open_file(msi_checkpoint *c, const char *path)
{
    struct stat st;
    const int64_t length = (int64_t)strlen(path) + 1;
    c->fd = -1;
    MSI_TRY(msi_alloc(&c->path, length, 1, "a checkpoint"));
    memcpy(c->path, path, (size_t)length);
    MSI_TRY(msi_alloc(&c->chunk, CHUNK, 1, "a checkpoint"));
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0 && errno == ENOENT)
        return msi_error_set(MSI_EINPUT, "%s: there is no checkpoint to resume from", path);
    if (c->fd < 0 || fstat(c->fd, &st) != 0)
        return msi_error_set(MSI_EINPUT, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return msi_error_set(MSI_EINPUT, "%s: not a checkpoint of msimage", path);
    c->size = st.st_size;
    return MSI_OK;
}

int msi_checkpoint_open(msi_checkpoint **out, const char *path, const msi_checkpoint_run *run)
{
    msi_checkpoint *c;
    uint64_t checksum = 0;
    *out = NULL;
    MSI_TRY(msi_alloc(&c, 1, sizeof *c, "a checkpoint"));
    int rc = open_file(c, path);
    if (!rc) rc = check_header(c, run, &checksum);
    if (!rc) rc = check_sections(c, checksum);
    if (rc)
        msi_checkpoint_close(c);
    else
        *out = c;
    return rc;
}

static const section *find_section(const msi_checkpoint *c, msi_checkpoint_kind kind, int64_t index)
{
    for (int64_t i = 0; i < c->n_section; i++)
        if (c->s[i].head.kind == (int64_t)kind && c->s[i].head.index == index) return &c->s[i];
    return NULL;
}

int64_t msi_checkpoint_size(const msi_checkpoint *c, msi_checkpoint_kind kind, int64_t index)
{
    const section *s = find_section(c, kind, index);
    return s ? s->head.bytes : -1;
}

int msi_checkpoint_get(const msi_checkpoint *c, msi_checkpoint_kind kind, int64_t index, void *data, int64_t bytes)
{
    const section *s = find_section(c, kind, index);
    if (!s) return damaged(c, "a section is missing");
    if (s->head.bytes != bytes) return damaged(c, "a section has the wrong size");
    return check_section(c, s, data);
}

void msi_checkpoint_close(msi_checkpoint *c)
{
    if (!c) return;
    if (c->fd >= 0) close(c->fd);
    msi_free(c->s);
    msi_free(c->path);
    msi_free(c->chunk);
    msi_free(c);
}

/* ---- The checkpoint of a field ---- */

/* The counters of a group as the file stores them. */
typedef struct counters {
    char stop[MSI_CLEAN_STOP_TEXT]; /* "": cleaning continues */
    int32_t in_mask, mask_major, n_back, n_idle, n_major, unused;
    double dirty_peak, dirty_noise, first_peak, mgain, noise, threshold, peak, peak_before, noise_before, best_peak,
        flux_jy, flux_before, accuracy; /* accuracy is the field's */
    int64_t n_minor;
} counters;

static int n_residual(const msi_clean_field *f)
{
    return msi_planes_shape_of(f->residual)->n;
}

/* ---- Saving a field ---- */

static int64_t plane_bytes(const msi_clean_field *f)
{
    return msi_planes_bytes(msi_planes_shape_of(f->model)) / msi_planes_shape_of(f->model)->n;
}

/* Return the bytes of the mask of found components: two for each pixel, a bit for each scale. */
static int64_t found_bytes(const msi_clean_field *f)
{
    return msi_image_n_pixel(&f->spec.geometry) * (int64_t)sizeof(uint16_t);
}

int64_t msi_checkpoint_field_bytes(const msi_image_geometry *g, int n_plane, int n_group, msi_precision precision)
{
    const int64_t n_pixel = msi_image_n_pixel(g);
    return msi_checkpoint_bytes(n_plane + 2 * n_group + 1, n_plane * n_pixel * msi_image_pixel_bytes(precision) +
                                                               n_group * (n_pixel * 2 + (int64_t)sizeof(counters)));
}

static int save_sources(msi_checkpoint_writer *w, const msi_source_list *list, int index)
{
    const int64_t bytes = msi_source_list_bytes(list);
    void *data;
    MSI_TRY(msi_alloc(&data, bytes, 1, "a list of sources"));
    msi_source_list_save(list, data);
    const int rc = msi_checkpoint_put(w, MSI_CHECKPOINT_SOURCES, index, data, bytes);
    msi_free(data);
    return rc;
}

/* Given: buffer  space for one plane */
static int save_group(msi_checkpoint_writer *w, const msi_clean_field *f, int index, void *buffer)
{
    const msi_clean_group *g = &f->group[index];
    const int64_t bytes = found_bytes(f);
    counters c = {.in_mask = g->in_mask,
                  .mask_major = g->mask_major,
                  .n_back = g->n_back,
                  .n_idle = g->n_idle,
                  .n_major = g->n_major,
                  .dirty_peak = g->dirty_peak,
                  .dirty_noise = g->dirty_noise,
                  .first_peak = g->first_peak,
                  .mgain = g->mgain,
                  .noise = g->noise,
                  .threshold = g->threshold,
                  .peak = g->peak,
                  .peak_before = g->peak_before,
                  .noise_before = g->noise_before,
                  .best_peak = g->best_peak,
                  .flux_jy = g->flux_jy,
                  .flux_before = g->flux_before,
                  .accuracy = f->accuracy,
                  .n_minor = g->n_minor};
    if (g->stop) snprintf(c.stop, sizeof c.stop, "%s", g->stop);
    MSI_TRY(msi_checkpoint_put(w, MSI_CHECKPOINT_COUNTERS, index, &c, sizeof c));
    if (!g->cleaner) return MSI_OK;
    if (g->sources) MSI_TRY(save_sources(w, g->sources->list, index));
    if (g->auto_mask) {
        MSI_TRY(msi_auto_mask_fetch(g->auto_mask, buffer));
        MSI_TRY(msi_checkpoint_put(w, MSI_CHECKPOINT_MASK, index, buffer, bytes / 2)); /* one byte per pixel */
    }
    MSI_TRY(msi_cleaner_found(g->cleaner, buffer));
    return msi_checkpoint_put(w, MSI_CHECKPOINT_FOUND, index, buffer, bytes);
}

static int save_sections(msi_checkpoint_writer *w, const msi_clean_field *f, const msi_clean_history *history,
                         void *buffer)
{
    for (int p = 0; p < f->n_cleaned * f->spec.n_pol; p++) {
        MSI_TRY(msi_planes_fetch(msi_clean_field_model(f), p, 1, buffer));
        MSI_TRY(msi_checkpoint_put(w, MSI_CHECKPOINT_MODEL, p, buffer, plane_bytes(f)));
    }
    for (int i = 0; i < f->n_group; i++) MSI_TRY(save_group(w, f, i, buffer));
    for (int p = 0; f->first_residual && p < n_residual(f); p++)
        MSI_TRY(msi_checkpoint_put(w, MSI_CHECKPOINT_FIRST, p, (char *)f->first_residual + p * plane_bytes(f),
                                   plane_bytes(f)));
    return msi_checkpoint_put(w, MSI_CHECKPOINT_HISTORY, 0, history->step, history->n * (int64_t)sizeof *history->step);
}

int msi_checkpoint_save_field(msi_clean_field *f, const msi_clean_history *history, const char *path,
                              const msi_checkpoint_run *run)
{
    msi_checkpoint_writer *w;
    void *buffer;
    MSI_TRY(msi_alloc_paged(&buffer, plane_bytes(f), 1, "checkpoint"));
    int rc = msi_checkpoint_begin(&w, path, run);
    if (!rc) rc = save_sections(w, f, history, buffer);
    if (!rc)
        rc = msi_checkpoint_commit(w);
    else
        checkpoint_discard(w);
    msi_free(buffer);
    return rc;
}

/* ---- Loading a field ---- */

/* Images of the same data differ by at most their accuracy and by rounding. The factor 30 allows for noise far below
 * the rms to which the accuracy refers. The limit of 10 % keeps a coarse accuracy from accepting other data. */
static int same_dirty(double a, double b, double accuracy)
{
    return fabs(a - b) <= fmin(0.1, 30 * accuracy) * fmax(fabs(a), fabs(b));
}

/* Compare dirty images: other sets, such as another night or column, can have the same sums of weights. */
static int check_data(const msi_checkpoint *from, const msi_clean_field *f, const char *path)
{
    const double accuracy = f->spec.accuracy;
    for (int i = 0; i < f->n_group; i++) {
        const msi_clean_group *g = &f->group[i];
        counters c;
        MSI_TRY(msi_checkpoint_get(from, MSI_CHECKPOINT_COUNTERS, i, &c, sizeof c));
        if (!same_dirty(g->dirty_peak, c.dirty_peak, accuracy) || !same_dirty(g->dirty_noise, c.dirty_noise, accuracy))
            return msi_error_set(MSI_EINPUT,
                                 "%s: the checkpoint belongs to other Measurement Sets or solutions, or they have "
                                 "changed",
                                 path);
    }
    return MSI_OK;
}

static int load_sources(const msi_checkpoint *from, msi_source_list *list, int index)
{
    const int64_t bytes = msi_checkpoint_size(from, MSI_CHECKPOINT_SOURCES, index);
    void *data;
    MSI_TRY(msi_alloc(&data, bytes > 0 ? bytes : 1, 1, "a list of sources"));
    int rc = msi_checkpoint_get(from, MSI_CHECKPOINT_SOURCES, index, data, bytes);
    if (!rc) rc = msi_source_list_load(list, data, bytes);
    msi_free(data);
    return rc;
}

static int load_group(const msi_checkpoint *from, msi_clean_field *f, int index, void *buffer)
{
    msi_clean_group *g = &f->group[index];
    const int64_t bytes = found_bytes(f);
    counters c;
    MSI_TRY(msi_checkpoint_get(from, MSI_CHECKPOINT_COUNTERS, index, &c, sizeof c));
    g->in_mask = c.in_mask;
    g->mask_major = c.mask_major;
    g->n_back = c.n_back;
    g->n_idle = c.n_idle;
    g->n_major = g->n_logged = c.n_major;
    g->n_recorded = g->n_major + 1;
    g->first_peak = c.first_peak;
    g->mgain = c.mgain;
    g->noise = c.noise;
    g->threshold = c.threshold;
    g->peak = c.peak;
    g->peak_before = c.peak_before;
    g->noise_before = c.noise_before;
    g->best_peak = c.best_peak;
    g->flux_jy = c.flux_jy;
    g->flux_before = c.flux_before;
    if (c.accuracy < f->accuracy) MSI_TRY(msi_clean_field_refine(f, c.accuracy));
    g->n_minor = c.n_minor;
    memcpy(g->stop_text, c.stop, sizeof g->stop_text);
    g->stop_text[sizeof g->stop_text - 1] = 0;
    g->stop = g->stop_text[0] ? g->stop_text : NULL;
    if (!g->cleaner) return MSI_OK;
    if (g->sources) MSI_TRY(load_sources(from, g->sources->list, index));
    if (g->auto_mask) {
        MSI_TRY(msi_checkpoint_get(from, MSI_CHECKPOINT_MASK, index, buffer, bytes / 2));
        MSI_TRY(msi_auto_mask_set(g->auto_mask, buffer, g->n_major + 1));
        MSI_TRY(msi_cleaner_mask(g->cleaner, buffer));
    }
    MSI_TRY(msi_checkpoint_get(from, MSI_CHECKPOINT_FOUND, index, buffer, bytes));
    return msi_cleaner_found_set(g->cleaner, buffer);
}

static int load_history(const msi_checkpoint *from, msi_clean_history *history)
{
    const int64_t bytes = msi_checkpoint_size(from, MSI_CHECKPOINT_HISTORY, 0);
    const int64_t n = bytes / (int64_t)sizeof *history->step;
    msi_clean_step *step;
    if (n < 1) return MSI_OK;
    MSI_TRY(msi_alloc(&step, n, sizeof *step, "steps of cleaning"));
    int rc = msi_checkpoint_get(from, MSI_CHECKPOINT_HISTORY, 0, step, n * (int64_t)sizeof *step);
    msi_clean_history_free(history);
    for (int64_t i = 0; !rc && i < n; i++) rc = msi_clean_history_add(history, &step[i]);
    msi_free(step);
    return rc;
}

static int load_sections(const msi_checkpoint *from, msi_clean_field *f, msi_clean_history *history, void *buffer)
{
    for (int p = 0; p < f->n_cleaned * f->spec.n_pol; p++) {
        MSI_TRY(msi_checkpoint_get(from, MSI_CHECKPOINT_MODEL, p, buffer, plane_bytes(f)));
        MSI_TRY(msi_planes_upload(msi_clean_field_model(f), p, 1, buffer));
    }
    for (int i = 0; i < f->n_group; i++) MSI_TRY(load_group(from, f, i, buffer));
    /* The caller makes the residual again. Until then it is the first one. */
    for (int p = 0; f->spec.options->save_first_residual && p < n_residual(f); p++) {
        MSI_TRY(msi_checkpoint_get(from, MSI_CHECKPOINT_FIRST, p, buffer, plane_bytes(f)));
        MSI_TRY(msi_planes_upload(f->residual, p, 1, buffer));
    }
    return load_history(from, history);
}

int msi_checkpoint_load_field(msi_clean_field *f, msi_clean_history *history, const char *path,
                              const msi_checkpoint_run *run, int *found)
{
    msi_checkpoint *from;
    void *buffer;
    *found = access(path, F_OK) == 0;
    if (!*found) return MSI_OK;
    MSI_TRY(msi_checkpoint_open(&from, path, run));
    int rc = check_data(from, f, path);
    if (!rc) rc = msi_alloc_paged(&buffer, plane_bytes(f), 1, "checkpoint");
    if (!rc) {
        rc = load_sections(from, f, history, buffer);
        msi_free(buffer);
    }
    msi_checkpoint_close(from);
    return rc;
}
