/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The engine of cleaning on the GPU (clean_engine.h): its memory, passes over images and lists, maps of planes, and
 * masks. Minor iterations are in clean_list_loop_cuda.cu and clean_exact_loop_cuda.cu, transforms in clean_fft_cuda.cu,
 * noise in clean_noise_cuda.cu. The rest is the table of the engine's functions, each a few lines with its kernel.
 */
#include "kernels/clean/clean_engine_cuda.h"

#include <cub/block/block_scan.cuh>
#include <string.h>

#include "core/memory.h"
#include "kernels/clean/clean_log_fit.h"
#include "kernels/gpu/gpu_memory.h"

namespace {

/* ---- Passes ----------------------------------------------------------------------------------------------------- */

/*
 * A pass over an image or a list has a thread for each pixel, or blocks of BLOCK threads that process PER pixels each
 * in the order of the image, so that lists are in that order.
 */

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

/* Write the best of a block to *out. */
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

/* Return the bin of pixel i, -1 if it is not for the list. */
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

/* Replace the counts of blocks by the positions at which their pixels begin; count[n] becomes the total. One block. */
__global__ void __launch_bounds__(1024) k_begin(int64_t *count, int64_t n)
{
    typedef cub::BlockScan<int64_t, 1024> scan;
    __shared__ typename scan::TempStorage temp_storage;
    int64_t before = 0;
    for (int64_t first = 0; first < n; first += blockDim.x) {
        const int64_t i = first + threadIdx.x;
        int64_t value = i < n ? count[i] : 0, sum;
        scan(temp_storage).ExclusiveSum(value, value, sum);
        if (i < n) count[i] = before + value;
        before += sum;
        __syncthreads();
    }
    if (threadIdx.x == 0) count[n] = before;
}

template <typename T> __global__ void k_select(selection<T> c, const int64_t *begin, int64_t most, uint32_t *list)
{
    typedef cub::BlockScan<int, BLOCK> scan;
    __shared__ typename scan::TempStorage temp_storage;
    int64_t to = begin[blockIdx.x];
    if (begin[blockIdx.x + 1] == to) return;
    for (int k = 0; k < PER; k++) {
        const int64_t i = (int64_t)blockIdx.x * PART + k * BLOCK + threadIdx.x;
        const int taken = i < c.s.n && bin_at(c, i) >= c.first_bin;
        int before, sum;
        scan(temp_storage).ExclusiveSum(taken, before, sum);
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

/* Load the list's residuals and factors, and zero its components. */
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
    allow[i] = inside && (!from.mask || from.mask[i]) && (!from.found || (from.found[i] & from.bits) != 0) &&
               (!from.scales || (from.scales[i] & from.scale_bit) != 0);
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

/* ---- Maps of planes: a thread for each pixel --------------------------------------------------------------------- */

constexpr int MAP_BLOCK = 128;

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
    double y[MSI_CLEAN_LOG_CHANNELS];
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

int engine_map(msi_clean_engine *e, const msi_clean_map *m)
{
    const unsigned n_block = clean_blocks(e->n_pixel, MAP_BLOCK);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32)
        k_map<float><<<n_block, MAP_BLOCK, 0, clean_stream(e)>>>(*m, e->log, e->n_pixel);
    else
        k_map<double><<<n_block, MAP_BLOCK, 0, clean_stream(e)>>>(*m, e->log, e->n_pixel);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* ---- Masks ------------------------------------------------------------------------------------------------------ */

/*
 * Masks have a thread for each pixel. Regions are trees: the label of a pixel is an earlier pixel of its region, or the
 * pixel itself at the root. Neighbours join their trees by linking the later root to the earlier one, atomically; a
 * thread that finds that root already linked continues from its new parent. Afterwards labels are replaced by roots,
 * and roots count pixels.
 */

constexpr int REGION_BLOCK = 256;

template <typename T> __global__ void k_threshold(const T *image, int64_t n, double value, int below, uint8_t *mask)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double v = (double)image[i];
    mask[i] = isfinite(v) && (below ? v < value : v > value);
}

template <typename T> __global__ void k_mask_to_image(const uint8_t *mask, int64_t n, T *image)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) image[i] = mask[i] ? T(1) : T(0);
}

__global__ void k_unite(const uint8_t *other, int64_t n, uint8_t *mask)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && other[i]) mask[i] = 1;
}

__global__ void k_intersect(const uint8_t *other, int64_t n, uint8_t *mask)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && !other[i]) mask[i] = 0;
}

__global__ void k_grow(const uint8_t *from, const uint8_t *within, int64_t nx, int64_t n, uint8_t *to)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, x = i % nx;
    if (i >= n) return;
    bool in = from[i];
    if (!in && within[i])
        in = (x > 0 && from[i - 1]) || (x + 1 < nx && from[i + 1]) || (i >= nx && from[i - nx]) ||
             (i + nx < n && from[i + nx]);
    to[i] = in;
}

__device__ __forceinline__ uint32_t find_root(const uint32_t *label, uint32_t i)
{
    for (uint32_t up; (up = *(const volatile uint32_t *)&label[i]) != i;) i = up;
    return i;
}

__device__ void join(uint32_t *label, uint32_t a, uint32_t b)
{
    while (true) {
        a = find_root(label, a);
        b = find_root(label, b);
        if (a == b) return;
        const uint32_t late = max(a, b), early = min(a, b), was = atomicMin(&label[late], early);
        if (was == late) return;
        a = was;
        b = early;
    }
}

__global__ void k_label(int64_t n, uint32_t *label, uint32_t *count)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    label[i] = (uint32_t)i;
    count[i] = 0;
}

__global__ void k_join_labels(const uint8_t *mask, int64_t nx, int64_t n, uint32_t *label)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || !mask[i]) return;
    if (i % nx > 0 && mask[i - 1]) join(label, (uint32_t)i, (uint32_t)(i - 1));
    if (i >= nx && mask[i - nx]) join(label, (uint32_t)i, (uint32_t)(i - nx));
}

__global__ void k_count_labels(const uint8_t *mask, int64_t n, const uint32_t *label, uint32_t *count)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && mask[i]) atomicAdd(&count[find_root(label, (uint32_t)i)], 1u);
}

__global__ void k_prune(uint8_t *mask, int64_t n, const uint32_t *label, const uint32_t *count, int64_t least)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && mask[i] && count[find_root(label, (uint32_t)i)] < least) mask[i] = 0;
}

int prune(msi_clean_engine *e, int64_t least, uint32_t *label, uint32_t *count, uint8_t *mask)
{
    const int64_t n = e->n_pixel;
    const unsigned n_block = clean_blocks(n, REGION_BLOCK);
    k_label<<<n_block, REGION_BLOCK, 0, clean_stream(e)>>>(n, label, count);
    MSI_CUDA(cudaGetLastError());
    k_join_labels<<<n_block, REGION_BLOCK, 0, clean_stream(e)>>>(mask, e->s.nx, n, label);
    MSI_CUDA(cudaGetLastError());
    k_count_labels<<<n_block, REGION_BLOCK, 0, clean_stream(e)>>>(mask, n, label, count);
    MSI_CUDA(cudaGetLastError());
    k_prune<<<n_block, REGION_BLOCK, 0, clean_stream(e)>>>(mask, n, label, count, least);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int grow(msi_clean_engine *e, const uint8_t *within, int64_t times, uint8_t *mask, uint8_t *work)
{
    const int64_t n = e->n_pixel;
    for (int64_t k = 0; k < times; k++) {
        k_grow<<<clean_blocks(n, REGION_BLOCK), REGION_BLOCK, 0, clean_stream(e)>>>(k % 2 ? work : mask, within,
                                                                                    e->s.nx, n, k % 2 ? mask : work);
        MSI_CUDA(cudaGetLastError());
    }
    if (times % 2) MSI_CUDA(cudaMemcpyAsync(mask, work, (size_t)n, cudaMemcpyDeviceToDevice, clean_stream(e)));
    return MSI_OK;
}

int engine_threshold(msi_clean_engine *e, const void *image, double value, int below, uint8_t *mask)
{
    const unsigned n_block = clean_blocks(e->n_pixel, REGION_BLOCK);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32)
        k_threshold<<<n_block, REGION_BLOCK, 0, clean_stream(e)>>>((const float *)image, e->n_pixel, value, below,
                                                                   mask);
    else
        k_threshold<<<n_block, REGION_BLOCK, 0, clean_stream(e)>>>((const double *)image, e->n_pixel, value, below,
                                                                   mask);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int engine_prune(msi_clean_engine *e, int64_t least, uint8_t *mask)
{
    void *label = nullptr, *count = nullptr;
    if (least <= 1) return MSI_OK;
    int rc = msi_clean_engine_cuda.alloc(e, &label, e->n_pixel * 4, "regions of a mask");
    if (!rc) rc = msi_clean_engine_cuda.alloc(e, &count, e->n_pixel * 4, "regions of a mask");
    if (!rc) rc = prune(e, least, (uint32_t *)label, (uint32_t *)count, mask);
    msi_clean_engine_cuda.release(e, label);
    msi_clean_engine_cuda.release(e, count);
    return rc;
}

int engine_grow(msi_clean_engine *e, const uint8_t *within, int64_t n, uint8_t *mask)
{
    void *work = nullptr;
    int rc = msi_clean_engine_cuda.alloc(e, &work, e->n_pixel, "regions of a mask");
    if (!rc) rc = grow(e, within, n, mask, (uint8_t *)work);
    msi_clean_engine_cuda.release(e, work);
    return rc;
}

int engine_unite(msi_clean_engine *e, const uint8_t *other, uint8_t *mask)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    k_unite<<<clean_blocks(e->n_pixel, REGION_BLOCK), REGION_BLOCK, 0, clean_stream(e)>>>(other, e->n_pixel, mask);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int engine_intersect(msi_clean_engine *e, const uint8_t *other, uint8_t *mask)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    k_intersect<<<clean_blocks(e->n_pixel, REGION_BLOCK), REGION_BLOCK, 0, clean_stream(e)>>>(other, e->n_pixel, mask);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int engine_mask_to_image(msi_clean_engine *e, const uint8_t *mask, void *image)
{
    const unsigned n_block = clean_blocks(e->n_pixel, REGION_BLOCK);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32)
        k_mask_to_image<<<n_block, REGION_BLOCK, 0, clean_stream(e)>>>(mask, e->n_pixel, (float *)image);
    else
        k_mask_to_image<<<n_block, REGION_BLOCK, 0, clean_stream(e)>>>(mask, e->n_pixel, (double *)image);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* ---- The engine ------------------------------------------------------------------------------------------------- */

template <typename T> int find_peak(msi_clean_engine *e, const msi_clean_search *s, msi_clean_peak *peak)
{
    best_pixel<T> *part = static_cast<best_pixel<T> *>(e->state), found;
    const int n_block = (int)std::min<int64_t>(clean_blocks(e->n_pixel, BLOCK), 8 * e->n_multiprocessor);
    const searched<T> in = {(const T *)s->quantity, s->allow, e->n_pixel, (int)e->s.nx, e->s.join.no_negative};
    k_peak<T><<<n_block, BLOCK, 0, clean_stream(e)>>>(in, part);
    k_best<T><<<1, 1024, 0, clean_stream(e)>>>(part, n_block, part + n_block);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(&found, part + n_block, sizeof found, cudaMemcpyDeviceToHost, clean_stream(e)));
    MSI_TRY(msi_gpu_stream_wait(&e->on));
    *peak = {(double)found.key, (double)found.value, 0, 0};
    if (!(found.key > 0)) return MSI_OK;
    peak->x = msi_clean_x(found.place);
    peak->y = msi_clean_y(found.place);
    return MSI_OK;
}

template <typename T>
selection<T> selection_of(const msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int bin)
{
    const T wide = (T)range->peak - (T)range->threshold;
    return {{(const T *)s->quantity, s->allow, e->n_pixel, (int)e->s.nx, e->s.join.no_negative},
            (T)range->threshold,
            wide > 0 ? MSI_CLEAN_BINS / wide : 0,
            bin};
}

template <typename T>
int count_bins(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range,
               int64_t bins[MSI_CLEAN_BINS])
{
    const int n_block = (int)std::min<int64_t>(clean_blocks(e->n_pixel, BLOCK), 8 * e->n_multiprocessor);
    const size_t bytes = MSI_CLEAN_BINS * sizeof *bins;
    MSI_CUDA(cudaMemsetAsync(e->state, 0, bytes, clean_stream(e)));
    k_bins<T><<<n_block, BLOCK, 0, clean_stream(e)>>>(selection_of<T>(e, s, range, 0), (unsigned long long *)e->state);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(bins, e->state, bytes, cudaMemcpyDeviceToHost, clean_stream(e)));
    return msi_gpu_stream_wait(&e->on);
}

template <typename T>
int make_list(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int first_bin, int64_t *n)
{
    const unsigned n_block = clean_blocks(e->n_pixel, PART);
    const selection<T> c = selection_of<T>(e, s, range, first_bin);
    k_count<T><<<n_block, BLOCK, 0, clean_stream(e)>>>(c, e->count);
    k_begin<<<1, 1024, 0, clean_stream(e)>>>(e->count, n_block);
    k_select<T><<<n_block, BLOCK, 0, clean_stream(e)>>>(c, e->count, e->s.list_limit, e->list);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(n, e->count + n_block, sizeof *n, cudaMemcpyDeviceToHost, clean_stream(e)));
    MSI_TRY(msi_gpu_stream_wait(&e->on));
    e->n_list = *n = std::min(*n, e->s.list_limit);
    return MSI_OK;
}

listed list_of(const msi_clean_engine *e)
{
    return {e->list, e->n_list, e->s.list_limit, (int)e->s.nx};
}

/* One precision of the operations. */
template <typename T> struct pass {
    static int finite(msi_clean_engine *e, void *image, int64_t n)
    {
        k_finite<T><<<clean_blocks(n, BLOCK), BLOCK, 0, clean_stream(e)>>>((T *)image, n);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
    static int join(msi_clean_engine *e, const joined<T> &in, const void *factor, void *out)
    {
        k_join<T><<<clean_blocks(in.n, BLOCK), BLOCK, 0, clean_stream(e)>>>(in, (const T *)factor, (T *)out);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
    static int load(msi_clean_engine *e, const void *planes, int64_t stride, const void *factor)
    {
        e->has_factor = factor != nullptr;
        const list_source<T> from = {e->n_plane, (const T *)planes, stride, (const T *)factor};
        k_load<T><<<clean_blocks(std::max<int64_t>(e->n_list, 1), BLOCK), BLOCK, 0, clean_stream(e)>>>(
            list_of(e), from, (T *)e->residual, (T *)e->component, (T *)e->factor);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
    static int deposit(msi_clean_engine *e, int plane, void *image)
    {
        k_deposit<T><<<clean_blocks(std::max<int64_t>(e->n_list, 1), BLOCK), BLOCK, 0, clean_stream(e)>>>(
            list_of(e), (const T *)e->component + plane * e->s.list_limit, (T *)image);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
    static int mark(msi_clean_engine *e, uint16_t *found, int bit)
    {
        k_mark<T><<<clean_blocks(std::max<int64_t>(e->n_list, 1), BLOCK), BLOCK, 0, clean_stream(e)>>>(
            list_of(e), e->n_plane, (const T *)e->component, found, bit);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
};

bool is_single(const msi_clean_engine *e)
{
    return e->s.precision == MSI_FP32;
}

int engine_finite(msi_clean_engine *e, void *image, int64_t n)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? pass<float>::finite(e, image, n) : pass<double>::finite(e, image, n);
}

template <typename T> int join_planes(msi_clean_engine *e, const msi_clean_joined *from, const void *factor, void *out)
{
    const void *share = from->rows ? from->rows : from->n_sum ? nullptr : e->share;
    const joined<T> in = {msi_clean_join_of(&e->s.join, from), (const T *)share, (const T *)from->planes, from->stride,
                          e->n_pixel};
    return pass<T>::join(e, in, factor, out);
}

int engine_join(msi_clean_engine *e, const msi_clean_joined *from, const void *factor, void *out)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? join_planes<float>(e, from, factor, out) : join_planes<double>(e, from, factor, out);
}

template <typename T> int mean_planes(msi_clean_engine *e, const void *planes, int64_t stride, int pol, void *out)
{
    const joined<T> in = {{e->s.join.n_channel, 1, 0, 0, 0, 0},
                          (const T *)e->share,
                          (const T *)planes + pol * stride,
                          stride * e->s.join.n_pol,
                          e->n_pixel};
    return pass<T>::join(e, in, nullptr, out);
}

int engine_mean(msi_clean_engine *e, const void *planes, int64_t stride, int pol, void *out)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? mean_planes<float>(e, planes, stride, pol, out)
                        : mean_planes<double>(e, planes, stride, pol, out);
}

int engine_peak(msi_clean_engine *e, const msi_clean_search *s, msi_clean_peak *peak)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? find_peak<float>(e, s, peak) : find_peak<double>(e, s, peak);
}

int engine_bins(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range,
                int64_t bins[MSI_CLEAN_BINS])
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? count_bins<float>(e, s, range, bins) : count_bins<double>(e, s, range, bins);
}

int engine_select(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int first_bin,
                  int64_t *n)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? make_list<float>(e, s, range, first_bin, n) : make_list<double>(e, s, range, first_bin, n);
}

int engine_load(msi_clean_engine *e, const void *planes, int64_t stride, const void *factor)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? pass<float>::load(e, planes, stride, factor) : pass<double>::load(e, planes, stride, factor);
}

int engine_take_cell(msi_clean_engine *e, int cell)
{
    e->cell = cell;
    return MSI_OK;
}

int engine_deposit(msi_clean_engine *e, int plane, void *image)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? pass<float>::deposit(e, plane, image) : pass<double>::deposit(e, plane, image);
}

int engine_mark(msi_clean_engine *e, uint16_t *found, int bit)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? pass<float>::mark(e, found, bit) : pass<double>::mark(e, found, bit);
}

int engine_allow(msi_clean_engine *e, const msi_clean_allow *from, uint8_t *allow)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    k_allow<<<clean_blocks(e->n_pixel, BLOCK), BLOCK, 0, clean_stream(e)>>>(*from, e->s.nx, e->s.ny, allow);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int engine_alloc(msi_clean_engine *e, void **out, int64_t bytes, const char *what)
{
    *out = nullptr;
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_TRY(allocate(reinterpret_cast<char **>(out), bytes, what));
    MSI_CUDA(cudaMemsetAsync(*out, 0, (size_t)bytes, clean_stream(e)));
    return MSI_OK;
}

void engine_release(msi_clean_engine *e, void *p)
{
    msi_gpu_release(p, &e->on);
}

int copy(msi_clean_engine *e, void *to, const void *from, int64_t bytes, cudaMemcpyKind kind)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_CUDA(cudaMemcpyAsync(to, from, (size_t)bytes, kind, clean_stream(e)));
    return MSI_OK;
}

int engine_upload(msi_clean_engine *e, void *to, const void *from, int64_t bytes)
{
    MSI_TRY(copy(e, to, from, bytes, cudaMemcpyHostToDevice));
    return msi_gpu_stream_wait(&e->on);
}

int engine_download(msi_clean_engine *e, void *to, const void *from, int64_t bytes)
{
    MSI_TRY(copy(e, to, from, bytes, cudaMemcpyDeviceToHost));
    return msi_gpu_stream_wait(&e->on);
}

int engine_upload_middle(msi_clean_engine *e, void *image, const void *from, int64_t n)
{
    const size_t real = (size_t)clean_real_bytes(e), row = (size_t)n * real;
    char *to = (char *)image + msi_clean_middle(&e->s, n) * (int64_t)real;
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_CUDA(cudaMemcpy2DAsync(to, (size_t)e->s.nx * real, from, row, row, (size_t)n, cudaMemcpyHostToDevice,
                               clean_stream(e)));
    return msi_gpu_stream_wait(&e->on);
}

int engine_download_middle(msi_clean_engine *e, void *to, const void *image, int64_t n)
{
    const size_t real = (size_t)clean_real_bytes(e), row = (size_t)n * real;
    const char *from = (const char *)image + msi_clean_middle(&e->s, n) * (int64_t)real;
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_CUDA(cudaMemcpy2DAsync(to, row, from, (size_t)e->s.nx * real, row, (size_t)n, cudaMemcpyDeviceToHost,
                               clean_stream(e)));
    return msi_gpu_stream_wait(&e->on);
}

int engine_copy(msi_clean_engine *e, void *to, const void *from, int64_t bytes)
{
    return copy(e, to, from, bytes, cudaMemcpyDeviceToDevice);
}

int engine_clear(msi_clean_engine *e, void *p, int64_t bytes)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_CUDA(cudaMemsetAsync(p, 0, (size_t)bytes, clean_stream(e)));
    return MSI_OK;
}

int engine_take(msi_clean_engine *e, void *to, const msi_clean_engine *other, const void *from, int64_t bytes)
{
    return msi_gpu_peer_copy(&e->on, to, from, other->s.device, bytes);
}

int engine_give(msi_clean_engine *e, const msi_clean_engine *other, void *to, const void *from, int64_t bytes)
{
    return msi_gpu_peer_send(&e->on, to, other->s.device, from, bytes);
}

int engine_take_list(msi_clean_engine *e, const msi_clean_engine *other, int plane)
{
    const int64_t real = clean_real_bytes(e), at = plane * e->s.list_limit * real;
    e->n_list = other->n_list;
    MSI_TRY(engine_take(e, e->list, other, other->list, e->n_list * (int64_t)sizeof *e->list));
    return engine_take(e, (char *)e->component + at, other, (const char *)other->component + at, e->n_list * real);
}

int engine_wait(msi_clean_engine *e)
{
    return msi_gpu_stream_wait(&e->on);
}

void engine_free(msi_clean_engine *e)
{
    if (!e) return;
    void *all[] = {e->share,  e->fit,   e->log,   e->list,  e->residual, e->component,
                   e->factor, e->place, e->value, e->state, e->mail,     e->count};
    for (void *p : all) msi_gpu_release(p, &e->on);
    msi_gpu_stream_free(&e->on);
    msi_free(e->place_host);
    msi_free(e->value_host);
    msi_free(e);
}

/* Upload n numbers in the planes' precision. */
int make_table(msi_clean_engine *e, void **out, const double *from, int n)
{
    float single[MSI_CLEAN_CHANNELS];
    MSI_TRY(engine_alloc(e, out, n * clean_real_bytes(e), "the cleaner's tables"));
    if (!is_single(e)) return engine_upload(e, *out, from, n * 8);
    for (int first = 0; first < n; first += MSI_CLEAN_CHANNELS) {
        const int part = std::min<int>(n - first, MSI_CLEAN_CHANNELS);
        for (int i = 0; i < part; i++) single[i] = (float)from[first + i];
        MSI_TRY(engine_upload(e, (float *)*out + first, single, part * 4));
    }
    return MSI_OK;
}

int make_tables(msi_clean_engine *e)
{
    const int n = e->s.join.n_channel;
    MSI_TRY(make_table(e, &e->share, e->s.share, n));
    if (e->s.fit) MSI_TRY(make_table(e, &e->fit, e->s.fit, n * n));
    e->s.fit = nullptr;
    if (!e->s.log.n_term) return MSI_OK;
    MSI_TRY(engine_alloc(e, (void **)&e->log, sizeof *e->log, "the cleaner's tables"));
    return engine_upload(e, e->log, &e->s.log, sizeof *e->log);
}

int allocate_arrays(msi_clean_engine *e)
{
    const int64_t real = clean_real_bytes(e), n = e->s.list_limit, values = MSI_CLEAN_CHUNK * e->n_plane;
    const int64_t n_block = clean_blocks(e->n_pixel, PART);
    MSI_TRY(msi_alloc(&e->place_host, MSI_CLEAN_CHUNK, sizeof *e->place_host, "components"));
    MSI_TRY(msi_alloc(&e->value_host, values, (size_t)real, "components"));
    MSI_TRY(engine_alloc(e, (void **)&e->place, MSI_CLEAN_CHUNK * 4, "components"));
    MSI_TRY(engine_alloc(e, &e->value, values * real, "components"));
    MSI_TRY(engine_alloc(e, &e->state, CLEAN_STATE_BYTES, "partial results"));
    if (!n) return MSI_OK;
    MSI_TRY(engine_alloc(e, (void **)&e->count, (n_block + 1) * (int64_t)sizeof *e->count, "a list of pixels"));
    MSI_TRY(engine_alloc(e, (void **)&e->list, n * 4, "a list of pixels"));
    MSI_TRY(engine_alloc(e, &e->residual, n * e->n_plane * real, "a list of pixels"));
    MSI_TRY(engine_alloc(e, &e->component, n * e->n_plane * real, "a list of pixels"));
    return engine_alloc(e, &e->factor, n * real, "a list of pixels");
}

int engine_create(msi_clean_engine **out, const msi_clean_setup *setup)
{
    msi_clean_engine *e;
    *out = nullptr;
    MSI_TRY(msi_alloc(&e, 1, sizeof *e, "the cleaner"));
    e->s = *setup;
    e->n_plane = setup->join.n_channel * setup->join.n_pol;
    e->n_pixel = setup->nx * setup->ny;
    e->cell = -1;
    int rc = msi_gpu_stream_create(&e->on, setup->device);
    if (!rc && cudaDeviceGetAttribute(&e->n_multiprocessor, cudaDevAttrMultiProcessorCount, setup->device)) {
        cudaGetLastError();
        rc = msi_error_set(MSI_EGPU, "%s: cannot get its number of multiprocessors", msi_gpu_name(setup->device));
    }
    if (!rc) rc = make_tables(e);
    if (!rc) rc = allocate_arrays(e);
    if (rc) {
        engine_free(e);
        return rc;
    }
    *out = e;
    return MSI_OK;
}

int64_t engine_noise_bytes(const msi_clean_setup *)
{
    return 0;
}

} // namespace

int msi_clean_fetch_loop_cuda(msi_clean_engine *e, msi_clean_looped *done)
{
    clean_loop_end end;
    const int64_t value_bytes = e->n_plane * clean_real_bytes(e);
    MSI_TRY(engine_download(e, &end, e->state, sizeof end));
    done->end = (msi_clean_end)end.end;
    done->n_iteration = end.n_iteration;
    done->peak = {end.key, end.value, msi_clean_x(end.place), msi_clean_y(end.place)};
    done->place = e->place_host;
    done->value = e->value_host;
    if (!end.n_iteration) return MSI_OK;
    MSI_TRY(copy(e, e->place_host, e->place, end.n_iteration * 4, cudaMemcpyDeviceToHost));
    return engine_download(e, e->value_host, e->value, end.n_iteration * value_bytes);
}

extern const msi_clean_engine_ops msi_clean_engine_cuda = {0, /* on_host */
                                                           engine_create,
                                                           engine_free,
                                                           engine_alloc,
                                                           engine_alloc,
                                                           engine_release,
                                                           engine_upload,
                                                           engine_download,
                                                           engine_upload_middle,
                                                           engine_download_middle,
                                                           engine_copy,
                                                           engine_clear,
                                                           engine_take,
                                                           engine_give,
                                                           engine_take_list,
                                                           engine_wait,
                                                           engine_allow,
                                                           engine_finite,
                                                           engine_join,
                                                           engine_mean,
                                                           engine_map,
                                                           engine_peak,
                                                           engine_bins,
                                                           engine_select,
                                                           engine_load,
                                                           msi_clean_list_loop_cuda,
                                                           engine_deposit,
                                                           engine_mark,
                                                           engine_take_cell,
                                                           msi_clean_exact_loop_cuda,
                                                           msi_clean_fft_create_cuda,
                                                           msi_clean_fft_free_cuda,
                                                           msi_clean_fft_bytes_cuda,
                                                           engine_noise_bytes,
                                                           msi_clean_forward_cuda,
                                                           msi_clean_gaussian_cuda,
                                                           msi_clean_product_cuda,
                                                           msi_clean_spread_cuda,
                                                           msi_clean_inverse_cuda,
                                                           msi_clean_deviation_cuda,
                                                           msi_clean_square_cuda,
                                                           msi_clean_box_cuda,
                                                           msi_clean_weigh_cuda,
                                                           msi_clean_factor_cuda,
                                                           engine_threshold,
                                                           engine_prune,
                                                           engine_grow,
                                                           engine_unite,
                                                           engine_intersect,
                                                           engine_mask_to_image,
                                                           msi_clean_subtract_list_cuda};
