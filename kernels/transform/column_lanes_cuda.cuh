/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transforms of the columns of a plane in two kernels. The number of rows is P Q: row v = Q a + b, frequency r + P s. A
 * block of the first kernel transforms one remainder b of some neighbouring columns, and a block of the second kernel
 * one remainder r. Threads hold numbers as in small_fft_cuda.cuh. The columns are lanes, so that a warp reads and writes
 * contiguous memory.
 */
#ifndef MSI_KERNELS_COLUMN_LANES_CUDA_CUH
#define MSI_KERNELS_COLUMN_LANES_CUDA_CUH

#include "core/status.h"
#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/complex_cuda.cuh"
#include "kernels/transform/small_fft_cuda.cuh"

namespace {

using complex_cuda::cplx;
using complex_cuda::sincos_turns;

/* Compute exp(2 pi i k / n), 0 <= k < n. The angle is reduced to half a turn, to reduce rounding errors. */
template <typename T> __device__ __forceinline__ cplx<T> root(int k, int n)
{
    cplx<T> w;
    sincos_turns((T)(2 * k > n ? k - n : k) / (T)n, &w.im, &w.re);
    return w;
}

/* N points of each column of a block. */
template <typename T, int N> struct column_lanes {
    using fft = small_fft::steps<T, N>;
    static constexpr int COLUMNS = 128 / sizeof(cplx<T>), THREADS = COLUMNS * fft::A;
    /* Blocks of a multiprocessor, enough to keep memory busy: a thread then has 64 to 128 registers, or twice as many
     * in double precision. */
    static constexpr int MOST_THREADS = (fft::B <= 8    ? 1024
                                         : fft::B <= 12 ? 768
                                                        : 512) /
                                        (sizeof(T) == 4 ? 1 : 2),
                         BLOCKS = MOST_THREADS > THREADS ? MOST_THREADS / THREADS : 1;
    cplx<T> *roots, *shared;
    int lane, i;    /* column of the block; point of the first step, or of the second */
    int64_t column; /* number of the column in the plane */
    bool has;       /* the column exists */

    __device__ column_lanes(int64_t n_column, float4 *memory)
        : roots((cplx<T> *)memory), shared(roots + fft::N_ROOT), lane(threadIdx.x % COLUMNS), i(threadIdx.x / COLUMNS),
          column((int64_t)blockIdx.x * COLUMNS + lane), has(column < n_column)
    {
        for (int k = threadIdx.x; k < fft::N_ROOT; k += blockDim.x)
            roots[k] = root<T>(k / fft::PITCH * (k % fft::PITCH) % N, N);
        __syncthreads();
    }
    /* Transform N points of a column that begin at `from` and are `step` apart, of which those from `end` on are zero and
     * are not read. Calls overlap() before the barrier, where register use is lowest. */
    template <typename F>
    __device__ __forceinline__ void transform(const cplx<T> *from, int64_t step, cplx<T> (&y)[fft::B], F overlap,
                                              int end = N) const
    {
        if (i < fft::B) {
            cplx<T> x[fft::A];
#pragma unroll
            for (int a = 0; a < fft::A; a++)
                x[a] = has && fft::B * a + i < end ? from[(fft::B * a + i) * step] : cplx<T>{0, 0};
            fft::template forward_first<fft::A>(x, roots, i);
#pragma unroll
            for (int r = 0; r < fft::A; r++) shared[(r * fft::B + i) * COLUMNS + lane] = x[r];
        }
        overlap();
        __syncthreads();
#pragma unroll
        for (int b = 0; b < fft::B; b++) y[b] = shared[(i * fft::B + b) * COLUMNS + lane];
        fft::forward_second(y);
    }
    /* Transform back the numbers y of points i + A s. Sets x, of points B a + i, if i < B. */
    __device__ __forceinline__ void transform_back(cplx<T> (&y)[fft::B], cplx<T> (&x)[fft::A]) const
    {
        fft::inverse_first(y, roots, i);
#pragma unroll
        for (int b = 0; b < fft::B; b++) shared[(i * fft::B + b) * COLUMNS + lane] = y[b];
        __syncthreads();
        if (i >= fft::B) return;
#pragma unroll
        for (int r = 0; r < fft::A; r++) x[r] = shared[(r * fft::B + i) * COLUMNS + lane];
        fft::inverse_second(x);
    }
    /* Store the points of transform_back below `end`, `step` apart. */
    __device__ __forceinline__ void store(const cplx<T> (&x)[fft::A], cplx<T> *to, int64_t step, int end = N) const
    {
        if (!has || i >= fft::B) return;
#pragma unroll
        for (int a = 0; a < fft::A; a++)
            if (fft::B * a + i < end) to[(fft::B * a + i) * step] = x[a];
    }
    static constexpr size_t bytes()
    {
        return (size_t)(N * COLUMNS + fft::N_ROOT) * sizeof(cplx<T>);
    }
};

/* Call f with the number n, which must be one of those in factorise. */
template <typename F> inline int at_points(int n, F f)
{
    switch (n) {
    case 48:
        return f(small_fft::number<48>());
    case 64:
        return f(small_fft::number<64>());
    case 72:
        return f(small_fft::number<72>());
    case 80:
        return f(small_fft::number<80>());
    case 96:
        return f(small_fft::number<96>());
    case 112:
        return f(small_fft::number<112>());
    case 120:
        return f(small_fft::number<120>());
    case 128:
        return f(small_fft::number<128>());
    case 144:
        return f(small_fft::number<144>());
    case 160:
        return f(small_fft::number<160>());
    case 192:
        return f(small_fft::number<192>());
    case 256:
        return f(small_fft::number<256>());
    default:
        return msi_error_set(MSI_EINTERNAL, "no kernel transforms %d points", n);
    }
}

/* Find two supported numbers of points, of about the same size, whose product is n. */
inline bool factorise(int64_t n, int *first, int *second)
{
    static const int points[] = {128, 120, 112, 144, 96, 160, 80, 192, 72, 64, 256, 48};
    for (int p : points)
        for (int q : points)
            if ((int64_t)p * q == n) {
                *first = p;
                *second = q;
                return true;
            }
    return false;
}

/* Launch a kernel on n_column columns of N points: blocks (columns, n_remainder). */
template <typename T, int N, typename... PARAMETERS, typename... ARGS>
int launch_columns(void (*kernel)(PARAMETERS...), int64_t n_column, int n_remainder, cudaStream_t stream, ARGS... args)
{
    using lanes = column_lanes<T, N>;
    const dim3 blocks((unsigned)((n_column + lanes::COLUMNS - 1) / lanes::COLUMNS), (unsigned)n_remainder);
    MSI_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)lanes::bytes()));
    kernel<<<blocks, lanes::THREADS, lanes::bytes(), stream>>>(args...);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace

#endif
