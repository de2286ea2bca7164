/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compiled once for each instruction set. MSI_ISA is its name, and MSI_VECTOR_BYTES the length of its vectors. */
#include "kernels/wproj/job/wproj_simd.h"

#include <math.h>
#include <string.h>

#include "kernels/method/simd.h"

#define VEC   NAME(vec)
#define VEC_U NAME(vec_unaligned)
#define VL    NAME(vector_length)

/* Number of vectors of a row of taps that are kept in registers together. */
enum { AT_ONCE = 4 };

/* Permutations that exchange the two parts of each complex number, for vectors of numbers of 4 or 8 bytes. */
#if MSI_VECTOR_BYTES == 16
#define SWAP_PAIRS_4 1, 0, 3, 2
#define SWAP_PAIRS_8 1, 0
#elif MSI_VECTOR_BYTES == 32
#define SWAP_PAIRS_4 1, 0, 3, 2, 5, 4, 7, 6
#define SWAP_PAIRS_8 1, 0, 3, 2
#else
#define SWAP_PAIRS_4 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define SWAP_PAIRS_8 1, 0, 3, 2, 5, 4, 7, 6
#endif

/* Compute exp(-2 pi i turns) for the phase error of rounding w to a plane. The phase is small for useful distances
 * between planes. */
ALWAYS_INLINE msi_c64 residual_phase(double turns)
{
    double a = -2 * MSI_PI * turns, b = a * a;
    if (b > 1e-4) return (msi_c64){cos(a), sin(a)};
    return (msi_c64){1 - b * (0.5 - b * (1. / 24 - b * (1. / 720))), a * (1 - b * (1. / 6 - b * (1. / 120)))};
}

#define REAL       float
#define CPLX       msi_c32
#define SUFFIX     f32
#define SWAP_PAIRS SWAP_PAIRS_4
#include "kernels/wproj/job/wproj_simd_body.h"
#include "kernels/wproj/job/wproj_degrid_simd_body.h"
#undef REAL
#undef CPLX
#undef SUFFIX
#undef SWAP_PAIRS

#define REAL       double
#define CPLX       msi_c64
#define SUFFIX     f64
#define SWAP_PAIRS SWAP_PAIRS_8
#include "kernels/wproj/job/wproj_simd_body.h"
#include "kernels/wproj/job/wproj_degrid_simd_body.h"

extern const msi_wproj_simd_table MSI_CAT(msi_wproj_simd, _table, MSI_ISA);
const msi_wproj_simd_table MSI_CAT(msi_wproj_simd, _table, MSI_ISA) = {grid_span_f32, grid_span_f64, degrid_span_f32,
                                                                       degrid_span_f64};
