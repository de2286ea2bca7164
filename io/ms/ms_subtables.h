/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The subtables of a Measurement Set: windows, correlations, fields, antennas, sources, and the checks of their values. */
#ifndef MSI_MS_SUBTABLES_H
#define MSI_MS_SUBTABLES_H

#include "io/ms/ms_metadata.h"

/* A column of values in a unit. */
typedef struct msi_ms_unit_column {
    const char *column, *unit;
} msi_ms_unit_column;

/* msi_ms_table_check_size - refuse a table whose header gives more rows than its files have bytes, since every row of
 * these tables takes some bytes. Reading that many rows would take hours. Returns: 0, MSI_EINPUT */
int msi_ms_table_check_size(const ccc_table *table);

/* msi_ms_table_check_units - refuse columns whose units are not those of the Measurement Set definition. Returns: 0,
 * MSI_EINPUT, MSI_ENOMEM */
int msi_ms_table_check_units(ccc_table *table, const msi_ms_unit_column *columns, size_t n);

/*
 * msi_ms_subtables_read - read the windows, setups, fields and antennas of an open set, and the delays of MWA tiles.
 * Returned: window, setup, field, antenna_*, delay of the set, and their numbers
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_subtables_read(msi_ms_set *set);

/*
 * msi_ms_subtables_rest_frequencies - read the rest frequencies of fields from SOURCE, an optional subtable.
 * Returned: rest_hz [n_field]  0 if unknown; a cell that cannot be read counts as missing
 * Returns:  0, MSI_EINPUT (another unit), MSI_ENOMEM
 */
int msi_ms_subtables_rest_frequencies(const msi_ms_set *set, const msi_ms_field *field, int n_field, double *rest_hz);

/* msi_ms_subtables_observe - fill the part of an observation that msi_ms_set_observe reads from subtables. Returns: 0,
 * MSI_EINPUT, MSI_ENOMEM */
int msi_ms_subtables_observe(msi_ms_set *set, msi_observation *observation);

#endif
