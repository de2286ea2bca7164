/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/msv/msv_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"

/* A pair of setup and field. Ordinals of rows count the rows of a pair. */
typedef struct pair {
    int32_t data_desc_id, field_id;
    int64_t n_row;
} pair;

/* A run and its time; the time's index is not known yet. */
typedef struct timed_run {
    msi_msv_run run;
    double time_s;
} timed_run;

struct msi_msv_output {
    const char *name;
    int fd;
    int64_t at;
    msi_msv_counts tally;
    char *buffer; /* a chunk, or the index */
    int64_t n_buffer;
    int64_t n_pair, n_pair_allocated, n_run, n_run_allocated, n_chunk, n_chunk_allocated;
    pair *pair;
    timed_run *run;
    msi_msv_chunk *chunk;
    double *time_s; /* [n_time] */
    int64_t n_time;
};

int msi_msv_output_make(msi_msv_output **out, const char *path, const char *name)
{
    msi_msv_output *o;
    *out = NULL;
    MSI_TRY(msi_alloc(&o, 1, sizeof *o, "a visibility store"));
    o->name = name;
    o->at = MSI_MSV_HEADER_BYTES;
    o->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (o->fd < 0) {
        const int status = msi_error_set(MSI_EOUTPUT, "%s: %s", name, strerror(errno));
        msi_free(o);
        return status;
    }
    *out = o;
    return MSI_OK;
}

static int write_at(msi_msv_output *o, const void *bytes, int64_t n, int64_t at)
{
    for (const char *p = bytes; n > 0;) {
        const ssize_t done = pwrite(o->fd, p, (size_t)n, at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return msi_error_set(MSI_EOUTPUT, "%s: %s", o->name, strerror(done < 0 ? errno : EIO));
        p += done;
        at += done;
        n -= done;
    }
    return MSI_OK;
}

/* Grow an array of n elements, so that one more fits. */
static int grow_array(void *array, int64_t *n_allocated, int64_t n, size_t size)
{
    if (n < *n_allocated) return MSI_OK;
    const int64_t more = *n_allocated ? 2 * *n_allocated : 256;
    MSI_TRY(msi_grow(array, n, more, size, "the index of a visibility store"));
    *n_allocated = more;
    return MSI_OK;
}

/* Fill a buffer for a chunk or the index with zeros. */
static int clear_buffer(msi_msv_output *o, int64_t bytes)
{
    if (o->n_buffer < bytes) {
        o->n_buffer = 0;
        MSI_TRY(msi_grow(&o->buffer, 0, bytes, 1, "a part of a visibility store"));
        o->n_buffer = bytes;
    }
    memset(o->buffer, 0, (size_t)bytes);
    return MSI_OK;
}

/* ---- Runs ---- */

static int find_pair(msi_msv_output *o, const msi_msv_rows *r, pair **out)
{
    for (int64_t i = o->n_pair; i > 0; i--) {
        *out = &o->pair[i - 1];
        if ((*out)->data_desc_id == r->data_desc_id && (*out)->field_id == r->field_id) return MSI_OK;
    }
    MSI_TRY(grow_array(&o->pair, &o->n_pair_allocated, o->n_pair, sizeof *o->pair));
    *out = &o->pair[o->n_pair++];
    **out = (pair){r->data_desc_id, r->field_id, 0};
    return MSI_OK;
}

static int add_runs(msi_msv_output *o, const msi_msv_rows *r, int64_t ordinal)
{
    for (int64_t i = 0, n; i < r->n_row; i += n) {
        for (n = 1; i + n < r->n_row && r->row[i + n] == r->row[i] + n && r->time_s[i + n] == r->time_s[i];) n++;
        MSI_TRY(grow_array(&o->run, &o->n_run_allocated, o->n_run, sizeof *o->run));
        o->run[o->n_run++] = (timed_run){.run = {.row = r->row[i],
                                                 .ordinal = ordinal + i,
                                                 .n_row = (int32_t)n,
                                                 .data_desc_id = r->data_desc_id,
                                                 .field_id = r->field_id},
                                         .time_s = r->time_s[i]};
    }
    return MSI_OK;
}

/* ---- A chunk ---- */

/* Return 1 if all samples of a row are flagged. */
static int is_empty(const uint8_t *flag, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!flag[i]) return 0;
    return 1;
}

/* Return 1 if all channels of a row have the same weights, bit for bit. */
static int has_equal_weights(const float *weight, int32_t n_chan, int32_t n_corr)
{
    for (int32_t c = 1; c < n_chan; c++)
        if (memcmp(weight + (int64_t)c * n_corr, weight, (size_t)n_corr * sizeof *weight) != 0) return 0;
    return 1;
}

static uint8_t row_state(const msi_msv_rows *r, int64_t i, int64_t n)
{
    if (r->flag_row[i]) return MSI_MSV_ROW_FLAGGED;
    return is_empty(r->flag + i * n, n) ? MSI_MSV_ROW_EMPTY : MSI_MSV_ROW_DATA;
}

/* Return 1 if the samples of a row are stored. Autocorrelations are never imaged. */
static int has_data(const msi_msv_rows *r, int64_t i, int64_t n)
{
    return r->antenna1[i] != r->antenna2[i] && row_state(r, i, n) == MSI_MSV_ROW_DATA;
}

static void choose_storage(const msi_msv_rows *r, msi_msv_chunk *c)
{
    const int64_t n = (int64_t)r->n_chan * r->n_corr;
    c->weights = MSI_MSV_ROW_WEIGHTS;
    c->flags = MSI_MSV_NO_FLAG;
    for (int64_t i = 0; i < r->n_row; i++) {
        if (!has_data(r, i, n)) continue;
        c->n_data_row++;
        if (!has_equal_weights(r->weight + i * n, r->n_chan, r->n_corr)) c->weights = MSI_MSV_WEIGHTS;
        for (int64_t k = 0; k < n; k++)
            if (r->flag[i * n + k]) c->flags = MSI_MSV_FLAG_BITS;
    }
}

static void fill_rows(const msi_msv_rows *r, const msi_msv_layout *l, char *chunk)
{
    const size_t n = (size_t)r->n_row;
    memcpy(chunk + l->uvw_m, r->uvw_m, n * 3 * sizeof *r->uvw_m);
    memcpy(chunk + l->antenna1, r->antenna1, n * sizeof *r->antenna1);
    memcpy(chunk + l->antenna2, r->antenna2, n * sizeof *r->antenna2);
    for (int64_t i = 0; i < r->n_row; i++) chunk[l->state + i] = (char)row_state(r, i, (int64_t)r->n_chan * r->n_corr);
}

static void fill_samples(const msi_msv_rows *r, const msi_msv_chunk *c, const msi_msv_layout *l, char *chunk)
{
    const int64_t n = (int64_t)r->n_chan * r->n_corr;
    const size_t data_bytes = (size_t)n * sizeof *r->data;
    const size_t weight_bytes = (size_t)(c->weights == MSI_MSV_WEIGHTS ? n : r->n_corr) * sizeof *r->weight;
    char *data = chunk + l->data, *weight = chunk + l->weight, *flag = chunk + l->flag;
    for (int64_t i = 0; i < r->n_row; i++) {
        if (!has_data(r, i, n)) continue;
        memcpy(data, r->data + i * n, data_bytes);
        memcpy(weight, r->weight + i * n, weight_bytes);
        data += data_bytes;
        weight += weight_bytes;
        if (c->flags == MSI_MSV_NO_FLAG) continue;
        for (int64_t k = 0; k < n; k++)
            if (r->flag[i * n + k]) flag[k / 8] = (char)(flag[k / 8] | 1 << k % 8);
        flag += l->flag_row_bytes;
    }
}

int msi_msv_output_put(msi_msv_output *o, const msi_msv_rows *r)
{
    pair *p;
    if (r->n_row == 0) return MSI_OK;
    MSI_TRY(find_pair(o, r, &p));
    msi_msv_chunk c = {.at = o->at,
                       .ordinal = p->n_row,
                       .data_desc_id = r->data_desc_id,
                       .field_id = r->field_id,
                       .n_row = (int32_t)r->n_row};
    choose_storage(r, &c);
    const msi_msv_layout l = msi_msv_lay_out(&c, r->n_chan, r->n_corr);
    MSI_TRY(clear_buffer(o, l.bytes));
    fill_rows(r, &l, o->buffer);
    fill_samples(r, &c, &l, o->buffer);
    c.rows_crc = msi_crc4_of(o->buffer, l.rows_bytes);
    c.samples_crc = msi_crc4_of(o->buffer + l.rows_bytes, l.bytes - l.rows_bytes);
    MSI_TRY(add_runs(o, r, p->n_row));
    MSI_TRY(grow_array(&o->chunk, &o->n_chunk_allocated, o->n_chunk, sizeof *o->chunk));
    MSI_TRY(write_at(o, o->buffer, l.bytes, o->at));
    o->chunk[o->n_chunk++] = c;
    o->at += l.bytes;
    p->n_row += r->n_row;
    o->tally.n_row += r->n_row;
    o->tally.n_data_row += c.n_data_row;
    o->tally.bytes = o->at;
    return MSI_OK;
}

/* ---- Index and header ---- */

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int compare_runs(const void *a, const void *b)
{
    const timed_run *x = a, *y = b;
    return (x->run.row > y->run.row) - (x->run.row < y->run.row);
}

static int compare_chunks(const void *a, const void *b)
{
    const msi_msv_chunk *x = a, *y = b;
    if (x->data_desc_id != y->data_desc_id) return x->data_desc_id < y->data_desc_id ? -1 : 1;
    if (x->field_id != y->field_id) return x->field_id < y->field_id ? -1 : 1;
    return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

/* List the distinct times in ascending order. */
static int list_times(msi_msv_output *o)
{
    int64_t n = 0;
    MSI_TRY(msi_alloc(&o->time_s, o->n_run, sizeof *o->time_s, "distinct times"));
    for (int64_t i = 0; i < o->n_run; i++) o->time_s[i] = o->run[i].time_s;
    qsort(o->time_s, (size_t)o->n_run, sizeof *o->time_s, compare_times);
    for (int64_t i = 0; i < o->n_run; i++)
        if (n == 0 || o->time_s[i] != o->time_s[n - 1]) o->time_s[n++] = o->time_s[i];
    o->n_time = n;
    return MSI_OK;
}

/* Sort runs by row, set the indices of their times, and join runs that blocks have split. */
static void order_runs(msi_msv_output *o)
{
    int64_t n = 0;
    qsort(o->run, (size_t)o->n_run, sizeof *o->run, compare_runs);
    for (int64_t i = 0; i < o->n_run; i++) {
        msi_msv_run r = o->run[i].run;
        const double *at = bsearch(&o->run[i].time_s, o->time_s, (size_t)o->n_time, sizeof *at, compare_times);
        r.time = (int32_t)(at - o->time_s);
        msi_msv_run *last = n > 0 ? &o->run[n - 1].run : NULL;
        if (last && last->row + last->n_row == r.row && last->time == r.time && last->field_id == r.field_id &&
            last->data_desc_id == r.data_desc_id && last->n_row <= INT32_MAX - r.n_row)
            last->n_row += r.n_row;
        else
            o->run[n++].run = r;
    }
    o->n_run = n;
}

static int write_index(msi_msv_output *o, const msi_msv_origin *origin, msi_msv_header *h)
{
    const int64_t about = msi_msv_aligned(origin->about_bytes);
    const int64_t times = msi_msv_aligned(o->n_time * (int64_t)sizeof *o->time_s);
    const int64_t runs = msi_msv_aligned(o->n_run * (int64_t)sizeof(msi_msv_run));
    const int64_t chunks = msi_msv_aligned(o->n_chunk * (int64_t)sizeof *o->chunk);
    h->index_at = o->at;
    h->index_bytes = about + times + runs + chunks;
    MSI_TRY(clear_buffer(o, h->index_bytes));
    memcpy(o->buffer, origin->about, (size_t)origin->about_bytes);
    memcpy(o->buffer + about, o->time_s, (size_t)o->n_time * sizeof *o->time_s);
    for (int64_t i = 0; i < o->n_run; i++)
        memcpy(o->buffer + about + times + i * (int64_t)sizeof(msi_msv_run), &o->run[i].run, sizeof(msi_msv_run));
    memcpy(o->buffer + about + times + runs, o->chunk, (size_t)o->n_chunk * sizeof *o->chunk);
    h->index_crc = msi_crc4_of(o->buffer, h->index_bytes);
    return write_at(o, o->buffer, h->index_bytes, o->at);
}

int msi_msv_output_finish(msi_msv_output *o, const msi_msv_origin *origin)
{
    if (!o->n_chunk) return msi_error_set(MSI_EINPUT, "%s: no row is selected", origin->set_path);
    MSI_TRY(list_times(o));
    order_runs(o);
    qsort(o->chunk, (size_t)o->n_chunk, sizeof *o->chunk, compare_chunks);
    msi_msv_header h = {.version = MSI_MSV_VERSION,
                        .header_bytes = MSI_MSV_HEADER_BYTES,
                        .about_bytes = origin->about_bytes,
                        .n_time = o->n_time,
                        .n_run = o->n_run,
                        .n_chunk = o->n_chunk,
                        .set_state = origin->set_state};
    memcpy(h.magic, MSI_MSV_MAGIC, sizeof h.magic);
    if (strlen(origin->set_path) >= sizeof h.set_path)
        return msi_error_set(MSI_EOUTPUT, "%s: the path of its Measurement Set is too long", o->name);
    strcpy(h.set_path, origin->set_path);
    MSI_TRY(write_index(o, origin, &h));
    h.file_bytes = h.index_at + h.index_bytes;
    h.crc = msi_crc32c(&h, offsetof(msi_msv_header, crc));
    MSI_TRY(write_at(o, &h, sizeof h, 0));
    o->tally.bytes = h.file_bytes;
    const int failed = close(o->fd);
    o->fd = -1;
    return failed ? msi_error_set(MSI_EOUTPUT, "%s: %s", o->name, strerror(errno)) : MSI_OK;
}

msi_msv_counts msi_msv_output_counts(const msi_msv_output *o)
{
    return o->tally;
}

void msi_msv_output_free(msi_msv_output *o)
{
    if (!o) return;
    if (o->fd >= 0) close(o->fd);
    msi_free(o->buffer);
    msi_free(o->pair);
    msi_free(o->run);
    msi_free(o->chunk);
    msi_free(o->time_s);
    msi_free(o);
}
