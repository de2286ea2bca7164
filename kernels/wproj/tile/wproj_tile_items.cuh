/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gridding by tiles is divided into items. Samples are in bins by class of support (wproj/job/wproj_sort_cuda.h). An
 * item has a tile of 16 x 16 cells and a run of the samples in the bins around it, of one class and with kernels that
 * are all conjugated or all not. These samples are the candidates of the item; most of them touch the tile. Blocks are
 * persistent, and warps get items from a counter. Items are ordered by class, so that concurrent warps use kernels of
 * one class, which stay in L2.
 *
 * Samples with conjugated kernels have their own bins. Their conjugated values are added to the conjugate of the tile.
 */
#ifndef MSI_KERNELS_WPROJ_TILE_ITEMS_CUH
#define MSI_KERNELS_WPROJ_TILE_ITEMS_CUH

#include "kernels/wproj/tile/wproj_tile_cuda.h"

namespace wproj_tile {

constexpr int TILE = MSI_WPROJ_TILE, WARPS = 4;

/* The position of a plane's kernel in the table, along u and v. */
struct plane_kernel {
    int32_t half, first_u, first_v;
};

struct item {
    uint32_t tile, list, part; /* list: 2 class + conjugate */
};

struct tile_view {
    msi_wproj_sorted sorted;
    int32_t nu, n_tile_u, n_tile;
    int64_t n_cell; /* number of cells of one image's box */
    const plane_kernel *planes;
    const item *items;
    uint32_t n_item, item_size;
    uint32_t *next_item;
    void *grid;
};

/* The rows of bins with the samples that may touch a tile. All rows have the same range along u. */
struct bin_rows {
    int32_t v_low, n, u_low, u_high;
    int64_t first;
    int32_t n_bin_u;
};

__device__ inline bin_rows rows_about(const msi_wproj_bins &b, int list, int tile_u, int tile_v)
{
    int c = list / 2, half = b.class_half[c], shift = b.shift[c];
    bin_rows r;
    r.n_bin_u = b.n_bin_u[c];
    r.first = b.first[c] + (list & 1) * (int64_t)r.n_bin_u * b.n_bin_v[c];
    r.u_low = max(tile_u - half, 0) >> shift;
    r.u_high = min((tile_u + TILE - 1 + half) >> shift, r.n_bin_u - 1);
    r.v_low = max(tile_v - half, 0) >> shift;
    r.n = min((tile_v + TILE - 1 + half) >> shift, b.n_bin_v[c] - 1) - r.v_low + 1;
    return r;
}

/* Find the run of samples in row k of the bins. */
__device__ inline void row_range(const msi_wproj_sorted &s, const bin_rows &r, int k, uint32_t *first, uint32_t *end)
{
    int64_t row = r.first + (int64_t)(r.v_low + k) * r.n_bin_u;
    *first = s.bin_start[row + r.u_low];
    *end = s.bin_start[row + r.u_high + 1];
}

/* Count the items of every tile and list. */
static __global__ void k_count_items(tile_view t, uint32_t *n_item)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int64_t)t.n_tile * 2 * t.sorted.bins.n_class) return;
    int list = (int)(i / t.n_tile), tile = (int)(i % t.n_tile);
    bin_rows r = rows_about(t.sorted.bins, list, tile % t.n_tile_u * TILE, tile / t.n_tile_u * TILE);
    uint32_t n = 0;
    for (int k = 0; k < r.n; k++) {
        uint32_t first, end;
        row_range(t.sorted, r, k, &first, &end);
        n += end - first;
    }
    n_item[i] = (n + t.item_size - 1) / t.item_size;
}

/* Make the items of every tile and list. */
static __global__ void k_make_items(tile_view t, const uint32_t *n_item, const uint32_t *item_end, item *items)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int64_t)t.n_tile * 2 * t.sorted.bins.n_class) return;
    uint32_t n = n_item[i], first = item_end[i] - n;
    for (uint32_t part = 0; part < n; part++)
        items[first + part] = {(uint32_t)(i % t.n_tile), (uint32_t)(i / t.n_tile), part};
}

/* The candidates of a warp's item: samples to compare with its tile. Called by all lanes. */
struct candidates {
    int tile_u, tile_v; /* first cells */
    bool conjugate;
    uint32_t first, end;         /* candidates first .. end - 1 belong to the item */
    uint32_t row_ends, row_skip; /* in lane k, for row k: candidate after its last; sample minus candidate */

    /* Get the next item. Returns false if there is none. */
    __device__ bool draw(const tile_view &t, int lane)
    {
        uint32_t which = 0;
        if (lane == 0) which = atomicAdd(t.next_item, 1);
        which = __shfl_sync(~0u, which, 0);
        if (which >= t.n_item) return false;
        const item job = t.items[which];
        tile_u = (int)(job.tile % (uint32_t)t.n_tile_u) * TILE;
        tile_v = (int)(job.tile / (uint32_t)t.n_tile_u) * TILE;
        conjugate = job.list & 1;
        bin_rows r = rows_about(t.sorted.bins, (int)job.list, tile_u, tile_v);
        uint32_t row_first = 0, row_end = 0;
        if (lane < r.n) row_range(t.sorted, r, lane, &row_first, &row_end);
        row_ends = row_end - row_first;
        for (int d = 1; d < 32; d *= 2) {
            uint32_t other = __shfl_up_sync(~0u, row_ends, d);
            if (lane >= d) row_ends += other;
        }
        row_skip = row_end - row_ends;
        first = job.part * t.item_size;
        end = min(__shfl_sync(~0u, row_ends, 31), first + t.item_size);
        return true;
    }

    /* Find the sample of candidate f: it is in the first row that ends after it. */
    __device__ uint32_t sample(uint32_t f) const
    {
        int row = 0;
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            if (__shfl_sync(~0u, row_ends, row + step - 1) <= f) row += step;
        return f + __shfl_sync(~0u, row_skip, row & 31);
    }
};

/* Return whether a footprint touches the tile, whose first cell is (du, dv) from the sample's cell. */
__device__ inline bool touches_tile(int du, int dv, int half)
{
    const int reach = 2 * half + TILE - 1;
    return abs(2 * du + TILE - 1) <= reach && abs(2 * dv + TILE - 1) <= reach;
}

} // namespace wproj_tile

#endif
