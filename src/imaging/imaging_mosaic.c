/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Mosaics of a run. Each output channel has a gridder for each field. It images the field's box, a part of the image
 * (pb_mosaic.h). A block goes to the gridder of its phase centre. The image of a channel is made from those of its
 * fields.
 */

#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "src/imaging/imaging_clean.h"
#include "src/imaging/imaging_run.h"

/* List the direction of the box of each field, to which its samples are shifted. */
static int list_directions(msi_imaging_mosaic *m)
{
    const msi_pb_array *a = m->fields.array;
    MSI_TRY(msi_alloc(&m->turn, a->n_pointing + 1, sizeof *m->turn, "fields"));
    for (int64_t i = 0; i < a->n_pointing; i++) {
        const msi_pb_pointing *p = &a->pointing[i];
        const int f = m->fields.of_pointing[i];
        if (f < 0) continue;
        m->turn[m->n_turn++] = (msi_conversion_turn){
            .set = p->set, .field_id = p->field_id, .l = m->fields.field[f].l, .m = m->fields.field[f].m};
    }
    return MSI_OK;
}

int msi_imaging_mosaic_open(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    int64_t largest = 0;
    if (!o->pb.mosaic || r->is_empty) return MSI_OK;
    MSI_TRY(msi_alloc(&r->mosaic, 1, sizeof *r->mosaic, "a mosaic"));
    msi_imaging_mosaic *m = r->mosaic;
    MSI_TRY(msi_mosaic_make(&m->fields, r->pb, &o->geometry, (const double[]){r->ra_rad, r->dec_rad},
                            r->channels.low_hz[0]));
    MSI_TRY(msi_alloc(&m->channel, o->channels_out, sizeof *m->channel, "primary beams"));
    MSI_TRY(list_directions(m));
    for (int i = 0; i < m->fields.n; i++) {
        const int64_t n = m->fields.field[i].nx * m->fields.field[i].ny;
        largest = n > largest ? n : largest;
    }
    if (r->interval == 0)
        msi_log_info("mosaic: %d field%s, each imaged on at most %.3g million pixels%s", m->fields.n,
                     msi_plural(m->fields.n), 1e-6 * (double)largest,
                     msi_ms_reader_has_whole_fields(r->reader) ? "; each rank has some of them" : "");
    if (m->fields.n_outside)
        msi_log_warning("%lld pointing%s of the mosaic do%s not see the image; their samples are left out",
                        (long long)m->fields.n_outside, msi_plural(m->fields.n_outside),
                        m->fields.n_outside == 1 ? "es" : "");
    return MSI_OK;
}

void msi_imaging_mosaic_spec(const msi_imaging_run *r, int part, msi_gridder_spec *spec)
{
    if (!r->mosaic) return;
    const msi_mosaic_field *f = &r->mosaic->fields.field[part];
    spec->geometry.nx = f->nx;
    spec->geometry.ny = f->ny;
    spec->l_center_rad = f->l;
    spec->m_center_rad = f->m;
    spec->store_bytes /= r->mosaic->fields.n;
    /* There are as many powers as nodes, the frequencies at which beams are known. */
    if (spec->n_term) spec->n_term = 2 * spec->n_term - 1;
    /* Towers need an image whose centre is the phase centre. */
    spec->strategy = NULL;
    /* Each field uses one device, or some of the threads. */
    const int n_worker = r->mosaic->fields.n_worker;
    if (n_worker > 1) spec->n_thread = spec->n_thread > n_worker ? spec->n_thread / n_worker : 1;
    if (spec->n_worker) spec->device = spec->worker[part % spec->n_worker];
    spec->n_worker = 0;
}

int msi_imaging_mosaic_part(const msi_imaging_run *r, const msi_ms_block *block)
{
    return r->mosaic ? msi_mosaic_field_of(&r->mosaic->fields, block->set, block->field_id) : 0;
}

int msi_imaging_mosaic_bind(msi_imaging_run *r, const msi_gridder_spec *whole)
{
    r->mosaic->spec = *whole;
    return msi_gridder_create(&r->mosaic->whole, whole);
}

/* Find the pixels that at least one channel sees. A field may have no samples in some channels. */
static int join_seen(msi_imaging_mosaic *m, int64_t n_channel, int64_t n_pixel)
{
    MSI_TRY(msi_alloc(&m->seen, n_pixel, 1, "the response of a mosaic"));
    for (int64_t c = 0; c < n_channel; c++) {
        const float *response = m->channel[c].response;
        m->channel[c].seen = m->seen;
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n_pixel; i++)
            if (response[i] > 0) m->seen[i] = 1;
    }
    return MSI_OK;
}

int msi_imaging_mosaic_channels(msi_imaging_run *r)
{
    const int64_t n = r->options->channels_out;
    int rc = MSI_OK;
    if (!r->mosaic) return MSI_OK;
    for (int64_t c = 0; c < n; c++) {
        const int n_field = r->mosaic->fields.n;
        double *weight = NULL;
        msi_gridder **gridder = r->gridder + c * n_field;
        /* Agree first: a rank that failed in an earlier channel must not leave the others waiting for its sum. */
        if (!rc) rc = msi_alloc(&weight, n_field, sizeof *weight, "weights of fields");
        rc = msi_ranks_agree(r->ranks, rc);
        if (rc) msi_free(weight);
        MSI_TRY(rc);
        for (int i = 0; i < n_field; i++) {
            double sum[MSI_GRIDDER_MAX_PLANES];
            int64_t n_vis[MSI_GRIDDER_MAX_PLANES];
            msi_gridder_weights(gridder[i], sum, NULL, n_vis);
            weight[i] = sum[0];
        }
        rc = msi_ranks_sum(r->ranks, weight, n_field, MSI_FP64);
        if (rc) msi_free(weight);
        MSI_TRY(rc);
        rc = msi_imaging_pb_mosaic(r, c, weight, &r->mosaic->channel[c]);
        r->mosaic->channel[c].gridder = gridder;
    }
    MSI_TRY(rc);
    return n > 1 ? join_seen(r->mosaic, n, msi_image_n_pixel(&r->options->geometry)) : MSI_OK;
}

/* Sum the powers of x over the weights of a field on all ranks. Given: y = (frequency - middle) / half */
static int find_moments(const msi_clean_samples *s, int field, double *moment)
{
    const int n = 2 * s->n_term - 1;
    const double a = s->middle_hz / s->reference_hz - 1, b = s->half_hz / s->reference_hz;
    double of_y[2 * MSI_TAYLOR_MAX_TERM - 1];
    msi_gridder_moments(s->gridder[field], s->middle_hz, s->half_hz, n, of_y);
    MSI_TRY(msi_ranks_sum(s->ranks, of_y, n, MSI_FP64));
    /* x = a + b y; expand x^k by the binomial theorem. */
    for (int k = 0; k < n; k++) {
        double factor = 1;
        moment[k] = 0;
        for (int i = 0; i <= k; i++) {
            moment[k] += factor * pow(a, k - i) * pow(b, i) * of_y[i];
            factor *= (double)(k - i) / (i + 1);
        }
    }
    return MSI_OK;
}

int msi_imaging_mosaic_terms(msi_imaging_run *r, const msi_clean_samples *s)
{
    msi_clean_taylor taylor;
    double *moment = NULL;
    if (!r->mosaic || !s->n_term) return MSI_OK;
    const int n = 2 * s->n_term - 1, n_field = r->mosaic->fields.n;
    int rc = msi_clean_samples_taylor(s, &taylor);
    if (!rc) rc = msi_alloc(&moment, (int64_t)n_field * n, sizeof *moment, "weights of fields");
    rc = msi_ranks_agree(s->ranks, rc);
    for (int i = 0; i < n_field && !rc; i++) rc = find_moments(s, i, moment + i * n);
    msi_mosaic_channel *c = &r->mosaic->channel[0];
    if (!rc) rc = msi_mosaic_channel_terms(c, &taylor, moment);
    msi_free(moment);
    if (!rc)
        memcpy(r->pb_mean[0].plain, c->response,
               (size_t)msi_image_n_pixel(&r->options->geometry) * sizeof *c->response);
    return rc;
}

/* Make the PSF of a channel as plane p of an image. */
static int make_psf(msi_imaging_run *r, int64_t channel, int p, msi_image *image)
{
    msi_planes *psf;
    MSI_TRY(msi_gridder_planes(r->mosaic->whole, 1, &psf));
    int rc = msi_mosaic_psf(&r->mosaic->channel[channel], &r->mosaic->spec, psf);
    if (!rc) rc = msi_planes_fetch(psf, 0, 1, msi_image_plane(image, p));
    msi_planes_free(psf);
    return rc;
}

int msi_imaging_mosaic_image(msi_imaging_run *r, int64_t channel, msi_image *image)
{
    const msi_options *o = r->options;
    msi_mosaic_channel *c = &r->mosaic->channel[channel];
    const int psf = o->make_psf_only ? 0 : r->n_plane;
    *image = (msi_image){0};
    MSI_TRY(msi_mosaic_image(c, NULL, image));
    if (!o->make_psf) return MSI_OK;
    int rc = msi_imaging_append_psf(image, psf);
    if (!rc) rc = make_psf(r, channel, psf, image);
    if (rc) msi_image_free(image);
    return rc;
}

void msi_imaging_mosaic_close(msi_imaging_run *r)
{
    msi_imaging_mosaic *m = r->mosaic;
    if (!m) return;
    for (int64_t c = 0; m->channel && c < r->options->channels_out; c++)
        if (m->channel[c].mosaic) msi_mosaic_channel_free(&m->channel[c]);
    msi_free(m->channel);
    msi_free(m->turn);
    msi_free(m->seen);
    msi_mosaic_free(&m->fields);
    msi_gridder_free(m->whole);
    msi_free(m);
    r->mosaic = NULL;
}
