/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark and tests only (msi_gather_degrid_phase): no strategy evaluates its kernels.
 *
 * Gathering with a convolution function that is evaluated at each use. A table costs only bandwidth, and an evaluation
 * only arithmetic. Groups of visibilities with the same kernel share the cost in both cases.
 *
 * Source: NVIDIA 2015, "Direct compute of GCF".
 */
#include "kernels/gpu/gpu_range.h"
#include "kernels/wproj/points/wproj_gather_cuda.cuh"

namespace {

using namespace points;

__device__ __forceinline__ void sin_cos_pi(float x, float *s, float *c)
{
    sincospif(x, s, c);
}

__device__ __forceinline__ void sin_cos_pi(double x, double *s, double *c)
{
    sincospi(x, s, c);
}

/* Evaluate weights from the positions of taps. E is the precision of the evaluation. */
template <typename T, typename E> struct phase_source {
    struct shared {
        E turns;
        int32_t n_polynomial;
    };
    E x, y, step; /* position of the first tap, in half-widths; step from tap to tap */
    E turns, sign;
    int n_polynomial;

    __device__ __forceinline__ phase_source(const shared &p, const square<T> &s, int oversample, int u, int v,
                                            uint32_t kernel)
    {
        int squares = oversample + 1, sub = (int)((kernel & ~CONJUGATE) % (uint32_t)(squares * squares));
        E fraction = 1 / (E)oversample;
        step = 2 / (E)s.taps;
        x = ((E)(u - s.taps / 2) - (E)(sub / squares - oversample / 2) * fraction) * step;
        y = ((E)(v - s.taps / 2) - (E)(sub % squares - oversample / 2) * fraction) * step;
        turns = p.turns;
        n_polynomial = p.n_polynomial;
        sign = s.sign ? (E)-1 : (E)1;
    }
    /* The iteration's index into the table is split into two coordinates here. */
    __device__ __forceinline__ static int row_stride(int)
    {
        return 1 << 16;
    }
    __device__ __forceinline__ cplx<T> get(int at) const
    {
        E du = x + (E)(at & 0xffff) * step, dv = y + (E)(at >> 16) * step;
        E p = turns * (1 - sqrt(du * du + dv * dv));
        for (int i = 0; i < n_polynomial; i++) p += p * p * (E)(1.0 / MSI_GATHER_PHASE_SCALE);
        E s, c;
        sin_cos_pi(2 * p, &s, &c);
        return {(T)c, (T)(sign * s)};
    }
    __device__ __forceinline__ cplx<T> use(cplx<T> g) const
    {
        return g;
    }
};

template <typename T, typename E, int MOST>
int launch_phase(const msi_gather *g, const msi_wproj_job *job, const msi_gather_phase *phase)
{
    using S = phase_source<T, E>;
    tile_args<T> a;
    tile_boxes boxes;
    fill_tile_args(&a, g, job);
    describe_tiles<T>(&boxes, g, job);
    typename S::shared shared = {(E)phase->turns, phase->n_polynomial};
    return launch_tiles<MOST, S>(a, shared, &boxes, g->n_block, (cudaStream_t)g->gpu.stream);
}

} // namespace

extern "C" int msi_gather_degrid_phase(msi_gather *g, const msi_wproj_job *job, const msi_gather_phase *phase)
{
    const gpu_range range("gather, evaluated");
    if (g->form != MSI_GATHER_TILE)
        return msi_error_set(MSI_ERANGE, "an evaluated convolution function needs the gather by tiles");
    if (job->n_vis == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&g->gpu));
    if (job->precision == MSI_FP32) return launch_phase<float, float, 6>(g, job, phase);
    return phase->precision == MSI_FP32 ? launch_phase<double, float, 4>(g, job, phase)
                                        : launch_phase<double, double, 4>(g, job, phase);
}
