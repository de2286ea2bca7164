/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A gridder's plan: the one foreseen to be soonest, of the strategies that serve. */
#include "kernels/gridder_state.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"

static int64_t host_memory(const msi_gridder *g)
{
    int64_t limit = g->spec.memory_bytes ? g->spec.memory_bytes : msi_memory_limit();
    return limit - msi_memory_in_use();
}

/* Prefers a plan that fits the room to one that does not, then the sooner or the smaller. Returns 1 where it is a. */
static int is_better(const msi_gridder_report *a, const msi_gridder_report *b, int64_t room_bytes)
{
    int a_fits = a->least_grid_bytes <= room_bytes, b_fits = b->least_grid_bytes <= room_bytes;
    if (a_fits != b_fits) return a_fits;
    return a_fits ? a->estimate_s < b->estimate_s : a->least_grid_bytes < b->least_grid_bytes;
}

/* A plan that a strategy offers. */
typedef struct candidate {
    const msi_strategy *strategy;
    msi_plan *plan;
    msi_gridder_report report;
} candidate;

static void drop(candidate *c)
{
    if (c->plan) c->strategy->ops->free(c->plan);
    c->plan = NULL;
}

/*
 * Find the plan foreseen to be soonest, of all strategies of a name (NULL: any) on the gridder's backend that fit the
 * room. Where one cannot serve (MSI_ERANGE), another may; where none can, the last one's reason stands.
 * Returned: *best  its report is g's with the plan's figures; its plan NULL after a failure
 */
static int soonest_plan(const msi_gridder *g, const msi_plan_request *request, const char *name, int64_t room_bytes,
                        candidate *best)
{
    const msi_gridder_spec *spec = &g->spec;
    int reason = MSI_OK;
    *best = (candidate){.report = g->report};
    for (const msi_strategy *s = NULL; (s = msi_strategy_next_for(s, spec, name));) {
        if (s->backend != g->strategy->backend) continue;
        candidate c = {.strategy = s, .report = g->report};
        c.report.strategy = s->name;
        int rc = s->ops->plan(&c.plan, s, request, &c.report);
        if (rc && rc != MSI_ERANGE) {
            drop(best);
            return rc;
        }
        if (rc) {
            reason = rc;
        } else if (best->plan && !is_better(&c.report, &best->report, room_bytes)) {
            drop(&c);
        } else {
            drop(best);
            *best = c;
        }
    }
    if (best->plan) return MSI_OK;
    return reason ? reason : msi_error_set(MSI_EINTERNAL, "no strategy serves the gridder's backend");
}

/* Do so by the strategy asked for; but one that only w gives work to leaves it to the others where w matters
 * nowhere. */
static int make_plan(const msi_gridder *g, const msi_plan_request *request, int64_t room_bytes, candidate *best)
{
    const int rc = soonest_plan(g, request, g->spec.strategy, room_bytes, best);
    if (rc != MSI_ERANGE || strcmp(msi_error_about_get(), "w_width") != 0) return rc;
    return soonest_plan(g, request, NULL, room_bytes, best);
}

msi_plan_request msi_gridder_request(const msi_gridder *g)
{
    return (msi_plan_request){.spec = &g->spec,
                              .precision = g->precision,
                              .n_image = msi_gridder_n_image(&g->spec),
                              .host_bytes = host_memory(g),
                              .keeps_model = g->expected.n_sample > 0};
}

static void request_foreseen(msi_plan_request *r, int64_t n_sample, int64_t n_row, double w_min_lambda,
                             double w_max_lambda)
{
    r->n_sample = n_sample;
    r->n_row = n_row;
    r->w_min_lambda = w_min_lambda;
    r->w_max_lambda = w_max_lambda;
}

/* Counts the images in host memory: where cycles are run on the CPU, a model, residuals and the PSF. */
static int64_t n_host_image(const msi_gridder *g)
{
    if (g->spec.predict) return 0;
    if (!g->spec.residual) return msi_gridder_n_image(&g->spec);
    return g->strategy->backend == MSI_BACKEND_CPU ? 2 * g->spec.n_plane + 1 : 0;
}

int msi_gridder_foresee(const msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda,
                        msi_gridder_report *report)
{
    const msi_gridder_spec *s = &g->spec;
    const int64_t all = msi_gridder_store_bytes(g, n_sample, n_row);
    const int64_t in_memory = s->store_bytes && all > s->store_bytes ? s->store_bytes : all;
    const int64_t image_bytes = n_host_image(g) * msi_image_n_pixel(&s->geometry) * msi_image_pixel_bytes(g->precision);
    msi_plan_request request = msi_gridder_request(g);
    request.host_bytes -= in_memory;
    request_foreseen(&request, n_sample, n_row, w_min_lambda, w_max_lambda);
    candidate best;
    int rc = make_plan(g, &request, host_memory(g) - image_bytes, &best);
    *report = best.report;
    report->store_bytes = in_memory;
    report->spilled_bytes = all - in_memory;
    drop(&best);
    return rc;
}

void msi_gridder_request_stored(msi_plan_request *r, const msi_vis_store *s)
{
    int64_t n_row = 0;
    for (int64_t i = 0; i < s->n_segment; i++) n_row += s->segment[i].n_row;
    request_foreseen(r, s->n_sample, n_row, s->w_min_lambda, s->w_max_lambda);
    r->store = s->gpu ? NULL : s;
}

int msi_gridder_take_plan(msi_gridder *g, const msi_plan_request *request, msi_plan **plan)
{
    candidate best;
    MSI_TRY(make_plan(g, request, request->host_bytes, &best));
    *plan = best.plan;
    g->strategy = best.strategy;
    g->report = best.report;
    return MSI_OK;
}

void msi_gridder_forget_plan(msi_gridder *g)
{
    msi_workers_free(g->workers);
    g->workers = NULL;
    if (g->plan) g->strategy->ops->free(g->plan);
    g->plan = NULL;
}

int msi_gridder_ready_plan(msi_gridder *g)
{
    if (g->plan) return MSI_OK;
    msi_gridder_await_device(g->strategy, g->spec.device);
    msi_plan_request request = msi_gridder_request(g);
    if (g->expected.n_sample)
        request_foreseen(&request, g->expected.n_sample, g->expected.n_row, g->expected.w_min_lambda,
                         g->expected.w_max_lambda);
    else
        msi_gridder_request_stored(&request, &g->store);
    MSI_TRY(msi_gridder_take_plan(g, &request, &g->plan));
    const int rc = msi_gridder_ready_workers(g, &request, g->plan, &g->workers);
    if (rc) msi_gridder_forget_plan(g);
    return rc;
}

int msi_gridder_refine(msi_gridder *g, double accuracy)
{
    const double before = g->spec.accuracy;
    if (accuracy >= before) return MSI_OK;
    msi_gridder_forget_plan(g);
    g->spec.accuracy = accuracy;
    const int threads_before = msi_gridder_begin_threads(g), rc = msi_gridder_ready_plan(g);
    msi_gridder_end_threads(threads_before);
    if (rc) g->spec.accuracy = before;
    return rc;
}
