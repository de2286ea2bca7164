/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/imaging/imaging_plan.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/backend.h"
#include "src/clean/checkpoint.h"
#include "src/clean/clean_field.h"
#include "src/facets/facet_gridding.h"
#include "src/run/image_writer.h"
#include "src/pb/pb_samples.h"
#include "src/run/open_sets.h"
#include "src/sky/phase_shift.h"

/* ---- The samples ---- */

static double longest_baseline_lambda(const msi_ms_reader *reader)
{
    const double longest_m = msi_ms_reader_observation(reader)->longest_baseline_m;
    return longest_m * msi_set_report_highest_hz(reader) / MSI_SPEED_OF_LIGHT;
}

void msi_imaging_scan_bound(msi_imaging_scan *scan, const msi_ms_reader *reader)
{
    *scan = (msi_imaging_scan){.n_row = msi_ms_reader_n_row(reader),
                               .n_sample = msi_ms_reader_n_sample(reader),
                               .w_max_lambda = longest_baseline_lambda(reader)};
}

static void scan_row(msi_imaging_scan *scan, const msi_ms_block *b, const msi_image_geometry *g, const double uvw_m[3])
{
    const double length_m = sqrt(uvw_m[0] * uvw_m[0] + uvw_m[1] * uvw_m[1] + uvw_m[2] * uvw_m[2]);
    for (int32_t c = 0; c < b->n_chan; c++) {
        const double f = b->freq_hz[c] / MSI_SPEED_OF_LIGHT;
        if (fabs(uvw_m[0] * f * g->cell_x_rad) > 0.5 || fabs(uvw_m[1] * f * g->cell_y_rad) > 0.5) {
            scan->n_outside++;
            continue;
        }
        scan->n_sample++;
        scan->longest_lambda = fmax(scan->longest_lambda, length_m * f);
        scan->w_min_lambda = fmin(scan->w_min_lambda, fabs(uvw_m[2]) * f);
        scan->w_max_lambda = fmax(scan->w_max_lambda, fabs(uvw_m[2]) * f);
    }
}

int msi_imaging_scan_read(msi_imaging_scan *scan, msi_ms_reader *reader, const msi_image_geometry *geometry,
                          double ra_rad, double dec_rad)
{
    *scan = (msi_imaging_scan){.w_min_lambda = HUGE_VAL};
    msi_ms_block b = {0};
    msi_progress_begin("scanning");
    for (;;) {
        MSI_TRY(msi_ms_reader_next(reader, &b));
        if (!b.n_row) break;
        msi_phase_shift shift;
        msi_phase_shift_make(&shift, b.ra_rad, b.dec_rad, ra_rad, dec_rad);
        for (int64_t row = 0; row < b.n_row; row++) {
            double uvw_m[3];
            msi_phase_shift_rotate(&shift, 1, b.uvw_m + 3 * row, uvw_m);
            scan_row(scan, &b, geometry, uvw_m);
        }
        scan->n_row += b.n_row;
        msi_progress_at(scan->n_row, msi_ms_reader_n_row(reader));
        MSI_TRY(msi_interrupt_check());
    }
    msi_progress_end();
    return MSI_OK;
}

/* ---- The plan ---- */

int64_t msi_imaging_gridder_bytes(const msi_options *o)
{
    const int64_t unplanned = msi_unplanned_bytes(MSI_BACKEND_CPU);
    return o->memory_limit_bytes > unplanned ? o->memory_limit_bytes - unplanned : 1;
}

/* Refuse an image that is larger than the memory of the machine. No grid can be planned for it, so the message has no
 * size of a grid. */
static int check_size(const msi_image_geometry *g)
{
    const double image_gb = 4e-9 * (double)g->nx * (double)g->ny;
    if (image_gb <= 1e-9 * (double)msi_memory_physical()) return MSI_OK;
    return msi_error_set(MSI_ENOMEM, "an image of %lld x %lld needs more than %.3f GB of memory; the limit is %.3f GB",
                         (long long)g->nx, (long long)g->ny, image_gb, 1e-9 * (double)msi_memory_limit());
}

static int64_t one_image_bytes(const msi_imaging_need *need, msi_precision precision)
{
    const msi_options *o = need->options;
    const int n_image = o->make_psf_only ? 1 : need->n_plane + o->make_psf;
    return n_image * msi_image_n_pixel(&o->geometry) * msi_image_pixel_bytes(precision);
}

static int64_t density_bytes(const msi_options *o)
{
    const msi_density_grid density = msi_density_grid_of(&o->geometry, &o->weighting);
    return density.nu * (density.nv / 2) * 8;
}

/* Return the bytes of the densities, which are freed before the first image is made. */
static int64_t weighting_bytes(const msi_imaging_need *need)
{
    const msi_options *o = need->options;
    /* sums of the first plane's samples, and of samples that only other planes have */
    const int n_sum = need->n_plane > 1 ? 2 : 1;
    const int n_grid = n_sum + (o->weighting.rank_level >= 1); /* one more for limited factors */
    return o->weighting.mode != MSI_WEIGHT_NATURAL || o->weighting.taper.at_cells ? density_bytes(o) * n_grid : 0;
}

/* Return the bytes of a dirty image and, with several channels, of their mean. */
static int64_t mean_bytes(const msi_imaging_need *need, msi_precision precision)
{
    return one_image_bytes(need, precision) * (need->options->channels_out < 2 ? 1 : 2);
}

/* Return the bytes of temporary arrays while an image is written: for images corrected for the beam, a copy and the
 * beam; for -save-uv, a complex plane and its real and imaginary parts; for -save-weights, a grid of weights and the
 * plane made of its two halves. The arrays of the last two are not needed at the same time. */
static int64_t writing_bytes(const msi_imaging_need *need, msi_precision precision)
{
    const msi_options *o = need->options;
    const int64_t n_pixel = msi_image_n_pixel(&o->geometry);
    const int n_sum = need->n_plane > 1 ? 2 : 1;
    int64_t bytes = 0;
    if (o->pb.apply || o->pb.correct)
        bytes += n_pixel * (need->n_plane * msi_image_pixel_bytes(precision) + (int64_t)sizeof(float));
    if (o->save_uv)
        bytes += n_pixel * 32;
    else if (o->save_weights || o->report)
        bytes += (2 + n_sum) * density_bytes(o);
    return bytes;
}

/* Return the bytes for a residual through the primary beam: visibilities of one channel, and predictions of the model
 * multiplied by some terms of the beam. */
static int64_t beam_bytes(const msi_imaging_need *need, msi_precision precision)
{
    const msi_options *o = need->options;
    const int n = need->n_plane > MSI_PB_PLANES_AT_ONCE ? need->n_plane : MSI_PB_PLANES_AT_ONCE;
    const int64_t n_sample = need->scan.n_sample / o->channels_out;
    return (n + need->n_plane) * (n_sample * msi_complex_bytes(precision) +
                                  msi_image_n_pixel(&o->geometry) * msi_image_pixel_bytes(precision));
}

/* Return the bytes of a mosaic: responses of channels, planes of fields and of their sum, and a copy of a channel's
 * samples for the PSF. */
static int64_t mosaic_bytes(const msi_imaging_need *need, const msi_gridder_report *r)
{
    enum { RESPONSES = 2, PLANES = 4, ROW_BYTES = 32 };
    const msi_options *o = need->options;
    const int64_t n = msi_image_n_pixel(&o->geometry), n_sample = need->scan.n_sample / o->channels_out;
    const int64_t of_sample = msi_complex_bytes(r->precision) + (int64_t)sizeof(float);
    /* With Taylor terms there are a response at each node, and planes of powers. */
    const int64_t n_power = o->clean.n_taylor ? 2 * o->clean.n_taylor - 1 : 1;
    return n * ((int64_t)sizeof(float) * (RESPONSES * o->channels_out + (n_power > 1 ? n_power : 0)) +
                (int64_t)PLANES * need->n_plane * n_power * msi_image_pixel_bytes(r->precision)) +
           2 * n_sample * of_sample + (n_power - 1) * need->n_plane * n_sample * msi_complex_bytes(r->precision) +
           ROW_BYTES * need->scan.n_row;
}

msi_clean_field_spec msi_imaging_field_spec(const msi_options *o, const msi_plane *planes, int n_plane)
{
    return (msi_clean_field_spec){.options = &o->clean,
                                  .geometry = o->geometry,
                                  .accuracy = o->accuracy,
                                  .accuracy_follows = o->accuracy_follows,
                                  .n_thread = o->n_threads,
                                  .grid_x = o->clean.psf_grid[0] ? (int)o->clean.psf_grid[0] : 1,
                                  .grid_y = o->clean.psf_grid[1] ? (int)o->clean.psf_grid[1] : 1,
                                  .n_pol = n_plane,
                                  .planes = planes,
                                  .searched = msi_clean_options_searched_planes(o)};
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Plan the images of a run without cleaning. */
static void plan_dirty(msi_imaging_plan *plan, const msi_imaging_need *need, int is_paged)
{
    const int64_t images = mean_bytes(need, plan->gridder.precision);
    plan->image_bytes = writing_bytes(need, plan->gridder.precision) + (is_paged ? 0 : images);
    plan->alone_bytes = plan->image_bytes;
    plan->paged_bytes = is_paged ? images : 0;
}

/* Return the bytes of the restored Taylor terms, and with -pbcor of the beam's terms and the covariances. */
static int64_t term_bytes(const msi_imaging_need *need, msi_precision precision)
{
    const msi_options *o = need->options;
    const int64_t n_pixel = msi_image_n_pixel(&o->geometry), n_image = o->clean.n_taylor * need->n_plane,
                  bytes = msi_image_pixel_bytes(precision), of_float = msi_image_pixel_bytes(MSI_FP32);
    return n_pixel * (n_image * bytes + (n_image && o->pb.correct ? (n_image + 3) * of_float : 0));
}

static const int64_t WORKED_PIXELS = 8192 * 8192;

/*
 * Plan cleaning: planes and cleaners of a field, on the backend that does the work. While gridders work, the field and
 * the means of dirty images and PSFs are in memory. At other times more memory may be used: when PSFs are copied to
 * cleaners, noise is measured, or images are restored, written, and added to the means of other kinds.
 */
static int plan_cleaning(msi_imaging_plan *plan, const msi_imaging_need *need, int is_paged)
{
    const msi_options *o = need->options;
    const msi_clean_options *c = &o->clean;
    const msi_precision precision = plan->gridder.precision;
    const int n_channel = c->n_taylor ? (int)c->n_taylor : c->join_channels ? (int)o->channels_out : 1;
    const int64_t n_gridder = c->n_taylor || c->join_channels ? o->channels_out : 1;
    const int64_t plane = msi_image_n_pixel(&o->geometry) * msi_image_pixel_bytes(precision);
    const int64_t images = need->n_plane * plane;
    double *freq_hz;
    msi_clean_field_bytes bytes;
    MSI_TRY(msi_alloc(&freq_hz, n_channel, sizeof *freq_hz, "frequencies"));
    for (int i = 0; i < n_channel && !c->n_taylor; i++)
        freq_hz[i] = 0.5 * (need->channels->low_hz[i] + need->channels->high_hz[i]);
    msi_clean_field_spec field = msi_imaging_field_spec(o, need->planes, need->n_plane);
    if (plan->psfs_bytes) field.grid_x = field.grid_y = 1;
    field.n_channel = n_channel;
    field.freq_hz = freq_hz;
    const int rc = msi_clean_field_estimate(&field, &plan->gridder, is_paged, &bytes);
    msi_free(freq_hz);
    MSI_TRY(rc);
    /* The sorted samples of all channels of the field stay in memory. */
    const int64_t kept = (n_gridder - 1) * plan->gridder.kept_bytes;
    const int64_t means = o->channels_out > 1 ? images + plane : 0,
                  last_means = o->channels_out > 1 ? (3 + c->save_first_residual) * images : 0;
    const int64_t n_mask = o->clean.previous_mask ? (o->clean.join_pols ? 1 : need->n_plane) : 0;
    plan->image_bytes = bytes.host + (is_paged ? 0 : kept + means) +
                        n_mask * msi_image_n_pixel(&o->geometry) * (int64_t)sizeof(uint16_t);
    plan->alone_bytes = larger(bytes.psfs + (is_paged ? 0 : plane), bytes.measuring);
    plan->alone_bytes =
        larger(plan->alone_bytes, larger(bytes.restoring, term_bytes(need, precision)) +
                                      writing_bytes(need, precision) + (is_paged ? 0 : last_means + images));
    plan->alone_bytes += plan->image_bytes + (is_paged ? 0 : plan->gridder.kept_bytes);
    plan->paged_bytes = is_paged ? bytes.paged + kept + means + last_means + images : 0;
    plan->device_bytes += bytes.device;
    plan->least_device_bytes = bytes.least_device;
    /* cuFFT may need no work area for smaller images. */
    plan->restoring_device_bytes = msi_image_n_pixel(&o->geometry) < WORKED_PIXELS ? 0 : bytes.restoring_device;
    return MSI_OK;
}

/* Count the checkpoint of a field. While it is replaced, the old and the new one are on disk. */
static void count_checkpoint(msi_imaging_plan *plan, const msi_imaging_need *need)
{
    const msi_options *o = need->options;
    const msi_clean_options *c = &o->clean;
    const int64_t n_channel = c->join_channels ? o->channels_out : 1;
    const int64_t n_cleaned = c->n_taylor                 ? 2 * c->n_taylor - 1
                              : c->deconvolution_channels ? c->deconvolution_channels
                                                          : n_channel;
    const int64_t n_plane = n_cleaned + (c->save_first_residual ? o->channels_out : 0);
    plan->output_bytes += 2 * msi_checkpoint_field_bytes(&o->geometry, (int)n_plane * need->n_plane,
                                                         c->join_pols ? 1 : need->n_plane, plan->gridder.precision);
}

/* Choose how many images may be written while the next ones are computed. They must not force visibilities to disk. A
 * few images are always allowed. More are allowed if they are small, up to as many files as are written at once:
 * compared with the memory limit on a GPU, and with the other memory of the run on the CPU, where most disks write
 * images faster than they are computed. If the run has only one image, that needs no extra memory: it is written while
 * the gridder is freed. */
static void add_pending_images(msi_imaging_plan *plan, const msi_options *o, int n_file, int64_t bytes)
{
    enum { SMALL_PART = 16, MOST_HANDS = 4, CLEANED = 3 }; /* residual, model and restored image */
    const int on_cpu = plan->gridder.backend == MSI_BACKEND_CPU, few = on_cpu ? 2 : 3;
    const int64_t n_image = (o->channels_out + (o->channels_out > 1)) * o->intervals_out *
                            (1 + (o->pb.apply ? 3 : 0) + (o->pb.correct ? 2 : 0)); /* beams, corrected images */
    const int is_only = n_image == 1 && !o->clean.niter, enough = (MSI_FILES_AT_ONCE + n_file - 1) / n_file;
    const int64_t limit = msi_memory_limit(),
                  needed = larger(plan->grid_bytes + plan->image_bytes, plan->alone_bytes) + plan->store_bytes +
                           msi_unplanned_bytes(plan->gridder.backend),
                  small = (on_cpu ? needed : limit) / SMALL_PART, n_put = n_image * (o->clean.niter ? CLEANED : 1);
    int most = enough < few ? few : enough < MSI_IMAGES_IN_FLIGHT ? enough : MSI_IMAGES_IN_FLIGHT;
    if (n_put < most) most = (int)n_put;
    plan->n_hand = 1;
    if (omp_get_max_threads() == 1) return;
    if (is_only) bytes = 0;
    if (!bytes && most > few) most = few; /* images are in files */
    while (plan->n_pending < most && needed + (plan->n_pending + 1) * bytes <= limit &&
           (plan->n_pending < few || (plan->n_pending + 1) * bytes <= small)) {
        plan->n_pending++;
        plan->image_bytes += bytes;
        plan->alone_bytes += bytes;
    }
    /* Some of the pending images are still being prepared for the writer. */
    if (plan->n_pending <= few || !o->clean.niter) return;
    plan->n_hand = plan->n_pending / 2 < MOST_HANDS ? plan->n_pending / 2 : MOST_HANDS;
    plan->n_pending -= plan->n_hand - 1;
}

/* Return the least memory of a run, however much is on disk: that of images and the smallest grids, of images without
 * grids, or of the densities before them, whichever is largest. */
static int64_t least_bytes(const msi_imaging_plan *plan, int64_t weighting)
{
    const int64_t imaging = larger(plan->gridder.least_grid_bytes + plan->image_bytes, plan->alone_bytes);
    return larger(imaging, weighting) + msi_unplanned_bytes(plan->gridder.backend);
}

/* Plan this many bytes of grids in files instead of in memory. A negative number moves them back. */
static void file_grids(msi_imaging_plan *plan, int64_t bytes)
{
    plan->grid_bytes -= bytes;
    plan->gridder.grid_bytes -= bytes;
    plan->gridder.least_grid_bytes -= bytes;
    plan->grid_file_bytes += bytes;
}

/* Plan the images. If memory is short, images that are not in use are put in files, together with sorted samples. If
 * that is not enough, arrays in use are put in files too, and are read and written many times. */
static int plan_images(msi_imaging_plan *plan, const msi_imaging_need *need, int64_t weighting)
{
    const int64_t device_bytes = plan->device_bytes, samples = plan->gridder.sample_bytes,
                  work = plan->gridder.work_bytes;
    file_grids(plan, -plan->grid_file_bytes);
    for (int is_paged = 0; is_paged < 3; is_paged++) {
        const int64_t in_file = is_paged == 1 ? samples : is_paged == 2 ? work : 0;
        plan->device_bytes = device_bytes;
        plan->pages_work = is_paged == 2;
        if (need->options->clean.niter)
            MSI_TRY(plan_cleaning(plan, need, is_paged));
        else
            plan_dirty(plan, need, is_paged);
        file_grids(plan, in_file);
        plan->paged_bytes += plan->grid_file_bytes;
        if (least_bytes(plan, weighting) <= msi_memory_limit()) break;
    }
    return MSI_OK;
}

/* Plan with PSFs that vary over the image. If the memory of host or GPU is too small, plan with one PSF. */
static int plan_psfs(msi_imaging_plan *plan, const msi_imaging_need *need, int64_t weighting)
{
    const msi_clean_options *c = &need->options->clean;
    const int64_t device_bytes = plan->device_bytes;
    MSI_TRY(plan_images(plan, need, weighting));
    if (!c->niter || c->psf_grid[0] * c->psf_grid[1] < 2) return MSI_OK;
    const int is_on_device = plan->gridder.backend == MSI_BACKEND_CUDA;
    const int64_t limit = msi_memory_limit(), least = least_bytes(plan, weighting),
                  device_limit =
                      is_on_device ? msi_backend_device_bytes(msi_gridder_spec_of(need->gridder)->device) : 0;
    const int is_large = device_limit && plan->device_bytes > device_limit;
    if (least <= limit && !is_large) return MSI_OK;
    plan->psfs_bytes = is_large ? plan->device_bytes : least;
    plan->device_bytes = device_bytes;
    return plan_images(plan, need, weighting);
}

/* Divide the memory. Images and the smallest grids must be in memory. Stores of visibilities get the rest of the
 * memory, and spill what exceeds it to a file. */
static int share_memory(msi_imaging_plan *plan, const msi_options *o, int64_t weighting)
{
    const msi_gridder_report *r = &plan->gridder;
    const int64_t limit = msi_memory_limit(), least = least_bytes(plan, weighting);
    if (least > limit) {
        /* The log has this sum too. */
        plan->store_bytes = 0;
        plan->grid_bytes = r->least_grid_bytes;
        plan->image_bytes = least - msi_unplanned_bytes(plan->gridder.backend) - plan->grid_bytes;
        return msi_error_about(
            msi_error_set(MSI_ENOMEM,
                          "an image of %lld x %lld needs %.3f GB of memory (grid %lld x %lld); the limit is %.3f GB",
                          (long long)o->geometry.nx, (long long)o->geometry.ny, 1e-9 * (double)least, (long long)r->nu,
                          (long long)r->nv, 1e-9 * (double)limit),
            "memory");
    }
    const int64_t left = limit - plan->image_bytes - msi_unplanned_bytes(plan->gridder.backend);
    const int64_t before = larger(weighting, plan->alone_bytes); /* memory without grids, before and after gridding */
    const int64_t grid = plan->store_bytes + plan->grid_bytes <= left ? plan->grid_bytes : r->least_grid_bytes;
    const int64_t without = limit - before - msi_unplanned_bytes(plan->gridder.backend);
    const int64_t stores = left - grid < without ? left - grid : without;
    plan->store_budget_bytes = stores > o->channels_out ? stores : o->channels_out;
    if (plan->store_bytes > plan->store_budget_bytes) {
        plan->spilled_bytes = plan->store_bytes - plan->store_budget_bytes;
        plan->store_bytes = plan->store_budget_bytes;
    }
    plan->grid_budget_bytes = left - plan->store_bytes;
    if (plan->grid_bytes > plan->grid_budget_bytes) plan->grid_bytes = plan->grid_budget_bytes;
    /* Limit the grids to the plan. Deep residuals need slightly larger grids than the first residual. */
    const int64_t wanted = larger(plan->grid_bytes, r->least_grid_bytes + r->least_grid_bytes / 4);
    if (plan->grid_budget_bytes > wanted) plan->grid_budget_bytes = wanted;
    /* Plans of gridders also count the grids that are in files. */
    plan->grid_budget_bytes += plan->grid_file_bytes;
    /* The log shows the memory of grids and images. Images that exist without grids may need more than the sum. */
    plan->image_bytes = larger(plan->image_bytes, plan->alone_bytes - plan->grid_bytes);
    return MSI_OK;
}

/* Plan the gridders of the output channels: the largest one, and the bytes of all stores. */
static int plan_gridders(msi_imaging_plan *plan, const msi_imaging_need *need)
{
    const int64_t n_channel = need->options->channels_out;
    const msi_imaging_scan *scan = &need->scan;
    msi_gridder_report *r = &plan->gridder;
    if (!need->loaded) {
        MSI_TRY(msi_gridder_estimate(need->gridder, scan->n_sample / n_channel, scan->n_row, scan->w_min_lambda,
                                     scan->w_max_lambda, r));
        plan->store_bytes = (r->store_bytes + r->spilled_bytes) * n_channel;
        return MSI_OK;
    }
    for (int64_t c = 0; c < n_channel; c++) {
        msi_gridder_report of_channel;
        MSI_TRY(msi_gridder_estimate_stored(need->loaded[c], &of_channel));
        plan->store_bytes += of_channel.store_bytes + of_channel.spilled_bytes;
        if (!c || of_channel.grid_bytes > r->grid_bytes) *r = of_channel;
    }
    return MSI_OK;
}

int msi_imaging_plan_make(msi_imaging_plan *plan, const msi_imaging_need *need)
{
    const msi_options *o = need->options;
    const msi_imaging_scan *scan = &need->scan;
    msi_gridder_report *r = &plan->gridder;
    const int64_t weighting = weighting_bytes(need);
    *plan = (msi_imaging_plan){.output_bytes = need->output_bytes};
    MSI_TRY(check_size(&o->geometry));
    MSI_TRY(plan_gridders(plan, need));
    plan->one_image_bytes = one_image_bytes(need, r->precision);
    plan->grid_bytes = r->grid_bytes;
    plan->device_bytes = r->device_bytes;
    /* The samples of all joined channels stay on the device, since residuals are made from them. */
    if (o->clean.niter && o->clean.join_channels) plan->device_bytes *= o->channels_out;
    if (o->clean.niter) count_checkpoint(plan, need);
    MSI_TRY(plan_psfs(plan, need, weighting));
    if (msi_options_has_facets(o)) {
        const int64_t of_plane = msi_complex_bytes(r->precision) + (int64_t)sizeof(float);
        const int n_stored = (int)(msi_gridder_store_bytes(need->gridder, 1, 0) / of_plane);
        const int64_t n_sample = scan->n_sample / o->channels_out;
        const int n_image = need->n_plane * (o->clean.n_taylor ? (int)o->clean.n_taylor : 1);
        plan->image_bytes += msi_facet_bytes(n_sample, scan->n_row, n_image, n_stored, r->precision, o->clean.niter > 0,
                                             o->facets.aterms != NULL);
    }
    if (o->pb.grid) plan->image_bytes += beam_bytes(need, r->precision);
    if (o->pb.mosaic) plan->image_bytes += mosaic_bytes(need, r);
    /* The PSF of a cleaned image is written separately. */
    const int n_file = need->n_plane + (o->make_psf && !o->clean.niter);
    const int64_t pending = plan->one_image_bytes / (need->n_plane + o->make_psf) * n_file;
    add_pending_images(plan, o, n_file, plan->paged_bytes ? 0 : pending);
    /* Facets and mosaics have gridders of other sizes. Gridders of all channels keep their planes between residuals. */
    const int64_t n_gridder = o->clean.niter && (o->clean.join_channels || o->clean.n_taylor) ? o->channels_out : 1;
    const int64_t of_gridders = msi_options_has_facets(o) || o->pb.mosaic
                                    ? 0
                                    : r->least_device_bytes * ((n_gridder + need->n_gpu - 1) / need->n_gpu);
    plan->least_device_bytes += larger(of_gridders, plan->restoring_device_bytes);
    MSI_TRY(share_memory(plan, o, weighting));
    plan->read_s = (double)scan->n_sample / MSI_READ_SAMPLES_PER_S * (o->selection.coordinates_only ? 0.1 : 1);
    plan->image_s = r->estimate_s * (double)o->channels_out;
    return MSI_OK;
}
