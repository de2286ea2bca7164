/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Facets of a run. Solutions are read at the start. In each interval, facets are made when the centre is known. Rows
 * get tags when they are read. Images and residuals are made facet by facet (facet_gridding.h). Images of true flux are
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

/* Sum the responses of the facets of a channel over the ranks. */
static int sum_responses(msi_imaging_run *r, msi_facet_channel *c)
{
    if (r->ranks->size == 1) return MSI_OK;
    MSI_TRY(msi_ranks_sum(r->ranks, c->correction, msi_facet_n_correction(c), MSI_FP64));
    if (c->beam) MSI_TRY(msi_ranks_sum(r->ranks, c->beam, msi_facet_n_correction(c), MSI_FP64));
    /* Without gains, responses and totals are 1 on each rank. */
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

/* Make the PSF as plane p of an image. One PSF serves all facets. */
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
