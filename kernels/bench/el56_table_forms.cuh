/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An earlier form of gridding by tiles. A warp grids a run of bucket entries, which are in the order of tiles. Each
 * lane holds one column of the tile's 16 rows in registers. The warp prepares 32 entries at a time, one per lane, and
 * stages them in shared memory. When the tile changes, the warp adds its sums to the grid.
 *
 * WEIGHTS looks up kernel values: first() returns the index of an entry's first value, value() the weight of a cell.
 *
 * Source: SDP memo "Vertical prototyping of the gridding algorithm", sections 3 and 4. Here a whole tile fits into the
 * registers of a warp, so it needs no shared memory.
 */
#ifndef MSI_BENCH_EL56_TABLE_FORMS_CUH
#define MSI_BENCH_EL56_TABLE_FORMS_CUH

#include "kernels/bench/el56_forms_cuda.h"
#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/wproj/job/wproj_locate.cuh"

namespace el56_forms {

constexpr int COLUMNS = 32, ROWS = 16, WARPS = 4, CHUNK = 8;

typedef wproj_locate::record<float> record;

/* The arguments of a gridding kernel: entries, lookups of their records and weights, and the grid [nv][nu]. */
template <class WEIGHTS, class RECORD> struct bucket_job {
    el56_buckets buckets;
    const int32_t *half; /* [planes] half-supports */
    WEIGHTS weights;
    RECORD located;
    float2 *grid;
    int nu, nv;
};

/* A bucket entry in shared memory, for all lanes of a warp. */
struct staged {
    int du, dv; /* first column and row of the tile, from the sample's cell */
    int half, bucket;
    int64_t first; /* index of the kernel's first value */
    float re, im;
    float sign; /* -1: the kernel is conjugated */
    int sub_u, sub_v;
};

template <class WEIGHTS, class RECORD> __device__ staged prepare(const bucket_job<WEIGHTS, RECORD> &job, int64_t entry)
{
    const el56_buckets &b = job.buckets;
    const int bucket = (int)b.bucket[entry], tile = bucket % (b.n_tile_u * b.n_tile_v);
    const record r = job.located(b.index[entry]);
    const int plane = msi_wproj_head_plane(r.head.kernel);
    staged e;
    e.half = job.half[plane];
    e.bucket = bucket;
    e.du = tile % b.n_tile_u * COLUMNS - msi_wproj_head_u(r.head.cell);
    e.dv = tile / b.n_tile_u * ROWS - msi_wproj_head_v(r.head.cell);
    e.sub_u = msi_wproj_head_sub_u(r.head.kernel);
    e.sub_v = msi_wproj_head_sub_v(r.head.kernel);
    e.first = job.weights.first(plane, e.half, e.sub_u, e.sub_v);
    e.re = r.value.re;
    e.im = r.value.im;
    e.sign = msi_wproj_head_conjugate(r.head.kernel) ? -1.0f : 1.0f;
    return e;
}

/* Add a column's sums to the grid and clear them. Cells beyond the box belong to tiles that overhang it. */
template <class WEIGHTS, class RECORD>
__device__ void flush(const bucket_job<WEIGHTS, RECORD> &job, int bucket, float (&re)[ROWS], float (&im)[ROWS],
                      int lane)
{
    const el56_buckets &b = job.buckets;
    const int tile = bucket % (b.n_tile_u * b.n_tile_v);
    int u = tile % b.n_tile_u * COLUMNS + lane, v = tile / b.n_tile_u * ROWS;
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
        if (u < job.nu && v + j < job.nv && (re[j] != 0 || im[j] != 0))
            vector_add::add_one(job.grid + (int64_t)(v + j) * job.nu + u, re[j], im[j]);
        re[j] = im[j] = 0;
    }
}

/* One warp grids entries [first, end); stage [32] is the warp's own. */
template <class WEIGHTS, class RECORD>
__device__ void grid_entries(const bucket_job<WEIGHTS, RECORD> &job, int64_t first, int64_t end, staged *stage)
{
    const int lane = threadIdx.x % 32;
    float re[ROWS] = {}, im[ROWS] = {};
    int bucket = -1;
    for (int64_t at = first; at < end; at += 32) {
        if (at + lane < end) stage[lane] = prepare(job, at + lane);
        __syncwarp();
        const int n = (int)min((int64_t)32, end - at);
        for (int k = 0; k < n; k++) {
            const staged e = stage[k];
            if (e.bucket != bucket) {
                if (bucket >= 0) flush(job, bucket, re, im, lane);
                bucket = e.bucket;
            }
            const bool inside = abs(e.du + lane) <= e.half;
            const auto cursor = job.weights.begin(e, inside ? lane : -e.du);
            const int low = inside ? -e.half - e.dv : ROWS, high = e.half - e.dv;
            /* Load all values of a chunk before using them, because they come from L2. */
#pragma unroll
            for (int first_row = 0; first_row < ROWS; first_row += CHUNK) {
                float2 w[CHUNK];
#pragma unroll
                for (int j = 0; j < CHUNK; j++) {
                    const int row = first_row + j;
                    w[j] = row >= low && row <= high ? cursor.value(row) : float2{0, 0};
                }
#pragma unroll
                for (int j = 0; j < CHUNK; j++) {
                    const float y = e.sign * w[j].y;
                    re[first_row + j] += e.re * w[j].x - e.im * y;
                    im[first_row + j] += e.re * y + e.im * w[j].x;
                }
            }
        }
        __syncwarp();
    }
    if (bucket >= 0) flush(job, bucket, re, im, lane);
}

/* Grid with dynamic thread blocks: warps get runs of entries from a counter. */
template <class WEIGHTS, class RECORD>
__global__ __launch_bounds__(32 * WARPS) void k_grid_dynamic(bucket_job<WEIGHTS, RECORD> job, int run, uint32_t *next)
{
    __shared__ staged stages[WARPS][32];
    for (;;) {
        uint32_t which = 0;
        if (threadIdx.x % 32 == 0) which = atomicAdd(next, 1);
        int64_t first = (int64_t)__shfl_sync(~0u, which, 0) * run;
        if (first >= job.buckets.n_entry) return;
        grid_entries(job, first, min(first + run, job.buckets.n_entry), stages[threadIdx.x / 32]);
    }
}

} // namespace el56_forms

#endif
