/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/uvfits_layout.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/convert/set_maps.h"
#include "io/ms/ms_block.h"

/* Tolerance of even spacing: the error of the last channel, in channels, if it is computed from the first one and the step. */
static const double SAME_CHANNEL = 0.01;

/* ---- Windows ---- */

static double step_of(const msi_ms_spw *w)
{
    return w->n_chan > 1 ? (w->freq_hz[w->n_chan - 1] - w->freq_hz[0]) / (w->n_chan - 1) : w->width_hz[0];
}

static int check_spacing(const msi_ms_spw *w, const char *name)
{
    const double step_hz = step_of(w);
    for (int32_t c = 1; c < w->n_chan; c++)
        if (!(fabs(w->freq_hz[0] + c * step_hz - w->freq_hz[c]) <= SAME_CHANNEL * step_hz))
            return msi_error_set(
                MSI_EINPUT,
                "%s: the channels of window %d are not evenly spaced, as UVFITS requires; select channels with "
                "-channel-range, and choose -average-channels so that it divides their number",
                name, w->spw_id);
    return MSI_OK;
}

static int check_shape(const msi_uvfits_layout *l, const msi_ms_spw *w, const char *name)
{
    const msi_ms_spw *first = l->window[0];
    const char *frame = l->reader->set[0].window[w->spw_id].frame;
    if (w->n_chan != first->n_chan || !(fabs(step_of(w) - l->step_hz) * w->n_chan <= SAME_CHANNEL * l->step_hz))
        return msi_error_set(
            MSI_EINPUT,
            "%s: UVFITS needs windows of one shape, but window %d has %d channels %.9g Hz apart and window %d has %d "
            "channels %.9g Hz apart; select windows with -spws",
            name, first->spw_id, first->n_chan, l->step_hz, w->spw_id, w->n_chan, step_of(w));
    if (strcmp(frame, l->reader->set[0].window[first->spw_id].frame) != 0)
        return msi_error_set(
            MSI_EINPUT,
            "%s: UVFITS needs frequencies in one frame, but window %d is in another; select windows with -spws", name,
            w->spw_id);
    if (w->n_corr != first->n_corr || memcmp(w->corr, first->corr, (size_t)w->n_corr * sizeof *w->corr) != 0)
        return msi_error_set(
            MSI_EINPUT,
            "%s: UVFITS needs the same correlations in all windows, but those of window %d and window %d differ; "
            "select windows with -spws",
            name, w->spw_id, first->spw_id);
    return MSI_OK;
}

static int lay_windows(msi_uvfits_layout *l, const char *name)
{
    const msi_ms_set *set = &l->reader->set[0];
    MSI_TRY(msi_alloc(&l->window, l->reader->n_spw, sizeof *l->window, "windows"));
    MSI_TRY(msi_alloc(&l->place, set->n_setup, sizeof *l->place, "windows"));
    for (int i = 0; i < set->n_setup; i++) l->place[i] = -1;
    for (int i = 0; i < l->reader->n_spw; i++) {
        const msi_ms_spw *w = &l->reader->spw[i];
        if (l->n_window == 0) l->step_hz = step_of(w);
        l->place[w->data_desc_id] = l->n_window;
        l->window[l->n_window++] = w;
        MSI_TRY(check_spacing(w, name));
        MSI_TRY(check_shape(l, w, name));
    }
    l->n_chan = l->window[0]->n_chan;
    l->n_corr = l->window[0]->n_corr;
    return MSI_OK;
}

/* ---- Correlations ---- */

static int code_of(msi_pol pol)
{
    static const int codes[] = {[MSI_POL_I] = 1,   [MSI_POL_Q] = 2,   [MSI_POL_U] = 3,   [MSI_POL_V] = 4,
                                [MSI_POL_RR] = -1, [MSI_POL_LL] = -2, [MSI_POL_RL] = -3, [MSI_POL_LR] = -4,
                                [MSI_POL_XX] = -5, [MSI_POL_YY] = -6, [MSI_POL_XY] = -7, [MSI_POL_YX] = -8};
    return codes[pol];
}

/* Put correlations in the order of their codes, which must be evenly spaced. */
static int lay_correlations(msi_uvfits_layout *l, const char *name)
{
    const msi_pol *corr = l->window[0]->corr;
    for (int i = 0; i < l->n_corr; i++) {
        int k = i;
        for (; k > 0 && abs(code_of(corr[l->order[k - 1]])) > abs(code_of(corr[i])); k--) l->order[k] = l->order[k - 1];
        l->order[k] = i;
    }
    l->stokes_first = code_of(corr[l->order[0]]);
    l->stokes_step = l->n_corr > 1 ? code_of(corr[l->order[1]]) - l->stokes_first : l->stokes_first > 0 ? 1 : -1;
    for (int i = 1; i < l->n_corr; i++)
        if (l->stokes_step == 0 || code_of(corr[l->order[i]]) != l->stokes_first + i * l->stokes_step)
            return msi_error_set(
                MSI_EINPUT,
                "%s: UVFITS needs evenly spaced correlation codes (RR LL RL LR, XX YY XY YX, I Q U V); these are "
                "not",
                name);
    return MSI_OK;
}

/* ---- Frames ---- */

static int check_frames(const msi_uvfits_layout *l, const char *name)
{
    static const char *const frames[] = {"J2000", "ICRS", "FK5", "B1950"};
    const msi_ms_set *set = &l->reader->set[0];
    const char *scale = l->reader->observation.time_scale;
    for (int i = 0; i < set->n_field; i++) {
        size_t k = 0;
        while (k < sizeof frames / sizeof *frames && strcmp(set->field[i].frame, frames[k]) != 0) k++;
        if (k == sizeof frames / sizeof *frames || strcmp(set->field[i].frame, set->field[0].frame) != 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s: UVFITS needs phase centres in one frame, J2000 or B1950, but field %d is in %s",
                                 name, i, set->field[i].frame);
    }
    static const char *const scales[] = {"UTC", "UT1", "TAI", "IAT"};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (strcmp(scale, scales[i]) == 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: UVFITS needs times in UTC, UT1 or TAI, but these are in %s", name, scale);
}

/* Find UTC - UT1 for times in UT1. Over a day it changes by a few milliseconds. */
static int find_utc(msi_uvfits_layout *l, const char *name)
{
    const msi_observation *o = &l->reader->observation;
    double utc_s = o->start_mjd_s;
    if (strcmp(o->time_scale, "UT1") != 0) return MSI_OK;
    MSI_TRY(msi_set_read(ccc_epoch_convert("UT1", "UTC", &utc_s)));
    l->utc_offset_s = utc_s - o->start_mjd_s;
    if (l->utc_offset_s != 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s: times are in UT1, but casacore's tables do not have UT1 - UTC of this date; update them "
                         "(package casacore-data, or the directory that measures.directory of ~/.casarc names)",
                         name);
}

int msi_uvfits_layout_make(msi_uvfits_layout *l, const msi_ms_reader *reader, const char *name)
{
    *l = (msi_uvfits_layout){.reader = reader};
    l->n_antenna = (int32_t)reader->set[0].n_antenna;
    l->n_field = reader->set[0].n_field;
    MSI_TRY(find_utc(l, name));
    l->day_mjd = floor((reader->observation.start_mjd_s + l->utc_offset_s) / 86400);
    MSI_TRY(lay_windows(l, name));
    MSI_TRY(lay_correlations(l, name));
    return check_frames(l, name);
}

int msi_uvfits_needs_antenna_columns(const msi_uvfits_layout *l)
{
    return l->n_antenna > 255;
}

int msi_uvfits_n_parameter(const msi_uvfits_layout *l)
{
    /* u v w, two dates, antennas, FREQSEL, INTTIM, SOURCE */
    return 7 + (msi_uvfits_needs_antenna_columns(l) ? 3 : 1) + (l->n_field > 1);
}

int64_t msi_uvfits_group_bytes(const msi_uvfits_layout *l)
{
    return 4 * (msi_uvfits_n_parameter(l) + 3 * (int64_t)l->n_corr * l->n_chan * l->n_window);
}

void msi_uvfits_layout_free(msi_uvfits_layout *l)
{
    msi_free(l->window);
    msi_free(l->place);
    *l = (msi_uvfits_layout){0};
}

/* ---- Cards ---- */

enum { CARD = 80, BLOCK = 2880 };

typedef struct cards {
    FILE *file;
    int64_t n;
} cards;

/* Add a card. It is cut after 80 characters; characters that FITS does not allow become question marks. */
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
    enum { VALUE_BYTES = CARD - 8 };
    for (size_t left = strlen(text); left > 0;) {
        const size_t n = left < VALUE_BYTES ? left : VALUE_BYTES;
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
    if (msi_uvfits_needs_antenna_columns(l)) {
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
