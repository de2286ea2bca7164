/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Declarations shared by the files of the GPU's engine. */
#ifndef MSI_CLEAN_ENGINE_CUDA_H
#define MSI_CLEAN_ENGINE_CUDA_H

#include "kernels/clean/clean_engine.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_device.h"

struct msi_clean_engine {
    msi_clean_setup s;
    int n_plane, n_multiprocessor;
    int64_t n_pixel;
    msi_gpu_stream on;
    void *share, *fit; /* in the planes' precision; fit NULL without */
    msi_clean_log_table *log;
    /* The list: */
    uint32_t *list;
    int64_t n_list;
    void *residual, *component, *factor; /* [n_plane][list_limit], and [list_limit] */
    bool has_factor;
    int cell; /* whose components are transformed; -1: all */
    /* Components recorded by a loop, on the device and on the host. */
    uint32_t *place, *place_host;
    void *value, *value_host;
    void *state; /* a loop's end, and partial results of passes */
    /* Exact loops' messages, and the number of loops that sent some. */
    uint64_t *mail;
    uint32_t generation;
    int64_t *count; /* numbers of pixels selected by the blocks of a pass, then the positions at which they begin */
};

constexpr int64_t CLEAN_STATE_BYTES = 1 << 20;

static inline cudaStream_t clean_stream(const msi_clean_engine *e)
{
    return static_cast<cudaStream_t>(e->on.stream);
}

static inline int64_t clean_real_bytes(const msi_clean_engine *e)
{
    return e->s.precision == MSI_FP32 ? 4 : 8;
}

/* The result of a loop. */
struct clean_loop_end {
    int64_t n_iteration;
    double key, value;
    uint32_t place;
    int end;
};

/* Copy the results of a loop to the host. Returns: 0, MSI_EGPU */
int msi_clean_fetch_loop_cuda(msi_clean_engine *e, msi_clean_looped *done);

int msi_clean_list_loop_cuda(msi_clean_engine *e, const msi_clean_loop *loop, msi_clean_looped *done);
int msi_clean_exact_loop_cuda(msi_clean_engine *e, const msi_clean_loop *loop, msi_clean_looped *done);
int msi_clean_fft_create_cuda(msi_clean_engine *e, int64_t nx, int64_t ny, msi_clean_fft **out, int64_t *n_complex);
void msi_clean_fft_free_cuda(msi_clean_engine *e, msi_clean_fft *f);
int64_t msi_clean_fft_bytes_cuda(const msi_clean_setup *s, int64_t nx, int64_t ny);
int msi_clean_forward_cuda(msi_clean_engine *e, msi_clean_fft *f, const void *image, int plane, msi_clean_origin origin,
                           void *spectrum);
int msi_clean_gaussian_cuda(msi_clean_engine *e, msi_clean_fft *f, const msi_clean_gaussian *g, void *spectrum);
int msi_clean_product_cuda(msi_clean_engine *e, msi_clean_fft *f, const void *a, const void *b, int twice, void *out);
int msi_clean_spread_cuda(msi_clean_engine *e, msi_clean_fft *f, void *components, const void *kernel, const void *psf,
                          void *model);
int msi_clean_inverse_cuda(msi_clean_engine *e, msi_clean_fft *f, void *spectrum, msi_clean_origin origin,
                           msi_clean_put put, void *image);
int msi_clean_subtract_list_cuda(msi_clean_engine *e, msi_clean_fft *f, int plane, const msi_clean_scale_spectra *scale,
                                 const void *psf, void *work, void *image);
int msi_clean_deviation_cuda(msi_clean_engine *e, const void *image, double *median, double *deviation, int64_t *n);
int msi_clean_square_cuda(msi_clean_engine *e, const void *in, void *out, void *count);
int msi_clean_box_cuda(msi_clean_engine *e, int64_t width, int least, void *image, void *work);
int msi_clean_weigh_cuda(msi_clean_engine *e, const void *weight, int64_t half, void *image, void *work);
int msi_clean_factor_cuda(msi_clean_engine *e, const void *residual, const void *count, const void *least_value,
                          double strength, void *square, double *least);

namespace {

/* The formulas of clean_pixel.h by type. */
__device__ __forceinline__ float key_of(float q, int no_negative)
{
    return msi_clean_key_f32(q, no_negative);
}
__device__ __forceinline__ double key_of(double q, int no_negative)
{
    return msi_clean_key_f64(q, no_negative);
}
__device__ __forceinline__ float quantity_of(const msi_clean_join *j, const float *share, const float *r,
                                             int64_t stride)
{
    return msi_clean_quantity_f32(j, share, r, stride);
}
__device__ __forceinline__ double quantity_of(const msi_clean_join *j, const double *share, const double *r,
                                              int64_t stride)
{
    return msi_clean_quantity_f64(j, share, r, stride);
}
__device__ __forceinline__ int bin_of(float key, float threshold, float per)
{
    return msi_clean_bin_f32(key, threshold, per);
}
__device__ __forceinline__ int bin_of(double key, double threshold, double per)
{
    return msi_clean_bin_f64(key, threshold, per);
}

constexpr unsigned ALL = 0xffffffffu;

/* Return whether this lane has the largest key of its warp; of equal keys, the one at the least place. Keys are >= 0,
 * so that their bits sort as the keys do. */
__device__ __forceinline__ bool is_best_of_warp(float key, uint32_t place)
{
    const unsigned bits = __float_as_uint(key), most = __reduce_max_sync(ALL, bits);
    const unsigned candidate = bits == most ? place : MSI_CLEAN_NOWHERE;
    const unsigned least = __reduce_min_sync(ALL, candidate);
    const unsigned best = __ballot_sync(ALL, bits == most && place == least);
    return __ffs(best) - 1 == (int)(threadIdx.x & 31);
}
__device__ __forceinline__ bool is_best_of_warp(double key, uint32_t place)
{
    const unsigned long long bits = (unsigned long long)__double_as_longlong(key);
    const unsigned high = (unsigned)(bits >> 32), most_high = __reduce_max_sync(ALL, high);
    const unsigned low = high == most_high ? (unsigned)bits : 0, most_low = __reduce_max_sync(ALL, low);
    const bool most = high == most_high && low == most_low;
    const unsigned least = __reduce_min_sync(ALL, most ? place : MSI_CLEAN_NOWHERE);
    const unsigned best = __ballot_sync(ALL, most && place == least);
    return __ffs(best) - 1 == (int)(threadIdx.x & 31);
}

/* Return why a loop ends at a peak, -1 if it goes on. */
template <typename T> __device__ __forceinline__ int end_at(T key, T value, T threshold, T diverged, int stop_negative)
{
    if (key <= threshold) return MSI_CLEAN_END_BELOW;
    if (key > diverged) return MSI_CLEAN_END_DIVERGED;
    return stop_negative && value < 0 ? MSI_CLEAN_END_NEGATIVE : -1;
}

/* Return the number of blocks for n elements. */
inline unsigned clean_blocks(int64_t n, int block)
{
    return (unsigned)((n + block - 1) / block);
}

} // namespace

#endif
