/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The default gridder's transpose on the GPU.
 *
 * (1) A kernel copies the model to a padded plane, divided by the windows' transforms and multiplied by the plane's
 * screen. (2) cuFFT transforms the plane. (3) Samples are uploaded in batches of whole segments and sorted as for
 * gridding, with the indices of their visibilities. (4) A warp degrids a sparse item, which has few samples, from the
 * planes in L2. A block degrids crowded items: it holds a tile's cells of W w-planes in registers, loads the next plane
 * when the items' first plane increases, and computes sums over cells as matrix products (wgrid_degrid_cuda.cuh). A
 * sample's sum depends only on the planes, and no addition is atomic, so the result is always the same.
 *
 * As many w-planes of all images as fit are in memory. If all fit, they are made once for all batches of the store;
 * otherwise they are made slab by slab for each batch.
 */
#include "kernels/wgrid/wgrid_predictor_cuda.cuh"
#include "kernels/wgrid/wgrid_cuda.h"

namespace {

template <typename T> class degridder : public wgrid_predictor<T> {
    using base = wgrid_predictor<T>;

  public:
    degridder(const msi_wgrid_plan *plan_, int n_image_, int64_t n_resident_)
        : base(n_image_, plan_), n_resident(n_resident_)
    {
    }

  private:
    using base::g;
    using base::n_image;
    using base::now;
    using base::on;
    using base::times;
    int64_t n_resident;
    int made_low = -1; /* first plane of the slab in memory; -1: none */
    buffer d_grid;
    fft_plan fft; /* transform of a plane [nv][nu] */

    int make_order() override
    {
        return order_for_rings<T>(&this->order, *base::plan);
    }

    int allocate_planes() override
    {
        MSI_TRY(d_grid.fit(n_image * n_resident * g.nu * g.nv * (int64_t)sizeof(cplx<T>), "w-planes"));
        return fft.make(g.nv, g.nu, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z, on.get());
    }

    cplx<T> *planes_of(int image, int low, int high) const
    {
        return as<cplx<T>>(d_grid) + image * (int64_t)(high - low) * g.nu * g.nv;
    }

    int make_planes(int low, int high)
    {
        const stage_timer stage("transform", &times->transform_s);
        for (int i = 0; i < n_image; i++)
            for (int p = low; p < high; p++) {
                cplx<T> *plane = planes_of(i, low, high) + (p - low) * g.nu * g.nv;
                MSI_TRY(base::transform_model(i, base::screen(), p, fft, plane));
            }
        MSI_TRY(on.wait());
        made_low = low;
        return msi_interrupt_check();
    }

    /* A sample's planes may be in several slabs, so each slab adds to values that are zero at first. */
    int degrid_batch() override
    {
        const bool add = n_resident < g.n_w;
        MSI_TRY(base::order_towers(0, 1));
        if (add) MSI_TRY(on.clear(as<cplx<T>>(base::d_raw), n_image * now.n_sample));
        for (int low = 0; low < g.n_w; low += (int)n_resident) {
            int high = low + n_resident < g.n_w ? low + (int)n_resident : g.n_w;
            if (made_low != low) MSI_TRY(make_planes(low, high));
            const stage_timer stage("degrid", &times->grid_s);
            for (int i = 0; i < n_image; i++)
                MSI_TRY(degrid_items(g, base::sums_of(i, planes_of(i, low, high), add), whole_planes{low, high},
                                     base::crowded(), base::sparse(), on.get()));
            MSI_TRY(on.wait());
            msi_progress_at(high, g.n_w);
            MSI_TRY(msi_interrupt_check());
        }
        return MSI_OK;
    }
};

template <typename T>
int predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident, void **kept,
            msi_stage_times *times)
{
    auto make = [=] { return new degridder<T>(plan, model->n_plane, n_resident); };
    return predict_kept(kept, make, store, model, times);
}

} // namespace

int msi_wgrid_degrid_whole(const msi_wgrid_degrid_call *call, int low, int high)
{
    return degrid_call(*call, whole_planes{low, high});
}

int msi_wgrid_cuda_predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident,
                           void **kept, msi_stage_times *times)
{
    return plan->precision == MSI_FP32 ? predict<float>(plan, store, model, n_resident, kept, times)
                                       : predict<double>(plan, store, model, n_resident, kept, times);
}

void msi_wgrid_cuda_free_model(void *kept)
{
    forget_kept(kept);
}
