/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/predict/predict_beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"

/* ---- Bands ---- */

static int ascending(const void *a, const void *b)
{
    const double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

/* List the different frequencies of a set within [low_hz, high_hz). */
static int list_frequencies(double **out, int64_t *n, const msi_ms_reader *reader, int set, double low_hz,
                            double high_hz)
{
    int64_t most = 0;
    *n = 0;
    for (int s = 0; s < msi_ms_reader_n_spw(reader); s++) most += msi_ms_reader_spw(reader, s)->n_chan;
    MSI_TRY(msi_alloc(out, most ? most : 1, sizeof **out, "frequencies"));
    for (int s = 0; s < msi_ms_reader_n_spw(reader); s++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(reader, s);
        for (int32_t c = 0; c < spw->n_chan && spw->set == set; c++)
            if (spw->freq_hz[c] >= low_hz && spw->freq_hz[c] < high_hz) (*out)[(*n)++] = spw->freq_hz[c];
    }
    qsort(*out, (size_t)*n, sizeof **out, ascending);
    int64_t kept = 0;
    for (int64_t i = 0; i < *n; i++)
        if (kept == 0 || (*out)[i] > (*out)[kept - 1]) (*out)[kept++] = (*out)[i];
    *n = kept;
    return MSI_OK;
}

/* Divide bands whose frequency ratio exceeds MSI_PB_WIDEST. Given: freq_hz  frequencies of all channels, ascending */
static int divide_bands(msi_model_bands *bands, const msi_ms_reader *reader, const double *freq_hz, int64_t n_freq)
{
    double *edge = NULL;
    msi_model_band *band = NULL;
    int64_t n = 0;
    int rc = msi_alloc(&edge, bands->channels.n + n_freq + 1, sizeof *edge, "bands of models");
    if (!rc) rc = msi_alloc(&band, bands->channels.n + n_freq, sizeof *band, "bands of models");
    for (int64_t i = 0, f = 0; !rc && i < bands->channels.n; i++) {
        double low_hz = 0;
        edge[n] = bands->channels.edge_hz[i];
        band[n++] = bands->band[i];
        for (; f < n_freq && freq_hz[f] < bands->channels.edge_hz[i + 1]; f++) {
            if (low_hz > 0 && freq_hz[f] > MSI_PB_WIDEST * low_hz) {
                edge[n] = 0.5 * (freq_hz[f - 1] + freq_hz[f]);
                band[n++] = bands->band[i];
                low_hz = 0;
            }
            if (low_hz == 0) low_hz = freq_hz[f];
        }
    }
    if (!rc) {
        edge[n] = bands->channels.edge_hz[bands->channels.n];
        msi_model_bands_free(bands);
        bands->channels.n = n;
        bands->channels.edge_hz = edge;
        bands->band = band;
        msi_model_bands_count(bands, reader);
    } else {
        msi_free(edge);
        msi_free(band);
    }
    return rc;
}

/* ---- Planes ---- */

/* Choose the planes of the visibilities. More than the planes of the models are needed, because a beam mixes Stokes
 * parameters. */
static void choose_planes(msi_predict_parts *p, const msi_model_images *m, const msi_ms_reader *reader)
{
    int is_linear = 0, is_circular = 0, is_cross = 0, is_scalar = 1;
    p->n_out = m->n_plane;
    memcpy(p->out, m->plane, sizeof m->plane);
    if (!p->array || m->plane[0].pol < MSI_POL_I || m->plane[0].pol > MSI_POL_V) return;
    for (int i = 0; i < p->array->n_set; i++) is_scalar &= msi_pb_model_is_scalar(p->array->set[i].model);
    if (is_scalar) return;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *s = msi_ms_reader_spw(reader, i);
        for (int c = 0; c < s->n_corr; c++) {
            is_linear |= s->corr[c] == MSI_POL_XX || s->corr[c] == MSI_POL_YY;
            is_circular |= s->corr[c] == MSI_POL_RR || s->corr[c] == MSI_POL_LL;
            is_cross |= msi_is_cross_hand(s->corr[c]);
        }
    }
    p->n_out = 0;
    for (msi_pol pol = MSI_POL_I; pol <= MSI_POL_V; pol++)
        if (pol == MSI_POL_I || is_cross || (pol == MSI_POL_Q && is_linear) || (pol == MSI_POL_V && is_circular))
            p->out[p->n_out++] = (msi_plane){.pol = pol};
}

/* ---- Views and terms ---- */

static int make_views(msi_predict_parts *p, const msi_model_images *m, const msi_predict_field *field, int n)
{
    const double centre[2] = {m->ra_rad, m->dec_rad};
    MSI_TRY(msi_alloc(&p->view, n, sizeof *p->view, "pointings"));
    MSI_TRY(msi_alloc(&p->field, n, sizeof *p->field, "pointings"));
    memcpy(p->field, field, (size_t)n * sizeof *field);
    for (int i = 0; i < n; i++) {
        const int64_t at = msi_pb_array_pointing(p->array, field[i].set, field[i].field_id);
        msi_pb_view_make(&p->view[i], p->array, &p->array->pointing[at], centre);
    }
    return MSI_OK;
}

static int make_terms(msi_predict_parts *p, const msi_model_images *m, const msi_ms_reader *reader, int view,
                      const msi_model_bands *bands, int64_t band)
{
    const msi_predict_field *f = &p->field[view];
    msi_pb_domain d = {.view = &p->view[view],
                       .geometry = m->geometry,
                       .low_s = f->low_s,
                       .high_s = f->high_s,
                       .n_in = m->n_plane,
                       .n_out = p->n_out,
                       .width_rad = p->array->width_rad,
                       .accuracy = p->accuracy};
    double *freq_hz;
    for (int i = 0; i < d.n_in && i < 4; i++) d.in[i] = m->plane[i].pol;
    for (int i = 0; i < d.n_out && i < 4; i++) d.out[i] = p->out[i].pol;
    MSI_TRY(list_frequencies(&freq_hz, &d.n_freq, reader, f->set, bands->channels.edge_hz[band],
                             bands->channels.edge_hz[band + 1]));
    d.freq_hz = freq_hz;
    const int rc = d.n_freq ? msi_pb_terms_make(&p->terms[band * p->n_view + view], &d) : MSI_OK;
    msi_free(freq_hz);
    return rc;
}

/* ---- Parts ---- */

/* Add the part of a band; with a beam, the parts of its terms for a view. */
static void add_parts(msi_predict_parts *p, const msi_model_images *m, const msi_model_bands *bands, int64_t band,
                      int view)
{
    const msi_model_band *b = &bands->band[band];
    if (!b->n_sample) return;
    if (!p->array) {
        p->part[p->n++] = (msi_predict_part){.band = band, .n_plane = b->n_image * m->n_plane};
        return;
    }
    const msi_pb_terms *t = &p->terms[band * p->n_view + view];
    const int of_term = b->n_image * p->n_out,
              most = of_term < MSI_GRIDDER_MAX_PLANES ? (MSI_GRIDDER_MAX_PLANES - 1) / of_term : 1;
    for (int k = 0; k < t->n; k += most) {
        const int n = t->n - k < most ? t->n - k : most;
        p->part[p->n++] =
            (msi_predict_part){.band = band, .view = view, .first_term = k, .n_term = n, .n_plane = n * of_term};
    }
}

static int list_parts(msi_predict_parts *p, const msi_model_images *m, const msi_model_bands *bands)
{
    int64_t most = bands->channels.n * p->n_view, at = 0;
    for (int64_t i = 0; i < p->n_terms; i++) most += p->terms[i].n;
    MSI_TRY(msi_alloc(&p->part, most, sizeof *p->part, "parts of the prediction"));
    MSI_TRY(msi_alloc(&p->first, bands->channels.n * p->n_view + 1, sizeof *p->first, "parts of the prediction"));
    for (int64_t band = 0; band < bands->channels.n; band++)
        for (int view = 0; view < p->n_view; view++) {
            p->first[at++] = p->n;
            add_parts(p, m, bands, band, view);
        }
    p->first[at] = p->n;
    return MSI_OK;
}

static void log_terms(const msi_predict_parts *p, const msi_model_bands *bands)
{
    int least = MSI_PB_MOST_TERMS, most = 0;
    double error = 0;
    for (int64_t i = 0; i < p->n_terms; i++) {
        if (!p->terms[i].n) continue;
        least = p->terms[i].n < least ? p->terms[i].n : least;
        most = p->terms[i].n > most ? p->terms[i].n : most;
        error = fmax(error, p->terms[i].error);
    }
    msi_log_info("primary beam: %d pointing%s, %lld band%s, %d to %d terms each, error at most %.1e of the peak",
                 p->n_view, msi_plural(p->n_view), (long long)bands->channels.n, msi_plural(bands->channels.n), least,
                 most, error);
}

/* Choose the models, divide the bands, and find the terms of each pointing. */
static int make_beam(msi_predict_parts *p, const msi_pb_choice *choice, const msi_model_images *models,
                     const msi_ms_reader *reader, const msi_predict_field *field, int n_field, msi_model_bands *bands)
{
    double *freq_hz;
    int64_t n_freq;
    for (int i = 1; i < models->n_plane; i++)
        if ((models->plane[i].pol > MSI_POL_V) != (models->plane[0].pol > MSI_POL_V))
            return msi_error_set(MSI_EINPUT,
                                 "%.200s: the primary beam (-pb) needs models of Stokes parameters or of hands, not of "
                                 "%s with %s",
                                 models->names, msi_pol_name(models->plane[0].pol), msi_pol_name(models->plane[i].pol));
    MSI_TRY(msi_output_channels_frequencies(reader, &freq_hz, &n_freq));
    int rc = msi_pb_array_make(&p->array, choice, reader, freq_hz[0], freq_hz[n_freq - 1],
                               msi_ms_reader_observation(reader)->dir_frame);
    if (!rc) rc = divide_bands(bands, reader, freq_hz, n_freq);
    msi_free(freq_hz);
    MSI_TRY(rc);
    MSI_TRY(msi_pb_array_refuse_stations(p->array, "-predict -pb"));
    p->n_view = n_field;
    choose_planes(p, models, reader);
    MSI_TRY(make_views(p, models, field, n_field));
    MSI_TRY(msi_alloc(&p->terms, bands->channels.n * n_field, sizeof *p->terms, "primary beams"));
    p->n_terms = bands->channels.n * n_field;
    for (int64_t band = 0; band < bands->channels.n; band++)
        for (int view = 0; view < n_field; view++)
            if (bands->band[band].n_sample) MSI_TRY(make_terms(p, models, reader, view, bands, band));
    log_terms(p, bands);
    return MSI_OK;
}

int msi_predict_parts_make(msi_predict_parts *p, const msi_pb_choice *choice, const msi_model_images *models,
                           const msi_ms_reader *reader, const msi_predict_field *field, int n_field, double accuracy,
                           msi_model_bands *bands)
{
    *p = (msi_predict_parts){.n_view = 1, .accuracy = accuracy};
    if (choice)
        MSI_TRY(make_beam(p, choice, models, reader, field, n_field, bands));
    else
        choose_planes(p, models, reader);
    MSI_TRY(list_parts(p, models, bands));
    if (!p->n)
        return msi_error_set(MSI_EINPUT,
                             "%.200s: the images are beyond the range of the primary beam (%s); check their centre",
                             models->names, p->array ? msi_pb_array_name(p->array) : "");
    return MSI_OK;
}

void msi_predict_parts_free(msi_predict_parts *p)
{
    for (int64_t i = 0; i < p->n; i++) msi_gridder_free(p->part[i].gridder);
    for (int64_t i = 0; p->terms && i < p->n_terms; i++) msi_pb_terms_free(&p->terms[i]);
    msi_free(p->part);
    msi_free(p->first);
    msi_free(p->view);
    msi_free(p->field);
    msi_free(p->terms);
    msi_pb_array_free(p->array);
    *p = (msi_predict_parts){0};
}

int64_t msi_predict_parts_of(const msi_predict_parts *p, int64_t band, const msi_ms_block *block, int *n)
{
    int view = 0;
    while (p->array && view + 1 < p->n_view &&
           (p->field[view].set != block->set || p->field[view].field_id != block->field_id))
        view++;
    const int64_t *first = p->first + band * p->n_view + view;
    *n = (int)(first[1] - first[0]);
    return first[0];
}

/* Warn, in the first call only, of flux beyond the range of the beam. */
static void warn_of_loss(msi_predict_parts *p, const msi_predict_part *part, const double lost[2])
{
    const msi_pb_terms *t = &p->terms[part->band * p->n_view + part->view];
    if (p->has_warned || !(lost[0] > 1e-3 * lost[1])) return;
    p->has_warned = 1;
    msi_log_warning(
        "%.3g of %.3g Jy of the model are more than %.4g degrees from the pointing, where the primary beam of "
        "%s is not known; they are left out beyond %.4g degrees",
        lost[0], lost[1], t->valid_rad * 180 / MSI_PI, msi_pb_array_name(p->array), t->limit_rad * 180 / MSI_PI);
}

int msi_predict_parts_load(msi_predict_parts *p, const msi_predict_part *part, msi_model_images *models,
                           const msi_model_bands *bands, msi_precision precision, msi_image *image)
{
    const msi_model_band *band = &bands->band[part->band];
    double lost[2] = {0, 0};
    msi_image model;
    if (!p->array) return msi_model_images_load(models, band->first, band->n_image, precision, image);
    const msi_pb_terms *t = &p->terms[part->band * p->n_view + part->view];
    MSI_TRY(msi_model_images_load(models, band->first, band->n_image, precision, &model));
    int rc = msi_image_alloc(image, &models->geometry, part->n_plane, precision);
    for (int i = 0; !rc && i < band->n_image; i++)
        rc = msi_pb_terms_apply(t, &model, i * models->n_plane, part->first_term, part->n_term, image,
                                i * part->n_term * p->n_out, lost);
    if (!rc && p->n_view == 1 && part->first_term == 0) warn_of_loss(p, part, lost);
    msi_image_free(&model);
    if (rc) msi_image_free(image);
    return rc;
}
