/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The deconvolution of an interval. clean_fields cleans its fields, one after the other or several at a time. For each
 * field, clean_field does these steps:
 *
 *   1. Make PSFs, fit their beams, make the cleaners, set masks.
 *   2. Make the dirty images.
 *   3. Load models of a checkpoint or of an earlier run, and make their residuals.
 *   4. Run major cycles (clean_cycle.c), and save checkpoints between them.
 *   5. Write files (imaging_clean_files.c).
 *
 * Only the first rank does this. The other ranks handle its requests (clean_samples.c).
 */
#include "src/imaging/imaging_clean.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/image.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/ordered_parallel.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/clean/clean_cycle.h"
#include "src/clean/clean_samples.h"
#include "src/imaging/imaging_run.h"

/* ---- PSFs, dirty images and models at the start of a field ---- */

/* Planes of a field that are read from the images of an earlier run. */
typedef struct reused_planes {
    const char *prefix;
    msi_fits_kind kind;
    msi_planes *planes;
} reused_planes;

/* Read a plane from an image of an earlier run. A channel without samples has no image; its plane becomes NaN. */
static int read_plane(msi_cleaning *k, const reused_planes *from, int channel, int pol)
{
    msi_imaging_run *r = k->run;
    const msi_output_id id = {r->interval, msi_cleaning_channel(k, channel), pol, from->kind,
                              msi_cleaning_term(k, channel)};
    msi_image image;
    MSI_TRY(msi_image_alloc(&image, &r->options->geometry, 1, k->shape.precision));
    int rc = MSI_OK;
    if (from->kind == MSI_FITS_MODEL || k->field.n_vis[channel * k->field.spec.n_pol + pol])
        rc = msi_imaging_reuse_read(r, from->prefix, &id, image.precision, image.pixel);
    else
        msi_image_fill_nan(&image, 0);
    if (!rc) rc = msi_planes_upload(from->planes, msi_clean_field_plane(&k->field, channel, pol), 1, image.pixel);
    msi_image_free(&image);
    return rc;
}

static int read_planes(msi_cleaning *k, const reused_planes *from)
{
    for (int c = 0; c < k->field.spec.n_channel; c++)
        for (int p = 0; p < k->field.spec.n_pol; p++) MSI_TRY(read_plane(k, from, c, p));
    return MSI_OK;
}

/* Return the largest sidelobe of a PSF: the negative of its lowest pixel, or its largest excess over the fitted
 * beam. */
static double sidelobe_level(const msi_image *psf, const msi_beam *beam)
{
    static const double FAR = 100; /* exp(-FAR) is below the rounding of any sidelobe */
    const msi_image_geometry *g = &psf->geometry;
    const double s = sin(beam->pa_rad), c = cos(beam->pa_rad);
    double level = 0;
    if (!msi_beam_known(beam)) return 0;
#pragma omp parallel for schedule(static) reduction(max : level)
    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++) {
            const double value = msi_image_value(psf->pixel, psf->precision, y * g->nx + x);
            const double east = (double)(g->nx / 2 - x) * g->cell_x_rad,
                         north = (double)(y - g->ny / 2) * g->cell_y_rad;
            const double along = (north * c + east * s) / beam->major_rad,
                         across = (east * c - north * s) / beam->minor_rad;
            /* exp is slow for tiny results. These do not change `value`. */
            const double power = 4 * log(2) * (along * along + across * across);
            const double above = power < FAR ? value - exp(-power) : value;
            level = fmax(level, fmax(above, -value));
        }
    return level;
}

/* Return the largest absolute value of a PSF near the edges of the image. */
static double edge_level(const msi_image *psf)
{
    static const double MIDDLE = 0.45; /* half width of the excluded middle part, as a fraction of the image's width */
    const msi_image_geometry *g = &psf->geometry;
    double level = 0;
#pragma omp parallel for schedule(static) reduction(max : level)
    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++) {
            const double u = fabs((double)(x - g->nx / 2)) / (double)g->nx,
                         v = fabs((double)(y - g->ny / 2)) / (double)g->ny;
            if (u > MIDDLE || v > MIDDLE)
                level = fmax(level, fabs(msi_image_value(psf->pixel, psf->precision, y * g->nx + x)));
        }
    return level;
}

/* The PSFs of the channels of a field. */
typedef struct psf_planes {
    msi_cleaning *k;
    msi_planes *all;
    double *edge_level; /* [channels] */
} psf_planes;

/* Grid the PSF of a channel. Its gridder makes its plan with the device memory that earlier gridders have left, so only
 * one PSF is gridded on a device at a time. The other work on channels may run at the same time. */
static int grid_psf(const psf_planes *psfs, int channel, msi_planes *psf)
{
    const msi_cleaning *k = psfs->k;
    const int step = MSI_ORDERED_STEPS - 1, is_shared = k->run->gpus.n_slot == 1 && k->field.spec.n_channel > 1;
    if (is_shared) MSI_TRY(msi_ordered_step_begin(step));
    MSI_TRY(msi_clean_samples_psf(k->samples, k->first + channel, psf));
    if (is_shared) msi_ordered_step_end(step);
    return MSI_OK;
}

/* Make the PSF of a channel, or read that of an earlier run. Find its beam, and write it. */
static int make_psf(const psf_planes *psfs, int channel)
{
    msi_cleaning *k = psfs->k;
    msi_imaging_run *r = k->run;
    const char *reused = k->field.n_vis[channel * k->field.spec.n_pol] ? r->options->clean.reuse_psf : NULL;
    msi_image image = {0};
    msi_planes *psf;
    MSI_TRY(msi_planes_view(&psf, psfs->all, channel, 1));
    int rc = msi_image_alloc_unset(&image, &r->options->geometry, 1, k->shape.precision);
    const msi_output_id id = {r->interval, k->first + channel, 0, MSI_FITS_PSF, 0};
    if (!rc && reused) rc = msi_imaging_reuse_read(r, reused, &id, image.precision, image.pixel);
    if (!rc) rc = reused ? msi_planes_upload(psf, 0, 1, image.pixel) : grid_psf(psfs, channel, psf);
    if (!rc && !reused) rc = msi_planes_fetch(psf, 0, 1, image.pixel);
    msi_planes_free(psf);
    if (!rc) {
        image.sum_weight[0] = k->field.sum_weight[channel * k->field.spec.n_pol];
        image.n_vis[0] = k->field.n_vis[channel * k->field.spec.n_pol];
        rc = msi_imaging_files_beam(r, k->first + channel, &k->beam[channel], &image);
        if (channel == 0) k->sidelobe = sidelobe_level(&image, &k->beam[0]);
        psfs->edge_level[channel] = edge_level(&image);
    }
    if (!rc) rc = msi_cleaning_add_to_sum(k, MSI_FITS_PSF, &image);
    const msi_imaging_product product = {k->first + channel, MSI_FITS_PSF, k->beam[channel],
                                         k->weight[channel], NULL,         0};
    if (!rc) rc = msi_imaging_files_put(r, &product, &image);
    msi_image_free(&image);
    return rc;
}

/* If several channels are made at the same time, the log lines of each are held until its turn. If there is only one
 * channel, lines are not held here, but its field may be one of several whose lines are held. */
static int make_psf_in_turn(void *psfs, int64_t channel)
{
    const int is_joined = ((const psf_planes *)psfs)->k->field.spec.n_channel > 1;
    if (is_joined) msi_log_hold(msi_ordered_is_next);
    const int rc = make_psf(psfs, (int)channel);
    if (rc && is_joined) msi_log_release();
    return rc;
}

static int finish_psf(void *psfs, int64_t channel)
{
    const psf_planes *p = psfs;
    if (p->k->field.spec.n_channel > 1) msi_log_release();
    p->k->field.edge_level = fmax(p->k->field.edge_level, p->edge_level[channel]);
    return MSI_OK;
}

/* Make the PSFs of all channels. */
static int make_channels(msi_cleaning *k, msi_planes *all)
{
    psf_planes psfs = {.k = k, .all = all};
    MSI_TRY(msi_alloc(&psfs.edge_level, k->field.spec.n_channel, sizeof *psfs.edge_level, "PSFs"));
    const msi_progress_share half = msi_progress_enter(0, 1, 2);
    /* Files are read by one thread. */
    const int n_slot = k->run->gpus.n_slot, most = k->run->options->clean.reuse_psf ? 1 : n_slot > 1 ? n_slot : INT_MAX;
    const int rc = msi_cleaning_for_channels(k, most, make_psf_in_turn, finish_psf, &psfs);
    msi_progress_leave(half);
    msi_free(psfs.edge_level);
    return rc;
}

/* Return the width of the beam in pixels, for scales and windows: the wavelength over the longest baseline of the
 * samples, or the width of the taper if that is larger. If the baseline is unknown, use the first channel that has a
 * beam. */
static double find_beam_pixel(const msi_cleaning *k)
{
    const msi_options *o = k->run->options;
    const msi_image_geometry *g = &o->geometry;
    const msi_uv_taper *t = &o->weighting.taper;
    const double taper_rad = t->minor_rad > 0 ? sqrt(t->major_rad * t->minor_rad) : t->major_rad;
    const double cell_rad = sqrt(g->cell_x_rad * g->cell_y_rad), stored = k->samples->longest_lambda;
    const double longest = t->outer_lambda > 0 ? fmin(stored, t->outer_lambda) : stored;
    if (longest > 1) return fmax(1, fmax(1 / longest, taper_rad) / cell_rad);
    for (int c = 0; c < k->field.spec.n_channel; c++)
        if (msi_beam_known(&k->beam[c])) return sqrt(k->beam[c].major_rad * k->beam[c].minor_rad) / cell_rad;
    return 3;
}

/* Make and write the PSFs of all powers of Taylor terms. The PSF of power 0 gives the beam. */
static int make_powers(msi_cleaning *k, msi_planes *psf)
{
    msi_imaging_run *r = k->run;
    const int n = msi_planes_shape_of(psf)->n;
    int rc = msi_clean_samples_psf(k->samples, k->first, psf);
    for (int i = 0; !rc && i < n; i++) {
        msi_image image = {0};
        rc = msi_image_alloc_unset(&image, &r->options->geometry, 1, k->shape.precision);
        if (!rc) rc = msi_planes_fetch(psf, i, 1, image.pixel);
        if (!rc) {
            image.sum_weight[0] = k->field.sum_weight[0];
            image.n_vis[0] = k->field.n_vis[0];
        }
        if (!rc && i == 0) {
            rc = msi_imaging_files_beam(r, k->first, &k->beam[0], &image);
            k->sidelobe = sidelobe_level(&image, &k->beam[0]);
            k->field.edge_level = edge_level(&image);
        }
        const msi_imaging_product product = {k->first, MSI_FITS_PSF, k->beam[0], k->weight[0], NULL, i};
        if (!rc) rc = msi_imaging_files_put(r, &product, &image);
        msi_image_free(&image);
    }
    for (int c = 1; c < k->field.spec.n_channel; c++) k->beam[c] = k->beam[0];
    return rc;
}

/* Make or read the PSF of each channel. Then make the cleaners of the field and set their masks. */
static int make_psfs(msi_cleaning *k)
{
    const int n = k->field.spec.n_channel, n_term = k->samples->n_term;
    msi_planes *psf;
    k->field.edge_level = 0;
    MSI_TRY(msi_clean_samples_planes(k->samples, k->first, n_term ? 2 * n_term - 1 : n, &psf));
    int rc = n_term ? make_powers(k, psf) : make_channels(k, psf);
    if (!rc) rc = msi_clean_field_cleaners(&k->field, psf, find_beam_pixel(k));
    msi_planes_free(psf);
    if (!rc) rc = msi_clean_field_cell_psfs(&k->field);
    const msi_channel_grid *grid = &k->run->grid;
    const int64_t plane = grid->descends ? grid->n - 1 - k->first : k->first;
    const uint8_t *mask = msi_clean_mask_plane(&k->run->mask, k->run->mask.n_plane > 1 ? plane : 0);
    for (int i = 0; !rc && mask && i < k->field.n_group; i++)
        if (k->field.group[i].cleaner) rc = msi_cleaner_mask(k->field.group[i].cleaner, mask);
    for (int i = 0; !rc && k->run->scale_mask && i < k->field.n_group; i++)
        if (k->field.group[i].cleaner) rc = msi_cleaner_scale_mask(k->field.group[i].cleaner, k->run->scale_mask);
    if (!rc && k->run->options->clean.multithresh && msi_beam_known(&k->beam[0]))
        rc = msi_clean_field_masks(&k->field, &k->beam[0], k->sidelobe);
    return rc;
}

/* Make the dirty images, or read those of an earlier run, and write them. */
static int make_dirty(msi_cleaning *k)
{
    const reused_planes reused = {k->run->options->clean.reuse_dirty, MSI_FITS_DIRTY, k->field.residual};
    const msi_progress_share all = msi_progress_enter(1, 2, 2);
    MSI_TRY(reused.prefix ? read_planes(k, &reused) : msi_clean_field_subtract(&k->field, 0));
    if (reused.prefix) MSI_TRY(msi_clean_field_average(&k->field, 0));
    msi_progress_leave(all);
    if (!k->run->options->clean.no_dirty) MSI_TRY(msi_cleaning_put(k, MSI_FITS_DIRTY, k->field.residual));
    for (int i = 0; i < k->field.n_group; i++) {
        msi_clean_group *g = &k->field.group[i];
        g->dirty_peak = k->dirty_peak_jy;
        if (g->cleaner) MSI_TRY(msi_cleaner_noise(g->cleaner, g->residual, &g->dirty_noise));
    }
    return MSI_OK;
}

/* Load the models of a checkpoint or of an earlier run, if there are any, and make their residuals.
 * Returned: *resumed  1: they come from a checkpoint */
static int begin_models(msi_cleaning *k, int *resumed)
{
    MSI_TRY(msi_imaging_checkpoint_load(k->run, &k->field, k->first, &k->history, resumed));
    if (*resumed) MSI_TRY(msi_cleaning_put_first_residual(k));
    if (!*resumed && !k->run->options->clean.continues) return MSI_OK;
    const reused_planes models = {k->run->options->name, MSI_FITS_MODEL, k->field.model};
    if (!*resumed) MSI_TRY(read_planes(k, &models));
    if (!*resumed) MSI_TRY(msi_clean_field_average(&k->field, 1));
    for (int i = 0; !*resumed && i < k->field.n_group; i++)
        if (k->field.group[i].sources)
            MSI_TRY(msi_clean_sources_model(k->field.group[i].sources, k->field.group[i].model));
    return msi_clean_field_subtract(&k->field, 1);
}

/* Let the mask of each group begin with the components of the previous channel. */
static int begin_masks(msi_cleaning *k)
{
    const int64_t n_pixel = msi_image_n_pixel(&k->run->options->geometry);
    for (int i = 0; k->band->previous && i < k->field.n_group; i++)
        if (k->field.group[i].cleaner)
            MSI_TRY(msi_cleaner_found_set(k->field.group[i].cleaner, k->band->previous + i * n_pixel));
    return MSI_OK;
}

/* Keep the components of a group for the mask of the next channel. Pixels that are only in the mask of the previous
 * channel are left out: the model is 0 there. */
static int keep_mask(const msi_clean_group *g, msi_image *model, uint16_t *mask)
{
    const int64_t n_pixel = msi_image_n_pixel(&model->geometry);
    MSI_TRY(msi_cleaner_found(g->cleaner, mask));
    MSI_TRY(msi_planes_fetch(g->model, 0, model->n_plane, model->pixel));
    for (int64_t i = 0; i < n_pixel; i++) {
        int is_there = 0;
        for (int p = 0; p < model->n_plane; p++)
            is_there |= msi_image_value(model->pixel, model->precision, p * n_pixel + i) != 0;
        if (!is_there) mask[i] = 0;
    }
    return MSI_OK;
}

/* Keep the masks of a channel for the next one. A channel without samples leaves those of the one before it. */
static int keep_masks(msi_cleaning *k)
{
    const msi_clean_field *f = &k->field;
    const msi_image_geometry *g = &k->run->options->geometry;
    const int64_t n_pixel = msi_image_n_pixel(g);
    msi_image model;
    if (!k->run->options->clean.previous_mask) return MSI_OK;
    if (!k->band->previous)
        MSI_TRY(msi_alloc(&k->band->previous, f->n_group * n_pixel, sizeof *k->band->previous,
                          "masks of the previous channel"));
    MSI_TRY(msi_image_alloc_unset(&model, g, f->spec.n_pol / f->n_group, k->shape.precision));
    int rc = MSI_OK;
    for (int i = 0; !rc && i < f->n_group; i++)
        if (f->group[i].cleaner) rc = keep_mask(&f->group[i], &model, k->band->previous + i * n_pixel);
    msi_image_free(&model);
    return rc;
}

/* ---- A field ---- */

/* Store the weights of a channel. Warn if it has no samples. */
static void begin_channel(msi_cleaning *k, int channel)
{
    const msi_clean_field *f = &k->field;
    const int64_t first = msi_cleaning_channel(k, channel) * f->spec.n_pol;
    if (msi_cleaning_term(k, channel) == 0)
        msi_imaging_report_empty(k->run, k->first + channel, f->spec.n_pol, f->n_vis + channel * f->spec.n_pol);
    for (int p = 0; p < f->spec.n_pol; p++) {
        k->weight[channel][p] = (msi_imaging_weight){.largest = k->samples->largest_weight[first + p],
                                                     .vis_sum = k->samples->sum_vis_weight[first + p]};
    }
}

/* Return how many channels of a field may be processed at the same time: several if they are joined, on GPUs, with one
 * rank. */
static int n_parallel(const msi_imaging_run *r, int n_channel)
{
    if (r->plan.gridder.backend != MSI_BACKEND_CUDA || r->ranks->size > 1 || r->facets || r->beam || r->mosaic)
        return 1;
    return n_channel == r->options->channels_out ? r->gpus.n_slot : 1;
}

/* Find the properties on which the spectra of models depend: the primary beam, and forced spectral indices. */
static int find_sight(msi_cleaning *k)
{
    msi_imaging_run *r = k->run;
    const msi_options *o = r->options;
    k->sight = (msi_clean_sight){.n_channel = (int)o->channels_out,
                                 .n_pol = r->n_plane,
                                 .n_pixel = msi_image_n_pixel(&o->geometry),
                                 .n_forced = (int)o->clean.log_fit_terms - 1};
    MSI_TRY(msi_imaging_pb_sight(r, &k->sight));
    if (k->sight.respond && !r->interval) msi_log_info("fitted spectra: of true flux, corrected for the primary beam");
    if (!o->clean.force_spectrum) return MSI_OK;
    if (!k->forced) {
        MSI_TRY(msi_alloc_paged(&k->forced, k->sight.n_forced * k->sight.n_pixel, sizeof *k->forced,
                                "forced spectral indices"));
        MSI_TRY(msi_imaging_reuse_forced(r, k->forced));
    }
    k->sight.forced = k->forced;
    return MSI_OK;
}

static int make_field(msi_cleaning *k, int64_t first, int n_channel)
{
    msi_imaging_run *r = k->run;
    k->first = first;
    k->has_first_residual = 0;
    k->dirty_peak_jy = 0;
    const int n_term = k->samples->n_term;
    for (int c = 0; c < n_channel; c++)
        k->freq_hz[c] =
            n_term ? k->samples->reference_hz : 0.5 * (r->channels.low_hz[first + c] + r->channels.high_hz[first + c]);
    if (n_term) MSI_TRY(msi_clean_samples_taylor(k->samples, &k->taylor));
    msi_clean_field_spec spec = msi_imaging_field_spec(r->options, r->planes, r->n_plane);
    if (r->plan.psfs_bytes) spec.grid_x = spec.grid_y = 1;
    spec.n_thread = k->n_thread;
    spec.samples = k->samples;
    spec.first = first;
    spec.n_channel = n_channel;
    spec.freq_hz = k->freq_hz;
    spec.devices = r->gpus.device;
    spec.n_device = r->plan.gridder.backend == MSI_BACKEND_CUDA ? msi_gpu_share_n_cleaning(&r->gpus) : 0;
    spec.n_parallel = n_term ? 1 : n_parallel(r, n_channel);
    spec.taylor = n_term ? &k->taylor : NULL;
    MSI_TRY(find_sight(k));
    if (k->sight.respond || k->sight.forced) spec.sight = &k->sight;
    MSI_TRY(msi_clean_field_make(&k->field, &spec));
    k->shape = *msi_planes_shape_of(k->field.residual);
    if (!n_term && k->field.n_cleaned < n_channel)
        msi_log_info("%d channels are cleaned as %d; fitted spectra give the models of all channels", n_channel,
                     k->field.n_cleaned);
    for (int c = 0; c < n_channel; c++) begin_channel(k, c);
    return MSI_OK;
}

/* Round a positive number down to one digit. */
static double one_digit(double value)
{
    const double unit = pow(10, floor(log10(value)));
    return floor(value / unit) * unit;
}

/* Warn if errors due to -accuracy exceed a tenth of the residual. These errors are present in the whole image. */
static void warn_of_accuracy(const msi_cleaning *k)
{
    for (int i = 0; i < k->field.n_group; i++) {
        const msi_clean_group *g = &k->field.group[i];
        const double first = k->dirty_peak_jy > 0 ? k->dirty_peak_jy : g->first_peak;
        const double reached = first > 0 ? fmax(g->threshold, fabs(g->peak)) / first : 1;
        if (!g->cleaner || 0.1 * reached >= k->field.accuracy) continue;
        msi_log_warning(
            "the residual is %.1e of the first peak, but its errors are up to %.1e of that peak, more than a tenth of "
            "the residual; use -accuracy %.0e",
            reached, k->field.accuracy, fmax(1e-12, one_digit(0.1 * reached)));
        return;
    }
}

/* Read the user's image of the local noise. */
static int read_rms(const msi_cleaning *k, msi_image *rms)
{
    MSI_TRY(msi_image_alloc(rms, &k->run->options->geometry, 1, k->shape.precision));
    const int rc = msi_imaging_reuse_rms(k->run, rms->precision, rms->pixel);
    if (rc) msi_image_free(rms);
    return rc;
}

/* Combine the results of cleaning one channel with those of all channels, for headers. */
static void add_cards(msi_fits_clean *sum, const msi_fits_clean *c)
{
    if (!sum->is_known) {
        *sum = *c;
        return;
    }
    sum->n_minor += c->n_minor;
    if (c->n_major > sum->n_major) sum->n_major = c->n_major;
    if (strcmp(sum->stop, c->stop) != 0) snprintf(sum->stop, sizeof sum->stop, "see the channels");
    sum->final_threshold_jy = fmax(sum->final_threshold_jy, c->final_threshold_jy);
    sum->noise_jy = NAN;
}

static int put_first_residual(void *cleaning)
{
    return msi_cleaning_put_first_residual(cleaning);
}

static int save_checkpoint(void *cleaning)
{
    msi_cleaning *k = cleaning;
    return msi_imaging_checkpoint_save(k->run, &k->field, k->first, &k->history, &k->checkpoint_at_s);
}

/* Run the major cycles of the field. Given: label  at the beginning of log lines */
static int run_cycles(msi_cleaning *k, const char *label, int resumed)
{
    const msi_imaging_run *r = k->run;
    char image[32] = "";
    int n = 0;
    if (r->options->intervals_out > 1) n = snprintf(image, sizeof image, "t%04d", (int)r->interval);
    if (*label) snprintf(image + n, sizeof image - (size_t)n, "%s%04d", n ? "-" : "", (int)k->first);
    msi_image rms = {0};
    if (r->options->clean.local_rms_image) MSI_TRY(read_rms(k, &rms));
    const msi_clean_cycle_spec cycle = {.label = label,
                                        .image = image,
                                        .beam_pixel = find_beam_pixel(k),
                                        .rms = rms.pixel,
                                        .history = &k->history,
                                        .resumed = resumed,
                                        .first = resumed ? NULL : put_first_residual,
                                        .cycle = save_checkpoint,
                                        .user = k};
    msi_progress_begin("cleaning");
    const int rc = msi_clean_cycles_run(&k->field, &cycle);
    msi_image_free(&rms);
    if (!rc) msi_progress_end();
    return rc;
}

static int clean_field(msi_cleaning *k)
{
    char label[32] = "";
    int resumed = 0;
    double at[5] = {msi_wall_s()};
    if (msi_cleaning_has_mfs(k) && k->field.spec.n_channel == 1)
        snprintf(label, sizeof label, "channel %d", (int)k->first);
    msi_progress_begin("imaging");
    MSI_TRY(make_psfs(k));
    at[1] = msi_wall_s();
    MSI_TRY(make_dirty(k));
    MSI_TRY(begin_masks(k));
    MSI_TRY(begin_models(k, &resumed));
    msi_progress_end();
    at[2] = msi_wall_s();
    MSI_TRY(run_cycles(k, label, resumed));
    at[3] = msi_wall_s();
    msi_clean_report_end(label, &k->field);
    MSI_TRY(keep_masks(k));
    warn_of_accuracy(k);
    msi_clean_samples_drop_plans(k->samples, k->first,
                                 k->samples->n_term ? k->samples->n_channel : k->field.spec.n_channel);
    for (int p = 0; p < k->field.spec.n_pol; p++)
        k->clean[p] = msi_cleaning_cards(k, msi_clean_field_group(&k->field, p));
    MSI_TRY(msi_cleaning_put_cleaned(k));
    at[4] = msi_wall_s();
    msi_log_detail("time of cleaning: PSFs and beams %.2f s, dirty images %.2f s, cycles %.2f s, restored images and "
                   "files %.2f s",
                   at[1] - at[0], at[2] - at[1], at[3] - at[2], at[4] - at[3]);
    return MSI_OK;
}

/* Log and free the gridders of the field, and free the field. Returns: rc if it is a failure, or a new failure */
static int end_field(msi_cleaning *k, int rc)
{
    msi_imaging_run *r = k->run;
    for (int c = 0; !rc && c < (k->samples->n_term ? 1 : k->field.spec.n_channel); c++) {
        msi_gridder_report report;
        msi_imaging_report_of_channel(r, k->first + c, &report);
        msi_imaging_report_channel(k->first + c, report.n_sample, &report);
        rc = msi_clean_samples_release(k->samples, k->first + c);
    }
    msi_clean_field_free(&k->field);
    return rc;
}

/* ---- An interval ---- */

static int make_cleaning(msi_cleaning **out, msi_imaging_run *r, int n_channel)
{
    msi_cleaning *k;
    MSI_TRY(msi_alloc(&k, 1, sizeof *k, "cleaning"));
    *out = k;
    k->run = r;
    MSI_TRY(msi_alloc(&k->freq_hz, n_channel, sizeof *k->freq_hz, "channels"));
    MSI_TRY(msi_alloc(&k->beam, n_channel, sizeof *k->beam, "channels"));
    MSI_TRY(msi_alloc(&k->weight, n_channel, sizeof *k->weight, "channels"));
    MSI_TRY(msi_alloc(&k->peak_jy, n_channel, sizeof *k->peak_jy, "channels"));
    return msi_alloc(&k->flux_jy, n_channel, sizeof *k->flux_jy, "channels");
}

static void free_cleaning(msi_cleaning *k)
{
    if (!k) return;
    msi_clean_history_free(&k->history);
    msi_free(k->freq_hz);
    msi_free(k->beam);
    msi_free(k->weight);
    msi_free(k->peak_jy);
    msi_free(k->flux_jy);
    msi_free(k->forced);
    msi_free(k);
}

/* Refuse a channel that lacks samples of a polarisation which cleaning needs: the first one, whose weights make the
 * PSF, and all that are searched jointly. Other polarisations without samples give images of NaN. */
static int check_polarisations(const msi_imaging_run *r, const msi_clean_samples *samples)
{
    const msi_options *o = r->options;
    const int n = r->n_plane, n_needed = o->clean.join_pols ? n : 1;
    char channel[48] = "";
    for (int64_t c = 0; c < o->channels_out; c++) {
        const int64_t *n_vis = samples->n_vis + c * n;
        int64_t sum = 0;
        for (int p = 0; p < n; p++) sum += n_vis[p];
        if (o->channels_out > 1) snprintf(channel, sizeof channel, "output channel %lld: ", (long long)c);
        for (int p = 0; sum && p < n_needed; p++)
            if (!n_vis[p])
                return msi_error_set(MSI_EINPUT,
                                     "%spolarisation %s has no samples, but others have, and %s; leave it out of -pol",
                                     channel, msi_pol_name(r->planes[p].pol),
                                     o->clean.join_pols ? "all are searched together"
                                                        : "the PSF is made of the first polarisation of -pol");
    }
    return MSI_OK;
}

/* Fields that are cleaned at the same time, each on one GPU or by some of the threads. */
typedef struct field_slots {
    msi_imaging_run *run;
    msi_cleaning_band band;
    int each; /* number of channels of a field */
    int n_image;
    int n;
    msi_cleaning **slot; /* [n] */
} field_slots;

static int clean_in_slot(void *slots, int64_t i)
{
    field_slots *s = slots;
    msi_cleaning *k = s->slot[i % s->n];
    if (s->n > 1) msi_log_hold(msi_ordered_is_next);
    int rc = make_field(k, i * s->each, s->n_image);
    if (!rc) rc = clean_field(k);
    rc = end_field(k, rc);
    if (rc) msi_log_release();
    return rc;
}

/* Add the results of a field to those of all channels, in the order of fields. */
static int finish_field(void *slots, int64_t i)
{
    field_slots *s = slots;
    msi_cleaning *k = s->slot[i % s->n];
    msi_log_release();
    for (int c = 0; c < (k->samples->n_term ? 1 : s->n_image); c++)
        for (int p = 0; p < s->run->n_plane; p++) msi_imaging_weight_add(&s->band.weight[p], &k->weight[c][p]);
    for (int p = 0; p < s->run->n_plane; p++) add_cards(&s->band.clean[p], &k->clean[p]);
    for (int64_t n = 0; n < k->history.n; n++) MSI_TRY(msi_clean_history_add(&s->run->history, &k->history.step[n]));
    msi_clean_history_free(&k->history);
    s->run->checkpoint_at_s = fmax(s->run->checkpoint_at_s, k->checkpoint_at_s);
    return MSI_OK;
}

static int make_slots(field_slots *s, msi_clean_samples *samples)
{
    MSI_TRY(msi_alloc(&s->slot, s->n, sizeof *s->slot, "cleaning"));
    for (int i = 0; i < s->n; i++) {
        MSI_TRY(make_cleaning(&s->slot[i], s->run, s->n_image));
        s->slot[i]->samples = samples;
        s->slot[i]->band = &s->band;
        s->slot[i]->checkpoint_at_s = s->run->checkpoint_at_s;
        s->slot[i]->n_thread = s->run->options->n_threads / s->n > 1 ? s->run->options->n_threads / s->n : 1;
    }
    return MSI_OK;
}

static int run_fields(field_slots *s)
{
    const msi_ordered_parallel turns = {.n_item = s->run->options->channels_out / s->each,
                                        .n_thread = s->n,
                                        .work = clean_in_slot,
                                        .finish = finish_field,
                                        .of = s};
    if (s->n > 1) {
        msi_progress_begin("cleaning");
        MSI_TRY(msi_ordered_parallel_run(&turns));
        msi_progress_end();
        return MSI_OK;
    }
    for (int64_t i = 0; i < turns.n_item; i++) {
        MSI_TRY(clean_in_slot(s, i));
        MSI_TRY(finish_field(s, i));
    }
    return MSI_OK;
}

/* Clean all fields of the interval, and write their files except those of -save-weights. Only the first rank calls
 * this. */
static int clean_fields(msi_imaging_run *r, msi_clean_samples *samples, int n_at_once)
{
    const int each = r->options->clean.join_channels ? (int)r->options->channels_out : 1;
    /* n_image is the number of images of one polarisation of a field */
    field_slots s = {.run = r, .n = n_at_once, .each = each, .n_image = samples->n_term ? samples->n_term : each};
    int rc = check_polarisations(r, samples);
    if (!rc) rc = make_slots(&s, samples);
    if (!rc) rc = run_fields(&s);
    if (!rc && msi_cleaning_has_mfs(s.slot[0])) rc = msi_cleaning_put_sums(s.slot[0]);
    if (!rc) rc = msi_imaging_files_horizon(r);
    for (int i = 0; s.slot && i < s.n; i++) free_cleaning(s.slot[i]);
    for (int i = 0; i < MSI_CLEANING_KINDS; i++) msi_image_free(&s.band.sum[i]);
    msi_free(s.band.previous);
    msi_free(s.slot);
    return rc;
}

/* ---- Ranks: samples are on all ranks, the first rank cleans ---- */

/* Count the samples of each channel, as those of the plane with the most samples. */
static void count_gridded(msi_imaging_run *r, const msi_clean_samples *s)
{
    for (int64_t c = 0; c < s->n_channel; c++) {
        int64_t most = 0;
        for (int p = 0; p < s->n_plane; p++) {
            const int64_t n = s->n_vis[c * s->n_plane + p];
            most = n > most ? n : most;
        }
        r->n_gridded += most;
    }
}

/* Write the weights. This needs all gridders, so call it before the first one is freed. */
static int put_weights(msi_imaging_run *r, const msi_clean_samples *s)
{
    msi_imaging_sums all = {0};
    if (!r->options->save_weights && !r->options->report) return MSI_OK;
    for (int64_t c = 0; c < s->n_channel; c++) {
        const int64_t i = c * s->n_plane;
        const msi_imaging_sums of_channel = {
            s->sum_weight[i], {.largest = s->largest_weight[i], .vis_sum = s->sum_vis_weight[i]}, s->n_vis[i]};
        if (msi_outputs_has_weights(r->options, c)) MSI_TRY(msi_imaging_files_weights(r, c, &of_channel));
        all.sum_weight += of_channel.sum_weight;
        msi_imaging_weight_add(&all.weight, &of_channel.weight);
        all.n_vis += of_channel.n_vis;
    }
    return s->n_channel > 1 ? msi_imaging_files_weights(r, MSI_OUTPUT_MFS, &all) : MSI_OK;
}

static int clean_or_serve(msi_imaging_run *r, msi_clean_samples *s, int n_at_once)
{
    MSI_TRY(put_weights(r, s));
    if (r->ranks->rank) return msi_clean_samples_serve(s);
    MSI_TRY(clean_fields(r, s, n_at_once));
    return msi_clean_samples_done(s);
}

int msi_imaging_clean_run(msi_imaging_run *r, int n_at_once)
{
    msi_clean_samples samples = {.ranks = r->ranks,
                                 .gridder = r->gridder,
                                 .n_part = msi_imaging_n_part(r),
                                 .mosaic = r->mosaic ? r->mosaic->channel : NULL,
                                 .of_whole = r->mosaic ? &r->mosaic->spec : NULL,
                                 .whole = r->mosaic ? r->mosaic->whole : NULL,
                                 .facets = r->facets ? r->facets->channel : NULL,
                                 .beam = r->beam ? r->beam->channel : NULL,
                                 .n_channel = r->options->channels_out,
                                 .n_plane = r->n_plane,
                                 .n_term = (int)r->options->clean.n_taylor,
                                 .reference_hz = msi_imaging_reference(r),
                                 .geometry = r->options->geometry};
    int rc = msi_clean_samples_count(&samples);
    if (!rc) rc = msi_imaging_pb_channels(r);
    if (!rc) rc = msi_ranks_agree(r->ranks, msi_imaging_mosaic_terms(r, &samples));
    if (!rc) count_gridded(r, &samples);
    if (!rc) rc = clean_or_serve(r, &samples, n_at_once);
    msi_clean_samples_free(&samples);
    return rc;
}

/* ---- The end of the run ---- */

int msi_imaging_clean_record(msi_imaging_run *r)
{
    msi_publish *publish;
    int i = msi_outputs_text(r->outputs, MSI_OUTPUT_HISTORY, &publish);
    if (i >= 0) MSI_TRY(msi_clean_history_write(publish, i, &r->history));
    i = msi_outputs_text(r->outputs, MSI_OUTPUT_CURVES, &publish);
    if (i < 0) return MSI_OK;
    MSI_TRY(msi_clean_history_draw(publish, i, &r->history, r->observation.object));
    return msi_outputs_keep_picture(r->outputs, i);
}
