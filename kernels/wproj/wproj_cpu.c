/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Threads take tiles. Tiles of one colour (2 x 2) lie a tile apart, which no footprint spans, so no two threads ever
 * write a cell together and a sum's order does not depend on how many there are. A tile with many samples is gathered
 * in a buffer that stays in cache; in fp32 that is emptied every few hundred samples into one in double, since a float
 * sum of the 1e5 samples that an array's core puts on a cell is off by 1e-5.
 */
#include "kernels/wproj/wproj_cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/wproj/job/wproj_reference.h"
#include "kernels/wproj/window/wproj_window_cpu.h"

/* Measured on one core of a Zen 5 server with AVX-512; other machines keep the ratios well enough to choose by. A full
 * kernel's cell costs the reading of four table elements, mostly from memory. */
const msi_wproj_cost msi_wproj_cpu_cost = {
    .base = {.fft_flop_s = 1.2e10, .pixel_s = 1.5e-9, .sample_s = 6e-8, .tap_s = 2.5e-10, .lanes = 8},
    .full_tap_s = 2.2e-9,
    .table_s = 1e-9};

/* A tile gets a buffer of its own from one sample for so many cells of it on; a float buffer takes so many samples. */
enum { CELLS_FOR_SAMPLE = 16, SAMPLES_IN_FLOAT = 512 };

/* A buffer holds a tile and its footprints. */
typedef struct tile_buffer {
    char *cells;
    msi_c64 *wide; /* fp32 only */
    char *window;  /* scratch of MSI_WPROJ_CPU_WINDOW alone */
} tile_buffer;

typedef struct job {
    msi_wproj_box *s;
    const msi_vis_store *store;
    msi_wproj_cpu_form form;
    msi_wproj_grid_fn grid;
    int image_plane;
    int32_t slice;
    int64_t n_row, pitch; /* of a tile's buffer */
    tile_buffer *buffer;  /* [threads] */
    msi_tile_work *work;
} job;

static msi_wproj_grid_fn grid_function(msi_wproj_cpu_form form, int fp32)
{
    if (form == MSI_WPROJ_CPU_REFERENCE) return fp32 ? msi_wproj_reference_grid_f32 : msi_wproj_reference_grid_f64;
    if (form == MSI_WPROJ_CPU_WINDOW) return fp32 ? msi_wproj_window_grid_f32 : msi_wproj_window_grid_f64;
    return fp32 ? msi_wproj_simd()->grid_f32 : msi_wproj_simd()->grid_f64;
}

static void grid_runs(const job *j, const msi_run *run, int64_t n_run, const msi_wproj_cells *target)
{
    msi_wproj_span span = {.geometry = &j->s->plan->grid,
                           .kernels = j->s->kernels,
                           .store = j->store,
                           .run = run,
                           .n_run = n_run,
                           .slice = j->slice,
                           .image_plane = j->image_plane,
                           .scratch = j->buffer ? j->buffer[omp_get_thread_num()].window : NULL};
    j->grid(&span, target);
}

/* Tell whether a tile has samples enough to be gridded in a buffer of its own. */
static int is_crowded(const job *j, const msi_run *run, int64_t n_run)
{
    int64_t enough = j->n_row * j->pitch / CELLS_FOR_SAMPLE, n_sample = 0;
    if (n_run >= enough) return 1;
    if (n_run * MSI_RUN_MAX_CHAN < enough) return 0;
    for (int64_t i = 0; i < n_run; i++) n_sample += run[i].n_chan;
    return n_sample >= enough;
}

/* Grid a tile's runs into its buffer, a few hundred samples at a time where the sums are float. Returns 1 where the
 * buffer in double holds them. */
static int gather(const job *j, const msi_run *run, int64_t n_run, const tile_buffer *b, const msi_wproj_cells *target)
{
    if (!b->wide) {
        grid_runs(j, run, n_run, target);
        return 0;
    }
    int64_t in_buffer = 0, n_cell = j->n_row * j->pitch, first = 0;
    int widened = 0;
    for (int64_t i = 0; i < n_run; i++) {
        in_buffer += run[i].n_chan;
        if (in_buffer < SAMPLES_IN_FLOAT && i + 1 < n_run) continue;
        grid_runs(j, run + first, i + 1 - first, target);
        first = i + 1;
        if (!widened && first == n_run) return 0;
        j->s->bucket_simd->widen((msi_c32 *)(void *)b->cells, b->wide, n_cell);
        widened = 1;
        in_buffer = 0;
    }
    return widened;
}

static void grid_tile(const job *j, int64_t tile)
{
    msi_wproj_box *s = j->s;
    const msi_wgrid_geometry *g = &s->sort;
    const int64_t *start = s->buckets.start + msi_wproj_bucket(s, j->slice, tile);
    const msi_run *run = s->buckets.run + start[0];
    int64_t n_run = start[1] - start[0], half = s->plan->half_max;
    msi_wproj_cells target = {.cells = s->cells, .stride = s->stride, .u_origin = s->u0, .v_origin = s->v0};
    if (!is_crowded(j, run, n_run)) {
        grid_runs(j, run, n_run, &target);
        return;
    }
    const tile_buffer *b = &j->buffer[omp_get_thread_num()];
    target = (msi_wproj_cells){.cells = b->cells,
                               .stride = j->pitch,
                               .u_origin = msi_wproj_tile_first(s, tile % g->n_tile_u, g->nu) - half,
                               .v_origin = msi_wproj_tile_first(s, tile / g->n_tile_u, g->nv) - half};
    int widened = gather(j, run, n_run, b, &target);
    int64_t n_cell = g->tile + 2 * half + 1;
    void *to = msi_wproj_cell_at(s, s->cells, (target.v_origin - s->v0) * s->stride + target.u_origin - s->u0);
    if (widened)
        s->bucket_simd->flush_wide(b->wide, j->n_row, n_cell, j->pitch, to, s->stride);
    else if (s->fp32)
        s->bucket_simd->flush_f32((msi_c32 *)(void *)b->cells, j->n_row, n_cell, j->pitch, to, s->stride);
    else
        s->bucket_simd->flush_f64((msi_c64 *)(void *)b->cells, j->n_row, n_cell, j->pitch, to, s->stride);
}

static void grid_tiles(job *j)
{
    const msi_wgrid_geometry *g = &j->s->sort;
    for (int colour = 0; colour < 4; colour++) {
        int64_t n = 0, n_run = 0;
        for (int64_t tv = colour / 2; tv < g->n_tile_v; tv += 2)
            for (int64_t tu = colour % 2; tu < g->n_tile_u; tu += 2) {
                int64_t tile = tv * g->n_tile_u + tu;
                const int64_t *start = j->s->buckets.start + msi_wproj_bucket(j->s, j->slice, tile);
                if (start[0] < start[1]) j->work[n++] = (msi_tile_work){tile, start[1] - start[0]};
                n_run += start[1] - start[0];
            }
        msi_tile_work_sort(j->work, n);
        const msi_progress_share all = msi_progress_enter(colour, colour + 1, 4);
        msi_tile_progress progress = {.work = j->work, .n_run = n_run};
#pragma omp parallel for schedule(dynamic, 1)
        for (int64_t i = 0; i < n; i++) {
            if (msi_interrupt_signal()) continue;
            msi_tile_work_seen(&progress, i);
            grid_tile(j, j->work[i].tile);
        }
        msi_progress_leave(all);
    }
}

/* Grid every sample in the order of the sort, on one thread, straight into the box. */
static void grid_plainly(const job *j)
{
    msi_wproj_box *s = j->s;
    int64_t n_tile = s->sort.n_tile_u * s->sort.n_tile_v;
    const int64_t *start = s->buckets.start + msi_wproj_bucket(s, j->slice, 0);
    msi_wproj_cells target = {.cells = s->cells, .stride = s->stride, .u_origin = s->u0, .v_origin = s->v0};
    grid_runs(j, s->buckets.run + start[0], start[n_tile] - start[0], &target);
}

static int create_job(job *j, msi_wproj_box *s, msi_wproj_cpu_form form, const msi_vis_store *store)
{
    *j = (job){.s = s, .store = store, .form = form, .grid = grid_function(form, s->fp32)};
    if (form == MSI_WPROJ_CPU_REFERENCE) return MSI_OK;
    j->n_row = s->sort.tile + 2 * s->plan->half_max + 1;
    j->pitch = (j->n_row + MSI_WPROJ_SLACK + 7) / 8 * 8;
    MSI_TRY(msi_alloc(&j->work, s->sort.n_tile_u * s->sort.n_tile_v, sizeof *j->work, "list of tiles"));
    MSI_TRY(msi_alloc(&j->buffer, s->n_thread, sizeof *j->buffer, "tile buffers"));
    for (int i = 0; i < s->n_thread; i++) {
        MSI_TRY(msi_alloc(&j->buffer[i].cells, j->n_row * j->pitch, s->cell_bytes, "tile buffer"));
        if (s->fp32)
            MSI_TRY(msi_alloc(&j->buffer[i].wide, j->n_row * j->pitch, sizeof *j->buffer[i].wide, "tile buffer"));
        if (form == MSI_WPROJ_CPU_WINDOW)
            MSI_TRY(msi_alloc(&j->buffer[i].window, msi_wproj_window_bytes(s->plan->half_max), 1, "moving window"));
    }
    return MSI_OK;
}

static void free_job(job *j)
{
    for (int i = 0; j->buffer && i < j->s->n_thread; i++) {
        msi_free(j->buffer[i].cells);
        msi_free(j->buffer[i].wide);
        msi_free(j->buffer[i].window);
    }
    msi_free(j->buffer);
    msi_free(j->work);
}

static int grid_slice(job *j, int image_plane, int32_t slice)
{
    j->image_plane = image_plane;
    j->slice = slice;
    if (j->form == MSI_WPROJ_CPU_REFERENCE)
        grid_plainly(j);
    else
        grid_tiles(j);
    return msi_interrupt_check();
}

int msi_wproj_cpu_grid_slice(msi_wproj_box *s, msi_wproj_cpu_form form, const msi_vis_store *store, int image_plane,
                             int32_t slice)
{
    job j;
    int rc = create_job(&j, s, form, store);
    if (!rc) rc = grid_slice(&j, image_plane, slice);
    free_job(&j);
    return rc;
}

/* Divide the taper out, normalise by the weights, blank pixels beyond the horizon, put rows and columns in FITS order.
 */
static void correct(const msi_wproj_box *s, const double *sum, msi_image *image, int plane)
{
    enum { BLOCK = 32 };
    int64_t nx = image->geometry.nx, ny = image->geometry.ny;
    double scale = image->sum_weight[plane] > 0 ? 1 / image->sum_weight[plane] : NAN;
#pragma omp parallel for schedule(dynamic, 4) collapse(2)
    for (int64_t y0 = 0; y0 < ny; y0 += BLOCK)
        for (int64_t x0 = 0; x0 < nx; x0 += BLOCK)
            for (int64_t y = y0; y < ny && y < y0 + BLOCK; y++)
                for (int64_t x = x0; x < nx && x < x0 + BLOCK; x++) {
                    double l = (double)(nx / 2 - x) * image->geometry.cell_x_rad;
                    double m = (double)(y - ny / 2) * image->geometry.cell_y_rad;
                    double value = sum[x * ny + y] * s->factor_x[x] * s->factor_y[y] * scale;
                    if (l * l + m * m >= 1) value = NAN;
                    int64_t at = (plane * ny + y) * nx + x;
                    if (s->fp32)
                        ((float *)image->pixel)[at] = (float)value;
                    else
                        ((double *)image->pixel)[at] = value;
                }
}

/* Grid one plane of the store slice by slice and add the slices' transforms to sum [nx][ny]. */
static int make_one(job *j, int image_plane, double *sum, msi_stage_times *times)
{
    msi_wproj_box *s = j->s;
    int32_t n_slice = s->plan->grid.n_slice;
    for (int32_t i = 0; i < n_slice; i++) {
        double t0 = msi_wall_s();
        if (!msi_wproj_box_open(s, i)) continue;
        msi_progress_share all = msi_progress_enter(2 * i, 2 * i + 1, 2 * n_slice);
        MSI_TRY(grid_slice(j, image_plane, i));
        msi_progress_leave(all);
        double t1 = msi_wall_s();
        all = msi_progress_enter(2 * i + 1, 2 * i + 2, 2 * n_slice);
        msi_wproj_box_to_image(s, i, sum);
        msi_progress_leave(all);
        times->grid_s += t1 - t0;
        times->transform_s += msi_wall_s() - t1;
        MSI_TRY(msi_interrupt_check());
    }
    return MSI_OK;
}

int msi_wproj_cpu_image(const msi_wproj_plan *plan, const msi_wkernel_set *kernels, msi_wproj_cpu_form form,
                        const msi_vis_store *store, const int *store_plane, msi_image *image, msi_stage_times *times)
{
    msi_wproj_box s;
    job j = {.s = &s};
    double *sum = NULL, t0 = msi_wall_s();
    int64_t n_pixel = msi_image_n_pixel(&plan->image);
    const int n_part = 1 + MSI_PLANE_PARTS * image->n_plane;
    msi_progress_share all = msi_progress_enter(0, 1, n_part);
    int rc = msi_wproj_box_create(&s, plan, kernels, store);
    msi_progress_leave(all);
    times->sort_s += msi_wall_s() - t0;
    if (!rc) rc = msi_alloc(&sum, n_pixel, sizeof *sum, "image");
    if (!rc) rc = create_job(&j, &s, form, store);
    for (int i = 0; !rc && i < image->n_plane; i++) {
        memset(sum, 0, sizeof *sum * (size_t)n_pixel);
        all = msi_progress_enter(1 + MSI_PLANE_PARTS * i, 1 + MSI_PLANE_PARTS * (i + 1), n_part);
        rc = make_one(&j, store_plane[i], sum, times);
        if (rc) break;
        t0 = msi_wall_s();
        correct(&s, sum, image, i);
        msi_progress_leave(all);
        times->correct_s += msi_wall_s() - t0;
    }
    free_job(&j);
    msi_free(sum);
    msi_wproj_box_destroy(&s);
    return rc;
}
