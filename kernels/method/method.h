/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The interface between the gridder and its methods: requests for plans, the functions of a strategy, and functions
 * that the plans of all methods use. */
#ifndef MSI_METHOD_H
#define MSI_METHOD_H

#include <stdint.h>
#include <string.h>

#include "core/image.h"
#include "core/types.h"
#include "kernels/method/gridder_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

struct msi_vis_store;

/* A request for a plan; the plan does not keep it. */
typedef struct msi_plan_request {
    const msi_gridder_spec *spec;
    msi_precision precision;
    int n_image; /* real planes made, or degridded, together */
    int64_t n_sample, n_row;
    double w_min_lambda, w_max_lambda; /* range of |w|; w_min > w_max: no samples */
    const struct msi_vis_store *store; /* the samples; NULL if only their number is known */
    int64_t host_bytes;                /* host memory left for grids */
    int64_t paged_bytes;               /* host memory left if images are in files; 0: no array is in a file */
    int keeps_model; /* 1: the plan is used for several batches of samples with one model, and keeps everything derived
                        from the model */
} msi_plan_request;

/* msi_plan_threads - return the number of host threads that a plan uses. */
int msi_plan_threads(const msi_plan_request *request);

/* Wall seconds of the stages of an image or a prediction. */
typedef struct msi_stage_times {
    double sort_s, grid_s, transform_s, correct_s, transfer_s;
} msi_stage_times;

/* A job: images of a store's visibilities less those predicted from a model. Its pixels have the plan's precision and
 * are in the memory of the strategy's device, or in host memory for the CPU. */
typedef struct msi_residual_job {
    const struct msi_vis_store *store; /* the same in every job of a plan */
    int n_image;
    const int *store_plane;   /* [n_image] -1: the PSF of plane 0, from which nothing is subtracted */
    const double *sum_weight; /* [n_image] divisors of the images; 0: the image is NaN */
    const void *model;        /* [store planes][n_term][ny][nx] Jy/pixel; NULL: nothing is subtracted */
    void *pixel;              /* [n_image][ny][nx] Jy/beam, returned */
    /* With more than one term: images of one plane are consecutive, and so are the images of its PSF. */
    int n_term;       /* number of terms of the specification; 0: 1 */
    const int *power; /* [n_image] weights are multiplied by x^power; read if n_term > 1 */
    double reference_hz;
} msi_residual_job;

/* msi_residual_terms - return the number of terms of a job's model planes, at least 1. */
static inline int msi_residual_terms(const msi_residual_job *job)
{
    return job->n_term > 1 ? job->n_term : 1;
}

/* A plan holds a method's decisions for some samples, and the data that it keeps between calls. Every strategy defines
 * its own plan type, and only receives its own plans. */
typedef struct msi_plan msi_plan;

typedef struct msi_strategy msi_strategy;

/* A share of a plan's work, proportional to the relative speed of its device. */
typedef struct msi_share {
    int device; /* a GPU's CUDA ordinal */
    double speed;
} msi_share;

/*
 * The functions of a strategy. One table may serve several rows of strategies: plan() gets the row. Functions return 0
 * or a code of core/status.h and set the error line.
 */
typedef struct msi_strategy_ops {
    /*
     * Make a plan. Given: strategy, the row. Returned: *out, freed by the function below; the plan's figures in the
     * report, from width to estimate_s and the bytes of grids and device. Returns 0, MSI_ERANGE (no plan satisfies the
     * request; another strategy may), MSI_ENOMEM, MSI_EGPU; *out is then unchanged.
     */
    int (*plan)(msi_plan **out, const msi_strategy *strategy, const msi_plan_request *request,
                msi_gridder_report *report);
    void (*free)(msi_plan *plan); /* NULL-safe */
    /*
     * Grid a store, transform, correct. Given: store_plane [image->n_plane], -1 for the PSF of plane 0; image->
     * sum_weight. Returned: image->pixel, divided by sum_weight; a plane whose sum is 0 is NaN. Returns 0, MSI_ENOMEM,
     * MSI_EGPU, MSI_EINTERRUPTED. NULL: the strategy only degrids.
     */
    int (*image)(msi_plan *plan, const struct msi_vis_store *store, const int *store_plane, msi_image *image,
                 msi_stage_times *times);
    /*
     * Degrid model (Jy/pixel, the plan's n_image planes and precision) at the store's coordinates into its
     * visibilities. The model stays the same for the life of a plan, which may keep everything derived from it. Returns
     * 0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED. NULL: the strategy only grids.
     */
    int (*predict)(msi_plan *plan, struct msi_vis_store *store, const msi_image *model, msi_stage_times *times);
    /*
     * Run a job of a plan that was requested with spec.residual; any number of times. Everything derived from the
     * store, such as the order of samples, is kept for the next job. Returns 0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED;
     * another job may follow in any case. NULL: the strategy has no residuals.
     */
    int (*residual)(msi_plan *plan, const msi_residual_job *job, msi_stage_times *times);
    /*
     * Divide a plan into plans that each run the jobs of residual() for a share of the samples. The sum of their images
     * is the image. Given: whole, the plan to divide, made for a store; request, the request for that plan; share
     * [n_share]. Returned: out [n_share], including plans made before a failure. Returns 0, MSI_ENOMEM. NULL: samples
     * cannot be divided in such a way that transforms are divided too.
     */
    int (*share)(msi_plan **out, const msi_plan *whole, const msi_plan_request *request, const msi_share *share,
                 int n_share);
} msi_strategy_ops;

/* The method that is used if msi_gridder_spec.method is NULL, and the value of msi_gridder_spec.strategy that, like
 * NULL, lets the gridder choose. */
#define MSI_METHOD_DEFAULT "wgrid"
#define MSI_STRATEGY_OPEN  "auto"

/* msi_strategy_is_open - return 1 if the gridder is to choose the strategy. */
static inline int msi_strategy_is_open(const char *name)
{
    return !name || strcmp(name, MSI_STRATEGY_OPEN) == 0;
}

/* A row of the table of strategies. */
struct msi_strategy {
    const char *method, *name; /* static */
    msi_backend backend;
    const msi_strategy_ops *ops;
};

/* ---- Choices of plans: costs, precision, sizes of transforms, the range of n - 1 -------------------------------- */

/* Rounded rates of a backend, for choosing between plans that all reach the accuracy; only ratios matter. */
typedef struct msi_cost_model {
    double fft_flop_s; /* speed of whole 2D transforms */
    double pixel_s;    /* seconds for a pixel and plane of the w-screen */
    double sample_s;   /* seconds for a sample */
    double tap_s;      /* seconds for a cell that a sample touches */
    int lanes;         /* a row of taps is rounded up to this many complex cells */
    double plane_s;    /* seconds for a w-plane of any size */
} msi_cost_model;

/*
 * msi_precision_for - choose the precision of a plan for an accuracy.
 * Given:   accuracy  relative L2 error
 * Returns: MSI_FP32 if its rounding stays well below the accuracy, else MSI_FP64
 */
msi_precision msi_precision_for(double accuracy);

/*
 * msi_fft_size - return the padded size of an axis.
 * Returns: the even product of 2, 3, 5 and 7 from n to 1.06 n whose two-dimensional transform is fastest; the next one
 *          above if there is none
 */
int64_t msi_fft_size(int64_t n);

/*
 * msi_field_n_range - return the least n - 1 in the field, that of its farthest corner.
 * Returns: -1 <= n - 1 <= 0; -1 if the field reaches the horizon
 */
double msi_field_n_range(const msi_image_geometry *image);

/*
 * msi_field_n_span - find the least and largest n - 1 in a field whose pixel (nx/2, ny/2) lies in direction (l, m).
 * Given:    beyond  of msi_n_minus_1_to
 * Returned: *least, *most; n - 1 <= 0, and -1 <= n - 1 if beyond is 0
 */
void msi_field_n_span(const msi_image_geometry *image, double l, double m, double beyond, double *least, double *most);

#ifdef __cplusplus
}
#endif
#endif
