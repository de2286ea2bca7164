/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From the visibilities of model planes to the correlations of a set: the inverse of stokes.h. */
#ifndef MSI_SRC_CORRELATIONS_H
#define MSI_SRC_CORRELATIONS_H

#include "core/types.h"

/* How one correlation is formed from planes: sum of factor * V over none, one or two of them. */
typedef struct msi_unmix {
    int n;
    int plane[2];
    msi_c64 factor[2];
} msi_unmix;

/*
 * msi_unmix_make - how a set's correlations are formed from model planes.
 *
 * Given:    planes [n_plane]  either among I, Q, U, V or among the parallel hands XX, YY, RR, LL; one that is missing
 *                             is zero
 *           corr [n_corr]     of the set, linear or circular
 * Returned: unmix [n_corr]    linear feeds XX = I+Q, XY = U+iV, YX = U-iV, YY = I-Q; circular RR = I+V, RL = Q+iU,
 *                             LR = Q-iU, LL = I-V
 * Returns:  0, MSI_EINPUT (planes are hands of which the set has none)
 */
int msi_unmix_make(msi_unmix *unmix, const msi_pol *planes, int n_plane, const msi_pol *corr, int n_corr);

/*
 * msi_correlations_form - form the correlations of some channels of a block.
 *
 * Given:    unmix [n_corr]; vis [..][n_row][n_chan] of the planes, Jy
 *           first_chan, n_chan_out  where the channels lie in the block's
 * Returned: out [n_row][n_chan_out][n_corr]; only channels [first_chan, first_chan + n_chan) are written
 */
void msi_correlations_form(const msi_unmix *unmix, int n_corr, int64_t n_row, int32_t n_chan, const msi_c64 *vis,
                           int32_t first_chan, int32_t n_chan_out, msi_c32 *out);

#endif
