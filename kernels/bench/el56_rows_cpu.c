/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A row el56/ of the tile strategy on the CPU. The coordinates of its store are the float32 coordinates in cells, and w
 * is the number of the plane, so that the indices are the same as on the GPU. Conjugated kernels are separate planes.
 */
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/workload_el56.h"
#include "kernels/wproj/wproj_cpu.h"

enum { N_GRID = 18000, N_PIXEL = 16 };

typedef struct el56_cpu_tile {
    const msi_el56 *e;
    msi_wkernel_set kernels;
    msi_wproj_plan plan;
    msi_vis_store store;
    double *uvw, *freq_hz;
    msi_wproj_box box;
} el56_cpu_tile;

static int make_kernels(el56_cpu_tile *s)
{
    const msi_wkernel_set *from = &s->e->kernels;
    msi_wkernel_set *k = &s->kernels;
    const int32_t n = from->n_plane;
    k->form = from->form;
    k->precision = from->precision;
    k->oversample = from->oversample;
    k->half_max = from->half_max;
    k->n_plane = 2 * n;
    k->n_element = 2 * from->n_element;
    MSI_TRY(msi_alloc(&k->half, k->n_plane, sizeof *k->half, "kernel supports"));
    MSI_TRY(msi_alloc(&k->offset_u, k->n_plane, sizeof *k->offset_u, "kernel offsets"));
    MSI_TRY(msi_alloc(&k->offset_v, k->n_plane, sizeof *k->offset_v, "kernel offsets"));
    MSI_TRY(msi_alloc(&k->table, k->n_element + MSI_WKERNEL_PADDING, sizeof(msi_c32), "kernels"));
    for (int32_t p = 0; p < k->n_plane; p++) {
        k->half[p] = from->half[p % n];
        k->offset_u[p] = k->offset_v[p] = from->offset_u[p % n] + p / n * from->n_element;
    }
    const msi_c32 *x = from->table;
    msi_c32 *table = k->table;
    for (int64_t i = 0; i < from->n_element; i++) {
        table[i] = x[i];
        table[from->n_element + i] = (msi_c32){x[i].re, -x[i].im};
    }
    return MSI_OK;
}

static int make_plan(el56_cpu_tile *s)
{
    msi_wproj_plan *p = &s->plan;
    p->image = (msi_image_geometry){.nx = N_PIXEL, .ny = N_PIXEL, .cell_x_rad = 1e-6, .cell_y_rad = 1e-6};
    p->grid = (msi_wproj_geometry){.nu = N_GRID,
                                   .nv = N_GRID,
                                   .u_cells_per_m_hz = 1,
                                   .v_cells_per_m_hz = 1,
                                   .w_lambda_per_m_hz = 1,
                                   .n_slice = 1,
                                   .n_plane = s->kernels.n_plane,
                                   .plane_scale = 1,
                                   .oversample = s->kernels.oversample};
    p->form = s->kernels.form;
    p->precision = MSI_FP32;
    p->half_max = s->kernels.half_max;
    p->tile = 2 * p->half_max + 16;
    MSI_TRY(msi_pswf_make(&p->pswf_u, 6, 2.5));
    return msi_pswf_make(&p->pswf_v, 6, 2.5);
}

/* Make a store of the workload's samples. Weights and visibilities are borrowed from the workload. */
static int make_store(el56_cpu_tile *s)
{
    const msi_el56 *e = s->e;
    msi_vis_store *store = &s->store;
    MSI_TRY(msi_alloc(&s->uvw, 3 * e->n_vis, sizeof *s->uvw, "uvw"));
    MSI_TRY(msi_alloc(&s->freq_hz, 1, sizeof *s->freq_hz, "frequency"));
    s->freq_hz[0] = 1;
    store->n_plane = 1;
    store->precision = MSI_FP32;
    store->n_sample = e->n_vis;
    store->n_segment = (e->n_vis + MSI_SEGMENT_ROWS - 1) / MSI_SEGMENT_ROWS;
    MSI_TRY(msi_alloc(&store->segment, store->n_segment, sizeof *store->segment, "segments"));
    for (int64_t i = 0; i < store->n_segment; i++) {
        int64_t first = i * MSI_SEGMENT_ROWS, n = e->n_vis - first;
        if (n > MSI_SEGMENT_ROWS) n = MSI_SEGMENT_ROWS;
        store->segment[i] = (msi_vis_segment){.n_row = n,
                                              .n_row_max = n,
                                              .n_chan = 1,
                                              .freq_hz = s->freq_hz,
                                              .uvw_m = s->uvw + 3 * first,
                                              .weight = e->weight + first,
                                              .vis = e->vis + first};
    }
#pragma omp parallel for
    for (int64_t i = 0; i < e->n_vis; i++) {
        msi_el56_place p = msi_el56_locate(e, i);
        s->uvw[3 * i] = (double)(e->u[i] * e->scale_u);
        s->uvw[3 * i + 1] = (double)(e->v[i] * e->scale_v);
        s->uvw[3 * i + 2] = p.plane + (p.conjugate ? e->kernels.n_plane : 0);
    }
    return MSI_OK;
}

static int set_up_tiles(void **state, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    el56_cpu_tile *s;
    (void)row;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "benchmark"));
    *state = s;
    MSI_TRY(msi_el56_get(&s->e, options, NULL));
    work->n_vis = s->e->n_vis;
    work->n_addition = s->e->n_addition;
    snprintf(work->note, sizeof work->note, "%stiles, SIMD, separable", s->e->procedural ? "procedural layout; " : "");
    MSI_TRY(make_kernels(s));
    MSI_TRY(make_plan(s));
    return make_store(s);
}

static int run_tiles(void *state, msi_bench_work *work, msi_bench_time *time)
{
    el56_cpu_tile *s = state;
    (void)work;
    msi_wproj_box_destroy(&s->box);
    double start = msi_wall_s();
    MSI_TRY(msi_wproj_box_create(&s->box, &s->plan, &s->kernels, &s->store));
    double sorted = msi_wall_s();
    msi_wproj_box_open(&s->box, 0);
    MSI_TRY(msi_wproj_cpu_grid_slice(&s->box, MSI_WPROJ_CPU_TILE, &s->store, 0, 0));
    *time = (msi_bench_time){.sort_ms = 1e3 * (sorted - start), .kernel_ms = 1e3 * (msi_wall_s() - sorted)};
    return MSI_OK;
}

static int verify_tiles(void *state, double *error)
{
    el56_cpu_tile *s = state;
    const msi_el56 *e = s->e;
    const msi_wproj_box *b = &s->box;
    const msi_c32 *cells = (const msi_c32 *)(const void *)b->cells;
    msi_c32 *grid;
    MSI_TRY(msi_alloc(&grid, (int64_t)e->nu * e->nv, sizeof *grid, "grid"));
    for (int64_t v = 0; v < e->nv; v++)
        for (int64_t u = 0; u < e->nu; u++) {
            int64_t row = v - e->origin_v - b->v0, column = u - e->origin_u - b->u0;
            if (row < 0 || row >= b->n_v || column < 0 || column >= b->n_u || !b->row_used[row]) continue;
            grid[v * e->nu + u] = cells[row * b->stride + column];
        }
    int rc = msi_el56_error(e, grid, MSI_FP32, error);
    msi_free(grid);
    return rc;
}

static void free_tiles(void *state)
{
    el56_cpu_tile *s = state;
    if (!s) return;
    msi_wproj_box_destroy(&s->box);
    msi_wkernel_free(&s->kernels);
    msi_free(s->store.segment);
    msi_free(s->uvw);
    msi_free(s->freq_hz);
    msi_free(s);
}

msi_bench_table msi_el56_rows_cpu_tile(void)
{
    static const msi_bench_row row[] = {{.name = "el56/cpu-tile",
                                         .workload = MSI_EL56_TITLE,
                                         .method = "wproj",
                                         .strategy = "tile",
                                         .direction = "grid",
                                         .backend = "cpu",
                                         .precision = "fp32",
                                         .tolerance = 5e-6,
                                         .set_up = set_up_tiles,
                                         .run = run_tiles,
                                         .verify = verify_tiles,
                                         .free_state = free_tiles}};
    return (msi_bench_table){row, sizeof row / sizeof row[0]};
}

/* Rows el56/ on the CPU: plain loops. */

typedef struct el56_cpu {
    const msi_el56 *e;
    msi_c32 *grid;
} el56_cpu;

static int set_up_plain(void **state, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
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

static int run_plain(void *state, msi_bench_work *work, msi_bench_time *time)
{
    el56_cpu *s = state;
    (void)work;
    double start = msi_wall_s();
    memset(s->grid, 0, (size_t)s->e->nu * (size_t)s->e->nv * sizeof *s->grid);
    for (int64_t i = 0; i < s->e->n_vis; i++) add_sample(s->e, i, s->grid);
    *time = (msi_bench_time){.sort_ms = 0, .kernel_ms = 1e3 * (msi_wall_s() - start)};
    return MSI_OK;
}

static int verify_plain(void *state, double *error)
{
    el56_cpu *s = state;
    return msi_el56_error(s->e, s->grid, MSI_FP32, error);
}

static void free_plain(void *state)
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
                                         .set_up = set_up_plain,
                                         .run = run_plain,
                                         .verify = verify_plain,
                                         .free_state = free_plain}};
    return (msi_bench_table){row, sizeof row / sizeof row[0]};
}
