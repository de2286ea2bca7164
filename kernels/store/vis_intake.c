/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Add samples to a visibility store. Many blocks are added together in three steps, so that threads wait for each other
 * only a few times, and places and sums do not depend on the number of threads:
 * 1. Threads select the rows of all blocks that are kept (select_rows).
 * 2. One thread assigns places in segments to the selected rows (place_all).
 * 3. Threads copy the rows to their places, and sum weights and largest values (copy_all).
 * A caller that converts samples can avoid the copy: it reserves rows, its threads fill them, and it commits them.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/store/vis_store.h"

#ifdef MSI_HAVE_CUDA
#include "kernels/store/gpu_samples.h"
#endif

enum { SHARE_SAMPLES = 8192 }; /* number of samples in the rows that a thread processes at a time */

/* A range of channels of a block. A row with |u| <= safe_u_m and |v| <= safe_v_m is in the uv plane of the image (|u|
 * and |v| up to u_limit_lambda and v_limit_lambda) at all frequencies of the range. */
typedef struct span {
    msi_block_part in;
    double least_hz, most_hz;
    double safe_u_m, safe_v_m;
} span;

/* Rows [row, row + n_row) of a range, of which n_kept are kept. */
typedef struct share {
    int range;
    int64_t row, n_row, n_kept;
    int64_t *kept; /* [n_row] indices of the kept rows in the block */
    msi_vis_tally tally;
} share;

/* Consecutive rows of a segment, from `at` on, and the rows of a block to be copied there. */
typedef struct piece {
    span range;
    const int64_t *row; /* [n_row] indices in the block */
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

void msi_vis_intake_free(struct msi_vis_intake *intake)
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

/* Return the highest frequency, in Hz, at which a row lies in the uv plane. */
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

/* Return 1 if a sample has a positive weight in any plane. */
static int sample_used(const msi_block_part *in, int64_t row, int32_t chan)
{
    const msi_vis_block *b = in->block;
    for (int p = 0; p < b->n_plane; p++)
        if (b->weight[((int64_t)p * b->n_row + row) * b->n_chan + in->first + chan] > 0) return 1;
    return 0;
}

/* Return the larger, or the smaller, of two numbers. They take one instruction; fmax and fmin take several, because
 * they handle NaN. */
static inline double larger(double a, double b)
{
    return b > a ? b : a;
}

static inline double smaller(double a, double b)
{
    return b < a ? b : a;
}

/* Count the samples of a row, one by one. Returns: the number of samples to store */
static int64_t tally_row(const msi_vis_store *s, const msi_block_part *in, int64_t row, msi_vis_tally *t)
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
    const msi_block_part *in = &range->in;
    if (s->coordinates) return 1;
    const float *weight = in->block->weight + row * in->block->n_chan + in->first;
    int32_t n_used = 0;
    for (int32_t c = 0; c < in->n_chan; c++) n_used += weight[c] > 0;
    return n_used == in->n_chan && lies_inside(s, range, in->block->uvw_m + 3 * row);
}

/* Count a row. Returns: 1 if it has samples, else 0 */
static inline int count_row(const msi_vis_store *s, const span *range, int64_t row, msi_vis_tally *t)
{
    if (!is_whole(s, range, row)) return tally_row(s, &range->in, row, t) > 0;
    const double *uvw = range->in.block->uvw_m + 3 * row, w = fabs(uvw[2]) / MSI_SPEED_OF_LIGHT;
    t->w_min = smaller(t->w_min, w * range->least_hz);
    t->w_max = larger(t->w_max, w * range->most_hz);
    t->longest2 = larger(t->longest2, baseline2(uvw, range->most_hz));
    t->n_sample += range->in.n_chan;
    return 1;
}

/* Select the rows of a share that have samples, and count them. */
static void select_rows(const msi_vis_store *s, share *h)
{
    const span *range = &s->intake->range[h->range];
    h->tally = (msi_vis_tally){.w_min = HUGE_VAL};
    h->n_kept = 0;
    for (int64_t row = h->row; row < h->row + h->n_row; row++)
        if (count_row(s, range, row, &h->tally)) h->kept[h->n_kept++] = row;
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

/* Divide the blocks into ranges of channels, and the ranges into shares of rows. */
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

/* Divide the rows of the last piece into copies for threads. The array of copies must be large enough. */
static void share_out(struct msi_vis_intake *t, int64_t step)
{
    const piece *p = &t->piece[t->n_piece - 1];
    for (int64_t first = 0; first < p->n_row; first += step)
        t->copy[t->n_copy++] = (copy){t->n_piece - 1, first, p->n_row - first < step ? p->n_row - first : step};
}

/* Assign places to the selected rows of a range. */
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
        MSI_TRY(msi_vis_store_take_rows(s, t->setup[range], n_row - done, &p->segment, &p->at, &p->n_row));
        t->n_piece++;
        share_out(t, step);
    }
    return MSI_OK;
}

static void add_tally(msi_vis_store *s, const msi_vis_tally *t)
{
    s->n_sample += t->n_sample;
    s->n_outside += t->n_outside;
    s->w_min_lambda = smaller(s->w_min_lambda, t->w_min);
    s->w_max_lambda = larger(s->w_max_lambda, t->w_max);
    s->longest_lambda = larger(s->longest_lambda, sqrt(t->longest2));
}

/* Update the store's totals, and assign places to all selected rows, range by range. */
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
            add_tally(s, &h->tally);
        }
        MSI_TRY(place_rows(s, i, row, n_row));
    }
    return MSI_OK;
}

/* ---- Adding blocks: copying ------------------------------------------------------------------------------------- */

/* Copy weights. Invalid weights become 0. */
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

/* Update the largest values in *e with n samples. Samples with weight 0 are ignored. The function is compiled for two
 * instruction sets, with the same results. */
static inline __attribute__((always_inline)) void extend_any(const float *w, const msi_c32 *vis, int64_t n,
                                                             msi_vis_extent *e)
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
    *e = (msi_vis_extent){larger(e->weight, (double)weight), larger(e->jy, (double)jy), larger(e->product, product)};
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void extend_avx2(const float *w, const msi_c32 *vis, int64_t n,
                                                        msi_vis_extent *e)
{
    extend_any(w, vis, n, e);
}
#endif

static void extend_single(const float *w, const msi_c32 *vis, int64_t n, msi_vis_extent *e)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        extend_avx2(w, vis, n, e);
        return;
    }
#endif
    extend_any(w, vis, n, e);
}

static void extend_double(const float *w, const msi_c64 *vis, int64_t n, msi_vis_extent *e)
{
    for (int64_t i = 0; i < n; i++) {
        const double part = w[i] > 0 ? larger(fabs(vis[i].re), fabs(vis[i].im)) : 0;
        e->weight = larger(e->weight, (double)w[i]);
        e->jy = larger(e->jy, part);
        e->product = larger(e->product, (double)w[i] * part);
    }
}

/* Update the largest values in *e with the stored rows [row, row + n_row). */
static void extend(const msi_vis_store *s, const msi_vis_segment *g, int64_t row, int64_t n_row, msi_vis_extent *e)
{
    for (int p = 0; p < s->n_plane; p++) {
        const int64_t at = msi_segment_index(g, p, row, 0), n = n_row * g->n_chan;
        if (s->precision == MSI_FP64)
            extend_double(g->weight + at, (const msi_c64 *)g->vis + at, n, e);
        else
            extend_single(g->weight + at, (const msi_c32 *)g->vis + at, n, e);
    }
}

static void copy_rows(const msi_vis_store *s, const copy *y, msi_vis_extent *e)
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

/* Add n weights of each of n_plane planes to independent sums. */
static inline void sum_planes(const float *weight, int64_t of_plane, int n_plane, int64_t n, double *sum)
{
    for (int64_t i = 0; i < n; i++)
        for (int p = 0; p < n_plane; p++) sum[p] += (double)weight[p * of_plane + i];
}

/* Add the weights of rows [row, row + n_row) of a segment to the sums of the planes. */
static void sum_weights(const msi_vis_store *s, const msi_vis_segment *g, int64_t row, int64_t n_row, double *sum)
{
    enum { TOGETHER = 4 };
    const int64_t n = n_row * g->n_chan, of_plane = msi_segment_index(g, 1, 0, 0);
    int plane = 0;
    for (; plane + TOGETHER <= s->n_plane; plane += TOGETHER)
        sum_planes(g->weight + msi_segment_index(g, plane, row, 0), of_plane, TOGETHER, n, sum + plane);
    for (; plane < s->n_plane; plane++)
        sum_planes(g->weight + msi_segment_index(g, plane, row, 0), of_plane, 1, n, sum + plane);
}

static void copy_all(msi_vis_store *s)
{
    struct msi_vis_intake *t = s->intake;
    double weight = s->largest_weight, jy = s->largest_jy, product = s->largest_product;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1) reduction(max : weight, jy, product)
        for (int64_t i = 0; i < t->n_copy; i++) {
            msi_vis_extent e = {weight, jy, product};
            copy_rows(s, &t->copy[i], &e);
            weight = e.weight;
            jy = e.jy;
            product = e.product;
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < t->n_piece; i++) {
            piece *p = &t->piece[i];
            memset(p->sum_weight, 0, sizeof p->sum_weight);
            if (!s->coordinates) sum_weights(s, &s->segment[p->segment], p->at, p->n_row, p->sum_weight);
        }
    }
    s->largest_weight = weight;
    s->largest_jy = jy;
    s->largest_product = product;
    for (int64_t i = 0; i < t->n_piece && !s->coordinates; i++)
        for (int p = 0; p < s->n_plane; p++) s->sum_weight[p] += t->piece[i].sum_weight[p];
}

/* Begin to copy full buffers to the GPU. If that fails, move all samples to host memory. */
static int send_to_gpu(msi_vis_store *s)
{
#ifdef MSI_HAVE_CUDA
    if (s->gpu && msi_gpu_samples_send(s) != MSI_OK) return msi_gpu_samples_move_to_host(s);
#else
    (void)s;
#endif
    return MSI_OK;
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
    /* Rows that have a place are copied even if there was not enough memory for others. */
    const int status = place_all(s);
    copy_all(s);
    return status ? status : send_to_gpu(s);
}

int msi_vis_store_add(msi_vis_store *s, const msi_vis_block *block)
{
    return msi_vis_store_add_all(s, block, 1);
}

/* ---- Rows that the caller fills --------------------------------------------------------------------------------- */

int msi_vis_store_reserve(msi_vis_store *s, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_vis_rows *out)
{
    struct msi_vis_setup *setup;
    *out = (msi_vis_rows){.tally = {.w_min = HUGE_VAL}};
    if (s->coordinates || s->tagged || n_chan > MSI_STORE_MAX_CHAN)
        return msi_error_set(MSI_EINTERNAL, "rows of this store cannot be filled in place");
    MSI_TRY(msi_vis_store_setup(s, n_chan, freq_hz, &setup));
    MSI_TRY(msi_vis_store_take_rows(s, setup, n_row, &out->segment, &out->at, &out->n_row));
    const msi_vis_segment *g = &s->segment[out->segment];
    const int64_t at = msi_segment_index(g, 0, out->at, 0);
    out->plane_rows = g->n_row_max;
    out->uvw_m = g->uvw_m + 3 * out->at;
    out->weight = g->weight + at;
    out->vis = (char *)g->vis + at * msi_complex_bytes(s->precision);
    return MSI_OK;
}

void msi_vis_store_count(const msi_vis_store *s, msi_vis_rows *r, int64_t first, int64_t n)
{
    msi_vis_segment *g = &s->segment[r->segment];
    const int64_t begin = r->at + first, end = begin + n;
    const msi_vis_block b = {.n_row = g->n_row_max,
                             .n_chan = g->n_chan,
                             .n_plane = s->n_plane,
                             .uvw_m = g->uvw_m,
                             .freq_hz = g->freq_hz,
                             .weight = g->weight};
    const span range = span_of(s, &b, 0, g->n_chan);
    for (int64_t row = begin; row < end; row++) {
        r->n_used += count_row(s, &range, row, &r->tally);
        if (!lies_inside(s, &range, g->uvw_m + 3 * row)) drop_beyond(s, g, row);
    }
    extend(s, g, begin, n, &r->extent);
    sum_weights(s, g, begin, n, r->sum_weight);
}

int msi_vis_store_commit(msi_vis_store *s, const msi_vis_rows *rows, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const msi_vis_extent *e = &rows[i].extent;
        add_tally(s, &rows[i].tally);
        s->largest_weight = larger(s->largest_weight, e->weight);
        s->largest_jy = larger(s->largest_jy, e->jy);
        s->largest_product = larger(s->largest_product, e->product);
        for (int p = 0; p < s->n_plane; p++) s->sum_weight[p] += rows[i].sum_weight[p];
    }
    return send_to_gpu(s);
}
