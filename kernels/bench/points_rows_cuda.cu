/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows points/: all strategies, sizes and precisions; sorted and unsorted; 10^3 to 10^8 points. */
#include <stdio.h>

#include <algorithm>

#include "kernels/bench/device_rows.cuh"
#include "kernels/bench/workload_tracks.h"
#include "kernels/wproj/points/wproj_points_cuda.h"

namespace {

constexpr double DEFAULT_POINTS = 1e6, HBM_BYTES_PER_S = 4.5e12;
constexpr int64_t VERIFIED_TAPS = 1 << 24;

enum strategy { GATHER, SCATTER, WINDOW };

struct detail {
    strategy method;
    msi_gather_form form;
    int unsorted;
    int32_t taps;
    msi_precision precision;
    double points;
    int evaluated; /* 1: the convolution function is computed, not tabulated */
    msi_gather_phase phase;
};

struct state {
    const detail *d;
    msi_wproj_job job;
    msi_gather *gather;
    msi_scatter *scatter;
    msi_window_table *window;
    buffer image, table, sample, value, taps, offset;
    run_timer timer;
};

/* Make random complex numbers of a stream. */
struct put_value {
    uint64_t stream;
    template <typename C> __device__ void operator()(C *out, int64_t i) const
    {
        const msi_c32 x = msi_points_value(stream, (uint64_t)i);
        *out = {x.re, x.im};
    }
};

struct put_sample {
    __device__ void operator()(msi_wproj_sample *out, int64_t i) const
    {
        *out = msi_points_sample((uint64_t)i);
    }
};

int make_job(state *s, int64_t n)
{
    const detail *d = s->d;
    msi_wproj_job &job = s->job;
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
    MSI_TRY((make_filled<msi_c32, msi_c64>(&s->image, cells, d->precision, put_value{MSI_POINTS_IMAGE})));
    MSI_TRY((make_filled<msi_c32, msi_c64>(&s->table, squares * squares * d->taps * d->taps, d->precision,
                                           put_value{MSI_POINTS_TABLE})));
    MSI_TRY(s->sample.fit(n * (int64_t)sizeof(msi_wproj_sample), "samples"));
    MSI_TRY(fill(as<msi_wproj_sample>(s->sample), n, put_sample{}));
    MSI_TRY(s->value.fit(n * (int64_t)sizeof(msi_c64), "visibilities"));
    MSI_TRY(upload(&s->taps, &d->taps, 1));
    MSI_TRY(upload(&s->offset, &zero, 1));
    job.grid = as<void>(s->image);
    job.kernels.table = as<void>(s->table);
    job.sample = as<msi_wproj_sample>(s->sample);
    job.value = as<void>(s->value);
    job.kernels.taps = as<int32_t>(s->taps);
    job.kernels.offset_u = job.kernels.offset_v = as<int64_t>(s->offset);
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
    const msi_gpu_stream gpu = {0, nullptr};
    if (s->d->method == GATHER) MSI_TRY(msi_gather_create(&s->gather, &gpu, &s->job, s->d->form));
    if (s->d->method == SCATTER) MSI_TRY(msi_scatter_create(&s->scatter, &gpu, &s->job));
    if (s->d->method == WINDOW) MSI_TRY(msi_window_table_create(&s->window, &gpu, &s->job));
    MSI_TRY(s->timer.make());
    describe(s, work);
    return MSI_OK;
}

int sort(state *s)
{
    if (s->gather) return msi_gather_sort(s->gather, &s->job);
    if (s->scatter) return msi_scatter_sort(s->scatter, &s->job);
    return s->d->unsorted ? MSI_OK : msi_window_table_sort(s->window, &s->job);
}

int degrid_all(state *s)
{
    if (s->gather && s->d->evaluated) return msi_gather_degrid_phase(s->gather, &s->job, &s->d->phase);
    if (s->gather) return msi_gather_degrid(s->gather, &s->job);
    if (s->scatter) return msi_scatter_degrid(s->scatter, &s->job);
    return msi_window_table_degrid(s->window, &s->job, !s->d->unsorted);
}

/* Sort and kernel may overlap, so they are timed together. The sort is timed again in a separate round, which ends with
 * the same kernel. */
int run_overlapping(state *s, msi_bench_time *time)
{
    msi_bench_time sorting = {}, both = {};
    MSI_TRY(s->timer.begin());
    MSI_TRY(sort(s));
    MSI_TRY(s->timer.end(&sorting));
    MSI_TRY(degrid_all(s));
    MSI_TRY(s->timer.begin());
    MSI_TRY(sort(s));
    MSI_TRY(degrid_all(s));
    MSI_TRY(s->timer.end(&both));
    time->sort_ms = sorting.kernel_ms;
    time->kernel_ms = both.kernel_ms - sorting.kernel_ms;
    return MSI_OK;
}

int run(void *state_, msi_bench_work *, msi_bench_time *time)
{
    state *s = (state *)state_;
    if (s->gather && msi_gather_form_of(s->gather) == MSI_GATHER_STRIP) return run_overlapping(s, time);
    MSI_TRY(s->timer.begin());
    MSI_TRY(sort(s));
    MSI_TRY(s->timer.sorted());
    MSI_TRY(degrid_all(s));
    return s->timer.end(time);
}

/* Check points spread over the whole list. Their number is limited so that the reference takes about a second. */
int verify(void *state_, double *error)
{
    state *s = (state *)state_;
    const int32_t taps = s->d->taps;
    const int64_t n = s->job.n_vis, most = VERIFIED_TAPS / ((int64_t)taps * taps);
    const int64_t n_point = std::min<int64_t>(n, std::clamp<int64_t>(most, 32, 4096));
    const msi_gather_phase *phase = s->d->evaluated ? &s->d->phase : nullptr;
    auto exact = [=](int64_t i) { return msi_points_reference(taps, (uint64_t)i, phase); };
    return distance(s->job.value, n, s->d->precision, n_point, exact, error);
}

void free_state(void *state_)
{
    state *s = (state *)state_;
    if (!s) return;
    msi_gather_free(s->gather);
    msi_scatter_free(s->scatter);
    msi_window_table_free(s->window);
    delete s;
}

typedef row_list<detail> point_rows;

void add_row(point_rows *l, const char *what, const char *after, const detail &d)
{
    static const char *const strategy_name[] = {"gather", "scatter", "window"};
    const char *precision = d.precision == MSI_FP32 ? "fp32" : "fp64";
    /* The rounding error of a sum of this many random terms is far below 1e-6. Computed phases of several turns lose
     * one more digit. */
    const bool coarse = d.precision == MSI_FP32 || (d.evaluated && d.phase.precision == MSI_FP32);
    msi_bench_row row = {};
    row.workload = "points: degridding random points, 8192^2 cells, tabulated kernels of 8x8 sub-positions";
    row.method = "wproj";
    row.strategy = strategy_name[d.method];
    row.direction = "degrid";
    row.backend = "cuda";
    row.precision = precision;
    row.tolerance = coarse ? 1e-5 : 1e-12;
    row.set_up = set_up;
    row.run = run;
    row.verify = verify;
    row.free_state = free_state;
    row.no_energy = d.method == GATHER && d.taps <= 8;
    l->add(row, d, "points/%s-%d-%s%s", what, d.taps, precision, after);
}

void add_sizes(point_rows *l, msi_precision precision)
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
        d.method = SCATTER;
        add_row(l, "scatter", "", d);
        if (taps < 32) continue;
        d.method = WINDOW;
        add_row(l, "window", "", d);
        d.unsorted = 1;
        add_row(l, "window-unsorted", "", d);
    }
}

void add_numbers(point_rows *l, msi_precision precision)
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
            d.method = WINDOW;
            add_row(l, "window", k.name, d);
        }
}

void add_phases(point_rows *l)
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

} // namespace

extern "C" msi_bench_table msi_points_rows_cuda(void)
{
    static point_rows l;
    if (l.n == 0)
        for (msi_precision precision : {MSI_FP32, MSI_FP64}) {
            add_sizes(&l, precision);
            add_numbers(&l, precision);
            if (precision == MSI_FP32) add_phases(&l);
        }
    return {l.row, l.n};
}
