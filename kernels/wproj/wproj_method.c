/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wproj/wproj_plan.h"

#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/wproj/wproj_cpu.h"
#ifdef MSI_HAVE_WPROJ_CUDA
#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/wproj_cuda.h"
#endif

struct msi_plan {
    msi_wproj_plan wproj;
    msi_wkernel_set kernels; /* made when they are first needed */
    int has_kernels;
    msi_wproj_cpu_form cpu;
#ifdef MSI_HAVE_WPROJ_CUDA
    msi_wproj_cuda_form images;
    msi_wproj_predict_form predicts;
    int device;      /* CUDA ordinal */
    int keeps_model; /* 1: later predictions have the same model */
    void *kept;      /* the memory of a prediction, kept for the next one if keeps_model */
#endif
};

/* What a strategy supports. If the flags are 0, it supports all kernels, but no texture units. */
typedef struct wproj_strategy {
    const char *name;  /* name of the row */
    const char *label; /* name in messages, which says if it runs on the CPU */
    int full_only;     /* 1: supports only full kernels of the nearest sub-cell */
    int full_nearest;  /* 1: does not interpolate full kernels, but separable ones */
    int textures;      /* 1: also interpolates by texture units, in fp32 */
    const msi_wproj_cost *cost;
    msi_wproj_cpu_form cpu;
#ifdef MSI_HAVE_WPROJ_CUDA
    msi_wproj_cuda_form images;
    msi_wproj_predict_form predicts;
#endif
} wproj_strategy;

/* Find a row by its name, which must exist. */
static const wproj_strategy *find_wproj_strategy(const wproj_strategy *all, const msi_strategy *row)
{
    while (strcmp(all->name, row->name) != 0) all++;
    return all;
}

/* The time of plain loops divided by that of vectorised loops. */
static const double PLAIN_TIMES = 20;

/* Kernels may use a quarter of the remaining memory, at least 16 MiB and at most 1 GiB. Larger tables would be slow,
 * because caches have a smaller part of them. */
static int64_t host_table_bytes(int64_t host_bytes)
{
    const int64_t most = (int64_t)1 << 30, least = (int64_t)1 << 24;
    int64_t quarter = host_bytes / 4;
    return quarter > most ? most : quarter < least ? least : quarter;
}

static int choose_lookup(const wproj_strategy *a, const msi_plan_request *request, msi_wproj_request *wanted)
{
    const msi_kernel_lookup asked = request->spec->kernel;
    if (asked == MSI_KERNEL_TEXTURE && (!a->textures || request->precision != MSI_FP32))
        return msi_error_about(msi_error_set(MSI_ERANGE,
                                             "kernel texture is for strategy window in fp32 on a GPU, not for %s in %s",
                                             a->label, request->precision == MSI_FP32 ? "fp32" : "fp64"),
                               "kernel");
    if (asked == MSI_KERNEL_LINEAR && a->full_only)
        return msi_error_about(
            msi_error_set(MSI_ERANGE, "kernel linear: strategy %s on a GPU has only kernels of the nearest sub-cell",
                          a->name),
            "kernel");
    wanted->lookup = a->full_only ? MSI_KERNEL_NEAREST : asked;
    wanted->form = a->full_only ? MSI_WPROJ_FORM_FULL : MSI_WPROJ_FORM_AUTO;
    wanted->full_nearest = a->full_nearest;
    return MSI_OK;
}

static int make_wproj_plan(msi_plan **out, const wproj_strategy *strategy, int64_t table_bytes,
                           const msi_plan_request *request, msi_gridder_report *r)
{
    const msi_gridder_spec *s = request->spec;
    msi_wproj_request wanted = {.image = s->geometry,
                                .accuracy = s->accuracy,
                                .precision = request->precision,
                                .least_padding = s->least_padding,
                                .n_image = request->n_image,
                                .n_sample = request->n_sample,
                                .w_min_lambda = request->w_min_lambda,
                                .w_max_lambda = request->w_max_lambda,
                                .n_slice = s->n_slice,
                                .table_bytes = table_bytes,
                                .cost = s->plan_for == MSI_BACKEND_CPU ? &msi_wproj_cpu_cost : strategy->cost};
    MSI_TRY(choose_lookup(strategy, request, &wanted));
    msi_plan *p;
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "plan"));
    int rc = msi_wproj_plan_make(&p->wproj, &wanted);
    if (rc) {
        msi_free(p);
        return rc;
    }
    const msi_wproj_geometry *g = &p->wproj.grid;
    r->width = 2 * p->wproj.half_max + 1;
    r->w_width = 1;
    r->nu = g->nu;
    r->nv = g->nv;
    r->n_w = g->n_slice;
    r->n_w_resident = 1;
    r->w_step = g->slice_step;
    r->error_estimate = p->wproj.error_estimate;
    r->estimate_s = p->wproj.cost_s;
    *out = p;
    return MSI_OK;
}

static int cpu_plan(msi_plan **out, const msi_strategy *row, const msi_plan_request *request, msi_gridder_report *r)
{
    static const wproj_strategy all[] = {
        {"tile", "tile on the CPU", .cost = &msi_wproj_cpu_cost, .cpu = MSI_WPROJ_CPU_TILE},
        {"window", "window on the CPU", .cost = &msi_wproj_cpu_cost, .cpu = MSI_WPROJ_CPU_WINDOW},
        {"gather", "gather on the CPU", .cost = &msi_wproj_cpu_cost, .cpu = MSI_WPROJ_CPU_REFERENCE},
        {"scatter", "scatter on the CPU", .cost = &msi_wproj_cpu_cost, .cpu = MSI_WPROJ_CPU_SCATTER}};
    const wproj_strategy *strategy = find_wproj_strategy(all, row);
    MSI_TRY(make_wproj_plan(out, strategy, host_table_bytes(request->host_bytes), request, r));
    (*out)->cpu = strategy->cpu;
    r->estimate_s /= msi_plan_threads(request);
    if (strategy->cpu != MSI_WPROJ_CPU_TILE) r->estimate_s *= PLAIN_TIMES;
    r->grid_bytes = r->least_grid_bytes = msi_wproj_box_bytes(&(*out)->wproj, request->n_sample);
    r->device_bytes = r->least_device_bytes = 0;
    return MSI_OK;
}

static void free_plan(msi_plan *plan)
{
    if (!plan) return;
#ifdef MSI_HAVE_WPROJ_CUDA
    msi_wproj_cuda_forget(plan->kept);
    msi_wkernel_free_cuda(&plan->kernels);
#else
    msi_wkernel_free(&plan->kernels);
#endif
    msi_wproj_plan_free(&plan->wproj);
    msi_free(plan);
}

#ifdef MSI_HAVE_WPROJ_CUDA
static int make_on_device(msi_plan *p, const msi_wkernel_spec *spec)
{
    const msi_gpu_stream gpu = {.device = p->device};
    return msi_wkernel_make_cuda(&p->kernels, &gpu, spec);
}
#endif

static int make_on_host(msi_plan *p, const msi_wkernel_spec *spec)
{
    return msi_wkernel_make(&p->kernels, spec);
}

/* Make the plan's kernels, unless they exist already. */
static int make_kernels(msi_plan *p, int (*maker)(msi_plan *p, const msi_wkernel_spec *spec))
{
    if (p->has_kernels) return MSI_OK;
    msi_wkernel_spec spec;
    double *w_lambda;
    MSI_TRY(msi_wproj_kernel_spec(&p->wproj, &spec, &w_lambda));
    const msi_progress_share all = msi_progress_enter(0, 1, 1 + MSI_PLANE_PARTS);
    int rc = maker(p, &spec);
    msi_progress_leave(all);
    msi_free(w_lambda);
    p->has_kernels = rc == MSI_OK;
    return rc;
}

static int cpu_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                     msi_stage_times *times)
{
    MSI_TRY(make_kernels(plan, make_on_host));
    const msi_progress_share all = msi_progress_enter(1, 1 + MSI_PLANE_PARTS, 1 + MSI_PLANE_PARTS);
    int rc = msi_wproj_cpu_image(&plan->wproj, &plan->kernels, plan->cpu, store, store_plane, image, times);
    msi_progress_leave(all);
    return rc;
}

static int cpu_predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times)
{
    MSI_TRY(make_kernels(plan, make_on_host));
    const msi_progress_share all = msi_progress_enter(1, 1 + MSI_PLANE_PARTS, 1 + MSI_PLANE_PARTS);
    int rc = msi_wproj_cpu_predict(&plan->wproj, &plan->kernels, plan->cpu, store, model, times);
    msi_progress_leave(all);
    return rc;
}

const msi_strategy_ops msi_wproj_cpu_ops = {
    .plan = cpu_plan, .free = free_plan, .image = cpu_image, .predict = cpu_predict};
const msi_strategy_ops msi_wproj_cpu_predict_ops = {.plan = cpu_plan, .free = free_plan, .predict = cpu_predict};

#ifdef MSI_HAVE_WPROJ_CUDA
/* Tiles interpolate between four squares of the table, which is fast only if these are in the L2 cache. That is rarer
 * with large tables, so the limit is the default of msi_wproj_request, not a part of the memory. */
static const int64_t TILE_TABLE_BYTES = (int64_t)1 << 30;

/* Free a plan that the device cannot execute. */
static int checked(msi_plan **out, int rc)
{
    if (!rc) return MSI_OK;
    free_plan(*out);
    *out = NULL;
    return rc;
}

static int plan_images(msi_plan **out, const wproj_strategy *strategy, const msi_plan_request *request,
                       msi_gridder_report *r)
{
    const msi_gridder_spec *s = request->spec;
    int64_t table_bytes = TILE_TABLE_BYTES;
    if (strategy->images != MSI_WPROJ_CUDA_TILE) MSI_TRY(msi_wproj_cuda_table_bytes(s->device, &table_bytes));
    MSI_TRY(make_wproj_plan(out, strategy, table_bytes, request, r));
    (*out)->device = s->device;
    (*out)->images = strategy->images;
    r->grid_bytes = r->least_grid_bytes = r->least_device_bytes = 0;
    r->device_bytes =
        msi_wproj_cuda_bytes(&(*out)->wproj, strategy->images, request->n_sample, s->n_plane, request->n_image);
    return checked(out, msi_wproj_cuda_check(&(*out)->wproj));
}

static int plan_predictions(msi_plan **out, const wproj_strategy *strategy, const msi_plan_request *request,
                            msi_gridder_report *r)
{
    int64_t table_bytes;
    MSI_TRY(msi_wproj_cuda_table_bytes(request->spec->device, &table_bytes));
    MSI_TRY(make_wproj_plan(out, strategy, table_bytes, request, r));
    (*out)->device = request->spec->device;
    (*out)->predicts = strategy->predicts;
    (*out)->keeps_model = request->keeps_model;
    r->grid_bytes = r->least_grid_bytes = r->least_device_bytes = 0;
    r->device_bytes =
        msi_wproj_predictor_bytes(&(*out)->wproj, strategy->predicts, request->n_sample, request->n_image);
    return checked(out, msi_wproj_predictor_check(&(*out)->wproj, strategy->predicts));
}

static int cuda_plan(msi_plan **out, const msi_strategy *row, const msi_plan_request *request, msi_gridder_report *r)
{
    static const wproj_strategy all[] = {
        {"tile", "tile", .cost = &msi_wproj_cuda_tile_cost, .images = MSI_WPROJ_CUDA_TILE},
        {"window", "window", .full_nearest = 1, .textures = 1, .cost = &msi_wproj_cuda_window_cost,
         .images = MSI_WPROJ_CUDA_WINDOW, .predicts = MSI_WPROJ_PREDICT_WINDOW},
        {"gather", "gather", .full_only = 1, .cost = &msi_wproj_cuda_gather_cost, .predicts = MSI_WPROJ_PREDICT_GATHER},
        {"scatter", "scatter", .full_only = 1, .cost = &msi_wproj_cuda_scatter_cost,
         .predicts = MSI_WPROJ_PREDICT_SCATTER}};
    const wproj_strategy *strategy = find_wproj_strategy(all, row);
    return request->spec->predict ? plan_predictions(out, strategy, request, r)
                                  : plan_images(out, strategy, request, r);
}

static int cuda_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                      msi_stage_times *times)
{
    MSI_TRY(make_kernels(plan, make_on_device));
    const msi_wproj_cuda_work work = {.device = plan->device, .plan = &plan->wproj, .kernels = &plan->kernels};
    return msi_wproj_cuda_image(&work, plan->images, store, store_plane, image, times);
}

static int cuda_predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times)
{
    MSI_TRY(make_kernels(plan, make_on_device));
    const msi_wproj_cuda_work work = {.device = plan->device, .plan = &plan->wproj, .kernels = &plan->kernels};
    return msi_wproj_cuda_predict(&work, plan->predicts, store, model, plan->keeps_model ? &plan->kept : NULL, times);
}

const msi_strategy_ops msi_wproj_cuda_ops = {
    .plan = cuda_plan, .free = free_plan, .image = cuda_image, .predict = cuda_predict};
const msi_strategy_ops msi_wproj_cuda_image_ops = {.plan = cuda_plan, .free = free_plan, .image = cuda_image};
const msi_strategy_ops msi_wproj_cuda_predict_ops = {.plan = cuda_plan, .free = free_plan, .predict = cuda_predict};
#endif
