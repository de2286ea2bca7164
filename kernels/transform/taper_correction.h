/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The taper correction divides the windows' transforms out of an image; the backends share it. */
#ifndef MSI_KERNELS_TAPER_CORRECTION_H
#define MSI_KERNELS_TAPER_CORRECTION_H

#include "core/image.h"
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

#ifdef __cplusplus
}
#endif
#endif
