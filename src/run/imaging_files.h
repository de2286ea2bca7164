/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The images of a run into their files, with what their headers say. */
#ifndef MSI_SRC_IMAGING_FILES_H
#define MSI_SRC_IMAGING_FILES_H

#include "src/run/imaging_run.h"

/*
 * msi_imaging_files_write - write the images of an output channel, and what -save-uv and -save-weights ask for.
 *
 * Given:   channel     or MSI_OUTPUT_MFS
 *          image       [n_plane planes, then the PSF where there is one]; taken over, and empty afterwards
 *          vis_weight  [image->n_plane] sum of the weights before density weighting
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED; also what the image before this one failed with
 * Notes:   files are being written when this returns; run->writer tells when they are. The beam fitted to the PSF goes
 * into all headers; a PSF to which none fits is a warning.
 */
int msi_imaging_files_write(msi_imaging_run *run, int64_t channel, msi_image *image, const double *vis_weight);

#endif
