/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This has one precision of what w-towers do with cells of their subgrids; it is included by wgrid_simd.c after
 * wgrid_simd_body.h. */

static void NAME(gather_cells)(CPLX *restrict cell, const CPLX *restrict screen, REAL sign, int64_t n,
                               CPLX *restrict sum)
{
    for (int64_t i = 0; i < n; i++) {
        REAL re = screen[i].re, im = sign * screen[i].im;
        sum[i].re += cell[i].re * re - cell[i].im * im;
        sum[i].im += cell[i].re * im + cell[i].im * re;
        cell[i] = (CPLX){0, 0};
    }
}

static void NAME(turn_cells)(const CPLX *restrict cell, const CPLX *restrict screen, REAL sign, int64_t n,
                             CPLX *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        REAL re = screen[i].re, im = sign * screen[i].im;
        out[i].re = cell[i].re * re - cell[i].im * im;
        out[i].im = cell[i].re * im + cell[i].im * re;
    }
}
