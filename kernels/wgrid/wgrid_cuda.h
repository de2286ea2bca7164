/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder on an NVIDIA GPU. */
#ifndef MSI_KERNELS_WGRID_CUDA_H
#define MSI_KERNELS_WGRID_CUDA_H

#include "kernels/wgrid/wgrid_cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const msi_cost_model msi_wgrid_cuda_cost;

/*
 * msi_wgrid_cuda_check - whether the kernels can number a plan's w-planes and the cells of one.
 * Returns: 0, MSI_ERANGE
 */
int msi_wgrid_cuda_check(const msi_wgrid_plan *plan);

/*
 * msi_wgrid_cuda_bytes - *host bytes of host memory beside the store and *device bytes of device memory, for n_sample
 * samples and n_image images with n_resident w-planes held.
 * msi_wgrid_cuda_resident - how many w-planes fit the free memory of the plan's device: at least 1, at most all.
 */
void msi_wgrid_cuda_bytes(const msi_wgrid_plan *plan, int64_t n_sample, int n_image, int64_t n_resident, int64_t *host,
                          int64_t *device);
int64_t msi_wgrid_cuda_resident(const msi_wgrid_plan *plan, int n_image, int64_t n_sample, int64_t host_bytes);

/* msi_wgrid_cuda_image - as msi_wgrid_cpu_image; also MSI_EGPU. All image planes in one pass while they fit. */
int msi_wgrid_cuda_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane,
                         int64_t n_resident, msi_image *image, msi_stage_times *times);

/* msi_wgrid_cuda_predict - as msi_wgrid_cpu_predict; also MSI_EGPU. */
int msi_wgrid_cuda_predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident,
                           void **kept, msi_stage_times *times);
void msi_wgrid_cuda_forget(void *kept);

#ifdef __cplusplus
}
#endif
#endif
