/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The oracle: the direct Fourier sum that every gridder must agree with. */
#ifndef MSI_TESTS_DIRECT_SUM_H
#define MSI_TESTS_DIRECT_SUM_H

#include "core/image.h"
#include "core/vis_block.h"

/*
 * msi_direct_sum - dirty image values at chosen pixels, normalised by the sum of weights of the samples used.
 *
 * Given:    blocks [n_block], plane of them (-1: the PSF of plane 0), pixel x[i], y[i] (0-based), n_pixel
 * Returned: value [n_pixel]
 * Notes:    phases in long double, reduced modulo one turn. Samples with |u| or |v| > 1/(2 cell) are left out, as a
 *           gridder drops them.
 */
void msi_direct_sum(const msi_vis_block *blocks, int n_block, int plane, const msi_image_geometry *geometry,
                    const int64_t *x, const int64_t *y, int64_t n_pixel, double *value);

/*
 * msi_direct_visibility - the visibilities of some pixels: sum over them of flux exp(+2 pi i (u l + v m + w (n - 1))).
 *
 * Given:    block (its coordinates), pixels x[i], y[i] (0-based) of flux_jy[i], n_pixel
 * Returned: vis [n_row][n_chan] Jy
 * Notes:    phases in long double, reduced modulo one turn. A pixel at or beyond the horizon gives nothing.
 */
void msi_direct_visibility(const msi_vis_block *block, const msi_image_geometry *geometry, const int64_t *x,
                           const int64_t *y, const double *flux_jy, int64_t n_pixel, msi_c64 *vis);

#endif
