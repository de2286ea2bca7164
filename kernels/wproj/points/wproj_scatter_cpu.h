/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Degridding by scattering on the CPU in plain loops, which the GPU's scatter is compared with. */
#ifndef MSI_KERNELS_WPROJ_SCATTER_CPU_H
#define MSI_KERNELS_WPROJ_SCATTER_CPU_H

#include "kernels/wproj/job/wproj_simd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* msi_wproj_scatter_degrid_f32, .._f64 - msi_wproj_degrid_fn; sums in double. The suffix is that of the cells. */
void msi_wproj_scatter_degrid_f32(const msi_wproj_span *span, const msi_wproj_cells *source);
void msi_wproj_scatter_degrid_f64(const msi_wproj_span *span, const msi_wproj_cells *source);

#ifdef __cplusplus
}
#endif
#endif
