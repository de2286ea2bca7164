/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The visibility store: arenas of memory or of unlinked files, segments carved from them, and the blocks that are
 * added.
 *
 * Blocks are added in three steps, so that threads wait for each other only a few times for many blocks, and places and
 * sums do not depend on the number of threads:
 * 1. Threads look at the rows of all blocks and select those that are kept (select_rows).
 * 2. One thread gives the selected rows their places in segments (place_all).
 * 3. Threads copy the rows there, and sum up weights and largest values (copy_all).
 */
#include "kernels/store/vis_store.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

#ifdef MSI_HAVE_CUDA
#include "kernels/store/gpu_samples.h"
#endif

void msi_vis_store_init(msi_vis_store *s, int n_plane, msi_precision precision, double u_limit_lambda,
                        double v_limit_lambda, int64_t memory_budget, const char *temp_dir)
{
    memset(s, 0, sizeof *s);
    s->n_plane = n_plane;
    s->precision = precision;
    s->u_limit_lambda = u_limit_lambda;
    s->v_limit_lambda = v_limit_lambda;
    s->memory_budget = memory_budget;
    s->temp_dir = temp_dir;
    s->w_min_lambda = HUGE_VAL;
    s->weight_scale = 1;
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

/* The size of arenas doubles from FIRST to LARGEST, so that a small store stays small. From HUGE_PAGE on an arena and
 * the header of msi_alloc fill whole huge pages. */
static const int64_t FIRST_ARENA_BYTES = 256 << 10, LARGEST_ARENA_BYTES = 64 << 20;

enum { HUGE_PAGE = 2 << 20, IN_FRONT = 64 };

/* Take a spare arena of at least `bytes` bytes into use; NULL if there is none. */
static struct msi_vis_arena *reuse_arena(msi_vis_store *s, int64_t bytes)
{
    for (struct msi_vis_arena **p = &s->spare; *p; p = &(*p)->next) {
        struct msi_vis_arena *a = *p;
        if (a->size < bytes) continue;
        *p = a->next;
        a->used = 0;
        a->next = s->arena;
        s->arena = a;
        return a;
    }
    return NULL;
}

/* Choose the size of an arena after another (NULL: the first one) that is to hold at least `bytes` bytes. */
static int64_t next_arena_size(const struct msi_vis_arena *before, int64_t bytes)
{
    int64_t size = before ? 2 * before->size : FIRST_ARENA_BYTES;
    if (size > LARGEST_ARENA_BYTES) size = LARGEST_ARENA_BYTES;
    if (size < bytes) size = bytes;
    if (size < HUGE_PAGE - IN_FRONT) return size;
    return (size + IN_FRONT + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE - IN_FRONT;
}

static int64_t in_lines(int64_t bytes)
{
    return (bytes + 63) & ~(int64_t)63;
}

int msi_vis_store_carve(msi_vis_store *s, int64_t bytes, void **out)
{
    bytes = in_lines(bytes);
    struct msi_vis_arena *a = s->arena;
    if (!a || a->used + bytes > a->size) a = reuse_arena(s, bytes);
    if (!a) {
        const int64_t size = next_arena_size(s->arena, bytes);
        MSI_TRY(msi_alloc(&a, 1, sizeof *a, "visibility store"));
        a->size = size;
        a->mapped = s->memory_budget && s->bytes_memory + size > s->memory_budget;
        int rc = a->mapped ? msi_map_file(&a->base, size, s->temp_dir, "visibilities")
                           : msi_alloc(&a->base, size, 1, "visibility store");
        if (rc) {
            msi_free(a);
            return rc;
        }
        *(a->mapped ? &s->bytes_file : &s->bytes_memory) += size;
        a->next = s->arena;
        s->arena = a;
    }
    *out = a->base + a->used;
    a->used += bytes;
    return MSI_OK;
}

static void free_arenas(struct msi_vis_arena *a)
{
    for (struct msi_vis_arena *next; a; a = next) {
        next = a->next;
        if (a->mapped)
            munmap(a->base, (size_t)a->size);
        else
            msi_free(a->base);
        msi_free(a);
    }
}

void msi_vis_store_drop_arenas(msi_vis_store *s)
{
    for (const struct msi_vis_arena *a = s->arena; a; a = a->next)
        *(a->mapped ? &s->bytes_file : &s->bytes_memory) -= a->size;
    free_arenas(s->arena);
    s->arena = NULL;
}

/* ---- Segments --------------------------------------------------------------------------------------------------- */

/* Segments of many channels have fewer rows, so that a segment has about this size. */
static const int64_t SEGMENT_BYTES = 2 << 20;

enum { UVW_BYTES = 3 * sizeof(double) };

/* Return the bytes of a sample in all planes: visibilities and, except in a store of coordinates, weights. */
static int64_t sample_bytes(const msi_vis_store *s)
{
    return s->n_plane * (msi_complex_bytes(s->precision) + (s->coordinates ? 0 : (int64_t)sizeof(float)));
}

int64_t msi_vis_store_bytes(const msi_vis_store *s, int64_t n_sample, int64_t n_row)
{
    return n_sample * sample_bytes(s) + n_row * (UVW_BYTES + (s->tagged ? (int64_t)sizeof(uint64_t) : 0));
}

int64_t msi_vis_store_rows_of_segment(const msi_vis_store *s, int32_t n_chan)
{
    const int64_t suits = SEGMENT_BYTES / msi_vis_store_bytes(s, n_chan, 1);
    return suits > MSI_SEGMENT_ROWS ? MSI_SEGMENT_ROWS : suits < 1 ? 1 : suits;
}

int msi_vis_store_setup(msi_vis_store *s, int32_t n_chan, const double *freq_hz, struct msi_vis_setup **out)
{
    struct msi_vis_setup *p;
    size_t bytes = sizeof(double) * (size_t)n_chan;
    for (p = s->setup; p; p = p->next)
        if (p->n_chan == n_chan && memcmp(p->freq_hz, freq_hz, bytes) == 0) break;
    if (!p) {
        MSI_TRY(msi_alloc(&p, 1, sizeof *p + bytes, "visibility store"));
        p->n_chan = n_chan;
        p->open_segment = -1;
        memcpy(p->freq_hz, freq_hz, bytes);
        p->next = s->setup;
        s->setup = p;
    }
    *out = p;
    return MSI_OK;
}

int msi_vis_store_next_segment(msi_vis_store *s, msi_vis_segment **out)
{
    if (s->n_segment == s->segment_capacity) {
        int64_t capacity = s->segment_capacity ? 2 * s->segment_capacity : 256;
        MSI_TRY(msi_grow(&s->segment, s->n_segment, capacity, sizeof *s->segment, "visibility store"));
        s->segment_capacity = capacity;
    }
    if (s->n_segment >= (int64_t)1 << (32 - MSI_SEGMENT_SHIFT))
        return msi_error_about(msi_error_set(MSI_ERANGE, "n_row: a store holds at most 2^32 rows of visibilities"),
                               "n_row");
    *out = &s->segment[s->n_segment];
    return MSI_OK;
}

/* Get memory for the next segment: of the store, or a part of a buffer that goes to a GPU when it is full. */
static int carve_segment(msi_vis_store *s, int64_t bytes, void **out)
{
#ifdef MSI_HAVE_CUDA
    if (s->gpu) {
        int is_new_buffer;
        MSI_TRY(msi_gpu_samples_carve(s, bytes, out, &is_new_buffer));
        for (struct msi_vis_setup *p = s->setup; p && is_new_buffer; p = p->next) p->open_segment = -1;
        return MSI_OK;
    }
#endif
    return msi_vis_store_carve(s, bytes, out);
}

static int open_segment(msi_vis_store *s, struct msi_vis_setup *setup)
{
    msi_vis_segment *g;
    void *memory;
    MSI_TRY(msi_vis_store_next_segment(s, &g));
    const int64_t n_row = msi_vis_store_rows_of_segment(s, setup->n_chan), n = n_row * setup->n_chan * s->n_plane;
    const int64_t uvw = in_lines(UVW_BYTES * n_row), tag = s->tagged ? in_lines((int64_t)sizeof(uint64_t) * n_row) : 0,
                  weight = s->coordinates ? 0 : in_lines((int64_t)sizeof(float) * n);
    MSI_TRY(carve_segment(s, uvw + tag + weight + in_lines(msi_complex_bytes(s->precision) * n), &memory));
    char *at = memory;
    *g = (msi_vis_segment){.n_row_max = n_row, .n_chan = setup->n_chan, .freq_hz = setup->freq_hz};
    g->uvw_m = memory;
    if (tag) g->tag = (uint64_t *)(void *)(at + uvw);
    if (weight) g->weight = (float *)(void *)(at + uvw + tag);
    g->vis = at + uvw + tag + weight;
    setup->open_segment = s->n_segment++;
    return MSI_OK;
}

/* Take the next free rows of a setup's open segment, opening one if it is full.

 * Returned: *segment, *row, *n  the rows [*row, *row + *n) of that segment; 1 <= *n <= n_row */

static int reserve_rows(msi_vis_store *s, struct msi_vis_setup *setup, int64_t n_row, int64_t *segment, int64_t *row,
                        int64_t *n)
{
    if (setup->open_segment < 0 || s->segment[setup->open_segment].n_row == s->segment[setup->open_segment].n_row_max)
        MSI_TRY(open_segment(s, setup));
    msi_vis_segment *g = &s->segment[setup->open_segment];
    *segment = setup->open_segment;
    *row = g->n_row;
    *n = n_row < g->n_row_max - g->n_row ? n_row : g->n_row_max - g->n_row;
    g->n_row += *n;
    return MSI_OK;
}

/* ---- Adding blocks: types and memory ---------------------------------------------------------------------------- */

enum { SHARE_SAMPLES = 8192 }; /* samples in the rows that a thread takes at a time */

/* Totals of rows, to be added to those of the store. */
typedef struct tally {
    int64_t n_sample, n_outside;
    double w_min, w_max;
    double longest2; /* square of the longest baseline, in wavelengths */
} tally;

/* A range of channels [first, first + n_chan) of a block. */

typedef struct channel_range {

    const msi_vis_block *block;

    int32_t first, n_chan;

} channel_range;

/* A range with its least and highest frequency, and limits of u and v within which a row lies in the uv plane at all of
 * its frequencies. */
typedef struct span {
    channel_range in;
    double least_hz, most_hz;
    double safe_u_m, safe_v_m;
} span;

/* Rows [row, row + n_row) of a range, of which n_kept are kept. */
typedef struct share {
    int range;
    int64_t row, n_row, n_kept;
    int64_t *kept; /* [n_row] their numbers in the block */
    tally tally;
} share;

/* Consecutive rows of a segment, from `at` on, and the rows of a block to be copied there. */
typedef struct piece {
    span range;
    const int64_t *row; /* [n_row] numbers in the block */
    int64_t segment, at, n_row;
    double sum_weight[MSI_STORE_MAX_PLANES];
} piece;

/* Some rows of a piece, copied by one thread. */
typedef struct copy {
    int64_t piece, first, n_row;
} copy;

/* Arrays that grow to the largest size needed so far; the *_capacity members are their capacities. */
struct msi_vis_intake {
    int64_t range_capacity, row_capacity, share_capacity, piece_capacity, copy_capacity;
    span *range; /* [n_range] */
    struct msi_vis_setup **setup;
    int64_t *row;
    share *share;
    piece *piece;
    copy *copy;
    int n_range;
    int64_t n_share, n_piece, n_copy;
};

/* Ensure a capacity of n elements; array is the address of the pointer to them, and the first n_held are kept. */
static int grow_array(void *array, int64_t *capacity, int64_t n_held, int64_t n, size_t size)
{
    if (n <= *capacity) return MSI_OK;
    if (n < 2 * *capacity) n = 2 * *capacity;
    MSI_TRY(msi_grow(array, n_held, n, size, "visibility store"));
    *capacity = n;
    return MSI_OK;
}

static void free_intake(struct msi_vis_intake *intake)
{
    if (!intake) return;
    msi_free(intake->range);
    msi_free(intake->setup);
    msi_free(intake->row);
    msi_free(intake->share);
    msi_free(intake->piece);
    msi_free(intake->copy);
    msi_free(intake);
}

/* ---- Adding blocks: selecting rows ------------------------------------------------------------------------------ */

/* Find the highest frequency at which a row of a block lies in the uv plane that the image can hold. */
static double limit_hz(const msi_vis_store *s, const double *uvw_m)
{
    double u = fabs(uvw_m[0]) / MSI_SPEED_OF_LIGHT, v = fabs(uvw_m[1]) / MSI_SPEED_OF_LIGHT;
    return fmin(u > 0 ? s->u_limit_lambda / u : HUGE_VAL, v > 0 ? s->v_limit_lambda / v : HUGE_VAL);
}

/* Return 1 if all channels of a row lie in the uv plane. Only rows near its edge need divisions. */
static inline int lies_inside(const msi_vis_store *s, const span *range, const double *uvw_m)
{
    if (fabs(uvw_m[0]) <= range->safe_u_m && fabs(uvw_m[1]) <= range->safe_v_m) return 1;
    return range->most_hz <= limit_hz(s, uvw_m);
}

/* Return the square of a row's baseline at a frequency, in wavelengths. */
static inline double baseline2(const double *uvw_m, double freq_hz)
{
    const double f = freq_hz / MSI_SPEED_OF_LIGHT;
    return (uvw_m[0] * uvw_m[0] + uvw_m[1] * uvw_m[1] + uvw_m[2] * uvw_m[2]) * f * f;
}

static int sample_used(const channel_range *in, int64_t row, int32_t chan)
{
    const msi_vis_block *b = in->block;
    for (int p = 0; p < b->n_plane; p++)
        if (b->weight[((int64_t)p * b->n_row + row) * b->n_chan + in->first + chan] > 0) return 1;
    return 0;
}

/* Return the larger, or the smaller, of two numbers in one instruction; fmax and fmin need several because of NaN. */
static inline double larger(double a, double b)
{
    return b > a ? b : a;
}

static inline double smaller(double a, double b)
{
    return b < a ? b : a;
}

/* Count a row's samples; a row without samples need not be stored. */
static int64_t tally_row(const msi_vis_store *s, const channel_range *in, int64_t row, tally *t)
{
    const double *uvw = in->block->uvw_m + 3 * row, *freq_hz = in->block->freq_hz + in->first;
    const double limit = s->coordinates ? HUGE_VAL : limit_hz(s, uvw), w = fabs(uvw[2]) / MSI_SPEED_OF_LIGHT;
    int64_t n_stored = 0;
    for (int32_t c = 0; c < in->n_chan; c++) {
        if (!s->coordinates && !sample_used(in, row, c)) continue;
        if (freq_hz[c] > limit) {
            t->n_outside++;
            continue;
        }
        n_stored++;
        t->w_min = smaller(t->w_min, w * freq_hz[c]);
        t->w_max = larger(t->w_max, w * freq_hz[c]);
        t->longest2 = larger(t->longest2, baseline2(uvw, freq_hz[c]));
    }
    t->n_sample += n_stored;
    return n_stored;
}

/* Return 1 if all of a row's samples are stored, which holds for most rows. */
static int is_whole(const msi_vis_store *s, const span *range, int64_t row)
{
    const channel_range *in = &range->in;
    if (s->coordinates) return 1;
    const float *weight = in->block->weight + row * in->block->n_chan + in->first;
    int32_t n_used = 0;
    for (int32_t c = 0; c < in->n_chan; c++) n_used += weight[c] > 0;
    return n_used == in->n_chan && lies_inside(s, range, in->block->uvw_m + 3 * row);
}

static void select_rows(const msi_vis_store *s, share *h)
{
    const span *range = &s->intake->range[h->range];
    tally *t = &h->tally;
    *t = (tally){.w_min = HUGE_VAL};
    h->n_kept = 0;
    for (int64_t row = h->row; row < h->row + h->n_row; row++) {
        if (is_whole(s, range, row)) {
            const double w = fabs(range->in.block->uvw_m[3 * row + 2]) / MSI_SPEED_OF_LIGHT;
            t->w_min = smaller(t->w_min, w * range->least_hz);
            t->w_max = larger(t->w_max, w * range->most_hz);
            t->longest2 = larger(t->longest2, baseline2(range->in.block->uvw_m + 3 * row, range->most_hz));
            t->n_sample += range->in.n_chan;
            h->kept[h->n_kept++] = row;
        } else if (tally_row(s, &range->in, row, t)) {
            h->kept[h->n_kept++] = row;
        }
    }
}

static span span_of(const msi_vis_store *s, const msi_vis_block *block, int32_t first, int32_t n_chan)
{
    /* The margin is far larger than the relative rounding error of limit_hz, 1.5e-15. */
    const double safe = (1 - 1e-12) * MSI_SPEED_OF_LIGHT;
    span r = {.in = {block, first, n_chan}, .least_hz = HUGE_VAL};
    for (int32_t c = first; c < first + n_chan; c++) {
        r.least_hz = smaller(r.least_hz, block->freq_hz[c]);
        r.most_hz = larger(r.most_hz, block->freq_hz[c]);
    }
    r.safe_u_m = safe * s->u_limit_lambda / r.most_hz;
    r.safe_v_m = safe * s->v_limit_lambda / r.most_hz;
    return r;
}

/* Divide the blocks into ranges of channels, and those into shares of rows. */
static int list_shares(msi_vis_store *s, const msi_vis_block *block, int n_block)
{
    struct msi_vis_intake *t = s->intake;
    int64_t n_row = 0, n_range = 0, at = 0, setup_capacity = t->range_capacity;
    for (int i = 0; i < n_block; i++) {
        const int64_t n = (block[i].n_chan + MSI_STORE_MAX_CHAN - 1) / MSI_STORE_MAX_CHAN;
        n_range += n;
        n_row += n * block[i].n_row;
    }
    MSI_TRY(grow_array(&t->setup, &setup_capacity, 0, n_range, sizeof(struct msi_vis_setup *)));
    MSI_TRY(grow_array(&t->range, &t->range_capacity, 0, n_range, sizeof *t->range));
    MSI_TRY(grow_array(&t->row, &t->row_capacity, 0, n_row, sizeof *t->row));
    t->n_range = 0;
    t->n_share = 0;
    for (int i = 0; i < n_block; i++)
        for (int32_t first = 0; first < block[i].n_chan; first += MSI_STORE_MAX_CHAN) {
            const int32_t left = block[i].n_chan - first,
                          n_chan = left < MSI_STORE_MAX_CHAN ? left : MSI_STORE_MAX_CHAN;
            const int64_t step = n_chan < SHARE_SAMPLES ? SHARE_SAMPLES / n_chan : 1;
            MSI_TRY(msi_vis_store_setup(s, n_chan, block[i].freq_hz + first, &t->setup[t->n_range]));
            for (int64_t row = 0; row < block[i].n_row; row += step) {
                const int64_t n = block[i].n_row - row < step ? block[i].n_row - row : step;
                MSI_TRY(grow_array(&t->share, &t->share_capacity, t->n_share, t->n_share + 1, sizeof *t->share));
                t->share[t->n_share++] = (share){.range = t->n_range, .row = row, .n_row = n, .kept = t->row + at};
                at += n;
            }
            t->range[t->n_range++] = span_of(s, &block[i], first, n_chan);
        }
    return MSI_OK;
}

/* ---- Adding blocks: placing rows -------------------------------------------------------------------------------- */

/* Divide the rows of the last piece among threads; the array is large enough. */
static void share_out(struct msi_vis_intake *t, int64_t step)
{
    const piece *p = &t->piece[t->n_piece - 1];
    for (int64_t first = 0; first < p->n_row; first += step)
        t->copy[t->n_copy++] = (copy){t->n_piece - 1, first, p->n_row - first < step ? p->n_row - first : step};
}

/* Give the selected rows of a range their places. */
static int place_rows(msi_vis_store *s, int range, const int64_t *row, int64_t n_row)
{
    struct msi_vis_intake *t = s->intake;
    const int32_t n_chan = t->range[range].in.n_chan;
    const int64_t step = n_chan < SHARE_SAMPLES ? SHARE_SAMPLES / n_chan : 1;
    for (int64_t done = 0; done < n_row; done += t->piece[t->n_piece - 1].n_row) {
        MSI_TRY(grow_array(&t->piece, &t->piece_capacity, t->n_piece, t->n_piece + 1, sizeof *t->piece));
        MSI_TRY(
            grow_array(&t->copy, &t->copy_capacity, t->n_copy, t->n_copy + (n_row - done) / step + 1, sizeof *t->copy));
        piece *p = &t->piece[t->n_piece];
        p->range = t->range[range];
        p->row = row + done;
        MSI_TRY(reserve_rows(s, t->setup[range], n_row - done, &p->segment, &p->at, &p->n_row));
        t->n_piece++;
        share_out(t, step);
    }
    return MSI_OK;
}

/* Update the store's totals, and give all selected rows their places, range by range. */
static int place_all(msi_vis_store *s)
{
    struct msi_vis_intake *t = s->intake;
    int64_t k = 0;
    t->n_piece = t->n_copy = 0;
    for (int i = 0; i < t->n_range; i++) {
        int64_t *row = k < t->n_share ? t->share[k].kept : NULL, n_row = 0;
        for (; k < t->n_share && t->share[k].range == i; k++) {
            const share *h = &t->share[k];
            memmove(row + n_row, h->kept, sizeof *row * (size_t)h->n_kept);
            n_row += h->n_kept;
            s->n_sample += h->tally.n_sample;
            s->n_outside += h->tally.n_outside;
            s->w_min_lambda = smaller(s->w_min_lambda, h->tally.w_min);
            s->w_max_lambda = larger(s->w_max_lambda, h->tally.w_max);
            s->longest_lambda = larger(s->longest_lambda, sqrt(h->tally.longest2));
        }
        MSI_TRY(place_rows(s, i, row, n_row));
    }
    return MSI_OK;
}

/* ---- Adding blocks: copying ------------------------------------------------------------------------------------- */

/* Copy weights, with 0 for values that are not valid weights. */
static void copy_weights(const float *restrict from, float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = ((from[i] > 0) & (from[i] <= FLT_MAX)) ? from[i] : 0;
}

static void copy_values(const msi_vis_store *s, const msi_vis_block *b, int64_t from, void *to, int64_t n)
{
    if (s->precision == MSI_FP64) {
        msi_c64 *vis = to;
        if (b->vis) memcpy(vis, b->vis + from, sizeof *vis * (size_t)n);
        for (int64_t i = 0; i < n && !b->vis; i++)
            vis[i] = (msi_c64){(double)b->vis_f32[from + i].re, (double)b->vis_f32[from + i].im};
        return;
    }
    msi_c32 *vis = to;
    if (!b->vis) memcpy(vis, b->vis_f32 + from, sizeof *vis * (size_t)n);
    for (int64_t i = 0; i < n && b->vis; i++)
        vis[i] = (msi_c32){(float)b->vis[from + i].re, (float)b->vis[from + i].im};
}

/* Copy contiguous samples from a plane of a block, from index `from` on, to a segment, from `to` on. */
static void copy_samples(const msi_vis_store *s, const msi_vis_block *b, int64_t from, msi_vis_segment *g, int64_t to,
                         int64_t n)
{
    copy_weights(b->weight + from, g->weight + to, n);
    copy_values(s, b, from, (char *)g->vis + to * msi_complex_bytes(s->precision), n);
}

/* Set the weight to 0 for samples of a row above the frequency at which it leaves the uv plane. */
static void drop_beyond(const msi_vis_store *s, msi_vis_segment *g, int64_t row)
{
    const double limit = limit_hz(s, g->uvw_m + 3 * row);
    for (int p = 0; p < s->n_plane; p++) {
        float *weight = g->weight + msi_segment_index(g, p, row, 0);
        for (int32_t c = 0; c < g->n_chan; c++)
            if (g->freq_hz[c] > limit) weight[c] = 0;
    }
}

/* Copy rows [row, row + n) of a block to rows from `at` on. */
static void copy_stretch(const msi_vis_store *s, const span *range, int64_t row, int64_t n, msi_vis_segment *g,
                         int64_t at)
{
    const msi_vis_block *b = range->in.block;
    memcpy(g->uvw_m + 3 * at, b->uvw_m + 3 * row, 3 * sizeof *g->uvw_m * (size_t)n);
    if (s->tagged) memcpy(g->tag + at, b->tag + row, sizeof *g->tag * (size_t)n);
    if (s->coordinates) return;
    /* If the range has all channels of the block, rows are contiguous. */
    const int64_t together = range->in.n_chan == b->n_chan ? n : 1;
    for (int p = 0; p < b->n_plane; p++)
        for (int64_t i = 0; i < n; i += together) {
            const int64_t from = (p * b->n_row + row + i) * b->n_chan + range->in.first;
            copy_samples(s, b, from, g, msi_segment_index(g, p, at + i, 0), together * g->n_chan);
        }
    for (int64_t i = 0; i < n; i++)
        if (!lies_inside(s, range, b->uvw_m + 3 * (row + i))) drop_beyond(s, g, at + i);
}

/* The largest values in some rows: of a weight, of a part of a visibility, and of the product of both. */
typedef struct extent {
    double weight, jy, product;
} extent;

/* Update the largest values by samples; those of weight 0 are ignored. */
static void extend_single(const float *w, const msi_c32 *vis, int64_t n, extent *e)
{
    float weight = 0, jy = 0;
    double product = 0;
#pragma omp simd reduction(max : weight, jy, product)
    for (int64_t i = 0; i < n; i++) {
        const float re = fabsf(vis[i].re), im = fabsf(vis[i].im), either = im > re ? im : re;
        const float part = w[i] > 0 ? either : 0;
        const double weighted = (double)w[i] * (double)part;
        weight = w[i] > weight ? w[i] : weight;
        jy = part > jy ? part : jy;
        product = weighted > product ? weighted : product;
    }
    *e = (extent){larger(e->weight, (double)weight), larger(e->jy, (double)jy), larger(e->product, product)};
}

static void extend_double(const float *w, const msi_c64 *vis, int64_t n, extent *e)
{
    for (int64_t i = 0; i < n; i++) {
        const double part = w[i] > 0 ? larger(fabs(vis[i].re), fabs(vis[i].im)) : 0;
        e->weight = larger(e->weight, (double)w[i]);
        e->jy = larger(e->jy, part);
        e->product = larger(e->product, (double)w[i] * part);
    }
}

/* Update the largest values by rows [row, row + n_row) that were just stored. */
static void extend(const msi_vis_store *s, const msi_vis_segment *g, int64_t row, int64_t n_row, extent *e)
{
    for (int p = 0; p < s->n_plane; p++) {
        const int64_t at = msi_segment_index(g, p, row, 0), n = n_row * g->n_chan;
        if (s->precision == MSI_FP64)
            extend_double(g->weight + at, (const msi_c64 *)g->vis + at, n, e);
        else
            extend_single(g->weight + at, (const msi_c32 *)g->vis + at, n, e);
    }
}

static void copy_rows(const msi_vis_store *s, const copy *y, extent *e)
{
    const piece *p = &s->intake->piece[y->piece];
    msi_vis_segment *g = &s->segment[p->segment];
    const int64_t end = y->first + y->n_row;
    for (int64_t i = y->first, next; i < end; i = next) {
        for (next = i + 1; next < end && p->row[next] == p->row[next - 1] + 1;) next++;
        copy_stretch(s, &p->range, p->row[i], next - i, g, p->at + i);
    }
    if (!s->coordinates) extend(s, g, p->at + y->first, y->n_row, e);
}

/* Add up n weights of each of n_plane planes, in independent sums. */
static inline void sum_planes(const float *weight, int64_t of_plane, int n_plane, int64_t n, double *sum)
{
    for (int p = 0; p < n_plane; p++) sum[p] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int p = 0; p < n_plane; p++) sum[p] += (double)weight[p * of_plane + i];
}

/* Add up the stored weights of a piece's rows. */
static void sum_weights(const msi_vis_store *s, piece *p)
{
    enum { TOGETHER = 4 };
    const msi_vis_segment *g = &s->segment[p->segment];
    const int64_t n = p->n_row * g->n_chan, of_plane = msi_segment_index(g, 1, 0, 0);
    int plane = 0;
    for (; plane + TOGETHER <= s->n_plane; plane += TOGETHER)
        sum_planes(g->weight + msi_segment_index(g, plane, p->at, 0), of_plane, TOGETHER, n, p->sum_weight + plane);
    for (; plane < s->n_plane; plane++)
        sum_planes(g->weight + msi_segment_index(g, plane, p->at, 0), of_plane, 1, n, p->sum_weight + plane);
}

static void copy_all(msi_vis_store *s)
{
    struct msi_vis_intake *t = s->intake;
    double weight = s->largest_weight, jy = s->largest_jy, product = s->largest_product;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1) reduction(max : weight, jy, product)
        for (int64_t i = 0; i < t->n_copy; i++) {
            extent e = {weight, jy, product};
            copy_rows(s, &t->copy[i], &e);
            weight = e.weight;
            jy = e.jy;
            product = e.product;
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < t->n_piece; i++)
            if (!s->coordinates) sum_weights(s, &t->piece[i]);
    }
    s->largest_weight = weight;
    s->largest_jy = jy;
    s->largest_product = product;
    for (int64_t i = 0; i < t->n_piece && !s->coordinates; i++)
        for (int p = 0; p < s->n_plane; p++) s->sum_weight[p] += t->piece[i].sum_weight[p];
}

int msi_vis_store_add_all(msi_vis_store *s, const msi_vis_block *block, int n_block)
{
    for (int i = 0; i < n_block; i++)
        if (block[i].n_plane != s->n_plane)
            return msi_error_set(MSI_EINTERNAL, "the block has %d planes, the gridder %d", block[i].n_plane,
                                 s->n_plane);
        else if (s->tagged && !block[i].tag)
            return msi_error_set(MSI_EINTERNAL, "the block has no tags, the gridder keeps them");
    if (!s->intake) MSI_TRY(msi_alloc(&s->intake, 1, sizeof *s->intake, "visibility store"));
    MSI_TRY(list_shares(s, block, n_block));
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < s->intake->n_share; i++) select_rows(s, &s->intake->share[i]);
    /* Rows that have a place are copied even if memory ran out for others. */
    const int status = place_all(s);
    copy_all(s);
#ifdef MSI_HAVE_CUDA
    /* Without memory on the GPU the samples stay in the host's. */
    if (status == MSI_OK && s->gpu && msi_gpu_samples_send(s) != MSI_OK) return msi_gpu_samples_move_to_host(s);
#endif
    return status;
}

int msi_vis_store_add(msi_vis_store *s, const msi_vis_block *block)
{
    return msi_vis_store_add_all(s, block, 1);
}

/* ---- Weights ---------------------------------------------------------------------------------------------------- */

/* A segment's weights of a plane. */
typedef struct weight_part {
    double sum;
    float largest;
    int64_t count;
} weight_part;

static weight_part sum_segment_weights(const msi_vis_segment *s, int plane)
{
    const float *weight = s->weight + msi_segment_index(s, plane, 0, 0);
    double sum = 0;
    float largest = 0;
    int64_t count = 0;
#pragma omp simd reduction(+ : sum, count) reduction(max : largest)
    for (int64_t k = 0; k < s->n_row * s->n_chan; k++) {
        sum += (double)weight[k];
        largest = weight[k] > largest ? weight[k] : largest;
        count += weight[k] > 0;
    }
    return (weight_part){sum, largest, count};
}

void msi_vis_store_weights(const msi_vis_store *s, double *sum, double *largest, int64_t *count)
{
    enum { AT_ONCE = 512 };
    const int64_t n_segment = s->n_segment;
#ifdef MSI_HAVE_CUDA
    for (int p = 0; s->gpu && p < s->n_plane; p++) msi_gpu_samples_weights(s, p, &sum[p], &largest[p], &count[p]);
    if (s->gpu) return;
#endif
    for (int p = 0; p < s->n_plane; p++) {
        sum[p] = largest[p] = 0;
        count[p] = 0;
        for (int64_t first = 0; first < n_segment; first += AT_ONCE) {
            const int64_t n = n_segment - first < AT_ONCE ? n_segment - first : AT_ONCE;
            weight_part part[AT_ONCE];
            msi_progress_at(p * n_segment + first, s->n_plane * n_segment);
#pragma omp parallel for schedule(dynamic, 4)
            for (int64_t i = 0; i < n; i++) part[i] = sum_segment_weights(&s->segment[first + i], p);
            for (int64_t i = 0; i < n; i++) {
                sum[p] += part[i].sum;
                largest[p] = fmax(largest[p], (double)part[i].largest);
                count[p] += part[i].count;
            }
        }
    }
}

void msi_vis_store_band(const msi_vis_store *s, double *low_hz, double *high_hz)
{
    *low_hz = HUGE_VAL;
    *high_hz = 0;
    for (const struct msi_vis_setup *p = s->setup; p; p = p->next)
        for (int32_t c = 0; c < p->n_chan; c++) {
            *low_hz = fmin(*low_hz, p->freq_hz[c]);
            *high_hz = fmax(*high_hz, p->freq_hz[c]);
        }
    if (*high_hz == 0) *low_hz = 0;
}

enum { MOST_MOMENTS = 16 };

void msi_vis_store_moments(const msi_vis_store *s, double middle_hz, double half_hz, int n, double *moment)
{
    enum { AT_ONCE = 256 };
    for (int k = 0; k < n; k++) moment[k] = 0;
    for (int64_t first = 0; !s->gpu && first < s->n_segment; first += AT_ONCE) {
        const int64_t n_part = s->n_segment - first < AT_ONCE ? s->n_segment - first : AT_ONCE;
        double part[AT_ONCE][MOST_MOMENTS];
#pragma omp parallel for schedule(dynamic, 4)
        for (int64_t i = 0; i < n_part; i++) {
            const msi_vis_segment *g = &s->segment[first + i];
            for (int k = 0; k < n; k++) part[i][k] = 0;
            for (int32_t c = 0; c < g->n_chan; c++) {
                double sum = 0;
                for (int64_t row = 0; row < g->n_row; row++) sum += (double)g->weight[msi_segment_index(g, 0, row, c)];
                for (int k = 0; k < n; k++) {
                    part[i][k] += sum;
                    sum *= (g->freq_hz[c] - middle_hz) / half_hz;
                }
            }
        }
        for (int64_t i = 0; i < n_part; i++)
            for (int k = 0; k < n; k++) moment[k] += part[i][k];
    }
}

/* ---- Fetching --------------------------------------------------------------------------------------------------- */

/* Copy the next rows of a setup to the caller's block, from row `row` on. Returns the number of rows. */
static int64_t fetch_rows(const msi_vis_store *s, struct msi_vis_setup *setup, const channel_range *in, int64_t row,
                          msi_c64 *vis)
{
    while (setup->fetch_segment < s->n_segment && (s->segment[setup->fetch_segment].freq_hz != setup->freq_hz ||
                                                   setup->fetch_row == s->segment[setup->fetch_segment].n_row)) {
        setup->fetch_segment++;
        setup->fetch_row = 0;
    }
    if (setup->fetch_segment == s->n_segment) return 0;
    const msi_vis_segment *g = &s->segment[setup->fetch_segment];
    const msi_vis_block *b = in->block;
    int64_t n = g->n_row - setup->fetch_row < b->n_row - row ? g->n_row - setup->fetch_row : b->n_row - row;
#pragma omp parallel for schedule(static) collapse(2)
    for (int p = 0; p < s->n_plane; p++)
        for (int64_t i = 0; i < n; i++) {
            msi_c64 *to = vis + (p * b->n_row + row + i) * b->n_chan + in->first;
            int64_t from = msi_segment_index(g, p, setup->fetch_row + i, 0);
            if (s->precision == MSI_FP64) {
                memcpy(to, (const msi_c64 *)g->vis + from, sizeof *to * (size_t)in->n_chan);
                continue;
            }
            const msi_c32 *v = (const msi_c32 *)g->vis + from;
            for (int32_t c = 0; c < in->n_chan; c++) to[c] = (msi_c64){(double)v[c].re, (double)v[c].im};
        }
    setup->fetch_row += n;
    return n;
}

int msi_vis_store_fetch(msi_vis_store *s, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_c64 *vis)
{
    msi_vis_block b = {.n_row = n_row, .n_chan = n_chan, .n_plane = s->n_plane, .freq_hz = freq_hz};
    for (int32_t first = 0; first < n_chan; first += MSI_STORE_MAX_CHAN) {
        channel_range in = {&b, first, n_chan - first < MSI_STORE_MAX_CHAN ? n_chan - first : MSI_STORE_MAX_CHAN};
        struct msi_vis_setup *setup;
        MSI_TRY(msi_vis_store_setup(s, in.n_chan, freq_hz + first, &setup));
        for (int64_t row = 0, n; row < n_row; row += n) {
            n = fetch_rows(s, setup, &in, row, vis);
            if (!n) return msi_error_set(MSI_EINTERNAL, "more visibilities were fetched than added");
        }
    }
    return MSI_OK;
}

void msi_vis_store_rewind(msi_vis_store *s)
{
    for (struct msi_vis_setup *p = s->setup; p; p = p->next) p->fetch_segment = p->fetch_row = 0;
}

void msi_vis_store_zero(msi_vis_store *s, int plane)
{
    size_t vis_bytes = (size_t)msi_complex_bytes(s->precision);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < s->n_segment; i++) {
        const msi_vis_segment *segment = &s->segment[i];
        memset((char *)segment->vis + (size_t)msi_segment_index(segment, plane, 0, 0) * vis_bytes, 0,
               (size_t)(segment->n_row * segment->n_chan) * vis_bytes);
    }
}

/* ---- Clearing --------------------------------------------------------------------------------------------------- */

/* Free samples on a GPU. */
static void free_gpu_samples(msi_vis_store *s)
{
#ifdef MSI_HAVE_CUDA
    msi_gpu_samples_free(s);
#else
    (void)s;
#endif
}

void msi_vis_store_clear(msi_vis_store *s)
{
    free_gpu_samples(s);
    struct msi_vis_arena **last = &s->spare;
    while (*last) last = &(*last)->next;
    *last = s->arena;
    s->arena = NULL;
    for (struct msi_vis_setup *p = s->setup; p; p = p->next) p->open_segment = -1;
    msi_vis_store_rewind(s);
    s->n_segment = s->n_sample = s->n_outside = 0;
    memset(s->sum_weight, 0, sizeof s->sum_weight);
    s->largest_weight = s->largest_jy = s->largest_product = 0;
    s->weight_scale = 1;
    s->w_min_lambda = HUGE_VAL;
    s->w_max_lambda = s->longest_lambda = 0;
}

void msi_vis_store_free(msi_vis_store *s)
{
    free_gpu_samples(s);
    free_arenas(s->arena);
    free_arenas(s->spare);
    for (struct msi_vis_setup *p = s->setup, *next; p; p = next) {
        next = p->next;
        msi_free(p);
    }
    msi_free(s->segment);
    free_intake(s->intake);
    memset(s, 0, sizeof *s);
}
