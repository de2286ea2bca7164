/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Samples onto w-planes on the GPU: sparse items by a warp each, crowded ones in rings of planes. */
#ifndef MSI_KERNELS_WGRID_ADD_CUDA_CUH
#define MSI_KERNELS_WGRID_ADD_CUDA_CUH

#include "kernels/grid/wgrid_ring_cuda.cuh"
#include "kernels/grid/wgrid_ring_tensor_cuda.cuh"

namespace {

/* One warp an item of at most 32 samples, straight to the planes. */
template <typename T, int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * WARPS<T, WIDTH>)
    k_grid_sparse(msi_wgrid_geometry g, grid_job<T> job, PLANES there, const item *items, int64_t n_item)
{
    constexpr int N_COEF = WIDTH < 6 ? WIDTH + 3 : WIDTH + 2;
    constexpr int ROW = WIDTH <= 4 ? 4 : WIDTH <= 8 ? 8 : 16; /* lanes along u */
    constexpr int ROWS = 32 / ROW;                            /* rows of v at a time */
    constexpr int N_TAP = HAS_W ? 3 * WIDTH : 2 * WIDTH;
    constexpr int N_WARP = WARPS<T, WIDTH>;
    __shared__ T table[N_COEF][N_TAP];
    __shared__ T tap[N_WARP][32][N_TAP + 1];
    load_taps<T, N_COEF, WIDTH, N_TAP>(job.taps, table);
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int64_t k = (int64_t)blockIdx.x * N_WARP + warp; k < n_item; k += (int64_t)gridDim.x * N_WARP) {
        item here = items[k];
        int n = (int)here.n;
        uint32_t sample = job.index[here.first + (lane < n ? lane : n - 1)];
        record<T> r = job.records[sample];
        patch to = there.find(g, r); /* the same for all of an item */
        if (to.k_first >= to.k_end) continue;
        for (int i = 0; i < n; i++) {
            T z[3] = {__shfl_sync(~0u, r.zu, i), __shfl_sync(~0u, r.zv, i), __shfl_sync(~0u, r.zw, i)};
            for (int t = lane; t < N_TAP; t += 32)
                tap[warp][i][t] = tap_value<T, N_COEF, N_TAP>(table, t, t < WIDTH ? z[0] : t < 2 * WIDTH ? z[1] : z[2]);
        }
        __syncwarp();
        int column = lane % ROW, first_row = lane / ROW;
        int k_end = HAS_W ? to.k_end : 1;
        for (int p = 0; p < job.n_image; p++) {
            cplx<T> mine = job.value[p * job.n_sample + sample];
            int64_t planes = p * there.image_cells(g) + to.origin + to.k_first * to.plane_cells;
            for (int i = 0; i < n; i++) {
                T re = __shfl_sync(~0u, mine.re, i), im = __shfl_sync(~0u, mine.im, i);
                int u0 = __shfl_sync(~0u, r.u0, i), v0 = __shfl_sync(~0u, r.v0, i);
                if (column >= WIDTH || (re == 0 && im == 0)) continue;
                T ku = tap[warp][i][column];
                int iu = wrap(u0 + column + to.shift_u, to.n_u);
                for (int j = first_row; j < WIDTH; j += ROWS) {
                    T kuv = ku * tap[warp][i][WIDTH + j], a = re * kuv, b = im * kuv;
                    int iv = wrap(v0 + j + to.shift_v, to.n_v);
                    cplx<T> *cell = job.grid + planes + (int64_t)iv * to.n_u + iu;
                    for (int w = to.k_first; w < k_end; w++, cell += to.plane_cells) {
                        T kw = HAS_W ? tap[warp][i][2 * WIDTH + w] : (T)1;
                        add_cell(cell, a * kw, b * kw);
                    }
                }
            }
        }
        __syncwarp();
    }
}

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
int launch_gridding(const msi_wgrid_geometry &g, const grid_job<T> &job, const PLANES &there, item_range crowded,
                    item_range sparse)
{
    if constexpr (sizeof(T) == 4 && WIDTH <= TENSOR_WIDTH)
        MSI_TRY((launch_ring_tensor<WIDTH, HAS_W, PLANES>(g, job, there, crowded)));
    else
        MSI_TRY((launch_ring<T, WIDTH, HAS_W, PLANES>(g, job, there, crowded)));
    if (!sparse.n) return MSI_OK;
    constexpr int N_WARP = WARPS<T, WIDTH>;
    int64_t wanted = (sparse.n + N_WARP - 1) / N_WARP;
    unsigned blocks = (unsigned)(wanted < (int64_t)1 << 20 ? wanted : (int64_t)1 << 20);
    k_grid_sparse<T, WIDTH, HAS_W, PLANES><<<blocks, 32 * N_WARP>>>(g, job, there, sparse.first, sparse.n);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* Add items to planes of whichever kind, by the kernel of the plan's window. */
template <typename T, typename PLANES>
int grid_items(const msi_wgrid_geometry &g, const grid_job<T> &job, const PLANES &there, item_range crowded,
               item_range sparse)
{
    switch (g.width) {
#define WIDTH_CASE(n)                                                                                                  \
    case n:                                                                                                            \
        if (PLANES::ALWAYS_W || g.w_width > 1)                                                                         \
            return launch_gridding<T, n, true, PLANES>(g, job, there, crowded, sparse);                                \
        return launch_gridding<T, n, PLANES::ALWAYS_W, PLANES>(g, job, there, crowded, sparse)
        WIDTH_CASE(2);
        WIDTH_CASE(3);
        WIDTH_CASE(4);
        WIDTH_CASE(5);
        WIDTH_CASE(6);
        WIDTH_CASE(7);
        WIDTH_CASE(8);
        WIDTH_CASE(9);
        WIDTH_CASE(10);
        WIDTH_CASE(11);
        WIDTH_CASE(12);
        WIDTH_CASE(13);
        WIDTH_CASE(14);
        WIDTH_CASE(15);
        WIDTH_CASE(16);
#undef WIDTH_CASE
    default:
        return msi_error_set(MSI_EINTERNAL, "no kernel for a window of %d cells", g.width);
    }
}

} // namespace

#endif
