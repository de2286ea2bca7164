/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Draws quick-look pictures of sky images. */
#ifndef MSI_IO_PICTURE_H
#define MSI_IO_PICTURE_H

#include "io/fits/fits_image.h"

/*
 * msi_picture_write - write output i of a plan as a PNG, up to and including msi_publish_seal: the image with sky axes,
 * colour bar, beam and title. Large images are averaged over blocks to at most 1200 pixels a side.
 *
 * Given:    spec, pixel, precision  as for msi_fits_write; a kind on the sky
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM, MSI_ERANGE (a kind in the uv plane; impossible coordinates)
 * Notes:    brightness goes through asinh, linear within a few times the noise; pixels without value are grey.
 */
int msi_picture_write(msi_publish *p, int i, const msi_fits_spec *spec, const void *pixel, msi_precision precision);

#endif
