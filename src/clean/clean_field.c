/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/clean/clean_field.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/ordered_parallel.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"

/* ---- Spectra that depend on the place ---- */

/*
 * Models are fitted after minor iterations, not component by component. This gives the same result for spectra that are
 * linear in their terms, and a better one for logarithmic spectra, because all flux of a pixel is fitted. Bands of rows
 * are fetched, fitted and stored again.
 */

/* Pixels of all planes that are fetched at once. */
enum { AT_ONCE = 1 << 24 };

/* The models of a group. */
typedef struct seen_models {
    const msi_clean_sight *sight;
    const msi_cleaner *cleaner;
    int pol, n_pol;      /* the first polarisation, and how many */
    int n_model, n_part; /* planes */
    msi_planes *model, *part;
    msi_precision precision;
    int64_t n_pixel, first, n; /* pixels of a plane; range of the band */
    void *pixel;               /* [n_model][most pixels of a band] */
    void *of_part;             /* [n_part][most pixels of a band] */
    int64_t most;
} seen_models;

/* Numbers that a thread needs for a pixel. */
static int64_t work_size(const msi_clean_sight *s)
{
    const int64_t n_pol = s->n_pol, n = s->n_channel;
    return n * (2 * n_pol * n_pol + 2 * n_pol) + n_pol * MSI_CLEAN_MAX_TERM;
}

/* Find the responses of the group's polarisations. Returned: own [n_channel][n_pol][n_pol] */
static void respond(const msi_clean_sight *s, int pol, int n_pol, int64_t pixel, double *all, double *own)
{
    for (int i = 0; !s->respond && i < s->n_channel * n_pol * n_pol; i++)
        own[i] = i % (n_pol * n_pol) % (n_pol + 1) == 0;
    if (!s->respond) return;
    s->respond(s->user, pixel, all);
    for (int c = 0; c < s->n_channel; c++)
        for (int k = 0; k < n_pol * n_pol; k++)
            own[c * n_pol * n_pol + k] = all[(c * s->n_pol + pol + k / n_pol) * s->n_pol + pol + k % n_pol];
}

/* Find the forced terms of a pixel. Returns: term, NULL if they are to be fitted */
static const double *force(const msi_clean_sight *s, int64_t pixel, double term[MSI_CLEAN_MAX_TERM])
{
    if (!s->forced) return NULL;
    for (int k = 0; k < s->n_forced; k++) {
        term[k] = (double)s->forced[k * s->n_pixel + pixel];
        if (!isfinite(term[k])) return NULL;
    }
    return term;
}

static double get(const seen_models *m, const void *pixel, int plane, int64_t i)
{
    return msi_image_value(pixel, m->precision, plane * m->most + i);
}

static void put(const seen_models *m, void *pixel, int plane, int64_t i, double value)
{
    msi_image_put(pixel, m->precision, plane * m->most + i, value);
}

/* Return whether the models of a band are 0. */
static int is_band_empty(const seen_models *m)
{
    int found = 0;
    for (int k = 0; k < m->n_model && !found; k++) {
#pragma omp parallel for schedule(static) reduction(| : found)
        for (int64_t i = 0; i < m->n; i++) found |= get(m, m->pixel, k, i) != 0;
    }
    return !found;
}

/* Fit a pixel. Given: work [work_size] */
static void fit_pixel(const seen_models *m, int64_t i, double *work)
{
    const int64_t n_channel = m->sight->n_channel, n_pol = m->sight->n_pol, squares = n_channel * n_pol * n_pol;
    double *all = work, *own = all + squares, *value = own + squares, *part = value + n_channel * n_pol,
           *term = part + n_channel * n_pol;
    double forced[MSI_CLEAN_MAX_TERM];
    int is_empty = 1;
    for (int k = 0; k < m->n_model; k++) {
        value[k] = get(m, m->pixel, k, i);
        is_empty &= value[k] == 0;
    }
    if (is_empty) {
        for (int k = 0; m->part && k < m->n_part; k++) put(m, m->of_part, k, i, 0);
        return;
    }
    respond(m->sight, m->pol, m->n_pol, m->first + i, all, own);
    msi_cleaner_fit_seen(m->cleaner, m->n_pol, own, force(m->sight, m->first + i, forced), value, part, term);
    for (int k = 0; k < m->n_model; k++) put(m, m->pixel, k, i, value[k]);
    for (int k = 0; m->part && k < m->n_part; k++) put(m, m->of_part, k, i, part[k]);
}

static int fit_band(seen_models *m, double *work)
{
    const int64_t bytes = msi_image_pixel_bytes(m->precision) * m->most, size = work_size(m->sight);
    MSI_TRY(msi_interrupt_check());
    for (int k = 0; k < m->n_model; k++)
        MSI_TRY(msi_planes_fetch_pixels(m->model, k * m->n_pixel + m->first, m->n, (char *)m->pixel + k * bytes));
    if (is_band_empty(m)) return MSI_OK;
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t i = 0; i < m->n; i++) fit_pixel(m, i, work + omp_get_thread_num() * size);
    for (int k = 0; k < m->n_model; k++)
        MSI_TRY(msi_planes_upload_pixels(m->model, k * m->n_pixel + m->first, m->n, (char *)m->pixel + k * bytes));
    for (int k = 0; m->part && k < m->n_part; k++)
        MSI_TRY(msi_planes_upload_pixels(m->part, k * m->n_pixel + m->first, m->n, (char *)m->of_part + k * bytes));
    return MSI_OK;
}

/*
 * seen_spectra_fit - replace models by their spectra of true flux, as the images see them.
 * Given:              pol    the polarisation of the planes; -1: all
 * Given and returned: model  [n_cleaned][polarisations] of the cleaned channels
 * Returned:           part   [n_channel][polarisations] of the imaged channels; NULL: they are the cleaned ones
 * Returns:            0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 */
static int seen_spectra_fit(const msi_clean_sight *sight, const msi_cleaner *cleaner, int pol, msi_planes *model,
                            msi_planes *part)
{
    const msi_planes_shape *shape = msi_planes_shape_of(model);
    seen_models m = {.sight = sight,
                     .cleaner = cleaner,
                     .pol = pol < 0 ? 0 : pol,
                     .n_pol = pol < 0 ? sight->n_pol : 1,
                     .n_model = shape->n,
                     .n_part = part ? msi_planes_shape_of(part)->n : 0,
                     .model = model,
                     .part = part,
                     .precision = shape->precision,
                     .n_pixel = shape->nx * shape->ny};
    m.most = AT_ONCE / (m.n_model + m.n_part);
    m.most = m.most < m.n_pixel ? m.most : m.n_pixel;
    const int64_t bytes = msi_image_pixel_bytes(m.precision);
    double *work = NULL;
    int rc = msi_alloc(&work, omp_get_max_threads() * work_size(sight), sizeof *work, "spectra");
    if (!rc) rc = msi_alloc(&m.pixel, m.n_model * m.most, (size_t)bytes, "spectra of models");
    if (!rc && part) rc = msi_alloc(&m.of_part, m.n_part * m.most, (size_t)bytes, "spectra of models");
    /* Bands without a model are not fitted. */
    if (!rc && part) rc = msi_planes_zero(part, 0, m.n_part);
    for (; !rc && m.first < m.n_pixel; m.first += m.n) {
        m.n = m.n_pixel - m.first < m.most ? m.n_pixel - m.first : m.most;
        rc = fit_band(&m, work);
    }
    msi_free(work);
    msi_free(m.pixel);
    msi_free(m.of_part);
    return rc;
}

int64_t msi_seen_spectra_work(const msi_clean_sight *sight)
{
    return work_size(sight) + MSI_CLEAN_MAX_CHANNEL;
}

void msi_seen_spectra_terms(const msi_clean_sight *sight, const msi_cleaner *cleaner, int pol, int64_t pixel,
                            int n_value, const double *value, double *term, double *seen, double *work)
{
    const int64_t n = sight->n_channel, n_pol = sight->n_pol;
    double forced[MSI_CLEAN_MAX_TERM];
    double *all = work, *own = all + n * n_pol * n_pol, *part = own + n * n_pol * n_pol, *copy = part + n * n_pol;
    respond(sight, pol, 1, pixel, all, own);
    memcpy(copy, value, (size_t)n_value * sizeof *copy);
    msi_cleaner_fit_seen(cleaner, 1, own, force(sight, pixel, forced), copy, part, term);
    if (seen) memcpy(seen, copy, (size_t)n_value * sizeof *copy);
}

int msi_clean_field_plane(const msi_clean_field *f, int channel, int pol)
{
    return f->by_pol ? pol * f->spec.n_channel + channel : channel * f->spec.n_pol + pol;
}

msi_planes *msi_clean_field_model(const msi_clean_field *f)
{
    return f->cleaned_model ? f->cleaned_model : f->model;
}

/* Return the number of Taylor terms, 0 without. */
static int n_taylor(const msi_clean_field_spec *spec)
{
    return (int)spec->options->n_taylor;
}

/* Return the number of cleaned channels. With Taylor terms these are the nodes; without samples, as many as powers. */
static int n_cleaned(const msi_clean_field_spec *spec)
{
    if (n_taylor(spec)) return spec->taylor ? spec->taylor->n_node : 2 * n_taylor(spec) - 1;
    const int64_t n = spec->options->deconvolution_channels;
    return n && n < spec->n_channel ? (int)n : spec->n_channel;
}

msi_clean_group *msi_clean_field_group(const msi_clean_field *f, int pol)
{
    return &f->group[f->n_group > 1 ? pol : 0];
}

/* Return the number of channels whose gridders work at the same time. */
static int n_parallel(const msi_clean_field *f)
{
    return f->spec.n_parallel > f->spec.n_channel ? f->spec.n_channel : f->spec.n_parallel > 1 ? f->spec.n_parallel : 1;
}

/* ---- Planes ---- */

/* The gridder of the first channel makes the planes; all gridders take them. */
static int make_planes(const msi_clean_field *f, int n, msi_planes **out)
{
    return msi_clean_samples_planes(f->spec.samples, f->spec.first, n, out);
}

/* Make consecutive planes of each channel for its gridder: views, or buffers if planes are ordered by polarisation. */
static int make_views(msi_clean_field *f)
{
    const int n_channel = f->spec.n_channel, n_pol = f->spec.n_pol;
    if (n_taylor(&f->spec)) return MSI_OK;
    MSI_TRY(msi_alloc(&f->channel_residual, n_channel, sizeof(msi_planes *), "image planes"));
    MSI_TRY(msi_alloc(&f->channel_model, n_channel, sizeof(msi_planes *), "image planes"));
    for (int k = 0; f->by_pol && k < n_parallel(f); k++) {
        MSI_TRY(make_planes(f, n_pol, &f->channel_residual[k]));
        MSI_TRY(make_planes(f, n_pol, &f->channel_model[k]));
    }
    for (int c = 0; !f->by_pol && c < n_channel; c++) {
        MSI_TRY(msi_planes_view(&f->channel_residual[c], f->residual, c * n_pol, n_pol));
        MSI_TRY(msi_planes_view(&f->channel_model[c], f->model, c * n_pol, n_pol));
    }
    return MSI_OK;
}

static int make_groups(msi_clean_field *f)
{
    const int joined = f->spec.options->join_pols;
    f->n_group = joined ? 1 : f->spec.n_pol;
    MSI_TRY(msi_alloc(&f->group, f->n_group, sizeof *f->group, "groups of images"));
    const int n_pol = f->spec.n_pol / f->n_group, n = f->n_cleaned * n_pol, n_part = f->spec.n_channel * n_pol;
    for (int i = 0; i < f->n_group; i++) {
        msi_clean_group *g = &f->group[i];
        g->pol = joined ? -1 : i;
        g->mgain = f->spec.options->mgain;
        MSI_TRY(msi_planes_view(&g->residual, f->cleaned_residual ? f->cleaned_residual : f->residual, i * n, n));
        MSI_TRY(msi_planes_view(&g->model, msi_clean_field_model(f), i * n, n));
        MSI_TRY(msi_planes_view(&g->before, f->before, i * n, n));
        if (!f->cleaned_model || n_taylor(&f->spec)) continue;
        MSI_TRY(msi_planes_view(&g->part_residual, f->residual, i * n_part, n_part));
        MSI_TRY(msi_planes_view(&g->part_model, f->model, i * n_part, n_part));
    }
    return MSI_OK;
}

/* Give each term the weights of the channel. */
static int repeat_weights(msi_clean_field *f)
{
    const int n_pol = f->spec.n_pol, n = f->spec.n_channel * n_pol;
    MSI_TRY(msi_alloc(&f->own_sum_weight, n, sizeof *f->own_sum_weight, "sums of weights"));
    MSI_TRY(msi_alloc(&f->own_n_vis, n, sizeof *f->own_n_vis, "numbers of samples"));
    for (int i = 0; i < n; i++) {
        f->own_sum_weight[i] = f->sum_weight[i % n_pol];
        f->own_n_vis[i] = f->n_vis[i % n_pol];
    }
    f->sum_weight = f->own_sum_weight;
    f->n_vis = f->own_n_vis;
    return MSI_OK;
}

int msi_clean_field_make(msi_clean_field *f, const msi_clean_field_spec *spec)
{
    const int n = spec->n_channel * spec->n_pol;
    *f = (msi_clean_field){.spec = *spec,
                           .accuracy = spec->accuracy,
                           .n_cleaned = n_cleaned(spec),
                           .by_pol =
                               n_taylor(spec) || (spec->n_channel > 1 && spec->n_pol > 1 && !spec->options->join_pols)};
    f->sum_weight = spec->samples->sum_weight + spec->first * spec->n_pol;
    f->n_vis = spec->samples->n_vis + spec->first * spec->n_pol;
    MSI_TRY(make_planes(f, n, &f->residual));
    MSI_TRY(make_planes(f, n, &f->model));
    const int n_clean = f->n_cleaned * spec->n_pol, has_cleaned = n_taylor(spec) || n_clean < n;
    if (n_taylor(spec)) MSI_TRY(repeat_weights(f));
    MSI_TRY(make_planes(f, n_clean, &f->before));
    if (has_cleaned) MSI_TRY(make_planes(f, n_clean, &f->cleaned_residual));
    if (has_cleaned) MSI_TRY(make_planes(f, n_clean, &f->cleaned_model));
    MSI_TRY(make_views(f));
    return make_groups(f);
}

/* ---- Cleaners ---- */

/* Given: weight [n_channel] of the imaged channels, borrowed by the result */
static msi_cleaner_spec cleaner_spec(const msi_clean_field_spec *spec, const double *weight, double beam_pixel)
{
    const msi_clean_options *c = spec->options;
    const int fits = c->fit_terms       ? MSI_CLEAN_FIT_POLYNOMIAL
                     : c->log_fit_terms ? MSI_CLEAN_FIT_LOG
                                        : MSI_CLEAN_FIT_NONE;
    const int n = n_cleaned(spec), n_term = n_taylor(spec), has_parts = n < spec->n_channel;
    const msi_clean_taylor *t = spec->taylor;
    return (msi_cleaner_spec){.nx = spec->geometry.nx,
                              .ny = spec->geometry.ny,
                              .n_channel = n,
                              .n_pol = c->join_pols ? spec->n_pol : 1,
                              .search_pol = spec->searched,
                              .weight = t                     ? t->share
                                        : has_parts || n_term ? NULL
                                                              : weight,
                              .freq_hz = t           ? t->freq_hz
                                         : has_parts ? NULL
                                                     : spec->freq_hz,
                              .n_part = has_parts ? spec->n_channel : 0,
                              .part_weight = has_parts ? weight : NULL,
                              .part_freq_hz = has_parts ? spec->freq_hz : NULL,
                              .n_thread = spec->n_thread,
                              .grid_x = spec->grid_x,
                              .grid_y = spec->grid_y,
                              .method = c->multiscale ? "multiscale"
                                        : c->is_exact ? "hogbom"
                                                      : "list",
                              .gain = c->gain,
                              .no_negative = c->no_negative,
                              .stop_negative = c->stop_negative,
                              .squared_join = c->squared_join && c->join_channels,
                              .border = c->border_percent / 100,
                              .of_taylor = t != NULL,
                              .fit_later = spec->sight != NULL,
                              .fit = t        ? MSI_CLEAN_FIT_POLYNOMIAL
                                     : n_term ? MSI_CLEAN_FIT_NONE
                                              : (msi_clean_fit)fits,
                              .n_term = t ? n_term : (int)(c->fit_terms ? c->fit_terms : c->log_fit_terms),
                              .scale = c->n_scale ? c->scale : NULL,
                              .n_scale = c->n_scale ? c->n_scale : (int)c->max_scales,
                              .no_points = c->no_points,
                              .beam_pixel = beam_pixel,
                              .scale_bias = c->scale_bias,
                              .scale_gain = c->scale_gain,
                              .shape = c->shape,
                              .scale_rule = c->scale_rule,
                              .small_scale_bias = c->small_scale_bias,
                              .by_scale = c->scale_mask != NULL};
}

/* Return the number of Stokes I, of which lists of sources are made, in the components of a group; -1 without it. */
static int source_pol(const msi_clean_field *f, const msi_clean_group *g)
{
    for (int p = 0; p < f->spec.n_pol; p++)
        if (f->spec.planes[p].pol == MSI_POL_I && (g->pol < 0 || g->pol == p)) return g->pol < 0 ? p : 0;
    return -1;
}

static int make_sources(const msi_clean_field *f, msi_clean_group *g, const msi_cleaner_spec *cleaner)
{
    const msi_clean_sources_spec spec = {cleaner->n_channel, cleaner->n_pol, source_pol(f, g), cleaner->precision};
    return spec.pol < 0 ? MSI_OK : msi_clean_sources_create(&g->sources, &spec);
}

/* Give a cleaner the PSFs of the cleaned channels. Given: cell  the cell of the PSFs; -1: all cells */
static int set_psf(const msi_clean_field *f, msi_cleaner *cleaner, int cell, const msi_planes *psf)
{
    msi_planes *mean;
    if (!f->cleaned_model) return cell < 0 ? msi_cleaner_psf(cleaner, psf) : msi_cleaner_cell_psf(cleaner, cell, psf);
    MSI_TRY(make_planes(f, f->n_cleaned, &mean));
    const msi_cleaner_planes powers = {psf, 0, 1, 2 * f->spec.n_channel - 1}, nodes = {mean, 0, 1, f->n_cleaned};
    int rc = n_taylor(&f->spec) ? msi_cleaner_combine(cleaner, f->spec.taylor->psf, &powers, &nodes)
                                : msi_cleaner_mean(cleaner, psf, mean);
    if (!rc) rc = cell < 0 ? msi_cleaner_psf(cleaner, mean) : msi_cleaner_cell_psf(cleaner, cell, mean);
    msi_planes_free(mean);
    return rc;
}

static double correction_flux(const msi_clean_options *c, double freq_hz)
{
    const double x = log10(freq_hz / c->correction_hz);
    double sum = 0;
    for (int k = c->n_correction - 1; k > 0; k--) sum = (sum + c->correction_term[k]) * x;
    return c->correction_term[0] * pow(10, sum);
}

/* Compute the factors of -spectral-correction for the cleaned channels. */
static int make_correction(const msi_clean_field_spec *spec, double factor[MSI_CLEAN_MAX_CHANNEL])
{
    const msi_clean_options *c = spec->options;
    const int n = n_cleaned(spec);
    double freq_hz[MSI_CLEAN_MAX_CHANNEL] = {0};
    int count[MSI_CLEAN_MAX_CHANNEL] = {0};
    const double middle = correction_flux(c, 0.5 * (spec->freq_hz[0] + spec->freq_hz[spec->n_channel - 1]));
    for (int64_t i = 0; i < spec->n_channel; i++) {
        const int64_t k = i * n / spec->n_channel;
        freq_hz[k] += spec->freq_hz[i];
        count[k]++;
    }
    for (int i = 0; i < n; i++) {
        factor[i] = middle / correction_flux(c, freq_hz[i] / count[i]);
        if (!(factor[i] > 0 && factor[i] * c->gain < 1))
            return msi_error_set(MSI_EUSAGE,
                                 "-spectral-correction: channel %d is multiplied by %.4g, and cleaned with a gain of "
                                 "%.4g, which must be below 1; give other terms, or a smaller -gain",
                                 i, factor[i], factor[i] * c->gain);
    }
    return MSI_OK;
}

/* Make the cleaner of a group. Given: weight [n_channel] */
static int make_weighted_cleaner(msi_clean_field *f, msi_clean_group *g, const double *weight, const msi_planes *psf,
                                 double beam_pixel)
{
    const msi_planes_shape *shape = msi_planes_shape_of(f->residual);
    msi_cleaner_spec spec = cleaner_spec(&f->spec, weight, beam_pixel);
    spec.precision = shape->precision;
    spec.backend = shape->backend;
    spec.device = shape->device;
    spec.n_device = f->spec.n_device < MSI_CLEAN_MAX_DEVICE ? f->spec.n_device : MSI_CLEAN_MAX_DEVICE;
    for (int i = 0; i < spec.n_device; i++) spec.devices[i] = f->spec.devices[i];
    double factor[MSI_CLEAN_MAX_CHANNEL];
    if (f->spec.options->n_correction && f->spec.options->join_channels) {
        MSI_TRY(make_correction(&f->spec, factor));
        spec.correction = factor;
    }
    MSI_TRY(msi_cleaner_create(&g->cleaner, &spec));
    MSI_TRY(set_psf(f, g->cleaner, -1, psf));
    return f->spec.options->save_sources ? make_sources(f, g, &spec) : MSI_OK;
}

static int make_cleaner(msi_clean_field *f, msi_clean_group *g, const msi_planes *psf, double beam_pixel)
{
    double *weight, sum = 0;
    MSI_TRY(msi_alloc(&weight, f->spec.n_channel, sizeof *weight, "weights of channels"));
    for (int c = 0; c < f->spec.n_channel; c++) {
        weight[c] = f->sum_weight[c * f->spec.n_pol + (g->pol < 0 ? 0 : g->pol)];
        sum += weight[c];
    }
    if (!(sum > 0)) g->stop = "no samples";
    const int rc = g->stop ? MSI_OK : make_weighted_cleaner(f, g, weight, psf, beam_pixel);
    msi_free(weight);
    return rc;
}

int msi_clean_field_cleaners(msi_clean_field *f, const msi_planes *psf, double beam_pixel)
{
    for (int i = 0; i < f->n_group; i++) MSI_TRY(make_cleaner(f, &f->group[i], psf, beam_pixel));
    return MSI_OK;
}

/* Make the PSFs of a cell. Given: psf  as for msi_clean_field_cleaners */
static int make_cell(msi_clean_field *f, int cell, msi_planes *psf)
{
    const msi_clean_field_spec *s = &f->spec;
    const int64_t x = s->geometry.nx * (2 * (cell % s->grid_x) + 1) / (2 * s->grid_x),
                  y = s->geometry.ny * (2 * (cell / s->grid_x) + 1) / (2 * s->grid_y);
    const int n = n_taylor(s) ? 1 : s->n_channel, n_each = msi_planes_shape_of(psf)->n / n;
    for (int c = 0; c < n; c++) {
        msi_planes *of_channel;
        MSI_TRY(msi_planes_view(&of_channel, psf, c * n_each, n_each));
        const int rc = msi_clean_samples_source_psf(s->samples, s->first + c, x, y, of_channel);
        msi_planes_free(of_channel);
        MSI_TRY(rc);
    }
    for (int i = 0; i < f->n_group; i++)
        if (f->group[i].cleaner) MSI_TRY(set_psf(f, f->group[i].cleaner, cell, psf));
    return MSI_OK;
}

int msi_clean_field_cell_psfs(msi_clean_field *f)
{
    const int n_cell = f->spec.grid_x * f->spec.grid_y;
    msi_planes *psf;
    if (n_cell < 2) return MSI_OK;
    MSI_TRY(make_planes(f, n_taylor(&f->spec) ? 2 * f->spec.n_channel - 1 : f->spec.n_channel, &psf));
    int rc = MSI_OK;
    for (int cell = 0; !rc && cell < n_cell; cell++) rc = make_cell(f, cell, psf);
    msi_planes_free(psf);
    return rc;
}

int msi_clean_field_keep_first(msi_clean_field *f)
{
    const int n = msi_planes_shape_of(f->residual)->n;
    if (!f->first_residual)
        MSI_TRY(msi_alloc_paged(&f->first_residual, msi_planes_bytes(msi_planes_shape_of(f->residual)), 1,
                                "first residuals"));
    return msi_planes_fetch(f->residual, 0, n, f->first_residual);
}

int msi_clean_field_masks(msi_clean_field *f, const msi_beam *beam, double sidelobe)
{
    msi_auto_mask_spec spec = f->spec.options->mask;
    spec.sidelobe_level = sidelobe;
    spec.beam = *beam;
    spec.cell_x_rad = f->spec.geometry.cell_x_rad;
    spec.cell_y_rad = f->spec.geometry.cell_y_rad;
    spec.n_thread = f->spec.n_thread;
    for (int i = 0; i < f->n_group; i++)
        if (f->group[i].cleaner)
            MSI_TRY(msi_auto_mask_create(&f->group[i].auto_mask, msi_planes_shape_of(f->residual), &spec));
    return MSI_OK;
}

int msi_clean_group_mask(msi_clean_group *g, int64_t n_pixel, uint16_t *buffer, uint8_t *mask)
{
    if (g->auto_mask) return msi_auto_mask_fetch(g->auto_mask, mask);
    if (!g->cleaner)
        memset(mask, 0, (size_t)n_pixel);
    else
        MSI_TRY(msi_cleaner_found(g->cleaner, buffer));
    for (int64_t i = 0; g->cleaner && i < n_pixel; i++) mask[i] = buffer[i] != 0;
    return MSI_OK;
}

/* Estimates are made before the PSF is known, so the beam is assumed to have the usual width in pixels. The number of
 * scales depends on the longest baseline, for which the narrowest usual beam is assumed. */
static const double USUAL_BEAM_PIXEL = 4, LEAST_BEAM_PIXEL = 2, MOST_BEAM_PIXEL = 32;

/* Memory next to a cleaner: held, and temporary. */
typedef struct additional {
    int64_t host, temporary, device;
} additional;

/* Estimate the mask of -auto-multithresh and the local noise of a cleaner. The latter takes five images: the noise and
 * at most four temporary ones. */
static void estimate_mask_and_noise(const msi_clean_field_spec *spec, const msi_planes_shape *shape, additional *bytes)
{
    const msi_clean_options *o = spec->options;
    const msi_planes_shape image = {.nx = shape->nx, .ny = shape->ny, .n = 1, .precision = shape->precision};
    *bytes = (additional){0};
    if (o->multithresh) {
        msi_auto_mask_spec mask = o->mask;
        mask.cell_x_rad = spec->geometry.cell_x_rad;
        mask.cell_y_rad = spec->geometry.cell_y_rad;
        mask.beam = (msi_beam){USUAL_BEAM_PIXEL * mask.cell_x_rad, USUAL_BEAM_PIXEL * mask.cell_x_rad, 0};
        mask.n_thread = spec->n_thread;
        msi_auto_mask_estimate(shape, &mask, &bytes->host, &bytes->device);
    }
    if (!o->local_rms) return;
    if (shape->backend == MSI_BACKEND_CUDA) {
        bytes->device += 5 * msi_planes_bytes(&image);
    } else {
        bytes->host += msi_planes_bytes(&image);
        bytes->temporary += 4 * msi_planes_bytes(&image);
    }
}

/* Return the shape of all planes of a field while it is cleaned. */
static msi_planes_shape held_planes(const msi_clean_field_spec *spec, const msi_gridder_report *gridder)
{
    const int n_pol = spec->n_pol, n = spec->n_channel * n_pol, n_clean = n_cleaned(spec) * n_pol;
    const int n_term = n_taylor(spec);
    const int by_pol = spec->n_channel > 1 && n_pol > 1 && !spec->options->join_pols && !n_term;
    return (msi_planes_shape){.nx = spec->geometry.nx,
                              .ny = spec->geometry.ny,
                              .n = 2 * n + n_clean + (by_pol ? 2 * n_pol : 0) +
                                   (n_clean < n || n_term ? 2 * n_clean : 0),
                              .precision = gridder->precision,
                              .backend = gridder->backend};
}

/* Return the bytes of n planes of a shape. */
static int64_t bytes_of(msi_planes_shape shape, int n)
{
    shape.n = n;
    return msi_planes_bytes(&shape);
}

/* Estimate the buffers of restoring. */
static void estimate_restoring(const msi_clean_field_spec *spec, const msi_planes_shape *shape, int64_t *host,
                               int64_t *paged, int64_t *device)
{
    const msi_image_geometry *g = &spec->geometry;
    const msi_restore_spec restored = {.beam = {USUAL_BEAM_PIXEL * g->cell_x_rad, USUAL_BEAM_PIXEL * g->cell_x_rad, 0},
                                       .cell_x_rad = g->cell_x_rad,
                                       .cell_y_rad = g->cell_y_rad,
                                       .n = spec->n_pol,
                                       .n_thread = spec->n_thread};
    msi_restore_estimate(shape, &restored, host, paged, device);
}

int msi_clean_field_estimate(const msi_clean_field_spec *spec, const msi_gridder_report *gridder, int is_paged,
                             msi_clean_field_bytes *bytes)
{
    const msi_planes_shape shape = held_planes(spec, gridder);
    const int on_gpu = shape.backend == MSI_BACKEND_CUDA, n_cleaner = spec->options->join_pols ? 1 : spec->n_pol;
    const int n_clean = n_cleaned(spec), n_term = n_taylor(spec);
    const int n_psf = (n_term ? 2 * n_term - 1 : spec->n_channel) + (n_clean < spec->n_channel || n_term ? n_clean : 0);
    const int64_t planes = msi_planes_bytes(&shape), psfs = bytes_of(shape, n_psf);
    const int64_t first = spec->options->save_first_residual ? bytes_of(shape, spec->n_channel * spec->n_pol) : 0;
    msi_cleaner_spec cleaner = cleaner_spec(spec, NULL, LEAST_BEAM_PIXEL);
    msi_cleaner_spec few_scales = cleaner_spec(spec, NULL, MOST_BEAM_PIXEL);
    msi_cleaner_bytes each, least;
    additional more;
    int64_t restore_host, restore_paged, restore_device;
    cleaner.precision = few_scales.precision = shape.precision;
    cleaner.backend = few_scales.backend = shape.backend;
    MSI_TRY(msi_cleaner_estimate(&cleaner, &each));
    MSI_TRY(msi_cleaner_estimate(&few_scales, &least));
    estimate_mask_and_noise(spec, &shape, &more);
    estimate_restoring(spec, &shape, &restore_host, &restore_paged, &restore_device);
    *bytes = (msi_clean_field_bytes){
        .host = n_cleaner * (each.host - each.temporary + more.host) + first + (on_gpu ? 0 : planes) +
                (spec->options->save_sources ? msi_clean_sources_bytes() : 0),
        .device = n_cleaner * (each.device + more.device) + restore_device + (on_gpu ? planes + psfs : 0),
        .least_device = on_gpu ? n_cleaner * least.least_device + planes : 0,
        .restoring_device = restore_device,
        .psfs = each.temporary + (on_gpu ? 0 : psfs),
        .measuring = more.temporary + each.temporary,
        .restoring = restore_host};
    if (!is_paged || on_gpu) return MSI_OK;
    /* All except the model and the residual of one channel may be paged out. */
    const int64_t out = n_cleaner * each.paged + first + planes - bytes_of(shape, 2 * spec->n_pol);
    bytes->host -= out;
    bytes->psfs -= psfs;
    bytes->restoring -= restore_paged;
    bytes->paged = out + (psfs > restore_paged ? psfs : restore_paged);
    if (is_paged < 2) return MSI_OK;
    const int64_t work = n_cleaner * (each.work - each.paged + more.host) + bytes_of(shape, 2 * spec->n_pol);
    const int64_t passing = more.temporary + each.temporary;
    bytes->host -= work;
    bytes->psfs -= each.temporary;
    bytes->measuring -= passing;
    bytes->paged += work + passing;
    return MSI_OK;
}

/* ---- Residuals ---- */

/* The residuals of all channels, with or without models. */
typedef struct subtraction {
    msi_clean_field *field;
    int with_model;
} subtraction;

/* Make the residual of a channel in buffers of consecutive planes and copy it. Channels that are made at the same time
 * have different buffers. */
static int subtract_by_copies(const subtraction *s, int channel)
{
    msi_clean_field *f = s->field;
    const int slot = channel % n_parallel(f);
    msi_planes *model = f->channel_model[slot], *residual = f->channel_residual[slot];
    for (int p = 0; s->with_model && p < f->spec.n_pol; p++)
        MSI_TRY(msi_planes_copy(model, p, f->model, msi_clean_field_plane(f, channel, p), 1));
    MSI_TRY(
        msi_clean_samples_residual(f->spec.samples, f->spec.first + channel, s->with_model ? model : NULL, residual));
    for (int p = 0; p < f->spec.n_pol; p++)
        MSI_TRY(msi_planes_copy(f->residual, msi_clean_field_plane(f, channel, p), residual, p, 1));
    return MSI_OK;
}

int msi_clean_field_refine(msi_clean_field *f, double accuracy)
{
    for (int c = 0; c < (n_taylor(&f->spec) ? 1 : f->spec.n_channel); c++)
        if (f->n_vis[c * f->spec.n_pol])
            MSI_TRY(msi_clean_samples_refine(f->spec.samples, f->spec.first + c, accuracy));
    f->accuracy = accuracy;
    return MSI_OK;
}

/* Planes of a polarisation: its terms, and its nodes in the planes of the group. */
typedef struct taylor_planes {
    msi_cleaner *cleaner;
    msi_cleaner_planes terms, nodes;
} taylor_planes;

static taylor_planes find_taylor_planes(const msi_clean_field *f, int pol, int models)
{
    const msi_clean_group *g = msi_clean_field_group(f, pol);
    const int n_term = n_taylor(&f->spec), joined = g->pol < 0;
    return (taylor_planes){
        g->cleaner,
        {models ? f->model : f->residual, pol * n_term, 1, n_term},
        {models ? g->model : g->residual, joined ? pol : 0, joined ? f->spec.n_pol : 1, f->n_cleaned}};
}

/* Make the planes of the nodes from those of the terms: residuals by the Hessian, models by the polynomial. */
static int make_nodes(msi_clean_field *f, int models)
{
    const msi_clean_taylor *t = f->spec.taylor;
    double value[MSI_TAYLOR_MAX_NODE * MSI_TAYLOR_MAX_TERM];
    for (int i = 0; t && i < t->n_node * t->n_term; i++) value[i] = pow(t->x[i / t->n_term], i % t->n_term);
    for (int p = 0; t && p < f->spec.n_pol; p++) {
        const taylor_planes of = find_taylor_planes(f, p, models);
        if (of.cleaner) MSI_TRY(msi_cleaner_combine(of.cleaner, models ? value : t->residual, &of.terms, &of.nodes));
    }
    return MSI_OK;
}

int msi_clean_field_terms(msi_clean_field *f, int models)
{
    const msi_clean_taylor *t = f->spec.taylor;
    for (int p = 0; t && p < f->spec.n_pol; p++) {
        const taylor_planes of = find_taylor_planes(f, p, models);
        if (of.cleaner) MSI_TRY(msi_cleaner_combine(of.cleaner, t->term, &of.nodes, &of.terms));
    }
    return MSI_OK;
}

int msi_clean_field_average(msi_clean_field *f, int models)
{
    if (n_taylor(&f->spec)) return make_nodes(f, models);
    for (int i = 0; f->cleaned_model && i < f->n_group; i++) {
        const msi_clean_group *g = &f->group[i];
        if (g->cleaner)
            MSI_TRY(msi_cleaner_mean(g->cleaner, models ? g->part_model : g->part_residual,
                                     models ? g->model : g->residual));
    }
    return MSI_OK;
}

/* Make the models of the imaged channels from those of the cleaned channels. */
static int expand_models(msi_clean_field *f)
{
    if (n_taylor(&f->spec)) return msi_clean_field_terms(f, 1);
    for (int i = 0; f->spec.sight && i < f->n_group; i++)
        if (f->group[i].cleaner)
            MSI_TRY(seen_spectra_fit(f->spec.sight, f->group[i].cleaner, f->group[i].pol, f->group[i].model,
                                     f->group[i].part_model));
    for (int i = 0; f->cleaned_model && !f->spec.sight && i < f->n_group; i++)
        if (f->group[i].cleaner)
            MSI_TRY(msi_cleaner_expand(f->group[i].cleaner, f->group[i].model, f->group[i].part_model));
    return MSI_OK;
}

static int subtract_channel(void *of, int64_t channel)
{
    const subtraction *s = of;
    const msi_clean_field *f = s->field;
    const int c = (int)channel;
    if (f->by_pol) return subtract_by_copies(s, c);
    return msi_clean_samples_residual(f->spec.samples, f->spec.first + c, s->with_model ? f->channel_model[c] : NULL,
                                      f->channel_residual[c]);
}

/* Make the residuals one channel after the other. The progress of each channel is reported; in parallel only finished
 * channels are. */
static int subtract_in_turn(subtraction *s)
{
    const int n_channel = s->field->spec.n_channel;
    for (int c = 0; c < n_channel; c++) {
        const msi_progress_share all = msi_progress_enter(c, c + 1, n_channel);
        MSI_TRY(subtract_channel(s, c));
        msi_progress_leave(all);
    }
    return MSI_OK;
}

/* Ordered parallel work needs a function for finished items, by which it counts the progress. */
static int finish_nothing(void *of, int64_t channel)
{
    (void)of;
    (void)channel;
    return MSI_OK;
}

int msi_clean_field_subtract(msi_clean_field *f, int with_model)
{
    subtraction s = {f, with_model};
    const msi_ordered_parallel turns = {.n_item = f->spec.n_channel,
                                        .n_thread = n_parallel(f),
                                        .work = subtract_channel,
                                        .finish = finish_nothing,
                                        .of = &s};
    if (with_model) MSI_TRY(expand_models(f));
    if (n_taylor(&f->spec)) {
        MSI_TRY(msi_clean_samples_residual(f->spec.samples, f->spec.first, with_model ? f->model : NULL, f->residual));
        return make_nodes(f, 0);
    }
    MSI_TRY(n_parallel(f) == 1 ? subtract_in_turn(&s) : msi_ordered_parallel_run(&turns));
    return msi_clean_field_average(f, 0);
}

void msi_clean_field_free(msi_clean_field *f)
{
    for (int i = 0; f->group && i < f->n_group; i++) {
        msi_cleaner_free(f->group[i].cleaner);
        msi_auto_mask_free(f->group[i].auto_mask);
        msi_clean_sources_free(f->group[i].sources);
        msi_planes_free(f->group[i].residual);
        msi_planes_free(f->group[i].model);
        msi_planes_free(f->group[i].before);
        msi_planes_free(f->group[i].part_residual);
        msi_planes_free(f->group[i].part_model);
    }
    for (int c = 0; c < f->spec.n_channel; c++) {
        if (f->channel_residual) msi_planes_free(f->channel_residual[c]);
        if (f->channel_model) msi_planes_free(f->channel_model[c]);
    }
    msi_free(f->channel_residual);
    msi_free(f->channel_model);
    msi_planes_free(f->residual);
    msi_planes_free(f->model);
    msi_planes_free(f->before);
    msi_planes_free(f->cleaned_residual);
    msi_planes_free(f->cleaned_model);
    msi_free(f->first_residual);
    msi_free(f->own_sum_weight);
    msi_free(f->own_n_vis);
    msi_free(f->group);
    memset(f, 0, sizeof *f);
}
