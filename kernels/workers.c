/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/workers.h"

#include "core/memory.h"
#include "core/status.h"
#include "core/ordered_parallel.h"
#include "kernels/gridder.h"
#include "kernels/store/vis_store.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif

/* A worker has its own device, plan and planes. */
typedef struct worker {
    msi_gridder_spec spec; /* the gridder's, with the worker's device and without workers */
    double speed;          /* speed of its device, relative to the others */
    double first;          /* fraction of all work that comes before its own */
    msi_plan *plan;
    msi_planes *model, *part; /* NULL until a job needs them */
} worker;

struct msi_workers {
    const msi_strategy *strategy;
    int shares_samples; /* every worker has a part of the samples of each image, rather than some of the images */
    msi_planes_shape shape;
    int n;
    worker w[];
};

/* One job, as seen by the workers' threads. */
typedef struct workers_job {
    msi_workers *workers;
    const msi_residual_job *job;
    const msi_planes *model; /* or NULL */
    msi_planes *residual;    /* NULL: images go to host memory */
    char *pixel;
    msi_vis_store *store; /* for a prediction */
    const msi_image *predicted_from;
    msi_stage_times *times; /* times of the first worker */
} workers_job;

/* Run a function in one thread for each worker. */
static int work_all(workers_job *j, int (*work)(void *job, int64_t worker))
{
    const msi_ordered_parallel turns = {.n_item = j->workers->n, .n_thread = j->workers->n, .work = work, .of = j};
    return msi_ordered_parallel_run(&turns);
}

/* Return the struct for a worker's times. The first worker's times are the job's. */
static msi_stage_times *times_of(const workers_job *j, int64_t i, msi_stage_times *own)
{
    return i ? own : j->times;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------ */

/* Return whether whole images are shared out: if all workers get the same number, or there are many images. */
static int has_images_enough(int n_image, int n_worker)
{
    return n_image % n_worker == 0 || n_image >= 4 * n_worker;
}

/* Fraction of the work on some samples that every worker repeats: transforms of planes that several workers touch. */
static const double OWN_PART = 0.1;

/* Fraction of a prediction that every worker repeats: making all planes of the model. */
static const double MODEL_PART = 0.6;

msi_gridder_sharing msi_gridder_estimate_sharing(const msi_gridder_report *report, int n_image, int n_worker)
{
    const int most_images = (n_image + n_worker - 1) / n_worker;
    if (!n_image || (report->n_tower && !has_images_enough(n_image, n_worker))) {
        const double own = n_image ? OWN_PART : MODEL_PART;
        return (msi_gridder_sharing){"samples", own + (1 - own) / n_worker};
    }
    return (msi_gridder_sharing){"images", (double)most_images / n_image};
}

/* Return the first of a worker's share of n items; for worker t->n, the end. */
static int64_t first_of(const msi_workers *t, int64_t n, int i)
{
    return i < t->n ? (int64_t)((double)n * t->w[i].first + 0.5) : n;
}

/* Compute the shares of the work, proportional to the speed of devices. */
static int find_parts(msi_workers *t)
{
    double all = 0;
    for (int i = 0; i < t->n; i++) {
        t->w[i].speed = 1;
#ifdef MSI_HAVE_CUDA
        if (t->shape.backend == MSI_BACKEND_CUDA) MSI_TRY(msi_gpu_speed(t->w[i].spec.device, &t->w[i].speed));
#endif
        t->w[i].first = all;
        all += t->w[i].speed;
    }
    for (int i = 0; i < t->n; i++) t->w[i].first /= all;
    return MSI_OK;
}

/* Make the workers' plans so that they share the samples. */
static int share_samples(msi_workers *t, const msi_plan *whole, const msi_plan_request *request)
{
    msi_share *share;
    msi_plan **plan;
    MSI_TRY(msi_alloc(&share, t->n, sizeof *share, "workers"));
    int rc = msi_alloc(&plan, t->n, sizeof *plan, "workers");
    for (int i = 0; i < t->n; i++) share[i] = (msi_share){t->w[i].spec.device, t->w[i].speed};
    if (!rc) {
        rc = t->strategy->ops->share(plan, whole, request, share, t->n);
        for (int i = 0; i < t->n; i++) t->w[i].plan = plan[i];
        msi_free(plan);
    }
    msi_free(share);
    return rc;
}

static int make_plan(msi_workers *t, int i, const msi_plan_request *request)
{
    worker *w = &t->w[i];
    msi_plan_request own = *request;
    msi_gridder_report report = {0};
    own.spec = &w->spec;
    if (!request->spec->predict)
        own.n_image = (int)(first_of(t, request->n_image, i + 1) - first_of(t, request->n_image, i));
    if (own.n_image < 1) own.n_image = 1;
    return t->strategy->ops->plan(&w->plan, t->strategy, &own, &report);
}

int msi_workers_create(msi_workers **out, const msi_strategy *strategy, const msi_plan *whole,
                       const msi_plan_request *request)
{
    const msi_gridder_spec *s = request->spec;
    const int on_gpu = strategy->backend == MSI_BACKEND_CUDA;
    msi_workers *t;
    *out = NULL;
    MSI_TRY(msi_alloc(&t, 1, sizeof *t + (size_t)s->n_worker * sizeof *t->w, "workers"));
    t->strategy = strategy;
    t->n = s->n_worker;
    t->shares_samples = !s->predict && strategy->ops->share && t->n > 1 && !has_images_enough(request->n_image, t->n);
    t->shape = (msi_planes_shape){
        .nx = s->geometry.nx, .ny = s->geometry.ny, .precision = request->precision, .backend = strategy->backend};
    for (int i = 0; i < t->n; i++) {
        t->w[i].spec = *s;
        t->w[i].spec.device = on_gpu ? s->worker[i] : s->device;
        t->w[i].spec.n_worker = 0;
        t->w[i].spec.residual = !s->predict;
    }
    int rc = find_parts(t);
#ifdef MSI_HAVE_CUDA
    for (int i = 0; on_gpu && i < t->n; i++) msi_gpu_await(s->worker[i]);
#endif
    if (!rc && t->shares_samples) rc = share_samples(t, whole, request);
    for (int i = 0; !rc && !t->shares_samples && i < t->n; i++) rc = make_plan(t, i, request);
    if (rc)
        msi_workers_free(t);
    else
        *out = t;
    return rc;
}

void msi_workers_free(msi_workers *t)
{
    if (!t) return;
    for (int i = 0; i < t->n; i++) {
        if (t->w[i].plan) t->strategy->ops->free(t->w[i].plan);
        msi_planes_free(t->w[i].model);
        msi_planes_free(t->w[i].part);
    }
    msi_free(t);
}

/* ---- Images ----------------------------------------------------------------------------------------------------- */

/* Make n planes on a worker's own device unless they exist. */
static int ready_planes(const msi_workers *t, int i, int n, msi_planes **planes)
{
    if (*planes && msi_planes_shape_of(*planes)->n >= n) return MSI_OK;
    msi_planes_shape shape = t->shape;
    shape.n = n;
    shape.device = t->shape.backend == MSI_BACKEND_CUDA ? t->w[i].spec.device : 0;
    msi_planes_free(*planes);
    *planes = NULL;
    return msi_planes_create(planes, &shape);
}

/* Get a model's pixels on a worker's device, copying them from another device if needed. */
static int ready_model(const workers_job *j, int i, const void **pixel)
{
    worker *w = &j->workers->w[i];
    *pixel = NULL;
    if (!j->model) return MSI_OK;
    const msi_planes_shape *from = msi_planes_shape_of(j->model);
    const msi_planes *at = j->model;
    if (from->backend == MSI_BACKEND_CUDA && from->device != w->spec.device) {
        MSI_TRY(ready_planes(j->workers, i, from->n, &w->model));
        MSI_TRY(msi_planes_copy(w->model, 0, j->model, 0, from->n));
        at = w->model;
    }
    *pixel = msi_planes_pixel(at, 0);
    return MSI_OK;
}

/* Make a worker's images, or its part of all images, on its device. */
static int work_at_images(void *of, int64_t number)
{
    const workers_job *j = of;
    const msi_workers *t = j->workers;
    const int i = (int)number;
    worker *w = &j->workers->w[i];
    msi_stage_times own_times = {0};
    const int n = j->job->n_image, first = t->shares_samples ? 0 : (int)first_of(t, n, i);
    const int64_t image_bytes = t->shape.nx * t->shape.ny * msi_image_pixel_bytes(t->shape.precision);
    msi_residual_job own = *j->job;
    own.n_image = t->shares_samples ? n : (int)first_of(t, n, i + 1) - first;
    own.store_plane += first;
    own.sum_weight += first;
    if (own.power) own.power += first;
    if (!own.n_image) return MSI_OK;
    MSI_TRY(ready_model(j, i, &own.model));
    MSI_TRY(ready_planes(t, i, own.n_image, &w->part));
    own.pixel = msi_planes_pixel(w->part, 0);
    MSI_TRY(t->strategy->ops->residual(w->plan, &own, times_of(j, i, &own_times)));
    if (t->shares_samples) return MSI_OK;
    if (j->residual) return msi_planes_copy(j->residual, first, w->part, 0, own.n_image);
    return msi_planes_fetch(w->part, 0, own.n_image, j->pixel + first * image_bytes);
}

/* Add up the workers' images into the residual planes, in the order of workers. */
static int add_residuals(const workers_job *j)
{
    const msi_workers *t = j->workers;
    const int n = j->job->n_image;
    MSI_TRY(msi_planes_copy(j->residual, 0, t->w[0].part, 0, n));
    for (int i = 1; i < t->n; i++) MSI_TRY(msi_planes_add(j->residual, 0, t->w[i].part, 0, n));
    return MSI_OK;
}

/* Add up a worker's slice of all images, each pixel in the order of workers, and copy it to the host by its own
 * link. */
static int add_slice(void *of, int64_t number)
{
    const workers_job *j = of;
    const msi_workers *t = j->workers;
    worker *own = &j->workers->w[number];
    const int64_t n_pixel = j->job->n_image * t->shape.nx * t->shape.ny;
    const int64_t first = n_pixel * number / t->n, n = n_pixel * (number + 1) / t->n - first;
    for (int i = 0; i < t->n; i++)
        if (i != number) MSI_TRY(msi_planes_add_pixels(own->part, t->w[i].part, first, n));
    return msi_planes_fetch_pixels(own->part, first, n, j->pixel + first * msi_image_pixel_bytes(t->shape.precision));
}

static int make_images(workers_job *j)
{
    MSI_TRY(work_all(j, work_at_images));
    if (!j->workers->shares_samples) return MSI_OK;
    return j->residual ? add_residuals(j) : work_all(j, add_slice);
}

int msi_workers_residual(msi_workers *t, const msi_residual_job *job, const msi_planes *model, msi_planes *residual,
                         msi_stage_times *times)
{
    workers_job j = {.workers = t, .job = job, .model = model, .residual = residual, .times = times};
    return make_images(&j);
}

int msi_workers_image(msi_workers *t, const msi_residual_job *job, void *pixel, msi_stage_times *times)
{
    workers_job j = {.workers = t, .job = job, .pixel = pixel, .times = times};
    return make_images(&j);
}

/* ---- Predictions ------------------------------------------------------------------------------------------------ */

/* Find the first segment of a worker: the one that begins nearest to its share of all samples. */
static int64_t first_segment(const msi_workers *t, const msi_vis_store *s, int i)
{
    int64_t all = 0, before = 0;
    for (int64_t k = 0; k < s->n_segment; k++) all += s->segment[k].n_row * s->segment[k].n_chan;
    for (int64_t k = 0; k < s->n_segment; k++) {
        const int64_t own = s->segment[k].n_row * s->segment[k].n_chan;
        if (2 * before + own > 2 * first_of(t, all, i) && i < t->n) return k;
        before += own;
    }
    return s->n_segment;
}

static int work_at_prediction(void *of, int64_t i)
{
    const workers_job *j = of;
    const msi_workers *t = j->workers;
    msi_vis_store own = *j->store;
    msi_stage_times own_times = {0};
    const int64_t first = first_segment(t, j->store, (int)i), end = first_segment(t, j->store, (int)i + 1);
    own.segment += first;
    own.n_segment = end - first;
    own.n_sample = 0;
    for (int64_t k = 0; k < own.n_segment; k++) own.n_sample += own.segment[k].n_row * own.segment[k].n_chan;
    if (!own.n_segment) return MSI_OK;
    return t->strategy->ops->predict(t->w[i].plan, &own, j->predicted_from, times_of(j, i, &own_times));
}

int msi_workers_predict(msi_workers *t, msi_vis_store *store, const msi_image *model, msi_stage_times *times)
{
    workers_job j = {.workers = t, .store = store, .predicted_from = model, .times = times};
    return work_all(&j, work_at_prediction);
}
