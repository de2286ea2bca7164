/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * w-towers on the GPU: towers/tower_plan.h says what they are.
 *
 * Samples are located and sorted as for whole planes, but by tower first and then by the subgrid that they belong to;
 * what runs of one key mark, counted through, tells which planes of which subgrids hold anything, and those alone get
 * room. Subgrids go through the device as many at a time as there are small planes: the kernels of the default gridder
 * add samples to them, cuFFT transforms them, one kernel screens a subgrid's planes and adds them up (a thread
 * for the four pixels that share a screen, which is cheaper to compute than to read), the sum goes back and is added to
 * the tower's one whole plane with vector reductions. One whole transform and one screen to a tower remain.
 */
#include "kernels/towers/wgrid_tower_cuda.h"

#include <math.h>

#include <algorithm>

#include "core/log.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/wgrid/wgrid_add_cuda.cuh"
#include "kernels/towers/wgrid_tower_cuda_stacks.cuh"

namespace {

template <typename T> class tower_gridder : tower_stacks<T> {
  public:
    tower_gridder(const msi_wgrid_plan *plan_, const msi_tower_plan *towers_, const msi_vis_store *store_,
                  int64_t n_small_, msi_stage_times *times_)
        : tower_stacks<T>(plan_, towers_, n_small_)
    {
        store = store_;
        times = times_;
    }
    ~tower_gridder() override = default;

    /* One image after the other: one whole plane is held, and samples are many times fewer than its cells. */
    int make(const int *store_plane, msi_image *image)
    {
        MSI_TRY(prepare());
        for (int i = 0; i < image->n_plane; i++) {
            map.n_image = 1;
            map.n_plane = store->n_plane;
            map.store_plane[0] = store_plane[i];
            is_sorted = false;
            MSI_CUDA(cudaMemset(as<void>(d_image), 0, sizeof(T) * (size_t)msi_image_n_pixel(&plan->image)));
            for (int t = 0; t < towers.n_tower; t++) {
                MSI_TRY(make_tower(t));
                msi_progress("gridding", (int64_t)i * towers.n_tower + t + 1, (int64_t)image->n_plane * towers.n_tower);
            }
            MSI_TRY(correct(image, i));
        }
        return MSI_OK;
    }

    static int64_t sample_bytes(int n_plane)
    {
        return (int64_t)(n_plane * (sizeof(float) + sizeof(cplx<T>))) + sample_batches<T>::placing_bytes();
    }

    static int64_t counter_bytes(const msi_wgrid_plan &plan, const msi_tower_plan &towers)
    {
        return base::counter_bytes(base::order_for_rings(plan.grid, base::order_of(plan, towers)));
    }

  private:
    using base = tower_stacks<T>;
    using base::batch_samples;
    using base::d_records;
    using base::d_taps;
    using base::d_value;
    using base::g;
    using base::now;
    using base::order;
    using base::plan;
    using base::plane_cells;
    using base::store;
    using base::times;
    using base::towers;
    plane_map map = {};
    buffer d_whole, d_image;
    fft_plan fft;
    int64_t loaded_batch = -1;
    bool is_sorted = false;
    int towers_at_once = 1; /* that samples are put in order for */

    int prepare()
    {
        MSI_TRY(base::upload_taps());
        MSI_TRY(d_whole.fit(g.nu * g.nv * (int64_t)sizeof(cplx<T>), "a w-plane"));
        MSI_TRY(d_image.fit(msi_image_n_pixel(&plan->image) * (int64_t)sizeof(T), "an image"));
        MSI_TRY(base::make_stacks());
        MSI_TRY(fft.make(g.nv, g.nu, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z));
        int64_t usable;
        order = base::order_for_rings(g, order);
        towers_at_once = order.end_tower;
        MSI_TRY(usable_bytes(&usable));
        usable -= base::counter_bytes(order);
        /* No more than CUB counts in. */
        batch_samples = std::clamp<int64_t>(usable / sample_bytes(store->n_plane), 1, INT32_MAX);
        return MSI_OK;
    }

    uint32_t least_crowded() const override
    {
        return can_ring<T>(base::shared_bytes()) ? least_in_ring<T>(g.width) : UNUSED;
    }

    /* A store that fits one batch is uploaded once, and put in order once an image if towers can be counted at once. */
    int ready_batch(int64_t first_segment, int tower)
    {
        if (loaded_batch != first_segment) {
            now = base::cut_batch(first_segment);
            if (now.n_sample) MSI_TRY(base::upload_batch(store->n_plane));
            loaded_batch = first_segment;
            is_sorted = false;
        }
        if (tower < order.first_tower || tower >= order.end_tower) {
            order.first_tower = tower;
            order.end_tower = std::min(tower + towers_at_once, towers.n_tower);
            is_sorted = false;
        }
        if (now.n_sample && !is_sorted) MSI_TRY(base::place_batch(map));
        is_sorted = true;
        return MSI_OK;
    }

    int make_tower(int tower)
    {
        bool is_empty = true;
        MSI_CUDA(cudaMemset(as<void>(d_whole), 0, sizeof(cplx<T>) * (size_t)(g.nu * g.nv)));
        for (int64_t s = 0; s < store->n_segment; s = now.end) {
            MSI_TRY(ready_batch(s, tower));
            if (!now.n_sample) continue;
            MSI_TRY(base::find_stacks(tower));
            stack_batch b;
            while (base::next_stacks(&b)) {
                MSI_TRY(add_stacks(b));
                is_empty = false;
            }
        }
        if (is_empty) return MSI_OK;
        double start = msi_wall_s();
        dim3 threads(32, 8), blocks((unsigned)((plan->image.nx + 31) / 32), (unsigned)((plan->image.ny + 7) / 8));
        MSI_TRY(fft.run(as<cplx<T>>(d_whole), CUFFT_FORWARD));
        k_screen<T><<<blocks, threads>>>(base::tower_screen(tower), as<cplx<T>>(d_whole), 0, 1, as<T>(d_image));
        MSI_CUDA(cudaGetLastError());
        MSI_CUDA(cudaDeviceSynchronize());
        times->transform_s += msi_wall_s() - start;
        return msi_interrupt_check();
    }

    int add_stacks(const stack_batch &b)
    {
        double start = msi_wall_s();
        stack_job<T> stacks = base::job(b);
        MSI_CUDA(cudaMemsetAsync(stacks.small, 0, sizeof(cplx<T>) * (size_t)(b.n_slot * plane_cells)));
        MSI_TRY(base::clear_rest(stacks.small, b.n_slot));
        MSI_CUDA(cudaDeviceSynchronize());
        double cleared = msi_wall_s();
        grid_job<T> samples = {as<tap_table<T>>(d_taps), &this->taps,          1,           now.n_sample,
                               as<placed<T>>(d_records), as<cplx<T>>(d_value), stacks.small};
        MSI_TRY(grid_items(g, samples, stacks.planes, b.crowded, b.sparse));
        MSI_CUDA(cudaDeviceSynchronize());
        double gridded = msi_wall_s();
        times->grid_s += gridded - cleared;
        MSI_TRY(base::transform_small(stacks.small, b.n_slot, CUFFT_FORWARD));
        k_sum_planes<T><<<base::quad_blocks(b), 256, base::list_bytes()>>>(stacks);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(base::clear_rest(stacks.sum, b.n_stack));
        MSI_TRY(base::transform_small(stacks.sum, b.n_stack, CUFFT_INVERSE));
        k_add_subgrids<T><<<base::cell_blocks(b), 256>>>(g, stacks, as<cplx<T>>(d_whole));
        MSI_CUDA(cudaGetLastError());
        MSI_CUDA(cudaDeviceSynchronize());
        times->transform_s += cleared - start + msi_wall_s() - gridded;
        return msi_interrupt_check();
    }

    int correct(msi_image *image, int i)
    {
        double start = msi_wall_s(), sum = image->sum_weight[i];
        int64_t n_pixel = msi_image_n_pixel(&plan->image);
        dim3 threads(32, 8), blocks((unsigned)((plan->image.nx + 31) / 32), (unsigned)((plan->image.ny + 7) / 8));
        msi_taper device;
        MSI_TRY(base::upload_taper(&device));
        k_correct<<<blocks, threads>>>(base::screen(), device, sum > 0 ? 1 / sum : NAN, as<T>(d_image), as<T>(d_image));
        MSI_CUDA(cudaGetLastError());
        MSI_CUDA(cudaMemcpy((T *)image->pixel + i * n_pixel, as<T>(d_image), sizeof(T) * (size_t)n_pixel,
                            cudaMemcpyDeviceToHost));
        times->correct_s += msi_wall_s() - start;
        return MSI_OK;
    }
};

/* Small planes are held up to this: with less at a time the kernels that grid have too little to do. */
constexpr int64_t SMALL_BYTES = (int64_t)4 << 30;

/* Powers of two are transformed a third faster; the others are for grids that are small themselves. */
constexpr int32_t SIZES[] = {64, 96, 128, 160, 192, 256, 512};

} // namespace

/* Rates of one H200, rounded. */
extern const msi_tower_cost msi_wgrid_tower_cuda_cost = {1.5e13, 1.1e-11, 0, 0, SIZES, sizeof SIZES / sizeof *SIZES};

int msi_wgrid_tower_cuda_tiles(msi_wgrid_plan *plan)
{
    msi_wgrid_geometry *g = &plan->grid;
    for (g->tile = TILE;; g->tile *= 2) {
        g->n_tile_u = (g->nu + 2 * g->width + g->tile) / g->tile;
        g->n_tile_v = (g->nv + 2 * g->width + g->tile) / g->tile;
        /* Cores and towers are rounded up. */
        int64_t most_u = g->n_tile_u + MSI_TOWER_MAX_CORE_TILES, most_v = g->n_tile_v + MSI_TOWER_MAX_CORE_TILES;
        if (most_u * most_v * 2 * g->n_w < (int64_t)UNUSED) return MSI_OK;
        if (g->tile >= 1 << 20)
            return msi_error_set(MSI_ERANGE, "%d w-planes are too many for w-towers on a GPU", g->n_w);
    }
}

int64_t msi_wgrid_tower_cuda_small(const msi_wgrid_plan *plan, const msi_tower_plan *towers)
{
    int64_t plane = (int64_t)towers->size * towers->size * msi_complex_bytes(plan->precision), bytes = SMALL_BYTES;
    size_t free_bytes, total_bytes;
    if (msi_gpu_memory(0, &free_bytes, &total_bytes) == MSI_OK && bytes > (int64_t)free_bytes / 8)
        bytes = (int64_t)free_bytes / 8;
    int64_t n = bytes / plane, all = towers->n_sub_u * towers->n_sub_v * towers->n_plane;
    if (n > all) n = all;
    return n < towers->n_plane ? towers->n_plane : n;
}

int64_t msi_wgrid_tower_cuda_whole(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_image, int lasts)
{
    int64_t all = (int64_t)towers->n_tower * n_image,
            bytes = all * plan->grid.nu * plan->grid.nv * msi_complex_bytes(plan->precision);
    size_t free_bytes, total_bytes;
    if (!lasts || msi_gpu_memory(0, &free_bytes, &total_bytes) != MSI_OK) return 1;
    return bytes <= (int64_t)free_bytes / 3 ? all : 1;
}

void msi_wgrid_tower_cuda_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int64_t n_sample, int n_plane,
                                int64_t n_whole, int64_t n_small, int64_t *host, int64_t *device)
{
    int64_t whole = plan->grid.nu * plan->grid.nv * msi_complex_bytes(plan->precision);
    int64_t image = msi_image_n_pixel(&plan->image) * msi_image_pixel_bytes(plan->precision);
    int64_t stacks = plan->precision == MSI_FP32 ? tower_stacks<float>::bytes(*towers, n_small)
                                                 : tower_stacks<double>::bytes(*towers, n_small);
    int64_t sample = plan->precision == MSI_FP32 ? tower_gridder<float>::sample_bytes(n_plane)
                                                 : tower_gridder<double>::sample_bytes(n_plane);
    int64_t counters = plan->precision == MSI_FP32 ? tower_gridder<float>::counter_bytes(*plan, *towers)
                                                   : tower_gridder<double>::counter_bytes(*plan, *towers);
    *host = towers->n_sub_u * towers->n_sub_v * (int64_t)(sizeof(core_start) + sizeof(uint32_t));
    /* cuFFT works in another plane */
    *device = (n_whole + 1) * whole + image + stacks + n_sample * sample + counters;
}

int msi_wgrid_tower_cuda_image(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_vis_store *store,
                               const int *store_plane, int64_t n_small, msi_image *image, msi_stage_times *times)
{
    if (plan->precision == MSI_FP32)
        return tower_gridder<float>(plan, towers, store, n_small, times).make(store_plane, image);
    return tower_gridder<double>(plan, towers, store, n_small, times).make(store_plane, image);
}
