/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/direct_sum.h"

#include <math.h>

static double one_pixel(const msi_vis_block *blocks, int n_block, int plane, const msi_image_geometry *g, double l,
                        double m)
{
    long double n_1 =
        -((long double)l * l + (long double)m * m) / (1 + sqrtl(1 - (long double)l * l - (long double)m * m));
    long double sum = 0, weights = 0;
    for (int b = 0; b < n_block; b++) {
        const msi_vis_block *k = &blocks[b];
        int64_t base = (int64_t)(plane < 0 ? 0 : plane) * k->n_row * k->n_chan;
        for (int64_t row = 0; row < k->n_row; row++)
            for (int32_t c = 0; c < k->n_chan; c++) {
                long double scale = (long double)k->freq_hz[c] / MSI_SPEED_OF_LIGHT;
                long double u = k->uvw_m[3 * row] * scale, v = k->uvw_m[3 * row + 1] * scale,
                            w = k->uvw_m[3 * row + 2] * scale;
                int64_t at = base + row * k->n_chan + c;
                if (!(k->weight[at] > 0) || fabsl(u) * g->cell_x_rad > 0.5L || fabsl(v) * g->cell_y_rad > 0.5L)
                    continue;
                long double turns = u * l + v * m + w * n_1;
                double phase = 2 * MSI_PI * (double)(turns - rintl(turns));
                double re = plane < 0 ? 1 : k->vis[at].re, im = plane < 0 ? 0 : k->vis[at].im;
                sum += k->weight[at] * (long double)(re * cos(phase) + im * sin(phase));
                weights += k->weight[at];
            }
    }
    return (double)(sum / weights);
}

void msi_direct_sum(const msi_vis_block *blocks, int n_block, int plane, const msi_image_geometry *g, const int64_t *x,
                    const int64_t *y, int64_t n_pixel, double *value)
{
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n_pixel; i++) {
        double l = (double)(g->nx / 2 - x[i]) * g->cell_x_rad, m = (double)(y[i] - g->ny / 2) * g->cell_y_rad;
        value[i] = l * l + m * m < 1 ? one_pixel(blocks, n_block, plane, g, l, m) : NAN;
    }
}
