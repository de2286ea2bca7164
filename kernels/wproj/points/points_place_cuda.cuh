/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Samples are put into their places here, tile by tile, where there are few tiles and the order within them is free. A
 * block counts its samples by tile in shared memory, adds what it counted to the tiles' numbers, and so learns where
 * its samples go; in one kernel, if all blocks fit the GPU at once. An order decides what is kept of a sample.
 */
#ifndef MSI_KERNELS_POINTS_PLACE_CUDA_CUH
#define MSI_KERNELS_POINTS_PLACE_CUDA_CUH

#include "kernels/wproj/points/points_sort_cuda.h"

#include <cooperative_groups.h>

namespace points_place {

__device__ __forceinline__ uint32_t find_tile(const msi_wproj_sample &s, const msi_wproj_points_classes &c,
                                              const uint8_t *class_of)
{
    const msi_wproj_points_class &k = c.of[class_of[s.plane]];
    int u = msi_wproj_points_wrap(s.u - k.taps / 2, c.nu), v = msi_wproj_points_wrap(s.v - k.taps / 2, c.nv);
    return (uint32_t)(k.first_tile + v / k.tile_v * k.n_tile_u + u / k.tile_u);
}

/* A block has EACH samples and a tile to a thread. */
constexpr uint32_t PLACE_THREADS = MSI_WPROJ_POINTS_MAX_PLACE_TILES;

/* An order says which tile a sample belongs to and what is kept of it. This one goes by tiles of the grid. */
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

/* A divider divides numbers below 2^31 by one that does not change. */
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

/* This order goes by bins of a strip's rows. */
struct strip_order {
    using place = uint2;
    int32_t nu, nv, half, oversample;
    uint32_t height;
    divider width, rows;

    struct position {
        uint32_t u, row, bin; /* of the strip, of the bin */
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

/* Call f(e, i) for a thread's samples i of a block. */
template <uint32_t EACH, class F> __device__ __forceinline__ void for_each_sample(uint32_t n, F f)
{
#pragma unroll
    for (uint32_t e = 0; e < EACH; e++) {
        const uint32_t i = (blockIdx.x * EACH + e) * PLACE_THREADS + threadIdx.x;
        if (i < n) f(e, i);
    }
}

/* Sum x over the threads before this one of a block of PLACE_THREADS; the block meets between two calls. */
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

/* A block holds its samples in their order, and where each goes: neighbours mostly to neighbours, so that whole sectors
 * are written. */
template <class O, uint32_t EACH> struct place_store {
    typename O::place place[EACH * PLACE_THREADS];
    uint32_t to[EACH * PLACE_THREADS];
    uint32_t here[PLACE_THREADS], slot[PLACE_THREADS], to_less_slot[PLACE_THREADS];
};

/* Write a block's samples to their places. */
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

/* List pieces of like size of a tile's samples behind those of the tiles before. */
__device__ __forceinline__ void list_pieces(int32_t tile, uint32_t begin, uint32_t end, uint32_t pieces, uint32_t at,
                                            msi_wproj_points_item *item)
{
    for (uint32_t p = 0; p < pieces; p++) {
        uint32_t from = begin + (uint32_t)((uint64_t)(end - begin) * p / pieces);
        uint32_t to = begin + (uint32_t)((uint64_t)(end - begin) * (p + 1) / pieces);
        item[at + p] = {tile, from, to - from};
    }
}

/* List the items by one block, a tile to a thread. */
template <class O> __device__ __forceinline__ void list_place_items(const place_args<O> &a, uint32_t begin, uint32_t n)
{
    uint32_t all;
    const uint32_t pieces = (n + a.most - 1) / a.most, at = sum_before(pieces, &all);
    list_pieces((int32_t)threadIdx.x, begin, begin + n, pieces, at, a.item);
    if (threadIdx.x == 0) *a.n_item = all;
}

/*
 * Sort in one kernel, by blocks that run at the same time: a block counts its samples by tile, waits until all have
 * counted, and then knows where they go. count: zero before; count_after: zero afterwards.
 */
template <class O, uint32_t EACH>
__global__ __launch_bounds__(PLACE_THREADS) void k_sort_places(const __grid_constant__ place_args<O> a, uint32_t *count,
                                                               uint32_t *count_after)
{
    extern __shared__ __align__(16) unsigned char memory[];
    place_store<O, EACH> &s = *(place_store<O, EACH> *)memory;
    const uint32_t t = threadIdx.x;
#if __CUDA_ARCH__ >= 900
    /* Blocks of a kernel that may overlap this one come where blocks of this one have gone. */
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    s.here[t] = 0;
    if (blockIdx.x == 0) count_after[t] = 0;
    __syncthreads();
    typename O::place place[EACH];
    uint32_t tile[EACH], rank[EACH];
    /* All samples are on their way before the first is used. */
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

/* Put samples into their places; taken[t] counts those of tile t's places that blocks have taken. */
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

#endif
