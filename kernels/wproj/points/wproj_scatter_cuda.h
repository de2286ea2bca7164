/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Degridding by scattering: threads hold cells and add their parts to every visibility whose footprint has them. A
 * scatter works on the device and the stream that it was made with. */
#ifndef MSI_KERNELS_WPROJ_SCATTER_CUDA_H
#define MSI_KERNELS_WPROJ_SCATTER_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_scatter msi_scatter;

/*
 * msi_scatter_create - allocate device memory to sort job->n_vis samples.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: all but its pointers to samples, values and grid; full kernels
 * Returned: *out, freed by msi_scatter_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (separable kernels, or wider than the grid)
 */
int msi_scatter_create(msi_scatter **out, const msi_gpu_stream *gpu, const msi_wproj_job *job);
void msi_scatter_free(msi_scatter *s);

/* msi_scatter_sort - put the job's samples in order, with bookmarks. Returns: 0, MSI_EGPU, MSI_ERANGE */
int msi_scatter_sort(msi_scatter *s, const msi_wproj_job *job);

/*
 * msi_scatter_degrid - compute value[i][p] = sum over the footprint of grid[v][u][p] conj(K_i(u, v)).
 * Given:    job, of the samples that were sorted
 * Returned: job->value, overwritten
 * Returns:  0, MSI_EGPU
 * Notes:    partial sums meet in atomic additions, so their order varies.
 */
int msi_scatter_degrid(msi_scatter *s, const msi_wproj_job *job);

#ifdef __cplusplus
}
#endif
#endif
