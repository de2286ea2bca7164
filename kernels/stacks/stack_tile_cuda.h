/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark only: the paper's problem (Adamek et al. 2021); msimage itself grids subgrids in towers/.
 *
 * Degridding from stacks of subgrids, sorted by tile: the kernel behind MSI_STACK_TILE.
 */
#ifndef MSI_KERNELS_STACK_TILE_CUDA_H
#define MSI_KERNELS_STACK_TILE_CUDA_H

#include "kernels/stacks/stack_sort_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_stack_tiles msi_stack_tiles;

/*
 * msi_stack_tiles_create - make the shape of tiles for a job, and the device memory that the blocks of a launch share.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: a checked one; its size and counts alone are looked at
 * Returned: *out, freed by msi_stack_tiles_free; *tile, *most: of the sorter whose order it takes
 * Returns:  0, MSI_EGPU
 */
int msi_stack_tiles_create(msi_stack_tiles **out, const msi_gpu_stream *gpu, const msi_stack_job *job,
                           msi_stack_tile *tile, int32_t *most);
void msi_stack_tiles_free(msi_stack_tiles *t);

/* msi_stack_tiles_degrid - degrid the sorted visibilities of a job. Returns: 0, MSI_EGPU */
int msi_stack_tiles_degrid(msi_stack_tiles *t, const msi_stack_job *job, const msi_stack_sorted *sorted);

#ifdef __cplusplus
}
#endif
#endif
