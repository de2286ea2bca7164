/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Images of a store's visibilities on the GPU, or of their residuals after a model is subtracted.
 *
 * (1) Samples are uploaded in batches of whole segments. (2) A batch is sorted once for all images, for gridding and
 * degridding. Its records are stored in this order, each with the value that is gridded. If there are several images,
 * the values of all planes are stored separately in the same order, and only the PSF's values with the records. If
 * there will be more calls, the visibilities and weights of all planes are stored instead, and the values of an image
 * are computed from them: weighted visibilities, weighted residuals, or those of the PSF. Stored visibilities are
 * multiplied by the phase factor of the field's mean n - 1, and conjugated if w < 0. Sums over a model's planes have
 * this form without a further factor, so subtracting is a difference of two numbers. (3) The values are gridded,
 * transformed, and added to the images.
 *
 * If a store fits in one batch, its sorted samples and items stay on the device between calls, and a call neither
 * uploads nor sorts. Images are summed over batches; the planes of each batch are transformed separately.
 */
#ifndef MSI_KERNELS_WGRID_IMAGER_CUDA_CUH
#define MSI_KERNELS_WGRID_IMAGER_CUDA_CUH

#include <algorithm>
#include <new>

#include "core/progress.h"
#include "kernels/wgrid/wgrid_batches_cuda.cuh"
#include "kernels/wgrid/wgrid_cuda.h"
#include "kernels/wgrid/wgrid_grid_cuda.cuh"

namespace {

/* An imager of either precision, which may be kept between calls. */
struct kept_imager {
    virtual ~kept_imager() = default;
    /* make - make the images of a job whose pixels are on the device. Returns: 0, MSI_ENOMEM, MSI_EGPU,
     * MSI_EINTERRUPTED */
    virtual int make(const msi_residual_job &job, msi_stage_times *times) = 0;
};

template <typename T> class wgrid_imager : public kept_imager {
  public:
    /*
     * Order by tiles of whole planes, or as given. keeps_parts: store data of all planes with the sorted samples;
     * otherwise there is one image, whose values are in the samples. stays: there will be more calls, with or without a
     * model; requires keeps_parts.
     */
    wgrid_imager(const msi_wgrid_plan *plan_, bool keeps_parts_, bool stays_)
        : plan(plan_), samples(plan_), keeps_parts(keeps_parts_), stays(stays_)
    {
    }
    wgrid_imager(const msi_wgrid_plan *plan_, const sample_order &o, bool keeps_parts_, bool stays_)
        : plan(plan_), samples(plan_, o), keeps_parts(keeps_parts_), stays(stays_)
    {
    }
    wgrid_imager(const wgrid_imager &) = delete;
    wgrid_imager &operator=(const wgrid_imager &) = delete;
    ~wgrid_imager() override
    {
        on.leave();
    }

    int make(const msi_residual_job &job_, msi_stage_times *times_) final
    {
        MSI_TRY(begin(job_, times_));
        MSI_TRY(on.clear(static_cast<T *>(job->pixel), job->n_image * image_pixels()));
        for (int64_t s = 0; s < store->n_segment; s = samples.now.end) {
            MSI_TRY(load_batch(s));
            const msi_progress_share all = msi_progress_enter(s, samples.now.end, store->n_segment);
            for (int part = 0; samples.now.n_sample && part < n_part(); part++) MSI_TRY(image_part(part));
            msi_progress_leave(all);
        }
        return correct();
    }

    /* make_on_host - make the images of a store in host memory, as many at a time as fit. */
    int make_on_host(const msi_vis_store *store_, const int *store_plane, msi_image *image, msi_stage_times *times_)
    {
        buffer d_images;
        msi_residual_job one = {};
        one.store = store_;
        int n = image->n_plane, most;
        MSI_TRY(samples.enter());
        MSI_TRY(images_at_once(n, &most));
        MSI_TRY(d_images.fit(std::min(n, most) * image_pixels() * (int64_t)sizeof(T), "images"));
        for (int first = 0; first < n; first += one.n_image) {
            one.n_image = std::min(n - first, most);
            one.store_plane = store_plane + first;
            one.sum_weight = image->sum_weight + first;
            one.pixel = d_images.get();
            MSI_TRY(make(one, times_));
            const stage_timer stage("download", &times_->transfer_s);
            MSI_TRY(samples.staging.download((T *)image->pixel + first * image_pixels(), d_images.get(),
                                             one.n_image * image_pixels() * (int64_t)sizeof(T)));
        }
        return MSI_OK;
    }

    /* Return the device bytes of a sample of a store with n_plane planes: its data, the sum over a model, and with
     * several terms its x and the sum over one term. */
    static int64_t sample_bytes(int n_plane, bool keeps_parts, bool stays, int n_term)
    {
        return placed_batches<T>::sample_bytes(n_plane, parts_of(keeps_parts, stays)) +
               (stays ? (int64_t)sizeof(cplx<T>) : 0) + (n_term > 1 ? (int64_t)(sizeof(T) + sizeof(cplx<T>)) : 0);
    }

  protected:
    const msi_wgrid_plan *plan;
    placed_batches<T> samples;
    plan_stream &on = samples.on;
    const msi_residual_job *job = nullptr;
    const msi_vis_store *store = nullptr;
    msi_stage_times *times = nullptr;
    msi_taper taper = {};

    /* allocate_planes - allocate planes and make transforms, once. Sets samples.order if it is not the order of
     * degridding. */
    virtual int allocate_planes() = 0;
    /* Count the parts of the order, which are sorted one after the other. */
    virtual int n_part() const
    {
        return 1;
    }
    /* Set the order of a part. Samples of other parts have no key. */
    virtual void set_part(int) {}
    /* add_image - grid the part's values, transform, screen, and add to an image's sum [ny][nx]. */
    virtual int add_image(T *sum) = 0;
    /* degrid - compute the part's sums over the planes of a model [ny][nx]: value, in order. */
    virtual int degrid(const T *model, cplx<T> *value) = 0;

    int64_t plane_cells() const
    {
        return samples.g.nu * samples.g.nv;
    }
    int64_t image_pixels() const
    {
        return msi_image_n_pixel(&plan->image);
    }

  private:
    bool keeps_parts, stays, is_ready = false;

    /* Weights are needed again only if a model may be subtracted. */
    static constexpr parts parts_of(bool keeps_parts, bool stays)
    {
        return !keeps_parts ? parts::NONE : stays ? parts::VISIBILITIES : parts::VALUES;
    }
    int64_t loaded = -1; /* first segment of the batch on the device; -1: none */
    int placed_part = -1;
    int summed_plane = -1; /* d_sums has the visibilities of this plane's model; -1: no plane */
    buffer d_sums, d_term;

    int begin(const msi_residual_job &job_, msi_stage_times *times_)
    {
        job = &job_;
        store = samples.store = job->store;
        samples.reference_hz = job->n_term > 1 ? job->reference_hz : 0;
        times = samples.times = times_;
        MSI_TRY(samples.enter());
        if (!is_ready) MSI_TRY(prepare());
        is_ready = true;
        return MSI_OK;
    }

    /* Planes are allocated first; batches use the remaining memory. */
    int prepare()
    {
        int64_t usable;
        size_t shared_bytes;
        MSI_TRY(block_shared_bytes(&shared_bytes));
        samples.least_crowded = can_ring<T>(shared_bytes) ? least_in_ring<T>(samples.g.width) : UNUSED;
        MSI_TRY(samples.upload_taps());
        MSI_TRY(samples.upload_taper(&taper));
        MSI_TRY(allocate_planes());
        MSI_TRY(usable_bytes(&usable));
        usable -= counter_bytes(samples.order);
        /* Flagged samples are uploaded too. */
        const int64_t fit = usable / sample_bytes(store->n_plane, keeps_parts, stays, job->n_term);
        const int64_t stored = 2 * std::max<int64_t>(store->n_sample, 1);
        const int64_t most = plan->batch_samples ? plan->batch_samples : MOST_IN_BATCH;
        samples.batch_samples = std::clamp<int64_t>(std::min(fit, stored), 1, most);
        return MSI_OK;
    }

    int load_batch(int64_t first_segment)
    {
        if (loaded == first_segment) return MSI_OK;
        loaded = placed_part = -1;
        samples.now = samples.cut_batch(first_segment);
        if (samples.now.n_sample) MSI_TRY(samples.upload_batch(store->n_plane));
        loaded = first_segment;
        return MSI_OK;
    }

    int place_part(int part)
    {
        if (placed_part == part) return MSI_OK;
        placed_part = -1;
        set_part(part);
        plane_map map = {};
        map.n_plane = store->n_plane;
        map.n_image = keeps_parts ? store->n_plane : 1;
        for (int p = 0; p < map.n_image; p++) map.store_plane[p] = keeps_parts ? p : job->store_plane[p];
        MSI_TRY(samples.place_batch(map, parts_of(keeps_parts, stays)));
        if (stays && n_part() == 1 && !samples.now.first && samples.now.end == store->n_segment) samples.free_upload();
        placed_part = part;
        return MSI_OK;
    }

    int image_part(int part)
    {
        MSI_TRY(place_part(part));
        summed_plane = -1;
        if (!samples.n_placed) return MSI_OK;
        for (int i = 0; i < job->n_image; i++) {
            const int64_t number = (int64_t)part * job->n_image + i;
            const msi_progress_share all = msi_progress_enter(number, number + 1, (int64_t)n_part() * job->n_image);
            MSI_TRY(image_one(i));
            msi_progress_leave(all);
        }
        return MSI_OK;
    }

    /* For the progress, degridding is half of a residual. */
    int image_one(int i)
    {
        const int halves = job->model && job->store_plane[i] >= 0 && job->store_plane[i] != summed_plane ? 2 : 1;
        msi_progress_share all = msi_progress_enter(0, halves - 1, halves);
        const parts kept = parts_of(keeps_parts, stays);
        if (kept == parts::VALUES) samples.grid_values(job->store_plane[i]);
        if (kept == parts::VISIBILITIES) MSI_TRY(make_values(i));
        msi_progress_leave(all);
        all = msi_progress_enter(halves - 1, halves, halves);
        MSI_TRY(add_image(static_cast<T *>(job->pixel) + i * image_pixels()));
        msi_progress_leave(all);
        return MSI_OK;
    }

    /* Sum over the terms of the model of a plane, beginning with the highest: d_sums = (.. m_2) x + m_1) x + m_0. */
    int sum_model(int plane)
    {
        if (summed_plane == plane) return MSI_OK;
        const int64_t bytes = samples.n_placed * (int64_t)sizeof(cplx<T>);
        const int n_term = msi_residual_terms(job);
        const T *model = static_cast<const T *>(job->model) + plane * n_term * image_pixels();
        MSI_TRY(d_sums.fit(bytes, "predicted visibilities"));
        if (n_term > 1) MSI_TRY(d_term.fit(bytes, "predicted visibilities"));
        for (int t = n_term - 1; t >= 0; t--) {
            const bool is_first = t == n_term - 1;
            MSI_TRY(degrid(model + t * image_pixels(), is_first ? as<cplx<T>>(d_sums) : as<cplx<T>>(d_term)));
            if (!is_first) MSI_TRY(samples.add_term(as<cplx<T>>(d_term), as<cplx<T>>(d_sums)));
        }
        summed_plane = plane;
        return MSI_OK;
    }

    /* Make the values to be gridded for an image. */
    int make_values(int i)
    {
        const int plane = job->store_plane[i];
        const bool has_model = job->model && plane >= 0;
        if (has_model) MSI_TRY(sum_model(plane));
        const stage_timer stage("values", &times->sort_s);
        MSI_TRY(
            samples.make_values(plane, has_model ? as<cplx<T>>(d_sums) : nullptr, job->n_term > 1 ? job->power[i] : 0));
        return on.wait();
    }

    int correct()
    {
        const stage_timer stage("correct", &times->correct_s);
        for (int i = 0; i < job->n_image; i++) {
            const double sum = job->sum_weight[i];
            T *pixel = static_cast<T *>(job->pixel) + i * image_pixels();
            k_correct<<<samples.pixel_blocks(), dim3(32, 8), 0, on.get()>>>(samples.screen(), taper,
                                                                            sum > 0 ? 1 / sum : NAN, pixel, pixel);
            MSI_CUDA(cudaGetLastError());
        }
        return on.wait();
    }

    /* Choose the number of images whose sums are in memory together: they may use a quarter of the free memory. */
    int images_at_once(int n, int *most) const
    {
        int64_t usable;
        MSI_TRY(usable_bytes(&usable));
        *most = (int)std::clamp<int64_t>(usable / 4 / (image_pixels() * (int64_t)sizeof(T)), 1, n);
        return MSI_OK;
    }
};

/*
 * make_kept - do a job with an imager that is kept for the next one.
 * Given:              imager  a function without arguments that returns a new wgrid_imager<T>
 * Given and returned: kept    *kept is NULL at first, then the imager, freed by free_imager
 */
template <typename IMAGER>
int make_kept(void **kept, IMAGER imager, const msi_residual_job *job, msi_stage_times *times)
{
    try {
        if (!*kept) *kept = static_cast<kept_imager *>(imager());
    } catch (const std::bad_alloc &) {
        return msi_error_set(MSI_ENOMEM, "not enough memory for the GPU's plan");
    }
    return static_cast<kept_imager *>(*kept)->make(*job, times);
}

inline void free_imager(void *kept)
{
    delete static_cast<kept_imager *>(kept);
}

} // namespace

#endif
