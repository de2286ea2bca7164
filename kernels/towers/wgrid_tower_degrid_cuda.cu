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
#include "kernels/wgrid/wgrid_predictor_cuda.cuh"
#include "kernels/towers/wgrid_tower_cuda.h"
#include "kernels/towers/wgrid_tower_cuda_stacks.cuh"

namespace {

template <typename T> class tower_degridder : public wgrid_predictor<T, tower_stacks<T>> {
    using base = wgrid_predictor<T, tower_stacks<T>>;

  public:
    tower_degridder(const msi_wgrid_plan *plan_, const msi_tower_plan *towers_, int n_image_, int64_t n_small_,
                    bool lasts)
        : base(n_image_, plan_, towers_, n_small_),
          n_whole(msi_wgrid_tower_cuda_whole(plan_, towers_, n_image_, lasts)),
          keeps(lasts && n_whole == (int64_t)towers_->n_tower * n_image_)
    {
    }

  private:
    using base::g;
    using base::n_image;
    using base::times;
    using base::towers;
    int64_t n_whole;
    bool keeps;                  /* whole planes from filling to filling */
    host_array<uint8_t> is_made; /* [n_tower][n_image], of planes that are kept */
    buffer d_whole;

    int make_room() override
    {
        MSI_TRY(is_made.make(n_whole, "w-towers"));
        MSI_TRY(d_whole.fit(n_whole * g.nu * g.nv * (int64_t)sizeof(cplx<T>), "w-planes"));
        return base::make_stacks();
    }

    /* The model's whole plane at a tower's w. */
    int ready_whole(int tower, int image, cplx<T> **whole)
    {
        int64_t at = keeps ? (int64_t)tower * n_image + image : 0;
        *whole = as<cplx<T>>(d_whole) + at * g.nu * g.nv;
        if (keeps && is_made.at[at]) return MSI_OK;
        double start = msi_wall_s();
        MSI_TRY(base::transform_model(image, base::tower_screen(tower), 0, base::whole_fft, *whole));
        MSI_CUDA(cudaDeviceSynchronize());
        is_made.at[at] = 1;
        times->transform_s += msi_wall_s() - start;
        return msi_interrupt_check();
    }

    int degrid_batch() override
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
        degrid_job<T> sums = base::sums_of(image, stacks.small, false);
        MSI_TRY(degrid_items(g, sums, stacks.planes, b.crowded, b.sparse));
        MSI_CUDA(cudaDeviceSynchronize());
        times->grid_s += msi_wall_s() - transformed;
        return msi_interrupt_check();
    }
};

template <typename T>
int predict(const msi_wgrid_plan *plan, const msi_tower_plan *towers, msi_vis_store *store, const msi_image *model,
            int64_t n_small, void **kept, msi_stage_times *times)
{
    auto make = [=] { return new tower_degridder<T>(plan, towers, model->n_plane, n_small, kept != nullptr); };
    return predict_kept(kept, make, store, model, times);
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
    forget_kept(kept);
}
