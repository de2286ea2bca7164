/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "core/status.h"
#include "core/types.h"

#define DEG_RAD (MSI_PI / 180)

/* ---- Parsing ---- */

static const struct {
    const char *name;
    double rad;
} angle_units[] = {
    {"nasec", DEG_RAD / 3600e9},
    {"uasec", DEG_RAD / 3600e6},
    {"uarcsec", DEG_RAD / 3600e6},
    {"uas", DEG_RAD / 3600e6},
    {"mas", DEG_RAD / 3600e3},
    {"masec", DEG_RAD / 3600e3},
    {"marcsec", DEG_RAD / 3600e3},
    {"asec", DEG_RAD / 3600},
    {"arcsec", DEG_RAD / 3600},
    {"amin", DEG_RAD / 60},
    {"arcmin", DEG_RAD / 60},
    {"deg", DEG_RAD},
    {"degree", DEG_RAD},
    {"degrees", DEG_RAD},
    {"rad", 1},
    {"radian", 1},
    {"radians", 1},
};

const char *msi_parse_option_name(const char *word)
{
    const char *name = word[0] == '-' ? word + 1 + (word[1] == '-') : "";
    if (strcmp(name, "h") == 0 || strcmp(name, "?") == 0 || strncmp(name, "help=", 5) == 0) return "help";
    return strcmp(name, "V") == 0 ? "version" : name;
}

/* Multiply by ten and add a digit of the same sign. Return 0 if the result overflows 64 bits. */
static int append_digit(int64_t *value, int digit)
{
    return !__builtin_mul_overflow(*value, 10, value) && !__builtin_add_overflow(*value, digit, value);
}

/* Read the fraction and the exponent that follow an integer, as in 1e5 or 2.5e6. If the number is an integer, store it
 * and move *end behind it; otherwise change nothing. Return 0 if the number overflows 64 bits. */
static int read_exponent(int64_t *value, int sign, char **end)
{
    char *p = *end;
    int64_t scaled = *value;
    long power = 0;
    if (*p == '.' && isdigit((unsigned char)p[1]))
        for (p++; isdigit((unsigned char)*p); p++, power--)
            if (!append_digit(&scaled, sign * (*p - '0'))) return 0;
    if ((*p != 'e' && *p != 'E') || !isdigit((unsigned char)p[1 + (p[1] == '+')])) return 1;
    const long exponent = strtol(p + 1, &p, 10);
    for (power += exponent < 1000 ? exponent : 1000; power > 0 && scaled; power--)
        if (!append_digit(&scaled, 0)) return 0;
    for (; power < 0 && scaled % 10 == 0 && scaled; power++) scaled /= 10;
    if (power < 0 && scaled) return 1;
    *value = scaled;
    *end = p;
    return 1;
}

int msi_parse_integer(int64_t *out, const char *what, const char *text)
{
    const char *digits = text + (*text == '-' || *text == '+');
    char *end;
    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    const int fits = errno != ERANGE && read_exponent(&value, *text == '-' ? -1 : 1, &end);
    if (!isdigit((unsigned char)*digits) || (*end && fits))
        return msi_error_set(MSI_EUSAGE, "%s %s: give a whole number", what, text);
    if (!fits) return msi_error_set(MSI_EUSAGE, "%s %s: the number is too large", what, text);
    *out = value;
    return MSI_OK;
}

/* Read the number at the start of a text, and return its end; NULL if there is no number. Unlike strtod it refuses inf,
 * nan, 0x and leading blanks. */
static const char *leading_real(double *out, const char *text)
{
    const char *p = text + (*text == '-' || *text == '+');
    if (*p != '.' && !isdigit((unsigned char)*p)) return NULL;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) return NULL;
    char *end;
    *out = strtod(text, &end);
    return end == text || !isfinite(*out) ? NULL : end;
}

/* Refuse a decimal comma. The digits after it would be read as a unit. */
static int check_point(const char *what, const char *text, const char *end)
{
    if (!end || end[0] != ',' || !isdigit((unsigned char)end[1])) return MSI_OK;
    return msi_error_set(MSI_EUSAGE, "%s %s: write decimals with a point, as in %.*s.%s", what, text, (int)(end - text),
                         text, end + 1);
}

int msi_parse_real(double *out, const char *what, const char *text)
{
    const char *end = leading_real(out, text);
    if (!end) return msi_error_set(MSI_EUSAGE, "%s %s: give a number", what, text);
    MSI_TRY(check_point(what, text, end));
    if (*end)
        return msi_error_set(MSI_EUSAGE, "%s %s: give a number alone, without '%s'; -help has its unit", what, text,
                             end);
    return MSI_OK;
}

int msi_parse_flux(double *out_jy, const char *what, const char *text)
{
    static const struct {
        const char *name;
        double jy;
    } units[] = {{"", 1}, {"Jy", 1}, {"mJy", 1e-3}, {"uJy", 1e-6}, {"nJy", 1e-9}};
    double number;
    const char *unit = leading_real(&number, text);
    if (!unit)
        return msi_error_set(MSI_EUSAGE, "%s %s: give a number in Jy, or a number with its unit, such as 2mJy", what,
                             text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0) {
            *out_jy = number * units[i].jy;
            return MSI_OK;
        }
    return msi_error_set(MSI_EUSAGE, "%s %s: unknown unit '%s'; use Jy, mJy, uJy or nJy", what, text, unit);
}

int msi_parse_frequency(double *out_hz, const char *what, const char *text)
{
    static const msi_unit units[] = {{"", 1}, {"Hz", 1}, {"kHz", 1e3}, {"MHz", 1e6}, {"GHz", 1e9}};
    double number;
    const char *unit = leading_real(&number, text);
    for (size_t i = 0; unit && number > 0 && i < sizeof units / sizeof *units; i++)
        if (strcasecmp(unit, units[i].name) == 0) {
            *out_hz = number * units[i].size;
            return MSI_OK;
        }
    return msi_error_set(MSI_EUSAGE, "%s %s: give a frequency in Hz or with its unit, such as 870MHz or 0.92GHz", what,
                         text);
}

int msi_parse_angle_or(double *out_rad, const char *what, const char *text, double bare_rad)
{
    double number;
    const char *unit = leading_real(&number, text);
    if (!unit)
        return msi_error_set(MSI_EUSAGE, "%s %s: give a number and a unit (masec, asec, amin, deg, rad), such as 2asec",
                             what, text);
    MSI_TRY(check_point(what, text, unit));
    if (!*unit && !(bare_rad > 0))
        return msi_error_set(MSI_EUSAGE, "%s %s: give a unit, %sasec or %sdeg?", what, text, text, text);
    if (!*unit) {
        *out_rad = number * bare_rad;
        return MSI_OK;
    }
    for (size_t i = 0; i < sizeof angle_units / sizeof *angle_units; i++)
        if (strcasecmp(unit, angle_units[i].name) == 0) {
            *out_rad = number * angle_units[i].rad;
            return MSI_OK;
        }
    return msi_error_set(MSI_EUSAGE, "%s %s: unknown unit '%s'; use uasec, masec, asec, amin, deg or rad", what, text,
                         unit);
}

int msi_parse_angle(double *out_rad, const char *what, const char *text)
{
    return msi_parse_angle_or(out_rad, what, text, 0);
}

/*
 * Parse [sign] A mark B mark C [mark]: up to three numbers. B and C are in [0, 60); the last number may have a
 * fraction. Marks either follow each number ("hms", "dms"; closes is 1) or separate two numbers (":::", "..."). Return
 * 1 and the value in units of A, or 0.
 */
static int parse_sexagesimal(double *out, const char *text, const char *marks, int closes)
{
    int negative = *text == '-';
    const char *p = text + (*text == '-' || *text == '+');
    double value = 0, scale = 1;
    int n = 0;
    while (n < 3) {
        size_t whole = strspn(p, "0123456789");
        if (whole == 0 || whole > 9) return 0;
        const char *end = p + whole;
        if (*end == '.' && (marks[n] != '.' || n == 2)) end += 1 + strspn(end + 1, "0123456789");
        int has_fraction = end > p + whole;
        double part = has_fraction ? strtod(p, NULL) : (double)strtol(p, NULL, 10);
        if (n > 0 && part >= 60) return 0;
        value += part / scale;
        scale *= 60;
        p = end;
        int marked = *p == marks[n] || (isalpha((unsigned char)marks[n]) && *p == toupper((unsigned char)marks[n]));
        n++;
        if (!marked) {
            /* Separators do not follow the last number. Of "hms" and "dms", only the last mark, after the seconds, may
             * be omitted. */
            if (*p || (closes && n < 3) || (!closes && n < 2)) return 0;
            break;
        }
        p++;
        if (!*p) {
            if (!closes) return 0;
            break;
        }
        if (has_fraction) return 0;
    }
    if (*p) return 0;
    *out = negative ? -value : value;
    return 1;
}

int msi_parse_ra(double *out_rad, const char *what, const char *text)
{
    double hours, rad = 0;
    if (parse_sexagesimal(&hours, text, "hms", 1) || parse_sexagesimal(&hours, text, ":::", 0)) {
        if (fabs(hours) > 24) return msi_error_set(MSI_EUSAGE, "%s %s: an RA has 0 to 24 hours", what, text);
        rad = hours * 15 * DEG_RAD;
    } else {
        double number;
        const char *end = leading_real(&number, text);
        if (!end || strpbrk(text, "hH:"))
            return msi_error_set(MSI_EUSAGE, "%s %s: write the RA as 08h24m07.0s or 126.03deg", what, text);
        if (!*end)
            return msi_error_set(MSI_EUSAGE, "%s %s: give a unit, %sdeg, or write the RA as 08h24m07.0s", what, text,
                                 text);
        MSI_TRY(msi_parse_angle(&rad, what, text));
        if (fabs(rad) > 2 * MSI_PI * (1 + 1e-15))
            return msi_error_set(MSI_EUSAGE, "%s %s: the RA exceeds 360deg", what, text);
    }
    rad = fmod(rad, 2 * MSI_PI);
    if (rad < 0) rad += 2 * MSI_PI;
    *out_rad = rad < 2 * MSI_PI ? rad : 0;
    return MSI_OK;
}

int msi_parse_dec(double *out_rad, const char *what, const char *text)
{
    double deg, rad = 0;
    if (parse_sexagesimal(&deg, text, "dms", 1) || parse_sexagesimal(&deg, text, ":::", 0) ||
        (strchr(text, '.') != strrchr(text, '.') && parse_sexagesimal(&deg, text, "...", 0))) {
        rad = deg * DEG_RAD;
    } else {
        double number;
        const char *end = leading_real(&number, text);
        int looks_sexagesimal = end && *end && strchr("dD.", *end) && !isalpha((unsigned char)end[1]);
        if (end && !*end)
            return msi_error_set(MSI_EUSAGE, "%s %s: give a unit, %sdeg, or write the Dec as -42d59m48.0s", what, text,
                                 text);
        if (!end || looks_sexagesimal || strchr(text, ':'))
            return msi_error_set(MSI_EUSAGE, "%s %s: write the Dec as -42d59m48.0s or -42.9967deg", what, text);
        MSI_TRY(msi_parse_angle(&rad, what, text));
    }
    if (fabs(rad) > MSI_PI / 2 * (1 + 1e-15))
        return msi_error_set(MSI_EUSAGE, "%s %s: the Dec must be -90deg to 90deg", what, text);
    *out_rad = fmin(fmax(rad, -MSI_PI / 2), MSI_PI / 2);
    return MSI_OK;
}

/* ---- Formatting ---- */

static const double ARCSEC = MSI_PI / 648000;

/* Return the largest unit of an ascending table that is not larger than the value, within rounding. */
static msi_unit largest_unit(const msi_unit *unit, int n, double value)
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
    return largest_unit(units, 5, rad);
}

msi_unit msi_freq_unit(double hz)
{
    static const msi_unit units[] = {{"Hz", 1}, {"kHz", 1e3}, {"MHz", 1e6}, {"GHz", 1e9}};
    return largest_unit(units, 4, hz);
}

static msi_unit duration_unit(double s)
{
    static const msi_unit units[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"days", 86400}};
    return largest_unit(units, 4, s);
}

static const char *format_value(char text[MSI_FORMAT_SIZE], double value, msi_unit unit)
{
    snprintf(text, MSI_FORMAT_SIZE, "%.4g %s", value / unit.size, unit.name);
    return text;
}

const char *msi_format_angle(char text[MSI_FORMAT_SIZE], double rad)
{
    return format_value(text, rad, msi_angle_unit(rad));
}

const char *msi_format_duration(char text[MSI_FORMAT_SIZE], double s)
{
    return format_value(text, s, duration_unit(s));
}

const char *msi_format_estimate(char text[MSI_FORMAT_SIZE], double s)
{
    const msi_unit unit = duration_unit(s);
    const double value = s / unit.size;
    snprintf(text, MSI_FORMAT_SIZE, value < 0.1 ? "%.1g %s" : value < 10 ? "%.1f %s" : "%.0f %s", value, unit.name);
    return text;
}

const char *msi_format_direction(char text[MSI_FORMAT_SIZE], double ra_rad, double dec_rad)
{
    const double turns = ra_rad / (2 * MSI_PI);
    if (!isfinite(ra_rad) || !isfinite(dec_rad) || fabs(dec_rad) > MSI_PI) {
        snprintf(text, MSI_FORMAT_SIZE, "?");
        return text;
    }
    /* Round to hundredths of a second of time, and to tenths of an arcsecond. */
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

/* ---- Programs with a small table of options ---- */

static int read_small_option(const msi_small_option *table, int n, void *options, int argc, const char *const *argv,
                             int *used)
{
    const char *name = msi_parse_option_name(argv[0]);
    for (int i = 0; i < n; i++) {
        const msi_small_option *p = &table[i];
        if (strcmp(name, p->name) != 0) continue;
        if (p->arity >= argc) return msi_error_set(MSI_EUSAGE, "-%s takes %s", p->name, p->values);
        *used = 1 + p->arity;
        if (p->read) return p->read(options, argv + 1);
        const int on = 1;
        memcpy((char *)options + p->flag, &on, sizeof on);
        return MSI_OK;
    }
    return msi_error_set(MSI_EUSAGE, "%s: no such option; -help lists them", argv[0]);
}

int msi_small_options_read(const msi_small_option *table, int n, void *options, int argc, const char *const *argv,
                           int *first)
{
    int i = 1;
    for (int used = 1; i < argc && argv[i][0] == '-' && argv[i][1] && strcmp(argv[i], "--") != 0; i += used)
        MSI_TRY(read_small_option(table, n, options, argc - i, argv + i, &used));
    if (i < argc && strcmp(argv[i], "--") == 0) i++;
    *first = i;
    return MSI_OK;
}

void msi_small_options_print(const msi_small_option *table, int n)
{
    for (int i = 0; i < n; i++) printf("  -%s %s\n        %s\n", table[i].name, table[i].values, table[i].help);
}
