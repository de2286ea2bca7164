/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Keywords of columns that are being written, and of what was written into them. Checks for readers. */
#ifndef MSI_MS_MARK_H
#define MSI_MS_MARK_H

#include <stddef.h>
#include <stdint.h>

#include "io/casacore-c/casacore_c.h"

#define MSI_MS_MARK "MSIMAGE_PREDICT"

/*
 * The mark is a record, main-table keyword MSIMAGE_PREDICT, with a record for each column that is incomplete: STATE
 * ("incomplete"), STARTED (UTC), PROGRAM, MODEL, SELECTION. The functions only change the open table: the caller
 * flushes it.
 */

/* msi_ms_mark_read - return 1 if the column is marked, with the text of the mark and the selection; else 0. */
int msi_ms_mark_read(ccc_table *t, const char *column, char *text, size_t size, char *selection, size_t selection_size);

/* msi_ms_mark_put - mark the column. Returns: 0, CCC codes. */
int msi_ms_mark_put(ccc_table *t, const char *column, const char *model, const char *selection);

/* msi_ms_mark_remove - remove the mark of the column, if there is one. Returns: 0, CCC codes. */
int msi_ms_mark_remove(ccc_table *t, const char *column);

/* msi_ms_mark_origin - set the column keyword MSIMAGE_MODEL to the model and the time of writing. */
int msi_ms_mark_origin(ccc_table *t, const char *column, const char *model);

/* msi_ms_mark_has_origin - return 1 if the column was written by this program. */
int msi_ms_mark_has_origin(ccc_table *t, const char *column);

/*
 * A watch keeps readers from using a column that a prediction is writing or has left incomplete.
 *
 * A prediction replaces table.dat before it changes the first value of a column in place (ms_writer.h), and again when
 * it is complete. So if table.dat is the same file as before the table was opened, no value that was read was written
 * since. There are no locks and no waiting: reader and writer do not know of each other.
 */

/* The watch of a set, zero at first. */
typedef struct msi_ms_watch {
    char *root;             /* the table that has the rows, if that is another table; else NULL */
    uint64_t device, inode; /* identity of its table.dat before it was opened */
    int64_t changed_ns;     /* time of change of the same file */
    int is_on;              /* all values of the columns must be of one writing */
    uint64_t written;       /* hash that identifies the writing of the columns */
} msi_ms_watch;

/*
 * msi_ms_watch_open - open a table for reading, without a lock, and record its table.dat.
 * Returned: *out  as of ccc_table_open
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_watch_open(msi_ms_watch *w, const char *path, ccc_table **out);

/* msi_ms_watch_is_same - return 1 if table.dat is the same as when the table was opened. */
int msi_ms_watch_is_same(const msi_ms_watch *w, const char *path);

/*
 * msi_ms_watch_check - fail if a column is marked as incomplete.
 * Given:    columns [2]  the columns that are read; "": none
 * Returned: *written     hash of both columns
 * Returns:  0, MSI_EINPUT (a prediction was stopped), MSI_ELOCKED (it is running), MSI_ENOMEM
 */
int msi_ms_watch_check(const msi_ms_watch *w, const char *path, ccc_table *t, const char *const *columns,
                       uint64_t *written);

/*
 * msi_ms_watch_is_locked - return whether another process holds the write lock of casacore. It takes no lock. A lock of
 * this process on the table would end, as POSIX requires.
 * Returns: 1 or 0
 */
int msi_ms_watch_is_locked(const char *table);

/* msi_ms_watch_refuse - set the error that a column is incomplete, with the texts of msi_ms_mark_read. Returns:
 * MSI_EINPUT. */
int msi_ms_watch_refuse(const char *set, const char *mark, const char *selection);

/* msi_ms_watch_rewritten - set the error that a column was written while it was read. Returns: MSI_EINPUT. */
int msi_ms_watch_rewritten(const char *set, const char *column);

/* msi_ms_watch_free - free the watch and set it to zero. */
void msi_ms_watch_free(msi_ms_watch *w);

#endif
