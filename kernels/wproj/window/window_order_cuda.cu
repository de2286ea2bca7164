/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The place of each sample is computed twice: for its key, and after the sort, to write the sample and its value. To
 * store 32 bytes per sample in between would take longer than the arithmetic. Only the samples of the slice are listed
 * and sorted. With many slices, most of the time would otherwise be spent on the other samples.
 */
#include "kernels/wproj/window/wproj_window_gridder_cuda.h"

#include <algorithm>
#include <vector>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_range.h"

struct msi_window_order {
    msi_gpu_stream gpu;
    msi_wproj_geometry geometry;
    msi_precision precision;
    int n_image;
    int64_t capacity, n;
    int32_t n_class, taps[MSI_WINDOW_MAX_CLASS];
    int block_shift; /* a block of cells has an edge of 2^block_shift */
    uint8_t *class_of_plane;
    uint32_t *key, *key_sorted, *index, *index_sorted;
    uint32_t *count; /* [MSI_WINDOW_MAX_CLASS + 1] samples of each class, and of all */
    msi_wproj_sample *sample;
    void *value;
    void *sort_storage;
    size_t sort_bytes;
};

namespace {

constexpr int BLOCK = 256, CLASS_SHIFT = 28, AXIS_BITS = 14, LEAST_SHIFT = 2;

struct order_args {
    msi_wproj_geometry geometry;
    msi_window_block block;
    int32_t slice, n_image, block_shift;
    int32_t image_plane[MSI_WINDOW_MAX_IMAGES];
    const uint8_t *class_of_plane;
};

/* A sample's coordinates and frequency. */
struct coordinates {
    double uvw_m[3], freq_hz;
};

__device__ coordinates coordinates_of(const msi_window_block &b, uint32_t i)
{
    msi_store_rows r = {0, 0, 0, b.n_chan, 0};
    if (b.n_rows) {
        /* Find the last setup that begins at or before i. */
        int32_t low = 0, high = b.n_rows - 1;
        while (low < high) {
            int32_t middle = (low + high + 1) / 2;
            if (b.rows[middle].first_sample <= i)
                low = middle;
            else
                high = middle - 1;
        }
        r = b.rows[low];
        i -= (uint32_t)r.first_sample;
    }
    const double *uvw = b.uvw_m + 3 * (r.first_row + i / (uint32_t)r.n_chan);
    return {{uvw[0], uvw[1], uvw[2]}, b.freq_hz[r.first_freq + i % (uint32_t)r.n_chan]};
}

__device__ void locate(const order_args &a, const coordinates &c, msi_wproj_place *p)
{
    msi_wproj_locate_in(&a.geometry, c.uvw_m, c.freq_hz, a.block.weight == nullptr, a.slice, p);
}

__device__ bool has_weight(const order_args &a, int64_t i)
{
    if (!a.block.weight) return true;
    for (int p = 0; p < a.n_image; p++)
        if (a.block.weight[max(a.image_plane[p], 0) * a.block.plane_stride + i] != 0) return true;
    return false;
}

__device__ bool is_in_slice(const order_args &a, const coordinates &c)
{
    double w = c.uvw_m[2] * c.freq_hz;
    return msi_wproj_slice(&a.geometry, fabs(w * a.geometry.w_lambda_per_m_hz)) == a.slice;
}

/* List keys and indices of the slice's samples, and count the samples by class. The samples of a block keep their
 * order. All are counted, but at most `capacity` are listed. */
__global__ void k_window_keys(const __grid_constant__ order_args a, int64_t n, uint32_t capacity, uint32_t *key,
                              uint32_t *index, uint32_t *count)
{
    __shared__ uint32_t of_block[MSI_WINDOW_MAX_CLASS];
    if (threadIdx.x < MSI_WINDOW_MAX_CLASS) of_block[threadIdx.x] = 0;
    __syncthreads();
    int64_t i = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
    coordinates c;
    bool taken = i < n && has_weight(a, i);
    if (taken) {
        c = coordinates_of(a.block, (uint32_t)i);
        taken = is_in_slice(a, c);
    }
    uint32_t at = claim<BLOCK>(taken, &count[MSI_WINDOW_MAX_CLASS]);
    if (taken) {
        msi_wproj_place p;
        locate(a, c, &p);
        uint32_t of_class = a.class_of_plane[p.plane];
        uint32_t u = (uint32_t)msi_wproj_wrap(p.u, a.geometry.nu) >> a.block_shift;
        uint32_t v = (uint32_t)msi_wproj_wrap(p.v, a.geometry.nv) >> a.block_shift;
        atomicAdd(&of_block[of_class], 1u);
        if (at < capacity) {
            key[at] = of_class << CLASS_SHIFT | v << AXIS_BITS | u;
            index[at] = (uint32_t)i;
        }
    }
    __syncthreads();
    if (threadIdx.x < MSI_WINDOW_MAX_CLASS && of_block[threadIdx.x])
        atomicAdd(&count[threadIdx.x], of_block[threadIdx.x]);
}

__device__ void store(msi_c32 *out, double re, double im)
{
    *out = {(float)re, (float)im};
}

__device__ void store(msi_c64 *out, double re, double im)
{
    *out = {re, im};
}

/* Write the samples and their values in the sorted order. */
template <typename C>
__global__ void k_window_take(const __grid_constant__ order_args a, int64_t n, const uint32_t *index,
                              msi_wproj_sample *sample, C *value)
{
    int64_t k = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
    if (k >= n) return;
    int64_t i = index[k];
    msi_wproj_place p;
    locate(a, coordinates_of(a.block, index[k]), &p);
    sample[k] = {p.u,
                 p.v,
                 (int16_t)p.sub_u,
                 (int16_t)p.sub_v,
                 (int16_t)p.plane,
                 (int16_t)p.conjugate_kernel,
                 (float)p.frac_u,
                 (float)p.frac_v};
    if (!a.block.weight) return;
    double s, c;
    sincospi(-2 * p.turns, &s, &c);
    for (int m = 0; m < a.n_image; m++) {
        int plane = a.image_plane[m];
        double weight = a.block.weight[max(plane, 0) * a.block.plane_stride + i], re = weight, im = 0;
        if (plane >= 0) {
            C x = ((const C *)a.block.vis)[plane * a.block.plane_stride + i];
            re = weight * x.re;
            im = p.conjugate_vis ? -weight * x.im : weight * x.im;
        }
        store(&value[k * a.n_image + m], re * c - im * s, re * s + im * c);
    }
}

/* Write the degridded values to the block's visibilities. */
template <typename C>
__global__ void k_window_give(const __grid_constant__ order_args a, int64_t n, const uint32_t *index, const C *value)
{
    int64_t k = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
    if (k >= n) return;
    int64_t i = index[k];
    msi_wproj_place p;
    locate(a, coordinates_of(a.block, index[k]), &p);
    double s, c;
    sincospi(2 * p.turns, &s, &c);
    for (int m = 0; m < a.n_image; m++) {
        C x = value[k * a.n_image + m];
        double re = x.re * c - x.im * s, im = x.re * s + x.im * c;
        store(&((C *)a.block.vis)[m * a.block.plane_stride + i], re, p.conjugate_vis ? -im : im);
    }
}

unsigned blocks_for(int64_t n)
{
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

/* Divide planes into classes. The widths of kernels of a class differ by at most a third, or by more if there would be
 * too many classes. */
void make_classes(msi_window_order *o, const int32_t *half, std::vector<uint8_t> &of_plane)
{
    const int32_t n_plane = o->geometry.n_plane;
    std::vector<int32_t> order(n_plane);
    for (int32_t p = 0; p < n_plane; p++) order[p] = p;
    std::stable_sort(order.begin(), order.end(), [&](int32_t x, int32_t y) { return half[x] < half[y]; });
    for (double growth = 1.33;; growth *= 1.1) {
        o->n_class = 0;
        double most = 0;
        for (int32_t p : order) {
            int32_t taps = 2 * half[p] + 1;
            if (o->n_class == 0 || taps > most) {
                if (o->n_class == MSI_WINDOW_MAX_CLASS) {
                    o->n_class++;
                    break;
                }
                o->n_class++;
                most = growth * taps + 4;
            }
            of_plane[p] = (uint8_t)(o->n_class - 1);
            o->taps[o->n_class - 1] = taps;
        }
        if (o->n_class <= MSI_WINDOW_MAX_CLASS) return;
    }
}

int allocate(msi_window_order *o, const int32_t *half)
{
    std::vector<uint8_t> of_plane(o->geometry.n_plane);
    make_classes(o, half, of_plane);
    const size_t n = (size_t)std::max<int64_t>(o->capacity, 1), word = n * sizeof(uint32_t);
    MSI_TRY(msi_gpu_stream_enter(&o->gpu));
    MSI_CUDA(cudaMalloc((void **)&o->class_of_plane, of_plane.size()));
    MSI_CUDA(cudaMemcpyAsync(o->class_of_plane, of_plane.data(), of_plane.size(), cudaMemcpyHostToDevice,
                             (cudaStream_t)o->gpu.stream));
    MSI_CUDA(cudaMalloc((void **)&o->key, word));
    MSI_CUDA(cudaMalloc((void **)&o->key_sorted, word));
    MSI_CUDA(cudaMalloc((void **)&o->index, word));
    MSI_CUDA(cudaMalloc((void **)&o->index_sorted, word));
    MSI_CUDA(cudaMalloc((void **)&o->count, (MSI_WINDOW_MAX_CLASS + 1) * sizeof *o->count));
    MSI_CUDA(cudaMalloc((void **)&o->sample, n * sizeof *o->sample));
    MSI_CUDA(cudaMalloc(&o->value, n * (size_t)(o->n_image * msi_complex_bytes(o->precision))));
    MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, o->sort_bytes, o->key, o->key_sorted, o->index, o->index_sorted,
                                             (int64_t)n));
    MSI_CUDA(cudaMalloc(&o->sort_storage, o->sort_bytes));
    return msi_gpu_stream_wait(&o->gpu);
}

order_args make_args(const msi_window_order *o, const msi_window_block *block, const int32_t *image_plane,
                     int32_t slice)
{
    order_args a = {};
    a.geometry = o->geometry;
    a.block = *block;
    a.slice = slice;
    a.n_image = o->n_image;
    a.block_shift = o->block_shift;
    a.class_of_plane = o->class_of_plane;
    for (int p = 0; p < o->n_image; p++) a.image_plane[p] = image_plane ? image_plane[p] : p;
    return a;
}

} // namespace

extern "C" int msi_window_order_create(msi_window_order **out, const msi_gpu_stream *gpu, int64_t capacity,
                                       const msi_wproj_geometry *geometry, const int32_t *half, msi_precision precision,
                                       int n_image)
{
    *out = nullptr;
    if (capacity > INT32_MAX || n_image > MSI_WINDOW_MAX_IMAGES || geometry->n_plane > INT16_MAX)
        return msi_error_set(MSI_ERANGE, "the window strategy orders fewer than 2^31 samples of %d images at a time",
                             (int)MSI_WINDOW_MAX_IMAGES);
    msi_window_order *o = new msi_window_order{};
    o->gpu = *gpu;
    o->geometry = *geometry;
    o->capacity = capacity;
    o->precision = precision;
    o->n_image = n_image;
    o->block_shift = LEAST_SHIFT;
    while (std::max(geometry->nu, geometry->nv) >> o->block_shift >= 1 << AXIS_BITS) o->block_shift++;
    int rc = allocate(o, half);
    if (rc)
        msi_window_order_free(o);
    else
        *out = o;
    return rc;
}

extern "C" void msi_window_order_free(msi_window_order *o)
{
    if (!o) return;
    for (void *p : {(void *)o->class_of_plane, (void *)o->key, (void *)o->key_sorted, (void *)o->index,
                    (void *)o->index_sorted, (void *)o->count, (void *)o->sample, o->value, o->sort_storage})
        cudaFree(p);
    delete o;
}

extern "C" int64_t msi_window_order_bytes(int64_t capacity, msi_precision precision, int n_image)
{
    const int64_t sample = 4 * (int64_t)sizeof(uint32_t) + (int64_t)sizeof(msi_wproj_sample);
    return capacity * (sample + n_image * msi_complex_bytes(precision)) + ((int64_t)1 << 22);
}

extern "C" int msi_window_order_take(msi_window_order *o, const msi_window_block *block, const int32_t *image_plane,
                                     int32_t slice, msi_window_ordered *ordered)
{
    const gpu_range range("order samples");
    cudaStream_t stream = (cudaStream_t)o->gpu.stream;
    const int64_t n = block->n_rows ? block->plane_stride : block->n_row * block->n_chan;
    *ordered = {};
    o->n = 0;
    if (n > UINT32_MAX)
        return msi_error_set(MSI_ERANGE, "%lld samples in one block of the window strategy", (long long)n);
    ordered->n_class = o->n_class;
    ordered->sample = o->sample;
    ordered->value = o->value;
    std::copy(o->taps, o->taps + MSI_WINDOW_MAX_CLASS, ordered->taps);
    if (n == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&o->gpu));
    const order_args a = make_args(o, block, image_plane, slice);
    uint32_t count[MSI_WINDOW_MAX_CLASS + 1];
    MSI_CUDA(cudaMemsetAsync(o->count, 0, sizeof count, stream));
    k_window_keys<<<blocks_for(n), BLOCK, 0, stream>>>(a, n, (uint32_t)o->capacity, o->key, o->index, o->count);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(count, o->count, sizeof count, cudaMemcpyDeviceToHost, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    const int64_t n_taken = count[MSI_WINDOW_MAX_CLASS];
    if (n_taken > o->capacity)
        return msi_error_set(MSI_ERANGE, "the window strategy can sort %lld samples, not %lld", (long long)o->capacity,
                             (long long)n_taken);
    for (int c = 0; c < o->n_class; c++) ordered->first[c + 1] = ordered->first[c] + (int64_t)count[c];
    if (n_taken > 0)
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(o->sort_storage, o->sort_bytes, o->key, o->key_sorted, o->index,
                                                 o->index_sorted, n_taken, 0, 32, stream));
    o->n = ordered->first[o->n_class];
    if (o->n == 0) return MSI_OK;
    if (o->precision == MSI_FP32)
        k_window_take<<<blocks_for(o->n), BLOCK, 0, stream>>>(a, o->n, o->index_sorted, o->sample, (msi_c32 *)o->value);
    else
        k_window_take<<<blocks_for(o->n), BLOCK, 0, stream>>>(a, o->n, o->index_sorted, o->sample, (msi_c64 *)o->value);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

extern "C" int msi_window_order_give(msi_window_order *o, const msi_window_block *block, int32_t slice)
{
    const gpu_range range("store predictions");
    cudaStream_t stream = (cudaStream_t)o->gpu.stream;
    if (o->n == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&o->gpu));
    const order_args a = make_args(o, block, nullptr, slice);
    if (o->precision == MSI_FP32)
        k_window_give<<<blocks_for(o->n), BLOCK, 0, stream>>>(a, o->n, o->index_sorted, (const msi_c32 *)o->value);
    else
        k_window_give<<<blocks_for(o->n), BLOCK, 0, stream>>>(a, o->n, o->index_sorted, (const msi_c64 *)o->value);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}
