/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transforms of rows (image_fft_cuda.h).
 *
 * A row of n = R1 R2 R3 points j = (j1 R2 + j2) R3 + j3 becomes frequencies x = x1 + R1 (x2 + R2 x3) in three passes
 * over shared memory, in place. In each pass a thread transforms R points in registers: first along j1, from global
 * memory, then along j2, then along j3, to global memory. Neighbouring threads read neighbouring points and write
 * neighbouring frequencies. Between passes numbers are multiplied by roots of unity, which are read from global memory
 * and stay in L2.
 *
 * Source: Cooley & Tukey 1965.
 */
#include "kernels/transform/image_fft_cuda.h"

#include "core/memory.h"
#include "core/status.h"
#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/method/geometry.h"
#include "kernels/transform/small_fft_cuda.cuh"

namespace {

using complex_cuda::cplx;
using complex_cuda::read_only;
using small_fft::number;

/* R3, and the threads of a block. Two blocks share a multiprocessor if two rows fit. */
constexpr int LAST = 32, THREADS = 256;

/* Rows of n points in three passes. Numbers of one x1 are `pitch` apart, which is odd, so that threads of neighbouring
 * x1 use different banks of shared memory. */
struct row_shape {
    int n, first, middle, pitch, kept; /* first: R1, middle: R2 */

    __device__ bool is_kept(int frequency) const
    {
        return frequency < kept - kept / 2 || frequency >= n - kept / 2;
    }
};

template <typename T> struct row_roots {
    const cplx<T> *first;  /* [R1][R2 R3] exp(2 pi i x1 j / n) */
    const cplx<T> *middle; /* [R2][R3] exp(2 pi i x2 j3 / (R2 R3)) */
};

/* Transform R points, and multiply each but the first by its root. */
template <int R, bool FORWARD, typename T>
__device__ __forceinline__ void transform_and_turn(cplx<T> (&x)[R], const cplx<T> *root, int step)
{
    small_fft::transform<R, FORWARD, R>(x);
#pragma unroll
    for (int k = 1; k < R; k++) x[k] = small_fft::turned<FORWARD>(x[k], read_only(root + k * step));
}

/* Points in a row of global memory. On the way back all but the kept frequencies are zero. */
template <typename T, bool FORWARD> struct row_in_memory {
    const row_shape &s;
    const cplx<T> *row;
    __device__ __forceinline__ cplx<T> operator()(int k, int j) const
    {
        const int at = k * s.middle * LAST + j;
        return FORWARD || s.is_kept(at) ? row[at] : cplx<T>{0, 0};
    }
};

/* Points in shared memory. A thread stores its results where it has read its points. */
template <typename T> struct row_in_line {
    const row_shape &s;
    const cplx<T> *line;
    __device__ __forceinline__ cplx<T> operator()(int k, int j) const
    {
        return line[k * s.pitch + j];
    }
};

/*
 * Transform R points, and multiply them by powers of root[step], whose row is in L2. Powers 1, 2, 3 and multiples of
 * four are read; the others are products of two of these.
 */
template <int R, bool FORWARD, typename T>
__device__ __forceinline__ void transform_and_turn_by_powers(cplx<T> (&x)[R], const cplx<T> *root, int step)
{
    cplx<T> few[4];
#pragma unroll
    for (int k = 1; k < 4; k++) few[k] = read_only(root + k * step);
    small_fft::transform<R, FORWARD, R>(x);
#pragma unroll
    for (int k = 1; k < 4; k++) x[k] = small_fft::turned<FORWARD>(x[k], few[k]);
#pragma unroll
    for (int fours = 4; fours < R; fours += 4) {
        const cplx<T> power = read_only(root + fours * step);
        x[fours] = small_fft::turned<FORWARD>(x[fours], power);
#pragma unroll
        for (int k = 1; k < 4; k++)
            if (fours + k < R)
                x[fours + k] = small_fft::turned<FORWARD>(x[fours + k], small_fft::turned<false>(power, few[k]));
    }
}

template <int R, bool FORWARD, typename T, typename POINTS>
__device__ __forceinline__ void first_pass(const row_shape &s, const POINTS &points, const cplx<T> *root, cplx<T> *line)
{
    const int step = s.middle * LAST;
    for (int j = threadIdx.x; j < step; j += THREADS) {
        cplx<T> x[R];
#pragma unroll
        for (int k = 0; k < R; k++) x[k] = points(k, j);
        transform_and_turn_by_powers<R, FORWARD>(x, root + j, step);
#pragma unroll
        for (int k = 0; k < R; k++) line[k * s.pitch + j] = x[k];
    }
}

template <int R, bool FORWARD, typename T>
__device__ __forceinline__ void middle_pass(const row_shape &s, const cplx<T> *root, cplx<T> *line)
{
    for (int i = threadIdx.x; i < s.first * LAST; i += THREADS) {
        cplx<T> *at = line + i / LAST * s.pitch + i % LAST, x[R];
#pragma unroll
        for (int k = 0; k < R; k++) x[k] = at[k * LAST];
        transform_and_turn<R, FORWARD>(x, root + i % LAST, LAST);
#pragma unroll
        for (int k = 0; k < R; k++) at[k * LAST] = x[k];
    }
}

template <bool FORWARD, typename T>
__device__ __forceinline__ void last_pass(const row_shape &s, const cplx<T> *line, cplx<T> *row)
{
    const int n = s.first * s.middle;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        const cplx<T> *at = line + i % s.first * s.pitch + i / s.first * LAST;
        cplx<T> x[LAST];
#pragma unroll
        for (int k = 0; k < LAST; k++) x[k] = at[k];
        small_fft::transform<LAST, FORWARD, LAST>(x);
#pragma unroll
        for (int k = 0; k < LAST; k++)
            if (!FORWARD || s.is_kept(k * n + i)) row[k * n + i] = x[k];
    }
}

/* Call f with the number r, which must be one of R.. */
template <int... R, typename F> __device__ __forceinline__ void at_number(int r, F f)
{
    (void)((r == R ? (f(number<R>()), true) : false) || ...);
}

/* Transform a row's points by a block, and store the result at `row`. */
template <typename T, bool FORWARD, typename POINTS>
__device__ __forceinline__ void transform_row(const row_shape &s, const row_roots<T> &roots, const POINTS &points,
                                              cplx<T> *line, cplx<T> *row)
{
    at_number<16, 18, 20, 24, 28, 32>(
        s.first, [&](auto r) { first_pass<decltype(r)::value, FORWARD>(s, points, roots.first, line); });
    __syncthreads();
    at_number<8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 25, 27, 28, 30, 32>(
        s.middle, [&](auto r) { middle_pass<decltype(r)::value, FORWARD>(s, roots.middle, line); });
    __syncthreads();
    last_pass<FORWARD>(s, line, row);
}

/* Transform rows, one block each. used [row]: 0 if the row stays the same; NULL if all are transformed. */
template <typename T, bool FORWARD>
__global__ void __launch_bounds__(THREADS, 2)
    k_rows(row_shape s, row_roots<T> roots, const uint8_t *used, cplx<T> *plane)
{
    if (used && !used[blockIdx.x]) return;
    extern __shared__ float4 memory[];
    cplx<T> *row = plane + (int64_t)blockIdx.x * s.n;
    transform_row<T, FORWARD>(s, roots, row_in_memory<T, FORWARD>{s, row}, (cplx<T> *)memory, row);
}

/*
 * Sum the squares that cover one row of a plane. Each thread adds only to its own cells, every THREADS-th of the row,
 * so additions need not be atomic. The contiguous cells of a square belong to different threads. Cell u of the row is
 * at u + u / step of the line, where step is the number of cells of one x1.
 */
template <typename T> struct row_of_squares {
    static constexpr int AT_ONCE = 8; /* squares whose cells are loaded together */
    const row_shape &s;
    const msi_plane_squares &q;
    cplx<T> *line;
    float per_step;

    __device__ row_of_squares(const row_shape &shape, const msi_plane_squares &squares, cplx<T> *line_)
        : s(shape), q(squares), line(line_), per_step(1.0f / (float)(shape.middle * LAST))
    {
    }
    /* Adding 1/2 keeps the quotient away from integers, so that rounding does not matter; u is less than 2^15. */
    __device__ __forceinline__ cplx<T> &at(int u) const
    {
        return line[u + (int)(((float)u + 0.5f) * per_step)];
    }
    /* Return the stored place of a square's cell, which is given by its distance from the square's first cell. */
    __device__ __forceinline__ int stored_at(int cell) const
    {
        const int across = cell - q.turned;
        return across < 0 ? across + q.size : across;
    }
    /* Add row `row` of squares [first, end) of one row of squares. */
    __device__ __forceinline__ void add(uint32_t first, uint32_t end, int row) const
    {
        const int lane = threadIdx.x % 32;
        for (uint32_t some = first; some < end; some += 32) {
            const int n = (int)min(end - some, 32u);
            /* Each lane finds the first cell of one of the squares. */
            const uint32_t place = q.place[some + (uint32_t)min(lane, n - 1)];
            const int begin = msi_wrap_cell(q.first + (int)(place % (uint32_t)q.n_across) * q.step, s.n);
            const cplx<T> *from = (const cplx<T> *)q.cell + ((int64_t)some * q.size + row) * q.size;
            for (int part = 0; part < q.size; part += THREADS)
                for (int k = 0; k < n; k += AT_ONCE) add_few(from, begin, part, k, n);
            if (__any_sync(~0u, begin + q.size > s.n)) add_wrapped(from, begin, n);
        }
    }

  private:
    /* Add this thread's cell, among `part` and the following ones, of squares [k, k + AT_ONCE) of n. Cells beyond the
     * row's end are left out. */
    __device__ __forceinline__ void add_few(const cplx<T> *from, int begin, int part, int k, int n) const
    {
        cplx<T> x[AT_ONCE];
        int to[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int first = __shfl_sync(~0u, begin, min(k + i, n - 1));
            const int cell = part + (((int)threadIdx.x - first) & (THREADS - 1));
            const bool has = k + i < n && cell < q.size && first + cell < s.n;
            to[i] = has ? first + cell : -1;
            if (has) x[i] = read_only(from + (int64_t)(k + i) * q.size * q.size + stored_at(cell));
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (to[i] < 0) continue;
            cplx<T> &sum = at(to[i]);
            sum = {sum.re + x[i].re, sum.im + x[i].im};
        }
    }
    /* Add the cells of n squares that are beyond the row's end to the row's beginning. */
    __device__ __forceinline__ void add_wrapped(const cplx<T> *from, int begin, int n) const
    {
        for (int k = 0; k < n; k++) {
            const int first = __shfl_sync(~0u, begin, k);
            for (int u = threadIdx.x; u < first + q.size - s.n; u += THREADS) {
                const cplx<T> x = read_only(from + (int64_t)k * q.size * q.size + stored_at(u + s.n - first));
                cplx<T> &sum = at(u);
                sum = {sum.re + x.re, sum.im + x.im};
            }
        }
    }
};
static_assert((THREADS & (THREADS - 1)) == 0, "cells are dealt by their last bits");

/* Transform the rows of the sum of squares, one block for each row. */
template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    k_rows_of_squares(row_shape s, row_roots<T> roots, msi_plane_squares q, cplx<T> *plane)
{
    extern __shared__ float4 memory[];
    cplx<T> *line = (cplx<T> *)memory, *row = plane + (int64_t)blockIdx.x * s.n;
    const int n_line = (int)(((size_t)(s.first * s.pitch) * sizeof(cplx<T>) + sizeof(float4) - 1) / sizeof(float4));
    for (int i = threadIdx.x; i < n_line; i += THREADS) memory[i] = {0, 0, 0, 0};
    __syncthreads();
    const row_of_squares<T> sum(s, q, line);
    bool has_any = false;
    for (int round = -1; round <= 1; round++) {
        /* The row's distance from the first cell of the first square. Squares that cover it begin less than `size`
         * before it. */
        const int from = (int)blockIdx.x + round * (int)gridDim.x - q.first;
        if (from < 0) continue;
        const int low = from < q.size ? 0 : (from - q.size) / q.step + 1, high = min(from / q.step, q.n_down - 1);
        for (int down = low; down <= high; down++) {
            const uint32_t first = q.row_first[down], end = q.row_first[down + 1];
            const int at = from - down * q.step - q.turned;
            sum.add(first, end, at < 0 ? at + q.size : at);
            has_any |= first < end;
        }
    }
    if (!has_any) {
        for (int i = threadIdx.x; i < s.n; i += THREADS)
            if (s.is_kept(i)) row[i] = {0, 0};
        return;
    }
    __syncthreads();
    transform_row<T, true>(s, roots, row_in_line<T>{s, line}, line, row);
}

/* Make root [n_row][n]: exp(2 pi i row column / (n_row n)). */
template <typename T> __global__ void k_make_roots(int n_row, int n, cplx<T> *root)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, all = n_row * n;
    if (i >= all) return;
    double s, c;
    sincospi(2.0 * (double)(i / n * (i % n) % all) / all, &s, &c);
    root[i] = {(T)c, (T)s};
}

/* Find R1 and R2 with n = R1 R2 R3, of about the same size. */
bool factorise_row(int64_t n, int *first, int *middle)
{
    static const int firsts[] = {16, 18, 20, 24, 28, 32};
    static const int middles[] = {8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 25, 27, 28, 30, 32};
    int least = 0;
    for (int f : firsts)
        for (int m : middles)
            if ((int64_t)f * m * LAST == n && (!least || f + m < least)) {
                least = f + m;
                *first = f;
                *middle = m;
            }
    return least > 0;
}

} // namespace

struct msi_row_fft {
    row_shape shape;
    msi_precision precision;
    size_t bytes; /* bytes of shared memory */
    cudaStream_t stream;
    char *roots; /* [n] of the first pass and [R2 R3] of the second */
};

template <typename T> static int make_roots(msi_row_fft *f)
{
    const row_shape &s = f->shape;
    const int middle = s.middle * LAST;
    MSI_TRY(allocate(&f->roots, (s.n + middle) * (int64_t)sizeof(cplx<T>), "transforms"));
    cplx<T> *root = (cplx<T> *)f->roots;
    k_make_roots<T><<<(unsigned)((s.n + 255) / 256), 256, 0, f->stream>>>(s.first, middle, root);
    MSI_CUDA(cudaGetLastError());
    k_make_roots<T><<<(unsigned)((middle + 255) / 256), 256, 0, f->stream>>>(s.middle, LAST, root + s.n);
    MSI_CUDA(cudaGetLastError());
    MSI_TRY(allow_shared(k_rows<T, true>, f->bytes));
    MSI_TRY(allow_shared(k_rows<T, false>, f->bytes));
    return allow_shared(k_rows_of_squares<T>, f->bytes);
}

int msi_row_fft_serves(int64_t n)
{
    int first, middle;
    return factorise_row(n, &first, &middle);
}

int msi_row_fft_create(msi_row_fft **out, int64_t n, msi_precision precision, void *stream)
{
    row_shape s = {};
    size_t most;
    *out = NULL;
    if (!factorise_row(n, &s.first, &s.middle)) return MSI_OK;
    s.n = (int)n;
    s.pitch = s.middle * LAST + 1;
    /* Round up to whole vectors, by which the memory is cleared. */
    const size_t line = (size_t)s.first * (size_t)s.pitch * (size_t)msi_complex_bytes(precision);
    const size_t bytes = (line + sizeof(float4) - 1) / sizeof(float4) * sizeof(float4);
    MSI_TRY(block_shared_bytes(&most));
    if (bytes > most) return MSI_OK;
    msi_row_fft *f;
    MSI_TRY(msi_alloc(&f, 1, sizeof *f, "transforms"));
    f->shape = s;
    f->precision = precision;
    f->bytes = bytes;
    f->stream = (cudaStream_t)stream;
    const int rc = precision == MSI_FP32 ? make_roots<float>(f) : make_roots<double>(f);
    if (rc)
        msi_row_fft_free(f);
    else
        *out = f;
    return rc;
}

void msi_row_fft_free(msi_row_fft *fft)
{
    if (!fft) return;
    cudaFree(fft->roots);
    msi_free(fft);
}

template <typename T, bool FORWARD>
static int launch_rows(const msi_row_fft *f, void *plane, int64_t n_row, const uint8_t *row_used, int64_t kept)
{
    row_shape s = f->shape;
    s.kept = (int)kept;
    const row_roots<T> roots = {(const cplx<T> *)f->roots, (const cplx<T> *)f->roots + s.n};
    k_rows<T, FORWARD><<<(unsigned)n_row, THREADS, f->bytes, f->stream>>>(s, roots, row_used, (cplx<T> *)plane);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int msi_row_fft_forward(const msi_row_fft *fft, void *plane, int64_t n_row, const uint8_t *row_used, int64_t kept)
{
    return fft->precision == MSI_FP32 ? launch_rows<float, true>(fft, plane, n_row, row_used, kept)
                                      : launch_rows<double, true>(fft, plane, n_row, row_used, kept);
}

template <typename T>
static int launch_rows_of_squares(const msi_row_fft *f, const msi_plane_squares &squares, void *plane, int64_t n_row,
                                  int64_t kept)
{
    row_shape s = f->shape;
    s.kept = (int)kept;
    const row_roots<T> roots = {(const cplx<T> *)f->roots, (const cplx<T> *)f->roots + s.n};
    k_rows_of_squares<T><<<(unsigned)n_row, THREADS, f->bytes, f->stream>>>(s, roots, squares, (cplx<T> *)plane);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int msi_row_fft_of_squares(const msi_row_fft *fft, const msi_plane_squares *squares, void *plane, int64_t n_row,
                           int64_t kept)
{
    return fft->precision == MSI_FP32 ? launch_rows_of_squares<float>(fft, *squares, plane, n_row, kept)
                                      : launch_rows_of_squares<double>(fft, *squares, plane, n_row, kept);
}

int msi_row_fft_backward(const msi_row_fft *fft, void *plane, int64_t n_row, const uint8_t *row_used, int64_t kept)
{
    return fft->precision == MSI_FP32 ? launch_rows<float, false>(fft, plane, n_row, row_used, kept)
                                      : launch_rows<double, false>(fft, plane, n_row, row_used, kept);
}
