/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Coefficients of Hamaker's model of a LOFAR dipole, in an HDF5 file such as HamakerHBACoeff.h5 of EveryBeam. */
#ifndef MSI_IO_HAMAKER_H
#define MSI_IO_HAMAKER_H

#include "core/types.h"

enum { MSI_HAMAKER_MOST = 1024 }; /* coefficients */

/* The response is a sum over harmonics in azimuth of polynomials in the frequency, (f - centre_hz) / range_hz, and the
 * angle from the zenith. */
typedef struct msi_hamaker {
    double centre_hz, range_hz;
    int32_t n_harmonic, n_angle, n_freq;
    msi_c64 coefficient[MSI_HAMAKER_MOST]; /* [n_harmonic][n_angle][n_freq][2] of powers; the last index: theta, phi */
} msi_hamaker;

/*
 * msi_hamaker_read - read a file. It forks.
 * Returns: 0, MSI_EINPUT (no such file, damaged, or another format), MSI_EUSAGE (a build without HDF5), MSI_ENOMEM,
 *          MSI_EINTERRUPTED
 */
int msi_hamaker_read(msi_hamaker *out, const char *path);

#endif
