/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gathering from tiles of the image in shared memory.
 *
 * A multiply-add of image and kernel needs one value of each. Read through the caches for every visibility, as in the
 * paper's gather, both cost 8 or 16 bytes a tap from L1 at best and mostly from L2. Here a block takes all visibilities
 * whose footprints begin in one tile, up to a limit, holds the cells that they touch in shared memory, and gives each
 * warp a group of them that take the same kernel: a kernel value is read from L2 once for the group and multiplied with
 * one cell for each member. Sorting by (tile, kernel) makes the groups. Kernels wider than a block of taps are taken
 * block by block, so that the tile keeps its size and its population at every width; sums wait in shared memory.
 *
 * Source: NVIDIA 2015 ("Degridding optimization for SDP on NVIDIA GPUs"), "Gather": a warp a visibility, sorted input,
 * several outputs a block, several points a thread. The tile and the groups are this program's.
 */
#ifndef MSI_KERNELS_WPROJ_GATHER_TILE_CUH
#define MSI_KERNELS_WPROJ_GATHER_TILE_CUH

#include <cuda_pipeline_primitives.h>

#include "kernels/degrid/degrid_device.cuh"
#include "kernels/grid/cuda_check.h"

namespace degrid {

/* More warps hide more latency, fewer leave each more registers. */
template <typename T> constexpr int TILE_THREADS = sizeof(T) == 4 ? 768 : 512;
template <typename T> constexpr int TILE_WARPS = TILE_THREADS<T> / 32;
template <typename T> constexpr int CHUNK = TILE_THREADS<T>; /* most visibilities of an item */

/* Blocks of 32 x 32 taps, the commonest, have images of one pitch, a whole number of rounds of banks. */
template <typename T> constexpr int FIXED_PITCH = sizeof(T) == 4 ? 160 : 112;

/* How a class's image tiles lie in shared memory. */
struct tile_shape {
    int32_t block_u, block_v; /* taps taken at once */
    int32_t pitch;            /* cells from row to row */
};

template <typename T> struct tile_args {
    msi_degrid_classes classes;
    tile_shape shape[MSI_DEGRID_MAX_CLASS];
    int32_t cells; /* room for the image */
    int32_t n_image;
    const msi_window_sample *sample;
    cplx<T> *value;
    const cplx<T> *grid;
    kernel_view<T> kernels;
    const uint32_t *index;
    const msi_degrid_item *item;
    const uint32_t *n_item;
    uint32_t *next_item;
};

/* What a block keeps beside the image. */
template <typename T> struct tile_store {
    cplx<T> sum[CHUNK<T>];
    int32_t place[CHUNK<T>]; /* cells from the tile's first to the visibility's class-wide first cell */
    uint32_t kernel[CHUNK<T>], index[CHUNK<T>];
    uint32_t group[CHUNK<T>]; /* first visibility | how many << 16 */
    uint32_t starts[CHUNK<T> / 32];
    uint32_t of_size[16]; /* groups of a size, then where the next one goes */
    uint32_t n_group, next_group, item, item_after;
};

/* Weights from the table. */
template <typename T> struct table_source {
    struct shared {};
    const cplx<T> *first;
    uint32_t sign;

    __device__ __forceinline__ table_source(const shared &, const square<T> &s, int, int u, int v, uint32_t)
        : first(s.first + v * s.taps + u), sign(s.sign)
    {
    }
    __device__ __forceinline__ static int row_stride(int taps)
    {
        return taps;
    }
    /* As it stands in memory; nothing waits for it before `use`. */
    __device__ __forceinline__ cplx<T> get(int at) const
    {
        return read_only(first + at);
    }
    __device__ __forceinline__ cplx<T> use(cplx<T> g) const
    {
        return {g.re, flip(g.im, sign)};
    }
};

/*
 * Groups of at most MOST visibilities that take the same kernel, the largest first: the last ones that a block hands
 * out are small, so that its warps finish together.
 */
template <int MOST, typename T> __device__ void make_groups(tile_store<T> &s, int n)
{
    const int i = threadIdx.x, lane = i % 32, warp = i / 32;
    bool start = i < n && (i == 0 || s.kernel[i] != s.kernel[i - 1]);
    uint32_t votes = __ballot_sync(ALL_LANES, start);
    if (lane == 0) s.starts[warp] = votes;
    if (i <= MOST) s.of_size[i] = 0;
    __syncthreads();
    int run = 0, groups = 0;
    if (start) {
        uint32_t later = lane < 31 ? s.starts[warp] >> (lane + 1) << (lane + 1) : 0;
        int w = warp;
        while (!later && ++w < TILE_WARPS<T>) later = s.starts[w];
        int end = later ? 32 * w + __ffs((int)later) - 1 : n;
        run = end - i;
        groups = (run + MOST - 1) / MOST;
        int size = run / groups, larger = run - size * groups;
        if (larger) atomicAdd(&s.of_size[size + 1], (uint32_t)larger);
        atomicAdd(&s.of_size[size], (uint32_t)(groups - larger));
    }
    __syncthreads();
    if (i == 0) {
        uint32_t at = 0;
        for (int size = MOST; size > 0; size--) {
            uint32_t count = s.of_size[size];
            s.of_size[size] = at;
            at += count;
        }
        s.n_group = at;
    }
    __syncthreads();
    int first = i;
    for (int g = 0; g < groups; g++) {
        int size = (run - (first - i)) / (groups - g);
        s.group[atomicAdd(&s.of_size[size], 1u)] = (uint32_t)first | (uint32_t)size << 16;
        first += size;
    }
}

/* Start copying the cells [v0, v0 + rows) x [u0, u0 + columns) of one image into shared memory; the plane repeats. */
template <typename T>
__device__ void fetch_cells(cplx<T> *to, int pitch, const tile_args<T> &a, int image, int u0, int v0, int columns,
                            int rows)
{
    const int nu = a.classes.nu, nv = a.classes.nv, lane = threadIdx.x % 32;
    const bool pairs = sizeof(T) == 4 && a.n_image == 1 && (u0 | nu | pitch) % 2 == 0;
    for (int r = threadIdx.x / 32; r < rows; r += TILE_WARPS<T>) {
        int v = v0 + r;
        while (v >= nv) v -= nv;
        const cplx<T> *from = a.grid + (int64_t)v * nu * a.n_image + image;
        cplx<T> *row = to + r * pitch;
        if (pairs) {
            for (int c = 2 * lane; c < columns; c += 64) {
                int u = u0 + c;
                while (u >= nu) u -= nu;
                __pipeline_memcpy_async(row + c, from + u, 2 * sizeof *row);
            }
        } else {
            for (int c = lane; c < columns; c += 32) {
                int u = u0 + c;
                while (u >= nu) u -= nu;
                __pipeline_memcpy_async(row + c, from + (int64_t)u * a.n_image, sizeof *row);
            }
        }
    }
    __pipeline_commit();
}

/* Bring the next item's first cells into the L2 cache while this one is worked on. */
template <typename T> __device__ void prefetch_cells(const tile_args<T> &a, uint32_t item)
{
    if (item >= *a.n_item) return;
    constexpr int LINE = 128 / (int)sizeof(cplx<T>);
    int t = a.item[item].tile, k = 0;
    while (k + 1 < a.classes.n_class && t >= a.classes.of[k + 1].first_tile) k++;
    const msi_degrid_class &c = a.classes.of[k];
    t -= c.first_tile;
    int u0 = t % c.n_tile_u * c.tile_u, v0 = t / c.n_tile_u * c.tile_v;
    int columns = min(c.tile_u, a.classes.nu - u0) + a.shape[k].block_u - 1;
    int rows = min(c.tile_v, a.classes.nv - v0) + a.shape[k].block_v - 1;
    int lines = (columns * a.n_image + LINE - 1) / LINE + 1;
    for (int i = threadIdx.x; i < rows * lines; i += TILE_THREADS<T>) {
        int v = v0 + i / lines, at = u0 * a.n_image + i % lines * LINE;
        if (v >= a.classes.nv || at >= a.classes.nu * a.n_image) continue;
        const cplx<T> *p = a.grid + (int64_t)v * a.classes.nu * a.n_image + at;
        asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
    }
}

template <typename T> __device__ __forceinline__ cplx<T> cell_at(const char *image, int byte)
{
    return *(const cplx<T> *)(image + byte);
}

/*
 * K visibilities' sums over `rows` rows of 32 taps, by a warp, in an image whose pitch is known here: no address but
 * the kernel's is computed. base: each one's cell of this lane's first tap, in bytes from `image`.
 */
template <int K, int PITCH, class S, typename T>
__device__ __forceinline__ void weigh_rows(cplx<T> *sum, const char *image, int *base, const S &source, int row_stride,
                                           int rows, int lane)
{
    constexpr int U = 4, ROW = PITCH * (int)sizeof(cplx<T>);
    int table = lane, left = rows / U;
    auto fetch = [&](cplx<T>(&g)[U]) {
#pragma unroll
        for (int j = 0; j < U; j++, table += row_stride) g[j] = source.get(table);
    };
    auto use = [&](const cplx<T>(&g)[U]) {
#pragma unroll
        for (int j = 0; j < U; j++) {
            const cplx<T> weight = source.use(g[j]);
#pragma unroll
            for (int k = 0; k < K; k++) multiply_add(sum[k], cell_at<T>(image, base[k] + j * ROW), weight);
        }
#pragma unroll
        for (int k = 0; k < K; k++) base[k] += U * ROW;
    };
    if (left > 0) {
        cplx<T> now[U], next[U];
        fetch(now);
        /* Without a branch between them, the next weights are on their way while these are used. */
#pragma unroll 1
        for (; left > 1; left--) {
            fetch(next);
            use(now);
#pragma unroll
            for (int j = 0; j < U; j++) now[j] = next[j];
        }
        use(now);
    }
    for (int r = rows % U; r > 0; r--, table += row_stride) {
        const cplx<T> g = source.use(source.get(table));
#pragma unroll
        for (int k = 0; k < K; k++) {
            multiply_add(sum[k], cell_at<T>(image, base[k]), g);
            base[k] += ROW;
        }
    }
}

/* The same over any rectangle of taps; base: each one's first cell. */
template <int K, class S, typename T>
__device__ __forceinline__ void weigh_walk(cplx<T> *sum, const char *image, const int *base, const S &source,
                                           tap_walk w, int n_tap, int lane)
{
    constexpr int U = 2;
    int t = lane;
    for (; t + (U - 1) * 32 < n_tap; t += U * 32) {
        cplx<T> g[U];
        int at[U];
#pragma unroll
        for (int j = 0; j < U; j++) {
            g[j] = source.get(w.table);
            at[j] = w.image;
            w.advance();
        }
#pragma unroll
        for (int j = 0; j < U; j++) {
            const cplx<T> weight = source.use(g[j]);
#pragma unroll
            for (int k = 0; k < K; k++) multiply_add(sum[k], cell_at<T>(image, base[k] + at[j]), weight);
        }
    }
    if (t < n_tap) {
        const cplx<T> g = source.use(source.get(w.table));
#pragma unroll
        for (int k = 0; k < K; k++) multiply_add(sum[k], cell_at<T>(image, base[k] + w.image), g);
    }
}

/* The block of taps that is being taken, in taps of the class's widest kernel. */
struct tap_block {
    int32_t taps; /* of the widest */
    int32_t u, v, width, height, pitch;
};

template <int K, class S, typename T>
__device__ __forceinline__ void do_group(tile_store<T> &s, const cplx<T> *image, const tile_args<T> &a,
                                         const typename S::shared &shared, const tap_block &b, int first, int lane)
{
    uint32_t kernel = s.kernel[first];
    const square<T> sq = find_square(a.kernels, kernel);
    int inset = b.taps / 2 - sq.taps / 2;
    int u0 = max(0, b.u - inset), u1 = min(sq.taps, b.u + b.width - inset);
    int v0 = max(0, b.v - inset), v1 = min(sq.taps, b.v + b.height - inset);
    if (u0 >= u1 || v0 >= v1) return;
    S source(shared, sq, a.kernels.oversample, u0, v0, kernel);
    int base[K];
    cplx<T> sum[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
        base[k] = s.place[first + k] + (v0 + inset - b.v) * b.pitch + u0 + inset - b.u;
        sum[k] = {0, 0};
    }
    const bool fixed = u1 - u0 == 32 && b.pitch == FIXED_PITCH<T>;
#pragma unroll
    for (int k = 0; k < K; k++) base[k] = (base[k] + (fixed ? lane : 0)) * (int)sizeof(cplx<T>);
    const int row_stride = S::row_stride(sq.taps);
    if (fixed) {
        weigh_rows<K, FIXED_PITCH<T>>(sum, (const char *)image, base, source, row_stride, v1 - v0, lane);
    } else {
        tap_walk w = start_walk(lane, 32, u1 - u0, sizeof(cplx<T>), b.pitch * (int)sizeof(cplx<T>), 1, row_stride);
        weigh_walk<K>(sum, (const char *)image, base, source, w, (u1 - u0) * (v1 - v0), lane);
    }
    constexpr int EACH = 32 / power_of_two(2 * K);
    T total = transposed_sum<K, 32>(sum, lane);
    if (lane % EACH == 0 && lane / EACH < 2 * K) ((T *)(s.sum + first))[lane / EACH] += total;
}

template <int MOST, class S, typename T>
__device__ __forceinline__ void do_groups(tile_store<T> &s, const cplx<T> *image, const tile_args<T> &a,
                                          const typename S::shared &shared, const tap_block &b)
{
    const int lane = threadIdx.x % 32;
    for (;;) {
        uint32_t g = 0;
        if (lane == 0) g = atomicAdd(&s.next_group, 1u);
        g = __shfl_sync(ALL_LANES, g, 0);
        if (g >= s.n_group) break;
        uint32_t group = s.group[g];
        int first = (int)(group & 0xffff), size = (int)(group >> 16);
        switch (size) {
        case 1:
            do_group<1, S>(s, image, a, shared, b, first, lane);
            break;
        case 2:
            do_group<2, S>(s, image, a, shared, b, first, lane);
            break;
        case 3:
            do_group<3, S>(s, image, a, shared, b, first, lane);
            break;
        case 4:
            do_group<4, S>(s, image, a, shared, b, first, lane);
            break;
        case 5:
            if constexpr (MOST >= 5) do_group<5, S>(s, image, a, shared, b, first, lane);
            break;
        default:
            if constexpr (MOST >= 6) do_group<6, S>(s, image, a, shared, b, first, lane);
        }
        __syncwarp();
    }
}

template <int MOST, class S, typename T>
__global__ void __launch_bounds__(TILE_THREADS<T>, 1)
    k_gather_tile(const __grid_constant__ tile_args<T> a, const __grid_constant__ typename S::shared shared)
{
    extern __shared__ __align__(16) unsigned char memory[];
    cplx<T> *image = (cplx<T> *)memory;
    tile_store<T> &s = *(tile_store<T> *)(image + a.cells);
    const int i = threadIdx.x;
    if (i == 0) s.item_after = atomicAdd(a.next_item, 1u);
    for (;;) {
        __syncthreads();
        if (i == 0) {
            s.item = s.item_after;
            s.item_after = atomicAdd(a.next_item, 1u);
        }
        __syncthreads();
        if (s.item >= *a.n_item) break;
        const msi_degrid_item item = a.item[s.item];
        int k = 0;
        while (k + 1 < a.classes.n_class && item.tile >= a.classes.of[k + 1].first_tile) k++;
        const msi_degrid_class c = a.classes.of[k];
        const tile_shape shape = a.shape[k];
        const int t = item.tile - c.first_tile;
        const int tile_u = t % c.n_tile_u * c.tile_u, tile_v = t / c.n_tile_u * c.tile_v;
        const int tile_columns = min(c.tile_u, a.classes.nu - tile_u), tile_rows = min(c.tile_v, a.classes.nv - tile_v);
        const int n = (int)item.n;
        tap_block b = {c.taps, 0, 0, min(shape.block_u, c.taps), min(shape.block_v, c.taps), shape.pitch};
        fetch_cells(image, b.pitch, a, 0, tile_u, tile_v, tile_columns + b.width - 1, tile_rows + b.height - 1);
        if (i < n) {
            uint32_t index = a.index[item.first + (uint32_t)i];
            msi_window_sample x = a.sample[index];
            int u = msi_degrid_wrap(x.u - c.taps / 2, a.classes.nu) - tile_u;
            int v = msi_degrid_wrap(x.v - c.taps / 2, a.classes.nv) - tile_v;
            s.index[i] = index;
            s.place[i] = v * b.pitch + u;
            s.kernel[i] = msi_degrid_kernel(&x, a.kernels.oversample);
        }
        __syncthreads();
        make_groups<MOST>(s, n);
        for (int p = 0; p < a.n_image; p++) {
            if (i < n) s.sum[i] = {0, 0};
            for (b.v = 0; b.v < c.taps; b.v += shape.block_v)
                for (b.u = 0; b.u < c.taps; b.u += shape.block_u) {
                    b.width = min(shape.block_u, c.taps - b.u);
                    b.height = min(shape.block_v, c.taps - b.v);
                    if (p + b.u + b.v > 0)
                        fetch_cells(image, b.pitch, a, p, tile_u + b.u, tile_v + b.v, tile_columns + b.width - 1,
                                    tile_rows + b.height - 1);
                    if (i == 0) s.next_group = 0;
                    __pipeline_wait_prior(0);
                    __syncthreads();
                    if (p + b.u + b.v == 0) prefetch_cells(a, s.item_after);
                    do_groups<MOST, S>(s, image, a, shared, b);
                    __syncthreads();
                }
            if (i < n) a.value[(int64_t)s.index[i] * a.n_image + p] = s.sum[i];
        }
    }
}

/* Shared memory that an image of `cells` cells and what is beside it take. */
template <typename T> constexpr size_t tile_bytes(int cells)
{
    return (size_t)cells * sizeof(cplx<T>) + sizeof(tile_store<T>);
}

template <int MOST, class S, typename T>
int launch_tiles(const tile_args<T> &args, const typename S::shared &shared, int n_block, cudaStream_t stream)
{
    const size_t bytes = tile_bytes<T>(args.cells);
    MSI_CUDA(cudaFuncSetAttribute(k_gather_tile<MOST, S, T>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    MSI_CUDA(cudaMemsetAsync(args.next_item, 0, sizeof *args.next_item, stream));
    k_gather_tile<MOST, S, T><<<n_block, TILE_THREADS<T>, bytes, stream>>>(args, shared);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} /* namespace degrid */

#endif
