/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "testdata/sky_geometry.h"

#include <math.h>

#include "core/status.h"

static const double DAY_S = 86400;
static const double J2000_MJD_DAY = 51544.5;
static const double GMST_AT_J2000_DEG = 280.46061837;
static const double GMST_PER_DAY_DEG = 360.98564736629;

static double into_turn(double angle_rad)
{
    double x = fmod(angle_rad, 2 * MSI_PI);
    return x < 0 ? x + 2 * MSI_PI : x;
}

double msi_sky_gmst(double mjd_s)
{
    /* The whole turns of whole days are left out, so that no digits are lost. */
    double day = mjd_s / DAY_S - J2000_MJD_DAY;
    double deg = GMST_AT_J2000_DEG + 360 * (day - floor(day)) + (GMST_PER_DAY_DEG - 360) * day;
    return into_turn(deg * (MSI_PI / 180));
}

double msi_sky_time_of(double ra_rad, double hour_angle_rad, double longitude_rad, double after_mjd_s)
{
    double rate_rad_per_s = GMST_PER_DAY_DEG * (MSI_PI / 180) / DAY_S;
    double ahead_rad = into_turn(ra_rad + hour_angle_rad - longitude_rad - msi_sky_gmst(after_mjd_s));
    return after_mjd_s + ahead_rad / rate_rad_per_s;
}

double msi_sky_elevation(double hour_angle_rad, double dec_rad, double latitude_rad)
{
    return asin(sin(latitude_rad) * sin(dec_rad) + cos(latitude_rad) * cos(dec_rad) * cos(hour_angle_rad));
}

void msi_sky_uvw(const double itrf_m[3], double greenwich_hour_angle_rad, double dec_rad, double uvw_m[3])
{
    double sin_h = sin(greenwich_hour_angle_rad), cos_h = cos(greenwich_hour_angle_rad);
    double sin_d = sin(dec_rad), cos_d = cos(dec_rad);
    double x = itrf_m[0], y = itrf_m[1], z = itrf_m[2];
    uvw_m[0] = x * sin_h + y * cos_h;
    uvw_m[1] = -x * sin_d * cos_h + y * sin_d * sin_h + z * cos_d;
    uvw_m[2] = x * cos_d * cos_h - y * cos_d * sin_h + z * sin_d;
}

int msi_sky_to_lm(double ra_rad, double dec_rad, double ra0_rad, double dec0_rad, double *l, double *m)
{
    long double dra = (long double)ra_rad - ra0_rad, dec = dec_rad, dec0 = dec0_rad;
    long double towards = sinl(dec) * sinl(dec0) + cosl(dec) * cosl(dec0) * cosl(dra);
    if (!(towards > 0))
        return msi_error_set(MSI_ERANGE, "RA %.6f Dec %.6f deg is more than 90 degrees from the centre %.6f %.6f deg",
                             ra_rad * (180 / MSI_PI), dec_rad * (180 / MSI_PI), ra0_rad * (180 / MSI_PI),
                             dec0_rad * (180 / MSI_PI));
    /* sin(dec) cos(dec0) - cos(dec) sin(dec0) cos(dra), arranged so that nearby directions lose no digits. */
    long double half = sinl(dra / 2);
    *l = (double)(cosl(dec) * sinl(dra));
    *m = (double)(sinl(dec - dec0) + 2 * cosl(dec) * sinl(dec0) * half * half);
    return MSI_OK;
}

void msi_sky_from_lm(double l, double m, double ra0_rad, double dec0_rad, double *ra_rad, double *dec_rad)
{
    double n = sqrt(1 - l * l - m * m);
    double x = n * cos(dec0_rad) - m * sin(dec0_rad), y = l, z = m * cos(dec0_rad) + n * sin(dec0_rad);
    *ra_rad = into_turn(ra0_rad + atan2(y, x));
    *dec_rad = atan2(z, hypot(x, y));
}
