/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files of earlier runs that a run begins with: images, and checkpoints. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/image.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/clean/checkpoint.h"
#include "src/imaging/imaging_run.h"

/* ---- Headers of images ---- */

static int check_pixels_match(const char *path, const msi_fits_header *h, const msi_image_geometry *g)
{
    const double asec = 180 * 3600 / MSI_PI;
    const msi_image_geometry *m = &h->geometry;
    if (h->n_freq * h->n_pol != 1)
        return msi_error_set(MSI_EINPUT, "%s: has %lld planes, and an image of one is wanted", path,
                             (long long)(h->n_freq * h->n_pol));
    if (m->nx != g->nx || m->ny != g->ny)
        return msi_error_set(MSI_EINPUT, "%s: has %lld x %lld pixels, and the image %lld x %lld", path,
                             (long long)m->nx, (long long)m->ny, (long long)g->nx, (long long)g->ny);
    if (fabs(m->cell_x_rad / g->cell_x_rad - 1) > 1e-6 || fabs(m->cell_y_rad / g->cell_y_rad - 1) > 1e-6)
        return msi_error_set(MSI_EINPUT, "%s: has pixels of %.6g x %.6g arcsec, and the image of %.6g x %.6g", path,
                             m->cell_x_rad * asec, m->cell_y_rad * asec, g->cell_x_rad * asec, g->cell_y_rad * asec);
    return MSI_OK;
}

/* FK5 and ICRS differ by some hundredths of an arcsecond. */
static int is_j2000(const char *frame)
{
    return strcasecmp(frame, "J2000") == 0 || strcasecmp(frame, "ICRS") == 0;
}

static int check_place(const char *path, const msi_fits_header *h, const msi_imaging_run *r)
{
    const msi_image_geometry *g = &r->options->geometry;
    const double deg = 180 / MSI_PI;
    const char *frame = r->observation.dir_frame;
    if (strcasecmp(h->dir_frame, frame) != 0 && !(is_j2000(h->dir_frame) && is_j2000(frame)))
        return msi_error_set(MSI_EINPUT, "%s: its coordinates are %s, and the image's %s", path, h->dir_frame, frame);
    if (h->reference[0] != (double)(g->nx / 2) || h->reference[1] != (double)(g->ny / 2))
        return msi_error_set(MSI_EINPUT, "%s: its reference pixel is %g, %g, and the image's %lld, %lld", path,
                             h->reference[0] + 1, h->reference[1] + 1, (long long)g->nx / 2 + 1,
                             (long long)g->ny / 2 + 1);
    if (fabs(remainder(h->ra_rad - r->ra_rad, 2 * MSI_PI)) * cos(r->dec_rad) > 0.01 * g->cell_x_rad ||
        fabs(h->dec_rad - r->dec_rad) > 0.01 * g->cell_y_rad)
        return msi_error_set(MSI_EINPUT, "%s: has its centre at %.6f, %.6f deg, and the image at %.6f, %.6f", path,
                             h->ra_rad * deg, h->dec_rad * deg, r->ra_rad * deg, r->dec_rad * deg);
    return MSI_OK;
}

/* Hold a file against what the id names; local noise, which serves all channels and polarisations, has none. */
static int check_kind(const char *path, const msi_fits_header *h, const msi_imaging_run *r, const msi_output_id *id)
{
    if (!id) return MSI_OK;
    const double freq_hz = 0.5 * (r->channels.low_hz[id->channel] + r->channels.high_hz[id->channel]);
    const msi_pol pol = r->planes[id->plane].pol;
    if (h->freq_hz > 0 && fabs(h->freq_hz / freq_hz - 1) > 1e-6)
        return msi_error_set(MSI_EINPUT, "%s: is of %.9g MHz, and the image of %.9g", path, 1e-6 * h->freq_hz,
                             1e-6 * freq_hz);
    if (h->has_pol && id->kind != MSI_FITS_PSF && h->pol[0] != pol)
        return msi_error_set(MSI_EINPUT, "%s: is of %s, and the image of %s", path, msi_pol_name(h->pol[0]),
                             msi_pol_name(pol));
    return MSI_OK;
}

/* Open an image that is the run's in all its header says. */
static int open_image(msi_fits_file **out, const msi_imaging_run *r, const char *path, const msi_output_id *id)
{
    MSI_TRY(msi_fits_open(out, path));
    const msi_fits_header *h = msi_fits_header_get(*out);
    int rc = check_pixels_match(path, h, &r->options->geometry);
    if (!rc) rc = check_place(path, h, r);
    if (!rc) rc = check_kind(path, h, r, id);
    if (rc) msi_fits_close(*out);
    return rc;
}

/* ---- All that a run will read ---- */

static int check_image(const msi_imaging_run *r, const char *prefix, const msi_output_id *id)
{
    msi_fits_file *file;
    char *path;
    MSI_TRY(msi_outputs_path(&path, r->outputs, prefix, id));
    const int rc = open_image(&file, r, path, id);
    if (!rc) msi_fits_close(file);
    msi_free(path);
    return rc;
}

static int check_kind_of_images(const msi_imaging_run *r, const char *prefix, msi_fits_kind kind)
{
    const int n_plane = kind == MSI_FITS_PSF ? 1 : r->n_plane;
    for (int64_t t = 0; prefix && t < r->options->intervals_out; t++)
        for (int64_t c = 0; c < r->options->channels_out; c++)
            for (int p = 0; p < n_plane; p++) MSI_TRY(check_image(r, prefix, &(msi_output_id){t, c, p, kind}));
    return MSI_OK;
}

int msi_imaging_reuse_check(const msi_imaging_run *r)
{
    const msi_clean_options *c = &r->options->clean;
    msi_fits_file *file;
    if (!c->niter) return MSI_OK;
    MSI_TRY(check_kind_of_images(r, c->reuse_psf, MSI_FITS_PSF));
    MSI_TRY(check_kind_of_images(r, c->reuse_dirty, MSI_FITS_DIRTY));
    MSI_TRY(check_kind_of_images(r, c->continues ? r->options->name : NULL, MSI_FITS_MODEL));
    if (!c->local_rms_image) return MSI_OK;
    MSI_TRY(open_image(&file, r, c->local_rms_image, NULL));
    msi_fits_close(file);
    return MSI_OK;
}

/* ---- Pixels ---- */

static void set_value(void *pixel, msi_precision precision, int64_t i, double value)
{
    if (precision == MSI_FP32)
        ((float *)pixel)[i] = (float)value;
    else
        ((double *)pixel)[i] = value;
}

static int check_finite(const char *path, int is_model, int64_t n, msi_precision precision, void *pixel)
{
    int64_t n_bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const double value = msi_image_value(pixel, precision, i);
        if (isfinite(value)) continue;
        if (is_model && isnan(value))
            set_value(pixel, precision, i, 0);
        else
            n_bad++;
    }
    if (!n_bad) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: has %lld pixels that are not finite", path, (long long)n_bad);
}

static int read_pixels(const msi_imaging_run *r, const char *path, const msi_output_id *id, msi_precision precision,
                       void *pixel)
{
    const msi_image_geometry *g = &r->options->geometry;
    msi_fits_file *file;
    MSI_TRY(open_image(&file, r, path, id));
    int rc = msi_fits_read_plane(file, 0, 0, precision, pixel, g->nx);
    msi_fits_close(file);
    if (!rc) rc = check_finite(path, id && id->kind == MSI_FITS_MODEL, msi_image_n_pixel(g), precision, pixel);
    if (rc || !id || id->kind != MSI_FITS_PSF) return rc;
    const double centre = msi_image_value(pixel, precision, g->ny / 2 * g->nx + g->nx / 2);
    if (fabs(centre - 1) > 0.1)
        return msi_error_set(MSI_EINPUT, "%s: is %g at its centre, and a PSF is 1 there", path, centre);
    return MSI_OK;
}

int msi_imaging_reuse_read(const msi_imaging_run *r, const char *prefix, const msi_output_id *id,
                           msi_precision precision, void *pixel)
{
    char *path;
    MSI_TRY(msi_outputs_path(&path, r->outputs, prefix, id));
    const int rc = read_pixels(r, path, id, precision, pixel);
    msi_free(path);
    return rc;
}

int msi_imaging_reuse_rms(const msi_imaging_run *r, msi_precision precision, void *pixel)
{
    const char *path = r->options->clean.local_rms_image;
    const int64_t n = msi_image_n_pixel(&r->options->geometry);
    MSI_TRY(read_pixels(r, path, NULL, precision, pixel));
    for (int64_t i = 0; i < n; i++)
        if (!(msi_image_value(pixel, precision, i) > 0))
            return msi_error_set(MSI_EINPUT, "%s: pixel (%lld, %lld) is %g; noise is larger than 0 everywhere", path,
                                 (long long)(i % r->options->geometry.nx) + 1,
                                 (long long)(i / r->options->geometry.nx) + 1, msi_image_value(pixel, precision, i));
    return MSI_OK;
}

/* ---- Checkpoints: their names, and when they are written, read and removed ---- */

/* NAME[-tNNNN][-NNNN].clean. Nothing is allocated for it, so that a run whose images are complete does not fail. A name
 * that is longer than any path was refused with those of the images. */
typedef struct checkpoint_path {
    char text[PATH_MAX];
} checkpoint_path;

static checkpoint_path name_checkpoint(const msi_options *o, int64_t interval, int64_t first)
{
    checkpoint_path path;
    char t[32] = "", c[32] = "";
    if (o->intervals_out > 1) snprintf(t, sizeof t, "-t%04lld", (long long)interval);
    if (o->channels_out > 1 && !o->clean.join_channels) snprintf(c, sizeof c, "-%04lld", (long long)first);
    snprintf(path.text, sizeof path.text, "%s%s%s.clean", o->name, t, c);
    return path;
}

int msi_imaging_checkpoint_save(msi_imaging_run *run, msi_clean_field *field, int64_t first)
{
    const checkpoint_path path = name_checkpoint(run->options, run->interval, first);
    if (msi_wall_s() - run->checkpoint_at_s < run->options->clean.checkpoint_s) return MSI_OK;
    const int rc = msi_clean_save(field, &run->history, path.text);
    run->checkpoint_at_s = msi_wall_s();
    return rc;
}

int msi_imaging_checkpoint_load(msi_imaging_run *run, msi_clean_field *field, int64_t first, int *found)
{
    const checkpoint_path path = name_checkpoint(run->options, run->interval, first);
    int rc = MSI_OK;
    *found = 0;
    if (run->options->clean.resume) {
        rc = msi_clean_load(field, &run->history, path.text, found);
        if (!rc && *found) msi_log_info("going on from the checkpoint %s", path.text);
        if (!rc && !*found) msi_log_info("there is no checkpoint %s; cleaning begins anew", path.text);
    } else if (access(path.text, F_OK) == 0) {
        msi_log_advice("%s is a checkpoint that a run has left; -resume would go on from it", path.text);
    }
    return rc;
}

/* Call a function for the path of every checkpoint that a run may have. */
static int for_checkpoints(const msi_options *o, int (*call)(const char *path))
{
    const int64_t each = o->clean.join_channels ? o->channels_out : 1;
    for (int64_t t = 0; t < o->intervals_out; t++)
        for (int64_t first = 0; first < o->channels_out; first += each) {
            const checkpoint_path path = name_checkpoint(o, t, first);
            if (access(path.text, F_OK) == 0) MSI_TRY(call(path.text));
        }
    return MSI_OK;
}

int msi_imaging_checkpoint_forget(const msi_options *options)
{
    return for_checkpoints(options, msi_checkpoint_remove);
}

int msi_imaging_checkpoint_check(const msi_options *options)
{
    return options->clean.resume ? MSI_OK : for_checkpoints(options, msi_checkpoint_check_place);
}
