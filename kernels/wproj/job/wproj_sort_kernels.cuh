/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernels that list samples and put lists in order; wproj_sort_cuda.cu says how they work together. */
#ifndef MSI_KERNELS_WPROJ_SORT_KERNELS_CUH
#define MSI_KERNELS_WPROJ_SORT_KERNELS_CUH

#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/wproj/job/wproj_locate.cuh"

namespace wproj_sort {

using namespace wproj_locate;

constexpr int BLOCK = 256, BUFFER = 1024, PARTS = 8;
constexpr int MERGED = 32; /* entries become one, at most */

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

/* Raise *bits to those of the largest value of a block, all of whose threads call. */
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

/* List a regular array's samples; a thread follows one series through a run of times and merges equal neighbours. */
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
    uint32_t filled = 0; /* every thread's own count of what the block buffered */
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

/* List a regular array's samples, one entry each. */
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

/* A view of a store's samples and of what locates them. */
struct store_view {
    msi_wproj_geometry geometry;
    msi_wproj_samples samples;
    int32_t slice, origin_u, origin_v;
};

/* Find the slice of sample i of rows r; -1 where it has no weight. */
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

/* List a store's samples of one slice; blocks are numbered (rows, part). */
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

/* The extent of one slice's samples among those that a thread or a warp has seen; slice -1: none. */
struct covered {
    int32_t slice, u_low, v_low, u_high, v_high;
    unsigned n;
};

/* Enlarge a slice's extent. */
__device__ inline void enlarge_extent(const covered &c, msi_wproj_box_extent *extent)
{
    if (c.slice < 0) return;
    msi_wproj_box_extent *e = extent + c.slice;
    /* Only ever outdated in the direction that costs an atomic operation. */
    if (c.u_low < *(volatile int32_t *)&e->u_low) atomicMin(&e->u_low, c.u_low);
    if (c.v_low < *(volatile int32_t *)&e->v_low) atomicMin(&e->v_low, c.v_low);
    if (c.u_high > *(volatile int32_t *)&e->u_high) atomicMax(&e->u_high, c.u_high);
    if (c.v_high > *(volatile int32_t *)&e->v_high) atomicMax(&e->v_high, c.v_high);
    atomicAdd((unsigned long long *)&e->n, (unsigned long long)c.n);
}

/* Enlarge extent [n_slice]: threads add a slice when they come to the next, warps together where they end in the same.
 */
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

/* A reordering takes n entries of the list, by index, to the sorted one. */
struct reordering {
    list_view list, sorted;
    const uint32_t *index;
    uint32_t n;
    int n_image;
    uint32_t *bin_end, *largest; /* largest [n_image]: bits of the largest value */
};

/* Put the list into the order of its keys; the last of each bin shows where the bin ends. */
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

/* A key's shape: a bin, a kernel and a cell share 64 bits. */
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

/* Mark by 1 an entry that begins a run of equals, which is cut where its sum would get long. */
static __global__ void k_mark(const uint64_t *key, uint32_t n, int apart, uint32_t *begins)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) begins[i] = apart || i % MERGED == 0 || key[i] != key[i - 1];
}

/* Merge runs; rank counts the runs that begin up to an entry. */
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

#endif
