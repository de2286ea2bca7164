/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Samples become sums over w-planes on the GPU: a warp takes a sparse item, blocks that hold a tile's cells take
 * crowded ones. */
#ifndef MSI_KERNELS_WGRID_SUM_CUDA_CUH
#define MSI_KERNELS_WGRID_SUM_CUDA_CUH

#include "kernels/wgrid/wgrid_degrid_call.h"
#include "kernels/wgrid/wgrid_degrid_doubles_cuda.cuh"
#include "kernels/wgrid/wgrid_degrid_halves_cuda.cuh"

namespace {

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
int launch_degridding(const msi_wgrid_geometry &g, const degrid_job<T> &job, const PLANES &there, item_range crowded,
                      item_range sparse, cudaStream_t stream)
{
    if constexpr (sizeof(T) == 4 && WIDTH <= TENSOR_WIDTH)
        MSI_TRY((launch_degrid_halves<WIDTH, HAS_W, PLANES>(g, job, there, crowded, stream)));
    else
        MSI_TRY((launch_degrid_doubles<T, WIDTH, HAS_W, PLANES>(g, job, there, crowded, stream)));
    return launch_sparse<T, WIDTH>(k_degrid_sparse<T, WIDTH, HAS_W, PLANES>, g, job, there, sparse, stream);
}

/* Degrid items from planes of whichever kind, by the kernel of the plan's window. */
template <typename T, typename PLANES>
int degrid_items(const msi_wgrid_geometry &g, const degrid_job<T> &job, const PLANES &there, item_range crowded,
                 item_range sparse, cudaStream_t stream)
{
    return at_width<PLANES>(g, [&](auto width, auto has_w) {
        return launch_degridding<T, width, has_w, PLANES>(g, job, there, crowded, sparse, stream);
    });
}

template <typename T, typename PLANES> int degrid_call_of(const msi_wgrid_degrid_call &c, const PLANES &there)
{
    const degrid_job<T> job = {static_cast<const tap_table<T> *>(c.taps),
                               static_cast<const tap_table<T> *>(c.host_taps),
                               static_cast<const wanted<T> *>(c.samples),
                               true,
                               static_cast<const cplx<T> *>(c.cells),
                               static_cast<cplx<T> *>(c.value),
                               c.adds != 0};
    return degrid_items(c.plan->grid, job, there, {static_cast<const item *>(c.crowded), c.n_crowded},
                        {static_cast<const item *>(c.sparse), c.n_sparse}, static_cast<cudaStream_t>(c.stream));
}

/* Begin to degrid what a call asks for from planes of whichever kind, in the plan's precision. */
template <typename PLANES> int degrid_call(const msi_wgrid_degrid_call &c, const PLANES &there)
{
    return c.plan->precision == MSI_FP32 ? degrid_call_of<float>(c, there) : degrid_call_of<double>(c, there);
}

} // namespace

#endif
