/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/open_sets.h"

#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/image.h"
#include "core/log.h"
#include "core/status.h"
#include "core/units.h"
#include "io/ms/ms_limit.h"
#include "io/msv/msv_file.h"
#include "io/uv/uv_set.h"
#include "core/process.h"

/* For fewer bytes than this, starting several processes takes longer than they save. */
static const int64_t MIN_BYTES_FOR_PROCESSES = 50000000;

static int count_readers(const msi_options *o)
{
    /* Readers also convert samples, so threads of this process have little to do. */
    const int most = 12, n_cpu = msi_cpu_count(), n_thread = o->n_threads < n_cpu ? o->n_threads : n_cpu;
    if (o->n_reader) return (int)o->n_reader;
    if (n_thread < 4 || msi_ms_paths_bytes(o->ms_paths, o->n_ms) < MIN_BYTES_FOR_PROCESSES) return 1;
    return 3 * n_thread / 4 < most ? 3 * n_thread / 4 : most;
}

int64_t msi_unplanned_bytes(msi_backend backend)
{
    /* On the CPU the program and its buffers take 13 MB with one thread and 16 MB with eight, and 5 MB more while it
     * reads. Each thread has blocks, buffers and transforms. */
    enum { MB = 1 << 20, MOST_THREADS = 8 };
#ifdef MSI_HAVE_CUDA
    const int may_use_gpu = backend != MSI_BACKEND_CPU;
#else
    const int may_use_gpu = 0;
    (void)backend;
#endif
    const int n = omp_get_max_threads();
    return (int64_t)((may_use_gpu ? 64 : 20) + 4 * (n < MOST_THREADS ? n : MOST_THREADS)) * MB;
}

int msi_open_sets_have_columns(const msi_options *o, const char *what)
{
    for (int i = 0; i < o->n_ms; i++) {
        if (msi_msv_is_store(o->ms_paths[i]))
            return msi_error_set(MSI_EUSAGE, "%s: is a visibility store: %s", o->ms_paths[i], what);
        if (msi_uv_set_is_file(o->ms_paths[i]))
            return msi_error_set(MSI_EUSAGE, "%s: is a UVFITS or FITS-IDI file: %s; msimage-convert makes one",
                                 o->ms_paths[i], what);
    }
    return MSI_OK;
}

/* Refuse a store if its set has changed since. The set may be deleted. */
static int check_stores(const msi_options *o)
{
    msi_msv_header h;
    for (int i = 0; i < o->n_ms && !o->allow_stale; i++) {
        if (!msi_msv_is_store(o->ms_paths[i])) continue;
        MSI_TRY(msi_msv_header_read(o->ms_paths[i], &h));
        if (msi_msv_set_changed(&h))
            return msi_error_set(MSI_EINPUT,
                                 "%s: %s has changed since this store was made from it; make the store again, or give "
                                 "-allow-stale",
                                 o->ms_paths[i], h.set_path);
    }
    return MSI_OK;
}

int msi_open_sets_reader_pool(msi_reader_pool **pool, const msi_options *o, const msi_reader_conversion *conversion)
{
    *pool = NULL;
    MSI_TRY(check_stores(o));
    return msi_reader_pool_start(pool, o->ms_paths, o->n_ms, &o->selection, o->dry_run ? 1 : count_readers(o),
                                 conversion);
}

/* Divide the selected times into intervals of nearly equal length. */
static int select_interval(msi_ms_opening *opening, const msi_ms_reader *whole, const msi_options *o, int64_t interval)
{
    const int64_t begin = opening->interval_begin;
    const int64_t n_time = (opening->interval_end ? opening->interval_end : msi_ms_reader_n_time(whole)) - begin;
    if (o->intervals_out > n_time)
        return msi_error_set(MSI_EUSAGE, "-intervals-out %lld: the selection has %lld time%s; give at most that number",
                             (long long)o->intervals_out, (long long)n_time, msi_plural(n_time));
    opening->interval_begin = begin + n_time * interval / o->intervals_out;
    opening->interval_end = begin + n_time * (interval + 1) / o->intervals_out;
    return MSI_OK;
}

/* Open one of several intervals. An empty interval has its own times; its other metadata come from the whole
 * selection. */
static int open_part(msi_interval *t, msi_reader_pool *pool, const msi_options *o, msi_ms_opening *opening,
                     int64_t interval)
{
    msi_ms_reader *whole;
    MSI_TRY(msi_reader_pool_open(pool, opening, &whole));
    int rc = select_interval(opening, whole, o, interval);
    t->begin = opening->interval_begin;
    t->end = opening->interval_end;
    opening->may_be_empty = 1;
    if (!rc) rc = msi_reader_pool_open(pool, opening, &t->reader);
    if (!rc) t->observation = *msi_ms_reader_observation(t->reader);
    if (!rc && msi_ms_reader_n_row(t->reader) == 0) {
        const msi_observation times = t->observation;
        t->observation = *msi_ms_reader_observation(whole);
        t->observation.start_mjd_s = times.start_mjd_s;
        t->observation.end_mjd_s = times.end_mjd_s;
        msi_ms_reader_free(t->reader);
        t->reader = whole;
        t->is_empty = 1;
        return MSI_OK;
    }
    if (!rc)
        t->whole = whole;
    else
        msi_ms_reader_free(whole);
    return rc;
}

int msi_open_sets_interval(msi_interval *t, msi_reader_pool *pool, const msi_options *o,
                           const msi_open_request *request)
{
    msi_ms_opening opening = {.interval_begin = o->selection.interval_begin,
                              .interval_end = o->selection.interval_end,
                              /* A member of a multi-MS may have no selected rows. */
                              .may_be_empty = o->members != NULL,
                              .coordinates_only = o->dry_run,
                              .share = request->share,
                              .n_share = request->n_share,
                              .whole_fields = o->pb.mosaic};
    memset(t, 0, sizeof *t);
    t->begin = opening.interval_begin;
    t->end = opening.interval_end;
    if (o->intervals_out > 1) return open_part(t, pool, o, &opening, request->interval);
    MSI_TRY(msi_reader_pool_open(pool, &opening, &t->reader));
    if (t->begin && !t->end) t->end = msi_ms_reader_n_time(t->reader);
    t->observation = *msi_ms_reader_observation(t->reader);
    return MSI_OK;
}

/* ---- The first lines of the log ---- */

/* A line of the log has 100 columns, including its label. */
enum { WIDTH = 100 - MSI_LOG_LABEL };

void msi_set_report_line(const char *label, const char *format, ...)
{
    char text[4400];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    msi_log_labelled(label, text);
}

void msi_set_report_names(char *text, size_t size, const char *const *names, int64_t n)
{
    size_t length = 0;
    for (int64_t i = 0; i < n && length <= WIDTH; i++) length += strlen(names[i]) + 2;
    if (n > 1 && (length > WIDTH || length >= size)) {
        snprintf(text, size, "%s and %lld more", names[0], (long long)(n - 1));
        return;
    }
    for (int64_t i = 0, at = 0; i < n && at < (int64_t)size; i++)
        at += snprintf(text + at, size - (size_t)at, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", names[i]);
}

static void text_add(char *text, size_t size, const char *separator, const char *word)
{
    const size_t length = strlen(text);
    const int n = snprintf(text + length, size - length, "%s%s", separator, word);
    if (n < 0) text[length] = 0;
}

int64_t msi_set_report_fields(char *text, size_t size, const msi_ms_reader *reader, int with_ids)
{
    enum { MOST = 64 };
    const char *shown_name[MOST], *name;
    int64_t at = 0, n_more = 0;
    int shown_id[MOST], n_shown = 0, id;
    *text = 0;
    while (msi_ms_reader_field(reader, &at, &id, &name)) {
        if (!*name && !with_ids) continue;
        /* Several sets of one observation have the same fields, and several pointings may have one name. */
        int k = 0;
        while (k < n_shown && (strcmp(shown_name[k], name) != 0 || (with_ids && shown_id[k] != id))) k++;
        if (k < n_shown) continue;
        char one[128];
        if (!with_ids)
            snprintf(one, sizeof one, "%.40s", name);
        else if (*name)
            snprintf(one, sizeof one, "%.64s (id %d)", name, id);
        else
            snprintf(one, sizeof one, "(id %d)", id);
        const size_t length = strlen(text);
        if (n_shown == MOST || (length && (n_more || length + strlen(one) + sizeof ", and 99999 more" > size))) {
            n_more++;
            continue;
        }
        text_add(text, size, length ? ", " : "", one);
        shown_name[n_shown] = name;
        shown_id[n_shown++] = id;
    }
    char more[40] = "";
    if (n_more) snprintf(more, sizeof more, " and %lld more", (long long)n_more);
    text_add(text, size, more, "");
    return n_shown + n_more;
}

static void report_fields(const msi_ms_reader *reader)
{
    char text[WIDTH + 1];
    const int64_t n = msi_set_report_fields(text, sizeof text, reader, 1);
    msi_set_report_line(n == 1 ? "field" : "fields", "%s", text);
}

/* Warn about fields that move on the sky: they are imaged as if they stood still, at wrong coordinates. */
static void warn_if_moving(const msi_ms_reader *reader)
{
    static const char *const how[] = {[MSI_MS_POLYNOMIAL] = "PHASE_DIR is a polynomial in time",
                                      [MSI_MS_EPHEMERIS] = "it has an EPHEMERIS_ID",
                                      [MSI_MS_PLANET] = "PHASE_DIR's frame is a body of the solar system"};
    const char *name = "";
    int id = 0;
    const msi_ms_motion motion = msi_ms_reader_moving(reader, &id, &name);
    if (motion == MSI_MS_FIXED) return;
    msi_log_warning(
        "field '%s' (id %d) moves on the sky (FIELD: %s); its phases are used as tracked, and the coordinates of the "
        "image are the first values of PHASE_DIR, not the position at another time",
        name, id, how[motion]);
}

/* List the correlations of all setups. Each list of correlations is shown once. */
static void list_correlations(char *text, size_t size, const msi_ms_reader *reader)
{
    *text = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *a = msi_ms_reader_spw(reader, i);
        int is_again = 0;
        for (int k = 0; k < i && !is_again; k++) {
            const msi_ms_spw *b = msi_ms_reader_spw(reader, k);
            is_again = a->n_corr == b->n_corr && memcmp(a->corr, b->corr, (size_t)a->n_corr * sizeof *a->corr) == 0;
        }
        for (int c = 0; c < a->n_corr && !is_again; c++)
            text_add(text, size, c > 0 ? " " : i > 0 ? ", " : "", msi_pol_name(a->corr[c]));
    }
}

/* Count the channels of distinct spectral windows. Windows that are equal in several sets, or have several polarisation
 * setups, count once. */
static int64_t count_channels(const msi_ms_reader *reader, int64_t *n_window)
{
    int64_t n = 0;
    *n_window = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *a = msi_ms_reader_spw(reader, i);
        int is_again = 0;
        for (int k = 0; k < i && !is_again; k++) {
            const msi_ms_spw *b = msi_ms_reader_spw(reader, k);
            is_again = a->n_chan == b->n_chan && a->freq_hz[0] == b->freq_hz[0] &&
                       a->freq_hz[a->n_chan - 1] == b->freq_hz[b->n_chan - 1];
        }
        if (is_again) continue;
        n += a->n_chan;
        ++*n_window;
    }
    return n;
}

static void report_band(const msi_ms_reader *reader)
{
    double low = HUGE_VAL, high = 0, narrowest = HUGE_VAL, widest = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(reader, i);
        for (int32_t c = 0; c < spw->n_chan; c++) {
            low = fmin(low, spw->freq_hz[c] - 0.5 * spw->width_hz[c]);
            high = fmax(high, spw->freq_hz[c] + 0.5 * spw->width_hz[c]);
            narrowest = fmin(narrowest, spw->width_hz[c]);
            widest = fmax(widest, spw->width_hz[c]);
        }
    }
    int64_t n_window;
    const int64_t n = count_channels(reader, &n_window);
    const msi_unit unit = msi_freq_unit(high), fine = msi_freq_unit(widest);
    char width[64], windows[64] = "";
    if (widest > narrowest * (1 + 1e-6))
        snprintf(width, sizeof width, "%.5g to %.5g", narrowest / fine.size, widest / fine.size);
    else
        snprintf(width, sizeof width, "%.5g", widest / fine.size);
    if (n_window > 1) snprintf(windows, sizeof windows, " in %lld spectral windows", (long long)n_window);
    msi_set_report_line("band", "%.7g to %.7g %s; %lld channel%s of %s %s%s", low / unit.size, high / unit.size,
                        unit.name, (long long)n, msi_plural(n), width, fine.name, windows);
}

void msi_set_report_times(const msi_ms_reader *reader)
{
    const msi_observation *o = msi_ms_reader_observation(reader);
    const int64_t n = msi_ms_reader_n_selected_time(reader);
    char start[MSI_FORMAT_SIZE], span[MSI_FORMAT_SIZE], over[MSI_FORMAT_SIZE + 8] = "";
    if (o->end_mjd_s > o->start_mjd_s)
        snprintf(over, sizeof over, ", over %s", msi_format_duration(span, o->end_mjd_s - o->start_mjd_s));
    msi_set_report_line("times", "%lld time%s from %s %s%s", (long long)n, msi_plural(n),
                        msi_format_date(start, o->start_mjd_s), o->time_scale, over);
}

double msi_set_report_highest_hz(const msi_ms_reader *reader)
{
    double highest = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(reader, i);
        highest = fmax(highest, spw->freq_hz[spw->n_chan - 1]);
    }
    return highest;
}

/* Warn if a set does not have the requested column. */
static void warn_of_column(const msi_ms_reader *reader, int set, const char *path, const char *column)
{
    const char *read = msi_ms_reader_data_column_of(reader, set);
    if (column && *read && strcmp(read, column) != 0)
        msi_log_warning("%s: has no column %s; column %s is read instead, and %s of other sets", path, column, read,
                        column);
}

/* Log the assumptions and corrections that were made for a set. */
static void warn_of_notes(const msi_ms_reader *reader, int set, const char *path)
{
    const char *line = msi_ms_reader_notes(reader, set);
    for (const char *end; (end = strchr(line, '\n')); line = end + 1)
        msi_log_warning("%s: %.*s", path, (int)(end - line), line);
}

void msi_set_report(const msi_ms_reader *reader, const char *const *paths, int n_path, const char *column,
                    const char *data)
{
    char text[4200], corr[160];
    list_correlations(corr, sizeof corr, reader);
    msi_set_report_names(text, sizeof text, paths, n_path);
    msi_set_report_line(n_path == 1 ? "set" : "sets", "%s", text);
    const char *telescope = msi_ms_reader_observation(reader)->telescope;
    msi_set_report_line("telescope", "%s", *telescope ? telescope : "?");
    report_fields(reader);
    msi_set_report_line("data", "%s; correlations %s", data, corr);
    report_band(reader);
    msi_set_report_times(reader);
    warn_if_moving(reader);
    for (int i = 0; i < n_path; i++) {
        warn_of_column(reader, i, paths[i], column);
        warn_of_notes(reader, i, paths[i]);
    }
}
