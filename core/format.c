/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/format.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "core/types.h"

static const double ARCSEC = MSI_PI / 648000;

/* Take the largest unit of an ascending table that the value reaches; rounded up it may be a trifle below. */
static msi_unit suiting(const msi_unit *unit, int n, double value)
{
    int i = 0;
    while (i + 1 < n && fabs(value) * (1 + 1e-9) >= unit[i + 1].size) i++;
    return unit[i];
}

msi_unit msi_angle_unit(double rad)
{
    const msi_unit units[] = {{"uas", 1e-6 * ARCSEC},
                              {"mas", 1e-3 * ARCSEC},
                              {"arcsec", ARCSEC},
                              {"arcmin", 60 * ARCSEC},
                              {"deg", 3600 * ARCSEC}};
    return suiting(units, 5, rad);
}

msi_unit msi_freq_unit(double hz)
{
    static const msi_unit units[] = {{"Hz", 1}, {"kHz", 1e3}, {"MHz", 1e6}, {"GHz", 1e9}};
    return suiting(units, 4, hz);
}

static msi_unit duration_unit(double s)
{
    static const msi_unit units[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"days", 86400}};
    return suiting(units, 4, s);
}

static const char *format(char text[MSI_FORMAT_SIZE], double value, msi_unit unit)
{
    snprintf(text, MSI_FORMAT_SIZE, "%.4g %s", value / unit.size, unit.name);
    return text;
}

const char *msi_format_angle(char text[MSI_FORMAT_SIZE], double rad)
{
    return format(text, rad, msi_angle_unit(rad));
}

const char *msi_format_duration(char text[MSI_FORMAT_SIZE], double s)
{
    return format(text, s, duration_unit(s));
}

const char *msi_format_direction(char text[MSI_FORMAT_SIZE], double ra_rad, double dec_rad)
{
    const double turns = ra_rad / (2 * MSI_PI);
    if (!isfinite(ra_rad) || !isfinite(dec_rad) || fabs(dec_rad) > MSI_PI) {
        snprintf(text, MSI_FORMAT_SIZE, "?");
        return text;
    }
    /* Hundredths of a second of time, tenths of an arcsecond. */
    const int ra = (int)(llround((turns - floor(turns)) * 8640000) % 8640000);
    const int dec = (int)llround(fabs(dec_rad) / ARCSEC * 10);
    snprintf(text, MSI_FORMAT_SIZE, "%02dh%02dm%02d.%02ds %c%02dd%02dm%02d.%ds", ra / 360000, ra / 6000 % 60,
             ra / 100 % 60, ra % 100, dec_rad < 0 ? '-' : '+', dec / 36000, dec / 600 % 60, dec / 10 % 60, dec % 10);
    return text;
}

const char *msi_format_date(char text[MSI_FORMAT_SIZE], double mjd_s)
{
    const double unix_s = floor(mjd_s + 0.5) - 40587 * 86400.0;
    const int is_date = unix_s >= -62135596800.0 && unix_s < 253402300800.0;
    const time_t t = is_date ? (time_t)unix_s : 0;
    struct tm utc;
    if (!is_date || !gmtime_r(&t, &utc))
        snprintf(text, MSI_FORMAT_SIZE, "?");
    else
        snprintf(text, MSI_FORMAT_SIZE, "%04d-%02d-%02d %02d:%02d:%02d", (utc.tm_year + 1900) % 10000, utc.tm_mon + 1,
                 utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
    return text;
}
