/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/clean/clean_samples.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

/* Requests of rank 0 to the other ranks. */
enum { DONE, RELEASE, REFINE, PSF, SOURCE_PSF, DIRTY, RESIDUAL };

typedef struct request {
    int64_t kind, channel;
    double accuracy; /* accuracy of REFINE */
    int64_t x, y;    /* pixel of SOURCE_PSF */
} request;

/* The planes of an image: the caller's on rank 0, the rank's own on the others. */
typedef struct working_planes {
    msi_planes *model, *residual, *psf;
} working_planes;

/* ---- Counts ---- */

/* Sum the moments of weights over the band of all ranks. */
static int sum_moments(msi_clean_samples *s)
{
    const int n = 4 * s->n_term - 2;
    double edge[2] = {-HUGE_VAL, 0};
    for (int i = 0; i < s->n_part; i++) {
        double low, high;
        msi_gridder_band(s->gridder[i], &low, &high);
        if (high > 0) edge[0] = fmax(edge[0], -low);
        edge[1] = fmax(edge[1], high);
    }
    MSI_TRY(msi_ranks_largest(s->ranks, edge, 2));
    s->middle_hz = 0.5 * (edge[1] - edge[0]);
    s->half_hz = edge[1] + edge[0] > 0 ? 0.5 * (edge[1] + edge[0]) : 1;
    for (int i = 0; i < s->n_part; i++) {
        double moment[4 * MSI_TAYLOR_MAX_TERM - 2];
        msi_gridder_moments(s->gridder[i], s->middle_hz, s->half_hz, n, moment);
        for (int k = 0; k < n; k++) s->moment[k] += moment[k];
    }
    return msi_ranks_sum(s->ranks, s->moment, n, MSI_FP64);
}

int msi_clean_samples_count(msi_clean_samples *s)
{
    const int64_t n = s->n_channel * s->n_plane;
    int rc = msi_alloc(&s->sum_weight, n, sizeof *s->sum_weight, "sums of weights");
    if (!rc) rc = msi_alloc(&s->sum_vis_weight, n, sizeof *s->sum_vis_weight, "sums of weights");
    if (!rc) rc = msi_alloc(&s->largest_weight, n, sizeof *s->largest_weight, "largest weights");
    if (!rc) rc = msi_alloc(&s->n_vis, n, sizeof *s->n_vis, "numbers of samples");
    for (int64_t i = 0; !rc && i < s->n_channel * s->n_part; i++) {
        msi_gridder_report report;
        const int64_t first = i / s->n_part * s->n_plane;
        msi_gridder_report_get(s->gridder[i], &report);
        s->longest_lambda = fmax(s->longest_lambda, report.longest_lambda);
        /* Facets may store more planes than are imaged. */
        msi_gridder_weights_add(s->gridder[i], s->n_plane, s->sum_weight + first, s->largest_weight + first,
                                s->n_vis + first);
        for (int p = 0; p < s->n_plane; p++) s->sum_vis_weight[first + p] += report.sum_vis_weight[p];
    }
    MSI_TRY(msi_ranks_agree(s->ranks, rc));
    MSI_TRY(msi_ranks_largest(s->ranks, &s->longest_lambda, 1));
    MSI_TRY(msi_ranks_sum(s->ranks, s->sum_weight, n, MSI_FP64));
    MSI_TRY(msi_ranks_sum(s->ranks, s->sum_vis_weight, n, MSI_FP64));
    MSI_TRY(msi_ranks_largest(s->ranks, s->largest_weight, n));
    if (s->n_term) MSI_TRY(sum_moments(s));
    return msi_ranks_count(s->ranks, s->n_vis, (int)n);
}

int msi_clean_samples_taylor(const msi_clean_samples *s, msi_clean_taylor *taylor)
{
    if (s->moment[0] > 0)
        return msi_clean_taylor_make(taylor, s->n_term, s->reference_hz, s->middle_hz, s->half_hz, s->moment);
    *taylor = (msi_clean_taylor){.n_term = s->n_term, .n_node = 2 * s->n_term - 1, .share = {1}};
    for (int k = 0; k < taylor->n_node; k++) taylor->freq_hz[k] = s->reference_hz;
    return MSI_OK;
}

void msi_clean_samples_free(msi_clean_samples *s)
{
    msi_free(s->sum_weight);
    msi_free(s->sum_vis_weight);
    msi_free(s->largest_weight);
    msi_free(s->n_vis);
    s->sum_weight = s->sum_vis_weight = s->largest_weight = NULL;
    s->n_vis = NULL;
}

int msi_clean_samples_planes(const msi_clean_samples *s, int64_t channel, int n, msi_planes **out)
{
    return msi_gridder_planes(s->whole ? s->whole : s->gridder[channel * s->n_part], n, out);
}

/* ---- An image from the samples of all ranks ---- */

static int is_alone(const msi_clean_samples *s)
{
    return s->ranks->size == 1;
}

/* Make a residual by facets or by the fields of a mosaic, in host memory. */
static int make_by_parts(msi_clean_samples *s, const request *q, const working_planes *own)
{
    const msi_planes_shape *shape = msi_planes_shape_of(own->residual);
    msi_image model = {0}, image = {0};
    int rc = MSI_OK;
    if (q->kind == RESIDUAL) {
        rc = msi_image_alloc(&model, &s->geometry, shape->n, shape->precision);
        if (!rc) rc = msi_planes_fetch(own->model, 0, shape->n, model.pixel);
    }
    const msi_image *known = q->kind == RESIDUAL ? &model : NULL;
    if (!rc)
        rc = s->mosaic ? msi_mosaic_image(&s->mosaic[q->channel], known, &image)
                       : msi_facet_image(&s->facets[q->channel], known, &image);
    msi_image_free(&model);
    if (!rc) rc = msi_planes_upload(own->residual, 0, shape->n, image.pixel);
    msi_image_free(&image);
    return rc;
}

/* Divide the response to a source by its value in the middle of the first plane. */
static void divide_by_peak(msi_image *psf)
{
    const msi_image_geometry *g = &psf->geometry;
    const int64_t n = msi_image_n_pixel(g), middle = g->ny / 2 * g->nx + g->nx / 2;
    const double peak = msi_image_value(psf->pixel, psf->precision, middle);
    if (!(peak > 0)) return;
    for (int k = 0; k < psf->n_plane; k++)
        for (int64_t i = 0; i < n; i++)
            msi_image_set(psf, k, i, msi_image_value(msi_image_plane(psf, k), psf->precision, i) / peak);
}

/* Make the response to a source, in host memory. */
static int make_source_psf(msi_clean_samples *s, const request *q, const working_planes *own)
{
    const msi_planes_shape *shape = msi_planes_shape_of(own->psf);
    msi_mosaic_channel *mosaic = s->mosaic ? &s->mosaic[q->channel] : NULL;
    if (mosaic && !msi_mosaic_sees(mosaic, q->x, q->y)) return msi_mosaic_psf(mosaic, s->of_whole, own->psf);
    const msi_facet_channel plain = {.gridder = s->gridder[q->channel]};
    const msi_facet_source source = {
        .geometry = s->geometry, .x = q->x, .y = q->y, .n_power = shape->n, .reference_hz = s->reference_hz};
    msi_image image = {0};
    int rc = mosaic ? msi_mosaic_source_psf(mosaic, q->x, q->y, &image)
                    : msi_facet_source_psf(s->facets ? &s->facets[q->channel] : &plain, &source, &image);
    if (!rc && is_alone(s)) divide_by_peak(&image);
    if (!rc) rc = msi_planes_upload(own->psf, 0, shape->n, image.pixel);
    msi_image_free(&image);
    return rc;
}

/* Make the part of this rank. */
static int make_own_part(msi_clean_samples *s, const request *q, const working_planes *own)
{
    msi_gridder *g = s->gridder[q->channel * s->n_part];
    if (q->kind == PSF && s->mosaic) return msi_mosaic_psf(&s->mosaic[q->channel], s->of_whole, own->psf);
    if (q->kind == PSF) {
        const int rc = msi_gridder_psf(g, own->psf);
        /* Facets do not need the plan of the whole image. */
        if (s->facets) msi_gridder_reset(g);
        return rc;
    }
    if (q->kind == SOURCE_PSF) return make_source_psf(s, q, own);
    if (s->facets || s->mosaic) return make_by_parts(s, q, own);
    if (s->beam && q->kind == RESIDUAL) return msi_pb_channel_residual(&s->beam[q->channel], own->model, own->residual);
    return msi_gridder_residual(g, q->kind == RESIDUAL ? own->model : NULL, own->residual);
}

/* Copy the model of rank 0 to the other ranks. */
static int broadcast_model(msi_clean_samples *s, const working_planes *own, msi_image *image)
{
    const int is_first = s->ranks->rank == 0;
    const int64_t bytes = msi_planes_bytes(msi_planes_shape_of(own->model));
    const int n = msi_planes_shape_of(own->model)->n;
    MSI_TRY(msi_ranks_agree(s->ranks, is_first ? msi_planes_fetch(own->model, 0, n, image->pixel) : MSI_OK));
    MSI_TRY(msi_ranks_broadcast(s->ranks, image->pixel, bytes));
    return is_first ? MSI_OK : msi_planes_upload(own->model, 0, n, image->pixel);
}

/* Sum the weights of this rank. Returned: sum_weight, n_vis [n_plane] */
static void own_weights(const msi_clean_samples *s, int64_t channel, double *sum_weight, int64_t *n_vis)
{
    for (int p = 0; p < s->n_plane; p++) sum_weight[p] = 0, n_vis[p] = 0;
    for (int i = 0; i < s->n_part; i++)
        msi_gridder_weights_add(s->gridder[channel * s->n_part + i], s->n_plane, sum_weight, NULL, n_vis);
}

/* Each rank makes its part of an image; rank 0 gets the weighted mean. */
static int make_image(msi_clean_samples *s, const request *q, const working_planes *own)
{
    const int is_psf = q->kind == PSF || q->kind == SOURCE_PSF;
    msi_planes *planes = is_psf ? own->psf : own->residual;
    const msi_planes_shape *shape = msi_planes_shape_of(planes);
    const int64_t first = q->channel * s->n_plane;
    msi_image image = {0};
    double sum_weight[MSI_GRIDDER_MAX_PLANES];
    int64_t n_vis[MSI_GRIDDER_MAX_PLANES];
    if (is_alone(s)) return make_own_part(s, q, own);
    int rc = msi_ranks_agree(s->ranks, msi_image_alloc(&image, &s->geometry, shape->n, shape->precision));
    if (!rc && q->kind == RESIDUAL) rc = broadcast_model(s, own, &image);
    if (!rc) rc = make_own_part(s, q, own);
    if (!rc) rc = msi_planes_fetch(planes, 0, shape->n, image.pixel);
    rc = msi_ranks_agree(s->ranks, rc);
    own_weights(s, q->channel, sum_weight, n_vis);
    for (int i = 0; !rc && i < shape->n; i++) {
        const int p = is_psf ? 0 : i / (s->n_term ? s->n_term : 1);
        image.sum_weight[i] = sum_weight[p];
        image.n_vis[i] = n_vis[p];
        /* A plane is NaN if no rank has a sample of it. */
        if (!s->n_vis[first + p]) msi_image_fill_nan(&image, i);
    }
    if (!rc) rc = msi_ranks_image(s->ranks, &image);
    if (!rc && q->kind == SOURCE_PSF) divide_by_peak(&image);
    if (!rc && !s->ranks->rank) rc = msi_planes_upload(planes, 0, shape->n, image.pixel);
    msi_image_free(&image);
    return rc;
}

static void release_gridder(msi_clean_samples *s, int64_t channel)
{
    if (s->facets) msi_facet_channel_leave(&s->facets[channel]);
    for (int64_t i = channel * s->n_part; i < (channel + 1) * s->n_part; i++) {
        msi_gridder_free(s->gridder[i]);
        s->gridder[i] = NULL;
    }
}

/* ---- Requests ---- */

/* Send a request of rank 0, or receive it on another rank. Fails if a rank has failed. */
static int share_request(msi_clean_samples *s, request *q)
{
    if (is_alone(s)) return MSI_OK;
    MSI_TRY(msi_ranks_agree(s->ranks, MSI_OK));
    return msi_ranks_broadcast(s->ranks, q, sizeof *q);
}

int msi_clean_samples_residual(msi_clean_samples *s, int64_t channel, msi_planes *model, msi_planes *residual)
{
    request q = {.kind = model ? RESIDUAL : DIRTY, .channel = channel};
    const working_planes own = {.model = model, .residual = residual};
    MSI_TRY(share_request(s, &q));
    return make_image(s, &q, &own);
}

int msi_clean_samples_psf(msi_clean_samples *s, int64_t channel, msi_planes *psf)
{
    request q = {.kind = PSF, .channel = channel};
    const working_planes own = {.psf = psf};
    MSI_TRY(share_request(s, &q));
    return make_image(s, &q, &own);
}

int msi_clean_samples_source_psf(msi_clean_samples *s, int64_t channel, int64_t x, int64_t y, msi_planes *psf)
{
    request q = {.kind = SOURCE_PSF, .channel = channel, .x = x, .y = y};
    const working_planes own = {.psf = psf};
    MSI_TRY(share_request(s, &q));
    return make_image(s, &q, &own);
}

/* Refine on all ranks; all fail if one does. */
static int refine_channel(msi_clean_samples *s, const request *q)
{
    if (s->facets) {
        s->facets[q->channel].accuracy = q->accuracy;
        return MSI_OK;
    }
    if (s->beam) {
        msi_pb_channel_free(&s->beam[q->channel]);
        s->beam[q->channel].accuracy = q->accuracy;
    }
    int rc = MSI_OK;
    for (int i = 0; !rc && i < s->n_part; i++)
        rc = msi_gridder_refine(s->gridder[q->channel * s->n_part + i], q->accuracy);
    return msi_ranks_agree(s->ranks, rc);
}

int msi_clean_samples_refine(msi_clean_samples *s, int64_t channel, double accuracy)
{
    request q = {.kind = REFINE, .channel = channel, .accuracy = accuracy};
    MSI_TRY(share_request(s, &q));
    return refine_channel(s, &q);
}

void msi_clean_samples_drop_plans(msi_clean_samples *s, int64_t first, int64_t n)
{
    for (int64_t i = first * s->n_part; i < (first + n) * s->n_part; i++) msi_gridder_reset(s->gridder[i]);
}

int msi_clean_samples_release(msi_clean_samples *s, int64_t channel)
{
    request q = {.kind = RELEASE, .channel = channel};
    release_gridder(s, channel);
    return share_request(s, &q);
}

int msi_clean_samples_done(msi_clean_samples *s)
{
    return share_request(s, &(request){.kind = DONE});
}

static int make_planes(msi_clean_samples *s, working_planes *own)
{
    const int n = s->n_plane * (s->n_term ? s->n_term : 1), n_psf = s->n_term ? 2 * s->n_term - 1 : 1;
    MSI_TRY(msi_clean_samples_planes(s, 0, n, &own->model));
    MSI_TRY(msi_clean_samples_planes(s, 0, n, &own->residual));
    return n_psf <= n ? msi_planes_view(&own->psf, own->residual, 0, n_psf)
                      : msi_clean_samples_planes(s, 0, n_psf, &own->psf);
}

int msi_clean_samples_serve(msi_clean_samples *s)
{
    working_planes own = {0};
    request q = {.kind = RELEASE};
    int rc = make_planes(s, &own);
    while (!rc) {
        rc = share_request(s, &q);
        if (rc || q.kind == DONE) break;
        if (q.kind == RELEASE)
            release_gridder(s, q.channel);
        else if (q.kind == REFINE)
            rc = refine_channel(s, &q);
        else
            rc = make_image(s, &q, &own);
    }
    msi_planes_free(own.psf);
    msi_planes_free(own.residual);
    msi_planes_free(own.model);
    return rc;
}
