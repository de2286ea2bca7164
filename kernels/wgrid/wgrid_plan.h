/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Chooses window, padding and w-planes of the default gridder together, from the accuracy and a model of the cost. */
#ifndef MSI_KERNELS_WGRID_PLAN_H
#define MSI_KERNELS_WGRID_PLAN_H

#include "core/image.h"
#include "kernels/transform/pswf.h"
#include "kernels/method/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rounded rates of a backend, for choosing between plans that all reach the accuracy; only ratios matter. */
typedef struct msi_cost_model {
    double fft_flop_s; /* of whole 2D transforms */
    double pixel_s;    /* seconds a pixel and plane of the w-screen */
    double sample_s;   /* seconds a sample */
    double tap_s;      /* seconds a cell that a sample touches */
    int lanes;         /* complex cells that a row of taps is rounded up to */
} msi_cost_model;

typedef struct msi_wgrid_plan {
    msi_image_geometry image;
    msi_wgrid_geometry grid;
    msi_pswf window;   /* along u and v */
    msi_pswf w_window; /* along w; same width, its own oversampling */
    msi_precision precision;
    double error_estimate; /* relative L2 of the image: windows, rounding, phases */
    double cost_s;         /* the model's estimate for one image plane on one unit of the backend */
    double sample_cost_s;  /* of it, for samples */
} msi_wgrid_plan;

/*
 * msi_wgrid_plan_make - the cheapest plan that reaches the accuracy.
 *
 * Given: n_sample, |w| range in wavelengths (w_min > w_max: no samples)
 * Returns: 0, MSI_ERANGE (no window reaches the accuracy on a grid that 32-bit cells can index)
 * Notes: u, v and w errors add in squares; each axis is given its part of 0.7 accuracy. dw follows from the
 *        field's range of n - 1, centred: dw = 1 / (sigma_w (max - min of n - 1)).
 * Source: improved w-stacking is Ye, Gull, Tan & Nikolic 2022, w-gridding Arras et al. 2021.
 */
int msi_wgrid_plan_make(msi_wgrid_plan *plan, const msi_image_geometry *image, double accuracy, msi_precision precision,
                        double least_padding, int64_t n_sample, double w_min_lambda, double w_max_lambda,
                        const msi_cost_model *cost);

/* msi_wgrid_plan_make_width - the same with a window of least_width to most_width cells. */
int msi_wgrid_plan_make_width(msi_wgrid_plan *plan, int least_width, int most_width, const msi_image_geometry *image,
                              double accuracy, msi_precision precision, double least_padding, int64_t n_sample,
                              double w_min_lambda, double w_max_lambda, const msi_cost_model *cost);

/* msi_wgrid_plan_lay_tiles - the smallest tiles with which there are no more than most_buckets of tiles and planes. */
void msi_wgrid_plan_lay_tiles(msi_wgrid_plan *plan, int64_t most_buckets);

/* msi_precision_for - fp32 where its rounding stays well below the accuracy, else fp64. */
msi_precision msi_precision_for(double accuracy);

/* msi_fft_size - the even product of 2, 3, 5 and 7 from n to 1.06 n that a two-dimensional transform takes least for.
 */
int64_t msi_fft_size(int64_t n);

/* msi_field_n_range - least n - 1 in the field (its farthest corner, or -1 where the field reaches the horizon). */
double msi_field_n_range(const msi_image_geometry *image);

#ifdef __cplusplus
}
#endif
#endif
