/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/pb/pb_file.h"

#include <ctype.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/fits_image.h"
#include "src/pb/pb_mean.h"
#include "src/sky/phase_shift.h"

/* ---- Types of stations: JSON files ---- */

enum { MOST_RULES = 4096, NAME = 256 };

static const char DEFAULT[] = "cmd::default";

/* ---- JSON: objects of strings, lists of strings, and objects ---- */

/* A string, and the keys of its block, section and member. */
typedef struct entry {
    char *section, *key, *value;
} entry;

typedef struct reading {
    const char *path, *at;
    int64_t line;
    int n;
    entry entry[MOST_RULES];
} reading;

static int fail(const reading *r, const char *why)
{
    return msi_error_set(MSI_EINPUT,
                         "%s, line %lld: %s; a configuration of beams has blocks with \"patterns\" and "
                         "\"define-stationtypes\"",
                         r->path, (long long)r->line, why);
}

/* Return the next character that is not a space. */
static char peek(reading *r)
{
    for (; *r->at && isspace((unsigned char)*r->at); r->at++) r->line += *r->at == '\n';
    return *r->at;
}

static int expect(reading *r, char c, const char *why)
{
    if (peek(r) != c) return fail(r, why);
    r->at++;
    return MSI_OK;
}

/* Read a string. Returned: *out  owned */
static int read_text(reading *r, char **out)
{
    char text[4 * NAME];
    size_t n = 0;
    *out = NULL;
    MSI_TRY(expect(r, '"', "a text in double quotes is expected"));
    for (; *r->at && *r->at != '"'; r->at++) {
        if (*r->at == '\\' && (r->at[1] == '"' || r->at[1] == '\\' || r->at[1] == '/'))
            r->at++;
        else if (*r->at == '\\')
            return fail(r, "of the escapes only \\\", \\\\ and \\/ are known");
        if (*r->at == '\n' || n + 1 == sizeof text) return fail(r, "a text does not end, or is too long");
        text[n++] = *r->at;
    }
    MSI_TRY(expect(r, '"', "a text does not end"));
    MSI_TRY(msi_alloc(out, (int64_t)n + 1, 1, "a configuration of beams"));
    memcpy(*out, text, n);
    return MSI_OK;
}

static int copy_text(char **out, const char *text)
{
    MSI_TRY(msi_alloc(out, (int64_t)strlen(text) + 1, 1, "a configuration of beams"));
    memcpy(*out, text, strlen(text));
    return MSI_OK;
}

/* Read a string, and store it with its keys. */
static int keep_value(reading *r, const char *section, const char *key)
{
    if (r->n == MOST_RULES) return fail(r, "there are too many entries");
    entry *e = &r->entry[r->n++];
    MSI_TRY(copy_text(&e->section, section));
    MSI_TRY(copy_text(&e->key, key));
    return read_text(r, &e->value);
}

/* Read the members of an object. Given: member  reads the value of a key */
static int read_object(reading *r, const char *section, int (*member)(reading *r, const char *section, const char *key))
{
    MSI_TRY(expect(r, '{', "an object in braces is expected"));
    for (int first = 1; peek(r) != '}'; first = 0) {
        char *key;
        if (!first) MSI_TRY(expect(r, ',', "a comma or a closing brace is expected"));
        MSI_TRY(read_text(r, &key));
        int rc = expect(r, ':', "a colon is expected");
        if (!rc) rc = member(r, section, key);
        msi_free(key);
        MSI_TRY(rc);
    }
    r->at++;
    return MSI_OK;
}

/* Read a string or a list of strings. */
static int read_value(reading *r, const char *section, const char *key)
{
    if (peek(r) != '[') return keep_value(r, section, key);
    r->at++;
    for (int first = 1; peek(r) != ']'; first = 0) {
        if (!first) MSI_TRY(expect(r, ',', "a comma or a closing bracket is expected"));
        MSI_TRY(keep_value(r, section, key));
    }
    r->at++;
    return MSI_OK;
}

static int read_section(reading *r, const char *block, const char *key)
{
    (void)block;
    if (strcmp(key, "patterns") != 0 && strcmp(key, "define-stationtypes") != 0)
        return fail(r, "a block has an unknown key");
    return read_object(r, key, read_value);
}

static int read_block(reading *r, const char *section, const char *key)
{
    (void)section;
    return read_object(r, key, read_section);
}

/* ---- Types ---- */

/* Find the type of an antenna by its name. Returned: *type  NULL: no type. Returns: 0, MSI_EINPUT (an invalid regular
 * expression) */
static int find_type(const reading *r, const char *name, const char **type)
{
    const char *by_default = NULL, *by_expression = NULL;
    *type = NULL;
    for (int i = 0; i < r->n; i++) {
        const entry *e = &r->entry[i];
        if (strcmp(e->section, "define-stationtypes") != 0) continue;
        if (strcmp(e->key, name) == 0 && !*type) *type = e->value;
        if (strcmp(e->key, DEFAULT) == 0 && !by_default) by_default = e->value;
        if (e->key[0] != '~' || by_expression) continue;
        regex_t expression;
        regmatch_t match;
        if (regcomp(&expression, e->key + 1, REG_EXTENDED) != 0)
            return msi_error_set(MSI_EINPUT, "%s: \"%s\" is not a regular expression", r->path, e->key);
        if (regexec(&expression, name, 1, &match, 0) == 0 && match.rm_so == 0) by_expression = e->value;
        regfree(&expression);
    }
    if (!*type) *type = by_expression ? by_expression : by_default;
    return MSI_OK;
}

/* Replace $(stype) and $(STYPE). Returned: *out  owned */
static int put_type(char **out, const char *pattern, const char *type)
{
    static const char lower[] = "$(stype)", upper[] = "$(STYPE)";
    char text[8 * NAME];
    size_t n = 0;
    for (const char *p = pattern; *p && n + NAME < sizeof text;) {
        const int is_upper = strncmp(p, upper, sizeof upper - 1) == 0;
        if (!is_upper && strncmp(p, lower, sizeof lower - 1) != 0) {
            text[n++] = *p++;
            continue;
        }
        for (const char *t = type; *t && n + NAME < sizeof text; t++)
            text[n++] = (char)(is_upper ? toupper((unsigned char)*t) : tolower((unsigned char)*t));
        p += sizeof lower - 1;
    }
    text[n] = 0;
    return copy_text(out, text);
}

/* Collect the patterns of a type; if it has none, the default patterns. */
static int find_patterns(const reading *r, msi_pb_station_type *t)
{
    for (int by_default = 0; by_default < 2 && !t->n_pattern; by_default++)
        for (int i = 0; i < r->n; i++) {
            const entry *e = &r->entry[i];
            if (strcmp(e->section, "patterns") != 0 || strcmp(e->key, by_default ? DEFAULT : t->name) != 0) continue;
            MSI_TRY(msi_grow(&t->pattern, t->n_pattern, t->n_pattern + 1, sizeof *t->pattern, "patterns of beams"));
            MSI_TRY(put_type(&t->pattern[t->n_pattern++], e->value, t->name));
        }
    if (t->n_pattern) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: stations of type \"%s\" have no patterns, and there are none by \"%s\"",
                         r->path, t->name, DEFAULT);
}

static int sort_antennas(msi_pb_config *c, const reading *r, const msi_pb_set *set, uint8_t *class_of)
{
    for (int64_t a = 0; a < set->n_antenna; a++) {
        const char *name = set->name ? set->name[a] : "", *type;
        int k = 0;
        MSI_TRY(find_type(r, name, &type));
        if (!type)
            return msi_error_set(MSI_EINPUT, "%s: antenna \"%s\" has no type; add \"%s\" to \"define-stationtypes\"",
                                 r->path, name, DEFAULT);
        while (k < c->n_type && strcmp(c->type[k].name, type) != 0) k++;
        if (k == MSI_PB_CLASSES)
            return msi_error_set(MSI_EINPUT, "%s: the antennas have more than %d types, such as \"%s\"", r->path,
                                 MSI_PB_CLASSES, type);
        class_of[a] = (uint8_t)k;
        if (k < c->n_type) continue;
        MSI_TRY(copy_text(&c->type[c->n_type++].name, type));
        MSI_TRY(find_patterns(r, &c->type[k]));
    }
    return MSI_OK;
}

int msi_pb_config_read(msi_pb_config *out, const char *path, const msi_pb_set *set, uint8_t *class_of)
{
    reading *r = NULL;
    char *text;
    *out = (msi_pb_config){0};
    int64_t n;
    int rc = msi_text_file_read(&text, &n, path, "a configuration of beams");
    if (!rc) rc = msi_alloc(&r, 1, sizeof *r, "a configuration of beams");
    if (!rc) {
        r->path = path;
        r->at = text;
        r->line = 1;
        rc = read_object(r, "", read_block);
    }
    if (!rc && peek(r)) rc = fail(r, "something follows the last brace");
    if (!rc) rc = sort_antennas(out, r, set, class_of);
    for (int i = 0; r && i < r->n; i++) {
        msi_free(r->entry[i].section);
        msi_free(r->entry[i].key);
        msi_free(r->entry[i].value);
    }
    msi_free(r);
    msi_free(text);
    if (rc) msi_pb_config_free(out);
    return rc;
}

void msi_pb_config_free(msi_pb_config *c)
{
    for (int i = 0; i < c->n_type; i++) {
        for (int k = 0; k < c->type[i].n_pattern; k++) msi_free(c->type[i].pattern[k]);
        msi_free(c->type[i].pattern);
        msi_free(c->type[i].name);
    }
    *c = (msi_pb_config){0};
}

void msi_pb_cubic(double t, double w[4])
{
    w[0] = -t * (t - 1) * (t - 2) / 6;
    w[1] = (t + 1) * (t - 1) * (t - 2) / 2;
    w[2] = -(t + 1) * t * (t - 2) / 2;
    w[3] = (t + 1) * t * (t - 1) / 6;
}

struct msi_pb_file {
    int is_power, is_circular;
    msi_fits_beam beam[8]; /* power: only the first; otherwise [4][2] real and imaginary part of each element */
    double limit_rad, width_rad_hz;
};

static int ends_in(const char *word, const char *end)
{
    const size_t n = strlen(word), n_end = strlen(end);
    return n > n_end && strcmp(word + n - n_end, end) == 0;
}

int msi_pb_file_is_config(const char *word)
{
    return ends_in(word, ".json");
}

int msi_pb_file_is_word(const char *word)
{
    return strstr(word, "$(") || ends_in(word, ".fits") || msi_pb_file_is_config(word);
}

/* ---- Names ---- */

enum { PATH_BYTES = 4096 };

static const char *const correlations[2][4] = {{"xx", "xy", "yx", "yy"}, {"rr", "rl", "lr", "ll"}};
static const char *const parts[2][2] = {{"re", "im"}, {"real", "imag"}};

/* Append a word, in capitals if `name` is in capitals. */
static void append(char *path, size_t *n, const char *word, const char *name)
{
    const int is_capital = name[0] >= 'A' && name[0] <= 'Z', is_title = is_capital && name[1] >= 'a' && name[1] <= 'z';
    for (int i = 0; word[i] && *n + 1 < PATH_BYTES; i++)
        path[(*n)++] = (char)(is_capital && (!is_title || i == 0) ? word[i] - 'a' + 'A' : word[i]);
}

/* Replace the $(NAME) of a pattern. Returns: 0, MSI_EINPUT (an unknown name) */
static int expand(char path[PATH_BYTES], const char *pattern, const char *corr, int part)
{
    size_t n = 0;
    for (const char *p = pattern; *p && n + 1 < PATH_BYTES;) {
        char name[16] = "";
        const size_t length = p[0] == '$' && p[1] == '(' ? strcspn(p + 2, ")") : 0;
        if (!length || p[2 + length] != ')' || length >= sizeof name) {
            path[n++] = *p++;
            continue;
        }
        memcpy(name, p + 2, length);
        if (strcasecmp(name, "corr") == 0 || strcasecmp(name, "xy") == 0)
            append(path, &n, corr, name);
        else if (strcasecmp(name, "reim") == 0)
            append(path, &n, parts[0][part], name);
        else if (strcasecmp(name, "realimag") == 0)
            append(path, &n, parts[1][part], name);
        else
            return msi_error_set(MSI_EINPUT,
                                 "-pb %s: $(%s) is not known; give $(corr) or $(xy), and $(reim) or $(realimag)",
                                 pattern, name);
        p += length + 3;
    }
    path[n] = 0;
    return MSI_OK;
}

/* ---- Reading ---- */

/* Check that a beam has the pixels and frequencies of the first one. */
static int check_alike(const msi_pb_file *f, int i, const char *path)
{
    const msi_fits_beam *a = &f->beam[0], *b = &f->beam[i];
    int is_alike = a->nx == b->nx && a->ny == b->ny && a->n_freq == b->n_freq && a->on_sky == b->on_sky;
    for (int k = 0; k < 2; k++)
        is_alike &= fabs(a->centre[k] - b->centre[k]) < 1e-6 && fabs(b->step_rad[k] / a->step_rad[k] - 1) < 1e-6;
    for (int64_t c = 0; is_alike && c < a->n_freq; c++) is_alike &= fabs(b->freq_hz[c] / a->freq_hz[c] - 1) < 1e-9;
    if (is_alike) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: its pixels or frequencies are not those of the other elements of the beam",
                         path);
}

static int read_elements(msi_pb_file *f, const char *pattern, const msi_pb_set *set)
{
    char path[PATH_BYTES], other[PATH_BYTES];
    for (int e = 0; e < 4; e++)
        for (int part = 0; part < 2; part++) {
            MSI_TRY(expand(path, pattern, correlations[set->is_circular][e], part));
            MSI_TRY(expand(other, pattern, correlations[!set->is_circular][e], part));
            if (access(path, F_OK) != 0 && access(other, F_OK) == 0)
                return msi_error_set(
                    MSI_EINPUT, "%s: no such file, but %s: the beam is of %s feeds, those of the set are %s", path,
                    other, set->is_circular ? "linear" : "circular", set->is_circular ? "circular" : "linear");
            MSI_TRY(msi_fits_beam_read(&f->beam[2 * e + part], path));
            MSI_TRY(check_alike(f, 2 * e + part, path));
        }
    f->is_circular = set->is_circular;
    return MSI_OK;
}

/* ---- The response ---- */

/* Interpolate a plane with cubic polynomials. Returns 0 outside */
static double at_pixel(const msi_fits_beam *b, int64_t plane, double x, double y)
{
    double wx[4], wy[4], sum = 0;
    const int64_t i = (int64_t)floor(x), j = (int64_t)floor(y);
    if (!(x >= 0 && y >= 0 && x <= (double)(b->nx - 1) && y <= (double)(b->ny - 1))) return 0;
    msi_pb_cubic(x - (double)i, wx);
    msi_pb_cubic(y - (double)j, wy);
    for (int k = 0; k < 4; k++) {
        const int64_t row = j - 1 + k < 0 ? 0 : j - 1 + k < b->ny ? j - 1 + k : b->ny - 1;
        for (int m = 0; m < 4; m++) {
            const int64_t column = i - 1 + m < 0 ? 0 : i - 1 + m < b->nx ? i - 1 + m : b->nx - 1;
            const float v = b->pixel[(plane * b->ny + row) * b->nx + column];
            if (isfinite(v)) sum += wy[k] * wx[m] * (double)v;
        }
    }
    return sum;
}

/* Interpolate linearly in frequency; beyond the ends return the end values. */
static double value_at(const msi_fits_beam *b, double freq_hz, const msi_pb_direction *d)
{
    const double r = hypot(d->x_rad, d->y_rad), shrink = b->is_sin && r > 0 ? sin(fmin(r, MSI_PI / 2)) / r : 1;
    const double x = b->centre[0] + d->x_rad * shrink / b->step_rad[0],
                 y = b->centre[1] + d->y_rad * shrink / b->step_rad[1];
    int64_t i = 0;
    while (i + 2 < b->n_freq && b->freq_hz[i + 1] <= freq_hz) i++;
    const double t =
        b->n_freq > 1 ? fmin(1, fmax(0, (freq_hz - b->freq_hz[i]) / (b->freq_hz[i + 1] - b->freq_hz[i]))) : 0;
    double value = t < 1 ? (1 - t) * at_pixel(b, i, x, y) : 0;
    if (t > 0) value += t * at_pixel(b, i + 1, x, y);
    return value;
}

static msi_c64 times(msi_c64 a, msi_c64 b)
{
    return (msi_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* Convert a matrix of circular feeds to linear ones, C^H J C with R = (X + i Y) / sqrt(2), L = (X - i Y) / sqrt(2). */
static void to_linear(msi_c64 j[4])
{
    static const msi_c64 c[4] = {{1, 0}, {0, 1}, {1, 0}, {0, -1}};
    msi_c64 half[4], out[4];
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < 2; k++) {
            const msi_c64 a = times(j[2 * r], c[k]), b = times(j[2 * r + 1], c[2 + k]);
            half[2 * r + k] = (msi_c64){a.re + b.re, a.im + b.im};
        }
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < 2; k++) {
            const msi_c64 p = {c[r].re, -c[r].im}, q = {c[2 + r].re, -c[2 + r].im};
            const msi_c64 a = times(p, half[k]), b = times(q, half[2 + k]);
            out[2 * r + k] = (msi_c64){(a.re + b.re) / 2, (a.im + b.im) / 2};
        }
    memcpy(j, out, sizeof out);
}

void msi_pb_file_jones(const msi_pb_file *f, double freq_hz, const msi_pb_direction *direction, msi_c64 jones[4])
{
    if (f->is_power) {
        const double power = value_at(&f->beam[0], freq_hz, direction);
        jones[0] = jones[3] = (msi_c64){power > 0 ? sqrt(power) : 0, 0};
        jones[1] = jones[2] = (msi_c64){0, 0};
        return;
    }
    for (int e = 0; e < 4; e++)
        jones[e] =
            (msi_c64){value_at(&f->beam[2 * e], freq_hz, direction), value_at(&f->beam[2 * e + 1], freq_hz, direction)};
    if (f->is_circular) to_linear(jones);
}

static double power_of(const msi_pb_file *f, double freq_hz, const msi_pb_direction *d)
{
    msi_c64 j[4];
    double sum = 0;
    msi_pb_file_jones(f, freq_hz, d, j);
    for (int e = 0; e < 4; e++) sum += j[e].re * j[e].re + j[e].im * j[e].im;
    return sum / 2;
}

double msi_pb_file_width(const msi_pb_file *f, double freq_hz)
{
    return f->width_rad_hz / freq_hz;
}

double msi_pb_file_limit(const msi_pb_file *f)
{
    return f->limit_rad;
}

msi_pb_mount msi_pb_file_mount(const msi_pb_file *f)
{
    return f->beam[0].on_sky ? MSI_PB_EQUATORIAL : MSI_PB_ALTAZ;
}

/* ---- Checks ---- */

/* Find the limit and the width of the beam, and check that its power at the pointing is about 1. */
static int measure(msi_pb_file *f, const char *word)
{
    enum { STEPS = 512 };
    const msi_fits_beam *b = &f->beam[0];
    const double freq_hz = b->freq_hz[b->n_freq - 1], at_pointing = power_of(f, freq_hz, &(msi_pb_direction){0});
    f->limit_rad = MSI_PI / 2;
    for (int k = 0; k < 2; k++) {
        const double n = (double)(k ? b->ny : b->nx), step = fabs(b->step_rad[k]);
        f->limit_rad = fmin(f->limit_rad, fmin(b->centre[k], n - 1 - b->centre[k]) * step);
    }
    if (b->is_sin) f->limit_rad = asin(fmin(1, f->limit_rad));
    if (!(at_pointing > 0.5 && at_pointing < 2))
        return msi_error_set(MSI_EINPUT,
                             "%s: the power at the pointing, pixel %g %g, is %g at %g MHz; a beam is about 1 there",
                             word, b->centre[0] + 1, b->centre[1] + 1, at_pointing, 1e-6 * freq_hz);
    double half = f->limit_rad;
    for (int i = 1; i < STEPS && half == f->limit_rad; i++) {
        const double r = f->limit_rad * i / STEPS;
        if (power_of(f, freq_hz, &(msi_pb_direction){.x_rad = r}) < at_pointing / 2) half = r;
    }
    f->width_rad_hz = 2 * half * freq_hz;
    return MSI_OK;
}

/* Check that the planes cover the channels. Each plane covers half of the distance to its neighbours. */
static int check_channels(const msi_pb_file *f, const char *word, const msi_pb_set *set)
{
    const msi_fits_beam *b = &f->beam[0];
    const int64_t n = b->n_freq;
    const double first = n > 1 ? b->freq_hz[1] - b->freq_hz[0] : b->width_hz,
                 last = n > 1 ? b->freq_hz[n - 1] - b->freq_hz[n - 2] : b->width_hz;
    if (set->low_hz >= b->freq_hz[0] - 0.5 * first * (1 + 1e-9) &&
        set->high_hz <= b->freq_hz[n - 1] + 0.5 * last * (1 + 1e-9))
        return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s: the beam is given from %g to %g MHz, but the channels are from %g to %g MHz; select "
                         "channels, or give a beam that covers them",
                         word, 1e-6 * (b->freq_hz[0] - 0.5 * first), 1e-6 * (b->freq_hz[n - 1] + 0.5 * last),
                         1e-6 * set->low_hz, 1e-6 * set->high_hz);
}

int msi_pb_file_read(msi_pb_file **out, const char *word, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    msi_pb_file *f;
    *out = NULL;
    MSI_TRY(msi_alloc(&f, 1, sizeof *f, "primary beam"));
    f->is_power = !strstr(word, "$(");
    int rc = f->is_power ? msi_fits_beam_read(&f->beam[0], word) : read_elements(f, word, set);
    if (!rc) rc = check_channels(f, word, set);
    if (!rc) rc = measure(f, word);
    if (rc) {
        msi_pb_file_free(f);
        return rc;
    }
    const msi_fits_beam *b = &f->beam[0];
    snprintf(note, MSI_PB_NOTE, "%.120s, %s, %g to %g MHz, to %.4g degrees, fixed %s", word,
             f->is_power ? "power" : "Jones matrix", 1e-6 * b->freq_hz[0], 1e-6 * b->freq_hz[b->n_freq - 1],
             f->limit_rad * 180 / MSI_PI, b->on_sky ? "on the sky" : "to the dish");
    *out = f;
    return MSI_OK;
}

void msi_pb_file_free(msi_pb_file *f)
{
    if (!f) return;
    for (int i = 0; i < 8; i++) msi_fits_beam_free(&f->beam[i]);
    msi_free(f);
}

/* ---- Jones matrices of stations ---- */

enum { PARTS = 8 }; /* real and imaginary parts of a matrix */

struct msi_pb_cube {
    msi_fits_screen screen;
    double axes[3][3]; /* unit vectors along l, m and n at the reference pixel */
    double width_rad_hz;
};

int64_t msi_pb_cube_antennas(const char *path)
{
    int64_t n_matrix = 0, n_antenna = 0;
    (void)msi_fits_screen_planes(path, &n_matrix, &n_antenna);
    return n_matrix > 1 ? n_antenna : 0;
}

/* ---- The response ---- */

/* Two neighbouring planes, and the share of the second one. */
typedef struct neighbours {
    int64_t first, second;
    double part;
} neighbours;

static neighbours around(double at, int64_t n)
{
    const double inside = fmin(fmax(at, 0), (double)(n - 1));
    const int64_t first = (int64_t)inside, second = first + 1 < n ? first + 1 : first;
    return (neighbours){first, second, inside - (double)first};
}

/* Find the first of four pixels around a position, and their weights. */
static int64_t four_around(double x, int64_t n, double w[4])
{
    int64_t first = (int64_t)floor(x) - 1;
    first = first < 0 ? 0 : first > n - 4 ? n - 4 : first;
    msi_pb_cubic(x - (double)(first + 1), w);
    return first;
}

static double plane_at(const msi_fits_screen *s, int64_t plane, int64_t x, int64_t y, const double wx[4],
                       const double wy[4])
{
    const float *row = s->pixel + (plane * s->ny + y) * s->nx + x;
    double sum = 0;
    for (int i = 0; i < 4; i++, row += s->nx)
        sum +=
            wy[i] * (wx[0] * (double)row[0] + wx[1] * (double)row[1] + wx[2] * (double)row[2] + wx[3] * (double)row[3]);
    return sum;
}

/* Find the pixel of a direction. Returns: 1, or 0 outside of the file */
static int find_pixel(const msi_pb_cube *c, const double *sky, double *x, double *y)
{
    const msi_fits_screen *s = &c->screen;
    double lmn[3] = {0};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) lmn[k] += c->axes[k][i] * sky[i];
    *x = s->centre[0] + lmn[0] / s->step_rad[0];
    *y = s->centre[1] + lmn[1] / s->step_rad[1];
    return lmn[2] > 0 && *x >= 0 && *y >= 0 && *x <= (double)(s->nx - 1) && *y <= (double)(s->ny - 1);
}

int msi_pb_cube_covers(const msi_pb_cube *c, const double *sky)
{
    double x, y;
    return find_pixel(c, sky, &x, &y);
}

void msi_pb_cube_jones(const msi_pb_cube *c, int antenna, double freq_hz, const msi_pb_direction *direction,
                       msi_c64 jones[4])
{
    const msi_fits_screen *s = &c->screen;
    double value[PARTS] = {0}, wx[4], wy[4], x, y;
    if (find_pixel(c, direction->sky, &x, &y)) {
        const int64_t i = four_around(x, s->nx, wx), j = four_around(y, s->ny, wy);
        const neighbours f = around(s->n_freq > 1 ? (freq_hz - s->freq_hz) / s->freq_step_hz : 0, s->n_freq),
                         t = around(s->n_time > 1 ? (direction->mjd_s - s->time_s) / s->time_step_s : 0, s->n_time);
        for (int k = 0; k < 4; k++) {
            const int64_t time = k < 2 ? t.first : t.second, freq = k % 2 ? f.second : f.first;
            const double w = (k < 2 ? 1 - t.part : t.part) * (k % 2 ? f.part : 1 - f.part);
            for (int e = 0; w > 0 && e < PARTS; e++)
                value[e] +=
                    w * plane_at(s, ((time * s->n_freq + freq) * s->n_antenna + antenna) * PARTS + e, i, j, wx, wy);
        }
    }
    for (int e = 0; e < 4; e++) jones[e] = (msi_c64){value[2 * e], value[2 * e + 1]};
}

/* ---- Checks ---- */

static int check_antennas(const msi_pb_cube *c, const char *path, const msi_pb_set *set)
{
    const int64_t n = c->screen.n_antenna;
    if (c->screen.n_matrix != PARTS)
        return msi_error_set(MSI_EINPUT, "%s: its axis MATRIX has %lld planes; Jones matrices have %d", path,
                             (long long)c->screen.n_matrix, PARTS);
    if (set->is_circular)
        return msi_error_set(MSI_EINPUT, "%s: its beams have linear feeds, but the set has circular feeds", path);
    if (n != 1 && n != set->n_antenna)
        return msi_error_set(MSI_EINPUT, "%s: has %lld antennas, the set %lld; give beams of this set", path,
                             (long long)n, (long long)set->n_antenna);
    if (n > MSI_PB_STATIONS)
        return msi_error_set(MSI_EINPUT, "%s: has beams of %lld stations; at most %d are possible", path, (long long)n,
                             MSI_PB_STATIONS);
    return MSI_OK;
}

/* Check that the channels lie within half a step of the planes. */
static int check_cube_channels(const msi_fits_screen *s, const char *path, const msi_pb_set *set)
{
    const double half = 0.5 * fabs(s->freq_step_hz) * (1 + 1e-9),
                 end = s->freq_hz + (double)(s->n_freq - 1) * s->freq_step_hz, low = fmin(s->freq_hz, end) - half,
                 high = fmax(s->freq_hz, end) + half;
    if (!(low > 0) || (s->n_freq > 1 && s->freq_step_hz == 0))
        return msi_error_set(MSI_EINPUT,
                             "%s: its axis FREQ begins at %g Hz with steps of %g Hz; beams need frequencies", path,
                             s->freq_hz, s->freq_step_hz);
    if (set->low_hz >= low && set->high_hz <= high) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s: the beam is given from %g to %g MHz, but the channels are from %g to %g MHz; select "
                         "channels, or give a beam that covers them",
                         path, 1e-6 * low, 1e-6 * high, 1e-6 * set->low_hz, 1e-6 * set->high_hz);
}

/* Check that the samples lie within a step of the times. A file with one time is valid for half an hour. */
static int check_times(const msi_fits_screen *s, const char *path, const msi_pb_set *set)
{
    const double around_s = s->n_time > 1 ? s->time_step_s : 900,
                 end_s = s->time_s + (double)(s->n_time - 1) * s->time_step_s;
    if (set->first_s >= s->time_s - around_s && set->last_s <= end_s + around_s) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s: its times are MJD %.4f to %.4f, those of the set %.4f to %.4f; give beams of this set",
                         path, s->time_s / 86400, end_s / 86400, set->first_s / 86400, set->last_s / 86400);
}

/* Return the power of the first antenna at a distance from the middle, in the middle of the times. */
static double power_at(const msi_pb_cube *c, double freq_hz, double l, double m)
{
    const msi_fits_screen *s = &c->screen;
    const double n = sqrt(fmax(0, 1 - l * l - m * m));
    double sky[3], sum = 0;
    msi_c64 j[4];
    for (int i = 0; i < 3; i++) sky[i] = l * c->axes[0][i] + m * c->axes[1][i] + n * c->axes[2][i];
    const msi_pb_direction d = {.sky = sky, .mjd_s = s->time_s + 0.5 * (double)(s->n_time - 1) * s->time_step_s};
    msi_pb_cube_jones(c, 0, freq_hz, &d, j);
    for (int e = 0; e < 4; e++) sum += j[e].re * j[e].re + j[e].im * j[e].im;
    return sum / 2;
}

/* Find the smaller of the widths along l and m. */
static int measure_cube(msi_pb_cube *c, const char *path, double freq_hz)
{
    enum { STEPS = 512 };
    const msi_fits_screen *s = &c->screen;
    const double here = power_at(c, freq_hz, 0, 0),
                 size = fmin((double)(s->nx - 1) * fabs(s->step_rad[0]), (double)(s->ny - 1) * fabs(s->step_rad[1]));
    double half = size / 8;
    if (!(here > 0))
        return msi_error_set(MSI_EINPUT,
                             "%s: the power at its reference pixel, %g %g, is %g at %g MHz; a beam sees that direction",
                             path, s->centre[0] + 1, s->centre[1] + 1, here, 1e-6 * freq_hz);
    for (int k = 0; k < 2; k++)
        for (int i = 1; i < STEPS; i++) {
            const double r = size / 8 * i / STEPS;
            if (r < half && power_at(c, freq_hz, k ? 0 : r, k ? r : 0) < here / 2) half = r;
        }
    c->width_rad_hz = 2 * half * freq_hz;
    return MSI_OK;
}

int msi_pb_cube_read(msi_pb_cube **out, const char *path, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    msi_pb_cube *c;
    *out = NULL;
    MSI_TRY(msi_alloc(&c, 1, sizeof *c, "primary beam"));
    int rc = msi_fits_screen_read(&c->screen, path);
    const msi_fits_screen *s = &c->screen;
    if (!rc) rc = check_antennas(c, path, set);
    if (!rc) rc = check_cube_channels(s, path, set);
    if (!rc) rc = check_times(s, path, set);
    if (!rc) {
        msi_phase_shift_axes(s->ra_rad, s->dec_rad, c->axes);
        rc = measure_cube(c, path, set->high_hz);
    }
    if (rc) {
        msi_pb_cube_free(c);
        return rc;
    }
    snprintf(note, MSI_PB_NOTE, "%.120s, Jones matrices of %s, %lld frequenc%s, %lld time%s", path,
             s->n_antenna > 1 ? "each station" : "all stations", (long long)s->n_freq, s->n_freq == 1 ? "y" : "ies",
             (long long)s->n_time, msi_plural(s->n_time));
    *out = c;
    return MSI_OK;
}

void msi_pb_cube_free(msi_pb_cube *c)
{
    if (!c) return;
    msi_fits_screen_free(&c->screen);
    msi_free(c);
}

int msi_pb_cube_has_stations(const msi_pb_cube *c)
{
    return c->screen.n_antenna > 1;
}

double msi_pb_cube_width(const msi_pb_cube *c, double freq_hz)
{
    return c->width_rad_hz / freq_hz;
}
