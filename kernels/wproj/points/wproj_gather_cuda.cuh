/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gathering from tiles of the image in shared memory.
 *
 * A multiply-add needs one image value and one kernel value. The gather of the paper reads both through the caches for
 * each visibility. That takes 8 or 16 bytes per tap for each, mostly from L2. Here a block processes visibilities whose
 * footprints begin in one tile, with the cells that they touch in shared memory. A warp processes a group of
 * visibilities with the same kernel. It reads a kernel value from L2 once for the group, and multiplies it by one cell
 * for each member. Samples are sorted by tile and kernel, so members of a group are neighbours. Wide kernels are
 * processed in blocks of taps, so that tiles have the same size for all widths; the sums are kept in shared memory.
 *
 * Source: NVIDIA 2015 ("Degridding optimization for SDP on NVIDIA GPUs"), "Gather", which has one warp per visibility,
 * sorted input, several outputs per block and several points per thread. Tiles and groups are additions.
 */
#ifndef MSI_WPROJ_GATHER_CUDA_CUH
#define MSI_WPROJ_GATHER_CUDA_CUH

#include <algorithm>
#include <cuda_pipeline_primitives.h>

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/hopper_cuda.cuh"
#include "kernels/wproj/points/points_device.cuh"
#include "kernels/wproj/points/wproj_points_cuda.h"

namespace points {

/* More warps hide more latency. With fewer warps, each has more registers. */
template <typename T> constexpr int TILE_THREADS = sizeof(T) == 4 ? 768 : 512;
template <typename T> constexpr int TILE_WARPS = TILE_THREADS<T> / 32;
template <typename T> constexpr int CHUNK = TILE_THREADS<T>; /* most visibilities of an item */

/* The pitch for blocks of 32 x 32 taps, the most common size. It is a multiple of the number of banks. */
template <typename T> constexpr int FIXED_PITCH = sizeof(T) == 4 ? 160 : 112;

/* The layout of a class's image tiles in shared memory. */
struct tile_shape {
    int32_t block_u, block_v; /* taps that are processed together */
    int32_t pitch;            /* cells from row to row */
};

/* Tensor maps of the image for the tiles of each class (box_copy). */
struct tile_boxes {
    CUtensorMap of[MSI_WPROJ_POINTS_MAX_CLASS];
    int32_t given; /* 0: there are none */
};

template <typename T> struct tile_args {
    msi_wproj_points_classes classes;
    tile_shape shape[MSI_WPROJ_POINTS_MAX_CLASS];
    int32_t cells; /* cells of shared memory, for the image */
    int32_t n_image;
    const msi_wproj_sample *sample;
    cplx<T> *value;
    const cplx<T> *grid;
    kernel_view<T> kernels;
    const uint32_t *index;
    const msi_wproj_points_item *item;
    const uint32_t *n_item;
    uint32_t *next_item;
};

/* A block's data in shared memory, apart from the image. */
template <typename T> struct tile_store {
    cplx<T> sum[CHUNK<T>];
    int32_t place[CHUNK<T>]; /* offset of the visibility's first cell (of a kernel as wide as the class) in the tile */
    uint32_t kernel[CHUNK<T>], index[CHUNK<T>];
    uint32_t group[CHUNK<T>]; /* first visibility | how many << 16 */
    uint32_t starts[CHUNK<T> / 32];
    uint32_t of_size[16]; /* number of groups of a size, then the position of the next one */
    uint32_t n_group, next_group;
    msi_wproj_points_item item;
    uint64_t arrived; /* box_copy's barrier */
};

/* Weights are read from the table. */
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
    /* The weight is loaded unchanged; the first wait for it is in `use`. */
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
 * Make groups of at most MOST visibilities with the same kernel, and order them by size, the largest first. The last
 * groups are then small, so that the block's warps finish at about the same time.
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

/* The block of taps that is processed, in taps of the class's widest kernel. */
struct tap_block {
    int32_t taps; /* taps of the widest kernel */
    int32_t u, v, width, height, pitch;
};

/* The class of an item, and the first cell of its tile. */
struct item_place {
    int32_t k, u, v;
};

__device__ __forceinline__ item_place find_item(const msi_wproj_points_classes &classes, int tile)
{
    int k = 0;
    while (k + 1 < classes.n_class && tile >= classes.of[k + 1].first_tile) k++;
    const msi_wproj_points_class &c = classes.of[k];
    const int t = tile - c.first_tile;
    return {k, t % c.n_tile_u * c.tile_u, t / c.n_tile_u * c.tile_v};
}

/* The cells of a tile that a block of taps touches, on the periodic plane. */
struct cell_area {
    int32_t u, v, columns, rows;
};

template <typename T>
__device__ __forceinline__ cell_area find_cells(const tile_args<T> &a, const item_place &at, const tap_block &b)
{
    const msi_wproj_points_class &c = a.classes.of[at.k];
    return {at.u + b.u, at.v + b.v, min(c.tile_u, a.classes.nu - at.u) + b.width - 1,
            min(c.tile_v, a.classes.nv - at.v) + b.height - 1};
}

/* Return whether a box contains all cells of an area. */
template <typename T>
__device__ __forceinline__ bool is_box(const tile_args<T> &a, const tile_boxes &boxes, const cell_area &r)
{
    return boxes.given && r.u + r.columns <= a.classes.nu && r.v + r.rows <= a.classes.nv;
}

/* Start copying cells of one image into shared memory. */
template <typename T>
__device__ void fetch_cells(tile_store<T> &s, cplx<T> *image, const tile_args<T> &a, const tile_boxes &boxes,
                            const item_place &at, const tap_block &b, int p)
{
    const cell_area r = find_cells(a, at, b);
    const int i = threadIdx.x, nu = a.classes.nu, nv = a.classes.nv;
    if (is_box(a, boxes, r)) {
        const int rows = a.classes.of[at.k].tile_v + a.shape[at.k].block_v - 1;
        if (i == 0)
            box_copy::copy(image, &boxes.of[at.k], r.u * (int)(sizeof *image / sizeof(double)), r.v,
                           (uint32_t)(rows * b.pitch * (int)sizeof *image), &s.arrived);
        return;
    }
    for (int row = i / 32; row < r.rows; row += TILE_WARPS<T>) {
        int v = r.v + row;
        while (v >= nv) v -= nv;
        const cplx<T> *from = a.grid + (int64_t)v * nu * a.n_image + p;
        for (int column = i % 32; column < r.columns; column += 32) {
            int u = r.u + column;
            while (u >= nu) u -= nu;
            __pipeline_memcpy_async(image + row * b.pitch + column, from + (int64_t)u * a.n_image, sizeof *image);
        }
    }
    __pipeline_commit();
}

/* Wait until the cells have arrived. All threads of the block must call this. */
template <typename T>
__device__ __forceinline__ void await_cells(tile_store<T> &s, const tile_args<T> &a, const tile_boxes &boxes,
                                            const item_place &at, const tap_block &b, uint32_t *round)
{
    if (is_box(a, boxes, find_cells(a, at, b)))
        box_copy::wait(&s.arrived, round);
    else
        __pipeline_wait_prior(0);
    __syncthreads();
}

template <typename T> __device__ __forceinline__ tap_block first_taps(const tile_args<T> &a, int k)
{
    const int taps = a.classes.of[k].taps;
    return {taps, 0, 0, min(a.shape[k].block_u, taps), min(a.shape[k].block_v, taps), a.shape[k].pitch};
}

/* Get the next item, and prefetch its first cells into the L2 cache. If there is none, the item has no samples. Called
 * by one thread. */
template <typename T> __device__ msi_wproj_points_item draw_item(const tile_args<T> &a, const tile_boxes &boxes)
{
    const uint32_t number = atomicAdd(a.next_item, 1u);
    if (number >= *a.n_item) return {0, 0, 0};
    const msi_wproj_points_item item = a.item[number];
    const item_place at = find_item(a.classes, item.tile);
    if (is_box(a, boxes, find_cells(a, at, first_taps(a, at.k))))
        box_copy::prefetch(&boxes.of[at.k], at.u * (int)(sizeof(cplx<T>) / sizeof(double)), at.v);
    return item;
}

template <typename T> __device__ __forceinline__ cplx<T> cell_at(const char *image, int byte)
{
    return *(const cplx<T> *)(image + byte);
}

/*
 * Sum K visibilities over `rows` rows of 32 taps. Called by a warp. The pitch of the image is a constant, so only the
 * address of the kernel has to be computed. base[k]: offset in bytes from `image` of the cell for this lane's first
 * tap of visibility k.
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
        /* There is no branch here, so that the next weights are loaded while these are used. */
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

/* The same sum over any rectangle of taps. base[k]: offset of the first cell of visibility k. */
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

/* Sum a group of K visibilities with the same kernel. */
template <int K, class S, typename T>
__device__ __forceinline__ void sum_group(tile_store<T> &s, const cplx<T> *image, const tile_args<T> &a,
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

/* Sum all groups. Each warp gets one group after the other. */
template <int MOST, class S, typename T>
__device__ __forceinline__ void sum_groups(tile_store<T> &s, const cplx<T> *image, const tile_args<T> &a,
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
            sum_group<1, S>(s, image, a, shared, b, first, lane);
            break;
        case 2:
            sum_group<2, S>(s, image, a, shared, b, first, lane);
            break;
        case 3:
            sum_group<3, S>(s, image, a, shared, b, first, lane);
            break;
        case 4:
            sum_group<4, S>(s, image, a, shared, b, first, lane);
            break;
        case 5:
            if constexpr (MOST >= 5) sum_group<5, S>(s, image, a, shared, b, first, lane);
            break;
        default:
            if constexpr (MOST >= 6) sum_group<6, S>(s, image, a, shared, b, first, lane);
        }
        __syncwarp();
    }
}

template <int MOST, class S, typename T>
__global__ void __launch_bounds__(TILE_THREADS<T>, 1)
    k_gather_tile(const __grid_constant__ tile_args<T> a, const __grid_constant__ typename S::shared shared,
                  const __grid_constant__ tile_boxes boxes)
{
    extern __shared__ __align__(128) unsigned char memory[];
    cplx<T> *image = (cplx<T> *)memory;
    tile_store<T> &s = *(tile_store<T> *)(image + a.cells);
    const int i = threadIdx.x;
    uint32_t round = 0;
    if (i == 0) {
        box_copy::init_barrier(&s.arrived);
        s.item = draw_item(a, boxes);
    }
    for (;;) {
        __syncthreads();
        const msi_wproj_points_item item = s.item;
        const int n = (int)item.n;
        if (n == 0) break;
        const item_place at = find_item(a.classes, item.tile);
        const tile_shape shape = a.shape[at.k];
        tap_block b = first_taps(a, at.k);
        const int taps = b.taps;
        fetch_cells(s, image, a, boxes, at, b, 0);
        if (i < n) {
            uint32_t index = a.index[item.first + (uint32_t)i];
            msi_wproj_sample x = a.sample[index];
            int u = msi_wproj_points_wrap(x.u - taps / 2, a.classes.nu) - at.u;
            int v = msi_wproj_points_wrap(x.v - taps / 2, a.classes.nv) - at.v;
            s.index[i] = index;
            s.place[i] = v * b.pitch + u;
            s.kernel[i] = msi_wproj_points_kernel(&x, a.kernels.oversample);
        }
        __syncthreads();
        make_groups<MOST>(s, n);
        msi_wproj_points_item next = {0, 0, 0};
        for (int p = 0; p < a.n_image; p++) {
            if (i < n) s.sum[i] = {0, 0};
            for (b.v = 0; b.v < taps; b.v += shape.block_v)
                for (b.u = 0; b.u < taps; b.u += shape.block_u) {
                    const bool first = p + b.u + b.v == 0;
                    b.width = min(shape.block_u, taps - b.u);
                    b.height = min(shape.block_v, taps - b.v);
                    if (!first) fetch_cells(s, image, a, boxes, at, b, p);
                    if (i == 0) s.next_group = 0;
                    await_cells(s, a, boxes, at, b, &round);
                    if (first && i == 0) next = draw_item(a, boxes);
                    sum_groups<MOST, S>(s, image, a, shared, b);
                    __syncthreads();
                }
            if (i < n) a.value[(int64_t)s.index[i] * a.n_image + p] = s.sum[i];
        }
        if (i == 0) s.item = next;
    }
}

/* Return the bytes of shared memory for an image of `cells` cells and a block's other data. */
template <typename T> constexpr size_t tile_bytes(int cells)
{
    return (size_t)cells * sizeof(cplx<T>) + sizeof(tile_store<T>);
}

/* Launch a gather by tiles. The tensor maps are not used if the kernel was compiled for a GPU without them. */
template <int MOST, class S, typename T>
int launch_tiles(const tile_args<T> &args, const typename S::shared &shared, tile_boxes *boxes, int n_block,
                 cudaStream_t stream)
{
    const auto kernel = k_gather_tile<MOST, S, T>;
    const size_t bytes = tile_bytes<T>(args.cells);
    cudaFuncAttributes compiled;
    MSI_CUDA(cudaFuncGetAttributes(&compiled, kernel));
    if (compiled.ptxVersion < hopper::ARCHITECTURE) boxes->given = 0;
    MSI_TRY(allow_shared(kernel, bytes));
    MSI_CUDA(cudaMemsetAsync(args.next_item, 0, sizeof *args.next_item, stream));
    kernel<<<n_block, TILE_THREADS<T>, bytes, stream>>>(args, shared, *boxes);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace points

/* The gather's object, for the files that launch its kernels. */

struct msi_gather {
    msi_gpu_stream gpu;
    msi_gather_form form;
    msi_wproj_points_sorter *sorter;
    msi_wproj_points_sorted sorted; /* by tile */
    msi_wproj_points_placed placed; /* by place or strip */
    msi_wproj_points_strips strips;
    const msi_wproj_points_item *item;
    const uint32_t *n_item;
    points::tile_shape shape[MSI_WPROJ_POINTS_MAX_CLASS];
    int32_t cells;        /* cells of the image in shared memory */
    uint32_t *next_item;  /* device memory */
    int n_block;          /* multiprocessors */
    bool has_fetch_limit; /* fetch_granules */
};

namespace points {

template <typename T> kernel_view<T> view_kernels(const msi_wproj_job *job)
{
    const msi_wproj_kernels &k = job->kernels;
    return {(const cplx<T> *)k.table, k.offset_u, k.taps, k.oversample};
}

/* Fill the arguments of a gather by tile. */
template <typename T> void fill_tile_args(tile_args<T> *a, const msi_gather *g, const msi_wproj_job *job)
{
    a->classes = *msi_wproj_points_sorter_classes(g->sorter);
    std::copy(g->shape, g->shape + MSI_WPROJ_POINTS_MAX_CLASS, a->shape);
    a->cells = g->cells;
    a->n_image = job->n_image;
    a->sample = job->sample;
    a->value = (cplx<T> *)job->value;
    a->grid = (const cplx<T> *)job->grid;
    a->kernels = view_kernels<T>(job);
    a->index = g->sorted.index;
    a->item = g->item;
    a->n_item = g->n_item;
    a->next_item = g->next_item;
}

/* Make tensor maps if the image has one plane and the tiles of every class are boxes. */
template <typename T> void describe_tiles(tile_boxes *boxes, const msi_gather *g, const msi_wproj_job *job)
{
    const msi_wproj_points_classes &c = *msi_wproj_points_sorter_classes(g->sorter);
    const int elements = (int)(sizeof(cplx<T>) / sizeof(double));
    boxes->given = job->n_image == 1;
    for (int k = 0; k < c.n_class && boxes->given; k++)
        boxes->given = box_copy::describe(&boxes->of[k], job->grid, c.nu * elements, c.nv, g->shape[k].pitch * elements,
                                          c.of[k].tile_v + g->shape[k].block_v - 1);
}

extern const int STRIP_ITEM; /* most visibilities of an item */

/*
 * shape_strips - choose the sizes of strips and bins for MSI_GATHER_STRIP.
 * Given:   n_block  number of multiprocessors of the GPU
 * Returns: true if this form supports the job
 */
bool shape_strips(msi_wproj_points_strips *strips, const msi_wproj_job *job, int n_block);

/* fetch_granules - set the fetch granularity of the device's L2 cache to the size of launch_strips' requests, if the
 * device supports this.
 * restore_fetch_limit - restore the granularity. */
void fetch_granules(msi_gather *g);
void restore_fetch_limit(msi_gather *g);

/* launch_strips - degrid the samples of g->placed by strips. Returns: 0, MSI_EGPU */
int launch_strips(const msi_gather *g, const msi_wproj_job *job);

} // namespace points

#endif
