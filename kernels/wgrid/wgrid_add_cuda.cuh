/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Samples go onto w-planes on the GPU: a warp adds a sparse item, a block adds crowded ones in rings of planes. */
#ifndef MSI_KERNELS_WGRID_ADD_CUDA_CUH
#define MSI_KERNELS_WGRID_ADD_CUDA_CUH

#include "kernels/gpu/vector_add_cuda.cuh"
#include "kernels/wgrid/wgrid_ring_cuda.cuh"
#include "kernels/wgrid/wgrid_ring_tensor_cuda.cuh"
#include "kernels/wgrid/wgrid_widths_cuda.cuh"

namespace {

/* A warp adds an item of at most 32 samples straight to the planes. */
template <typename T, int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * WARPS<T, WIDTH>)
    k_grid_sparse(msi_wgrid_geometry g, grid_job<T> job, PLANES there, const item *items, int64_t n_item)
{
    using shape = tap_shape<WIDTH, HAS_W>;
    constexpr int N_COEF = shape::N_COEF, N_TAP = shape::N_TAP, ROW = shape::ROW, ROWS = shape::ROWS;
    constexpr int N_WARP = WARPS<T, WIDTH>;
    __shared__ T table[N_COEF][N_TAP];
    __shared__ T tap[N_WARP][32][N_TAP + 1];
    load_taps<T, N_COEF, WIDTH, N_TAP>(job.taps, table);
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int64_t k = (int64_t)blockIdx.x * N_WARP + warp; k < n_item; k += (int64_t)gridDim.x * N_WARP) {
        item here = items[k];
        int n = (int)here.n;
        int64_t sample = (int64_t)here.first + (lane < n ? lane : n - 1);
        record<T> r = job.samples[sample].at;
        patch to = there.find(g, r); /* the same for all of an item */
        if (to.k_first >= to.k_end) continue;
        lay_item_taps<T, N_COEF, WIDTH, N_TAP>(table, r, n, tap[warp]);
        __syncwarp();
        int column = lane % ROW, first_row = lane / ROW;
        int k_end = HAS_W ? to.k_end : 1;
        cplx<T> value = job.value[sample * job.value_pitch];
        int64_t planes = to.origin + to.k_first * to.plane_cells;
        for (int i = 0; i < n; i++) {
            T re = __shfl_sync(~0u, value.re, i), im = __shfl_sync(~0u, value.im, i);
            int u0 = __shfl_sync(~0u, r.u0, i), v0 = __shfl_sync(~0u, r.v0, i);
            if (column >= WIDTH || (re == 0 && im == 0)) continue;
            T ku = tap[warp][i][column];
            int iu = msi_wrap_cell(u0 + column + to.shift_u, to.n_u);
            for (int j = first_row; j < WIDTH; j += ROWS) {
                T kuv = ku * tap[warp][i][WIDTH + j], a = re * kuv, b = im * kuv;
                int iv = msi_wrap_cell(v0 + j + to.shift_v, to.n_v);
                cplx<T> *cell = job.grid + planes + (int64_t)iv * to.n_u + iu;
                for (int w = to.k_first; w < k_end; w++, cell += to.plane_cells) {
                    T kw = HAS_W ? tap[warp][i][2 * WIDTH + w] : (T)1;
                    vector_add::add_one(cell, a * kw, b * kw);
                }
            }
        }
        __syncwarp();
    }
}

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
int launch_gridding(const msi_wgrid_geometry &g, const grid_job<T> &job, const PLANES &there, item_range crowded,
                    item_range sparse, cudaStream_t stream)
{
    if constexpr (sizeof(T) == 4 && WIDTH <= TENSOR_WIDTH)
        MSI_TRY((launch_ring_tensor<WIDTH, HAS_W, PLANES>(g, job, there, crowded, stream)));
    else
        MSI_TRY((launch_ring<T, WIDTH, HAS_W, PLANES>(g, job, there, crowded, stream)));
    return launch_sparse<T, WIDTH>(k_grid_sparse<T, WIDTH, HAS_W, PLANES>, g, job, there, sparse, stream);
}

/* Add items to planes of whichever kind, by the kernel of the plan's window. */
template <typename T, typename PLANES>
int grid_items(const msi_wgrid_geometry &g, const grid_job<T> &job, const PLANES &there, item_range crowded,
               item_range sparse, cudaStream_t stream)
{
    return at_width<PLANES>(g, [&](auto width, auto has_w) {
        return launch_gridding<T, width, has_w, PLANES>(g, job, there, crowded, sparse, stream);
    });
}

} // namespace

#endif
