/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A bucket's samples are gridded into a buffer of cells, which is added to the grid here on the CPU; compiled once for
 * each instruction set and chosen at run time.
 */
#ifndef MSI_KERNELS_BUCKET_SIMD_H
#define MSI_KERNELS_BUCKET_SIMD_H

#include <stdint.h>

#include "core/types.h"

/* One instruction set's functions. */
typedef struct msi_bucket_simd_table {
    /* Add n_row rows of n_cell cells of a buffer to a plane of the grid, and zero them. */
    void (*flush_f32)(msi_c32 *buffer, int64_t n_row, int64_t n_cell, int64_t pitch, msi_c32 *grid, int64_t stride);
    void (*flush_f64)(msi_c64 *buffer, int64_t n_row, int64_t n_cell, int64_t pitch, msi_c64 *grid, int64_t stride);
    /* Add n cells of a buffer to one in double, and zero them; and from there to the grid, as flush_f32. */
    void (*widen)(msi_c32 *from, msi_c64 *to, int64_t n);
    void (*flush_wide)(msi_c64 *buffer, int64_t n_row, int64_t n_cell, int64_t pitch, msi_c32 *grid, int64_t stride);
} msi_bucket_simd_table;

/* msi_bucket_simd - return the table of the instruction set that msi_simd_best names. */
const msi_bucket_simd_table *msi_bucket_simd(void);

#endif
