/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A window of the grid, as wide as the widest kernel, takes the role of a GPU's registers. Cell (u, v) has the place
 * (u mod width, v mod width), so moving the window replaces only the rows and columns that leave it. The window moves
 * only as far as a footprint requires.
 *
 * Source: Romein 2012 section 4.
 */
#include "kernels/wproj/wproj_cpu.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/wproj/job/wproj_simd.h"

/* Reference implementation of the moving window on the CPU, in plain loops. */

typedef struct window {
    const msi_wproj_cells *cells; /* the grid */
    int fp32, loads;              /* loads: 1: read cells that enter the window; 0: add cells that leave it */
    int32_t width;
    int64_t u, v;  /* its first cell */
    int has_place; /* 0 before the first sample */
    msi_c64 *held; /* [width][width] cells of the window, by place */
} window;

/* Return the bytes of span->scratch that the functions below need for half-supports up to half_max. */
static int64_t msi_wproj_window_bytes(int32_t half_max)
{
    int64_t width = msi_wkernel_taps(half_max);
    return width * width * (int64_t)sizeof(msi_c64);
}

static msi_c64 *place_of(const window *w, int64_t u, int64_t v)
{
    return w->held + msi_wproj_wrap(v, w->width) * w->width + msi_wproj_wrap(u, w->width);
}

/* Return the element of a cell, or -1 if it is outside of the grid. The window may extend beyond the grid's edge, but
 * footprints do not. */
static int64_t element_of(const window *w, int64_t u, int64_t v)
{
    const msi_wproj_cells *c = w->cells;
    int64_t column = u - c->u_origin, row = v - c->v_origin;
    if (w->loads && (column < 0 || row < 0 || column >= c->n_u || row >= c->n_v)) return -1;
    return row * c->stride + column;
}

static void enter(window *w, int64_t u, int64_t v)
{
    int64_t at = w->loads ? element_of(w, u, v) : -1;
    *place_of(w, u, v) = at < 0 ? (msi_c64){0, 0} : msi_wproj_cell_get(w->cells->cells, at, w->fp32);
}

static void leave(const window *w, int64_t u, int64_t v)
{
    msi_c64 sum = *place_of(w, u, v);
    if (w->loads || (sum.re == 0 && sum.im == 0)) return;
    msi_wproj_cell_add(w->cells->cells, element_of(w, u, v), w->fp32, sum);
}

/* Call enter or leave for cells of the window: for all, or for those that are not in a window at (u, v). */
static void each_cell_outside(window *w, int64_t u, int64_t v, int all, int entering)
{
    for (int64_t y = w->v; y < w->v + w->width; y++)
        for (int64_t x = w->u; x < w->u + w->width; x++) {
            int shared = x >= u && x < u + w->width && y >= v && y < v + w->width;
            if (shared && !all) continue;
            if (entering)
                enter(w, x, y);
            else
                leave(w, x, y);
        }
}

/* Return the first cell of a window that is moved from `from` just far enough to contain first .. first + taps - 1. */
static int64_t moved(int64_t from, int32_t width, int64_t first, int32_t taps)
{
    return first < from ? first : first + taps > from + width ? first + taps - width : from;
}

/* Move the window as far as the footprint requires. */
static void move_to(window *w, int64_t first_u, int64_t first_v, int32_t taps)
{
    int64_t old_u = w->u, old_v = w->v, u = moved(old_u, w->width, first_u, taps);
    int64_t v = moved(old_v, w->width, first_v, taps);
    if (!w->has_place) {
        w->u = first_u;
        w->v = first_v;
        w->has_place = 1;
        each_cell_outside(w, 0, 0, 1, 1);
        return;
    }
    if (u == old_u && v == old_v) return;
    each_cell_outside(w, u, v, 0, 0);
    w->u = u;
    w->v = v;
    each_cell_outside(w, old_u, old_v, 0, 1);
}

static void grid_sample(const msi_wproj_span *s, window *w, const msi_wproj_place *p, msi_c64 value)
{
    int32_t half = s->kernels->half[p->plane];
    move_to(w, p->u - half, p->v - half, msi_wkernel_taps(half));
    for (int32_t tv = -half; tv <= half; tv++)
        for (int32_t tu = -half; tu <= half; tu++) {
            msi_c64 x = msi_c64_times(msi_wproj_reference_tap(s->geometry, s->kernels, p, tu, tv), value);
            msi_c64 *cell = place_of(w, p->u + tu, p->v + tv);
            cell->re += x.re;
            cell->im += x.im;
        }
}

static msi_c64 degrid_sample(const msi_wproj_span *s, window *w, const msi_wproj_place *p)
{
    int32_t half = s->kernels->half[p->plane];
    msi_c64 sum = {0, 0};
    move_to(w, p->u - half, p->v - half, msi_wkernel_taps(half));
    for (int32_t tv = -half; tv <= half; tv++)
        for (int32_t tu = -half; tu <= half; tu++) {
            msi_c64 tap = msi_wproj_reference_tap(s->geometry, s->kernels, p, tu, tv);
            msi_c64 x = msi_c64_times((msi_c64){tap.re, -tap.im}, *place_of(w, p->u + tu, p->v + tv));
            sum.re += x.re;
            sum.im += x.im;
        }
    return sum;
}

static void run_span(const msi_wproj_span *s, const msi_wproj_cells *cells, int fp32, int degrids)
{
    window w = {.cells = cells,
                .fp32 = fp32,
                .loads = degrids,
                .width = msi_wkernel_taps(s->kernels->half_max),
                .held = s->scratch};
    for (int64_t i = 0; i < s->n_run; i++) {
        const msi_run *run = &s->run[i];
        const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
        int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
        for (int32_t c = run->chan; c < run->chan + run->n_chan; c++) {
            msi_wproj_place p = msi_wproj_reference_place(s, segment, row, c);
            if (degrids)
                msi_wproj_reference_store(s, segment, row, c, &p, degrid_sample(s, &w, &p));
            else
                grid_sample(s, &w, &p, msi_wproj_reference_value(s, segment, row, c, &p));
        }
    }
    if (w.has_place && !degrids) each_cell_outside(&w, 0, 0, 1, 0);
}

/* Functions of types msi_wproj_grid_fn and msi_wproj_degrid_fn. The suffix is the precision of the cells; sums are in
 * double. */
static void msi_wproj_window_grid_f32(const msi_wproj_span *span, const msi_wproj_cells *target)
{
    run_span(span, target, 1, 0);
}

static void msi_wproj_window_grid_f64(const msi_wproj_span *span, const msi_wproj_cells *target)
{
    run_span(span, target, 0, 0);
}

static void msi_wproj_window_degrid_f32(const msi_wproj_span *span, const msi_wproj_cells *source)
{
    run_span(span, source, 1, 1);
}

static void msi_wproj_window_degrid_f64(const msi_wproj_span *span, const msi_wproj_cells *source)
{
    run_span(span, source, 0, 1);
}

/*
 * Degridding with exchanged loops. The outer loop is over rows of cells, and the inner one over visibilities whose
 * footprints contain the row. Groups of samples are sorted by row. Two indices move through the group with the row.
 *
 * Source: NVIDIA 2015 ("Degridding optimization for SDP on NVIDIA GPUs"), "Scatter".
 */

/* Reference implementation of degridding by scattering on the CPU, in plain loops. */

enum { GROUP = 256 };

typedef struct scattered {
    msi_wproj_place place;
    const msi_vis_segment *segment;
    int64_t row;
    int32_t chan;
    msi_c64 sum;
} scattered;

static int by_row(const void *a, const void *b)
{
    const scattered *x = a, *y = b;
    return (x->place.v > y->place.v) - (x->place.v < y->place.v);
}

/* Add the contribution of row v to a visibility, if its footprint contains the row. */
static void add_row(const msi_wproj_span *s, const msi_wproj_cells *c, int fp32, int64_t v, scattered *vis)
{
    const msi_wproj_place *p = &vis->place;
    int32_t half = s->kernels->half[p->plane], tv = (int32_t)(v - p->v);
    if (tv < -half || tv > half) return;
    int64_t first = msi_wproj_first_cell(c, p, half) + (tv + half) * c->stride;
    for (int32_t tu = -half; tu <= half; tu++) {
        msi_c64 tap = msi_wproj_reference_tap(s->geometry, s->kernels, p, tu, tv);
        msi_c64 x = msi_c64_times((msi_c64){tap.re, -tap.im}, msi_wproj_cell_get(c->cells, first + tu + half, fp32));
        vis->sum.re += x.re;
        vis->sum.im += x.im;
    }
}

static void scatter_group(const msi_wproj_span *s, const msi_wproj_cells *c, int fp32, scattered *vis, int n)
{
    const int64_t reach = s->kernels->half_max;
    qsort(vis, (size_t)n, sizeof *vis, by_row);
    int low = 0, high = 0;
    for (int64_t v = vis[0].place.v - reach; low < n; v++) {
        while (low < n && vis[low].place.v + reach < v) low++;
        if (low == high && low < n && vis[low].place.v - reach > v) v = vis[low].place.v - reach;
        while (high < n && vis[high].place.v - reach <= v) high++;
        for (int k = low; k < high; k++) add_row(s, c, fp32, v, &vis[k]);
    }
    for (int k = 0; k < n; k++)
        msi_wproj_reference_store(s, vis[k].segment, vis[k].row, vis[k].chan, &vis[k].place, vis[k].sum);
}

static void scatter_span(const msi_wproj_span *s, const msi_wproj_cells *c, int fp32)
{
    scattered vis[GROUP];
    int n = 0;
    for (int64_t i = 0; i < s->n_run; i++) {
        const msi_run *run = &s->run[i];
        const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
        int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
        for (int32_t chan = run->chan; chan < run->chan + run->n_chan; chan++) {
            vis[n++] = (scattered){.place = msi_wproj_reference_place(s, segment, row, chan),
                                   .segment = segment,
                                   .row = row,
                                   .chan = chan};
            if (n < GROUP) continue;
            scatter_group(s, c, fp32, vis, n);
            n = 0;
        }
    }
    if (n) scatter_group(s, c, fp32, vis, n);
}

/* Functions of type msi_wproj_degrid_fn. The suffix is the precision of the cells; sums are in double. */
static void msi_wproj_scatter_degrid_f32(const msi_wproj_span *span, const msi_wproj_cells *source)
{
    scatter_span(span, source, 1);
}

static void msi_wproj_scatter_degrid_f64(const msi_wproj_span *span, const msi_wproj_cells *source)
{
    scatter_span(span, source, 0);
}

/*
 * Threads process tiles, which have 2 x 2 colours. Tiles of one colour are processed at the same time. They are one
 * tile apart, and no footprint is that wide, so two threads never write to the same cell. The order of a sum does not
 * depend on the number of threads. A tile with many samples is gridded in a buffer that stays in cache. In fp32, this
 * buffer is added to a buffer in double after every few hundred samples, because cells near the array's core have 1e5
 * samples, and a float sum of them would have an error of 1e-5.
 */

/* Measured on one core of a Zen 5 server with AVX-512; the ratios are similar on other machines. A cell of a full
 * kernel needs four table elements, mostly from memory. */
const msi_wproj_cost msi_wproj_cpu_cost = {
    .base = {.fft_flop_s = 1.2e10, .pixel_s = 1.5e-9, .sample_s = 6e-8, .tap_s = 2.5e-10, .lanes = 8},
    .full_tap_s = 2.2e-9,
    .table_s = 1e-9};

/* A tile gets its own buffer if it has at least one sample for every CELLS_FOR_SAMPLE cells. A float buffer sums up to
 * SAMPLES_IN_FLOAT samples. */
enum { CELLS_FOR_SAMPLE = 16, SAMPLES_IN_FLOAT = 512 };

/* A buffer with the cells of a tile and of its samples' footprints. */
typedef struct tile_buffer {
    char *cells;
    msi_c64 *wide; /* fp32 only */
    char *window;  /* scratch, only for MSI_WPROJ_CPU_WINDOW */
} tile_buffer;

typedef struct job {
    msi_wproj_box *s;
    const msi_vis_store *store;
    msi_wproj_cpu_form form;
    msi_wproj_grid_fn grid;
    int image_plane;
    int32_t slice;
    int64_t n_row, pitch; /* rows and row pitch of a tile's buffer */
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

/* Return whether a tile has enough samples to be gridded in its own buffer. */
static int is_crowded(const job *j, const msi_run *run, int64_t n_run)
{
    int64_t enough = j->n_row * j->pitch / CELLS_FOR_SAMPLE, n_sample = 0;
    if (n_run >= enough) return 1;
    if (n_run * MSI_RUN_MAX_CHAN < enough) return 0;
    for (int64_t i = 0; i < n_run; i++) n_sample += run[i].n_chan;
    return n_sample >= enough;
}

/* Grid a tile's runs into its buffer, a few hundred samples at a time if the sums are float. Returns 1 if the result is
 * in the double buffer. */
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
            msi_tile_work_report(&progress, i);
            grid_tile(j, j->work[i].tile);
        }
        msi_progress_leave(all);
    }
}

/* Grid all samples in the order of the sort, on one thread, directly into the box. */
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

/* Divide by the taper and the weights, blank pixels beyond the horizon, and put rows and columns in FITS order. */
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

static msi_wproj_degrid_fn degrid_function(msi_wproj_cpu_form form, int fp32)
{
    switch (form) {
    case MSI_WPROJ_CPU_REFERENCE:
        return fp32 ? msi_wproj_reference_degrid_f32 : msi_wproj_reference_degrid_f64;
    case MSI_WPROJ_CPU_WINDOW:
        return fp32 ? msi_wproj_window_degrid_f32 : msi_wproj_window_degrid_f64;
    case MSI_WPROJ_CPU_SCATTER:
        return fp32 ? msi_wproj_scatter_degrid_f32 : msi_wproj_scatter_degrid_f64;
    default:
        return fp32 ? msi_wproj_simd()->degrid_f32 : msi_wproj_simd()->degrid_f64;
    }
}

/* Degrid a slice's samples of one plane, tile by tile, so that the cells that they share stay in cache. */
static void degrid_slice(const msi_wproj_box *s, msi_wproj_cpu_form form, const msi_vis_store *store, int plane,
                         int32_t slice, char *scratch)
{
    enum { RUNS_AT_ONCE = 256 };
    int64_t n_tile = s->sort.n_tile_u * s->sort.n_tile_v;
    const int64_t *start = s->buckets.start + msi_wproj_bucket(s, slice, 0);
    const msi_wproj_cells source = {s->cells, s->stride, s->u0, s->v0, s->n_u, s->n_v};
    msi_wproj_degrid_fn degrid = degrid_function(form, s->fp32);
    const int64_t scratch_bytes = scratch ? msi_wproj_window_bytes(s->plan->half_max) : 0;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t first = start[0]; first < start[n_tile]; first += RUNS_AT_ONCE) {
        if (msi_interrupt_signal()) continue;
        if (!omp_get_thread_num()) msi_progress_at(first - start[0], start[n_tile] - start[0]);
        int64_t rest = start[n_tile] - first;
        msi_wproj_span span = {.geometry = &s->plan->grid,
                               .kernels = s->kernels,
                               .store = store,
                               .run = s->buckets.run + first,
                               .n_run = rest < RUNS_AT_ONCE ? rest : RUNS_AT_ONCE,
                               .slice = slice,
                               .image_plane = plane,
                               .scratch = scratch ? scratch + omp_get_thread_num() * scratch_bytes : NULL};
        degrid(&span, &source);
    }
}

int msi_wproj_cpu_predict(const msi_wproj_plan *plan, const msi_wkernel_set *kernels, msi_wproj_cpu_form form,
                          msi_vis_store *store, const msi_image *model, msi_stage_times *times)
{
    msi_wproj_box s;
    double t0 = msi_wall_s();
    int64_t plane_bytes = msi_image_n_pixel(&plan->image) *
                          (plan->precision == MSI_FP32 ? (int64_t)sizeof(float) : (int64_t)sizeof(double));
    int32_t n_slice = plan->grid.n_slice;
    char *scratch = NULL;
    const int n_part = 1 + MSI_PLANE_PARTS * n_slice * model->n_plane;
    msi_progress_share all = msi_progress_enter(0, 1, n_part);
    int rc = msi_wproj_box_create(&s, plan, kernels, store);
    msi_progress_leave(all);
    if (!rc && form == MSI_WPROJ_CPU_WINDOW)
        rc = msi_alloc(&scratch, s.n_thread * msi_wproj_window_bytes(plan->half_max), 1, "moving windows");
    times->sort_s += msi_wall_s() - t0;
    for (int32_t i = 0; !rc && i < n_slice; i++) {
        for (int p = 0; !rc && p < model->n_plane; p++) {
            t0 = msi_wall_s();
            if (!msi_wproj_box_open(&s, i)) break;
            const int part = 1 + MSI_PLANE_PARTS * (i * model->n_plane + p), middle = part + MSI_PLANE_PARTS / 2;
            all = msi_progress_enter(part, middle, n_part);
            msi_wproj_box_from_model(&s, i, (const char *)model->pixel + p * plane_bytes);
            msi_progress_leave(all);
            double t1 = msi_wall_s();
            all = msi_progress_enter(middle, part + MSI_PLANE_PARTS, n_part);
            degrid_slice(&s, form, store, p, i, scratch);
            msi_progress_leave(all);
            times->transform_s += t1 - t0;
            times->grid_s += msi_wall_s() - t1;
            rc = msi_interrupt_check();
        }
    }
    msi_free(scratch);
    msi_wproj_box_destroy(&s);
    return rc;
}
