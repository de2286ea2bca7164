/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder on the CPU: OpenMP, SIMD, FFTW. */
#ifndef MSI_KERNELS_WGRID_CPU_H
#define MSI_KERNELS_WGRID_CPU_H

#include "kernels/store/vis_store.h"
#include "kernels/wgrid/wgrid_plan.h"
#include "kernels/method/method.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const msi_cost_model msi_wgrid_cpu_cost;

/* msi_wgrid_cpu_resident - choose how many w-planes to hold at once within `bytes` of memory; at least 1. */
int64_t msi_wgrid_cpu_resident(const msi_wgrid_plan *plan, int64_t n_sample, int64_t bytes);

/* msi_wgrid_cpu_plane_bytes - count a w-plane's bytes; _image_bytes - those of one image's sums before correction. */
int64_t msi_wgrid_cpu_plane_bytes(const msi_wgrid_plan *plan);
int64_t msi_wgrid_cpu_image_bytes(const msi_wgrid_plan *plan);

/*
 * msi_wgrid_cpu_image - grid, transform, screen and correct.
 *
 * Given:    plan, store; store_plane [image->n_plane] (-1: the PSF of plane 0); n_resident  w-planes at once
 * Returned: image->pixel filled, divided by image->sum_weight (set by the caller; 0 makes a plane NaN)
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes: the result does not depend on the number of threads.
 */
int msi_wgrid_cpu_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane,
                        int64_t n_resident, msi_image *image, msi_stage_times *times);

#ifdef __cplusplus
}
#endif
#endif
