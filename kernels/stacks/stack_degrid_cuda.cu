/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark only, for the problem of Adamek et al. (2021). The product grids subgrids with kernels/towers.
 *
 * Degrid a stack in the given order. A visibility's 256 cells are distributed over lanes, with neighbours in u in
 * neighbouring lanes, so that a load reads whole rows of a footprint. Partial sums of several visibilities are reduced
 * over the lanes together: in each step a lane sends the half that its partner keeps. All forms read footprints through
 * the caches; the L2 cache of an H200 limits this to 2 Gvis/s. Visibilities are numbered over all subgrids, and a block
 * finds the subgrid of each visibility.
 *
 * Source: Adamek 2021 ("Implementation of 3D degridding algorithm on the NVIDIA GPUs using CUDA"), section 2: D1, one
 * warp a group of visibilities; D4, 64 threads that reduce in z first; D2, one visibility a block.
 */
#include "kernels/stacks/stack_degrid_cuda.h"

#include <algorithm>
#include <bitset>
#include <vector>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/gpu/complex_cuda.cuh"
#include "kernels/stacks/stack_degrid_cpu.h"

namespace {

using complex_cuda::cplx;
using complex_cuda::read_only;
using warp_sum::transposed_sum;

constexpr int TAPS = MSI_STACK_TAPS, PLANES = MSI_STACK_PLANES;
constexpr int THREADS = 128, WARPS = THREADS / 32;
constexpr int MAX_GROUP = 32, AT_ONCE = 8, PAIR_AT_ONCE = 16;
constexpr int PAIR = TAPS * TAPS, CELLS = PAIR * PLANES;

template <typename T> struct stack_args {
    int32_t size, n_subgrid, group;
    uint32_t n_vis;
    const uint32_t *first_vis;
    const msi_stack_uvw *uvw;
    const cplx<T> *grid;
    const T *kernel_u, *kernel_v, *kernel_w;
    cplx<T> *value;
};

struct visibility {
    msi_stack_place place;
    int64_t cell; /* first of the footprint */
};

/* Find the last subgrid that begins at or before visibility i. */
__device__ __forceinline__ int find_subgrid(const uint32_t *first_vis, int n, uint32_t i)
{
    int low = 0, high = n;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (first_vis[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

template <typename T> __device__ __forceinline__ visibility prepare(const stack_args<T> &a, uint32_t i)
{
    visibility k;
    const int64_t subgrid = find_subgrid(a.first_vis, a.n_subgrid, i);
    k.place = msi_stack_locate(&a.uvw[i], a.size);
    k.cell = (subgrid * PLANES * a.size + msi_stack_v0(k.place)) * a.size + msi_stack_u0(k.place);
    return k;
}

template <typename T> __device__ __forceinline__ T weight_u(const stack_args<T> &a, msi_stack_place p, int u)
{
    return __ldg(a.kernel_u + msi_stack_sub_u(p) * TAPS + u);
}

template <typename T> __device__ __forceinline__ T weight_v(const stack_args<T> &a, msi_stack_place p, int v)
{
    return __ldg(a.kernel_v + msi_stack_sub_v(p) * TAPS + v);
}

/* Sum the column of cells at u, v of a footprint over w. */
template <typename T>
__device__ __forceinline__ cplx<T> sum_column(const stack_args<T> &a, const visibility &k, int u, int v)
{
    const cplx<T> *cell = a.grid + k.cell + v * a.size + u;
    const T *weight = a.kernel_w + msi_stack_sub_w(k.place) * PLANES;
    cplx<T> sum = {0, 0};
#pragma unroll
    for (int w = 0; w < PLANES; w++) {
        const cplx<T> x = read_only(cell + (int64_t)w * a.size * a.size);
        const T kw = __ldg(weight + w);
        sum.re += kw * x.re;
        sum.im += kw * x.im;
    }
    return sum;
}

/* A warp processes a group of visibilities; lane l has u = l % 8, v = l / 8 and l / 8 + 4. */
template <typename T> __global__ void __launch_bounds__(THREADS) k_stack_warp(const __grid_constant__ stack_args<T> a)
{
    __shared__ visibility prepared[WARPS][MAX_GROUP];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t first = ((int64_t)blockIdx.x * WARPS + warp) * a.group;
    if (first >= a.n_vis) return;
    const int n = (int)min((int64_t)a.group, a.n_vis - first);
    if (lane < n) prepared[warp][lane] = prepare(a, (uint32_t)first + lane);
    __syncwarp();
    for (int base = 0; base < n; base += AT_ONCE) {
        cplx<T> sum[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            sum[j] = {0, 0};
            if (base + j >= n) continue;
            const visibility k = prepared[warp][base + j];
            const T ku = weight_u(a, k.place, lane % TAPS);
#pragma unroll
            for (int v = lane / TAPS; v < TAPS; v += 32 / TAPS) {
                const cplx<T> column = sum_column(a, k, lane % TAPS, v);
                const T kuv = ku * weight_v(a, k.place, v);
                sum[j].re += kuv * column.re;
                sum[j].im += kuv * column.im;
            }
        }
        const T total = transposed_sum<AT_ONCE, 32>(sum, lane);
        const int number = lane / (32 / (2 * AT_ONCE)), vis = base + number / 2;
        if (lane % (32 / (2 * AT_ONCE)) != 0 || vis >= n) continue;
        const bool outside = prepared[warp][vis].place & MSI_STACK_OUTSIDE;
        ((T *)(a.value + first + vis))[number % 2] = outside ? T(0) : total;
    }
}

/* Two warps process a group of visibilities; thread t has u = t % 8, v = t / 8. */
template <typename T> __global__ void __launch_bounds__(PAIR) k_stack_zreduce(const __grid_constant__ stack_args<T> a)
{
    __shared__ visibility prepared[MAX_GROUP];
    __shared__ T upper[2 * PAIR_AT_ONCE];
    const int lane = threadIdx.x % 32, u = threadIdx.x % TAPS, v = threadIdx.x / TAPS;
    const int64_t first = (int64_t)blockIdx.x * a.group;
    const int n = (int)min((int64_t)a.group, a.n_vis - first);
    if ((int)threadIdx.x < n) prepared[threadIdx.x] = prepare(a, (uint32_t)first + threadIdx.x);
    __syncthreads();
    for (int base = 0; base < n; base += PAIR_AT_ONCE) {
        cplx<T> sum[PAIR_AT_ONCE];
#pragma unroll
        for (int j = 0; j < PAIR_AT_ONCE; j++) {
            sum[j] = {0, 0};
            if (base + j >= n) continue;
            const visibility k = prepared[base + j];
            const cplx<T> column = sum_column(a, k, u, v);
            const T kuv = weight_u(a, k.place, u) * weight_v(a, k.place, v);
            sum[j] = {kuv * column.re, kuv * column.im};
        }
        T total = transposed_sum<PAIR_AT_ONCE, 32>(sum, lane);
        if (threadIdx.x >= 32) upper[lane] = total;
        __syncthreads();
        const int vis = base + lane / 2;
        if (threadIdx.x < 32 && vis < n) {
            const bool outside = prepared[vis].place & MSI_STACK_OUTSIDE;
            ((T *)(a.value + first + vis))[lane % 2] = outside ? T(0) : total + upper[lane];
        }
        __syncthreads();
    }
}

/* A block processes one visibility; thread t has u = t % 8, v = t / 8 % 8, w = t / 64. */
template <typename T> __global__ void __launch_bounds__(CELLS) k_stack_single(const __grid_constant__ stack_args<T> a)
{
    __shared__ T part[CELLS / 32][2];
    const int lane = threadIdx.x % 32, u = threadIdx.x % TAPS, v = threadIdx.x / TAPS % TAPS, w = threadIdx.x / PAIR;
    const visibility k = prepare(a, blockIdx.x);
    const cplx<T> x = read_only(a.grid + k.cell + ((int64_t)w * a.size + v) * a.size + u);
    const T weight =
        weight_u(a, k.place, u) * weight_v(a, k.place, v) * __ldg(a.kernel_w + msi_stack_sub_w(k.place) * PLANES + w);
    const cplx<T> sum = {weight * x.re, weight * x.im};
    const T total = transposed_sum<1, 32>(&sum, lane);
    if (lane % 16 == 0) part[threadIdx.x / 32][lane / 16] = total;
    __syncthreads();
    if (threadIdx.x >= 2) return;
    T all = 0;
#pragma unroll
    for (int i = 0; i < CELLS / 32; i++) all += part[i][threadIdx.x];
    ((T *)(a.value + blockIdx.x))[threadIdx.x] = k.place & MSI_STACK_OUTSIDE ? T(0) : all;
}

__global__ void __launch_bounds__(THREADS)
    k_stack_outside(const msi_stack_uvw *uvw, uint32_t n, int32_t size, uint32_t *n_outside)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n && (msi_stack_locate(&uvw[i], size) & MSI_STACK_OUTSIDE)) atomicAdd(n_outside, 1u);
}

/* Subgrids are divided into blocks of cells; a word has a bit for each block of a row. */
constexpr int BLOCK_CELLS = 16, BLOCK_ROWS = MSI_STACK_MAX_SIZE / BLOCK_CELLS;
static_assert(BLOCK_ROWS <= 32, "a row of blocks is one word");

/* Mark the blocks of cells in which a footprint begins. */
__global__ void __launch_bounds__(THREADS)
    k_stack_occupied(const uint32_t *first_vis, int n_subgrid, const msi_stack_uvw *uvw, int32_t size, uint32_t *row)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= first_vis[n_subgrid]) return;
    const msi_stack_place p = msi_stack_locate(&uvw[i], size);
    const int subgrid = find_subgrid(first_vis, n_subgrid, i);
    atomicOr(&row[(int64_t)subgrid * BLOCK_ROWS + msi_stack_v0(p) / BLOCK_CELLS], 1u << msi_stack_u0(p) / BLOCK_CELLS);
}

unsigned blocks_for(uint32_t n, uint32_t each)
{
    return (unsigned)(((uint64_t)n + each - 1) / each);
}

} // namespace

struct msi_stack {
    msi_gpu_stream gpu;
    msi_stack_form form;
    int32_t group;
    uint32_t n_vis;
    uint32_t *first_vis, *n_outside;
    msi_stack_tiles *tiles;
    msi_stack_stream *stream;
    msi_stack_sorter *sorter;
    msi_stack_sorted sorted;
};

/* Numbers of visibilities per 512 x 512 cells from which a form is fastest. Measured on an H200, in fp64, for random
 * positions in 32 subgrids of 512 x 512 cells. */
static const double TILE_FROM = 147456, STREAM_FROM = 4096, ZREDUCE_FROM = 512;

extern "C" msi_stack_form msi_stack_form_for(double vis_per_subgrid)
{
    return vis_per_subgrid >= TILE_FROM      ? MSI_STACK_TILE
           : vis_per_subgrid >= STREAM_FROM  ? MSI_STACK_STREAM
           : vis_per_subgrid >= ZREDUCE_FROM ? MSI_STACK_ZREDUCE
                                             : MSI_STACK_SINGLE;
}

extern "C" void msi_stack_free(msi_stack *s)
{
    if (!s) return;
    msi_stack_sorter_free(s->sorter);
    msi_stack_tiles_free(s->tiles);
    msi_stack_stream_free(s->stream);
    cudaFree(s->first_vis);
    cudaFree(s->n_outside);
    delete s;
}

/* Compute the number of visibilities per 512 x 512 cells. Only blocks of cells in which a footprint begins are
 * counted. */
static int measure_density(const msi_stack *s, const msi_stack_job *job, double *density)
{
    std::vector<uint32_t> row((size_t)job->n_subgrid * BLOCK_ROWS);
    const size_t bytes = row.size() * sizeof row[0];
    uint32_t *d_row;
    MSI_CUDA(cudaMalloc((void **)&d_row, bytes));
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    cudaError_t e = cudaMemsetAsync(d_row, 0, bytes, stream);
    if (e == cudaSuccess) {
        k_stack_occupied<<<blocks_for(s->n_vis, THREADS), THREADS, 0, stream>>>(s->first_vis, job->n_subgrid, job->uvw,
                                                                                job->size, d_row);
        e = cudaGetLastError();
    }
    if (e == cudaSuccess) e = cudaMemcpyAsync(row.data(), d_row, bytes, cudaMemcpyDeviceToHost, stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(stream);
    cudaFree(d_row);
    if (e != cudaSuccess)
        return msi_error_set(MSI_EGPU, "%s: cells of a stack could not be counted: %s", msi_gpu_current_name(),
                             cudaGetErrorString(e));
    int64_t n_block = 0;
    for (uint32_t x : row) n_block += std::bitset<32>(x).count();
    *density = (double)s->n_vis / (double)n_block * BLOCK_ROWS * BLOCK_ROWS;
    return MSI_OK;
}

static int choose_form(const msi_stack *s, const msi_stack_job *job, msi_stack_form *form)
{
    int32_t n_used = 0;
    double density = 0;
    for (int32_t g = 0; g < job->n_subgrid; g++) n_used += job->first_vis[g + 1] > job->first_vis[g];
    const double scale = (double)MSI_STACK_MAX_SIZE / job->size;
    *form = msi_stack_form_for(scale * scale * s->n_vis / std::max(n_used, 1));
    if (*form != MSI_STACK_STREAM) return MSI_OK;
    if (job->uvw) MSI_TRY(measure_density(s, job, &density));
    if (!msi_stack_stream_serves() || density >= TILE_FROM) *form = MSI_STACK_TILE;
    return MSI_OK;
}

static int fill_stack(msi_stack *s, const msi_stack_job *job)
{
    const std::vector<uint32_t> first_vis(job->first_vis, job->first_vis + job->n_subgrid + 1);
    const size_t bytes = first_vis.size() * sizeof first_vis[0];
    MSI_CUDA(cudaMalloc((void **)&s->n_outside, sizeof *s->n_outside));
    MSI_CUDA(cudaMalloc((void **)&s->first_vis, bytes));
    MSI_CUDA(
        cudaMemcpyAsync(s->first_vis, first_vis.data(), bytes, cudaMemcpyHostToDevice, (cudaStream_t)s->gpu.stream));
    if (s->form == MSI_STACK_AUTO) MSI_TRY(choose_form(s, job, &s->form));
    if (s->form != MSI_STACK_TILE && s->form != MSI_STACK_STREAM) return MSI_OK;
    msi_stack_tile tile;
    int32_t most;
    if (s->form == MSI_STACK_TILE)
        MSI_TRY(msi_stack_tiles_create(&s->tiles, &s->gpu, job, &tile, &most));
    else
        MSI_TRY(msi_stack_stream_create(&s->stream, &s->gpu, job, &tile, &most));
    return msi_stack_sorter_create(&s->sorter, &s->gpu, job, tile, most);
}

extern "C" int msi_stack_create(msi_stack **out, const msi_gpu_stream *gpu, const msi_stack_job *job,
                                msi_stack_form form, int32_t group)
{
    *out = nullptr;
    MSI_TRY(msi_stack_job_check(job));
    MSI_TRY(msi_gpu_stream_enter(gpu));
    if (group < 0 || group > MAX_GROUP)
        return msi_error_set(MSI_ERANGE, "groups of %d visibilities: 1 to %d are possible", group, MAX_GROUP);
    const int64_t n_vis = job->first_vis[job->n_subgrid];
    if (n_vis > INT32_MAX)
        return msi_error_set(MSI_ERANGE, "GPU: %lld visibilities in one job: too many", (long long)n_vis);
    msi_stack *s = new msi_stack{};
    s->gpu = *gpu;
    s->form = form;
    s->group = group > 0 ? group : MAX_GROUP;
    s->n_vis = (uint32_t)n_vis;
    int status = fill_stack(s, job);
    /* Uploads from this call's memory must be complete. */
    if (status == MSI_OK) status = msi_gpu_stream_wait(gpu);
    if (status != MSI_OK) {
        msi_stack_free(s);
        return status;
    }
    *out = s;
    return MSI_OK;
}

extern "C" msi_stack_form msi_stack_form_of(const msi_stack *s)
{
    return s->form;
}

extern "C" int msi_stack_check(msi_stack *s, const msi_stack_job *job)
{
    const gpu_range range("check stacks");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    uint32_t n_outside;
    if (s->n_vis == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    MSI_CUDA(cudaMemsetAsync(s->n_outside, 0, sizeof n_outside, stream));
    k_stack_outside<<<blocks_for(s->n_vis, THREADS), THREADS, 0, stream>>>(job->uvw, s->n_vis, job->size, s->n_outside);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(&n_outside, s->n_outside, sizeof n_outside, cudaMemcpyDeviceToHost, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    if (n_outside > 0)
        return msi_error_set(MSI_ERANGE, "%u visibilities have footprints that leave their subgrids of %d cells",
                             n_outside, job->size);
    return MSI_OK;
}

extern "C" int msi_stack_sort(msi_stack *s, const msi_stack_job *job)
{
    return s->sorter ? msi_stack_sorter_sort(s->sorter, job, &s->sorted) : MSI_OK;
}

template <typename T> static int launch_given(const msi_stack *s, const msi_stack_job *job, cudaStream_t stream)
{
    const stack_args<T> a = {job->size,
                             job->n_subgrid,
                             s->group,
                             s->n_vis,
                             s->first_vis,
                             job->uvw,
                             (const cplx<T> *)job->grid,
                             (const T *)job->kernel_u,
                             (const T *)job->kernel_v,
                             (const T *)job->kernel_w,
                             (cplx<T> *)job->value};
    const uint32_t group = (uint32_t)s->group;
    if (s->form == MSI_STACK_SINGLE)
        k_stack_single<<<s->n_vis, CELLS, 0, stream>>>(a);
    else if (s->form == MSI_STACK_WARP)
        k_stack_warp<<<blocks_for(s->n_vis, WARPS * group), THREADS, 0, stream>>>(a);
    else
        k_stack_zreduce<<<blocks_for(s->n_vis, group), PAIR, 0, stream>>>(a);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

extern "C" int msi_stack_degrid(msi_stack *s, const msi_stack_job *job)
{
    const gpu_range range("degrid stacks");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    if (s->n_vis == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    if (s->form == MSI_STACK_TILE) return msi_stack_tiles_degrid(s->tiles, job, &s->sorted);
    if (s->form == MSI_STACK_STREAM) {
        MSI_TRY(msi_stack_stream_degrid(s->stream, job, &s->sorted));
        /* A second degridding after the same sort must wait for this one. */
        s->sorted.ready = nullptr;
        return MSI_OK;
    }
    return job->precision == MSI_FP32 ? launch_given<float>(s, job, stream) : launch_given<double>(s, job, stream);
}
