/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Device code shared by degridders with tabulated kernels: kernels, and an iteration over taps. */
#ifndef MSI_KERNELS_POINTS_DEVICE_CUH
#define MSI_KERNELS_POINTS_DEVICE_CUH

#include "kernels/gpu/complex_cuda.cuh"
#include "kernels/wproj/points/points_sort_cuda.h"

namespace points {

using namespace complex_cuda;
using namespace warp_sum;

template <typename T> __device__ __forceinline__ void atomic_add(cplx<T> *to, cplx<T> x)
{
    atomicAdd(&to->re, x.re);
    atomicAdd(&to->im, x.im);
}

/* A view of kernels on the device. */
template <typename T> struct kernel_view {
    const cplx<T> *table;
    const int64_t *offset;
    const int32_t *taps;
    int32_t oversample;
};

/* A square of weights; `sign` flips the imaginary parts: degridding conjugates what gridding takes as it stands. */
template <typename T> struct square {
    const cplx<T> *first;
    int32_t taps;
    uint32_t sign;
};

/* Find a kernel's square from the number returned by msi_wproj_points_kernel. */
template <typename T> __device__ __forceinline__ square<T> find_square(const kernel_view<T> &k, uint32_t kernel)
{
    uint32_t squares = (uint32_t)((k.oversample + 1) * (k.oversample + 1)), at = kernel & ~CONJUGATE;
    uint32_t plane = at / squares;
    int taps = k.taps[plane];
    return {k.table + k.offset[plane] + (int64_t)(at - plane * squares) * taps * taps, taps, ~kernel & CONJUGATE};
}

/*
 * LANES lanes share a rectangle of taps, row after row, lane l taking taps l, l + LANES, .. Each keeps its place in the
 * image and in the table, in bytes or elements as the caller's strides are, without a division in the loop.
 */
struct tap_walk {
    int32_t column, image, table; /* offsets of this lane's tap from the rectangle's first */
    int32_t width, rest;          /* taps a row; columns that a step moves beyond whole rows */
    int32_t image_step, image_carry, table_step, table_carry;

    __device__ __forceinline__ void advance()
    {
        column += rest;
        image += image_step;
        table += table_step;
        if (column >= width) {
            column -= width;
            image += image_carry;
            table += table_carry;
        }
    }
};

/* Start an iteration. image_tap and table_tap are the strides from a tap to its neighbour in the row, image_row and
 * table_row from a row to the next. */
__device__ __forceinline__ tap_walk start_walk(int lane, int lanes, int width, int image_tap, int image_row,
                                               int table_tap, int table_row)
{
    tap_walk w;
    int row = lane / width, rows = lanes / width;
    w.width = width;
    w.column = lane - row * width;
    w.rest = lanes - rows * width;
    w.image = row * image_row + w.column * image_tap;
    w.table = row * table_row + w.column * table_tap;
    w.image_step = rows * image_row + w.rest * image_tap;
    w.table_step = rows * table_row + w.rest * table_tap;
    w.image_carry = image_row - width * image_tap;
    w.table_carry = table_row - width * table_tap;
    return w;
}

} // namespace points

#endif
