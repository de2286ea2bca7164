/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wproj_method.h"

#include <omp.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/degrid/wproj_degrid_cpu.h"
#include "kernels/grid/wproj_cpu.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/grid/wproj_gridder_cuda.h"
#endif
#include "kernels/prepare/wproj_plan.h"

struct msi_plan {
    msi_wproj_plan wproj;
    msi_wproj_cpu_form form; /* on the CPU */
    msi_wkernel_set kernels; /* made when they are first needed */
    int has_kernels;
};

/* A quarter of the memory left may go to kernels, up to what caches can make use of. */
static int64_t table_bytes(int64_t host_bytes)
{
    const int64_t most = (int64_t)1 << 30, least = (int64_t)1 << 24;
    int64_t quarter = host_bytes / 4;
    return quarter > most ? most : quarter < least ? least : quarter;
}

static int make(msi_plan **out, const msi_wproj_cost *cost, const msi_plan_request *request, msi_gridder_report *r)
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
                                .table_bytes = table_bytes(request->host_bytes),
                                .cost = s->plan_for == MSI_BACKEND_CPU ? &msi_wproj_cpu_cost : cost};
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
    r->grid_bytes = r->least_grid_bytes = msi_wproj_box_bytes(&p->wproj, request->n_sample);
    r->device_bytes = 0;
    *out = p;
    return MSI_OK;
}

static int make_cpu(msi_plan **out, msi_wproj_cpu_form form, const msi_plan_request *request, msi_gridder_report *r)
{
    const msi_gridder_spec *s = request->spec;
    MSI_TRY(make(out, &msi_wproj_cpu_cost, request, r));
    (*out)->form = form;
    r->estimate_s /= form == MSI_WPROJ_CPU_REFERENCE ? 1 : s->n_thread ? s->n_thread : omp_get_max_threads();
    return MSI_OK;
}

int msi_wproj_cpu_available(void)
{
    return 1;
}

int msi_wproj_cpu_tile_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report)
{
    return make_cpu(out, MSI_WPROJ_CPU_TILE, request, report);
}

int msi_wproj_cpu_window_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report)
{
    return make_cpu(out, MSI_WPROJ_CPU_REFERENCE, request, report);
}

void msi_wproj_free(msi_plan *plan)
{
    if (!plan) return;
    msi_wkernel_free(&plan->kernels);
    msi_wproj_plan_free(&plan->wproj);
    msi_free(plan);
}

static int make_kernels(msi_plan *p)
{
    if (p->has_kernels) return MSI_OK;
    msi_wkernel_spec spec;
    double *w_lambda;
    MSI_TRY(msi_wproj_kernels(&p->wproj, &spec, &w_lambda));
    int rc = msi_wkernel_make(&p->kernels, &spec);
    msi_free(w_lambda);
    p->has_kernels = rc == MSI_OK;
    return rc;
}

int msi_wproj_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                    msi_stage_times *times)
{
    MSI_TRY(make_kernels(plan));
    return msi_wproj_cpu_image(&plan->wproj, &plan->kernels, plan->form, store, store_plane, image, times);
}

int msi_wproj_predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times)
{
    MSI_TRY(make_kernels(plan));
    return msi_wproj_cpu_predict(&plan->wproj, &plan->kernels, plan->form, store, model, times);
}

#ifdef MSI_HAVE_CUDA
int msi_wproj_cuda_tile_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *r)
{
    msi_plan *p;
    MSI_TRY(make(&p, &msi_wproj_cuda_cost, request, r));
    int rc = msi_wproj_cuda_check(&p->wproj);
    if (rc) {
        msi_wproj_free(p);
        return rc;
    }
    r->grid_bytes = r->least_grid_bytes = p->wproj.table_bytes;
    r->device_bytes = msi_wproj_cuda_bytes(&p->wproj, request->n_sample, request->spec->n_plane, request->n_image);
    *out = p;
    return MSI_OK;
}

int msi_wproj_cuda_tile_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                              msi_stage_times *times)
{
    MSI_TRY(make_kernels(plan));
    return msi_wproj_cuda_image(&plan->wproj, &plan->kernels, store, store_plane, 0, image, times);
}
#endif
