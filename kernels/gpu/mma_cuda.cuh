/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Matrix instructions of a warp, and numbers as sums of two halves for them. A fragment is the part of a matrix that a
 * lane holds, as laid out in the PTX manual: g = lane / 4, t = lane % 4.
 */
#ifndef MSI_KERNELS_MMA_CUDA_CUH
#define MSI_KERNELS_MMA_CUDA_CUH

#include <stdint.h>

#include <cuda_fp16.h>

namespace mma {

__device__ __forceinline__ half2 halves(uint32_t u)
{
    return *reinterpret_cast<half2 *>(&u);
}

__device__ __forceinline__ uint32_t bits(half2 h)
{
    return *reinterpret_cast<uint32_t *>(&h);
}

/* Two numbers, each as a sum of two halves: the high half, and the rounded rest. 22 bits of a number are kept if its
 * low half is a normal number. */
struct split_pair {
    uint32_t high, low;
};

/* Split two floats into high and low halves. */
__device__ __forceinline__ split_pair split(float x, float y)
{
    const half2 high = __floats2half2_rn(x, y);
    return {bits(high), bits(__floats2half2_rn(x - __low2float(high), y - __high2float(high)))};
}

/* Multiply two pairs element by element. The rounding error of a high product is exact in halves, and is added to the
 * low product. */
__device__ __forceinline__ split_pair multiply(split_pair a, split_pair b)
{
    const half2 a_high = halves(a.high), a_low = halves(a.low), b_high = halves(b.high), b_low = halves(b.low);
    const half2 high = __hmul2_rn(a_high, b_high);
    const half2 rest = __hfma2(a_high, b_high, __hneg2(high));
    return {bits(high), bits(__hfma2(a_low, b_high, __hfma2(a_high, b_low, rest)))};
}

/*
 * Compute c += a b of halves: a is 16 x 16, b 16 x 8, c 16 x 8 floats. Words of a lane: a0 has row g, columns 2t and 2t
 * + 1; a1 row g + 8; a2 and a3 the same rows, columns 2t + 8 and 2t + 9; b0 has rows 2t and 2t + 1, column g; b1 rows
 * 2t + 8 and 2t + 9; c has row g, columns 2t and 2t + 1, then row g + 8.
 */
__device__ __forceinline__ void multiply_add(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                             uint32_t b0, uint32_t b1)
{
#ifdef __CUDA_ARCH__
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
}

__device__ __forceinline__ void multiply_add(float (&c)[4], const uint4 &a, uint32_t b0, uint32_t b1)
{
    multiply_add(c, a.x, a.y, a.z, a.w, b0, b1);
}

__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t *a, uint32_t b0, uint32_t b1)
{
    multiply_add(c, a[0], a[1], a[2], a[3], b0, b1);
}

/*
 * Compute c += a b of doubles: a is 16 x 4, b 4 x 8. A lane has a of rows g and g + 8, column t; b of row t, column g;
 * c of row g, columns 2t and 2t + 1, then of row g + 8.
 */
__device__ __forceinline__ void multiply_add(double (&c)[2][2], const double (&a)[2], double b)
{
#ifdef __CUDA_ARCH__
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+d"(c[0][0]), "+d"(c[0][1]), "+d"(c[1][0]), "+d"(c[1][1])
        : "d"(a[0]), "d"(a[1]), "d"(b));
#else
#pragma unroll
    for (int i = 0; i < 2; i++)
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
            : "+d"(c[i][0]), "+d"(c[i][1])
            : "d"(a[i]), "d"(b));
#endif
#endif
}

/*
 * Compute c += a b of doubles: a is 16 x 16, b 16 x 8. A lane has a[2k + i] of row g + 8i, column t + 4k; b[k] of row
 * t + 4k, column g; c of row g, columns 2t and 2t + 1, then of row g + 8.
 */
__device__ __forceinline__ void multiply_add_k16(double (&c)[4], const double *a, const double *b)
{
#ifdef __CUDA_ARCH__
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, "
        "{%12,%13,%14,%15}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
          "d"(b[2]), "d"(b[3]));
#else
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                : "+d"(c[2 * half]), "+d"(c[2 * half + 1])
                : "d"(a[2 * k + half]), "d"(b[k]));
#endif
#endif
}

/* Compute c += a b of doubles: a is 16 x 4 FOURS, b 4 FOURS x 8, laid out as for multiply_add_k16. */
template <int FOURS>
__device__ __forceinline__ void multiply_add_fours(double (&c)[4], const double *a, const double *b)
{
    if constexpr (FOURS >= 4) {
        multiply_add_k16(c, a, b);
        multiply_add_fours<FOURS - 4>(c, a + 8, b + 4);
    } else if constexpr (FOURS > 0) {
        double part[2][2] = {{c[0], c[1]}, {c[2], c[3]}};
        multiply_add(part, {a[0], a[1]}, b[0]);
        for (int i = 0; i < 4; i++) c[i] = part[i / 2][i % 2];
        multiply_add_fours<FOURS - 1>(c, a + 2, b + 1);
    }
}

/* Load four 8 x 8 matrices of halves from shared memory, transposed. Lane i gives the address of row i % 8 of matrix i
 * / 8. */
__device__ __forceinline__ uint4 load_transposed(const uint4 *row)
{
    uint4 m = {};
#ifdef __CUDA_ARCH__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
#endif
    return m;
}

/* Load four 8 x 8 matrices of halves from shared memory. Lane i gives the address of row i % 8 of matrix i / 8. */
__device__ __forceinline__ uint4 load(const uint4 *row)
{
    uint4 m = {};
#ifdef __CUDA_ARCH__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
#endif
    return m;
}

} // namespace mma

#endif
