/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark only: the paper's problem (Adamek et al. 2021); msimage itself grids subgrids in towers/.
 *
 * Degridding from stacks of subgrids on the CPU in plain loops in double, which the GPU's forms are compared with.
 */
#ifndef MSI_KERNELS_STACK_DEGRID_CPU_H
#define MSI_KERNELS_STACK_DEGRID_CPU_H

#include "kernels/stacks/stack_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_stack_job_check - check whether a job's sizes and counts are valid; no array but first_vis is looked at.
 * Returns: 0, MSI_ERANGE
 */
int msi_stack_job_check(const msi_stack_job *job);

/*
 * msi_stack_cpu_degrid - form value[i] = sum over j, k, l of kernel_w[sub_w][l] kernel_v[sub_v][k] kernel_u[sub_u][j]
 *                        grid[s][l][v0 + k][u0 + j], s the subgrid of visibility i.
 * Returned: job->value; 0 for a visibility whose footprint leaves its subgrid
 * Returns:  0, MSI_ERANGE (a footprint leaves its subgrid; the others were computed), MSI_EINTERRUPTED
 */
int msi_stack_cpu_degrid(const msi_stack_job *job);

#ifdef __cplusplus
}
#endif
#endif
