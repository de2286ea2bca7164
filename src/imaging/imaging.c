/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An imaging run: it starts its processes, images the intervals one after the other, and gives all files their names at
 * the end. image_interval lists the stages of an interval: open, plan, load, weight, image or clean. The stages are in
 * this file because they share the state of the run. The functions that they call are in the other files of this
 * directory.
 */
#include "src/run/runs.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/ordered_parallel.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"
#include "io/ms/ms_paths.h"
#include "io/ms/reader_pool.h"
#include "kernels/gridder.h"
#include "src/clean/clean_mask.h"
#include "src/imaging/imaging_clean.h"
#include "src/imaging/imaging_run.h"
#include "src/options/gridder_choice.h"
#include "src/run/block_conversion.h"
#include "src/run/open_sets.h"
#include "src/run/ranks.h"
#include "src/sky/stokes.h"

static_assert((int)MSI_MAX_PLANES < (int)MSI_GRIDDER_MAX_PLANES, "a gridder has space for all planes and the PSF");

/* ---- Open ---- */

/* Choose the centre of the images: the given one, the phase centre of the fields, or that of a mosaic. */
static int choose_centre(msi_imaging_run *r)
{
    const msi_observation *obs = msi_ms_reader_observation(r->reader);
    const msi_options *o = r->options;
    MSI_TRY(o->shift_set || o->pb.mosaic ? msi_ms_reader_check_shift(r->reader)
                                         : msi_ms_reader_check_frames(r->reader));
    if (o->pb.mosaic && !o->shift_set) {
        msi_mosaic_centre(r->reader, o->pb.by_table, &r->ra_rad, &r->dec_rad);
        return MSI_OK;
    }
    if (!o->shift_set && !msi_ms_reader_one_centre(r->reader))
        return msi_error_set(MSI_EINPUT,
                             "the selected fields or sets have different phase centres; name one with -shift RA DEC, "
                             "select one with -field, or join them through their beams with -mosaic");
    /* Phase centres closer than this belong to one pointing; frames and a new centring cause such differences. */
    static const double ONE_POINTING_RAD = 1e-5;
    if (r->interval == 0 && !o->pb.apply && !o->pb.correct && !o->pb.mosaic &&
        msi_ms_reader_field_distance(r->reader) > ONE_POINTING_RAD)
        msi_log_warning(
            "pointings with different phase centres are joined without their primary beams: fluxes away from "
            "a pointing's centre are wrong; join them through the beams with -mosaic, or image them one by one with "
            "-field");
    if (o->shift_is_field) return msi_ms_reader_centre_of(r->reader, o->shift_field, &r->ra_rad, &r->dec_rad);
    r->ra_rad = o->shift_set ? o->shift_ra_rad : obs->ra_rad;
    r->dec_rad = o->shift_set ? o->shift_dec_rad : obs->dec_rad;
    return MSI_OK;
}

/* Write the names of several fields for headers and pictures, as many as fit. */
static void name_fields(msi_observation *o, const msi_ms_reader *reader)
{
    char all[sizeof o->object];
    if (msi_set_report_fields(all, sizeof all, reader, 0) > 1) memcpy(o->object, all, sizeof all);
}

/* Check that every spectral setup has the correlations for all planes, before samples are read and in a dry run. */
static int check_planes(const msi_imaging_run *r)
{
    const int n = msi_ms_reader_n_spw(r->reader);
    msi_mix mix[MSI_MAX_PLANES];
    const msi_ms_spw *lacking = NULL;
    int rc = MSI_OK, n_whole = 0;
    for (int i = 0; i < n; i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(r->reader, i);
        const int status = msi_mix_make(mix, r->planes, r->n_plane, r->options->stokes_weight, spw->corr, spw->n_corr);
        n_whole += !status;
        if (!status) continue;
        rc = status;
        lacking = spw;
    }
    if (!rc || !n_whole) return rc;
    return msi_error_append(rc, ", those of spectral window %d (DATA_DESC_ID %d) of %s; -spws or -taql leaves it out",
                            lacking->spw_id, lacking->data_desc_id, r->options->ms_paths[lacking->set]);
}

/* Set the frequencies of the planes of cubes. */
static int set_axis(msi_imaging_run *r)
{
    const msi_channel_grid *g = &r->grid;
    const msi_cube_request *q = &r->options->cube.grid;
    msi_fits_cube axis = {.n = r->channels.n, .is_not_radio = q->velocity != MSI_VELOCITY_RADIO};
    if (g->n)
        axis.first_hz = g->first_hz + (g->descends ? (double)(g->n - 1) * g->step_hz : 0);
    else
        MSI_TRY(msi_output_channels_axis(&r->channels, &axis.first_hz, &axis.step_hz));
    if (g->n) axis.step_hz = g->descends ? -g->step_hz : g->step_hz;
    const double square = g->first_ratio * g->first_ratio;
    if (q->frame) axis.observer_m_s = MSI_SPEED_OF_LIGHT * (square - 1) / (square + 1);
    if (q->frame) snprintf(r->observation.spec_frame, sizeof r->observation.spec_frame, "%s", q->frame);
    if (q->rest_hz > 0) r->observation.rest_freq_hz = q->rest_hz;
    msi_outputs_set_axis(r->outputs, &axis);
    return MSI_OK;
}

static int open_reader(msi_imaging_run *r)
{
    msi_interval t;
    msi_progress_begin("opening");
    const msi_open_request request = {r->interval, r->ranks->rank, r->options->dry_run ? 0 : r->ranks->size};
    MSI_TRY(msi_open_sets_interval(&t, r->reader_pool, r->options, &request));
    msi_progress_end();
    r->reader = t.reader;
    r->is_empty = t.is_empty;
    r->observation = t.observation;
    if (r->modelled) r->modelled[r->interval] = (msi_model_interval){t.begin, t.end, t.is_empty};
    name_fields(&r->observation, r->reader);
    if (r->is_empty) msi_log_warning("interval %lld has no selected row; its images are NaN", (long long)r->interval);
    /* Output channels are the same in all intervals, even if an interval lacks some spectral windows. */
    int rc = choose_centre(r);
    if (!rc) rc = check_planes(r);
    if (!rc && r->grid.n) rc = msi_output_channels_regular(&r->channels, &r->grid);
    if (!rc && !r->grid.n)
        rc = msi_output_channels_make(&r->channels, t.whole ? t.whole : t.reader, r->options->channels_out,
                                      &r->options->division);
    if (!rc && r->options->cube.is_cube && r->outputs) rc = set_axis(r);
    msi_ms_reader_free(t.whole);
    return rc;
}

/* ---- Plan ---- */

static msi_gridder_spec gridder_spec(const msi_imaging_run *r)
{
    const msi_options *o = r->options;
    msi_gridder_spec spec = msi_gridder_choice_spec(o);
    if (r->needs_cpu) spec.backend = MSI_BACKEND_CPU;
    spec.geometry = o->geometry;
    spec.n_plane = r->n_plane;
    spec.residual = o->clean.niter > 0 || r->mosaic;
    spec.psf = o->make_psf && !spec.residual; /* a gridder of residuals makes the PSF by a separate call */
    spec.psf_only = o->make_psf_only && !spec.residual;
    spec.n_term = (int)o->clean.n_taylor;
    spec.reference_hz = msi_imaging_reference(r);
    spec.memory_bytes = msi_imaging_gridder_bytes(o);
    spec.store_bytes = r->plan.store_budget_bytes / o->channels_out;
    spec.grid_bytes = r->plan.grid_budget_bytes;
    spec.n_tile = r->plan.gridder.n_tile;
    spec.temp_dir = r->temp_dir;
    msi_imaging_facets_gridder(r, &spec);
    spec.tagged |= r->beam != NULL;
    return spec;
}

/* Return 1 if several channels may be cleaned at the same time. They must be independent, and must not use what only
 * one thread may use: files of earlier runs, means of primary beams, ranks. */
static int cleans_apart(const msi_imaging_run *r)
{
    const msi_clean_options *c = &r->options->clean;
    return c->niter && !c->join_channels && !c->n_taylor && r->options->channels_out > 1 && r->ranks->size == 1 &&
           !r->facets && !r->beam && !r->mosaic && !r->pb && !r->plan.paged_bytes && !c->reuse_psf && !c->reuse_dirty &&
           !c->continues && !c->resume && !c->previous_mask && !c->local_rms_image &&
           c->psf_grid[0] * c->psf_grid[1] < 2;
}

/* Return the host memory of one more channel that is imaged at the same time. */
static int64_t slot_bytes(const msi_imaging_run *r)
{
    const msi_imaging_plan *p = &r->plan;
    if (!r->options->clean.niter) return p->one_image_bytes;
    return cleans_apart(r) ? p->image_bytes + p->one_image_bytes : 0;
}

/* Return the number of fields or facets of an output channel; 0 if its image is not divided. */
static int count_units(const msi_imaging_run *r)
{
    return r->mosaic ? r->mosaic->fields.n : r->facets ? r->facets->facets.n : 0;
}

/* Return the host memory for imaging one field of a mosaic: its share of the grids, and its planes. */
static int64_t field_bytes(const msi_imaging_run *r)
{
    enum { PLANES = 4 };
    const msi_imaging_plan *p = &r->plan;
    int64_t largest = 0;
    for (int i = 0; i < r->mosaic->fields.n; i++) {
        const int64_t n = r->mosaic->fields.field[i].nx * r->mosaic->fields.field[i].ny;
        largest = n > largest ? n : largest;
    }
    const double part = (double)largest / (double)msi_image_n_pixel(&r->options->geometry);
    const int64_t n_plane = r->n_plane * (r->options->clean.n_taylor ? 2 * r->options->clean.n_taylor - 1 : 1);
    return (int64_t)(part * (double)p->grid_bytes) +
           PLANES * n_plane * largest * msi_image_pixel_bytes(p->gridder.precision);
}

/* Return the memory that a plan leaves free. */
static int64_t free_bytes(const msi_imaging_plan *p)
{
    return msi_memory_limit() - p->store_bytes - p->grid_bytes - p->image_bytes -
           msi_unplanned_bytes(p->gridder.backend);
}

/* Distribute the work over the GPUs or threads, and log the plan. */
static void share_work(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    msi_imaging_plan *p = &r->plan;
    const msi_gpu_work work = {.gridder = &p->gridder,
                               .n_channel = o->channels_out,
                               .n_image = r->n_plane + (o->make_psf && !o->clean.niter),
                               .n_unit = count_units(r),
                               .unit = r->mosaic ? "fields" : "facets",
                               .one_gpu_s = p->image_s,
                               .apart = !o->clean.niter || cleans_apart(r),
                               .device_bytes = p->device_bytes,
                               .slot_bytes = slot_bytes(r),
                               .free_bytes = free_bytes(p)};
    msi_gpu_share_plan(&r->gpus, o, &work);
    if (r->gpus.n_slot > 1) p->image_bytes += (r->gpus.n_slot - 1) * work.slot_bytes;
    if (r->gpus.n_slot > r->gpus.n) p->device_bytes *= r->gpus.n_slot / r->gpus.n;
    p->image_s = msi_gpu_share_s(&r->gpus, &work);
    if (r->mosaic) {
        const int64_t each = field_bytes(r);
        r->mosaic->fields.n_worker = p->gridder.backend == MSI_BACKEND_CUDA
                                         ? r->gpus.n
                                         : msi_ordered_at_once(work.n_unit, each, each + free_bytes(p));
        p->image_bytes += (r->mosaic->fields.n_worker - 1) * each;
    }
    msi_imaging_report_plan(p, o);
    if (r->mosaic && p->gridder.backend != MSI_BACKEND_CUDA)
        msi_log_detail("mosaic: %d field%s at a time", r->mosaic->fields.n_worker,
                       msi_plural(r->mosaic->fields.n_worker));
    msi_gpu_share_report(&r->gpus, &work);
}

/* Reduce the number of channels that are imaged at the same time if other programs use the GPUs. */
static void adjust_gpus(msi_imaging_run *r)
{
    const int each = r->gpus.n_slot / r->gpus.n;
    if (r->plan.gridder.backend == MSI_BACKEND_CUDA && each > 1)
        msi_gpu_share_adjust(&r->gpus, r->plan.device_bytes / each);
}

/* Return the number of samples in all planes of a cube in another frame. */
static int64_t n_framed_sample(const msi_imaging_run *r, const msi_imaging_scan *scan)
{
    const msi_channel_grid *g = &r->grid;
    if (!g->n) return scan->n_sample;
    const int64_t most = scan->n_row * g->n * g->n_part;
    const int is_wide = g->interpolation == MSI_CHANNEL_NEAREST && g->step_hz >= g->data_width_hz;
    return is_wide && scan->n_sample < most ? scan->n_sample : most;
}

/*
 * Plan images in tiles, with the smallest number of tiles that fits.
 * Given:              spec  of the gridder
 *                     need  with the number of samples
 *                     in_memory  1: arrays in use may not be in files
 * Given and returned: *empty  the gridder without samples, replaced
 * Returns:            0; MSI_ENOMEM with the message of the last plan if none fits, or if tiles are not possible
 */
static int plan_tiles(msi_imaging_run *r, msi_gridder_spec spec, msi_imaging_need *need, int in_memory,
                      msi_gridder **empty)
{
    static const int NUMBERS[] = {2, 3, 4, 6, 8, 12, 16};
    int rc = MSI_ENOMEM;
    /* If there is no plan, an allocation has failed, and images in tiles would not help. */
    if (!r->plan.gridder.least_grid_bytes) return rc;
    if (r->plan.gridder.backend != MSI_BACKEND_CPU || strcmp(r->plan.gridder.method, "wgrid") != 0 ||
        msi_options_has_facets(r->options))
        return rc;
    for (size_t i = 0; rc == MSI_ENOMEM && i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        const int64_t least = r->plan.gridder.least_grid_bytes;
        msi_gridder_free(*empty);
        *empty = NULL;
        spec.n_tile = NUMBERS[i];
        MSI_TRY(msi_gridder_create(empty, &spec));
        need->gridder = *empty;
        rc = msi_imaging_plan_make(&r->plan, need);
        if (!rc && in_memory && r->plan.pages_work) rc = MSI_ENOMEM;
        if (r->plan.gridder.least_grid_bytes >= least) break;
    }
    return rc;
}

/* If the plan has arrays in use in files, plan images in tiles instead, if those are in memory and take less time. */
static int plan_faster_tiles(msi_imaging_run *r, const msi_gridder_spec *spec, msi_imaging_need *need,
                             msi_gridder **empty)
{
    const msi_imaging_plan whole = r->plan;
    const msi_gridder *before = *empty;
    msi_gridder *of_tiles = NULL;
    if (!whole.pages_work) return MSI_OK;
    const int rc = plan_tiles(r, *spec, need, 1, &of_tiles);
    const int is_faster = !rc && r->plan.image_s < whole.image_s;
    if (!is_faster) r->plan = whole;
    need->gridder = before;
    msi_gridder_free(of_tiles);
    return rc == MSI_ENOMEM || rc == MSI_ERANGE ? MSI_OK : rc;
}

/* Refuse an inner taper that ends beyond the longest baseline: it was probably given in another unit.
 * Given: longest  in wavelengths; 0: unknown */
static int check_taper_within(const msi_uv_taper *t, double longest)
{
    if (!(t->inner_tukey > 0) || !(longest > 0) || t->inner_lambda + t->inner_tukey <= longest) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "-taper-inner-tukey %g: it ends at %g wavelengths, beyond the longest baseline of %.6g; give "
                         "less",
                         t->inner_tukey, t->inner_lambda + t->inner_tukey, longest);
}

/* Plan for the CPU if the GPU has less memory than the plan needs at least.
 * Given:              spec, need  of the plan
 * Given and returned: *rc  result of the plan
 * Returns:            0, MSI_ENOMEM (-backend cuda was given), or any code of msi_gridder_create */
static int leave_small_gpu(msi_imaging_run *r, msi_gridder_spec *spec, msi_imaging_need *need, msi_gridder **empty,
                           int *rc)
{
    const msi_options *o = r->options;
    char what[96];
    int fits;
    if (*rc && *rc != MSI_ENOMEM) return MSI_OK;
    snprintf(what, sizeof what, "%s images of %lld x %lld", o->clean.niter ? "cleaned" : "dirty",
             (long long)o->geometry.nx, (long long)o->geometry.ny);
    MSI_TRY(msi_gpu_share_check_memory(&r->gpus, o, &r->plan.gridder, r->plan.least_device_bytes, what, &fits));
    if (fits) return MSI_OK;
    r->needs_cpu = 1;
    spec->backend = MSI_BACKEND_CPU;
    msi_gridder_free(*empty);
    *empty = NULL;
    MSI_TRY(msi_gridder_create(empty, spec));
    need->gridder = *empty;
    *rc = msi_imaging_plan_make(&r->plan, need);
    return MSI_OK;
}

/* Plan the run from bounds that are known before visibilities are read. A dry run has read all coordinates, and plans
 * from these. */
static int make_plan(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    msi_gridder_spec spec = gridder_spec(r);
    msi_imaging_need need = {.options = o,
                             .planes = r->planes,
                             .n_plane = r->n_plane,
                             .channels = &r->channels,
                             .output_bytes = r->outputs ? msi_outputs_bytes(r->outputs) : 0};
    msi_gridder *empty;
    MSI_TRY(msi_gpu_share_check(&r->gpus, o));
    need.n_gpu = msi_gpu_share_most(&r->gpus, o);
    spec.device = r->gpus.device[0];
    msi_imaging_scan_bound(&need.scan, r->reader);
    spec.longest_lambda = need.scan.w_max_lambda;
    if (o->dry_run && !r->ranks->rank) {
        MSI_TRY(msi_imaging_scan_read(&need.scan, r->reader, &o->geometry, r->ra_rad, r->dec_rad));
        MSI_TRY(check_taper_within(&o->weighting.taper, need.scan.longest_lambda));
        /* The plan depends on the GPU's free memory. A dry run waits for the GPU here; other runs wait after
         * reading. */
        msi_backend_await(r->gpus.device, r->gpus.n);
    }
    need.scan.n_sample = n_framed_sample(r, &need.scan);
    const msi_imaging_scan whole = need.scan;
    /* A rank has at most one block more than its share, which msi_unplanned_bytes includes. */
    const double share =
        o->dry_run ? 1.0 / r->ranks->size
                   : (double)msi_ms_reader_n_share_row(r->reader) / fmax(1, (double)msi_ms_reader_n_row(r->reader));
    need.scan.n_row = (int64_t)ceil((double)need.scan.n_row * share);
    need.scan.n_sample = (int64_t)ceil((double)need.scan.n_sample * share);
    MSI_TRY(msi_gridder_create(&empty, &spec));
    need.gridder = empty;
    int rc = msi_imaging_plan_make(&r->plan, &need);
    const int left = leave_small_gpu(r, &spec, &need, &empty, &rc);
    if (left) {
        msi_gridder_free(empty);
        return left;
    }
    if (rc == MSI_ENOMEM && o->clean.niter) {
        /* Another strategy may fit into the memory that cleaning leaves. */
        msi_gridder_free(empty);
        spec.memory_bytes = spec.memory_bytes > r->plan.image_bytes ? spec.memory_bytes - r->plan.image_bytes : 1;
        MSI_TRY(msi_gridder_create(&empty, &spec));
        need.gridder = empty;
        rc = msi_imaging_plan_make(&r->plan, &need);
    }
    if (!rc) rc = plan_faster_tiles(r, &spec, &need, &empty);
    if (rc == MSI_ENOMEM) rc = plan_tiles(r, spec, &need, 0, &empty);
    if (rc == MSI_ERANGE && !o->dry_run) {
        const double bound_lambda = need.scan.w_max_lambda;
        /* If an antenna has a wrong position, the bound of w is too large to be used. UVW are checked when they are
         * read. */
        need.scan.w_max_lambda = 0;
        rc = msi_imaging_plan_make(&r->plan, &need);
        if (rc) {
            /* The bound of w did not cause the failure. Plan again, for the message of the first plan. */
            need.scan.w_max_lambda = bound_lambda;
            rc = msi_imaging_plan_make(&r->plan, &need);
        } else {
            msi_log_warning(
                "ANTENNA: positions up to %.3g m apart give no usable bound of w; memory is planned without it",
                msi_ms_reader_observation(r->reader)->longest_baseline_m);
        }
    }
    msi_gridder_free(empty);
    if (!rc) msi_memory_page_to(r->plan.paged_bytes && !o->dry_run ? r->temp_dir : NULL, r->plan.pages_work);
    if (r->plan.gridder.nu) share_work(r);
    if (!rc && o->dry_run) msi_imaging_report_dry_run(r, &whole);
    return rc;
}

/* Upper bounds of a plan's host memory: bytes per pixel of an image, and bytes for small grids and unplanned memory. */
enum { MOST_PIXEL_BYTES = 128, MOST_OTHER_BYTES = 1 << 30 };

/* Larger images may not fit into a GPU. They are planned before anything is read. */
static const int64_t MOST_FIRST_BYTES = (int64_t)64 << 30;

/* Return 1 if reading begins before the plan is made: if there is a GPU, for which the plan would wait, and enough
 * memory. */
static int reads_first(const msi_imaging_run *r, const msi_gridder *g)
{
    const msi_options *o = r->options;
    const int64_t n_image = (r->n_plane + 1) * o->channels_out;
    const int64_t samples =
        msi_gridder_store_bytes(g, msi_ms_reader_n_sample(r->reader), msi_ms_reader_n_row(r->reader));
    const int64_t images = MOST_OTHER_BYTES + MOST_PIXEL_BYTES * n_image * msi_image_n_pixel(&o->geometry);
    return o->backend != MSI_BACKEND_CPU && !o->dry_run && r->ranks->size == 1 && !r->is_empty &&
           images <= MOST_FIRST_BYTES && samples + images <= msi_memory_limit() / 2;
}

static int open_gridders(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    const int n_part = msi_imaging_n_part(r);
    MSI_TRY(msi_alloc(&r->gridder, o->channels_out * n_part, sizeof(msi_gridder *), "gridders"));
    for (int64_t i = 0; i < o->channels_out * n_part; i++) {
        msi_gridder_spec spec = gridder_spec(r);
        msi_imaging_mosaic_spec(r, (int)(i % n_part), &spec);
        MSI_TRY(msi_gridder_create_early(&r->gridder[i], &spec));
    }
    return MSI_OK;
}

/* Choose how many channels to image at the same time on the CPU, after the plan is made. msi_gpu_share_plan chooses it
 * for GPUs. */
static int channels_at_once(const msi_imaging_run *r)
{
    if (r->facets || r->mosaic || (r->options->clean.niter && !cleans_apart(r))) return 1;
    if (r->plan.gridder.backend == MSI_BACKEND_CUDA) return r->gpus.n_slot;
    const int64_t each = r->plan.grid_bytes + 2 * r->plan.image_bytes;
    return msi_ordered_at_once(r->options->channels_out, each, each + free_bytes(&r->plan));
}

/* Set backend, device and threads of the gridders according to the plan. */
static int bind_gridders(msi_imaging_run *r)
{
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        msi_gridder_spec spec = gridder_spec(r);
        if (r->plan.gridder.backend == MSI_BACKEND_CUDA)
            msi_gpu_share_gridder(&r->gpus, c, &spec);
        else
            spec.n_thread /= channels_at_once(r);
        if (c == 0 && r->mosaic) MSI_TRY(msi_imaging_mosaic_bind(r, &spec));
        for (int i = 0; i < msi_imaging_n_part(r); i++) {
            msi_gridder_spec of_part = spec;
            msi_imaging_mosaic_spec(r, i, &of_part);
            MSI_TRY(msi_gridder_bind(r->gridder[c * msi_imaging_n_part(r) + i], &of_part));
        }
        if (c == 0 && r->facets) msi_imaging_facets_bind(r, &spec);
        if (c == 0 && r->beam) r->beam->work.spec = spec;
    }
    return MSI_OK;
}

/* Make the plan, and set up the gridders according to it. */
int msi_imaging_plan_gridders(msi_imaging_run *r)
{
    MSI_TRY(make_plan(r));
    r->is_planned = 1;
    return r->options->dry_run ? MSI_OK : bind_gridders(r);
}

/* Log the memory that the samples need, now that they are read: fewer w-planes and rows of them than the longest baseline
 * allows. Nothing is logged for runs whose grids have other sizes. */
static void report_loaded(const msi_imaging_run *r)
{
    enum { MOST_CHANNELS = 16 }; /* planning takes milliseconds for each */
    const msi_options *o = r->options;
    const msi_imaging_plan *p = &r->plan;
    if (p->gridder.backend != MSI_BACKEND_CPU || p->gridder.n_tile > 1 || p->paged_bytes || p->spilled_bytes ||
        r->facets || r->mosaic || r->beam || r->ranks->size > 1 || o->channels_out > MOST_CHANNELS)
        return;
    const msi_imaging_need need = {.options = o,
                                   .gridder = r->gridder[0],
                                   .loaded = r->gridder,
                                   .planes = r->planes,
                                   .n_plane = r->n_plane,
                                   .channels = &r->channels,
                                   .n_gpu = 1};
    msi_imaging_plan plan;
    if (!msi_imaging_plan_make(&plan, &need)) msi_imaging_report_memory(&plan);
}

/* ---- Weigh ---- */

static int check_inner_taper(const msi_imaging_run *r)
{
    double longest = 0;
    if (!(r->options->weighting.taper.inner_tukey > 0)) return MSI_OK;
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        msi_gridder_report report;
        msi_imaging_report_of_channel(r, c, &report);
        longest = fmax(longest, report.longest_lambda);
    }
    MSI_TRY(msi_ranks_largest(r->ranks, &longest, 1));
    return check_taper_within(&r->options->weighting.taper, longest);
}

/* Return the distance between the centres of the first and the last channel, divided by their mean, as CASA does. */
static double fractional_bandwidth(const msi_output_channels *c)
{
    const double low = c->low_hz[0] + c->high_hz[0], high = c->low_hz[c->n - 1] + c->high_hz[c->n - 1];
    return 2 * (high - low) / (high + low);
}

/* Make the weighting rule of a channel. Its limit of w is a fraction of the largest w of all ranks. */
static int rule_of(msi_weighting *rule, const msi_imaging_run *r, const msi_gridder_report *report)
{
    const msi_options *o = r->options;
    double most = report->w_max_lambda;
    *rule = o->weighting;
    if (o->bandwidth_taper) rule->bandwidth = fractional_bandwidth(&r->channels);
    if (!(o->most_w_percent > 0 && o->most_w_percent < 100)) return MSI_OK;
    MSI_TRY(msi_ranks_largest(r->ranks, &most, 1));
    rule->most_w_lambda = 0.01 * o->most_w_percent * most;
    return MSI_OK;
}

/* Return 1 if weights depend on the densities of cells. */
static int needs_density(const msi_weighting *rule)
{
    return rule->mode != MSI_WEIGHT_NATURAL || rule->taper.at_cells;
}

/* The gridders [first, end) of each channel, whose weights are computed together: all of them, or those of one
 * field. */
typedef struct weight_group {
    int first, end;
} weight_group;

/* Add the weights of an output channel to the density. */
static int add_density(msi_imaging_run *r, int64_t channel, weight_group of)
{
    const msi_options *o = r->options;
    if (!r->density) MSI_TRY(msi_density_create(&r->density, &o->geometry, &o->weighting));
    for (int i = of.first; i < of.end; i++)
        MSI_TRY(msi_density_add(r->density, r->gridder[channel * msi_imaging_n_part(r) + i]));
    return MSI_OK;
}

static void free_density(msi_imaging_run *r)
{
    msi_density_free(r->density);
    r->density = NULL;
}

/* Make the weighting rules of all channels, and count their samples. Returned: *rule [channels_out], owned */
static int make_rules(msi_imaging_run *r, msi_weighting **rule)
{
    const int64_t n = r->options->channels_out;
    int rc = msi_alloc(rule, n, sizeof **rule, "weights");
    for (int64_t c = 0; !rc && c < n; c++) {
        msi_gridder_report report;
        msi_imaging_report_of_channel(r, c, &report);
        r->n_kept += report.n_sample;
        rc = rule_of(&(*rule)[c], r, &report);
    }
    return rc;
}

/* Compute the weights of the gridders of a group. Given: rule [channels_out] */
static int weigh_group(msi_imaging_run *r, weight_group of, const msi_weighting *rule)
{
    const msi_options *o = r->options;
    const int64_t n = o->channels_out, n_part = msi_imaging_n_part(r);
    const int has_density = needs_density(&o->weighting);
    for (int64_t c = 0; c < n && has_density && o->mf_weighting; c++) {
        const msi_progress_share all = msi_progress_enter(c, c + 1, 2 * n);
        MSI_TRY(add_density(r, c, of));
        msi_progress_leave(all);
    }
    for (int64_t c = 0; c < n; c++) {
        const msi_progress_share all = msi_progress_enter(n + c, n + c + 1, 2 * n);
        if (has_density && !o->mf_weighting) MSI_TRY(add_density(r, c, of));
        /* Sum a density over the ranks before its first use. */
        msi_density *d = r->density;
        if (d && (c == 0 || !o->mf_weighting)) {
            MSI_TRY(msi_ranks_sum_density(r->ranks, d));
            MSI_TRY(msi_density_limit(d, &o->weighting));
        }
        for (int i = of.first; i < of.end; i++) MSI_TRY(msi_gridder_weight(r->gridder[c * n_part + i], d, &rule[c]));
        if (!o->mf_weighting) free_density(r);
        msi_progress_leave(all);
    }
    free_density(r);
    return MSI_OK;
}

static int weigh_samples(msi_imaging_run *r)
{
    const int n_part = msi_imaging_n_part(r), each = r->mosaic && r->options->pb.weighs_fields ? 1 : n_part;
    msi_weighting *rule = NULL;
    MSI_TRY(check_inner_taper(r));
    msi_progress_begin("weighting");
    int rc = make_rules(r, &rule);
    for (int first = 0; !rc && first < n_part; first += each) {
        const msi_progress_share all = msi_progress_enter(first, first + each, n_part);
        rc = weigh_group(r, (weight_group){first, first + each}, rule);
        msi_progress_leave(all);
    }
    msi_free(rule);
    MSI_TRY(rc);
    msi_progress_end();
    msi_imaging_report_weights(r);
    return MSI_OK;
}

/* ---- Image: output channels, one after the other or several at a time, and their mean ---- */

/* The multi-frequency image: the weighted mean of the images of the channels. */
typedef struct mfs_image {
    msi_image image; /* empty before the first channel */
    msi_imaging_weight weight[MSI_GRIDDER_MAX_PLANES];
} mfs_image;

enum { MFS_STRIPS = 32 };

/* Add the image of a channel to the mean, strip by strip. To each strip, channels are added in order, so that several
 * threads can add strips of different channels at the same time. */
static int mfs_add(mfs_image *mfs, const msi_image *image)
{
    double part[MSI_GRIDDER_MAX_PLANES + 1];
    for (int i = 0; i < MFS_STRIPS; i++) {
        MSI_TRY(msi_ordered_step_begin(i));
        if (i == 0 && !mfs->image.pixel)
            MSI_TRY(msi_image_alloc(&mfs->image, &image->geometry, image->n_plane, image->precision));
        if (i == 0) msi_image_add_weights(&mfs->image, image, part);
        msi_image_add_strip(&mfs->image, image, part, i, MFS_STRIPS);
        msi_ordered_step_end(i);
    }
    return MSI_OK;
}

static int mfs_write(mfs_image *mfs, msi_imaging_run *r)
{
    /* A plane without samples in all channels is NaN. */
    for (int p = 0; p < mfs->image.n_plane; p++)
        if (!mfs->image.n_vis[p]) msi_image_fill_nan(&mfs->image, p);
    return msi_imaging_files_write(r, MSI_OUTPUT_MFS, &mfs->image, mfs->weight);
}

/* The image of a channel, from its gridder to finish_channel. */
typedef struct made_image {
    msi_image image;
    msi_gridder_report report;
    double largest_weight[MSI_GRIDDER_MAX_PLANES];
    int rc; /* result of msi_gridder_image */
} made_image;

/* Return 1 if channels are added to the mean when they are made. With several ranks they are summed over the ranks
 * first. */
static int is_added_early(const msi_imaging_run *r)
{
    return r->options->channels_out > 1 && r->ranks->size == 1;
}

/* Make the image of a channel, and get the report and the weights of its gridder. */
static void make_image(msi_imaging_run *r, int64_t channel, made_image *m)
{
    const int n_part = msi_imaging_n_part(r);
    msi_gridder **gridder = r->gridder + channel * n_part;
    m->rc = r->mosaic   ? msi_imaging_mosaic_image(r, channel, &m->image)
            : r->facets ? msi_imaging_facets_image(r, channel, &m->image)
                        : msi_gridder_image(gridder[0], &m->image);
    msi_imaging_report_of_channel(r, channel, &m->report);
    memset(m->largest_weight, 0, sizeof m->largest_weight);
    for (int i = 0; !m->rc && i < n_part; i++)
        msi_gridder_weights_add(gridder[i], r->n_plane, NULL, m->largest_weight, NULL);
}

/* Sum the image of a channel over the ranks, log it, add it to the mean of all channels if it was not added early, and
 * write it. */
static int finish_channel(msi_imaging_run *r, int64_t channel, made_image *made, mfs_image *mfs)
{
    msi_image *image = &made->image;
    msi_gridder_report *report = &made->report;
    msi_imaging_weight weight[MSI_GRIDDER_MAX_PLANES] = {{0}};
    int64_t most = 0;
    MSI_TRY(msi_ranks_image(r->ranks, image));
    MSI_TRY(msi_ranks_sum(r->ranks, report->sum_vis_weight, r->n_plane, MSI_FP64));
    MSI_TRY(msi_ranks_largest(r->ranks, made->largest_weight, r->n_plane));
    for (int p = 0; p < r->n_plane; p++)
        weight[p] = (msi_imaging_weight){.largest = made->largest_weight[p], .vis_sum = report->sum_vis_weight[p]};
    for (int p = 0; p < image->n_plane; p++) most = image->n_vis[p] > most ? image->n_vis[p] : most;
    r->n_gridded += most;
    msi_imaging_report_empty(r, channel, image->n_plane, image->n_vis);
    msi_imaging_report_channel(channel, most, report);
    for (int p = 0; p < image->n_plane; p++) msi_imaging_weight_add(&mfs->weight[p], &weight[p]);
    if (r->options->channels_out > 1 && !is_added_early(r)) MSI_TRY(mfs_add(mfs, image));
    return msi_imaging_files_write(r, channel, image, weight);
}

/* Free the gridder of a channel, unless its weights are drawn or saved at the end. */
static void release_gridder(msi_imaging_run *r, int64_t c)
{
    const int n_part = msi_imaging_n_part(r);
    if (r->options->save_weights || r->options->report) return;
    for (int64_t i = c * n_part; i < (c + 1) * n_part; i++) {
        msi_gridder_free(r->gridder[i]);
        r->gridder[i] = NULL;
    }
}

/* Parts of the progress of a channel. Its files are the last part. */
enum { WRITE_PARTS = 10 };

/* Return the number of parts of all channels, and of one for the files of the mean. */
static int64_t n_part(const msi_imaging_run *r)
{
    return WRITE_PARTS * r->options->channels_out + (r->options->channels_out > 1);
}

/* Image channels one after the other, each with all threads. Do not call this in a parallel region, even of one thread:
 * inner regions would then start their threads each time. */
static int image_in_turn(msi_imaging_run *r, mfs_image *mfs)
{
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        made_image made = {0};
        const msi_progress_share all = msi_progress_enter(WRITE_PARTS * c, WRITE_PARTS * (c + 1), n_part(r));
        msi_progress_share gridding = msi_progress_enter(0, WRITE_PARTS - 1, WRITE_PARTS);
        made.rc = msi_imaging_files_begin(r);
        if (!made.rc) make_image(r, c, &made);
        if (!made.rc && is_added_early(r)) made.rc = mfs_add(mfs, &made.image);
        msi_progress_leave(gridding);
        gridding = msi_progress_enter(WRITE_PARTS - 1, WRITE_PARTS, WRITE_PARTS);
        int rc = msi_ranks_agree(r->ranks, made.rc);
        if (!rc) rc = finish_channel(r, c, &made, mfs);
        msi_progress_leave(gridding);
        msi_progress_leave(all);
        msi_image_free(&made.image);
        release_gridder(r, c);
        if (rc) return rc;
    }
    return MSI_OK;
}

/* Channels that are imaged at the same time. */
typedef struct channel_slots {
    msi_imaging_run *run;
    mfs_image *mfs;
    int n;
    made_image *made; /* [n] */
} channel_slots;

static int image_in_slot(void *slots, int64_t c)
{
    channel_slots *l = slots;
    made_image *m = &l->made[c % l->n];
    make_image(l->run, c, m);
    if (!m->rc && is_added_early(l->run)) m->rc = mfs_add(l->mfs, &m->image);
    release_gridder(l->run, c);
    return MSI_OK;
}

/* Finish the channels in order, for any number of slots. Ranks agree on each channel. */
static int finish_in_order(void *slots, int64_t c)
{
    channel_slots *l = slots;
    made_image *m = &l->made[c % l->n];
    int rc = msi_ranks_agree(l->run->ranks, m->rc);
    if (!rc) rc = finish_channel(l->run, c, m, l->mfs);
    msi_image_free(&m->image);
    return rc;
}

/* Image several channels at a time, each by a thread or on a GPU. */
static int image_at_once(msi_imaging_run *r, mfs_image *mfs, int at_once)
{
    channel_slots l = {.run = r, .mfs = mfs, .n = at_once};
    const msi_ordered_parallel turns = {.n_item = r->options->channels_out,
                                        .n_thread = at_once,
                                        .work = image_in_slot,
                                        .finish = finish_in_order,
                                        .of = &l};
    MSI_TRY(msi_alloc(&l.made, at_once, sizeof *l.made, "images"));
    const msi_progress_share all = msi_progress_enter(0, WRITE_PARTS * turns.n_item, n_part(r));
    const int rc = msi_ordered_parallel_run(&turns);
    if (!rc) msi_progress_leave(all);
    for (int i = 0; i < at_once; i++) msi_image_free(&l.made[i].image);
    msi_free(l.made);
    return rc;
}

/*
 * image_channels - image and write every output channel, then the mean of all channels.
 * Given:   run  loaded and weighted. run->n_gridded is increased. Gridders are freed when they are not needed any more
 * Returns: 0, or any code of msi_gridder_image and msi_imaging_files_write
 */
static int image_channels(msi_imaging_run *r)
{
    const int at_once = channels_at_once(r);
    mfs_image mfs = {0};
    msi_progress_begin("imaging");
    int rc = at_once > 1 ? image_at_once(r, &mfs, at_once) : image_in_turn(r, &mfs);
    msi_progress_enter(n_part(r) - 1, n_part(r), n_part(r));
    if (!rc && r->options->channels_out > 1) rc = mfs_write(&mfs, r);
    if (!rc) msi_progress_end();
    msi_image_free(&mfs.image);
    return rc;
}

/* Refuse a reference frequency of Taylor terms far outside the band, where the polynomials are ill-conditioned. */
static int check_reference(const msi_imaging_run *r)
{
    const double reference = r->options->clean.reference_hz, low = r->channels.low_hz[0],
                 high = r->channels.high_hz[r->options->channels_out - 1];
    if (!(reference > 0) || (reference >= 0.5 * low && reference <= 2 * high)) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "-reffreq: %.6g MHz lies too far outside the selected band, %.6g to %.6g MHz; give one from "
                         "half the lowest to twice the highest",
                         1e-6 * reference, 1e-6 * low, 1e-6 * high);
}

/* ---- Run ---- */

static int image_interval(msi_imaging_run *r)
{
    msi_imaging_times t = {.start_s = msi_wall_s()};
    MSI_TRY(open_reader(r));
    MSI_TRY(msi_ranks_same(r->ranks, msi_ms_reader_fingerprint(r->reader), "finds other rows or channels in the sets"));
    t.opened_s = msi_wall_s();
    if (r->is_empty && r->options->dry_run) return MSI_OK;
    if (!r->is_empty) msi_imaging_report_subject(r);
    MSI_TRY(check_reference(r));
    if (r->interval == 0 && r->outputs) MSI_TRY(msi_imaging_reuse_check(r));
    MSI_TRY(msi_imaging_pb_open(r));
    MSI_TRY(msi_imaging_facets_open(r));
    MSI_TRY(msi_imaging_mosaic_open(r));
    r->plan = (msi_imaging_plan){0};
    MSI_TRY(open_gridders(r));
    r->is_planned = 0;
    if (!reads_first(r, r->gridder[0])) MSI_TRY(msi_imaging_plan_gridders(r));
    if (r->options->dry_run) return MSI_OK;
    if (!r->is_empty) MSI_TRY(msi_imaging_load(r));
    if (!r->is_planned) MSI_TRY(msi_imaging_plan_gridders(r));
    if (!r->is_empty) MSI_TRY(msi_imaging_move_to_gpu(r));
    t.loaded_s = msi_wall_s();
    if (!r->is_empty) report_loaded(r);
    MSI_TRY(weigh_samples(r));
    MSI_TRY(msi_imaging_facets_respond(r));
    MSI_TRY(msi_imaging_mosaic_channels(r));
    t.weighed_s = msi_wall_s();
    adjust_gpus(r);
    MSI_TRY(r->options->clean.niter ? msi_imaging_clean_run(r, channels_at_once(r)) : image_channels(r));
    MSI_TRY(msi_imaging_cube_restore(r));
    t.imaged_s = msi_wall_s();
    msi_imaging_report_times(r, &t);
    return MSI_OK;
}

static void end_interval(msi_imaging_run *r)
{
    for (int64_t i = 0; r->gridder && i < r->options->channels_out * msi_imaging_n_part(r); i++)
        msi_gridder_free(r->gridder[i]);
    msi_free(r->gridder);
    r->gridder = NULL;
    free_density(r);
    msi_imaging_mosaic_close(r);
    msi_imaging_pb_close(r);
    msi_imaging_facets_close(r);
    msi_output_channels_free(&r->channels);
    msi_ms_reader_free(r->reader);
    r->reader = NULL;
}

static int image_intervals(msi_imaging_run *r)
{
    const int64_t n = r->options->intervals_out;
    int rc = MSI_OK;
    for (r->interval = 0; !rc && r->interval < n; r->interval++) {
        if (n > 1) msi_log_info("interval %lld of %lld", (long long)r->interval, (long long)n);
        const int64_t n_gridded = r->n_gridded;
        rc = image_interval(r);
        if (r->modelled && r->n_gridded == n_gridded) r->modelled[r->interval].is_empty = 1;
        end_interval(r);
    }
    return rc;
}

/* Choose the planes, the name of the weighting, and the directory for temporary files. */
static int plan_planes(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    r->n_plane = msi_options_planes(o, r->planes);
    const char *mode = o->weighting.mode == MSI_WEIGHT_NATURAL ? "natural" : "uniform";
    if (o->weighting.mode == MSI_WEIGHT_BRIGGS)
        snprintf(r->weighting, sizeof r->weighting, "briggs%s %g", o->bandwidth_taper ? "bwtaper" : "",
                 o->weighting.robust);
    else
        snprintf(r->weighting, sizeof r->weighting, "%s", mode);
    /* Without -temp-dir, visibilities beyond the memory limit are written to the directory of the images. */
    const char *slash = strrchr(o->name, '/');
    size_t length = slash ? (size_t)(slash - o->name) : 0;
    r->temp_dir = o->temp_dir ? strdup(o->temp_dir) : slash ? strndup(o->name, length ? length : 1) : strdup(".");
    return r->temp_dir ? MSI_OK : msi_error_set(MSI_ENOMEM, "no memory for a file name");
}

static int commit_outputs(msi_imaging_run *r)
{
    MSI_TRY(msi_ranks_count(r->ranks, &r->n_kept, 1));
    if (!r->n_gridded && r->n_kept)
        return msi_error_set(MSI_EINPUT, "nothing to image: all samples have zero weight after weighting and taper");
    if (!r->n_gridded) return msi_imaging_report_no_samples(r);
    if (!r->outputs) return MSI_OK;
    MSI_TRY(msi_imaging_page_write(r));
    MSI_TRY(msi_outputs_commit(r->outputs));
    r->ranks->is_done = 1;
    return MSI_OK;
}

/* Refuse a mask that is 0 everywhere; warn about channels in which it is 0 everywhere. */
static int check_mask(const msi_imaging_run *r)
{
    const char *option, *path = msi_clean_options_mask(&r->options->clean, &option);
    int64_t n_empty = 0;
    if (!path) path = r->options->pb.mask > 0 ? "-pbmask" : "-horizon-mask";
    for (int64_t c = 0; c < r->mask.n_plane; c++) n_empty += !(msi_clean_mask_fraction(&r->mask, c) > 0);
    if (n_empty == r->mask.n_plane && strcmp(path, "-horizon-mask") == 0 && !r->options->clean.has_horizon)
        return msi_error_set(MSI_EINPUT, "the primary beam is too small everywhere in the image, so nothing would be "
                                         "cleaned; see PREFIX-beam-0.fits of -apply-primary-beam, or give -shift");
    if (n_empty == r->mask.n_plane)
        return msi_error_set(
            MSI_EINPUT, "%s: the mask is 0 everywhere in the image, so nothing would be cleaned; give another mask",
            path);
    for (int64_t c = 0; c < r->mask.n_plane; c++)
        if (!(msi_clean_mask_fraction(&r->mask, c) > 0))
            msi_log_warning("%s: plane %lld of the mask is 0 everywhere; channel %lld is not cleaned", path,
                            (long long)c + 1, (long long)c);
    return MSI_OK;
}

/* Warn if the mask of scales allows scales that do not exist. */
static void warn_of_scales(const msi_imaging_run *r)
{
    const msi_clean_options *c = &r->options->clean;
    const int64_t n = msi_image_n_pixel(&r->options->geometry);
    unsigned all = 0;
    int highest = 0;
    for (int64_t i = 0; i < n; i++) all |= r->scale_mask[i];
    while (all >> (highest + 1)) highest++;
    const int n_scale = c->n_scale - c->no_points;
    if (c->n_scale && highest >= n_scale)
        msi_log_warning("%s: the mask allows scale %d in places, but -multiscale-scales has only %d, numbered from 0",
                        c->scale_mask, highest, n_scale);
}

/* The cleaner counts points as scale 0. If they are not a scale of the mask, increase its scales by 1. */
static void shift_scales(const msi_imaging_run *r)
{
    const int64_t n = msi_image_n_pixel(&r->options->geometry);
    for (int64_t i = 0; i < n && r->options->clean.no_points; i++) r->scale_mask[i] = (uint16_t)(r->scale_mask[i] << 1);
}

/* Read the mask that the options name, if any, and mask the horizon. */
static int make_mask(msi_imaging_run *r, const msi_mask_target *target)
{
    const msi_clean_options *c = &r->options->clean;
    const char *option = c->fits_mask     ? "fits-mask"
                         : c->casa_mask   ? "casa-mask"
                         : c->region_mask ? "region-mask"
                                          : "mask";
    int rc = c->fits_mask     ? msi_clean_mask_fits(&r->mask, c->fits_mask, target)
             : c->casa_mask   ? msi_clean_mask_casa(&r->mask, c->casa_mask, target)
             : c->region_mask ? msi_clean_mask_region(&r->mask, c->region_mask, target)
             : c->any_mask    ? msi_clean_mask_any(&r->mask, c->any_mask, target)
                              : MSI_OK;
    if (rc) return msi_error_append(rc, "; the mask is given by -%s", option);
    if (c->has_horizon) rc = msi_clean_mask_horizon(&r->mask, c->horizon_rad, target);
    if (!rc && c->scale_mask) rc = msi_clean_mask_scales(&r->scale_mask, c->scale_mask, target);
    if (!rc && c->scale_mask) {
        warn_of_scales(r);
        shift_scales(r);
    }
    return rc;
}

static void report_grid(const msi_imaging_run *r)
{
    const msi_channel_grid *g = &r->grid;
    const char *frame = r->options->cube.grid.frame;
    const msi_unit unit = msi_freq_unit(g->step_hz);
    msi_log_info("cube: %lld planes of %.6g %s from %.9g MHz %s, %s", (long long)g->n, g->step_hz / unit.size,
                 unit.name, 1e-6 * (g->first_hz + (g->descends ? (double)(g->n - 1) * g->step_hz : 0)),
                 g->descends ? "down" : "up", frame ? frame : "in the frame of the data");
    if (frame)
        msi_log_detail("Doppler shifts: frequencies in %s are %.9f to %.9f of those of the data", frame,
                       g->lowest_ratio, g->highest_ratio);
}

/* Find the number of planes of a cube if it is not given. A set is opened to read its channels. */
static int count_planes(msi_imaging_run *r)
{
    msi_interval t;
    if (!r->options->cube.is_cube || r->options->channels_out > 1) return MSI_OK;
    MSI_TRY(msi_open_sets_interval(&t, r->reader_pool, r->options, &(msi_open_request){0}));
    r->cube_options = *r->options;
    r->options = &r->cube_options;
    const msi_ms_reader *all = t.whole ? t.whole : t.reader;
    int rc = MSI_OK;
    if (msi_cube_request_is_made(&r->options->cube.grid)) {
        rc = msi_cube_grid_make(&r->grid, &r->options->cube.grid, all);
        r->cube_options.channels_out = r->grid.n;
        if (!rc) report_grid(r);
    } else {
        double *freq_hz = NULL;
        rc = msi_output_channels_frequencies(all, &freq_hz, &r->cube_options.channels_out);
        msi_free(freq_hz);
    }
    msi_ms_reader_free(t.reader);
    msi_ms_reader_free(t.whole);
    return rc;
}

/* Read the user's mask and resample it to the pixels of the images. A set is opened to find their centre. */
static int read_mask(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    const char *option;
    msi_interval t;
    MSI_TRY(msi_open_sets_interval(&t, r->reader_pool, o, &(msi_open_request){0}));
    r->reader = t.reader;
    int rc = choose_centre(r);
    const msi_mask_target target = {&o->geometry, r->ra_rad, r->dec_rad, t.observation.dir_frame, o->channels_out};
    if (!rc) rc = make_mask(r, &target);
    if (!rc && (o->pb.mask > 0 || o->pb.grid || o->pb.mosaic))
        rc = msi_imaging_pb_mask(&r->mask, o, t.whole ? t.whole : t.reader, target.frame,
                                 (const double[]){r->ra_rad, r->dec_rad});
    if (!rc && o->clean.join_channels && r->mask.n_plane > 1)
        rc = msi_error_set(MSI_EINPUT, "%s: has a plane for each channel; joined channels need a mask of one plane",
                           msi_clean_options_mask(&o->clean, &option));
    if (!rc && r->mask.pixel) rc = check_mask(r);
    msi_ms_reader_free(t.reader);
    msi_ms_reader_free(t.whole);
    r->reader = NULL;
    return rc;
}

/* Start the process that predicts models into MODEL_DATA. */
static int start_update(msi_imaging_run *r, void (*forked)(void))
{
    const msi_options *o = r->options;
    msi_model_update_spec spec = {.predict = {.ms_paths = o->ms_paths,
                                              .n_ms = o->n_ms,
                                              .selection = o->selection,
                                              .name = o->name,
                                              .column = o->model_column,
                                              .op = MSI_MS_WRITE_REPLACE,
                                              .interpolation = MSI_MODEL_NEAREST,
                                              .drop_old = o->drop_old,
                                              .force = o->force,
                                              .gridder = msi_gridder_choice_spec(o),
                                              .options = o,
                                              .gains = r->facets ? r->facets->gains : NULL},
                                  .channels_out = o->channels_out,
                                  .n_term = (int)o->clean.n_taylor,
                                  .intervals_out = o->intervals_out,
                                  .planes = r->planes,
                                  .n_plane = r->n_plane};
    spec.predict.gridder.temp_dir = o->temp_dir;
    if (o->pb.grid || o->pb.mosaic) spec.predict.beam = msi_imaging_pb_word(o);
    MSI_TRY(msi_alloc(&r->modelled, o->intervals_out, sizeof *r->modelled, "intervals"));
    return msi_model_update_start(&r->update, &spec, forked);
}

/* Plan the output files. Only the first rank writes. */
static int plan_outputs(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    if (r->ranks->rank) return MSI_OK;
    MSI_TRY(msi_outputs_plan(&r->outputs, o, r->planes, r->n_plane));
    return msi_image_writer_create(&r->writer, r->outputs, omp_get_max_threads());
}

/* Fork the reader processes and the process that predicts into MODEL_DATA. */
static int start_processes(msi_imaging_run *r, void (*forked)(void))
{
    const msi_options *o = r->options;
    int a, b;
    if (msi_ms_paths_same(o->ms_paths, o->n_ms, &a, &b))
        msi_log_warning("%s and %s are the same Measurement Set; its samples count twice", o->ms_paths[a],
                        o->ms_paths[b]);
    /* Only the first rank cleans; so only this rank needs the mask and the prediction process. */
    const int is_first = r->ranks->env_rank == 0;
    MSI_TRY(msi_imaging_facets_start(r));
    if (o->pb.grid && (r->ranks->size > 1 || r->ranks->env_rank > 0))
        return msi_error_set(MSI_EUSAGE, "-grid-with-beam: it cannot be distributed over ranks yet; use msimage");
    if (msi_clean_options_writes_model(o) && !o->dry_run && is_first) MSI_TRY(start_update(r, forked));
    MSI_TRY(msi_block_converter_create(&r->converter));
    MSI_TRY(msi_open_sets_reader_pool(&r->reader_pool, o, msi_block_converter_conversion(r->converter)));
    MSI_TRY(count_planes(r));
    const char *option;
    const int has_mask = o->clean.niter && (msi_clean_options_mask(&o->clean, &option) || o->clean.has_horizon ||
                                            o->pb.mask > 0 || o->pb.grid || o->pb.mosaic || o->clean.scale_mask);
    return has_mask && is_first ? read_mask(r) : MSI_OK;
}

/* Check that all ranks have the same options, except for threads, memory and GPUs. */
static int check_team(const msi_imaging_run *r)
{
    const msi_options *o = r->options;
    if (o->clean.niter && (r->ranks->size > 1 || r->ranks->env_rank)) MSI_TRY(msi_ranks_check_environment(r->ranks));
    return msi_ranks_same(r->ranks, msi_options_command_hash(o), "was given another command line");
}

static int run_stages(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    MSI_TRY(check_team(r));
    MSI_TRY(plan_outputs(r));
    if (o->clean.niter && r->outputs) MSI_TRY(msi_imaging_checkpoint_check(o));
    /* The GPU starts while the sets are opened and read. Its start cannot be interrupted, so check first that the sets
     * exist, to report mistyped names at once. */
    if (msi_ms_paths_exist(o->ms_paths, o->n_ms)) msi_gpu_share_start(&r->gpus, o, r->ranks);
    MSI_TRY(image_intervals(r));
    if (o->dry_run) return MSI_OK;
    msi_progress_begin("writing");
    if (r->writer) MSI_TRY(msi_image_writer_wait(r->writer));
    msi_progress_end();
    if (o->clean.niter && r->outputs) MSI_TRY(msi_imaging_clean_record(r));
    MSI_TRY(commit_outputs(r));
    if (o->clean.niter && r->outputs) MSI_TRY(msi_imaging_checkpoint_remove(o));
    return r->update ? msi_model_update_run(r->update, r->modelled) : MSI_OK;
}

int msi_run_image(const msi_options *options, msi_ranks *ranks, void (*forked)(void))
{
    msi_ranks alone = MSI_RANKS_ALONE;
    msi_imaging_run r = {.options = options, .ranks = ranks ? ranks : &alone};
    if (options->report && !options->dry_run) msi_log_keep();
    r.gpus = (msi_gpu_share){.ranks = r.ranks, .n = 1, .n_slot = 1};
    int rc = plan_planes(&r);
    if (!rc) rc = start_processes(&r, forked);
    msi_ranks_join(r.ranks);
    if (forked) forked();
    if (!rc) rc = run_stages(&r);
    rc = msi_ranks_agree(r.ranks, rc);
    if (rc) msi_imaging_checkpoint_advise(&r);
    msi_imaging_stop_readers(&r);
    msi_block_converter_free(r.converter);
    msi_image_writer_free(r.writer);
    msi_outputs_free(r.outputs);
    msi_model_update_free(r.update);
    msi_free(r.modelled);
    msi_imaging_facets_free(&r);
    msi_clean_mask_free(&r.mask);
    msi_free(r.scale_mask);
    msi_clean_history_free(&r.history);
    msi_memory_page_to(NULL, 0);
    free(r.temp_dir);
    msi_backend_await_all();
    return rc;
}
