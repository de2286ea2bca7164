/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows team/: images of the SKA-Low observation of field-8chan/ by several GPUs (-gpus). Rows team-small/: images by
 * several workers of the CPU. A whole call is timed. Its samples are on the devices already, sorted by an earlier call.
 * The images end in host memory; if workers share the samples of an image, their images are added. 16images has 16
 * images, each of a sixteenth of the times and by one device, like output channels. twice has n times the visibilities
 * for n devices, first with more channels and then with more times.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/ordered_parallel.h"
#include "kernels/bench/field_rows.h"
#include "kernels/workers.h"

enum { MAX_PARTS = 16, MAX_ROWS = 16, N_TIME = 240, N_CHAN = 8 };

typedef struct detail {
    const char *name;
    msi_backend backend;
    double accuracy;
    int n_plane, n_part; /* n_part images of some of the times, each by one worker; 1: one image by all workers */
    int grows;           /* 1: the number of samples grows with the number of workers */
} detail;

static const detail details[] = {{"team/1e-5", MSI_BACKEND_CUDA, 1e-5, 1, 1, 0},
                                 {"team/1e-5-4planes", MSI_BACKEND_CUDA, 1e-5, 4, 1, 0},
                                 {"team/1e-5-16images", MSI_BACKEND_CUDA, 1e-5, 1, 16, 0},
                                 {"team/1e-5-twice", MSI_BACKEND_CUDA, 1e-5, 1, 1, 1},
                                 {"team/1e-8", MSI_BACKEND_CUDA, 1e-8, 1, 1, 0},
                                 {"team-small/1e-5", MSI_BACKEND_CPU, 1e-5, 1, 1, 0},
                                 {"team-small/1e-5-4planes", MSI_BACKEND_CPU, 1e-5, 4, 1, 0},
                                 {"team-small/1e-5-16images", MSI_BACKEND_CPU, 1e-5, 1, 16, 0}};

/* Some of the samples, and the workers that image them. */
typedef struct part {
    msi_vis_store store; /* some segments of the field's store */
    int worker;          /* index of the worker; not used if there is one part */
    msi_workers *workers;
    double sum_weight[MSI_BENCH_FIELD_PLANES];
    int64_t n_vis[MSI_BENCH_FIELD_PLANES];
    msi_image image;
    msi_stage_times times;
} part;

typedef struct state {
    const detail *d;
    msi_bench_field *field;
    msi_gridder_spec spec;
    int device[MSI_BENCH_MAX_GPUS], n_gpu, n_part;
    msi_gridder_report report;
    part part[MAX_PARTS];
} state;

/* Sum the weights of a part. */
static void weigh(part *p, int n_plane)
{
    for (int64_t i = 0; i < p->store.n_segment; i++) {
        const msi_vis_segment *s = &p->store.segment[i];
        const int64_t n = s->n_row * s->n_chan;
        for (int k = 0; k < n_plane; k++)
            for (int64_t j = 0; j < n; j++) {
                p->sum_weight[k] += (double)s->weight[k * n + j];
                p->n_vis[k] += s->weight[k * n + j] > 0;
            }
    }
}

/* Give each part its segments. */
static void cut_store(state *s)
{
    const msi_vis_store *all = &s->field->store;
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < s->n_part; i++) {
        part *p = &s->part[i];
        const int64_t first = all->n_segment * i / s->n_part, end = all->n_segment * (i + 1) / s->n_part;
        p->store = *all;
        p->store.segment += first;
        p->store.n_segment = end - first;
        p->store.n_sample = 0;
        for (int64_t k = first; k < end; k++) p->store.n_sample += all->segment[k].n_row * all->segment[k].n_chan;
        weigh(p, s->field->n_plane);
    }
}

/* Make the workers of a part: all, or one if there are several parts. */
static int make_workers(state *s, int i)
{
    const msi_strategy *strategy = msi_strategy_find("wgrid", "subgrid", s->d->backend);
    part *p = &s->part[i];
    msi_plan *whole = NULL;
    msi_gridder_spec spec = s->spec;
    int64_t n_row = 0;
    for (int64_t k = 0; k < p->store.n_segment; k++) n_row += p->store.segment[k].n_row;
    p->worker = s->device[i % s->n_gpu];
    spec.worker = s->n_part > 1 ? &p->worker : s->device;
    spec.n_worker = s->n_part > 1 ? 1 : s->n_gpu;
    spec.device = spec.worker[0];
    const msi_plan_request request = {.spec = &spec,
                                      .precision = s->field->precision,
                                      .n_image = spec.n_plane,
                                      .n_sample = p->store.n_sample,
                                      .n_row = n_row,
                                      .w_min_lambda = p->store.w_min_lambda,
                                      .w_max_lambda = p->store.w_max_lambda,
                                      .store = &p->store,
                                      .host_bytes = msi_memory_limit() - msi_memory_in_use()};
    MSI_TRY(strategy->ops->plan(&whole, strategy, &request, &s->report));
    const int rc = msi_workers_create(&p->workers, strategy, whole, &request);
    strategy->ops->free(whole);
    return rc ? rc : msi_image_alloc(&p->image, &s->field->geometry, spec.n_plane, s->field->precision);
}

static int image_part(void *of, int64_t i)
{
    static const int planes[MSI_BENCH_FIELD_PLANES] = {0, 1, 2, 3};
    state *s = of;
    part *p = &s->part[i];
    const msi_residual_job job = {
        .store = &p->store, .n_image = s->d->n_plane, .store_plane = planes, .sum_weight = p->sum_weight};
    memset(&p->times, 0, sizeof p->times);
    memcpy(p->image.sum_weight, p->sum_weight, sizeof p->sum_weight);
    memcpy(p->image.n_vis, p->n_vis, sizeof p->n_vis);
    return msi_workers_image(p->workers, &job, p->image.pixel, &p->times);
}

static int set_up(void **out, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    const detail *d = row->detail;
    const int small = d->backend == MSI_BACKEND_CPU, n_gpu = options->n_gpu > 1 ? options->n_gpu : 1;
    state *s;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "benchmark"));
    *out = s;
    s->d = d;
    s->n_gpu = n_gpu;
    for (int i = 0; i < n_gpu; i++) s->device[i] = small ? 0 : options->gpu[i];
    const int most = MSI_BENCH_FIELD_MAX_CHAN / N_CHAN, n_chan = N_CHAN * (!d->grows ? 1 : n_gpu < most ? n_gpu : most);
    const msi_field_el56 wanted = {small      ? 10
                                   : d->grows ? N_TIME * n_gpu * N_CHAN / n_chan
                                              : N_TIME,
                                   small ? 2048 : 8192,
                                   small ? 1 : n_chan,
                                   d->n_plane,
                                   d->accuracy > 1e-6 ? MSI_FP32 : MSI_FP64,
                                   0};
    MSI_TRY(msi_field_el56_get(&s->field, &wanted, options));
    msi_bench_field_use(s->field, 0);
    s->spec = (msi_gridder_spec){.geometry = s->field->geometry,
                                 .n_plane = d->n_plane,
                                 .residual = 1,
                                 .method = "wgrid",
                                 .strategy = "subgrid",
                                 .accuracy = d->accuracy,
                                 .precision = wanted.precision == MSI_FP32 ? MSI_PRECISION_FP32 : MSI_PRECISION_FP64,
                                 .backend = d->backend};
    s->n_part = s->field->store.n_segment < d->n_part ? (int)s->field->store.n_segment : d->n_part;
    cut_store(s);
    /* Plans are made one after the other, because a plan takes memory that the earlier ones have left. */
    for (int i = 0; i < s->n_part; i++) {
        MSI_TRY(make_workers(s, i));
        if (s->n_part > 1) MSI_TRY(image_part(s, i));
    }
    work->n_vis = s->field->store.n_sample;
    work->n_addition = (double)work->n_vis * s->report.width * s->report.width * s->report.w_width * s->field->n_plane;
    return MSI_OK;
}

static int run_worker_row(void *of, msi_bench_work *work, msi_bench_time *time)
{
    state *s = of;
    const msi_ordered_parallel lanes = {.n_item = s->n_part, .n_thread = s->n_gpu, .work = image_part, .of = s};
    const double start = msi_wall_s();
    MSI_TRY(s->n_part > 1 ? msi_ordered_parallel_run(&lanes) : image_part(s, 0));
    time->kernel_ms = 1e3 * (msi_wall_s() - start);
    const msi_stage_times *t = &s->part[0].times;
    snprintf(work->note, sizeof work->note, "%d %s; first one: grid %.1f ms, FFT %.1f, correct %.1f, copies %.1f",
             s->n_gpu, s->d->backend == MSI_BACKEND_CUDA ? "GPUs" : "workers", 1e3 * t->grid_s, 1e3 * t->transform_s,
             1e3 * t->correct_s, 1e3 * t->transfer_s);
    return MSI_OK;
}

/* The sum of the parts' images is the image of all samples. */
static int verify(void *of, double *error)
{
    static const int planes[MSI_BENCH_FIELD_PLANES] = {0, 1, 2, 3};
    state *s = of;
    msi_image sum;
    if (s->n_part == 1) return msi_bench_field_image_error(s->field, &s->part[0].image, planes, error);
    MSI_TRY(msi_image_alloc(&sum, &s->field->geometry, s->d->n_plane, s->field->precision));
    for (int i = 0; i < s->n_part; i++) msi_image_add(&sum, &s->part[i].image);
    const int rc = msi_bench_field_image_error(s->field, &sum, planes, error);
    msi_image_free(&sum);
    return rc;
}

static void free_state(void *of)
{
    state *s = of;
    for (int i = 0; s && i < s->n_part; i++) {
        msi_workers_free(s->part[i].workers);
        msi_image_free(&s->part[i].image);
    }
    msi_free(s);
}

msi_bench_table msi_team_rows(void)
{
    static msi_bench_row row[MAX_ROWS];
    int n = 0;
    for (size_t i = 0; i < sizeof details / sizeof *details; i++) {
        const detail *d = &details[i];
        const msi_strategy *strategy = msi_strategy_find("wgrid", "subgrid", d->backend);
        if (!strategy) continue;
        msi_bench_row *r = &row[n++];
        *r = msi_field_strategy_row(strategy, d->accuracy > 1e-6 ? MSI_FP32 : MSI_FP64, 0);
        r->name = d->name;
        r->workload = d->backend == MSI_BACKEND_CUDA ? "team: field-8chan, 251 M visibilities, 8192^2, by -gpus"
                                                     : "team-small: field-small, 1.3 M visibilities, by -gpus workers";
        r->tolerance = d->accuracy;
        r->detail = d;
        r->set_up = set_up;
        r->run = run_worker_row;
        r->verify = verify;
        r->free_state = free_state;
    }
    return (msi_bench_table){row, n};
}
