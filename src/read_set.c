/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/read_set.h"

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/ms/ms_reader.h"
#include "src/sky/stokes.h"

struct msimage_read {
    msi_ms_reader *reader;
    msi_ms_block block;
    msi_plane plane[MSI_MAX_PLANES]; /* [n_plane] */
    int n_plane;                     /* 0: correlations are not converted */
    msi_stokes_weight weight;
    msi_c64 *converted; /* [n_plane][n_row][n_chan] buffer of the largest block so far */
    int64_t n_converted;
    int (*interrupt)(void *user);
};

/* Discard log lines, because a library does not print. */
static void discard_line(void *user, msi_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
}

/* Redirect log lines, progress and interrupts of the calling thread until end_call(). */
static void begin_call(const msimage_read *r)
{
    msi_log_listen(discard_line, NULL);
    msi_progress_thread_begin(NULL, NULL);
    msi_interrupt_callback(r->interrupt, NULL);
}

static int end_call(int status)
{
    msi_interrupt_callback(NULL, NULL);
    msi_progress_thread_end();
    msi_log_listen(NULL, NULL);
    return status;
}

static msi_ms_selection selection_of(const msimage_read_spec *s)
{
    return (msi_ms_selection){.data_column = s->data_column,
                              .needs_one_time_scale = 1,
                              .all_fields = s->all_fields,
                              .n_field = s->n_field,
                              .fields = s->field,
                              .n_spw = s->n_spw,
                              .spws = s->spw,
                              .channel_begin = s->channel_begin,
                              .channel_end = s->channel_end,
                              .interval_begin = s->interval_begin,
                              .interval_end = s->interval_end,
                              .min_uv_lambda = s->min_uv_lambda,
                              .max_uv_lambda = s->max_uv_lambda,
                              .min_uvw_m = s->min_uvw_m,
                              .max_uvw_m = s->max_uvw_m,
                              .mssel[MSI_MSSEL_FIELD] = s->select_field,
                              .mssel[MSI_MSSEL_SPW] = s->select_spw,
                              .mssel[MSI_MSSEL_ANTENNA] = s->select_antenna,
                              .mssel[MSI_MSSEL_UVRANGE] = s->select_uvrange,
                              .mssel[MSI_MSSEL_TIME] = s->select_time,
                              .taql = s->taql};
}

/* Copy the list of polarisations. A cross-hand is one plane here, because its visibilities are read as complex
 * numbers. */
static int set_pol(msimage_read *r, const msimage_read_spec *spec)
{
    if (spec->n_pol < 0 || spec->n_pol > MSI_MAX_PLANES)
        return msi_error_set(MSI_EARGUMENT, "%d polarisations; there can be at most %d", spec->n_pol, MSI_MAX_PLANES);
    for (int i = 0; i < spec->n_pol; i++) r->plane[i] = (msi_plane){.pol = (msi_pol)spec->pol[i]};
    r->n_plane = spec->n_pol;
    r->weight = spec->weight_is_mean ? MSI_STOKES_WEIGHT_MEAN : MSI_STOKES_WEIGHT_SMALLER;
    r->interrupt = spec->interrupt;
    return MSI_OK;
}

/* Fail if a set does not have the requested correlations, before anything is read. */
static int check_pol(const msimage_read *r)
{
    msi_mix mix[MSI_MAX_PLANES];
    for (int i = 0; i < msi_ms_reader_n_spw(r->reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(r->reader, i);
        if (spw->n_row > 0) MSI_TRY(msi_mix_make(mix, r->plane, r->n_plane, r->weight, spw->corr, spw->n_corr));
    }
    return MSI_OK;
}

int msimage_read_open(msimage_read **out, const char *const *paths, int n_path, const msimage_read_spec *spec)
{
    msimage_read *r = NULL;
    *out = NULL;
    MSI_TRY(msi_alloc(&r, 1, sizeof *r, "the reader"));
    int status = set_pol(r, spec);
    if (status == MSI_OK) {
        const msi_ms_selection selection = selection_of(spec);
        begin_call(r);
        status = end_call(msi_ms_reader_open(&r->reader, paths, n_path, &selection));
    }
    if (status == MSI_OK) status = check_pol(r);
    if (status != MSI_OK) {
        msimage_read_free(r);
        return status;
    }
    *out = r;
    return MSI_OK;
}

int msimage_read_next(msimage_read *r, msimage_read_block *block)
{
    begin_call(r);
    MSI_TRY(end_call(msi_ms_reader_next(r->reader, &r->block)));
    const msi_ms_block *b = &r->block;
    *block = (msimage_read_block){.set = b->set,
                                  .field = b->field_id,
                                  .spw = b->spw_id,
                                  .n_pol = r->n_plane > 0 ? r->n_plane : b->n_corr,
                                  .n_row = b->n_row,
                                  .n_chan = b->n_chan,
                                  .ra_rad = b->ra_rad,
                                  .dec_rad = b->dec_rad,
                                  .freq_hz = b->freq_hz,
                                  .row = b->ms_row,
                                  .time_s = b->time_s,
                                  .uvw_m = b->uvw_m};
    if (b->n_row == 0) return MSI_OK;
    for (int p = 0; p < block->n_pol; p++) block->pol[p] = (int)(r->n_plane > 0 ? r->plane[p].pol : b->corr[p]);
    return MSI_OK;
}

/* Copy the correlations of [n_row][n_chan][n_corr] one after the other. */
static void copy_stored(const msi_ms_block *b, msi_c32 *vis, float *weight, uint8_t *flag)
{
    const int64_t n = b->n_row * b->n_chan;
    for (int c = 0; c < b->n_corr; c++)
        for (int64_t i = 0; i < n; i++) {
            vis[c * n + i] = b->data[i * b->n_corr + c];
            weight[c * n + i] = b->weight[i * b->n_corr + c];
            flag[c * n + i] = b->flag[i * b->n_corr + c] != 0;
        }
}

int msimage_read_values(msimage_read *r, float *vis, float *weight, uint8_t *flag)
{
    const msi_ms_block *b = &r->block;
    const int64_t n = r->n_plane * b->n_row * b->n_chan;
    msi_c32 *to = (msi_c32 *)(void *)vis;
    if (r->n_plane == 0) {
        copy_stored(b, to, weight, flag);
        return MSI_OK;
    }
    if (n > r->n_converted) {
        msi_free(r->converted);
        r->converted = NULL;
        r->n_converted = 0;
        MSI_TRY(msi_alloc(&r->converted, n, sizeof *r->converted, "a block of visibilities"));
        r->n_converted = n;
    }
    msi_mix mix[MSI_MAX_PLANES];
    msi_sample_tally tally = {0};
    MSI_TRY(msi_mix_make(mix, r->plane, r->n_plane, r->weight, b->corr, b->n_corr));
    msi_stokes_convert(b, mix, r->n_plane, (msi_channel_range){.n = b->n_chan}, r->converted, weight, &tally);
    for (int64_t i = 0; i < n; i++) {
        to[i] = (msi_c32){(float)r->converted[i].re, (float)r->converted[i].im};
        flag[i] = !(weight[i] > 0);
    }
    return MSI_OK;
}

int64_t msimage_read_n_row(const msimage_read *r)
{
    return msi_ms_reader_n_row(r->reader);
}

const char *msimage_read_column(const msimage_read *r)
{
    return msi_ms_reader_data_column(r->reader);
}

const char *msimage_read_error(void)
{
    return msi_error_get();
}

void msimage_read_free(msimage_read *r)
{
    if (!r) return;
    msi_ms_reader_free(r->reader);
    msi_free(r->converted);
    msi_free(r);
}
