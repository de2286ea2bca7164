/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The default gridder on the GPU.
 *
 * (1) Visibilities are uploaded in batches of whole segments. (2) The samples of a batch are counted by uv tile and
 * first w-plane, with coordinates in double. Each is then stored at its place in this order, with its fractions of
 * cells and its value, which is weighted and multiplied by the phase of the field's mean n - 1
 * (wgrid_batches_cuda.cuh). So blocks that run at the same time write to neighbouring cells, which stay in L2.
 *
 * (3) Gridding (wgrid_grid_cuda.cuh): samples of one tile and first w-plane are an item. An item is crowded if there
 * are enough samples in its tile within half a window of w. A block grids crowded items: it holds the tile's cells in
 * registers and its w-planes in a ring, computes the sums as matrix products, and writes a cell once for all samples.
 * This is fast. It is also needed in fp32, because a cell may get more than 1e5 samples of an array's core, and a float
 * sum of these has an error of 1e-5; the sums of a block have at most about a thousand terms. A warp adds a sparse item
 * to the planes directly: its lanes evaluate the taps of all samples into shared memory. Then each lane adds one cell
 * of a row of taps, several rows at a time, with vector reductions in L2. Footprints wrap around the grid's edge, which
 * is exact.
 *
 * (4) cuFFT transforms the planes, a kernel multiplies all planes at a pixel by their screens and sums them, and
 * another kernel divides the image by the windows' transforms. As many w-planes of one image as fit are in memory. If
 * not all fit, they are made in slabs, and a batch is gridded once for each slab. If a model is subtracted, the planes
 * first hold the model (wgrid_imager_cuda.cuh).
 */
#include "kernels/wgrid/wgrid_cuda.h"

#include <algorithm>

#include "core/progress.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/wgrid/wgrid_grid_cuda.cuh"
#include "kernels/wgrid/wgrid_imager_cuda.cuh"

namespace {

template <typename T> class planes_imager : public wgrid_imager<T> {
    using base = wgrid_imager<T>;

  public:
    planes_imager(const msi_wgrid_plan *plan_, int64_t n_resident_, bool keeps_parts, bool stays)
        : base(plan_, keeps_parts, stays), n_resident(n_resident_)
    {
    }

  private:
    using base::on;
    using base::plane_cells;
    using base::samples;
    using base::times;
    int64_t n_resident;
    buffer d_grid;
    fft_plan fft; /* transform of a plane [nv][nu] */

    int allocate_planes() override
    {
        MSI_TRY(order_for_rings<T>(&samples.order, *base::plan));
        MSI_TRY(d_grid.fit(n_resident * plane_cells() * (int64_t)sizeof(cplx<T>), "w-planes"));
        return fft.make(samples.g.nv, samples.g.nu, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z, on.get());
    }

    /* Call slab(low, high) for each slab of planes that are in memory together. */
    template <class F> int for_each_slab(F slab)
    {
        const int n_w = samples.g.n_w;
        for (int low = 0; low < n_w; low += (int)n_resident) {
            const int high = low + n_resident < n_w ? low + (int)n_resident : n_w;
            MSI_TRY(slab(low, high));
            msi_progress_at(high, n_w);
            MSI_TRY(msi_interrupt_check());
        }
        return MSI_OK;
    }

    int add_image(T *sum) override
    {
        return for_each_slab([&](int low, int high) {
            MSI_TRY(grid_slab(low, high));
            MSI_TRY(msi_interrupt_check());
            return transform_slab(low, high, sum);
        });
    }

    int grid_slab(int low, int high)
    {
        const stage_timer stage("grid", &times->grid_s);
        cplx<T> *planes = as<cplx<T>>(d_grid);
        MSI_TRY(on.clear(planes, plane_cells() * (high - low)));
        MSI_TRY(grid_items(samples.g, samples.job(planes), whole_planes{low, high}, samples.crowded(), samples.sparse(),
                           on.get()));
        return on.wait();
    }

    /* Add planes [low, high) to an image's sum. */
    int transform_slab(int low, int high, T *sum)
    {
        const stage_timer stage("transform", &times->transform_s);
        cplx<T> *planes = as<cplx<T>>(d_grid);
        for (int p = 0; p < high - low; p++) MSI_TRY(fft.run(planes + p * plane_cells(), CUFFT_FORWARD));
        k_screen<T><<<samples.pixel_blocks(), dim3(32, 8), 0, on.get()>>>(samples.screen(), planes, low, high, sum);
        MSI_CUDA(cudaGetLastError());
        return on.wait();
    }

    /* A sample's planes may be in several slabs, so each slab adds to values that are zero at first. */
    int degrid(const T *model, cplx<T> *value) override
    {
        const bool adds = n_resident < samples.g.n_w;
        if (adds) MSI_TRY(on.clear(value, samples.n_placed));
        return for_each_slab([&](int low, int high) {
            MSI_TRY(make_planes(model, low, high));
            const stage_timer stage("degrid", &times->grid_s);
            const msi_wgrid_degrid_call call = samples.degrid_call(as<cplx<T>>(d_grid), value, adds);
            MSI_TRY(msi_wgrid_degrid_whole(&call, low, high));
            return on.wait();
        });
    }

    int make_planes(const T *model, int low, int high)
    {
        const stage_timer stage("transform", &times->transform_s);
        const dim3 blocks((unsigned)((samples.g.nu + 31) / 32), (unsigned)((samples.g.nv + 7) / 8));
        for (int p = low; p < high; p++) {
            cplx<T> *plane = as<cplx<T>>(d_grid) + (p - low) * plane_cells();
            k_spread_model<T><<<blocks, dim3(32, 8), 0, on.get()>>>(samples.screen(), base::taper, model, p, plane);
            MSI_CUDA(cudaGetLastError());
            MSI_TRY(fft.run(plane, CUFFT_INVERSE));
        }
        return on.wait();
    }
};

template <typename T>
int make_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane, int64_t n_resident,
               msi_image *image, msi_stage_times *times)
{
    return planes_imager<T>(plan, n_resident, image->n_plane > 1, false).make_on_host(store, store_plane, image, times);
}

/* Count the device bytes of a request's samples, counters included. */
template <typename T> int sample_bytes(const msi_wgrid_plan *plan, const msi_plan_request *r, int64_t *bytes)
{
    sample_order order;
    MSI_TRY(order_for_rings<T>(&order, *plan));
    *bytes = r->n_sample * wgrid_imager<T>::sample_bytes(r->spec->n_plane, r->spec->residual || r->n_image > 1,
                                                         r->spec->residual, r->spec->n_term) +
             counter_bytes(order);
    return MSI_OK;
}

int sample_bytes(const msi_wgrid_plan *plan, const msi_plan_request *r, int64_t *bytes)
{
    return plan->precision == MSI_FP32 ? sample_bytes<float>(plan, r, bytes) : sample_bytes<double>(plan, r, bytes);
}

int64_t plane_bytes(const msi_wgrid_plan *plan)
{
    return plan->grid.nu * plan->grid.nv * msi_complex_bytes(plan->precision);
}

/* Return the number of images whose w-planes are in memory together: all for degridding, one for gridding. */
int n_gridded(const msi_plan_request *r)
{
    return r->spec->predict ? r->n_image : 1;
}

} // namespace

int msi_wgrid_cuda_check(const msi_wgrid_plan *plan)
{
    const msi_wgrid_geometry *g = &plan->grid;
    const int64_t most_cells = UINT32_MAX, most_planes = 65536;
    if (g->nu * g->nv <= most_cells && g->n_w - g->w_width < most_planes) return MSI_OK;
    return msi_error_about(msi_error_set(MSI_ERANGE,
                                         "%lld w-planes of %lld x %lld cells are more than the GPU kernels can number",
                                         (long long)g->n_w, (long long)g->nu, (long long)g->nv),
                           "backend");
}

int msi_wgrid_cuda_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t n_resident, int64_t *host,
                         int64_t *device)
{
    int64_t samples;
    MSI_TRY(sample_bytes(plan, request, &samples));
    *host = 0;
    *device = n_gridded(request) * n_resident * plane_bytes(plan) + msi_wgrid_cuda_image_bytes(plan, request) + samples;
    return MSI_OK;
}

int64_t msi_wgrid_cuda_image_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request)
{
    const int64_t image = msi_image_n_pixel(&plan->image) * msi_image_pixel_bytes(plan->precision);
    /* A cycle has a model, residuals and the PSF. */
    return (request->spec->residual ? 2 * request->spec->n_plane + 1 : request->n_image) * image;
}

int msi_wgrid_cuda_resident(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t *n)
{
    size_t free_bytes, total_bytes;
    int64_t samples;
    MSI_TRY(msi_gpu_memory(plan->device, &free_bytes, &total_bytes));
    MSI_TRY(sample_bytes(plan, request, &samples));
    const int64_t usable = usable_of(free_bytes), plane = plane_bytes(plan), all = plan->grid.n_w;
    const int64_t images = std::min(msi_wgrid_cuda_image_bytes(plan, request), usable / 4);
    const int64_t batch = std::min(samples, usable / 3);
    const int64_t left = usable - batch - 2 * plane - images;
    /* All planes of all images if they fit, otherwise as many planes of one image as fit. */
    const int64_t together = left / n_gridded(request) / plane;
    *n = std::clamp<int64_t>(together < all ? left / plane : together, 1, all);
    return MSI_OK;
}

int msi_wgrid_cuda_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane,
                         int64_t n_resident, msi_image *image, msi_stage_times *times)
{
    return plan->precision == MSI_FP32 ? make_image<float>(plan, store, store_plane, n_resident, image, times)
                                       : make_image<double>(plan, store, store_plane, n_resident, image, times);
}

int msi_wgrid_cuda_residual(const msi_wgrid_plan *plan, const msi_residual_job *job, int64_t n_resident, void **kept,
                            msi_stage_times *times)
{
    const auto fp32 = [=] { return new planes_imager<float>(plan, n_resident, true, true); };
    const auto fp64 = [=] { return new planes_imager<double>(plan, n_resident, true, true); };
    return plan->precision == MSI_FP32 ? make_kept(kept, fp32, job, times) : make_kept(kept, fp64, job, times);
}

void msi_wgrid_cuda_free_samples(void *kept)
{
    free_imager(kept);
}
