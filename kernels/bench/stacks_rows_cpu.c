/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Counts and reference of rows stacks/. */
#include <math.h>
#include <stdio.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/workload_stacks.h"
#include "kernels/stacks/stack_degrid_cpu.h"

void msi_stacks_counts(msi_stacks_case which, int64_t n, int64_t first_vis[MSI_STACKS_SUBGRIDS + 1])
{
    const int64_t m = MSI_STACKS_SUBGRIDS;
    for (int64_t s = 0; s <= m; s++)
        first_vis[s] = which == MSI_STACKS_GROWING ? m * n * (s * (s + 1)) / (m * (m + 1)) : s * n;
}

msi_c64 msi_stacks_reference(msi_stacks_case which, const int64_t first_vis[MSI_STACKS_SUBGRIDS + 1], int64_t i)
{
    const int64_t size = MSI_STACKS_SIZE;
    int64_t s = 0;
    while (first_vis[s + 1] <= i) s++;
    const msi_stack_uvw uvw = msi_stacks_uvw(which, (uint64_t)i, i - first_vis[s], first_vis[s + 1] - first_vis[s]);
    const msi_stack_place p = msi_stack_locate(&uvw, MSI_STACKS_SIZE);
    const uint64_t row_u = (uint64_t)msi_stack_sub_u(p) * MSI_STACK_TAPS;
    const uint64_t row_v = (uint64_t)msi_stack_sub_v(p) * MSI_STACK_TAPS;
    const uint64_t row_w = (uint64_t)msi_stack_sub_w(p) * MSI_STACK_PLANES;
    msi_c64 sum = {0, 0};
    for (int l = 0; l < MSI_STACK_PLANES; l++)
        for (int k = 0; k < MSI_STACK_TAPS; k++)
            for (int j = 0; j < MSI_STACK_TAPS; j++) {
                const int64_t v = msi_stack_v0(p) + k, u = msi_stack_u0(p) + j;
                const uint64_t cell = (uint64_t)(((s * MSI_STACK_PLANES + l) * size + v) * size + u);
                const double weight = msi_stacks_real(MSI_STACKS_TABLE_U, row_u + (uint64_t)j) *
                                      msi_stacks_real(MSI_STACKS_TABLE_V, row_v + (uint64_t)k) *
                                      msi_stacks_real(MSI_STACKS_TABLE_W, row_w + (uint64_t)l);
                sum.re += weight * msi_stacks_real(MSI_STACKS_GRID, 2 * cell);
                sum.im += weight * msi_stacks_real(MSI_STACKS_GRID, 2 * cell + 1);
            }
    return sum;
}

/* Rows stacks/ on the CPU: plain loops. */

enum { N_EACH = 16384, N_VERIFIED = 4096 };

typedef struct stacks_cpu {
    int64_t first_vis[MSI_STACKS_SUBGRIDS + 1];
    msi_stack_job job;
    double *grid, *kernel_u, *kernel_v, *kernel_w;
    msi_stack_uvw *uvw;
    msi_c64 *value;
} stacks_cpu;

static int make_reals(double **out, int64_t n, uint64_t stream, const char *what)
{
    MSI_TRY(msi_alloc(out, n, sizeof **out, what));
    double *x = *out;
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) x[i] = msi_stacks_real(stream, (uint64_t)i);
    return MSI_OK;
}

static int set_up(void **state, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    const int64_t n_cell = (int64_t)MSI_STACKS_SUBGRIDS * MSI_STACK_PLANES * MSI_STACKS_SIZE * MSI_STACKS_SIZE;
    const int64_t n_uv = (int64_t)MSI_STACK_OVERSAMPLE * MSI_STACK_TAPS;
    const int64_t n_w = (int64_t)MSI_STACK_OVERSAMPLE * MSI_STACK_PLANES;
    const double n = N_EACH * options->scale;
    stacks_cpu *s;
    (void)row;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "benchmark"));
    *state = s;
    msi_stacks_counts(MSI_STACKS_RANDOM, n < 1 ? 1 : (int64_t)n, s->first_vis);
    work->n_vis = s->first_vis[MSI_STACKS_SUBGRIDS];
    work->n_addition = (double)work->n_vis * MSI_STACK_TAPS * MSI_STACK_TAPS * MSI_STACK_PLANES;
    snprintf(work->note, sizeof work->note, "plain loops");
    MSI_TRY(make_reals(&s->grid, 2 * n_cell, MSI_STACKS_GRID, "subgrids"));
    MSI_TRY(make_reals(&s->kernel_u, n_uv, MSI_STACKS_TABLE_U, "kernels"));
    MSI_TRY(make_reals(&s->kernel_v, n_uv, MSI_STACKS_TABLE_V, "kernels"));
    MSI_TRY(make_reals(&s->kernel_w, n_w, MSI_STACKS_TABLE_W, "kernels"));
    MSI_TRY(msi_alloc(&s->uvw, work->n_vis, sizeof *s->uvw, "coordinates"));
    MSI_TRY(msi_alloc(&s->value, work->n_vis, sizeof *s->value, "visibilities"));
    for (int64_t i = 0; i < work->n_vis; i++) s->uvw[i] = msi_stacks_uvw(MSI_STACKS_RANDOM, (uint64_t)i, 0, 1);
    s->job = (msi_stack_job){.precision = MSI_FP64,
                             .n_subgrid = MSI_STACKS_SUBGRIDS,
                             .size = MSI_STACKS_SIZE,
                             .first_vis = s->first_vis,
                             .uvw = s->uvw,
                             .grid = s->grid,
                             .kernel_u = s->kernel_u,
                             .kernel_v = s->kernel_v,
                             .kernel_w = s->kernel_w,
                             .value = s->value};
    return MSI_OK;
}

static int run_stacks_row(void *state, msi_bench_work *work, msi_bench_time *time)
{
    stacks_cpu *s = state;
    (void)work;
    const double start = msi_wall_s();
    MSI_TRY(msi_stack_cpu_degrid(&s->job));
    *time = (msi_bench_time){.sort_ms = 0, .kernel_ms = 1e3 * (msi_wall_s() - start)};
    return MSI_OK;
}

static int verify(void *state, double *error)
{
    const stacks_cpu *s = state;
    const int64_t n = s->first_vis[MSI_STACKS_SUBGRIDS], n_verified = n < N_VERIFIED ? n : N_VERIFIED;
    double difference = 0, norm = 0;
    for (int64_t k = 0; k < n_verified; k++) {
        const int64_t i = k * n / n_verified;
        const msi_c64 exact = msi_stacks_reference(MSI_STACKS_RANDOM, s->first_vis, i), found = s->value[i];
        difference += pow(found.re - exact.re, 2) + pow(found.im - exact.im, 2);
        norm += exact.re * exact.re + exact.im * exact.im;
    }
    *error = sqrt(difference / norm);
    return MSI_OK;
}

static void free_state(void *state)
{
    stacks_cpu *s = state;
    if (!s) return;
    msi_free(s->grid);
    msi_free(s->kernel_u);
    msi_free(s->kernel_v);
    msi_free(s->kernel_w);
    msi_free(s->uvw);
    msi_free(s->value);
    msi_free(s);
}

msi_bench_table msi_stacks_rows_cpu(void)
{
    static const msi_bench_row row[] = {{.name = "stacks/cpu-random-16384-fp64",
                                         .workload = MSI_STACKS_TITLE,
                                         .method = "wgrid",
                                         .strategy = "reference",
                                         .direction = "degrid",
                                         .backend = "cpu",
                                         .precision = "fp64",
                                         .tolerance = 1e-14,
                                         .set_up = set_up,
                                         .run = run_stacks_row,
                                         .verify = verify,
                                         .free_state = free_state}};
    return (msi_bench_table){row, sizeof row / sizeof row[0]};
}
