/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Restores images without a Measurement Set:
 *
 *   1. The residual is read plane by plane. Its columns must run to the west and its rows to the north.
 *   2. The beam is the given one, or that of the residual's header.
 *   3. With -restore, the model image is convolved with the beam, on the CPU or the GPU, and added to the residual.
 *      With -restore-list, the sources of a list are convolved with the beam and added to the residual.
 *   4. The result has the header of the residual.
 */
#include "src/run/runs.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/image.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/fits_image.h"
#include "io/fits/sky_wcs.h"
#include "kernels/cleaner.h"
#include "kernels/strategy.h"
#include "src/sky/sky_list.h"

/* The image to which sources are added. */
typedef struct sky_canvas {
    msi_image_geometry geometry; /* columns run to the west, rows to the north */
    const msi_sky_wcs *wcs;
    double freq_hz, bandwidth_hz; /* 0: unknown */
    float *pixel;                 /* [ny][nx] */
} sky_canvas;

/* ---- Drawing a list of sources, convolved with the beam ---- */

/* Return the mean flux of a source over a band, in Jy. If freq_hz is 0, it is the flux at the source's reference
 * frequency. */
static double mean_flux(const msi_sky_source *s, double freq_hz, double bandwidth_hz)
{
    /* Gauss-Legendre quadrature with three nodes is exact for polynomials up to degree five. */
    const double off = 0.5 * bandwidth_hz * sqrt(0.6);
    if (!s->n_term || !(freq_hz > 0)) return s->flux_jy;
    if (!(off > 0) || off >= freq_hz) return msi_sky_source_flux(s, freq_hz);
    return (5 * msi_sky_source_flux(s, freq_hz - off) + 8 * msi_sky_source_flux(s, freq_hz) +
            5 * msi_sky_source_flux(s, freq_hz + off)) /
           18;
}

static int draw_all(const msi_sky_list *list, const msi_beam *beam, const sky_canvas *canvas, double *image,
                    int64_t *n_outside)
{
    const msi_image_geometry *g = &canvas->geometry;
    const msi_covariance of_beam = msi_covariance_of(beam);
    *n_outside = 0;
    for (int64_t i = 0; i < list->n; i++) {
        const msi_sky_source *s = &list->source[i];
        const msi_covariance own = msi_covariance_of(&s->shape);
        const msi_covariance seen = {of_beam.ee + own.ee, of_beam.en + own.en, of_beam.nn + own.nn};
        double at[2];
        if (i % 1024 == 0) MSI_TRY(msi_interrupt_check());
        if (!msi_sky_place(at, n_outside, s, canvas->wcs, g)) continue;
        const double flux = mean_flux(s, canvas->freq_hz, canvas->bandwidth_hz);
        if (!(fabs(flux) <= MSI_SKY_MAX_JY))
            return msi_error_set(MSI_EINPUT, "source %lld of the list: its flux at %.6g MHz is %g Jy", (long long)i + 1,
                                 1e-6 * canvas->freq_hz, flux);
        msi_draw_gaussian(image, g, at, &seen,
                          flux * sqrt(msi_covariance_determinant(&of_beam) / msi_covariance_determinant(&seen)));
    }
    return MSI_OK;
}

/*
 * Add sources to an image in Jy/beam, at their exact positions, which may be between pixels. Sources are Gaussians
 * convolved with the beam. A point source of 1 Jy has a peak of 1.
 * Given:    beam  known
 * Returned: *n_outside  number of sources outside the image
 * Returns:  0, MSI_EINPUT (a flux is not finite), MSI_ENOMEM, MSI_EINTERRUPTED
 */
static int sky_list_draw(const msi_sky_list *list, const msi_beam *beam, const sky_canvas *canvas, int64_t *n_outside)
{
    const int64_t n = msi_image_n_pixel(&canvas->geometry);
    double *image;
    MSI_TRY(msi_alloc(&image, n, sizeof *image, "an image of sources"));
    const int rc = draw_all(list, beam, canvas, image, n_outside);
    for (int64_t i = 0; !rc && i < n; i++) canvas->pixel[i] = (float)((double)canvas->pixel[i] + image[i]);
    msi_free(image);
    return rc;
}

/* The state of a restoring run. */
typedef struct restoring {
    const msi_options *options;
    const msi_restore_options *files;
    msi_sky_list list;
    msi_beam beam;
    msi_image_geometry geometry; /* geometry of a plane of the residual */
    int64_t n_plane;
    float *pixel;              /* [n_plane][ny][nx] */
    msi_planes *image, *model; /* buffers for one plane, on the CPU or the GPU; NULL for a list */
} restoring;

/* ---- Checks of the images ---- */

/* Find the pixel sizes of the residual, at the reference pixel. Columns must run to the west, rows to the north. */
static int find_pixels(const char *path, const msi_fits_view *v, msi_image_geometry *g)
{
    const double rad = MSI_PI / 180, at[2] = {v->crpix[0] - 1, v->crpix[1] - 1};
    double here[2], x[2], y[2];
    const double along_x[2] = {at[0] + 1, at[1]}, along_y[2] = {at[0], at[1] + 1};
    *g = (msi_image_geometry){.nx = v->nx, .ny = v->ny};
    if (!v->wcs)
        return msi_error_set(MSI_EINPUT, "%s: the first two axes, %s and %s, are not sky coordinates", path,
                             v->ctype[0], v->ctype[1]);
    if (!msi_sky_wcs_pixel_to_sky(v->wcs, at, here) || !msi_sky_wcs_pixel_to_sky(v->wcs, along_x, x) ||
        !msi_sky_wcs_pixel_to_sky(v->wcs, along_y, y))
        return msi_error_set(MSI_EINPUT, "%s: the reference pixel is not on the sky", path);
    const double cosine = cos(here[1] * rad);
    const double x_east = remainder(x[0] - here[0], 360) * cosine, y_east = remainder(y[0] - here[0], 360) * cosine;
    const double x_north = x[1] - here[1], y_north = y[1] - here[1];
    if (!(x_east < 0 && y_north > 0 && fabs(x_north) < 1e-3 * -x_east && fabs(y_east) < 1e-3 * y_north))
        return msi_error_set(MSI_EINPUT, "%s: columns must run to the west and rows to the north", path);
    g->cell_x_rad = -x_east * rad;
    g->cell_y_rad = y_north * rad;
    return MSI_OK;
}

/* Return the largest distance on the sky between pixels of the same indices in two images, in pixels. It is infinite if
 * only one of the pixels is on the sky. */
static double largest_distance(const msi_fits_view *a, const msi_fits_view *b, const msi_image_geometry *g)
{
    double most = 0;
    for (int i = 0; i < 9; i++) {
        const double at[2] = {(double)((i % 3) * (g->nx - 1)) / 2, (double)((i / 3) * (g->ny - 1)) / 2};
        double p[2], q[2];
        const int here = msi_sky_wcs_pixel_to_sky(a->wcs, at, p), there = msi_sky_wcs_pixel_to_sky(b->wcs, at, q);
        if (here != there) return INFINITY;
        if (!here) continue;
        const double east = remainder(p[0] - q[0], 360) * cos(p[1] * MSI_PI / 180), north = p[1] - q[1];
        most = fmax(most, hypot(east, north) * MSI_PI / 180 / g->cell_y_rad);
    }
    return most;
}

static int is_unit(const char *unit, const char *of)
{
    return !*unit || strcasecmp(unit, of) == 0;
}

/* Check that the model matches the residual. */
static int check_model(const restoring *k, const msi_fits_view *residual, const msi_fits_view *model)
{
    const char *path = k->files->model;
    const msi_image_geometry *g = &k->geometry;
    if (model->nx != g->nx || model->ny != g->ny || model->n_plane != k->n_plane)
        return msi_error_set(MSI_EINPUT,
                             "%s: %lld x %lld pixels in %lld plane%s, but the residual has %lld x %lld in %lld", path,
                             (long long)model->nx, (long long)model->ny, (long long)model->n_plane,
                             msi_plural(model->n_plane), (long long)g->nx, (long long)g->ny, (long long)k->n_plane);
    if (!is_unit(model->unit, "Jy/pixel"))
        return msi_error_set(MSI_EINPUT, "%s: the unit is %s, but a model must be in Jy/pixel", path, model->unit);
    if (!model->wcs || !(largest_distance(residual, model, g) < 0.01))
        return msi_error_set(MSI_EINPUT,
                             "%s: its pixels are not at the same positions on the sky as those of the residual", path);
    if (residual->freq_hz > 0 && model->freq_hz > 0 && fabs(residual->freq_hz / model->freq_hz - 1) > 1e-6)
        return msi_error_set(MSI_EINPUT, "%s: the frequency is %.9g MHz, but the residual has %.9g MHz", path,
                             1e-6 * model->freq_hz, 1e-6 * residual->freq_hz);
    if (residual->has_pol && model->has_pol && residual->pol != model->pol)
        return msi_error_set(MSI_EINPUT, "%s: its polarisation differs from that of the residual", path);
    return MSI_OK;
}

/* Refuse a model with pixels that are not finite, except where the residual is not finite either. A model that is NaN
 * everywhere belongs to a channel without samples. */
static int check_values(const restoring *k, const msi_fits_view *residual, const msi_fits_view *model)
{
    const int64_t n = k->geometry.nx * k->geometry.ny;
    int64_t n_nan = 0;
    for (int64_t i = 0; i < n; i++) n_nan += isnan(model->pixel[i]);
    for (int64_t i = 0; i < n && n_nan < n; i++)
        if (!isfinite(model->pixel[i]) && !isnan(residual->pixel[i]))
            return msi_error_set(MSI_EINPUT, "%s: pixel (%lld, %lld) is not finite, so its flux is unknown; correct it",
                                 k->files->model, (long long)(i % k->geometry.nx) + 1,
                                 (long long)(i / k->geometry.nx) + 1);
    return MSI_OK;
}

static int choose_beam(restoring *k, const msi_fits_view *residual)
{
    const msi_beam *given = &k->options->clean.beam.given;
    const msi_image_geometry *g = &k->geometry;
    const double arcsec = 648000 / MSI_PI;
    k->beam = msi_beam_known(given) ? *given : residual->beam;
    if (!msi_beam_known(&k->beam))
        return msi_error_set(MSI_EINPUT, "%s: the header has no beam (BMAJ, BMIN, BPA); give -beam-shape",
                             k->files->residual);
    if (k->beam.major_rad > fmax((double)g->nx * g->cell_x_rad, (double)g->ny * g->cell_y_rad))
        return msi_error_set(MSI_EINPUT, "%s: the beam of %.4g arcsec is wider than the image", k->files->residual,
                             k->beam.major_rad * arcsec);
    msi_log_info("beam: %.4g x %.4g arcsec, position angle %.1f deg, %s", k->beam.major_rad * arcsec,
                 k->beam.minor_rad * arcsec, k->beam.pa_rad * 180 / MSI_PI,
                 msi_beam_known(given) ? "as given" : "from the header of the residual");
    return MSI_OK;
}

/* ---- Planes ---- */

/* Return the backend of -backend; with auto, a GPU if there is one. */
static msi_backend choose_backend(const msi_options *o)
{
    if (o->backend != MSI_BACKEND_AUTO) return o->backend;
    for (const msi_strategy *s = NULL; (s = msi_strategy_next(s, NULL, NULL, 0));)
        if (s->backend == MSI_BACKEND_CUDA && msi_strategy_available(s)) return MSI_BACKEND_CUDA;
    return MSI_BACKEND_CPU;
}

static int make_planes(restoring *k)
{
    const msi_planes_shape shape = {.nx = k->geometry.nx,
                                    .ny = k->geometry.ny,
                                    .n = 1,
                                    .precision = MSI_FP32,
                                    .backend = choose_backend(k->options)};
    MSI_TRY(msi_planes_create(&k->image, &shape));
    return msi_planes_create(&k->model, &shape);
}

static int restore_image(restoring *k, const msi_fits_view *residual, float *pixel)
{
    const msi_restore_spec spec = {.beam = k->beam,
                                   .cell_x_rad = k->geometry.cell_x_rad,
                                   .cell_y_rad = k->geometry.cell_y_rad,
                                   .n = 1,
                                   .n_thread = k->options->n_threads};
    msi_fits_view model;
    MSI_TRY(msi_fits_view_read(&model, k->files->model, residual->n_plane > 1 ? residual->plane : 0));
    int rc = check_model(k, residual, &model);
    if (!rc) rc = check_values(k, residual, &model);
    if (rc || k->options->dry_run) {
        msi_fits_view_free(&model);
        return rc;
    }
    rc = msi_planes_upload(k->model, 0, 1, model.pixel);
    msi_fits_view_free(&model);
    if (!rc) rc = msi_planes_upload(k->image, 0, 1, residual->pixel);
    if (!rc) rc = msi_restore(k->image, k->image, k->model, &spec);
    return rc ? rc : msi_planes_fetch(k->image, 0, 1, pixel);
}

static int restore_list(restoring *k, const msi_fits_view *residual, float *pixel)
{
    const sky_canvas canvas = {k->geometry, residual->wcs, residual->freq_hz, residual->bandwidth_hz, pixel};
    int64_t n_outside;
    if (residual->has_pol && residual->pol != MSI_POL_I)
        return msi_error_set(MSI_EINPUT, "%s: a list of sources has Stokes I, but the residual is another polarisation",
                             k->files->residual);
    if (k->options->dry_run) return MSI_OK;
    memcpy(pixel, residual->pixel, (size_t)(k->geometry.nx * k->geometry.ny) * sizeof *pixel);
    MSI_TRY(sky_list_draw(&k->list, &k->beam, &canvas, &n_outside));
    if (n_outside)
        msi_log_warning("%s: %lld of %lld source%s are outside the image", k->files->model, (long long)n_outside,
                        (long long)k->list.n, msi_plural(k->list.n));
    return MSI_OK;
}

/* Refuse a restored image that overflows single precision, because fluxes of the model or the list are too large. */
static int check_restored(const restoring *k, const float *pixel, const float *residual)
{
    const int64_t n = k->geometry.nx * k->geometry.ny;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(pixel[i]) && isfinite(residual[i]))
            return msi_error_set(MSI_EINPUT,
                                 "%s: its fluxes exceed single precision in the restored image, first at "
                                 "pixel (%lld, %lld); correct them",
                                 k->files->model, (long long)(i % k->geometry.nx) + 1,
                                 (long long)(i / k->geometry.nx) + 1);
    return MSI_OK;
}

static int begin_restoring(restoring *k, const msi_fits_view *residual)
{
    k->n_plane = residual->n_plane;
    MSI_TRY(find_pixels(k->files->residual, residual, &k->geometry));
    if (!is_unit(residual->unit, "Jy/beam"))
        return msi_error_set(MSI_EINPUT, "%s: the unit is %s, but a residual must be in Jy/beam", k->files->residual,
                             residual->unit);
    MSI_TRY(choose_beam(k, residual));
    if (k->options->dry_run) return MSI_OK;
    if (!k->files->is_list) MSI_TRY(make_planes(k));
    return msi_alloc(&k->pixel, k->n_plane * k->geometry.nx * k->geometry.ny, sizeof *k->pixel, "the restored image");
}

static int restore_plane(restoring *k, int64_t plane)
{
    msi_fits_view residual;
    MSI_TRY(msi_fits_view_read(&residual, k->files->residual, plane));
    int rc = plane ? MSI_OK : begin_restoring(k, &residual);
    const int64_t n = k->geometry.nx * k->geometry.ny;
    if (!rc && (residual.nx * residual.ny != n || residual.n_plane != k->n_plane))
        rc = msi_error_set(MSI_EINPUT, "%s: changed while it was read", k->files->residual);
    float *pixel = k->pixel ? k->pixel + plane * n : NULL;
    if (!rc) rc = (k->files->is_list ? restore_list : restore_image)(k, &residual, pixel);
    if (!rc && !k->options->dry_run) rc = check_restored(k, pixel, residual.pixel);
    msi_fits_view_free(&residual);
    return rc;
}

/* ---- The run ---- */

/* Check that the output is not one of the inputs. */
static int check_output(const msi_restore_options *f)
{
    const char *const read[] = {f->residual, f->model};
    struct stat out, in;
    if (stat(f->out, &out) != 0) return MSI_OK;
    for (int i = 0; i < 2; i++)
        if (stat(read[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return msi_error_set(MSI_EUSAGE, "-restore%s: %s is also an input; give the output another name",
                                 f->is_list ? "-list" : "", f->out);
    return MSI_OK;
}

static int restore_all(restoring *k, msi_publish *publish)
{
    const msi_options *o = k->options;
    if (k->files->is_list) MSI_TRY(msi_sky_list_read(&k->list, k->files->model));
    k->n_plane = 1;
    for (int64_t plane = 0; plane < k->n_plane; plane++) MSI_TRY(restore_plane(k, plane));
    if (o->dry_run) {
        msi_log_info("would write %s: %lld x %lld pixels in %lld plane%s", k->files->out, (long long)k->geometry.nx,
                     (long long)k->geometry.ny, (long long)k->n_plane, msi_plural(k->n_plane));
        return MSI_OK;
    }
    const msi_fits_change change = {.unit = "Jy/beam", .beam = k->beam, .command_line = o->command_line};
    MSI_TRY(msi_fits_write_like(publish, 0, k->files->residual, &change, k->pixel));
    MSI_TRY(msi_publish_commit(publish));
    msi_log_info("wrote %s in %.2f s", k->files->out, msi_wall_s());
    return MSI_OK;
}

int msi_run_restore(const msi_options *o)
{
    restoring k = {.options = o, .files = &o->restore};
    msi_publish *publish;
    MSI_TRY(check_output(k.files));
    MSI_TRY(msi_publish_plan(&publish, &o->restore.out, 1, o->overwrite));
    const int rc = restore_all(&k, publish);
    msi_publish_free(publish);
    msi_planes_free(k.image);
    msi_planes_free(k.model);
    msi_sky_list_free(&k.list);
    msi_free(k.pixel);
    return rc;
}
