/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Add to complex cells in global memory atomically, with one transaction a cell or pair where the device has vector
 * reductions (compute capability 9). C is any type of two numbers, real part first. */
#ifndef MSI_KERNELS_VECTOR_ADD_CUDA_CUH
#define MSI_KERNELS_VECTOR_ADD_CUDA_CUH

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

/* Add to two neighbours, the first at a multiple of the size of both. */
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

#endif
