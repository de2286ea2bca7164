/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A plan of w-projection: padding and taper, slices and planes of w, and form, support and oversampling of the kernels.
 * All are chosen together from the accuracy, the memory and a cost model. */
#ifndef MSI_WPROJ_PLAN_H
#define MSI_WPROJ_PLAN_H

#include "core/image.h"
#include "kernels/method/gridder_spec.h"
#include "kernels/method/method.h"
#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/job/wproj_geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msi_wproj_form { MSI_WPROJ_FORM_AUTO, MSI_WPROJ_FORM_SEPARABLE, MSI_WPROJ_FORM_FULL } msi_wproj_form;
typedef enum msi_wproj_spacing {
    MSI_WPROJ_SPACING_AUTO,
    MSI_WPROJ_SPACING_SQRT,
    MSI_WPROJ_SPACING_EVEN
} msi_wproj_spacing;

/* The rates of a backend, rounded. Only their ratios matter. */
typedef struct msi_wproj_cost {
    msi_cost_model base; /* tap_s: of a separable kernel */
    double full_tap_s;   /* seconds per cell that a sample touches with a full kernel */
    double table_s;      /* seconds per multiply-add when kernels are computed */
    double slice_s;      /* seconds per slice of w, independent of its content */
} msi_wproj_cost;

/* The request for a plan. The plan chooses members that are AUTO or 0. */
typedef struct msi_wproj_request {
    msi_image_geometry image;
    double accuracy; /* accuracy of the image relative to its peak, of predicted visibilities relative to their rms */
    msi_precision precision;
    double least_padding;
    int n_image;                       /* images from one set of kernels */
    int64_t n_sample;                  /* number of samples of each image */
    double w_min_lambda, w_max_lambda; /* range of |w|; w_min > w_max: no samples */
    int64_t table_bytes;               /* memory that the kernels may take; 0: 1 GiB */
    msi_wproj_form form;
    msi_wproj_spacing spacing;
    msi_kernel_lookup lookup;
    int full_nearest;   /* 1: the strategy does not interpolate full kernels, but may interpolate separable ones */
    int32_t n_slice;    /* number of slices of w, each with its own grid and transform */
    int32_t oversample; /* even */
    const msi_wproj_cost *cost; /* borrowed for the call */
} msi_wproj_request;

/* The relative errors of a sample's response by source, at the worst place of the image and the worst fraction of a
 * cell. */
typedef struct msi_wproj_errors {
    double cut;       /* truncation of kernels, including the taper's aliasing */
    double sub_cell;  /* rounding to sub-offsets, or interpolation between them */
    double plane;     /* rounding of w to a plane */
    double separable; /* cross terms of n - 1 that separable kernels omit */
    double rounding;  /* floating-point rounding */
} msi_wproj_errors;

typedef struct msi_wproj_plan {
    msi_image_geometry image;
    msi_wproj_geometry grid;
    msi_pswf pswf_u, pswf_v;
    msi_wkernel_form form;
    msi_precision precision;
    int texture;       /* 1: texture units interpolate */
    double truncation; /* limit of the relative truncation error; errors.cut is the actual one */
    int32_t *half;     /* [grid.n_plane] half-supports; owned */
    int32_t half_max;
    int32_t tile; /* edge of a CPU tile in cells: footprints of a tile reach only its neighbours */
    msi_wproj_errors errors;
    double error_estimate; /* root of the sum of the squares of the five errors */
    int64_t table_bytes;   /* bytes of the tables of the kernels */
    double cost_s;         /* the model's estimate for n_image images on one unit of the backend */
} msi_wproj_plan;

/*
 * msi_wproj_plan_make - find the cheapest plan that reaches the accuracy.
 *
 * Given:    request  borrowed for the call
 * Returned: *plan, freed by msi_wproj_plan_free
 * Returns:  0, MSI_ERANGE (kernels of this accuracy would not fit the memory, or no kernel reaches it), MSI_ENOMEM
 * Notes:    The errors are, with x and y the image's edge in cycles per cell:
 *           sub-cell, nearest       pi (x + y) / oversample
 *           sub-cell, linear        (2 pi)^2 (x^2 + y^2) / (12 oversample^2), after division by the mean amplitude
 *           sub-cell, texture       pi (x + y) / (256 oversample) more, from rounding fractions to 1/256
 *           plane                   pi dw |n - 1|max / 2, with dw the distance between planes; it is 0 at the middle
 *                                   of the range of n - 1
 *           separable               2 pi |r|max times msi_wkernel_separable_error
 *           cut                     measured for the kernel of each plane (msi_wkernel_supports)
 *           Each bounds one part of the error of the response to a single sample; the total is at most their sum. The
 *           estimate, the root of the sum of squares, is for images of many samples with different fractions. It is
 *           several times too large for them.
 */
int msi_wproj_plan_make(msi_wproj_plan *plan, const msi_wproj_request *request);

/* msi_wproj_plan_free - free the plan's memory and set it to zero. Does nothing if it is zero already. */
void msi_wproj_plan_free(msi_wproj_plan *plan);

/*
 * msi_wproj_kernel_spec - fill in the specification of the plan's kernels.
 * Returned: *spec, with pointers into the plan and to *w_lambda [n_plane], which the caller frees with msi_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_wproj_kernel_spec(const msi_wproj_plan *plan, msi_wkernel_spec *spec, double **w_lambda);

/*
 * msi_wproj_factors - compute the factors 1 / taper along x (axis 0) or y (axis 1).
 * Returned: *factor [nx or ny], freed by msi_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_wproj_factors(const msi_wproj_plan *plan, int axis, double **factor);

/* The strategies of w-projection. */

/* On the CPU. "tile" is vectorised; the others are plain loops. */
extern const msi_strategy_ops msi_wproj_cpu_ops;         /* strategies "tile" and "window" */
extern const msi_strategy_ops msi_wproj_cpu_predict_ops; /* strategies "gather" and "scatter", which only degrid */

/* In builds with CUDA. */
extern const msi_strategy_ops msi_wproj_cuda_ops;         /* strategy "window" */
extern const msi_strategy_ops msi_wproj_cuda_image_ops;   /* strategy "tile", which only grids */
extern const msi_strategy_ops msi_wproj_cuda_predict_ops; /* strategies "gather" and "scatter" */

#ifdef __cplusplus
}
#endif
#endif
