/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/cleaner.h"
#include "kernels/restoring_beam.h"
#include "lib/library.h"
#include "lib/library_gpu.h"
#include "msimage/cleaner.h"

_Static_assert((int)MSIMAGE_STOP_THRESHOLD == (int)MSI_CLEAN_STOP_THRESHOLD &&
                   (int)MSIMAGE_STOP_MAJOR == (int)MSI_CLEAN_STOP_MAJOR &&
                   (int)MSIMAGE_STOP_ITERATIONS == (int)MSI_CLEAN_STOP_ITERATIONS &&
                   (int)MSIMAGE_STOP_NEGATIVE == (int)MSI_CLEAN_STOP_NEGATIVE &&
                   (int)MSIMAGE_STOP_EMPTY == (int)MSI_CLEAN_STOP_EMPTY &&
                   (int)MSIMAGE_STOP_DIVERGED == (int)MSI_CLEAN_STOP_DIVERGED &&
                   (int)MSIMAGE_STOP_STALLED == (int)MSI_CLEAN_STOP_STALLED,
               "reasons equal the reasons of the kernels");

_Static_assert((int)MSIMAGE_SCALE_BY_BEAM == (int)MSI_CLEAN_BY_BEAM &&
                   (int)MSIMAGE_SCALE_BY_POWER == (int)MSI_CLEAN_BY_POWER &&
                   (int)MSIMAGE_SCALE_TAPERED_QUADRATIC == (int)MSI_CLEAN_TAPERED_QUADRATIC &&
                   (int)MSIMAGE_SCALE_GAUSSIAN == (int)MSI_CLEAN_GAUSSIAN &&
                   (int)MSIMAGE_SCALE_SPHEROIDAL == (int)MSI_CLEAN_SPHEROIDAL,
               "rules and shapes of scales equal the values of the kernels");

struct msimage_cleaner {
    msimage_callbacks callbacks;
    msi_cleaner *inner;
    msi_library_gpu *gpu;   /* NULL: the work is done on the host */
    msi_planes_shape shape; /* shape of residual and model */
    int n_psf, n_thread;
    msi_array_place place;
    msi_planes *residual, *model; /* NULL: not made yet */
    msi_clean_taylor taylor;      /* n_term 0: no Taylor terms. Otherwise the channels of the cleaner are the nodes */
    msi_planes *term;             /* planes of the caller's terms; NULL: not made yet */
};

/* ---- Taylor terms ---- */

static int check_terms(const msimage_cleaner_spec *s)
{
    if (s->n_term < 2 || s->n_term > MSI_TAYLOR_MAX_TERM)
        return msi_error_set(MSI_EARGUMENT, "n_term must be 0, or 2 to %d, got %d", MSI_TAYLOR_MAX_TERM, s->n_term);
    if (s->n_channel > 1)
        return msi_error_set(MSI_EARGUMENT, "n_channel must be 1 with Taylor terms, got %d", s->n_channel);
    if (s->n_freq < s->n_term || !s->freq_hz || !s->freq_weight)
        return msi_error_set(MSI_EARGUMENT, "n_freq: %d Taylor terms need as many frequencies and weights, got %d",
                             s->n_term, s->n_freq);
    if (!(s->reference_hz > 0) || !isfinite(s->reference_hz))
        return msi_error_set(MSI_EARGUMENT, "reference_hz must be positive, got %g", s->reference_hz);
    for (int i = 0; i < s->n_freq; i++)
        if (!(s->freq_hz[i] > 0 && isfinite(s->freq_hz[i]) && s->freq_weight[i] >= 0 && isfinite(s->freq_weight[i])))
            return msi_error_set(MSI_EARGUMENT, "frequency %d: %g Hz with weight %g is invalid", i, s->freq_hz[i],
                                 s->freq_weight[i]);
    return MSI_OK;
}

/* Find the nodes that represent the caller's frequencies. */
static int find_nodes(msi_clean_taylor *t, const msimage_cleaner_spec *s)
{
    double low = INFINITY, high = 0, moment[4 * MSI_TAYLOR_MAX_TERM - 2] = {0};
    if (!s->n_term) return MSI_OK;
    MSI_TRY(check_terms(s));
    for (int i = 0; i < s->n_freq; i++) {
        low = fmin(low, s->freq_hz[i]);
        high = fmax(high, s->freq_hz[i]);
    }
    const double middle = 0.5 * (low + high), half = high > low ? 0.5 * (high - low) : 1;
    for (int i = 0; i < s->n_freq; i++) {
        double power = s->freq_weight[i];
        for (int k = 0; k < 4 * s->n_term - 2; k++, power *= (s->freq_hz[i] - middle) / half) moment[k] += power;
    }
    return msi_clean_taylor_make(t, s->n_term, s->reference_hz, middle, half, moment);
}

/* Conversions between planes of terms and of nodes. */
typedef enum term_task { RESIDUAL_TO_NODES, MODEL_TO_NODES, RESIDUAL_TO_TERMS, MODEL_TO_TERMS } term_task;

/* Compute the planes of nodes from those of terms, or the reverse, for each polarisation. */
static int combine_terms(const msimage_cleaner *c, term_task task, msi_planes *nodes)
{
    const msi_clean_taylor *t = &c->taylor;
    const int n_pol = c->shape.n / t->n_node, to_nodes = task == RESIDUAL_TO_NODES || task == MODEL_TO_NODES;
    double power[MSI_TAYLOR_MAX_NODE * MSI_TAYLOR_MAX_TERM];
    for (int i = 0; i < t->n_node * t->n_term; i++)
        power[i] = task == MODEL_TO_NODES ? pow(t->x[i / t->n_term], i % t->n_term)
                                          : t->share[i % t->n_node] * pow(t->x[i % t->n_node], i / t->n_node);
    const double *matrix = task == RESIDUAL_TO_NODES ? t->residual : task == MODEL_TO_TERMS ? t->term : power;
    for (int p = 0; p < n_pol; p++) {
        const msi_cleaner_planes of_nodes = {nodes, p, n_pol, t->n_node}, of_terms = {c->term, p, n_pol, t->n_term};
        MSI_TRY(
            msi_cleaner_combine(c->inner, matrix, to_nodes ? &of_terms : &of_nodes, to_nodes ? &of_nodes : &of_terms));
    }
    return MSI_OK;
}

/* ---- The cleaner ---- */

static msi_cleaner_spec inner_spec(const msimage_cleaner_spec *s, const msi_clean_taylor *t)
{
    if (t->n_term) {
        msimage_cleaner_spec of_nodes = *s;
        of_nodes.n_term = 0;
        of_nodes.n_channel = t->n_node;
        of_nodes.weight = t->share;
        msi_cleaner_spec inner = inner_spec(&of_nodes, &(msi_clean_taylor){0});
        inner.freq_hz = t->freq_hz;
        inner.fit = MSI_CLEAN_FIT_POLYNOMIAL;
        inner.of_taylor = 1;
        inner.n_term = t->n_term;
        return inner;
    }
    return (msi_cleaner_spec){.nx = s->nx,
                              .ny = s->ny,
                              .n_channel = s->n_channel,
                              .n_pol = s->n_pol,
                              .weight = s->weight,
                              .precision = msi_library_precision(s->precision),
                              .backend = msi_library_backend(s->backend),
                              .device = s->device,
                              .n_thread = s->n_thread,
                              .method = s->method,
                              .gain = s->gain,
                              .no_negative = s->no_negative,
                              .stop_negative = s->stop_negative,
                              .squared_join = s->squared_join,
                              .border = s->border,
                              .scale = s->scale,
                              .n_scale = s->n_scale,
                              .beam_pixel = s->beam_pixel,
                              .scale_bias = s->scale_bias,
                              .scale_rule = (msi_clean_scale_rule)s->scale_rule,
                              .shape = (msi_clean_shape)s->scale_shape,
                              .small_scale_bias = s->small_scale_bias,
                              .scale_gain = s->scale_gain};
}

/* Copy the list of devices. */
static int set_devices(msi_cleaner_spec *inner, const msimage_cleaner_spec *s)
{
    if (s->n_device < 0 || s->n_device > MSI_CLEAN_MAX_DEVICE || (s->n_device && !s->devices))
        return msi_error_about(msi_error_set(MSI_EARGUMENT, "n_device %d: give 0 to %d, and the list", s->n_device,
                                             (int)MSI_CLEAN_MAX_DEVICE),
                               "n_device");
    inner->n_device = s->n_device;
    for (int i = 0; i < s->n_device; i++) inner->devices[i] = s->devices[i];
    return MSI_OK;
}

/* Choose backend and stream. */
static int find_place(msimage_cleaner *c)
{
    c->shape = msi_cleaner_shape(c->inner);
    c->place = (msi_array_place){c->shape.backend == MSI_BACKEND_CUDA, NULL};
#ifdef MSI_HAVE_CUDA
    if (c->place.on_gpu) return msi_library_gpu_create(&c->gpu, c->shape.device);
#endif
    return MSI_OK;
}

static msi_library_call call_of(const msimage_cleaner *c, const char *stage)
{
    return (msi_library_call){
        .callbacks = &c->callbacks, .n_thread = c->n_thread, .uses_gpu = c->gpu != NULL, .stage = stage};
}

int msimage_cleaner_create(msimage_cleaner **out, const msimage_cleaner_spec *spec, const msimage_callbacks *callbacks)
{
    *out = NULL;
    msimage_cleaner_spec s;
    MSI_TRY(msi_library_spec(&s, spec, spec->struct_bytes, sizeof s));
    MSI_TRY(msi_library_check_threads(s.n_thread));
    msimage_cleaner *c;
    MSI_TRY(msi_alloc(&c, 1, sizeof *c, "cleaner"));
    if (callbacks) c->callbacks = *callbacks;
    c->n_thread = msi_library_threads(s.n_thread);
    msi_library_call begun = call_of(c, NULL);
    begun.uses_gpu = msi_library_may_use_gpu(s.backend);
    int rc = msi_library_begin(&begun);
    if (!rc) rc = find_nodes(&c->taylor, &s);
    msi_cleaner_spec inner = inner_spec(&s, &c->taylor);
    if (!rc) rc = set_devices(&inner, &s);
    if (!rc) rc = msi_cleaner_create(&c->inner, &inner);
    if (!rc) rc = find_place(c);
    if (!msi_library_end(&begun, rc)) {
        c->n_psf = s.n_term ? 2 * s.n_term - 1 : s.n_channel ? s.n_channel : 1;
        *out = c;
    } else {
        msimage_cleaner_free(c);
    }
    return rc;
}

void msimage_cleaner_free(msimage_cleaner *c)
{
    if (!c) return;
#ifdef MSI_HAVE_CUDA
    const int device_before = c->gpu ? msi_library_gpu_device() : -1;
    msi_library_gpu_free(c->gpu);
#endif
    msi_cleaner_free(c->inner);
    msi_planes_free(c->residual);
    msi_planes_free(c->model);
    msi_planes_free(c->term);
    msi_free(c);
#ifdef MSI_HAVE_CUDA
    if (device_before >= 0) msi_library_gpu_trim();
    msi_library_gpu_device_set(device_before);
#endif
}

/* Copy the caller's images to planes of the cleaner, which are made at the first call. */
static int upload_images(const msimage_cleaner *c, msi_planes **planes, int n, const void *image)
{
    msi_planes_shape shape = c->shape;
    shape.n = n;
    if (!*planes) MSI_TRY(msi_planes_create(planes, &shape));
#ifdef MSI_HAVE_CUDA
    if (c->gpu) {
        MSI_TRY(msi_library_gpu_enter(c->gpu, NULL));
        return msi_library_gpu_in(c->gpu, msi_planes_pixel(*planes, 0), image, msi_planes_bytes(&shape));
    }
#endif
    return msi_planes_upload(*planes, 0, n, image);
}

static int download_images(const msimage_cleaner *c, const msi_planes *planes, void *image)
{
#ifdef MSI_HAVE_CUDA
    if (c->gpu)
        return msi_library_gpu_out(c->gpu, image, msi_planes_pixel(planes, 0),
                                   msi_planes_bytes(msi_planes_shape_of(planes)));
#else
    (void)c;
#endif
    return msi_planes_fetch(planes, 0, msi_planes_shape_of(planes)->n, image);
}

/* Copy the caller's residuals or models to planes, one for each term or channel. */
static int take_images(msimage_cleaner *c, term_task task, msi_planes **planes, const void *image)
{
    const msi_clean_taylor *t = &c->taylor;
    if (!t->n_term) return upload_images(c, planes, c->shape.n, image);
    if (!*planes) MSI_TRY(msi_planes_create(planes, &c->shape));
    MSI_TRY(upload_images(c, &c->term, c->shape.n / t->n_node * t->n_term, image));
    return combine_terms(c, task, *planes);
}

static int write_image(msimage_cleaner *c, term_task task, msi_planes *planes, void *image)
{
    if (!c->taylor.n_term) return download_images(c, planes, image);
    MSI_TRY(combine_terms(c, task, planes));
    return download_images(c, c->term, image);
}

static int set_psf(const msimage_cleaner *c, const msi_planes *powers)
{
    const msi_clean_taylor *t = &c->taylor;
    msi_planes_shape shape = c->shape;
    msi_planes *nodes;
    if (!t->n_term) return msi_cleaner_psf(c->inner, powers);
    shape.n = t->n_node;
    MSI_TRY(msi_planes_create(&nodes, &shape));
    const msi_cleaner_planes from = {powers, 0, 1, c->n_psf}, to = {nodes, 0, 1, t->n_node};
    int rc = msi_cleaner_combine(c->inner, t->psf, &from, &to);
    if (!rc) rc = msi_cleaner_psf(c->inner, nodes);
    msi_planes_free(nodes);
    return rc;
}

int msimage_cleaner_psf(msimage_cleaner *c, const void *psf)
{
    msi_planes *planes = NULL;
    msi_library_call begun = call_of(c, NULL);
    int rc = msi_library_begin(&begun);
    if (!rc) rc = upload_images(c, &planes, c->n_psf, psf);
    if (!rc) rc = set_psf(c, planes);
    msi_planes_free(planes);
    return msi_library_end(&begun, rc);
}

int msimage_cleaner_mask(msimage_cleaner *c, const uint8_t *mask)
{
    msi_host_array in = {0};
    msi_library_call begun = call_of(c, NULL);
    int rc = msi_library_begin(&begun);
    if (!rc) rc = msi_host_array_read(&in, &c->place, mask, c->shape.nx * c->shape.ny);
    if (!rc) rc = msi_cleaner_mask(c->inner, in.at);
    msi_host_array_end(&in);
    return msi_library_end(&begun, rc);
}

static int minor(msimage_cleaner *c, void *residual, void *model, const msimage_clean_limits *limits,
                 msi_clean_report *report)
{
    const msi_clean_limits inner = {
        .threshold = limits->threshold, .mgain = limits->mgain, .n_iteration = limits->n_iteration};
    MSI_TRY(take_images(c, RESIDUAL_TO_NODES, &c->residual, residual));
    MSI_TRY(take_images(c, MODEL_TO_NODES, &c->model, model));
    MSI_TRY(msi_cleaner_minor(c->inner, c->residual, c->model, &inner, report));
    MSI_TRY(write_image(c, RESIDUAL_TO_TERMS, c->residual, residual));
    return write_image(c, MODEL_TO_TERMS, c->model, model);
}

int msimage_cleaner_minor(msimage_cleaner *c, void *residual, void *model, const msimage_clean_limits *limits,
                          msimage_clean_report *report)
{
    msi_clean_report r = {0};
    msi_library_call begun = call_of(c, "minor cycle");
    int rc = msi_library_begin(&begun);
    if (!rc) rc = minor(c, residual, model, limits, &r);
    if (!rc && report)
        *report = (msimage_clean_report){.stop = (msimage_clean_stop)r.stop,
                                         .n_iteration = r.n_iteration,
                                         .peak_before = r.peak_before,
                                         .peak_after = r.peak_after,
                                         .peak_x = r.peak_x,
                                         .peak_y = r.peak_y,
                                         .flux = r.flux};
    return msi_library_end(&begun, rc);
}

int msimage_cleaner_noise(msimage_cleaner *c, const void *residual, double *sigma)
{
    msi_library_call begun = call_of(c, NULL);
    int rc = msi_library_begin(&begun);
    if (!rc) rc = take_images(c, RESIDUAL_TO_NODES, &c->residual, residual);
    if (!rc) rc = msi_cleaner_noise(c->inner, c->residual, sigma);
    return msi_library_end(&begun, rc);
}

int msimage_beam_fit(msimage_beam *beam, const void *psf, int64_t nx, int64_t ny, double cell_x_rad, double cell_y_rad,
                     msimage_precision precision)
{
    const msi_image_geometry geometry = {nx, ny, cell_x_rad, cell_y_rad};
    const msi_psf_fit_constraints none = {0};
    msi_beam fitted;
    *beam = (msimage_beam){NAN, NAN, NAN};
    if (!psf || nx < 2 || ny < 2 || precision < MSIMAGE_FP32 || precision > MSIMAGE_FP64)
        return msi_error_set(MSI_EARGUMENT, "psf of %lld x %lld pixels, precision %d: invalid", (long long)nx,
                             (long long)ny, (int)precision);
    if (!(cell_x_rad > 0 && isfinite(cell_x_rad) && cell_y_rad > 0 && isfinite(cell_y_rad)))
        return msi_error_set(MSI_ERANGE, "cell_x_rad and cell_y_rad must be positive, got %g, %g", cell_x_rad,
                             cell_y_rad);
    MSI_TRY(msi_psf_fit(&fitted, &geometry, psf, msi_library_precision(precision), &none));
    *beam = (msimage_beam){fitted.major_rad, fitted.minor_rad, fitted.pa_rad};
    return MSI_OK;
}
