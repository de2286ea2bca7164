/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Beams of LOFAR's stations: the array factor of a station's dipoles, or of its tiles and their dipoles, times
 * Hamaker's model of a dipole. Each station has its own. Vectors are unit vectors along east, north and up at the site.
 */
#ifndef MSI_PB_STATIONS_H
#define MSI_PB_STATIONS_H

#include "io/ms/ms_stations.h"
#include "src/pb/pb_model.h"

typedef struct msi_pb_stations msi_pb_stations;

/*
 * msi_pb_stations_make - prepare the stations of a set.
 * Given:    folder  with HamakerHBACoeff.h5 and HamakerLBACoeff.h5; NULL: the environment variable EVERYBEAM_DATADIR, or
 *                   where EveryBeam installs them
 *           set     its layouts, band and site
 * Returned: *out    freed by msi_pb_stations_free; NULL on failure
 *           note    for the log
 * Returns:  0, MSI_EINPUT (no layouts; an antenna without one; no file, or none for these frequencies), MSI_EUSAGE (a
 *           build without HDF5), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_pb_stations_make(msi_pb_stations **out, const char *folder, const msi_pb_set *set, char note[MSI_PB_NOTE]);
void msi_pb_stations_free(msi_pb_stations *s); /* NULL-safe */

/* msi_pb_stations_has_tiles - return 1 for HBA, 0 for LBA. */
int msi_pb_stations_has_tiles(const msi_pb_stations *s);

/* msi_pb_stations_width - return the full width at half power of the largest station towards its zenith. */
double msi_pb_stations_width(const msi_pb_stations *s, double freq_hz);

/*
 * msi_pb_stations_jones - compute the response of a station.
 * Given:    part  of it
 * Returned: jones as msi_pb_model_jones; for the array factor a diagonal matrix
 */
void msi_pb_stations_jones(const msi_pb_stations *s, int antenna, double freq_hz, const msi_pb_direction *direction,
                           msi_pb_part_of part, msi_c64 jones[4]);

#endif
