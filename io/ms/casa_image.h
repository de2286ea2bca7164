/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A CASA image is a casacore table: like a set it is read in a process of its own. */
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
    double lonpole_deg, latpole_deg; /* NaN where the image does not say */
    int n_parameter;                 /* of the projection */
    double parameter[MSI_CASA_PARAMETERS];
    int64_t nx, ny, n_plane; /* planes along all axes beyond the first two */
    float *pixel;            /* [n_plane][ny][nx] owned */
} msi_casa_image;

/*
 * msi_casa_image_read - read an image with its coordinates. Before any thread is started.
 * Returned: *image  freed by msi_casa_image_free; empty on failure
 * Returns:  0, MSI_EINPUT (no CASA image, a damaged one, or one that is not of the sky), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_casa_image_read(msi_casa_image *image, const char *path);

/* msi_casa_image_free - leaves the struct empty. */
void msi_casa_image_free(msi_casa_image *image);

#endif
