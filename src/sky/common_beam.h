/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One beam for images of different beams: the smallest ellipse around all of them, and the kernels that lead to it. */
#ifndef MSI_COMMON_BEAM_H
#define MSI_COMMON_BEAM_H

#include "core/image.h"

/*
 * msi_common_beam - find the smallest beam, by area, that all beams can be convolved to.
 * Given:    beam [n]  unknown ones are left out
 * Returned: *common   if the largest beam contains all others it is that one; unknown if no beam is known
 * Returns:  0, MSI_ENOMEM
 * Notes:    the area exceeds the smallest one by at most 1e-5. The order of the beams does not matter.
 * Source:   the smallest ellipse around points: Todd and Yildirim 2007, Discrete Applied Mathematics 155, 1731.
 */
int msi_common_beam(msi_beam *common, const msi_beam *beam, int64_t n);

/* msi_largest_beam - return the known beam of the largest area. */
msi_beam msi_largest_beam(const msi_beam *beam, int64_t n);

/*
 * msi_beam_kernel - find the Gaussian that convolves one beam to another.
 * Returned: *kernel  its widths may be 0
 * Returns:  1; 0 if there is none, because `to` does not contain `from` (to 1e-6 of its area)
 */
int msi_beam_kernel(msi_beam *kernel, const msi_beam *from, const msi_beam *to);

/*
 * msi_beam_convolve - convolve an image of one beam to another, by the exact transform of a Gaussian: a kernel of any
 * width is right.
 * Given:              factor  of the values: the ratio of the beams' areas if they are per beam, else 1
 * Given and returned: pixel [ny][nx]  NaN counts as 0, and stays
 * Returns:            0, MSI_ENOMEM
 */
int msi_beam_convolve(float *pixel, const msi_image_geometry *g, const msi_beam *from, const msi_beam *to,
                      double factor);

#endif
