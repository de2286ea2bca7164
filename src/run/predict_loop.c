/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/predict_loop.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/run/block_stream.h"
#include "src/preprocess/correlations.h"
#include "src/preprocess/phase_shift.h"

/* What the gridders hold, block by block in the order in which it was added. */
typedef struct filling {
    int64_t n_block, block_capacity;
    msi_ms_block *block; /* [n_block] with ms_row and uvw_m of the arrays below, and no data */
    int64_t n_row, n_sample;
    int64_t *ms_row; /* [n_row] */
    double *uvw_m;   /* [n_row][3] about the field's own centre */
} filling;

/* Room for one block, grown when a larger one comes. */
typedef struct workspace {
    int64_t n_value, n_row;
    msi_c64 *vis;  /* [n_value] */
    double *uvw_m; /* [n_row][3] */
} workspace;

typedef struct run {
    msi_predict_loop *loop;
    msi_block_stream *stream;
    const msi_ms_block *next; /* read, not yet added; n_row is 0 after the last one */
    filling f;
    workspace w;
} run;

static int workspace_fit(workspace *w, int64_t n_value, int64_t n_row)
{
    if (n_value > w->n_value) {
        msi_free(w->vis);
        w->n_value = 0;
        MSI_TRY(msi_alloc(&w->vis, n_value, sizeof *w->vis, "block of visibilities"));
        w->n_value = n_value;
    }
    if (n_row > w->n_row) {
        msi_free(w->uvw_m);
        w->n_row = 0;
        MSI_TRY(msi_alloc(&w->uvw_m, 3 * n_row, sizeof *w->uvw_m, "block of visibilities"));
        w->n_row = n_row;
    }
    return MSI_OK;
}

/* ---- Fill ---- */

static int shift_of(const run *r, const msi_ms_block *b, msi_phase_shift *shift)
{
    const msi_model_images *m = r->loop->models;
    msi_phase_shift_make(shift, b->ra_rad, b->dec_rad, m->ra_rad, m->dec_rad);
    const double *d = shift->direction;
    return sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) > r->loop->no_turn_rad;
}

/* Keeps what of a block is needed again when it is written. */
static int keep_block(run *r, const msi_ms_block *b)
{
    filling *f = &r->f;
    if (f->n_block == f->block_capacity) {
        const int64_t capacity = f->block_capacity ? 2 * f->block_capacity : 256;
        msi_ms_block *grown;
        MSI_TRY(msi_alloc(&grown, capacity, sizeof *grown, "list of blocks"));
        if (f->n_block) memcpy(grown, f->block, sizeof *grown * (size_t)f->n_block);
        msi_free(f->block);
        f->block = grown;
        f->block_capacity = capacity;
    }
    msi_ms_block *kept = &f->block[f->n_block++];
    *kept = *b;
    kept->ms_row = f->ms_row + f->n_row;
    kept->uvw_m = f->uvw_m + 3 * f->n_row;
    kept->time_s = NULL;
    kept->flag = NULL;
    kept->buffer = NULL;
    memcpy(f->ms_row + f->n_row, b->ms_row, sizeof *b->ms_row * (size_t)b->n_row);
    memcpy(f->uvw_m + 3 * f->n_row, b->uvw_m, sizeof *b->uvw_m * 3 * (size_t)b->n_row);
    f->n_row += b->n_row;
    f->n_sample += b->n_row * b->n_chan;
    return MSI_OK;
}

static int add_block(run *r, const msi_ms_block *b)
{
    const msi_model_bands *bands = r->loop->bands;
    const double *uvw_m = b->uvw_m;
    msi_phase_shift shift;
    if (shift_of(r, b, &shift)) {
        MSI_TRY(workspace_fit(&r->w, 0, b->n_row));
        msi_phase_shift_rotate(&shift, b->n_row, b->uvw_m, r->w.uvw_m);
        uvw_m = r->w.uvw_m;
    }
    int64_t begin, stop;
    msi_output_channels_met(&bands->channels, b->freq_hz, b->n_chan, &begin, &stop);
    for (int64_t i = begin; i < stop; i++) {
        int32_t first, end;
        msi_output_channels_range(&bands->channels, i, b->freq_hz, b->n_chan, &first, &end);
        if (first == end) continue;
        msi_vis_block part = {.n_row = b->n_row,
                              .n_chan = end - first,
                              .n_plane = bands->band[i].n_image * r->loop->models->n_plane,
                              .uvw_m = uvw_m,
                              .freq_hz = b->freq_hz + first};
        MSI_TRY(msi_gridder_add(r->loop->gridder[i], &part));
    }
    return keep_block(r, b);
}

static int fill(run *r)
{
    const msi_predict_plan *plan = r->loop->plan;
    filling *f = &r->f;
    const double start = msi_wall_s();
    f->n_block = f->n_row = f->n_sample = 0;
    while (r->next->n_row) {
        const msi_ms_block *b = r->next;
        if (f->n_block &&
            (f->n_sample + b->n_row * b->n_chan > plan->fill_sample || f->n_row + b->n_row > plan->fill_row))
            break;
        MSI_TRY(add_block(r, b));
        MSI_TRY(msi_interrupt_check());
        MSI_TRY(msi_block_stream_next(r->stream, &r->next));
    }
    r->loop->done.read_s += msi_wall_s() - start;
    return MSI_OK;
}

/* ---- Degrid ---- */

/* One of several bands: its model comes and goes, and with it what the gridder made of it. */
static int degrid_with_model(run *r, int64_t i)
{
    const msi_model_band *band = &r->loop->bands->band[i];
    msi_gridder *g = r->loop->gridder[i];
    msi_image model;
    MSI_TRY(msi_model_images_take(r->loop->models, band->first, band->n_image, msi_gridder_precision(g), &model));
    int rc = msi_gridder_model(g, &model);
    if (!rc) rc = msi_gridder_predict(g);
    msi_gridder_expect(g, 0, 0, 0, 0);
    msi_image_free(&model);
    return rc;
}

static int degrid(run *r)
{
    const double start = msi_wall_s();
    for (int64_t i = 0; i < r->loop->bands->channels.n; i++) {
        if (!r->loop->gridder[i]) continue;
        MSI_TRY(r->loop->plan->n_band == 1 ? msi_gridder_predict(r->loop->gridder[i]) : degrid_with_model(r, i));
        MSI_TRY(msi_interrupt_check());
    }
    r->loop->done.degrid_s += msi_wall_s() - start;
    return MSI_OK;
}

/* ---- Empty ---- */

/* The correlations of a block, [n_row][n_chan][n_corr]. */
static int form_block(run *r, const msi_ms_block *b, msi_c32 *out)
{
    const msi_model_bands *bands = r->loop->bands;
    const msi_model_images *m = r->loop->models;
    msi_unmix unmix[MSI_MAX_CORR];
    msi_phase_shift shift;
    const int turns = shift_of(r, b, &shift);
    MSI_TRY(msi_unmix_make(unmix, m->pol, m->n_plane, b->corr, b->n_corr));
    int64_t begin, stop;
    msi_output_channels_met(&bands->channels, b->freq_hz, b->n_chan, &begin, &stop);
    for (int64_t i = begin; i < stop; i++) {
        int32_t first, end;
        msi_output_channels_range(&bands->channels, i, b->freq_hz, b->n_chan, &first, &end);
        if (first == end) continue;
        const msi_model_band *band = &bands->band[i];
        const double *freq_hz = b->freq_hz + first;
        const int32_t n_chan = end - first;
        MSI_TRY(workspace_fit(&r->w, b->n_row * n_chan * band->n_image * m->n_plane, 0));
        MSI_TRY(msi_gridder_fetch(r->loop->gridder[i], b->n_row, n_chan, freq_hz, r->w.vis));
        msi_model_band_blend(band, m->n_plane, b->n_row, n_chan, freq_hz, r->w.vis);
        if (turns) msi_phase_shift_predicted(&shift, b->n_row, n_chan, m->n_plane, freq_hz, b->uvw_m, r->w.vis);
        msi_correlations_form(unmix, b->n_corr, b->n_row, n_chan, r->w.vis, first, b->n_chan, out);
    }
    return MSI_OK;
}

/* Blocks from the first on that lie behind one another in one set and setup, and so are written at once. */
static int64_t n_together(const filling *f, int64_t first, int64_t most_bytes, msi_ms_block *all)
{
    *all = f->block[first];
    int64_t n = 1;
    for (; first + n < f->n_block; n++) {
        const msi_ms_block *b = &f->block[first + n];
        const int64_t row_bytes = (int64_t)sizeof(msi_c32) * b->n_chan * b->n_corr;
        if (b->set != all->set || b->data_desc_id != all->data_desc_id || b->chan_index != all->chan_index ||
            b->ms_row[0] <= all->ms_row[all->n_row - 1] || (all->n_row + b->n_row) * row_bytes > most_bytes)
            break;
        all->n_row += b->n_row;
    }
    return n;
}

static int empty(run *r)
{
    msi_predict_loop *loop = r->loop;
    const filling *f = &r->f;
    const double start = msi_wall_s();
    for (int64_t first = 0, n; first < f->n_block; first += n) {
        msi_ms_block all;
        msi_c32 *values;
        n = n_together(f, first, loop->plan->slot_bytes, &all);
        MSI_TRY(msi_ms_writer_slot(loop->writer, &all, &values));
        for (int64_t i = first; i < first + n; i++) {
            const msi_ms_block *b = &f->block[i];
            MSI_TRY(form_block(r, b, values));
            values += b->n_row * b->n_chan * b->n_corr;
        }
        MSI_TRY(msi_ms_writer_submit(loop->writer));
        MSI_TRY(msi_interrupt_check());
        loop->done.n_row += all.n_row;
        loop->done.n_sample += all.n_row * all.n_chan;
        msi_progress("predicting", loop->done.n_row < loop->n_row ? loop->done.n_row : loop->n_row - 1, loop->n_row);
    }
    for (int64_t i = 0; i < loop->bands->channels.n; i++)
        if (loop->gridder[i]) msi_gridder_clear(loop->gridder[i]);
    loop->done.write_s += msi_wall_s() - start;
    return MSI_OK;
}

int msi_predict_loop_run(msi_predict_loop *loop)
{
    run r = {.loop = loop};
    /* Outside of degridding one core is left to the reader, or to the writer: OpenMP's threads spin while they wait. */
    const int n_thread = omp_get_max_threads();
    omp_set_num_threads(n_thread > 1 ? n_thread - 1 : 1);
    int rc = msi_alloc(&r.f.ms_row, loop->plan->fill_row, sizeof *r.f.ms_row, "rows at a time");
    if (!rc) rc = msi_alloc(&r.f.uvw_m, 3 * loop->plan->fill_row, sizeof *r.f.uvw_m, "rows at a time");
    if (!rc) rc = msi_block_stream_open(&r.stream, loop->reader, NULL);
    if (!rc) rc = msi_block_stream_next(r.stream, &r.next);
    while (!rc && r.next->n_row) {
        rc = fill(&r);
        if (!rc) rc = degrid(&r);
        if (!rc) rc = empty(&r);
        loop->done.n_filling++;
    }
    if (!rc) msi_progress("predicting", loop->n_row, loop->n_row);
    msi_block_stream_close(r.stream);
    omp_set_num_threads(n_thread);
    msi_free(r.f.block);
    msi_free(r.f.ms_row);
    msi_free(r.f.uvw_m);
    msi_free(r.w.vis);
    msi_free(r.w.uvw_m);
    return rc;
}
