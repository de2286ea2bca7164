/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A box is the rectangle of cells that the footprints of one slice of w cover.
 *
 * Its two-dimensional transform consists of two passes of one-dimensional transforms. The first pass folds each row of
 * the box that is not empty into one period of the padded grid, transforms it, and stores the image's columns in the
 * memory of the row. The second pass transforms these columns, sixteen at a time. For prediction, the same steps are
 * done in reverse order.
 */
#include "kernels/wproj/wproj_cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

enum { COLUMNS = 16 };

/* Describe the sort by slice and tile as the sort of a w-gridder, whose footprints have one cell. */
static void describe_sort(msi_wproj_box *s)
{
    const msi_wproj_geometry *g = &s->plan->grid;
    int sliced = g->n_slice > 1;
    s->sort = (msi_wgrid_geometry){.nu = g->nu,
                                   .nv = g->nv,
                                   .width = 1,
                                   .w_width = sliced ? 2 : 1,
                                   .n_w = sliced ? g->n_slice + 1 : 1,
                                   .tile = s->plan->tile,
                                   .u_cells_per_m_hz = g->u_cells_per_m_hz,
                                   .v_cells_per_m_hz = g->v_cells_per_m_hz,
                                   .w_lambda_per_m_hz = g->w_lambda_per_m_hz,
                                   .w_first = g->slice_first,
                                   .w_step = sliced ? g->slice_step : 1};

    s->sort.n_tile_u = (g->nu + 2 * s->sort.width + s->sort.tile) / s->sort.tile;
    s->sort.n_tile_v = (g->nv + 2 * s->sort.width + s->sort.tile) / s->sort.tile;
}

static int64_t row_stride(const msi_wproj_plan *plan, int64_t n_u)
{
    int64_t n = n_u + MSI_WPROJ_SLACK > plan->image.nx ? n_u + MSI_WPROJ_SLACK : plan->image.nx;
    return (n + 15) / 16 * 16;
}

/* Place the box around the tiles of a slice that have samples. Returns 0 if there are none. */
static int find_box(msi_wproj_box *s, int32_t slice)
{
    const msi_wgrid_geometry *g = &s->sort;
    int64_t tu_min = g->n_tile_u, tu_max = -1, tv_min = g->n_tile_v, tv_max = -1;
    for (int64_t tv = 0; tv < g->n_tile_v; tv++)
        for (int64_t tu = 0; tu < g->n_tile_u; tu++) {
            const int64_t *start = s->buckets.start + msi_wproj_bucket(s, slice, tv * g->n_tile_u + tu);
            if (start[0] == start[1]) continue;
            if (tu < tu_min) tu_min = tu;
            if (tu > tu_max) tu_max = tu;
            if (tv < tv_min) tv_min = tv;
            tv_max = tv;
        }
    if (tu_max < 0) return 0;
    int64_t half = s->plan->half_max;
    s->u0 = msi_wproj_tile_first(s, tu_min, g->nu) - half;
    s->v0 = msi_wproj_tile_first(s, tv_min, g->nv) - half;
    s->n_u = msi_wproj_tile_first(s, tu_max + 1, g->nu) + half + 1 - s->u0;
    s->n_v = msi_wproj_tile_first(s, tv_max + 1, g->nv) + half + 1 - s->v0;
    s->stride = row_stride(s->plan, s->n_u);
    return 1;
}

int msi_wproj_box_create(msi_wproj_box *s, const msi_wproj_plan *plan, const msi_wkernel_set *kernels,
                         const msi_vis_store *store)
{
    memset(s, 0, sizeof *s);
    const msi_wproj_geometry *g = &plan->grid;
    s->plan = plan;
    s->kernels = kernels;
    s->column_simd = msi_column_simd();
    s->bucket_simd = msi_bucket_simd();
    s->fp32 = plan->precision == MSI_FP32;
    s->cell_bytes = (size_t)msi_complex_bytes(plan->precision);
    s->n_thread = omp_get_max_threads();
    s->column_pitch = g->nv + 16;
    describe_sort(s);
    MSI_TRY(msi_bucket_sort(&s->buckets, store, &s->sort));
    for (int32_t i = 0; i < g->n_slice; i++) {
        if (!find_box(s, i)) continue;
        if (s->n_v * s->stride > s->capacity) s->capacity = s->n_v * s->stride;
        if (s->n_v > s->row_capacity) s->row_capacity = s->n_v;
    }
    MSI_TRY(msi_alloc(&s->cells, s->capacity + MSI_WPROJ_SLACK, s->cell_bytes, "grid"));
    MSI_TRY(msi_alloc(&s->row_used, s->row_capacity, 1, "grid"));
    MSI_TRY(msi_fft1d_create(&s->fft_u, g->nu, plan->precision));
    MSI_TRY(msi_fft1d_create(&s->fft_v, g->nv, plan->precision));
    MSI_TRY(msi_wproj_factors(plan, 0, &s->factor_x));
    MSI_TRY(msi_wproj_factors(plan, 1, &s->factor_y));
    MSI_TRY(msi_alloc(&s->line, s->n_thread, sizeof *s->line, "row buffers"));
    MSI_TRY(msi_alloc(&s->columns, s->n_thread, sizeof *s->columns, "column buffers"));
    for (int i = 0; i < s->n_thread; i++) {
        MSI_TRY(msi_alloc(&s->line[i], g->nu > g->nv ? g->nu : g->nv, s->cell_bytes, "row buffer"));
        MSI_TRY(msi_alloc(&s->columns[i], COLUMNS * s->column_pitch, s->cell_bytes, "column buffer"));
    }
    return MSI_OK;
}

void msi_wproj_box_destroy(msi_wproj_box *s)
{
    for (int i = 0; i < s->n_thread; i++) {
        if (s->line) msi_free(s->line[i]);
        if (s->columns) msi_free(s->columns[i]);
    }
    msi_free(s->line);
    msi_free(s->columns);
    msi_free(s->cells);
    msi_free(s->row_used);
    msi_free(s->factor_x);
    msi_free(s->factor_y);
    msi_fft1d_free(s->fft_u);
    msi_fft1d_free(s->fft_v);
    msi_buckets_free(&s->buckets);
    memset(s, 0, sizeof *s);
}

int msi_wproj_box_open(msi_wproj_box *s, int32_t slice)
{
    if (!find_box(s, slice)) return 0;
    memset(s->row_used, 0, (size_t)s->n_v); /* rows without a sample are neither cleared nor read */
    const msi_wgrid_geometry *g = &s->sort;
    for (int64_t tv = 0; tv < g->n_tile_v; tv++) {
        const int64_t *start = s->buckets.start + msi_wproj_bucket(s, slice, tv * g->n_tile_u);
        if (start[0] == start[g->n_tile_u]) continue;
        int64_t row = msi_wproj_tile_first(s, tv, g->nv) - s->plan->half_max - s->v0;
        memset(s->row_used + row, 1, (size_t)g->tile + 2 * (size_t)s->plan->half_max + 1);
    }
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < s->n_v; r++)
        if (s->row_used[r]) memset(msi_wproj_cell_at(s, s->cells, r * s->stride), 0, (size_t)s->stride * s->cell_bytes);
    return 1;
}

#define REAL    float
#define CPLX    msi_c32
#define NAME(x) x##_f32
#include "kernels/wproj/wproj_box_body.h"
#undef REAL
#undef CPLX
#undef NAME
#define REAL    double
#define CPLX    msi_c64
#define NAME(x) x##_f64
#include "kernels/wproj/wproj_box_body.h"

static int n_columns(const msi_wproj_box *s, int64_t first)
{
    int64_t rest = s->plan->image.nx - first;
    return (int)(rest < COLUMNS ? rest : COLUMNS);
}

static double column_l(const msi_wproj_box *s, int64_t x)
{
    return (double)(s->plan->image.nx / 2 - x) * s->plan->image.cell_x_rad;
}

static msi_column_screen column_screen(const msi_wproj_box *s, int32_t slice, int64_t x)
{
    return (msi_column_screen){.l = column_l(s, x),
                               .cell_y_rad = s->plan->image.cell_y_rad,
                               .w_lambda = msi_wproj_slice_w(&s->plan->grid, slice)};
}

void msi_wproj_box_to_image(msi_wproj_box *s, int32_t slice, double *sum)
{
    const msi_image_geometry *image = &s->plan->image;
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t r = 0; r < s->n_v; r++)
        if (s->row_used[r]) (s->fp32 ? transform_row_f32 : transform_row_f64)(s, r);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t first = 0; first < image->nx; first += COLUMNS) {
        if (msi_interrupt_signal()) continue;
        if (!omp_get_thread_num()) msi_progress_at(first, image->nx);
        char *columns = s->columns[omp_get_thread_num()];
        int n = n_columns(s, first);
        (s->fp32 ? gather_columns_f32 : gather_columns_f64)(s, first, n, columns);
        for (int k = 0; k < n; k++) {
            void *spectrum = msi_wproj_cell_at(s, columns, k * s->column_pitch);
            msi_fft1d_run(s->fft_v, spectrum);
            msi_screen_column screen = {.spectrum = spectrum,
                                        .nv = s->plan->grid.nv,
                                        .ny = image->ny,
                                        .screen = column_screen(s, slice, first + k),
                                        .sum = sum + (first + k) * image->ny};
            (s->fp32 ? s->column_simd->screen_f32 : s->column_simd->screen_f64)(&screen);
        }
    }
}

void msi_wproj_box_from_model(msi_wproj_box *s, int32_t slice, const void *model)
{
    const msi_image_geometry *image = &s->plan->image;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t first = 0; first < image->nx; first += COLUMNS) {
        if (msi_interrupt_signal()) continue;
        if (!omp_get_thread_num()) msi_progress_at(first, image->nx);
        char *columns = s->columns[omp_get_thread_num()];
        void *tapered = s->line[omp_get_thread_num()];
        int n = n_columns(s, first);
        for (int k = 0; k < n; k++) {
            void *out = msi_wproj_cell_at(s, columns, k * s->column_pitch);
            (s->fp32 ? taper_column_f32 : taper_column_f64)(s, model, first + k, tapered);
            msi_spread_column spread = {.model = tapered,
                                        .nv = s->plan->grid.nv,
                                        .ny = image->ny,
                                        .screen = column_screen(s, slice, first + k),
                                        .out = out};
            (s->fp32 ? s->column_simd->spread_f32 : s->column_simd->spread_f64)(&spread);
            msi_fft1d_run(s->fft_v, out);
        }
        (s->fp32 ? scatter_columns_f32 : scatter_columns_f64)(s, first, n, columns);
    }
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t r = 0; r < s->n_v; r++)
        if (s->row_used[r]) (s->fp32 ? expand_row_f32 : expand_row_f64)(s, r);
}

int64_t msi_wproj_box_bytes(const msi_wproj_plan *plan, int64_t n_sample)
{
    msi_wproj_box s = {.plan = plan};
    describe_sort(&s);
    int64_t n_tile = s.sort.n_tile_u * s.sort.n_tile_v, margin = 2 * plan->half_max + 1;
    int64_t rows = s.sort.n_tile_v * s.sort.tile + margin, columns = s.sort.n_tile_u * s.sort.tile + margin;
    return rows * row_stride(plan, columns) * msi_complex_bytes(plan->precision) + plan->table_bytes +
           n_sample * (int64_t)sizeof(msi_run) + plan->grid.n_slice * n_tile * (int64_t)sizeof(int64_t) +
           msi_image_n_pixel(&plan->image) * (int64_t)sizeof(double);
}
