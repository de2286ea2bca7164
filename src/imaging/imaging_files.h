/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The images of a run into their files, with what their headers say. */
#ifndef MSI_SRC_IMAGING_FILES_H
#define MSI_SRC_IMAGING_FILES_H

#include "src/imaging/imaging_run.h"

/* Headers say this of a plane's weights on all ranks, beside their sum. */
typedef struct msi_imaging_weight {
    double largest; /* with density weights */
    double vis_sum; /* sum of the weights before density weighting */
} msi_imaging_weight;

/* msi_imaging_weight_add - take the weights of other samples in, too. */
void msi_imaging_weight_add(msi_imaging_weight *all, const msi_imaging_weight *more);

/* Images of one kind: of all planes of an output channel, or its PSF. */
typedef struct msi_imaging_product {
    int64_t channel; /* or MSI_OUTPUT_MFS */
    msi_fits_kind kind;
    msi_beam beam;
    const msi_imaging_weight *weight; /* [planes] */
    const msi_fits_clean *clean;      /* [planes] what cleaning came to; NULL: nothing is said of it */
} msi_imaging_product;

/* Holds what headers say of the samples of a plane, on all ranks. */
typedef struct msi_imaging_sums {
    double sum_weight; /* with density weights */
    msi_imaging_weight weight;
    int64_t n_vis;
} msi_imaging_sums;

/*
 * msi_imaging_files_put - write images of one kind; with dirty images also what -save-uv asks for.
 * Given:   image  [planes]; taken over, and empty afterwards
 * Returns: as msi_imaging_files_write
 */
int msi_imaging_files_put(msi_imaging_run *run, const msi_imaging_product *product, msi_image *image);

/* msi_imaging_files_put_plane - put the same of an image that has one of the run's planes alone. */
int msi_imaging_files_put_plane(msi_imaging_run *run, const msi_imaging_product *product, int plane, msi_image *image);

/*
 * msi_imaging_files_weights - write the weights of an output channel's samples, or of all, on all ranks; called by
 * each.
 * Given:   channel     or MSI_OUTPUT_MFS
 *          sums        of plane 0
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_imaging_files_weights(msi_imaging_run *run, int64_t channel, const msi_imaging_sums *sums);

/* msi_imaging_files_beam - choose the beam of a PSF and say which; none is a warning. Returns: 0, MSI_ENOMEM */
int msi_imaging_files_beam(const msi_imaging_run *run, msi_beam *beam, const msi_image *psf);

/*
 * msi_imaging_files_write - write the images of an output channel, and what -save-uv and -save-weights ask for.
 *
 * Given:   channel     or MSI_OUTPUT_MFS
 *          image       [n_plane planes, then the PSF where there is one]; taken over, and empty afterwards
 *          weight      [image->n_plane]
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED; also what the image before this one failed with
 * Notes:   files are being written when this returns; run->writer tells when they are. The beam fitted to the PSF goes
 * into all headers; a PSF to which none fits is a warning.
 */
int msi_imaging_files_write(msi_imaging_run *run, int64_t channel, msi_image *image, const msi_imaging_weight *weight);

#endif
