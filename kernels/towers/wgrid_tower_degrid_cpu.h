/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The transpose of w-towers on the CPU: a model image to visibilities. */
#ifndef MSI_KERNELS_WGRID_TOWER_DEGRID_CPU_H
#define MSI_KERNELS_WGRID_TOWER_DEGRID_CPU_H

#include "kernels/towers/tower_plan.h"
#include "kernels/method/method.h"

/* msi_wgrid_tower_cpu_predict_bytes - count as msi_wgrid_tower_cpu_bytes, with n_plane whole planes in memory. */
int64_t msi_wgrid_tower_cpu_predict_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread,
                                          int64_t n_plane);

/*
 * msi_wgrid_tower_cpu_predict - taper, screen and transform the model into a plane for each tower, cut subgrids out of
 * it, make small planes of them, and degrid every sample of the store.
 *
 * Given:    plan, towers, model (n_plane planes, as the store); keeps: every tower's plane of every image stays
 * Returned: store's visibilities [n_plane]
 * Given and returned:
 *           *model_cache  NULL at first; with keeps, the planes for the next call with the same plans. Freed by
 *                         msi_wgrid_tower_cpu_forget
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wgrid_tower_cpu_predict(const msi_wgrid_plan *plan, const msi_tower_plan *towers, msi_vis_store *store,
                                const msi_image *model, int keeps, void **model_cache, msi_stage_times *times);

/* msi_wgrid_tower_cpu_forget - free what msi_wgrid_tower_cpu_predict keeps; NULL is fine. */
void msi_wgrid_tower_cpu_forget(void *model_cache);

#endif
