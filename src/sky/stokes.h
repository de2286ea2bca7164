/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stokes conversion: compute visibilities of image planes, Stokes parameters or raw correlations, from correlations. */
#ifndef MSI_STOKES_H
#define MSI_STOKES_H

#include <stdint.h>

#include "core/types.h"
#include "io/ms/ms_reader.h"

/* Channels [first, first + n) of a block. */
typedef struct msi_channel_range {
    int32_t first, n;
} msi_channel_range;

enum { MSI_MAX_PLANES = 16 };

/* The weight of a Stokes parameter's sample: the smaller weight of its correlations, as in WSClean, or their mean, as
 * in CASA. */
typedef enum msi_stokes_weight { MSI_STOKES_WEIGHT_SMALLER, MSI_STOKES_WEIGHT_MEAN } msi_stokes_weight;

/* A plane is a real image. The image of a raw cross-hand is complex; its imaginary part is a separate plane. */
typedef struct msi_plane {
    msi_pol pol;
    int imaginary; /* 1: the imaginary part of a raw cross-hand's image */
    int both;      /* 1: the mean of a cross-hand's image and the conjugate of the other cross-hand's image */
} msi_plane;

/* Counts of samples of the first plane that are left out, each for the first reason that applies; and the largest
 * product of weight and visibility of the samples of all planes that are used. */
typedef struct msi_sample_tally {
    int64_t flagged;         /* FLAG of one of its correlations */
    int64_t weight;          /* weight not finite or not positive */
    int64_t data_not_finite; /* NaN, infinite */
    int64_t data_too_large;  /* beyond 1e30 */
    double largest_product;  /* Jy times the weights' unit; 0 if there are no samples */
    int largest_set;         /* msi_ms_block.set */
    int64_t largest_row;     /* msi_ms_block.ms_row */
} msi_sample_tally;

/* msi_sample_tally_add - add another tally. */
void msi_sample_tally_add(msi_sample_tally *to, const msi_sample_tally *from);

/* msi_is_cross_hand - return whether a polarisation is XY, YX, RL or LR. */
int msi_is_cross_hand(msi_pol pol);

/* msi_other_hand - return the other cross-hand of XY, YX, RL or LR, whose image is the complex conjugate. Other
 * polarisations are returned unchanged. */
msi_pol msi_other_hand(msi_pol pol);

/*
 * msi_planes_of - list the planes that images of pol [n_pol] need, in order, at most MSI_MAX_PLANES.
 * Given:   both  1: if both cross-hands of a pair are in pol, replace the first by their mean, and leave the second out
 * Returns: their number
 */
int msi_planes_of(const msi_pol *pol, int n_pol, int both, msi_plane planes[MSI_MAX_PLANES]);

/* A plane is the sum of factor * V over one or two correlations of a set. */
typedef struct msi_mix {
    int n;             /* 1 or 2 */
    int corr[2];       /* [n] which correlations */
    msi_c64 factor[2]; /* [n] all real, or all imaginary */
    msi_stokes_weight weight;
} msi_mix;

/*
 * msi_mix_make - find the correlations and factors of planes.
 *
 * Linear feeds Q = (XX-YY)/2, U = (XY+YX)/2, V = (XY-YX)/2i; circular Q = (RL+LR)/2, U = (RL-LR)/2i, V = (RR-LL)/2;
 * I = (p+q)/2 of the parallel hands, or the only hand of the set.
 * Given:    planes [n_plane]; corr [n_corr]  the set's correlations, in the order of its data
 * Returned: mix [n_plane]
 * Returns:  0, MSI_EINPUT (the set lacks the correlations of a plane; the message lists its correlations)
 */
int msi_mix_make(msi_mix *mix, const msi_plane *planes, int n_plane, msi_stokes_weight weight, const msi_pol *corr,
                 int n_corr);

/*
 * msi_stokes_convert - convert rows and channels of a block to planes.
 *
 * Given:    block          data, weights and flags as read
 *           mix [n_plane]  from msi_mix_make for the block's set
 *           channels       channels of the block to convert
 * Returned: vis, weight [n_plane][n_row][channels.n]  Jy, and in the unit of the weights; both 0 for a sample that is
 *           left out
 * Given and returned: *tally  with the counts added
 * Notes:    a sample is left out if one of its correlations is flagged or invalid. Finite data up to 1e30 are kept as
 *           they are.
 */
void msi_stokes_convert(const msi_ms_block *block, const msi_mix *mix, int n_plane, msi_channel_range channels,
                        msi_c64 *vis, float *weight, msi_sample_tally *tally);

/* Arrays for converted planes, [n_plane][plane_rows][channels.n]. The rows of a block are the first rows of each
 * plane. */
typedef struct msi_planes_out {
    msi_precision precision;
    void *vis; /* msi_c32 or msi_c64 */
    float *weight;
    int64_t plane_rows; /* >= n_row of the block */
} msi_planes_out;

/* msi_stokes_convert_into - do the same for output in single or double precision. Values are computed in double
 * precision; the largest product uses the stored values. */
void msi_stokes_convert_into(const msi_ms_block *block, const msi_mix *mix, int n_plane, msi_channel_range channels,
                             const msi_planes_out *out, msi_sample_tally *tally);

/* ---- Conversion of model planes to the correlations of a set, the inverse of the above ---- */

/* A correlation is the sum of factor * V over up to two planes. */
typedef struct msi_unmix {
    int n;             /* 0, 1 or 2 */
    int plane[2];      /* [n] which planes */
    msi_c64 factor[2]; /* [n] */
} msi_unmix;

/* msi_pols_share_flux - return 1 if one polarisation is a hand, and the other is a Stokes parameter in the sum of this
 * hand. Images of both cannot be used as one model. XX and V, for example, share no flux. */
int msi_pols_share_flux(msi_pol a, msi_pol b);

/*
 * msi_unmix_make - find the planes and factors of correlations.
 *
 * Given:    planes [n_plane]  I, Q, U, V, and hands that share no flux with them. Cross hands need both parts. A
 *                             missing plane is zero; a missing cross hand is the complex conjugate of the other one
 *           corr [n_corr]     correlations of the set, linear or circular
 * Returned: unmix [n_corr]    linear feeds XX = I+Q, XY = U+iV, YX = U-iV, YY = I-Q; circular RR = I+V, RL = Q+iU,
 *                             LR = Q-iU, LL = I-V
 * Returns:  0, MSI_EINPUT (the planes are hands, and the set has none of them)
 */
int msi_unmix_make(msi_unmix *unmix, const msi_plane *planes, int n_plane, const msi_pol *corr, int n_corr);

/*
 * msi_correlations_convert - compute the correlations of some channels of a block.
 *
 * Given:    unmix [n_corr]   from msi_unmix_make
 *           channels         channels of the block that vis holds
 *           vis [n_plane][n_row][channels.n]  Jy, planes as given to msi_unmix_make
 *           n_chan_out       number of channels of the block
 * Returned: out [n_row][n_chan_out][n_corr]  Jy; only the given channels are written
 */
void msi_correlations_convert(const msi_unmix *unmix, int n_corr, int64_t n_row, msi_channel_range channels,
                              const msi_c64 *vis, int32_t n_chan_out, msi_c32 *out);

#endif
