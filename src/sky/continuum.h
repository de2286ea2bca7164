/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Continuum of visibilities: a polynomial in frequency that is fitted to channels without lines, for each row and
 * correlation, and subtracted from all channels. */
#ifndef MSI_CONTINUUM_H
#define MSI_CONTINUUM_H

#include "io/ms/ms_reader.h"

enum { MSI_CONTINUUM_MAX_RANGE = 64, MSI_CONTINUUM_MAX_ORDER = 5 };

/* Channels of a spectral window: stored numbers first to last. */
typedef struct msi_fit_range {
    int32_t spw, first, last; /* spw -1: all windows */
} msi_fit_range;

/* Zero-initialised: nothing is subtracted. */
typedef struct msi_continuum {
    int is_set, order; /* of the polynomial */
    int n_range;       /* 0: all channels */
    msi_fit_range range[MSI_CONTINUUM_MAX_RANGE];
} msi_continuum;

/*
 * msi_continuum_parse - read channels to fit as CASA writes them: 0:5~60;70~90,1:3~10 or *:5~60.
 * Returned: range, n_range
 * Returns:  0, MSI_EUSAGE
 */
int msi_continuum_parse(msi_continuum *c, const char *what, const char *text);

/*
 * msi_continuum_subtract - fit and subtract, by least squares with the weights of the samples.
 * Given:              b     its data and flags are those below
 * Given and returned: data  [n_row][n_chan][n_corr]; flag as many: a row and correlation with fewer samples to fit than
 *                           coefficients, or with a matrix that is singular, is flagged
 * Returns:            0, MSI_EINPUT (no channel to fit in the block's window)
 */
int msi_continuum_subtract(const msi_continuum *c, const msi_ms_block *b, msi_c32 *data, uint8_t *flag);

#endif
