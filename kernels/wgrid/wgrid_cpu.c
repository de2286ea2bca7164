/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The default gridder on the CPU.
 *
 * Gridding:
 *   1. Sort samples by first w-plane and uv tile.
 *   2. A ring of w-planes moves up through w. Grid the samples whose footprints begin on its lowest planes.
 *   3. These planes are then complete. Transform them, multiply them by their screens, add them to the image, and use
 *      them as the top of the ring. Each sample is visited once. If memory holds fewer planes than a footprint has, the
 *      ring moves by its whole length, and a sample is visited at each position of the ring that its footprint meets.
 *   4. Divide the image by the transforms of the windows.
 *
 * Threads process tiles. Tiles of one colour (2 x 2) are a tile apart, which no footprint spans. So no two threads
 * write to the same cell at the same time, and the order of a sum does not depend on the number of threads.
 *
 * Degridding:
 *   1. Sort samples in the same way.
 *   2. A ring of w-planes moves up through w. Make each plane from the model when the ring reaches it.
 *   3. Degrid the samples whose footprints begin on the ring's lowest planes, each of them once. If memory holds fewer
 *      planes than a footprint has, the ring moves by its whole length, and each position that a sample's footprint
 *      meets adds to its visibility. If memory holds every plane of every image, the planes are kept between calls.
 *
 * A sample's sum depends only on the planes, so threads process runs of samples in any order.
 */
#include "kernels/wgrid/wgrid_cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/wgrid/wgrid_planes_cpu.h"

/* Measured on one core of a Zen 5 server with AVX-512. The ratios of other machines are similar enough for choosing a
 * plan. */
const msi_cost_model msi_wgrid_cpu_cost = {
    .fft_flop_s = 1.2e10, .pixel_s = 1.5e-9, .sample_s = 3e-8, .tap_s = 5e-11, .lanes = 8};

enum { G = MSI_GRID_GUARD, PLANES_BEYOND_WIDTH = 3 };

/* ---- Tiles ------------------------------------------------------------------------------------------------------ */

/* A tile gets a buffer if it has at least one sample for this many of its cells. Adding the buffer to the planes takes
 * about as long as gridding that many samples (measured for widths 5 to 8). */
enum { CELLS_FOR_SAMPLE = 16 };

/* Number of samples that are added to a float buffer before it is added to the double buffer and cleared. */
enum { SAMPLES_IN_FLOAT = 512 };

int msi_tile_gridder_create(msi_tile_gridder *t, const msi_wgrid_plan *plan, const void *taps,
                            const msi_vis_store *store, const msi_buckets *buckets, int64_t n_w_plane)
{
    const msi_wgrid_geometry *g = &plan->grid;
    *t = (msi_tile_gridder){.g = g,
                            .simd = msi_wgrid_simd(),
                            .bucket_simd = msi_bucket_simd(),
                            .store = store,
                            .buckets = buckets,
                            .taps = taps,
                            .fp32 = plan->precision == MSI_FP32,
                            .n_thread = omp_get_max_threads(),
                            .cell_bytes = msi_complex_bytes(plan->precision),
                            .buffer_rows = g->tile + g->width,
                            .buffer_pitch = (g->tile + g->width + 7) / 8 * 8 + 8};
    int64_t cells = n_w_plane * t->buffer_rows * t->buffer_pitch;
    MSI_TRY(msi_alloc(&t->buffer, t->n_thread, sizeof *t->buffer, "tile buffers"));
    MSI_TRY(msi_alloc(&t->wide, t->n_thread, sizeof *t->wide, "tile buffers"));
    for (int i = 0; i < t->n_thread; i++) {
        MSI_TRY(msi_alloc(&t->buffer[i], cells, (size_t)t->cell_bytes, "tile buffer"));
        if (t->fp32) MSI_TRY(msi_alloc(&t->wide[i], cells, sizeof **t->wide, "tile buffer"));
    }
    return MSI_OK;
}

void msi_tile_gridder_free(msi_tile_gridder *t)
{
    for (int i = 0; i < t->n_thread; i++) {
        if (t->buffer) msi_free(t->buffer[i]);
        if (t->wide) msi_free(t->wide[i]);
    }
    msi_free(t->buffer);
    msi_free(t->wide);
    memset(t, 0, sizeof *t);
}

/* A thread's buffer for the tile that it is gridding. */
typedef struct tile_buffer {
    char *cell;               /* NULL: the tile's samples are added to the planes directly */
    msi_c64 *wide;            /* the same in double; NULL in fp64 */
    int widened;              /* 1: `wide` is not zero */
    int64_t u_first, v_first; /* coordinates of the first cell */
} tile_buffer;

/* Add a tile's buffer, or its double buffer, to the planes of a step. */
static void flush_tile(const msi_tile_gridder *t, const msi_tile_planes *planes, const tile_buffer *b,
                       const msi_ring_step *step)
{
    int64_t row = b->v_first - planes->v_origin, column = b->u_first - planes->u_origin,
            plane_cells = t->buffer_rows * t->buffer_pitch;
    /* Stop at the end of the footprints, because another thread may write to the cells beyond. */
    int64_t n_row = t->buffer_rows < planes->n_row - row ? t->buffer_rows : planes->n_row - row;
    int64_t n_cell = t->g->tile + t->g->width - 1;
    if (n_cell > planes->stride - column) n_cell = planes->stride - column;
    for (int64_t p = step->low; p < step->high; p++) {
        int64_t at = (p - step->low) * plane_cells;
        void *from = b->cell + at * t->cell_bytes,
             *to = planes->plane[p % planes->n_ring] + (row * planes->stride + column) * t->cell_bytes;
        if (b->widened)
            t->bucket_simd->flush_wide(b->wide + at, n_row, n_cell, t->buffer_pitch, to, planes->stride);
        else if (t->fp32)
            t->bucket_simd->flush_f32(from, n_row, n_cell, t->buffer_pitch, to, planes->stride);
        else
            t->bucket_simd->flush_f64(from, n_row, n_cell, t->buffer_pitch, to, planes->stride);
    }
}

/* Count the next runs, at least one, with at most `most` samples in total. Returned: *n_sample  their samples */
static int64_t runs_within(const msi_run *run, int64_t n_run, int64_t most, int64_t *n_sample)
{
    int64_t n = 0;
    *n_sample = 0;
    while (n < n_run && (!n || *n_sample + run[n].n_chan <= most)) *n_sample += run[n++].n_chan;
    return n;
}

/* Return 1 if a tile has enough samples in a step for a buffer to save time. */
static int is_crowded(const msi_tile_gridder *t, const msi_tile_work *work, const msi_ring_step *step)
{
    int64_t enough = t->buffer_rows * t->buffer_pitch / CELLS_FOR_SAMPLE, n_sample = 0;
    if (work->n_run >= enough) return 1;
    if (work->n_run * MSI_RUN_MAX_CHAN < enough) return 0;
    for (int64_t w0 = step->w0_begin; w0 < step->w0_end; w0++) {
        const int64_t *start = t->buckets->start + msi_bucket_of(t->g, w0, work->tile);
        for (int64_t i = start[0]; i < start[1]; i++) n_sample += t->buckets->run[i].n_chan;
    }
    return n_sample >= enough;
}

/* Point the w taps of samples with first plane w0 at the buffer's planes, or at the planes of the step. */
static msi_grid_target target_of(const msi_tile_gridder *t, const msi_tile_planes *planes, const tile_buffer *b,
                                 const msi_ring_step *step, int64_t w0)
{
    const int w_width = t->g->w_width;
    msi_grid_target target = {.first_tap = w0 < step->low ? (int)(step->low - w0) : 0,
                              .end_tap = w0 + w_width > step->high ? (int)(step->high - w0) : w_width,
                              .stride = b->cell ? t->buffer_pitch : planes->stride,
                              .u_origin = b->cell ? b->u_first : planes->u_origin,
                              .v_origin = b->cell ? b->v_first : planes->v_origin};
    for (int k = target.first_tap; k < target.end_tap; k++)
        target.plane[k] = b->cell ? b->cell + (w0 + k - step->low) * t->buffer_rows * t->buffer_pitch * t->cell_bytes
                                  : planes->plane[(w0 + k) % planes->n_ring];
    return target;
}

static void widen_tile(const msi_tile_gridder *t, tile_buffer *b, const msi_ring_step *step)
{
    t->bucket_simd->widen((msi_c32 *)(void *)b->cell, b->wide,
                          (step->high - step->low) * t->buffer_rows * t->buffer_pitch);
    b->widened = 1;
}

void msi_tile_grid(const msi_tile_gridder *t, const msi_tile_planes *planes, int image_plane, const msi_tile_work *work,
                   const msi_ring_step *step)
{
    const msi_wgrid_geometry *g = t->g;
    const int thread = omp_get_thread_num(), crowded = is_crowded(t, work, step);
    const int n_term = t->store->n_term > 1 ? t->store->n_term : 1,
              weight_plane = image_plane < 0 ? 0 : image_plane / n_term;
    tile_buffer b = {.cell = crowded ? t->buffer[thread] : NULL,
                     .wide = crowded && t->fp32 ? t->wide[thread] : NULL,
                     .u_first = work->tile % g->n_tile_u * g->tile - g->nu / 2 - g->width,
                     .v_first = work->tile / g->n_tile_u * g->tile - g->nv / 2 - g->width};
    int64_t in_float = 0; /* samples in the buffer that are not in its double buffer yet */
    for (int64_t w0 = step->w0_begin; w0 < step->w0_end; w0++) {
        const int64_t *start = t->buckets->start + msi_bucket_of(g, w0, work->tile);
        if (start[0] == start[1]) continue;
        const msi_grid_target target = target_of(t, planes, &b, step, w0);
        for (int64_t i = start[0], n, n_sample = 0; i < start[1]; i += n) {
            n = start[1] - i;
            if (b.wide) n = runs_within(t->buckets->run + i, n, SAMPLES_IN_FLOAT - in_float, &n_sample);
            msi_span span = {g, t->store, t->taps, t->buckets->run + i, n, image_plane, weight_plane};
            (t->fp32 ? t->simd->grid_f32 : t->simd->grid_f64)(&span, &target);
            in_float += n_sample;
            if (in_float < SAMPLES_IN_FLOAT) continue;
            widen_tile(t, &b, step);
            in_float = 0;
        }
    }
    if (!b.cell) return;
    if (b.widened) widen_tile(t, &b, step);
    flush_tile(t, planes, &b, step);
}

/* ---- Gridding --------------------------------------------------------------------------------------------------- */

typedef struct wgrid_cpu {
    msi_wgrid_planes planes; /* row_used: rows that are not zero */
    const msi_wgrid_plan *plan;
    const msi_wgrid_geometry *g;
    double *sum; /* [nx][ny] see msi_image_sum_add */
    msi_buckets buckets;
    msi_tile_gridder tiles;
    msi_tile_planes target;
    msi_tile_work *work; /* [tiles] of one step and colour, most runs first */
} wgrid_cpu;

int64_t msi_wgrid_cpu_plane_bytes(const msi_wgrid_plan *plan)
{
    return msi_wgrid_plane_touched(plan, 0);
}

int64_t msi_wgrid_cpu_image_bytes(const msi_wgrid_plan *plan)
{
    return msi_image_n_pixel(&plan->image) * (int64_t)sizeof(double);
}

int64_t msi_wgrid_cpu_resident(const msi_wgrid_plan *plan, int64_t n_sample, int64_t bytes)
{
    /* Seconds: of the first access to a plane, whose pages the system zeroes; of computing the coordinates and taps of
     * a sample again. */
    static const double BYTES_S = 3e9, VISIT_S = 2e-8;
    const msi_wgrid_geometry *g = &plan->grid;
    int64_t plane_bytes = msi_wgrid_cpu_plane_bytes(plan), best = 1;
    double least = HUGE_VAL;
    for (int64_t b = 1; b <= g->n_w && b <= g->w_width + PLANES_BEYOND_WIDTH; b++) {
        double visits = b < g->w_width ? (double)(b + g->w_width - 1) / (double)b : 1;
        double cost = (double)(b * plane_bytes) / BYTES_S + (double)n_sample * visits * VISIT_S;
        /* More planes than a footprint's width make the steps longer, which saves time. */
        if ((cost >= least && b <= g->w_width) || (b > g->w_width && best < g->w_width)) continue;
        if (b > 1 && b * plane_bytes > bytes) break;
        least = cost;
        best = b;
    }
    return best;
}

static int create_gridder(wgrid_cpu *c, const msi_wgrid_plan *plan, const msi_vis_store *store, int64_t n_resident)
{
    memset(c, 0, sizeof *c);
    const msi_wgrid_geometry *g = &plan->grid;
    c->plan = plan;
    c->g = g;
    MSI_TRY(msi_wgrid_planes_create(&c->planes, plan, n_resident, msi_wgrid_plane_touched(plan, 0)));
    MSI_TRY(msi_alloc_work(&c->sum, msi_image_n_pixel(&plan->image), sizeof *c->sum, "image"));
    MSI_TRY(msi_alloc(&c->work, g->n_tile_u * g->n_tile_v, sizeof *c->work, "list of tiles"));
    c->target = (msi_tile_planes){.plane = c->planes.plane,
                                  .n_ring = n_resident,
                                  .n_row = c->planes.n_row,
                                  .stride = c->planes.stride,
                                  .u_origin = -g->nu / 2 - G,
                                  .v_origin = -g->nv / 2 - G};
    return msi_tile_gridder_create(&c->tiles, plan, c->planes.taps, store, &c->buckets, n_resident);
}

static void free_gridder(wgrid_cpu *c)
{
    msi_free(c->sum);
    msi_free(c->work);
    msi_tile_gridder_free(&c->tiles);
    msi_wgrid_planes_free(&c->planes);
    msi_buckets_free(&c->buckets);
}

/* Grid the samples of a step, one colour of tiles after the other. */
static void grid_step(wgrid_cpu *c, int image_plane, const msi_ring_step *step)
{
    const msi_wgrid_geometry *g = c->g;
    for (int colour = 0; colour < 4; colour++) {
        int64_t n = 0, n_run = 0;
        for (int64_t tv = colour / 2; tv < g->n_tile_v; tv += 2)
            for (int64_t tu = colour % 2; tu < g->n_tile_u; tu += 2) {
                msi_tile_work work = {tv * g->n_tile_u + tu, 0};
                for (int64_t w0 = step->w0_begin; w0 < step->w0_end; w0++) {
                    const int64_t *start = c->buckets.start + msi_bucket_of(c->g, w0, work.tile);
                    work.n_run += start[1] - start[0];
                }
                if (!work.n_run) continue;
                c->work[n++] = work;
                n_run += work.n_run;
                int64_t row = tv * g->tile - g->width + G;
                int64_t end =
                    row + c->tiles.buffer_rows < c->planes.n_row ? row + c->tiles.buffer_rows : c->planes.n_row;
                for (int64_t p = step->low; p < step->high; p++)
                    memset(msi_plane_rows(&c->planes, p) + row, 1, (size_t)(end - row));
            }
        msi_tile_work_sort(c->work, n);
        const msi_progress_share all = msi_progress_enter(colour, colour + 1, 4);
        msi_tile_progress progress = {.work = c->work, .n_run = n_run};
#pragma omp parallel for schedule(dynamic, 1)
        for (int64_t i = 0; i < n; i++) {
            if (msi_interrupt_signal()) continue;
            msi_tile_work_report(&progress, i);
            msi_tile_grid(&c->tiles, &c->target, image_plane, &c->work[i], step);
        }
        msi_progress_leave(all);
    }
}

/* Make one image plane, before correction, while the ring moves up through all w-planes. */
static int grid_image_plane(void *of, int image_plane, msi_stage_times *times)
{
    wgrid_cpu *c = of;
    const msi_wgrid_geometry *g = c->g;
    int64_t n_w0 = g->n_w - g->w_width + 1, b = c->planes.n_resident;
    int once = b >= g->w_width;
    int64_t advance = once ? b - g->w_width + 1 : b;
    for (int64_t low = 0; low < g->n_w; low += advance) {
        int64_t done = low + advance < g->n_w ? low + advance : g->n_w;
        msi_ring_step step = {.low = low, .high = low + b < g->n_w ? low + b : g->n_w};
        step.w0_begin = once ? low : low - g->w_width + 1;
        step.w0_end = once ? low + advance : step.high;
        if (step.w0_begin < 0) step.w0_begin = 0;
        if (step.w0_end > n_w0) step.w0_end = n_w0;
        double t0 = msi_wall_s();
        /* For the progress, a step's samples count as much as its transforms. */
        msi_progress_share all = msi_progress_enter(2 * low, low + done, 2 * g->n_w);
        if (step.w0_begin < step.w0_end) grid_step(c, image_plane, &step);
        msi_progress_leave(all);
        double t1 = msi_wall_s();
        for (int64_t p = low; p < done; p++) {
            all = msi_progress_enter(done + p, done + p + 1, 2 * g->n_w);
            msi_image_sum_add(&c->planes, msi_plane_of(&c->planes, p), msi_plane_rows(&c->planes, p),
                              msi_wgrid_plane_w(g, p), c->sum);
            msi_progress_leave(all);
        }
        times->grid_s += t1 - t0;
        times->transform_s += msi_wall_s() - t1;
        MSI_TRY(msi_interrupt_check());
    }
    return MSI_OK;
}

int msi_wgrid_cpu_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane,
                        int64_t n_resident, msi_image *image, msi_stage_times *times)
{
    wgrid_cpu c;
    int rc = create_gridder(&c, plan, store, n_resident);
    const msi_plane_imager imager = {&c.planes, &c.buckets, c.sum, grid_image_plane, &c};
    if (!rc) rc = msi_image_sum_make(&imager, store, store_plane, image, times);
    free_gridder(&c);
    return rc;
}

/* ---- Degridding ------------------------------------------------------------------------------------------------- */

/* Runs of a tile that one thread takes at a time. */
enum { RUNS_AT_ONCE = 4096 };

/* A part of a tile's samples, for one thread. */
typedef struct run_work {
    int64_t tile, first, end; /* range of the tile's runs in this step, counted over its buckets */
} run_work;

typedef struct degridder {
    msi_model_planes model;
    const msi_wgrid_geometry *g;

    /* These members belong to one call. */
    msi_vis_store *store;
    msi_buckets buckets;
    run_work *work;
} degridder;

static int create_degridder(degridder **out, const msi_wgrid_plan *plan, int n_image, int64_t n_resident, int keeps)
{
    degridder *d;
    MSI_TRY(msi_alloc(&d, 1, sizeof *d, "degridder"));
    *out = d;
    d->g = &plan->grid;
    return msi_model_planes_create(&d->model, plan, n_image, plan->grid.n_w, n_resident, keeps,
                                   msi_wgrid_plane_touched(plan, 0));
}

void msi_wgrid_cpu_free_model(void *model_cache)
{
    degridder *d = model_cache;
    if (!d) return;
    msi_model_planes_free(&d->model);
    msi_free(d);
}

/* Mark the rows of a w-plane that samples need. Returns: 1 if there are any, else 0 */
static int want_rows(degridder *d, int64_t w_plane)
{
    const msi_wgrid_geometry *g = d->g;
    int64_t n_w0 = g->n_w - g->w_width + 1, n_row = d->model.planes.n_row;
    int any = 0;
    memset(d->model.wanted, 0, (size_t)n_row);
    for (int64_t w0 = w_plane - g->w_width + 1; w0 <= w_plane; w0++)
        for (int64_t tv = 0; w0 >= 0 && w0 < n_w0 && tv < g->n_tile_v; tv++) {
            const int64_t *start = d->buckets.start + msi_bucket_of(g, w0, tv * g->n_tile_u);
            if (start[0] == start[g->n_tile_u]) continue;
            /* Footprints may extend one more row on both sides: see msi_grid_source. */
            int64_t row = tv * g->tile - g->width + G - 1, end = row + g->tile + g->width + 1;
            if (row < 0) row = 0;
            if (end > n_row) end = n_row;
            memset(d->model.wanted + row, 1, (size_t)(end - row));
            any = 1;
        }
    msi_model_planes_request_guards(&d->model);
    return any;
}

/* Make the rows of planes [low, high) that samples need. */
static void make_planes(degridder *d, int image, int64_t low, int64_t high)
{
    for (int64_t w_plane = low; w_plane < high; w_plane++) {
        if (msi_interrupt_signal() || !want_rows(d, w_plane)) continue;
        const int64_t part = 2 * (w_plane - low), n_part = 2 * (high - low);
        msi_progress_share all = msi_progress_enter(part, part + 1, n_part);
        if (!d->model.keeps) msi_model_planes_fill(&d->model, image, w_plane, msi_wgrid_plane_w(d->g, w_plane), 1);
        msi_progress_leave(all);
        all = msi_progress_enter(part + 1, part + 2, n_part);
        msi_model_planes_finish(&d->model, image, w_plane);
        msi_progress_leave(all);
    }
}

/* Degrid a part of a tile's runs in a step. */
static void degrid_runs(const degridder *d, int image, const run_work *work, const msi_ring_step *step)
{
    const msi_wgrid_geometry *g = d->g;
    const msi_wgrid_planes *p = &d->model.planes;
    int64_t tu = work->tile % g->n_tile_u, tv = work->tile / g->n_tile_u, before = 0;
    /* The middle of the tile's samples, a whole number. */
    int64_t u_middle = tu * g->tile - g->nu / 2 - g->width + g->tile / 2 + g->width / 2;
    int64_t v_middle = tv * g->tile - g->nv / 2 - g->width + g->tile / 2 + g->width / 2;
    for (int64_t w0 = step->w0_begin; w0 < step->w0_end && before < work->end; w0++) {
        const int64_t *start = d->buckets.start + msi_bucket_of(g, w0, work->tile);
        int64_t n = start[1] - start[0], from = work->first - before, to = work->end - before;
        before += n;
        if (from < 0) from = 0;
        if (to > n) to = n;
        if (from >= to) continue;
        msi_grid_source source = {.first_tap = w0 < step->low ? (int)(step->low - w0) : 0,
                                  .end_tap = w0 + g->w_width > step->high ? (int)(step->high - w0) : g->w_width,
                                  .adds = p->n_resident < g->w_width,
                                  .w0 = (int32_t)w0,
                                  .stride = p->stride,
                                  .u_offset = u_middle + g->nu / 2 + G,
                                  .v_offset = v_middle + g->nv / 2 + G,
                                  .u_middle = (double)u_middle,
                                  .v_middle = (double)v_middle,
                                  .reach = 0.5 * g->tile + 1};
        for (int k = source.first_tap; k < source.end_tap; k++)
            source.plane[k] = p->plane[msi_model_plane_number(&d->model, image, w0 + k)];
        msi_span span = {g, d->store, p->taps, d->buckets.run + start[0] + from, to - from, image, 0};
        (p->fp32 ? p->simd->degrid_f32 : p->simd->degrid_f64)(&span, &source);
    }
}

/* Degrid the samples of a step, in parts for the threads. */
static void degrid_step(const degridder *d, int image, const msi_ring_step *step)
{
    const msi_wgrid_geometry *g = d->g;
    int64_t n_work = 0;
    for (int64_t tile = 0; tile < g->n_tile_u * g->n_tile_v; tile++) {
        int64_t n_run = 0;
        for (int64_t w0 = step->w0_begin; w0 < step->w0_end; w0++) {
            const int64_t *start = d->buckets.start + msi_bucket_of(g, w0, tile);
            n_run += start[1] - start[0];
        }
        for (int64_t first = 0; first < n_run; first += RUNS_AT_ONCE)
            d->work[n_work++] = (run_work){tile, first, first + RUNS_AT_ONCE < n_run ? first + RUNS_AT_ONCE : n_run};
    }
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n_work; i++) {
        if (msi_interrupt_signal()) continue;
        if (!omp_get_thread_num()) msi_progress_at(i, n_work);
        degrid_runs(d, image, &d->work[i], step);
    }
}

static int degrid_image(degridder *d, int image, msi_stage_times *times)
{
    const msi_wgrid_geometry *g = d->g;
    int64_t n_w0 = g->n_w - g->w_width + 1, b = d->model.keeps ? g->n_w : d->model.planes.n_resident, made = 0;
    int once = b >= g->w_width;
    int64_t advance = once ? b - g->w_width + 1 : b, end = once ? n_w0 : g->n_w;
    if (!once || !d->model.image_used[image]) msi_vis_store_zero(d->store, image);
    for (int64_t low = 0; d->model.image_used[image] && low < end; low += advance) {
        msi_ring_step step = {.low = low, .high = low + b < g->n_w ? low + b : g->n_w};
        step.w0_begin = once || low < g->w_width ? (once ? low : 0) : low - g->w_width + 1;
        step.w0_end = once ? low + advance : step.high;
        if (step.w0_end > n_w0) step.w0_end = n_w0;
        double t0 = msi_wall_s();
        /* For the progress, making planes counts as much as degridding from them. */
        const int64_t to = low + advance < end ? low + advance : end;
        msi_progress_share all = msi_progress_enter(2 * low, low + to, 2 * end);
        make_planes(d, image, made, step.high);
        msi_progress_leave(all);
        made = step.high;
        double t1 = msi_wall_s();
        all = msi_progress_enter(low + to, 2 * to, 2 * end);
        degrid_step(d, image, &step);
        msi_progress_leave(all);
        times->transform_s += t1 - t0;
        times->grid_s += msi_wall_s() - t1;
        MSI_TRY(msi_interrupt_check());
    }
    return MSI_OK;
}

/* Sort the samples, then degrid one image after the other. */
static int degrid_store(degridder *d, msi_vis_store *store, const msi_image *model, int is_new, msi_stage_times *times)
{
    const msi_wgrid_geometry *g = d->g;
    double t0 = msi_wall_s();
    d->store = store;
    const int n_part = 1 + MSI_PLANE_PARTS * d->model.n_image;
    msi_progress_share all = msi_progress_enter(0, 1, n_part);
    int rc = msi_bucket_sort(&d->buckets, store, g);
    msi_progress_leave(all);
    times->sort_s += msi_wall_s() - t0;
    if (!rc)
        rc = msi_alloc(&d->work, g->n_tile_u * g->n_tile_v + d->buckets.n_run / RUNS_AT_ONCE, sizeof *d->work,
                       "list of tiles");
    for (int image = 0; !rc && image < d->model.n_image; image++) {
        t0 = msi_wall_s();
        if (is_new) msi_model_planes_load(&d->model, model, image);
        double t1 = msi_wall_s();
        const int part = 1 + MSI_PLANE_PARTS * image;
        all = msi_progress_enter(part, part + 2, n_part);
        for (int64_t p = 0; is_new && d->model.keeps && d->model.image_used[image] && p < g->n_w; p++) {
            const msi_progress_share planes = msi_progress_enter(p, p + 1, g->n_w);
            msi_model_planes_fill(&d->model, image, p, msi_wgrid_plane_w(g, p), 0);
            msi_progress_leave(planes);
        }
        msi_progress_leave(all);
        times->correct_s += t1 - t0;
        times->transform_s += msi_wall_s() - t1;
        all = msi_progress_enter(part + 2, part + MSI_PLANE_PARTS, n_part);
        rc = degrid_image(d, image, times);
        msi_progress_leave(all);
    }
    msi_free(d->work);
    msi_buckets_free(&d->buckets);
    if (d->model.keeps) msi_model_planes_free_image(&d->model);
    return rc;
}

int msi_wgrid_cpu_predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident,
                          void **model_cache, msi_stage_times *times)
{
    degridder *d = model_cache ? *model_cache : NULL;
    int rc = MSI_OK, is_new = !d;
    if (is_new) {
        int64_t all_bytes = model->n_plane * plan->grid.n_w * msi_wgrid_plane_bytes(plan);
        int keeps = model_cache && n_resident >= plan->grid.n_w &&
                    (model->n_plane == 1 || all_bytes < msi_memory_limit() - msi_memory_in_use());
        rc = create_degridder(&d, plan, model->n_plane, n_resident, keeps);
    }
    if (!rc) rc = degrid_store(d, store, model, is_new, times);
    int stays = !rc && d->model.keeps;
    if (model_cache) *model_cache = stays ? d : NULL;
    if (!stays) msi_wgrid_cpu_free_model(d);
    return rc;
}
