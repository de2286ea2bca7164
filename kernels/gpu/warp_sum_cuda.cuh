/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sums of several numbers over the lanes of a warp. Every step halves the numbers and doubles the lanes that a number
 * is summed over: N sums over 32 lanes take N - 1 exchanges and then log2(32 / N), where a tree for each takes 5 N.
 */
#ifndef MSI_KERNELS_WARP_SUM_CUDA_CUH
#define MSI_KERNELS_WARP_SUM_CUDA_CUH

#include "kernels/gpu/complex_cuda.cuh"

namespace warp_sum {

using complex_cuda::ALL_LANES;
using complex_cuda::cplx;

__host__ __device__ constexpr int power_of_two(int n)
{
    int p = 1;
    while (p < n) p *= 2;
    return p;
}

/* Do a step of a transposed sum: of N numbers, every lane sends the half that its partner keeps. */
template <int N, int BIT, typename T> __device__ __forceinline__ T fold(const T *x, int lane)
{
    if constexpr (BIT == 0) {
        return x[0];
    } else if constexpr (N == 1) {
        const T sum = x[0] + __shfl_xor_sync(ALL_LANES, x[0], BIT);
        return fold<1, BIT / 2>(&sum, lane);
    } else {
        T half[N / 2];
        const bool upper = lane & BIT;
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            T send = upper ? x[i] : x[i + N / 2], stay = upper ? x[i + N / 2] : x[i];
            half[i] = stay + __shfl_xor_sync(ALL_LANES, send, BIT);
        }
        return fold<N / 2, BIT / 2>(half, lane);
    }
}

/*
 * Sum each of COUNT complex numbers over groups of LANES lanes.
 * Returned: part lane / (LANES / P) of them, counted re, im, re, .., lane within the group, P the power of two from 2
 *           COUNT on; zero beyond the last
 */
template <int COUNT, int LANES, typename T> __device__ __forceinline__ T transposed_sum(const cplx<T> *x, int lane)
{
    constexpr int P = power_of_two(2 * COUNT);
    static_assert(P <= LANES, "more numbers than lanes");
    T part[P];
#pragma unroll
    for (int i = 0; i < P / 2; i++) {
        part[2 * i] = i < COUNT ? x[i].re : T(0);
        part[2 * i + 1] = i < COUNT ? x[i].im : T(0);
    }
    return fold<P, LANES / 2>(part, lane);
}

} // namespace warp_sum

#endif
