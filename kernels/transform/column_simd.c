/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The loops over columns of fft_cpu.h and screen_taper.h. Compiled once for each instruction set, with MSI_ISA its name
 * and MSI_VECTOR_BYTES the length of its vectors. */
#include <math.h>
#include <string.h>

#include "kernels/method/simd.h"
#include "kernels/transform/fft_cpu.h"
#include "kernels/transform/screen_taper.h"

/* Vectors for the real parts of one element of all columns. */
enum { PER_LINE = MSI_COLUMN_LINE / MSI_VECTOR_BYTES };

enum { SCREEN_STRIP = 256 };

#define REAL   float
#define CPLX   msi_c32
#define SUFFIX f32
#include "kernels/transform/turns_simd_body.h"
#include "kernels/transform/column_screen_simd_body.h"
#include "kernels/transform/column_fft_simd_body.h"
#undef REAL
#undef CPLX
#undef SUFFIX

#define REAL   double
#define CPLX   msi_c64
#define SUFFIX f64
#include "kernels/transform/turns_simd_body.h"
#include "kernels/transform/column_screen_simd_body.h"
#include "kernels/transform/column_fft_simd_body.h"

/* Compute msi_taper_w of many pixels by Clenshaw's recurrence. The inner loop is over pixels, so that it vectorises; a
 * piece has few pixels, so that the recurrence runs in registers. */
static void taper_column(const msi_taper_column *c)
{
    enum { STRIP = MSI_TAPER_STRIP, LANES = MSI_VECTOR_BYTES / 8, PIECE = 4 };
    typedef double vector __attribute__((vector_size(MSI_VECTOR_BYTES), aligned(8), may_alias));
    const msi_taper *t = c->taper;
    double y[STRIP], w[STRIP];
    for (int i = 0; i < STRIP; i++) {
        double m = c->m_first + i * c->cell_y_rad, r2 = c->l * c->l + m * m;
        double root = sqrt(r2 < 1 ? 1 - r2 : r2 - 1);
        double n_1 = r2 < 1 ? -r2 / (1 + root) : -1 - t->beyond * root;
        double q = (n_1 - t->n_mid) * t->w_scale;
        y[i] = 2 * q * q - 1;
    }
    for (int i = 0; i < STRIP; i += PIECE * LANES) {
        vector of[PIECE], b1[PIECE] = {{0}}, b2[PIECE] = {{0}};
        for (int v = 0; v < PIECE; v++) of[v] = *(const vector *)(y + i + v * LANES);
        for (int k = t->n_term - 1; k > 0; k--)
            for (int v = 0; v < PIECE; v++) {
                const vector next = t->term[k] + 2 * of[v] * b1[v] - b2[v];
                b2[v] = b1[v];
                b1[v] = next;
            }
        for (int v = 0; v < PIECE; v++) *(vector *)(w + i + v * LANES) = t->term[0] + of[v] * b1[v] - b2[v];
    }
    for (int i = 0; i < c->n; i++) {
        double m = c->m_first + i * c->cell_y_rad, value = c->sum[i] * c->factor * c->along_y[i];
        if (t->has_w) value /= w[i];
        c->out[i] = t->beyond > 0 || c->l * c->l + m * m < 1 ? value : NAN;
    }
}

extern const msi_column_simd_table MSI_CAT(msi_column_simd, _table, MSI_ISA);
const msi_column_simd_table MSI_CAT(msi_column_simd, _table, MSI_ISA) = {
    .screen_f32 = screen_column_f32,
    .screen_f64 = screen_column_f64,
    .spread_f32 = spread_column_f32,
    .spread_f64 = spread_column_f64,
    .taper = taper_column,
};

extern const msi_column_fft_table MSI_CAT(msi_column_fft, _table, MSI_ISA);
const msi_column_fft_table MSI_CAT(msi_column_fft, _table, MSI_ISA) = {.run_f32 = run_columns_f32,
                                                                       .run_f64 = run_columns_f64};
