/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/sky_list.h"

#include <errno.h>
#include <fftw3.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"

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
    int term[MAX_COLUMNS];             /* index of the spectral term in a column TERM */
    const char *fallback[MAX_COLUMNS]; /* default for empty fields; NULL: none */
    char *format;                      /* owned: the format line, into which names and defaults point */
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

/* Return the default that follows a column's name in the format line, such as '1.4e9'; NULL: no default. */
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

static int read_bool(const reading *r, const char *text, int *value)
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
            return msi_error_set(MSI_EINPUT, "%s, line %lld: the column %s is not known; name it %s, like makesourcedb",
                                 r->path, (long long)r->line, name, other[i][1]);
    if (strncasecmp(name, "SpectralIndex:", 14) == 0) {
        char *end;
        const long term = strtol(name + 14, &end, 10);
        if (end == name + 14 || *end || term < 0 || term >= MSI_SKY_MAX_TERMS)
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

/* Return the list of columns in a format line, "Format = .." of WSClean or "# (..) = format" of makesourcedb; NULL: it
 * is not a format line. */
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

static int read_terms(const reading *r, msi_sky_source *s, char *text)
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
        if (s->n_term == MSI_SKY_MAX_TERMS) return line_error(r, "more than 16 terms, from", field);
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

static int read_value(const reading *r, int k, char *text, msi_sky_source *s)
{
    const column c = r->column[k];
    /* Only Ra, Dec and I must have a value. */
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
        return read_bool(r, text, &s->is_logarithmic);
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
static int read_source(const reading *r, char *line, msi_sky_source *s, const char **type)
{
    char *rest = line, *field[MAX_COLUMNS], none[] = "";
    int n = 0, has_name = !r->has_name;
    *s = (msi_sky_source){.is_logarithmic = 1, .shape = {NAN, NAN, 0}};
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
        /* read_value changes its text, so it gets a copy of the default. */
        char value[MAX_FALLBACK] = "";
        if (k >= n || !*field[k]) snprintf(value, sizeof value, "%s", r->fallback[k] ? r->fallback[k] : none);
        if (r->column[k] == TYPE && !**type) *type = r->fallback[k] && *r->fallback[k] ? r->fallback[k] : "point";
        MSI_TRY(read_value(r, k, k < n && *field[k] ? field[k] : value, s));
    }
    return MSI_OK;
}

static int check_source(const reading *r, msi_sky_source *s, const char *type)
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

static int add_source(msi_sky_list *list, const msi_sky_source *s)
{
    if (list->n == list->capacity) {
        const int64_t capacity = list->capacity ? 2 * list->capacity : 256;
        MSI_TRY(msi_grow(&list->source, list->n, capacity, sizeof *list->source, "a list of sources"));
        list->capacity = capacity;
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
    if (!r->n_column)
        return msi_error_set(MSI_EINPUT, "%s: not a list of sources: the line Format = .. is missing", r->path);
    return MSI_OK;
}

void msi_sky_list_free(msi_sky_list *list)
{
    msi_free(list->source);
    *list = (msi_sky_list){0};
}

int msi_sky_list_read(msi_sky_list *list, const char *path)
{
    reading r = {.path = path};
    char *line = NULL;
    size_t size = 0;
    *list = (msi_sky_list){0};
    FILE *f;
    MSI_TRY(msi_text_file_open(&f, path));
    const int rc = read_lines(list, &r, f, &line, &size);
    free(line);
    fclose(f);
    msi_free(r.format);
    if (!rc && !list->n) msi_log_warning("%s: the list has no sources", path);
    if (rc) msi_sky_list_free(list);
    return rc;
}

double msi_sky_source_flux(const msi_sky_source *s, double freq_hz)
{
    const double x = s->is_logarithmic ? log10(freq_hz / s->reference_hz) : freq_hz / s->reference_hz - 1;
    double sum = 0;
    for (int k = s->n_term; k-- > 0;) sum = (sum + s->term[k]) * x;
    return s->is_logarithmic ? s->flux_jy * pow(10, sum) : s->flux_jy + sum;
}

/* ---- Images of sources ---- */

msi_covariance msi_covariance_of(const msi_beam *b)
{
    const double s = sin(b->pa_rad), c = cos(b->pa_rad), per_fwhm = 1 / (8 * log(2));
    const double major = b->major_rad * b->major_rad * per_fwhm, minor = b->minor_rad * b->minor_rad * per_fwhm;
    return (msi_covariance){major * s * s + minor * c * c, (major - minor) * s * c, major * c * c + minor * s * s};
}

double msi_covariance_determinant(const msi_covariance *c)
{
    return c->ee * c->nn - c->en * c->en;
}

/* A gaussian is drawn up to this many standard deviations, where it is e^-36. */
static const double REACH = 8.5;

void msi_draw_gaussian(double *image, const msi_image_geometry *g, const double at[2], const msi_covariance *c,
                       double peak)
{
    const double det = msi_covariance_determinant(c), rx = REACH * sqrt(c->ee) / g->cell_x_rad,
                 ry = REACH * sqrt(c->nn) / g->cell_y_rad;
    const int64_t x0 = (int64_t)fmax(0, ceil(at[0] - rx)), x1 = (int64_t)fmin((double)g->nx - 1, floor(at[0] + rx));
    const int64_t y0 = (int64_t)fmax(0, ceil(at[1] - ry)), y1 = (int64_t)fmin((double)g->ny - 1, floor(at[1] + ry));
#pragma omp parallel for
    for (int64_t y = y0; y <= y1; y++)
        for (int64_t x = x0; x <= x1; x++) {
            const double east = (at[0] - (double)x) * g->cell_x_rad, north = ((double)y - at[1]) * g->cell_y_rad;
            const double square = (east * east * c->nn - 2 * east * north * c->en + north * north * c->ee) / det;
            image[y * g->nx + x] += peak * exp(-0.5 * square);
        }
}

int msi_sky_place(double at[2], int64_t *n_outside, const msi_sky_source *s, const msi_sky_wcs *wcs,
                  const msi_image_geometry *g)
{
    const double deg = 180 / MSI_PI, sky[2] = {s->ra_rad * deg, s->dec_rad * deg};
    const int is_seen = msi_sky_wcs_sky_to_pixel(wcs, sky, at);
    *n_outside +=
        !is_seen || at[0] < -0.5 || at[1] < -0.5 || at[0] > (double)g->nx - 0.5 || at[1] > (double)g->ny - 0.5;
    return is_seen;
}

/* ---- Spectra ---- */

enum { MOST_COEFFICIENTS = MSI_SKY_MAX_TERMS + 1 };

/* Multiply a polynomial of n terms by (x - root) * scale, and add a constant. */
static void horner_step(double *c, int n, double root, double scale, double constant)
{
    for (int k = n; k > 0; k--) c[k] = scale * (c[k - 1] - (k < n ? root * c[k] : 0));
    c[0] = constant - scale * root * c[0];
}

int msi_sky_model_spectrum(const msi_sky_model *m, const msi_sky_source *s, double *c)
{
    double node[MOST_COEFFICIENTS], f[MOST_COEFFICIENTS], all[MOST_COEFFICIENTS + 1] = {0};
    int n = s->n_term + 1;
    if (!s->n_term) {
        all[0] = s->flux_jy;
    } else if (!s->is_logarithmic) {
        /* The terms are powers of frequency / reference_hz - 1, which is scale (x - root) for the x of the result. */
        const double scale = m->freq_hz / s->reference_hz, root = s->reference_hz / m->freq_hz - 1;
        for (int k = n - 1; k >= 0; k--) horner_step(all, n - 1 - k, root, scale, k ? s->term[k - 1] : s->flux_jy);
    } else {
        /* Newton's divided differences. The nodes are in -1 .. 1, which are the ends of the band. */
        const double half = 0.5 * m->bandwidth_hz / m->freq_hz;
        if (n < m->n_term) n = m->n_term;
        if (!(half > 0)) n = 1;
        for (int k = 0; k < n; k++) {
            node[k] = n > 1 ? 2.0 * k / (n - 1) - 1 : 0;
            f[k] = msi_sky_source_flux(s, m->freq_hz * (1 + half * node[k]));
        }
        for (int order = 1; order < n; order++)
            for (int k = n - 1; k >= order; k--) f[k] = (f[k] - f[k - 1]) / (node[k] - node[k - order]);
        for (int k = n - 1; k >= 0; k--) horner_step(all, n - 1 - k, node[k], 1, f[k]);
        for (int k = 1; k < n; k++) all[k] *= pow(half, -k);
    }
    for (int k = 0; k < m->n_term; k++) c[k] = k < n ? all[k] : 0;
    return n;
}

/* ---- Points ---- */

/* Compute the kernel of a point along an axis of n pixels. Returned: kernel [n], only elements [*begin, *end) */
static void make_kernel(double *kernel, int64_t n, double at, int64_t window, int64_t *begin, int64_t *end)
{
    const double half = 0.5 * (double)window;
    *begin = window ? (int64_t)fmin(fmax(0, floor(at - half) + 1), (double)n) : 0;
    *end = window ? (int64_t)fmax(fmin((double)n, ceil(at + half)), (double)*begin) : n;
    for (int64_t i = *begin; i < *end; i++) {
        const double d = MSI_PI * ((double)i - at), taper = window ? cos(d / (double)window) : 1;
        kernel[i] = fabs(d) < 1e-8 ? 1 : taper * taper * sin(d) / d;
    }
}

/* ---- Narrow gaussians, by their spectra ---- */

/* Least standard deviation, in pixels along the minor axis, of gaussians that are sampled. Their spectra are below
 * exp(-2 pi^2 0.4^2 2.5^2) = 3e-9 of the peak beyond 0.4 cycles per pixel, so neither the Tukey window nor sampling
 * changes them. */
static const double WIDE_PIXELS = 2.5;

/* Transforms of stamps of one width. */
typedef struct stamp {
    int64_t n; /* pixels along both axes; odd; 0: none */
    fftw_complex *spectrum;
    double *pixel; /* [n][n], the source within half a pixel of pixel 0 */
    fftw_plan plan;
} stamp;

static void free_stamp(stamp *t)
{
#pragma omp critical(msi_fftw_planner)
    fftw_destroy_plan(t->plan);
    msi_free(t->spectrum);
    msi_free(t->pixel);
    *t = (stamp){0};
}

static int make_stamp(stamp *t, int64_t n)
{
    free_stamp(t);
    MSI_TRY(msi_alloc(&t->spectrum, n * (n / 2 + 1), sizeof *t->spectrum, "the image of a gaussian"));
    int rc = msi_alloc(&t->pixel, n * n, sizeof *t->pixel, "the image of a gaussian");
#pragma omp critical(msi_fftw_planner)
    if (!rc) t->plan = fftw_plan_dft_c2r_2d((int)n, (int)n, t->spectrum, t->pixel, FFTW_ESTIMATE);
    if (!rc && !t->plan) rc = msi_error_set(MSI_ENOMEM, "FFTW cannot plan a transform of %lld pixels", (long long)n);
    if (rc) free_stamp(t);
    if (!rc) t->n = n;
    return rc;
}

static double tukey(double u)
{
    return fabs(u) <= 0.4 ? 1 : 0.5 * (1 + cos(MSI_PI * (fabs(u) - 0.4) / 0.1));
}

/* Compute a gaussian of flux 1. Given: c  covariance in squares of pixels, along x (west) and y; fraction  offset from
 * pixel 0, -0.5 .. 0.5 */
static void fill_stamp(stamp *t, const msi_covariance *c, const double fraction[2])
{
    const int64_t n = t->n, half = n / 2;
    const double per_pixel = 1 / (double)n, scale = per_pixel * per_pixel;
#pragma omp parallel for
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i <= half; i++) {
            const double u = (double)i * per_pixel, v = (double)(j <= half ? j : j - n) * per_pixel;
            const double exponent = -2 * MSI_PI * MSI_PI * (u * u * c->ee + 2 * u * v * c->en + v * v * c->nn);
            const double value = scale * tukey(u) * tukey(v) * exp(exponent);
            const double turns = u * fraction[0] + v * fraction[1];
            t->spectrum[j * (half + 1) + i][0] = value * cos(2 * MSI_PI * turns);
            t->spectrum[j * (half + 1) + i][1] = -value * sin(2 * MSI_PI * turns);
        }
    fftw_execute(t->plan);
}

/* ---- Models ---- */

/* The state of drawing a model. */
typedef struct drawing {
    const msi_sky_model *model;
    int64_t number; /* index of the source, from 1 */
    double *image;
    double *kernel[2]; /* [nx], [ny] */
    stamp stamp;
} drawing;

static void draw_point(drawing *d, const double at[2], double flux)
{
    const msi_image_geometry *g = &d->model->geometry;
    int64_t begin[2], end[2];
    make_kernel(d->kernel[0], g->nx, at[0], d->model->window, &begin[0], &end[0]);
    make_kernel(d->kernel[1], g->ny, at[1], d->model->window, &begin[1], &end[1]);
    for (int64_t y = begin[1]; y < end[1]; y++)
        for (int64_t x = begin[0]; x < end[0]; x++) d->image[y * g->nx + x] += flux * d->kernel[1][y] * d->kernel[0][x];
}

/* Choose the width of a stamp: the window, doubled until it contains the gaussian. Returns 0 if the gaussian is too
 * long. */
static int64_t stamp_width(const drawing *d, double sigma)
{
    const double needed = 2 * REACH * sigma + 1;
    int64_t n = d->model->window < 127 ? 127 : d->model->window | 1;
    while ((double)n < needed && 2 * n + 1 <= MSI_SKY_MAX_WINDOW) n = 2 * n + 1;
    return (double)n < needed ? 0 : n;
}

static int draw_narrow(drawing *d, const double at[2], const msi_covariance *c, double sigma, double flux)
{
    const msi_image_geometry *g = &d->model->geometry;
    const int64_t n = stamp_width(d, sigma), half = n / 2;
    const double middle[2] = {floor(at[0] + 0.5), floor(at[1] + 0.5)};
    const double fraction[2] = {at[0] - middle[0], at[1] - middle[1]};
    if (!n)
        return msi_error_set(
            MSI_EINPUT,
            "source %lld of the list: the gaussian is narrower than 6 pixels and longer than %.0f; use "
            "larger pixels, or take it out",
            (long long)d->number, MSI_SKY_MAX_WINDOW / (2 * REACH) * sqrt(8 * log(2)));
    if (middle[0] + (double)half < 0 || middle[1] + (double)half < 0 || middle[0] - (double)half > (double)g->nx ||
        middle[1] - (double)half > (double)g->ny)
        return MSI_OK;
    if (d->stamp.n != n) MSI_TRY(make_stamp(&d->stamp, n));
    fill_stamp(&d->stamp, c, fraction);
    const int64_t x0 = (int64_t)middle[0], y0 = (int64_t)middle[1];
    for (int64_t j = -half; j <= half; j++)
        for (int64_t i = -half; i <= half; i++) {
            const int64_t x = x0 + i, y = y0 + j;
            if (x < 0 || y < 0 || x >= g->nx || y >= g->ny) continue;
            d->image[y * g->nx + x] += flux * d->stamp.pixel[(j < 0 ? j + n : j) * n + (i < 0 ? i + n : i)];
        }
    return MSI_OK;
}

static int draw_source(drawing *d, const msi_sky_source *s, const double at[2], double flux)
{
    const msi_image_geometry *g = &d->model->geometry;
    const double area = g->cell_x_rad * g->cell_y_rad;
    const msi_covariance c = msi_covariance_of(&s->shape);
    const msi_covariance pixels = {c.ee / (g->cell_x_rad * g->cell_x_rad), -c.en / area,
                                   c.nn / (g->cell_y_rad * g->cell_y_rad)};
    /* The axes of the gaussian are the eigenvalues of its covariance. */
    const double mean = 0.5 * (pixels.ee + pixels.nn), off = hypot(0.5 * (pixels.ee - pixels.nn), pixels.en);
    if (!flux) return MSI_OK;
    if (!(mean > 0)) {
        draw_point(d, at, flux);
        return MSI_OK;
    }
    if (mean - off < WIDE_PIXELS * WIDE_PIXELS) return draw_narrow(d, at, &pixels, sqrt(mean + off), flux);
    msi_draw_gaussian(d->image, g, at, &c, flux * area / (2 * MSI_PI * sqrt(msi_covariance_determinant(&c))));
    return MSI_OK;
}

static int draw_all(drawing *d, int term, int64_t *n_outside)
{
    const msi_sky_model *m = d->model;
    *n_outside = 0;
    for (int64_t i = 0; i < m->list->n; i++) {
        const msi_sky_source *s = &m->list->source[i];
        double at[2], c[MOST_COEFFICIENTS];
        if (i % 16 == 0) MSI_TRY(msi_interrupt_check());
        if (!msi_sky_place(at, n_outside, s, m->wcs, &m->geometry)) continue;
        msi_sky_model_spectrum(m, s, c);
        if (!isfinite(c[term]) || fabs(c[term]) > MSI_SKY_MAX_JY)
            return msi_error_set(MSI_EINPUT,
                                 "source %lld of the list: its spectrum at %.6g MHz is not finite, or above 1e30 Jy",
                                 (long long)i + 1, 1e-6 * m->freq_hz);
        d->number = i + 1;
        MSI_TRY(draw_source(d, s, at, c[term]));
    }
    return MSI_OK;
}

int msi_sky_model_draw(const msi_sky_model *model, int term, double *image, int64_t *n_outside)
{
    const msi_image_geometry *g = &model->geometry;
    drawing d = {.model = model, .image = image};
    memset(image, 0, (size_t)msi_image_n_pixel(g) * sizeof *image);
    int rc = msi_alloc(&d.kernel[0], g->nx, sizeof *d.kernel[0], "the image of a point");
    if (!rc) rc = msi_alloc(&d.kernel[1], g->ny, sizeof *d.kernel[1], "the image of a point");
    if (!rc) rc = draw_all(&d, term, n_outside);
    free_stamp(&d.stamp);
    msi_free(d.kernel[0]);
    msi_free(d.kernel[1]);
    return rc;
}
