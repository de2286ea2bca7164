/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/imaging_load.h"

#include <assert.h>
#include <omp.h>
#include <string.h>

#include "core/first_error.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/preprocess/phase_shift.h"
#include "src/run/block_workspace.h"

static_assert((int)MSI_MAX_PLANES < (int)MSI_GRIDDER_MAX_PLANES, "a gridder takes every plane, and the PSF");

/* A block, and how its parts are made ready. */
typedef struct block_load {
    const msi_ms_block *block;
    const msi_imaging_load_spec *spec;
    const msi_mix *mix; /* [n_plane] */
} block_load;

/* Says whether a block must be turned to the images' centre: equal centres may differ by rounding. */
static int is_turned(const block_load *l, msi_phase_shift *shift)
{
    const msi_ms_block *b = l->block;
    const msi_imaging_load_spec *spec = l->spec;
    if (b->ra_rad == spec->ra_rad && b->dec_rad == spec->dec_rad) return 0;
    msi_phase_shift_make(shift, b->ra_rad, b->dec_rad, spec->ra_rad, spec->dec_rad);
    const double turns = msi_phase_shift_turns(shift, b->n_row, b->freq_hz[b->n_chan - 1], b->uvw_m);
    return 2 * MSI_PI * turns > spec->least_turn_rad;
}

/* Prepares the channels of a block that belong to output channel c, and adds them to its gridder. */
static int load_channel(const block_load *l, int64_t c, msi_gridder *gridder, msi_block_workspace *w,
                        msi_sample_tally *tally)
{
    const msi_ms_block *block = l->block;
    const msi_imaging_load_spec *spec = l->spec;
    int32_t first, end;
    msi_output_channels_range(spec->channels, c, block->freq_hz, block->n_chan, &first, &end);
    if (first == end) return MSI_OK;
    const double *freq_hz = block->freq_hz + first, *uvw_m = block->uvw_m;
    const int64_t n_value = spec->n_plane * block->n_row * (end - first);
    msi_phase_shift shift;
    const int turns = is_turned(l, &shift);
    MSI_TRY(msi_block_workspace_fit(w, turns ? block->n_row : 0, n_value, n_value));
    msi_stokes_form(block, l->mix, spec->n_plane, (msi_channel_range){first, end - first}, w->vis, w->weight, tally);
    if (turns) {
        memcpy(w->uvw_m, block->uvw_m, sizeof *w->uvw_m * 3 * (size_t)block->n_row);
        msi_phase_shift_apply(&shift, block->n_row, end - first, spec->n_plane, freq_hz, w->uvw_m, w->vis);
        uvw_m = w->uvw_m;
    }
    msi_vis_block ready = {block->n_row, end - first, spec->n_plane, uvw_m, freq_hz, w->vis, w->weight};
    return msi_gridder_add(gridder, &ready);
}

/* Loads many output channels at a time, by a thread each: a part of a block is little for many threads to share. */
static int load_at_once(const block_load *l, int64_t first_met, int64_t end_met, msi_gridder *const *gridder,
                        msi_block_workspace *w, msi_sample_tally *tally)
{
    msi_first_error failure = {0};
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t c = first_met; c < end_met; c++) {
        msi_sample_tally own = {0};
        if (msi_first_error_status(&failure)) continue;
        msi_first_error_keep(&failure, load_channel(l, c, gridder[c], &w[omp_get_thread_num()], &own));
#pragma omp critical(loaded)
        msi_sample_tally_add(tally, &own);
    }
    return msi_first_error_raise(&failure);
}

static int load_block(const msi_ms_block *block, const msi_imaging_load_spec *spec, msi_gridder *const *gridder,
                      msi_block_workspace *w, msi_sample_tally *tally)
{
    msi_mix mix[MSI_MAX_PLANES];
    MSI_TRY(msi_mix_make(mix, spec->planes, spec->n_plane, spec->weight, block->corr, block->n_corr));
    const block_load l = {block, spec, mix};
    int64_t first_met, end_met;
    msi_output_channels_met(spec->channels, block->freq_hz, block->n_chan, &first_met, &end_met);
    if (end_met - first_met > 1 && 2 * (end_met - first_met) >= omp_get_max_threads())
        return load_at_once(&l, first_met, end_met, gridder, w, tally);
    for (int64_t c = first_met; c < end_met; c++) MSI_TRY(load_channel(&l, c, gridder[c], w, tally));
    return MSI_OK;
}

static int prepare_blocks(msi_ms_reader *reader, int64_t n_row, const msi_imaging_load_spec *spec,
                          msi_gridder *const *gridder, msi_sample_tally *tally)
{
    const int n_thread = omp_get_max_threads();
    msi_block_workspace *w; /* of each thread */
    int64_t done = 0;
    double waited_s = 0, prepared_s = 0;
    msi_ms_block block = {0};
    int rc;
    MSI_TRY(msi_alloc(&w, n_thread, sizeof *w, "blocks of visibilities"));
    msi_progress_begin("reading");
    for (;;) {
        const double start = msi_wall_s();
        rc = msi_ms_reader_next(reader, &block);
        const double there = msi_wall_s();
        waited_s += there - start;
        if (rc || !block.n_row) break;
        rc = load_block(&block, spec, gridder, w, tally);
        prepared_s += msi_wall_s() - there;
        if (!rc) rc = msi_interrupt_check();
        if (rc) break;
        done += block.n_row;
        msi_progress_at(done, n_row);
    }
    if (!rc) msi_progress_end();
    if (!rc) msi_log_detail("reading: %.2f s waiting for blocks, %.2f s preparing them", waited_s, prepared_s);
    for (int i = 0; i < n_thread; i++) msi_block_workspace_free(&w[i]);
    msi_free(w);
    return rc;
}

int msi_imaging_load(msi_ms_reader *reader, const msi_imaging_load_spec *spec, msi_gridder *const *gridder,
                     msi_sample_tally *tally)
{
    /* Cores are left to the readers. */
    const int n_thread = omp_get_max_threads(), n_reader = msi_ms_reader_n_process(reader);
    omp_set_num_threads(n_thread > n_reader ? n_thread - n_reader : 1);
    const int rc = prepare_blocks(reader, msi_ms_reader_n_row(reader), spec, gridder, tally);
    omp_set_num_threads(n_thread);
    return rc;
}
