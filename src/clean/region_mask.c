/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A region file is read in these steps:
 *   1. The text comes from the file, or is the argument itself. It is CASA's if it has "[[" or begins with #CRTF.
 *   2. Each command becomes a region: an ellipse, box, annulus or polygon with a centre in pixels or on the sky.
 *   3. The pixels around each region are tested.
 */
#include "src/clean/clean_mask.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"
#include "src/sky/phase_shift.h"

typedef enum shape { ELLIPSE, BOX, ANNULUS, POLYGON } shape;

/* Vectors are in the frame of the image: east, north and towards its centre. */
typedef struct vector {
    double x, y, z;
} vector;

typedef struct region {
    shape shape;
    int exclude, on_sky;
    double at[2];            /* centre, 0-based pixels, unless on_sky */
    vector east, north, out; /* unit vectors of a centre on the sky */
    double a, b;             /* half widths along and across the angle, or inner and outer radius; pixels or rad */
    double cosine,
        sine; /* cosine and sine of the angle from the axis of x, or from west, through the axis of y, or north */
    int64_t first, n_vertex; /* vertices of a polygon */
} region;

/* A position or length as read: a number of pixels or of radians. */
typedef struct quantity {
    double value;
    int in_pixels;
} quantity;

enum { MAX_ARGUMENTS = 4096 };

/* The state of reading. */
typedef struct reading {
    const char *path; /* names the source in messages */
    int64_t line;
    int is_casa;
    int on_sky; /* the frame of DS9's numbers without a unit */
    const msi_mask_target *target;
    region *region; /* [n] owned */
    int64_t n, capacity;
    double (*vertex)[2]; /* [n_vertex] pixels, owned */
    int64_t n_vertex, vertex_capacity;
    int n_argument;
    char *argument[MAX_ARGUMENTS];
    int has_range; /* a region has range= or corr= */
} reading;

static int line_error(const reading *r, const char *why, const char *text)
{
    return msi_error_set(MSI_EINPUT, "%s, line %lld: %s \"%.60s\"", r->path, (long long)r->line, why, text);
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    for (size_t n = strlen(text); n && strchr(" \t\r\n", text[n - 1]); n--) text[n - 1] = 0;
    return text;
}

/* ---- Directions and pixels ---- */

static double dot(const vector *a, const vector *b)
{
    return a->x * b->x + a->y * b->y + a->z * b->z;
}

/* Return the unit vector of a pixel position; on_sky 0: beyond the horizon. */
static vector vector_of_pixel(const msi_mask_target *t, double x, double y, int *on_sky)
{
    const msi_image_geometry *g = t->geometry;
    const double l = ((double)(g->nx / 2) - x) * g->cell_x_rad, m = (y - (double)(g->ny / 2)) * g->cell_y_rad;
    const double rest = 1 - l * l - m * m;
    *on_sky = rest > 0;
    return (vector){l, m, sqrt(fmax(rest, 0))};
}

/* Compute the directions east, north and outwards at a position, in the frame of the image. */
static void find_axes(const msi_mask_target *t, double ra, double dec, vector axis[3])
{
    msi_phase_shift turned;
    msi_phase_shift_make(&turned, t->ra_rad, t->dec_rad, ra, dec);
    for (int i = 0; i < 3; i++) axis[i] = (vector){turned.rotation[i][0], turned.rotation[i][1], turned.rotation[i][2]};
}

static int pixel_of_sky(const reading *r, double ra, double dec, double at[2])
{
    const msi_image_geometry *g = r->target->geometry;
    vector axis[3];
    find_axes(r->target, ra, dec, axis);
    at[0] = (double)(g->nx / 2) - axis[2].x / g->cell_x_rad;
    at[1] = (double)(g->ny / 2) + axis[2].y / g->cell_y_rad;
    return axis[2].z > 0 ? MSI_OK : line_error(r, "a position is on the other half of the sky:", r->argument[0]);
}

/* ---- Numbers ---- */

/* Read a number that may be followed by a unit of one character, which is removed. Returns: the unit; 0 if there is
 * none; -1 if the text is anything else */
static int read_with_unit(char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    if (end == text || !isfinite(*value)) return -1;
    if (*end && end[1]) return -1;
    return (unsigned char)*end;
}

/* DS9 counts pixels from 1, CASA from 0. */
static int read_position(const reading *r, char *text, int is_dec, quantity *q)
{
    static const double DEG = MSI_PI / 180;
    const size_t n = strlen(text);
    char *end;
    if (r->is_casa && n > 3 && strcasecmp(text + n - 3, "pix") == 0) {
        *q = (quantity){strtod(text, &end), 1};
        return end == text + n - 3 && isfinite(q->value) ? MSI_OK : line_error(r, "not a position:", text);
    }
    const int unit = r->is_casa ? -1 : read_with_unit(text, &q->value);
    q->in_pixels = unit == 'i' || unit == 'p' || (unit == 0 && !r->on_sky);
    if (q->in_pixels) {
        q->value -= 1;
        return MSI_OK;
    }
    if (unit == 'r') return MSI_OK;
    if (unit == 0 || unit == 'd') {
        q->value *= DEG;
        return MSI_OK;
    }
    const int rc = is_dec ? msi_parse_dec(&q->value, "Dec", text) : msi_parse_ra(&q->value, "Ra", text);
    return rc ? line_error(r, is_dec ? "not a declination:" : "not a right ascension:", text) : MSI_OK;
}

static int read_length(const reading *r, char *text, quantity *q)
{
    static const double DEG = MSI_PI / 180;
    const size_t n = strlen(text);
    char *end;
    q->in_pixels = 0;
    if (r->is_casa && n > 3 && strcasecmp(text + n - 3, "pix") == 0) {
        *q = (quantity){strtod(text, &end), 1};
        if (end != text + n - 3) q->value = NAN;
    } else {
        const int unit = read_with_unit(text, &q->value);
        if (unit == '"')
            q->value *= DEG / 3600;
        else if (unit == '\'')
            q->value *= DEG / 60;
        else if (r->is_casa)
            q->value = msi_parse_angle(&q->value, "length", text) ? NAN : q->value;
        else if (unit == 'd' || (unit == 0 && r->on_sky))
            q->value *= DEG;
        else if (unit == 0 || unit == 'i' || unit == 'p')
            q->in_pixels = 1;
        else if (unit != 'r')
            q->value = NAN;
    }
    return q->value >= 0 && isfinite(q->value) ? MSI_OK : line_error(r, "not a length:", text);
}

static int read_angle(const reading *r, char *text, double *rad)
{
    const int unit = read_with_unit(text, rad);
    if (!r->is_casa && (unit == 0 || unit == 'd')) {
        *rad *= MSI_PI / 180;
        return MSI_OK;
    }
    return unit != 0 && !msi_parse_angle(rad, "angle", text) ? MSI_OK : line_error(r, "not an angle:", text);
}

/* ---- Regions ---- */

static int add_region(reading *r, const region *added)
{
    if (r->n == r->capacity) {
        const int64_t capacity = r->capacity ? 2 * r->capacity : 64;
        MSI_TRY(msi_grow(&r->region, r->n, capacity, sizeof *r->region, "regions"));
        r->capacity = capacity;
    }
    r->region[r->n++] = *added;
    return MSI_OK;
}

static int add_vertex(reading *r, const double at[2])
{
    if (r->n_vertex == r->vertex_capacity) {
        const int64_t capacity = r->vertex_capacity ? 2 * r->vertex_capacity : 256;
        MSI_TRY(msi_grow(&r->vertex, r->n_vertex, capacity, sizeof *r->vertex, "regions"));
        r->vertex_capacity = capacity;
    }
    memcpy(r->vertex[r->n_vertex++], at, sizeof *r->vertex);
    return MSI_OK;
}

/* FK5 and ICRS differ by some hundredths of an arcsecond. */
static int check_sky(const reading *r)
{
    const char *frame = r->target->frame;
    if (!*frame || strcasecmp(frame, "J2000") == 0 || strcasecmp(frame, "ICRS") == 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s, line %lld: the region is in J2000, but the image is in %s; give it in pixels",
                         r->path, (long long)r->line, frame);
}

/* Read the position of arguments i and i + 1. */
static int read_place(const reading *r, int i, quantity place[2])
{
    for (int k = 0; k < 2; k++) MSI_TRY(read_position(r, r->argument[i + k], k, &place[k]));
    if (place[0].in_pixels != place[1].in_pixels)
        return line_error(r, "a position is partly in pixels:", r->argument[i]);
    return place[0].in_pixels ? MSI_OK : check_sky(r);
}

static int read_pixel(const reading *r, int i, double at[2])
{
    quantity place[2];
    MSI_TRY(read_place(r, i, place));
    if (!place[0].in_pixels) return pixel_of_sky(r, place[0].value, place[1].value, at);
    for (int k = 0; k < 2; k++) at[k] = place[k].value;
    return MSI_OK;
}

/* Set the centre of a region in the unit of its lengths. */
static int set_centre(const reading *r, region *to, int in_pixels)
{
    quantity place[2];
    vector axis[3];
    to->on_sky = !in_pixels;
    if (in_pixels) return read_pixel(r, 0, to->at);
    MSI_TRY(read_place(r, 0, place));
    MSI_TRY(check_sky(r));
    double ra = place[0].value, dec = place[1].value;
    if (place[0].in_pixels) {
        const msi_mask_target *t = r->target;
        int on_sky;
        const vector v = vector_of_pixel(t, ra, dec, &on_sky);
        if (!on_sky) return line_error(r, "a position is beyond the horizon:", r->argument[0]);
        const double up = v.z * cos(t->dec_rad) - v.y * sin(t->dec_rad);
        ra = t->ra_rad + atan2(v.x, up);
        dec = atan2(v.z * sin(t->dec_rad) + v.y * cos(t->dec_rad), hypot(v.x, up));
    }
    find_axes(r->target, ra, dec, axis);
    to->east = axis[0];
    to->north = axis[1];
    to->out = axis[2];
    return MSI_OK;
}

/* Read two lengths, beginning with argument i; the second may be the first again. */
static int read_lengths(const reading *r, int i, int k, region *to)
{
    quantity a, b;
    MSI_TRY(read_length(r, r->argument[i], &a));
    MSI_TRY(read_length(r, r->argument[k], &b));
    if (a.in_pixels != b.in_pixels) return line_error(r, "one of two lengths is in pixels:", r->argument[i]);
    to->a = a.value;
    to->b = b.value;
    return set_centre(r, to, a.in_pixels);
}

static int read_polygon(reading *r, region *to)
{
    double at[2];
    to->first = r->n_vertex;
    to->n_vertex = r->n_argument / 2;
    for (int i = 0; i < r->n_argument; i += 2) {
        MSI_TRY(read_pixel(r, i, at));
        MSI_TRY(add_vertex(r, at));
    }
    return MSI_OK;
}

/* CASA's box has two opposite corners. Its sides are parallel to the rows and columns. */
static int read_corners(const reading *r, region *to)
{
    double corner[2][2];
    for (int i = 0; i < 2; i++) MSI_TRY(read_pixel(r, 2 * i, corner[i]));
    for (int k = 0; k < 2; k++) to->at[k] = 0.5 * (corner[0][k] + corner[1][k]);
    to->a = 0.5 * fabs(corner[1][0] - corner[0][0]);
    to->b = 0.5 * fabs(corner[1][1] - corner[0][1]);
    return MSI_OK;
}

/* A row of the table of shapes of DS9 or CASA. */
typedef struct form {
    const char *name;
    int is_casa, least, most; /* numbers of arguments */
    shape shape;
    double lengths; /* factor of the half width */
    int angle;      /* argument of the angle; 0: none */
    double turned;  /* added to the angle, in degrees */
} form;

static const form FORMS[] = {
    {"circle", 0, 3, 3, ELLIPSE, 1, 0, 0},
    {"ellipse", 0, 4, 5, ELLIPSE, 1, 4, 0},
    {"box", 0, 4, 5, BOX, 0.5, 4, 0},
    {"rotbox", 0, 5, 5, BOX, 0.5, 4, 0},
    {"polygon", 0, 6, MAX_ARGUMENTS, POLYGON, 1, 0, 0},
    {"annulus", 0, 4, MAX_ARGUMENTS, ANNULUS, 1, 0, 0},
    {"circle", 1, 3, 3, ELLIPSE, 1, 0, 0},
    /* The first axis lies at the position angle, from north through east. */
    {"ellipse", 1, 5, 5, ELLIPSE, 1, 4, 90},
    {"centerbox", 1, 4, 4, BOX, 0.5, 0, 0},
    {"rotbox", 1, 5, 5, BOX, 0.5, 4, 0},
    {"box", 1, 4, 4, BOX, 1, 0, 0},
    {"poly", 1, 6, MAX_ARGUMENTS, POLYGON, 1, 0, 0},
    {"annulus", 1, 4, 4, ANNULUS, 1, 0, 0},
};

static int read_region(reading *r, const char *name, int exclude)
{
    const form *f = NULL;
    region to = {.exclude = exclude, .cosine = 1};
    double angle = 0;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++)
        if (FORMS[i].is_casa == r->is_casa && strcasecmp(FORMS[i].name, name) == 0) f = &FORMS[i];
    if (!f)
        return line_error(r,
                          r->is_casa ? "unknown shape (use circle, ellipse, box, centerbox, rotbox, poly, annulus):"
                                     : "unknown shape (use circle, ellipse, box, polygon, annulus):",
                          name);
    if (r->n_argument < f->least || r->n_argument > f->most || (f->shape == POLYGON && r->n_argument % 2))
        return msi_error_set(MSI_EINPUT, "%s, line %lld: %s has %d numbers, expected %d%s", r->path, (long long)r->line,
                             name, r->n_argument, f->least, f->most > f->least ? " or more" : "");
    to.shape = f->shape;
    if (f->shape == POLYGON) {
        MSI_TRY(read_polygon(r, &to));
        return add_region(r, &to);
    }
    if (r->is_casa && strcasecmp(name, "box") == 0) {
        MSI_TRY(read_corners(r, &to));
        return add_region(r, &to);
    }
    /* DS9 has annuli of several rings. */
    MSI_TRY(read_lengths(r, 2, r->n_argument == 3 ? 2 : f->shape == ANNULUS ? r->n_argument - 1 : 3, &to));
    to.a *= f->lengths;
    to.b *= f->lengths;
    if (f->angle && r->n_argument > f->angle) MSI_TRY(read_angle(r, r->argument[f->angle], &angle));
    angle += f->turned * MSI_PI / 180;
    to.cosine = cos(angle);
    to.sine = sin(angle);
    if (f->shape == ANNULUS && to.a > to.b)
        return line_error(r, "the inner radius is larger than the outer one:", r->argument[2]);
    return add_region(r, &to);
}

/* Split a text at commas, spaces and the given brackets into arguments. */
static int split(reading *r, char *text, const char *between)
{
    char *rest;
    r->n_argument = 0;
    for (char *word = strtok_r(text, between, &rest); word; word = strtok_r(NULL, between, &rest)) {
        if (r->n_argument == MAX_ARGUMENTS) return line_error(r, "too many numbers, from", word);
        r->argument[r->n_argument++] = word;
    }
    return MSI_OK;
}

/* ---- DS9's commands ---- */

static const char UNKNOWN_FRAME[] = "unknown frame (use fk5, icrs, j2000, image or physical):";

/* Set the frame of a name of DS9. Returns: 1; 0 if the word is no frame; MSI_EINPUT */
static int set_frame(reading *r, const char *word)
{
    static const char *const other[] = {"fk4",  "b1950",    "galactic",  "ecliptic", "supergalactic", "wcs",
                                        "wcsa", "detector", "amplifier", "linear",   "gappt",         "unknown"};
    const int sky = strcasecmp(word, "fk5") == 0 || strcasecmp(word, "icrs") == 0 || strcasecmp(word, "j2000") == 0;
    const int pixel = strcasecmp(word, "image") == 0 || strcasecmp(word, "physical") == 0;
    if (sky || pixel) {
        r->on_sky = sky;
        return 1;
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strcasecmp(word, other[i]) == 0) return line_error(r, UNKNOWN_FRAME, word);
    return 0;
}

static int read_ds9_command(reading *r, char *text)
{
    int exclude = 0;
    text = trim(text);
    if (*text == '+' || *text == '-') exclude = *text++ == '-';
    text = trim(text);
    if (!*text) return MSI_OK;
    char *end = text + strcspn(text, " \t(,");
    const char after = *end;
    *end = 0;
    if (strcasecmp(text, "global") == 0) return MSI_OK;
    const int rc = set_frame(r, text);
    if (rc < 0) return rc;
    /* A frame may precede a shape on the same line. */
    if (rc) return after ? read_ds9_command(r, end + 1) : MSI_OK;
    if (!after) return line_error(r, UNKNOWN_FRAME, text);
    char *arguments = after ? end + 1 : end;
    arguments[strcspn(arguments, ")|")] = 0;
    MSI_TRY(split(r, arguments, " \t,("));
    return read_region(r, text, exclude);
}

static int read_ds9_line(reading *r, char *line)
{
    char *rest;
    line[strcspn(line, "#")] = 0;
    if (strncasecmp(trim(line), "global", 6) == 0) return MSI_OK;
    for (char *command = strtok_r(line, ";", &rest); command; command = strtok_r(NULL, ";", &rest))
        MSI_TRY(read_ds9_command(r, command));
    return MSI_OK;
}

/* ---- CASA's lines ---- */

/* Check the frame of coord=, and note range= and corr=. */
static int read_casa_keys(reading *r, const char *text)
{
    const char *coord = strcasestr(text, "coord");
    r->has_range |= strcasestr(text, "range") || strcasestr(text, "corr");
    if (!coord) return MSI_OK;
    coord += strcspn(coord, "=");
    char frame[24] = "";
    sscanf(coord, "=%*[ '\"]%23[A-Za-z0-9_]", frame);
    if (!*frame) sscanf(coord, "=%23[A-Za-z0-9_]", frame);
    if (strcasecmp(frame, "J2000") == 0 || strcasecmp(frame, "ICRS") == 0 || strcasecmp(frame, "FK5") == 0)
        return MSI_OK;
    return line_error(r, "unknown frame (use J2000 or ICRS):", frame);
}

static int read_casa_line(reading *r, char *line)
{
    int exclude = 0, depth = 0;
    line = trim(line);
    if (!*line || *line == '#') return MSI_OK;
    if (*line == '+' || *line == '-') exclude = *line++ == '-';
    line = trim(line);
    if (strncasecmp(line, "global", 6) == 0 && (isspace((unsigned char)line[6]) || !line[6]))
        return read_casa_keys(r, line + 6);
    /* An annotation is not a region. */
    if (strncasecmp(line, "ann", 3) == 0 && isspace((unsigned char)line[3])) return MSI_OK;
    char *open = strchr(line, '['), *end = open;
    if (!open) return line_error(r, "not a region:", line);
    for (; *end; end++) {
        depth += (*end == '[') - (*end == ']');
        if (!depth) break;
    }
    if (!*end) return line_error(r, "a bracket is not closed:", line);
    *open = *end = 0;
    MSI_TRY(read_casa_keys(r, end + 1));
    MSI_TRY(split(r, open + 1, "[], \t"));
    return read_region(r, trim(line), exclude);
}

/* ---- The text ---- */

static int read_lines(reading *r, char *text)
{
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        r->line++;
        MSI_TRY(r->is_casa ? read_casa_line(r, line) : read_ds9_line(r, line));
    }
    if (!r->n) return msi_error_set(MSI_EINPUT, "%s: it has no region", r->path);
    return MSI_OK;
}

/* Read a file into memory, or copy a text. Returned: *text, owned */
static int load_text(const char *from, char **text)
{
    int64_t n;
    if (strstr(from, "[[") && access(from, R_OK) != 0) {
        MSI_TRY(msi_alloc(text, (int64_t)strlen(from) + 1, 1, "regions"));
        strcpy(*text, from);
        return MSI_OK;
    }
    MSI_TRY(msi_text_file_read(text, &n, from, "a region file"));
    int rc = MSI_OK;
    if (strncmp(*text, "SIMPLE  =", 9) == 0)
        rc = msi_error_set(MSI_EINPUT, "%s: a FITS image, not a region file; give -fits-mask", from);
    else if ((int64_t)strlen(*text) != n)
        rc = msi_error_set(MSI_EINPUT, "%s: not a region file", from);
    if (!rc) return MSI_OK;
    msi_free(*text);
    *text = NULL;
    return rc;
}

/* ---- Pixels ---- */

/* Return 1 if an offset from the centre is inside a region that is not a polygon. */
static int is_inside(const region *g, double dx, double dy)
{
    const double u = dx * g->cosine + dy * g->sine, v = dy * g->cosine - dx * g->sine;
    switch (g->shape) {
    case ELLIPSE:
        return g->a > 0 && g->b > 0 ? u * u / (g->a * g->a) + v * v / (g->b * g->b) <= 1 : u == 0 && v == 0;
    case BOX:
        return fabs(u) <= g->a && fabs(v) <= g->b;
    default:
        return u * u + v * v >= g->a * g->a && u * u + v * v <= g->b * g->b;
    }
}

/* Return 1 if a pixel is inside a polygon: a ray to the right crosses its sides an odd number of times. */
static int is_in_polygon(const double (*vertex)[2], int64_t n, double x, double y)
{
    int inside = 0;
    for (int64_t i = 0, k = n - 1; i < n; k = i++) {
        const double *a = vertex[i], *b = vertex[k];
        if ((a[1] > y) != (b[1] > y) && x < a[0] + (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1])) inside = !inside;
    }
    return inside;
}

static int is_pixel_inside(const reading *r, const region *g, int64_t x, int64_t y)
{
    int on_sky;
    if (g->shape == POLYGON)
        return is_in_polygon((const double(*)[2])r->vertex + g->first, g->n_vertex, (double)x, (double)y);
    if (!g->on_sky) return is_inside(g, (double)x - g->at[0], (double)y - g->at[1]);
    const vector p = vector_of_pixel(r->target, (double)x, (double)y, &on_sky);
    if (!on_sky) return 0;
    const double east = dot(&p, &g->east), north = dot(&p, &g->north), out = dot(&p, &g->out),
                 side = hypot(east, north);
    const double scale = side > 0 ? atan2(side, out) / side : 1;
    return is_inside(g, -east * scale, north * scale);
}

/* Find the pixels that a region may contain, both ends included. */
static void find_bounds(const reading *r, const region *g, int64_t low[2], int64_t high[2])
{
    const msi_image_geometry *image = r->target->geometry;
    const double n[2] = {(double)image->nx, (double)image->ny}, cell[2] = {image->cell_x_rad, image->cell_y_rad};
    /* The projection makes no distance longer. */
    const double reach = g->shape == BOX ? hypot(g->a, g->b) : fmax(g->a, g->b);
    for (int k = 0; k < 2; k++) {
        double from = 0, to = n[k] - 1;
        if (g->shape == POLYGON) {
            from = to = r->vertex[g->first][k];
            for (int64_t i = 1; i < g->n_vertex; i++) {
                from = fmin(from, r->vertex[g->first + i][k]);
                to = fmax(to, r->vertex[g->first + i][k]);
            }
        } else if (!g->on_sky) {
            from = g->at[k] - reach;
            to = g->at[k] + reach;
        } else if (g->out.z > 0) {
            const double at = k ? floor(n[1] / 2) + g->out.y / cell[1] : floor(n[0] / 2) - g->out.x / cell[0];
            from = at - reach / cell[k];
            to = at + reach / cell[k];
        }
        low[k] = (int64_t)fmin(fmax(floor(from), 0), n[k]);
        high[k] = (int64_t)fmax(fmin(ceil(to), n[k] - 1), -1);
    }
}

static int draw_region(const reading *r, const region *g, uint8_t *mask)
{
    int64_t low[2], high[2];
    find_bounds(r, g, low, high);
    for (int64_t y = low[1]; y <= high[1]; y++) {
        MSI_TRY(msi_interrupt_check());
        for (int64_t x = low[0]; x <= high[0]; x++)
            if (is_pixel_inside(r, g, x, y)) mask[y * r->target->geometry->nx + x] = !g->exclude;
    }
    return MSI_OK;
}

/* Draw the regions. If all regions of DS9 exclude, or the first one of CASA does, pixels are excluded from the whole
 * image. */
static int draw_regions(const reading *r, msi_clean_mask *mask)
{
    const int64_t n = mask->nx * mask->ny;
    int has_included = 0;
    for (int64_t i = 0; i < r->n && (!r->is_casa || i == 0); i++) has_included |= !r->region[i].exclude;
    memset(mask->pixel, !has_included, (size_t)n);
    for (int pass = 0; pass < (r->is_casa ? 1 : 2); pass++)
        for (int64_t i = 0; i < r->n; i++)
            if (r->is_casa || r->region[i].exclude == pass) MSI_TRY(draw_region(r, &r->region[i], mask->pixel));
    return MSI_OK;
}

int msi_clean_mask_region(msi_clean_mask *mask, const char *from, const msi_mask_target *t)
{
    reading *r;
    char *text = NULL;
    *mask = (msi_clean_mask){0};
    MSI_TRY(msi_alloc(&r, 1, sizeof *r, "regions"));
    r->path = from;
    r->target = t;
    int rc = load_text(from, &text);
    if (!rc) {
        r->is_casa = strncasecmp(text, "#CRTF", 5) == 0 || strstr(text, "[[") != NULL;
        rc = read_lines(r, text);
    }
    if (!rc && r->has_range)
        msi_log_warning("%s: range= and corr= are not used; the mask is for all channels and polarisations", from);
    *mask = (msi_clean_mask){.nx = t->geometry->nx, .ny = t->geometry->ny, .n_plane = 1};
    if (!rc) rc = msi_alloc(&mask->pixel, mask->nx * mask->ny, 1, "a mask");
    if (!rc) rc = draw_regions(r, mask);
    if (rc) {
        msi_free(mask->pixel);
        *mask = (msi_clean_mask){0};
    }
    msi_free(text);
    msi_free(r->region);
    msi_free(r->vertex);
    msi_free(r);
    return rc;
}
