/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wgrid/wgrid_cuda.h"

/* Rates of one H200, rounded, of what msimage-bench prints of rows plan/; only ratios matter. Whole transforms are
 * cuFFT's. A sample's time has its sort in it; tensor cores make taps cheap. A plane takes the
 * starts of its kernels at least, which is nearly all there is to small images. */
const msi_cost_model msi_wgrid_cuda_cost = {
    .fft_flop_s = 5.5e12, .pixel_s = 7e-12, .sample_s = 9e-11, .tap_s = 2e-13, .lanes = 4, .plane_s = 1.1e-5};
