/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Imaging by w-projection on the GPU, slice by slice of w. For each slice:
 *   1. The strategy adds the slice's samples to a box of cells that contains just their footprints, tile by tile or by
 *      a moving window. Memory is needed only for this trimmed grid (SDP memo "Vertical prototyping of the gridding
 *      algorithm", section 11).
 *   2. The box is folded onto the padded grid and transformed.
 *   3. The result is multiplied by the slice's screen and added to the image.
 * A store that fits on the device is uploaded once. A larger one is uploaded in batches, once for each slice.
 */
#include "kernels/wproj/wproj_cuda.h"

#include <cmath>
#include <memory>
#include <new>

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/wproj/wproj_slices_cuda.cuh"
#include "kernels/wproj/window/wproj_window_gridder_cuda.h"

/* Rates of an H200, rounded. Only their ratios matter for the choice of a strategy. */
extern const msi_wproj_cost msi_wproj_cuda_tile_cost = {
    {4e12, 1e-11, 2e-10, 1.5e-12, MSI_WPROJ_TILE}, 6e-12, 1e-12, 2e-4};
extern const msi_wproj_cost msi_wproj_cuda_window_cost = {{4e12, 1e-11, 5e-10, 2e-12, 8}, 2e-12, 1e-12, 2e-4};

namespace {

typedef std::unique_ptr<msi_wproj_sorter, void (*)(msi_wproj_sorter *)> sorter_owner;
typedef std::unique_ptr<msi_wproj_tile, void (*)(msi_wproj_tile *)> tile_owner;
typedef std::unique_ptr<msi_window_gridder, void (*)(msi_window_gridder *)> window_owner;

/* Return whether sub-offsets are kept in full: for interpolation, or because they do not fit in a head. */
int are_sub_offsets_whole(const msi_wproj_geometry *g)
{
    return g->linear || g->oversample > MSI_WPROJ_MAX_OVERSAMPLE;
}

msi_wproj_sorter_spec sorter_spec(const msi_wproj_plan *plan, int n_image)
{
    msi_wproj_sorter_spec s = {};
    s.half = plan->half;
    s.n_plane = plan->grid.n_plane;
    s.oversample = plan->grid.oversample;
    s.n_image = n_image;
    s.precision = plan->precision;
    s.linear = are_sub_offsets_whole(&plan->grid);
    return s;
}

/* Return the bytes of a sample while it is processed. For tiles this includes some memory of CUB. */
int64_t working_bytes(const msi_wproj_plan *plan, msi_wproj_cuda_form form, int n_image)
{
    if (form == MSI_WPROJ_CUDA_WINDOW)
        return msi_window_order_bytes(1001, plan->precision, n_image) -
               msi_window_order_bytes(1000, plan->precision, n_image);
    msi_wproj_sorter_spec none = sorter_spec(plan, n_image), many = none;
    none.nu = none.nv = many.nu = many.nv = MSI_WPROJ_TILE;
    many.capacity = 1000;
    int64_t sorting = (msi_wproj_sorter_bytes(&many) - msi_wproj_sorter_bytes(&none)) / many.capacity;
    return sorting + sorting / 20;
}

int64_t sample_bytes(const msi_wproj_plan *plan, msi_wproj_cuda_form form, int n_plane, int n_image)
{
    return stored_bytes(plan, n_plane, 1) + working_bytes(plan, form, n_image);
}

int64_t image_bytes(const msi_wproj_plan *plan)
{
    return box_bytes(plan) + msi_image_n_pixel(&plan->image) * (int64_t)sizeof(double);
}

/* Return the bytes that do not depend on the number of images. For tiles, kernels are stored in two layouts. */
int64_t fixed_bytes(const msi_wproj_plan *plan, msi_wproj_cuda_form form)
{
    return grid_bytes(plan) + plan->table_bytes * (form == MSI_WPROJ_CUDA_TILE ? 2 : 1);
}

/* A strategy, which grids the samples of one slice at a time. */
struct slice_form {
    virtual ~slice_form() = default;
    /* Allocate memory for batches of up to `capacity` samples, `most` of them in one slice. */
    virtual int fit(int64_t capacity, int64_t most, int n_image, int64_t nu, int64_t nv) = 0;
    /* Add the batch's samples of a slice, of all images, to the box. */
    virtual int add(const msi_wproj_samples &batch, const msi_window_block &block, int32_t slice,
                    const msi_wproj_box_extent &e, void *box, msi_stage_times *times) = 0;
    /* Fold an image's part of the box onto the padded grid. */
    virtual int fold(const void *box, int image, const msi_wproj_box_extent &e, void *grid) = 0;
};

struct tile_form : slice_form {
    const msi_wproj_plan *plan;
    const msi_wkernel_set *kernels;
    msi_gpu_stream gpu;
    int64_t box_nu = 0, box_nv = 0;
    sorter_owner sorter{nullptr, msi_wproj_sorter_free};
    tile_owner tile{nullptr, msi_wproj_tile_free};

    tile_form(const msi_wproj_cuda_work &work, const msi_gpu_stream &gpu_)
        : plan(work.plan), kernels(work.kernels), gpu(gpu_)
    {
    }

    int fit(int64_t capacity, int64_t, int n_image, int64_t nu, int64_t nv) override
    {
        msi_wproj_sorter_spec wanted = sorter_spec(plan, n_image);
        wanted.capacity = capacity;
        wanted.nu = (int32_t)nu;
        wanted.nv = (int32_t)nv;
        msi_wproj_sorter *new_sorter;
        sorter.reset();
        MSI_TRY(msi_wproj_sorter_create(&new_sorter, &gpu, &wanted));
        sorter.reset(new_sorter);
        if (tile && nu == box_nu && nv == box_nv) return MSI_OK;
        msi_wproj_tile_spec tiles = {};
        tiles.kernels = kernels;
        tiles.linear = are_sub_offsets_whole(&plan->grid);
        tiles.nu = (int32_t)nu;
        tiles.nv = (int32_t)nv;
        msi_wproj_tile *new_tile;
        tile.reset();
        MSI_TRY(msi_wproj_tile_create(&new_tile, &gpu, &tiles));
        tile.reset(new_tile);
        box_nu = nu;
        box_nv = nv;
        return MSI_OK;
    }

    int add(const msi_wproj_samples &batch, const msi_window_block &, int32_t slice, const msi_wproj_box_extent &e,
            void *box, msi_stage_times *times) override
    {
        const double start = msi_wall_s();
        msi_wproj_sorted sorted;
        MSI_TRY(msi_wproj_locate(sorter.get(), &plan->grid, &batch, slice, e.u_low, e.v_low));
        MSI_TRY(msi_wproj_sort_bins(sorter.get(), &sorted));
        MSI_TRY(msi_gpu_stream_wait(&gpu));
        const double sorted_at = msi_wall_s();
        MSI_TRY(msi_wproj_tile_grid(tile.get(), &sorted, box));
        MSI_TRY(msi_gpu_stream_wait(&gpu));
        times->sort_s += sorted_at - start;
        times->grid_s += msi_wall_s() - sorted_at;
        return MSI_OK;
    }

    int fold(const void *box, int image, const msi_wproj_box_extent &e, void *grid) override
    {
        const char *from = static_cast<const char *>(box) + image * box_nu * box_nv * cell_bytes(plan);
        const msi_wproj_grid to = {plan->grid.nu, plan->grid.nv, grid};
        return msi_wproj_tile_fold(tile.get(), from, 1, e.u_low, e.v_low, &to);
    }
};

template <typename T> struct window_form : slice_form {
    const msi_wproj_plan *plan;
    const msi_wkernel_set *kernels;
    msi_gpu_stream gpu;
    int n_image = 0;
    int64_t n_expected, box_nu = 0, box_nv = 0;
    window_owner window{nullptr, msi_window_gridder_free};

    window_form(const msi_wproj_cuda_work &work, const msi_gpu_stream &gpu_, int64_t n_expected_)
        : plan(work.plan), kernels(work.kernels), gpu(gpu_), n_expected(n_expected_)
    {
    }

    int fit(int64_t, int64_t most, int n_image_, int64_t nu, int64_t nv) override
    {
        msi_window_gridder *made;
        n_image = n_image_;
        box_nu = nu;
        box_nv = nv;
        window.reset();
        const msi_window_gridder_spec spec = {&plan->grid, kernels, n_image, most, n_expected, plan->texture};
        MSI_TRY(msi_window_gridder_create(&made, &gpu, &spec));
        window.reset(made);
        return MSI_OK;
    }

    int add(const msi_wproj_samples &batch, const msi_window_block &block, int32_t slice, const msi_wproj_box_extent &,
            void *box, msi_stage_times *times) override
    {
        const double start = msi_wall_s();
        const msi_wproj_grid grid = {box_nu, box_nv, box};
        MSI_TRY(msi_window_gridder_add(window.get(), &block, batch.store_plane, slice, &grid));
        MSI_TRY(msi_gpu_stream_wait(&gpu));
        times->grid_s += msi_wall_s() - start;
        return MSI_OK;
    }

    int fold(const void *box, int image, const msi_wproj_box_extent &e, void *grid) override
    {
        const msi_wproj_geometry *g = &plan->grid;
        const dim3 blocks((unsigned)((g->nu + 255) / 256), (unsigned)g->nv);
        k_fold_box<<<blocks, 256, 0, (cudaStream_t)gpu.stream>>>(
            box_at(box_nu, box_nv, n_image, e.u_low, e.v_low, g->nu, g->nv), static_cast<const cplx<T> *>(box), image,
            static_cast<cplx<T> *>(grid));
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
};

template <typename T> class imager : slices<T> {
  public:
    imager(const msi_wproj_cuda_work &work_, msi_wproj_cuda_form form_, const msi_vis_store *store_,
           msi_stage_times *times_)
        : slices<T>(work_.plan, work_.device), work(work_), form(form_)
    {
        store = store_;
        times = times_;
        batch_samples = work.batch_samples;
    }

    int make(const int *store_plane, msi_image *image)
    {
        const gpu_range range("image by w-projection");
        MSI_TRY(base::enter());
        if (form == MSI_WPROJ_CUDA_WINDOW)
            strategy.reset(new (std::nothrow) window_form<T>(work, gpu, store->n_sample));
        else
            strategy.reset(new (std::nothrow) tile_form(work, gpu));
        if (!strategy) return msi_error_set(MSI_ENOMEM, "no memory for the GPU's plan");
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
    using base = slices<T>;
    using base::batch_samples;
    using base::box_nu;
    using base::box_nv;
    using base::d_box;
    using base::d_grid;
    using base::extent;
    using base::fft;
    using base::gpu;
    using base::now;
    using base::plan;
    using base::store;
    using base::times;
    const msi_wproj_cuda_work work;
    msi_wproj_cuda_form form;
    std::unique_ptr<slice_form> strategy;
    int images_at_once = 1, n_image = 0, first_image = 0;
    const int *planes = nullptr;
    buffer d_sum;
    int64_t loaded = -1; /* first segment of the batch on the device */

    /* Choose the number of images of a pass: as many as fit together with a small batch of samples. Batches get the
     * rest of the memory. */
    int prepare(int n_wanted)
    {
        int64_t usable;
        MSI_TRY(usable_bytes(&usable));
        const int64_t per_image = image_bytes(plan);
        usable -= fixed_bytes(plan, form);
        images_at_once = std::min<int>(n_wanted, MSI_WPROJ_MAX_IMAGE);
        while (images_at_once > 1 && images_at_once * per_image + LEAST_BATCH_BYTES > usable) images_at_once--;
        base::limit_batches(usable - images_at_once * per_image,
                            sample_bytes(plan, form, store->n_plane, images_at_once));
        MSI_TRY(d_sum.fit(images_at_once * msi_image_n_pixel(&plan->image) * (int64_t)sizeof(double), "images"));
        return base::make_grid();
    }

    int make_images(msi_image *image)
    {
        const int32_t n_slice = plan->grid.n_slice;
        const size_t sum_bytes = (size_t)(n_image * msi_image_n_pixel(&plan->image)) * sizeof(double);
        MSI_CUDA(cudaMemsetAsync(as<void>(d_sum), 0, sum_bytes, base::stream()));
        MSI_TRY(find_extents());
        MSI_TRY(fit_box());
        for (int32_t slice = 0; slice < n_slice; slice++) {
            if (extent[(size_t)slice].n == 0) continue;
            MSI_TRY(grid_slice(slice));
            MSI_TRY(add_slice(slice));
            MSI_TRY(msi_interrupt_check());
            msi_progress_at((int64_t)first_image * n_slice + (slice + 1) * (int64_t)n_image,
                            (int64_t)image->n_plane * n_slice);
        }
        return correct(image);
    }

    /* Upload the batch that begins at a segment, unless it is on the device already. */
    int ready_batch(int64_t first)
    {
        if (loaded == first) return MSI_OK;
        now = base::cut_batch(first);
        loaded = first;
        return now.n_sample ? base::upload_batch(store->n_plane) : MSI_OK;
    }

    int find_extents()
    {
        base::forget_extents();
        for (int64_t s = 0; s < store->n_segment; s = now.end) {
            MSI_TRY(ready_batch(s));
            if (now.n_sample) MSI_TRY(base::add_extents(base::samples(n_image, planes)));
        }
        return MSI_OK;
    }

    /* Allocate a box that is large enough for every slice, and the strategy's memory. */
    int fit_box()
    {
        int64_t capacity = 0, most;
        base::lay_box(&most);
        if (box_nu == 0) return MSI_OK;
        for (int64_t s = 0; s < store->n_segment;) {
            store_batch b = base::cut_batch(s);
            capacity = std::max(capacity, b.n_sample);
            s = b.end;
        }
        MSI_TRY(strategy->fit(capacity, std::min(most, capacity), n_image, box_nu, box_nv));
        return d_box.fit(n_image * box_nu * box_nv * cell_bytes(plan), "the slice's cells");
    }

    int grid_slice(int32_t slice)
    {
        const msi_wproj_box_extent &e = extent[(size_t)slice];
        MSI_CUDA(cudaMemsetAsync(as<void>(d_box), 0, (size_t)(n_image * box_nu * box_nv * cell_bytes(plan)),
                                 base::stream()));
        for (int64_t s = 0; s < store->n_segment; s = now.end) {
            MSI_TRY(ready_batch(s));
            if (!now.n_sample) continue;
            MSI_TRY(strategy->add(base::samples(n_image, planes), base::block(1), slice, e, as<void>(d_box), times));
            MSI_TRY(msi_interrupt_check());
        }
        return MSI_OK;
    }

    dim3 pixel_blocks() const
    {
        return dim3((unsigned)((plan->image.nx + 31) / 32), (unsigned)((plan->image.ny + 7) / 8));
    }

    /* Add the transform of the box to the images. There may be thousands of slices, so the sum is in double. */
    int add_slice(int32_t slice)
    {
        const gpu_range range("transform slice");
        const double start = msi_wall_s();
        const screen_geometry screen = base::screen(msi_wproj_slice_w(&plan->grid, slice));
        for (int i = 0; i < n_image; i++) {
            MSI_TRY(strategy->fold(as<void>(d_box), i, extent[(size_t)slice], as<void>(d_grid)));
            MSI_TRY(fft.run(as<void>(d_grid), CUFFT_FORWARD));
            k_screen<T><<<pixel_blocks(), dim3(32, 8), 0, base::stream()>>>(
                screen, as<cplx<T>>(d_grid), 0, 1, as<double>(d_sum) + i * msi_image_n_pixel(&plan->image));
            MSI_CUDA(cudaGetLastError());
        }
        MSI_TRY(msi_gpu_stream_wait(&gpu));
        times->transform_s += msi_wall_s() - start;
        return MSI_OK;
    }

    int correct(msi_image *image)
    {
        const gpu_range range("correct image");
        const double start = msi_wall_s();
        const int64_t n_pixel = plan->image.nx * plan->image.ny;
        msi_taper taper;
        MSI_TRY(base::upload_taper(&taper));
        for (int i = 0; i < n_image; i++) {
            const double sum = image->sum_weight[first_image + i];
            k_correct<<<pixel_blocks(), dim3(32, 8), 0, base::stream()>>>(
                base::screen(0), taper, sum > 0 ? 1 / sum : NAN, as<double>(d_sum) + i * n_pixel, as<T>(d_grid));
            MSI_CUDA(cudaGetLastError());
            MSI_CUDA(cudaMemcpyAsync((T *)image->pixel + (first_image + i) * n_pixel, as<T>(d_grid),
                                     (size_t)n_pixel * sizeof(T), cudaMemcpyDeviceToHost, base::stream()));
            MSI_TRY(msi_gpu_stream_wait(&gpu));
        }
        times->correct_s += msi_wall_s() - start;
        return MSI_OK;
    }
};

} // namespace

/* Kernels may take an eighth of the device's memory, and as many elements as the tile code can index. */
int msi_wproj_cuda_table_bytes(int device, int64_t *bytes)
{
    const int64_t most = (int64_t)8 << 30;
    size_t free_bytes, total_bytes;
    MSI_TRY(msi_gpu_memory(device, &free_bytes, &total_bytes));
    *bytes = std::min(most, (int64_t)total_bytes / 8);
    return MSI_OK;
}

int msi_wproj_cuda_check(const msi_wproj_plan *plan)
{
    const msi_wproj_geometry *g = &plan->grid;
    const int64_t longest = largest_box(plan, std::max(g->nu, g->nv));
    if (longest <= MSI_WPROJ_MAX_BOX && g->n_plane <= MSI_WPROJ_MAX_PLANE) return MSI_OK;
    return msi_error_about(
        msi_error_set(MSI_ERANGE,
                      "w-projection on a GPU supports %d cells along an axis and %d w-planes, not %lld and %d",
                      MSI_WPROJ_MAX_BOX, MSI_WPROJ_MAX_PLANE, (long long)longest, g->n_plane),
        "backend");
}

int64_t msi_wproj_cuda_bytes(const msi_wproj_plan *plan, msi_wproj_cuda_form form, int64_t n_sample, int n_plane,
                             int n_image)
{
    return fixed_bytes(plan, form) + n_image * image_bytes(plan) +
           n_sample * sample_bytes(plan, form, n_plane, n_image);
}

int msi_wproj_cuda_image(const msi_wproj_cuda_work *work, msi_wproj_cuda_form form, const msi_vis_store *store,
                         const int *store_plane, msi_image *image, msi_stage_times *times)
{
    if (work->plan->precision == MSI_FP32) return imager<float>(*work, form, store, times).make(store_plane, image);
    return imager<double>(*work, form, store, times).make(store_plane, image);
}
