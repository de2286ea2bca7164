/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The taper correction divides an image by the transforms of the gridding windows. All backends use its tables. The
 * functions at the end multiply columns of an image by w-screens, and correct them, on the CPU. */
#ifndef MSI_SCREEN_TAPER_H
#define MSI_SCREEN_TAPER_H

#include <stdint.h>

#include "core/image.h"
#include "core/types.h"
#include "kernels/method/geometry.h"
#include "kernels/transform/pswf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_TAPER_TERMS = 32 };

/* The correction of a pixel is a product of three factors. Those along x and y are tabulated; the one along w is
 * computed from a Chebyshev series. */
typedef struct msi_taper {
    double *along_x; /* [nx] 1 / transform, times the sign that centres the FFT */
    double *along_y; /* [ny] */
    int has_w;
    int n_term;                   /* number of terms of the Chebyshev series of the w window's transform in 2 q^2 - 1 */
    double term[MSI_TAPER_TERMS]; /* q = (n - 1 - n_mid) * w_scale in [-1, 1] */
    double w_scale, n_mid;
    double beyond; /* argument of msi_n_minus_1_to; 0: pixels beyond the horizon are NaN */
} msi_taper;

/*
 * msi_taper_make - tabulate the correction.
 * Given:    image, grid: the image and its padded grid with w-planes; window along u and v, w_window along w
 * Returned: *taper, freed by msi_taper_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_taper_make(msi_taper *taper, const msi_image_geometry *image, const msi_wgrid_geometry *grid,
                   const msi_pswf *window, const msi_pswf *w_window);

/* msi_taper_free - free the members and set *taper to zero; NULL-safe. */
void msi_taper_free(msi_taper *taper);

/* msi_taper_w - compute the factor along w, 1 / transform, of a pixel with the given n - 1, from members of
 * msi_taper. */
MSI_HD double msi_taper_w(const double *term, int n_term, double w_scale, double n_mid, double n_minus_1)
{
    double q = (n_minus_1 - n_mid) * w_scale, y = 2 * q * q - 1, b1 = 0, b2 = 0;
    for (int k = n_term - 1; k > 0; k--) {
        double b = term[k] + 2 * y * b1 - b2;
        b2 = b1;
        b1 = b;
    }
    return 1 / (term[0] + y * b1 - b2);
}

/* Loops over columns of an image, compiled once for each instruction set and chosen at run time. */

/* A column of the image has one l; row y is at m = m_center + (y - ny/2) cell_y_rad. The screen of a w-plane turns
 * pixels by w (n - 1 - n_mid). */
typedef struct msi_column_screen {
    double l, m_center, cell_y_rad;
    double w_lambda; /* w of the plane */
    double n_mid;
    double beyond; /* argument of msi_n_minus_1_to */
} msi_column_screen;

/* Add the screened transform of a plane's column to a column of the image. */
typedef struct msi_screen_column {
    const void *spectrum; /* [nv] msi_c32 or msi_c64: transform along v of the column */
    int64_t nv, ny;
    msi_column_screen screen;
    double *sum; /* [ny] accumulated: real part of spectrum * exp(-2 pi i w (n - 1 - n_mid)) */
} msi_screen_column;

/* Multiply a corrected column of the model by exp(2 pi i w (n - 1 - n_mid)), pad it with zeros and store it in reverse
 * order. */
typedef struct msi_spread_column {
    const void *model; /* [ny] float or double */
    int64_t nv, ny;
    msi_column_screen screen;
    void *out; /* [nv] msi_c32 or msi_c64: row y at (ny/2 - y) modulo nv */
} msi_spread_column;

enum { MSI_TAPER_STRIP = 32 };

/* Divide a part of a column of the image by the windows' transforms. */
typedef struct msi_taper_column {
    const double *sum;             /* [n] */
    int n;                         /* at most MSI_TAPER_STRIP */
    double l, m_first, cell_y_rad; /* m of element i is m_first + i cell_y_rad */
    double factor;                 /* 1 / (sum of weights), and the taper along x */
    const double *along_y;         /* [n] */
    const msi_taper *taper;
    double *out; /* [n] Jy/beam; NaN at and beyond the horizon, unless the taper goes beyond */
} msi_taper_column;

/* The functions of one instruction set. */
typedef struct msi_column_simd_table {
    void (*screen_f32)(const msi_screen_column *column);
    void (*screen_f64)(const msi_screen_column *column);
    void (*spread_f32)(const msi_spread_column *column);
    void (*spread_f64)(const msi_spread_column *column);
    void (*taper)(const msi_taper_column *column);
} msi_column_simd_table;

/* msi_column_simd - return the functions of the best instruction set (msi_simd_best). */
const msi_column_simd_table *msi_column_simd(void);

#ifdef __cplusplus
}
#endif
#endif
