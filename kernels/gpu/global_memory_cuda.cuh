/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Access to global memory: atomic additions to complex cells, cache hints for stores, places in a list that many
 * blocks fill, and sums over the threads of a block.
 *
 * vector_add uses one transaction for a cell, or for a pair of cells, on devices with vector reductions (compute
 * capability 9.0). C is any type of two numbers, real part first.
 */
#ifndef MSI_GLOBAL_MEMORY_CUDA_CUH
#define MSI_GLOBAL_MEMORY_CUDA_CUH

#include <stdint.h>

namespace vector_add {

/* Add to a cell, whose address is a multiple of its size. */
template <typename C> __device__ __forceinline__ void add_one(C *cell, float re, float im)
{
    static_assert(sizeof(C) == 2 * sizeof re);
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(cell), "f"(re), "f"(im) : "memory");
#else
    auto &[x, y] = *cell;
    atomicAdd(&x, re);
    atomicAdd(&y, im);
#endif
}

template <typename C> __device__ __forceinline__ void add_one(C *cell, double re, double im)
{
    auto &[x, y] = *cell;
    atomicAdd(&x, re);
    atomicAdd(&y, im);
}

/* Add to two neighbouring cells. The first one's address is a multiple of the size of both. */
template <typename C> __device__ __forceinline__ void add_two(C *cell, float re0, float im0, float re1, float im1)
{
    static_assert(sizeof(C) == 2 * sizeof re0);
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(cell), "f"(re0), "f"(im0), "f"(re1), "f"(im1)
                 : "memory");
#else
    add_one(cell, re0, im0);
    add_one(cell + 1, re1, im1);
#endif
}

template <typename C> __device__ __forceinline__ void add_two(C *cell, double re0, double im0, double re1, double im1)
{
    add_one(cell, re0, im0);
    add_one(cell + 1, re1, im1);
}

} // namespace vector_add

/*
 * Hints for the L2 cache: which lines to evict first, and which last. An image that streams through the cache evicts
 * results that are written a few bytes at a time, in the order of the visibilities, before their sectors are complete.
 * Memory then has to be read and written for each part of a sector. Streamed data are therefore evicted first, and
 * results last.
 */

namespace cache_policy {

/* Make a policy for lines that are evicted before all others. evict_last: after all others. */
__device__ __forceinline__ uint64_t evict_first()
{
    uint64_t policy = 0;
#if __CUDA_ARCH__ >= 800
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
    return policy;
}

__device__ __forceinline__ uint64_t evict_last()
{
    uint64_t policy = 0;
#if __CUDA_ARCH__ >= 800
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#endif
    return policy;
}

__device__ __forceinline__ void store(float *to, float x, uint64_t policy)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(to), "f"(x), "l"(policy) : "memory");
#else
    *to = x;
#endif
}

__device__ __forceinline__ void store(double *to, double x, uint64_t policy)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("st.global.L2::cache_hint.f64 [%0], %1, %2;" ::"l"(to), "d"(x), "l"(policy) : "memory");
#else
    *to = x;
#endif
}

} // namespace cache_policy

/*
 * Claim places in a list that many blocks fill, for the threads with has = true; neighbouring threads get places in
 * order. All BLOCK threads of a block must call it.
 * Returned: the calling thread's place
 */
template <int BLOCK> __device__ inline uint32_t claim(bool has, uint32_t *counter)
{
    __shared__ uint32_t before[BLOCK / 32], base;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned votes = __ballot_sync(~0u, has);
    if (lane == 0) before[warp] = (uint32_t)__popc(votes);
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t sum = 0;
        for (int k = 0; k < BLOCK / 32; k++) {
            uint32_t n = before[k];
            before[k] = sum;
            sum += n;
        }
        base = sum ? atomicAdd(counter, sum) : 0;
    }
    __syncthreads();
    const uint32_t at = base + before[warp] + (uint32_t)__popc(votes & ((1u << lane) - 1));
    __syncthreads();
    return at;
}

/*
 * Add up the sums of a block's threads. All BLOCK threads of a block must call it. SUMS is a structure of members that
 * are multiples of four bytes, and has a function add(SUMS).
 * Given: is_added  the sum is added to out[block], else it replaces it
 * Returned: out [blocks]
 */
template <int BLOCK, typename SUMS> __device__ void sum_block(SUMS own, bool is_added, SUMS *out)
{
    __shared__ SUMS of_warp[BLOCK / 32];
    constexpr int WORDS = sizeof(SUMS) / sizeof(int);
    for (int step = 16; step; step /= 2) {
        SUMS other;
        for (int k = 0; k < WORDS; k++)
            reinterpret_cast<int *>(&other)[k] = __shfl_down_sync(~0u, reinterpret_cast<int *>(&own)[k], step);
        own.add(other);
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int warp = 1; warp < BLOCK / 32; warp++) own.add(of_warp[warp]);
    if (is_added) own.add(out[blockIdx.x]);
    out[blockIdx.x] = own;
}

#endif
