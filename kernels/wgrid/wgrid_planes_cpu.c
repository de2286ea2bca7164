/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wgrid/wgrid_planes_cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/method/simd.h"
#include "kernels/wgrid/wgrid_simd.h"

enum { G = MSI_GRID_GUARD, COLUMNS = MSI_PLANE_COLUMNS };

extern const msi_wgrid_simd_table msi_wgrid_simd_table_base, msi_wgrid_simd_table_avx2, msi_wgrid_simd_table_avx512;

const msi_wgrid_simd_table *msi_wgrid_simd(void)
{
    static const msi_wgrid_simd_table *const table[MSI_N_SIMD] = MSI_SIMD_TABLES(msi_wgrid_simd_table);
    return table[msi_simd_best()];
}

static int64_t row_stride(const msi_wgrid_geometry *g)
{
    return (g->nu + 2 * G + 15) / 16 * 16;
}

int64_t msi_wgrid_plane_bytes(const msi_wgrid_plan *plan)
{
    return (plan->grid.nv + 2 * G) * row_stride(&plan->grid) * msi_complex_bytes(plan->precision);
}

/* Count the rows of tiles with samples, and as many more on either side. The system gives memory in pages of up to
 * page_rows rows: it fills shorter gaps. */
static int64_t count_rows(const msi_wgrid_plan *plan, int64_t beyond, int64_t page_rows)
{
    const msi_wgrid_geometry *g = &plan->grid;
    int64_t n_row = 0, end = -g->nv; /* end: first row after the last range */
    for (int64_t k = 0; k < MSI_V_PARTS; k++) {
        if (!plan->has_part[k]) continue;
        const int64_t first = k * g->nv / MSI_V_PARTS - beyond, next = (k + 1) * g->nv / MSI_V_PARTS + 1 + beyond;
        n_row += first - end > page_rows ? next - first + page_rows : next - end;
        end = next;
    }
    return n_row;
}

int64_t msi_wgrid_plane_touched(const msi_wgrid_plan *plan, int64_t more)
{
    enum { PAGE_BYTES = 2 << 20 };
    const msi_wgrid_geometry *g = &plan->grid;
    const int64_t beyond = g->tile + 2 * g->width + 2 + more;
    const int64_t all = msi_wgrid_plane_bytes(plan), row_bytes = row_stride(g) * msi_complex_bytes(plan->precision);
    const int64_t within = plan->v_reach ? 2 * (plan->v_reach + beyond) * row_bytes : all;
    const int64_t counted = plan->knows_parts ? count_rows(plan, beyond, PAGE_BYTES / row_bytes + 1) * row_bytes : all;
    return within < counted ? within < all ? within : all : counted < all ? counted : all;
}

static int make_taps(msi_wgrid_planes *p)
{
    const msi_pswf *u = &p->plan->window, *w = &p->plan->w_window;
    if (p->fp32) {
        msi_taps_f32 *t;
        MSI_TRY(msi_alloc(&t, 1, sizeof *t, "window"));
        p->taps = t;
        for (int k = 0; k < u->n_coef; k++)
            for (int i = 0; i < u->width; i++) {
                t->u[k][2 * i] = t->u[k][2 * i + 1] = t->v[k][i] = (float)u->coef[k][i];
                t->w[k][i] = (float)w->coef[k][i];
            }
    } else {
        msi_taps_f64 *t;
        MSI_TRY(msi_alloc(&t, 1, sizeof *t, "window"));
        p->taps = t;
        for (int k = 0; k < u->n_coef; k++)
            for (int i = 0; i < u->width; i++) {
                t->u[k][2 * i] = t->u[k][2 * i + 1] = t->v[k][i] = u->coef[k][i];
                t->w[k][i] = w->coef[k][i];
            }
    }
    return MSI_OK;
}

int msi_wgrid_planes_create(msi_wgrid_planes *p, const msi_wgrid_plan *plan, int64_t n_resident, int64_t touched)
{
    memset(p, 0, sizeof *p);
    const msi_wgrid_geometry *g = &plan->grid;
    p->plan = plan;
    p->g = g;
    p->simd = msi_wgrid_simd();
    p->column_simd = msi_column_simd();
    p->fp32 = plan->precision == MSI_FP32;
    p->cell_bytes = (size_t)msi_complex_bytes(plan->precision);
    p->n_row = g->nv + 2 * G;
    p->stride = row_stride(g);
    p->n_resident = n_resident;
    p->n_thread = omp_get_max_threads();
    p->column_pitch = g->nv + 16;
    MSI_TRY(make_taps(p));
    MSI_TRY(msi_fft1d_create(&p->fft_u, g->nu, plan->precision));
    MSI_TRY(msi_fft1d_create(&p->fft_v, g->nv, plan->precision));
    MSI_TRY(msi_alloc(&p->plane, n_resident, sizeof *p->plane, "w-planes"));
    for (int64_t i = 0; i < n_resident; i++)
        MSI_TRY(msi_alloc_sparse(&p->plane[i], p->n_row * p->stride, p->cell_bytes, touched, "w-plane"));
    MSI_TRY(msi_alloc(&p->row_used, n_resident * p->n_row, 1, "w-planes"));
    MSI_TRY(msi_alloc(&p->columns, p->n_thread, sizeof *p->columns, "column buffers"));
    for (int i = 0; i < p->n_thread; i++)
        MSI_TRY(msi_alloc(&p->columns[i], MSI_PLANE_COLUMNS * p->column_pitch, p->cell_bytes, "column buffer"));
    return MSI_OK;
}

void msi_wgrid_planes_free(msi_wgrid_planes *p)
{
    for (int64_t i = 0; p->plane && i < p->n_resident; i++) msi_free(p->plane[i]);
    for (int i = 0; p->columns && i < p->n_thread; i++) msi_free(p->columns[i]);
    msi_free(p->plane);
    msi_free(p->row_used);
    msi_free(p->taps);
    msi_free(p->columns);
    msi_fft1d_free(p->fft_u);
    msi_fft1d_free(p->fft_v);
    memset(p, 0, sizeof *p);
}

/* ---- Planes to an image ----------------------------------------------------------------------------------------- */

/* Add n guard cells to their cells at the other end of the grid. dst and src do not overlap. */
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

/* Copy 16 columns of the used rows to contiguous columns. Unused rows are zeros. */
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

static void add_transformed_columns(const msi_wgrid_planes *p, const char *plane, const uint8_t *row_used,
                                    double w_lambda, double *sum, int64_t first, int n_column)
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
                       .n_mid = g->n_mid,
                       .beyond = g->beyond},
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
        add_transformed_columns(p, plane, row_used, w_lambda, sum, first,
                                (int)(nx - first < COLUMNS ? nx - first : COLUMNS));
    }
    msi_progress_leave(all);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < p->n_row; r++) {
        if (row_used[r]) memset(plane + r * row_bytes, 0, (size_t)row_bytes);
        row_used[r] = 0;
    }
}

/*
 * Divide by the windows' transforms and the sum of weights, set pixels beyond the horizon to NaN unless the plan goes
 * beyond, and store rows and columns in FITS order.
 * Given:    sum [nx][ny] of msi_image_sum_add, taper
 * Returned: a plane of image, whose sum_weight is set (0: NaN)
 */
static void correct_image_plane(const msi_wgrid_planes *p, const double *sum, const msi_taper *taper, msi_image *image,
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
        correct_image_plane(imager->planes, imager->sum, &taper, image, i);
        msi_progress_leave(all);
        times->correct_s += msi_wall_s() - t0;
    }
    msi_taper_free(&taper);
    return rc;
}

/* ---- A model to planes ------------------------------------------------------------------------------------------ */

int msi_model_planes_create(msi_model_planes *m, const msi_wgrid_plan *plan, int n_image, int64_t n_w_plane,
                            int64_t n_resident, int keeps, int64_t touched)
{
    memset(m, 0, sizeof *m);
    m->n_image = n_image;
    m->n_w_plane = n_w_plane;
    m->keeps = keeps;
    MSI_TRY(msi_wgrid_planes_create(&m->planes, plan, keeps ? n_image * n_w_plane : n_resident,
                                    keeps ? msi_wgrid_plane_bytes(plan) : touched));
    MSI_TRY(msi_alloc(&m->column_used, n_image * plan->image.nx, 1, "model"));
    MSI_TRY(msi_alloc(&m->image_used, n_image, 1, "model"));
    MSI_TRY(msi_alloc_work(&m->value, msi_image_n_pixel(&plan->image), m->planes.fp32 ? sizeof(float) : sizeof(double),
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

void msi_model_planes_free_image(msi_model_planes *m)
{
    msi_free(m->value);
    m->value = NULL;
}

/* Find the cell of a row for column x of the model. Columns are in reverse order, because the forward transform of a
 * reversed sequence is its backward transform. */
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

void msi_model_planes_load(msi_model_planes *m, const msi_image *model, int image)
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
    const int64_t pixel_bytes = fp32 ? sizeof *out32 : sizeof *out64;
    uint8_t *column_used = m->column_used + image * nx;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t x0 = 0; x0 < nx; x0 += BLOCK)
        for (int64_t y0 = 0; y0 < ny; y0 += BLOCK) {
            double in[BLOCK][BLOCK], out[BLOCK];
            int any = 0;
            int64_t n_x = nx - x0 < BLOCK ? nx - x0 : BLOCK, n_y = ny - y0 < BLOCK ? ny - y0 : BLOCK;
            for (int64_t y = 0; y < n_y; y++)
                for (int64_t x = 0; x < n_x; x++) {
                    int64_t at = (y0 + y) * nx + x0 + x;
                    in[x][y] = fp32 ? (double)in32[at] : in64[at];
                    any |= in[x][y] != 0;
                }
            /* Most of a cleaned model is zero. */
            for (int64_t x = 0; x < n_x && !any; x++)
                memset((char *)m->value + ((x0 + x) * ny + y0) * pixel_bytes, 0, (size_t)(n_y * pixel_bytes));
            for (int64_t x = 0; x < n_x && any; x++) {
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

/* Write 16 columns to the wanted rows, or to all if wanted is NULL. */
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

static void spread_columns(const msi_model_planes *m, int image, double w_lambda, int64_t first, const uint8_t *wanted,
                           char *plane)
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
                       .n_mid = g->n_mid,
                       .beyond = g->beyond},
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
            spread_columns(m, image, w_lambda, first, wanted ? m->wanted : NULL, m->planes.plane[number]);
        }
    memset(m->planes.row_used + number * m->planes.n_row, 0, (size_t)m->planes.n_row);
}

static void transform_model_row(const msi_model_planes *m, int image, char *row)
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
        transform_model_row(m, image, plane + r * row_bytes);
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
