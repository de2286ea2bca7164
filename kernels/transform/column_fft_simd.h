/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Column transforms' loops; compiled once for each instruction set and chosen at run time. */
#ifndef MSI_KERNELS_COLUMN_FFT_SIMD_H
#define MSI_KERNELS_COLUMN_FFT_SIMD_H

#include "kernels/transform/column_fft.h"

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
