/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Code that the gridding and degridding kernels of crowded items share: dividing items among blocks, prefetching
 * samples, taps, and splitting taps into halves for tensor cores. */
#ifndef MSI_WGRID_CROWDED_CUDA_CUH
#define MSI_WGRID_CROWDED_CUDA_CUH

#include <cuda_pipeline_primitives.h>

#include "kernels/gpu/mma_cuda.cuh"
#include "kernels/wgrid/wgrid_cuda_kernels.cuh"

namespace {

/* Number of samples from which a run is crowded, counted in its tile within half a window of its first w-plane. With
 * three or more samples, a ring adds to fewer cells than single samples do; with six or more it is faster if its steps
 * are long. */
template <typename T> constexpr uint32_t least_in_ring(int width)
{
    return ring_group<T>(width) == 4 ? 3 : 6;
}

/* Largest and smallest number of samples of a block. A sum in a block has at most MOST_IN_BLOCK terms. */
constexpr int MOST_IN_BLOCK = 1024, LEAST_IN_BLOCK = 128;
constexpr int RING_BATCH = 32; /* one sample for each lane */

/* A batch's samples in shared memory. Items may have fewer samples than places: an empty place has the position of the
 * item's first sample, and value 0. */
template <typename T> struct batch_places {
    alignas(16) unsigned char memory[RING_BATCH * sizeof(placed<T>)];

    __device__ const record<T> &place(int i) const
    {
        return reinterpret_cast<const placed<T> *>(memory)[i].at;
    }
    __device__ cplx<T> value(int i) const
    {
        return reinterpret_cast<const placed<T> *>(memory)[i].value;
    }
    /* Begin to copy a lane's sample, by n_warp warps together: its position, and its value, which may be stored
     * elsewhere. */
    __device__ void request(const grid_job<T> &job, int64_t sample, bool has, int warp, int n_warp)
    {
        constexpr int VALUE = sizeof(placed<T>) - sizeof(cplx<T>);
        const char *from = reinterpret_cast<const char *>(job.samples + sample);
        unsigned char *into = memory + threadIdx.x % 32 * sizeof(placed<T>);
#pragma unroll
        for (int i = 0; i < VALUE; i += 16)
            if (i / 16 % n_warp == warp) __pipeline_memcpy_async(into + i, from + i, min(16, VALUE - i));
        if ((sizeof(placed<T>) - 1) / 16 % n_warp == warp)
            __pipeline_memcpy_async(into + VALUE, job.value + sample * job.value_pitch, sizeof(cplx<T>),
                                    has ? 0 : sizeof(cplx<T>));
    }
};

/* Half of a window's taps, times a factor, as kernel arguments. The window is even: taps k and WIDTH - 1 - k have the
 * same even powers, and the same odd powers with opposite sign. */
template <typename T, int WIDTH> struct even_taps {
    static constexpr int N_COEF = WIDTH < 6 ? WIDTH + 3 : WIDTH + 2, N_TAP = (WIDTH + 1) / 2;
    T uv[N_COEF][N_TAP], w[N_COEF][N_TAP];

    explicit even_taps(const tap_table<T> &table, T factor)
    {
        for (int c = 0; c < N_COEF; c++)
            for (int k = 0; k < N_TAP; k++) {
                uv[c][k] = factor * table.uv[c][k];
                w[c][k] = factor * table.w[c][k];
            }
    }
};

/* Call f(k, tap k at z) for all taps. Coefficients are operands of the instructions, in constant memory. */
template <typename T, int WIDTH, int N_COEF, int N_TAP, class F>
__device__ __forceinline__ void for_each_tap(const T (&coef)[N_COEF][N_TAP], T z, const F &f)
{
    constexpr int EVEN = (N_COEF - 1) % 2, ODD = 1 - EVEN;
    const T z2 = z * z;
#pragma unroll
    for (int k = 0; k < N_TAP; k++) {
        T even = coef[EVEN][k], odd = coef[ODD][k];
#pragma unroll
        for (int c = EVEN + 2; c < N_COEF; c += 2) even = even * z2 + coef[c][k];
#pragma unroll
        for (int c = ODD + 2; c < N_COEF; c += 2) odd = odd * z2 + coef[c][k];
        if (2 * k == WIDTH - 1) {
            f(k, even);
        } else {
            f(k, even + odd * z);
            f(WIDTH - 1 - k, even - odd * z);
        }
    }
}

/* A batch, and the position of each of its samples. */
template <typename T> struct ring_samples {
    batch_places<T> of;
    alignas(16) int4 stand[RING_BATCH]; /* first taps of its tile, first w-plane, number of that plane */
};

/* The work of a block: its items of up to GROUP samples, which pass through shared memory in batches. */
template <int GROUP> struct ring_block {
    static constexpr int STEPS = RING_BATCH / GROUP; /* items of a batch */
    const item *group;
    int n_group;

    __device__ ring_block(item_range crowded, int groups)
        : group(crowded.first + (int64_t)blockIdx.x * groups),
          n_group((int)min((int64_t)groups, crowded.n - (int64_t)blockIdx.x * groups))
    {
    }
    __device__ bool has(int batch) const
    {
        return STEPS * batch < n_group;
    }
    /* Find the sample of a lane; the item's first sample for an empty place. Returns: whether the lane has a sample */
    __device__ bool find(int batch, uint32_t *at) const
    {
        const int lane = threadIdx.x % 32, k = STEPS * batch + lane / GROUP;
        const item own = group[min(k, n_group - 1)];
        const bool has = k < n_group && lane % GROUP < own.n;
        *at = own.first + (has ? (uint32_t)(lane % GROUP) : 0);
        return has;
    }
};

/* Compute the offset of a footprint's first cell in its tile. If edges are powers of two, cores consist of whole
 * tiles. */
template <int EDGE, typename PLANES>
__device__ int in_ring_tile(int first_tap, int64_t n_grid, int width, const PLANES &there)
{
    const int cell = first_tap + (int)(n_grid / 2) + width;
    if constexpr ((EDGE & (EDGE - 1)) == 0)
        return cell & (EDGE - 1);
    else
        return there.in_core(cell) % EDGE;
}

/* Count the bits of places in a tile. */
__host__ __device__ constexpr int bits_of(int edge)
{
    int bits = 0;
    while (1 << bits < edge) bits++;
    return bits;
}

/*
 * One warp of a block prefetches samples, batch by batch: first their addresses; one step later their records and
 * values, which are copied without registers; one step later their positions.
 */
template <typename T, int GROUP, int EDGE_U, int EDGE_V, typename PLANES> struct ring_fetch {
    const msi_wgrid_geometry &g;
    const grid_job<T> &job;
    const PLANES &there;
    const ring_block<GROUP> &block;
    bool fetches; /* whether the calling warp fetches */
    uint32_t at = 0;
    bool has = false;
    int4 stand = {};

    /* Begin to copy the samples that were found. */
    __device__ void request(ring_samples<T> *samples, int batch)
    {
        samples[batch % 3].of.request(job, at, has, 0, 1);
    }
    __device__ void wait()
    {
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncwarp();
    }
    __device__ void find_position(const ring_samples<T> *samples, int batch)
    {
        if (!block.has(batch)) return;
        const record<T> &r = samples[batch % 3].of.place(threadIdx.x % 32);
        stand = {r.u0 - in_ring_tile<EDGE_U>(r.u0, g.nu, g.width, there),
                 r.v0 - in_ring_tile<EDGE_V>(r.v0, g.nv, g.width, there), r.w0, there.plane_number(g, r)};
    }
    __device__ void store_position(ring_samples<T> *samples, int batch)
    {
        if (block.has(batch)) samples[batch % 3].stand[threadIdx.x % 32] = stand;
    }

    /* Begin batches 0 and 1. The block's other warps see them after a barrier. */
    __device__ void begin(ring_samples<T> *samples)
    {
        if (!fetches) return;
        has = block.find(0, &at);
        request(samples, 0);
        has = block.find(1, &at);
        request(samples, 1);
        has = block.find(2, &at);
        wait();
        find_position(samples, 0);
        store_position(samples, 0);
    }
    /* Request the batch after the next one, while a batch is gridded. */
    __device__ void next(ring_samples<T> *samples, int batch)
    {
        if (!fetches) return;
        find_position(samples, batch + 1);
        if (!block.has(batch + 2)) return;
        request(samples, batch + 2);
        has = block.find(batch + 3, &at);
    }
    /* Complete that request, when the batch has been gridded. */
    __device__ void finish(ring_samples<T> *samples, int batch)
    {
        if (!fetches) return;
        store_position(samples, batch + 1);
        wait();
    }
};

/* Divide items among blocks, `groups` to each. If there are enough items, there are a few times as many blocks as run
 * at once. */
struct block_split {
    int groups = 0;
    unsigned blocks = 0;

    /* Returns: 0, MSI_EGPU */
    int make(item_range crowded, int group, int blocks_at_once)
    {
        int device, processors;
        MSI_CUDA(cudaGetDevice(&device));
        MSI_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
        const int64_t each = crowded.n * group / ((int64_t)4 * processors * blocks_at_once) / RING_BATCH * RING_BATCH;
        groups = (int)(each < LEAST_IN_BLOCK ? LEAST_IN_BLOCK : each > MOST_IN_BLOCK ? MOST_IN_BLOCK : each) / group;
        blocks = (unsigned)((crowded.n + groups - 1) / groups);
        return MSI_OK;
    }
};

/* ---- Halves for tensor cores ------------------------------------------------------------------------------------- */

constexpr int LEAST_EXPONENT =
    27; /* exponent of a unit's largest value, as stored in floats; at most 254, that of the largest float */
constexpr float TAP_TOP = 64; /* largest tap: its products with values and taps are halves, and small ones are normal */

/* Return 2^n, -127 < n < 128. */
__device__ inline float unit_of(int n)
{
    return __uint_as_float((uint32_t)(n + 127) << 23);
}

/* Split a window's taps into high and low halves, and store them as rows of 8 EIGHTS cells, beginning `at` cells into
 * the row; at < 2^BITS. */
template <int WIDTH, int EIGHTS, int BITS>
__device__ void lay_row(const float (&tap)[WIDTH], int at, uint4 *high, uint4 *low, int stride)
{
    uint32_t row[2][4 * EIGHTS] = {};
#pragma unroll
    for (int k = 0; k < WIDTH; k += 2) {
        const mma::split_pair s = mma::split(tap[k], k + 1 < WIDTH ? tap[k + 1] : 0);
        row[0][k / 2] = s.high;
        row[1][k / 2] = s.low;
    }
#pragma unroll
    for (int part = 0; part < 2; part++) {
#pragma unroll
        for (int j = 4 * EIGHTS - 1; j >= 0; j--)
            row[part][j] = __funnelshift_l(j ? row[part][j - 1] : 0, row[part][j], at % 2 * 16);
#pragma unroll
        for (int b = 1; b < BITS; b++)
#pragma unroll
            for (int j = 4 * EIGHTS - 1; j >= 0; j--) {
                const int step = 1 << (b - 1);
                row[part][j] = at >> b & 1 ? j >= step ? row[part][j - step] : 0 : row[part][j];
            }
#pragma unroll
        for (int e = 0; e < EIGHTS; e++)
            (part ? low : high)[e * stride] = {row[part][4 * e], row[part][4 * e + 1], row[part][4 * e + 2],
                                               row[part][4 * e + 3]};
    }
}

} // namespace

#endif
