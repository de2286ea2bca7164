/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads the rows of a block. Consecutive rows are read as a range. Rows with small gaps between them are read together
 * with the gaps. */
#include "io/ms/ms_block.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_metadata.h"

enum {
    RANGE_ROWS = 16, /* ranges with fewer rows on average are read together */
    MAX_SPARSE = 8   /* largest ratio of rows read, gaps included, to rows needed */
};

/* ---- Reading columns of a table ---- */

/* Return the next planned range of a group's rows, NULL after the last one. *i is 0 at first and counts the ranges. */
static const msi_ms_run *next_piece(const msi_ms_reader *r, const msi_ms_group *g, int *i)
{
    while (*i < r->n_piece) {
        const msi_ms_run *p = &r->piece[(*i)++];
        if (p->data_desc_id == g->data_desc_id && p->field_id == g->field_id) return p;
    }
    return NULL;
}

/* A column as it is read: n_element numbers of `size` bytes from each row. */
typedef struct column_part {
    const char *name;
    const ccc_slice *slice; /* NULL: the whole cell */
    ccc_type type;
    int64_t n_element;
    size_t size;
} column_part;

/* Read the rows of a group together with the gaps between them. *done is 0 if the gaps are too large. */
static int read_between(msi_ms_reader *r, const msi_ms_group *g, const column_part *c, void *out, int *done)
{
    msi_ms_raw *w = &r->raw;
    ccc_table *t = r->set[r->set_index].table;
    const int64_t first = w->row[0], n = w->row[g->n_row - 1] - first + 1;
    const size_t row_size = (size_t)c->n_element * c->size;
    int64_t n_alike, shape[CCC_MAX_DIM];
    int ndim;
    *done = 0;
    if (n > MAX_SPARSE * g->n_row) return MSI_OK;
    MSI_CCC(ccc_rows_alike(t, c->name, first, n, &n_alike, &ndim, shape));
    if (n_alike < n) return MSI_OK;
    if (w->n_between_allocated < n * (int64_t)row_size) {
        w->n_between_allocated = 0;
        MSI_TRY(msi_grow(&w->between, 0, n * (int64_t)row_size, 1, "rows read"));
        w->n_between_allocated = n * (int64_t)row_size;
    }
    MSI_CCC(ccc_get_range(t, c->name, first, n, c->slice, c->type, w->between, n * c->n_element));
    char *to = out;
    for (int64_t i = 0; i < g->n_row; i++, to += row_size)
        memcpy(to, w->between + (size_t)(w->row[i] - first) * row_size, row_size);
    *done = 1;
    return MSI_OK;
}

/* Read a column of the rows of a group. */
static int read_column(msi_ms_reader *r, const msi_ms_group *g, const column_part *c, void *out)
{
    ccc_table *t = r->set[r->set_index].table;
    char *at = out;
    if (g->n_piece > 1 && g->n_row < (int64_t)RANGE_ROWS * g->n_piece) {
        int done;
        MSI_TRY(read_between(r, g, c, out, &done));
        if (!done)
            MSI_CCC(ccc_get_rows(t, c->name, r->raw.row, g->n_row, c->slice, c->type, out, g->n_row * c->n_element));
        return MSI_OK;
    }
    const msi_ms_run *p;
    for (int i = 0; (p = next_piece(r, g, &i));) {
        MSI_CCC(ccc_get_range(t, c->name, p->row, p->n_row, c->slice, c->type, at, p->n_row * c->n_element));
        at += (size_t)(p->n_row * c->n_element) * c->size;
    }
    return MSI_OK;
}

/* Read a scalar column of the rows of a group, which are listed in raw.row. */
static int read_scalar(const msi_ms_reader *r, const msi_ms_group *g, msi_ms_scalar k, size_t size, void *out)
{
    const int64_t *row = r->raw.row, n = g->n_row, span = row[n - 1] - row[0] + 1;
    char *to = out;
    for (int64_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && row[j] == row[j - 1] + 1;) j++;
        const int64_t end = span <= MAX_SPARSE * n ? row[n - 1] + 1 : row[j - 1] + 1;
        MSI_TRY(msi_ms_set_scalar(&r->set[r->set_index], k, row[i], j - i, end, to + (size_t)i * size));
    }
    return MSI_OK;
}

/* Read a column of small arrays of the rows of a group, directly if `tiled` has all of these rows in this shape. */
static int read_small(msi_ms_reader *r, const msi_ms_group *g, const msi_tiled_column *tiled, const column_part *c,
                      void *out)
{
    const int64_t *row = r->raw.row, span = row[g->n_row - 1] - row[0] + 1;
    int64_t shape[2] = {0, 0};
    const int64_t n = tiled ? msi_tiled_column_alike(tiled, row[0], span, shape) : 0;
    if (n < span || shape[0] != c->n_element || shape[1] != 1) return read_column(r, g, c, out);
    return msi_tiled_column_read(tiled, row, g->n_row, c->n_element, 0, 1, &r->raw.scratch, out);
}

static int fits(const msi_ms_setup *s, int ndim, const int64_t *shape)
{
    return ndim == 2 && shape[0] == s->n_corr && shape[1] == s->n_stored;
}

/* Return 1 in *all if all rows of a group, and those between them, have cells of the stored shape. This is a fast check
 * that succeeds for most sets. */
static int all_fit(msi_ms_reader *r, const msi_ms_group *g, const char *column, int *all)
{
    const msi_ms_set *set = &r->set[r->set_index];
    const int64_t first = r->raw.row[0], n = r->raw.row[g->n_row - 1] - first + 1;
    int64_t n_alike, shape[CCC_MAX_DIM];
    int ndim;
    *all = 0;
    if (n > MAX_SPARSE * g->n_row) return MSI_OK;
    MSI_CCC(ccc_rows_alike(set->table, column, first, n, &n_alike, &ndim, shape));
    *all = n_alike == n && fits(&set->setup[g->data_desc_id], ndim, shape);
    return MSI_OK;
}

/* Fail unless all cells of a group have the stored shape of its setup. */
static int check_cells(msi_ms_reader *r, const msi_ms_group *g, const char *column)
{
    const msi_ms_set *set = &r->set[r->set_index];
    const msi_ms_setup *s = &set->setup[g->data_desc_id];
    const msi_ms_run *p;
    int all;
    MSI_TRY(all_fit(r, g, column, &all));
    if (all) return MSI_OK;
    for (int i = 0; (p = next_piece(r, g, &i));) {
        int64_t n, shape[CCC_MAX_DIM];
        int ndim;
        MSI_CCC(ccc_rows_alike(set->table, column, p->row, p->n_row, &n, &ndim, shape));
        const int64_t row = fits(s, ndim, shape) ? p->row + n : p->row;
        if (row < p->row + p->n_row)
            return msi_error_set(MSI_EINPUT,
                                 "%s: column %s, row %lld: the shape of the cell is not the %d correlations x %d "
                                 "channels of DATA_DESC_ID %d; exclude or repair the row",
                                 set->path, column, (long long)row, s->n_corr, s->n_stored, g->data_desc_id);
    }
    return MSI_OK;
}

/* Check which rows of a group have a WEIGHT_SPECTRUM of the data's shape: all (1), none (0) or some (-1). */
static int spectrum_state(msi_ms_reader *r, const msi_ms_group *g, int *state)
{
    const msi_ms_set *set = &r->set[r->set_index];
    const msi_ms_run *p;
    int64_t n_with = 0;
    *state = 0;
    if (!set->has_weight_spectrum) return MSI_OK;
    MSI_TRY(all_fit(r, g, "WEIGHT_SPECTRUM", state));
    if (*state == 1) return MSI_OK;
    for (int i = 0; (p = next_piece(r, g, &i));)
        for (int64_t done = 0, n; done < p->n_row; done += n) {
            int64_t shape[CCC_MAX_DIM];
            int ndim;
            MSI_CCC(ccc_rows_alike(set->table, "WEIGHT_SPECTRUM", p->row + done, p->n_row - done, &n, &ndim, shape));
            if (fits(&set->setup[g->data_desc_id], ndim, shape)) n_with += n;
        }
    *state = n_with == g->n_row ? 1 : n_with == 0 ? 0 : -1;
    return MSI_OK;
}

/* Copy the WEIGHT of n rows to all channels of the span. */
static void spread_weight(const msi_ms_setup *s, const float *row_weight, int64_t n, float *out)
{
    const int64_t n_all = (int64_t)s->n_span * s->n_corr;
    for (int64_t i = 0; i < n; i++, out += n_all) {
        memcpy(out, row_weight + i * s->n_corr, (size_t)s->n_corr * sizeof *out);
        for (int64_t has = s->n_corr; has < n_all; has *= 2)
            memcpy(out + has, out, (size_t)(has < n_all - has ? has : n_all - has) * sizeof *out);
    }
}

/* Read the WEIGHT of the rows of a group. */
static int read_row_weight(msi_ms_reader *r, const msi_ms_group *g, const msi_ms_setup *s)
{
    const column_part c = {"WEIGHT", NULL, CCC_FLOAT, s->n_corr, sizeof *r->raw.row_weight};
    return read_small(r, g, r->set[r->set_index].weight, &c, r->raw.row_weight);
}

static int read_weight(msi_ms_reader *r, const msi_ms_group *g, const ccc_slice *slice, float *out)
{
    const msi_ms_set *set = &r->set[r->set_index];
    const msi_ms_setup *s = &set->setup[g->data_desc_id];
    const int64_t n_row_sample = (int64_t)s->n_span * s->n_corr;
    int state;
    MSI_TRY(spectrum_state(r, g, &state));
    if (state == 1)
        return read_column(r, g, &(column_part){"WEIGHT_SPECTRUM", slice, CCC_FLOAT, n_row_sample, sizeof *out}, out);
    MSI_TRY(read_row_weight(r, g, s));
    spread_weight(s, r->raw.row_weight, g->n_row, out);
    if (state == 0) return MSI_OK;
    const msi_ms_run *p;
    for (int i = 0; (p = next_piece(r, g, &i)); out += p->n_row * n_row_sample)
        for (int64_t done = 0, n; done < p->n_row; done += n) {
            int64_t shape[CCC_MAX_DIM];
            int ndim;
            MSI_CCC(ccc_rows_alike(set->table, "WEIGHT_SPECTRUM", p->row + done, p->n_row - done, &n, &ndim, shape));
            if (fits(s, ndim, shape))
                MSI_CCC(ccc_get_range(set->table, "WEIGHT_SPECTRUM", p->row + done, n, slice, CCC_FLOAT,
                                      out + done * n_row_sample, n * n_row_sample));
        }
    return MSI_OK;
}

/* ---- Memory ---- */

int msi_ms_buffer_fit_rows(struct msi_ms_buffer *b, int64_t n)
{
    if (b->n_row_allocated >= n) return MSI_OK;
    b->n_row_allocated = 0;
    MSI_TRY(msi_grow(&b->ms_row, 0, n, sizeof *b->ms_row, "a block of rows"));
    MSI_TRY(msi_grow(&b->time_s, 0, n, sizeof *b->time_s, "a block of rows"));
    MSI_TRY(msi_grow(&b->uvw_m, 0, 3 * n, sizeof *b->uvw_m, "a block of rows"));
    MSI_TRY(msi_grow(&b->pair, 0, n, sizeof *b->pair, "a block of rows"));
    MSI_TRY(msi_grow(&b->antenna, 0, 2 * n, sizeof *b->antenna, "a block of rows"));
    b->n_row_allocated = n;
    return MSI_OK;
}

static int grow_rows(msi_ms_reader *r, struct msi_ms_buffer *b, int64_t n)
{
    msi_ms_raw *w = &r->raw;
    if (w->n_row_allocated < n) {
        w->n_row_allocated = 0;
        MSI_TRY(msi_grow(&w->row, 0, n, sizeof *w->row, "rows read"));
        MSI_TRY(msi_grow(&w->antenna1, 0, n, sizeof *w->antenna1, "rows read"));
        MSI_TRY(msi_grow(&w->antenna2, 0, n, sizeof *w->antenna2, "rows read"));
        MSI_TRY(msi_grow(&w->kept, 0, n, sizeof *w->kept, "rows read"));
        MSI_TRY(msi_grow(&w->flag_row, 0, n, sizeof *w->flag_row, "rows read"));
        MSI_TRY(msi_grow(&w->source, 0, n, sizeof *w->source, "rows read"));
        MSI_TRY(msi_grow(&w->row_weight, 0, n * MSI_MAX_CORR, sizeof *w->row_weight, "rows read"));
        w->n_row_allocated = n;
    }
    return msi_ms_buffer_fit_rows(b, n);
}

/* Grow the arrays of samples. Data and weights are allocated only if they are read (has_data). */
static int grow_samples(msi_c32 **data, float **weight, uint8_t **flag, int64_t *n_allocated, int64_t n, int has_data)
{
    if (*n_allocated >= n) return MSI_OK;
    *n_allocated = 0;
    MSI_TRY(msi_grow(flag, 0, n, sizeof **flag, "a block of flags"));
    if (has_data) MSI_TRY(msi_grow(data, 0, n, sizeof **data, "a block of visibilities"));
    if (has_data) MSI_TRY(msi_grow(weight, 0, n, sizeof **weight, "a block of weights"));
    *n_allocated = n;
    return MSI_OK;
}

/* ---- Choosing rows ---- */

/* Return msi_ms_block.pair of two antennas. */
static uint8_t pair_of(const msi_ms_set *set, int32_t a, int32_t b)
{
    return (uint8_t)(set->antenna_kind[a] * MSI_MS_KINDS + set->antenna_kind[b]);
}

/* Return whether the length of a row's baseline is selected. */
static int length_selected(const msi_ms_selection *s, const double *uvw_m)
{
    if (!(s->min_uvw_m > 0) && !(s->max_uvw_m > 0)) return 1;
    const double length2 = uvw_m[0] * uvw_m[0] + uvw_m[1] * uvw_m[1] + uvw_m[2] * uvw_m[2];
    return length2 >= s->min_uvw_m * s->min_uvw_m && (!(s->max_uvw_m > 0) || length2 <= s->max_uvw_m * s->max_uvw_m);
}

/* Return 1 if a row of a group is to be read. Otherwise count it as dropped and return 0. */
static int keep_row(msi_ms_reader *r, const msi_ms_group *g, const msi_ms_row_kind *row)
{
    const int64_t n_chan = r->set[r->set_index].setup[g->data_desc_id].n_chan;
    const int keep_flagged = r->selection.keep_flagged_rows;
    const double *uvw = row->uvw_m;
    int64_t *count = NULL;
    if (!keep_flagged && row->is_autocorrelation)
        count = &r->dropped.autocorrelation;
    else if (!keep_flagged && row->is_flagged)
        count = &r->dropped.flag_row;
    else if (!(fabs(uvw[0]) < MSI_MS_MAX_UVW_M && fabs(uvw[1]) < MSI_MS_MAX_UVW_M && fabs(uvw[2]) < MSI_MS_MAX_UVW_M))
        count = &r->dropped.uvw_not_finite;
    else if (!length_selected(&r->selection, uvw))
        count = &r->dropped.uv_limits;
    if (count) *count += n_chan;
    return !count;
}

/* Read the coordinates, count the dropped rows, and list the others in raw.kept. */
static int read_rows(msi_ms_reader *r, const msi_ms_group *g, struct msi_ms_buffer *b, int64_t *n_kept)
{
    const msi_ms_set *set = &r->set[r->set_index];
    msi_ms_raw *w = &r->raw;
    const msi_ms_run *p;
    int64_t n = 0;
    for (int i = 0; (p = next_piece(r, g, &i));)
        for (int64_t k = 0; k < p->n_row; k++) w->row[n++] = p->row + k;
    MSI_TRY(read_small(r, g, set->uvw, &(column_part){"UVW", NULL, CCC_DOUBLE, 3, sizeof *b->uvw_m}, b->uvw_m));
    MSI_TRY(read_scalar(r, g, MSI_MS_TIME, sizeof *b->time_s, b->time_s));
    memset(w->flag_row, 0, (size_t)n);
    const int reads_kinds = !r->selection.keep_flagged_rows || r->selection.describe_rows;
    if (reads_kinds) {
        MSI_TRY(read_scalar(r, g, MSI_MS_ANTENNA1, sizeof *w->antenna1, w->antenna1));
        MSI_TRY(read_scalar(r, g, MSI_MS_ANTENNA2, sizeof *w->antenna2, w->antenna2));
        if (set->has_flag_row) MSI_TRY(read_scalar(r, g, MSI_MS_FLAG_ROW, sizeof *w->flag_row, w->flag_row));
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *uvw = b->uvw_m + 3 * i;
        const int is_auto = reads_kinds && w->antenna1[i] == w->antenna2[i];
        const msi_ms_row_kind row = {is_auto, w->flag_row[i], {uvw[0], uvw[1], uvw[2]}};
        if (!keep_row(r, g, &row)) continue;
        b->ms_row[kept] = w->row[i];
        b->time_s[kept] = b->time_s[i];
        b->pair[kept] = reads_kinds ? pair_of(set, w->antenna1[i], w->antenna2[i]) : 0;
        b->antenna[2 * kept] = reads_kinds ? w->antenna1[i] : 0;
        b->antenna[2 * kept + 1] = reads_kinds ? w->antenna2[i] : 0;
        memmove(b->uvw_m + 3 * kept, uvw, 3 * sizeof *uvw);
        w->kept[kept++] = (int32_t)i;
    }
    *n_kept = kept;
    return MSI_OK;
}

/* ---- Samples of a table ---- */

/* Copy the kept rows (NULL: all) of `in`, [row][n_span][n_corr], to `out`, [n_kept][n_chan][n_corr], with channels in
 * order. */
static void arrange(const msi_ms_setup *s, const int32_t *kept, int64_t n_kept, const void *in, void *out, size_t size)
{
    const size_t group = (size_t)s->n_corr * size, row_in = (size_t)s->n_span * group;
    const char *from = in;
    char *to = out;
    for (int64_t i = 0; i < n_kept; i++) {
        const char *row = from + (size_t)(kept ? kept[i] : i) * row_in;
        if (s->is_identity) {
            if (row != to) memmove(to, row, row_in);
            to += row_in;
            continue;
        }
        for (int32_t c = 0; c < s->n_chan; c++, to += group)
            memcpy(to, row + (size_t)(s->chan_index[c] - s->span_first) * group, group);
    }
}

/* Subtract the model column, as stored, from the data. */
static int subtract_model(msi_ms_reader *r, const msi_ms_group *g, const ccc_slice *slice, int64_t n_row_sample,
                          msi_c32 *data)
{
    const char *column = r->set[r->set_index].model_column;
    const int64_t n = g->n_row * n_row_sample;
    msi_ms_raw *w = &r->raw;
    if (!*column) return MSI_OK;
    MSI_TRY(check_cells(r, g, column));
    if (w->n_model_allocated < n) {
        w->n_model_allocated = 0;
        MSI_TRY(msi_grow(&w->model, 0, n, sizeof *w->model, "a block of visibilities"));
        w->n_model_allocated = n;
    }
    MSI_TRY(read_column(r, g, &(column_part){column, slice, CCC_COMPLEX, n_row_sample, sizeof *data}, w->model));
    for (int64_t i = 0; i < n; i++) {
        data[i].re -= w->model[i].re;
        data[i].im -= w->model[i].im;
    }
    return MSI_OK;
}

static int read_samples(msi_ms_reader *r, const msi_ms_group *g, struct msi_ms_buffer *b, int64_t n_kept)
{
    const msi_ms_set *set = &r->set[r->set_index];
    const msi_ms_setup *s = &set->setup[g->data_desc_id];
    const int64_t n_row_sample = (int64_t)s->n_span * s->n_corr;
    const ccc_slice part = {.ndim = 2, .start = {0, s->span_first}, .count = {s->n_corr, s->n_span}, .stride = {1, 1}};
    const ccc_slice *slice = s->n_span < s->n_stored ? &part : NULL;
    msi_c32 *data = b->data;
    float *weight = b->weight;
    uint8_t *flag = b->flag;
    MSI_TRY(check_cells(r, g, set->data_column));
    MSI_TRY(check_cells(r, g, "FLAG"));
    if (!s->is_identity) {
        msi_ms_raw *w = &r->raw;
        MSI_TRY(grow_samples(&w->data, &w->weight, &w->flag, &w->n_sample_allocated, g->n_row * n_row_sample, 1));
        data = w->data;
        weight = w->weight;
        flag = w->flag;
    }
    MSI_TRY(read_column(r, g, &(column_part){set->data_column, slice, CCC_COMPLEX, n_row_sample, sizeof *data}, data));
    MSI_TRY(subtract_model(r, g, slice, n_row_sample, data));
    MSI_TRY(read_column(r, g, &(column_part){"FLAG", slice, CCC_BOOL, n_row_sample, sizeof *flag}, flag));
    MSI_TRY(read_weight(r, g, slice, weight));
    if (s->is_identity && n_kept == g->n_row) return MSI_OK;
    arrange(s, r->raw.kept, n_kept, data, b->data, sizeof *data);
    arrange(s, r->raw.kept, n_kept, weight, b->weight, sizeof *weight);
    arrange(s, r->raw.kept, n_kept, flag, b->flag, sizeof *flag);
    return MSI_OK;
}

/* ---- Rows and samples of a visibility store ---- */

/* A part of a planned range of rows that is in one run and one chunk. */
typedef struct row_part {
    const msi_msv_run *run;
    const msi_msv_chunk *chunk;
    int64_t row;      /* row of the set */
    int64_t in_chunk; /* row of the chunk */
    int64_t n_row;
} row_part;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Find the part of at most n rows that begins with a row. */
static int find_row_part(const msi_ms_set *set, const msi_ms_group *g, int64_t row, int64_t n, row_part *s)
{
    const msi_msv_file *f = set->store->file;
    *s = (row_part){.row = row};
    s->run = msi_msv_file_run(f, row);
    const int is_there = s->run && s->run->data_desc_id == g->data_desc_id && s->run->field_id == g->field_id;
    const int64_t ordinal = is_there ? s->run->ordinal + (row - s->run->row) : 0;
    if (is_there) s->chunk = msi_msv_file_chunk(f, g->data_desc_id, g->field_id, ordinal);
    if (!s->chunk) {
        msi_msv_file_damaged(set->path, "its index", f->header->index_at, f->header->index_bytes);
        return MSI_EINPUT;
    }
    s->in_chunk = ordinal - s->chunk->ordinal;
    s->n_row = least(least(n, s->run->row + s->run->n_row - row), s->chunk->n_row - s->in_chunk);
    return MSI_OK;
}

/* The chunk whose rows are being read. */
typedef struct opened_chunk {
    const msi_msv_chunk *chunk;
    msi_msv_layout layout;
    int64_t row, data_row; /* number of rows before the current one, and of those with samples */
} opened_chunk;

static int has_stored_data(const char *base, const msi_msv_layout *l, int64_t i)
{
    int32_t a, b;
    memcpy(&a, base + l->antenna1 + 4 * i, sizeof a);
    memcpy(&b, base + l->antenna2 + 4 * i, sizeof b);
    return a != b && base[l->state + i] == MSI_MSV_ROW_DATA;
}

/* Check a chunk's rows, and that it stores samples for as many of them as its header says. */
static int open_chunk(const msi_ms_set *set, const msi_msv_chunk *chunk, opened_chunk *at)
{
    const msi_ms_setup *s = &set->setup[chunk->data_desc_id];
    const msi_msv_file *f = set->store->file;
    int64_t n = 0;
    *at = (opened_chunk){.chunk = chunk};
    MSI_TRY(msi_msv_file_rows(f, chunk, s->n_stored, s->n_corr, &at->layout));
    for (int64_t i = 0; i < chunk->n_row; i++) n += has_stored_data(f->map + chunk->at, &at->layout, i);
    if (n != chunk->n_data_row)
        return msi_msv_file_damaged(set->path, "a stretch of rows", chunk->at, at->layout.rows_bytes);
    return MSI_OK;
}

/* Return an antenna of a file; 0 if the file is damaged and it is out of range. */
static int32_t stored_antenna(const msi_ms_set *set, int32_t a)
{
    return a >= 0 && a < set->n_antenna ? a : 0;
}

/* Return msi_ms_block.pair of two antennas of a file, which may be damaged. */
static uint8_t stored_pair(const msi_ms_set *set, int32_t a, int32_t b)
{
    const int is_sound = stored_antenna(set, a) == a && stored_antenna(set, b) == b;
    return is_sound ? pair_of(set, a, b) : 0;
}

/* Add the kept rows of a part to the block. */
static void read_stretch(msi_ms_reader *r, const msi_ms_group *g, const row_part *s, opened_chunk *at,
                         struct msi_ms_buffer *b, int64_t *n_kept)
{
    const msi_msv_file *f = r->set[r->set_index].store->file;
    const char *base = f->map + s->chunk->at;
    for (; at->row < s->in_chunk; at->row++) at->data_row += has_stored_data(base, &at->layout, at->row);
    for (int64_t i = 0; i < s->n_row; i++, at->row++) {
        msi_ms_row_kind row = {.is_flagged = base[at->layout.state + at->row] == MSI_MSV_ROW_FLAGGED};
        int32_t a1, a2;
        memcpy(&a1, base + at->layout.antenna1 + 4 * at->row, sizeof a1);
        memcpy(&a2, base + at->layout.antenna2 + 4 * at->row, sizeof a2);
        memcpy(row.uvw_m, base + at->layout.uvw_m + 24 * at->row, sizeof row.uvw_m);
        row.is_autocorrelation = a1 == a2;
        const int with_data = has_stored_data(base, &at->layout, at->row);
        if (keep_row(r, g, &row)) {
            b->ms_row[*n_kept] = s->row + i;
            b->time_s[*n_kept] = f->time_s[s->run->time];
            b->pair[*n_kept] = stored_pair(&r->set[r->set_index], a1, a2);
            b->antenna[2 * *n_kept] = stored_antenna(&r->set[r->set_index], a1);
            b->antenna[2 * *n_kept + 1] = stored_antenna(&r->set[r->set_index], a2);
            memcpy(b->uvw_m + 3 * *n_kept, row.uvw_m, sizeof row.uvw_m);
            r->raw.source[(*n_kept)++] = (msi_ms_source){s->chunk, with_data ? at->data_row : -1};
        }
        at->data_row += with_data;
    }
}

/*
 * read_store_rows - read the coordinates of the planned rows of a group into the buffer, without dropped rows.
 * raw.source gets the places of their samples. read_store_samples - read the samples of these rows.
 * Given:    g       planned rows; n_kept  from read_store_rows
 * Returned: *data   the visibilities: in the buffer, or in the store's map if the reader lends them
 * Returns:  0, MSI_EINPUT (the columns are damaged), MSI_ENOMEM
 */
static int read_store_rows(msi_ms_reader *r, const msi_ms_group *g, struct msi_ms_buffer *b, int64_t *n_kept)
{
    const msi_ms_set *set = &r->set[r->set_index];
    opened_chunk at = {0};
    const msi_ms_run *p;
    *n_kept = 0;
    for (int i = 0; (p = next_piece(r, g, &i));)
        for (int64_t done = 0; done < p->n_row;) {
            row_part s;
            MSI_TRY(find_row_part(set, g, p->row + done, p->n_row - done, &s));
            if (s.chunk != at.chunk) MSI_TRY(open_chunk(set, s.chunk, &at));
            read_stretch(r, g, &s, &at, b, n_kept);
            done += s.n_row;
        }
    return MSI_OK;
}

/* Unpack n flags, from bit `first` on, into a byte each. */
static void spread_flags(const char *bits, int64_t first, int64_t n, uint8_t *out)
{
    int64_t i = 0;
    for (; first % 8 == 0 && i + 8 <= n; i += 8) {
        /* Each byte keeps one of the eight bits. Adding 127 carries that bit into the highest one. */
        const uint64_t eight = (uint64_t)(uint8_t)bits[(first + i) / 8] * 0x0101010101010101U & 0x8040201008040201U;
        const uint64_t ones = (eight + 0x7f7f7f7f7f7f7f7fU) >> 7 & 0x0101010101010101U;
        memcpy(out + i, &ones, sizeof ones);
    }
    for (; i < n; i++) out[i] = (uint8_t)bits[(first + i) / 8] >> (first + i) % 8 & 1;
}

/* Copy the values of a row, [channel][n_corr], from the stored order of channels to that of the block. */
static void arrange_stored_row(const msi_ms_setup *s, const char *row, char *to, size_t size)
{
    const size_t group = (size_t)s->n_corr * size;
    if (s->is_identity) {
        memcpy(to, row + (size_t)s->span_first * group, (size_t)s->n_chan * group);
        return;
    }
    for (int32_t c = 0; c < s->n_chan; c++)
        memcpy(to + (size_t)c * group, row + (size_t)s->chan_index[c] * group, group);
}

static void copy_stored_weights(const msi_ms_setup *s, const msi_msv_chunk *c, const char *weights, int64_t row,
                                float *out)
{
    const size_t group = (size_t)s->n_corr * sizeof *out;
    if (c->weights == MSI_MSV_WEIGHTS) {
        arrange_stored_row(s, weights + (size_t)(row * s->n_stored) * group, (char *)out, sizeof *out);
        return;
    }
    for (int32_t k = 0; k < s->n_chan; k++) memcpy(out + (int64_t)k * s->n_corr, weights + (size_t)row * group, group);
}

static void copy_stored_flags(const msi_ms_setup *s, const char *bits, uint8_t *out)
{
    if (s->is_identity) {
        spread_flags(bits, (int64_t)s->span_first * s->n_corr, (int64_t)s->n_chan * s->n_corr, out);
        return;
    }
    for (int32_t k = 0; k < s->n_chan; k++)
        spread_flags(bits, (int64_t)s->chan_index[k] * s->n_corr, s->n_corr, out + (int64_t)k * s->n_corr);
}

/* Set the samples of a row that has none in the store to flagged zeros. */
static void clear_row(int64_t n, msi_c32 *data, float *weight, uint8_t *flag)
{
    memset(data, 0, (size_t)n * sizeof *data);
    memset(weight, 0, (size_t)n * sizeof *weight);
    memset(flag, 1, (size_t)n);
}

/* Return 1 if the store has the data of a block in the layout of the block. */
static int can_lend_data(const msi_ms_reader *r, const msi_ms_setup *s, int64_t n_kept)
{
    const msi_ms_source *source = r->raw.source;
    if (!r->lends || !s->is_identity || s->n_chan != s->n_stored || source[0].row < 0) return 0;
    for (int64_t i = 1; i < n_kept; i++)
        if (source[i].chunk != source[0].chunk || source[i].row != source[0].row + i) return 0;
    return 1;
}

static int read_store_samples(const msi_ms_reader *r, const msi_ms_group *g, struct msi_ms_buffer *b, int64_t n_kept,
                              const msi_c32 **data)
{
    const msi_ms_set *set = &r->set[r->set_index];
    const msi_ms_setup *s = &set->setup[g->data_desc_id];
    const msi_msv_file *f = set->store->file;
    const int64_t n = (int64_t)s->n_chan * s->n_corr, n_stored = (int64_t)s->n_stored * s->n_corr;
    const int is_lent = can_lend_data(r, s, n_kept);
    const msi_msv_chunk *checked = NULL;
    msi_msv_layout l = {0};
    *data = b->data;
    for (int64_t i = 0; i < n_kept; i++) {
        const msi_msv_chunk *c = r->raw.source[i].chunk;
        const int64_t row = r->raw.source[i].row;
        if (row < 0) {
            clear_row(n, b->data + i * n, b->weight + i * n, b->flag + i * n);
            continue;
        }
        const char *base = f->map + c->at;
        if (c != checked) {
            l = msi_msv_lay_out(c, s->n_stored, s->n_corr);
            MSI_TRY(msi_msv_file_samples(f, c, &l));
            checked = c;
            if (is_lent) *data = (const msi_c32 *)(const void *)(base + l.data) + row * n_stored;
        }
        if (!is_lent)
            arrange_stored_row(s, base + l.data + row * n_stored * 8, (char *)(b->data + i * n), sizeof *b->data);
        copy_stored_weights(s, c, base + l.weight, row, b->weight + i * n);
        if (c->flags == MSI_MSV_FLAG_BITS)
            copy_stored_flags(s, base + l.flag + row * l.flag_row_bytes, b->flag + i * n);
        else
            memset(b->flag + i * n, 0, (size_t)n);
    }
    return MSI_OK;
}

/* ---- Rows and samples of a UVFITS or FITS-IDI file ---- */

static int read_uv_rows(msi_ms_reader *r, const msi_ms_group *g, struct msi_ms_buffer *b, int64_t *n_kept)
{
    msi_ms_raw *w = &r->raw;
    const msi_ms_run *p;
    int64_t n = 0;
    *n_kept = 0;
    for (int i = 0; (p = next_piece(r, g, &i));)
        for (int64_t k = 0; k < p->n_row; k++, n++) {
            msi_uv_row row;
            MSI_TRY(msi_uv_set_row(r->set[r->set_index].uv, p->row + k, &row));
            msi_ms_row_kind kind = {.is_autocorrelation = row.antenna1 == row.antenna2};
            memcpy(kind.uvw_m, row.uvw_m, sizeof kind.uvw_m);
            w->antenna1[n] = row.antenna1;
            w->antenna2[n] = row.antenna2;
            w->flag_row[n] = 0;
            if (!keep_row(r, g, &kind)) continue;
            b->ms_row[*n_kept] = p->row + k;
            b->time_s[*n_kept] = row.time_s;
            b->pair[*n_kept] = pair_of(&r->set[r->set_index], row.antenna1, row.antenna2);
            b->antenna[2 * *n_kept] = row.antenna1;
            b->antenna[2 * *n_kept + 1] = row.antenna2;
            memcpy(b->uvw_m + 3 * *n_kept, row.uvw_m, sizeof row.uvw_m);
            w->kept[(*n_kept)++] = (int32_t)n;
        }
    return MSI_OK;
}

static int read_uv_samples(const msi_ms_reader *r, const msi_ms_group *g, struct msi_ms_buffer *b, int64_t n_kept)
{
    const msi_ms_set *set = &r->set[r->set_index];
    const msi_ms_setup *s = &set->setup[g->data_desc_id];
    const int64_t n = (int64_t)s->n_chan * s->n_corr;
    for (int64_t i = 0; i < n_kept; i++) {
        const msi_uv_samples to = {s->n_chan, s->chan_index, b->data + i * n, b->weight + i * n, b->flag + i * n};
        MSI_TRY(msi_uv_set_samples(set->uv, b->ms_row[i], &to));
    }
    return MSI_OK;
}

/* ---- Samples of a table, without casacore ---- */

/* Flag the samples outside the uv limits. */
static void limit_uv(const msi_ms_selection *selection, const msi_ms_setup *s, const double *uvw_m, int64_t n_row,
                     uint8_t *flag, msi_ms_dropped *dropped)
{
    const double min2 = selection->min_uv_lambda * selection->min_uv_lambda;
    const double max2 = selection->max_uv_lambda > 0 ? selection->max_uv_lambda * selection->max_uv_lambda : INFINITY;
    if (min2 == 0 && isinf(max2)) return;
    for (int64_t i = 0; i < n_row; i++) {
        const double *uvw = uvw_m + 3 * i;
        const double uv2_m = uvw[0] * uvw[0] + uvw[1] * uvw[1];
        for (int32_t c = 0; c < s->n_chan; c++, flag += s->n_corr) {
            const double uv2 = uv2_m * s->inverse_lambda2[c];
            if (uv2 >= min2 && uv2 <= max2) continue;
            memset(flag, 1, (size_t)s->n_corr);
            dropped->uv_limits++;
            dropped->uv_flagged++;
        }
    }
}

/* Check the cells that are read directly, and read WEIGHT if some rows have no WEIGHT_SPECTRUM. */
static int prepare_fill(msi_ms_reader *r, const msi_ms_group *g, int64_t n_kept)
{
    const msi_ms_set *set = &r->set[r->set_index];
    const msi_ms_setup *s = &set->setup[g->data_desc_id];
    msi_ms_raw *w = &r->raw;
    int state;
    MSI_TRY(check_cells(r, g, set->data_column));
    MSI_TRY(check_cells(r, g, "FLAG"));
    if (*set->model_column) MSI_TRY(check_cells(r, g, set->model_column));
    MSI_TRY(spectrum_state(r, g, &state));
    w->has_row_weight = state != 1;
    if (state == 1) return MSI_OK;
    MSI_TRY(read_row_weight(r, g, s));
    for (int64_t i = 0; i < n_kept; i++)
        memmove(w->row_weight + i * s->n_corr, w->row_weight + (int64_t)w->kept[i] * s->n_corr,
                (size_t)s->n_corr * sizeof *w->row_weight);
    return MSI_OK;
}

/* Read a large column of rows. Each cell must have the stored shape of the setup. */
static int fill_column(const msi_ms_set *set, const msi_ms_setup *s, msi_ms_large k, const int64_t *row, int64_t n,
                       msi_tiled_scratch *scratch, void *out)
{
    int64_t shape[2];
    for (int64_t i = 0; i < n;) {
        const int64_t end = row[i] + msi_tiled_column_alike(set->column[k], row[i], row[n - 1] - row[i] + 1, shape);
        if (shape[0] != s->n_corr || shape[1] != s->n_stored)
            return msi_error_set(MSI_EINPUT, "%s: row %lld: the shape of a cell changed while it was read", set->path,
                                 (long long)row[i]);
        while (i < n && row[i] < end) i++;
    }
    return msi_tiled_column_read(set->column[k], row, n, s->n_corr, s->span_first, s->n_span, scratch, out);
}

/* Read weights: WEIGHT_SPECTRUM of the rows that have it, else WEIGHT. */
static int fill_weights(const msi_ms_set *set, const msi_ms_setup *s, const float *row_weight, const int64_t *row,
                        int64_t n, msi_tiled_scratch *scratch, float *out)
{
    const msi_tiled_column *spectrum = set->column[MSI_MS_SPECTRUM];
    const int64_t n_row_sample = (int64_t)s->n_span * s->n_corr;
    for (int64_t i = 0, j; i < n; i = j) {
        int64_t shape[2] = {0, 0}, end = row[n - 1] + 1;
        if (spectrum) end = row[i] + msi_tiled_column_alike(spectrum, row[i], row[n - 1] - row[i] + 1, shape);
        for (j = i; j < n && row[j] < end;) j++;
        if (shape[0] == s->n_corr && shape[1] == s->n_stored)
            MSI_TRY(fill_column(set, s, MSI_MS_SPECTRUM, row + i, j - i, scratch, out + i * n_row_sample));
        else if (row_weight)
            spread_weight(s, row_weight + i * s->n_corr, j - i, out + i * n_row_sample);
        else
            return msi_error_set(MSI_EINPUT, "%s: column WEIGHT_SPECTRUM, row %lld: changed while it was read",
                                 set->path, (long long)row[i]);
    }
    return MSI_OK;
}

static int fill_model(const msi_ms_set *set, const msi_ms_setup *s, const int64_t *row, int64_t n, msi_ms_raw *w,
                      msi_c32 *data)
{
    const int64_t n_value = n * s->n_span * s->n_corr;
    if (w->n_model_allocated < n_value) {
        w->n_model_allocated = 0;
        MSI_TRY(msi_grow(&w->model, 0, n_value, sizeof *w->model, "a block of visibilities"));
        w->n_model_allocated = n_value;
    }
    MSI_TRY(fill_column(set, s, MSI_MS_MODEL, row, n, &w->scratch, w->model));
    for (int64_t i = 0; i < n_value; i++) {
        data[i].re -= w->model[i].re;
        data[i].im -= w->model[i].im;
    }
    return MSI_OK;
}

int msi_ms_block_fill(const msi_ms_set *set, const msi_ms_selection *selection, const float *row_weight,
                      msi_ms_raw *raw, msi_ms_block *block, msi_ms_dropped *dropped)
{
    const msi_ms_setup *s = &set->setup[block->data_desc_id];
    struct msi_ms_buffer *b = block->buffer;
    const int64_t *row = block->ms_row, n = block->n_row, n_value = n * s->n_span * s->n_corr;
    MSI_TRY(grow_samples(&b->data, &b->weight, &b->flag, &b->n_sample_allocated, n_value, 1));
    msi_c32 *data = b->data;
    float *weight = b->weight;
    uint8_t *flag = b->flag;
    if (!s->is_identity) {
        MSI_TRY(grow_samples(&raw->data, &raw->weight, &raw->flag, &raw->n_sample_allocated, n_value, 1));
        data = raw->data;
        weight = raw->weight;
        flag = raw->flag;
    }
    MSI_TRY(fill_column(set, s, MSI_MS_DATA, row, n, &raw->scratch, data));
    if (set->column[MSI_MS_MODEL]) MSI_TRY(fill_model(set, s, row, n, raw, data));
    MSI_TRY(fill_column(set, s, MSI_MS_FLAG, row, n, &raw->scratch, flag));
    MSI_TRY(fill_weights(set, s, row_weight, row, n, &raw->scratch, weight));
    if (!s->is_identity) {
        arrange(s, NULL, n, data, b->data, sizeof *data);
        arrange(s, NULL, n, weight, b->weight, sizeof *weight);
        arrange(s, NULL, n, flag, b->flag, sizeof *flag);
    }
    limit_uv(selection, s, block->uvw_m, n, b->flag, dropped);
    block->data = b->data;
    block->weight = b->weight;
    block->flag = b->flag;
    return MSI_OK;
}

/* ---- One block ---- */

void msi_ms_block_describe(const msi_ms_reader *r, int set, int data_desc_id, int field_id, struct msi_ms_buffer *b,
                           int64_t n_row, msi_ms_block *block)
{
    const msi_ms_setup *s = &r->set[set].setup[data_desc_id];
    const msi_ms_field *f = &r->set[set].field[field_id];
    const int has_data = !r->selection.coordinates_only;
    *block = (msi_ms_block){.set = set,
                            .field_id = field_id,
                            .data_desc_id = data_desc_id,
                            .spw_id = s->spw_id,
                            .ra_rad = f->ra_rad,
                            .dec_rad = f->dec_rad,
                            .n_row = n_row,
                            .n_chan = s->n_chan,
                            .n_corr = s->n_corr,
                            .corr = s->corr,
                            .freq_hz = s->freq_hz,
                            .chan_index = s->chan_index,
                            .ms_row = b->ms_row,
                            .time_s = b->time_s,
                            .uvw_m = b->uvw_m,
                            .pair = b->pair,
                            .antenna = b->antenna,
                            .data = has_data ? b->data : NULL,
                            .weight = has_data ? b->weight : NULL,
                            .flag = b->flag,
                            .converted = b->converted,
                            .buffer = b};
}

static int read_block(msi_ms_reader *r, const msi_ms_group *g, msi_ms_block *block)
{
    msi_ms_set *set = &r->set[r->set_index];
    const msi_ms_setup *s = &set->setup[g->data_desc_id];
    struct msi_ms_buffer *b = block->buffer;
    const int only_coordinates = r->selection.coordinates_only;
    int64_t n_kept;
    MSI_TRY(msi_ms_set_open(set));
    MSI_TRY(grow_rows(r, b, g->n_row));
    MSI_TRY(set->store ? read_store_rows(r, g, b, &n_kept)
            : set->uv  ? read_uv_rows(r, g, b, &n_kept)
                       : read_rows(r, g, b, &n_kept));
    block->n_row = n_kept;
    r->raw.has_row_weight = 0;
    if (n_kept == 0) return MSI_OK;
    const int is_filled = !only_coordinates && !set->store && !set->uv;
    if (is_filled && !set->only_rows) MSI_TRY(msi_ms_set_open_columns(set));
    if (is_filled && (set->only_rows || set->is_direct)) {
        MSI_TRY(prepare_fill(r, g, n_kept));
        msi_ms_block_describe(r, r->set_index, g->data_desc_id, g->field_id, b, n_kept, block);
        if (set->only_rows) return MSI_OK;
        return msi_ms_block_fill(set, &r->selection, r->raw.has_row_weight ? r->raw.row_weight : NULL, &r->raw, block,
                                 &r->dropped);
    }
    MSI_TRY(grow_samples(&b->data, &b->weight, &b->flag, &b->n_sample_allocated, g->n_row * s->n_span * s->n_corr,
                         !only_coordinates));
    const msi_c32 *data = b->data;
    if (only_coordinates)
        memset(b->flag, 0, (size_t)(n_kept * s->n_chan * s->n_corr));
    else
        MSI_TRY(set->store ? read_store_samples(r, g, b, n_kept, &data)
                : set->uv  ? read_uv_samples(r, g, b, n_kept)
                           : read_samples(r, g, b, n_kept));
    limit_uv(&r->selection, s, b->uvw_m, n_kept, b->flag, &r->dropped);
    msi_ms_block_describe(r, r->set_index, g->data_desc_id, g->field_id, b, n_kept, block);
    if (block->data) block->data = data;
    return MSI_OK;
}

int msi_ms_block_read(msi_ms_reader *r, const msi_ms_group *g, msi_ms_block *block)
{
    const int status = read_block(r, g, block);
    if (status != MSI_OK && status != MSI_EINPUT) return status;
    /* The failure may be due to another process that wrote meanwhile. */
    MSI_TRY(msi_ms_set_recheck(&r->set[r->set_index]));
    return status;
}

void msi_ms_buffer_free(struct msi_ms_buffer *b)
{
    msi_free(b->ms_row);
    msi_free(b->time_s);
    msi_free(b->uvw_m);
    msi_free(b->data);
    msi_free(b->weight);
    msi_free(b->flag);
    msi_free(b->converted);
    msi_free(b->pair);
    msi_free(b->antenna);
    msi_free(b->row_weight);
    *b = (struct msi_ms_buffer){0};
}

void msi_ms_raw_free(msi_ms_raw *w)
{
    msi_free(w->row);
    msi_free(w->antenna1);
    msi_free(w->antenna2);
    msi_free(w->kept);
    msi_free(w->flag_row);
    msi_free(w->row_weight);
    msi_free(w->source);
    msi_free(w->data);
    msi_free(w->weight);
    msi_free(w->flag);
    msi_free(w->model);
    msi_free(w->between);
    msi_tiled_scratch_free(&w->scratch);
    memset(w, 0, sizeof *w);
}
