/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-towers on the CPU, gridding and degridding: OpenMP, SIMD, FFTW. */
#ifndef MSI_WGRID_TOWER_CPU_H
#define MSI_WGRID_TOWER_CPU_H

#include "kernels/method/method.h"
#include "kernels/towers/tower_plan.h"

extern const msi_tower_cost msi_wgrid_tower_cpu_cost;

/* msi_wgrid_tower_cpu_bytes - return the host memory of imaging with n_thread threads, without store, sorted runs and
 * image sums. */
int64_t msi_wgrid_tower_cpu_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread);

/*
 * msi_wgrid_tower_cpu_image - grid subgrids, add them up to a plane for each tower, transform, screen and correct.
 *
 * Given:    plan, towers, store; store_plane [image->n_plane] (-1: the PSF of plane 0)
 * Returned: image->pixel, divided by image->sum_weight (set by the caller; 0: the plane becomes NaN)
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wgrid_tower_cpu_image(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_vis_store *store,
                              const int *store_plane, msi_image *image, msi_stage_times *times);

/* msi_wgrid_tower_cpu_predict_bytes - return the same for predicting, with n_plane whole planes in memory. */
int64_t msi_wgrid_tower_cpu_predict_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread,
                                          int64_t n_plane);

/*
 * msi_wgrid_tower_cpu_predict - taper, screen and transform the model into a plane for each tower, cut subgrids out of
 * it, make small planes from them, and degrid every sample of the store.
 *
 * Given:    plan, towers, model (n_plane planes, as the store); keeps  1: every tower's plane of every image is kept
 * Returned: store's visibilities [n_plane]
 * Given and returned:
 *           *model_cache  NULL at first; if keeps, the planes for the next call with the same plans. Freed by
 *                         msi_wgrid_tower_cpu_free_model
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wgrid_tower_cpu_predict(const msi_wgrid_plan *plan, const msi_tower_plan *towers, msi_vis_store *store,
                                const msi_image *model, int keeps, void **model_cache, msi_stage_times *times);

/* msi_wgrid_tower_cpu_free_model - free the planes that msi_wgrid_tower_cpu_predict keeps; NULL-safe. */
void msi_wgrid_tower_cpu_free_model(void *model_cache);

#endif
