/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Samples are sorted by first w-plane and uv tile, as for whole planes. Threads take subgrids of one tower, or parts of
 * crowded ones: a ring of small planes moves up through the tower; each that is complete is transformed, screened and
 * added to the subgrid's sum, which is transformed back at the end. A batch of such sums is then added to the tower's
 * one whole plane, row by row and always in the same order, so that the number of threads changes nothing.
 */
#include "kernels/towers/wgrid_tower_cpu.h"

#include <omp.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/towers/tower_stack_cpu.h"
#include "kernels/wgrid/wgrid_tile_cpu.h"
#include "kernels/wgrid/image_sum_cpu.h"

static const int32_t sizes[] = {32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512};

/* These rates were measured as those of msi_wgrid_cpu_cost. */
const msi_tower_cost msi_wgrid_tower_cpu_cost = {.fft_flop_s = 3.5e10,
                                                 .cell_s = 1e-9,
                                                 .far_cell_s = 2e-9,
                                                 .near_bytes = 3 << 19,
                                                 .size = sizes,
                                                 .n_size = sizeof sizes / sizeof *sizes};

enum { G = MSI_GRID_GUARD };

/* Sums of so many subgrids for each thread wait for each other before they are added to the whole plane. */
enum { ITEMS_A_THREAD = 4 };

typedef struct tower_cpu {
    const msi_wgrid_geometry *g;
    const msi_tower_plan *towers;
    msi_wgrid_planes whole; /* one plane; row_used: rows that hold something */
    msi_tower_stacks stacks;
    msi_tile_gridder tiles;
    msi_buckets buckets;
    msi_tower_item *item; /* of the tower at hand */
    int64_t n_slot;
    char **slot; /* [n_slot] sums of subgrids, zero between batches */
    double *sum; /* [nx][ny] see msi_image_sum_add */
} tower_cpu;

int64_t msi_wgrid_tower_cpu_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread)
{
    return msi_wgrid_plane_bytes(plan) + msi_tower_stacks_bytes(plan, towers, n_thread) +
           n_thread * ITEMS_A_THREAD * msi_tower_plane_bytes(plan, towers);
}

static int create(tower_cpu *c, const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_vis_store *store)
{
    memset(c, 0, sizeof *c);
    c->g = &plan->grid;
    c->towers = towers;
    MSI_TRY(msi_wgrid_planes_create(&c->whole, plan, 1));
    MSI_TRY(msi_tower_stacks_create(&c->stacks, plan, towers));
    MSI_TRY(msi_tile_gridder_create(&c->tiles, plan, c->whole.taps, store, &c->buckets, plan->grid.w_width));
    MSI_TRY(msi_alloc(&c->item, msi_tower_items_most(&c->stacks), sizeof *c->item, "list of subgrids"));
    c->n_slot = c->stacks.n_thread * ITEMS_A_THREAD;
    MSI_TRY(msi_alloc(&c->slot, c->n_slot, sizeof *c->slot, "subgrids"));
    for (int64_t i = 0; i < c->n_slot; i++)
        MSI_TRY(msi_alloc(&c->slot[i], towers->size * c->stacks.pitch, (size_t)c->stacks.cell_bytes, "subgrid"));
    return msi_alloc(&c->sum, msi_image_n_pixel(&plan->image), sizeof *c->sum, "image");
}

static void destroy(tower_cpu *c)
{
    for (int64_t i = 0; c->slot && i < c->n_slot; i++) msi_free(c->slot[i]);
    msi_free(c->slot);
    msi_free(c->sum);
    msi_free(c->item);
    msi_tile_gridder_free(&c->tiles);
    msi_tower_stacks_free(&c->stacks);
    msi_wgrid_planes_free(&c->whole);
    msi_buckets_free(&c->buckets);
}

/* Grid an item's samples of one first plane. Returns the rows of tiles that hold any. */
static uint32_t grid_first_plane(const tower_cpu *c, const msi_tower_item *item, const msi_tile_planes *planes,
                                 int image_plane, int64_t w0)
{
    const msi_wgrid_geometry *g = c->g;
    int64_t edge = c->towers->core / g->tile;
    const msi_ring_step step = {.w0_begin = w0, .w0_end = w0 + 1, .low = w0, .high = w0 + g->w_width};
    uint32_t tile_rows = 0;
    for (int64_t t = 0; t < edge; t++) {
        int64_t tv = item->sv * edge + t;
        if (!msi_tower_tile_runs(g, &c->buckets, w0, item->su * edge, tv, edge)) continue;
        tile_rows |= (uint32_t)1 << t;
        for (int64_t tu = item->su * edge; tu < (item->su + 1) * edge && tu < g->n_tile_u; tu++) {
            const msi_tile_work work = {tv * g->n_tile_u + tu, msi_tower_tile_runs(g, &c->buckets, w0, tu, tv, 1)};
            if (work.n_run) msi_tile_grid(&c->tiles, planes, image_plane, &work, &step);
        }
    }
    return tile_rows;
}

static void grid_item(const tower_cpu *c, int image_plane, int64_t tower, const msi_tower_item *item, char *sum)
{
    const msi_wgrid_geometry *g = c->g;
    const msi_tower_plan *t = c->towers;
    char **ring = msi_tower_ring(&c->stacks);
    uint32_t used[MSI_PSWF_MAX_WIDTH] = {0}; /* rows of tiles that hold samples, of each plane of the ring */
    const msi_tile_planes planes = {.plane = ring,
                                    .n_ring = g->w_width,
                                    .n_row = t->size,
                                    .stride = c->stacks.pitch,
                                    .u_origin = item->su * t->core - g->nu / 2 - g->width - t->margin,
                                    .v_origin = item->sv * t->core - g->nv / 2 - g->width - t->margin};
    for (int64_t p = item->w0_begin; p < item->w0_end + g->w_width - 1; p++) {
        uint32_t tile_rows = p < item->w0_end ? grid_first_plane(c, item, &planes, image_plane, p) : 0;
        for (int k = 0; k < g->w_width; k++) used[(p + k) % g->w_width] |= tile_rows;
        uint32_t *complete = &used[p % g->w_width];
        if (*complete) msi_tower_gather(&c->stacks, ring[p % g->w_width], *complete, p - tower * t->height, sum);
        *complete = 0;
    }
    msi_tower_close(&c->stacks, sum);
}

/* Add n cells of a subgrid's row to the whole plane, and zero them. */
static void add_row(const tower_cpu *c, char *from, int64_t n, char *to)
{
    if (c->whole.fp32)
        msi_bucket_simd()->flush_f32((void *)from, 1, n, n, (void *)to, n);
    else
        msi_bucket_simd()->flush_f64((void *)from, 1, n, n, (void *)to, n);
}

/* Add what slots hold to row r of the whole plane. */
static void add_to_row(const tower_cpu *c, const msi_tower_item *item, int64_t n, int64_t r)
{
    const msi_wgrid_geometry *g = c->g;
    int64_t size = c->towers->size, cell = c->stacks.cell_bytes;
    char *row = msi_plane_cell(&c->whole, c->whole.plane[0], (r + G) * c->whole.stride + G);
    for (int64_t i = 0; i < n; i++) {
        int64_t from = r - msi_tower_origin_v(g, c->towers, item[i].sv);
        if (from < 0) from += g->nv;
        if (from >= size) continue;
        int64_t u = msi_tower_origin_u(g, c->towers, item[i].su), first = g->nu - u < size ? g->nu - u : size;
        char *cells = c->slot[i] + from * c->stacks.pitch * cell;
        add_row(c, cells, first, row + u * cell);
        add_row(c, cells + first * cell, size - first, row);
        c->whole.row_used[r + G] = 1;
    }
}

static int grid_tower(tower_cpu *c, int image_plane, int64_t tower)
{
    int64_t n_item = msi_tower_items(&c->stacks, &c->buckets, tower, c->item);
    for (int64_t first = 0; first < n_item; first += c->n_slot) {
        int64_t n = n_item - first < c->n_slot ? n_item - first : c->n_slot;
        const msi_tower_item *item = c->item + first;
#pragma omp parallel num_threads(c->stacks.n_thread)
        {
#pragma omp for schedule(dynamic, 1)
            for (int64_t i = 0; i < n; i++)
                if (!msi_interrupt_signal()) {
                    if (!omp_get_thread_num()) msi_progress_at(first + i, n_item);
                    grid_item(c, image_plane, tower, &item[i], c->slot[i]);
                }
#pragma omp for schedule(static, 16)
            for (int64_t r = 0; r < c->g->nv; r++) add_to_row(c, item, n, r);
        }
        MSI_TRY(msi_interrupt_check());
    }
    return MSI_OK;
}

/* Make one image plane, before correction. */
static int image_one(void *of, int image_plane, msi_stage_times *times)
{
    tower_cpu *c = of;
    for (int64_t tower = 0; tower < c->towers->n_tower; tower++) {
        double t0 = msi_wall_s();
        msi_progress_share all = msi_progress_enter(2 * tower, 2 * tower + 1, 2 * c->towers->n_tower);
        MSI_TRY(grid_tower(c, image_plane, tower));
        msi_progress_leave(all);
        double t1 = msi_wall_s();
        all = msi_progress_enter(2 * tower + 1, 2 * tower + 2, 2 * c->towers->n_tower);
        msi_image_sum_add(&c->whole, c->whole.plane[0], c->whole.row_used, msi_tower_w(c->g, c->towers, tower), c->sum);
        msi_progress_leave(all);
        times->grid_s += t1 - t0;
        times->transform_s += msi_wall_s() - t1;
        MSI_TRY(msi_interrupt_check());
    }
    return MSI_OK;
}

int msi_wgrid_tower_cpu_image(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_vis_store *store,
                              const int *store_plane, msi_image *image, msi_stage_times *times)
{
    tower_cpu c;
    int rc = create(&c, plan, towers, store);
    const msi_plane_imager imager = {&c.whole, &c.buckets, c.sum, image_one, &c};
    if (!rc) rc = msi_image_sum_make(&imager, store, store_plane, image, times);
    destroy(&c);
    return rc;
}
