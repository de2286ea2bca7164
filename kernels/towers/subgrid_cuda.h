/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transforms of subgrids on the GPU, from small planes to a tower's whole plane and back; tower_plan.h describes
 * w-towers.
 *
 * A small plane holds the cells that samples reach. The margin around them is zero and not stored. Steps: (1) The rows
 * of small planes are transformed to the subgrid's size. (2) One kernel transforms the columns of all planes of a
 * subgrid, one after the other, screens them, adds them up in registers, and transforms the sum's columns back. (3) The
 * sum's rows are transformed back and added to the whole plane, or they stay for msi_row_fft_of_squares
 * (image_fft_cuda.h). The row transforms of a small plane are written and read once; its whole transform stays in a
 * multiprocessor. The way back takes the same steps in reverse.
 *
 * Cell j of a subgrid is j cells from its core's first tap, modulo the size: the margin before the core is in its last
 * cells.
 */
#ifndef MSI_SUBGRID_CUDA_H
#define MSI_SUBGRID_CUDA_H

#include "core/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of subgrids that have kernels, ascending. Plans of all backends use only these. */
enum { MSI_SUBGRID_N_SIZE = 11 };
extern const int32_t msi_subgrid_size[MSI_SUBGRID_N_SIZE];

typedef struct msi_subgrid_shape {
    int32_t size, core, margin, width; /* as in msi_tower_plan; taps of the window */
    int32_t filled, pitch;             /* nonzero cells along a small plane's edge; distance of its rows in cells */
    int32_t n_core_u, n_plane;         /* cores in a row; planes of a tower */
    int64_t nu, nv;                    /* size of the whole plane */
    double w_step;                     /* wavelengths */
    msi_precision precision;           /* precision of every array of complex numbers */
} msi_subgrid_shape;

/* Stacks of small planes, in device memory. Stack k belongs to core core_of[k]; its planes are consecutive slots. */
typedef struct msi_subgrid_job {
    msi_subgrid_shape shape;
    const uint32_t *core_of; /* [n_stack] cores, numbered row by row */
    const uint32_t *slot;    /* [core][n_plane] and one more: number of planes before this one that hold samples */
    uint32_t first_slot;     /* first slot of the job */
    int64_t n_stack, n_slot;
    const void *roots;   /* roots of msi_subgrid_roots */
    const void *screens; /* screens of msi_subgrid_screens */
    void *small;         /* [n_slot][filled][pitch], in whole vectors of 16 bytes */
    void *rows;          /* [n_slot][filled][size] workspace */
    void *sum;           /* [n_stack][size][size] workspace, or the sums of msi_subgrid_add */
    void *whole;         /* [nv][nu]; NULL: sums stay in `sum` */
} msi_subgrid_job;

/* msi_subgrid_plane_cells, _row_cells, _screen_cells - count the cells of a small plane, of the transforms of its rows,
 * and of all screens with the steps between them. */
static inline int64_t msi_subgrid_plane_cells(const msi_subgrid_shape *s)
{
    return (int64_t)s->filled * s->pitch;
}

static inline int64_t msi_subgrid_row_cells(const msi_subgrid_shape *s)
{
    return (int64_t)s->filled * s->size;
}

static inline int64_t msi_subgrid_screen_cells(const msi_subgrid_shape *s)
{
    int64_t half = s->size / 2 + 1;
    return ((s->n_plane + 1) / 2 + 2) * half * half;
}

/*
 * msi_subgrid_roots - make the roots of unity that the kernels of a size read, on the host.
 * Returned: roots [MSI_SUBGRID_MAX_ROOTS] msi_c32 or msi_c64, *n  their number
 * Returns:  0, MSI_EINTERNAL (the size is not supported)
 */
enum { MSI_SUBGRID_MAX_ROOTS = 1024 };
int msi_subgrid_roots(const msi_subgrid_shape *shape, void *roots, int64_t *n);

/*
 * msi_subgrid_screens - begin to compute the screens exp(-2 pi i dw nu) / size^2 that shift planes to the w of their
 * tower, for the first (n_plane + 1) / 2 planes. Plane n_plane - 1 - k has the conjugate of the screen of plane k. The
 * screens are followed by the step exp(2 pi i w_step nu) from a plane to the next, and by the step to every 16th plane,
 * which makes the product of 16 steps exact.
 * Given:    nu [size/2 + 1][size/2 + 1]  values of msi_tower_n, in device memory; stream  cudaStream_t
 * Returned: screens [(n_plane + 1) / 2 + 2][size/2 + 1][size/2 + 1]
 * Returns:  0, MSI_EGPU
 */
int msi_subgrid_screens(const msi_subgrid_shape *shape, const double *nu, void *screens, void *stream);

/*
 * msi_subgrid_add - begin to transform and screen small planes, and to add them to the whole plane. Without a whole
 * plane the subgrids stay in job->sum; cell j of a row and of a column is j cells from the core's first tap, modulo the
 * size. Small planes are set to zero for the next samples.
 * Returns: 0, MSI_EGPU, MSI_EINTERNAL (the size is not supported)
 * Notes:   summation order varies from run to run; cells of small planes between filled and pitch are ignored.
 */
int msi_subgrid_add(const msi_subgrid_job *job, void *stream);

/*
 * msi_subgrid_cut - begin to make small planes from the whole plane, the transpose. Cells between filled and pitch are
 * set to zero.
 * Returns: as msi_subgrid_add
 */
int msi_subgrid_cut(const msi_subgrid_job *job, void *stream);

/* The functions above in one precision, compiled in one file for each. */

int msi_subgrid_roots_fp32(const msi_subgrid_shape *shape, void *roots, int64_t *n);
int msi_subgrid_roots_fp64(const msi_subgrid_shape *shape, void *roots, int64_t *n);
int msi_subgrid_screens_fp32(const msi_subgrid_shape *shape, const double *nu, void *screens, void *stream);
int msi_subgrid_screens_fp64(const msi_subgrid_shape *shape, const double *nu, void *screens, void *stream);
int msi_subgrid_add_fp32(const msi_subgrid_job *job, void *stream);
int msi_subgrid_add_fp64(const msi_subgrid_job *job, void *stream);
int msi_subgrid_cut_fp32(const msi_subgrid_job *job, void *stream);
int msi_subgrid_cut_fp64(const msi_subgrid_job *job, void *stream);

#ifdef __cplusplus
}
#endif
#endif
