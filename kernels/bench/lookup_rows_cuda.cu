/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Compare lookups of weights: nearest sub-offset, linear interpolation, and interpolation by the texture unit. Rows
 * show the time, and the difference from a grid made with kernels tabulated 64 times as finely. Samples are random, for
 * a 2048^2 image of 4 degrees. The time includes sorting them.
 */
#include <math.h>
#include <stdio.h>

#include <algorithm>
#include <vector>

#include "core/memory.h"
#include "kernels/bench/device_rows.cuh"
#include "kernels/bench/bench.h"
#include "kernels/wproj/window/wproj_window_gridder_cuda.h"
#include "kernels/wproj/wproj_plan.h"

namespace {

typedef struct detail {
    int linear, textures;
    const char *note;
} detail;

constexpr int64_t N_ROW = 1 << 20;
constexpr int32_t OVERSAMPLE = 8, FINER = 64, N_TILE = 16, TILE = 4;
constexpr double FREQ_HZ = 150e6;

struct state {
    const detail *d;
    msi_wproj_plan plan;
    msi_wproj_geometry geometry;
    msi_wkernel_set kernels;
    msi_window_gridder *gridder;
    std::vector<double> uvw_m;
    std::vector<msi_c32> vis;
    msi_window_block block;
    msi_wproj_grid grid;
    buffer d_uvw, d_freq, d_weight, d_vis, d_grid;
    run_timer timer;
};

double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53 - 0.5;
}

/* Make random samples, uniform over a fifth of the uv plane, with |w| up to 300 wavelengths. */
void make_samples(state *s, int64_t n)
{
    uint64_t seed = 2016;
    const double lambda_m = MSI_SPEED_OF_LIGHT / FREQ_HZ, most_m = 0.4 * lambda_m / s->plan.image.cell_x_rad;
    s->uvw_m.resize((size_t)(3 * n));
    s->vis.resize((size_t)n);
    for (size_t i = 0; i < (size_t)n; i++) {
        s->uvw_m[3 * i] = most_m * uniform(&seed);
        s->uvw_m[3 * i + 1] = most_m * uniform(&seed);
        s->uvw_m[3 * i + 2] = 600 * lambda_m * uniform(&seed);
        s->vis[i] = {(float)uniform(&seed), (float)uniform(&seed)};
    }
}

int make_kernels(const msi_wproj_plan *plan, int32_t oversample, msi_precision precision, msi_wkernel_set *kernels)
{
    msi_wkernel_spec spec;
    double *w_lambda;
    MSI_TRY(msi_wproj_kernel_spec(plan, &spec, &w_lambda));
    spec.oversample = oversample;
    spec.precision = precision;
    spec.half = plan->half;
    int rc = msi_wkernel_make(kernels, &spec);
    msi_free(w_lambda);
    return rc;
}

int make_plan(state *s)
{
    static const msi_wproj_cost cost = {{1e12, 1e-10, 1e-9, 1e-11, 32}, 1e-11, 1e-10};
    const double cell = 4 * MSI_PI / 180 / 2048;
    msi_wproj_request request = {};
    request.image.nx = request.image.ny = 2048;
    request.image.cell_x_rad = request.image.cell_y_rad = cell;
    request.accuracy = 1e-2;
    request.precision = MSI_FP32;
    request.n_image = 1;
    request.n_sample = N_ROW;
    request.w_max_lambda = 300;
    request.form = MSI_WPROJ_FORM_SEPARABLE;
    request.lookup = MSI_KERNEL_LINEAR;
    request.n_slice = 1;
    request.oversample = OVERSAMPLE;
    request.cost = &cost;
    MSI_TRY(msi_wproj_plan_make(&s->plan, &request));
    s->geometry = s->plan.grid;
    s->geometry.linear = s->d->linear;
    return make_kernels(&s->plan, OVERSAMPLE, MSI_FP32, &s->kernels);
}

size_t grid_bytes(const state *s)
{
    return (size_t)(s->grid.nu * s->grid.nv) * sizeof(msi_c32);
}

int set_up(void **out, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    state *s = new state{};
    *out = s;
    s->d = static_cast<const detail *>(row->detail);
    MSI_TRY(make_plan(s));
    const int64_t n = std::max<int64_t>(1, (int64_t)((double)N_ROW * options->scale));
    make_samples(s, n);
    const std::vector<float> weight((size_t)n, 1.0f);
    MSI_TRY(upload(&s->d_uvw, s->uvw_m.data(), 3 * n));
    MSI_TRY(upload(&s->d_vis, s->vis.data(), n));
    MSI_TRY(upload(&s->d_weight, weight.data(), n));
    MSI_TRY(upload(&s->d_freq, &FREQ_HZ, 1));
    s->block = {n, 1, n, as<double>(s->d_freq), as<double>(s->d_uvw), as<float>(s->d_weight), as<void>(s->d_vis)};
    s->grid.nu = s->geometry.nu;
    s->grid.nv = s->geometry.nv;
    MSI_TRY(s->d_grid.fit((int64_t)grid_bytes(s), "the grid"));
    s->grid.cells = as<void>(s->d_grid);
    MSI_TRY(s->timer.make());
    const msi_gpu_stream gpu = {0, nullptr};
    const msi_window_gridder_spec spec = {&s->geometry, &s->kernels, 1, n, 0, s->d->textures};
    MSI_TRY(msi_window_gridder_create(&s->gridder, &gpu, &spec));
    work->n_vis = n;
    for (size_t i = 0; i < (size_t)n; i++) {
        msi_wproj_place p;
        msi_wproj_locate_in(&s->geometry, &s->uvw_m[3 * i], FREQ_HZ, 0, 0, &p);
        const double taps = msi_wkernel_taps(s->kernels.half[p.plane]);
        work->n_addition += taps * taps;
    }
    return MSI_OK;
}

int run(void *in, msi_bench_work *work, msi_bench_time *time)
{
    state *s = static_cast<state *>(in);
    const int32_t image_plane = 0;
    MSI_CUDA(cudaMemset(s->grid.cells, 0, grid_bytes(s)));
    MSI_TRY(s->timer.begin());
    MSI_TRY(msi_window_gridder_add(s->gridder, &s->block, &image_plane, 0, &s->grid));
    MSI_TRY(s->timer.end(time));
    snprintf(work->note, sizeof work->note, "%s, oversampling %d; error against exact kernels", s->d->note,
             (int)OVERSAMPLE);
    return MSI_OK;
}

/* Sum one square of cells with kernels interpolated in double between 64 times as many sub-offsets. */
void sum_tile(const state *s, const msi_wproj_geometry *fine, const msi_wkernel_set *k, int32_t u0, int32_t v0,
              msi_c64 *truth)
{
    const msi_c64 *table = (const msi_c64 *)k->table;
    auto row = [&](int64_t offset, int32_t half, int32_t sub, double frac, int32_t tap) {
        const msi_c64 *x = table + msi_wkernel_row(offset, half, k->oversample, sub) + tap + half;
        const msi_c64 *y = x + msi_wkernel_taps(half);
        return msi_c64{x->re + frac * (y->re - x->re), x->im + frac * (y->im - x->im)};
    };
    for (size_t i = 0; i < s->vis.size(); i++) {
        msi_wproj_place p;
        msi_wproj_locate_in(fine, &s->uvw_m[3 * i], FREQ_HZ, 0, 0, &p);
        const int32_t half = k->half[p.plane];
        msi_c64 v = {s->vis[i].re, p.conjugate_vis ? -s->vis[i].im : s->vis[i].im};
        const double c = cos(2 * MSI_PI * p.turns), t = -sin(2 * MSI_PI * p.turns);
        v = {v.re * c - v.im * t, v.re * t + v.im * c};
        for (int32_t b = std::max(0, p.v - half - v0); b < std::min(TILE, p.v + half + 1 - v0); b++)
            for (int32_t a = std::max(0, p.u - half - u0); a < std::min(TILE, p.u + half + 1 - u0); a++) {
                const msi_c64 ku = row(k->offset_u[p.plane], half, p.sub_u, p.frac_u, u0 + a - p.u);
                const msi_c64 kv = row(k->offset_v[p.plane], half, p.sub_v, p.frac_v, v0 + b - p.v);
                msi_c64 w = {ku.re * kv.re - ku.im * kv.im, ku.re * kv.im + ku.im * kv.re};
                if (p.conjugate_kernel) w.im = -w.im;
                truth[b * TILE + a].re += v.re * w.re - v.im * w.im;
                truth[b * TILE + a].im += v.re * w.im + v.im * w.re;
            }
    }
}

int compare(const state *s, const msi_wproj_geometry *fine, const msi_wkernel_set *k, double *error)
{
    double off = 0, all = 0;
    for (int t = 0; t < N_TILE; t++) {
        msi_wproj_place about;
        msi_wproj_locate_in(fine, &s->uvw_m[3 * (s->vis.size() / N_TILE * (size_t)t)], FREQ_HZ, 0, 0, &about);
        msi_c64 truth[TILE * TILE] = {};
        sum_tile(s, fine, k, about.u, about.v, truth);
        for (int32_t i = 0; i < TILE * TILE; i++) {
            const int64_t u = msi_wproj_wrap(about.u + i % TILE, s->grid.nu);
            const int64_t v = msi_wproj_wrap(about.v + i / TILE, s->grid.nv);
            msi_c32 x;
            MSI_CUDA(
                cudaMemcpy(&x, (const msi_c32 *)s->grid.cells + v * s->grid.nu + u, sizeof x, cudaMemcpyDeviceToHost));
            off += (x.re - truth[i].re) * (x.re - truth[i].re) + (x.im - truth[i].im) * (x.im - truth[i].im);
            all += truth[i].re * truth[i].re + truth[i].im * truth[i].im;
        }
    }
    *error = sqrt(off / all);
    return MSI_OK;
}

int verify(void *in, double *error)
{
    state *s = static_cast<state *>(in);
    msi_wkernel_set fine_kernels = {};
    msi_wproj_geometry fine = s->geometry;
    fine.oversample = OVERSAMPLE * FINER;
    fine.linear = 1;
    int rc = make_kernels(&s->plan, fine.oversample, MSI_FP64, &fine_kernels);
    if (!rc) rc = compare(s, &fine, &fine_kernels, error);
    msi_wkernel_free(&fine_kernels);
    return rc;
}

void free_state(void *in)
{
    state *s = static_cast<state *>(in);
    if (!s) return;
    msi_window_gridder_free(s->gridder);
    msi_wkernel_free(&s->kernels);
    msi_wproj_plan_free(&s->plan);
    delete s;
}

const char workload_name[] = "lookup: kernels looked up, 1 M random samples of a 2048^2 image, separable";
const detail nearest = {0, 0, "nearest sub-offset"};
const detail linear = {1, 0, "linear interpolation"};
const detail texture = {1, 1, "texture interpolation"};

/* The tolerances allow for rounding to an eighth of a cell, and for the error of linear interpolation between two
 * eighths; the texture unit's 256 fractions add an eighth of 1/512 of a cell. All are multiplied by the phase of a cell
 * at the image's edge. */
#define ROW(NAME, TOLERANCE, DETAIL)                                                                                   \
    {                                                                                                                  \
        "lookup/" NAME, workload_name, "wproj", "window", "grid", "cuda", "fp32", TOLERANCE, &DETAIL, set_up, run,     \
            verify, free_state                                                                                         \
    }

const msi_bench_row rows[] = {ROW("nearest", 0.2, nearest), ROW("linear", 0.02, linear), ROW("texture", 0.02, texture)};

} // namespace

extern "C" msi_bench_table msi_lookup_rows_cuda(void)
{
    return {rows, (int)(sizeof rows / sizeof rows[0])};
}
