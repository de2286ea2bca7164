/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Converts sets to one set, in these steps:
 *   1. Reader processes are forked, and the sets are opened.
 *   2. Neighbouring channels are grouped for averaging.
 *   3. The output is created with its subtables. UVFITS and FITS-IDI files get their subtables from sets without rows,
 *      which are made first.
 *   4. Blocks are read. Their rows are renumbered for the output, shifted to another phase centre, and averaged.
 *   5. The output is finished, and the numbers of rows are logged.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"
#include "io/convert/set_output.h"
#include "io/convert/set_maps.h"
#include "io/convert/uvfits_output.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_paths.h"
#include "io/ms/ms_metadata.h"
#include "io/ms/reader_pool.h"
#include "io/msv/msv_file.h"
#include "io/msv/msv_output.h"
#include "io/uv/uv_set.h"
#include "src/convert/average.h"
#include "src/convert/convert_stages.h"
#include "core/process.h"
#include "src/sky/phase_shift.h"

/* ---- The sign of uvw ---- */

/* The comparison of uvw with antenna positions. It is needed because programs differ in the direction of baselines.
 * Zero-initialised before the first row. */
typedef struct uvw_sign {
    /* sums over rows of u u' + v v' + w w', and of the squares of stored and computed coordinates */
    double product, stored, computed;
    /* rows whose stored vector is within 26 degrees of the computed one, or of its opposite */
    int64_t n_along, n_against;
} uvw_sign;

/* Two vectors have the same direction if the cosine of the angle between them is larger than this. */
static const double NEAR = 0.9;

/*
 * uvw_sign_add - add the rows of a block.
 * Given: antenna_m [..][3]  geocentric positions, by the antenna numbers of the rows
 *        ra_rad, dec_rad  phase centre of the rows
 */
static void uvw_sign_add(uvw_sign *s, const double *antenna_m, double ra_rad, double dec_rad, const msi_set_row *row,
                         int64_t n_row)
{
    for (int64_t i = 0; i < n_row; i++) {
        const msi_set_row *r = &row[i];
        const double *p = antenna_m + 3 * (int64_t)r->antenna1, *q = antenna_m + 3 * (int64_t)r->antenna2;
        const double x = q[0] - p[0], y = q[1] - p[1], z = q[2] - p[2];
        /* UTC - UT1, precession and nutation are too small to change the sign. */
        const double hour_rad = 2 * MSI_PI * msi_sidereal_turns(r->time_s / 86400) - ra_rad, sh = sin(hour_rad),
                     ch = cos(hour_rad);
        const double u = sh * x + ch * y, toward = ch * x - sh * y;
        const double v = cos(dec_rad) * z - sin(dec_rad) * toward, w = sin(dec_rad) * z + cos(dec_rad) * toward;
        const double product = u * r->uvw_m[0] + v * r->uvw_m[1] + w * r->uvw_m[2];
        const double computed = u * u + v * v + w * w;
        double stored = 0;
        for (int k = 0; k < 3; k++) stored += r->uvw_m[k] * r->uvw_m[k];
        const double alike = NEAR * sqrt(stored) * sqrt(computed);
        s->n_along += product > alike;
        s->n_against += product < -alike;
        s->product += product;
        s->computed += computed;
        s->stored += stored;
    }
}

/* uvw_sign_cosine - return 1 if uvw agree with ANTENNA2 minus ANTENNA1 of the antenna positions, -1 if they are the
 * opposite, a value in between if they agree with neither, and 0 if nothing could be compared. */
static double uvw_sign_cosine(const uvw_sign *s)
{
    const double length = sqrt(s->stored) * sqrt(s->computed);
    return length > 0 && isfinite(length) ? s->product / length : 0;
}

/* ---- A conversion ---- */

/* If the averages in progress take more than 1 / this of the memory limit, all except the current one end early. */
static const int64_t AVERAGES_DIVISOR = 4;

/* For less input than this, in bytes, starting a reader process takes longer than it saves. */
static const int64_t READER_MIN_BYTES = 50000000;

/* The rows of one spectral setup and field of the output. */
typedef struct stream {
    int32_t data_desc, field;
    msi_average *average;
} stream;

/* The state of a conversion. */
typedef struct conversion {
    const msi_sets_job *job;
    double ra_rad, dec_rad; /* direction of -shift */
    msi_ms_reader *reader;
    msi_reader_pool *readers; /* reader processes; NULL: this process reads */
    /* reads the blocks; it is `reader`, unless reader processes open the sets again for an export */
    msi_ms_reader *from;
    msi_ms_selection selection;
    msi_channel_groups *groups; /* [n_spw] */
    int averages, has_spectrum;
    int has_file;             /* 1: an input is a UVFITS or FITS-IDI file */
    char (*tables)[PATH_MAX]; /* [n_set] sets with the subtables of files; "": not needed */
    msi_average_time time;
    msi_set_output *out;
    int64_t n_stream, n_stream_allocated, n_read;
    int64_t n_back; /* number of rows out of time order: msi_average_n_back */
    stream *stream;
    msi_set_row *row; /* [n_row_allocated] rows of the block */
    int64_t n_row_allocated;
    msi_c32 *shifted; /* [n_shifted] visibilities of the block after the phase shift */
    int64_t n_shifted;
    msi_continuum_buffer line;
    int last_set;
    uvw_sign sign;
} conversion;

/* ---- Groups of channels ---- */

/* Divide channels into groups of neighbours. A group ends at a gap in frequency. */
static int group_channels(const msi_ms_spw *spw, int64_t most, msi_channel_groups *g)
{
    int32_t *first, n = 0;
    MSI_TRY(msi_alloc(&first, spw->n_chan + 1, sizeof *first, "averaged channels"));
    for (int32_t c = 0; c < spw->n_chan; c++) {
        const int is_gap =
            c > 0 && spw->freq_hz[c] - spw->freq_hz[c - 1] > 0.75 * (spw->width_hz[c] + spw->width_hz[c - 1]);
        if (c == 0 || is_gap || c - first[n - 1] >= most) first[n++] = c;
    }
    first[n] = spw->n_chan;
    *g = (msi_channel_groups){n, first};
    return MSI_OK;
}

static int plan_channels(conversion *c)
{
    const int n_spw = msi_ms_reader_n_spw(c->reader);
    MSI_TRY(msi_alloc(&c->groups, n_spw, sizeof *c->groups, "averaged channels"));
    for (int i = 0; i < n_spw; i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(c->reader, i);
        MSI_TRY(group_channels(spw, c->job->options->average_channels, &c->groups[i]));
        if (c->groups[i].n_group < spw->n_chan) c->averages = 1;
    }
    return MSI_OK;
}

static const msi_channel_groups *groups_of(const conversion *c, const msi_ms_block *b)
{
    for (int i = 0; i < msi_ms_reader_n_spw(c->reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(c->reader, i);
        if (spw->set == b->set && spw->data_desc_id == b->data_desc_id) return &c->groups[i];
    }
    return NULL;
}

/* ---- Rows ---- */

/* Shift the visibilities and uvw of a block to another phase centre. */
static int shift_rows(conversion *c, msi_ms_block *b)
{
    const msi_options *o = &c->job->options->shared;
    const int64_t n_sample = b->n_row * b->n_chan * b->n_corr;
    msi_phase_shift shift;
    if (!o->shift_set) return MSI_OK;
    if (c->n_shifted < n_sample) {
        c->n_shifted = 0;
        MSI_TRY(msi_grow(&c->shifted, 0, n_sample, sizeof *c->shifted, "shifted visibilities"));
        c->n_shifted = n_sample;
    }
    msi_phase_shift_make(&shift, b->ra_rad, b->dec_rad, c->ra_rad, c->dec_rad);
    const msi_c32 *from = b->data;
    msi_c32 *to = c->shifted;
    for (int64_t i = 0; i < b->n_row; i++) {
        double path_m = 0;
        for (int k = 0; k < 3; k++) path_m += c->row[i].uvw_m[k] * shift.direction[k];
        for (int32_t ch = 0; ch < b->n_chan; ch++) {
            const double turns = path_m / MSI_SPEED_OF_LIGHT * b->freq_hz[ch];
            const double phase = -2 * MSI_PI * (turns - rint(turns)), re = cos(phase), im = sin(phase);
            for (int32_t p = 0; p < b->n_corr; p++, from++, to++)
                *to = (msi_c32){(float)(from->re * re - from->im * im), (float)(from->re * im + from->im * re)};
        }
        const double before[3] = {c->row[i].uvw_m[0], c->row[i].uvw_m[1], c->row[i].uvw_m[2]};
        msi_phase_shift_rotate(&shift, 1, before, c->row[i].uvw_m);
    }
    b->data = c->shifted;
    return MSI_OK;
}

static void flip_uvw(conversion *c, const msi_ms_block *b)
{
    for (int64_t i = 0; c->job->options->flip_uvw && i < b->n_row; i++)
        for (int k = 0; k < 3; k++) c->row[i].uvw_m[k] = -c->row[i].uvw_m[k];
}

static int describe_rows(conversion *c, msi_ms_block *b)
{
    if (c->n_row_allocated < b->n_row) {
        c->n_row_allocated = 0;
        MSI_TRY(msi_grow(&c->row, 0, b->n_row, sizeof *c->row, "rows"));
        c->n_row_allocated = b->n_row;
    }
    MSI_TRY(msi_set_output_describe(c->out, c->reader, b, c->row));
    flip_uvw(c, b);
    if (c->reader->set[b->set].uv)
        uvw_sign_add(&c->sign, msi_set_output_antenna_m(c->out), b->ra_rad, b->dec_rad, c->row, b->n_row);
    return shift_rows(c, b);
}

/* ---- Averages ---- */

static int find_stream(conversion *c, const msi_ms_block *b, msi_average **out)
{
    const int32_t data_desc = c->row[0].data_desc, field = c->row[0].field;
    for (int64_t i = 0; i < c->n_stream; i++)
        if (c->stream[i].data_desc == data_desc && c->stream[i].field == field) {
            *out = c->stream[i].average;
            return MSI_OK;
        }
    if (c->n_stream == c->n_stream_allocated) {
        const int64_t more = c->n_stream_allocated ? 2 * c->n_stream_allocated : 64;
        MSI_TRY(msi_grow(&c->stream, c->n_stream, more, sizeof *c->stream, "averages"));
        c->n_stream_allocated = more;
    }
    MSI_TRY(msi_average_make(out, c->out, b->n_chan, b->n_corr, groups_of(c, b), &c->time));
    c->stream[c->n_stream++] = (stream){data_desc, field, *out};
    return MSI_OK;
}

/* Finish and free all averages except one. */
static int end_others(conversion *c, const msi_average *but)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < c->n_stream; i++) {
        msi_average *a = c->stream[i].average;
        if (a == but) {
            const stream present = c->stream[i];
            c->stream[i].average =
                NULL; /* it moves to another place; NULL here, so that it is not freed twice if a later one fails */
            c->stream[kept++] = present;
            continue;
        }
        MSI_TRY(msi_average_flush(a, 1));
        c->n_back += msi_average_n_back(a);
        c->stream[i].average = NULL;
        msi_average_free(a);
    }
    c->n_stream = kept;
    return MSI_OK;
}

static int limit_memory(conversion *c, const msi_average *present)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < c->n_stream; i++) bytes += msi_average_bytes(c->stream[i].average);
    return bytes > msi_memory_limit() / AVERAGES_DIVISOR ? end_others(c, present) : MSI_OK;
}

static int add_block(conversion *c, msi_ms_block *b)
{
    msi_average *a;
    const msi_continuum *continuum = &c->job->options->shared.cube.continuum;
    if (continuum->is_set) MSI_TRY(msi_continuum_subtract(continuum, b, &c->line));
    if (b->set != c->last_set) MSI_TRY(end_others(c, NULL));
    c->last_set = b->set;
    MSI_TRY(describe_rows(c, b));
    const msi_set_rows rows = {b->n_row, b->n_chan, b->n_corr, c->row, b->data, b->weight, b->flag};
    if (!c->averages) return msi_set_output_put(c->out, &rows);
    MSI_TRY(find_stream(c, b, &a));
    MSI_TRY(msi_average_add(a, &rows));
    MSI_TRY(msi_average_flush(a, 0));
    return limit_memory(c, a);
}

/* ---- The conversion ---- */

static void select_all(conversion *c)
{
    const msi_convert_options *o = c->job->options;
    c->selection = o->shared.selection;
    c->selection.keep_flagged_rows = 1;
    c->selection.needs_one_time_scale = 1;
    /* Some members of a multi-MS may have no selected rows. */
    c->selection.may_be_empty = o->shared.members != NULL;
}

static int n_reader(const msi_sets_job *job)
{
    if (job->options->shared.n_reader) return (int)job->options->shared.n_reader;
    return msi_cpu_count() > 1 && msi_ms_paths_bytes(job->paths, job->n_path) >= READER_MIN_BYTES;
}

/* Fork the reader processes before this process opens any set. */
static int start_readers(conversion *c)
{
    const msi_sets_job *job = c->job;
    const int n = job->to ? n_reader(job) : 0;
    return n ? msi_reader_pool_start(&c->readers, job->paths, job->n_path, &c->selection, n, NULL) : MSI_OK;
}

/* Let the reader processes open the sets. */
static int open_in_readers(conversion *c)
{
    const msi_ms_opening opening = {.interval_begin = c->selection.interval_begin,
                                    .interval_end = c->selection.interval_end,
                                    .may_be_empty = c->selection.may_be_empty,
                                    .keep_flagged_rows = 1};
    return msi_reader_pool_open(c->readers, &opening, &c->from);
}

/* Open the sets. If there are reader processes, this process opens them only to check the tables for an export to
 * UVFITS. */
static int open_sets(conversion *c)
{
    if (c->readers && !c->job->is_exported) {
        MSI_TRY(open_in_readers(c));
        c->reader = c->from;
        return MSI_OK;
    }
    MSI_TRY(msi_ms_reader_open(&c->reader, c->job->paths, c->job->n_path, &c->selection));
    c->from = c->reader;
    return MSI_OK;
}

static int open_reader(conversion *c)
{
    const msi_convert_options *o = c->job->options;
    MSI_TRY(open_sets(c));
    const msi_ms_reader *r = c->reader;
    c->ra_rad = o->shared.shift_ra_rad;
    c->dec_rad = o->shared.shift_dec_rad;
    /* A FIELD table that joins several needs one frame. A multi-MS has only one FIELD table. */
    if (o->shared.shift_set)
        MSI_TRY(msi_ms_reader_check_shift(r));
    else if (!msi_set_subtables_are_one(r, "FIELD"))
        MSI_TRY(msi_ms_reader_check_frames(r));
    if (o->shared.shift_is_field) MSI_TRY(msi_ms_reader_centre_of(r, o->shared.shift_field, &c->ra_rad, &c->dec_rad));
    for (int i = 0; i < r->n_set; i++) c->has_spectrum |= r->set[i].has_weight_spectrum;
    c->averages = o->average_time_s > 0 || o->smearing_loss > 0;
    MSI_TRY(plan_channels(c));
    c->has_spectrum |= c->averages;
    return MSI_OK;
}

static void log_input(const conversion *c)
{
    const msi_ms_reader *r = c->reader;
    const msi_observation *o = msi_ms_reader_observation(r);
    char start[MSI_FORMAT_SIZE], end[MSI_FORMAT_SIZE];
    int64_t n_in = 0, n_out = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(r); i++) {
        n_in += msi_ms_reader_spw(r, i)->n_chan;
        n_out += c->groups[i].n_group;
    }
    msi_log_info("%s: %s, %s to %s; %s of %lld row%s in %d spectral setup%s", c->job->name, o->telescope,
                 msi_format_date(start, o->start_mjd_s), msi_format_date(end, o->end_mjd_s),
                 msi_ms_reader_data_column(r), (long long)msi_ms_reader_n_row(r), msi_plural(msi_ms_reader_n_row(r)),
                 msi_ms_reader_n_spw(r), msi_plural(msi_ms_reader_n_spw(r)));
    if (n_out < n_in) msi_log_info("%lld channels are averaged to %lld", (long long)n_in, (long long)n_out);
}

/* Open the files among the inputs, log their properties and what was assumed, and make their subtables. */
static int open_files(conversion *c)
{
    msi_ms_reader *r = c->reader;
    MSI_TRY(msi_alloc(&c->tables, r->n_set, sizeof *c->tables, "names of files"));
    for (int i = 0; i < r->n_set; i++) {
        msi_ms_set *set = &r->set[i];
        if (!msi_uv_set_is_file(set->path)) continue;
        c->has_file = 1;
        MSI_TRY(msi_ms_set_open(set));
        msi_log_info("%s: %s, %lld group%s of %d window%s", set->path,
                     set->uv->format == MSI_UV_UVFITS ? "UVFITS" : "FITS-IDI", (long long)set->uv->n_group,
                     msi_plural(set->uv->n_group), set->uv->n_if, msi_plural(set->uv->n_if));
        const char *line = set->uv->notes;
        for (const char *end; (end = strchr(line, '\n')); line = end + 1)
            msi_log_warning("%s: %.*s", set->path, (int)(end - line), line);
        if (!c->job->to || !set->n_row) continue;
        if (snprintf(c->tables[i], PATH_MAX, "%s/tables%d.ms", c->job->folder, i) >= PATH_MAX)
            return msi_error_set(MSI_EOUTPUT, "%.100s..: the name is too long", c->job->folder);
        MSI_TRY(msi_set_subtables_of_uv(c->tables[i], set->uv, set->path));
        set->tables_path = c->tables[i];
    }
    return MSI_OK;
}

/* Return 1 if channels are averaged in every window: then all rows get new weights. */
static int weights_are_made(const conversion *c)
{
    for (int i = 0; i < msi_ms_reader_n_spw(c->reader); i++)
        if (c->groups[i].n_group == msi_ms_reader_spw(c->reader, i)->n_chan) return 0;
    return 1;
}

static int make_output(conversion *c)
{
    const msi_options *o = &c->job->options->shared;
    const msi_set_output_spec spec = {.groups = c->groups,
                                      .has_weight_spectrum = c->has_spectrum,
                                      .are_times_own = c->time.loss > 0,
                                      .are_means = c->time.loss > 0 || c->time.longest_s > 0,
                                      .weights_are_made = weights_are_made(c),
                                      .is_shifted = o->shift_set,
                                      .ra_rad = c->ra_rad,
                                      .dec_rad = c->dec_rad,
                                      .application = "msimage-convert " MSIMAGE_VERSION,
                                      .command = o->command_line,
                                      .in_process = c->readers && c->averages,
                                      .name = c->job->options->out};
    MSI_TRY(msi_set_output_make(&c->out, c->job->to, c->reader, &spec));
    return MSI_OK;
}

static int read_all(conversion *c)
{
    msi_ms_block block = {0};
    c->last_set = -1;
    msi_progress_begin("converting");
    for (;;) {
        MSI_TRY(msi_ms_reader_next(c->from, &block));
        if (!block.n_row) break;
        /* The readers reset the CPU time limit only in their own processes. */
        msi_child_progress(MSI_CHILD_STEP_S);
        MSI_TRY(add_block(c, &block));
        c->n_read += block.n_row;
        msi_progress_at(c->n_read, msi_ms_reader_n_row(c->reader));
    }
    MSI_TRY(end_others(c, NULL));
    if (msi_set_output_n_row(c->out) > 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: no row is left, because u, v, w are not finite in any row", c->job->name);
}

/* Log the direction of the baselines of imported files. Both directions are valid: only an image shows whether the
 * direction matches the phases of the visibilities. */
static void log_uvw_sign(const conversion *c)
{
    static const char flip[] = "if the image is mirrored, use -flip-uvw to change their sign";
    const uvw_sign *s = &c->sign;
    const double cosine = uvw_sign_cosine(s);
    if (!c->has_file) return;
    if (s->n_along && s->n_against)
        msi_log_warning(
            "u, v, w of %lld rows point from ANTENNA1 to ANTENNA2, by the antenna positions, and of %lld rows in the "
            "opposite direction; they cannot be imaged together",
            (long long)s->n_along, (long long)s->n_against);
    else if (fabs(cosine) > 0.9)
        msi_log_info("u, v, w point from %s, by the antenna positions (cosine %.6f); %s",
                     cosine > 0 ? "ANTENNA1 to ANTENNA2" : "ANTENNA2 to ANTENNA1", cosine, flip);
    else
        msi_log_warning("u, v, w do not agree with the antenna positions (cosine %.3f); %s", cosine, flip);
}

static void log_result(const conversion *c)
{
    const int64_t lost = msi_ms_reader_dropped(c->from)->uvw_not_finite;
    log_uvw_sign(c);
    if (c->n_back && (c->time.longest_s > 0 || c->time.loss > 0))
        msi_log_warning(
            "%lld of %lld rows are earlier than a previous row of their baseline, and are not averaged with it; "
            "sort the set by TIME",
            (long long)c->n_back, (long long)c->n_read);
    if (lost)
        msi_log_warning("%lld sample%s left out, because u, v, w are not finite", (long long)lost, msi_plural(lost));
    msi_log_info("%lld row%s became %lld", (long long)c->n_read, msi_plural(c->n_read),
                 (long long)msi_set_output_n_row(c->out));
}

static void free_conversion(conversion *c)
{
    for (int64_t i = 0; i < c->n_stream; i++) msi_average_free(c->stream[i].average);
    for (int i = 0; c->groups && i < msi_ms_reader_n_spw(c->reader); i++) msi_free((void *)c->groups[i].first);
    msi_free(c->groups);
    msi_free(c->stream);
    msi_free(c->row);
    msi_free(c->shifted);
    msi_continuum_buffer_free(&c->line);
    msi_free(c->tables);
    msi_set_output_free(c->out);
    msi_reader_pool_free(c->readers);
    if (c->from != c->reader) msi_ms_reader_free(c->from);
    msi_ms_reader_free(c->reader);
}

static int convert_blocks(conversion *c)
{
    const msi_sets_job *job = c->job;
    if (job->is_exported && job->options->average_channels <= 1 && c->reader->n_set == 1)
        MSI_TRY(msi_uvfits_check(c->reader, job->name));
    MSI_TRY(open_files(c));
    log_input(c);
    MSI_TRY(msi_smearing_report(c->reader, c->groups, c->job->options, &c->time));
    if (!c->job->to) return MSI_OK;
    /* Let the reader processes start before the subtables are written. */
    if (c->readers && job->is_exported) MSI_TRY(open_in_readers(c));
    MSI_TRY(make_output(c));
    MSI_TRY(read_all(c));
    MSI_TRY(msi_set_output_finish(c->out));
    log_result(c);
    return MSI_OK;
}

int msi_convert_sets(const void *of)
{
    conversion c = {.job = of};
    select_all(&c);
    int status = start_readers(&c);
    msi_ms_limit_memory(c.job->paths, c.job->n_path);
    if (!status) status = open_reader(&c);
    status = status ? msi_ms_limit_explain(status, c.job->name) : convert_blocks(&c);
    free_conversion(&c);
    return status;
}

/* ---- Export to UVFITS ---- */

/* Warn that a moving field has a fixed position in the file, because UVFITS has one position for each source. */
static void warn_of_motion(const msi_ms_reader *reader)
{
    const char *name;
    int id;
    if (msi_ms_reader_moving(reader, &id, &name) != MSI_MS_FIXED)
        msi_log_warning("field '%s' (id %d) moves on the sky; UVFITS has one position of a source: the first values of "
                        "PHASE_DIR are kept, but not the motion",
                        name, id);
}

static void log_exported(const msi_uvfits_report *r)
{
    msi_log_info("%lld row%s became %lld group%s of %d window%s", (long long)r->n_row, msi_plural(r->n_row),
                 (long long)r->n_group, msi_plural(r->n_group), r->n_window, msi_plural(r->n_window));
    if (r->n_filled)
        msi_log_warning(
            "%.0f %% of the file is flagged padding: windows were not observed at the same times, and every group "
            "contains all of them; use -spws to select windows",
            100.0 * (double)r->n_filled / (double)(r->n_group * r->n_window));
    if (r->n_unweighted)
        msi_log_warning(
            "%lld unflagged visibilit%s a weight of zero or below, and become flagged, because UVFITS marks "
            "flags by weights",
            (long long)r->n_unweighted, r->n_unweighted == 1 ? "y has" : "ies have");
    if (r->n_not_finite)
        msi_log_warning("%lld visibilit%s not finite or without a finite weight: set to zero and flagged",
                        (long long)r->n_not_finite, r->n_not_finite == 1 ? "y is" : "ies are");
}

static int report_and_check(void)
{
    msi_child_progress(MSI_CHILD_STEP_S);
    return MSI_OK;
}

/* Check that the file has what was written. */
static int check_exported(const msi_export_job *job, const msi_uvfits_report *r)
{
    msi_uv_set *uv;
    MSI_TRY(msi_uv_set_open(&uv, job->fits, report_and_check));
    const int is_right = uv->format == MSI_UV_UVFITS && uv->n_group == r->n_group && uv->n_if == r->n_window;
    const long long n_group = uv->n_group;
    const int n_if = uv->n_if;
    msi_uv_set_free(uv);
    if (is_right) return MSI_OK;
    return msi_error_set(MSI_EINTERNAL, "%s: it has %lld groups of %d IFs instead of %lld of %d", job->name, n_group,
                         n_if, (long long)r->n_group, r->n_window);
}

int msi_export_fits(const void *of)
{
    const msi_export_job *job = of;
    const msi_ms_selection all = {.data_column = "DATA", .all_fields = 1, .keep_flagged_rows = 1};
    const msi_uvfits_output_spec spec = {job->fits, job->name, job->command};
    msi_uvfits_report report;
    msi_ms_reader *reader;
    MSI_TRY(msi_ms_reader_open(&reader, &job->set, 1, &all));
    warn_of_motion(reader);
    msi_progress_begin("writing");
    int status = msi_uvfits_write(reader, &spec, &report);
    msi_ms_reader_free(reader);
    if (!status) status = check_exported(job, &report);
    if (!status) log_exported(&report);
    return status;
}

/* ---- A visibility store of one set ---- */

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

/* The state of making a store. */
typedef struct store_conversion {
    const msi_store_job *job;
    const char *path;         /* the set */
    char real_path[PATH_MAX]; /* its absolute path */
    uint64_t state;
    msi_ms_selection selection;
    msi_ms_reader *reader;
    msi_msv_output *out;
    int64_t n_read, n_kind; /* rows read so far; size of the arrays below */
    int32_t *antenna1, *antenna2;
    uint8_t *flag_row;
} store_conversion;

static int open_store_reader(store_conversion *c)
{
    /* Store the state of the set before reading. Any later change makes the store older than its set. */
    if (!realpath(c->path, c->real_path)) return msi_error_set(MSI_EINPUT, "%s: %s", c->path, strerror(errno));
    msi_set_state(c->path, &c->state);
    c->selection = c->job->options->shared.selection;
    c->selection.keep_flagged_rows = c->selection.describe_rows = 1;
    return msi_ms_reader_open(&c->reader, &c->path, 1, &c->selection);
}

static void log_store_input(const store_conversion *c)
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

/* Copy antennas and FLAG_ROW of a block's rows from the reader, which has them for all rows that it has read. */
static int copy_row_kinds(store_conversion *c, const msi_ms_block *b)
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

static int put_blocks(store_conversion *c)
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

static int finish_store(store_conversion *c)
{
    msi_msv_origin origin = {.set_path = c->real_path, .set_state = c->state};
    char *about;
    MSI_TRY(msi_ms_store_pack_metadata(c->reader, &about, &origin.about_bytes));
    origin.about = about;
    const int status = msi_msv_output_finish(c->out, &origin);
    msi_free(about);
    return status;
}

static void log_store(const store_conversion *c)
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
    store_conversion c = {.job = job, .path = job->options->shared.ms_paths[0]};
    msi_ms_limit_memory(&c.path, 1);
    int status = msi_ms_limit_explain(open_store_reader(&c), c.path);
    if (!status) log_store_input(&c);
    if (!status && job->to) {
        status = msi_msv_output_make(&c.out, job->to, job->options->out);
        if (!status) status = put_blocks(&c);
        if (!status) status = finish_store(&c);
        if (!status) log_store(&c);
    }
    msi_msv_output_free(c.out);
    msi_ms_reader_free(c.reader);
    msi_free(c.antenna1);
    msi_free(c.antenna2);
    msi_free(c.flag_row);
    return status;
}
