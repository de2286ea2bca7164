/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection's transpose on the CPU: a model image to visibilities. */
#ifndef MSI_KERNELS_WPROJ_DEGRID_CPU_H
#define MSI_KERNELS_WPROJ_DEGRID_CPU_H

#include "kernels/wproj/wproj_cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_wproj_cpu_predict - taper, screen and transform the model for every slice, and degrid the store's samples.
 * Given:    plan, its kernels
 *           model  of the plan's geometry and precision, as many planes as the store, Jy/pixel
 * Returned: the store's visibilities, Jy
 * Given and returned: times  wall seconds are added
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_wproj_cpu_predict(const msi_wproj_plan *plan, const msi_wkernel_set *kernels, msi_wproj_cpu_form form,
                          msi_vis_store *store, const msi_image *model, msi_stage_times *times);

#ifdef __cplusplus
}
#endif
#endif
