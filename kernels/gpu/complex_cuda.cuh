/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Complex numbers in kernels, loaded and stored as one vector, and their sums over a warp. */
#ifndef MSI_COMPLEX_CUDA_CUH
#define MSI_COMPLEX_CUDA_CUH

#include <stdint.h>

namespace complex_cuda {

constexpr uint32_t ALL_LANES = 0xffffffffu;
constexpr uint32_t CONJUGATE = 0x80000000u; /* marks a conjugated kernel, in a number that leaves this bit free */

/* The kernels' complex type, with the layout of float2 and double2, and of msi_c32 and msi_c64. */
template <typename T> struct alignas(2 * sizeof(T)) cplx {
    T re, im;
};

/* Load through the read-only cache: the memory must not change while the kernel runs. */
__device__ __forceinline__ cplx<float> read_only(const cplx<float> *p)
{
    float2 x = __ldg((const float2 *)p);
    return {x.x, x.y};
}

__device__ __forceinline__ cplx<double> read_only(const cplx<double> *p)
{
    double2 x = __ldg((const double2 *)p);
    return {x.x, x.y};
}

/* Compute the sine and cosine of an angle in turns. */
__device__ __forceinline__ void sincos_turns(float turns, float *sine, float *cosine)
{
    sincospif(2 * turns, sine, cosine);
}

__device__ __forceinline__ void sincos_turns(double turns, double *sine, double *cosine)
{
    sincospi(2 * turns, sine, cosine);
}

/* Change the sign of x if `sign` is CONJUGATE. No other bit of `sign` may be set. */
__device__ __forceinline__ float flip(float x, uint32_t sign)
{
    return __uint_as_float(__float_as_uint(x) ^ sign);
}

__device__ __forceinline__ double flip(double x, uint32_t sign)
{
    return __hiloint2double(__double2hiint(x) ^ (int)sign, __double2loint(x));
}

/* sum += a b */
template <typename T> __device__ __forceinline__ void multiply_add(cplx<T> &sum, cplx<T> a, cplx<T> b)
{
    sum.re += a.re * b.re;
    sum.im += a.re * b.im;
    sum.re -= a.im * b.im;
    sum.im += a.im * b.re;
}

} // namespace complex_cuda

/*
 * Sum several numbers over the lanes of a warp. Each step halves the numbers that a lane holds and doubles the lanes
 * that a number is summed over: N sums over 32 lanes take N - 1 + log2(32 / N) exchanges. A tree for each number takes
 * 5 N.
 */

namespace warp_sum {

using complex_cuda::ALL_LANES;
using complex_cuda::cplx;

__host__ __device__ constexpr int power_of_two(int n)
{
    int p = 1;
    while (p < n) p *= 2;
    return p;
}

/* Do one step of a transposed sum: of N numbers, each lane sends the half that its partner keeps. */
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
 * Returned: part lane / (LANES / P) of the sums, in the order re, im, re, ..; `lane` counts within the group, P is the
 *           smallest power of two that is at least 2 COUNT; 0 beyond the last sum
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
