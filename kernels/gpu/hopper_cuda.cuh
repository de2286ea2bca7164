/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Features of compute capability 9.0: barriers in shared memory, at which threads and copies arrive, and copies of
 * rectangles by hardware (box_copy), which the driver describes. The device functions are empty for older devices.
 */
#ifndef MSI_HOPPER_CUDA_CUH
#define MSI_HOPPER_CUDA_CUH

#include <cudaTypedefs.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/gpu/cuda_memory.h"

namespace hopper {

constexpr int ARCHITECTURE = 90; /* architecture for which kernels must be compiled */

/* find_encoder - find cuTensorMapEncodeTiled, which can only be found by name. Returns: whether the driver has it */
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
 * dynamic_shared_bytes - return the most dynamic shared memory of a block of this kernel on the current device.
 * Returns: bytes; 0 if the kernel was compiled for an older architecture, and is therefore empty
 */
template <class K> size_t dynamic_shared_bytes(K *kernel)
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

/* Return the 32-bit address of an object in shared memory. */
__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Set the number of arrivals that complete a phase. One thread calls it, then fence_barriers, then the block
 * synchronises. */
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

/* Wait until the phase of this parity is complete. The parities of phases alternate, 0 first. */
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

/* Arrive, and make the phase wait for this many copied bytes too. */
__device__ __forceinline__ void arrive_and_expect(uint64_t *barrier, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
#endif
}

#endif

} // namespace hopper

/*
 * Copy rectangles of an image into shared memory by hardware: one thread starts a copy, and a barrier in shared memory
 * counts the bytes that arrive.
 */

namespace box_copy {

constexpr int MOST_ELEMENTS = 256; /* elements of a box, along an axis */

/*
 * describe - describe boxes of `columns` x `rows` elements of 8 bytes, stored row by row in shared memory, of an image
 * of nu x nv elements. Elements beyond the image's edges are zeros.
 * Returns: whether the hardware supports such boxes
 */
inline bool describe(CUtensorMap *box, const void *image, int64_t nu, int64_t nv, int columns, int rows)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode;
    const cuuint64_t length[] = {(cuuint64_t)nu, (cuuint64_t)nv}, row_bytes[] = {(cuuint64_t)nu * sizeof(double)};
    const cuuint32_t size[] = {(cuuint32_t)columns, (cuuint32_t)rows}, every[] = {1, 1};
    if (columns > MOST_ELEMENTS || rows > MOST_ELEMENTS || columns % 2 != 0 || nu % 2 != 0) return false;
    if (!hopper::find_encoder(&encode)) return false;
    return encode(box, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 2, (void *)image, length, row_bytes, size, every,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#ifdef __CUDACC__

/* Prepare a barrier for one copy a round. All threads of the block synchronise before any of them waits. */
__device__ __forceinline__ void init_barrier(uint64_t *barrier)
{
    hopper::init_barrier(barrier, 1);
    hopper::fence_barriers();
}

/* Start to copy the box that begins at element u of row v, `bytes` in all. One thread calls it, after all threads are
 * done with `to`. */
__device__ __forceinline__ void copy(void *to, const CUtensorMap *box, int u, int v, uint32_t bytes, uint64_t *barrier)
{
#if __CUDA_ARCH__ >= 900
    /* Order the threads' writes to `to` before the copy, which uses another proxy. */
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    hopper::arrive_and_expect(barrier, bytes);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(hopper::shared_address(to)),
                 "l"(box), "r"(u), "r"(v), "r"(hopper::shared_address(barrier))
                 : "memory");
#endif
}

/* Wait for a copy. *round is 0 before the first one. */
__device__ __forceinline__ void wait(uint64_t *barrier, uint32_t *round)
{
    hopper::wait_for(barrier, *round);
    *round ^= 1;
}

/* Prefetch a box into the L2 cache, without waiting. */
__device__ __forceinline__ void prefetch(const CUtensorMap *box, int u, int v)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(box), "r"(u), "r"(v) : "memory");
#endif
}

#endif

} // namespace box_copy

#endif
