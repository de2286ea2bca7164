/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows whose samples are all good are summed several correlations at a time. */
#ifndef MSI_SRC_SUM_ROWS_H
#define MSI_SRC_SUM_ROWS_H

#include <stdint.h>

#include "core/types.h"

/* Beyond this a visibility is none, as in imaging. */
#define MSI_SUM_MOST_JY 1e30F

/* The samples of a row, [n_chan][n_corr] each. */
typedef struct msi_sum_row {
    int32_t n_chan, n_corr;
    const msi_c32 *data;
    const float *weight;
    const uint8_t *flag;
} msi_sum_row;

/* Sums over channels: of weight x value, real and imaginary part by turns, and of weights. */
typedef struct msi_sum_group {
    double value[2 * MSI_MAX_CORR], weight[MSI_MAX_CORR];
} msi_sum_group;

/* msi_sum_all_good - return 1 where no sample is flagged, weights are positive and finite, values finite; else 0. */
int msi_sum_all_good(const msi_sum_row *row);

/* msi_sum_channels - sum channels [first, first + n) of a row in double precision, in the order of channels. A product
 * of two floats is exact in it. */
void msi_sum_channels(msi_sum_group *sum, const msi_sum_row *row, int32_t first, int32_t n);

#endif
