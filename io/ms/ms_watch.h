/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Whoever reads a column is kept from reading what a prediction has left half written, or is writing.
 *
 * A prediction replaces table.dat before it changes the first value of a column in place (ms_writer.h), and when it is
 * complete: whoever finds the table.dat that was there before the table was opened has read nothing that was written
 * since. Nothing is locked, and nobody waits: neither the reader nor the writer knows of the other.
 */
#ifndef MSI_IO_MS_WATCH_H
#define MSI_IO_MS_WATCH_H

#include <stdint.h>

#include "io/casacore-c/casacore_c.h"

/* What is watched of a set, zero at first. */
typedef struct msi_ms_watch {
    char *root;             /* the table whose rows are read, where that is another; else NULL */
    uint64_t device, inode; /* of its table.dat, from before it was opened */
    int64_t changed_ns;     /* likewise */
    int is_on;              /* what is read of the columns must be of one writing */
    uint64_t written;       /* tells one writing of the columns from another */
} msi_ms_watch;

/*
 * msi_ms_watch_open - open a table for reading, without a lock, and remember which table.dat it had.
 * Returned: *out  as ccc_table_open gives it
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_watch_open(msi_ms_watch *w, const char *path, ccc_table **out);

/* msi_ms_watch_is_same - return 1 where the table has the same table.dat as when it was opened. */
int msi_ms_watch_is_same(const msi_ms_watch *w, const char *path);

/*
 * msi_ms_watch_check - fail where a column is marked as incomplete.
 * Given:    columns [2]  that are read; "" for none
 * Returned: *written     of both
 * Returns:  0, MSI_EINPUT (a prediction was stopped), MSI_ELOCKED (it goes on), MSI_ENOMEM
 */
int msi_ms_watch_check(const msi_ms_watch *w, const char *path, ccc_table *t, const char *const *columns,
                       uint64_t *written);

/*
 * msi_ms_watch_is_locked - ask whether another process holds casacore's lock for writing. No lock is taken, nor asked
 * for; one that this process has on the table would end, as POSIX has it.
 * Returns: 1 or 0
 */
int msi_ms_watch_is_locked(const char *table);

/* msi_ms_watch_refuse - say that a column is half written, by what msi_ms_mark_read gave of it. Returns: MSI_EINPUT. */
int msi_ms_watch_refuse(const char *set, const char *mark, const char *selection);

/* msi_ms_watch_rewritten - say that a column was written while it was read. Returns: MSI_EINPUT. */
int msi_ms_watch_rewritten(const char *set, const char *column);

/* msi_ms_watch_free - free what it holds, and leave it zero. */
void msi_ms_watch_free(msi_ms_watch *w);

#endif
