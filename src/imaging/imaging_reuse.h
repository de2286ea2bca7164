/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Images of earlier runs that this one begins with: models, dirty images, PSFs, local noise. */
#ifndef MSI_SRC_IMAGING_REUSE_H
#define MSI_SRC_IMAGING_REUSE_H

#include "src/imaging/imaging_run.h"

/*
 * msi_imaging_reuse_check - look at the headers of all images that the run will read, of all its intervals: -continue,
 * -reuse-dirty, -reuse-psf, -local-rms-image. Centre and channels of the images are known.
 * Returns: 0, MSI_EINPUT (missing, or of another size, pixels, centre, frame, frequency or polarisation; the message
 *          has both values), MSI_ENOMEM
 */
int msi_imaging_reuse_check(const msi_imaging_run *run);

/*
 * msi_imaging_reuse_read - read PREFIX[-tNNNN][-NNNN][-POL]-KIND.fits.
 * Given:    prefix  of -continue (the run's -name), -reuse-dirty, -reuse-psf
 *           id      of the image that it is taken for
 * Returned: pixel   [ny][nx] of that precision; of a model, 0 where the file has NaN
 * Returns:  as msi_imaging_reuse_check; MSI_EINPUT where a pixel is not finite, too, or a PSF is not 1 at its centre
 */
int msi_imaging_reuse_read(const msi_imaging_run *run, const char *prefix, const msi_output_id *id,
                           msi_precision precision, void *pixel);

/*
 * msi_imaging_reuse_rms - read the image of local noise.
 * Returned: pixel  [ny][nx] of that precision, Jy/beam, larger than 0
 * Returns:  as above
 */
int msi_imaging_reuse_rms(const msi_imaging_run *run, msi_precision precision, void *pixel);

#endif
