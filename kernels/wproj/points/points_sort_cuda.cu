/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sort samples by tile, if there are few tiles and the order within a tile does not matter. A block counts its samples
 * by tile in shared memory. It adds the counts to the tiles' counters, which gives the positions of its samples. If all
 * blocks fit on the GPU at once, one kernel does this. An order defines the tiles and the stored data of a sample.
 */
#include "kernels/wproj/points/points_sort_cuda.h"

#include <algorithm>
#include <cooperative_groups.h>
#include <cub/device/device_radix_sort.cuh>
#include <vector>

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_range.h"

namespace points_place {

__device__ __forceinline__ uint32_t find_tile(const msi_wproj_sample &s, const msi_wproj_points_classes &c,
                                              const uint8_t *class_of)
{
    const msi_wproj_points_class &k = c.of[class_of[s.plane]];
    int u = msi_wproj_points_wrap(s.u - k.taps / 2, c.nu), v = msi_wproj_points_wrap(s.v - k.taps / 2, c.nv);
    return (uint32_t)(k.first_tile + v / k.tile_v * k.n_tile_u + u / k.tile_u);
}

/* A thread processes EACH samples and one tile. */
constexpr uint32_t PLACE_THREADS = MSI_WPROJ_POINTS_MAX_PLACE_TILES;

/* An order gives the tile of a sample and the data to store. This one uses tiles of the grid. */
struct tile_order {
    using place = int4;
    msi_wproj_points_classes classes;
    const uint8_t *class_of;
    const int32_t *taps;
    int32_t oversample;

    __device__ __forceinline__ uint32_t tile_of(const msi_wproj_sample &x) const
    {
        return find_tile(x, classes, class_of);
    }
    __device__ __forceinline__ place make(const msi_wproj_sample &x, uint32_t i, uint32_t *tile) const
    {
        const int half = taps[x.plane] / 2;
        *tile = tile_of(x);
        return {msi_wproj_points_wrap(x.u - half, classes.nu), msi_wproj_points_wrap(x.v - half, classes.nv),
                (int)msi_wproj_points_kernel(&x, oversample), (int)i};
    }
};

/* Division of numbers below 2^31 by a constant. */
struct divider {
    uint32_t by, multiplier;
    int32_t shift;

    explicit divider(uint32_t by_) : by(by_), shift(31)
    {
        while (((uint64_t)1 << (shift - 31)) < by) shift++;
        multiplier = (uint32_t)((((uint64_t)1 << shift) + by - 1) / by);
    }
    __device__ __forceinline__ uint32_t operator()(uint32_t x) const
    {
        return (uint32_t)((uint64_t)x * multiplier >> shift);
    }
};

/* This order uses bins of the rows of strips. */
struct strip_order {
    using place = uint2;
    int32_t nu, nv, half, oversample;
    uint32_t height;
    divider width, rows;

    struct position {
        uint32_t u, row, bin; /* position in the strip; row in the strip; its bin */
    };
    __device__ __forceinline__ position find(const msi_wproj_sample &x) const
    {
        const uint32_t u = (uint32_t)msi_wproj_points_wrap(x.u - half, nu), strip = width(u);
        const uint32_t line = strip * height + (uint32_t)msi_wproj_points_wrap(x.v - half, nv), bin = rows(line);
        return {u - strip * width.by, line - bin * rows.by, bin};
    }
    __device__ __forceinline__ uint32_t tile_of(const msi_wproj_sample &x) const
    {
        return find(x).bin;
    }
    __device__ __forceinline__ place make(const msi_wproj_sample &x, uint32_t i, uint32_t *tile) const
    {
        constexpr int ROW = MSI_WPROJ_POINTS_STRIP_U_BITS, KERNEL = ROW + MSI_WPROJ_POINTS_STRIP_ROW_BITS;
        static_assert(KERNEL + MSI_WPROJ_POINTS_STRIP_KERNEL_BITS < 32, "a place does not fit its word");
        const position p = find(x);
        const uint32_t kernel = msi_wproj_points_kernel(&x, oversample);
        *tile = p.bin;
        return {p.u | p.row << ROW | (kernel & 0x7fffffffu) << KERNEL | (kernel & 0x80000000u), i};
    }
};

template <class O> struct place_args {
    O order;
    const msi_wproj_sample *sample;
    uint32_t n;
    typename O::place *place;
    uint32_t most; /* samples of an item */
    msi_wproj_points_item *item;
    uint32_t *n_item;
};

/* Call f(e, i) for each sample i of a thread; e counts them. */
template <uint32_t EACH, class F> __device__ __forceinline__ void for_each_sample(uint32_t n, F f)
{
#pragma unroll
    for (uint32_t e = 0; e < EACH; e++) {
        const uint32_t i = (blockIdx.x * EACH + e) * PLACE_THREADS + threadIdx.x;
        if (i < n) f(e, i);
    }
}

/* Sum x over the threads of a block of PLACE_THREADS before this one. The block must synchronise between two calls. */
inline __device__ uint32_t sum_before(uint32_t x, uint32_t *all = nullptr)
{
    __shared__ uint32_t warp_sum[PLACE_THREADS / 32];
    static_assert(PLACE_THREADS / 32 == 32, "a lane a warp");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t sum = x;
    for (int d = 1; d < 32; d *= 2) {
        uint32_t below = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += below;
    }
    if (lane == 31) warp_sum[warp] = sum;
    __syncthreads();
    const uint32_t own = warp_sum[lane];
    uint32_t running = own;
    for (int d = 1; d < 32; d *= 2) {
        uint32_t below = __shfl_up_sync(~0u, running, d);
        if (lane >= d) running += below;
    }
    if (all) *all = __shfl_sync(~0u, running, 31);
    return __shfl_sync(~0u, running - own, warp) + sum - x;
}

/* A block's samples in order of tiles, and their positions. Most neighbours have neighbouring positions, so that whole
 * sectors are written. */
template <class O, uint32_t EACH> struct place_store {
    typename O::place place[EACH * PLACE_THREADS];
    uint32_t to[EACH * PLACE_THREADS];
    uint32_t here[PLACE_THREADS], slot[PLACE_THREADS], to_less_slot[PLACE_THREADS];
};

/* Write a block's samples to their positions. */
template <class O, uint32_t EACH>
__device__ __forceinline__ void write_places(const place_args<O> &a, const place_store<O, EACH> &s)
{
    __syncthreads();
#pragma unroll
    for (uint32_t e = 0; e < EACH; e++) {
        const uint32_t slot = e * PLACE_THREADS + threadIdx.x;
        if (blockIdx.x * EACH * PLACE_THREADS + slot < a.n) a.place[s.to[slot]] = s.place[slot];
    }
}

/* Divide a tile's samples into pieces of equal size, and list them after the pieces of earlier tiles. */
__device__ __forceinline__ void list_pieces(int32_t tile, uint32_t begin, uint32_t end, uint32_t pieces, uint32_t at,
                                            msi_wproj_points_item *item)
{
    for (uint32_t p = 0; p < pieces; p++) {
        uint32_t from = begin + (uint32_t)((uint64_t)(end - begin) * p / pieces);
        uint32_t to = begin + (uint32_t)((uint64_t)(end - begin) * (p + 1) / pieces);
        item[at + p] = {tile, from, to - from};
    }
}

/* List the items of all tiles. Called by one block, with one thread for each tile. */
template <class O> __device__ __forceinline__ void list_place_items(const place_args<O> &a, uint32_t begin, uint32_t n)
{
    uint32_t all;
    const uint32_t pieces = (n + a.most - 1) / a.most, at = sum_before(pieces, &all);
    list_pieces((int32_t)threadIdx.x, begin, begin + n, pieces, at, a.item);
    if (threadIdx.x == 0) *a.n_item = all;
}

/*
 * Sort in one kernel, whose blocks all run at the same time. A block counts its samples by tile, and waits until all
 * blocks have counted. Then it knows the positions of its samples. `count` must be zero at the start; count_after is
 * zero at the end.
 */
template <class O, uint32_t EACH>
__global__ __launch_bounds__(PLACE_THREADS) void k_sort_places(const __grid_constant__ place_args<O> a, uint32_t *count,
                                                               uint32_t *count_after)
{
    extern __shared__ __align__(16) unsigned char memory[];
    place_store<O, EACH> &s = *(place_store<O, EACH> *)memory;
    const uint32_t t = threadIdx.x;
#if __CUDA_ARCH__ >= 900
    /* Blocks of the next kernel may start when blocks of this one have ended. */
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    s.here[t] = 0;
    if (blockIdx.x == 0) count_after[t] = 0;
    __syncthreads();
    typename O::place place[EACH];
    uint32_t tile[EACH], rank[EACH];
    /* Load all samples before the first one is used. */
    msi_wproj_sample sample[EACH];
    for_each_sample<EACH>(a.n, [&](uint32_t e, uint32_t i) { sample[e] = a.sample[i]; });
    for_each_sample<EACH>(a.n, [&](uint32_t e, uint32_t i) { place[e] = a.order.make(sample[e], i, &tile[e]); });
    for_each_sample<EACH>(a.n, [&](uint32_t e, uint32_t) { rank[e] = atomicAdd(&s.here[tile[e]], 1u); });
    __syncthreads();
    const uint32_t own = s.here[t], slot = sum_before(own);
    const uint32_t taken = own ? atomicAdd(&count[t], own) : 0;
    cooperative_groups::this_grid().sync();
    const uint32_t n = __ldcg(count + t), begin = sum_before(n);
    s.slot[t] = slot;
    s.to_less_slot[t] = begin + taken - slot;
    __syncthreads();
    for_each_sample<EACH>(a.n, [&](uint32_t e, uint32_t) {
        const uint32_t at = s.slot[tile[e]] + rank[e];
        s.place[at] = place[e];
        s.to[at] = s.to_less_slot[tile[e]] + at;
    });
    if (blockIdx.x == gridDim.x - 1) list_place_items(a, begin, n);
    write_places(a, s);
}

/* Count the samples of every tile t in count[t]. */
template <class O, uint32_t EACH>
__global__ __launch_bounds__(PLACE_THREADS) void k_count_places(const __grid_constant__ place_args<O> a,
                                                                uint32_t *count)
{
    __shared__ uint32_t here[PLACE_THREADS];
    const uint32_t t = threadIdx.x;
    here[t] = 0;
    __syncthreads();
    for_each_sample<EACH>(a.n, [&](uint32_t, uint32_t i) { atomicAdd(&here[a.order.tile_of(a.sample[i])], 1u); });
    __syncthreads();
    if (here[t]) atomicAdd(&count[t], here[t]);
}

/* Write samples to their positions; taken[t] counts the positions of tile t in use. */
template <class O, uint32_t EACH>
__global__ __launch_bounds__(PLACE_THREADS) void k_put_places(const __grid_constant__ place_args<O> a,
                                                              const uint32_t *count, uint32_t *taken)
{
    extern __shared__ __align__(16) unsigned char memory[];
    place_store<O, EACH> &s = *(place_store<O, EACH> *)memory;
    const uint32_t t = threadIdx.x, n = count[t];
    s.here[t] = 0;
    const uint32_t begin = sum_before(n);
    __syncthreads();
    uint32_t tile[EACH], rank[EACH];
    for_each_sample<EACH>(a.n, [&](uint32_t e, uint32_t i) {
        tile[e] = a.order.tile_of(a.sample[i]);
        rank[e] = atomicAdd(&s.here[tile[e]], 1u);
    });
    __syncthreads();
    const uint32_t own = s.here[t], slot = sum_before(own);
    s.slot[t] = slot;
    if (own) s.to_less_slot[t] = begin + atomicAdd(&taken[t], own) - slot;
    __syncthreads();
    for_each_sample<EACH>(a.n, [&](uint32_t e, uint32_t i) {
        const uint32_t at = s.slot[tile[e]] + rank[e];
        s.place[at] = a.order.make(a.sample[i], i, &tile[e]);
        s.to[at] = s.to_less_slot[tile[e]] + at;
    });
    if (blockIdx.x == gridDim.x - 1) list_place_items(a, begin, n);
    write_places(a, s);
}

} // namespace points_place

/*
 * Sort samples by key, if there are many tiles or the order within a tile matters. A key has the tile in its high bits
 * and the kernel in its low bits. CUB's radix sort sorts only the bits in use. One thread per tile then finds the
 * tile's first sample by bisection. Only keys and indices are moved. Degridders read each sample once, by its index.
 */

namespace {

using namespace points_place;

constexpr int BLOCK = 256, SCAN = 1024;
constexpr double LIKE = 0.75; /* least ratio of the narrowest kernel of a class to its widest */

int bits_for(int64_t n)
{
    int bits = 0;
    while (((int64_t)1 << bits) < n) bits++;
    return bits;
}

/* A key is (tile << shift_left) | (kernel >> shift_right). shift_right drops the bits of the kernel that do not fit. */
struct key_shape {
    int shift_left, shift_right, by_kernel;
};

/* Make the key of every sample. */
__global__ void k_points_keys(const __grid_constant__ tile_order order, const msi_wproj_sample *sample, uint32_t n,
                              key_shape shape, uint32_t *key, uint32_t *index)
{
    uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    msi_wproj_sample s = sample[i];
    uint32_t tile = order.tile_of(s), low = 0;
    if (shape.by_kernel) {
        uint32_t kernel = msi_wproj_points_kernel(&s, order.oversample);
        low = (kernel << 1 | kernel >> 31) >> shape.shift_right;
    }
    key[i] = shape.shift_left < 32 ? tile << shape.shift_left | low : low;
    index[i] = i;
}

/* Find the beginning of every tile's samples. */
__global__ void k_points_first(const uint32_t *key, uint32_t n, int shift, int32_t n_tile, uint32_t *first)
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

/* List the items of all tiles. The only block keeps a running sum of the numbers of pieces. */
__global__ __launch_bounds__(SCAN) void k_points_items(const uint32_t *first, int32_t n_tile, uint32_t most,
                                                       msi_wproj_points_item *item, uint32_t *n_item)
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
        list_pieces(t, begin, end, pieces, at, item);
        done += all;
        __syncthreads();
    }
    if (threadIdx.x == 0) *n_item = done;
}

} // namespace

struct msi_wproj_points_sorter {
    msi_gpu_stream gpu;
    int64_t capacity, item_capacity;
    int32_t oversample, n_plane;
    msi_wproj_points_classes classes;
    uint8_t *class_of;
    uint32_t *word; /* [4 capacity]: keys and indices, or places */
    uint32_t *key[2], *index[2];
    uint32_t
        *place_count; /* [2][MSI_WPROJ_POINTS_MAX_PLACE_TILES]: one kernel: used and cleared alternately; two kernels:
                         samples counted, positions taken */
    int place_turn, place_each;
    int most_place_blocks; /* blocks of k_sort_places that run at the same time, with the widest places */
    uint32_t *first, *n_item;
    msi_wproj_points_item *item;
    int32_t first_capacity;
    void *cub_space;
    size_t cub_bytes;
};

extern "C" void msi_wproj_points_sorter_free(msi_wproj_points_sorter *s)
{
    if (!s) return;
    void *memory[] = {s->class_of, s->word, s->place_count, s->first, s->n_item, s->item, s->cub_space};
    for (void *p : memory) cudaFree(p);
    delete s;
}

/* Divide planes into classes of kernels of similar width, the widest class first. */
static int make_classes(msi_wproj_points_sorter *s, const std::vector<int32_t> &taps)
{
    std::vector<int32_t> width(taps);
    std::sort(width.begin(), width.end(), [](int32_t a, int32_t b) { return a > b; });
    std::vector<uint8_t> class_of(taps.size());
    msi_wproj_points_classes &c = s->classes;
    for (int32_t w : width)
        if (c.n_class == 0 || (w < LIKE * c.of[c.n_class - 1].taps && c.n_class < MSI_WPROJ_POINTS_MAX_CLASS))
            c.of[c.n_class++].taps = w;
    for (size_t p = 0; p < taps.size(); p++) {
        uint8_t k = (uint8_t)(c.n_class - 1);
        while (c.of[k].taps < taps[p]) k--;
        class_of[p] = k;
    }
    MSI_TRY(allocate(&s->class_of, s->n_plane, "kernel classes"));
    MSI_CUDA(cudaMemcpyAsync(s->class_of, class_of.data(), class_of.size(), cudaMemcpyHostToDevice,
                             (cudaStream_t)s->gpu.stream));
    return MSI_OK;
}

/* Set the shared memory of an order's kernels, and find the number of blocks that fit on a multiprocessor. */
template <class O, uint32_t EACH> static int ready_order(int *blocks_each)
{
    const int bytes = sizeof(place_store<O, EACH>);
    auto *sort = k_sort_places<O, EACH>;
    MSI_CUDA(cudaFuncSetAttribute(sort, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    MSI_CUDA(cudaFuncSetAttribute(k_put_places<O, EACH>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    MSI_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, sort, PLACE_THREADS, bytes));
    return MSI_OK;
}

template <uint32_t EACH> static int ready_places(msi_wproj_points_sorter *s)
{
    const int device = s->gpu.device;
    int can, by_tile, by_strip, processors;
    MSI_TRY((ready_order<tile_order, EACH>(&by_tile)));
    MSI_TRY((ready_order<strip_order, EACH>(&by_strip)));
    MSI_CUDA(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, device));
    MSI_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    s->place_each = (int)EACH;
    s->most_place_blocks = can ? std::min(by_tile, by_strip) * processors : 0;
    return MSI_OK;
}

/* Allocate counters. Choose the number of samples per thread so that a block's samples fit in shared memory: 176 KB
 * (sm_90) or 94 KB. */
static int make_place_counts(msi_wproj_points_sorter *s)
{
    size_t most;
    MSI_TRY(allocate(&s->place_count, 2 * MSI_WPROJ_POINTS_MAX_PLACE_TILES, "places"));
    MSI_CUDA(cudaMemsetAsync(s->place_count, 0, 2 * MSI_WPROJ_POINTS_MAX_PLACE_TILES * sizeof *s->place_count,
                             (cudaStream_t)s->gpu.stream));
    MSI_TRY(block_shared_bytes(&most));
    static_assert(sizeof(place_store<tile_order, 4>) + 1024 <= LEAST_SHARED_BYTES, "too much for a block of some GPUs");
    return sizeof(place_store<tile_order, 8>) + 1024 <= most ? ready_places<8>(s) : ready_places<4>(s);
}

static int fill_sorter(msi_wproj_points_sorter *s, const msi_wproj_job *job)
{
    const msi_wproj_kernels &k = job->kernels;
    std::vector<int32_t> taps((size_t)k.n_plane);
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    MSI_CUDA(cudaMemcpyAsync(taps.data(), k.taps, taps.size() * sizeof taps[0], cudaMemcpyDeviceToHost,
                             (cudaStream_t)s->gpu.stream));
    MSI_TRY(msi_gpu_stream_wait(&s->gpu));
    int32_t widest = *std::max_element(taps.begin(), taps.end());
    if (widest > job->nu || widest > job->nv)
        return msi_error_set(MSI_ERANGE, "kernels of %d taps do not fit a grid of %lld x %lld cells", widest,
                             (long long)job->nu, (long long)job->nv);
    s->classes.nu = (int32_t)job->nu;
    s->classes.nv = (int32_t)job->nv;
    MSI_TRY(make_classes(s, taps));
    static_assert(sizeof(msi_wproj_points_place) == 4 * sizeof(uint32_t), "places lie where keys and indices do");
    MSI_TRY(allocate(&s->word, 4 * job->n_vis, "sorting"));
    for (int b = 0; b < 2; b++) {
        s->key[b] = s->word + b * job->n_vis;
        s->index[b] = s->word + (2 + b) * job->n_vis;
    }
    MSI_TRY(make_place_counts(s));
    MSI_TRY(allocate(&s->n_item, 1, "work items"));
    cub::DoubleBuffer<uint32_t> keys(s->key[0], s->key[1]), values(s->index[0], s->index[1]);
    MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, s->cub_bytes, keys, values, job->n_vis, 0, 32));
    MSI_TRY(allocate((char **)&s->cub_space, (int64_t)s->cub_bytes, "sort workspace"));
    return msi_gpu_stream_wait(&s->gpu);
}

extern "C" int msi_wproj_points_sorter_create(msi_wproj_points_sorter **out, const msi_gpu_stream *gpu,
                                              const msi_wproj_job *job)
{
    *out = nullptr;
    const msi_wproj_kernels &k = job->kernels;
    int64_t squares = (int64_t)k.n_plane * (k.oversample + 1) * (k.oversample + 1);
    if (!k.full || job->n_vis > INT32_MAX || job->nu > INT32_MAX / 2 || job->nv > INT32_MAX / 2 ||
        squares > INT32_MAX || k.n_plane < 1)
        return msi_error_set(MSI_ERANGE, "GPU: %lld samples on %lld x %lld cells with %lld kernels: too many",
                             (long long)job->n_vis, (long long)job->nu, (long long)job->nv, (long long)squares);
    msi_wproj_points_sorter *s = new msi_wproj_points_sorter{};
    s->gpu = *gpu;
    s->capacity = job->n_vis;
    s->oversample = k.oversample;
    s->n_plane = k.n_plane;
    int status = fill_sorter(s, job);
    if (status != MSI_OK) {
        msi_wproj_points_sorter_free(s);
        return status;
    }
    *out = s;
    return MSI_OK;
}

extern "C" msi_wproj_points_classes *msi_wproj_points_sorter_classes(msi_wproj_points_sorter *s)
{
    return &s->classes;
}

extern "C" int msi_wproj_points_sorter_tiles(msi_wproj_points_sorter *s)
{
    int64_t n_tile = 0;
    for (int k = 0; k < s->classes.n_class; k++) {
        msi_wproj_points_class &c = s->classes.of[k];
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
        cudaFree(s->first);
        s->first_capacity = 0;
        MSI_TRY(allocate(&s->first, n_tile + 1, "tiles"));
        s->first_capacity = s->classes.n_tile;
    }
    return MSI_OK;
}

extern "C" int msi_wproj_points_sort(msi_wproj_points_sorter *s, const msi_wproj_job *job, int by_kernel,
                                     msi_wproj_points_sorted *sorted)
{
    const gpu_range range("sort points by tile");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
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
        const tile_order order = {s->classes, s->class_of, job->kernels.taps, s->oversample};
        k_points_keys<<<(n - 1) / BLOCK + 1, BLOCK, 0, stream>>>(order, job->sample, n, shape, s->key[0], s->index[0]);
        MSI_CUDA(cudaGetLastError());
        size_t bytes = s->cub_bytes;
        int bits = tile_bits + shape.shift_left;
        if (bits > 0)
            MSI_CUDA(cub::DeviceRadixSort::SortPairs(s->cub_space, bytes, keys, values, (int64_t)n, 0, bits, stream));
    }
    k_points_first<<<(unsigned)(s->classes.n_tile / BLOCK + 1), BLOCK, 0, stream>>>(keys.Current(), n, shape.shift_left,
                                                                                    s->classes.n_tile, s->first);
    MSI_CUDA(cudaGetLastError());
    *sorted = {n, values.Current(), s->first, s->class_of};
    return MSI_OK;
}

/* Allocate memory for the pieces of n samples. */
static int grow_items(msi_wproj_points_sorter *s, int64_t n, int32_t most, int32_t n_tile)
{
    const int64_t needed = n / most + std::min<int64_t>(n, n_tile);
    if (needed <= s->item_capacity) return MSI_OK;
    s->item_capacity = 0;
    cudaFree(s->item);
    MSI_TRY(allocate(&s->item, needed, "work items"));
    s->item_capacity = needed;
    return MSI_OK;
}

/* Sort with one launch if all blocks can run at the same time and the device supports this, else with two. */
template <uint32_t EACH, class O> static int sort_places(msi_wproj_points_sorter *s, place_args<O> a)
{
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    const uint32_t blocks = (a.n - 1) / (EACH * PLACE_THREADS) + 1;
    const size_t bytes = sizeof(place_store<O, EACH>);
    uint32_t *count = s->place_count, *other = s->place_count + MSI_WPROJ_POINTS_MAX_PLACE_TILES;
    if (blocks <= (uint32_t)s->most_place_blocks) {
        uint32_t *of_turn = s->place_turn ? other : count, *of_next = s->place_turn ? count : other;
        void *args[] = {&a, &of_turn, &of_next};
        const cudaError_t e = cudaLaunchCooperativeKernel((const void *)k_sort_places<O, EACH>, dim3(blocks),
                                                          dim3(PLACE_THREADS), args, bytes, stream);
        s->place_turn ^= 1;
        if (e != cudaErrorCooperativeLaunchTooLarge && e != cudaErrorNotSupported) {
            MSI_CUDA(e);
            return MSI_OK;
        }
        cudaGetLastError();
        s->most_place_blocks = 0;
    }
    MSI_CUDA(cudaMemsetAsync(count, 0, 2 * MSI_WPROJ_POINTS_MAX_PLACE_TILES * sizeof *count, stream));
    k_count_places<O, EACH><<<blocks, PLACE_THREADS, 0, stream>>>(a, count);
    MSI_CUDA(cudaGetLastError());
    k_put_places<O, EACH><<<blocks, PLACE_THREADS, bytes, stream>>>(a, count, other);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemsetAsync(count, 0, 2 * MSI_WPROJ_POINTS_MAX_PLACE_TILES * sizeof *count, stream));
    return MSI_OK;
}

template <class O>
static int sort_by(const O &order, msi_wproj_points_sorter *s, const msi_wproj_job *job, int32_t n_tile, int32_t most,
                   msi_wproj_points_placed *placed)
{
    const gpu_range range("sort points by place");
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    if (job->n_vis > s->capacity || n_tile > MSI_WPROJ_POINTS_MAX_PLACE_TILES)
        return msi_error_set(MSI_ERANGE, "%lld samples in %d tiles, and memory for %lld in %d", (long long)job->n_vis,
                             (int)n_tile, (long long)s->capacity, (int)MSI_WPROJ_POINTS_MAX_PLACE_TILES);
    MSI_TRY(grow_items(s, job->n_vis, most, n_tile));
    *placed = {nullptr, nullptr, s->item, s->n_item};
    if (job->n_vis == 0) return MSI_OK;
    const place_args<O> a = {order,   job->sample, (uint32_t)job->n_vis, (typename O::place *)s->word, (uint32_t)most,
                             s->item, s->n_item};
    return s->place_each == 8 ? sort_places<8>(s, a) : sort_places<4>(s, a);
}

extern "C" int msi_wproj_points_sort_places(msi_wproj_points_sorter *s, const msi_wproj_job *job, int32_t most,
                                            msi_wproj_points_placed *placed)
{
    const tile_order order = {s->classes, s->class_of, job->kernels.taps, s->oversample};
    MSI_TRY(sort_by(order, s, job, s->classes.n_tile, most, placed));
    placed->place = (const msi_wproj_points_place *)s->word;
    return MSI_OK;
}

extern "C" int msi_wproj_points_sort_strips(msi_wproj_points_sorter *s, const msi_wproj_job *job,
                                            const msi_wproj_points_strips *strips, int32_t most,
                                            msi_wproj_points_placed *placed)
{
    const strip_order order = {s->classes.nu,
                               s->classes.nv,
                               s->classes.of[0].taps / 2,
                               s->oversample,
                               (uint32_t)strips->height,
                               divider((uint32_t)strips->width),
                               divider((uint32_t)strips->rows)};
    MSI_TRY(sort_by(order, s, job, strips->n_bin, most, placed));
    placed->strip_place = (const msi_wproj_points_strip_place *)s->word;
    return MSI_OK;
}

extern "C" int msi_wproj_points_list_items(msi_wproj_points_sorter *s, const msi_wproj_points_sorted *sorted,
                                           int32_t most, const msi_wproj_points_item **item, const uint32_t **n_item)
{
    MSI_TRY(grow_items(s, sorted->n, most, s->classes.n_tile));
    k_points_items<<<1, SCAN, 0, (cudaStream_t)s->gpu.stream>>>(s->first, s->classes.n_tile, (uint32_t)most, s->item,
                                                                s->n_item);
    MSI_CUDA(cudaGetLastError());
    *item = s->item;
    *n_item = s->n_item;
    return MSI_OK;
}
