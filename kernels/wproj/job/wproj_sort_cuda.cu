/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two ways to merge, both lossless for tabulated kernels, where samples of one cell, sub-cell and plane differ in
 * nothing but their values. In a regular array a thread follows one baseline through a run of times, so that a warp
 * reads neighbouring baselines of one time and what merges does so in a register. In any order at all: a radix sort by
 * bin, kernel and cell lays equal samples side by side, and the first of a run takes up the others; it also lets
 * samples that share a kernel meet in the caches.
 *
 * Blocks claim places in the list with one global counter step each. CUB's radix sort orders (key, place in the list);
 * one more pass fetches heads and values and notes where each bin ends.
 */
#include "kernels/wproj/job/wproj_sort_cuda.h"

#include <algorithm>
#include <vector>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/wproj/job/wproj_sort_kernels.cuh"

using namespace wproj_sort;

namespace {

constexpr int MAX_BIN_ROWS = 32, WIDEST_TILE = 16, MAX_BIN_BITS = 24;

struct larger {
    __device__ uint32_t operator()(uint32_t a, uint32_t b) const
    {
        return max(a, b);
    }
};

int bits_for(int64_t n)
{
    int bits = 1;
    while (((int64_t)1 << bits) < n) bits++;
    return bits;
}

unsigned blocks_for(int64_t n)
{
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

} // namespace

extern "C" void msi_wproj_bins_make(msi_wproj_bins *b, int32_t nu, int32_t nv, const int32_t *half, int32_t n_plane,
                                    int32_t least_shift)
{
    static const int32_t edge[] = {4, 8, 16, 24, 32, 48, 72, 112, 176, 240, 368, 512};
    const int32_t most = *std::max_element(half, half + n_plane);
    int32_t least = -1;
    *b = {};
    for (int32_t e : edge) {
        bool used = std::any_of(half, half + n_plane, [=](int32_t h) { return h > least && h <= e; });
        least = e;
        if (!used) continue;
        int32_t c = b->n_class++;
        b->class_half[c] = e;
        b->shift[c] = least_shift > 0 ? least_shift : 3;
        while (((2 * e + WIDEST_TILE) >> b->shift[c]) + 2 > MAX_BIN_ROWS) b->shift[c]++;
        if (e >= most) break;
    }
    for (int32_t wider = 0;; wider = 1) {
        b->n_bin = 0;
        for (int32_t c = 0; c < b->n_class; c++) {
            b->shift[c] += wider;
            b->n_bin_u[c] = (nu >> b->shift[c]) + 1;
            b->n_bin_v[c] = (nv >> b->shift[c]) + 1;
            b->first[c] = b->n_bin;
            b->n_bin += 2 * (int64_t)b->n_bin_u[c] * b->n_bin_v[c];
        }
        if (b->n_bin <= (int64_t)1 << MAX_BIN_BITS) return;
    }
}

struct msi_wproj_sorter {
    msi_gpu_stream gpu;
    msi_wproj_sorter_spec spec;
    uint32_t n; /* in the list */
    msi_wproj_bins bins;
    key_shape shape;
    uint8_t *class_of_plane;
    list_view list, sorted;
    uint32_t *bin;    /* [capacity] of the list's entries, then ranks */
    uint64_t *key[2]; /* of either size */
    uint32_t *index[2], *bin_end, *bin_start, *counters;
    void *cub_space;
    size_t cub_bytes;
};

extern "C" void msi_wproj_sorter_free(msi_wproj_sorter *s)
{
    if (!s) return;
    void *memory[] = {s->class_of_plane, s->list.head, s->list.value, s->list.frac, s->sorted.head, s->sorted.value,
                      s->sorted.frac,    s->bin,       s->key[0],     s->key[1],    s->index[0],    s->index[1],
                      s->bin_end,        s->bin_start, s->counters,   s->cub_space};
    for (void *p : memory) cudaFree(p);
    delete s;
}

extern "C" int64_t msi_wproj_sorter_bytes(const msi_wproj_sorter_spec *s)
{
    msi_wproj_bins bins;
    msi_wproj_bins_make(&bins, s->nu, s->nv, s->half, s->n_plane, s->least_shift);
    int64_t of_list =
        (int64_t)sizeof(msi_wproj_head) + (s->n_image + (s->linear ? 1 : 0)) * msi_complex_bytes(s->precision);
    int64_t of_keys = (int64_t)(3 * sizeof(uint32_t) + 2 * sizeof(uint64_t));
    return s->capacity * (2 * of_list + of_keys) + bins.n_bin * 2 * (int64_t)sizeof(uint32_t) + s->n_plane;
}

static int allocate_list(list_view *list, const msi_wproj_sorter_spec *s)
{
    list->stride = s->capacity;
    MSI_TRY(allocate(&list->head, s->capacity, "sorting samples"));
    MSI_TRY(
        allocate((char **)&list->value, s->capacity * s->n_image * msi_complex_bytes(s->precision), "sorting samples"));
    if (s->linear)
        MSI_TRY(allocate((char **)&list->frac, s->capacity * msi_complex_bytes(s->precision), "sorting samples"));
    return MSI_OK;
}

/* Allocate workspace for whichever of CUB's algorithms takes most. */
static int allocate_cub(msi_wproj_sorter *s)
{
    const int64_t n = s->spec.capacity;
    const int bin_bits = bits_for(s->bins.n_bin);
    size_t bytes[4];
    cub::DoubleBuffer<uint32_t> bins(s->bin, (uint32_t *)s->key[0]), values(s->index[0], s->index[1]);
    cub::DoubleBuffer<uint64_t> keys(s->key[0], s->key[1]);
    MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes[0], bins, values, n, 0, bin_bits));
    MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes[1], keys, values, n, 0, bin_bits + s->shape.below_bin()));
    MSI_CUDA(cub::DeviceScan::InclusiveScan(nullptr, bytes[2], s->bin_end, s->bin_start, larger(), s->bins.n_bin));
    MSI_CUDA(cub::DeviceScan::InclusiveSum(nullptr, bytes[3], s->bin, s->bin, n));
    s->cub_bytes = *std::max_element(bytes, bytes + 4);
    return allocate((char **)&s->cub_space, (int64_t)s->cub_bytes, "sorting samples");
}

static int allocate_all(msi_wproj_sorter *s)
{
    const int64_t n = s->spec.capacity;
    const int32_t n_plane = s->spec.n_plane;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    MSI_TRY(allocate(&s->class_of_plane, n_plane, "kernel classes"));
    MSI_TRY(allocate_list(&s->list, &s->spec));
    MSI_TRY(allocate_list(&s->sorted, &s->spec));
    MSI_TRY(allocate(&s->bin, n, "sort keys"));
    for (int k = 0; k < 2; k++) {
        MSI_TRY(allocate(&s->key[k], n, "sort keys"));
        MSI_TRY(allocate(&s->index[k], n, "sort values"));
    }
    MSI_TRY(allocate(&s->bin_end, s->bins.n_bin, "bins"));
    MSI_TRY(allocate(&s->bin_start, s->bins.n_bin + 1, "bins"));
    MSI_TRY(allocate(&s->counters, 1 + MSI_WPROJ_MAX_IMAGE, "counters"));
    MSI_TRY(allocate_cub(s));
    std::vector<uint8_t> classes((size_t)n_plane);
    for (int32_t p = 0; p < n_plane; p++)
        while (s->bins.class_half[classes[(size_t)p]] < s->spec.half[p]) classes[(size_t)p]++;
    MSI_CUDA(cudaMemcpyAsync(s->class_of_plane, classes.data(), classes.size(), cudaMemcpyHostToDevice,
                             (cudaStream_t)s->gpu.stream));
    return msi_gpu_stream_wait(&s->gpu);
}

extern "C" int msi_wproj_sorter_create(msi_wproj_sorter **out, const msi_gpu_stream *gpu,
                                       const msi_wproj_sorter_spec *spec)
{
    *out = nullptr;
    if (spec->nu > MSI_WPROJ_MAX_BOX || spec->nv > MSI_WPROJ_MAX_BOX || spec->n_plane > MSI_WPROJ_MAX_PLANE ||
        (spec->oversample > MSI_WPROJ_MAX_OVERSAMPLE && !spec->linear) || spec->capacity > INT32_MAX ||
        spec->n_image > MSI_WPROJ_MAX_IMAGE)
        return msi_error_set(
            MSI_ERANGE,
            "GPU: %lld samples on %d x %d cells with %d w-planes, oversampled %d times, for %d images: "
            "too many",
            (long long)spec->capacity, spec->nu, spec->nv, spec->n_plane, spec->oversample, spec->n_image);
    msi_wproj_sorter *s = new msi_wproj_sorter{};
    s->gpu = *gpu;
    s->spec = *spec;
    msi_wproj_bins_make(&s->bins, spec->nu, spec->nv, spec->half, spec->n_plane, spec->least_shift);
    s->shape = {bits_for(spec->n_plane), spec->linear ? 1 : bits_for(spec->oversample + 1),
                *std::max_element(s->bins.shift, s->bins.shift + s->bins.n_class)};
    int status = allocate_all(s);
    s->spec.half = nullptr;
    if (status != MSI_OK) {
        msi_wproj_sorter_free(s);
        return status;
    }
    *out = s;
    return MSI_OK;
}

/* Read how many entries the kernels just launched have listed. */
static int read_count(msi_wproj_sorter *s)
{
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    MSI_CUDA(cudaMemcpyAsync(&s->n, s->counters, sizeof s->n, cudaMemcpyDeviceToHost, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    return MSI_OK;
}

extern "C" int msi_wproj_locate_f32(msi_wproj_sorter *s, const msi_wproj_samples_f32 *samples, int32_t run)
{
    const gpu_range range("locate samples");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    const bin_view bins = {s->bins, s->class_of_plane};
    const int64_t n = samples->n_series * samples->n_time;
    const bool fp32 = s->spec.precision == MSI_FP32;
    if (n > s->spec.capacity || s->spec.linear || s->spec.n_image != 1 || (run > 1 && !fp32))
        return msi_error_set(MSI_EINTERNAL, "GPU: a sorter for other samples");
    s->n = 0;
    if (n == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    if (run <= 1) {
        s->n = (uint32_t)n;
        if (fp32)
            k_locate_f32<float><<<blocks_for(n), BLOCK, 0, stream>>>(*samples, bins, s->list, s->bin, s->index[0]);
        else
            k_locate_f32<double><<<blocks_for(n), BLOCK, 0, stream>>>(*samples, bins, s->list, s->bin, s->index[0]);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
    MSI_CUDA(cudaMemsetAsync(s->counters, 0, sizeof *s->counters, stream));
    dim3 blocks(blocks_for(samples->n_series), (unsigned)((samples->n_time + run - 1) / run));
    k_locate_merge<<<blocks, BLOCK, 0, stream>>>(*samples, run, bins, s->list, s->bin, s->index[0], s->counters);
    MSI_CUDA(cudaGetLastError());
    return read_count(s);
}

extern "C" int msi_wproj_locate(msi_wproj_sorter *s, const msi_wproj_geometry *geometry,
                                const msi_wproj_samples *samples, int32_t slice, int32_t origin_u, int32_t origin_v)
{
    const gpu_range range("locate samples");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    const bin_view bins = {s->bins, s->class_of_plane};
    const store_view view = {*geometry, *samples, slice, origin_u, origin_v};
    const dim3 blocks((unsigned)samples->n_rows, PARTS);
    if (samples->n > s->spec.capacity || samples->n_image != s->spec.n_image || (geometry->linear && !s->spec.linear))
        return msi_error_set(MSI_EINTERNAL, "GPU: a sorter for other samples");
    s->n = 0;
    if (samples->n_rows == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    MSI_CUDA(cudaMemsetAsync(s->counters, 0, sizeof *s->counters, stream));
    if (s->spec.precision == MSI_FP32)
        k_locate<float><<<blocks, BLOCK, 0, stream>>>(view, bins, s->list, s->bin, s->index[0], s->counters);
    else
        k_locate<double><<<blocks, BLOCK, 0, stream>>>(view, bins, s->list, s->bin, s->index[0], s->counters);
    MSI_CUDA(cudaGetLastError());
    return read_count(s);
}

/* Finding extents takes this device memory. */
struct extent_memory {
    int32_t *half;
    msi_wproj_box_extent *extent;
};

static int find_extents(extent_memory *m, const store_view *view, const int32_t *half, cudaStream_t stream,
                        msi_wproj_box_extent *extent)
{
    const int32_t n_slice = view->geometry.n_slice, n_plane = view->geometry.n_plane;
    const size_t bytes = (size_t)n_slice * sizeof *extent;
    MSI_TRY(allocate(&m->half, n_plane, "kernel supports"));
    MSI_TRY(allocate(&m->extent, n_slice, "extents"));
    MSI_CUDA(cudaMemcpyAsync(m->half, half, (size_t)n_plane * sizeof *half, cudaMemcpyHostToDevice, stream));
    MSI_CUDA(cudaMemcpyAsync(m->extent, extent, bytes, cudaMemcpyHostToDevice, stream));
    k_extents<<<dim3((unsigned)view->samples.n_rows, PARTS), BLOCK, 0, stream>>>(*view, m->half, m->extent);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(extent, m->extent, bytes, cudaMemcpyDeviceToHost, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    return MSI_OK;
}

extern "C" int msi_wproj_extents(const msi_gpu_stream *gpu, const msi_wproj_geometry *geometry, const int32_t *half,
                                 const msi_wproj_samples *samples, msi_wproj_box_extent *extent)
{
    const gpu_range range("find extents");
    const store_view view = {*geometry, *samples, 0, 0, 0};
    extent_memory m = {};
    if (samples->n_rows == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(gpu));
    int status = find_extents(&m, &view, half, (cudaStream_t)gpu->stream, extent);
    cudaFree(m.half);
    cudaFree(m.extent);
    return status;
}

extern "C" void msi_wproj_list(const msi_wproj_sorter *s, msi_wproj_sorted *list)
{
    *list = {};
    list->n = s->n;
    list->head = s->list.head;
    list->value = s->list.value;
    list->frac = s->list.frac;
    list->stride = s->list.stride;
    list->n_image = s->spec.n_image;
    list->precision = s->spec.precision;
    list->bins = s->bins;
}

/* Begin an order: no bin has a sample, no value is known. */
static int forget_order(msi_wproj_sorter *s)
{
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    MSI_CUDA(cudaMemsetAsync(s->bin_end, 0, (size_t)s->bins.n_bin * sizeof *s->bin_end, stream));
    MSI_CUDA(cudaMemsetAsync(s->bin_start, 0, sizeof *s->bin_start, stream));
    MSI_CUDA(cudaMemsetAsync(s->counters + 1, 0, MSI_WPROJ_MAX_IMAGE * sizeof *s->counters, stream));
    return MSI_OK;
}

/* Close an order: an empty bin ends where the last one before it does. */
static int close_order(msi_wproj_sorter *s, int64_t n, msi_wproj_sorted *sorted)
{
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    size_t bytes = s->cub_bytes;
    MSI_CUDA(cub::DeviceScan::InclusiveScan(s->cub_space, bytes, s->bin_end, s->bin_start + 1, larger(), s->bins.n_bin,
                                            stream));
    msi_wproj_list(s, sorted);
    sorted->n = n;
    sorted->head = s->sorted.head;
    sorted->value = s->sorted.value;
    sorted->frac = s->sorted.frac;
    sorted->bin_start = s->bin_start;
    sorted->largest_value = s->counters + 1;
    return MSI_OK;
}

static reordering make_reordering(const msi_wproj_sorter *s, const uint32_t *index)
{
    return {s->list, s->sorted, index, s->n, s->spec.n_image, s->bin_end, s->counters + 1};
}

extern "C" int msi_wproj_sort_bins(msi_wproj_sorter *s, msi_wproj_sorted *sorted)
{
    const gpu_range range("sort samples by bin");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    cub::DoubleBuffer<uint32_t> keys(s->bin, (uint32_t *)s->key[0]), values(s->index[0], s->index[1]);
    size_t bytes = s->cub_bytes;
    MSI_TRY(forget_order(s));
    if (s->n > 0) {
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(s->cub_space, bytes, keys, values, (int64_t)s->n, 0,
                                                 bits_for(s->bins.n_bin), stream));
        const reordering order = make_reordering(s, values.Current());
        if (s->spec.precision == MSI_FP32)
            k_gather<float><<<blocks_for(s->n), BLOCK, 0, stream>>>(order, keys.Current());
        else
            k_gather<double><<<blocks_for(s->n), BLOCK, 0, stream>>>(order, keys.Current());
        MSI_CUDA(cudaGetLastError());
    }
    return close_order(s, s->n, sorted);
}

/* Merge each of the list's runs of equals into one; *n_left are left. */
static int merge_sorted(msi_wproj_sorter *s, const uint64_t *key, const uint32_t *index, uint32_t *n_left)
{
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    const unsigned blocks = blocks_for(s->n);
    const int below_bin = s->shape.below_bin();
    uint32_t *rank = s->bin;
    size_t bytes = s->cub_bytes;
    k_mark<<<blocks, BLOCK, 0, stream>>>(key, s->n, s->spec.linear, rank);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cub::DeviceScan::InclusiveSum(s->cub_space, bytes, rank, rank, (int64_t)s->n, stream));
    const reordering order = make_reordering(s, index);
    if (s->spec.precision == MSI_FP32)
        k_merge<float><<<blocks, BLOCK, 0, stream>>>(order, key, rank, below_bin);
    else
        k_merge<double><<<blocks, BLOCK, 0, stream>>>(order, key, rank, below_bin);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(n_left, rank + s->n - 1, sizeof *n_left, cudaMemcpyDeviceToHost, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    return MSI_OK;
}

extern "C" int msi_wproj_sort_kernels(msi_wproj_sorter *s, msi_wproj_sorted *sorted)
{
    const gpu_range range("sort samples by kernel");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    const int bits = bits_for(s->bins.n_bin) + s->shape.below_bin();
    cub::DoubleBuffer<uint64_t> keys(s->key[0], s->key[1]);
    cub::DoubleBuffer<uint32_t> values(s->index[0], s->index[1]);
    uint32_t n_left = 0;
    size_t bytes = s->cub_bytes;
    if (bits > 64) return msi_error_set(MSI_ERANGE, "GPU: a sort key of %d bits; 64 is all there are", bits);
    MSI_TRY(forget_order(s));
    if (s->n > 0) {
        k_kernel_keys<<<blocks_for(s->n), BLOCK, 0, stream>>>(s->list.head, s->bin, s->n, s->shape, s->key[0],
                                                              s->index[0]);
        MSI_CUDA(cudaGetLastError());
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(s->cub_space, bytes, keys, values, (int64_t)s->n, 0, bits, stream));
        MSI_TRY(merge_sorted(s, keys.Current(), values.Current(), &n_left));
    }
    return close_order(s, n_left, sorted);
}
