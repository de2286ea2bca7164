/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the default gridder's transposes on the GPU, from whole planes and from w-towers, do alike. */
#ifndef MSI_KERNELS_WGRID_PREDICTOR_CUDA_CUH
#define MSI_KERNELS_WGRID_PREDICTOR_CUDA_CUH

#include <algorithm>

#include "kernels/store/store_predictor_cuda.cuh"
#include "kernels/wgrid/wgrid_degrid_cuda_kernels.cuh"
#include "kernels/wgrid/wgrid_cuda_batch.cuh"

namespace {

/* BATCHES: sample_batches<T>, or what adds planes to it. */
template <typename T, typename BATCHES> class wgrid_predictor : public store_predictor<T, BATCHES> {
    using base = store_predictor<T, BATCHES>;

  protected:
    using store_predictor<T, BATCHES>::store_predictor;
    using base::batch_samples;
    using base::d_raw;
    using base::g;
    using base::n_image;
    using base::now;
    fft_plan whole_fft; /* of a plane [nv][nu] */

    /* Memory for planes; batches get what is left. */
    virtual int make_room() = 0;
    /* The sorted batch's sums over planes, by degrid_items. */
    virtual int degrid_batch() = 0;

    /* Sums of an image's cells; see degrid_job. */
    degrid_job<T> sums_of(int image, const cplx<T> *cells, bool add) const
    {
        return {as<tap_table<T>>(base::d_taps),
                base::d_sorted,
                as<record<T>>(base::d_records),
                cells,
                as<cplx<T>>(d_raw) + image * now.n_sample,
                add};
    }

  private:
    int prepare(const msi_image *model) final
    {
        const int64_t each = n_image * (int64_t)sizeof(cplx<T>) + base::sorting_bytes();
        int64_t usable;
        MSI_TRY(base::upload_taps());
        MSI_TRY(base::upload_model(model));
        MSI_TRY(make_room());
        MSI_TRY(whole_fft.make(g.nv, g.nu, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z));
        MSI_TRY(usable_bytes(&usable));
        /* No more than CUB counts in. */
        batch_samples = std::clamp<int64_t>(usable / each, 1, INT32_MAX);
        return MSI_OK;
    }

    int predict_batch() final
    {
        MSI_TRY(base::sort_batch());
        MSI_TRY(degrid_batch());
        dim3 blocks((unsigned)(now.end - now.first), 8);
        k_finish<T><<<blocks, 256>>>(g, as<segment_view>(base::d_segments), as<double>(base::d_freq),
                                     as<double>(base::d_uvw), now.n_sample, n_image, as<cplx<T>>(d_raw));
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }

    uint32_t least_crowded() const final
    {
        return least_copied<T>(g.width, base::shared_bytes());
    }
};

} // namespace

#endif
