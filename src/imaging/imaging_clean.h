/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Deconvolution in an imaging run: makes cleaned images from weighted samples. Only imaging*.c include this header. */
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
 * Given:   n_at_once  number of fields that are cleaned at the same time; above 1, each is one channel
 * Returns: 0, or any code of gridder, cleaner and writer, from this rank or another
 * Notes:   the gridder of a channel is freed after the channel is cleaned.
 */
int msi_imaging_clean_run(msi_imaging_run *run, int n_at_once);

/* msi_imaging_mosaic_terms - prepare the Taylor terms of a mosaic; every rank calls it. Without a mosaic or without
 * Taylor terms it does nothing.
 * Returns: as msi_clean_samples_taylor, msi_mosaic_channel_terms (imaging_mosaic.c) */
int msi_imaging_mosaic_terms(msi_imaging_run *run, const msi_clean_samples *samples);

/* ---- Shared by imaging_clean.c and imaging_clean_files.c ---- */

enum { MSI_CLEANING_KINDS = MSI_FITS_IMAGE + 1 };

/* Data shared by all fields of an interval. Fields that are cleaned at the same time change it in the order of
 * channels. */
typedef struct msi_cleaning_band {
    /* With several output channels: the means of their images, and the combined results of cleaning. */
    msi_image sum[MSI_CLEANING_KINDS]; /* empty before the first image is added */
    msi_imaging_weight weight[MSI_GRIDDER_MAX_PLANES];
    msi_fits_clean clean[MSI_MAX_PLANES];
    uint16_t *previous; /* [groups][pixels] with -previous-mask: the components of the last channel; NULL: none yet */
    int has_beam;
    msi_beam beam; /* beam of the mean PSF */
} msi_cleaning_band;

/* The state of cleaning an interval, or every n-th field of it. The current field has output channels
 * [first, first + field.spec.n_channel). */
typedef struct msi_cleaning {
    msi_imaging_run *run;
    msi_clean_samples *samples;
    msi_cleaning_band *band;
    msi_clean_field field;
    int64_t first;
    double principal_peak_jy; /* with Taylor terms: largest value of the principal solution for term 0 of Stokes I */
    msi_clean_sight sight;    /* response for fitted spectra; field.spec.sight may point to it */
    float *forced;            /* [terms - 1] images of -force-spectrum; NULL: none */
    /* nodes of Taylor terms; with these, the field's channels are the terms of output channel `first` */
    msi_clean_taylor taylor;
    double *freq_hz;                                      /* [field.spec.n_channel] */
    msi_beam *beam;                                       /* [field.spec.n_channel] */
    double sidelobe;                                      /* largest sidelobe of the first PSF */
    msi_imaging_weight (*weight)[MSI_GRIDDER_MAX_PLANES]; /* [field.spec.n_channel] */
    int has_first_residual;
    double dirty_peak_jy; /* largest absolute value of all dirty images written; 0: none was written */
    /* [field.spec.n_channel] peak of the residual and flux of the model */
    double (*peak_jy)[MSI_MAX_PLANES], (*flux_jy)[MSI_MAX_PLANES];

    msi_fits_clean clean[MSI_MAX_PLANES]; /* results of cleaning the field */
    msi_planes_shape shape;
    msi_clean_history history; /* history of the field */
    double checkpoint_at_s;    /* time at which the last checkpoint was written */
    int n_thread;              /* CPU threads */
} msi_cleaning;

/* msi_cleaning_has_mfs - return 1 if images of all channels combined are made. */
static inline int msi_cleaning_has_mfs(const msi_cleaning *k)
{
    return k->run->options->channels_out > 1;
}

/* msi_cleaning_channel, msi_cleaning_term - return the output channel and the Taylor term of the field's i-th
 * channel. */
static inline int64_t msi_cleaning_channel(const msi_cleaning *k, int channel)
{
    return k->first + (k->samples->n_term ? 0 : channel);
}
static inline int msi_cleaning_term(const msi_cleaning *k, int channel)
{
    return k->samples->n_term ? channel : 0;
}

/*
 * msi_cleaning_for_channels - call functions for every channel of the field, as msi_ordered_parallel_run does: for up
 * to `most` channels at a time if the memory suffices, otherwise for one after the other.
 */
int msi_cleaning_for_channels(const msi_cleaning *k, int most, int (*work)(void *of, int64_t channel),
                              int (*finish)(void *of, int64_t channel), void *of);

/* msi_cleaning_put - write the images of one kind for every channel of the field. Returns: 0, or any code of the
 * writer */
int msi_cleaning_put(msi_cleaning *k, msi_fits_kind kind, const msi_planes *planes);

/* msi_cleaning_put_first_residual - note that the first residual is made. With -save-first-residual keep and write it.
 * Returns: as above */
int msi_cleaning_put_first_residual(msi_cleaning *k);

/*
 * msi_cleaning_put_cleaned - write residuals, models, masks, sources and restored images. The restored images replace
 * the residuals in field.residual.
 * Returns: 0, or any code of the writer
 */
int msi_cleaning_put_cleaned(msi_cleaning *k);

/* msi_cleaning_cards - return a group's results of cleaning for headers, without peak and flux of each image. */
msi_fits_clean msi_cleaning_cards(const msi_cleaning *k, const msi_clean_group *group);

/* msi_cleaning_add_to_sum - add the images of a channel to the mean of their kind, if there are several output
 * channels.
 * Returns: 0, MSI_ENOMEM */
int msi_cleaning_add_to_sum(msi_cleaning *k, msi_fits_kind kind, const msi_image *image);

/* msi_cleaning_put_sums - write the means of all kinds of images, and the image restored from them. Returns: 0, or any
 * code of the writer */
int msi_cleaning_put_sums(msi_cleaning *k);

#endif
