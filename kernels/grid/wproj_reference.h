/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection as plain loops: what every faster form is held against. */
#ifndef MSI_KERNELS_WPROJ_REFERENCE_H
#define MSI_KERNELS_WPROJ_REFERENCE_H

#include "kernels/grid/wproj_simd.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_wproj_reference_tap - the kernel value that a cell takes: tap (tu, tv) of a sample's place, interpolated between
 * sub-offsets where the geometry says so, conjugated where its residual is negative. In double, whatever the table is.
 */
msi_c64 msi_wproj_reference_tap(const msi_wproj_geometry *geometry, const msi_wkernel_set *kernels,
                                const msi_wproj_place *place, int32_t tu, int32_t tv);

/* msi_wproj_reference_grid_f32, .._f64 - msi_wproj_grid_fn: sums in the cells' precision, everything else in double.
 * msi_wproj_reference_degrid_f32, .._f64 - msi_wproj_degrid_fn: sums in double. The suffix is that of the cells. */
void msi_wproj_reference_grid_f32(const msi_wproj_span *span, const msi_wproj_cells *target);
void msi_wproj_reference_grid_f64(const msi_wproj_span *span, const msi_wproj_cells *target);
void msi_wproj_reference_degrid_f32(const msi_wproj_span *span, const msi_wproj_cells *source);
void msi_wproj_reference_degrid_f64(const msi_wproj_span *span, const msi_wproj_cells *source);

#ifdef __cplusplus
}
#endif
#endif
