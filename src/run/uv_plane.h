/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The uv plane of an image, and of its weights: -save-uv, -save-weights. */
#ifndef MSI_SRC_UV_PLANE_H
#define MSI_SRC_UV_PLANE_H

#include "core/image.h"
#include "kernels/gridder.h"

/*
 * msi_uv_plane - compute V(u, v) = sum I(l, m) exp(+2 pi i (u l + v m)) over the image's pixels, with NaN as 0.
 *
 * Given:    pixel [ny][nx] of the given precision
 * Returned: *re, *im [ny][nx] float64, freed by msi_free. Pixel (nx/2, ny/2) is u = v = 0; u grows with x, v with y
 * Returns:  0, MSI_ENOMEM
 */
int msi_uv_plane(const msi_image_geometry *geometry, const void *pixel, msi_precision precision, double **re,
                 double **im);

/*
 * msi_uv_weights - sum the weights of gridders on the uv grid of a density rule: each sample in its cell and in the
 * mirrored cell.
 *
 * Given:    gridder [n_gridder]  after weighting
 * Returned: *weight [nv][nu] float64 on the grid of msi_density_grid_of, freed by msi_free. Cell (nu/2, nv/2) begins at
 *           u = v = 0; u grows with x, v with y
 * Returns:  0, MSI_ENOMEM
 */
int msi_uv_weights(const msi_image_geometry *geometry, const msi_weighting *rule, msi_gridder *const *gridder,
                   int64_t n_gridder, double **weight);

#endif
