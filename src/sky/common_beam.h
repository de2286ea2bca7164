/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A common beam for images with different beams: the smallest ellipse around all of them, and convolution to it. */
#ifndef MSI_COMMON_BEAM_H
#define MSI_COMMON_BEAM_H

#include "core/image.h"

/*
 * msi_common_beam - find the beam with the smallest area to which all beams can be convolved.
 * Given:    beam [n]  unknown beams are left out
 * Returned: *common   the largest beam if it contains all others; unknown if no beam is known
 * Returns:  0, MSI_ENOMEM
 * Notes:    the area exceeds the smallest one by at most 1e-5. The order of the beams does not matter.
 * Source:   the smallest ellipse around points: Todd and Yildirim 2007, Discrete Applied Mathematics 155, 1731.
 */
int msi_common_beam(msi_beam *common, const msi_beam *beam, int64_t n);

/* msi_largest_beam - return the known beam with the largest area. */
msi_beam msi_largest_beam(const msi_beam *beam, int64_t n);

/*
 * msi_beam_kernel - find the Gaussian that convolves one beam to another.
 * Returned: *kernel  its widths may be 0
 * Returns:  1; 0 if no kernel exists, because `to` does not contain `from` (within 1e-6 of its area)
 */
int msi_beam_kernel(msi_beam *kernel, const msi_beam *from, const msi_beam *to);

/*
 * msi_beam_convolve - convolve an image from one beam to another. It uses the analytic transform of the Gaussian, so
 * kernels narrower than a pixel are also exact.
 * Given:              factor  factor of the pixels: the ratio of the beams' areas if the unit is per beam, otherwise 1
 * Given and returned: pixel [ny][nx]  NaN counts as 0, and stays
 * Returns:            0, MSI_ENOMEM
 */
int msi_beam_convolve(float *pixel, const msi_image_geometry *g, const msi_beam *from, const msi_beam *to,
                      double factor);

#endif
