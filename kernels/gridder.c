/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The gridder: its samples, weights, plan, images, residuals and predictions.
 *
 * 1. msi_gridder_create checks a specification and finds the first row of the table of strategies that serves it.
 * 2. msi_gridder_add puts samples into the store (kernels/store), msi_gridder_weight multiplies them by density
 *    weights.
 * 3. The first image, residual or prediction chooses a plan: every strategy that serves the specification on the
 *    gridder's backend makes one (msi_strategy_plan), and the one with the lowest estimated time is used.
 * 4. Workers, if there are any, share the plan (kernels/workers.h).
 * 5. The strategy's functions (msi_strategy_ops) do the work. Gridders that predict or make residuals keep the plan and
 *    everything it derived from the samples or the model; images without residuals have a plan for one call.
 * These functions are in one file, which is the only one that knows struct msi_gridder.
 */
#include "kernels/gridder.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/method/method.h"
#include "kernels/store/vis_store.h"
#include "kernels/strategy.h"
#include "kernels/workers.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#include "kernels/store/density_gpu.h"
#endif

struct msi_gridder {
    msi_gridder_spec spec; /* its strings are static, or owned as below */
    char *temp_dir;
    int *worker; /* [spec.n_worker] */
    const msi_strategy *strategy;
    msi_precision precision;
    msi_vis_store store;
    int is_weighted; /* the store's weights have been multiplied by density weights */
    msi_gridder_report report;
    msi_plan *plan;       /* plan of a gridder that predicts or makes residuals; NULL: not made yet */
    msi_workers *workers; /* workers that share the plan; NULL: none */

    /* For residuals: */
    struct {
        int is_known;
        double sum[MSI_GRIDDER_MAX_PLANES],
            largest[MSI_GRIDDER_MAX_PLANES]; /* sums and maxima of the current weights */
        int64_t count[MSI_GRIDDER_MAX_PLANES];
    } weights;

    /* For msi_gridder_predict: */
    const msi_image *model;
    struct {
        int64_t n_sample, n_row; /* 0: the samples in the store */
        double w_min_lambda, w_max_lambda;
    } expected;
};

static_assert((int)MSI_STORE_MAX_PLANES >= (int)MSI_GRIDDER_MAX_PLANES - 1, "a store holds a gridder's planes");

/* Count the planes of a model. */
static int count_model_planes(const msi_gridder_spec *s)
{
    return s->n_plane * (s->n_term > 1 ? s->n_term : 1);
}

/* Count the images that a gridder makes, including its PSF, or the model planes from which it predicts. */
static int count_images(const msi_gridder_spec *s)
{
    return s->predict ? s->n_plane : (s->psf_only ? 0 : count_model_planes(s)) + (s->psf || s->psf_only);
}

/* Set OpenMP's number of threads, which plans and strategies use, to the gridder's. Returns: the former number, for
 * end_threads */
static int begin_threads(const msi_gridder *g)
{
    const int before = omp_get_max_threads();
    if (g->spec.n_thread) omp_set_num_threads(g->spec.n_thread);
    return before;
}

static void end_threads(int before)
{
    omp_set_num_threads(before);
}

static void add_stage_times(msi_gridder_report *r, const msi_stage_times *t)
{
    r->sort_s += t->sort_s;
    r->grid_s += t->grid_s;
    r->transform_s += t->transform_s;
    r->correct_s += t->correct_s;
    r->transfer_s += t->transfer_s;
}

/* ---- Devices and workers ---------------------------------------------------------------------------------------- */

/* Check that all GPUs of a gridder are in this machine. Returns: 0, MSI_EGPU */
static int check_devices(const msi_strategy *strategy, const msi_gridder_spec *spec)
{
#ifdef MSI_HAVE_CUDA
    for (int i = -1; strategy->backend == MSI_BACKEND_CUDA && i < spec->n_worker; i++) {
        const int device = i < 0 ? spec->device : spec->worker[i];
        if (device < 0 || device >= msi_gpu_count())
            return msi_error_about(msi_error_set(MSI_EGPU, "device %d: %s", device, msi_gpu_describe(device)),
                                   "backend");
    }
#else
    (void)strategy;
    (void)spec;
#endif
    return MSI_OK;
}

/* Wait until the gridder's GPU, if it uses one, has started. */
static void await_device(const msi_strategy *strategy, int device)
{
#ifdef MSI_HAVE_CUDA
    if (strategy->backend == MSI_BACKEND_CUDA) msi_gpu_await(device);
#else
    (void)strategy;
    (void)device;
#endif
}

/* Copy a list worker [n] into the gridder. */
static int copy_workers(msi_gridder *g, const int *worker, int n)
{
    int *own;
    MSI_TRY(msi_alloc(&own, n, sizeof *own, "gridder"));
    if (n) memcpy(own, worker, (size_t)n * sizeof *own);
    msi_free(g->worker);
    g->spec.worker = g->worker = own;
    g->spec.n_worker = n;
    return MSI_OK;
}

/* Return 1 if devices other than the gridder's own share the work. Strategies without residuals have no workers for
 * images. */
static int has_workers(const msi_gridder *g)
{
    const msi_gridder_spec *s = &g->spec;
    if (s->n_tile > 1 || s->n_worker == 0 || (s->n_worker == 1 && s->worker[0] == s->device)) return 0;
    return s->predict || g->strategy->ops->residual != NULL;
}

/*
 * Divide a plan among the gridder's workers, and lower the estimated time accordingly.
 * Returned: *out, owned by the caller, freed by msi_workers_free; NULL without workers, and after a failure
 */
static int create_workers(msi_gridder *g, const msi_plan_request *request, const msi_plan *plan, msi_workers **out)
{
    *out = NULL;
    if (!has_workers(g)) return MSI_OK;
    MSI_TRY(msi_workers_create(out, g->strategy, plan, request));
    g->report.estimate_s *=
        msi_gridder_estimate_sharing(&g->report, g->spec.predict ? 0 : count_images(&g->spec), g->spec.n_worker).time;
    return MSI_OK;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------ */

static int64_t free_host_bytes(const msi_gridder *g)
{
    /* Plans on a GPU need only lists on the host, whose length depends on the samples. */
    if (g->spec.grid_bytes && g->strategy->backend == MSI_BACKEND_CPU) return g->spec.grid_bytes;
    int64_t limit = g->spec.memory_bytes ? g->spec.memory_bytes : msi_memory_limit();
    return limit - msi_memory_in_use();
}

/* Make a request for a plan of the gridder's images; the caller fills in the samples. */
static msi_plan_request make_request(const msi_gridder *g)
{
    return (msi_plan_request){.spec = &g->spec,
                              .precision = g->precision,
                              .n_image = count_images(&g->spec),
                              .host_bytes = free_host_bytes(g),
                              .keeps_model = g->expected.n_sample > 0};
}

static void request_expected_samples(msi_plan_request *r, int64_t n_sample, int64_t n_row, double w_min_lambda,
                                     double w_max_lambda)
{
    r->n_sample = n_sample;
    r->n_row = n_row;
    r->w_min_lambda = w_min_lambda;
    r->w_max_lambda = w_max_lambda;
}

/* Fill in the samples of a store. */
static void request_stored_samples(msi_plan_request *r, const msi_vis_store *s)
{
    int64_t n_row = 0;
    for (int64_t i = 0; i < s->n_segment; i++) n_row += s->segment[i].n_row;
    request_expected_samples(r, s->n_sample, n_row, s->w_min_lambda, s->w_max_lambda);
    r->store = s->gpu ? NULL : s;
}

/*
 * Make the plan with the lowest estimated time, and set the gridder's strategy and report to those of the plan.
 * Returned: *plan, owned by the caller, freed by the strategy
 */
static int choose_plan(msi_gridder *g, const msi_plan_request *request, msi_plan **plan)
{
    msi_strategy_choice best;
    MSI_TRY(msi_strategy_plan(&best, request, g->strategy->backend, request->host_bytes, &g->report));
    *plan = best.plan;
    g->strategy = best.strategy;
    g->report = best.report;
    return MSI_OK;
}

static void free_plan(msi_gridder *g)
{
    msi_workers_free(g->workers);
    g->workers = NULL;
    if (g->plan) g->strategy->ops->free(g->plan);
    g->plan = NULL;
}

/* Make g->plan and its workers unless they exist, for the samples in the store or for those announced by
 * msi_gridder_expect. */
static int ensure_plan(msi_gridder *g)
{
    if (g->plan) return MSI_OK;
    await_device(g->strategy, g->spec.device);
    msi_plan_request request = make_request(g);
    if (g->expected.n_sample)
        request_expected_samples(&request, g->expected.n_sample, g->expected.n_row, g->expected.w_min_lambda,
                                 g->expected.w_max_lambda);
    else
        request_stored_samples(&request, &g->store);
    MSI_TRY(choose_plan(g, &request, &g->plan));
    const int rc = create_workers(g, &request, g->plan, &g->workers);
    if (rc) free_plan(g);
    return rc;
}

/* ---- Creation --------------------------------------------------------------------------------------------------- */

static int check_spec(const msi_gridder_spec *s)
{
    const msi_image_geometry *g = &s->geometry;
    if (s->n_plane < 1 || s->n_plane >= MSI_GRIDDER_MAX_PLANES)
        return msi_error_set(MSI_ERANGE, "n_plane must be 1 to %d, got %d", MSI_GRIDDER_MAX_PLANES - 1, s->n_plane);
    if (s->predict && s->residual)
        return msi_error_set(MSI_ERANGE, "residual: a gridder that predicts has no data to subtract a model from");
    if (s->n_term > 1 && (!s->residual || !(s->reference_hz > 0) || count_model_planes(s) >= MSI_GRIDDER_MAX_PLANES))
        return msi_error_set(MSI_ERANGE,
                             "n_term %d needs residuals, a reference frequency, and at most %d planes of a model",
                             s->n_term, MSI_GRIDDER_MAX_PLANES - 1);
    if (!(s->accuracy >= 1e-13 && s->accuracy <= 0.1))
        return msi_error_about(msi_error_set(MSI_ERANGE, "accuracy must be 1e-13 to 0.1, got %g", s->accuracy),
                               "accuracy");
    if (s->n_worker < 0 || (s->n_worker && !s->worker))
        return msi_error_set(MSI_ERANGE, "n_worker must be 0, or positive with a list of devices, got %d", s->n_worker);
    if (g->nx < 2 || g->ny < 2 || g->nx % 2 || g->ny % 2 || !(g->cell_x_rad > 0) || !(g->cell_y_rad > 0))
        return msi_error_set(
            MSI_ERANGE, "geometry: %lld x %lld pixels of %g x %g rad: numbers of pixels must be even, sizes positive",
            (long long)g->nx, (long long)g->ny, g->cell_x_rad, g->cell_y_rad);
    return MSI_OK;
}

/* Copy a specification with its list and its string. */
static int copy_spec(msi_gridder *g, const msi_gridder_spec *spec)
{
    const size_t name_bytes = spec->temp_dir ? strlen(spec->temp_dir) + 1 : 0;
    g->spec = *spec;
    g->spec.n_worker = 0;
    MSI_TRY(copy_workers(g, spec->worker, spec->n_worker));
    if (!spec->temp_dir) return MSI_OK;
    MSI_TRY(msi_alloc(&g->temp_dir, (int64_t)name_bytes, 1, "gridder"));
    memcpy(g->temp_dir, spec->temp_dir, name_bytes);
    g->spec.temp_dir = g->temp_dir;
    return MSI_OK;
}

int msi_gridder_create_early(msi_gridder **out, const msi_gridder_spec *spec)
{
    *out = NULL;
    MSI_TRY(check_spec(spec));
    msi_gridder *g;
    MSI_TRY(msi_alloc(&g, 1, sizeof *g, "gridder"));
    int rc = copy_spec(g, spec);
    if (rc) {
        msi_gridder_free(g);
        return rc;
    }
    g->precision = spec->precision == MSI_PRECISION_AUTO   ? msi_precision_for(spec->accuracy)
                   : spec->precision == MSI_PRECISION_FP32 ? MSI_FP32
                                                           : MSI_FP64;
    g->report.precision = g->precision;
    msi_vis_store_init(&g->store, spec->n_plane, g->precision, 0.5 / spec->geometry.cell_x_rad,
                       0.5 / spec->geometry.cell_y_rad, spec->store_bytes, g->temp_dir);
    g->store.coordinates = spec->predict;
    g->store.tagged = spec->tagged;
    *out = g;
    return MSI_OK;
}

int msi_gridder_bind(msi_gridder *g, const msi_gridder_spec *spec)
{
    const msi_strategy *strategy = NULL;
    MSI_TRY(msi_strategy_first_for(&strategy, spec));
    MSI_TRY(check_devices(strategy, spec));
    MSI_TRY(msi_strategy_check_center(spec, strategy));
    if (spec->n_tile > 1 && (strategy->backend != MSI_BACKEND_CPU || strcmp(strategy->method, MSI_METHOD_DEFAULT) != 0))
        return msi_error_set(MSI_ERANGE, "n_tile: only gridder '%s' on the CPU makes images in tiles",
                             MSI_METHOD_DEFAULT);
    MSI_TRY(copy_workers(g, spec->worker, spec->n_worker));
    g->spec.backend = spec->backend;
    g->spec.device = spec->device;
    g->spec.n_thread = spec->n_thread;
    g->spec.store_bytes = g->store.memory_budget = spec->store_bytes;
    g->spec.grid_bytes = spec->grid_bytes;
    g->spec.n_tile = spec->n_tile;
    g->spec.method = strategy->method;
    g->spec.strategy = msi_strategy_is_open(spec->strategy) ? NULL : strategy->name;
    g->strategy = strategy;
    g->report.method = strategy->method;
    g->report.strategy = strategy->name;
    g->report.backend = strategy->backend;
    return MSI_OK;
}

int msi_gridder_create(msi_gridder **out, const msi_gridder_spec *spec)
{
    MSI_TRY(msi_gridder_create_early(out, spec));
    const int rc = msi_gridder_bind(*out, spec);
    if (rc) {
        msi_gridder_free(*out);
        *out = NULL;
    }
    return rc;
}

void msi_gridder_free(msi_gridder *g)
{
    if (!g) return;
    free_plan(g);
    msi_vis_store_free(&g->store);
    msi_free(g->temp_dir);
    msi_free(g->worker);
    msi_free(g);
}

int msi_gridder_set_workers(msi_gridder *g, const int *worker, int n_worker)
{
    msi_gridder_spec spec = g->spec;
    spec.worker = worker;
    spec.n_worker = n_worker;
    MSI_TRY(check_devices(g->strategy, &spec));
    free_plan(g);
    return copy_workers(g, worker, n_worker);
}

int msi_gridder_refine(msi_gridder *g, double accuracy)
{
    const double before = g->spec.accuracy;
    if (accuracy >= before) return MSI_OK;
    free_plan(g);
    g->spec.accuracy = accuracy;
    const int threads_before = begin_threads(g), rc = ensure_plan(g);
    end_threads(threads_before);
    if (rc) g->spec.accuracy = before;
    return rc;
}

/* ---- Reports ---------------------------------------------------------------------------------------------------- */

msi_precision msi_gridder_precision(const msi_gridder *g)
{
    return g->precision;
}

void msi_gridder_report_get(const msi_gridder *g, msi_gridder_report *report)
{
    *report = g->report;
    report->n_sample = g->store.n_sample;
    report->n_outside = g->store.n_outside;
    report->w_max_lambda = g->store.w_max_lambda;
    report->longest_lambda = g->store.longest_lambda;
    for (int p = 0; p < g->spec.n_plane; p++) report->sum_vis_weight[p] = g->store.sum_weight[p];
    report->store_bytes = g->store.bytes_memory;
    report->spilled_bytes = g->store.bytes_file;
    report->weight_scale = g->store.weight_scale;
}

void msi_gridder_report_add(msi_gridder_report *all, const msi_gridder_report *of)
{
    msi_gridder_report r = *of;
    r.sort_s += all->sort_s;
    r.grid_s += all->grid_s;
    r.transform_s += all->transform_s;
    r.correct_s += all->correct_s;
    r.transfer_s += all->transfer_s;
    *all = r;
}

int64_t msi_gridder_store_bytes(const msi_gridder *g, int64_t n_sample, int64_t n_row)
{
    return msi_vis_store_bytes(&g->store, n_sample, n_row);
}

/* Count the images in host memory: for residuals on the CPU, a model, the residuals and the PSF. */
static int64_t count_host_images(const msi_gridder *g)
{
    if (g->spec.predict) return 0;
    if (!g->spec.residual) return count_images(&g->spec);
    return g->strategy->backend == MSI_BACKEND_CPU ? 2 * count_model_planes(&g->spec) + 1 : 0;
}

int msi_gridder_estimate(const msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda,
                         double w_max_lambda, msi_gridder_report *report)
{
    const msi_gridder_spec *s = &g->spec;
    const int64_t all = msi_gridder_store_bytes(g, n_sample, n_row);
    const int64_t in_memory = s->store_bytes && all > s->store_bytes ? s->store_bytes : all;
    const int64_t image_bytes =
        count_host_images(g) * msi_image_n_pixel(&s->geometry) * msi_image_pixel_bytes(g->precision);
    msi_plan_request request = make_request(g);
    request.host_bytes -= in_memory;
    request.paged_bytes = request.host_bytes;
    request_expected_samples(&request, n_sample, n_row, w_min_lambda, w_max_lambda);
    msi_strategy_choice best;
    int rc = msi_strategy_plan(&best, &request, g->strategy->backend, free_host_bytes(g) - image_bytes, &g->report);
    *report = best.report;
    report->store_bytes = in_memory;
    report->spilled_bytes = all - in_memory;
    msi_strategy_choice_free(&best);
    return rc;
}

int msi_gridder_estimate_stored(const msi_gridder *g, msi_gridder_report *report)
{
    msi_plan_request request = make_request(g);
    request_stored_samples(&request, &g->store);
    msi_strategy_choice best;
    const int rc = msi_strategy_plan(&best, &request, g->strategy->backend, request.host_bytes, &g->report);
    *report = best.report;
    report->store_bytes = msi_gridder_store_bytes(g, request.n_sample, request.n_row);
    report->spilled_bytes = 0;
    msi_strategy_choice_free(&best);
    return rc;
}

/* ---- Samples ---------------------------------------------------------------------------------------------------- */

/* Free everything derived from the samples, which are about to change. */
static void drop_sample_products(msi_gridder *g)
{
    g->weights.is_known = 0;
    if (g->spec.residual) free_plan(g);
}

/* Return 1 if blocks that are added go to the GPU. */
static int takes_blocks(const msi_vis_store *s)
{
#ifdef MSI_HAVE_CUDA
    return msi_gpu_samples_takes_blocks(s);
#else
    (void)s;
    return 0;
#endif
}

int msi_gridder_move_to_host(msi_gridder *g)
{
#ifdef MSI_HAVE_CUDA
    if (!g->store.gpu) return MSI_OK;
    drop_sample_products(g);
    return msi_gpu_samples_move_to_host(&g->store);
#else
    (void)g;
    return MSI_OK;
#endif
}

#ifdef MSI_HAVE_CUDA
int msi_gridder_gpu_reserve(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz,
                            msi_gpu_samples *samples)
{
    const msi_vis_store *s = &g->store;
    if (g->strategy->backend != MSI_BACKEND_CUDA || n_chan > MSI_STORE_MAX_CHAN || g->is_weighted ||
        g->spec.store_bytes || g->spec.n_worker || (s->n_segment && !s->gpu))
        return msi_error_set(MSI_EINTERNAL, "this gridder cannot hold samples on the GPU");
    drop_sample_products(g);
    return msi_gpu_samples_reserve(&g->store, g->spec.device, n_row, n_chan, freq_hz, samples);
}

int msi_gridder_gpu_commit(msi_gridder *g, const msi_gpu_totals *totals)
{
    return msi_gpu_samples_commit(&g->store, totals);
}

void msi_gridder_gpu_discard(msi_gridder *g)
{
    msi_gpu_samples_discard(&g->store);
}

int msi_gridder_gpu_samples(const msi_gridder *g, int64_t i, msi_gpu_samples *out)
{
    return msi_gpu_samples_get(&g->store, i, out);
}
#endif

#ifdef MSI_HAVE_CUDA
/* Samples may use a quarter of a GPU's free memory; sorting them uses more. */
static int fits_gpu(const msi_gridder *g, int64_t bytes)
{
    size_t free_bytes, total_bytes;
    return msi_gpu_memory(g->spec.device, &free_bytes, &total_bytes) == MSI_OK && bytes <= (int64_t)(free_bytes / 4);
}

/* Return 1 if the gridder can use samples on its GPU, and the GPU has memory for n_sample samples in n_row rows. */
static int can_move_to_gpu(const msi_gridder *g, int64_t n_sample, int64_t n_row)
{
    if (!g->strategy || g->strategy->backend != MSI_BACKEND_CUDA || g->spec.predict || g->spec.tagged ||
        g->spec.n_term > 1 || has_workers(g) || g->store.gpu)
        return 0;
    await_device(g->strategy, g->spec.device);
    return fits_gpu(g, msi_gridder_store_bytes(g, n_sample, n_row));
}

/* Sum the weights of each plane on the GPU. The sums that were made while samples were added are over all planes. */
static int weigh_on_gpu(msi_vis_store *s)
{
    return s->n_plane > 1 && msi_density_gpu_weigh(s, NULL, NULL) ? msi_gpu_samples_move_to_host(s) : MSI_OK;
}

int msi_gridder_move_to_gpu(msi_gridder *g, int64_t n_sample, int64_t n_row)
{
    if (!can_move_to_gpu(g, n_sample, n_row)) return MSI_OK;
    drop_sample_products(g);
    return msi_gpu_samples_move_to_gpu(&g->store, g->spec.device) ? MSI_OK : weigh_on_gpu(&g->store);
}

int msi_gridder_gpu_begin(msi_gridder *g, int64_t n_sample, int64_t n_row)
{
    if (!can_move_to_gpu(g, n_sample, n_row)) return MSI_OK;
    drop_sample_products(g);
    (void)msi_gpu_samples_begin_intake(&g->store, g->spec.device); /* without it samples stay in host memory */
    return MSI_OK;
}

int msi_gridder_gpu_end(msi_gridder *g)
{
    msi_vis_store *s = &g->store;
    if (!s->gpu) return MSI_OK;
    return takes_blocks(s) && msi_gpu_samples_end_intake(s) ? msi_gpu_samples_move_to_host(s) : weigh_on_gpu(s);
}
#else
int msi_gridder_move_to_gpu(msi_gridder *g, int64_t n_sample, int64_t n_row)
{
    (void)g;
    (void)n_sample;
    (void)n_row;
    return MSI_OK;
}

int msi_gridder_gpu_begin(msi_gridder *g, int64_t n_sample, int64_t n_row)
{
    (void)g;
    (void)n_sample;
    (void)n_row;
    return MSI_OK;
}

int msi_gridder_gpu_end(msi_gridder *g)
{
    (void)g;
    return MSI_OK;
}
#endif

/* Prepare the store for more samples. */
static int open_store(msi_gridder *g)
{
    if (g->is_weighted) return msi_error_set(MSI_EINTERNAL, "samples were added after density weighting");
    if (!takes_blocks(&g->store)) MSI_TRY(msi_gridder_move_to_host(g));
    drop_sample_products(g);
    return MSI_OK;
}

int msi_gridder_add_all(msi_gridder *g, const msi_vis_block *block, int n_block)
{
    MSI_TRY(open_store(g));
    return msi_vis_store_add_all(&g->store, block, n_block);
}

int msi_gridder_reserve_rows(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_vis_rows *out)
{
    MSI_TRY(open_store(g));
    return msi_vis_store_reserve(&g->store, n_row, n_chan, freq_hz, out);
}

void msi_gridder_count_rows(const msi_gridder *g, msi_vis_rows *rows, int64_t first, int64_t n)
{
    msi_vis_store_count(&g->store, rows, first, n);
}

int msi_gridder_commit_rows(msi_gridder *g, const msi_vis_rows *rows, int64_t n)
{
    return msi_vis_store_commit(&g->store, rows, n);
}

int msi_gridder_add(msi_gridder *g, const msi_vis_block *block)
{
    return msi_gridder_add_all(g, block, 1);
}

void msi_gridder_clear(msi_gridder *g)
{
    drop_sample_products(g);
    msi_vis_store_clear(&g->store);
    g->is_weighted = 0;
}

const msi_gridder_spec *msi_gridder_spec_of(const msi_gridder *g)
{
    return &g->spec;
}

msi_vis_store *msi_gridder_store(msi_gridder *g)
{
    return &g->store;
}

/* Compute g->weights from the samples, unless it is up to date. */
static void sum_stored_weights(msi_gridder *g)
{
    if (g->weights.is_known) return;
    msi_vis_store_weights(&g->store, g->weights.sum, g->weights.largest, g->weights.count);
    g->weights.is_known = 1;
}

void msi_gridder_weights(msi_gridder *g, double *sum_weight, double *largest_weight, int64_t *n_vis)
{
    sum_stored_weights(g);
    for (int p = 0; p < g->spec.n_plane; p++) {
        sum_weight[p] = g->weights.sum[p] / g->store.weight_scale;
        if (largest_weight) largest_weight[p] = g->weights.largest[p] / g->store.weight_scale;
        n_vis[p] = g->weights.count[p];
    }
}

void msi_gridder_weights_add(msi_gridder *g, int n_plane, double *sum_weight, double *largest_weight, int64_t *n_vis)
{
    double sum[MSI_GRIDDER_MAX_PLANES], largest[MSI_GRIDDER_MAX_PLANES];
    int64_t n[MSI_GRIDDER_MAX_PLANES];
    msi_gridder_weights(g, sum, largest, n);
    for (int p = 0; p < n_plane; p++) {
        if (sum_weight) sum_weight[p] += sum[p];
        if (largest_weight) largest_weight[p] = fmax(largest_weight[p], largest[p]);
        if (n_vis) n_vis[p] += n[p];
    }
}

void msi_gridder_band(const msi_gridder *g, double *low_hz, double *high_hz)
{
    msi_vis_store_band(&g->store, low_hz, high_hz);
}

void msi_gridder_moments(const msi_gridder *g, double middle_hz, double half_hz, int n, double *moment)
{
    msi_vis_store_moments(&g->store, middle_hz, half_hz, n, moment);
    for (int k = 0; k < n; k++) moment[k] /= g->store.weight_scale;
}

int msi_density_add(msi_density *d, const msi_gridder *g)
{
    return msi_density_add_store(d, &g->store);
}

int msi_gridder_weight(msi_gridder *g, msi_density *density, const msi_weighting *rule)
{
    if (g->is_weighted) return msi_error_set(MSI_EINTERNAL, "density weighting was requested twice");
    drop_sample_products(g);
    MSI_TRY(msi_density_weight(&g->store, density, rule));
    g->is_weighted = 1;
    return MSI_OK;
}

/* ---- Images ----------------------------------------------------------------------------------------------------- */

/* Summing weights is one of this many parts in the progress of an image. */
enum { SUM_PARTS = 20 };

int msi_gridder_planes(const msi_gridder *g, int n, msi_planes **out)
{
    const int on_gpu = g->strategy->backend == MSI_BACKEND_CUDA;
    const msi_planes_shape shape = {.nx = g->spec.geometry.nx,
                                    .ny = g->spec.geometry.ny,
                                    .n = n,
                                    .precision = g->precision,
                                    .backend = g->strategy->backend,
                                    .device = on_gpu ? g->spec.device : 0};
    await_device(g->strategy, g->spec.device);
    return msi_planes_create(out, &shape);
}

/*
 * Run a job by the gridder's plan.
 * Given: model, residual  planes of the job's pixels; model NULL: none; residual NULL: images go to job->pixel in host
 *                         memory, which plans of the CPU and of workers can do
 */
static int run_residual_job(msi_gridder *g, msi_residual_job *job, const msi_planes *model, msi_planes *residual)
{
    msi_stage_times times = {0};
    const int threads_before = begin_threads(g);
    int rc = ensure_plan(g);
    if (!rc && g->workers) {
        rc = residual ? msi_workers_residual(g->workers, job, model, residual, &times)
                      : msi_workers_image(g->workers, job, job->pixel, &times);
    } else if (!rc) {
        if (model) job->model = msi_planes_pixel(model, 0);
        if (residual) job->pixel = msi_planes_pixel(residual, 0);
        rc = g->strategy->ops->residual(g->plan, job, &times);
    }
    add_stage_times(&g->report, &times);
    end_threads(threads_before);
    return rc;
}

/* Make images in host memory by the gridder's plan. */
static int image_by_kept_plan(msi_gridder *g, const int *store_plane, msi_image *out)
{
    msi_residual_job job = {
        .store = &g->store, .n_image = out->n_plane, .store_plane = store_plane, .sum_weight = out->sum_weight};
    if (g->strategy->backend == MSI_BACKEND_CPU || has_workers(g)) {
        job.pixel = out->pixel;
        return run_residual_job(g, &job, NULL, NULL);
    }
    msi_planes *planes;
    MSI_TRY(msi_gridder_planes(g, out->n_plane, &planes));
    int rc = run_residual_job(g, &job, NULL, planes);
    if (!rc) rc = msi_planes_fetch(planes, 0, out->n_plane, out->pixel);
    msi_planes_free(planes);
    return rc;
}

/* Make images in host memory by a plan that is freed afterwards. */
static int image_by_new_plan(msi_gridder *g, const int *store_plane, msi_image *out)
{
    msi_plan *plan = NULL;
    msi_workers *workers = NULL;
    msi_stage_times times = {0};
    const int threads_before = begin_threads(g);
    await_device(g->strategy, g->spec.device);
    msi_plan_request request = make_request(g);
    request_stored_samples(&request, &g->store);
    int rc = choose_plan(g, &request, &plan);
    if (!rc) rc = create_workers(g, &request, plan, &workers);
    const msi_residual_job job = {
        .store = &g->store, .n_image = out->n_plane, .store_plane = store_plane, .sum_weight = out->sum_weight};
    if (!rc)
        rc = workers ? msi_workers_image(workers, &job, out->pixel, &times)
                     : g->strategy->ops->image(plan, &g->store, store_plane, out, &times);
    add_stage_times(&g->report, &times);
    msi_workers_free(workers);
    g->strategy->ops->free(plan);
    end_threads(threads_before);
    return rc;
}

int msi_gridder_image(msi_gridder *g, msi_image *out)
{
    memset(out, 0, sizeof *out);
    const msi_gridder_spec *s = &g->spec;
    if (s->predict) return msi_error_set(MSI_EINTERNAL, "an image was requested from a gridder that predicts");
    if (s->n_term > 1) return msi_error_set(MSI_EINTERNAL, "a gridder of several terms makes residuals and PSFs only");
    int store_plane[MSI_GRIDDER_MAX_PLANES];
    msi_progress_share all = msi_progress_enter(0, 1, SUM_PARTS);
    sum_stored_weights(g);
    msi_progress_leave(all);
    /* A GPU's images are copied as a whole. */
    MSI_TRY((g->strategy->backend == MSI_BACKEND_CUDA ? msi_image_alloc_unset : msi_image_alloc)(
        out, &s->geometry, count_images(s), g->precision));
    for (int i = 0; i < out->n_plane; i++) {
        int is_psf = s->psf_only || i == s->n_plane;
        store_plane[i] = is_psf ? -1 : i;
        out->sum_weight[i] = g->weights.sum[is_psf ? 0 : i];
        out->n_vis[i] = g->weights.count[is_psf ? 0 : i];
    }
    if (!g->store.n_sample) {
        for (int i = 0; i < out->n_plane; i++) msi_image_fill_nan(out, i);
        return MSI_OK;
    }
    all = msi_progress_enter(1, SUM_PARTS, SUM_PARTS);
    const int rc = (s->residual ? image_by_kept_plan : image_by_new_plan)(g, store_plane, out);
    msi_progress_leave(all);
    for (int i = 0; i < out->n_plane; i++) out->sum_weight[i] /= g->store.weight_scale;
    if (rc) msi_image_free(out);
    return rc;
}

/* ---- Residuals -------------------------------------------------------------------------------------------------- */

/* Check that planes are n planes of the gridder's shape, precision and device. */
static int check_planes(const msi_gridder *g, const msi_planes *planes, int n, const char *what)
{
    const msi_planes_shape *s = msi_planes_shape_of(planes);
    const int same_place =
        s->backend == g->strategy->backend && (s->backend == MSI_BACKEND_CPU || s->device == g->spec.device);
    if (same_place && s->n == n && s->nx == g->spec.geometry.nx && s->ny == g->spec.geometry.ny &&
        s->precision == g->precision)
        return MSI_OK;
    return msi_error_set(
        MSI_EINTERNAL,
        "%s: got %d planes of %lld x %lld pixels; the gridder needs %d planes of its size, precision and device", what,
        s->n, (long long)s->nx, (long long)s->ny, n);
}

/* Fill planes without a sample with NaN. */
static int fill_planes_with_nan(const msi_gridder *g, msi_planes *planes, int n)
{
    msi_image none;
    MSI_TRY(msi_image_alloc(&none, &g->spec.geometry, 1, g->precision));
    msi_image_fill_nan(&none, 0);
    int rc = MSI_OK;
    for (int i = 0; !rc && i < n; i++) rc = msi_planes_upload(planes, i, 1, none.pixel);
    msi_image_free(&none);
    return rc;
}

/* Image planes of the store, or the PSF of plane 0, less a model. Given: power [n] of each image's x */
static int make_residual(msi_gridder *g, const int *store_plane, const int *power, int n, const msi_planes *model,
                         msi_planes *out)
{
    double sum[MSI_GRIDDER_MAX_PLANES];
    if (!g->spec.residual)
        return msi_error_set(MSI_EINTERNAL, "a residual was requested from a gridder made without spec.residual");
    MSI_TRY(check_planes(g, out, n, "residual"));
    if (model) MSI_TRY(check_planes(g, model, count_model_planes(&g->spec), "model"));
    if (!g->store.n_sample) return fill_planes_with_nan(g, out, n);
    sum_stored_weights(g);
    for (int i = 0; i < n; i++) sum[i] = g->weights.sum[store_plane[i] < 0 ? 0 : store_plane[i]];
    msi_residual_job job = {.store = &g->store,
                            .n_image = n,
                            .store_plane = store_plane,
                            .sum_weight = sum,
                            .n_term = g->spec.n_term,
                            .power = power,
                            .reference_hz = g->spec.reference_hz};
    return run_residual_job(g, &job, model, out);
}

int msi_gridder_residual(msi_gridder *g, const msi_planes *model, msi_planes *residual)
{
    int store_plane[MSI_GRIDDER_MAX_PLANES], power[MSI_GRIDDER_MAX_PLANES];
    const int n = count_model_planes(&g->spec), n_term = n / g->spec.n_plane;
    for (int i = 0; i < n; i++) {
        store_plane[i] = i / n_term;
        power[i] = i % n_term;
    }
    return make_residual(g, store_plane, power, n, model, residual);
}

int msi_gridder_psf(msi_gridder *g, msi_planes *psf)
{
    int of_first_plane[MSI_GRIDDER_MAX_PLANES], power[MSI_GRIDDER_MAX_PLANES];
    const int n = msi_planes_shape_of(psf)->n, most = g->spec.n_term > 1 ? 2 * g->spec.n_term - 1 : 1;
    if (n > most)
        return msi_error_set(MSI_EINTERNAL, "%d PSFs were requested; %d terms have %d", n, g->spec.n_term, most);
    for (int i = 0; i < n; i++) {
        of_first_plane[i] = -1;
        power[i] = i;
    }
    return make_residual(g, of_first_plane, power, n, NULL, psf);
}

/* ---- Predictions ------------------------------------------------------------------------------------------------ */

void msi_gridder_expect(msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda)
{
    g->expected.n_sample = n_sample;
    g->expected.n_row = n_row;
    g->expected.w_min_lambda = w_min_lambda;
    g->expected.w_max_lambda = w_max_lambda;
    free_plan(g);
}

void msi_gridder_reset(msi_gridder *g)
{
    memset(&g->expected, 0, sizeof g->expected);
    free_plan(g);
    g->model = NULL;
}

int msi_gridder_model(msi_gridder *g, const msi_image *model)
{
    const msi_image_geometry *a = &g->spec.geometry, *b = &model->geometry;
    if (!g->spec.predict || model->n_plane != g->spec.n_plane || model->precision != g->precision || a->nx != b->nx ||
        a->ny != b->ny)
        return msi_error_set(
            MSI_EINTERNAL, "the model has %d planes of %lld x %lld pixels, the gridder has %d of %lld x %lld",
            model->n_plane, (long long)b->nx, (long long)b->ny, g->spec.n_plane, (long long)a->nx, (long long)a->ny);
    free_plan(g);
    g->model = model;
    return MSI_OK;
}

int msi_gridder_predict(msi_gridder *g)
{
    const msi_vis_store *s = &g->store;
    if (!g->model) return msi_error_set(MSI_EINTERNAL, "a prediction was requested without a model");
    if (!s->n_sample) return MSI_OK;
    const int threads_before = begin_threads(g), keeps_model = g->expected.n_sample > 0;
    if (!keeps_model) free_plan(g);
    int rc = ensure_plan(g);
    msi_stage_times times = {0};
    if (!rc)
        rc = g->workers ? msi_workers_predict(g->workers, &g->store, g->model, &times)
                        : g->strategy->ops->predict(g->plan, &g->store, g->model, &times);
    msi_vis_store_rewind(&g->store);
    add_stage_times(&g->report, &times);
    end_threads(threads_before);
    return rc;
}

int msi_gridder_fetch(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_c64 *vis)
{
    return msi_vis_store_fetch(&g->store, n_row, n_chan, freq_hz, vis);
}
