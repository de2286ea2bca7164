/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The subtables of a Measurement Set: windows, correlations, fields, antennas and sources, whose values are checked. */
#ifndef MSI_MS_SUBTABLES_H
#define MSI_MS_SUBTABLES_H

#include "core/memory.h"
#include "io/ms/ms_metadata.h"

/* A column, and the unit of its values in the Measurement Set definition. */
typedef struct msi_ms_unit_column {
    const char *column, *unit;
} msi_ms_unit_column;

/* msi_ms_table_check_size - refuse a table whose header has more rows than its files have bytes: each row takes at
 * least one byte, and reading that many rows would take hours. Returns: 0, MSI_EINPUT */
int msi_ms_table_check_size(const ccc_table *table);

/* msi_ms_table_check_units - refuse columns whose units differ from those of the Measurement Set definition. Returns:
 * 0, MSI_EINPUT, MSI_ENOMEM */
int msi_ms_table_check_units(ccc_table *table, const msi_ms_unit_column *columns, size_t n);

/*
 * msi_ms_table_doubles - read an array cell of numbers as doubles.
 * Returned: *out [*n]  freed by msi_free; a cell without a value gives *n = 0
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_table_doubles(ccc_table *t, const char *column, int64_t row, double **out, int64_t *n);

/* The frames of a column of directions: one for all rows, or a second column that has a code or name for each row. */
typedef struct msi_ms_frames {
    char fixed[16], *column; /* the second column; NULL: there is none */
    char **names;            /* [n] names of the codes */
    int64_t *codes, n;
} msi_ms_frames;

/* msi_ms_frames_read - read the frames of a column. Returned: *f  freed by msi_ms_frames_free, also after a failure.
 * Returns: 0, MSI_ENOMEM */
int msi_ms_frames_read(ccc_table *t, const char *column, msi_ms_frames *f);

/* msi_ms_frames_of_row - find the frame of a row. Returned: frame [size]. Returns: 0, MSI_ENOMEM */
int msi_ms_frames_of_row(ccc_table *t, const msi_ms_frames *f, int64_t row, char *frame, size_t size);
void msi_ms_frames_free(msi_ms_frames *f);

/*
 * msi_ms_subtables_read - read the windows, setups, fields and antennas of an open set, and the delays of MWA tiles.
 * Returned: window, setup, field, antenna_*, delay of the set, and their counts
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_subtables_read(msi_ms_set *set);

/*
 * msi_ms_subtables_rest_frequencies - read the rest frequencies of fields from SOURCE, an optional subtable.
 * Returned: rest_hz [n_field]  0 if unknown; a cell that cannot be read counts as missing
 * Returns:  0, MSI_EINPUT (another unit), MSI_ENOMEM
 */
int msi_ms_subtables_rest_frequencies(const msi_ms_set *set, const msi_ms_field *field, int n_field, double *rest_hz);

/* msi_ms_subtables_observe - fill the members of an observation that msi_ms_set_observe reads from subtables. Returns:
 * 0, MSI_EINPUT, MSI_ENOMEM */
int msi_ms_subtables_observe(msi_ms_set *set, msi_observation *observation);

/* msi_ms_transfer_names - pack or unpack names of antennas, and terminate the unpacked ones. */
int msi_ms_transfer_names(msi_cursor *c, msi_ms_name **names, int64_t n, int *is_whole);

#endif
