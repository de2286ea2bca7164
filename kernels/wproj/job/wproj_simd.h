/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The inner loops of w-projection on the CPU, compiled once for each instruction set and chosen at run time. */
#ifndef MSI_KERNELS_WPROJ_SIMD_H
#define MSI_KERNELS_WPROJ_SIMD_H

#include <stdint.h>

#include "kernels/wproj/job/wkernel.h"
#include "kernels/store/bucket_sort_cpu.h"
#include "kernels/store/vis_store.h"
#include "kernels/wproj/job/wproj_geometry.h"

/* So many cells to the right of a footprint are read and written back as they were, when a row is not whole vectors. */
enum { MSI_WPROJ_SLACK = 8 };

/* A span is runs of one bucket, all of one slice. */
typedef struct msi_wproj_span {
    const msi_wproj_geometry *geometry;
    const msi_wkernel_set *kernels;
    const msi_vis_store *store;
    const msi_run *run;
    int64_t n_run;
    int32_t slice;
    int image_plane; /* of the store; -1: the PSF of plane 0, visibility 1 (gridding only) */
    void *scratch;   /* of the calling thread, where the function asks for it; else NULL */
} msi_wproj_span;

/* Cells [n_v][n_u] are of the kernels' precision; cell (u, v) is cells[(v - v_origin) * stride + u - u_origin]. */
typedef struct msi_wproj_cells {
    void *cells;
    int64_t stride, u_origin, v_origin;
    int64_t n_u, n_v; /* degridding only */
} msi_wproj_cells;

/* msi_wproj_first_cell - return the cell in which a footprint begins. Past 2^53 periods the fraction of one is noise,
 * and noise differs between compilations; it must not lead out of the cells. */
static inline int64_t msi_wproj_first_cell(const msi_wproj_cells *c, const msi_wproj_place *p, int32_t half)
{
    int64_t u = p->u - half - c->u_origin, v = p->v - half - c->v_origin;
    int64_t u_most = c->n_u - msi_wkernel_taps(half), v_most = c->n_v - msi_wkernel_taps(half);
    u = u < 0 ? 0 : u > u_most ? u_most : u;
    v = v < 0 ? 0 : v > v_most ? v_most : v;
    return v * c->stride + u;
}

/* A grid function adds every sample of a span, weighted and spread over its kernel, to the cells. */
typedef void (*msi_wproj_grid_fn)(const msi_wproj_span *span, const msi_wproj_cells *target);

/* A degrid function is the transpose: it sums the visibilities of the store's image_plane from cells that were
 * transformed by exp(+2 pi i ...). */
typedef void (*msi_wproj_degrid_fn)(const msi_wproj_span *span, const msi_wproj_cells *source);

/* One instruction set's functions, for either precision. */
typedef struct msi_wproj_simd_table {
    msi_wproj_grid_fn grid_f32, grid_f64;
    msi_wproj_degrid_fn degrid_f32, degrid_f64;
} msi_wproj_simd_table;

/* msi_wproj_simd - return the table of the instruction set that msi_simd_best stands for. */
const msi_wproj_simd_table *msi_wproj_simd(void);

#endif
