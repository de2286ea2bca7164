/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows tracks/ and merged/: the moving window on tracks of baselines. Kernels, values and grids are random functions of
 * their index, so the reference needs no copy of them. Rows ..-team use the number of GPUs of -gpus: each device has
 * some of the baselines and its own grid, and sums a slice of all grids. Their time is wall time, including the sum.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <vector>

#include "kernels/bench/workload_tracks.h"
#include "kernels/wproj/window/wproj_window_cuda.h"
#include "core/log.h"
#include "core/ordered_parallel.h"
#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_memory.h"

namespace {

typedef enum array { ROMEIN, MERRY } array;
typedef enum order { TRACKS, TIMES, PLACES } order;
typedef enum choice { MEASURED, GUESSED, UNCOARSENED } choice;

typedef struct detail {
    array layout;
    int merge, n_image, taps, full, degrid;
    int n_stream, mapped;
    order in;
    choice shape;
    const char *note;
    int team;
} detail;

constexpr int ROMEIN_TIMES = 2160, MAX_STREAM = 2, PIECES = 8, N_TILE = 24, TILE = 4, N_CHECKED = 3000, MAX_IMAGES = 4;
constexpr int64_t MOST_MEASURED = 1 << 22;
constexpr int64_t WORK = (int64_t)3 << 36; /* additions of a row; rows with wide kernels use a part of the tracks */
constexpr uint64_t TABLE_SEED = 1ull << 40, VALUE_SEED = 2ull << 40, GRID_SEED = 3ull << 40;
constexpr uint64_t PART_SEED = 1ull << 33; /* difference of the value seeds of consecutive devices */

/* The state of one device. */
struct state {
    const detail *d;
    int device, n_part;
    state *
        part[MSI_BENCH_MAX_GPUS]; /* states of all n_part devices, beginning with this; set for the first device only */
    msi_tracks tracks;
    int64_t n;
    std::vector<msi_wproj_sample> sample; /* [n] the device's, in the row's order */
    uint64_t value_seed;
    msi_wproj_job job;
    int64_t per_plane; /* table elements */
    void *d_sample, *d_value, *d_grid, *d_table, *d_taps, *d_offset;
    void *h_sample, *h_value; /* mapped */
    msi_window_operands *operands;
    msi_window_shape shape;
    cudaStream_t stream[MAX_STREAM];
    cudaEvent_t begin, end, done[MAX_STREAM];
};

/* Hash an index to a number in [-1, 1). */
__host__ __device__ inline float number_at(uint64_t i)
{
    i ^= i >> 33;
    i *= 0xff51afd7ed558ccdull;
    i ^= i >> 33;
    i *= 0xc4ceb9fe1a85ec53ull;
    i ^= i >> 33;
    return (float)((int64_t)(i >> 40) - (1 << 23)) * (1.0f / (1 << 23));
}

__global__ void k_fill(float *x, int64_t n, uint64_t seed)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        x[i] = number_at((uint64_t)i + seed);
}

msi_c64 complex_at(uint64_t seed, int64_t i)
{
    return {number_at(2 * (uint64_t)i + seed), number_at(2 * (uint64_t)i + 1 + seed)};
}

msi_c64 times(msi_c64 a, msi_c64 b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

msi_c64 kernel_at(const state *s, const msi_wproj_sample &x, int tap_u, int tap_v)
{
    const int64_t os = s->tracks.oversample, n = s->d->taps, plane = x.plane * s->per_plane;
    const int64_t row_u = x.sub_u + os / 2, row_v = x.sub_v + os / 2;
    msi_c64 k = s->d->full ? complex_at(TABLE_SEED, plane + ((row_u * (os + 1) + row_v) * n + tap_v) * n + tap_u)
                           : times(complex_at(TABLE_SEED, plane + row_u * n + tap_u),
                                   complex_at(TABLE_SEED, plane + row_v * n + tap_v));
    if (x.conjugate) k.im = -k.im;
    return k;
}

int fill(void *x, int64_t n, uint64_t seed)
{
    k_fill<<<2048, 256>>>((float *)x, n, seed);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* Reorder samples by time, as in a Measurement Set, or by position. */
void reorder(state *s)
{
    std::vector<msi_wproj_sample> &x = s->sample;
    if (s->d->in == TIMES) {
        const int64_t n_time = s->n / s->tracks.n_baseline;
        for (int64_t t = 0, k = 0; t < n_time; t++)
            for (int64_t b = 0; b < s->tracks.n_baseline; b++) x[k++] = s->tracks.sample[b * n_time + t];
    } else if (s->d->in == PLACES) {
        auto key = [](const msi_wproj_sample &a) {
            return (int64_t)(a.v >> 2) << 32 | (uint32_t)(a.u >> 2) ^ 1u << 31;
        };
        std::stable_sort(x.begin(), x.end(),
                         [&](const msi_wproj_sample &a, const msi_wproj_sample &b) { return key(a) < key(b); });
    }
}

/* Select device k's baselines. Devices get baselines in turn, because the time of a baseline depends on its length. */
void take_baselines(state *s, int k, int n_part)
{
    const int64_t each = s->tracks.n / s->tracks.n_baseline, n_baseline = (s->n + each - 1) / each;
    int64_t n = 0;
    for (int64_t b = k; b < n_baseline; b += n_part) {
        const int64_t first = b * each, here = std::min(each, s->n - first);
        std::copy_n(s->sample.begin() + first, here, s->sample.begin() + n);
        n += here;
    }
    s->n = n;
    s->value_seed = VALUE_SEED + (uint64_t)k * PART_SEED;
}

int make_samples(state *s, double scale, int k, int n_part)
{
    const detail *d = s->d;
    MSI_TRY(d->layout == ROMEIN ? msi_tracks_romein(&s->tracks, ROMEIN_TIMES, d->merge)
                                : msi_tracks_merry(&s->tracks, d->merge));
    const int64_t cells = (int64_t)d->taps * d->taps * d->n_image;
    s->n = d->layout == ROMEIN && d->taps > 16 ? std::min(s->tracks.n, WORK / cells) : s->tracks.n;
    s->sample.assign(s->tracks.sample, s->tracks.sample + s->n);
    reorder(s);
    s->n = std::max<int64_t>(1, (int64_t)((double)s->n * scale));
    s->value_seed = VALUE_SEED;
    if (n_part > 1) take_baselines(s, k, n_part);
    s->sample.resize((size_t)s->n);
    return MSI_OK;
}

int allocate(state *s)
{
    const detail *d = s->d;
    const msi_tracks *t = &s->tracks;
    const int64_t n_value = s->n * d->n_image, n_grid = (int64_t)t->grid * t->grid * d->n_image;
    const size_t sample_bytes = (size_t)s->n * sizeof(msi_wproj_sample);
    const int64_t axis = (int64_t)(t->oversample + 1) * d->taps, n_table = (d->full ? axis * axis : axis) * t->n_plane;
    s->per_plane = n_table / t->n_plane;
    std::vector<int32_t> taps((size_t)t->n_plane, d->taps);
    std::vector<int64_t> offset((size_t)t->n_plane);
    for (int p = 0; p < t->n_plane; p++) offset[(size_t)p] = p * s->per_plane;
    MSI_CUDA(cudaMalloc(&s->d_table, (size_t)n_table * sizeof(msi_c32)));
    MSI_CUDA(cudaMalloc(&s->d_taps, taps.size() * sizeof taps[0]));
    MSI_CUDA(cudaMalloc(&s->d_offset, offset.size() * sizeof offset[0]));
    MSI_CUDA(cudaMalloc(&s->d_grid, (size_t)n_grid * sizeof(msi_c32)));
    if (d->mapped) {
        MSI_CUDA(cudaHostAlloc(&s->h_sample, sample_bytes, cudaHostAllocMapped));
        MSI_CUDA(cudaHostAlloc(&s->h_value, (size_t)n_value * sizeof(msi_c32), cudaHostAllocMapped));
        MSI_CUDA(cudaHostGetDevicePointer(&s->job.value, s->h_value, 0));
        MSI_CUDA(cudaHostGetDevicePointer((void **)&s->job.sample, s->h_sample, 0));
    } else {
        MSI_CUDA(cudaMalloc(&s->d_sample, sample_bytes));
        MSI_CUDA(cudaMalloc(&s->d_value, (size_t)n_value * sizeof(msi_c32)));
        s->job.sample = (const msi_wproj_sample *)s->d_sample;
        s->job.value = s->d_value;
    }
    MSI_CUDA(cudaMemcpy((void *)s->job.sample, s->sample.data(), sample_bytes, cudaMemcpyDefault));
    MSI_CUDA(cudaMemcpy(s->d_taps, taps.data(), taps.size() * sizeof taps[0], cudaMemcpyHostToDevice));
    MSI_CUDA(cudaMemcpy(s->d_offset, offset.data(), offset.size() * sizeof offset[0], cudaMemcpyHostToDevice));
    MSI_TRY(fill(s->d_table, 2 * n_table, TABLE_SEED));
    MSI_TRY(fill(s->job.value, 2 * n_value, s->value_seed));
    MSI_TRY(fill(s->d_grid, 2 * n_grid, GRID_SEED));
    s->job.precision = MSI_FP32;
    s->job.n_image = d->n_image;
    s->job.nu = s->job.nv = t->grid;
    s->job.n_vis = s->n;
    s->job.grid = s->d_grid;
    s->job.kernels = {d->full,
                      MSI_WPROJ_NEAREST,
                      t->n_plane,
                      t->oversample,
                      d->taps,
                      (const int32_t *)s->d_taps,
                      (const int64_t *)s->d_offset,
                      (const int64_t *)s->d_offset,
                      s->d_table,
                      0,
                      0,
                      0,
                      nullptr};
    return MSI_OK;
}

int launch(const state *s, const msi_wproj_job *job, cudaStream_t stream)
{
    return s->d->degrid ? msi_window_degrid_cuda(job, &s->shape, stream) : msi_window_grid_cuda(job, &s->shape, stream);
}

/* Launch all samples at once, or pieces of them on several streams. */
int launch_all(const state *s)
{
    const int n_stream = s->d->n_stream;
    if (n_stream == 1) return launch(s, &s->job, s->stream[0]);
    for (int i = 0; i < PIECES * n_stream; i++) {
        const int64_t first = s->n * i / (PIECES * n_stream), last = s->n * (i + 1) / (PIECES * n_stream);
        msi_wproj_job piece = s->job;
        piece.sample += first;
        piece.value = (msi_c32 *)piece.value + first * piece.n_image;
        piece.n_vis = last - first;
        MSI_TRY(launch(s, &piece, s->stream[i % n_stream]));
    }
    return MSI_OK;
}

int time_once(state *s, double *ms)
{
    float elapsed;
    MSI_CUDA(cudaEventRecord(s->begin, s->stream[0]));
    for (int i = 1; i < s->d->n_stream; i++) MSI_CUDA(cudaStreamWaitEvent(s->stream[i], s->begin, 0));
    MSI_TRY(launch_all(s));
    for (int i = 1; i < s->d->n_stream; i++) {
        MSI_CUDA(cudaEventRecord(s->done[i], s->stream[i]));
        MSI_CUDA(cudaStreamWaitEvent(s->stream[0], s->done[i], 0));
    }
    MSI_CUDA(cudaEventRecord(s->end, s->stream[0]));
    MSI_CUDA(cudaEventSynchronize(s->end));
    MSI_CUDA(cudaEventElapsedTime(&elapsed, s->begin, s->end));
    *ms = elapsed;
    return MSI_OK;
}

/* Time a shape by the faster of two runs, because the first run of a kernel loads it. */
int time_shape(void *context, const msi_window_shape *shape, double *ms)
{
    state *s = (state *)context;
    double again_ms;
    s->shape = *shape;
    MSI_TRY(time_once(s, ms));
    MSI_TRY(time_once(s, &again_ms));
    *ms = std::min(*ms, again_ms);
    return MSI_OK;
}

int choose_shape(state *s)
{
    const detail *d = s->d;
    msi_window_shape shape[MSI_WINDOW_MAX_SHAPES];
    const int n = d->degrid ? msi_window_degrid_shapes(&s->job, shape) : msi_window_grid_shapes(&s->job, shape);
    if (n == 0) return msi_error_set(MSI_EINTERNAL, "no shape for %d images", d->n_image);
    const msi_window_case problem = {"", d->degrid, MSI_FP32, d->n_image, d->full, MSI_WPROJ_NEAREST, d->taps};
    if (d->shape == UNCOARSENED) {
        for (int i = 1; i < n; i++)
            if (shape[i].coarsen_u * shape[i].coarsen_v * shape[i].blocks_v <
                shape[0].coarsen_u * shape[0].coarsen_v * shape[0].blocks_v)
                shape[0] = shape[i];
        s->shape = shape[0];
        s->shape.n_vis = 512;
        return MSI_OK;
    }
    if (d->shape == GUESSED) {
        s->shape = msi_window_tuning_estimate(&problem, shape, n);
        return MSI_OK;
    }
    /* The path of the cache cannot be written, so every run of the program measures again. */
    msi_window_shape best;
    int64_t all = s->job.n_vis;
    s->job.n_vis = s->n = std::min(all, MOST_MEASURED);
    const msi_window_trials trials = {shape, n, INT32_MAX, time_shape, s, "/dev/null/none"};
    int rc = msi_window_tuning_choose(&best, &problem, &trials);
    s->job.n_vis = s->n = all;
    s->shape = best;
    return rc;
}

/* Set up a device's part. All devices use the shape found on the first one. */
int set_up_part(state *s, const msi_bench_options *options, int k, const state *lead)
{
    MSI_CUDA(cudaSetDevice(s->device));
    MSI_TRY(make_samples(s, options->scale, k, lead->n_part));
    MSI_TRY(allocate(s));
    for (cudaStream_t &stream : s->stream) MSI_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (cudaEvent_t *event : {&s->begin, &s->end, &s->done[0], &s->done[1]}) MSI_CUDA(cudaEventCreate(event));
    if (s->d->degrid) MSI_TRY(msi_window_operands_create(&s->operands, &s->job, nullptr));
    s->job.kernels.operands = s->operands;
    MSI_CUDA(cudaDeviceSynchronize());
    s->shape = lead->shape;
    return k ? MSI_OK : choose_shape(s);
}

int set_up(void **out, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    state *s = new state{};
    int64_t n = 0;
    *out = s;
    s->d = static_cast<const detail *>(row->detail);
    s->n_part = s->d->team ? std::max(options->n_gpu, 1) : 1;
    for (int k = 0; k < s->n_part; k++) {
        state *p = s->part[k] = k ? new state{} : s;
        p->d = s->d;
        p->device = s->d->team ? options->gpu[k] : 0;
        MSI_TRY(set_up_part(p, options, k, s));
        n += p->n;
    }
    MSI_CUDA(cudaSetDevice(s->device));
    const double part = (double)n / (double)s->tracks.n;
    work->n_vis = (int64_t)((double)s->tracks.n_before_merging * part);
    work->n_addition = (double)n * s->d->taps * s->d->taps * s->d->n_image;
    return MSI_OK;
}

int64_t grid_numbers(const state *s)
{
    return 2 * (int64_t)s->tracks.grid * s->tracks.grid * s->d->n_image;
}

int clear_grid(const state *s)
{
    MSI_CUDA(cudaSetDevice(s->device));
    MSI_CUDA(cudaMemset(s->d_grid, 0, (size_t)grid_numbers(s) * sizeof(float)));
    MSI_CUDA(cudaDeviceSynchronize());
    return MSI_OK;
}

/* ---- Teams ------------------------------------------------------------------------------------------------------ */

/* Launches return at once, so one thread can keep all devices busy. */
int grid_parts(const state *lead)
{
    for (int k = 0; k < lead->n_part; k++) {
        MSI_CUDA(cudaSetDevice(lead->part[k]->device));
        MSI_TRY(launch_all(lead->part[k]));
    }
    for (int k = 0; k < lead->n_part; k++) MSI_CUDA(cudaStreamSynchronize(lead->part[k]->stream[0]));
    return MSI_OK;
}

/* Return the first number of device k's slice of a grid. */
int64_t slice_at(const state *lead, int64_t k)
{
    return grid_numbers(lead) * k / lead->n_part;
}

float *slice_of(const state *p, int64_t first)
{
    return static_cast<float *>(p->d_grid) + first;
}

/* Add the grids of the other devices to the grid of device k, in its slice. */
int add_slice(void *of, int64_t k)
{
    const state *lead = static_cast<const state *>(of), *own = lead->part[k];
    const msi_gpu_stream on = {own->device, own->stream[0]};
    const int64_t first = slice_at(lead, k), n = slice_at(lead, k + 1) - first;
    for (int i = 0; i < lead->n_part; i++) {
        const state *p = lead->part[i];
        if (p != own) MSI_TRY(msi_gpu_peer_add(&on, slice_of(own, first), slice_of(p, first), p->device, n, MSI_FP32));
    }
    return MSI_OK;
}

int run_team(state *s, double *ms)
{
    msi_ordered_parallel sum = {};
    sum.n_item = sum.n_thread = s->n_part;
    sum.work = add_slice;
    sum.of = s;
    const double start = msi_wall_s();
    MSI_TRY(grid_parts(s));
    if (s->n_part > 1) MSI_TRY(msi_ordered_parallel_run(&sum));
    *ms = 1e3 * (msi_wall_s() - start);
    return MSI_OK;
}

int run(void *in, msi_bench_work *work, msi_bench_time *time)
{
    state *s = static_cast<state *>(in);
    for (int k = 0; k < s->n_part && !s->d->degrid; k++) MSI_TRY(clear_grid(s->part[k]));
    MSI_CUDA(cudaSetDevice(s->device));
    MSI_CUDA(cudaDeviceSynchronize());
    time->sort_ms = 0;
    MSI_TRY(s->d->team ? run_team(s, &time->kernel_ms) : time_once(s, &time->kernel_ms));
    int n = 0;
    if (s->d->team) n = snprintf(work->note, sizeof work->note, "%d GPUs; ", s->n_part);
    snprintf(work->note + n, sizeof work->note - (size_t)n,
             "%s; %s%d x %d x %d cells, %d images a thread, groups of %d", s->d->note,
             s->shape.variant == MSI_WINDOW_TENSOR ? "tensor cores, " : "", (int)s->shape.coarsen_u,
             (int)s->shape.coarsen_v, (int)s->shape.blocks_v, (int)s->shape.images, (int)s->shape.n_vis);
    return MSI_OK;
}

/* ---- References ------------------------------------------------------------------------------------------------- */

void add_to(msi_c64 *sum, msi_c64 x)
{
    sum->re += x.re;
    sum->im += x.im;
}

/* Sums of squares: of the differences from the reference, and of the reference. */
struct squares {
    double off, all;
    void compare(msi_c64 x, msi_c64 truth)
    {
        off += (x.re - truth.re) * (x.re - truth.re) + (x.im - truth.im) * (x.im - truth.im);
        all += truth.re * truth.re + truth.im * truth.im;
    }
};

/* A square of cells of every image. */
struct square {
    msi_c64 cell[TILE][TILE][MAX_IMAGES];
};

/* Add sample i to the square of cells that begins at (u, v). */
void add_sample(const state *s, int64_t i, int32_t u, int32_t v, square *sum)
{
    const detail *d = s->d;
    const msi_wproj_sample &x = s->sample[(size_t)i];
    const int du = u - x.u + d->taps / 2, dv = v - x.v + d->taps / 2;
    if (du <= -TILE || dv <= -TILE || du >= d->taps || dv >= d->taps) return;
    msi_c64 value[MAX_IMAGES];
    for (int p = 0; p < d->n_image; p++) value[p] = complex_at(s->value_seed, i * d->n_image + p);
    for (int b = std::max(0, -dv); b < std::min(TILE, d->taps - dv); b++)
        for (int a = std::max(0, -du); a < std::min(TILE, d->taps - du); a++) {
            const msi_c64 k = kernel_at(s, x, du + a, dv + b);
            for (int p = 0; p < d->n_image; p++) add_to(&sum->cell[b][a][p], times(k, value[p]));
        }
}

/* Sum the expected values of a square of cells, from all devices' samples. */
void sum_square(const state *s, int32_t u, int32_t v, square *truth)
{
    const detail *d = s->d;
    for (int k = 0; k < s->n_part; k++) {
        const state *own = s->part[k];
#pragma omp parallel
        {
            square part = {};
#pragma omp for nowait
            for (int64_t i = 0; i < own->n; i++) add_sample(own, i, u, v, &part);
#pragma omp critical
            for (int b = 0; b < TILE; b++)
                for (int a = 0; a < TILE; a++)
                    for (int p = 0; p < d->n_image; p++) add_to(&truth->cell[b][a][p], part.cell[b][a][p]);
        }
    }
}

/* Return the device with the sum of a cell. */
const state *holder_of(const state *s, int64_t cell)
{
    int k = 0;
    while (2 * cell * s->d->n_image >= slice_at(s, k + 1)) k++;
    return s->part[k];
}

/* Check a few squares of cells around samples, by the sum of all samples that touch them. */
int verify_grid(state *s, squares *sum)
{
    const detail *d = s->d;
    const int64_t n_grid = s->tracks.grid;
    for (int t = 0; t < N_TILE; t++) {
        const state *own = s->part[t % s->n_part];
        const msi_wproj_sample &about = own->sample[(size_t)((own->n - 1) * t / (N_TILE - 1))];
        square truth = {};
        sum_square(s, about.u, about.v, &truth);
        for (int b = 0; b < TILE; b++)
            for (int a = 0; a < TILE; a++) {
                msi_c32 got[MAX_IMAGES];
                const int64_t at = msi_wproj_wrap(about.v + b, n_grid) * n_grid + msi_wproj_wrap(about.u + a, n_grid);
                MSI_CUDA(cudaMemcpy(got, (msi_c32 *)holder_of(s, at)->d_grid + at * d->n_image,
                                    (size_t)d->n_image * sizeof(msi_c32), cudaMemcpyDeviceToHost));
                for (int p = 0; p < d->n_image; p++) sum->compare({got[p].re, got[p].im}, truth.cell[b][a][p]);
            }
    }
    return MSI_OK;
}

/* Degrid sample i from the grid of random numbers. */
void sum_footprint(const state *s, int64_t i, msi_c64 *truth)
{
    const detail *d = s->d;
    const int64_t n_grid = s->tracks.grid;
    const msi_wproj_sample &x = s->sample[(size_t)i];
    for (int b = 0; b < d->taps; b++)
        for (int a = 0; a < d->taps; a++) {
            msi_c64 k = kernel_at(s, x, a, b);
            k.im = -k.im;
            const int64_t at =
                msi_wproj_wrap(x.v - d->taps / 2 + b, n_grid) * n_grid + msi_wproj_wrap(x.u - d->taps / 2 + a, n_grid);
            for (int p = 0; p < d->n_image; p++)
                add_to(&truth[p], times(k, complex_at(GRID_SEED, at * d->n_image + p)));
        }
}

/* Check samples from the first to the last, evenly spread. */
int verify_degrid(state *s, squares *sum)
{
    const detail *d = s->d;
    const int64_t n_checked = std::min<int64_t>(N_CHECKED, s->n);
    auto sample_of = [&](int64_t c) { return n_checked > 1 ? (s->n - 1) * c / (n_checked - 1) : 0; };
    std::vector<msi_c64> truth((size_t)(n_checked * d->n_image));
#pragma omp parallel for
    for (int64_t c = 0; c < n_checked; c++) sum_footprint(s, sample_of(c), &truth[(size_t)(c * d->n_image)]);
    for (int64_t c = 0; c < n_checked; c++) {
        msi_c32 got[MAX_IMAGES];
        MSI_CUDA(cudaMemcpy(got, (msi_c32 *)s->job.value + sample_of(c) * d->n_image,
                            (size_t)d->n_image * sizeof(msi_c32), cudaMemcpyDefault));
        for (int p = 0; p < d->n_image; p++) sum->compare({got[p].re, got[p].im}, truth[(size_t)(c * d->n_image + p)]);
    }
    return MSI_OK;
}

int verify(void *in, double *error)
{
    state *s = static_cast<state *>(in);
    squares sum = {};
    MSI_TRY(s->d->degrid ? verify_degrid(s, &sum) : verify_grid(s, &sum));
    *error = sqrt(sum.off / sum.all);
    return MSI_OK;
}

void free_part(state *s)
{
    if (cudaSetDevice(s->device) != cudaSuccess) cudaGetLastError();
    for (void *p : {s->d_sample, s->d_value, s->d_grid, s->d_table, s->d_taps, s->d_offset}) cudaFree(p);
    msi_window_operands_free(s->operands);
    cudaFreeHost(s->h_sample);
    cudaFreeHost(s->h_value);
    for (cudaStream_t stream : s->stream)
        if (stream) cudaStreamDestroy(stream);
    for (cudaEvent_t event : {s->begin, s->end, s->done[0], s->done[1]})
        if (event) cudaEventDestroy(event);
    msi_tracks_free(&s->tracks);
    delete s;
}

void free_state(void *in)
{
    state *s = static_cast<state *>(in);
    if (!s) return;
    for (int k = s->n_part - 1; k > 0; k--)
        if (s->part[k]) free_part(s->part[k]);
    if (cudaSetDevice(0) != cudaSuccess) cudaGetLastError();
    free_part(s);
}

const char romein[] = "tracks: 946 baselines, 16 channels, 2160 times; 2048^2, 4 polarisations, full tables";
const char merry[] = "merged: 2016 baselines, 3600 times; 4096^2, separable kernels";

constexpr detail full_tables(int taps, int merge, int n_stream, int mapped, order in, choice shape, const char *note,
                             int team = 0)
{
    return {ROMEIN, merge, 4, taps, 1, 0, n_stream, mapped, in, shape, note, team};
}

constexpr detail separable(int n_image, int taps, int degrid, int merge, order in, choice shape, const char *note)
{
    return {MERRY, merge, n_image, taps, 0, degrid, 1, 0, in, shape, note, 0};
}

const detail full_16 = full_tables(16, 0, 1, 0, TRACKS, MEASURED, "one stream");
const detail full_16_two = full_tables(16, 0, 2, 0, TRACKS, MEASURED, "two streams");
const detail full_16_merged = full_tables(16, 1, 1, 0, TRACKS, MEASURED, "merged; additions are those left");
const detail full_16_mapped = full_tables(16, 0, 1, 1, TRACKS, MEASURED, "samples in mapped host memory");
const detail full_16_times = full_tables(16, 0, 1, 0, TIMES, MEASURED, "time-major order");
const detail full_16_places = full_tables(16, 0, 1, 0, PLACES, MEASURED, "in order of place");
const detail full_24 = full_tables(24, 0, 1, 0, TRACKS, MEASURED, "one stream");
const detail full_32 = full_tables(32, 0, 1, 0, TRACKS, MEASURED, "one stream");
const detail full_48 = full_tables(48, 0, 1, 0, TRACKS, MEASURED, "one stream");
const detail full_64 = full_tables(64, 0, 1, 0, TRACKS, MEASURED, "one stream");
const detail full_64_two = full_tables(64, 0, 2, 0, TRACKS, MEASURED, "two streams");
const detail full_16_team = full_tables(16, 0, 1, 0, TRACKS, MEASURED, "the sum in slices", 1);
const detail full_64_team = full_tables(64, 0, 1, 0, TRACKS, MEASURED, "the sum in slices", 1);
const detail full_96 = full_tables(96, 0, 1, 0, TRACKS, MEASURED, "one stream");
const detail full_128 = full_tables(128, 0, 1, 0, TRACKS, MEASURED, "one stream");
const detail full_192 = full_tables(192, 0, 1, 0, TRACKS, MEASURED, "one stream");
const detail full_256 = full_tables(256, 0, 1, 0, TRACKS, MEASURED, "one stream");
const detail full_256_two = full_tables(256, 0, 2, 0, TRACKS, MEASURED, "two streams");

const detail grid_4_60 = separable(4, 60, 0, 1, TRACKS, MEASURED, "merged, tuned");
const detail grid_4_60_guess = separable(4, 60, 0, 1, TRACKS, GUESSED, "merged, not tuned");
const detail grid_4_60_fine = separable(4, 60, 0, 1, TRACKS, UNCOARSENED, "merged, fewest cells a thread");
const detail grid_4_60_all = separable(4, 60, 0, 0, TRACKS, MEASURED, "not merged");
const detail grid_4_60_times = separable(4, 60, 0, 0, TIMES, MEASURED, "not merged, time-major order");
const detail grid_4_60_places = separable(4, 60, 0, 0, PLACES, MEASURED, "not merged, in order of place");
const detail grid_1_60 = separable(1, 60, 0, 1, TRACKS, MEASURED, "merged, tuned");
const detail grid_4_28 = separable(4, 28, 0, 1, TRACKS, MEASURED, "merged, tuned");
const detail grid_1_28 = separable(1, 28, 0, 1, TRACKS, MEASURED, "merged, tuned");
const detail grid_1_28_guess = separable(1, 28, 0, 1, TRACKS, GUESSED, "merged, not tuned");
const detail degrid_4_60 = separable(4, 60, 1, 1, TRACKS, MEASURED, "merged, tuned");
const detail degrid_4_60_guess = separable(4, 60, 1, 1, TRACKS, GUESSED, "merged, not tuned");
const detail degrid_4_60_times = separable(4, 60, 1, 0, TIMES, MEASURED, "not merged, time-major order");
const detail degrid_4_60_places = separable(4, 60, 1, 0, PLACES, MEASURED, "not merged, in order of place");
const detail degrid_1_60 = separable(1, 60, 1, 1, TRACKS, MEASURED, "merged, tuned");
const detail degrid_1_60_guess = separable(1, 60, 1, 1, TRACKS, GUESSED, "merged, not tuned");
const detail degrid_4_28 = separable(4, 28, 1, 1, TRACKS, MEASURED, "merged, tuned");
const detail degrid_4_28_guess = separable(4, 28, 1, 1, TRACKS, GUESSED, "merged, not tuned");
const detail degrid_1_28 = separable(1, 28, 1, 1, TRACKS, MEASURED, "merged, tuned");
const detail degrid_1_28_guess = separable(1, 28, 1, 1, TRACKS, GUESSED, "merged, not tuned");

#define ROW(NAME, WORKLOAD, DIRECTION, DETAIL)                                                                         \
    {                                                                                                                  \
        NAME, WORKLOAD, "wproj", "window", DIRECTION, "cuda", "fp32", 1e-5, &DETAIL, set_up, run, verify, free_state   \
    }

const msi_bench_row rows[] = {ROW("tracks/16", romein, "grid", full_16),
                              ROW("tracks/16-two-streams", romein, "grid", full_16_two),
                              ROW("tracks/16-merged", romein, "grid", full_16_merged),
                              ROW("tracks/16-mapped", romein, "grid", full_16_mapped),
                              ROW("tracks/16-time-major", romein, "grid", full_16_times),
                              ROW("tracks/16-by-place", romein, "grid", full_16_places),
                              ROW("tracks/24", romein, "grid", full_24),
                              ROW("tracks/32", romein, "grid", full_32),
                              ROW("tracks/48", romein, "grid", full_48),
                              ROW("tracks/64", romein, "grid", full_64),
                              ROW("tracks/64-two-streams", romein, "grid", full_64_two),
                              ROW("tracks/16-team", romein, "grid", full_16_team),
                              ROW("tracks/64-team", romein, "grid", full_64_team),
                              ROW("tracks/96", romein, "grid", full_96),
                              ROW("tracks/128", romein, "grid", full_128),
                              ROW("tracks/192", romein, "grid", full_192),
                              ROW("tracks/256", romein, "grid", full_256),
                              ROW("tracks/256-two-streams", romein, "grid", full_256_two),
                              ROW("merged/grid-4pol-60", merry, "grid", grid_4_60),
                              ROW("merged/grid-4pol-60-untuned", merry, "grid", grid_4_60_guess),
                              ROW("merged/grid-4pol-60-uncoarsened", merry, "grid", grid_4_60_fine),
                              ROW("merged/grid-4pol-60-unmerged", merry, "grid", grid_4_60_all),
                              ROW("merged/grid-4pol-60-time-major", merry, "grid", grid_4_60_times),
                              ROW("merged/grid-4pol-60-by-place", merry, "grid", grid_4_60_places),
                              ROW("merged/grid-1pol-60", merry, "grid", grid_1_60),
                              ROW("merged/grid-4pol-28", merry, "grid", grid_4_28),
                              ROW("merged/grid-1pol-28", merry, "grid", grid_1_28),
                              ROW("merged/grid-1pol-28-untuned", merry, "grid", grid_1_28_guess),
                              ROW("merged/degrid-4pol-60", merry, "degrid", degrid_4_60),
                              ROW("merged/degrid-4pol-60-untuned", merry, "degrid", degrid_4_60_guess),
                              ROW("merged/degrid-4pol-60-time-major", merry, "degrid", degrid_4_60_times),
                              ROW("merged/degrid-4pol-60-by-place", merry, "degrid", degrid_4_60_places),
                              ROW("merged/degrid-1pol-60", merry, "degrid", degrid_1_60),
                              ROW("merged/degrid-1pol-60-untuned", merry, "degrid", degrid_1_60_guess),
                              ROW("merged/degrid-4pol-28", merry, "degrid", degrid_4_28),
                              ROW("merged/degrid-4pol-28-untuned", merry, "degrid", degrid_4_28_guess),
                              ROW("merged/degrid-1pol-28", merry, "degrid", degrid_1_28),
                              ROW("merged/degrid-1pol-28-untuned", merry, "degrid", degrid_1_28_guess)};

} // namespace

extern "C" msi_bench_table msi_tracks_rows_cuda(void)
{
    return {rows, (int)(sizeof rows / sizeof rows[0])};
}
