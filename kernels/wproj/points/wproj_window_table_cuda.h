/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Degridding by a moving window of grid points in registers, for kernels tabulated as squares. */
#ifndef MSI_KERNELS_WPROJ_WINDOW_TABLE_CUDA_H
#define MSI_KERNELS_WPROJ_WINDOW_TABLE_CUDA_H

#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_window_table msi_window_table;

/*
 * msi_window_table_create - device memory to sort job->n_vis samples.
 * Given:   job: all but its pointers to samples, values and grid; full kernels
 * Returns: 0, MSI_EGPU, MSI_ERANGE (separable kernels, or wider than the grid)
 */
int msi_window_table_create(msi_window_table **out, const msi_wproj_job *job);
void msi_window_table_free(msi_window_table *w);

/* msi_window_table_sort - order the job's samples along strips of the grid, so that the window moves little from one
 * to the next. Returns: 0, MSI_EGPU, MSI_ERANGE */
int msi_window_table_sort(msi_window_table *w, const msi_wproj_job *job, void *stream);

/*
 * msi_window_table_degrid - value[i][p] = sum over the footprint of grid[v][u][p] conj(K_i(u, v)).
 * Given:    job; sorted: 0 to take the samples as they stand, else in the order of the last sort
 * Returned: job->value, overwritten
 * Returns:  0, MSI_EGPU
 * Notes:    where a window takes several warps, sums meet in atomic additions, so their order varies.
 */
int msi_window_table_degrid(msi_window_table *w, const msi_wproj_job *job, int sorted, void *stream);

#ifdef __cplusplus
}
#endif
#endif
