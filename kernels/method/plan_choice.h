/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every method's plan chooses with these: a model of the cost, sizes of transforms, the range of n - 1, a precision. */
#ifndef MSI_KERNELS_PLAN_CHOICE_H
#define MSI_KERNELS_PLAN_CHOICE_H

#include <stdint.h>

#include "core/image.h"
#include "core/types.h"

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
    double plane_s;    /* seconds that a w-plane takes whatever its size */
} msi_cost_model;

/*
 * msi_precision_for - the precision of a plan whose user leaves it open.
 * Given:   accuracy  relative L2 error
 * Returns: MSI_FP32 where its rounding stays well below the accuracy, else MSI_FP64
 */
msi_precision msi_precision_for(double accuracy);

/*
 * msi_fft_size - return the padded size of an axis.
 * Returns: the even product of 2, 3, 5 and 7 from n to 1.06 n whose two-dimensional transform takes least; the next one
 *          above where there is none
 */
int64_t msi_fft_size(int64_t n);

/*
 * msi_field_n_range - return the least n - 1 in the field, which is that of its farthest corner.
 * Returns: -1 <= n - 1 <= 0; -1 where the field reaches the horizon
 */
double msi_field_n_range(const msi_image_geometry *image);

/*
 * msi_field_n_span - find the least and largest n - 1 in a field whose pixel (nx/2, ny/2) lies in direction (l, m).
 * Returned: *least, *most; -1 <= n - 1 <= 0
 */
void msi_field_n_span(const msi_image_geometry *image, double l, double m, double *least, double *most);

#ifdef __cplusplus
}
#endif
#endif
