/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Degridding with a moving window: the transpose of wproj_window_cuda.h's gridding. */
#ifndef MSI_KERNELS_WPROJ_WINDOW_DEGRID_CUDA_H
#define MSI_KERNELS_WPROJ_WINDOW_DEGRID_CUDA_H

#include "kernels/wproj/window/wproj_window_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_window_degrid_cuda - compute value[i][p] = sum over the footprint of grid[v][u][p] conj(K_i(u, v)).
 *
 * Given:   as msi_window_grid_cuda
 * Returned: job->value, overwritten
 * Returns: 0, MSI_ERANGE (a shape that is not compiled in, kernels wider than the grid), MSI_EGPU
 * Notes:   the adjoint of msi_window_grid_cuda.
 */
int msi_window_degrid_cuda(const msi_wproj_job *job, const msi_window_shape *shape, void *stream);

/* msi_window_degrid_shapes - list shapes as msi_window_grid_shapes does. */
int msi_window_degrid_shapes(const msi_wproj_job *job, msi_window_shape *shape);

#ifdef __cplusplus
}
#endif
#endif
