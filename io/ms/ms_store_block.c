/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A block is filled from a visibility store: rows of one chunk mostly, whose visibilities then need no copy. */
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_store.h"

/* A planned stretch of rows, as far as it lies in one run and one chunk. */
typedef struct stretch {
    const msi_msv_run *run;
    const msi_msv_chunk *chunk;
    int64_t row;      /* of the set */
    int64_t in_chunk; /* of the chunk */
    int64_t n_row;
} stretch;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Find the stretch that begins with a row, of n at most. */
static int find_stretch(const msi_ms_set *set, const msi_ms_group *g, int64_t row, int64_t n, stretch *s)
{
    const msi_msv_file *f = set->store->file;
    *s = (stretch){.row = row};
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

/* ---- Rows ---- */

/* The chunk whose rows are being read. */
typedef struct opened_chunk {
    const msi_msv_chunk *chunk;
    msi_msv_layout layout;
    int64_t row, data_row; /* rows passed, and of those the ones with samples */
} opened_chunk;

static int has_data(const char *base, const msi_msv_layout *l, int64_t i)
{
    int32_t a, b;
    memcpy(&a, base + l->antenna1 + 4 * i, sizeof a);
    memcpy(&b, base + l->antenna2 + 4 * i, sizeof b);
    return a != b && base[l->state + i] == MSI_MSV_ROW_DATA;
}

/* Check a chunk's rows, and that it stores the samples of as many as it says. */
static int open_chunk(const msi_ms_set *set, const msi_msv_chunk *chunk, opened_chunk *at)
{
    const msi_ms_setup *s = &set->setup[chunk->data_desc_id];
    const msi_msv_file *f = set->store->file;
    int64_t n = 0;
    *at = (opened_chunk){.chunk = chunk};
    MSI_TRY(msi_msv_file_rows(f, chunk, s->n_stored, s->n_corr, &at->layout));
    for (int64_t i = 0; i < chunk->n_row; i++) n += has_data(f->map + chunk->at, &at->layout, i);
    if (n != chunk->n_data_row)
        return msi_msv_file_damaged(set->path, "a stretch of rows", chunk->at, at->layout.rows_bytes);
    return MSI_OK;
}

/* Take the rows of a stretch that are kept. */
static void take_rows(msi_ms_reader *r, const msi_ms_group *g, const stretch *s, opened_chunk *at,
                      struct msi_ms_buffer *b, int64_t *n_kept)
{
    const msi_msv_file *f = r->set[r->set_index].store->file;
    const char *base = f->map + s->chunk->at;
    for (; at->row < s->in_chunk; at->row++) at->data_row += has_data(base, &at->layout, at->row);
    for (int64_t i = 0; i < s->n_row; i++, at->row++) {
        msi_ms_row_kind row = {.is_flagged = base[at->layout.state + at->row] == MSI_MSV_ROW_FLAGGED};
        int32_t a1, a2;
        memcpy(&a1, base + at->layout.antenna1 + 4 * at->row, sizeof a1);
        memcpy(&a2, base + at->layout.antenna2 + 4 * at->row, sizeof a2);
        memcpy(row.uvw_m, base + at->layout.uvw_m + 24 * at->row, sizeof row.uvw_m);
        row.is_autocorrelation = a1 == a2;
        const int with_data = has_data(base, &at->layout, at->row);
        if (msi_ms_block_keeps(r, g, &row)) {
            b->ms_row[*n_kept] = s->row + i;
            b->time_s[*n_kept] = f->time_s[s->run->time];
            memcpy(b->uvw_m + 3 * *n_kept, row.uvw_m, sizeof row.uvw_m);
            r->raw.source[(*n_kept)++] = (msi_ms_source){s->chunk, with_data ? at->data_row : -1};
        }
        at->data_row += with_data;
    }
}

int msi_ms_store_rows(msi_ms_reader *r, const msi_ms_group *g, struct msi_ms_buffer *b, int64_t *n_kept)
{
    const msi_ms_set *set = &r->set[r->set_index];
    opened_chunk at = {0};
    const msi_ms_run *p;
    *n_kept = 0;
    for (int i = 0; (p = msi_ms_block_piece(r, g, &i));)
        for (int64_t done = 0; done < p->n_row;) {
            stretch s;
            MSI_TRY(find_stretch(set, g, p->row + done, p->n_row - done, &s));
            if (s.chunk != at.chunk) MSI_TRY(open_chunk(set, s.chunk, &at));
            take_rows(r, g, &s, &at, b, n_kept);
            done += s.n_row;
        }
    return MSI_OK;
}

/* ---- Samples ---- */

/* Spread the bits of n flags to a byte each, from `first` on. */
static void spread_flags(const char *bits, int64_t first, int64_t n, uint8_t *out)
{
    int64_t i = 0;
    for (; first % 8 == 0 && i + 8 <= n; i += 8) {
        /* Each byte keeps its own bit of the eight; adding 127 carries any bit into the highest one. */
        const uint64_t eight = (uint64_t)(uint8_t)bits[(first + i) / 8] * 0x0101010101010101U & 0x8040201008040201U;
        const uint64_t ones = (eight + 0x7f7f7f7f7f7f7f7fU) >> 7 & 0x0101010101010101U;
        memcpy(out + i, &ones, sizeof ones);
    }
    for (; i < n; i++) out[i] = (uint8_t)bits[(first + i) / 8] >> (first + i) % 8 & 1;
}

/* Copy values of a row's channels, [channel][n_corr], from stored order to that of the block. */
static void arrange(const msi_ms_setup *s, const char *row, char *to, size_t size)
{
    const size_t group = (size_t)s->n_corr * size;
    if (s->is_identity) {
        memcpy(to, row + (size_t)s->span_first * group, (size_t)s->n_chan * group);
        return;
    }
    for (int32_t c = 0; c < s->n_chan; c++)
        memcpy(to + (size_t)c * group, row + (size_t)s->chan_index[c] * group, group);
}

static void take_weights(const msi_ms_setup *s, const msi_msv_chunk *c, const char *weights, int64_t row, float *out)
{
    const size_t group = (size_t)s->n_corr * sizeof *out;
    if (c->weights == MSI_MSV_WEIGHTS) {
        arrange(s, weights + (size_t)(row * s->n_stored) * group, (char *)out, sizeof *out);
        return;
    }
    for (int32_t k = 0; k < s->n_chan; k++) memcpy(out + (int64_t)k * s->n_corr, weights + (size_t)row * group, group);
}

static void take_flags(const msi_ms_setup *s, const char *bits, uint8_t *out)
{
    if (s->is_identity) {
        spread_flags(bits, (int64_t)s->span_first * s->n_corr, (int64_t)s->n_chan * s->n_corr, out);
        return;
    }
    for (int32_t k = 0; k < s->n_chan; k++)
        spread_flags(bits, (int64_t)s->chan_index[k] * s->n_corr, s->n_corr, out + (int64_t)k * s->n_corr);
}

/* Rows without stored samples are zeros that are flagged. */
static void take_nothing(int64_t n, msi_c32 *data, float *weight, uint8_t *flag)
{
    memset(data, 0, (size_t)n * sizeof *data);
    memset(weight, 0, (size_t)n * sizeof *weight);
    memset(flag, 1, (size_t)n);
}

/* Ask whether the data of a block lie in the store as the block is to have them. */
static int lies_ready(const msi_ms_reader *r, const msi_ms_setup *s, int64_t n_kept)
{
    const msi_ms_source *source = r->raw.source;
    if (!r->lends || !s->is_identity || s->n_chan != s->n_stored || source[0].row < 0) return 0;
    for (int64_t i = 1; i < n_kept; i++)
        if (source[i].chunk != source[0].chunk || source[i].row != source[0].row + i) return 0;
    return 1;
}

int msi_ms_store_samples(const msi_ms_reader *r, const msi_ms_group *g, struct msi_ms_buffer *b, int64_t n_kept,
                         const msi_c32 **data)
{
    const msi_ms_set *set = &r->set[r->set_index];
    const msi_ms_setup *s = &set->setup[g->data_desc_id];
    const msi_msv_file *f = set->store->file;
    const int64_t n = (int64_t)s->n_chan * s->n_corr, n_stored = (int64_t)s->n_stored * s->n_corr;
    const int is_lent = lies_ready(r, s, n_kept);
    const msi_msv_chunk *checked = NULL;
    msi_msv_layout l = {0};
    *data = b->data;
    for (int64_t i = 0; i < n_kept; i++) {
        const msi_msv_chunk *c = r->raw.source[i].chunk;
        const int64_t row = r->raw.source[i].row;
        if (row < 0) {
            take_nothing(n, b->data + i * n, b->weight + i * n, b->flag + i * n);
            continue;
        }
        const char *base = f->map + c->at;
        if (c != checked) {
            l = msi_msv_lay_out(c, s->n_stored, s->n_corr);
            MSI_TRY(msi_msv_file_samples(f, c, &l));
            checked = c;
            if (is_lent) *data = (const msi_c32 *)(const void *)(base + l.data) + row * n_stored;
        }
        if (!is_lent) arrange(s, base + l.data + row * n_stored * 8, (char *)(b->data + i * n), sizeof *b->data);
        take_weights(s, c, base + l.weight, row, b->weight + i * n);
        if (c->flags == MSI_MSV_FLAG_BITS)
            take_flags(s, base + l.flag + row * l.flag_row_bytes, b->flag + i * n);
        else
            memset(b->flag + i * n, 0, (size_t)n);
    }
    return MSI_OK;
}
