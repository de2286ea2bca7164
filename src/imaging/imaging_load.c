/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/imaging/imaging_load.h"

#include <assert.h>
#include <omp.h>
#include <string.h>

#include "core/first_error.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

static_assert((int)MSI_MAX_PLANES < (int)MSI_GRIDDER_MAX_PLANES, "a gridder takes every plane, and the PSF");

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

int msi_imaging_load(msi_ms_crew *crew, msi_ms_reader *reader, const msi_forming_spec *spec,
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
