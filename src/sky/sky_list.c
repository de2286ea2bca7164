/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/sky_list.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/interrupt.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"

/* ---- Reading ---- */

enum { MAX_COLUMNS = 64 };

typedef enum column { OTHER, TYPE, RA, DEC, FLUX, TERMS, LOGARITHMIC, REFERENCE, MAJOR, MINOR, ORIENTATION } column;

/* A list that is read line by line. */
typedef struct reading {
    const char *path;
    int64_t line;
    int n_column;
    column column[MAX_COLUMNS];
    double reference_hz; /* of sources that have none; 0: not given */
    int is_logarithmic;  /* of sources that do not say */
} reading;

static int wrong(const reading *r, const char *why, const char *text)
{
    return msi_error_set(MSI_EINPUT, "%s, line %lld: %s \"%.60s\"", r->path, (long long)r->line, why, text);
}

static char *trim(char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    for (size_t n = strlen(text); n && strchr(" \t\r\n", text[n - 1]); n--) text[n - 1] = 0;
    return text;
}

/* Cut a field off at its comma; none counts within brackets or quotes. NULL: there is no more. */
static char *next_field(char **rest)
{
    char *field = *rest;
    int depth = 0, quoted = 0;
    if (!field) return NULL;
    for (char *p = field;; p++) {
        if (*p == '\'' || *p == '"') quoted = !quoted;
        if (!quoted) depth += (*p == '[') - (*p == ']');
        if (*p && (*p != ',' || depth > 0 || quoted)) continue;
        *rest = *p ? p + 1 : NULL;
        *p = 0;
        return trim(field);
    }
}

static int read_number(const reading *r, const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return *text && !*trim(end) && isfinite(*value) ? MSI_OK : wrong(r, "no number", text);
}

/* Read the value behind a column's name in the first line, such as '1.4e9'; NULL where there is none. */
static char *default_of(char *name)
{
    char *value = strchr(name, '=');
    if (!value) return NULL;
    *value++ = 0;
    value = trim(value);
    const size_t n = strlen(value);
    if (n > 1 && strchr("'\"", *value) && value[n - 1] == *value) {
        value[n - 1] = 0;
        value++;
    }
    return value;
}

static int read_truth(const reading *r, const char *text, int *value)
{
    *value = strcasecmp(text, "true") == 0;
    return *value || strcasecmp(text, "false") == 0 ? MSI_OK : wrong(r, "neither true nor false:", text);
}

static int read_column(reading *r, char *field)
{
    static const char *const names[] = {[TYPE] = "Type",
                                        [RA] = "Ra",
                                        [DEC] = "Dec",
                                        [FLUX] = "I",
                                        [TERMS] = "SpectralIndex",
                                        [LOGARITHMIC] = "LogarithmicSI",
                                        [REFERENCE] = "ReferenceFrequency",
                                        [MAJOR] = "MajorAxis",
                                        [MINOR] = "MinorAxis",
                                        [ORIENTATION] = "Orientation"};
    const char *value = default_of(field), *name = trim(field);
    column c = OTHER;
    if (r->n_column == MAX_COLUMNS) return wrong(r, "too many columns, from", name);
    for (int k = TYPE; k <= ORIENTATION; k++)
        if (strcasecmp(name, names[k]) == 0) c = (column)k;
    r->column[r->n_column++] = c;
    if (value && c == REFERENCE) return read_number(r, value, &r->reference_hz);
    if (value && c == LOGARITHMIC) return read_truth(r, value, &r->is_logarithmic);
    return MSI_OK;
}

/* Find the columns within a first line "Format = .." of WSClean, or "# (..) = format" of makesourcedb; NULL: it is
 * neither. */
static char *columns_of(char *line)
{
    char *open = strchr(line, '('), *close = strrchr(line, ')'), *equals = strchr(line, '=');
    if (*line == '#') {
        const char *word = close ? close + 1 + strspn(close + 1, " \t=") : "";
        if (!open || !close || open > close || strcasecmp(word, "format") != 0) return NULL;
        *close = 0;
        return open + 1;
    }
    const int is_format = strncasecmp(line, "format", 6) == 0 && line + 6 + strspn(line + 6, " \t") == equals;
    return is_format ? equals + 1 : NULL;
}

static int read_format(reading *r, char *line)
{
    static const column needed[] = {TYPE, RA, DEC, FLUX};
    char *rest = columns_of(line);
    if (!rest) return wrong(r, "a list of sources begins with Format =, not with", line);
    for (char *field; (field = next_field(&rest));) MSI_TRY(read_column(r, field));
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        int has = 0;
        for (int k = 0; k < r->n_column; k++) has |= r->column[k] == needed[i];
        if (!has) return wrong(r, "the format has no Type, Ra, Dec or I:", line);
    }
    return MSI_OK;
}

static int read_terms(const reading *r, msi_sky_source *s, char *text)
{
    const size_t n = strlen(text);
    if (n < 2 || text[0] != '[' || text[n - 1] != ']') return wrong(r, "no terms in brackets:", text);
    text[n - 1] = 0;
    char *rest = *trim(text + 1) ? text + 1 : NULL;
    for (char *field; (field = next_field(&rest));) {
        if (s->n_term == MSI_SKY_TERMS) return wrong(r, "more than 16 terms:", field);
        MSI_TRY(read_number(r, field, &s->term[s->n_term++]));
    }
    return MSI_OK;
}

static int read_width(const reading *r, const char *text, double *rad)
{
    MSI_TRY(read_number(r, text, rad));
    *rad *= MSI_PI / 648000;
    return *rad >= 0 && *rad <= MSI_PI ? MSI_OK : wrong(r, "a width below zero or beyond the sky:", text);
}

static int read_value(const reading *r, column c, char *text, msi_sky_source *s)
{
    /* What follows a point's fluxes may be left empty. */
    if (c == OTHER || c == TYPE || (!*text && c > FLUX)) return MSI_OK;
    switch (c) {
    case RA:
        return msi_parse_ra(&s->ra_rad, "Ra", text) ? wrong(r, "no right ascension:", text) : MSI_OK;
    case DEC:
        return msi_parse_dec(&s->dec_rad, "Dec", text) ? wrong(r, "no declination:", text) : MSI_OK;
    case FLUX:
        return read_number(r, text, &s->flux_jy);
    case TERMS:
        return read_terms(r, s, text);
    case LOGARITHMIC:
        return read_truth(r, text, &s->is_logarithmic);
    case REFERENCE:
        return read_number(r, text, &s->reference_hz);
    case MAJOR:
        return read_width(r, text, &s->shape.major_rad);
    case MINOR:
        return read_width(r, text, &s->shape.minor_rad);
    default:
        MSI_TRY(read_number(r, text, &s->shape.pa_rad));
        s->shape.pa_rad *= MSI_PI / 180;
        return MSI_OK;
    }
}

/* Read the fields of a line; *type is "" where it is of no source, such as a patch. */
static int read_source(const reading *r, char *line, msi_sky_source *s, const char **type)
{
    char *rest = line;
    *s = (msi_sky_source){.is_logarithmic = r->is_logarithmic, .reference_hz = r->reference_hz};
    *type = "";
    char *field[MAX_COLUMNS];
    int n = 0;
    for (; n < r->n_column && rest; n++) field[n] = next_field(&rest);
    for (int k = 0; k < n; k++)
        if (r->column[k] == TYPE) *type = field[k];
    if (!**type || strcasecmp(*type, "patch") == 0) {
        *type = "";
        return MSI_OK;
    }
    for (int k = 0; k < r->n_column; k++) {
        char none[] = "";
        MSI_TRY(read_value(r, r->column[k], k < n ? field[k] : none, s));
    }
    return MSI_OK;
}

static int check_source(const reading *r, msi_sky_source *s, const char *type)
{
    if (strcasecmp(type, "point") == 0)
        s->shape = (msi_beam){0};
    else if (strcasecmp(type, "gaussian") != 0)
        return wrong(r, "neither POINT nor GAUSSIAN:", type);
    if (s->n_term && !(s->reference_hz > 0)) return wrong(r, "terms without a reference frequency, of a", type);
    return MSI_OK;
}

static int add_source(msi_sky_list *list, const msi_sky_source *s)
{
    if (list->n == list->room) {
        const int64_t room = list->room ? 2 * list->room : 256;
        MSI_TRY(msi_grow(&list->source, list->n, room, sizeof *list->source, "a list of sources"));
        list->room = room;
    }
    list->source[list->n++] = *s;
    return MSI_OK;
}

static int read_lines(msi_sky_list *list, reading *r, FILE *f, char **line, size_t *size)
{
    while (getline(line, size, f) > 0) {
        msi_sky_source s;
        const char *type;
        char *text = trim(*line);
        r->line++;
        if (!*text || (*text == '#' && (r->n_column || !strstr(text, "format")))) continue;
        if (!r->n_column) {
            MSI_TRY(read_format(r, text));
            continue;
        }
        MSI_TRY(read_source(r, text, &s, &type));
        if (!*type) continue;
        MSI_TRY(check_source(r, &s, type));
        MSI_TRY(add_source(list, &s));
    }
    if (ferror(f)) return msi_error_set(MSI_EINPUT, "%s: %s", r->path, strerror(errno));
    if (!r->n_column) return msi_error_set(MSI_EINPUT, "%s: no list of sources: there is no line Format = ..", r->path);
    return MSI_OK;
}

int msi_sky_list_read(msi_sky_list *list, const char *path)
{
    reading r = {.path = path, .is_logarithmic = 1};
    char *line = NULL;
    size_t size = 0;
    *list = (msi_sky_list){0};
    FILE *f = fopen(path, "re");
    if (!f) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    const int rc = read_lines(list, &r, f, &line, &size);
    free(line);
    fclose(f);
    if (rc) msi_sky_list_free(list);
    return rc;
}

void msi_sky_list_free(msi_sky_list *list)
{
    msi_free(list->source);
    *list = (msi_sky_list){0};
}

/* ---- Drawing ---- */

static double flux_at(const msi_sky_source *s, double freq_hz)
{
    const double x = s->is_logarithmic ? log10(freq_hz / s->reference_hz) : freq_hz / s->reference_hz - 1;
    double sum = 0;
    for (int k = s->n_term; k-- > 0;) sum = (sum + s->term[k]) * x;
    return s->is_logarithmic ? s->flux_jy * pow(10, sum) : s->flux_jy + sum;
}

/* Return the mean over a band, in Jy; freq_hz 0: at the source's own reference. */
static double mean_flux(const msi_sky_source *s, double freq_hz, double bandwidth_hz)
{
    /* Gauss's rule of three nodes: means of polynomials up to the fifth power are exact. */
    const double off = 0.5 * bandwidth_hz * sqrt(0.6);
    if (!s->n_term || !(freq_hz > 0)) return s->flux_jy;
    if (!(off > 0) || off >= freq_hz) return flux_at(s, freq_hz);
    return (5 * flux_at(s, freq_hz - off) + 8 * flux_at(s, freq_hz) + 5 * flux_at(s, freq_hz + off)) / 18;
}

/* The covariance of a gaussian, in squares of radians. */
typedef struct covariance {
    double ee, en, nn; /* east, north */
} covariance;

static covariance covariance_of(const msi_beam *b)
{
    const double s = sin(b->pa_rad), c = cos(b->pa_rad), per_fwhm = 1 / (8 * log(2));
    const double major = b->major_rad * b->major_rad * per_fwhm, minor = b->minor_rad * b->minor_rad * per_fwhm;
    return (covariance){major * s * s + minor * c * c, (major - minor) * s * c, major * c * c + minor * s * s};
}

static double determinant(const covariance *c)
{
    return c->ee * c->nn - c->en * c->en;
}

/* A gaussian falls to e^-36, less than the rounding of floats, at so many of its widths. */
static const double REACH = 8.5;

static void draw(double *image, const msi_image_geometry *g, const double at[2], const covariance *c, double peak)
{
    const double det = determinant(c), rx = REACH * sqrt(c->ee) / g->cell_x_rad,
                 ry = REACH * sqrt(c->nn) / g->cell_y_rad;
    const int64_t x0 = (int64_t)fmax(0, ceil(at[0] - rx)), x1 = (int64_t)fmin((double)g->nx - 1, floor(at[0] + rx));
    const int64_t y0 = (int64_t)fmax(0, ceil(at[1] - ry)), y1 = (int64_t)fmin((double)g->ny - 1, floor(at[1] + ry));
    for (int64_t y = y0; y <= y1; y++)
        for (int64_t x = x0; x <= x1; x++) {
            const double east = (at[0] - (double)x) * g->cell_x_rad, north = ((double)y - at[1]) * g->cell_y_rad;
            const double square = (east * east * c->nn - 2 * east * north * c->en + north * north * c->ee) / det;
            image[y * g->nx + x] += peak * exp(-0.5 * square);
        }
}

/* Sums of a million sources as bright as this are still numbers in a file of floats. */
static const double MOST_JY = 1e30;

static int draw_all(const msi_sky_list *list, const msi_beam *beam, const msi_sky_canvas *canvas, double *image,
                    int64_t *n_outside)
{
    const msi_image_geometry *g = &canvas->geometry;
    const covariance of_beam = covariance_of(beam);
    *n_outside = 0;
    for (int64_t i = 0; i < list->n; i++) {
        const msi_sky_source *s = &list->source[i];
        const covariance own = covariance_of(&s->shape);
        const covariance seen = {of_beam.ee + own.ee, of_beam.en + own.en, of_beam.nn + own.nn};
        const double deg = 180 / MSI_PI, sky[2] = {s->ra_rad * deg, s->dec_rad * deg};
        double at[2];
        if (i % 1024 == 0) MSI_TRY(msi_interrupt_check());
        if (!msi_sky_wcs_sky_to_pixel(canvas->wcs, sky, at)) {
            (*n_outside)++;
            continue;
        }
        *n_outside += at[0] < -0.5 || at[1] < -0.5 || at[0] > (double)g->nx - 0.5 || at[1] > (double)g->ny - 0.5;
        const double flux = mean_flux(s, canvas->freq_hz, canvas->bandwidth_hz);
        if (!(fabs(flux) <= MOST_JY))
            return msi_error_set(MSI_EINPUT, "source %lld of the list: its flux at %.6g MHz is %g Jy", (long long)i + 1,
                                 1e-6 * canvas->freq_hz, flux);
        draw(image, g, at, &seen, flux * sqrt(determinant(&of_beam) / determinant(&seen)));
    }
    return MSI_OK;
}

int msi_sky_list_draw(const msi_sky_list *list, const msi_beam *beam, const msi_sky_canvas *canvas, int64_t *n_outside)
{
    const int64_t n = msi_image_n_pixel(&canvas->geometry);
    double *image;
    MSI_TRY(msi_alloc(&image, n, sizeof *image, "an image of sources"));
    const int rc = draw_all(list, beam, canvas, image, n_outside);
    for (int64_t i = 0; !rc && i < n; i++) canvas->pixel[i] = (float)((double)canvas->pixel[i] + image[i]);
    msi_free(image);
    return rc;
}
