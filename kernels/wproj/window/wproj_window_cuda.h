/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * w-projection on the GPU by a moving window: grid cells live in registers while footprints stay about them.
 *
 * Samples come in an order in which neighbours lie close together on the grid (a baseline's samples in time, say); any
 * order is right, a jumping one is slow. Everything here is on the device and asynchronous on a stream.
 */
#ifndef MSI_KERNELS_WPROJ_WINDOW_CUDA_H
#define MSI_KERNELS_WPROJ_WINDOW_CUDA_H

#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A variant is what multiplies. TENSOR: degridding by kernels that have operands, from rows that are multiples of four
 * cells; numbers are split and scaled, so that a product is right to 2^-22 or so, and a cell to 2^-35 of the largest
 * that is read near it. */
enum { MSI_WINDOW_THREADS, MSI_WINDOW_TENSOR };

/* A shape says how a launch divides its work; window_tuning.h chooses it. */
typedef struct msi_window_shape {
    int32_t images;               /* of a thread; more are worked on in passes of one launch */
    int32_t coarsen_u, coarsen_v; /* cells of a block that moves as one */
    int32_t blocks_v;             /* blocks of a thread, above each other */
    int32_t tile_u, tile_v;       /* most cells of a block of threads; full tables: most threads, 0 */
    int32_t variant;              /* MSI_WINDOW_THREADS or MSI_WINDOW_TENSOR */
    int32_t n_vis;                /* visibilities of a work group */
} msi_window_shape;

/*
 * msi_window_grid_cuda - compute grid[v][u][p] += value[i][p] K_i(u, v) over all samples.
 *
 * Given:   stream, a cudaStream_t of the current device
 * Returns: 0, MSI_ERANGE (a shape that is not compiled in, kernels wider than the grid), MSI_EGPU
 * Notes:   sums in the job's precision by atomic additions, so their order varies.
 * Source:  Romein 2012 section 4; Merry 2016 section 3.
 */
int msi_window_grid_cuda(const msi_wproj_job *job, const msi_window_shape *shape, void *stream);

/*
 * msi_window_grid_shapes - the shapes, n_vis apart, that are compiled in for a job's precision, tables and images.
 * Returned: shape [MSI_WINDOW_MAX_SHAPES]. Returns: their number
 */
enum { MSI_WINDOW_MAX_SHAPES = 32 };
int msi_window_grid_shapes(const msi_wproj_job *job, msi_window_shape *shape);

#ifdef __cplusplus
}
#endif
#endif
