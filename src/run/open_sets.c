/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/open_sets.h"

#include <string.h>

#include "core/format.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_paths.h"
#include "src/options/cpu_count.h"

/* Bytes to read: of less, starting processes costs more than they save. */
static const int64_t WORTH_PROCESSES = 50000000;

static int n_reader(const msi_options *o)
{
    const int most = 4, n_cpu = msi_cpu_count(), n_thread = o->n_threads < n_cpu ? o->n_threads : n_cpu;
    if (o->n_reader) return (int)o->n_reader;
    if (n_thread < 4 || msi_ms_paths_bytes(o->ms_paths, o->n_ms) < WORTH_PROCESSES) return 1;
    return n_thread / 2 < most ? n_thread / 2 : most;
}

void msi_open_sets_crew(msi_ms_crew **crew, const msi_options *o)
{
    const int n = n_reader(o);
    *crew = NULL;
    if (n > 1 && !o->dry_run && msi_ms_paths_exist(o->ms_paths, o->n_ms) &&
        msi_ms_crew_start(crew, o->ms_paths, o->n_ms, &o->selection, n))
        msi_log_warning("%s; a thread reads instead", msi_error_get());
}

/* Divides the selected times into intervals, as equal as they can be. */
static int select_interval(msi_ms_selection *selection, const msi_ms_reader *whole, const msi_options *o,
                           int64_t interval)
{
    const int64_t begin = selection->interval_begin;
    const int64_t n_time = (selection->interval_end ? selection->interval_end : msi_ms_reader_n_time(whole)) - begin;
    if (o->intervals_out > n_time)
        return msi_error_set(MSI_EUSAGE, "-intervals-out %lld: the selection has %lld time%s",
                             (long long)o->intervals_out, (long long)n_time, msi_plural(n_time));
    selection->interval_begin = begin + n_time * interval / o->intervals_out;
    selection->interval_end = begin + n_time * (interval + 1) / o->intervals_out;
    return MSI_OK;
}

static int selects_no_row(int status)
{
    return status && strcmp(msi_error_about_get(), "row_selected") == 0;
}

/* Opens those sets that have rows in the interval; with none that has, *reader stays NULL. */
static int open_with_rows(msi_ms_reader **reader, const msi_options *o, const msi_ms_selection *selection)
{
    const char **paths;
    int n = 0;
    int rc = msi_ms_reader_open(reader, o->ms_paths, o->n_ms, selection);
    if (!selects_no_row(rc)) return rc;
    MSI_TRY(msi_alloc(&paths, o->n_ms, sizeof *paths, "Measurement Sets"));
    rc = MSI_OK;
    for (int i = 0; !rc && i < o->n_ms; i++) {
        msi_ms_reader *one;
        rc = msi_ms_reader_open(&one, &o->ms_paths[i], 1, selection);
        msi_ms_reader_free(one);
        if (!rc) paths[n++] = o->ms_paths[i];
        if (selects_no_row(rc)) rc = MSI_OK;
    }
    if (!rc && n) rc = msi_ms_reader_open(reader, paths, n, selection);
    msi_free(paths);
    return rc;
}

/* Finds when an interval without a selected row was: its times are those of other rows. */
static int observe_empty(msi_observation *observation, const msi_options *o, const msi_ms_selection *interval)
{
    const msi_ms_selection any = {.data_column = o->selection.data_column,
                                  .all_fields = 1,
                                  .interval_begin = interval->interval_begin,
                                  .interval_end = interval->interval_end,
                                  .coordinates_only = 1,
                                  .keep_flagged_rows = 1};
    msi_ms_reader *reader;
    MSI_TRY(msi_ms_reader_open(&reader, o->ms_paths, o->n_ms, &any));
    observation->start_mjd_s = msi_ms_reader_observation(reader)->start_mjd_s;
    observation->end_mjd_s = msi_ms_reader_observation(reader)->end_mjd_s;
    msi_ms_reader_free(reader);
    return MSI_OK;
}

/* Opens one of several intervals. The processes open theirs afterwards: one that found no row would end. */
static int open_part(msi_interval *t, msi_ms_crew *crew, const msi_options *o, msi_ms_selection *selection,
                     int64_t interval)
{
    msi_ms_reader *whole;
    MSI_TRY(msi_ms_reader_open(&whole, o->ms_paths, o->n_ms, selection));
    int rc = select_interval(selection, whole, o, interval);
    if (!rc) rc = open_with_rows(&t->reader, o, selection);
    if (!rc && t->reader) {
        t->observation = *msi_ms_reader_observation(t->reader);
        if (crew) msi_ms_crew_open(crew, selection->interval_begin, selection->interval_end);
    } else if (!rc) {
        t->is_empty = 1;
        t->observation = *msi_ms_reader_observation(whole);
        rc = observe_empty(&t->observation, o, selection);
        if (!rc) {
            t->reader = whole;
            whole = NULL;
        }
    }
    msi_ms_reader_free(whole);
    return rc;
}

int msi_open_sets_interval(msi_interval *t, msi_ms_crew *crew, const msi_options *o, int64_t interval)
{
    msi_ms_selection selection = o->selection;
    memset(t, 0, sizeof *t);
    selection.coordinates_only = o->dry_run;
    if (o->intervals_out > 1) return open_part(t, crew, o, &selection, interval);
    if (crew) msi_ms_crew_open(crew, selection.interval_begin, selection.interval_end);
    MSI_TRY(msi_ms_reader_open(&t->reader, o->ms_paths, o->n_ms, &selection));
    t->observation = *msi_ms_reader_observation(t->reader);
    return MSI_OK;
}
