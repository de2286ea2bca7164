/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/bench/el56_forms_cuda.h"

#include <algorithm>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "kernels/gpu/cuda_check.h"

namespace {

constexpr int BLOCK = 256;

struct tile_shape {
    int32_t u, v, n_u, n; /* cells of a tile along u and v; number of tiles in a row of the box, and of all tiles */
};

struct tile_range {
    int u0, u1, v0, v1;
};

__device__ tile_range tiles_of(msi_wproj_head r, const int32_t *half, const tile_shape &t)
{
    int h = half[msi_wproj_head_plane(r.kernel)], u = msi_wproj_head_u(r.cell), v = msi_wproj_head_v(r.cell);
    return {(u - h) / t.u, (u + h) / t.u, (v - h) / t.v, (v + h) / t.v};
}

/* The samples to sort, and the extents of their footprints. */
struct sample_list {
    const msi_wproj_head *head; /* [n] */
    uint32_t n;
    const int32_t *half; /* [planes] half-supports of kernels */
};

__global__ void k_count_tiles(sample_list list, tile_shape t, uint32_t *count)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= list.n) return;
    tile_range r = tiles_of(list.head[i], list.half, t);
    count[i] = (uint32_t)((r.u1 - r.u0 + 1) * (r.v1 - r.v0 + 1));
}

/* Write the entries of sample i, one for each tile that it touches, before end[i]. */
__global__ void k_list_tiles(sample_list list, msi_wproj_bins bins, tile_shape t, const uint32_t *end, uint32_t *bucket,
                             uint32_t *index)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= list.n) return;
    msi_wproj_head h = list.head[i];
    tile_range r = tiles_of(h, list.half, t);
    int c = 0;
    while (c + 1 < bins.n_class && bins.class_half[c] < list.half[msi_wproj_head_plane(h.kernel)]) c++;
    uint32_t at = i > 0 ? end[i - 1] : 0;
    for (int v = r.v0; v <= r.v1; v++)
        for (int u = r.u0; u <= r.u1; u++, at++) {
            bucket[at] = (uint32_t)(c * t.n + v * t.n_u + u);
            index[at] = i;
        }
}

int bits_for(int64_t n)
{
    int bits = 1;
    while (((int64_t)1 << bits) < n) bits++;
    return bits;
}

} // namespace

struct el56_bucket_sorter {
    int64_t entry_capacity;
    int32_t *half;
    uint32_t *count, *end, *bucket[2], *index[2];
    void *space;
    size_t space_bytes;
};

extern "C" int el56_bucket_sorter_create(el56_bucket_sorter **out, int64_t capacity, const int32_t *half,
                                         int32_t n_plane)
{
    el56_bucket_sorter *s = new el56_bucket_sorter{};
    *out = s;
    MSI_CUDA(cudaMalloc((void **)&s->half, (size_t)n_plane * sizeof *half));
    MSI_CUDA(cudaMalloc((void **)&s->count, (size_t)capacity * sizeof *s->count));
    MSI_CUDA(cudaMalloc((void **)&s->end, (size_t)capacity * sizeof *s->end));
    MSI_CUDA(cudaMemcpy(s->half, half, (size_t)n_plane * sizeof *half, cudaMemcpyHostToDevice));
    return MSI_OK;
}

extern "C" void el56_bucket_sorter_free(el56_bucket_sorter *s)
{
    if (!s) return;
    for (void *p : {(void *)s->half, (void *)s->count, (void *)s->end, (void *)s->bucket[0], (void *)s->bucket[1],
                    (void *)s->index[0], (void *)s->index[1], s->space})
        cudaFree(p);
    delete s;
}

static int fit_space(el56_bucket_sorter *s, size_t bytes)
{
    if (bytes <= s->space_bytes) return MSI_OK;
    cudaFree(s->space);
    s->space = nullptr;
    s->space_bytes = 0;
    MSI_CUDA(cudaMalloc(&s->space, bytes));
    s->space_bytes = bytes;
    return MSI_OK;
}

/* Ensure memory for n entries. */
static int fit_entries(el56_bucket_sorter *s, int64_t n)
{
    if (n <= s->entry_capacity) return MSI_OK;
    s->entry_capacity = 0;
    for (uint32_t **p : {&s->bucket[0], &s->bucket[1], &s->index[0], &s->index[1]}) {
        cudaFree(*p);
        *p = nullptr;
        MSI_CUDA(cudaMalloc((void **)p, (size_t)n * sizeof **p));
    }
    s->entry_capacity = n;
    return MSI_OK;
}

extern "C" int el56_sort_buckets(el56_bucket_sorter *s, const msi_wproj_sorted *list, const el56_tiling *tiling,
                                 cudaStream_t stream, el56_buckets *buckets)
{
    const int32_t tile_u = tiling->tile_u, tile_v = tiling->tile_v;
    const int32_t n_tile_u = (tiling->nu + tile_u - 1) / tile_u, n_tile_v = (tiling->nv + tile_v - 1) / tile_v;
    const tile_shape shape = {tile_u, tile_v, n_tile_u, n_tile_u * n_tile_v};
    *buckets = {0,        list->head, static_cast<const msi_c32 *>(list->value), nullptr, nullptr, tile_u, tile_v,
                n_tile_u, n_tile_v};
    if (list->n == 0) return MSI_OK;
    const sample_list samples = {list->head, (uint32_t)list->n, s->half};
    msi_wproj_bins bins = list->bins;
    if (!tiling->by_class) bins.n_class = 1;
    const unsigned blocks = (unsigned)((list->n + BLOCK - 1) / BLOCK);
    k_count_tiles<<<blocks, BLOCK, 0, stream>>>(samples, shape, s->count);
    MSI_CUDA(cudaGetLastError());
    size_t bytes;
    MSI_CUDA(cub::DeviceScan::InclusiveSum(nullptr, bytes, s->count, s->end, list->n, stream));
    MSI_TRY(fit_space(s, bytes));
    MSI_CUDA(cub::DeviceScan::InclusiveSum(s->space, bytes, s->count, s->end, list->n, stream));
    uint32_t n_entry;
    MSI_CUDA(cudaMemcpyAsync(&n_entry, s->end + list->n - 1, sizeof n_entry, cudaMemcpyDeviceToHost, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    MSI_TRY(fit_entries(s, n_entry));
    k_list_tiles<<<blocks, BLOCK, 0, stream>>>(samples, bins, shape, s->end, s->bucket[0], s->index[0]);
    MSI_CUDA(cudaGetLastError());
    cub::DoubleBuffer<uint32_t> keys(s->bucket[0], s->bucket[1]), values(s->index[0], s->index[1]);
    const int bits = bits_for((int64_t)shape.n * bins.n_class);
    MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, values, (int64_t)n_entry, 0, bits, stream));
    MSI_TRY(fit_space(s, bytes));
    MSI_CUDA(cub::DeviceRadixSort::SortPairs(s->space, bytes, keys, values, (int64_t)n_entry, 0, bits, stream));
    buckets->n_entry = n_entry;
    buckets->bucket = keys.Current();
    buckets->index = values.Current();
    return MSI_OK;
}
