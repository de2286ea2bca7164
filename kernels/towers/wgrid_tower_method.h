/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder with w-towers as a strategy: its plan, and what each backend holds in memory. */
#ifndef MSI_KERNELS_WGRID_TOWER_METHOD_H
#define MSI_KERNELS_WGRID_TOWER_METHOD_H

#include "kernels/strategy.h"

/* As msi_strategy has them; available as the default gridder's. */
int msi_wgrid_tower_cpu_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
int msi_wgrid_tower_cuda_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
void msi_wgrid_tower_free(msi_plan *plan);
int msi_wgrid_tower_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                          msi_stage_times *times);
int msi_wgrid_tower_predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times);

#endif
