/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The window with which the default gridder spreads a sample over cells: the prolate spheroidal wave function of order
 * 0, cut to its support.
 *
 * Among all functions with a given support it has the least energy outside a given band (Slepian & Pollak 1961). The
 * energy at the repeats of the image is the gridder's error. For width >= 6 the error is about half that of an
 * exponential-of-semicircle window with the same width (tests/kernels/transform/test_pswf.c measures it).
 */
#ifndef MSI_KERNELS_PSWF_H
#define MSI_KERNELS_PSWF_H

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_PSWF_MIN_WIDTH = 2, MSI_PSWF_MAX_WIDTH = 16, MSI_PSWF_MAX_COEF = 20, MSI_PSWF_MAX_SERIES = 64 };

/*
 * t is in cells from the sample; the support is |t| <= width/2; the value at t = 0 is 1. Frequencies x are in cycles a
 * cell; the image covers |x| <= 1/(2 sigma).
 */
typedef struct msi_pswf {
    int width;
    double sigma;                                       /* the oversampling that the window was made for */
    int n_coef;                                         /* coefficients of a tap's polynomial: degree + 1 */
    double coef[MSI_PSWF_MAX_COEF][MSI_PSWF_MAX_WIDTH]; /* [power, highest first][tap] in z of msi_first_tap */
    int n_series; /* even Legendre series of the window on its support scaled to [-1, 1] */
    double series[MSI_PSWF_MAX_SERIES];
    double transform_at_0; /* integral of the window over t */
    double omega_per_x;    /* transform(x) = transform_at_0 * series(omega_per_x * x): both have the same shape */
} msi_pswf;

/*
 * msi_pswf_make - make the window of a width for a grid oversampled sigma times.
 * Given:   width 2..16, sigma > 1
 * Returns: 0, MSI_ERANGE
 */
int msi_pswf_make(msi_pswf *window, int width, double sigma);

/* msi_pswf_n_coef - return the number of coefficients of a tap's polynomial at this width. Compiled kernels unroll over
 * them. */
static inline int msi_pswf_n_coef(int width)
{
    return width < 6 ? width + 3 : width + 2;
}

/* msi_pswf_value - evaluate the window at t cells from the sample (0 outside the support). */
double msi_pswf_value(const msi_pswf *window, double t);

/* msi_pswf_transform - evaluate the window's Fourier transform at x cycles a cell, |x| <= 1/(2 sigma). Images are
 * divided by it. */
double msi_pswf_transform(const msi_pswf *window, double x);

/*
 * msi_pswf_error - estimate the error of a sample of unit amplitude along one axis. At image position x its rms, over
 * positions of the sample in a cell, is e(x) = sqrt(sum_{k != 0} (transform(x + k) / transform(x))^2).
 * Returns: the largest e over |x| <= 1/(2 sigma), which is at the edge
 * Notes:   the mean over the image is several times smaller. The edge is important for the axis n - 1, because the
 *          phase centre is at its edge.
 */
double msi_pswf_error(const msi_pswf *window);

/*
 * msi_pswf_amplification - estimate how much the correction amplifies rounding along one axis: the ratio of the
 * relative noise in the corrected image to the grid's, sqrt(mean over |x| < 1/2 of transform^2) times 1 / transform.
 * Returned: *rms over the image, *edge at |x| = 1/(2 sigma)
 */
void msi_pswf_amplification(const msi_pswf *window, double *rms, double *edge);

/*
 * msi_pswf_least_sigma - find the smallest oversampling at which a width reaches an error on one axis; HUGE_VAL if no
 * oversampling up to 2.5 does.
 */
double msi_pswf_least_sigma(int width, double error);

#ifdef __cplusplus
}
#endif
#endif
