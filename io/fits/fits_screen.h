/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Screens: FITS cubes with axes direction, matrix element, antenna, frequency and time, the format of WSClean's a-term
 * files. */
#ifndef MSI_FITS_SCREEN_H
#define MSI_FITS_SCREEN_H

#include "core/types.h"

typedef struct msi_fits_screen {
    int64_t nx, ny, n_matrix, n_antenna, n_freq, n_time;
    double centre[2];             /* x, y of the reference pixel, counted from 0 */
    double ra_rad, dec_rad;       /* direction of the reference pixel: the centre of the SIN projection */
    double step_rad[2];           /* pixel size along RA and DEC, with sign */
    double freq_hz, freq_step_hz; /* frequency of the first plane, and the step */
    double time_s, time_step_s;   /* time of the first plane, and the step; MJD seconds */
    float *pixel;                 /* [n_time][n_freq][n_antenna][n_matrix][ny][nx], finite; units as in the file */
} msi_fits_screen;

/*
 * msi_fits_screen_read - read a screen: axes RA---SIN and DEC--SIN, then any of MATRIX, ANTENNA, FREQ and TIME, in any
 * order. An axis that the file does not have has one plane.
 * Returned: *screen  emptied by msi_fits_screen_free; empty on failure
 * Returns:  0, MSI_EINPUT (not a screen; a pixel is not finite), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_fits_screen_read(msi_fits_screen *screen, const char *path);

/* msi_fits_screen_planes - read the lengths of the axes MATRIX and ANTENNA, without pixels. After a failure they are those
 * that were read before, or 0. Returns: as above */
int msi_fits_screen_planes(const char *path, int64_t *n_matrix, int64_t *n_antenna);
void msi_fits_screen_free(msi_fits_screen *screen);

#endif
