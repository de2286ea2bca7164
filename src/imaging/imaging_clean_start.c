/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Make what the cycles of a field begin with: PSFs and beams, dirty images, and the models that are there already. */
#include "src/imaging/imaging_cleaning.h"

#include <math.h>

#include "core/log.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/imaging/imaging_checkpoint.h"
#include "src/imaging/imaging_files.h"
#include "src/imaging/imaging_reuse.h"

/* Planes of a field that are those of an earlier run. */
typedef struct reused_planes {
    const char *prefix;
    msi_fits_kind kind;
    msi_planes *planes;
} reused_planes;

/* Take planes of a kind from the images of an earlier run. Where there is no sample there is no image, and NaN. */
static int read_plane(msi_cleaning *k, const reused_planes *from, int channel, int pol)
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

static int read_planes(msi_cleaning *k, const reused_planes *from)
{
    for (int c = 0; c < k->field.spec.n_channel; c++)
        for (int p = 0; p < k->field.spec.n_pol; p++) MSI_TRY(read_plane(k, from, c, p));
    return MSI_OK;
}

/* Find the largest value of a PSF beside its main lobe: the depth of its lowest pixel, or what exceeds the beam. */
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

/* Find the largest modulus of a PSF near its edges. */
static double edge_level(const msi_image *psf)
{
    static const double MIDDLE = 0.45; /* of the width, on either side */
    const msi_image_geometry *g = &psf->geometry;
    double level = 0;
#pragma omp parallel for schedule(static) reduction(max : level)
    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++) {
            const double u = fabs((double)(x - g->nx / 2)) / (double)g->nx,
                         v = fabs((double)(y - g->ny / 2)) / (double)g->ny;
            if (u > MIDDLE || v > MIDDLE)
                level = fmax(level, fabs(msi_image_value(psf->pixel, psf->precision, y * g->nx + x)));
        }
    return level;
}

/* Make the PSF of a channel, or take an earlier run's, find its beam, and write it. */
static int make_psf(msi_cleaning *k, int channel, msi_planes *all)
{
    msi_imaging_run *r = k->run;
    const char *reused = k->field.n_vis[channel * k->field.spec.n_pol] ? r->options->clean.reuse_psf : NULL;
    msi_image image = {0};
    msi_planes *psf;
    MSI_TRY(msi_planes_view(&psf, all, channel, 1));
    int rc = msi_image_alloc(&image, &r->options->geometry, 1, k->shape.precision);
    const msi_output_id id = {r->interval, k->first + channel, 0, MSI_FITS_PSF};
    if (!rc && reused) rc = msi_imaging_reuse_read(r, reused, &id, image.precision, image.pixel);
    if (!rc)
        rc = reused ? msi_planes_upload(psf, 0, 1, image.pixel)
                    : msi_clean_samples_psf(k->samples, k->first + channel, psf);
    if (!rc && !reused) rc = msi_planes_fetch(psf, 0, 1, image.pixel);
    msi_planes_free(psf);
    if (!rc) {
        image.sum_weight[0] = k->field.sum_weight[channel * k->field.spec.n_pol];
        image.n_vis[0] = k->field.n_vis[channel * k->field.spec.n_pol];
        rc = msi_imaging_files_beam(r, &k->beam[channel], &image);
        if (channel == 0) k->sidelobe = sidelobe_level(&image, &k->beam[0]);
        k->field.edge_level = fmax(k->field.edge_level, edge_level(&image));
    }
    if (!rc) rc = msi_cleaning_add_to_sum(k, MSI_FITS_PSF, &image);
    const msi_imaging_product product = {k->first + channel, MSI_FITS_PSF, k->beam[channel], k->weight[channel], NULL};
    if (!rc) rc = msi_imaging_files_put(r, &product, &image);
    msi_image_free(&image);
    return rc;
}

double msi_cleaning_beam_pixel(const msi_cleaning *k)
{
    const msi_options *o = k->run->options;
    const msi_image_geometry *g = &o->geometry;
    const double cell_rad = sqrt(g->cell_x_rad * g->cell_y_rad), longest = k->samples->longest_lambda;
    if (longest > 1) return fmax(1, fmax(1 / longest, o->weighting.taper_fwhm_rad) / cell_rad);
    for (int c = 0; c < k->field.spec.n_channel; c++)
        if (msi_beam_known(&k->beam[c])) return sqrt(k->beam[c].major_rad * k->beam[c].minor_rad) / cell_rad;
    return 3;
}

int msi_cleaning_make_psfs(msi_cleaning *k)
{
    const int n = k->field.spec.n_channel;
    msi_planes *psf;
    k->field.edge_level = 0;
    MSI_TRY(msi_gridder_planes(k->samples->gridder[k->first], n, &psf));
    int rc = MSI_OK;
    for (int c = 0; !rc && c < n; c++) {
        const msi_progress_share all = msi_progress_enter(c, c + 1, 2 * n);
        rc = make_psf(k, c, psf);
        msi_progress_leave(all);
    }
    if (!rc) rc = msi_clean_field_cleaners(&k->field, psf, msi_cleaning_beam_pixel(k));
    msi_planes_free(psf);
    const uint8_t *mask = msi_clean_mask_of(&k->run->mask, k->run->mask.n_plane > 1 ? k->first : 0);
    for (int i = 0; !rc && mask && i < k->field.n_group; i++)
        if (k->field.group[i].cleaner) rc = msi_cleaner_mask(k->field.group[i].cleaner, mask);
    if (!rc && k->run->options->clean.multithresh && msi_beam_known(&k->beam[0]))
        rc = msi_clean_field_masks(&k->field, &k->beam[0], k->sidelobe);
    return rc;
}

int msi_cleaning_make_dirty(msi_cleaning *k)
{
    const reused_planes reused = {k->run->options->clean.reuse_dirty, MSI_FITS_DIRTY, k->field.residual};
    const msi_progress_share all = msi_progress_enter(1, 2, 2);
    MSI_TRY(reused.prefix ? read_planes(k, &reused) : msi_clean_field_subtract(&k->field, 0));
    if (reused.prefix) MSI_TRY(msi_clean_field_take(&k->field, 0));
    msi_progress_leave(all);
    if (!k->run->options->clean.no_dirty) MSI_TRY(msi_cleaning_put(k, MSI_FITS_DIRTY, k->field.residual));
    for (int i = 0; i < k->field.n_group; i++) {
        msi_clean_group *g = &k->field.group[i];
        g->dirty_peak = k->dirty_peak_jy;
        if (g->cleaner) MSI_TRY(msi_cleaner_noise(g->cleaner, g->residual, &g->dirty_noise));
    }
    return MSI_OK;
}

int msi_cleaning_begin_models(msi_cleaning *k, int *resumed)
{
    MSI_TRY(msi_imaging_checkpoint_load(k->run, &k->field, k->first, resumed));
    if (*resumed) MSI_TRY(msi_cleaning_put_first_residual(k));
    if (!*resumed && !k->run->options->clean.continues) return MSI_OK;
    const reused_planes models = {k->run->options->name, MSI_FITS_MODEL, k->field.model};
    if (!*resumed) MSI_TRY(read_planes(k, &models));
    if (!*resumed) MSI_TRY(msi_clean_field_take(&k->field, 1));
    for (int i = 0; !*resumed && i < k->field.n_group; i++)
        if (k->field.group[i].sources)
            MSI_TRY(msi_clean_sources_model(k->field.group[i].sources, k->field.group[i].model));
    return msi_clean_field_subtract(&k->field, 1);
}
