/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Degridding from stacks of subgrids on the GPU. An object works on the device and the stream that it was made with.
 *
 * This is only a benchmark, the problem of Adamek et al. (2021); msimage grids subgrids with kernels/towers.
 */
#ifndef MSI_STACK_DEGRID_CUDA_H
#define MSI_STACK_DEGRID_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/stacks/stack_degrid_cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The ways to degrid. The first three come from Adamek et al. (2021) and process visibilities in the given order. In
 * all forms one launch processes all subgrids, and subgrids with few or no visibilities do not leave blocks idle. */
typedef enum msi_stack_form {
    MSI_STACK_SINGLE,  /* one block for a visibility, one thread for a cell */
    MSI_STACK_WARP,    /* one warp for a group of visibilities */
    MSI_STACK_ZREDUCE, /* two warps for a group; every thread sums over w before the threads sum over u and v */
    MSI_STACK_STREAM,  /* visibilities sorted by place, rows of cells streamed through shared memory; needs compute
                          capability 9.0, and 113 KB of shared memory for a block */
    MSI_STACK_TILE,    /* visibilities sorted by tile, sums on the tensor cores */
    MSI_STACK_AUTO
} msi_stack_form;

/* msi_stack_form_for - return the form that is fastest with its sort, for visibilities at random places.
 * Given: vis_per_subgrid  visibilities per 512 x 512 cells */
msi_stack_form msi_stack_form_for(double vis_per_subgrid);

typedef struct msi_stack msi_stack;

/*
 * msi_stack_create - allocate device memory for a form.
 * Given:   gpu: copied; its stream is borrowed as long as *out lives
 *          job: precision, size and counts; its pointers to device memory are read only for MSI_STACK_AUTO
 *          form: MSI_STACK_AUTO chooses the fastest form that the GPU supports. The choice depends on the mean number
 *                of visibilities of a subgrid that is not empty, and on their density in uvw. If uvw is NULL, places
 *                are assumed to be random
 *          group: number of visibilities of a warp or pair of warps, 1 .. 32; 0: automatic
 * Returned: *out, freed by msi_stack_free
 * Returns: 0, MSI_EGPU (also if this GPU does not support the form), MSI_ERANGE (invalid sizes, counts or group; 2^31
 *          visibilities or more)
 */
int msi_stack_create(msi_stack **out, const msi_gpu_stream *gpu, const msi_stack_job *job, msi_stack_form form,
                     int32_t group);
void msi_stack_free(msi_stack *s);

/* msi_stack_form_of - return the form in use. */
msi_stack_form msi_stack_form_of(const msi_stack *s);

/*
 * msi_stack_check - check that every footprint is inside its subgrid.
 * Returns: 0, MSI_EGPU, MSI_ERANGE (a footprint leaves its subgrid)
 * Notes:   waits for the stream. Without this check, visibilities whose footprints leave their subgrids become 0
 *          without an error.
 */
int msi_stack_check(msi_stack *s, const msi_stack_job *job);

/*
 * msi_stack_sort - sort the job's visibilities. Call it before msi_stack_degrid whenever their coordinates have
 *                  changed. Forms that process visibilities in the given order do nothing.
 * Given:   job: that of msi_stack_degrid, with all arrays. Degridding may begin before the sort ends, so work between
 *          the two calls in the stream must not access the grid, the tables or the values
 * Returns: 0, MSI_EGPU
 */
int msi_stack_sort(msi_stack *s, const msi_stack_job *job);

/*
 * msi_stack_degrid - compute the sums of msi_stack_cpu_degrid.
 * Given:    job: of the same precision, size and counts as the job of msi_stack_create
 * Returned: job->value, overwritten; 0 for a visibility whose footprint leaves its subgrid
 * Returns:  0, MSI_EGPU
 */
int msi_stack_degrid(msi_stack *s, const msi_stack_job *job);

/* ---- Sort of visibilities by the tile of a subgrid in which their footprints begin ---- */

enum { MSI_STACK_MAX_TILES = 1536 }; /* the most tiles of a subgrid */

/* The size of a tile in cells. */
typedef struct msi_stack_tile {
    int32_t u, v;
} msi_stack_tile;

/* A unit of work: sorted visibilities first .. first + n - 1, whose footprints begin in the tile at (u0, v0) of a
 * subgrid. */
typedef struct msi_stack_item {
    int32_t subgrid;
    int32_t corner; /* u0 | v0 << 16 */
    uint32_t first, n;
} msi_stack_item;

/* The sorted visibilities. The arrays are in device memory and belong to the sorter. */
typedef struct msi_stack_sorted {
    const msi_stack_place *place; /* [n_vis] */
    const uint32_t *index;        /* [n_vis] index of each visibility in the job */
    const msi_stack_item *item;   /* [*n_item] */
    const uint32_t *n_item;
    const uint32_t *first_vis; /* [n_subgrid] */
    const uint32_t *end; /* [n_subgrid][n_u][n_v] end of a tile's visibilities; those of the next tile begin there */
    int32_t n_u, n_v;    /* tiles of a subgrid */
    /* [n_subgrid] Subgrid s is sorted if (int32_t)(ready[s] - ready_at) >= 0. NULL: wait for the end of the sort. */
    const uint32_t *ready;
    uint32_t ready_at;
} msi_stack_sorted;

typedef struct msi_stack_sorter msi_stack_sorter;

/*
 * msi_stack_sorter_create - allocate device memory to sort the job's visibilities.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: checked by msi_stack_job_check; precision, grid, tables and values are not used
 *           most: largest number of visibilities of an item; INT32_MAX: items are not needed, and may not be made
 * Returned: *out, freed by msi_stack_sorter_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (2^31 visibilities or more, too many tiles)
 */
int msi_stack_sorter_create(msi_stack_sorter **out, const msi_gpu_stream *gpu, const msi_stack_job *job,
                            msi_stack_tile tile, int32_t most);
void msi_stack_sorter_free(msi_stack_sorter *s);

/*
 * msi_stack_sorter_sort - sort the visibilities of a job that has the counts and the size of the job of
 *                         msi_stack_sorter_create.
 * Returned: *sorted; the items of a subgrid are contiguous. A tile's visibilities are divided into items of about equal
 *           size, at most `most`
 * Returns:  0, MSI_EGPU
 * Notes:    the order within a tile varies from run to run.
 */
int msi_stack_sorter_sort(msi_stack_sorter *s, const msi_stack_job *job, msi_stack_sorted *sorted);

/* ---- MSI_STACK_STREAM: degridding by strips of rows ---- */

/* msi_stack_stream_serves - return 1 if the current device has compute capability 9.0 or later, code for it is compiled
 * in, and a block can have 113 KB of shared memory; else 0. */
int msi_stack_stream_serves(void);

typedef struct msi_stack_stream msi_stack_stream;

/*
 * msi_stack_stream_create - allocate the device memory that the blocks of a launch share.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: checked by msi_stack_job_check; only its counts are used
 * Returned: *out, freed by msi_stack_stream_free; *tile, *most: arguments for msi_stack_sorter_create
 * Returns:  0, MSI_EGPU (also if msi_stack_stream_serves returns 0)
 */
int msi_stack_stream_create(msi_stack_stream **out, const msi_gpu_stream *gpu, const msi_stack_job *job,
                            msi_stack_tile *tile, int32_t *most);
void msi_stack_stream_free(msi_stack_stream *s);

/* msi_stack_stream_degrid - degrid the sorted visibilities of a job. Returns: 0, MSI_EGPU */
int msi_stack_stream_degrid(msi_stack_stream *s, const msi_stack_job *job, const msi_stack_sorted *sorted);

/* ---- MSI_STACK_TILE: degridding by tiles on the tensor cores ---- */

typedef struct msi_stack_tiles msi_stack_tiles;

/*
 * msi_stack_tiles_create - choose the size of tiles for a job, and allocate the device memory that the blocks of a
 *                          launch share.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: checked by msi_stack_job_check; only its size and counts are used
 * Returned: *out, freed by msi_stack_tiles_free; *tile, *most: arguments for msi_stack_sorter_create
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
