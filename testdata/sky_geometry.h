/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * This header turns the sky over an array: sidereal time, baselines as the source sees them, the tangent plane.
 *
 * The model is a sphere that turns: right ascension and declination are of the equator of date and are written as
 * J2000. There is no precession, nutation, aberration or polar motion, and UT1 is UTC. Imaging needs uvw, phases and
 * phase centre only to agree with each other, which they do exactly.
 */
#ifndef MSI_TESTDATA_SKY_GEOMETRY_H
#define MSI_TESTDATA_SKY_GEOMETRY_H

#include <stdint.h>

#include "core/types.h"

/*
 * msi_sky_gmst - Greenwich mean sidereal time, 280.46061837 deg + 360.98564736629 deg a day since J2000.0 (the leading
 * terms of the IAU 1982 expression).
 *
 * Given:    mjd_s  MJD seconds, UT
 * Returns:  radians, 0 to 2 pi
 */
double msi_sky_gmst(double mjd_s);

/*
 * msi_sky_time_of - find the first time, at or after a given one, at which a right ascension has an hour angle.
 *
 * Given:    ra_rad, hour_angle_rad; longitude_rad  east, at which the hour angle is meant
 *           after_mjd_s  MJD seconds
 * Returns:  MJD seconds, less than a sidereal day after after_mjd_s
 */
double msi_sky_time_of(double ra_rad, double hour_angle_rad, double longitude_rad, double after_mjd_s);

/* msi_sky_elevation - compute the radians above the horizon of hour angle and declination at a latitude. */
double msi_sky_elevation(double hour_angle_rad, double dec_rad, double latitude_rad);

/*
 * msi_sky_uvw - express a geocentric vector in the frame of a direction: u east, v north, w towards it.
 *
 * Given:    itrf_m [3]  a station, or a baseline antenna 2 - antenna 1 (then uvw is what UVW of a Measurement Set
 *                       holds)
 *           greenwich_hour_angle_rad, dec_rad  of the direction
 * Returned: uvw_m [3]
 * Source:   Thompson, Moran & Swenson, Interferometry and Synthesis in Radio Astronomy, eq. 4.1, with x to the
 *           Greenwich meridian
 */
void msi_sky_uvw(const double itrf_m[3], double greenwich_hour_angle_rad, double dec_rad, double uvw_m[3]);

/*
 * msi_sky_to_lm - project a direction on the SIN tangent plane about a centre.
 *
 * Returned: *l (east), *m (north)
 * Returns:  0, MSI_ERANGE (more than 90 degrees from the centre)
 */
int msi_sky_to_lm(double ra_rad, double dec_rad, double ra0_rad, double dec0_rad, double *l, double *m);

/* msi_sky_from_lm - do the inverse; l^2 + m^2 < 1. Returned: *ra_rad 0 to 2 pi, *dec_rad. */
void msi_sky_from_lm(double l, double m, double ra0_rad, double dec0_rad, double *ra_rad, double *dec_rad);

#endif
