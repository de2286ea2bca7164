/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/imaging.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_crew.h"
#include "io/ms/ms_paths.h"
#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/options/cpu_count.h"
#include "src/options/gridder_choice.h"
#include "src/run/load.h"
#include "src/run/output_channels.h"
#include "src/run/outputs.h"
#include "src/preprocess/stokes.h"
#include "src/sky/psf_fit.h"
#include "src/run/run_plan.h"
#include "src/run/uv_plane.h"

/* Bytes to read: of less, starting processes costs more than they save. */
static const int64_t WORTH_PROCESSES = 50000000;

/* A run and what its stages hand to each other. */
typedef struct image_run {
    const msi_options *options;
    msi_plane planes[MSI_MAX_PLANES];
    int n_plane;
    char *temp_dir;
    char weighting[48];
    msi_ms_crew *crew; /* NULL: a thread reads */

    /* Of the interval at hand. */
    int64_t interval;
    msi_ms_reader *reader;
    msi_output_channels channels;
    double ra_rad, dec_rad;
    msi_run_plan plan;
    msi_gridder **gridder; /* [channels_out] */
    msi_density **density; /* [1] for multi-frequency weights, else [channels_out]; entries NULL for natural */
    msi_sample_dropped dropped;
    msi_image mfs; /* sums of channel images times their weights */
    double mfs_vis_weight[MSI_GRIDDER_MAX_PLANES];

    msi_outputs *outputs;
    int64_t n_gridded; /* over all intervals and channels */
} image_run;

static int open_reader(image_run *r)
{
    const msi_options *o = r->options;
    msi_ms_selection selection = o->selection;
    selection.coordinates_only = o->dry_run;
    if (o->intervals_out > 1) {
        msi_ms_reader *whole;
        MSI_TRY(msi_ms_reader_open(&whole, o->ms_paths, o->n_ms, &selection));
        int64_t begin = selection.interval_begin;
        int64_t n_time = (selection.interval_end ? selection.interval_end : msi_ms_reader_n_time(whole)) - begin;
        msi_ms_reader_free(whole);
        if (o->intervals_out > n_time)
            return msi_error_set(MSI_EUSAGE, "-intervals-out %lld: the selection has %lld times",
                                 (long long)o->intervals_out, (long long)n_time);
        selection.interval_begin = begin + n_time * r->interval / o->intervals_out;
        selection.interval_end = begin + n_time * (r->interval + 1) / o->intervals_out;
    }
    if (r->crew) msi_ms_crew_open(r->crew, selection.interval_begin, selection.interval_end);
    return msi_ms_reader_open(&r->reader, o->ms_paths, o->n_ms, &selection);
}

/* One phase centre for everything: the fields' own, or -shift's. */
static int choose_centre(image_run *r)
{
    const msi_observation *obs = msi_ms_reader_observation(r->reader);
    const msi_options *o = r->options;
    if (!o->shift_set && !msi_ms_reader_one_centre(r->reader))
        return msi_error_set(MSI_EINPUT,
                             "the selected fields or sets have different phase centres; name one with -shift RA DEC, "
                             "or select one with -field");
    r->ra_rad = o->shift_set ? o->shift_ra_rad : obs->ra_rad;
    r->dec_rad = o->shift_set ? o->shift_dec_rad : obs->dec_rad;
    return MSI_OK;
}

static msi_gridder_spec gridder_spec(const image_run *r)
{
    const msi_options *o = r->options;
    msi_gridder_spec spec = msi_gridder_choice_spec(o);
    spec.geometry = o->geometry;
    spec.n_plane = r->n_plane;
    spec.psf = o->make_psf;
    spec.psf_only = o->make_psf_only;
    spec.memory_bytes = msi_run_plan_gridder_bytes(o);
    spec.store_bytes = r->plan.store_budget_bytes / o->channels_out;
    spec.temp_dir = r->temp_dir;
    return spec;
}

/* Memory, disk and time by what is known without reading visibilities; or, for a dry run, by a scan of coordinates. */
static int plan_run(image_run *r)
{
    const msi_options *o = r->options;
    msi_gridder_spec spec = gridder_spec(r);
    msi_gridder *empty;
    int64_t n_outside = 0;
    msi_run_plan scanned = {.n_row = msi_ms_reader_n_row(r->reader),
                            .n_sample = msi_ms_reader_n_sample(r->reader),
                            .w_max_lambda = msi_run_plan_bound_w(r->reader)};
    if (o->dry_run) {
        MSI_TRY(msi_run_plan_scan(r->reader, &o->geometry, r->ra_rad, r->dec_rad, &scanned, &n_outside));
        /* By the memory that is free now; a run does not wait for a GPU's answer, and sees to it after reading. */
        msi_backend_await();
    }
    MSI_TRY(msi_gridder_create(&empty, &spec));
    int rc = msi_run_plan_make(&r->plan, o, empty, r->n_plane, scanned.n_row, scanned.n_sample, scanned.w_min_lambda,
                               scanned.w_max_lambda, msi_outputs_bytes(r->outputs));
    msi_gridder_free(empty);
    if (r->plan.gridder.nu) msi_run_plan_print(&r->plan, o);
    if (rc || !o->dry_run) return rc;
    const msi_ms_dropped *d = msi_ms_reader_dropped(r->reader);
    msi_log_info(
        "rows: %lld kept; samples dropped: %lld autocorrelation, %lld FLAG_ROW, %lld UVW not finite, %lld outside "
        "the uv limits, %lld outside the uv grid; flags and weights are not read by a dry run",
        (long long)scanned.n_row, (long long)d->autocorrelation, (long long)d->flag_row, (long long)d->uvw_not_finite,
        (long long)d->uv_limits, (long long)n_outside);
    msi_log_info("samples: up to %lld; |w| %.1f to %.1f wavelengths", (long long)scanned.n_sample, scanned.w_min_lambda,
                 scanned.w_max_lambda);
    msi_log_info("time: about %.0f s to read, %.0f s to image", ceil(r->plan.read_s), ceil(r->plan.image_s));
    return MSI_OK;
}

/*
 * Channels imaged at the same time, by a thread each: all threads' worth on the CPU, where there are channels enough
 * for them and their grids take no more than a quarter of the memory; else one, by all threads. A small image has
 * little for many threads to share.
 */
static int channels_at_once(const image_run *r)
{
    int n_thread = omp_get_max_threads();
    int64_t each = r->plan.grid_bytes + 2 * r->plan.image_bytes;
    if (r->plan.gridder.backend != MSI_BACKEND_CPU || r->options->channels_out < 2 * n_thread) return 1;
    return n_thread * each <= msi_memory_limit() / 4 ? n_thread : 1;
}

static int make_gridders(image_run *r)
{
    const msi_options *o = r->options;
    MSI_TRY(msi_alloc(&r->gridder, o->channels_out, sizeof(msi_gridder *), "gridders"));
    MSI_TRY(msi_alloc(&r->density, o->channels_out, sizeof(msi_density *), "density weights"));
    msi_gridder_spec spec = gridder_spec(r);
    if (channels_at_once(r) > 1) spec.n_thread = 1;
    for (int64_t c = 0; c < o->channels_out; c++) MSI_TRY(msi_gridder_create(&r->gridder[c], &spec));
    return MSI_OK;
}

static void print_dropped(const image_run *r)
{
    const msi_ms_dropped *d = msi_ms_reader_dropped(r->reader);
    const msi_sample_dropped *s = &r->dropped;
    int64_t kept = 0, outside = 0;
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        msi_gridder_report report;
        msi_gridder_report_get(r->gridder[c], &report);
        kept += report.n_sample;
        outside += report.n_outside;
    }
    msi_log_info(
        "samples: %lld kept; dropped: %lld autocorrelation, %lld FLAG_ROW, %lld FLAG, %lld weight not positive or not "
        "finite, %lld data not finite, %lld data beyond 1e30, %lld UVW not finite, %lld outside the uv limits, %lld "
        "outside the uv grid",
        (long long)kept, (long long)d->autocorrelation, (long long)d->flag_row, (long long)s->flagged,
        (long long)s->weight, (long long)s->data_not_finite, (long long)s->data_too_large, (long long)d->uvw_not_finite,
        (long long)d->uv_limits, (long long)outside);
    if (outside)
        msi_log_warning(
            "%lld samples lie outside the uv plane that pixels of this -scale can hold; a smaller -scale keeps them",
            (long long)outside);
}

static void dismiss_crew(image_run *r)
{
    msi_ms_crew_free(r->crew);
    r->crew = NULL;
}

static void log_weight_grid(const msi_options *o)
{
    const msi_density_grid grid = msi_density_grid_of(&o->geometry, &o->weighting);
    msi_log_info("weight grid: %lld x %lld cells of %.6g x %.6g wavelengths", (long long)grid.nu, (long long)grid.nv,
                 1 / (o->geometry.cell_x_rad * (double)grid.nu), 1 / (o->geometry.cell_y_rad * (double)grid.nv));
}

static int load(image_run *r)
{
    msi_load_spec spec = {.planes = r->planes,
                          .n_plane = r->n_plane,
                          .weight = r->options->stokes_weight,
                          .channels = &r->channels,
                          .shift_set = r->options->shift_set,
                          .ra_rad = r->ra_rad,
                          .dec_rad = r->dec_rad};
    memset(&r->dropped, 0, sizeof r->dropped);
    int crew_reads = 0;
    if (r->crew) MSI_TRY(msi_ms_crew_begin(r->crew, r->reader, &crew_reads));
    if (r->crew && !crew_reads) msi_log_detail("reading: by a thread; not every process could open the sets alike");
    if (!crew_reads) dismiss_crew(r);
    MSI_TRY(msi_load(r->reader, r->crew, &spec, r->gridder, &r->dropped));
    if (r->interval + 1 == r->options->intervals_out) dismiss_crew(r);
    print_dropped(r);
    return MSI_OK;
}

static int weigh(image_run *r)
{
    const msi_options *o = r->options;
    if (o->weighting.mode != MSI_WEIGHT_NATURAL)
        for (int64_t c = 0; c < o->channels_out; c++) {
            msi_density **d = &r->density[o->mf_weighting ? 0 : c];
            if (!*d) MSI_TRY(msi_density_create(d, &o->geometry, &o->weighting));
            MSI_TRY(msi_density_add(*d, r->gridder[c]));
        }
    for (int64_t c = 0; c < o->channels_out; c++)
        MSI_TRY(msi_gridder_weight(r->gridder[c], r->density[o->mf_weighting ? 0 : c], &o->weighting));
    msi_log_info("weights: %s%s%s", r->weighting, o->weighting.taper_fwhm_rad > 0 ? ", gaussian taper" : "",
                 o->weighting.mode == MSI_WEIGHT_NATURAL  ? ""
                 : o->mf_weighting && o->channels_out > 1 ? ", densities over all output channels"
                                                          : "");
    if (o->weighting.mode != MSI_WEIGHT_NATURAL) log_weight_grid(o);
    return MSI_OK;
}

static msi_fits_spec fits_spec(const image_run *r, int64_t channel)
{
    const msi_options *o = r->options;
    int64_t first = channel == MSI_OUTPUT_MFS ? 0 : channel,
            last = channel == MSI_OUTPUT_MFS ? o->channels_out - 1 : channel;
    double low = r->channels.low_hz[first], high = r->channels.high_hz[last];
    return (msi_fits_spec){.geometry = o->geometry,
                           .observation = msi_ms_reader_observation(r->reader),
                           .ra_rad = r->ra_rad,
                           .dec_rad = r->dec_rad,
                           .freq_hz = 0.5 * (low + high),
                           .bandwidth_hz = high - low,
                           .weighting = r->weighting,
                           .data_column = msi_ms_reader_data_column(r->reader),
                           .command_line = o->command_line};
}

/* Writes the weights as gridded, on the uv grid of their densities: both halves of the plane. */
static int write_weights(image_run *r, int64_t channel, const msi_fits_spec *spec)
{
    const msi_options *o = r->options;
    int is_all = channel == MSI_OUTPUT_MFS;
    const msi_density_grid grid = msi_density_grid_of(&o->geometry, &o->weighting);
    double *weight;
    MSI_TRY(msi_uv_weights(&o->geometry, &o->weighting, r->gridder + (is_all ? 0 : channel),
                           is_all ? o->channels_out : 1, &weight));
    msi_output_id id = {r->interval, channel, 0, MSI_FITS_WEIGHTS};
    msi_fits_spec of_grid = *spec;
    of_grid.geometry.nx = grid.nu;
    of_grid.geometry.ny = grid.nv;
    int rc = msi_outputs_write(r->outputs, &id, &of_grid, weight, MSI_FP64);
    msi_free(weight);
    return rc;
}

static int write_uv(image_run *r, const msi_output_id *image_id, const msi_fits_spec *spec, const void *pixel,
                    msi_precision precision)
{
    double *re, *im;
    MSI_TRY(msi_uv_plane(&r->options->geometry, pixel, precision, &re, &im));
    msi_output_id id = *image_id;
    id.kind = MSI_FITS_UV_REAL;
    int rc = msi_outputs_write(r->outputs, &id, spec, re, MSI_FP64);
    id.kind = MSI_FITS_UV_IMAG;
    if (!rc) rc = msi_outputs_write(r->outputs, &id, spec, im, MSI_FP64);
    msi_free(re);
    msi_free(im);
    return rc;
}

/* PSF first, since its beam goes into the headers of the rest. */
static int write_images(image_run *r, int64_t channel, const msi_image *image, const double *vis_weight)
{
    const msi_options *o = r->options;
    int64_t n_pixel = msi_image_n_pixel(&image->geometry), bytes = msi_image_pixel_bytes(image->precision);
    msi_fits_spec spec = fits_spec(r, channel);
    int n_dirty = o->make_psf_only ? 0 : r->n_plane;
    if (o->make_psf && image->n_vis[n_dirty] > 0) {
        const char *psf = (const char *)image->pixel + n_dirty * n_pixel * bytes;
        int fit = msi_psf_fit(&spec.beam, &o->geometry, psf, image->precision);
        if (fit == MSI_ENOMEM) return fit;
        if (fit)
            msi_log_warning("no beam: %s", msi_error_get());
        else
            msi_log_info("beam: %.4g x %.4g asec, position angle %.1f deg", spec.beam.major_rad * 648000 / MSI_PI,
                         spec.beam.minor_rad * 648000 / MSI_PI, spec.beam.pa_rad * 180 / MSI_PI);
    }
    for (int i = o->make_psf ? n_dirty : 0, n = 0; n < image->n_plane; i = (i + 1) % image->n_plane, n++) {
        int is_psf = i == n_dirty;
        const char *pixel = (const char *)image->pixel + i * n_pixel * bytes;
        msi_output_id id = {r->interval, channel, is_psf ? 0 : i, is_psf ? MSI_FITS_PSF : MSI_FITS_DIRTY};
        spec.n_vis = image->n_vis[i];
        spec.sum_weight = image->sum_weight[i];
        spec.sum_vis_weight = vis_weight[is_psf ? 0 : i];
        MSI_TRY(msi_outputs_write(r->outputs, &id, &spec, pixel, image->precision));
        if (o->save_uv && !is_psf) MSI_TRY(write_uv(r, &id, &spec, pixel, image->precision));
    }
    return o->save_weights ? write_weights(r, channel, &spec) : MSI_OK;
}

/* Images are sums: the multi-frequency image is that of the channels, each with its weight. */
static int add_to_mfs(image_run *r, const msi_image *image, const double *vis_weight)
{
    if (r->options->channels_out == 1) return MSI_OK;
    if (!r->mfs.pixel) MSI_TRY(msi_image_alloc(&r->mfs, &image->geometry, image->n_plane, image->precision));
    int64_t n = msi_image_n_pixel(&image->geometry);
    for (int p = 0; p < image->n_plane; p++) {
        double weight = image->sum_weight[p];
        r->mfs_vis_weight[p] += vis_weight[p];
        if (!(weight > 0)) continue;
        r->mfs.sum_weight[p] += weight;
        r->mfs.n_vis[p] += image->n_vis[p];
        double old = 1 - weight / r->mfs.sum_weight[p], new = weight / r->mfs.sum_weight[p];
#pragma omp parallel for schedule(static)
        for (int64_t i = p * n; i < (p + 1) * n; i++) {
            if (image->precision == MSI_FP32) {
                float *sum = (float *)r->mfs.pixel + i;
                *sum = (float)(old * (double)*sum + new *(double)((const float *)image->pixel)[i]);
            } else {
                double *sum = (double *)r->mfs.pixel + i;
                *sum = old * *sum + new *((const double *)image->pixel)[i];
            }
        }
    }
    return MSI_OK;
}

/* What a channel's image is, on the log and on disk. */
static int finish_channel(image_run *r, int64_t channel, const msi_image *image, const msi_gridder_report *report)
{
    int64_t most = 0;
    for (int p = 0; p < image->n_plane; p++) most = image->n_vis[p] > most ? image->n_vis[p] : most;
    r->n_gridded += most;
    if (r->options->channels_out > 1 && !most)
        msi_log_warning("output channel %lld has no samples; its images are NaN", (long long)channel);
    msi_log_detail("channel %lld: %lld samples, %s %s, width %d, grid %lld x %lld, %lld transforms or planes %.4g "
                   "wavelengths apart; "
                   "sort %.2f s, grid %.2f s, FFT and w-screens %.2f s, correction %.2f s, transfer %.2f s",
                   (long long)channel, (long long)most, report->method, report->strategy, report->width,
                   (long long)report->nu, (long long)report->nv, (long long)report->n_w, report->w_step, report->sort_s,
                   report->grid_s, report->transform_s, report->correct_s, report->transfer_s);
    MSI_TRY(write_images(r, channel, image, report->sum_vis_weight));
    return add_to_mfs(r, image, report->sum_vis_weight);
}

/* The weights of all channels together are read off the gridders at the end. */
static void forget_gridder(image_run *r, int64_t c)
{
    if (r->options->save_weights) return;
    msi_gridder_free(r->gridder[c]);
    r->gridder[c] = NULL;
}

/* Each channel by all threads. No parallel region may stand around this, not even one of a single thread: those inside
 * it would start their threads anew every time. */
static int image_in_turn(image_run *r)
{
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        msi_image image = {0};
        msi_gridder_report report;
        int rc = msi_gridder_image(r->gridder[c], &image);
        msi_gridder_report_get(r->gridder[c], &report);
        if (!rc) rc = finish_channel(r, c, &image, &report);
        msi_image_free(&image);
        forget_gridder(r, c);
        if (rc) return rc;
    }
    return MSI_OK;
}

/* Each channel by one thread. */
static int image_at_once(image_run *r, int at_once)
{
    const int64_t n_channel = r->options->channels_out;
    int failed = MSI_OK;
    char *message = NULL;
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(at_once)
    for (int64_t c = 0; c < n_channel; c++) {
        msi_image image = {0};
        msi_gridder_report report;
        int stopped, rc = MSI_OK;
        msi_progress_hush(1);
#pragma omp atomic read
        stopped = failed;
        if (!stopped) rc = msi_gridder_image(r->gridder[c], &image);
        msi_gridder_report_get(r->gridder[c], &report);
        msi_progress_hush(0);
        /* Files and sums in the order of channels, whatever the number of threads. */
#pragma omp ordered
        if (!failed) {
            if (!rc) rc = finish_channel(r, c, &image, &report);
            if (rc) {
                message = strdup(msi_error_get());
#pragma omp atomic write
                failed = rc;
            }
            msi_progress("imaging", c + 1, n_channel);
        }
        msi_image_free(&image);
        forget_gridder(r, c);
    }
    if (failed) (void)msi_error_set(failed, "%s", message ? message : "no memory for a message");
    free(message);
    return failed;
}

static int image_channels(image_run *r)
{
    const int at_once = channels_at_once(r);
    MSI_TRY(at_once > 1 ? image_at_once(r, at_once) : image_in_turn(r));
    if (r->options->channels_out == 1) return MSI_OK;
    /* A plane without a sample in any channel is unknown, not zero. */
    int64_t n = msi_image_n_pixel(&r->options->geometry);
    for (int p = 0; p < r->mfs.n_plane; p++)
        for (int64_t i = p * n; !r->mfs.n_vis[p] && i < (p + 1) * n; i++) {
            if (r->mfs.precision == MSI_FP32)
                ((float *)r->mfs.pixel)[i] = NAN;
            else
                ((double *)r->mfs.pixel)[i] = NAN;
        }
    return write_images(r, MSI_OUTPUT_MFS, &r->mfs, r->mfs_vis_weight);
}

static void end_interval(image_run *r)
{
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        if (r->gridder) msi_gridder_free(r->gridder[c]);
        if (r->density) msi_density_free(r->density[c]);
    }
    msi_free(r->gridder);
    msi_free(r->density);
    r->gridder = NULL;
    r->density = NULL;
    msi_image_free(&r->mfs);
    memset(r->mfs_vis_weight, 0, sizeof r->mfs_vis_weight);
    msi_output_channels_free(&r->channels);
    msi_ms_reader_free(r->reader);
    r->reader = NULL;
}

/* The stages. */
static int image_interval(image_run *r)
{
    double start = msi_wall_s();
    MSI_TRY(open_reader(r));
    MSI_TRY(choose_centre(r));
    MSI_TRY(msi_output_channels_make(&r->channels, r->reader, r->options->channels_out));
    double opened = msi_wall_s();
    MSI_TRY(plan_run(r));
    if (r->options->dry_run) return MSI_OK;
    MSI_TRY(make_gridders(r));
    MSI_TRY(load(r));
    double loaded = msi_wall_s();
    MSI_TRY(weigh(r));
    double weighed = msi_wall_s();
    MSI_TRY(image_channels(r));
    msi_log_info("time: open %.2f s, read %.2f s, weights %.2f s, images and files %.2f s", opened - start,
                 loaded - opened, weighed - loaded, msi_wall_s() - weighed);
    return MSI_OK;
}

static int prepare(image_run *r)
{
    const msi_options *o = r->options;
    r->n_plane = msi_planes_of(o->pol, o->n_pol, r->planes);
    const char *mode = o->weighting.mode == MSI_WEIGHT_NATURAL ? "natural" : "uniform";
    if (o->weighting.mode == MSI_WEIGHT_BRIGGS)
        snprintf(r->weighting, sizeof r->weighting, "briggs %g", o->weighting.robust);
    else
        snprintf(r->weighting, sizeof r->weighting, "%s", mode);
    /* What exceeds the memory limit goes where the images go, unless -temp-dir says otherwise. */
    const char *slash = strrchr(o->name, '/');
    size_t length = slash ? (size_t)(slash - o->name) : 0;
    r->temp_dir = o->temp_dir ? strdup(o->temp_dir) : slash ? strndup(o->name, length ? length : 1) : strdup(".");
    if (!r->temp_dir) return msi_error_set(MSI_ENOMEM, "no memory for a file name");
    return msi_outputs_plan(&r->outputs, o, r->planes, r->n_plane);
}

static int n_reader(const msi_options *o)
{
    const int most = 4, n_cpu = msi_cpu_count(), n_thread = o->n_threads < n_cpu ? o->n_threads : n_cpu;
    if (o->n_reader) return (int)o->n_reader;
    if (n_thread < 4 || msi_ms_paths_bytes(o->ms_paths, o->n_ms) < WORTH_PROCESSES) return 1;
    return n_thread / 2 < most ? n_thread / 2 : most;
}

static void start_crew(image_run *r)
{
    const msi_options *o = r->options;
    const int n = n_reader(o);
    if (n > 1 && !o->dry_run && msi_ms_paths_exist(o->ms_paths, o->n_ms) &&
        msi_ms_crew_start(&r->crew, o->ms_paths, o->n_ms, &o->selection, n))
        msi_log_warning("%s; a thread reads instead", msi_error_get());
}

int msi_run_image(const msi_options *options, void (*forked)(void))
{
    image_run r = {.options = options};
    int rc = prepare(&r);
    if (!rc) start_crew(&r);
    if (forked) forked();
    /* While the sets are opened and read. A start of a GPU cannot be broken off, and no simple mistake should wait for
     * it. */
    if (!rc && msi_ms_paths_exist(options->ms_paths, options->n_ms)) msi_backend_warm_up(options->backend);
    for (r.interval = 0; !rc && r.interval < options->intervals_out; r.interval++) {
        if (options->intervals_out > 1)
            msi_log_info("interval %lld of %lld", (long long)r.interval, (long long)options->intervals_out);
        rc = image_interval(&r);
        end_interval(&r);
    }
    if (!rc && !options->dry_run) {
        if (!r.n_gridded)
            rc =
                msi_error_set(MSI_EINPUT, "nothing to image: every selected sample was dropped (see the counts above)");
        else
            rc = msi_outputs_commit(r.outputs);
    }
    dismiss_crew(&r);
    msi_outputs_free(r.outputs);
    free(r.temp_dir);
    msi_backend_settle();
    return rc;
}
