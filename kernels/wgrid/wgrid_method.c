/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wgrid/wgrid_plan.h"

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/store/bucket_sort_cpu.h"
#include "kernels/wgrid/wgrid_cpu.h"
#include "kernels/wgrid/wgrid_cuda.h"
#include "kernels/wgrid/wgrid_planes_cpu.h"

#ifdef MSI_HAVE_CUDA
#endif

/* ---- Both strategies -------------------------------------------------------------------------------------------- */

void msi_wgrid_plan_free(msi_plan *plan)
{
    if (!plan) return;
    plan->form->free_model(plan->model_cache);
    plan->form->free_samples(plan->samples);
    msi_free(plan);
}

int msi_wgrid_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                    msi_stage_times *times)
{
    return plan->form->image(plan, store, store_plane, image, times);
}

int msi_wgrid_predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times)
{
    return plan->form->predict(plan, store, model, plan->keeps_model ? &plan->model_cache : NULL, times);
}

int msi_wgrid_residual(msi_plan *plan, const msi_residual_job *job, msi_stage_times *times)
{
    return plan->form->residual(plan, job, &plan->samples, times);
}

int64_t msi_wgrid_cpu_samples_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request)
{
    const msi_wgrid_geometry *g = &plan->grid;
    const msi_gridder_spec *s = request->spec;
    const int64_t n_bucket = (g->n_w - g->w_width + 1) * g->n_tile_u * g->n_tile_v;
    const int64_t order = request->n_sample * (int64_t)sizeof(msi_run) + n_bucket * (int64_t)sizeof(int64_t);
    const int n_plane = s->n_plane * (s->n_term > 1 ? s->n_term : 1);
    return order + (s->residual ? msi_residual_store_bytes(request->n_sample, n_plane, request->precision) : 0);
}

/* Image the PSFs of a job whose weights are multiplied by powers, n_term at a time. */
static int image_powers(const msi_plan *plan, const msi_residual_job *job, msi_residual_store *s,
                        msi_stage_times *times)
{
    const int64_t image_bytes = msi_image_n_pixel(&plan->wgrid.image) * msi_image_pixel_bytes(plan->wgrid.precision);
    int plane[MSI_STORE_MAX_PLANES];
    for (int i = 0; i < job->n_term; i++) plane[i] = i;
    for (int first = 0, n; first < job->n_image; first += n) {
        n = job->n_image - first < job->n_term ? job->n_image - first : job->n_term;
        msi_residual_store_powers(s, job->reference_hz, job->power + first, n);
        msi_image image = {plan->wgrid.image,
                           n,
                           plan->wgrid.precision,
                           (char *)job->pixel + first * image_bytes,
                           (double *)job->sum_weight + first,
                           NULL};
        MSI_TRY(plan->form->image(plan, &s->residual, plane, &image, times));
    }
    return MSI_OK;
}

/* Image the residuals of a job with several terms. */
static int image_terms(const msi_plan *plan, const msi_residual_job *job, msi_residual_store *s, msi_stage_times *times)
{
    int plane[MSI_STORE_MAX_PLANES];
    msi_image model = {
        plan->wgrid.image, job->store->n_plane * job->n_term, plan->wgrid.precision, (void *)job->model, NULL, NULL};
    msi_image image = {plan->wgrid.image,         job->n_image, plan->wgrid.precision, job->pixel,
                       (double *)job->sum_weight, NULL};
    if (job->model) MSI_TRY(plan->form->predict(plan, &s->residual, &model, NULL, times));
    msi_residual_store_subtract_terms(s, job->reference_hz, job->model != NULL);
    for (int i = 0; i < job->n_image; i++) plane[i] = job->store_plane[i] * job->n_term + job->power[i];
    return plan->form->image(plan, &s->residual, plane, &image, times);
}

int msi_wgrid_cpu_residual(const msi_plan *plan, const msi_residual_job *job, void **samples, msi_stage_times *times)
{
    const double t0 = msi_wall_s();
    msi_residual_store *s = *samples;
    if (!s) MSI_TRY(msi_residual_store_make(&s, job->store, msi_residual_terms(job), &plan->wgrid.grid));
    *samples = s;
    times->sort_s += msi_wall_s() - t0;
    if (job->n_term > 1) return (job->store_plane[0] < 0 ? image_powers : image_terms)(plan, job, s, times);
    /* Only the pixels of these images are read and written. The sums of weights are read. */
    msi_image model = {plan->wgrid.image, job->store->n_plane, plan->wgrid.precision, (void *)job->model, NULL, NULL};
    msi_image image = {plan->wgrid.image,         job->n_image, plan->wgrid.precision, job->pixel,
                       (double *)job->sum_weight, NULL};
    if (!job->model) return plan->form->image(plan, &s->data, job->store_plane, &image, times);
    MSI_TRY(plan->form->predict(plan, &s->residual, &model, NULL, times));
    msi_residual_store_subtract(s);
    return plan->form->image(plan, &s->residual, job->store_plane, &image, times);
}

void msi_wgrid_cpu_free_samples(void *samples)
{
    msi_residual_store_free(samples);
}

/* ---- Whole planes ----------------------------------------------------------------------------------------------- */

/* Functions and rates of a backend. */
typedef struct wgrid_backend {
    const msi_cost_model *cost;
    int uses_threads;                         /* the cost is for one OpenMP thread */
    int (*check)(const msi_wgrid_plan *plan); /* returns 0 if the backend can carry out the plan; NULL: it always can */
    /* bytes: find the bytes of host memory in addition to the store, and of device memory, with n_resident w-planes in
     * memory. resident: choose how many w-planes are in memory. Both may fail if a device cannot report its memory. */
    int (*bytes)(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t n_resident, int64_t *host,
                 int64_t *device);
    int (*resident)(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t *n_resident);
    msi_wgrid_form form;
} wgrid_backend;

static int cpu_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t n_resident, int64_t *host,
                     int64_t *device)
{
    /* If planes are kept between batches, each image has its own planes. */
    const int keeps_all = request->keeps_model && n_resident == plan->grid.n_w;
    *host = (keeps_all ? n_resident * request->n_image * msi_wgrid_plane_bytes(plan)
                       : n_resident * msi_wgrid_cpu_plane_bytes(plan)) +
            msi_wgrid_cpu_image_bytes(plan) + msi_wgrid_cpu_samples_bytes(plan, request);
    *device = 0;
    return MSI_OK;
}

static int cpu_resident(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t *n_resident)
{
    int64_t rest, device, n_w = plan->grid.n_w;
    MSI_TRY(cpu_bytes(plan, request, 0, &rest, &device));
    int64_t left = request->host_bytes - rest;
    /* Keep all planes of all images if that leaves half of the memory. */
    const int keeps_all = request->keeps_model && request->n_image * n_w * msi_wgrid_plane_bytes(plan) < left / 2;
    *n_resident = keeps_all ? n_w : msi_wgrid_cpu_resident(plan, request->n_sample, left);
    return MSI_OK;
}

static int cpu_image(const msi_plan *p, const msi_vis_store *store, const int *store_plane, msi_image *image,
                     msi_stage_times *times)
{
    return msi_wgrid_cpu_image(&p->wgrid, store, store_plane, p->n_resident, image, times);
}

static int cpu_predict(const msi_plan *p, msi_vis_store *store, const msi_image *model, void **model_cache,
                       msi_stage_times *times)
{
    return msi_wgrid_cpu_predict(&p->wgrid, store, model, p->n_resident, model_cache, times);
}

static const wgrid_backend cpu = {.cost = &msi_wgrid_cpu_cost,
                                  .uses_threads = 1,
                                  .bytes = cpu_bytes,
                                  .resident = cpu_resident,
                                  .form = {.image = cpu_image,
                                           .predict = cpu_predict,
                                           .free_model = msi_wgrid_cpu_free_model,
                                           .residual = msi_wgrid_cpu_residual,
                                           .free_samples = msi_wgrid_cpu_free_samples}};
#ifdef MSI_HAVE_CUDA
/* Rates of one H200, rounded, measured by the rows plan/ of msimage-bench. Only ratios matter. Whole transforms have
 * the rate of cuFFT. The time of a sample includes its sort; taps are cheap on tensor cores. A plane takes at
 * least the time of launching its kernels, which dominates for small images. */
const msi_cost_model msi_wgrid_cuda_cost = {
    .fft_flop_s = 5.5e12, .pixel_s = 7e-12, .sample_s = 9e-11, .tap_s = 2e-13, .lanes = 4, .plane_s = 1.1e-5};

static int cuda_image(const msi_plan *p, const msi_vis_store *store, const int *store_plane, msi_image *image,
                      msi_stage_times *times)
{
    return msi_wgrid_cuda_image(&p->wgrid, store, store_plane, p->n_resident, image, times);
}

static int cuda_predict(const msi_plan *p, msi_vis_store *store, const msi_image *model, void **model_cache,
                        msi_stage_times *times)
{
    return msi_wgrid_cuda_predict(&p->wgrid, store, model, p->n_resident, model_cache, times);
}

static int cuda_residual(const msi_plan *p, const msi_residual_job *job, void **samples, msi_stage_times *times)
{
    return msi_wgrid_cuda_residual(&p->wgrid, job, p->n_resident, samples, times);
}

static const wgrid_backend cuda = {.cost = &msi_wgrid_cuda_cost,
                                   .check = msi_wgrid_cuda_check,
                                   .bytes = msi_wgrid_cuda_bytes,
                                   .resident = msi_wgrid_cuda_resident,
                                   .form = {.image = cuda_image,
                                            .predict = cuda_predict,
                                            .free_model = msi_wgrid_cuda_free_model,
                                            .residual = cuda_residual,
                                            .free_samples = msi_wgrid_cuda_free_samples}};
#endif

/* From this number of cells on, cuFFT of CUDA 13 always uses a work area as large as the plane (on an H200); for some
 * smaller planes it uses none. */
static const int64_t WORKED_CELLS = 8192 * 8192;

/* Report a plan's figures. */
static int report_plan(const msi_plan *p, const wgrid_backend *backend, const msi_plan_request *request,
                       msi_gridder_report *r)
{
    const int n_unit = backend->uses_threads ? msi_plan_threads(request) : 1;
    int64_t device;
    msi_wgrid_plan_report(&p->wgrid, r);
    r->n_w_resident = p->n_resident;
    r->estimate_s = p->wgrid.cost_s * request->n_image / n_unit;
    r->sample_bytes = backend->uses_threads ? msi_wgrid_cpu_samples_bytes(&p->wgrid, request) : 0;
    r->work_bytes = backend->uses_threads ? msi_wgrid_cpu_image_bytes(&p->wgrid) : 0;
    r->kept_bytes = request->spec->residual ? r->sample_bytes : 0;
    r->least_device_bytes =
        backend->uses_threads ? 0 : msi_wgrid_plan_least_device_bytes(&p->wgrid, request, WORKED_CELLS);
    MSI_TRY(backend->bytes(&p->wgrid, request, 1, &r->least_grid_bytes, &device));
    return backend->bytes(&p->wgrid, request, p->n_resident, &r->grid_bytes, &r->device_bytes);
}

static int make_plan(msi_plan **out, const msi_strategy *strategy, const msi_plan_request *request,
                     msi_gridder_report *r)
{
    const msi_gridder_spec *s = request->spec;
    const wgrid_backend *backend = &cpu;
#ifdef MSI_HAVE_CUDA
    if (strategy->backend == MSI_BACKEND_CUDA) backend = &cuda;
#else
    (void)strategy;
#endif
    msi_plan *p;
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "plan"));
    const msi_wgrid_request wanted =
        msi_wgrid_request_of(request, s->plan_for == MSI_BACKEND_CPU ? &msi_wgrid_cpu_cost : backend->cost);
    int rc = msi_wgrid_plan_make(&p->wgrid, &wanted);
    if (!rc && backend->uses_threads) msi_wgrid_plan_find_parts(&p->wgrid, request);
    if (!rc && backend->check) rc = backend->check(&p->wgrid);
    if (!rc) rc = backend->resident(&p->wgrid, request, &p->n_resident);
    if (!rc) rc = report_plan(p, backend, request, r);
    if (rc) {
        msi_free(p);
        return rc;
    }
    p->form = &backend->form;
    p->keeps_model = request->keeps_model;
    *out = p;
    return MSI_OK;
}

const msi_strategy_ops msi_wgrid_cpu_ops = {.plan = make_plan,
                                            .free = msi_wgrid_plan_free,
                                            .image = msi_wgrid_image,
                                            .predict = msi_wgrid_predict,
                                            .residual = msi_wgrid_residual};
#ifdef MSI_HAVE_CUDA
const msi_strategy_ops msi_wgrid_cuda_ops = {.plan = make_plan,
                                             .free = msi_wgrid_plan_free,
                                             .image = msi_wgrid_image,
                                             .predict = msi_wgrid_predict,
                                             .residual = msi_wgrid_residual};
#endif
