/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A store's segments as the device sees them. */
#ifndef MSI_KERNELS_STORE_ROWS_H
#define MSI_KERNELS_STORE_ROWS_H

#include <stdint.h>

/* Rows of one spectral setup among a batch's, as msi_vis_segment has them: their samples are [n_row][n_chan]. */
typedef struct msi_store_rows {
    int64_t first_sample, first_row; /* in the batch's arrays */
    int32_t n_row, n_chan, first_freq;
} msi_store_rows;

#endif
