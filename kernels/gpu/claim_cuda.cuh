/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Many blocks fill one list at once: each thread claims its place in it. */
#ifndef MSI_KERNELS_CLAIM_CUDA_CUH
#define MSI_KERNELS_CLAIM_CUDA_CUH

#include <stdint.h>

/* Claim places in a list for the threads that have something for it, neighbours in order. All of a block of BLOCK
 * threads call. Returned: the calling thread's place. */
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

#endif
