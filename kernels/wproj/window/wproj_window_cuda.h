/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * w-projection on the GPU by a moving window: grid cells live in registers while footprints stay about them.
 *
 * Samples come in an order in which neighbours lie close together on the grid (a baseline's samples in time, say); any
 * order is right, a jumping one is slow. Everything here is on the device and asynchronous on a stream.
 */
#ifndef MSI_KERNELS_WPROJ_WINDOW_CUDA_H
#define MSI_KERNELS_WPROJ_WINDOW_CUDA_H

#include "core/types.h"
#include "kernels/wproj/job/wproj_geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A sample as the window strategies read it. */
typedef struct msi_window_sample {
    int32_t u, v;         /* nearest cell, 0 being u = 0; footprints wrap round the grid */
    int16_t sub_u, sub_v; /* sub-offset, or the lower of two with frac; -oversample/2 .. oversample/2 */
    int16_t plane;
    int16_t conjugate;    /* 1: takes the conjugate of the plane's kernel */
    float frac_u, frac_v; /* part of the next sub-offset; 0 where the nearest is taken */
} msi_window_sample;

/* How a weight follows from a table. All but NEAREST are for separable tables; TEXTURE for fp32. */
typedef enum msi_window_lookup {
    MSI_WINDOW_NEAREST, /* of the sample's sub-offset */
    MSI_WINDOW_LINEAR,  /* between two sub-offsets, as the sample's fractions say */
    MSI_WINDOW_TEXTURE  /* the same by the texture unit, which knows 256 fractions */
} msi_window_lookup;

/*
 * Convolution functions on the device: msi_wkernel_set's tables, or any with `taps` of either parity; tap 0 falls on
 * cell - taps / 2.
 */
typedef struct msi_window_kernels {
    int full; /* 0: separable, rows of taps; 1: squares of taps */
    msi_window_lookup lookup;
    int32_t n_plane, oversample;
    int32_t max_taps;
    const int32_t *taps;     /* [n_plane] */
    const int64_t *offset_u; /* [n_plane] elements of table; full: offset_v is not read */
    const int64_t *offset_v;
    const void *table; /* msi_c32 or msi_c64 */
    /* TEXTURE: cudaTextureObject_t of [n_plane][..] pairs of floats; K(x) of a plane is element middle + x oversample
     */
    uint64_t texture_u, texture_v;
    float texture_middle;
    const struct msi_window_operands *operands; /* of max_taps, for tensor cores; NULL: they are not used */
} msi_window_kernels;

/* What multiplies. TENSOR: degridding by kernels that have operands, from rows that are multiples of four cells;
 * numbers are split and scaled, so that a product is right to 2^-22 or so, and a cell to 2^-35 of the largest that is
 * read near it. */
enum { MSI_WINDOW_THREADS, MSI_WINDOW_TENSOR };

/* How a launch divides its work; window_tuning.h chooses. */
typedef struct msi_window_shape {
    int32_t images;               /* of a thread; more are worked on in passes of one launch */
    int32_t coarsen_u, coarsen_v; /* cells of a block that moves as one */
    int32_t blocks_v;             /* blocks of a thread, above each other */
    int32_t tile_u, tile_v;       /* most cells of a block of threads; full tables: most threads, 0 */
    int32_t variant;              /* MSI_WINDOW_THREADS or MSI_WINDOW_TENSOR */
    int32_t n_vis;                /* visibilities of a work group */
} msi_window_shape;

/* What is gridded, or degridded. Complex elements are msi_c32 or msi_c64 as precision says. */
typedef struct msi_window_job {
    msi_precision precision;
    int32_t n_image; /* any number */
    int64_t nu, nv;
    int64_t n_vis;
    const msi_window_sample *sample; /* [n_vis] */
    void *value;                     /* [n_vis][n_image] complex */
    void *grid;                      /* [nv][nu][n_image] complex, cell 0 first */
    msi_window_kernels kernels;
} msi_window_job;

/*
 * msi_window_grid_cuda - grid[v][u][p] += value[i][p] K_i(u, v) over all samples.
 *
 * Given:   stream is a cudaStream_t
 * Returns: 0, MSI_ERANGE (a shape that is not compiled in, kernels wider than the grid), MSI_EGPU
 * Notes:   sums in the job's precision by atomic additions, so their order varies.
 * Source:  Romein 2012 section 4; Merry 2016 section 3.
 */
int msi_window_grid_cuda(const msi_window_job *job, const msi_window_shape *shape, void *stream);

/*
 * msi_window_grid_shapes - the shapes, n_vis apart, that are compiled in for a job's precision, tables and images.
 * Returned: shape [MSI_WINDOW_MAX_SHAPES]. Returns: their number
 */
enum { MSI_WINDOW_MAX_SHAPES = 32 };
int msi_window_grid_shapes(const msi_window_job *job, msi_window_shape *shape);

#ifdef __cplusplus
}
#endif
#endif
