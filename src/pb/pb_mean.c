/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The mean primary beam of an image:
 *
 * 1. Every field with selected rows is a pointing, weighted by its rows. Baselines are sorted by the kinds of their two
 *    dishes; times into bins of sidereal time, weighted by their rows.
 * 2. On each node of a coarse grid the responses of all pointings, kinds of baselines, times and frequencies are
 *    added. Models that do not turn on the sky need one time, those of one kind of dish one kind of baseline.
 * 3. Cubic interpolation between the nodes gives the response at each pixel. Nodes are at most 1/64 of the half-power
 *    width apart, which leaves an error of 2e-7 of the peak.
 *
 * The response of a baseline is V' = J_p V J_q^H for the coherency V in the basis of north and east, in which Stokes
 * parameters are defined. Feeds of dishes that turn on the sky are taken as turned back, as calibration by parallactic
 * angle leaves them; images of single hands respond by the power of their feed.
 */
#include "src/pb/pb_mean.h"

#include <complex.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/sky/phase_shift.h"

/* Nodes per half-power width, and the most nodes along an axis of an image: beyond, beams would be too small to see. */
enum { NODES_PER_WIDTH = 64, MOST_NODES = 4096 };

/* A direction at which the zenith is seen, with the weight of the rows. */
typedef struct sky_time {
    double zenith[3], north[3], east[3]; /* unit vectors of the horizon, in the frame of directions */
    double weight;
} sky_time;

/* A field of a set. */
typedef struct pointing {
    int set;
    double ra_rad, dec_rad, weight;
} pointing;

/* What a set contributes. */
typedef struct beam_set {
    msi_pb_model *model;
    int n_class;
    double pair[MSI_PB_CLASSES][MSI_PB_CLASSES]; /* share of the baselines of each pair of kinds, p <= q; sum 1 */
    int n_time;
    sky_time time[MSI_MS_TIME_BINS];
    int class_of_kind[MSI_MS_KINDS];
    double position_itrf_m[3];
    int is_placed;
} beam_set;

struct msi_pb_array {
    int n_set;
    beam_set *set;
    int64_t n_pointing;
    pointing *pointing;
    double width_rad; /* the narrowest half-power width, at the highest frequency */
};

/* ---- The array ---- */

/* Compute the matrix from J2000 to the mean equator and equinox of a date (J. H. Lieske et al., A&A 58, 1, 1977).
 * Given: centuries since J2000 */
static void precession(double t, double p[3][3])
{
    const double asec = MSI_PI / 180 / 3600;
    const double zeta = (2306.2181 * t + 0.30188 * t * t + 0.017998 * t * t * t) * asec;
    const double z = (2306.2181 * t + 1.09468 * t * t + 0.018203 * t * t * t) * asec;
    const double theta = (2004.3109 * t - 0.42665 * t * t - 0.041833 * t * t * t) * asec;
    const double cx = cos(zeta), sx = sin(zeta), cz = cos(z), sz = sin(z), ct = cos(theta), st = sin(theta);
    const double rows[3][3] = {{cx * ct * cz - sx * sz, -sx * ct * cz - cx * sz, -st * cz},
                               {cx * ct * sz + sx * cz, -sx * ct * sz + cx * cz, -st * sz},
                               {cx * st, -sx * st, ct}};
    memcpy(p, rows, sizeof rows);
}

/* Turn a vector of the date back to J2000. */
static void to_j2000(const double p[3][3], const double *of_date, double *out)
{
    for (int i = 0; i < 3; i++) out[i] = p[0][i] * of_date[0] + p[1][i] * of_date[1] + p[2][i] * of_date[2];
}

/* Compute the geodetic latitude and longitude of a place (B. R. Bowring, Survey Review 181, 323, 1976; WGS 84). */
static void geodetic(const double *itrf_m, double *latitude, double *longitude)
{
    const double a = 6378137, f = 1 / 298.257223563, b = a * (1 - f), e2 = f * (2 - f), d2 = e2 / (1 - e2);
    const double r = hypot(itrf_m[0], itrf_m[1]), u = atan2(itrf_m[2] * a, r * b);
    *latitude = atan2(itrf_m[2] + d2 * b * pow(sin(u), 3), r - e2 * a * pow(cos(u), 3));
    *longitude = atan2(itrf_m[1], itrf_m[0]);
}

static sky_time sky_at(const double *itrf_m, double mjd_s, double weight)
{
    double latitude, longitude, p[3][3];
    sky_time t = {.weight = weight};
    geodetic(itrf_m, &latitude, &longitude);
    const double lst = 2 * MSI_PI * msi_sidereal_turns(mjd_s / 86400) + longitude;
    precession((mjd_s / 86400 - 51544.5) / 36525, p);
    const double cl = cos(lst), sl = sin(lst), cb = cos(latitude), sb = sin(latitude);
    to_j2000(p, (const double[]){cb * cl, cb * sl, sb}, t.zenith);
    to_j2000(p, (const double[]){-sb * cl, -sb * sl, cb}, t.north);
    to_j2000(p, (const double[]){-sl, cl, 0}, t.east);
    return t;
}

static void find_times(beam_set *s, const msi_ms_row_times *t)
{
    s->n_time = 0;
    for (int i = 0; s->is_placed && i < MSI_MS_TIME_BINS; i++)
        if (t->weight[i] > 0)
            s->time[s->n_time++] = sky_at(s->position_itrf_m, t->time_s[i] / t->weight[i], t->weight[i]);
}

/* Count the baselines of each pair of kinds, all antennas alike. */
static void find_pairs(beam_set *s, const msi_ms_beam_facts *f)
{
    const uint8_t *class_of;
    double n[MSI_PB_CLASSES] = {0}, all = 0;
    s->n_class = msi_pb_model_classes(s->model, &class_of);
    for (int64_t i = 0; i < f->n_antenna; i++) {
        const int k = s->n_class > 1 ? class_of[i] : 0;
        n[k]++;
        s->class_of_kind[f->kind[i]] = k;
    }
    for (int p = 0; p < s->n_class; p++)
        for (int q = p; q < s->n_class; q++) all += s->pair[p][q] = p == q ? n[p] * (n[p] - 1) / 2 : n[p] * n[q];
    if (!(all > 0)) s->pair[0][0] = all = 1;
    for (int p = 0; p < s->n_class; p++)
        for (int q = p; q < s->n_class; q++) s->pair[p][q] /= all;
}

/* Return 1 if the response in a direction of the sky depends on the time. */
static int turns(const msi_pb_model *m)
{
    return msi_pb_model_mount(m) == MSI_PB_FIXED ||
           (msi_pb_model_mount(m) == MSI_PB_ALTAZ && !msi_pb_model_is_scalar(m));
}

static int make_set(beam_set *s, const char *word, const msi_ms_beam_facts *f, double low_hz, double high_hz,
                    char note[MSI_PB_NOTE])
{
    const msi_pb_set of = {.telescope = f->telescope,
                           .low_hz = low_hz,
                           .high_hz = high_hz,
                           .n_antenna = f->n_antenna,
                           .diameter_m = f->diameter_m,
                           .delay = f->has_delay ? f->delay : NULL};
    MSI_TRY(msi_pb_model_make(&s->model, word, &of, note));
    find_pairs(s, f);
    const double *p = f->position_itrf_m;
    const int is_placed = hypot(hypot(p[0], p[1]), p[2]) > 1e6;
    if (turns(s->model) && !is_placed)
        return msi_error_set(MSI_EINPUT,
                             "the primary beam of %s turns on the sky, but ANTENNA has no positions on the Earth",
                             msi_pb_model_name(s->model));
    s->is_placed = is_placed;
    memcpy(s->position_itrf_m, p, sizeof s->position_itrf_m);
    find_times(s, &f->row_times);
    return MSI_OK;
}

void msi_pb_array_weigh(msi_pb_array *a, int set, const double *pair, const msi_ms_row_times *times)
{
    double all = 0;
    if (set >= a->n_set) return;
    beam_set *s = &a->set[set];
    for (int i = 0; i < MSI_MS_PAIRS; i++) all += pair[i];
    if (!(all > 0)) return;
    memset(s->pair, 0, sizeof s->pair);
    for (int i = 0; i < MSI_MS_PAIRS; i++) {
        const int p = s->class_of_kind[i / MSI_MS_KINDS], q = s->class_of_kind[i % MSI_MS_KINDS];
        s->pair[p < q ? p : q][p < q ? q : p] += pair[i] / all;
    }
    find_times(s, times);
}

static int list_pointings(msi_pb_array *a, const msi_ms_reader *reader)
{
    int64_t at = 0, n = 0, n_row;
    pointing p = {0};
    while (msi_ms_reader_pointing(reader, &at, &p.set, &p.ra_rad, &p.dec_rad, &n_row)) n++;
    MSI_TRY(msi_alloc(&a->pointing, n ? n : 1, sizeof *a->pointing, "pointings"));
    for (at = 0; msi_ms_reader_pointing(reader, &at, &p.set, &p.ra_rad, &p.dec_rad, &n_row);) {
        p.weight = (double)n_row;
        a->pointing[a->n_pointing++] = p;
    }
    return MSI_OK;
}

int msi_pb_array_make(msi_pb_array **out, const char *word, const msi_ms_reader *reader, double low_hz, double high_hz,
                      const char *frame)
{
    msi_pb_array *a;
    *out = NULL;
    if (strcmp(frame, "J2000") && strcmp(frame, "ICRS"))
        return msi_error_set(MSI_EINPUT, "primary beams need directions in J2000 or ICRS, not in %s", frame);
    MSI_TRY(msi_alloc(&a, 1, sizeof *a, "primary beams"));
    a->width_rad = MSI_PI;
    int rc = list_pointings(a, reader);
    for (int64_t i = 0; i < a->n_pointing; i++)
        if (a->pointing[i].set >= a->n_set) a->n_set = a->pointing[i].set + 1;
    if (!rc) rc = msi_alloc(&a->set, a->n_set ? a->n_set : 1, sizeof *a->set, "primary beams");
    char last[MSI_PB_NOTE] = "";
    for (int i = 0; !rc && i < a->n_set; i++) {
        const msi_ms_beam_facts f = msi_ms_reader_beam_facts(reader, i);
        char note[MSI_PB_NOTE] = "";
        rc = make_set(&a->set[i], word, &f, low_hz, high_hz, note);
        if (!rc && strcmp(note, last) != 0) msi_log_info("primary beam: %s", note);
        memcpy(last, note, sizeof last);
        for (int k = 0; !rc && k < a->set[i].n_class; k++)
            a->width_rad = fmin(a->width_rad, msi_pb_model_width(a->set[i].model, k, high_hz));
    }
    if (rc)
        msi_pb_array_free(a);
    else
        *out = a;
    return rc;
}

void msi_pb_array_free(msi_pb_array *a)
{
    if (!a) return;
    for (int i = 0; a->set && i < a->n_set; i++) msi_pb_model_free(a->set[i].model);
    msi_free(a->set);
    msi_free(a->pointing);
    msi_free(a);
}

const char *msi_pb_array_name(const msi_pb_array *a)
{
    return msi_pb_model_name(a->set[0].model);
}

/* ---- The response of one baseline in one direction ---- */

typedef double complex jones[2][2];

/* Compute the Mueller matrix of Stokes parameters I Q U V: V' = p V q^H. Row and column of out: image and sky. */
static void mueller(jones p, jones q, double out[4][4])
{
    /* Coherencies of unit Stokes parameters, XX XY; YX YY. */
    static const double complex unit[4][2][2] = {
        {{1, 0}, {0, 1}}, {{1, 0}, {0, -1}}, {{0, 1}, {1, 0}}, {{0, I}, {-I, 0}}};
    for (int s = 0; s < 4; s++) {
        double complex left[2][2], v[2][2];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) left[i][j] = p[i][0] * unit[s][0][j] + p[i][1] * unit[s][1][j];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) v[i][j] = left[i][0] * conj(q[j][0]) + left[i][1] * conj(q[j][1]);
        out[0][s] = creal(v[0][0] + v[1][1]) / 2;
        out[1][s] = creal(v[0][0] - v[1][1]) / 2;
        out[2][s] = creal(v[0][1] + v[1][0]) / 2;
        out[3][s] = cimag(v[0][1] - v[1][0]) / 2;
    }
}

static int stokes_of(const msi_plane *p)
{
    return p->pol >= MSI_POL_I && p->pol <= MSI_POL_V ? (int)(p->pol - MSI_POL_I) : -1;
}

/* The feed of a hand of two like feeds: 0 X or R, 1 Y or L; -1 for others. */
static int feed_of(const msi_plane *p)
{
    if (p->pol == MSI_POL_XX || p->pol == MSI_POL_RR) return 0;
    return p->pol == MSI_POL_YY || p->pol == MSI_POL_LL ? 1 : -1;
}

/* Add the response of a pair of dishes. Given: sky  their Jones matrices in the basis of the sky; feed  in their own. */
static void add_pair(const msi_pb_target *t, jones sky_p, jones sky_q, double weight, double *sum)
{
    double m[4][4];
    mueller(sky_p, sky_q, m);
    for (int to = 0; to < t->n_plane; to++)
        for (int from = 0; from < t->n_plane; from++) {
            const int a = stokes_of(&t->planes[to]), b = stokes_of(&t->planes[from]);
            double value = 0;
            if (a >= 0 && b >= 0)
                value = m[a][b];
            else if (to == from)
                value = feed_of(&t->planes[to]) == 0   ? m[0][0] + m[1][0]
                        : feed_of(&t->planes[to]) == 1 ? m[0][0] - m[1][0]
                                                       : m[0][0];
            sum[to * t->n_plane + from] += weight * value;
        }
    sum[t->n_plane * t->n_plane] += weight * (m[0][0] + m[1][0]);
    sum[t->n_plane * t->n_plane + 1] += weight * (m[0][0] - m[1][0]);
}

/* ---- One direction ---- */

/* A pointing, as seen from the image's centre. */
typedef struct seen_pointing {
    const beam_set *set;
    double weight;
    double rotation[3][3];           /* from the image's l, m, n to east, north and radius of the pointing */
    double at[3], east[3], north[3]; /* unit vectors of the pointing in the frame of directions */
    int turns;                       /* the response depends on the time */
    int n_turn;                      /* times that matter */
    double cos_up[MSI_MS_TIME_BINS], sin_up[MSI_MS_TIME_BINS]; /* of the parallactic angle at each time */
} seen_pointing;

static double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void look_at(double ra, double dec, double at[3], double east[3], double north[3])
{
    double axes[3][3];
    msi_phase_shift_axes(ra, dec, axes);
    memcpy(east, axes[0], sizeof axes[0]);
    memcpy(north, axes[1], sizeof axes[1]);
    memcpy(at, axes[2], sizeof axes[2]);
}

static void see_pointing(seen_pointing *s, const msi_pb_array *a, const pointing *p, const msi_pb_target *t)
{
    msi_phase_shift shift;
    s->set = &a->set[p->set];
    s->weight = p->weight;
    msi_phase_shift_make(&shift, t->ra_rad, t->dec_rad, p->ra_rad, p->dec_rad);
    memcpy(s->rotation, shift.rotation, sizeof s->rotation);
    look_at(p->ra_rad, p->dec_rad, s->at, s->east, s->north);
    s->turns = turns(s->set->model) && s->set->n_time > 0;
    s->n_turn = s->turns ? s->set->n_time : 1;
    for (int i = 0; s->turns && i < s->n_turn; i++) {
        const double *zenith = s->set->time[i].zenith;
        const double e = dot(zenith, s->east), n = dot(zenith, s->north), r = hypot(e, n);
        s->cos_up[i] = r > 0 ? n / r : 1;
        s->sin_up[i] = r > 0 ? e / r : 0;
    }
}

/* Compute the Jones matrix of a station without its own pointing, in the basis of north and east. */
static void station_jones(const seen_pointing *s, int class_id, double freq_hz, const sky_time *when,
                          const double *direction, jones out)
{
    double north[3], east[3], at[3], theta[3], phi[3];
    msi_c64 j[4];
    const double up = dot(direction, when->zenith), n = dot(direction, when->north), e = dot(direction, when->east);
    const double flat = hypot(n, e);
    const msi_pb_direction d = {.azimuth_rad = atan2(e, n), .zenith_rad = atan2(flat, up)};
    msi_pb_model_jones(s->set->model, class_id, freq_hz, &d, j);
    look_at(atan2(direction[1], direction[0]), atan2(direction[2], hypot(direction[0], direction[1])), at, east, north);
    for (int k = 0; k < 3; k++) {
        /* theta grows from the zenith down, phi with the azimuth. */
        phi[k] = flat > 0 ? (n * when->east[k] - e * when->north[k]) / flat : when->east[k];
        const double level = flat > 0 ? (n * when->north[k] + e * when->east[k]) / flat : when->north[k];
        theta[k] = up * level - flat * when->zenith[k];
    }
    for (int f = 0; f < 2; f++) {
        const double complex a = j[2 * f].re + I * j[2 * f].im, b = j[2 * f + 1].re + I * j[2 * f + 1].im;
        out[f][0] = a * dot(theta, north) + b * dot(phi, north);
        out[f][1] = a * dot(theta, east) + b * dot(phi, east);
    }
}

/* Compute the Jones matrix of a dish in the basis of north and east, with its feeds turned back to it; where hands are
 * imaged, in that of its feeds. */
static void dish_jones(const seen_pointing *s, int class_id, double freq_hz, int time, double x_east, double y_north,
                       int is_hand, jones out)
{
    msi_pb_direction d = {.x_rad = x_east, .y_rad = y_north};
    msi_c64 j[4];
    const int is_altaz = s->turns;
    const double c = is_altaz ? s->cos_up[time] : 0, si = is_altaz ? s->sin_up[time] : 0;
    if (is_altaz) {
        /* x towards growing azimuth, y up: to the west and north on the meridian south of the zenith. */
        d.x_rad = -x_east * c + y_north * si;
        d.y_rad = y_north * c + x_east * si;
    }
    msi_pb_model_jones(s->set->model, class_id, freq_hz, &d, j);
    double complex of[2][2];
    for (int f = 0; f < 2; f++)
        for (int k = 0; k < 2; k++) of[f][k] = j[2 * f + k].re + I * j[2 * f + k].im;
    if (!is_altaz || is_hand) {
        memcpy(out, of, sizeof of);
        return;
    }
    /* Components along x and y from those along north and east; turned back on the side of the feeds. */
    const double turn[2][2] = {{si, -c}, {c, si}};
    double complex half[2][2];
    for (int f = 0; f < 2; f++)
        for (int k = 0; k < 2; k++) half[f][k] = of[f][0] * turn[0][k] + of[f][1] * turn[1][k];
    for (int f = 0; f < 2; f++)
        for (int k = 0; k < 2; k++) out[f][k] = turn[0][f] * half[0][k] + turn[1][f] * half[1][k];
}

/* Add the responses of a pointing at a frequency and a time. */
static void add_time(const seen_pointing *s, const msi_pb_target *t, double freq_hz, int time, const double *direction,
                     double x_east, double y_north, double weight, double *sum)
{
    jones of[MSI_PB_CLASSES];
    const beam_set *b = s->set;
    for (int k = 0; k < b->n_class; k++) {
        if (msi_pb_model_mount(b->model) == MSI_PB_FIXED)
            station_jones(s, k, freq_hz, &b->time[time], direction, of[k]);
        else
            dish_jones(s, k, freq_hz, time, x_east, y_north, stokes_of(&t->planes[0]) < 0, of[k]);
    }
    for (int p = 0; p < b->n_class; p++)
        for (int q = p; q < b->n_class; q++)
            if (b->pair[p][q] > 0) add_pair(t, of[p], of[q], weight * b->pair[p][q], sum);
}

/* The angle beyond which a pointing's model is not valid, at the highest frequency of the target. */
static double limit_of(const seen_pointing *s, const msi_pb_target *t)
{
    double limit = MSI_PI;
    for (int f = 0; f < t->n_freq; f++)
        for (int k = 0; k < s->set->n_class; k++)
            if (t->weight[f] > 0) limit = fmin(limit, msi_pb_model_limit(s->set->model, k, t->freq_hz[f]));
    return limit;
}

/*
 * Add the responses of all pointings in a direction l, m, n from the image's centre.
 * Given: limit  [n] angles of the pointings; with several of them, each counts only within its own
 */
static void respond(const seen_pointing *s, int64_t n, const double *limit, const msi_pb_target *t, const double *lmn,
                    const double *direction, double *sum)
{
    for (int64_t i = 0; i < n; i++, s++) {
        const double *const r0 = s->rotation[0], *const r1 = s->rotation[1], *const r2 = s->rotation[2];
        const double e = dot(r0, lmn), north = dot(r1, lmn), rho = hypot(e, north);
        const double angle = atan2(rho, dot(r2, lmn)), stretch = rho > 0 ? angle / rho : 1;
        double all = 0;
        if (n > 1 && angle > limit[i]) continue;
        for (int k = 0; k < s->n_turn; k++) all += s->n_turn > 1 ? s->set->time[k].weight : 1;
        for (int k = 0; k < s->n_turn; k++)
            for (int f = 0; f < t->n_freq; f++)
                if (t->weight[f] > 0)
                    add_time(s, t, t->freq_hz[f], k, direction, e * stretch, north * stretch,
                             s->weight * t->weight[f] * (s->n_turn > 1 ? s->set->time[k].weight : 1) / all, sum);
    }
}

/* ---- The grid ---- */

/* Lay the nodes: one more than the image on the low side and two on the high side, for the interpolation. */
static int lay_nodes(msi_pb_mean *m, const msi_pb_target *t, double width_rad)
{
    const double cell = fmax(t->geometry.cell_x_rad, t->geometry.cell_y_rad);
    const int64_t larger = t->geometry.nx > t->geometry.ny ? t->geometry.nx : t->geometry.ny;
    m->geometry = t->geometry;
    m->n_plane = t->n_plane;
    m->n_element = t->n_plane * t->n_plane;
    m->step = (int64_t)fmin(fmax(floor(width_rad / NODES_PER_WIDTH / cell), 1), (double)larger);
    if (m->step < (larger + MOST_NODES - 1) / MOST_NODES) m->step = (larger + MOST_NODES - 1) / MOST_NODES;
    m->n_x = (t->geometry.nx - 1) / m->step + 4;
    m->n_y = (t->geometry.ny - 1) / m->step + 4;
    return msi_alloc(&m->node, m->n_x * m->n_y * (m->n_element + 2), sizeof *m->node, "the primary beam");
}

static void fill_node(const seen_pointing *s, const msi_pb_array *a, const double *limit, const msi_pb_target *t,
                      msi_pb_mean *m, int64_t i, int64_t j)
{
    double sum[MSI_MAX_PLANES * MSI_MAX_PLANES + 2] = {0}, at[3], east[3], north[3], direction[3];
    double all = 0, of_freq = 0;
    float *node = m->node + (j * m->n_x + i) * (m->n_element + 2);
    const double l = ((double)t->geometry.nx / 2 - (double)((i - 1) * m->step)) * t->geometry.cell_x_rad;
    const double y = ((double)((j - 1) * m->step) - (double)t->geometry.ny / 2) * t->geometry.cell_y_rad;
    const double r2 = l * l + y * y;
    /* Nodes beyond the horizon serve the interpolation of pixels before it. */
    const double scale = r2 < 1 ? 1 : 1 / sqrt(r2), lmn[3] = {l * scale, y * scale, r2 < 1 ? sqrt(1 - r2) : 0};
    look_at(t->ra_rad, t->dec_rad, at, east, north);
    for (int k = 0; k < 3; k++) direction[k] = lmn[0] * east[k] + lmn[1] * north[k] + lmn[2] * at[k];
    respond(s, a->n_pointing, limit, t, lmn, direction, sum);
    for (int64_t k = 0; k < a->n_pointing; k++) all += s[k].weight;
    for (int f = 0; f < t->n_freq; f++) of_freq += t->weight[f];
    for (int k = 0; k < m->n_element + 2; k++) node[k] = (float)(sum[k] / all / of_freq);
}

static int make_discs(msi_pb_mean *m, const seen_pointing *s, int64_t n, const double *limit)
{
    int all = 1;
    for (int64_t i = 0; i < n; i++) all &= limit[i] < MSI_PI;
    if (!all || n > INT32_MAX) return MSI_OK;
    MSI_TRY(msi_alloc(&m->disc, n, sizeof *m->disc, "the primary beam"));
    m->n_disc = (int)n;
    for (int64_t i = 0; i < n; i++)
        m->disc[i] = (struct msi_pb_disc){s[i].rotation[2][0], s[i].rotation[2][1], s[i].rotation[2][2], cos(limit[i])};
    return MSI_OK;
}

int msi_pb_mean_make(msi_pb_mean *out, const msi_pb_array *a, const msi_pb_target *t)
{
    seen_pointing *s = NULL;
    double *limit = NULL;
    *out = (msi_pb_mean){0};
    int rc = lay_nodes(out, t, a->width_rad);
    if (!rc) rc = msi_alloc(&s, a->n_pointing, sizeof *s, "pointings");
    if (!rc) rc = msi_alloc(&limit, a->n_pointing, sizeof *limit, "pointings");
    for (int64_t i = 0; !rc && i < a->n_pointing; i++) {
        see_pointing(&s[i], a, &a->pointing[i], t);
        limit[i] = limit_of(&s[i], t);
    }
    if (!rc) rc = make_discs(out, s, a->n_pointing, limit);
    if (!rc) {
#pragma omp parallel for schedule(dynamic, 1)
        for (int64_t j = 0; j < out->n_y; j++)
            for (int64_t i = 0; i < out->n_x; i++) fill_node(s, a, limit, t, out, i, j);
        out->weight = 1;
    }
    msi_free(s);
    msi_free(limit);
    if (rc) msi_pb_mean_free(out);
    return rc;
}

int msi_pb_mean_from_feeds(msi_pb_mean *out, const msi_image_geometry *g, const msi_plane *planes, int n_plane,
                           const float *x, const float *y)
{
    *out = (msi_pb_mean){.geometry = *g, .n_plane = n_plane, .n_element = n_plane * n_plane, .step = 1, .weight = 1};
    out->n_x = g->nx + 3;
    out->n_y = g->ny + 3;
    const int n = out->n_element + 2;
    MSI_TRY(msi_alloc(&out->node, out->n_x * out->n_y * n, sizeof *out->node, "the primary beam"));
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < g->ny; j++)
        for (int64_t i = 0; i < g->nx; i++) {
            float *node = out->node + ((j + 1) * out->n_x + i + 1) * n;
            const float a = x[j * g->nx + i], b = y[j * g->nx + i];
            for (int p = 0; p < n_plane; p++) {
                const int feed = feed_of(&planes[p]);
                node[p * (n_plane + 1)] = feed == 0 ? a : feed == 1 ? b : (a + b) / 2;
            }
            node[n - 2] = a;
            node[n - 1] = b;
        }
    return MSI_OK;
}

void msi_pb_mean_free(msi_pb_mean *m)
{
    msi_free(m->node);
    msi_free(m->disc);
    *m = (msi_pb_mean){0};
}

/* ---- Interpolation ---- */

/* Weights of four neighbouring nodes at 0 <= t < 1 between the inner two: Lagrange's cubic. */
static void cubic(double t, double w[4])
{
    w[0] = -t * (t - 1) * (t - 2) / 6;
    w[1] = (t + 1) * (t - 1) * (t - 2) / 2;
    w[2] = -(t + 1) * t * (t - 2) / 2;
    w[3] = (t + 1) * t * (t - 1) / 6;
}

/* Interpolate all values of all columns of nodes at row y of the image. Returned: row [n_x][n_element + 2] */
static void node_row(const msi_pb_mean *m, double y, double *row)
{
    const int64_t n = m->n_x * (m->n_element + 2), j = (int64_t)floor(y / (double)m->step);
    double w[4];
    cubic(y / (double)m->step - (double)j, w);
    for (int64_t k = 0; k < n; k++) row[k] = 0;
    /* Nodes that are not used may be NaN. */
    for (int i = 0; i < 4; i++)
        for (int64_t k = 0; w[i] != 0 && k < n; k++) row[k] += w[i] * (double)m->node[(j + i) * n + k];
}

/* Interpolate along a row of nodes. Returned: value [n_element + 2] */
static void at_pixel(const msi_pb_mean *m, const double *row, double x, double *value)
{
    const int n = m->n_element + 2;
    const int64_t i = (int64_t)floor(x / (double)m->step);
    double w[4];
    cubic(x / (double)m->step - (double)i, w);
    for (int k = 0; k < n; k++) {
        const double *r = row + i * n + k;
        value[k] = w[1] == 1 ? r[n] : w[0] * r[0] + w[1] * r[n] + w[2] * r[2 * n] + w[3] * r[3 * n];
    }
}

/* Return 1 if a pixel is above the horizon and within the model's range. */
static int is_valid(const msi_pb_mean *m, double x, double y)
{
    const double l = ((double)m->geometry.nx / 2 - x) * m->geometry.cell_x_rad;
    const double mm = (y - (double)m->geometry.ny / 2) * m->geometry.cell_y_rad, r2 = l * l + mm * mm;
    if (r2 >= 1) return 0;
    const double n = sqrt(1 - r2);
    for (int i = 0; i < m->n_disc; i++)
        if (m->disc[i].l * l + m->disc[i].m * mm + m->disc[i].n * n >= m->disc[i].cos_limit) return 1;
    return m->n_disc == 0;
}

/* Invert a matrix by elimination with pivots. Returns: 1, or 0 if it is singular. */
static int invert(int n, double *a, double *inverse)
{
    for (int i = 0; i < n * n; i++) inverse[i] = i % (n + 1) == 0;
    for (int c = 0; c < n; c++) {
        int pivot = c;
        for (int r = c + 1; r < n; r++)
            if (fabs(a[r * n + c]) > fabs(a[pivot * n + c])) pivot = r;
        if (!(fabs(a[pivot * n + c]) > 0)) return 0;
        for (int k = 0; k < n; k++) {
            const double t = a[c * n + k], u = inverse[c * n + k];
            a[c * n + k] = a[pivot * n + k], a[pivot * n + k] = t;
            inverse[c * n + k] = inverse[pivot * n + k], inverse[pivot * n + k] = u;
        }
        const double d = 1 / a[c * n + c];
        for (int k = 0; k < n; k++) a[c * n + k] *= d, inverse[c * n + k] *= d;
        for (int r = 0; r < n; r++) {
            const double f = a[r * n + c];
            for (int k = 0; k < n && r != c; k++)
                a[r * n + k] -= f * a[c * n + k], inverse[r * n + k] -= f * inverse[c * n + k];
        }
    }
    return 1;
}

static void set_pixel(msi_image *image, int plane, int64_t at, double value)
{
    void *p = msi_image_plane(image, plane);
    if (image->precision == MSI_FP32)
        ((float *)p)[at] = (float)value;
    else
        ((double *)p)[at] = value;
}

/* Correct the planes of a pixel by its matrix. */
static void correct_pixel(const msi_pb_mean *m, int first, double limit, const double *value, msi_image *image,
                          int64_t at)
{
    const int n = image->n_plane, is_whole = n == m->n_plane;
    double a[MSI_MAX_PLANES * MSI_MAX_PLANES], inverse[MSI_MAX_PLANES * MSI_MAX_PLANES], in[MSI_MAX_PLANES];
    double least = INFINITY;
    for (int p = 0; p < n; p++) {
        in[p] = msi_image_value(msi_image_plane(image, p), image->precision, at);
        least = fmin(least, value[(first + p) * (m->n_plane + 1)]);
    }
    int is_there = value && least > limit;
    if (is_there && is_whole && n > 1) {
        memcpy(a, value, (size_t)(n * n) * sizeof *a);
        is_there = invert(n, a, inverse);
    }
    for (int p = 0; p < n; p++) {
        double out = NAN;
        if (is_there && is_whole && n > 1) {
            out = 0;
            for (int q = 0; q < n; q++) out += inverse[p * n + q] * in[q];
        } else if (is_there) {
            out = in[p] / value[(first + p) * (m->n_plane + 1)];
        }
        set_pixel(image, p, at, out);
    }
}

int msi_pb_mean_correct(const msi_pb_mean *m, int first, double limit, msi_image *image)
{
    const int64_t nx = m->geometry.nx, ny = m->geometry.ny;
    const int64_t n_row = m->n_x * (m->n_element + 2);
    double *rows;
    MSI_TRY(msi_alloc(&rows, omp_get_max_threads() * n_row, sizeof *rows, "rows of the primary beam"));
#pragma omp parallel
    {
        double *row = rows + omp_get_thread_num() * n_row, value[MSI_MAX_PLANES * MSI_MAX_PLANES + 2];
#pragma omp for schedule(static)
        for (int64_t y = 0; y < ny; y++) {
            node_row(m, (double)y, row);
            for (int64_t x = 0; x < nx; x++) {
                if (!is_valid(m, (double)x, (double)y)) {
                    for (int p = 0; p < image->n_plane; p++) set_pixel(image, p, y * nx + x, NAN);
                    continue;
                }
                at_pixel(m, row, (double)x, value);
                correct_pixel(m, first, limit, value, image, y * nx + x);
            }
        }
    }
    msi_free(rows);
    return MSI_OK;
}

int msi_pb_mean_image(const msi_pb_mean *m, msi_pb_part part, int plane, double limit, float *pixel)
{
    const int64_t nx = m->geometry.nx, ny = m->geometry.ny;
    const int k = part == MSI_PB_RESPONSE ? plane * (m->n_plane + 1) : m->n_element + (part == MSI_PB_FEED_Y);
    const int64_t n_row = m->n_x * (m->n_element + 2);
    double *rows;
    MSI_TRY(msi_alloc(&rows, omp_get_max_threads() * n_row, sizeof *rows, "rows of the primary beam"));
#pragma omp parallel
    {
        double *row = rows + omp_get_thread_num() * n_row, value[MSI_MAX_PLANES * MSI_MAX_PLANES + 2];
#pragma omp for schedule(static)
        for (int64_t y = 0; y < ny; y++) {
            node_row(m, (double)y, row);
            for (int64_t x = 0; x < nx; x++) {
                float *out = &pixel[y * nx + x];
                *out = NAN;
                if (!is_valid(m, (double)x, (double)y)) continue;
                at_pixel(m, row, (double)x, value);
                if (limit < 0 || value[k] > limit) *out = (float)value[k];
            }
        }
    }
    msi_free(rows);
    return MSI_OK;
}

double msi_pb_mean_at(const msi_pb_mean *m, int to, int from, double x, double y)
{
    double sum = 0, wx[4], wy[4];
    const int n = m->n_element + 2;
    if (!(x >= 0 && y >= 0 && x < (double)m->geometry.nx && y < (double)m->geometry.ny) || !is_valid(m, x, y))
        return NAN;
    const int64_t i = (int64_t)floor(x / (double)m->step), j = (int64_t)floor(y / (double)m->step);
    cubic(x / (double)m->step - (double)i, wx);
    cubic(y / (double)m->step - (double)j, wy);
    for (int b = 0; b < 4; b++)
        for (int a = 0; a < 4; a++)
            sum += wy[b] * wx[a] * (double)m->node[((j + b) * m->n_x + i + a) * n + to * m->n_plane + from];
    return sum;
}

int msi_pb_mean_add(msi_pb_mean *sum, const msi_pb_mean *more, double weight)
{
    const int64_t n = more->n_x * more->n_y * (more->n_element + 2);
    if (!sum->node) {
        *sum = *more;
        sum->node = NULL;
        sum->disc = NULL;
        sum->weight = 0;
        sum->is_written = 0;
        MSI_TRY(msi_alloc(&sum->node, n, sizeof *sum->node, "the primary beam"));
        if (more->n_disc) {
            MSI_TRY(msi_alloc(&sum->disc, more->n_disc, sizeof *sum->disc, "the primary beam"));
            memcpy(sum->disc, more->disc, (size_t)more->n_disc * sizeof *sum->disc);
        }
    }
    const double all = sum->weight + weight;
    if (!(weight > 0) || !(all > 0)) return MSI_OK;
    for (int64_t k = 0; k < n; k++) sum->node[k] = (float)((sum->weight * sum->node[k] + weight * more->node[k]) / all);
    /* The smaller range of the two is valid for both. */
    for (int i = 0; i < sum->n_disc && i < more->n_disc; i++)
        sum->disc[i].cos_limit = fmax(sum->disc[i].cos_limit, more->disc[i].cos_limit);
    sum->weight = all;
    return MSI_OK;
}
