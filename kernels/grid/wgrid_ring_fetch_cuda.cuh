/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Crowded items on their way from memory to a block that grids them in rings of w-planes. */
#ifndef MSI_KERNELS_WGRID_RING_FETCH_CUDA_CUH
#define MSI_KERNELS_WGRID_RING_FETCH_CUDA_CUH

#include <cuda_pipeline_primitives.h>

#include "kernels/grid/wgrid_cuda_kernels.cuh"

namespace {

/* Samples that make a run of one tile and first w-plane crowded: with those of the tile within half a window of it. */
constexpr int LEAST_IN_RING = 6;
constexpr int MOST_GROUPS = 64;            /* items of a block: no sum of its own has more than 1024 terms */
constexpr int RING_BATCH = 2 * RING_GROUP; /* a sample to a lane */

/* A batch: two items, which may have fewer samples than there is room for. */
template <typename T> struct ring_samples {
    alignas(16) record<T> place[RING_BATCH]; /* of a sample that is not there, its item's first one's */
    alignas(16) cplx<T> value[RING_BATCH];   /* of a sample that is not there, 0 */
    alignas(16) int4 stand[RING_BATCH];      /* first taps of its tile, first w-plane, number of that plane */
    unsigned there;

    __device__ bool is_there(int i) const
    {
        return there >> i & 1;
    }
};

/* What a block of rings works on: its items, batches of which pass through shared memory. */
struct ring_block {
    const item *group;
    int n_group;

    __device__ ring_block(item_range crowded)
        : group(crowded.first + (int64_t)blockIdx.x * MOST_GROUPS),
          n_group((int)min((int64_t)MOST_GROUPS, crowded.n - (int64_t)blockIdx.x * MOST_GROUPS))
    {
    }
    __device__ bool has(int batch) const
    {
        return 2 * batch < n_group;
    }
};

/* How far into its tile a footprint begins. */
__device__ inline int in_ring_tile(int first_tap, int64_t n_grid, int width)
{
    return (int)((unsigned)(first_tap + (int)(n_grid / 2) + width) % RING_TILE);
}

/*
 * What one warp of a block does to bring samples, batch by batch: their places in memory, one step later their records
 * and values, which do not pass through registers, one step later where they stand.
 */
template <typename T, typename PLANES> struct ring_fetch {
    const msi_wgrid_geometry &g;
    const grid_job<T> &job;
    const PLANES &there;
    const ring_block &block;
    const cplx<T> *values;
    bool is_mine; /* whether this warp is the one */
    uint32_t at = 0;
    bool has = false;
    int4 stand = {};

    /* Where the samples of a batch are. */
    __device__ void find(int batch)
    {
        const int lane = threadIdx.x % 32, k = 2 * batch + lane / RING_GROUP;
        const item mine = block.group[min(k, block.n_group - 1)];
        has = k < block.n_group && lane % RING_GROUP < mine.n;
        at = job.index[mine.first + (has ? lane % RING_GROUP : 0)];
    }
    /* The samples that find has found. */
    __device__ void request(ring_samples<T> *samples, int batch)
    {
        const int lane = threadIdx.x % 32;
        ring_samples<T> &s = samples[batch % 3];
        const char *from = reinterpret_cast<const char *>(job.records + at);
        char *into = reinterpret_cast<char *>(s.place + lane);
#pragma unroll
        for (int i = 0; i < (int)sizeof(record<T>); i += 8) __pipeline_memcpy_async(into + i, from + i, 8);
        __pipeline_memcpy_async(s.value + lane, values + at, sizeof(cplx<T>), has ? 0 : sizeof(cplx<T>));
        const unsigned there_are = __ballot_sync(~0u, has);
        if (lane == 0) s.there = there_are;
    }
    __device__ void wait()
    {
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncwarp();
    }
    __device__ void look_up(const ring_samples<T> *samples, int batch)
    {
        if (!block.has(batch)) return;
        const record<T> &r = samples[batch % 3].place[threadIdx.x % 32];
        stand = {r.u0 - in_ring_tile(r.u0, g.nu, g.width), r.v0 - in_ring_tile(r.v0, g.nv, g.width), r.w0,
                 there.plane_number(g, r)};
    }
    __device__ void keep_stand(ring_samples<T> *samples, int batch)
    {
        if (block.has(batch)) samples[batch % 3].stand[threadIdx.x % 32] = stand;
    }

    /* Batches 0 and 1; a block's other warps see them after a barrier. */
    __device__ void begin(ring_samples<T> *samples)
    {
        if (!is_mine) return;
        find(0);
        request(samples, 0);
        find(1);
        request(samples, 1);
        find(2);
        wait();
        look_up(samples, 0);
        keep_stand(samples, 0);
    }
    /* While a batch is gridded: the batch after the next one is requested .. */
    __device__ void next(ring_samples<T> *samples, int batch)
    {
        if (!is_mine) return;
        look_up(samples, batch + 1);
        if (!block.has(batch + 2)) return;
        request(samples, batch + 2);
        find(batch + 3);
    }
    /* .. and when it has been gridded, is there. */
    __device__ void finish(ring_samples<T> *samples, int batch)
    {
        if (!is_mine) return;
        keep_stand(samples, batch + 1);
        wait();
    }
};

inline unsigned ring_blocks(item_range crowded)
{
    return (unsigned)((crowded.n + MOST_GROUPS - 1) / MOST_GROUPS);
}

} // namespace

#endif
