/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Restoring without a Measurement Set:
 *
 *   1. The residual is read plane by plane. Its pixels must run to the west and to the north.
 *   2. The beam is the given one, or the one of the residual's header.
 *   3. -restore convolves the model image with the beam, on the CPU or the GPU, and adds it to the residual.
 *      -restore-list reads a list of sources instead, and draws each convolved with the beam.
 *   4. The result has the header of the residual.
 */
#include "src/run/restore.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/image.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/fits_image.h"
#include "io/fits/sky_wcs.h"
#include "kernels/cleaner.h"
#include "kernels/strategy.h"

enum { MOST_TERMS = 16 };

/* A point, or a gaussian. */
typedef struct sky_source {
    double ra_rad, dec_rad;
    double flux_jy; /* at reference_hz */
    int n_term, is_logarithmic;
    double term[MOST_TERMS]; /* [n_term] a_1 ..: of flux 10^(a_1 x + a_2 x^2 ..), x = log10(frequency / reference),
                                   or of flux + a_1 x + a_2 x^2 .., x = frequency / reference - 1 */
    double reference_hz;
    msi_beam shape; /* unknown: the source is a point */
} sky_source;

typedef struct sky_list {
    sky_source *source; /* [n] owned */
    int64_t n, capacity;
} sky_list;

/* The image that sources are drawn on. */
typedef struct sky_canvas {
    msi_image_geometry geometry; /* columns run to the west, rows to the north */
    const msi_sky_wcs *wcs;
    double freq_hz, bandwidth_hz; /* 0: unknown */
    float *pixel;                 /* [ny][nx] added to */
} sky_canvas;

/* ---- Reading a list of sources, in WSClean's format ---- */

enum { MAX_COLUMNS = 64, MAX_FALLBACK = 256 };

typedef enum column {
    OTHER,
    NAME,
    FRAME,
    TYPE,
    RA,
    DEC,
    FLUX,
    TERMS,
    LOGARITHMIC,
    REFERENCE,
    MAJOR,
    MINOR,
    ORIENTATION,
    TERM /* SpectralIndex:0, and following numbers */
} column;

/* The state of reading a list. */
typedef struct reading {
    const char *path;
    int64_t line;
    int n_column;
    column column[MAX_COLUMNS];
    int term[MAX_COLUMNS];             /* the number of a column TERM */
    const char *fallback[MAX_COLUMNS]; /* the value of empty fields; NULL: none */
    char *format;                      /* owned: the line of these */
    int has_name;
} reading;

static int line_error(const reading *r, const char *why, const char *text)
{
    return msi_error_set(MSI_EINPUT, "%s, line %lld: %s \"%.60s\"", r->path, (long long)r->line, why, text);
}

static char *trim(char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    for (size_t n = strlen(text); n && strchr(" \t\r\n", text[n - 1]); n--) text[n - 1] = 0;
    return text;
}

/* Return the next field, up to a comma that is not in brackets or quotes; NULL after the last one. */
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
    return *text && !*trim(end) && isfinite(*value) ? MSI_OK : line_error(r, "not a number:", text);
}

/* Return the default value after a column's name in the first line, such as '1.4e9'; NULL if there is none. */
static char *default_value(char *name)
{
    char *value = strchr(name, '=');
    if (!value) return NULL;
    *value++ = 0;
    if (!*trim(value)) return NULL;
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
    return *value || strcasecmp(text, "false") == 0 ? MSI_OK : line_error(r, "neither true nor false:", text);
}

static int read_column(reading *r, char *field)
{
    static const char *const names[] = {[NAME] = "Name",
                                        [FRAME] = "RefType",
                                        [TYPE] = "Type",
                                        [RA] = "Ra",
                                        [DEC] = "Dec",
                                        [FLUX] = "I",
                                        [TERMS] = "SpectralIndex",
                                        [LOGARITHMIC] = "LogarithmicSI",
                                        [REFERENCE] = "ReferenceFrequency",
                                        [MAJOR] = "MajorAxis",
                                        [MINOR] = "MinorAxis",
                                        [ORIENTATION] = "Orientation"};
    static const char *const other[][2] = {{"Major", "MajorAxis"},
                                           {"Minor", "MinorAxis"},
                                           {"Phi", "Orientation"},
                                           {"SpectralIndexDegree", "SpectralIndex"}};
    const char *value = default_value(field), *name = trim(field);
    const int k = r->n_column;
    column c = OTHER;
    if (k == MAX_COLUMNS) return line_error(r, "too many columns, from", name);
    for (int i = NAME; i <= ORIENTATION; i++)
        if (strcasecmp(name, names[i]) == 0) c = (column)i;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strcasecmp(name, other[i][0]) == 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s, line %lld: the column %s is not known; name it %s, as makesourcedb does", r->path,
                                 (long long)r->line, name, other[i][1]);
    if (strncasecmp(name, "SpectralIndex:", 14) == 0) {
        char *end;
        const long term = strtol(name + 14, &end, 10);
        if (end == name + 14 || *end || term < 0 || term >= MOST_TERMS)
            return line_error(r, "not a column of a spectral term:", name);
        c = TERM;
        r->term[k] = (int)term;
    }
    if (value && strlen(value) >= MAX_FALLBACK) return line_error(r, "the default is too long:", value);
    if (value && strncasecmp(value, "fixed", 5) == 0) return line_error(r, "fixed values are not supported:", name);
    r->has_name |= c == NAME;
    r->fallback[k] = value;
    r->column[r->n_column++] = c;
    return MSI_OK;
}

/* Find the columns in the first line, "Format = .." of WSClean or "# (..) = format" of makesourcedb; NULL if it is
 * neither. */
static char *find_columns(char *line)
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
    MSI_TRY(msi_alloc(&r->format, (int64_t)strlen(line) + 1, 1, "a list of sources"));
    char *rest = find_columns(strcpy(r->format, line));
    if (!rest) return line_error(r, "a list of sources must begin with Format =, not with", line);
    for (char *field; (field = next_field(&rest));) MSI_TRY(read_column(r, field));
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        int has = 0;
        for (int k = 0; k < r->n_column; k++) has |= r->column[k] == needed[i];
        if (!has) return line_error(r, "the format must have Type, Ra, Dec and I:", line);
    }
    return MSI_OK;
}

static int read_terms(const reading *r, sky_source *s, char *text)
{
    const size_t n = strlen(text);
    if (text[0] != '[') {
        s->n_term = 1;
        return read_number(r, text, &s->term[0]);
    }
    if (n < 2 || text[n - 1] != ']') return line_error(r, "the bracket is not closed:", text);
    text[n - 1] = 0;
    char *rest = *trim(text + 1) ? text + 1 : NULL;
    for (char *field; (field = next_field(&rest));) {
        if (s->n_term == MOST_TERMS) return line_error(r, "more than 16 terms, from", field);
        MSI_TRY(read_number(r, field, &s->term[s->n_term++]));
    }
    return MSI_OK;
}

static int read_width(const reading *r, const char *text, double *rad)
{
    MSI_TRY(read_number(r, text, rad));
    *rad *= MSI_PI / 648000;
    return *rad >= 0 && *rad <= MSI_PI ? MSI_OK : line_error(r, "a width must be 0 to 180 degrees:", text);
}

static int read_value(const reading *r, int k, char *text, sky_source *s)
{
    const column c = r->column[k];
    /* Fields after the flux may be empty. */
    if (c == OTHER || c == NAME || c == TYPE || (!*text && (c > FLUX || c == FRAME))) return MSI_OK;
    switch (c) {
    case FRAME:
        return strcasecmp(text, "J2000") == 0 ? MSI_OK : line_error(r, "the frame must be J2000, not", text);
    case TERM:
        if (s->n_term <= r->term[k]) s->n_term = r->term[k] + 1;
        return read_number(r, text, &s->term[r->term[k]]);
    case RA:
        return msi_parse_ra(&s->ra_rad, "Ra", text) ? line_error(r, "not a right ascension:", text) : MSI_OK;
    case DEC:
        return msi_parse_dec(&s->dec_rad, "Dec", text) ? line_error(r, "not a declination:", text) : MSI_OK;
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

/* Read the fields of a line by makesourcedb's rules: an empty field has the default of the format, a source without a
 * type is a point, and a line without a name is a patch. Returned: *type  "" for a patch */
static int read_source(const reading *r, char *line, sky_source *s, const char **type)
{
    char *rest = line, *field[MAX_COLUMNS], none[] = "";
    int n = 0, has_name = !r->has_name;
    *s = (sky_source){.is_logarithmic = 1, .shape = {NAN, NAN, 0}};
    *type = "";
    for (; n < r->n_column && rest; n++) field[n] = next_field(&rest);
    for (int k = 0; k < n; k++) {
        if (r->column[k] == NAME) has_name = *field[k] != 0;
        if (r->column[k] == TYPE) *type = field[k];
    }
    if (strcasecmp(*type, "patch") == 0 || !has_name || (!r->has_name && !**type)) {
        *type = "";
        return MSI_OK;
    }
    for (int k = 0; k < r->n_column; k++) {
        /* Reading changes the text. */
        char value[MAX_FALLBACK] = "";
        if (k >= n || !*field[k]) snprintf(value, sizeof value, "%s", r->fallback[k] ? r->fallback[k] : none);
        if (r->column[k] == TYPE && !**type) *type = r->fallback[k] && *r->fallback[k] ? r->fallback[k] : "point";
        MSI_TRY(read_value(r, k, k < n && *field[k] ? field[k] : value, s));
    }
    return MSI_OK;
}

static int check_source(const reading *r, sky_source *s, const char *type)
{
    if (strcasecmp(type, "point") == 0)
        s->shape = (msi_beam){0};
    else if (strcasecmp(type, "gaussian") != 0)
        return line_error(r, "the type must be POINT or GAUSSIAN, not", type);
    else if (isnan(s->shape.major_rad) || isnan(s->shape.minor_rad))
        return line_error(r, "MajorAxis or MinorAxis is missing; the source is a", type);
    if (s->n_term && !(s->reference_hz > 0))
        return line_error(r, "spectral terms need a reference frequency; the source is a", type);
    return MSI_OK;
}

static int add_source(sky_list *list, const sky_source *s)
{
    if (list->n == list->capacity) {
        const int64_t capacity = list->capacity ? 2 * list->capacity : 256;
        MSI_TRY(msi_grow(&list->source, list->n, capacity, sizeof *list->source, "a list of sources"));
        list->capacity = capacity;
    }
    list->source[list->n++] = *s;
    return MSI_OK;
}

static int read_lines(sky_list *list, reading *r, FILE *f, char **line, size_t *size)
{
    while (getline(line, size, f) > 0) {
        sky_source s;
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
    if (!r->n_column)
        return msi_error_set(MSI_EINPUT, "%s: not a list of sources: the line Format = .. is missing", r->path);
    return MSI_OK;
}

/* sky_list_free - leave it empty. */
static void sky_list_free(sky_list *list)
{
    msi_free(list->source);
    *list = (sky_list){0};
}

/*
 * sky_list_read - read a list: a line "Format = .." or "# (..) = format", whose columns may stand in any order, and
 * a line for each source. Columns that are not known are left aside, and so are empty lines, comments and patches.
 * Returned: *list  emptied by sky_list_free; empty on failure
 * Returns:  0, MSI_EINPUT (with the line's number), MSI_ENOMEM
 */
static int sky_list_read(sky_list *list, const char *path)
{
    reading r = {.path = path};
    char *line = NULL;
    size_t size = 0;
    *list = (sky_list){0};
    FILE *f = fopen(path, "re");
    if (!f) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    const int rc = read_lines(list, &r, f, &line, &size);
    free(line);
    fclose(f);
    msi_free(r.format);
    if (!rc && !list->n) msi_log_warning("%s: the list has no sources", path);
    if (rc) sky_list_free(list);
    return rc;
}

/* ---- Drawing a list of sources, convolved with the beam ---- */

static double flux_at(const sky_source *s, double freq_hz)
{
    const double x = s->is_logarithmic ? log10(freq_hz / s->reference_hz) : freq_hz / s->reference_hz - 1;
    double sum = 0;
    for (int k = s->n_term; k-- > 0;) sum = (sum + s->term[k]) * x;
    return s->is_logarithmic ? s->flux_jy * pow(10, sum) : s->flux_jy + sum;
}

/* Return the mean flux over a band, in Jy; if freq_hz is 0, the flux at the source's reference frequency. */
static double mean_flux(const sky_source *s, double freq_hz, double bandwidth_hz)
{
    /* Gauss's quadrature of three nodes is exact for polynomials up to the fifth power. */
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

/* Extent of a gaussian in standard deviations: there it is e^-36, less than the rounding of floats. */
static const double REACH = 8.5;

static void draw_gaussian(double *image, const msi_image_geometry *g, const double at[2], const covariance *c,
                          double peak)
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

/* The sum of a million sources of this flux is finite in single precision. */
static const double MOST_JY = 1e30;

static int draw_all(const sky_list *list, const msi_beam *beam, const sky_canvas *canvas, double *image,
                    int64_t *n_outside)
{
    const msi_image_geometry *g = &canvas->geometry;
    const covariance of_beam = covariance_of(beam);
    *n_outside = 0;
    for (int64_t i = 0; i < list->n; i++) {
        const sky_source *s = &list->source[i];
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
        draw_gaussian(image, g, at, &seen, flux * sqrt(determinant(&of_beam) / determinant(&seen)));
    }
    return MSI_OK;
}

/*
 * sky_list_draw - add sources to an image in Jy/beam at their exact positions, also between pixels: gaussians
 * convolved with the beam, a point of 1 Jy with a peak of 1.
 * Given:    beam  known
 * Returned: *n_outside  sources that are outside the image
 * Returns:  0, MSI_EINPUT (a spectrum without a finite flux), MSI_ENOMEM, MSI_EINTERRUPTED
 */
static int sky_list_draw(const sky_list *list, const msi_beam *beam, const sky_canvas *canvas, int64_t *n_outside)
{
    const int64_t n = msi_image_n_pixel(&canvas->geometry);
    double *image;
    MSI_TRY(msi_alloc(&image, n, sizeof *image, "an image of sources"));
    const int rc = draw_all(list, beam, canvas, image, n_outside);
    for (int64_t i = 0; !rc && i < n; i++) canvas->pixel[i] = (float)((double)canvas->pixel[i] + image[i]);
    msi_free(image);
    return rc;
}

/* The state of a restoring run. */
typedef struct restoring {
    const msi_options *options;
    const msi_restore_options *files;
    sky_list list;
    msi_beam beam;
    msi_image_geometry geometry; /* of a plane of the residual */
    int64_t n_plane;
    float *pixel;              /* [n_plane][ny][nx] */
    msi_planes *image, *model; /* of one plane, on the CPU or the GPU; NULL for a list */
} restoring;

/* ---- Checks of the images ---- */

/* Find the pixel sizes of the residual, at the reference pixel. Columns must run to the west, rows to the north. */
static int find_pixels(const char *path, const msi_fits_view *v, msi_image_geometry *g)
{
    const double rad = MSI_PI / 180, at[2] = {v->crpix[0] - 1, v->crpix[1] - 1};
    double here[2], x[2], y[2];
    const double along_x[2] = {at[0] + 1, at[1]}, along_y[2] = {at[0], at[1] + 1};
    *g = (msi_image_geometry){.nx = v->nx, .ny = v->ny};
    if (!v->wcs)
        return msi_error_set(MSI_EINPUT, "%s: the first two axes, %s and %s, are not sky coordinates", path,
                             v->ctype[0], v->ctype[1]);
    if (!msi_sky_wcs_pixel_to_sky(v->wcs, at, here) || !msi_sky_wcs_pixel_to_sky(v->wcs, along_x, x) ||
        !msi_sky_wcs_pixel_to_sky(v->wcs, along_y, y))
        return msi_error_set(MSI_EINPUT, "%s: the reference pixel is not on the sky", path);
    const double cosine = cos(here[1] * rad);
    const double x_east = remainder(x[0] - here[0], 360) * cosine, y_east = remainder(y[0] - here[0], 360) * cosine;
    const double x_north = x[1] - here[1], y_north = y[1] - here[1];
    if (!(x_east < 0 && y_north > 0 && fabs(x_north) < 1e-3 * -x_east && fabs(y_east) < 1e-3 * y_north))
        return msi_error_set(MSI_EINPUT, "%s: columns must run to the west and rows to the north", path);
    g->cell_x_rad = -x_east * rad;
    g->cell_y_rad = y_north * rad;
    return MSI_OK;
}

/* Find the largest distance on the sky between equal pixels of two images, in pixels; infinite if only one of them is
 * on the sky. */
static double largest_distance(const msi_fits_view *a, const msi_fits_view *b, const msi_image_geometry *g)
{
    double most = 0;
    for (int i = 0; i < 9; i++) {
        const double at[2] = {(double)((i % 3) * (g->nx - 1)) / 2, (double)((i / 3) * (g->ny - 1)) / 2};
        double p[2], q[2];
        const int here = msi_sky_wcs_pixel_to_sky(a->wcs, at, p), there = msi_sky_wcs_pixel_to_sky(b->wcs, at, q);
        if (here != there) return INFINITY;
        if (!here) continue;
        const double east = remainder(p[0] - q[0], 360) * cos(p[1] * MSI_PI / 180), north = p[1] - q[1];
        most = fmax(most, hypot(east, north) * MSI_PI / 180 / g->cell_y_rad);
    }
    return most;
}

static int is_unit(const char *unit, const char *of)
{
    return !*unit || strcasecmp(unit, of) == 0;
}

/* Check that the model matches the residual. */
static int check_model(const restoring *k, const msi_fits_view *residual, const msi_fits_view *model)
{
    const char *path = k->files->model;
    const msi_image_geometry *g = &k->geometry;
    if (model->nx != g->nx || model->ny != g->ny || model->n_plane != k->n_plane)
        return msi_error_set(MSI_EINPUT,
                             "%s: %lld x %lld pixels in %lld plane%s, but the residual has %lld x %lld in %lld", path,
                             (long long)model->nx, (long long)model->ny, (long long)model->n_plane,
                             msi_plural(model->n_plane), (long long)g->nx, (long long)g->ny, (long long)k->n_plane);
    if (!is_unit(model->unit, "Jy/pixel"))
        return msi_error_set(MSI_EINPUT, "%s: the unit is %s, but a model must be in Jy/pixel", path, model->unit);
    if (!model->wcs || !(largest_distance(residual, model, g) < 0.01))
        return msi_error_set(MSI_EINPUT,
                             "%s: its pixels are not at the same positions on the sky as those of the residual", path);
    if (residual->freq_hz > 0 && model->freq_hz > 0 && fabs(residual->freq_hz / model->freq_hz - 1) > 1e-6)
        return msi_error_set(MSI_EINPUT, "%s: the frequency is %.9g MHz, but the residual has %.9g MHz", path,
                             1e-6 * model->freq_hz, 1e-6 * residual->freq_hz);
    if (residual->has_pol && model->has_pol && residual->pol != model->pol)
        return msi_error_set(MSI_EINPUT, "%s: its polarisation differs from that of the residual", path);
    return MSI_OK;
}

/* Refuse a model with pixels that are not finite, except where the residual has no value either. A model that is NaN
 * everywhere is that of a channel without samples. */
static int check_values(const restoring *k, const msi_fits_view *residual, const msi_fits_view *model)
{
    const int64_t n = k->geometry.nx * k->geometry.ny;
    int64_t n_nan = 0;
    for (int64_t i = 0; i < n; i++) n_nan += isnan(model->pixel[i]);
    for (int64_t i = 0; i < n && n_nan < n; i++)
        if (!isfinite(model->pixel[i]) && !isnan(residual->pixel[i]))
            return msi_error_set(MSI_EINPUT, "%s: pixel (%lld, %lld) is not finite, so its flux is unknown; correct it",
                                 k->files->model, (long long)(i % k->geometry.nx) + 1,
                                 (long long)(i / k->geometry.nx) + 1);
    return MSI_OK;
}

static int choose_beam(restoring *k, const msi_fits_view *residual)
{
    const msi_beam *given = &k->options->clean.beam.given;
    const msi_image_geometry *g = &k->geometry;
    const double arcsec = 648000 / MSI_PI;
    k->beam = msi_beam_known(given) ? *given : residual->beam;
    if (!msi_beam_known(&k->beam))
        return msi_error_set(MSI_EINPUT, "%s: the header has no beam (BMAJ, BMIN, BPA); give -beam-shape",
                             k->files->residual);
    if (k->beam.major_rad > fmax((double)g->nx * g->cell_x_rad, (double)g->ny * g->cell_y_rad))
        return msi_error_set(MSI_EINPUT, "%s: the beam of %.4g arcsec is wider than the image", k->files->residual,
                             k->beam.major_rad * arcsec);
    msi_log_info("beam: %.4g x %.4g arcsec, position angle %.1f deg, %s", k->beam.major_rad * arcsec,
                 k->beam.minor_rad * arcsec, k->beam.pa_rad * 180 / MSI_PI,
                 msi_beam_known(given) ? "as given" : "of the residual's header");
    return MSI_OK;
}

/* ---- Planes ---- */

/* Return the backend of -backend; with auto, a GPU if there is one. */
static msi_backend choose_backend(const msi_options *o)
{
    if (o->backend != MSI_BACKEND_AUTO) return o->backend;
    for (const msi_strategy *s = NULL; (s = msi_strategy_next(s, NULL, NULL, 0));)
        if (s->backend == MSI_BACKEND_CUDA && msi_strategy_available(s)) return MSI_BACKEND_CUDA;
    return MSI_BACKEND_CPU;
}

static int make_planes(restoring *k)
{
    const msi_planes_shape shape = {.nx = k->geometry.nx,
                                    .ny = k->geometry.ny,
                                    .n = 1,
                                    .precision = MSI_FP32,
                                    .backend = choose_backend(k->options)};
    MSI_TRY(msi_planes_create(&k->image, &shape));
    return msi_planes_create(&k->model, &shape);
}

static int restore_image(restoring *k, const msi_fits_view *residual, float *pixel)
{
    const msi_restore_spec spec = {.beam = k->beam,
                                   .cell_x_rad = k->geometry.cell_x_rad,
                                   .cell_y_rad = k->geometry.cell_y_rad,
                                   .n = 1,
                                   .n_thread = k->options->n_threads};
    msi_fits_view model;
    MSI_TRY(msi_fits_view_read(&model, k->files->model, residual->n_plane > 1 ? residual->plane : 0));
    int rc = check_model(k, residual, &model);
    if (!rc) rc = check_values(k, residual, &model);
    if (rc || k->options->dry_run) {
        msi_fits_view_free(&model);
        return rc;
    }
    rc = msi_planes_upload(k->model, 0, 1, model.pixel);
    msi_fits_view_free(&model);
    if (!rc) rc = msi_planes_upload(k->image, 0, 1, residual->pixel);
    if (!rc) rc = msi_restore(k->image, k->image, k->model, &spec);
    return rc ? rc : msi_planes_fetch(k->image, 0, 1, pixel);
}

static int restore_list(restoring *k, const msi_fits_view *residual, float *pixel)
{
    const sky_canvas canvas = {k->geometry, residual->wcs, residual->freq_hz, residual->bandwidth_hz, pixel};
    int64_t n_outside;
    if (residual->has_pol && residual->pol != MSI_POL_I)
        return msi_error_set(MSI_EINPUT, "%s: a list of sources has Stokes I, but the residual is another polarisation",
                             k->files->residual);
    if (k->options->dry_run) return MSI_OK;
    memcpy(pixel, residual->pixel, (size_t)(k->geometry.nx * k->geometry.ny) * sizeof *pixel);
    MSI_TRY(sky_list_draw(&k->list, &k->beam, &canvas, &n_outside));
    if (n_outside)
        msi_log_warning("%s: %lld of %lld source%s are outside the image", k->files->model, (long long)n_outside,
                        (long long)k->list.n, msi_plural(k->list.n));
    return MSI_OK;
}

static int begin_restoring(restoring *k, const msi_fits_view *residual)
{
    k->n_plane = residual->n_plane;
    MSI_TRY(find_pixels(k->files->residual, residual, &k->geometry));
    if (!is_unit(residual->unit, "Jy/beam"))
        return msi_error_set(MSI_EINPUT, "%s: the unit is %s, but a residual must be in Jy/beam", k->files->residual,
                             residual->unit);
    MSI_TRY(choose_beam(k, residual));
    if (k->options->dry_run) return MSI_OK;
    if (!k->files->is_list) MSI_TRY(make_planes(k));
    return msi_alloc(&k->pixel, k->n_plane * k->geometry.nx * k->geometry.ny, sizeof *k->pixel, "the restored image");
}

static int restore_plane(restoring *k, int64_t plane)
{
    msi_fits_view residual;
    MSI_TRY(msi_fits_view_read(&residual, k->files->residual, plane));
    int rc = plane ? MSI_OK : begin_restoring(k, &residual);
    const int64_t n = k->geometry.nx * k->geometry.ny;
    if (!rc && (residual.nx * residual.ny != n || residual.n_plane != k->n_plane))
        rc = msi_error_set(MSI_EINPUT, "%s: changed while it was read", k->files->residual);
    float *pixel = k->pixel ? k->pixel + plane * n : NULL;
    if (!rc) rc = (k->files->is_list ? restore_list : restore_image)(k, &residual, pixel);
    msi_fits_view_free(&residual);
    return rc;
}

/* ---- The run ---- */

/* The output may replace a file, but not an input. */
static int check_output(const msi_restore_options *f)
{
    const char *const read[] = {f->residual, f->model};
    struct stat out, in;
    if (stat(f->out, &out) != 0) return MSI_OK;
    for (int i = 0; i < 2; i++)
        if (stat(read[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return msi_error_set(MSI_EUSAGE, "-restore%s: %s is also an input; give the output another name",
                                 f->is_list ? "-list" : "", f->out);
    return MSI_OK;
}

static int restore_all(restoring *k, msi_publish *publish)
{
    const msi_options *o = k->options;
    if (k->files->is_list) MSI_TRY(sky_list_read(&k->list, k->files->model));
    k->n_plane = 1;
    for (int64_t plane = 0; plane < k->n_plane; plane++) MSI_TRY(restore_plane(k, plane));
    if (o->dry_run) {
        msi_log_info("would write %s: %lld x %lld pixels in %lld plane%s", k->files->out, (long long)k->geometry.nx,
                     (long long)k->geometry.ny, (long long)k->n_plane, msi_plural(k->n_plane));
        return MSI_OK;
    }
    const msi_fits_change change = {"Jy/beam", k->beam, o->command_line};
    MSI_TRY(msi_fits_write_like(publish, 0, k->files->residual, &change, k->pixel));
    MSI_TRY(msi_publish_commit(publish));
    msi_log_info("wrote %s in %.2f s", k->files->out, msi_wall_s());
    return MSI_OK;
}

int msi_run_restore(const msi_options *o)
{
    restoring k = {.options = o, .files = &o->restore};
    msi_publish *publish;
    MSI_TRY(check_output(k.files));
    MSI_TRY(msi_publish_plan(&publish, &o->restore.out, 1, o->overwrite));
    const int rc = restore_all(&k, publish);
    msi_publish_free(publish);
    msi_planes_free(k.image);
    msi_planes_free(k.model);
    sky_list_free(&k.list);
    msi_free(k.pixel);
    return rc;
}
