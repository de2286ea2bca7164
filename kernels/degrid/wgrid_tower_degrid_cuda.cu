/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * w-towers' transpose on the GPU, the steps of wgrid_tower_cuda.cu backwards: the model on a tower's whole plane, its
 * transform, subgrids cut out of it and transformed, screened onto the planes that samples of the batch lie about,
 * transformed back, degridded. A sample belongs to one subgrid of one tower, so each is written once and nothing is
 * atomic: the result is the same every time.
 *
 * The whole planes of all towers and images are kept from filling to filling where they take no more than a third
 * of the device's free memory; else one is held, and made again for every batch.
 */
#include <new>

#include "core/log.h"
#include "kernels/degrid/wgrid_degrid_cuda_kernels.cuh"
#include "kernels/grid/wgrid_tower_cuda.h"
#include "kernels/grid/wgrid_tower_cuda_stacks.cuh"

namespace {

template <typename T> class tower_degridder : tower_stacks<T> {
  public:
    tower_degridder(const msi_wgrid_plan *plan_, const msi_tower_plan *towers_, int n_image_, int64_t n_small_,
                    bool lasts_)
        : tower_stacks<T>(plan_, towers_, n_small_), n_image(n_image_), keeps(lasts_)
    {
    }
    ~tower_degridder() override = default;

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
    using base = tower_stacks<T>;
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
    using base::plane_cells;
    using base::store;
    using base::times;
    using base::towers;
    int n_image;
    bool keeps, is_ready = false;
    host_array<uint8_t> is_made; /* [n_tower][n_image], of planes that are kept */
    msi_taper taper = {};
    buffer d_model, d_whole;
    fft_plan fft;

    int prepare(const msi_image *model)
    {
        int64_t n_pixel = msi_image_n_pixel(&plan->image), plane_bytes = g.nu * g.nv * (int64_t)sizeof(cplx<T>);
        int64_t n_whole = msi_wgrid_tower_cuda_whole(plan, &towers, n_image, keeps);
        keeps = keeps && n_whole == (int64_t)towers.n_tower * n_image;
        MSI_TRY(is_made.make(n_whole, "w-towers"));
        MSI_TRY(base::upload_taps());
        MSI_TRY(base::upload_taper(&taper));
        MSI_TRY(d_model.fit(n_image * n_pixel * (int64_t)sizeof(T), "the model"));
        MSI_CUDA(cudaMemcpy(as<void>(d_model), model->pixel, sizeof(T) * (size_t)(n_image * n_pixel),
                            cudaMemcpyHostToDevice));
        MSI_TRY(d_whole.fit(n_whole * plane_bytes, "w-planes"));
        MSI_TRY(base::make_stacks());
        MSI_TRY(fft.make(g.nv, g.nu, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z));
        size_t free_bytes, total_bytes;
        MSI_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
        batch_samples =
            (int64_t)(0.9 * (double)free_bytes) / (n_image * (int64_t)sizeof(cplx<T>) + base::sorting_bytes());
        if (batch_samples > INT32_MAX) batch_samples = INT32_MAX; /* what CUB counts in */
        if (batch_samples < 1) batch_samples = 1;
        is_ready = true;
        return MSI_OK;
    }

    /* The model's whole plane at a tower's w. */
    int ready_whole(int tower, int image, cplx<T> **whole)
    {
        int64_t at = keeps ? (int64_t)tower * n_image + image : 0;
        *whole = as<cplx<T>>(d_whole) + at * g.nu * g.nv;
        if (keeps && is_made.at[at]) return MSI_OK;
        double start = msi_wall_s();
        dim3 threads(32, 8), blocks((unsigned)((g.nu + 31) / 32), (unsigned)((g.nv + 7) / 8));
        const T *model = as<T>(d_model) + image * msi_image_n_pixel(&plan->image);
        k_spread_model<T><<<blocks, threads>>>(base::tower_screen(tower), taper, model, 0, *whole);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(fft.run(*whole, CUFFT_INVERSE));
        MSI_CUDA(cudaDeviceSynchronize());
        is_made.at[at] = 1;
        times->transform_s += msi_wall_s() - start;
        return msi_interrupt_check();
    }

    int predict_batch()
    {
        for (int t = 0; t < towers.n_tower; t++) {
            MSI_TRY(base::find_stacks(t));
            for (int i = 0; i < n_image; i++) {
                stack_batch b;
                cplx<T> *whole = nullptr;
                base::rewind();
                while (base::next_stacks(&b)) {
                    if (!whole) MSI_TRY(ready_whole(t, i, &whole));
                    MSI_TRY(predict_stacks(b, i, whole));
                }
            }
        }
        dim3 blocks((unsigned)(now.end - now.first), 8);
        k_finish<T><<<blocks, 256>>>(g, as<segment_view>(d_segments), as<double>(d_freq), as<double>(d_uvw),
                                     now.n_sample, n_image, as<cplx<T>>(d_value));
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }

    int predict_stacks(const stack_batch &b, int image, const cplx<T> *whole)
    {
        double start = msi_wall_s();
        stack_job<T> stacks = base::job(b);
        k_cut_subgrids<T><<<base::cell_blocks(b), 256>>>(g, stacks, whole);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(base::clear_rest(stacks.sum, b.n_stack));
        MSI_TRY(base::transform_small(stacks.sum, b.n_stack, CUFFT_FORWARD));
        k_spread_planes<T><<<base::quad_blocks(b), 256, base::list_bytes()>>>(stacks);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(base::clear_rest(stacks.small, b.n_slot));
        MSI_TRY(base::transform_small(stacks.small, b.n_slot, CUFFT_INVERSE));
        MSI_CUDA(cudaDeviceSynchronize());
        double transformed = msi_wall_s();
        times->transform_s += transformed - start;
        degrid_job<T> samples = {as<tap_table<T>>(d_taps),
                                 d_sorted,
                                 as<record<T>>(d_records),
                                 stacks.small,
                                 as<cplx<T>>(d_value) + image * now.n_sample,
                                 false};
        MSI_TRY(degrid_items(g, samples, stacks.planes, b.crowded, b.sparse));
        MSI_CUDA(cudaDeviceSynchronize());
        times->grid_s += msi_wall_s() - transformed;
        return msi_interrupt_check();
    }

    uint32_t least_crowded() const override
    {
        return least_copied<T>(g.width, base::shared_bytes());
    }
};

/* What is kept of a model. */
struct kept_towers {
    virtual ~kept_towers() = default;
};

template <typename T> struct kept_degridder : kept_towers {
    kept_degridder(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_image, int64_t n_small)
        : degrids(plan, towers, n_image, n_small, true)
    {
    }
    tower_degridder<T> degrids;
};

template <typename T>
int predict(const msi_wgrid_plan *plan, const msi_tower_plan *towers, msi_vis_store *store, const msi_image *model,
            int64_t n_small, void **kept, msi_stage_times *times)
{
    if (!kept) return tower_degridder<T>(plan, towers, model->n_plane, n_small, false).predict(store, model, times);
    if (!*kept) {
        kept_towers *made = new (std::nothrow) kept_degridder<T>(plan, towers, model->n_plane, n_small);
        if (!made) return msi_error_set(MSI_ENOMEM, "no memory for the GPU's plan");
        *kept = made;
    }
    return static_cast<kept_degridder<T> *>(static_cast<kept_towers *>(*kept))->degrids.predict(store, model, times);
}

} // namespace

int msi_wgrid_tower_cuda_predict(const msi_wgrid_plan *plan, const msi_tower_plan *towers, msi_vis_store *store,
                                 const msi_image *model, int64_t n_small, void **kept, msi_stage_times *times)
{
    return plan->precision == MSI_FP32 ? predict<float>(plan, towers, store, model, n_small, kept, times)
                                       : predict<double>(plan, towers, store, model, n_small, kept, times);
}

void msi_wgrid_tower_cuda_forget(void *kept)
{
    delete static_cast<kept_towers *>(kept);
}
