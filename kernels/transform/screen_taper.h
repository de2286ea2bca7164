/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The taper correction divides the windows' transforms out of an image; the backends share it. */
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

/* A pixel's correction is made of factors along x and y, and a Chebyshev series along w. */
typedef struct msi_taper {
    double *along_x; /* [nx] 1 / transform, times the sign that centres the FFT */
    double *along_y; /* [ny] */
    int has_w;
    int n_term;                   /* of the series of the w window's transform in 2 q^2 - 1, */
    double term[MSI_TAPER_TERMS]; /* q = (n - 1 - n_mid) * w_scale in [-1, 1] */
    double w_scale, n_mid;
} msi_taper;

/*
 * msi_taper_make - tabulate the factors that undo the windows.
 * Given:    image, grid: the image and its padded grid with w-planes; window along u and v, w_window along w
 * Returned: *taper, freed by msi_taper_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_taper_make(msi_taper *taper, const msi_image_geometry *image, const msi_wgrid_geometry *grid,
                   const msi_pswf *window, const msi_pswf *w_window);

/* msi_taper_free - free the members, NULL-safe; *taper is then zero. */
void msi_taper_free(msi_taper *taper);

/* msi_taper_w - compute the factor along w of a pixel whose n - 1 is given, 1 / transform; msi_taper has the others. */
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

/*
 * Columns of an image meet the w-screen and the taper here on the CPU; compiled once for each instruction set and
 * chosen at run time.
 */

/* A column of the image is at one l; row y at m = m_center + (y - ny/2) cell_y_rad. A w-plane's screen turns it by
 * w (n - 1 - n_mid). */
typedef struct msi_column_screen {
    double l, m_center, cell_y_rad;
    double w_lambda; /* of the plane */
    double n_mid;
} msi_column_screen;

/* A column of the image (one l, every m) adds up the w-screened transforms of the planes' columns. */
typedef struct msi_screen_column {
    const void *spectrum; /* [nv] msi_c32 or msi_c64: transform along v of the column */
    int64_t nv, ny;
    msi_column_screen screen;
    double *sum; /* [ny] accumulated: real part of spectrum * exp(-2 pi i w (n - 1 - n_mid)) */
} msi_screen_column;

/* A tapered column of the model is multiplied by exp(2 pi i w (n - 1 - n_mid)), padded with zeros and read backwards.
 */
typedef struct msi_spread_column {
    const void *model; /* [ny] float or double */
    int64_t nv, ny;
    msi_column_screen screen;
    void *out; /* [nv] msi_c32 or msi_c64: row y at (ny/2 - y) modulo nv */
} msi_spread_column;

enum { MSI_TAPER_STRIP = 32 };

/* A piece of a column of the image is divided by the windows' transforms: by the factors of msi_taper. */
typedef struct msi_taper_column {
    const double *sum;             /* [n] */
    int n;                         /* at most MSI_TAPER_STRIP */
    double l, m_first, cell_y_rad; /* m of element i is m_first + i cell_y_rad */
    double factor;                 /* 1 / (sum of weights), and the taper along x */
    const double *along_y;         /* [n] */
    const msi_taper *taper;
    double *out; /* [n] Jy/beam; NaN at and beyond the horizon */
} msi_taper_column;

/* One instruction set's functions. */
typedef struct msi_column_simd_table {
    void (*screen_f32)(const msi_screen_column *column);
    void (*screen_f64)(const msi_screen_column *column);
    void (*spread_f32)(const msi_spread_column *column);
    void (*spread_f64)(const msi_spread_column *column);
    void (*taper)(const msi_taper_column *column);
} msi_column_simd_table;

/* msi_column_simd - return the table of the instruction set that msi_simd_best names. */
const msi_column_simd_table *msi_column_simd(void);

#ifdef __cplusplus
}
#endif
#endif
