/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/sky_list.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/log.h"
#include "core/memory.h"
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
        /* Reading changes the text. */
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
    struct stat st;
    if (fstat(fileno(f), &st) || !(S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode)))
        return msi_error_set(MSI_EINPUT, "%s: not a list of sources: neither a file nor a pipe", r->path);
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
    FILE *f = fopen(path, "re");
    if (!f) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
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
