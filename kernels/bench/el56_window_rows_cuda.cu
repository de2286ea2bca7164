/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows el56/window: the moving window, baseline by baseline, for each class of kernel sizes. Some rows hold w constant
 * over several time steps of a baseline, as earlier codes did to be fast (SDP memo, Part II); they show time against
 * error.
 */
#include <stdio.h>

#include <algorithm>
#include <vector>

#include "kernels/bench/device_rows.cuh"
#include "kernels/bench/workload_el56.h"
#include "kernels/wproj/window/wproj_window_cuda.h"

namespace {

typedef struct detail {
    int n_step; /* number of time steps of a baseline that use the w of the middle one */
    const char *note;
    int by_time;     /* 1: samples in the order of a Measurement Set, time by time; 0: baseline by baseline */
    int guessed;     /* 1: shapes are not measured */
    int32_t n_group; /* number of visibilities of a work group; 0: the measured one */
} detail;

/* Largest half-support of each class. */
constexpr int32_t class_half[] = {6, 10, 14, 22, 30, 46, 72};
constexpr int N_CLASS = sizeof class_half / sizeof class_half[0];
constexpr int N_PART = 64;
constexpr int64_t MEASURED = 1 << 22; /* samples for measuring shapes; with few, small groups fill the GPU better */

struct state {
    const msi_el56 *e;
    const detail *d;
    std::vector<msi_wproj_sample> sample;
    std::vector<msi_c32> value;
    int64_t first[N_CLASS + 1];
    int32_t taps[N_CLASS]; /* largest number of taps of a class */
    msi_window_shape shape[N_CLASS];
    msi_wproj_kernels kernels;
    buffer d_taps, d_offset, d_table, d_sample, d_value, d_grid;
    run_timer timer;
};

int class_of(int32_t half)
{
    int c = 0;
    while (c < N_CLASS - 1 && half > class_half[c]) c++;
    return c;
}

/* Find sample i in the row's order. Returns its index in the workload. Returned: *p  its place, with w held constant */
int64_t sample_at(const state *s, int64_t i, msi_el56_place *p)
{
    const msi_el56 *e = s->e;
    const int64_t n_step = s->d->n_step;
    const int64_t b = s->d->by_time ? i % e->n_baseline : i / e->n_time;
    const int64_t t = s->d->by_time ? i / e->n_baseline : i % e->n_time;
    const int64_t block = t / n_step * n_step, middle = std::min(block + n_step / 2, e->n_time - 1);
    const msi_el56_place of_w = msi_el56_locate(e, middle * e->n_baseline + b);
    *p = msi_el56_locate(e, t * e->n_baseline + b);
    p->plane = of_w.plane;
    p->conjugate = of_w.conjugate;
    return t * e->n_baseline + b;
}

/* Collect the samples class by class, each class in the row's order. Threads process parts of the samples. */
void make_samples(state *s)
{
    const msi_el56 *e = s->e;
    int64_t next[N_PART][N_CLASS] = {};
    int32_t half[N_PART][N_CLASS] = {};
#pragma omp parallel for
    for (int part = 0; part < N_PART; part++)
        for (int64_t i = e->n_vis * part / N_PART; i < e->n_vis * (part + 1) / N_PART; i++) {
            msi_el56_place p;
            sample_at(s, i, &p);
            const int c = class_of(e->kernels.half[p.plane]);
            next[part][c]++;
            half[part][c] = std::max(half[part][c], e->kernels.half[p.plane]);
        }
    for (int c = 0; c < N_CLASS; c++) {
        s->first[c + 1] = s->first[c];
        for (int part = 0; part < N_PART; part++) {
            const int64_t n = next[part][c];
            next[part][c] = s->first[c + 1];
            s->first[c + 1] += n;
            s->taps[c] = std::max(s->taps[c], msi_wkernel_taps(half[part][c]));
        }
    }
    s->sample.resize((size_t)e->n_vis);
    s->value.resize((size_t)e->n_vis);
#pragma omp parallel for
    for (int part = 0; part < N_PART; part++)
        for (int64_t k = e->n_vis * part / N_PART; k < e->n_vis * (part + 1) / N_PART; k++) {
            msi_el56_place p;
            const int64_t i = sample_at(s, k, &p);
            const size_t at = (size_t)next[part][class_of(e->kernels.half[p.plane])]++;
            s->sample[at] = {p.u, p.v, (int16_t)p.sub_u, (int16_t)p.sub_v, (int16_t)p.plane, (int16_t)p.conjugate,
                             0,   0};
            s->value[at] = {e->weight[i] * e->vis[i].re, e->weight[i] * e->vis[i].im};
        }
}

int64_t grid_bytes(const msi_el56 *e)
{
    return (int64_t)e->nu * e->nv * (int64_t)sizeof(msi_c32);
}

int upload_all(state *s)
{
    const msi_wkernel_set *k = &s->e->kernels;
    std::vector<int32_t> taps((size_t)k->n_plane);
    for (int32_t p = 0; p < k->n_plane; p++) taps[(size_t)p] = msi_wkernel_taps(k->half[p]);
    MSI_TRY(upload(&s->d_taps, taps.data(), k->n_plane));
    MSI_TRY(upload(&s->d_offset, k->offset_u, k->n_plane));
    MSI_TRY(upload(&s->d_table, static_cast<const msi_c32 *>(k->table), k->n_element));
    MSI_TRY(upload(&s->d_sample, s->sample.data(), (int64_t)s->sample.size()));
    MSI_TRY(upload(&s->d_value, s->value.data(), (int64_t)s->value.size()));
    MSI_TRY(s->d_grid.fit(grid_bytes(s->e), "the grid"));
    MSI_TRY(s->timer.make());
    s->kernels = {};
    s->kernels.n_plane = k->n_plane;
    s->kernels.oversample = k->oversample;
    s->kernels.taps = as<int32_t>(s->d_taps);
    s->kernels.offset_u = s->kernels.offset_v = as<int64_t>(s->d_offset);
    s->kernels.table = as<void>(s->d_table);
    return MSI_OK;
}

msi_wproj_job job_of(const state *s, int c)
{
    msi_wproj_job job = {};
    job.precision = MSI_FP32;
    job.n_image = 1;
    job.nu = s->e->nu;
    job.nv = s->e->nv;
    job.n_vis = s->first[c + 1] - s->first[c];
    job.sample = as<msi_wproj_sample>(s->d_sample) + s->first[c];
    job.value = as<msi_c32>(s->d_value) + s->first[c];
    job.grid = as<void>(s->d_grid);
    job.kernels = s->kernels;
    job.kernels.max_taps = s->taps[c];
    return job;
}

struct measurement {
    state *s;
    msi_wproj_job job;
};

int time_shape(void *context, const msi_window_shape *shape, double *ms)
{
    const measurement *m = (const measurement *)context;
    msi_bench_time time;
    MSI_TRY(m->s->timer.begin());
    MSI_TRY(msi_window_grid_cuda(&m->job, shape, nullptr));
    MSI_TRY(m->s->timer.end(&time));
    *ms = time.kernel_ms;
    return MSI_OK;
}

int choose_shapes(state *s)
{
    for (int c = 0; c < N_CLASS; c++) {
        measurement m = {s, job_of(s, c)};
        if (m.job.n_vis == 0) continue;
        m.job.n_vis = std::min(m.job.n_vis, MEASURED);
        msi_window_shape shape[MSI_WINDOW_MAX_SHAPES];
        const int n = msi_window_grid_shapes(&m.job, shape);
        const msi_window_case problem = {"", 0, MSI_FP32, 1, 0, MSI_WPROJ_NEAREST, s->taps[c]};
        const msi_window_trials trials = {shape, n, INT32_MAX, time_shape, &m, "/dev/null/none"};
        if (s->d->guessed)
            s->shape[c] = msi_window_tuning_estimate(&problem, shape, n);
        else
            MSI_TRY(msi_window_tuning_choose(&s->shape[c], &problem, &trials));
        if (s->d->n_group) s->shape[c].n_vis = s->d->n_group;
    }
    return MSI_OK;
}

int set_up(void **out, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    state *s = new state{};
    *out = s;
    s->d = static_cast<const detail *>(row->detail);
    MSI_TRY(msi_el56_get(&s->e, options, nullptr));
    work->n_vis = s->e->n_vis;
    work->n_addition = s->e->n_addition;
    make_samples(s);
    MSI_TRY(upload_all(s));
    return choose_shapes(s);
}

int run(void *in, msi_bench_work *work, msi_bench_time *time)
{
    state *s = static_cast<state *>(in);
    MSI_TRY(s->timer.begin());
    MSI_CUDA(cudaMemsetAsync(as<void>(s->d_grid), 0, (size_t)grid_bytes(s->e)));
    for (int c = 0; c < N_CLASS; c++) {
        const msi_wproj_job job = job_of(s, c);
        if (job.n_vis > 0) MSI_TRY(msi_window_grid_cuda(&job, &s->shape[c], nullptr));
    }
    MSI_TRY(s->timer.end(time));
    snprintf(work->note, sizeof work->note, "%s%s; separable, order given", s->d->note,
             s->e->procedural ? "; procedural layout" : "");
    return MSI_OK;
}

int verify(void *in, double *error)
{
    state *s = static_cast<state *>(in);
    std::vector<msi_c32> grid((size_t)s->e->nu * (size_t)s->e->nv);
    MSI_CUDA(cudaMemcpy(grid.data(), as<void>(s->d_grid), (size_t)grid_bytes(s->e), cudaMemcpyDeviceToHost));
    return msi_el56_error(s->e, grid.data(), MSI_FP32, error);
}

void free_state(void *in)
{
    delete static_cast<state *>(in);
}

const detail exact = {1, "moving window along tracks, exact w"};
const detail guessed = {1, "along tracks, exact w, shapes guessed", 0, 1};
const detail by_time = {1, "in time-major order, exact w", 1};
const detail frozen_4 = {4, "along tracks, w frozen over 4 steps"};
const detail frozen_10 = {10, "along tracks, w frozen over 10 steps"};
const detail frozen_16 = {16, "along tracks, w frozen over 16 steps"};
const detail frozen_40 = {40, "along tracks, w frozen over 40 steps"};
const detail group_32 = {1, "groups of 32", 0, 0, 32};
const detail group_128 = {1, "groups of 128", 0, 0, 128};
const detail group_512 = {1, "groups of 512", 0, 0, 512};
const detail group_2048 = {1, "groups of 2048", 0, 0, 2048};

/* Rows with a frozen w have errors on purpose, so their tolerances are larger. */
#define ROW(NAME, TOLERANCE, DETAIL)                                                                                   \
    {                                                                                                                  \
        "el56/" NAME, MSI_EL56_TITLE, "wproj", "window", "grid", "cuda", "fp32", TOLERANCE, &DETAIL, set_up, run,      \
            verify, free_state                                                                                         \
    }

const msi_bench_row rows[] = {ROW("window", 1e-5, exact),
                              ROW("window-untuned", 1e-5, guessed),
                              ROW("window-time-major", 1e-5, by_time),
                              ROW("window-group-32", 1e-5, group_32),
                              ROW("window-group-128", 1e-5, group_128),
                              ROW("window-group-512", 1e-5, group_512),
                              ROW("window-group-2048", 1e-5, group_2048),
                              ROW("window-frozen-4", 2, frozen_4),
                              ROW("window-frozen-10", 2, frozen_10),
                              ROW("window-frozen-16", 2, frozen_16),
                              ROW("window-frozen-40", 2, frozen_40)};

} // namespace

extern "C" msi_bench_table msi_el56_window_rows_cuda(void)
{
    return {rows, (int)(sizeof rows / sizeof rows[0])};
}
