/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Prediction by w-projection on the GPU: the steps of imaging in reverse. A batch of samples is divided into slices of
 * w. For each slice:
 *   1. The model is multiplied by the screen of the slice, and transformed to the padded grid.
 *   2. The cells that the slice's footprints cover are copied to a box, with the values of all images side by side.
 *   3. The strategy sorts the slice's samples and degrids them from the box: by a moving window, by warps that gather
 *      footprints, or by warps that hold cells and scatter them to samples.
 */
#include "kernels/wproj/wproj_cuda.h"

#include <memory>
#include <new>

#include "kernels/wproj/job/wkernel.h"
#include "kernels/store/store_batches_cuda.cuh"
#include "kernels/wproj/points/wproj_points_cuda.h"
#include "kernels/wproj/wproj_slices_cuda.cuh"
#include "kernels/wproj/window/wproj_window_gridder_cuda.h"
#include "kernels/wproj/window/wproj_window_cuda.h"

/* Rates of an H200, rounded. Only their ratios matter for the choice of a strategy. */
extern const msi_wproj_cost msi_wproj_cuda_gather_cost = {{4e12, 1e-11, 5e-10, 2e-12, 1}, 2e-12, 1e-12, 2e-4};
extern const msi_wproj_cost msi_wproj_cuda_scatter_cost = {{4e12, 1e-11, 1e-9, 7e-12, 1}, 7e-12, 1e-12, 2e-4};

namespace {

typedef std::unique_ptr<msi_window_gridder, void (*)(msi_window_gridder *)> window_owner;
typedef std::unique_ptr<msi_window_order, void (*)(msi_window_order *)> order_owner;
typedef std::unique_ptr<msi_gather, void (*)(msi_gather *)> gather_owner;
typedef std::unique_ptr<msi_scatter, void (*)(msi_scatter *)> scatter_owner;

/* Bytes of a sample while gather or scatter sorts it: keys and indices, each twice, and memory of CUB. */
constexpr int64_t SORT_BYTES = 4 * sizeof(uint32_t) + 2;

/* A strategy, which degrids the samples of one slice at a time. */
struct slice_degridder {
    virtual ~slice_degridder() = default;
    /* Allocate memory for up to `most` samples in a slice, of n_sample in total, and a box of nv x nu cells. */
    virtual int fit(int64_t most, int64_t n_sample, int64_t nu, int64_t nv) = 0;
    /* Degrid the block's samples of a slice. */
    virtual int degrid(const msi_window_block &block, int32_t slice, const msi_wproj_grid &box) = 0;
};

/* The strategy window. */
struct window_degridder : slice_degridder {
    const msi_wproj_plan *plan;
    const msi_wkernel_set *kernels;
    msi_gpu_stream gpu;
    int n_image;
    int64_t capacity = 0;
    window_owner window{nullptr, msi_window_gridder_free};

    window_degridder(const msi_wproj_cuda_work &work, const msi_gpu_stream &gpu_, int n_image_)
        : plan(work.plan), kernels(work.kernels), gpu(gpu_), n_image(n_image_)
    {
    }

    int fit(int64_t most, int64_t n_sample, int64_t, int64_t) override
    {
        if (most <= capacity) return MSI_OK;
        msi_window_gridder *made;
        window.reset();
        capacity = 0;
        const msi_window_gridder_spec spec = {&plan->grid, kernels, n_image, most, n_sample, plan->texture};
        MSI_TRY(msi_window_gridder_create(&made, &gpu, &spec));
        window.reset(made);
        capacity = most;
        return MSI_OK;
    }

    int degrid(const msi_window_block &block, int32_t slice, const msi_wproj_grid &box) override
    {
        return msi_window_gridder_predict(window.get(), &block, slice, &box);
    }
};

/* The base of gather and scatter, each of which sorts the samples of a job in its own order. */
struct sorting_degridder : slice_degridder {
    const msi_wproj_plan *plan;
    const msi_wkernel_set *kernels;
    msi_gpu_stream gpu;
    msi_wkernel_mirror mirror = {};
    int n_image;
    int64_t capacity = 0, box_nu = 0, box_nv = 0;
    order_owner order{nullptr, msi_window_order_free};

    sorting_degridder(const msi_wproj_cuda_work &work, const msi_gpu_stream &gpu_, int n_image_)
        : plan(work.plan), kernels(work.kernels), gpu(gpu_), n_image(n_image_)
    {
    }
    ~sorting_degridder() override
    {
        msi_wkernel_mirror_free(&mirror);
    }

    virtual int make(const msi_wproj_job &job) = 0;
    virtual int run(const msi_wproj_job &job) = 0;

    msi_wproj_job job_of(int64_t n, int64_t nu, int64_t nv) const
    {
        msi_wproj_job job = {};
        job.precision = plan->precision;
        job.n_image = n_image;
        job.nu = nu;
        job.nv = nv;
        job.n_vis = n;
        job.kernels = mirror.view;
        return job;
    }

    int fit(int64_t most, int64_t, int64_t nu, int64_t nv) override
    {
        if (!mirror.view.table) MSI_TRY(msi_wkernel_mirror_make(&mirror, &gpu, kernels, MSI_WPROJ_NEAREST));
        if (most <= capacity && nu == box_nu && nv == box_nv) return MSI_OK;
        if (most > capacity) {
            msi_window_order *made;
            order.reset();
            capacity = 0;
            MSI_TRY(msi_window_order_create(&made, &gpu, most, &plan->grid, plan->half, plan->precision, n_image));
            order.reset(made);
        }
        box_nu = box_nv = 0;
        MSI_TRY(make(job_of(most, nu, nv)));
        capacity = most;
        box_nu = nu;
        box_nv = nv;
        return MSI_OK;
    }

    int degrid(const msi_window_block &block, int32_t slice, const msi_wproj_grid &box) override
    {
        msi_window_ordered ordered;
        MSI_TRY(msi_window_order_take(order.get(), &block, nullptr, slice, &ordered));
        msi_wproj_job job = job_of(ordered.first[ordered.n_class], box.nu, box.nv);
        job.sample = ordered.sample;
        job.value = ordered.value;
        job.grid = box.cells;
        MSI_TRY(run(job));
        return msi_window_order_give(order.get(), &block, slice);
    }
};

struct gather_degridder : sorting_degridder {
    using sorting_degridder::sorting_degridder;
    gather_owner gather{nullptr, msi_gather_free};

    int make(const msi_wproj_job &job) override
    {
        msi_gather *made;
        gather.reset();
        MSI_TRY(msi_gather_create(&made, &gpu, &job, MSI_GATHER_AUTO));
        gather.reset(made);
        return MSI_OK;
    }
    int run(const msi_wproj_job &job) override
    {
        MSI_TRY(msi_gather_sort(gather.get(), &job));
        return msi_gather_degrid(gather.get(), &job);
    }
};

struct scatter_degridder : sorting_degridder {
    using sorting_degridder::sorting_degridder;
    scatter_owner scatter{nullptr, msi_scatter_free};

    int make(const msi_wproj_job &job) override
    {
        msi_scatter *made;
        scatter.reset();
        MSI_TRY(msi_scatter_create(&made, &gpu, &job));
        scatter.reset(made);
        return MSI_OK;
    }
    int run(const msi_wproj_job &job) override
    {
        MSI_TRY(msi_scatter_sort(scatter.get(), &job));
        return msi_scatter_degrid(scatter.get(), &job);
    }
};

slice_degridder *new_degridder(const msi_wproj_cuda_work &work, const msi_gpu_stream &gpu, msi_wproj_predict_form form,
                               int n_image)
{
    if (form == MSI_WPROJ_PREDICT_WINDOW) return new (std::nothrow) window_degridder(work, gpu, n_image);
    if (form == MSI_WPROJ_PREDICT_GATHER) return new (std::nothrow) gather_degridder(work, gpu, n_image);
    return new (std::nothrow) scatter_degridder(work, gpu, n_image);
}

/* Return the most bytes that operands of the tensor cores take, for all classes of kernel widths. */
int64_t operand_bytes(const msi_wproj_plan *plan, msi_wproj_predict_form form)
{
    if (form != MSI_WPROJ_PREDICT_WINDOW || plan->precision != MSI_FP32 || plan->form == MSI_WKERNEL_FULL) return 0;
    return MSI_WINDOW_MAX_CLASS *
           msi_window_operands_bytes(plan->grid.n_plane, plan->grid.oversample, 2 * plan->half_max + 1);
}

/* Return the bytes of the grid, the kernels, and the models and boxes of all images. */
int64_t fixed_bytes(const msi_wproj_plan *plan, msi_wproj_predict_form form, int n_image)
{
    const int64_t model = msi_image_n_pixel(&plan->image) * (cell_bytes(plan) / 2);
    return grid_bytes(plan) + plan->table_bytes + operand_bytes(plan, form) + n_image * (box_bytes(plan) + model);
}

/* Return the bytes of a sample on the device, while it is sorted. msi_window_order_bytes has a constant part, which the
 * difference of 1001 and 1000 samples removes. */
int64_t sample_bytes(const msi_wproj_plan *plan, int n_image)
{
    return stored_bytes(plan, n_image, 0) + SORT_BYTES + msi_window_order_bytes(1001, plan->precision, n_image) -
           msi_window_order_bytes(1000, plan->precision, n_image);
}

template <typename T> class predictor : public store_predictor<T, slices<T>> {
    using base = store_predictor<T, slices<T>>;

  public:
    predictor(const msi_wproj_cuda_work &work_, msi_wproj_predict_form form_, int n_image_)
        : base(n_image_, work_.plan, work_.device), work(work_), form(form_)
    {
        base::batch_samples = work.batch_samples;
    }

  private:
    using base::box_nu;
    using base::box_nv;
    using base::d_box;
    using base::d_grid;
    using base::extent;
    using base::gpu;
    using base::n_image;
    using base::plan;
    using base::times;
    const msi_wproj_cuda_work work;
    msi_wproj_predict_form form;
    std::unique_ptr<slice_degridder> strategy;

    int prepare(const msi_image *model) override
    {
        int64_t usable;
        strategy.reset(new_degridder(work, gpu, form, n_image));
        if (!strategy) return msi_error_set(MSI_ENOMEM, "no memory for the GPU's plan");
        MSI_TRY(base::upload_model(model));
        MSI_TRY(base::make_grid());
        MSI_TRY(usable_bytes(&usable));
        base::limit_batches(usable - n_image * box_bytes(plan) - operand_bytes(plan, form),
                            sample_bytes(plan, n_image));
        return MSI_OK;
    }

    int predict_batch() override
    {
        int64_t most;
        base::forget_extents();
        MSI_TRY(base::add_extents(base::samples(n_image, nullptr)));
        base::lay_box(&most);
        MSI_TRY(strategy->fit(most, base::now.n_sample, box_nu, box_nv));
        MSI_TRY(d_box.fit(n_image * box_nu * box_nv * cell_bytes(plan), "the slice's cells"));
        for (int32_t slice = 0; slice < plan->grid.n_slice; slice++) {
            if (extent[(size_t)slice].n == 0) continue;
            MSI_TRY(make_slice(slice));
            const double start = msi_wall_s();
            MSI_TRY(strategy->degrid(base::block(0), slice, {box_nu, box_nv, as<void>(d_box)}));
            MSI_TRY(msi_gpu_stream_wait(&gpu));
            times->grid_s += msi_wall_s() - start;
            msi_progress_at(slice + 1, plan->grid.n_slice);
            MSI_TRY(msi_interrupt_check());
        }
        return MSI_OK;
    }

    /* Transform the models under the slice's screen, and fill the box with the cells that the slice covers. */
    int make_slice(int32_t slice)
    {
        const gpu_range range("transform model");
        const double start = msi_wall_s();
        const msi_wproj_geometry *g = &plan->grid;
        const msi_wproj_box_extent &e = extent[(size_t)slice];
        const screen_geometry screen = base::screen(msi_wproj_slice_w(g, slice));
        const box_view box = box_at(box_nu, box_nv, n_image, e.u_low, e.v_low, g->nu, g->nv);
        const dim3 blocks((unsigned)((box_nu + 255) / 256), (unsigned)box_nv);
        for (int i = 0; i < n_image; i++) {
            MSI_TRY(base::transform_model(i, screen, 0, base::fft, as<cplx<T>>(d_grid)));
            k_fill_box<<<blocks, 256, 0, base::stream()>>>(box, as<cplx<T>>(d_grid), i, as<cplx<T>>(d_box));
            MSI_CUDA(cudaGetLastError());
        }
        MSI_TRY(msi_gpu_stream_wait(&gpu));
        times->transform_s += msi_wall_s() - start;
        return MSI_OK;
    }
};

kept_predictor *new_predictor(const msi_wproj_cuda_work &work, msi_wproj_predict_form form, int n_image)
{
    if (work.plan->precision == MSI_FP32) return new predictor<float>(work, form, n_image);
    return new predictor<double>(work, form, n_image);
}

} // namespace

int msi_wproj_predictor_check(const msi_wproj_plan *plan, msi_wproj_predict_form form)
{
    const msi_wproj_geometry *g = &plan->grid;
    const int64_t longest = largest_box(plan, std::max(g->nu, g->nv));
    const int64_t each = (int64_t)(g->oversample + 1) * (g->oversample + 1);
    if (longest > MSI_WPROJ_MAX_BOX || g->n_plane > INT16_MAX)
        return msi_error_about(
            msi_error_set(MSI_ERANGE,
                          "w-projection on a GPU degrids from %d cells along an axis and with %d w-planes, not %lld "
                          "and %d",
                          MSI_WPROJ_MAX_BOX, INT16_MAX, (long long)longest, g->n_plane),
            "backend");
    if (form != MSI_WPROJ_PREDICT_WINDOW && g->n_plane * each > INT32_MAX)
        return msi_error_about(
            msi_error_set(MSI_ERANGE,
                          "strategies gather and scatter number 2^31 kernels on a GPU, not %d w-planes of %lld; "
                          "strategy window has no such limit",
                          g->n_plane, (long long)each),
            "strategy");
    return MSI_OK;
}

int64_t msi_wproj_predictor_bytes(const msi_wproj_plan *plan, msi_wproj_predict_form form, int64_t n_sample,
                                  int n_image)
{
    return fixed_bytes(plan, form, n_image) + n_sample * sample_bytes(plan, n_image);
}

int msi_wproj_cuda_predict(const msi_wproj_cuda_work *work, msi_wproj_predict_form form, msi_vis_store *store,
                           const msi_image *model, void **kept, msi_stage_times *times)
{
    const gpu_range range("predict by w-projection");
    auto make = [=] { return new_predictor(*work, form, model->n_plane); };
    return predict_kept(kept, make, store, model, times);
}

void msi_wproj_cuda_forget(void *kept)
{
    forget_kept(kept);
}
