/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compiled once for each instruction set, with MSI_ISA its name and MSI_VECTOR_BYTES its vector's length. */
#include "kernels/transform/column_fft_simd.h"

#include <string.h>

#include "kernels/method/simd_compile.h"

/* Vectors that hold the real parts of an element's columns. */
enum { PER_LINE = MSI_COLUMN_LINE / MSI_VECTOR_BYTES };

#define REAL   float
#define CPLX   msi_c32
#define SUFFIX f32
#include "kernels/transform/column_fft_simd_body.h"
#undef REAL
#undef CPLX
#undef SUFFIX

#define REAL   double
#define CPLX   msi_c64
#define SUFFIX f64
#include "kernels/transform/column_fft_simd_body.h"

extern const msi_column_fft_table MSI_CAT(msi_column_fft, _table, MSI_ISA);
const msi_column_fft_table MSI_CAT(msi_column_fft, _table, MSI_ISA) = {.run_f32 = run_f32, .run_f64 = run_f64};
