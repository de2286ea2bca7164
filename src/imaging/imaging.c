/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/imaging/imaging.h"

#include <assert.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/ordered_parallel.h"
#include "io/ms/ms_crew.h"
#include "io/ms/ms_paths.h"
#include "kernels/gridder.h"
#include "src/imaging/imaging_clean.h"
#include "src/imaging/imaging_run.h"
#include "src/options/gridder_choice.h"
#include "src/sky/phase_shift.h"
#include "src/sky/stokes.h"
#include "src/run/block_conversion.h"
#include "src/run/open_sets.h"
#include "src/run/ranks.h"

static_assert((int)MSI_MAX_PLANES < (int)MSI_GRIDDER_MAX_PLANES, "a gridder takes every plane, and the PSF");

/* ---- Open ---- */

/* One phase centre serves everything: the fields' own, or -shift's. */
static int choose_centre(msi_imaging_run *r)
{
    const msi_observation *obs = msi_ms_reader_observation(r->reader);
    const msi_options *o = r->options;
    MSI_TRY(o->shift_set ? msi_ms_reader_check_shift(r->reader) : msi_ms_reader_check_frames(r->reader));
    if (!o->shift_set && !msi_ms_reader_one_centre(r->reader))
        return msi_error_set(MSI_EINPUT,
                             "the selected fields or sets have different phase centres; name one with -shift RA DEC, "
                             "or select one with -field");
    r->ra_rad = o->shift_set ? o->shift_ra_rad : obs->ra_rad;
    r->dec_rad = o->shift_set ? o->shift_dec_rad : obs->dec_rad;
    return MSI_OK;
}

/* Headers and pictures of several fields name them, as far as there is room. */
static void name_fields(msi_observation *o, const msi_ms_reader *reader)
{
    char all[sizeof o->object];
    if (msi_set_report_fields(all, sizeof all, reader, 0) > 1) memcpy(o->object, all, sizeof all);
}

/* Every spectral setup must hold what the planes are formed of: told before samples are read, and by a dry run. */
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

static int open_reader(msi_imaging_run *r)
{
    msi_interval t;
    msi_progress_begin("opening");
    const msi_open_request request = {r->interval, r->team->rank, r->options->dry_run ? 0 : r->team->size};
    MSI_TRY(msi_open_sets_interval(&t, r->crew, r->options, &request));
    msi_progress_end();
    r->reader = t.reader;
    r->is_empty = t.is_empty;
    r->observation = t.observation;
    if (r->modelled) r->modelled[r->interval] = (msi_model_interval){t.begin, t.end, t.is_empty};
    name_fields(&r->observation, r->reader);
    if (r->is_empty)
        msi_log_warning("interval %lld has no row of the selection; its images are NaN", (long long)r->interval);
    /* Output channels are the same in all intervals, whichever spectral windows have rows there. */
    int rc = choose_centre(r);
    if (!rc) rc = check_planes(r);
    if (!rc) rc = msi_output_channels_make(&r->channels, t.whole ? t.whole : t.reader, r->options->channels_out);
    msi_ms_reader_free(t.whole);
    return rc;
}

/* ---- Plan ---- */

static msi_gridder_spec gridder_spec(const msi_imaging_run *r)
{
    const msi_options *o = r->options;
    msi_gridder_spec spec = msi_gridder_choice_spec(o);
    spec.geometry = o->geometry;
    spec.n_plane = r->n_plane;
    spec.residual = o->clean.niter > 0;
    spec.psf = o->make_psf && !spec.residual; /* of residuals' gridders it is asked for by itself */
    spec.psf_only = o->make_psf_only;
    spec.memory_bytes = msi_imaging_gridder_bytes(o);
    spec.store_bytes = r->plan.store_budget_bytes / o->channels_out;
    spec.temp_dir = r->temp_dir;
    return spec;
}

/* Share the work out, and tell of the plan. */
static void share_gpus(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    msi_imaging_plan *p = &r->plan;
    const int64_t planned = p->store_bytes + p->grid_bytes + p->image_bytes + MSI_UNPLANNED_BYTES;
    const msi_gpu_work work = {.gridder = &p->gridder,
                               .n_channel = o->channels_out,
                               .n_image = r->n_plane + (o->make_psf && !o->clean.niter),
                               .one_gpu_s = p->image_s,
                               .lane_bytes = o->clean.niter ? 0 : p->one_image_bytes,
                               .room_bytes = msi_memory_limit() - planned};
    msi_gpu_share_plan(&r->gpus, o, &work);
    if (r->gpus.n_lane > 1) p->image_bytes += (r->gpus.n_lane - 1) * work.lane_bytes;
    if (r->gpus.n_lane > r->gpus.n) p->device_bytes *= r->gpus.n_lane / r->gpus.n;
    p->image_s = msi_gpu_share_s(&r->gpus, &work);
    msi_imaging_report_plan(p, o);
    msi_gpu_share_report(&r->gpus, &work);
}

/* The plan goes by what is known without reading visibilities; or, for a dry run, by a scan of coordinates. */
static int make_plan(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    msi_gridder_spec spec = gridder_spec(r);
    msi_imaging_need need = {.options = o,
                             .n_plane = r->n_plane,
                             .channels = &r->channels,
                             .output_bytes = r->outputs ? msi_outputs_bytes(r->outputs) : 0};
    msi_gridder *empty;
    MSI_TRY(msi_gpu_share_check(&r->gpus, o));
    spec.device = r->gpus.device[0];
    msi_imaging_scan_bound(&need.scan, r->reader);
    if (o->dry_run && !r->team->rank) {
        MSI_TRY(msi_imaging_scan_read(&need.scan, r->reader, &o->geometry, r->ra_rad, r->dec_rad));
        /* The memory decides that is free now; a run does not wait for a GPU's answer, and sees to it after reading. */
        msi_backend_await(r->gpus.device, r->gpus.n);
    }
    const msi_imaging_scan whole = need.scan;
    /* A rank has a block more than its share at most, which what is not planned for covers. */
    need.scan.n_row = (need.scan.n_row + r->team->size - 1) / r->team->size;
    need.scan.n_sample = (need.scan.n_sample + r->team->size - 1) / r->team->size;
    MSI_TRY(msi_gridder_create(&empty, &spec));
    need.gridder = empty;
    int rc = msi_imaging_plan_make(&r->plan, &need);
    if (rc == MSI_ERANGE && !o->dry_run) {
        const double bound_lambda = need.scan.w_max_lambda;
        /* An antenna whose position is wrong says nothing of UVW: whether those can be imaged shows when they are read.
         */
        need.scan.w_max_lambda = 0;
        rc = msi_imaging_plan_make(&r->plan, &need);
        if (rc) {
            /* It was not w: the message tells of the plan that was asked for. */
            need.scan.w_max_lambda = bound_lambda;
            rc = msi_imaging_plan_make(&r->plan, &need);
        } else {
            msi_log_warning("ANTENNA: positions as far apart as %.3g m tell nothing of w; memory is planned without it",
                            msi_ms_reader_observation(r->reader)->longest_baseline_m);
        }
    }
    msi_gridder_free(empty);
    if (r->plan.gridder.nu) share_gpus(r);
    if (!rc && o->dry_run) msi_imaging_report_dry_run(r, &whole);
    return rc;
}

/* So many bytes of samples are read in less time than a GPU takes to say that it is there, and what memory it has. */
static const int64_t EARLY_BYTES = (int64_t)1 << 30;

/* No plan for images needs more host memory than so much a pixel and so much besides: for grids of small images, and
 * for what is not planned. */
enum { MOST_PIXEL_BYTES = 128, MOST_OTHER_BYTES = 1 << 30 };

/* Few samples are read before the plan is made, where that may have to wait for a GPU, and memory is no question. */
static int reads_first(const msi_imaging_run *r, const msi_gridder *g)
{
    const msi_options *o = r->options;
    const int64_t n_image = (r->n_plane + 1) * o->channels_out;
    const int64_t samples =
        msi_gridder_store_bytes(g, msi_ms_reader_n_sample(r->reader), msi_ms_reader_n_row(r->reader));
    const int64_t images = MOST_OTHER_BYTES + MOST_PIXEL_BYTES * n_image * msi_image_n_pixel(&o->geometry);
    return o->backend != MSI_BACKEND_CPU && !o->dry_run && r->team->size == 1 && !r->is_empty &&
           samples <= EARLY_BYTES && samples + images <= msi_memory_limit() / 2;
}

static int open_gridders(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    const msi_gridder_spec spec = gridder_spec(r);
    MSI_TRY(msi_alloc(&r->gridder, o->channels_out, sizeof(msi_gridder *), "gridders"));
    MSI_TRY(msi_alloc(&r->density, o->channels_out, sizeof(msi_density *), "density weights"));
    for (int64_t c = 0; c < o->channels_out; c++) MSI_TRY(msi_gridder_create_early(&r->gridder[c], &spec));
    return MSI_OK;
}

/*
 * channels_at_once - choose how many channels to image together: on GPUs as many as the shares
 * of GPUs have lanes; on the CPU one by each thread, where there are channels enough for them and their grids take no
 * more than a quarter of the memory; else one, by all threads. A small image has little for many threads to share.
 * Given: run  planned
 */
static int channels_at_once(const msi_imaging_run *r)
{
    const int n_thread = omp_get_max_threads();
    const int64_t each = r->plan.grid_bytes + 2 * r->plan.image_bytes;
    if (r->plan.gridder.backend == MSI_BACKEND_CUDA) return r->gpus.n_lane;
    if (r->options->channels_out < 2 * n_thread) return 1;
    return n_thread * each <= msi_memory_limit() / 4 ? n_thread : 1;
}

static int settle_gridders(msi_imaging_run *r)
{
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        msi_gridder_spec spec = gridder_spec(r);
        if (r->plan.gridder.backend == MSI_BACKEND_CUDA)
            msi_gpu_share_gridder(&r->gpus, c, &spec);
        else if (!spec.residual && channels_at_once(r) > 1)
            spec.n_thread = 1;
        MSI_TRY(msi_gridder_settle(r->gridder[c], &spec));
    }
    return MSI_OK;
}

/* ---- Load: the selected visibilities are read once, formed by those who read, and handed to the gridders ---- */

enum { MOST_BLOCKS = 32 }; /* taken at once: the more, the seldomer threads wait for each other */

/* A load brings samples into gridders, several blocks at a time. */
typedef struct load {
    msi_ms_crew *crew;
    msi_ms_reader *reader;
    msi_forming_order *order;
    msi_gridder *const *gridder;
    int n_block;
    msi_ms_block block[MOST_BLOCKS];
    int64_t *n_part;     /* [n_channel] of the blocks at hand */
    msi_vis_block *part; /* [n_channel][MOST_BLOCKS] samples of an output channel, in the order of blocks */
} load;

static int begin_load(load *l, const msi_forming_spec *spec)
{
    int64_t n_byte;
    MSI_TRY(msi_forming_order_make(&l->order, &n_byte, spec));
    MSI_TRY(msi_alloc(&l->n_part, l->order->n_channel, sizeof *l->n_part, "blocks of visibilities"));
    MSI_TRY(msi_alloc(&l->part, l->order->n_channel * MOST_BLOCKS, sizeof *l->part, "blocks of visibilities"));
    return msi_ms_crew_order(l->crew, l->order, n_byte);
}

/* Find what the blocks at hand have for each output channel. */
static int list_parts(load *l, msi_sample_tally *tally)
{
    memset(l->n_part, 0, sizeof *l->n_part * (size_t)l->order->n_channel);
    for (int i = 0; i < l->n_block; i++) {
        msi_sample_tally of_block;
        msi_formed_walk walk;
        msi_formed_part p;
        MSI_TRY(msi_formed_tally(&l->block[i], &of_block));
        msi_sample_tally_add(tally, &of_block);
        msi_formed_first(&walk, l->order, &l->block[i]);
        while (msi_formed_next(&walk, &p)) l->part[p.channel * MOST_BLOCKS + l->n_part[p.channel]++] = p.samples;
    }
    return MSI_OK;
}

static int add_channel(const load *l, int64_t c)
{
    return l->n_part[c] ? msi_gridder_add_all(l->gridder[c], l->part + c * MOST_BLOCKS, (int)l->n_part[c]) : MSI_OK;
}

/* Load many output channels at a time, by a thread each: what blocks have for one is little for many threads. */
static int add_at_once(const load *l)
{
    msi_first_error failure = {0};
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t c = 0; c < l->order->n_channel; c++)
        if (!msi_first_error_status(&failure)) msi_first_error_keep(&failure, add_channel(l, c));
    return msi_first_error_raise(&failure);
}

static int add_parts(const load *l)
{
    if (l->order->n_channel > 1 && 2 * l->order->n_channel >= omp_get_max_threads()) return add_at_once(l);
    for (int64_t c = 0; c < l->order->n_channel; c++) MSI_TRY(add_channel(l, c));
    return MSI_OK;
}

static int load_blocks(load *l, msi_sample_tally *tally)
{
    const int64_t n_row = msi_ms_reader_n_share_row(l->reader);
    int64_t done = 0;
    double waited_s = 0, added_s = 0;
    msi_progress_begin("reading");
    for (;;) {
        const double start = msi_wall_s();
        MSI_TRY(msi_ms_crew_take(l->crew, l->reader, MOST_BLOCKS, l->block, &l->n_block));
        const double there = msi_wall_s();
        waited_s += there - start;
        if (!l->n_block) break;
        MSI_TRY(list_parts(l, tally));
        MSI_TRY(add_parts(l));
        added_s += msi_wall_s() - there;
        MSI_TRY(msi_interrupt_check());
        for (int i = 0; i < l->n_block; i++) done += l->block[i].n_row;
        msi_progress_at(done, n_row);
    }
    msi_progress_end();
    msi_log_detail("reading: %.2f s waiting for blocks, %.2f s taking them over", waited_s, added_s);
    return MSI_OK;
}

/*
 * read_samples - read all that the reader has into the gridders.
 *
 * Given:    crew, reader  the crew forms by an msi_block_former, and the reader is that which it opened last
 *           gridder       [spec->channels->n] of spec->n_plane planes each
 * Returned: *tally  counted on
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM, MSI_EOUTPUT (the store's file), MSI_EINTERRUPTED
 * Notes:    while it reads, OpenMP has as many threads less as there are readers, but half of them at least.
 */
static int read_samples(msi_ms_crew *crew, msi_ms_reader *reader, const msi_forming_spec *spec,
                        msi_gridder *const *gridder, msi_sample_tally *tally)
{
    /* Cores are left to the readers; but these wait for who takes blocks over where planes are several, threads few. */
    const int n_thread = omp_get_max_threads(), n_reader = msi_ms_crew_size(crew);
    load l = {.crew = crew, .reader = reader, .gridder = gridder};
    const int left = n_thread - n_reader, half = spec->n_plane > 1 && n_thread > 1 ? n_thread / 2 : 1;
    omp_set_num_threads(left > half ? left : half);
    int rc = begin_load(&l, spec);
    if (!rc) rc = load_blocks(&l, tally);
    omp_set_num_threads(n_thread);
    msi_free(l.order);
    msi_free(l.n_part);
    msi_free(l.part);
    return rc;
}

static void dismiss_crew(msi_imaging_run *r)
{
    msi_ms_crew_free(r->crew);
    r->crew = NULL;
}

/* Make what this rank has counted while it read what all have. */
static int count_loaded(msi_imaging_run *r)
{
    const msi_ms_dropped *d = msi_ms_reader_dropped(r->reader);
    enum { N_DROPPED = sizeof *d / sizeof(int64_t) };
    int64_t count[N_DROPPED + 2] = {0};
    msi_sample_tally *tally;
    memcpy(count, d, sizeof *d);
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        msi_gridder_report report;
        msi_gridder_report_get(r->gridder[c], &report);
        count[N_DROPPED] += report.n_sample;
        count[N_DROPPED + 1] += report.n_outside;
    }
    MSI_TRY(msi_team_count(r->team, count, N_DROPPED + 2));
    memcpy(&r->dropped, count, sizeof r->dropped);
    r->n_loaded = count[N_DROPPED];
    r->n_outside = count[N_DROPPED + 1];
    MSI_TRY(msi_team_gather(r->team, &r->tally, sizeof r->tally, (void **)&tally));
    memset(&r->tally, 0, sizeof r->tally);
    for (int k = 0; k < r->team->size; k++) msi_sample_tally_add(&r->tally, &tally[k]);
    msi_free(tally);
    return MSI_OK;
}

static int load_samples(msi_imaging_run *r)
{
    const msi_forming_spec spec = {.planes = r->planes,
                                   .weight = r->options->stokes_weight,
                                   .precision = msi_gridder_precision(r->gridder[0]),
                                   .n_plane = r->n_plane,
                                   .channels = &r->channels,
                                   .ra_rad = r->ra_rad,
                                   .dec_rad = r->dec_rad,
                                   .least_turn_rad = MSI_LOST_TO_CENTRE * r->options->accuracy};
    memset(&r->tally, 0, sizeof r->tally);
    MSI_TRY(read_samples(r->crew, r->reader, &spec, r->gridder, &r->tally));
    if (r->interval + 1 == r->options->intervals_out) dismiss_crew(r);
    MSI_TRY(count_loaded(r));
    msi_imaging_report_loaded(r);
    return MSI_OK;
}

/* ---- Weigh ---- */

static int weigh_samples(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    const int64_t n = o->channels_out;
    msi_progress_begin("weighting");
    if (o->weighting.mode != MSI_WEIGHT_NATURAL)
        for (int64_t c = 0; c < n; c++) {
            msi_density **d = &r->density[o->mf_weighting ? 0 : c];
            const msi_progress_share all = msi_progress_enter(c, c + 1, 2 * n);
            if (!*d) MSI_TRY(msi_density_create(d, &o->geometry, &o->weighting));
            MSI_TRY(msi_density_add(*d, r->gridder[c]));
            msi_progress_leave(all);
        }
    for (int64_t c = 0; c < n; c++) {
        const msi_progress_share all = msi_progress_enter(n + c, n + c + 1, 2 * n);
        msi_gridder_report report;
        msi_gridder_report_get(r->gridder[c], &report);
        r->n_kept += report.n_sample;
        /* The first use of a density is where those of all ranks become one. */
        msi_density *d = r->density[o->mf_weighting ? 0 : c];
        if (d && (c == 0 || !o->mf_weighting)) {
            MSI_TRY(msi_shared_density(r->team, d));
            MSI_TRY(msi_density_limit(d, &o->weighting));
        }
        MSI_TRY(msi_gridder_weight(r->gridder[c], d, &o->weighting));
        msi_progress_leave(all);
    }
    msi_progress_end();
    msi_imaging_report_weights(r);
    return MSI_OK;
}

/* ---- Image the output channels, one after the other or several at a time, and their sum ---- */

/* The multi-frequency image: images are means, so it is that of the channels, each with its weight. */
typedef struct mfs_image {
    msi_image image; /* empty until the first channel comes */
    msi_imaging_weight weight[MSI_GRIDDER_MAX_PLANES];
} mfs_image;

static int mfs_add(mfs_image *mfs, const msi_image *image, const msi_imaging_weight *weight)
{
    if (!mfs->image.pixel) MSI_TRY(msi_image_alloc(&mfs->image, &image->geometry, image->n_plane, image->precision));
    msi_image_add(&mfs->image, image);
    for (int p = 0; p < image->n_plane; p++) msi_imaging_weight_add(&mfs->weight[p], &weight[p]);
    return MSI_OK;
}

static int mfs_write(mfs_image *mfs, msi_imaging_run *r)
{
    /* A plane without a sample in any channel is unknown, not zero. */
    for (int p = 0; p < mfs->image.n_plane; p++)
        if (!mfs->image.n_vis[p]) msi_image_fill_nan(&mfs->image, p);
    return msi_imaging_files_write(r, MSI_OUTPUT_MFS, &mfs->image, mfs->weight);
}

/* A channel's image from its gridder to its turn. */
typedef struct made_image {
    msi_image image;
    msi_gridder_report report;
    double largest_weight[MSI_GRIDDER_MAX_PLANES];
    int rc; /* of its making */
} made_image;

/* Make the image of a channel, and look at what its gridder knows. */
static void make_image(msi_gridder *g, made_image *m)
{
    double sum_weight[MSI_GRIDDER_MAX_PLANES];
    int64_t n_vis[MSI_GRIDDER_MAX_PLANES];
    m->rc = msi_gridder_image(g, &m->image);
    msi_gridder_report_get(g, &m->report);
    if (!m->rc) msi_gridder_weights(g, sum_weight, m->largest_weight, n_vis);
}

/* The image of a channel goes onto the log, into the sum and onto the disk. */
static int finish_channel(msi_imaging_run *r, int64_t channel, made_image *made, mfs_image *mfs)
{
    msi_image *image = &made->image;
    msi_gridder_report *report = &made->report;
    msi_imaging_weight weight[MSI_GRIDDER_MAX_PLANES] = {{0}};
    int64_t most = 0;
    MSI_TRY(msi_team_image(r->team, image));
    MSI_TRY(msi_team_sum(r->team, report->sum_vis_weight, r->n_plane, MSI_FP64));
    MSI_TRY(msi_team_largest(r->team, made->largest_weight, r->n_plane));
    for (int p = 0; p < r->n_plane; p++)
        weight[p] = (msi_imaging_weight){.largest = made->largest_weight[p], .vis_sum = report->sum_vis_weight[p]};
    for (int p = 0; p < image->n_plane; p++) most = image->n_vis[p] > most ? image->n_vis[p] : most;
    r->n_gridded += most;
    msi_imaging_report_empty(r, channel, image->n_plane, image->n_vis);
    msi_imaging_report_channel(channel, most, report);
    if (r->options->channels_out > 1) MSI_TRY(mfs_add(mfs, image, weight));
    return msi_imaging_files_write(r, channel, image, weight);
}

/* The weights of all channels together are read off the gridders at the end. */
static void forget_gridder(msi_imaging_run *r, int64_t c)
{
    if (r->options->save_weights) return;
    msi_gridder_free(r->gridder[c]);
    r->gridder[c] = NULL;
}

/* In the progress of a channel, its files are one part of these. */
enum { WRITE_PARTS = 10 };

/* Count the parts of all channels and of the files of the image of all of them. */
static int64_t n_part(const msi_imaging_run *r)
{
    return WRITE_PARTS * r->options->channels_out + (r->options->channels_out > 1);
}

/* Image each channel by all threads. No parallel region may stand around this, not even one of a single thread: those
 * inside it would start their threads anew every time. */
static int image_in_turn(msi_imaging_run *r, mfs_image *mfs)
{
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        made_image made = {0};
        const msi_progress_share all = msi_progress_enter(WRITE_PARTS * c, WRITE_PARTS * (c + 1), n_part(r));
        msi_progress_share gridding = msi_progress_enter(0, WRITE_PARTS - 1, WRITE_PARTS);
        make_image(r->gridder[c], &made);
        msi_progress_leave(gridding);
        gridding = msi_progress_enter(WRITE_PARTS - 1, WRITE_PARTS, WRITE_PARTS);
        int rc = msi_team_agree(r->team, made.rc);
        if (!rc) rc = finish_channel(r, c, &made, mfs);
        msi_progress_leave(gridding);
        msi_progress_leave(all);
        msi_image_free(&made.image);
        forget_gridder(r, c);
        if (rc) return rc;
    }
    return MSI_OK;
}

/* Channels that are imaged side by side. */
typedef struct channel_lanes {
    msi_imaging_run *run;
    mfs_image *mfs;
    int n;
    made_image *made; /* [n] */
} channel_lanes;

static int image_channel(void *of, int64_t c)
{
    channel_lanes *l = of;
    made_image *m = &l->made[c % l->n];
    make_image(l->run->gridder[c], m);
    forget_gridder(l->run, c);
    return MSI_OK;
}

/* Files and sums come in the order of channels, whatever the number of lanes; ranks agree on each. */
static int hand_over(void *of, int64_t c)
{
    channel_lanes *l = of;
    made_image *m = &l->made[c % l->n];
    int rc = msi_team_agree(l->run->team, m->rc);
    if (!rc) rc = finish_channel(l->run, c, m, l->mfs);
    msi_image_free(&m->image);
    return rc;
}

/* Image channels side by side, by a thread each, or by GPUs. */
static int image_at_once(msi_imaging_run *r, mfs_image *mfs, int at_once)
{
    channel_lanes l = {.run = r, .mfs = mfs, .n = at_once};
    const msi_turns turns = {
        .n_item = r->options->channels_out, .n_thread = at_once, .work = image_channel, .finish = hand_over, .of = &l};
    MSI_TRY(msi_alloc(&l.made, at_once, sizeof *l.made, "images"));
    const msi_progress_share all = msi_progress_enter(0, WRITE_PARTS * turns.n_item, n_part(r));
    const int rc = msi_turns_run(&turns);
    if (!rc) msi_progress_leave(all);
    for (int i = 0; i < at_once; i++) msi_image_free(&l.made[i].image);
    msi_free(l.made);
    return rc;
}

/*
 * image_channels - image every output channel and write it; then the multi-frequency image of all of them.
 * Given:   run  loaded and weighed; run->n_gridded counted on, gridders that are not needed any more are freed
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

/* ---- Run ---- */

static int image_interval(msi_imaging_run *r)
{
    msi_imaging_times t = {.start_s = msi_wall_s()};
    MSI_TRY(open_reader(r));
    MSI_TRY(msi_team_same(r->team, msi_ms_reader_fingerprint(r->reader), "finds other rows or channels in the sets"));
    t.opened_s = msi_wall_s();
    if (r->is_empty && r->options->dry_run) return MSI_OK;
    if (!r->is_empty) msi_imaging_report_subject(r);
    if (r->interval == 0 && r->outputs) MSI_TRY(msi_imaging_reuse_check(r));
    r->plan = (msi_imaging_plan){0};
    MSI_TRY(open_gridders(r));
    const int is_early = reads_first(r, r->gridder[0]);
    if (is_early) MSI_TRY(load_samples(r));
    MSI_TRY(make_plan(r));
    if (r->options->dry_run) return MSI_OK;
    MSI_TRY(settle_gridders(r));
    if (!is_early && !r->is_empty) MSI_TRY(load_samples(r));
    t.loaded_s = msi_wall_s();
    MSI_TRY(weigh_samples(r));
    t.weighed_s = msi_wall_s();
    if (r->plan.gridder.backend == MSI_BACKEND_CUDA) msi_gpu_share_settle(&r->gpus, &r->plan.gridder);
    MSI_TRY(r->options->clean.niter ? msi_imaging_clean_run(r) : image_channels(r));
    t.imaged_s = msi_wall_s();
    msi_imaging_report_times(&t);
    return MSI_OK;
}

static void end_interval(msi_imaging_run *r)
{
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        if (r->gridder) msi_gridder_free(r->gridder[c]);
        if (r->density) msi_density_free(r->density[c]);
    }
    msi_free(r->gridder);
    msi_free(r->density);
    r->gridder = NULL;
    r->density = NULL;
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

/* Say what is imaged, and how, in words of headers and the log. */
static int plan_planes(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    r->n_plane = msi_planes_of(o->pol, o->n_pol, r->planes);
    const char *mode = o->weighting.mode == MSI_WEIGHT_NATURAL ? "natural" : "uniform";
    if (o->weighting.mode == MSI_WEIGHT_BRIGGS)
        snprintf(r->weighting, sizeof r->weighting, "briggs %g", o->weighting.robust);
    else
        snprintf(r->weighting, sizeof r->weighting, "%s", mode);
    /* Samples beyond the memory limit go where the images go, unless -temp-dir says otherwise. */
    const char *slash = strrchr(o->name, '/');
    size_t length = slash ? (size_t)(slash - o->name) : 0;
    r->temp_dir = o->temp_dir ? strdup(o->temp_dir) : slash ? strndup(o->name, length ? length : 1) : strdup(".");
    return r->temp_dir ? MSI_OK : msi_error_set(MSI_ENOMEM, "no memory for a file name");
}

static int commit_outputs(msi_imaging_run *r)
{
    MSI_TRY(msi_team_count(r->team, &r->n_kept, 1));
    if (!r->n_gridded && r->n_kept)
        return msi_error_set(MSI_EINPUT, "nothing to image: weighting and taper leave no sample a weight");
    if (!r->n_gridded) return msi_imaging_report_nothing(r);
    if (!r->outputs) return MSI_OK;
    MSI_TRY(msi_outputs_commit(r->outputs));
    r->team->is_done = 1;
    return MSI_OK;
}

static const char *mask_path(const msi_options *o)
{
    return o->clean.fits_mask ? o->clean.fits_mask : o->clean.casa_mask;
}

static void warn_of_mask(const msi_imaging_run *r)
{
    const char *path = mask_path(r->options);
    for (int64_t c = 0; c < r->mask.n_plane; c++) {
        if (msi_clean_mask_part(&r->mask, c) > 0) continue;
        if (r->mask.n_plane > 1)
            msi_log_warning("%s: the mask is 0 in all of plane %lld, so that nothing of channel %lld is cleaned", path,
                            (long long)c + 1, (long long)c);
        else
            msi_log_warning("%s: the mask is 0 in all of the image, so that nothing is cleaned", path);
    }
}

/* The mask is taken to the images' pixels, so that a set is opened for their centre. */
static int read_mask(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    msi_interval t;
    MSI_TRY(msi_open_sets_interval(&t, r->crew, o, &(msi_open_request){0}));
    r->reader = t.reader;
    int rc = choose_centre(r);
    const msi_mask_target target = {&o->geometry, r->ra_rad, r->dec_rad, t.observation.dir_frame, o->channels_out};
    if (!rc)
        rc = o->clean.fits_mask ? msi_clean_mask_fits(&r->mask, o->clean.fits_mask, &target)
                                : msi_clean_mask_casa(&r->mask, o->clean.casa_mask, &target);
    if (!rc && o->clean.join_channels && r->mask.n_plane > 1)
        rc = msi_error_set(MSI_EINPUT, "%s: has a plane for each channel; joined channels have one mask", mask_path(o));
    if (!rc) warn_of_mask(r);
    msi_ms_reader_free(t.reader);
    msi_ms_reader_free(t.whole);
    r->reader = NULL;
    return rc;
}

static int start_update(msi_imaging_run *r, void (*forked)(void))
{
    MSI_TRY(msi_alloc(&r->modelled, r->options->intervals_out, sizeof *r->modelled, "intervals"));
    return msi_model_update_start(&r->update, r->options, forked);
}

/* The files of the run are those of the team's first rank. */
static int plan_outputs(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    if (r->team->rank) return MSI_OK;
    MSI_TRY(msi_outputs_plan(&r->outputs, o, r->planes, r->n_plane));
    return msi_image_writer_create(&r->writer, r->outputs, omp_get_max_threads());
}

/* Fork the processes that read, and the one that updates the sets. */
static int start_processes(msi_imaging_run *r, void (*forked)(void))
{
    const msi_options *o = r->options;
    int a, b;
    if (msi_ms_paths_same(o->ms_paths, o->n_ms, &a, &b))
        msi_log_warning("%s and %s are the same Measurement Set, which counts twice", o->ms_paths[a], o->ms_paths[b]);
    /* What the images are cleaned by, and predicted of them, is the first rank's alone. */
    const int is_first = r->team->env_rank == 0;
    if (msi_clean_options_updates(o) && !o->dry_run && is_first) MSI_TRY(start_update(r, forked));
    MSI_TRY(msi_block_former_create(&r->former));
    MSI_TRY(msi_open_sets_crew(&r->crew, o, msi_block_former_forming(r->former)));
    return mask_path(o) && is_first ? read_mask(r) : MSI_OK;
}

/* All ranks do the same work; what they are asked for is the same too, but for how it is spread over a host. */
static int check_team(const msi_imaging_run *r)
{
    const msi_options *o = r->options;
    if (o->clean.niter && (r->team->size > 1 || r->team->env_rank)) MSI_TRY(msi_team_check_environment(r->team));
    return msi_team_same(r->team, msi_options_hash(o), "was given another command line");
}

static int run_stages(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    MSI_TRY(check_team(r));
    MSI_TRY(plan_outputs(r));
    if (o->clean.niter && r->outputs) MSI_TRY(msi_imaging_checkpoint_check(o));
    /* While the sets are opened and read. A start of a GPU cannot be broken off, and no simple mistake should wait for
     * it. */
    if (msi_ms_paths_exist(o->ms_paths, o->n_ms)) msi_gpu_share_start(&r->gpus, o, r->team);
    MSI_TRY(image_intervals(r));
    if (o->dry_run) return MSI_OK;
    msi_progress_begin("writing");
    if (r->writer) MSI_TRY(msi_image_writer_wait(r->writer));
    msi_progress_end();
    if (o->clean.niter && r->outputs) MSI_TRY(msi_imaging_clean_record(r));
    MSI_TRY(commit_outputs(r));
    if (o->clean.niter && r->outputs) MSI_TRY(msi_imaging_checkpoint_forget(o));
    return r->update ? msi_model_update_run(r->update, r->modelled) : MSI_OK;
}

int msi_run_image(const msi_options *options, msi_team *team, void (*forked)(void))
{
    msi_team alone = MSI_TEAM_ALONE;
    msi_imaging_run r = {.options = options, .team = team ? team : &alone};
    r.gpus = (msi_gpu_share){.team = r.team, .n = 1, .n_lane = 1};
    int rc = plan_planes(&r);
    if (!rc) rc = start_processes(&r, forked);
    msi_team_join(r.team);
    if (forked) forked();
    if (!rc) rc = run_stages(&r);
    rc = msi_team_agree(r.team, rc);
    dismiss_crew(&r);
    msi_block_former_free(r.former);
    msi_image_writer_free(r.writer);
    msi_outputs_free(r.outputs);
    msi_model_update_free(r.update);
    msi_free(r.modelled);
    msi_clean_mask_free(&r.mask);
    msi_clean_history_free(&r.history);
    free(r.temp_dir);
    msi_backend_settle();
    return rc;
}
