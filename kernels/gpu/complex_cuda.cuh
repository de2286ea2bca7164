/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Complex numbers in kernels: read and written whole. */
#ifndef MSI_KERNELS_COMPLEX_CUDA_CUH
#define MSI_KERNELS_COMPLEX_CUDA_CUH

#include <stdint.h>

namespace complex_cuda {

constexpr uint32_t ALL_LANES = 0xffffffffu;
constexpr uint32_t CONJUGATE = 0x80000000u; /* beside a number that leaves the bit free: its kernel is conjugated */

/* The one complex type of the kernels: the layout of float2 and double2, of msi_c32 and msi_c64. */
template <typename T> struct alignas(2 * sizeof(T)) cplx {
    T re, im;
};

/* Load from memory that does not change while a kernel runs. */
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

/* Find the sine and cosine of an angle in turns. */
__device__ __forceinline__ void sincos_turns(float turns, float *sine, float *cosine)
{
    sincospif(2 * turns, sine, cosine);
}

__device__ __forceinline__ void sincos_turns(double turns, double *sine, double *cosine)
{
    sincospi(2 * turns, sine, cosine);
}

/* Change the sign of x where `sign` is CONJUGATE; no other bit of it is set. */
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

#endif
