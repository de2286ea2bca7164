/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Computes the geometry of a simulated sky, and the exact visibilities of point sources.
 *
 * The sky is a rotating sphere without precession, nutation, aberration or polar motion, and UT1 is UTC. Right
 * ascension and declination refer to the equator of date, but are written as J2000. Imaging needs only that uvw, phases
 * and phase centre agree, and they agree exactly.
 */
#ifndef MSI_POINT_MODEL_H
#define MSI_POINT_MODEL_H

#include <stdint.h>

#include "core/types.h"

/*
 * msi_sky_gmst - return Greenwich mean sidereal time, 280.46061837 deg + 360.98564736629 deg a day since J2000.0 (the
 * leading terms of the IAU 1982 expression).
 *
 * Given:    mjd_s  MJD seconds, UT
 * Returns:  radians, 0 to 2 pi
 */
double msi_sky_gmst(double mjd_s);

/*
 * msi_sky_time_of - find the first time, from after_mjd_s on, at which a right ascension has an hour angle.
 *
 * Given:    ra_rad, hour_angle_rad; longitude_rad  of the observer, east; after_mjd_s  MJD seconds
 * Returns:  MJD seconds, less than a sidereal day after after_mjd_s
 */
double msi_sky_time_of(double ra_rad, double hour_angle_rad, double longitude_rad, double after_mjd_s);

/* msi_sky_elevation - return the elevation of a direction in radians. */
double msi_sky_elevation(double hour_angle_rad, double dec_rad, double latitude_rad);

/*
 * msi_sky_uvw - convert a geocentric vector to the frame of a direction: u east, v north, w towards it.
 *
 * Given:    itrf_m [3]  a station, or a baseline antenna 2 - antenna 1 (then uvw is UVW of a Measurement Set)
 *           greenwich_hour_angle_rad, dec_rad  of the direction
 * Returned: uvw_m [3]
 * Source:   Thompson, Moran & Swenson, Interferometry and Synthesis in Radio Astronomy, eq. 4.1, with x to the
 *           Greenwich meridian
 */
void msi_sky_uvw(const double itrf_m[3], double greenwich_hour_angle_rad, double dec_rad, double uvw_m[3]);

/*
 * msi_sky_to_lm - project a direction to the SIN tangent plane at a centre.
 *
 * Returned: *l (east), *m (north)
 * Returns:  0, MSI_ERANGE (more than 90 degrees from the centre)
 */
int msi_sky_to_lm(double ra_rad, double dec_rad, double ra0_rad, double dec0_rad, double *l, double *m);

/* msi_sky_from_lm - the inverse of msi_sky_to_lm, for l^2 + m^2 < 1. Returned: *ra_rad 0 to 2 pi, *dec_rad. */
void msi_sky_from_lm(double l, double m, double ra0_rad, double dec0_rad, double *ra_rad, double *dec_rad);

/*
 * Visibilities of point sources: V = sum S exp(+2 pi i (u l + v m + w (n-1))). The error is below 1e-12 of the total
 * flux if |u l| + |v m| + |w (n-1)| is at most a million turns.
 */

/* A source on the tangent plane of a phase centre. */
typedef struct msi_point_source {
    double l, m;           /* of msi_sky_to_lm; l^2 + m^2 < 1 */
    double stokes_jy[4];   /* I Q U V at the reference frequency */
    double spectral_index; /* all four scale as (freq / reference)^index */
} msi_point_source;

/* Sources, frequencies and correlations of a model. */
typedef struct msi_point_spec {
    const msi_point_source *source; /* [n_source] */
    int n_source;
    double reference_freq_hz;
    const double *freq_hz; /* [n_chan] positive, in any order */
    int n_chan;
    const msi_pol *corr; /* [n_corr] linear XX = I+Q, XY = U+iV, YX = U-iV, YY = I-Q; circular RR = I+V, RL = Q+iU,
                            LR = Q-iU, LL = I-V; or Stokes I Q U V */
    int n_corr;
} msi_point_spec;

typedef struct msi_point_model msi_point_model;

/*
 * msi_point_model_create - prepare sources for one set of channels and correlations.
 *
 * Returned: *out  owned, freed by msi_point_model_free; the arrays are copied
 * Returns:  0, MSI_EUSAGE (a source beyond the horizon, a frequency that is not positive, an unknown correlation),
 *           MSI_ENOMEM
 */
int msi_point_model_create(msi_point_model **out, const msi_point_spec *spec);

/*
 * msi_point_model_evaluate - compute the visibilities of rows, on all cores.
 *
 * Given:    uvw_m [n_row][3]  metres
 * Returned: vis [n_row][n_chan][n_corr]  Jy
 * Notes:    the result depends neither on the number of threads nor on the division into calls.
 */
void msi_point_model_evaluate(const msi_point_model *model, int64_t n_row, const double *uvw_m, msi_c64 *vis);

/* msi_point_model_free - free a model; NULL is allowed. */
void msi_point_model_free(msi_point_model *model);

#endif
