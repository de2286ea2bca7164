/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Degridding from stacks of subgrids, sorted by tile: the kernel behind MSI_STACK_TILE. */
#ifndef MSI_KERNELS_STACK_TILE_CUDA_H
#define MSI_KERNELS_STACK_TILE_CUDA_H

#include "kernels/stacks/stack_sort_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_stack_tiles msi_stack_tiles;

/*
 * msi_stack_tiles_create - the shape of tiles for a job, and what its blocks share.
 * Returned: *tile, *most  what the sort is to be made with
 * Returns:  0, MSI_EGPU
 */
int msi_stack_tiles_create(msi_stack_tiles **out, const msi_stack_job *job, msi_stack_tile *tile, int32_t *most);
void msi_stack_tiles_free(msi_stack_tiles *t);

/* msi_stack_tiles_degrid - degrid the sorted visibilities of a job. Returns: 0, MSI_EGPU */
int msi_stack_tiles_degrid(msi_stack_tiles *t, const msi_stack_job *job, const msi_stack_sorted *sorted, void *stream);

#ifdef __cplusplus
}
#endif
#endif
