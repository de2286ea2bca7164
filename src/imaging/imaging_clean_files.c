/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files of a field that is cleaned: each kind of image for each of its channels. */
#include "src/imaging/imaging_cleaning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/imaging/imaging_files.h"
#include "src/imaging/imaging_index.h"
#include "src/imaging/imaging_sources.h"

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

void msi_cleaning_measure_plane(const msi_image *image, int plane, double *peak, double *sum)
{
    const void *pixel = msi_image_plane(image, plane);
    const int64_t n = msi_image_n_pixel(&image->geometry);
    *peak = *sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = msi_image_value(pixel, image->precision, i);
        if (!isfinite(v)) continue;
        *sum += v;
        if (fabs(v) > fabs(*peak)) *peak = v;
    }
}

/* Fetch the images of a channel of the field, with their sums of weights. */
static int fetch(const msi_cleaning *k, int channel, const msi_planes *planes, msi_image *image)
{
    const msi_clean_field *f = &k->field;
    const int n = f->spec.n_pol;
    MSI_TRY(msi_image_alloc(image, &k->run->options->geometry, n, k->shape.precision));
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

/* Headers and warnings tell of the images, whose peaks are not those of what is searched: joined, biased, masked. */
static void look_at_image(msi_cleaning *k, int channel, msi_fits_kind kind, const msi_image *image)
{
    for (int p = 0; p < image->n_plane; p++) {
        double peak, sum;
        if (kind != MSI_FITS_DIRTY && kind != MSI_FITS_RESIDUAL && kind != MSI_FITS_MODEL) return;
        msi_cleaning_measure_plane(image, p, &peak, &sum);
        if (kind == MSI_FITS_DIRTY) k->dirty_peak_jy = fmax(k->dirty_peak_jy, fabs(peak));
        if (kind == MSI_FITS_RESIDUAL) k->peak_jy[channel][p] = peak;
        if (kind == MSI_FITS_MODEL) k->flux_jy[channel][p] = sum;
    }
}

/* The models are looked at before the first file is written whose header has their fluxes. */
static int look_at_models(msi_cleaning *k)
{
    for (int c = 0; c < k->field.spec.n_channel; c++) {
        msi_image image = {0};
        MSI_TRY(fetch(k, c, k->field.model, &image));
        look_at_image(k, c, MSI_FITS_MODEL, &image);
        msi_image_free(&image);
    }
    return MSI_OK;
}

int msi_cleaning_put(msi_cleaning *k, msi_fits_kind kind, const msi_planes *planes)
{
    const msi_clean_field *f = &k->field;
    msi_fits_clean clean[MSI_MAX_PLANES];
    const int is_dirty = kind == MSI_FITS_DIRTY;
    for (int p = 0; p < f->spec.n_pol && !is_dirty && kind != MSI_FITS_FIRST_RESIDUAL; p++)
        clean[p] = msi_cleaning_cards(k, msi_clean_field_group(f, p));
    for (int c = 0; c < f->spec.n_channel; c++) {
        msi_image image = {0};
        const msi_imaging_product product = {k->first + c, kind, k->beam[c], k->weight[c],
                                             is_dirty || kind == MSI_FITS_FIRST_RESIDUAL ? NULL : clean};
        MSI_TRY(fetch(k, c, planes, &image));
        if (kind != MSI_FITS_MODEL) look_at_image(k, c, kind, &image);
        for (int p = 0; p < f->spec.n_pol; p++) {
            clean[p].peak_jy = k->peak_jy[c][p];
            clean[p].flux_jy = k->flux_jy[c][p];
        }
        int rc = msi_cleaning_add_to_sum(k, kind, &image);
        if (!rc) rc = msi_imaging_files_put(k->run, &product, &image);
        msi_image_free(&image);
        if (rc) return rc;
    }
    return MSI_OK;
}

int msi_cleaning_put_first_residual(msi_cleaning *k)
{
    k->has_first_residual = 1;
    if (!k->run->options->clean.save_first_residual) return MSI_OK;
    MSI_TRY(msi_clean_field_keep_first(&k->field));
    return msi_cleaning_put(k, MSI_FITS_FIRST_RESIDUAL, k->field.residual);
}

/* Write the masks of a channel: where components could lie at the end, or, of -auto-mask, where they lie. */
static int put_masks(msi_cleaning *k, int channel, uint16_t *room, uint8_t *mask)
{
    const msi_clean_field *f = &k->field;
    const msi_image_geometry *g = &k->run->options->geometry;
    const msi_imaging_product product = {k->first + channel, MSI_FITS_MASK, {0, 0, 0}, k->weight[channel], NULL};
    const int64_t n_pixel = msi_image_n_pixel(g);
    msi_image image;
    MSI_TRY(msi_image_alloc(&image, g, f->spec.n_pol, MSI_FP32));
    int rc = MSI_OK;
    for (int p = 0; !rc && p < f->spec.n_pol; p++) {
        float *pixel = msi_image_plane(&image, p);
        rc = msi_clean_group_mask(msi_clean_field_group(f, p), n_pixel, room, mask);
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
    uint16_t *room;
    if (!msi_outputs_has_mask(k->run->options)) return MSI_OK;
    MSI_TRY(msi_alloc(&room, n_pixel, sizeof *room, "mask"));
    int rc = msi_alloc(&mask, n_pixel, 1, "mask");
    for (int c = 0; !rc && c < k->field.spec.n_channel; c++) rc = put_masks(k, c, room, mask);
    msi_free(room);
    msi_free(mask);
    return rc;
}

int msi_cleaning_restore(const msi_cleaning *k, const msi_beam *beam, int first, msi_planes *residual,
                         const msi_planes *model)
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

static int put_index(msi_cleaning *k)
{
    if (msi_outputs_index_plane(k->run->options) < 0) return MSI_OK;
    MSI_TRY(msi_cleaning_find_band_beam(k));
    const msi_imaging_product product = {MSI_OUTPUT_MFS, MSI_FITS_INDEX, k->band_beam, k->band_weight, k->clean};
    return msi_imaging_index_put(k->run, &k->field, &product);
}

/* The image takes the place of the residual in memory, and so is the last one. */
int msi_cleaning_put_cleaned(msi_cleaning *k)
{
    msi_clean_field *f = &k->field;
    if (!k->has_first_residual) MSI_TRY(msi_cleaning_put_first_residual(k));
    MSI_TRY(look_at_models(k));
    MSI_TRY(msi_cleaning_put(k, MSI_FITS_RESIDUAL, f->residual));
    MSI_TRY(msi_cleaning_put(k, MSI_FITS_MODEL, f->model));
    MSI_TRY(put_all_masks(k));
    MSI_TRY(msi_imaging_sources_put(k->run, f, k->first));
    for (int c = 0; c < f->spec.n_channel; c++) {
        if (!msi_beam_known(&k->beam[c]) && f->n_vis[c * f->spec.n_pol])
            msi_log_warning("there is no beam, so that no image is restored: its pixels are NaN; -beam-size gives one");
        for (int p = 0; p < f->spec.n_pol; p++)
            MSI_TRY(msi_cleaning_restore(k, &k->beam[c], msi_clean_field_plane(f, c, p), f->residual, f->model));
    }
    MSI_TRY(msi_cleaning_put(k, MSI_FITS_IMAGE, f->residual));
    return put_index(k);
}
