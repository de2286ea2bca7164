/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The interface between the gridder and its methods: requests for plans, the functions of a strategy, and functions that
 * the plans of all methods use. */
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

/* A request says what a plan is made for; a plan does not keep it. */
typedef struct msi_plan_request {
    const msi_gridder_spec *spec;
    msi_precision precision;
    int n_image; /* real planes made, or degridded, together */
    int64_t n_sample, n_row;
    double w_min_lambda, w_max_lambda; /* of |w|; w_min > w_max: no samples */
    const struct msi_vis_store *store; /* the samples; NULL where they are only foreseen */
    int64_t host_bytes;                /* host memory left for grids */
    int keeps_model; /* the plan serves several fillings of the store with one model: keep what is made of it */
} msi_plan_request;

/* msi_plan_threads - return the threads of the host that a plan's work is spread over. */
int msi_plan_threads(const msi_plan_request *request);

/* Stages of an image or a prediction add their wall seconds to these. */
typedef struct msi_stage_times {
    double sort_s, grid_s, transform_s, correct_s, transfer_s;
} msi_stage_times;

/*
 * A job asks for images of a store's visibilities less those that a model predicts. Its pixels are of the plan's
 * precision and lie where the strategy works: in the memory of its device, or in the host's.
 */
typedef struct msi_residual_job {
    const struct msi_vis_store *store; /* the same in every job of a plan */
    int n_image;
    const int *store_plane;   /* [n_image] -1: the PSF of plane 0, from which nothing is subtracted */
    const double *sum_weight; /* [n_image] that images are divided by; 0: the image is NaN */
    const void *model;        /* [store planes][ny][nx] Jy/pixel; NULL: nothing is subtracted */
    void *pixel;              /* [n_image][ny][nx] Jy/beam, returned */
} msi_residual_job;

/*
 * A plan holds a method's decisions for some samples, and what it keeps between calls. Every strategy defines its own;
 * a plan is only ever given back to the strategy that made it.
 */
typedef struct msi_plan msi_plan;

typedef struct msi_strategy msi_strategy;

/* A share of a plan's work is as large as its device is fast, beside those of the others. */
typedef struct msi_share {
    int device; /* a GPU's CUDA ordinal */
    double speed;
} msi_share;

/*
 * The functions of a strategy. One table may serve several rows of strategies: plan() sees which one it is asked for.
 * Functions return 0 or a code of core/status.h and set its line.
 */
typedef struct msi_strategy_ops {
    /*
     * Decide. Given: strategy, the row. Returned: *out, freed by the function below; report's plan figures, from width
     * to estimate_s and the bytes of grids and device. Returns 0, MSI_ERANGE (no plan reaches what is asked; another
     * strategy may), MSI_ENOMEM, MSI_EGPU; *out is then as it was.
     */
    int (*plan)(msi_plan **out, const msi_strategy *strategy, const msi_plan_request *request,
                msi_gridder_report *report);
    void (*free)(msi_plan *plan); /* NULL-safe */
    /*
     * Grid a store, transform, correct. Given: store_plane [image->n_plane], -1 for the PSF of plane 0; image->
     * sum_weight. Returned: image->pixel, divided by sum_weight; a plane whose sum is 0 is NaN. Returns 0, MSI_ENOMEM,
     * MSI_EGPU, MSI_EINTERRUPTED. NULL: degrids only.
     */
    int (*image)(msi_plan *plan, const struct msi_vis_store *store, const int *store_plane, msi_image *image,
                 msi_stage_times *times);
    /*
     * Degrid model (Jy/pixel, the plan's n_image planes and precision) at the store's coordinates into its
     * visibilities. The model stays the same over the life of a plan, so that what was made of it may be kept. Returns
     * 0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED. NULL: grids only.
     */
    int (*predict)(msi_plan *plan, struct msi_vis_store *store, const msi_image *model, msi_stage_times *times);
    /*
     * Do a job, of a plan that was requested with spec.residual; any number of them. What is made of the store, such as
     * its order, is kept for the next one. Returns 0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED; the next job may follow
     * after any of them. NULL: cannot.
     */
    int (*residual)(msi_plan *plan, const msi_residual_job *job, msi_stage_times *times);
    /*
     * Make plans that do residual's jobs for a share of the samples each: over all shares the images add up.
     * Given: whole, the plan to share out, of a store; request, that plan's; share [n_share]. Returned: out [n_share],
     * those that were made before a failure. Returns 0, MSI_ENOMEM. NULL: samples cannot be shared so that transforms
     * are, too.
     */
    int (*share)(msi_plan **out, const msi_plan *whole, const msi_plan_request *request, const msi_share *share,
                 int n_share);
} msi_strategy_ops;

/* The method of msi_gridder_spec.method NULL, and the word that leaves msi_gridder_spec.strategy open as NULL does. */
#define MSI_METHOD_DEFAULT "wgrid"
#define MSI_STRATEGY_OPEN  "auto"

/* msi_strategy_is_open - return 1 where the choice of a strategy is left to the gridder. */
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
