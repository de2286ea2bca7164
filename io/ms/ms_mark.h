/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Keywords that mark columns being written and name the model that was written, and their checks by readers. */
#ifndef MSI_MS_MARK_H
#define MSI_MS_MARK_H

#include <stddef.h>
#include <stdint.h>

#include "io/casacore-c/casacore_c.h"

#define MSI_MS_MARK "MSIMAGE_PREDICT"

/*
 * The mark is a record, the main-table keyword MSIMAGE_PREDICT. It has a record for each incomplete column, with STATE
 * ("incomplete"), STARTED (UTC), PROGRAM, MODEL, SELECTION. The functions change only the open table; the caller
 * flushes it.
 */

/* msi_ms_mark_read - return 1 if the column is marked, and copy the text of the mark and the selection; else 0. */
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
 * A watch detects that a prediction is writing a column that is read, or has left it incomplete.
 *
 * A prediction replaces table.dat before it changes the first value of a column in place (ms_writer.h), and again when
 * the column is complete. So if table.dat is still the same file as before the table was opened, no prediction has
 * changed a value since. This needs no lock, and readers and writers do not wait for each other.
 */

/* The watch of a set. Zero-initialised before use. */
typedef struct msi_ms_watch {
    char *root;             /* path of the table that has the rows, if that is another table; else NULL */
    uint64_t device, inode; /* identity of its table.dat before it was opened */
    int64_t changed_ns;     /* time of the last status change of this table.dat */
    int is_on;              /* 1: all values of the columns must come from one writing */
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
 * msi_ms_watch_is_locked - return whether another process has casacore's write lock. It takes no lock itself. If this
 * process has a lock on the table, the lock is released, as POSIX requires.
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
