/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection as plain loops in double, which every faster form is compared with. */
#ifndef MSI_KERNELS_WPROJ_REFERENCE_H
#define MSI_KERNELS_WPROJ_REFERENCE_H

#include "kernels/wproj/job/wproj_simd.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_wproj_reference_tap - the kernel value that a cell takes: tap (tu, tv) of a sample's place, interpolated between
 * sub-offsets where the geometry says so, conjugated where its residual is negative. In double, whatever the table is.
 */
msi_c64 msi_wproj_reference_tap(const msi_wproj_geometry *geometry, const msi_wkernel_set *kernels,
                                const msi_wproj_place *place, int32_t tu, int32_t tv);

/* msi_wproj_reference_value - form what a sample adds, in Jy: its visibility weighted, conjugated with its coordinates,
 * its residual phase taken out. */
msi_c64 msi_wproj_reference_value(const msi_wproj_span *span, const msi_vis_segment *segment, int64_t row, int32_t chan,
                                  const msi_wproj_place *place);

/* msi_wproj_reference_store - do the transpose: a sum over a footprint becomes the sample's visibility in the store. */
void msi_wproj_reference_store(const msi_wproj_span *span, const msi_vis_segment *segment, int64_t row, int32_t chan,
                               const msi_wproj_place *place, msi_c64 sum);

/* msi_wproj_reference_place - find where a sample of the span's slice goes. */
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

/* msi_wproj_cell_add - cell `at` += value. */
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

/* msi_wproj_reference_grid_f32, .._f64 - msi_wproj_grid_fn: sums in the cells' precision, everything else in double.
 * msi_wproj_reference_degrid_f32, .._f64 - msi_wproj_degrid_fn: every visibility gathers its footprint; sums in double.
 * The suffix is that of the cells. */
void msi_wproj_reference_grid_f32(const msi_wproj_span *span, const msi_wproj_cells *target);
void msi_wproj_reference_grid_f64(const msi_wproj_span *span, const msi_wproj_cells *target);
void msi_wproj_reference_degrid_f32(const msi_wproj_span *span, const msi_wproj_cells *source);
void msi_wproj_reference_degrid_f64(const msi_wproj_span *span, const msi_wproj_cells *source);

#ifdef __cplusplus
}
#endif
#endif
