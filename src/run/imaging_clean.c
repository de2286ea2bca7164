/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/imaging_clean.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/clean/clean_cycle.h"
#include "src/clean/clean_report.h"
#include "src/clean/clean_resume.h"
#include "src/run/imaging_files.h"
#include "src/run/imaging_index.h"
#include "src/run/imaging_report.h"
#include "src/run/imaging_reuse.h"
#include "src/run/imaging_sources.h"

enum { N_KIND = MSI_FITS_IMAGE + 1 };

/* The cleaning of an interval, and of it the field at hand: channels [first, first + field.spec.n_channel). */
typedef struct cleaning {
    msi_imaging_run *run;
    msi_clean_field field;
    int64_t first;
    double *freq_hz; /* [field.spec.n_channel], as the following */
    msi_beam *beam;
    double sidelobe; /* of the first PSF */
    double (*vis_weight)[MSI_GRIDDER_MAX_PLANES];
    int has_first_residual;
    double dirty_peak_jy; /* of all dirty images that were written; 0: none */
    /* Of each channel's images: the residual's peak, the model's flux. */
    double (*peak_jy)[MSI_MAX_PLANES], (*flux_jy)[MSI_MAX_PLANES];

    /* Of all channels, where there are several: means of their images, and what cleaning came to. */
    msi_image sum[N_KIND]; /* empty where nothing has been added */
    double sum_vis_weight[MSI_GRIDDER_MAX_PLANES];
    msi_fits_clean clean[MSI_MAX_PLANES];
    msi_planes_shape shape;
    int has_band_beam;
    msi_beam band_beam; /* of the mean PSF */
} cleaning;

static int has_mfs(const cleaning *k)
{
    return k->run->options->channels_out > 1;
}

static void *plane_pixel(const msi_image *image, int plane)
{
    return (char *)image->pixel + plane * msi_image_n_pixel(&image->geometry) * msi_image_pixel_bytes(image->precision);
}

/* ---- What cleaning came to ---- */

static msi_fits_clean clean_cards(const cleaning *k, const msi_clean_group *g)
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

/* Channels that are not joined have their own cards; those of all of them tell of the sum. */
static void add_cards(msi_fits_clean *sum, const msi_fits_clean *c)
{
    if (!sum->is_known) {
        *sum = *c;
        return;
    }
    sum->n_minor += c->n_minor;
    if (c->n_major > sum->n_major) sum->n_major = c->n_major;
    if (strcmp(sum->stop, c->stop) != 0) snprintf(sum->stop, sizeof sum->stop, "see the channels");
    sum->final_threshold_jy = fmax(sum->final_threshold_jy, c->final_threshold_jy);
    sum->noise_jy = NAN;
}

/* Find the pixel farthest from zero, with its sign, and the sum of all, of those that are finite. */
static void look_at_plane(const msi_image *image, int plane, double *peak, double *sum)
{
    const void *pixel = plane_pixel(image, plane);
    const int64_t n = msi_image_n_pixel(&image->geometry);
    *peak = *sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = msi_image_value(pixel, image->precision, i);
        if (!isfinite(v)) continue;
        *sum += v;
        if (fabs(v) > fabs(*peak)) *peak = v;
    }
}

/* ---- Images to files ---- */

/* Add a channel's images to the means over all channels. */
static int add_to_sum(cleaning *k, msi_fits_kind kind, const msi_image *image)
{
    msi_image *sum = &k->sum[kind];
    if (!has_mfs(k)) return MSI_OK;
    if (!sum->pixel) MSI_TRY(msi_image_alloc(sum, &image->geometry, image->n_plane, image->precision));
    msi_image_add(sum, image);
    return MSI_OK;
}

/* Fetch the images of a channel of the field, with their sums of weights. */
static int fetch(const cleaning *k, int channel, const msi_planes *planes, msi_image *image)
{
    const msi_clean_field *f = &k->field;
    const int n = f->spec.n_pol;
    MSI_TRY(msi_image_alloc(image, &k->run->options->geometry, n, k->shape.precision));
    for (int p = 0; p < n; p++) {
        image->sum_weight[p] = f->sum_weight[channel * n + p];
        image->n_vis[p] = f->n_vis[channel * n + p];
        const int rc = msi_planes_fetch(planes, msi_clean_field_plane(f, channel, p), 1, plane_pixel(image, p));
        if (rc) {
            msi_image_free(image);
            return rc;
        }
        if (!image->n_vis[p]) msi_image_fill_nan(image, p);
    }
    return MSI_OK;
}

/* Headers and warnings tell of the images, whose peaks are not those of what is searched: joined, biased, masked. */
static void look_at_image(cleaning *k, int channel, msi_fits_kind kind, const msi_image *image)
{
    for (int p = 0; p < image->n_plane; p++) {
        double peak, sum;
        if (kind != MSI_FITS_DIRTY && kind != MSI_FITS_RESIDUAL && kind != MSI_FITS_MODEL) return;
        look_at_plane(image, p, &peak, &sum);
        if (kind == MSI_FITS_DIRTY) k->dirty_peak_jy = fmax(k->dirty_peak_jy, fabs(peak));
        if (kind == MSI_FITS_RESIDUAL) k->peak_jy[channel][p] = peak;
        if (kind == MSI_FITS_MODEL) k->flux_jy[channel][p] = sum;
    }
}

/* The models are looked at before the first file is written whose header has their fluxes. */
static int look_at_models(cleaning *k)
{
    for (int c = 0; c < k->field.spec.n_channel; c++) {
        msi_image image = {0};
        MSI_TRY(fetch(k, c, k->field.model, &image));
        look_at_image(k, c, MSI_FITS_MODEL, &image);
        msi_image_free(&image);
    }
    return MSI_OK;
}

/* Write one kind of image of every channel of the field. */
static int put(cleaning *k, msi_fits_kind kind, const msi_planes *planes)
{
    const msi_clean_field *f = &k->field;
    msi_fits_clean clean[MSI_MAX_PLANES];
    const int is_dirty = kind == MSI_FITS_DIRTY;
    for (int p = 0; p < f->spec.n_pol && !is_dirty && kind != MSI_FITS_FIRST_RESIDUAL; p++)
        clean[p] = clean_cards(k, msi_clean_field_group(f, p));
    for (int c = 0; c < f->spec.n_channel; c++) {
        msi_image image = {0};
        const msi_imaging_product product = {k->first + c, kind, k->beam[c], k->vis_weight[c],
                                             is_dirty || kind == MSI_FITS_FIRST_RESIDUAL ? NULL : clean};
        MSI_TRY(fetch(k, c, planes, &image));
        if (kind != MSI_FITS_MODEL) look_at_image(k, c, kind, &image);
        for (int p = 0; p < f->spec.n_pol; p++) {
            clean[p].peak_jy = k->peak_jy[c][p];
            clean[p].flux_jy = k->flux_jy[c][p];
        }
        int rc = add_to_sum(k, kind, &image);
        if (!rc) rc = msi_imaging_files_put(k->run, &product, &image);
        msi_image_free(&image);
        if (rc) return rc;
    }
    return MSI_OK;
}

/* ---- A field ---- */

/* NAME[-tNNNN][-NNNN].clean. Nothing is allocated for it, so that a run whose images are complete does not fail. A name
 * that is longer than any path was refused with those of the images. */
typedef struct checkpoint_path {
    char text[PATH_MAX];
} checkpoint_path;

static checkpoint_path name_checkpoint(const msi_options *o, int64_t interval, int64_t first)
{
    checkpoint_path path;
    char t[32] = "", c[32] = "";
    if (o->intervals_out > 1) snprintf(t, sizeof t, "-t%04lld", (long long)interval);
    if (o->channels_out > 1 && !o->clean.join_channels) snprintf(c, sizeof c, "-%04lld", (long long)first);
    snprintf(path.text, sizeof path.text, "%s%s%s.clean", o->name, t, c);
    return path;
}

/* Between cycles, unless the last checkpoint is young. */
static int save_checkpoint(void *of)
{
    cleaning *k = of;
    msi_imaging_run *r = k->run;
    const checkpoint_path path = name_checkpoint(r->options, r->interval, k->first);
    if (msi_wall_s() - r->checkpoint_at_s < r->options->clean.checkpoint_s) return MSI_OK;
    const int rc = msi_clean_save(&k->field, &r->history, path.text);
    r->checkpoint_at_s = msi_wall_s();
    return rc;
}

static int load_checkpoint(cleaning *k, int *found)
{
    msi_imaging_run *r = k->run;
    const checkpoint_path path = name_checkpoint(r->options, r->interval, k->first);
    int rc = MSI_OK;
    *found = 0;
    if (r->options->clean.resume) {
        rc = msi_clean_load(&k->field, &r->history, path.text, found);
        if (!rc && *found) msi_log_info("going on from the checkpoint %s", path.text);
        if (!rc && !*found) msi_log_info("there is no checkpoint %s; cleaning begins anew", path.text);
    } else if (access(path.text, F_OK) == 0) {
        msi_log_advice("%s is a checkpoint that a run has left; -resume would go on from it", path.text);
    }
    return rc;
}

/* Planes of a field that are those of an earlier run. */
typedef struct reused_planes {
    const char *prefix;
    msi_fits_kind kind;
    msi_planes *planes;
} reused_planes;

/* Take planes of a kind from the images of an earlier run. Where there is no sample there is no image, and NaN. */
static int read_plane(cleaning *k, const reused_planes *from, int channel, int pol)
{
    msi_imaging_run *r = k->run;
    const msi_output_id id = {r->interval, k->first + channel, pol, from->kind};
    msi_image image;
    MSI_TRY(msi_image_alloc(&image, &r->options->geometry, 1, k->shape.precision));
    int rc = MSI_OK;
    if (from->kind == MSI_FITS_MODEL || k->field.n_vis[channel * k->field.spec.n_pol + pol])
        rc = msi_imaging_reuse_read(r, from->prefix, &id, image.precision, image.pixel);
    else
        msi_image_fill_nan(&image, 0);
    if (!rc) rc = msi_planes_upload(from->planes, msi_clean_field_plane(&k->field, channel, pol), 1, image.pixel);
    msi_image_free(&image);
    return rc;
}

static int read_planes(cleaning *k, const reused_planes *from)
{
    for (int c = 0; c < k->field.spec.n_channel; c++)
        for (int p = 0; p < k->field.spec.n_pol; p++) MSI_TRY(read_plane(k, from, c, p));
    return MSI_OK;
}

/* The largest value of a PSF beside its main lobe: the depth of its lowest pixel, or what exceeds the beam. */
static double sidelobe_level(const msi_image *psf, const msi_beam *beam)
{
    const msi_image_geometry *g = &psf->geometry;
    const double s = sin(beam->pa_rad), c = cos(beam->pa_rad);
    double level = 0;
    if (!msi_beam_known(beam)) return 0;
#pragma omp parallel for schedule(static) reduction(max : level)
    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++) {
            const double value = msi_image_value(psf->pixel, psf->precision, y * g->nx + x);
            const double east = (double)(g->nx / 2 - x) * g->cell_x_rad,
                         north = (double)(y - g->ny / 2) * g->cell_y_rad;
            const double along = (north * c + east * s) / beam->major_rad,
                         across = (east * c - north * s) / beam->minor_rad;
            const double above = value - exp(-4 * log(2) * (along * along + across * across));
            level = fmax(level, fmax(above, -value));
        }
    return level;
}

/* Make the PSF of a channel, or take an earlier run's, find its beam, and write it. */
static int make_psf(cleaning *k, int channel, msi_planes *all)
{
    msi_imaging_run *r = k->run;
    msi_gridder *gridder = k->field.spec.gridder[channel];
    const char *reused = k->field.n_vis[channel * k->field.spec.n_pol] ? r->options->clean.reuse_psf : NULL;
    msi_image image = {0};
    msi_planes *psf;
    MSI_TRY(msi_planes_view(&psf, all, channel, 1));
    int rc = msi_image_alloc(&image, &r->options->geometry, 1, k->shape.precision);
    const msi_output_id id = {r->interval, k->first + channel, 0, MSI_FITS_PSF};
    if (!rc && reused) rc = msi_imaging_reuse_read(r, reused, &id, image.precision, image.pixel);
    if (!rc) rc = reused ? msi_planes_upload(psf, 0, 1, image.pixel) : msi_gridder_psf(gridder, psf);
    if (!rc && !reused) rc = msi_planes_fetch(psf, 0, 1, image.pixel);
    msi_planes_free(psf);
    if (!rc) {
        image.sum_weight[0] = k->field.sum_weight[channel * k->field.spec.n_pol];
        image.n_vis[0] = k->field.n_vis[channel * k->field.spec.n_pol];
        rc = msi_imaging_files_beam(r, &k->beam[channel], &image);
        if (channel == 0) k->sidelobe = sidelobe_level(&image, &k->beam[0]);
    }
    if (!rc) rc = add_to_sum(k, MSI_FITS_PSF, &image);
    const msi_imaging_product product = {k->first + channel, MSI_FITS_PSF, k->beam[channel], k->vis_weight[channel],
                                         NULL};
    if (!rc) rc = msi_imaging_files_put(r, &product, &image);
    msi_image_free(&image);
    return rc;
}

/* The beam's width in pixels, of the first channel that has one. */
static double beam_pixel(const cleaning *k)
{
    const msi_image_geometry *g = &k->run->options->geometry;
    for (int c = 0; c < k->field.spec.n_channel; c++)
        if (msi_beam_known(&k->beam[c]))
            return sqrt(k->beam[c].major_rad * k->beam[c].minor_rad / (g->cell_x_rad * g->cell_y_rad));
    return 3;
}

static int make_psfs(cleaning *k)
{
    const int n = k->field.spec.n_channel;
    msi_planes *psf;
    MSI_TRY(msi_gridder_planes(k->field.spec.gridder[0], n, &psf));
    int rc = MSI_OK;
    for (int c = 0; !rc && c < n; c++) {
        const msi_progress_share all = msi_progress_enter(c, c + 1, 2 * n);
        rc = make_psf(k, c, psf);
        msi_progress_leave(all);
    }
    if (!rc) rc = msi_clean_field_cleaners(&k->field, psf, beam_pixel(k));
    msi_planes_free(psf);
    const uint8_t *mask = msi_clean_mask_of(&k->run->mask, k->run->mask.n_plane > 1 ? k->first : 0);
    for (int i = 0; !rc && mask && i < k->field.n_group; i++)
        if (k->field.group[i].cleaner) rc = msi_cleaner_mask(k->field.group[i].cleaner, mask);
    if (!rc && k->run->options->clean.multithresh && msi_beam_known(&k->beam[0]))
        rc = msi_clean_field_masks(&k->field, &k->beam[0], k->sidelobe);
    return rc;
}

static int make_dirty(cleaning *k)
{
    const reused_planes reused = {k->run->options->clean.reuse_dirty, MSI_FITS_DIRTY, k->field.residual};
    const msi_progress_share all = msi_progress_enter(1, 2, 2);
    MSI_TRY(reused.prefix ? read_planes(k, &reused) : msi_clean_field_subtract(&k->field, 0));
    if (reused.prefix) MSI_TRY(msi_clean_field_take(&k->field, 0));
    msi_progress_leave(all);
    if (!k->run->options->clean.no_dirty) MSI_TRY(put(k, MSI_FITS_DIRTY, k->field.residual));
    for (int i = 0; i < k->field.n_group; i++) {
        msi_clean_group *g = &k->field.group[i];
        g->dirty_peak = k->dirty_peak_jy;
        if (g->cleaner) MSI_TRY(msi_cleaner_noise(g->cleaner, g->residual, &g->dirty_noise));
    }
    return MSI_OK;
}

static int put_first_residual(void *of)
{
    cleaning *k = of;
    k->has_first_residual = 1;
    if (!k->run->options->clean.save_first_residual) return MSI_OK;
    MSI_TRY(msi_clean_field_keep_first(&k->field));
    return put(k, MSI_FITS_FIRST_RESIDUAL, k->field.residual);
}

/* Write the masks of a channel: where components could lie at the end, or, of -auto-mask, where they lie. */
static int put_masks(cleaning *k, int channel, uint16_t *room, uint8_t *mask)
{
    const msi_clean_field *f = &k->field;
    const msi_image_geometry *g = &k->run->options->geometry;
    const msi_imaging_product product = {k->first + channel, MSI_FITS_MASK, {0, 0, 0}, k->vis_weight[channel], NULL};
    const int64_t n_pixel = msi_image_n_pixel(g);
    msi_image image;
    MSI_TRY(msi_image_alloc(&image, g, f->spec.n_pol, MSI_FP32));
    int rc = MSI_OK;
    for (int p = 0; !rc && p < f->spec.n_pol; p++) {
        float *pixel = (float *)image.pixel + p * n_pixel;
        rc = msi_clean_group_mask(msi_clean_field_group(f, p), n_pixel, room, mask);
        for (int64_t i = 0; !rc && i < n_pixel; i++) pixel[i] = mask[i];
        image.sum_weight[p] = f->sum_weight[channel * f->spec.n_pol + p];
        image.n_vis[p] = f->n_vis[channel * f->spec.n_pol + p];
    }
    if (!rc) rc = msi_imaging_files_put(k->run, &product, &image);
    msi_image_free(&image);
    return rc;
}

static int put_all_masks(cleaning *k)
{
    const int64_t n_pixel = msi_image_n_pixel(&k->run->options->geometry);
    uint8_t *mask = NULL;
    uint16_t *room;
    if (!msi_outputs_has_mask(k->run->options)) return MSI_OK;
    MSI_TRY(msi_alloc(&room, n_pixel, sizeof *room, "mask"));
    int rc = msi_alloc(&mask, n_pixel, 1, "mask");
    for (int c = 0; !rc && c < k->field.spec.n_channel; c++) rc = put_masks(k, c, room, mask);
    msi_free(room);
    msi_free(mask);
    return rc;
}

/* Restore the images of planes with a beam; without one they are unknown. */
static int restore(const cleaning *k, const msi_beam *beam, int first, msi_planes *residual, const msi_planes *model)
{
    const msi_image_geometry *g = &k->run->options->geometry;
    const msi_restore_spec spec = {.beam = *beam,
                                   .cell_x_rad = g->cell_x_rad,
                                   .cell_y_rad = g->cell_y_rad,
                                   .first = first,
                                   .n = 1,
                                   .n_thread = k->run->options->n_threads};
    if (msi_beam_known(beam)) return msi_restore(residual, residual, model, &spec);
    msi_image none;
    MSI_TRY(msi_image_alloc(&none, g, 1, k->shape.precision));
    msi_image_fill_nan(&none, 0);
    const int rc = msi_planes_upload(residual, first, 1, none.pixel);
    msi_image_free(&none);
    return rc;
}

/* Find the beam of all channels together, whose PSFs are there. */
static int find_band_beam(cleaning *k)
{
    if (k->has_band_beam) return MSI_OK;
    k->has_band_beam = 1;
    return msi_imaging_files_beam(k->run, &k->band_beam, &k->sum[MSI_FITS_PSF]);
}

static int put_index(cleaning *k)
{
    if (msi_outputs_index_plane(k->run->options) < 0) return MSI_OK;
    MSI_TRY(find_band_beam(k));
    const msi_imaging_product product = {MSI_OUTPUT_MFS, MSI_FITS_INDEX, k->band_beam, k->sum_vis_weight, k->clean};
    return msi_imaging_index_put(k->run, &k->field, &product);
}

/* Residual, model and image; the last one takes the place of the residual. */
static int put_cleaned(cleaning *k)
{
    msi_clean_field *f = &k->field;
    if (!k->has_first_residual) MSI_TRY(put_first_residual(k));
    MSI_TRY(look_at_models(k));
    MSI_TRY(put(k, MSI_FITS_RESIDUAL, f->residual));
    MSI_TRY(put(k, MSI_FITS_MODEL, f->model));
    MSI_TRY(put_all_masks(k));
    MSI_TRY(msi_imaging_sources_put(k->run, f, k->first));
    for (int c = 0; c < f->spec.n_channel; c++) {
        if (!msi_beam_known(&k->beam[c]) && f->n_vis[c * f->spec.n_pol])
            msi_log_warning("there is no beam, so that no image is restored: its pixels are NaN; -beam-size gives one");
        for (int p = 0; p < f->spec.n_pol; p++)
            MSI_TRY(restore(k, &k->beam[c], msi_clean_field_plane(f, c, p), f->residual, f->model));
    }
    MSI_TRY(put(k, MSI_FITS_IMAGE, f->residual));
    return put_index(k);
}

/* Look at the samples of a channel, and tell where there are none. */
static void begin_channel(cleaning *k, int channel)
{
    msi_imaging_run *r = k->run;
    const msi_clean_field *f = &k->field;
    msi_gridder_report report;
    int64_t most = 0;
    for (int p = 0; p < f->spec.n_pol; p++) {
        const int64_t n = f->n_vis[channel * f->spec.n_pol + p];
        most = n > most ? n : most;
    }
    r->n_gridded += most;
    if (has_mfs(k) && !most)
        msi_log_warning("output channel %lld has no samples; its images are NaN", (long long)k->first + channel);
    msi_gridder_report_get(f->spec.gridder[channel], &report);
    memcpy(k->vis_weight[channel], report.sum_vis_weight, sizeof k->vis_weight[channel]);
    for (int p = 0; p < f->spec.n_pol; p++) k->sum_vis_weight[p] += report.sum_vis_weight[p];
}

static int make_field(cleaning *k, int64_t first, int n_channel)
{
    msi_imaging_run *r = k->run;
    k->first = first;
    k->has_first_residual = 0;
    k->dirty_peak_jy = 0;
    for (int c = 0; c < n_channel; c++)
        k->freq_hz[c] = 0.5 * (r->channels.low_hz[first + c] + r->channels.high_hz[first + c]);
    const msi_clean_field_spec spec = {r->options, r->gridder + first, n_channel, r->n_plane, k->freq_hz};
    MSI_TRY(msi_clean_field_make(&k->field, &spec));
    k->shape = *msi_planes_shape_of(k->field.residual);
    if (k->field.n_cleaned < n_channel)
        msi_log_info("%d channels are cleaned as %d, whose fitted spectra give the models of all", n_channel,
                     k->field.n_cleaned);
    for (int c = 0; c < n_channel; c++) begin_channel(k, c);
    return MSI_OK;
}

/* Make residuals of the models that cleaning begins with, if there are any. */
static int begin_models(cleaning *k, int *resumed)
{
    MSI_TRY(load_checkpoint(k, resumed));
    if (*resumed) MSI_TRY(put_first_residual(k));
    if (!*resumed && !k->run->options->clean.continues) return MSI_OK;
    const reused_planes models = {k->run->options->name, MSI_FITS_MODEL, k->field.model};
    if (!*resumed) MSI_TRY(read_planes(k, &models));
    if (!*resumed) MSI_TRY(msi_clean_field_take(&k->field, 1));
    for (int i = 0; !*resumed && i < k->field.n_group; i++)
        if (k->field.group[i].sources)
            MSI_TRY(msi_clean_sources_model(k->field.group[i].sources, k->field.group[i].model));
    return msi_clean_field_subtract(&k->field, 1);
}

/* An image has errors of the accuracy everywhere, which a deep residual shows. */
static void warn_of_accuracy(const cleaning *k)
{
    const msi_options *o = k->run->options;
    for (int i = 0; i < k->field.n_group; i++) {
        const msi_clean_group *g = &k->field.group[i];
        const double first = k->dirty_peak_jy > 0 ? k->dirty_peak_jy : g->first_peak;
        const double reached = first > 0 ? fmax(g->threshold, fabs(g->peak)) / first : 1;
        if (!g->cleaner || 0.1 * reached >= o->accuracy) continue;
        msi_log_warning(
            "the residual is down to %.1e of the first peak, where -accuracy %g may show; -accuracy %.0e suits it",
            reached, o->accuracy, fmax(1e-12, 0.1 * reached));
        return;
    }
}

/* The noise around each pixel, which the user gives. */
static int read_rms(const cleaning *k, msi_image *rms)
{
    MSI_TRY(msi_image_alloc(rms, &k->run->options->geometry, 1, k->shape.precision));
    const int rc = msi_imaging_reuse_rms(k->run, rms->precision, rms->pixel);
    if (rc) msi_image_free(rms);
    return rc;
}

static int clean_field(cleaning *k)
{
    msi_imaging_run *r = k->run;
    char what[32] = "", interval[16] = "", image[32];
    const int is_one = has_mfs(k) && k->field.spec.n_channel == 1;
    msi_clean_cycle_spec cycle = {.what = what,
                                  .image = interval,
                                  .history = &r->history,
                                  .first = put_first_residual,
                                  .cycle = save_checkpoint,
                                  .of = k};
    if (r->options->intervals_out > 1) snprintf(interval, sizeof interval, "t%04d", (int)r->interval);
    if (is_one) {
        snprintf(what, sizeof what, "channel %d", (int)k->first);
        snprintf(image, sizeof image, "%s%s%04d", interval, *interval ? "-" : "", (int)k->first);
        cycle.image = image;
    }
    msi_progress_begin("imaging");
    MSI_TRY(make_psfs(k));
    MSI_TRY(make_dirty(k));
    MSI_TRY(begin_models(k, &cycle.resumed));
    if (cycle.resumed) cycle.first = NULL;
    msi_progress_end();
    cycle.beam_pixel = beam_pixel(k);
    msi_image rms = {0};
    if (r->options->clean.local_rms_image) MSI_TRY(read_rms(k, &rms));
    cycle.rms = rms.pixel;
    msi_progress_begin("cleaning");
    const int rc = msi_clean_cycles_run(&k->field, &cycle);
    msi_image_free(&rms);
    MSI_TRY(rc);
    msi_progress_end();
    msi_clean_report_end(what, &k->field);
    warn_of_accuracy(k);
    for (int p = 0; p < k->field.spec.n_pol; p++) {
        const msi_fits_clean c = clean_cards(k, msi_clean_field_group(&k->field, p));
        add_cards(&k->clean[p], &c);
    }
    return put_cleaned(k);
}

/* The weights of all channels together are read off the gridders at the end. */
static void end_field(cleaning *k, int64_t n_channel)
{
    msi_imaging_run *r = k->run;
    for (int c = 0; c < n_channel; c++) {
        msi_gridder_report report;
        msi_gridder_report_get(r->gridder[k->first + c], &report);
        msi_imaging_report_channel(k->first + c, report.n_sample, &report);
        if (r->options->save_weights) continue;
        msi_gridder_free(r->gridder[k->first + c]);
        r->gridder[k->first + c] = NULL;
    }
    msi_clean_field_free(&k->field);
}

/* ---- All channels together ---- */

static int put_sum(cleaning *k, msi_fits_kind kind, const msi_beam *beam)
{
    msi_image *sum = &k->sum[kind];
    const int has_cards = kind == MSI_FITS_RESIDUAL || kind == MSI_FITS_MODEL || kind == MSI_FITS_IMAGE;
    const msi_imaging_product product = {MSI_OUTPUT_MFS, kind, *beam, k->sum_vis_weight, has_cards ? k->clean : NULL};
    for (int p = 0; p < sum->n_plane; p++)
        if (!sum->n_vis[p]) msi_image_fill_nan(sum, p);
    return msi_imaging_files_put(k->run, &product, sum);
}

/* The image of all channels is their residual and their model with the beam of their PSF. */
static int restore_sum(cleaning *k, const msi_beam *beam)
{
    const msi_image *residual = &k->sum[MSI_FITS_RESIDUAL], *model = &k->sum[MSI_FITS_MODEL];
    msi_image *image = &k->sum[MSI_FITS_IMAGE];
    msi_planes_shape shape = k->shape;
    msi_planes *of_residual = NULL, *of_model = NULL;
    const int n = shape.n = residual->n_plane;
    const size_t of_planes = (size_t)n;
    int rc = msi_planes_create(&of_residual, &shape);
    if (!rc) rc = msi_planes_create(&of_model, &shape);
    if (!rc) rc = msi_planes_upload(of_residual, 0, n, residual->pixel);
    if (!rc) rc = msi_planes_upload(of_model, 0, n, model->pixel);
    for (int p = 0; !rc && p < n; p++) rc = restore(k, beam, p, of_residual, of_model);
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

static int put_sums(cleaning *k)
{
    const msi_clean_options *o = &k->run->options->clean;
    const msi_beam *beam = &k->band_beam;
    MSI_TRY(find_band_beam(k));
    MSI_TRY(put_sum(k, MSI_FITS_PSF, beam));
    if (!o->no_dirty) MSI_TRY(put_sum(k, MSI_FITS_DIRTY, beam));
    if (o->save_first_residual) MSI_TRY(put_sum(k, MSI_FITS_FIRST_RESIDUAL, beam));
    for (int p = 0; p < k->sum[MSI_FITS_MODEL].n_plane; p++) {
        double unused;
        look_at_plane(&k->sum[MSI_FITS_RESIDUAL], p, &k->clean[p].peak_jy, &unused);
        look_at_plane(&k->sum[MSI_FITS_MODEL], p, &unused, &k->clean[p].flux_jy);
    }
    MSI_TRY(restore_sum(k, beam));
    MSI_TRY(put_sum(k, MSI_FITS_RESIDUAL, beam));
    MSI_TRY(put_sum(k, MSI_FITS_MODEL, beam));
    return put_sum(k, MSI_FITS_IMAGE, beam);
}

static int make_cleaning(cleaning **out, msi_imaging_run *r, int n_channel)
{
    cleaning *k;
    MSI_TRY(msi_alloc(&k, 1, sizeof *k, "cleaning"));
    *out = k;
    k->run = r;
    MSI_TRY(msi_alloc(&k->freq_hz, n_channel, sizeof *k->freq_hz, "channels"));
    MSI_TRY(msi_alloc(&k->beam, n_channel, sizeof *k->beam, "channels"));
    MSI_TRY(msi_alloc(&k->vis_weight, n_channel, sizeof *k->vis_weight, "channels"));
    MSI_TRY(msi_alloc(&k->peak_jy, n_channel, sizeof *k->peak_jy, "channels"));
    return msi_alloc(&k->flux_jy, n_channel, sizeof *k->flux_jy, "channels");
}

static void free_cleaning(cleaning *k)
{
    if (!k) return;
    for (int i = 0; i < N_KIND; i++) msi_image_free(&k->sum[i]);
    msi_free(k->freq_hz);
    msi_free(k->beam);
    msi_free(k->vis_weight);
    msi_free(k->peak_jy);
    msi_free(k->flux_jy);
    msi_free(k);
}

int msi_imaging_clean_run(msi_imaging_run *r)
{
    const int64_t n = r->options->channels_out;
    const int each = r->options->clean.join_channels ? (int)n : 1;
    cleaning *k = NULL;
    int rc = make_cleaning(&k, r, each);
    for (int64_t first = 0; !rc && first < n; first += each) {
        rc = make_field(k, first, each);
        if (!rc) rc = clean_field(k);
        end_field(k, rc ? 0 : each);
    }
    if (!rc && has_mfs(k)) rc = put_sums(k);
    free_cleaning(k);
    return rc;
}

/* ---- The run's end ---- */

int msi_imaging_clean_record(msi_imaging_run *r)
{
    msi_publish *publish;
    int i = msi_outputs_text(r->outputs, MSI_OUTPUT_HISTORY, &publish);
    if (i >= 0) MSI_TRY(msi_clean_history_write(publish, i, &r->history));
    i = msi_outputs_text(r->outputs, MSI_OUTPUT_CURVES, &publish);
    return i >= 0 ? msi_clean_history_draw(publish, i, &r->history, r->observation.object) : MSI_OK;
}

/* Call a function for the path of every checkpoint that a run may have. */
static int for_checkpoints(const msi_options *o, int (*call)(const char *path))
{
    const int64_t each = o->clean.join_channels ? o->channels_out : 1;
    for (int64_t t = 0; t < o->intervals_out; t++)
        for (int64_t first = 0; first < o->channels_out; first += each) {
            const checkpoint_path path = name_checkpoint(o, t, first);
            if (access(path.text, F_OK) == 0) MSI_TRY(call(path.text));
        }
    return MSI_OK;
}

int msi_imaging_clean_forget(const msi_options *options)
{
    return for_checkpoints(options, msi_checkpoint_remove);
}

int msi_imaging_clean_check(const msi_options *options)
{
    return options->clean.resume ? MSI_OK : for_checkpoints(options, msi_checkpoint_check_place);
}
