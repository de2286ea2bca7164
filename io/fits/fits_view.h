/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A plane of any FITS image is read to be looked at, whatever its pixels, projection and axes are. */
#ifndef MSI_IO_FITS_VIEW_H
#define MSI_IO_FITS_VIEW_H

#include "core/beam.h"
#include "core/image.h"
#include "io/fits/sky_wcs.h"

typedef struct msi_fits_view {
    int64_t nx, ny;
    int64_t plane, n_plane; /* which of how many, in the order of the file */
    float *pixel;           /* [ny][nx]; NaN where the file has no value */
    msi_sky_wcs *wcs;       /* NULL where the first two axes are none on the sky */
    char ctype[2][72], cunit[2][72];
    double crpix[2], crval[2], cdelt[2]; /* cdelt is not 0 */
    double cell_rad;                     /* of a pixel in y; 0 without a wcs */
    char object[72], telescope[72], type[72], unit[72];
    double freq_hz, bandwidth_hz; /* of the plane; 0 where unknown */
    int has_pol;
    msi_pol pol; /* where has_pol */
    msi_beam beam;
} msi_fits_view;

/*
 * msi_fits_view_read - read one plane of the first image in a file.
 *
 * Given:    path   taken literally
 *           plane  counted from 0 through all axes beyond the first two
 * Returned: *view  freed by msi_fits_view_free; empty on failure
 * Returns:  0, MSI_EINPUT (no FITS image, a compressed or truncated one), MSI_EARGUMENT (no such plane), MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 */
int msi_fits_view_read(msi_fits_view *view, const char *path, int64_t plane);

/* msi_fits_view_free - leave the struct empty. */
void msi_fits_view_free(msi_fits_view *view);

#endif
