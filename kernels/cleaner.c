/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/cleaner.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "kernels/clean/clean_state.h"

/* ---- Restoring ---- */

/* Restoring: a model is convolved with the beam and added to residuals, by transforms wider than the image by the
 * beam's reach. */

/* An engine without a cleaner, and its spectra. */
typedef struct restorer {
    const msi_clean_engine_ops *ops;
    msi_clean_engine *e;
    msi_clean_fft *fft;
    void *beam, *work;
} restorer;

static int same_shape(const msi_planes_shape *a, const msi_planes_shape *b)
{
    return a->nx == b->nx && a->ny == b->ny && a->n == b->n && a->precision == b->precision &&
           a->backend == b->backend && a->device == b->device;
}

static int check_restore(const msi_planes *image, const msi_planes *residual, const msi_planes *model,
                         const msi_restore_spec *s)
{
    const msi_planes_shape *shape = msi_planes_shape_of(image);
    const msi_beam *b = &s->beam;
    if (!msi_beam_known(b) || !isfinite(b->major_rad + b->minor_rad + b->pa_rad))
        return msi_error_about(
            msi_error_set(MSI_EARGUMENT,
                          "restoring: the beam must have positive, finite widths, got %g by %g rad at %g rad",
                          b->major_rad, b->minor_rad, b->pa_rad),
            "beam");
    if (!(s->cell_x_rad > 0 && s->cell_y_rad > 0 && isfinite(s->cell_x_rad + s->cell_y_rad)))
        return msi_error_about(msi_error_set(MSI_EARGUMENT,
                                             "restoring: the pixel size must be positive and finite, got %g by %g rad",
                                             s->cell_x_rad, s->cell_y_rad),
                               "cell");
    if (s->first < 0 || s->n < 0 || s->n > shape->n - s->first)
        return msi_error_about(msi_error_set(MSI_EARGUMENT, "restoring: planes %d to %d were requested of %d", s->first,
                                             s->first + s->n, shape->n),
                               "planes");
    if (same_shape(shape, msi_planes_shape_of(residual)) && same_shape(shape, msi_planes_shape_of(model)))
        return MSI_OK;
    return msi_error_about(msi_error_set(MSI_EARGUMENT, "restoring: image, residual and model have different shapes"),
                           "planes");
}

static void release_restorer(restorer *r)
{
    if (!r->e) return;
    r->ops->release(r->e, r->beam);
    r->ops->release(r->e, r->work);
    r->ops->fft_free(r->e, r->fft);
    r->ops->free(r->e);
}

static int prepare_restorer(restorer *r, const msi_planes_shape *shape, const msi_restore_spec *s)
{
    const msi_clean_setup setup = msi_clean_setup_of_plane(shape, s->n_thread);
    const msi_clean_gaussian g = msi_clean_beam_gaussian(&s->beam, s->cell_x_rad, s->cell_y_rad);
    const int64_t complex_bytes = shape->precision == MSI_FP32 ? 8 : 16;
    const msi_clean_method *row = msi_clean_method_find("list", shape->backend);
    int64_t n_complex;
    if (!row) return msi_error_set(MSI_EINTERNAL, "no cleaner for backend %d", (int)shape->backend);
    r->ops = row->engine;
    MSI_TRY(r->ops->create(&r->e, &setup));
    MSI_TRY(r->ops->fft_create(r->e, msi_clean_beam_padded(shape->nx, &s->beam, s->cell_x_rad),
                               msi_clean_beam_padded(shape->ny, &s->beam, s->cell_y_rad), &r->fft, &n_complex));
    MSI_TRY(r->ops->alloc_paged(r->e, &r->beam, n_complex * complex_bytes, "transforms of beams"));
    MSI_TRY(r->ops->alloc_paged(r->e, &r->work, n_complex * complex_bytes, "transforms of models"));
    return r->ops->gaussian(r->e, r->fft, &g, r->beam);
}

static int restore_plane(restorer *r, void *image, const void *residual, const void *model, int64_t bytes)
{
    MSI_TRY(msi_interrupt_check());
    if (image != residual) MSI_TRY(r->ops->copy(r->e, image, residual, bytes));
    MSI_TRY(r->ops->forward(r->e, r->fft, model, 0, MSI_CLEAN_CORNER, r->work));
    MSI_TRY(r->ops->product(r->e, r->fft, r->work, r->beam, 0, r->work));
    return r->ops->inverse(r->e, r->fft, r->work, MSI_CLEAN_CORNER, MSI_CLEAN_ADD, image);
}

int msi_restore(msi_planes *image, const msi_planes *residual, const msi_planes *model, const msi_restore_spec *spec)
{
    restorer r = {0};
    msi_planes_shape one = *msi_planes_shape_of(image);
    MSI_TRY(check_restore(image, residual, model, spec));
    if (!spec->n) return MSI_OK;
    one.n = 1;
    int rc = prepare_restorer(&r, &one, spec);
    for (int i = spec->first; !rc && i < spec->first + spec->n; i++)
        rc = restore_plane(&r, msi_planes_pixel(image, i), msi_planes_pixel(residual, i), msi_planes_pixel(model, i),
                           msi_planes_bytes(&one));
    if (!rc) rc = r.ops->wait(r.e);
    release_restorer(&r);
    return rc;
}

void msi_restore_estimate(const msi_planes_shape *shape, const msi_restore_spec *spec, int64_t *host, int64_t *paged,
                          int64_t *device)
{
    const int64_t nx = msi_clean_beam_padded(shape->nx, &spec->beam, spec->cell_x_rad);
    const int64_t ny = msi_clean_beam_padded(shape->ny, &spec->beam, spec->cell_y_rad);
    const int64_t spectra = 2 * (nx / 2 + 8) * ny * (shape->precision == MSI_FP32 ? 8 : 16);
    const msi_clean_setup setup = msi_clean_setup_of_plane(shape, spec->n_thread);
    const msi_clean_method *row = msi_clean_method_find("list", shape->backend);
    const int64_t work = row ? row->engine->fft_bytes(&setup, nx, ny) : 0;
    const int64_t records = MSI_CLEAN_CHUNK * (4 + (shape->precision == MSI_FP32 ? 4 : 8));
    const int on_gpu = shape->backend == MSI_BACKEND_CUDA;
    *device = on_gpu ? spectra + work + records : 0;
    *paged = on_gpu ? 0 : spectra;
    *host = on_gpu ? records : spectra + work + records + shape->nx * shape->ny / 4;
}

static int alloc_cleaner(msi_cleaner *c)
{
    const msi_clean_engine_ops *o = c->ops;
    msi_clean_setup setup = c->setup;
    if (c->spec.fit_later) setup.log.n_term = 0;
    MSI_TRY(o->create(&c->e, &setup));
    MSI_TRY(msi_clean_workers_create(c));
    MSI_TRY(o->alloc(c->e, &c->psf, c->n_pixel * c->n_cell * c->spec.n_channel * c->real_bytes, "the PSF"));
    MSI_TRY(o->alloc(c->e, (void **)&c->mask, c->n_pixel, "the mask"));
    MSI_TRY(o->alloc(c->e, (void **)&c->allow, c->n_pixel, "the mask"));
    /* A GPU sets a pixel's bits in a word of two pixels, so the array needs an even number of them. */
    MSI_TRY(o->alloc(c->e, (void **)&c->found, (c->n_pixel + c->n_pixel % 2) * (int64_t)sizeof *c->found, "the mask"));
    if (c->spec.by_scale)
        MSI_TRY(o->alloc(c->e, (void **)&c->scale_mask, c->n_pixel * (int64_t)sizeof *c->scale_mask, "the mask"));
    MSI_TRY(o->alloc(c->e, &c->quantity, c->n_pixel * c->real_bytes, "the joined image"));
    return c->method->prepare ? c->method->prepare(c) : MSI_OK;
}

int msi_cleaner_create(msi_cleaner **out, const msi_cleaner_spec *spec)
{
    msi_cleaner *c;
    *out = NULL;
    MSI_TRY(msi_alloc(&c, 1, sizeof *c, "the cleaner"));
    int rc = msi_clean_spec_set(c, spec);
    if (!rc) rc = alloc_cleaner(c);
    if (rc) {
        msi_cleaner_free(c);
        return rc;
    }
    *out = c;
    return MSI_OK;
}

void msi_cleaner_free(msi_cleaner *c)
{
    if (!c) return;
    if (c->e) {
        if (c->method->release) c->method->release(c);
        void *all[] = {c->psf, c->mask, c->allow, c->found, c->scale_mask, c->quantity, c->factor};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) c->ops->release(c->e, all[i]);
        msi_clean_parts_release(c);
        msi_clean_workers_free(c);
        c->ops->free(c->e);
    }
    msi_clean_spec_release(c);
    msi_free(c);
}

msi_planes_shape msi_cleaner_shape(const msi_cleaner *c)
{
    return (msi_planes_shape){.nx = c->spec.nx,
                              .ny = c->spec.ny,
                              .n = c->n_plane,
                              .precision = c->spec.precision,
                              .backend = c->spec.backend,
                              .device = c->spec.backend == MSI_BACKEND_CUDA ? c->spec.device : 0};
}

/* Check n planes for the cleaner's shape, and get them in the engine's form. */
static int check_planes(const msi_cleaner *c, const char *what, const msi_planes *planes, int n, msi_clean_planes *out)
{
    const msi_planes_shape want = msi_cleaner_shape(c), *is = msi_planes_shape_of(planes);
    if (is->nx != want.nx || is->ny != want.ny || is->n != n)
        return msi_error_about(
            msi_error_set(MSI_EARGUMENT, "the cleaner's %s must be %d planes of %lld x %lld, got %d of %lld x %lld",
                          what, n, (long long)want.nx, (long long)want.ny, is->n, (long long)is->nx, (long long)is->ny),
            what);
    if (is->precision != want.precision || is->backend != want.backend || is->device != want.device)
        return msi_error_about(
            msi_error_set(MSI_EARGUMENT, "the cleaner's %s has another precision, backend or device", what), what);
    *out = (msi_clean_planes){msi_planes_pixel(planes, 0), c->n_pixel};
    return MSI_OK;
}

const double *msi_cleaner_scales(const msi_cleaner *c, int *n)
{
    *n = c->spec.n_scale;
    return c->spec.scale;
}

/* cuFFT needs no work area for some transforms that are smaller than this. */
static const int64_t WORKED_CELLS = 8192 * 8192;

int msi_cleaner_estimate(const msi_cleaner_spec *spec, msi_cleaner_bytes *bytes)
{
    msi_cleaner *c;
    *bytes = (msi_cleaner_bytes){0};
    MSI_TRY(msi_alloc(&c, 1, sizeof *c, "the cleaner"));
    int rc = msi_clean_spec_set(c, spec);
    if (!rc) {
        /* PSFs and the joined image; mask, allowed and found pixels; lists and records. */
        const int64_t masks = c->spec.by_scale ? 6 : 4;
        const int64_t images = c->n_pixel * (c->real_bytes * (c->n_cell * c->spec.n_channel + 1) + masks);
        const int64_t lists = c->setup.list_limit * (4 + c->real_bytes * (2 * c->n_plane + 1));
        const int64_t interleaved =
            c->spec.backend == MSI_BACKEND_CPU && c->setup.list_limit && c->spec.n_channel > 1 && c->n_cell == 1
                ? c->spec.n_channel
                : 0;
        const int64_t records = MSI_CLEAN_CHUNK * (4 + c->real_bytes * c->n_plane);
        const int64_t all = images + interleaved * c->n_pixel * c->real_bytes + lists + records + c->method->bytes(c);
        const int64_t noise = c->ops->noise_bytes(&c->setup);
        const int64_t psf = c->method->while_bytes ? c->method->while_bytes(c) : 0;
        const int on_cpu = c->spec.backend == MSI_BACKEND_CPU;
        bytes->temporary = noise > psf ? noise : psf;
        bytes->host = (int64_t)sizeof *c + bytes->temporary + (on_cpu ? all : records);
        bytes->device = on_cpu ? 0 : all;
        const int64_t transforms = c->ops->fft_bytes(&c->setup, 2 * c->spec.nx, 2 * c->spec.ny);
        const int64_t work = images + interleaved * c->n_pixel * c->real_bytes + c->method->bytes(c) - 2 * transforms;
        const int64_t least = 4 * c->n_pixel >= WORKED_CELLS ? all : all - 2 * transforms;
        bytes->least_device = on_cpu ? 0 : least > images ? least : images;
        bytes->work = on_cpu && work > 0 ? work : 0;
        bytes->paged = on_cpu && c->method->paged ? c->method->paged(c) : 0;
    }
    msi_clean_spec_release(c);
    msi_free(c);
    return rc;
}

/* After a failure, wait for work on GPUs, so that the caller may use its planes again. Returns: rc */
static int wait_on_failure(const msi_cleaner *c, int rc)
{
    for (int i = 0; rc && i < c->n_worker; i++) (void)c->ops->wait(c->worker[i].e);
    return rc;
}

/* Check that the channels with weight have a peak in the middle of their PSF. */
static int check_psf(msi_cleaner *c, int cell)
{
    for (int i = 0; i < c->spec.n_channel; i++) {
        const int64_t middle =
            c->n_pixel * (cell * c->spec.n_channel + i) + c->spec.ny / 2 * c->spec.nx + c->spec.nx / 2;
        double value = 0;
        float value32 = 0;
        void *to = c->spec.precision == MSI_FP32 ? (void *)&value32 : (void *)&value;
        MSI_TRY(c->ops->download(c->e, to, (char *)c->psf + middle * c->real_bytes, c->real_bytes));
        if (c->spec.precision == MSI_FP32) value = value32;
        if (c->setup.share[i] != 0 && !(value > 0))
            return msi_error_about(
                msi_error_set(MSI_EINPUT, "the PSF of channel %d has no positive peak in its middle: %g", i, value),
                "psf");
    }
    return MSI_OK;
}

static int set_psf(msi_cleaner *c, int cell, const msi_clean_planes *from)
{
    const int64_t n = c->n_pixel * c->spec.n_channel;
    void *to = (char *)c->psf + cell * n * c->real_bytes;
    c->psf_id += MSI_CLEAN_MAX_SCALE;
    MSI_TRY(c->ops->copy(c->e, to, from->pixel, n * c->real_bytes));
    MSI_TRY(c->ops->finite(c->e, to, n));
    MSI_TRY(check_psf(c, cell));
    if (c->method->psf) MSI_TRY(c->method->psf(c, cell));
    return c->ops->wait(c->e);
}

int msi_cleaner_psf(msi_cleaner *c, const msi_planes *psf)
{
    msi_clean_planes from;
    c->has_psf = 0;
    MSI_TRY(check_planes(c, "psf", psf, c->spec.n_channel, &from));
    for (int cell = 0; cell < c->n_cell; cell++) MSI_TRY(wait_on_failure(c, set_psf(c, cell, &from)));
    c->has_psf = 1;
    return MSI_OK;
}

int msi_cleaner_cell_psf(msi_cleaner *c, int cell, const msi_planes *psf)
{
    msi_clean_planes from;
    if (!c->has_psf || cell < 0 || cell >= c->n_cell)
        return msi_error_about(msi_error_set(MSI_EARGUMENT,
                                             "the cleaner has %d cells%s, which do not include number %d", c->n_cell,
                                             c->has_psf ? "" : " without a PSF", cell),
                               "cell");
    MSI_TRY(check_planes(c, "psf", psf, c->spec.n_channel, &from));
    c->has_psf = 0;
    MSI_TRY(wait_on_failure(c, set_psf(c, cell, &from)));
    c->has_psf = 1;
    return MSI_OK;
}

int msi_cleaner_mask(msi_cleaner *c, const uint8_t *mask)
{
    c->has_mask = mask != NULL;
    return mask ? c->ops->upload(c->e, c->mask, mask, c->n_pixel) : MSI_OK;
}

int msi_cleaner_scale_mask(msi_cleaner *c, const uint16_t *scales)
{
    if (!c->spec.by_scale)
        return msi_error_about(msi_error_set(MSI_EARGUMENT, "the cleaner was made without by_scale"), "by_scale");
    c->has_scale_mask = scales != NULL;
    return scales ? c->ops->upload(c->e, c->scale_mask, scales, c->n_pixel * (int64_t)sizeof *scales) : MSI_OK;
}

int msi_cleaner_found(msi_cleaner *c, uint16_t *found)
{
    return c->ops->download(c->e, found, c->found, c->n_pixel * (int64_t)sizeof *found);
}

int msi_cleaner_found_set(msi_cleaner *c, const uint16_t *found)
{
    const int64_t bytes = c->n_pixel * (int64_t)sizeof *found;
    return found ? c->ops->upload(c->e, c->found, found, bytes) : c->ops->clear(c->e, c->found, bytes);
}

static int check_limits(const msi_cleaner *c, const msi_clean_limits *limits)
{
    if (!c->has_psf) return msi_error_about(msi_error_set(MSI_EARGUMENT, "the cleaner needs a PSF first"), "psf");
    if (limits->local_rms && !c->has_noise)
        return msi_error_about(msi_error_set(MSI_EARGUMENT, "local_rms needs msi_cleaner_local_rms first"),
                               "local_rms");
    if (limits->threshold >= 0 && limits->mgain >= 0 && limits->mgain <= 1 && limits->n_iteration >= 0) return MSI_OK;
    return msi_error_about(
        msi_error_set(MSI_EARGUMENT,
                      "limits: threshold %g must be 0 or more, mgain %g 0 to 1, iterations %lld 0 or more",
                      limits->threshold, limits->mgain, (long long)limits->n_iteration),
        "limits");
}

int msi_cleaner_minor(msi_cleaner *c, msi_planes *residual, msi_planes *model, const msi_clean_limits *limits,
                      msi_clean_report *report)
{
    msi_clean_call call = {.c = c, .limits = limits, .report = report};
    memset(report, 0, sizeof *report);
    MSI_TRY(check_limits(c, limits));
    MSI_TRY(check_planes(c, "residual", residual, c->n_plane, &call.residual));
    MSI_TRY(check_planes(c, "model", model, c->n_plane, &call.model));
    MSI_TRY(msi_interrupt_check());
    MSI_TRY(wait_on_failure(c, c->method->minor(&call)));
    return wait_on_failure(c, c->ops->wait(c->e));
}

int msi_cleaner_mean(msi_cleaner *c, const msi_planes *part, msi_planes *channel)
{
    const int n_pol = msi_planes_shape_of(channel)->n == c->spec.n_channel ? 1 : c->spec.n_pol;
    msi_clean_planes from, to;
    MSI_TRY(check_planes(c, "part", part, c->parts.n * n_pol, &from));
    MSI_TRY(check_planes(c, "channel", channel, c->spec.n_channel * n_pol, &to));
    return wait_on_failure(c, msi_clean_mean(c, &from, &to, n_pol));
}

int msi_cleaner_expand(msi_cleaner *c, const msi_planes *channel, msi_planes *part)
{
    msi_clean_planes from, to;
    MSI_TRY(check_planes(c, "channel", channel, c->n_plane, &from));
    MSI_TRY(check_planes(c, "part", part, c->parts.n * c->spec.n_pol, &to));
    return wait_on_failure(c, msi_clean_expand(c, &from, &to));
}

int msi_cleaner_combine(msi_cleaner *c, const double *matrix, const msi_cleaner_planes *in,
                        const msi_cleaner_planes *out)
{
    msi_clean_planes from, to;
    MSI_TRY(check_planes(c, "in", in->planes, msi_planes_shape_of(in->planes)->n, &from));
    MSI_TRY(check_planes(c, "out", out->planes, msi_planes_shape_of(out->planes)->n, &to));
    const msi_clean_map m = {.in = msi_clean_plane(c, &from, in->first),
                             .in_stride = from.stride * in->pitch,
                             .n_in = in->n,
                             .out = msi_clean_plane(c, &to, out->first),
                             .out_stride = to.stride * out->pitch,
                             .n_out = out->n};
    return wait_on_failure(c, msi_clean_combine(c, matrix, m));
}

int msi_cleaner_n_term(const msi_cleaner *c, double *reference_hz, int *is_logarithmic)
{
    *reference_hz = c->parts.mean_hz;
    *is_logarithmic = c->spec.fit == MSI_CLEAN_FIT_LOG;
    return c->parts.n_term;
}

void msi_cleaner_terms(const msi_cleaner *c, const double *value, double *term)
{
    msi_clean_terms(c, value, term);
}

void msi_cleaner_fit_seen(const msi_cleaner *c, int n_pol, const double *response, const double *forced, double *value,
                          double *part, double *term)
{
    msi_clean_fit_seen(c, n_pol, response, forced, value, part, term);
}

int msi_cleaner_noise(msi_cleaner *c, const msi_planes *residual, double *sigma)
{
    msi_clean_planes from;
    *sigma = 0;
    MSI_TRY(check_planes(c, "residual", residual, c->n_plane, &from));
    return wait_on_failure(c, msi_clean_noise(c, &from, sigma));
}

double msi_cleaner_sigmas(const msi_cleaner *c, double n_sigma)
{
    return msi_clean_sigmas(c, n_sigma);
}

int msi_cleaner_local_rms(msi_cleaner *c, const msi_planes *planes, const msi_clean_local_rms *options, double *least)
{
    msi_clean_planes residual;
    *least = 0;
    MSI_TRY(check_planes(c, "residual", planes, c->n_plane, &residual));
    return wait_on_failure(c, msi_clean_local_noise(c, &residual, options, least));
}
