/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The inner loops of w-projection on the CPU, compiled once for each instruction set and chosen at run time. */
#ifndef MSI_WPROJ_SIMD_H
#define MSI_WPROJ_SIMD_H

#include <stdint.h>

#include "kernels/store/bucket_sort_cpu.h"
#include "kernels/store/vis_store.h"
#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/job/wproj_geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a footprint are processed in whole vectors. Up to this many cells to the right of a row are read and written
 * back unchanged. */
enum { MSI_WPROJ_SLACK = 8 };

/* Runs of one bucket, all in one slice. */
typedef struct msi_wproj_span {
    const msi_wproj_geometry *geometry;
    const msi_wkernel_set *kernels;
    const msi_vis_store *store;
    const msi_run *run;
    int64_t n_run;
    int32_t slice;
    int image_plane; /* plane of the store; -1: the PSF of plane 0, visibility 1 (gridding only) */
    void *scratch;   /* memory of the calling thread, if the function needs it; else NULL */
} msi_wproj_span;

/* Cells [n_v][n_u] are of the kernels' precision; cell (u, v) is cells[(v - v_origin) * stride + u - u_origin]. */
typedef struct msi_wproj_cells {
    void *cells;
    int64_t stride, u_origin, v_origin;
    int64_t n_u, n_v; /* degridding only */
} msi_wproj_cells;

/* msi_wproj_first_cell - return the index of a footprint's first cell, limited so that the footprint lies within the
 * cells. The limit is needed for coordinates beyond 2^53 periods: their fraction of a period is rounding noise, which
 * differs between compilations. */
static inline int64_t msi_wproj_first_cell(const msi_wproj_cells *c, const msi_wproj_place *p, int32_t half)
{
    int64_t u = p->u - half - c->u_origin, v = p->v - half - c->v_origin;
    int64_t u_most = c->n_u - msi_wkernel_taps(half), v_most = c->n_v - msi_wkernel_taps(half);
    u = u < 0 ? 0 : u > u_most ? u_most : u;
    v = v < 0 ? 0 : v > v_most ? v_most : v;
    return v * c->stride + u;
}

/* A gridding function adds every sample of a span, weighted and multiplied by its kernel, to the cells. */
typedef void (*msi_wproj_grid_fn)(const msi_wproj_span *span, const msi_wproj_cells *target);

/* A degrid function is the transpose: it sums the visibilities of the store's image_plane from cells that were
 * transformed by exp(+2 pi i ...). */
typedef void (*msi_wproj_degrid_fn)(const msi_wproj_span *span, const msi_wproj_cells *source);

/* The functions of one instruction set, for both precisions. */
typedef struct msi_wproj_simd_table {
    msi_wproj_grid_fn grid_f32, grid_f64;
    msi_wproj_degrid_fn degrid_f32, degrid_f64;
} msi_wproj_simd_table;

/* msi_wproj_simd - return the functions of the instruction set msi_simd_best. */
const msi_wproj_simd_table *msi_wproj_simd(void);

/* Reference implementation of w-projection as plain loops in double precision. */

/*
 * msi_wproj_reference_tap - return the kernel value at tap (tu, tv) of a sample's place, interpolated between
 * sub-offsets if the geometry requires it, and conjugated if the place's residual w is negative. The precision of the
 * table does not matter.
 */
msi_c64 msi_wproj_reference_tap(const msi_wproj_geometry *geometry, const msi_wkernel_set *kernels,
                                const msi_wproj_place *place, int32_t tu, int32_t tv);

/* msi_wproj_reference_value - return the value of a sample for gridding, in Jy: its visibility weighted, conjugated
 * with its coordinates, and corrected for its residual phase. */
msi_c64 msi_wproj_reference_value(const msi_wproj_span *span, const msi_vis_segment *segment, int64_t row, int32_t chan,
                                  const msi_wproj_place *place);

/* msi_wproj_reference_store - the transpose: store a sum over a footprint as the sample's visibility. */
void msi_wproj_reference_store(const msi_wproj_span *span, const msi_vis_segment *segment, int64_t row, int32_t chan,
                               const msi_wproj_place *place, msi_c64 sum);

/* msi_wproj_reference_place - compute the place of a sample in the span's slice. */
msi_wproj_place msi_wproj_reference_place(const msi_wproj_span *span, const msi_vis_segment *segment, int64_t row,
                                          int32_t chan);

/* msi_c64_times - compute a b. */
static inline msi_c64 msi_c64_times(msi_c64 a, msi_c64 b)
{
    return (msi_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* msi_wproj_cell_get - return cell `at` of cells in fp32 or fp64. */
static inline msi_c64 msi_wproj_cell_get(const void *cells, int64_t at, int fp32)
{
    if (!fp32) return ((const msi_c64 *)cells)[at];
    msi_c32 x = ((const msi_c32 *)cells)[at];
    return (msi_c64){(double)x.re, (double)x.im};
}

/* msi_wproj_cell_add - add a value to cell `at`. */
static inline void msi_wproj_cell_add(void *cells, int64_t at, int fp32, msi_c64 value)
{
    if (fp32) {
        ((msi_c32 *)cells)[at].re += (float)value.re;
        ((msi_c32 *)cells)[at].im += (float)value.im;
    } else {
        ((msi_c64 *)cells)[at].re += value.re;
        ((msi_c64 *)cells)[at].im += value.im;
    }
}

/* msi_wproj_reference_grid_f32, .._f64 - grid a span (msi_wproj_grid_fn). Sums have the precision of the cells; all
 *                                        other numbers are double.
 * msi_wproj_reference_degrid_f32, .._f64 - degrid a span (msi_wproj_degrid_fn). Sums are double.
 * The suffix is the precision of the cells. */
void msi_wproj_reference_grid_f32(const msi_wproj_span *span, const msi_wproj_cells *target);
void msi_wproj_reference_grid_f64(const msi_wproj_span *span, const msi_wproj_cells *target);
void msi_wproj_reference_degrid_f32(const msi_wproj_span *span, const msi_wproj_cells *source);
void msi_wproj_reference_degrid_f64(const msi_wproj_span *span, const msi_wproj_cells *source);

#ifdef __cplusplus
}
#endif
#endif
