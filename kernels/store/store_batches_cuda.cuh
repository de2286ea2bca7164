/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Batches of whole segments of a store, which are copied to the device one after the other; and predictions batch by
 * batch, for all methods on a GPU. A prediction copies a model to the device, and computes visibilities at the
 * coordinates of each batch. Everything derived from the model may be kept while the store is refilled.
 */
#ifndef MSI_STORE_BATCHES_CUDA_CUH
#define MSI_STORE_BATCHES_CUDA_CUH

#include <memory>
#include <new>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/plan_stream_cuda.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/method/method.h"
#include "kernels/store/vis_store.h"
#include "kernels/transform/fft_plan_cuda.cuh"
#include "kernels/transform/screen_cuda.cuh"

namespace {

/* Segments [first, end), copied to the device together. */
struct store_batch {
    int64_t first, end, n_row, n_sample;
};

/* A store and its current batch on the device: weights [plane][n_sample], visibilities d_raw in the same order.
 * Gridders derive classes that process a batch. */
template <typename T> class store_batches {
  public:
    plan_stream on; /* stream of all copies and kernels */
    const msi_vis_store *store = nullptr;
    msi_stage_times *times = nullptr;
    int64_t batch_samples = 0; /* maximum number in one batch */
    store_batch now = {};
    buffer d_segments, d_freq, d_uvw, d_weight, d_raw;
    staged_copy staging{on};

    /* Return the batch that begins at segment `first`: at least one segment, at most batch_samples. */
    store_batch cut_batch(int64_t first) const
    {
        store_batch b = {first, first, 0, 0};
        while (b.end < store->n_segment) {
            const msi_vis_segment *s = &store->segment[b.end];
            int64_t n = s->n_row * s->n_chan;
            if (b.end > first && b.n_sample + n > batch_samples) break;
            b.n_row += s->n_row;
            b.n_sample += n;
            b.end++;
        }
        return b;
    }

    /* enter - make the plan's device the current one, before anything else. Returns: 0, MSI_EGPU */
    int enter()
    {
        return on.enter();
    }

    /* upload_batch - upload coordinates, and the weights and visibilities of n_plane planes; none for degridding. */
    int upload_batch(int n_plane)
    {
        const stage_timer stage("transfer", &times->transfer_s);
        int64_t n_segment = now.end - now.first, n_freq = 0;
        msi_store_rows *views;
        double *freq = nullptr;
        for (int64_t i = now.first; i < now.end; i++) n_freq += store->segment[i].n_chan;
        MSI_TRY(msi_alloc(&views, n_segment, sizeof *views, "GPU batch"));
        int rc = msi_alloc(&freq, n_freq, sizeof *freq, "GPU batch");
        if (!rc) rc = copy_segments(n_plane, views, freq, n_segment, n_freq);
        msi_free(views);
        msi_free(freq);
        return rc;
    }

    /* download_batch - fetch the batch's visibilities, value [n_image][n_sample] on the device, into the store. */
    int download_batch(const T *value, int n_image)
    {
        const stage_timer stage("transfer", &times->transfer_s);
        const int64_t bytes_each = 2 * (int64_t)sizeof(T);
        for (int p = 0; p < n_image; p++) {
            int64_t segment = now.first, begin = 0; /* offset of the segment's visibilities */
            const auto place = [&](int64_t at) {
                const msi_vis_segment *s = &store->segment[segment];
                for (; at >= begin + s->n_row * s->n_chan * bytes_each; s = &store->segment[++segment])
                    begin += s->n_row * s->n_chan * bytes_each;
                char *first = reinterpret_cast<char *>((T *)s->vis + 2 * msi_segment_index(s, p, 0, 0));
                return staged_copy::host_part{first + (at - begin), begin + s->n_row * s->n_chan * bytes_each - at};
            };
            MSI_TRY(staging.download_to(place, value + 2 * p * now.n_sample, now.n_sample * bytes_each));
        }
        return MSI_OK;
    }

  private:
    int copy_segments(int n_plane, msi_store_rows *views, double *freq, int64_t n_segment, int64_t n_freq)
    {
        MSI_TRY(d_segments.fit(n_segment * (int64_t)sizeof *views, "segments"));
        MSI_TRY(d_freq.fit(n_freq * (int64_t)sizeof *freq, "frequencies"));
        MSI_TRY(d_uvw.fit(now.n_row * 3 * (int64_t)sizeof(double), "uvw"));
        MSI_TRY(d_weight.fit(n_plane * now.n_sample * (int64_t)sizeof(float), "weights"));
        MSI_TRY(d_raw.fit(n_plane * now.n_sample * (int64_t)(2 * sizeof(T)), "visibilities"));
        int64_t row = 0, sample = 0, at_freq = 0;
        MSI_TRY(staging.begin(now.n_row * 3 * (int64_t)sizeof(double) +
                                  n_plane * now.n_sample * (int64_t)(sizeof(float) + 2 * sizeof(T)),
                              store->segment[now.first].uvw_m));
        for (int64_t i = 0; i < n_segment; i++) {
            const msi_vis_segment *s = &store->segment[now.first + i];
            views[i] = {sample, row, (int32_t)s->n_row, s->n_chan, (int32_t)at_freq};
            memcpy(freq + at_freq, s->freq_hz, sizeof(double) * (size_t)s->n_chan);
            MSI_TRY(staging.upload(as<double>(d_uvw) + 3 * row, s->uvw_m, 3 * s->n_row));
            row += s->n_row;
            sample += s->n_row * s->n_chan;
            at_freq += s->n_chan;
        }
        for (int p = 0; p < n_plane; p++) MSI_TRY(copy_plane(p));
        MSI_TRY(staging.flush());
        MSI_TRY(on.upload(as<msi_store_rows>(d_segments), views, n_segment));
        MSI_TRY(on.upload(as<double>(d_freq), freq, n_freq));
        return on.wait();
    }

    /* Copy the weights and visibilities of a plane, segment by segment, to consecutive memory of the device. */
    int copy_plane(int p)
    {
        for (int weights = 0; weights < 2; weights++) {
            int64_t to = p * now.n_sample;
            MSI_TRY(staging.push());
            for (int64_t i = now.first; i < now.end; i++) {
                const msi_vis_segment *s = &store->segment[i];
                const int64_t n = s->n_row * s->n_chan, from = msi_segment_index(s, p, 0, 0);
                if (weights)
                    MSI_TRY(staging.upload(as<float>(d_weight) + to, s->weight + from, n));
                else
                    MSI_TRY(staging.upload(as<T>(d_raw) + 2 * to, (const T *)s->vis + 2 * from, 2 * n));
                to += n;
            }
        }
        return MSI_OK;
    }
};

/* ---- Predictions ------------------------------------------------------------------------------------------------ */

/* A predictor of either precision, which may be kept between calls. */
struct kept_predictor {
    virtual ~kept_predictor() = default;
    /* predict - compute the visibilities of a store, which may differ between calls, from a model, which must not. */
    virtual int predict(msi_vis_store *store, const msi_image *model, msi_stage_times *times) = 0;
};

/*
 * predict_kept - predict by the kept predictor, or by one for this call only.
 *
 * Given:              make  a function without arguments that returns a new kept_predictor
 * Given and returned: kept  *kept is NULL at first, then the object from make(), freed by forget_kept. If kept is NULL,
 *                           the predictor is freed at the end of the call
 * Returns: 0, MSI_ENOMEM, or the error of predict
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

/* The loop over a store's batches. BATCHES adds to store_batches<T> a plan, for the geometry of its images, and
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

    /* prepare - called once, before the first batch: upload everything except samples, and set batch_samples. */
    virtual int prepare(const msi_image *model) = 0;
    /* predict_batch - compute the batch's visibilities d_raw [n_image][n_sample]. */
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

    /* transform_model - queue the computation of plane [nv][nu]: an image of the model, multiplied by plane p's screen,
     * transformed. */
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
