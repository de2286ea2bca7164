/* SPDX-License-Identifier: GPL-3.0-or-later */
/* CASA images. They are casacore tables, so a separate process reads them. */
#ifndef MSI_IO_CASA_IMAGE_H
#define MSI_IO_CASA_IMAGE_H

#include <stdint.h>

enum { MSI_CASA_PARAMETERS = 20 };

typedef struct msi_casa_image {
    char system[32];     /* J2000, ICRS, B1950, GALACTIC .. */
    char projection[16]; /* SIN, TAN .. */
    double crval_deg[2], cdelt_deg[2];
    double crpix[2]; /* counted from 0 */
    double pc[2][2];
    double lonpole_deg, latpole_deg; /* NaN if the image does not have them */
    int n_parameter;                 /* number of parameters of the projection */
    double parameter[MSI_CASA_PARAMETERS];
    int64_t nx, ny, n_plane; /* number of planes along all axes after the first two */
    float *pixel;            /* [n_plane][ny][nx] owned */
} msi_casa_image;

/*
 * msi_casa_image_read - read an image with its coordinates. Call it before any thread starts.
 * Returned: *image  freed by msi_casa_image_free; empty on failure
 * Returns:  0, MSI_EINPUT (not a CASA image, damaged, or without sky coordinates), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_casa_image_read(msi_casa_image *image, const char *path);

/* msi_casa_image_free - free the pixels and leave the struct empty. */
void msi_casa_image_free(msi_casa_image *image);

#endif
