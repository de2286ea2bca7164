/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "testdata/makems_quantity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "core/types.h"
#include "core/units.h"

typedef struct unit {
    const char *name;
    double factor;
} unit;

/* The first two units of a list are the ones proposed for a bare number. */
static const unit hour_units[] = {{"h", MSI_PI / 12}, {"deg", MSI_PI / 180}, {"rad", 1}, {NULL, 0}};
static const unit freq_units[] = {{"MHz", 1e6}, {"GHz", 1e9}, {"kHz", 1e3}, {"Hz", 1}, {NULL, 0}};
static const unit time_units[] = {{"s", 1}, {"h", 3600}, {"min", 60}, {"ms", 1e-3}, {"d", 86400}, {NULL, 0}};
static const unit flux_units[] = {{"Jy", 1}, {"mJy", 1e-3}, {"uJy", 1e-6}, {NULL, 0}};

/* Find the end of the number that text begins with; text itself where it begins with none. */
static const char *end_of_number(double *out, const char *text)
{
    const char *digits = text + (*text == '-' || *text == '+');
    *out = 0;
    if (!strchr(".0123456789", *digits) || !*digits || digits[1] == 'x' || digits[1] == 'X') return text;
    char *end;
    *out = strtod(text, &end);
    return isfinite(*out) ? end : text;
}

static const unit *find_unit(const unit *units, const char *name)
{
    while (units->name && strcmp(units->name, name) != 0) units++;
    return units->name ? units : NULL;
}

static int with_unit(double *out, const char *what, const char *text, const unit *units)
{
    double value;
    const char *end = end_of_number(&value, text);
    const unit *u = find_unit(units, end);
    if (end == text)
        return msi_error_set(MSI_EUSAGE, "%s %s: give a number and a unit, such as 2%s", what, text, units[0].name);
    if (!*end)
        return msi_error_set(MSI_EUSAGE, "%s %s: give a unit, %s%s or %s%s?", what, text, text, units[0].name, text,
                             units[1].name);
    if (!u) {
        char names[64] = "";
        for (u = units; u->name; u++) snprintf(names + strlen(names), sizeof names - strlen(names), " %s", u->name);
        return msi_error_set(MSI_EUSAGE, "%s %s: %s is no unit; use one of%s", what, text, end, names);
    }
    *out = value * u->factor;
    return MSI_OK;
}

int msi_quantity_hour(double *out, const char *what, const char *text)
{
    return with_unit(out, what, text, hour_units);
}

int msi_quantity_freq(double *out, const char *what, const char *text)
{
    return with_unit(out, what, text, freq_units);
}

int msi_quantity_time(double *out, const char *what, const char *text)
{
    return with_unit(out, what, text, time_units);
}

int msi_quantity_flux(double *out, const char *what, const char *text)
{
    return with_unit(out, what, text, flux_units);
}

int msi_quantity_is_flux(const char *text)
{
    double value;
    const char *end = end_of_number(&value, text);
    return end != text && find_unit(flux_units, end);
}

int msi_quantity_count(int64_t *out, const char *what, const char *text, int64_t min, int64_t max)
{
    MSI_TRY(msi_parse_integer(out, what, text));
    if (*out < min || *out > max)
        return msi_error_set(MSI_EUSAGE, "%s %s: give a number from %lld to %lld", what, text, (long long)min,
                             (long long)max);
    return MSI_OK;
}

int msi_quantity_date(double *mjd_s, const char *what, const char *text)
{
    int year, month, day, hour = 0, minute = 0, n = 0;
    double second = 0;
    int given = sscanf(text, "%4d-%2d-%2d%nT%2d:%2d:%lf%n", &year, &month, &day, &n, &hour, &minute, &second, &n);
    if ((given != 3 && given != 6) || text[n] || year < 1859 || month < 1 || month > 12 || day < 1 || day > 31 ||
        hour < 0 || hour > 23 || minute < 0 || minute > 59 || !(second >= 0 && second < 60))
        return msi_error_set(MSI_EUSAGE, "%s %s: give a date such as 2024-01-31T12:34:56", what, text);
    /* Days of the Gregorian calendar, with years that begin in March so that leap days come last. */
    int64_t y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    int64_t days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    const int64_t mjd_of_0000_03_01 = -678881;
    *mjd_s = ((double)(days + mjd_of_0000_03_01) * 24 + hour) * 3600 + minute * 60 + second;
    return MSI_OK;
}
