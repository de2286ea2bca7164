/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * w-towers backwards. The model becomes one whole plane a tower. Threads take subgrids: each is cut out of the plane
 * and transformed once; a ring of small planes moves up through the tower, each made of that transform when the first
 * sample needs it, and samples are degridded from the ring.
 *
 * A sample's sum depends on nothing but the planes, so threads take subgrids as they come.
 */
#include "kernels/towers/wgrid_tower_degrid_cpu.h"

#include <omp.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/towers/tower_stack_cpu.h"
#include "kernels/wgrid/model_planes_cpu.h"

enum { G = MSI_GRID_GUARD };

typedef struct tower_degridder {
    const msi_wgrid_geometry *g;
    msi_tower_plan towers;
    msi_model_planes model; /* a plane for each tower */
    msi_tower_stacks stacks;
    msi_tower_item *item; /* of the tower at hand */
    uint32_t *tile_rows;  /* [n_thread][height] rows of tiles of the item at hand that hold samples of a first plane */

    /* These belong to one call. */
    msi_vis_store *store;
    msi_buckets buckets;
} tower_degridder;

int64_t msi_wgrid_tower_cpu_predict_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread,
                                          int64_t n_plane)
{
    return n_plane * msi_wgrid_plane_bytes(plan) + msi_tower_stacks_bytes(plan, towers, n_thread);
}

static int create(tower_degridder **out, const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_image,
                  int keeps)
{
    tower_degridder *d;
    MSI_TRY(msi_alloc(&d, 1, sizeof *d, "degridder"));
    *out = d;
    d->g = &plan->grid;
    d->towers = *towers;
    MSI_TRY(msi_model_planes_create(&d->model, plan, n_image, towers->n_tower, 1, keeps));
    MSI_TRY(msi_tower_stacks_create(&d->stacks, plan, &d->towers));
    MSI_TRY(msi_alloc(&d->item, msi_tower_items_most(&d->stacks), sizeof *d->item, "list of subgrids"));
    return msi_alloc(&d->tile_rows, d->stacks.n_thread * towers->height, sizeof *d->tile_rows, "list of tiles");
}

void msi_wgrid_tower_cpu_forget(void *model_cache)
{
    tower_degridder *d = model_cache;
    if (!d) return;
    msi_model_planes_free(&d->model);
    msi_tower_stacks_free(&d->stacks);
    msi_free(d->item);
    msi_free(d->tile_rows);
    msi_free(d);
}

/* Copy an item's subgrid out of its tower's plane. */
static void cut_subgrid(const tower_degridder *d, const msi_tower_item *item, const char *plane, char *cut)
{
    const msi_wgrid_geometry *g = d->g;
    int64_t size = d->towers.size, cell = d->stacks.cell_bytes;
    int64_t u = msi_tower_origin_u(g, &d->towers, item->su), v = msi_tower_origin_v(g, &d->towers, item->sv);
    int64_t first = g->nu - u < size ? g->nu - u : size;
    for (int64_t r = 0; r < size; r++) {
        const char *row = plane + (((v + r) % g->nv + G) * d->model.planes.stride + G) * cell;
        char *to = cut + r * d->stacks.pitch * cell;
        memcpy(to, row + u * cell, (size_t)(first * cell));
        memcpy(to + first * cell, row, (size_t)((size - first) * cell));
    }
}

/* Degrid an item's samples of one first plane. */
static void degrid_first_plane(const tower_degridder *d, int image, const msi_tower_item *item, int64_t w0,
                               uint32_t tile_rows, char *const *ring)
{
    const msi_wgrid_geometry *g = d->g;
    int64_t edge = d->towers.core / g->tile, to_middle = g->tile / 2 + g->width / 2;
    for (int64_t t = 0; t < edge; t++)
        for (int64_t s = 0; s < edge && tile_rows >> t & 1; s++) {
            int64_t tu = item->su * edge + s, tv = item->sv * edge + t;
            if (tu == g->n_tile_u) break;
            const int64_t *start = d->buckets.start + msi_bucket_of(g, w0, tv * g->n_tile_u + tu);
            if (start[0] == start[1]) continue;
            msi_grid_source source = {.end_tap = g->w_width,
                                      .w0 = (int32_t)w0,
                                      .stride = d->stacks.pitch,
                                      .u_offset = d->towers.margin + s * g->tile + to_middle,
                                      .v_offset = d->towers.margin + t * g->tile + to_middle,
                                      .u_middle = (double)(tu * g->tile - g->nu / 2 - g->width + to_middle),
                                      .v_middle = (double)(tv * g->tile - g->nv / 2 - g->width + to_middle),
                                      .reach = 0.5 * g->tile + 1};
            for (int k = 0; k < g->w_width; k++) source.plane[k] = ring[(w0 + k) % g->w_width];
            msi_span span = {g, d->store, d->model.planes.taps, d->buckets.run + start[0], start[1] - start[0], image};
            (d->stacks.fp32 ? d->stacks.simd->degrid_f32 : d->stacks.simd->degrid_f64)(&span, &source);
        }
}

static void degrid_item(const tower_degridder *d, int image, int64_t tower, const msi_tower_item *item,
                        const char *plane)
{
    const msi_wgrid_geometry *g = d->g;
    char **ring = msi_tower_ring(&d->stacks), *open = ring[g->w_width];
    int64_t edge = d->towers.core / g->tile, made = 0; /* planes below are made, or not needed */
    uint32_t *tile_rows = d->tile_rows + omp_get_thread_num() * d->towers.height;
    for (int64_t w0 = item->w0_begin; w0 < item->w0_end; w0++) {
        uint32_t rows = 0;
        for (int64_t t = 0; t < edge; t++)
            if (msi_tower_tile_runs(g, &d->buckets, w0, item->su * edge, item->sv * edge + t, edge))
                rows |= (uint32_t)1 << t;
        tile_rows[w0 - item->w0_begin] = rows;
    }
    cut_subgrid(d, item, plane, open);
    msi_tower_open(&d->stacks, open);
    for (int64_t w0 = item->w0_begin; w0 < item->w0_end; w0++) {
        if (!tile_rows[w0 - item->w0_begin]) continue;
        for (int64_t p = made > w0 ? made : w0; p < w0 + g->w_width; p++) {
            uint32_t rows = 0;
            for (int64_t of = w0; of <= p && of < item->w0_end; of++) rows |= tile_rows[of - item->w0_begin];
            msi_tower_spread(&d->stacks, open, rows, p - tower * d->towers.height, ring[p % g->w_width]);
        }
        made = w0 + g->w_width;
        degrid_first_plane(d, image, item, w0, tile_rows[w0 - item->w0_begin], ring);
    }
}

/* List the model's rows that a tower's subgrids cut. */
static void want_rows(tower_degridder *d, int64_t n_item)
{
    const msi_wgrid_geometry *g = d->g;
    memset(d->model.wanted, 0, (size_t)d->model.planes.n_row);
    for (int64_t i = 0; i < n_item; i++)
        for (int64_t r = 0, v = msi_tower_origin_v(g, &d->towers, d->item[i].sv); r < d->towers.size; r++)
            d->model.wanted[(v + r) % g->nv + G] = 1;
}

static int degrid_tower(tower_degridder *d, int image, int64_t tower, msi_stage_times *times)
{
    double t0 = msi_wall_s();
    int64_t n_item = msi_tower_items(&d->stacks, &d->buckets, tower, d->item);
    want_rows(d, n_item);
    msi_progress_share all = msi_progress_enter(0, 1, 4);
    if (n_item && !d->model.keeps)
        msi_model_planes_fill(&d->model, image, tower, msi_tower_w(d->g, &d->towers, tower), 1);
    msi_progress_leave(all);
    all = msi_progress_enter(1, 2, 4);
    if (n_item) msi_model_planes_finish(&d->model, image, tower);
    msi_progress_leave(all);
    double t1 = msi_wall_s();
    const char *plane = d->model.planes.plane[msi_model_plane_number(&d->model, image, tower)];
    all = msi_progress_enter(2, 4, 4);
#pragma omp parallel for schedule(dynamic, 1) num_threads(d->stacks.n_thread)
    for (int64_t i = 0; i < n_item; i++) {
        if (msi_interrupt_signal()) continue;
        if (!omp_get_thread_num()) msi_progress_at(i, n_item);
        degrid_item(d, image, tower, &d->item[i], plane);
    }
    msi_progress_leave(all);
    times->transform_s += t1 - t0;
    times->grid_s += msi_wall_s() - t1;
    return msi_interrupt_check();
}

static int degrid_image(tower_degridder *d, int image, msi_stage_times *times)
{
    if (!d->model.image_used[image]) msi_vis_store_zero(d->store, image);
    for (int64_t tower = 0; d->model.image_used[image] && tower < d->towers.n_tower; tower++) {
        const msi_progress_share all = msi_progress_enter(tower, tower + 1, d->towers.n_tower);
        MSI_TRY(degrid_tower(d, image, tower, times));
        msi_progress_leave(all);
    }
    return MSI_OK;
}

/* Sort the samples, then do everything for one image after the other. */
static int degrid_store(tower_degridder *d, msi_vis_store *store, const msi_image *model, int is_new,
                        msi_stage_times *times)
{
    double t0 = msi_wall_s();
    d->store = store;
    const int n_part = 1 + MSI_PLANE_PARTS * d->model.n_image;
    msi_progress_share all = msi_progress_enter(0, 1, n_part);
    int rc = msi_bucket_sort(&d->buckets, store, d->g);
    msi_progress_leave(all);
    times->sort_s += msi_wall_s() - t0;
    for (int image = 0; !rc && image < d->model.n_image; image++) {
        t0 = msi_wall_s();
        if (is_new) msi_model_planes_take(&d->model, model, image);
        double t1 = msi_wall_s();
        const int part = 1 + MSI_PLANE_PARTS * image;
        all = msi_progress_enter(part, part + 2, n_part);
        for (int64_t t = 0; is_new && d->model.keeps && d->model.image_used[image] && t < d->towers.n_tower; t++) {
            const msi_progress_share planes = msi_progress_enter(t, t + 1, d->towers.n_tower);
            msi_model_planes_fill(&d->model, image, t, msi_tower_w(d->g, &d->towers, t), 0);
            msi_progress_leave(planes);
        }
        msi_progress_leave(all);
        times->correct_s += t1 - t0;
        times->transform_s += msi_wall_s() - t1;
        all = msi_progress_enter(part + 2, part + MSI_PLANE_PARTS, n_part);
        rc = degrid_image(d, image, times);
        msi_progress_leave(all);
    }
    msi_buckets_free(&d->buckets);
    if (d->model.keeps) msi_model_planes_forget_model(&d->model);
    return rc;
}

int msi_wgrid_tower_cpu_predict(const msi_wgrid_plan *plan, const msi_tower_plan *towers, msi_vis_store *store,
                                const msi_image *model, int keeps, void **model_cache, msi_stage_times *times)
{
    tower_degridder *d = model_cache ? *model_cache : NULL;
    int rc = MSI_OK, is_new = !d;
    if (is_new) rc = create(&d, plan, towers, model->n_plane, model_cache && keeps);
    if (!rc) rc = degrid_store(d, store, model, is_new, times);
    int stays = !rc && d->model.keeps;
    if (model_cache) *model_cache = stays ? d : NULL;
    if (!stays) msi_wgrid_tower_cpu_forget(d);
    return rc;
}
