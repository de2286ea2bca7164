/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The loops of clean_simd.h, compiled once for each instruction set, with MSI_ISA its name. */
#include "kernels/clean/clean_simd.h"

#include <stddef.h>

#include "kernels/method/simd.h"

/* Pixels are processed in pieces that stay in the first-level cache; a piece is a whole number of the longest
 * vectors. Channels of the PSF that are side by side are read MSI_CLEAN_SIDE at a time. */
enum { MSI_CLEAN_PIECE = 128, MSI_CLEAN_LANES = 16, MSI_CLEAN_SIDE = 8 };

#define REAL   float
#define SUFFIX f32
#define FMA    fmaf
#define SQRT   sqrtf
#include "kernels/clean/clean_simd_body.h"
#undef REAL
#undef SUFFIX
#undef FMA
#undef SQRT

#define REAL   double
#define SUFFIX f64
#define FMA    fma
#define SQRT   sqrt
#include "kernels/clean/clean_simd_body.h"

extern const msi_clean_simd_table MSI_CAT(msi_clean_simd, _table, MSI_ISA);
const msi_clean_simd_table MSI_CAT(msi_clean_simd, _table, MSI_ISA) = {
    .list_f32 = list_f32,
    .list_f64 = list_f64,
    .subtract_f32 = subtract_f32,
    .subtract_f64 = subtract_f64,
    .search_f32 = search_f32,
    .search_f64 = search_f64,
    .join_f32 = join_f32,
    .join_f64 = join_f64,
    .put_f32 = put_f32,
    .put_f64 = put_f64,
    .weigh_f32 = weigh_f32,
    .weigh_f64 = weigh_f64,
};
