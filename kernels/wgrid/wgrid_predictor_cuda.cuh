/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder's transposes on the GPU, from whole planes and from w-towers, share this walk through a batch. */
#ifndef MSI_KERNELS_WGRID_PREDICTOR_CUDA_CUH
#define MSI_KERNELS_WGRID_PREDICTOR_CUDA_CUH

#include <algorithm>

#include "kernels/store/store_predictor_cuda.cuh"
#include "kernels/wgrid/wgrid_degrid_cuda_kernels.cuh"
#include "kernels/wgrid/wgrid_cuda_sort_batch.cuh"

namespace {

template <typename T> class wgrid_predictor : public store_predictor<T, sorted_batches<T>> {
    using base = store_predictor<T, sorted_batches<T>>;

  protected:
    using store_predictor<T, sorted_batches<T>>::store_predictor;
    using base::batch_samples;
    using base::d_raw;
    using base::g;
    using base::n_image;
    using base::now;
    using base::on;
    fft_plan whole_fft; /* of a plane [nv][nu] */

    /* make_room - memory for planes; batches get what is left. */
    virtual int make_room() = 0;
    /* degrid_batch - the sorted batch's sums over planes, by degrid_items. */
    virtual int degrid_batch() = 0;

    /* A job for degrid_items: sums of an image's cells. */
    degrid_job<T> sums_of(int image, const cplx<T> *cells, bool add) const
    {
        return {as<tap_table<T>>(base::d_taps),
                base::d_sorted,
                base::d_records.get(),
                (int64_t)sizeof(record<T>),
                cells,
                as<cplx<T>>(d_raw) + image * now.n_sample,
                add};
    }

  private:
    int prepare(const msi_image *model) final
    {
        const int64_t each = n_image * (int64_t)sizeof(cplx<T>) + base::sorting_bytes();
        int64_t usable;
        base::least_crowded = least_copied<T>(g.width, shared_bytes());
        MSI_TRY(base::upload_taps());
        MSI_TRY(base::upload_model(model));
        MSI_TRY(make_room());
        MSI_TRY(whole_fft.make(g.nv, g.nu, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z, on.get()));
        MSI_TRY(usable_bytes(&usable));
        batch_samples = std::clamp<int64_t>(usable / each, 1, MOST_IN_BATCH);
        return MSI_OK;
    }

    int predict_batch() final
    {
        const gpu_range range("degrid a batch");
        MSI_TRY(base::sort_batch());
        MSI_TRY(degrid_batch());
        k_finish<T><<<base::segment_blocks(), 256, 0, on.get()>>>(g, as<segment_view>(base::d_segments),
                                                                  as<double>(base::d_freq), as<double>(base::d_uvw),
                                                                  now.n_sample, n_image, as<cplx<T>>(d_raw));
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
};

} // namespace

#endif
