/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder's strategies: the plan, the number of w-planes that each backend holds, and functions that whole
 * planes and w-towers share. */
#ifndef MSI_KERNELS_WGRID_METHOD_H
#define MSI_KERNELS_WGRID_METHOD_H

#include "kernels/method/method.h"
#include "kernels/store/vis_store.h"
#include "kernels/wgrid/wgrid_plan.h"

/* Whole w-planes, imaging and predicting. */
extern const msi_strategy_ops msi_wgrid_cpu_ops;
extern const msi_strategy_ops msi_wgrid_cuda_ops; /* in builds with CUDA */

/* The functions of one strategy of the default gridder on one backend. */
typedef struct msi_wgrid_form {
    int (*image)(const msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                 msi_stage_times *times);
    /* *model_cache is NULL at first, and then holds data for the next call with the same model, freed by free_model.
     * model_cache itself NULL: nothing is kept. */
    int (*predict)(const msi_plan *plan, msi_vis_store *store, const msi_image *model, void **model_cache,
                   msi_stage_times *times);
    void (*free_model)(void *model_cache);
    /* *samples is NULL at first, and then holds data made from the store for the next job, freed by free_samples. */
    int (*residual)(const msi_plan *plan, const msi_residual_job *job, void **samples, msi_stage_times *times);
    void (*free_samples)(void *samples);
} msi_wgrid_form;

/* The first part of the plans of whole planes and of w-towers. */
struct msi_plan {
    msi_wgrid_plan wgrid;
    const msi_wgrid_form *form;
    int64_t n_resident; /* planes in memory, as the form counts them */
    int keeps_model;
    void *model_cache, *samples;
};

/* msi_wgrid_plan_free, msi_wgrid_image, msi_wgrid_predict, msi_wgrid_residual - the functions of msi_strategy_ops,
 * which call the plan's form. */
void msi_wgrid_plan_free(msi_plan *plan);
int msi_wgrid_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                    msi_stage_times *times);
int msi_wgrid_predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times);
int msi_wgrid_residual(msi_plan *plan, const msi_residual_job *job, msi_stage_times *times);

/* msi_wgrid_cpu_residual, msi_wgrid_cpu_free_samples - serve any form on the CPU, by its other functions. The samples
 * are sorted once. */
int msi_wgrid_cpu_residual(const msi_plan *plan, const msi_residual_job *job, void **samples, msi_stage_times *times);
void msi_wgrid_cpu_free_samples(void *samples);

/* msi_wgrid_cpu_samples_bytes - return the host bytes of a request's sorted samples, and of the copies that residuals
 * keep. */
int64_t msi_wgrid_cpu_samples_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request);

#endif
