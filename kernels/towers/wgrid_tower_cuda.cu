/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * w-towers on the GPU (tower_plan.h).
 *
 *   1. Locate and sort samples as for whole planes, but by tower first and then by subgrid.
 *   2. Mark the planes of subgrids with samples, from runs of equal keys, and number them by a prefix sum of the marks.
 *      Only these small planes have memory.
 *   3. Process subgrids in batches. The kernels of the default gridder add samples to the small planes.
 *   4. The kernels of subgrid_cuda.h transform small planes, multiply them by screens, sum the planes of a subgrid,
 *      transform the sum back, and add it to the tower's one whole plane with vector reductions.
 *   5. Transform the whole plane of each tower, multiply it by its screen, and add it to the image.
 */
#include "kernels/towers/wgrid_tower_cuda.h"

#include <algorithm>
#include <math.h>

#include "core/progress.h"
#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/gpu/plan_stream_cuda.h"
#include "kernels/towers/wgrid_tower_cuda_stacks.cuh"
#include "kernels/wgrid/wgrid_cuda.h"
#include "kernels/wgrid/wgrid_grid_cuda.cuh"
#include "kernels/wgrid/wgrid_imager_cuda.cuh"
#include "kernels/wgrid/wgrid_predictor_cuda.cuh"

namespace {

/* Times of consecutive stages on a stream. Events mark their ends, so the host need not wait after each stage. */
class stage_marks {
  public:
    explicit stage_marks(const plan_stream &on_) : on(on_) {}
    stage_marks(const stage_marks &) = delete;
    stage_marks &operator=(const stage_marks &) = delete;
    ~stage_marks()
    {
        for (cudaEvent_t e : event)
            if (e && cudaEventDestroy(e) != cudaSuccess) cudaGetLastError();
    }

    /* begin - begin the first stage, after all earlier work on the stream. Returns: 0, MSI_EGPU */
    int begin()
    {
        n = 0;
        return mark(nullptr);
    }
    /* end - end a stage after the work launched so far; sum() adds its seconds to *sum_s. Returns: 0, MSI_EGPU */
    int end(double *sum_s)
    {
        return n < MOST ? mark(sum_s) : MSI_OK;
    }
    /* is_full - return whether sum() must be called before more stages can end. */
    bool is_full() const
    {
        return n > MOST - AT_ONCE;
    }
    /* sum - wait for the stream and add up the stages. The next stage begins now. Returns: 0, MSI_EGPU */
    int sum()
    {
        MSI_TRY(on.wait());
        for (int k = 1; k < n; k++) {
            float ms;
            MSI_CUDA(cudaEventElapsedTime(&ms, event[k - 1], event[k]));
            *to[k] += 1e-3 * (double)ms;
        }
        return begin();
    }

  private:
    static constexpr int MOST = 32, AT_ONCE = 4; /* stages that may end between two calls of is_full */
    const plan_stream &on;
    cudaEvent_t event[MOST] = {};
    double *to[MOST] = {};
    int n = 0;

    int mark(double *sum_s)
    {
        if (!event[n]) MSI_CUDA(cudaEventCreate(&event[n]));
        MSI_CUDA(cudaEventRecord(event[n], on.get()));
        to[n++] = sum_s;
        return MSI_OK;
    }
};

template <typename T> class tower_imager : public wgrid_imager<T> {
    using base = wgrid_imager<T>;

  public:
    tower_imager(const msi_wgrid_plan *plan_, const msi_tower_plan *towers_, int64_t n_small_, bool keeps_parts,
                 bool stays)
        : base(plan_, order_of_towers(*plan_, *towers_), keeps_parts, stays), towers(*towers_),
          stacks(samples, towers_, n_small_), marks(on)
    {
    }

    static int counter_bytes(const msi_wgrid_plan &plan, const msi_tower_plan &towers, int64_t *bytes)
    {
        sample_order order;
        MSI_TRY(order_for_rings<T>(&order, plan, order_of_towers(plan, towers)));
        *bytes = ::counter_bytes(order);
        return MSI_OK;
    }

  private:
    using base::on;
    using base::samples;
    using base::times;
    const msi_tower_plan &towers;
    tower_stacks<T> stacks;
    stage_marks marks;
    buffer d_whole;
    int towers_at_once = 1; /* number of towers that are sorted together */

    int allocate_planes() override
    {
        MSI_TRY(d_whole.fit(base::plane_cells() * (int64_t)sizeof(cplx<T>), "a w-plane"));
        MSI_TRY(order_for_rings<T>(&samples.order, *base::plan, order_of_towers(*base::plan, towers)));
        towers_at_once = samples.order.end_tower;
        return stacks.make_stacks();
    }

    /* A part is the towers that can be counted together. */
    int n_part() const override
    {
        return (towers.n_tower + towers_at_once - 1) / towers_at_once;
    }
    void set_part(int part) override
    {
        samples.order.first_tower = part * towers_at_once;
        samples.order.end_tower = std::min((part + 1) * towers_at_once, towers.n_tower);
        stacks.reset_stacks();
    }

    int add_image(T *sum) override
    {
        const int first = samples.order.first_tower, end = samples.order.end_tower;
        MSI_TRY(stacks.find_stacks());
        for (int t = first; t < end; t++) {
            MSI_TRY(grid_tower(t, sum));
            msi_progress_at(t + 1 - first, end - first);
        }
        return MSI_OK;
    }

    /* Launch the stages one after the other, and wait for several at a time. */
    int grid_tower(int tower, T *sum)
    {
        bool is_empty = true;
        stacks.begin_tower(tower);
        MSI_TRY(marks.begin());
        cplx<T> *const whole = stacks.sums_fit() ? nullptr : as<cplx<T>>(d_whole);
        if (whole) MSI_TRY(on.clear(whole, base::plane_cells()));
        stack_batch b;
        while (stacks.next_stacks(&b)) {
            MSI_TRY(grid_stacks(b));
            MSI_TRY(stacks.add_small(b, whole));
            MSI_TRY(marks.end(&times->transform_s));
            if (marks.is_full()) MSI_TRY(finish());
            is_empty = false;
        }
        return is_empty ? MSI_OK : add_tower(tower, whole, sum);
    }

    /* Wait for the launched work. */
    int finish()
    {
        MSI_TRY(marks.sum());
        return msi_interrupt_check();
    }

    /* Add the tower's whole plane to the image, or its subgrids if there is no whole plane. */
    int add_tower(int tower, cplx<T> *whole, T *sum)
    {
        const gpu_range range("transform");
        MSI_TRY(whole ? stacks.add_whole(tower, whole, sum) : stacks.add_sums(as<cplx<T>>(d_whole), sum));
        MSI_TRY(marks.end(&times->transform_s));
        return finish();
    }

    /* Grid a batch's samples onto its small planes. */
    int grid_stacks(const stack_batch &b)
    {
        MSI_TRY(stacks.clear_small(b.n_slot));
        MSI_TRY(marks.end(&times->transform_s));
        const gpu_range range("grid");
        MSI_TRY(grid_items(samples.g, samples.job(stacks.small()), stacks.planes(b), b.crowded, b.sparse, on.get()));
        return marks.end(&times->grid_s);
    }

    /* A sample belongs to one subgrid of one tower, so each is written once. */
    int degrid(const T *model, cplx<T> *value) override
    {
        MSI_TRY(stacks.find_stacks());
        for (int t = samples.order.first_tower; t < samples.order.end_tower; t++) {
            bool is_made = false;
            stacks.begin_tower(t);
            stack_batch b;
            while (stacks.next_stacks(&b)) {
                if (!is_made) MSI_TRY(make_whole(t, model));
                is_made = true;
                MSI_TRY(degrid_stacks(b, value));
            }
        }
        return MSI_OK;
    }

    /* Make the whole plane of a model at a tower's w. */
    int make_whole(int tower, const T *model)
    {
        const stage_timer stage("transform", &times->transform_s);
        MSI_TRY(stacks.make_whole(tower, base::taper, model, false, as<cplx<T>>(d_whole)));
        return on.wait();
    }

    int degrid_stacks(const stack_batch &b, cplx<T> *value)
    {
        MSI_TRY(stacks.cut_stacks(b, as<cplx<T>>(d_whole)));
        const stage_timer stage("degrid", &times->grid_s);
        const small_planes planes = stacks.planes(b);
        msi_wgrid_degrid_call call = samples.degrid_call(stacks.small(), value, false);
        call.crowded = b.crowded.first;
        call.n_crowded = b.crowded.n;
        call.sparse = b.sparse.first;
        call.n_sparse = b.sparse.n;
        MSI_TRY(msi_wgrid_tower_cuda_degrid(&call, &planes));
        MSI_TRY(on.wait());
        return msi_interrupt_check();
    }
};

/* Memory for small planes. With much less, the gridding kernels have too little work. */
constexpr int64_t SMALL_BYTES = (int64_t)4 << 30;

} // namespace

int msi_wgrid_tower_cuda_tiles(msi_wgrid_plan *plan)
{
    msi_wgrid_geometry *g = &plan->grid;
    for (g->tile = TILE;; g->tile *= 2) {
        g->n_tile_u = (g->nu + 2 * g->width + g->tile) / g->tile;
        g->n_tile_v = (g->nv + 2 * g->width + g->tile) / g->tile;
        /* Include the rounding up of cores and towers. */
        int64_t most_u = g->n_tile_u + MSI_TOWER_MAX_CORE_TILES, most_v = g->n_tile_v + MSI_TOWER_MAX_CORE_TILES;
        if (most_u * most_v * 2 * g->n_w < (int64_t)UNUSED) return MSI_OK;
        if (g->tile >= 1 << 20)
            return msi_error_set(MSI_ERANGE, "%d w-planes are too many for w-towers on a GPU", g->n_w);
    }
}

int msi_wgrid_tower_cuda_small(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int64_t *n)
{
    const msi_subgrid_shape shape = shape_of(*plan, *towers);
    int64_t plane =
                (msi_subgrid_plane_cells(&shape) + msi_subgrid_row_cells(&shape)) * msi_complex_bytes(plan->precision),
            bytes = SMALL_BYTES;
    size_t free_bytes, total_bytes;
    MSI_TRY(msi_gpu_memory(plan->device, &free_bytes, &total_bytes));
    bytes = std::min(bytes, (int64_t)free_bytes / 8);
    const int64_t all = towers->n_sub_u * towers->n_sub_v * towers->n_plane;
    *n = std::max<int64_t>(std::min(bytes / plane, all), towers->n_plane);
    return MSI_OK;
}

int msi_wgrid_tower_cuda_whole(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_image, int lasts,
                               int64_t *n)
{
    int64_t all = (int64_t)towers->n_tower * n_image,
            bytes = all * plan->grid.nu * plan->grid.nv * msi_complex_bytes(plan->precision);
    size_t free_bytes, total_bytes;
    *n = 1;
    if (!lasts) return MSI_OK;
    MSI_TRY(msi_gpu_memory(plan->device, &free_bytes, &total_bytes));
    if (bytes <= (int64_t)free_bytes / 3) *n = all;
    return MSI_OK;
}

/* Count the device bytes of a request's samples, with their counters, and of small planes. */
template <typename T>
int stack_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_plan_request *r, int64_t n_small,
                int64_t *bytes)
{
    MSI_TRY(tower_imager<T>::counter_bytes(*plan, *towers, bytes));
    *bytes += tower_stacks<T>::bytes(*plan, *towers, n_small) +
              r->n_sample * wgrid_imager<T>::sample_bytes(r->spec->n_plane, r->spec->residual || r->n_image > 1,
                                                          r->spec->residual, r->spec->n_term);
    return MSI_OK;
}

int msi_wgrid_tower_cuda_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers,
                               const msi_plan_request *request, int64_t n_small, int64_t *host, int64_t *device)
{
    const int keeps_model = request->spec->predict && request->keeps_model;
    const int64_t whole = plan->grid.nu * plan->grid.nv * msi_complex_bytes(plan->precision);
    int64_t n_whole, stacks;
    MSI_TRY(msi_wgrid_tower_cuda_whole(plan, towers, request->n_image, keeps_model, &n_whole));
    MSI_TRY(plan->precision == MSI_FP32 ? stack_bytes<float>(plan, towers, request, n_small, &stacks)
                                        : stack_bytes<double>(plan, towers, request, n_small, &stacks));
    *host = towers->n_sub_u * towers->n_sub_v * (int64_t)(sizeof(core_start) + sizeof(uint32_t));
    /* cuFFT has a workspace of one plane */
    *device = (n_whole + 1) * whole + msi_wgrid_cuda_image_bytes(plan, request) + stacks;
    return MSI_OK;
}

int msi_wgrid_tower_cuda_image(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_vis_store *store,
                               const int *store_plane, int64_t n_small, msi_image *image, msi_stage_times *times)
{
    const bool several = image->n_plane > 1;
    return plan->precision == MSI_FP32 ? tower_imager<float>(plan, towers, n_small, several, false)
                                             .make_on_host(store, store_plane, image, times)
                                       : tower_imager<double>(plan, towers, n_small, several, false)
                                             .make_on_host(store, store_plane, image, times);
}

int msi_wgrid_tower_cuda_residual(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_residual_job *job,
                                  int64_t n_small, void **kept, msi_stage_times *times)
{
    const auto fp32 = [=] { return new tower_imager<float>(plan, towers, n_small, true, true); };
    const auto fp64 = [=] { return new tower_imager<double>(plan, towers, n_small, true, true); };
    return plan->precision == MSI_FP32 ? make_kept(kept, fp32, job, times) : make_kept(kept, fp64, job, times);
}

void msi_wgrid_tower_cuda_free_samples(void *kept)
{
    free_imager(kept);
}

/* ---- Degridding ---- */

/*
 * The transpose, with the steps of gridding in reverse: (1) copy the model to a tower's whole plane, and transform it;
 * (2) copy subgrids from it, and transform them; (3) multiply them by the screens of the planes that samples of the
 * batch need, and transform these back; (4) degrid the samples. A sample belongs to one subgrid of one tower, so it is
 * written once, without atomic additions, and the result is always the same.
 *
 * The whole planes of all towers and images are kept between batches if they take at most a third of the device's free
 * memory; otherwise there is one, which is made again for each batch.
 */

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
