/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The gridding kernels of the default gridder: two for crowded items, which sum them in registers by matrix products of
 * doubles (first) and of halves (second), and one that adds sparse items to the planes directly. grid_items chooses the
 * kernel.
 *
 * Crowded items in double precision, and in single with wide windows. A block processes samples in their sorted order:
 * tile by tile, within a tile by first w-plane. Its warps share the cells of a tile's footprints: each has 16 x 8 of
 * them and, if there are many planes, every other plane. They hold the W planes from the current samples' first plane
 * on in registers; plane p is in place p modulo the number of places of a ring. When the first plane moves up, the
 * planes below it are added to the grid, and their places are zeroed. So a cell is written once for all samples of all
 * first planes that share it. When the tile changes, all planes are added.
 *
 * The sum over samples s of one first plane in plane p is a matrix product with the samples along K,
 *
 *     G_p[v][u] = sum_s (V_s kv_s[v]) (ku_s[u] kw_s[p]),
 *
 * which tensor cores compute in double for four samples at a time. Taps are stored in shared memory between zeros, so
 * that cells next to a footprint need no test; taps along w are in the order of the ring. While a batch is added, the
 * taps of the next batch are computed, and the batch after that is loaded.
 */
#ifndef MSI_WGRID_GRID_CUDA_CUH
#define MSI_WGRID_GRID_CUDA_CUH

#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/gpu/mma_cuda.cuh"
#include "kernels/wgrid/wgrid_crowded_cuda.cuh"
#include "kernels/wgrid/wgrid_cuda_kernels.cuh"

namespace {

/* ---- Crowded items in double precision --------------------------------------------------------------------------- */

constexpr int FOUR = 4;       /* number of samples of an item, and of a product */
constexpr int MOST_ALONE = 6; /* number of planes of a block of cells that one warp can hold */

template <typename T, int WIDTH, bool HAS_W> struct ring_shape {
    static constexpr int N_PLANE = HAS_W ? WIDTH : 1;
    static constexpr tile_shape TILE = ring_tile<T>(WIDTH);
    static constexpr int EDGE_U = TILE.u, EDGE_V = TILE.v;
    /* Cells of a tile's footprints: blocks of 16 rows and 8 columns, one for each warp. */
    static constexpr int BLOCKS_U = (EDGE_U + WIDTH - 1 + 7) / 8, BLOCKS_V = (EDGE_V + WIDTH - 1 + 15) / 16;
    /* Warps that share a block's planes, so that its part fits into a warp's registers. */
    static constexpr int SHARES = N_PLANE <= MOST_ALONE ? 1 : 2, SLOTS = (N_PLANE + SHARES - 1) / SHARES;
    static constexpr int PLACES = SHARES * SLOTS; /* places of the ring */
    static constexpr int N_WARP = BLOCKS_U * BLOCKS_V * SHARES;
    /* Blocks of a multiprocessor: a thread has its sums and about 50 more registers. */
    static constexpr int WARPS = 16 * SLOTS + 50 <= 128 ? 16 : 16 * SLOTS + 50 <= 168 ? 12 : 8;
    static constexpr int BLOCKS = WARPS < N_WARP ? 1 : WARPS / N_WARP;
    /* Taps between zeros. Rows of an odd number of doubles begin in different banks. */
    static constexpr int ROW_U = (EDGE_U - 1 + 8 * BLOCKS_U) | 1, ROW_V = (EDGE_V - 1 + 16 * BLOCKS_V) | 1;
};

/* Cell c of a footprint that begins d cells into the tile has tap c - d, which is stored EDGE_U - 1 or EDGE_V - 1
 * places further. */
template <typename T, int WIDTH, bool HAS_W> struct ring_taps {
    using shape = ring_shape<T, WIDTH, HAS_W>;
    double u[RING_BATCH][shape::ROW_U];
    double left[2][RING_BATCH][shape::ROW_V];        /* re and im of values times taps along v */
    alignas(16) double w[shape::PLACES][RING_BATCH]; /* in the order of the ring */
    alignas(16) int in_tile[RING_BATCH];             /* EDGE_U - 1 - d; the same along v in the upper half */
};

template <typename T, int WIDTH, bool HAS_W> struct ring_memory {
    using shape = ring_shape<T, WIDTH, HAS_W>;
    ring_taps<T, WIDTH, HAS_W> taps[2];
    ring_samples<T> samples[3];
};

/* Keep the preceding code in its branch: selecting instead takes longer. */
__device__ inline void keep_in_branch(double &x)
{
    asm volatile("" : "+d"(x));
}

/*
 * One warp's part of a block's sums, and how samples are added to them. The warps of a block share the making of taps
 * (make_taps), synchronise, and add them to their own cells (add).
 */
template <typename T, int WIDTH, bool HAS_W, typename PLANES> struct ring_sums {
    using shape = ring_shape<T, WIDTH, HAS_W>;
    static constexpr int N_PLANE = shape::N_PLANE, SLOTS = shape::SLOTS;
    static constexpr int EDGE_U = shape::EDGE_U, EDGE_V = shape::EDGE_V;
    const msi_wgrid_geometry &g;
    const grid_job<T> &job;
    const even_taps<T, WIDTH> &window;
    const PLANES &there;
    ring_memory<T, WIDTH, HAS_W> &m;
    const ring_block<FOUR> &block;
    const int lane, warp;
    const int row, pair; /* place in tensor cores' operands */
    const int column;    /* cell of the operands' column `row`; that of column 2 pair is pair / 2 + 2 (pair % 2), of
                            the next 4 further */
    const int first_u, first_v; /* first of the warp's cells in the block's */
    const int share;            /* share of the planes */
    /* [place of the ring][re, im][rows 0 .. 7, 8 .. 15][columns 2 pair, 2 pair + 1] */
    double sum[SLOTS][2][2][2] = {};
    int4 now = {INT32_MIN, 0, 0, 0}; /* position of the sums, as stored for samples */
    /* Cells of a plane that this thread adds to: the first cell of both blocks of eight rows, and the distances to the
     * others. */
    uint32_t cell[2] = {};
    int onward[3] = {};
    int64_t plane_cells = 0;

    /* Make a batch's taps, one sample a lane. Warps share the parts: along u; re and im of the value times taps along
     * v; along w. */
    __device__ __forceinline__ void make_taps(int batch)
    {
        if (!block.has(batch)) return;
        const record<T> &own = m.samples[batch % 3].of.place(lane);
        const cplx<T> value = m.samples[batch % 3].of.value(lane);
        ring_taps<T, WIDTH, HAS_W> &taps = m.taps[batch % 2];
        for (int part = warp; part < 4; part += shape::N_WARP) {
            if (part < 3) {
                const double factor = part == 0 ? 1 : part == 1 ? value.re : value.im;
                double *to = part == 0 ? &taps.u[lane][EDGE_U - 1] : &taps.left[part - 1][lane][EDGE_V - 1];
                for_each_tap<T, WIDTH>(window.uv, part == 0 ? own.zu : own.zv,
                                       [&](int k, T tap) { to[k] = factor * tap; });
            } else if (HAS_W) {
                const int first = own.w0 % shape::PLACES;
                for_each_tap<T, WIDTH>(window.w, own.zw, [&](int k, T tap) {
                    taps.w[first + k < shape::PLACES ? first + k : first + k - shape::PLACES][lane] = tap;
                });
            }
        }
        if (warp == shape::N_WARP - 1) {
            const int in_u = in_ring_tile<EDGE_U>(own.u0, g.nu, g.width, there);
            const int in_v = in_ring_tile<EDGE_V>(own.v0, g.nv, g.width, there);
            taps.in_tile[lane] = EDGE_U - 1 - in_u + (EDGE_V - 1 - in_v) * 65536;
            if (!HAS_W) taps.w[0][lane] = 1;
            if (shape::PLACES > N_PLANE) taps.w[(own.w0 + N_PLANE) % shape::PLACES][lane] = 0;
        }
    }

    /* Add the sums of slot s to the grid and zero them. Lanes exchange halves of cells, so that four of them add to two
     * neighbouring cells: an atomic addition to a part of 32 bytes takes memory as long as one to all of them. */
    __device__ __forceinline__ void empty_slot(int s, cplx<T> *cells, bool adds)
    {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            T *first = reinterpret_cast<T *>(cells + cell[r]) + pair % 2;
#pragma unroll
            for (int c = 0; c < 2; c++) {
                double &re = sum[s][0][r][c], &im = sum[s][1][r][c];
                const double other = __shfl_xor_sync(~0u, pair % 2 ? re : im, 1);
                const T x = (T)(pair % 2 ? other : re), y = (T)(pair % 2 ? im : other);
                if (adds && x != 0) atomicAdd(first + (c ? 2 * onward[1] : 0), x);
                if (adds && y != 0) atomicAdd(first + 2 * onward[c ? 2 : 0], y);
                re = im = 0;
                keep_in_branch(re);
                keep_in_branch(im);
            }
        }
    }

    /* Add the first n planes, which are complete, to the grid. */
    __device__ __forceinline__ void leave(int n)
    {
        for (int k = 0; k < n; k++) {
            const int place = (now.z + k) % shape::PLACES;
            const bool adds = (unsigned)(now.w + k) < (unsigned)there.n_plane();
            cplx<T> *cells = job.grid + (now.w + k) * plane_cells;
#pragma unroll
            for (int s = 0; s < SLOTS; s++)
                if (s * shape::SHARES + share == place) empty_slot(s, cells, adds);
        }
    }

    /* Move the sums to a sample's position, and add the planes left behind to the grid. */
    __device__ __forceinline__ void move_to(int4 next, const record<T> &r)
    {
        const bool stays = next.x == now.x && next.y == now.y;
        leave(stays ? min(next.z - now.z, N_PLANE) : N_PLANE);
        now = next;
        if (stays) return;
        const patch to = there.find(g, r);
        const int u = now.x + first_u + pair / 2 + to.shift_u, first = msi_wrap_cell(u, to.n_u);
#pragma unroll
        for (int i = 0; i < 3; i++) onward[i] = msi_wrap_cell(u + 2 * i + 2, to.n_u) - first;
#pragma unroll
        for (int i = 0; i < 2; i++)
            cell[i] =
                (uint32_t)msi_wrap_cell(now.y + first_v + row + 8 * i + to.shift_v, to.n_v) * (uint32_t)to.n_u + first;
        plane_cells = to.plane_cells;
    }

    /* Add four samples of a batch, from `first` on, to all planes. */
    __device__ __forceinline__ void add_four(const ring_taps<T, WIDTH, HAS_W> &taps, int first)
    {
        const int sample = first + pair;
        const int in_tile = taps.in_tile[sample], at_v = (in_tile >> 16) + first_v + row;
        const double u = taps.u[sample][(in_tile & 0xffff) + first_u + column];
        double left[2][2];
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int r = 0; r < 2; r++) left[c][r] = taps.left[c][sample][at_v + 8 * r];
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            const double right = u * taps.w[share + s * shape::SHARES][sample];
            mma::multiply_add(sum[s][0], left[0], right);
            mma::multiply_add(sum[s][1], left[1], right);
        }
    }

    /* Add a batch to the sums. */
    __device__ __forceinline__ void add(int batch)
    {
        const ring_taps<T, WIDTH, HAS_W> &taps = m.taps[batch % 2];
        const ring_samples<T> &samples = m.samples[batch % 3];
        const int n = min(RING_BATCH, FOUR * block.n_group - RING_BATCH * batch);
        const int4 own = samples.stand[lane], before = samples.stand[max(lane - FOUR, 0)];
        const unsigned moves =
            __ballot_sync(~0u, own.x != before.x || own.y != before.y || own.z != before.z || lane >= n);
        for (int first = 0; first < n;) {
            /* Take samples of one position together, at most this many steps. */
            constexpr int ALIKE = 4;
            const unsigned later = moves >> first >> FOUR;
            const int end = min(first + FOUR * ALIKE, later ? first + FOUR + __ffs((int)later) - 1 : n);
            const int4 stand = samples.stand[first];
            if (stand.w + N_PLANE > 0 && stand.w < there.n_plane()) {
                if (stand.x != now.x || stand.y != now.y || stand.z != now.z) move_to(stand, samples.of.place(first));
#pragma unroll
                for (int step = 0; step < ALIKE; step++) {
                    if (first + FOUR * step >= end) break;
                    add_four(taps, first + FOUR * step);
                }
            }
            first = end;
        }
    }
};

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * ring_shape<T, WIDTH, HAS_W>::N_WARP, ring_shape<T, WIDTH, HAS_W>::BLOCKS)
    k_grid_ring(msi_wgrid_geometry g, grid_job<T> job, const __grid_constant__ even_taps<T, WIDTH> window, PLANES there,
                item_range crowded, int groups)
{
    using shape = ring_shape<T, WIDTH, HAS_W>;
    extern __shared__ float4 memory[];
    auto &m = *reinterpret_cast<ring_memory<T, WIDTH, HAS_W> *>(memory);
    const ring_block<FOUR> block(crowded, groups);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4;
    for (int i = threadIdx.x; i < (int)(sizeof m.taps / sizeof(double)); i += blockDim.x) ((double *)m.taps)[i] = 0;

    ring_fetch<T, FOUR, shape::EDGE_U, shape::EDGE_V, PLANES> fetch = {g, job, there, block, warp == 0};
    ring_sums<T, WIDTH, HAS_W, PLANES> sums = {g,
                                               job,
                                               window,
                                               there,
                                               m,
                                               block,
                                               lane,
                                               warp,
                                               row,
                                               lane % 4,
                                               row / 4 + row / 2 % 2 * 2 + row % 2 * 4,
                                               warp % shape::BLOCKS_U * 8,
                                               warp / shape::BLOCKS_U % shape::BLOCKS_V * 16,
                                               warp / (shape::BLOCKS_U * shape::BLOCKS_V)};
    fetch.begin(m.samples);
    __syncthreads();
    sums.make_taps(0);
    __syncthreads();
    for (int batch = 0; block.has(batch); batch++) {
        fetch.next(m.samples, batch);
        sums.make_taps(batch + 1);
        sums.add(batch);
        fetch.finish(m.samples, batch);
        __syncthreads();
    }
    sums.leave(shape::N_PLANE);
}

/* can_ring - return whether blocks can hold their taps for every window. */
template <typename T> bool can_ring(size_t shared_bytes)
{
    return sizeof(ring_memory<T, MSI_PSWF_MAX_WIDTH, true>) <= shared_bytes;
}

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
int launch_ring(const msi_wgrid_geometry &g, const grid_job<T> &job, const PLANES &there, item_range crowded,
                cudaStream_t stream)
{
    using shape = ring_shape<T, WIDTH, HAS_W>;
    constexpr size_t bytes = sizeof(ring_memory<T, WIDTH, HAS_W>);
    if (!crowded.n) return MSI_OK;
    MSI_CUDA(cudaFuncSetAttribute(k_grid_ring<T, WIDTH, HAS_W, PLANES>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)bytes));
    block_split split;
    MSI_TRY(split.make(crowded, FOUR, shape::BLOCKS));
    k_grid_ring<T, WIDTH, HAS_W, PLANES><<<split.blocks, 32 * shape::N_WARP, bytes, stream>>>(
        g, job, even_taps<T, WIDTH>(*job.host_taps, 1), there, crowded, split.groups);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* ---- Crowded items in single precision --------------------------------------------------------------------------- */

/*
 * Crowded items in single precision on tensor cores. The sum over samples s of a tile in w-plane p is a matrix product
 * with the samples along K,
 *
 *     G_p[v][u] = sum_s (V_s kv_s[v]) (ku_s[u] kw_s[p]),
 *
 * sixteen samples of one first w-plane a step. Taps between zeros fill the 16 x 8 or 16 x 16 cells of a tile's
 * footprints. Both factors are split into two halves of 11 bits; products of the high halves and both mixed products
 * keep 22 bits. The rounding error of a product of two halves is exactly a half, so ku kw is computed in halves. Tensor
 * cores compute the sum of a step, rounding towards zero, and the sum is added in fp32, rounding to nearest. If the
 * window is narrow, or the image needs no more accuracy, tensor cores also accumulate the sums.
 *
 * A warp has 16 x 8 cells in registers, of all W planes from the current samples' first plane on. A block is one warp
 * or two. A batch is two steps: a lane computes the taps of a sample, and stores them as a row of halves between zeros;
 * the rows of sixteen samples are read back transposed, as tensor cores need them. When the first plane moves up, the
 * planes below it are added to the grid, and the others move down.
 */

constexpr int RING_GROUP = 16;        /* samples of a step */
constexpr int VALUE_TOP_EXPONENT = 9; /* exponent of values in their unit */

template <int WIDTH, bool HAS_W, bool IS_COARSE> struct tensor_ring {
    static constexpr int N_PLANE = HAS_W ? WIDTH : 1;
    static constexpr tile_shape TILE = ring_tile<float>(WIDTH);
    static constexpr int EIGHTS = (TILE.u + WIDTH + 6) / 8; /* groups of 8 cells along u */
    static constexpr bool SUMS_IN_MMA = WIDTH <= ALWAYS_SUMMED || IS_COARSE;
    /* Blocks of a multiprocessor: a thread has its sums and about 70 more registers. */
    static constexpr int REGISTERS = 8 * N_PLANE + 70;
    static constexpr int BLOCKS = (REGISTERS <= 128 ? 16 : REGISTERS <= 168 ? 12 : 8) / EIGHTS;
};

/* Rows of eight halves, of both halves of the factors, for all samples of a batch. */
template <int WIDTH, bool HAS_W> struct tensor_memory {
    using ring = tensor_ring<WIDTH, HAS_W, false>;
    uint4 u[ring::EIGHTS][2][RING_BATCH];
    uint4 left[2][2][2][RING_BATCH];       /* values times taps along v: [re, im][high, low][cells 0 .. 7, 8 .. 15] */
    uint32_t w[ring::N_PLANE][RING_BATCH]; /* [step][pair][samples + 0, + 8][high, low] */
    float unit[2];
    batch_places<float> of[2];
};

/* Return the unit of sums of values with this exponent. */
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
 * One warp's part of a block's sums, and how samples are added to them. All warps of a block lay out taps (lay_batch),
 * synchronise, and add them to their own cells (add_step).
 */
template <int WIDTH, bool HAS_W, bool IS_COARSE, typename PLANES> struct tensor_sums {
    using ring = tensor_ring<WIDTH, HAS_W, IS_COARSE>;
    static constexpr int N_PLANE = ring::N_PLANE, EIGHTS = ring::EIGHTS;
    static_assert(!ring::SUMS_IN_MMA || EIGHTS == 1, "the first warp chooses only the unit of its sums");
    const msi_wgrid_geometry &g;
    const grid_job<float> &job;
    const even_taps<float, WIDTH> &window;
    const PLANES &there;
    tensor_memory<WIDTH, HAS_W> &m;
    const int lane, warp, row, pair;
    int3 own = {};                 /* position of a lane's sample: first taps of its tile, first w-plane */
    float sum[N_PLANE][2][4] = {}; /* [plane][re, im][mma's four] of this warp's columns */
    int exponent = LEAST_EXPONENT; /* unit of the sums, if tensor cores add to them */
    int4 now = {INT32_MIN, 0, 0,
                0};        /* position of the sums: first taps of the tile, first w-plane, number of that plane */
    uint32_t cell[2] = {}; /* this thread's first cell in a plane, of either row */
    int next = 0;          /* distance from it to the second cell */
    int64_t plane_cells = 0;

    /* Choose the unit that scales the largest value to 2^VALUE_TOP_EXPONENT or just below: the largest value of a step,
     * or of all samples of the block, whose sums are converted to the unit. Returns: the factor of values */
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

    /* Lay out a lane's taps along v, times its value. */
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

    /* Lay out a lane's taps along u and w. */
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
            /* First both halves of one tap; then the same half of two samples. */
            const float x = HAS_W ? taps[k] : TAP_TOP;
            const float high = __half2float(__float2half_rn(x));
            const uint32_t both = mma::bits(__floats2half2_rn(high, x - high));
            const uint32_t other = __shfl_xor_sync(~0u, both, 1);
            m.w[k][even + lane % 2] = __byte_perm(both, other, lane % 2 ? 0x3276 : 0x5410);
        }
    }

    /* Lay out the taps of a batch, one sample a lane: the first warp along v, the last warp along u and w. */
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

    /* Move to another tile, or to another core's planes. The sums are zero. */
    __device__ __forceinline__ void move_to_tile(int x, int y, int z, const record<float> &r)
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

    /* Move the sums to the position of sample `first` of the batch. */
    __device__ __forceinline__ void follow(int first, int batch)
    {
        const int x = __shfl_sync(~0u, own.x, first), y = __shfl_sync(~0u, own.y, first);
        const int z = __shfl_sync(~0u, own.z, first);
        if (x != now.x || y != now.y) {
            leave(N_PLANE);
            move_to_tile(x, y, z, m.of[batch % 2].place(first));
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
    uint32_t at; /* a lane's sample in the next batch */
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

/* ---- Sparse items and launching ---------------------------------------------------------------------------------- */

/* A warp adds an item of at most 32 samples directly to the planes. */
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

/* Add items to planes of any kind, by the kernel for the plan's window. */
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
