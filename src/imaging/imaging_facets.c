/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Facets of a run. Solutions are read at the start. In each interval the facets are made once its centre is known, rows
 * get tags when they are read, and images and residuals are made by facets (facet_gridding.h). Images of true flux are
 * written together with those of flat noise.
 */
#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/imaging/imaging_run.h"

int msi_imaging_facets_start(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    if (!msi_options_has_facets(o)) return MSI_OK;
    MSI_TRY(msi_alloc(&r->facets, 1, sizeof *r->facets, "facets"));
    return msi_facet_gains_open(&r->facets->gains, &o->facets, o->n_ms);
}

int msi_imaging_facets_open(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    msi_imaging_facets *f = r->facets;
    if (!f) return MSI_OK;
    const msi_facet_subject subject = {.target = {.geometry = o->geometry,
                                                  .ra_rad = r->ra_rad,
                                                  .dec_rad = r->dec_rad,
                                                  .frame = r->observation.dir_frame},
                                       .reader = r->reader,
                                       .pb = o->facets.beam ? r->pb : NULL,
                                       .planes = r->planes,
                                       .n_plane = r->n_plane,
                                       .accuracy = o->accuracy_follows ? 1e-4 : o->accuracy,
                                       .is_quiet = r->interval > 0};
    MSI_TRY(msi_ranks_agree(r->ranks, msi_facet_setup_make(&o->facets, &subject, f->gains, &f->facets, &f->work)));
    MSI_TRY(msi_ranks_same(r->ranks, (uint64_t)f->facets.n, "makes another number of facets"));
    MSI_TRY(msi_alloc(&f->channel, o->channels_out, sizeof *f->channel, "facets"));
    return msi_alloc(&f->weight, o->channels_out, sizeof *f->weight, "facets");
}

void msi_imaging_facets_gridder(const msi_imaging_run *r, msi_gridder_spec *spec)
{
    if (!r->facets) return;
    spec->n_plane = r->facets->work.planes.n_stored;
    spec->residual = 1;
    spec->psf = 0;
    spec->tagged = r->facets->gains != NULL;
}

void msi_imaging_facets_bind(msi_imaging_run *r, const msi_gridder_spec *spec)
{
    msi_imaging_facets *f = r->facets;
    f->work.spec = *spec;
    f->work.n_term = spec->n_term;
    f->work.reference_hz = spec->reference_hz;
    for (int64_t c = 0; c < r->options->channels_out; c++)
        f->channel[c] = (msi_facet_channel){.work = &f->work, .gridder = r->gridder[c]};
}

/* Sum the responses of a channel over the ranks. */
static int sum_responses(msi_imaging_run *r, msi_facet_channel *c)
{
    if (r->ranks->size == 1) return MSI_OK;
    MSI_TRY(msi_ranks_sum(r->ranks, c->correction, msi_facet_n_correction(c), MSI_FP64));
    if (c->beam) MSI_TRY(msi_ranks_sum(r->ranks, c->beam, msi_facet_n_correction(c), MSI_FP64));
    /* Without gains, responses and totals are 1 in each rank. */
    MSI_TRY(msi_ranks_sum(r->ranks, c->moment, msi_facet_n_power(c->work), MSI_FP64));
    return msi_ranks_sum(r->ranks, c->total, c->work->planes.n_image, MSI_FP64);
}

int msi_imaging_facets_respond(msi_imaging_run *r)
{
    for (int64_t c = 0; r->facets && c < r->options->channels_out; c++) {
        msi_facet_channel *of = &r->facets->channel[c];
        MSI_TRY(msi_ranks_agree(r->ranks, msi_facet_respond(of)));
        MSI_TRY(sum_responses(r, of));
        msi_facet_responses_done(of);
    }
    return MSI_OK;
}

int msi_imaging_facets_tag(msi_imaging_facets *f, const msi_ms_block *block, int n, const uint64_t **tag)
{
    int64_t n_row = 0;
    if (!f->gains) return MSI_OK;
    for (int i = 0; i < n; i++) n_row += block[i].n_row;
    if (n_row > f->n_tag) {
        f->n_tag = 0;
        MSI_TRY(msi_grow(&f->tag, 0, n_row, sizeof *f->tag, "tags of rows"));
        f->n_tag = n_row;
    }
    for (int64_t i = 0, at = 0; i < n; at += block[i++].n_row) {
        tag[i] = f->tag + at;
        MSI_TRY(msi_facet_gains_tag(f->gains, &block[i], f->tag + at));
    }
    return MSI_OK;
}

/* Make the PSF, which is one for the whole image, as plane p of an image. */
static int make_psf(msi_gridder *g, int p, msi_image *image)
{
    msi_planes *psf;
    MSI_TRY(msi_gridder_planes(g, 1, &psf));
    int rc = msi_gridder_psf(g, psf);
    if (!rc) rc = msi_planes_fetch(psf, 0, 1, msi_image_plane(image, p));
    msi_planes_free(psf);
    msi_gridder_reset(g);
    return rc;
}

int msi_imaging_facets_image(msi_imaging_run *r, int64_t channel, msi_image *image)
{
    *image = (msi_image){0};
    MSI_TRY(msi_facet_image(&r->facets->channel[channel], NULL, image));
    if (!r->options->make_psf) return MSI_OK;
    int rc = msi_imaging_append_psf(image, r->n_plane);
    if (!rc) rc = make_psf(r->gridder[channel], r->n_plane, image);
    if (rc) msi_image_free(image);
    return rc;
}

/* ---- Images of true flux ---- */

/* Return the factor of a facet in an image of a channel, or of the mean of all channels, over that of its beam. */
static double response_of(const msi_imaging_run *r, int64_t channel, int facet)
{
    const msi_imaging_facets *f = r->facets;
    double sum = 0, weight = 0;
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        const msi_facet_channel *of = &f->channel[c];
        if (!of->correction || (channel != MSI_OUTPUT_MFS && c != channel)) continue;
        const double w = channel == MSI_OUTPUT_MFS ? f->weight[c] : 1, beam = msi_facet_beam(of, facet);
        sum += beam > 0 ? w * msi_facet_response(of, facet) / beam : 0;
        weight += w;
    }
    return weight > 0 ? sum / weight : 0;
}

int msi_imaging_facets_response(msi_imaging_run *r, int64_t channel, float *pixel)
{
    const msi_facets *f = &r->facets->facets;
    for (int i = 0; i < f->n; i++) {
        const msi_facet *p = &f->facet[i];
        const float response = (float)response_of(r, channel, i);
        float *weight;
        MSI_TRY(msi_alloc(&weight, p->nx * p->ny, sizeof *weight, "weights of a facet"));
        const int rc = msi_facets_weights(f, i, weight);
        for (int64_t y = 0; !rc && y < p->ny; y++)
            for (int64_t x = 0; x < p->nx; x++)
                pixel[(p->y0 + y) * f->geometry.nx + p->x0 + x] += weight[y * p->nx + x] * response;
        msi_free(weight);
        MSI_TRY(rc);
    }
    const msi_facet_gains *gains = r->facets->gains;
    if (!msi_facet_gains_has_beam(gains) || msi_facet_gains_has_slopes(gains)) return MSI_OK;
    const int64_t n = msi_image_n_pixel(&f->geometry);
    float *beam;
    MSI_TRY(msi_alloc(&beam, n, sizeof *beam, "the primary beam"));
    const int rc =
        msi_imaging_pb_response(r, channel, channel == MSI_OUTPUT_MFS ? 0 : r->facets->weight[channel], beam);
    for (int64_t i = 0; !rc && i < n; i++) pixel[i] *= beam[i];
    msi_free(beam);
    return rc;
}

int msi_imaging_facets_see(msi_imaging_run *r, int64_t channel)
{
    const msi_image_geometry *g = &r->facets->facets.geometry;
    msi_imaging_facets *f = r->facets;
    float *pixel;
    if (!f->seen) MSI_TRY(msi_alloc(&f->seen, r->options->channels_out, sizeof *f->seen, "responses of facets"));
    MSI_TRY(msi_alloc(&pixel, msi_image_n_pixel(g), sizeof *pixel, "responses of facets"));
    msi_pb_mean_from_plain(&f->seen[channel], g, r->n_plane, pixel);
    return msi_imaging_facets_response(r, channel, pixel);
}

/* Divide a plane of an image by the response, and write it. Given: out  of one plane */
static int write_true(msi_imaging_run *r, const msi_imaging_pb_image *of, int plane, const float *response,
                      msi_image *out)
{
    const msi_image *from = of->image;
    const void *pixel = msi_image_plane(from, of->plane + plane);
    const int64_t n = msi_image_n_pixel(&from->geometry);
    const msi_fits_kind kind = of->kind == MSI_FITS_MODEL ? MSI_FITS_MODEL_PB : MSI_FITS_IMAGE_PB;
    const msi_output_id id = {r->interval, of->channel, of->first + plane, kind, of->file[plane].id.term};
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const double value = msi_image_value(pixel, from->precision, i);
        /* Without a response nothing is known; a model has nothing there. */
        const double flux = response[i] > 0 ? value / (double)response[i] : kind == MSI_FITS_MODEL_PB ? 0 : (double)NAN;
        msi_image_set(out, 0, i, flux);
    }
    return msi_outputs_write(r->outputs, &id, &of->file[plane].spec, out->pixel, out->precision);
}

int msi_imaging_facets_put(msi_imaging_run *r, const msi_imaging_pb_image *of)
{
    const int is_image = of->kind == (r->options->clean.niter ? MSI_FITS_IMAGE : MSI_FITS_DIRTY);
    msi_imaging_facets *f = r->facets;
    msi_image out = {0};
    if (!r->outputs || !(is_image || of->kind == MSI_FITS_MODEL)) return MSI_OK;
    if (of->channel != MSI_OUTPUT_MFS && !(f->weight[of->channel] > 0))
        f->weight[of->channel] = of->image->sum_weight[of->plane];
    int rc = MSI_OK;
    if (!f->response || f->response_channel != of->channel) {
        msi_free(f->response);
        f->response = NULL;
        MSI_TRY(msi_alloc(&f->response, msi_image_n_pixel(&of->image->geometry), sizeof *f->response,
                          "responses of facets"));
        f->response_channel = of->channel;
        rc = msi_imaging_facets_response(r, of->channel, f->response);
    }
    if (!rc) rc = msi_image_alloc(&out, &of->image->geometry, 1, of->image->precision);
    for (int p = 0; !rc && p < of->n_plane; p++) rc = write_true(r, of, p, f->response, &out);
    msi_image_free(&out);
    return rc;
}

/* ---- The end ---- */

void msi_imaging_facets_close(msi_imaging_run *r)
{
    msi_imaging_facets *f = r->facets;
    if (!f) return;
    for (int64_t c = 0; f->channel && c < r->options->channels_out; c++) msi_facet_channel_free(&f->channel[c]);
    for (int64_t c = 0; f->seen && c < r->options->channels_out; c++) msi_pb_mean_free(&f->seen[c]);
    msi_free(f->seen);
    msi_free(f->channel);
    msi_free(f->weight);
    msi_free(f->response);
    f->response = NULL;
    f->seen = NULL;
    f->channel = NULL;
    f->weight = NULL;
    msi_facets_free(&f->facets);
}

void msi_imaging_facets_free(msi_imaging_run *r)
{
    if (!r->facets) return;
    msi_facet_gains_free(r->facets->gains);
    msi_free(r->facets->tag);
    msi_free(r->facets);
    r->facets = NULL;
}
