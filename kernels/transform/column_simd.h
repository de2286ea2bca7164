/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Columns of an image meet the w-screen and the taper here on the CPU; compiled once for each instruction set and
 * chosen at run time.
 */
#ifndef MSI_KERNELS_COLUMN_SIMD_H
#define MSI_KERNELS_COLUMN_SIMD_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/transform/taper_correction.h"

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

#endif
