/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files of earlier runs that a run reads: images and checkpoints. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/image.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/clean/checkpoint.h"
#include "src/imaging/imaging_run.h"

/* ---- Headers of images ---- */

static int check_pixels_match(const char *path, const msi_fits_header *h, const msi_image_geometry *g, int64_t n_plane)
{
    const double asec = 180 * 3600 / MSI_PI;
    const msi_image_geometry *m = &h->geometry;
    if (h->n_freq * h->n_pol != n_plane)
        return msi_error_set(
            MSI_EINPUT, "%s: has %lld planes; an image of %s is needed", path, (long long)(h->n_freq * h->n_pol),
            n_plane > 1 ? "one plane for each term of -fit-spectral-log-pol after the first" : "one plane");
    if (m->nx != g->nx || m->ny != g->ny)
        return msi_error_set(MSI_EINPUT, "%s: has %lld x %lld pixels, but the image has %lld x %lld", path,
                             (long long)m->nx, (long long)m->ny, (long long)g->nx, (long long)g->ny);
    if (fabs(m->cell_x_rad / g->cell_x_rad - 1) > 1e-6 || fabs(m->cell_y_rad / g->cell_y_rad - 1) > 1e-6)
        return msi_error_set(MSI_EINPUT, "%s: has pixels of %.6g x %.6g arcsec, but those of the image are %.6g x %.6g",
                             path, m->cell_x_rad * asec, m->cell_y_rad * asec, g->cell_x_rad * asec,
                             g->cell_y_rad * asec);
    return MSI_OK;
}

/* Return 1 for J2000, and for ICRS, which differs from it by some hundredths of an arcsecond. */
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
        return msi_error_set(MSI_EINPUT, "%s: its coordinates are %s, but those of the image are %s", path,
                             h->dir_frame, frame);
    if (h->reference[0] != (double)(g->nx / 2) || h->reference[1] != (double)(g->ny / 2))
        return msi_error_set(MSI_EINPUT, "%s: its reference pixel is %g, %g, but that of the image is %lld, %lld", path,
                             h->reference[0] + 1, h->reference[1] + 1, (long long)g->nx / 2 + 1,
                             (long long)g->ny / 2 + 1);
    if (fabs(remainder(h->ra_rad - r->ra_rad, 2 * MSI_PI)) * cos(r->dec_rad) > 0.01 * g->cell_x_rad ||
        fabs(h->dec_rad - r->dec_rad) > 0.01 * g->cell_y_rad)
        return msi_error_set(MSI_EINPUT, "%s: its centre is %.6f, %.6f deg, but that of the image is %.6f, %.6f", path,
                             h->ra_rad * deg, h->dec_rad * deg, r->ra_rad * deg, r->dec_rad * deg);
    return MSI_OK;
}

/* Relative errors of the frequency of an image: rounding, and the largest shift between TOPO, BARY and LSRK (52 km/s), in
 * which tclean writes its images. */
static const double SAME_FREQUENCY = 1e-6, SAME_IN_ANOTHER_FRAME = 1.8e-4;

/* Check frequency and polarisation. Given: id  NULL for the local noise, which is used for all channels and
 * polarisations */
static int check_kind(const char *path, const msi_fits_header *h, const msi_imaging_run *r, const msi_output_id *id)
{
    if (!id) return MSI_OK;
    const double freq_hz = r->options->clean.n_taylor
                               ? msi_imaging_reference(r)
                               : 0.5 * (r->channels.low_hz[id->channel] + r->channels.high_hz[id->channel]);
    const msi_pol pol = r->planes[id->plane].pol;
    const int is_moved = h->spec_frame[0] && strcasecmp(h->spec_frame, r->observation.spec_frame) != 0;
    if (h->freq_hz > 0 && fabs(h->freq_hz / freq_hz - 1) > (is_moved ? SAME_IN_ANOTHER_FRAME : SAME_FREQUENCY))
        return msi_error_set(MSI_EINPUT, "%s: its frequency is %.9g MHz, but that of the image is %.9g", path,
                             1e-6 * h->freq_hz, 1e-6 * freq_hz);
    if (h->has_pol && id->kind != MSI_FITS_PSF && h->pol[0] != pol)
        return msi_error_set(MSI_EINPUT, "%s: its polarisation is %s, but that of the image is %s", path,
                             msi_pol_name(h->pol[0]), msi_pol_name(pol));
    return MSI_OK;
}

/* Open an image, and check that its header matches the run. */
static int open_planes(msi_fits_file **out, const msi_imaging_run *r, const char *path, const msi_output_id *id,
                       int64_t n_plane)
{
    MSI_TRY(msi_fits_open(out, path));
    const msi_fits_header *h = msi_fits_header_get(*out);
    int rc = check_pixels_match(path, h, &r->options->geometry, n_plane);
    if (!rc) rc = check_place(path, h, r);
    if (!rc) rc = check_kind(path, h, r, id);
    if (rc) msi_fits_close(*out);
    return rc;
}

static int open_image(msi_fits_file **out, const msi_imaging_run *r, const char *path, const msi_output_id *id)
{
    return open_planes(out, r, path, id, 1);
}

static int open_forced_spectrum(msi_fits_file **out, const msi_imaging_run *r)
{
    return open_planes(out, r, r->options->clean.force_spectrum, NULL, r->options->clean.log_fit_terms - 1);
}

/* ---- All images that a run will read ---- */

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
    const int n_term = r->options->clean.n_taylor ? (int)r->options->clean.n_taylor : 1;
    for (int64_t t = 0; prefix && t < r->options->intervals_out; t++)
        for (int64_t c = 0; c < r->options->channels_out; c++)
            for (int i = 0; i < n_plane * n_term; i++)
                MSI_TRY(check_image(r, prefix, &(msi_output_id){t, c, i / n_term, kind, i % n_term}));
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
    if (c->force_spectrum) {
        MSI_TRY(open_forced_spectrum(&file, r));
        msi_fits_close(file);
    }
    if (!c->local_rms_image) return MSI_OK;
    MSI_TRY(open_image(&file, r, c->local_rms_image, NULL));
    msi_fits_close(file);
    return MSI_OK;
}

/* ---- Pixels ---- */

/* Refuse pixels that are not finite. In a model NaN becomes 0 beyond the horizon, and everywhere if all pixels are NaN,
 * as for a channel without samples. */
static int check_finite(const char *path, int is_model, const msi_image_geometry *g, msi_precision precision,
                        void *pixel)
{
    const int64_t n = msi_image_n_pixel(g);
    int64_t n_bad = 0, first = -1, n_nan = 0;
    for (int64_t i = 0; is_model && i < n; i++) n_nan += isnan(msi_image_value(pixel, precision, i));
    for (int64_t i = 0; i < n; i++) {
        const double value = msi_image_value(pixel, precision, i);
        const double l = (double)(i % g->nx - g->nx / 2) * g->cell_x_rad,
                     m = (double)(i / g->nx - g->ny / 2) * g->cell_y_rad;
        if (isfinite(value)) continue;
        if (is_model && isnan(value) && (n_nan == n || l * l + m * m > 1 - 1e-9)) {
            msi_image_put(pixel, precision, i, 0);
            continue;
        }
        if (!n_bad++) first = i;
    }
    if (!n_bad) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: %lld pixel%s not finite; the first is (%lld, %lld)", path, (long long)n_bad,
                         n_bad == 1 ? " is" : "s are", (long long)(first % g->nx) + 1, (long long)(first / g->nx) + 1);
}

static int read_pixels(const msi_imaging_run *r, const char *path, const msi_output_id *id, msi_precision precision,
                       void *pixel)
{
    const msi_image_geometry *g = &r->options->geometry;
    msi_fits_file *file;
    MSI_TRY(open_image(&file, r, path, id));
    int rc = msi_fits_read_plane(file, 0, 0, precision, pixel, g->nx);
    msi_fits_close(file);
    if (!rc) rc = check_finite(path, id && id->kind == MSI_FITS_MODEL, g, precision, pixel);
    if (rc || !id || id->kind != MSI_FITS_PSF) return rc;
    const double centre = msi_image_value(pixel, precision, g->ny / 2 * g->nx + g->nx / 2);
    if (fabs(centre - 1) > 0.1)
        return msi_error_set(MSI_EINPUT, "%s: its value at the centre is %g; a PSF must be 1 there", path, centre);
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
            return msi_error_set(MSI_EINPUT, "%s: pixel (%lld, %lld) is %g; noise must be positive everywhere", path,
                                 (long long)(i % r->options->geometry.nx) + 1,
                                 (long long)(i / r->options->geometry.nx) + 1, msi_image_value(pixel, precision, i));
    return MSI_OK;
}

int msi_imaging_reuse_forced(const msi_imaging_run *r, float *pixel)
{
    const int64_t nx = r->options->geometry.nx, n = msi_image_n_pixel(&r->options->geometry);
    msi_fits_file *file;
    MSI_TRY(open_forced_spectrum(&file, r));
    const msi_fits_header *h = msi_fits_header_get(file);
    int rc = MSI_OK;
    for (int64_t f = 0; !rc && f < h->n_freq; f++)
        for (int p = 0; !rc && p < h->n_pol; p++)
            rc = msi_fits_read_plane(file, f, p, MSI_FP32, pixel + (f * h->n_pol + p) * n, nx);
    msi_fits_close(file);
    return rc;
}

/* ---- Checkpoints ---- */

/* The path NAME[-tNNNN][-NNNN].clean of a checkpoint. It is not allocated, so that a run whose images are complete
 * cannot fail here. Names that are too long for a path were refused together with the names of the images. */
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

/* Hash a text including its terminating zero. NULL has another hash than any text. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    return text ? msi_hash(hash, text, (int64_t)strlen(text) + 1) : hash * 3 + 1;
}

/* Identify the run of a field: by hashes of the options that change the result, and of the weights of its samples.
 * Options that affect only speed, log or other files are not included. */
static msi_checkpoint_run identify_run(const msi_imaging_run *r, const msi_clean_field *f)
{
    const msi_options *o = r->options;
    const msi_clean_options *c = &o->clean;
    const msi_clean_mask *mask = &r->mask;
    const int n = f->spec.n_channel * f->spec.n_pol;
    const uint64_t mask_hash = mask->pixel ? msi_hash(0, mask->pixel, mask->n_plane * mask->nx * mask->ny) : 0;
    char text[1024];
    snprintf(
        text, sizeof text,
        "%lld %lld %.17g %.17g | %d %.17g %.17g %.17g %d | %lld %lld %d | %.17g %.17g | %lld %lld %.17g %.17g %.17g "
        "%.17g %.17g %d %d %.17g | %d %.17g %d | %d %d %d %lld %.17g %.17g %d | %d %d %d %lld %lld | %d",
        (long long)o->geometry.nx, (long long)o->geometry.ny, o->geometry.cell_x_rad, o->geometry.cell_y_rad,
        (int)o->weighting.mode, o->weighting.robust, o->weighting.taper.major_rad, o->weighting.grid_padding, o->n_pol,
        (long long)o->channels_out, (long long)o->intervals_out, (int)o->stokes_weight, o->accuracy, o->padding,
        (long long)c->niter, (long long)c->nmiter, c->gain, c->mgain, c->threshold_jy, c->auto_threshold, c->auto_mask,
        c->no_negative, c->stop_negative, c->border_percent, c->local_rms, c->local_rms_window,
        (int)c->local_rms_method, c->is_exact, c->multiscale, c->n_scale, (long long)c->max_scales, c->scale_bias,
        c->scale_gain, (int)c->shape, c->join_channels, c->join_pols, c->squared_join, (long long)c->fit_terms,
        (long long)c->log_fit_terms, c->continues);
    uint64_t options = msi_hash(0, text, (int64_t)strlen(text)), sets = 0;
    snprintf(text, sizeof text, "%d %.17g %.17g %.17g %.17g %.17g %.17g %.17g %d %d %.17g", c->multithresh,
             c->mask.sidelobe_threshold, c->mask.noise_threshold, c->mask.low_noise_threshold,
             c->mask.negative_threshold, c->mask.smooth_factor, c->mask.min_beam_frac, c->mask.cut_threshold,
             c->mask.grow_iterations, c->mask.do_grow_prune, c->mask.min_percent_change);
    options = msi_hash(options, text, (int64_t)strlen(text));
    const int64_t more[] = {c->save_sources,
                            f->n_cleaned,
                            c->save_first_residual,
                            o->subtract_model,
                            msi_clean_options_searched_planes(o),
                            c->scale_rule,
                            c->auto_mask_nmiter,
                            c->force_mask_rounds,
                            c->skip_final,
                            c->n_taylor,
                            c->previous_mask};
    options = msi_hash(options, more, (int64_t)sizeof more);
    const double tapers[] = {o->weighting.taper.minor_rad,
                             o->weighting.taper.pa_rad,
                             o->weighting.taper.inner_tukey,
                             o->weighting.taper.outer_tukey,
                             o->weighting.taper.edge_lambda,
                             o->weighting.taper.edge_tukey,
                             (double)o->weighting.taper.at_cells,
                             (double)o->weighting.vis,
                             o->most_w_percent,
                             (double)o->bandwidth_taper,
                             c->auto_mask_jy};
    options = msi_hash(options, tapers, (int64_t)sizeof tapers);
    const double centre[] = {o->shift_set ? r->ra_rad : 0, o->shift_set ? r->dec_rad : 0, o->shift_set};
    options = msi_hash(options, centre, (int64_t)sizeof centre);
    const double numbers[] = {c->small_scale_bias, c->local_rms_strength, c->correction_hz, c->reference_hz};
    options = msi_hash(options, numbers, (int64_t)sizeof numbers);
    options = msi_hash(options, c->correction_term, (int64_t)sizeof *c->correction_term * c->n_correction);
    options = msi_hash(options, &mask_hash, (int64_t)sizeof mask_hash);
    if (r->scale_mask)
        options = msi_hash(options, r->scale_mask, msi_image_n_pixel(&o->geometry) * (int64_t)sizeof *r->scale_mask);
    options = hash_text(options, c->reuse_psf);
    options = hash_text(options, o->facets.regions);
    options = hash_text(options, o->facets.automatic);
    options = hash_text(options, o->facets.files);
    options = hash_text(options, o->facets.tables);
    options = hash_text(options, o->facets.aterms);
    const double facets[] = {o->facets.feather_pixel, o->facets.is_linear, o->facets.scalar,        o->facets.diagonal,
                             o->facets.beam,          o->facets.update_s,  o->facets.aterm_update_s};
    options = msi_hash(options, facets, (int64_t)sizeof facets);
    options = hash_text(options, c->reuse_dirty);
    if (o->pb.grid || o->pb.mosaic || o->facets.beam || f->spec.sight)
        options = hash_text(options, msi_imaging_pb_word(o));
    options = hash_text(options, o->pb.is_differential ? "differential" : "");
    options = hash_text(options, o->pb.by_table ? "pointing" : "");
    if (o->pb.mosaic) options = hash_text(options, "mosaic");
    if (o->pb.grid) options = msi_hash(options, &o->pb.limit, (int64_t)sizeof o->pb.limit);
    options = hash_text(options, c->local_rms_image);
    if (c->force_spectrum) options = hash_text(options, c->force_spectrum);
    options = msi_hash(options, o->pol, (int64_t)sizeof *o->pol * o->n_pol);
    options = msi_hash(options, c->scale, (int64_t)sizeof *c->scale * c->n_scale);
    options = msi_hash(options, f->spec.freq_hz, (int64_t)sizeof *f->spec.freq_hz * f->spec.n_channel);
    for (int i = 0; i < n; i++) {
        /* Six digits only, because the order in which weights are summed depends on the number of ranks. */
        snprintf(text, sizeof text, "%.5e %lld", f->sum_weight[i], (long long)f->n_vis[i]);
        sets = msi_hash(sets, text, (int64_t)strlen(text));
    }
    return (msi_checkpoint_run){options, sets};
}

int msi_imaging_checkpoint_save(msi_imaging_run *run, msi_clean_field *field, int64_t first,
                                const msi_clean_history *history, double *at_s)
{
    const checkpoint_path path = name_checkpoint(run->options, run->interval, first);
    if (msi_wall_s() - *at_s < run->options->clean.checkpoint_s) return MSI_OK;
    const msi_checkpoint_run id = identify_run(run, field);
    const int rc = msi_checkpoint_save_field(field, history, path.text, &id);
    *at_s = msi_wall_s();
    if (!rc) run->has_checkpoint = 1;
    return rc;
}

int msi_imaging_checkpoint_load(msi_imaging_run *run, msi_clean_field *field, int64_t first, msi_clean_history *history,
                                int *found)
{
    const checkpoint_path path = name_checkpoint(run->options, run->interval, first);
    int rc = MSI_OK;
    *found = 0;
    if (run->options->clean.resume) {
        const msi_checkpoint_run id = identify_run(run, field);
        rc = msi_checkpoint_load_field(field, history, path.text, &id, found);
        if (!rc && *found) run->has_checkpoint = 1;
        if (!rc && *found) msi_log_info("resuming from the checkpoint %s", path.text);
        if (!rc && !*found) msi_log_info("there is no checkpoint %s; cleaning starts from the beginning", path.text);
    } else if (access(path.text, F_OK) == 0) {
        checkpoint_path kept;
        MSI_TRY(msi_checkpoint_keep(path.text, kept.text, sizeof kept.text));
        msi_log_warning(
            "%s, the checkpoint of a run that was stopped, is now %s; to continue from it, rename it to %s and "
            "repeat that run's command with -resume",
            path.text, kept.text, path.text);
    }
    return rc;
}

void msi_imaging_checkpoint_advise(const msi_imaging_run *run)
{
    const msi_options *o = run->options;
    const char *rest = strchr(o->command_line, ' ');
    if (!run->has_checkpoint || !rest) return;
    if (o->clean.resume)
        msi_log_info("the checkpoint is kept; the same command continues from it");
    else
        msi_log_info("the checkpoint is kept; to continue from it: %.*s -resume%s", (int)(rest - o->command_line),
                     o->command_line, rest);
}

/* Call a function with the path of every existing checkpoint of a run. */
static int for_each_checkpoint(const msi_options *o, int (*call)(const char *path))
{
    const int64_t each = o->clean.join_channels ? o->channels_out : 1;
    for (int64_t t = 0; t < o->intervals_out; t++)
        for (int64_t first = 0; first < o->channels_out; first += each) {
            const checkpoint_path path = name_checkpoint(o, t, first);
            if (access(path.text, F_OK) == 0) MSI_TRY(call(path.text));
        }
    return MSI_OK;
}

int msi_imaging_checkpoint_remove(const msi_options *options)
{
    return for_each_checkpoint(options, msi_checkpoint_remove);
}

int msi_imaging_checkpoint_check(const msi_options *options)
{
    return options->clean.resume ? MSI_OK : for_each_checkpoint(options, msi_checkpoint_check_place);
}
