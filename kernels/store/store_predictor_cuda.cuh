/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Predictions by every method on a GPU go this way: a model goes to the device, and a store's batches of coordinates
 * become its visibilities. What was made of the model may be kept from filling to filling of the store. */
#ifndef MSI_KERNELS_STORE_PREDICTOR_CUDA_CUH
#define MSI_KERNELS_STORE_PREDICTOR_CUDA_CUH

#include <memory>
#include <new>

#include "core/progress.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/store/store_batches_cuda.cuh"
#include "kernels/transform/fft_plan_cuda.cuh"
#include "kernels/transform/screen_cuda.cuh"

namespace {

/* A predictor of either precision, which may be kept between calls. */
struct kept_predictor {
    virtual ~kept_predictor() = default;
    /* predict - the visibilities of a store, which may be another each time, from a model, which stays the same. */
    virtual int predict(msi_vis_store *store, const msi_image *model, msi_stage_times *times) = 0;
};

/*
 * predict_kept - predict by what is kept, or by what serves this call alone.
 *
 * Given:              make  a function without arguments that returns a new kept_predictor
 * Given and returned: kept  NULL in *kept at first, then what make() returned, freed by forget_kept; kept NULL: nothing
 * Returns: 0, MSI_ENOMEM, what predict returns
 */
template <typename MAKE>
int predict_kept(void **kept, MAKE make, msi_vis_store *store, const msi_image *model, msi_stage_times *times)
{
    std::unique_ptr<kept_predictor> once;
    kept_predictor *p = kept ? static_cast<kept_predictor *>(*kept) : nullptr;
    try {
        if (!p) p = make();
    } catch (const std::bad_alloc &) {
        return msi_error_set(MSI_ENOMEM, "no memory for the GPU's plan");
    }
    if (kept)
        *kept = p;
    else
        once.reset(p);
    return p->predict(store, model, times);
}

inline void forget_kept(void *kept)
{
    delete static_cast<kept_predictor *>(kept);
}

/* The walk through a store's batches. BATCHES adds to store_batches<T> a plan, for its images' geometry, and
 * upload_taper. */
template <typename T, typename BATCHES> class store_predictor : public kept_predictor, protected BATCHES {
  public:
    ~store_predictor() override
    {
        BATCHES::on.leave();
    }

    int predict(msi_vis_store *store_, const msi_image *model, msi_stage_times *times_) final
    {
        store = store_;
        times = times_;
        MSI_TRY(BATCHES::enter());
        if (!is_ready) MSI_TRY(prepare(model));
        is_ready = true;
        for (int64_t s = 0; s < store->n_segment; s = now.end) {
            now = BATCHES::cut_batch(s);
            if (!now.n_sample) continue;
            const msi_progress_share all = msi_progress_enter(s, now.end, store->n_segment);
            MSI_TRY(BATCHES::upload_batch(0));
            MSI_TRY(d_raw.fit(n_image * now.n_sample * (int64_t)sizeof(cplx<T>), "visibilities"));
            MSI_TRY(predict_batch());
            MSI_TRY(BATCHES::download_batch(as<T>(d_raw), n_image));
            msi_progress_leave(all);
        }
        return MSI_OK;
    }

  protected:
    template <typename... PLAN>
    explicit store_predictor(int n_image_, PLAN... plan_) : BATCHES(plan_...), n_image(n_image_)
    {
    }

    using BATCHES::d_raw;
    using BATCHES::now;
    using BATCHES::on;
    using BATCHES::plan;
    using BATCHES::store;
    using BATCHES::times;
    int n_image;
    msi_taper taper = {}; /* its arrays are on the device */

    /* prepare - once, before the first batch: everything on the device but samples, and batch_samples. */
    virtual int prepare(const msi_image *model) = 0;
    /* predict_batch - the batch's visibilities d_raw [n_image][n_sample]. */
    virtual int predict_batch() = 0;

    /* Return the model's image on the device [ny][nx]. */
    const T *model_image(int image) const
    {
        return as<T>(d_model) + image * msi_image_n_pixel(&plan->image);
    }

    int upload_model(const msi_image *model)
    {
        const int64_t bytes = n_image * msi_image_n_pixel(&plan->image) * (int64_t)sizeof(T);
        MSI_TRY(BATCHES::upload_taper(&taper));
        MSI_TRY(d_model.fit(bytes, "the model"));
        MSI_TRY(BATCHES::staging.begin(bytes, model->pixel));
        MSI_TRY(BATCHES::staging.upload(as<char>(d_model), static_cast<const char *>(model->pixel), bytes));
        return BATCHES::staging.flush();
    }

    /* transform_model - begin to make plane [nv][nu]: an image of the model, under plane p's screen, transformed. */
    int transform_model(int image, const screen_geometry &screen, int p, const fft_plan &fft, cplx<T> *plane)
    {
        const dim3 blocks((unsigned)((screen.nu + 31) / 32), (unsigned)((screen.nv + 7) / 8));
        k_spread_model<T><<<blocks, dim3(32, 8), 0, on.get()>>>(screen, taper, model_image(image), p, plane);
        MSI_CUDA(cudaGetLastError());
        return fft.run(plane, CUFFT_INVERSE);
    }

  private:
    bool is_ready = false;
    buffer d_model;
};

} // namespace

#endif
