/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Batches of stored samples on the device, for gridding and degridding.
 *
 * (1) sample_batches holds a plan's geometry and taps, and the order of samples by uv tile and w. (2) The kernels count
 * samples by key and store them in order. (3) placed_batches runs these kernels, and divides the sorted batch into
 * items of one tile and first w-plane. All are templates of the precision.
 */
#ifndef MSI_WGRID_BATCHES_CUDA_CUH
#define MSI_WGRID_BATCHES_CUDA_CUH

#include <algorithm>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_scan.cuh>

#include "core/process.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/store/store_batches_cuda.cuh"
#include "kernels/transform/fft_plan_cuda.cuh"
#include "kernels/wgrid/wgrid_cuda.h"
#include "kernels/wgrid/wgrid_cuda_kernels.cuh"
#include "kernels/wgrid/wgrid_plan.h"

namespace {

/* Largest number of samples in a batch. Items and sums of counters have 32 bits. */
constexpr int64_t MOST_IN_BATCH = INT32_MAX;

/* Order whole planes by tile; each tile is a core. */
inline sample_order order_by_tile(const msi_wgrid_geometry &g, tile_shape tile)
{
    sample_order o = {};
    o.height = g.n_w - g.w_width + 1;
    o.first_tower = 0;
    o.end_tower = 1;
    o.core = o.tile = tile;
    o.n_core_u = (int32_t)((g.nu + 2 * g.width) / tile.u) + 1;
    o.n_core_v = (int32_t)((g.nv + 2 * g.width) / tile.v) + 1;
    o.end_core = o.n_core();
    return o;
}

/* Choose tiles of the size that degridding uses for crowded items, or larger ones if there would be too many keys. */
inline void lay_tiles(msi_wgrid_geometry *g)
{
    for (g->tile = TILE;; g->tile *= 2) {
        g->n_tile_u = (g->nu + 2 * g->width + g->tile) / g->tile;
        g->n_tile_v = (g->nv + 2 * g->width + g->tile) / g->tile;
        if (g->n_tile_u * g->n_tile_v * (g->n_w - g->w_width + 1) < (int64_t)UNUSED) return;
    }
}

/* Runs of equal keys in a sorted batch, and the numbers of each run's first items. The last run is empty and has the
 * key UNUSED: it marks the end of the items. */
struct sorted_runs {
    const uint32_t *key, *crowded_at, *sparse_at;
    int64_t n;
};

template <typename T> class sample_batches : public store_batches<T> {
  public:
    using base = store_batches<T>;
    using base::now;
    using base::on;
    using base::store;
    using base::times;
    const msi_wgrid_plan *plan;
    msi_wgrid_geometry g;
    sample_order order;
    uint32_t least_crowded = UNUSED;     /* samples that make an item crowded; UNUSED: no item is */
    int64_t n_crowded = 0, n_sparse = 0; /* items of the current batch */
    sorted_runs runs = {};
    buffer d_taps, d_value, d_records, d_rank, d_work, d_runs, d_items;
    tap_table<T> taps = {}; /* also on the device, in d_taps */

    /* Order by tiles of whole planes. */
    explicit sample_batches(const msi_wgrid_plan *plan_) : plan(plan_), g(plan_->grid)
    {
        lay_tiles(&g);
        order = order_by_tile(g, {g.tile, g.tile});
    }
    /* Order by towers of w-planes. order_ has no more keys than can be numbered. */
    sample_batches(const msi_wgrid_plan *plan_, const sample_order &order_) : plan(plan_), g(plan_->grid), order(order_)
    {
        g.tile = order.tile.u;
    }

    /* enter - make the plan's device the current one; the first call creates the stream. Returns: 0, MSI_EGPU */
    int enter()
    {
        return on.begin(plan->device);
    }

    int upload_taps()
    {
        for (int k = 0; k < plan->window.n_coef; k++)
            for (int i = 0; i < g.width; i++) {
                taps.uv[k][i] = (T)plan->window.coef[k][i];
                taps.w[k][i] = (T)plan->w_window.coef[k][i];
            }
        MSI_TRY(d_taps.fit(sizeof taps, "the window"));
        return on.upload(as<tap_table<T>>(d_taps), &taps, 1);
    }

    /* upload_taper - upload the taper correction. Returned: *device, whose arrays are on the device and owned by this
     * object */
    int upload_taper(msi_taper *device)
    {
        msi_taper host;
        MSI_TRY(msi_taper_make(&host, &plan->image, &plan->grid, &plan->window, &plan->w_window));
        *device = host;
        const int rc = copy_taper(device, host);
        msi_taper_free(&host);
        return rc;
    }

    item_range crowded() const
    {
        return {as<item>(d_items), n_crowded};
    }
    item_range sparse() const
    {
        return {as<item>(d_items) + n_crowded, n_sparse};
    }

    screen_geometry screen() const
    {
        const msi_image_geometry &i = plan->image;
        return {i.nx,     i.ny,    g.nu,          g.nv,           i.cell_x_rad,   i.cell_y_rad, g.w_first,
                g.w_step, g.n_mid, g.w_width > 1, g.l_center_rad, g.m_center_rad, g.beyond};
    }

    /* Count the blocks of 32 x 8 threads that cover the image. */
    dim3 pixel_blocks() const
    {
        return dim3((unsigned)((plan->image.nx + 31) / 32), (unsigned)((plan->image.ny + 7) / 8));
    }

    /* Count the blocks for the batch's segments. */
    dim3 segment_blocks() const
    {
        return dim3((unsigned)(now.end - now.first), 8);
    }

  private:
    buffer d_along;

    int copy_taper(msi_taper *device, const msi_taper &host)
    {
        const int64_t nx = plan->image.nx, ny = plan->image.ny;
        MSI_TRY(d_along.fit((nx + ny) * (int64_t)sizeof(double), "taper correction"));
        device->along_x = as<double>(d_along);
        device->along_y = as<double>(d_along) + nx;
        MSI_TRY(on.upload(device->along_x, host.along_x, nx));
        MSI_TRY(on.upload(device->along_y, host.along_y, ny));
        return on.wait();
    }
};

/* ---- Sorting ----------------------------------------------------------------------------------------------------- */

/*
 * Sort the samples of a batch. (1) Count them by key, with a counter for every possible key. The value of the counter
 * when a sample is counted is its rank among the samples of its key. (2) Prefix sums of the counters are the first
 * places of the keys. (3) Store each sample at its place, with its coordinates and value, so that gridding reads
 * samples consecutively. The order of samples with the same key is arbitrary.
 */

constexpr int COUNT_BLOCK = 256, KEYS_EACH = 16; /* KEYS_EACH: number of keys whose counters a thread sums */
constexpr int COUNT_CHUNK = COUNT_BLOCK * KEYS_EACH;

/* The rows of a batch's segments. */
struct batch_rows {
    const segment_view *segments;
    const double *freq_hz, *uvw_m;
    const float *weight; /* [n_plane][n_sample] */
    int64_t n_sample;
};

/* Call f(i, uvw_m, freq_hz, is_there) for a block's part of the samples i of a segment, in whole warps. */
template <class F> __device__ __forceinline__ void for_each_sample(const batch_rows &b, F f)
{
    const segment_view s = b.segments[blockIdx.x];
    const uint32_t n_chan = (uint32_t)s.n_chan, n = (uint32_t)s.n_row * n_chan;
    for (uint32_t first = blockIdx.y * blockDim.x; first < n; first += gridDim.y * blockDim.x) {
        const uint32_t i = first + threadIdx.x, row = min(i, n - 1) / n_chan, chan = min(i, n - 1) - row * n_chan;
        f(s.first_sample + i, b.uvw_m + 3 * (s.first_row + row), b.freq_hz[s.first_freq + chan], i < n);
    }
}

/* Gridding counts the samples that have a weight in any image. */
struct weighted_samples {
    static constexpr bool WRAPPED = false;
    plane_map map;

    __device__ bool operator()(const batch_rows &b, int64_t i) const
    {
        bool used = false;
#pragma unroll 1
        for (int p = 0; p < map.n_image; p++)
            used |= b.weight[(map.store_plane[p] < 0 ? 0 : map.store_plane[p]) * b.n_sample + i] > 0;
        return used;
    }
};

/* Degridding counts every sample, wherever it is in the uv plane. */
struct all_samples {
    static constexpr bool WRAPPED = true;

    __device__ bool operator()(const batch_rows &, int64_t) const
    {
        return true;
    }
};

/* Count samples by key and find their ranks; UNUSED for samples that are not counted. The first lane of a run of equal
 * keys in a warp counts for the run. Keys are not stored: computing them again is fast, and the kernel waits for
 * memory. */
template <class COUNTED>
__global__ void __launch_bounds__(256) k_count_samples(msi_wgrid_geometry g, sample_order order, COUNTED counted,
                                                       batch_rows b, uint32_t *count, uint32_t *rank)
{
    const key_maker keys(order, g);
    for_each_sample(b, [&](int64_t i, const double *uvw_m, double freq_hz, bool is_there) {
        msi_footprint f;
        double w_lambda;
        msi_locate_any(&g, uvw_m, freq_hz, COUNTED::WRAPPED, &f, &w_lambda);
        const uint32_t own = is_there && counted(b, i) ? keys.key(f) : UNUSED;
        const int lane = threadIdx.x % 32;
        const uint32_t before = __shfl_up_sync(~0u, own, 1), up_to_here = 0xffffffffu >> (31 - lane);
        const uint32_t heads = __ballot_sync(~0u, lane == 0 || own != before);
        const int head = 31 - __clz((int)(heads & up_to_here));
        const int end = heads & ~up_to_here ? __ffs((int)(heads & ~up_to_here)) - 1 : 32;
        uint32_t first = 0;
        if (lane == head && own != UNUSED) first = atomicAdd(count + own, (uint32_t)(end - lane));
        first = __shfl_sync(~0u, first, head);
        if (is_there) rank[i] = own == UNUSED ? UNUSED : first + (uint32_t)(lane - head);
    });
}

/* Numbers of samples, of runs of equal keys, and of items. */
struct key_sums {
    uint32_t n_sample, n_run, n_crowded, n_sparse;

    __host__ __device__ key_sums operator+(const key_sums &o) const
    {
        return {n_sample + o.n_sample, n_run + o.n_run, n_crowded + o.n_crowded, n_sparse + o.n_sparse};
    }
};

struct key_adder {
    __host__ __device__ key_sums operator()(const key_sums &a, const key_sums &b) const
    {
        return a + b;
    }
};

/* Compute the contribution of a key with n samples. Given: count [n_key] samples of all keys */
__device__ inline key_sums sums_of_key(const item_rule &rule, const uint32_t *count, uint32_t key, uint32_t n)
{
    if (!n) return {0, 0, 0, 0};
    bool crowded = false;
    if (rule.crowded_from != UNUSED) {
        const uint32_t first = key / rule.height * rule.height, end = first + rule.height;
        const uint32_t low = key - first < rule.reach ? first : key - rule.reach + 1;
        const uint32_t high = end - key < rule.reach ? end : key + rule.reach;
        uint32_t near = 0;
        for (uint32_t k = low; k < high && near < rule.crowded_from; k++) near += count[k];
        crowded = near >= rule.crowded_from;
    }
    return {n, 1, crowded ? (n + rule.most_crowded - 1) / rule.most_crowded : 0,
            crowded ? 0 : (n + rule.most_sparse - 1) / rule.most_sparse};
}

/* Sum the contributions of the keys of each block: sums [blocks + 1], the last element 0. */
__global__ void __launch_bounds__(COUNT_BLOCK) k_sum_counts(const uint32_t *count, item_rule rule, key_sums *sums)
{
    const uint32_t chunk = blockIdx.x * (uint32_t)COUNT_CHUNK;
    uint32_t own[KEYS_EACH], any = 0;
#pragma unroll
    for (int q = 0; q < KEYS_EACH / 4; q++) {
        const uint4 four = reinterpret_cast<const uint4 *>(count + chunk)[q * COUNT_BLOCK + threadIdx.x];
        own[4 * q] = four.x;
        own[4 * q + 1] = four.y;
        own[4 * q + 2] = four.z;
        own[4 * q + 3] = four.w;
        any |= four.x | four.y | four.z | four.w;
    }
    __shared__ key_sums all;
    if (threadIdx.x == 0) all = {0, 0, 0, 0};
    if (__syncthreads_or(any != 0)) {
        key_sums total = {0, 0, 0, 0};
#pragma unroll
        for (int k = 0; k < KEYS_EACH; k++) {
            const uint32_t key = chunk + (uint32_t)(k / 4 * COUNT_BLOCK + (int)threadIdx.x) * 4 + k % 4;
            total = total + sums_of_key(rule, count, key, own[k]);
        }
        if (any) {
            atomicAdd(&all.n_sample, total.n_sample);
            atomicAdd(&all.n_run, total.n_run);
            atomicAdd(&all.n_crowded, total.n_crowded);
            atomicAdd(&all.n_sparse, total.n_sparse);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = all;
    if (threadIdx.x == 0 && blockIdx.x == 0) sums[gridDim.x] = {0, 0, 0, 0};
}

/* Runs of equal keys, in order, and an empty one at the end. */
struct run_lists {
    uint32_t *key, *length, *start, *crowded_at, *sparse_at;
};

/* List the runs of every block's keys. Given: sums over the blocks before */
__global__ void __launch_bounds__(COUNT_BLOCK)
    k_list_runs(const uint32_t *count, item_rule rule, const key_sums *sums, run_lists runs)
{
    using scan = cub::BlockScan<key_sums, COUNT_BLOCK>;
    __shared__ typename scan::TempStorage space;
    key_sums at = sums[blockIdx.x], total = {0, 0, 0, 0}, before;
    const key_sums next = sums[blockIdx.x + 1];
    if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) {
        runs.key[next.n_run] = UNUSED;
        runs.length[next.n_run] = 0;
        runs.start[next.n_run] = next.n_sample;
        runs.crowded_at[next.n_run] = next.n_crowded;
        runs.sparse_at[next.n_run] = next.n_sparse;
    }
    if (next.n_run == at.n_run) return;
    const uint32_t first = (blockIdx.x * COUNT_BLOCK + threadIdx.x) * KEYS_EACH;
    for (uint32_t k = first; k < first + KEYS_EACH; k++) total = total + sums_of_key(rule, count, k, count[k]);
    scan(space).ExclusiveScan(total, before, key_sums{0, 0, 0, 0}, key_adder());
    if (!total.n_run) return;
    at = at + before;
    for (uint32_t k = first; k < first + KEYS_EACH; k++) {
        const uint32_t n = count[k];
        if (!n) continue;
        runs.key[at.n_run] = k;
        runs.length[at.n_run] = n;
        runs.start[at.n_run] = at.n_sample;
        runs.crowded_at[at.n_run] = at.n_crowded;
        runs.sparse_at[at.n_run] = at.n_sparse;
        at = at + sums_of_key(rule, count, k, n);
    }
}

constexpr int LANES_A_RUN = 8;

/* Divide runs into items, and replace the count of each key by its first place. */
__global__ void k_list_run_items(run_lists runs, int64_t n_run, item_rule rule, item *crowded, item *sparse,
                                 uint32_t *begin)
{
    const int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / LANES_A_RUN;
    const uint32_t lane = threadIdx.x % LANES_A_RUN;
    if (i >= n_run) return;
    const uint32_t n = runs.length[i], start = runs.start[i];
    const bool to_crowded = runs.crowded_at[i + 1] != runs.crowded_at[i];
    const uint32_t most = to_crowded ? rule.most_crowded : rule.most_sparse;
    item *out = to_crowded ? crowded + runs.crowded_at[i] : sparse + runs.sparse_at[i];
    for (uint32_t k = lane; k * most < n; k += LANES_A_RUN) out[k] = {start + k * most, min(most, n - k * most)};
    if (lane == 0) begin[runs.key[i]] = start;
}

/* Load data that are read once, with a hint that keeps written data in the cache. */
__device__ inline cplx<float> read_once(const cplx<float> *at)
{
    const float2 x = __ldcs(reinterpret_cast<const float2 *>(at));
    return {x.x, x.y};
}

__device__ inline cplx<double> read_once(const cplx<double> *at)
{
    return {__ldcs(&at->re), __ldcs(&at->im)};
}

/*
 * Store a warp's samples at their places. Two lanes store each sample, so that whole sectors of 32 bytes are written;
 * half a sector takes as long as a whole one. Lanes without a sample must call it too.
 */
template <typename SAMPLE, typename INDEX>
__device__ void store_in_pairs(SAMPLE *out, bool has, INDEX at, const SAMPLE &sample)
{
    constexpr int QUARTERS = sizeof(SAMPLE) / sizeof(uint4);
    uint4 own[QUARTERS];
    memcpy(own, &sample, sizeof sample);
    const int odd = threadIdx.x % 2;
    const INDEX other_at = __shfl_xor_sync(~0u, at, 1);
    const bool other_has = __shfl_xor_sync(~0u, (int)has, 1);
    const bool has_even = odd ? other_has : has, has_odd = odd ? has : other_has;
    uint4 *even = reinterpret_cast<uint4 *>(out + (odd ? other_at : at)) + odd;
    uint4 *next = reinterpret_cast<uint4 *>(out + (odd ? at : other_at)) + odd;
#pragma unroll
    for (int k = 0; k < QUARTERS; k += 2) {
        const uint4 kept = odd ? own[k + 1] : own[k], sent = odd ? own[k] : own[k + 1];
        const uint4 got = {__shfl_xor_sync(~0u, sent.x, 1), __shfl_xor_sync(~0u, sent.y, 1),
                           __shfl_xor_sync(~0u, sent.z, 1), __shfl_xor_sync(~0u, sent.w, 1)};
        if (has_even) even[k] = odd ? got : kept;
        if (has_odd) next[k] = odd ? kept : got;
    }
}

/* The visibilities of one sector of memory. */
template <typename T> struct alignas(32) data_sector {
    static constexpr int N = 32 / sizeof(cplx<T>);
    cplx<T> data[N];
};

/* The weights of these visibilities. */
template <typename T> struct alignas(sizeof(float) * data_sector<T>::N) weight_group {
    float of[data_sector<T>::N];
};

/* Return the distance of samples, in elements, in the data of n_image planes: whole sectors, unless the data of a
 * sample are smaller than a sector. */
template <typename T> __host__ __device__ constexpr int data_pitch(int n_image)
{
    constexpr int N = data_sector<T>::N;
    return n_image < N ? n_image : (n_image + N - 1) / N * N;
}

/* The places of a batch's samples, in order. */
template <typename T> struct sample_places {
    placed<T> *samples;
    /* [n_sample][pitch] turned visibilities of all images; NULL: one image, whose values are in the samples */
    cplx<T> *data;
    float *weight; /* [n_sample][pitch]; NULL: visibilities are weighted, and samples have the PSF's values */
    int pitch;     /* from data_pitch */
    T *x;          /* [n_sample] frequency / reference_hz - 1; NULL: not needed */
    double reference_hz;
};

/* Compute exp(-2 pi i turns). Whole turns are removed first. */
template <typename T> __device__ cplx<T> turn_back(double turns)
{
    T sine, cosine;
    sincos_turns((T)(turns - rint(turns)), &sine, &cosine);
    return {cosine, -sine};
}

template <typename T> __device__ cplx<T> product(cplx<T> a, cplx<T> b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* The raw visibilities of samples, [n_plane][n_sample], from which the gridded values are made. */
template <typename T> struct raw_samples {
    plane_map map;
    const cplx<T> *vis;
    const float *weight;
    int64_t n_sample;

    __device__ float weight_of(int image, int64_t i) const
    {
        const int plane = map.store_plane[image];
        return __ldcs(weight + (plane < 0 ? 0 : plane) * n_sample + i);
    }
    __device__ cplx<T> vis_of(int image, int64_t i) const
    {
        const int plane = map.store_plane[image];
        return plane < 0 ? cplx<T>{1, 0} : read_once(vis + plane * n_sample + i);
    }
};

template <typename T> __device__ cplx<T> weighted(float weight, cplx<T> v)
{
    return {(T)weight * v.re, (T)weight * v.im};
}

template <typename T> __device__ cplx<T> turned_sample(cplx<T> turn, cplx<T> v, int conjugate)
{
    return product(turn, cplx<T>{v.re, conjugate ? -v.im : v.im});
}

/* Store the data of all planes of a warp's samples at their places. Lanes without a sample must call it too. */
template <typename T>
__device__ void put_data(const sample_places<T> &to, const raw_samples<T> &raw, bool has, int64_t i, uint32_t at,
                         cplx<T> turn, int conjugate)
{
    constexpr int N = data_sector<T>::N;
    const int n_image = raw.map.n_image;
    float *weight = to.weight ? to.weight + (int64_t)at * to.pitch : nullptr;
    if (to.pitch % N) {
#pragma unroll 1
        for (int p = 0; has && p < n_image; p++) {
            const float of = raw.weight_of(p, i);
            to.data[(int64_t)at * to.pitch + p] =
                turned_sample(turn, weighted(weight ? 1 : of, raw.vis_of(p, i)), conjugate);
            if (weight) weight[p] = of;
        }
        return;
    }
#pragma unroll 1
    for (int first = 0; first < n_image; first += N) {
        data_sector<T> sector;
        weight_group<T> weights;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const bool is_there = has && first + k < n_image;
            weights.of[k] = is_there ? raw.weight_of(first + k, i) : 0;
            const cplx<T> v = is_there ? raw.vis_of(first + k, i) : cplx<T>{0, 0};
            sector.data[k] = turned_sample(turn, weighted(weight ? 1 : weights.of[k], v), conjugate);
        }
        store_in_pairs(reinterpret_cast<data_sector<T> *>(to.data), has, ((uint64_t)at * to.pitch + first) / N, sector);
        if (has && weight) *reinterpret_cast<weight_group<T> *>(weight + first) = weights;
    }
}

/*
 * Store samples at their places: begin[key] + rank. If only one image's data are stored, the weighted value is stored
 * with its sample. If weighted data of several images are stored, the PSF's value is stored with the sample.
 */
template <typename T>
__global__ void __launch_bounds__(256)
    k_place_samples(msi_wgrid_geometry g, sample_order order, raw_samples<T> raw, batch_rows b, const uint32_t *begin,
                    const uint32_t *rank, sample_places<T> to)
{
    const key_maker keys(order, g);
    for_each_sample(b, [&](int64_t i, const double *uvw_m, double freq_hz, bool is_there) {
        const uint32_t own = is_there ? __ldcs(rank + i) : UNUSED;
        const bool has = own != UNUSED;
        if (!__any_sync(~0u, has)) return;
        msi_footprint f;
        double w_lambda;
        const int conjugate = msi_locate(&g, uvw_m, freq_hz, &f, &w_lambda);
        const uint32_t at = has ? begin[keys.key(f)] + own : 0;
        const cplx<T> turn = turn_back<T>(w_lambda * g.n_mid);
        cplx<T> value = {0, 0};
        if (to.data) {
            put_data(to, raw, has, i, at, turn, conjugate);
            if (has && !to.weight) value = weighted(raw.weight_of(0, i), turn);
        } else if (has) {
            value = turned_sample(turn, weighted(raw.weight_of(0, i), raw.vis_of(0, i)), conjugate);
        }
        if (has && to.x) to.x[at] = (T)(freq_hz / to.reference_hz - 1);
        store_in_pairs(to.samples, has, at, placed<T>((T)f.zu, (T)f.zv, (T)f.zw, f.u0, f.v0, f.w0, value));
    });
}

/* The data of one plane, for sorted samples. */
template <typename T> struct plane_data {
    const cplx<T> *data;  /* visibilities */
    const float *weight;  /* weights */
    int64_t pitch;        /* distance of samples in data and weight, in elements */
    const cplx<T> *model; /* the model's visibilities, contiguous; NULL: nothing is subtracted */
    bool is_psf;          /* visibilities are 1, turned by the footprint's w */
    const T *x;           /* weights are multiplied by x^power; NULL: they are not */
    int power;
};

/* Compute the values of n sorted samples: weight times (visibility - model). */
template <typename T>
__global__ void __launch_bounds__(256)
    k_make_values(msi_wgrid_geometry g, int64_t n, plane_data<T> plane, placed<T> *samples)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T wt = (T)plane.weight[i * plane.pitch];
    if (plane.x) {
        const T x = plane.x[i];
        for (int k = 0; k < plane.power; k++) wt *= x;
    }
    cplx<T> v;
    if (plane.is_psf) {
        const record<T> &r = samples[i].at;
        const double w = g.w_first + g.w_step * (r.w0 + 0.5 * (g.w_width - 1 - (double)r.zw));
        v = turn_back<T>(w * g.n_mid);
    } else {
        v = plane.data[i * plane.pitch];
        if (plane.model) {
            const cplx<T> m = read_once(plane.model + i);
            v = {v.re - m.re, v.im - m.im};
        }
    }
    samples[i].value = {wt * v.re, wt * v.im};
}

/* Add a term of a polynomial to the sum of the higher ones: sum = sum x + term. */
template <typename T>
__global__ void __launch_bounds__(256) k_add_term(int64_t n, const T *x, const cplx<T> *term, cplx<T> *sum)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const cplx<T> s = sum[i], t = read_once(term + i);
    sum[i] = {s.re * x[i] + t.re, s.im * x[i] + t.im};
}

/* Store the samples of degridding at their places: begin[key] + rank. */
template <typename T>
__global__ void __launch_bounds__(256) k_place_wanted(msi_wgrid_geometry g, sample_order order, batch_rows b,
                                                      const uint32_t *begin, const uint32_t *rank, wanted<T> *out)
{
    const key_maker keys(order, g);
    for_each_sample(b, [&](int64_t i, const double *uvw_m, double freq_hz, bool is_there) {
        const uint32_t own = is_there ? __ldcs(rank + i) : UNUSED;
        const bool has = own != UNUSED;
        if (!__any_sync(~0u, has)) return;
        msi_footprint f;
        double w_lambda;
        const int conjugate = msi_locate_wrapped(&g, uvw_m, freq_hz, &f, &w_lambda);
        const double turns = w_lambda * g.n_mid;
        const destination<T> to((uint32_t)i, turns - rint(turns), conjugate);
        store_in_pairs(out, has, has ? begin[keys.key(f)] + own : 0, wanted<T>(f, to));
    });
}

/* ---- Sorted batches ---------------------------------------------------------------------------------------------- */

inline int64_t counter_bytes(const sample_order &o)
{
    return (o.n_key() + COUNT_CHUNK) * (int64_t)sizeof(uint32_t);
}

/* most_counted - limit the memory of a device's counters to an eighth of its memory and half of its free memory.
 * Returned: *bytes. Returns: 0, MSI_EGPU */
inline int most_counted(int device, int64_t *bytes)
{
    size_t free_bytes, total_bytes;
    MSI_TRY(msi_gpu_memory(device, &free_bytes, &total_bytes));
    *bytes = std::max<int64_t>((int64_t)std::min(total_bytes / 8, free_bytes / 2), 1 << 24);
    return MSI_OK;
}

/* can_count - return whether an order's keys can be counted. Counters are summed in chunks, which must end before keys
 * overflow. */
inline bool can_count(const sample_order &o, int64_t most_bytes)
{
    return o.n_key() < (int64_t)UNUSED - COUNT_CHUNK && counter_bytes(o) <= most_bytes;
}

/* order_for_rings - set the order of whole planes: in small tiles, unless these have too many keys. Returns: 0,
 * MSI_EGPU */
template <typename T> int order_for_rings(sample_order *out, const msi_wgrid_plan &plan)
{
    const tile_shape tile = ring_tile<T>(plan.grid.width);
    int64_t most;
    MSI_TRY(most_counted(plan.device, &most));
    sample_order o = order_by_tile(plan.grid, tile);
    for (int edge = TILE; !can_count(o, most); edge *= 2) o = order_by_tile(plan.grid, {edge, edge});
    *out = o;
    return MSI_OK;
}

/* order_for_rings - set the order of towers. `large` has the same cores, in tiles of the plan's size. The order has as
 * many towers as can be counted together. Returns: 0, MSI_EGPU */
template <typename T> int order_for_rings(sample_order *out, const msi_wgrid_plan &plan, const sample_order &large)
{
    const tile_shape tile = ring_tile<T>(plan.grid.width);
    const int32_t n_tower = large.end_tower;
    int64_t most;
    MSI_TRY(most_counted(plan.device, &most));
    sample_order o = large;
    o.tile = tile;
    o.end_tower = 1;
    if (!can_count(o, most)) o = large;
    for (o.end_tower = n_tower; o.end_tower > 1 && !can_count(o, most);) o.end_tower--;
    *out = o;
    return MSI_OK;
}

/* Data that are stored with the sorted samples of several images. VALUES: the values to be gridded, except those of the
 * PSF, which are in the samples. VISIBILITIES: visibilities and weights, from which make_values computes the values of
 * an image. */
enum class parts { NONE, VALUES, VISIBILITIES };

template <typename T> class placed_batches : public sample_batches<T> {
  public:
    using base = sample_batches<T>;
    using base::d_items;
    using base::d_rank;
    using base::d_records;
    using base::d_runs;
    using base::d_value;
    using base::d_work;
    using base::g;
    using base::n_crowded;
    using base::n_sparse;
    using base::now;
    using base::on;
    using base::order;
    using base::times;

    explicit placed_batches(const msi_wgrid_plan *plan) : base(plan) {}
    placed_batches(const msi_wgrid_plan *plan, const sample_order &o) : base(plan, o) {}

    int64_t n_placed = 0; /* samples that have a place */
    double reference_hz =
        0; /* reference frequency of polynomials in frequency, whose x is stored with the samples; 0: none */

    /* Return the bytes of a sample in a batch of n_plane planes that stores these parts, without counters and x. */
    static int64_t sample_bytes(int n_plane, parts kept)
    {
        const size_t pitch = kept == parts::NONE ? 0 : (size_t)data_pitch<T>(n_plane), n = (size_t)n_plane;
        return (int64_t)((n + (kept == parts::VISIBILITIES ? pitch : 0)) * sizeof(float) +
                         (n + pitch) * sizeof(cplx<T>) + sizeof(placed<T>) + 6 * sizeof(uint32_t) + sizeof(item) +
                         3 * sizeof(double));
    }

    /* job - describe the batch and the grid for a gridding kernel. */
    grid_job<T> job(cplx<T> *grid) const
    {
        grid_job<T> j = {};
        j.taps = as<tap_table<T>>(base::d_taps);
        j.host_taps = &this->taps;
        j.samples = as<placed<T>>(d_records);
        j.value = gridded < 0 ? reinterpret_cast<const cplx<T> *>(j.samples) + OWN_PITCH<T> - 1
                              : as<cplx<T>>(d_value) + gridded;
        j.value_pitch = gridded < 0 ? OWN_PITCH<T> : pitch;
        j.grid = grid;
        j.is_coarse = base::plan->error_estimate >= COARSE_ERROR;
        return j;
    }

    /* grid_values - grid the values of a plane in the next jobs; -1: the values in the samples. */
    void grid_values(int plane)
    {
        gridded = plane;
    }

    /* degrid_call - describe a call that degrids from the planes of a model's image to value [n_placed], in order. */
    msi_wgrid_degrid_call degrid_call(const cplx<T> *cells, cplx<T> *value, bool adds) const
    {
        const item_range crowded = base::crowded(), sparse = base::sparse();
        return {base::plan, base::d_taps.get(), &this->taps, d_records.get(), crowded.first, sparse.first,
                crowded.n,  sparse.n,           cells,       value,           adds,          on.get()};
    }

    /*
     * place_batch - sort the batch's samples that have a weight in one of map's images, and list their items.
     * Given: kept  data to store with the samples; NONE: there is one image, whose values are in the samples
     */
    int place_batch(const plane_map &map, parts kept)
    {
        const bool has_data = kept != parts::NONE, has_weights = kept == parts::VISIBILITIES;
        const stage_timer stage("sort", &times->sort_s);
        const int64_t count = now.n_sample;
        pitch = data_pitch<T>(map.n_image);
        if (has_data) MSI_TRY(d_value.fit(pitch * count * (int64_t)sizeof(cplx<T>), "visibilities"));
        if (has_weights) MSI_TRY(d_kept_weight.fit(pitch * count * (int64_t)sizeof(float), "weights"));
        if (reference_hz > 0) MSI_TRY(d_x.fit(count * (int64_t)sizeof(T), "frequencies"));
        MSI_TRY(count_batch(weighted_samples{map}));
        const sample_places<T> to = {as<placed<T>>(d_records),
                                     has_data ? as<cplx<T>>(d_value) : nullptr,
                                     has_weights ? as<float>(d_kept_weight) : nullptr,
                                     pitch,
                                     reference_hz > 0 ? as<T>(d_x) : nullptr,
                                     reference_hz};
        const raw_samples<T> raw = {map, as<cplx<T>>(base::d_raw), as<float>(base::d_weight), count};
        k_place_samples<T><<<base::segment_blocks(), 256, 0, on.get()>>>(g, order, raw, rows(), as<uint32_t>(d_count),
                                                                         as<uint32_t>(d_rank), to);
        MSI_CUDA(cudaGetLastError());
        return on.wait();
    }

    /* make_values - compute the values of the samples for a plane whose visibilities are stored, minus model [n_placed]
     * unless it is NULL; plane -1: the PSF of plane 0. Weights are multiplied by x^power. */
    int make_values(int plane, const cplx<T> *model, int power)
    {
        const int of = std::max(plane, 0);
        const plane_data<T> from = {as<cplx<T>>(d_value) + of,
                                    as<float>(d_kept_weight) + of,
                                    pitch,
                                    model,
                                    plane < 0,
                                    power ? as<T>(d_x) : nullptr,
                                    power};
        k_make_values<T>
            <<<(unsigned)((n_placed + 255) / 256), 256, 0, on.get()>>>(g, n_placed, from, as<placed<T>>(d_records));
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }

    /* add_term - sum = sum x + term, [n_placed] each. */
    int add_term(const cplx<T> *term, cplx<T> *sum)
    {
        k_add_term<T><<<(unsigned)((n_placed + 255) / 256), 256, 0, on.get()>>>(n_placed, as<T>(d_x), term, sum);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }

    /* free_upload - free the unsorted data. No other batch or order may follow. */
    void free_upload()
    {
        buffer *const all[] = {&this->d_segments, &this->d_freq, &this->d_uvw, &this->d_weight,
                               &this->d_raw,      &d_rank,       &d_count,     &d_sums};
        for (buffer *b : all) b->release();
    }

    /* place_wanted - sort all samples of the batch for degridding, and list their items. */
    int place_wanted()
    {
        const stage_timer stage("sort", &times->sort_s);
        MSI_TRY(count_batch(all_samples{}));
        k_place_wanted<T><<<base::segment_blocks(), 256, 0, on.get()>>>(g, order, rows(), as<uint32_t>(d_count),
                                                                        as<uint32_t>(d_rank), as<wanted<T>>(d_records));
        MSI_CUDA(cudaGetLastError());
        return on.wait();
    }

  private:
    buffer d_count, d_sums, d_kept_weight, d_x;
    int pitch = 1;    /* row pitch of the stored data */
    int gridded = -1; /* plane of grid_values */

    item_rule rule() const
    {
        const tile_shape tile = ring_tile<T>(g.width);
        const bool rings = order.tile.u == tile.u && order.tile.v == tile.v;
        item_rule r = {};
        r.height = (uint32_t)order.height;
        r.reach = (uint32_t)(g.w_width + 1) / 2;
        r.crowded_from = rings ? base::least_crowded : UNUSED;
        r.most_crowded = rings ? (uint32_t)ring_group<T>(g.width) : 1;
        r.most_sparse = rings ? MOST_SPARSE : 32;
        return r;
    }

    batch_rows rows() const
    {
        return {as<segment_view>(base::d_segments), as<double>(base::d_freq), as<double>(base::d_uvw),
                as<float>(base::d_weight), now.n_sample};
    }

    /* Compute the ranks of the batch's samples, the first places of keys, and the items. Allocate memory for the
     * samples. */
    template <class COUNTED> int count_batch(const COUNTED &counted)
    {
        const int64_t count = now.n_sample, chunks = (order.n_key() + COUNT_CHUNK - 1) / COUNT_CHUNK;
        MSI_TRY(d_records.fit(count * (int64_t)sizeof(placed<T>), "samples"));
        MSI_TRY(d_rank.fit(count * (int64_t)sizeof(uint32_t), "ranks"));
        MSI_TRY(d_count.fit(chunks * COUNT_CHUNK * (int64_t)sizeof(uint32_t), "counts by tile and w"));
        uint32_t *counts = as<uint32_t>(d_count);
        MSI_TRY(on.clear(counts, chunks * COUNT_CHUNK));
        k_count_samples<<<base::segment_blocks(), 256, 0, on.get()>>>(g, order, counted, rows(), counts,
                                                                      as<uint32_t>(d_rank));
        MSI_CUDA(cudaGetLastError());
        return list_counted((unsigned)chunks);
    }

    /* List the runs and items of the counted samples, and replace the counts by the first places of keys. */
    int list_counted(unsigned chunks)
    {
        const item_rule cut = rule();
        uint32_t *count = as<uint32_t>(d_count);
        size_t bytes = 0;
        MSI_TRY(d_sums.fit((chunks + 1) * (int64_t)sizeof(key_sums), "sums of counts"));
        key_sums *sums = as<key_sums>(d_sums), all;
        k_sum_counts<<<chunks, COUNT_BLOCK, 0, on.get()>>>(count, cut, sums);
        MSI_CUDA(cudaGetLastError());
        const auto scan = [&](void *work) {
            return cub::DeviceScan::ExclusiveScan(work, bytes, sums, sums, key_adder(), key_sums{}, chunks + 1,
                                                  on.get());
        };
        MSI_CUDA(scan(nullptr));
        MSI_TRY(d_work.fit((int64_t)bytes + 8, "sorting"));
        MSI_CUDA(scan(as<void>(d_work)));
        MSI_TRY(on.download(&all, sums + chunks, 1));
        const int64_t n_run = (int64_t)all.n_run + 1;
        MSI_TRY(d_runs.fit(5 * n_run * (int64_t)sizeof(uint32_t), "sorted runs"));
        n_placed = all.n_sample;
        n_crowded = all.n_crowded;
        n_sparse = all.n_sparse;
        MSI_TRY(d_items.fit((n_crowded + n_sparse) * (int64_t)sizeof(item), "items"));
        uint32_t *at = as<uint32_t>(d_runs);
        const run_lists lists = {at, at + n_run, at + 2 * n_run, at + 3 * n_run, at + 4 * n_run};
        k_list_runs<<<chunks, COUNT_BLOCK, 0, on.get()>>>(count, cut, sums, lists);
        MSI_CUDA(cudaGetLastError());
        if (all.n_run)
            k_list_run_items<<<(unsigned)(((int64_t)all.n_run * LANES_A_RUN + 255) / 256), 256, 0, on.get()>>>(
                lists, all.n_run, cut, as<item>(d_items), as<item>(d_items) + n_crowded, count);
        MSI_CUDA(cudaGetLastError());
        base::runs = {lists.key, lists.crowded_at, lists.sparse_at, n_run};
        return MSI_OK;
    }
};

} // namespace

#endif
