/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gridding backwards. A ring of w-planes moves up through w: each is made of the model when the ring comes to it, and
 * samples whose footprints begin on the ring's lowest planes are degridded, each of them once. Where memory holds fewer
 * planes than a footprint has, the ring moves by its whole length and a sample's visibility grows with every position
 * that its footprint meets. Where it holds every plane of every image, they stay from call to call.
 *
 * A sample's sum depends on nothing but the planes, so threads take runs of samples as they come.
 */
#include "kernels/wgrid/wgrid_degrid_cpu.h"

#include <omp.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/wgrid/model_planes_cpu.h"

enum { G = MSI_GRID_GUARD };

/* One thread takes so many runs of a tile at a time. */
enum { RUNS_AT_ONCE = 4096 };

/* A part of a tile's samples, which one thread takes. */
typedef struct run_work {
    int64_t tile, first, end; /* of the tile's runs in this step, counted over its buckets */
} run_work;

typedef struct degridder {
    msi_model_planes model;
    const msi_wgrid_geometry *g;

    /* These belong to one call. */
    msi_vis_store *store;
    msi_buckets buckets;
    run_work *work;
} degridder;

static int create(degridder **out, const msi_wgrid_plan *plan, int n_image, int64_t n_resident, int keeps)
{
    degridder *d;
    MSI_TRY(msi_alloc(&d, 1, sizeof *d, "degridder"));
    *out = d;
    d->g = &plan->grid;
    return msi_model_planes_create(&d->model, plan, n_image, plan->grid.n_w, n_resident, keeps);
}

void msi_wgrid_cpu_forget(void *model_cache)
{
    degridder *d = model_cache;
    if (!d) return;
    msi_model_planes_free(&d->model);
    msi_free(d);
}

/* Mark the model's wanted rows of a w-plane. Returns 1 where there is any, else 0. */
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
            /* Samples may reach a row further on either side: see msi_grid_source. */
            int64_t row = tv * g->tile - g->width + G - 1, end = row + g->tile + g->width + 1;
            if (row < 0) row = 0;
            if (end > n_row) end = n_row;
            memset(d->model.wanted + row, 1, (size_t)(end - row));
            any = 1;
        }
    msi_model_planes_request_guards(&d->model);
    return any;
}

/* Make sure of the rows of planes [low, high) that samples touch. */
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

/* Degrid some of a tile's runs of a step. */
static void degrid_runs(const degridder *d, int image, const run_work *work, const msi_ring_step *step)
{
    const msi_wgrid_geometry *g = d->g;
    const msi_wgrid_planes *p = &d->model.planes;
    int64_t tu = work->tile % g->n_tile_u, tv = work->tile / g->n_tile_u, before = 0;
    /* The middle of the samples whose first taps lie in the tile, a whole number. */
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
        msi_span span = {g, d->store, p->taps, d->buckets.run + start[0] + from, to - from, image};
        (p->fp32 ? p->simd->degrid_f32 : p->simd->degrid_f64)(&span, &source);
    }
}

/* Degrid the samples of a step, cut into pieces for the threads. */
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
        /* Making planes counts like degridding from them. */
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

/* Sort the samples, then do everything for one image after the other. */
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
        if (is_new) msi_model_planes_take(&d->model, model, image);
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
    if (d->model.keeps) msi_model_planes_forget_model(&d->model);
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
        rc = create(&d, plan, model->n_plane, n_resident, keeps);
    }
    if (!rc) rc = degrid_store(d, store, model, is_new, times);
    int stays = !rc && d->model.keeps;
    if (model_cache) *model_cache = stays ? d : NULL;
    if (!stays) msi_wgrid_cpu_forget(d);
    return rc;
}
