/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Scatter: a warp keeps one patch of the image in registers, one column per lane, so the image is read once. Samples
 * are sorted into bins of cells. The warp tests the samples of all bins whose footprints can reach its patch, 32 at a
 * time, one per lane. For each sample that reaches the patch, lanes read the kernel values of their cells. The partial
 * sums of four samples are reduced together and added to the visibilities.
 *
 * Source: NVIDIA 2015 ("Degridding optimization for SDP on NVIDIA GPUs"), "Scatter", which has points in registers,
 * sorted visibilities with bookmarks, and reduction in the warp. Here warps never wait for each other, and each sum is
 * added as soon as it is complete.
 */
#include "kernels/wproj/points/wproj_points_cuda.h"

#include <algorithm>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/wproj/points/points_device.cuh"

namespace {

using namespace points;

constexpr int THREADS = 128, WARPS = THREADS / 32;
constexpr int BIN = 16, COLUMNS = 32, TOGETHER = 4, BAND = 8;

/* The rows of a patch are limited by the registers. */
template <typename T> constexpr int ROWS = sizeof(T) == 4 ? 16 : 8;

template <typename T> struct scatter_args {
    msi_wproj_points_classes classes;
    int32_t n_patch_u, n_patch_v, n_image;
    const msi_wproj_sample *sample;
    const uint32_t *index, *first; /* sorted samples; first sample of each bin */
    cplx<T> *value;
    const cplx<T> *grid;
    kernel_view<T> kernels;
};

/* A candidate is a sample whose footprint reaches the patch. */
template <typename T> struct alignas(16) candidate {
    const cplx<T> *weight;
    int32_t u, v; /* its first cell */
    int32_t taps;
    uint32_t sign;
    uint32_t index;
};

/* Return the tap that falls on x of a footprint that begins at `first`, on the periodic plane. */
__device__ __forceinline__ int tap_of(int x, int first, int n)
{
    int tap = x - first;
    return tap < 0 ? tap + n : tap;
}

/* Return whether the footprint first .. first + taps - 1 and the patch x .. x + size - 1 overlap. */
__device__ __forceinline__ bool reaches(int x, int size, int first, int taps, int n)
{
    int tap = tap_of(x, first, n);
    return tap < taps || tap + size > n;
}

/* Sum a lane's column of the patch for a sample. */
template <typename T>
__device__ __forceinline__ cplx<T> weigh_patch(const cplx<T> *cell, const candidate<T> &c, int u, int v, int nu, int nv)
{
    cplx<T> sum = {0, 0};
    const int tap_u = tap_of(u, c.u, nu);
    const bool column = tap_u < c.taps;
#pragma unroll
    for (int band = 0; band < ROWS<T>; band += BAND) {
        if (!reaches(v + band, BAND, c.v, c.taps, nv)) continue;
        cplx<T> g[BAND];
#pragma unroll
        for (int r = 0; r < BAND; r++) {
            int tap_v = tap_of(v + band + r, c.v, nv);
            g[r] = {0, 0};
            if (column && tap_v < c.taps) g[r] = read_only(c.weight + tap_v * c.taps + tap_u);
        }
#pragma unroll
        for (int r = 0; r < BAND; r++) {
            g[r].im = flip(g[r].im, c.sign);
            multiply_add(sum, cell[band + r], g[r]);
        }
    }
    return sum;
}

/* The patch of a warp. Each lane has one column in registers. A lane tests one candidate; all lanes read it. */
template <typename T> struct warp_patch {
    candidate<T> *found;   /* [32], shared by the warp */
    int image, u, v, lane; /* u, v: its first cell */
    cplx<T> cell[ROWS<T>];
};

/* Add the patch's contributions to samples begin .. end - 1 of the order. */
template <typename T>
__device__ __forceinline__ void scatter_range(const scatter_args<T> &a, const warp_patch<T> &w, uint32_t begin,
                                              uint32_t end)
{
    const int lane = w.lane;
    for (uint32_t base = begin; base < end; base += 32) {
        candidate<T> c = {};
        bool reached = false;
        if (base + (uint32_t)lane < end) {
            c.index = a.index[base + (uint32_t)lane];
            msi_wproj_sample s = a.sample[c.index];
            square<T> sq = find_square(a.kernels, msi_wproj_points_kernel(&s, a.kernels.oversample));
            c.weight = sq.first;
            c.taps = sq.taps;
            c.sign = sq.sign;
            c.u = msi_wproj_points_wrap(s.u - c.taps / 2, a.classes.nu);
            c.v = msi_wproj_points_wrap(s.v - c.taps / 2, a.classes.nv);
            reached =
                reaches(w.u, COLUMNS, c.u, c.taps, a.classes.nu) && reaches(w.v, ROWS<T>, c.v, c.taps, a.classes.nv);
        }
        const uint32_t votes = __ballot_sync(ALL_LANES, reached);
        const int n = __popc(votes);
        __syncwarp();
        if (reached) w.found[__popc(votes & ((1u << lane) - 1))] = c;
        __syncwarp();
        for (int k = 0; k < n; k += TOGETHER) {
            cplx<T> sum[TOGETHER];
#pragma unroll
            for (int m = 0; m < TOGETHER; m++) {
                sum[m] = {0, 0};
                if (k + m < n)
                    sum[m] = weigh_patch(w.cell, w.found[k + m], w.u + lane, w.v, a.classes.nu, a.classes.nv);
            }
            const T total = transposed_sum<TOGETHER, 32>(sum, lane);
            constexpr int EACH = 32 / (2 * TOGETHER);
            const int part = lane / EACH;
            if (lane % EACH == 0 && k + part / 2 < n)
                atomicAdd((T *)(a.value + (int64_t)w.found[k + part / 2].index * a.n_image + w.image) + part % 2,
                          total);
        }
    }
}

template <typename T> __global__ void __launch_bounds__(THREADS, 4) k_scatter(const __grid_constant__ scatter_args<T> a)
{
    __shared__ candidate<T> found[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, nu = a.classes.nu, nv = a.classes.nv;
    const int64_t patch = (int64_t)blockIdx.x * WARPS + warp;
    if (patch >= (int64_t)a.n_patch_u * a.n_patch_v) return;
    const int u = (int)(patch % a.n_patch_u) * COLUMNS, v = (int)(patch / a.n_patch_u) * ROWS<T>;
    for (int p = 0; p < a.n_image; p++) {
        warp_patch<T> w = {found[warp], p, u, v, lane};
#pragma unroll
        for (int r = 0; r < ROWS<T>; r++) {
            w.cell[r] = {0, 0};
            if (u + lane < nu && v + r < nv)
                w.cell[r] = read_only(a.grid + ((int64_t)(v + r) * nu + u + lane) * a.n_image + p);
        }
        for (int k = 0; k < a.classes.n_class; k++) {
            const msi_wproj_points_class &c = a.classes.of[k];
            /* The bins with first cells from taps - 1 cells before the patch to its last cell, on the periodic
             * plane. */
            const int low_u = u - c.taps + 1, low_v = v - c.taps + 1;
            const int span_u = min(c.taps + COLUMNS - 1, nu), span_v = min(c.taps + ROWS<T> - 1, nv);
            const int first_u = msi_wproj_points_wrap(low_u, nu) / BIN,
                      first_v = msi_wproj_points_wrap(low_v, nv) / BIN;
            /* One more bin if the span begins inside a bin, and one if the plane's last bin is shorter. */
            const int bins_u = min((span_u - 1) / BIN + 3, c.n_tile_u),
                      bins_v = min((span_v - 1) / BIN + 3, c.n_tile_v);
            for (int j = 0; j < bins_v; j++) {
                const int row = c.first_tile + (first_v + j) % c.n_tile_v * c.n_tile_u;
                const int before_edge = min(bins_u, c.n_tile_u - first_u);
                scatter_range(a, w, a.first[row + first_u], a.first[row + first_u + before_edge]);
                if (bins_u > before_edge) scatter_range(a, w, a.first[row], a.first[row + bins_u - before_edge]);
            }
        }
    }
}

template <typename T>
int launch_scatter(const msi_wproj_job *job, const msi_wproj_points_classes *classes,
                   const msi_wproj_points_sorted *sorted, cudaStream_t stream)
{
    scatter_args<T> a;
    a.classes = *classes;
    a.n_patch_u = (classes->nu + COLUMNS - 1) / COLUMNS;
    a.n_patch_v = (classes->nv + ROWS<T> - 1) / ROWS<T>;
    a.n_image = job->n_image;
    a.sample = job->sample;
    a.index = sorted->index;
    a.first = sorted->first;
    a.value = (cplx<T> *)job->value;
    a.grid = (const cplx<T> *)job->grid;
    a.kernels = {(const cplx<T> *)job->kernels.table, job->kernels.offset_u, job->kernels.taps,
                 job->kernels.oversample};
    MSI_CUDA(cudaMemsetAsync(a.value, 0, (size_t)(job->n_vis * job->n_image) * sizeof *a.value, stream));
    int64_t patches = (int64_t)a.n_patch_u * a.n_patch_v;
    k_scatter<<<(unsigned)((patches + WARPS - 1) / WARPS), THREADS, 0, stream>>>(a);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace

struct msi_scatter {
    msi_gpu_stream gpu;
    msi_wproj_points_sorter *sorter;
    msi_wproj_points_sorted sorted;
};

extern "C" void msi_scatter_free(msi_scatter *s)
{
    if (!s) return;
    msi_wproj_points_sorter_free(s->sorter);
    delete s;
}

static int fill_scatter(msi_scatter *s, const msi_wproj_job *job)
{
    MSI_TRY(msi_wproj_points_sorter_create(&s->sorter, &s->gpu, job));
    msi_wproj_points_classes *c = msi_wproj_points_sorter_classes(s->sorter);
    for (int k = 0; k < c->n_class; k++) c->of[k].tile_u = c->of[k].tile_v = BIN;
    return msi_wproj_points_sorter_tiles(s->sorter);
}

extern "C" int msi_scatter_create(msi_scatter **out, const msi_gpu_stream *gpu, const msi_wproj_job *job)
{
    *out = nullptr;
    msi_scatter *s = new msi_scatter{};
    s->gpu = *gpu;
    int status = fill_scatter(s, job);
    if (status != MSI_OK) {
        msi_scatter_free(s);
        return status;
    }
    *out = s;
    return MSI_OK;
}

extern "C" int msi_scatter_sort(msi_scatter *s, const msi_wproj_job *job)
{
    return msi_wproj_points_sort(s->sorter, job, 0, &s->sorted);
}

extern "C" int msi_scatter_degrid(msi_scatter *s, const msi_wproj_job *job)
{
    const gpu_range range("scatter");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    if (job->n_vis == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    const msi_wproj_points_classes *classes = msi_wproj_points_sorter_classes(s->sorter);
    return job->precision == MSI_FP32 ? launch_scatter<float>(job, classes, &s->sorted, stream)
                                      : launch_scatter<double>(job, classes, &s->sorted, stream);
}
