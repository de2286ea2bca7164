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

#include "core/progress.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/towers/wgrid_tower_cuda_stacks.cuh"
#include "kernels/wgrid/wgrid_add_cuda.cuh"
#include "kernels/wgrid/wgrid_cuda_place_batch.cuh"

namespace {

template <typename T> class tower_gridder {
  public:
    tower_gridder(const msi_wgrid_plan *plan_, const msi_tower_plan *towers_, const msi_vis_store *store_,
                  int64_t n_small_, msi_stage_times *times_)
        : plan(plan_), towers(*towers_), store(store_), times(times_),
          samples(plan_, order_of_towers(*plan_, *towers_)), stacks(samples, towers_, n_small_)
    {
        samples.store = store_;
        samples.times = times_;
    }

    /* One image after the other: one whole plane is held, and samples are many times fewer than its cells. */
    int make(const int *store_plane, msi_image *image)
    {
        MSI_TRY(prepare());
        for (int i = 0; i < image->n_plane; i++) {
            map.n_image = 1;
            map.n_plane = store->n_plane;
            map.store_plane[0] = store_plane[i];
            is_sorted = false;
            MSI_TRY(on.clear(as<T>(d_image), msi_image_n_pixel(&plan->image)));
            for (int t = 0; t < towers.n_tower; t++) {
                const int64_t part = (int64_t)i * towers.n_tower + t;
                const msi_progress_share all =
                    msi_progress_enter(part, part + 1, (int64_t)image->n_plane * towers.n_tower);
                MSI_TRY(make_tower(t));
                msi_progress_leave(all);
            }
            MSI_TRY(correct(image, i));
        }
        return MSI_OK;
    }

    static int64_t counter_bytes(const msi_wgrid_plan &plan, const msi_tower_plan &towers)
    {
        return ::counter_bytes(order_for_rings<T>(plan, order_of_towers(plan, towers)));
    }

  private:
    const msi_wgrid_plan *plan;
    const msi_tower_plan &towers;
    const msi_vis_store *store;
    msi_stage_times *times;
    placed_batches<T> samples;
    plan_stream &on = samples.on;
    tower_stacks<T> stacks;
    plane_map map = {};
    buffer d_whole, d_image;
    fft_plan fft;
    int64_t loaded_batch = -1;
    bool is_sorted = false;
    int towers_at_once = 1; /* that samples are put in order for */

    int prepare()
    {
        const msi_wgrid_geometry &g = samples.g;
        MSI_TRY(samples.enter());
        MSI_TRY(samples.upload_taps());
        MSI_TRY(d_whole.fit(g.nu * g.nv * (int64_t)sizeof(cplx<T>), "a w-plane"));
        MSI_TRY(d_image.fit(msi_image_n_pixel(&plan->image) * (int64_t)sizeof(T), "an image"));
        MSI_TRY(stacks.make_stacks());
        MSI_TRY(fft.make(g.nv, g.nu, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z, on.get()));
        int64_t usable;
        samples.least_crowded = can_ring<T>(shared_bytes()) ? least_in_ring<T>(g.width) : UNUSED;
        samples.order = order_for_rings<T>(*plan, samples.order);
        towers_at_once = samples.order.end_tower;
        MSI_TRY(usable_bytes(&usable));
        usable -= ::counter_bytes(samples.order);
        samples.batch_samples =
            std::clamp<int64_t>(usable / placed_batches<T>::sample_bytes(store->n_plane, 1), 1, MOST_IN_BATCH);
        return MSI_OK;
    }

    /* A store that fits one batch is uploaded once, and put in order once an image if towers can be counted at once. */
    int ready_batch(int64_t first_segment, int tower)
    {
        if (loaded_batch != first_segment) {
            samples.now = samples.cut_batch(first_segment);
            if (samples.now.n_sample) MSI_TRY(samples.upload_batch(store->n_plane));
            loaded_batch = first_segment;
            is_sorted = false;
        }
        if (tower < samples.order.first_tower || tower >= samples.order.end_tower) {
            samples.order.first_tower = tower;
            samples.order.end_tower = std::min(tower + towers_at_once, towers.n_tower);
            is_sorted = false;
        }
        if (samples.now.n_sample && !is_sorted) MSI_TRY(samples.place_batch(map));
        is_sorted = true;
        return MSI_OK;
    }

    int make_tower(int tower)
    {
        bool is_empty = true;
        MSI_TRY(on.clear(as<cplx<T>>(d_whole), samples.g.nu * samples.g.nv));
        for (int64_t s = 0; s < store->n_segment; s = samples.now.end) {
            MSI_TRY(ready_batch(s, tower));
            if (!samples.now.n_sample) continue;
            MSI_TRY(stacks.find_stacks(tower));
            stack_batch b;
            while (stacks.next_stacks(&b)) {
                MSI_TRY(grid_stacks(b));
                MSI_TRY(add_stacks(b));
                is_empty = false;
            }
        }
        return is_empty ? MSI_OK : add_whole(tower);
    }

    /* Add the tower's whole plane to the image. */
    int add_whole(int tower)
    {
        const stage_timer stage("transform", &times->transform_s);
        MSI_TRY(fft.run(as<cplx<T>>(d_whole), CUFFT_FORWARD));
        k_screen<T><<<samples.pixel_blocks(), dim3(32, 8), 0, on.get()>>>(stacks.tower_screen(tower),
                                                                          as<cplx<T>>(d_whole), 0, 1, as<T>(d_image));
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(on.wait());
        return msi_interrupt_check();
    }

    /* Grid a batch's samples onto its small planes. */
    int grid_stacks(const stack_batch &b)
    {
        const stack_job<T> job = stacks.job(b);
        {
            const stage_timer stage("clear", &times->transform_s);
            MSI_TRY(on.clear(job.small, b.n_slot * stacks.plane_cells));
            MSI_TRY(stacks.clear_rest(job.small, b.n_slot));
            MSI_TRY(on.wait());
        }
        const stage_timer stage("grid", &times->grid_s);
        MSI_TRY(grid_items(samples.g, samples.job(1, job.small), job.planes, b.crowded, b.sparse, on.get()));
        return on.wait();
    }

    /* Transform the small planes, add up those of a subgrid, and add subgrids to the whole plane. */
    int add_stacks(const stack_batch &b)
    {
        const stage_timer stage("transform", &times->transform_s);
        const stack_job<T> job = stacks.job(b);
        MSI_TRY(stacks.transform_small(job.small, b.n_slot, CUFFT_FORWARD));
        k_sum_planes<T><<<stacks.quad_blocks(b), 256, stacks.list_bytes(), on.get()>>>(job);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(stacks.clear_rest(job.sum, b.n_stack));
        MSI_TRY(stacks.transform_small(job.sum, b.n_stack, CUFFT_INVERSE));
        k_add_subgrids<T><<<stacks.cell_blocks(b), 256, 0, on.get()>>>(samples.g, job, as<cplx<T>>(d_whole));
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(on.wait());
        return msi_interrupt_check();
    }

    int correct(msi_image *image, int i)
    {
        const stage_timer stage("correct", &times->correct_s);
        const double sum = image->sum_weight[i];
        const int64_t n_pixel = msi_image_n_pixel(&plan->image);
        msi_taper device;
        MSI_TRY(samples.upload_taper(&device));
        k_correct<<<samples.pixel_blocks(), dim3(32, 8), 0, on.get()>>>(
            samples.screen(), device, sum > 0 ? 1 / sum : NAN, as<T>(d_image), as<T>(d_image));
        MSI_CUDA(cudaGetLastError());
        return on.download((T *)image->pixel + i * n_pixel, as<T>(d_image), n_pixel);
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
    if (msi_gpu_memory(plan->device, &free_bytes, &total_bytes) == MSI_OK && bytes > (int64_t)free_bytes / 8)
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
    if (!lasts || msi_gpu_memory(plan->device, &free_bytes, &total_bytes) != MSI_OK) return 1;
    return bytes <= (int64_t)free_bytes / 3 ? all : 1;
}

void msi_wgrid_tower_cuda_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int64_t n_sample, int n_plane,
                                int64_t n_whole, int64_t n_small, int64_t *host, int64_t *device)
{
    int64_t whole = plan->grid.nu * plan->grid.nv * msi_complex_bytes(plan->precision);
    int64_t image = msi_image_n_pixel(&plan->image) * msi_image_pixel_bytes(plan->precision);
    int64_t stacks = plan->precision == MSI_FP32 ? tower_stacks<float>::bytes(*towers, n_small)
                                                 : tower_stacks<double>::bytes(*towers, n_small);
    int64_t sample = plan->precision == MSI_FP32 ? placed_batches<float>::sample_bytes(n_plane, 1)
                                                 : placed_batches<double>::sample_bytes(n_plane, 1);
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
