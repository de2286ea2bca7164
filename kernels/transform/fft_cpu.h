/* SPDX-License-Identifier: GPL-3.0-or-later */
/* FFTW's one-dimensional transforms in either precision, for pruned two-dimensional ones. */
#ifndef MSI_FFT_CPU_H
#define MSI_FFT_CPU_H

#include <stdint.h>

#include "core/types.h"

typedef struct msi_fft1d msi_fft1d;

/*
 * msi_fft1d_create - plan an in-place forward transform (exponent -2 pi i) of n complex numbers.
 * Returned: *out, owned by the caller, freed by msi_fft1d_free; NULL after a failure
 * Returns:  0, MSI_ENOMEM
 * Notes:    any thread may create and run plans, also one plan at once on data of their own.
 */
int msi_fft1d_create(msi_fft1d **out, int64_t n, msi_precision precision);

/*
 * msi_fft1d_create_batch - plan the same for `count` sequences at once, element i of sequence k at k distance + i
 * stride.
 * Given:   backward  with exponent +2 pi i, and no factor
 */
int msi_fft1d_create_batch(msi_fft1d **out, int64_t n, int64_t count, int64_t stride, int64_t distance, int backward,
                           msi_precision precision);

/* msi_fft1d_run - transform data [n] msi_c32 or msi_c64, aligned to 16 bytes. */
void msi_fft1d_run(const msi_fft1d *f, void *data);

/* msi_fft1d_free - NULL-safe. */
void msi_fft1d_free(msi_fft1d *f);

/*
 * Columns of a matrix of complex numbers are transformed here on the CPU, as many at once as fill 64 bytes with their
 * real parts: a length N1 N2 is one of N1 for each residue modulo N2, a turn, and one of N2, so that what a step works
 * on stays in the first cache. A convolution multiplies where the second step has its results, and goes back.
 */

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

/* Column transforms' loops; compiled once for each instruction set and chosen at run time. */

enum { MSI_COLUMN_STAGES = 40, MSI_COLUMN_LINE = 64 };

/* A short transform: stage i is `radix` wide, over what the stages before it have left. */
typedef struct msi_column_part {
    int n, n_stage;
    int radix[MSI_COLUMN_STAGES];
    const void *turn[MSI_COLUMN_STAGES]; /* [left / radix][radix - 1] complex: exp(-2 pi i j t / left) */
} msi_column_part;

/* The plan: element n1 part[1].n + n2 of a column, and k1 + part[0].n k2 of its transform. */
struct msi_column_fft {
    int64_t n;
    msi_precision precision;
    msi_column_part part[2];
    const void *turn; /* [part[0].n][part[1].n] complex: exp(-2 pi i k1 n2 / n) */
    void *tables;
};

typedef struct msi_column_fft_table {
    void (*run_f32)(const msi_column_fft *f, msi_column_way way, const msi_column_rows *rows, void *work);
    void (*run_f64)(const msi_column_fft *f, msi_column_way way, const msi_column_rows *rows, void *work);
} msi_column_fft_table;

#endif
