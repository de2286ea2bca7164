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
    int is_set, order; /* settings of the polynomial */
    int n_range;       /* 0: all channels */
    msi_fit_range range[MSI_CONTINUUM_MAX_RANGE];
} msi_continuum;

/*
 * msi_continuum_parse - read channels to fit in CASA's syntax: 0:5~60;70~90,1:3~10 or *:5~60.
 * Returned: range, n_range
 * Returns:  0, MSI_EUSAGE
 */
int msi_continuum_parse(msi_continuum *c, const char *what, const char *text);

/* Visibilities without their continuum. Zero-initialised; freed by msi_continuum_buffer_free. */
typedef struct msi_continuum_buffer {
    int64_t n; /* capacity in samples */
    msi_c32 *data;
    uint8_t *flag;
} msi_continuum_buffer;

/*
 * msi_continuum_subtract - fit and subtract, by least squares with the weights of the samples.
 * Given and returned: b       its data and flags are replaced by those of the buffer, valid until the next call. A row
  *      and
 *                             correlation is flagged if it has fewer samples to fit than coefficients, or if the matrix
 *                             is singular
 *                     buffer  grown as needed
 * Returns:            0, MSI_EINPUT (no channel to fit in the block's window), MSI_ENOMEM
 */
int msi_continuum_subtract(const msi_continuum *c, msi_ms_block *b, msi_continuum_buffer *buffer);

void msi_continuum_buffer_free(msi_continuum_buffer *buffer);

#endif
