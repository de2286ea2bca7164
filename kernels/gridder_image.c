/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Images and residuals of a gridder. */
#include "kernels/gridder_state.h"

#include <string.h>

#include "core/progress.h"
#include "core/status.h"

/* In the progress of an image, summing weights is one part of these. */
enum { SUM_PARTS = 20 };

/* Do a job by the plan that is kept: model (NULL: none) and residual are the planes of its pixels; residual NULL:
 * images go to job->pixel in host memory, of a plan of the CPU or of workers. */
static int do_job(msi_gridder *g, msi_residual_job *job, const msi_planes *model, msi_planes *residual)
{
    msi_stage_times times = {0};
    const int threads_before = msi_gridder_begin_threads(g);
    int rc = msi_gridder_ready_plan(g);
    if (!rc && g->workers) {
        rc = residual ? msi_workers_residual(g->workers, job, model, residual, &times)
                      : msi_workers_image(g->workers, job, job->pixel, &times);
    } else if (!rc) {
        if (model) job->model = msi_planes_pixel(model, 0);
        if (residual) job->pixel = msi_planes_pixel(residual, 0);
        rc = g->strategy->ops->residual(g->plan, job, &times);
    }
    msi_gridder_add_times(&g->report, &times);
    msi_gridder_end_threads(threads_before);
    return rc;
}

/* Make images on the host by the plan that is kept. */
static int image_by_job(msi_gridder *g, const int *store_plane, msi_image *out)
{
    msi_residual_job job = {
        .store = &g->store, .n_image = out->n_plane, .store_plane = store_plane, .sum_weight = out->sum_weight};
    if (g->strategy->backend == MSI_BACKEND_CPU || msi_gridder_has_workers(g)) {
        job.pixel = out->pixel;
        return do_job(g, &job, NULL, NULL);
    }
    msi_planes *planes;
    MSI_TRY(msi_gridder_planes(g, out->n_plane, &planes));
    int rc = do_job(g, &job, NULL, planes);
    if (!rc) rc = msi_planes_fetch(planes, 0, out->n_plane, out->pixel);
    msi_planes_free(planes);
    return rc;
}

/* Make images on the host by a plan for them alone. */
static int image_once(msi_gridder *g, const int *store_plane, msi_image *out)
{
    msi_plan *plan = NULL;
    msi_workers *workers = NULL;
    msi_stage_times times = {0};
    const int threads_before = msi_gridder_begin_threads(g);
    msi_gridder_await_device(g->strategy, g->spec.device);
    msi_plan_request request = msi_gridder_request(g);
    msi_gridder_request_stored(&request, &g->store);
    int rc = msi_gridder_take_plan(g, &request, &plan);
    if (!rc) rc = msi_gridder_ready_workers(g, &request, plan, &workers);
    const msi_residual_job job = {
        .store = &g->store, .n_image = out->n_plane, .store_plane = store_plane, .sum_weight = out->sum_weight};
    if (!rc)
        rc = workers ? msi_workers_image(workers, &job, out->pixel, &times)
                     : g->strategy->ops->image(plan, &g->store, store_plane, out, &times);
    msi_gridder_add_times(&g->report, &times);
    msi_workers_free(workers);
    g->strategy->ops->free(plan);
    msi_gridder_end_threads(threads_before);
    return rc;
}

int msi_gridder_image(msi_gridder *g, msi_image *out)
{
    memset(out, 0, sizeof *out);
    const msi_gridder_spec *s = &g->spec;
    if (s->predict) return msi_error_set(MSI_EINTERNAL, "an image asked of a gridder that predicts");
    int store_plane[MSI_GRIDDER_MAX_PLANES];
    msi_progress_share all = msi_progress_enter(0, 1, SUM_PARTS);
    msi_gridder_sum_weights(g);
    msi_progress_leave(all);
    MSI_TRY(msi_image_alloc(out, &s->geometry, msi_gridder_n_image(s), g->precision));
    for (int i = 0; i < out->n_plane; i++) {
        int is_psf = s->psf_only || i == s->n_plane;
        store_plane[i] = is_psf ? -1 : i;
        out->sum_weight[i] = g->weights.sum[is_psf ? 0 : i];
        out->n_vis[i] = g->weights.count[is_psf ? 0 : i];
    }
    if (!g->store.n_sample) {
        for (int i = 0; i < out->n_plane; i++) msi_image_fill_nan(out, i);
        return MSI_OK;
    }
    all = msi_progress_enter(1, SUM_PARTS, SUM_PARTS);
    const int rc = (s->residual ? image_by_job : image_once)(g, store_plane, out);
    msi_progress_leave(all);
    for (int i = 0; i < out->n_plane; i++) out->sum_weight[i] /= g->store.weight_scale;
    if (rc) msi_image_free(out);
    return rc;
}

/* ---- Residuals -------------------------------------------------------------------------------------------------- */

int msi_gridder_planes(const msi_gridder *g, int n, msi_planes **out)
{
    const int on_gpu = g->strategy->backend == MSI_BACKEND_CUDA;
    const msi_planes_shape shape = {.nx = g->spec.geometry.nx,
                                    .ny = g->spec.geometry.ny,
                                    .n = n,
                                    .precision = g->precision,
                                    .backend = g->strategy->backend,
                                    .device = on_gpu ? g->spec.device : 0};
    msi_gridder_await_device(g->strategy, g->spec.device);
    return msi_planes_create(out, &shape);
}

/* Fails where planes are not those that a gridder makes, or not so many. */
static int check_planes(const msi_gridder *g, const msi_planes *planes, int n, const char *what)
{
    const msi_planes_shape *s = msi_planes_shape_of(planes);
    const int same_place =
        s->backend == g->strategy->backend && (s->backend == MSI_BACKEND_CPU || s->device == g->spec.device);
    if (same_place && s->n == n && s->nx == g->spec.geometry.nx && s->ny == g->spec.geometry.ny &&
        s->precision == g->precision)
        return MSI_OK;
    return msi_error_set(MSI_EINTERNAL, "%s: %d planes of %lld x %lld pixels are not of the gridder's kind or not %d",
                         what, s->n, (long long)s->nx, (long long)s->ny, n);
}

/* Nothing is known of an image without a sample. */
static int fill_nan(const msi_gridder *g, msi_planes *planes, int n)
{
    msi_image none;
    MSI_TRY(msi_image_alloc(&none, &g->spec.geometry, 1, g->precision));
    msi_image_fill_nan(&none, 0);
    int rc = MSI_OK;
    for (int i = 0; !rc && i < n; i++) rc = msi_planes_upload(planes, i, 1, none.pixel);
    msi_image_free(&none);
    return rc;
}

/* Images planes of the store, or the PSF of the first one, less a model. */
static int make_residual(msi_gridder *g, const int *store_plane, int n, const msi_planes *model, msi_planes *out)
{
    double sum[MSI_GRIDDER_MAX_PLANES];
    if (!g->spec.residual)
        return msi_error_set(MSI_EINTERNAL, "a residual asked of a gridder that was not made for it");
    MSI_TRY(check_planes(g, out, n, "residual"));
    if (model) MSI_TRY(check_planes(g, model, g->spec.n_plane, "model"));
    if (!g->store.n_sample) return fill_nan(g, out, n);
    msi_gridder_sum_weights(g);
    for (int i = 0; i < n; i++) sum[i] = g->weights.sum[store_plane[i] < 0 ? 0 : store_plane[i]];
    msi_residual_job job = {.store = &g->store, .n_image = n, .store_plane = store_plane, .sum_weight = sum};
    return do_job(g, &job, model, out);
}

int msi_gridder_residual(msi_gridder *g, const msi_planes *model, msi_planes *residual)
{
    int store_plane[MSI_GRIDDER_MAX_PLANES];
    for (int i = 0; i < g->spec.n_plane; i++) store_plane[i] = i;
    return make_residual(g, store_plane, g->spec.n_plane, model, residual);
}

int msi_gridder_psf(msi_gridder *g, msi_planes *psf)
{
    const int of_first_plane = -1;
    return make_residual(g, &of_first_plane, 1, NULL, psf);
}
