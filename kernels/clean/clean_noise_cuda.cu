/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Noise on the GPU. Medians are exact: values are mapped to integers of the same order, and histograms of ten bits at a
 * time, from the highest, narrow down the value of a rank. Sums over windows are running totals along lines, a thread
 * for each line, added in the same order as on the CPU.
 */
#include <math.h>
#include <string.h>

#include "kernels/clean/clean_engine_cuda.h"

namespace {

constexpr int BLOCK = 256, DIGIT = 10, DIGITS = 1 << DIGIT;

/* Return an integer that sorts as the value does: all bits of negative values are inverted, and the sign bit of
 * others. */
__device__ __forceinline__ uint64_t ordered(double v)
{
    const uint64_t bits = (uint64_t)__double_as_longlong(v);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

double value_of_ordered(uint64_t u)
{
    const uint64_t bits = u >> 63 ? u & ~((uint64_t)1 << 63) : ~u;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* The values to search: those of an image, or their distances from `middle`, whose bits above `shift` + DIGIT are
 * `prefix`. */
struct digit_search {
    double middle;
    int distances, shift;
    uint64_t prefix;
};

template <typename T> __global__ void k_digits(const T *image, int64_t n, digit_search s, unsigned long long *bins)
{
    __shared__ unsigned block_bins[DIGITS];
    for (int b = threadIdx.x; b < DIGITS; b += blockDim.x) block_bins[b] = 0;
    __syncthreads();
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        const T v = image[i];
        if (!isfinite(v)) continue;
        const uint64_t u = s.distances ? ordered(fabs((double)v - s.middle)) : ordered((double)v);
        const int above = s.shift + DIGIT;
        if (above < 64 && u >> above != s.prefix) continue;
        atomicAdd(&block_bins[u >> s.shift & (DIGITS - 1)], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < DIGITS; b += blockDim.x)
        if (block_bins[b]) atomicAdd(&bins[b], (unsigned long long)block_bins[b]);
}

/* Find the value of a rank, counted from 0; *n becomes the number of finite values. rank < 0: only count them. */
template <typename T>
int value_of_rank(msi_clean_engine *e, const T *image, digit_search s, int64_t rank, double *value, int64_t *n)
{
    unsigned long long bins[DIGITS];
    const int n_block = (int)std::min<int64_t>(clean_blocks(e->n_pixel, BLOCK), 8 * e->n_multiprocessor);
    s.prefix = 0;
    for (s.shift = 60; s.shift >= 0; s.shift -= DIGIT) {
        int64_t all = 0;
        int b = 0;
        MSI_CUDA(cudaMemsetAsync(e->state, 0, sizeof bins, clean_stream(e)));
        k_digits<T><<<n_block, BLOCK, 0, clean_stream(e)>>>(image, e->n_pixel, s, (unsigned long long *)e->state);
        MSI_CUDA(cudaGetLastError());
        MSI_CUDA(cudaMemcpyAsync(bins, e->state, sizeof bins, cudaMemcpyDeviceToHost, clean_stream(e)));
        MSI_TRY(msi_gpu_stream_wait(&e->on));
        if (s.shift == 60) {
            for (int i = 0; i < DIGITS; i++) all += (int64_t)bins[i];
            *n = all;
            if (rank < 0 || !all) return MSI_OK;
        }
        for (; b < DIGITS - 1 && rank >= (int64_t)bins[b]; b++) rank -= (int64_t)bins[b];
        s.prefix = s.prefix << DIGIT | (uint64_t)b;
    }
    *value = value_of_ordered(s.prefix);
    return MSI_OK;
}

template <typename T> int median(msi_clean_engine *e, const T *image, const digit_search &s, double *value, int64_t *n)
{
    double lower = 0;
    *value = 0;
    MSI_TRY(value_of_rank(e, image, s, -1, value, n));
    if (!*n) return MSI_OK;
    MSI_TRY(value_of_rank(e, image, s, *n / 2, value, n));
    if (*n % 2) return MSI_OK;
    MSI_TRY(value_of_rank(e, image, s, *n / 2 - 1, &lower, n));
    *value = 0.5 * (lower + *value);
    return MSI_OK;
}

template <typename T>
int find_deviation(msi_clean_engine *e, const T *image, double *middle, double *deviation, int64_t *n)
{
    digit_search s = {};
    MSI_TRY(median(e, image, s, &s.middle, n));
    *middle = s.middle;
    s.distances = 1;
    return median(e, image, s, deviation, n);
}

template <typename T> __global__ void k_square(const T *in, int64_t n, T *out, T *count)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double v = in[i];
    out[i] = isfinite(v) ? (T)(v * v) : T(0);
    count[i] = isfinite(v) ? T(1) : T(0);
}

/* Lines of n pixels that are `step` apart; line k begins at k next. */
struct lines {
    int64_t n_line, next, n, step, half;
};

template <typename T> __global__ void k_sum_lines(lines l, const T *in, T *out)
{
    const int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;
    if (k >= l.n_line) return;
    in += k * l.next;
    out += k * l.next;
    for (int64_t i = 0; i < l.half && i < l.n; i++) sum += (double)in[i * l.step];
    for (int64_t i = 0; i < l.n; i++) {
        if (i + l.half < l.n) sum += (double)in[(i + l.half) * l.step];
        if (i - l.half > 0) sum -= (double)in[(i - l.half - 1) * l.step];
        out[i * l.step] = (T)sum;
    }
}

template <typename T> __global__ void k_least(lines l, const T *in, T *out)
{
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= l.n_line * l.n) return;
    /* Neighbouring threads process neighbouring pixels, in either direction of lines. */
    const int64_t k = l.step == 1 ? at / l.n : at % l.n_line, i = l.step == 1 ? at % l.n : at / l.n_line;
    const T *line = in + k * l.next;
    T low = (T)INFINITY;
    for (int64_t j = i > l.half ? i - l.half : 0; j <= i + l.half && j < l.n; j++) {
        const T v = line[j * l.step];
        if (isfinite(v) && v < low) low = v;
    }
    out[k * l.next + i * l.step] = low;
}

template <typename T> int run_box(msi_clean_engine *e, int64_t width, int least, T *image, T *work)
{
    const int64_t nx = e->s.nx, ny = e->s.ny;
    const lines along[] = {{ny, nx, nx, 1, width / 2}, {nx, 1, ny, nx, width / 2}};
    for (int way = 0; way < 2; way++) {
        const T *in = way ? work : image;
        T *out = way ? image : work;
        if (least)
            k_least<T><<<clean_blocks(nx * ny, BLOCK), BLOCK, 0, clean_stream(e)>>>(along[way], in, out);
        else
            k_sum_lines<T><<<clean_blocks(along[way].n_line, 32), 32, 0, clean_stream(e)>>>(along[way], in, out);
        MSI_CUDA(cudaGetLastError());
    }
    return MSI_OK;
}

/* Sum weighted pixels of a line in the order in which the CPU does. */
template <typename T> __global__ void k_weigh(lines l, const T *weight, const T *in, T *out)
{
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= l.n_line * l.n) return;
    const int64_t k = l.step == 1 ? at / l.n : at % l.n_line, i = l.step == 1 ? at % l.n : at / l.n_line;
    const T *line = in + k * l.next;
    T sum = 0;
    for (int64_t j = i > l.half ? i - l.half : 0; j <= i + l.half && j < l.n; j++)
        sum = fma(weight[j < i ? i - j : j - i], line[j * l.step], sum);
    out[k * l.next + i * l.step] = sum;
}

template <typename T> int run_weigh(msi_clean_engine *e, const T *weight, int64_t half, T *image, T *work)
{
    const int64_t nx = e->s.nx, ny = e->s.ny;
    const lines rows = {ny, nx, nx, 1, half}, columns = {nx, 1, ny, nx, half};
    k_weigh<T><<<clean_blocks(nx * ny, BLOCK), BLOCK, 0, clean_stream(e)>>>(rows, weight, image, work);
    MSI_CUDA(cudaGetLastError());
    k_weigh<T><<<clean_blocks(nx * ny, BLOCK), BLOCK, 0, clean_stream(e)>>>(columns, weight, work, image);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

template <typename T> struct noise_images {
    const T *residual, *count, *least;
    T *square;
    int64_t n;
};

/* Replace sums of squares by the local rms; find the least of finite pixels as bits, which sort as positive values
 * do. */
template <typename T> __global__ void k_rms(noise_images<T> in, unsigned long long *least)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in.n) return;
    const double n = in.count[i], s = in.square[i];
    double rms = n > 0 && s > 0 ? sqrt(s / n) : 0;
    if (in.least && rms < 0.3 * fabs((double)in.least[i])) rms = 0.3 * fabs((double)in.least[i]);
    const T rounded = (T)rms;
    in.square[i] = rounded;
    const unsigned long long bits = (unsigned long long)__double_as_longlong((double)rounded);
    if (isfinite(in.residual[i]) && bits < *(volatile unsigned long long *)least) atomicMin(least, bits);
}

template <typename T> __global__ void k_ratio(T *square, int64_t n, double least, double strength)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double rms = square[i];
    square[i] = !(rms > 0) ? T(0) : strength == 1 ? (T)(least / rms) : (T)pow(least / rms, strength);
}

template <typename T> int make_factor(msi_clean_engine *e, const noise_images<T> &in, double strength, double *least)
{
    const double none = INFINITY;
    MSI_CUDA(cudaMemcpyAsync(e->state, &none, sizeof none, cudaMemcpyHostToDevice, clean_stream(e)));
    k_rms<T><<<clean_blocks(in.n, BLOCK), BLOCK, 0, clean_stream(e)>>>(in, (unsigned long long *)e->state);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(least, e->state, sizeof *least, cudaMemcpyDeviceToHost, clean_stream(e)));
    MSI_TRY(msi_gpu_stream_wait(&e->on));
    k_ratio<T><<<clean_blocks(in.n, BLOCK), BLOCK, 0, clean_stream(e)>>>(in.square, in.n, *least, strength);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace

int msi_clean_deviation_cuda(msi_clean_engine *e, const void *image, double *median, double *deviation, int64_t *n)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32) return find_deviation(e, (const float *)image, median, deviation, n);
    return find_deviation(e, (const double *)image, median, deviation, n);
}

int msi_clean_square_cuda(msi_clean_engine *e, const void *in, void *out, void *count)
{
    const unsigned n_block = clean_blocks(e->n_pixel, BLOCK);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32)
        k_square<<<n_block, BLOCK, 0, clean_stream(e)>>>((const float *)in, e->n_pixel, (float *)out, (float *)count);
    else
        k_square<<<n_block, BLOCK, 0, clean_stream(e)>>>((const double *)in, e->n_pixel, (double *)out,
                                                         (double *)count);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int msi_clean_box_cuda(msi_clean_engine *e, int64_t width, int least, void *image, void *work)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32) return run_box(e, width, least, (float *)image, (float *)work);
    return run_box(e, width, least, (double *)image, (double *)work);
}

int msi_clean_weigh_cuda(msi_clean_engine *e, const void *weight, int64_t half, void *image, void *work)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32) return run_weigh(e, (const float *)weight, half, (float *)image, (float *)work);
    return run_weigh(e, (const double *)weight, half, (double *)image, (double *)work);
}

int msi_clean_factor_cuda(msi_clean_engine *e, const void *residual, const void *count, const void *least_value,
                          double strength, void *square, double *least)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32)
        return make_factor<float>(
            e, {(const float *)residual, (const float *)count, (const float *)least_value, (float *)square, e->n_pixel},
            strength, least);
    return make_factor<double>(
        e, {(const double *)residual, (const double *)count, (const double *)least_value, (double *)square, e->n_pixel},
        strength, least);
}
