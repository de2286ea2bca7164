/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * w-projection on the GPU by a moving window. Grid cells stay in registers while footprints touch them.
 *
 * Any order of the samples is correct, but jumps on the grid are slow. Consecutive samples should be close together, as
 * a baseline's samples in time are. The functions use device memory and are asynchronous on a stream.
 */
#ifndef MSI_WPROJ_WINDOW_CUDA_H
#define MSI_WPROJ_WINDOW_CUDA_H

#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The arithmetic units. TENSOR is for degridding with kernels that have operands, from grids whose rows are multiples
 * of four cells. Numbers are scaled and split. The relative error of a product is about 2^-22, and the error of a cell
 * is 2^-35 of the largest cell that is read near it. */
enum { MSI_WINDOW_THREADS, MSI_WINDOW_TENSOR };

/* The division of work in a launch; msi_window_tuning_choose chooses it. */
typedef struct msi_window_shape {
    int32_t images;               /* images of a thread; one launch processes more in several passes */
    int32_t coarsen_u, coarsen_v; /* size of a block of cells, which moves as a whole */
    int32_t blocks_v;             /* blocks of a thread, stacked along v */
    int32_t tile_u, tile_v;       /* largest tile of a block of threads, in cells; full tables: most threads, 0 */
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
 * msi_window_grid_shapes - list the shapes that are compiled in for a job's precision, tables and images. n_vis is not
 * set.
 * Returned: shape [MSI_WINDOW_MAX_SHAPES]. Returns: the number of shapes
 */
enum { MSI_WINDOW_MAX_SHAPES = 32 };
int msi_window_grid_shapes(const msi_wproj_job *job, msi_window_shape *shape);

/*
 * Kernels in the layout for degridding on tensor cores. The weights of every sub-offset are stored at their positions
 * in the blocks of a moving window, so that a warp loads its operands directly for all positions of the footprint.
 */

/* The operands for one width of kernels take at most 1/256 of the device's memory, and at most this. */
enum { MSI_WINDOW_OPERAND_MIB = 256 };

/*
 * Operands have one row for each sub-offset of each plane, plane by plane, and one row of zeros. A footprint begins
 * `half` taps before its cell. Kernels narrower than `taps` are padded with zeros.
 *
 * u [n_row][4][2][window / 4][2] elements of 16 bytes. The indices are: row; position 0 .. 3 of the footprint's first
 * cell in a block of four; repetition of the window, which is stored twice; block; real or imaginary part. An element
 * has the scaled parts of the block's four weights: four high and four low halves (MSI_WPROJ_NEAREST), or four floats
 * (MSI_WPROJ_LINEAR).
 *
 * v [n_row][2][window] msi_c32: the weights along v, for the window's cells twice.
 */
typedef struct msi_window_operands {
    int32_t taps, half;
    int32_t window; /* size of the window in cells: the smallest one for `taps` that suits the tensor cores */
    msi_wproj_lookup lookup;
    void *u, *v;
    float
        *largest; /* the largest real or imaginary part of all weights; the scale of weights along u follows from it */
} msi_window_operands;

/* msi_window_operands_bytes - return the bytes of device memory of operands for kernels of up to max_taps, or 0 if they
 * would exceed MSI_WINDOW_OPERAND_MIB. */
int64_t msi_window_operands_bytes(int32_t n_plane, int32_t oversample, int32_t max_taps);

/*
 * msi_window_operands_create - make operands for a job's kernels of up to max_taps.
 *
 * Given:    job->precision, job->kernels; stream, a cudaStream_t of the current device
 * Returned: *out, freed by msi_window_operands_free; NULL if tensor cores do not support the kernels (full tables,
 *           double precision, textures), or if operands need more memory than the limit or than the device has
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

/* The choice of the fastest shape of the moving window on this machine. Each run measures a few shapes, and the results
 * are kept in the user's cache folder. */

/* A case for which a shape is chosen. */
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
    const msi_window_shape *candidate; /* [n]; n_vis is not used */
    int n;                             /* 1 .. MSI_WINDOW_MAX_SHAPES */
    int64_t n_timing;                  /* most calls of `time`; if less than 2, nothing is measured */
    msi_window_time_fn time;
    void *context;    /* first argument of time */
    const char *path; /* path of the cache; NULL: window-tuning in $XDG_CACHE_HOME/msimage or ~/.cache/msimage */
} msi_window_trials;

/*
 * msi_window_tuning_choose - choose the shape of a case. The first choice is the shape in the cache, or an estimate.
 * Then untried candidates are measured, the most promising first, and after them the sizes of work groups, until all
 * are tried or n_timing calls have been made. The cache stores the progress, and the next call continues from there.
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

/* msi_window_tuning_estimate - return the shape with the fewest estimated instructions, the first one of equals. */
msi_window_shape msi_window_tuning_estimate(const msi_window_case *problem, const msi_window_shape *candidate, int n);

#ifdef __cplusplus
}
#endif
#endif
