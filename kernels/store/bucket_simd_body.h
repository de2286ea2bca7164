/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One precision of adding a buffer to the grid; included by bucket_simd.c with REAL, CPLX and SUFFIX set. */

static void NAME(flush_buffer)(CPLX *buffer, int64_t n_row, int64_t n_cell, int64_t pitch, CPLX *grid, int64_t stride)
{
    for (int64_t row = 0; row < n_row; row++) {
        REAL *from = (REAL *)(buffer + row * pitch), *to = (REAL *)(grid + row * stride);
        for (int64_t i = 0; i < 2 * n_cell; i++) {
            to[i] += from[i];
            from[i] = 0;
        }
    }
}
