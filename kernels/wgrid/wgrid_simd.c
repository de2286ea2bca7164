/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compiled once for each instruction set, with MSI_ISA its name and MSI_VECTOR_BYTES its vector's length. */
#include "kernels/wgrid/wgrid_simd.h"

#include <math.h>
#include <string.h>

#define MSI_CAT_(a, b, c) a##b##_##c
#define MSI_CAT(a, b, c)  MSI_CAT_(a, b, c)
#define MSI_STR_(a)       #a
#define MSI_STR(a)        MSI_STR_(a)

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* A switch over the widths has a case for each, so that the compiler knows it there. */
#define MSI_WIDTHS(X) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

enum { SCREEN_STRIP = 256 };

#define NAME(x) MSI_CAT(x, , SUFFIX)
#define VEC     NAME(vec)
#define VEC_U   NAME(vec_unaligned)
#define VL      NAME(vector_length)

#define REAL   float
#define CPLX   msi_c32
#define TAPS   msi_taps_f32
#define SUFFIX f32
#include "kernels/wgrid/wgrid_simd_body.h"
#include "kernels/wgrid/wgrid_degrid_simd_body.h"
#include "kernels/wgrid/wgrid_tower_simd_body.h"
#undef REAL
#undef CPLX
#undef TAPS
#undef SUFFIX

#define REAL   double
#define CPLX   msi_c64
#define TAPS   msi_taps_f64
#define SUFFIX f64
#include "kernels/wgrid/wgrid_simd_body.h"
#include "kernels/wgrid/wgrid_degrid_simd_body.h"
#include "kernels/wgrid/wgrid_tower_simd_body.h"

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

/* msi_taper_w of many pixels at once: Clenshaw's recurrence with pixels in the inner loop, which vectorises. */
static void taper_column(const msi_taper_column *c)
{
    enum { STRIP = MSI_TAPER_STRIP };
    const msi_taper *t = c->taper;
    double y[STRIP], b1[STRIP], b2[STRIP];
    for (int i = 0; i < STRIP; i++) {
        double m = c->m_first + i * c->cell_y_rad, r2 = c->l * c->l + m * m;
        double n_1 = r2 < 1 ? -r2 / (1 + sqrt(r2 < 1 ? 1 - r2 : 0)) : -1;
        double q = (n_1 - t->n_mid) * t->w_scale;
        y[i] = 2 * q * q - 1;
        b1[i] = b2[i] = 0;
    }
    for (int k = t->n_term - 1; k > 0; k--)
        for (int i = 0; i < STRIP; i++) {
            double next = t->term[k] + 2 * y[i] * b1[i] - b2[i];
            b2[i] = b1[i];
            b1[i] = next;
        }
    for (int i = 0; i < c->n; i++) {
        double m = c->m_first + i * c->cell_y_rad, value = c->sum[i] * c->factor * c->along_y[i];
        if (t->has_w) value /= t->term[0] + y[i] * b1[i] - b2[i];
        c->out[i] = c->l * c->l + m * m < 1 ? value : NAN;
    }
}

extern const msi_simd_table MSI_CAT(msi_simd, _table, MSI_ISA);
const msi_simd_table MSI_CAT(msi_simd, _table, MSI_ISA) = {
    .name = MSI_STR(MSI_ISA),
    .grid_f32 = grid_span_f32,
    .grid_f64 = grid_span_f64,
    .degrid_f32 = degrid_span_f32,
    .degrid_f64 = degrid_span_f64,
    .flush_f32 = flush_plane_f32,
    .flush_f64 = flush_plane_f64,
    .widen = widen,
    .flush_wide = flush_wide,
    .screen_f32 = screen_column_f32,
    .screen_f64 = screen_column_f64,
    .spread_f32 = spread_column_f32,
    .spread_f64 = spread_column_f64,
    .taper = taper_column,
    .gather_f32 = gather_cells_f32,
    .gather_f64 = gather_cells_f64,
    .turn_f32 = turn_cells_f32,
    .turn_f64 = turn_cells_f64,
};
