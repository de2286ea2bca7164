/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Images of all channels together: means of what is written of each, restored with the beam of the mean PSF. */
#include "src/imaging/imaging_cleaning.h"

#include <string.h>

#include "core/status.h"
#include "src/imaging/imaging_files.h"

int msi_cleaning_add_to_sum(msi_cleaning *k, msi_fits_kind kind, const msi_image *image)
{
    msi_image *sum = &k->sum[kind];
    if (!msi_cleaning_has_mfs(k)) return MSI_OK;
    if (!sum->pixel) MSI_TRY(msi_image_alloc(sum, &image->geometry, image->n_plane, image->precision));
    msi_image_add(sum, image);
    return MSI_OK;
}

int msi_cleaning_find_band_beam(msi_cleaning *k)
{
    if (k->has_band_beam) return MSI_OK;
    k->has_band_beam = 1;
    return msi_imaging_files_beam(k->run, &k->band_beam, &k->sum[MSI_FITS_PSF]);
}

static int put_sum(msi_cleaning *k, msi_fits_kind kind, const msi_beam *beam)
{
    msi_image *sum = &k->sum[kind];
    const int has_cards = kind == MSI_FITS_RESIDUAL || kind == MSI_FITS_MODEL || kind == MSI_FITS_IMAGE;
    const msi_imaging_product product = {MSI_OUTPUT_MFS, kind, *beam, k->band_weight, has_cards ? k->clean : NULL};
    for (int p = 0; p < sum->n_plane; p++)
        if (!sum->n_vis[p]) msi_image_fill_nan(sum, p);
    return msi_imaging_files_put(k->run, &product, sum);
}

/* The image of all channels is their residual and their model with the beam of their PSF. */
static int restore_sum(msi_cleaning *k, const msi_beam *beam)
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
    for (int p = 0; !rc && p < n; p++) rc = msi_cleaning_restore(k, beam, p, of_residual, of_model);
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
    const msi_beam *beam = &k->band_beam;
    MSI_TRY(msi_cleaning_find_band_beam(k));
    MSI_TRY(put_sum(k, MSI_FITS_PSF, beam));
    if (!o->no_dirty) MSI_TRY(put_sum(k, MSI_FITS_DIRTY, beam));
    if (o->save_first_residual) MSI_TRY(put_sum(k, MSI_FITS_FIRST_RESIDUAL, beam));
    for (int p = 0; p < k->sum[MSI_FITS_MODEL].n_plane; p++) {
        double unused;
        msi_cleaning_measure_plane(&k->sum[MSI_FITS_RESIDUAL], p, &k->clean[p].peak_jy, &unused);
        msi_cleaning_measure_plane(&k->sum[MSI_FITS_MODEL], p, &unused, &k->clean[p].flux_jy);
    }
    MSI_TRY(restore_sum(k, beam));
    MSI_TRY(put_sum(k, MSI_FITS_RESIDUAL, beam));
    MSI_TRY(put_sum(k, MSI_FITS_MODEL, beam));
    return put_sum(k, MSI_FITS_IMAGE, beam);
}
