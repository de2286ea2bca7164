/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Columns of a matrix of complex numbers are transformed here on the CPU, as many at once as fill 64 bytes with their
 * real parts: a length N1 N2 is one of N1 for each residue modulo N2, a turn, and one of N2, so that what a step works
 * on stays in the first cache. A convolution multiplies where the second step has its results, and goes back.
 */
#ifndef MSI_KERNELS_COLUMN_FFT_H
#define MSI_KERNELS_COLUMN_FFT_H

#include <stdint.h>

#include "core/types.h"

typedef struct msi_column_fft msi_column_fft;

typedef enum msi_column_way {
    MSI_COLUMN_FORWARD,  /* exponent -2 pi i */
    MSI_COLUMN_BACKWARD, /* exponent +2 pi i, no factor */
    MSI_COLUMN_CONVOLVE  /* forward, times another spectrum, backward */
} msi_column_way;

/* Columns, and which of their rows count. */
typedef struct msi_column_rows {
    void *data;            /* [n][pitch] msi_c32 or msi_c64, transformed in place */
    int64_t pitch;         /* complex numbers from a row to the next */
    int n_column;          /* at most msi_column_fft_lanes */
    const uint8_t *given;  /* [n] 0 where a row is taken for zeros and not looked at; NULL: all are given */
    const uint8_t *wanted; /* [n] 0 where a row is left as it was; NULL: all are wanted */
    const void *factor;    /* [n][pitch], what a convolution multiplies by */
} msi_column_rows;

/* msi_column_fft_lanes - count the columns that are transformed at once. */
static inline int msi_column_fft_lanes(msi_precision precision)
{
    return precision == MSI_FP32 ? 16 : 8;
}

/*
 * msi_column_fft_create - plan transforms of n complex numbers.
 * Given:    n  a product of 2, 3, 5 and 7
 * Returned: *out, owned by the caller, freed by msi_column_fft_free; NULL after a failure
 * Returns:  0, MSI_ENOMEM, MSI_EARGUMENT (another prime factor)
 */
int msi_column_fft_create(msi_column_fft **out, int64_t n, msi_precision precision);

/* msi_column_fft_bytes - count what a transform of n works in. */
int64_t msi_column_fft_bytes(int64_t n);

/*
 * msi_column_fft_run - transform columns.
 * Given:   work  msi_column_fft_bytes(n), aligned to 64, of this call alone
 * Notes:   a plan may run in several threads at once. Results do not depend on which columns go together.
 */
void msi_column_fft_run(const msi_column_fft *f, msi_column_way way, const msi_column_rows *rows, void *work);

/* msi_column_fft_free - NULL-safe. */
void msi_column_fft_free(msi_column_fft *f);

#endif
