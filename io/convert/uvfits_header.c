/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/uvfits_header.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "core/format.h"
#include "core/status.h"
#include "io/ms/ms_block.h"

/* ---- Cards ---- */

enum { CARD = 80, BLOCK = 2880 };

typedef struct cards {
    FILE *file;
    int64_t n;
} cards;

/* A card: what is too long for one ends at its 80 characters, what no header may hold is a question mark. */
__attribute__((format(printf, 2, 3))) static void put(cards *c, const char *format, ...)
{
    char text[CARD + 1];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n > CARD) n = CARD;
    memset(text + n, ' ', (size_t)(CARD - n));
    for (int i = 0; i < CARD; i++)
        if (text[i] < ' ' || text[i] > '~') text[i] = '?';
    fwrite(text, 1, CARD, c->file);
    c->n++;
}

static void put_integer(cards *c, const char *key, int64_t value)
{
    put(c, "%-8s= %20lld", key, (long long)value);
}

static void put_number(cards *c, const char *key, double value)
{
    put(c, "%-8s= %20.13E", key, value);
}

/* Put values of 15 digits and more, such as frequencies. */
static void put_precise(cards *c, const char *key, double value)
{
    put(c, "%-8s= %24.16E", key, value);
}

static void put_text(cards *c, const char *key, const char *value)
{
    char quoted[CARD];
    size_t n = 0;
    for (; *value && n + 2 < 66; value++) {
        if (*value == '\'') quoted[n++] = '\'';
        quoted[n++] = *value;
    }
    quoted[n] = 0;
    put(c, "%-8s= '%-8s'", key, quoted);
}

static void put_history(cards *c, const char *text)
{
    enum { ROOM = CARD - 8 };
    for (size_t left = strlen(text); left > 0;) {
        const size_t n = left < ROOM ? left : ROOM;
        put(c, "HISTORY %.*s", (int)n, text);
        text += n;
        left -= n;
    }
}

/* ---- The primary header ---- */

/* An axis of the groups. */
typedef struct axis {
    const char *name;
    int64_t n;
    double value, step;
} axis;

static void put_axes(cards *c, const msi_uvfits_layout *l, const msi_ms_field *field)
{
    const axis axes[] = {{"COMPLEX", 3, 1, 1},
                         {"STOKES", l->n_corr, l->stokes_first, l->stokes_step},
                         {"FREQ", l->n_chan, l->window[0]->freq_hz[0], l->step_hz},
                         {"IF", l->n_window, 1, 1},
                         {"RA", 1, field->ra_rad * 180 / MSI_PI, 1},
                         {"DEC", 1, field->dec_rad * 180 / MSI_PI, 1}};
    const int n = (int)(sizeof axes / sizeof *axes);
    char key[24];
    put(c, "SIMPLE  =                    T");
    put_integer(c, "BITPIX", -32);
    put_integer(c, "NAXIS", n + 1);
    put_integer(c, "NAXIS1", 0);
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof key, "NAXIS%d", i + 2);
        put_integer(c, key, axes[i].n);
    }
    put(c, "EXTEND  =                    T");
    put(c, "GROUPS  =                    T");
    put_integer(c, "PCOUNT", msi_uvfits_n_parameter(l));
    put_integer(c, "GCOUNT", l->n_group);
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof key, "CTYPE%d", i + 2);
        put_text(c, key, axes[i].name);
        snprintf(key, sizeof key, "CRVAL%d", i + 2);
        put_precise(c, key, axes[i].value);
        snprintf(key, sizeof key, "CDELT%d", i + 2);
        put_precise(c, key, axes[i].step);
        snprintf(key, sizeof key, "CRPIX%d", i + 2);
        put_number(c, key, 1);
        snprintf(key, sizeof key, "CROTA%d", i + 2);
        put_number(c, key, 0);
    }
}

static void put_parameter(cards *c, int *i, const char *name, double zero)
{
    char key[24];
    snprintf(key, sizeof key, "PTYPE%d", ++*i);
    put_text(c, key, name);
    snprintf(key, sizeof key, "PSCAL%d", *i);
    put_number(c, key, 1);
    snprintf(key, sizeof key, "PZERO%d", *i);
    put_precise(c, key, zero);
}

static void put_parameters(cards *c, const msi_uvfits_layout *l)
{
    int i = 0;
    put_parameter(c, &i, "UU", 0);
    put_parameter(c, &i, "VV", 0);
    put_parameter(c, &i, "WW", 0);
    put_parameter(c, &i, "DATE", l->day_mjd + 2400000.5);
    put_parameter(c, &i, "DATE", 0);
    if (msi_uvfits_has_wide_antennas(l)) {
        put_parameter(c, &i, "SUBARRAY", 0);
        put_parameter(c, &i, "ANTENNA1", 0);
        put_parameter(c, &i, "ANTENNA2", 0);
    } else
        put_parameter(c, &i, "BASELINE", 0);
    put_parameter(c, &i, "FREQSEL", 0);
    put_parameter(c, &i, "INTTIM", 0);
    if (l->n_field > 1) put_parameter(c, &i, "SOURCE", 0);
}

/* The names of the FITS standard for the frames of casacore. */
static const char *frame_name(const char *frame)
{
    static const char *const names[][2] = {{"TOPO", "TOPOCENT"}, {"LSRK", "LSRK"},        {"LSRD", "LSRD"},
                                           {"BARY", "BARYCENT"}, {"GEO", "GEOCENTR"},     {"REST", "SOURCE"},
                                           {"CMB", "CMBDIPOL"},  {"GALACTO", "GALACTOC"}, {"LGROUP", "LOCALGRP"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], frame) == 0) return names[i][1];
    return "TOPOCENT";
}

static void put_observation(cards *c, const msi_uvfits_layout *l, const msi_ms_field *field)
{
    const msi_observation *o = &l->reader->observation;
    char date[MSI_FORMAT_SIZE];
    msi_format_date(date, o->start_mjd_s);
    put_number(c, "BSCALE", 1);
    put_number(c, "BZERO", 0);
    put_text(c, "BUNIT", "JY");
    put_number(c, "EPOCH", strcmp(field->frame, "B1950") == 0 ? 1950 : 2000);
    put_number(c, "EQUINOX", strcmp(field->frame, "B1950") == 0 ? 1950 : 2000);
    put_text(c, "OBJECT", l->n_field > 1 ? "MULTI" : field->name);
    put_text(c, "TELESCOP", o->telescope);
    put_text(c, "INSTRUME", o->telescope);
    put_text(c, "OBSERVER", o->observer);
    put(c, "DATE-OBS= '%.10s'", date);
    put_text(c, "SPECSYS", frame_name(o->spec_frame));
    if (l->n_field == 1 && o->rest_freq_hz > 0) put_precise(c, "RESTFREQ", o->rest_freq_hz);
}

int msi_uvfits_header_write(msi_uvfits_layout *l, FILE *file, const char *name, const char *command)
{
    const msi_ms_field *field = &l->reader->set[0].field[0];
    cards c = {file, 0};
    put_axes(&c, l, field);
    put_parameters(&c, l);
    put_observation(&c, l, field);
    /* AIPS and Miriad look for the factor of the weights here. */
    put(&c, "HISTORY AIPS WTSCAL =  1.0");
    put_history(&c, command);
    put(&c, "END");
    while (c.n % (BLOCK / CARD)) put(&c, "%s", "");
    l->data_begin = c.n * CARD;
    if (fflush(file) != 0 || ferror(file))
        return msi_error_set(MSI_EOUTPUT, "%s: cannot be written: %s", name, strerror(errno));
    return MSI_OK;
}
