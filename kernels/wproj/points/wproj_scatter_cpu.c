/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The loops of degridding turned inside out: rows of cells outside, and for each one the visibilities whose footprints
 * reach it, to which it adds its part. Some hundred samples at a time are sorted by row; two bookmarks move through
 * them with the row.
 *
 * Source: NVIDIA 2015 ("Degridding optimization for SDP on NVIDIA GPUs"), "Scatter".
 */
#include "kernels/wproj/points/wproj_scatter_cpu.h"

#include <stdlib.h>

#include "kernels/wproj/job/wproj_reference.h"

enum { GROUP = 256 };

typedef struct scattered {
    msi_wproj_place place;
    const msi_vis_segment *segment;
    int64_t row;
    int32_t chan;
    msi_c64 sum;
} scattered;

static int by_row(const void *a, const void *b)
{
    const scattered *x = a, *y = b;
    return (x->place.v > y->place.v) - (x->place.v < y->place.v);
}

/* Add row v's part to a visibility whose footprint may reach it. */
static void add_row(const msi_wproj_span *s, const msi_wproj_cells *c, int fp32, int64_t v, scattered *vis)
{
    const msi_wproj_place *p = &vis->place;
    int32_t half = s->kernels->half[p->plane], tv = (int32_t)(v - p->v);
    if (tv < -half || tv > half) return;
    int64_t first = msi_wproj_first_cell(c, p, half) + (tv + half) * c->stride;
    for (int32_t tu = -half; tu <= half; tu++) {
        msi_c64 tap = msi_wproj_reference_tap(s->geometry, s->kernels, p, tu, tv);
        msi_c64 x = msi_c64_times((msi_c64){tap.re, -tap.im}, msi_wproj_cell_get(c->cells, first + tu + half, fp32));
        vis->sum.re += x.re;
        vis->sum.im += x.im;
    }
}

static void scatter_group(const msi_wproj_span *s, const msi_wproj_cells *c, int fp32, scattered *vis, int n)
{
    const int64_t reach = s->kernels->half_max;
    qsort(vis, (size_t)n, sizeof *vis, by_row);
    int low = 0, high = 0;
    for (int64_t v = vis[0].place.v - reach; low < n; v++) {
        while (low < n && vis[low].place.v + reach < v) low++;
        if (low == high && low < n && vis[low].place.v - reach > v) v = vis[low].place.v - reach;
        while (high < n && vis[high].place.v - reach <= v) high++;
        for (int k = low; k < high; k++) add_row(s, c, fp32, v, &vis[k]);
    }
    for (int k = 0; k < n; k++)
        msi_wproj_reference_store(s, vis[k].segment, vis[k].row, vis[k].chan, &vis[k].place, vis[k].sum);
}

static void scatter_span(const msi_wproj_span *s, const msi_wproj_cells *c, int fp32)
{
    scattered vis[GROUP];
    int n = 0;
    for (int64_t i = 0; i < s->n_run; i++) {
        const msi_run *run = &s->run[i];
        const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
        int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
        for (int32_t chan = run->chan; chan < run->chan + run->n_chan; chan++) {
            vis[n++] = (scattered){.place = msi_wproj_reference_place(s, segment, row, chan),
                                   .segment = segment,
                                   .row = row,
                                   .chan = chan};
            if (n < GROUP) continue;
            scatter_group(s, c, fp32, vis, n);
            n = 0;
        }
    }
    if (n) scatter_group(s, c, fp32, vis, n);
}

void msi_wproj_scatter_degrid_f32(const msi_wproj_span *span, const msi_wproj_cells *source)
{
    scatter_span(span, source, 1);
}

void msi_wproj_scatter_degrid_f64(const msi_wproj_span *span, const msi_wproj_cells *source)
{
    scatter_span(span, source, 0);
}
