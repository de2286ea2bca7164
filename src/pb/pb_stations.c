/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/pb/pb_stations.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/h5/h5_files.h"

/* Fields of a station. HBA stations of the core have two, their ears. */
enum { MOST_FIELDS = 2 };

/* Positions whose signals are added, as separate arrays of components, so that the loop over them is vectorised. */
typedef struct positions {
    int64_t n;
    double *at_m[3], *on[2]; /* [n] east, north, up; 1 if the dipole X, Y is on, otherwise 0 */
    double all[2];           /* sums of `on` */
} positions;

/* A field of a station. */
typedef struct field {
    positions elements, tile; /* tile: dipoles of a tile, for HBA */
    double offset_m[3];       /* from the antenna to the centre */
    double axes[3][3];        /* unit vectors p, q and the normal: east, north, up */
} field;

typedef struct station {
    int n_field;
    field field[MOST_FIELDS];
} station;

struct msi_pb_stations {
    int64_t n;
    station *station; /* [n] */
    int has_tiles;
    double largest_m; /* the diameter of the largest field */
    msi_hamaker dipole;
};

/* ---- Array factors ---- */

static double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/*
 * Compute the array factor of positions with delays for the direction `aim`, for a wave from the direction `from`: the
 * mean of exp(2 pi i f / c (from - aim) . position) over the dipoles that are on.
 * Returned: out [2]  for X and Y
 */
static void array_factor(const positions *p, double freq_hz, const double *from, const double *aim,
                         double complex out[2])
{
    const double turns_m = freq_hz / MSI_SPEED_OF_LIGHT;
    const double e = turns_m * (from[0] - aim[0]), n = turns_m * (from[1] - aim[1]), u = turns_m * (from[2] - aim[2]);
    double re_x = 0, im_x = 0, re_y = 0, im_y = 0;
#pragma omp simd reduction(+ : re_x, im_x, re_y, im_y)
    for (int64_t k = 0; k < p->n; k++) {
        const double turns = e * p->at_m[0][k] + n * p->at_m[1][k] + u * p->at_m[2][k];
        /* a is half of the angle, within pi / 2. There the series of the sine errs by less than 7e-10, and that of the
         * cosine by less than 7e-11, so the factor errs by less than 3e-9. */
        const double a = MSI_PI * (turns - nearbyint(turns)), b = a * a;
        const double s =
            a * (1 + b * (-1.0 / 6 +
                          b * (1.0 / 120 +
                               b * (-1.0 / 5040 + b * (1.0 / 362880 + b * (-1.0 / 39916800 + b / 6227020800.0))))));
        const double c =
            1 + b * (-1.0 / 2 +
                     b * (1.0 / 24 +
                          b * (-1.0 / 720 +
                               b * (1.0 / 40320 + b * (-1.0 / 3628800 + b * (1.0 / 479001600 - b / 87178291200.0))))));
        const double cosine = 1 - 2 * s * s, sine = 2 * s * c;
        re_x += p->on[0][k] * cosine;
        im_x += p->on[0][k] * sine;
        re_y += p->on[1][k] * cosine;
        im_y += p->on[1][k] * sine;
    }
    out[0] = p->all[0] > 0 ? (re_x + im_x * I) / p->all[0] : 0;
    out[1] = p->all[1] > 0 ? (re_y + im_y * I) / p->all[1] : 0;
}

/* ---- The dipole ---- */

/*
 * Evaluate Hamaker's model of a dipole. Its angles are relative to a field: theta from the normal of the field, phi
 * from the field's axis p towards its axis q, minus 5/4 pi.
 * Given:    theta, phi  unit vectors, along which the result has components
 * Returned: out [feed][component]
 */
static void dipole(const msi_hamaker *h, const field *f, double freq_hz, const double *from, const double *theta,
                   const double *phi, double complex out[2][2])
{
    const double p = dot(from, f->axes[0]), q = dot(from, f->axes[1]), r = dot(from, f->axes[2]), flat = hypot(p, q);
    double own[2][3]; /* unit vectors of theta and phi of the field */
    memset(out, 0, 4 * sizeof **out);
    if (r <= 0) return;
    const double angle = atan2(flat, r), turn = (flat > 0 ? atan2(q, p) : 0) - 1.25 * MSI_PI;
    const double cp = flat > 0 ? p / flat : 1, sp = flat > 0 ? q / flat : 0;
    for (int k = 0; k < 3; k++) {
        own[0][k] = r * (cp * f->axes[0][k] + sp * f->axes[1][k]) - flat * f->axes[2][k];
        own[1][k] = -sp * f->axes[0][k] + cp * f->axes[1][k];
    }
    double complex j[2][2] = {{0}};
    const double x = (freq_hz - h->centre_hz) / h->range_hz;
    for (int i = 0; i < h->n_harmonic; i++) {
        double complex of[2] = {0, 0};
        for (int a = h->n_angle - 1; a >= 0; a--) {
            double complex in_freq[2] = {0, 0};
            for (int b = h->n_freq - 1; b >= 0; b--) {
                const msi_c64 *c = &h->coefficient[((i * h->n_angle + a) * h->n_freq + b) * 2];
                for (int k = 0; k < 2; k++) in_freq[k] = in_freq[k] * x + (c[k].re + c[k].im * I);
            }
            for (int k = 0; k < 2; k++) of[k] = of[k] * angle + in_freq[k];
        }
        const double kappa = (i % 2 ? -1 : 1) * (2 * i + 1), c = cos(kappa * turn), s = sin(kappa * turn);
        j[0][0] += c * of[0];
        j[0][1] -= s * of[1];
        j[1][0] += s * of[0];
        j[1][1] += c * of[1];
    }
    const double turned[2][2] = {{dot(own[0], theta), dot(own[0], phi)}, {dot(own[1], theta), dot(own[1], phi)}};
    for (int feed = 0; feed < 2; feed++)
        for (int k = 0; k < 2; k++) out[feed][k] = j[feed][0] * turned[0][k] + j[feed][1] * turned[1][k];
}

void msi_pb_stations_jones(const msi_pb_stations *s, int antenna, double freq_hz, const msi_pb_direction *d,
                           msi_pb_part_of part, msi_c64 jones[4])
{
    const station *st = &s->station[antenna];
    const double cz = cos(d->zenith_rad), sz = sin(d->zenith_rad), ca = cos(d->azimuth_rad), sa = sin(d->azimuth_rad);
    const double from[3] = {sz * sa, sz * ca, cz}, theta[3] = {cz * sa, cz * ca, -sz}, phi[3] = {ca, -sa, 0};
    double complex sum[2][2] = {{0}};
    for (int i = 0; i < st->n_field; i++) {
        const field *f = &st->field[i];
        double complex factor[2] = {1, 1}, in_tile[2], j[2][2] = {{1, 0}, {0, 1}};
        if (part != MSI_PB_PART_ARRAY) dipole(&s->dipole, f, freq_hz, from, theta, phi, j);
        if (part != MSI_PB_PART_ELEMENT) {
            array_factor(&f->elements, freq_hz, from, d->aim->station, factor);
            if (f->tile.n) {
                array_factor(&f->tile, freq_hz, from, d->aim->tile, in_tile);
                for (int k = 0; k < 2; k++) factor[k] *= in_tile[k];
            }
            const double *aim = d->aim->station, way[3] = {from[0] - aim[0], from[1] - aim[1], from[2] - aim[2]};
            const double complex turn = cexp(2 * MSI_PI * I * freq_hz / MSI_SPEED_OF_LIGHT * dot(way, f->offset_m));
            for (int k = 0; k < 2; k++) factor[k] *= turn;
        }
        for (int feed = 0; feed < 2; feed++)
            for (int k = 0; k < 2; k++) sum[feed][k] += factor[feed] * j[feed][k] / st->n_field;
    }
    for (int k = 0; k < 4; k++) jones[k] = (msi_c64){creal(sum[k / 2][k % 2]), cimag(sum[k / 2][k % 2])};
}

/* ---- Making ---- */

/* Convert an ITRF vector to components along axes, the unit vectors to the east, north and up in ITRF. */
static void to_site(const double axes[3][3], const double *itrf, double *out)
{
    for (int k = 0; k < 3; k++) out[k] = dot(axes[k], itrf);
}

static int make_positions(positions *p, int64_t n)
{
    p->n = n;
    for (int k = 0; k < 3; k++) MSI_TRY(msi_alloc(&p->at_m[k], n, sizeof(double), "dipoles of stations"));
    for (int k = 0; k < 2; k++) MSI_TRY(msi_alloc(&p->on[k], n, sizeof(double), "dipoles of stations"));
    return MSI_OK;
}

static void put_position(positions *p, int64_t i, const double axes[3][3], const double *itrf_m, const double on[2])
{
    double at_m[3];
    to_site(axes, itrf_m, at_m);
    for (int k = 0; k < 3; k++) p->at_m[k][i] = at_m[k];
    for (int k = 0; k < 2; k++) p->all[k] += p->on[k][i] = on[k];
}

static void free_positions(positions *p)
{
    for (int k = 0; k < 3; k++) msi_free(p->at_m[k]);
    for (int k = 0; k < 2; k++) msi_free(p->on[k]);
}

static int add_field(msi_pb_stations *s, const msi_pb_set *set, const msi_ms_dipoles *from)
{
    static const double both[2] = {1, 1};
    const msi_ms_element *element = set->stations->element + from->first;
    station *st = &s->station[from->antenna];
    if (st->n_field == MOST_FIELDS)
        return msi_error_set(MSI_EINPUT, "LOFAR_ANTENNA_FIELD has more than %d fields of antenna %lld", MOST_FIELDS,
                             (long long)from->antenna);
    field *f = &st->field[st->n_field++];
    MSI_TRY(make_positions(&f->elements, from->n));
    for (int64_t i = 0; i < from->n; i++) {
        const double *o = element[i].offset_m;
        put_position(&f->elements, i, set->site_axes, o, element[i].is_on);
        if (element[i].is_on[0] || element[i].is_on[1]) s->largest_m = fmax(s->largest_m, 2 * sqrt(dot(o, o)));
    }
    if (from->has_tiles) {
        MSI_TRY(make_positions(&f->tile, MSI_MS_TILE));
        for (int i = 0; i < MSI_MS_TILE; i++) put_position(&f->tile, i, set->site_axes, from->tile_m[i], both);
    }
    double offset_m[3];
    for (int k = 0; k < 3; k++) offset_m[k] = from->position_m[k] - set->itrf_m[3 * from->antenna + k];
    to_site(set->site_axes, offset_m, f->offset_m);
    for (int k = 0; k < 3; k++) to_site(set->site_axes, from->axes[k], f->axes[k]);
    return MSI_OK;
}

static int add_fields(msi_pb_stations *s, const msi_pb_set *set)
{
    const msi_ms_stations *l = set->stations;
    int64_t n_tiled = 0;
    for (int64_t i = 0; i < l->n_field; i++) {
        MSI_TRY(add_field(s, set, &l->field[i]));
        n_tiled += l->field[i].has_tiles;
    }
    if (n_tiled && n_tiled < l->n_field)
        return msi_error_set(MSI_EINPUT,
                             "no primary beam of LOFAR: %lld fields of stations are HBA and %lld are LBA; "
                             "split the set",
                             (long long)n_tiled, (long long)(l->n_field - n_tiled));
    s->has_tiles = n_tiled > 0;
    for (int64_t a = 0; a < s->n; a++) {
        if (!s->station[a].n_field)
            return msi_error_set(
                MSI_EINPUT, "no primary beam of LOFAR: LOFAR_ANTENNA_FIELD has no field of antenna %lld", (long long)a);
    }
    return MSI_OK;
}

/* Find the file of coefficients. Returns: 0, MSI_EINPUT */
static int find_file(char *path, size_t size, const char *folder, int has_tiles)
{
    const char *const folders[] = {folder, getenv("EVERYBEAM_DATADIR"), "/usr/share/everybeam",
                                   "/usr/local/share/everybeam"};
    const char *name = has_tiles ? "HamakerHBACoeff.h5" : "HamakerLBACoeff.h5";
    for (int i = 0; i < (folder ? 1 : 4); i++) {
        if (!folders[i]) continue;
        snprintf(path, size, "%.400s/%s", folders[i], name);
        if (access(path, R_OK) == 0) return MSI_OK;
    }
    return msi_error_set(MSI_EINPUT,
                         "no primary beam of LOFAR: cannot read the coefficients of its dipoles, %s%s%.300s; give "
                         "their folder by -pb lofar:FOLDER or EVERYBEAM_DATADIR (share/everybeam of the Python package "
                         "everybeam has them), or give -pb off",
                         name, folder ? " in " : "", folder ? folder : "");
}

int msi_pb_stations_make(msi_pb_stations **out, const char *folder, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    char path[512];
    msi_pb_stations *s;
    *out = NULL;
    if (!set->stations || !set->stations->n_field || !set->stations->n_dir)
        return msi_error_set(MSI_EINPUT,
                             "no primary beam of %s: the set has no %s; use the observed Measurement Set, or give -pb "
                             "off",
                             set->telescope,
                             set->stations && set->stations->n_field
                                 ? "J2000 directions DELAY_DIR and LOFAR_TILE_BEAM_DIR in FIELD"
                                 : "subtable LOFAR_ANTENNA_FIELD");
    if (set->n_antenna > MSI_PB_STATIONS)
        return msi_error_set(MSI_EINPUT, "no primary beam of %s: %lld antennas are more than %d", set->telescope,
                             (long long)set->n_antenna, MSI_PB_STATIONS);
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "beams of stations"));
    *out = s;
    int rc = msi_alloc(&s->station, set->n_antenna, sizeof *s->station, "beams of stations");
    if (!rc) s->n = set->n_antenna;
    if (!rc) rc = add_fields(s, set);
    if (!rc) rc = find_file(path, sizeof path, folder, s->has_tiles);
    if (!rc) rc = msi_hamaker_read(&s->dipole, path);
    const double low_hz = s->dipole.centre_hz - s->dipole.range_hz, high_hz = s->dipole.centre_hz + s->dipole.range_hz;
    if (!rc && (set->low_hz < 0.95 * low_hz || set->high_hz > 1.05 * high_hz))
        rc = msi_error_set(MSI_EINPUT,
                           "no primary beam for channels from %g to %g MHz: the dipoles of %s are described from %g to "
                           "%g MHz; select channels",
                           1e-6 * set->low_hz, 1e-6 * set->high_hz, path, 1e-6 * low_hz, 1e-6 * high_hz);
    if (rc) {
        msi_pb_stations_free(s);
        *out = NULL;
        return rc;
    }
    snprintf(note, MSI_PB_NOTE, "LOFAR %s, array factors of %lld stations and Hamaker's dipole (%.100s)",
             s->has_tiles ? "HBA" : "LBA", (long long)s->n, path);
    return MSI_OK;
}

void msi_pb_stations_free(msi_pb_stations *s)
{
    if (!s) return;
    for (int64_t a = 0; a < s->n; a++)
        for (int i = 0; i < s->station[a].n_field; i++) {
            free_positions(&s->station[a].field[i].elements);
            free_positions(&s->station[a].field[i].tile);
        }
    msi_free(s->station);
    msi_free(s);
}

int msi_pb_stations_has_tiles(const msi_pb_stations *s)
{
    return s->has_tiles;
}

double msi_pb_stations_width(const msi_pb_stations *s, double freq_hz)
{
    return 1.02 * MSI_SPEED_OF_LIGHT / (freq_hz * fmax(s->largest_m, 1));
}
