/* SPDX-License-Identifier: GPL-3.0-or-later */
/* For tensor cores, a number is split into a sum of two half-precision numbers. It is first scaled into their range by
 * a power of two. The sum has 22 bits. */
#ifndef MSI_KERNELS_WINDOW_HALVES_CUH
#define MSI_KERNELS_WINDOW_HALVES_CUH

#include <cstdint>

#include "kernels/gpu/mma_cuda.cuh"

namespace {

/* The largest numbers are scaled to these powers of two, or a little more. Cells read later may be sixteen times as
 * large. */
constexpr int CELL_TOP = 10, WEIGHT_TOP = 13;

/* A power of two that scales the largest of some numbers into [2^top, 2^(top + 1)); `down` is its inverse. */
struct power {
    float up, down;
};

__device__ __forceinline__ power scale_to(float largest, int top)
{
    int exponent = max((int)(__float_as_uint(largest) >> 23), top + 1);
    return {__uint_as_float((uint32_t)(254 + top - exponent) << 23), __uint_as_float((uint32_t)(exponent - top) << 23)};
}

/* Split each of four numbers into two halves. The high halves are in x and y, the low halves in z and w. */
__device__ __forceinline__ uint4 split(float a, float b, float c, float d)
{
    const mma::split_pair first = mma::split(a, b), second = mma::split(c, d);
    return {first.high, second.high, first.low, second.low};
}

} // namespace

#endif
