/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The samples of a row are added to sums of its groups of channels, several correlations at a time. */
#ifndef MSI_SRC_SUM_ROWS_H
#define MSI_SRC_SUM_ROWS_H

#include <stdint.h>

#include "core/types.h"
#include "io/convert/set_output.h"

/* Beyond this a visibility is none, as in imaging. */
#define MSI_SUM_MOST_JY 1e30F

/* The samples of a row, [n_chan][n_corr] each. A sample is good where it is not flagged, its weight is positive and
 * finite and its value finite. */
typedef struct msi_sum_row {
    int32_t n_chan, n_corr;
    const msi_c32 *data;
    const float *weight;
    const uint8_t *flag;
} msi_sum_row;

/* msi_sum_all_good - return 1 where every sample is good, else 0. */
int msi_sum_all_good(const msi_sum_row *row);

/* msi_sum_keep_good - copy values and weights, and put 0 for those of samples that are not good.
 * Returned: data, weight  [n_chan][n_corr] */
void msi_sum_keep_good(const msi_sum_row *row, msi_c32 *data, float *weight);

/*
 * msi_sum_add - add a row to sums over groups of channels, in double precision, in the order of channels.
 * Given:              row  whose samples are good, or 0; its flags are not read
 *                     begins  it is the first one: what is in the sums does not count
 * Given and returned: value   [n_group][n_corr][2]  sums of weight x value, real and imaginary part by turns
 *                     weight  [n_group][n_corr]     sums of weights
 * Returns: the sum of all weights of the row
 * Notes:   the product of two floats is exact in double precision: a single sample comes out as it went in.
 */
double msi_sum_add(const msi_sum_row *row, const msi_channel_groups *groups, int begins, double *value, double *weight);

/* msi_sum_total - add up weights [n_group][n_corr], in the order of groups. Returned: total  [n_corr] */
void msi_sum_total(int32_t n_group, int32_t n_corr, const double *weight, double *total);

/* msi_sum_means - divide n sums of values by those of their weights. Returned: data, weight  [n] means, sums of
 * weights */
void msi_sum_means(int64_t n, const double *value, const double *sum, msi_c32 *data, float *weight);

#endif
