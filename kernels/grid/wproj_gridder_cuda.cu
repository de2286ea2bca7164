/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Images by w-projection on the GPU, slice of w by slice. The samples of a slice go to a box of cells that holds their
 * footprints and no more, its place found beforehand (SDP memo "Vertical prototyping of the gridding algorithm" section
 * 11: memory for the trimmed grid alone); the box is folded onto the padded grid, transformed, and added to the image
 * under the slice's screen. A store that fits the device is uploaded once; a larger one passes in batches, once for
 * each slice.
 */
#include "kernels/grid/wproj_gridder_cuda.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/interrupt.h"
#include "core/log.h"
#include "kernels/grid/wproj_tile_cuda.h"
#include "kernels/prepare/store_batches_cuda.cuh"
#include "kernels/transform/screen_cuda.cuh"

/* Rates of one H200, rounded; only ratios matter. Kernels are made on the host by all its threads. */
extern const msi_wproj_cost msi_wproj_cuda_cost = {{4e12, 1e-11, 2e-10, 2e-12, MSI_WPROJ_TILE}, 6e-12, 1e-10};

namespace {

constexpr int64_t LEAST_BATCH_BYTES = 64 << 20;

typedef std::unique_ptr<msi_wproj_sorter, void (*)(msi_wproj_sorter *)> sorter_owner;
typedef std::unique_ptr<msi_wproj_tile, void (*)(msi_wproj_tile *)> tile_owner;

int64_t cell_bytes(const msi_wproj_plan *plan)
{
    return plan->precision == MSI_FP32 ? (int64_t)sizeof(msi_c32) : (int64_t)sizeof(msi_c64);
}

int64_t whole_tiles(int64_t n_cell)
{
    return (n_cell + MSI_WPROJ_TILE - 1) / MSI_WPROJ_TILE * MSI_WPROJ_TILE;
}

/* Largest box that a slice may need, along an axis whose padded grid has n_grid cells: samples lie within half of it
 * from the middle. */
int64_t largest_box(const msi_wproj_plan *plan, int64_t n_grid)
{
    return whole_tiles(n_grid + 2 * plan->half_max + 1);
}

/* The padded grid, twice as much for the transform to work with, and the kernels. */
int64_t fixed_bytes(const msi_wproj_plan *plan)
{
    return 3 * plan->grid.nu * plan->grid.nv * cell_bytes(plan) + plan->table_bytes;
}

int64_t image_bytes(const msi_wproj_plan *plan)
{
    return largest_box(plan, plan->grid.nu) * largest_box(plan, plan->grid.nv) * cell_bytes(plan) +
           msi_image_n_pixel(&plan->image) * (int64_t)sizeof(double);
}

msi_wproj_sorter_spec sorter_spec(const msi_wproj_plan *plan, int n_image)
{
    msi_wproj_sorter_spec s = {};
    s.half = plan->half;
    s.n_plane = plan->grid.n_plane;
    s.oversample = plan->grid.oversample;
    s.n_image = n_image;
    s.precision = plan->precision;
    s.linear = plan->grid.linear;
    return s;
}

/* As uploaded, as sorted with what CUB adds; coordinates for each sample, as of single channels. */
int64_t sample_bytes(const msi_wproj_plan *plan, int n_plane, int n_image)
{
    msi_wproj_sorter_spec none = sorter_spec(plan, n_image), many = none;
    none.nu = none.nv = many.nu = many.nv = MSI_WPROJ_TILE;
    many.capacity = 1000;
    int64_t sorting = (msi_wproj_sorter_bytes(&many) - msi_wproj_sorter_bytes(&none)) / many.capacity;
    return n_plane * ((int64_t)sizeof(float) + cell_bytes(plan)) + 3 * (int64_t)sizeof(double) + sorting + sorting / 20;
}

template <typename T> class imager : store_batches<T> {
  public:
    imager(const msi_wproj_plan *plan_, const msi_wkernel_set *kernels_, const msi_vis_store *store_,
           int64_t batch_samples_, msi_stage_times *times_)
        : plan(plan_), kernels(kernels_), extent((size_t)plan_->grid.n_slice)
    {
        store = store_;
        times = times_;
        batch_samples = batch_samples_;
    }

    int make(const int *store_plane, msi_image *image)
    {
        MSI_TRY(prepare(image->n_plane));
        for (int first = 0; first < image->n_plane; first += images_at_once) {
            n_image = std::min(images_at_once, image->n_plane - first);
            first_image = first;
            planes = store_plane + first;
            MSI_TRY(make_images(image));
        }
        return MSI_OK;
    }

  private:
    using base = store_batches<T>;
    using base::batch_samples;
    using base::d_freq;
    using base::d_raw;
    using base::d_segments;
    using base::d_uvw;
    using base::d_weight;
    using base::now;
    using base::store;
    using base::times;
    const msi_wproj_plan *plan;
    const msi_wkernel_set *kernels;
    std::vector<msi_wproj_box_extent> extent; /* [n_slice] of the images at hand */
    int images_at_once = 1, n_image = 0, first_image = 0;
    const int *planes = nullptr;
    int64_t box_nu = 0, box_nv = 0;
    buffer d_box, d_grid, d_sum, d_along;
    fft_plan fft;
    sorter_owner sorter{nullptr, msi_wproj_sorter_free};
    tile_owner tile{nullptr, msi_wproj_tile_free};
    int64_t loaded = -1; /* first segment of the batch on the device */

    /* As many images at once as fit beside a small batch of samples; batches get what is left. */
    int prepare(int n_wanted)
    {
        size_t free_bytes, total_bytes;
        MSI_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
        const int64_t usable = (int64_t)(0.9 * (double)free_bytes) - fixed_bytes(plan), per_image = image_bytes(plan);
        images_at_once = std::min<int>(n_wanted, MSI_WPROJ_MAX_IMAGE);
        while (images_at_once > 1 && images_at_once * per_image + LEAST_BATCH_BYTES > usable) images_at_once--;
        const int64_t left = std::max(usable - images_at_once * per_image, LEAST_BATCH_BYTES);
        const int64_t fit = std::min<int64_t>(left / sample_bytes(plan, store->n_plane, images_at_once), INT32_MAX);
        batch_samples = batch_samples > 0 ? std::min(batch_samples, fit) : fit;
        MSI_TRY(d_grid.fit(plan->grid.nu * plan->grid.nv * cell_bytes(plan), "the grid"));
        MSI_TRY(d_sum.fit(images_at_once * msi_image_n_pixel(&plan->image) * (int64_t)sizeof(double), "images"));
        return fft.make(plan->grid.nv, plan->grid.nu, sizeof(T) == sizeof(float) ? CUFFT_C2C : CUFFT_Z2Z);
    }

    int make_images(msi_image *image)
    {
        const int32_t n_slice = plan->grid.n_slice;
        const size_t sum_bytes = (size_t)(n_image * msi_image_n_pixel(&plan->image)) * sizeof(double);
        MSI_CUDA(cudaMemset(as<void>(d_sum), 0, sum_bytes));
        MSI_TRY(find_extents());
        MSI_TRY(fit_box());
        for (int32_t slice = 0; slice < n_slice; slice++) {
            if (extent[(size_t)slice].n == 0) continue;
            MSI_TRY(grid_slice(slice));
            MSI_TRY(add_slice(slice));
            MSI_TRY(msi_interrupt_check());
            msi_progress("gridding", (int64_t)first_image * n_slice + (slice + 1) * (int64_t)n_image,
                         (int64_t)image->n_plane * n_slice);
        }
        return correct(image);
    }

    /* The batch that begins at a segment, uploaded unless it is there. */
    int ready_batch(int64_t first)
    {
        if (loaded == first) return MSI_OK;
        now = base::cut_batch(first);
        loaded = first;
        return now.n_sample ? base::upload_batch(store->n_plane) : MSI_OK;
    }

    msi_wproj_samples samples() const
    {
        msi_wproj_samples s = {};
        s.n = now.n_sample;
        s.n_rows = (int32_t)(now.end - now.first);
        s.rows = as<msi_store_rows>(d_segments);
        s.freq_hz = as<double>(d_freq);
        s.uvw_m = as<double>(d_uvw);
        s.weight = as<float>(d_weight);
        s.vis = as<void>(d_raw);
        s.n_image = n_image;
        std::copy(planes, planes + n_image, s.store_plane);
        return s;
    }

    int find_extents()
    {
        std::fill(extent.begin(), extent.end(), msi_wproj_nothing());
        for (int64_t s = 0; s < store->n_segment; s = now.end) {
            MSI_TRY(ready_batch(s));
            if (!now.n_sample) continue;
            const double start = msi_wall_s();
            const msi_wproj_samples batch = samples();
            MSI_TRY(msi_wproj_extents(&plan->grid, plan->half, &batch, 0, extent.data()));
            times->sort_s += msi_wall_s() - start;
            MSI_TRY(msi_interrupt_check());
        }
        return MSI_OK;
    }

    /* One box that is large enough for each slice, and what works on it. */
    int fit_box()
    {
        int64_t nu = 0, nv = 0, capacity = 0;
        for (const msi_wproj_box_extent &e : extent) {
            if (e.n == 0) continue;
            nu = std::max(nu, whole_tiles((int64_t)e.u_high - e.u_low + 1));
            nv = std::max(nv, whole_tiles((int64_t)e.v_high - e.v_low + 1));
        }
        if (nu == 0) return MSI_OK;
        for (int64_t s = 0; s < store->n_segment;) {
            store_batch b = base::cut_batch(s);
            capacity = std::max(capacity, b.n_sample);
            s = b.end;
        }
        msi_wproj_sorter_spec wanted = sorter_spec(plan, n_image);
        wanted.capacity = capacity;
        wanted.nu = (int32_t)nu;
        wanted.nv = (int32_t)nv;
        msi_wproj_sorter *new_sorter;
        sorter.reset();
        MSI_TRY(msi_wproj_sorter_create(&new_sorter, &wanted));
        sorter.reset(new_sorter);
        MSI_TRY(d_box.fit(n_image * nu * nv * cell_bytes(plan), "the slice's cells"));
        if (tile && nu == box_nu && nv == box_nv) return MSI_OK;
        msi_wproj_tile_spec tiles = {};
        tiles.kernels = kernels;
        tiles.linear = plan->grid.linear;
        tiles.nu = (int32_t)nu;
        tiles.nv = (int32_t)nv;
        msi_wproj_tile *new_tile;
        tile.reset();
        MSI_TRY(msi_wproj_tile_create(&new_tile, &tiles));
        tile.reset(new_tile);
        box_nu = nu;
        box_nv = nv;
        return MSI_OK;
    }

    int grid_slice(int32_t slice)
    {
        const msi_wproj_box_extent &e = extent[(size_t)slice];
        MSI_CUDA(cudaMemset(as<void>(d_box), 0, (size_t)(n_image * box_nu * box_nv * cell_bytes(plan))));
        for (int64_t s = 0; s < store->n_segment; s = now.end) {
            MSI_TRY(ready_batch(s));
            if (!now.n_sample) continue;
            const double start = msi_wall_s();
            const msi_wproj_samples batch = samples();
            msi_wproj_sorted sorted;
            MSI_TRY(msi_wproj_locate(sorter.get(), &plan->grid, &batch, slice, e.u_low, e.v_low, 0));
            MSI_TRY(msi_wproj_sort_bins(sorter.get(), 0, &sorted));
            MSI_CUDA(cudaDeviceSynchronize());
            const double sorted_at = msi_wall_s();
            MSI_TRY(msi_wproj_tile_grid(tile.get(), &sorted, as<void>(d_box), 0));
            MSI_CUDA(cudaDeviceSynchronize());
            times->sort_s += sorted_at - start;
            times->grid_s += msi_wall_s() - sorted_at;
            MSI_TRY(msi_interrupt_check());
        }
        return MSI_OK;
    }

    screen_geometry screen(double w_lambda) const
    {
        const msi_image_geometry &i = plan->image;
        return {i.nx, i.ny, plan->grid.nu, plan->grid.nv, i.cell_x_rad, i.cell_y_rad, w_lambda, 0, 0, w_lambda != 0};
    }

    dim3 pixel_blocks() const
    {
        return dim3((unsigned)((plan->image.nx + 31) / 32), (unsigned)((plan->image.ny + 7) / 8));
    }

    int transform()
    {
        if constexpr (sizeof(T) == sizeof(float))
            MSI_CUFFT(cufftExecC2C(fft.plan, as<cufftComplex>(d_grid), as<cufftComplex>(d_grid), CUFFT_FORWARD));
        else
            MSI_CUFFT(
                cufftExecZ2Z(fft.plan, as<cufftDoubleComplex>(d_grid), as<cufftDoubleComplex>(d_grid), CUFFT_FORWARD));
        return MSI_OK;
    }

    /* The box to the image. Slices may be thousands, so that their sum is in double. */
    int add_slice(int32_t slice)
    {
        const double start = msi_wall_s();
        const msi_wproj_box_extent &e = extent[(size_t)slice];
        const screen_geometry how = screen(msi_wproj_slice_w(&plan->grid, slice));
        for (int i = 0; i < n_image; i++) {
            MSI_TRY(msi_wproj_tile_fold(tile.get(), as<cplx<T>>(d_box) + i * box_nu * box_nv, 1, e.u_low, e.v_low,
                                        as<void>(d_grid), plan->grid.nu, plan->grid.nv, 0));
            MSI_TRY(transform());
            k_screen<T><<<pixel_blocks(), dim3(32, 8)>>>(how, as<cplx<T>>(d_grid), 0, 1,
                                                         as<double>(d_sum) + i * msi_image_n_pixel(&plan->image));
            MSI_CUDA(cudaGetLastError());
        }
        MSI_CUDA(cudaDeviceSynchronize());
        times->transform_s += msi_wall_s() - start;
        return MSI_OK;
    }

    int upload_factors(int axis, double *to, int64_t n)
    {
        double *factor;
        MSI_TRY(msi_wproj_factors(plan, axis, &factor));
        cudaError_t e = cudaMemcpy(to, factor, (size_t)n * sizeof *factor, cudaMemcpyHostToDevice);
        msi_free(factor);
        MSI_CUDA(e);
        return MSI_OK;
    }

    int correct(msi_image *image)
    {
        const double start = msi_wall_s();
        const int64_t nx = plan->image.nx, ny = plan->image.ny, n_pixel = nx * ny;
        msi_taper taper = {};
        MSI_TRY(d_along.fit((nx + ny) * (int64_t)sizeof(double), "taper correction"));
        taper.along_x = as<double>(d_along);
        taper.along_y = taper.along_x + nx;
        MSI_TRY(upload_factors(0, taper.along_x, nx));
        MSI_TRY(upload_factors(1, taper.along_y, ny));
        for (int i = 0; i < n_image; i++) {
            const double sum = image->sum_weight[first_image + i];
            k_correct<<<pixel_blocks(), dim3(32, 8)>>>(screen(0), taper, sum > 0 ? 1 / sum : NAN,
                                                       as<double>(d_sum) + i * n_pixel, as<T>(d_grid));
            MSI_CUDA(cudaGetLastError());
            MSI_CUDA(cudaMemcpy((T *)image->pixel + (first_image + i) * n_pixel, as<T>(d_grid),
                                (size_t)n_pixel * sizeof(T), cudaMemcpyDeviceToHost));
        }
        times->correct_s += msi_wall_s() - start;
        return MSI_OK;
    }
};

} // namespace

int msi_wproj_cuda_check(const msi_wproj_plan *plan)
{
    const msi_wproj_geometry *g = &plan->grid;
    const int64_t longest = largest_box(plan, std::max(g->nu, g->nv));
    if (longest <= MSI_WPROJ_MAX_BOX && g->n_plane <= MSI_WPROJ_MAX_PLANE) return MSI_OK;
    return msi_error_set(MSI_ERANGE,
                         "w-projection on a GPU has room for %d cells along an axis and %d w-planes, not %lld and %d; "
                         "-backend cpu has",
                         MSI_WPROJ_MAX_BOX, MSI_WPROJ_MAX_PLANE, (long long)longest, g->n_plane);
}

int64_t msi_wproj_cuda_bytes(const msi_wproj_plan *plan, int64_t n_sample, int n_plane, int n_image)
{
    return fixed_bytes(plan) + n_image * image_bytes(plan) + n_sample * sample_bytes(plan, n_plane, n_image);
}

int msi_wproj_cuda_image(const msi_wproj_plan *plan, const msi_wkernel_set *kernels, const msi_vis_store *store,
                         const int *store_plane, int64_t batch_samples, msi_image *image, msi_stage_times *times)
{
    if (plan->precision == MSI_FP32)
        return imager<float>(plan, kernels, store, batch_samples, times).make(store_plane, image);
    return imager<double>(plan, kernels, store, batch_samples, times).make(store_plane, image);
}
