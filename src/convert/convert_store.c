/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/convert_stages.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/units.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_store.h"
#include "io/ms/ms_paths.h"
#include "io/msv/msv_file.h"
#include "io/msv/msv_output.h"

int msi_convert_is_store(const char *out)
{
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/') n--;
    return n > 4 && strncasecmp(out + n - 4, ".msv", 4) == 0;
}

int msi_convert_store_check(const msi_convert_options *o)
{
    const struct {
        int is_given;
        const char *option;
    } changes[] = {{o->average_time_s > 0, "average-time"},
                   {o->average_channels > 1, "average-channels"},
                   {o->smearing_loss > 0, "average-baseline-dependent"},
                   {o->shared.shift_set, "shift"},
                   {o->shared.cube.continuum.is_set, "uvcontsub"},
                   {o->flip_uvw, "flip-uvw"}};
    if (o->shared.n_ms > 1)
        return msi_error_set(MSI_EUSAGE,
                             "%s: a visibility store is made from one Measurement Set; make one store of each set, and "
                             "image the stores together",
                             o->out);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (changes[i].is_given)
            return msi_error_set(
                MSI_EUSAGE,
                "-%s: a visibility store keeps samples unchanged; convert to a Measurement Set first, and "
                "make a store of it",
                changes[i].option);
    return MSI_OK;
}

/* The state of a conversion. */
typedef struct conversion {
    const msi_store_job *job;
    const char *path;         /* path of the set */
    char real_path[PATH_MAX]; /* the same as an absolute path */
    uint64_t state;
    msi_ms_selection selection;
    msi_ms_reader *reader;
    msi_msv_output *out;
    int64_t n_read, n_kind; /* rows read; length of the arrays below */
    int32_t *antenna1, *antenna2;
    uint8_t *flag_row;
} conversion;

static int open_reader(conversion *c)
{
    /* Record the state before reading. Any later change makes the store older than its set. */
    if (!realpath(c->path, c->real_path)) return msi_error_set(MSI_EINPUT, "%s: %s", c->path, strerror(errno));
    msi_set_state(c->path, &c->state);
    c->selection = c->job->options->shared.selection;
    c->selection.keep_flagged_rows = c->selection.describe_rows = 1;
    return msi_ms_reader_open(&c->reader, &c->path, 1, &c->selection);
}

static void log_input(const conversion *c)
{
    const msi_ms_reader *r = c->reader;
    const msi_observation *o = msi_ms_reader_observation(r);
    char start[MSI_FORMAT_SIZE], end[MSI_FORMAT_SIZE];
    const char *line = msi_ms_reader_notes(r, 0);
    for (const char *newline; (newline = strchr(line, '\n')); line = newline + 1)
        msi_log_warning("%s: %.*s", c->path, (int)(newline - line), line);
    msi_log_info("%s: %s, %s to %s; %s of %lld row%s in %d spectral setup%s", c->path, o->telescope,
                 msi_format_date(start, o->start_mjd_s), msi_format_date(end, o->end_mjd_s),
                 msi_ms_reader_data_column(r), (long long)msi_ms_reader_n_row(r), msi_plural(msi_ms_reader_n_row(r)),
                 msi_ms_reader_n_spw(r), msi_plural(msi_ms_reader_n_spw(r)));
}

/* Copy antennas and FLAG_ROW of the rows of a block from the reader, which has them for all rows that it read. */
static int copy_row_kinds(conversion *c, const msi_ms_block *b)
{
    const msi_ms_raw *raw = &c->reader->raw;
    if (c->n_kind < b->n_row) {
        c->n_kind = 0;
        MSI_TRY(msi_grow(&c->antenna1, 0, b->n_row, sizeof *c->antenna1, "rows"));
        MSI_TRY(msi_grow(&c->antenna2, 0, b->n_row, sizeof *c->antenna2, "rows"));
        MSI_TRY(msi_grow(&c->flag_row, 0, b->n_row, sizeof *c->flag_row, "rows"));
        c->n_kind = b->n_row;
    }
    for (int64_t i = 0; i < b->n_row; i++) {
        c->antenna1[i] = raw->antenna1[raw->kept[i]];
        c->antenna2[i] = raw->antenna2[raw->kept[i]];
        c->flag_row[i] = raw->flag_row[raw->kept[i]];
    }
    return MSI_OK;
}

static int put_blocks(conversion *c)
{
    msi_ms_block b = {0};
    for (;;) {
        MSI_TRY(msi_ms_reader_next(c->reader, &b));
        if (!b.n_row) return MSI_OK;
        MSI_TRY(copy_row_kinds(c, &b));
        const msi_msv_rows rows = {.data_desc_id = b.data_desc_id,
                                   .field_id = b.field_id,
                                   .n_row = b.n_row,
                                   .n_chan = b.n_chan,
                                   .n_corr = b.n_corr,
                                   .row = b.ms_row,
                                   .time_s = b.time_s,
                                   .uvw_m = b.uvw_m,
                                   .antenna1 = c->antenna1,
                                   .antenna2 = c->antenna2,
                                   .flag_row = c->flag_row,
                                   .data = b.data,
                                   .weight = b.weight,
                                   .flag = b.flag};
        MSI_TRY(msi_msv_output_put(c->out, &rows));
        c->n_read += b.n_row;
        msi_progress_at(c->n_read, msi_ms_reader_n_row(c->reader));
    }
}

static int finish_store(conversion *c)
{
    msi_msv_origin origin = {.set_path = c->real_path, .set_state = c->state};
    char *about;
    MSI_TRY(msi_ms_store_pack_metadata(c->reader, &about, &origin.about_bytes));
    origin.about = about;
    const int status = msi_msv_output_finish(c->out, &origin);
    msi_free(about);
    return status;
}

static void log_result(const conversion *c)
{
    const msi_msv_counts t = msi_msv_output_counts(c->out);
    const int64_t lost = msi_ms_reader_dropped(c->reader)->uvw_not_finite, bare = t.n_row - t.n_data_row;
    if (lost)
        msi_log_warning("%lld sample%s left out, because u, v, w are not finite", (long long)lost, msi_plural(lost));
    if (bare)
        msi_log_info("%lld of %lld rows are autocorrelations or flagged, and are stored without samples",
                     (long long)bare, (long long)t.n_row);
    msi_log_info("%lld row%s of %.3f GB in the main table became %.3f GB", (long long)t.n_row, msi_plural(t.n_row),
                 1e-9 * (double)msi_ms_paths_bytes(&c->path, 1), 1e-9 * (double)t.bytes);
}

int msi_convert_store(const void *of)
{
    const msi_store_job *job = of;
    conversion c = {.job = job, .path = job->options->shared.ms_paths[0]};
    msi_ms_limit_memory(&c.path, 1);
    int status = msi_ms_limit_explain(open_reader(&c), c.path);
    if (!status) log_input(&c);
    if (!status && job->to) {
        status = msi_msv_output_make(&c.out, job->to, job->options->out);
        if (!status) status = put_blocks(&c);
        if (!status) status = finish_store(&c);
        if (!status) log_result(&c);
    }
    msi_msv_output_free(c.out);
    msi_ms_reader_free(c.reader);
    msi_free(c.antenna1);
    msi_free(c.antenna2);
    msi_free(c.flag_row);
    return status;
}
