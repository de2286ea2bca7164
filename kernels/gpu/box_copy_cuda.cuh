/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rectangles of an image copied into shared memory by the hardware, from compute capability 9.0 on: one thread starts
 * a copy, and a barrier in shared memory counts the bytes that arrive.
 */
#ifndef MSI_KERNELS_BOX_COPY_CUDA_CUH
#define MSI_KERNELS_BOX_COPY_CUDA_CUH

#include <stdint.h>

#include "kernels/gpu/hopper_cuda.cuh"

namespace box_copy {

constexpr int MOST_ELEMENTS = 256; /* of a box, along an axis */

/*
 * describe - describe boxes of `columns` x `rows` elements of 8 bytes, row after row in shared memory, of an image of
 * nu x nv elements; elements beyond its edges are zeros.
 * Returns: whether the hardware knows such boxes
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

/* Prepare a barrier for one copy a round. All threads of the block meet before any of them waits. */
__device__ __forceinline__ void init_barrier(uint64_t *barrier)
{
    hopper::init_barrier(barrier, 1);
    hopper::fence_barriers();
}

/* Start copying the box from element u of row v on, `bytes` in all; by one thread, after all are done with `to`. */
__device__ __forceinline__ void copy(void *to, const CUtensorMap *box, int u, int v, uint32_t bytes, uint64_t *barrier)
{
#if __CUDA_ARCH__ >= 900
    /* `to` may have been written by threads; the copy comes another way. */
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    hopper::arrive_and_expect(barrier, bytes);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(hopper::shared_address(to)),
                 "l"(box), "r"(u), "r"(v), "r"(hopper::shared_address(barrier))
                 : "memory");
#endif
}

/* Wait for a copy; *round is 0 before the first. */
__device__ __forceinline__ void wait(uint64_t *barrier, uint32_t *round)
{
    hopper::wait_for(barrier, *round);
    *round ^= 1;
}

/* Bring a box into the L2 cache; nobody waits. */
__device__ __forceinline__ void prefetch(const CUtensorMap *box, int u, int v)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(box), "r"(u), "r"(v) : "memory");
#endif
}

#endif

} // namespace box_copy

#endif
