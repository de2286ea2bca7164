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
               "reasons are those of the kernels");

_Static_assert((int)MSIMAGE_SCALE_BY_BEAM == (int)MSI_CLEAN_BY_BEAM &&
                   (int)MSIMAGE_SCALE_BY_POWER == (int)MSI_CLEAN_BY_POWER &&
                   (int)MSIMAGE_SCALE_TAPERED_QUADRATIC == (int)MSI_CLEAN_TAPERED_QUADRATIC &&
                   (int)MSIMAGE_SCALE_GAUSSIAN == (int)MSI_CLEAN_GAUSSIAN &&
                   (int)MSIMAGE_SCALE_SPHEROIDAL == (int)MSI_CLEAN_SPHEROIDAL,
               "rules and shapes of scales are those of the kernels");

struct msimage_cleaner {
    msimage_callbacks callbacks;
    msi_cleaner *inner;
    msi_library_gpu *gpu;   /* NULL if the host does the work */
    msi_planes_shape shape; /* of residual and model */
    int n_psf, n_thread;
    msi_array_place place;
    msi_planes *residual, *model; /* NULL: not made yet */
};

static msi_cleaner_spec inner_spec(const msimage_cleaner_spec *s)
{
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

/* Set the backend and the stream of the work. */
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
    const msi_cleaner_spec inner = inner_spec(&s);
    msi_library_call begun = call_of(c, NULL);
    begun.uses_gpu = msi_library_may_use_gpu(s.backend);
    int rc = msi_library_begin(&begun);
    if (!rc) rc = msi_cleaner_create(&c->inner, &inner);
    if (!rc) rc = find_place(c);
    if (!msi_library_end(&begun, rc)) {
        c->n_psf = s.n_channel ? s.n_channel : 1;
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
    msi_free(c);
#ifdef MSI_HAVE_CUDA
    if (device_before >= 0) msi_library_gpu_trim();
    msi_library_gpu_device_set(device_before);
#endif
}

/* Copy the caller's images to planes of the cleaner, which are made at first use. */
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
    if (c->gpu) return msi_library_gpu_out(c->gpu, image, msi_planes_pixel(planes, 0), msi_planes_bytes(&c->shape));
#endif
    return msi_planes_fetch(planes, 0, c->shape.n, image);
}

int msimage_cleaner_psf(msimage_cleaner *c, const void *psf)
{
    msi_planes *planes = NULL;
    msi_library_call begun = call_of(c, NULL);
    int rc = msi_library_begin(&begun);
    if (!rc) rc = upload_images(c, &planes, c->n_psf, psf);
    if (!rc) rc = msi_cleaner_psf(c->inner, planes);
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
    MSI_TRY(upload_images(c, &c->residual, c->shape.n, residual));
    MSI_TRY(upload_images(c, &c->model, c->shape.n, model));
    MSI_TRY(msi_cleaner_minor(c->inner, c->residual, c->model, &inner, report));
    MSI_TRY(download_images(c, c->residual, residual));
    return download_images(c, c->model, model);
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
    if (!rc) rc = upload_images(c, &c->residual, c->shape.n, residual);
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
