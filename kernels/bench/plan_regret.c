/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/bench/field_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

enum { MAX_PLANS = 128, WIDTHS_BELOW = 3, WIDTHS_ABOVE = 1, LEAST_RUNS = 2, MOST_RUNS = 100, MOST_ROUNDS = 4 };

/* A plan is not run if its time by the model is at least this many times the chosen plan's. The model is off by two at
 * most. */
static const double NOT_RUN_FROM = 4;

/* A plan is run again until its runs have taken this many milliseconds: times of small fields scatter. */
static const double LONG_ENOUGH_MS = 30;

/* Plans that take fewer milliseconds are timed in several rounds: a host's drift from one to the next is as large as
 * what is between them, and the first to be timed would be the slowest. */
static const double SHORT_MS = 2;

/* Edges of subgrids that any backend has. */
static const int subgrids[] = {32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512};

typedef struct candidate {
    const msi_strategy *strategy;
    msi_plan_pins pins; /* 0: w-planes have no subgrids */
    int64_t nu, nv;     /* cells of its grid */
    int32_t n_w;        /* planes of it */
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

/* List a candidate, unless it is listed or there is no such plan. */
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

/* Run a plan a few times, the first of which does not count. Returned: *time of the fastest, where it is faster than in
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

/* Return whether a plan is worth running. */
static int is_run(const msi_plan_regret *r, const candidate *c)
{
    return c->model_ms < NOT_RUN_FROM * r->plan[r->chosen].model_ms;
}

/* Time all plans that are worth it. Returned: *time of the chosen one */
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
    if (r->has_others) { /* only its own time is measured again; the comparison was measured together */
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
