/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/predict/predict_loop.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/run/block_conversion.h"
#include "src/sky/stokes.h"
#include "src/sky/phase_shift.h"

/* The blocks that the gridders hold, in the order in which they were added. */
typedef struct block_batch {
    int64_t n_block, block_capacity;
    msi_ms_block *block; /* [n_block] without data; its arrays point into those below */
    int64_t n_row, n_sample;
    int64_t *ms_row; /* [n_row] */
    double *uvw_m;   /* [n_row][3] for the field's own centre */
    double *time_s;  /* [n_row]; NULL without a primary beam */
    uint8_t *pair;   /* [n_row]; NULL without a primary beam */
} block_batch;

typedef struct predict_state {
    msi_predict_loop *loop;
    msi_ms_block next; /* read but not added; n_row is 0 after the last block */
    block_batch batch;
    msi_block_workspace workspace; /* buffers of one block */
    msi_block_workspace sum;       /* sums over the terms of a primary beam */
    int64_t n_tag;
    uint64_t *tag; /* tags of one block, for facets */
} predict_state;

/* ---- Fill ---- */

/* Make the shift from a block's phase centre to that of the models. Returns: 1 if it is needed, otherwise 0 */
static int make_shift(const predict_state *r, const msi_ms_block *block, msi_phase_shift *shift)
{
    const msi_model_images *models = r->loop->models;
    msi_phase_shift_make(shift, block->ra_rad, block->dec_rad, models->ra_rad, models->dec_rad);
    const double *d = shift->direction;
    return sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) > r->loop->no_turn_rad;
}

/* Store the parts of a block that are needed again when it is written. */
static int store_block(predict_state *r, const msi_ms_block *block)
{
    block_batch *batch = &r->batch;
    if (batch->n_block == batch->block_capacity) {
        const int64_t capacity = batch->block_capacity ? 2 * batch->block_capacity : 256;
        MSI_TRY(msi_grow(&batch->block, batch->n_block, capacity, sizeof *batch->block, "list of blocks"));
        batch->block_capacity = capacity;
    }
    msi_ms_block *kept = &batch->block[batch->n_block++];
    *kept = *block;
    kept->ms_row = batch->ms_row + batch->n_row;
    kept->uvw_m = batch->uvw_m + 3 * batch->n_row;
    kept->time_s = batch->time_s ? batch->time_s + batch->n_row : NULL;
    kept->pair = batch->pair ? batch->pair + batch->n_row : NULL;
    kept->flag = NULL;
    kept->buffer = NULL;
    memcpy(batch->ms_row + batch->n_row, block->ms_row, sizeof *block->ms_row * (size_t)block->n_row);
    memcpy(batch->uvw_m + 3 * batch->n_row, block->uvw_m, sizeof *block->uvw_m * 3 * (size_t)block->n_row);
    if (batch->time_s) {
        memcpy(batch->time_s + batch->n_row, block->time_s, sizeof *block->time_s * (size_t)block->n_row);
        memcpy(batch->pair + batch->n_row, block->pair, (size_t)block->n_row);
    }
    batch->n_row += block->n_row;
    batch->n_sample += block->n_row * block->n_chan;
    return MSI_OK;
}

/* Channels [first, first + n_chan) of a block that are in one band of the models. */
typedef struct band_part {
    int64_t band, stop; /* current band, and end of the bands of the block; stop is 0 before the first part */
    int32_t first, n_chan;
} band_part;

/* Go to the next band with channels of a block. Returns: 0 after the last band */
static int next_part(const msi_model_bands *bands, const msi_ms_block *block, band_part *at)
{
    if (at->stop == 0)
        msi_output_channels_overlap(&bands->channels, block->freq_hz, block->n_chan, &at->band, &at->stop);
    else
        at->band++;
    for (; at->band < at->stop; at->band++) {
        int32_t end;
        msi_output_channels_range(&bands->channels, at->band, block->freq_hz, block->n_chan, &at->first, &end);
        at->n_chan = end - at->first;
        if (at->n_chan > 0) return 1;
    }
    return 0;
}

/* Make the tags of a block's rows. */
static int tag_rows(predict_state *r, const msi_ms_block *block)
{
    if (block->n_row > r->n_tag) {
        r->n_tag = 0;
        MSI_TRY(msi_grow(&r->tag, 0, block->n_row, sizeof *r->tag, "tags of rows"));
        r->n_tag = block->n_row;
    }
    return msi_facet_gains_tag(r->loop->gains, block, r->tag);
}

static int add_block(predict_state *r, const msi_ms_block *block)
{
    const msi_model_bands *bands = r->loop->bands;
    const double *uvw_m = block->uvw_m;
    msi_phase_shift shift;
    if (make_shift(r, block, &shift)) {
        MSI_TRY(msi_block_workspace_fit(&r->workspace, block->n_row, 0, 0));
        msi_phase_shift_rotate(&shift, block->n_row, block->uvw_m, r->workspace.uvw_m);
        uvw_m = r->workspace.uvw_m;
    }
    if (r->loop->facets) MSI_TRY(tag_rows(r, block));
    band_part at = {0};
    while (next_part(bands, block, &at)) {
        int n;
        const msi_predict_part *part = r->loop->parts->part + msi_predict_parts_of(r->loop->parts, at.band, block, &n);
        for (int k = 0; k < n; k++, part++) {
            const msi_vis_block samples = {.n_row = block->n_row,
                                           .n_chan = at.n_chan,
                                           .n_plane = part->n_plane,
                                           .uvw_m = uvw_m,
                                           .tag = r->tag,
                                           .freq_hz = block->freq_hz + at.first};
            MSI_TRY(msi_gridder_add(part->gridder, &samples));
        }
    }
    return store_block(r, block);
}

static int fill_batch(predict_state *r)
{
    const msi_predict_plan *plan = r->loop->plan;
    block_batch *batch = &r->batch;
    const double start = msi_wall_s();
    batch->n_block = batch->n_row = batch->n_sample = 0;
    while (r->next.n_row) {
        const msi_ms_block *block = &r->next;
        if (batch->n_block && (batch->n_sample + block->n_row * block->n_chan > plan->batch_sample ||
                               batch->n_row + block->n_row > plan->batch_row))
            break;
        MSI_TRY(add_block(r, block));
        msi_progress_at(batch->n_row, plan->batch_row);
        MSI_TRY(msi_interrupt_check());
        MSI_TRY(msi_ms_reader_next(r->loop->reader, &r->next));
    }
    r->loop->done.read_s += msi_wall_s() - start;
    return MSI_OK;
}

/* ---- Degrid ---- */

/* Load the model of one of several parts, degrid it, and free the model and its grids. */
static int degrid_with_model(predict_state *r, const msi_predict_part *part)
{
    const msi_predict_loop *loop = r->loop;
    msi_gridder_report report;
    msi_image model;
    msi_gridder_report_get(part->gridder, &report);
    if (!report.n_sample) return MSI_OK;
    MSI_TRY(msi_predict_parts_load(loop->parts, part, loop->models, loop->bands, msi_gridder_precision(part->gridder),
                                   &model));
    int rc = MSI_OK;
    if (loop->facets) {
        rc = msi_facet_predict(loop->facets, part->gridder, &model);
    } else {
        rc = msi_gridder_model(part->gridder, &model);
        if (!rc) rc = msi_gridder_predict(part->gridder);
        msi_gridder_reset(part->gridder);
    }
    msi_image_free(&model);
    return rc;
}

/* Degrid the only part, whose model is in memory. */
static int degrid_only(const msi_predict_loop *loop)
{
    msi_gridder *g = loop->parts->part[0].gridder;
    return loop->facets ? msi_facet_predict(loop->facets, g, loop->model) : msi_gridder_predict(g);
}

static int degrid_batch(predict_state *r)
{
    const double start = msi_wall_s();
    const msi_predict_parts *parts = r->loop->parts;
    for (int64_t i = 0; i < parts->n; i++) {
        const msi_progress_share all = msi_progress_enter(i, i + 1, parts->n);
        MSI_TRY(parts->n == 1 ? degrid_only(r->loop) : degrid_with_model(r, &parts->part[i]));
        msi_progress_leave(all);
        MSI_TRY(msi_interrupt_check());
    }
    r->loop->done.degrid_s += msi_wall_s() - start;
    return MSI_OK;
}

/* ---- Drain ---- */

/* Fetch the visibilities of a part for some channels of a block, and interpolate between models. */
static int fetch_part(predict_state *r, const msi_predict_part *part, const msi_ms_block *block, const band_part *at)
{
    const msi_model_band *band = &r->loop->bands->band[at->band];
    const double *freq_hz = block->freq_hz + at->first;
    MSI_TRY(msi_block_workspace_fit(&r->workspace, 0, block->n_row * at->n_chan * part->n_plane, 0));
    MSI_TRY(msi_gridder_fetch(part->gridder, block->n_row, at->n_chan, freq_hz, r->workspace.vis));
    /* Facets sum the terms of models before they apply gains. */
    if (r->loop->facets) return MSI_OK;
    msi_model_band_blend(band, part->n_plane / band->n_image, block->n_row, at->n_chan, freq_hz, r->workspace.vis);
    return MSI_OK;
}

/* Make the visibilities of the planes for some channels of a block. Returned: *vis [n_out][n_row][n_chan] */
static int make_planes(predict_state *r, const msi_ms_block *block, const band_part *at, msi_c64 **vis)
{
    const msi_predict_parts *parts = r->loop->parts;
    int n;
    const msi_predict_part *part = parts->part + msi_predict_parts_of(parts, at->band, block, &n);
    const int64_t n_vis = block->n_row * at->n_chan * parts->n_out;
    if (!parts->array) {
        *vis = NULL;
        MSI_TRY(fetch_part(r, part, block, at));
        *vis = r->workspace.vis;
        return MSI_OK;
    }
    MSI_TRY(msi_block_workspace_fit(&r->sum, 0, n_vis, 0));
    memset(r->sum.vis, 0, sizeof *r->sum.vis * (size_t)n_vis);
    *vis = r->sum.vis;
    const msi_pb_rows rows = {block->n_row, at->n_chan, block->time_s, block->freq_hz + at->first, block->pair};
    for (int k = 0; k < n; k++, part++) {
        MSI_TRY(fetch_part(r, part, block, at));
        msi_pb_terms_add(&parts->terms[at->band * parts->n_view + part->view], &rows, part->first_term, part->n_term,
                         r->workspace.vis, r->sum.vis);
    }
    return MSI_OK;
}

/* Make the correlations of a block, [n_row][n_chan][n_corr]. */
static int make_correlations(predict_state *r, const msi_ms_block *block, msi_c32 *out)
{
    const msi_predict_parts *parts = r->loop->parts;
    msi_unmix unmix[MSI_MAX_CORR];
    msi_phase_shift shift;
    msi_c64 *vis;
    const int turns = make_shift(r, block, &shift);
    MSI_TRY(msi_unmix_make(unmix, parts->out, parts->n_out, block->corr, block->n_corr));
    band_part at = {0};
    while (next_part(r->loop->bands, block, &at)) {
        MSI_TRY(make_planes(r, block, &at, &vis));
        if (turns)
            msi_phase_shift_inverse(&shift, block->n_row, at.n_chan, parts->n_out, block->freq_hz + at.first,
                                    block->uvw_m, vis);
        msi_correlations_convert(unmix, block->n_corr, block->n_row, (msi_channel_range){at.first, at.n_chan}, vis,
                                 block->n_chan, out);
    }
    return MSI_OK;
}

/* Count the blocks from `first` on that can be written together: they have ascending rows of one set and setup.
 * Returned: *all  these blocks as one block */
static int64_t count_joined(const block_batch *batch, int64_t first, int64_t most_bytes, msi_ms_block *all)
{
    *all = batch->block[first];
    int64_t n = 1;
    for (; first + n < batch->n_block; n++) {
        const msi_ms_block *block = &batch->block[first + n];
        const int64_t row_bytes = (int64_t)sizeof(msi_c32) * block->n_chan * block->n_corr;
        if (block->set != all->set || block->data_desc_id != all->data_desc_id ||
            block->chan_index != all->chan_index || block->ms_row[0] <= all->ms_row[all->n_row - 1] ||
            (all->n_row + block->n_row) * row_bytes > most_bytes)
            break;
        all->n_row += block->n_row;
    }
    return n;
}

static int drain_batch(predict_state *r)
{
    msi_predict_loop *loop = r->loop;
    const block_batch *batch = &r->batch;
    const double start = msi_wall_s();
    for (int64_t first = 0, n; first < batch->n_block; first += n) {
        msi_ms_block all;
        msi_c32 *values;
        n = count_joined(batch, first, loop->plan->slot_bytes, &all);
        MSI_TRY(msi_ms_writer_slot(loop->writer, &all, &values));
        for (int64_t i = first; i < first + n; i++) {
            const msi_ms_block *block = &batch->block[i];
            MSI_TRY(make_correlations(r, block, values));
            values += block->n_row * block->n_chan * block->n_corr;
        }
        MSI_TRY(msi_ms_writer_submit(loop->writer));
        MSI_TRY(msi_interrupt_check());
        loop->done.n_row += all.n_row;
        loop->done.n_sample += all.n_row * all.n_chan;
        msi_progress_at(first + n, batch->n_block);
    }
    for (int64_t i = 0; i < loop->parts->n; i++) msi_gridder_clear(loop->parts->part[i].gridder);
    loop->done.write_s += msi_wall_s() - start;
    return MSI_OK;
}

static int run_batch(predict_state *r)
{
    enum { FILLED = 1, DEGRIDDED = 7, N_PART = 10 }; /* parts of the progress of a batch */
    const msi_predict_loop *loop = r->loop;
    const msi_progress_share all =
        msi_progress_enter(loop->done.n_row, loop->done.n_row + loop->plan->batch_row, loop->n_row);
    msi_progress_share part = msi_progress_enter(0, FILLED, N_PART);
    MSI_TRY(fill_batch(r));
    msi_progress_leave(part);
    part = msi_progress_enter(FILLED, DEGRIDDED, N_PART);
    MSI_TRY(degrid_batch(r));
    msi_progress_leave(part);
    part = msi_progress_enter(DEGRIDDED, N_PART, N_PART);
    MSI_TRY(drain_batch(r));
    msi_progress_leave(part);
    msi_progress_leave(all);
    return MSI_OK;
}

int msi_predict_loop_run(msi_predict_loop *loop)
{
    predict_state r = {.loop = loop};
    /* Leave one core to the reader and writer processes: threads of OpenMP spin while they wait. */
    const int n_thread = omp_get_max_threads();
    omp_set_num_threads(n_thread > 1 ? n_thread - 1 : 1);
    int rc = msi_alloc(&r.batch.ms_row, loop->plan->batch_row, sizeof *r.batch.ms_row, "rows at a time");
    if (!rc) rc = msi_alloc(&r.batch.uvw_m, 3 * loop->plan->batch_row, sizeof *r.batch.uvw_m, "rows at a time");
    if (!rc && loop->parts->array)
        rc = msi_alloc(&r.batch.time_s, loop->plan->batch_row, sizeof *r.batch.time_s, "rows at a time");
    if (!rc && loop->parts->array)
        rc = msi_alloc(&r.batch.pair, loop->plan->batch_row, sizeof *r.batch.pair, "rows at a time");
    if (!rc) rc = msi_ms_reader_next(loop->reader, &r.next);
    msi_progress_begin("predicting");
    while (!rc && r.next.n_row) {
        rc = run_batch(&r);
        loop->done.n_batch++;
    }
    if (!rc) msi_progress_end();
    omp_set_num_threads(n_thread);
    msi_free(r.batch.block);
    msi_free(r.tag);
    msi_free(r.batch.ms_row);
    msi_free(r.batch.uvw_m);
    msi_free(r.batch.time_s);
    msi_free(r.batch.pair);
    msi_block_workspace_free(&r.workspace);
    msi_block_workspace_free(&r.sum);
    return rc;
}
