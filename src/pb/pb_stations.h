/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Beams of LOFAR's stations. The beam of a station is the array factor of its dipoles (LBA), or of its tiles and their
 * dipoles (HBA), times Hamaker's model of a dipole. Beams differ from station to station. Directions are unit vectors
 * with components along east, north and up at the site.
 */
#ifndef MSI_PB_STATIONS_H
#define MSI_PB_STATIONS_H

#include "io/ms/ms_stations.h"
#include "src/pb/pb_model.h"

typedef struct msi_pb_stations msi_pb_stations;

/*
 * msi_pb_stations_make - prepare the beams of a set's stations.
 * Given:    folder  directory of HamakerHBACoeff.h5 and HamakerLBACoeff.h5; NULL: that of the environment variable
 *                   EVERYBEAM_DATADIR, or the directory in which EveryBeam installs them
 *           set     has the layouts of the stations, the band and the site
 * Returned: *out    freed by msi_pb_stations_free; NULL on failure
 *           note    text for the log
 * Returns:  0, MSI_EINPUT (no layouts; an antenna without a layout; no coefficient file, or one that does not cover the
 *           band), MSI_EUSAGE (a build without HDF5), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_pb_stations_make(msi_pb_stations **out, const char *folder, const msi_pb_set *set, char note[MSI_PB_NOTE]);
void msi_pb_stations_free(msi_pb_stations *s); /* NULL-safe */

/* msi_pb_stations_has_tiles - return 1 for HBA, 0 for LBA. */
int msi_pb_stations_has_tiles(const msi_pb_stations *s);

/* msi_pb_stations_width - return the full width at half power, in rad, of the beam of the largest station towards the
 * zenith. */
double msi_pb_stations_width(const msi_pb_stations *s, double freq_hz);

/*
 * msi_pb_stations_jones - compute the response of a station.
 * Given:    part   all of the response, or only the dipole or the array factor
 * Returned: jones  as by msi_pb_model_jones; diagonal for the array factor
 */
void msi_pb_stations_jones(const msi_pb_stations *s, int antenna, double freq_hz, const msi_pb_direction *direction,
                           msi_pb_part_of part, msi_c64 jones[4]);

#endif
