/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark only: the paper's problem (Adamek et al. 2021); msimage itself grids subgrids in towers/.
 *
 * Sorts visibilities for degridding from stacks: those whose footprints begin in the same tile of a subgrid stand
 * together.
 */
#ifndef MSI_KERNELS_STACK_SORT_CUDA_H
#define MSI_KERNELS_STACK_SORT_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/stacks/stack_job.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_STACK_MAX_TILES = 1536 }; /* of a subgrid */

/* A tile's sides are counted in cells. */
typedef struct msi_stack_tile {
    int32_t u, v;
} msi_stack_tile;

/* Visibilities first .. first + n - 1, sorted, whose footprints begin in the tile at (u0, v0) of a subgrid. */
typedef struct msi_stack_item {
    int32_t subgrid;
    int32_t corner; /* u0 | v0 << 16 */
    uint32_t first, n;
} msi_stack_item;

/* The sorted visibilities are device memory that belongs to the sorter. */
typedef struct msi_stack_sorted {
    const msi_stack_place *place; /* [n_vis] */
    const uint32_t *index;        /* [n_vis] where each stood in the job */
    const msi_stack_item *item;
    const uint32_t *n_item;
    const uint32_t *first_vis; /* [n_subgrid] */
    const uint32_t *end;       /* [n_subgrid][n_u][n_v] end of each tile's; the next tile's begin there */
    int32_t n_u, n_v;          /* tiles of a subgrid */
    const uint32_t *ready;     /* [n_subgrid] ready_at or more, modulo 2^32: in order before the sort ends; or NULL */
    uint32_t ready_at;
} msi_stack_sorted;

typedef struct msi_stack_sorter msi_stack_sorter;

/*
 * msi_stack_sorter_create - allocate device memory to sort the job's visibilities.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: a checked one; precision, grid, tables and values are not looked at
 *           most: visibilities of an item; INT32_MAX where items are not needed: there may be none then
 * Returned: *out, freed by msi_stack_sorter_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (2^31 visibilities or more, too many tiles)
 */
int msi_stack_sorter_create(msi_stack_sorter **out, const msi_gpu_stream *gpu, const msi_stack_job *job,
                            msi_stack_tile tile, int32_t most);
void msi_stack_sorter_free(msi_stack_sorter *s);

/*
 * msi_stack_sorter_sort - order the visibilities of a job that has the counts and the size of the one at create.
 * Returned: *sorted; the items of a subgrid follow each other, each tile's visibilities cut into like pieces of at most
 *           `most`
 * Returns:  0, MSI_EGPU
 * Notes:    the order within a tile varies from run to run.
 */
int msi_stack_sorter_sort(msi_stack_sorter *s, const msi_stack_job *job, msi_stack_sorted *sorted);

#ifdef __cplusplus
}
#endif
#endif
