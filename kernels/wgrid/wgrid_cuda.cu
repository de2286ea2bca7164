/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The default gridder on the GPU.
 *
 * Visibilities travel in batches of whole segments. Samples of a batch are counted by uv tile and first w-plane, their
 * coordinates all in double, and go each to its place in that order with its fractions of cells and its value, weighted
 * and turned by the field's mean n - 1 (wgrid_cuda_place.cuh), so that what runs together writes cells that lie
 * together and stay in L2.
 *
 * Gridding: samples of one tile and first w-plane are an item. Items that have company in
 * their tile, within half a window of w, are crowded: a block has the tile's cells in registers, its w-planes in a
 * ring, and writes a cell once for all of them, whose sums are matrix products (wgrid_ring_tensor_cuda.cuh of halves,
 * wgrid_ring_cuda.cuh of doubles). That is fast, and in fp32 it is needed: an array's core puts 1e5 samples and more on
 * a cell, and a float sum of so many is off by 1e-5, while here no block's sum has more than a thousand terms. A sparse
 * item goes to the planes by one warp: its lanes evaluate the taps of all samples into shared memory, then each lane
 * adds one cell of a row of taps, several rows at a time, with vector reductions in L2. Footprints wrap around the
 * grid's edge, which is exact.
 *
 * As many w-planes as fit are held; where not all do, the planes are made in slabs and every batch is gridded once for
 * each. Then cuFFT, one kernel that screens all planes of the slab at a pixel, and one that divides the windows out.
 */
#include "kernels/wgrid/wgrid_cuda.h"

#include <algorithm>

#include "core/progress.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/wgrid/wgrid_add_cuda.cuh"
#include "kernels/wgrid/wgrid_cuda_place_batch.cuh"

/* Rates of one H200, rounded; only ratios matter. */
extern const msi_cost_model msi_wgrid_cuda_cost = {4e12, 1e-11, 1e-10, 1e-12, 4};

namespace {

template <typename T> class gridder {
  public:
    gridder(const msi_wgrid_plan *plan_, const msi_vis_store *store_, const int *store_plane, int n_image,
            int64_t n_resident_, msi_stage_times *times_)
        : plan(plan_), store(store_), times(times_), n_resident(n_resident_), samples(plan_)
    {
        samples.store = store_;
        samples.times = times_;
        map.n_image = n_image;
        map.n_plane = store_->n_plane;
        for (int i = 0; i < n_image; i++) map.store_plane[i] = store_plane[i];
    }

    int make(msi_image *image)
    {
        MSI_TRY(prepare());
        for (int first = 0; first < map.n_image; first += images_at_once) {
            int n = map.n_image - first < images_at_once ? map.n_image - first : images_at_once;
            MSI_TRY(make_images(image, first, n));
        }
        return MSI_OK;
    }

  private:
    const msi_wgrid_plan *plan;
    const msi_vis_store *store;
    msi_stage_times *times;
    int64_t n_resident;
    placed_batches<T> samples;
    plan_stream &on = samples.on;
    plane_map map = {};
    int images_at_once = 1;
    buffer d_grid, d_sum;
    fft_plan fft;
    int64_t loaded_batch = -1;
    int loaded_image = -1;

    int64_t plane_cells() const
    {
        return samples.g.nu * samples.g.nv;
    }
    int64_t image_pixels() const
    {
        return msi_image_n_pixel(&plan->image);
    }

    /* Grids first, as many image planes at once as fit beside one batch of samples; batches get what is left. */
    int prepare()
    {
        int64_t usable;
        MSI_TRY(samples.enter());
        MSI_TRY(usable_bytes(&usable));
        samples.order = order_for_rings<T>(*plan);
        samples.least_crowded = can_ring<T>(shared_bytes()) ? least_in_ring<T>(samples.g.width) : UNUSED;
        int64_t cell = sizeof(cplx<T>), work = plane_cells() * cell * 2 + counter_bytes(samples.order);
        int64_t per_image = n_resident * plane_cells() * cell + image_pixels() * (int64_t)sizeof(T);
        int64_t least_batch = 64 << 20;
        images_at_once = map.n_image;
        while (images_at_once > 1 && images_at_once * per_image + work + least_batch > usable) images_at_once--;
        int64_t left = usable - images_at_once * per_image - work;
        int64_t fit = left / placed_batches<T>::sample_bytes(map.n_plane, images_at_once);
        /* Flagged samples travel too. */
        int64_t stored = 2 * std::max<int64_t>(store->n_sample, 1);
        samples.batch_samples = std::max<int64_t>(std::min({fit, stored, MOST_IN_BATCH}), 1);
        MSI_TRY(samples.upload_taps());
        MSI_TRY(d_grid.fit(images_at_once * n_resident * plane_cells() * cell, "w-planes"));
        MSI_TRY(d_sum.fit(images_at_once * image_pixels() * (int64_t)sizeof(T), "images"));
        return fft.make(samples.g.nv, samples.g.nu, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z, on.get());
    }

    /* A store that fits one batch is uploaded and sorted once, however many slabs and image planes there are. */
    int ready_batch(int64_t first_segment, int first_image, int n)
    {
        if (loaded_batch != first_segment) {
            samples.now = samples.cut_batch(first_segment);
            if (samples.now.n_sample) MSI_TRY(samples.upload_batch(map.n_plane));
            loaded_batch = first_segment;
            loaded_image = -1;
        }
        if (samples.now.n_sample && loaded_image != first_image) {
            plane_map part = map;
            part.n_image = n;
            for (int i = 0; i < n; i++) part.store_plane[i] = map.store_plane[first_image + i];
            MSI_TRY(samples.place_batch(part));
            loaded_image = first_image;
        }
        return MSI_OK;
    }

    /* Images [first_image, first_image + n), slab by slab of w-planes. */
    int make_images(msi_image *image, int first_image, int n)
    {
        const int n_w = samples.g.n_w;
        MSI_TRY(on.clear(as<T>(d_sum), n * image_pixels()));
        for (int low = 0; low < n_w; low += (int)n_resident) {
            const int high = low + n_resident < n_w ? low + (int)n_resident : n_w;
            MSI_TRY(on.clear(as<cplx<T>>(d_grid), n * plane_cells() * (high - low)));
            for (int64_t s = 0; s < store->n_segment; s = samples.now.end) {
                MSI_TRY(ready_batch(s, first_image, n));
                MSI_TRY(grid_batch(n, low, high));
            }
            MSI_TRY(transform_slab(n, low, high));
            msi_progress_at((int64_t)first_image * n_w + (int64_t)high * n, (int64_t)map.n_image * n_w);
        }
        return correct(image, first_image, n);
    }

    int grid_batch(int n, int low, int high)
    {
        const stage_timer stage("grid", &times->grid_s);
        MSI_TRY(grid_items(samples.g, samples.job(n, as<cplx<T>>(d_grid)), whole_planes{low, high}, samples.crowded(),
                           samples.sparse(), on.get()));
        MSI_TRY(on.wait());
        return msi_interrupt_check();
    }

    /* Add planes [low, high) of all images to the sums. */
    int transform_slab(int n, int low, int high)
    {
        const stage_timer stage("transform", &times->transform_s);
        for (int i = 0; i < n; i++) {
            cplx<T> *planes = as<cplx<T>>(d_grid) + i * (high - low) * plane_cells();
            for (int p = 0; p < high - low; p++) MSI_TRY(fft.run(planes + p * plane_cells(), CUFFT_FORWARD));
            k_screen<T><<<samples.pixel_blocks(), dim3(32, 8), 0, on.get()>>>(samples.screen(), planes, low, high,
                                                                              as<T>(d_sum) + i * image_pixels());
            MSI_CUDA(cudaGetLastError());
        }
        MSI_TRY(on.wait());
        return msi_interrupt_check();
    }

    int correct(msi_image *image, int first_image, int n)
    {
        const stage_timer stage("correct", &times->correct_s);
        msi_taper device;
        MSI_TRY(samples.upload_taper(&device));
        for (int i = 0; i < n; i++) {
            double sum = image->sum_weight[first_image + i];
            T *pixel = as<T>(d_sum) + i * image_pixels();
            k_correct<<<samples.pixel_blocks(), dim3(32, 8), 0, on.get()>>>(samples.screen(), device,
                                                                            sum > 0 ? 1 / sum : NAN, pixel, pixel);
            MSI_CUDA(cudaGetLastError());
        }
        return on.download((T *)image->pixel + first_image * image_pixels(), as<T>(d_sum), n * image_pixels());
    }
};

template <typename T>
int make_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane, int64_t n_resident,
               msi_image *image, msi_stage_times *times)
{
    gridder<T> g(plan, store, store_plane, image->n_plane, n_resident, times);
    return g.make(image);
}

/* Device bytes of a batch of n_sample samples, with its counters. */
template <typename T> int64_t batch_bytes(const msi_wgrid_plan *plan, int64_t n_sample, int n_plane)
{
    return n_sample * placed_batches<T>::sample_bytes(n_plane, n_plane) + counter_bytes(order_for_rings<T>(*plan));
}

int64_t batch_bytes(const msi_wgrid_plan *plan, int64_t n_sample, int n_plane)
{
    return plan->precision == MSI_FP32 ? batch_bytes<float>(plan, n_sample, n_plane)
                                       : batch_bytes<double>(plan, n_sample, n_plane);
}

} // namespace

int msi_wgrid_cuda_check(const msi_wgrid_plan *plan)
{
    const msi_wgrid_geometry *g = &plan->grid;
    const int64_t most_cells = UINT32_MAX, most_planes = 65536;
    if (g->nu * g->nv <= most_cells && g->n_w - g->w_width < most_planes) return MSI_OK;
    return msi_error_about(msi_error_set(MSI_ERANGE,
                                         "%lld w-planes of %lld x %lld cells are more than the GPU's kernels number",
                                         (long long)g->n_w, (long long)g->nu, (long long)g->nv),
                           "backend");
}

void msi_wgrid_cuda_bytes(const msi_wgrid_plan *plan, int64_t n_sample, int n_plane, int64_t n_resident, int64_t *host,
                          int64_t *device)
{
    int64_t plane = plan->grid.nu * plan->grid.nv * msi_complex_bytes(plan->precision);
    int64_t image = msi_image_n_pixel(&plan->image) * msi_image_pixel_bytes(plan->precision);
    *host = 0;
    *device = n_plane * (n_resident * plane + image) + batch_bytes(plan, n_sample, n_plane);
}

int64_t msi_wgrid_cuda_resident(const msi_wgrid_plan *plan, int n_plane, int64_t n_sample, int64_t host_bytes)
{
    (void)host_bytes;
    size_t free_bytes, total_bytes;
    if (msi_gpu_memory(plan->device, &free_bytes, &total_bytes) != MSI_OK) return 1;
    int64_t usable = usable_of(free_bytes), plane = plan->grid.nu * plan->grid.nv * msi_complex_bytes(plan->precision);
    int64_t image = msi_image_n_pixel(&plan->image) * msi_image_pixel_bytes(plan->precision);
    int64_t batch = batch_bytes(plan, n_sample, n_plane);
    if (batch > usable / 3) batch = usable / 3;
    /* Every plane for every image where that fits, else as many for one image at a time. */
    int64_t fit = (usable - batch - 2 * plane) / n_plane - image;
    if (fit < plan->grid.n_w * plane) fit = usable - batch - 2 * plane - image;
    int64_t n = fit / plane;
    return n < 1 ? 1 : n > plan->grid.n_w ? plan->grid.n_w : n;
}

int msi_wgrid_cuda_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane,
                         int64_t n_resident, msi_image *image, msi_stage_times *times)
{
    return plan->precision == MSI_FP32 ? make_image<float>(plan, store, store_plane, n_resident, image, times)
                                       : make_image<double>(plan, store, store_plane, n_resident, image, times);
}
