/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Batches of stored samples on the device, as gridding and degridding both see them: a plan's geometry and taps, the
 * order of samples by uv tile and w, and the items of one tile and first w-plane that a sorted batch is cut into.
 * wgrid_cuda_place_batch.cuh puts samples in that order.
 */
#ifndef MSI_KERNELS_WGRID_CUDA_BATCH_CUH
#define MSI_KERNELS_WGRID_CUDA_BATCH_CUH

#include "core/interrupt.h"
#include "kernels/store/store_batches_cuda.cuh"
#include "kernels/transform/fft_plan_cuda.cuh"
#include "kernels/wgrid/wgrid_cuda_kernels.cuh"
#include "kernels/wgrid/wgrid_plan.h"

namespace {

/* Items and the sums of counters number the samples of a batch in 32 bits. */
constexpr int64_t MOST_IN_BATCH = INT32_MAX;

/* Whole planes in tiles, each of them a core. */
inline sample_order order_by_tile(const msi_wgrid_geometry &g, tile_shape tile)
{
    sample_order o = {};
    o.height = g.n_w - g.w_width + 1;
    o.first_tower = 0;
    o.end_tower = 1;
    o.core = o.tile = tile;
    o.n_core_u = (int32_t)((g.nu + 2 * g.width) / tile.u) + 1;
    o.n_core_v = (int32_t)((g.nv + 2 * g.width) / tile.v) + 1;
    o.end_core = o.n_core();
    return o;
}

/* Lay tiles of the size that degridding's crowded items take, unless there are more than keys can number. */
inline void lay_tiles(msi_wgrid_geometry *g)
{
    for (g->tile = TILE;; g->tile *= 2) {
        g->n_tile_u = (g->nu + 2 * g->width + g->tile) / g->tile;
        g->n_tile_v = (g->nv + 2 * g->width + g->tile) / g->tile;
        if (g->n_tile_u * g->n_tile_v * (g->n_w - g->w_width + 1) < (int64_t)UNUSED) return;
    }
}

/* Runs of equal keys in a sorted batch, and the numbers of each one's first items. The last run is empty, its key
 * UNUSED: it tells where items end. */
struct sorted_runs {
    const uint32_t *key, *crowded_at, *sparse_at;
    int64_t n;
};

template <typename T> class sample_batches : public store_batches<T> {
  public:
    using base = store_batches<T>;
    using base::now;
    using base::on;
    using base::store;
    using base::times;
    const msi_wgrid_plan *plan;
    msi_wgrid_geometry g;
    sample_order order;
    uint32_t least_crowded = UNUSED;     /* samples that make an item crowded, so that a block takes it; UNUSED: none */
    int64_t n_crowded = 0, n_sparse = 0; /* items of the batch at hand */
    sorted_runs runs = {};
    buffer d_taps, d_value, d_records, d_rank, d_work, d_runs, d_items;
    tap_table<T> taps = {}; /* and d_taps */

    /* Order by tiles of whole planes. */
    explicit sample_batches(const msi_wgrid_plan *plan_) : plan(plan_), g(plan_->grid)
    {
        lay_tiles(&g);
        order = order_by_tile(g, {g.tile, g.tile});
    }
    /* Order by towers of w-planes; order_ has no more keys than can be numbered. */
    sample_batches(const msi_wgrid_plan *plan_, const sample_order &order_) : plan(plan_), g(plan_->grid), order(order_)
    {
        g.tile = order.tile.u;
    }

    /* enter - make the plan's device the current one, and its stream at first. Returns: 0, MSI_EGPU */
    int enter()
    {
        return on.begin(plan->device);
    }

    int upload_taps()
    {
        for (int k = 0; k < plan->window.n_coef; k++)
            for (int i = 0; i < g.width; i++) {
                taps.uv[k][i] = (T)plan->window.coef[k][i];
                taps.w[k][i] = (T)plan->w_window.coef[k][i];
            }
        MSI_TRY(d_taps.fit(sizeof taps, "the window"));
        return on.upload(as<tap_table<T>>(d_taps), &taps, 1);
    }

    /* upload_taper - upload factors of correction. Returned: *device, whose arrays are on the device and owned here. */
    int upload_taper(msi_taper *device)
    {
        msi_taper host;
        MSI_TRY(msi_taper_make(&host, &plan->image, &plan->grid, &plan->window, &plan->w_window));
        *device = host;
        const int rc = copy_taper(device, host);
        msi_taper_free(&host);
        return rc;
    }

    item_range crowded() const
    {
        return {as<item>(d_items), n_crowded};
    }
    item_range sparse() const
    {
        return {as<item>(d_items) + n_crowded, n_sparse};
    }

    screen_geometry screen() const
    {
        const msi_image_geometry &i = plan->image;
        return {i.nx,      i.ny,     g.nu,    g.nv,          i.cell_x_rad,   i.cell_y_rad,
                g.w_first, g.w_step, g.n_mid, g.w_width > 1, g.l_center_rad, g.m_center_rad};
    }

    /* Count the blocks of 32 x 8 threads that cover the image. */
    dim3 pixel_blocks() const
    {
        return dim3((unsigned)((plan->image.nx + 31) / 32), (unsigned)((plan->image.ny + 7) / 8));
    }

    /* Count the blocks that share out the batch's segments. */
    dim3 segment_blocks() const
    {
        return dim3((unsigned)(now.end - now.first), 8);
    }

  private:
    buffer d_along;

    int copy_taper(msi_taper *device, const msi_taper &host)
    {
        const int64_t nx = plan->image.nx, ny = plan->image.ny;
        MSI_TRY(d_along.fit((nx + ny) * (int64_t)sizeof(double), "taper correction"));
        device->along_x = as<double>(d_along);
        device->along_y = as<double>(d_along) + nx;
        MSI_TRY(on.upload(device->along_x, host.along_x, nx));
        MSI_TRY(on.upload(device->along_y, host.along_y, ny));
        return on.wait();
    }
};

} // namespace

#endif
