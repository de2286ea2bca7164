/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Deconvolution within a run: from weighted samples to cleaned images. */
#ifndef MSI_IMAGING_CLEAN_H
#define MSI_IMAGING_CLEAN_H

#include "src/clean/clean_field.h"
#include "src/clean/clean_samples.h"
#include "src/imaging/imaging_run.h"

/*
 * msi_imaging_clean_record - write the record of convergence, as a table and with -png as a picture.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_imaging_clean_record(msi_imaging_run *run);

/* Deconvolution by the ranks of a run: the first one cleans, of the samples that all have. */

/*
 * msi_imaging_clean_run - clean the images of the interval, and write all that belongs to them; called by every rank.
 * Returns: 0, or any code of gridder, cleaner and writer, of this or another rank
 * Notes:   gridders are freed as their channels are done.
 */
int msi_imaging_clean_run(msi_imaging_run *run);

/* The cleaning of an interval, as its stages see it: only imaging_clean*.c include this. */

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

/* ---- What a field's cycles begin with: imaging_clean.c ---- */

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

/* msi_cleaning_cards - tell headers what cleaning a group came to; peak and flux are the images' and come later. */
msi_fits_clean msi_cleaning_cards(const msi_cleaning *k, const msi_clean_group *group);

/* ---- All channels together: imaging_clean_files.c ---- */

/* msi_cleaning_add_to_sum - add a channel's images to the means of their kind, where there are any. Returns: 0,
 * MSI_ENOMEM */
int msi_cleaning_add_to_sum(msi_cleaning *k, msi_fits_kind kind, const msi_image *image);

/* msi_cleaning_put_sums - write the means of all kinds, and the image restored of them. Returns: 0, or any code of the
 * writer */
int msi_cleaning_put_sums(msi_cleaning *k);

#endif
