/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The kernels of subgrid_cuda.h, as templates of the precision.
 *
 * A thread holds up to 32 numbers of a row or column, between the two steps of small_fft_cuda.cuh. Each block of
 * k_rows_forward and k_rows_inverse transforms some rows. A block of k_sum_columns or k_spread_columns keeps its
 * columns of a stack for all planes.
 */
#ifndef MSI_KERNELS_SUBGRID_CUDA_CUH
#define MSI_KERNELS_SUBGRID_CUDA_CUH

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/method/geometry.h"
#include "kernels/towers/subgrid_cuda.h"
#include "kernels/transform/small_fft_cuda.cuh"

namespace {

using complex_cuda::cplx;
using complex_cuda::sincos_turns;

/* A job with its arrays as numbers of one precision. */
template <typename T> struct stacks : msi_subgrid_job {
    explicit stacks(const msi_subgrid_job &job) : msi_subgrid_job(job) {}
    __device__ const cplx<T> *roots_at() const
    {
        return (const cplx<T> *)roots;
    }
    __device__ const cplx<T> *screens_at() const
    {
        return (const cplx<T> *)screens;
    }
    __host__ __device__ cplx<T> *small_at() const
    {
        return (cplx<T> *)small;
    }
    __host__ __device__ cplx<T> *rows_at() const
    {
        return (cplx<T> *)rows;
    }
    __host__ __device__ cplx<T> *sum_at() const
    {
        return (cplx<T> *)sum;
    }
    __device__ cplx<T> *whole_at() const
    {
        return (cplx<T> *)whole;
    }
};

/* Steps from plane to plane are rounded. The step to every STEPS_ROUNDED-th plane corrects the error of the others. */
constexpr int STEPS_ROUNDED = 16;

/* Make the screens of planes and the steps between them, as msi_subgrid_screens. One thread for each pixel; blockIdx.y
 * is a plane or, beyond the planes, a step. */
template <typename T> __global__ void k_make_screens(msi_subgrid_shape t, const double *nu, cplx<T> *screens)
{
    const int half = t.size / 2 + 1, i = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y;
    const int step = k - (t.n_plane + 1) / 2;
    if (i >= half * half) return;
    cplx<T> *out = screens + (int64_t)k * half * half + i;
    double s, c;
    if (step < 0) {
        const double turns = (k - 0.5 * (t.n_plane - 1)) * t.w_step * nu[i], scale = 1 / ((double)t.size * t.size);
        sincospi(2 * (turns - rint(turns)), &s, &c);
        *out = {(T)(scale * c), (T)(-scale * s)};
        return;
    }
    const double turns = t.w_step * nu[i];
    sincospi(2 * (turns - rint(turns)), &s, &c);
    *out = {(T)c, (T)s};
    if (step == 0) return;
    /* The factor that makes STEPS_ROUNDED - 1 rounded steps and this one exact. */
    const double re = (double)(T)c, im = (double)(T)s;
    double all_re = 1, all_im = 0;
    for (int n = 1; n < STEPS_ROUNDED; n++) {
        const double next = all_re * re - all_im * im;
        all_im = all_re * im + all_im * re;
        all_re = next;
    }
    const double all = STEPS_ROUNDED * turns, size = 1 / (all_re * all_re + all_im * all_im);
    sincospi(2 * (all - rint(all)), &s, &c);
    *out = {(T)(size * (c * all_re + s * all_im)), (T)(size * (s * all_re - c * all_im))};
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

/* A block's rows. Numbers pass from step to step in lines whose padding avoids bank conflicts. */
template <typename T, int N> struct row_block {
    using fft = small_fft::steps<T, N>;
    static constexpr int ROWS = N <= 64 ? 32 : N <= 256 ? 16 : 8, THREADS = ROWS * fft::A;
    static constexpr int LEAST = fft::A * fft::PITCH, LINE = LEAST + (fft::B % 16 - LEAST % 16 + 16) % 16;
    static constexpr size_t BYTES = (size_t)(ROWS * LINE + fft::N_ROOT) * sizeof(cplx<T>);
};

template <typename T> __device__ void copy_roots(cplx<T> *to, const cplx<T> *from, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = complex_cuda::read_only(from + i);
}

/* A block's rows between two steps: the number of remainder r at place b of a line. */
template <typename T, int N> struct row_lines {
    using block = row_block<T, N>;
    using fft = typename block::fft;
    cplx<T> *roots, *lines;
    int64_t first; /* first row of the block */

    explicit __device__ row_lines(float4 *memory)
        : roots((cplx<T> *)memory), lines(roots + fft::N_ROOT), first((int64_t)blockIdx.x * block::ROWS)
    {
    }
    __device__ __forceinline__ cplx<T> &at(int line, int r, int b) const
    {
        return lines[line * block::LINE + r * fft::PITCH + b];
    }
};

/* Transform rows. of.load(row, cell) is zero from cell B GIVEN on; of.store(row, frequency, value). */
template <typename T, int N, int GIVEN, typename OF>
__global__ void __launch_bounds__(row_block<T, N>::THREADS) k_rows_forward(OF of, int64_t n_row)
{
    using fft = small_fft::steps<T, N>;
    constexpr int ROWS = row_block<T, N>::ROWS;
    extern __shared__ float4 memory[];
    const row_lines<T, N> m(memory);
    int line = threadIdx.x / fft::B, b = threadIdx.x % fft::B;
    bool has = line < ROWS && m.first + line < n_row;
    cplx<T> x[fft::A];
#pragma unroll
    for (int a = 0; a < GIVEN; a++) x[a] = has ? of.load(m.first + line, fft::B * a + b) : cplx<T>{0, 0};
    copy_roots(m.roots, of.job.roots_at(), fft::N_ROOT);
    __syncthreads();
    if (has) {
        fft::template forward_first<GIVEN>(x, m.roots, b);
#pragma unroll
        for (int r = 0; r < fft::A; r++) m.at(line, r, b) = x[r];
    }
    __syncthreads();
    line = threadIdx.x / fft::A;
    int r = threadIdx.x % fft::A;
    if (m.first + line >= n_row) return;
    cplx<T> y[fft::B];
#pragma unroll
    for (int i = 0; i < fft::B; i++) y[i] = m.at(line, r, i);
    fft::forward_second(y);
#pragma unroll
    for (int s = 0; s < fft::B; s++) of.store(m.first + line, r + fft::A * s, y[s]);
}

/* Transform rows back. of.load(row, frequency); of.store(row, cell, value) for cells below B GIVEN. */
template <typename T, int N, int GIVEN, typename OF>
__global__ void __launch_bounds__(row_block<T, N>::THREADS) k_rows_inverse(OF of, int64_t n_row)
{
    using fft = small_fft::steps<T, N>;
    constexpr int ROWS = row_block<T, N>::ROWS;
    extern __shared__ float4 memory[];
    const row_lines<T, N> m(memory);
    int line = threadIdx.x / fft::A, r = threadIdx.x % fft::A;
    bool has = m.first + line < n_row;
    cplx<T> y[fft::B];
#pragma unroll
    for (int s = 0; s < fft::B; s++) y[s] = has ? of.load(m.first + line, r + fft::A * s) : cplx<T>{0, 0};
    copy_roots(m.roots, of.job.roots_at(), fft::N_ROOT);
    __syncthreads();
    fft::inverse_first(y, m.roots, r);
#pragma unroll
    for (int i = 0; i < fft::B; i++) m.at(line, r, i) = y[i];
    __syncthreads();
    line = threadIdx.x / fft::B;
    int b = threadIdx.x % fft::B;
    if (line >= ROWS || m.first + line >= n_row) return;
    cplx<T> x[fft::A];
#pragma unroll
    for (int i = 0; i < fft::A; i++) x[i] = m.at(line, i, b);
    fft::inverse_second(x);
#pragma unroll
    for (int a = 0; a < GIVEN; a++) of.store(m.first + line, fft::B * a + b, x[a]);
}

/* Rows of small planes, along u. */
template <typename T> struct small_rows_forward {
    stacks<T> job;
    __device__ cplx<T> load(int64_t row, int cell) const
    {
        const msi_subgrid_shape &s = job.shape;
        return cell < s.filled ? complex_cuda::read_only(job.small_at() + row * s.pitch + cell) : cplx<T>{0, 0};
    }
    __device__ void store(int64_t row, int frequency, cplx<T> value) const
    {
        job.rows_at()[row * job.shape.size + frequency] = value;
    }
};

template <typename T> struct small_rows_inverse {
    stacks<T> job;
    __device__ cplx<T> load(int64_t row, int frequency) const
    {
        return complex_cuda::read_only(job.rows_at() + row * job.shape.size + frequency);
    }
    __device__ void store(int64_t row, int cell, cplx<T> value) const
    {
        const msi_subgrid_shape &s = job.shape;
        if (cell < s.pitch) job.small_at()[row * s.pitch + cell] = cell < s.filled ? value : cplx<T>{0, 0};
    }
};

/* Compute the distance of a subgrid's cell from its core's first tap. */
__device__ inline int offset_of(const msi_subgrid_shape &s, int cell)
{
    return cell < s.size - s.margin ? cell : cell - s.size;
}

/* Return the whole plane's cell under a cell of a subgrid, whose row counts over all stacks. */
template <typename T> __device__ cplx<T> *cell_under(const stacks<T> &job, int64_t row, int cell)
{
    const msi_subgrid_shape &s = job.shape;
    uint32_t core = job.core_of[row / s.size];
    int u = (int)(core % (uint32_t)s.n_core_u) * s.core - s.width + offset_of(s, cell);
    int v = (int)(core / (uint32_t)s.n_core_u) * s.core - s.width + offset_of(s, (int)(row % s.size));
    return job.whole_at() + (int64_t)msi_wrap_cell(v, (int)s.nv) * s.nu + msi_wrap_cell(u, (int)s.nu);
}

/* Transform sums back along u and add them to the whole plane. */
template <typename T> struct added_rows {
    stacks<T> job;
    __device__ cplx<T> load(int64_t row, int frequency) const
    {
        return complex_cuda::read_only(job.sum_at() + row * job.shape.size + frequency);
    }
    __device__ void store(int64_t row, int cell, cplx<T> value) const
    {
        vector_add::add_one(cell_under(job, row, cell), value.re, value.im);
    }
};

/* Transform sums back along u in place. */
template <typename T> struct rows_in_place {
    stacks<T> job;
    __device__ cplx<T> load(int64_t row, int frequency) const
    {
        return job.sum_at()[row * job.shape.size + frequency];
    }
    __device__ void store(int64_t row, int cell, cplx<T> value) const
    {
        job.sum_at()[row * job.shape.size + cell] = value;
    }
};

/* Cut subgrids out of the whole plane and transform them along u. */
template <typename T> struct cut_rows {
    stacks<T> job;
    __device__ cplx<T> load(int64_t row, int cell) const
    {
        return complex_cuda::read_only(cell_under(job, row, cell));
    }
    __device__ void store(int64_t row, int frequency, cplx<T> value) const
    {
        job.sum_at()[row * job.shape.size + frequency] = value;
    }
};

/* ---- Columns ---------------------------------------------------------------------------------------------------- */

/*
 * A block has some neighbouring columns of a subgrid, and a thread holds B of their pixels. The number of columns is
 * small enough for at least two blocks to share a multiprocessor and hide each other's waits.
 *
 * Screens are not read plane by plane, because the step from one screen to the next is the same for all planes. A block
 * keeps the step in shared memory, and sums the planes by Horner's scheme. Only the screen of the last plane is read.
 */
template <typename T, int N> struct column_block {
    using fft = small_fft::steps<T, N>;
    static constexpr int COLUMNS = (N <= 256 ? 128 : 64) / sizeof(cplx<T>), THREADS = COLUMNS * fft::A,
                         GROUPS = N / COLUMNS;
    /* Blocks of a multiprocessor: a thread has about 128 registers, or 255 in double precision. */
    static constexpr int BLOCKS = (sizeof(T) == 4 ? 512 : 256) / THREADS;
    /* Two buffers for numbers between steps, so that threads synchronise once a transform. */
    static constexpr int LINE = fft::B * COLUMNS + COLUMNS, BUFFER = fft::A * LINE;
    static constexpr int N_STEP = (N / 2 + 1) * COLUMNS; /* the steps of rows that are not mirrored */
    /* Twists replace roots if there are any. */
    static constexpr int N_TWIST = fft::TWISTS_FORWARD + fft::TWISTS_BACK, N_ROOT = N_TWIST ? N_TWIST : fft::N_ROOT;
    static constexpr size_t BYTES =
        (size_t)(2 * BUFFER + N_ROOT + N_STEP) * sizeof(cplx<T>); /* and the list of planes */
};

/* List a stack's planes that hold samples, in shared memory: plane [n]. Returns: n. Returned: *slot of the first one */
__device__ inline int list_planes(const msi_subgrid_job &job, int64_t stack, uint16_t *plane, int64_t *slot)
{
    const int n_plane = job.shape.n_plane;
    const uint32_t *at = job.slot + (int64_t)job.core_of[stack] * n_plane;
    uint32_t first = at[0];
    for (int k = threadIdx.x; k < n_plane; k += blockDim.x)
        if (at[k + 1] != at[k]) plane[at[k] - first] = (uint16_t)k;
    __syncthreads();
    *slot = first - job.first_slot;
    return (int)(at[n_plane] - first);
}

/* One thread's part of a block of columns: its column, and the number of its points in the first or the second step. */
template <typename T, int N> struct column_thread {
    using block = column_block<T, N>;
    using fft = typename block::fft;
    static constexpr int A = fft::A, B = fft::B, C = block::COLUMNS, HALF_SIZE = N / 2 + 1;
    cplx<T> *roots, *steps, *shared; /* shared: one of the two buffers */
    int other;                       /* distance to the other buffer */
    const cplx<T> *up, *down;        /* steps of pixel 0, and of the last pixel, whose row is mirrored */
    uint16_t *plane;
    int64_t stack;
    int c, i, column;

    explicit __device__ column_thread(float4 *memory)
        : roots((cplx<T> *)memory), steps(roots + block::N_ROOT), shared(steps + block::N_STEP), other(block::BUFFER),
          plane((uint16_t *)(shared + 2 * block::BUFFER)), stack(blockIdx.x / block::GROUPS), c(threadIdx.x % C),
          i(threadIdx.x / C), column(blockIdx.x % block::GROUPS * C + c)
    {
        up = steps + i * C + c;
        down = steps + (A - i) * C + c;
    }
    /* Return the column of the screens, which are even. */
    static __device__ __forceinline__ int screened(int x)
    {
        return x <= N / 2 ? x : N - x;
    }
    /* Return the row of the screens for pixel s, of row i + A s. */
    __device__ __forceinline__ int screen_row(int s) const
    {
        return s < B / 2 ? i + A * s : A - i + A * (B - 1 - s);
    }
    /* Load the data that the block's threads share. Returns: the number of planes of the stack that hold samples.
     * Returned: *slot of the first one */
    __device__ __forceinline__ int begin(const stacks<T> &job, int64_t *slot)
    {
        copy_roots(roots, job.roots_at() + (fft::HAS_TWISTS ? fft::N_ROOT : 0), block::N_ROOT);
        copy_steps(job);
        return list_planes(job, stack, plane, slot);
    }
    /* Copy the block's steps from plane to plane. Threads must synchronise before they are read. */
    __device__ void copy_steps(const stacks<T> &job)
    {
        const cplx<T> *from = job.screens_at() + (int64_t)((job.shape.n_plane + 1) / 2) * HALF_SIZE * HALF_SIZE;
        for (int k = threadIdx.x; k < block::N_STEP; k += blockDim.x)
            steps[k] = complex_cuda::read_only(from + k / C * HALF_SIZE + screened(column - c + k % C));
    }
    /* Call f(s, step from the previous plane's screen to this plane's) for all pixels. */
    template <typename F> __device__ __forceinline__ void for_each_step(int plane_, const stacks<T> &job, F f) const
    {
        if (plane_ % STEPS_ROUNDED) {
#pragma unroll
            for (int s = 0; s < B; s++) f(s, s < B / 2 ? up[A * s * C] : down[A * (B - 1 - s) * C]);
        } else {
            const cplx<T> *exact = job.screens_at() +
                                   (int64_t)((job.shape.n_plane + 1) / 2 + 1) * HALF_SIZE * HALF_SIZE +
                                   screened(column);
#pragma unroll
            for (int s = 0; s < B; s++) f(s, complex_cuda::read_only(exact + screen_row(s) * HALF_SIZE));
        }
    }
    /* Multiply pixels by the step from the previous plane's screen to this plane's. */
    __device__ __forceinline__ void step_to(int plane_, const stacks<T> &job, cplx<T> (&pixel)[B]) const
    {
        for_each_step(plane_, job, [&](int s, cplx<T> step) { pixel[s] = small_fft::turned<false>(pixel[s], step); });
    }
    /* Multiply the sum by the same step, and add the pixels of this plane. */
    __device__ __forceinline__ void step_and_add(int plane_, const stacks<T> &job, const cplx<T> (&own)[B],
                                                 cplx<T> (&sum)[B]) const
    {
        for_each_step(plane_, job, [&](int s, cplx<T> step) {
            const cplx<T> x = sum[s];
            sum[s] = {own[s].re + x.re * step.re - x.im * step.im, own[s].im + x.im * step.re + x.re * step.im};
        });
    }
    /* Set the block's part of a small plane to zero for later samples. Its rows have been transformed. */
    __device__ __forceinline__ void clear_small(const stacks<T> &job, int64_t slot) const
    {
        const int n = job.shape.filled * job.shape.pitch * (int)sizeof(cplx<T>) / (int)sizeof(float4);
        const int part = (n + block::GROUPS - 1) / block::GROUPS, first = blockIdx.x % block::GROUPS * part;
        float4 *cells = (float4 *)job.small_at() + slot * n;
        for (int k = first + threadIdx.x; k < min(first + part, n); k += block::THREADS)
            __stcs(cells + k, float4{0, 0, 0, 0});
    }
    /* Multiply pixels by a plane's screen, or by its conjugate. */
    template <bool BACK>
    __device__ __forceinline__ void screen(int plane_, const stacks<T> &job, cplx<T> (&pixel)[B]) const
    {
        const int mirrored = job.shape.n_plane - 1 - plane_;
        const cplx<T> *at =
            job.screens_at() + (int64_t)min(plane_, mirrored) * HALF_SIZE * HALF_SIZE + screened(column);
        const T sign = (plane_ <= mirrored) != BACK ? (T)1 : (T)-1;
#pragma unroll
        for (int s = 0; s < B; s++) {
            const cplx<T> turn = complex_cuda::read_only(at + screen_row(s) * HALF_SIZE);
            pixel[s] = small_fft::turned<false>(pixel[s], cplx<T>{turn.re, sign * turn.im});
        }
    }
    __device__ __forceinline__ cplx<T> *exchanged(int r, int b) const
    {
        return shared + r * block::LINE + b * C + c;
    }
    /* A thread may write to a buffer again only after all threads have synchronised at the other one, and so have read
     * this one. */
    __device__ __forceinline__ void change_buffers()
    {
        shared += other;
        other = -other;
    }

    /* Transform points of remainder i, of which the last are zero, and pass them to the other threads. */
    template <int GIVEN> __device__ __forceinline__ void forward_first(cplx<T> (&x)[A])
    {
        if (i < B) {
            if constexpr (fft::HAS_TWISTS)
                fft::template forward_unturned<GIVEN>(x);
            else
                fft::template forward_first<GIVEN>(x, roots, i);
#pragma unroll
            for (int r = 0; r < A; r++) *exchanged(r, i) = x[r];
        }
        __syncthreads();
    }
    /* Take the numbers from the other threads and transform them to pixels i + A s. */
    __device__ __forceinline__ void forward_second(cplx<T> (&y)[B])
    {
#pragma unroll
        for (int b = 0; b < B; b++) y[b] = *exchanged(i, b);
        change_buffers();
        if constexpr (fft::HAS_TWISTS)
            fft::forward_turned(y, roots + i * small_fft::N_TWIST<B>);
        else
            fft::forward_second(y);
    }
    /* Transform back. x is set if i < B. */
    __device__ __forceinline__ void inverse(cplx<T> (&y)[B], cplx<T> (&x)[A])
    {
        if constexpr (fft::HAS_TWISTS)
            fft::inverse_unturned(y);
        else
            fft::inverse_first(y, roots, i);
#pragma unroll
        for (int b = 0; b < B; b++) *exchanged(i, b) = y[b];
        __syncthreads();
        if (i < B) {
#pragma unroll
            for (int r = 0; r < A; r++) x[r] = *exchanged(r, i);
            if constexpr (fft::HAS_TWISTS)
                fft::inverse_turned(x, roots + fft::TWISTS_FORWARD + i * small_fft::N_TWIST<A>);
            else
                fft::inverse_second(x);
        }
        change_buffers();
    }
};

/* Transform the columns of rows, screen them, add up the planes of a stack and transform the sum's columns back. The
 * small planes of these rows are set to zero. */
template <typename T, int N, int GIVEN>
__global__ void __launch_bounds__(column_block<T, N>::THREADS, column_block<T, N>::BLOCKS) k_sum_columns(stacks<T> job)
{
    using thread = column_thread<T, N>;
    constexpr int A = thread::A, B = thread::B;
    extern __shared__ float4 memory[];
    thread me(memory);
    int64_t slot;
    const int n = me.begin(job, &slot), filled = job.shape.filled;
    const cplx<T> *from = job.rows_at() + (slot * filled + me.i) * N + me.column;
    cplx<T> x[A], total[B] = {};
    const auto load = [&] {
#pragma unroll
        for (int a = 0; a < GIVEN; a++)
            x[a] = me.i < B && B * a + me.i < filled ? complex_cuda::read_only(from + B * a * N) : cplx<T>{0, 0};
        from += (int64_t)filled * N;
    };
    load();
    int at = me.plane[0] - 1; /* the sum is zero at first, so the first step has no effect */
    for (int k = 0; k < n; k++) {
        me.template forward_first<GIVEN>(x);
        if (A <= 16 && k + 1 < n) load();
        me.clear_small(job, slot + k);
        cplx<T> y[B];
        me.forward_second(y);
        for (const int last = me.plane[k] - 1; at < last;) me.step_to(++at, job, total);
        me.step_and_add(++at, job, y, total);
        if (A > 16 && k + 1 < n) load();
    }
    me.template screen<false>(at, job, total);
    me.inverse(total, x);
    cplx<T> *to = job.sum_at() + (me.stack * N + me.i) * N + me.column;
    if (me.i < B)
#pragma unroll
        for (int a = 0; a < A; a++) to[B * a * N] = x[a];
}

/* Transform the columns of subgrids, screen them for each plane of a stack and transform these back: the transpose. */
template <typename T, int N, int GIVEN>
__global__ void __launch_bounds__(column_block<T, N>::THREADS, column_block<T, N>::BLOCKS)
    k_spread_columns(stacks<T> job)
{
    using thread = column_thread<T, N>;
    constexpr int A = thread::A, B = thread::B;
    extern __shared__ float4 memory[];
    thread me(memory);
    int64_t slot;
    const int n = me.begin(job, &slot), filled = job.shape.filled;
    const cplx<T> *from = job.sum_at() + (me.stack * N + me.i) * N + me.column;
    cplx<T> x[A], total[B];
    if (me.i < B)
#pragma unroll
        for (int a = 0; a < A; a++) x[a] = complex_cuda::read_only(from + B * a * N);
    me.template forward_first<A>(x);
    me.forward_second(total);
    cplx<T> *to = job.rows_at() + (slot * filled + me.i) * N + me.column;
    int at = me.plane[0];
    me.template screen<true>(at, job, total);
    for (int k = 0; k < n; k++, to += (int64_t)filled * N) {
        for (const int next = me.plane[k]; at < next;) me.step_to(++at, job, total);
        cplx<T> y[B];
#pragma unroll
        for (int s = 0; s < B; s++) y[s] = total[s];
        me.inverse(y, x);
#pragma unroll
        for (int a = 0; a < GIVEN; a++)
            if (me.i < B && B * a + me.i < filled) to[B * a * N] = x[a];
    }
}

/* ---- Launching -------------------------------------------------------------------------------------------------- */

/* Call f with the size, and with the number of a thread's points that may be nonzero: HALF of them, or all. */
template <typename T, typename F> int at_size(const msi_subgrid_shape &s, F f)
{
    const auto at = [&](auto size) {
        using fft = small_fft::steps<T, decltype(size)::value>;
        if (s.pitch <= fft::HALF * fft::B) return f(size, small_fft::number<fft::HALF>());
        return f(size, small_fft::number<fft::A>());
    };
    switch (s.size) {
    case 32:
        return at(small_fft::number<32>());
    case 48:
        return at(small_fft::number<48>());
    case 64:
        return at(small_fft::number<64>());
    case 96:
        return at(small_fft::number<96>());
    case 128:
        return at(small_fft::number<128>());
    case 160:
        return at(small_fft::number<160>());
    case 192:
        return at(small_fft::number<192>());
    case 256:
        return at(small_fft::number<256>());
    case 320:
        return at(small_fft::number<320>());
    case 384:
        return at(small_fft::number<384>());
    case 512:
        return at(small_fft::number<512>());
    default:
        return msi_error_set(MSI_EINTERNAL, "no kernel transforms subgrids of %d cells", s.size);
    }
}

template <typename T, int N> int launch_columns(void (*kernel)(stacks<T>), const stacks<T> &job, cudaStream_t stream)
{
    using block = column_block<T, N>;
    const size_t bytes = block::BYTES + sizeof(uint16_t) * (size_t)job.shape.n_plane;
    MSI_TRY(allow_shared(kernel, bytes));
    kernel<<<(unsigned)(job.n_stack * block::GROUPS), block::THREADS, bytes, stream>>>(job);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

template <typename T, int N, typename OF>
int launch_rows(void (*kernel)(OF, int64_t), const stacks<T> &job, int64_t n_row, cudaStream_t stream)
{
    using block = row_block<T, N>;
    MSI_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)block::BYTES));
    kernel<<<(unsigned)((n_row + block::ROWS - 1) / block::ROWS), block::THREADS, block::BYTES, stream>>>(OF{job},
                                                                                                          n_row);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

template <typename T, int N, int GIVEN> int add_at(const stacks<T> &job, cudaStream_t stream)
{
    constexpr int A = small_fft::steps<T, N>::A;
    MSI_TRY((launch_rows<T, N>(k_rows_forward<T, N, GIVEN, small_rows_forward<T>>, job, job.n_slot * job.shape.filled,
                               stream)));
    MSI_TRY((launch_columns<T, N>(k_sum_columns<T, N, GIVEN>, job, stream)));
    if (!job.whole) return launch_rows<T, N>(k_rows_inverse<T, N, A, rows_in_place<T>>, job, job.n_stack * N, stream);
    return launch_rows<T, N>(k_rows_inverse<T, N, A, added_rows<T>>, job, job.n_stack * N, stream);
}

template <typename T, int N, int GIVEN> int cut_at(const stacks<T> &job, cudaStream_t stream)
{
    constexpr int A = small_fft::steps<T, N>::A;
    MSI_TRY((launch_rows<T, N>(k_rows_forward<T, N, A, cut_rows<T>>, job, job.n_stack * N, stream)));
    MSI_TRY((launch_columns<T, N>(k_spread_columns<T, N, GIVEN>, job, stream)));
    return launch_rows<T, N>(k_rows_inverse<T, N, GIVEN, small_rows_inverse<T>>, job, job.n_slot * job.shape.filled,
                             stream);
}

template <typename T> int make_screens(const msi_subgrid_shape &s, const double *nu, void *screens, cudaStream_t stream)
{
    const int half = s.size / 2 + 1;
    const dim3 blocks((unsigned)((half * half + 255) / 256), (unsigned)((s.n_plane + 1) / 2 + 2));
    k_make_screens<T><<<blocks, 256, 0, stream>>>(s, nu, (cplx<T> *)screens);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

template <typename T> int make_roots(const msi_subgrid_shape &s, void *roots, int64_t *n)
{
    return at_size<T>(s, [&](auto size, auto) {
        using fft = small_fft::steps<T, decltype(size)::value>;
        static_assert(fft::N_TABLE <= MSI_SUBGRID_MAX_ROOTS);
        fft::fill_roots((cplx<T> *)roots);
        *n = fft::N_TABLE;
        return MSI_OK;
    });
}

template <typename T> int add(const msi_subgrid_job &job, cudaStream_t stream)
{
    return at_size<T>(job.shape, [&](auto size, auto given) {
        return add_at<T, decltype(size)::value, decltype(given)::value>(stacks<T>(job), stream);
    });
}

template <typename T> int cut(const msi_subgrid_job &job, cudaStream_t stream)
{
    return at_size<T>(job.shape, [&](auto size, auto given) {
        return cut_at<T, decltype(size)::value, decltype(given)::value>(stacks<T>(job), stream);
    });
}

} // namespace

#endif
