/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-towers on an NVIDIA GPU, gridding and degridding. */
#ifndef MSI_KERNELS_WGRID_TOWER_CUDA_H
#define MSI_KERNELS_WGRID_TOWER_CUDA_H

#include "kernels/towers/tower_plan.h"
#include "kernels/method/method.h"
#include "kernels/wgrid/wgrid_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const msi_tower_cost msi_wgrid_tower_cuda_cost;

/*
 * msi_wgrid_tower_cuda_tiles - set a plan's tiles for the GPU, before its towers are planned.
 * Returns: 0, MSI_ERANGE (more tiles and planes than sort keys can number)
 */
int msi_wgrid_tower_cuda_tiles(msi_wgrid_plan *plan);

/*
 * msi_wgrid_tower_cuda_small - choose the number of small planes in memory: at least those of one subgrid.
 * Returned: *n
 * Returns:  0, MSI_EGPU
 */
int msi_wgrid_tower_cuda_small(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int64_t *n);

/*
 * msi_wgrid_tower_cuda_whole - choose the number of whole planes in memory: those of all towers and n_image images if
 * they last for several batches that are degridded, and take at most a third of the device's free memory; otherwise
 * one.
 * Returned: *n
 * Returns:  0, MSI_EGPU
 */
int msi_wgrid_tower_cuda_whole(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_image, int lasts,
                               int64_t *n);

/*
 * msi_wgrid_tower_cuda_bytes - find the memory for a request with n_small small planes: *host bytes of host memory in
 * addition to the store, *device bytes of device memory.
 * Returns: 0, MSI_EGPU
 */
int msi_wgrid_tower_cuda_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers,
                               const msi_plan_request *request, int64_t n_small, int64_t *host, int64_t *device);

/*
 * msi_wgrid_tower_cuda_image - grid, transform and correct, n_small small planes at a time; see msi_strategy_ops.
 * Returns: 0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 * Notes:   summation order varies from run to run.
 */
int msi_wgrid_tower_cuda_image(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_vis_store *store,
                               const int *store_plane, int64_t n_small, msi_image *image, msi_stage_times *times);

/* msi_wgrid_tower_cuda_residual - msi_wgrid_cuda_residual with towers. */
int msi_wgrid_tower_cuda_residual(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_residual_job *job,
                                  int64_t n_small, void **kept, msi_stage_times *times);
void msi_wgrid_tower_cuda_free_samples(void *kept);

/*
 * msi_wgrid_tower_cuda_degrid - begin to degrid sorted samples from small planes.
 * Given:   call    the planes' cells and the items of their subgrids
 *          planes  their small_planes, of wgrid_tower_cuda_stacks.cuh
 * Returns: 0, MSI_EGPU
 */
int msi_wgrid_tower_cuda_degrid(const msi_wgrid_degrid_call *call, const void *planes);

/*
 * msi_wgrid_tower_cuda_predict - the transpose; see msi_wgrid_cuda_predict. If kept is not NULL, it holds the number of
 * whole planes that msi_wgrid_tower_cuda_whole chooses.
 */
int msi_wgrid_tower_cuda_predict(const msi_wgrid_plan *plan, const msi_tower_plan *towers, msi_vis_store *store,
                                 const msi_image *model, int64_t n_small, void **kept, msi_stage_times *times);
void msi_wgrid_tower_cuda_free_model(void *kept);

#ifdef __cplusplus
}
#endif
#endif
