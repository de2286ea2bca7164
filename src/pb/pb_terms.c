/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How the terms are found:
 *
 * 1. Choose times and frequencies so closely spaced that the response is linear between them (lay_times,
 *    lay_frequencies).
 * 2. Compute the response at some of them, in scattered directions of the image. Each response is a vector with an
 *    element for each direction. Add the vector that is farthest from the span of the basis to the basis, until all
 *    vectors are near the span (choose). This is the greedy reduced-basis method. The orthonormal basis vectors are the
 *    beams at the scattered directions. The same linear combinations of responses are the beams at the nodes of the
 *    coarse grid.
 * 3. The factors at each time and frequency are scalar products with the basis (find_factors).
 * 4. Compare the sum with the response at other directions, times and frequencies (measure). If the largest error is
 *    above the accuracy, add the response at this place to the vectors, and repeat steps 2 to 4.
 */
#include "src/pb/pb_terms.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/pb/pb_file.h"
#include "src/pb/pb_mean.h"

enum {
    DIRECTIONS = 320,  /* directions for the vectors */
    OTHER = 160,       /* other directions, for measuring errors */
    FEW = 48,          /* directions for choosing times and frequencies */
    MOST_TIMES = 4097, /* 10 s steps in half a day */
    CANDIDATES = 24,   /* number of times, and of frequencies, of the first vectors */
    MOST_VECTORS = 2048,
    ROUNDS = 8,
    LEAST_NODES = 16,     /* per half-power width */
    NODES_PER_WIDTH = 64, /* error 2e-7; it falls with the fourth power of this */
    MOST_NODES = 4096
};

/* A time, pair of dishes and frequency. */
typedef struct place {
    double time_s, freq_hz;
    int p, q;         /* kinds of dishes */
    int is_imaginary; /* 1: the vector is the imaginary part of the response */
} place;

/* State while terms are made. */
typedef struct maker {
    const msi_pb_domain *d;
    msi_pb_terms *t;
    int is_hand, n_class, n_element;
    int n_lmn; /* number of directions; the last OTHER of them are only for measuring */
    double lmn[DIRECTIONS + OTHER][3];
    int n_fit; /* length of a vector: number of directions times number of elements */
    int n_vector;
    place *at;      /* [n_vector] */
    double *vector; /* [n_vector][n_fit] less its projections on the basis */
    int n_basis;
    double *basis;                                          /* [MSI_PB_MOST_TERMS][n_fit] orthonormal */
    place origin[MSI_PB_MOST_TERMS];                        /* response of which each term is made */
    double of_origin[MSI_PB_MOST_TERMS][MSI_PB_MOST_TERMS]; /* basis k = sum over j <= k of this times response j */
} maker;

/* ---- The response ---- */

static int stokes_of(msi_pol pol)
{
    return pol >= MSI_POL_I && pol <= MSI_POL_V ? (int)(pol - MSI_POL_I) : -1;
}

/* Compute the response in a direction. Returned: out [n_out][n_in] */
static void respond(const maker *k, const msi_pb_moment *when, const place *at, const double *lmn, double complex *out)
{
    const msi_pb_domain *d = k->d;
    msi_pb_jones p, q;
    msi_pb_view_jones(d->view, when, at->p, at->freq_hz, lmn, k->is_hand, p);
    if (at->q == at->p)
        memcpy(q, p, sizeof p);
    else
        msi_pb_view_jones(d->view, when, at->q, at->freq_hz, lmn, k->is_hand, q);
    for (int i = 0; i < d->n_in; i++) {
        double complex seen[4];
        msi_pb_respond(p, q, k->is_hand ? 0 : stokes_of(d->in[i]), seen);
        const int is_first = d->in[i] == MSI_POL_XX || d->in[i] == MSI_POL_RR;
        const double complex hand = is_first ? seen[0] + seen[1] : seen[0] - seen[1];
        for (int o = 0; o < d->n_out; o++)
            out[o * d->n_in + i] = !k->is_hand ? seen[stokes_of(d->out[o])] : o == i ? hand : 0;
    }
}

/* ---- Directions ---- */

/* Return the radical inverse of a number, which gives the points of the Halton sequence. */
static double scatter(int64_t i, int base)
{
    double value = 0;
    for (double f = 1.0 / base; i > 0; i /= base, f /= base) value += f * (double)(i % base);
    return value;
}

/* A part of an image, in pixels. */
typedef struct box {
    double x0, x1, y0, y1;
} box;

static void to_lmn(const msi_image_geometry *g, double x, double y, double lmn[3])
{
    const double l = ((double)g->nx / 2 - x) * g->cell_x_rad, m = (y - (double)g->ny / 2) * g->cell_y_rad;
    const double r2 = l * l + m * m, scale = r2 < 1 ? 1 : 1 / sqrt(r2);
    lmn[0] = l * scale;
    lmn[1] = m * scale;
    lmn[2] = r2 < 1 ? sqrt(1 - r2) : 0;
}

/* Return a box that contains the part of the image within the limit of the beam. */
static box seen_part(const msi_pb_domain *d, double limit)
{
    const msi_image_geometry *g = &d->geometry;
    box b = {0, (double)(g->nx - 1), 0, (double)(g->ny - 1)};
    const double *at = d->view->rotation[2]; /* l, m, n of the pointing */
    if (!(limit < 0.3) || !(at[2] > 0.5)) return b;
    /* The projection of a circle of this angle is an ellipse, whose half axes are at most r. */
    const double r = sin(limit), x = (double)g->nx / 2 - at[0] / g->cell_x_rad,
                 y = (double)g->ny / 2 + at[1] / g->cell_y_rad;
    b.x0 = fmax(b.x0, floor(x - r / g->cell_x_rad) - 1);
    b.x1 = fmin(b.x1, ceil(x + r / g->cell_x_rad) + 1);
    b.y0 = fmax(b.y0, floor(y - r / g->cell_y_rad) - 1);
    b.y1 = fmin(b.y1, ceil(y + r / g->cell_y_rad) + 1);
    return b;
}

static int is_seen(const msi_pb_view *v, double limit, const double *lmn)
{
    return lmn[2] > 0 && msi_pb_view_angle(v, lmn) <= limit;
}

/* Scatter directions over the part of the image that is seen. */
static void scatter_directions(maker *k, const box *b)
{
    enum { TRIED = 200 };
    k->n_lmn = 0;
    for (int64_t i = 1; i < (int64_t)TRIED * (DIRECTIONS + OTHER) && k->n_lmn < DIRECTIONS + OTHER; i++) {
        double *lmn = k->lmn[k->n_lmn];
        to_lmn(&k->d->geometry, b->x0 + (b->x1 - b->x0) * scatter(i, 2), b->y0 + (b->y1 - b->y0) * scatter(i, 3), lmn);
        k->n_lmn += is_seen(k->d->view, k->t->limit_rad, lmn);
    }
    const int n = k->n_lmn > OTHER + 1 ? k->n_lmn - OTHER : k->n_lmn;
    k->n_fit = n * k->n_element;
}

/* ---- Times and frequencies ---- */

/* Return the largest deviation, over FEW directions, of the response at `middle` from linear interpolation between `a`
 * and `b`. Given: t  weight of b */
static double bend(const maker *k, const place *a, const place *b, const place *middle, double t)
{
    const msi_pb_moment at_a = msi_pb_view_at(k->d->view, a->time_s), at_b = msi_pb_view_at(k->d->view, b->time_s),
                        at_m = msi_pb_view_at(k->d->view, middle->time_s);
    double worst = 0;
    for (int i = 0; i < k->n_lmn && i < FEW; i++) {
        double complex of_a[16], of_b[16], of_m[16];
        respond(k, &at_a, a, k->lmn[i], of_a);
        respond(k, &at_b, b, k->lmn[i], of_b);
        respond(k, &at_m, middle, k->lmn[i], of_m);
        for (int e = 0; e < k->n_element; e++) worst = fmax(worst, cabs(of_m[e] - (1 - t) * of_a[e] - t * of_b[e]));
    }
    return worst;
}

/* Halve an interval of time recursively until the response is linear in it, and append the times after its start. */
static int halve_time(maker *k, double low_s, double high_s)
{
    static const double SHORTEST_S = 0.25;
    msi_pb_terms *t = k->t;
    const place p = {.time_s = low_s, .freq_hz = k->d->freq_hz[k->d->n_freq - 1]};
    place a = p, b = p, middle = p;
    b.time_s = high_s;
    middle.time_s = 0.5 * (low_s + high_s);
    if (t->n_time + 1 < MOST_TIMES && high_s - low_s > SHORTEST_S &&
        (high_s - low_s > 1800 || bend(k, &a, &b, &middle, 0.5) > 0.3 * k->d->accuracy)) {
        MSI_TRY(halve_time(k, low_s, middle.time_s));
        return halve_time(k, middle.time_s, high_s);
    }
    t->time_s[t->n_time++] = high_s;
    return MSI_OK;
}

static int lay_times(maker *k)
{
    msi_pb_terms *t = k->t;
    const int turns = k->d->view->site->turns;
    MSI_TRY(msi_alloc(&t->time_s, turns ? MOST_TIMES + 64 : 1, sizeof *t->time_s, "times of the primary beam"));
    t->time_s[t->n_time++] = k->d->low_s;
    return turns && k->d->high_s > k->d->low_s ? halve_time(k, k->d->low_s, k->d->high_s) : MSI_OK;
}

static void halve_channels(maker *k, int64_t low, int64_t high)
{
    const msi_pb_domain *d = k->d;
    const int64_t middle = (low + high) / 2;
    const place a = {.time_s = d->low_s, .freq_hz = d->freq_hz[low]},
                b = {.time_s = d->low_s, .freq_hz = d->freq_hz[high]},
                m = {.time_s = d->low_s, .freq_hz = d->freq_hz[middle]};
    const double t = (m.freq_hz - a.freq_hz) / (b.freq_hz - a.freq_hz);
    if (high - low > 1 && bend(k, &a, &b, &m, t) > 0.3 * d->accuracy) {
        halve_channels(k, low, middle);
        halve_channels(k, middle, high);
        return;
    }
    k->t->freq_hz[k->t->n_freq++] = d->freq_hz[high];
}

/* Choose the frequencies: all channels, or fewer if there are also many times. */
static int lay_frequencies(maker *k)
{
    enum { MANY = 1 << 14 };
    msi_pb_terms *t = k->t;
    const msi_pb_domain *d = k->d;
    MSI_TRY(msi_alloc(&t->freq_hz, d->n_freq, sizeof *t->freq_hz, "frequencies of the primary beam"));
    t->freq_hz[t->n_freq++] = d->freq_hz[0];
    if (d->n_freq > 1 && t->n_time * d->n_freq > MANY)
        halve_channels(k, 0, d->n_freq - 1);
    else
        for (int64_t i = 1; i < d->n_freq; i++) t->freq_hz[t->n_freq++] = d->freq_hz[i];
    return MSI_OK;
}

/* ---- The basis ---- */

/* Compute the response in the directions of the vectors. Returned: real [n_fit]; imaginary [n_fit], unless it is
 * NULL */
static void fill_vector(const maker *k, const place *at, double *real, double *imaginary)
{
    const msi_pb_moment when = msi_pb_view_at(k->d->view, at->time_s);
    for (int i = 0; i < k->n_fit / k->n_element; i++) {
        double complex of[16];
        respond(k, &when, at, k->lmn[i], of);
        for (int e = 0; e < k->n_element; e++) {
            real[i * k->n_element + e] = creal(of[e]);
            if (imaginary) imaginary[i * k->n_element + e] = cimag(of[e]);
        }
    }
}

static double product(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static double peak_of(const double *a, int n)
{
    double peak = 0;
    for (int i = 0; i < n; i++) peak = fmax(peak, fabs(a[i]));
    return peak;
}

/* Subtract from a vector its projections on basis vectors `first` and later. */
static void project_out(const maker *k, double *vector, int first)
{
    for (int j = first; j < k->n_basis; j++) {
        const double *b = k->basis + (int64_t)j * k->n_fit, f = product(vector, b, k->n_fit);
        for (int i = 0; i < k->n_fit; i++) vector[i] -= f * b[i];
    }
}

/* Add the response at a place to the vectors: its real part, and its imaginary part if the dishes differ. */
static void add_vector(maker *k, const place *at)
{
    const int both = at->p != at->q;
    if (k->n_vector + 1 + both > MOST_VECTORS) return;
    double *real = k->vector + (int64_t)k->n_vector * k->n_fit;
    fill_vector(k, at, real, both ? real + k->n_fit : NULL);
    for (int part = 0; part <= both; part++) {
        k->at[k->n_vector] = *at;
        k->at[k->n_vector].is_imaginary = part;
        project_out(k, k->vector + (int64_t)k->n_vector++ * k->n_fit, 0);
    }
}

static int pick(int i, int n, int all)
{
    return n < 2 ? 0 : (int)((int64_t)i * (all - 1) / (n - 1));
}

static int make_vectors(maker *k)
{
    const msi_pb_terms *t = k->t;
    const int n_pair = k->n_class * k->n_class;
    MSI_TRY(msi_alloc(&k->at, MOST_VECTORS + 1, sizeof *k->at, "the primary beam"));
    MSI_TRY(msi_alloc(&k->vector, (int64_t)MOST_VECTORS * k->n_fit, sizeof *k->vector, "the primary beam"));
    MSI_TRY(msi_alloc(&k->basis, (int64_t)MSI_PB_MOST_TERMS * k->n_fit, sizeof *k->basis, "the primary beam"));
    int n_time = t->n_time < CANDIDATES ? t->n_time : CANDIDATES,
        n_freq = t->n_freq < CANDIDATES ? t->n_freq : CANDIDATES;
    while (2 * n_time * n_freq * n_pair > MOST_VECTORS - ROUNDS) {
        n_time = n_time > 4 ? n_time / 2 : n_time;
        n_freq = n_freq > 4 ? n_freq / 2 : n_freq;
        if (n_time <= 4 && n_freq <= 4) break;
    }
    for (int i = 0; i < n_time; i++)
        for (int j = 0; j < n_freq; j++)
            for (int pair = 0; pair < n_pair; pair++)
                add_vector(k, &(place){.time_s = t->time_s[pick(i, n_time, t->n_time)],
                                       .freq_hz = t->freq_hz[pick(j, n_freq, t->n_freq)],
                                       .p = pair / k->n_class,
                                       .q = pair % k->n_class});
    return MSI_OK;
}

/* Normalise a vector, append it to the basis, and subtract its projection from all vectors. */
static void orthogonalise(maker *k, int chosen)
{
    const int n = k->n_basis;
    const place *at = &k->at[chosen];
    double *b = k->basis + (int64_t)n * k->n_fit;
    double along[MSI_PB_MOST_TERMS] = {0}, other_part[(DIRECTIONS + OTHER) * 16];
    k->origin[n] = *at;
    fill_vector(k, at, at->is_imaginary ? other_part : b, at->is_imaginary ? b : NULL);
    /* The second pass removes projections that remain after rounding. */
    for (int again = 0; again < 2; again++)
        for (int j = 0; j < n; j++) {
            const double *other = k->basis + (int64_t)j * k->n_fit, f = product(b, other, k->n_fit);
            for (int i = 0; i < k->n_fit; i++) b[i] -= f * other[i];
            along[j] += f;
        }
    const double length = sqrt(product(b, b, k->n_fit));
    for (int i = 0; i < k->n_fit; i++) b[i] /= length;
    for (int i = 0; i <= n; i++) k->of_origin[n][i] = 0;
    k->of_origin[n][n] = 1 / length;
    for (int j = 0; j < n; j++)
        for (int i = 0; i <= j; i++) k->of_origin[n][i] -= along[j] / length * k->of_origin[j][i];
    k->n_basis++;
#pragma omp parallel for schedule(static)
    for (int v = 0; v < k->n_vector; v++) project_out(k, k->vector + (int64_t)v * k->n_fit, n);
}

/* Extend the basis until all vectors are near its span. */
static int choose(maker *k)
{
    for (;;) {
        double worst = 0;
        int chosen = 0;
        for (int v = 0; v < k->n_vector; v++) {
            const double peak = peak_of(k->vector + (int64_t)v * k->n_fit, k->n_fit);
            if (peak > worst) worst = peak, chosen = v;
        }
        if (worst <= 0.3 * k->d->accuracy) return MSI_OK;
        if (k->n_basis == MSI_PB_MOST_TERMS)
            return msi_error_set(MSI_ERANGE,
                                 "the primary beam changes so much that %d terms leave an error of %.1e; use a larger "
                                 "accuracy than %.1e, or shorter intervals",
                                 k->n_basis, worst, k->d->accuracy);
        orthogonalise(k, chosen);
    }
}

/* ---- Factors ---- */

static int find_factors(maker *k)
{
    msi_pb_terms *t = k->t;
    const int n_pair = k->n_class * k->n_class, n = t->n = k->n_basis;
    const int64_t n_place = (int64_t)t->n_time * n_pair * t->n_freq;
    int failed = 0;
    msi_free(t->factor);
    t->factor = NULL;
    MSI_TRY(msi_alloc(&t->factor, n_place * (n ? n : 1), sizeof *t->factor, "factors of the primary beam"));
#pragma omp parallel
    {
        double *real = NULL;
        const int is_there = !msi_alloc(&real, 2 * k->n_fit, sizeof *real, "the primary beam");
        if (!is_there) {
#pragma omp atomic write
            failed = 1;
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n_place; i++) {
            if (!is_there) continue;
            const int pair = (int)(i / t->n_freq % n_pair);
            const place at = {.time_s = t->time_s[i / t->n_freq / n_pair],
                              .freq_hz = t->freq_hz[i % t->n_freq],
                              .p = pair / k->n_class,
                              .q = pair % k->n_class};
            fill_vector(k, &at, real, real + k->n_fit);
            for (int j = 0; j < n; j++) {
                const double *b = k->basis + (int64_t)j * k->n_fit;
                t->factor[i * n + j] = product(real, b, k->n_fit) + I * product(real + k->n_fit, b, k->n_fit);
            }
        }
        msi_free(real);
    }
    return failed ? msi_error_set(MSI_ENOMEM, "not enough memory for the factors of the primary beam") : MSI_OK;
}

/* Find the interval of an ascending list that contains a value. Returned: *t  weight of the end of the interval.
 * Returns the index of its start */
static int interval_of(const double *list, int n, double value, double *t)
{
    int low = 0, high = n - 1;
    *t = 0;
    if (n < 2 || !(value > list[0])) return 0;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (list[middle] <= value)
            low = middle;
        else
            high = middle;
    }
    *t = fmin(1, (value - list[low]) / (list[low + 1] - list[low]));
    return low;
}

/* Return the factors of all terms at a time and a frequency. Given: class_p, class_q  kinds of the two dishes.
 * Returned: factor [n] */
static void factors_at(const msi_pb_terms *t, double time_s, int class_p, int class_q, double freq_hz,
                       double complex *factor)
{
    double along_time, along_freq;
    const int i = interval_of(t->time_s, t->n_time, time_s, &along_time);
    const int j = interval_of(t->freq_hz, t->n_freq, freq_hz, &along_freq);
    const int64_t of_time = (int64_t)t->n_class * t->n_class * t->n_freq * t->n;
    const double complex *f =
        t->factor + i * of_time + ((int64_t)(class_p * t->n_class + class_q) * t->n_freq + j) * t->n;
    for (int k = 0; k < t->n; k++) {
        const double complex *a = f + k;
        double complex value = (1 - along_freq) * a[0] + (along_freq > 0 ? along_freq * a[t->n] : 0);
        if (along_time > 0)
            value = (1 - along_time) * value + along_time * ((1 - along_freq) * a[of_time] +
                                                             (along_freq > 0 ? along_freq * a[of_time + t->n] : 0));
        factor[k] = value;
    }
}

/* ---- Nodes ---- */

/* Compute all beams in a direction, as linear combinations of responses. Given: when  times of these responses.
 * Returned: out [n][n_element] */
static void beams_at(const maker *k, const msi_pb_moment *when, const double *lmn, double *out)
{
    const int n = k->n_basis, n_element = k->n_element;
    double taken[MSI_PB_MOST_TERMS][16];
    for (int c = 0; c < n; c++) {
        double complex of[16];
        respond(k, &when[c], &k->origin[c], lmn, of);
        for (int e = 0; e < n_element; e++) taken[c][e] = k->origin[c].is_imaginary ? cimag(of[e]) : creal(of[e]);
    }
    for (int c = 0; c < n; c++)
        for (int e = 0; e < n_element; e++) {
            double sum = 0;
            for (int b = 0; b <= c; b++) sum += k->of_origin[c][b] * taken[b][e];
            out[c * n_element + e] = sum;
        }
}

static void find_moments(const maker *k, msi_pb_moment when[MSI_PB_MOST_TERMS])
{
    for (int c = 0; c < k->n_basis; c++) when[c] = msi_pb_view_at(k->d->view, k->origin[c].time_s);
}

static int fill_nodes(maker *k, const box *b)
{
    msi_pb_terms *t = k->t;
    const msi_image_geometry *g = &t->geometry;
    const int64_t nx = (int64_t)(b->x1 - b->x0) + 1, ny = (int64_t)(b->y1 - b->y0) + 1, larger = nx > ny ? nx : ny;
    double low[3], high[3];
    msi_pb_moment when[MSI_PB_MOST_TERMS];
    t->x0 = (int64_t)b->x0;
    t->y0 = (int64_t)b->y0;
    const double per_width = fmax(LEAST_NODES, NODES_PER_WIDTH * pow(fmin(1, 2e-7 / (0.05 * k->d->accuracy)), 0.25));
    t->step =
        (int64_t)fmin(fmax(floor(k->d->width_rad / per_width / fmax(g->cell_x_rad, g->cell_y_rad)), 1), (double)larger);
    if (t->step < (larger + MOST_NODES - 1) / MOST_NODES) t->step = (larger + MOST_NODES - 1) / MOST_NODES;
    t->n_x = (nx - 1) / t->step + 4;
    t->n_y = (ny - 1) / t->step + 4;
    to_lmn(g, (double)(t->x0 + (t->n_x - 2) * t->step), (double)(t->y0 - t->step), low);
    to_lmn(g, (double)(t->x0 - t->step), (double)(t->y0 + (t->n_y - 2) * t->step), high);
    MSI_TRY(msi_pb_view_check(k->d->view, low, high));
    MSI_TRY(msi_alloc(&t->node, t->n_x * t->n_y * t->n * k->n_element, sizeof *t->node, "the primary beam"));
    find_moments(k, when);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t j = 0; j < t->n_y; j++)
        for (int64_t i = 0; i < t->n_x; i++) {
            double lmn[3];
            to_lmn(g, (double)(t->x0 + (i - 1) * t->step), (double)(t->y0 + (j - 1) * t->step), lmn);
            beams_at(k, when, lmn, t->node + (j * t->n_x + i) * t->n * k->n_element);
        }
    return MSI_OK;
}

/* Interpolate all values at row y of nodes. Returned: row [n_x][n][n_out][n_in] */
static void node_row(const msi_pb_terms *t, double y, double *row)
{
    const int64_t n = t->n_x * t->n * t->n_out * t->n_in, j = (int64_t)floor(y / (double)t->step);
    double w[4];
    msi_pb_cubic(y / (double)t->step - (double)j, w);
    for (int64_t k = 0; k < n; k++)
        row[k] = w[0] * t->node[j * n + k] + w[1] * t->node[(j + 1) * n + k] + w[2] * t->node[(j + 2) * n + k] +
                 w[3] * t->node[(j + 3) * n + k];
}

/* ---- Errors ---- */

/* Measure the error of the sum at the other directions, between the times and frequencies. If it exceeds the accuracy,
 * add the response at the place with the largest error to the vectors. */
static int measure(maker *k)
{
    enum { TRIED = 96 };
    msi_pb_terms *t = k->t;
    const msi_pb_domain *d = k->d;
    const int n_pair = k->n_class * k->n_class, n_fit = k->n_fit / k->n_element;
    const int first = n_fit < k->n_lmn ? n_fit : 0, n_beam = t->n * k->n_element;
    msi_pb_moment then[MSI_PB_MOST_TERMS];
    place worst_at = {0};
    double *beam;
    MSI_TRY(msi_alloc(&beam, (int64_t)k->n_lmn * (n_beam ? n_beam : 1), sizeof *beam, "the primary beam"));
    find_moments(k, then);
    for (int c = first; c < k->n_lmn; c++) beams_at(k, then, k->lmn[c], beam + c * n_beam);
    t->error = 0;
    for (int i = 0; i < TRIED; i++) {
        const int pair = i % n_pair;
        const place at = {.time_s = d->low_s + (d->high_s - d->low_s) * scatter(i, 3),
                          .freq_hz = d->freq_hz[(int64_t)((double)d->n_freq * scatter(i, 2))],
                          .p = pair / k->n_class,
                          .q = pair % k->n_class};
        const msi_pb_moment when = msi_pb_view_at(d->view, at.time_s);
        const double limit = msi_pb_view_limit(d->view, at.freq_hz);
        double complex factor[MSI_PB_MOST_TERMS], of[16];
        factors_at(t, at.time_s, at.p, at.q, at.freq_hz, factor);
        for (int c = first; c < k->n_lmn; c++) {
            if (msi_pb_view_angle(d->view, k->lmn[c]) > limit) continue;
            respond(k, &when, &at, k->lmn[c], of);
            for (int e = 0; e < k->n_element; e++) {
                double complex sum = -of[e];
                for (int b = 0; b < t->n; b++) sum += factor[b] * beam[c * n_beam + b * k->n_element + e];
                if (cabs(sum) > t->error) t->error = cabs(sum), worst_at = at;
            }
        }
    }
    msi_free(beam);
    if (t->error > d->accuracy) add_vector(k, &worst_at);
    return MSI_OK;
}

/* ---- Make ---- */

static int make_terms(maker *k)
{
    const box b = seen_part(k->d, k->t->limit_rad);
    if (b.x1 < b.x0 || b.y1 < b.y0) return MSI_OK;
    scatter_directions(k, &b);
    if (!k->n_lmn) return MSI_OK;
    MSI_TRY(lay_times(k));
    MSI_TRY(lay_frequencies(k));
    MSI_TRY(make_vectors(k));
    for (int round = 0; round < ROUNDS; round++) {
        const int n_before = k->n_basis;
        MSI_TRY(choose(k));
        if (round == 0 || k->n_basis > n_before) MSI_TRY(find_factors(k));
        MSI_TRY(measure(k));
        if (k->t->error <= k->d->accuracy || k->n_basis == n_before) break;
    }
    return fill_nodes(k, &b);
}

int msi_pb_terms_make(msi_pb_terms *out, const msi_pb_domain *d)
{
    maker *k;
    *out = (msi_pb_terms){.n_in = d->n_in, .n_out = d->n_out, .geometry = d->geometry, .view = d->view};
    MSI_TRY(msi_alloc(&k, 1, sizeof *k, "the primary beam"));
    k->d = d;
    k->t = out;
    k->is_hand = stokes_of(d->in[0]) < 0;
    k->n_class = out->n_class = d->view->site->n_class;
    k->n_element = d->n_in * d->n_out;
    out->limit_rad = msi_pb_view_limit(d->view, d->freq_hz[0]);
    out->valid_rad = msi_pb_view_limit(d->view, d->freq_hz[d->n_freq - 1]);
    const int rc = make_terms(k);
    msi_free(k->at);
    msi_free(k->vector);
    msi_free(k->basis);
    msi_free(k);
    if (rc) msi_pb_terms_free(out);
    return rc;
}

void msi_pb_terms_free(msi_pb_terms *t)
{
    msi_free(t->node);
    msi_free(t->time_s);
    msi_free(t->freq_hz);
    msi_free(t->factor);
    *t = (msi_pb_terms){0};
}

/* ---- Use ---- */

/* Multiply the planes of a pixel by the beams. Given: row  from node_row; x  position in the seen part */
static void apply_at(const msi_pb_terms *t, const double *row, double x, const double *in, int first, int n_term,
                     msi_image *product, int to, int64_t pixel)
{
    const int n_element = t->n_out * t->n_in;
    const int64_t all = (int64_t)t->n * n_element, i = (int64_t)floor(x / (double)t->step);
    double w[4];
    msi_pb_cubic(x / (double)t->step - (double)i, w);
    for (int k = 0; k < n_term; k++)
        for (int o = 0; o < t->n_out; o++) {
            double sum = 0;
            for (int s = 0; s < t->n_in; s++) {
                const double *r = row + i * all + (first + k) * n_element + o * t->n_in + s;
                sum += in[s] * (w[0] * r[0] + w[1] * r[all] + w[2] * r[2 * all] + w[3] * r[3 * all]);
            }
            msi_image_set(product, to + k * t->n_out + o, pixel, sum);
        }
}

int msi_pb_terms_apply(const msi_pb_terms *t, const msi_image *model, int of, int first, int n_term, msi_image *product,
                       int to, double lost[2])
{
    const int64_t nx = t->geometry.nx, ny = t->geometry.ny, n_row = t->n_x * t->n * t->n_out * t->n_in;
    double *rows, beyond = 0, all = 0;
    MSI_TRY(msi_alloc(&rows, omp_get_max_threads() * n_row, sizeof *rows, "rows of the primary beam"));
#pragma omp parallel for schedule(dynamic, 16) reduction(+ : beyond, all)
    for (int64_t y = 0; y < ny; y++) {
        double *row = rows + omp_get_thread_num() * n_row, in[4], lmn[3];
        int has_row = 0;
        for (int64_t x = 0; x < nx; x++) {
            int is_bright = 0;
            for (int s = 0; s < t->n_in; s++) {
                in[s] = msi_image_value(msi_image_plane(model, of + s), model->precision, y * nx + x);
                is_bright |= in[s] != 0;
            }
            to_lmn(&t->geometry, (double)x, (double)y, lmn);
            if (is_bright) all += fabs(in[0]);
            if (is_bright && !is_seen(t->view, t->valid_rad, lmn)) beyond += fabs(in[0]);
            const int is_near = is_bright && is_seen(t->view, t->limit_rad, lmn);
            if (is_near && !has_row) node_row(t, (double)(y - t->y0), row);
            has_row |= is_near;
            if (is_near) {
                apply_at(t, row, (double)(x - t->x0), in, first, n_term, product, to, y * nx + x);
            } else {
                for (int k = 0; k < n_term * t->n_out; k++) msi_image_set(product, to + k, y * nx + x, 0);
            }
        }
    }
    msi_free(rows);
    if (lost) {
        lost[0] = beyond;
        lost[1] = all;
    }
    return MSI_OK;
}

void msi_pb_terms_add(const msi_pb_terms *t, const msi_pb_rows *rows, int first, int n_term, const msi_c64 *of_terms,
                      msi_c64 *sum)
{
    const int64_t n_row = rows->n_row, n_chan = rows->n_chan, plane = n_row * n_chan;
    const int *class_of = t->view->site->class_of_kind;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < n_row; row++) {
        double complex factor[MSI_PB_MOST_TERMS];
        const int p = t->n_class > 1 ? class_of[rows->pair[row] / MSI_MS_KINDS] : 0;
        const int q = t->n_class > 1 ? class_of[rows->pair[row] % MSI_MS_KINDS] : 0;
        for (int64_t c = 0; c < n_chan; c++) {
            factors_at(t, rows->time_s[row], p, q, rows->freq_hz[c], factor);
            for (int o = 0; o < t->n_out; o++) {
                double re = 0, im = 0;
                for (int k = 0; k < n_term; k++) {
                    const msi_c64 v = of_terms[((int64_t)k * t->n_out + o) * plane + row * n_chan + c];
                    const double a = creal(factor[first + k]), b = cimag(factor[first + k]);
                    re += a * v.re - b * v.im;
                    im += a * v.im + b * v.re;
                }
                sum[o * plane + row * n_chan + c].re += re;
                sum[o * plane + row * n_chan + c].im += im;
            }
        }
    }
}
