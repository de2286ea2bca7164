/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compute capability 9.0 brought barriers in shared memory, which threads and copies arrive at, and copying of
 * rectangles by the hardware, to which the driver describes them. Device functions are empty for older ones. */
#ifndef MSI_KERNELS_HOPPER_CUDA_CUH
#define MSI_KERNELS_HOPPER_CUDA_CUH

#include <stdint.h>

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include "kernels/gpu/cuda_memory.h"

namespace hopper {

constexpr int ARCHITECTURE = 90; /* that kernels must be compiled for */

/* find_encoder - cuTensorMapEncodeTiled; there is no other way to it than by name. Returns: whether the driver has it
 */
inline bool find_encoder(PFN_cuTensorMapEncodeTiled_v12000 *encode)
{
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)encode, 12000, cudaEnableDefault, &found);
#else
    cudaError_t status = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", (void **)encode, cudaEnableDefault, &found);
#endif
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess && found == cudaDriverEntryPointSuccess;
}

#ifdef __CUDACC__

/*
 * room_for - return the dynamic shared memory that a block of a kernel may have on the device in use.
 * Returns: bytes; 0 where the kernel was compiled for an older architecture and then translated, and is empty
 */
template <class K> size_t room_for(K *kernel)
{
    cudaFuncAttributes compiled;
    size_t bytes;
    if (cudaFuncGetAttributes(&compiled, kernel) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    if (compiled.ptxVersion < ARCHITECTURE || block_shared_bytes(&bytes) != MSI_OK) return 0;
    return bytes > compiled.sharedSizeBytes ? bytes - compiled.sharedSizeBytes : 0;
}

/* Find the 32-bit address of a place in shared memory. */
__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Have n arrivals make a phase. One thread calls, then fence_barriers, then the block meets. */
__device__ __forceinline__ void init_barrier(uint64_t *barrier, uint32_t n)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(n) : "memory");
#endif
}

__device__ __forceinline__ void fence_barriers()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/* Wait until the phase of this parity is over; phases have 0 and 1 in turn. */
__device__ __forceinline__ void wait_for(uint64_t *barrier, uint32_t parity)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
#endif
}

__device__ __forceinline__ void arrive(uint64_t *barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

/* Arrive, and have the phase wait for so many copied bytes too. */
__device__ __forceinline__ void arrive_and_expect(uint64_t *barrier, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
#endif
}

#endif

} // namespace hopper

#endif
