/* SPDX-License-Identifier: GPL-3.0-or-later */

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/towers/tower_plan.h"
#include "kernels/towers/wgrid_tower_cuda.h"
#include "kernels/wgrid/wgrid_cpu.h"
#include "kernels/wgrid/wgrid_plan.h"
#include "kernels/wgrid/wgrid_planes_cpu.h"

#ifdef MSI_HAVE_CUDA
#include "kernels/wgrid/wgrid_cuda.h"
#include "kernels/towers/wgrid_tower_cuda.h"
#include "kernels/transform/image_fft_cuda.h"
#endif

/* The part of the accuracy for screens that wrap around subgrids. Windows have 0.7 of it; the root of the sum of
 * squares is below 1. */
static const double TOWERS_PART = 0.5;

/* If whole planes of all images take less time than this, planning towers takes longer than towers could save. */
static const double LEAST_PLANES_S = 0.025;

/* Number of widths that are tried, from the best one for whole planes down. Narrower windows need more padding but
 * fewer planes, which may be better for towers. */
enum { WIDTHS_TRIED = 4 };

/* The functions and rates in which the backends differ. n_resident counts planes in memory: whole ones on the CPU,
 * small ones on a GPU. */
typedef struct tower_backend {
    const msi_cost_model *whole;
    const msi_tower_cost *small;
    int uses_threads;                  /* the cost is for one OpenMP thread */
    int64_t (*padded_size)(int64_t n); /* as in msi_wgrid_request */
    int (*lay_tiles)(msi_wgrid_plan *plan);
    /* These may fail if a device cannot report its memory. */
    int (*resident)(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_plan_request *request,
                    int64_t *n_resident);
    int (*bytes)(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_plan_request *request,
                 int64_t n_resident, int64_t *host, int64_t *device);
    msi_wgrid_form form;
} tower_backend;

typedef struct tower_plan {
    msi_plan common; /* must be first: strategies use a pointer to it */
    msi_tower_plan towers;
} tower_plan;

static const msi_tower_plan *towers_of(const msi_plan *plan)
{
    return &((const tower_plan *)plan)->towers;
}

/* ---- CPU: whole planes in memory --------------------------------------------------------------------------------- */

static int cpu_lay_tiles(msi_wgrid_plan *plan)
{
    /* Small tiles give more choice of subgrids. The table of buckets may take an eighth of the size of a plane in
     * fp32. */
    int64_t cells = plan->grid.nu * plan->grid.nv;
    msi_wgrid_plan_lay_tiles(plan, cells / 8 > 1 << 24 ? cells / 8 : 1 << 24);
    return MSI_OK;
}

static int cpu_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_plan_request *request,
                     int64_t n_resident, int64_t *host, int64_t *device)
{
    int n_thread = msi_plan_threads(request);
    const int64_t images = msi_wgrid_tower_cpu_bytes(plan, towers, n_thread);
    const int64_t predicts = msi_wgrid_tower_cpu_predict_bytes(plan, towers, n_thread, n_resident);
    const msi_gridder_spec *s = request->spec;
    *host = s->predict ? predicts : s->residual && predicts > images ? predicts : images;
    *host += msi_wgrid_cpu_image_bytes(plan) + msi_wgrid_cpu_samples_bytes(plan, request);
    *device = 0;
    return MSI_OK;
}

/* Keep every tower's plane of every image if that leaves half of the memory. */
static int cpu_resident(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_plan_request *request,
                        int64_t *n_resident)
{
    int64_t rest, device, all = (int64_t)request->n_image * towers->n_tower;
    MSI_TRY(cpu_bytes(plan, towers, request, 0, &rest, &device));
    const int keeps_all = request->keeps_model && all * msi_wgrid_plane_bytes(plan) < (request->host_bytes - rest) / 2;
    *n_resident = keeps_all ? all : 1;
    return MSI_OK;
}

static int cpu_image(const msi_plan *p, const msi_vis_store *store, const int *store_plane, msi_image *image,
                     msi_stage_times *times)
{
    return msi_wgrid_tower_cpu_image(&p->wgrid, towers_of(p), store, store_plane, image, times);
}

static int cpu_predict(const msi_plan *p, msi_vis_store *store, const msi_image *model, void **model_cache,
                       msi_stage_times *times)
{
    const msi_tower_plan *towers = towers_of(p);
    const int keeps = p->n_resident == (int64_t)model->n_plane * towers->n_tower;
    return msi_wgrid_tower_cpu_predict(&p->wgrid, towers, store, model, keeps, model_cache, times);
}

static const tower_backend cpu = {.whole = &msi_wgrid_cpu_cost,
                                  .small = &msi_wgrid_tower_cpu_cost,
                                  .uses_threads = 1,
                                  .lay_tiles = cpu_lay_tiles,
                                  .resident = cpu_resident,
                                  .bytes = cpu_bytes,
                                  .form = {.image = cpu_image,
                                           .predict = cpu_predict,
                                           .free_model = msi_wgrid_tower_cpu_free_model,
                                           .residual = msi_wgrid_cpu_residual,
                                           .free_samples = msi_wgrid_cpu_free_samples}};

/* ---- GPU: small planes in memory --------------------------------------------------------------------------------- */

#ifdef MSI_HAVE_CUDA
/* Sizes to choose from. 320 is left out, because its columns allow fewer warps than those of 256, and it saves
 * little. */
static const int32_t cuda_sizes[] = {64, 96, 128, 160, 192, 256, 384, 512};

/*
 * Rates of one H200, rounded: a least-squares fit to measurements of msimage-bench for the plans of the rows plan/. The
 * time of small planes is proportional to their filled rows, transforms included. A tower's whole plane is transformed
 * by the project's own kernels, which take half the time of cuFFT and a screen for a w-plane. A cell of small planes
 * beyond a megabyte takes 1 to 7 ps more than one of planes of 256, doubles most: fewer columns are in flight. Of a
 * sample's 90 ps, 60 are its sort. In double precision planes and towers take 2.4 times as long, and samples 1.65 times
 * (a subgrid's gridding is a part of both). The additional kernel launches of a call take 40 us.
 */
const msi_tower_cost msi_wgrid_tower_cuda_cost = {.fft_flop_s = HUGE_VAL,
                                                  .far_cell_s = 3e-12,
                                                  .near_bytes = 1 << 20,
                                                  .size = cuda_sizes,
                                                  .n_size = sizeof cuda_sizes / sizeof *cuda_sizes,
                                                  .filled_s = 1.15e-11,
                                                  .subgrid_s = 8e-7,
                                                  .tower_s = 3e-5,
                                                  .call_s = 4e-5,
                                                  .whole_flop_s = 9.5e12,
                                                  .sort_s = 6e-11,
                                                  .fp64_planes = 1.45};

static int cuda_resident(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_plan_request *request,
                         int64_t *n_resident)
{
    (void)request;
    return msi_wgrid_tower_cuda_small(plan, towers, n_resident);
}

static int cuda_image(const msi_plan *p, const msi_vis_store *store, const int *store_plane, msi_image *image,
                      msi_stage_times *times)
{
    return msi_wgrid_tower_cuda_image(&p->wgrid, towers_of(p), store, store_plane, p->n_resident, image, times);
}

static int cuda_predict(const msi_plan *p, msi_vis_store *store, const msi_image *model, void **model_cache,
                        msi_stage_times *times)
{
    return msi_wgrid_tower_cuda_predict(&p->wgrid, towers_of(p), store, model, p->n_resident, model_cache, times);
}

static int cuda_residual(const msi_plan *p, const msi_residual_job *job, void **samples, msi_stage_times *times)
{
    return msi_wgrid_tower_cuda_residual(&p->wgrid, towers_of(p), job, p->n_resident, samples, times);
}

static const tower_backend cuda = {.whole = &msi_wgrid_cuda_cost,
                                   .small = &msi_wgrid_tower_cuda_cost,
                                   .padded_size = msi_image_fft_size,
                                   .lay_tiles = msi_wgrid_tower_cuda_tiles,
                                   .resident = cuda_resident,
                                   .bytes = msi_wgrid_tower_cuda_bytes,
                                   .form = {.image = cuda_image,
                                            .predict = cuda_predict,
                                            .free_model = msi_wgrid_tower_cuda_free_model,
                                            .residual = cuda_residual,
                                            .free_samples = msi_wgrid_tower_cuda_free_samples}};
#endif

/* ---- Plans ------------------------------------------------------------------------------------------------------ */

static const tower_backend *backend_of(msi_backend backend)
{
#ifdef MSI_HAVE_CUDA
    if (backend == MSI_BACKEND_CUDA) return &cuda;
#else
    (void)backend;
#endif
    return &cpu;
}

/* Choose the cheapest towers of all widths that are tried. */
static int choose_towers(tower_plan *p, const tower_backend *backend, const msi_plan_request *request)
{
    const msi_gridder_spec *s = request->spec;
    int for_cpu = s->plan_for == MSI_BACKEND_CPU, rc = MSI_OK;
    const msi_cost_model *whole = for_cpu ? cpu.whole : backend->whole;
    msi_tower_cost small = for_cpu ? *cpu.small : *backend->small;
    msi_wgrid_plan best;
    msi_wgrid_request wanted = msi_wgrid_request_of(request, whole);
    small.off_centre = backend->small->off_centre;
    wanted.padded_size = for_cpu ? cpu.padded_size : backend->padded_size;
    if (s->pins.subgrid) {
        small.size = &s->pins.subgrid;
        small.n_size = 1;
    }
    MSI_TRY(msi_wgrid_plan_make(&best, &wanted));
    int asked = !msi_strategy_is_open(s->strategy), tried = s->pins.width ? 1 : WIDTHS_TRIED;
    if (!asked && request->n_image * (best.cost_s - best.sample_cost_s) < LEAST_PLANES_S)
        return msi_error_about(
            msi_error_set(MSI_ERANGE, "strategy: w-planes take too little time for w-towers to save any"), "strategy");
    /* The best width comes last, so that its error is returned if no towers are possible. */
    for (int width = best.grid.w_width - (tried - 1); width <= best.grid.w_width; width++) {
        msi_wgrid_plan plan = best;
        msi_tower_load load;
        msi_tower_plan towers;
        wanted.least_width = wanted.most_width = width;
        if (width < best.grid.w_width && (width < MSI_PSWF_MIN_WIDTH || msi_wgrid_plan_make(&plan, &wanted))) continue;
        rc = backend->lay_tiles(&plan);
        if (!rc) rc = msi_tower_load_make(&load, &plan, request->store, request->n_sample);
        if (!rc) rc = msi_tower_plan_make(&towers, &plan, TOWERS_PART * s->accuracy, &load, whole, &small);
        if (rc && rc != MSI_ERANGE) return rc;
        if (!rc) towers.cost_s += small.call_s / request->n_image;
        if (rc || (p->towers.size && towers.cost_s >= p->towers.cost_s)) continue;
        p->common.wgrid = plan;
        p->towers = towers;
    }
    return p->towers.size ? MSI_OK : rc;
}

/* The project's own transforms need no work area. Those of larger planes are cuFFT's: it needs a plane for their
 * rows. */
static const int64_t WORKED_CELLS = (int64_t)32768 * 32768;

/* Report a plan's figures. */
static int report_tower_plan(const tower_plan *p, const tower_backend *backend, const msi_plan_request *request,
                             msi_gridder_report *r)
{
    const int n_unit = backend->uses_threads ? msi_plan_threads(request) : 1;
    const msi_wgrid_plan *wgrid = &p->common.wgrid;
    msi_wgrid_plan_report(wgrid, r);
    r->n_w_resident = 1;
    r->n_tower = p->towers.n_tower;
    r->tower_planes = p->towers.n_plane;
    r->subgrid = p->towers.size;
    r->error_estimate = hypot(wgrid->error_estimate, p->towers.error);
    r->estimate_s = p->towers.cost_s * request->n_image / n_unit;
    const int64_t least = backend->uses_threads ? 1 : p->common.n_resident;
    int64_t device;
    r->sample_bytes = backend->uses_threads ? msi_wgrid_cpu_samples_bytes(wgrid, request) : 0;
    r->work_bytes = backend->uses_threads ? msi_wgrid_cpu_image_bytes(wgrid) : 0;
    r->kept_bytes = request->spec->residual ? r->sample_bytes : 0;
    r->least_device_bytes = backend->uses_threads ? 0 : msi_wgrid_plan_least_device_bytes(wgrid, request, WORKED_CELLS);
    MSI_TRY(backend->bytes(wgrid, &p->towers, request, least, &r->least_grid_bytes, &device));
    return backend->bytes(wgrid, &p->towers, request, p->common.n_resident, &r->grid_bytes, &r->device_bytes);
}

static int make_tower_plan(msi_plan **out, const msi_strategy *strategy, const msi_plan_request *request,
                           msi_gridder_report *r)
{
    const tower_backend *backend = backend_of(strategy->backend);
    tower_plan *p;
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "plan"));
    int rc = choose_towers(p, backend, request);
    if (!rc && backend->uses_threads) msi_wgrid_plan_find_parts(&p->common.wgrid, request);
    if (!rc) rc = backend->resident(&p->common.wgrid, &p->towers, request, &p->common.n_resident);
    if (!rc) rc = report_tower_plan(p, backend, request, r);
    if (rc) {
        msi_free(p);
        return rc;
    }
    p->common.form = &backend->form;
    p->common.keeps_model = request->keeps_model;
    *out = &p->common;
    return MSI_OK;
}

static const tower_backend *backend_of_plan(const msi_plan *plan)
{
    return plan->form == &cpu.form ? &cpu : backend_of(MSI_BACKEND_CUDA);
}

/* Make the plan of the subgrids [cut[0], cut[1]) on a device. */
static int make_share(msi_plan **out, const msi_plan *whole, const msi_plan_request *request, int device,
                      const int64_t *cut)
{
    tower_plan *p;
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "plan"));
    *p = *(const tower_plan *)whole;
    p->common.model_cache = p->common.samples = NULL;
    p->common.wgrid.device = device;
    p->towers.first_core = cut[0];
    p->towers.end_core = cut[1];
    const int rc = backend_of_plan(whole)->resident(&p->common.wgrid, &p->towers, request, &p->common.n_resident);
    if (rc)
        msi_free(p);
    else
        *out = &p->common;
    return rc;
}

static int share_plan(msi_plan **out, const msi_plan *whole, const msi_plan_request *request, const msi_share *to,
                      int n)
{
    int64_t *cut;
    MSI_TRY(msi_alloc(&cut, n + 1, sizeof *cut, "w-tower plan"));
    int rc = msi_tower_cut(cut, &whole->wgrid, towers_of(whole), backend_of_plan(whole)->small, request->store, to, n);
    for (int i = 0; !rc && i < n; i++) rc = make_share(&out[i], whole, request, to[i].device, cut + i);
    msi_free(cut);
    return rc;
}

const msi_strategy_ops msi_wgrid_tower_cpu_ops = {.plan = make_tower_plan,
                                                  .free = msi_wgrid_plan_free,
                                                  .image = msi_wgrid_image,
                                                  .predict = msi_wgrid_predict,
                                                  .residual = msi_wgrid_residual,
                                                  .share = share_plan};
#ifdef MSI_HAVE_CUDA
const msi_strategy_ops msi_wgrid_tower_cuda_ops = {.plan = make_tower_plan,
                                                   .free = msi_wgrid_plan_free,
                                                   .image = msi_wgrid_image,
                                                   .predict = msi_wgrid_predict,
                                                   .residual = msi_wgrid_residual,
                                                   .share = share_plan};
#endif
