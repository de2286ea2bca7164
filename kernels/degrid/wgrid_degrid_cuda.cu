/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The default gridder's transpose on the GPU.
 *
 * One kernel puts the model, divided by the windows' transforms and turned by a plane's w, on a padded plane; cuFFT
 * makes cells of it. Samples come in batches of whole segments, are located and sorted as for gridding, and are cut
 * into items of one tile and first w-plane. A crowded item is degridded by a block from a copy of its tile in shared
 * memory, a sparse one by a warp from the planes in L2. The sums of several samples lie spread over a warp's lanes and
 * are added up together. Nothing is atomic: the result is the same every time.
 *
 * As many w-planes of all images as fit are held; where all do, they are made once for all fillings of the store, else
 * slab by slab for every batch.
 */
#include "core/log.h"
#include "kernels/degrid/wgrid_degrid_cuda_kernels.cuh"
#include "kernels/grid/wgrid_cuda.h"
#include "kernels/grid/wgrid_cuda_batch.cuh"

namespace {

template <typename T> class degridder : sample_batches<T> {
  public:
    degridder(const msi_wgrid_plan *plan_, int n_image_, int64_t n_resident_)
        : sample_batches<T>(plan_), n_image(n_image_), n_resident(n_resident_)
    {
    }
    ~degridder() override = default;

    int predict(msi_vis_store *store_, const msi_image *model, msi_stage_times *times_)
    {
        store = store_;
        times = times_;
        if (!is_ready) MSI_TRY(prepare(model));
        for (int64_t s = 0; s < store->n_segment; s = now.end) {
            now = base::cut_batch(s);
            if (!now.n_sample) continue;
            MSI_TRY(base::upload_batch(0));
            MSI_TRY(base::sort_batch(plane_map{0, 0, {0}}));
            MSI_TRY(d_value.fit(n_image * now.n_sample * (int64_t)sizeof(cplx<T>), "visibilities"));
            MSI_TRY(predict_batch());
            MSI_TRY(base::download_values(n_image));
            msi_progress("degridding", now.end, store->n_segment);
        }
        return MSI_OK;
    }

  private:
    using base = sample_batches<T>;
    using base::batch_samples;
    using base::d_freq;
    using base::d_records;
    using base::d_segments;
    using base::d_sorted;
    using base::d_taps;
    using base::d_uvw;
    using base::d_value;
    using base::g;
    using base::now;
    using base::plan;
    using base::store;
    using base::times;
    int n_image;
    int64_t n_resident;
    bool is_ready = false;
    int64_t made_low = -1; /* of the planes that are there; -1: none */
    msi_taper taper = {};
    buffer d_model, d_grid;
    fft_plan fft;

    int64_t sample_bytes() const
    {
        return n_image * (int64_t)sizeof(cplx<T>) + base::sorting_bytes();
    }

    int prepare(const msi_image *model)
    {
        int64_t n_pixel = msi_image_n_pixel(&plan->image), plane_bytes = g.nu * g.nv * (int64_t)sizeof(cplx<T>);
        MSI_TRY(base::upload_taps());
        MSI_TRY(base::upload_taper(&taper));
        MSI_TRY(d_model.fit(n_image * n_pixel * (int64_t)sizeof(T), "the model"));
        MSI_CUDA(cudaMemcpy(as<void>(d_model), model->pixel, sizeof(T) * (size_t)(n_image * n_pixel),
                            cudaMemcpyHostToDevice));
        MSI_TRY(d_grid.fit(n_image * n_resident * plane_bytes, "w-planes"));
        MSI_TRY(fft.make(g.nv, g.nu, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z));
        size_t free_bytes, total_bytes;
        MSI_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
        batch_samples = (int64_t)(0.9 * (double)free_bytes) / sample_bytes();
        if (batch_samples > INT32_MAX) batch_samples = INT32_MAX; /* what CUB counts in */
        if (batch_samples < 1) batch_samples = 1;
        is_ready = true;
        return MSI_OK;
    }

    int make_planes(int low, int high)
    {
        double start = msi_wall_s();
        int64_t n_pixel = msi_image_n_pixel(&plan->image), plane_cells = g.nu * g.nv;
        dim3 threads(32, 8), blocks((unsigned)((g.nu + 31) / 32), (unsigned)((g.nv + 7) / 8));
        for (int i = 0; i < n_image; i++)
            for (int p = low; p < high; p++) {
                cplx<T> *plane = as<cplx<T>>(d_grid) + (i * (int64_t)(high - low) + p - low) * plane_cells;
                k_spread_model<T><<<blocks, threads>>>(base::screen(), taper, as<T>(d_model) + i * n_pixel, p, plane);
                MSI_CUDA(cudaGetLastError());
                MSI_TRY(fft.run(plane, CUFFT_INVERSE));
            }
        MSI_CUDA(cudaDeviceSynchronize());
        times->transform_s += msi_wall_s() - start;
        made_low = low;
        return msi_interrupt_check();
    }

    /* A sample's planes may lie in several slabs: the first stores, the others add. */
    int predict_batch()
    {
        if (n_resident < g.n_w)
            MSI_CUDA(cudaMemset(as<void>(d_value), 0, sizeof(cplx<T>) * (size_t)(n_image * now.n_sample)));
        for (int low = 0; low < g.n_w; low += (int)n_resident) {
            int high = low + n_resident < g.n_w ? low + (int)n_resident : g.n_w;
            if (made_low != low) MSI_TRY(make_planes(low, high));
            double start = msi_wall_s();
            for (int i = 0; i < n_image; i++) MSI_TRY(degrid_image(i, low, high));
            MSI_CUDA(cudaDeviceSynchronize());
            times->grid_s += msi_wall_s() - start;
            MSI_TRY(msi_interrupt_check());
        }
        dim3 blocks((unsigned)(now.end - now.first), 8);
        k_finish<T><<<blocks, 256>>>(g, as<segment_view>(d_segments), as<double>(d_freq), as<double>(d_uvw),
                                     now.n_sample, n_image, as<cplx<T>>(d_value));
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }

    int degrid_image(int image, int low, int high)
    {
        degrid_job<T> job = {as<tap_table<T>>(d_taps),
                             d_sorted,
                             as<record<T>>(d_records),
                             as<cplx<T>>(d_grid) + image * (int64_t)(high - low) * g.nu * g.nv,
                             as<cplx<T>>(d_value) + image * now.n_sample,
                             n_resident < g.n_w};
        return degrid_items(g, job, whole_planes{low, high}, base::crowded(), base::sparse());
    }

    uint32_t least_crowded() const override
    {
        return least_copied<T>(g.width, base::shared_bytes());
    }
};

/* What is kept of a model. */
struct kept_model {
    virtual ~kept_model() = default;
};

template <typename T> struct kept_degridder : kept_model {
    kept_degridder(const msi_wgrid_plan *plan, int n_image, int64_t n_resident) : degrids(plan, n_image, n_resident) {}
    degridder<T> degrids;
};

template <typename T>
int predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident, void **kept,
            msi_stage_times *times)
{
    if (!kept) return degridder<T>(plan, model->n_plane, n_resident).predict(store, model, times);
    if (!*kept) {
        kept_model *made = new (std::nothrow) kept_degridder<T>(plan, model->n_plane, n_resident);
        if (!made) return msi_error_set(MSI_ENOMEM, "no memory for the GPU's plan");
        *kept = made;
    }
    return static_cast<kept_degridder<T> *>(static_cast<kept_model *>(*kept))->degrids.predict(store, model, times);
}

} // namespace

int msi_wgrid_cuda_predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident,
                           void **kept, msi_stage_times *times)
{
    return plan->precision == MSI_FP32 ? predict<float>(plan, store, model, n_resident, kept, times)
                                       : predict<double>(plan, store, model, n_resident, kept, times);
}

void msi_wgrid_cuda_forget(void *kept)
{
    delete static_cast<kept_model *>(kept);
}
