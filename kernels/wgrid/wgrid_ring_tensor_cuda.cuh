/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Crowded items in single precision on tensor cores. What samples s of a tile add to w-plane p is a matrix product with
 * the samples along K,
 *
 *     G_p[v][u] = sum_s (V_s kv_s[v]) (ku_s[u] kw_s[p]),
 *
 * sixteen samples of one first w-plane a step, taps between zeros filling the 16 x 8 or 16 x 16 cells that a tile's
 * footprints may touch. Both factors are split into two halves of 11 bits; products of the high halves and both mixed
 * ones count 22 bits. What the product of two halves is rounded by is a half itself, so that ku kw is made of halves.
 * A step's sum is made by the tensor cores, which round towards zero, and added in fp32 to sums that round to nearest;
 * where the window is narrow, or the image no better than that anyway, tensor cores add to the sums themselves.
 *
 * A warp has 16 x 8 cells, in registers and all W planes above the first plane of the samples at hand; a block is one
 * warp or two. A batch is two steps: a lane makes the taps of a sample and lays them as a row of halves between zeros;
 * the rows of sixteen samples are read back transposed, as tensor cores take them. When the first plane moves up, the
 * planes left behind are added to the grid and the others move down.
 */
#ifndef MSI_KERNELS_WGRID_RING_TENSOR_CUDA_CUH
#define MSI_KERNELS_WGRID_RING_TENSOR_CUDA_CUH

#include "kernels/gpu/vector_add_cuda.cuh"
#include "kernels/wgrid/wgrid_halves_cuda.cuh"
#include "kernels/wgrid/wgrid_ring_fetch_cuda.cuh"

namespace {

constexpr int RING_GROUP = 16;        /* samples of a step */
constexpr int VALUE_TOP_EXPONENT = 9; /* of values in their unit */

template <int WIDTH, bool HAS_W, bool IS_COARSE> struct tensor_ring {
    static constexpr int N_PLANE = HAS_W ? WIDTH : 1;
    static constexpr tile_shape TILE = ring_tile<float>(WIDTH);
    static constexpr int EIGHTS = (TILE.u + WIDTH + 6) / 8; /* of cells along u */
    static constexpr bool SUMS_IN_MMA = WIDTH <= ALWAYS_SUMMED || IS_COARSE;
    /* Blocks of a multiprocessor: a thread has its sums and some 70 more registers. */
    static constexpr int REGISTERS = 8 * N_PLANE + 70;
    static constexpr int BLOCKS = (REGISTERS <= 128 ? 16 : REGISTERS <= 168 ? 12 : 8) / EIGHTS;
};

/* Rows of eight halves: of both halves of the factors, all of a batch's samples. */
template <int WIDTH, bool HAS_W> struct tensor_memory {
    using ring = tensor_ring<WIDTH, HAS_W, false>;
    uint4 u[ring::EIGHTS][2][RING_BATCH];
    uint4 left[2][2][2][RING_BATCH];       /* values times taps along v: [re, im][high, low][cells 0 .. 7, 8 .. 15] */
    uint32_t w[ring::N_PLANE][RING_BATCH]; /* [step][pair][samples + 0, + 8][high, low] */
    float unit[2];
    batch_places<float> of[2];
};

/* Find the unit of sums that were made of values with this exponent. */
__device__ inline float value_unit(int exponent)
{
    return unit_of(exponent - VALUE_TOP_EXPONENT + 1 - 127) / (TAP_TOP * TAP_TOP * TAP_TOP);
}

__device__ inline void add_two_cells(cplx<float> *first, cplx<float> *second, float re0, float im0, float re1,
                                     float im1)
{
    if (second == first + 1 && (reinterpret_cast<uintptr_t>(first) & 15) == 0) {
        if (re0 != 0 || im0 != 0 || re1 != 0 || im1 != 0) vector_add::add_two(first, re0, im0, re1, im1);
        return;
    }
    if (re0 != 0 || im0 != 0) vector_add::add_one(first, re0, im0);
    if (re1 != 0 || im1 != 0) vector_add::add_one(second, re1, im1);
}

/*
 * One warp's part of a block's sums, and how samples come into them. All warps of a block lay taps (lay_batch), meet,
 * and add them to their own cells (add_step).
 */
template <int WIDTH, bool HAS_W, bool IS_COARSE, typename PLANES> struct tensor_sums {
    using ring = tensor_ring<WIDTH, HAS_W, IS_COARSE>;
    static constexpr int N_PLANE = ring::N_PLANE, EIGHTS = ring::EIGHTS;
    static_assert(!ring::SUMS_IN_MMA || EIGHTS == 1, "the first warp chooses the unit of its own sums alone");
    const msi_wgrid_geometry &g;
    const grid_job<float> &job;
    const even_taps<float, WIDTH> &window;
    const PLANES &there;
    tensor_memory<WIDTH, HAS_W> &m;
    const int lane, warp, row, pair;
    int3 own = {};                   /* of a lane's sample: first taps of its tile, first w-plane */
    float sum[N_PLANE][2][4] = {};   /* [plane][re, im][mma's four] of this warp's columns .. */
    int exponent = LEAST_EXPONENT;   /* .. and in what unit, if tensor cores add to them */
    int4 now = {INT32_MIN, 0, 0, 0}; /* of the sums: first taps of the tile, first w-plane, number of that plane */
    uint32_t cell[2] = {};           /* of this thread's cells in a plane, the first one of either row .. */
    int next = 0;                    /* .. and from there to the second */
    int64_t plane_cells = 0;

    /* Choose the unit that takes the largest value to 2^VALUE_TOP_EXPONENT, or just below: a step's, or of all that the
     * block has seen, whose sums change to it. Returned: what values are multiplied by. */
    __device__ __forceinline__ float choose_unit(cplx<float> value)
    {
        uint32_t most = __float_as_uint(fmaxf(fabsf(value.re), fabsf(value.im)));
#pragma unroll
        for (int s = ring::SUMS_IN_MMA ? 16 : RING_GROUP / 2; s; s /= 2)
            most = max(most, __shfl_xor_sync(~0u, most, s));
        const int top = max((int)(most >> 23), ring::SUMS_IN_MMA ? exponent : LEAST_EXPONENT);
        if (ring::SUMS_IN_MMA && top != exponent) {
            const float ratio = top - exponent < 127 ? unit_of(exponent - top) : 0;
#pragma unroll
            for (int k = 0; k < N_PLANE; k++)
#pragma unroll
                for (int i = 0; i < 8; i++) sum[k][i / 4][i % 4] *= ratio;
        }
        exponent = top;
        if (!ring::SUMS_IN_MMA && lane % RING_GROUP == 0) m.unit[lane / RING_GROUP] = value_unit(exponent);
        return unit_of(127 + VALUE_TOP_EXPONENT - 1 - exponent);
    }

    /* Lay a lane's taps along v, times its value. */
    __device__ __forceinline__ void lay_values(const record<float> &r, cplx<float> value, int in_v)
    {
        const float scale = choose_unit(value);
        float taps[WIDTH], of_value[WIDTH];
        for_each_tap<float, WIDTH>(window.uv, r.zv, [&](int k, float tap) { taps[k] = tap; });
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const float x = scale * (c ? value.im : value.re);
#pragma unroll
            for (int k = 0; k < WIDTH; k++) of_value[k] = x * taps[k];
            lay_row<WIDTH, 2, bits_of(ring::TILE.v)>(of_value, in_v, &m.left[c][0][0][lane], &m.left[c][1][0][lane],
                                                     RING_BATCH);
        }
    }

    /* Lay a lane's taps along u and w. */
    __device__ __forceinline__ void lay_factors(const record<float> &r, int in_u)
    {
        float taps[WIDTH];
        const auto keep = [&](int k, float tap) { taps[k] = tap; };
        for_each_tap<float, WIDTH>(window.uv, r.zu, keep);
        lay_row<WIDTH, EIGHTS, bits_of(ring::TILE.u)>(taps, in_u, &m.u[0][0][lane], &m.u[0][1][lane], 2 * RING_BATCH);
        const int even = lane % 8 / 2 * 4 + lane % RING_GROUP / 8 * 2 + lane / RING_GROUP * RING_GROUP;
        if (HAS_W) for_each_tap<float, WIDTH>(window.w, r.zw, keep);
#pragma unroll
        for (int k = 0; k < N_PLANE; k++) {
            /* Both halves of one tap; then the same halves of two samples. */
            const float x = HAS_W ? taps[k] : TAP_TOP;
            const float high = __half2float(__float2half_rn(x));
            const uint32_t both = mma::bits(__floats2half2_rn(high, x - high));
            const uint32_t other = __shfl_xor_sync(~0u, both, 1);
            m.w[k][even + lane % 2] = __byte_perm(both, other, lane % 2 ? 0x3276 : 0x5410);
        }
    }

    /* Lay the taps of a batch, a sample to a lane: the first warp along v, the last one along u and w. */
    __device__ __forceinline__ void lay_batch(int batch)
    {
        const record<float> r = m.of[batch % 2].place(lane);
        const int in_u = in_ring_tile<ring::TILE.u>(r.u0, g.nu, WIDTH, there);
        const int in_v = in_ring_tile<ring::TILE.v>(r.v0, g.nv, WIDTH, there);
        own = {r.u0 - in_u, r.v0 - in_v, r.w0};
        if (warp == 0) lay_values(r, m.of[batch % 2].value(lane), in_v);
        if (warp == EIGHTS - 1) lay_factors(r, in_u);
    }

    /* Add the first n planes, which are complete, to the grid, and move the others down. */
    __device__ __forceinline__ void leave(int n)
    {
        for (; n > 0; n--, now.w++) {
            if ((unsigned)now.w < (unsigned)there.n_plane()) {
                cplx<float> *cells = job.grid + now.w * plane_cells;
                if (ring::SUMS_IN_MMA)
#pragma unroll
                    for (int i = 0; i < 8; i++) sum[0][i / 4][i % 4] *= value_unit(exponent);
#pragma unroll
                for (int down = 0; down < 2; down++)
                    if (8 * down + row < ring::TILE.v + WIDTH - 1) {
                        cplx<float> *first = cells + cell[down];
                        add_two_cells(first, first + next, sum[0][0][2 * down], sum[0][1][2 * down],
                                      sum[0][0][2 * down + 1], sum[0][1][2 * down + 1]);
                    }
            }
#pragma unroll
            for (int k = 0; k < N_PLANE; k++)
#pragma unroll
                for (int i = 0; i < 8; i++) sum[k][i / 4][i % 4] = k + 1 < N_PLANE ? sum[k + 1][i / 4][i % 4] : 0;
        }
    }

    /* Stand at another tile, or in another core's planes, with sums of zero. */
    __device__ __forceinline__ void stand_at(int x, int y, int z, const record<float> &r)
    {
        const patch to = there.find(g, r);
        const int u = x + 8 * warp + 2 * pair + to.shift_u, first = msi_wrap_cell(u, to.n_u);
        next = msi_wrap_cell(u + 1, to.n_u) - first;
#pragma unroll
        for (int down = 0; down < 2; down++)
            cell[down] = (uint32_t)msi_wrap_cell(y + row + 8 * down + to.shift_v, to.n_v) * (uint32_t)to.n_u + first;
        plane_cells = to.plane_cells;
        now = {x, y, z, there.plane_number(g, r)};
    }

    /* Move the sums to where sample `first` of the batch lies. */
    __device__ __forceinline__ void follow(int first, int batch)
    {
        const int x = __shfl_sync(~0u, own.x, first), y = __shfl_sync(~0u, own.y, first);
        const int z = __shfl_sync(~0u, own.z, first);
        if (x != now.x || y != now.y) {
            leave(N_PLANE);
            stand_at(x, y, z, m.of[batch % 2].place(first));
        } else if (z != now.z) {
            const int moved = z - now.z;
            leave(min(moved, N_PLANE));
            now.z = z;
            if (moved > N_PLANE) now.w = there.plane_number(g, m.of[batch % 2].place(first));
        }
    }

    /* Add sixteen samples of a batch to the sums. */
    __device__ __forceinline__ void add_step(int step, int batch)
    {
        const int first = RING_GROUP * step;
        const float unit = ring::SUMS_IN_MMA ? 0 : m.unit[step];
        follow(first, batch);
        if (!PLANES::ALWAYS_W && (now.w + N_PLANE <= 0 || now.w >= there.n_plane())) return;
        uint4 left[2][2];
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                left[c][h] = mma::load_transposed(&m.left[c][h][lane / 8 % 2][first + lane / 16 * 8 + lane % 8]);
        const uint4 u = mma::load_transposed(&m.u[warp][lane / 16][first + lane / 8 % 2 * 8 + lane % 8]);
#pragma unroll
        for (int k = 0; k < N_PLANE; k++) {
            const uint4 w = *reinterpret_cast<const uint4 *>(&m.w[k][first + 4 * pair]);
            const mma::split_pair r0 = mma::multiply({u.x, u.z}, {w.x, w.y}),
                                  r1 = mma::multiply({u.y, u.w}, {w.z, w.w});
#pragma unroll
            for (int c = 0; c < 2; c++) {
                float part[4] = {};
                auto &out = ring::SUMS_IN_MMA ? sum[k][c] : part;
                mma::multiply_add(out, left[c][1], r0.high, r1.high);
                mma::multiply_add(out, left[c][0], r0.low, r1.low);
                mma::multiply_add(out, left[c][0], r0.high, r1.high);
#pragma unroll
                for (int i = 0; i < 4 && !ring::SUMS_IN_MMA; i++) sum[k][c][i] += unit * part[i];
            }
        }
    }
};

template <int WIDTH, bool HAS_W, bool IS_COARSE, typename PLANES>
__global__ void __launch_bounds__(32 * tensor_ring<WIDTH, HAS_W, IS_COARSE>::EIGHTS,
                                  tensor_ring<WIDTH, HAS_W, IS_COARSE>::BLOCKS)
    k_grid_ring_tensor(msi_wgrid_geometry g, grid_job<float> job,
                       const __grid_constant__ even_taps<float, WIDTH> window, PLANES there, item_range crowded,
                       int groups)
{
    using ring = tensor_ring<WIDTH, HAS_W, IS_COARSE>;
    constexpr int EIGHTS = ring::EIGHTS;
    __shared__ tensor_memory<WIDTH, HAS_W> m;
    const ring_block<RING_GROUP> block(crowded, groups);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    tensor_sums<WIDTH, HAS_W, IS_COARSE, PLANES> sums = {g, job, window, there, m, lane, warp, lane / 4, lane % 4};
    uint32_t at; /* of a lane, the next batch's sample */
    bool has = block.find(0, &at);
    m.of[0].request(job, at, has, warp, EIGHTS);
    __pipeline_commit();
    has = block.find(1, &at);
    for (int batch = 0; block.has(batch); batch++) {
        __pipeline_wait_prior(0);
        __syncthreads();
        sums.lay_batch(batch);
        m.of[(batch + 1) % 2].request(job, at, has, warp, EIGHTS);
        __pipeline_commit();
        has = block.find(batch + 2, &at);
        __syncthreads();
        for (int step = 0; step < 2 && 2 * batch + step < block.n_group; step++) sums.add_step(step, batch);
    }
    __pipeline_wait_prior(0);
    sums.leave(ring::N_PLANE);
}

template <int WIDTH, bool HAS_W, bool IS_COARSE, typename PLANES>
int launch_ring_summed(const msi_wgrid_geometry &g, const grid_job<float> &job, const PLANES &there, item_range crowded,
                       cudaStream_t stream)
{
    using ring = tensor_ring<WIDTH, HAS_W, IS_COARSE>;
    block_split split;
    MSI_TRY(split.make(crowded, RING_GROUP, ring::BLOCKS));
    k_grid_ring_tensor<WIDTH, HAS_W, IS_COARSE, PLANES><<<split.blocks, 32 * ring::EIGHTS, 0, stream>>>(
        g, job, even_taps<float, WIDTH>(*job.host_taps, TAP_TOP), there, crowded, split.groups);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

template <int WIDTH, bool HAS_W, typename PLANES>
int launch_ring_tensor(const msi_wgrid_geometry &g, const grid_job<float> &job, const PLANES &there, item_range crowded,
                       cudaStream_t stream)
{
    if (!crowded.n) return MSI_OK;
    if constexpr (WIDTH > ALWAYS_SUMMED && WIDTH <= COARSELY_SUMMED)
        if (job.is_coarse) return launch_ring_summed<WIDTH, HAS_W, true>(g, job, there, crowded, stream);
    return launch_ring_summed<WIDTH, HAS_W, false>(g, job, there, crowded, stream);
}

} // namespace

#endif
