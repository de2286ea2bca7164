/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Arguments and components of minor iterations on the GPU, shared by loops on whole images and on a list of pixels. */
#ifndef MSI_CLEAN_LOOP_CUDA_CUH
#define MSI_CLEAN_LOOP_CUDA_CUH

#include <type_traits>

#include "kernels/clean/clean_engine_cuda.h"
#include "kernels/clean/clean_log_fit.h"

namespace {

/* The arguments of a loop, and pointers to its results. */
template <typename T> struct loop_job {
    msi_clean_join j;
    const T *share, *fit, *rows; /* rows [j.n_row][n_channel]; NULL: share is the row */
    const msi_clean_log_table *log;
    const T *psf; /* PSF of all cells */
    msi_clean_cells cells;
    int nx, ny;
    T gain, threshold, diverged;
    int stop_negative, n_iteration;
    uint32_t *place;
    T *value;
    clean_loop_end *end;
};

template <typename T> loop_job<T> loop_job_of(const msi_clean_engine *e, const msi_clean_loop *loop)
{
    loop_job<T> job = {};
    job.j = e->s.join;
    if (loop->rows) job.j.n_row = loop->n_row;
    job.rows = (const T *)loop->rows;
    job.share = (const T *)e->share;
    job.fit = (const T *)(loop->fit ? loop->fit : e->fit);
    job.log = e->log;
    job.psf = (const T *)loop->psf;
    job.cells = e->s.cells;
    job.nx = (int)e->s.nx;
    job.ny = (int)e->s.ny;
    job.gain = (T)loop->gain;
    job.threshold = (T)loop->threshold;
    job.diverged = (T)loop->diverged;
    job.stop_negative = loop->stop_negative;
    job.n_iteration = (int)loop->n_iteration;
    job.place = e->place;
    job.value = (T *)e->value;
    job.end = static_cast<clean_loop_end *>(e->state);
    return job;
}

/* Return the PSF for a component at a place. */
template <typename T> __device__ __forceinline__ const T *psf_at(const loop_job<T> &job, uint32_t place)
{
    if (job.cells.n_x * job.cells.n_y < 2) return job.psf;
    return job.psf + msi_clean_cell_of(&job.cells, place) * ((int64_t)job.j.n_channel * job.nx * job.ny);
}

/* Call f with a number of the planes' precision, and a flag: one plane, whose pixel is the quantity itself. */
template <class F> int at_form(const msi_clean_engine *e, bool has_factor, const F &f)
{
    const bool one = e->n_plane == 1 && !e->fit && !has_factor && msi_clean_signed(&e->s.join);
    if (e->s.precision == MSI_FP32) return one ? f(0.0f, std::true_type()) : f(0.0f, std::false_type());
    return one ? f(0.0, std::true_type()) : f(0.0, std::false_type());
}

/* Residuals r of a pixel, `stride` apart, [n_channel][n_pol]. */
template <typename T> struct pixel_residuals {
    const T *r;
    int64_t stride;
};

/* Make the component of plane k. */
template <typename T>
__device__ __forceinline__ T component_of(const loop_job<T> &job, const T *share, pixel_residuals<T> at, int k)
{
    const int c = k / job.j.n_pol, p = k % job.j.n_pol;
    if constexpr (sizeof(T) == 4)
        return msi_clean_value_f32(&job.j, share, job.fit, job.gain, at.r, at.stride, c, p);
    else
        return msi_clean_value_f64(&job.j, share, job.fit, job.gain, at.r, at.stride, c, p);
}

/* Make polarisation p's component of a log-polynomial. Returns false if there is none. */
template <typename T>
__device__ __noinline__ bool log_component(const loop_job<T> &job, pixel_residuals<T> at, int p, T *out)
{
    double y[MSI_CLEAN_LOG_CHANNELS];
    for (int c = 0; c < job.j.n_channel; c++) y[c] = (double)at.r[(c * job.j.n_pol + p) * at.stride];
    if (!msi_clean_log_fit(job.log, y)) return false;
    for (int c = 0; c < job.j.n_channel; c++) out[c * job.j.n_pol + p] = (T)((double)job.gain * y[c]);
    return true;
}

/* Make a pixel's component in all planes, out [n_plane], by warp 0. share [n_channel] may be a copy of the job's. */
template <typename T>
__device__ __forceinline__ void make_component(const loop_job<T> &job, const T *share, pixel_residuals<T> at, T *out)
{
    const int lane = threadIdx.x, n_plane = job.j.n_channel * job.j.n_pol;
    bool done = false;
    if (job.log && lane < job.j.n_pol) done = log_component(job, at, lane, out);
    const unsigned fitted = __ballot_sync(ALL, done);
    for (int k = lane; k < n_plane; k += 32)
        if (!(fitted >> k % job.j.n_pol & 1)) out[k] = component_of(job, share, at, k);
}

} // namespace

#endif
