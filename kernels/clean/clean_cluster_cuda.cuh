/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Blocks of a cluster send each other words through distributed shared memory: a store that counts its bytes at a
 * barrier of the receiver's, so that whoever waits there has the words, and nobody waits for anybody else. Compute
 * capability 9.0; empty before.
 */
#ifndef MSI_CLEAN_CLUSTER_CUDA_CUH
#define MSI_CLEAN_CLUSTER_CUDA_CUH

#include <stdint.h>

#include "kernels/gpu/hopper_cuda.cuh"

namespace clean_cluster {

#ifdef __CUDACC__

/* Return the address of the same place in another block's shared memory. */
__device__ __forceinline__ uint32_t address_in(const void *p, uint32_t block)
{
    uint32_t there = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(hopper::shared_address(p)), "r"(block));
#endif
    return there;
}

/* Send four words, or one number, to an address in another block, and tell the barrier there. */
__device__ __forceinline__ void send(uint32_t to, uint4 v, uint32_t barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
        "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
        : "memory");
#endif
}
__device__ __forceinline__ void send(uint32_t to, float v, uint32_t barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
                 "r"(__float_as_uint(v)), "r"(barrier)
                 : "memory");
#endif
}
__device__ __forceinline__ void send(uint32_t to, double v, uint32_t barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to),
                 "l"(__double_as_longlong(v)), "r"(barrier)
                 : "memory");
#endif
}

/* Wait until a phase of a barrier is over, and see what other blocks sent in it. */
__device__ __forceinline__ void wait(uint64_t *barrier, uint32_t parity)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(hopper::shared_address(barrier)),
                 "r"(parity)
                 : "memory");
#endif
}

/* Meet all threads of the cluster. */
__device__ __forceinline__ void meet()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#endif
}

#endif

} // namespace clean_cluster

#endif
