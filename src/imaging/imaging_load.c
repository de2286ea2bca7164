/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Loads samples: reader processes and threads read and convert the selected visibilities once, and gridders store
 * them. */
#include <omp.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/ms/reader_pool.h"
#include "kernels/gridder.h"
#include "src/imaging/imaging_run.h"
#include "src/run/block_conversion.h"
#include "src/run/ranks.h"
#include "src/sky/phase_shift.h"

/* Blocks in a batch. Threads wait for each other once in a batch, so larger batches take less time. */
enum { MOST_BLOCKS = 64 };

/* The blocks of a batch that are converted directly into reserved rows of the gridder, which saves a copy. */
typedef struct in_place {
    int64_t end_block;                   /* this block and later ones are copied */
    int64_t n_block;                     /* number of blocks up to now */
    int64_t n_row, n_used;               /* rows of the last blocks; those of them with samples */
    int64_t n_rows, rows_capacity;       /* rows of the batch */
    msi_vis_rows *rows;                  /* [n_rows] */
    int64_t first_rows[MOST_BLOCKS + 1]; /* first row of each block */
    msi_block_into into[MOST_BLOCKS];
} in_place;

/* The state of loading: a batch of blocks, and the samples that each gridder gets from it. */
typedef struct load {
    msi_imaging_run *run;
    int n_thread, n_left; /* number of threads; number of those that add blocks */
    msi_reader_pool *reader_pool;
    msi_ms_reader *reader;
    msi_conversion_request *request;
    msi_gridder *const *gridder;
    int n_block;
    msi_ms_block block[MOST_BLOCKS];
    int64_t n_gridder;
    int64_t *n_part;     /* [n_gridder] number of parts of the batch */
    msi_vis_block *part; /* [n_gridder][MOST_BLOCKS] samples of the gridder, in the order of blocks */
    in_place in_place;
    int has_begun;                  /* 1: samples go to the GPU if it accepts them */
    msi_beam_weights *beam_weights; /* [sets] NULL unless they are requested */
    msi_imaging_facets *facets;     /* tags rows; NULL: does not */
    msi_imaging_beam *beam;         /* tags rows, for -grid-with-beam; NULL: does not */
} load;

static int begin_load(load *l, const msi_conversion_spec *spec)
{
    int64_t n_byte;
    MSI_TRY(msi_conversion_request_make(&l->request, &n_byte, spec));
    l->n_gridder = l->request->n_channel * msi_imaging_n_part(l->run);
    MSI_TRY(msi_alloc(&l->n_part, l->n_gridder, sizeof *l->n_part, "blocks of visibilities"));
    MSI_TRY(msi_alloc(&l->part, l->n_gridder * MOST_BLOCKS, sizeof *l->part, "blocks of visibilities"));
    return msi_reader_pool_set_conversion(l->reader_pool, l->request, n_byte);
}

/* Return 1 if all setups have the same channels. Only then is the order of samples in the store the same whether or not
 * rows without samples are kept, so that images are equal bit for bit. */
static int has_one_setup(const msi_ms_reader *r)
{
    const msi_ms_spw *first = msi_ms_reader_spw(r, 0);
    for (int i = 1; i < msi_ms_reader_n_spw(r); i++) {
        const msi_ms_spw *s = msi_ms_reader_spw(r, i);
        if (s->n_chan != first->n_chan ||
            memcmp(s->freq_hz, first->freq_hz, sizeof *s->freq_hz * (size_t)s->n_chan) != 0)
            return 0;
    }
    return 1;
}

/* Return 1 if all samples of each converted block go to one gridder and may be converted into its rows. */
static int can_convert_in_place(const load *l, const msi_conversion_spec *spec)
{
    const msi_imaging_run *r = l->run;
    return spec->channels->n == 1 && !spec->channels->grid.n && !r->facets && !r->mosaic && !r->beam && !r->pb &&
           msi_reader_pool_load(l->reader_pool, l->reader) == 0 && has_one_setup(l->reader);
}

/* Reserve rows of the gridder for block i of the batch. A block with more channels than a segment holds is copied. */
static int reserve_rows(load *l, int i)
{
    in_place *own = &l->in_place;
    const msi_ms_block *b = &l->block[i];
    msi_converted_walk walk;
    msi_converted_part p;
    msi_converted_first(&walk, l->request, b);
    if (own->n_block + i >= own->end_block || !msi_converted_next(&walk, &p) || p.samples.n_chan > MSI_STORE_MAX_CHAN)
        return MSI_OK;
    for (int64_t row = 0; row < b->n_row; row += own->rows[own->n_rows++].n_row) {
        if (own->n_rows == own->rows_capacity) {
            const int64_t n = own->rows_capacity ? 2 * own->rows_capacity : 2 * MOST_BLOCKS;
            MSI_TRY(msi_grow(&own->rows, own->n_rows, n, sizeof *own->rows, "blocks of visibilities"));
            own->rows_capacity = n;
        }
        MSI_TRY(msi_gridder_reserve_rows(l->gridder[0], b->n_row - row, p.samples.n_chan, p.samples.freq_hz,
                                         &own->rows[own->n_rows]));
    }
    return MSI_OK;
}

/* Reserve rows of the gridder for the blocks of the batch. */
static int reserve_batch(load *l)
{
    in_place *own = &l->in_place;
    own->n_rows = 0;
    for (int i = 0; i < l->n_block; i++) {
        own->first_rows[i] = own->n_rows;
        MSI_TRY(reserve_rows(l, i));
    }
    own->first_rows[l->n_block] = own->n_rows;
    for (int i = 0; i < l->n_block; i++) {
        const int64_t first = own->first_rows[i], n = own->first_rows[i + 1] - first;
        own->into[i] = (msi_block_into){l->gridder[0], own->rows + first, n};
        if (n) l->block[i].into = &own->into[i];
    }
    return MSI_OK;
}

/* Count the rows of a block that have samples. Rows converted in place stay in the store even without samples, so if
 * many have none, later blocks are copied. The first block that is copied does not depend on the division into
 * batches. */
static void count_used_rows(in_place *own, int i)
{
    for (int64_t k = own->first_rows[i]; k < own->first_rows[i + 1]; k++) {
        own->n_row += own->rows[k].n_row;
        own->n_used += own->rows[k].n_used;
    }
    if (++own->n_block % MOST_BLOCKS) return;
    if (8 * own->n_used < 7 * own->n_row && own->end_block > own->n_block + MOST_BLOCKS)
        own->end_block = own->n_block + MOST_BLOCKS;
    own->n_row = own->n_used = 0;
}

/* Make the filled rows of the batch part of the gridder's store. */
static int commit_batch(load *l)
{
    in_place *own = &l->in_place;
    for (int i = 0; i < l->n_block; i++) count_used_rows(own, i);
    return own->n_rows ? msi_gridder_commit_rows(l->gridder[0], own->rows, own->n_rows) : MSI_OK;
}

/* List the samples of the batch for each gridder. */
static int list_parts(load *l, msi_sample_tally *tally)
{
    const uint64_t *tag[MOST_BLOCKS] = {0};
    memset(l->n_part, 0, sizeof *l->n_part * (size_t)l->n_gridder);
    if (l->facets) MSI_TRY(msi_imaging_facets_tag(l->facets, l->block, l->n_block, tag));
    if (l->beam) MSI_TRY(msi_imaging_pb_tag(l->beam, l->block, l->n_block, tag));
    for (int i = 0; i < l->n_block; i++) {
        msi_sample_tally of_block;
        msi_converted_walk walk;
        msi_converted_part p;
        MSI_TRY(msi_converted_tally(&l->block[i], &of_block));
        msi_sample_tally_add(tally, &of_block);
        if (l->beam_weights) msi_converted_beam_weights(l->request, &l->block[i], &l->beam_weights[l->block[i].set]);
        const int part = msi_imaging_mosaic_part(l->run, &l->block[i]);
        if (part < 0 || l->block[i].into) continue;
        msi_converted_first(&walk, l->request, &l->block[i]);
        while (msi_converted_next(&walk, &p)) {
            const int64_t g = p.channel * msi_imaging_n_part(l->run) + part;
            p.samples.tag = tag[i];
            if (l->run->pb) msi_pb_array_count(l->run->pb, &l->block[i], p.samples.n_chan, p.samples.weight);
            l->part[g * MOST_BLOCKS + l->n_part[g]++] = p.samples;
        }
    }
    return MSI_OK;
}

static int add_to_gridder(const load *l, int64_t g)
{
    return l->n_part[g] ? msi_gridder_add_all(l->gridder[g], l->part + g * MOST_BLOCKS, (int)l->n_part[g]) : MSI_OK;
}

/* Add to many gridders in parallel, one thread each. A batch has too few samples of one channel to use several
 * threads. */
static int add_in_parallel(const load *l)
{
    msi_first_error failure = {0};
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t g = 0; g < l->n_gridder; g++)
        if (!msi_first_error_status(&failure)) msi_first_error_keep(&failure, add_to_gridder(l, g));
    return msi_first_error_raise(&failure);
}

static int add_parts(const load *l)
{
    if (l->request->n_channel > 1 && 2 * l->request->n_channel >= omp_get_max_threads()) return add_in_parallel(l);
    for (int64_t g = 0; g < l->n_gridder; g++) MSI_TRY(add_to_gridder(l, g));
    return MSI_OK;
}

/* Return 1 if other gridders derive their samples from those of a channel: for facets, fields of a mosaic, beams, or
 * PSFs that vary over the image. Samples then stay in host memory. */
static int has_other_gridders(const msi_imaging_run *r)
{
    const msi_clean_options *c = &r->options->clean;
    return r->facets || r->mosaic || r->beam || (c->niter && c->psf_grid[0] * c->psf_grid[1] > 1);
}

/* If there is one image, its samples go to the GPU as they are read. With several channels the buffers would take more
 * memory than they save. */
static int begin_on_gpu(const msi_imaging_run *r)
{
    if (r->options->channels_out > 1 || has_other_gridders(r)) return MSI_OK;
    return msi_gridder_gpu_begin(r->gridder[0], msi_ms_reader_n_sample(r->reader), msi_ms_reader_n_row(r->reader));
}

/* Move all samples to the GPU, if there is one, so that it computes the weights. Samples of several channels that need
 * no weights are copied later, one channel after the other, while the GPU makes the image of the channel before. */
int msi_imaging_move_to_gpu(const msi_imaging_run *r)
{
    const msi_weighting *w = &r->options->weighting;
    const int64_t n = r->options->channels_out;
    const int is_natural = w->mode == MSI_WEIGHT_NATURAL && !msi_uv_taper_is_set(&w->taper);
    if (has_other_gridders(r) || r->gpus.n > 1 || (n > 1 && is_natural)) return MSI_OK;
    MSI_TRY(msi_gridder_gpu_end(r->gridder[0])); /* it does nothing if copying was not begun */
    for (int64_t c = 0; c < n; c++)
        MSI_TRY(msi_gridder_move_to_gpu(r->gridder[c], msi_ms_reader_n_sample(r->reader),
                                        n * msi_ms_reader_n_row(r->reader)));
    return MSI_OK;
}

/* If the GPU has started, make the plan unless it is made, and begin to copy samples to the GPU. */
static int begin_if_started(load *l)
{
    msi_imaging_run *r = l->run;
    if (l->has_begun || !msi_backend_has_started(r->gpus.device[0])) return MSI_OK;
    l->has_begun = 1;
    omp_set_num_threads(l->n_thread);
    int rc = r->is_planned ? MSI_OK : msi_imaging_plan_gridders(r);
    if (!rc) rc = begin_on_gpu(r);
    omp_set_num_threads(l->n_left);
    return rc;
}

/* The stages of loading, for their times in the log. */
typedef enum load_stage { WAIT, FILL, ADD, PLAN, N_STAGE } load_stage;

/* Add the time since *last to a stage. */
static void end_stage(double s[N_STAGE], load_stage stage, double *last)
{
    const double now = msi_wall_s();
    s[stage] += now - *last;
    *last = now;
}

static int load_blocks(load *l, msi_sample_tally *tally)
{
    const int64_t n_row = msi_ms_reader_n_share_row(l->reader);
    int64_t done = 0;
    double s[N_STAGE] = {0}, last = msi_wall_s();
    msi_progress_begin("reading");
    for (;;) {
        MSI_TRY(begin_if_started(l));
        end_stage(s, PLAN, &last);
        MSI_TRY(msi_reader_pool_take(l->reader_pool, l->reader, MOST_BLOCKS, l->block, &l->n_block));
        end_stage(s, WAIT, &last);
        if (!l->n_block) break;
        MSI_TRY(reserve_batch(l));
        end_stage(s, ADD, &last);
        MSI_TRY(msi_reader_pool_fill(l->reader_pool, l->reader, l->block, l->n_block));
        end_stage(s, FILL, &last);
        MSI_TRY(list_parts(l, tally));
        MSI_TRY(commit_batch(l));
        MSI_TRY(add_parts(l));
        end_stage(s, ADD, &last);
        MSI_TRY(msi_interrupt_check());
        for (int i = 0; i < l->n_block; i++) done += l->block[i].n_row;
        msi_progress_at(done, n_row);
    }
    msi_progress_end();
    msi_log_detail("reading: %.2f s waiting for blocks, %.2f s reading samples, %.2f s adding them, %.2f s planning",
                   s[WAIT], s[FILL], s[ADD], s[PLAN]);
    return MSI_OK;
}

/*
 * Read all samples of the reader into the gridders.
 * Given:              run    its facets or beam make the tags of rows; gridders have spec->n_plane planes each
 * Given and returned: *tally  the samples are added to it
 *                     beam_weights  [sets] the weights are added to it; NULL: not counted
 * Returns:            0, MSI_EINPUT, MSI_ENOMEM, MSI_EOUTPUT (the file of the store), MSI_EINTERRUPTED
 */
static int read_samples(msi_imaging_run *run, const msi_conversion_spec *spec, msi_sample_tally *tally,
                        msi_beam_weights *beam_weights)
{
    msi_reader_pool *pool = run->reader_pool;
    msi_ms_reader *reader = run->reader;
    /* Leave one core to each reader process. With several planes keep at least half of the threads for the gridders,
     * since readers would wait for these otherwise. */
    const int n_thread = omp_get_max_threads(), n_reader = msi_reader_pool_load(pool, reader);
    load l = {.run = run,
              .reader_pool = pool,
              .reader = reader,
              .gridder = run->gridder,
              .beam_weights = beam_weights,
              .facets = run->facets,
              .beam = run->beam};
    const int left = n_thread - n_reader, half = spec->n_plane > 1 && n_thread > 1 ? n_thread / 2 : 1;
    l.n_thread = n_thread;
    l.n_left = left > half ? left : half;
    omp_set_num_threads(l.n_left);
    l.in_place.end_block = can_convert_in_place(&l, spec) ? INT64_MAX : 0;
    int rc = begin_load(&l, spec);
    if (!rc) rc = load_blocks(&l, tally);
    omp_set_num_threads(n_thread);
    msi_free(l.request);
    msi_free(l.in_place.rows);
    msi_free(l.n_part);
    msi_free(l.part);
    return rc;
}

void msi_imaging_stop_readers(msi_imaging_run *r)
{
    msi_reader_pool_free(r->reader_pool);
    r->reader_pool = NULL;
}

/* Sum the counts over all ranks. */
static int count_loaded(msi_imaging_run *r)
{
    const msi_ms_dropped *d = msi_ms_reader_dropped(r->reader);
    enum { N_DROPPED = sizeof *d / sizeof(int64_t) };
    int64_t count[N_DROPPED + 2] = {0};
    msi_sample_tally *tally;
    memcpy(count, d, sizeof *d);
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        msi_gridder_report report;
        msi_imaging_report_of_channel(r, c, &report);
        count[N_DROPPED] += report.n_sample;
        count[N_DROPPED + 1] += report.n_outside;
    }
    MSI_TRY(msi_ranks_count(r->ranks, count, N_DROPPED + 2));
    memcpy(&r->dropped, count, sizeof r->dropped);
    r->n_loaded = count[N_DROPPED];
    r->n_outside = count[N_DROPPED + 1];
    MSI_TRY(msi_ranks_gather(r->ranks, &r->tally, sizeof r->tally, (void **)&tally));
    memset(&r->tally, 0, sizeof r->tally);
    for (int k = 0; k < r->ranks->size; k++) msi_sample_tally_add(&r->tally, &tally[k]);
    msi_free(tally);
    return MSI_OK;
}

int msi_imaging_load(msi_imaging_run *r)
{
    const msi_facet_planes *stored = r->facets ? &r->facets->work.planes : NULL;
    const msi_conversion_spec spec = {.planes = stored ? stored->stored : r->planes,
                                      .weight = r->options->stokes_weight,
                                      .precision = msi_gridder_precision(r->gridder[0]),
                                      .n_plane = stored ? stored->n_stored : r->n_plane,
                                      .channels = &r->channels,
                                      .reader = r->reader,
                                      .turn = r->mosaic ? r->mosaic->turn : NULL,
                                      .n_turn = r->mosaic ? r->mosaic->n_turn : 0,
                                      .continuum = &r->options->cube.continuum,
                                      .ra_rad = r->ra_rad,
                                      .dec_rad = r->dec_rad,
                                      .sums_beam_weights = msi_imaging_pb_wanted(r->options),
                                      .beam_hz = {r->channels.low_hz[0], r->channels.high_hz[r->channels.n - 1]},
                                      .least_turn_rad = MSI_LOST_TO_CENTRE * r->options->accuracy};
    msi_beam_weights *beam_weights = NULL;
    memset(&r->tally, 0, sizeof r->tally);
    if (spec.sums_beam_weights)
        MSI_TRY(msi_alloc(&beam_weights, r->options->n_ms, sizeof *beam_weights, "weights of the primary beam"));
    int rc = read_samples(r, &spec, &r->tally, beam_weights);
    if (!rc && beam_weights) rc = msi_imaging_pb_weigh(r, beam_weights);
    msi_free(beam_weights);
    MSI_TRY(rc);
    if (r->interval + 1 == r->options->intervals_out) msi_imaging_stop_readers(r);
    MSI_TRY(count_loaded(r));
    msi_imaging_report_loaded(r);
    return MSI_OK;
}
