/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transforms of subgrids on the GPU, from small planes to a tower's whole plane and back; tower_plan.h says what these
 * are.
 *
 * A small plane holds the cells that samples reach; the margin about them is zeros that nobody stores or reads. Its
 * rows are transformed to the subgrid's size, then one kernel transforms columns of all planes of a subgrid, one after
 * the other, screens them and adds them up in registers, and transforms the sum's columns back; the sum's rows follow,
 * and go straight to the whole plane, or stay for whoever makes its rows of them (image_fft_cuda.h). A small
 * plane's row transforms are written and read once, its transform never leaves a multiprocessor. The way back takes the
 * same steps backwards.
 *
 * A subgrid's cell j lies j cells beyond its core's first tap, modulo the size: the margin before the core is its last
 * cells.
 */
#ifndef MSI_SUBGRID_CUDA_H
#define MSI_SUBGRID_CUDA_H

#include "core/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of subgrids that there are kernels for, ascending: all that plans for any backend have. */
enum { MSI_SUBGRID_N_SIZE = 11 };
extern const int32_t msi_subgrid_size[MSI_SUBGRID_N_SIZE];

typedef struct msi_subgrid_shape {
    int32_t size, core, margin, width; /* as msi_tower_plan; taps of the window */
    int32_t filled, pitch;     /* cells that samples reach, along a core's edge; and from row to row of a small plane */
    int32_t n_core_u, n_plane; /* cores in a row; planes of a tower */
    int64_t nu, nv;            /* of the whole plane */
    double w_step;             /* wavelengths */
    msi_precision precision;   /* of every array of complex numbers */
} msi_subgrid_shape;

/* Stacks of small planes, in device memory. Stack k is that of core core_of[k], whose planes are slots one after the
 * other. */
typedef struct msi_subgrid_job {
    msi_subgrid_shape shape;
    const uint32_t *core_of; /* [n_stack] cores, rows of them one after the other */
    const uint32_t *slot;    /* [core][n_plane] and one more: how many planes before it hold something */
    uint32_t first_slot;     /* of the job */
    int64_t n_stack, n_slot;
    const void *roots;   /* of msi_subgrid_roots */
    const void *screens; /* of msi_subgrid_screens */
    void *small;         /* [n_slot][filled][pitch], in whole vectors of 16 bytes */
    void *rows;          /* [n_slot][filled][size] workspace */
    void *sum;           /* [n_stack][size][size] workspace, or what msi_subgrid_add leaves */
    void *whole;         /* [nv][nu]; NULL: sums stay */
} msi_subgrid_job;

/* msi_subgrid_plane_cells, _row_cells, _screen_cells - compute cells of a small plane, of its rows' transforms, and of
 * all screens with the steps between them. */
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
 * msi_subgrid_roots - make the roots of unity that kernels of a size read, on the host.
 * Returned: roots [MSI_SUBGRID_MAX_ROOTS] msi_c32 or msi_c64, *n: how many there are
 * Returns:  0, MSI_EINTERNAL (there is no such size)
 */
enum { MSI_SUBGRID_MAX_ROOTS = 1024 };
int msi_subgrid_roots(const msi_subgrid_shape *shape, void *roots, int64_t *n);

/*
 * msi_subgrid_screens - begin to make the screens that bring planes to a tower's own w, exp(-2 pi i dw nu), divided by
 * size^2 for the way back, of the first (n_plane + 1) / 2 planes: plane n_plane - 1 - k has the conjugate of plane k.
 * Behind them the step exp(2 pi i w_step nu) from a plane to the next, and the one onto every 16th plane, which makes
 * 16 steps together exact.
 * Given:    nu [size/2 + 1][size/2 + 1]  of msi_tower_n, in device memory; stream  cudaStream_t
 * Returned: screens [(n_plane + 1) / 2 + 2][size/2 + 1][size/2 + 1]
 * Returns:  0, MSI_EGPU
 */
int msi_subgrid_screens(const msi_subgrid_shape *shape, const double *nu, void *screens, void *stream);

/*
 * msi_subgrid_add - begin to transform and screen small planes, and to add them to the whole plane. Without one
 * subgrids stay in job->sum, cell j of a row and of a column j cells beyond the core's first tap, modulo the size. The
 * small planes are zero then, so that more samples may be gridded on them.
 * Returns: 0, MSI_EGPU, MSI_EINTERNAL (there is no such size)
 * Notes:   summation order varies from run to run; cells of small planes between filled and pitch do not matter.
 */
int msi_subgrid_add(const msi_subgrid_job *job, void *stream);

/*
 * msi_subgrid_cut - begin to make small planes of the whole plane: the transpose, which sets the cells between filled
 * and pitch to zero.
 * Returns: as msi_subgrid_add
 */
int msi_subgrid_cut(const msi_subgrid_job *job, void *stream);

/* The functions of subgrid_cuda.h, a file a precision. */

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
