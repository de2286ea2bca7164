/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/format.h"
#include "core/pol.h"
#include "io/fits/picture_bar.h"

void msi_words_add(char line[MSI_PICTURE_WORDS], const char *part)
{
    const size_t n = strlen(line);
    if (part[0]) snprintf(line + n, MSI_PICTURE_WORDS - n, "%s%s", n ? ", " : "", part);
}

static void add_hz(char line[MSI_PICTURE_WORDS], const char *what, int n_digit, double hz)
{
    char part[48];
    const msi_unit unit = msi_freq_unit(hz);
    if (!(hz > 0)) return;
    snprintf(part, sizeof part, "%s%.*g %s", what, n_digit, hz / unit.size, unit.name);
    msi_words_add(line, part);
}

void msi_words_add_freq(char line[MSI_PICTURE_WORDS], double freq_hz)
{
    add_hz(line, "", 6, freq_hz);
}

void msi_words_add_band(char line[MSI_PICTURE_WORDS], double bandwidth_hz)
{
    add_hz(line, "band ", 4, bandwidth_hz);
}

void msi_words_add_pol(char line[MSI_PICTURE_WORDS], msi_pol pol)
{
    char part[32];
    snprintf(part, sizeof part, pol <= MSI_POL_V ? "Stokes %s" : "%s", msi_pol_name(pol));
    msi_words_add(line, part);
}

void msi_words_add_peak(char line[MSI_PICTURE_WORDS], double peak, const char *unit)
{
    char value[96], part[112];
    if (!isfinite(peak)) return;
    msi_picture_value(peak, unit, value, sizeof value);
    snprintf(part, sizeof part, "peak %s", value);
    msi_words_add(line, part);
}

void msi_words_angle(double rad, char *text, size_t size)
{
    static const struct {
        const char *name, *sign;
    } signs[] = {{"uas", " µas"}, {"mas", " mas"}, {"arcsec", "″"}, {"arcmin", "′"}, {"deg", "°"}};
    const msi_unit unit = msi_angle_unit(rad);
    const double v = rad / unit.size;
    const char *sign = unit.name;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strcmp(unit.name, signs[i].name) == 0) sign = signs[i].sign;
    snprintf(text, size, "%.*f%s", v >= 100 ? 0 : v >= 10 ? 1 : 2, v, sign);
}

void msi_words_add_beam(char line[MSI_PICTURE_WORDS], const msi_beam *beam)
{
    char part[128], major[32], minor[32];
    if (!msi_beam_known(beam)) return;
    msi_words_angle(beam->major_rad, major, sizeof major);
    msi_words_angle(beam->minor_rad, minor, sizeof minor);
    snprintf(part, sizeof part, "beam %s × %s at %.0f°", major, minor, beam->pa_rad * 180 / MSI_PI);
    msi_words_add(line, part);
}

double msi_words_peak(int64_t n_pixel, const void *pixel, msi_precision precision)
{
    double peak = NAN;
    for (int64_t i = 0; i < n_pixel; i++) {
        const double v = msi_image_value(pixel, precision, i);
        if (isfinite(v) && !(fabs(v) <= fabs(peak))) peak = v;
    }
    return peak;
}

static void add_channel(char line[MSI_PICTURE_WORDS], const msi_fits_spec *spec)
{
    char part[64];
    if (spec->n_channel < 2) return;
    if (spec->channel < 0)
        snprintf(part, sizeof part, "all %lld channels", (long long)spec->n_channel);
    else
        snprintf(part, sizeof part, "channel %lld of %lld", (long long)spec->channel + 1, (long long)spec->n_channel);
    msi_words_add(line, part);
}

void msi_words_title(char line[MSI_PICTURE_WORDS], const msi_fits_spec *spec)
{
    line[0] = 0;
    msi_words_add(line, spec->observation->object);
    msi_words_add(line, spec->observation->telescope);
    msi_words_add_freq(line, spec->freq_hz);
    add_channel(line, spec);
    if (msi_fits_is_brightness(spec->kind)) msi_words_add_pol(line, spec->pol);
}
