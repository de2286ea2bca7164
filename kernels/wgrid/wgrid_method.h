/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder as strategies: its plan, and how many w-planes each backend holds. */
#ifndef MSI_KERNELS_WGRID_METHOD_H
#define MSI_KERNELS_WGRID_METHOD_H

#include "kernels/method/method.h"

/* Whole w-planes, both directions. */
extern const msi_strategy_ops msi_wgrid_cpu_ops;
extern const msi_strategy_ops msi_wgrid_cuda_ops; /* in builds with CUDA */

#endif
