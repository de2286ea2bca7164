/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gridder.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include <fftw3.h>

#include "core/interrupt.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/gridder_internal.h"
#include "kernels/grid/wgrid_simd.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/grid/wgrid_cuda.h"
#endif

static int always(void)
{
    return 1;
}

static void cpu_bytes(const msi_wgrid_plan *plan, int64_t n_sample, int n_plane, int64_t n_resident, int64_t *host,
                      int64_t *device)
{
    (void)n_plane;
    int64_t n_bucket = (plan->grid.n_w - plan->grid.w_width + 1) * plan->grid.n_tile_u * plan->grid.n_tile_v;
    *host = n_resident * msi_wgrid_cpu_plane_bytes(plan) + msi_wgrid_cpu_image_bytes(plan) +
            n_sample * (int64_t)sizeof(msi_run) + n_bucket * (int64_t)sizeof(int64_t);
    *device = 0;
}

static int64_t cpu_resident(const msi_wgrid_plan *plan, int n_plane, int64_t n_sample, int64_t host_bytes)
{
    int64_t rest, device;
    cpu_bytes(plan, n_sample, n_plane, 0, &rest, &device);
    return msi_wgrid_cpu_resident(plan, n_sample, host_bytes - rest);
}

static const msi_strategy strategies[] = {
#ifdef MSI_HAVE_CUDA
    {"wgrid", MSI_BACKEND_CUDA, &msi_wgrid_cuda_cost, msi_wgrid_cuda_available, msi_wgrid_cuda_bytes,
     msi_wgrid_cuda_resident, msi_wgrid_cuda_image},
#endif
    {"wgrid", MSI_BACKEND_CPU, &msi_wgrid_cpu_cost, always, cpu_bytes, cpu_resident, msi_wgrid_cpu_image},
};

const msi_strategy *msi_strategies(int *n)
{
    *n = (int)(sizeof strategies / sizeof *strategies);
    return strategies;
}

static int choose_strategy(const msi_strategy **out, msi_backend backend)
{
    int n;
    const msi_strategy *all = msi_strategies(&n);
    for (int i = 0; i < n; i++)
        if ((backend == MSI_BACKEND_AUTO || backend == all[i].backend) && all[i].available()) {
            *out = &all[i];
            return MSI_OK;
        }
    return msi_error_set(MSI_EGPU, "-backend cuda: %s", msi_backend_describe());
}

int msi_gridder_create(msi_gridder **out, const msi_gridder_spec *spec)
{
    *out = NULL;
    if (spec->n_plane < 1 || spec->n_plane >= MSI_GRIDDER_MAX_PLANES)
        return msi_error_set(MSI_ERANGE, "%d planes in one gridder; at most %d", spec->n_plane,
                             MSI_GRIDDER_MAX_PLANES - 1);
    if (!(spec->accuracy >= 1e-13 && spec->accuracy <= 0.1))
        return msi_error_set(MSI_ERANGE, "accuracy %g is outside 1e-13 .. 0.1", spec->accuracy);
    if (spec->geometry.nx < 2 || spec->geometry.ny < 2 || spec->geometry.nx % 2 || spec->geometry.ny % 2 ||
        !(spec->geometry.cell_x_rad > 0) || !(spec->geometry.cell_y_rad > 0))
        return msi_error_set(MSI_ERANGE, "image of %lld x %lld pixels of %g x %g rad: sizes must be even and positive",
                             (long long)spec->geometry.nx, (long long)spec->geometry.ny, spec->geometry.cell_x_rad,
                             spec->geometry.cell_y_rad);
    const msi_strategy *strategy = NULL;
    MSI_TRY(choose_strategy(&strategy, spec->backend));
    msi_gridder *g;
    MSI_TRY(msi_alloc(&g, 1, sizeof *g, "gridder"));
    g->spec = *spec;
    g->strategy = strategy;
    g->precision = spec->precision == MSI_PRECISION_AUTO   ? msi_precision_for(spec->accuracy)
                   : spec->precision == MSI_PRECISION_FP32 ? MSI_FP32
                                                           : MSI_FP64;
    g->report.backend = strategy->backend;
    g->report.precision = g->precision;
    msi_vis_store_init(&g->store, spec->n_plane, g->precision, 0.5 / spec->geometry.cell_x_rad,
                       0.5 / spec->geometry.cell_y_rad, spec->store_bytes, spec->temp_dir);
    *out = g;
    return MSI_OK;
}

int msi_gridder_add(msi_gridder *g, const msi_vis_block *block)
{
    return msi_vis_store_add(&g->store, block);
}

static int64_t host_memory(const msi_gridder *g)
{
    int64_t limit = g->spec.memory_bytes ? g->spec.memory_bytes : msi_memory_limit();
    return limit - msi_memory_in_use();
}

static void fill_report(const msi_gridder *g, const msi_wgrid_plan *plan, int64_t n_sample, int64_t n_resident,
                        msi_gridder_report *r)
{
    r->width = plan->grid.width;
    r->w_width = plan->grid.w_width;
    r->nu = plan->grid.nu;
    r->nv = plan->grid.nv;
    r->n_w = plan->grid.n_w;
    r->n_w_resident = n_resident;
    r->w_step = plan->grid.w_step;
    int64_t device;
    g->strategy->bytes(plan, n_sample, g->spec.n_plane + g->spec.psf, 1, &r->least_grid_bytes, &device);
    r->error_estimate = plan->error_estimate;
    int n_image = g->spec.psf_only ? 1 : g->spec.n_plane + (g->spec.psf != 0);
    int n_unit = g->strategy->backend != MSI_BACKEND_CPU ? 1
                 : g->spec.n_thread                      ? g->spec.n_thread
                                                         : omp_get_max_threads();
    r->estimate_s = plan->cost_s * n_image / n_unit;
    g->strategy->bytes(plan, n_sample, g->spec.n_plane + g->spec.psf, n_resident, &r->grid_bytes, &r->device_bytes);
}

int msi_gridder_foresee(const msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda,
                        msi_gridder_report *report)
{
    msi_wgrid_plan plan;
    const msi_gridder_spec *s = &g->spec;
    *report = g->report;
    MSI_TRY(msi_wgrid_plan_make(&plan, &s->geometry, s->accuracy, g->precision, s->least_padding, n_sample,
                                w_min_lambda, w_max_lambda, g->strategy->cost));
    int64_t sample_bytes = (g->precision == MSI_FP32 ? 8 : 16) + 4;
    int64_t store = n_sample * s->n_plane * sample_bytes + n_row * 24;
    report->store_bytes = s->store_bytes && store > s->store_bytes ? s->store_bytes : store;
    report->spilled_bytes = store - report->store_bytes;
    int64_t n_resident =
        g->strategy->resident(&plan, s->n_plane + s->psf, n_sample, host_memory(g) - report->store_bytes);
    fill_report(g, &plan, n_sample, n_resident, report);
    return MSI_OK;
}

/* Sum of weights and number of samples of each plane of the store. */
static void sum_weights(const msi_gridder *g, double *sum, int64_t *count)
{
    for (int p = 0; p < g->spec.n_plane; p++) {
        double total = 0;
        int64_t n = 0;
        for (int64_t i = 0; i < g->store.n_segment; i++) {
            const msi_vis_segment *s = &g->store.segment[i];
            const float *weight = s->weight + msi_segment_index(s, p, 0, 0);
            double part = 0;
#pragma omp parallel for simd reduction(+ : part, n) if (s->n_row * s->n_chan > 65536)
            for (int64_t k = 0; k < s->n_row * s->n_chan; k++) {
                part += (double)weight[k];
                n += weight[k] > 0;
            }
            total += part;
        }
        sum[p] = total;
        count[p] = n;
    }
}

int msi_gridder_image(msi_gridder *g, msi_image *out)
{
    memset(out, 0, sizeof *out);
    const msi_gridder_spec *s = &g->spec;
    int n_image = (s->psf_only ? 0 : s->n_plane) + (s->psf || s->psf_only);
    enum { MAX_PLANES = MSI_GRIDDER_MAX_PLANES };
    int store_plane[MAX_PLANES];
    double sum[MAX_PLANES] = {0};
    int64_t count[MAX_PLANES] = {0};
    sum_weights(g, sum, count);
    MSI_TRY(msi_image_alloc(out, &s->geometry, n_image, g->precision));
    for (int i = 0; i < n_image; i++) {
        int is_psf = s->psf_only || i == s->n_plane;
        store_plane[i] = is_psf ? -1 : i;
        out->sum_weight[i] = sum[is_psf ? 0 : i];
        out->n_vis[i] = count[is_psf ? 0 : i];
    }
    msi_wgrid_plan plan;
    int rc = msi_wgrid_plan_make(&plan, &s->geometry, s->accuracy, g->precision, s->least_padding, g->store.n_sample,
                                 g->store.w_min_lambda, g->store.w_max_lambda, g->strategy->cost);
    if (!rc) {
        int64_t n_resident = g->strategy->resident(&plan, n_image, g->store.n_sample, host_memory(g));
        fill_report(g, &plan, g->store.n_sample, n_resident, &g->report);
        msi_wgrid_times times = {0};
        int before = omp_get_max_threads();
        if (s->n_thread) omp_set_num_threads(s->n_thread);
        rc = g->strategy->image(&plan, &g->store, store_plane, n_resident, out, &times);
        omp_set_num_threads(before);
        g->report.sort_s += times.sort_s;
        g->report.grid_s += times.grid_s;
        g->report.transform_s += times.transform_s;
        g->report.correct_s += times.correct_s;
        g->report.transfer_s += times.transfer_s;
    }
    if (rc) msi_image_free(out);
    return rc;
}

void msi_gridder_report_get(const msi_gridder *g, msi_gridder_report *report)
{
    *report = g->report;
    report->n_sample = g->store.n_sample;
    report->n_outside = g->store.n_outside;
    memcpy(report->sum_vis_weight, g->store.sum_weight, sizeof g->store.sum_weight);
    report->store_bytes = g->store.bytes_memory;
    report->spilled_bytes = g->store.bytes_file;
}

void msi_gridder_free(msi_gridder *g)
{
    if (!g) return;
    msi_vis_store_free(&g->store);
    msi_free(g);
}

const char *msi_backend_describe(void)
{
#ifdef MSI_HAVE_CUDA
    return msi_wgrid_cuda_describe();
#else
    return "this build has no GPU backend";
#endif
}

void msi_backend_warm_up(msi_backend backend)
{
#ifdef MSI_HAVE_CUDA
    if (backend != MSI_BACKEND_CPU) msi_wgrid_cuda_warm_up();
#else
    (void)backend;
#endif
}

void msi_backend_settle(void)
{
#ifdef MSI_HAVE_CUDA
    msi_wgrid_cuda_settle();
#endif
}

const char *msi_backend_versions(void)
{
    static char text[256];
#ifdef MSI_HAVE_CUDA
    snprintf(text, sizeof text, "%s, %s, SIMD %s", fftw_version, msi_wgrid_cuda_versions(), msi_simd_name());
#else
    snprintf(text, sizeof text, "%s, SIMD %s", fftw_version, msi_simd_name());
#endif
    return text;
}
