/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The mean primary beam of an image is computed in three steps:
 *
 * 1. Every field with selected rows is a pointing, weighted by the number of its rows. Baselines are grouped by the
 *    kinds of their two dishes. Times are grouped into bins of sidereal time, weighted by the number of their rows.
 * 2. At each node of a coarse grid, the responses of all pointings, kinds of baselines, times and frequencies are
 *    added. A model that does not rotate on the sky needs one time. An array with one kind of dish needs one kind of
 *    baseline.
 * 3. The response at a pixel is interpolated from six nodes along each axis, by Lagrange's polynomial. The distance h
 *    of nodes is at most 1/16 of the half-power width. The error is at most 3.5 h^6 / 720 times the sixth derivative.
 *    For a Gaussian the derivative is 120 (4 ln 2)^3, and the error along both axes is 1.5e-6 of the peak. For a whole
 *    row a faster method is used: only the points midway between nodes are interpolated from six nodes, and pixels from
 *    four points, by a cubic. The cubic's error is 0.56 (h / 2)^4 / 24 times the fourth derivative, or 2e-6 of the
 *    peak.
 *
 * The response of an image of one parallel-hand correlation is the power of its feed. Rows of one response, and Taylor
 * terms, use the same grid, so they are in this file too.
 */
#include "src/pb/pb_mean.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/pb/pb_file.h"

enum {
    NODES_PER_WIDTH = 16, /* nodes per half-power width */
    MOST_NODES = 4096,    /* nodes along an axis; a beam that needs more is too small to be resolved */
    TAPS = 6,             /* nodes of an interpolation */
    BEFORE = TAPS / 2     /* nodes before the first pixel: TAPS / 2 - 1, and one for the point midway between nodes */
};

/* Return the number of nodes along an axis of n pixels. */
static int64_t count_nodes(int64_t n, int64_t step)
{
    return (n - 1) / step + TAPS + 2;
}

/* ---- The response of one baseline in one direction ---- */

/* Return 0 to 3 for a plane of I, Q, U, V; -1 for others. */
static int stokes_of(const msi_plane *p)
{
    return p->pol >= MSI_POL_I && p->pol <= MSI_POL_V ? (int)(p->pol - MSI_POL_I) : -1;
}

/* Return the feed of a parallel-hand correlation: 0 for XX and RR, 1 for YY and LL; -1 for others. */
static int feed_of(const msi_plane *p)
{
    if (p->pol == MSI_POL_XX || p->pol == MSI_POL_RR) return 0;
    return p->pol == MSI_POL_YY || p->pol == MSI_POL_LL ? 1 : -1;
}

/* Add a weighted response to the sums of a node.
 * Given:              m    [to][from] Stokes parameters
 * Given and returned: sum  [n_plane^2 + 2] matrix of the planes, then the power of both feeds */
static void add_response(const msi_pb_target *t, double m[4][4], double weight, double *sum)
{
    for (int to = 0; to < t->n_plane; to++)
        for (int from = 0; from < t->n_plane; from++) {
            const int a = stokes_of(&t->planes[to]), b = stokes_of(&t->planes[from]);
            /* RR and LL differ by V, XX and YY by Q. */
            const int difference = t->planes[to].pol == MSI_POL_RR || t->planes[to].pol == MSI_POL_LL ? 3 : 1;
            double value = 0;
            if (a >= 0 && b >= 0)
                value = m[a][b];
            else if (to == from)
                value = feed_of(&t->planes[to]) == 0   ? m[0][0] + m[difference][0]
                        : feed_of(&t->planes[to]) == 1 ? m[0][0] - m[difference][0]
                                                       : m[0][0];
            sum[to * t->n_plane + from] += weight * value;
        }
    sum[t->n_plane * t->n_plane] += weight * (m[0][0] + m[1][0]);
    sum[t->n_plane * t->n_plane + 1] += weight * (m[0][0] - m[1][0]);
}

/* Add the response of a pair of dishes. Given: p, q  their Jones matrices */
static void add_pair(const msi_pb_target *t, msi_pb_jones p, msi_pb_jones q, double weight, double *sum)
{
    double m[4][4];
    int is_wanted[4] = {1};
    for (int k = 0; k < t->n_plane; k++)
        if (stokes_of(&t->planes[k]) >= 0) is_wanted[stokes_of(&t->planes[k])] = 1;
    for (int b = 0; b < 4; b++) {
        double complex seen[4];
        if (!is_wanted[b]) continue;
        msi_pb_respond(p, q, b, seen);
        for (int k = 0; k < 4; k++) m[k][b] = creal(seen[k]);
    }
    add_response(t, m, weight, sum);
}

/* ---- One direction ---- */

/* A pointing, and the times at which its beam is computed: one if the beam does not rotate on the sky. */
typedef struct pointing_view {
    msi_pb_view view;
    double weight;
    int n_time_used;
    msi_pb_moment time[MSI_MS_TIME_BINS];
} pointing_view;

static void prepare_pointing(pointing_view *s, const msi_pb_array *a, const msi_pb_pointing *p, const msi_pb_target *t)
{
    const msi_pb_site *site = &a->set[p->set];
    s->weight = p->weight;
    msi_pb_view_make(&s->view, a, p, (const double[]){t->ra_rad, t->dec_rad});
    s->n_time_used = site->turns && site->n_time > 0 ? site->n_time : 1;
    for (int i = 0; i < s->n_time_used; i++) s->time[i] = msi_pb_view_under(&s->view, &site->time[i]);
}

/* Add the responses of a pointing at a frequency and a time. */
static void add_time(const pointing_view *s, const msi_pb_target *t, double freq_hz, const msi_pb_moment *when,
                     const double *lmn, double weight, double *sum)
{
    msi_pb_jones of[MSI_PB_STATIONS];
    const msi_pb_site *site = s->view.site;
    const int n = site->n_class;
    for (int k = 0; k < site->n_class; k++)
        msi_pb_view_jones(&s->view, when, k, freq_hz, lmn, stokes_of(&t->planes[0]) < 0, of[k]);
    if (site->is_by_antenna) {
        double m[4][4];
        msi_pb_respond_pairs(site, of, m);
        add_response(t, m, weight, sum);
        return;
    }
    for (int p = 0; p < n; p++)
        for (int q = p; q < n; q++)
            if (site->pair[p * n + q] > 0) add_pair(t, of[p], of[q], weight * site->pair[p * n + q], sum);
}

/* Return the angle from the pointing, in rad, within which its model is valid at all frequencies of the target. */
static double limit_of(const pointing_view *s, const msi_pb_target *t)
{
    double limit = t->reach_rad > 0 ? t->reach_rad : MSI_PI;
    for (int f = 0; f < t->n_freq; f++)
        if (t->weight[f] > 0) limit = fmin(limit, msi_pb_view_limit(&s->view, t->freq_hz[f]));
    return limit;
}

/*
 * Add the responses of all n pointings in the direction lmn = l, m, n from the image's centre.
 * Given: limit  [n] rad; a pointing adds nothing beyond its limit, unless it is the only one
 */
static void add_direction(const pointing_view *s, int64_t n, const double *limit, const msi_pb_target *t,
                          const double *lmn, double *sum)
{
    for (int64_t i = 0; i < n; i++, s++) {
        double sum_weight = 0;
        if (n > 1 && msi_pb_view_angle(&s->view, lmn) > limit[i]) continue;
        for (int k = 0; k < s->n_time_used; k++) sum_weight += s->n_time_used > 1 ? s->time[k].horizon.weight : 1;
        for (int k = 0; k < s->n_time_used; k++)
            for (int f = 0; f < t->n_freq; f++)
                if (t->weight[f] > 0)
                    add_time(s, t, t->freq_hz[f], &s->time[k], lmn,
                             s->weight * t->weight[f] * (s->n_time_used > 1 ? s->time[k].horizon.weight : 1) /
                                 sum_weight,
                             sum);
    }
}

/* ---- The grid ---- */

/* Choose the step of the nodes, which is even or 1, and allocate them. The interpolation needs three nodes below the
 * first pixel of an axis, and four above the last one. */
static int lay_nodes(msi_pb_mean *m, const msi_pb_array *a, const msi_pb_target *t)
{
    const double cell = fmax(t->geometry.cell_x_rad, t->geometry.cell_y_rad);
    const int64_t larger = t->geometry.nx > t->geometry.ny ? t->geometry.nx : t->geometry.ny;
    m->geometry = t->geometry;
    m->l = t->l;
    m->m = t->m;
    m->n_plane = t->n_plane;
    m->n_element = t->n_plane * t->n_plane;
    m->step = (int64_t)fmin(fmax(floor(a->width_rad / NODES_PER_WIDTH / cell), 1), (double)larger);
    if (m->step < (larger + MOST_NODES - 1) / MOST_NODES) m->step = (larger + MOST_NODES - 1) / MOST_NODES;
    m->step -= m->step > 1 && m->step % 2;
    m->n_x = count_nodes(t->geometry.nx, m->step);
    m->n_y = count_nodes(t->geometry.ny, m->step);
    return msi_alloc(&m->node, m->n_x * m->n_y * (m->n_element + 2), sizeof *m->node, "the primary beam");
}

/* Check that models given on the sky cover all nodes that pixels use. */
static int check_cover(const msi_pb_mean *m, const pointing_view *s, int64_t n)
{
    const msi_image_geometry *g = &m->geometry;
    const double step = (double)m->step, end[2] = {(double)(m->n_x - 1 - BEFORE), (double)(m->n_y - 1 - BEFORE)},
                 low[2] = {m->l + ((double)g->nx / 2 - end[0] * step) * g->cell_x_rad,
                           m->m + (-BEFORE * step - (double)g->ny / 2) * g->cell_y_rad},
                 high[2] = {m->l + ((double)g->nx / 2 + BEFORE * step) * g->cell_x_rad,
                            m->m + (end[1] * step - (double)g->ny / 2) * g->cell_y_rad};
    for (int64_t i = 0; i < n; i++) MSI_TRY(msi_pb_view_check(&s[i].view, low, high));
    return MSI_OK;
}

/* Compute the mean response at node (i, j). */
static void fill_node(const pointing_view *s, const msi_pb_array *a, const double *limit, const msi_pb_target *t,
                      msi_pb_mean *m, int64_t i, int64_t j)
{
    double sum[MSI_MAX_PLANES * MSI_MAX_PLANES + 2] = {0};
    double pointing_weight = 0, freq_weight = 0;
    float *node = m->node + (j * m->n_x + i) * (m->n_element + 2);
    const double l = t->l + ((double)t->geometry.nx / 2 - (double)((i - BEFORE) * m->step)) * t->geometry.cell_x_rad;
    const double y = t->m + ((double)((j - BEFORE) * m->step) - (double)t->geometry.ny / 2) * t->geometry.cell_y_rad;
    const double r2 = l * l + y * y;
    /* Pixels above the horizon are also interpolated from nodes below it. Such a node gets the response at the
     * horizon. */
    const double scale = r2 < 1 ? 1 : 1 / sqrt(r2), lmn[3] = {l * scale, y * scale, r2 < 1 ? sqrt(1 - r2) : 0};
    add_direction(s, a->n_pointing, limit, t, lmn, sum);
    for (int64_t k = 0; k < a->n_pointing; k++) pointing_weight += s[k].weight;
    for (int f = 0; f < t->n_freq; f++) freq_weight += t->weight[f];
    for (int k = 0; k < m->n_element + 2; k++) node[k] = (float)(sum[k] / pointing_weight / freq_weight);
}

/* Store the discs on the sky in which pointings are valid; none if a pointing has no limit. */
static int make_discs(msi_pb_mean *m, const pointing_view *s, int64_t n, const double *limit)
{
    int all_limited = 1;
    for (int64_t i = 0; i < n; i++) all_limited &= limit[i] < MSI_PI;
    if (!all_limited || n > INT32_MAX) return MSI_OK;
    MSI_TRY(msi_alloc(&m->disc, n, sizeof *m->disc, "the primary beam"));
    m->n_disc = (int)n;
    for (int64_t i = 0; i < n; i++)
        m->disc[i] = (struct msi_pb_disc){s[i].view.rotation[2][0], s[i].view.rotation[2][1], s[i].view.rotation[2][2],
                                          cos(limit[i])};
    return MSI_OK;
}

int msi_pb_mean_make(msi_pb_mean *out, const msi_pb_array *a, const msi_pb_target *t)
{
    pointing_view *s = NULL;
    double *limit = NULL;
    *out = (msi_pb_mean){0};
    int rc = lay_nodes(out, a, t);
    if (!rc) rc = msi_alloc(&s, a->n_pointing, sizeof *s, "pointings");
    if (!rc) rc = msi_alloc(&limit, a->n_pointing, sizeof *limit, "pointings");
    for (int64_t i = 0; !rc && i < a->n_pointing; i++) {
        prepare_pointing(&s[i], a, &a->pointing[i], t);
        limit[i] = limit_of(&s[i], t);
    }
    if (!rc) rc = check_cover(out, s, a->n_pointing);
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

/* ---- The Hermitian matrix of files ---- */

/* Coherencies XX, YX, XY, YY of unit Stokes parameters. */
static const double complex coherency[4][4] = {{1, 1, 0, 0}, {0, 0, 1, -I}, {0, 0, 1, I}, {1, -1, 0, 0}};

/* The position of an element in the matrix. Elements are numbered in the lower triangle by rows. An element off the
 * diagonal has two numbers: its real part, then its imaginary part. */
typedef struct element_place {
    int row, column, is_imaginary;
} element_place;

static element_place place_of(int element)
{
    for (int row = 0, at = 0; row < 4; row++)
        for (int column = 0; column <= row; column++)
            for (int part = 0; part < 1 + (column < row); part++)
                if (at++ == element) return (element_place){row, column, part};
    return (element_place){0};
}

/* Return the coefficient of the response of Stokes parameter `to` to `from` in an element of the matrix's Hermitian
 * part. */
static double element_of_response(int element, int to, int from)
{
    const element_place e = place_of(element);
    const double complex *r = coherency[e.row], *c = coherency[e.column];
    const double complex value = (r[to] * conj(c[from]) + conj(c[to]) * r[from]) / 4;
    return e.is_imaginary ? cimag(value) : creal(value);
}

/* Return the coefficient of an element in the response of Stokes parameter `to` to `from`. */
static double response_of_element(int to, int from, int element)
{
    const element_place e = place_of(element);
    const double complex unit = e.is_imaginary ? I : 1;
    double complex value = conj(coherency[e.row][to]) * unit * coherency[e.column][from];
    if (e.row != e.column) value += conj(coherency[e.column][to]) * conj(unit) * coherency[e.row][from];
    return creal(value) / 2;
}

int msi_pb_mean_element(msi_pb_mean *out, const msi_pb_mean *m, const msi_plane *planes, int element)
{
    const int64_t n_node = m->n_x * m->n_y;
    const int n = m->n_plane;
    *out = *m;
    out->n_plane = out->n_element = 1;
    out->node = NULL;
    out->plain = NULL;
    out->disc = NULL;
    MSI_TRY(msi_alloc(&out->node, 3 * n_node, sizeof *out->node, "the primary beam"));
    for (int i = 0; i < n * n; i++) {
        const double share = element_of_response(element, stokes_of(&planes[i / n]), stokes_of(&planes[i % n]));
        for (int64_t k = 0; k < n_node && share != 0; k++)
            out->node[3 * k] += (float)(share * (double)m->node[k * (m->n_element + 2) + i]);
    }
    int rc = m->n_disc ? msi_alloc(&out->disc, m->n_disc, sizeof *out->disc, "the primary beam") : MSI_OK;
    if (!rc && m->n_disc) memcpy(out->disc, m->disc, (size_t)m->n_disc * sizeof *out->disc);
    if (rc) msi_pb_mean_free(out);
    return rc;
}

/* Compute the responses of pixel `at` from its elements.
 * Given:    share  [MSI_PB_ELEMENTS][n_element] coefficients of elements in the responses
 * Returned: node   [n_element] */
static void respond_by_elements(const float *const element[MSI_PB_ELEMENTS], const double *share, int n_element,
                                int64_t at, float *node)
{
    for (int i = 0; i < n_element; i++) {
        double sum = 0;
        for (int k = 0; k < MSI_PB_ELEMENTS; k++)
            if (element[k]) sum += share[k * n_element + i] * (double)element[k][at];
        node[i] = (float)sum;
    }
}

int msi_pb_mean_from_elements(msi_pb_mean *out, const msi_image_geometry *g, const msi_plane *planes, int n_plane,
                              const float *const element[MSI_PB_ELEMENTS])
{
    double share[MSI_PB_ELEMENTS * MSI_MAX_PLANES * MSI_MAX_PLANES];
    const int n_element = n_plane * n_plane;
    *out = (msi_pb_mean){.geometry = *g, .n_plane = n_plane, .n_element = n_element, .step = 1, .weight = 1};
    out->n_x = count_nodes(g->nx, 1);
    out->n_y = count_nodes(g->ny, 1);
    const int n = n_element + 2, has_matrix = element[3] && element[8] && stokes_of(&planes[0]) >= 0;
    for (int k = 0; k < MSI_PB_ELEMENTS && has_matrix; k++)
        for (int i = 0; i < n_element; i++)
            share[k * n_element + i] =
                response_of_element(stokes_of(&planes[i / n_plane]), stokes_of(&planes[i % n_plane]), k);
    MSI_TRY(msi_alloc(&out->node, out->n_x * out->n_y * n, sizeof *out->node, "the primary beam"));
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < g->ny; j++)
        for (int64_t i = 0; i < g->nx; i++) {
            const int64_t at = j * g->nx + i;
            float *node = out->node + ((j + BEFORE) * out->n_x + i + BEFORE) * n;
            const float across = element[9] ? element[9][at] : 0, a = element[0][at] + across,
                        b = element[15][at] + across;
            for (int p = 0; p < n_plane; p++) {
                const int feed = feed_of(&planes[p]);
                node[p * (n_plane + 1)] = feed == 0 ? a : feed == 1 ? b : (a + b) / 2;
            }
            if (has_matrix) respond_by_elements(element, share, n_element, at, node);
            node[n - 2] = a;
            node[n - 1] = b;
        }
    return MSI_OK;
}

void msi_pb_mean_from_plain(msi_pb_mean *out, const msi_image_geometry *g, int n_plane, float *plain)
{
    *out =
        (msi_pb_mean){.geometry = *g, .n_plane = n_plane, .n_element = n_plane * n_plane, .plain = plain, .weight = 1};
}

int msi_pb_mean_unknown(msi_pb_mean *out, const msi_image_geometry *g, int n_plane)
{
    const int64_t larger = g->nx > g->ny ? g->nx : g->ny;
    *out =
        (msi_pb_mean){.geometry = *g, .n_plane = n_plane, .n_element = n_plane * n_plane, .step = larger + larger % 2};
    out->n_x = count_nodes(g->nx, out->step);
    out->n_y = count_nodes(g->ny, out->step);
    const int64_t n = out->n_x * out->n_y * (out->n_element + 2);
    MSI_TRY(msi_alloc(&out->node, n, sizeof *out->node, "the primary beam"));
    for (int64_t i = 0; i < n; i++) out->node[i] = NAN;
    return MSI_OK;
}

void msi_pb_mean_free(msi_pb_mean *m)
{
    msi_free(m->node);
    msi_free(m->plain);
    msi_free(m->disc);
    *m = (msi_pb_mean){0};
}

/* ---- Interpolation ---- */

/* Compute the weights of six nodes for a position between the third (t = 0) and the fourth (t = 1). */
static void weigh_nodes(double t, double w[TAPS])
{
    for (int i = 0; i < TAPS; i++) {
        w[i] = 1;
        for (int k = 0; k < TAPS; k++)
            if (k != i) w[i] *= (t + TAPS / 2 - 1 - k) / (i - k);
    }
}

/* Interpolate all values of all columns of nodes at row y of the image. Returned: row [n_x][n_element + 2] */
static void interpolate_nodes(const msi_pb_mean *m, double y, double *row)
{
    const int64_t n = m->n_x * (m->n_element + 2), j = (int64_t)floor(y / (double)m->step);
    double w[TAPS];
    weigh_nodes(y / (double)m->step - (double)j, w);
    for (int64_t k = 0; k < n; k++) row[k] = 0;
    /* Nodes that are not used may be NaN. */
    for (int i = 0; i < TAPS; i++)
        for (int64_t k = 0; w[i] != 0 && k < n; k++) row[k] += w[i] * (double)m->node[(j + 1 + i) * n + k];
}

/* Copy the response of pixel `at` of a mean without nodes. Returned: value [n_element + 2] */
static void copy_plain(const msi_pb_mean *m, int64_t at, double *value)
{
    const int n = m->n_element + 2;
    for (int k = 0; k < n; k++) value[k] = k >= m->n_element || k % (m->n_plane + 1) == 0 ? (double)m->plain[at] : 0;
}

/* Interpolate pixel x from a row of interpolate_nodes. Returned: value [n_element + 2] */
static void interpolate_pixel(const msi_pb_mean *m, const double *row, double x, double *value)
{
    const int n = m->n_element + 2;
    const int64_t i = (int64_t)floor(x / (double)m->step);
    double w[TAPS];
    weigh_nodes(x / (double)m->step - (double)i, w);
    for (int k = 0; k < n; k++) value[k] = 0;
    /* Nodes that are not used may be NaN. */
    for (int c = 0; c < TAPS; c++)
        for (int k = 0; w[c] != 0 && k < n; k++) value[k] += w[c] * row[(i + 1 + c) * n + k];
}

/* Return 1 if a pixel is above the horizon and within the model's range. */
static int is_valid(const msi_pb_mean *m, double x, double y)
{
    const double l = m->l + ((double)m->geometry.nx / 2 - x) * m->geometry.cell_x_rad;
    const double mm = m->m + (y - (double)m->geometry.ny / 2) * m->geometry.cell_y_rad, r2 = l * l + mm * mm;
    if (m->plain) return m->plain[(int64_t)y * m->geometry.nx + (int64_t)x] > 0;
    if (r2 >= 1) return 0;
    const double n = sqrt(1 - r2);
    for (int i = 0; i < m->n_disc; i++)
        if (m->disc[i].l * l + m->disc[i].m * mm + m->disc[i].n * n >= m->disc[i].cos_limit) return 1;
    return m->n_disc == 0;
}

void msi_pb_mean_at(const msi_pb_mean *m, int64_t x, int64_t y, double *matrix)
{
    const int n = m->n_element + 2;
    const int64_t i0 = x / m->step, j0 = y / m->step;
    double across[TAPS], along[TAPS];
    if (!is_valid(m, (double)x, (double)y)) {
        for (int k = 0; k < m->n_element; k++) matrix[k] = NAN;
        return;
    }
    if (m->plain) {
        for (int k = 0; k < m->n_element; k++)
            matrix[k] = k % (m->n_plane + 1) == 0 ? (double)m->plain[y * m->geometry.nx + x] : 0;
        return;
    }
    weigh_nodes((double)(x - i0 * m->step) / (double)m->step, across);
    weigh_nodes((double)(y - j0 * m->step) / (double)m->step, along);
    for (int k = 0; k < m->n_element; k++) matrix[k] = 0;
    /* Nodes that are not used may be NaN. */
    for (int j = 0; j < TAPS; j++)
        for (int i = 0; i < TAPS; i++) {
            const float *node = m->node + ((j0 + 1 + j) * m->n_x + i0 + 1 + i) * n;
            const double w = across[i] * along[j];
            for (int k = 0; w != 0 && k < m->n_element; k++) matrix[k] += w * (double)node[k];
        }
}

/* ---- Rows of one response, several times faster than matrices of pixels ---- */

/* The interpolation of one element of the nodes. Along a row it is cubic; its points are the nodes and the points
 * midway between them. */
typedef struct row_work {
    const msi_pb_mean *m;
    int element;
    int64_t cell;       /* pixels between points of the cubic: step / 2, or 1 if the step is 1 */
    float middle[TAPS]; /* weights of nodes for the point midway between them */
    float *weight;      /* [4][cell] weights of points for each pixel */
    float *row_weight;  /* [TAPS][step] weights of nodes for each row */
    float *node;        /* [threads][3 n_x] for work */
} row_work;

static int begin_rows(row_work *w, const msi_pb_mean *m, int element)
{
    double at[TAPS];
    *w = (row_work){.m = m, .element = element, .cell = m->step > 1 ? m->step / 2 : 1};
    if (m->plain) return MSI_OK;
    MSI_TRY(msi_alloc(&w->weight, 4 * w->cell + TAPS * m->step + 3 * omp_get_max_threads() * m->n_x, sizeof *w->weight,
                      "rows of the primary beam"));
    w->row_weight = w->weight + 4 * w->cell;
    w->node = w->row_weight + TAPS * m->step;
    for (int64_t i = 0; i < w->cell; i++) {
        msi_pb_cubic((double)i / (double)w->cell, at);
        for (int k = 0; k < 4; k++) w->weight[k * w->cell + i] = (float)at[k];
    }
    for (int64_t i = 0; i < m->step; i++) {
        weigh_nodes((double)i / (double)m->step, at);
        for (int k = 0; k < TAPS; k++) w->row_weight[k * m->step + i] = (float)at[k];
    }
    weigh_nodes(0.5, at);
    for (int k = 0; k < TAPS; k++) w->middle[k] = (float)at[k];
    return MSI_OK;
}

/* Interpolate row y, inside and outside the model's range. Given: node [3 n_x] for work. Returned: value [nx] */
static void interpolate_row(const row_work *w, int64_t y, float *node, float *value)
{
    const msi_pb_mean *m = w->m;
    const int64_t nx = m->geometry.nx, step = m->step, cell = w->cell, j = y / step, per_node = step / cell;
    const float *of = w->weight;
    float *line = node;
    for (int64_t i = 0; i < m->n_x; i++) node[i] = 0;
    for (int k = 0; k < TAPS; k++) {
        const float row_weight = w->row_weight[k * step + y - j * step];
        const float *from = m->node + (j + 1 + k) * m->n_x * (m->n_element + 2) + w->element;
        /* Nodes that are not used may be NaN. */
        for (int64_t i = 0; i < m->n_x && row_weight != 0; i++) node[i] += row_weight * from[i * (m->n_element + 2)];
    }
    if (per_node > 1) {
        line = node + m->n_x;
        for (int64_t i = BEFORE - 1; i + BEFORE < m->n_x; i++) {
            const float *v = node + i - (BEFORE - 1);
            line[2 * i] = node[i];
            line[2 * i + 1] = 0;
            for (int k = 0; k < TAPS; k++) line[2 * i + 1] += w->middle[k] * v[k];
        }
    }
    for (int64_t i = 0; i * cell < nx; i++) {
        const float *v = line + i + per_node * BEFORE - 1;
        const float a = v[0], b = v[1], c = v[2], d = v[3];
        const int64_t n = nx - i * cell < cell ? nx - i * cell : cell;
        float *to = value + i * cell;
        to[0] = b;
#pragma omp simd
        for (int64_t x = 1; x < n; x++)
            to[x] = of[x] * a + of[cell + x] * b + of[2 * cell + x] * c + of[3 * cell + x] * d;
    }
}

/*
 * Find the pixels of row y inside the only disc. They are contiguous, because l d_l + m d_m + n d_n is concave along
 * the row.
 * Returned: range  the first pixel inside, and the first pixel after it outside
 */
static void find_range(const msi_pb_mean *m, int64_t y, int64_t range[2])
{
    const int64_t nx = m->geometry.nx;
    const struct msi_pb_disc *d = m->disc;
    const double mm = m->m + ((double)y - (double)m->geometry.ny / 2) * m->geometry.cell_y_rad,
                 l = d->l * sqrt((1 - mm * mm) / (d->l * d->l + d->n * d->n)),
                 largest = (double)nx / 2 - (l - m->l) / m->geometry.cell_x_rad;
    int64_t inside = (int64_t)fmin(fmax(floor(largest), 0), (double)(nx - 1));
    if (inside + 1 < nx && !is_valid(m, (double)inside, (double)y)) inside++;
    range[0] = range[1] = 0;
    if (!is_valid(m, (double)inside, (double)y)) return;
    for (int end = 0; end < 2; end++) {
        int64_t in = inside, out = end ? nx : -1;
        while (llabs(out - in) > 1) {
            const int64_t middle = (in + out) / 2;
            if (is_valid(m, (double)middle, (double)y))
                in = middle;
            else
                out = middle;
        }
        range[end] = in + end;
    }
}

/* Set pixels of row y that are below the horizon or outside the model's range to NaN. */
static void blank_row(const msi_pb_mean *m, int64_t y, float *value)
{
    const int64_t nx = m->geometry.nx;
    const double mm = m->m + ((double)y - (double)m->geometry.ny / 2) * m->geometry.cell_y_rad,
                 reach = fabs(m->l) + (double)nx / 2 * m->geometry.cell_x_rad;
    if (m->n_disc == 0 && reach * reach + mm * mm < 1) return;
    if (m->n_disc != 1 || reach * reach + mm * mm >= 1 || m->disc[0].n <= 0) {
        for (int64_t x = 0; x < nx; x++)
            if (!is_valid(m, (double)x, (double)y)) value[x] = NAN;
        return;
    }
    int64_t range[2];
    find_range(m, y, range);
    for (int64_t x = 0; x < range[0]; x++) value[x] = NAN;
    for (int64_t x = range[1]; x < nx; x++) value[x] = NAN;
}

/* Compute row y of a response: NaN where it is not known. Returned: value [nx] */
static void response_row(const row_work *w, int64_t y, float *value)
{
    const msi_pb_mean *m = w->m;
    const int64_t nx = m->geometry.nx;
    for (int64_t x = 0; m->plain && x < nx; x++) value[x] = m->plain[y * nx + x] > 0 ? m->plain[y * nx + x] : NAN;
    if (m->plain) return;
    interpolate_row(w, y, w->node + 3 * omp_get_thread_num() * m->n_x, value);
    blank_row(m, y, value);
}

/* Invert an n x n matrix a, which is overwritten, by elimination with pivots. Returns: 1, or 0 if it is singular */
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

/* A function to call for each pixel, and its arguments. */
typedef struct pixel_work {
    void (*work)(const msi_pb_mean *m, const struct pixel_work *w, const double *value, int64_t at);
    const void *from; /* input pixels, of the image's shape and precision; may be image->pixel */
    msi_image *image;
    double limit;
    int first; /* index of the image's first plane among the planes of the mean */
} pixel_work;

/* Call w->work for each pixel with the response value [n_element + 2], or with NULL where it is not known. */
static int for_each_pixel(const msi_pb_mean *m, const pixel_work *w)
{
    const int64_t nx = m->geometry.nx, ny = m->geometry.ny;
    const int64_t n_row = m->n_x * (m->n_element + 2) + 1;
    double *rows;
    MSI_TRY(msi_alloc(&rows, omp_get_max_threads() * n_row, sizeof *rows, "rows of the primary beam"));
#pragma omp parallel
    {
        double *row = rows + omp_get_thread_num() * n_row, value[MSI_MAX_PLANES * MSI_MAX_PLANES + 2];
#pragma omp for schedule(static)
        for (int64_t y = 0; y < ny; y++) {
            if (!m->plain) interpolate_nodes(m, (double)y, row);
            for (int64_t x = 0; x < nx; x++) {
                const int is_seen = is_valid(m, (double)x, (double)y);
                if (is_seen && m->plain)
                    copy_plain(m, y * nx + x, value);
                else if (is_seen)
                    interpolate_pixel(m, row, (double)x, value);
                w->work(m, w, is_seen ? value : NULL, y * nx + x);
            }
        }
    }
    msi_free(rows);
    return MSI_OK;
}

/* Return an input pixel. */
static double value_before(const pixel_work *w, int plane, int64_t at)
{
    return msi_image_value(w->from, w->image->precision, plane * msi_image_n_pixel(&w->image->geometry) + at);
}

/* Return the least norm of the rows of a matrix, which measures the response. The diagonal would not do: feeds of LOFAR
 * and the MWA are rotated on the sky, which mixes Q and U. Their responses to themselves can then be negative or 0. */
static double least_row(const double *matrix, int n)
{
    double least = INFINITY;
    for (int p = 0; p < n; p++) {
        double sum = 0;
        for (int q = 0; q < n; q++) sum += matrix[p * n + q] * matrix[p * n + q];
        least = fmin(least, sqrt(sum));
    }
    return least;
}

/* Correct the planes of a pixel: multiply by the inverse matrix, or divide if the image has only some of the planes. */
static void correct_pixel(const msi_pb_mean *m, const pixel_work *w, const double *value, int64_t at)
{
    const int n = w->image->n_plane, first = w->first, is_whole = n == m->n_plane;
    double a[MSI_MAX_PLANES * MSI_MAX_PLANES], inverse[MSI_MAX_PLANES * MSI_MAX_PLANES], in[MSI_MAX_PLANES];
    double least = value && is_whole ? least_row(value, n) : INFINITY;
    for (int p = 0; p < n; p++) {
        in[p] = value_before(w, p, at);
        if (value && !is_whole) least = fmin(least, value[(first + p) * (m->n_plane + 1)]);
    }
    int is_there = value && least > w->limit;
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
        msi_image_set(w->image, p, at, out);
    }
}

/* Divide an image of one plane by its response. */
static int divide_plane(const msi_pb_mean *m, int first, double limit, const void *from, msi_image *image)
{
    const int64_t nx = m->geometry.nx;
    const float least = (float)limit;
    float *rows;
    row_work w;
    MSI_TRY(msi_alloc(&rows, omp_get_max_threads() * nx, sizeof *rows, "rows of the primary beam"));
    const int rc = begin_rows(&w, m, first * (m->n_plane + 1));
#pragma omp parallel for schedule(static) if (!rc)
    for (int64_t y = 0; y < (rc ? 0 : m->geometry.ny); y++) {
        float *row = rows + omp_get_thread_num() * nx;
        response_row(&w, y, row);
        if (image->precision == MSI_FP32) {
            float *pixel = (float *)image->pixel + y * nx;
            const float *in = (const float *)from + y * nx;
            for (int64_t x = 0; x < nx; x++) pixel[x] = row[x] > least ? in[x] / row[x] : NAN;
        } else {
            double *pixel = (double *)image->pixel + y * nx;
            const double *in = (const double *)from + y * nx;
            for (int64_t x = 0; x < nx; x++) pixel[x] = row[x] > least ? in[x] / (double)row[x] : (double)NAN;
        }
    }
    msi_free(rows);
    msi_free(w.weight);
    return rc;
}

int msi_pb_mean_correct(const msi_pb_mean *m, int first, double limit, const void *from, msi_image *image)
{
    if (image->n_plane == 1) return divide_plane(m, first, limit, from, image);
    return for_each_pixel(
        m, &(pixel_work){.work = correct_pixel, .from = from, .image = image, .limit = limit, .first = first});
}

/* ---- Taylor terms ---- */

enum { MOST_TERMS = 4, MOST_FREQUENCIES = 2 * MOST_TERMS - 1, MOST_UNKNOWNS = MOST_TERMS * MSI_MAX_PLANES };

/* A correction of Taylor terms: its arguments, and quantities that are the same for all pixels. */
typedef struct term_correction {
    const msi_pb_mean *node;
    msi_pb_taylor taylor;
    double limit;
    int plane;
    double power[MOST_FREQUENCIES][2 * MOST_TERMS - 1]; /* share_k x_k^n */
    double hessian[MOST_TERMS * MOST_TERMS], inverse[MOST_TERMS * MOST_TERMS];
    msi_image *term, *beam, *covariance;
} term_correction;

/* Compute the Hessian of the fit, H_ij = sum_k share_k x_k^(i+j), and its inverse. */
static void find_hessian(term_correction *c)
{
    const int n = c->taylor.n_term;
    for (int k = 0; k < c->taylor.n_node; k++) {
        c->power[k][0] = c->taylor.share[k];
        for (int i = 1; i < 2 * n - 1; i++) c->power[k][i] = c->power[k][i - 1] * c->taylor.x[k];
        for (int i = 0; i < n * n; i++) c->hessian[i] += c->power[k][i / n + i % n];
    }
    double copy[MOST_TERMS * MOST_TERMS];
    memcpy(copy, c->hessian, sizeof copy);
    (void)invert(n, copy, c->inverse);
}

/* Return the sum over frequencies of share x^n times an element of the response.
 * Given: value  [n_node][n_element + 2] */
static double beam_moment(const term_correction *c, const double *value, int n, int element)
{
    double sum = 0;
    for (int k = 0; k < c->taylor.n_node; k++) sum += c->power[k][n] * value[k * (c->node->n_element + 2) + element];
    return sum;
}

/* Set pixel `at` of all output images to NaN. */
static void blank_terms(const term_correction *c, int64_t at)
{
    for (int i = 0; i < c->term->n_plane; i++) {
        msi_image_set(c->term, i, at, NAN);
        msi_image_set(c->beam, i, at, NAN);
    }
    for (int i = 0; c->covariance && i < 3; i++) msi_image_set(c->covariance, i, at, NAN);
}

/* Compute the covariances of the first two terms of a plane, B^-1 H B^-1. B is made from the plane's responses to
 * itself. */
static void find_covariance(const term_correction *c, const double *value, int64_t at)
{
    static const int of[3][2] = {{0, 0}, {0, 1}, {1, 1}};
    const int n = c->taylor.n_term, element = c->plane * (c->node->n_plane + 1);
    double b[MOST_TERMS * MOST_TERMS], inverse[MOST_TERMS * MOST_TERMS];
    for (int i = 0; i < n * n; i++) b[i] = beam_moment(c, value, i / n + i % n, element);
    const int is_regular = invert(n, b, inverse);
    for (int m = 0; m < 3; m++) {
        double sum = is_regular ? 0 : NAN;
        for (int i = 0; i < n && is_regular; i++)
            for (int j = 0; j < n; j++)
                sum += inverse[of[m][0] * n + i] * c->hessian[i * n + j] * inverse[j * n + of[m][1]];
        msi_image_set(c->covariance, m, at, sum);
    }
}

/*
 * Correct the terms of a pixel: solve B s = H a, B_(ip)(jq) = sum_k share_k x_k^(i+j) P_k[p][q].
 * Given: value  [n_node][n_element + 2] the responses; work  [2][n_unknown^2]
 */
static void correct_terms(const term_correction *c, const double *value, double *work, int64_t at)
{
    const int n_term = c->taylor.n_term, n_plane = c->node->n_plane, n = n_term * n_plane;
    double right[MOST_UNKNOWNS], *matrix = work, *inverse = work + n * n;
    double mean[MSI_MAX_PLANES * MSI_MAX_PLANES];
    for (int i = 0; i < n_plane * n_plane; i++) mean[i] = beam_moment(c, value, 0, i);
    if (!(least_row(mean, n_plane) > c->limit)) {
        blank_terms(c, at);
        return;
    }
    for (int i = 0; i < n; i++) {
        double sum = 0, response = 0;
        for (int j = 0; j < n_term; j++) {
            const double in =
                msi_image_value(msi_image_plane(c->term, j * n_plane + i % n_plane), c->term->precision, at);
            sum += c->hessian[i / n_plane * n_term + j] * in;
            response += c->inverse[i / n_plane * n_term + j] * beam_moment(c, value, j, i % n_plane * (n_plane + 1));
        }
        right[i] = sum;
        msi_image_set(c->beam, i, at, response);
        for (int j = 0; j < n; j++)
            matrix[i * n + j] = beam_moment(c, value, i / n_plane + j / n_plane, i % n_plane * n_plane + j % n_plane);
    }
    const int is_regular = invert(n, matrix, inverse);
    for (int i = 0; i < n; i++) {
        double out = is_regular ? 0 : NAN;
        for (int j = 0; j < n && is_regular; j++) out += inverse[i * n + j] * right[j];
        msi_image_set(c->term, i, at, out);
    }
    if (c->covariance) find_covariance(c, value, at);
}

int msi_pb_mean_correct_terms(const msi_pb_mean *node, const msi_pb_taylor *t, double limit, int plane, msi_image *term,
                              msi_image *beam, msi_image *covariance)
{
    term_correction c = {.node = node,
                         .taylor = *t,
                         .limit = limit,
                         .plane = plane,
                         .term = term,
                         .beam = beam,
                         .covariance = covariance};
    const int64_t nx = node->geometry.nx, ny = node->geometry.ny, n_value = node->n_element + 2,
                  n_row = node->n_x * n_value, n_unknown = t->n_term * node->n_plane,
                  n_work = t->n_node * (n_row + n_value) + 2 * n_unknown * n_unknown;
    double *buffers;
    find_hessian(&c);
    MSI_TRY(msi_alloc(&buffers, omp_get_max_threads() * n_work, sizeof *buffers, "rows of primary beams"));
#pragma omp parallel
    {
        double *row = buffers + omp_get_thread_num() * n_work, *value = row + t->n_node * n_row,
               *work = value + t->n_node * n_value;
#pragma omp for schedule(dynamic, 16)
        for (int64_t y = 0; y < ny; y++) {
            for (int k = 0; k < t->n_node; k++) interpolate_nodes(&node[k], (double)y, row + k * n_row);
            for (int64_t x = 0; x < nx; x++) {
                int is_there = 1;
                for (int k = 0; k < t->n_node && is_there; k++) {
                    is_there = is_valid(&node[k], (double)x, (double)y);
                    if (is_there) interpolate_pixel(&node[k], row + k * n_row, (double)x, value + k * n_value);
                }
                if (is_there)
                    correct_terms(&c, value, work, y * nx + x);
                else
                    blank_terms(&c, y * nx + x);
            }
        }
    }
    msi_free(buffers);
    return MSI_OK;
}

int msi_pb_mean_image(const msi_pb_mean *m, msi_pb_part part, int plane, double limit, float *pixel)
{
    const int64_t nx = m->geometry.nx;
    const float least = (float)limit;
    row_work w;
    MSI_TRY(
        begin_rows(&w, m, part == MSI_PB_RESPONSE ? plane * (m->n_plane + 1) : m->n_element + (part == MSI_PB_FEED_Y)));
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < m->geometry.ny; y++) {
        float *row = pixel + y * nx;
        response_row(&w, y, row);
        for (int64_t x = 0; limit >= 0 && x < nx; x++) row[x] = row[x] > least ? row[x] : NAN;
    }
    msi_free(w.weight);
    return MSI_OK;
}

/* Multiply the planes of a pixel by its matrix; 0 where it is not known. */
static void apply_pixel(const msi_pb_mean *m, const pixel_work *w, const double *value, int64_t at)
{
    const int n = m->n_plane;
    double in[MSI_MAX_PLANES];
    for (int p = 0; p < n; p++) in[p] = value_before(w, p, at);
    for (int p = 0; p < n; p++) {
        double out = 0;
        for (int q = 0; value && q < n; q++) out += value[p * n + q] * in[q];
        msi_image_set(w->image, p, at, out);
    }
}

int msi_pb_mean_see(const msi_pb_mean *m, msi_image *image)
{
    return for_each_pixel(m, &(pixel_work){.work = apply_pixel, .from = image->pixel, .image = image});
}

/* Below this response the polarisations are not separated: the inverse would amplify noise. */
static const double LEAST_SEPARATED = 0.02;

/* Multiply the planes of a pixel by the inverse of its matrix and the square of plane 0's response to itself. */
static void weigh_pixel(const msi_pb_mean *m, const pixel_work *w, const double *value, int64_t at)
{
    const int n = m->n_plane;
    double a[MSI_MAX_PLANES * MSI_MAX_PLANES], inverse[MSI_MAX_PLANES * MSI_MAX_PLANES], in[MSI_MAX_PLANES];
    int separates = n > 1 && value && value[0] > LEAST_SEPARATED;
    for (int p = 0; p < n; p++) in[p] = value_before(w, p, at);
    if (separates) {
        memcpy(a, value, (size_t)(n * n) * sizeof *a);
        separates = invert(n, a, inverse);
    }
    for (int p = 0; p < n; p++) {
        double out = value ? value[0] * in[p] : 0;
        if (separates) {
            out = 0;
            for (int q = 0; q < n; q++) out += value[0] * value[0] * inverse[p * n + q] * in[q];
        }
        msi_image_set(w->image, p, at, out);
    }
}

int msi_pb_mean_weigh(const msi_pb_mean *m, msi_image *image)
{
    return for_each_pixel(m, &(pixel_work){.work = weigh_pixel, .from = image->pixel, .image = image});
}

int msi_pb_mean_add(msi_pb_mean *sum, const msi_pb_mean *more, double weight)
{
    const int64_t n = more->plain ? msi_image_n_pixel(&more->geometry) : more->n_x * more->n_y * (more->n_element + 2);
    if (!sum->node && !sum->plain) {
        *sum = *more;
        sum->node = sum->plain = NULL;
        sum->disc = NULL;
        sum->weight = 0;
        sum->is_written = 0;
        MSI_TRY(msi_alloc(more->plain ? &sum->plain : &sum->node, n, sizeof *sum->node, "the primary beam"));
        if (more->n_disc) {
            MSI_TRY(msi_alloc(&sum->disc, more->n_disc, sizeof *sum->disc, "the primary beam"));
            memcpy(sum->disc, more->disc, (size_t)more->n_disc * sizeof *sum->disc);
        }
    }
    const double total_weight = sum->weight + weight;
    if (!(weight > 0) || !(total_weight > 0)) return MSI_OK;
    float *to = more->plain ? sum->plain : sum->node;
    const float *from = more->plain ? more->plain : more->node;
    for (int64_t k = 0; k < n; k++) to[k] = (float)((sum->weight * to[k] + weight * from[k]) / total_weight);
    /* The smaller range of the two is valid for both. */
    for (int i = 0; i < sum->n_disc && i < more->n_disc; i++)
        sum->disc[i].cos_limit = fmax(sum->disc[i].cos_limit, more->disc[i].cos_limit);
    sum->weight = total_weight;
    return MSI_OK;
}
