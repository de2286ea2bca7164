/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder as strategies: its plan, how many w-planes each backend holds, and what whole planes have in
 * common with w-towers. */
#ifndef MSI_KERNELS_WGRID_METHOD_H
#define MSI_KERNELS_WGRID_METHOD_H

#include "kernels/method/method.h"
#include "kernels/store/vis_store.h"
#include "kernels/wgrid/wgrid_plan.h"

/* Whole w-planes, both directions. */
extern const msi_strategy_ops msi_wgrid_cpu_ops;
extern const msi_strategy_ops msi_wgrid_cuda_ops; /* in builds with CUDA */

/* The functions of a strategy of the default gridder on a backend; all but the plan's are given a plan that is made. */
typedef struct msi_wgrid_form {
    int (*image)(const msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                 msi_stage_times *times);
    /* *model_cache: the form's own, NULL at first, for the next call with the same model; freed by forget_model.
     * model_cache itself NULL: nothing is kept. */
    int (*predict)(const msi_plan *plan, msi_vis_store *store, const msi_image *model, void **model_cache,
                   msi_stage_times *times);
    void (*forget_model)(void *model_cache);
    /* *samples: the form's own, NULL at first, what is made of the store for the next job; freed by forget_samples. */
    int (*residual)(const msi_plan *plan, const msi_residual_job *job, void **samples, msi_stage_times *times);
    void (*forget_samples)(void *samples);
} msi_wgrid_form;

/* The plans of whole planes and of w-towers begin with this. */
struct msi_plan {
    msi_wgrid_plan wgrid;
    const msi_wgrid_form *form;
    int64_t n_resident; /* planes that are in memory at once, as the form counts them */
    int keeps_model;
    void *model_cache, *samples;
};

/* msi_wgrid_plan_free, msi_wgrid_image, msi_wgrid_predict, msi_wgrid_residual - functions of msi_strategy_ops, by the
 * plan's form. */
void msi_wgrid_plan_free(msi_plan *plan);
int msi_wgrid_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                    msi_stage_times *times);
int msi_wgrid_predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times);
int msi_wgrid_residual(msi_plan *plan, const msi_residual_job *job, msi_stage_times *times);

/* msi_wgrid_cpu_residual, msi_wgrid_cpu_forget_samples - serve any form on the CPU, by its other functions: the samples
 * are put in order once. */
int msi_wgrid_cpu_residual(const msi_plan *plan, const msi_residual_job *job, void **samples, msi_stage_times *times);
void msi_wgrid_cpu_forget_samples(void *samples);

/* msi_wgrid_cpu_samples_bytes - count host bytes of a request's samples' order, and of what residuals keep of them. */
int64_t msi_wgrid_cpu_samples_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request);

#endif
