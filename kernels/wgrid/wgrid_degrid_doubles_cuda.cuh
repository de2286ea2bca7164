/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Crowded items are degridded in double precision on tensor cores, and in single where windows are wide. A sample's sum
 * over a tile's cells of w-plane p is one row of a matrix product with the cells along u as K,
 *
 *     V_s = sum_p kw_s[p] sum_v kv_s[v] (sum_u ku_s[u] G_p[u][v]),
 *
 * up to sixteen samples of one tile and first w-plane a step. Taps stand between zeros, so that the cells along u serve
 * a whole tile. A block holds the cells of a tile's W planes in registers: plane p in place p modulo W of a ring, into
 * which a plane is loaded when the first plane moves up. A warp has four cells along v, whose re and im are the
 * products' columns.
 */
#ifndef MSI_KERNELS_WGRID_DEGRID_DOUBLES_CUDA_CUH
#define MSI_KERNELS_WGRID_DEGRID_DOUBLES_CUDA_CUH

#include "kernels/gpu/mma_cuda.cuh"
#include "kernels/wgrid/wgrid_degrid_cuda_kernels.cuh"
#include "kernels/wgrid/wgrid_ring_fetch_cuda.cuh"

namespace {

template <typename T, int WIDTH, bool HAS_W> struct doubles_shape {
    static constexpr int N_PLANE = HAS_W ? WIDTH : 1, ITEM = ring_group<T>(WIDTH);
    static constexpr tile_shape TILE = ring_tile<T>(WIDTH);
    static constexpr int EDGE_U = TILE.u, EDGE_V = TILE.v;
    /* Cells that a tile's footprints touch. */
    static constexpr int CELLS_U = EDGE_U + WIDTH - 1, CELLS_V = EDGE_V + WIDTH - 1;
    static constexpr int FOURS_U = (CELLS_U + 3) / 4, N_WARP = (CELLS_V + 3) / 4;
    /* Rows of an odd number of doubles begin in different banks. */
    static constexpr int ROW_U = (EDGE_U - 1 + 4 * FOURS_U) | 1, ROW_V = (EDGE_V - 1 + 4 * N_WARP) | 1;
    /* Blocks of a multiprocessor: a thread has its cells and some 55 more registers. */
    static constexpr int CELL_REGISTERS = 2 * N_PLANE * FOURS_U;
    static constexpr int REGISTERS = CELL_REGISTERS < 45 ? 100 : CELL_REGISTERS + 55;
    static constexpr int BLOCKS = REGISTERS > 255 ? 1 : 65536 / (32 * N_WARP * REGISTERS);
};

/* Taps of a batch's samples, and their sums. */
template <typename T, int WIDTH, bool HAS_W> struct doubles_memory {
    using shape = doubles_shape<T, WIDTH, HAS_W>;
    double u[RING_BATCH][shape::ROW_U], v[RING_BATCH][shape::ROW_V]; /* cell c of the tile has place first + c */
    double w[shape::N_PLANE][RING_BATCH];                            /* in the order of the ring */
    int first_u[RING_BATCH], first_v[RING_BATCH];
    cplx<double> sum[shape::N_WARP][RING_BATCH];
};

/* One warp's part of a block: its cells, and the sums over them. All warps of a block lay taps (lay_batch), meet, and
 * sum (add_batch). */
template <typename T, int WIDTH, bool HAS_W, typename PLANES> struct doubles_sums {
    using shape = doubles_shape<T, WIDTH, HAS_W>;
    static constexpr int N_PLANE = shape::N_PLANE, FOURS_U = shape::FOURS_U;
    const msi_wgrid_geometry &g;
    const degrid_job<T> &job;
    const even_taps<T, WIDTH> &window;
    doubles_memory<T, WIDTH, HAS_W> &m;
    const int lane, warp, row, pair; /* of tensor cores' operands */
    degrid_stand<N_PLANE, PLANES> stand;
    int3 own = {};                       /* of a lane's sample: first taps of its tile, first w-plane */
    double cells[N_PLANE][FOURS_U] = {}; /* [place][four]: re or im of the cell at u = 4 four + pair, v = cell_v() */
    uint32_t column[FOURS_U] = {}, row_cell = 0; /* where this lane loads cells of a plane */

    __device__ __forceinline__ int cell_v() const
    {
        return 4 * warp + row / 2;
    }

    /* Lay the taps of a batch, a sample to a lane; warps take the parts in turn: along u, v, w. */
    __device__ __forceinline__ void lay_batch(const record<T> &r)
    {
        const int in_u = in_ring_tile<shape::EDGE_U>(r.u0, g.nu, WIDTH, stand.there);
        const int in_v = in_ring_tile<shape::EDGE_V>(r.v0, g.nv, WIDTH, stand.there);
        own = {r.u0 - in_u, r.v0 - in_v, r.w0};
        for (int part = warp; part < 3; part += shape::N_WARP) {
            if (part < 2) {
                double *to = part ? &m.v[lane][shape::EDGE_V - 1] : &m.u[lane][shape::EDGE_U - 1];
                for_each_tap<T, WIDTH>(window.uv, part ? r.zv : r.zu, [&](int k, T tap) { to[k] = tap; });
            } else if (HAS_W) {
                const int first = r.w0 % N_PLANE;
                for_each_tap<T, WIDTH>(window.w, r.zw, [&](int k, T tap) {
                    m.w[first + k < N_PLANE ? first + k : first + k - N_PLANE][lane] = tap;
                });
            } else {
                m.w[0][lane] = 1;
            }
        }
        if (warp == shape::N_WARP - 1) {
            m.first_u[lane] = shape::EDGE_U - 1 - in_u;
            m.first_v[lane] = shape::EDGE_V - 1 - in_v;
        }
    }

    /* Load a plane's cells. */
    __device__ __forceinline__ void load(double (&to)[FOURS_U], int plane) const
    {
        const T *from = reinterpret_cast<const T *>(job.grid + plane * stand.at.plane_cells + row_cell) + row % 2;
        const bool reads = stand.holds(plane) && cell_v() < shape::CELLS_V;
#pragma unroll
        for (int f = 0; f < FOURS_U; f++)
            to[f] = reads && 4 * f + pair < shape::CELLS_U ? __ldg(from + 2 * column[f]) : 0;
    }

    /* Move to where sample `first` of the batch lies, loading the planes that are not there. */
    __device__ __forceinline__ void follow(int first)
    {
        int fresh =
            stand.move(__shfl_sync(~0u, own.x, first), __shfl_sync(~0u, own.y, first), __shfl_sync(~0u, own.z, first));
        if (fresh == 0) {
#pragma unroll
            for (int f = 0; f < FOURS_U; f++) column[f] = stand.column(4 * f + pair);
            row_cell = stand.row(cell_v());
            stand.for_each_place([&](int s, int plane) { load(cells[s], plane); });
            return;
        }
        for (; fresh < N_PLANE; fresh++) stand.at_place(fresh, [&](int s, int plane) { load(cells[s], plane); });
    }

    /* Sum cells for samples [first, end) of a batch, sixteen at most; what the others would get is not kept. */
    __device__ __forceinline__ void add_step(int first, int end)
    {
        follow(first);
        const int sample[2] = {first + row, (first + row + 8) % RING_BATCH};
        double taps[2 * FOURS_U], sum[2][2] = {}, total[2][2] = {}; /* [sample][re, im] */
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int f = 0; f < FOURS_U; f++)
                taps[2 * f + i] = m.u[sample[i] % RING_BATCH][m.first_u[sample[i] % RING_BATCH] + 4 * f + pair];
#pragma unroll
        for (int s = 0; s < N_PLANE; s++) {
            double part[4] = {};
            mma::multiply_add_fours<FOURS_U>(part, taps, cells[s]);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const double w = m.w[s][sample[i] % RING_BATCH];
                sum[i][0] += w * part[2 * i];
                sum[i][1] += w * part[2 * i + 1];
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int at = sample[i] % RING_BATCH;
            const double v = m.v[at][m.first_v[at] + 4 * warp + pair];
            total[i][0] = v * sum[i][0];
            total[i][1] = v * sum[i][1];
        }
        const double x = sum_over_four(total[0][0], total[0][1], total[1][0], total[1][1], lane);
        const int to = first + row + pair / 2 * 8;
        if (to < end) (&m.sum[warp][to].re)[pair % 2] = x;
    }

    /* Sum cells for the first n samples of a batch, as many at a time as lie in one tile and first w-plane. */
    __device__ __forceinline__ void add_batch(int n)
    {
        constexpr int ITEM = shape::ITEM;
        const int3 before = {__shfl_up_sync(~0u, own.x, ITEM), __shfl_up_sync(~0u, own.y, ITEM),
                             __shfl_up_sync(~0u, own.z, ITEM)};
        const unsigned moves =
            __ballot_sync(~0u, own.x != before.x || own.y != before.y || own.z != before.z || lane >= n);
        for (int first = 0, end; first < n; first = end) {
            const unsigned later = moves >> first >> ITEM;
            end = min(first + 16, later ? first + ITEM + __ffs((int)later) - 1 : n);
            add_step(first, end);
        }
    }
};

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * doubles_shape<T, WIDTH, HAS_W>::N_WARP, doubles_shape<T, WIDTH, HAS_W>::BLOCKS)
    k_degrid_doubles(msi_wgrid_geometry g, degrid_job<T> job, const __grid_constant__ even_taps<T, WIDTH> window,
                     PLANES there, item_range crowded, int groups)
{
    using shape = doubles_shape<T, WIDTH, HAS_W>;
    constexpr int N_WARP = shape::N_WARP, ITEM = shape::ITEM;
    extern __shared__ float4 memory[];
    auto &m = *reinterpret_cast<doubles_memory<T, WIDTH, HAS_W> *>(memory);
    const ring_block<ITEM> block(crowded, groups);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    doubles_sums<T, WIDTH, HAS_W, PLANES> sums = {g, job, window, m, lane, warp, lane / 4, lane % 4, {g, there}};
    for (int i = threadIdx.x; i < (int)((sizeof m.u + sizeof m.v) / sizeof(double)); i += blockDim.x) m.u[0][i] = 0;
    uint32_t at, next_at; /* of a lane, this batch's sample and the next one's */
    bool has = block.find(0, &at);
    meet<N_WARP>();
    for (int batch = 0; block.has(batch); batch++) {
        sums.lay_batch(job.samples[at].at);
        const bool next_has = block.find(batch + 1, &next_at);
        meet<N_WARP>();
        sums.add_batch(min(RING_BATCH, ITEM * block.n_group - RING_BATCH * batch));
        meet<N_WARP>();
        if (has && warp == batch % N_WARP) {
            cplx<double> sum = m.sum[0][lane];
            for (int i = 1; i < N_WARP; i++) {
                sum.re += m.sum[i][lane].re;
                sum.im += m.sum[i][lane].im;
            }
            job.store(at, job.samples[at].to, (T)sum.re, (T)sum.im);
        }
        at = next_at;
        has = next_has;
    }
}

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
int launch_degrid_doubles(const msi_wgrid_geometry &g, const degrid_job<T> &job, const PLANES &there,
                          item_range crowded, cudaStream_t stream)
{
    if (!crowded.n) return MSI_OK;
    using shape = doubles_shape<T, WIDTH, HAS_W>;
    constexpr size_t bytes = sizeof(doubles_memory<T, WIDTH, HAS_W>);
    static_assert(bytes <= 48 << 10, "more than every block may have");
    block_split split;
    MSI_TRY(split.make(crowded, shape::ITEM, shape::BLOCKS));
    k_degrid_doubles<T, WIDTH, HAS_W, PLANES><<<split.blocks, 32 * shape::N_WARP, bytes, stream>>>(
        g, job, even_taps<T, WIDTH>(*job.host_taps, 1), there, crowded, split.groups);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace

#endif
