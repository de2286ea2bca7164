/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Screens: FITS cubes of values by direction, matrix element, antenna, frequency and time, as WSClean's a-terms have. */
#ifndef MSI_FITS_SCREEN_H
#define MSI_FITS_SCREEN_H

#include "core/types.h"

typedef struct msi_fits_screen {
    int64_t nx, ny, n_matrix, n_antenna, n_freq, n_time;
    double centre[2];             /* 0-based pixel of the position below */
    double ra_rad, dec_rad;       /* its position: the centre of the SIN projection */
    double step_rad[2];           /* of a pixel, along RA and DEC */
    double freq_hz, freq_step_hz; /* of the first plane, and from one to the next */
    double time_s, time_step_s;   /* the same, MJD seconds */
    float *pixel;                 /* [n_time][n_freq][n_antenna][n_matrix][ny][nx] finite */
} msi_fits_screen;

/*
 * msi_fits_screen_read - read a screen: axes RA---SIN and DEC--SIN, then any of MATRIX, ANTENNA, FREQ and TIME, in any
 * order. An axis that the file does not have has one plane.
 * Returned: *screen  emptied by msi_fits_screen_free; empty on failure
 * Returns:  0, MSI_EINPUT (not such a file; a pixel is not finite), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_fits_screen_read(msi_fits_screen *screen, const char *path);
void msi_fits_screen_free(msi_fits_screen *screen);

#endif
