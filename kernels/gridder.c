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
#include "kernels/store/vis_store.h"
#include "kernels/strategy.h"
#include "kernels/method/plan_choice.h"
#include "kernels/method/simd_choice.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif

struct msi_gridder {
    msi_gridder_spec spec;
    const msi_strategy *strategy;
    msi_precision precision;
    msi_vis_store store;
    msi_gridder_report report;

    /* Of predict. */
    const msi_image *model;
    msi_plan *plan;
    struct {
        int64_t n_sample, n_row; /* 0: what the store holds decides */
        double w_min_lambda, w_max_lambda;
    } expected;
};

/* One line on a GPU, or on why there is none. */
static const char *describe_gpu(int device)
{
#ifdef MSI_HAVE_CUDA
    return msi_gpu_describe(device);
#else
    (void)device;
    return "this build has no GPU backend";
#endif
}

/* Fail where a gridder's GPU is not in this machine. */
static int check_device(const msi_strategy *strategy, int device)
{
#ifdef MSI_HAVE_CUDA
    if (strategy->backend == MSI_BACKEND_CUDA && (device < 0 || device >= msi_gpu_count()))
        return msi_error_set(MSI_EGPU, "device %d: %s", device, msi_gpu_describe(device));
#else
    (void)strategy;
    (void)device;
#endif
    return MSI_OK;
}

/* Wait until a gridder's GPU, if it uses one, has started. */
static void await_device(const msi_strategy *strategy, int device)
{
#ifdef MSI_HAVE_CUDA
    if (strategy->backend == MSI_BACKEND_CUDA) msi_gpu_await(device);
#else
    (void)strategy;
    (void)device;
#endif
}

static int is_named(const char *wanted, const char *name)
{
    return !wanted || strcmp(wanted, "auto") == 0 || strcmp(wanted, name) == 0;
}

/* Whether a strategy is one that was asked for, in the direction asked for. */
static int is_wanted(const msi_strategy *s, const msi_gridder_spec *spec)
{
    return strcmp(spec->method ? spec->method : "wgrid", s->method) == 0 && is_named(spec->strategy, s->name) &&
           (spec->predict ? s->ops->predict != NULL : s->ops->image != NULL);
}

/* The first of the table that is what was asked for and works on this machine. */
static int first_strategy(const msi_strategy **out, const msi_gridder_spec *spec)
{
    int n, known = 0, wants_gpu = 0;
    const msi_strategy *all = msi_strategies(&n);
    for (int i = 0; i < n; i++) {
        const msi_strategy *s = &all[i];
        if (!is_wanted(s, spec)) continue;
        known = 1;
        wants_gpu |= spec->backend == MSI_BACKEND_CUDA && s->backend == MSI_BACKEND_CUDA;
        if ((spec->backend == MSI_BACKEND_AUTO || spec->backend == s->backend) && msi_strategy_available(s)) {
            *out = s;
            return MSI_OK;
        }
    }
    const char *method = spec->method ? spec->method : "wgrid";
    if (wants_gpu || (known && spec->backend == MSI_BACKEND_CUDA && strcmp(method, "wgrid") == 0))
        return msi_error_set(MSI_EGPU, "-backend cuda: %s", describe_gpu(spec->device));
    return msi_error_set(MSI_ERANGE, "-gridder %s -strategy %s does not %s%s", method,
                         spec->strategy ? spec->strategy : "auto", spec->predict ? "predict" : "image",
                         known ? " on this -backend" : "");
}

static int n_image(const msi_gridder_spec *s)
{
    return s->predict ? s->n_plane : (s->psf_only ? 0 : s->n_plane) + (s->psf || s->psf_only);
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
    MSI_TRY(first_strategy(&strategy, spec));
    MSI_TRY(check_device(strategy, spec->device));
    msi_gridder *g;
    MSI_TRY(msi_alloc(&g, 1, sizeof *g, "gridder"));
    g->spec = *spec;
    g->strategy = strategy;
    g->precision = spec->precision == MSI_PRECISION_AUTO   ? msi_precision_for(spec->accuracy)
                   : spec->precision == MSI_PRECISION_FP32 ? MSI_FP32
                                                           : MSI_FP64;
    g->report.method = strategy->method;
    g->report.strategy = strategy->name;
    g->report.backend = strategy->backend;
    g->report.precision = g->precision;
    msi_vis_store_init(&g->store, spec->n_plane, g->precision, 0.5 / spec->geometry.cell_x_rad,
                       0.5 / spec->geometry.cell_y_rad, spec->store_bytes, spec->temp_dir);
    g->store.coordinates = spec->predict;
    *out = g;
    return MSI_OK;
}

static void forget_plan(msi_gridder *g)
{
    if (g->plan) g->strategy->ops->free(g->plan);
    g->plan = NULL;
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

/* Whether plan a is to be preferred: one that fits the room to one that does not, then the sooner or the smaller. */
static int is_better(const msi_gridder_report *a, const msi_gridder_report *b, int64_t room_bytes)
{
    int a_fits = a->least_grid_bytes <= room_bytes, b_fits = b->least_grid_bytes <= room_bytes;
    if (a_fits != b_fits) return a_fits;
    return a_fits ? a->estimate_s < b->estimate_s : a->least_grid_bytes < b->least_grid_bytes;
}

/*
 * The plan foreseen to be soonest of all strategies that were asked for on the gridder's backend and fit the room.
 * Where one cannot serve, another may.
 * Returned: *strategy that made *plan
 */
static int make_plan(const msi_gridder *g, const msi_plan_request *request, int64_t room_bytes,
                     const msi_strategy **strategy, msi_plan **plan, msi_gridder_report *report)
{
    int n, rc = MSI_OK;
    const msi_strategy *all = msi_strategies(&n);
    *plan = NULL;
    for (int i = 0; i < n; i++) {
        const msi_strategy *s = &all[i];
        if (!is_wanted(s, &g->spec) || s->backend != g->strategy->backend) continue;
        msi_gridder_report r = *report;
        msi_plan *made = NULL;
        r.strategy = s->name;
        int failed = s->ops->plan(&made, s, request, &r);
        if (failed && (failed != MSI_ERANGE || !rc)) rc = failed;
        if (failed && failed != MSI_ERANGE) break;
        if (failed || (*plan && !is_better(&r, report, room_bytes))) {
            if (made) s->ops->free(made);
            continue;
        }
        if (*plan) (*strategy)->ops->free(*plan);
        *plan = made;
        *strategy = s;
        *report = r;
    }
    if (*plan && (rc == MSI_OK || rc == MSI_ERANGE)) return MSI_OK;
    if (*plan) (*strategy)->ops->free(*plan);
    *plan = NULL;
    return rc;
}

static msi_plan_request request_of(const msi_gridder *g)
{
    return (msi_plan_request){.spec = &g->spec,
                              .precision = g->precision,
                              .n_image = n_image(&g->spec),
                              .host_bytes = host_memory(g),
                              .lasts = g->expected.n_sample > 0};
}

static void plan_for(msi_plan_request *r, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda)
{
    r->n_sample = n_sample;
    r->n_row = n_row;
    r->w_min_lambda = w_min_lambda;
    r->w_max_lambda = w_max_lambda;
}

int msi_gridder_foresee(const msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda,
                        msi_gridder_report *report)
{
    const msi_gridder_spec *s = &g->spec;
    *report = g->report;
    int64_t sample_bytes = (g->precision == MSI_FP32 ? 8 : 16) + (s->predict ? 0 : 4);
    int64_t store = n_sample * s->n_plane * sample_bytes + n_row * 24;
    report->store_bytes = s->store_bytes && store > s->store_bytes ? s->store_bytes : store;
    report->spilled_bytes = store - report->store_bytes;
    msi_plan_request request = request_of(g);
    request.host_bytes -= report->store_bytes;
    plan_for(&request, n_sample, n_row, w_min_lambda, w_max_lambda);
    const msi_strategy *strategy;
    msi_plan *plan;
    const int64_t image_bytes =
        n_image(s) * msi_image_n_pixel(&s->geometry) * msi_image_pixel_bytes(g->precision) * !s->predict;
    MSI_TRY(make_plan(g, &request, host_memory(g) - image_bytes, &strategy, &plan, report));
    strategy->ops->free(plan);
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

static void plan_for_stored(msi_plan_request *r, const msi_vis_store *s)
{
    int64_t n_row = 0;
    for (int64_t i = 0; i < s->n_segment; i++) n_row += s->segment[i].n_row;
    plan_for(r, s->n_sample, n_row, s->w_min_lambda, s->w_max_lambda);
    r->store = s;
}

static void add_times(msi_gridder_report *r, const msi_stage_times *t)
{
    r->sort_s += t->sort_s;
    r->grid_s += t->grid_s;
    r->transform_s += t->transform_s;
    r->correct_s += t->correct_s;
    r->transfer_s += t->transfer_s;
}

/* An image of nothing is unknown, not zero, whatever the strategy. */
static void fill_unknown(msi_image *image)
{
    const int64_t n = image->n_plane * msi_image_n_pixel(&image->geometry);
    for (int64_t i = 0; i < n; i++) {
        if (image->precision == MSI_FP32)
            ((float *)image->pixel)[i] = NAN;
        else
            ((double *)image->pixel)[i] = NAN;
    }
}

int msi_gridder_image(msi_gridder *g, msi_image *out)
{
    memset(out, 0, sizeof *out);
    const msi_gridder_spec *s = &g->spec;
    if (s->predict) return msi_error_set(MSI_EINTERNAL, "an image asked of a gridder that predicts");
    enum { MAX_PLANES = MSI_GRIDDER_MAX_PLANES };
    int store_plane[MAX_PLANES];
    double sum[MAX_PLANES] = {0};
    int64_t count[MAX_PLANES] = {0};
    sum_weights(g, sum, count);
    MSI_TRY(msi_image_alloc(out, &s->geometry, n_image(s), g->precision));
    for (int i = 0; i < out->n_plane; i++) {
        int is_psf = s->psf_only || i == s->n_plane;
        store_plane[i] = is_psf ? -1 : i;
        out->sum_weight[i] = sum[is_psf ? 0 : i];
        out->n_vis[i] = count[is_psf ? 0 : i];
    }
    if (!g->store.n_sample) {
        fill_unknown(out);
        return MSI_OK;
    }
    msi_plan *plan = NULL;
    int before = omp_get_max_threads();
    if (s->n_thread) omp_set_num_threads(s->n_thread);
    await_device(g->strategy, s->device);
    msi_plan_request request = request_of(g);
    plan_for_stored(&request, &g->store);
    int rc = make_plan(g, &request, request.host_bytes, &g->strategy, &plan, &g->report);
    msi_stage_times times = {0};
    if (!rc) rc = g->strategy->ops->image(plan, &g->store, store_plane, out, &times);
    add_times(&g->report, &times);
    g->strategy->ops->free(plan);
    omp_set_num_threads(before);
    if (rc) msi_image_free(out);
    return rc;
}

void msi_gridder_expect(msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda)
{
    g->expected.n_sample = n_sample;
    g->expected.n_row = n_row;
    g->expected.w_min_lambda = w_min_lambda;
    g->expected.w_max_lambda = w_max_lambda;
    forget_plan(g);
}

msi_precision msi_gridder_precision(const msi_gridder *g)
{
    return g->precision;
}

int msi_gridder_model(msi_gridder *g, const msi_image *model)
{
    const msi_image_geometry *a = &g->spec.geometry, *b = &model->geometry;
    if (!g->spec.predict || model->n_plane != g->spec.n_plane || model->precision != g->precision || a->nx != b->nx ||
        a->ny != b->ny)
        return msi_error_set(
            MSI_EINTERNAL, "model of %d planes of %lld x %lld pixels for a gridder of %d of %lld x %lld",
            model->n_plane, (long long)b->nx, (long long)b->ny, g->spec.n_plane, (long long)a->nx, (long long)a->ny);
    forget_plan(g);
    g->model = model;
    return MSI_OK;
}

int msi_gridder_predict(msi_gridder *g)
{
    const msi_vis_store *s = &g->store;
    if (!g->model) return msi_error_set(MSI_EINTERNAL, "a prediction without a model");
    if (!s->n_sample) return MSI_OK;
    int before = omp_get_max_threads(), rc = MSI_OK, lasts = g->expected.n_sample > 0;
    if (g->spec.n_thread) omp_set_num_threads(g->spec.n_thread);
    if (!lasts) forget_plan(g);
    if (!g->plan) {
        await_device(g->strategy, g->spec.device);
        msi_plan_request request = request_of(g);
        if (lasts)
            plan_for(&request, g->expected.n_sample, g->expected.n_row, g->expected.w_min_lambda,
                     g->expected.w_max_lambda);
        else
            plan_for_stored(&request, s);
        rc = make_plan(g, &request, request.host_bytes, &g->strategy, &g->plan, &g->report);
    }
    msi_stage_times times = {0};
    if (!rc) rc = g->strategy->ops->predict(g->plan, &g->store, g->model, &times);
    add_times(&g->report, &times);
    omp_set_num_threads(before);
    return rc;
}

int msi_gridder_fetch(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_c64 *vis)
{
    return msi_vis_store_fetch(&g->store, n_row, n_chan, freq_hz, vis);
}

void msi_gridder_clear(msi_gridder *g)
{
    msi_vis_store_clear(&g->store);
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
    forget_plan(g);
    msi_vis_store_free(&g->store);
    msi_free(g);
}

const char *msi_backend_describe(void)
{
    return describe_gpu(0);
}

void msi_backend_warm_up(msi_backend backend)
{
#ifdef MSI_HAVE_CUDA
    if (backend != MSI_BACKEND_CPU) msi_gpu_warm_up(0);
#else
    (void)backend;
#endif
}

void msi_backend_await(void)
{
#ifdef MSI_HAVE_CUDA
    msi_gpu_await(0);
#endif
}

void msi_backend_settle(void)
{
#ifdef MSI_HAVE_CUDA
    msi_gpu_settle();
#endif
}

const char *msi_backend_versions(void)
{
    static char text[256];
#ifdef MSI_HAVE_CUDA
    snprintf(text, sizeof text, "%s, %s, SIMD %s", fftw_version, msi_gpu_versions(), msi_simd_name());
#else
    snprintf(text, sizeof text, "%s, SIMD %s", fftw_version, msi_simd_name());
#endif
    return text;
}

int msi_density_add(msi_density *d, const msi_gridder *g)
{
    msi_density_add_store(d, &g->store);
    return MSI_OK;
}

int msi_gridder_weight(msi_gridder *g, const msi_density *density, const msi_weighting *rule)
{
    return msi_density_weight(&g->store, density, rule);
}
