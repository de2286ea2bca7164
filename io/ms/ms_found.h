/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What index columns tell is found by one process, or by several that look at a part of the rows each and tell each
 * other. */
#ifndef MSI_IO_MS_FOUND_H
#define MSI_IO_MS_FOUND_H

#include "io/ms/ms_set.h"

/* The processes that look at the same set. Where there are several, each must make the same exchanges. */
typedef struct msi_ms_partners {
    int part, n_part;
    void *of;

    /* exchange - give all processes these bytes. Returned: all[n_part], n_all[n_part]  the bytes of each, borrowed
     * until the next exchange; what they hold is another process's word. Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED. */
    int (*exchange)(void *of, const char *bytes, int64_t n_byte, const char **all, int64_t *n_all);
} msi_ms_partners;

/* Times are listed as they come, and sorted where the list would grow. */
typedef struct msi_ms_times {
    double *time_s;
    int64_t n, n_allocated;
} msi_ms_times;

typedef struct msi_ms_found {
    msi_ms_times all, selected; /* distinct times of all rows, of the selected ones */
    int64_t n_run, n_run_allocated;
    msi_ms_run *run; /* selected rows, ascending */
    int64_t n_setup;
    uint8_t *is_used; /* [n_setup] as in msi_ms_setup */
} msi_ms_found;

/* msi_ms_times_add - list times that are not the last one again. Returns: 0, MSI_ENOMEM. */
int msi_ms_times_add(msi_ms_times *times, const double *time_s, int64_t n);

/* msi_ms_found_make - begin, of a set of so many setups, empty; freed by msi_ms_found_free. Returns: 0, MSI_ENOMEM. */
int msi_ms_found_make(msi_ms_found *found, int n_setup);

/* msi_ms_found_add - append rows, which lie behind those before. Returns: 0, MSI_ENOMEM. */
int msi_ms_found_add(msi_ms_found *found, const msi_ms_run *rows);

/* msi_ms_found_part - tell which of the set's rows are this process's to look at: [*begin, *end); all of them without
 * partners. */
void msi_ms_found_part(const msi_ms_set *set, const msi_ms_partners *partners, int64_t *begin, int64_t *end);

/*
 * msi_ms_found_gather - replace what was found in this process's part by what all have found in theirs, and sort the
 * times. Without partners it sorts alone.
 * Returns: 0, MSI_EINPUT (a partner has found what cannot be), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ms_found_gather(msi_ms_found *found, const msi_ms_set *set, const msi_ms_partners *partners);

void msi_ms_found_free(msi_ms_found *found);

#endif
