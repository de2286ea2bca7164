/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A box holds one slice of w in device memory for the strategies that work on all images at once: a trimmed grid of the
 * unbounded plane's cells, images side by side, which is folded onto the padded grid or filled from it.
 */
#ifndef MSI_KERNELS_WPROJ_BOX_CUDA_CUH
#define MSI_KERNELS_WPROJ_BOX_CUDA_CUH

#include "kernels/transform/screen_cuda.cuh"
#include "kernels/wproj/job/wproj_geometry.h"

namespace {

/*
 * Cells [v_low, v_low + nv) x [u_low, u_low + nu); cell (u, v) is element ((v mod nv) nu + u mod nu) n_image + image.
 * The offset of a cell from the box's first is found by additions alone, from where that one lies in the box and on the
 * padded grid: remainders would cost more than the memory's traffic.
 */
struct box_view {
    int32_t nu, nv, n_image;
    int32_t first_u, first_v; /* of the box's first cell: element */
    int32_t grid_nu, grid_nv;
    int32_t grid_u, grid_v; /* and cell of the padded grid */
};

/* Lay a box whose first cell is (u_low, v_low) on a padded grid. */
inline box_view box_at(int64_t nu, int64_t nv, int n_image, int64_t u_low, int64_t v_low, int64_t grid_nu,
                       int64_t grid_nv)
{
    return {(int32_t)nu,
            (int32_t)nv,
            n_image,
            (int32_t)msi_wproj_wrap(u_low, nu),
            (int32_t)msi_wproj_wrap(v_low, nv),
            (int32_t)grid_nu,
            (int32_t)grid_nv,
            (int32_t)msi_wproj_wrap(u_low, grid_nu),
            (int32_t)msi_wproj_wrap(v_low, grid_nv)};
}

/* Add up the cells of the box that stand for one of the padded grid: a thread a cell of the grid, every one written. */
template <typename T> __global__ void k_fold_box(box_view b, const cplx<T> *box, int image, cplx<T> *grid)
{
    const int32_t u = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), v = (int32_t)blockIdx.y;
    if (u >= b.grid_nu) return;
    cplx<T> sum = {0, 0};
    for (int32_t dv = v < b.grid_v ? v - b.grid_v + b.grid_nv : v - b.grid_v; dv < b.nv; dv += b.grid_nv) {
        const int32_t row = b.first_v + dv < b.nv ? b.first_v + dv : b.first_v + dv - b.nv;
        for (int32_t du = u < b.grid_u ? u - b.grid_u + b.grid_nu : u - b.grid_u; du < b.nu; du += b.grid_nu) {
            const int32_t column = b.first_u + du < b.nu ? b.first_u + du : b.first_u + du - b.nu;
            const cplx<T> x = box[((int64_t)row * b.nu + column) * b.n_image + image];
            sum.re += x.re;
            sum.im += x.im;
        }
    }
    grid[(int64_t)v * b.grid_nu + u] = sum;
}

/* Give every cell of the box the value of the padded grid's cell that it stands for: the transpose, a thread a cell of
 * the box. */
template <typename T> __global__ void k_fill_box(box_view b, const cplx<T> *grid, int image, cplx<T> *box)
{
    const int32_t column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), row = (int32_t)blockIdx.y;
    if (column >= b.nu) return;
    int32_t u = b.grid_u + (column < b.first_u ? column - b.first_u + b.nu : column - b.first_u);
    int32_t v = b.grid_v + (row < b.first_v ? row - b.first_v + b.nv : row - b.first_v);
    while (u >= b.grid_nu) u -= b.grid_nu;
    while (v >= b.grid_nv) v -= b.grid_nv;
    box[((int64_t)row * b.nu + column) * b.n_image + image] = grid[(int64_t)v * b.grid_nu + u];
}

} // namespace

#endif
