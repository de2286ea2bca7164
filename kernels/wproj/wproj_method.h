/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection as the table of strategies sees it. */
#ifndef MSI_KERNELS_WPROJ_METHOD_H
#define MSI_KERNELS_WPROJ_METHOD_H

#include "kernels/method/method.h"

/* These work on the CPU: "tile" is the fast form, the others are plain loops. */
extern const msi_strategy_ops msi_wproj_cpu_ops;         /* of "tile" and "window" */
extern const msi_strategy_ops msi_wproj_cpu_predict_ops; /* of "gather" and "scatter", which degrid alone */

/* These are in builds with CUDA. */
extern const msi_strategy_ops msi_wproj_cuda_ops;         /* of "window" */
extern const msi_strategy_ops msi_wproj_cuda_image_ops;   /* of "tile", which grids alone */
extern const msi_strategy_ops msi_wproj_cuda_predict_ops; /* of "gather" and "scatter" */

#endif
