/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/load.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/preprocess/phase_shift.h"

/* Room for one prepared block, grown when a larger one comes. */
typedef struct workspace {
    int64_t n_row, n_sample;
    double *uvw_m; /* [n_row][3] */
    msi_c64 *vis;  /* [n_plane][n_sample] */
    float *weight; /* [n_plane][n_sample] */
} workspace;

static void workspace_free(workspace *w)
{
    msi_free(w->uvw_m);
    msi_free(w->vis);
    msi_free(w->weight);
    memset(w, 0, sizeof *w);
}

static int workspace_fit(workspace *w, int n_plane, int64_t n_row, int64_t n_sample)
{
    if (n_row <= w->n_row && n_sample <= w->n_sample) return MSI_OK;
    workspace_free(w);
    MSI_TRY(msi_alloc(&w->uvw_m, 3 * n_row, sizeof *w->uvw_m, "block of visibilities"));
    MSI_TRY(msi_alloc(&w->vis, n_plane * n_sample, sizeof *w->vis, "block of visibilities"));
    MSI_TRY(msi_alloc(&w->weight, n_plane * n_sample, sizeof *w->weight, "block of visibilities"));
    w->n_row = n_row;
    w->n_sample = n_sample;
    return MSI_OK;
}

static int load_block(const msi_ms_block *block, const msi_load_spec *spec, msi_gridder *const *gridder, workspace *w,
                      msi_sample_dropped *dropped)
{
    msi_mix mix[MSI_MAX_PLANES];
    MSI_TRY(msi_mix_make(mix, spec->planes, spec->n_plane, block->corr, block->n_corr));
    MSI_TRY(workspace_fit(w, spec->n_plane, block->n_row, block->n_row * block->n_chan));
    for (int64_t c = 0; c < spec->channels->n; c++) {
        int32_t first, end;
        msi_output_channels_range(spec->channels, c, block->freq_hz, block->n_chan, &first, &end);
        if (first == end) continue;
        const double *freq_hz = block->freq_hz + first, *uvw_m = block->uvw_m;
        msi_stokes_form(block, mix, spec->n_plane, first, end - first, w->vis, w->weight, dropped);
        if (spec->shift_set) {
            msi_phase_shift shift;
            msi_phase_shift_make(&shift, block->ra_rad, block->dec_rad, spec->ra_rad, spec->dec_rad);
            memcpy(w->uvw_m, block->uvw_m, sizeof *w->uvw_m * 3 * (size_t)block->n_row);
            msi_phase_shift_apply(&shift, block->n_row, end - first, spec->n_plane, freq_hz, w->uvw_m, w->vis);
            uvw_m = w->uvw_m;
        }
        msi_vis_block ready = {block->n_row, end - first, spec->n_plane, uvw_m, freq_hz, w->vis, w->weight};
        MSI_TRY(msi_gridder_add(gridder[c], &ready));
    }
    return MSI_OK;
}

/*
 * Blocks on their way from the thread that reads, the only one that touches casacore, to the one that prepares: read
 * in turn into slot[n_read % N_SLOT], prepared in the same order.
 */
enum { N_SLOT = 4 };

typedef struct pipeline {
    msi_ms_reader *reader;
    msi_ms_block slot[N_SLOT];
    int64_t n_read, n_prepared;
    int stop; /* the preparing side has failed */
    int rc;   /* of the reader, with its message */
    char message[1024];
    pthread_mutex_t lock;
    pthread_cond_t changed;
} pipeline;

static void *read_blocks(void *context)
{
    pipeline *p = context;
    for (int64_t n = 0;; n++) {
        pthread_mutex_lock(&p->lock);
        while (n - p->n_prepared >= N_SLOT && !p->stop) pthread_cond_wait(&p->changed, &p->lock);
        int stop = p->stop;
        pthread_mutex_unlock(&p->lock);
        if (stop) return NULL;
        msi_ms_block *block = &p->slot[n % N_SLOT];
        int rc = msi_ms_reader_next(p->reader, block);
        pthread_mutex_lock(&p->lock);
        p->rc = rc;
        if (rc) snprintf(p->message, sizeof p->message, "%s", msi_error_get());
        p->n_read = n + 1;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        if (rc || !block->n_row) return NULL;
    }
}

/* The next block read, once it is there. */
static int await_block(pipeline *p, int64_t n, const msi_ms_block **block)
{
    pthread_mutex_lock(&p->lock);
    while (p->n_read <= n) pthread_cond_wait(&p->changed, &p->lock);
    int rc = p->n_read == n + 1 ? p->rc : MSI_OK;
    pthread_mutex_unlock(&p->lock);
    if (rc) return msi_error_set(rc, "%s", p->message);
    *block = &p->slot[n % N_SLOT];
    return MSI_OK;
}

static void tell_reader(pipeline *p, int64_t n_prepared, int stop)
{
    pthread_mutex_lock(&p->lock);
    p->n_prepared = n_prepared;
    p->stop |= stop;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static int prepare_blocks(pipeline *p, const msi_load_spec *spec, msi_gridder *const *gridder,
                          msi_sample_dropped *dropped)
{
    workspace w = {0};
    int64_t done = 0, total = msi_ms_reader_n_row(p->reader);
    int rc;
    for (int64_t n = 0;; n++) {
        const msi_ms_block *block = NULL;
        rc = await_block(p, n, &block);
        if (rc || block->n_row <= 0) break;
        rc = load_block(block, spec, gridder, &w, dropped);
        if (!rc) rc = msi_interrupt_check();
        if (rc) break;
        done += block->n_row;
        msi_progress("reading", done < total ? done : total - 1, total);
        tell_reader(p, n + 1, 0);
    }
    tell_reader(p, 0, 1);
    if (!rc) msi_progress("reading", total, total);
    workspace_free(&w);
    return rc;
}

int msi_load(msi_ms_reader *reader, const msi_load_spec *spec, msi_gridder *const *gridder, msi_sample_dropped *dropped)
{
    pipeline p = {.reader = reader, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    if (pthread_create(&thread, NULL, read_blocks, &p))
        return msi_error_set(MSI_ENOMEM, "no thread for reading could be started");
    /* One core is left to the reader: OpenMP's threads spin while they wait and would take it. */
    int n_thread = omp_get_max_threads();
    omp_set_num_threads(n_thread > 1 ? n_thread - 1 : 1);
    int rc = prepare_blocks(&p, spec, gridder, dropped);
    omp_set_num_threads(n_thread);
    pthread_join(thread, NULL);
    pthread_mutex_destroy(&p.lock);
    pthread_cond_destroy(&p.changed);
    return rc;
}
