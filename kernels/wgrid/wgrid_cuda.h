/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder on an NVIDIA GPU, gridding and degridding. */
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
 * msi_wgrid_cuda_check - check that the kernels can number a plan's w-planes and the cells of one plane.
 * Returns: 0, MSI_ERANGE
 */
int msi_wgrid_cuda_check(const msi_wgrid_plan *plan);

/*
 * msi_wgrid_cuda_bytes - find the memory for a request with n_resident w-planes: *host bytes of host memory in addition
 * to the store, *device bytes of device memory. msi_wgrid_cuda_image_bytes - return the images' part of the latter.
 * msi_wgrid_cuda_resident - compute the number of w-planes that fit in the free memory of the plan's device: at least
 * 1, at most all.
 * Returns: 0, MSI_EGPU
 */
int msi_wgrid_cuda_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t n_resident, int64_t *host,
                         int64_t *device);
int64_t msi_wgrid_cuda_image_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request);
int msi_wgrid_cuda_resident(const msi_wgrid_plan *plan, const msi_plan_request *request, int64_t *n);

/* msi_wgrid_cuda_image - msi_wgrid_cpu_image on the GPU; also returns MSI_EGPU. Samples are sorted once for all images
 * if the device can hold them all. */
int msi_wgrid_cuda_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane,
                         int64_t n_resident, msi_image *image, msi_stage_times *times);

/*
 * msi_wgrid_cuda_residual - do a job whose pixels are on the plan's device; see msi_strategy_ops.
 * Given and returned: *kept  NULL at first; then sorted samples, planes and transforms for the next call with the same
 *                            store. Freed by msi_wgrid_cuda_free_samples
 * Returns:            0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 */
int msi_wgrid_cuda_residual(const msi_wgrid_plan *plan, const msi_residual_job *job, int64_t n_resident, void **kept,
                            msi_stage_times *times);
/* msi_wgrid_cuda_free_samples - free what residuals of whole planes or of w-towers keep; NULL-safe. */
void msi_wgrid_cuda_free_samples(void *kept);

/* msi_wgrid_cuda_predict - msi_wgrid_cpu_predict on the GPU; also returns MSI_EGPU. */
int msi_wgrid_cuda_predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident,
                           void **kept, msi_stage_times *times);
void msi_wgrid_cuda_free_model(void *kept);

/*
 * Arguments of the degridding kernels for samples that gridding has sorted, to subtract a model. The kernels are
 * compiled only in the files that predict. The arrays are on the device, with the types of wgrid_cuda_kernels.cuh in
 * the plan's precision.
 */

typedef struct msi_wgrid_degrid_call {
    const msi_wgrid_plan *plan;
    const void *taps, *host_taps; /* tap_table, on the device and on the host */
    const void *samples;          /* placed, sorted */
    const void *crowded, *sparse; /* items of gridding */
    int64_t n_crowded, n_sparse;
    const void *cells; /* cells of the planes of one image of a model */
    void *value;       /* complex numbers in the samples' order, with the same phase factor as the samples' values */
    int adds;          /* 1: add to the values, which contain the sums over other planes */
    void *stream;      /* stream of the launches */
} msi_wgrid_degrid_call;

/* msi_wgrid_degrid_whole - begin to degrid from planes [low, high) of whole grids. Returns: 0, MSI_EGPU */
int msi_wgrid_degrid_whole(const msi_wgrid_degrid_call *call, int low, int high);

#ifdef __cplusplus
}
#endif
#endif
