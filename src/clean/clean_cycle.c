/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Each cycle (msi_clean_cycles_run):
 *  1. minor iterations of every group that has not stopped, down to its threshold or by the factor of -mgain;
 *  2. a better accuracy, if the residuals need it;
 *  3. residuals of the new models;
 *  4. for each group: noise, threshold and peak of the exact residual; a group that is worse than before goes back to
 *     its previous model, and its residuals are made again;
 *  5. the record of convergence, the log, the caller's checkpoint.
 */
#include "src/clean/clean_cycle.h"

#include <math.h>
#include <stdio.h>

#include "core/image.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"

/* ---- Judge a group: it continues, goes back, or stops ---- */

/* A peak that doubles in a cycle shows that the components were wrong. So does a slightly higher peak together with a
 * higher noise. A slightly higher peak alone does not: with several scales it can be the peak of another scale. */
static const double MUCH_WORSE = 2, WORSE = 1.1, NOISIER = 1.02;

/* The peak of an exact residual may lie slightly above the threshold that minor iterations reached: another cycle would
 * change it by less than the noise does. By the rules of tclean it may be a hundredth above it (CASA's SIIterBot.cc).
 * ROUNDING allows for rounding to single precision. */
static const double NEAR = 1.1, NEAR_TCLEAN = 1.01, ROUNDING = 1 + 1e-6;

/* A cycle is idle if it leaves more than this part of the lowest peak. Cleaning stops after MOST_IDLE idle cycles in a
 * row, or MOST_BACK undone cycles in a row. */
static const double IDLE = 0.99;
enum { MOST_IDLE = 3, MOST_BACK = 4 };

/* Return 1 if cleaning ends at the group's threshold, 0 if the threshold comes from -auto-mask. */
static int clean_is_final(const msi_clean_group *g, const msi_clean_options *o)
{
    return g->in_mask || !msi_clean_options_makes_mask(o);
}

static int go_back(msi_clean_group *g)
{
    g->mgain *= 0.5;
    if (++g->n_back == MOST_BACK) g->stop = "diverged";
    return 1;
}

/* Return 1 if the last cycle, if there was one, made the residual worse. */
static int is_worse(const msi_clean_group *g, double peak)
{
    if (!(g->peak_before > 0)) return 0;
    if (!isfinite(peak)) return 1;
    if (fabs(peak) <= NEAR * WORSE * g->threshold) return 0;
    return fabs(peak) > MUCH_WORSE * g->peak_before ||
           (fabs(peak) > WORSE * g->peak_before && g->noise > NOISIER * g->noise_before);
}

static void judge_progress(msi_clean_group *g)
{
    const double peak = fabs(g->peak);
    g->n_idle = g->best_peak > 0 && peak > IDLE * g->best_peak ? g->n_idle + 1 : 0;
    if (!(g->best_peak > 0) || peak < g->best_peak) g->best_peak = peak;
    if (g->n_idle == MOST_IDLE) g->stop = "stalled";
}

/* Return 1 if a mask or border excludes pixels. Without one only a zero residual has no peak. */
static int is_masked(const msi_clean_group *g, const msi_clean_options *o)
{
    const char *option;
    return msi_clean_options_mask(o, &option) || o->has_horizon || o->multithresh || o->border_percent > 0 ||
           g->in_mask;
}

static void enter_mask(msi_clean_group *g)
{
    g->in_mask = 1;
    g->mask_major = g->n_major;
    g->best_peak = 0;
    g->n_idle = 0;
}

/* Return 1 if the next cycle must search outside the mask of -auto-mask too. */
static int is_mask_forced(const msi_clean_group *g, const msi_clean_options *o)
{
    return msi_clean_options_makes_mask(o) && !g->in_mask && g->n_major < o->force_mask_rounds;
}

/* Return 1 if -nmiter or -auto-mask-nmiter allows no more cycle. */
static int is_out_of_cycles(const msi_clean_group *g, const msi_clean_options *o)
{
    return (o->nmiter && g->n_major >= o->nmiter) || (g->in_mask && g->n_major - g->mask_major >= o->auto_mask_nmiter);
}

/* If -nmiter allows only few more cycles and minor iterations have already reached the threshold of -auto-mask, the
 * remaining cycles are better used within the mask. */
static int is_short_of_cycles(const msi_clean_group *g, const msi_clean_options *o)
{
    return g->at_threshold && g->n_major < o->nmiter && 2 * g->n_major >= o->nmiter && !is_mask_forced(g, o);
}

/* Return the factor by which the final peak may exceed the threshold. After -niter iterations only rounding is allowed,
 * so that a higher peak stops with the reason "iterations". A forced round cleans every peak above the threshold. */
static double nearness(const msi_clean_group *g, const msi_clean_options *o)
{
    if (!g->n_major || is_mask_forced(g, o)) return 1;
    if (g->n_minor >= o->niter) return ROUNDING;
    return o->scale_rule == MSI_CLEAN_BY_POWER ? NEAR_TCLEAN : NEAR;
}

int msi_clean_judge(msi_clean_group *g, const msi_clean_options *o, double peak)
{
    if (is_worse(g, peak)) return go_back(g);
    g->n_back = 0;
    g->peak = peak;
    if (!(fabs(peak) > 0)) {
        g->stop = is_masked(g, o) ? "mask empty" : "nothing left";
    } else if (fabs(peak) <= g->threshold * nearness(g, o)) {
        if (clean_is_final(g, o))
            g->stop = "threshold";
        else
            enter_mask(g);
    } else if (g->n_minor >= o->niter) {
        g->stop = "iterations";
    } else if (is_out_of_cycles(g, o)) {
        g->stop = "major cycles";
    } else if (o->stop_negative && peak < 0) {
        g->stop = "negative peak";
    } else if (!clean_is_final(g, o) && is_short_of_cycles(g, o)) {
        enter_mask(g);
    } else {
        judge_progress(g);
    }
    return 0;
}

/* Judge a group after minor iterations, before its residual is made. Returns: 1 if the cycle must be undone, else 0 */
static int clean_judge_minor(msi_clean_group *g)
{
    const msi_clean_report *r = &g->report;
    if (r->stop == MSI_CLEAN_STOP_DIVERGED) return go_back(g);
    if (r->stop == MSI_CLEAN_STOP_NEGATIVE || (!r->n_iteration && r->stop != MSI_CLEAN_STOP_THRESHOLD))
        g->stop = msi_clean_stop_word(r->stop);
    return 0;
}

const char *msi_clean_last_cycle(const msi_clean_group *g, const msi_clean_options *o)
{
    if (g->stop) return g->stop;
    if (g->n_minor >= o->niter) return "iterations";
    if (is_out_of_cycles(g, o)) return "major cycles";
    if (!g->at_threshold) return NULL;
    return clean_is_final(g, o) ? "threshold" : o->auto_mask_nmiter == 0 ? "major cycles" : NULL;
}

/* ---- Estimate the number of cycles left ---- */

/* Return the natural logarithm of the factor by which the peak falls in a cycle; 0 if it does not fall. */
static double decay_of(const msi_clean_group *g)
{
    const double peak = fabs(g->peak);
    if (!(g->peak_before > 0)) return -log1p(-fmin(g->mgain, 0.999));
    return peak < g->peak_before ? log(g->peak_before / peak) : 0;
}

double msi_clean_cycles_left(const msi_clean_group *g, const msi_clean_options *o, double threshold)
{
    const double peak = fabs(g->peak), decay = decay_of(g);
    double left = INFINITY;
    if (g->stop || !(peak > 0)) return 0;
    if (threshold > 0 && decay > 0) left = log(peak / threshold) / decay;
    if (g->n_major && g->report.n_iteration > 0)
        left = fmin(left, (double)(o->niter - g->n_minor) / (double)g->report.n_iteration);
    if (o->nmiter) left = fmin(left, (double)(o->nmiter - g->n_major));
    if (g->in_mask) left = fmin(left, (double)(o->auto_mask_nmiter - (g->n_major - g->mask_major)));
    /* 1e-6 allows for rounding: a peak at the threshold takes no further cycle. */
    return fmax(1, ceil(left - 1e-6));
}

/* ---- The log ---- */

enum { TEXT = 64 };

/* Choose the unit of a brightness or flux. */
static msi_unit jy_unit(double jy)
{
    static const msi_unit unit[] = {{"Jy", 1}, {"mJy", 1e-3}, {"uJy", 1e-6}, {"nJy", 1e-9}};
    int i = 0;
    /* 0.99995 rounds to 1 with four digits: print 1 Jy, not 1000 mJy. */
    while (i < 3 && fabs(jy) < 0.99995 * unit[i].size) i++;
    return unit[i];
}

static const char *format_jy(char text[TEXT], double jy)
{
    const msi_unit unit = jy_unit(jy);
    snprintf(text, TEXT, "%.4g %s", jy / unit.size, jy == 0 ? "Jy" : unit.name);
    return text;
}

/* Name a group of one polarisation: "Q", or "XYi" for the imaginary part of a cross-hand. */
static const char *pol_name(const msi_clean_field *f, const msi_clean_group *g)
{
    static const char *const imaginary[] = {
        [MSI_POL_RL] = "RLi", [MSI_POL_LR] = "LRi", [MSI_POL_XY] = "XYi", [MSI_POL_YX] = "YXi"};
    const msi_plane *plane = &f->spec.planes[g->pol];
    return plane->imaginary ? imaginary[plane->pol] : msi_pol_name(plane->pol);
}

/* Write "channel 3 Q: ". The channel or polarisation is left out if there is only one. */
static const char *name_group(char text[TEXT], const char *label, const msi_clean_field *f, const msi_clean_group *g)
{
    const char *pol = f->n_group > 1 ? pol_name(f, g) : "";
    snprintf(text, TEXT, "%s%s%s%s", label, *label && *pol ? " " : "", pol, *label || *pol ? ": " : "");
    return text;
}

/* With several scales, peaks are compared and reported after multiplication with the scale bias. */
static const char *peak_word(const msi_clean_group *g)
{
    int n_scale;
    msi_cleaner_scales(g->cleaner, &n_scale);
    return n_scale > 1 ? "scale-biased peak" : "peak";
}

/* Log each group that made a cycle, in three lines that fit a terminal. Given: label  the start of the first line, such
 * as "channel 3" */
static void report_cycle(const char *label, msi_clean_field *f, double minor_s, double major_s)
{
    char name[TEXT], peak[TEXT], least[TEXT], noise[TEXT], flux[TEXT];
    for (int i = 0; i < f->n_group; i++) {
        msi_clean_group *g = &f->group[i];
        if (g->n_logged == g->n_major) continue;
        g->n_logged = g->n_major;
        msi_log_info("%scycle %d%s: %s %s/beam, cleaned to %s/beam", name_group(name, label, f, g), g->n_major,
                     g->in_mask ? ", masked" : "", peak_word(g), format_jy(peak, g->report.peak_before),
                     format_jy(least, g->report.peak_after != 0 ? g->report.peak_after : g->report.threshold));
        msi_log_info("  noise before the cycle %s/beam; %lld component%s added", format_jy(noise, g->noise),
                     (long long)g->report.n_iteration, msi_plural(g->report.n_iteration));
        msi_log_info("  flux of the model %s; minor iterations %.1f s, major cycle %.1f s", format_jy(flux, g->flux_jy),
                     minor_s, major_s);
    }
}

/* Warn that the last cycle of a group is undone. */
static void report_undone(const char *label, const msi_clean_field *f, const msi_clean_group *g)
{
    char name[TEXT], before[TEXT];
    msi_log_warning("%scycle %d made the residual worse (its peak was %s/beam) and is undone; the next cycle cleans "
                    "%.2g of the peak",
                    name_group(name, label, f, g), g->n_major, format_jy(before, g->peak_before), g->mgain);
}

/* Log the estimated number of cycles left and their time, if that number is known and above one. */
static void report_left(const char *label, double n_cycle, double cycle_s)
{
    char time[MSI_FORMAT_SIZE];
    if (!(n_cycle > 1) || isinf(n_cycle)) return;
    msi_log_info("%s%sabout %.0f more cycles, %s, if the peak keeps falling at this rate", label, *label ? ": " : "",
                 n_cycle, msi_format_estimate(time, n_cycle * cycle_s));
}

void msi_clean_report_end(const char *label, const msi_clean_field *f)
{
    char name[TEXT], peak[TEXT], noise[TEXT], flux[TEXT], threshold[TEXT];
    for (int i = 0; i < f->n_group; i++) {
        const msi_clean_group *g = &f->group[i];
        if (!g->cleaner) continue;
        msi_log_info("%scleaned: ended by '%s' after %d cycle%s and %lld component%s", name_group(name, label, f, g),
                     g->stop, g->n_major, msi_plural(g->n_major), (long long)g->n_minor, msi_plural(g->n_minor));
        msi_log_info("  flux of the model %s; noise of the residual %s/beam", format_jy(flux, g->flux_jy),
                     format_jy(noise, g->noise));
        msi_log_info("  %s of the residual %s/beam, threshold %s/beam", peak_word(g), format_jy(peak, g->peak),
                     format_jy(threshold, g->threshold));
    }
}

/* ---- The cycles ---- */

/* The state of the cycles of a field. */
typedef struct cycles {
    msi_clean_field *field;
    const msi_clean_cycle_spec *spec;
    const msi_clean_options *options;
    double minor_s, major_s; /* times of this cycle */
    double rms_least;        /* the lowest local noise of the user's image */
} cycles;

static int n_planes(const msi_clean_group *g)
{
    return msi_planes_shape_of(g->model)->n;
}

/* ---- Before a cycle ---- */

/* Local noise is used until -auto-mask is reached. Within the mask it would hide remaining emission. */
static int is_local(const cycles *k, const msi_clean_group *g)
{
    return (k->options->local_rms || k->spec->rms) && k->options->local_rms_strength > 0 && !g->in_mask;
}

static int measure_noise(const cycles *k, msi_clean_group *g)
{
    const msi_clean_options *o = k->options;
    MSI_TRY(msi_cleaner_noise(g->cleaner, g->residual, &g->noise));
    if (!is_local(k, g)) return MSI_OK;
    if (k->spec->rms) {
        g->noise = k->rms_least;
        return MSI_OK;
    }
    const msi_clean_local_rms how = {.window_pixel = o->local_rms_window * k->spec->beam_pixel,
                                     .with_min = o->local_rms_method == MSI_LOCAL_RMS_WITH_MIN,
                                     .strength = o->local_rms_strength};
    double least;
    MSI_TRY(msi_cleaner_local_rms(g->cleaner, g->residual, &how, &least));
    if (least > 0) g->noise = least;
    return MSI_OK;
}

static void set_threshold(const cycles *k, msi_clean_group *g)
{
    const msi_clean_options *o = k->options;
    const int is_final = clean_is_final(g, o);
    const double sigmas = is_final ? o->auto_threshold : o->auto_mask;
    g->threshold = fmax(o->threshold_jy, msi_cleaner_sigmas(g->cleaner, sigmas) * g->noise);
    if (!is_final) g->threshold = fmax(g->threshold, o->auto_mask_jy);
}

/* Return the threshold at which cleaning ends, for the present noise. */
static double final_threshold(const cycles *k, const msi_clean_group *g)
{
    const msi_clean_options *o = k->options;
    return fmax(o->threshold_jy, msi_cleaner_sigmas(g->cleaner, o->auto_threshold) * g->noise);
}

/*
 * Return the fraction of the peak that a cycle may remove.
 *
 * A PSF as large as the image reaches half an image from a component. Farther out the sidelobes of the component remain
 * until the next major cycle. With several scales, the bias of wide scales can raise these sidelobes above the rest of
 * the component. If they are cleaned as emission, many cycles are needed to correct this. So if the threshold is far
 * below the first peak, a cycle with several scales ends above these sidelobes.
 */
static double cycle_depth(const cycles *k, const msi_clean_group *g)
{
    static const double BIASED = 1.75; /* the factor of the bias on sidelobes, with a margin */
    static const double FAR_BELOW = 1e-4;
    if (!k->options->multiscale || final_threshold(k, g) > FAR_BELOW * g->first_peak) return g->mgain;
    return fmin(g->mgain, 1 - fmin(0.9, BIASED * k->field->edge_level));
}

static msi_clean_limits limits_of(const cycles *k, const msi_clean_group *g)
{
    return (msi_clean_limits){.threshold = g->threshold,
                              .mgain = cycle_depth(k, g),
                              .n_iteration = k->options->niter - g->n_minor,
                              .only_found = g->in_mask,
                              .local_rms = is_local(k, g)};
}

/* Find the peak at which the next minor iteration would place a component, by a call with no iterations. */
static int find_peak(const cycles *k, msi_clean_group *g, double *peak)
{
    msi_clean_limits none = limits_of(k, g);
    msi_clean_report report;
    none.n_iteration = 0;
    MSI_TRY(msi_cleaner_minor(g->cleaner, g->residual, g->model, &none, &report));
    *peak = report.peak_before;
    return MSI_OK;
}

/* Give the user's image of local noise to the cleaners: the rms of an image in a window of one pixel is the image
 * itself. Before the first cycle g->before is free for it. */
static int set_local_noise(cycles *k)
{
    const msi_clean_local_rms how = {.window_pixel = 1, .box = 1, .strength = k->options->local_rms_strength};
    for (int i = 0; k->spec->rms && how.strength > 0 && i < k->field->n_group; i++) {
        msi_clean_group *g = &k->field->group[i];
        if (!g->cleaner) continue;
        for (int p = 0; p < n_planes(g); p++) MSI_TRY(msi_planes_upload(g->before, p, 1, k->spec->rms));
        MSI_TRY(msi_cleaner_local_rms(g->cleaner, g->before, &how, &k->rms_least));
    }
    return MSI_OK;
}

/* Update the mask of -auto-multithresh from the residual. */
static int update_mask(msi_clean_group *g)
{
    const msi_planes_shape *shape = msi_planes_shape_of(g->residual);
    msi_auto_mask_report report;
    uint8_t *mask;
    MSI_TRY(msi_auto_mask_update(g->auto_mask, g->residual, 0, &report));
    MSI_TRY(msi_alloc(&mask, shape->nx * shape->ny, 1, "mask"));
    int rc = msi_auto_mask_fetch(g->auto_mask, mask);
    if (!rc) rc = msi_cleaner_mask(g->cleaner, mask);
    msi_free(mask);
    if (!rc)
        msi_log_detail("mask: %lld pixels, threshold %.4g Jy/beam, from the %s", (long long)report.n_pixel,
                       report.threshold, report.is_sidelobe ? "sidelobes" : "noise");
    return rc;
}

/* Measure and judge a group whose residual is exact. The measurement is repeated if the group enters its mask.
 * Returned: *peak  of the residual; *back  1: the last cycle must be undone */
static int measure_group(const cycles *k, msi_clean_group *g, double *peak, int *back)
{
    if (g->auto_mask) MSI_TRY(update_mask(g));
    for (int was_in_mask = -1; !g->stop && was_in_mask != g->in_mask;) {
        was_in_mask = g->in_mask;
        MSI_TRY(measure_noise(k, g));
        set_threshold(k, g);
        MSI_TRY(find_peak(k, g, peak));
        *back = msi_clean_judge(g, k->options, *peak);
        if (*back) return MSI_OK;
    }
    return MSI_OK;
}

/* Measure the noise of a field that was loaded: a checkpoint does not hold the measurements of the cleaners. */
static int measure_all(const cycles *k)
{
    for (int i = 0; i < k->field->n_group; i++)
        if (!k->field->group[i].stop) MSI_TRY(measure_noise(k, &k->field->group[i]));
    return MSI_OK;
}

/* ---- A cycle ---- */

static int clean_group(const cycles *k, msi_clean_group *g)
{
    msi_clean_limits limits = limits_of(k, g);
    if (g->sources) msi_clean_sources_limit(g->sources, &limits);
    MSI_TRY(msi_planes_copy(g->before, 0, g->model, 0, n_planes(g)));
    g->peak_before = fabs(g->peak);
    g->noise_before = g->noise;
    g->flux_before = g->flux_jy;
    MSI_TRY(msi_cleaner_minor(g->cleaner, g->residual, g->model, &limits, &g->report));
    const int went_down = g->report.stop == MSI_CLEAN_STOP_THRESHOLD || g->report.stop == MSI_CLEAN_STOP_MAJOR;
    g->at_threshold = went_down && g->report.threshold <= limits.threshold * ROUNDING;
    g->n_minor += g->report.n_iteration;
    g->flux_jy += g->report.flux;
    g->n_major++;
    return g->sources ? msi_clean_sources_add(g->sources, &g->report) : MSI_OK;
}

static int undo_cycle(const cycles *k, msi_clean_group *g)
{
    report_undone(k->spec->label, k->field, g);
    g->flux_jy = g->flux_before;
    g->peak_before = 0;
    if (g->sources) msi_source_list_drop(g->sources->list);
    return msi_planes_copy(g->model, 0, g->before, 0, n_planes(g));
}

/* Make the minor iterations of all groups. Returned: *n_open  groups that made the cycle; *n_back  those whose cycle is
 * undone */
static int clean_all(cycles *k, int *n_open, int *n_back)
{
    msi_clean_field *f = k->field;
    *n_open = *n_back = 0;
    for (int i = 0; i < f->n_group; i++) {
        msi_clean_group *g = &f->group[i];
        if (g->stop) continue;
        MSI_TRY(clean_group(k, g));
        const int back = clean_judge_minor(g);
        if (back) MSI_TRY(undo_cycle(k, g));
        *n_back += back;
        (*n_open)++;
    }
    return MSI_OK;
}

/* ---- The record of convergence ---- */

/* Record the last cycle of a group, one step for each scale; before the first cycle only the start. */
static int record_scales(const cycles *k, const msi_clean_group *g, msi_clean_step *step)
{
    static const msi_clean_report nothing;
    const msi_clean_report *r = g->n_major ? &g->report : &nothing;
    const double peak = step->peak_jy;
    int n_scale, last = 0;
    const double *scale = msi_cleaner_scales(g->cleaner, &n_scale);
    step->minor = g->n_minor - r->n_iteration;
    step->flux_jy = g->n_major ? g->flux_before : g->flux_jy;
    for (int s = 0; s < n_scale; s++)
        if (r->scale_count[s]) last = s;
    for (int s = 0; s <= last; s++) {
        if (!r->scale_count[s] && s < last) continue;
        step->minor += r->scale_count[s];
        step->flux_jy += r->scale_flux[s];
        step->scale_pixel = !g->n_major ? NAN : n_scale > 1 ? scale[s] : 0;
        step->peak_jy = s == last ? peak : NAN;
        if (s == last && g->n_major) snprintf(step->stop, sizeof step->stop, "%s", msi_clean_stop_word(r->stop));
        MSI_TRY(msi_clean_history_add(k->spec->history, step));
    }
    return MSI_OK;
}

/* Record the last cycle of a group once. Peak and noise belong to the exact residual after it. */
static int record_cycle(const cycles *k, msi_clean_group *g, double peak)
{
    if (!k->spec->history || !g->cleaner || g->n_recorded > g->n_major) return MSI_OK;
    const char *pol = k->field->n_group > 1 ? pol_name(k->field, g) : "";
    msi_clean_step step = {.major = g->n_major, .noise_jy = g->noise, .peak_jy = peak, .seconds = msi_wall_s()};
    snprintf(step.image, sizeof step.image, "%s%s%s", k->spec->image, *k->spec->image && *pol ? "-" : "", pol);
    g->n_recorded = g->n_major + 1;
    return record_scales(k, g, &step);
}

/* ---- After a cycle ---- */

/* Judge all groups by their exact residuals. If a cycle is undone, make the residuals again and judge again. */
static int judge_all(const cycles *k)
{
    msi_clean_field *f = k->field;
    int n_back = 0;
    for (int i = 0; i < f->n_group; i++) {
        msi_clean_group *g = &f->group[i];
        double peak = g->report.peak_after;
        int back = 0;
        if (!g->stop) MSI_TRY(measure_group(k, g, &peak, &back));
        MSI_TRY(record_cycle(k, g, peak));
        if (back)
            MSI_TRY(undo_cycle(k, g));
        else if (g->sources)
            MSI_TRY(msi_source_list_keep(g->sources->list));
        n_back += back;
    }
    if (!n_back) return MSI_OK;
    MSI_TRY(msi_clean_field_subtract(f, 1));
    return judge_all(k);
}

/* ---- The end without a last residual ---- */

/* Return 1 if cleaning ends with these minor iterations and -skip-final-iteration leaves out the residual after them.
 * It is never left out for means of channels, whose minor iterations leave no residuals of the channels, nor for
 * spectra of true flux, which are fitted after minor iterations. */
static int ends_without_residual(const cycles *k)
{
    const msi_clean_field *f = k->field;
    if (!k->options->skip_final || f->cleaned_model || f->spec.sight) return 0;
    for (int i = 0; i < f->n_group; i++)
        if (!msi_clean_last_cycle(&f->group[i], k->options)) return 0;
    return 1;
}

/* End cleaning with the residuals that minor iterations left. */
static int end_without_residual(const cycles *k)
{
    const msi_clean_cycle_spec *spec = k->spec;
    msi_clean_field *f = k->field;
    report_cycle(spec->label, f, k->minor_s, 0);
    for (int i = 0; i < f->n_group; i++) {
        msi_clean_group *g = &f->group[i];
        if (!g->cleaner) continue;
        g->stop = msi_clean_last_cycle(g, k->options);
        if (g->n_recorded <= g->n_major) g->peak = g->report.peak_after;
        MSI_TRY(record_cycle(k, g, g->peak));
        if (g->sources) MSI_TRY(msi_source_list_keep(g->sources->list));
    }
    msi_log_info("%s%sthe residual comes from the minor iterations (-skip-final-iteration)", spec->label,
                 *spec->label ? ": " : "");
    return spec->first && f->group[0].n_major == 1 ? spec->first(spec->user) : MSI_OK;
}

/* ---- Accuracy ---- */

/* Return the accuracy that the residuals need. Their errors may be PART of the final threshold or, without a threshold,
 * of the noise. The accuracy is relative to the image of the whole model, which has about the peak of the dirty
 * image. */
static double accuracy_needed(const cycles *k)
{
    static const double PART = 0.1;
    double least = 1;
    for (int i = 0; i < k->field->n_group; i++) {
        const msi_clean_group *g = &k->field->group[i];
        if (g->stop || !g->cleaner) continue;
        const double end = final_threshold(k, g), peak = fmax(g->first_peak, fabs(g->dirty_peak));
        least = fmin(least, PART * (end > 0 ? end : g->noise) / peak);
    }
    return least;
}

/* Make later residuals as accurate as the threshold requires and their precision allows. MARGIN allows for a noise that
 * still falls. If a better accuracy cannot be planned, the present one is kept. */
static int refine_accuracy(const cycles *k)
{
    static const double MARGIN = 0.5, FINEST_FP32 = 1.5e-6, FINEST_FP64 = 1e-12;
    msi_clean_field *f = k->field;
    const int single = msi_planes_shape_of(f->residual)->precision == MSI_FP32;
    const double needed = accuracy_needed(k), best = fmax(single ? FINEST_FP32 : FINEST_FP64, MARGIN * needed);
    if (!f->spec.accuracy_follows || f->cannot_refine || needed >= f->accuracy || best >= f->accuracy) return MSI_OK;
    const int rc = msi_clean_field_refine(f, best);
    if (!rc)
        msi_log_info("accuracy: now %.1e, because the threshold or the noise is %.1e of the peak", best, 10 * needed);
    if (!rc || f->spec.samples->ranks->size > 1 || (rc != MSI_ERANGE && rc != MSI_ENOMEM)) return rc;
    f->cannot_refine = 1;
    msi_log_warning("accuracy: %.1e is kept, although the residual needs %.1e: %s", f->accuracy, best, msi_error_get());
    return MSI_OK;
}

/* Return the largest estimate of cycles left among the groups. */
static double cycles_left(const cycles *k)
{
    const msi_clean_options *o = k->options;
    double most = 0;
    for (int i = 0; i < k->field->n_group; i++) {
        const msi_clean_group *g = &k->field->group[i];
        if (!g->cleaner) continue;
        most = fmax(most, msi_clean_cycles_left(g, o, final_threshold(k, g)));
    }
    return most;
}

int msi_clean_cycles_run(msi_clean_field *f, const msi_clean_cycle_spec *spec)
{
    cycles k = {.field = f, .spec = spec, .options = f->spec.options};
    MSI_TRY(set_local_noise(&k));
    MSI_TRY(spec->resumed ? measure_all(&k) : judge_all(&k));
    for (int i = 0; i < f->n_group; i++) {
        msi_clean_group *g = &f->group[i];
        if (!(g->first_peak > 0)) g->first_peak = fabs(g->peak);
    }
    for (int n_cycle = 0;; n_cycle++) {
        enum { PARTS = 1000 };
        int n_open, n_back;
        const double start_s = msi_wall_s(), n_all = n_cycle + fmax(1, cycles_left(&k));
        const int from = (int)(PARTS * n_cycle / n_all), to = (int)(PARTS * (n_cycle + 1) / n_all);
        MSI_TRY(clean_all(&k, &n_open, &n_back));
        if (!n_open) return MSI_OK;
        k.minor_s = msi_wall_s() - start_s;
        if (!n_back && ends_without_residual(&k)) return end_without_residual(&k);
        const msi_progress_share all = msi_progress_enter(from, to > from ? to : from + 1, PARTS);
        int rc = refine_accuracy(&k);
        if (!rc) rc = msi_clean_field_subtract(f, 1);
        msi_progress_leave(all);
        MSI_TRY(rc);
        k.major_s = msi_wall_s() - start_s - k.minor_s;
        report_cycle(spec->label, f, k.minor_s, k.major_s);
        if (n_cycle == 0 && spec->first) MSI_TRY(spec->first(spec->user));
        MSI_TRY(judge_all(&k));
        report_left(spec->label, cycles_left(&k), k.minor_s + k.major_s);
        if (spec->cycle) MSI_TRY(spec->cycle(spec->user));
    }
}
