/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Planes that become others on the GPU: a thread takes a pixel, neighbours take neighbours. */
#include "kernels/clean/clean_engine_cuda.h"
#include "kernels/clean/clean_log_fit.h"

namespace {

constexpr int BLOCK = 128;

__device__ __forceinline__ float fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}
__device__ __forceinline__ double fused(double a, double b, double c)
{
    return fma(a, b, c);
}

/* Compute the map of a pixel, whose values begin at `in` and `out`. */
template <typename T>
__device__ __noinline__ bool log_map(const msi_clean_map &m, const msi_clean_log_table *table, const T *in, T *out)
{
    double y[MSI_CLEAN_CHANNELS];
    msi_clean_log_state fit;
    for (int k = 0; k < m.n_in; k++) y[k] = (double)in[k * m.in_stride];
    const int sign = msi_clean_log_find(table, y, &fit);
    if (!sign) return false;
    for (int k = 0; k < m.n_out; k++)
        out[k * m.out_stride] = (T)(sign * msi_clean_log_at(fit.b, table->n_term, m.log_x[k]));
    return true;
}

template <typename T> __global__ void k_map(msi_clean_map m, const msi_clean_log_table *table, int64_t n_pixel)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_pixel) return;
    const T *in = (const T *)m.in + i, *matrix = (const T *)m.matrix;
    T *out = (T *)m.out + i;
    if (m.log_x && log_map(m, table, in, out)) return;
    for (int o = 0; o < m.n_out; o++) {
        T sum = 0;
        for (int k = 0; k < m.n_in; k++) {
            const T factor = matrix[o * m.n_in + k];
            if (factor != 0) sum = fused(factor, in[k * m.in_stride], sum);
        }
        out[o * m.out_stride] = sum;
    }
}

} // namespace

int msi_clean_map_cuda(msi_clean_engine *e, const msi_clean_map *m)
{
    const unsigned n_block = clean_blocks(e->n_pixel, BLOCK);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32)
        k_map<float><<<n_block, BLOCK, 0, clean_stream(e)>>>(*m, e->log, e->n_pixel);
    else
        k_map<double><<<n_block, BLOCK, 0, clean_stream(e)>>>(*m, e->log, e->n_pixel);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}
