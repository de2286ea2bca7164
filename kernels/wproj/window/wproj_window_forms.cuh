/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Code shared by gridding and degridding with a moving window: the division of a window into tiles and threads, and the
 * staging of a batch of visibilities.
 *
 * The unbounded plane of cells is divided into windows of window_u x window_v cells, and the windows into blocks of
 * coarsen_u x coarsen_v cells. The place of a block is its position in its window. A thread has one place, or several
 * along v. A visibility's footprint lies in a rectangle of the window's size, whose corner is a multiple of the
 * coarsening. Exactly one block of each place lies in this rectangle. A thread changes to another block of its place
 * only when the corner moves past it.
 *
 * Rows of weights are staged in shared memory in the order of places, not of taps. This is a rotation of the row, with
 * zeros outside of the footprint. So a thread reads its weights from the same address for every visibility.
 */
#ifndef MSI_WPROJ_WINDOW_FORMS_CUH
#define MSI_WPROJ_WINDOW_FORMS_CUH

#include <cuda_pipeline_primitives.h>
#include <type_traits>

#include "kernels/gpu/complex_cuda.cuh"
#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/wproj/window/wproj_window_cuda.h"

namespace {

using namespace complex_cuda;

/* The arguments of a launch. */
template <typename T> struct window_args {
    int32_t nu, nv;
    int64_t n_vis;
    int32_t group;                       /* visibilities of a work group */
    int32_t n_image, first_image;        /* images of a cell and of a value; the first image that is processed */
    int32_t n_pass;                      /* passes of one launch, each of a form's images */
    int32_t window_u, window_v;          /* cells */
    int32_t n_tile_u, n_tile_v;          /* tiles of a window; a block of threads has one tile */
    int32_t threads_u, threads_v;        /* threads of a tile */
    int32_t log2_tile_u, log2_tile_v;    /* log2 of a tile's cells, rounded up; at most that of a block's threads */
    int32_t oversample, full, conjugate; /* conjugate: degridding */
    msi_wproj_lookup lookup;
    cudaTextureObject_t texture_u, texture_v;
    float texture_middle;
    int32_t pairs; /* 1: pairs of complex floats (images of a form, or cells) begin at multiples of 16 bytes */
    const msi_wproj_sample *sample;
    cplx<T> *value;
    cplx<T> *grid;
    const int32_t *taps;
    const int64_t *offset_u, *offset_v;
    const cplx<T> *table;
};

/*
 * The source of a visibility's weights along one axis, and their place in the window: 16 bytes, which are read
 * together. With textures, `row` has the plane and the element of tap 0 (pack_texel).
 */
template <typename T> struct alignas(16) tap_source {
    const cplx<T> *row;
    int32_t rot;  /* place of tap 0 in the window */
    int32_t taps; /* the top bit is set if the weights are conjugated */
};

/* The corner of the rectangle that contains a visibility's footprint, and its place in the window. */
struct corner {
    int32_t u, v, place_u, place_v;
};

__device__ __forceinline__ int floor_mod(int x, int m)
{
    int r = x % m;
    return r < 0 ? r + m : r;
}

/*
 * The types and sizes of a compiled form: P image planes, B blocks of CU x CV cells per thread, tiles of at most
 * TU x TV cells, batches of N visibilities, and at least BLOCKS blocks of threads per multiprocessor.
 *
 * A row of staged weights is read in packs of 16 bytes. Thread tx reads packs tx, tx + TU/CU, and so on. Neighbouring
 * lanes read neighbouring packs, so there are no bank conflicts.
 */
template <typename T_, int P_, int CU_, int CV_, int B_, int TU_, int TV_, int N_, int BLOCKS_> struct window_form {
    using T = T_;
    static constexpr int P = P_, CU = CU_, CV = CV_, B = B_, TU = TU_, TV = TV_, N = N_, BLOCKS = BLOCKS_, FULL = 0;
    static constexpr int THREADS = (TU / CU) * (TV / CV / B);
    static constexpr int ROWS = CV * B;                    /* rows of a thread */
    static constexpr int PACK = 16 / (int)sizeof(cplx<T>); /* complex elements */
    static_assert(CU % PACK == 0 && N <= 32 && (CU & (CU - 1)) == 0 && (CV & (CV - 1)) == 0, "shape");
};

/*
 * Return the position of element x in a staged row of LENGTH elements. A thread has B blocks of C elements, which it
 * reads in packs of PACK. Packs are ordered by their index in the block, then by the index of the block in its thread,
 * then by thread.
 */
template <int C, int B, int LENGTH, int PACK> __device__ __forceinline__ int pack_place(int x)
{
    int block = x / C, i = x % C;
    return i / PACK * (LENGTH / C * PACK) + (block % B * (LENGTH / C / B) + block / B) * PACK + i % PACK;
}

/*
 * A batch of visibilities. Samples and values are copied asynchronously while the previous batch is processed. Then
 * warp 0 finds the sources of the weights and the corners.
 */
template <typename T, int P, int N> struct batch_store {
    alignas(16) cplx<T> value[2][N * P];
    alignas(16) msi_wproj_sample sample[2][N];
    tap_source<T> u[N], v[N];
    float frac_u[N], frac_v[N];
    alignas(16) corner at[N];
    uint32_t moves;         /* bit k: visibilities k and k - 1 have different corners */
    uint32_t changes;       /* bit k: they have different weights */
    int32_t last_u, last_v; /* corner of the last visibility of the previous batch */
};

/* Start to fetch a batch. `value` has `stride` images per visibility; NULL: fetch only samples. */
template <typename T, int P, int N>
__device__ void fetch_batch(batch_store<T, P, N> &b, int half, const msi_wproj_sample *sample, const cplx<T> *value,
                            int stride, int n)
{
    constexpr int WORDS = (int)sizeof(msi_wproj_sample) / 8;
    for (int i = threadIdx.x; i < n * WORDS; i += blockDim.x)
        __pipeline_memcpy_async((char *)b.sample[half] + 8 * i, (const char *)sample + 8 * i, 8);
    if (value)
        for (int i = threadIdx.x; i < n * P; i += blockDim.x)
            __pipeline_memcpy_async(&b.value[half][i], value + i / P * stride + i % P, sizeof(cplx<T>));
    __pipeline_commit();
}

/* Pack the texture's element of tap 0, and the plane, into the bits of a pointer. */
template <typename T> __device__ __forceinline__ const cplx<T> *pack_texel(float at, int plane)
{
    return (const cplx<T> *)((uint64_t)(uint32_t)plane << 32 | __float_as_uint(at));
}

/* Find sources, corners and moves of n <= 32 visibilities. Called by warp 0. */
template <int CU, int CV, typename T, int P, int N>
__device__ void find_batch(batch_store<T, P, N> &b, int half, const window_args<T> &a, int n)
{
    int k = threadIdx.x;
    msi_wproj_sample s = b.sample[half][k < n ? k : 0];
    int taps = a.taps[s.plane], half_os = a.oversample / 2;
    int u = s.u, v = s.v;
    if (u < -a.nu / 2 || u > a.nu / 2) u = floor_mod(u + a.nu / 2, a.nu) - a.nu / 2;
    if (v < -a.nv / 2 || v > a.nv / 2) v = floor_mod(v + a.nv / 2, a.nv) - a.nv / 2;
    int first_u = u - taps / 2, first_v = v - taps / 2;
    corner at;
    at.u = first_u & ~(CU - 1);
    at.v = first_v & ~(CV - 1);
    at.place_u = floor_mod(at.u, a.window_u);
    at.place_v = floor_mod(at.v, a.window_v);
    int before_u = __shfl_up_sync(ALL_LANES, at.u, 1), before_v = __shfl_up_sync(ALL_LANES, at.v, 1);
    if (k == 0) {
        before_u = b.last_u;
        before_v = b.last_v;
    }
    __syncwarp();
    uint32_t moves = __ballot_sync(ALL_LANES, k < n && (at.u != before_u || at.v != before_v));
    if (k == 0) b.moves = moves;
    if (k == n - 1) {
        b.last_u = at.u;
        b.last_v = at.v;
    }
    const cplx<T> *row_u = a.table + a.offset_u[s.plane], *row_v = row_u;
    if (a.full) {
        int64_t square = (int64_t)(s.sub_u + half_os) * (a.oversample + 1) + s.sub_v + half_os;
        row_u += square * taps * taps;
    } else {
        row_u += (s.sub_u + half_os) * taps;
        row_v = a.table + a.offset_v[s.plane] + (s.sub_v + half_os) * taps;
    }
    if (a.lookup == MSI_WPROJ_TEXTURE) {
        float tap_0 = a.texture_middle + 0.5f - (float)(taps / 2 * a.oversample);
        row_u = pack_texel<T>(tap_0 - (float)s.sub_u - s.frac_u, s.plane);
        row_v = pack_texel<T>(tap_0 - (float)s.sub_v - s.frac_v, s.plane);
    }
    int32_t taps_sign = taps | (int32_t)((s.conjugate != 0) != (a.conjugate != 0) ? CONJUGATE : 0);
    uint32_t row_before = __shfl_up_sync(ALL_LANES, (uint32_t)(uintptr_t)row_u, 1);
    int32_t taps_before = __shfl_up_sync(ALL_LANES, taps_sign, 1);
    uint32_t changes = moves | __ballot_sync(ALL_LANES, k == 0 || (uint32_t)(uintptr_t)row_u != row_before ||
                                                            taps_sign != taps_before);
    if (k == 0) b.changes = changes;
    if (k >= n) return;
    b.u[k] = {row_u, floor_mod(first_u, a.window_u), taps_sign};
    b.v[k] = {row_v, floor_mod(first_v, a.window_v), taps_sign};
    b.frac_u[k] = s.frac_u;
    b.frac_v[k] = s.frac_v;
    b.at[k] = at;
}

/* Read from a table, or return 0. The load has a predicate, because a branch around it would take longer. */
__device__ __forceinline__ cplx<float> read_table_if(bool there, const cplx<float> *p)
{
    cplx<float> x = {0, 0};
#ifdef __CUDA_ARCH__
    asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.nc.v2.f32 {%0, %1}, [%2]; }"
        : "+f"(x.re), "+f"(x.im)
        : "l"(p), "r"((uint32_t)there));
#else
    if (there) x = *p;
#endif
    return x;
}

__device__ __forceinline__ cplx<double> read_table_if(bool there, const cplx<double> *p)
{
    cplx<double> x = {0, 0};
#ifdef __CUDA_ARCH__
    asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.nc.v2.f64 {%0, %1}, [%2]; }"
        : "+d"(x.re), "+d"(x.im)
        : "l"(p), "r"((uint32_t)there));
#else
    if (there) x = *p;
#endif
    return x;
}

/* Read a source by one read of 16 bytes. */
template <typename T> __device__ __forceinline__ tap_source<T> read_source(const tap_source<T> *p)
{
    int4 x = *(const int4 *)p;
    uint64_t row = (uint64_t)(uint32_t)x.y << 32 | (uint32_t)x.x;
    return {(const cplx<T> *)row, x.z, x.w};
}

/* Arguments for staging weights along an axis. */
struct axis {
    int window;
    cudaTextureObject_t texture;
    float oversample;
    int first, cells; /* the tile's first place in the window, and the number of places */
};

/* Return the weight at place x of the window; 0 outside of the footprint. */
template <msi_wproj_lookup LOOKUP, typename T>
__device__ __forceinline__ cplx<T> weight_at(const tap_source<T> &s, float frac, int x, axis along)
{
    /* Places below rot belong to the next repetition of the window. Their unsigned difference is huge; the window's
     * size is added to it. */
    uint32_t tap = (uint32_t)(x - s.rot), taps = (uint32_t)s.taps & ~CONJUGATE;
    tap = min(tap, tap + (uint32_t)along.window);
    cplx<T> w = {0, 0};
    if constexpr (LOOKUP == MSI_WPROJ_TEXTURE) {
        uint64_t texel = (uint64_t)s.row;
        if (tap < taps) {
            float2 t = tex2D<float2>(along.texture, __uint_as_float((uint32_t)texel) + (float)tap * along.oversample,
                                     (float)(texel >> 32) + 0.5f);
            w = {t.x, t.y};
        }
    } else {
        const cplx<T> *at = s.row + tap;
        w = read_table_if(tap < taps, at);
        if (LOOKUP == MSI_WPROJ_LINEAR && frac != 0) {
            cplx<T> next = read_table_if(tap < taps, at + taps);
            w.re += (T)frac * (next.re - w.re);
            w.im += (T)frac * (next.im - w.im);
        }
    }
    w.im = flip(w.im, (uint32_t)s.taps & CONJUGATE);
    return w;
}

/* Call stage with the lookup as a constant. Only floats have textures. */
template <typename T, class STAGE> __device__ __forceinline__ void stage_by(msi_wproj_lookup lookup, STAGE stage)
{
    if (lookup == MSI_WPROJ_NEAREST)
        stage(std::integral_constant<msi_wproj_lookup, MSI_WPROJ_NEAREST>());
    else if (sizeof(T) == 8 || lookup == MSI_WPROJ_LINEAR)
        stage(std::integral_constant<msi_wproj_lookup, MSI_WPROJ_LINEAR>());
    else if constexpr (sizeof(T) == 4)
        stage(std::integral_constant<msi_wproj_lookup, MSI_WPROJ_TEXTURE>());
}

/* A thread's items (visibility, place) of a staging pass. A thread has one place, or few. */
struct staging {
    int x, k;           /* first place in the tile, first visibility */
    int x_step, k_step; /* strides */
};

__device__ __forceinline__ staging divide_items(int log2_width)
{
    staging s;
    s.x_step = 1 << log2_width;
    s.k_step = (int)blockDim.x >> log2_width;
    s.x = (int)threadIdx.x & (s.x_step - 1);
    s.k = (int)threadIdx.x >> log2_width;
    if (s.k >= s.k_step) s.x = INT32_MAX / 2;
    return s;
}

/* Stage weights along one axis of n visibilities in rows of LENGTH elements. */
template <int C, int B, int LENGTH, msi_wproj_lookup LOOKUP, typename T>
__device__ __forceinline__ void stage_rows(cplx<T> *staged, const tap_source<T> *source, const float *frac, axis along,
                                           int n, staging items)
{
    for (int x = items.x; x < along.cells; x += items.x_step) {
        cplx<T> *out = staged + pack_place<C, B, LENGTH, 16 / (int)sizeof(cplx<T>)>(x);
#pragma unroll 4
        for (int k = items.k; k < n; k += items.k_step)
            out[k * LENGTH] = weight_at<LOOKUP>(read_source(&source[k]), LOOKUP == MSI_WPROJ_LINEAR ? frac[k] : 0.0f,
                                                along.first + x, along);
    }
}

/* Find a thread's place in its tile. Two lanes are neighbours along v, and two such pairs along u. Equal addresses are
 * then in neighbouring lanes, where shared memory merges the accesses. */
__device__ __forceinline__ void thread_place(int threads_u, int threads_v, int *tx, int *ty)
{
    int t = threadIdx.x;
    if (threads_u % 2 == 0 && threads_v % 2 == 0) {
        int quad = t / 4, across = threads_u / 2;
        *tx = quad % across * 2 + (t >> 1 & 1);
        *ty = quad / across * 2 + (t & 1);
    } else {
        *tx = t % threads_u;
        *ty = t / threads_u;
    }
}

template <typename T> struct pack_of;
template <> struct pack_of<float> {
    using type = float4;
};
template <> struct pack_of<double> {
    using type = double2;
};

/* Read COUNT complex elements, a multiple of the pack, from shared memory. Packs are `step` elements apart. */
template <int COUNT> __device__ __forceinline__ void read_packs(const cplx<float> *p, int step, cplx<float> *out)
{
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++) {
        float4 x = *(const float4 *)(p + i * step);
        out[2 * i] = {x.x, x.y};
        out[2 * i + 1] = {x.z, x.w};
    }
}

template <int COUNT> __device__ __forceinline__ void read_packs(const cplx<double> *p, int step, cplx<double> *out)
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        double2 x = *(const double2 *)(p + i * step);
        out[i] = {x.x, x.y};
    }
}

template <typename T> __device__ __forceinline__ cplx<T> multiply(cplx<T> a, cplx<T> b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* The part of a launch that a block of threads executes. */
struct block_part {
    int first_u, first_v; /* places in the window of the tile's first cell */
    int image;            /* first of the images */
    int64_t begin, end;   /* visibilities */
};

template <int P, typename T>
__device__ __forceinline__ block_part find_part(const window_args<T> &a, int tile_u, int tile_v)
{
    block_part s;
    uint32_t b = blockIdx.x;
    s.first_u = (int)(b % (uint32_t)a.n_tile_u) * tile_u;
    b /= (uint32_t)a.n_tile_u;
    s.first_v = (int)(b % (uint32_t)a.n_tile_v) * tile_v;
    b /= (uint32_t)a.n_tile_v;
    s.image = a.first_image + (int)(b % (uint32_t)a.n_pass) * P;
    s.begin = (int64_t)(b / (uint32_t)a.n_pass) * a.group;
    s.end = s.begin + a.group < a.n_vis ? s.begin + a.group : a.n_vis;
    return s;
}

/* The blocks of cells of a thread of a separable form, and the weights that it stages. */
struct tile_thread {
    block_part part;
    int x, y;             /* index of the thread in the tile */
    bool own;             /* 1: it has cells; the threads that fill up the last warp have none */
    int place_u, place_v; /* place of its first cell, in the window */
    staging items_u, items_v;
    axis along_u, along_v;
};

template <class F> __device__ __forceinline__ tile_thread find_thread(const window_args<typename F::T> &a)
{
    tile_thread t;
    int cells_u = a.threads_u * F::CU, cells_v = a.threads_v * F::ROWS;
    t.part = find_part<F::P>(a, cells_u, cells_v);
    thread_place(a.threads_u, a.threads_v, &t.x, &t.y);
    t.items_u = divide_items(a.log2_tile_u);
    t.items_v = divide_items(a.log2_tile_v);
    t.own = threadIdx.x < a.threads_u * a.threads_v;
    t.place_u = t.part.first_u + t.x * F::CU;
    t.place_v = t.part.first_v + t.y * F::ROWS;
    t.along_u = {a.window_u, a.texture_u, (float)a.oversample, t.part.first_u, cells_u};
    t.along_v = {a.window_v, a.texture_v, (float)a.oversample, t.part.first_v, cells_v};
    return t;
}

/* Find the positions of a thread's B blocks on the grid. */
template <int B> struct block_places {
    int u, v[B];
};

/* The batches of a block's part, one after the other. A batch is fetched while the previous one is processed. */
template <int CU, int CV, typename T, int P, int N> struct batch_walk {
    batch_store<T, P, N> &b;
    const window_args<T> &a;
    const block_part &part;
    const cplx<T> *value; /* value of the part's first image; NULL: only samples are fetched */

    __device__ __forceinline__ int size(int64_t first) const
    {
        return (int)(part.end - first < N ? part.end - first : N);
    }

    __device__ __forceinline__ void fetch(int64_t first, int half) const
    {
        fetch_batch<T, P, N>(b, half, a.sample + first, value ? value + first * a.n_image : nullptr, a.n_image,
                             size(first));
    }

    /* Start fetching the first batch. */
    __device__ __forceinline__ void begin() const
    {
        if (threadIdx.x == 0) b.last_u = INT32_MIN;
        fetch(part.begin, 0);
    }

    /* Wait for the batch that begins at `done`, prepare it, and start fetching the next one. Returns its size. */
    __device__ __forceinline__ int take(int64_t done, int half) const
    {
        const int n = size(done);
        __pipeline_wait_prior(0);
        __syncthreads();
        if (threadIdx.x < 32) find_batch<CU, CV>(b, half, a, n);
        if (done + N < part.end) fetch(done + N, half ^ 1);
        __syncthreads();
        return n;
    }
};

/* Return the end of the run of visibilities that begins at k: the next one whose bit is set, or n. */
__device__ __forceinline__ int end_of_run(uint32_t bits, int k, int n)
{
    const uint32_t later = k < 31 ? bits >> (k + 1) << (k + 1) : 0;
    return later ? min(n, __ffs((int)later) - 1) : n;
}

/* Find the position of the cell at a place of the window for a corner, along one axis. */
__device__ __forceinline__ int cell_at(int place, int corner_place, int corner_cell, int window)
{
    int x = place - corner_place;
    return corner_cell + (x < 0 ? x + window : x);
}

/* The types and sizes of a form for full tables: P images, CV cells of a column per thread, at most MOST threads. */
template <typename T_, int P_, int CV_, int N_, int MOST_, int BLOCKS_> struct full_form {
    using T = T_;
    static constexpr int P = P_, CV = CV_, N = N_, THREADS = MOST_, BLOCKS = BLOCKS_, FULL = 1;
};

/* A thread of a full form has cells of one column, step_v apart. */
struct column_thread {
    block_part part;
    int place_u, place_v, step_v; /* place of its first cell, in the window */
    bool own;                     /* the column lies in the window */
};

template <class F> __device__ __forceinline__ column_thread find_column(const window_args<typename F::T> &a)
{
    column_thread t;
    t.part = find_part<F::P>(a, a.threads_u, a.threads_v * F::CV);
    int x = (int)threadIdx.x % a.threads_u, y = (int)threadIdx.x / a.threads_u;
    t.place_u = t.part.first_u + x;
    t.place_v = t.part.first_v + y;
    t.step_v = a.threads_v;
    t.own = y < a.threads_v && t.place_u < a.window_u;
    return t;
}

/* Read the weights of a thread's column for visibility k. */
template <int CV, typename T, int P, int N>
__device__ __forceinline__ void read_column(cplx<T> *w, const batch_store<T, P, N> &b, int k, const window_args<T> &a,
                                            const column_thread &t)
{
    tap_source<T> s = b.u[k];
    int rot_v = b.v[k].rot, taps = s.taps & 0x7fffffff;
    int tap_u = t.place_u - s.rot;
    if (tap_u < 0) tap_u += a.window_u;
    const cplx<T> *column = s.row + tap_u;
    int reach = tap_u < taps ? taps : 0;
#pragma unroll
    for (int j = 0; j < CV; j++) {
        int tap_v = t.place_v + j * t.step_v - rot_v;
        if (tap_v < 0) tap_v += a.window_v;
        cplx<T> x = {0, 0};
        if (tap_v < reach) x = read_only(column + tap_v * taps);
        w[j] = {x.re, flip(x.im, (uint32_t)s.taps & CONJUGATE)};
    }
}

} // namespace

/* Host code of the moving window: the layout of a form's launch, and the choice of a form from the table. */

namespace {

/* Cut a window into the least number of tiles of at most `most_cells` cells; find the threads of each, `blocks` blocks
 * to a thread. */
inline void cut_window(int cells, int coarsen, int blocks, int most_cells, int *window, int *n_tile, int *threads)
{
    int n = (cells + coarsen - 1) / coarsen;
    *n_tile = (n * coarsen + most_cells - 1) / most_cells;
    *threads = (n + *n_tile * blocks - 1) / (*n_tile * blocks);
    *window = *threads * blocks * *n_tile * coarsen;
}

inline int log2_ceil(int n)
{
    int bits = 0;
    while (1 << bits < n) bits++;
    return bits;
}

/* Fill the arguments for n_pass times P images, beginning with first_image. */
template <typename T, int P>
void fill_args(window_args<T> *a, const msi_wproj_job *job, int group, int first_image, int n_pass, int conjugate)
{
    *a = {};
    a->nu = (int32_t)job->nu;
    a->nv = (int32_t)job->nv;
    a->n_vis = job->n_vis;
    a->group = group;
    a->n_image = job->n_image;
    a->first_image = first_image;
    a->n_pass = n_pass;
    a->oversample = job->kernels.oversample;
    a->full = job->kernels.full;
    a->lookup = job->kernels.lookup;
    a->texture_u = job->kernels.texture_u;
    a->texture_v = job->kernels.texture_v;
    a->texture_middle = job->kernels.texture_middle;
    a->conjugate = conjugate;
    a->pairs = P == 1 ? job->n_image == 1 && job->nu % 2 == 0 : job->n_image % 2 == 0 && first_image % 2 == 0;
    a->sample = job->sample;
    a->value = (cplx<T> *)job->value;
    a->grid = (cplx<T> *)job->grid;
    a->taps = job->kernels.taps;
    a->offset_u = job->kernels.offset_u;
    a->offset_v = job->kernels.offset_v;
    a->table = (const cplx<T> *)job->kernels.table;
}

template <typename T> int64_t count_blocks(const window_args<T> &a)
{
    return (a.n_vis + a.group - 1) / a.group * a.n_tile_u * a.n_tile_v * a.n_pass;
}

/* Divide a tile's places among the threads that stage them. */
template <typename T> void divide_tile(window_args<T> *a, int cells_u, int cells_v, int threads)
{
    a->log2_tile_u = log2_ceil(cells_u);
    a->log2_tile_v = log2_ceil(cells_v);
    while (1 << a->log2_tile_u > threads) a->log2_tile_u--;
    while (1 << a->log2_tile_v > threads) a->log2_tile_v--;
}

/* Lay out window, tiles and threads of a form. */
template <class F> void divide_window(window_args<typename F::T> *a, int taps, int *threads)
{
    if constexpr (F::FULL) {
        /* There are no padding cells; rows of a thread are threads_v apart. */
        int window;
        cut_window(taps, 1, 1, F::THREADS < 64 ? F::THREADS : 64, &window, &a->n_tile_u, &a->threads_u);
        a->window_u = a->window_v = taps;
        int rows = (taps + F::CV - 1) / F::CV, most = F::THREADS / a->threads_u;
        a->n_tile_v = (rows + most - 1) / most;
        a->threads_v = (rows + a->n_tile_v - 1) / a->n_tile_v;
    } else {
        cut_window(taps + F::CU - 1, F::CU, 1, F::TU, &a->window_u, &a->n_tile_u, &a->threads_u);
        cut_window(taps + F::CV - 1, F::CV, F::B, F::TV, &a->window_v, &a->n_tile_v, &a->threads_v);
    }
    *threads = (a->threads_u * a->threads_v + 31) / 32 * 32;
    if constexpr (!F::FULL) divide_tile(a, a->threads_u * F::CU, a->threads_v * F::ROWS, *threads);
}

/* Clear the values if several tiles will add to them. */
template <typename T> int clear_values(const window_args<T> &a, int first_image, int n, cudaStream_t stream)
{
    if (a.n_tile_u * a.n_tile_v == 1) return MSI_OK;
    const size_t cell = sizeof *a.value, pitch = (size_t)a.n_image * cell;
    MSI_CUDA(cudaMemset2DAsync(a.value + first_image, pitch, 0, (size_t)n * cell, (size_t)a.n_vis, stream));
    return MSI_OK;
}

/* The CUDA kernel of a form and direction, and its shared memory. */
template <class DIRECTION, class F> struct form_kernel {
    static constexpr size_t store_bytes()
    {
        if constexpr (F::FULL)
            return 0;
        else
            return sizeof(typename DIRECTION::template store<F>);
    }
    static auto kernel()
    {
        if constexpr (F::FULL)
            return DIRECTION::template full<F>();
        else
            return DIRECTION::template separable<F>();
    }
};

template <class DIRECTION, class F>
int launch_form(const msi_wproj_job *job, int group, int first_image, int n_pass, cudaStream_t stream)
{
    constexpr size_t STORE_BYTES = form_kernel<DIRECTION, F>::store_bytes();
    static_assert(STORE_BYTES <= LEAST_SHARED_BYTES, "too much for a block of some GPUs");
    const auto kernel = form_kernel<DIRECTION, F>::kernel();
    window_args<typename F::T> a;
    fill_args<typename F::T, F::P>(&a, job, group, first_image, n_pass, DIRECTION::DEGRID);
    int threads;
    divide_window<F>(&a, job->kernels.max_taps, &threads);
    if (DIRECTION::DEGRID) MSI_TRY(clear_values(a, first_image, n_pass * F::P, stream));
    MSI_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)STORE_BYTES));
    kernel<<<(unsigned)count_blocks(a), threads, STORE_BYTES, stream>>>(a);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

typedef int (*launch_fn)(const msi_wproj_job *job, int group, int first_image, int n_pass, cudaStream_t stream);

/* A compiled form, a row of the tables of both directions. */
struct form_row {
    msi_precision precision;
    int full;
    msi_window_shape shape;
    launch_fn launch;
};

template <class DIRECTION, class F> constexpr form_row row_of()
{
    constexpr launch_fn launch = launch_form<DIRECTION, F>;
    constexpr msi_precision precision = sizeof(typename F::T) == 4 ? MSI_FP32 : MSI_FP64;
    if constexpr (F::FULL)
        return {precision, 1, {F::P, 1, F::CV, 1, F::THREADS, 0, MSI_WINDOW_THREADS, 0}, launch};
    else
        return {precision, 0, {F::P, F::CU, F::CV, F::B, F::TU, F::TV, MSI_WINDOW_THREADS, 0}, launch};
}

/* Return whether tensor cores support a job. No block may wrap at the end of a row, and the operands' window must have
 * a whole number of tiles. */
inline bool tensor_takes(const msi_window_shape &s, const msi_wproj_job *job)
{
    const msi_window_operands *o = job->kernels.operands;
    return o && o->taps == job->kernels.max_taps && o->lookup == job->kernels.lookup && job->nu % s.coarsen_u == 0 &&
           job->n_image % s.images == 0 && o->window % s.tile_u == 0 && o->window % s.tile_v == 0;
}

/* Return whether a form supports a job's precision, tables and operands. */
inline bool suits(const form_row &f, const msi_wproj_job *job)
{
    return f.precision == job->precision && f.full == job->kernels.full &&
           (f.shape.variant != MSI_WINDOW_TENSOR || tensor_takes(f.shape, job));
}

inline bool same_tile(const msi_window_shape &a, const msi_window_shape *b)
{
    return a.tile_u == b->tile_u && a.tile_v == b->tile_v && a.variant == b->variant;
}

inline bool same_shape(const msi_window_shape &a, const msi_window_shape *b)
{
    return a.images == b->images && a.coarsen_u == b->coarsen_u && a.coarsen_v == b->coarsen_v &&
           a.blocks_v == b->blocks_v && same_tile(a, b);
}

/*
 * Process all images of a job. One launch of the shape's form processes as many as possible. The others are processed
 * one by one, by a form for one image, if possible with the same tiles.
 */
inline int launch_forms(const form_row *form, int n_form, const msi_wproj_job *job, const msi_window_shape *shape,
                        cudaStream_t stream)
{
    const int64_t least = (int64_t)job->kernels.max_taps + 16;
    if (job->nu < least || job->nv < least || job->nu > INT32_MAX / 2 || job->nv > INT32_MAX / 2)
        return msi_error_set(MSI_ERANGE, "%d taps do not fit a window gridder's grid of %lld x %lld cells",
                             (int)job->kernels.max_taps, (long long)job->nu, (long long)job->nv);
    if (job->kernels.lookup != MSI_WPROJ_NEAREST &&
        (job->kernels.full || (job->kernels.lookup == MSI_WPROJ_TEXTURE && job->precision != MSI_FP32)))
        return msi_error_set(MSI_ERANGE,
                             "a window gridder interpolates separable kernels alone, by textures in fp32 alone");
    const form_row *first = nullptr, *single = nullptr;
    for (int i = 0; i < n_form; i++) {
        if (!suits(form[i], job)) continue;
        if (!first && same_shape(form[i].shape, shape)) first = &form[i];
        if (form[i].shape.images == 1 &&
            (!single || (!same_tile(single->shape, shape) && same_tile(form[i].shape, shape))))
            single = &form[i];
    }
    if (!first || !single || shape->n_vis <= 0)
        return msi_error_set(MSI_ERANGE, "the window strategy has no form of %d images in %d of %d x %d cells a thread",
                             (int)shape->images, (int)shape->blocks_v, (int)shape->coarsen_u, (int)shape->coarsen_v);
    if (job->n_vis == 0) return MSI_OK;
    int n_pass = job->n_image / shape->images, done = n_pass * shape->images;
    if (n_pass) MSI_TRY(first->launch(job, shape->n_vis, 0, n_pass, stream));
    if (done < job->n_image) MSI_TRY(single->launch(job, shape->n_vis, done, job->n_image - done, stream));
    return MSI_OK;
}

/* List the shapes of the forms that suit a job. */
inline int list_shapes(const form_row *form, int n_form, const msi_wproj_job *job, msi_window_shape *shape)
{
    int n = 0;
    for (int i = 0; i < n_form; i++)
        if (suits(form[i], job) && form[i].shape.images <= job->n_image) shape[n++] = form[i].shape;
    return n;
}

} // namespace

#endif
