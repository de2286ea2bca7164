/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Benchmark and tests only: degridding by a moving window of cells in registers, for kernels tabulated as squares; the
 * strategy "window" is in wproj/window/. The object works on the device and the stream that it was made with. */
#ifndef MSI_KERNELS_WPROJ_WINDOW_TABLE_CUDA_H
#define MSI_KERNELS_WPROJ_WINDOW_TABLE_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_window_table msi_window_table;

/*
 * msi_window_table_create - allocate device memory to sort job->n_vis samples.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: all but its pointers to samples, values and grid; full kernels
 * Returned: *out, freed by msi_window_table_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (separable kernels, or wider than the grid)
 */
int msi_window_table_create(msi_window_table **out, const msi_gpu_stream *gpu, const msi_wproj_job *job);
void msi_window_table_free(msi_window_table *w);

/* msi_window_table_sort - order the job's samples along strips of the grid, so that the window moves little from one
 * to the next. Returns: 0, MSI_EGPU, MSI_ERANGE */
int msi_window_table_sort(msi_window_table *w, const msi_wproj_job *job);

/*
 * msi_window_table_degrid - compute value[i][p] = sum over the footprint of grid[v][u][p] conj(K_i(u, v)).
 * Given:    job; sorted: 0 to take the samples as they stand, else in the order of the last sort
 * Returned: job->value, overwritten
 * Returns:  0, MSI_EGPU
 * Notes:    where a window takes several warps, sums meet in atomic additions, so their order varies.
 */
int msi_window_table_degrid(msi_window_table *w, const msi_wproj_job *job, int sorted);

#ifdef __cplusplus
}
#endif
#endif
