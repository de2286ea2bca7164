/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tables of a Measurement Set and their cells, as a reader meets them: damaged, or without what is optional. */
#ifndef MSI_IO_MS_SUBTABLE_H
#define MSI_IO_MS_SUBTABLE_H

#include "io/ms/ms_set.h"

/*
 * msi_ms_subtable_check - refuse a table that says it has more rows than bytes. Every row of these tables takes bytes
 * of their files: a number of rows that cannot be would be read for hours.
 * Returns: 0, MSI_EINPUT
 */
int msi_ms_subtable_check(const ccc_table *t);

/* msi_ms_subtable_open - open a subtable that every set has, and check it. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
int msi_ms_subtable_open(msi_ms_set *set, const char *name, ccc_table **out);

/*
 * msi_ms_cell_doubles - read an array cell of numbers as doubles. A cell without a value gives n = 0.
 * Returned: *out  freed by msi_free
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_cell_doubles(ccc_table *t, const char *column, int64_t row, double **out, int64_t *n);

/* msi_ms_copy_text - copy a text, cut to the room there is. */
void msi_ms_copy_text(char *to, size_t size, const char *from);

/* msi_ms_optional - ask whether what is optional was there, by what a ccc function returned. Having no memory to look
 * at it is a failure, or the default would pass for it. Returns: 0, MSI_ENOMEM. */
int msi_ms_optional(int ccc_status, int *is_there);

/* msi_ms_cell_text - read a string cell, or "" where there is none. Returns: 0, MSI_ENOMEM. */
int msi_ms_cell_text(ccc_table *t, const char *column, int64_t row, char *to, size_t size);

/* msi_ms_fields_read - read FIELD into a set: names, phase centres and their frames, and how they move.
 * Returns: 0, MSI_EINPUT, MSI_ENOMEM */
int msi_ms_fields_read(msi_ms_set *set);

#endif
