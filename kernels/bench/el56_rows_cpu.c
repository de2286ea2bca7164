/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows el56/ on the CPU: plain loops. */
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/workload_el56.h"

typedef struct el56_cpu {
    const msi_el56 *e;
    msi_c32 *grid;
} el56_cpu;

static int set_up(void **state, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    el56_cpu *s;
    (void)row;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "benchmark"));
    *state = s;
    MSI_TRY(msi_el56_get(&s->e, options, NULL));
    work->n_vis = s->e->n_vis;
    work->n_addition = s->e->n_addition;
    snprintf(work->note, sizeof work->note, "%splain loops, separable", s->e->procedural ? "procedural layout; " : "");
    return msi_alloc(&s->grid, (int64_t)s->e->nu * s->e->nv, sizeof *s->grid, "grid");
}

static void add_sample(const msi_el56 *e, int64_t i, msi_c32 *grid)
{
    const msi_wkernel_set *k = &e->kernels;
    msi_el56_place p = msi_el56_locate(e, i);
    int32_t half = k->half[p.plane];
    const msi_c32 *table = k->table;
    const msi_c32 *ku = table + msi_wkernel_row(k->offset_u[p.plane], half, k->oversample, p.sub_u) + half;
    const msi_c32 *kv = table + msi_wkernel_row(k->offset_v[p.plane], half, k->oversample, p.sub_v) + half;
    float sign = p.conjugate ? -1 : 1, re = e->weight[i] * e->vis[i].re, im = e->weight[i] * e->vis[i].im * sign;
    for (int32_t tv = -half; tv <= half; tv++) {
        msi_c32 *row = grid + (int64_t)(p.v + tv) * e->nu + p.u;
        float row_re = re * kv[tv].re - im * kv[tv].im, row_im = re * kv[tv].im + im * kv[tv].re;
        for (int32_t tu = -half; tu <= half; tu++) {
            row[tu].re += row_re * ku[tu].re - row_im * ku[tu].im;
            row[tu].im += sign * (row_re * ku[tu].im + row_im * ku[tu].re);
        }
    }
}

static int run(void *state, msi_bench_work *work, msi_bench_time *time)
{
    el56_cpu *s = state;
    (void)work;
    double start = msi_wall_s();
    memset(s->grid, 0, (size_t)s->e->nu * (size_t)s->e->nv * sizeof *s->grid);
    for (int64_t i = 0; i < s->e->n_vis; i++) add_sample(s->e, i, s->grid);
    *time = (msi_bench_time){.sort_ms = 0, .kernel_ms = 1e3 * (msi_wall_s() - start)};
    return MSI_OK;
}

static int verify(void *state, double *error)
{
    el56_cpu *s = state;
    return msi_el56_error(s->e, s->grid, MSI_FP32, error);
}

static void free_state(void *state)
{
    el56_cpu *s = state;
    if (s) msi_free(s->grid);
    msi_free(s);
}

msi_bench_table msi_el56_rows_cpu(void)
{
    static const msi_bench_row row[] = {{.name = "el56/cpu-plain",
                                         .workload = MSI_EL56_TITLE,
                                         .method = "wproj",
                                         .strategy = "reference",
                                         .direction = "grid",
                                         .backend = "cpu",
                                         .precision = "fp32",
                                         .tolerance = 1e-5,
                                         .set_up = set_up,
                                         .run = run,
                                         .verify = verify,
                                         .free_state = free_state}};
    return (msi_bench_table){row, sizeof row / sizeof row[0]};
}
