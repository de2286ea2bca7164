/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Small planes of w-towers on the GPU, both directions: which there are, and where samples find theirs. */
#ifndef MSI_KERNELS_WGRID_TOWER_CUDA_KERNELS_CUH
#define MSI_KERNELS_WGRID_TOWER_CUDA_KERNELS_CUH

#include "kernels/towers/subgrid_cuda.h"
#include "kernels/wgrid/wgrid_cuda_batch.cuh"

namespace {

/*
 * The small planes of a tower and a batch of its subgrids, without their margins, which are empty: [filled][pitch].
 * slot [core][n_plane] counts the planes that hold something: planes of one subgrid lie one after the other, and an
 * empty one takes no room.
 */
struct small_planes {
    static constexpr bool ALWAYS_W = true;
    msi_subgrid_shape tower;
    const uint32_t *slot;
    uint32_t first_slot; /* of the batch */
    int first_w0;        /* of the tower */

    /* Return the column and row of a sample's core. */
    template <typename T> __device__ int2 core(const msi_wgrid_geometry &g, const record<T> &r) const
    {
        int to_u = (int)(g.nu / 2) + g.width, to_v = (int)(g.nv / 2) + g.width;
        return {(r.u0 + to_u) / tower.core, (r.v0 + to_v) / tower.core};
    }
    /* Find where a cell, counted from the first one of the first core, lies in its own. */
    __device__ int in_core(int cell) const
    {
        return cell % tower.core;
    }
    template <typename T> __device__ int plane_number(const msi_wgrid_geometry &g, const record<T> &r) const
    {
        int2 c = core(g, r);
        return (int)(slot[((int64_t)c.y * tower.n_core_u + c.x) * tower.n_plane + r.w0 - first_w0] - first_slot);
    }
    __device__ int n_plane() const
    {
        return INT32_MAX;
    }
    template <typename T> __device__ patch find(const msi_wgrid_geometry &g, const record<T> &r) const
    {
        int to_u = (int)(g.nu / 2) + g.width, to_v = (int)(g.nv / 2) + g.width;
        int2 c = core(g, r);
        int64_t cells = (int64_t)tower.filled * tower.pitch;
        return {plane_number(g, r) * cells,
                cells,
                to_u - c.x * tower.core,
                to_v - c.y * tower.core,
                tower.pitch,
                tower.filled,
                0,
                g.w_width};
    }
};

/* Runs mark the planes that their samples touch: mark [tower][core][n_plane]. */
__global__ void k_mark_planes(sample_order order, int n_plane, int w_width, const uint32_t *run_key, int64_t n_run,
                              uint32_t *mark)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_run || run_key[i] == UNUSED) return;
    uint32_t *first = mark + run_key[i] / order.core_keys() * n_plane + run_key[i] % order.height;
    for (int k = 0; k < w_width; k++) first[k] = 1;
}

/* Mark the rows of whole planes that subgrids with samples lie on: mark [tower][nv]. A thread a core. */
__global__ void k_mark_rows(msi_subgrid_shape s, int64_t n_core, int64_t n_tower, const uint32_t *slot, uint8_t *mark)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_core * n_tower || slot[i * s.n_plane] == slot[(i + 1) * s.n_plane]) return;
    const int first = (int)(i % n_core / s.n_core_u) * s.core - s.width - s.margin;
    for (int k = 0; k < s.size; k++) mark[i / n_core * s.nv + msi_wrap_cell(first + k, (int)s.nv)] = 1;
}

/* Tells where the planes and the items of a core begin. */
struct core_start {
    uint32_t slot, crowded, sparse;
};

/* A batch's runs, and the numbers of its crowded and sparse items. */
struct core_items {
    sorted_runs runs;
    uint32_t n_crowded, n_sparse;
};

/* Find start [n + 1] of all towers' n cores, and where the last one ends. */
__global__ void k_find_cores(sample_order order, int n_plane, int64_t n, const uint32_t *slot, core_items items,
                             core_start *start)
{
    int64_t core = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (core > n) return;
    int64_t key = core * order.core_keys(), low = 0, high = items.runs.n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (items.runs.key[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    start[core] = {slot[core * n_plane], low < items.runs.n ? items.runs.crowded_at[low] : items.n_crowded,
                   low < items.runs.n ? items.runs.sparse_at[low] : items.n_sparse};
}

} // namespace

#endif
