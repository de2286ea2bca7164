/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Hints tell the L2 cache which lines to drop first and which to keep. An image that streams through the cache drives
 * out what is written in the order of visibilities given, a few bytes here and there, before its sectors are whole;
 * memory then has to be read and written for each part of a sector. So what streams goes first, and results stay.
 */
#ifndef MSI_KERNELS_CACHE_POLICY_CUDA_CUH
#define MSI_KERNELS_CACHE_POLICY_CUDA_CUH

#include <stdint.h>

namespace cache_policy {

/* Make a policy for lines that are driven out before all others; evict_last for those driven out after all others. */
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

#endif
