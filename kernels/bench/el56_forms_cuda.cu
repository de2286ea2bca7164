/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Forms of gridding in the SDP memo "Vertical prototyping of the gridding algorithm": tables of kernels strided or
 * rearranged (sections 2.4 and 4.1), a fixed number of blocks for a tile (2.3) or dynamic blocks (3.1), indices
 * computed by the gridding kernel or stored by the sort (4.2); and the simplest form, a block for each visibility.
 */
#include "kernels/bench/el56_forms_cuda.h"

#include <type_traits>
#include <vector>

#include "kernels/bench/el56_table_forms.cuh"
#include "kernels/gpu/cuda_check.h"

using namespace el56_forms;

namespace {

constexpr int RUN = 256;                                         /* number of entries that a warp gets at a time */
constexpr int FIXED_WARPS = 16, CENTRE_WARPS = 1000, CENTRE = 8; /* warps of a tile; of each of the central 8 x 8 */

/* A table of kernels, plane by plane. */
struct plane_table {
    const float2 *table;
    const int64_t *offset; /* [planes] index of a plane's first element */
    int oversample;

    /* Return the first element for a pair of sub-offsets. Layouts with a separate table for each pair override this. */
    __device__ int64_t first(int plane, int, int, int) const
    {
        return offset[plane];
    }
};

/* A strided table is a quarter of an oversampled kernel in the order of its computation: |t oversample - sub| along
 * both axes. */
struct strided_weights : plane_table {
    struct cursor {
        const float2 *at;
        int row, step, pitch; /* at + |row + j step| pitch */
        __device__ float2 value(int j) const
        {
            return __ldg(at + (int64_t)abs(row + j * step) * pitch);
        }
    };
    __device__ cursor begin(const staged &e, int column) const
    {
        int middle = oversample / 2, pitch = e.half * oversample + middle + 1;
        int x = abs((e.du + column) * oversample - (e.sub_u - middle));
        return {table + e.first + x, e.dv * oversample - (e.sub_v - middle), oversample, pitch};
    }
};

/* In a quarter table the values of one sub-offset are contiguous: [y mod os][x mod os] blocks of [y / os][x / os]. */
struct quarter_weights : plane_table {
    struct cursor {
        const float2 *at;
        int row, oversample, edge;
        __device__ float2 value(int j) const
        {
            int y = abs(row + j * oversample);
            return __ldg(at + (int64_t)((y % oversample) * edge + y / oversample) * oversample * edge);
        }
    };
    __device__ cursor begin(const staged &e, int column) const
    {
        int middle = oversample / 2, edge = e.half + 1;
        int x = abs((e.du + column) * oversample - (e.sub_u - middle));
        return {table + e.first + x % oversample * edge + x / oversample, e.dv * oversample - (e.sub_v - middle),
                oversample, edge};
    }
};

/* A full table has all taps for every pair of sub-offsets, u fastest: a row is a run of values (memo, section 4.1). */
struct full_weights : plane_table {
    __device__ int64_t first(int plane, int half, int sub_u, int sub_v) const
    {
        int taps = 2 * half + 1;
        return offset[plane] + (int64_t)(sub_u * (oversample + 1) + sub_v) * taps * taps;
    }
    struct cursor {
        const float2 *at;
        int pitch;
        __device__ float2 value(int row) const
        {
            return __ldg(at + row * pitch);
        }
    };
    __device__ cursor begin(const staged &e, int column) const
    {
        int taps = 2 * e.half + 1;
        return {table + e.first + (int64_t)(e.dv + e.half) * taps + e.du + column + e.half, taps};
    }
};

/* An even table has taps only for sub-offsets 0 and above. Kernels are even, so the others are read backwards. */
struct even_weights : plane_table {
    __device__ int64_t first(int plane, int half, int sub_u, int sub_v) const
    {
        int taps = 2 * half + 1, middle = oversample / 2;
        return offset[plane] + (int64_t)(abs(sub_u - middle) * (middle + 1) + abs(sub_v - middle)) * taps * taps;
    }
    __device__ full_weights::cursor begin(const staged &e, int column) const
    {
        int middle = oversample / 2, taps = 2 * e.half + 1;
        int step_u = e.sub_u < middle ? -1 : 1, step_v = e.sub_v < middle ? -1 : 1;
        return {table + e.first + (int64_t)(e.half + step_v * e.dv) * taps + e.half + step_u * (e.du + column),
                step_v * taps};
    }
};

struct separable_weights : plane_table {
    struct cursor {
        const float2 *at;
        float2 u;
        __device__ float2 value(int j) const
        {
            float2 v = __ldg(at + j);
            return {u.x * v.x - u.y * v.y, u.x * v.y + u.y * v.x};
        }
    };
    __device__ cursor begin(const staged &e, int column) const
    {
        int taps = 2 * e.half + 1;
        return {table + e.first + e.sub_v * taps + e.dv + e.half,
                __ldg(table + e.first + e.sub_u * taps + e.du + column + e.half)};
    }
};

struct stored_record {
    const msi_wproj_head *head;
    const msi_c32 *value;
    __device__ record operator()(uint32_t i) const
    {
        msi_c32 v = value[i];
        return {head[i], {v.re, v.im}};
    }
};

struct computed_record {
    msi_wproj_samples_f32 samples;
    __device__ record operator()(uint32_t i) const
    {
        return wproj_locate::locate_f32<float>(samples, i);
    }
};

template <class WEIGHTS>
__global__ void k_grid_naive(msi_wproj_samples_f32 samples, const int32_t *half_of, WEIGHTS weights, float2 *grid,
                             int nu)
{
    record r = wproj_locate::locate_f32<float>(samples, blockIdx.x);
    uint32_t kernel = r.head.kernel;
    int plane = msi_wproj_head_plane(kernel), half = half_of[plane], taps = 2 * half + 1;
    float sign = msi_wproj_head_conjugate(kernel) ? -1.0f : 1.0f;
    staged e = {-half, -half, half, 0, 0, 0, 0, sign, msi_wproj_head_sub_u(kernel), msi_wproj_head_sub_v(kernel)};
    e.first = weights.first(plane, half, e.sub_u, e.sub_v);
    float2 *corner = grid + (int64_t)(msi_wproj_head_v(r.head.cell) - half) * nu + msi_wproj_head_u(r.head.cell) - half;
    for (int i = threadIdx.x; i < taps * taps; i += blockDim.x) {
        int column = i % taps, row = i / taps;
        float2 w = weights.begin(e, column).value(row);
        w.y *= sign;
        atomicAdd(&corner[(int64_t)row * nu + column].x, r.value.re * w.x - r.value.im * w.y);
        atomicAdd(&corner[(int64_t)row * nu + column].y, r.value.re * w.y + r.value.im * w.x);
    }
}

__global__ void k_tile_ends(const uint32_t *tile, int64_t n, int64_t *first, int64_t *end)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (i == 0 || tile[i - 1] != tile[i]) first[tile[i]] = i;
    if (i + 1 == n || tile[i + 1] != tile[i]) end[tile[i]] = i + 1;
}

/* A fixed number of warps grids each tile. Tiles of the centre have more warps, in a separate launch. */
struct fixed_warps {
    const int64_t *first, *end; /* entries of the tiles */
    int n_warp;                 /* number of warps of each tile */
    int only_centre;            /* 1: grid the tiles of the centre; 0: grid all others */
    int centre_u, centre_v;     /* first tile of the centre */
};

template <class WEIGHTS, class RECORD>
__global__ __launch_bounds__(32 * WARPS) void k_grid_fixed(bucket_job<WEIGHTS, RECORD> job, fixed_warps fixed)
{
    __shared__ staged stages[WARPS][32];
    int64_t warp = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    int64_t which = warp / fixed.n_warp, part = warp % fixed.n_warp;
    const int n_u = job.buckets.n_tile_u, n_v = job.buckets.n_tile_v;
    int tu = (int)(which % n_u), tv = (int)(which / n_u);
    if (fixed.only_centre) {
        tu = fixed.centre_u + (int)(which % CENTRE);
        tv = fixed.centre_v + (int)(which / CENTRE);
        if (which >= CENTRE * CENTRE) return;
    } else if (tu >= fixed.centre_u && tu < fixed.centre_u + CENTRE && tv >= fixed.centre_v &&
               tv < fixed.centre_v + CENTRE) {
        return;
    }
    if (tu < 0 || tv < 0 || tu >= n_u || tv >= n_v) return;
    int64_t low = fixed.first[tv * n_u + tu], n = fixed.end[tv * n_u + tu] - low;
    grid_entries(job, low + n * part / fixed.n_warp, low + n * (part + 1) / fixed.n_warp, stages[threadIdx.x / 32]);
}

} // namespace

struct el56_tables {
    el56_layout layout;
    int32_t nu, nv, n_block, centre_u, centre_v, oversample;
    float2 *table;
    int64_t *offset;
    int32_t *half;
    uint32_t *next;
    int64_t *first, *end; /* range of the tiles' entries */
};

static int64_t elements(el56_layout layout, int32_t half, int32_t os)
{
    int64_t taps = 2 * half + 1, side = half * os + os / 2 + 1, edge = half + 1;
    switch (layout) {
    case EL56_STRIDED:
        return side * side;
    case EL56_QUARTER:
        return edge * edge * os * os;
    case EL56_FULL:
        return (os + 1) * (os + 1) * taps * taps;
    case EL56_EVEN:
        return (os / 2 + 1) * (os / 2 + 1) * taps * taps;
    case EL56_SEPARABLE:
        return (os + 1) * taps;
    }
    return 0;
}

/* Read k(|x|) at x sub-cells from the separable table. */
static msi_c32 tap(const msi_c32 *plane, int32_t half, int32_t os, int32_t x)
{
    int32_t t = (x + os / 2 - 1) / os; /* x = t os - sub with sub in -os/2 + 1 .. os/2 */
    if (t > half) t = half;
    return plane[(t * os - x + os / 2) * (2 * half + 1) + t + half];
}

static float2 product(msi_c32 u, msi_c32 v)
{
    return {u.re * v.re - u.im * v.im, u.re * v.im + u.im * v.re};
}

static void fill(float2 *to, el56_layout layout, const msi_c32 *plane, int32_t half, int32_t os)
{
    const int32_t taps = 2 * half + 1, side = half * os + os / 2 + 1, edge = half + 1;
    if (layout == EL56_STRIDED)
        for (int32_t y = 0; y < side; y++)
            for (int32_t x = 0; x < side; x++) *to++ = product(tap(plane, half, os, x), tap(plane, half, os, y));
    if (layout == EL56_QUARTER)
        for (int32_t y = 0; y < side; y++)
            for (int32_t x = 0; x < side; x++)
                to[(((int64_t)(y % os) * edge + y / os) * os + x % os) * edge + x / os] =
                    product(tap(plane, half, os, x), tap(plane, half, os, y));
    const int32_t least = layout == EL56_EVEN ? os / 2 : 0;
    if (layout == EL56_FULL || layout == EL56_EVEN)
        for (int32_t su = least; su <= os; su++)
            for (int32_t sv = least; sv <= os; sv++)
                for (int32_t y = 0; y < taps; y++)
                    for (int32_t x = 0; x < taps; x++) *to++ = product(plane[su * taps + x], plane[sv * taps + y]);
    if (layout == EL56_SEPARABLE)
        for (int32_t i = 0; i < (os + 1) * taps; i++) to[i] = {plane[i].re, plane[i].im};
}

static int make_tables(el56_tables *t, const msi_el56 *e)
{
    const msi_wkernel_set *k = &e->kernels;
    const msi_c32 *from = static_cast<const msi_c32 *>(k->table);
    std::vector<int64_t> offset((size_t)k->n_plane + 1);
    for (int32_t p = 0; p < k->n_plane; p++)
        offset[(size_t)p + 1] = offset[(size_t)p] + elements(t->layout, k->half[p], k->oversample);
    std::vector<float2> table((size_t)offset[(size_t)k->n_plane]);
#pragma omp parallel for schedule(dynamic)
    for (int32_t p = 0; p < k->n_plane; p++)
        fill(&table[(size_t)offset[(size_t)p]], t->layout, from + k->offset_u[p], k->half[p], k->oversample);
    MSI_CUDA(cudaMalloc((void **)&t->table, table.size() * sizeof table[0]));
    MSI_CUDA(cudaMalloc((void **)&t->offset, offset.size() * sizeof offset[0]));
    MSI_CUDA(cudaMalloc((void **)&t->half, (size_t)k->n_plane * sizeof *t->half));
    MSI_CUDA(cudaMemcpy(t->table, table.data(), table.size() * sizeof table[0], cudaMemcpyHostToDevice));
    MSI_CUDA(cudaMemcpy(t->offset, offset.data(), offset.size() * sizeof offset[0], cudaMemcpyHostToDevice));
    MSI_CUDA(cudaMemcpy(t->half, k->half, (size_t)k->n_plane * sizeof *t->half, cudaMemcpyHostToDevice));
    MSI_CUDA(cudaMalloc((void **)&t->next, sizeof *t->next));
    size_t n_tile = (size_t)((e->nu + COLUMNS - 1) / COLUMNS) * (size_t)((e->nv + ROWS - 1) / ROWS);
    MSI_CUDA(cudaMalloc((void **)&t->first, n_tile * sizeof *t->first));
    MSI_CUDA(cudaMalloc((void **)&t->end, n_tile * sizeof *t->end));
    return MSI_OK;
}

extern "C" int el56_tables_create(el56_tables **out, const msi_el56 *e, el56_layout layout)
{
    int n_sm;
    MSI_CUDA(cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, 0));
    el56_tables *t = new el56_tables{};
    t->layout = layout;
    t->nu = e->nu;
    t->nv = e->nv;
    t->n_block = n_sm * 8;
    t->centre_u = e->origin_u / COLUMNS - CENTRE / 2;
    t->centre_v = e->origin_v / ROWS - CENTRE / 2;
    t->oversample = e->kernels.oversample;
    int status = make_tables(t, e);
    *out = t;
    return status;
}

extern "C" void el56_tables_free(el56_tables *t)
{
    if (!t) return;
    for (void *p :
         {(void *)t->table, (void *)t->offset, (void *)t->half, (void *)t->next, (void *)t->first, (void *)t->end})
        cudaFree(p);
    delete t;
}

template <class JOB> static int launch_dynamic(el56_tables *t, const JOB &job, cudaStream_t stream)
{
    MSI_CUDA(cudaMemsetAsync(t->next, 0, sizeof *t->next, stream));
    k_grid_dynamic<<<t->n_block, 32 * WARPS, 0, stream>>>(job, RUN, t->next);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

template <class JOB> static int launch_fixed(el56_tables *t, const JOB &job, cudaStream_t stream)
{
    const el56_buckets &b = job.buckets;
    const int64_t n_tile = (int64_t)b.n_tile_u * b.n_tile_v;
    MSI_CUDA(cudaMemsetAsync(t->first, 0, (size_t)n_tile * sizeof *t->first, stream));
    MSI_CUDA(cudaMemsetAsync(t->end, 0, (size_t)n_tile * sizeof *t->end, stream));
    k_tile_ends<<<(unsigned)((b.n_entry + 255) / 256), 256, 0, stream>>>(b.bucket, b.n_entry, t->first, t->end);
    MSI_CUDA(cudaGetLastError());
    fixed_warps fixed = {t->first, t->end, CENTRE_WARPS, 1, t->centre_u, t->centre_v};
    k_grid_fixed<<<CENTRE * CENTRE * CENTRE_WARPS / WARPS, 32 * WARPS, 0, stream>>>(job, fixed);
    MSI_CUDA(cudaGetLastError());
    fixed.n_warp = FIXED_WARPS;
    fixed.only_centre = 0;
    k_grid_fixed<<<(unsigned)(n_tile * FIXED_WARPS / WARPS), 32 * WARPS, 0, stream>>>(job, fixed);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

extern "C" int el56_grid_naive(el56_tables *t, const msi_wproj_samples_f32 *samples, msi_c32 *grid, cudaStream_t stream)
{
    const strided_weights weights = {{t->table, t->offset, t->oversample}};
    const int64_t n = samples->n_series * samples->n_time;
    k_grid_naive<<<(unsigned)n, 128, 0, stream>>>(*samples, t->half, weights, reinterpret_cast<float2 *>(grid), t->nu);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

extern "C" int el56_grid_buckets(el56_tables *t, const el56_buckets *b, const msi_wproj_samples_f32 *samples, int fixed,
                                 msi_c32 *out, cudaStream_t stream)
{
    float2 *grid = reinterpret_cast<float2 *>(out);
    const plane_table table = {t->table, t->offset, t->oversample};
    const stored_record stored = {b->head, b->value};
    const computed_record computed = {samples ? *samples : msi_wproj_samples_f32{}};
    const auto launch = [&](const auto &weights, const auto &located) {
        const bucket_job<std::decay_t<decltype(weights)>, std::decay_t<decltype(located)>> job = {
            *b, t->half, weights, located, grid, t->nu, t->nv};
        return fixed ? launch_fixed(t, job, stream) : launch_dynamic(t, job, stream);
    };
    if (t->layout == EL56_STRIDED) return launch(strided_weights{table}, computed);
    if (t->layout == EL56_QUARTER) return launch(quarter_weights{table}, computed);
    if (t->layout == EL56_SEPARABLE) return launch(separable_weights{table}, stored);
    if (t->layout == EL56_FULL) return launch(full_weights{table}, computed);
    const even_weights weights = {table};
    return samples ? launch(weights, computed) : launch(weights, stored);
}
