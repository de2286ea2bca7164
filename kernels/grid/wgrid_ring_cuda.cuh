/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Crowded items, gridded in registers, w-planes in a ring.
 *
 * A block takes samples in their sorted order: tile by tile, in a tile by first w-plane. Its threads are the cells that
 * a tile's footprints may touch; a thread has the W planes above the first plane of the sample at hand in registers,
 * plane p in place p modulo W. When the first plane moves up, the planes left behind are added to the grid and their
 * places are zeroed, so that a cell is written once for all samples of all first planes that share it; when the tile
 * changes, all are.
 *
 * A warp is a patch of 8 x 4 cells. It looks at 32 samples at once and then visits those whose footprints touch the
 * patch. Taps lie in shared memory between zeros, so that no test is left for cells beside the footprint, and taps
 * along w in the order of the ring. While a batch is added, the next one's taps are made, and the one after it is on
 * its way from memory.
 */
#ifndef MSI_KERNELS_WGRID_RING_CUDA_CUH
#define MSI_KERNELS_WGRID_RING_CUDA_CUH

#include "kernels/grid/wgrid_ring_fetch_cuda.cuh"

namespace {

template <typename T, int WIDTH, bool HAS_W> struct ring_shape {
    static constexpr int N_PLANE = HAS_W ? WIDTH : 1;
    static constexpr int N_TAP = 2 * WIDTH + (HAS_W ? WIDTH : 0);
    static constexpr int N_COEF = WIDTH < 6 ? WIDTH + 3 : WIDTH + 2;
    static constexpr int SIDE = RING_TILE + WIDTH - 1;
    static constexpr int PATCHES_U = (SIDE + 7) / 8, PATCHES_V = (SIDE + 3) / 4;
    static constexpr int N_WARP = PATCHES_U * PATCHES_V, THREADS = 32 * N_WARP;
    /* Blocks of a multiprocessor: a thread has its sums and some 40 more registers. */
    static constexpr int REGISTERS = 2 * N_PLANE * (int)sizeof(T) / 4 + 40;
    static constexpr int BLOCKS = REGISTERS * THREADS < 65536 ? 65536 / (REGISTERS * THREADS) : 1;
    /* Taps between zeros: cell c of a footprint that begins d cells into the tile has tap c - d. */
    static constexpr int ROW_U = (8 * PATCHES_U + RING_TILE - 1) | 1, ROW_V = (4 * PATCHES_V + RING_TILE - 1) | 1;
    static constexpr int ROW_W = (N_PLANE + 1) / 2 * 2;
};

template <typename T, int WIDTH, bool HAS_W> struct ring_taps {
    using shape = ring_shape<T, WIDTH, HAS_W>;
    T u[RING_BATCH][shape::ROW_U];
    T v[RING_BATCH][shape::ROW_V];
    alignas(16) T w[RING_BATCH][shape::ROW_W];
};

template <typename T, int WIDTH, bool HAS_W> struct ring_memory {
    using shape = ring_shape<T, WIDTH, HAS_W>;
    ring_taps<T, WIDTH, HAS_W> taps[2];
    ring_samples<T> samples[3];
    T table[shape::N_COEF][shape::N_TAP];
};

/* Keeps what comes before in the branch that it stands in: selecting instead takes longer. */
__device__ inline void keep_in_branch(float &re, float &im)
{
    asm volatile("" : "+f"(re), "+f"(im));
}

__device__ inline void keep_in_branch(double &re, double &im)
{
    asm volatile("" : "+d"(re), "+d"(im));
}

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(ring_shape<T, WIDTH, HAS_W>::THREADS, ring_shape<T, WIDTH, HAS_W>::BLOCKS)
    k_grid_ring(msi_wgrid_geometry g, grid_job<T> job, PLANES there, item_range crowded)
{
    using shape = ring_shape<T, WIDTH, HAS_W>;
    constexpr int N_PLANE = shape::N_PLANE;
    extern __shared__ float4 memory[];
    auto &m = *reinterpret_cast<ring_memory<T, WIDTH, HAS_W> *>(memory);
    const ring_block block(crowded);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int patch_u = warp % shape::PATCHES_U * 8, patch_v = warp / shape::PATCHES_U * 4;
    const int cell_u = patch_u + lane % 8, cell_v = patch_v + lane / 8;
    const bool is_cell = cell_u < shape::SIDE && cell_v < shape::SIDE;
    load_taps<T, shape::N_COEF, WIDTH, shape::N_TAP>(job.taps, m.table);
    for (int i = threadIdx.x; i < (int)(sizeof m.taps / sizeof(T)); i += blockDim.x) ((T *)m.taps)[i] = 0;

    for (int p = 0; p < job.n_image; p++) {
        ring_fetch<T, PLANES> fetch = {g, job, there, block, job.value + p * job.n_sample, warp == 0};
        auto make_taps = [&](int batch) {
            if (!block.has(batch)) return;
            const record<T> &mine = m.samples[batch % 3].place[lane];
            ring_taps<T, WIDTH, HAS_W> &taps = m.taps[batch % 2];
            for (int t = warp; t < shape::N_TAP; t += shape::N_WARP) {
                const int axis = t / WIDTH, k = t % WIDTH;
                const T z = axis == 0 ? mine.zu : axis == 1 ? mine.zv : mine.zw;
                const T value = tap_value<T, shape::N_COEF, shape::N_TAP>(m.table, t, z);
                if (axis == 0)
                    taps.u[lane][RING_TILE - 1 + k] = value;
                else if (axis == 1)
                    taps.v[lane][RING_TILE - 1 + k] = value;
                else
                    taps.w[lane][(mine.w0 + k) % N_PLANE] = value;
            }
            if (!HAS_W && warp == 0) taps.w[lane][0] = 1;
        };

        T re[N_PLANE], im[N_PLANE];
#pragma unroll
        for (int s = 0; s < N_PLANE; s++) re[s] = im[s] = 0;
        /* Where the sample at hand stands, and this thread's cell in the first plane that is there. */
        int4 now = {INT32_MIN, 0, 0, 0};
        int64_t plane_cells = 0;
        cplx<T> *cell = nullptr;
        /* The first n planes are complete. */
        auto leave = [&](int n) {
            for (int k = 0; k < n; k++) {
                const int slot = (now.z + k) % N_PLANE;
                const bool adds = is_cell && (unsigned)(now.w + k) < (unsigned)there.n_plane();
                cplx<T> *at = cell + (now.w + k) * plane_cells;
#pragma unroll
                for (int s = 0; s < N_PLANE; s++)
                    if (s == slot) {
                        if (adds && (re[s] != 0 || im[s] != 0)) add_cell(at, re[s], im[s]);
                        re[s] = im[s] = 0;
                        keep_in_branch(re[s], im[s]);
                    }
            }
        };
        auto move_to = [&](int4 next, const record<T> &r) {
            const bool stays = next.x == now.x && next.y == now.y;
            leave(stays ? min(next.z - now.z, N_PLANE) : N_PLANE);
            now = next;
            if (stays) return;
            const patch to = there.find(g, r);
            plane_cells = to.plane_cells;
            cell = job.grid + p * there.image_cells(g) + (int64_t)wrap(now.y + cell_v + to.shift_v, to.n_v) * to.n_u +
                   wrap(now.x + cell_u + to.shift_u, to.n_u);
        };
        auto add = [&](int batch) {
            const ring_samples<T> &samples = m.samples[batch % 3];
            const ring_taps<T, WIDTH, HAS_W> &taps = m.taps[batch % 2];
            const record<T> &mine = samples.place[lane];
            const int4 stand = samples.stand[lane];
            const int du = mine.u0 - stand.x - patch_u, dv = mine.v0 - stand.y - patch_v;
            const unsigned touching =
                __ballot_sync(~0u, samples.is_there(lane) && du > -WIDTH && du < 8 && dv > -WIDTH && dv < 4 &&
                                       stand.w + N_PLANE > 0 && stand.w < there.n_plane());
            int4 before = {__shfl_up_sync(~0u, stand.x, 1), __shfl_up_sync(~0u, stand.y, 1),
                           __shfl_up_sync(~0u, stand.z, 1), 0};
            if (lane == 0) before = now;
            const unsigned moves =
                __ballot_sync(~0u, stand.x != before.x || stand.y != before.y || stand.z != before.z);
            for (unsigned left = touching | moves; left; left &= left - 1) {
                const int i = __ffs((int)left) - 1;
                const record<T> &at = samples.place[i];
                if (moves >> i & 1) move_to(samples.stand[i], at);
                if (!(touching >> i & 1)) continue;
                const T kuv = taps.u[i][RING_TILE - 1 + cell_u + now.x - at.u0] *
                              taps.v[i][RING_TILE - 1 + cell_v + now.y - at.v0];
                const cplx<T> value = samples.value[i];
                const T a = kuv * value.re, b = kuv * value.im;
#pragma unroll
                for (int s = 0; s < N_PLANE; s++) {
                    const T kw = taps.w[i][s];
                    re[s] += a * kw;
                    im[s] += b * kw;
                }
            }
        };

        __syncthreads();
        fetch.begin(m.samples);
        __syncthreads();
        make_taps(0);
        __syncthreads();
        for (int batch = 0; block.has(batch); batch++) {
            fetch.next(m.samples, batch);
            make_taps(batch + 1);
            add(batch);
            fetch.finish(m.samples, batch);
            __syncthreads();
        }
        leave(N_PLANE);
    }
}

/* What makes a run crowded; UNUSED where no block can hold its taps. */
template <typename T> uint32_t least_in_ring(size_t shared_bytes)
{
    return sizeof(ring_memory<T, MSI_WINDOW_MAX_WIDTH, true>) <= shared_bytes ? LEAST_IN_RING : UNUSED;
}

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
int launch_ring(const msi_wgrid_geometry &g, const grid_job<T> &job, const PLANES &there, item_range crowded)
{
    using shape = ring_shape<T, WIDTH, HAS_W>;
    constexpr size_t bytes = sizeof(ring_memory<T, WIDTH, HAS_W>);
    if (!crowded.n) return MSI_OK;
    MSI_CUDA(cudaFuncSetAttribute(k_grid_ring<T, WIDTH, HAS_W, PLANES>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)bytes));
    k_grid_ring<T, WIDTH, HAS_W, PLANES><<<ring_blocks(crowded), shape::THREADS, bytes>>>(g, job, there, crowded);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace

#endif
