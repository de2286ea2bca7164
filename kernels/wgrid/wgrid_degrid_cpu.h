/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder's transpose on the CPU: a model image to visibilities. */
#ifndef MSI_KERNELS_WGRID_DEGRID_CPU_H
#define MSI_KERNELS_WGRID_DEGRID_CPU_H

#include "kernels/store/vis_store.h"
#include "kernels/wgrid/wgrid_plan.h"
#include "kernels/method/method.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_wgrid_cpu_predict - taper, screen and transform the model into w-planes, and degrid every sample of the store.
 *
 * Given:    plan, model (n_plane planes, as the store), n_resident w-planes at once
 * Returned: store's visibilities [n_plane]
 * Given and returned:
 *           *model_cache  NULL at first; where every w-plane is resident, the planes of the model for the next call,
 *                         which must be with the same plan and n_resident. Freed by msi_wgrid_cpu_forget.
 *                         model_cache itself NULL: nothing is kept
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wgrid_cpu_predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident,
                          void **model_cache, msi_stage_times *times);

/* msi_wgrid_cpu_forget - free what msi_wgrid_cpu_predict keeps; NULL is fine. */
void msi_wgrid_cpu_forget(void *model_cache);

#ifdef __cplusplus
}
#endif
#endif
