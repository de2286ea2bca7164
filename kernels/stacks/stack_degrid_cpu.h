/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Degridding from stacks of small subgrids, the problem of Adamek et al. (2021): the arrays of a job, and the cells and
 * weights of a visibility.
 *
 * This is only a benchmark; msimage grids subgrids with kernels/towers. w-towers do not use this degridder, because its
 * footprint is always 8 x 8 x 4 cells with weights from tables. The footprints of towers have the width that the
 * accuracy requires, and weights from polynomials (docs/performance.md, "w-towers").
 */
#ifndef MSI_STACK_DEGRID_CPU_H
#define MSI_STACK_DEGRID_CPU_H

#include "kernels/method/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MSI_STACK_TAPS = 8,   /* in u and in v */
    MSI_STACK_PLANES = 4, /* planes of a subgrid, and taps in w */
    MSI_STACK_OVERSAMPLE_BITS = 14,
    MSI_STACK_OVERSAMPLE = 1 << MSI_STACK_OVERSAMPLE_BITS, /* sub-positions between two cells, and between planes */
    MSI_STACK_MAX_SIZE = 512
};

/* u and v are in cells from the subgrid's centre, which is cell (size / 2, size / 2). w is in planes from plane 1. */
typedef struct msi_stack_uvw {
    double u, v, w;
} msi_stack_uvw;

/*
 * Real numbers are float or double, and complex numbers msi_c32 or msi_c64, according to `precision`. first_vis is in
 * host memory; the other arrays are in the memory of the CPU or GPU that does the work.
 */
typedef struct msi_stack_job {
    msi_precision precision;
    int32_t n_subgrid;
    int32_t size; /* cells of a subgrid's side: even, 16 .. MSI_STACK_MAX_SIZE */
    /* [n_subgrid + 1] ascending from 0. Visibilities first_vis[s] .. first_vis[s + 1] - 1 belong to subgrid s. */
    const int64_t *first_vis;
    const msi_stack_uvw *uvw; /* [first_vis[n_subgrid]] of each visibility */
    const void *grid;         /* complex [n_subgrid][MSI_STACK_PLANES][size v][size u] */
    const void *kernel_u;     /* real [MSI_STACK_OVERSAMPLE][MSI_STACK_TAPS] */
    const void *kernel_v;     /* real [MSI_STACK_OVERSAMPLE][MSI_STACK_TAPS] */
    const void *kernel_w;     /* real [MSI_STACK_OVERSAMPLE][MSI_STACK_PLANES] */
    void *value;              /* complex [first_vis[n_subgrid]], overwritten */
} msi_stack_job;

/*
 * The place of a visibility in its subgrid, packed in one word. Bits 0 to 8 are u0 and bits 9 to 17 are v0, the first
 * cell of the footprint. Bits 18, 32 and 46 are the first of 14 bits for the sub-positions in u, v and w, which are the
 * rows of the tables. Bit 63 is MSI_STACK_OUTSIDE.
 */
typedef uint64_t msi_stack_place;

/* This bit is set if the footprint leaves the subgrid. The coordinates that cause it are then replaced by the least
 * allowed, so that cells can be read without a check. */
#define MSI_STACK_OUTSIDE ((msi_stack_place)1 << 63)

/* msi_stack_u0, .._v0, .._sub_u, .._sub_v, .._sub_w - return a part of a place. */
MSI_HD int32_t msi_stack_u0(msi_stack_place p)
{
    return (int32_t)(p & 511);
}

MSI_HD int32_t msi_stack_v0(msi_stack_place p)
{
    return (int32_t)(p >> 9 & 511);
}

MSI_HD int32_t msi_stack_sub_u(msi_stack_place p)
{
    return (int32_t)(p >> 18 & (MSI_STACK_OVERSAMPLE - 1));
}

MSI_HD int32_t msi_stack_sub_v(msi_stack_place p)
{
    return (int32_t)(p >> 32 & (MSI_STACK_OVERSAMPLE - 1));
}

MSI_HD int32_t msi_stack_sub_w(msi_stack_place p)
{
    return (int32_t)(p >> 46 & (MSI_STACK_OVERSAMPLE - 1));
}

/*
 * msi_stack_steps - return the distance of x from `least`, both in cells, as a number of sub-positions, rounded to the
 *                   nearest.
 * Returned: *outside  set to MSI_STACK_OUTSIDE if the distance is negative, or n cells or more, or x is NaN; the
 *                     function then returns 0
 */
MSI_HD uint64_t msi_stack_steps(double x, int32_t least, int32_t n, msi_stack_place *outside)
{
    double steps = rint(x * MSI_STACK_OVERSAMPLE) - (double)least * MSI_STACK_OVERSAMPLE;
    if (steps >= 0 && steps < (double)n * MSI_STACK_OVERSAMPLE) return (uint64_t)(uint32_t)steps;
    *outside = MSI_STACK_OUTSIDE;
    return 0;
}

/*
 * msi_stack_locate - return the place of a visibility. A coordinate x is rounded to a sub-position. Then the footprint
 * begins 3 cells before floor(x) in u and v, and 1 plane before it in w. The weights are row
 * (x - floor(x)) * MSI_STACK_OVERSAMPLE of the table.
 */
MSI_HD msi_stack_place msi_stack_locate(const msi_stack_uvw *x, int32_t size)
{
    const int32_t least = MSI_STACK_TAPS / 2 - 1 - size / 2, n = size - MSI_STACK_TAPS + 1;
    const uint64_t sub = MSI_STACK_OVERSAMPLE - 1;
    msi_stack_place outside = 0;
    const uint64_t u = msi_stack_steps(x->u, least, n, &outside), v = msi_stack_steps(x->v, least, n, &outside);
    const uint64_t w = msi_stack_steps(x->w, 0, 1, &outside);
    return u >> MSI_STACK_OVERSAMPLE_BITS | v >> MSI_STACK_OVERSAMPLE_BITS << 9 | (u & sub) << 18 | (v & sub) << 32 |
           w << 46 | outside;
}

/* ---- Reference implementation: plain loops on the CPU in double precision ---- */

/*
 * msi_stack_job_check - check the sizes and counts of a job. The only array that it reads is first_vis.
 * Returns: 0, MSI_ERANGE
 */
int msi_stack_job_check(const msi_stack_job *job);

/*
 * msi_stack_cpu_degrid - compute value[i] = sum over j, k, l of kernel_w[sub_w][l] kernel_v[sub_v][k]
 *                        kernel_u[sub_u][j] grid[s][l][v0 + k][u0 + j], where s is the subgrid of visibility i.
 * Returned: job->value; 0 for a visibility whose footprint leaves its subgrid
 * Returns:  0, MSI_ERANGE (a footprint leaves its subgrid; the others were computed), MSI_EINTERRUPTED
 */
int msi_stack_cpu_degrid(const msi_stack_job *job);

#ifdef __cplusplus
}
#endif
#endif
