/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-towers on the CPU: OpenMP, SIMD, FFTW. */
#ifndef MSI_KERNELS_WGRID_TOWER_CPU_H
#define MSI_KERNELS_WGRID_TOWER_CPU_H

#include "kernels/towers/tower_plan.h"
#include "kernels/method/method.h"

extern const msi_tower_cost msi_wgrid_tower_cpu_cost;

/* msi_wgrid_tower_cpu_bytes - bytes of host memory beside store, sorted runs and image sums, with n_thread threads. */
int64_t msi_wgrid_tower_cpu_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread);

/*
 * msi_wgrid_tower_cpu_image - grid subgrids, add them up to a plane for each tower, transform, screen and correct.
 *
 * Given:    plan, towers, store; store_plane [image->n_plane] (-1: the PSF of plane 0)
 * Returned: image->pixel filled, divided by image->sum_weight (set by the caller; 0 makes a plane NaN)
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes: the result does not depend on the number of threads.
 */
int msi_wgrid_tower_cpu_image(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_vis_store *store,
                              const int *store_plane, msi_image *image, msi_stage_times *times);

#endif
