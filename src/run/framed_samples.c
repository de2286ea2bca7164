/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/framed_samples.h"

#include <math.h>
#include <string.h>

/* Channels further apart than this many widths have a gap between them, over which nothing is interpolated. */
static const double GAP = 1.5;

/* Rounding of frequencies, in widths: a value at the very edge of the band still belongs to it. */
static const double EDGE = 1e-6;

/* Return how many channels of a block are below a frequency. */
static int32_t n_below(const msi_framed_block *b, double limit_hz)
{
    return (int32_t)msi_n_below(b->freq_hz, b->n_chan, limit_hz);
}

msi_framed_block msi_framed_block_make(const msi_channel_grid *grid, const double *freq_hz, int32_t n_chan,
                                       double lowest, double highest)
{
    double width = INFINITY;
    for (int32_t k = 1; k < n_chan; k++)
        if (freq_hz[k] > freq_hz[k - 1]) width = fmin(width, freq_hz[k] - freq_hz[k - 1]);
    if (!isfinite(width)) width = grid->data_width_hz;
    return (msi_framed_block){grid, freq_hz, n_chan, width, lowest, highest};
}

static double half_plane(const msi_framed_block *b)
{
    return 0.5 * fmax(b->grid->step_hz, b->width_hz * b->highest);
}

void msi_framed_planes(const msi_framed_block *b, int64_t *first, int64_t *end)
{
    const msi_channel_grid *g = b->grid;
    const double reach = half_plane(b) * (1 + EDGE);
    const double low = (b->freq_hz[0] * b->lowest - reach - g->first_hz) / g->step_hz,
                 high = (b->freq_hz[b->n_chan - 1] * b->highest + reach - g->first_hz) / g->step_hz;
    *first = low > 0 ? (int64_t)fmin(ceil(low), (double)g->n) : 0;
    *end = high < 0 ? 0 : (int64_t)fmin(floor(high) + 1, (double)g->n);
    if (*end < *first) *end = *first;
}

int32_t msi_framed_range(const msi_framed_block *b, int64_t plane, int32_t *first)
{
    const msi_channel_grid *g = b->grid;
    const double centre = g->first_hz + (double)plane * g->step_hz, reach = half_plane(b) * (1 + EDGE);
    const int32_t begin = n_below(b, (centre - reach) / b->highest), end = n_below(b, (centre + reach) / b->lowest);
    const int is_nearest = g->interpolation == MSI_CHANNEL_NEAREST;
    *first = is_nearest ? begin : 0;
    return end <= begin ? 0 : is_nearest ? end - begin : g->n_part;
}

/* Return the channel nearest to a frequency, if it contains it; else -1. */
static int32_t containing(const msi_framed_block *b, double hz)
{
    const int32_t above = n_below(b, hz);
    int32_t k = above == b->n_chan ? above - 1 : above;
    if (k > 0 && hz - b->freq_hz[k - 1] < b->freq_hz[k] - hz) k--;
    return fabs(hz - b->freq_hz[k]) <= (0.5 + EDGE) * b->width_hz ? k : -1;
}

static void assign(const msi_framed_block *b, const msi_framed_row *row, int64_t plane, int32_t first, int32_t n,
                   msi_c64 *vis, float *weight)
{
    const msi_channel_grid *g = b->grid;
    const double centre = g->first_hz + (double)plane * g->step_hz;
    int32_t begin, end;
    if (g->step_hz < b->width_hz * (1 - EDGE)) {
        begin = containing(b, centre / row->ratio);
        end = begin + (begin >= 0);
    } else {
        begin = n_below(b, (centre - 0.5 * g->step_hz) / row->ratio);
        end = n_below(b, (centre + 0.5 * g->step_hz) / row->ratio);
    }
    for (int32_t i = 0; i < n; i++) {
        const int32_t k = first + i;
        const int is_in = k >= begin && k < end;
        vis[i] = row->vis[k];
        weight[i] = is_in ? row->weight[k] : 0;
    }
}

/* Interpolate by the polynomial through four channels, k - 1 to k + 2. Returns 0 if they are not all there. */
static int cubic(const msi_framed_block *b, const msi_framed_row *row, int32_t k, double hz, msi_c64 *vis)
{
    msi_c64 sum = {0, 0};
    if (k < 1 || k + 2 >= b->n_chan) return 0;
    for (int32_t i = k - 1; i <= k + 2; i++) {
        double factor = 1;
        if (!(row->weight[i] > 0) || (i > k - 1 && b->freq_hz[i] - b->freq_hz[i - 1] > GAP * b->width_hz)) return 0;
        for (int32_t j = k - 1; j <= k + 2; j++)
            if (j != i) factor *= (hz - b->freq_hz[j]) / (b->freq_hz[i] - b->freq_hz[j]);
        sum.re += factor * row->vis[i].re;
        sum.im += factor * row->vis[i].im;
    }
    *vis = sum;
    return 1;
}

/* Make a value at a frequency of the data between two channels; both must have a weight. */
static void interpolate(const msi_framed_block *b, const msi_framed_row *row, double hz, msi_c64 *vis, float *weight)
{
    const int32_t above = n_below(b, hz), k = above - 1;
    *vis = (msi_c64){0, 0};
    *weight = 0;
    if (above == 0 || above == b->n_chan || b->freq_hz[above] - b->freq_hz[k] > GAP * b->width_hz) {
        const int32_t alone = containing(b, hz);
        if (alone < 0) return;
        *vis = row->vis[alone];
        *weight = row->weight[alone];
        return;
    }
    const double part = (hz - b->freq_hz[k]) / (b->freq_hz[above] - b->freq_hz[k]);
    const int is_at_k = part<EDGE, is_at_above = part> 1 - EDGE;
    if ((!is_at_above && !(row->weight[k] > 0)) || (!is_at_k && !(row->weight[above] > 0))) return;
    if (b->grid->interpolation != MSI_CHANNEL_CUBIC || is_at_k || is_at_above || !cubic(b, row, k, hz, vis)) {
        vis->re = (is_at_above ? 0 : (1 - part) * row->vis[k].re) + (is_at_k ? 0 : part * row->vis[above].re);
        vis->im = (is_at_above ? 0 : (1 - part) * row->vis[k].im) + (is_at_k ? 0 : part * row->vis[above].im);
    }
    *weight = (float)((1 - part) * (double)row->weight[k] + part * (double)row->weight[above]);
}

void msi_framed_convert(const msi_framed_block *b, const msi_framed_row *row, int64_t plane, int32_t first, int32_t n,
                        msi_c64 *vis, float *weight)
{
    if (b->grid->interpolation == MSI_CHANNEL_NEAREST) {
        assign(b, row, plane, first, n, vis, weight);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        interpolate(b, row, msi_framed_part_hz(b->grid, plane, i) / row->ratio, &vis[i], &weight[i]);
}
