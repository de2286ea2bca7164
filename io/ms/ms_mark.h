/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Keywords say that a column is being written, and what was written into it. */
#ifndef MSI_IO_MS_MARK_H
#define MSI_IO_MS_MARK_H

#include <stddef.h>

#include "io/casacore-c/casacore_c.h"

#define MSI_MS_MARK "MSIMAGE_PREDICT"

/*
 * The mark is a record, main-table keyword MSIMAGE_PREDICT, with a record for each column that is incomplete:
 * STATE ("incomplete"), STARTED (UTC), PROGRAM, MODEL, SELECTION. All functions change the open table alone: the caller
 * flushes.
 */

/* msi_ms_mark_read - return 1 where the column is marked, with a text of the mark, and the selection apart; else 0. */
int msi_ms_mark_read(ccc_table *t, const char *column, char *text, size_t size, char *selection, size_t selection_size);

/* msi_ms_mark_put - mark the column. Returns: 0, CCC codes. */
int msi_ms_mark_put(ccc_table *t, const char *column, const char *model, const char *selection);

/* msi_ms_mark_remove - remove the column's mark; nothing where there is none. Returns: 0, CCC codes. */
int msi_ms_mark_remove(ccc_table *t, const char *column);

/* msi_ms_mark_origin - say in the column's keyword MSIMAGE_MODEL what was written into it, and when. */
int msi_ms_mark_origin(ccc_table *t, const char *column, const char *model);

/* msi_ms_mark_origin_read - copy what that keyword says; "" where it is not there. */
void msi_ms_mark_origin_read(ccc_table *t, const char *column, char *text, size_t size);

/* msi_ms_mark_has_origin - return 1 where the column was written by this program. */
int msi_ms_mark_has_origin(ccc_table *t, const char *column);

#endif
