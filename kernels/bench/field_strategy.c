/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/bench/field_strategy.h"

#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"

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
