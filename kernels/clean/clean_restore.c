/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Restoring: a model is convolved with the beam and added to residuals, by transforms wider than the image by the
 * beam's reach. */
#include "kernels/clean/clean_restore.h"

#include <math.h>

#include "core/process.h"
#include "kernels/clean/clean_state.h"

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
