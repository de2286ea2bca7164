/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Windows' taps and units of numbers for products of halves on tensor cores, as both directions take them. */
#ifndef MSI_KERNELS_WGRID_HALVES_CUDA_CUH
#define MSI_KERNELS_WGRID_HALVES_CUDA_CUH

#include "kernels/gpu/mma_cuda.cuh"

namespace {

constexpr int LEAST_EXPONENT = 27; /* of a unit's largest value, as floats have it; at most 254, of the largest float */
constexpr float TAP_TOP = 64;      /* largest tap: its products with values and taps are halves, small ones normal */

/* Return 2^n, -127 < n < 128. */
__device__ inline float unit_of(int n)
{
    return __uint_as_float((uint32_t)(n + 127) << 23);
}

/* Lay taps of a window, split, as rows of halves that begin `at` cells into 8 EIGHTS cells; at < 2^BITS. */
template <int WIDTH, int EIGHTS, int BITS>
__device__ void lay_row(const float (&tap)[WIDTH], int at, uint4 *high, uint4 *low, int stride)
{
    uint32_t row[2][4 * EIGHTS] = {};
#pragma unroll
    for (int k = 0; k < WIDTH; k += 2) {
        const mma::split_pair s = mma::split(tap[k], k + 1 < WIDTH ? tap[k + 1] : 0);
        row[0][k / 2] = s.high;
        row[1][k / 2] = s.low;
    }
#pragma unroll
    for (int part = 0; part < 2; part++) {
#pragma unroll
        for (int j = 4 * EIGHTS - 1; j >= 0; j--)
            row[part][j] = __funnelshift_l(j ? row[part][j - 1] : 0, row[part][j], at % 2 * 16);
#pragma unroll
        for (int b = 1; b < BITS; b++)
#pragma unroll
            for (int j = 4 * EIGHTS - 1; j >= 0; j--) {
                const int step = 1 << (b - 1);
                row[part][j] = at >> b & 1 ? j >= step ? row[part][j - step] : 0 : row[part][j];
            }
#pragma unroll
        for (int e = 0; e < EIGHTS; e++)
            (part ? low : high)[e * stride] = {row[part][4 * e], row[part][4 * e + 1], row[part][4 * e + 2],
                                               row[part][4 * e + 3]};
    }
}

} // namespace

#endif
