/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/open_sets.h"

#include <string.h>

#include "core/format.h"
#include "core/status.h"
#include "io/ms/ms_paths.h"
#include "io/msv/msv_file.h"
#include "src/options/cpu_count.h"

/* Bytes to read: of less, starting processes costs more than they save. */
static const int64_t WORTH_PROCESSES = 50000000;

static int n_reader(const msi_options *o)
{
    /* They form samples too; what is left to the threads of this process is little. */
    const int most = 12, n_cpu = msi_cpu_count(), n_thread = o->n_threads < n_cpu ? o->n_threads : n_cpu;
    if (o->n_reader) return (int)o->n_reader;
    if (n_thread < 4 || msi_ms_paths_bytes(o->ms_paths, o->n_ms) < WORTH_PROCESSES) return 1;
    return 3 * n_thread / 4 < most ? 3 * n_thread / 4 : most;
}

int msi_open_sets_have_columns(const msi_options *o, const char *what)
{
    for (int i = 0; i < o->n_ms; i++)
        if (msi_msv_is_store(o->ms_paths[i]))
            return msi_error_set(MSI_EUSAGE, "%s: is a visibility store: %s", o->ms_paths[i], what);
    return MSI_OK;
}

/* A store may outlive its set, but tells nothing of what the set has become. */
static int check_stores(const msi_options *o)
{
    msi_msv_header h;
    for (int i = 0; i < o->n_ms && !o->allow_stale; i++) {
        if (!msi_msv_is_store(o->ms_paths[i])) continue;
        MSI_TRY(msi_msv_header_read(o->ms_paths[i], &h));
        if (msi_msv_set_changed(&h))
            return msi_error_set(MSI_EINPUT,
                                 "%s: %s has changed since this store was made of it: make it anew, or give "
                                 "-allow-stale",
                                 o->ms_paths[i], h.set_path);
    }
    return MSI_OK;
}

int msi_open_sets_crew(msi_ms_crew **crew, const msi_options *o, const msi_ms_forming *forming)
{
    *crew = NULL;
    MSI_TRY(check_stores(o));
    return msi_ms_crew_start(crew, o->ms_paths, o->n_ms, &o->selection, o->dry_run ? 1 : n_reader(o), forming);
}

/* Divide the selected times into intervals, as equal as they can be. */
static int select_interval(msi_ms_opening *opening, const msi_ms_reader *whole, const msi_options *o, int64_t interval)
{
    const int64_t begin = opening->interval_begin;
    const int64_t n_time = (opening->interval_end ? opening->interval_end : msi_ms_reader_n_time(whole)) - begin;
    if (o->intervals_out > n_time)
        return msi_error_set(MSI_EUSAGE, "-intervals-out %lld: the selection has %lld time%s",
                             (long long)o->intervals_out, (long long)n_time, msi_plural(n_time));
    opening->interval_begin = begin + n_time * interval / o->intervals_out;
    opening->interval_end = begin + n_time * (interval + 1) / o->intervals_out;
    return MSI_OK;
}

/* Open one of several intervals; an empty one keeps the times of the interval, and the rest of the whole selection. */
static int open_part(msi_interval *t, msi_ms_crew *crew, const msi_options *o, msi_ms_opening *opening,
                     int64_t interval)
{
    msi_ms_reader *whole;
    MSI_TRY(msi_ms_crew_open(crew, opening, &whole));
    int rc = select_interval(opening, whole, o, interval);
    t->begin = opening->interval_begin;
    t->end = opening->interval_end;
    opening->may_be_empty = 1;
    if (!rc) rc = msi_ms_crew_open(crew, opening, &t->reader);
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

int msi_open_sets_interval(msi_interval *t, msi_ms_crew *crew, const msi_options *o, const msi_open_request *request)
{
    msi_ms_opening opening = {.interval_begin = o->selection.interval_begin,
                              .interval_end = o->selection.interval_end,
                              /* A member of a multi-MS may have none of what is selected of the whole. */
                              .may_be_empty = o->members != NULL,
                              .coordinates_only = o->dry_run,
                              .share = request->share,
                              .n_share = request->n_share};
    memset(t, 0, sizeof *t);
    t->begin = opening.interval_begin;
    t->end = opening.interval_end;
    if (o->intervals_out > 1) return open_part(t, crew, o, &opening, request->interval);
    MSI_TRY(msi_ms_crew_open(crew, &opening, &t->reader));
    t->observation = *msi_ms_reader_observation(t->reader);
    return MSI_OK;
}
