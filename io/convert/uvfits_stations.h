/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The antennas of several subarrays of a UVFITS file, each with a table AIPS AN of its own, of which casacore reads the
 * first and takes every subarray's numbers for that one's. They become one table in a copy of the file, renumbered
 * where they differ; so do antennas that are counted from 0, which casacore does not count.
 */
#ifndef MSI_IO_UVFITS_STATIONS_H
#define MSI_IO_UVFITS_STATIONS_H

#include "io/convert/uvfits_mend.h"

typedef struct msi_uv_stations msi_uv_stations;

/*
 * msi_uv_stations_find - read the tables of the subarrays that groups name.
 * Given:    subarray  those; has_zero  some group names antenna 0
 * Returned: *out      NULL where the first table tells all; freed by msi_uv_stations_free
 * Returns:  0, MSI_EINPUT (antenna 0 is in no table; tables of different columns), MSI_ENOMEM
 */
int msi_uv_stations_find(msi_uv_stations **out, const char *fits, const char *name, const msi_uv_ids *subarray,
                         int has_zero);
void msi_uv_stations_free(msi_uv_stations *s);

/* msi_uv_stations_number - return an antenna's number in the one table; 0 where it is in none. */
int64_t msi_uv_stations_number(const msi_uv_stations *s, int64_t subarray, int64_t number);

/* msi_uv_stations_put - make the one table in a copy of the file. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM */
int msi_uv_stations_put(const msi_uv_stations *s, const char *copy, const char *name);

#endif
