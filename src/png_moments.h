/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Moments of a cube for msimage-png: images that summarise its planes. */
#ifndef MSI_PNG_MOMENTS_H
#define MSI_PNG_MOMENTS_H

#include "io/fits/fits_image.h"

enum { MSI_N_MOMENT = 4 };

/* The ends of the names of the images of a cube's moments: moment0, moment1, moment2, peak. */
extern const char *const msi_moment_names[MSI_N_MOMENT];

/*
 * msi_moments_make - make the moments of the first polarisation of a cube along FREQ.
 *
 *   moment0  the sum of all planes times their distance, in Jy/beam km/s; MHz in place of km/s without a rest frequency
 *   moment1  the mean velocity, weighted by the values above the level
 *   moment2  the standard deviation of the velocity, with the same weights
 *   peak     the largest value
 *
 * Given:    path; above  the level of moments 1 and 2; NaN: three times the noise, by the median of each plane's moduli
 * Returned: view [MSI_N_MOMENT]  freed by msi_fits_view_free; empty on failure
 * Returns:  as msi_fits_view_read; MSI_EINPUT if there are fewer than two planes along FREQ
 * Notes:    velocities are of the radio definition; the planes are read one by one.
 */
int msi_moments_make(msi_fits_view view[MSI_N_MOMENT], const char *path, double above);

#endif
