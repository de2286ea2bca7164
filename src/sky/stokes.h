/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A range of channels names the part of a block that a function works on. */
#ifndef MSI_STOKES_H
#define MSI_STOKES_H

#include <stdint.h>

#include "core/types.h"
#include "io/ms/ms_reader.h"

/* The range holds channels [first, first + n) of a block. */
typedef struct msi_channel_range {
    int32_t first, n;
} msi_channel_range;

/* Correlations become the real image planes asked for: Stokes parameters or raw correlations. */

enum { MSI_MAX_PLANES = 16 };

/* A Stokes parameter's sample takes the smaller weight of its correlations, as in WSClean, or their mean, as in
 * CASA. */
typedef enum msi_stokes_weight { MSI_STOKES_WEIGHT_SMALLER, MSI_STOKES_WEIGHT_MEAN } msi_stokes_weight;

/* A plane is a real image. A raw cross-hand's image is complex: its imaginary part is a plane of its own. */
typedef struct msi_plane {
    msi_pol pol;
    int imaginary; /* 1: the imaginary part of a raw cross-hand's image */
} msi_plane;

/* Samples of the first plane that are left out are counted by reason, each once, under the first reason that holds; and
 * of those kept, in all planes, the one whose product of weight and visibility is largest is remembered. */
typedef struct msi_sample_tally {
    int64_t flagged;         /* FLAG of a correlation used */
    int64_t weight;          /* weight not finite or not positive */
    int64_t data_not_finite; /* NaN, infinite */
    int64_t data_too_large;  /* beyond 1e30 */
    double largest_product;  /* Jy times the weights' unit; 0 where no sample is kept */
    int largest_set;         /* msi_ms_block.set */
    int64_t largest_row;     /* msi_ms_block.ms_row */
} msi_sample_tally;

/* msi_sample_tally_add - count what another tally has counted, too. */
void msi_sample_tally_add(msi_sample_tally *to, const msi_sample_tally *from);

/* msi_planes_of - list the planes that imaging pol [n_pol] takes, in order, MSI_MAX_PLANES at most. Returns their
 * number. */
int msi_planes_of(const msi_pol *pol, int n_pol, msi_plane planes[MSI_MAX_PLANES]);

/* A plane is formed from a set's correlations as the sum of factor * V over one or two of them. */
typedef struct msi_mix {
    int n;             /* 1 or 2 */
    int corr[2];       /* [n] which correlations */
    msi_c64 factor[2]; /* [n] */
    msi_stokes_weight weight;
} msi_mix;

/*
 * msi_mix_make - find how planes are formed from the correlations of a set.
 *
 * Linear feeds Q = (XX-YY)/2, U = (XY+YX)/2, V = (XY-YX)/2i; circular Q = (RL+LR)/2, U = (RL-LR)/2i, V = (RR-LL)/2;
 * I = (p+q)/2 of the parallel hands, or the one hand there is.
 * Given:    planes [n_plane]; corr [n_corr]  the set's correlations, in the order of its data
 * Returned: mix [n_plane]
 * Returns:  0, MSI_EINPUT (the set has no correlations for a plane; the message lists those it has)
 */
int msi_mix_make(msi_mix *mix, const msi_plane *planes, int n_plane, msi_stokes_weight weight, const msi_pol *corr,
                 int n_corr);

/*
 * msi_stokes_form - form the planes of rows and channels of a block.
 *
 * Given:    block          data, weights and flags as read
 *           mix [n_plane]  of msi_mix_make, for the block's set
 *           channels       of the block
 * Returned: vis, weight [n_plane][n_row][channels.n]  Jy, and of the weights as read; both 0 where a plane's sample is
 *           left out
 * Given and returned: *tally  counted on
 * Notes:    a sample is left out where any correlation used is. Finite data up to 1e30 is never altered.
 */
void msi_stokes_form(const msi_ms_block *block, const msi_mix *mix, int n_plane, msi_channel_range channels,
                     msi_c64 *vis, float *weight, msi_sample_tally *tally);

#endif
