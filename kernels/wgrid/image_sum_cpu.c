/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wgrid/image_sum_cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/progress.h"

enum { G = MSI_GRID_GUARD, COLUMNS = MSI_PLANE_COLUMNS };

/* Add n cells of a guard to those at the other end of the grid, where they belong. dst and src are disjoint. */
static void add_cells(const msi_wgrid_planes *p, char *dst, const char *src, int64_t n)
{
    if (p->fp32) {
        float *d = (float *)(void *)dst;
        const float *s = (const float *)(const void *)src;
        for (int64_t i = 0; i < 2 * n; i++) d[i] += s[i];
    } else {
        double *d = (double *)(void *)dst;
        const double *s = (const double *)(const void *)src;
        for (int64_t i = 0; i < 2 * n; i++) d[i] += s[i];
    }
}

static void fold_guard_rows(const msi_wgrid_planes *p, char *plane, uint8_t *used)
{
    int64_t nv = p->g->nv, row_bytes = p->stride * (int64_t)p->cell_bytes;
    for (int64_t r = 0; r < p->n_row; r++) {
        if (!used[r] || (r >= G && r < G + nv)) continue;
        int64_t to = r < G ? r + nv : r - nv;
        add_cells(p, plane + to * row_bytes, plane + r * row_bytes, p->stride);
        used[to] = 1;
        memset(plane + r * row_bytes, 0, (size_t)row_bytes);
        used[r] = 0;
    }
}

/* Copy 16 columns of the rows in use into contiguous ones; rows without a sample are zeros. */
#define GATHER(type)                                                                                                   \
    static void gather_##type(const msi_wgrid_planes *p, const char *plane, const uint8_t *used,                       \
                              const int64_t *column, int n_column, char *out)                                          \
    {                                                                                                                  \
        for (int64_t r = 0; r < p->g->nv; r++) {                                                                       \
            const type *row = (const type *)(const void *)plane + (r + G) * p->stride;                                 \
            type *to = (type *)(void *)out + r, zero = {0, 0};                                                         \
            int has = used[r + G];                                                                                     \
            for (int k = 0; k < n_column; k++) to[k * p->column_pitch] = has ? row[column[k]] : zero;                  \
        }                                                                                                              \
    }
GATHER(msi_c32)
GATHER(msi_c64)
#undef GATHER

static void transform_columns(const msi_wgrid_planes *p, const char *plane, const uint8_t *row_used, double w_lambda,
                              double *sum, int64_t first, int n_column)
{
    const msi_wgrid_geometry *g = p->g;
    const msi_image_geometry *image = &p->plan->image;
    int fp32 = p->fp32;
    char *out = p->columns[omp_get_thread_num()];
    int64_t column[COLUMNS];
    for (int k = 0; k < n_column; k++) {
        int64_t i = first + k - image->nx / 2;
        column[k] = G + (i < 0 ? i + g->nu : i);
    }
    (fp32 ? gather_msi_c32 : gather_msi_c64)(p, plane, row_used, column, n_column, out);
    for (int k = 0; k < n_column; k++) {
        void *spectrum = out + k * p->column_pitch * (int64_t)p->cell_bytes;
        msi_fft1d_run(p->fft_v, spectrum);
        msi_screen_column screen = {
            .spectrum = spectrum,
            .nv = g->nv,
            .ny = image->ny,
            .screen = {.l = g->l_center_rad + (double)(image->nx / 2 - first - k) * image->cell_x_rad,
                       .m_center = g->m_center_rad,
                       .cell_y_rad = image->cell_y_rad,
                       .w_lambda = w_lambda,
                       .n_mid = g->n_mid},
            .sum = sum + (first + k) * image->ny};
        (fp32 ? p->column_simd->screen_f32 : p->column_simd->screen_f64)(&screen);
    }
}

void msi_image_sum_add(const msi_wgrid_planes *p, char *plane, uint8_t *row_used, double w_lambda, double *sum)
{
    int64_t nu = p->g->nu, nv = p->g->nv, row_bytes = p->stride * (int64_t)p->cell_bytes;
    fold_guard_rows(p, plane, row_used);
    msi_progress_share all = msi_progress_enter(0, 1, 3);
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t r = G; r < G + nv; r++) {
        if (!row_used[r]) continue;
        if (!omp_get_thread_num()) msi_progress_at(r - G, nv);
        char *row = plane + r * row_bytes;
        add_cells(p, row + nu * (int64_t)p->cell_bytes, row, G);
        add_cells(p, row + G * (int64_t)p->cell_bytes, row + (G + nu) * (int64_t)p->cell_bytes, G);
        msi_fft1d_run(p->fft_u, row + G * (int64_t)p->cell_bytes);
    }
    msi_progress_leave(all);
    int64_t nx = p->plan->image.nx;
    all = msi_progress_enter(1, 3, 3);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t first = 0; first < nx; first += COLUMNS) {
        if (msi_interrupt_signal()) continue;
        if (!omp_get_thread_num()) msi_progress_at(first, nx);
        transform_columns(p, plane, row_used, w_lambda, sum, first, (int)(nx - first < COLUMNS ? nx - first : COLUMNS));
    }
    msi_progress_leave(all);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < p->n_row; r++) {
        if (row_used[r]) memset(plane + r * row_bytes, 0, (size_t)row_bytes);
        row_used[r] = 0;
    }
}

void msi_image_sum_correct(const msi_wgrid_planes *p, const double *sum, const msi_taper *taper, msi_image *image,
                           int plane)
{
    enum { BLOCK = MSI_TAPER_STRIP };
    int64_t nx = image->geometry.nx, ny = image->geometry.ny;
    double scale = image->sum_weight[plane] > 0 ? 1 / image->sum_weight[plane] : NAN;
    const msi_wgrid_geometry *g = p->g;
    int fp32 = p->fp32;
    float *out32 = (float *)image->pixel + plane * nx * ny;
    double *out64 = (double *)image->pixel + plane * nx * ny;
#pragma omp parallel for schedule(dynamic, 4) collapse(2)
    for (int64_t y0 = 0; y0 < ny; y0 += BLOCK)
        for (int64_t x0 = 0; x0 < nx; x0 += BLOCK) {
            double block[BLOCK][BLOCK];
            int64_t n_x = nx - x0 < BLOCK ? nx - x0 : BLOCK, n_y = ny - y0 < BLOCK ? ny - y0 : BLOCK;
            for (int64_t x = 0; x < n_x; x++) {
                msi_taper_column column = {
                    .sum = sum + (x0 + x) * ny + y0,
                    .n = (int)n_y,
                    .l = g->l_center_rad + (double)(nx / 2 - x0 - x) * image->geometry.cell_x_rad,
                    .m_first = g->m_center_rad + (double)(y0 - ny / 2) * image->geometry.cell_y_rad,
                    .cell_y_rad = image->geometry.cell_y_rad,
                    .factor = scale * taper->along_x[x0 + x],
                    .along_y = taper->along_y + y0,
                    .taper = taper,
                    .out = block[x]};
                p->column_simd->taper(&column);
            }
            for (int64_t y = 0; y < n_y; y++)
                for (int64_t x = 0; x < n_x; x++) {
                    int64_t at = (y0 + y) * nx + x0 + x;
                    if (fp32)
                        out32[at] = (float)block[x][y];
                    else
                        out64[at] = block[x][y];
                }
        }
}

int msi_image_sum_make(const msi_plane_imager *imager, const msi_vis_store *store, const int *store_plane,
                       msi_image *image, msi_stage_times *times)
{
    const msi_wgrid_plan *plan = imager->planes->plan;
    const int n_part = 1 + MSI_PLANE_PARTS * image->n_plane;
    msi_taper taper = {0};
    double t0 = msi_wall_s();
    msi_progress_share all = msi_progress_enter(0, 1, n_part);
    int rc = msi_bucket_sort(imager->buckets, store, &plan->grid);
    msi_progress_leave(all);
    times->sort_s += msi_wall_s() - t0;
    if (!rc) rc = msi_taper_make(&taper, &plan->image, &plan->grid, &plan->window, &plan->w_window);
    for (int i = 0; !rc && i < image->n_plane; i++) {
        memset(imager->sum, 0, (size_t)msi_image_n_pixel(&plan->image) * sizeof *imager->sum);
        all = msi_progress_enter(1 + MSI_PLANE_PARTS * i, 1 + MSI_PLANE_PARTS * (i + 1), n_part);
        rc = imager->add_plane(imager->of, store_plane[i], times);
        if (rc) break;
        t0 = msi_wall_s();
        msi_image_sum_correct(imager->planes, imager->sum, &taper, image, i);
        msi_progress_leave(all);
        times->correct_s += msi_wall_s() - t0;
    }
    msi_taper_free(&taper);
    return rc;
}
