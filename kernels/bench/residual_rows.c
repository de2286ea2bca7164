/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows of a major cycle of deconvolution: a model is predicted and subtracted from the data, and the residual is
 * imaged. The plan was used before, so samples are already sorted if the backend keeps them. The array is similar to
 * MeerKAT: 64 dishes, most in a core of 300 m, 900 times of 8 s, 16 channels over 856 to 1712 MHz, declination -45
 * degrees. residual-small/, for the CPU, has 36 of the times and 1024^2 of the pixels.
 *
 * Rows plan/meerkat time all plans for this field that reach the accuracy, as rows plan/ of default_rows.c do.
 *
 * The model is a source at the image's centre, whose visibilities are all equal. The residual is the image of the data
 * less the PSF times its flux; both are computed by direct sums.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/bench.h"
#include "kernels/bench/field_rows.h"
#include "kernels/method/planes.h"
#include "kernels/strategy.h"

enum {
    N_DISH = 64,
    N_BASELINE = N_DISH * (N_DISH - 1) / 2,
    N_CHAN = 16,
    N_CHECKED = 24,
    MAX_ROWS = 64,
    NAME_BYTES = 48
};

static const double CORE_M = 300, CORE_PART = 0.7, LEAST_M = 500, MOST_M = 3850, CELL_RAD = 2 / 206264.806;
static const double LATITUDE_RAD = -0.5360, DECLINATION_RAD = -0.7854, SIDEREAL_RAD_S = 7.2921e-5, FLUX_JY = 0.25;

typedef struct workload {
    const char *name, *title;
    msi_backend backend;
    int64_t n_time, n_pixel;
} workload;

static const workload workloads[] = {
    {"residual-small", "residual-small: a major cycle, MeerKAT-like, 1.2 M visibilities, 1024^2", MSI_BACKEND_CPU, 36,
     1024},
    {"residual", "residual: a major cycle, MeerKAT-like, 29.0 M visibilities, 4096^2", MSI_BACKEND_CUDA, 900, 4096}};

typedef struct detail {
    const workload *workload;
    const msi_strategy *strategy;
    msi_precision precision;
    double accuracy;
    int predict; /* direction of rows plan/ */
} detail;

typedef struct state {
    msi_bench_field *field;
    const msi_strategy *strategy;
    msi_gridder_spec spec;
    msi_plan *plan;
    msi_gridder_report report;
    msi_planes *model, *residual;
} state;

/* Place dishes in the horizontal plane, east and north in metres: a gaussian core, and other dishes log-uniform in
 * radius. */
static void lay_dishes(double (*dish)[2])
{
    for (uint64_t i = 0; i < N_DISH; i++) {
        const double x = msi_bench_uniform(3 * i + 1), angle = 2 * MSI_PI * msi_bench_uniform(3 * i + 2);
        const double radius =
            (double)i < CORE_PART * N_DISH ? CORE_M * sqrt(-2 * log(1 - x)) : LEAST_M * pow(MOST_M / LEAST_M, x);
        dish[i][0] = radius * sin(angle);
        dish[i][1] = radius * cos(angle);
    }
}

/* Make the baselines of n_time times in the middle of a track of two hours. Returns the largest |w| */
static double track(double *uvw_m, int64_t n_time)
{
    double dish[N_DISH][2], most = 0;
    lay_dishes(dish);
    for (int64_t t = 0; t < n_time; t++) {
        const double hour = (double)(t - n_time / 2) * (8.0 * 900 / (double)n_time) * SIDEREAL_RAD_S;
        for (int a = 0, row = 0; a < N_DISH; a++)
            for (int b = a + 1; b < N_DISH; b++, row++) {
                const double east = dish[b][0] - dish[a][0], north = dish[b][1] - dish[a][1];
                const double x = -sin(LATITUDE_RAD) * north, z = cos(LATITUDE_RAD) * north;
                const double to_source = cos(hour) * x - sin(hour) * east;
                double *uvw = uvw_m + 3 * (t * N_BASELINE + row);
                uvw[0] = sin(hour) * x + cos(hour) * east;
                uvw[1] = -sin(DECLINATION_RAD) * to_source + cos(DECLINATION_RAD) * z;
                uvw[2] = cos(DECLINATION_RAD) * to_source + sin(DECLINATION_RAD) * z;
                most = fmax(most, fabs(uvw[2]));
            }
    }
    return most;
}

static int make_field(msi_bench_field *f, const detail *d, const msi_bench_options *options)
{
    const double n_time = ceil(options->scale * (double)d->workload->n_time);
    memset(f, 0, sizeof *f);
    f->n_row = (int64_t)n_time * N_BASELINE;
    f->n_chan = N_CHAN;
    f->n_plane = 1;
    f->precision = d->precision;
    f->n_pixel = N_CHECKED;
    f->seed = 1;
    f->geometry = (msi_image_geometry){d->workload->n_pixel, d->workload->n_pixel, CELL_RAD, CELL_RAD};
    for (int c = 0; c < N_CHAN; c++) f->freq_hz[c] = 882.75e6 + 53.5e6 * c;
    MSI_TRY(msi_alloc(&f->uvw_m, 3 * f->n_row, sizeof *f->uvw_m, "uvw"));
    f->w_max_lambda = track(f->uvw_m, (int64_t)n_time) * f->freq_hz[N_CHAN - 1] / MSI_SPEED_OF_LIGHT;
    return msi_bench_field_fill(f);
}

/* Get the field of a row. It is kept until a row of another workload or precision needs one. */
static int get_field(msi_bench_field **out, const detail *d, const msi_bench_options *options)
{
    static msi_bench_field field;
    static const workload *made_for;
    if (made_for != d->workload || field.precision != d->precision) {
        made_for = NULL;
        msi_bench_field_free(&field);
        MSI_TRY(make_field(&field, d, options));
        made_for = d->workload;
    }
    *out = &field;
    return MSI_OK;
}

static int make_plan(state *s)
{
    const msi_bench_field *f = s->field;
    const msi_plan_request request = {.spec = &s->spec,
                                      .precision = f->precision,
                                      .n_image = 1,
                                      .n_sample = f->store.n_sample,
                                      .n_row = f->n_row,
                                      .w_min_lambda = f->w_min_lambda,
                                      .w_max_lambda = f->w_max_lambda,
                                      .store = &f->store,
                                      .host_bytes = msi_memory_limit() - msi_memory_in_use()};
    return s->strategy->ops->plan(&s->plan, s->strategy, &request, &s->report);
}

static int make_planes(state *s)
{
    const msi_image_geometry *g = &s->spec.geometry;
    const msi_planes_shape shape = {
        .nx = g->nx, .ny = g->ny, .n = 1, .precision = s->field->precision, .backend = s->strategy->backend};
    const int64_t centre = g->ny / 2 * g->nx + g->nx / 2;
    msi_image model;
    MSI_TRY(msi_planes_create(&s->model, &shape));
    MSI_TRY(msi_planes_create(&s->residual, &shape));
    MSI_TRY(msi_image_alloc(&model, g, 1, shape.precision));
    if (shape.precision == MSI_FP32)
        ((float *)model.pixel)[centre] = (float)FLUX_JY;
    else
        ((double *)model.pixel)[centre] = FLUX_JY;
    const int rc = msi_planes_upload(s->model, 0, 1, model.pixel);
    msi_image_free(&model);
    return rc;
}

static int set_up(void **out, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    const detail *d = row->detail;
    state *s;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "benchmark"));
    *out = s;
    MSI_TRY(get_field(&s->field, d, options));
    s->strategy = d->strategy;
    s->spec = (msi_gridder_spec){.geometry = s->field->geometry,
                                 .n_plane = 1,
                                 .residual = 1,
                                 .method = d->strategy->method,
                                 .strategy = d->strategy->name,
                                 .accuracy = d->accuracy,
                                 .precision = d->precision == MSI_FP32 ? MSI_PRECISION_FP32 : MSI_PRECISION_FP64,
                                 .backend = d->strategy->backend};
    MSI_TRY(make_plan(s));
    MSI_TRY(make_planes(s));
    const msi_gridder_report *r = &s->report;
    work->n_vis = s->field->store.n_sample;
    /* Gridding and degridding. */
    work->n_addition = 2.0 * (double)work->n_vis * r->width * r->width * r->w_width;
    return MSI_OK;
}

static int run_residual_row(void *of, msi_bench_work *work, msi_bench_time *time)
{
    state *s = of;
    const int plane = 0;
    const msi_residual_job job = {.store = &s->field->store,
                                  .n_image = 1,
                                  .store_plane = &plane,
                                  .sum_weight = s->field->sum_weight,
                                  .model = msi_planes_pixel(s->model, 0),
                                  .pixel = msi_planes_pixel(s->residual, 0)};
    msi_stage_times times = {0};
    const double start = msi_wall_s();
    MSI_TRY(s->strategy->ops->residual(s->plan, &job, &times));
    const double wall_s = msi_wall_s() - start;
    const msi_gridder_report *r = &s->report;
    time->sort_ms = 1e3 * times.sort_s;
    time->kernel_ms = 1e3 * times.grid_s;
    time->transform_ms = 1e3 * (times.transform_s + times.correct_s);
    int at = snprintf(work->note, sizeof work->note, "%d taps, %lld planes of %lld^2", r->width, (long long)r->n_w,
                      (long long)r->nu);
    if (r->n_tower > 0)
        at += snprintf(work->note + at, sizeof work->note - (size_t)at, ", %d towers, subgrids of %d^2", r->n_tower,
                       r->subgrid);
    snprintf(work->note + at, sizeof work->note - (size_t)at, "; whole call %.1f ms", 1e3 * wall_s);
    return MSI_OK;
}

static int verify(void *of, double *error)
{
    state *s = of;
    const int plane = 0;
    msi_image image;
    MSI_TRY(msi_image_alloc(&image, &s->spec.geometry, 1, s->field->precision));
    int rc = msi_planes_fetch(s->residual, 0, 1, image.pixel);
    if (!rc) rc = msi_bench_field_residual_error(s->field, &image, &plane, FLUX_JY, error);
    msi_image_free(&image);
    return rc;
}

static void free_state(void *of)
{
    state *s = of;
    if (!s) return;
    if (s->plan) s->strategy->ops->free(s->plan);
    msi_planes_free(s->model);
    msi_planes_free(s->residual);
    msi_free(s);
}

static int set_up_plans(void **of, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    const detail *d = row->detail;
    msi_plan_regret *r = NULL;
    msi_bench_field *f;
    MSI_TRY(get_field(&f, d, options));
    const msi_field_request wanted = {d->strategy, d->predict, 0, d->accuracy, {0, 0}};
    const int rc = msi_plan_regret_begin(&r, f, &wanted);
    *of = r;
    work->n_vis = f->store.n_sample;
    return rc;
}

typedef struct row_list {
    msi_bench_row row[MAX_ROWS];
    detail details[MAX_ROWS];
    char name[MAX_ROWS][NAME_BYTES];
    int n;
} row_list;

static void add_row(row_list *l, const workload *w, const msi_strategy *strategy, double accuracy)
{
    if (l->n == MAX_ROWS || !strategy->ops->residual || strategy->backend != w->backend) return;
    const int i = l->n++;
    const msi_precision precision = accuracy > 1e-6 ? MSI_FP32 : MSI_FP64;
    l->details[i] = (detail){w, strategy, precision, accuracy, 0};
    snprintf(l->name[i], NAME_BYTES, "%s/%s-1e%.0f", w->name, strategy->name, log10(accuracy));
    l->row[i] = (msi_bench_row){.name = l->name[i],
                                .workload = w->title,
                                .method = strategy->method,
                                .strategy = strategy->name,
                                .direction = "residual",
                                .backend = strategy->backend == MSI_BACKEND_CUDA ? "cuda" : "cpu",
                                .precision = precision == MSI_FP32 ? "fp32" : "fp64",
                                .tolerance = 1.5 * accuracy, /* both directions */
                                .detail = &l->details[i],
                                .set_up = set_up,
                                .run = run_residual_row,
                                .verify = verify,
                                .free_state = free_state,
                                .no_energy = 1};
}

/* Change the last row to one that times all plans of its method and backend, in one direction. */
static void turn_into_plans(row_list *l, int predict)
{
    const int i = l->n - 1;
    msi_bench_row *r = &l->row[i];
    l->details[i].predict = predict;
    r->direction = predict ? "degrid" : "grid";
    snprintf(l->name[i], NAME_BYTES, "plan/meerkat-%s-1e%.0f", r->direction, log10(l->details[i].accuracy));
    r->set_up = set_up_plans;
    msi_plan_regret_row(r);
}

static void add_plans(row_list *l, const workload *w, double accuracy)
{
    int n_strategy;
    const msi_strategy *strategy = msi_strategies(&n_strategy);
    for (int predict = 0; predict < 2; predict++)
        for (int k = 0; k < n_strategy; k++) {
            const int n = l->n;
            if (strategy[k].backend == w->backend) add_row(l, w, &strategy[k], accuracy);
            if (l->n == n) continue;
            turn_into_plans(l, predict);
            break;
        }
}

msi_bench_table msi_residual_rows(void)
{
    static const double accuracies[] = {1e-4, 1e-5, 1e-8};
    static row_list l;
    int n_strategy;
    const msi_strategy *strategy = msi_strategies(&n_strategy);
    if (l.n == 0) {
        for (size_t w = 0; w < sizeof workloads / sizeof workloads[0]; w++)
            for (size_t a = 0; a < sizeof accuracies / sizeof accuracies[0]; a++)
                for (int k = 0; k < n_strategy; k++) add_row(&l, &workloads[w], &strategy[k], accuracies[a]);
        for (size_t a = 0; a < sizeof accuracies / sizeof accuracies[0]; a++)
            add_plans(&l, &workloads[1], accuracies[a]);
    }
    return (msi_bench_table){l.row, l.n};
}
