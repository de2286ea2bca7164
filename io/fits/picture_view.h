/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A picture is drawn of any FITS image. */
#ifndef MSI_IO_PICTURE_VIEW_H
#define MSI_IO_PICTURE_VIEW_H

#include "io/fits/fits_view.h"
#include "io/fits/picture.h"

/*
 * msi_picture_write_view - write output i of a plan as a PNG, up to and including msi_publish_seal.
 * Given:   name  of the image, for the picture's second line; style
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 * Notes:   as msi_picture_write, but the whole image; axes that are none on the sky are straight.
 */
int msi_picture_write_view(msi_publish *p, int i, const msi_fits_view *view, const char *name,
                           const msi_picture_style *style);

#endif
