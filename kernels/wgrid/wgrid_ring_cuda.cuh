/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Crowded items, gridded in registers, w-planes in a ring: in double precision, and in single where windows are wide.
 *
 * A block takes samples in their sorted order: tile by tile, in a tile by first w-plane. Its warps share the cells that
 * a tile's footprints may touch, each 16 x 8 of them, and where planes are many every other plane; they hold in
 * registers the W planes above the first plane of the samples at hand, plane p in place p modulo the places of a ring.
 * When the first plane moves up, the planes left behind are added to the grid and their places are zeroed, so that a
 * cell is written once for all samples of all first planes that share it; when the tile changes, all are.
 *
 * What samples s of one first plane add to plane p is a matrix product with the samples along K,
 *
 *     G_p[v][u] = sum_s (V_s kv_s[v]) (ku_s[u] kw_s[p]),
 *
 * which tensor cores make of doubles, four samples at a time. Taps lie in shared memory between zeros, so that no test
 * is left for cells beside a footprint, and taps along w in the order of the ring. While a batch is added, the next
 * one's taps are made, and the one after it is on its way from memory.
 */
#ifndef MSI_KERNELS_WGRID_RING_CUDA_CUH
#define MSI_KERNELS_WGRID_RING_CUDA_CUH

#include "kernels/gpu/mma_cuda.cuh"
#include "kernels/wgrid/wgrid_ring_fetch_cuda.cuh"

namespace {

constexpr int FOUR = 4;       /* samples of an item, and of a product */
constexpr int MOST_ALONE = 6; /* planes of a block of cells that a warp has to itself */

template <typename T, int WIDTH, bool HAS_W> struct ring_shape {
    static constexpr int N_PLANE = HAS_W ? WIDTH : 1;
    static constexpr tile_shape TILE = ring_tile<T>(WIDTH);
    static constexpr int EDGE_U = TILE.u, EDGE_V = TILE.v;
    /* Cells that a tile's footprints touch: blocks of 16 rows and 8 columns, a warp's. */
    static constexpr int BLOCKS_U = (EDGE_U + WIDTH - 1 + 7) / 8, BLOCKS_V = (EDGE_V + WIDTH - 1 + 15) / 16;
    /* Warps that share a block's planes, so that registers hold a warp's. */
    static constexpr int SHARES = N_PLANE <= MOST_ALONE ? 1 : 2, SLOTS = (N_PLANE + SHARES - 1) / SHARES;
    static constexpr int PLACES = SHARES * SLOTS; /* of the ring */
    static constexpr int N_WARP = BLOCKS_U * BLOCKS_V * SHARES;
    /* Blocks of a multiprocessor: a thread has its sums and some 50 more registers. */
    static constexpr int WARPS = 16 * SLOTS + 50 <= 128 ? 16 : 16 * SLOTS + 50 <= 168 ? 12 : 8;
    static constexpr int BLOCKS = WARPS < N_WARP ? 1 : WARPS / N_WARP;
    /* Taps between zeros; rows of an odd number of doubles lie in different banks. */
    static constexpr int ROW_U = (EDGE_U - 1 + 8 * BLOCKS_U) | 1, ROW_V = (EDGE_V - 1 + 16 * BLOCKS_V) | 1;
};

/* Cell c of a footprint that begins d cells into the tile has tap c - d: EDGE_U - 1 or EDGE_V - 1 places further. */
template <typename T, int WIDTH, bool HAS_W> struct ring_taps {
    using shape = ring_shape<T, WIDTH, HAS_W>;
    double u[RING_BATCH][shape::ROW_U];
    double left[2][RING_BATCH][shape::ROW_V];        /* re and im of values times taps along v */
    alignas(16) double w[shape::PLACES][RING_BATCH]; /* in the order of the ring */
    alignas(16) int in_tile[RING_BATCH];             /* EDGE_U - 1 - d, and along v in the upper half */
};

template <typename T, int WIDTH, bool HAS_W> struct ring_memory {
    using shape = ring_shape<T, WIDTH, HAS_W>;
    ring_taps<T, WIDTH, HAS_W> taps[2];
    ring_samples<T> samples[3];
};

/* Keep what comes before in the branch that it stands in: selecting instead takes longer. */
__device__ inline void keep_in_branch(double &x)
{
    asm volatile("" : "+d"(x));
}

/*
 * One warp's part of a block's sums, and how samples come into them. The warps of a block share the making of taps
 * (make_taps), meet, and add them to their own cells (add).
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
    const int row, pair; /* of tensor cores' operands */
    const int column;    /* cell of the operands' column `row`; that of column 2 pair is pair / 2 + 2 (pair % 2), of
                            the next 4 further */
    const int first_u, first_v; /* of the warp's cells in its block's */
    const int share;            /* of the planes */
    /* [place of the ring][re, im][rows 0 .. 7, 8 .. 15][columns 2 pair, 2 pair + 1] */
    double sum[SLOTS][2][2][2] = {};
    int4 now = {INT32_MIN, 0, 0, 0}; /* where the sums stand, as samples do */
    /* This thread adds there in a plane: in both blocks of eight rows the first cell, and from there to the others. */
    uint32_t cell[2] = {};
    int onward[3] = {};
    int64_t plane_cells = 0;

    /* Make a batch's taps, a sample to a lane; warps take the parts in turn: along u, the value's re and im along v, w.
     */
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
     * cells that follow each other: the memory's atomics take as long for a part of 32 bytes as for all. */
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

    /* Move the sums to where a sample stands, adding to the grid what that leaves behind. */
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
            /* Take as many as stand alike, of this many steps at most. */
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

/* can_ring - tell whether blocks can hold their taps, whatever the window. */
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

} // namespace

#endif
