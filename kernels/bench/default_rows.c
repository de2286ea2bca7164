/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/field_rows.h"

/* ---- Regret of plans ---- */

enum { MAX_PLANS = 128, WIDTHS_BELOW = 3, WIDTHS_ABOVE = 1, LEAST_RUNS = 2, MOST_RUNS = 100, MOST_ROUNDS = 4 };

/* A plan is not run if its estimated time is at least this many times that of the chosen plan. The error of the
 * estimate is at most a factor of two. */
static const double NOT_RUN_FROM = 4;

/* A plan is repeated until its runs have taken this many milliseconds, because times of small fields scatter. */
static const double LONG_ENOUGH_MS = 30;

/* Plans that take fewer milliseconds are timed in several rounds, because the drift of a host is as large as the
 * differences of plans, and the first plan that is timed would be the slowest. */
static const double SHORT_MS = 2;

/* Edges of subgrids of all backends. */
static const int subgrids[] = {32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512};

typedef struct candidate {
    const msi_strategy *strategy;
    msi_plan_pins pins; /* subgrid 0: whole w-planes */
    int64_t nu, nv;     /* numbers of cells of its grid */
    int32_t n_w;        /* number of w-planes */
    double model_ms, ms;
} candidate;

struct msi_plan_regret {
    msi_bench_field *field;
    msi_field_request wanted;
    candidate plan[MAX_PLANS];
    int n_plan, chosen, has_others;
    double regret;
};

static int same(const candidate *a, const candidate *b)
{
    return a->strategy == b->strategy && a->pins.width == b->pins.width && a->pins.subgrid == b->pins.subgrid;
}

/* Make the plan of a candidate and store its values. Returns 0, MSI_ERANGE (no plan). */
static int plan_one(const msi_plan_regret *r, candidate *c, msi_field_strategy *s)
{
    msi_field_request wanted = r->wanted;
    wanted.strategy = c->strategy;
    wanted.pins = c->pins;
    MSI_TRY(msi_field_strategy_begin(s, r->field, &wanted));
    c->pins.width = s->report.width;
    c->pins.subgrid = s->report.subgrid;
    c->nu = s->report.nu;
    c->nv = s->report.nv;
    c->n_w = s->report.n_w;
    c->model_ms = 1e3 * s->report.estimate_s;
    return MSI_OK;
}

/* Append a candidate to the list, unless it is in the list or has no plan. */
static int add_plan(msi_plan_regret *r, candidate c)
{
    msi_field_strategy s;
    const int rc = plan_one(r, &c, &s);
    msi_field_strategy_end(&s);
    if (rc) return rc == MSI_ERANGE ? MSI_OK : rc;
    for (int i = 0; i < r->n_plan; i++)
        if (same(&r->plan[i], &c)) return MSI_OK;
    if (r->n_plan < MAX_PLANS) r->plan[r->n_plan++] = c;
    return MSI_OK;
}

/* List the plan that a strategy chooses, then similar ones. */
static int add_strategy(msi_plan_regret *r, const msi_strategy *strategy)
{
    const int first = r->n_plan;
    MSI_TRY(add_plan(r, (candidate){.strategy = strategy}));
    if (r->n_plan == first) return MSI_OK;
    const msi_plan_pins best = r->plan[first].pins;
    if (r->chosen < 0 || r->plan[first].model_ms < r->plan[r->chosen].model_ms) r->chosen = first;
    for (int width = best.width - WIDTHS_BELOW; width <= best.width + WIDTHS_ABOVE; width++) {
        if (width < 2) continue;
        if (!best.subgrid) MSI_TRY(add_plan(r, (candidate){.strategy = strategy, .pins = {width, 0}}));
        for (size_t i = 0; best.subgrid && i < sizeof subgrids / sizeof *subgrids; i++)
            MSI_TRY(add_plan(r, (candidate){.strategy = strategy, .pins = {width, subgrids[i]}}));
    }
    return MSI_OK;
}

int msi_plan_regret_begin(msi_plan_regret **out, msi_bench_field *field, const msi_field_request *wanted)
{
    msi_plan_regret *r;
    int n;
    const msi_strategy *strategy = msi_strategies(&n);
    MSI_TRY(msi_alloc(&r, 1, sizeof *r, "benchmark"));
    *out = r;
    r->field = field;
    r->wanted = *wanted;
    r->chosen = -1;
    for (int i = 0; i < n; i++)
        if (strcmp(strategy[i].method, wanted->strategy->method) == 0 &&
            strategy[i].backend == wanted->strategy->backend &&
            msi_field_strategy_serves(&strategy[i], wanted->predict))
            MSI_TRY(add_strategy(r, &strategy[i]));
    return r->chosen < 0 ? msi_error_set(MSI_ERANGE, "no plan reaches the accuracy") : MSI_OK;
}

static double total_ms(const msi_bench_time *t)
{
    return t->sort_ms + t->kernel_ms + t->transform_ms;
}

/* Run a plan a few times; the first run does not count. Returned: *time  of the fastest run, if it is faster than in
 * former rounds */
static int time_plan(const msi_plan_regret *r, candidate *c, msi_bench_time *time)
{
    msi_field_strategy s;
    double spent_ms = 0;
    int rc = plan_one(r, c, &s);
    for (int i = 0; !rc && i < MOST_RUNS && (i < LEAST_RUNS || spent_ms < LONG_ENOUGH_MS); i++) {
        msi_bench_time t = {0, 0, 0};
        rc = msi_field_strategy_run(&s, &t);
        spent_ms += total_ms(&t);
        if (rc || i == 0 || total_ms(&t) >= c->ms) continue;
        *time = t;
        c->ms = total_ms(&t);
    }
    msi_field_strategy_end(&s);
    return rc;
}

/* Return 1 if a plan is run. */
static int is_run(const msi_plan_regret *r, const candidate *c)
{
    return c->model_ms < NOT_RUN_FROM * r->plan[r->chosen].model_ms;
}

/* Time all plans for which is_run returns 1. Returned: *time  of the chosen plan */
static int time_all(msi_plan_regret *r, msi_bench_time *time)
{
    for (int i = 0; i < r->n_plan; i++) r->plan[i].ms = HUGE_VAL;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        if (round > 0 && r->plan[r->chosen].ms > SHORT_MS) break;
        for (int i = 0; i < r->n_plan; i++) {
            msi_bench_time other = {0, 0, 0};
            if (is_run(r, &r->plan[i])) MSI_TRY(time_plan(r, &r->plan[i], i == r->chosen ? time : &other));
        }
    }
    return MSI_OK;
}

static void print_plan(const candidate *c, int is_chosen)
{
    printf("  %-8s %2d taps, %5lld x %5lld x %4d cells, subgrids of %3d: model %9.3f ms, measured %9.3f ms%s\n",
           c->strategy->name, c->pins.width, (long long)c->nu, (long long)c->nv, (int)c->n_w, c->pins.subgrid,
           c->model_ms, c->ms, is_chosen ? "  chosen" : "");
}

int msi_plan_regret_run(msi_plan_regret *r, msi_bench_work *work, msi_bench_time *time)
{
    int best = r->chosen, n_run = 0;
    if (r->has_others) { /* measure only the chosen plan again; the comparison is complete */
        candidate again = r->plan[r->chosen];
        again.ms = HUGE_VAL;
        MSI_TRY(time_plan(r, &again, time));
    } else {
        MSI_TRY(time_all(r, time));
    }
    for (int i = 0; i < r->n_plan; i++) {
        if (!is_run(r, &r->plan[i])) continue;
        n_run++;
        if (r->plan[i].ms < r->plan[best].ms) best = i;
        if (!r->has_others) print_plan(&r->plan[i], i == r->chosen);
    }
    fflush(stdout);
    r->has_others = 1;
    const candidate *chosen = &r->plan[r->chosen], *b = &r->plan[best];
    r->regret = chosen->ms / b->ms - 1;
    snprintf(work->note, sizeof work->note,
             "regret %.1f %% of %d plans: %s, %d taps, subgrids of %d; best %s, %d, %d: %.2f ms", 100 * r->regret,
             n_run, chosen->strategy->name, chosen->pins.width, chosen->pins.subgrid, b->strategy->name, b->pins.width,
             b->pins.subgrid, b->ms);
    return MSI_OK;
}

double msi_plan_regret_measured(const msi_plan_regret *r)
{
    return r->regret;
}

void msi_plan_regret_end(msi_plan_regret *r)
{
    msi_free(r);
}

static int run_plans(void *state, msi_bench_work *work, msi_bench_time *time)
{
    return msi_plan_regret_run(state, work, time);
}

static int verify_nothing(void *state, double *error)
{
    (void)state;
    *error = 0;
    return MSI_OK;
}

static void free_plans(void *state)
{
    msi_plan_regret_end(state);
}

void msi_plan_regret_row(msi_bench_row *row)
{
    row->strategy = "all";
    row->run = run_plans;
    row->verify = verify_nothing;
    row->free_state = free_plans;
}

static int make_plan(msi_field_strategy *s, int n_image)
{
    const msi_bench_field *f = s->field;
    const int64_t memory = s->spec.memory_bytes ? s->spec.memory_bytes : msi_memory_limit();
    msi_plan_request request = {.spec = &s->spec,
                                .precision = f->precision,
                                .n_image = n_image,
                                .n_sample = f->store.n_sample,
                                .n_row = f->n_row,
                                .w_min_lambda = f->w_min_lambda,
                                .w_max_lambda = f->w_max_lambda,
                                .store = &f->store,
                                .host_bytes = memory - msi_memory_in_use()};
    return s->strategy->ops->plan(&s->plan, s->strategy, &request, &s->report);
}

int msi_field_strategy_begin(msi_field_strategy *s, msi_bench_field *f, const msi_field_request *request)
{
    const msi_strategy *strategy = request->strategy;
    const int predict = request->predict, psf = request->psf;
    memset(s, 0, sizeof *s);
    s->field = f;
    s->strategy = strategy;
    s->spec = (msi_gridder_spec){.geometry = f->geometry,
                                 .n_plane = f->n_plane,
                                 .psf = psf,
                                 .predict = predict,
                                 .method = strategy->method,
                                 .strategy = strategy->name,
                                 .accuracy = request->accuracy,
                                 .pins = request->pins,
                                 .precision = f->precision == MSI_FP32 ? MSI_PRECISION_FP32 : MSI_PRECISION_FP64,
                                 .backend = strategy->backend};
    MSI_TRY(make_plan(s, f->n_plane + psf));
    msi_bench_field_use(f, predict);
    if (predict)
        MSI_TRY(msi_bench_field_model(f, &s->image));
    else
        MSI_TRY(msi_image_alloc(&s->image, &f->geometry, f->n_plane + psf, f->precision));
    for (int i = 0; i < s->image.n_plane; i++) {
        s->store_plane[i] = i < f->n_plane ? i : -1;
        s->image.sum_weight[i] = f->sum_weight[i % f->n_plane];
        s->image.n_vis[i] = f->n_vis[i % f->n_plane];
    }
    return MSI_OK;
}

int msi_field_strategy_run(msi_field_strategy *s, msi_bench_time *time)
{
    const double start = msi_wall_s();
    memset(&s->times, 0, sizeof s->times);
    if (s->spec.predict)
        MSI_TRY(s->strategy->ops->predict(s->plan, &s->field->store, &s->image, &s->times));
    else
        MSI_TRY(s->strategy->ops->image(s->plan, &s->field->store, s->store_plane, &s->image, &s->times));
    s->wall_s = msi_wall_s() - start;
    time->sort_ms = 1e3 * s->times.sort_s;
    time->kernel_ms = 1e3 * s->times.grid_s;
    time->transform_ms = 1e3 * s->times.transform_s;
    return MSI_OK;
}

int msi_field_strategy_error(msi_field_strategy *s, double *error)
{
    if (!s->spec.predict) return msi_bench_field_image_error(s->field, &s->image, s->store_plane, error);
    msi_bench_field_vis_error(s->field, &s->image, error);
    return MSI_OK;
}

void msi_field_strategy_end(msi_field_strategy *s)
{
    if (!s) return;
    if (s->plan) s->strategy->ops->free(s->plan);
    msi_image_free(&s->image);
    memset(s, 0, sizeof *s);
}

msi_bench_row msi_field_strategy_row(const msi_strategy *strategy, msi_precision precision, int predict)
{
    return (msi_bench_row){.method = strategy->method,
                           .strategy = strategy->name,
                           .direction = predict ? "degrid" : "grid",
                           .backend = strategy->backend == MSI_BACKEND_CUDA ? "cuda" : "cpu",
                           .precision = precision == MSI_FP32 ? "fp32" : "fp64"};
}

int msi_field_strategy_serves(const msi_strategy *strategy, int predict)
{
    return predict ? strategy->ops->predict != NULL : strategy->ops->image != NULL;
}

double msi_field_strategy_additions(const msi_field_strategy *s)
{
    const msi_gridder_report *r = &s->report;
    return (double)s->field->store.n_sample * r->width * r->width * r->w_width * s->image.n_plane;
}

/*
 * Rows of the default gridder on an SKA-Low observation in the geometry of EL56-82:
 *   field/        1 channel, 240 times, 8192^2 pixels; the longest baseline just fits in the uv plane of the image
 *   field-8chan/  8 channels over 100 to 130 MHz, otherwise as field/
 *   field-small/  10 times, 2048^2 pixels, for the CPU
 *   field-tenth/  10 times, 2048^2 pixels, for the GPU
 *   skalow/       8 times, 16 channels, 4096^2 pixels of 4"
 *   plan/         times all plans that reach the accuracy, and prints the time that the chosen plan loses
 * Gridding, sort, and FFTs with screens are timed separately. Allocating memory for the sort is timed; copying samples
 * to a GPU and images back is not.
 */

enum { MAX_ROWS = 320, NAME_BYTES = 48 };

/* The part of the observation that is gridded, and the edge of the image in pixels. */
typedef struct workload {
    const char *name, *title;
    msi_backend backend;
    int64_t n_time, n_pixel;
    int32_t n_chan;
    double cell_asec; /* a pixel's edge; 0: from the longest baseline */
} workload;

static const workload workloads[] = {
    {"field-small", "field-small: wgrid, EL56-82 geometry, 1.3 M visibilities, 2048^2", MSI_BACKEND_CPU, 10, 2048, 1,
     0},
    {"field-tenth", "field-tenth: wgrid, EL56-82 geometry, 1.3 M visibilities, 2048^2", MSI_BACKEND_CUDA, 10, 2048, 1,
     0},
    {"field", "field: wgrid, EL56-82 geometry, 31.4 M visibilities, 8192^2", MSI_BACKEND_CUDA, 240, 8192, 1, 0},
    {"field-8chan", "field-8chan: wgrid, EL56-82 geometry, 8 channels, 251 M visibilities, 8192^2", MSI_BACKEND_CUDA,
     240, 8192, 8, 0},
    {"skalow", "skalow: wgrid, EL56-82 geometry, 16 channels, 16.7 M visibilities, 4096^2 of 4\"", MSI_BACKEND_CUDA, 8,
     4096, 16, 4}};

typedef struct detail {
    const workload *workload;
    const msi_strategy *strategy;
    msi_precision precision;
    double accuracy;
    int n_plane, psf, predict;
} detail;

static int get_field(msi_bench_field **out, const detail *d, const msi_bench_options *options)
{
    const workload *w = d->workload;
    const msi_field_el56 wanted = {w->n_time, w->n_pixel, w->n_chan, d->n_plane, d->precision, w->cell_asec};
    return msi_field_el56_get(out, &wanted, options);
}

static int set_up(void **state, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    const detail *d = row->detail;
    msi_field_strategy *s;
    msi_bench_field *f;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "benchmark"));
    *state = s;
    MSI_TRY(get_field(&f, d, options));
    const msi_field_request wanted = {d->strategy, d->predict, d->psf, d->accuracy, {0, 0}};
    MSI_TRY(msi_field_strategy_begin(s, f, &wanted));
    work->n_vis = f->store.n_sample;
    work->n_addition = msi_field_strategy_additions(s);
    return MSI_OK;
}

static int run_default_row(void *state, msi_bench_work *work, msi_bench_time *time)
{
    msi_field_strategy *s = state;
    const msi_gridder_report *r = &s->report;
    MSI_TRY(msi_field_strategy_run(s, time));
    int at = snprintf(work->note, sizeof work->note, "%s%d taps, %d x %lld planes of %lld^2",
                      s->field->procedural ? "procedural layout; " : "", r->width, s->image.n_plane, (long long)r->n_w,
                      (long long)r->nu);
    if (r->n_w_resident < r->n_w && r->n_w_resident > 0)
        at += snprintf(work->note + at, sizeof work->note - (size_t)at, ", %lld at once", (long long)r->n_w_resident);
    if (r->n_tower > 0)
        at += snprintf(work->note + at, sizeof work->note - (size_t)at, ", %d towers, subgrids of %d^2", r->n_tower,
                       r->subgrid);
    snprintf(work->note + at, sizeof work->note - (size_t)at, "; whole call %.0f ms, copies %.0f", 1e3 * s->wall_s,
             1e3 * s->times.transfer_s);
    return MSI_OK;
}

static int verify(void *state, double *error)
{
    return msi_field_strategy_error(state, error);
}

static void free_state(void *state)
{
    msi_field_strategy_end(state);
    msi_free(state);
}

static int set_up_plans(void **state, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    const detail *d = row->detail;
    msi_plan_regret *r = NULL;
    msi_bench_field *f;
    MSI_TRY(get_field(&f, d, options));
    const msi_field_request wanted = {d->strategy, d->predict, d->psf, d->accuracy, {0, 0}};
    const int rc = msi_plan_regret_begin(&r, f, &wanted);
    *state = r;
    work->n_vis = f->store.n_sample;
    return rc;
}

typedef struct row_list {
    msi_bench_row row[MAX_ROWS];
    detail details[MAX_ROWS];
    char name[MAX_ROWS][NAME_BYTES];
    int n;
} row_list;

static void add_row(row_list *l, const detail *d)
{
    static const char *const planes[] = {"", "", "-2planes", "-3planes", "-4planes", "-5planes"};
    if (l->n == MAX_ROWS || !msi_field_strategy_serves(d->strategy, d->predict)) return;
    const int i = l->n++;
    /* For any window, phases in double precision have errors of half a unit in the last place of 8192 turns. */
    const double floor = 2e-12;
    l->details[i] = *d;
    snprintf(l->name[i], NAME_BYTES, "%s/%s-%s-1e%.0f%s", d->workload->name, d->strategy->name,
             d->predict ? "degrid" : "grid", log10(d->accuracy), planes[d->n_plane + d->psf]);
    msi_bench_row *r = &l->row[i];
    *r = msi_field_strategy_row(d->strategy, d->precision, d->predict);
    r->name = l->name[i];
    r->workload = d->workload->title;
    r->tolerance = fmax(d->accuracy, floor);
    r->detail = &l->details[i];
    r->set_up = set_up;
    r->run = run_default_row;
    r->verify = verify;
    r->free_state = free_state;
    r->no_energy = 1;
}

/* Add a row that times all plans of a workload with one method and backend, for all strategies. */
static void add_plans(row_list *l, const workload *w, double accuracy, int predict)
{
    int n;
    const msi_strategy *strategy = msi_strategies(&n);
    for (int k = 0; k < n; k++) {
        if (l->n == MAX_ROWS || strcmp(strategy[k].method, "wgrid") != 0 || strategy[k].backend != w->backend) continue;
        const detail d = {w, &strategy[k], accuracy > 1e-6 ? MSI_FP32 : MSI_FP64, accuracy, 1, 0, predict};
        const int i = l->n;
        add_row(l, &d);
        snprintf(l->name[i], NAME_BYTES, "plan/%s-%s-1e%.0f", w->name, predict ? "degrid" : "grid", log10(accuracy));
        l->row[i].set_up = set_up_plans;
        msi_plan_regret_row(&l->row[i]);
        return;
    }
}

/* Add the rows of a field together, imaging before prediction, because predictions overwrite the visibilities. */
static void add_rows(row_list *l, const workload *w, msi_precision precision, int n_plane)
{
    static const double accuracies[][3] = {[MSI_FP32] = {1e-3, 1e-5, 1e-6}, [MSI_FP64] = {1e-8, 1e-12, 0}};
    int n_strategy;
    const msi_strategy *strategy = msi_strategies(&n_strategy);
    for (int predict = 0; predict < 2; predict++)
        for (int k = 0; k < n_strategy; k++)
            for (int a = 0; a < 3; a++) {
                if (strcmp(strategy[k].method, "wgrid") != 0 || strategy[k].backend != w->backend) continue;
                if (accuracies[precision][a] <= 0) continue;
                add_row(l, &(detail){w, &strategy[k], precision, accuracies[precision][a], n_plane,
                                     !predict && n_plane > 1, predict});
            }
}

static void add_all(row_list *l)
{
    static const double of_plans[] = {1e-3, 1e-5, 1e-8};
    const size_t n_workload = sizeof workloads / sizeof workloads[0];
    for (size_t i = 0; i < n_workload; i++)
        for (int n_plane = 1; n_plane <= MSI_BENCH_FIELD_PLANES; n_plane += MSI_BENCH_FIELD_PLANES - 1) {
            add_rows(l, &workloads[i], MSI_FP32, n_plane);
            add_rows(l, &workloads[i], MSI_FP64, n_plane);
        }
    for (size_t i = 0; i < n_workload; i++)
        for (size_t a = 0; a < sizeof of_plans / sizeof of_plans[0]; a++)
            for (int predict = 0; predict < 2; predict++) add_plans(l, &workloads[i], of_plans[a], predict);
}

msi_bench_table msi_default_rows(void)
{
    static row_list l;
    if (l.n == 0) add_all(&l);
    return (msi_bench_table){l.row, l.n};
}
