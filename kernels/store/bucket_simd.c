/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compiled once for each instruction set, with MSI_ISA its name. */
#include "kernels/store/bucket_simd.h"

#include "kernels/method/simd_compile.h"

#define REAL   float
#define CPLX   msi_c32
#define SUFFIX f32
#include "kernels/store/bucket_simd_body.h"
#undef REAL
#undef CPLX
#undef SUFFIX

#define REAL   double
#define CPLX   msi_c64
#define SUFFIX f64
#include "kernels/store/bucket_simd_body.h"

/* Add n cells of a buffer to one in double, and zero them. */
static void widen(msi_c32 *from, msi_c64 *to, int64_t n)
{
    float *f = &from->re;
    double *t = &to->re;
    for (int64_t i = 0; i < 2 * n; i++) {
        t[i] += (double)f[i];
        f[i] = 0;
    }
}

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
