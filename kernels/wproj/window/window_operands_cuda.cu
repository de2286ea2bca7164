/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wproj/window/wproj_window_cuda.h"

#include <algorithm>

#include "core/memory.h"
#include "kernels/gpu/cuda_check.h"
#include "kernels/wproj/window/window_halves.cuh"

namespace {

constexpr int THREADS = 256, FOUR = 4, STEP = 16;

struct table_view {
    const int32_t *taps;
    const int64_t *offset_u, *offset_v;
    const msi_c32 *table;
    int32_t oversample;
};

/* Find the largest part of any weight of plane blockIdx.x's kernels. */
__global__ void __launch_bounds__(THREADS) k_largest_weight(table_view t, int32_t max_taps, float *largest)
{
    const int plane = blockIdx.x;
    const int64_t n = (int64_t)(t.oversample + 1) * t.taps[plane];
    if (t.taps[plane] > max_taps) return;
    float most = 0;
    for (const msi_c32 *row : {t.table + t.offset_u[plane], t.table + t.offset_v[plane]})
        for (int64_t i = threadIdx.x; i < n; i += THREADS)
            most = fmaxf(most, fmaxf(fabsf(row[i].re), fabsf(row[i].im)));
    uint32_t warps = __reduce_max_sync(0xffffffffu, __float_as_uint(most));
    if (threadIdx.x % 32 == 0) atomicMax((uint32_t *)largest, warps);
}

/* Read tap t of a row; 0 beyond its ends. */
__device__ msi_c32 tap_of(const msi_c32 *row, int32_t taps, int32_t t)
{
    return t >= 0 && t < taps ? row[t] : msi_c32{0, 0};
}

/* Write the row of plane blockIdx.x and sub-offset blockIdx.y. */
__global__ void __launch_bounds__(THREADS)
    k_lay_row(const __grid_constant__ table_view t, const __grid_constant__ msi_window_operands o)
{
    const int plane = blockIdx.x, sub = blockIdx.y, taps = t.taps[plane];
    if (taps > o.taps) return;
    const int64_t row = (int64_t)plane * (t.oversample + 1) + sub;
    const msi_c32 *u = t.table + t.offset_u[plane] + sub * taps, *v = t.table + t.offset_v[plane] + sub * taps;
    const int before = o.half - taps / 2, blocks = o.window / FOUR;
    const float up = scale_to(*o.largest, WEIGHT_TOP).up;
    uint4 *to_u = (uint4 *)o.u + row * FOUR * 2 * blocks * 2;
    for (int i = threadIdx.x; i < FOUR * 2 * blocks; i += THREADS) {
        const int shift = i / (2 * blocks), first = i % blocks * FOUR - shift - before;
        float re[FOUR], im[FOUR];
        for (int e = 0; e < FOUR; e++) {
            const msi_c32 w = tap_of(u, taps, first + e);
            re[e] = w.re * up;
            im[e] = w.im * up;
        }
        if (o.lookup == MSI_WPROJ_NEAREST) {
            to_u[2 * i] = split(re[0], re[1], re[2], re[3]);
            to_u[2 * i + 1] = split(im[0], im[1], im[2], im[3]);
        } else {
            ((float4 *)to_u)[2 * i] = {re[0], re[1], re[2], re[3]};
            ((float4 *)to_u)[2 * i + 1] = {im[0], im[1], im[2], im[3]};
        }
    }
    msi_c32 *to_v = (msi_c32 *)o.v + row * 2 * o.window;
    for (int i = threadIdx.x; i < 2 * o.window; i += THREADS) to_v[i] = tap_of(v, taps, i % o.window - before);
}

/* Return the size of the window for a number of taps: a multiple of STEP, and of 2 STEP beyond four steps, because
 * warps then process two steps. */
int32_t window_for(int32_t taps)
{
    int32_t steps = (taps + FOUR - 1 + STEP - 1) / STEP;
    if (steps > 4 && steps % 2) steps++;
    return STEP * steps;
}

int64_t n_row_of(int32_t n_plane, int32_t oversample)
{
    return (int64_t)n_plane * (oversample + 1) + 1;
}

int64_t u_row_bytes(int32_t window)
{
    return FOUR * 2 * (window / FOUR) * 2 * (int64_t)sizeof(uint4);
}

int64_t v_row_bytes(int32_t window)
{
    return 2 * window * (int64_t)sizeof(msi_c32);
}

int fill(msi_window_operands *o, const msi_wproj_kernels *k, size_t u_bytes, size_t v_bytes, cudaStream_t stream)
{
    const table_view t = {k->taps, k->offset_u, k->offset_v, (const msi_c32 *)k->table, k->oversample};
    MSI_CUDA(cudaMemsetAsync(o->largest, 0, sizeof *o->largest, stream));
    MSI_CUDA(cudaMemsetAsync(o->u, 0, u_bytes, stream));
    MSI_CUDA(cudaMemsetAsync(o->v, 0, v_bytes, stream));
    k_largest_weight<<<(unsigned)k->n_plane, THREADS, 0, stream>>>(t, o->taps, o->largest);
    k_lay_row<<<dim3((unsigned)k->n_plane, (unsigned)k->oversample + 1), THREADS, 0, stream>>>(t, *o);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace

extern "C" int64_t msi_window_operands_bytes(int32_t n_plane, int32_t oversample, int32_t max_taps)
{
    const int32_t window = window_for(max_taps);
    const int64_t bytes = n_row_of(n_plane, oversample) * (u_row_bytes(window) + v_row_bytes(window));
    return bytes > (int64_t)MSI_WINDOW_OPERAND_MIB << 20 ? 0 : bytes;
}

extern "C" int msi_window_operands_create(msi_window_operands **out, const msi_wproj_job *job, void *stream)
{
    const msi_wproj_kernels *k = &job->kernels;
    *out = nullptr;
    if (k->full || job->precision != MSI_FP32 || k->lookup == MSI_WPROJ_TEXTURE) return MSI_OK;
    const int32_t window = window_for(k->max_taps);
    const int64_t n_row = n_row_of(k->n_plane, k->oversample);
    const int64_t u_bytes = n_row * u_row_bytes(window), v_bytes = n_row * v_row_bytes(window);
    size_t free_bytes, total_bytes;
    MSI_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    const int64_t most = std::min((int64_t)MSI_WINDOW_OPERAND_MIB << 20, (int64_t)(total_bytes / 256));
    if (u_bytes + v_bytes > most) return MSI_OK;
    msi_window_operands *o;
    MSI_TRY(msi_alloc(&o, 1, sizeof *o, "kernels of the window strategy"));
    *o = {};
    o->taps = k->max_taps;
    o->half = k->max_taps / 2;
    o->window = window;
    o->lookup = k->lookup;
    /* Degridding also works without operands. */
    if (cudaMalloc((void **)&o->largest, sizeof *o->largest) != cudaSuccess ||
        cudaMalloc(&o->u, (size_t)u_bytes) != cudaSuccess || cudaMalloc(&o->v, (size_t)v_bytes) != cudaSuccess) {
        cudaGetLastError();
        msi_window_operands_free(o);
        return MSI_OK;
    }
    int rc = fill(o, k, (size_t)u_bytes, (size_t)v_bytes, (cudaStream_t)stream);
    if (rc)
        msi_window_operands_free(o);
    else
        *out = o;
    return rc;
}

extern "C" void msi_window_operands_free(msi_window_operands *o)
{
    if (!o) return;
    for (void *p : {(void *)o->largest, o->u, o->v}) cudaFree(p);
    msi_free(o);
}
