/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reference for all gridders: the direct Fourier sum. */
#ifndef MSI_TESTS_DIRECT_SUM_H
#define MSI_TESTS_DIRECT_SUM_H

#include "core/image.h"
#include "core/types.h"

/* Some pixels of an image. */
typedef struct msi_pixels {
    int64_t n;
    const int64_t *x, *y; /* [n] 0-based */
} msi_pixels;

/*
 * msi_direct_sum - compute dirty image values at chosen pixels, normalised by the sum of weights of the samples used.
 *
 * Given:    block, plane of it (-1: the PSF of plane 0), pixels
 * Returned: value [pixels->n]
 * Notes:    phases in long double, reduced modulo one turn. Samples with |u| or |v| > 1/(2 cell) are left out, as in
 *           a gridder.
 */
void msi_direct_sum(const msi_vis_block *block, int plane, const msi_image_geometry *geometry, const msi_pixels *pixels,
                    double *value);

/*
 * msi_direct_visibility - sum the visibilities of some pixels: flux exp(+2 pi i (u l + v m + w (n - 1))) over them.
 *
 * Given:    block (its coordinates), pixels, flux_jy [pixels->n]
 * Returned: vis [n_row][n_chan] Jy
 * Notes:    phases in long double, reduced modulo one turn. Pixels at or beyond the horizon do not count.
 */
void msi_direct_visibility(const msi_vis_block *block, const msi_image_geometry *geometry, const msi_pixels *pixels,
                           const double *flux_jy, msi_c64 *vis);

#endif
