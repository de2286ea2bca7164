/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder with w-towers as strategies. */
#ifndef MSI_KERNELS_WGRID_TOWER_METHOD_H
#define MSI_KERNELS_WGRID_TOWER_METHOD_H

#include "kernels/method/method.h"

/* Stacks of subgrids, imaging and predicting. */
extern const msi_strategy_ops msi_wgrid_tower_cpu_ops;
extern const msi_strategy_ops msi_wgrid_tower_cuda_ops; /* in builds with CUDA */

#endif
