/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One key a sample: the tile in the high bits, the kernel in the low ones; CUB's radix sort looks at no more bits than
 * there are. Where a tile begins is then found by bisection, one thread a tile. Nothing but keys and indices moves:
 * the degridders read each sample once, through its index.
 *
 * Where there are few tiles and the order within them is free, a block counts its samples by tile in shared memory,
 * adds what it counted to the tiles' numbers, and so learns where its samples go.
 */
#include "kernels/prepare/degrid_sort_cuda.h"

#include <algorithm>
#include <vector>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/grid/cuda_check.h"

namespace {

constexpr int BLOCK = 256, SCAN = 1024;
constexpr double LIKE = 0.75; /* narrowest to widest of a class */

template <typename T> int allocate(T **out, int64_t n, const char *what)
{
    cudaFree(*out);
    *out = nullptr;
    cudaError_t e = cudaMalloc((void **)out, (size_t)std::max<int64_t>(n, 1) * sizeof(T));
    if (e == cudaSuccess) return MSI_OK;
    cudaGetLastError();
    return msi_error_set(MSI_EGPU, "GPU: no %.3f GB of device memory for %s: %s", 1e-9 * (double)n * sizeof(T), what,
                         cudaGetErrorString(e));
}

int bits_for(int64_t n)
{
    int bits = 0;
    while (((int64_t)1 << bits) < n) bits++;
    return bits;
}

/* shift_left puts the tile above the kernel; shift_right drops what of the kernel's number does not fit. */
struct key_shape {
    int shift_left, shift_right, by_kernel;
};

__device__ __forceinline__ uint32_t find_tile(const msi_window_sample &s, const msi_degrid_classes &c,
                                              const uint8_t *class_of)
{
    const msi_degrid_class &k = c.of[class_of[s.plane]];
    int u = msi_degrid_wrap(s.u - k.taps / 2, c.nu), v = msi_degrid_wrap(s.v - k.taps / 2, c.nv);
    return (uint32_t)(k.first_tile + v / k.tile_v * k.n_tile_u + u / k.tile_u);
}

__global__ void k_degrid_keys(const msi_window_sample *sample, uint32_t n, const __grid_constant__ msi_degrid_classes c,
                              const uint8_t *class_of, int oversample, key_shape shape, uint32_t *key, uint32_t *index)
{
    uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    msi_window_sample s = sample[i];
    uint32_t tile = find_tile(s, c, class_of), low = 0;
    if (shape.by_kernel) {
        uint32_t kernel = msi_degrid_kernel(&s, oversample);
        low = (kernel << 1 | kernel >> 31) >> shape.shift_right;
    }
    key[i] = shape.shift_left < 32 ? tile << shape.shift_left | low : low;
    index[i] = i;
}

__global__ void k_degrid_first(const uint32_t *key, uint32_t n, int shift, int32_t n_tile, uint32_t *first)
{
    int32_t t = (int32_t)(blockIdx.x * BLOCK + threadIdx.x);
    if (t > n_tile) return;
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t tile = shift < 32 ? key[middle] >> shift : 0;
        if (tile < (uint32_t)t)
            low = middle + 1;
        else
            high = middle;
    }
    first[t] = low;
}

/* A block's samples, PLACE_EACH a thread, and a thread a tile. */
constexpr uint32_t PLACE_THREADS = MSI_DEGRID_MAX_PLACE_TILES, PLACE_EACH = 8, PLACE_CHUNK = PLACE_THREADS * PLACE_EACH;

/* count[t]: samples of tile t. */
__global__ __launch_bounds__(PLACE_THREADS) void k_count_places(const msi_window_sample *sample, uint32_t n,
                                                                const __grid_constant__ msi_degrid_classes c,
                                                                const uint8_t *class_of, uint32_t *count)
{
    __shared__ uint32_t here[PLACE_THREADS];
    const uint32_t t = threadIdx.x, first = blockIdx.x * PLACE_CHUNK + t;
    here[t] = 0;
    __syncthreads();
#pragma unroll
    for (uint32_t e = 0; e < PLACE_EACH; e++) {
        uint32_t i = first + e * PLACE_THREADS;
        if (i < n) atomicAdd(&here[find_tile(sample[i], c, class_of)], 1u);
    }
    __syncthreads();
    if (here[t]) atomicAdd(&count[t], here[t]);
}

/* Sum over the threads before this one of a block of PLACE_THREADS. */
__device__ uint32_t sum_before(uint32_t x)
{
    __shared__ uint32_t warp_sum[PLACE_THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t sum = x;
    for (int d = 1; d < 32; d *= 2) {
        uint32_t below = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += below;
    }
    if (lane == 31) warp_sum[warp] = sum;
    __syncthreads();
    uint32_t before = 0;
    for (int w = 0; w < warp; w++) before += warp_sum[w];
    return before + sum - x;
}

/* A block's samples in their order, and where each goes: neighbours mostly to neighbours, so that whole sectors are
 * written. */
struct place_store {
    int4 place[PLACE_CHUNK];
    uint32_t to[PLACE_CHUNK];
    uint32_t here[PLACE_THREADS], to_less_at[PLACE_THREADS];
};

/* taken[t]: those of tile t's places that blocks have taken. */
__global__ __launch_bounds__(PLACE_THREADS) void k_put_places(const msi_window_sample *sample, uint32_t n,
                                                              const __grid_constant__ msi_degrid_classes c,
                                                              const uint8_t *class_of, const int32_t *taps,
                                                              int oversample, const uint32_t *count, uint32_t *taken,
                                                              int4 *place)
{
    extern __shared__ __align__(16) unsigned char memory[];
    place_store &s = *(place_store *)memory;
    const uint32_t t = threadIdx.x, first = blockIdx.x * PLACE_CHUNK;
    s.here[t] = 0;
    const uint32_t begin = sum_before(count[t]);
    __syncthreads();
    uint32_t tile[PLACE_EACH], rank[PLACE_EACH];
#pragma unroll
    for (uint32_t e = 0; e < PLACE_EACH; e++) {
        uint32_t i = first + e * PLACE_THREADS + t;
        if (i >= n) continue;
        tile[e] = find_tile(sample[i], c, class_of);
        rank[e] = atomicAdd(&s.here[tile[e]], 1u);
    }
    __syncthreads();
    const uint32_t mine = s.here[t], at = sum_before(mine);
    __syncthreads();
    s.here[t] = at;
    if (mine) s.to_less_at[t] = begin + atomicAdd(&taken[t], mine) - at;
    __syncthreads();
#pragma unroll
    for (uint32_t e = 0; e < PLACE_EACH; e++) {
        uint32_t i = first + e * PLACE_THREADS + t;
        if (i >= n) continue;
        const msi_window_sample x = sample[i];
        const int half = taps[x.plane] / 2;
        const uint32_t slot = s.here[tile[e]] + rank[e];
        s.place[slot] = {msi_degrid_wrap(x.u - half, c.nu), msi_degrid_wrap(x.v - half, c.nv),
                         (int)msi_degrid_kernel(&x, oversample), (int)i};
        s.to[slot] = s.to_less_at[tile[e]] + slot;
    }
    __syncthreads();
    for (uint32_t slot = t; slot < PLACE_CHUNK && first + slot < n; slot += PLACE_THREADS)
        place[s.to[slot]] = s.place[slot];
}

/* One block: a running sum over the tiles' numbers of pieces. */
__global__ __launch_bounds__(SCAN) void k_degrid_items(const uint32_t *first, int32_t n_tile, uint32_t most,
                                                       msi_degrid_item *item, uint32_t *n_item)
{
    __shared__ uint32_t warp_sum[SCAN / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t done = 0;
    for (int32_t base = 0; base < n_tile; base += SCAN) {
        int32_t t = base + (int32_t)threadIdx.x;
        uint32_t begin = t < n_tile ? first[t] : 0, end = t < n_tile ? first[t + 1] : 0;
        uint32_t pieces = (end - begin + most - 1) / most, sum = pieces;
        for (int d = 1; d < 32; d *= 2) {
            uint32_t below = __shfl_up_sync(~0u, sum, d);
            if (lane >= d) sum += below;
        }
        if (lane == 31) warp_sum[warp] = sum;
        __syncthreads();
        uint32_t before = done, all = 0;
        for (int w = 0; w < SCAN / 32; w++) {
            if (w == warp) before += all;
            all += warp_sum[w];
        }
        uint32_t at = before + sum - pieces;
        for (uint32_t p = 0; p < pieces; p++) {
            /* Pieces of one tile are of like size. */
            uint32_t from = begin + (uint32_t)((uint64_t)(end - begin) * p / pieces);
            uint32_t to = begin + (uint32_t)((uint64_t)(end - begin) * (p + 1) / pieces);
            item[at + p] = {t, from, to - from};
        }
        done += all;
        __syncthreads();
    }
    if (threadIdx.x == 0) *n_item = done;
}

} /* namespace */

struct msi_degrid_sorter {
    int64_t capacity, item_capacity;
    int32_t oversample, n_plane;
    msi_degrid_classes classes;
    uint8_t *class_of;
    uint32_t *word; /* [4 capacity]: the four below, or places */
    uint32_t *key[2], *index[2];
    uint32_t *place_count; /* [2][MSI_DEGRID_MAX_PLACE_TILES] */
    uint32_t *first, *n_item;
    msi_degrid_item *item;
    int32_t first_capacity;
    void *cub_space;
    size_t cub_bytes;
};

extern "C" void msi_degrid_sorter_free(msi_degrid_sorter *s)
{
    if (!s) return;
    void *memory[] = {s->class_of, s->word, s->place_count, s->first, s->n_item, s->item, s->cub_space};
    for (void *p : memory) cudaFree(p);
    delete s;
}

/* Classes from the widest down, each of planes no narrower than LIKE of its widest. */
static int make_classes(msi_degrid_sorter *s, const std::vector<int32_t> &taps)
{
    std::vector<int32_t> width(taps);
    std::sort(width.begin(), width.end(), [](int32_t a, int32_t b) { return a > b; });
    std::vector<uint8_t> class_of(taps.size());
    msi_degrid_classes &c = s->classes;
    for (int32_t w : width)
        if (c.n_class == 0 || (w < LIKE * c.of[c.n_class - 1].taps && c.n_class < MSI_DEGRID_MAX_CLASS))
            c.of[c.n_class++].taps = w;
    for (size_t p = 0; p < taps.size(); p++) {
        uint8_t k = (uint8_t)(c.n_class - 1);
        while (c.of[k].taps < taps[p]) k--;
        class_of[p] = k;
    }
    MSI_TRY(allocate(&s->class_of, s->n_plane, "kernel classes"));
    MSI_CUDA(cudaMemcpy(s->class_of, class_of.data(), class_of.size(), cudaMemcpyHostToDevice));
    return MSI_OK;
}

static int fill_sorter(msi_degrid_sorter *s, const msi_window_job *job)
{
    const msi_window_kernels &k = job->kernels;
    std::vector<int32_t> taps((size_t)k.n_plane);
    MSI_CUDA(cudaMemcpy(taps.data(), k.taps, taps.size() * sizeof taps[0], cudaMemcpyDeviceToHost));
    int32_t widest = *std::max_element(taps.begin(), taps.end());
    if (widest > job->nu || widest > job->nv)
        return msi_error_set(MSI_ERANGE, "kernels of %d taps do not fit a grid of %lld x %lld cells", widest,
                             (long long)job->nu, (long long)job->nv);
    s->classes.nu = (int32_t)job->nu;
    s->classes.nv = (int32_t)job->nv;
    MSI_TRY(make_classes(s, taps));
    static_assert(sizeof(msi_degrid_place) == 4 * sizeof(uint32_t), "places lie where keys and indices do");
    MSI_TRY(allocate(&s->word, 4 * job->n_vis, "sorting"));
    for (int b = 0; b < 2; b++) {
        s->key[b] = s->word + b * job->n_vis;
        s->index[b] = s->word + (2 + b) * job->n_vis;
    }
    MSI_TRY(allocate(&s->place_count, 2 * MSI_DEGRID_MAX_PLACE_TILES, "places"));
    MSI_TRY(allocate(&s->n_item, 1, "work items"));
    cub::DoubleBuffer<uint32_t> keys(s->key[0], s->key[1]), values(s->index[0], s->index[1]);
    MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, s->cub_bytes, keys, values, job->n_vis, 0, 32));
    return allocate((char **)&s->cub_space, (int64_t)s->cub_bytes, "sort workspace");
}

extern "C" int msi_degrid_sorter_create(msi_degrid_sorter **out, const msi_window_job *job)
{
    *out = nullptr;
    const msi_window_kernels &k = job->kernels;
    int64_t squares = (int64_t)k.n_plane * (k.oversample + 1) * (k.oversample + 1);
    if (!k.full || job->n_vis > INT32_MAX || job->nu > INT32_MAX / 2 || job->nv > INT32_MAX / 2 ||
        squares > INT32_MAX || k.n_plane < 1)
        return msi_error_set(MSI_ERANGE, "GPU: %lld samples on %lld x %lld cells with %lld kernels: too many",
                             (long long)job->n_vis, (long long)job->nu, (long long)job->nv, (long long)squares);
    msi_degrid_sorter *s = new msi_degrid_sorter{};
    s->capacity = job->n_vis;
    s->oversample = k.oversample;
    s->n_plane = k.n_plane;
    int status = fill_sorter(s, job);
    if (status != MSI_OK) {
        msi_degrid_sorter_free(s);
        return status;
    }
    *out = s;
    return MSI_OK;
}

extern "C" msi_degrid_classes *msi_degrid_sorter_classes(msi_degrid_sorter *s)
{
    return &s->classes;
}

extern "C" int msi_degrid_sorter_tiles(msi_degrid_sorter *s)
{
    int64_t n_tile = 0;
    for (int k = 0; k < s->classes.n_class; k++) {
        msi_degrid_class &c = s->classes.of[k];
        c.n_tile_u = (s->classes.nu + c.tile_u - 1) / c.tile_u;
        c.n_tile_v = (s->classes.nv + c.tile_v - 1) / c.tile_v;
        c.first_tile = (int32_t)n_tile;
        n_tile += (int64_t)c.n_tile_u * c.n_tile_v;
        if (n_tile >= INT32_MAX - BLOCK)
            return msi_error_set(MSI_ERANGE, "GPU: %d x %d cells make too many tiles of %d x %d", s->classes.nu,
                                 s->classes.nv, c.tile_u, c.tile_v);
    }
    s->classes.n_tile = (int32_t)n_tile;
    if (s->classes.n_tile > s->first_capacity) {
        MSI_TRY(allocate(&s->first, n_tile + 1, "tiles"));
        s->first_capacity = s->classes.n_tile;
    }
    return MSI_OK;
}

extern "C" int msi_degrid_sort(msi_degrid_sorter *s, const msi_window_job *job, int by_kernel, void *stream_,
                               msi_degrid_sorted *sorted)
{
    cudaStream_t stream = (cudaStream_t)stream_;
    if (job->n_vis > s->capacity)
        return msi_error_set(MSI_ERANGE, "%lld samples, and memory to sort %lld", (long long)job->n_vis,
                             (long long)s->capacity);
    int64_t squares = (int64_t)s->n_plane * (s->oversample + 1) * (s->oversample + 1);
    int tile_bits = bits_for(s->classes.n_tile), kernel_bits = by_kernel ? bits_for(2 * squares) : 0;
    key_shape shape = {0, std::max(0, tile_bits + kernel_bits - 32), by_kernel};
    shape.shift_left = kernel_bits - shape.shift_right;
    const uint32_t n = (uint32_t)job->n_vis;
    cub::DoubleBuffer<uint32_t> keys(s->key[0], s->key[1]), values(s->index[0], s->index[1]);
    if (n > 0) {
        k_degrid_keys<<<(n - 1) / BLOCK + 1, BLOCK, 0, stream>>>(job->sample, n, s->classes, s->class_of, s->oversample,
                                                                 shape, s->key[0], s->index[0]);
        MSI_CUDA(cudaGetLastError());
        size_t bytes = s->cub_bytes;
        int bits = tile_bits + shape.shift_left;
        if (bits > 0)
            MSI_CUDA(cub::DeviceRadixSort::SortPairs(s->cub_space, bytes, keys, values, (int64_t)n, 0, bits, stream));
    }
    k_degrid_first<<<(unsigned)(s->classes.n_tile / BLOCK + 1), BLOCK, 0, stream>>>(keys.Current(), n, shape.shift_left,
                                                                                    s->classes.n_tile, s->first);
    MSI_CUDA(cudaGetLastError());
    *sorted = {n, values.Current(), s->first, s->class_of};
    return MSI_OK;
}

extern "C" int msi_degrid_sort_places(msi_degrid_sorter *s, const msi_window_job *job, void *stream_,
                                      const msi_degrid_place **place)
{
    cudaStream_t stream = (cudaStream_t)stream_;
    if (job->n_vis > s->capacity || s->classes.n_tile > MSI_DEGRID_MAX_PLACE_TILES)
        return msi_error_set(MSI_ERANGE, "%lld samples in %d tiles, and memory for %lld in %d", (long long)job->n_vis,
                             (int)s->classes.n_tile, (long long)s->capacity, (int)MSI_DEGRID_MAX_PLACE_TILES);
    *place = (const msi_degrid_place *)s->word;
    if (job->n_vis == 0) return MSI_OK;
    const uint32_t n = (uint32_t)job->n_vis, blocks = (n - 1) / PLACE_CHUNK + 1;
    uint32_t *taken = s->place_count + MSI_DEGRID_MAX_PLACE_TILES;
    MSI_CUDA(cudaMemsetAsync(s->place_count, 0, 2 * MSI_DEGRID_MAX_PLACE_TILES * sizeof *taken, stream));
    k_count_places<<<blocks, PLACE_THREADS, 0, stream>>>(job->sample, n, s->classes, s->class_of, s->place_count);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaFuncSetAttribute(k_put_places, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(place_store)));
    k_put_places<<<blocks, PLACE_THREADS, sizeof(place_store), stream>>>(job->sample, n, s->classes, s->class_of,
                                                                         job->kernels.taps, s->oversample,
                                                                         s->place_count, taken, (int4 *)s->word);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

extern "C" int msi_degrid_list_items(msi_degrid_sorter *s, const msi_degrid_sorted *sorted, int32_t most, void *stream,
                                     const msi_degrid_item **item, const uint32_t **n_item)
{
    int64_t room = sorted->n / most + std::min<int64_t>(sorted->n, s->classes.n_tile);
    if (room > s->item_capacity) {
        MSI_TRY(allocate(&s->item, room, "work items"));
        s->item_capacity = room;
    }
    k_degrid_items<<<1, SCAN, 0, (cudaStream_t)stream>>>(s->first, s->classes.n_tile, (uint32_t)most, s->item,
                                                         s->n_item);
    MSI_CUDA(cudaGetLastError());
    *item = s->item;
    *n_item = s->n_item;
    return MSI_OK;
}
