/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The deconvolution of a run: from weighted samples to cleaned images. Only imaging*.c include this header. */
#ifndef MSI_IMAGING_CLEAN_H
#define MSI_IMAGING_CLEAN_H

#include "src/clean/clean_field.h"
#include "src/clean/clean_samples.h"
#include "src/imaging/imaging_run.h"

/*
 * msi_imaging_clean_record - write the record of convergence as a table, and with -png as a picture.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_imaging_clean_record(msi_imaging_run *run);

/*
 * msi_imaging_clean_run - clean the images of the interval and write their files; every rank calls it.
 * Given:   n_at_once  fields that are cleaned at the same time: 1, or several channels that are cleaned apart
 * Returns: 0, or any code of gridder, cleaner and writer, of this or another rank
 * Notes:   the gridder of a channel is freed after the channel is cleaned.
 */
int msi_imaging_clean_run(msi_imaging_run *run, int n_at_once);

/* msi_imaging_mosaic_terms - prepare the Taylor terms of a mosaic; every rank calls it. Does nothing without both.
 * Returns: as msi_clean_samples_taylor, msi_mosaic_channel_terms (imaging_mosaic.c) */
int msi_imaging_mosaic_terms(msi_imaging_run *run, const msi_clean_samples *samples);

/* ---- Shared by imaging_clean.c and imaging_clean_files.c ---- */

enum { MSI_CLEANING_KINDS = MSI_FITS_IMAGE + 1 };

/* Data shared by the fields of an interval. Fields that are cleaned at the same time change it in the order of
 * channels. */
typedef struct msi_cleaning_band {
    /* If there are several output channels: means of their images, and results of cleaning all of them. */
    msi_image sum[MSI_CLEANING_KINDS]; /* empty before the first image is added */
    msi_imaging_weight weight[MSI_GRIDDER_MAX_PLANES];
    msi_fits_clean clean[MSI_MAX_PLANES];
    int has_beam;
    msi_beam beam; /* beam of the mean PSF */
} msi_cleaning_band;

/* The cleaning of an interval, or of every n-th field of it. The present field has the output channels [first, first + field.spec.n_channel). */
typedef struct msi_cleaning {
    msi_imaging_run *run;
    msi_clean_samples *samples;
    msi_cleaning_band *band;
    msi_clean_field field;
    int64_t first;
    double principal_peak_jy; /* with Taylor terms: the largest value of the principal solution of Stokes I, term 0 */
    msi_clean_sight sight;    /* response of fitted spectra, if the field's refers to it */
    float *forced;            /* [terms - 1] images of -force-spectrum; NULL: none */
    msi_clean_taylor taylor;  /* nodes of Taylor terms; the channels of the field are then the terms of channel first */
    double *freq_hz;          /* [field.spec.n_channel] */
    msi_beam *beam;           /* [field.spec.n_channel] */
    double sidelobe;          /* largest sidelobe of the first PSF */
    msi_imaging_weight (*weight)[MSI_GRIDDER_MAX_PLANES]; /* [field.spec.n_channel] */
    int has_first_residual;
    double dirty_peak_jy; /* peak of all dirty images written; 0: none */
    /* [field.spec.n_channel] peak of the residual and flux of the model */
    double (*peak_jy)[MSI_MAX_PLANES], (*flux_jy)[MSI_MAX_PLANES];

    msi_fits_clean clean[MSI_MAX_PLANES]; /* results of the field */
    msi_planes_shape shape;
    msi_clean_history history; /* history of the field */
    double checkpoint_at_s;    /* when the last checkpoint was written */
    int n_thread;              /* threads of the CPU */
} msi_cleaning;

/* msi_cleaning_has_mfs - return 1 if there are also images of all channels together. */
static inline int msi_cleaning_has_mfs(const msi_cleaning *k)
{
    return k->run->options->channels_out > 1;
}

/* msi_cleaning_channel, msi_cleaning_term - return the output channel and the Taylor term of a channel of the field. */
static inline int64_t msi_cleaning_channel(const msi_cleaning *k, int channel)
{
    return k->first + (k->samples->n_term ? 0 : channel);
}
static inline int msi_cleaning_term(const msi_cleaning *k, int channel)
{
    return k->samples->n_term ? channel : 0;
}

/*
 * msi_cleaning_for_channels - call functions for every channel of the field, as msi_ordered_parallel_run: for as many
 * channels at a time as there is memory for, at most this number, or one after the other.
 */
int msi_cleaning_for_channels(const msi_cleaning *k, int most, int (*work)(void *of, int64_t channel),
                              int (*finish)(void *of, int64_t channel), void *of);

/* msi_cleaning_put - write one kind of image of every channel of the field. Returns: 0, or any code of the writer */
int msi_cleaning_put(msi_cleaning *k, msi_fits_kind kind, const msi_planes *planes);

/* msi_cleaning_put_first_residual - with -save-first-residual store the first residual and write it. Returns: as
 * above */
int msi_cleaning_put_first_residual(msi_cleaning *k);

/*
 * msi_cleaning_put_cleaned - write residuals, models, masks, sources and restored images. The restored images replace
 * the residuals in field.residual.
 * Returns: 0, or any code of the writer
 */
int msi_cleaning_put_cleaned(msi_cleaning *k);

/* msi_cleaning_cards - return the results of cleaning a group for headers, without the peak and flux of each image. */
msi_fits_clean msi_cleaning_cards(const msi_cleaning *k, const msi_clean_group *group);

/* msi_cleaning_add_to_sum - add the images of a channel to the mean of their kind, if there are several output
 * channels.
 * Returns: 0, MSI_ENOMEM */
int msi_cleaning_add_to_sum(msi_cleaning *k, msi_fits_kind kind, const msi_image *image);

/* msi_cleaning_put_sums - write the means of all kinds, and the image restored from them. Returns: 0, or any code of
 * the writer */
int msi_cleaning_put_sums(msi_cleaning *k);

#endif
