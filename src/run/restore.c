/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/restore.h"

#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/format.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/fits/fits_image.h"
#include "kernels/cleaner.h"
#include "kernels/strategy.h"
#include "src/sky/sky_list.h"

/* A restored image is made of these: options, sources, beam and geometry. */
typedef struct restoring {
    const msi_options *options;
    const msi_restore_options *files;
    msi_sky_list list;
    msi_beam beam;
    msi_image_geometry geometry; /* of a plane of the residual */
    int64_t n_plane;
    float *pixel;              /* [n_plane][ny][nx] */
    msi_planes *image, *model; /* of one plane, where the work is done; NULL for a list */
} restoring;

/* ---- Whether images fit ---- */

/* A residual's columns run to the west and its rows to the north, where the projection is exact. */
static int find_pixels(const char *path, const msi_fits_view *v, msi_image_geometry *g)
{
    const double rad = MSI_PI / 180, at[2] = {v->crpix[0] - 1, v->crpix[1] - 1};
    double here[2], x[2], y[2];
    const double along_x[2] = {at[0] + 1, at[1]}, along_y[2] = {at[0], at[1] + 1};
    *g = (msi_image_geometry){.nx = v->nx, .ny = v->ny};
    if (!v->wcs)
        return msi_error_set(MSI_EINPUT, "%s: the first two axes, %s and %s, are none on the sky", path, v->ctype[0],
                             v->ctype[1]);
    if (!msi_sky_wcs_pixel_to_sky(v->wcs, at, here) || !msi_sky_wcs_pixel_to_sky(v->wcs, along_x, x) ||
        !msi_sky_wcs_pixel_to_sky(v->wcs, along_y, y))
        return msi_error_set(MSI_EINPUT, "%s: the reference pixel is not on the sky", path);
    const double cosine = cos(here[1] * rad);
    const double x_east = remainder(x[0] - here[0], 360) * cosine, y_east = remainder(y[0] - here[0], 360) * cosine;
    const double x_north = x[1] - here[1], y_north = y[1] - here[1];
    if (!(x_east < 0 && y_north > 0 && fabs(x_north) < 1e-3 * -x_east && fabs(y_east) < 1e-3 * y_north))
        return msi_error_set(MSI_EINPUT, "%s: its columns do not run to the west and its rows to the north", path);
    g->cell_x_rad = -x_east * rad;
    g->cell_y_rad = y_north * rad;
    return MSI_OK;
}

/* Find the largest distance between pixels of two images on the sky, in pixels; infinite where one alone is on the
 * sky. */
static double farthest(const msi_fits_view *a, const msi_fits_view *b, const msi_image_geometry *g)
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

/* A model must be one of its residual. */
static int check_model(const restoring *k, const msi_fits_view *residual, const msi_fits_view *model)
{
    const char *path = k->files->model;
    const msi_image_geometry *g = &k->geometry;
    if (model->nx != g->nx || model->ny != g->ny || model->n_plane != k->n_plane)
        return msi_error_set(MSI_EINPUT,
                             "%s: has %lld x %lld pixels in %lld plane%s, and the residual %lld x %lld in %lld", path,
                             (long long)model->nx, (long long)model->ny, (long long)model->n_plane,
                             msi_plural(model->n_plane), (long long)g->nx, (long long)g->ny, (long long)k->n_plane);
    if (!is_unit(model->unit, "Jy/pixel"))
        return msi_error_set(MSI_EINPUT, "%s: is in %s, and a model in Jy/pixel", path, model->unit);
    if (!model->wcs || !(farthest(residual, model, g) < 0.01))
        return msi_error_set(MSI_EINPUT, "%s: its pixels lie elsewhere on the sky than those of the residual", path);
    if (residual->freq_hz > 0 && model->freq_hz > 0 && fabs(residual->freq_hz / model->freq_hz - 1) > 1e-6)
        return msi_error_set(MSI_EINPUT, "%s: is of %.9g MHz, and the residual of %.9g", path, 1e-6 * model->freq_hz,
                             1e-6 * residual->freq_hz);
    if (residual->has_pol && model->has_pol && residual->pol != model->pol)
        return msi_error_set(MSI_EINPUT, "%s: is of another polarisation than the residual", path);
    return MSI_OK;
}

static int choose_beam(restoring *k, const msi_fits_view *residual)
{
    const msi_beam *given = &k->options->clean.beam.given;
    const msi_image_geometry *g = &k->geometry;
    const double arcsec = 648000 / MSI_PI;
    k->beam = msi_beam_known(given) ? *given : residual->beam;
    if (!msi_beam_known(&k->beam))
        return msi_error_set(MSI_EINPUT, "%s: its header has no beam (BMAJ, BMIN, BPA); give -beam-shape",
                             k->files->residual);
    if (k->beam.major_rad > fmax((double)g->nx * g->cell_x_rad, (double)g->ny * g->cell_y_rad))
        return msi_error_set(MSI_EINPUT, "%s: a beam of %.4g arcsec is wider than the image", k->files->residual,
                             k->beam.major_rad * arcsec);
    msi_log_info("beam: %.4g x %.4g arcsec, position angle %.1f deg, %s", k->beam.major_rad * arcsec,
                 k->beam.minor_rad * arcsec, k->beam.pa_rad * 180 / MSI_PI,
                 msi_beam_known(given) ? "as given" : "of the residual's header");
    return MSI_OK;
}

/* ---- Planes ---- */

/* A GPU where one is present, unless the user says otherwise. */
static msi_backend backend_of(const msi_options *o)
{
    if (o->backend != MSI_BACKEND_AUTO) return o->backend;
    for (const msi_strategy *s = NULL; (s = msi_strategy_next(s, NULL, NULL, 0));)
        if (s->backend == MSI_BACKEND_CUDA && msi_strategy_available(s)) return MSI_BACKEND_CUDA;
    return MSI_BACKEND_CPU;
}

static int make_planes(restoring *k)
{
    const msi_planes_shape shape = {
        .nx = k->geometry.nx, .ny = k->geometry.ny, .n = 1, .precision = MSI_FP32, .backend = backend_of(k->options)};
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
    if (!rc) rc = msi_planes_upload(k->model, 0, 1, model.pixel);
    msi_fits_view_free(&model);
    if (!rc) rc = msi_planes_upload(k->image, 0, 1, residual->pixel);
    if (!rc) rc = msi_restore(k->image, k->image, k->model, &spec);
    return rc ? rc : msi_planes_fetch(k->image, 0, 1, pixel);
}

static int restore_list(restoring *k, const msi_fits_view *residual, float *pixel)
{
    const msi_sky_canvas canvas = {k->geometry, residual->wcs, residual->freq_hz, residual->bandwidth_hz, pixel};
    int64_t n_outside;
    if (residual->has_pol && residual->pol != MSI_POL_I)
        return msi_error_set(MSI_EINPUT, "%s: is not of Stokes I, and a list of sources is", k->files->residual);
    memcpy(pixel, residual->pixel, (size_t)(k->geometry.nx * k->geometry.ny) * sizeof *pixel);
    MSI_TRY(msi_sky_list_draw(&k->list, &k->beam, &canvas, &n_outside));
    if (n_outside)
        msi_log_warning("%s: %lld of %lld source%s are not within the image", k->files->model, (long long)n_outside,
                        (long long)k->list.n, msi_plural(k->list.n));
    return MSI_OK;
}

static int begin(restoring *k, const msi_fits_view *residual)
{
    k->n_plane = residual->n_plane;
    MSI_TRY(find_pixels(k->files->residual, residual, &k->geometry));
    if (!is_unit(residual->unit, "Jy/beam"))
        return msi_error_set(MSI_EINPUT, "%s: is in %s, and a residual in Jy/beam", k->files->residual, residual->unit);
    MSI_TRY(choose_beam(k, residual));
    if (!k->files->is_list) MSI_TRY(make_planes(k));
    return msi_alloc(&k->pixel, k->n_plane * k->geometry.nx * k->geometry.ny, sizeof *k->pixel, "the restored image");
}

static int restore_plane(restoring *k, int64_t plane)
{
    msi_fits_view residual;
    MSI_TRY(msi_fits_view_read(&residual, k->files->residual, plane));
    int rc = plane ? MSI_OK : begin(k, &residual);
    const int64_t n = k->geometry.nx * k->geometry.ny;
    if (!rc && (residual.nx * residual.ny != n || residual.n_plane != k->n_plane))
        rc = msi_error_set(MSI_EINPUT, "%s: has changed while it was read", k->files->residual);
    if (!rc) rc = (k->files->is_list ? restore_list : restore_image)(k, &residual, k->pixel + plane * n);
    msi_fits_view_free(&residual);
    return rc;
}

/* ---- The run ---- */

/* The output may replace a file, but none that is read. */
static int check_output(const msi_restore_options *f)
{
    const char *const read[] = {f->residual, f->model};
    struct stat out, in;
    if (stat(f->out, &out) != 0) return MSI_OK;
    for (int i = 0; i < 2; i++)
        if (stat(read[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return msi_error_set(MSI_EUSAGE, "-restore%s: %s is read, too; give the output another name",
                                 f->is_list ? "-list" : "", f->out);
    return MSI_OK;
}

static int restore_all(restoring *k, msi_publish *publish)
{
    const msi_options *o = k->options;
    if (k->files->is_list) MSI_TRY(msi_sky_list_read(&k->list, k->files->model));
    k->n_plane = 1;
    for (int64_t plane = 0; plane < k->n_plane; plane++) MSI_TRY(restore_plane(k, plane));
    const msi_fits_change change = {"Jy/beam", k->beam, o->command_line};
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
