/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two passes over the samples: the first counts the runs of each bucket, the second writes them to their places. The
 * second pass computes the coordinates again. This takes three multiplications per sample, which is cheaper than
 * writing and reading keys of eight bytes.
 */
#include "kernels/store/bucket_sort_cpu.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/method/simd.h"

static int sample_used(const msi_vis_segment *segment, int n_plane, int64_t row, int32_t chan)
{
    for (int p = 0; p < n_plane; p++)
        if (segment->weight[msi_segment_index(segment, p, row, chan)] > 0) return 1;
    return 0;
}

/* Call put(context, bucket, run) for each run of a row. In a store of coordinates all samples are used, also those
 * outside the uv plane. */
static inline void walk_row(const int coordinates, const msi_vis_store *store, const msi_wgrid_geometry *g,
                            int64_t segment_number, int64_t row, void (*put)(msi_buckets *, int64_t, msi_run),
                            msi_buckets *context)
{
    const msi_vis_segment *segment = &store->segment[segment_number];
    const double *uvw = segment->uvw_m + 3 * row;
    msi_run run = {(uint32_t)(segment_number * MSI_SEGMENT_ROWS + row), 0, 0};
    int64_t current = -1;
    for (int32_t c = 0; c < segment->n_chan; c++) {
        int64_t bucket = -1;
        if (coordinates || sample_used(segment, store->n_plane, row, c)) {
            msi_footprint f;
            double w;
            msi_locate_any(g, uvw, segment->freq_hz[c], coordinates, &f, &w);
            bucket = msi_bucket(g, &f);
        }
        if (bucket != current || run.n_chan == MSI_RUN_MAX_CHAN) {
            if (current >= 0) put(context, current, run);
            current = bucket;
            run.chan = (uint16_t)c;
            run.n_chan = 0;
        }
        run.n_chan++;
    }
    if (current >= 0) put(context, current, run);
}

static void count_run(msi_buckets *b, int64_t bucket, msi_run run)
{
    (void)run;
    __atomic_fetch_add(&b->start[bucket + 1], 1, __ATOMIC_RELAXED);
}

/* Write a run to its bucket. start[bucket] is the next free place of the bucket; it is restored afterwards. */
static void place_run(msi_buckets *b, int64_t bucket, msi_run run)
{
    b->run[__atomic_fetch_add(&b->start[bucket], 1, __ATOMIC_RELAXED)] = run;
}

static void walk_all(const msi_vis_store *store, const msi_wgrid_geometry *g,
                     void (*put)(msi_buckets *, int64_t, msi_run), msi_buckets *context)
{
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < store->n_segment; i++) {
        if (msi_interrupt_signal()) continue;
        if (!omp_get_thread_num()) msi_progress_at(i, store->n_segment);
        for (int64_t row = 0; row < store->segment[i].n_row; row++)
            if (store->coordinates)
                walk_row(1, store, g, i, row, put, context);
            else
                walk_row(0, store, g, i, row, put, context);
    }
}

/* Return a run's rank in the order of row and channel. */
static uint64_t run_order(msi_run r)
{
    return (uint64_t)r.row << 32 | (uint64_t)r.chan << 16 | r.n_chan;
}

static void insertion_sort(msi_run *run, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        msi_run moving = run[i];
        int64_t j = i;
        for (; j > 0 && run_order(run[j - 1]) > run_order(moving); j--) run[j] = run[j - 1];
        run[j] = moving;
    }
}

/* Sort the runs of a bucket, which threads wrote in any order, so that sums do not depend on the threads. It is a
 * quicksort with the median of three, in place because one bucket may hold all samples. */
static void order_bucket(msi_run *run, int64_t n)
{
    enum { SHORT = 32 };
    while (n > SHORT) {
        uint64_t a = run_order(run[0]), b = run_order(run[n / 2]), c = run_order(run[n - 1]);
        uint64_t pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int64_t i = 0, j = n - 1;
        for (;; i++, j--) {
            while (run_order(run[i]) < pivot) i++;
            while (run_order(run[j]) > pivot) j--;
            if (i >= j) break;
            msi_run swap = run[i];
            run[i] = run[j];
            run[j] = swap;
        }
        /* Sort the shorter of [0, i) and [i, n) by recursion, and continue with the other. */
        if (i == 0) i = 1;
        if (i < n - i) {
            order_bucket(run, i);
            run += i;
            n -= i;
        } else {
            order_bucket(run + i, n - i);
            n = i;
        }
    }
    insertion_sort(run, n);
}

int msi_bucket_sort(msi_buckets *out, const msi_vis_store *store, const msi_wgrid_geometry *g)
{
    if (store->order) {
        *out = *store->order;
        out->is_borrowed = 1;
        return MSI_OK;
    }
    memset(out, 0, sizeof *out);
    int64_t n_w0 = g->n_w - g->w_width + 1;
    out->n_bucket = n_w0 * g->n_tile_v * g->n_tile_u;
    int rc = msi_alloc_paged(&out->start, out->n_bucket + 2, sizeof *out->start, "tables of buckets");
    if (rc) return rc;
    /* Counts are stored one element later. So after the prefix sum start[b] is the first run of bucket b, and after
     * placing it is the first run of bucket b + 1. */
    out->start++;
    msi_progress_share all = msi_progress_enter(0, 2, 5);
    walk_all(store, g, count_run, out);
    msi_progress_leave(all);
    for (int64_t i = 0; i < out->n_bucket; i++) out->start[i + 1] += out->start[i];
    out->n_run = out->start[out->n_bucket];
    rc = msi_alloc_paged(&out->run, out->n_run, sizeof *out->run, "sorted runs of visibilities");
    if (!rc) {
        all = msi_progress_enter(2, 4, 5);
        walk_all(store, g, place_run, out);
        msi_progress_leave(all);
        rc = msi_interrupt_check();
    }
    out->start--;
    if (rc) {
        msi_buckets_free(out);
        return rc;
    }
    all = msi_progress_enter(4, 5, 5);
#pragma omp parallel for schedule(dynamic, 1024)
    for (int64_t i = 0; i < out->n_bucket; i++) {
        if (i % 1024 == 0 && !omp_get_thread_num()) msi_progress_at(i, out->n_bucket);
        order_bucket(out->run + out->start[i], out->start[i + 1] - out->start[i]);
    }
    msi_progress_leave(all);
    return MSI_OK;
}

void msi_buckets_free(msi_buckets *b)
{
    if (!b->is_borrowed) {
        msi_free(b->start);
        msi_free(b->run);
    }
    memset(b, 0, sizeof *b);
}

static int most_runs_first(const void *a, const void *b)
{
    const msi_tile_work *x = a, *y = b;
    if (x->n_run != y->n_run) return x->n_run > y->n_run ? -1 : 1;
    return (x->tile > y->tile) - (x->tile < y->tile);
}

void msi_tile_work_sort(msi_tile_work *work, int64_t n)
{
    qsort(work, (size_t)n, sizeof *work, most_runs_first);
}

void msi_tile_work_report(msi_tile_progress *p, int64_t i)
{
    if (omp_get_thread_num()) return;
    while (p->n_seen < i) p->n_run_seen += p->work[p->n_seen++].n_run;
    msi_progress_at(p->n_run_seen, p->n_run);
}

/* ---- Adding buffers to the grid --------------------------------------------------------------------------------- */

extern const msi_bucket_simd_table msi_bucket_simd_table_base, msi_bucket_simd_table_avx2, msi_bucket_simd_table_avx512;

const msi_bucket_simd_table *msi_bucket_simd(void)
{
    static const msi_bucket_simd_table *const table[MSI_N_SIMD] = MSI_SIMD_TABLES(msi_bucket_simd_table);
    return table[msi_simd_best()];
}

/* ---- Residuals -------------------------------------------------------------------------------------------------- */

int64_t msi_residual_store_bytes(int64_t n_sample, int n_plane, msi_precision precision)
{
    return n_sample * n_plane * msi_complex_bytes(precision);
}

/* Make the segments of the second store, with their own visibilities. */
static int make_second_store(msi_residual_store *s, const msi_vis_store *store)
{
    int64_t bytes = 0, each = store->n_plane * s->residual.n_term * msi_complex_bytes(store->precision);
    s->residual.segment = NULL;
    for (int64_t i = 0; i < store->n_segment; i++)
        bytes += store->segment[i].n_row_max * store->segment[i].n_chan * each;
    MSI_TRY(msi_alloc_paged(&s->vis, bytes, 1, "visibilities less a model"));
    MSI_TRY(
        msi_alloc(&s->residual.segment, store->n_segment, sizeof *s->residual.segment, "visibilities less a model"));
    char *at = s->vis;
    for (int64_t i = 0; i < store->n_segment; i++) {
        s->residual.segment[i] = store->segment[i];
        s->residual.segment[i].vis = at;
        at += store->segment[i].n_row_max * store->segment[i].n_chan * each;
    }
    return MSI_OK;
}

int msi_residual_store_make(msi_residual_store **out, const msi_vis_store *store, int n_term,
                            const msi_wgrid_geometry *geometry)
{
    msi_residual_store *s;
    *out = NULL;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "visibilities less a model"));
    s->data = s->residual = *store;
    s->residual.n_term = n_term;
    int rc = make_second_store(s, store);
    if (!rc) rc = msi_bucket_sort(&s->order, store, geometry);
    s->data.order = s->residual.order = &s->order;
    if (rc)
        msi_residual_store_free(s);
    else
        *out = s;
    return rc;
}

void msi_residual_store_free(msi_residual_store *s)
{
    if (!s) return;
    msi_buckets_free(&s->order);
    msi_free(s->residual.segment);
    msi_free(s->vis);
    msi_free(s);
}

#define SUBTRACT(type)                                                                                                 \
    static void subtract_##type(const type *data, type *vis, int64_t n)                                                \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            vis[i].re = data[i].re - vis[i].re;                                                                        \
            vis[i].im = data[i].im - vis[i].im;                                                                        \
        }                                                                                                              \
    }
SUBTRACT(msi_c32)
SUBTRACT(msi_c64)
#undef SUBTRACT

void msi_residual_store_subtract(msi_residual_store *s)
{
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < s->data.n_segment; i++)
        for (int p = 0; p < s->data.n_plane; p++) {
            const msi_vis_segment *g = &s->data.segment[i];
            const int64_t first = msi_segment_index(g, p, 0, 0), n = g->n_row * g->n_chan;
            if (s->data.precision == MSI_FP32)
                subtract_msi_c32((const msi_c32 *)g->vis + first, (msi_c32 *)s->residual.segment[i].vis + first, n);
            else
                subtract_msi_c64((const msi_c64 *)g->vis + first, (msi_c64 *)s->residual.segment[i].vis + first, n);
        }
}

/* ---- Terms of polynomials ---- */

/* The samples of a channel of a segment, in both stores. */
typedef struct term_samples {
    const void *data; /* data of the plane; NULL: not read */
    void *residual;   /* residual of its first term */
    int64_t pitch;    /* row pitch of the terms, in samples */
    int n_term;
    int has_model;
    double x;
} term_samples;

#define TERMS(type, real)                                                                                              \
    static void subtract_terms_##type(const term_samples *s, int64_t at)                                               \
    {                                                                                                                  \
        const type *data = s->data;                                                                                    \
        type *out = (type *)s->residual + at;                                                                          \
        const real x = (real)s->x;                                                                                     \
        type sum = {0, 0};                                                                                             \
        for (int t = s->n_term - 1; s->has_model && t >= 0; t--) {                                                     \
            sum.re = sum.re * x + out[t * s->pitch].re;                                                                \
            sum.im = sum.im * x + out[t * s->pitch].im;                                                                \
        }                                                                                                              \
        type value = {data[at].re - sum.re, data[at].im - sum.im};                                                     \
        for (int t = 0; t < s->n_term; t++) {                                                                          \
            out[t * s->pitch] = value;                                                                                 \
            value.re *= x;                                                                                             \
            value.im *= x;                                                                                             \
        }                                                                                                              \
    }
TERMS(msi_c32, float)
TERMS(msi_c64, double)
#undef TERMS

void msi_residual_store_subtract_terms(msi_residual_store *s, double reference_hz, int has_model)
{
    const int is_single = s->data.precision == MSI_FP32;
    const int64_t each = msi_complex_bytes(s->data.precision);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < s->data.n_segment; i++) {
        const msi_vis_segment *g = &s->data.segment[i];
        for (int p = 0; p < s->data.n_plane; p++) {
            const int n_term = s->residual.n_term;
            term_samples of = {.data = (const char *)g->vis + msi_segment_index(g, p, 0, 0) * each,
                               .residual =
                                   (char *)s->residual.segment[i].vis + msi_segment_index(g, p * n_term, 0, 0) * each,
                               .pitch = g->n_row_max * g->n_chan,
                               .n_term = n_term,
                               .has_model = has_model};
            for (int64_t row = 0; row < g->n_row; row++)
                for (int32_t c = 0; c < g->n_chan; c++) {
                    of.x = g->freq_hz[c] / reference_hz - 1;
                    (is_single ? subtract_terms_msi_c32 : subtract_terms_msi_c64)(&of, row * g->n_chan + c);
                }
        }
    }
}

void msi_residual_store_powers(msi_residual_store *s, double reference_hz, const int *power, int n)
{
    const int is_single = s->data.precision == MSI_FP32;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < s->residual.n_segment; i++) {
        const msi_vis_segment *g = &s->residual.segment[i];
        for (int k = 0; k < n; k++)
            for (int64_t row = 0; row < g->n_row; row++)
                for (int32_t c = 0; c < g->n_chan; c++) {
                    const double value = pow(g->freq_hz[c] / reference_hz - 1, power[k]);
                    const int64_t at = msi_segment_index(g, k, row, c);
                    if (is_single)
                        ((msi_c32 *)g->vis)[at] = (msi_c32){(float)value, 0};
                    else
                        ((msi_c64 *)g->vis)[at] = (msi_c64){value, 0};
                }
    }
}
