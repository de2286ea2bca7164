/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The loop over batches for both degridders of the default gridder on the GPU, whole planes and w-towers. */
#ifndef MSI_KERNELS_WGRID_PREDICTOR_CUDA_CUH
#define MSI_KERNELS_WGRID_PREDICTOR_CUDA_CUH

#include <algorithm>

#include "kernels/store/store_batches_cuda.cuh"
#include "kernels/wgrid/wgrid_batches_cuda.cuh"
#include "kernels/wgrid/wgrid_degrid_cuda.cuh"

namespace {

template <typename T> class wgrid_predictor : public store_predictor<T, placed_batches<T>> {
    using base = store_predictor<T, placed_batches<T>>;

  protected:
    using store_predictor<T, placed_batches<T>>::store_predictor;
    using base::batch_samples;
    using base::d_raw;
    using base::g;
    using base::n_image;
    using base::now;
    using base::on;

    /* make_order - set base::order, in which samples are degridded, before other memory is allocated. */
    virtual int make_order() = 0;
    /* allocate_planes - allocate planes and make transforms; batches use the remaining memory. */
    virtual int allocate_planes() = 0;
    /* degrid_batch - compute the sums of the sorted samples over planes, by degrid_items. */
    virtual int degrid_batch() = 0;

    /* Make a job of degrid_items: an image's visibilities from its cells. */
    degrid_job<T> sums_of(int image, const cplx<T> *cells, bool add) const
    {
        return {as<tap_table<T>>(base::d_taps),
                &this->taps,
                as<wanted<T>>(base::d_records),
                false,
                cells,
                as<cplx<T>>(d_raw) + image * now.n_sample,
                add};
    }

    /* order_towers - sort the batch's samples of the towers from `first` on, as many as can be sorted at once. */
    int order_towers(int first, int n_tower)
    {
        base::order.first_tower = first;
        base::order.end_tower = std::min(first + at_once, n_tower);
        return base::place_wanted();
    }

  private:
    int at_once = 1; /* towers that are sorted at once; whole planes are one */

    int prepare(const msi_image *model) final
    {
        int64_t usable;
        base::least_crowded = least_in_ring<T>(g.width);
        MSI_TRY(make_order());
        at_once = base::order.end_tower;
        MSI_TRY(base::upload_taps());
        MSI_TRY(base::upload_model(model));
        MSI_TRY(allocate_planes());
        MSI_TRY(usable_bytes(&usable));
        usable -= counter_bytes(base::order);
        batch_samples = std::clamp<int64_t>(usable / base::sample_bytes(n_image, parts::NONE), 1, MOST_IN_BATCH);
        return MSI_OK;
    }

    int predict_batch() final
    {
        const gpu_range range("degrid a batch");
        return degrid_batch();
    }
};

} // namespace

#endif
