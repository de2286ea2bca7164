/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/open_sets.h"

#include <stddef.h>

#include "core/format.h"
#include "core/log.h"
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
static int select_interval(msi_ms_selection *selection, const msi_options *o, int64_t interval)
{
    msi_ms_reader *whole;
    MSI_TRY(msi_ms_reader_open(&whole, o->ms_paths, o->n_ms, selection));
    const int64_t begin = selection->interval_begin;
    const int64_t n_time = (selection->interval_end ? selection->interval_end : msi_ms_reader_n_time(whole)) - begin;
    msi_ms_reader_free(whole);
    if (o->intervals_out > n_time)
        return msi_error_set(MSI_EUSAGE, "-intervals-out %lld: the selection has %lld time%s",
                             (long long)o->intervals_out, (long long)n_time, msi_plural(n_time));
    selection->interval_begin = begin + n_time * interval / o->intervals_out;
    selection->interval_end = begin + n_time * (interval + 1) / o->intervals_out;
    return MSI_OK;
}

int msi_open_sets_interval(msi_ms_reader **reader, msi_ms_crew *crew, const msi_options *o, int64_t interval)
{
    msi_ms_selection selection = o->selection;
    *reader = NULL;
    selection.coordinates_only = o->dry_run;
    if (o->intervals_out > 1) MSI_TRY(select_interval(&selection, o, interval));
    if (crew) msi_ms_crew_open(crew, selection.interval_begin, selection.interval_end);
    return msi_ms_reader_open(reader, o->ms_paths, o->n_ms, &selection);
}
