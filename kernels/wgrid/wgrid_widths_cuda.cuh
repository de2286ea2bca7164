/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The window's width shapes the default gridder's kernels of both directions, and chooses among them. */
#ifndef MSI_KERNELS_WGRID_WIDTHS_CUDA_CUH
#define MSI_KERNELS_WGRID_WIDTHS_CUDA_CUH

#include <algorithm>
#include <type_traits>

#include "kernels/wgrid/wgrid_cuda_kernels.cuh"

namespace {

/* Taps of a sample, and the part of them that a warp takes at a time: ROWS rows of v, ROW lanes along u. */
template <int WIDTH, bool HAS_W> struct tap_shape {
    static constexpr int N_COEF = WIDTH < 6 ? WIDTH + 3 : WIDTH + 2;
    static constexpr int N_TAP = HAS_W ? 3 * WIDTH : 2 * WIDTH;
    static constexpr int ROW = WIDTH <= 4 ? 4 : WIDTH <= 8 ? 8 : 16;
    static constexpr int ROWS = 32 / ROW;
};

/* Launch a kernel that gives each sparse item a warp, and a warp one after the other where there are very many. */
template <typename T, int WIDTH, typename JOB, typename PLANES>
int launch_sparse(void (*kernel)(msi_wgrid_geometry, JOB, PLANES, const item *, int64_t), const msi_wgrid_geometry &g,
                  const JOB &job, const PLANES &there, item_range sparse, cudaStream_t stream)
{
    constexpr int64_t N_WARP = WARPS<T, WIDTH>, MOST = 1 << 20;
    if (!sparse.n) return MSI_OK;
    const int64_t blocks = std::min((sparse.n + N_WARP - 1) / N_WARP, MOST);
    kernel<<<(unsigned)blocks, 32 * N_WARP, 0, stream>>>(g, job, there, sparse.first, sparse.n);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/*
 * launch(width, has_w) for the window of a plan and PLANES of whichever kind, both arguments integral constants:
 * kernels are compiled for each width, with w and, where PLANES may be one plane and no w, without.
 */
template <typename PLANES, int WIDTH = MSI_PSWF_MIN_WIDTH, typename LAUNCH>
int at_width(const msi_wgrid_geometry &g, LAUNCH launch)
{
    if constexpr (WIDTH > MSI_PSWF_MAX_WIDTH) {
        return msi_error_set(MSI_EINTERNAL, "no kernel for a window of %d cells", g.width);
    } else {
        constexpr std::integral_constant<int, WIDTH> width;
        if (g.width != WIDTH) return at_width<PLANES, WIDTH + 1>(g, launch);
        if (PLANES::ALWAYS_W || g.w_width > 1) return launch(width, std::true_type{});
        return launch(width, std::bool_constant<PLANES::ALWAYS_W>{});
    }
}

} // namespace

#endif
