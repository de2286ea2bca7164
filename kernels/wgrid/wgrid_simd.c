/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The CPU's inner loops of gridding and degridding. Compiled once for each instruction set, with MSI_ISA its name and
 * MSI_VECTOR_BYTES the length of its vectors. */
#include "kernels/wgrid/wgrid_simd.h"

#include <math.h>
#include <string.h>

#include "kernels/method/simd.h"

/* A switch with a case for each width makes the width a constant for the compiler. */
#define MSI_WIDTHS(X) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

#define VEC   NAME(vec)
#define VEC_U NAME(vec_unaligned)
#define VL    NAME(vector_length)

#define REAL   float
#define CPLX   msi_c32
#define TAPS   msi_taps_f32
#define SUFFIX f32
#include "kernels/transform/turns_simd_body.h"
#include "kernels/wgrid/wgrid_simd_body.h"
#undef REAL
#undef CPLX
#undef TAPS
#undef SUFFIX

#define REAL   double
#define CPLX   msi_c64
#define TAPS   msi_taps_f64
#define SUFFIX f64
#include "kernels/transform/turns_simd_body.h"
#include "kernels/wgrid/wgrid_simd_body.h"

extern const msi_wgrid_simd_table MSI_CAT(msi_wgrid_simd, _table, MSI_ISA);
const msi_wgrid_simd_table MSI_CAT(msi_wgrid_simd, _table, MSI_ISA) = {
    .grid_f32 = grid_span_f32,
    .grid_f64 = grid_span_f64,
    .degrid_f32 = degrid_span_f32,
    .degrid_f64 = degrid_span_f64,
    .gather_f32 = gather_cells_f32,
    .gather_f64 = gather_cells_f64,
    .turn_f32 = turn_cells_f32,
    .turn_f64 = turn_cells_f64,
};
