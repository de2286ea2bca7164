/* SPDX-License-Identifier: GPL-3.0-or-later */
/* FFTW's one-dimensional transforms in either precision, for pruned two-dimensional ones. */
#ifndef MSI_KERNELS_FFT_CPU_H
#define MSI_KERNELS_FFT_CPU_H

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

#endif
