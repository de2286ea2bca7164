/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Samples are sorted by first w-plane and uv tile. A ring of w-planes moves up through w: samples whose footprints
 * begin on its lowest planes are gridded, those planes are then complete, are transformed, screened, added to the image
 * and become the ring's top. Each sample is visited once. Where memory holds fewer planes than a footprint has, the
 * ring moves by its whole length and a sample is visited once for every position that its footprint meets.
 *
 * Threads take tiles. Tiles of one colour (2 x 2) lie a tile apart, which no footprint spans, so no two threads ever
 * write a cell together and a sum's order does not depend on how many there are.
 */
#include "kernels/wgrid/wgrid_cpu.h"

#include <math.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/wgrid/wgrid_planes_cpu.h"
#include "kernels/wgrid/wgrid_tile_cpu.h"
#include "kernels/wgrid/image_sum_cpu.h"

/* Measured on one core of a Zen 5 server with AVX-512; other machines keep the ratios well enough to choose by. */
const msi_cost_model msi_wgrid_cpu_cost = {
    .fft_flop_s = 1.2e10, .pixel_s = 1.5e-9, .sample_s = 3e-8, .tap_s = 5e-11, .lanes = 8};

enum { G = MSI_GRID_GUARD, PLANES_BEYOND_WIDTH = 3 };

typedef struct wgrid_cpu {
    msi_wgrid_planes planes; /* row_used: rows that hold something */
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
    MSI_TRY(msi_wgrid_planes_create(&c->planes, plan, n_resident));
    MSI_TRY(msi_alloc(&c->sum, msi_image_n_pixel(&plan->image), sizeof *c->sum, "image"));
    MSI_TRY(msi_alloc(&c->work, g->n_tile_u * g->n_tile_v, sizeof *c->work, "list of tiles"));
    c->target = (msi_tile_planes){.plane = c->planes.plane,
                                  .n_ring = n_resident,
                                  .n_row = c->planes.n_row,
                                  .stride = c->planes.stride,
                                  .u_origin = -g->nu / 2 - G,
                                  .v_origin = -g->nv / 2 - G};
    return msi_tile_gridder_create(&c->tiles, plan, c->planes.taps, store, &c->buckets, n_resident);
}

static void destroy(wgrid_cpu *c)
{
    msi_free(c->sum);
    msi_free(c->work);
    msi_tile_gridder_free(&c->tiles);
    msi_wgrid_planes_free(&c->planes);
    msi_buckets_free(&c->buckets);
}

/* Grid the samples of a step, tiles of one colour after the other. */
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
            msi_tile_work_seen(&progress, i);
            msi_tile_grid(&c->tiles, &c->target, image_plane, &c->work[i], step);
        }
        msi_progress_leave(all);
    }
}

/* Make one image plane, before correction: the ring moves up through all w-planes. */
static int image_one(void *of, int image_plane, msi_stage_times *times)
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
        /* A step's samples count like its transforms. */
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
    int rc = create(&c, plan, store, n_resident);
    const msi_plane_imager imager = {&c.planes, &c.buckets, c.sum, image_one, &c};
    if (!rc) rc = msi_image_sum_make(&imager, store, store_plane, image, times);
    destroy(&c);
    return rc;
}
