/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Add a bucket's buffer of cells to the grid. The file is compiled once for each instruction set, named by MSI_ISA. */
#include "kernels/store/bucket_sort_cpu.h"

#include "kernels/method/simd.h"

/* Add n_row rows of n_cell cells of a buffer to a plane of the grid, and set the buffer to zero. `pitch` and `stride`
 * are the distances of rows, in cells, in the buffer and in the grid. */
#define FLUSH_BUFFER(name, cplx, real)                                                                                 \
    static void name(cplx *buffer, int64_t n_row, int64_t n_cell, int64_t pitch, cplx *grid, int64_t stride)           \
    {                                                                                                                  \
        for (int64_t row = 0; row < n_row; row++) {                                                                    \
            real *from = (real *)(buffer + row * pitch), *to = (real *)(grid + row * stride);                          \
            for (int64_t i = 0; i < 2 * n_cell; i++) {                                                                 \
                to[i] += from[i];                                                                                      \
                from[i] = 0;                                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }
FLUSH_BUFFER(flush_buffer_f32, msi_c32, float)
FLUSH_BUFFER(flush_buffer_f64, msi_c64, double)
#undef FLUSH_BUFFER

/* Add n cells of a buffer in single precision to a buffer in double precision, and set the first to zero. */
static void widen(msi_c32 *from, msi_c64 *to, int64_t n)
{
    float *f = &from->re;
    double *t = &to->re;
    for (int64_t i = 0; i < 2 * n; i++) {
        t[i] += (double)f[i];
        f[i] = 0;
    }
}

/* Add a buffer in double precision to a grid in single precision, and set the buffer to zero. */
static void flush_wide(msi_c64 *buffer, int64_t n_row, int64_t n_cell, int64_t pitch, msi_c32 *grid, int64_t stride)
{
    for (int64_t row = 0; row < n_row; row++) {
        double *from = &buffer[row * pitch].re;
        float *to = &grid[row * stride].re;
        for (int64_t i = 0; i < 2 * n_cell; i++) {
            to[i] += (float)from[i];
            from[i] = 0;
        }
    }
}

extern const msi_bucket_simd_table MSI_CAT(msi_bucket_simd, _table, MSI_ISA);
const msi_bucket_simd_table MSI_CAT(msi_bucket_simd, _table, MSI_ISA) = {
    .flush_f32 = flush_buffer_f32,
    .flush_f64 = flush_buffer_f64,
    .widen = widen,
    .flush_wide = flush_wide,
};
