/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Quick-look pictures are drawn of the images that a run writes. */
#ifndef MSI_IO_PICTURE_H
#define MSI_IO_PICTURE_H

#include "io/fits/fits_image.h"

/* A user may ask this of pictures; zero: nothing. */
typedef struct msi_picture_style {
    int has_range; /* the colours run evenly from low to high, in the unit of the pixels; those of Stokes Q, U, V from
                      -m to m, where m is the larger by size */
    double low, high;
} msi_picture_style;

/*
 * msi_picture_write - write output i of a plan as a PNG, up to and including msi_publish_seal: the image with axes,
 * colour bar, beam and title. Large images are averaged over blocks to at most 1200 pixels a side.
 *
 * Given:    spec, pixel, precision  as for msi_fits_write; a kind on the sky, or weights; style
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM, MSI_ERANGE (a transform to the uv plane; impossible coordinates)
 * Notes:    brightness goes through asinh, linear within a few times the noise; Stokes Q, U and V are blue and red
 * about a white zero; pixels without value are grey. Fields of less than 2 arcsec have offsets from the centre as axes.
 * Of a PSF with a beam the inner 16 beams are shown with the ellipse at half of its height; of weights the cells that
 * have some.
 */
int msi_picture_write(msi_publish *p, int i, const msi_fits_spec *spec, const msi_picture_style *style,
                      const void *pixel, msi_precision precision);

#endif
