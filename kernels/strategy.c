/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The one file that knows which gridders were compiled in. */
#include "kernels/strategy.h"

#include <stddef.h>

#include "kernels/wgrid/wgrid_method.h"
#include "kernels/towers/wgrid_tower_method.h"
#include "kernels/wproj/wproj_method.h"

const msi_strategy *msi_strategies(int *n)
{
    static const msi_strategy strategies[] = {
#ifdef MSI_HAVE_CUDA
        {"wgrid", "planes", MSI_BACKEND_CUDA, msi_wgrid_cuda_available, msi_wgrid_cuda_plan, msi_wgrid_plan_free,
         msi_wgrid_image, msi_wgrid_predict},
#endif
        {"wgrid", "planes", MSI_BACKEND_CPU, msi_wgrid_cpu_available, msi_wgrid_cpu_plan, msi_wgrid_plan_free,
         msi_wgrid_image, msi_wgrid_predict},
#ifdef MSI_HAVE_CUDA
        {"wgrid", "subgrid", MSI_BACKEND_CUDA, msi_wgrid_cuda_available, msi_wgrid_tower_cuda_plan,
         msi_wgrid_tower_free, msi_wgrid_tower_image, msi_wgrid_tower_predict},
#endif
        {"wgrid", "subgrid", MSI_BACKEND_CPU, msi_wgrid_cpu_available, msi_wgrid_tower_cpu_plan, msi_wgrid_tower_free,
         msi_wgrid_tower_image, msi_wgrid_tower_predict},
#ifdef MSI_HAVE_CUDA
        {"wproj", "tile", MSI_BACKEND_CUDA, msi_wgrid_cuda_available, msi_wproj_cuda_tile_plan, msi_wproj_free,
         msi_wproj_cuda_tile_image, NULL},
        {"wproj", "window", MSI_BACKEND_CUDA, msi_wgrid_cuda_available, msi_wproj_cuda_window_plan, msi_wproj_free,
         msi_wproj_cuda_window_image, msi_wproj_cuda_degrid},
        {"wproj", "gather", MSI_BACKEND_CUDA, msi_wgrid_cuda_available, msi_wproj_cuda_gather_plan, msi_wproj_free,
         NULL, msi_wproj_cuda_degrid},
        {"wproj", "scatter", MSI_BACKEND_CUDA, msi_wgrid_cuda_available, msi_wproj_cuda_scatter_plan, msi_wproj_free,
         NULL, msi_wproj_cuda_degrid},
#endif
        {"wproj", "tile", MSI_BACKEND_CPU, msi_wproj_cpu_available, msi_wproj_cpu_tile_plan, msi_wproj_free,
         msi_wproj_image, msi_wproj_predict},
        {"wproj", "window", MSI_BACKEND_CPU, msi_wproj_cpu_available, msi_wproj_cpu_window_plan, msi_wproj_free,
         msi_wproj_image, msi_wproj_predict},
        {"wproj", "gather", MSI_BACKEND_CPU, msi_wproj_cpu_available, msi_wproj_cpu_gather_plan, msi_wproj_free, NULL,
         msi_wproj_predict},
        {"wproj", "scatter", MSI_BACKEND_CPU, msi_wproj_cpu_available, msi_wproj_cpu_scatter_plan, msi_wproj_free, NULL,
         msi_wproj_predict},
    };
    *n = (int)(sizeof strategies / sizeof *strategies);
    return strategies;
}
