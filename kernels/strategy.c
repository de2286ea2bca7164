/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of gridders, and the rows that serve a specification. Only this file knows which gridders were compiled
 * in. */
#include "kernels/strategy.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/backend.h"
#include "kernels/sample_phase.h"
#include "kernels/towers/tower_plan.h"
#include "kernels/wgrid/wgrid_plan.h"
#include "kernels/wproj/wproj_plan.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif

/* ---- Images in tiles ----
 *
 * For images whose grid does not fit in memory. The image is divided into n x n tiles. For each tile the phase centre
 * of the samples is shifted to the middle of the tile, and a strategy of the default gridder on the CPU images the
 * tile. All samples are gridded n^2 times, but the transforms of all tiles take about as long as those of the whole
 * image. A prediction is the sum of the predictions of all tiles.
 */

/* One plane of a store's samples, with its own visibilities. */
typedef struct tile_samples {
    msi_vis_store view; /* its segments are copies; the store owns coordinates and weights */
    char *vis;          /* NULL: not made yet */
} tile_samples;

typedef struct tile_plan {
    msi_gridder_spec spec; /* specification of the whole image; its strings belong to the gridder */
    msi_plan_request request;
    int64_t tile_bytes;  /* bytes of the pixels of the largest tile */
    tile_samples turned; /* samples shifted to the middle of a tile, or predicted from a tile */
    char *model_vis;     /* [planes] model visibilities, the sum over tiles, each shaped as `turned`; NULL: not made */
} tile_plan;

/* A tile, and the plan for its samples. */
typedef struct tile {
    int64_t x, y;  /* first pixel */
    double dl, dm; /* offset of its middle from the centre of the whole image */
    msi_gridder_spec spec;
    msi_plan_request request;
    msi_strategy_choice choice;
} tile;

/* ---- Tiles of the image ---- */

static int n_tile(const tile_plan *p)
{
    return p->spec.n_tile * p->spec.n_tile;
}

/* Return the first pixel of tile i along an axis of n pixels. Tiles have even sizes. */
static int64_t first_of(int64_t n, int n_tile, int i)
{
    return n / 2 * i / n_tile * 2;
}

/* Set the position and specification of tile i. Given: predict  1: the tile is degridded */
static void place_tile(const tile_plan *p, int i, int predict, tile *t)
{
    const msi_image_geometry *g = &p->spec.geometry;
    const int n = p->spec.n_tile, column = i % n, row = i / n;
    memset(t, 0, sizeof *t);
    t->spec = p->spec;
    t->x = first_of(g->nx, n, column);
    t->y = first_of(g->ny, n, row);
    t->spec.geometry.nx = first_of(g->nx, n, column + 1) - t->x;
    t->spec.geometry.ny = first_of(g->ny, n, row + 1) - t->y;
    t->dl = (double)(g->nx / 2 - t->x - t->spec.geometry.nx / 2) * g->cell_x_rad;
    t->dm = (double)(t->y + t->spec.geometry.ny / 2 - g->ny / 2) * g->cell_y_rad;
    t->spec.l_center_rad += t->dl;
    t->spec.m_center_rad += t->dm;
    t->spec.n_tile = t->spec.n_term = t->spec.n_worker = 0;
    t->spec.psf = t->spec.psf_only = t->spec.residual = 0;
    t->spec.predict = predict;
    t->spec.n_plane = 1;
    t->request = p->request;
    t->request.n_image = 1;
    t->request.keeps_model = 0;
    t->request.host_bytes = p->request.host_bytes > p->tile_bytes ? p->request.host_bytes - p->tile_bytes : 1;
}

/* Choose the strategy of a tile, and make its plan. Given: store  its samples; NULL: unknown */
static int plan_tile(tile *t, const msi_vis_store *store)
{
    const msi_gridder_report none = {.precision = t->request.precision};
    t->request.spec = &t->spec;
    t->request.store = store;
    return msi_strategy_plan(&t->choice, &t->request, MSI_BACKEND_CPU, t->request.host_bytes, &none);
}

/* Copy a tile's pixels to or from those of the whole image. */
static void copy_pixels(const tile_plan *p, const tile *t, char *whole, char *of_tile, int to_tile)
{
    const int64_t each = msi_image_pixel_bytes(p->request.precision), nx = t->spec.geometry.nx;
    for (int64_t y = 0; y < t->spec.geometry.ny; y++) {
        char *a = whole + ((t->y + y) * p->spec.geometry.nx + t->x) * each, *b = of_tile + y * nx * each;
        memcpy(to_tile ? b : a, to_tile ? a : b, (size_t)(nx * each));
    }
}

/* ---- Samples of a tile ---- */

static int64_t samples_of(const msi_vis_segment *g)
{
    return g->n_row_max * g->n_chan;
}

static int64_t count_samples(const msi_vis_store *store)
{
    int64_t n = 0;
    for (int64_t i = 0; i < store->n_segment; i++) n += samples_of(&store->segment[i]);
    return n;
}

static void free_samples(tile_samples *s)
{
    msi_free(s->view.segment);
    msi_free(s->vis);
    memset(s, 0, sizeof *s);
}

static int make_samples(tile_samples *s, const msi_vis_store *store)
{
    const int64_t each = msi_complex_bytes(store->precision);
    if (s->vis && s->view.n_segment == store->n_segment) return MSI_OK;
    free_samples(s);
    s->view = *store;
    s->view.n_plane = 1;
    s->view.n_term = 0;
    s->view.order = NULL;
    s->view.segment = NULL;
    MSI_TRY(msi_alloc(&s->view.segment, store->n_segment, sizeof *s->view.segment, "samples of a tile"));
    MSI_TRY(msi_alloc_paged(&s->vis, count_samples(store), (size_t)each, "samples of a tile"));
    char *at = s->vis;
    for (int64_t i = 0; i < store->n_segment; i++) {
        s->view.segment[i] = store->segment[i];
        s->view.segment[i].vis = at;
        at += samples_of(&store->segment[i]) * each;
    }
    return MSI_OK;
}

/* Use the weights of a plane of the store for the samples. */
static void choose_weights(tile_samples *s, const msi_vis_store *store, int plane)
{
    for (int64_t i = 0; i < store->n_segment; i++)
        if (store->segment[i].weight)
            s->view.segment[i].weight = store->segment[i].weight + plane * samples_of(&store->segment[i]);
}

static msi_c64 value_at(const void *vis, msi_precision precision, int64_t i)
{
    if (precision == MSI_FP64) return ((const msi_c64 *)vis)[i];
    const msi_c32 v = ((const msi_c32 *)vis)[i];
    return (msi_c64){(double)v.re, (double)v.im};
}

static void set_value(void *vis, msi_precision precision, int64_t i, msi_c64 v)
{
    if (precision == MSI_FP64)
        ((msi_c64 *)vis)[i] = v;
    else
        ((msi_c32 *)vis)[i] = (msi_c32){(float)v.re, (float)v.im};
}

/* A shift of a plane's samples. For an image, subtract the model, and shift the samples to the middle of a tile. For a
 * prediction, shift the tile's visibilities to the centre of the image, and add them. */
typedef struct turn {
    int plane; /* plane of the store; -1: the PSF of plane 0, whose visibilities are 1 */
    int power; /* multiply by x^power, x = frequency / reference_hz - 1 */
    double reference_hz;
    int is_prediction;
    char *model; /* model visibilities of the plane, shaped as `turned`; NULL: none */
} turn;

static void turn_segment(const tile_samples *s, const msi_vis_store *store, const tile *t, const turn *of, int64_t i,
                         char *model)
{
    const msi_vis_segment *g = &store->segment[i];
    const msi_precision precision = store->precision;
    const int is_even = msi_phases_are_even(g);
    const double sign = of->is_prediction ? 1 : -1;
    void *turned = s->view.segment[i].vis;
    for (int64_t row = 0; row < g->n_row; row++) {
        const double *uvw = g->uvw_m + 3 * row;
        msi_phases phases = msi_phases_begin(g, is_even, sign * (uvw[0] * t->dl + uvw[1] * t->dm));
        for (int32_t c = 0; c < g->n_chan; c++) {
            const int64_t at = row * g->n_chan + c;
            msi_c64 factor = msi_phases_next(&phases, g, c);
            if (of->power) {
                const double x = pow(g->freq_hz[c] / of->reference_hz - 1, of->power);
                factor = (msi_c64){factor.re * x, factor.im * x};
            }
            if (of->is_prediction) {
                const msi_c64 v = msi_times(value_at(turned, precision, at), factor);
                set_value(model, precision, at, msi_plus(value_at(model, precision, at), v));
                continue;
            }
            msi_c64 v = {1, 0};
            if (of->plane >= 0) v = value_at(g->vis, precision, msi_segment_index(g, of->plane, row, c));
            if (model) v = msi_minus(v, value_at(model, precision, at));
            set_value(turned, precision, at, msi_times(v, factor));
        }
    }
}

static void turn_samples(const tile_samples *s, const msi_vis_store *store, const tile *t, const turn *of)
{
    const int64_t each = msi_complex_bytes(store->precision);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < store->n_segment; i++) {
        const int64_t before = ((char *)s->view.segment[i].vis - s->vis) / each;
        turn_segment(s, store, t, of, i, of->model ? of->model + before * each : NULL);
    }
}

/* ---- Images ---- */

/* Make the images of a tile. Given: model_vis  visibilities of all planes to subtract; NULL: none */
static int image_tile(tile_plan *p, const msi_residual_job *job, int i, char *model_vis, msi_stage_times *times)
{
    const int64_t of_plane = count_samples(job->store) * msi_complex_bytes(job->store->precision);
    const int64_t whole_bytes = msi_image_n_pixel(&p->spec.geometry) * msi_image_pixel_bytes(p->request.precision);
    tile t;
    msi_image out;
    place_tile(p, i, 0, &t);
    MSI_TRY(msi_image_alloc(&out, &t.spec.geometry, 1, p->request.precision));
    choose_weights(&p->turned, job->store, job->store_plane[0] < 0 ? 0 : job->store_plane[0]);
    int rc = plan_tile(&t, &p->turned.view);
    for (int k = 0; !rc && k < job->n_image; k++) {
        static const int FIRST = 0;
        const int plane = job->store_plane[k], weights = plane < 0 ? 0 : plane;
        const turn of = {.plane = plane,
                         .power = job->n_term > 1 ? job->power[k] : 0,
                         .reference_hz = job->reference_hz,
                         .model = model_vis && plane >= 0 ? model_vis + plane * of_plane : NULL};
        const msi_progress_share all = msi_progress_enter(k, k + 1, job->n_image);
        choose_weights(&p->turned, job->store, weights);
        turn_samples(&p->turned, job->store, &t, &of);
        out.sum_weight[0] = job->sum_weight[k];
        rc = t.choice.strategy->ops->image(t.choice.plan, &p->turned.view, &FIRST, &out, times);
        if (!rc) copy_pixels(p, &t, (char *)job->pixel + k * whole_bytes, out.pixel, 0);
        msi_progress_leave(all);
    }
    msi_strategy_choice_free(&t.choice);
    msi_image_free(&out);
    return rc;
}

/* ---- Predictions ---- */

static int has_value(const msi_image *image)
{
    const int64_t n = msi_image_n_pixel(&image->geometry);
    for (int64_t i = 0; i < n; i++)
        if (msi_image_value(image->pixel, image->precision, i) != 0) return 1;
    return 0;
}

/* Predict a tile of a model image, and add its visibilities. Given: of  the visibilities to add to, and the power */
static int predict_tile(tile_plan *p, const msi_vis_store *store, const void *pixel, int i, const turn *of,
                        msi_stage_times *times)
{
    tile t;
    msi_image model;
    place_tile(p, i, 1, &t);
    MSI_TRY(msi_image_alloc(&model, &t.spec.geometry, 1, p->request.precision));
    copy_pixels(p, &t, (char *)pixel, model.pixel, 1);
    int rc = MSI_OK;
    if (has_value(&model)) {
        choose_weights(&p->turned, store, of->plane);
        rc = plan_tile(&t, &p->turned.view);
        if (!rc) rc = t.choice.strategy->ops->predict(t.choice.plan, &p->turned.view, &model, times);
        if (!rc) turn_samples(&p->turned, store, &t, of);
        msi_strategy_choice_free(&t.choice);
    }
    msi_image_free(&model);
    return rc;
}

/* Predict all planes of a model, with their terms. Returned: vis  visibilities shaped as `turned`, plane after plane */
static int predict_all(tile_plan *p, const msi_vis_store *store, const void *model, int n_term, double reference_hz,
                       char *vis, msi_stage_times *times)
{
    const int64_t of_plane = count_samples(store) * msi_complex_bytes(store->precision);
    const int64_t whole_bytes = msi_image_n_pixel(&p->spec.geometry) * msi_image_pixel_bytes(p->request.precision);
    const int n = store->n_plane * n_term;
    for (int i = 0; i < n_tile(p); i++)
        for (int k = 0; k < n; k++) {
            const turn of = {.plane = k / n_term,
                             .power = k % n_term,
                             .reference_hz = reference_hz,
                             .is_prediction = 1,
                             .model = vis + k / n_term * of_plane};
            const msi_progress_share all = msi_progress_enter(i * n + k, i * n + k + 1, n_tile(p) * n);
            MSI_TRY(predict_tile(p, store, (const char *)model + k * whole_bytes, i, &of, times));
            msi_progress_leave(all);
        }
    return MSI_OK;
}

/* ---- The strategy ---- */

static void free_plan(msi_plan *plan)
{
    tile_plan *p = (tile_plan *)(void *)plan;
    if (!p) return;
    free_samples(&p->turned);
    msi_free(p->model_vis);
    msi_free(p);
}

/* Return the bytes of the samples that the plan keeps. */
static int64_t kept_bytes(const tile_plan *p)
{
    const int n = p->spec.residual || p->spec.predict ? 1 + p->spec.n_plane : 1;
    return n * p->request.n_sample * msi_complex_bytes(p->request.precision);
}

/* Report the figures of the largest tile, and the estimated time of all tiles. */
static int report_plan(const tile_plan *p, msi_gridder_report *r)
{
    const int64_t more = p->tile_bytes + kept_bytes(p);
    double estimate_s = 0;
    int64_t least = 0, most = 0, order = 0, work = 0;
    for (int i = 0; i < n_tile(p); i++) {
        tile t;
        place_tile(p, i, p->spec.predict, &t);
        MSI_TRY(plan_tile(&t, NULL));
        const msi_gridder_report *of = &t.choice.report;
        estimate_s += of->estimate_s * p->request.n_image;
        if (of->least_grid_bytes > least) least = of->least_grid_bytes;
        if (of->sample_bytes > order) order = of->sample_bytes;
        if (of->work_bytes > work) work = of->work_bytes;
        if (of->grid_bytes > most) {
            most = of->grid_bytes;
            r->width = of->width;
            r->w_width = of->w_width;
            r->nu = of->nu;
            r->nv = of->nv;
            r->n_w = of->n_w;
            r->n_w_resident = of->n_w_resident;
            r->w_step = of->w_step;
            r->n_tower = of->n_tower;
            r->tower_planes = of->tower_planes;
            r->subgrid = of->subgrid;
            r->error_estimate = of->error_estimate;
            r->strategy = of->strategy;
        }
        msi_strategy_choice_free(&t.choice);
    }
    r->estimate_s = estimate_s;
    r->least_grid_bytes = least + more;
    r->grid_bytes = most + more;
    r->n_tile = p->spec.n_tile;
    r->sample_bytes = order + more;
    r->work_bytes = work;
    r->kept_bytes = p->spec.residual ? kept_bytes(p) : 0;
    r->device_bytes = r->least_device_bytes = 0;
    return MSI_OK;
}

static int make_plan(msi_plan **out, const msi_strategy *strategy, const msi_plan_request *request,
                     msi_gridder_report *report)
{
    const msi_gridder_spec *s = request->spec;
    tile_plan *p;
    (void)strategy;
    if (s->n_tile > s->geometry.nx / 2 || s->n_tile > s->geometry.ny / 2)
        return msi_error_set(MSI_ERANGE, "n_tile must be at most half of the pixels of an axis, got %d", s->n_tile);
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "plan"));
    p->spec = *s;
    p->request = *request;
    for (int i = 0; i < n_tile(p); i++) {
        tile t;
        place_tile(p, i, 0, &t);
        const int64_t bytes = msi_image_n_pixel(&t.spec.geometry) * msi_image_pixel_bytes(request->precision);
        if (bytes > p->tile_bytes) p->tile_bytes = bytes;
    }
    const int rc = report_plan(p, report);
    if (rc)
        free_plan((msi_plan *)(void *)p);
    else
        *out = (msi_plan *)(void *)p;
    return rc;
}

static int make_residual(msi_plan *plan, const msi_residual_job *job, msi_stage_times *times)
{
    tile_plan *p = (tile_plan *)(void *)plan;
    const int64_t bytes = job->store->n_plane * count_samples(job->store) * msi_complex_bytes(job->store->precision);
    const int n_part = job->model ? 2 : 1;
    MSI_TRY(make_samples(&p->turned, job->store));
    if (job->model) {
        if (!p->model_vis) MSI_TRY(msi_alloc_paged(&p->model_vis, bytes, 1, "visibilities of a model"));
        memset(p->model_vis, 0, (size_t)bytes);
        const msi_progress_share all = msi_progress_enter(0, 1, n_part);
        MSI_TRY(
            predict_all(p, job->store, job->model, msi_residual_terms(job), job->reference_hz, p->model_vis, times));
        msi_progress_leave(all);
    }
    for (int i = 0; i < n_tile(p); i++) {
        const int before = (n_part - 1) * n_tile(p) + i;
        const msi_progress_share all = msi_progress_enter(before, before + 1, n_part * n_tile(p));
        MSI_TRY(image_tile(p, job, i, job->model ? p->model_vis : NULL, times));
        msi_progress_leave(all);
        MSI_TRY(msi_interrupt_check());
    }
    return MSI_OK;
}

static int make_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                      msi_stage_times *times)
{
    const msi_residual_job job = {.store = store,
                                  .n_image = image->n_plane,
                                  .store_plane = store_plane,
                                  .sum_weight = image->sum_weight,
                                  .pixel = image->pixel};
    return make_residual(plan, &job, times);
}

/* Copy the visibilities of all planes into the store. */
static void store_predicted(const tile_plan *p, msi_vis_store *store)
{
    const int64_t each = msi_complex_bytes(store->precision), of_plane = count_samples(store) * each;
    const char *at = p->model_vis;
    for (int64_t i = 0; i < store->n_segment; i++) {
        msi_vis_segment *g = &store->segment[i];
        const int64_t bytes = samples_of(g) * each;
        for (int k = 0; k < store->n_plane; k++) memcpy((char *)g->vis + k * bytes, at + k * of_plane, (size_t)bytes);
        at += bytes;
    }
}

static int make_prediction(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times)
{
    tile_plan *p = (tile_plan *)(void *)plan;
    const int64_t bytes = store->n_plane * count_samples(store) * msi_complex_bytes(store->precision);
    /* A batch of samples may be larger than the one before. */
    free_samples(&p->turned);
    msi_free(p->model_vis);
    p->model_vis = NULL;
    MSI_TRY(make_samples(&p->turned, store));
    MSI_TRY(msi_alloc_paged(&p->model_vis, bytes, 1, "visibilities of a model"));
    MSI_TRY(predict_all(p, store, model->pixel, 1, 0, p->model_vis, times));
    store_predicted(p, store);
    return MSI_OK;
}

static const msi_strategy_ops ops = {
    .plan = make_plan, .free = free_plan, .image = make_image, .predict = make_prediction, .residual = make_residual};

/* The strategy of specifications with n_tile > 1. It is not in the table, because the caller decides on tiles before a
 * strategy is chosen. */
static const msi_strategy tiles_strategy = {
    .method = MSI_METHOD_DEFAULT, .name = "tiles", .backend = MSI_BACKEND_CPU, .ops = &ops};

/* ---- The table ---- */

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

/* Rate how a plan fits in memory. 2: all its arrays fit; 1: it fits if some arrays are in files; 0: it does not fit. */
static int how_it_fits(const msi_gridder_report *r, const msi_plan_request *request, int64_t available_bytes)
{
    if (r->least_grid_bytes <= available_bytes) return 2;
    return r->least_grid_bytes - r->work_bytes <= request->paged_bytes;
}

/* Return 1 if plan a is better than b: it fits in memory better or, if they fit equally, is faster or smaller. */
static int is_better_plan(const msi_gridder_report *a, const msi_gridder_report *b, const msi_plan_request *request,
                          int64_t available_bytes)
{
    int a_fits = how_it_fits(a, request, available_bytes), b_fits = how_it_fits(b, request, available_bytes);
    if (a_fits != b_fits) return a_fits > b_fits;
    return a_fits ? a->estimate_s < b->estimate_s : a->least_grid_bytes < b->least_grid_bytes;
}

/* Find the best plan of all strategies of a name (NULL: any). Strategies that return MSI_ERANGE are skipped. If all are
 * skipped, return the last error. */
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
        *out = (msi_strategy_choice){.strategy = &tiles_strategy, .report = *report};
        return tiles_strategy.ops->plan(&out->plan, &tiles_strategy, request, &out->report);
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
