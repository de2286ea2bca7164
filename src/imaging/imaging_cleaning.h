/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The cleaning of an interval, as its stages see it: only imaging_clean*.c include this. */
#ifndef MSI_SRC_IMAGING_CLEANING_H
#define MSI_SRC_IMAGING_CLEANING_H

#include "src/clean/clean_field.h"
#include "src/imaging/imaging_files.h"
#include "src/imaging/imaging_run.h"

enum { MSI_CLEANING_KINDS = MSI_FITS_IMAGE + 1 };

/* The field at hand has the output channels [first, first + field.spec.n_channel). */
typedef struct msi_cleaning {
    msi_imaging_run *run;
    msi_clean_samples *samples;
    msi_clean_field field;
    int64_t first;
    double *freq_hz; /* [field.spec.n_channel], as the following */
    msi_beam *beam;
    double sidelobe; /* of the first PSF */
    msi_imaging_weight (*weight)[MSI_GRIDDER_MAX_PLANES];
    int has_first_residual;
    double dirty_peak_jy; /* of all dirty images that were written; 0: none */
    /* Each channel's images have these: the residual's peak, the model's flux. */
    double (*peak_jy)[MSI_MAX_PLANES], (*flux_jy)[MSI_MAX_PLANES];

    /* All channels, where there are several, have these: means of their images, and what cleaning came to. */
    msi_image sum[MSI_CLEANING_KINDS]; /* empty where nothing has been added */
    msi_imaging_weight band_weight[MSI_GRIDDER_MAX_PLANES];
    msi_fits_clean clean[MSI_MAX_PLANES];
    msi_planes_shape shape;
    int has_band_beam;
    msi_beam band_beam; /* of the mean PSF */
} msi_cleaning;

/* msi_cleaning_has_mfs - tell whether there are images of all channels together beside those of each. */
static inline int msi_cleaning_has_mfs(const msi_cleaning *k)
{
    return k->run->options->channels_out > 1;
}

/* ---- What a field's cycles begin with: imaging_clean_start.c ---- */

/*
 * msi_cleaning_make_psfs - make the PSF of each channel, or take an earlier run's; find the beams, write the PSFs, make
 * the field's cleaners of them and give them their masks.
 * Returns: 0, or any code of gridder, cleaner and writer
 */
int msi_cleaning_make_psfs(msi_cleaning *k);

/* msi_cleaning_make_dirty - make the dirty images, or take an earlier run's, and write them. Returns: as above */
int msi_cleaning_make_dirty(msi_cleaning *k);

/*
 * msi_cleaning_begin_models - make residuals of the models that cleaning begins with, if there are any.
 * Returned: *resumed  they are a checkpoint's
 * Returns:  0, or any code of gridder, cleaner and writer; MSI_EINPUT (files of an earlier run)
 */
int msi_cleaning_begin_models(msi_cleaning *k, int *resumed);

/* msi_cleaning_beam_pixel - give a beam in pixels for scales and windows: the wavelength over the longest baseline of
 * the samples, or a taper's where that is larger; where it is unknown, the beam's of the first channel that has one. */
double msi_cleaning_beam_pixel(const msi_cleaning *k);

/* ---- Its files: imaging_clean_files.c ---- */

/* msi_cleaning_put - write one kind of image of every channel of the field. Returns: 0, or any code of the writer */
int msi_cleaning_put(msi_cleaning *k, msi_fits_kind kind, const msi_planes *planes);

/* msi_cleaning_put_first_residual - keep the first residual and write it, where it is asked for. Returns: as above */
int msi_cleaning_put_first_residual(msi_cleaning *k);

/*
 * msi_cleaning_put_cleaned - write residuals, models, masks, sources and restored images, which take the place of the
 * residuals in field.residual.
 * Returns: 0, or any code of the writer
 */
int msi_cleaning_put_cleaned(msi_cleaning *k);

/*
 * msi_cleaning_restore - restore an image with a beam; without one it is unknown, NaN.
 * Given:              first     the image's number in both planes
 * Given and returned: residual  becomes the image
 * Returns:            0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 */
int msi_cleaning_restore(const msi_cleaning *k, const msi_beam *beam, int first, msi_planes *residual,
                         const msi_planes *model);

/* msi_cleaning_cards - tell headers what cleaning a group came to; peak and flux are the images' and come later. */
msi_fits_clean msi_cleaning_cards(const msi_cleaning *k, const msi_clean_group *group);

/* msi_cleaning_measure_plane - find the pixel farthest from zero, with its sign, and the sum of all finite ones. */
void msi_cleaning_measure_plane(const msi_image *image, int plane, double *peak, double *sum);

/* ---- All channels together: imaging_clean_sum.c ---- */

/* msi_cleaning_add_to_sum - add a channel's images to the means of their kind, where there are any. Returns: 0,
 * MSI_ENOMEM */
int msi_cleaning_add_to_sum(msi_cleaning *k, msi_fits_kind kind, const msi_image *image);

/* msi_cleaning_find_band_beam - find the beam of the mean PSF, once all of them have been added. Returns: 0,
 * MSI_ENOMEM */
int msi_cleaning_find_band_beam(msi_cleaning *k);

/* msi_cleaning_put_sums - write the means of all kinds, and the image restored of them. Returns: 0, or any code of the
 * writer */
int msi_cleaning_put_sums(msi_cleaning *k);

#endif
