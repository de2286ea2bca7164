/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One-dimensional Fourier transforms on the CPU. msi_fft1d: FFTW in single or double precision, for pruned
 * two-dimensional transforms. msi_column_fft: transforms of several columns of a matrix at a time. */
#ifndef MSI_FFT_CPU_H
#define MSI_FFT_CPU_H

#include <stdint.h>

#include "core/types.h"

typedef struct msi_fft1d msi_fft1d;

/*
 * msi_fft1d_create - plan an in-place forward transform (exponent -2 pi i) of n complex numbers.
 * Returned: *out, owned by the caller, freed by msi_fft1d_free; NULL after a failure
 * Returns:  0, MSI_ENOMEM
 * Notes:    any thread may create and run plans. Several threads may run one plan at once, on different data.
 */
int msi_fft1d_create(msi_fft1d **out, int64_t n, msi_precision precision);

/*
 * msi_fft1d_create_batch - plan the same for `count` sequences at once. Element i of sequence k is at k distance + i
 * stride.
 * Given:   backward  1: exponent +2 pi i, without a factor
 */
int msi_fft1d_create_batch(msi_fft1d **out, int64_t n, int64_t count, int64_t stride, int64_t distance, int backward,
                           msi_precision precision);

/* msi_fft1d_run - transform data [n] of msi_c32 or msi_c64 in place. They must be aligned to 16 bytes. */
void msi_fft1d_run(const msi_fft1d *f, void *data);

/* msi_fft1d_free - NULL-safe. */
void msi_fft1d_free(msi_fft1d *f);

/*
 * Transforms of columns of a complex matrix, in groups whose real parts fill 64 bytes. A transform of N1 N2 points has
 * two steps, so that the data of a step stay in the first-level cache: (1) transform N1 points for each residue modulo
 * N2, and multiply the results by turns; (2) transform N2 points for each k1. A convolution multiplies the result of
 * step 2, and does both steps in reverse.
 */

typedef struct msi_column_fft msi_column_fft;

typedef enum msi_column_way {
    MSI_COLUMN_FORWARD,  /* exponent -2 pi i */
    MSI_COLUMN_BACKWARD, /* exponent +2 pi i, no factor */
    MSI_COLUMN_CONVOLVE  /* forward, multiply by another spectrum, backward */
} msi_column_way;

/* Columns, and which of their rows are used. */
typedef struct msi_column_rows {
    void *data;            /* [n][pitch] msi_c32 or msi_c64, transformed in place */
    int64_t pitch;         /* complex numbers from one row to the next */
    int n_column;          /* at most msi_column_fft_lanes */
    const uint8_t *given;  /* [n] 0: the row counts as zeros and is not read; NULL: all rows are given */
    const uint8_t *wanted; /* [n] 0: the row is not written; NULL: all rows are wanted */
    const void *factor;    /* [n][pitch] spectrum of the other factor of a convolution */
} msi_column_rows;

/* msi_column_fft_lanes - return the number of columns that are transformed at once. */
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

/* msi_column_fft_bytes - return the size of the workspace of a transform of n points. */
int64_t msi_column_fft_bytes(int64_t n);

/*
 * msi_column_fft_run - transform columns.
 * Given:   work  msi_column_fft_bytes(n), aligned to 64, used by this call only
 * Notes:   several threads may run one plan at once. Results do not depend on which columns are transformed together.
 */
void msi_column_fft_run(const msi_column_fft *f, msi_column_way way, const msi_column_rows *rows, void *work);

/* msi_column_fft_free - NULL-safe. */
void msi_column_fft_free(msi_column_fft *f);

/* The loops, which are compiled once for each instruction set and chosen at run time. */

enum { MSI_COLUMN_STAGES = 40, MSI_COLUMN_LINE = 64 };

/* A short transform. Stage i has the given radix; `left` is n divided by the radixes of the stages before it. */
typedef struct msi_column_part {
    int n, n_stage;
    int radix[MSI_COLUMN_STAGES];
    const void *turn[MSI_COLUMN_STAGES]; /* [left / radix][radix - 1] complex: exp(-2 pi i j t / left) */
} msi_column_part;

/* The plan: point n1 part[1].n + n2 of a column, and frequency k1 + part[0].n k2. */
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
