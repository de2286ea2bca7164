/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sums of lanes, of warps and of tiles become values here, for degridding with a moving window. */
#ifndef MSI_KERNELS_WPROJ_WINDOW_VALUES_CUH
#define MSI_KERNELS_WPROJ_WINDOW_VALUES_CUH

#include "kernels/wproj/window/wproj_window_forms.cuh"

namespace {

/*
 * Sum x[0 .. COUNT - 1] over lanes that differ in the bits 16 .. LAST of their numbers; COUNT is a power of two.
 * Returned: in lane l, the total of x[i], i the number that transposed_index gives for l
 * Notes:    as warp_sum::fold, but in place, which spills less here
 */
template <int COUNT, int LAST = 1, typename T> __device__ __forceinline__ T transposed_sum(T *x, int lane)
{
    static_assert((COUNT & (COUNT - 1)) == 0, "every step halves the numbers");
    int bit = 16;
#pragma unroll
    for (int n = COUNT / 2; n >= 1; n /= 2, bit /= 2) {
        bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < n; i++) {
            T send = upper ? x[i] : x[i + n], stay = upper ? x[i + n] : x[i];
            x[i] = stay + __shfl_xor_sync(ALL_LANES, send, bit);
        }
    }
    for (; bit >= LAST; bit /= 2) x[0] += __shfl_xor_sync(ALL_LANES, x[0], bit);
    return x[0];
}

/* Find which total lane l holds, or COUNT where it repeats the one of the lane before. Bits below LAST are 0. */
template <int COUNT> __device__ __forceinline__ int transposed_index(int lane)
{
    constexpr int LANES = 32 / COUNT;
    return lane % LANES == 0 ? lane / LANES : COUNT;
}

/* Add up a batch's sums of warps, which are complete, into the values. */
template <int P, typename T>
__device__ void write_totals(const T *part, int part_stride, cplx<T> *value, int n_image, int n, bool several)
{
    for (int i = threadIdx.x; i < 2 * n * P; i += blockDim.x) {
        T total = 0;
        for (int w = 0; w < (int)blockDim.x / 32; w++) total += part[w * part_stride + i];
        T *out = (T *)(value + i / (2 * P) * n_image) + i % (2 * P);
        if (several) {
            atomicAdd(out, total);
        } else {
            *out = total;
        }
    }
}

} // namespace

#endif
