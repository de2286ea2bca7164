/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The files of cleaned fields: images of each kind for each channel, masks, the list of sources, the map of the
 * spectral index, and the images of all channels together.
 */
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/ordered_parallel.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"
#include "src/clean/clean_field.h"
#include "src/imaging/imaging_clean.h"
#include "src/imaging/imaging_run.h"

msi_fits_clean msi_cleaning_cards(const msi_cleaning *k, const msi_clean_group *g)
{
    const msi_clean_options *o = &k->run->options->clean;
    msi_fits_clean c = {.is_known = 1,
                        .most_iterations = o->niter,
                        .threshold_jy = o->threshold_jy,
                        .gain = o->gain,
                        .mgain = o->mgain,
                        .allow_negative = !o->no_negative,
                        .stop_negative = o->stop_negative,
                        .n_minor = g->n_minor,
                        .n_major = g->n_major,
                        .final_threshold_jy = g->threshold,
                        .noise_jy = g->noise};
    snprintf(c.stop, sizeof c.stop, "%s", g->stop);
    return c;
}

/* Find the pixel with the largest absolute value, and the sum of all finite pixels. Sums are made row by row, so that
 * they do not depend on the number of threads. */
static int measure_plane(const msi_image *image, int plane, double *peak, double *sum)
{
    const void *pixel = msi_image_plane(image, plane);
    const int64_t nx = image->geometry.nx, ny = image->geometry.ny;
    double(*row)[2];
    MSI_TRY(msi_alloc(&row, ny, sizeof *row, "peaks of rows"));
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < ny; y++) {
        double of_row[2] = {0, 0};
        for (int64_t x = 0; x < nx; x++) {
            const double v = msi_image_value(pixel, image->precision, y * nx + x);
            if (!isfinite(v)) continue;
            of_row[1] += v;
            if (fabs(v) > fabs(of_row[0])) of_row[0] = v;
        }
        memcpy(row[y], of_row, sizeof of_row);
    }
    *peak = *sum = 0;
    for (int64_t y = 0; y < ny; y++) {
        *sum += row[y][1];
        if (fabs(row[y][0]) > fabs(*peak)) *peak = row[y][0];
    }
    msi_free(row);
    return MSI_OK;
}

/* Copy the images of a channel from the planes of the field, and set their sums of weights. */
static int fetch_channel(const msi_cleaning *k, int channel, const msi_planes *planes, msi_image *image)
{
    const msi_clean_field *f = &k->field;
    const int n = f->spec.n_pol;
    MSI_TRY(msi_image_alloc_unset(image, &k->run->options->geometry, n, k->shape.precision));
    for (int p = 0; p < n; p++) {
        image->sum_weight[p] = f->sum_weight[channel * n + p];
        image->n_vis[p] = f->n_vis[channel * n + p];
        const int rc = msi_planes_fetch(planes, msi_clean_field_plane(f, channel, p), 1, msi_image_plane(image, p));
        if (rc) {
            msi_image_free(image);
            return rc;
        }
        if (!image->n_vis[p]) msi_image_fill_nan(image, p);
    }
    return MSI_OK;
}

/* Measure peak or flux of an image that is written, for headers and warnings. The peaks of a search are different: they
 * come from joined images, within the mask, and are multiplied by a bias. */
static int measure_image(msi_cleaning *k, int channel, msi_fits_kind kind, const msi_image *image)
{
    for (int p = 0; p < image->n_plane; p++) {
        double peak, sum;
        if (kind != MSI_FITS_DIRTY && kind != MSI_FITS_RESIDUAL && kind != MSI_FITS_MODEL) return MSI_OK;
        MSI_TRY(measure_plane(image, p, &peak, &sum));
        if (kind == MSI_FITS_MODEL)
            k->flux_jy[channel][p] = sum;
        else
            k->peak_jy[channel][p] = peak;
    }
    return MSI_OK;
}

int msi_cleaning_for_channels(const msi_cleaning *k, int most, int (*work)(void *of, int64_t channel),
                              int (*finish)(void *of, int64_t channel), void *of)
{
    const int64_t n = k->field.spec.n_channel;
    /* Beams, facets and mosaics keep state of the channel that they corrected last. */
    const int is_alone = k->run->pb || k->run->facets || k->run->mosaic || k->run->ranks->size > 1;
    const int planned = most < k->run->plan.n_hand ? most : k->run->plan.n_hand;
    const int hands = is_alone || n == 1 ? 1 : n < planned ? (int)n : planned;
    const msi_ordered_parallel turns = {.n_item = n, .n_thread = hands, .work = work, .finish = finish, .of = of};
    if (hands > 1) return msi_ordered_parallel_run(&turns);
    for (int64_t c = 0; c < n; c++) {
        const msi_progress_share all = msi_progress_enter(c, c + 1, n);
        MSI_TRY(work(of, c));
        if (finish) MSI_TRY(finish(of, c));
        msi_progress_leave(all);
    }
    return MSI_OK;
}

static int measure_model(void *cleaning, int64_t channel)
{
    msi_cleaning *k = cleaning;
    msi_image image = {0};
    MSI_TRY(fetch_channel(k, (int)channel, k->field.model, &image));
    const int rc = measure_image(k, (int)channel, MSI_FITS_MODEL, &image);
    msi_image_free(&image);
    return rc;
}

/* Measure the fluxes of all models before the first file is written whose header has them. */
static int measure_models(msi_cleaning *k)
{
    return msi_cleaning_for_channels(k, INT_MAX, measure_model, NULL, k);
}

int msi_cleaning_add_to_sum(msi_cleaning *k, msi_fits_kind kind, const msi_image *image)
{
    enum { STRIPS = (MSI_ORDERED_STEPS - 1) / MSI_CLEANING_KINDS };
    msi_image *sum = &k->band->sum[kind];
    double part[MSI_GRIDDER_MAX_PLANES];
    if (!msi_cleaning_has_mfs(k)) return MSI_OK;
    for (int i = 0; i < STRIPS; i++) {
        const int step = (int)kind * STRIPS + i;
        MSI_TRY(msi_ordered_step_begin(step));
        if (i == 0 && !sum->pixel) MSI_TRY(msi_image_alloc(sum, &image->geometry, image->n_plane, image->precision));
        if (i == 0) msi_image_add_weights(sum, image, part);
        msi_image_add_strip(sum, image, part, i, STRIPS);
        msi_ordered_step_end(step);
    }
    return MSI_OK;
}

/* The images of one kind that are being written. */
typedef struct put_kind {
    msi_cleaning *k;
    msi_fits_kind kind;
    const msi_planes *planes;
} put_kind;

static int put_channel(void *of, int64_t channel)
{
    const put_kind *put = of;
    msi_cleaning *k = put->k;
    const msi_clean_field *f = &k->field;
    const int c = (int)channel, is_early = put->kind == MSI_FITS_DIRTY || put->kind == MSI_FITS_FIRST_RESIDUAL;
    msi_fits_clean clean[MSI_MAX_PLANES];
    msi_image image = {0};
    const msi_imaging_product product = {
        msi_cleaning_channel(k, c), put->kind, k->beam[c], k->weight[c], is_early ? NULL : clean,
        msi_cleaning_term(k, c)};
    MSI_TRY(fetch_channel(k, c, put->planes, &image));
    int rc = put->kind == MSI_FITS_MODEL ? MSI_OK : measure_image(k, c, put->kind, &image);
    for (int p = 0; p < f->spec.n_pol && !is_early; p++) {
        clean[p] = msi_cleaning_cards(k, msi_clean_field_group(f, p));
        clean[p].peak_jy = k->peak_jy[c][p];
        clean[p].flux_jy = k->flux_jy[c][p];
    }
    if (!rc) rc = msi_cleaning_add_to_sum(k, put->kind, &image);
    if (!rc) rc = msi_imaging_files_put(k->run, &product, &image);
    msi_image_free(&image);
    return rc;
}

int msi_cleaning_put(msi_cleaning *k, msi_fits_kind kind, const msi_planes *planes)
{
    put_kind put = {k, kind, planes};
    MSI_TRY(msi_cleaning_for_channels(k, INT_MAX, put_channel, NULL, &put));
    for (int c = 0; c < k->field.spec.n_channel && kind == MSI_FITS_DIRTY; c++)
        for (int p = 0; p < k->field.spec.n_pol; p++) k->dirty_peak_jy = fmax(k->dirty_peak_jy, fabs(k->peak_jy[c][p]));
    return MSI_OK;
}

int msi_cleaning_put_first_residual(msi_cleaning *k)
{
    k->has_first_residual = 1;
    if (!k->run->options->clean.save_first_residual) return MSI_OK;
    MSI_TRY(msi_clean_field_keep_first(&k->field));
    return msi_cleaning_put(k, MSI_FITS_FIRST_RESIDUAL, k->field.residual);
}

/* Write the masks of a channel: where components were allowed at the end, or with -auto-mask, where they were found. */
static int put_masks(msi_cleaning *k, int channel, uint16_t *buffer, uint8_t *mask)
{
    const msi_clean_field *f = &k->field;
    const msi_image_geometry *g = &k->run->options->geometry;
    const msi_imaging_product product = {k->first + channel, MSI_FITS_MASK, {0, 0, 0}, k->weight[channel], NULL, 0};
    const int64_t n_pixel = msi_image_n_pixel(g);
    msi_image image;
    MSI_TRY(msi_image_alloc(&image, g, f->spec.n_pol, MSI_FP32));
    int rc = MSI_OK;
    for (int p = 0; !rc && p < f->spec.n_pol; p++) {
        float *pixel = msi_image_plane(&image, p);
        rc = msi_clean_group_mask(msi_clean_field_group(f, p), n_pixel, buffer, mask);
        for (int64_t i = 0; !rc && i < n_pixel; i++) pixel[i] = mask[i];
        image.sum_weight[p] = f->sum_weight[channel * f->spec.n_pol + p];
        image.n_vis[p] = f->n_vis[channel * f->spec.n_pol + p];
    }
    if (!rc) rc = msi_imaging_files_put(k->run, &product, &image);
    msi_image_free(&image);
    return rc;
}

static int put_all_masks(msi_cleaning *k)
{
    const int64_t n_pixel = msi_image_n_pixel(&k->run->options->geometry);
    uint8_t *mask = NULL;
    uint16_t *buffer;
    if (!msi_outputs_has_mask(k->run->options)) return MSI_OK;
    MSI_TRY(msi_alloc(&buffer, n_pixel, sizeof *buffer, "mask"));
    int rc = msi_alloc(&mask, n_pixel, 1, "mask");
    for (int c = 0; !rc && c < (k->samples->n_term ? 1 : k->field.spec.n_channel); c++)
        rc = put_masks(k, c, buffer, mask);
    msi_free(buffer);
    msi_free(mask);
    return rc;
}

/*
 * Restore an image with a beam. The result is NaN if the beam is unknown.
 * Given:              first     index of the image in both planes
 * Given and returned: residual  replaced by the restored image
 * Returns:            0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 */
static int restore_plane(const msi_cleaning *k, const msi_beam *beam, int first, msi_planes *residual,
                         const msi_planes *model)
{
    const msi_image_geometry *g = &k->run->options->geometry;
    const msi_restore_spec spec = {.beam = *beam,
                                   .cell_x_rad = g->cell_x_rad,
                                   .cell_y_rad = g->cell_y_rad,
                                   .first = first,
                                   .n = 1,
                                   .n_thread = k->n_thread};
    if (msi_beam_known(beam)) return msi_restore(residual, residual, model, &spec);
    msi_image none;
    MSI_TRY(msi_image_alloc(&none, g, 1, k->shape.precision));
    msi_image_fill_nan(&none, 0);
    const int rc = msi_planes_upload(residual, first, 1, none.pixel);
    msi_image_free(&none);
    return rc;
}

/* ---- The list of the sources that cleaning found ---- */

static int find_terms(const void *cleaner, const double *value, double *term)
{
    msi_cleaner_terms(cleaner, value, term);
    return MSI_OK;
}

/* The arguments of find_seen_terms, which finds the terms of a source's spectrum if fitted spectra are of true flux. */
typedef struct seen_terms {
    const msi_clean_field *field;
    const msi_cleaner *cleaner;
    int pol, is_true;
    const float *response; /* [n_pixel] to divide by for true fluxes, if the sight does not; NULL: 1 */
    double *work;          /* [msi_seen_spectra_work] */
} seen_terms;

static int find_seen_terms(const void *of, int64_t pixel, const double *value, double *term)
{
    const seen_terms *s = of;
    double seen[MSI_CLEAN_MAX_CHANNEL], flux[MSI_CLEAN_MAX_CHANNEL];
    for (int c = 0; c < s->field->n_cleaned; c++) flux[c] = value[c] / (s->response ? (double)s->response[pixel] : 1);
    msi_seen_spectra_terms(s->field->spec.sight, s->cleaner, s->pol, pixel, s->field->n_cleaned, flux, term, seen,
                           s->work);
    if (s->field->spec.sight->respond && !s->is_true) msi_cleaner_terms(s->cleaner, seen, term);
    return MSI_OK;
}

/* Return the index of Stokes I among the planes of a field; 0 if it has none. */
static int intensity_of(const msi_clean_field *f)
{
    for (int p = 0; p < f->spec.n_pol; p++)
        if (f->spec.planes[p].pol == MSI_POL_I) return p;
    return 0;
}

/* Warn if positions are neither in J2000 nor in ICRS. Programs that read the list assume J2000; the axes of ICRS differ
 * by 0.02 arcsec. */
static void warn_of_frame(const char *frame)
{
    if (strcmp(frame, "J2000") != 0 && strcmp(frame, "ICRS") != 0)
        msi_log_warning("positions in the list of sources are in the frame %s, but programs that read it assume J2000",
                        frame);
}

/* Make the response by which the fluxes of listed sources are divided. Returned: *response  owned */
static int make_response(msi_imaging_run *r, int64_t first, float **response)
{
    const msi_options *o = r->options;
    const int64_t channel = o->clean.join_channels && o->channels_out > 1 ? MSI_OUTPUT_MFS : first;
    MSI_TRY(msi_alloc(response, msi_image_n_pixel(&o->geometry), sizeof **response, "responses of sources"));
    const int rc = r->facets && r->facets->gains ? msi_imaging_facets_response(r, channel, *response)
                                                 : msi_imaging_pb_response(r, channel, 0, *response);
    if (rc) {
        msi_free(*response);
        *response = NULL;
    }
    return rc;
}

/* Write a list of sources. Given: is_true  1: with true fluxes */
static int write_list(msi_imaging_run *r, const msi_clean_field *f, int64_t first, int is_true,
                      const msi_clean_group *g)
{
    seen_terms seen = {.field = f, .cleaner = g->cleaner, .pol = intensity_of(f), .is_true = is_true};
    msi_source_sky sky = {.geometry = &r->options->geometry,
                          .ra_rad = r->ra_rad,
                          .dec_rad = r->dec_rad,
                          .frame = r->observation.dir_frame,
                          .terms = find_terms,
                          .fit = g->cleaner};
    msi_publish *publish;
    float *response = NULL;
    int rc = MSI_OK;
    const int i = msi_outputs_sources(r->outputs, r->interval, first, is_true, &publish);
    if (i < 0) return MSI_OK;
    sky.scale = msi_cleaner_scales(g->cleaner, &sky.n_scale);
    sky.n_term = msi_cleaner_n_term(g->cleaner, &sky.reference_hz, &sky.is_logarithmic);
    if (is_true) MSI_TRY(make_response(r, first, &response));
    sky.response = response;
    if (f->spec.sight) {
        sky.terms_at = find_seen_terms;
        sky.fit = &seen;
        seen.response = f->spec.sight->respond ? NULL : response;
        rc = msi_alloc(&seen.work, msi_seen_spectra_work(f->spec.sight), sizeof *seen.work, "spectra of sources");
    }
    if (!rc) rc = msi_source_list_write(publish, i, g->sources->list, &sky);
    msi_free(seen.work);
    msi_free(response);
    if (rc || is_true) return rc;
    const int64_t n = msi_source_list_n(g->sources->list);
    msi_log_info("%lld clean component%s in %s", (long long)n, msi_plural(n), msi_publish_name(publish, i));
    warn_of_frame(sky.frame);
    return MSI_OK;
}

/* Write an empty list for a field without samples. */
static int write_empty_list(const msi_imaging_run *r, int64_t first, int is_true, double freq_hz)
{
    const msi_source_sky sky = {.geometry = &r->options->geometry,
                                .ra_rad = r->ra_rad,
                                .dec_rad = r->dec_rad,
                                .frame = r->observation.dir_frame,
                                .n_term = 1,
                                .reference_hz = freq_hz};
    msi_publish *publish;
    msi_source_list *none;
    const int i = msi_outputs_sources(r->outputs, r->interval, first, is_true, &publish);
    if (i < 0) return MSI_OK;
    MSI_TRY(msi_source_list_create(&none, 1));
    const int rc = msi_source_list_write(publish, i, none, &sky);
    msi_source_list_free(none);
    return rc;
}

/* Write the list of Stokes I sources of a field, if it was planned. Given: first  first output channel of the field */
static int put_sources(msi_imaging_run *r, const msi_clean_field *f, int64_t first)
{
    const msi_clean_group *g = NULL;
    for (int i = 0; i < f->n_group && !g; i++)
        if (f->group[i].sources) g = &f->group[i];
    for (int is_true = 0; is_true < 2; is_true++)
        MSI_TRY(g ? write_list(r, f, first, is_true, g) : write_empty_list(r, first, is_true, f->spec.freq_hz[0]));
    return MSI_OK;
}

/* ---- The map of the spectral index ---- */

/* Pixels of the map have values if the mean of the model is at least this multiple of the noise. */
static const double LEAST_SIGMA = 5;

/* The state of making the map, for Stokes I. */
typedef struct index_map {
    const msi_clean_field *field;
    const msi_clean_group *group;
    int intensity;             /* index of Stokes I among the planes of the field */
    int n_channel, n_pol, pol; /* sizes of the group's planes; index of Stokes I among n_pol */
    double weight[MSI_CLEAN_MAX_PLANE];
    int64_t n_pixel, n; /* number of all pixels; number of pixels with a value */
    void *plane;        /* [n_pixel] one channel */
    double *mean;       /* [n_pixel] mean over channels, Jy/beam */
    double *value;      /* [n][n_channel] */
    int64_t *at;        /* [n] indices of pixels */
    float *pixel;       /* [n_pixel] initially NaN */
} index_map;

/* Restore the models of a group with one beam. The result is in g->before. */
static int restore_models(const msi_imaging_run *r, const msi_clean_group *g, const msi_beam *beam)
{
    const msi_image_geometry *geometry = &r->options->geometry;
    msi_planes_shape one = *msi_planes_shape_of(g->before);
    const msi_restore_spec spec = {.beam = *beam,
                                   .cell_x_rad = geometry->cell_x_rad,
                                   .cell_y_rad = geometry->cell_y_rad,
                                   .n = one.n,
                                   .n_thread = r->options->n_threads};
    void *zero;
    one.n = 1;
    MSI_TRY(msi_alloc(&zero, msi_planes_bytes(&one), 1, "an empty image"));
    int rc = MSI_OK;
    for (int i = 0; !rc && i < spec.n; i++) rc = msi_planes_upload(g->before, i, 1, zero);
    msi_free(zero);
    return rc ? rc : msi_restore(g->before, g->before, g->model, &spec);
}

static int fetch_index_plane(const index_map *m, int channel)
{
    return msi_planes_fetch(m->group->before, channel * m->n_pol + m->pol, 1, m->plane);
}

static double pixel_of(const index_map *m, int64_t i)
{
    return msi_image_value(m->plane, msi_planes_shape_of(m->group->before)->precision, i);
}

static int has_index(const index_map *m, int64_t i)
{
    return m->mean[i] >= LEAST_SIGMA * m->group->noise && m->mean[i] > 0;
}

static int find_mean(index_map *m)
{
    double all = 0;
    for (int c = 0; c < m->n_channel; c++) all += m->weight[c];
    for (int c = 0; c < m->n_channel; c++) {
        if (!(m->weight[c] > 0)) continue;
        MSI_TRY(fetch_index_plane(m, c));
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < m->n_pixel; i++) m->mean[i] += m->weight[c] / all * pixel_of(m, i);
    }
    for (int64_t i = 0; i < m->n_pixel; i++) m->n += has_index(m, i);
    return MSI_OK;
}

/* Gather the spectra of all pixels of the map. */
static int gather_spectra(index_map *m)
{
    int64_t n = 0;
    MSI_TRY(msi_alloc(&m->value, m->n * m->n_channel, sizeof *m->value, "spectra"));
    MSI_TRY(msi_alloc(&m->at, m->n, sizeof *m->at, "spectra"));
    for (int64_t i = 0; i < m->n_pixel; i++)
        if (has_index(m, i)) m->at[n++] = i;
    for (int c = 0; c < m->n_channel; c++) {
        MSI_TRY(fetch_index_plane(m, c));
        for (int64_t at = 0; at < m->n; at++) m->value[at * m->n_channel + c] = pixel_of(m, m->at[at]);
    }
    return MSI_OK;
}

/* Return the logarithmic slope of a spectrum at its reference frequency. It is NaN if the spectrum is not positive
 * there, or for a logarithmic fit, in any channel. */
static double index_of(const index_map *m, int64_t pixel, const double *value, int is_logarithmic, double *work)
{
    double term[MSI_CLEAN_MAX_TERM];
    if (!m->field->spec.sight)
        msi_cleaner_terms(m->group->cleaner, value, term);
    else
        msi_seen_spectra_terms(m->field->spec.sight, m->group->cleaner, m->intensity, pixel, m->n_channel, value, term,
                               NULL, work);
    if (!is_logarithmic) return term[0] > 0 ? term[1] / term[0] : NAN;
    for (int c = 0; c < m->n_channel; c++)
        if (m->weight[c] > 0 && !(value[c] > 0)) return NAN;
    return term[1];
}

static int fit_spectra(index_map *m)
{
    const msi_clean_sight *sight = m->field->spec.sight;
    const int64_t size = sight ? msi_seen_spectra_work(sight) : 0;
    double reference_hz, *work = NULL;
    int is_logarithmic;
    if (sight) MSI_TRY(msi_alloc(&work, omp_get_max_threads() * size, sizeof *work, "a spectral index"));
    (void)msi_cleaner_n_term(m->group->cleaner, &reference_hz, &is_logarithmic);
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t at = 0; at < m->n; at++)
        m->pixel[m->at[at]] = (float)index_of(m, m->at[at], m->value + at * m->n_channel, is_logarithmic,
                                              work ? work + omp_get_thread_num() * size : NULL);
    msi_free(work);
    return MSI_OK;
}

static int make_map(index_map *m)
{
    const msi_planes_shape *shape = msi_planes_shape_of(m->group->before);
    const int64_t bytes = msi_planes_bytes(shape) / shape->n;
    int rc = msi_alloc(&m->plane, bytes, 1, "a spectral index");
    if (!rc) rc = msi_alloc(&m->mean, m->n_pixel, sizeof *m->mean, "a spectral index");
    if (!rc) rc = find_mean(m);
    if (!rc) rc = gather_spectra(m);
    if (!rc) rc = fit_spectra(m);
    msi_free(m->plane);
    msi_free(m->mean);
    msi_free(m->value);
    msi_free(m->at);
    return rc;
}

/* Sum the weights of the output channels that each cleaned channel combines. */
static void sum_weights(index_map *m, const msi_clean_field *f, int plane)
{
    for (int c = 0; c < f->spec.n_channel; c++)
        m->weight[(int64_t)c * m->n_channel / f->spec.n_channel] += f->sum_weight[c * f->spec.n_pol + plane];
}

static int find_index(msi_imaging_run *r, const msi_clean_field *f, int plane, const msi_beam *beam, msi_image *image)
{
    index_map m = {.field = f,
                   .intensity = plane,
                   .group = msi_clean_field_group(f, plane),
                   .n_pixel = msi_image_n_pixel(&image->geometry)};
    const int joined = m.group->pol < 0;
    if (!m.group->cleaner || !msi_beam_known(beam)) return MSI_OK;
    m.pixel = image->pixel;
    m.n_pol = joined ? f->spec.n_pol : 1;
    m.pol = joined ? plane : 0;
    m.n_channel = msi_planes_shape_of(m.group->model)->n / m.n_pol;
    sum_weights(&m, f, plane);
    MSI_TRY(restore_models(r, m.group, beam));
    MSI_TRY(make_map(&m));
    msi_log_info("spectral index: %lld pixels, where the model is at least %g times the noise", (long long)m.n,
                 LEAST_SIGMA);
    return MSI_OK;
}

/*
 * Write a map of d ln I / d ln frequency at the mean frequency, if it was planned. It is the slope of the spectrum that
 * is fitted to the models of all channels, convolved with the beam; residuals are not included. A pixel is NaN if the
 * mean of that model is below LEAST_SIGMA times the noise, or if index_of finds no slope. Without a beam all pixels are
 * NaN.
 * Given:   field    cleaned, with all channels; the planes `before` of its group are overwritten
 *          product  channel, kind, beam, weights and cards of the whole band
 * Returns: as msi_imaging_files_put, MSI_EGPU
 */
static int put_index_map(msi_imaging_run *r, const msi_clean_field *f, const msi_imaging_product *product)
{
    const int plane = msi_outputs_index_plane(r->options);
    msi_image image;
    if (plane < 0) return MSI_OK;
    MSI_TRY(msi_image_alloc(&image, &r->options->geometry, 1, MSI_FP32));
    msi_image_fill_nan(&image, 0);
    for (int c = 0; c < f->spec.n_channel; c++) {
        image.sum_weight[0] += f->sum_weight[c * f->spec.n_pol + plane];
        image.n_vis[0] += f->n_vis[c * f->spec.n_pol + plane];
    }
    int rc = find_index(r, f, plane, &product->beam, &image);
    if (!rc) rc = msi_imaging_files_put_plane(r, product, plane, &image);
    msi_image_free(&image);
    return rc;
}

/* Find the beam of the mean PSF, after the PSFs of all channels were added. Later calls do nothing. */
static int find_band_beam(msi_cleaning *k)
{
    if (k->band->has_beam) return MSI_OK;
    k->band->has_beam = 1;
    return msi_imaging_files_beam(k->run, MSI_OUTPUT_MFS, &k->band->beam, &k->band->sum[MSI_FITS_PSF]);
}

static int put_index(msi_cleaning *k)
{
    if (msi_outputs_index_plane(k->run->options) < 0) return MSI_OK;
    MSI_TRY(find_band_beam(k));
    if (!k->run->interval)
        msi_log_info(k->field.spec.sight && k->field.spec.sight->respond
                         ? "spectral-index map: corrected for the primary beam"
                         : "spectral-index map: not corrected for the primary beam, whose spectrum it includes");
    const msi_imaging_product product = {MSI_OUTPUT_MFS, MSI_FITS_INDEX, k->band->beam, k->band->weight, k->clean, 0};
    return put_index_map(k->run, &k->field, &product);
}

/* ---- Taylor terms: images of true flux, and maps of spectra ---- */

/* The restored Taylor terms. */
typedef struct taylor_terms {
    int n_term, n_pol;
    int plane; /* plane of Stokes I, whose maps are written; -1: none */
    /* in Jy/beam: term 0 before correction must exceed `least` for a map to have a value; noise of the residual */
    double least, noise;
    double inverse[2][2]; /* inverse of the Hessian */
    msi_image term;       /* [n_term][n_pol] */
    /* 3 planes: covariances of the corrected terms 0 and 1 of Stokes I for a noise of 1; empty: use `inverse` */
    msi_image covariance;
} taylor_terms;

static int fetch_terms(const msi_cleaning *k, taylor_terms *m)
{
    const msi_clean_field *f = &k->field;
    MSI_TRY(msi_image_alloc(&m->term, &k->run->options->geometry, m->n_term * m->n_pol, k->shape.precision));
    for (int i = 0; i < m->n_term * m->n_pol; i++)
        MSI_TRY(msi_planes_fetch(f->residual, msi_clean_field_plane(f, i / m->n_pol, i % m->n_pol), 1,
                                 msi_image_plane(&m->term, i)));
    return MSI_OK;
}

/* Write the images [n_term][n_pol] of a kind. */
static int put_terms(msi_cleaning *k, const taylor_terms *m, msi_fits_kind kind, const msi_image *all)
{
    const size_t bytes = (size_t)(msi_image_n_pixel(&all->geometry) * msi_image_pixel_bytes(all->precision));
    for (int t = 0; t < m->n_term; t++) {
        msi_image image;
        const msi_imaging_product product = {k->first, kind, k->beam[0], k->weight[0], k->clean, t};
        MSI_TRY(msi_image_alloc(&image, &all->geometry, m->n_pol, all->precision));
        memcpy(image.pixel, msi_image_plane(all, t * m->n_pol), bytes * (size_t)m->n_pol);
        for (int p = 0; p < m->n_pol; p++) {
            image.sum_weight[p] = k->field.sum_weight[p];
            image.n_vis[p] = k->field.n_vis[p];
        }
        const int rc = msi_imaging_files_put(k->run, &product, &image);
        msi_image_free(&image);
        MSI_TRY(rc);
    }
    return MSI_OK;
}

/* Correct the terms for the primary beam. Write them and the terms of the beam. */
static int correct_terms(msi_cleaning *k, taylor_terms *m)
{
    const msi_image_geometry *g = &k->run->options->geometry;
    const msi_pb_taylor taylor = {m->n_term, k->taylor.n_node, k->taylor.x, k->taylor.share};
    msi_image beam = {0};
    int rc = MSI_OK;
    if (m->plane >= 0) MSI_TRY(msi_image_alloc(&m->covariance, g, 3, MSI_FP32));
    MSI_TRY(msi_image_alloc(&beam, g, m->n_term * m->n_pol, MSI_FP32));
    rc = msi_imaging_pb_terms(k->run, &taylor, k->taylor.freq_hz, m->plane, &m->term, &beam,
                              m->plane < 0 ? NULL : &m->covariance);
    if (!rc) rc = put_terms(k, m, MSI_FITS_PB, &beam);
    msi_image_free(&beam);
    if (!rc && !k->run->interval) msi_log_info("spectral indices: corrected for the primary beam");
    return rc ? rc : put_terms(k, m, MSI_FITS_PBCOR, &m->term);
}

/* Find the variance of term 0, the covariance of terms 0 and 1, and the variance of term 1, for a noise of 1. Those of
 * the principal solution are H^-1. */
static void find_variances(const taylor_terms *m, int64_t i, double v[3])
{
    v[0] = m->inverse[0][0];
    v[1] = m->inverse[0][1];
    v[2] = m->inverse[1][1];
    for (int n = 0; m->covariance.pixel && n < 3; n++)
        v[n] = msi_image_value(msi_image_plane(&m->covariance, n), MSI_FP32, i);
}

/* Return the value of a map at a pixel. */
static double map_value(const taylor_terms *m, msi_fits_kind kind, int64_t i)
{
    double t[MSI_TAYLOR_MAX_TERM], v[3];
    for (int k = 0; k < m->n_term; k++)
        t[k] = msi_image_value(msi_image_plane(&m->term, k * m->n_pol + m->plane), m->term.precision, i);
    find_variances(m, i, v);
    if (!(t[0] > m->least * sqrt(v[0] / m->inverse[0][0])) || !(t[0] > 0)) return NAN;
    const double alpha = t[1] / t[0];
    if (kind == MSI_FITS_ALPHA) return alpha;
    if (kind == MSI_FITS_BETA) return t[2] / t[0] - 0.5 * alpha * (alpha - 1);
    /* The variance of alpha = t_1 / t_0 */
    return m->noise / t[0] * sqrt(fmax(0, v[2] - 2 * alpha * v[1] + alpha * alpha * v[0]));
}

static int put_taylor_map(msi_cleaning *k, const taylor_terms *m, msi_fits_kind kind)
{
    msi_image image;
    const msi_imaging_product product = {k->first, kind, k->beam[0], k->weight[0], k->clean, 0};
    MSI_TRY(msi_image_alloc(&image, &k->run->options->geometry, 1, MSI_FP32));
    const int64_t n_pixel = msi_image_n_pixel(&image.geometry);
    float *pixel = image.pixel;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_pixel; i++) pixel[i] = (float)map_value(m, kind, i);
    image.sum_weight[0] = k->field.sum_weight[m->plane];
    image.n_vis[0] = k->field.n_vis[m->plane];
    const int rc = msi_imaging_files_put_plane(k->run, &product, m->plane, &image);
    msi_image_free(&image);
    return rc;
}

/* Find the largest value of the principal solution of the residuals for term 0 of Stokes I, before they are
 * restored. */
static int find_principal_peak(msi_cleaning *k)
{
    const int plane = msi_outputs_taylor_plane(k->run->options);
    msi_image image;
    if (plane < 0) return MSI_OK;
    MSI_TRY(msi_image_alloc(&image, &k->run->options->geometry, 1, k->shape.precision));
    const int rc = msi_planes_fetch(k->field.residual, msi_clean_field_plane(&k->field, 0, plane), 1, image.pixel);
    k->principal_peak_jy = 0;
    for (int64_t i = 0; !rc && i < msi_image_n_pixel(&image.geometry); i++)
        k->principal_peak_jy = fmax(k->principal_peak_jy, msi_image_value(image.pixel, image.precision, i));
    msi_image_free(&image);
    return rc;
}

/* Write maps made from the restored terms: alpha, its standard deviation, and beta if there are three or more terms.
 * They have values where term 0 is above LEAST_SIGMA times the noise and, as in tclean, above a tenth of the peak of
 * the residual. */
static int put_taylor_maps(msi_cleaning *k, taylor_terms *m)
{
    if (m->plane < 0) return MSI_OK;
    m->noise = msi_clean_field_group(&k->field, m->plane)->noise;
    m->least = k->run->options->like == MSI_PEER_TCLEAN ? 0.1 * k->principal_peak_jy : LEAST_SIGMA * m->noise;
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < k->taylor.n_node; c++)
            m->inverse[i / 2][i % 2] += k->taylor.term[(i / 2) * k->taylor.n_node + c] *
                                        k->taylor.term[(i % 2) * k->taylor.n_node + c] / k->taylor.share[c];
    MSI_TRY(put_taylor_map(k, m, MSI_FITS_ALPHA));
    MSI_TRY(put_taylor_map(k, m, MSI_FITS_ALPHA_ERROR));
    return m->n_term > 2 ? put_taylor_map(k, m, MSI_FITS_BETA) : MSI_OK;
}

/* Write the files that are made from the restored terms. */
static int put_taylor(msi_cleaning *k)
{
    taylor_terms m = {.n_term = k->field.spec.n_channel,
                      .n_pol = k->field.spec.n_pol,
                      .plane = msi_outputs_taylor_plane(k->run->options)};
    int rc = fetch_terms(k, &m);
    if (!rc && k->run->options->pb.correct) rc = correct_terms(k, &m);
    if (!rc) rc = put_taylor_maps(k, &m);
    msi_image_free(&m.term);
    msi_image_free(&m.covariance);
    return rc;
}

/* ---- All files of a field ---- */

/* Write restored images last, since they replace the residuals in memory. */
int msi_cleaning_put_cleaned(msi_cleaning *k)
{
    msi_clean_field *f = &k->field;
    if (!k->has_first_residual) MSI_TRY(msi_cleaning_put_first_residual(k));
    MSI_TRY(measure_models(k));
    MSI_TRY(msi_cleaning_put(k, MSI_FITS_RESIDUAL, f->residual));
    MSI_TRY(msi_cleaning_put(k, MSI_FITS_MODEL, f->model));
    MSI_TRY(put_all_masks(k));
    MSI_TRY(put_sources(k->run, f, k->first));
    MSI_TRY(msi_clean_field_terms(f, 0));
    MSI_TRY(find_principal_peak(k));
    for (int c = 0; c < f->spec.n_channel && !k->run->options->cube.restoring_beam; c++) {
        if (!msi_beam_known(&k->beam[c]) && f->n_vis[c * f->spec.n_pol] && !msi_cleaning_term(k, c))
            msi_log_warning(
                "there is no beam, so the pixels of the restored image are NaN; set a beam with -beam-size");
        for (int p = 0; p < f->spec.n_pol; p++)
            MSI_TRY(restore_plane(k, &k->beam[c], msi_clean_field_plane(f, c, p), f->residual, f->model));
    }
    if (!k->run->options->cube.restoring_beam) MSI_TRY(msi_cleaning_put(k, MSI_FITS_IMAGE, f->residual));
    return k->samples->n_term ? put_taylor(k) : put_index(k);
}

/* ---- Images of all channels together: means of the images of the channels ---- */

static int put_sum(msi_cleaning *k, msi_fits_kind kind, const msi_beam *beam)
{
    msi_image *sum = &k->band->sum[kind];
    const int has_cards = kind == MSI_FITS_RESIDUAL || kind == MSI_FITS_MODEL || kind == MSI_FITS_IMAGE;
    const msi_imaging_product product = {
        MSI_OUTPUT_MFS, kind, *beam, k->band->weight, has_cards ? k->band->clean : NULL, 0};
    for (int p = 0; p < sum->n_plane; p++)
        if (!sum->n_vis[p]) msi_image_fill_nan(sum, p);
    return msi_imaging_files_put(k->run, &product, sum);
}

/* Make the restored image of all channels: mean residual plus mean model, convolved with the beam of the mean PSF. */
static int restore_sum(msi_cleaning *k, const msi_beam *beam)
{
    const msi_image *residual = &k->band->sum[MSI_FITS_RESIDUAL], *model = &k->band->sum[MSI_FITS_MODEL];
    msi_image *image = &k->band->sum[MSI_FITS_IMAGE];
    msi_planes_shape shape = k->shape;
    msi_planes *of_residual = NULL, *of_model = NULL;
    const int n = shape.n = residual->n_plane;
    const size_t of_planes = (size_t)n;
    int rc = msi_planes_create(&of_residual, &shape);
    if (!rc) rc = msi_planes_create(&of_model, &shape);
    if (!rc) rc = msi_planes_upload(of_residual, 0, n, residual->pixel);
    if (!rc) rc = msi_planes_upload(of_model, 0, n, model->pixel);
    for (int p = 0; !rc && p < n; p++) rc = restore_plane(k, beam, p, of_residual, of_model);
    msi_image_free(image);
    if (!rc) rc = msi_image_alloc(image, &residual->geometry, n, residual->precision);
    if (!rc) {
        memcpy(image->sum_weight, residual->sum_weight, of_planes * sizeof *image->sum_weight);
        memcpy(image->n_vis, residual->n_vis, of_planes * sizeof *image->n_vis);
        rc = msi_planes_fetch(of_residual, 0, n, image->pixel);
    }
    msi_planes_free(of_residual);
    msi_planes_free(of_model);
    return rc;
}

int msi_cleaning_put_sums(msi_cleaning *k)
{
    const msi_clean_options *o = &k->run->options->clean;
    const msi_beam *beam = &k->band->beam;
    MSI_TRY(find_band_beam(k));
    MSI_TRY(put_sum(k, MSI_FITS_PSF, beam));
    if (!o->no_dirty) MSI_TRY(put_sum(k, MSI_FITS_DIRTY, beam));
    if (o->save_first_residual) MSI_TRY(put_sum(k, MSI_FITS_FIRST_RESIDUAL, beam));
    for (int p = 0; p < k->band->sum[MSI_FITS_MODEL].n_plane; p++) {
        double unused;
        MSI_TRY(measure_plane(&k->band->sum[MSI_FITS_RESIDUAL], p, &k->band->clean[p].peak_jy, &unused));
        MSI_TRY(measure_plane(&k->band->sum[MSI_FITS_MODEL], p, &unused, &k->band->clean[p].flux_jy));
    }
    MSI_TRY(restore_sum(k, beam));
    MSI_TRY(put_sum(k, MSI_FITS_RESIDUAL, beam));
    MSI_TRY(put_sum(k, MSI_FITS_MODEL, beam));
    return put_sum(k, MSI_FITS_IMAGE, beam);
}
