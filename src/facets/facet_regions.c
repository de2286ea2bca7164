/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Label each pixel with its facet:
 *   1. Read polygons, convert their vertices to pixels, and fill them row by row; or label each pixel with the nearest
 *      of a list of directions.
 *   2. Close gaps and overlaps of at most SLACK pixels, which come from rounded vertices. Refuse wider ones.
 *   3. Find the box of each facet.
 */
#include "src/facets/facet_regions.h"

#include <ctype.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"
#include "src/sky/phase_shift.h"

enum { SLACK = 2, MOST_FACETS = INT16_MAX, LEAST_EDGE = 16 };

static const double DEG = MSI_PI / 180;

/* ---- Directions and pixels ---- */

/* Convert a right ascension and declination to l, m, n of an image. */
static void direction_of(const msi_facet_target *t, double ra, double dec, double lmn[3])
{
    msi_phase_shift shift;
    msi_phase_shift_make(&shift, t->ra_rad, t->dec_rad, ra, dec);
    memcpy(lmn, shift.direction, 3 * sizeof *lmn);
    lmn[2] += 1;
}

static void pixel_of(const msi_image_geometry *g, const double lmn[3], double at[2])
{
    at[0] = (double)(g->nx / 2) - lmn[0] / g->cell_x_rad;
    at[1] = (double)(g->ny / 2) + lmn[1] / g->cell_y_rad;
}

/* Convert a pixel position to right ascension and declination. A position beyond the horizon is moved to the
 * horizon. */
static void sky_of(const msi_facet_target *t, const double at[2], double *ra, double *dec)
{
    const msi_image_geometry *g = &t->geometry;
    double l = ((double)(g->nx / 2) - at[0]) * g->cell_x_rad, m = (at[1] - (double)(g->ny / 2)) * g->cell_y_rad;
    const double r = hypot(l, m);
    if (r > 1) {
        l /= r;
        m /= r;
    }
    const double n = sqrt(fmax(0, 1 - l * l - m * m)), up = n * cos(t->dec_rad) - m * sin(t->dec_rad);
    *ra = t->ra_rad + atan2(l, up);
    *dec = atan2(n * sin(t->dec_rad) + m * cos(t->dec_rad), hypot(l, up));
    if (*ra < 0) *ra += 2 * MSI_PI;
    if (*ra >= 2 * MSI_PI) *ra -= 2 * MSI_PI;
}

static int is_on_sky(const msi_image_geometry *g, int64_t x, int64_t y)
{
    const double l = (double)(g->nx / 2 - x) * g->cell_x_rad, m = (double)(y - g->ny / 2) * g->cell_y_rad;
    return l * l + m * m < 1;
}

/* ---- Files ---- */

/* Read a text file into memory. Returned: *text, owned */
static int load_text(const char *path, char **text)
{
    int64_t n;
    MSI_TRY(msi_text_file_read(text, &n, path, "a file of facets"));
    if ((int64_t)strlen(*text) == n) return MSI_OK;
    msi_free(*text);
    *text = NULL;
    return msi_error_set(MSI_EINPUT, "%s: not a text file of facets", path);
}

/* FK5 and ICRS differ by some hundredths of an arcsecond. */
static int check_frame(const char *path, const char *frame)
{
    if (!*frame || strcasecmp(frame, "J2000") == 0 || strcasecmp(frame, "ICRS") == 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: the facets are in J2000, but the image is in %s; select a field in J2000",
                         path, frame);
}

/* ---- Polygons ---- */

typedef struct polygon {
    int64_t line, first, n_vertex;
} polygon;

typedef struct reading {
    const char *path;
    int64_t line;
    const msi_facet_target *target;
    polygon *polygon; /* [n] owned, as the facets and vertices */
    msi_facet *facet; /* [n] */
    int64_t n, capacity;
    double (*vertex)[2]; /* [n_vertex] pixels */
    int64_t n_vertex, vertex_capacity;
} reading;

static int line_error(const reading *r, const char *why, const char *text)
{
    return msi_error_set(MSI_EINPUT, "%s, line %lld: %s \"%.60s\"", r->path, (long long)r->line, why, text);
}

/* Read a coordinate: degrees, or parts separated by colons or letters. */
static int read_coordinate(const reading *r, const char *text, int is_dec, double *rad)
{
    char *end;
    *rad = strtod(text, &end) * DEG;
    if (end > text && (!*end || (*end == 'd' && !end[1])) && isfinite(*rad)) {
        if (!is_dec || fabs(*rad) <= 0.5 * MSI_PI) return MSI_OK;
    } else if (!(is_dec ? msi_parse_dec(rad, "Dec", text) : msi_parse_ra(rad, "Ra", text))) {
        return MSI_OK;
    }
    return line_error(r, is_dec ? "not a declination:" : "not a right ascension:", text);
}

static int add_vertex(reading *r, double ra, double dec)
{
    double lmn[3];
    direction_of(r->target, ra, dec, lmn);
    if (!(lmn[2] > 0))
        return msi_error_set(MSI_EINPUT, "%s, line %lld: a vertex is on the other half of the sky", r->path,
                             (long long)r->line);
    if (r->n_vertex == r->vertex_capacity) {
        const int64_t capacity = r->vertex_capacity ? 2 * r->vertex_capacity : 256;
        MSI_TRY(msi_grow(&r->vertex, r->n_vertex, capacity, sizeof *r->vertex, "facets"));
        r->vertex_capacity = capacity;
    }
    pixel_of(&r->target->geometry, lmn, r->vertex[r->n_vertex++]);
    return MSI_OK;
}

/* Compute the centroid of a polygon, in pixels. */
static void find_centroid(const reading *r, const polygon *p, double at[2])
{
    const double(*v)[2] = (const double(*)[2])r->vertex + p->first;
    double area = 0, sum[2] = {0}, mean[2] = {0};
    for (int64_t i = 0, k = p->n_vertex - 1; i < p->n_vertex; k = i++) {
        /* Offsets from the first vertex keep the products small. */
        const double a[2] = {v[k][0] - v[0][0], v[k][1] - v[0][1]}, b[2] = {v[i][0] - v[0][0], v[i][1] - v[0][1]};
        const double cross = a[0] * b[1] - b[0] * a[1];
        area += cross;
        for (int c = 0; c < 2; c++) {
            sum[c] += cross * (a[c] + b[c]) / 3;
            mean[c] += b[c] / (double)p->n_vertex;
        }
    }
    for (int c = 0; c < 2; c++) at[c] = v[0][c] + (area != 0 ? sum[c] / area : mean[c]);
}

/* Read the pairs of numbers between brackets, and pass each pair to put(). Returned: *after  the rest of the line */
static int read_numbers(reading *r, const char *name, char *text, char **after, int (*put)(reading *, double, double))
{
    char *open = text + strspn(text, " \t"), *rest;
    if (*open != '(') return line_error(r, "no ( after", name);
    char *end = strchr(open, ')');
    if (!end) return line_error(r, "no ) after", name);
    *end = 0;
    *after = end + 1;
    double value[2];
    int64_t n = 0;
    for (char *word = strtok_r(open + 1, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest), n++) {
        MSI_TRY(read_coordinate(r, word, n % 2, &value[n % 2]));
        if (n % 2) MSI_TRY(put(r, value[0], value[1]));
    }
    if (n % 2 || !n) return line_error(r, "not pairs of right ascension and declination after", name);
    return MSI_OK;
}

/* Set the direction of the last polygon. */
static int put_direction(reading *r, double ra, double dec)
{
    r->facet[r->n - 1].ra_rad = ra < 0 ? ra + 2 * MSI_PI : ra;
    r->facet[r->n - 1].dec_rad = dec;
    return MSI_OK;
}

static int read_polygon(reading *r, char *text, char **after)
{
    if (r->n == MOST_FACETS) return line_error(r, "too many facets, from", text);
    if (r->n == r->capacity) {
        const int64_t capacity = r->capacity ? 2 * r->capacity : 64;
        MSI_TRY(msi_grow(&r->polygon, r->n, capacity, sizeof *r->polygon, "facets"));
        MSI_TRY(msi_grow(&r->facet, r->n, capacity, sizeof *r->facet, "facets"));
        r->capacity = capacity;
    }
    polygon *p = &r->polygon[r->n];
    r->facet[r->n] = (msi_facet){0};
    *p = (polygon){.line = r->line, .first = r->n_vertex};
    MSI_TRY(read_numbers(r, "polygon", text, after, add_vertex));
    p->n_vertex = r->n_vertex - p->first;
    /* The first vertex may be repeated at the end. */
    const double *first = r->vertex[p->first], *last = r->vertex[r->n_vertex - 1];
    if (p->n_vertex > 1 && fabs(first[0] - last[0]) < 1e-6 && fabs(first[1] - last[1]) < 1e-6) {
        p->n_vertex--;
        r->n_vertex--;
    }
    if (p->n_vertex < 3) return line_error(r, "fewer than three vertices in", "polygon");
    double at[2], ra, dec;
    find_centroid(r, p, at);
    sky_of(r->target, at, &ra, &dec);
    r->n++;
    return put_direction(r, ra, dec);
}

/* Copy the name of text=NAME, text={NAME} or text="NAME". */
static void read_name(reading *r, const char *comment)
{
    const char *text = strstr(comment, "text=");
    char *to = r->n ? r->facet[r->n - 1].name : NULL;
    if (!text || !to) return;
    text += strlen("text=");
    const char end = *text == '{' ? '}' : *text == '"' || *text == '\'' ? *text : 0;
    if (end) text++;
    size_t n = 0;
    while (text[n] && (end ? text[n] != end : !isspace((unsigned char)text[n])) && n + 1 < sizeof r->facet->name) n++;
    memcpy(to, text, n);
    to[n] = 0;
}

/* Return 1 if a word names the frame of the image, -1 another frame, 0 no frame. */
static int frame_of(const char *word, size_t n)
{
    static const char *const known[] = {"fk5", "icrs", "j2000"}, *const other[] = {"fk4",      "b1950", "galactic",
                                                                                   "ecliptic", "image", "physical",
                                                                                   "detector", "wcs"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == n && strncasecmp(word, known[i], n) == 0) return 1;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strlen(other[i]) == n && strncasecmp(word, other[i], n) == 0) return -1;
    return 0;
}

static int read_line(reading *r, char *line)
{
    char *comment = strchr(line, '#');
    if (comment) *comment++ = 0;
    for (;;) {
        line += strspn(line, " \t\r;+");
        const size_t n = strcspn(line, " \t\r;(");
        if (!n && !*line) break;
        if (n == 6 && strncasecmp(line, "global", n) == 0) return MSI_OK;
        const int frame = frame_of(line, n);
        /* A word without numbers is a frame. */
        if (frame < 0 || (frame == 0 && !strchr(line, '(')))
            return line_error(r, "unknown frame (use fk5, icrs or j2000):", line);
        if (frame > 0) {
            line += n;
        } else if (n == 7 && strncasecmp(line, "polygon", n) == 0) {
            MSI_TRY(read_polygon(r, line + n, &line));
        } else if (n == 5 && strncasecmp(line, "point", n) == 0) {
            if (!r->n) return line_error(r, "no polygon before", "point");
            MSI_TRY(read_numbers(r, "point", line + n, &line, put_direction));
        } else {
            return line_error(r, "unknown shape (use polygon and point):", line);
        }
    }
    if (comment) read_name(r, comment);
    return MSI_OK;
}

static int read_lines(reading *r, char *text)
{
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        r->line++;
        MSI_TRY(read_line(r, line));
    }
    return r->n ? MSI_OK : msi_error_set(MSI_EINPUT, "%s: it has no polygon, so there are no facets", r->path);
}

/* ---- Labels of polygons ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Return a number of pixels within [0, n]. */
static int64_t clamp(double x, int64_t n)
{
    return x <= 0 ? 0 : x >= (double)n ? n : (int64_t)x;
}

/* Label the pixels of a polygon. Given: crossing [n_vertex]  scratch. Returned: over [ny][nx]  1 where another facet
 * already has the pixel */
static void fill_polygon(const reading *r, int i, double *crossing, int16_t *label, uint8_t *over)
{
    const msi_image_geometry *g = &r->target->geometry;
    const polygon *p = &r->polygon[i];
    const double(*v)[2] = (const double(*)[2])r->vertex + p->first;
    double low = INFINITY, high = -INFINITY;
    for (int64_t k = 0; k < p->n_vertex; k++) {
        low = fmin(low, v[k][1]);
        high = fmax(high, v[k][1]);
    }
    for (int64_t y = clamp(ceil(low), g->ny); y < clamp(floor(high) + 1, g->ny); y++) {
        size_t n = 0;
        for (int64_t k = 0, j = p->n_vertex - 1; k < p->n_vertex; j = k++) {
            const double *a = v[k], *b = v[j], at = (double)y;
            if ((a[1] > at) != (b[1] > at)) crossing[n++] = a[0] + (b[0] - a[0]) * (at - a[1]) / (b[1] - a[1]);
        }
        qsort(crossing, n, sizeof *crossing, compare);
        for (size_t k = 0; k + 1 < n; k += 2)
            for (int64_t x = clamp(ceil(crossing[k]), g->nx); x < clamp(ceil(crossing[k + 1]), g->nx); x++) {
                const int64_t at = y * g->nx + x;
                if (!is_on_sky(g, x, y)) continue;
                if (label[at] >= 0) {
                    over[at] = 1;
                } else {
                    label[at] = (int16_t)i;
                    r->facet[i].n_pixel++;
                }
            }
    }
}

/* Describe a pixel for messages. */
static void describe_pixel(const msi_facet_target *t, int64_t at, char *text, size_t size)
{
    const double place[2] = {(double)(at % t->geometry.nx), (double)(at / t->geometry.nx)};
    double ra, dec;
    sky_of(t, place, &ra, &dec);
    snprintf(text, size, "pixel %lld, %lld (ra %.4f, dec %.4f deg)", (long long)(at % t->geometry.nx),
             (long long)(at / t->geometry.nx), ra / DEG, dec / DEG);
}

/* Refuse overlaps that are wider than SLACK. */
static int check_overlap(const reading *r, const uint8_t *over)
{
    const msi_image_geometry *g = &r->target->geometry;
    char place[96];
    for (int64_t at = 0; at < g->nx * g->ny; at++) {
        int is_wide = over[at];
        const int64_t x = at % g->nx, y = at / g->nx;
        for (int64_t dy = -SLACK; is_wide && dy <= SLACK; dy++)
            for (int64_t dx = -SLACK; is_wide && dx <= SLACK; dx++)
                if (x + dx >= 0 && x + dx < g->nx && y + dy >= 0 && y + dy < g->ny)
                    is_wide = over[at + dy * g->nx + dx];
        if (!is_wide) continue;
        describe_pixel(r->target, at, place, sizeof place);
        return msi_error_set(MSI_EINPUT, "%s: facets overlap at %s; each pixel must belong to one facet", r->path,
                             place);
    }
    return MSI_OK;
}

/* Give each free pixel the label of a neighbour that has one. Returns: the number of pixels that were free */
static int64_t close_gaps(const msi_image_geometry *g, int16_t *label, int16_t *next)
{
    int64_t n_free = 0;
    memcpy(next, label, sizeof *label * (size_t)(g->nx * g->ny));
#pragma omp parallel for schedule(static) reduction(+ : n_free)
    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++) {
            const int64_t at = y * g->nx + x;
            if (label[at] >= 0 || !is_on_sky(g, x, y)) continue;
            n_free++;
            for (int64_t k = 0; k < 9 && next[at] < 0; k++) {
                const int64_t u = x + k % 3 - 1, w = y + k / 3 - 1;
                if (u >= 0 && u < g->nx && w >= 0 && w < g->ny) next[at] = label[w * g->nx + u];
            }
        }
    if (n_free) memcpy(label, next, sizeof *label * (size_t)(g->nx * g->ny));
    return n_free;
}

/* Refuse an image that the facets do not cover. */
static int check_gaps(const reading *r, int16_t *label)
{
    const msi_image_geometry *g = &r->target->geometry;
    int16_t *next;
    char place[96];
    MSI_TRY(msi_alloc(&next, g->nx * g->ny, sizeof *next, "facets"));
    int64_t n_free = 1;
    for (int i = 0; i <= SLACK && n_free; i++) n_free = close_gaps(g, label, next);
    msi_free(next);
    for (int64_t at = 0; n_free && at < g->nx * g->ny; at++) {
        if (label[at] >= 0 || !is_on_sky(g, at % g->nx, at / g->nx)) continue;
        describe_pixel(r->target, at, place, sizeof place);
        return msi_error_set(MSI_EINPUT,
                             "%s: no facet has %s, nor the area around it; facets must cover the whole image", r->path,
                             place);
    }
    return MSI_OK;
}

static int label_polygons(reading *r, int16_t *label)
{
    const msi_image_geometry *g = &r->target->geometry;
    double *crossing;
    uint8_t *over = NULL;
    int rc = msi_alloc(&crossing, r->n_vertex, sizeof *crossing, "facets");
    if (!rc) rc = msi_alloc(&over, g->nx * g->ny, 1, "facets");
    for (int64_t i = 0; !rc && i < r->n; i++) {
        fill_polygon(r, (int)i, crossing, label, over);
        rc = msi_interrupt_check();
    }
    if (!rc) rc = check_overlap(r, over);
    for (int64_t i = 0; !rc && i < r->n; i++)
        if (!r->facet[i].n_pixel)
            rc = msi_error_set(MSI_EINPUT,
                               "%s, line %lld: the polygon lies outside the image; remove it, or make the "
                               "image larger",
                               r->path, (long long)r->polygon[i].line);
    if (!rc) rc = check_gaps(r, label);
    msi_free(crossing);
    msi_free(over);
    return rc;
}

/* ---- Facets of labels ---- */

/* Add pixels [x, end) of row y to a facet and its box. */
static void add_to_box(msi_facet *f, int64_t box[4], int64_t x, int64_t end, int64_t y)
{
    f->n_pixel += end - x;
    if (x < box[0]) box[0] = x;
    if (y < box[1]) box[1] = y;
    if (end > box[2]) box[2] = end;
    if (y + 1 > box[3]) box[3] = y + 1;
}

/* Find the boxes and numbers of pixels. */
static int find_boxes(msi_facets *f)
{
    const msi_image_geometry *g = &f->geometry;
    const int64_t h = f->feather;
    int64_t(*box)[4];
    MSI_TRY(msi_alloc(&box, f->n, sizeof *box, "facets"));
    for (int i = 0; i < f->n; i++) {
        box[i][0] = g->nx;
        box[i][1] = g->ny;
        f->facet[i].n_pixel = 0;
    }
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < g->ny; y++) {
        const int16_t *label = f->label + y * g->nx;
        for (int64_t x = 0, end; x < g->nx; x = end) {
            for (end = x + 1; end < g->nx && label[end] == label[x]; end++) continue;
            if (label[x] < 0) continue;
#pragma omp critical
            add_to_box(&f->facet[label[x]], box[label[x]], x, end, y);
        }
    }
    for (int i = 0; i < f->n; i++) {
        msi_facet *to = &f->facet[i];
        const int64_t x1 = box[i][2] + h < g->nx ? box[i][2] + h : g->nx,
                      y1 = box[i][3] + h < g->ny ? box[i][3] + h : g->ny;
        to->x0 = box[i][0] > h ? box[i][0] - h : 0;
        to->y0 = box[i][1] > h ? box[i][1] - h : 0;
        to->nx = x1 - to->x0;
        to->ny = y1 - to->y0;
        msi_image_widen(&to->x0, &to->nx, g->nx, LEAST_EDGE);
        msi_image_widen(&to->y0, &to->ny, g->ny, LEAST_EDGE);
    }
    msi_free(box);
    return MSI_OK;
}

/* Make empty labels. */
static int begin_facets(msi_facets *f, const msi_facet_target *t)
{
    const msi_image_geometry *g = &t->geometry;
    *f = (msi_facets){.geometry = *g, .ra_rad = t->ra_rad, .dec_rad = t->dec_rad};
    const double width = t->feather_pixel >= 0 ? t->feather_pixel : 0.01 * sqrt((double)g->nx * (double)g->ny);
    f->feather = llround(0.5 * fmin(width, (double)(g->nx > g->ny ? g->nx : g->ny)));
    MSI_TRY(msi_alloc(&f->label, g->nx * g->ny, sizeof *f->label, "facets"));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < g->nx * g->ny; i++) f->label[i] = -1;
    return MSI_OK;
}

int msi_facets_read(msi_facets *out, const char *path, const msi_facet_target *t)
{
    reading r = {.path = path, .target = t};
    char *text;
    *out = (msi_facets){0};
    MSI_TRY(check_frame(path, t->frame));
    MSI_TRY(load_text(path, &text));
    int rc = read_lines(&r, text);
    if (!rc) rc = begin_facets(out, t);
    if (!rc) rc = label_polygons(&r, out->label);
    msi_free(text);
    msi_free(r.polygon);
    msi_free(r.vertex);
    out->facet = r.facet;
    out->n = (int)r.n;
    if (!rc) rc = find_boxes(out);
    if (rc) msi_facets_free(out);
    return rc;
}

void msi_facets_free(msi_facets *f)
{
    msi_free(f->facet);
    msi_free(f->label);
    *f = (msi_facets){0};
}

/* ---- Facets of directions ---- */

typedef struct facet_direction {
    char name[64];
    double ra_rad, dec_rad;
} facet_direction;

/* Return the squared distance of two unit vectors. Unlike a cosine, it is accurate for small angles. */
static inline double distance2(const double a[3], const double b[3])
{
    const double l = a[0] - b[0], m = a[1] - b[1], n = a[2] - b[2];
    return l * l + m * m + n * n;
}

/* Compute the direction of a pixel. Returns: 1 if it is on the sky, 0 beyond the horizon */
static inline int look_at(const msi_image_geometry *g, int64_t x, int64_t y, double lmn[3])
{
    lmn[0] = (double)(g->nx / 2 - x) * g->cell_x_rad;
    lmn[1] = (double)(y - g->ny / 2) * g->cell_y_rad;
    const double rest = 1 - lmn[0] * lmn[0] - lmn[1] * lmn[1];
    lmn[2] = sqrt(rest > 0 ? rest : 0);
    return rest > 0;
}

/* List the directions that can be nearest to one of the pixels [x, end) of a row. By the triangle inequality their
 * distance to the middle pixel exceeds the smallest one by at most twice the half span of the pixels.
 * Given: lmn [n][3]. Returned: near [n]. Returns: their number */
static int64_t list_near(const msi_image_geometry *g, int64_t x, int64_t end, int64_t y, const double (*lmn)[3],
                         int64_t n, int16_t *near)
{
    double first[3], middle[3], last[3], least = INFINITY;
    int64_t n_near = 0;
    if (!look_at(g, x, y, first) | !look_at(g, (x + end) / 2, y, middle) | !look_at(g, end - 1, y, last)) {
        for (int64_t i = 0; i < n; i++) near[i] = (int16_t)i;
        return n;
    }
    const double size = 1.01 * sqrt(fmax(distance2(first, middle), distance2(middle, last)));
    for (int64_t i = 0; i < n; i++) least = fmin(least, distance2(middle, lmn[i]));
    const double most = sqrt(least) + 2 * size;
    for (int64_t i = 0; i < n; i++)
        if (distance2(middle, lmn[i]) <= most * most) near[n_near++] = (int16_t)i;
    return n_near;
}

/* Label each pixel by the direction at the smallest angle. Given: lmn [n][3] */
static int label_nearest(msi_facets *f, const double (*lmn)[3], int64_t n)
{
    enum { ROWS_AT_ONCE = 512, SPAN = 64 };
    const msi_image_geometry *g = &f->geometry;
    const int n_thread = omp_get_max_threads();
    int16_t *near;
    MSI_TRY(msi_alloc(&near, n_thread * n, sizeof *near, "facets"));
    int rc = MSI_OK;
    for (int64_t first = 0; !rc && first < g->ny; first += ROWS_AT_ONCE) {
        const int64_t end = first + ROWS_AT_ONCE < g->ny ? first + ROWS_AT_ONCE : g->ny;
#pragma omp parallel for schedule(dynamic, 8) num_threads(n_thread)
        for (int64_t y = first; y < end; y++)
            for (int64_t x0 = 0; x0 < g->nx; x0 += SPAN) {
                const int64_t x1 = x0 + SPAN < g->nx ? x0 + SPAN : g->nx;
                int16_t *own = near + omp_get_thread_num() * n;
                const int64_t n_near = list_near(g, x0, x1, y, lmn, n, own);
                for (int64_t x = x0; x < x1; x++) {
                    double at[3], least = INFINITY;
                    if (!look_at(g, x, y, at)) continue;
                    for (int64_t i = 0; i < n_near; i++) {
                        const double d = distance2(at, lmn[own[i]]);
                        if (d >= least) continue;
                        least = d;
                        f->label[y * g->nx + x] = own[i];
                    }
                }
            }
        rc = msi_interrupt_check();
    }
    msi_free(near);
    return rc;
}

/* Leave out the facets without a pixel. */
static int drop_empty(msi_facets *f, int64_t n)
{
    const int64_t n_pixel = f->geometry.nx * f->geometry.ny;
    int16_t *number;
    int *seen;
    MSI_TRY(msi_alloc(&number, n, sizeof *number, "facets"));
    int rc = msi_alloc(&seen, n, sizeof *seen, "facets");
    if (rc) {
        msi_free(number);
        return rc;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_pixel; i++) {
        int is_seen = 1;
        if (f->label[i] < 0) continue;
#pragma omp atomic read
        is_seen = seen[f->label[i]];
        if (is_seen) continue;
#pragma omp atomic write
        seen[f->label[i]] = 1;
    }
    for (int64_t i = 0; i < n; i++) {
        number[i] = (int16_t)f->n;
        if (seen[i]) f->facet[f->n++] = f->facet[i];
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_pixel; i++)
        if (f->label[i] >= 0) f->label[i] = number[f->label[i]];
    msi_free(number);
    msi_free(seen);
    return MSI_OK;
}

/* Make the Voronoi cells of directions [n]. Given: from  name of the source, for messages. Returns: as
 * msi_facets_read */
static int cells_of_directions(msi_facets *out, const char *from, const facet_direction *direction, int64_t n,
                               const msi_facet_target *t)
{
    double(*lmn)[3] = NULL;
    *out = (msi_facets){0};
    MSI_TRY(check_frame(from, t->frame));
    if (n < 1 || n > MOST_FACETS)
        return msi_error_set(MSI_EINPUT, "%s: has %lld directions; facets need 1 to %d", from, (long long)n,
                             MOST_FACETS);
    int rc = begin_facets(out, t);
    if (!rc) rc = msi_alloc(&lmn, n, sizeof *lmn, "facets");
    if (!rc) rc = msi_alloc(&out->facet, n, sizeof *out->facet, "facets");
    for (int64_t i = 0; !rc && i < n; i++) {
        msi_facet *f = &out->facet[i];
        *f = (msi_facet){.ra_rad = direction[i].ra_rad, .dec_rad = direction[i].dec_rad};
        memcpy(f->name, direction[i].name, sizeof f->name);
        direction_of(t, f->ra_rad, f->dec_rad, lmn[i]);
        for (int64_t k = 0; !rc && k < i; k++)
            if (fabs(lmn[i][0] - lmn[k][0]) < 1e-9 && fabs(lmn[i][1] - lmn[k][1]) < 1e-9)
                rc = msi_error_set(MSI_EINPUT, "%s: directions %lld and %lld are the same", from, (long long)k + 1,
                                   (long long)i + 1);
    }
    if (!rc) rc = label_nearest(out, (const double(*)[3])lmn, n);
    msi_free(lmn);
    if (!rc) rc = drop_empty(out, n);
    if (!rc) rc = find_boxes(out);
    if (rc) msi_facets_free(out);
    return rc;
}

/* Spread directions evenly over the image: start with points on a spiral, then repeatedly move each point to the middle
 * of its Voronoi cell. */
static int spread_directions(facet_direction *direction, int64_t n, const msi_facet_target *t)
{
    enum { ROUNDS = 50, EDGE = 128 };
    const msi_image_geometry *g = &t->geometry;
    double(*p)[2], (*sum)[3];
    MSI_TRY(msi_alloc(&p, n, sizeof *p, "facets"));
    int rc = msi_alloc(&sum, n, sizeof *sum, "facets");
    for (int64_t i = 0; !rc && i < n; i++) {
        const double r = 0.5 * sqrt(((double)i + 0.5) / (double)n), a = 2.399963229728653 * (double)i;
        p[i][0] = 0.5 + r * cos(a);
        p[i][1] = 0.5 + r * sin(a);
    }
    for (int k = 0; !rc && k < ROUNDS; k++) {
        memset(sum, 0, sizeof *sum * (size_t)n);
        for (int j = 0; j < EDGE * EDGE; j++) {
            const double x = (j % EDGE + 0.5) / EDGE, y = (j / EDGE + 0.5) / EDGE;
            double least = INFINITY;
            int64_t nearest = 0;
            for (int64_t i = 0; i < n; i++) {
                const double d = (x - p[i][0]) * (x - p[i][0]) + (y - p[i][1]) * (y - p[i][1]);
                if (d < least) {
                    least = d;
                    nearest = i;
                }
            }
            sum[nearest][0] += x;
            sum[nearest][1] += y;
            sum[nearest][2] += 1;
        }
        for (int64_t i = 0; i < n; i++)
            for (int c = 0; c < 2 && sum[i][2] > 0; c++) p[i][c] = sum[i][c] / sum[i][2];
        rc = msi_interrupt_check();
    }
    for (int64_t i = 0; !rc && i < n; i++) {
        const double at[2] = {p[i][0] * (double)g->nx - 0.5, p[i][1] * (double)g->ny - 0.5};
        sky_of(t, at, &direction[i].ra_rad, &direction[i].dec_rad);
        snprintf(direction[i].name, sizeof direction[i].name, "facet %d", (int)i);
    }
    msi_free(p);
    msi_free(sum);
    return rc;
}

/* Read a direction from each line of a text. Given: direction  array with an element for each line */
static int read_directions(const char *path, char *text, facet_direction *direction, int64_t *n)
{
    reading r = {.path = path};
    for (char *line = text, *next; line; line = next) {
        char *rest;
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        r.line++;
        line[strcspn(line, "#")] = 0;
        const char *ra = strtok_r(line, ", \t\r", &rest), *dec = strtok_r(NULL, ", \t\r", &rest),
                   *name = strtok_r(NULL, ", \t\r", &rest);
        if (!ra) continue;
        if (!dec) return line_error(&r, "no declination after", ra);
        facet_direction *d = &direction[(*n)++];
        MSI_TRY(read_coordinate(&r, ra, 0, &d->ra_rad));
        MSI_TRY(read_coordinate(&r, dec, 1, &d->dec_rad));
        snprintf(d->name, sizeof d->name, "%.60s", name ? name : "");
    }
    return MSI_OK;
}

int msi_facets_auto(msi_facets *out, const char *from, const msi_facet_target *t)
{
    facet_direction *direction = NULL;
    char *end, *text = NULL;
    int64_t n = strtoll(from, &end, 10), n_line = 1;
    const int is_number = end > from && !*end;
    *out = (msi_facets){0};
    if (is_number && (n < 1 || n > 4096))
        return msi_error_set(MSI_EINPUT, "-facet-auto %s: give 1 to 4096 facets", from);
    if (!is_number) {
        MSI_TRY(load_text(from, &text));
        for (const char *c = text; *c; c++) n_line += *c == '\n';
        n = 0;
    }
    int rc = msi_alloc(&direction, is_number ? n : n_line, sizeof *direction, "facets");
    if (!rc) rc = is_number ? spread_directions(direction, n, t) : read_directions(from, text, direction, &n);
    if (!rc) rc = cells_of_directions(out, from, direction, n, t);
    msi_free(direction);
    msi_free(text);
    return rc;
}

/* ---- Facets of a grid ---- */

int64_t msi_facets_stencil(double at, int64_t n, int *n_weight, double weight[MSI_STENCIL])
{
    const double x = at * (double)(n - 1);
    const int m = n < MSI_STENCIL ? (int)n : MSI_STENCIL;
    int64_t first = (int64_t)floor(x) - (MSI_STENCIL / 2 - 1);
    first = first > n - m ? n - m : first;
    first = first < 0 ? 0 : first;
    *n_weight = m;
    for (int i = 0; i < m; i++) {
        weight[i] = 1;
        for (int k = 0; k < m; k++)
            if (k != i) weight[i] *= (x - (double)(first + k)) / (i - k);
    }
    return first;
}

/* Return the weight of a node at a pixel of a row or column of n_pixel. */
static double node_weight(int64_t node, int64_t n, int64_t pixel, int64_t n_pixel)
{
    double w[MSI_STENCIL];
    int n_weight;
    const int64_t i = node - msi_facets_stencil((double)pixel / (double)(n_pixel - 1), n, &n_weight, w);
    return i < 0 || i >= n_weight ? 0 : w[i];
}

/* Find the pixels where a node has a weight. */
static void node_range(int64_t node, int64_t n, int64_t n_pixel, int64_t *from, int64_t *count)
{
    int64_t last = 0;
    *from = n_pixel;
    for (int64_t i = 0; i < n_pixel; i++) {
        if (node_weight(node, n, i, n_pixel) == 0) continue;
        if (*from == n_pixel) *from = i;
        last = i;
    }
    if (*from == n_pixel) *from = last;
    *count = last - *from + 1;
}

void msi_facets_place(const msi_facet_target *t, const double at[2], msi_facet *f)
{
    sky_of(t, at, &f->ra_rad, &f->dec_rad);
}

/* Return the pixel position of node i of n, which are spaced from the first pixel to the last; one node is in the
 * middle. */
static double node_pixel(int64_t i, int64_t n, int64_t n_pixel)
{
    return n > 1 ? (double)i / (double)(n - 1) * (double)(n_pixel - 1) : 0.5 * (double)(n_pixel - 1);
}

int msi_facets_grid(msi_facets *f, int64_t nx, int64_t ny, int only_directions, const msi_facet_target *t)
{
    const msi_image_geometry *g = &t->geometry;
    *f = (msi_facets){0};
    MSI_TRY(check_frame("a-terms", t->frame));
    int rc = MSI_OK;
    if (only_directions)
        *f = (msi_facets){.geometry = *g, .ra_rad = t->ra_rad, .dec_rad = t->dec_rad};
    else
        rc = begin_facets(f, t);
    f->feather = 0;
    f->node[0] = nx;
    f->node[1] = ny;
    f->n = (int)(nx * ny);
    if (!rc) rc = msi_alloc(&f->facet, f->n, sizeof *f->facet, "facets");
    for (int i = 0; !rc && i < f->n; i++) {
        msi_facet *p = &f->facet[i];
        const int64_t x = i % nx, y = i / nx;
        msi_facets_place(t, (const double[]){node_pixel(x, nx, g->nx), node_pixel(y, ny, g->ny)}, p);
        snprintf(p->name, sizeof p->name, "%d, %d", (int)x, (int)y);
        if (only_directions) continue;
        node_range(x, nx, g->nx, &p->x0, &p->nx);
        node_range(y, ny, g->ny, &p->y0, &p->ny);
        p->n_pixel = p->nx * p->ny;
        msi_image_widen(&p->x0, &p->nx, g->nx, LEAST_EDGE);
        msi_image_widen(&p->y0, &p->ny, g->ny, LEAST_EDGE);
    }
    for (int64_t i = 0; !rc && f->label && i < g->nx * g->ny; i++)
        if (is_on_sky(g, i % g->nx, i / g->nx)) f->label[i] = 0;
    if (rc) msi_facets_free(f);
    return rc;
}

/* Compute the weights of a facet of a grid. */
static int grid_weights(const msi_facets *f, int facet, float *weight)
{
    const msi_facet *p = &f->facet[facet];
    const msi_image_geometry *g = &f->geometry;
    const int64_t i = facet % f->node[0], j = facet / f->node[0];
    double *of_column;
    MSI_TRY(msi_alloc(&of_column, p->nx, sizeof *of_column, "weights of a facet"));
    for (int64_t x = 0; x < p->nx; x++) of_column[x] = node_weight(i, f->node[0], p->x0 + x, g->nx);
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < p->ny; y++) {
        const int16_t *label = f->label + (p->y0 + y) * g->nx + p->x0;
        const double of_row = node_weight(j, f->node[1], p->y0 + y, g->ny);
        for (int64_t x = 0; x < p->nx; x++) weight[y * p->nx + x] = label[x] >= 0 ? (float)(of_row * of_column[x]) : 0;
    }
    msi_free(of_column);
    return MSI_OK;
}

/* ---- Boxes and weights ---- */

void msi_facets_centre(const msi_facets *f, int facet, double *l, double *m)
{
    const msi_facet *p = &f->facet[facet];
    const msi_image_geometry *g = &f->geometry;
    *l = (double)(g->nx / 2 - p->x0 - p->nx / 2) * g->cell_x_rad;
    *m = (double)(p->y0 + p->ny / 2 - g->ny / 2) * g->cell_y_rad;
}

/* Numbers of pixels of a facet, and of all facets, in each column of a window of rows; and their prefix sums. */
typedef struct column_counts {
    const msi_facets *f;
    int facet;
    int64_t x0, width;           /* columns, which may lie outside of the image */
    uint32_t *own, *all;         /* [width] */
    uint32_t *own_sum, *all_sum; /* [width + 1] */
} column_counts;

/* Add a row of the image to the window, or (step -1) remove it. */
static void move_window(const column_counts *c, int64_t y, uint32_t step)
{
    const int64_t nx = c->f->geometry.nx, first = c->x0 < 0 ? -c->x0 : 0,
                  end = c->x0 + c->width < nx ? c->width : nx - c->x0;
    const int16_t *label = c->f->label + y * nx + c->x0;
    uint32_t *restrict own = c->own, *restrict all = c->all;
    const int16_t facet = (int16_t)c->facet;
    for (int64_t x = first; x < end; x++) own[x] += label[x] == facet ? step : 0;
    for (int64_t x = first; x < end; x++) all[x] += label[x] >= 0 ? step : 0;
}

static void sum_columns(const column_counts *c)
{
    uint32_t own = 0, all = 0;
    for (int64_t x = 0; x < c->width; x++) {
        c->own_sum[x] = own;
        c->all_sum[x] = all;
        own += c->own[x];
        all += c->all[x];
    }
    c->own_sum[c->width] = own;
    c->all_sum[c->width] = all;
}

/* Compute the weights of rows [first, end) of a facet's box. */
static void weigh_rows(const column_counts *c, int64_t first, int64_t end, float *weight)
{
    const msi_facet *p = &c->f->facet[c->facet];
    const msi_image_geometry *g = &c->f->geometry;
    const int64_t h = c->f->feather;
    int64_t low = p->y0 + first > h ? p->y0 + first - h : 0, high = low;
    for (int64_t y = p->y0 + first; y < p->y0 + end; y++) {
        const int16_t *label = c->f->label + y * g->nx + p->x0;
        float *to = weight + (y - p->y0) * p->nx;
        for (; high < g->ny && high < y + h + 1; high++) move_window(c, high, 1);
        for (; low < y - h; low++) move_window(c, low, (uint32_t)-1);
        sum_columns(c);
        for (int64_t x = 0; x < p->nx; x++) {
            const uint32_t own = c->own_sum[x + 2 * h + 1] - c->own_sum[x],
                           all = c->all_sum[x + 2 * h + 1] - c->all_sum[x];
            /* Most windows contain pixels of one facet only. */
            to[x] = label[x] < 0 || !own ? 0 : own == all ? 1 : (float)own / (float)all;
        }
    }
}

/*
 * The weight of a facet at a pixel is its fraction of the pixels in a square around this pixel. Weights sum to 1 and
 * change linearly across a straight border. Each thread moves a window of rows over its part of the box.
 */
int msi_facets_weights(const msi_facets *f, int facet, float *weight)
{
    const msi_facet *p = &f->facet[facet];
    const int64_t width = p->nx + 2 * f->feather, of_thread = 4 * width + 2;
    const int n_thread = omp_get_max_threads();
    uint32_t *memory;
    if (f->node[0]) return grid_weights(f, facet, weight);
    MSI_TRY(msi_alloc(&memory, n_thread * of_thread, sizeof *memory, "weights of a facet"));
#pragma omp parallel for schedule(static, 1)
    for (int i = 0; i < n_thread; i++) {
        uint32_t *own = memory + i * of_thread, *sum = own + 2 * width;
        const column_counts c = {f, facet, p->x0 - f->feather, width, own, own + width, sum, sum + width + 1};
        weigh_rows(&c, p->ny * i / n_thread, p->ny * (i + 1) / n_thread, weight);
    }
    msi_free(memory);
    return MSI_OK;
}
