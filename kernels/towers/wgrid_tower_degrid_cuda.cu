/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The transpose of w-towers on the GPU, the steps of wgrid_tower_cuda.cu in reverse: (1) the model is put on a tower's
 * whole plane and transformed; (2) subgrids are cut out of it and transformed; (3) they are screened for the planes
 * that samples of the batch need, and transformed back; (4) samples are degridded. A sample belongs to one subgrid of
 * one tower, so each is written once and no addition is atomic: the result is the same every time.
 *
 * The whole planes of all towers and images are kept from batch to batch if they take at most a third of the device's
 * free memory; otherwise one is held, and made again for every batch.
 */
#include "kernels/towers/wgrid_tower_cuda.h"
#include "kernels/towers/wgrid_tower_cuda_stacks.cuh"
#include "kernels/wgrid/wgrid_predictor_cuda.cuh"

namespace {

template <typename T> class tower_degridder : public wgrid_predictor<T> {
    using base = wgrid_predictor<T>;

  public:
    tower_degridder(const msi_wgrid_plan *plan_, const msi_tower_plan *towers_, int n_image_, int64_t n_small_,
                    bool lasts)
        : base(n_image_, plan_, order_of_towers(*plan_, *towers_)), towers(*towers_), stacks(*this, towers_, n_small_),
          keeps(lasts)
    {
    }

  private:
    using base::g;
    using base::n_image;
    using base::on;
    using base::times;
    const msi_tower_plan &towers;
    tower_stacks<T> stacks;
    int64_t n_whole = 1;
    bool keeps;                  /* keep whole planes from batch to batch, if they fit */
    host_array<uint8_t> is_made; /* [n_tower][n_image], of kept planes */
    buffer d_whole;

    int make_order() override
    {
        MSI_TRY(msi_wgrid_tower_cuda_whole(base::plan, &towers, n_image, keeps, &n_whole));
        keeps &= n_whole == (int64_t)towers.n_tower * n_image;
        return order_for_rings<T>(&this->order, *base::plan, base::order);
    }

    int allocate_planes() override
    {
        MSI_TRY(is_made.make(n_whole, "w-towers"));
        MSI_TRY(d_whole.fit(n_whole * g.nu * g.nv * (int64_t)sizeof(cplx<T>), "w-planes"));
        return stacks.make_stacks();
    }

    /* Make the model's whole plane at a tower's w. */
    int ready_whole(int tower, int image, cplx<T> **whole)
    {
        int64_t at = keeps ? (int64_t)tower * n_image + image : 0;
        *whole = as<cplx<T>>(d_whole) + at * g.nu * g.nv;
        if (keeps && is_made.at[at]) return MSI_OK;
        const stage_timer stage("transform", &times->transform_s);
        MSI_TRY(stacks.make_whole(tower, base::taper, base::model_image(image), keeps, *whole));
        MSI_TRY(on.wait());
        is_made.at[at] = 1;
        return msi_interrupt_check();
    }

    int degrid_batch() override
    {
        for (int t = 0; t < towers.n_tower; t++) {
            if (t == 0 || t >= base::order.end_tower) {
                MSI_TRY(base::order_towers(t, towers.n_tower));
                stacks.reset_stacks();
            }
            MSI_TRY(stacks.find_stacks());
            for (int i = 0; i < n_image; i++) {
                const int64_t part = (int64_t)t * n_image + i;
                const msi_progress_share all = msi_progress_enter(part, part + 1, (int64_t)towers.n_tower * n_image);
                stack_batch b;
                cplx<T> *whole = nullptr;
                stacks.begin_tower(t);
                while (stacks.next_stacks(&b)) {
                    if (!whole) MSI_TRY(ready_whole(t, i, &whole));
                    MSI_TRY(predict_stacks(b, i, whole));
                }
                msi_progress_leave(all);
            }
        }
        return MSI_OK;
    }

    int predict_stacks(const stack_batch &b, int image, cplx<T> *whole)
    {
        MSI_TRY(stacks.cut_stacks(b, whole));
        const stage_timer stage("degrid", &times->grid_s);
        MSI_TRY(degrid_items(g, base::sums_of(image, stacks.small(), false), stacks.planes(b), b.crowded, b.sparse,
                             on.get()));
        MSI_TRY(on.wait());
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

int msi_wgrid_tower_cuda_degrid(const msi_wgrid_degrid_call *call, const void *planes)
{
    return degrid_call(*call, *static_cast<const small_planes *>(planes));
}

int msi_wgrid_tower_cuda_predict(const msi_wgrid_plan *plan, const msi_tower_plan *towers, msi_vis_store *store,
                                 const msi_image *model, int64_t n_small, void **kept, msi_stage_times *times)
{
    return plan->precision == MSI_FP32 ? predict<float>(plan, towers, store, model, n_small, kept, times)
                                       : predict<double>(plan, towers, store, model, n_small, kept, times);
}

void msi_wgrid_tower_cuda_free_model(void *kept)
{
    forget_kept(kept);
}
