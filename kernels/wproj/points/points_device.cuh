/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Device code shared by degridders with tabulated kernels: access to the kernels, and loops over their taps. */
#ifndef MSI_KERNELS_POINTS_DEVICE_CUH
#define MSI_KERNELS_POINTS_DEVICE_CUH

#include "kernels/gpu/complex_cuda.cuh"
#include "kernels/wproj/points/points_sort_cuda.h"

namespace points {

using namespace complex_cuda;
using namespace warp_sum;

/* Add x to *to atomically, part by part. */
template <typename T> __device__ __forceinline__ void atomic_add(cplx<T> *to, cplx<T> x)
{
    atomicAdd(&to->re, x.re);
    atomicAdd(&to->im, x.im);
}

/* The kernels of all w-planes, in device memory. */
template <typename T> struct kernel_view {
    const cplx<T> *table;
    const int64_t *offset; /* [planes] first element of a plane in table */
    const int32_t *taps;   /* [planes] taps of a kernel along u and v */
    int32_t oversample;    /* a plane has (oversample + 1)^2 squares */
};

/* The taps x taps weights of a sample. `sign` is the bit that flips the sign of imaginary parts (flip), because
 * degridding uses the conjugate of the gridding kernel. */
template <typename T> struct square {
    const cplx<T> *first;
    int32_t taps;
    uint32_t sign;
};

/* Find the square of a kernel number, as returned by msi_wproj_points_kernel. */
template <typename T> __device__ __forceinline__ square<T> find_square(const kernel_view<T> &k, uint32_t kernel)
{
    uint32_t squares = (uint32_t)((k.oversample + 1) * (k.oversample + 1)), at = kernel & ~CONJUGATE;
    uint32_t plane = at / squares;
    int taps = k.taps[plane];
    return {k.table + k.offset[plane] + (int64_t)(at - plane * squares) * taps * taps, taps, ~kernel & CONJUGATE};
}

/*
 * State of one lane's loop over a rectangle of taps. The taps are counted row by row, and lane l of n lanes visits
 * taps l, l + n, l + 2 n, .. Offsets are updated by additions, without a division in the loop. They have the unit of
 * the strides passed to start_walk, bytes or elements.
 */
struct tap_walk {
    int32_t column;       /* column of the present tap */
    int32_t image, table; /* offsets of the present tap from the first tap of the rectangle */
    int32_t width;        /* taps in a row */
    int32_t rest;         /* n modulo width: the columns that a step moves, after whole rows */
    /* A step is added to an offset each time, and a carry too if the column passes the end of the row. */
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

/* Start an iteration. image_tap and table_tap are the strides between neighbouring taps of a row; image_row and
 * table_row are the strides between rows. */
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
