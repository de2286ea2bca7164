/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random inputs: all strategies, directions and precisions of the plan API on a small field, compared with direct sums.
 * The seed determines the sizes of image and field, the array, the numbers of rows, channels and planes, and the
 * values. Rows plan/random time all plans for such a field that reach the accuracy; their error column shows the
 * relative time that the chosen plan loses, for the worst seed.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/bench.h"
#include "kernels/bench/field_rows.h"
#include "kernels/method/geometry.h"

enum { MAX_ROWS = 64, NAME_BYTES = 48, N_CHECKED = 120 };

typedef struct detail {
    const msi_strategy *strategy;
    msi_precision precision;
    double accuracy;
    int predict;
} detail;

typedef struct random_run {
    msi_field_strategy strategy;
    msi_bench_field field;
} random_run;

/* Return the next random number of a seed, in [0, 1). */
static double next_random(uint64_t *counter)
{
    return msi_bench_uniform((*counter)++);
}

static int64_t between(uint64_t *counter, int64_t low, int64_t high)
{
    return low + (int64_t)(next_random(counter) * (double)(high - low + 1));
}

/* Make random uvw: samples all over the uv plane, concentrated at its middle, or only at its middle. */
static void draw_coordinates(msi_bench_field *f, uint64_t *at)
{
    const double highest = f->freq_hz[f->n_chan - 1] / MSI_SPEED_OF_LIGHT;
    const double u_reach_m = 0.49 / f->geometry.cell_x_rad / highest,
                 v_reach_m = 0.49 / f->geometry.cell_y_rad / highest;
    const int layout = (int)between(at, 0, 2);
    const double w_ratio = next_random(at) < 0.2 ? 0 : next_random(at);
    f->w_min_lambda = HUGE_VAL;
    f->w_max_lambda = 0;
    for (int64_t i = 0; i < f->n_row; i++) {
        double radius = sqrt(next_random(at)), angle = 2 * MSI_PI * next_random(at);
        if (layout == 1) radius *= radius * radius;
        if (layout == 2) radius *= 0.03;
        double w_m = (2 * next_random(at) - 1) * w_ratio * u_reach_m;
        f->uvw_m[3 * i] = radius * cos(angle) * u_reach_m;
        f->uvw_m[3 * i + 1] = radius * sin(angle) * v_reach_m;
        f->uvw_m[3 * i + 2] = w_m;
        f->w_min_lambda = fmin(f->w_min_lambda, fabs(w_m) * f->freq_hz[0] / MSI_SPEED_OF_LIGHT);
        f->w_max_lambda = fmax(f->w_max_lambda, fabs(w_m) * highest);
    }
}

static int draw_field(msi_bench_field *f, uint64_t seed, const detail *d)
{
    uint64_t at = seed << 40;
    f->seed = seed;
    f->precision = d->precision;
    f->geometry.nx = 2 * between(&at, 16, 100);
    f->geometry.ny = 2 * between(&at, 16, 100);
    f->geometry.cell_x_rad = pow(10, -2.5 + 2 * next_random(&at)) / (double)f->geometry.nx;
    f->geometry.cell_y_rad = f->geometry.cell_x_rad * (0.8 + 0.5 * next_random(&at));
    f->n_row = between(&at, 1, 3) == 1 ? between(&at, 1, 8) : between(&at, 50, 400);
    f->n_chan = (int32_t)between(&at, 1, MSI_BENCH_FIELD_MAX_CHAN);
    f->n_plane = (int)between(&at, 1, MSI_BENCH_FIELD_PLANES);
    f->flagged = f->n_row < 10 ? 0 : 0.1;
    f->n_pixel = N_CHECKED;
    const double step_hz = 0.03 * next_random(&at) * 1e9;
    for (int32_t c = 0; c < f->n_chan; c++) f->freq_hz[c] = 1e9 + c * step_hz;
    MSI_TRY(msi_alloc(&f->uvw_m, 3 * f->n_row, sizeof *f->uvw_m, "uvw"));
    draw_coordinates(f, &at);
    return msi_bench_field_fill(f);
}

static int set_up(void **state, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    const detail *d = row->detail;
    random_run *s;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "benchmark"));
    *state = s;
    MSI_TRY(draw_field(&s->field, options->seed, d));
    const int psf = !d->predict && options->seed % 2 == 0;
    const msi_field_request wanted = {d->strategy, d->predict, psf, d->accuracy, {0, 0}};
    MSI_TRY(msi_field_strategy_begin(&s->strategy, &s->field, &wanted));
    work->n_vis = s->field.store.n_sample;
    work->n_addition = msi_field_strategy_additions(&s->strategy);
    return MSI_OK;
}

static int run_random_row(void *state, msi_bench_work *work, msi_bench_time *time)
{
    random_run *s = state;
    const msi_bench_field *f = &s->field;
    MSI_TRY(msi_field_strategy_run(&s->strategy, time));
    snprintf(work->note, sizeof work->note, "%lld x %lld pixels of %.1e, %lld rows, %d channels, %d planes",
             (long long)f->geometry.nx, (long long)f->geometry.ny, f->geometry.cell_x_rad, (long long)f->n_row,
             f->n_chan, s->strategy.image.n_plane);
    return MSI_OK;
}

static int verify(void *state, double *error)
{
    return msi_field_strategy_error(&((random_run *)state)->strategy, error);
}

static void free_state(void *state)
{
    random_run *s = state;
    if (!s) return;
    msi_field_strategy_end(&s->strategy);
    msi_bench_field_free(&s->field);
    msi_free(s);
}

typedef struct random_plans {
    msi_plan_regret *regret;
    msi_bench_field field;
} random_plans;

static int set_up_plans(void **state, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    const detail *d = row->detail;
    random_plans *s;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "benchmark"));
    *state = s;
    MSI_TRY(draw_field(&s->field, options->seed, d));
    const msi_field_request wanted = {d->strategy, d->predict, 0, d->accuracy, {0, 0}};
    MSI_TRY(msi_plan_regret_begin(&s->regret, &s->field, &wanted));
    work->n_vis = s->field.store.n_sample;
    return MSI_OK;
}

static int run_plans(void *state, msi_bench_work *work, msi_bench_time *time)
{
    return msi_plan_regret_run(((random_plans *)state)->regret, work, time);
}

static int verify_regret(void *state, double *error)
{
    *error = msi_plan_regret_measured(((random_plans *)state)->regret);
    return MSI_OK;
}

static void free_plans(void *state)
{
    random_plans *s = state;
    if (!s) return;
    msi_plan_regret_end(s->regret);
    msi_bench_field_free(&s->field);
    msi_free(s);
}

typedef struct row_list {
    msi_bench_row row[MAX_ROWS];
    detail details[MAX_ROWS];
    char name[MAX_ROWS][NAME_BYTES];
    int n;
} row_list;

static void add_row(row_list *l, const detail *d)
{
    if (l->n == MAX_ROWS || !msi_field_strategy_serves(d->strategy, d->predict)) return;
    const int i = l->n++;
    msi_bench_row *r = &l->row[i];
    *r = msi_field_strategy_row(d->strategy, d->precision, d->predict);
    snprintf(l->name[i], NAME_BYTES, "random/%s-%s-%s%s", r->strategy, r->direction, r->precision,
             d->strategy->backend == MSI_BACKEND_CPU ? "-cpu" : "");
    l->details[i] = *d;
    r->name = l->name[i];
    r->workload = "random: a small field drawn from each seed";
    r->tolerance = d->accuracy;
    r->detail = &l->details[i];
    r->set_up = set_up;
    r->run = run_random_row;
    r->verify = verify;
    r->free_state = free_state;
    r->seeded = 1;
}

/* Add a row that times all plans of the strategy's method and backend. */
static void add_plans(row_list *l, const detail *d)
{
    const int i = l->n;
    add_row(l, d);
    if (l->n == i) return;
    msi_bench_row *r = &l->row[i];
    snprintf(l->name[i], NAME_BYTES, "plan/random-%s-%s", r->direction, r->precision);
    r->strategy = "all";
    r->tolerance = HUGE_VAL; /* times have no tolerance */
    r->set_up = set_up_plans;
    r->run = run_plans;
    r->verify = verify_regret;
    r->free_state = free_plans;
}

/* Return the accuracy of a strategy. A table's accuracy is limited by its size; it is lowest for tables of squares,
 * which are not interpolated. */
static double accuracy_of(const msi_strategy *s, msi_precision precision)
{
    const int is_square = strcmp(s->name, "gather") == 0 || strcmp(s->name, "scatter") == 0;
    if (strcmp(s->method, "wproj") == 0) return precision == MSI_FP32 || is_square ? 1e-2 : 1e-3;
    return precision == MSI_FP32 ? 1e-5 : 1e-10;
}

static void add_rows(row_list *l)
{
    int n;
    const msi_strategy *strategy = msi_strategies(&n);
    for (int k = 0; k < n; k++)
        for (int predict = 0; predict < 2; predict++)
            for (int p = 0; p < 2; p++) {
                const msi_precision precision = p ? MSI_FP64 : MSI_FP32;
                add_row(l, &(detail){&strategy[k], precision, accuracy_of(&strategy[k], precision), predict});
            }
    for (int k = 0; k < n; k++) {
        if (strcmp(strategy[k].method, "wgrid") != 0 || strategy[k].backend != MSI_BACKEND_CUDA) continue;
        for (int predict = 0; predict < 2; predict++)
            add_plans(l, &(detail){&strategy[k], MSI_FP32, accuracy_of(&strategy[k], MSI_FP32), predict});
        return;
    }
}

msi_bench_table msi_random_rows(void)
{
    static row_list l;
    if (l.n == 0) add_rows(&l);
    return (msi_bench_table){l.row, l.n};
}
