/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark only: the paper's problem (Adamek et al. 2021); msimage itself grids subgrids in towers/.
 *
 * Degridding from stacks of subgrids by strips of rows: the kernel behind MSI_STACK_STREAM.
 */
#ifndef MSI_KERNELS_STACK_STREAM_CUDA_H
#define MSI_KERNELS_STACK_STREAM_CUDA_H

#include "kernels/stacks/stack_sort_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* msi_stack_stream_serves - tell whether the current device runs what was compiled for compute capability 9.0 or later,
 * and has shared memory enough (a block needs 113 KB). */
int msi_stack_stream_serves(void);

typedef struct msi_stack_stream msi_stack_stream;

/*
 * msi_stack_stream_create - allocate the device memory that the blocks of a launch share.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: a checked one; its counts alone are looked at
 * Returned: *out, freed by msi_stack_stream_free; *tile, *most: of the sorter whose order it takes
 * Returns:  0, MSI_EGPU (also: it does not serve)
 */
int msi_stack_stream_create(msi_stack_stream **out, const msi_gpu_stream *gpu, const msi_stack_job *job,
                            msi_stack_tile *tile, int32_t *most);
void msi_stack_stream_free(msi_stack_stream *s);

/* msi_stack_stream_degrid - degrid the sorted visibilities of a job. Returns: 0, MSI_EGPU */
int msi_stack_stream_degrid(msi_stack_stream *s, const msi_stack_job *job, const msi_stack_sorted *sorted);

#ifdef __cplusplus
}
#endif
#endif
