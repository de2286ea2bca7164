/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wgrid/wgrid_method.h"

#include "core/memory.h"
#include "core/status.h"
#include "kernels/wgrid/wgrid_degrid_cpu.h"
#include "kernels/wgrid/wgrid_cpu.h"
#include "kernels/store/bucket_sort_cpu.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/wgrid/wgrid_cuda.h"
#endif

/* The functions and rates in which the backends differ. */
typedef struct wgrid_backend {
    const msi_cost_model *cost;
    int uses_threads;                         /* the cost is that of one of OpenMP's threads */
    int (*check)(const msi_wgrid_plan *plan); /* returns 0 where it can do what is planned; NULL: it always can */
    /* Gives the bytes of host memory beside the store, and of device memory, with n_resident w-planes at once. */
    void (*bytes)(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t n_resident, int64_t *host,
                  int64_t *device);
    int64_t (*resident)(const msi_wgrid_plan *plan, const msi_plan_request *request); /* w-planes to have at once */
    int (*image)(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane, int64_t n_resident,
                 msi_image *image, msi_stage_times *times);
    /* *model_cache: the backend's own, NULL at first, for the next call with the same model; freed by forget.
     * model_cache itself NULL: nothing is kept. */
    int (*predict)(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident,
                   void **model_cache, msi_stage_times *times);
    void (*forget)(void *model_cache);
} wgrid_backend;

struct msi_plan {
    msi_wgrid_plan wgrid;
    const wgrid_backend *backend;
    int64_t n_resident;
    int keeps_model;
    void *model_cache;
};

static void cpu_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t n_resident, int64_t *host,
                      int64_t *device)
{
    const msi_wgrid_geometry *g = &plan->grid;
    int64_t n_bucket = (g->n_w - g->w_width + 1) * g->n_tile_u * g->n_tile_v;
    /* Planes that are kept from filling to filling are those of every image. */
    int64_t n_w_plane = request->keeps_model && n_resident == g->n_w ? n_resident * request->n_image : n_resident;
    *host = n_w_plane * msi_wgrid_cpu_plane_bytes(plan) + msi_wgrid_cpu_image_bytes(plan) +
            request->n_sample * (int64_t)sizeof(msi_run) + n_bucket * (int64_t)sizeof(int64_t);
    *device = 0;
}

static int64_t cpu_resident(const msi_wgrid_plan *plan, const msi_plan_request *request)
{
    int64_t rest, device, n_w = plan->grid.n_w;
    cpu_bytes(plan, request, 0, &rest, &device);
    int64_t left = request->host_bytes - rest;
    /* All planes of all images are kept where that leaves half of the memory. */
    if (request->keeps_model && request->n_image * n_w * msi_wgrid_cpu_plane_bytes(plan) < left / 2) return n_w;
    return msi_wgrid_cpu_resident(plan, request->n_sample, left);
}

#ifdef MSI_HAVE_CUDA
static void cuda_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t n_resident, int64_t *host,
                       int64_t *device)
{
    msi_wgrid_cuda_bytes(plan, request->n_sample, request->n_image, n_resident, host, device);
}

static int64_t cuda_resident(const msi_wgrid_plan *plan, const msi_plan_request *request)
{
    return msi_wgrid_cuda_resident(plan, request->n_image, request->n_sample, request->host_bytes);
}
#endif

static const wgrid_backend cpu = {.cost = &msi_wgrid_cpu_cost,
                                  .uses_threads = 1,
                                  .bytes = cpu_bytes,
                                  .resident = cpu_resident,
                                  .image = msi_wgrid_cpu_image,
                                  .predict = msi_wgrid_cpu_predict,
                                  .forget = msi_wgrid_cpu_forget};
#ifdef MSI_HAVE_CUDA
static const wgrid_backend cuda = {.cost = &msi_wgrid_cuda_cost,
                                   .check = msi_wgrid_cuda_check,
                                   .bytes = cuda_bytes,
                                   .resident = cuda_resident,
                                   .image = msi_wgrid_cuda_image,
                                   .predict = msi_wgrid_cuda_predict,
                                   .forget = msi_wgrid_cuda_forget};
#endif

static int make(msi_plan **out, const wgrid_backend *backend, const msi_plan_request *request, msi_gridder_report *r)
{
    const msi_gridder_spec *s = request->spec;
    msi_plan *p;
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "plan"));
    const msi_wgrid_request wanted =
        msi_wgrid_request_of(request, s->plan_for == MSI_BACKEND_CPU ? &msi_wgrid_cpu_cost : backend->cost);
    int rc = msi_wgrid_plan_make(&p->wgrid, &wanted);
    if (!rc && backend->check) rc = backend->check(&p->wgrid);
    if (rc) {
        msi_free(p);
        return rc;
    }
    p->backend = backend;
    p->keeps_model = request->keeps_model;
    p->n_resident = backend->resident(&p->wgrid, request);
    const int n_unit = backend->uses_threads ? msi_plan_threads(request) : 1;
    int64_t device;
    msi_wgrid_plan_report(&p->wgrid, r);
    r->n_w_resident = p->n_resident;
    r->estimate_s = p->wgrid.cost_s * request->n_image / n_unit;
    backend->bytes(&p->wgrid, request, 1, &r->least_grid_bytes, &device);
    backend->bytes(&p->wgrid, request, p->n_resident, &r->grid_bytes, &r->device_bytes);
    *out = p;
    return MSI_OK;
}

static int cpu_plan(msi_plan **out, const msi_strategy *strategy, const msi_plan_request *request,
                    msi_gridder_report *report)
{
    (void)strategy;
    return make(out, &cpu, request, report);
}

#ifdef MSI_HAVE_CUDA
static int cuda_plan(msi_plan **out, const msi_strategy *strategy, const msi_plan_request *request,
                     msi_gridder_report *report)
{
    (void)strategy;
    return make(out, &cuda, request, report);
}
#endif

static void free_plan(msi_plan *plan)
{
    if (!plan) return;
    plan->backend->forget(plan->model_cache);
    msi_free(plan);
}

static int image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *out,
                 msi_stage_times *times)
{
    return plan->backend->image(&plan->wgrid, store, store_plane, plan->n_resident, out, times);
}

static int predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times)
{
    return plan->backend->predict(&plan->wgrid, store, model, plan->n_resident,
                                  plan->keeps_model ? &plan->model_cache : NULL, times);
}

const msi_strategy_ops msi_wgrid_cpu_ops = {.plan = cpu_plan, .free = free_plan, .image = image, .predict = predict};
#ifdef MSI_HAVE_CUDA
const msi_strategy_ops msi_wgrid_cuda_ops = {.plan = cuda_plan, .free = free_plan, .image = image, .predict = predict};
#endif
