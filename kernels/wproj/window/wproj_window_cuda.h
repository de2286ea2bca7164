/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * w-projection on the GPU by a moving window: grid cells stay in registers while footprints touch them.
 *
 * Consecutive samples should be close together on the grid, such as a baseline's samples in time. Any order is correct,
 * but one with jumps is slow. Everything here is on the device and asynchronous on a stream.
 */
#ifndef MSI_WPROJ_WINDOW_CUDA_H
#define MSI_WPROJ_WINDOW_CUDA_H

#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The arithmetic units. TENSOR: degridding by kernels that have operands, from rows that are multiples of four cells;
 * numbers are split and scaled, so that the relative error of a product is about 2^-22, and the error of a cell 2^-35
 * of the largest cell read near it. */
enum { MSI_WINDOW_THREADS, MSI_WINDOW_TENSOR };

/* The division of work in a launch; msi_window_tuning_choose chooses it. */
typedef struct msi_window_shape {
    int32_t images;               /* images of a thread; more are processed in passes of one launch */
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

/*
 * Kernels in the layout for degridding on tensor cores: the weights of every sub-offset are stored at their positions
 * in the blocks of a moving window, so that a warp can load its operands directly, wherever the footprint is.
 */

/* Operands of one width of kernels take at most a 256th of the device's memory, and at most this. */
enum { MSI_WINDOW_OPERAND_MIB = 256 };

/*
 * Operands are rows of the planes' sub-offsets, plane by plane, and one of zeros. `half` taps lie before a footprint's
 * cell; kernels narrower than `taps` are padded by zeros.
 *
 * u [n_row][4][2][window / 4][2] 16 bytes: for footprints that begin 0 .. 3 cells into a block of four, twice over the
 * window's blocks, the real parts of a block's four weights, scaled, and the imaginary parts. MSI_WPROJ_NEAREST: four
 * high halves, then four low ones. MSI_WPROJ_LINEAR: floats.
 *
 * v [n_row][2][window] msi_c32: twice over the window's cells.
 */
typedef struct msi_window_operands {
    int32_t taps, half;
    int32_t window; /* cells of the least window for `taps` that tensor cores divide well; a multiple of 16 */
    msi_wproj_lookup lookup;
    void *u, *v;
    float *largest; /* the largest part of any weight, which scales the weights along u */
} msi_window_operands;

/* msi_window_operands_bytes - return the device bytes of operands for kernels of up to max_taps; 0: none are made. */
int64_t msi_window_operands_bytes(int32_t n_plane, int32_t oversample, int32_t max_taps);

/*
 * msi_window_operands_create - make operands of a job's kernels, max_taps and narrower.
 *
 * Given:    job->precision, job->kernels; stream, a cudaStream_t of the current device, on which they are made
 * Returned: *out, freed by msi_window_operands_free; NULL if tensor cores do not support such kernels (full tables,
 * double precision, textures) or operands need more memory than their limit or the device has
 * Returns:  0, MSI_EGPU, MSI_ENOMEM
 */
int msi_window_operands_create(msi_window_operands **out, const msi_wproj_job *job, void *stream);
void msi_window_operands_free(msi_window_operands *o);

/* Degridding with a moving window: the transpose of wproj_window_cuda.h's gridding. */

/*
 * msi_window_degrid_cuda - compute value[i][p] = sum over the footprint of grid[v][u][p] conj(K_i(u, v)).
 *
 * Given:   as msi_window_grid_cuda
 * Returned: job->value, overwritten
 * Returns: 0, MSI_ERANGE (a shape that is not compiled in, kernels wider than the grid), MSI_EGPU
 * Notes:   the adjoint of msi_window_grid_cuda.
 */
int msi_window_degrid_cuda(const msi_wproj_job *job, const msi_window_shape *shape, void *stream);

/* msi_window_degrid_shapes - list shapes as msi_window_grid_shapes does. */
int msi_window_degrid_shapes(const msi_wproj_job *job, msi_window_shape *shape);

/* Find the fastest of the moving window's shapes on this machine: measure a few a run, and remember them in the
 * user's cache folder. */

/* A case, for which a shape is chosen: device, direction, precision, images and kernels. */
typedef struct msi_window_case {
    const char *device; /* its name */
    int degrid;
    msi_precision precision;
    int n_image, full;
    msi_wproj_lookup lookup;
    int32_t taps;
} msi_window_case;

/* Measure the milliseconds of a shape. Returns 0, or a code of core/status.h. */
typedef int (*msi_window_time_fn)(void *context, const msi_window_shape *shape, double *ms);

/* The candidate shapes, and how they may be measured. */
typedef struct msi_window_trials {
    const msi_window_shape *candidate; /* [n], their n_vis left open */
    int n;                             /* 1 .. MSI_WINDOW_MAX_SHAPES */
    int64_t n_timing;                  /* calls of time that may be made; fewer than 2 measure nothing */
    msi_window_time_fn time;
    void *context;    /* first argument of time */
    const char *path; /* path of the cache; NULL: window-tuning in $XDG_CACHE_HOME/msimage or ~/.cache/msimage */
} msi_window_trials;

/*
 * msi_window_tuning_choose - choose the shape of a case, improving from call to call: start from the shape in the
 * cache, or an estimate; measure untried candidates, the most promising first, and then sizes of work groups, until all
 * are tried or n_timing is used up. The cache stores the progress, and the next call continues there.
 *
 * Given:    trials  borrowed for the call
 * Returned: *shape, one of the candidates with n_vis set
 * Returns:  0, what `time` returned
 * Notes:    an unreadable cache, invalid lines and shapes that are no longer compiled in are ignored. Processes may
 *           share the file: it is replaced in one step.
 */
int msi_window_tuning_choose(msi_window_shape *shape, const msi_window_case *problem, const msi_window_trials *trials);

/* msi_window_tuning_is_candidate - return 1 if msi_window_tuning_choose may return a shape. */
int msi_window_tuning_is_candidate(const msi_window_shape *shape, const msi_window_shape *candidate, int n);

/* msi_window_tuning_estimate - return the shape with the fewest estimated instructions; the first of equal ones. */
msi_window_shape msi_window_tuning_estimate(const msi_window_case *problem, const msi_window_shape *candidate, int n);

#ifdef __cplusplus
}
#endif
#endif
