/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark only, for the problem of Adamek et al. (2021). The product grids subgrids with kernels/towers.
 *
 * Degrid a stack tile by tile, on the tensor cores.
 *
 * A footprint of 8 x 8 x 4 complex doubles is 4 KB. If each visibility reads it from the L2 cache, an H200 reaches 2
 * Gvis/s; from shared memory, 8. So a block processes visibilities whose footprints begin in one tile. It copies the
 * cells of these footprints to shared memory, and sorts the visibilities by bin; a bin is one or several neighbouring
 * cells. A warp processes groups of up to 8 visibilities of one bin. They share a window of cells, as wide as all
 * footprints of the bin, which is read once for the group. The sum over w and u of a group is a product of matrices,
 *
 *     [8 v x (re, im)] x [4 w x window u]  times  [4 w x window u] x [8 visibilities],
 *
 * two or three double-precision multiply-accumulates of 16 x 8 x 16. Re and im of a cell, rows r and r + 8 of the first
 * factor, are one load of 16 bytes. The sum over v, with separate weights for each visibility, is over 8 lanes. Sums of
 * float data are also double, because converting to double takes no longer than splitting floats for tf32.
 *
 * Persistent blocks process items until none is left, so that subgrids with different numbers of visibilities need no
 * separate launches.
 * Source: Adamek 2021 ("Implementation of 3D degridding algorithm on the NVIDIA GPUs using CUDA"), section 2, for the
 * problem. Tiles, groups and matrices were developed for this program.
 */
#include "kernels/stacks/stack_degrid_cuda.h"

#include <algorithm>

#include "kernels/gpu/complex_cuda.cuh"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/gpu/mma_cuda.cuh"

#include <cuda_pipeline_primitives.h>

namespace {

using complex_cuda::ALL_LANES;
using complex_cuda::cplx;
using complex_cuda::read_only;

constexpr int GROUP = 8; /* number of visibilities of a matrix product */

/*
 * BIN neighbouring first cells along u share a window of WINDOW cells. A visibility's weights are 0 for cells of the
 * window outside its footprint.
 */
template <int TILE_U_, int TILE_V_, int BIN_, int MOST_, int THREADS_, int BLOCKS_> struct shape {
    static constexpr int TILE_U = TILE_U_, TILE_V = TILE_V_, BIN = BIN_, MOST = MOST_, THREADS = THREADS_;
    static constexpr int BLOCKS = BLOCKS_, WARPS = THREADS / 32;
    static constexpr int WINDOW = BIN + MSI_STACK_TAPS - 1, QUARTERS = WINDOW / 4;
    static constexpr int ROW_BINS = TILE_U / BIN, BINS = ROW_BINS * TILE_V;
    static constexpr int COLUMNS = TILE_U + MSI_STACK_TAPS - 1, ROWS = TILE_V + MSI_STACK_TAPS - 1;
    /* Two rows of four cells, which 8 lanes read at once, must be in different banks. */
    static constexpr int PITCH = COLUMNS + ((4 - COLUMNS) % 8 + 8) % 8, PLANE = ROWS * PITCH;
    static constexpr int VIS_A_THREAD = MOST / THREADS, BINS_A_THREAD = (BINS + THREADS - 1) / THREADS;
    static constexpr int MAX_GROUPS = MOST / GROUP + (BINS < MOST ? BINS : MOST);
    static_assert(WINDOW % 4 == 0 && TILE_U % BIN == 0 && MOST % THREADS == 0, "whole windows, bins and rounds");
    static_assert(MOST <= 4096, "a group is one word");

    struct store {
        cplx<double> cell[MSI_STACK_PLANES * PLANE];
        msi_stack_place place[MOST];
        uint32_t index[MOST];
        uint32_t group[MAX_GROUPS]; /* first visibility | visibilities - 1 << 12 | bin << 16 */
        uint32_t start[BINS];       /* number of visibilities of a bin, then the index of the first */
        uint32_t warp_sum[WARPS];
        uint32_t item;
    };
};

/* Dense subgrids fill groups with windows of 12 cells. In sparse subgrids most bins would have only one visibility, so
 * they use wide tiles, which read fewer margin cells. */
using dense = shape<20, 14, 5, 1408, 128, 4>;
using sparse = shape<21, 21, 1, 512, 256, 3>;
constexpr double DENSE_FROM = 0.2; /* visibilities per cell */

template <typename T> struct tile_args {
    int32_t size;
    const cplx<T> *grid;
    const T *kernel_u, *kernel_v, *kernel_w;
    cplx<T> *value;
    msi_stack_sorted sorted;
    uint32_t *next; /* next item, number of blocks that have finished */
};

/* Start copying the cells that an item's footprints may touch. Cells beyond the subgrid, which wide windows may touch,
 * are zero. */
template <class S> __device__ void fetch_cells(typename S::store &s, const tile_args<double> &a, msi_stack_item item)
{
    const int u0 = item.corner & 0xffff, v0 = item.corner >> 16;
    const cplx<double> *from = a.grid + (int64_t)item.subgrid * MSI_STACK_PLANES * a.size * a.size;
    for (int i = threadIdx.x; i < MSI_STACK_PLANES * S::ROWS * S::COLUMNS; i += S::THREADS) {
        const int u = i % S::COLUMNS, row = i / S::COLUMNS, v = row % S::ROWS, w = row / S::ROWS;
        const bool inside = u0 + u < a.size && v0 + v < a.size;
        __pipeline_memcpy_async(&s.cell[row * S::PITCH + u],
                                inside ? from + (w * a.size + v0 + v) * a.size + u0 + u : from, sizeof(cplx<double>),
                                inside ? 0 : sizeof(cplx<double>));
    }
    __pipeline_commit();
}

/* The same for floats, which are converted to double. */
template <class S> __device__ void fetch_cells(typename S::store &s, const tile_args<float> &a, msi_stack_item item)
{
    const int u0 = item.corner & 0xffff, v0 = item.corner >> 16;
    const cplx<float> *from = a.grid + (int64_t)item.subgrid * MSI_STACK_PLANES * a.size * a.size;
#pragma unroll 8
    for (int i = threadIdx.x; i < MSI_STACK_PLANES * S::ROWS * S::COLUMNS; i += S::THREADS) {
        const int u = i % S::COLUMNS, row = i / S::COLUMNS, v = row % S::ROWS, w = row / S::ROWS;
        const bool inside = u0 + u < a.size && v0 + v < a.size;
        const cplx<float> x = read_only(inside ? from + (w * a.size + v0 + v) * a.size + u0 + u : from);
        s.cell[row * S::PITCH + u] = {inside ? x.re : 0, inside ? x.im : 0};
    }
}

/* List the groups from the numbers of visibilities of all bins, and set s.start to the first visibility of each bin.
 * Returns the number of groups. */
template <class S> __device__ __forceinline__ uint32_t list_groups(typename S::store &s)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    /* The low half of a word counts the visibilities of earlier bins, the high half their groups. */
    const int first_bin = threadIdx.x * S::BINS_A_THREAD;
    uint32_t n[S::BINS_A_THREAD], sum = 0;
#pragma unroll
    for (int k = 0; k < S::BINS_A_THREAD; k++) {
        n[k] = first_bin + k < S::BINS ? s.start[first_bin + k] : 0;
        sum += n[k] | (n[k] + GROUP - 1) / GROUP << 16;
    }
    uint32_t before = sum;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const uint32_t below = __shfl_up_sync(ALL_LANES, before, d);
        if (lane >= d) before += below;
    }
    if (lane == 31) s.warp_sum[warp] = before;
    before -= sum;
    __syncthreads();
    uint32_t all = 0;
#pragma unroll
    for (int w = 0; w < S::WARPS; w++) {
        if (w == warp) before += all;
        all += s.warp_sum[w];
    }
#pragma unroll
    for (int k = 0; k < S::BINS_A_THREAD; k++) {
        if (n[k] == 0) continue;
        uint32_t first = before & 0xffff, to = before >> 16;
        const uint32_t end = first + n[k];
        before += n[k] | (n[k] + GROUP - 1) / GROUP << 16;
        s.start[first_bin + k] = first;
        for (; first < end; first += GROUP)
            s.group[to++] = first | (min(end - first, (uint32_t)GROUP) - 1) << 12 | (uint32_t)(first_bin + k) << 16;
    }
    return all >> 16;
}

/* Sort an item's visibilities by bin and list the groups. Returns the number of groups. */
template <class S, typename T>
__device__ int make_groups(typename S::store &s, const tile_args<T> &a, msi_stack_item item)
{
    const int u0 = item.corner & 0xffff, v0 = item.corner >> 16;
    msi_stack_place place[S::VIS_A_THREAD];
    uint32_t bin_rank[S::VIS_A_THREAD];
#pragma unroll
    for (int k = 0; k < S::VIS_A_THREAD; k++) {
        const uint32_t i = k * S::THREADS + threadIdx.x;
        if (i < item.n) place[k] = a.sorted.place[item.first + i];
    }
#pragma unroll
    for (int k = 0; k < S::VIS_A_THREAD; k++) {
        if (k * S::THREADS + threadIdx.x >= item.n) continue;
        const int column = msi_stack_u0(place[k]) - u0, row = msi_stack_v0(place[k]) - v0;
        const uint32_t bin = (uint32_t)(row * S::ROW_BINS + column / S::BIN);
        bin_rank[k] = bin << 16 | atomicAdd(&s.start[bin], 1u);
    }
    __syncthreads();
    const uint32_t n_group = list_groups<S>(s);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < S::VIS_A_THREAD; k++) {
        const uint32_t i = k * S::THREADS + threadIdx.x;
        if (i >= item.n) continue;
        const uint32_t to = s.start[bin_rank[k] >> 16] + (bin_rank[k] & 0xffff);
        s.place[to] = place[k];
        s.index[to] = a.sorted.index[item.first + i];
    }
    return (int)n_group;
}

/* The weights of a lane: u and w weights of one visibility of a group, and v weights of two. */
template <class S, typename T> struct weights {
    T u[S::QUARTERS], w[MSI_STACK_PLANES], v[2];
};

/* Fetch the weights of a lane for a group. Given: corner_u  first cell of the tile */
template <class S, typename T>
__device__ __forceinline__ weights<S, T> fetch_weights(const typename S::store &s, const tile_args<T> &a,
                                                       uint32_t group, int corner_u, int lane)
{
    weights<S, T> k;
    const uint32_t first = group & 0xfff, last = group >> 12 & (GROUP - 1), pair = lane % 4 * 2;
    const msi_stack_place p = s.place[first + min((uint32_t)lane / 4, last)];
    const int shift = msi_stack_u0(p) - corner_u - (int)(group >> 16) % S::ROW_BINS * S::BIN;
    const T *u = a.kernel_u + msi_stack_sub_u(p) * MSI_STACK_TAPS;
#pragma unroll
    for (int q = 0; q < S::QUARTERS; q++) {
        const int tap = lane % 4 + 4 * q - shift;
        k.u[q] = (unsigned)tap < MSI_STACK_TAPS ? __ldg(u + tap) : T(0);
    }
    const cplx<T> *w = (const cplx<T> *)(a.kernel_w + msi_stack_sub_w(p) * MSI_STACK_PLANES);
    const cplx<T> w01 = read_only(w), w23 = read_only(w + 1);
    k.w[0] = w01.re;
    k.w[1] = w01.im;
    k.w[2] = w23.re;
    k.w[3] = w23.im;
#pragma unroll
    for (uint32_t j = 0; j < 2; j++) {
        const msi_stack_place q = s.place[first + min(pair + j, last)];
        k.v[j] = __ldg(a.kernel_v + msi_stack_sub_v(q) * MSI_STACK_TAPS + lane / 4);
    }
    return k;
}

/* Read the cells of a bin's window as the first factor, re and im alternating: this lane's v is lane / 4, its u are
 * lane % 4, 4 more, .. */
template <class S>
__device__ __forceinline__ void read_cells(double (&x)[8 * S::QUARTERS], const typename S::store &s, uint32_t bin,
                                           int lane)
{
    const int column = (int)bin % S::ROW_BINS * S::BIN + lane % 4, row = (int)bin / S::ROW_BINS + lane / 4;
    const cplx<double> *from = s.cell + row * S::PITCH + column;
#pragma unroll
    for (int w = 0; w < MSI_STACK_PLANES; w++)
#pragma unroll
        for (int q = 0; q < S::QUARTERS; q++) {
            const cplx<double> c = from[w * S::PLANE + 4 * q];
            x[2 * (w * S::QUARTERS + q)] = c.re;
            x[2 * (w * S::QUARTERS + q) + 1] = c.im;
        }
}

/* Sum over pairs of lanes that differ in one bit: `clear` for the lane where it is clear, `set` for the other. */
__device__ __forceinline__ double exchange(double clear, double set, int bit, int lane)
{
    const bool upper = lane & bit;
    return (upper ? set : clear) + __shfl_xor_sync(ALL_LANES, upper ? clear : set, bit);
}

/* The second factor and the weights in v are double. */
template <class S> struct factors {
    double b[4 * S::QUARTERS], v[2];

    template <typename T> __device__ __forceinline__ factors(const weights<S, T> &k) : v{k.v[0], k.v[1]}
    {
#pragma unroll
        for (int w = 0; w < MSI_STACK_PLANES; w++)
#pragma unroll
            for (int q = 0; q < S::QUARTERS; q++) b[w * S::QUARTERS + q] = (double)k.u[q] * (double)k.w[w];
    }
};

template <class S, typename T>
__device__ __forceinline__ void degrid_group(const typename S::store &s, const tile_args<T> &a, uint32_t group,
                                             const double (&x)[8 * S::QUARTERS], const factors<S> &k, int lane)
{
    double sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int q = 0; q < S::QUARTERS; q++) mma::multiply_add_k16(sum, x + 8 * q, k.b + 4 * q);
    /* The sums are re of two visibilities, then im of the two, at this lane's v. */
    const double re = exchange(sum[0] * k.v[0], sum[1] * k.v[1], 16, lane),
                 im = exchange(sum[2] * k.v[0], sum[3] * k.v[1], 16, lane);
    double total = exchange(re, im, 8, lane);
    total += __shfl_xor_sync(ALL_LANES, total, 4);
    const uint32_t vis = lane % 4 * 2 + lane / 16;
    if ((lane & 4) == 0 && vis <= (group >> 12 & (GROUP - 1))) {
        const uint32_t at = (group & 0xfff) + vis;
        T *to = (T *)(a.value + s.index[at]) + (lane >> 3 & 1);
        *to = s.place[at] & MSI_STACK_OUTSIDE ? T(0) : (T)total;
    }
}

template <class S, typename T>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS) k_stack_tiles(const __grid_constant__ tile_args<T> a)
{
    extern __shared__ __align__(128) char shared_bytes[];
    typename S::store &s = *(typename S::store *)shared_bytes;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t n_item = *a.sorted.n_item;
    if (threadIdx.x == 0) s.item = atomicAdd(&a.next[0], 1u);
    for (;;) {
        for (int i = threadIdx.x; i < S::BINS; i += S::THREADS) s.start[i] = 0;
        __syncthreads();
        const uint32_t number = s.item;
        if (number >= n_item) break;
        const msi_stack_item item = a.sorted.item[number];
        fetch_cells<S>(s, a, item);
        const int n_group = make_groups<S>(s, a, item);
        if (threadIdx.x == 0) s.item = atomicAdd(&a.next[0], 1u);
        __pipeline_wait_prior(0);
        __syncthreads();
        /* A warp's groups are consecutive: if they share a bin, its window stays in registers. */
        const int from = n_group * warp / S::WARPS, to = n_group * (warp + 1) / S::WARPS;
        const int corner_u = item.corner & 0xffff;
        double x[8 * S::QUARTERS];
        uint32_t bin = ~0u, group = from < to ? s.group[from] : 0;
        weights<S, T> next = {};
        if (from < to) next = fetch_weights<S>(s, a, group, corner_u, lane);
        for (int g = from; g < to; g++) {
            const uint32_t now = group;
            const factors<S> k(next);
            if (g + 1 < to) {
                group = s.group[g + 1];
                next = fetch_weights<S>(s, a, group, corner_u, lane);
            }
            if (now >> 16 != bin) {
                bin = now >> 16;
                read_cells<S>(x, s, bin, lane);
            }
            degrid_group<S>(s, a, now, x, k, lane);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0 && atomicAdd(&a.next[1], 1u) == gridDim.x - 1) a.next[0] = a.next[1] = 0;
}

} // namespace

struct msi_stack_tiles {
    msi_gpu_stream gpu;
    int dense, n_processor;
    uint32_t *next;
};

extern "C" void msi_stack_tiles_free(msi_stack_tiles *t)
{
    if (!t) return;
    cudaFree(t->next);
    delete t;
}

template <class S, typename T> static int allow_shared()
{
    static_assert(sizeof(typename S::store) <= LEAST_SHARED_BYTES, "too much for a block of some GPUs");
    MSI_CUDA(cudaFuncSetAttribute(k_stack_tiles<S, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  sizeof(typename S::store)));
    return MSI_OK;
}

static int fill_tiles(msi_stack_tiles *t)
{
    MSI_TRY(msi_gpu_stream_enter(&t->gpu));
    MSI_CUDA(cudaDeviceGetAttribute(&t->n_processor, cudaDevAttrMultiProcessorCount, t->gpu.device));
    MSI_TRY(allocate(&t->next, 2, "work items"));
    MSI_CUDA(cudaMemsetAsync(t->next, 0, 2 * sizeof *t->next, (cudaStream_t)t->gpu.stream));
    MSI_TRY((allow_shared<dense, float>()));
    MSI_TRY((allow_shared<dense, double>()));
    MSI_TRY((allow_shared<sparse, float>()));
    return allow_shared<sparse, double>();
}

extern "C" int msi_stack_tiles_create(msi_stack_tiles **out, const msi_gpu_stream *gpu, const msi_stack_job *job,
                                      msi_stack_tile *tile, int32_t *most)
{
    *out = nullptr;
    msi_stack_tiles *t = new msi_stack_tiles{};
    t->gpu = *gpu;
    const double cells = (double)job->n_subgrid * job->size * job->size;
    t->dense = (double)job->first_vis[job->n_subgrid] >= DENSE_FROM * cells;
    *tile = t->dense ? msi_stack_tile{dense::TILE_U, dense::TILE_V} : msi_stack_tile{sparse::TILE_U, sparse::TILE_V};
    *most = t->dense ? dense::MOST : sparse::MOST;
    int status = fill_tiles(t);
    if (status != MSI_OK) {
        msi_stack_tiles_free(t);
        return status;
    }
    *out = t;
    return MSI_OK;
}

template <class S, typename T>
static int launch(const msi_stack_tiles *t, const msi_stack_job *job, const msi_stack_sorted *sorted)
{
    cudaStream_t stream = (cudaStream_t)t->gpu.stream;
    const tile_args<T> a = {job->size,
                            (const cplx<T> *)job->grid,
                            (const T *)job->kernel_u,
                            (const T *)job->kernel_v,
                            (const T *)job->kernel_w,
                            (cplx<T> *)job->value,
                            *sorted,
                            t->next};
    k_stack_tiles<S><<<(unsigned)(t->n_processor * S::BLOCKS), S::THREADS, sizeof(typename S::store), stream>>>(a);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

extern "C" int msi_stack_tiles_degrid(msi_stack_tiles *t, const msi_stack_job *job, const msi_stack_sorted *sorted)
{
    const gpu_range range("degrid stacks by tile");
    if (job->first_vis[job->n_subgrid] == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&t->gpu));
    if (job->precision == MSI_FP32)
        return t->dense ? launch<dense, float>(t, job, sorted) : launch<sparse, float>(t, job, sorted);
    return t->dense ? launch<dense, double>(t, job, sorted) : launch<sparse, double>(t, job, sorted);
}
