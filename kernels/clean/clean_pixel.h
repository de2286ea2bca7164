/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Formulas for a pixel, shared by all backends. All backends must round in the same way. Therefore every multiply-add
 * is an explicit fma, and no other product is an operand of an addition, so that compilers cannot fuse them.
 */
#ifndef MSI_CLEAN_PIXEL_H
#define MSI_CLEAN_PIXEL_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define MSI_CLEAN_FN static __host__ __device__ __forceinline__
#else
#define MSI_CLEAN_FN static inline __attribute__((unused, always_inline))
#endif

/* Return a pixel's place as one word, y above x. Words sort in the order of pixels' indices. */
MSI_CLEAN_FN uint32_t msi_clean_place(uint32_t x, uint32_t y)
{
    return y << 16 | x;
}
MSI_CLEAN_FN uint32_t msi_clean_x(uint32_t place)
{
    return place & 0xffff;
}
MSI_CLEAN_FN uint32_t msi_clean_y(uint32_t place)
{
    return place >> 16;
}
#define MSI_CLEAN_NOWHERE 0xffffffffu

/* A grid of cells into which images of nx x ny pixels are divided; n_x or n_y 0: 1. */
typedef struct msi_clean_cells {
    uint32_t nx, ny, n_x, n_y;
} msi_clean_cells;

/* Return the cell of a place, which is at row y n_y / ny and column x n_x / nx. */
MSI_CLEAN_FN int msi_clean_cell_of(const msi_clean_cells *c, uint32_t place)
{
    return (int)(msi_clean_y(place) * c->n_y / c->ny * c->n_x + msi_clean_x(place) * c->n_x / c->nx);
}

/* Number of bins between a threshold and the peak, by which lists are cut. */
enum { MSI_CLEAN_BINS = 1024 };

/* The rule that joins planes into the searched quantity. share [n_channel] are w_c / sum w, in the planes' precision.
 * If n_row is not 0, share are [n_row][n_channel] factors, and the quantity is the root of the squares of n_row
 * sums. */
typedef struct msi_clean_join {
    int n_channel, n_pol;
    int squared;       /* channels are squared */
    int no_negative;   /* for a signed quantity */
    unsigned searched; /* bit p: polarisation p is searched; 0: all are */
    int n_row;         /* 0: one row, share */
} msi_clean_join;

/* Return 1 if components are searched for in a polarisation. */
MSI_CLEAN_FN int msi_clean_searched(const msi_clean_join *j, int pol)
{
    return !j->searched || (j->searched >> pol & 1);
}

/* Count the polarisations that are searched. */
MSI_CLEAN_FN int msi_clean_n_searched(const msi_clean_join *j)
{
    int n = 0;
    for (int p = 0; p < j->n_pol; p++) n += msi_clean_searched(j, p);
    return n;
}

/* Return 1 if the quantity has a sign: the sign of a component in the searched polarisation. */
MSI_CLEAN_FN int msi_clean_signed(const msi_clean_join *j)
{
    return !j->squared && !j->n_row && (j->searched ? !(j->searched & (j->searched - 1)) : j->n_pol == 1);
}

#define REAL     float
#define NAME(x)  x##_f32
#define FMA      fmaf
#define SQRT     sqrtf
#define FABS     fabsf
#define REAL_MAX FLT_MAX
#include "kernels/clean/clean_pixel_body.h"
#undef REAL
#undef NAME
#undef FMA
#undef SQRT
#undef FABS
#undef REAL_MAX

#define REAL     double
#define NAME(x)  x##_f64
#define FMA      fma
#define SQRT     sqrt
#define FABS     fabs
#define REAL_MAX DBL_MAX
#include "kernels/clean/clean_pixel_body.h"
#undef REAL
#undef NAME
#undef FMA
#undef SQRT
#undef FABS
#undef REAL_MAX

#endif
