/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Types and helpers of the default gridder's kernels, gridding and degridding; wgrid_cuda.cu describes how they work
 * together. */
#ifndef MSI_WGRID_CUDA_KERNELS_CUH
#define MSI_WGRID_CUDA_KERNELS_CUH

#include <algorithm>
#include <type_traits>

#include "kernels/gpu/cuda_check.h"
#include "kernels/method/geometry.h"
#include "kernels/method/gridder_spec.h"
#include "kernels/store/vis_store.h"
#include "kernels/transform/pswf.h"
#include "kernels/transform/screen_cuda.cuh"

namespace {

constexpr int MAX_PLANES = MSI_GRIDDER_MAX_PLANES;

/* Warps of a gridding block: as many as keep its taps below 48 KB of shared memory. */
template <typename T, int WIDTH> constexpr int WARPS = sizeof(T) * WIDTH > 96 ? 2 : 4;

typedef msi_store_rows segment_view;

/* Fractions and first taps of a sample's footprint, padded to words of 8 bytes for copies. */
template <typename T> struct record {
    T zu, zv, zw;
    int32_t u0, v0, w0;
};
template <> struct record<double> {
    double zu, zv, zw;
    int32_t u0, v0, w0, none;
};

/* A sorted sample of gridding, with its value for one image. */
template <typename T> struct alignas(8 * sizeof(T)) placed {
    record<T> at;
    cplx<T> value;

    __device__ placed(T zu, T zv, T zw, int32_t u0, int32_t v0, int32_t w0, cplx<T> value_)
        : at{zu, zv, zw, u0, v0, w0}, value(value_)
    {
    }
};
template <> struct alignas(64) placed<double> {
    record<double> at;
    double none;
    cplx<double> value;

    __device__ placed(double zu, double zv, double zw, int32_t u0, int32_t v0, int32_t w0, cplx<double> value_)
        : at{zu, zv, zw, u0, v0, w0, 0}, none(0), value(value_)
    {
    }
};

/* The index of a sample's visibility, the phase of the field's mean n - 1, and whether it is conjugated because w <
 * 0. */
template <typename T> struct destination;
template <> struct destination<float> {
    uint32_t index;
    int32_t phase; /* turns times 2^32; the lowest bit is 1 if w < 0 */

    destination() = default;
    __device__ destination(uint32_t index_, double turns, int conjugate)
        : index(index_), phase(((int32_t)fmin(turns * 4294967296., 2147483647.) & ~1) | conjugate)
    {
    }
    __device__ float turns() const
    {
        return (float)(phase & ~1) * (1 / 4294967296.f);
    }
    __device__ bool conjugate() const
    {
        return phase & 1;
    }
};
template <> struct destination<double> {
    double turned;
    uint32_t index;
    int32_t below; /* 1 if w < 0 */

    destination() = default;
    __device__ destination(uint32_t index_, double turns, int conjugate)
        : turned(turns), index(index_), below(conjugate)
    {
    }
    __device__ double turns() const
    {
        return turned;
    }
    __device__ bool conjugate() const
    {
        return below;
    }
};

/* A sorted sample of degridding, with the same layout as for gridding up to its value. */
template <typename T> struct wanted;
template <> struct alignas(32) wanted<float> {
    record<float> at;
    destination<float> to;

    __device__ wanted(const msi_footprint &f, const destination<float> &to_)
        : at{(float)f.zu, (float)f.zv, (float)f.zw, f.u0, f.v0, f.w0}, to(to_)
    {
    }
};
template <> struct alignas(64) wanted<double> {
    record<double> at;
    destination<double> to;
    double none; /* padding to whole sectors, because partly written sectors are read first */

    __device__ wanted(const msi_footprint &f, const destination<double> &to_)
        : at{f.zu, f.zv, f.zw, f.u0, f.v0, f.w0, 0}, to(to_), none(0)
    {
    }
};
static_assert(sizeof(wanted<float>) == sizeof(placed<float>) && sizeof(wanted<double>) == sizeof(placed<double>),
              "degridding reads either");

/* Tap polynomials, highest power first. u and v share the table uv. */
template <typename T> struct tap_table {
    T uv[MSI_PSWF_MAX_COEF][MSI_PSWF_MAX_WIDTH];
    T w[MSI_PSWF_MAX_COEF][MSI_PSWF_MAX_WIDTH];
};

constexpr uint32_t UNUSED = 0xffffffffu;

constexpr int TILE = 16; /* edge of a tile of first taps, if the number of keys allows */

/* Edges of a tile in cells. */
struct tile_shape {
    int u, v;
};

/*
 * Choose tiles so that the cells of their footprints fill rows of 8, 16 or 24 cells, and 16 or 32 rows. Products of
 * halves always have 16 rows, so tiles are as high as 16 rows allow. They are as wide as the columns allow if pairs of
 * cells then begin at even places, or if this saves half of the columns.
 */
template <typename T> constexpr tile_shape ring_tile(int width)
{
    if (width >= 14) return {8, 16};
    if (width >= 10) return {8, 4};
    if (sizeof(T) > 4 || width == 9) return {8, 8};
    return {width == 8 ? 8 : width == 7 ? 10 : width == 6 ? 3 : 4, width < 5 ? 8 : 17 - width};
}

constexpr int TENSOR_WIDTH = 9; /* widest window of products of halves */

/* For windows of up to ALWAYS_SUMMED taps, tensor cores also accumulate a block's sums, at most 200 times. The error is
 * at most 2e-5, if all roundings have the same sign, a third of the best error of these windows. If the image's error
 * may be COARSE_ERROR, five times as large, they also do so for COARSELY_SUMMED taps. */
constexpr int ALWAYS_SUMMED = 5, COARSELY_SUMMED = 6;
constexpr double COARSE_ERROR = 1e-4;

/* Number of samples of a crowded item: as many as one product of tensor cores sums in gridding. */
template <typename T> constexpr int ring_group(int width)
{
    return sizeof(T) == 4 && width <= TENSOR_WIDTH ? 16 : 4;
}

constexpr int MOST_SPARSE = 2; /* samples of a sparse item */

/* Sorted samples [first, first + n) of one tile and first w-plane. */
struct item {
    uint32_t first, n;
};

/*
 * Samples are ordered by tower (first w-planes that are gridded together), core (a rectangle of tiles), tile, first
 * w-plane. Whole planes are one tower, and every tile is a core.
 */
struct sample_order {
    int32_t height;                 /* first w-planes of a tower */
    int32_t first_tower, end_tower; /* samples of other towers have no key */
    tile_shape core, tile;          /* cells along their edges; tiles at a core's far edges may be smaller */
    int32_t n_core_u, n_core_v;
    int64_t first_core,
        end_core; /* numbered over all towers, one after the other; samples of other cores have no key */

    __host__ __device__ int64_t n_core() const
    {
        return (int64_t)n_core_u * n_core_v;
    }
    /* Count the tiles along a core's edges. */
    __host__ __device__ tile_shape core_tiles() const
    {
        return {(core.u + tile.u - 1) / tile.u, (core.v + tile.v - 1) / tile.v};
    }
    /* Count the keys of a core in one tower. */
    __host__ __device__ int64_t core_keys() const
    {
        return (int64_t)core_tiles().u * core_tiles().v * height;
    }
    __host__ __device__ int64_t tower_keys() const
    {
        return n_core() * core_keys();
    }
    __host__ __device__ int64_t n_key() const
    {
        return (end_tower - first_tower) * tower_keys();
    }
};

/*
 * Divide 32-bit numbers by a fixed number with a multiplication. factor is (2^32 - 1) / by, rounded down, so x factor /
 * 2^32 is at most x / 2^32 < 1 below x / by. Its integer part is the quotient or one less; the remainder decides.
 */
struct small_divisor {
    uint32_t by, factor;

    __device__ explicit small_divisor(int32_t by_) : by((uint32_t)by_), factor(UNUSED / (uint32_t)by_) {}
    __device__ uint32_t divide(uint32_t x) const
    {
        const uint32_t quotient = __umulhi(x, factor);
        return x - quotient * by < by ? quotient : quotient + 1;
    }
};

/* Compute the keys of samples in an order. */
struct key_maker {
    sample_order o;
    uint32_t into_u, into_v, first_core, n_core, tiles_u, tiles_v;
    small_divisor core_u, core_v, tile_u, tile_v, height;

    __device__ key_maker(const sample_order &order, const msi_wgrid_geometry &g)
        : o(order), into_u((uint32_t)(g.nu / 2 + g.width)), into_v((uint32_t)(g.nv / 2 + g.width)),
          tiles_u((uint32_t)order.core_tiles().u), tiles_v((uint32_t)order.core_tiles().v), core_u(order.core.u),
          core_v(order.core.v), tile_u(order.tile.u), tile_v(order.tile.v), height(order.height)
    {
        const int64_t before = o.first_tower * o.n_core(), n = (o.end_tower - o.first_tower) * o.n_core();
        const int64_t first = min(max(o.first_core - before, (int64_t)0), n), end = min(o.end_core - before, n);
        first_core = (uint32_t)first;
        n_core = end > first ? (uint32_t)(end - first) : 0;
    }
    /* Returns: the key, UNUSED if the order has none */
    __device__ uint32_t key(const msi_footprint &f) const
    {
        const uint32_t u = (uint32_t)f.u0 + into_u, v = (uint32_t)f.v0 + into_v, w0 = (uint32_t)f.w0;
        const uint32_t at_u = core_u.divide(u), at_v = core_v.divide(v), tower = height.divide(w0);
        if (tower < (uint32_t)o.first_tower || tower >= (uint32_t)o.end_tower) return UNUSED;
        const uint32_t row = (tower - (uint32_t)o.first_tower) * (uint32_t)o.n_core_v + at_v;
        const uint32_t core = row * (uint32_t)o.n_core_u + at_u;
        if (core - first_core >= n_core) return UNUSED;
        const uint32_t in_core = tile_v.divide(v - at_v * core_v.by) * tiles_u + tile_u.divide(u - at_u * core_u.by);
        return (core * tiles_u * tiles_v + in_core) * height.by + w0 - tower * height.by;
    }
};

/* The plane of a store for each image; -1 is the PSF. */
struct plane_map {
    int n_image, n_plane;
    int store_plane[MAX_PLANES];
};

/* The rule for dividing runs into items. */
struct item_rule {
    uint32_t height;       /* keys of a tile */
    uint32_t reach;        /* samples of the tile count for a run if their first w-planes are less than this away */
    uint32_t crowded_from; /* number of samples from which a run is crowded; UNUSED: no run is crowded */
    uint32_t most_crowded, most_sparse; /* largest number of samples of an item */
};

/*
 * The cells of an item's footprints in contiguous planes. The cell of grid coordinates (u, v) for tap k along w is
 * [origin + k plane_cells + msi_wrap_cell(v + shift_v, n_v) n_u + msi_wrap_cell(u + shift_u, n_u)]. Only taps k_first
 * .. k_end - 1 have planes in memory.
 */
struct patch {
    int64_t origin, plane_cells;
    int shift_u, shift_v, n_u, n_v;
    int k_first, k_end;
};

/* Planes [low, high) of whole grids: cells [high - low][nv][nu]. */
struct whole_planes {
    static constexpr bool ALWAYS_W = false; /* there may be one plane without w */
    int low, high;

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
    /* Find a cell's place in its core. There is only one core. */
    __device__ int in_core(int cell) const
    {
        return cell;
    }
    /* Find the number of a sample's first plane, counted from the first one in memory. The next planes follow it. */
    template <typename T> __device__ int plane_number(const msi_wgrid_geometry &, const record<T> &r) const
    {
        return r.w0 - low;
    }
    __device__ int n_plane() const
    {
        return high - low;
    }
};

/* Distance of the values in consecutive samples, in elements. */
template <typename T> constexpr int64_t OWN_PITCH = sizeof(placed<T>) / sizeof(cplx<T>);

/* A job of the gridding kernels: the samples that they read, and the cells that they add to. */
template <typename T> struct grid_job {
    const tap_table<T> *taps, *host_taps;
    const placed<T> *samples; /* sorted */
    const cplx<T> *value;     /* value of the first sample: in the sample, or stored separately for several images */
    int64_t value_pitch;      /* distance of values in elements */
    cplx<T> *grid;
    bool is_coarse; /* the image's error may be COARSE_ERROR */
};

/* Load the polynomials of all taps into shared memory: u, v, then w. */
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

/* Evaluate the taps of a sparse item's n samples, one in each lane, into tap [sample]: u, v, w. For a whole warp. */
template <typename T, int N_COEF, int WIDTH, int N_TAP>
__device__ __forceinline__ void lay_item_taps(const T (*table)[N_TAP], const record<T> &r, int n, T (*tap)[N_TAP + 1])
{
    for (int i = 0; i < n; i++) {
        const T z[3] = {__shfl_sync(~0u, r.zu, i), __shfl_sync(~0u, r.zv, i), __shfl_sync(~0u, r.zw, i)};
        for (int t = threadIdx.x % 32; t < N_TAP; t += 32)
            tap[i][t] = tap_value<T, N_COEF, N_TAP>(table, t, t < WIDTH ? z[0] : t < 2 * WIDTH ? z[1] : z[2]);
    }
}

/* The crowded or the sparse items of a sorted batch. */
struct item_range {
    const item *first;
    int64_t n;
};

/* ---- Widths of the window ---------------------------------------------------------------------------------------- */

/* The taps of a sample, and the part of them that a warp handles at a time: ROWS rows of v, ROW lanes along u. */
template <int WIDTH, bool HAS_W> struct tap_shape {
    static constexpr int N_COEF = WIDTH < 6 ? WIDTH + 3 : WIDTH + 2;
    static constexpr int N_TAP = HAS_W ? 3 * WIDTH : 2 * WIDTH;
    static constexpr int ROW = WIDTH <= 4 ? 4 : WIDTH <= 8 ? 8 : 16;
    static constexpr int ROWS = 32 / ROW;
};

/* Launch a kernel with one warp for each sparse item, or for several items if there are very many. */
template <typename T, int WIDTH, typename JOB, typename PLANES>
int launch_sparse(void (*kernel)(msi_wgrid_geometry, JOB, PLANES, const item *, int64_t), const msi_wgrid_geometry &g,
                  const JOB &job, const PLANES &there, item_range sparse, cudaStream_t stream)
{
    constexpr int64_t N_WARP = WARPS<T, WIDTH>, MOST = 1 << 20;
    if (!sparse.n) return MSI_OK;
    const int64_t blocks = std::min((sparse.n + N_WARP - 1) / N_WARP, MOST);
    kernel<<<(unsigned)blocks, 32 * N_WARP, 0, stream>>>(g, job, there, sparse.first, sparse.n);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/*
 * Call launch(width, has_w) for a plan's window, with integral constants. Kernels are compiled for each width, with w
 * and, if PLANES may be one plane without w, without it.
 */
template <typename PLANES, int WIDTH = MSI_PSWF_MIN_WIDTH, typename LAUNCH>
int at_width(const msi_wgrid_geometry &g, LAUNCH launch)
{
    if constexpr (WIDTH > MSI_PSWF_MAX_WIDTH) {
        return msi_error_set(MSI_EINTERNAL, "no kernel for a window of %d cells", g.width);
    } else {
        constexpr std::integral_constant<int, WIDTH> width;
        if (g.width != WIDTH) return at_width<PLANES, WIDTH + 1>(g, launch);
        if (PLANES::ALWAYS_W || g.w_width > 1) return launch(width, std::true_type{});
        return launch(width, std::bool_constant<PLANES::ALWAYS_W>{});
    }
}

} // namespace

#endif
