/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernels of the default gridder on the GPU; wgrid_cuda.cu says how they work together. */
#ifndef MSI_KERNELS_WGRID_CUDA_KERNELS_CUH
#define MSI_KERNELS_WGRID_CUDA_KERNELS_CUH

#include "kernels/convolution/window.h"
#include "kernels/geometry.h"
#include "kernels/grid/cuda_check.h"
#include "kernels/prepare/store_rows.h"
#include "kernels/transform/screen_cuda.cuh"

namespace {

constexpr int MAX_PLANES = 32;

/* Warps of a gridding block: as many as leave its taps inside 48 KB of shared memory. */
template <typename T, int WIDTH> constexpr int WARPS = sizeof(T) * WIDTH > 96 ? 2 : 4;

typedef msi_store_rows segment_view;

template <typename T> struct record {
    T zu, zv, zw;
    int32_t u0, v0, w0;
};

/* Tap polynomials, highest power first: u and v share the first half of a row, w has the second. */
template <typename T> struct tap_table {
    T uv[MSI_WINDOW_MAX_COEF][MSI_WINDOW_MAX_WIDTH];
    T w[MSI_WINDOW_MAX_COEF][MSI_WINDOW_MAX_WIDTH];
};

__device__ void add_cell(cplx<float> *cell, float re, float im)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(cell), "f"(re), "f"(im) : "memory");
#else
    atomicAdd(&cell->re, re);
    atomicAdd(&cell->im, im);
#endif
}

__device__ void add_cell(cplx<double> *cell, double re, double im)
{
    atomicAdd(&cell->re, re);
    atomicAdd(&cell->im, im);
}

constexpr uint32_t UNUSED = 0xffffffffu;

constexpr int TILE = 16;           /* edge of a tile of first taps, where the number of keys allows */
constexpr int LEAST_CROWDED = 16;  /* samples that make an item crowded: what its zeroing and adding is worth */
constexpr int MOST_IN_ITEM = 1024; /* samples of a crowded item */

/* Sorted samples [first, first + n) of one tile and first w-plane. */
struct item {
    uint32_t first, n;
};

/*
 * How samples are ordered: by tower (first w-planes that are gridded together), core (square of tiles), tile, first
 * w-plane. Whole planes are one tower, and every tile is a core.
 */
struct sample_order {
    int32_t height; /* first w-planes of a tower */
    int32_t edge;   /* tiles along a core's edge */
    int32_t n_core_u, n_core_v;

    __host__ __device__ int64_t n_core() const
    {
        return (int64_t)n_core_u * n_core_v;
    }
    /* Keys of a core in one tower. */
    __host__ __device__ int64_t core_keys() const
    {
        return (int64_t)edge * edge * height;
    }
};

__host__ __device__ inline uint32_t sort_key(const sample_order &o, const msi_wgrid_geometry &g, const msi_footprint &f)
{
    int tu = (int)(f.u0 + g.nu / 2 + g.width) / g.tile, tv = (int)(f.v0 + g.nv / 2 + g.width) / g.tile;
    int tower = f.w0 / o.height, core_u = tu / o.edge, core_v = tv / o.edge;
    int64_t core = tower * o.n_core() + (int64_t)core_v * o.n_core_u + core_u;
    int in_core = (tv - core_v * o.edge) * o.edge + tu - core_u * o.edge;
    return (uint32_t)(core * o.core_keys() + (int64_t)in_core * o.height + f.w0 - tower * o.height);
}

/*
 * Records, values and keys of a batch; block (segment, part). raw [n_plane][n_sample] visibilities become value
 * [n_image][n_sample], weighted and turned; store_plane maps images to planes, -1 being the PSF.
 */
struct plane_map {
    int n_image, n_plane;
    int store_plane[MAX_PLANES];
};

template <typename T>
__global__ void k_locate(msi_wgrid_geometry g, sample_order order, plane_map map, const segment_view *segments,
                         const double *freq_hz, const double *uvw_m, const float *weight, const cplx<T> *raw,
                         int64_t n_sample, cplx<T> *value, record<T> *records, uint32_t *key, uint32_t *index)
{
    segment_view s = segments[blockIdx.x];
    int64_t n = (int64_t)s.n_row * s.n_chan;
    for (int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.y * blockDim.x) {
        int64_t row = i / s.n_chan, at = s.first_sample + i;
        double freq = freq_hz[s.first_freq + i % s.n_chan];
        msi_footprint f;
        double w_lambda;
        int conjugate = msi_locate(&g, uvw_m + 3 * (s.first_row + row), freq, &f, &w_lambda);
        double turns = w_lambda * g.n_mid;
        T sine, cosine;
        sincos_turns((T)(turns - rint(turns)), &sine, &cosine);
        bool used = false;
        for (int p = 0; p < map.n_image; p++) {
            int from = map.store_plane[p] < 0 ? 0 : map.store_plane[p];
            T wt = (T)weight[from * n_sample + at], re = wt, im = 0;
            used |= wt > 0;
            if (map.store_plane[p] >= 0) {
                cplx<T> v = raw[from * n_sample + at];
                re = wt * v.re;
                im = conjugate ? -wt * v.im : wt * v.im;
            }
            value[p * n_sample + at] = {re * cosine + im * sine, im * cosine - re * sine};
        }
        records[at] = {(T)f.zu, (T)f.zv, (T)f.zw, f.u0, f.v0, f.w0};
        key[at] = used ? sort_key(order, g, f) : UNUSED;
        index[at] = (uint32_t)at;
    }
}

/* Records and keys of a batch whose every sample counts, wherever in the uv plane it lies. */
template <typename T>
__global__ void k_locate_all(msi_wgrid_geometry g, sample_order order, const segment_view *segments,
                             const double *freq_hz, const double *uvw_m, record<T> *records, uint32_t *key,
                             uint32_t *index)
{
    segment_view s = segments[blockIdx.x];
    int64_t n = (int64_t)s.n_row * s.n_chan;
    for (int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.y * blockDim.x) {
        int64_t row = i / s.n_chan, at = s.first_sample + i;
        msi_footprint f;
        double w_lambda;
        msi_locate_wrapped(&g, uvw_m + 3 * (s.first_row + row), freq_hz[s.first_freq + i % s.n_chan], &f, &w_lambda);
        records[at] = {(T)f.zu, (T)f.zv, (T)f.zw, f.u0, f.v0, f.w0};
        key[at] = sort_key(order, g, f);
        index[at] = (uint32_t)at;
    }
}

__device__ int wrap(int x, int n)
{
    return x < 0 ? x + n : x >= n ? x - n : x;
}

/* How a run of equal keys is cut into items, and where the items go. */
__global__ void k_count_items(const uint32_t *run_key, const uint32_t *run_length, int64_t n_run, uint32_t crowded_from,
                              uint32_t *n_crowded, uint32_t *n_sparse)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_run) return;
    uint32_t n = run_key[i] == UNUSED ? 0 : run_length[i];
    bool crowded = n >= crowded_from;
    n_crowded[i] = crowded ? (n + MOST_IN_ITEM - 1) / MOST_IN_ITEM : 0;
    n_sparse[i] = crowded ? 0 : (n + 31) / 32;
}

__global__ void k_list_items(const uint32_t *run_key, const uint32_t *run_length, const uint32_t *run_start,
                             int64_t n_run, uint32_t crowded_from, const uint32_t *crowded_at,
                             const uint32_t *sparse_at, item *crowded, item *sparse)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_run || run_key[i] == UNUSED) return;
    uint32_t n = run_length[i], most = n >= crowded_from ? MOST_IN_ITEM : 32;
    item *out = n >= crowded_from ? crowded + crowded_at[i] : sparse + sparse_at[i];
    for (uint32_t done = 0; done < n; done += most) *out++ = {run_start[i] + done, min(most, n - done)};
}

/*
 * Where the cells of an item's footprints lie in planes that follow each other: the cell of grid coordinates (u, v) for
 * tap k along w at [origin + k plane_cells + wrap(v + shift_v, n_v) n_u + wrap(u + shift_u, n_u)]; only taps k_first ..
 * k_end - 1 meet planes that are there.
 */
struct patch {
    int64_t origin, plane_cells;
    int shift_u, shift_v, n_u, n_v;
    int k_first, k_end;
};

/* Planes [low, high) of whole grids: cells [n_image][high - low][nv][nu]. */
struct whole_planes {
    static constexpr bool ALWAYS_W = false; /* there may be one plane and no w */
    int low, high;

    __device__ int64_t image_cells(const msi_wgrid_geometry &g) const
    {
        return g.nu * g.nv * (high - low);
    }
    template <typename T> __device__ patch find(const msi_wgrid_geometry &g, const record<T> &r) const
    {
        int64_t cells = g.nu * g.nv;
        return {(r.w0 - low) * cells,
                cells,
                (int)(g.nu / 2),
                (int)(g.nv / 2),
                (int)g.nu,
                (int)g.nv,
                r.w0 < low ? low - r.w0 : 0,
                min(g.w_width, high - r.w0)};
    }
};

/* What the gridding kernels read, and the cells that they add to. */
template <typename T> struct grid_job {
    const tap_table<T> *taps;
    int n_image;
    int64_t n_sample;
    const uint32_t *index; /* sorted */
    const record<T> *records;
    const cplx<T> *value; /* [n_image][n_sample] */
    cplx<T> *grid;
};

/* The polynomials of all taps into shared memory: u, v, then w. */
template <typename T, int N_COEF, int WIDTH, int N_TAP>
__device__ void load_taps(const tap_table<T> *taps, T (*table)[N_TAP])
{
    for (int i = threadIdx.x; i < N_COEF * N_TAP; i += blockDim.x) {
        int k = i / N_TAP, t = i % N_TAP;
        table[k][t] = t < 2 * WIDTH ? taps->uv[k][t % WIDTH] : taps->w[k][t % WIDTH];
    }
}

template <typename T, int N_COEF, int N_TAP> __device__ T tap_value(const T (*table)[N_TAP], int t, T z)
{
    T p = table[0][t];
#pragma unroll
    for (int k = 1; k < N_COEF; k++) p = p * z + table[k][t];
    return p;
}

/* One warp an item of at most 32 samples, straight to the planes. */
template <typename T, int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * WARPS<T, WIDTH>)
    k_grid_sparse(msi_wgrid_geometry g, grid_job<T> job, PLANES there, const item *items, int64_t n_item)
{
    constexpr int N_COEF = WIDTH < 6 ? WIDTH + 3 : WIDTH + 2;
    constexpr int ROW = WIDTH <= 4 ? 4 : WIDTH <= 8 ? 8 : 16; /* lanes along u */
    constexpr int ROWS = 32 / ROW;                            /* rows of v at a time */
    constexpr int N_TAP = HAS_W ? 3 * WIDTH : 2 * WIDTH;
    constexpr int N_WARP = WARPS<T, WIDTH>;
    __shared__ T table[N_COEF][N_TAP];
    __shared__ T tap[N_WARP][32][N_TAP + 1];
    load_taps<T, N_COEF, WIDTH, N_TAP>(job.taps, table);
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int64_t k = (int64_t)blockIdx.x * N_WARP + warp; k < n_item; k += (int64_t)gridDim.x * N_WARP) {
        item here = items[k];
        int n = (int)here.n;
        uint32_t sample = job.index[here.first + (lane < n ? lane : n - 1)];
        record<T> r = job.records[sample];
        patch to = there.find(g, r); /* the same for all of an item */
        if (to.k_first >= to.k_end) continue;
        for (int i = 0; i < n; i++) {
            T z[3] = {__shfl_sync(~0u, r.zu, i), __shfl_sync(~0u, r.zv, i), __shfl_sync(~0u, r.zw, i)};
            for (int t = lane; t < N_TAP; t += 32)
                tap[warp][i][t] = tap_value<T, N_COEF, N_TAP>(table, t, t < WIDTH ? z[0] : t < 2 * WIDTH ? z[1] : z[2]);
        }
        __syncwarp();
        int column = lane % ROW, first_row = lane / ROW;
        int k_end = HAS_W ? to.k_end : 1;
        for (int p = 0; p < job.n_image; p++) {
            cplx<T> mine = job.value[p * job.n_sample + sample];
            int64_t planes = p * there.image_cells(g) + to.origin + to.k_first * to.plane_cells;
            for (int i = 0; i < n; i++) {
                T re = __shfl_sync(~0u, mine.re, i), im = __shfl_sync(~0u, mine.im, i);
                int u0 = __shfl_sync(~0u, r.u0, i), v0 = __shfl_sync(~0u, r.v0, i);
                if (column >= WIDTH || (re == 0 && im == 0)) continue;
                T ku = tap[warp][i][column];
                int iu = wrap(u0 + column + to.shift_u, to.n_u);
                for (int j = first_row; j < WIDTH; j += ROWS) {
                    T kuv = ku * tap[warp][i][WIDTH + j], a = re * kuv, b = im * kuv;
                    int iv = wrap(v0 + j + to.shift_v, to.n_v);
                    cplx<T> *cell = job.grid + planes + (int64_t)iv * to.n_u + iu;
                    for (int w = to.k_first; w < k_end; w++, cell += to.plane_cells) {
                        T kw = HAS_W ? tap[warp][i][2 * WIDTH + w] : (T)1;
                        add_cell(cell, a * kw, b * kw);
                    }
                }
            }
        }
        __syncwarp();
    }
}

/* Sizes of a crowded item's shared memory. A row's pitch of 8 modulo 16 words puts four rows of eight lanes in 32
 * different banks. */
template <int WIDTH> struct tile_shape {
    static constexpr int SIDE = TILE + WIDTH - 1;
    static constexpr int PITCH = (SIDE + 7) / 16 * 16 + 8;
    static constexpr int SLICE = SIDE * PITCH;
    static constexpr int BATCH = 64;
    static constexpr size_t BYTES = sizeof(float) * (2 * WIDTH * SLICE + BATCH * (3 * WIDTH + 5)) + sizeof(int) * BATCH;
};

/*
 * One block of WIDTH warps an item. Warp k holds the tile's cells of w-tap k; with a single plane (no w) each warp
 * holds a copy of the tile for its share of the samples, and the copies are added at the end.
 */
template <int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * WIDTH)
    k_grid_crowded(msi_wgrid_geometry g, grid_job<float> job, PLANES there, const item *items)
{
    using shape = tile_shape<WIDTH>;
    constexpr int N_COEF = WIDTH < 6 ? WIDTH + 3 : WIDTH + 2;
    constexpr int ROW = WIDTH <= 4 ? 4 : WIDTH <= 8 ? 8 : 16;
    constexpr int ROWS = 32 / ROW;
    constexpr int N_TAP = HAS_W ? 3 * WIDTH : 2 * WIDTH;
    constexpr int BATCH = shape::BATCH;
    __shared__ float table[N_COEF][N_TAP];
    extern __shared__ float memory[];
    float *tile_re = memory, *tile_im = tile_re + WIDTH * shape::SLICE;
    float *tap = tile_im + WIDTH * shape::SLICE; /* [BATCH][N_TAP] */
    float *z = tap + BATCH * 3 * WIDTH;          /* [3][BATCH] */
    float *re = z + 3 * BATCH, *im = re + BATCH;
    int *offset = (int *)(im + BATCH);

    item here = items[blockIdx.x];
    record<float> first = job.records[job.index[here.first]];
    patch to = there.find(g, first);
    if (to.k_first >= to.k_end) return;
    load_taps<float, N_COEF, WIDTH, N_TAP>(job.taps, table);
    int u_first = (int)((first.u0 + g.nu / 2 + g.width) / TILE * TILE - g.nu / 2 - g.width);
    int v_first = (int)((first.v0 + g.nv / 2 + g.width) / TILE * TILE - g.nv / 2 - g.width);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = lane % ROW, first_row = lane / ROW;
    float *my_re = tile_re + warp * shape::SLICE + column, *my_im = tile_im + warp * shape::SLICE + column;

    for (int p = 0; p < job.n_image; p++) {
        for (int i = threadIdx.x; i < 2 * WIDTH * shape::SLICE; i += blockDim.x) memory[i] = 0;
        for (uint32_t done = 0; done < here.n; done += BATCH) {
            int n = min(BATCH, (int)(here.n - done));
            __syncthreads();
            for (int i = threadIdx.x; i < n; i += blockDim.x) {
                uint32_t sample = job.index[here.first + done + i];
                record<float> r = job.records[sample];
                cplx<float> v = job.value[p * job.n_sample + sample];
                z[i] = r.zu;
                z[BATCH + i] = r.zv;
                z[2 * BATCH + i] = r.zw;
                re[i] = v.re;
                im[i] = v.im;
                offset[i] = (r.v0 - v_first) * shape::PITCH + r.u0 - u_first;
            }
            __syncthreads();
            for (int t = threadIdx.x; t < n * N_TAP; t += blockDim.x)
                tap[t] = tap_value<float, N_COEF, N_TAP>(table, t % N_TAP, z[t % N_TAP / WIDTH * BATCH + t / N_TAP]);
            __syncthreads();
            for (int i = HAS_W ? 0 : warp; i < n; i += HAS_W ? 1 : WIDTH) {
                const float *k = tap + i * N_TAP;
                float ku = column < WIDTH ? k[column] : 0;
                float kw = HAS_W ? k[2 * WIDTH + warp] : 1;
                float a = re[i] * kw * ku, b = im[i] * kw * ku;
                if (column < WIDTH)
                    for (int j = first_row; j < WIDTH; j += ROWS) {
                        int at = offset[i] + j * shape::PITCH;
                        float kv = k[WIDTH + j];
                        my_re[at] += a * kv;
                        my_im[at] += b * kv;
                    }
                __syncwarp();
            }
        }
        __syncthreads();
        cplx<float> *planes = job.grid + p * there.image_cells(g) + to.origin;
        int n_slice = HAS_W ? WIDTH : 1;
        for (int i = threadIdx.x; i < n_slice * shape::SIDE * shape::SIDE; i += blockDim.x) {
            int slice = i / (shape::SIDE * shape::SIDE), row = i / shape::SIDE % shape::SIDE, col = i % shape::SIDE;
            if (slice < to.k_first || slice >= to.k_end) continue;
            int at = slice * shape::SLICE + row * shape::PITCH + col;
            float a = tile_re[at], b = tile_im[at];
            for (int copy = 1; !HAS_W && copy < WIDTH; copy++) {
                a += tile_re[at + copy * shape::SLICE];
                b += tile_im[at + copy * shape::SLICE];
            }
            if (a == 0 && b == 0) continue;
            int iu = wrap(u_first + col + to.shift_u, to.n_u), iv = wrap(v_first + row + to.shift_v, to.n_v);
            add_cell(planes + slice * to.plane_cells + (int64_t)iv * to.n_u + iu, a, b);
        }
        __syncthreads();
    }
}

/* Samples that make an item crowded; UNUSED where no block can hold a tile. */
template <typename T> uint32_t least_gathered(int width, size_t shared_bytes)
{
    size_t need = width <= 8 ? tile_shape<8>::BYTES : width <= 12 ? tile_shape<12>::BYTES : tile_shape<16>::BYTES;
    return sizeof(T) == 4 && need + 4096 <= shared_bytes ? LEAST_CROWDED : UNUSED;
}

/* Items of a sorted batch: crowded ones, or sparse ones. */
struct item_range {
    const item *first;
    int64_t n;
};

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
int launch_gridding(const msi_wgrid_geometry &g, const grid_job<T> &job, const PLANES &there, item_range crowded,
                    item_range sparse)
{
    if constexpr (sizeof(T) == 4) {
        if (crowded.n) {
            MSI_CUDA(cudaFuncSetAttribute(k_grid_crowded<WIDTH, HAS_W, PLANES>,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize, (int)tile_shape<WIDTH>::BYTES));
            k_grid_crowded<WIDTH, HAS_W, PLANES>
                <<<(unsigned)crowded.n, 32 * WIDTH, tile_shape<WIDTH>::BYTES>>>(g, job, there, crowded.first);
            MSI_CUDA(cudaGetLastError());
        }
    }
    if (!sparse.n) return MSI_OK;
    constexpr int N_WARP = WARPS<T, WIDTH>;
    int64_t wanted = (sparse.n + N_WARP - 1) / N_WARP;
    unsigned blocks = (unsigned)(wanted < (int64_t)1 << 20 ? wanted : (int64_t)1 << 20);
    k_grid_sparse<T, WIDTH, HAS_W, PLANES><<<blocks, 32 * N_WARP>>>(g, job, there, sparse.first, sparse.n);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* Add items to planes of whichever kind, by the kernel of the plan's window. */
template <typename T, typename PLANES>
int grid_items(const msi_wgrid_geometry &g, const grid_job<T> &job, const PLANES &there, item_range crowded,
               item_range sparse)
{
    switch (g.width) {
#define WIDTH_CASE(n)                                                                                                  \
    case n:                                                                                                            \
        if (PLANES::ALWAYS_W || g.w_width > 1)                                                                         \
            return launch_gridding<T, n, true, PLANES>(g, job, there, crowded, sparse);                                \
        return launch_gridding<T, n, PLANES::ALWAYS_W, PLANES>(g, job, there, crowded, sparse)
        WIDTH_CASE(2);
        WIDTH_CASE(3);
        WIDTH_CASE(4);
        WIDTH_CASE(5);
        WIDTH_CASE(6);
        WIDTH_CASE(7);
        WIDTH_CASE(8);
        WIDTH_CASE(9);
        WIDTH_CASE(10);
        WIDTH_CASE(11);
        WIDTH_CASE(12);
        WIDTH_CASE(13);
        WIDTH_CASE(14);
        WIDTH_CASE(15);
        WIDTH_CASE(16);
#undef WIDTH_CASE
    default:
        return msi_error_set(MSI_EINTERNAL, "no kernel for a window of %d cells", g.width);
    }
}

} // namespace

#endif
