/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The functions of subgrid_cuda.h, a file a precision. */
#ifndef MSI_KERNELS_SUBGRID_FP_CUDA_H
#define MSI_KERNELS_SUBGRID_FP_CUDA_H

#include "kernels/towers/subgrid_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

int msi_subgrid_roots_fp32(const msi_subgrid_shape *shape, void *roots, int64_t *n);
int msi_subgrid_roots_fp64(const msi_subgrid_shape *shape, void *roots, int64_t *n);
int msi_subgrid_screens_fp32(const msi_subgrid_shape *shape, const double *nu, void *screens, void *stream);
int msi_subgrid_screens_fp64(const msi_subgrid_shape *shape, const double *nu, void *screens, void *stream);
int msi_subgrid_add_fp32(const msi_subgrid_job *job, void *stream);
int msi_subgrid_add_fp64(const msi_subgrid_job *job, void *stream);
int msi_subgrid_cut_fp32(const msi_subgrid_job *job, void *stream);
int msi_subgrid_cut_fp64(const msi_subgrid_job *job, void *stream);

#ifdef __cplusplus
}
#endif
#endif
