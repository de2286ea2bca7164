/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gridding backwards. A ring of w-planes moves up through w: each is made of the model when the ring comes to it, and
 * samples whose footprints begin on the ring's lowest planes are degridded, each of them once. Where memory holds fewer
 * planes than a footprint has, the ring moves by its whole length and a sample's visibility grows with every position
 * that its footprint meets. Where it holds every plane of every image, they stay from call to call.
 *
 * The two-dimensional transform is two passes of one-dimensional ones: columns of the model that hold something, then
 * only rows that a footprint touches. Planes that stay get every row's columns, and a row is transformed when a
 * footprint first touches it.
 *
 * A sample's sum depends on nothing but the planes, so threads take runs of samples as they come.
 */
#include "kernels/degrid/wgrid_degrid_cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/grid/wgrid_planes_cpu.h"
#include "kernels/transform/taper_correction.h"

enum { G = MSI_GRID_GUARD, COLUMNS = MSI_PLANE_COLUMNS };

/* Runs of a tile that one thread takes at a time. */
enum { RUNS_AT_ONCE = 4096 };

typedef struct run_work {
    int64_t tile, first, end; /* of the tile's runs in this step, counted over its buckets */
} run_work;

typedef struct degridder {
    msi_wgrid_planes planes; /* row_used: rows that are transformed */
    const msi_wgrid_plan *plan;
    const msi_wgrid_geometry *g;
    int keeps; /* every plane of every image; that of image i and w-plane p is number i n_w + p */
    int n_image;
    uint8_t *column_used; /* [n_image][nx] the model's column holds something */
    uint8_t *image_used;  /* [n_image] */
    void *value;          /* [nx][ny] float or double: an image over the windows' transforms, transposed */
    uint8_t *wanted;      /* [n_row] rows that samples touch on the plane at hand */
    msi_taper taper;

    /* Of one call. */
    msi_vis_store *store;
    msi_buckets buckets;
    run_work *work;
} degridder;

static int create(degridder **out, const msi_wgrid_plan *plan, int n_image, int64_t n_resident, int keeps)
{
    degridder *d;
    MSI_TRY(msi_alloc(&d, 1, sizeof *d, "degridder"));
    *out = d;
    d->plan = plan;
    d->g = &plan->grid;
    d->n_image = n_image;
    d->keeps = keeps;
    MSI_TRY(msi_wgrid_planes_create(&d->planes, plan, keeps ? n_image * plan->grid.n_w : n_resident));
    MSI_TRY(msi_alloc(&d->column_used, n_image * plan->image.nx, 1, "model"));
    MSI_TRY(msi_alloc(&d->image_used, n_image, 1, "model"));
    MSI_TRY(msi_alloc(&d->value, msi_image_n_pixel(&plan->image), d->planes.fp32 ? sizeof(float) : sizeof(double),
                      "model"));
    MSI_TRY(msi_alloc(&d->wanted, d->planes.n_row, 1, "w-planes"));
    return msi_taper_make(&d->taper, plan);
}

void msi_wgrid_cpu_forget(void *kept)
{
    degridder *d = kept;
    if (!d) return;
    msi_wgrid_planes_free(&d->planes);
    msi_free(d->column_used);
    msi_free(d->image_used);
    msi_free(d->value);
    msi_free(d->wanted);
    msi_taper_free(&d->taper);
    msi_free(d);
}

/* Where column x of the model goes in a row: backwards, since the forward transform of a sequence that is read
 * backwards is its backward transform. */
static int64_t cell_of_column(const degridder *d, int64_t x)
{
    int64_t i = d->plan->image.nx / 2 - x;
    return i < 0 ? i + d->g->nu : i;
}

static int columns_used(const degridder *d, int image, int64_t first, int64_t n)
{
    const uint8_t *used = d->column_used + image * d->plan->image.nx + first;
    int any = 0;
    for (int64_t k = 0; k < n; k++) any |= used[k];
    return any;
}

static int64_t columns_at(const degridder *d, int64_t first)
{
    int64_t left = d->plan->image.nx - first;
    return left < COLUMNS ? left : COLUMNS;
}

/* d->value of an image: windows divided out, 0 beyond the horizon; and which columns hold something. */
static void take_model(degridder *d, const msi_image *model, int image)
{
    enum { BLOCK = MSI_TAPER_STRIP };
    const msi_image_geometry *geometry = &d->plan->image;
    int64_t nx = geometry->nx, ny = geometry->ny;
    int fp32 = d->planes.fp32;
    const float *in32 = (const float *)model->pixel + image * nx * ny;
    const double *in64 = (const double *)model->pixel + image * nx * ny;
    float *out32 = d->value;
    double *out64 = d->value;
    uint8_t *column_used = d->column_used + image * nx;
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
                                           .l = (double)(nx / 2 - x0 - x) * geometry->cell_x_rad,
                                           .m_first = (double)(y0 - ny / 2) * geometry->cell_y_rad,
                                           .cell_y_rad = geometry->cell_y_rad,
                                           .factor = d->taper.along_x[x0 + x],
                                           .along_y = d->taper.along_y + y0,
                                           .taper = &d->taper,
                                           .out = out};
                d->planes.simd->taper(&column);
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
    d->image_used[image] = (uint8_t)columns_used(d, image, 0, nx);
}

/* Writes 16 columns into the rows that are wanted; NULL: into all. */
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

static void transform_columns(const degridder *d, int image, int64_t w_plane, int64_t first, const uint8_t *wanted,
                              char *plane)
{
    const msi_wgrid_planes *p = &d->planes;
    const msi_wgrid_geometry *g = d->g;
    const msi_image_geometry *geometry = &d->plan->image;
    int64_t cell[COLUMNS], n_column = columns_at(d, first), pixel_bytes = p->fp32 ? sizeof(float) : sizeof(double);
    char *columns = p->columns[omp_get_thread_num()];
    for (int64_t k = 0; k < n_column; k++) {
        int64_t x = first + k;
        void *column = msi_plane_cell(p, columns, k * p->column_pitch);
        cell[k] = cell_of_column(d, x);
        if (!columns_used(d, image, x, 1)) {
            memset(column, 0, (size_t)g->nv * p->cell_bytes);
            continue;
        }
        msi_spread_column spread = {.model = (const char *)d->value + x * geometry->ny * pixel_bytes,
                                    .nv = g->nv,
                                    .ny = geometry->ny,
                                    .l = (double)(geometry->nx / 2 - x) * geometry->cell_x_rad,
                                    .cell_y_rad = geometry->cell_y_rad,
                                    .w_lambda = g->w_width > 1 ? g->w_first + (double)w_plane * g->w_step : 0,
                                    .n_mid = g->n_mid,
                                    .out = column};
        (p->fp32 ? p->simd->spread_f32 : p->simd->spread_f64)(&spread);
        msi_fft1d_run(p->fft_v, column);
    }
    (p->fp32 ? scatter_msi_c32 : scatter_msi_c64)(p, columns, cell, n_column, wanted, plane);
}

/* The model's columns, screened for a w-plane and transformed, into the rows that are wanted. */
static void fill_columns(const degridder *d, int image, int64_t w_plane, const uint8_t *wanted, int64_t number)
{
    char *plane = d->planes.plane[number];
    int64_t nx = d->plan->image.nx;
#pragma omp parallel for schedule(dynamic, 1) num_threads(d->planes.n_thread)
    for (int64_t first = 0; first < nx; first += COLUMNS)
        if (columns_used(d, image, first, columns_at(d, first)) && !msi_interrupt_signal())
            transform_columns(d, image, w_plane, first, wanted, plane);
    memset(d->planes.row_used + number * d->planes.n_row, 0, (size_t)d->planes.n_row);
}

static void transform_row(const degridder *d, int image, char *row)
{
    const msi_wgrid_planes *p = &d->planes;
    int64_t nx = d->plan->image.nx, nu = d->g->nu;
    size_t cell = p->cell_bytes;
    char *origin = row + G * cell;
    memset(origin + (size_t)(nx / 2 + 1) * cell, 0, (size_t)(nu - nx) * cell);
    for (int64_t first = 0; first < nx; first += COLUMNS) {
        int64_t n = columns_at(d, first);
        if (columns_used(d, image, first, n)) continue;
        for (int64_t x = first; x < first + n; x++) memset(origin + (size_t)cell_of_column(d, x) * cell, 0, cell);
    }
    msi_fft1d_run(p->fft_u, origin);
    memcpy(row, row + (size_t)nu * cell, G * cell);
    memcpy(origin + (size_t)nu * cell, origin, G * cell);
}

/* Transforms the rows that are wanted and are not yet, and copies what stands for the other end into guard rows. */
static void transform_rows(const degridder *d, int image, int64_t number)
{
    const msi_wgrid_planes *p = &d->planes;
    char *plane = p->plane[number];
    uint8_t *done = p->row_used + number * p->n_row;
    int64_t nv = d->g->nv, row_bytes = p->stride * (int64_t)p->cell_bytes;
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t r = G; r < G + nv; r++) {
        if (!d->wanted[r] || done[r] || msi_interrupt_signal()) continue;
        transform_row(d, image, plane + r * row_bytes);
        done[r] = 1;
    }
    for (int64_t r = 0; r < p->n_row; r++) {
        if (!d->wanted[r] || done[r] || (r >= G && r < G + nv)) continue;
        memcpy(plane + r * row_bytes, plane + (r < G ? r + nv : r - nv) * row_bytes, (size_t)row_bytes);
        done[r] = 1;
    }
}

/* d->wanted of a w-plane. Returns whether there is any. */
static int want_rows(degridder *d, int64_t w_plane)
{
    const msi_wgrid_geometry *g = d->g;
    int64_t n_w0 = g->n_w - g->w_width + 1, n_row = d->planes.n_row;
    int any = 0;
    memset(d->wanted, 0, (size_t)n_row);
    for (int64_t w0 = w_plane - g->w_width + 1; w0 <= w_plane; w0++)
        for (int64_t tv = 0; w0 >= 0 && w0 < n_w0 && tv < g->n_tile_v; tv++) {
            const int64_t *start = d->buckets.start + msi_bucket_of(g, w0, tv * g->n_tile_u);
            if (start[0] == start[g->n_tile_u]) continue;
            /* A row more on either side: see msi_degrid_source. */
            int64_t row = tv * g->tile - g->width + G - 1, end = row + g->tile + g->width + 1;
            if (row < 0) row = 0;
            if (end > n_row) end = n_row;
            memset(d->wanted + row, 1, (size_t)(end - row));
            any = 1;
        }
    for (int64_t r = 0; r < G; r++) {
        d->wanted[r + g->nv] |= d->wanted[r];
        d->wanted[r + G] |= d->wanted[r + G + g->nv];
    }
    return any;
}

static int64_t plane_number(const degridder *d, int image, int64_t w_plane)
{
    return d->keeps ? image * d->g->n_w + w_plane : w_plane % d->planes.n_resident;
}

/* Makes sure of the rows of planes [low, high) that samples touch. */
static void make_planes(degridder *d, int image, int64_t low, int64_t high)
{
    for (int64_t w_plane = low; w_plane < high; w_plane++) {
        if (msi_interrupt_signal() || !want_rows(d, w_plane)) continue;
        int64_t number = plane_number(d, image, w_plane);
        if (!d->keeps) fill_columns(d, image, w_plane, d->wanted, number);
        transform_rows(d, image, number);
    }
}

/* Degrid some of a tile's runs of first planes [w0_begin, w0_end) from planes [low, high). */
static void degrid_runs(const degridder *d, int image, const run_work *work, int64_t w0_begin, int64_t w0_end,
                        int64_t low, int64_t high)
{
    const msi_wgrid_geometry *g = d->g;
    const msi_wgrid_planes *p = &d->planes;
    int64_t tu = work->tile % g->n_tile_u, tv = work->tile / g->n_tile_u, before = 0;
    /* The middle of the samples whose first taps lie in the tile, a whole number. */
    int64_t u_middle = tu * g->tile - g->nu / 2 - g->width + g->tile / 2 + g->width / 2;
    int64_t v_middle = tv * g->tile - g->nv / 2 - g->width + g->tile / 2 + g->width / 2;
    for (int64_t w0 = w0_begin; w0 < w0_end && before < work->end; w0++) {
        const int64_t *start = d->buckets.start + msi_bucket_of(g, w0, work->tile);
        int64_t n = start[1] - start[0], from = work->first - before, to = work->end - before;
        before += n;
        if (from < 0) from = 0;
        if (to > n) to = n;
        if (from >= to) continue;
        msi_degrid_source source = {.first_tap = w0 < low ? (int)(low - w0) : 0,
                                    .end_tap = w0 + g->w_width > high ? (int)(high - w0) : g->w_width,
                                    .adds = p->n_resident < g->w_width,
                                    .w0 = (int32_t)w0,
                                    .stride = p->stride,
                                    .u_offset = u_middle + g->nu / 2 + G,
                                    .v_offset = v_middle + g->nv / 2 + G,
                                    .u_middle = (double)u_middle,
                                    .v_middle = (double)v_middle,
                                    .reach = 0.5 * g->tile + 1};
        for (int k = source.first_tap; k < source.end_tap; k++)
            source.plane[k] = p->plane[plane_number(d, image, w0 + k)];
        msi_span span = {g, d->store, p->taps, d->buckets.run + start[0] + from, to - from, image};
        (p->fp32 ? p->simd->degrid_f32 : p->simd->degrid_f64)(&span, &source);
    }
}

static void degrid_step(const degridder *d, int image, int64_t w0_begin, int64_t w0_end, int64_t low, int64_t high)
{
    const msi_wgrid_geometry *g = d->g;
    int64_t n_work = 0;
    for (int64_t tile = 0; tile < g->n_tile_u * g->n_tile_v; tile++) {
        int64_t n_run = 0;
        for (int64_t w0 = w0_begin; w0 < w0_end; w0++) {
            const int64_t *start = d->buckets.start + msi_bucket_of(g, w0, tile);
            n_run += start[1] - start[0];
        }
        for (int64_t first = 0; first < n_run; first += RUNS_AT_ONCE)
            d->work[n_work++] = (run_work){tile, first, first + RUNS_AT_ONCE < n_run ? first + RUNS_AT_ONCE : n_run};
    }
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n_work; i++)
        if (!msi_interrupt_signal()) degrid_runs(d, image, &d->work[i], w0_begin, w0_end, low, high);
}

static void zero_visibilities(msi_vis_store *store, int image)
{
    size_t vis_bytes = store->precision == MSI_FP32 ? sizeof(msi_c32) : sizeof(msi_c64);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < store->n_segment; i++) {
        const msi_vis_segment *s = &store->segment[i];
        memset((char *)s->vis + (size_t)msi_segment_index(s, image, 0, 0) * vis_bytes, 0,
               (size_t)(s->n_row * s->n_chan) * vis_bytes);
    }
}

static int degrid_image(degridder *d, int image, msi_stage_times *times)
{
    const msi_wgrid_geometry *g = d->g;
    int64_t n_w0 = g->n_w - g->w_width + 1, b = d->keeps ? g->n_w : d->planes.n_resident, made = 0;
    int once = b >= g->w_width;
    int64_t step = once ? b - g->w_width + 1 : b;
    if (!once || !d->image_used[image]) zero_visibilities(d->store, image);
    for (int64_t low = 0; d->image_used[image] && low < (once ? n_w0 : g->n_w); low += step) {
        int64_t high = low + b < g->n_w ? low + b : g->n_w;
        int64_t w0_begin = once || low < g->w_width ? (once ? low : 0) : low - g->w_width + 1;
        int64_t w0_end = once ? low + step : high;
        if (w0_end > n_w0) w0_end = n_w0;
        double t0 = msi_wall_s();
        make_planes(d, image, made, high);
        made = high;
        double t1 = msi_wall_s();
        degrid_step(d, image, w0_begin, w0_end, low, high);
        times->transform_s += t1 - t0;
        times->grid_s += msi_wall_s() - t1;
        MSI_TRY(msi_interrupt_check());
        msi_progress("degridding", high, g->n_w);
    }
    return MSI_OK;
}

/* Sort, then everything for one image after the other. */
static int degrid_store(degridder *d, msi_vis_store *store, const msi_image *model, int is_new, msi_stage_times *times)
{
    const msi_wgrid_geometry *g = d->g;
    double t0 = msi_wall_s();
    d->store = store;
    int rc = msi_bucket_sort(&d->buckets, store, g);
    times->sort_s += msi_wall_s() - t0;
    if (!rc)
        rc = msi_alloc(&d->work, g->n_tile_u * g->n_tile_v + d->buckets.n_run / RUNS_AT_ONCE, sizeof *d->work,
                       "list of tiles");
    for (int image = 0; !rc && image < d->n_image; image++) {
        t0 = msi_wall_s();
        if (is_new) take_model(d, model, image);
        double t1 = msi_wall_s();
        for (int64_t p = 0; is_new && d->keeps && d->image_used[image] && p < g->n_w; p++)
            fill_columns(d, image, p, NULL, plane_number(d, image, p));
        times->correct_s += t1 - t0;
        times->transform_s += msi_wall_s() - t1;
        rc = degrid_image(d, image, times);
    }
    msi_free(d->work);
    msi_buckets_free(&d->buckets);
    if (d->keeps) {
        msi_free(d->value);
        d->value = NULL;
    }
    return rc;
}

int msi_wgrid_cpu_predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident,
                          void **kept, msi_stage_times *times)
{
    degridder *d = kept ? *kept : NULL;
    int rc = MSI_OK, is_new = !d;
    if (is_new) {
        int64_t all_bytes = model->n_plane * plan->grid.n_w * msi_wgrid_plane_bytes(plan);
        int keeps = kept && n_resident >= plan->grid.n_w &&
                    (model->n_plane == 1 || all_bytes < msi_memory_limit() - msi_memory_in_use());
        rc = create(&d, plan, model->n_plane, n_resident, keeps);
    }
    if (!rc) rc = degrid_store(d, store, model, is_new, times);
    int stays = !rc && d->keeps;
    if (kept) *kept = stays ? d : NULL;
    if (!stays) msi_wgrid_cpu_forget(d);
    return rc;
}
