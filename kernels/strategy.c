/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of gridders, and the rows that serve a specification. Only this file knows which gridders were compiled
 * in. */
#include "kernels/strategy.h"

#include <math.h>
#include <string.h>

#include "core/status.h"
#include "kernels/backend.h"
#include "kernels/tiles.h"
#include "kernels/towers/wgrid_tower_method.h"
#include "kernels/wgrid/wgrid_method.h"
#include "kernels/wproj/wproj_plan.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif

#ifdef MSI_HAVE_CUDA
enum { HAS_CUDA = 1 };
#else
enum { HAS_CUDA = 0 };
#endif

/* In the order in which AUTO prefers them. */
static const msi_strategy strategies[] = {
#ifdef MSI_HAVE_CUDA
    {.method = "wgrid", .name = "planes", .backend = MSI_BACKEND_CUDA, .ops = &msi_wgrid_cuda_ops},
#endif
    {.method = "wgrid", .name = "planes", .backend = MSI_BACKEND_CPU, .ops = &msi_wgrid_cpu_ops},
#ifdef MSI_HAVE_CUDA
    {.method = "wgrid", .name = "subgrid", .backend = MSI_BACKEND_CUDA, .ops = &msi_wgrid_tower_cuda_ops},
#endif
    {.method = "wgrid", .name = "subgrid", .backend = MSI_BACKEND_CPU, .ops = &msi_wgrid_tower_cpu_ops},
#ifdef MSI_HAVE_WPROJ_CUDA
    {.method = "wproj", .name = "tile", .backend = MSI_BACKEND_CUDA, .ops = &msi_wproj_cuda_image_ops},
    {.method = "wproj", .name = "window", .backend = MSI_BACKEND_CUDA, .ops = &msi_wproj_cuda_ops},
    {.method = "wproj", .name = "gather", .backend = MSI_BACKEND_CUDA, .ops = &msi_wproj_cuda_predict_ops},
    {.method = "wproj", .name = "scatter", .backend = MSI_BACKEND_CUDA, .ops = &msi_wproj_cuda_predict_ops},
#endif
    {.method = "wproj", .name = "tile", .backend = MSI_BACKEND_CPU, .ops = &msi_wproj_cpu_ops},
    {.method = "wproj", .name = "window", .backend = MSI_BACKEND_CPU, .ops = &msi_wproj_cpu_ops},
    {.method = "wproj", .name = "gather", .backend = MSI_BACKEND_CPU, .ops = &msi_wproj_cpu_predict_ops},
    {.method = "wproj", .name = "scatter", .backend = MSI_BACKEND_CPU, .ops = &msi_wproj_cpu_predict_ops},
};

enum { N_STRATEGY = sizeof strategies / sizeof *strategies };

const msi_strategy *msi_strategies(int *n)
{
    *n = N_STRATEGY;
    return strategies;
}

const msi_strategy *msi_strategy_next(const msi_strategy *last, const char *method, const char *name, int predict)
{
    for (const msi_strategy *s = last ? last + 1 : strategies; s < strategies + N_STRATEGY; s++)
        if (strcmp(s->method, method ? method : MSI_METHOD_DEFAULT) == 0 &&
            (msi_strategy_is_open(name) || strcmp(s->name, name) == 0) && msi_strategy_serves(s, predict))
            return s;
    return NULL;
}

const msi_strategy *msi_strategy_find(const char *method, const char *name, msi_backend backend)
{
    for (const msi_strategy *s = strategies; s < strategies + N_STRATEGY; s++)
        if (s->backend == backend && strcmp(s->method, method) == 0 && strcmp(s->name, name) == 0) return s;
    return NULL;
}

int msi_strategy_available(const msi_strategy *strategy)
{
#ifdef MSI_HAVE_CUDA
    if (strategy->backend == MSI_BACKEND_CUDA) return msi_gpu_available();
#endif
    return strategy->backend == MSI_BACKEND_CPU;
}

const msi_strategy *msi_strategy_next_for(const msi_strategy *last, const msi_gridder_spec *spec, const char *name)
{
    const msi_strategy *s = last;
    do {
        s = msi_strategy_next(s, spec->method, name, spec->predict);
    } while (s && spec->residual && !s->ops->residual);
    return s;
}

int msi_strategy_first_for(const msi_strategy **out, const msi_gridder_spec *spec)
{
    const char *method = spec->method ? spec->method : MSI_METHOD_DEFAULT;
    int known = 0, known_here = 0;
    for (const msi_strategy *s = NULL; (s = msi_strategy_next_for(s, spec, spec->strategy));) {
        known = 1;
        if (spec->backend != MSI_BACKEND_AUTO && spec->backend != s->backend) continue;
        known_here = 1;
        if (!msi_strategy_available(s)) continue;
        *out = s;
        return MSI_OK;
    }
    const int wants_gpu = spec->backend == MSI_BACKEND_CUDA;
    const char *strategy = spec->strategy ? spec->strategy : MSI_STRATEGY_OPEN;
    const char *what = spec->predict ? "predictions" : spec->residual ? "residuals" : "images";
    if (wants_gpu && known && (known_here || !HAS_CUDA))
        return msi_error_about(msi_error_set(MSI_EGPU, "backend cuda: %s", msi_backend_describe_device(spec->device)),
                               "backend");
    if (known)
        return msi_error_about(msi_error_set(MSI_ERANGE, "backend %s has no strategy '%s' of gridder '%s' for %s",
                                             wants_gpu ? "cuda" : "cpu", strategy, method, what),
                               "backend");
    if (spec->residual && msi_strategy_next(NULL, method, spec->strategy, 0))
        return msi_error_about(
            msi_error_set(MSI_ERANGE, "gridder '%s' makes images and predictions, but no residuals", method), "method");
    return msi_error_about(
        msi_error_set(MSI_ERANGE, "unknown strategy '%s' of gridder '%s' for %s", strategy, method, what), "strategy");
}

/* ---- Plans ---- */

void msi_strategy_choice_free(msi_strategy_choice *choice)
{
    if (choice->plan) choice->strategy->ops->free(choice->plan);
    choice->plan = NULL;
}

/* Rank how a plan fits into memory: 2 with all its arrays; 1 if arrays that may be in files are; 0 not at all. */
static int how_it_fits(const msi_gridder_report *r, const msi_plan_request *request, int64_t available_bytes)
{
    if (r->least_grid_bytes <= available_bytes) return 2;
    return r->least_grid_bytes - r->work_bytes <= request->paged_bytes;
}

/* Return 1 if plan a is better: one that fits better, then the faster or smaller one. */
static int is_better_plan(const msi_gridder_report *a, const msi_gridder_report *b, const msi_plan_request *request,
                          int64_t available_bytes)
{
    int a_fits = how_it_fits(a, request, available_bytes), b_fits = how_it_fits(b, request, available_bytes);
    if (a_fits != b_fits) return a_fits > b_fits;
    return a_fits ? a->estimate_s < b->estimate_s : a->least_grid_bytes < b->least_grid_bytes;
}

/* Find the best plan of all strategies of a name (NULL: any). A strategy that cannot serve (MSI_ERANGE) is skipped; if
 * all are, the last error stands. */
static int find_fastest_plan(msi_strategy_choice *best, const msi_plan_request *request, const char *name,
                             msi_backend backend, int64_t available_bytes, const msi_gridder_report *report)
{
    const msi_gridder_spec *spec = request->spec;
    int reason = MSI_OK;
    *best = (msi_strategy_choice){.report = *report};
    for (const msi_strategy *s = NULL; (s = msi_strategy_next_for(s, spec, name));) {
        if (s->backend != backend) continue;
        msi_strategy_choice c = {.strategy = s, .report = *report};
        c.report.strategy = s->name;
        int rc = s->ops->plan(&c.plan, s, request, &c.report);
        if (rc && rc != MSI_ERANGE) {
            msi_strategy_choice_free(best);
            *best = (msi_strategy_choice){.report = *report};
            return rc;
        }
        if (rc) {
            reason = rc;
        } else if (best->plan && !is_better_plan(&c.report, &best->report, request, available_bytes)) {
            msi_strategy_choice_free(&c);
        } else {
            msi_strategy_choice_free(best);
            *best = c;
        }
    }
    if (best->plan) return MSI_OK;
    return reason ? reason : msi_error_set(MSI_EINTERNAL, "no strategy serves the gridder's backend");
}

int msi_strategy_plan(msi_strategy_choice *out, const msi_plan_request *request, msi_backend backend,
                      int64_t available_bytes, const msi_gridder_report *report)
{
    const msi_gridder_spec *spec = request->spec;
    if (spec->n_tile > 1) {
        *out = (msi_strategy_choice){.strategy = &msi_tiles_strategy, .report = *report};
        return msi_tiles_strategy.ops->plan(&out->plan, &msi_tiles_strategy, request, &out->report);
    }
    const int rc = find_fastest_plan(out, request, spec->strategy, backend, available_bytes, report);
    if (rc != MSI_ERANGE || strcmp(msi_error_about_get(), "w_width") != 0) return rc;
    return find_fastest_plan(out, request, NULL, backend, available_bytes, report);
}

int msi_strategy_check_center(const msi_gridder_spec *s, const msi_strategy *strategy)
{
    const int is_shifted = s->l_center_rad != 0 || s->m_center_rad != 0;
    if (!isfinite(s->l_center_rad) || !isfinite(s->m_center_rad))
        return msi_error_set(MSI_ERANGE, "l_center_rad, m_center_rad must be finite, got %g, %g", s->l_center_rad,
                             s->m_center_rad);
    if (is_shifted && strcmp(strategy->method, MSI_METHOD_DEFAULT) != 0)
        return msi_error_set(MSI_ERANGE,
                             "l_center_rad, m_center_rad: gridder '%s' only makes images centred on the phase centre",
                             strategy->method);
    return MSI_OK;
}
