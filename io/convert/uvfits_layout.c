/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/uvfits_layout.h"

#include <errno.h>
#include <fitsio.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"
#include "io/convert/set_maps.h"
#include "io/ms/ms_block.h"

/* Tolerance of even spacing, in channels: the error of the last channel if it is computed from the first one and the
 * step. */
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

/* Sort correlations by their codes, which must be evenly spaced. */
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

/* Find UTC - UT1 for times in UT1. It changes by a few milliseconds per day. */
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
    /* u, v, w, two dates, antennas, FREQSEL, INTTIM, SOURCE */
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

/* Add a card. It is truncated to 80 characters. Characters that FITS does not allow become question marks. */
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

/* Write a value with 15 digits or more, such as a frequency. */
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

/* An axis of the groups' array. */
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

/* Return the name of a frame in the FITS standard. */
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
    /* AIPS and Miriad read the factor of the weights from this card. */
    put(&c, "HISTORY AIPS WTSCAL =  1.0");
    put_history(&c, command);
    put(&c, "END");
    while (c.n % (BLOCK / CARD)) put(&c, "%s", "");
    l->data_begin = c.n * CARD;
    if (fflush(file) != 0 || ferror(file))
        return msi_error_set(MSI_EOUTPUT, "%s: cannot be written: %s", name, strerror(errno));
    return MSI_OK;
}

/* ---- Tables ---- */

/* A table that is being written. */
typedef struct table {
    const msi_uvfits_layout *l;
    fitsfile *f;
    int status; /* status of cfitsio; after a failure, later calls do nothing */
} table;

/* A column has a name, a form (TFORM) and a unit. */
typedef struct column {
    const char *name, *form, *unit;
} column;

enum { MOST_COLUMNS = 20, FORM_BYTES = 24 };

/* Write the TFORM of a column with n values in a row. */
static const char *format_tform(char text[FORM_BYTES], int64_t n, char type)
{
    snprintf(text, FORM_BYTES, "%lld%c", (long long)n, type);
    return text;
}

static void begin_table(table *t, const char *name, int64_t n_row, const column *columns, int n)
{
    char *names[MOST_COLUMNS], *forms[MOST_COLUMNS], *units[MOST_COLUMNS];
    for (int i = 0; i < n; i++) {
        names[i] = (char *)columns[i].name;
        forms[i] = (char *)columns[i].form;
        units[i] = (char *)columns[i].unit;
    }
    fits_create_tbl(t->f, BINARY_TBL, n_row, n, names, forms, units, name, &t->status);
    int version = 1;
    fits_write_key(t->f, TINT, "EXTVER", &version, NULL, &t->status);
}

static void key_number(table *t, const char *key, double value)
{
    fits_write_key(t->f, TDOUBLE, key, &value, NULL, &t->status);
}

static void key_integer(table *t, const char *key, int value)
{
    fits_write_key(t->f, TINT, key, &value, NULL, &t->status);
}

static void key_text(table *t, const char *key, const char *value)
{
    fits_write_key(t->f, TSTRING, key, (void *)value, NULL, &t->status);
}

/* ---- Values that are read from subtables directly ---- */

/* Read a text of a subtable; "" if it does not exist. Returned: *text  freed by ccc_free. */
static const char *text_of(ccc_table *t, const char *name, int64_t row, char **text)
{
    *text = NULL;
    return ccc_get_string(t, name, row, text) == CCC_OK ? *text : "";
}

/* Return the length of the longest text of a column, at least `width`. */
static int64_t text_width(ccc_table *t, const char *name, int64_t n_row, int64_t width)
{
    for (int64_t i = 0; i < n_row; i++) {
        char *text;
        const int64_t n = (int64_t)strlen(text_of(t, name, i, &text));
        if (n > width) width = n;
        ccc_free(text);
    }
    return width;
}

static double number_of(ccc_table *t, const char *name, int64_t row)
{
    double value = 0;
    return ccc_get_range(t, name, row, 1, NULL, CCC_DOUBLE, &value, 1) == CCC_OK && isfinite(value) ? value : 0;
}

/* Return the first rest frequency of a source; 0 if it is not known. */
static double rest_frequency(ccc_table *sources, int source_id)
{
    for (int64_t i = 0; sources && i < ccc_table_n_row(sources); i++) {
        int ndim = -1;
        int64_t shape[CCC_MAX_DIM];
        int32_t id;
        double *line = NULL, first_hz;
        if (ccc_get_range(sources, "SOURCE_ID", i, 1, NULL, CCC_INT32, &id, 1) != CCC_OK || id != source_id ||
            ccc_cell_shape(sources, "REST_FREQUENCY", i, &ndim, shape) != CCC_OK || ndim != 1 || shape[0] < 1 ||
            msi_alloc(&line, shape[0], sizeof *line, "rest frequencies") != MSI_OK)
            continue;
        const int status = ccc_get_range(sources, "REST_FREQUENCY", i, 1, NULL, CCC_DOUBLE, line, shape[0]);
        first_hz = line[0];
        msi_free(line);
        if (status == CCC_OK && first_hz > 0 && isfinite(first_hz)) return first_hz;
    }
    return 0;
}

/* ---- AIPS FQ: the windows ---- */

static void write_windows(table *t)
{
    const msi_uvfits_layout *l = t->l;
    char d[FORM_BYTES], e[FORM_BYTES], j[FORM_BYTES];
    const column columns[] = {{"FRQSEL", "1J", ""},
                              {"IF FREQ", format_tform(d, l->n_window, 'D'), "HZ"},
                              {"CH WIDTH", format_tform(e, l->n_window, 'E'), "HZ"},
                              {"TOTAL BANDWIDTH", e, "HZ"},
                              {"SIDEBAND", format_tform(j, l->n_window, 'J'), ""}};
    int one = 1;
    begin_table(t, "AIPS FQ", 1, columns, (int)(sizeof columns / sizeof *columns));
    key_integer(t, "NO_IF", l->n_window);
    fits_write_col(t->f, TINT, 1, 1, 1, 1, &one, &t->status);
    for (int i = 0; i < l->n_window; i++) {
        double offset_hz = l->window[i]->freq_hz[0] - l->window[0]->freq_hz[0];
        float step_hz = (float)l->step_hz, band_hz = (float)(l->step_hz * l->n_chan);
        fits_write_col(t->f, TDOUBLE, 2, 1, i + 1, 1, &offset_hz, &t->status);
        fits_write_col(t->f, TFLOAT, 3, 1, i + 1, 1, &step_hz, &t->status);
        fits_write_col(t->f, TFLOAT, 4, 1, i + 1, 1, &band_hz, &t->status);
        fits_write_col(t->f, TINT, 5, 1, i + 1, 1, &one, &t->status);
    }
}

/* ---- AIPS AN: the antennas ---- */

static int mount_code(const char *mount)
{
    static const char *const mounts[] = {"ALT-AZ",           "EQUATORIAL",       "ORBITING", "X-Y",
                                         "ALT-AZ+NASMYTH-R", "ALT-AZ+NASMYTH-L", "BIZARRE"};
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++)
        if (strcasecmp(mount, mounts[i]) == 0) return (int)i;
    return 0;
}

/* Positions are geocentric: the centre of the array is the centre of the Earth, so that no program rotates them to the
 * array's meridian. */
static void write_antenna_keys(table *t)
{
    const msi_uvfits_layout *l = t->l;
    const msi_observation *o = &l->reader->observation;
    char date[MSI_FORMAT_SIZE];
    msi_format_date(date, l->day_mjd * 86400);
    date[10] = 0;
    key_number(t, "ARRAYX", 0);
    key_number(t, "ARRAYY", 0);
    key_number(t, "ARRAYZ", 0);
    key_number(t, "GSTIA0", 360 * msi_sidereal_turns(l->day_mjd));
    key_number(t, "DEGPDY", 360 * MSI_TURNS_PER_DAY);
    key_number(t, "FREQ", l->window[0]->freq_hz[0]);
    key_text(t, "RDATE", date);
    key_number(t, "POLARX", 0);
    key_number(t, "POLARY", 0);
    key_number(t, "UT1UTC", 0 - l->utc_offset_s);
    key_number(t, "DATUTC", 0);
    key_text(t, "TIMSYS", o->time_scale[0] == 'U' ? "UTC" : "IAT");
    key_text(t, "ARRNAM", o->telescope);
    key_text(t, "XYZHAND", "RIGHT");
    key_text(t, "FRAME", "ITRF");
    key_integer(t, "NUMORB", 0);
    key_integer(t, "NO_IF", l->n_window);
    key_integer(t, "NOPCAL", 0);
    key_text(t, "POLTYPE", "");
    key_integer(t, "FREQID", 1);
}

static void write_antenna(table *t, ccc_table *antennas, int32_t i)
{
    const msi_uvfits_layout *l = t->l;
    char *name, *mount;
    const char *text = text_of(antennas, "NAME", i, &name);
    double offset_m[3] = {0};
    if (ccc_get_range(antennas, "OFFSET", i, 1, NULL, CCC_DOUBLE, offset_m, 3) != CCC_OK) offset_m[0] = 0;
    int number = i + 1, mounted = mount_code(text_of(antennas, "MOUNT", i, &mount));
    const int is_linear = l->stokes_first <= -5;
    float axis_m = (float)offset_m[0], diameter_m = (float)number_of(antennas, "DISH_DIAMETER", i), zero = 0;
    const char *first = is_linear ? "X" : "R", *second = is_linear ? "Y" : "L";
    fits_write_col(t->f, TSTRING, 1, i + 1, 1, 1, (void *)&text, &t->status);
    fits_write_col(t->f, TDOUBLE, 2, i + 1, 1, 3, (void *)(l->reader->set[0].antenna_itrf_m + 3 * (int64_t)i),
                   &t->status);
    fits_write_col(t->f, TINT, 4, i + 1, 1, 1, &number, &t->status);
    fits_write_col(t->f, TINT, 5, i + 1, 1, 1, &mounted, &t->status);
    fits_write_col(t->f, TFLOAT, 6, i + 1, 1, 1, &axis_m, &t->status);
    fits_write_col(t->f, TFLOAT, 7, i + 1, 1, 1, &diameter_m, &t->status);
    fits_write_col(t->f, TSTRING, 8, i + 1, 1, 1, (void *)&first, &t->status);
    fits_write_col(t->f, TFLOAT, 9, i + 1, 1, 1, &zero, &t->status);
    fits_write_col(t->f, TSTRING, 11, i + 1, 1, 1, (void *)&second, &t->status);
    fits_write_col(t->f, TFLOAT, 12, i + 1, 1, 1, &zero, &t->status);
    ccc_free(name);
    ccc_free(mount);
}

static int write_antennas(table *t)
{
    ccc_table *antennas;
    MSI_TRY(msi_set_read(ccc_subtable_open(&antennas, t->l->reader->set[0].table, "ANTENNA")));
    char width[FORM_BYTES];
    format_tform(width, text_width(antennas, "NAME", t->l->n_antenna, 8), 'A');
    const column columns[] = {{"ANNAME", width, ""},        {"STABXYZ", "3D", "METERS"}, {"ORBPARM", "0D", ""},
                              {"NOSTA", "1J", ""},          {"MNTSTA", "1J", ""},        {"STAXOF", "1E", "METERS"},
                              {"DIAMETER", "1E", "METERS"}, {"POLTYA", "1A", ""},        {"POLAA", "1E", "DEGREES"},
                              {"POLCALA", "0E", ""},        {"POLTYB", "1A", ""},        {"POLAB", "1E", "DEGREES"},
                              {"POLCALB", "0E", ""}};
    begin_table(t, "AIPS AN", t->l->n_antenna, columns, (int)(sizeof columns / sizeof *columns));
    write_antenna_keys(t);
    for (int32_t i = 0; !t->status && i < t->l->n_antenna; i++) write_antenna(t, antennas, i);
    ccc_table_close(antennas);
    return MSI_OK;
}

/* ---- AIPS SU: the sources ---- */

enum {
    SU_ID = 1,
    SU_NAME,
    SU_QUALITY,
    SU_CODE,
    SU_OFFSET = 9,
    SU_BANDWIDTH,
    SU_RA,
    SU_DEC,
    SU_EPOCH,
    SU_RA_DATE,
    SU_DEC_DATE,
    SU_VELOCITY,
    SU_REST
};

static void write_source(table *t, ccc_table *fields, ccc_table *sources, int i)
{
    const msi_uvfits_layout *l = t->l;
    const msi_ms_field *field = &l->reader->set[0].field[i];
    char *name;
    const char *text = text_of(fields, "NAME", i, &name), *code = "";
    int number = i + 1, quality = 0;
    double width_hz = l->step_hz, ra_deg = field->ra_rad * 180 / MSI_PI, dec_deg = field->dec_rad * 180 / MSI_PI;
    double epoch = strcmp(field->frame, "B1950") == 0 ? 1950 : 2000, zero = 0;
    double rest_hz = rest_frequency(sources, field->source_id);
    fits_write_col(t->f, TINT, SU_ID, i + 1, 1, 1, &number, &t->status);
    fits_write_col(t->f, TSTRING, SU_NAME, i + 1, 1, 1, (void *)&text, &t->status);
    fits_write_col(t->f, TINT, SU_QUALITY, i + 1, 1, 1, &quality, &t->status);
    fits_write_col(t->f, TSTRING, SU_CODE, i + 1, 1, 1, (void *)&code, &t->status);
    fits_write_col(t->f, TDOUBLE, SU_BANDWIDTH, i + 1, 1, 1, &width_hz, &t->status);
    fits_write_col(t->f, TDOUBLE, SU_RA, i + 1, 1, 1, &ra_deg, &t->status);
    fits_write_col(t->f, TDOUBLE, SU_DEC, i + 1, 1, 1, &dec_deg, &t->status);
    fits_write_col(t->f, TDOUBLE, SU_EPOCH, i + 1, 1, 1, &epoch, &t->status);
    fits_write_col(t->f, TDOUBLE, SU_RA_DATE, i + 1, 1, 1, &ra_deg, &t->status);
    fits_write_col(t->f, TDOUBLE, SU_DEC_DATE, i + 1, 1, 1, &dec_deg, &t->status);
    for (int w = 0; w < l->n_window; w++) {
        fits_write_col(t->f, TDOUBLE, SU_OFFSET, i + 1, w + 1, 1, &zero, &t->status);
        fits_write_col(t->f, TDOUBLE, SU_VELOCITY, i + 1, w + 1, 1, &zero, &t->status);
        fits_write_col(t->f, TDOUBLE, SU_REST, i + 1, w + 1, 1, &rest_hz, &t->status);
    }
    ccc_free(name);
}

static int write_sources(table *t)
{
    ccc_table *fields, *sources = NULL, *set = t->l->reader->set[0].table;
    MSI_TRY(msi_set_read(ccc_subtable_open(&fields, set, "FIELD")));
    if (ccc_subtable_open(&sources, set, "SOURCE") != CCC_OK) sources = NULL;
    char width[FORM_BYTES], d[FORM_BYTES], e[FORM_BYTES];
    format_tform(width, text_width(fields, "NAME", t->l->n_field, 16), 'A');
    format_tform(d, t->l->n_window, 'D');
    format_tform(e, t->l->n_window, 'E');
    const column columns[] = {
        {"ID. NO.", "1J", ""},    {"SOURCE", width, ""},      {"QUAL", "1J", ""},          {"CALCODE", "4A", ""},
        {"IFLUX", e, "JY"},       {"QFLUX", e, "JY"},         {"UFLUX", e, "JY"},          {"VFLUX", e, "JY"},
        {"FREQOFF", d, "HZ"},     {"BANDWIDTH", "1D", "HZ"},  {"RAEPO", "1D", "DEGREES"},  {"DECEPO", "1D", "DEGREES"},
        {"EPOCH", "1D", "YEARS"}, {"RAAPP", "1D", "DEGREES"}, {"DECAPP", "1D", "DEGREES"}, {"LSRVEL", d, "M/SEC"},
        {"RESTFREQ", d, "HZ"},    {"PMRA", "1D", "DEG/DAY"},  {"PMDEC", "1D", "DEG/DAY"}};
    begin_table(t, "AIPS SU", t->l->n_field, columns, (int)(sizeof columns / sizeof *columns));
    key_integer(t, "NO_IF", t->l->n_window);
    key_text(t, "VELTYP", "TOPOCENT");
    key_text(t, "VELDEF", "RADIO");
    key_integer(t, "FREQID", 1);
    for (int i = 0; !t->status && i < t->l->n_field; i++) write_source(t, fields, sources, i);
    ccc_table_close(fields);
    ccc_table_close(sources);
    return MSI_OK;
}

/* cfitsio makes the tables in memory, after an unused primary header. With a file on disk it would not report that the
 * last write failed. */
int msi_uvfits_tables_make(const msi_uvfits_layout *l, const char *name, void **bytes, int64_t *n)
{
    table t = {.l = l};
    char text[FLEN_STATUS];
    size_t size = 0;
    LONGLONG begin_of_table, data, end = 0;
    *bytes = NULL;
    *n = 0;
    if (fits_create_memfile(&t.f, bytes, &size, BLOCK, realloc, &t.status))
        return msi_error_set(MSI_ENOMEM, "%s: out of memory for its tables", name);
    fits_create_img(t.f, BYTE_IMG, 0, NULL, &t.status);
    int status = write_antennas(&t);
    if (!status) write_windows(&t);
    if (!status && l->n_field > 1) status = write_sources(&t);
    fits_flush_file(t.f, &t.status);
    fits_get_hduaddrll(t.f, &begin_of_table, &data, &end, &t.status);
    int closing = 0;
    fits_close_file(t.f, &closing);
    if (!status && t.status) {
        fits_get_errstatus(t.status, text);
        status = msi_error_set(MSI_EINTERNAL, "%s: cannot make its tables: %s", name, text);
    }
    if (status) return status;
    *n = end - BLOCK;
    memmove(*bytes, (char *)*bytes + BLOCK, (size_t)*n);
    return MSI_OK;
}
