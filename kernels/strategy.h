/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of gridders: method x strategy x backend. strategy.c owns it; gridder.c and the tests walk it. */
#ifndef MSI_KERNELS_STRATEGY_H
#define MSI_KERNELS_STRATEGY_H

#include "kernels/gridder.h"
#include "kernels/store/vis_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a plan is made for. */
typedef struct msi_plan_request {
    const msi_gridder_spec *spec;
    msi_precision precision;
    int n_image; /* real planes made, or degridded, together */
    int64_t n_sample, n_row;
    double w_min_lambda, w_max_lambda; /* of |w|; w_min > w_max: no samples */
    const msi_vis_store *store;        /* the samples; NULL where they are only foreseen */
    int64_t host_bytes;                /* host memory left for grids */
    int lasts;                         /* the plan serves several fillings of the store with one model */
} msi_plan_request;

/* Wall seconds that a stage adds. */
typedef struct msi_stage_times {
    double sort_s, grid_s, transform_s, correct_s, transfer_s;
} msi_stage_times;

/*
 * A method's decisions for some samples, and what it keeps between calls. Every strategy defines its own; a plan is
 * only ever given back to the strategy that made it.
 */
typedef struct msi_plan msi_plan;

typedef struct msi_strategy {
    const char *method, *name;
    msi_backend backend;
    /* 1 where this process can use the backend. */
    int (*available)(void);
    /*
     * Decide. Returned: *out, freed by the function below; report's plan figures, from width to estimate_s and the
     * bytes of grids and device.
     */
    int (*plan)(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
    void (*free)(msi_plan *plan);
    /*
     * Grid a store, transform, correct. Given: store_plane [image->n_plane], -1 for the PSF of plane 0; image->
     * sum_weight. Returned: image->pixel, divided by sum_weight; a plane whose sum is 0 is NaN. NULL: degrids only.
     */
    int (*image)(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                 msi_stage_times *times);
    /*
     * Degrid model (Jy/pixel, the plan's n_image planes and precision) at the store's coordinates into its
     * visibilities. The model stays the same over the life of a plan, so that what was made of it may be kept. NULL:
     * grids only.
     */
    int (*predict)(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times);
} msi_strategy;

/* msi_strategies - the table; *n entries, in the order in which AUTO prefers them. */
const msi_strategy *msi_strategies(int *n);

#ifdef __cplusplus
}
#endif
#endif
