/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gridder_state.h"

#include <assert.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/method/plan_choice.h"

static_assert((int)MSI_STORE_MAX_PLANES >= (int)MSI_GRIDDER_MAX_PLANES - 1, "a store holds a gridder's planes");

static int check_spec(const msi_gridder_spec *s)
{
    const msi_image_geometry *g = &s->geometry;
    if (s->n_plane < 1 || s->n_plane >= MSI_GRIDDER_MAX_PLANES)
        return msi_error_set(MSI_ERANGE, "n_plane %d: a gridder takes 1 to %d", s->n_plane, MSI_GRIDDER_MAX_PLANES - 1);
    if (s->predict && s->residual)
        return msi_error_set(MSI_ERANGE, "residual: a gridder that predicts has no data to subtract from");
    if (!(s->accuracy >= 1e-13 && s->accuracy <= 0.1))
        return msi_error_about(msi_error_set(MSI_ERANGE, "accuracy %g is outside 1e-13 .. 0.1", s->accuracy),
                               "accuracy");
    if (s->n_worker < 0 || (s->n_worker && !s->worker))
        return msi_error_set(MSI_ERANGE, "n_worker %d: a list of devices, or 0", s->n_worker);
    if (g->nx < 2 || g->ny < 2 || g->nx % 2 || g->ny % 2 || !(g->cell_x_rad > 0) || !(g->cell_y_rad > 0))
        return msi_error_set(MSI_ERANGE, "geometry: %lld x %lld pixels of %g x %g rad: sizes must be even and positive",
                             (long long)g->nx, (long long)g->ny, g->cell_x_rad, g->cell_y_rad);
    return MSI_OK;
}

/* Make the lists and strings of a specification the gridder's own. */
static int keep_spec(msi_gridder *g, const msi_gridder_spec *spec)
{
    const size_t name_bytes = spec->temp_dir ? strlen(spec->temp_dir) + 1 : 0;
    g->spec = *spec;
    g->spec.n_worker = 0;
    MSI_TRY(msi_gridder_keep_workers(g, spec->worker, spec->n_worker));
    if (!spec->temp_dir) return MSI_OK;
    MSI_TRY(msi_alloc(&g->temp_dir, (int64_t)name_bytes, 1, "gridder"));
    memcpy(g->temp_dir, spec->temp_dir, name_bytes);
    g->spec.temp_dir = g->temp_dir;
    return MSI_OK;
}

int msi_gridder_create_early(msi_gridder **out, const msi_gridder_spec *spec)
{
    *out = NULL;
    MSI_TRY(check_spec(spec));
    msi_gridder *g;
    MSI_TRY(msi_alloc(&g, 1, sizeof *g, "gridder"));
    int rc = keep_spec(g, spec);
    if (rc) {
        msi_gridder_free(g);
        return rc;
    }
    g->precision = spec->precision == MSI_PRECISION_AUTO   ? msi_precision_for(spec->accuracy)
                   : spec->precision == MSI_PRECISION_FP32 ? MSI_FP32
                                                           : MSI_FP64;
    g->report.precision = g->precision;
    msi_vis_store_init(&g->store, spec->n_plane, g->precision, 0.5 / spec->geometry.cell_x_rad,
                       0.5 / spec->geometry.cell_y_rad, spec->store_bytes, g->temp_dir);
    g->store.coordinates = spec->predict;
    *out = g;
    return MSI_OK;
}

int msi_gridder_settle(msi_gridder *g, const msi_gridder_spec *spec)
{
    const msi_strategy *strategy = NULL;
    MSI_TRY(msi_strategy_first_for(&strategy, spec));
    MSI_TRY(msi_gridder_check_devices(strategy, spec));
    MSI_TRY(msi_strategy_check_center(spec, strategy));
    MSI_TRY(msi_gridder_keep_workers(g, spec->worker, spec->n_worker));
    g->spec.device = spec->device;
    g->spec.n_thread = spec->n_thread;
    g->spec.store_bytes = g->store.memory_budget = spec->store_bytes;
    g->spec.method = strategy->method;
    g->spec.strategy = msi_strategy_is_open(spec->strategy) ? NULL : strategy->name;
    g->strategy = strategy;
    g->report.method = strategy->method;
    g->report.strategy = strategy->name;
    g->report.backend = strategy->backend;
    return MSI_OK;
}

int msi_gridder_create(msi_gridder **out, const msi_gridder_spec *spec)
{
    MSI_TRY(msi_gridder_create_early(out, spec));
    const int rc = msi_gridder_settle(*out, spec);
    if (rc) {
        msi_gridder_free(*out);
        *out = NULL;
    }
    return rc;
}

void msi_gridder_forget_samples(msi_gridder *g)
{
    g->weights.is_known = 0;
    if (g->spec.residual) msi_gridder_forget_plan(g);
}

int msi_gridder_add(msi_gridder *g, const msi_vis_block *block)
{
    return msi_gridder_add_all(g, block, 1);
}

int msi_gridder_add_all(msi_gridder *g, const msi_vis_block *block, int n_block)
{
    if (g->is_weighted)
        return msi_error_set(MSI_EINTERNAL, "samples added to a gridder whose weights carry density weights already");
    MSI_TRY(msi_gridder_move_to_host(g));
    msi_gridder_forget_samples(g);
    return msi_vis_store_add_all(&g->store, block, n_block);
}

int msi_gridder_begin_threads(const msi_gridder *g)
{
    const int before = omp_get_max_threads();
    if (g->spec.n_thread) omp_set_num_threads(g->spec.n_thread);
    return before;
}

void msi_gridder_end_threads(int before)
{
    omp_set_num_threads(before);
}

void msi_gridder_add_times(msi_gridder_report *r, const msi_stage_times *t)
{
    r->sort_s += t->sort_s;
    r->grid_s += t->grid_s;
    r->transform_s += t->transform_s;
    r->correct_s += t->correct_s;
    r->transfer_s += t->transfer_s;
}

int64_t msi_gridder_store_bytes(const msi_gridder *g, int64_t n_sample, int64_t n_row)
{
    return msi_vis_store_bytes(&g->store, n_sample, n_row);
}

void msi_gridder_sum_weights(msi_gridder *g)
{
    if (g->weights.is_known) return;
    msi_vis_store_weights(&g->store, g->weights.sum, g->weights.largest, g->weights.count);
    g->weights.is_known = 1;
}

void msi_gridder_weights(msi_gridder *g, double *sum_weight, double *largest_weight, int64_t *n_vis)
{
    msi_gridder_sum_weights(g);
    for (int p = 0; p < g->spec.n_plane; p++) {
        sum_weight[p] = g->weights.sum[p] / g->store.weight_scale;
        if (largest_weight) largest_weight[p] = g->weights.largest[p] / g->store.weight_scale;
        n_vis[p] = g->weights.count[p];
    }
}

/* ---- Predictions ------------------------------------------------------------------------------------------------ */

void msi_gridder_expect(msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda)
{
    g->expected.n_sample = n_sample;
    g->expected.n_row = n_row;
    g->expected.w_min_lambda = w_min_lambda;
    g->expected.w_max_lambda = w_max_lambda;
    msi_gridder_forget_plan(g);
}

void msi_gridder_forget(msi_gridder *g)
{
    memset(&g->expected, 0, sizeof g->expected);
    msi_gridder_forget_plan(g);
    g->model = NULL;
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
    msi_gridder_forget_plan(g);
    g->model = model;
    return MSI_OK;
}

int msi_gridder_predict(msi_gridder *g)
{
    const msi_vis_store *s = &g->store;
    if (!g->model) return msi_error_set(MSI_EINTERNAL, "a prediction without a model");
    if (!s->n_sample) return MSI_OK;
    const int threads_before = msi_gridder_begin_threads(g), keeps_model = g->expected.n_sample > 0;
    if (!keeps_model) msi_gridder_forget_plan(g);
    int rc = msi_gridder_ready_plan(g);
    msi_stage_times times = {0};
    if (!rc)
        rc = g->workers ? msi_workers_predict(g->workers, &g->store, g->model, &times)
                        : g->strategy->ops->predict(g->plan, &g->store, g->model, &times);
    msi_vis_store_rewind(&g->store);
    msi_gridder_add_times(&g->report, &times);
    msi_gridder_end_threads(threads_before);
    return rc;
}

int msi_gridder_fetch(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_c64 *vis)
{
    return msi_vis_store_fetch(&g->store, n_row, n_chan, freq_hz, vis);
}

void msi_gridder_clear(msi_gridder *g)
{
    msi_gridder_forget_samples(g);
    msi_vis_store_clear(&g->store);
    g->is_weighted = 0;
}

void msi_gridder_report_get(const msi_gridder *g, msi_gridder_report *report)
{
    *report = g->report;
    report->n_sample = g->store.n_sample;
    report->n_outside = g->store.n_outside;
    report->longest_lambda = g->store.longest_lambda;
    for (int p = 0; p < g->spec.n_plane; p++) report->sum_vis_weight[p] = g->store.sum_weight[p];
    report->store_bytes = g->store.bytes_memory;
    report->spilled_bytes = g->store.bytes_file;
    report->weight_scale = g->store.weight_scale;
}

void msi_gridder_free(msi_gridder *g)
{
    if (!g) return;
    msi_gridder_forget_plan(g);
    msi_vis_store_free(&g->store);
    msi_free(g->temp_dir);
    msi_free(g->worker);
    msi_free(g);
}

int msi_density_add(msi_density *d, const msi_gridder *g)
{
    return msi_density_add_store(d, &g->store);
}

int msi_gridder_weight(msi_gridder *g, const msi_density *density, const msi_weighting *rule)
{
    if (g->is_weighted)
        return msi_error_set(MSI_EINTERNAL, "density weighting asked of a gridder whose weights carry it already");
    MSI_TRY(msi_gridder_move_to_host(g));
    msi_gridder_forget_samples(g);
    MSI_TRY(msi_density_weight(&g->store, density, rule));
    g->is_weighted = 1;
    return MSI_OK;
}
