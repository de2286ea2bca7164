/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compiled once for each instruction set, with MSI_ISA its name and MSI_VECTOR_BYTES its vector's length. */
#include "kernels/grid/wgrid_simd.h"

#include <math.h>
#include <string.h>

#define MSI_CAT_(a, b, c) a##b##_##c
#define MSI_CAT(a, b, c)  MSI_CAT_(a, b, c)
#define MSI_STR_(a)       #a
#define MSI_STR(a)        MSI_STR_(a)

#define REAL   float
#define CPLX   msi_c32
#define TAPS   msi_taps_f32
#define SUFFIX f32
#include "kernels/grid/wgrid_simd_body.h"
#undef REAL
#undef CPLX
#undef TAPS
#undef SUFFIX

#define REAL   double
#define CPLX   msi_c64
#define TAPS   msi_taps_f64
#define SUFFIX f64
#include "kernels/grid/wgrid_simd_body.h"

/* Adds n cells of a tile buffer to one in double, and zeroes them. */
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

extern const msi_simd_table MSI_CAT(msi_simd, _table, MSI_ISA);
const msi_simd_table MSI_CAT(msi_simd, _table, MSI_ISA) = {
    .name = MSI_STR(MSI_ISA),
    .grid_f32 = grid_span_f32,
    .grid_f64 = grid_span_f64,
    .flush_f32 = flush_plane_f32,
    .flush_f64 = flush_plane_f64,
    .widen = widen,
    .flush_wide = flush_wide,
    .screen_f32 = screen_column_f32,
    .screen_f64 = screen_column_f64,
    .taper_f32 = taper_column_f32,
    .taper_f64 = taper_column_f64,
};
