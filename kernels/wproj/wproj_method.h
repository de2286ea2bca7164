/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection as the table of strategies sees it. */
#ifndef MSI_KERNELS_WPROJ_METHOD_H
#define MSI_KERNELS_WPROJ_METHOD_H

#include "kernels/strategy.h"

/* Members of msi_strategy; "tile" is the fast form, the others are plain loops. */
int msi_wproj_cpu_available(void);
int msi_wproj_cpu_tile_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
int msi_wproj_cpu_window_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
int msi_wproj_cpu_gather_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
int msi_wproj_cpu_scatter_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
void msi_wproj_free(msi_plan *plan);
int msi_wproj_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                    msi_stage_times *times);
int msi_wproj_predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times);

/* On a GPU. */
int msi_wproj_cuda_tile_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
int msi_wproj_cuda_tile_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                              msi_stage_times *times);
int msi_wproj_cuda_window_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
int msi_wproj_cuda_window_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                                msi_stage_times *times);
int msi_wproj_cuda_gather_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
int msi_wproj_cuda_scatter_plan(msi_plan **out, const msi_plan_request *request, msi_gridder_report *report);
int msi_wproj_cuda_degrid(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times);

#endif
