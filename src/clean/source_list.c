/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/clean/source_list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/fits/sky_wcs.h"

/* The scale and pixel of a component. */
typedef struct place {
    int32_t scale, y, x;
    int64_t at; /* index of its values */
} place;

/* Places, and their values [n][n_channel]. */
typedef struct components {
    place *p;
    double *value;
    int64_t n, capacity;
} components;

struct msi_source_list {
    int n_channel;
    components kept, pending; /* kept: ascending, each place once, p[i].at = i */
};

/* Grow the list so that n more components fit. */
static int reserve_components(components *c, int n_channel, int64_t n)
{
    if (c->n + n <= c->capacity) return MSI_OK;
    const int64_t capacity = 2 * c->capacity > c->n + n ? 2 * c->capacity : c->n + n;
    MSI_TRY(msi_grow(&c->value, c->n * n_channel, capacity * n_channel, sizeof *c->value, "a list of sources"));
    MSI_TRY(msi_grow(&c->p, c->n, capacity, sizeof *c->p, "a list of sources"));
    c->capacity = capacity;
    return MSI_OK;
}

int msi_source_list_create(msi_source_list **out, int n_channel)
{
    MSI_TRY(msi_alloc(out, 1, sizeof **out, "a list of sources"));
    (*out)->n_channel = n_channel;
    return MSI_OK;
}

static void free_components(components *c)
{
    msi_free(c->p);
    msi_free(c->value);
    *c = (components){0};
}

void msi_source_list_free(msi_source_list *l)
{
    if (!l) return;
    free_components(&l->kept);
    free_components(&l->pending);
    msi_free(l);
}

int msi_source_list_add(msi_source_list *l, const msi_clean_component *component, const void *value,
                        msi_precision precision, int n_pol, int64_t n)
{
    components *c = &l->pending;
    MSI_TRY(reserve_components(c, l->n_channel, n));
    for (int64_t i = 0; i < n; i++) {
        c->p[c->n] = (place){component[i].scale, component[i].y, component[i].x, c->n};
        for (int k = 0; k < l->n_channel; k++)
            c->value[c->n * l->n_channel + k] = msi_image_value(value, precision, (i * l->n_channel + k) * n_pol);
        c->n++;
    }
    return MSI_OK;
}

static int compare_places(const void *a, const void *b)
{
    const place *p = a, *q = b;
    if (p->scale != q->scale) return p->scale < q->scale ? -1 : 1;
    if (p->y != q->y) return p->y < q->y ? -1 : 1;
    if (p->x != q->x) return p->x < q->x ? -1 : 1;
    return p->at < q->at ? -1 : p->at > q->at;
}

static int same_place(const place *p, const place *q)
{
    return p->scale == q->scale && p->y == q->y && p->x == q->x;
}

/* Merge the two lists in order of places. Values of one place are summed in the order in which they were found. */
int msi_source_list_keep(msi_source_list *l)
{
    components all = {0};
    components *a = &l->kept, *b = &l->pending;
    const size_t bytes = (size_t)l->n_channel * sizeof(double);
    if (!b->n) return MSI_OK;
    all.capacity = a->n + b->n;
    int rc = msi_alloc(&all.value, all.capacity * l->n_channel, sizeof *all.value, "a list of sources");
    if (!rc) rc = msi_alloc(&all.p, all.capacity, sizeof *all.p, "a list of sources");
    if (rc) {
        free_components(&all);
        return rc;
    }
    qsort(b->p, (size_t)b->n, sizeof *b->p, compare_places);
    for (int64_t i = 0, k = 0; i < a->n || k < b->n;) {
        const int old =
            k == b->n || (i < a->n && (same_place(&a->p[i], &b->p[k]) || compare_places(&a->p[i], &b->p[k]) < 0));
        const place *p = old ? &a->p[i++] : &b->p[k++];
        const double *value = (old ? a : b)->value + p->at * l->n_channel;
        if (all.n && same_place(&all.p[all.n - 1], p)) {
            for (int c = 0; c < l->n_channel; c++) all.value[(all.n - 1) * l->n_channel + c] += value[c];
            continue;
        }
        memcpy(all.value + all.n * l->n_channel, value, bytes);
        all.p[all.n] = *p;
        all.p[all.n].at = all.n;
        all.n++;
    }
    free_components(a);
    *a = all;
    b->n = 0;
    return MSI_OK;
}

void msi_source_list_drop(msi_source_list *l)
{
    l->pending.n = 0;
}

int64_t msi_source_list_n(const msi_source_list *l)
{
    return l->kept.n;
}

/* ---- Bytes for a checkpoint: the numbers of sources and channels, places, values ---- */

static int64_t bytes_of(int64_t n, int n_channel)
{
    return 16 + n * ((int64_t)sizeof(place) + n_channel * (int64_t)sizeof(double));
}

int64_t msi_source_list_bytes(const msi_source_list *l)
{
    return bytes_of(l->kept.n, l->n_channel);
}

void msi_source_list_save(const msi_source_list *l, void *to)
{
    const int64_t head[2] = {l->kept.n, l->n_channel};
    char *at = to;
    memcpy(at, head, sizeof head);
    if (!l->kept.n) return;
    memcpy(at + sizeof head, l->kept.p, (size_t)l->kept.n * sizeof(place));
    memcpy(at + sizeof head + (size_t)l->kept.n * sizeof(place), l->kept.value,
           (size_t)(l->kept.n * l->n_channel) * sizeof(double));
}

int msi_source_list_load(msi_source_list *l, const void *from, int64_t bytes)
{
    int64_t head[2] = {0, 0};
    const char *at = from;
    components c = {0};
    if (bytes >= (int64_t)sizeof head) memcpy(head, at, sizeof head);
    if (head[1] != l->n_channel || head[0] < 0 || head[0] > bytes || bytes_of(head[0], l->n_channel) != bytes)
        return msi_error_set(MSI_EINPUT, "a list of sources has %lld bytes, which is not a list of %d channels",
                             (long long)bytes, l->n_channel);
    const int rc = reserve_components(&c, l->n_channel, head[0]);
    if (rc) {
        free_components(&c);
        return rc;
    }
    c.n = head[0];
    if (c.n) {
        memcpy(c.p, at + sizeof head, (size_t)c.n * sizeof *c.p);
        memcpy(c.value, at + sizeof head + (size_t)c.n * sizeof *c.p, (size_t)(c.n * l->n_channel) * sizeof *c.value);
    }
    for (int64_t i = 0; i < c.n; i++) {
        if (c.p[i].at == i) continue;
        free_components(&c);
        return msi_error_set(MSI_EINPUT, "a list of sources: source %lld is out of order", (long long)i);
    }
    free_components(&l->kept);
    l->kept = c;
    l->pending.n = 0;
    return MSI_OK;
}

/* ---- The file ---- */

enum { LINE = 1024, MAX_TERM = MSI_CLEAN_MAX_TERM };

/* A source in the order of the file. */
typedef struct source {
    int64_t i; /* index in the kept components */
    int32_t scale;
    double flux;
} source;

/* Order by scale, then by decreasing brightness, then by pixel. */
static int compare_sources(const void *a, const void *b)
{
    const source *p = a, *q = b;
    if (p->scale != q->scale) return p->scale < q->scale ? -1 : 1;
    if (fabs(p->flux) != fabs(q->flux)) return fabs(p->flux) > fabs(q->flux) ? -1 : 1;
    return p->i < q->i ? -1 : p->i > q->i;
}

/* Return the response at a source; 1 if there is none in the list's coordinates. */
static double response_at(const msi_source_list *l, const msi_source_sky *sky, int64_t i)
{
    const place *p = &l->kept.p[i];
    return sky->response ? (double)sky->response[(int64_t)p->y * sky->geometry->nx + (int64_t)p->x] : 1;
}

static int find_terms(const msi_source_list *l, const msi_source_sky *sky, int64_t i, double term[MAX_TERM])
{
    const double response = response_at(l, sky, i);
    double sum = 0, all = 0, value[MSI_CLEAN_MAX_CHANNEL];
    if (sky->terms_at)
        return sky->terms_at(sky->fit, (int64_t)l->kept.p[i].y * sky->geometry->nx + (int64_t)l->kept.p[i].x,
                             l->kept.value + i * l->n_channel, term);
    for (int c = 0; c < l->n_channel; c++) value[c] = l->kept.value[i * l->n_channel + c] / response;
    if (sky->terms) return sky->terms(sky->fit, value, term);
    for (int c = 0; c < l->n_channel; c++) {
        const double weight = sky->weight ? sky->weight[c] : 1;
        if (!(weight > 0)) continue;
        sum += weight * value[c];
        all += weight;
    }
    term[0] = all > 0 ? sum / all : 0;
    return MSI_OK;
}

/* Write hours or degrees with minutes and seconds. The value is rounded as one number, so that 60 never appears. */
static void format_angle(char *text, size_t size, double value, const char *separator, int decimals)
{
    const double parts = pow(10, decimals), units = floor(fabs(value) * 3600 * parts + 0.5);
    const double whole = floor(units / (3600 * parts)), rest = units - whole * 3600 * parts;
    const double minutes = floor(rest / (60 * parts)), seconds = (rest - minutes * 60 * parts) / parts;
    snprintf(text, size, "%s%02.0f%s%02.0f%s%0*.*f", value < 0 ? "-" : "", whole, separator, minutes, separator,
             decimals + 3, decimals, seconds);
}

/* Return the number of decimals, 3 to 9, that round an angle to less than a hundredth of a pixel. */
static int decimals_of(double pixel)
{
    int n = 3;
    while (n < 9 && 0.01 * pixel < pow(10, -n)) n++;
    return n;
}

static int format_place(char ra[32], char dec[32], const msi_sky_wcs *wcs, const msi_image_geometry *g, const place *p)
{
    const double arcsec = 180 * 3600 / MSI_PI;
    const int of_ra = decimals_of(g->cell_x_rad * arcsec / 15), of_dec = decimals_of(g->cell_y_rad * arcsec);
    double sky[2];
    const double pixel[2] = {p->x, p->y};
    if (!msi_sky_wcs_pixel_to_sky(wcs, pixel, sky))
        return msi_error_set(MSI_ERANGE, "a source at pixel %d, %d is not on the sky", (int)p->x, (int)p->y);
    /* Write 24 hours as 0. */
    const double hours = sky[0] / 15;
    format_angle(ra, 32, hours * 3600 >= 24 * 3600 - 0.5 * pow(10, -of_ra) ? 0 : hours, ":", of_ra);
    format_angle(dec, 32, sky[1], ".", of_dec);
    return MSI_OK;
}

static int format_source(char line[LINE], const msi_source_list *l, const msi_source_sky *sky, const msi_sky_wcs *wcs,
                         const source *s, int64_t number)
{
    const place *p = &l->kept.p[s->i];
    double term[MAX_TERM] = {0};
    char ra[32], dec[32], terms[MAX_TERM * 28] = "";
    MSI_TRY(find_terms(l, sky, s->i, term));
    MSI_TRY(format_place(ra, dec, wcs, sky->geometry, p));
    for (int k = 1, n = 0; k < sky->n_term; k++)
        n += snprintf(terms + n, sizeof terms - (size_t)n, "%s%.15g", k > 1 ? "," : "", term[k]);
    int n = snprintf(line, LINE, "s%dc%lld,%s,%s,%s,%.15g,[%s],%s,%.15g,", (int)p->scale, (long long)number,
                     p->scale ? "GAUSSIAN" : "POINT", ra, dec, term[0], terms, sky->is_logarithmic ? "true" : "false",
                     sky->reference_hz);
    if (!p->scale) {
        snprintf(line + n, LINE - (size_t)n, ",,\n");
        return MSI_OK;
    }
    const double arcsec = 180 * 3600 / MSI_PI, fwhm = sqrt(8 * log(2)) * 3 * sky->scale[p->scale] / 16;
    snprintf(line + n, LINE - (size_t)n, "%.15g,%.15g,0\n", fwhm * sky->geometry->cell_y_rad * arcsec,
             fwhm * sky->geometry->cell_y_rad * arcsec);
    return MSI_OK;
}

static int write_sources(msi_publish *p, int i, const msi_source_list *l, const msi_source_sky *sky,
                         const source *order, int64_t n)
{
    char line[LINE];
    msi_sky_wcs *wcs;
    int64_t number = 0;
    MSI_TRY(msi_sky_wcs_create(&wcs, sky->geometry, sky->ra_rad, sky->dec_rad, sky->frame, 0));
    snprintf(line, LINE,
             "Format = Name, Type, Ra, Dec, I, SpectralIndex, LogarithmicSI, ReferenceFrequency='%.15g', MajorAxis, "
             "MinorAxis, Orientation\n",
             sky->reference_hz);
    int rc = msi_publish_write(p, i, line, strlen(line));
    for (int64_t k = 0; k < n && !rc; k++) {
        number = k && order[k].scale == order[k - 1].scale ? number + 1 : 0;
        rc = format_source(line, l, sky, wcs, &order[k], number);
        if (!rc) rc = msi_publish_write(p, i, line, strlen(line));
    }
    msi_sky_wcs_free(wcs);
    return rc;
}

int msi_source_list_write(msi_publish *p, int i, const msi_source_list *l, const msi_source_sky *sky)
{
    source *order;
    int fd;
    MSI_TRY(msi_alloc(&order, l->kept.n + 1, sizeof *order, "a list of sources"));
    int rc = MSI_OK;
    int64_t n = 0;
    for (int64_t k = 0; k < l->kept.n && !rc; k++) {
        double term[MAX_TERM];
        if (!(response_at(l, sky, k) > 0)) continue;
        rc = find_terms(l, sky, k, term);
        order[n++] = (source){k, l->kept.p[k].scale, term[0]};
    }
    if (!rc) {
        qsort(order, (size_t)n, sizeof *order, compare_sources);
        rc = msi_publish_begin(p, i, &fd);
    }
    if (!rc) rc = write_sources(p, i, l, sky, order, n);
    if (!rc) rc = msi_publish_seal(p, i);
    msi_free(order);
    return rc;
}

/* ---- Buffers for the components that a cleaner records ---- */

enum { BUFFER_BYTES = 64 << 20 };

static int64_t value_bytes(const msi_clean_sources_spec *s)
{
    return s->n_channel * s->n_pol * (s->precision == MSI_FP32 ? 4 : 8);
}

int64_t msi_clean_sources_bytes(void)
{
    return BUFFER_BYTES;
}

int msi_clean_sources_create(msi_clean_sources **out, const msi_clean_sources_spec *spec)
{
    msi_clean_sources *s;
    *out = NULL;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "components"));
    s->spec = *spec;
    s->capacity = BUFFER_BYTES / ((int64_t)sizeof *s->component + value_bytes(spec));
    int rc = msi_source_list_create(&s->list, spec->n_channel);
    if (!rc) rc = msi_alloc(&s->component, s->capacity, sizeof *s->component, "components");
    if (!rc) rc = msi_alloc(&s->value, s->capacity, value_bytes(spec), "components");
    if (rc)
        msi_clean_sources_free(s);
    else
        *out = s;
    return rc;
}

void msi_clean_sources_free(msi_clean_sources *s)
{
    if (!s) return;
    msi_source_list_free(s->list);
    msi_free(s->component);
    msi_free(s->value);
    msi_free(s);
}

void msi_clean_sources_limit(const msi_clean_sources *s, msi_clean_limits *limits)
{
    if (limits->n_iteration > s->capacity) limits->n_iteration = s->capacity;
    limits->component = s->component;
    limits->value = s->value;
    limits->component_capacity = s->capacity;
}

/* Return the first value of the polarisation of the list. */
static const void *values_of(const msi_clean_sources *s)
{
    return (const char *)s->value + s->spec.pol * (s->spec.precision == MSI_FP32 ? 4 : 8);
}

int msi_clean_sources_add(msi_clean_sources *s, const msi_clean_report *report)
{
    return msi_source_list_add(s->list, s->component, values_of(s), s->spec.precision, s->spec.n_pol,
                               report->n_iteration);
}

/* Add the non-zero pixels of a channel, at most `capacity` at a time. Channels of the same pixel become one source. */
static int add_points(msi_clean_sources *s, int channel, const void *pixel, const msi_planes_shape *shape)
{
    const msi_clean_sources_spec *spec = &s->spec;
    const int64_t n_pixel = shape->nx * shape->ny, bytes = value_bytes(spec),
                  each = bytes / spec->n_channel / spec->n_pol;
    const int64_t at = (channel * spec->n_pol + spec->pol) * each;
    int64_t n = 0;
    memset(s->value, 0, (size_t)(s->capacity * bytes));
    for (int64_t i = 0; i < n_pixel; i++) {
        if (msi_image_value(pixel, spec->precision, i) == 0) continue;
        s->component[n] = (msi_clean_component){(int32_t)(i % shape->nx), (int32_t)(i / shape->nx), 0};
        memcpy((char *)s->value + n * bytes + at, (const char *)pixel + i * each, (size_t)each);
        if (++n < s->capacity) continue;
        MSI_TRY(msi_source_list_add(s->list, s->component, values_of(s), spec->precision, spec->n_pol, n));
        n = 0;
    }
    MSI_TRY(msi_source_list_add(s->list, s->component, values_of(s), spec->precision, spec->n_pol, n));
    return msi_source_list_keep(s->list);
}

int msi_clean_sources_model(msi_clean_sources *s, const msi_planes *model)
{
    msi_planes_shape one = *msi_planes_shape_of(model);
    void *pixel;
    one.n = 1;
    MSI_TRY(msi_alloc(&pixel, msi_planes_bytes(&one), 1, "models"));
    int rc = MSI_OK;
    for (int c = 0; !rc && c < s->spec.n_channel; c++) {
        rc = msi_planes_fetch(model, c * s->spec.n_pol + s->spec.pol, 1, pixel);
        if (!rc) rc = add_points(s, c, pixel, &one);
    }
    msi_free(pixel);
    return rc;
}
