/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/imaging/imaging_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/image.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "src/options/gridder_choice.h"
#include "src/run/open_sets.h"

/* More pixels per beam than this do not improve the image. */
static const double MOST_PIXELS = 20;

/* ---- The subject of the images ---- */

/* Write "75 arcsec", or "75 x 60 arcsec" if the two differ. */
static const char *format_pair(char text[MSI_FORMAT_SIZE], double x_rad, double y_rad)
{
    const msi_unit unit = msi_angle_unit(fmax(x_rad, y_rad));
    if (fabs(x_rad - y_rad) <= 1e-6 * x_rad) return msi_format_angle(text, x_rad);
    snprintf(text, MSI_FORMAT_SIZE, "%.4g x %.4g %s", x_rad / unit.size, y_rad / unit.size, unit.name);
    return text;
}

/* Return the angle between the edges of n pixels of a SIN projection, whose centre is the middle one. */
static double span_rad(int64_t n, double cell_rad)
{
    return 2 * asin(fmin(1, 0.5 * (double)n * cell_rad));
}

/* Return an upper bound of the longest baseline in wavelengths. UVW are not read yet, so it follows from the positions
 * of the antennas; 0 if those are unknown. */
static double longest_lambda(const msi_imaging_run *run)
{
    const double limit = fmax(run->options->selection.max_uv_lambda, run->options->weighting.taper.outer_lambda);
    const double limit_m = run->options->selection.max_uvw_m;
    const double antennas_m = msi_ms_reader_observation(run->reader)->longest_baseline_m;
    const double longest_m = limit_m > 0 && limit_m < antennas_m ? limit_m : antennas_m;
    const double longest = longest_m * msi_set_report_highest_hz(run->reader) / MSI_SPEED_OF_LIGHT;
    return limit > 0 && limit < longest ? limit : longest;
}

double msi_imaging_theoretic_beam(const msi_imaging_run *run)
{
    const double longest = longest_lambda(run);
    return longest > 1 ? 1 / longest : 0;
}

/* Write an angle as an argument of -scale, without a space. */
static const char *format_scale(char text[MSI_FORMAT_SIZE], double rad)
{
    snprintf(text, MSI_FORMAT_SIZE, "-scale %.3gasec", rad * 648000 / MSI_PI);
    return text;
}

static void report_resolution(const msi_imaging_run *run)
{
    const msi_image_geometry *g = &run->options->geometry;
    const double longest = longest_lambda(run);
    /* A baseline below one wavelength would have a beam of more than a radian. */
    if (!(longest > 1)) return;
    const double beam_rad = 1 / longest, n_pixel = beam_rad / fmax(g->cell_x_rad, g->cell_y_rad);
    const double longest_m = longest * MSI_SPEED_OF_LIGHT / msi_set_report_highest_hz(run->reader);
    char resolution[MSI_FORMAT_SIZE], pixel[MSI_FORMAT_SIZE], scale[MSI_FORMAT_SIZE];
    msi_format_angle(resolution, beam_rad);
    msi_set_report_line("resolution", "about %s, %.*f pixels (wavelength / longest baseline, %.4g %s)", resolution,
                        n_pixel < 10, n_pixel, longest_m < 1e4 ? longest_m : 1e-3 * longest_m,
                        longest_m < 1e4 ? "m" : "km");
    if (beam_rad > MOST_PIXELS * fmin(g->cell_x_rad, g->cell_y_rad))
        msi_log_advice("pixels of %s are needlessly fine for a resolution of %s; %s gives 4 pixels per beam",
                       format_pair(pixel, g->cell_x_rad, g->cell_y_rad), resolution, format_scale(scale, beam_rad / 4));
}

/* Warn if pixels are so coarse that samples are lost: the beam of the longest baseline is less than two pixels wide. */
static void warn_of_coarse_pixels(const msi_imaging_run *run, int64_t n_outside)
{
    const msi_image_geometry *g = &run->options->geometry;
    const double longest = longest_lambda(run);
    char pixel[MSI_FORMAT_SIZE], scale[MSI_FORMAT_SIZE] = "a smaller -scale";
    if (!n_outside) return;
    if (longest > 0 && 0.5 / longest < fmin(g->cell_x_rad, g->cell_y_rad)) format_scale(scale, 0.49 / longest);
    msi_log_warning("pixels of %s are too coarse: %lld sample%s outside the uv plane of the image; use %s to keep %s",
                    format_pair(pixel, g->cell_x_rad, g->cell_y_rad), (long long)n_outside,
                    n_outside == 1 ? " lies" : "s lie", scale, n_outside == 1 ? "it" : "all");
}

void msi_imaging_report_subject(const msi_imaging_run *run)
{
    const msi_options *o = run->options;
    const msi_image_geometry *g = &o->geometry;
    if (run->interval > 0) {
        msi_set_report_times(run->reader);
        return;
    }
    char data[160], pols[MSI_MAX_POL * 4] = "";
    for (int i = 0; i < o->n_pol; i++) {
        strcat(pols, i ? " " : "");
        strcat(pols, msi_pol_name(o->pol[i]));
    }
    snprintf(data, sizeof data, "%.48s%s%.48s, imaged in %s", msi_ms_reader_data_column(run->reader),
             o->subtract_model ? " minus " : "", o->subtract_model ? o->model_column : "", pols);
    msi_set_report(run->reader, o->ms_paths, o->n_ms, o->selection.data_column, data);
    char pixel[MSI_FORMAT_SIZE], field[MSI_FORMAT_SIZE], centre[MSI_FORMAT_SIZE], given[MSI_FORMAT_SIZE] = "";
    if (o->bare_scale) snprintf(given, sizeof given, " (%.4g deg)", g->cell_x_rad * 180 / MSI_PI);
    msi_set_report_line("centre", "%s %s", msi_format_direction(centre, run->ra_rad, run->dec_rad),
                        msi_ms_reader_observation(run->reader)->dir_frame);
    msi_set_report_line("image", "%lld x %lld pixels of %s%s, field of view %s", (long long)g->nx, (long long)g->ny,
                        format_pair(pixel, g->cell_x_rad, g->cell_y_rad), given,
                        format_pair(field, span_rad(g->nx, g->cell_x_rad), span_rad(g->ny, g->cell_y_rad)));
    report_resolution(run);
    if (msi_clean_options_writes_model(o))
        msi_set_report_line("writes",
                            "%s of the set%s is replaced after the images, because of %s; "
                            "-no-update-model-required keeps it",
                            o->model_column, o->n_ms == 1 ? "" : "s",
                            o->clean.update_model ? "-update-model-required" : "-mgain");
}

/* ---- The plan ---- */

void msi_imaging_report_memory(const msi_imaging_plan *p)
{
    const int64_t all = p->store_bytes + p->grid_bytes + p->image_bytes + msi_unplanned_bytes(p->gridder.backend);
    msi_log_info("memory for the samples that were read: visibilities %.3f GB, grids %.3f GB, images %.3f GB; in all "
                 "%.3f GB",
                 1e-9 * (double)p->store_bytes, 1e-9 * (double)p->grid_bytes, 1e-9 * (double)p->image_bytes,
                 1e-9 * (double)all);
}

void msi_imaging_report_plan(const msi_imaging_plan *p, const msi_options *o)
{
    const msi_gridder_report *r = &p->gridder;
    msi_gridder_choice_log(o, r);
    const int64_t unplanned = msi_unplanned_bytes(r->backend);
    const int64_t all = p->store_bytes + p->grid_bytes + p->image_bytes + unplanned;
    msi_log_info(
        "memory: visibilities %.3f GB, grids %.3f GB, images %.3f GB, libraries and buffers %.3f GB; in all %.3f GB, "
        "limit %.3f GB",
        1e-9 * (double)p->store_bytes, 1e-9 * (double)p->grid_bytes, 1e-9 * (double)p->image_bytes,
        1e-9 * (double)unplanned, 1e-9 * (double)all, 1e-9 * (double)msi_memory_limit());
    if (r->backend == MSI_BACKEND_CUDA)
        msi_log_info("memory of the GPU: up to %.3f GB", 1e-9 * (double)p->device_bytes);
    if (p->psfs_bytes)
        msi_log_warning(
            "-dd-psf-grid %lld %lld: PSFs that vary over the image need %.3f GB of memory%s, more than there is; "
            "one PSF is used for the whole image",
            (long long)o->clean.psf_grid[0], (long long)o->clean.psf_grid[1], 1e-9 * (double)p->psfs_bytes,
            r->backend == MSI_BACKEND_CUDA ? " or device memory" : "");
    if (p->spilled_bytes)
        msi_log_info("disk: %.3f GB of visibilities that exceed the memory limit, in a temporary file in %s",
                     1e-9 * (double)p->spilled_bytes, o->temp_dir ? o->temp_dir : "the directory of the images");
    if (p->paged_bytes)
        msi_log_info("disk: %.3f GB of images%s in temporary files, because of the memory limit, in %s",
                     1e-9 * (double)p->paged_bytes, p->pages_work ? "" : " that are not in use",
                     o->temp_dir ? o->temp_dir : "the directory of the images");
    msi_log_info("disk: output files %.3f GB", 1e-9 * (double)p->output_bytes);
}

/* ---- Samples ---- */

/* Reasons for which samples are dropped, as written after their counts. */
static const char *const reason[MSI_N_REASON] = {"autocorrelation",
                                                 "FLAG_ROW",
                                                 "UVW not finite",
                                                 "outside the uv limits",
                                                 "FLAG",
                                                 "weight not positive or not finite",
                                                 "data not finite",
                                                 "data beyond 1e30",
                                                 "outside the uv grid"};

const char *msi_imaging_reason(int i)
{
    return reason[i];
}

typedef struct reasons {
    char text[640];
} reasons;

/* Write the counts that are not 0, each with its reason. */
static reasons write_reasons(const int64_t count[MSI_N_REASON])
{
    reasons r = {""};
    for (int i = 0; i < MSI_N_REASON; i++) {
        const size_t length = strlen(r.text);
        if (count[i])
            snprintf(r.text + length, sizeof r.text - length, "%s%lld %s", length ? ", " : "", (long long)count[i],
                     reason[i]);
    }
    return r;
}

/* Return the number of major cycles that reduce a peak by this factor. */
static double cycles_of(const msi_clean_options *c, double factor)
{
    const double n = c->mgain < 1 ? ceil(log(factor) / -log1p(-c->mgain) - 1e-9) : 1;
    return c->nmiter && n > (double)c->nmiter ? (double)c->nmiter : n;
}

/* Estimate the time of cleaning, for two peaks, because the peak is unknown before imaging. A residual takes the time
 * of a prediction and an image. */
static void estimate_cycles(const msi_imaging_run *run)
{
    const msi_clean_options *c = &run->options->clean;
    const double cycle_s = 2 * run->plan.image_s;
    const double few = cycles_of(c, 1e2), many = cycles_of(c, 1e4);
    char least[MSI_FORMAT_SIZE], most[MSI_FORMAT_SIZE];
    msi_log_info("cycles: %.0f if the peak is 100 times the threshold, about %s; %.0f if it is 10000 times, about %s",
                 few, msi_format_estimate(least, few * cycle_s), many, msi_format_estimate(most, many * cycle_s));
    msi_log_info("  (-mgain %g: each cycle lowers the peak to %.2g of its value; -nmiter: at most %lld cycles)",
                 c->mgain, 1 - c->mgain, (long long)c->nmiter);
}

void msi_imaging_report_dry_run(const msi_imaging_run *run, const msi_imaging_scan *scan)
{
    const msi_ms_dropped *d = msi_ms_reader_dropped(run->reader);
    const int64_t count[MSI_N_REASON] = {d->autocorrelation, d->flag_row, d->uvw_not_finite, d->uv_limits, 0, 0, 0, 0,
                                         scan->n_outside};
    const reasons dropped = write_reasons(count);
    msi_log_info("rows: %lld kept; samples dropped: %s (a dry run does not read flags and weights)",
                 (long long)scan->n_row, *dropped.text ? dropped.text : "none");
    msi_log_info("samples: up to %lld; |w| %.1f to %.1f wavelengths", (long long)scan->n_sample, scan->w_min_lambda,
                 scan->w_max_lambda);
    warn_of_coarse_pixels(run, scan->n_outside);
    msi_log_info("time: about %.0f s to read, %.0f s to image", ceil(run->plan.read_s), ceil(run->plan.image_s));
    if (run->options->clean.niter) estimate_cycles(run);
}

/* Count the dropped samples of an interval by reason. */
static void count_dropped(const msi_imaging_run *run, int64_t count[MSI_N_REASON])
{
    const msi_sample_tally *s = &run->tally;
    const msi_ms_dropped *d = &run->dropped;
    const int64_t all[MSI_N_REASON] = {
        d->autocorrelation, d->flag_row,        d->uvw_not_finite, d->uv_limits,  s->flagged - d->uv_flagged,
        s->weight,          s->data_not_finite, s->data_too_large, run->n_outside};
    memcpy(count, all, sizeof all);
}

static reasons reasons_of(const msi_imaging_run *run)
{
    int64_t count[MSI_N_REASON];
    count_dropped(run, count);
    return write_reasons(count);
}

int msi_imaging_report_no_samples(const msi_imaging_run *run)
{
    const reasons dropped = reasons_of(run);
    const msi_ms_selection *s = &run->options->selection;
    char limits[80] = "";
    if (run->dropped.uv_limits)
        snprintf(limits, sizeof limits, "; change%s%s%s%s", s->min_uv_lambda > 0 ? " -minuv-l" : "",
                 s->max_uv_lambda > 0 ? " -maxuv-l" : "", s->min_uvw_m > 0 ? " -minuvw-m" : "",
                 s->max_uvw_m > 0 ? " -maxuvw-m" : "");
    return msi_error_set(MSI_EINPUT, "nothing to image: every selected sample was dropped%s%s%s",
                         !*dropped.text                    ? ""
                         : run->options->intervals_out > 1 ? "; in the last interval: "
                                                           : ": ",
                         dropped.text, limits);
}

void msi_imaging_report_loaded(msi_imaging_run *run)
{
    int64_t count[MSI_N_REASON];
    count_dropped(run, count);
    const reasons dropped = write_reasons(count);
    for (int i = 0; i < MSI_N_REASON; i++) run->n_dropped[i] += count[i];
    run->n_used += run->n_loaded;
    msi_log_info("samples: %lld kept; dropped: %s", (long long)run->n_loaded, *dropped.text ? dropped.text : "none");
    warn_of_coarse_pixels(run, run->n_outside);
}

/* Add the values of a gridder to those of the other gridders of its channel. */
static void add_report(msi_gridder_report *sum, const msi_gridder_report *of)
{
    for (int p = 0; p < MSI_GRIDDER_MAX_PLANES; p++) sum->sum_vis_weight[p] += of->sum_vis_weight[p];
    sum->n_sample += of->n_sample;
    sum->n_outside += of->n_outside;
    sum->store_bytes += of->store_bytes;
    sum->spilled_bytes += of->spilled_bytes;
    sum->longest_lambda = fmax(of->longest_lambda, sum->longest_lambda);
    sum->w_max_lambda = fmax(of->w_max_lambda, sum->w_max_lambda);
    sum->sort_s += of->sort_s;
    sum->grid_s += of->grid_s;
    sum->transform_s += of->transform_s;
    sum->correct_s += of->correct_s;
    sum->transfer_s += of->transfer_s;
}

void msi_imaging_report_of_channel(const msi_imaging_run *r, int64_t channel, msi_gridder_report *report)
{
    const int n = msi_imaging_n_part(r);
    msi_gridder_report of;
    msi_gridder_report_get(r->gridder[channel * n], report);
    for (int i = 1; i < n; i++) {
        msi_gridder_report_get(r->gridder[channel * n + i], &of);
        add_report(report, &of);
    }
    if (!r->facets) return;
    of = *report;
    *report = r->facets->channel[channel].report;
    report->n_sample = of.n_sample;
    report->n_outside = of.n_outside;
    report->store_bytes = of.store_bytes;
    report->spilled_bytes = of.spilled_bytes;
    report->longest_lambda = of.longest_lambda;
    report->w_max_lambda = of.w_max_lambda;
    memcpy(report->sum_vis_weight, of.sum_vis_weight, sizeof report->sum_vis_weight);
}

/* Log the factor by which weights were scaled, of the first channel that has one. */
static void report_scale(const msi_imaging_run *run)
{
    for (int64_t c = 0; c < run->options->channels_out; c++) {
        msi_gridder_report report;
        int exponent;
        msi_gridder_report_get(run->gridder[c * msi_imaging_n_part(run)], &report);
        if (report.weight_scale == 1) continue;
        frexp(report.weight_scale, &exponent);
        msi_log_info("weights are multiplied by 2^%d for gridding, because visibilities times weights, up to %.1e, "
                     "are outside the range of fp32; headers have the sums of unscaled weights",
                     exponent - 1, run->tally.largest_product);
        return;
    }
}

static void report_tapers(const msi_options *o)
{
    const msi_uv_taper *t = &o->weighting.taper;
    char major[MSI_FORMAT_SIZE], minor[MSI_FORMAT_SIZE];
    if (t->major_rad > 0 && t->minor_rad > 0)
        msi_log_info("taper: Gaussian of %s x %s, position angle %.1f deg", msi_format_angle(major, t->major_rad),
                     msi_format_angle(minor, t->minor_rad), t->pa_rad * 180 / MSI_PI);
    else if (t->major_rad > 0)
        msi_log_info("taper: Gaussian of %s, 1/2 at %.4g wavelengths", msi_format_angle(major, t->major_rad),
                     msi_uv_taper_fwhm(t->major_rad));
    if (t->inner_tukey > 0)
        msi_log_info("taper: from 0 at %g to 1 at %g wavelengths", t->inner_lambda, t->inner_lambda + t->inner_tukey);
    if (t->outer_tukey > 0)
        msi_log_info("taper: from 1 at %g to 0 at %g wavelengths", t->outer_lambda - t->outer_tukey, t->outer_lambda);
    if (t->edge_lambda > 0 || t->edge_tukey > 0)
        msi_log_info("taper: 0 within %g wavelengths of the edge of the uv plane, 1 from %g", t->edge_lambda,
                     t->edge_lambda + t->edge_tukey);
    if (o->most_w_percent > 0 && o->most_w_percent < 100)
        msi_log_info("samples with |w| above %g %% of the largest are left out", o->most_w_percent);
}

void msi_imaging_report_weights(const msi_imaging_run *run)
{
    static const char *const vis[] = {"", ", of squared weights", ", of weights 1"};
    const msi_options *o = run->options;
    const int is_natural = o->weighting.mode == MSI_WEIGHT_NATURAL;
    const int is_default = !o->weight_given && o->like == MSI_PEER_NONE;
    msi_log_info("weights: %s%s%s%s", run->weighting,
                 is_default ? " (WSClean's default is uniform: -weight uniform, or -like wsclean)" : "",
                 vis[o->weighting.vis],
                 !is_natural && o->mf_weighting && o->channels_out > 1 ? ", densities over all output channels" : "");
    report_tapers(o);
    report_scale(run);
    if (is_natural) return;
    const msi_density_grid grid = msi_density_grid_of(&o->geometry, &o->weighting);
    msi_log_info("weight grid: %lld x %lld cells of %.6g x %.6g wavelengths", (long long)grid.nu, (long long)grid.nv,
                 1 / (o->geometry.cell_x_rad * (double)grid.nu), 1 / (o->geometry.cell_y_rad * (double)grid.nv));
    if (o->weighting.rank_level >= 1)
        msi_log_info("weight filter: at most %g times the mean over %lld x %lld cells", o->weighting.rank_level,
                     (long long)o->weighting.rank_size, (long long)o->weighting.rank_size);
}

void msi_imaging_report_empty(const msi_imaging_run *r, int64_t channel, int n, const int64_t *n_vis)
{
    char subject[48] = "";
    int n_empty = 0;
    for (int p = 0; p < n; p++) n_empty += !n_vis[p];
    if (r->options->channels_out > 1) snprintf(subject, sizeof subject, "output channel %lld", (long long)channel);
    if (n_empty == n) {
        if (*subject) msi_log_warning("%s has no samples; its images are NaN", subject);
        return;
    }
    for (int p = 0; p < n; p++)
        if (!n_vis[p])
            msi_log_warning("%s%spolarisation %s has no samples; its images are NaN", subject, *subject ? ": " : "",
                            msi_pol_name(r->planes[p].pol));
}

void msi_imaging_report_channel(int64_t channel, int64_t n_sample, const msi_gridder_report *r)
{
    if (!r->nu) {
        if (n_sample)
            msi_log_detail("channel %lld: %lld sample%s, gridded by other ranks", (long long)channel,
                           (long long)n_sample, msi_plural(n_sample));
        return;
    }
    msi_log_detail(
        "channel %lld: %lld sample%s; used: %s (-strategy %s), window of %d cells, uv grid of %lld x %lld "
        "cells, %lld w-plane%s, %.4g wavelengths apart; times: sorting samples %.2f s, gridding %.2f s, FFTs "
        "and w-screens %.2f s, correction for the window %.2f s, transfer to and from the GPU %.2f s",
        (long long)channel, (long long)n_sample, msi_plural(n_sample), r->method, r->strategy, r->width,
        (long long)r->nu, (long long)r->nv, (long long)r->n_w, msi_plural(r->n_w), r->w_step, r->sort_s, r->grid_s,
        r->transform_s, r->correct_s, r->transfer_s);
}

void msi_imaging_report_beam(const msi_imaging_run *run, int64_t channel, const msi_beam *beam)
{
    const msi_unit unit = msi_angle_unit(beam->major_rad);
    char label[32] = "";
    /* Labels have the same width, so that the lines of all channels form a table. */
    if (channel == MSI_OUTPUT_MFS)
        snprintf(label, sizeof label, "  all channels ");
    else if (run->options->channels_out > 1)
        snprintf(label, sizeof label, "  channel %4lld ", (long long)channel);
    msi_log_info("beam:%s %.4g x %.4g %s, position angle %.1f deg", label, beam->major_rad / unit.size,
                 beam->minor_rad / unit.size, unit.name, beam->pa_rad * 180 / MSI_PI);
}

void msi_imaging_report_times(msi_imaging_run *run, const msi_imaging_times *t)
{
    const double spent[MSI_N_STAGE] = {t->opened_s - t->start_s, t->loaded_s - t->opened_s, t->weighed_s - t->loaded_s,
                                       t->imaged_s - t->weighed_s};
    for (int i = 0; i < MSI_N_STAGE; i++) run->spent_s[i] += spent[i];
    msi_log_info("time: open %.2f s, read %.2f s, weights %.2f s, images and files %.2f s", t->opened_s - t->start_s,
                 t->loaded_s - t->opened_s, t->weighed_s - t->loaded_s, t->imaged_s - t->weighed_s);
}
