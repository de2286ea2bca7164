/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wgrid/model_planes_cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

enum { G = MSI_GRID_GUARD, COLUMNS = MSI_PLANE_COLUMNS };

int msi_model_planes_create(msi_model_planes *m, const msi_wgrid_plan *plan, int n_image, int64_t n_w_plane,
                            int64_t n_resident, int keeps)
{
    memset(m, 0, sizeof *m);
    m->n_image = n_image;
    m->n_w_plane = n_w_plane;
    m->keeps = keeps;
    MSI_TRY(msi_wgrid_planes_create(&m->planes, plan, keeps ? n_image * n_w_plane : n_resident));
    MSI_TRY(msi_alloc(&m->column_used, n_image * plan->image.nx, 1, "model"));
    MSI_TRY(msi_alloc(&m->image_used, n_image, 1, "model"));
    MSI_TRY(msi_alloc(&m->value, msi_image_n_pixel(&plan->image), m->planes.fp32 ? sizeof(float) : sizeof(double),
                      "model"));
    MSI_TRY(msi_alloc(&m->wanted, m->planes.n_row, 1, "w-planes"));
    return msi_taper_make(&m->taper, &plan->image, &plan->grid, &plan->window, &plan->w_window);
}

void msi_model_planes_free(msi_model_planes *m)
{
    msi_wgrid_planes_free(&m->planes);
    msi_free(m->column_used);
    msi_free(m->image_used);
    msi_free(m->value);
    msi_free(m->wanted);
    msi_taper_free(&m->taper);
    memset(m, 0, sizeof *m);
}

void msi_model_planes_forget_model(msi_model_planes *m)
{
    msi_free(m->value);
    m->value = NULL;
}

/* Find the cell of a row that column x of the model goes to: backwards, since the forward transform of a sequence that
 * is read backwards is its backward transform. */
static int64_t cell_of_column(const msi_model_planes *m, int64_t x)
{
    int64_t i = m->planes.plan->image.nx / 2 - x;
    return i < 0 ? i + m->planes.g->nu : i;
}

static int columns_used(const msi_model_planes *m, int image, int64_t first, int64_t n)
{
    const uint8_t *used = m->column_used + image * m->planes.plan->image.nx + first;
    int any = 0;
    for (int64_t k = 0; k < n; k++) any |= used[k];
    return any;
}

static int64_t columns_at(const msi_model_planes *m, int64_t first)
{
    int64_t left = m->planes.plan->image.nx - first;
    return left < COLUMNS ? left : COLUMNS;
}

void msi_model_planes_take(msi_model_planes *m, const msi_image *model, int image)
{
    enum { BLOCK = MSI_TAPER_STRIP };
    const msi_image_geometry *geometry = &m->planes.plan->image;
    int64_t nx = geometry->nx, ny = geometry->ny;
    const msi_wgrid_geometry *g = m->planes.g;
    int fp32 = m->planes.fp32;
    const float *in32 = (const float *)model->pixel + image * nx * ny;
    const double *in64 = (const double *)model->pixel + image * nx * ny;
    float *out32 = m->value;
    double *out64 = m->value;
    uint8_t *column_used = m->column_used + image * nx;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t x0 = 0; x0 < nx; x0 += BLOCK)
        for (int64_t y0 = 0; y0 < ny; y0 += BLOCK) {
            double in[BLOCK][BLOCK], out[BLOCK];
            int64_t n_x = nx - x0 < BLOCK ? nx - x0 : BLOCK, n_y = ny - y0 < BLOCK ? ny - y0 : BLOCK;
            for (int64_t y = 0; y < n_y; y++)
                for (int64_t x = 0; x < n_x; x++) {
                    int64_t at = (y0 + y) * nx + x0 + x;
                    in[x][y] = fp32 ? (double)in32[at] : in64[at];
                }
            for (int64_t x = 0; x < n_x; x++) {
                msi_taper_column column = {.sum = in[x],
                                           .n = (int)n_y,
                                           .l = g->l_center_rad + (double)(nx / 2 - x0 - x) * geometry->cell_x_rad,
                                           .m_first = g->m_center_rad + (double)(y0 - ny / 2) * geometry->cell_y_rad,
                                           .cell_y_rad = geometry->cell_y_rad,
                                           .factor = m->taper.along_x[x0 + x],
                                           .along_y = m->taper.along_y + y0,
                                           .taper = &m->taper,
                                           .out = out};
                m->planes.column_simd->taper(&column);
                int64_t to = (x0 + x) * ny + y0;
                for (int64_t y = 0; y < n_y; y++) {
                    double value = isnan(out[y]) ? 0 : out[y];
                    column_used[x0 + x] |= value != 0;
                    if (fp32)
                        out32[to + y] = (float)value;
                    else
                        out64[to + y] = value;
                }
            }
        }
    m->image_used[image] = (uint8_t)columns_used(m, image, 0, nx);
}

/* Write 16 columns into the rows that are wanted; NULL: into all. */
#define SCATTER(type)                                                                                                  \
    static void scatter_##type(const msi_wgrid_planes *p, const char *from, const int64_t *cell, int64_t n_column,     \
                               const uint8_t *wanted, char *plane)                                                     \
    {                                                                                                                  \
        for (int64_t r = 0; r < p->g->nv; r++) {                                                                       \
            if (wanted && !wanted[r + G]) continue;                                                                    \
            type *row = (type *)(void *)plane + (r + G) * p->stride + G;                                               \
            const type *value = (const type *)(const void *)from + r;                                                  \
            for (int64_t k = 0; k < n_column; k++) row[cell[k]] = value[k * p->column_pitch];                          \
        }                                                                                                              \
    }
SCATTER(msi_c32)
SCATTER(msi_c64)
#undef SCATTER

static void transform_columns(const msi_model_planes *m, int image, double w_lambda, int64_t first,
                              const uint8_t *wanted, char *plane)
{
    const msi_wgrid_planes *p = &m->planes;
    const msi_wgrid_geometry *g = m->planes.g;
    const msi_image_geometry *geometry = &m->planes.plan->image;
    int64_t cell[COLUMNS], n_column = columns_at(m, first), pixel_bytes = p->fp32 ? sizeof(float) : sizeof(double);
    char *columns = p->columns[omp_get_thread_num()];
    for (int64_t k = 0; k < n_column; k++) {
        int64_t x = first + k;
        void *column = msi_plane_cell(p, columns, k * p->column_pitch);
        cell[k] = cell_of_column(m, x);
        if (!columns_used(m, image, x, 1)) {
            memset(column, 0, (size_t)g->nv * p->cell_bytes);
            continue;
        }
        msi_spread_column spread = {
            .model = (const char *)m->value + x * geometry->ny * pixel_bytes,
            .nv = g->nv,
            .ny = geometry->ny,
            .screen = {.l = g->l_center_rad + (double)(geometry->nx / 2 - x) * geometry->cell_x_rad,
                       .m_center = g->m_center_rad,
                       .cell_y_rad = geometry->cell_y_rad,
                       .w_lambda = w_lambda,
                       .n_mid = g->n_mid},
            .out = column};
        (p->fp32 ? p->column_simd->spread_f32 : p->column_simd->spread_f64)(&spread);
        msi_fft1d_run(p->fft_v, column);
    }
    (p->fp32 ? scatter_msi_c32 : scatter_msi_c64)(p, columns, cell, n_column, wanted, plane);
}

void msi_model_planes_fill(msi_model_planes *m, int image, int64_t plane, double w_lambda, int wanted)
{
    int64_t nx = m->planes.plan->image.nx, number = msi_model_plane_number(m, image, plane);
#pragma omp parallel for schedule(dynamic, 1) num_threads(m->planes.n_thread)
    for (int64_t first = 0; first < nx; first += COLUMNS)
        if (columns_used(m, image, first, columns_at(m, first)) && !msi_interrupt_signal()) {
            if (!omp_get_thread_num()) msi_progress_at(first, nx);
            transform_columns(m, image, w_lambda, first, wanted ? m->wanted : NULL, m->planes.plane[number]);
        }
    memset(m->planes.row_used + number * m->planes.n_row, 0, (size_t)m->planes.n_row);
}

static void transform_row(const msi_model_planes *m, int image, char *row)
{
    const msi_wgrid_planes *p = &m->planes;
    int64_t nx = m->planes.plan->image.nx, nu = m->planes.g->nu;
    size_t cell = p->cell_bytes;
    char *origin = row + G * cell;
    memset(origin + (size_t)(nx / 2 + 1) * cell, 0, (size_t)(nu - nx) * cell);
    for (int64_t first = 0; first < nx; first += COLUMNS) {
        int64_t n = columns_at(m, first);
        if (columns_used(m, image, first, n)) continue;
        for (int64_t x = first; x < first + n; x++) memset(origin + (size_t)cell_of_column(m, x) * cell, 0, cell);
    }
    msi_fft1d_run(p->fft_u, origin);
    memcpy(row, row + (size_t)nu * cell, G * cell);
    memcpy(origin + (size_t)nu * cell, origin, G * cell);
}

void msi_model_planes_finish(msi_model_planes *m, int image, int64_t w_plane)
{
    const msi_wgrid_planes *p = &m->planes;
    int64_t number = msi_model_plane_number(m, image, w_plane);
    char *plane = p->plane[number];
    uint8_t *done = p->row_used + number * p->n_row;
    int64_t nv = m->planes.g->nv, row_bytes = p->stride * (int64_t)p->cell_bytes;
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t r = G; r < G + nv; r++) {
        if (!m->wanted[r] || done[r] || msi_interrupt_signal()) continue;
        if (!omp_get_thread_num()) msi_progress_at(r - G, nv);
        transform_row(m, image, plane + r * row_bytes);
        done[r] = 1;
    }
    for (int64_t r = 0; r < p->n_row; r++) {
        if (!m->wanted[r] || done[r] || (r >= G && r < G + nv)) continue;
        memcpy(plane + r * row_bytes, plane + (r < G ? r + nv : r - nv) * row_bytes, (size_t)row_bytes);
        done[r] = 1;
    }
}

void msi_model_planes_request_guards(msi_model_planes *m)
{
    int64_t nv = m->planes.g->nv;
    for (int64_t r = 0; r < G; r++) {
        m->wanted[r + nv] |= m->wanted[r];
        m->wanted[r + G] |= m->wanted[r + G + nv];
    }
}
