/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark only: the paper's problem (Adamek et al. 2021); msimage itself grids subgrids in towers/.
 *
 * Degridding from stacks of subgrids on the GPU. An object works on the device and the stream that it was made with.
 */
#ifndef MSI_STACK_DEGRID_CUDA_H
#define MSI_STACK_DEGRID_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/stacks/stack_degrid_cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first three come from Adamek 2021 and process visibilities in the given order. In all forms one launch
 * processes all subgrids, and a subgrid with few visibilities, or none, leaves no block idle. */
typedef enum msi_stack_form {
    MSI_STACK_SINGLE,  /* a block a visibility, a thread a cell */
    MSI_STACK_WARP,    /* a warp for a group of visibilities */
    MSI_STACK_ZREDUCE, /* two warps for a group; every thread sums over w before the threads sum over u and v */
    MSI_STACK_STREAM,  /* sorted by place, rows streamed through shared memory; compute capability 9.0 with 113 KB of
                          it to a block */
    MSI_STACK_TILE,    /* sorted by tile, on the tensor cores */
    MSI_STACK_AUTO
} msi_stack_form;

/* msi_stack_form_for - return the fastest form, including its sort. vis_per_subgrid: visibilities per 512 x 512 cells,
 * at random places. */
msi_stack_form msi_stack_form_for(double vis_per_subgrid);

typedef struct msi_stack msi_stack;

/*
 * msi_stack_create - allocate device memory for a form.
 * Given:   gpu: copied; its stream is borrowed as long as *out lives
 *          job: precision, size and counts; its pointers to device memory are read only for MSI_STACK_AUTO
 *          form: MSI_STACK_AUTO for the fastest form of the GPU for the number of visibilities of subgrids that have
 *          any, and for their distances in uvw; if uvw is NULL, for random places
 *          group: visibilities of a warp or pair of warps, 1 .. 32; 0 to choose
 * Returned: *out, freed by msi_stack_free
 * Returns: 0, MSI_EGPU (also: a form that this GPU does not support), MSI_ERANGE (sizes or counts; group; 2^31
 *          visibilities or more)
 */
int msi_stack_create(msi_stack **out, const msi_gpu_stream *gpu, const msi_stack_job *job, msi_stack_form form,
                     int32_t group);
void msi_stack_free(msi_stack *s);

/* msi_stack_form_of - return the form in use. */
msi_stack_form msi_stack_form_of(const msi_stack *s);

/*
 * msi_stack_check - check that every footprint is inside its subgrid.
 * Returns: 0, MSI_EGPU, MSI_ERANGE (some do not)
 * Notes:   waits for the stream. Without it such visibilities become 0 without an error.
 */
int msi_stack_check(msi_stack *s, const msi_stack_job *job);

/*
 * msi_stack_sort - put the job's visibilities in order; must precede msi_stack_degrid whenever they changed. Forms that
 * take them in the order given do nothing.
 * Given:   the job of msi_stack_degrid, complete: degridding may begin before the sort ends, so nothing in the stream
 *          between the two may touch the grid, the tables or the values
 * Returns: 0, MSI_EGPU
 */
int msi_stack_sort(msi_stack *s, const msi_stack_job *job);

/*
 * msi_stack_degrid - compute the sums of msi_stack_cpu_degrid.
 * Given:    job, with the precision, size and counts of the one at create
 * Returned: job->value, overwritten; 0 for a visibility whose footprint leaves its subgrid
 * Returns:  0, MSI_EGPU
 */
int msi_stack_degrid(msi_stack *s, const msi_stack_job *job);

/*
 * Benchmark only: the paper's problem (Adamek et al. 2021); msimage itself grids subgrids in towers/.
 *
 * Sort of visibilities for degridding from stacks, by the tile of a subgrid in which their footprints begin.
 */

enum { MSI_STACK_MAX_TILES = 1536 }; /* tiles of a subgrid */

/* The size of a tile in cells. */
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
    const uint32_t *index;        /* [n_vis] index of each in the job */
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
 *           job: a checked one; precision, grid, tables and values are not used
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

/*
 * Benchmark only: the paper's problem (Adamek et al. 2021); msimage itself grids subgrids in towers/.
 *
 * Degridding from stacks of subgrids by strips of rows: the kernel behind MSI_STACK_STREAM.
 */

/* msi_stack_stream_serves - return whether the current device runs code for compute capability 9.0 or later, and has
 * enough shared memory (a block needs 113 KB). */
int msi_stack_stream_serves(void);

typedef struct msi_stack_stream msi_stack_stream;

/*
 * msi_stack_stream_create - allocate the device memory that the blocks of a launch share.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: a checked one; only its counts are used
 * Returned: *out, freed by msi_stack_stream_free; *tile, *most: of the sorter whose order it takes
 * Returns:  0, MSI_EGPU (also: it does not serve)
 */
int msi_stack_stream_create(msi_stack_stream **out, const msi_gpu_stream *gpu, const msi_stack_job *job,
                            msi_stack_tile *tile, int32_t *most);
void msi_stack_stream_free(msi_stack_stream *s);

/* msi_stack_stream_degrid - degrid the sorted visibilities of a job. Returns: 0, MSI_EGPU */
int msi_stack_stream_degrid(msi_stack_stream *s, const msi_stack_job *job, const msi_stack_sorted *sorted);

/*
 * Benchmark only: the paper's problem (Adamek et al. 2021); msimage itself grids subgrids in towers/.
 *
 * Degridding from stacks of subgrids, sorted by tile: the kernel behind MSI_STACK_TILE.
 */

typedef struct msi_stack_tiles msi_stack_tiles;

/*
 * msi_stack_tiles_create - make the shape of tiles for a job, and the device memory that the blocks of a launch share.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: a checked one; only its size and counts are used
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
