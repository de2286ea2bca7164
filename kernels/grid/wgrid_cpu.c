/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Samples are sorted by first w-plane and uv tile. A ring of w-planes moves up through w: samples whose footprints
 * begin on its lowest planes are gridded, those planes are then complete, are transformed, screened, added to the image
 * and become the ring's top. Each sample is visited once. Where memory holds fewer planes than a footprint has, the
 * ring moves by its whole length and a sample is visited once for every position that its footprint meets.
 *
 * Threads take tiles. Tiles of one colour (2 x 2) lie a tile apart, which no footprint spans, so no two threads ever
 * write a cell together and a sum's order does not depend on how many there are. A tile with many samples is gathered
 * in a buffer that stays in cache and then added to the planes; a sparse one goes to the planes at once. In fp32 a
 * crowded tile's buffer is emptied every few hundred samples into one in double: an array's core puts 1e5 samples and
 * more on a cell, and a float sum of so many is off by 1e-5.
 *
 * The two-dimensional transform is two passes of one-dimensional ones: rows that hold something, then only columns
 * that the image keeps, each screened and added to the image while it is in cache.
 */
#include "kernels/grid/wgrid_cpu.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/grid/wgrid_planes_cpu.h"
#include "kernels/grid/wgrid_simd.h"
#include "kernels/transform/taper_correction.h"

/* Measured on one core of a Zen 5 server with AVX-512; other machines keep the ratios well enough to choose by. */
const msi_cost_model msi_wgrid_cpu_cost = {
    .fft_flop_s = 1.2e10, .pixel_s = 1.5e-9, .sample_s = 3e-8, .tap_s = 5e-11, .lanes = 8};

enum { G = MSI_GRID_GUARD, COLUMNS = MSI_PLANE_COLUMNS, PLANES_BEYOND_WIDTH = 3 };

/* A tile gets its own buffer from one sample for this many of its cells on: adding the buffer to the planes costs about
 * as much as gridding so many (measured, widths 5 to 8). */
enum { CELLS_FOR_SAMPLE = 16 };

/* Samples that a float buffer takes before it is emptied into the double one. */
enum { SAMPLES_IN_FLOAT = 512 };

typedef struct tile_work {
    int64_t tile, n_run;
} tile_work;

typedef struct wgrid_cpu {
    msi_wgrid_planes planes; /* row_used: rows that hold something */
    const msi_wgrid_plan *plan;
    const msi_wgrid_geometry *g;
    const msi_simd_table *simd;
    const msi_vis_store *store;
    double *sum; /* [nx][ny] the image before correction, transposed; thousands of planes may add to it */
    msi_buckets buckets;
    tile_work *work; /* [tiles] of one step and colour, most runs first */
    char **buffer;   /* [n_thread] a tile's planes */
    msi_c64 **wide;  /* [n_thread] the same in double, for fp32 */
    int64_t buffer_rows, buffer_pitch;
} wgrid_cpu;

int64_t msi_wgrid_cpu_plane_bytes(const msi_wgrid_plan *plan)
{
    return msi_wgrid_plane_bytes(plan);
}

int64_t msi_wgrid_cpu_image_bytes(const msi_wgrid_plan *plan)
{
    return msi_image_n_pixel(&plan->image) * (int64_t)sizeof(double);
}

int64_t msi_wgrid_cpu_resident(const msi_wgrid_plan *plan, int64_t n_sample, int64_t bytes)
{
    /* A plane costs its first touch (pages zeroed by the system), a second visit of a sample its coordinates and taps.
     */
    static const double BYTES_S = 3e9, VISIT_S = 2e-8;
    const msi_wgrid_geometry *g = &plan->grid;
    int64_t plane_bytes = msi_wgrid_cpu_plane_bytes(plan), best = 1;
    double least = HUGE_VAL;
    for (int64_t b = 1; b <= g->n_w && b <= g->w_width + PLANES_BEYOND_WIDTH; b++) {
        double visits = b < g->w_width ? (double)(b + g->w_width - 1) / (double)b : 1;
        double cost = (double)(b * plane_bytes) / BYTES_S + (double)n_sample * visits * VISIT_S;
        /* From a footprint's width on more planes only make the steps longer, which pays. */
        if ((cost >= least && b <= g->w_width) || (b > g->w_width && best < g->w_width)) continue;
        if (b > 1 && b * plane_bytes > bytes) break;
        least = cost;
        best = b;
    }
    return best;
}

static int create(wgrid_cpu *c, const msi_wgrid_plan *plan, const msi_vis_store *store, int64_t n_resident)
{
    memset(c, 0, sizeof *c);
    const msi_wgrid_geometry *g = &plan->grid;
    c->plan = plan;
    c->g = g;
    c->store = store;
    c->buffer_rows = g->tile + g->width;
    c->buffer_pitch = (g->tile + g->width + 7) / 8 * 8 + 8;
    int64_t buffer_cells = n_resident * c->buffer_rows * c->buffer_pitch;
    MSI_TRY(msi_wgrid_planes_create(&c->planes, plan, n_resident));
    c->simd = c->planes.simd;
    int n_thread = c->planes.n_thread;
    MSI_TRY(msi_alloc(&c->sum, msi_image_n_pixel(&plan->image), sizeof *c->sum, "image"));
    MSI_TRY(msi_alloc(&c->work, g->n_tile_u * g->n_tile_v, sizeof *c->work, "list of tiles"));
    MSI_TRY(msi_alloc(&c->buffer, n_thread, sizeof *c->buffer, "tile buffers"));
    MSI_TRY(msi_alloc(&c->wide, n_thread, sizeof *c->wide, "tile buffers"));
    for (int i = 0; i < n_thread; i++) {
        MSI_TRY(msi_alloc(&c->buffer[i], buffer_cells, c->planes.cell_bytes, "tile buffer"));
        if (c->planes.fp32) MSI_TRY(msi_alloc(&c->wide[i], buffer_cells, sizeof **c->wide, "tile buffer"));
    }
    return MSI_OK;
}

static void destroy(wgrid_cpu *c)
{
    for (int i = 0; i < c->planes.n_thread; i++) {
        if (c->buffer) msi_free(c->buffer[i]);
        if (c->wide) msi_free(c->wide[i]);
    }
    msi_free(c->sum);
    msi_free(c->work);
    msi_free(c->buffer);
    msi_free(c->wide);
    msi_wgrid_planes_free(&c->planes);
    msi_buckets_free(&c->buckets);
}

/* Adds a tile's buffer, or its double, to planes [low, high). */
static void flush_tile(const wgrid_cpu *c, int64_t u_first, int64_t v_first, char *buffer, msi_c64 *wide, int64_t low,
                       int64_t high)
{
    const msi_wgrid_geometry *g = c->g;
    int64_t row = v_first + g->nv / 2 + G, column = u_first + g->nu / 2 + G,
            plane_cells = c->buffer_rows * c->buffer_pitch;
    /* No further than a footprint reaches: the cells beyond may be another thread's. */
    int64_t n_row = c->buffer_rows < c->planes.n_row - row ? c->buffer_rows : c->planes.n_row - row;
    int64_t n_cell = g->tile + g->width - 1;
    if (n_cell > c->planes.stride - column) n_cell = c->planes.stride - column;
    for (int64_t p = low; p < high; p++) {
        int64_t at = (p - low) * plane_cells;
        void *from = msi_plane_cell(&c->planes, buffer, at),
             *to = msi_plane_cell(&c->planes, msi_plane_of(&c->planes, p), row * c->planes.stride + column);
        if (wide)
            c->simd->flush_wide(wide + at, n_row, n_cell, c->buffer_pitch, to, c->planes.stride);
        else if (c->planes.fp32)
            c->simd->flush_f32(from, n_row, n_cell, c->buffer_pitch, to, c->planes.stride);
        else
            c->simd->flush_f64(from, n_row, n_cell, c->buffer_pitch, to, c->planes.stride);
    }
}

/* How many of the next runs, at least one, hold no more than `most` samples together; *n_sample is what they hold. */
static int64_t runs_within(const msi_run *run, int64_t n_run, int64_t most, int64_t *n_sample)
{
    int64_t n = 0;
    *n_sample = 0;
    while (n < n_run && (!n || *n_sample + run[n].n_chan <= most)) *n_sample += run[n++].n_chan;
    return n;
}

/* Whether a tile's samples of first planes [w0_begin, w0_end) are worth a buffer. */
static int is_crowded(const wgrid_cpu *c, const tile_work *work, int64_t w0_begin, int64_t w0_end)
{
    int64_t enough = c->buffer_rows * c->buffer_pitch / CELLS_FOR_SAMPLE, n_sample = 0;
    if (work->n_run >= enough) return 1;
    if (work->n_run * MSI_RUN_MAX_CHAN < enough) return 0;
    for (int64_t w0 = w0_begin; w0 < w0_end; w0++) {
        const int64_t *start = c->buckets.start + msi_bucket_of(c->g, w0, work->tile);
        for (int64_t i = start[0]; i < start[1]; i++) n_sample += c->buckets.run[i].n_chan;
    }
    return n_sample >= enough;
}

/* Grid one tile's samples of first planes [w0_begin, w0_end) into planes [low, high). */
static void grid_tile(const wgrid_cpu *c, int image_plane, const tile_work *work, int64_t w0_begin, int64_t w0_end,
                      int64_t low, int64_t high)
{
    const msi_wgrid_geometry *g = c->g;
    int fp32 = c->planes.fp32;
    int64_t tu = work->tile % g->n_tile_u, tv = work->tile / g->n_tile_u;
    int64_t u_first = tu * g->tile - g->nu / 2 - g->width, v_first = tv * g->tile - g->nv / 2 - g->width;
    char *buffer = is_crowded(c, work, w0_begin, w0_end) ? c->buffer[omp_get_thread_num()] : NULL;
    msi_c64 *wide = buffer && fp32 ? c->wide[omp_get_thread_num()] : NULL;
    int64_t buffer_plane = c->buffer_rows * c->buffer_pitch, in_buffer = 0;
    int widened = 0;
    for (int64_t w0 = w0_begin; w0 < w0_end; w0++) {
        const int64_t *start = c->buckets.start + msi_bucket_of(c->g, w0, work->tile);
        if (start[0] == start[1]) continue;
        msi_grid_target target = {.first_tap = w0 < low ? (int)(low - w0) : 0,
                                  .end_tap = w0 + g->w_width > high ? (int)(high - w0) : g->w_width};
        for (int k = target.first_tap; k < target.end_tap; k++)
            target.plane[k] = buffer ? msi_plane_cell(&c->planes, buffer, (w0 + k - low) * buffer_plane)
                                     : msi_plane_of(&c->planes, w0 + k);
        target.stride = buffer ? c->buffer_pitch : c->planes.stride;
        target.u_origin = buffer ? u_first : -g->nu / 2 - G;
        target.v_origin = buffer ? v_first : -g->nv / 2 - G;
        for (int64_t i = start[0], n, n_sample = 0; i < start[1]; i += n) {
            n = start[1] - i;
            if (wide) n = runs_within(c->buckets.run + i, n, SAMPLES_IN_FLOAT - in_buffer, &n_sample);
            msi_span span = {g, c->store, c->planes.taps, c->buckets.run + i, n, image_plane};
            (fp32 ? c->simd->grid_f32 : c->simd->grid_f64)(&span, &target);
            in_buffer += n_sample;
            if (in_buffer < SAMPLES_IN_FLOAT) continue;
            c->simd->widen((msi_c32 *)(void *)buffer, wide, (high - low) * buffer_plane);
            widened = 1;
            in_buffer = 0;
        }
    }
    if (!buffer) return;
    if (widened) c->simd->widen((msi_c32 *)(void *)buffer, wide, (high - low) * buffer_plane);
    flush_tile(c, u_first, v_first, buffer, widened ? wide : NULL, low, high);
}

static int most_runs_first(const void *a, const void *b)
{
    const tile_work *x = a, *y = b;
    if (x->n_run != y->n_run) return x->n_run > y->n_run ? -1 : 1;
    return (x->tile > y->tile) - (x->tile < y->tile);
}

static void grid_step(wgrid_cpu *c, int image_plane, int64_t w0_begin, int64_t w0_end, int64_t low, int64_t high)
{
    const msi_wgrid_geometry *g = c->g;
    for (int colour = 0; colour < 4; colour++) {
        int64_t n = 0;
        for (int64_t tv = colour / 2; tv < g->n_tile_v; tv += 2)
            for (int64_t tu = colour % 2; tu < g->n_tile_u; tu += 2) {
                tile_work work = {tv * g->n_tile_u + tu, 0};
                for (int64_t w0 = w0_begin; w0 < w0_end; w0++) {
                    const int64_t *start = c->buckets.start + msi_bucket_of(c->g, w0, work.tile);
                    work.n_run += start[1] - start[0];
                }
                if (!work.n_run) continue;
                c->work[n++] = work;
                int64_t row = tv * g->tile - g->width + G;
                int64_t end = row + c->buffer_rows < c->planes.n_row ? row + c->buffer_rows : c->planes.n_row;
                for (int64_t p = low; p < high; p++)
                    memset(msi_plane_rows(&c->planes, p) + row, 1, (size_t)(end - row));
            }
        qsort(c->work, (size_t)n, sizeof *c->work, most_runs_first);
#pragma omp parallel for schedule(dynamic, 1)
        for (int64_t i = 0; i < n; i++)
            if (!msi_interrupt_signal()) grid_tile(c, image_plane, &c->work[i], w0_begin, w0_end, low, high);
    }
}

/* Cells of the guard belong to the other end of the grid. dst and src are disjoint. */
static void add_cells(const wgrid_cpu *c, char *dst, const char *src, int64_t n)
{
    if (c->planes.fp32) {
        float *d = (float *)(void *)dst;
        const float *s = (const float *)(const void *)src;
        for (int64_t i = 0; i < 2 * n; i++) d[i] += s[i];
    } else {
        double *d = (double *)(void *)dst;
        const double *s = (const double *)(const void *)src;
        for (int64_t i = 0; i < 2 * n; i++) d[i] += s[i];
    }
}

static void fold_guard_rows(const wgrid_cpu *c, char *plane, uint8_t *used)
{
    int64_t nv = c->g->nv, row_bytes = c->planes.stride * (int64_t)c->planes.cell_bytes;
    for (int64_t r = 0; r < c->planes.n_row; r++) {
        if (!used[r] || (r >= G && r < G + nv)) continue;
        int64_t to = r < G ? r + nv : r - nv;
        add_cells(c, plane + to * row_bytes, plane + r * row_bytes, c->planes.stride);
        used[to] = 1;
        memset(plane + r * row_bytes, 0, (size_t)row_bytes);
        used[r] = 0;
    }
}

/* Copies 16 columns of the rows in use into contiguous ones; rows without a sample are zeros. */
#define GATHER(type)                                                                                                   \
    static void gather_##type(const wgrid_cpu *c, const char *plane, const uint8_t *used, const int64_t *column,       \
                              int n_column, char *out)                                                                 \
    {                                                                                                                  \
        for (int64_t r = 0; r < c->g->nv; r++) {                                                                       \
            const type *row = (const type *)(const void *)plane + (r + G) * c->planes.stride;                          \
            type *to = (type *)(void *)out + r, zero = {0, 0};                                                         \
            int has = used[r + G];                                                                                     \
            for (int k = 0; k < n_column; k++) to[k * c->planes.column_pitch] = has ? row[column[k]] : zero;           \
        }                                                                                                              \
    }
GATHER(msi_c32)
GATHER(msi_c64)
#undef GATHER

static void transform_columns(const wgrid_cpu *c, int64_t p, int64_t first, int n_column)
{
    const msi_wgrid_geometry *g = c->g;
    const msi_image_geometry *image = &c->plan->image;
    int fp32 = c->planes.fp32;
    char *out = c->planes.columns[omp_get_thread_num()];
    int64_t column[COLUMNS];
    for (int k = 0; k < n_column; k++) {
        int64_t i = first + k - image->nx / 2;
        column[k] = G + (i < 0 ? i + g->nu : i);
    }
    (fp32 ? gather_msi_c32 : gather_msi_c64)(c, msi_plane_of(&c->planes, p), msi_plane_rows(&c->planes, p), column,
                                             n_column, out);
    for (int k = 0; k < n_column; k++) {
        void *spectrum = out + k * c->planes.column_pitch * (int64_t)c->planes.cell_bytes;
        msi_fft1d_run(c->planes.fft_v, spectrum);
        msi_screen_column screen = {.spectrum = spectrum,
                                    .nv = g->nv,
                                    .ny = image->ny,
                                    .l = (double)(image->nx / 2 - first - k) * image->cell_x_rad,
                                    .cell_y_rad = image->cell_y_rad,
                                    .w_lambda = g->w_width > 1 ? g->w_first + (double)p * g->w_step : 0,
                                    .n_mid = g->n_mid,
                                    .sum = c->sum + (first + k) * image->ny};
        (fp32 ? c->simd->screen_f32 : c->simd->screen_f64)(&screen);
    }
}

/* Transforms plane p into the image and leaves it zero. */
static void transform_plane(const wgrid_cpu *c, int64_t p)
{
    char *plane = msi_plane_of(&c->planes, p);
    uint8_t *used = msi_plane_rows(&c->planes, p);
    int64_t nu = c->g->nu, nv = c->g->nv, row_bytes = c->planes.stride * (int64_t)c->planes.cell_bytes;
    fold_guard_rows(c, plane, used);
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t r = G; r < G + nv; r++) {
        if (!used[r]) continue;
        char *row = plane + r * row_bytes;
        add_cells(c, row + nu * (int64_t)c->planes.cell_bytes, row, G);
        add_cells(c, row + G * (int64_t)c->planes.cell_bytes, row + (G + nu) * (int64_t)c->planes.cell_bytes, G);
        msi_fft1d_run(c->planes.fft_u, row + G * (int64_t)c->planes.cell_bytes);
    }
    int64_t nx = c->plan->image.nx;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t first = 0; first < nx; first += COLUMNS)
        if (!msi_interrupt_signal()) transform_columns(c, p, first, (int)(nx - first < COLUMNS ? nx - first : COLUMNS));
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < c->planes.n_row; r++) {
        if (used[r]) memset(plane + r * row_bytes, 0, (size_t)row_bytes);
        used[r] = 0;
    }
}

/* Windows divided out, weights normalised, pixels beyond the horizon blanked, rows and columns put in FITS order. */
static void correct(const wgrid_cpu *c, const msi_taper *taper, msi_image *image, int plane)
{
    enum { BLOCK = MSI_TAPER_STRIP };
    int64_t nx = image->geometry.nx, ny = image->geometry.ny;
    double scale = image->sum_weight[plane] > 0 ? 1 / image->sum_weight[plane] : NAN;
    int fp32 = c->planes.fp32;
    float *out32 = (float *)image->pixel + plane * nx * ny;
    double *out64 = (double *)image->pixel + plane * nx * ny;
#pragma omp parallel for schedule(dynamic, 4) collapse(2)
    for (int64_t y0 = 0; y0 < ny; y0 += BLOCK)
        for (int64_t x0 = 0; x0 < nx; x0 += BLOCK) {
            double block[BLOCK][BLOCK];
            int64_t n_x = nx - x0 < BLOCK ? nx - x0 : BLOCK, n_y = ny - y0 < BLOCK ? ny - y0 : BLOCK;
            for (int64_t x = 0; x < n_x; x++) {
                msi_taper_column column = {.sum = c->sum + (x0 + x) * ny + y0,
                                           .n = (int)n_y,
                                           .l = (double)(nx / 2 - x0 - x) * image->geometry.cell_x_rad,
                                           .m_first = (double)(y0 - ny / 2) * image->geometry.cell_y_rad,
                                           .cell_y_rad = image->geometry.cell_y_rad,
                                           .factor = scale * taper->along_x[x0 + x],
                                           .along_y = taper->along_y + y0,
                                           .taper = taper,
                                           .out = block[x]};
                c->simd->taper(&column);
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

static int make_one(wgrid_cpu *c, int image_plane, msi_stage_times *times)
{
    const msi_wgrid_geometry *g = c->g;
    int64_t n_w0 = g->n_w - g->w_width + 1, b = c->planes.n_resident;
    int once = b >= g->w_width;
    int64_t step = once ? b - g->w_width + 1 : b;
    for (int64_t low = 0; low < g->n_w; low += step) {
        int64_t high = low + b < g->n_w ? low + b : g->n_w;
        int64_t done = low + step < g->n_w ? low + step : g->n_w;
        int64_t w0_begin = once ? low : low - g->w_width + 1, w0_end = once ? low + step : high;
        if (w0_begin < 0) w0_begin = 0;
        if (w0_end > n_w0) w0_end = n_w0;
        double t0 = msi_wall_s();
        if (w0_begin < w0_end) grid_step(c, image_plane, w0_begin, w0_end, low, high);
        double t1 = msi_wall_s();
        for (int64_t p = low; p < done; p++) transform_plane(c, p);
        times->grid_s += t1 - t0;
        times->transform_s += msi_wall_s() - t1;
        MSI_TRY(msi_interrupt_check());
        msi_progress("gridding", done, g->n_w);
    }
    return MSI_OK;
}

int msi_wgrid_cpu_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane,
                        int64_t n_resident, msi_image *image, msi_stage_times *times)
{
    wgrid_cpu c;
    msi_taper taper = {0};
    int rc = create(&c, plan, store, n_resident);
    double t0 = msi_wall_s();
    if (!rc) rc = msi_bucket_sort(&c.buckets, store, &plan->grid);
    times->sort_s += msi_wall_s() - t0;
    if (!rc) rc = msi_taper_make(&taper, plan);
    for (int i = 0; !rc && i < image->n_plane; i++) {
        memset(c.sum, 0, (size_t)msi_wgrid_cpu_image_bytes(plan));
        rc = make_one(&c, store_plane[i], times);
        if (rc) break;
        t0 = msi_wall_s();
        correct(&c, &taper, image, i);
        times->correct_s += msi_wall_s() - t0;
    }
    msi_taper_free(&taper);
    destroy(&c);
    return rc;
}
