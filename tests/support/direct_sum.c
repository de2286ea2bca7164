/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/support/direct_sum.h"

#include <math.h>

/* n - 1 of a pixel inside the horizon. */
static long double n_minus_1(double l, double m)
{
    long double r2 = (long double)l * l + (long double)m * m;
    return -r2 / (1 + sqrtl(1 - r2));
}

static double one_pixel(const msi_vis_block *k, int plane, const msi_image_geometry *g, double l, double m)
{
    long double n_1 = n_minus_1(l, m);
    long double sum = 0, weights = 0;
    int64_t base = (int64_t)(plane < 0 ? 0 : plane) * k->n_row * k->n_chan;
    for (int64_t row = 0; row < k->n_row; row++)
        for (int32_t c = 0; c < k->n_chan; c++) {
            long double scale = (long double)k->freq_hz[c] / MSI_SPEED_OF_LIGHT;
            long double u = k->uvw_m[3 * row] * scale, v = k->uvw_m[3 * row + 1] * scale,
                        w = k->uvw_m[3 * row + 2] * scale;
            int64_t at = base + row * k->n_chan + c;
            if (!(k->weight[at] > 0) || fabsl(u) * g->cell_x_rad > 0.5L || fabsl(v) * g->cell_y_rad > 0.5L) continue;
            long double turns = u * l + v * m + w * n_1;
            double phase = 2 * MSI_PI * (double)(turns - rintl(turns));
            double re = plane < 0 ? 1 : k->vis[at].re, im = plane < 0 ? 0 : k->vis[at].im;
            sum += k->weight[at] * (long double)(re * cos(phase) + im * sin(phase));
            weights += k->weight[at];
        }
    return (double)(sum / weights);
}

/* Find l and m of pixel i. Returns 1 inside the horizon. */
static int pixel_lm(const msi_pixels *p, int64_t i, const msi_image_geometry *g, double *l, double *m)
{
    *l = (double)(g->nx / 2 - p->x[i]) * g->cell_x_rad;
    *m = (double)(p->y[i] - g->ny / 2) * g->cell_y_rad;
    return *l * *l + *m * *m < 1;
}

void msi_direct_sum(const msi_vis_block *block, int plane, const msi_image_geometry *g, const msi_pixels *pixels,
                    double *value)
{
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < pixels->n; i++) {
        double l, m;
        value[i] = pixel_lm(pixels, i, g, &l, &m) ? one_pixel(block, plane, g, l, m) : NAN;
    }
}

enum { STRIP = 64 };

/* Add the contributions of n <= STRIP pixels. */
static void add_pixels(const msi_vis_block *block, const long double (*lmn)[3], const double *flux_jy, int64_t n,
                       msi_c64 *vis)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < block->n_row * block->n_chan; i++) {
        const double *uvw = block->uvw_m + i / block->n_chan * 3;
        long double scale = (long double)block->freq_hz[i % block->n_chan] / MSI_SPEED_OF_LIGHT;
        long double u = uvw[0] * scale, v = uvw[1] * scale, w = uvw[2] * scale, re = 0, im = 0;
        for (int64_t k = 0; k < n; k++) {
            long double turns = u * lmn[k][0] + v * lmn[k][1] + w * lmn[k][2];
            double phase = 2 * MSI_PI * (double)(turns - rintl(turns));
            re += (long double)(flux_jy[k] * cos(phase));
            im += (long double)(flux_jy[k] * sin(phase));
        }
        vis[i].re += (double)re;
        vis[i].im += (double)im;
    }
}

void msi_direct_visibility(const msi_vis_block *block, const msi_image_geometry *g, const msi_pixels *pixels,
                           const double *flux_jy, msi_c64 *vis)
{
    long double lmn[STRIP][3];
    double flux[STRIP];
    for (int64_t i = 0; i < block->n_row * block->n_chan; i++) vis[i] = (msi_c64){0, 0};
    for (int64_t i = 0; i < pixels->n;) {
        int64_t n = 0;
        for (; n < STRIP && i < pixels->n; i++) {
            double l, m;
            if (!pixel_lm(pixels, i, g, &l, &m)) continue;
            lmn[n][0] = l;
            lmn[n][1] = m;
            lmn[n][2] = n_minus_1(l, m);
            flux[n++] = flux_jy[i];
        }
        add_pixels(block, (const long double(*)[3])lmn, flux, n, vis);
    }
}
