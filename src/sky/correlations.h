/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Conversion of model planes to the correlations of a set: the inverse of stokes.h. */
#ifndef MSI_CORRELATIONS_H
#define MSI_CORRELATIONS_H

#include "core/types.h"
#include "src/sky/stokes.h"

/* A correlation is the sum of factor * V over up to two planes. */
typedef struct msi_unmix {
    int n;             /* 0, 1 or 2 */
    int plane[2];      /* [n] which planes */
    msi_c64 factor[2]; /* [n] */
} msi_unmix;

/* msi_pols_share_flux - return 1 if one is a hand and the other a Stokes parameter that this hand is a sum of: their
 * images are no model together. XX and V are one. */
int msi_pols_share_flux(msi_pol a, msi_pol b);

/*
 * msi_unmix_make - find the planes and factors of correlations.
 *
 * Given:    planes [n_plane]  of I, Q, U, V and hands that share no flux, cross hands with both parts; a missing plane
 *                             is zero, but of a cross hand the complex conjugate of the other's image
 *           corr [n_corr]     of the set, linear or circular
 * Returned: unmix [n_corr]    linear feeds XX = I+Q, XY = U+iV, YX = U-iV, YY = I-Q; circular RR = I+V, RL = Q+iU,
 *                             LR = Q-iU, LL = I-V
 * Returns:  0, MSI_EINPUT (the planes are hands, and the set has none of them)
 */
int msi_unmix_make(msi_unmix *unmix, const msi_plane *planes, int n_plane, const msi_pol *corr, int n_corr);

/*
 * msi_correlations_convert - compute the correlations of some channels of a block.
 *
 * Given:    unmix [n_corr]   of msi_unmix_make
 *           channels         which channels of the block vis holds
 *           vis [n_plane][n_row][channels.n]  of the planes that unmix was made for, Jy
 *           n_chan_out       channels of the block
 * Returned: out [n_row][n_chan_out][n_corr]  Jy; only the given channels are written
 */
void msi_correlations_convert(const msi_unmix *unmix, int n_corr, int64_t n_row, msi_channel_range channels,
                              const msi_c64 *vis, int32_t n_chan_out, msi_c32 *out);

#endif
