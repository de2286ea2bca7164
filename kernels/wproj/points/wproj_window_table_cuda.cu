/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark and tests only. The strategy "window" is in wproj/window/.
 *
 * Moving window: a rectangle of cells, at least as large as the widest kernel, begins at the first cell of the current
 * footprint. The place of a cell is its position modulo the edges of the rectangle, so each place has one cell of the
 * rectangle. A warp processes some rows of places, and a lane one column of these rows. The lane keeps its cells in
 * registers, and reads only those that come into the rectangle when it moves from one sample to the next. A row of
 * kernel values is rotated in the same way, so the lanes of a warp read it together wherever the footprint begins.
 *
 * Source: NVIDIA 2015 ("Degridding optimization for SDP on NVIDIA GPUs"), "Moving window", after Romein 2012. Here a
 * window is divided among warps, not blocks, so that no barrier is needed.
 */
#include "kernels/wproj/points/wproj_points_cuda.h"

#include <algorithm>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/wproj/points/points_device.cuh"

namespace {

using namespace points;

constexpr int THREADS = 128, WARPS = THREADS / 32, COLUMNS = 32, BAND = 8;
constexpr int STRIP_ROWS = 8, STRIP_COLUMNS = 4;
constexpr int MOST_EACH = 128;

/* The rows of a warp's part of the window are limited by the registers. */
template <typename T> constexpr int ROWS = sizeof(T) == 4 ? 32 : 16;

template <typename T> struct window_args {
    int32_t nu, nv, n_image;
    uint32_t n_vis;
    int32_t each;               /* samples per warp */
    int32_t n_part_u, n_part_v; /* warps per window, along u and v */
    const msi_wproj_sample *sample;
    const uint32_t *index; /* order of the samples; NULL: the given order */
    cplx<T> *value;
    const cplx<T> *grid;
    kernel_view<T> kernels;
};

template <typename T> struct alignas(16) window_sample {
    const cplx<T> *weight;
    int32_t u, v; /* first cell */
    int32_t taps;
    uint32_t sign, index;
};

__device__ __forceinline__ int residue(int x, int n)
{
    int r = x % n;
    return r < 0 ? r + n : r;
}

/* A lane's part of the window: some rows of one column of places. */
template <typename T> struct lane_window {
    int image, u, v;    /* u, v: its first place */
    int last_u, last_v; /* first cell of the previous footprint */
    cplx<T> cell[ROWS<T>];
};

/* Return a lane's part of the sum of a sample. Cells that come into the window are read first. */
template <typename T>
__device__ __forceinline__ cplx<T> weigh_window(lane_window<T> &w, const window_args<T> &a, const window_sample<T> &s)
{
    const int window_u = a.n_part_u * COLUMNS, window_v = a.n_part_v * ROWS<T>;
    const int tap_u = residue(w.u - s.u, window_u), tap_v = residue(w.v - s.v, window_v);
    if (s.u != w.last_u || s.v != w.last_v) {
        const bool left = residue(w.u - w.last_u, window_u) + w.last_u != s.u + tap_u;
        const int last_tap = residue(w.v - w.last_v, window_v);
        const int at_u = msi_wproj_points_wrap(s.u + tap_u, a.nu);
#pragma unroll
        for (int r = 0; r < ROWS<T>; r++) {
            int tap = tap_v + r, before = last_tap + r;
            tap -= tap >= window_v ? window_v : 0;
            before -= before >= window_v ? window_v : 0;
            if (left || s.v + tap != w.last_v + before)
                w.cell[r] = read_only(
                    a.grid + ((int64_t)msi_wproj_points_wrap(s.v + tap, a.nv) * a.nu + at_u) * a.n_image + w.image);
        }
    }
    w.last_u = s.u;
    w.last_v = s.v;
    cplx<T> sum = {0, 0};
#pragma unroll
    for (int band = 0; band < ROWS<T>; band += BAND) {
        cplx<T> g[BAND];
#pragma unroll
        for (int r = 0; r < BAND; r++) {
            int tap = tap_v + band + r;
            tap -= tap >= window_v ? window_v : 0;
            g[r] = {0, 0};
            if (tap_u < s.taps && tap < s.taps) g[r] = read_only(s.weight + tap * s.taps + tap_u);
        }
#pragma unroll
        for (int r = 0; r < BAND; r++) {
            g[r].im = flip(g[r].im, s.sign);
            multiply_add(sum, w.cell[band + r], g[r]);
        }
    }
    return sum;
}

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 4 : 4)
    k_window_table(const __grid_constant__ window_args<T> a)
{
    __shared__ window_sample<T> prepared[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_part = a.n_part_u * a.n_part_v;
    const int64_t task = (int64_t)blockIdx.x * WARPS + warp;
    const int part = (int)(task % n_part);
    const int64_t begin = task / n_part * a.each;
    if (begin >= a.n_vis) return;
    const uint32_t end = (uint32_t)min(begin + a.each, (int64_t)a.n_vis);
    const int u = part % a.n_part_u * COLUMNS + lane, v = part / a.n_part_u * ROWS<T>;
    window_sample<T> *found = prepared[warp];
    for (int p = 0; p < a.n_image; p++) {
        lane_window<T> w = {p, u, v, INT32_MIN / 2, INT32_MIN / 2};
#pragma unroll
        for (int r = 0; r < ROWS<T>; r++) w.cell[r] = {0, 0};
        for (uint32_t base = (uint32_t)begin; base < end; base += 32) {
            __syncwarp();
            if (base + (uint32_t)lane < end) {
                uint32_t index = base + (uint32_t)lane;
                if (a.index) index = a.index[index];
                msi_wproj_sample s = a.sample[index];
                square<T> sq = find_square(a.kernels, msi_wproj_points_kernel(&s, a.kernels.oversample));
                found[lane] = {sq.first,
                               msi_wproj_points_wrap(s.u - sq.taps / 2, a.nu),
                               msi_wproj_points_wrap(s.v - sq.taps / 2, a.nv),
                               sq.taps,
                               sq.sign,
                               index};
            }
            __syncwarp();
            const int n = (int)min(end - base, 32u);
#pragma unroll 1
            for (int k = 0; k < n; k++) {
                const window_sample<T> s = found[k];
                cplx<T> sum = weigh_window(w, a, s);
                T total = transposed_sum<1, 32>(&sum, lane);
                if (lane % 16) continue;
                T *out = (T *)(a.value + (int64_t)s.index * a.n_image + p) + lane / 16;
                if (n_part > 1)
                    atomicAdd(out, total);
                else
                    *out = total;
            }
        }
    }
}

template <typename T>
int launch_window(const msi_wproj_job *job, const uint32_t *index, int n_multiprocessor, cudaStream_t stream)
{
    window_args<T> a = {};
    const int taps = job->kernels.max_taps;
    a.nu = (int32_t)job->nu;
    a.nv = (int32_t)job->nv;
    a.n_image = job->n_image;
    a.n_vis = (uint32_t)job->n_vis;
    a.n_part_u = (taps + COLUMNS - 1) / COLUMNS;
    a.n_part_v = (taps + ROWS<T> - 1) / ROWS<T>;
    a.sample = job->sample;
    a.index = index;
    a.value = (cplx<T> *)job->value;
    a.grid = (const cplx<T> *)job->grid;
    a.kernels = {(const cplx<T> *)job->kernels.table, job->kernels.offset_u, job->kernels.taps,
                 job->kernels.oversample};
    const int64_t n_part = (int64_t)a.n_part_u * a.n_part_v;
    a.each = (int32_t)std::clamp<int64_t>(job->n_vis * n_part / ((int64_t)n_multiprocessor * 64), 4, MOST_EACH);
    if (n_part > 1)
        MSI_CUDA(cudaMemsetAsync(a.value, 0, (size_t)(job->n_vis * job->n_image) * sizeof *a.value, stream));
    const int64_t tasks = (job->n_vis + a.each - 1) / a.each * n_part;
    k_window_table<<<(unsigned)((tasks + WARPS - 1) / WARPS), THREADS, 0, stream>>>(a);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace

struct msi_window_table {
    msi_gpu_stream gpu;
    msi_wproj_points_sorter *sorter;
    msi_wproj_points_sorted sorted;
    int n_multiprocessor;
};

extern "C" void msi_window_table_free(msi_window_table *w)
{
    if (!w) return;
    msi_wproj_points_sorter_free(w->sorter);
    delete w;
}

static int fill_window(msi_window_table *w, const msi_wproj_job *job)
{
    MSI_TRY(msi_gpu_stream_enter(&w->gpu));
    MSI_CUDA(cudaDeviceGetAttribute(&w->n_multiprocessor, cudaDevAttrMultiProcessorCount, w->gpu.device));
    MSI_TRY(msi_wproj_points_sorter_create(&w->sorter, &w->gpu, job));
    msi_wproj_points_classes *c = msi_wproj_points_sorter_classes(w->sorter);
    for (int k = 0; k < c->n_class; k++) {
        c->of[k].tile_u = STRIP_COLUMNS;
        c->of[k].tile_v = STRIP_ROWS;
    }
    return msi_wproj_points_sorter_tiles(w->sorter);
}

extern "C" int msi_window_table_create(msi_window_table **out, const msi_gpu_stream *gpu, const msi_wproj_job *job)
{
    *out = nullptr;
    msi_window_table *w = new msi_window_table{};
    w->gpu = *gpu;
    int status = fill_window(w, job);
    if (status != MSI_OK) {
        msi_window_table_free(w);
        return status;
    }
    *out = w;
    return MSI_OK;
}

extern "C" int msi_window_table_sort(msi_window_table *w, const msi_wproj_job *job)
{
    return msi_wproj_points_sort(w->sorter, job, 0, &w->sorted);
}

extern "C" int msi_window_table_degrid(msi_window_table *w, const msi_wproj_job *job, int sorted)
{
    const gpu_range range("degrid by window, with table kernels");
    cudaStream_t stream = (cudaStream_t)w->gpu.stream;
    if (job->n_vis == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&w->gpu));
    const uint32_t *index = sorted ? w->sorted.index : nullptr;
    return job->precision == MSI_FP32 ? launch_window<float>(job, index, w->n_multiprocessor, stream)
                                      : launch_window<double>(job, index, w->n_multiprocessor, stream);
}
