/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two passes over the samples: one counts runs a bucket, one puts them in place. Coordinates are formed anew in the
 * second pass, which is cheaper than writing keys to memory and reading them back (three multiplications a sample
 * against eight bytes each way).
 */
#include "kernels/prepare/bucket_sort_cpu.h"

#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/memory.h"
#include "core/status.h"

static int sample_used(const msi_vis_segment *segment, int n_plane, int64_t row, int32_t chan)
{
    for (int p = 0; p < n_plane; p++)
        if (segment->weight[msi_segment_index(segment, p, row, chan)] > 0) return 1;
    return 0;
}

/* Calls put(context, bucket, run) for each run of a row. */
static inline void walk_row(const msi_vis_store *store, const msi_wgrid_geometry *g, int64_t segment_number,
                            int64_t row, void (*put)(msi_buckets *, int64_t, msi_run), msi_buckets *context)
{
    const msi_vis_segment *segment = &store->segment[segment_number];
    const double *uvw = segment->uvw_m + 3 * row;
    msi_run run = {(uint32_t)(segment_number * MSI_SEGMENT_ROWS + row), 0, 0};
    int64_t current = -1;
    for (int32_t c = 0; c < segment->n_chan; c++) {
        int64_t bucket = -1;
        if (sample_used(segment, store->n_plane, row, c)) {
            msi_footprint f;
            double w;
            msi_locate(g, uvw, segment->freq_hz[c], &f, &w);
            bucket = msi_bucket(g, &f);
        }
        if (bucket != current) {
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

/* start[bucket] serves as the cursor of the bucket, and is moved back afterwards. */
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
        for (int64_t row = 0; row < store->segment[i].n_row; row++) walk_row(store, g, i, row, put, context);
    }
}

static int by_row(const void *a, const void *b)
{
    const msi_run *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return (x->chan > y->chan) - (x->chan < y->chan);
}

/* Threads place runs in any order; sums must not depend on it. Most buckets are short or already in order. */
static void order_bucket(msi_run *run, int64_t n)
{
    if (n > 64) {
        int sorted = 1;
        for (int64_t i = 1; i < n && sorted; i++) sorted = by_row(&run[i - 1], &run[i]) < 0;
        if (!sorted) qsort(run, (size_t)n, sizeof *run, by_row);
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        msi_run moving = run[i];
        int64_t j = i;
        for (; j > 0 && by_row(&run[j - 1], &moving) > 0; j--) run[j] = run[j - 1];
        run[j] = moving;
    }
}

int msi_bucket_sort(msi_buckets *out, const msi_vis_store *store, const msi_wgrid_geometry *g)
{
    memset(out, 0, sizeof *out);
    int64_t n_w0 = g->n_w - g->w_width + 1;
    out->n_bucket = n_w0 * g->n_tile_v * g->n_tile_u;
    int rc = msi_alloc(&out->start, out->n_bucket + 2, sizeof *out->start, "table of buckets");
    if (rc) return rc;
    /* Counts land one place further on, so that after the prefix sum start[b] is the first run of bucket b and, after
     * placing, of bucket b + 1. */
    out->start++;
    walk_all(store, g, count_run, out);
    for (int64_t i = 0; i < out->n_bucket; i++) out->start[i + 1] += out->start[i];
    out->n_run = out->start[out->n_bucket];
    rc = msi_alloc(&out->run, out->n_run, sizeof *out->run, "sorted runs of visibilities");
    if (!rc) {
        walk_all(store, g, place_run, out);
        rc = msi_interrupt_check();
    }
    out->start--;
    if (rc) {
        msi_buckets_free(out);
        return rc;
    }
#pragma omp parallel for schedule(dynamic, 4096)
    for (int64_t i = 0; i < out->n_bucket; i++)
        order_bucket(out->run + out->start[i], out->start[i + 1] - out->start[i]);
    return MSI_OK;
}

void msi_buckets_free(msi_buckets *b)
{
    msi_free(b->start);
    msi_free(b->run);
    memset(b, 0, sizeof *b);
}
