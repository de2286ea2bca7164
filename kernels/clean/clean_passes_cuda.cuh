/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Passes over images on the GPU, and over lists of their pixels. A pass has a thread for each pixel, or blocks of BLOCK
 * threads that take PER pixels each in the order of the image, so that lists come out in that order.
 */
#ifndef MSI_CLEAN_PASSES_CUDA_CUH
#define MSI_CLEAN_PASSES_CUDA_CUH

#include <cub/block/block_scan.cuh>

#include "kernels/clean/clean_engine_cuda.h"

namespace {

constexpr int BLOCK = 256, PER = 16, PART = BLOCK * PER;

template <typename T> struct best_pixel {
    T key, value;
    uint32_t place;
};

/* Return the better of two, by key and then by place. */
template <typename T> __device__ __forceinline__ bool better(const best_pixel<T> &a, const best_pixel<T> &b)
{
    return a.key > b.key || (a.key == b.key && a.place < b.place);
}

/* Leave the best of a block in *out. */
template <typename T> __device__ void reduce_block(const best_pixel<T> &thread_best, best_pixel<T> *out)
{
    __shared__ best_pixel<T> of_warp[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (is_best_of_warp(thread_best.key, thread_best.place)) of_warp[warp] = thread_best;
    __syncthreads();
    if (warp) return;
    best_pixel<T> other = {0, 0, MSI_CLEAN_NOWHERE};
    if (lane < (int)blockDim.x / 32) other = of_warp[lane];
    if (is_best_of_warp(other.key, other.place)) *out = other;
}

template <typename T> struct searched {
    const T *quantity;
    const uint8_t *allow;
    int64_t n;
    int nx, no_negative;
};

template <typename T> __device__ __forceinline__ T key_at(const searched<T> &s, int64_t i)
{
    return s.allow && !s.allow[i] ? T(0) : key_of(s.quantity[i], s.no_negative);
}

__device__ __forceinline__ uint32_t place_at(int64_t i, int nx)
{
    return msi_clean_place((uint32_t)(i % nx), (uint32_t)(i / nx));
}

template <typename T> __global__ void k_peak(searched<T> s, best_pixel<T> *out)
{
    best_pixel<T> best = {0, 0, MSI_CLEAN_NOWHERE};
    int64_t at = -1;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < s.n; i += (int64_t)gridDim.x * blockDim.x) {
        const T key = key_at(s, i);
        if (key > best.key) {
            best.key = key;
            at = i;
        }
    }
    if (at >= 0) best = {best.key, s.quantity[at], place_at(at, s.nx)};
    reduce_block(best, &out[blockIdx.x]);
}

template <typename T> __global__ void k_best(const best_pixel<T> *in, int n, best_pixel<T> *out)
{
    best_pixel<T> best = {0, 0, MSI_CLEAN_NOWHERE};
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (better(in[i], best)) best = in[i];
    reduce_block(best, out);
}

template <typename T> struct selection {
    searched<T> s;
    T threshold, per;
    int first_bin;
};

/* Return the bin of pixel i, -1 where it is not for the list. */
template <typename T> __device__ __forceinline__ int bin_at(const selection<T> &c, int64_t i)
{
    const T key = key_at(c.s, i);
    return key > 0 && key >= c.threshold ? bin_of(key, c.threshold, c.per) : -1;
}

template <typename T> __global__ void k_bins(selection<T> c, unsigned long long *bins)
{
    __shared__ unsigned block_bins[MSI_CLEAN_BINS];
    for (int b = threadIdx.x; b < MSI_CLEAN_BINS; b += blockDim.x) block_bins[b] = 0;
    __syncthreads();
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < c.s.n; i += (int64_t)gridDim.x * blockDim.x) {
        const int bin = bin_at(c, i);
        if (bin >= 0) atomicAdd(&block_bins[bin], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < MSI_CLEAN_BINS; b += blockDim.x)
        if (block_bins[b]) atomicAdd(&bins[b], (unsigned long long)block_bins[b]);
}

template <typename T> __global__ void k_count(selection<T> c, int64_t *count)
{
    int n = 0;
    for (int k = 0; k < PER; k++) {
        const int64_t i = (int64_t)blockIdx.x * PART + k * BLOCK + threadIdx.x;
        n += __syncthreads_count(i < c.s.n && bin_at(c, i) >= c.first_bin);
    }
    if (threadIdx.x == 0) count[blockIdx.x] = n;
}

/* Replace counts by where each block's pixels begin; count[n] is how many there are. One block. */
__global__ void __launch_bounds__(1024) k_begin(int64_t *count, int64_t n)
{
    typedef cub::BlockScan<int64_t, 1024> scan;
    __shared__ typename scan::TempStorage room;
    int64_t before = 0;
    for (int64_t first = 0; first < n; first += blockDim.x) {
        const int64_t i = first + threadIdx.x;
        int64_t value = i < n ? count[i] : 0, sum;
        scan(room).ExclusiveSum(value, value, sum);
        if (i < n) count[i] = before + value;
        before += sum;
        __syncthreads();
    }
    if (threadIdx.x == 0) count[n] = before;
}

template <typename T> __global__ void k_select(selection<T> c, const int64_t *begin, int64_t most, uint32_t *list)
{
    typedef cub::BlockScan<int, BLOCK> scan;
    __shared__ typename scan::TempStorage room;
    int64_t to = begin[blockIdx.x];
    if (begin[blockIdx.x + 1] == to) return;
    for (int k = 0; k < PER; k++) {
        const int64_t i = (int64_t)blockIdx.x * PART + k * BLOCK + threadIdx.x;
        const int taken = i < c.s.n && bin_at(c, i) >= c.first_bin;
        int before, sum;
        scan(room).ExclusiveSum(taken, before, sum);
        if (taken && to + before < most) list[to + before] = place_at(i, c.s.nx);
        to += sum;
        __syncthreads();
    }
}

/* A list and the image that its pixels lie in. */
struct listed {
    const uint32_t *list;
    int64_t n, stride;
    int nx;
};

__device__ __forceinline__ int64_t pixel_of(const listed &l, int64_t i)
{
    return (int64_t)msi_clean_y(l.list[i]) * l.nx + msi_clean_x(l.list[i]);
}

/* Images that a list is loaded from: planes `stride` pixels apart, and a factor of local noise, or NULL. */
template <typename T> struct list_source {
    int n_plane;
    const T *planes;
    int64_t stride;
    const T *factor;
};

/* Fill the list's residuals and factors, and its components with zeros. */
template <typename T> __global__ void k_load(listed l, list_source<T> from, T *residual, T *component, T *factor)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= l.n) return;
    const int64_t at = pixel_of(l, i);
    for (int k = 0; k < from.n_plane; k++) {
        residual[k * l.stride + i] = from.planes[k * from.stride + at];
        component[k * l.stride + i] = 0;
    }
    if (from.factor) factor[i] = from.factor[at];
}

template <typename T> __global__ void k_deposit(listed l, const T *component, T *image)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < l.n) image[pixel_of(l, i)] += component[i];
}

template <typename T> __global__ void k_mark(listed l, int n_plane, const T *component, uint16_t *found, int bit)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    bool any = false;
    if (i >= l.n) return;
    for (int k = 0; k < n_plane; k++) any |= component[k * l.stride + i] != 0;
    if (any) found[pixel_of(l, i)] |= (uint16_t)(1 << bit);
}

__global__ void k_allow(msi_clean_allow from, int64_t nx, int64_t ny, uint8_t *allow)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, x = i % nx, y = i / nx;
    if (i >= nx * ny) return;
    const bool inside = x >= from.border_x && x < nx - from.border_x && y >= from.border_y && y < ny - from.border_y;
    allow[i] = inside && (!from.mask || from.mask[i]) && (!from.found || (from.found[i] & from.bits) != 0);
}

template <typename T> __global__ void k_finite(T *image, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && !isfinite(image[i])) image[i] = 0;
}

template <typename T> struct joined {
    msi_clean_join j;
    const T *share, *planes;
    int64_t stride, n;
};

template <typename T> __global__ void k_join(joined<T> in, const T *factor, T *out)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const T one = 1;
    if (i >= in.n) return;
    T q = quantity_of(&in.j, in.share ? in.share : &one, in.planes + i, in.stride);
    if (factor) q *= factor[i];
    out[i] = q;
}

} // namespace

#endif
