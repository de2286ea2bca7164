/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows el56/ of tiles on a GPU. Inputs are in device memory. The time of a row is from the coordinates to the grid. */
#include <stdio.h>

#include <algorithm>
#include <vector>

#include "kernels/bench/device_rows.cuh"
#include "kernels/bench/el56_forms_cuda.h"
#include "kernels/bench/workload_el56.h"
#include "kernels/wproj/tile/wproj_tile_cuda.h"

namespace {

const msi_gpu_stream default_stream = {0, nullptr};

typedef enum gridding_form { NAIVE, BUCKETS, TILES } gridding_form;

/* The merging of samples with the same cell and kernel: among RUN neighbours in time, or among all samples, by a
 * sort. */
typedef enum merging { NOTHING, IN_TIME, BY_KEY } merging;

typedef enum order { BY_TIME, BY_BASELINE, SHUFFLED } order;

constexpr int RUN = 32;

/* The parameters of a row; every member has a default. */
struct detail {
    const char *note;
    gridding_form gridding = TILES;
    merging merge = IN_TIME;
    /* Members for buckets: */
    el56_layout layout = EL56_EVEN;
    int stored = 0, fixed = 0, by_class = 1;
    /* Members for tiles: */
    msi_wproj_tile_form form = MSI_WPROJ_TILE_TENSOR;
    int full = 0;
    msi_precision precision = MSI_FP32;
    int32_t least_shift = 0, item_size = 0;
    /* Members for the samples: */
    order given = BY_TIME;
    const msi_el56_scatter *scatter = nullptr;
};

struct state {
    const msi_el56 *e;
    const detail *d;
    msi_wproj_samples_f32 samples;
    msi_wproj_sorter *sorter;
    el56_bucket_sorter *bucket_sorter;
    msi_wproj_tile *tile;
    el56_tables *tables;
    void *grid;
    run_timer timer;
};

/* Sample i in the order given is sample of(i) of the workload. */
template <typename T, class OF> int upload(const T **out, const T *from, int64_t n, const OF &of)
{
    std::vector<T> ordered((size_t)n);
    void *p;
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) ordered[(size_t)i] = from[of(i)];
    MSI_CUDA(cudaMalloc(&p, (size_t)n * sizeof(T)));
    *out = static_cast<const T *>(p);
    MSI_CUDA(cudaMemcpy(p, ordered.data(), (size_t)n * sizeof(T), cudaMemcpyHostToDevice));
    return MSI_OK;
}

template <class OF> int upload_all(msi_wproj_samples_f32 *s, const msi_el56 *e, const OF &of)
{
    MSI_TRY(upload(&s->u, e->u, e->n_vis, of));
    MSI_TRY(upload(&s->v, e->v, e->n_vis, of));
    MSI_TRY(upload(&s->w, e->w, e->n_vis, of));
    MSI_TRY(upload(&s->weight, e->weight, e->n_vis, of));
    return upload(&s->vis, e->vis, e->n_vis, of);
}

/* Permute 0 .. n - 1. Multiplying by an odd number permutes 0 .. 2^k - 1; values beyond n are permuted again. */
int64_t shuffled(int64_t i, int64_t n)
{
    uint64_t mask = 1;
    while (mask < (uint64_t)n) mask *= 2;
    uint64_t x = (uint64_t)i;
    do {
        x = (x * 0x9e3779b97f4a7c15u + 0x1234567u) & (mask - 1);
        x ^= x >> 7;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

/* Copy the workload's arrays to the device in an order. They are kept until another workload or order is requested. */
int device_samples(msi_wproj_samples_f32 *out, const msi_el56 *e, order given)
{
    static msi_wproj_samples_f32 s;
    static int serial;
    static order kept;
    if (serial != e->serial || kept != given) {
        for (const void *p :
             {(const void *)s.u, (const void *)s.v, (const void *)s.w, (const void *)s.weight, (const void *)s.vis})
            cudaFree(const_cast<void *>(p));
        s = {};
        serial = 0;
        const int64_t n = e->n_vis, n_time = e->n_time, n_baseline = e->n_baseline;
        if (given == BY_TIME) MSI_TRY(upload_all(&s, e, [](int64_t i) { return i; }));
        if (given == BY_BASELINE)
            MSI_TRY(upload_all(&s, e, [=](int64_t i) { return i % n_time * n_baseline + i / n_time; }));
        if (given == SHUFFLED) MSI_TRY(upload_all(&s, e, [=](int64_t i) { return shuffled(i, n); }));
        s.n_series = given == SHUFFLED ? n : n_baseline;
        s.n_time = given == SHUFFLED ? 1 : n_time;
        s.series_step = given == BY_BASELINE ? n_time : 1;
        s.time_step = given == BY_BASELINE ? 1 : n_baseline;
        s.scale_u = e->scale_u;
        s.scale_v = e->scale_v;
        s.origin_u = e->origin_u;
        s.origin_v = e->origin_v;
        s.plane_scale = e->plane_scale;
        s.n_plane = e->kernels.n_plane;
        s.oversample = e->kernels.oversample;
        serial = e->serial;
        kept = given;
    }
    *out = s;
    return MSI_OK;
}

template <typename C, typename E> void fill_squares(const msi_el56 *e, const E *from, msi_wkernel_set *full, C *to)
{
    const msi_wkernel_set *k = &e->kernels;
    const int32_t middle = k->oversample / 2;
#pragma omp parallel for schedule(dynamic)
    for (int32_t p = 0; p < k->n_plane; p++) {
        const int32_t taps = msi_wkernel_taps(k->half[p]);
        for (int32_t su = -middle; su <= middle; su++)
            for (int32_t sv = -middle; sv <= middle; sv++) {
                C *at = to + msi_wkernel_square(full->offset_u[p], k->half[p], k->oversample, su, sv);
                const E *u = from + msi_wkernel_row(k->offset_u[p], k->half[p], k->oversample, su);
                const E *v = from + msi_wkernel_row(k->offset_v[p], k->half[p], k->oversample, sv);
                for (int32_t y = 0; y < taps; y++)
                    for (int32_t x = 0; x < taps; x++, at++) {
                        at->re = u[x].re * v[y].re - u[x].im * v[y].im;
                        at->im = u[x].re * v[y].im + u[x].im * v[y].re;
                    }
            }
    }
}

/* Make the tile gridder from tables in the row's precision and form, and free the tables. */
int make_tile(state *s)
{
    const msi_el56 *e = s->e;
    const detail *d = s->d;
    msi_wkernel_set k = e->kernels;
    std::vector<int64_t> offset((size_t)k.n_plane);
    std::vector<msi_c32> squares;
    std::vector<msi_c64> exact;
    k.precision = d->precision;
    if (d->precision == MSI_FP64) k.table = e->exact;
    if (d->full) {
        k.form = MSI_WKERNEL_FULL;
        k.n_element = 0;
        for (int32_t p = 0; p < k.n_plane; p++) {
            offset[(size_t)p] = k.n_element;
            k.n_element += msi_wkernel_elements(1, k.oversample, k.half[p]);
        }
        k.offset_u = k.offset_v = offset.data();
        if (d->precision == MSI_FP64) {
            exact.resize((size_t)k.n_element);
            k.table = exact.data();
            fill_squares(e, e->exact, &k, exact.data());
        } else {
            squares.resize((size_t)k.n_element);
            k.table = squares.data();
            fill_squares(e, e->exact, &k, squares.data());
        }
    }
    const msi_wproj_tile_spec spec = {&k, d->form, 0, e->nu, e->nv, d->item_size};
    return msi_wproj_tile_create(&s->tile, &default_stream, &spec);
}

size_t grid_bytes(const state *s)
{
    return (size_t)(s->e->nu * (int64_t)s->e->nv * msi_complex_bytes(s->d->precision));
}

int prepare(state *s)
{
    const msi_el56 *e = s->e;
    const msi_wproj_sorter_spec sorter = {
        e->n_vis, e->nu,           e->nv, e->kernels.half,  e->kernels.n_plane, e->kernels.oversample,
        1,        s->d->precision, 0,     s->d->least_shift};
    MSI_TRY(device_samples(&s->samples, e, s->d->given));
    MSI_CUDA(cudaMalloc(&s->grid, grid_bytes(s)));
    MSI_TRY(s->timer.make());
    if (s->d->gridding != NAIVE) MSI_TRY(msi_wproj_sorter_create(&s->sorter, &default_stream, &sorter));
    if (s->d->gridding == TILES) return make_tile(s);
    if (s->d->gridding == BUCKETS)
        MSI_TRY(el56_bucket_sorter_create(&s->bucket_sorter, e->n_vis, e->kernels.half, e->kernels.n_plane));
    return el56_tables_create(&s->tables, e, s->d->layout);
}

int set_up(void **out, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    state *s = new state{};
    *out = s;
    s->d = static_cast<const detail *>(row->detail);
    MSI_TRY(msi_el56_get(&s->e, options, s->d->scatter));
    work->n_vis = s->e->n_vis;
    work->n_addition = s->e->n_addition;
    return prepare(s);
}

/* Compute indices, sort them, grid. Returned: *n_left number of samples after merging */
int grid_once(state *s, int64_t *n_left, msi_bench_time *time)
{
    const detail *d = s->d;
    el56_buckets buckets = {};
    msi_wproj_sorted sorted = {};
    MSI_TRY(s->timer.begin());
    *n_left = s->e->n_vis;
    if (d->gridding != NAIVE) MSI_TRY(msi_wproj_locate_f32(s->sorter, &s->samples, d->merge == IN_TIME ? RUN : 1));
    if (d->gridding == TILES)
        MSI_TRY(d->merge == BY_KEY ? msi_wproj_sort_kernels(s->sorter, &sorted)
                                   : msi_wproj_sort_bins(s->sorter, &sorted));
    if (d->gridding == BUCKETS) {
        msi_wproj_list(s->sorter, &sorted);
        const el56_tiling tiling = {s->e->nu, s->e->nv, 32, 16, d->by_class};
        MSI_TRY(el56_sort_buckets(s->bucket_sorter, &sorted, &tiling, 0, &buckets));
    }
    MSI_TRY(s->timer.sorted());
    if (d->gridding != NAIVE) *n_left = sorted.n;
    MSI_CUDA(cudaMemsetAsync(s->grid, 0, grid_bytes(s)));
    msi_c32 *grid = static_cast<msi_c32 *>(s->grid);
    if (d->gridding == NAIVE) MSI_TRY(el56_grid_naive(s->tables, &s->samples, grid, 0));
    if (d->gridding == TILES) MSI_TRY(msi_wproj_tile_grid(s->tile, &sorted, s->grid));
    if (d->gridding == BUCKETS)
        MSI_TRY(el56_grid_buckets(s->tables, &buckets, d->stored ? nullptr : &s->samples, d->fixed, grid, 0));
    return s->timer.end(time);
}

int run(void *in, msi_bench_work *work, msi_bench_time *time)
{
    state *s = static_cast<state *>(in);
    int64_t n_left;
    MSI_TRY(grid_once(s, &n_left, time));
    snprintf(work->note, sizeof work->note, "%s%s; %.1f %% of the samples left", s->d->note,
             s->e->procedural ? "; procedural layout" : "", 100.0 * (double)n_left / (double)s->e->n_vis);
    return MSI_OK;
}

int verify(void *in, double *error)
{
    state *s = static_cast<state *>(in);
    std::vector<char> grid(grid_bytes(s));
    MSI_CUDA(cudaMemcpy(grid.data(), s->grid, grid.size(), cudaMemcpyDeviceToHost));
    return msi_el56_error(s->e, grid.data(), s->d->precision, error);
}

void free_state(void *in)
{
    state *s = static_cast<state *>(in);
    if (!s) return;
    msi_wproj_sorter_free(s->sorter);
    el56_bucket_sorter_free(s->bucket_sorter);
    msi_wproj_tile_free(s->tile);
    el56_tables_free(s->tables);
    cudaFree(s->grid);
    delete s;
}

detail buckets(const char *note, merging merge, el56_layout layout, int stored, int fixed, int by_class)
{
    detail d;
    d.note = note;
    d.gridding = BUCKETS;
    d.merge = merge;
    d.layout = layout;
    d.stored = stored;
    d.fixed = fixed;
    d.by_class = by_class;
    return d;
}

detail tiles(const char *note, merging merge, msi_wproj_tile_form form = MSI_WPROJ_TILE_TENSOR, int full = 0,
             msi_precision precision = MSI_FP32)
{
    detail d;
    d.note = note;
    d.merge = merge;
    d.form = form;
    d.full = full;
    d.precision = precision;
    return d;
}

detail naive()
{
    detail d = buckets("a block a visibility, strided table", NOTHING, EL56_STRIDED, 0, 0, 0);
    d.gridding = NAIVE;
    return d;
}

detail ordered(const char *note, order given, merging merge)
{
    detail d = tiles(note, merge);
    d.given = given;
    return d;
}

detail tuned(int32_t least_shift, int32_t item_size)
{
    detail d = tiles("tensor cores, merged", IN_TIME);
    d.least_shift = least_shift;
    d.item_size = item_size;
    return d;
}

detail scattered(const msi_el56_scatter *scatter, int full)
{
    detail d = full ? tiles("full tables, merged by key", BY_KEY, MSI_WPROJ_TILE_FMA, 1)
                    : tiles("tensor cores, merged by key", BY_KEY);
    d.scatter = scatter;
    d.given = SHUFFLED;
    return d;
}

struct named_row {
    const char *name;
    detail d;
};

const msi_el56_scatter counts[] = {{1000, 8}, {10000, 8}, {100000, 8}, {1000000, 8}, {10000000, 8}, {100000000, 8}};
const msi_el56_scatter halves[] = {{1000000, 2},  {1000000, 4},  {1000000, 8},
                                   {1000000, 16}, {1000000, 32}, {1000000, 64}};

const named_row table[] = {
    {"el56/naive", naive()},
    {"el56/fixed-blocks", buckets("fixed warps a tile, quarter tables rearranged", NOTHING, EL56_QUARTER, 0, 1, 0)},
    {"el56/sort", buckets("dynamic, strided quarter tables, by tile", NOTHING, EL56_STRIDED, 0, 0, 0)},
    {"el56/sort-class", buckets("strided, by class of support, then tile", NOTHING, EL56_STRIDED, 0, 0, 1)},
    {"el56/sort-quarter", buckets("by class, quarter tables rearranged", NOTHING, EL56_QUARTER, 0, 0, 1)},
    {"el56/sort-all-squares", buckets("by class, full width, all sub-offsets", NOTHING, EL56_FULL, 0, 0, 1)},
    {"el56/sort-all-squares-by-tile", buckets("by tile, full width, all sub-offsets", NOTHING, EL56_FULL, 0, 0, 0)},
    {"el56/sort-layout", buckets("by class, full width, sub-offsets 0 and above", NOTHING, EL56_EVEN, 0, 0, 1)},
    {"el56/sort-layout-stored", buckets("and stored indices", NOTHING, EL56_EVEN, 1, 0, 1)},
    {"el56/sort-layout-stored-merged", buckets("and neighbours in time merged", IN_TIME, EL56_EVEN, 1, 0, 1)},
    {"el56/full", tiles("full tables, bins, tiles of 16 x 16", IN_TIME, MSI_WPROJ_TILE_FMA, 1)},
    {"el56/full-by-key", tiles("full tables, sorted and merged by kernel", BY_KEY, MSI_WPROJ_TILE_FMA, 1)},
    {"el56/full-by-key-fp64", tiles("the same in double", BY_KEY, MSI_WPROJ_TILE_FMA, 1, MSI_FP64)},
    {"el56/separable", tiles("separable kernels, multiply-adds", IN_TIME, MSI_WPROJ_TILE_FMA)},
    {"el56/separable-fp64", tiles("the same in double, merged by key", BY_KEY, MSI_WPROJ_TILE_FMA, 0, MSI_FP64)},
    {"el56/tensor-unmerged", tiles("separable, tensor cores, not merged", NOTHING)},
    {"el56/tensor", tiles("separable, tensor cores, merged in time", IN_TIME)},
    {"el56/tensor-by-key", tiles("separable, tensor cores, sorted and merged by kernel", BY_KEY)},
    {"el56/order-baseline", ordered("tensor cores, baseline-major, merged in time", BY_BASELINE, IN_TIME)},
    {"el56/order-baseline-by-key", ordered("tensor cores, baseline-major, merged by key", BY_BASELINE, BY_KEY)},
    {"el56/order-shuffled-unmerged", ordered("tensor cores, shuffled, not merged", SHUFFLED, NOTHING)},
    {"el56/order-shuffled-by-key", ordered("tensor cores, shuffled, merged by key", SHUFFLED, BY_KEY)},
    {"el56/bin-8", tuned(3, 0)},
    {"el56/bin-16", tuned(4, 0)},
    {"el56/bin-32", tuned(5, 0)},
    {"el56/item-256", tuned(0, 256)},
    {"el56/item-512", tuned(0, 512)},
    {"el56/item-1024", tuned(0, 1024)},
    {"el56/item-2048", tuned(0, 2048)},
    {"el56/item-4096", tuned(0, 4096)},
    {"el56/item-8192", tuned(0, 8192)},
    {"el56/count-1e3", scattered(&counts[0], 0)},
    {"el56/count-1e4", scattered(&counts[1], 0)},
    {"el56/count-1e5", scattered(&counts[2], 0)},
    {"el56/count-1e6", scattered(&counts[3], 0)},
    {"el56/count-1e7", scattered(&counts[4], 0)},
    {"el56/count-1e8", scattered(&counts[5], 0)},
    {"el56/half-2", scattered(&halves[0], 0)},
    {"el56/half-4", scattered(&halves[1], 0)},
    {"el56/half-8", scattered(&halves[2], 0)},
    {"el56/half-16", scattered(&halves[3], 0)},
    {"el56/half-32", scattered(&halves[4], 0)},
    {"el56/half-64", scattered(&halves[5], 0)},
    {"el56/half-2-full", scattered(&halves[0], 1)},
    {"el56/half-4-full", scattered(&halves[1], 1)},
    {"el56/half-8-full", scattered(&halves[2], 1)},
    {"el56/half-16-full", scattered(&halves[3], 1)},
    {"el56/half-32-full", scattered(&halves[4], 1)},
    {"el56/half-64-full", scattered(&halves[5], 1)},
};
constexpr int N_ROW = sizeof table / sizeof table[0];

const char workload_name[] = MSI_EL56_TITLE;
const char scatter_name[] = "el56: w-projection, samples scattered about 1024 x 1024 cells";

} // namespace

extern "C" msi_bench_table msi_el56_rows_cuda(void)
{
    static msi_bench_row rows[N_ROW];
    for (int i = 0; i < N_ROW; i++) {
        const detail *d = &table[i].d;
        rows[i] = {table[i].name,
                   d->scatter ? scatter_name : workload_name,
                   "wproj",
                   "tile",
                   "grid",
                   "cuda",
                   d->precision == MSI_FP32 ? "fp32" : "fp64",
                   d->precision == MSI_FP32 ? 5e-6 : 1e-12,
                   d,
                   set_up,
                   run,
                   verify,
                   free_state};
    }
    return {rows, N_ROW};
}
