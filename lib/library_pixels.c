/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>

#include "lib/library_gridder.h"

int64_t msi_library_n_pixel(const msimage_gridder *g)
{
    return g->geometry.nx * g->geometry.ny;
}

int64_t msi_library_image_bytes(const msimage_gridder *g, int n_plane)
{
    return n_plane * msi_library_n_pixel(g) * (g->spec.precision == MSIMAGE_FP32 ? 4 : 8);
}

int64_t msi_library_work_bytes(const msimage_gridder *g, int n_plane)
{
    return n_plane * msi_library_n_pixel(g) * msi_image_pixel_bytes(g->precision);
}

/* Return 1 - l^2 - m^2 at pixel x of row y, as the kernels count them; 1 where there is no horizon. */
static double inside(const msimage_gridder *g, int64_t x, int64_t y)
{
    const msi_image_geometry *i = &g->geometry;
    if (g->spec.ignores_w) return 1;
    const double l = g->l_rad + (double)(i->nx / 2 - x) * i->cell_x_rad,
                 m = g->m_rad + (double)(y - i->ny / 2) * i->cell_y_rad;
    return 1 - l * l - m * m;
}

static double get(const void *pixel, int is_fp32, int64_t i)
{
    return is_fp32 ? (double)((const float *)pixel)[i] : ((const double *)pixel)[i];
}

static void put(void *pixel, int is_fp32, int64_t i, double value)
{
    if (is_fp32)
        ((float *)pixel)[i] = (float)value;
    else
        ((double *)pixel)[i] = value;
}

void msi_library_model(const msimage_gridder *g, const void *from, double scale, void *model, int *is_nan)
{
    const int64_t nx = g->geometry.nx, ny = g->geometry.ny;
    const int from_fp32 = g->spec.precision == MSIMAGE_FP32, to_fp32 = g->precision == MSI_FP32;
    for (int p = 0; p < g->n_plane; p++) {
        int bad = 0;
#pragma omp parallel for schedule(static) reduction(| : bad) num_threads(g->n_thread)
        for (int64_t y = 0; y < ny; y++)
            for (int64_t x = 0; x < nx; x++) {
                const int64_t i = (p * ny + y) * nx + x;
                const double n2 = inside(g, x, y);
                double value = n2 > 0 ? get(from, from_fp32, i) * scale : 0;
                if (!isfinite(value)) {
                    bad = 1;
                    value = 0;
                }
                put(model, to_fp32, i, g->spec.divides_by_n && n2 > 0 ? value / sqrt(n2) : value);
            }
        is_nan[p] = bad;
    }
}

void msi_library_pixels(const msimage_gridder *g, const void *from, const double *sum_weight, int n_plane, void *to)
{
    const int64_t nx = g->geometry.nx, ny = g->geometry.ny;
    const int from_fp32 = g->precision == MSI_FP32, to_fp32 = g->spec.precision == MSIMAGE_FP32;
    for (int p = 0; p < n_plane; p++) {
        const double factor = g->is_xy ? sum_weight[p] : 1;
#pragma omp parallel for schedule(static) num_threads(g->n_thread)
        for (int64_t y = 0; y < ny; y++)
            for (int64_t x = 0; x < nx; x++) {
                const int64_t i = (p * ny + y) * nx + x;
                const double n2 = inside(g, x, y), value = get(from, from_fp32, i) * factor;
                /* The kernels' own look at the horizon may round otherwise: what they left out is NaN. */
                const int is_void = g->is_xy && (!(n2 > 0) || isnan(value) || factor == 0);
                put(to, to_fp32, i, is_void ? 0 : g->spec.divides_by_n && n2 > 0 ? value / sqrt(n2) : value);
            }
    }
}
