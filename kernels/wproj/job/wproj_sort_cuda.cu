/* SPDX-License-Identifier: GPL-3.0-or-later */
/* CUDA kernels that list, merge and sort samples. A comment before the host code describes the algorithm. */
#include "kernels/wproj/job/wproj_sort_cuda.h"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <vector>

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/gpu/gpu_range.h"
#include "kernels/wproj/job/wproj_locate.cuh"

namespace wproj_sort {

using namespace wproj_locate;

constexpr int BLOCK = 256, BUFFER = 1024, PARTS = 8;
constexpr int MERGED = 32; /* most entries that are merged */

struct bin_view {
    msi_wproj_bins bins;
    const uint8_t *class_of_plane;
};

__device__ inline uint32_t bin_of(const bin_view &b, msi_wproj_head h)
{
    int c = b.class_of_plane[msi_wproj_head_plane(h.kernel)];
    uint32_t first = (uint32_t)b.bins.first[c], n_u = (uint32_t)b.bins.n_bin_u[c], n_v = (uint32_t)b.bins.n_bin_v[c];
    if (msi_wproj_head_conjugate(h.kernel)) first += n_u * n_v;
    int shift = b.bins.shift[c];
    return first + (uint32_t)(msi_wproj_head_v(h.cell) >> shift) * n_u + (uint32_t)(msi_wproj_head_u(h.cell) >> shift);
}

/* Set *bits to the bits of the largest x of a block, if they are larger. All threads of the block must call this. */
__device__ inline void raise_largest(float x, uint32_t *bits)
{
    __shared__ uint32_t of_block;
    if (threadIdx.x == 0) of_block = 0;
    __syncthreads();
    uint32_t of_warp = __reduce_max_sync(~0u, __float_as_uint(x));
    if (threadIdx.x % 32 == 0) atomicMax(&of_block, of_warp);
    __syncthreads();
    if (threadIdx.x == 0 && of_block > *bits) atomicMax(bits, of_block);
    __syncthreads();
}

struct list_view {
    msi_wproj_head *head;
    void *value;
    void *frac;
    int64_t stride;
};

/* List a regular array's samples. A thread follows one series through a run of times, and merges neighbours with the
 * same cell and kernel. */
static __global__ __launch_bounds__(BLOCK) void k_locate_merge(msi_wproj_samples_f32 s, int run, bin_view b,
                                                               list_view list, uint32_t *key, uint32_t *index,
                                                               uint32_t *counter)
{
    __shared__ record<float> buffer[BUFFER + BLOCK];
    __shared__ uint32_t fill, base;
    const int64_t series = (int64_t)blockIdx.x * BLOCK + threadIdx.x, first = (int64_t)blockIdx.y * run;
    const int64_t n_step = min((int64_t)run, s.n_time - first);
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) fill = 0;
    __syncthreads();
    record<float> held = {};
    bool holds = false;
    uint32_t filled = 0; /* number of entries in the block's buffer, in every thread */
    for (int64_t step = 0; step <= n_step; step++) {
        bool there = step < n_step && series < s.n_series;
        record<float> next = {};
        if (there) next = locate_f32<float>(s, series * s.series_step + (first + step) * s.time_step);
        bool same = there && holds && next.head.cell == held.head.cell && next.head.kernel == held.head.kernel;
        bool out = holds && !same;
        unsigned votes = __ballot_sync(~0u, out);
        uint32_t at = 0;
        if (lane == 0 && votes) at = atomicAdd(&fill, (uint32_t)__popc(votes));
        at = __shfl_sync(~0u, at, 0) + (uint32_t)__popc(votes & ((1u << lane) - 1));
        if (out) buffer[at] = held;
        if (same) {
            held.value.re += next.value.re;
            held.value.im += next.value.im;
        } else {
            held = next;
            holds = there;
        }
        filled += (uint32_t)__syncthreads_count(out);
        if (filled > BUFFER || step == n_step) {
            if (threadIdx.x == 0) {
                base = atomicAdd(counter, filled);
                fill = 0;
            }
            __syncthreads();
            for (uint32_t k = threadIdx.x; k < filled; k += BLOCK) {
                record<float> r = buffer[k];
                list.head[base + k] = r.head;
                static_cast<cplx<float> *>(list.value)[base + k] = r.value;
                key[base + k] = bin_of(b, r.head);
                index[base + k] = base + k;
            }
            __syncthreads();
            filled = 0;
        }
    }
}

/* List a regular array's samples without merging. */
template <typename T>
__global__ __launch_bounds__(BLOCK) void k_locate_f32(msi_wproj_samples_f32 s, bin_view b, list_view list,
                                                      uint32_t *key, uint32_t *index)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= s.n_series * s.n_time) return;
    record<T> r = locate_f32<T>(s, i);
    list.head[i] = r.head;
    static_cast<cplx<T> *>(list.value)[i] = r.value;
    key[i] = bin_of(b, r.head);
    index[i] = (uint32_t)i;
}

/* A view of a store's samples and of the parameters that locate them. */
struct store_view {
    msi_wproj_geometry geometry;
    msi_wproj_samples samples;
    int32_t slice, origin_u, origin_v;
};

/* Return the slice of sample i of rows r; -1 if it has no weight. */
__device__ inline int32_t slice_of(const store_view &s, const msi_store_rows &r, int64_t i)
{
    if (!has_weight(s.samples, r.first_sample + i)) return -1;
    const double w_m = s.samples.uvw_m[3 * (r.first_row + i / r.n_chan) + 2];
    const double freq = s.samples.freq_hz[r.first_freq + i % r.n_chan];
    return msi_wproj_slice(&s.geometry, fabs(w_m * freq * s.geometry.w_lambda_per_m_hz));
}

__device__ inline void locate_store(const store_view &s, const msi_store_rows &r, int64_t i, int32_t slice,
                                    msi_wproj_place *p)
{
    msi_wproj_locate_in(&s.geometry, s.samples.uvw_m + 3 * (r.first_row + i / r.n_chan),
                        s.samples.freq_hz[r.first_freq + i % r.n_chan], s.samples.wrapped, slice, p);
}

/* List a store's samples of one slice. A block has index (rows, part). */
template <typename T>
__global__ __launch_bounds__(BLOCK) void k_locate(store_view s, bin_view b, list_view list, uint32_t *key,
                                                  uint32_t *index, uint32_t *counter)
{
    const msi_store_rows r = s.samples.rows[blockIdx.x];
    const int64_t n = (int64_t)r.n_row * r.n_chan;
    const int32_t middle = s.geometry.oversample / 2;
    for (int64_t first = (int64_t)blockIdx.y * BLOCK; first < n; first += (int64_t)PARTS * BLOCK) {
        const int64_t i = first + threadIdx.x;
        msi_wproj_place p;
        const bool used = i < n && slice_of(s, r, i) == s.slice;
        const uint32_t at = claim<BLOCK>(used, counter);
        if (!used) continue;
        locate_store(s, r, i, s.slice, &p);
        msi_wproj_head h = {msi_wproj_pack_cell(p.u - s.origin_u, p.v - s.origin_v),
                            msi_wproj_pack_kernel(p.plane, list.frac ? 0 : p.sub_u + middle,
                                                  list.frac ? 0 : p.sub_v + middle, p.conjugate_kernel)};
        list.head[at] = h;
        for (int image = 0; image < s.samples.n_image; image++)
            static_cast<cplx<T> *>(list.value)[image * list.stride + at] =
                store_value<T>(s.samples, image, r.first_sample + i, p);
        if (list.frac)
            static_cast<cplx<T> *>(list.frac)[at] = {(T)(p.sub_u + middle + p.frac_u),
                                                     (T)(p.sub_v + middle + p.frac_v)};
        key[at] = bin_of(b, h);
        index[at] = at;
    }
}

/* The extent of the samples that a thread or a warp has processed, all of one slice. slice -1: there are none. */
struct covered {
    int32_t slice, u_low, v_low, u_high, v_high;
    unsigned n;
};

/* Enlarge a slice's extent. */
__device__ inline void enlarge_extent(const covered &c, msi_wproj_box_extent *extent)
{
    if (c.slice < 0) return;
    msi_wproj_box_extent *e = extent + c.slice;
    /* The value may be outdated. The only consequence is an unnecessary atomic operation. */
    if (c.u_low < *(volatile int32_t *)&e->u_low) atomicMin(&e->u_low, c.u_low);
    if (c.v_low < *(volatile int32_t *)&e->v_low) atomicMin(&e->v_low, c.v_low);
    if (c.u_high > *(volatile int32_t *)&e->u_high) atomicMax(&e->u_high, c.u_high);
    if (c.v_high > *(volatile int32_t *)&e->v_high) atomicMax(&e->v_high, c.v_high);
    atomicAdd((unsigned long long *)&e->n, (unsigned long long)c.n);
}

/* Enlarge extent [n_slice] by all samples. A thread adds its extent when the slice changes. Threads of a warp that end
 * in the same slice combine their extents first. */
static __global__ __launch_bounds__(BLOCK) void k_extents(store_view s, const int32_t *half,
                                                          msi_wproj_box_extent *extent)
{
    const msi_store_rows r = s.samples.rows[blockIdx.x];
    const int64_t n = (int64_t)r.n_row * r.n_chan;
    const covered none = {-1, INT32_MAX, INT32_MAX, INT32_MIN, INT32_MIN, 0};
    covered c = none;
    for (int64_t i = (int64_t)blockIdx.y * BLOCK + threadIdx.x; i < n; i += (int64_t)PARTS * BLOCK) {
        msi_wproj_place p;
        const int32_t slice = slice_of(s, r, i);
        if (slice < 0) continue;
        locate_store(s, r, i, slice, &p);
        if (slice != c.slice) {
            enlarge_extent(c, extent);
            c = none;
            c.slice = slice;
        }
        const int32_t h = half[p.plane];
        c.u_low = min(c.u_low, p.u - h);
        c.v_low = min(c.v_low, p.v - h);
        c.u_high = max(c.u_high, p.u + h);
        c.v_high = max(c.v_high, p.v + h);
        c.n++;
    }
    const int32_t highest = __reduce_max_sync(~0u, c.slice);
    if (!__all_sync(~0u, c.slice == highest || c.slice < 0)) {
        enlarge_extent(c, extent);
        return;
    }
    c = {highest,
         __reduce_min_sync(~0u, c.u_low),
         __reduce_min_sync(~0u, c.v_low),
         __reduce_max_sync(~0u, c.u_high),
         __reduce_max_sync(~0u, c.v_high),
         __reduce_add_sync(~0u, c.n)};
    if (threadIdx.x % 32 == 0) enlarge_extent(c, extent);
}

__device__ inline float size_of(cplx<float> x)
{
    return fmaxf(fabsf(x.re), fabsf(x.im));
}

__device__ inline float size_of(cplx<double> x)
{
    return (float)fmax(fabs(x.re), fabs(x.im));
}

/* The arguments of kernels that copy n entries of the list, by index, to the sorted list. */
struct reordering {
    list_view list, sorted;
    const uint32_t *index;
    uint32_t n;
    int n_image;
    uint32_t *bin_end, *largest; /* largest [n_image]: bits of the largest value */
};

/* Copy the entries in the order of the sorted keys, and store the end of each bin. */
template <typename T> __global__ __launch_bounds__(BLOCK) void k_gather(reordering o, const uint32_t *key)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    uint32_t from = 0;
    if (i < o.n) {
        uint32_t bin = key[i];
        if (i + 1 == o.n || key[i + 1] != bin) o.bin_end[bin] = i + 1;
        from = o.index[i];
        o.sorted.head[i] = o.list.head[from];
        if (o.list.frac) static_cast<cplx<T> *>(o.sorted.frac)[i] = static_cast<const cplx<T> *>(o.list.frac)[from];
    }
    for (int image = 0; image < o.n_image; image++) {
        float size = 0;
        if (i < o.n) {
            cplx<T> x = static_cast<const cplx<T> *>(o.list.value)[image * o.list.stride + from];
            static_cast<cplx<T> *>(o.sorted.value)[image * o.sorted.stride + i] = x;
            size = size_of(x);
        }
        raise_largest(size, o.largest + image);
    }
}

/* Layout of a key: bin, kernel and cell in 64 bits. */
struct key_shape {
    int plane_bits, sub_bits, cell_bits; /* sub, cell: along one axis */
    __host__ __device__ int below_bin() const
    {
        return plane_bits + 2 * sub_bits + 2 * cell_bits;
    }
};

/* Make keys of bin, kernel and cell. */
static __global__ void k_kernel_keys(const msi_wproj_head *head, const uint32_t *bin, uint32_t n, key_shape k,
                                     uint64_t *key, uint32_t *index)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const msi_wproj_head h = head[i];
    const uint32_t within = (1u << k.cell_bits) - 1;
    uint64_t x = bin[i];
    x = x << k.plane_bits | (uint32_t)msi_wproj_head_plane(h.kernel);
    x = x << k.sub_bits | (uint32_t)msi_wproj_head_sub_u(h.kernel);
    x = x << k.sub_bits | (uint32_t)msi_wproj_head_sub_v(h.kernel);
    x = x << k.cell_bits | ((uint32_t)msi_wproj_head_v(h.cell) & within);
    key[i] = x << k.cell_bits | ((uint32_t)msi_wproj_head_u(h.cell) & within);
    index[i] = i;
}

/* Mark the entries that begin a run of equal entries. Long runs are divided. */
static __global__ void k_mark(const uint64_t *key, uint32_t n, int apart, uint32_t *begins)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) begins[i] = apart || i % MERGED == 0 || key[i] != key[i - 1];
}

/* Merge each run into one entry. rank[i] is the number of runs that begin at or before entry i. */
template <typename T>
__global__ __launch_bounds__(BLOCK) void k_merge(reordering o, const uint64_t *key, const uint32_t *rank, int below_bin)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    uint32_t end = i, to = 0;
    if (i < o.n) {
        const uint32_t own = rank[i];
        to = own - 1;
        if (i + 1 == o.n || key[i + 1] >> below_bin != key[i] >> below_bin)
            o.bin_end[(uint32_t)(key[i] >> below_bin)] = own;
        if (i == 0 || rank[i - 1] != own) {
            for (end = i + 1; end < o.n && rank[end] == own;) end++;
            o.sorted.head[to] = o.list.head[o.index[i]];
            if (o.list.frac)
                static_cast<cplx<T> *>(o.sorted.frac)[to] = static_cast<const cplx<T> *>(o.list.frac)[o.index[i]];
        }
    }
    for (int image = 0; image < o.n_image; image++) {
        const cplx<T> *value = static_cast<const cplx<T> *>(o.list.value) + image * o.list.stride;
        cplx<T> sum = {0, 0};
        for (uint32_t k = i; k < end; k++) {
            cplx<T> x = value[o.index[k]];
            sum.re += x.re;
            sum.im += x.im;
        }
        if (end > i) static_cast<cplx<T> *>(o.sorted.value)[image * o.sorted.stride + to] = sum;
        raise_largest(size_of(sum), o.largest + image);
    }
}

} // namespace wproj_sort

/*
 * Samples can be merged in two ways. Both are exact for tabulated kernels, because samples of one cell, sub-cell and
 * plane differ only in their values. In a regular array, a thread follows one baseline through a run of times and
 * merges samples in a register; a warp then reads neighbouring baselines of one time. Samples in any other order are
 * sorted by bin, kernel and cell. Equal samples become neighbours, and the first of a run gets the sum. Samples with
 * the same kernel are then close together, which helps the caches.
 *
 * A block reserves places in the list by one atomic addition to a global counter. CUB's radix sort orders pairs of key
 * and place in the list. One more pass copies heads and values, and stores the end of each bin.
 */

using namespace wproj_sort;

namespace {

constexpr int MAX_BIN_ROWS = 32, WIDEST_TILE = 16, MAX_BIN_BITS = 24;

struct larger {
    __device__ uint32_t operator()(uint32_t a, uint32_t b) const
    {
        return max(a, b);
    }
};

int bits_for(int64_t n)
{
    int bits = 1;
    while (((int64_t)1 << bits) < n) bits++;
    return bits;
}

unsigned blocks_for(int64_t n)
{
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

} // namespace

/* Divide a box of nu x nv cells into bins with an edge of at least 2^least_shift cells, and at most 2^24 of them. */
static void wproj_bins_make(msi_wproj_bins *b, int32_t nu, int32_t nv, const int32_t *half, int32_t n_plane,
                            int32_t least_shift)
{
    static const int32_t edge[] = {4, 8, 16, 24, 32, 48, 72, 112, 176, 240, 368, 512};
    const int32_t most = *std::max_element(half, half + n_plane);
    int32_t least = -1;
    *b = {};
    for (int32_t e : edge) {
        bool used = std::any_of(half, half + n_plane, [=](int32_t h) { return h > least && h <= e; });
        least = e;
        if (!used) continue;
        int32_t c = b->n_class++;
        b->class_half[c] = e;
        b->shift[c] = least_shift > 0 ? least_shift : 3;
        while (((2 * e + WIDEST_TILE) >> b->shift[c]) + 2 > MAX_BIN_ROWS) b->shift[c]++;
        if (e >= most) break;
    }
    for (int32_t wider = 0;; wider = 1) {
        b->n_bin = 0;
        for (int32_t c = 0; c < b->n_class; c++) {
            b->shift[c] += wider;
            b->n_bin_u[c] = (nu >> b->shift[c]) + 1;
            b->n_bin_v[c] = (nv >> b->shift[c]) + 1;
            b->first[c] = b->n_bin;
            b->n_bin += 2 * (int64_t)b->n_bin_u[c] * b->n_bin_v[c];
        }
        if (b->n_bin <= (int64_t)1 << MAX_BIN_BITS) return;
    }
}

struct msi_wproj_sorter {
    msi_gpu_stream gpu;
    msi_wproj_sorter_spec spec;
    uint32_t n; /* in the list */
    msi_wproj_bins bins;
    key_shape shape;
    uint8_t *class_of_plane;
    list_view list, sorted;
    uint32_t *bin;    /* [capacity] of the list's entries, then ranks */
    uint64_t *key[2]; /* keys of either size */
    uint32_t *index[2], *bin_end, *bin_start, *counters;
    void *cub_space;
    size_t cub_bytes;
};

extern "C" void msi_wproj_sorter_free(msi_wproj_sorter *s)
{
    if (!s) return;
    void *memory[] = {s->class_of_plane, s->list.head, s->list.value, s->list.frac, s->sorted.head, s->sorted.value,
                      s->sorted.frac,    s->bin,       s->key[0],     s->key[1],    s->index[0],    s->index[1],
                      s->bin_end,        s->bin_start, s->counters,   s->cub_space};
    for (void *p : memory) cudaFree(p);
    delete s;
}

extern "C" int64_t msi_wproj_sorter_bytes(const msi_wproj_sorter_spec *s)
{
    msi_wproj_bins bins;
    wproj_bins_make(&bins, s->nu, s->nv, s->half, s->n_plane, s->least_shift);
    int64_t of_list =
        (int64_t)sizeof(msi_wproj_head) + (s->n_image + (s->linear ? 1 : 0)) * msi_complex_bytes(s->precision);
    int64_t of_keys = (int64_t)(3 * sizeof(uint32_t) + 2 * sizeof(uint64_t));
    return s->capacity * (2 * of_list + of_keys) + bins.n_bin * 2 * (int64_t)sizeof(uint32_t) + s->n_plane;
}

static int allocate_list(list_view *list, const msi_wproj_sorter_spec *s)
{
    list->stride = s->capacity;
    MSI_TRY(allocate(&list->head, s->capacity, "sorting samples"));
    MSI_TRY(
        allocate((char **)&list->value, s->capacity * s->n_image * msi_complex_bytes(s->precision), "sorting samples"));
    if (s->linear)
        MSI_TRY(allocate((char **)&list->frac, s->capacity * msi_complex_bytes(s->precision), "sorting samples"));
    return MSI_OK;
}

/* Allocate the workspace of CUB's algorithms, with the size that the largest one needs. */
static int allocate_cub(msi_wproj_sorter *s)
{
    const int64_t n = s->spec.capacity;
    const int bin_bits = bits_for(s->bins.n_bin);
    size_t bytes[4];
    cub::DoubleBuffer<uint32_t> bins(s->bin, (uint32_t *)s->key[0]), values(s->index[0], s->index[1]);
    cub::DoubleBuffer<uint64_t> keys(s->key[0], s->key[1]);
    MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes[0], bins, values, n, 0, bin_bits));
    MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes[1], keys, values, n, 0, bin_bits + s->shape.below_bin()));
    MSI_CUDA(cub::DeviceScan::InclusiveScan(nullptr, bytes[2], s->bin_end, s->bin_start, larger(), s->bins.n_bin));
    MSI_CUDA(cub::DeviceScan::InclusiveSum(nullptr, bytes[3], s->bin, s->bin, n));
    s->cub_bytes = *std::max_element(bytes, bytes + 4);
    return allocate((char **)&s->cub_space, (int64_t)s->cub_bytes, "sorting samples");
}

static int allocate_all(msi_wproj_sorter *s)
{
    const int64_t n = s->spec.capacity;
    const int32_t n_plane = s->spec.n_plane;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    MSI_TRY(allocate(&s->class_of_plane, n_plane, "kernel classes"));
    MSI_TRY(allocate_list(&s->list, &s->spec));
    MSI_TRY(allocate_list(&s->sorted, &s->spec));
    MSI_TRY(allocate(&s->bin, n, "sort keys"));
    for (int k = 0; k < 2; k++) {
        MSI_TRY(allocate(&s->key[k], n, "sort keys"));
        MSI_TRY(allocate(&s->index[k], n, "sort values"));
    }
    MSI_TRY(allocate(&s->bin_end, s->bins.n_bin, "bins"));
    MSI_TRY(allocate(&s->bin_start, s->bins.n_bin + 1, "bins"));
    MSI_TRY(allocate(&s->counters, 1 + MSI_WPROJ_MAX_IMAGE, "counters"));
    MSI_TRY(allocate_cub(s));
    std::vector<uint8_t> classes((size_t)n_plane);
    for (int32_t p = 0; p < n_plane; p++)
        while (s->bins.class_half[classes[(size_t)p]] < s->spec.half[p]) classes[(size_t)p]++;
    MSI_CUDA(cudaMemcpyAsync(s->class_of_plane, classes.data(), classes.size(), cudaMemcpyHostToDevice,
                             (cudaStream_t)s->gpu.stream));
    return msi_gpu_stream_wait(&s->gpu);
}

extern "C" int msi_wproj_sorter_create(msi_wproj_sorter **out, const msi_gpu_stream *gpu,
                                       const msi_wproj_sorter_spec *spec)
{
    *out = nullptr;
    if (spec->nu > MSI_WPROJ_MAX_BOX || spec->nv > MSI_WPROJ_MAX_BOX || spec->n_plane > MSI_WPROJ_MAX_PLANE ||
        (spec->oversample > MSI_WPROJ_MAX_OVERSAMPLE && !spec->linear) || spec->capacity > INT32_MAX ||
        spec->n_image > MSI_WPROJ_MAX_IMAGE)
        return msi_error_set(
            MSI_ERANGE,
            "GPU: %lld samples on %d x %d cells with %d w-planes, oversampled %d times, for %d images: "
            "too many",
            (long long)spec->capacity, spec->nu, spec->nv, spec->n_plane, spec->oversample, spec->n_image);
    msi_wproj_sorter *s = new msi_wproj_sorter{};
    s->gpu = *gpu;
    s->spec = *spec;
    wproj_bins_make(&s->bins, spec->nu, spec->nv, spec->half, spec->n_plane, spec->least_shift);
    s->shape = {bits_for(spec->n_plane), spec->linear ? 1 : bits_for(spec->oversample + 1),
                *std::max_element(s->bins.shift, s->bins.shift + s->bins.n_class)};
    int status = allocate_all(s);
    s->spec.half = nullptr;
    if (status != MSI_OK) {
        msi_wproj_sorter_free(s);
        return status;
    }
    *out = s;
    return MSI_OK;
}

/* Read the number of entries that the last kernels have listed. */
static int read_count(msi_wproj_sorter *s)
{
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    MSI_CUDA(cudaMemcpyAsync(&s->n, s->counters, sizeof s->n, cudaMemcpyDeviceToHost, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    return MSI_OK;
}

extern "C" int msi_wproj_locate_f32(msi_wproj_sorter *s, const msi_wproj_samples_f32 *samples, int32_t run)
{
    const gpu_range range("locate samples");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    const bin_view bins = {s->bins, s->class_of_plane};
    const int64_t n = samples->n_series * samples->n_time;
    const bool fp32 = s->spec.precision == MSI_FP32;
    if (n > s->spec.capacity || s->spec.linear || s->spec.n_image != 1 || (run > 1 && !fp32))
        return msi_error_set(MSI_EINTERNAL, "GPU: a sorter for other samples");
    s->n = 0;
    if (n == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    if (run <= 1) {
        s->n = (uint32_t)n;
        if (fp32)
            k_locate_f32<float><<<blocks_for(n), BLOCK, 0, stream>>>(*samples, bins, s->list, s->bin, s->index[0]);
        else
            k_locate_f32<double><<<blocks_for(n), BLOCK, 0, stream>>>(*samples, bins, s->list, s->bin, s->index[0]);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
    MSI_CUDA(cudaMemsetAsync(s->counters, 0, sizeof *s->counters, stream));
    dim3 blocks(blocks_for(samples->n_series), (unsigned)((samples->n_time + run - 1) / run));
    k_locate_merge<<<blocks, BLOCK, 0, stream>>>(*samples, run, bins, s->list, s->bin, s->index[0], s->counters);
    MSI_CUDA(cudaGetLastError());
    return read_count(s);
}

extern "C" int msi_wproj_locate(msi_wproj_sorter *s, const msi_wproj_geometry *geometry,
                                const msi_wproj_samples *samples, int32_t slice, int32_t origin_u, int32_t origin_v)
{
    const gpu_range range("locate samples");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    const bin_view bins = {s->bins, s->class_of_plane};
    const store_view view = {*geometry, *samples, slice, origin_u, origin_v};
    const dim3 blocks((unsigned)samples->n_rows, PARTS);
    if (samples->n > s->spec.capacity || samples->n_image != s->spec.n_image || (geometry->linear && !s->spec.linear))
        return msi_error_set(MSI_EINTERNAL, "GPU: a sorter for other samples");
    s->n = 0;
    if (samples->n_rows == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    MSI_CUDA(cudaMemsetAsync(s->counters, 0, sizeof *s->counters, stream));
    if (s->spec.precision == MSI_FP32)
        k_locate<float><<<blocks, BLOCK, 0, stream>>>(view, bins, s->list, s->bin, s->index[0], s->counters);
    else
        k_locate<double><<<blocks, BLOCK, 0, stream>>>(view, bins, s->list, s->bin, s->index[0], s->counters);
    MSI_CUDA(cudaGetLastError());
    return read_count(s);
}

/* Device memory for finding extents. */
struct extent_memory {
    int32_t *half;
    msi_wproj_box_extent *extent;
};

static int find_extents(extent_memory *m, const store_view *view, const int32_t *half, cudaStream_t stream,
                        msi_wproj_box_extent *extent)
{
    const int32_t n_slice = view->geometry.n_slice, n_plane = view->geometry.n_plane;
    const size_t bytes = (size_t)n_slice * sizeof *extent;
    MSI_TRY(allocate(&m->half, n_plane, "kernel supports"));
    MSI_TRY(allocate(&m->extent, n_slice, "extents"));
    MSI_CUDA(cudaMemcpyAsync(m->half, half, (size_t)n_plane * sizeof *half, cudaMemcpyHostToDevice, stream));
    MSI_CUDA(cudaMemcpyAsync(m->extent, extent, bytes, cudaMemcpyHostToDevice, stream));
    k_extents<<<dim3((unsigned)view->samples.n_rows, PARTS), BLOCK, 0, stream>>>(*view, m->half, m->extent);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(extent, m->extent, bytes, cudaMemcpyDeviceToHost, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    return MSI_OK;
}

extern "C" int msi_wproj_extents(const msi_gpu_stream *gpu, const msi_wproj_geometry *geometry, const int32_t *half,
                                 const msi_wproj_samples *samples, msi_wproj_box_extent *extent)
{
    const gpu_range range("find extents");
    const store_view view = {*geometry, *samples, 0, 0, 0};
    extent_memory m = {};
    if (samples->n_rows == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(gpu));
    int status = find_extents(&m, &view, half, (cudaStream_t)gpu->stream, extent);
    cudaFree(m.half);
    cudaFree(m.extent);
    return status;
}

extern "C" void msi_wproj_list(const msi_wproj_sorter *s, msi_wproj_sorted *list)
{
    *list = {};
    list->n = s->n;
    list->head = s->list.head;
    list->value = s->list.value;
    list->frac = s->list.frac;
    list->stride = s->list.stride;
    list->n_image = s->spec.n_image;
    list->precision = s->spec.precision;
    list->bins = s->bins;
}

/* Reset the order: empty all bins, and clear the largest values. */
static int forget_order(msi_wproj_sorter *s)
{
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    MSI_CUDA(cudaMemsetAsync(s->bin_end, 0, (size_t)s->bins.n_bin * sizeof *s->bin_end, stream));
    MSI_CUDA(cudaMemsetAsync(s->bin_start, 0, sizeof *s->bin_start, stream));
    MSI_CUDA(cudaMemsetAsync(s->counters + 1, 0, MSI_WPROJ_MAX_IMAGE * sizeof *s->counters, stream));
    return MSI_OK;
}

/* Complete an order: set the end of each empty bin to the end of the bin before it. */
static int close_order(msi_wproj_sorter *s, int64_t n, msi_wproj_sorted *sorted)
{
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    size_t bytes = s->cub_bytes;
    MSI_CUDA(cub::DeviceScan::InclusiveScan(s->cub_space, bytes, s->bin_end, s->bin_start + 1, larger(), s->bins.n_bin,
                                            stream));
    msi_wproj_list(s, sorted);
    sorted->n = n;
    sorted->head = s->sorted.head;
    sorted->value = s->sorted.value;
    sorted->frac = s->sorted.frac;
    sorted->bin_start = s->bin_start;
    sorted->largest_value = s->counters + 1;
    return MSI_OK;
}

static reordering make_reordering(const msi_wproj_sorter *s, const uint32_t *index)
{
    return {s->list, s->sorted, index, s->n, s->spec.n_image, s->bin_end, s->counters + 1};
}

extern "C" int msi_wproj_sort_bins(msi_wproj_sorter *s, msi_wproj_sorted *sorted)
{
    const gpu_range range("sort samples by bin");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    cub::DoubleBuffer<uint32_t> keys(s->bin, (uint32_t *)s->key[0]), values(s->index[0], s->index[1]);
    size_t bytes = s->cub_bytes;
    MSI_TRY(forget_order(s));
    if (s->n > 0) {
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(s->cub_space, bytes, keys, values, (int64_t)s->n, 0,
                                                 bits_for(s->bins.n_bin), stream));
        const reordering order = make_reordering(s, values.Current());
        if (s->spec.precision == MSI_FP32)
            k_gather<float><<<blocks_for(s->n), BLOCK, 0, stream>>>(order, keys.Current());
        else
            k_gather<double><<<blocks_for(s->n), BLOCK, 0, stream>>>(order, keys.Current());
        MSI_CUDA(cudaGetLastError());
    }
    return close_order(s, s->n, sorted);
}

/* Merge each run of equal entries into one; *n_left entries remain. */
static int merge_sorted(msi_wproj_sorter *s, const uint64_t *key, const uint32_t *index, uint32_t *n_left)
{
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    const unsigned blocks = blocks_for(s->n);
    const int below_bin = s->shape.below_bin();
    uint32_t *rank = s->bin;
    size_t bytes = s->cub_bytes;
    k_mark<<<blocks, BLOCK, 0, stream>>>(key, s->n, s->spec.linear, rank);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cub::DeviceScan::InclusiveSum(s->cub_space, bytes, rank, rank, (int64_t)s->n, stream));
    const reordering order = make_reordering(s, index);
    if (s->spec.precision == MSI_FP32)
        k_merge<float><<<blocks, BLOCK, 0, stream>>>(order, key, rank, below_bin);
    else
        k_merge<double><<<blocks, BLOCK, 0, stream>>>(order, key, rank, below_bin);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(n_left, rank + s->n - 1, sizeof *n_left, cudaMemcpyDeviceToHost, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    return MSI_OK;
}

extern "C" int msi_wproj_sort_kernels(msi_wproj_sorter *s, msi_wproj_sorted *sorted)
{
    const gpu_range range("sort samples by kernel");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    const int bits = bits_for(s->bins.n_bin) + s->shape.below_bin();
    cub::DoubleBuffer<uint64_t> keys(s->key[0], s->key[1]);
    cub::DoubleBuffer<uint32_t> values(s->index[0], s->index[1]);
    uint32_t n_left = 0;
    size_t bytes = s->cub_bytes;
    if (bits > 64) return msi_error_set(MSI_ERANGE, "GPU: a sort key of %d bits; 64 is all there are", bits);
    MSI_TRY(forget_order(s));
    if (s->n > 0) {
        k_kernel_keys<<<blocks_for(s->n), BLOCK, 0, stream>>>(s->list.head, s->bin, s->n, s->shape, s->key[0],
                                                              s->index[0]);
        MSI_CUDA(cudaGetLastError());
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(s->cub_space, bytes, keys, values, (int64_t)s->n, 0, bits, stream));
        MSI_TRY(merge_sorted(s, keys.Current(), values.Current(), &n_left));
    }
    return close_order(s, n_left, sorted);
}
