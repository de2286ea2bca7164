/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The uv plane of an image, for -save-uv. */
#ifndef MSI_SRC_UV_PLANE_H
#define MSI_SRC_UV_PLANE_H

#include "core/image.h"

/*
 * msi_uv_plane - V(u, v) = sum I(l, m) exp(+2 pi i (u l + v m)) over the image's pixels, NaN taken as 0.
 *
 * Given:    pixel [ny][nx] of the given precision
 * Returned: *re, *im [ny][nx] float64, owned, msi_free; pixel (nx/2, ny/2) is u = v = 0, u grows with x, v with y
 * Returns:  0, MSI_ENOMEM
 */
int msi_uv_plane(const msi_image_geometry *geometry, const void *pixel, msi_precision precision, double **re,
                 double **im);

#endif
