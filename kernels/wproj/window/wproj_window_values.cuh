/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sums of lanes, of warps and of tiles become values here, for degridding with a moving window. */
#ifndef MSI_KERNELS_WPROJ_WINDOW_VALUES_CUH
#define MSI_KERNELS_WPROJ_WINDOW_VALUES_CUH

#include "kernels/wproj/window/wproj_window_forms.cuh"

namespace {

/*
 * Sum x[0 .. COUNT - 1] over lanes that differ in the bits 16 .. LAST of their numbers.
 * Returned: in lane l, the total of x[i], i the number that transposed_index gives for l
 */
template <int COUNT, int LAST = 1, typename T> __device__ __forceinline__ T transposed_sum(T *x, int lane)
{
    int bit = 16;
#pragma unroll
    for (int n = COUNT; n > 1; n = (n + 1) / 2, bit /= 2) {
        int keep = (n + 1) / 2;
        bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < keep; i++) {
            if (i + keep < n) {
                T send = upper ? x[i] : x[i + keep], stay = upper ? x[i + keep] : x[i];
                x[i] = stay + __shfl_xor_sync(ALL_LANES, send, bit);
            } else {
                x[i] += __shfl_xor_sync(ALL_LANES, x[i], bit);
            }
        }
    }
    for (; bit >= LAST; bit /= 2) x[0] += __shfl_xor_sync(ALL_LANES, x[0], bit);
    return x[0];
}

/* Find which total lane l holds, or COUNT and more where it repeats one that another lane holds. Bits below LAST are 0.
 */
template <int COUNT> __device__ __forceinline__ int transposed_index(int lane)
{
    int bit = 16, index = 0, sizes[6], levels = 0;
#pragma unroll
    for (int n = COUNT; n > 1; n = (n + 1) / 2) sizes[levels++] = n;
    int used = 0;
#pragma unroll
    for (int l = 0; l < levels; l++, bit /= 2) used |= bit;
    if (lane & ~used) return COUNT;
    /* Back from the last halving: number i of the kept ones came from i, or from i + keep in the upper half. */
    bit *= 2;
#pragma unroll
    for (int l = levels - 1; l >= 0; l--, bit *= 2) {
        int keep = (sizes[l] + 1) / 2;
        if (lane & bit) {
            if (index + keep >= sizes[l]) return COUNT;
            index += keep;
        }
    }
    return index;
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
