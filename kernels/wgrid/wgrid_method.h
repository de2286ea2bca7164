/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder as strategies: its plan, and how many w-planes each backend holds. */
#ifndef MSI_KERNELS_WGRID_METHOD_H
#define MSI_KERNELS_WGRID_METHOD_H

#include "kernels/strategy.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/wgrid/wgrid_cuda.h"
#endif

/* As msi_strategy has them. */
int msi_wgrid_cpu_available(void);
int msi_wgrid_cpu_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
int msi_wgrid_cuda_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
void msi_wgrid_plan_free(msi_plan *plan);
int msi_wgrid_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                    msi_stage_times *times);
int msi_wgrid_predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times);

#endif
