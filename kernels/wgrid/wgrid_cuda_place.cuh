/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Samples of a batch put in order for gridding. They are counted by key, one counter to every key that there may be;
 * what a counter held when a sample was counted is the sample's rank among those of its key. Sums over the counters of
 * the keys before are where a key's samples begin, and then every sample goes to its place in one step, with its
 * coordinates and value, so that gridding reads them one after the other. Samples of one key come in any order.
 */
#ifndef MSI_KERNELS_WGRID_CUDA_PLACE_CUH
#define MSI_KERNELS_WGRID_CUDA_PLACE_CUH

#include <cub/block/block_scan.cuh>

#include "kernels/wgrid/wgrid_cuda_kernels.cuh"

namespace {

constexpr int COUNT_BLOCK = 256, KEYS_EACH = 16; /* keys of a thread where counters are summed */
constexpr int COUNT_CHUNK = COUNT_BLOCK * KEYS_EACH;

/* Rows of a batch's segments, as kernels visit them. */
struct batch_rows {
    const segment_view *segments;
    const double *freq_hz, *uvw_m;
    const float *weight; /* [n_plane][n_sample] */
    int64_t n_sample;
};

/* Call f(i, uvw_m, freq_hz, is_there) for a block's part of the samples i of a segment: whole warps. */
template <class F> __device__ __forceinline__ void for_each_sample(const batch_rows &b, F f)
{
    const segment_view s = b.segments[blockIdx.x];
    const uint32_t n_chan = (uint32_t)s.n_chan, n = (uint32_t)s.n_row * n_chan;
    for (uint32_t first = blockIdx.y * blockDim.x; first < n; first += gridDim.y * blockDim.x) {
        const uint32_t i = first + threadIdx.x, row = min(i, n - 1) / n_chan, chan = min(i, n - 1) - row * n_chan;
        f(s.first_sample + i, b.uvw_m + 3 * (s.first_row + row), b.freq_hz[s.first_freq + chan], i < n);
    }
}

/* Gridding counts the samples that have a weight in some image. */
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

/* Degridding counts every sample, wherever in the uv plane it lies. */
struct all_samples {
    static constexpr bool WRAPPED = true;

    __device__ bool operator()(const batch_rows &, int64_t) const
    {
        return true;
    }
};

/* Count samples by key, and make their ranks among those of a key, UNUSED of those that do not count. Of a run of equal
 * keys in a warp the first lane counts. Keys are not kept: they are soon made again, and memory is what is waited
 * for. */
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

/* Count what a key of n samples adds. Given: count [n_key] samples of all keys */
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

/* Sum up each block's keys: sums [blocks + 1], the last of them 0. */
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

/* Runs of equal keys, in order; one more of none. */
struct run_lists {
    uint32_t *key, *length, *start, *crowded_at, *sparse_at;
};

/* List the runs of every block's keys. Given: sums of the blocks before */
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

/* Cut runs into items; a key's count becomes the place where its samples begin. */
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

/* Load what is read once, so that the cache keeps what is written. */
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
 * Store a warp's samples in their places, two lanes to one at a time: memory takes as long for half a sector of 32
 * bytes as for a whole one. Lanes without a sample take part.
 */
template <typename SAMPLE, typename INDEX> __device__ void put(SAMPLE *out, bool has, INDEX at, const SAMPLE &sample)
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

/* Visibilities of a sector of memory. */
template <typename T> struct alignas(32) data_sector {
    static constexpr int N = 32 / sizeof(cplx<T>);
    cplx<T> data[N];
};

/* Their weights. */
template <typename T> struct alignas(sizeof(float) * data_sector<T>::N) weight_group {
    float of[data_sector<T>::N];
};

/* Count the elements from sample to sample of the data of n_image planes: whole sectors, unless they fill none. */
template <typename T> __host__ __device__ constexpr int data_pitch(int n_image)
{
    constexpr int N = data_sector<T>::N;
    return n_image < N ? n_image : (n_image + N - 1) / N * N;
}

/* Tells where samples of a batch go, in order. */
template <typename T> struct sample_places {
    placed<T> *samples;
    /* [n_sample][pitch] turned visibilities of all images; NULL: there is one image, whose values samples have */
    cplx<T> *data;
    float *weight; /* [n_sample][pitch] of visibilities; NULL: they are weighted, and samples have the PSF's values */
    int pitch;     /* data_pitch */
};

/* Compute exp(-2 pi i turns) for whole and broken turns alike. */
template <typename T> __device__ cplx<T> turn_back(double turns)
{
    T sine, cosine;
    sincos_turns((T)(turns - rint(turns)), &sine, &cosine);
    return {cosine, -sine};
}

template <typename T> __device__ cplx<T> times(cplx<T> a, cplx<T> b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* Make of a sample's raw [n_plane][n_sample] visibilities those gridded: conjugated where w < 0, and turned. */
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
    return times(turn, cplx<T>{v.re, conjugate ? -v.im : v.im});
}

/* Put the data of all planes of a warp's samples in place. Lanes without a sample take part. */
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
        put(reinterpret_cast<data_sector<T> *>(to.data), has, ((uint64_t)at * to.pitch + first) / N, sector);
        if (has && weight) *reinterpret_cast<weight_group<T> *>(weight + first) = weights;
    }
}

/*
 * Put samples in their places, the rank-th after begin[key]. Without room for the data of several images, that of the
 * only one is weighted and goes with its sample; where the others' are weighted too, the PSF's does.
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
        put(to.samples, has, at, placed<T>((T)f.zu, (T)f.zv, (T)f.zw, f.u0, f.v0, f.w0, value));
    });
}

/* Holds what samples in order have of one plane. */
template <typename T> struct plane_data {
    const cplx<T> *data;  /* visibilities, */
    const float *weight;  /* and weights, */
    int64_t pitch;        /* so many elements from sample to sample of both */
    const cplx<T> *model; /* what a model predicts, one after the other; NULL: nothing is subtracted */
    bool is_psf;          /* visibilities are 1, turned by the w that the footprint tells */
};

/* Make the values of n samples in order: weights times visibilities less what a model predicts. */
template <typename T>
__global__ void __launch_bounds__(256)
    k_make_values(msi_wgrid_geometry g, int64_t n, plane_data<T> plane, placed<T> *samples)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const T wt = (T)plane.weight[i * plane.pitch];
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

/* Put samples of degridding in their places, the rank-th after begin[key]. */
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
        put(out, has, has ? begin[keys.key(f)] + own : 0, wanted<T>(f, to));
    });
}

} // namespace

#endif
