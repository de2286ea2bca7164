/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Workload C on a GPU: every strategy, size and precision; sorted and not; from a thousand points to 10^8. */
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "kernels/bench/workload_points.h"
#include "kernels/degrid/wproj_gather_cuda.h"
#include "kernels/degrid/wproj_scatter_cuda.h"
#include "kernels/degrid/wproj_window_table_cuda.h"
#include "kernels/grid/cuda_check.h"

namespace {

constexpr int BLOCK = 256, MOST_ROWS = 256, NAME = 48;
constexpr double DEFAULT_POINTS = 1e6, HBM_BYTES_PER_S = 4.5e12;
constexpr int64_t VERIFIED_TAPS = 1 << 24;

enum strategy { GATHER, SCATTER, WINDOW };

struct detail {
    strategy how;
    msi_gather_form form;
    int unsorted;
    int32_t taps;
    msi_precision precision;
    double points;
    int evaluated; /* the convolution function is computed */
    msi_gather_phase phase;
};

struct state {
    const detail *d;
    msi_window_job job;
    msi_gather *gather;
    msi_scatter *scatter;
    msi_window_table *window;
    void *memory[6];
    cudaEvent_t begin, sorted, end;
};

template <typename C> __global__ void k_values(C *out, int64_t n, uint64_t stream)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    msi_c32 x = msi_points_value(stream, (uint64_t)i);
    out[i] = {x.re, x.im};
}

__global__ void k_samples(msi_window_sample *out, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) out[i] = msi_points_sample((uint64_t)i);
}

unsigned blocks_for(int64_t n)
{
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

/* Device memory for n random complex numbers of a stream. */
int make_values(void **out, int64_t n, uint64_t stream, msi_precision precision)
{
    const bool fp32 = precision == MSI_FP32;
    MSI_CUDA(cudaMalloc(out, (size_t)n * (fp32 ? sizeof(msi_c32) : sizeof(msi_c64))));
    if (fp32)
        k_values<<<blocks_for(n), BLOCK>>>((msi_c32 *)*out, n, stream);
    else
        k_values<<<blocks_for(n), BLOCK>>>((msi_c64 *)*out, n, stream);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int make_job(state *s, int64_t n)
{
    const detail *d = s->d;
    msi_window_job &job = s->job;
    const int64_t cells = (int64_t)MSI_POINTS_CELLS * MSI_POINTS_CELLS, squares = MSI_POINTS_OVERSAMPLE + 1;
    const int64_t zero = 0;
    job = {};
    job.precision = d->precision;
    job.n_image = 1;
    job.nu = job.nv = MSI_POINTS_CELLS;
    job.n_vis = n;
    job.kernels.full = 1;
    job.kernels.n_plane = 1;
    job.kernels.oversample = MSI_POINTS_OVERSAMPLE;
    job.kernels.max_taps = d->taps;
    MSI_TRY(make_values(&s->memory[0], cells, MSI_POINTS_IMAGE, d->precision));
    MSI_TRY(make_values(&s->memory[1], squares * squares * d->taps * d->taps, MSI_POINTS_TABLE, d->precision));
    MSI_CUDA(cudaMalloc(&s->memory[2], (size_t)n * sizeof(msi_window_sample)));
    MSI_CUDA(cudaMalloc(&s->memory[3], (size_t)n * sizeof(msi_c64)));
    MSI_CUDA(cudaMalloc(&s->memory[4], sizeof d->taps));
    MSI_CUDA(cudaMalloc(&s->memory[5], sizeof zero));
    MSI_CUDA(cudaMemcpy(s->memory[4], &d->taps, sizeof d->taps, cudaMemcpyHostToDevice));
    MSI_CUDA(cudaMemcpy(s->memory[5], &zero, sizeof zero, cudaMemcpyHostToDevice));
    k_samples<<<blocks_for(n), BLOCK>>>((msi_window_sample *)s->memory[2], n);
    MSI_CUDA(cudaGetLastError());
    job.grid = s->memory[0];
    job.kernels.table = s->memory[1];
    job.sample = (const msi_window_sample *)s->memory[2];
    job.value = s->memory[3];
    job.kernels.taps = (const int32_t *)s->memory[4];
    job.kernels.offset_u = job.kernels.offset_v = (const int64_t *)s->memory[5];
    return MSI_OK;
}

void describe(const state *s, msi_bench_work *work)
{
    static const char *const form[] = {"in the order given", "by place", "by strip", "by tile"};
    const double bound = msi_points_bound_ms(s->d->taps, work->n_vis, s->d->precision, HBM_BYTES_PER_S);
    int at = snprintf(work->note, sizeof work->note, "memory's bound %.3f ms", bound);
    if (s->gather)
        at += snprintf(work->note + at, sizeof work->note - (size_t)at, "; %s", form[msi_gather_form_of(s->gather)]);
    if (s->d->evaluated)
        snprintf(work->note + at, sizeof work->note - (size_t)at, "; evaluated in %s, polynomial of %d steps",
                 s->d->phase.precision == MSI_FP32 ? "fp32" : "fp64", s->d->phase.n_polynomial);
}

int set_up(void **out, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    state *s = new state{};
    *out = s;
    s->d = (const detail *)row->detail;
    work->n_vis = std::max<int64_t>(1, (int64_t)(s->d->points * options->scale));
    work->n_addition = (double)work->n_vis * s->d->taps * s->d->taps;
    MSI_TRY(make_job(s, work->n_vis));
    if (s->d->how == GATHER) MSI_TRY(msi_gather_create(&s->gather, &s->job, s->d->form));
    if (s->d->how == SCATTER) MSI_TRY(msi_scatter_create(&s->scatter, &s->job));
    if (s->d->how == WINDOW) MSI_TRY(msi_window_table_create(&s->window, &s->job));
    MSI_CUDA(cudaEventCreate(&s->begin));
    MSI_CUDA(cudaEventCreate(&s->sorted));
    MSI_CUDA(cudaEventCreate(&s->end));
    describe(s, work);
    return MSI_OK;
}

int sort(state *s)
{
    if (s->gather) return msi_gather_sort(s->gather, &s->job, nullptr);
    if (s->scatter) return msi_scatter_sort(s->scatter, &s->job, nullptr);
    return s->d->unsorted ? MSI_OK : msi_window_table_sort(s->window, &s->job, nullptr);
}

int degrid_all(state *s)
{
    if (s->gather && s->d->evaluated) return msi_gather_degrid_phase(s->gather, &s->job, &s->d->phase, nullptr);
    if (s->gather) return msi_gather_degrid(s->gather, &s->job, nullptr);
    if (s->scatter) return msi_scatter_degrid(s->scatter, &s->job, nullptr);
    return msi_window_table_degrid(s->window, &s->job, !s->d->unsorted, nullptr);
}

int run(void *state_, msi_bench_work *, msi_bench_time *time)
{
    state *s = (state *)state_;
    float sort_ms, kernel_ms;
    MSI_CUDA(cudaEventRecord(s->begin));
    MSI_TRY(sort(s));
    MSI_CUDA(cudaEventRecord(s->sorted));
    MSI_TRY(degrid_all(s));
    MSI_CUDA(cudaEventRecord(s->end));
    MSI_CUDA(cudaEventSynchronize(s->end));
    MSI_CUDA(cudaEventElapsedTime(&sort_ms, s->begin, s->sorted));
    MSI_CUDA(cudaEventElapsedTime(&kernel_ms, s->sorted, s->end));
    *time = {sort_ms, kernel_ms};
    return MSI_OK;
}

/* Points spread over the whole list, as many as a second or so of the reference allows. */
int verify(void *state_, double *error)
{
    state *s = (state *)state_;
    const int32_t taps = s->d->taps;
    const int64_t n = s->job.n_vis, most = VERIFIED_TAPS / ((int64_t)taps * taps);
    const int64_t n_point = std::min<int64_t>(n, std::clamp<int64_t>(most, 32, 4096));
    const bool fp32 = s->d->precision == MSI_FP32;
    double difference = 0, norm = 0;
    std::vector<char> value((size_t)n * (fp32 ? sizeof(msi_c32) : sizeof(msi_c64)));
    MSI_CUDA(cudaMemcpy(value.data(), s->job.value, value.size(), cudaMemcpyDeviceToHost));
#pragma omp parallel for reduction(+ : difference, norm) schedule(dynamic)
    for (int64_t k = 0; k < n_point; k++) {
        const int64_t i = k * n / n_point;
        const msi_c64 exact = msi_points_reference(taps, (uint64_t)i, s->d->evaluated ? &s->d->phase : nullptr);
        msi_c64 found;
        if (fp32) {
            msi_c32 x = ((const msi_c32 *)value.data())[i];
            found = {x.re, x.im};
        } else {
            found = ((const msi_c64 *)value.data())[i];
        }
        difference += pow(found.re - exact.re, 2) + pow(found.im - exact.im, 2);
        norm += exact.re * exact.re + exact.im * exact.im;
    }
    *error = sqrt(difference / norm);
    return MSI_OK;
}

void free_state(void *state_)
{
    state *s = (state *)state_;
    if (!s) return;
    msi_gather_free(s->gather);
    msi_scatter_free(s->scatter);
    msi_window_table_free(s->window);
    for (void *p : s->memory) cudaFree(p);
    if (s->begin) cudaEventDestroy(s->begin);
    if (s->sorted) cudaEventDestroy(s->sorted);
    if (s->end) cudaEventDestroy(s->end);
    delete s;
}

struct row_list {
    msi_bench_row row[MOST_ROWS];
    detail details[MOST_ROWS];
    char name[MOST_ROWS][NAME];
    int n;
};

void add_row(row_list *l, const char *what, const char *after, const detail &d)
{
    static const char *const strategy_name[] = {"gather", "scatter", "window"};
    if (l->n == MOST_ROWS) return;
    const int i = l->n++;
    const bool fp32 = d.precision == MSI_FP32;
    /* Rounding of a sum of so many random terms is far below 1e-6; evaluated phases of some turns lose another digit.
     */
    const bool coarse = fp32 || (d.evaluated && d.phase.precision == MSI_FP32);
    snprintf(l->name[i], NAME, "C/%s-%d-%s%s", what, d.taps, fp32 ? "fp32" : "fp64", after);
    l->details[i] = d;
    l->row[i] = {};
    l->row[i].name = l->name[i];
    l->row[i].workload = "C: degridding random points, 8192^2 cells, tabulated kernels of 8x8 sub-positions";
    l->row[i].method = "wproj";
    l->row[i].strategy = strategy_name[d.how];
    l->row[i].direction = "degrid";
    l->row[i].backend = "cuda";
    l->row[i].precision = fp32 ? "fp32" : "fp64";
    l->row[i].tolerance = coarse ? 1e-5 : 1e-12;
    l->row[i].detail = &l->details[i];
    l->row[i].set_up = set_up;
    l->row[i].run = run;
    l->row[i].verify = verify;
    l->row[i].free_state = free_state;
}

void add_sizes(row_list *l, msi_precision precision)
{
    static const int32_t sizes[] = {8, 16, 32, 64, 96, 128, 160, 192, 256, 512};
    for (int32_t taps : sizes) {
        detail d = {GATHER, MSI_GATHER_AUTO, 0, taps, precision, DEFAULT_POINTS, 0, {}};
        add_row(l, "gather", "", d);
        d.form = MSI_GATHER_TILE;
        add_row(l, "gather-tile", "", d);
        if (taps == 8) {
            d.form = MSI_GATHER_STRIP;
            add_row(l, "gather-strip", "", d);
        }
        d.form = MSI_GATHER_PLACE;
        add_row(l, "gather-place", "", d);
        d.form = MSI_GATHER_GIVEN;
        add_row(l, "gather-unsorted", "", d);
        d.how = SCATTER;
        add_row(l, "scatter", "", d);
        if (taps < 32) continue;
        d.how = WINDOW;
        add_row(l, "window", "", d);
        d.unsorted = 1;
        add_row(l, "window-unsorted", "", d);
    }
}

void add_numbers(row_list *l, msi_precision precision)
{
    static const struct {
        double n;
        const char *name;
    } numbers[] = {{1e3, "-1e3"}, {1e4, "-1e4"}, {1e5, "-1e5"}, {1e6, "-1e6"}, {1e7, "-1e7"}, {1e8, "-1e8"}};
    for (int32_t taps : {32, 128})
        for (const auto &k : numbers) {
            if (k.n * taps * taps > 2e11) continue;
            detail d = {GATHER, MSI_GATHER_AUTO, 0, taps, precision, k.n, 0, {}};
            add_row(l, "gather", k.name, d);
            d.how = WINDOW;
            add_row(l, "window", k.name, d);
        }
}

void add_phases(row_list *l)
{
    for (int32_t taps : {32, 128})
        for (int steps : {0, 200}) {
            const char *after = steps ? "-polynomial" : "";
            detail d = {GATHER, MSI_GATHER_TILE, 0, taps, MSI_FP32, DEFAULT_POINTS, 1, {1, steps, MSI_FP32}};
            add_row(l, "gather-evaluated", after, d);
            d.precision = MSI_FP64;
            add_row(l, "gather-evaluated-in-fp32", after, d);
            d.phase.precision = MSI_FP64;
            add_row(l, "gather-evaluated", after, d);
        }
}

} /* namespace */

extern "C" msi_bench_table msi_points_rows_cuda(void)
{
    static row_list l;
    if (l.n == 0)
        for (msi_precision precision : {MSI_FP32, MSI_FP64}) {
            add_sizes(&l, precision);
            add_numbers(&l, precision);
            if (precision == MSI_FP32) add_phases(&l);
        }
    return {l.row, l.n};
}
