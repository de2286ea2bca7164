/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection by a moving window on the CPU in plain loops, which the GPU's window is compared with. */
#ifndef MSI_KERNELS_WPROJ_WINDOW_CPU_H
#define MSI_KERNELS_WPROJ_WINDOW_CPU_H

#include "kernels/wproj/job/wproj_simd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* msi_wproj_window_bytes - size span->scratch for the functions below and half-supports up to half_max, in bytes. */
int64_t msi_wproj_window_bytes(int32_t half_max);

/* msi_wproj_window_grid_f32, .._f64 - msi_wproj_grid_fn. msi_wproj_window_degrid_f32, .._f64 - msi_wproj_degrid_fn.
 * Sums in double; the suffix is that of the cells. */
void msi_wproj_window_grid_f32(const msi_wproj_span *span, const msi_wproj_cells *target);
void msi_wproj_window_grid_f64(const msi_wproj_span *span, const msi_wproj_cells *target);
void msi_wproj_window_degrid_f32(const msi_wproj_span *span, const msi_wproj_cells *source);
void msi_wproj_window_degrid_f64(const msi_wproj_span *span, const msi_wproj_cells *source);

#ifdef __cplusplus
}
#endif
#endif
