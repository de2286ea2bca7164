/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/imaging/imaging_clean.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/pol.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/clean/clean_cycle.h"
#include "src/clean/clean_report.h"
#include "src/imaging/imaging_checkpoint.h"
#include "src/imaging/imaging_cleaning.h"
#include "src/imaging/imaging_report.h"
#include "src/imaging/imaging_reuse.h"

/* ---- A field ---- */

/* Look at the samples of a channel, and tell where there are none. */
static void begin_channel(msi_cleaning *k, int channel)
{
    const msi_clean_field *f = &k->field;
    const int64_t first = (k->first + channel) * f->spec.n_pol;
    msi_imaging_report_empty(k->run, k->first + channel, f->spec.n_pol, f->n_vis + channel * f->spec.n_pol);
    for (int p = 0; p < f->spec.n_pol; p++) {
        k->weight[channel][p] = (msi_imaging_weight){.largest = k->samples->largest_weight[first + p],
                                                     .vis_sum = k->samples->sum_vis_weight[first + p]};
        msi_imaging_weight_add(&k->band_weight[p], &k->weight[channel][p]);
    }
}

/* Channels that are joined have their gridders on GPUs side by side, where there are several and no other rank. */
static int n_lane(const msi_imaging_run *r, int n_channel)
{
    if (r->plan.gridder.backend != MSI_BACKEND_CUDA || r->team->size > 1) return 1;
    return n_channel == r->options->channels_out ? r->gpus.n_lane : 1;
}

static int make_field(msi_cleaning *k, int64_t first, int n_channel)
{
    msi_imaging_run *r = k->run;
    k->first = first;
    k->has_first_residual = 0;
    k->dirty_peak_jy = 0;
    for (int c = 0; c < n_channel; c++)
        k->freq_hz[c] = 0.5 * (r->channels.low_hz[first + c] + r->channels.high_hz[first + c]);
    const msi_clean_mask *mask = &r->mask;
    const msi_clean_field_spec spec = {
        .options = r->options,
        .samples = k->samples,
        .first = first,
        .n_channel = n_channel,
        .n_pol = r->n_plane,
        .freq_hz = k->freq_hz,
        .n_lane = n_lane(r, n_channel),
        .mask_hash = mask->pixel ? msi_hash(0, mask->pixel, mask->n_plane * mask->nx * mask->ny) : 0};
    MSI_TRY(msi_clean_field_make(&k->field, &spec));
    k->shape = *msi_planes_shape_of(k->field.residual);
    if (k->field.n_cleaned < n_channel)
        msi_log_info("%d channels are cleaned as %d, whose fitted spectra give the models of all", n_channel,
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

/* An image has errors of the accuracy everywhere, which a deep residual shows. */
static void warn_of_accuracy(const msi_cleaning *k)
{
    for (int i = 0; i < k->field.n_group; i++) {
        const msi_clean_group *g = &k->field.group[i];
        const double first = k->dirty_peak_jy > 0 ? k->dirty_peak_jy : g->first_peak;
        const double reached = first > 0 ? fmax(g->threshold, fabs(g->peak)) / first : 1;
        if (!g->cleaner || 0.1 * reached >= k->field.accuracy) continue;
        msi_log_warning("the residual is down to %.1e of the first peak, and its errors are up to %.1e of it, more than a "
                        "tenth of the residual; -accuracy %.0e keeps them below that",
                        reached, k->field.accuracy, fmax(1e-12, one_digit(0.1 * reached)));
        return;
    }
}

/* Read the noise around each pixel, which the user gives. */
static int read_rms(const msi_cleaning *k, msi_image *rms)
{
    MSI_TRY(msi_image_alloc(rms, &k->run->options->geometry, 1, k->shape.precision));
    const int rc = msi_imaging_reuse_rms(k->run, rms->precision, rms->pixel);
    if (rc) msi_image_free(rms);
    return rc;
}

/* Channels that are not joined have their own cards; those of all of them tell of the sum. */
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

static int put_first_residual(void *of)
{
    return msi_cleaning_put_first_residual(of);
}

static int save_checkpoint(void *of)
{
    msi_cleaning *k = of;
    return msi_imaging_checkpoint_save(k->run, &k->field, k->first);
}

/* Run the field's cycles; their label begins lines of the log, and the names of steps in the history. */
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
                                        .beam_pixel = msi_cleaning_beam_pixel(k),
                                        .rms = rms.pixel,
                                        .history = &k->run->history,
                                        .resumed = resumed,
                                        .first = resumed ? NULL : put_first_residual,
                                        .cycle = save_checkpoint,
                                        .of = k};
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
    if (msi_cleaning_has_mfs(k) && k->field.spec.n_channel == 1)
        snprintf(label, sizeof label, "channel %d", (int)k->first);
    msi_progress_begin("imaging");
    MSI_TRY(msi_cleaning_make_psfs(k));
    MSI_TRY(msi_cleaning_make_dirty(k));
    MSI_TRY(msi_cleaning_begin_models(k, &resumed));
    msi_progress_end();
    MSI_TRY(run_cycles(k, label, resumed));
    msi_clean_report_end(label, &k->field);
    warn_of_accuracy(k);
    for (int p = 0; p < k->field.spec.n_pol; p++) {
        const msi_fits_clean c = msi_cleaning_cards(k, msi_clean_field_group(&k->field, p));
        add_cards(&k->clean[p], &c);
    }
    return msi_cleaning_put_cleaned(k);
}

/* Hand on what the field has failed with. */
static int end_field(msi_cleaning *k, int rc)
{
    msi_imaging_run *r = k->run;
    for (int c = 0; !rc && c < k->field.spec.n_channel; c++) {
        msi_gridder_report report;
        msi_gridder_report_get(r->gridder[k->first + c], &report);
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
    for (int i = 0; i < MSI_CLEANING_KINDS; i++) msi_image_free(&k->sum[i]);
    msi_free(k->freq_hz);
    msi_free(k->beam);
    msi_free(k->weight);
    msi_free(k->peak_jy);
    msi_free(k->flux_jy);
    msi_free(k);
}

/*
 * Refuse channels that lack a polarisation which cleaning cannot do without: the first one, whose weights make the PSF,
 * and all that are searched together. One that is cleaned by itself has images without a value.
 */
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
                                     "%spolarisation %s has no samples, and the others have: %s; clean without it, by "
                                     "-pol of the others",
                                     channel, msi_pol_name(r->planes[p].pol),
                                     o->clean.join_pols ? "all are searched together"
                                                        : "the PSF is of the first that -pol names");
    }
    return MSI_OK;
}

int msi_imaging_clean_run(msi_imaging_run *r, msi_clean_samples *samples)
{
    const int64_t n = r->options->channels_out;
    const int each = r->options->clean.join_channels ? (int)n : 1;
    msi_cleaning *k = NULL;
    int rc = check_polarisations(r, samples);
    if (!rc) rc = make_cleaning(&k, r, each);
    if (!rc) k->samples = samples;
    for (int64_t first = 0; !rc && first < n; first += each) {
        rc = make_field(k, first, each);
        if (!rc) rc = clean_field(k);
        rc = end_field(k, rc);
    }
    if (!rc && msi_cleaning_has_mfs(k)) rc = msi_cleaning_put_sums(k);
    free_cleaning(k);
    return rc;
}

/* ---- The run's end ---- */

int msi_imaging_clean_record(msi_imaging_run *r)
{
    msi_publish *publish;
    int i = msi_outputs_text(r->outputs, MSI_OUTPUT_HISTORY, &publish);
    if (i >= 0) MSI_TRY(msi_clean_history_write(publish, i, &r->history));
    i = msi_outputs_text(r->outputs, MSI_OUTPUT_CURVES, &publish);
    return i >= 0 ? msi_clean_history_draw(publish, i, &r->history, r->observation.object) : MSI_OK;
}
