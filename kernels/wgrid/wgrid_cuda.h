/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder on an NVIDIA GPU. */
#ifndef MSI_WGRID_CUDA_H
#define MSI_WGRID_CUDA_H

#include "kernels/method/method.h"
#include "kernels/store/vis_store.h"
#include "kernels/wgrid/wgrid_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const msi_cost_model msi_wgrid_cuda_cost;

/*
 * msi_wgrid_cuda_check - tell whether the kernels can number a plan's w-planes and the cells of one.
 * Returns: 0, MSI_ERANGE
 */
int msi_wgrid_cuda_check(const msi_wgrid_plan *plan);

/*
 * msi_wgrid_cuda_bytes - *host bytes of host memory beside the store and *device bytes of device memory for what a
 * request asks, with n_resident w-planes held. msi_wgrid_cuda_image_bytes - of the latter, those of images.
 * msi_wgrid_cuda_resident - how many w-planes fit the free memory of the plan's device: at least 1, at most all.
 * Returns: 0, MSI_EGPU
 */
int msi_wgrid_cuda_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t n_resident, int64_t *host,
                         int64_t *device);
int64_t msi_wgrid_cuda_image_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request);
int msi_wgrid_cuda_resident(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t *n);

/* msi_wgrid_cuda_image - do as msi_wgrid_cpu_image; also MSI_EGPU. Samples are put in order once for all
 * images, if the device holds them all. */
int msi_wgrid_cuda_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane,
                         int64_t n_resident, msi_image *image, msi_stage_times *times);

/*
 * msi_wgrid_cuda_residual - do a job with pixels on the plan's device; see msi_strategy_ops.
 * Given and returned: *kept  NULL at first; samples in order, planes and transforms, for the next call with the same
 *                     store. Freed by msi_wgrid_cuda_forget_samples
 * Returns:            0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 */
int msi_wgrid_cuda_residual(const msi_wgrid_plan *plan, const msi_residual_job *job, int64_t n_resident, void **kept,
                            msi_stage_times *times);
/* msi_wgrid_cuda_forget_samples - free what residuals keep, of whole planes or of w-towers; NULL is fine. */
void msi_wgrid_cuda_forget_samples(void *kept);

/* msi_wgrid_cuda_predict - do as msi_wgrid_cpu_predict; also MSI_EGPU. */
int msi_wgrid_cuda_predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident,
                           void **kept, msi_stage_times *times);
void msi_wgrid_cuda_forget(void *kept);

/*
 * The degridding kernels, called with samples that somebody else has put in order: gridders that subtract a model. The
 * kernels are compiled once, with the predictions; what they are given lies on the device and has the types of
 * wgrid_cuda_kernels.cuh in the plan's precision.
 */

typedef struct msi_wgrid_degrid_call {
    const msi_wgrid_plan *plan;
    const void *taps, *host_taps; /* tap_table, on the device and on the host */
    const void *samples;          /* placed, in order */
    const void *crowded, *sparse; /* items of gridding */
    int64_t n_crowded, n_sparse;
    const void *cells; /* of the planes of one image of a model */
    void *value;       /* complex numbers in the samples' order, and turned as their values are */
    int adds;          /* to the values, which other planes have begun */
    void *stream;      /* where it is launched */
} msi_wgrid_degrid_call;

/* msi_wgrid_degrid_whole - begin to degrid from planes [low, high) of whole grids. Returns: 0, MSI_EGPU */
int msi_wgrid_degrid_whole(const msi_wgrid_degrid_call *call, int low, int high);

#ifdef __cplusplus
}
#endif
#endif
