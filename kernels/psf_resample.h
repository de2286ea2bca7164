/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The values of a PSF between its pixels. */
#ifndef MSI_PSF_RESAMPLE_H
#define MSI_PSF_RESAMPLE_H

#include "core/image.h"

/* The part of a PSF to evaluate: offsets from the centre of up to half_x and half_y pixels, in steps of 1 / factor. */
typedef struct msi_psf_part {
    int64_t half_x, half_y;
    int factor;
} msi_psf_part;

/*
 * msi_psf_resample - evaluate the middle of a PSF on finer pixels.
 *
 * A PSF is a sum of cosines whose frequencies lie below half a turn a pixel, because samples outside the uv plane of
 * the image are dropped. So its pixels define it everywhere: it is their convolution with sin(pi x) / (pi x). Here the
 * sinc is multiplied by a Kaiser window that ends at the edge of the image at the latest, so that pixels outside the
 * image are not needed.
 *
 * Given:    geometry, psf [ny][nx]  centre at pixel (nx/2, ny/2); a NaN takes the value of the opposite pixel, or 0
 *           part                    within the image
 * Returned: *fine [2 half_y factor + 1][2 half_x factor + 1]  to be freed with msi_free; NULL if the image is too
 *           small: the window would have fewer than 4 pixels on each side
 * Returns:  0 or MSI_ENOMEM
 * Notes:    The error is below 1e-5 of the sum of the cosines' moduli for frequencies of up to 0.28 turns a pixel with
 *           8 pixels of window; and below 1e-9 for 0.45 turns with 64 pixels, the most that are used.
 */
int msi_psf_resample(double **fine, const msi_image_geometry *geometry, const void *psf, msi_precision precision,
                     const msi_psf_part *part);

#endif
