/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Mosaics:
 *   1. Group the pointings into fields. The box of a field is the part of the image within the limit of its beam.
 *   2. Compute the beams of the fields, and from them the response of a channel.
 *   3. Image each field, multiply it by its beam, add the fields, and divide the sum so that its noise is flat. With
 *      Taylor terms there is a sum for each power of x.
 *   4. Make the PSF from the samples of all fields.
 * Fields, terms and images share the arrays of a channel, so they are in one file.
 */
#include "src/pb/pb_mosaic.h"

#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/ordered_parallel.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/sky/phase_shift.h"

/* ---- Fields ---- */

/* Pointings that differ by less than this part of the beam width are the same. */
static const double SAME_POINTING = 1e-4;

/* Radius of a field in beam widths, if its beam has no limit. */
static const double MOST_WIDTHS = 2;

/* Smallest edge of a box, in pixels. */
enum { LEAST_EDGE = 32 };

/* Return 1 if two sets have the same kinds of dishes. */
static int same_beam(const msi_pb_site *a, const msi_pb_site *b, double freq_hz)
{
    if (a == b) return 1;
    if (strcmp(msi_pb_model_name(a->model), msi_pb_model_name(b->model)) != 0 || a->n_class != b->n_class) return 0;
    for (int k = 0; k < a->n_class; k++)
        if (fabs(msi_pb_model_width(a->model, k, freq_hz) / msi_pb_model_width(b->model, k, freq_hz) - 1) > 1e-6)
            return 0;
    return 1;
}

/* Find the box of a field: the pixels within an angle of its pointing. Returns: 0 if there are none */
static int find_box(msi_mosaic_field *f, const msi_mosaic *m, const msi_pb_view *view, double angle_rad)
{
    const msi_image_geometry *g = &m->geometry;
    double low_x = 0, high_x = (double)g->nx, low_y = 0, high_y = (double)g->ny;
    if (angle_rad < MSI_PI / 2) {
        const double reach = 2 * sin(angle_rad / 2), l = view->rotation[2][0], y = view->rotation[2][1];
        if (view->rotation[2][2] < 0) return 0;
        low_x = fmax(low_x, floor((double)g->nx / 2 - (l + reach) / g->cell_x_rad));
        high_x = fmin(high_x, ceil((double)g->nx / 2 - (l - reach) / g->cell_x_rad) + 1);
        low_y = fmax(low_y, floor((double)g->ny / 2 + (y - reach) / g->cell_y_rad));
        high_y = fmin(high_y, ceil((double)g->ny / 2 + (y + reach) / g->cell_y_rad) + 1);
    }
    if (low_x >= high_x || low_y >= high_y) return 0;
    f->x0 = (int64_t)low_x;
    f->y0 = (int64_t)low_y;
    f->nx = (int64_t)high_x - f->x0;
    f->ny = (int64_t)high_y - f->y0;
    msi_image_widen(&f->x0, &f->nx, g->nx, LEAST_EDGE);
    msi_image_widen(&f->y0, &f->ny, g->ny, LEAST_EDGE);
    f->l = ((double)(g->nx / 2) - (double)(f->x0 + f->nx / 2)) * g->cell_x_rad;
    f->m = ((double)(f->y0 + f->ny / 2) - (double)(g->ny / 2)) * g->cell_y_rad;
    return 1;
}

/* Return the radius of a field, in rad. */
static double reach_of(const msi_pb_view *v, double low_hz)
{
    double width = 0;
    const msi_pb_site *s = v->site;
    if (msi_pb_model_mount(s->model) == MSI_PB_FIXED) return MSI_PI;
    for (int k = 0; k < s->n_class; k++) width = fmax(width, msi_pb_model_width(s->model, k, low_hz));
    return fmin(msi_pb_view_limit(v, low_hz), MOST_WIDTHS * width);
}

/* Add a pointing to its field, or make a new field. Returned: *of  index of the field; -1: it is outside of the
 * image */
static int place_pointing(msi_mosaic *m, const msi_pb_pointing *p, double low_hz, int *of)
{
    const msi_pb_site *site = &m->array->set[p->set];
    msi_mosaic_field new = {0};
    msi_pb_view view;
    *of = -1;
    for (int i = 0; *of < 0 && i < m->n; i++) {
        const msi_pb_pointing *q = &m->field[i].pointing[0];
        if (msi_phase_shift_angle(p->ra_rad, p->dec_rad, q->ra_rad, q->dec_rad) < SAME_POINTING * m->array->width_rad &&
            same_beam(site, &m->array->set[q->set], low_hz))
            *of = i;
    }
    if (*of < 0) {
        msi_pb_view_make(&view, m->array, p, (const double[]){m->ra_rad, m->dec_rad});
        new.reach_rad = reach_of(&view, low_hz);
        if (!find_box(&new, m, &view, new.reach_rad)) return MSI_OK;
        *of = m->n++;
        m->field[*of] = new;
    }
    msi_mosaic_field *f = &m->field[*of];
    MSI_TRY(msi_grow(&f->pointing, f->n_pointing, f->n_pointing + 1, sizeof *f->pointing, "pointings"));
    f->pointing[f->n_pointing++] = *p;
    f->weight += p->weight;
    return MSI_OK;
}

int msi_mosaic_make(msi_mosaic *out, const msi_pb_array *a, const msi_image_geometry *g, const double centre[2],
                    double low_hz)
{
    *out = (msi_mosaic){.geometry = *g, .ra_rad = centre[0], .dec_rad = centre[1], .array = a};
    int rc = msi_alloc(&out->field, a->n_pointing + 1, sizeof *out->field, "fields");
    if (!rc) rc = msi_alloc(&out->of_pointing, a->n_pointing + 1, sizeof *out->of_pointing, "fields");
    for (int64_t i = 0; !rc && i < a->n_pointing; i++) {
        rc = place_pointing(out, &a->pointing[i], low_hz, &out->of_pointing[i]);
        out->n_outside += out->of_pointing[i] < 0;
    }
    if (!rc && !out->n)
        rc = msi_error_set(MSI_EINPUT, "-mosaic: no selected field sees the image; give another -shift, or none");
    if (rc) msi_mosaic_free(out);
    return rc;
}

void msi_mosaic_free(msi_mosaic *m)
{
    for (int i = 0; m->field && i < m->n; i++) msi_free(m->field[i].pointing);
    msi_free(m->field);
    msi_free(m->of_pointing);
    *m = (msi_mosaic){0};
}

int msi_mosaic_field_of(const msi_mosaic *m, int set, int field_id)
{
    const int64_t i = msi_pb_array_pointing(m->array, set, field_id);
    return i < 0 ? -1 : m->of_pointing[i];
}

void msi_mosaic_centre(const msi_ms_reader *reader, int by_table, double *ra_rad, double *dec_rad)
{
    double sum[3] = {0}, ra, dec;
    int64_t at = 0, n_row;
    for (int set, id; msi_ms_reader_pointing(reader, &at, &set, &id, &ra, &dec, &n_row);) {
        const msi_ms_aim aim = msi_ms_reader_aim(reader, at);
        double axes[3][3];
        msi_phase_shift_axes(by_table && aim.is_known ? aim.ra_rad : ra, by_table && aim.is_known ? aim.dec_rad : dec,
                             axes);
        for (int k = 0; k < 3; k++) sum[k] += (double)n_row * axes[2][k];
    }
    *ra_rad = atan2(sum[1], sum[0]);
    *dec_rad = atan2(sum[2], hypot(sum[0], sum[1]));
}

/* ---- Beams and the response of a channel ---- */

static msi_image_geometry box_of(const msi_mosaic *m, int field)
{
    const msi_mosaic_field *f = &m->field[field];
    return (msi_image_geometry){f->nx, f->ny, m->geometry.cell_x_rad, m->geometry.cell_y_rad};
}

/* Compute the beam of a field, and add its square to a sum [ny][nx]. */
static int add_field(const msi_mosaic *m, int field, double share, const msi_pb_target *t, msi_pb_mean *beam,
                     float *sum)
{
    const msi_mosaic_field *f = &m->field[field];
    const int64_t nx = m->geometry.nx;
    msi_pb_array one = *m->array;
    msi_pb_target of = *t;
    float *seen;
    one.n_pointing = f->n_pointing;
    one.pointing = f->pointing;
    of.geometry = box_of(m, field);
    of.l = f->l;
    of.m = f->m;
    of.reach_rad = f->reach_rad;
    MSI_TRY(msi_pb_mean_make(beam, &one, &of));
    MSI_TRY(msi_alloc(&seen, f->nx * f->ny, sizeof *seen, "the primary beam of a field"));
    const int rc = msi_pb_mean_image(beam, MSI_PB_RESPONSE, 0, -1, seen);
    for (int64_t y = 0; !rc && y < f->ny; y++)
        for (int64_t x = 0; x < f->nx; x++) {
            const double p = (double)seen[y * f->nx + x];
            if (p > 0) sum[(f->y0 + y) * nx + f->x0 + x] += (float)(share * p * p);
        }
    msi_free(seen);
    return rc;
}

int msi_mosaic_channel_make(msi_mosaic_channel *out, msi_mosaic *m, double *weight, const msi_plane *planes,
                            int n_plane, int n_freq, const double *freq_hz, const double *of_freq)
{
    const msi_pb_target t = {.ra_rad = m->ra_rad,
                             .dec_rad = m->dec_rad,
                             .planes = planes,
                             .n_plane = n_plane,
                             .n_freq = n_freq,
                             .freq_hz = freq_hz,
                             .weight = of_freq};
    const int64_t n = msi_image_n_pixel(&m->geometry);
    double all = 0, peak = 0;
    *out = (msi_mosaic_channel){.mosaic = m, .n_plane = n_plane, .weight = weight, .planes = planes};
    for (int i = 0; i < m->n; i++) all += weight[i];
    int rc = msi_alloc(&out->beam, m->n, sizeof *out->beam, "primary beams");
    if (!rc) rc = msi_alloc(&out->kept_bytes, m->n, sizeof *out->kept_bytes, "fields");
    if (!rc) rc = msi_alloc(&out->response, n, sizeof *out->response, "the response of a mosaic");
    for (int i = 0; !rc && i < m->n; i++) {
        if (weight[i] > 0) rc = add_field(m, i, weight[i] / all, &t, &out->beam[i], out->response);
        if (!rc) rc = msi_interrupt_check();
    }
    if (rc) {
        msi_mosaic_channel_free(out);
        return rc;
    }
#pragma omp parallel for schedule(static) reduction(max : peak)
    for (int64_t i = 0; i < n; i++) peak = fmax(peak, (double)out->response[i]);
    out->peak = peak;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) out->response[i] = peak > 0 ? (float)sqrt((double)out->response[i] / peak) : 0;
    return MSI_OK;
}

static void free_terms(msi_mosaic_terms *t, int n_field)
{
    if (!t) return;
    for (int i = 0; t->node && i < n_field * t->taylor.n_node; i++) msi_pb_mean_free(&t->node[i]);
    msi_free(t->node);
    msi_free(t->share);
    msi_free(t->power);
    msi_free(t);
}

void msi_mosaic_channel_free(msi_mosaic_channel *c)
{
    free_terms(c->terms, c->mosaic->n);
    for (int i = 0; c->beam && i < c->mosaic->n; i++) msi_pb_mean_free(&c->beam[i]);
    msi_free(c->beam);
    msi_free(c->kept_bytes);
    msi_free(c->weight);
    msi_free(c->response);
    *c = (msi_mosaic_channel){0};
}

/* ---- Taylor terms ---- */

/* This part of the Hessian without beams is added to the Hessian of a pixel, so that its inverse stays bounded where
 * the beam covers only some frequencies. Elsewhere the components of a cycle become smaller by about this part. */
static const double LEAST_PART = 1e-3;

/* If a field lacks a part of the band, its beam is extrapolated there, so its Hessian may be slightly negative. The
 * added part corrects this. A pixel is unseen if a pivot is below this share of the pivot of the added part. */
static const double LEAST_LEFT = 0.1;

/* Return the coefficient of x^n of Lagrange's polynomial of a node. */
static double lagrange(const msi_clean_taylor *t, int node, int n)
{
    return t->psf[node * (2 * t->n_term - 1) + n] * t->share[node];
}

/* Compute the moments of the nodes, sum over k of g_k x_k^n. Given: g [n_node], a stride apart */
static void node_moments(const msi_clean_taylor *t, const double *g, double moment[MSI_TAYLOR_MAX_NODE])
{
    for (int n = 0; n < 2 * t->n_term - 1; n++) {
        moment[n] = 0;
        for (int k = 0; k < t->n_node; k++) moment[n] += g[k] * pow(t->x[k], n);
    }
}

/* The Hessian without beams. */
typedef struct plain_hessian {
    double moment[MSI_TAYLOR_MAX_NODE], pivot[MSI_TAYLOR_MAX_TERM];
} plain_hessian;

/* Compute the Hessian without beams, with its pivots. */
static plain_hessian find_plain(const msi_clean_taylor *t)
{
    plain_hessian h;
    double s[MSI_TAYLOR_MAX_TERM][MSI_TAYLOR_MAX_TERM];
    const int n = t->n_term;
    node_moments(t, t->share, h.moment);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) s[i][j] = h.moment[i + j];
    for (int i = 0; i < n; i++) {
        h.pivot[i] = s[i][i];
        for (int r = i + 1; r < n && s[i][i] > 0; r++) {
            const double f = s[r][i] / s[i][i];
            for (int j = i; j < n; j++) s[r][j] -= f * s[i][j];
        }
    }
    return h;
}

/* The Hessian of a pixel. */
typedef struct pixel_hessian {
    double moment[MSI_TAYLOR_MAX_NODE];                       /* S_tq = moment[t + q] */
    double inverse[MSI_TAYLOR_MAX_TERM][MSI_TAYLOR_MAX_TERM]; /* inverse of S plus LEAST_PART of H */
} pixel_hessian;

/* Invert the Hessian of a pixel by elimination. Given: all  the Hessian without beams. Returns: 0 if the pixel is not
 * seen, or its Hessian is not positive. If it is positive, each pivot is above the pivot of the added part. */
static int invert_pixel(const msi_mosaic_terms *t, const plain_hessian *all, int64_t n_pixel, int64_t at,
                        pixel_hessian *h)
{
    enum { T = MSI_TAYLOR_MAX_TERM };
    const int n = t->taylor.n_term;
    double g[MSI_TAYLOR_MAX_NODE], s[T][2 * T];
    for (int k = 0; k < t->taylor.n_node; k++) g[k] = (double)t->power[k * n_pixel + at];
    node_moments(&t->taylor, g, h->moment);
    if (!(h->moment[0] > 0)) return 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            s[i][j] = h->moment[i + j] + LEAST_PART * h->moment[0] * all->moment[i + j];
            s[i][n + j] = i == j;
        }
    for (int i = 0; i < n; i++) {
        if (!(s[i][i] > LEAST_LEFT * LEAST_PART * h->moment[0] * all->pivot[i])) return 0;
        for (int r = 0; r < n; r++) {
            const double f = r == i ? 0 : s[r][i] / s[i][i];
            for (int j = 0; j < 2 * n && r != i; j++) s[r][j] -= f * s[i][j];
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) h->inverse[i][j] = s[i][n + j] / s[i][i];
    return 1;
}

/* Return a^T M^-1 S M^-1 b, with M^-1 = h->inverse: the covariance of two linear combinations of the terms of true
 * flux, divided by the variance of an image without beams. */
static double covariance_of(const pixel_hessian *h, int n, const double *a, const double *b)
{
    double left[MSI_TAYLOR_MAX_TERM] = {0}, right[MSI_TAYLOR_MAX_TERM] = {0}, sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            left[i] += h->inverse[i][j] * a[j];
            right[i] += h->inverse[i][j] * b[j];
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) sum += left[i] * h->moment[i + j] * right[j];
    return sum;
}

/* Return the weight of a pixel in the search image; 0 if it is not known. Let a be column 0 of H, b = M^-1 a, and
 * c = a_0 - LEAST_PART S_00 a.b, which is row 0 of S b. If S is positive, c^2 <= (b S b) S_00 by the Cauchy-Schwarz
 * inequality; a pixel that violates it has weight 0. */
static double weight_of(const pixel_hessian *h, int n, const plain_hessian *all)
{
    const double *a = all->moment;
    const double covariance = covariance_of(h, n, a, a);
    double left = a[0];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) left -= LEAST_PART * h->moment[0] * a[i] * h->inverse[i][j] * a[j];
    /* The factor 1.001 allows for the rounding of moments to single precision. */
    return covariance > 0 && covariance * h->moment[0] * 1.001 >= left * left ? 1 / covariance : 0;
}

/* Compute the response that makes the noise of the search image, term 0 of H S^-1 R, flat. */
static void find_response(msi_mosaic_channel *c)
{
    const msi_mosaic_terms *t = c->terms;
    const int64_t n_pixel = msi_image_n_pixel(&c->mosaic->geometry);
    const plain_hessian all = find_plain(&t->taylor);
    double peak = 0;
#pragma omp parallel for schedule(static) reduction(max : peak)
    for (int64_t i = 0; i < n_pixel; i++) {
        pixel_hessian h;
        const int is_seen = c->response[i] > 0 && invert_pixel(t, &all, n_pixel, i, &h);
        const double s = is_seen ? weight_of(&h, t->taylor.n_term, &all) : 0;
        c->response[i] = (float)s;
        peak = fmax(peak, s);
    }
    c->peak = peak;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_pixel; i++) c->response[i] = peak > 0 ? (float)sqrt((double)c->response[i] / peak) : 0;
}

int msi_mosaic_channel_terms(msi_mosaic_channel *c, const msi_clean_taylor *taylor, const double *moment)
{
    const msi_mosaic *m = c->mosaic;
    const int n_power = 2 * taylor->n_term - 1, n_node = taylor->n_node;
    const int64_t n_pixel = msi_image_n_pixel(&m->geometry);
    double all = 0;
    MSI_TRY(msi_alloc(&c->terms, 1, sizeof *c->terms, "Taylor terms"));
    msi_mosaic_terms *t = c->terms;
    t->taylor = *taylor;
    MSI_TRY(msi_alloc(&t->node, (int64_t)m->n * n_node, sizeof *t->node, "primary beams"));
    MSI_TRY(msi_alloc(&t->share, (int64_t)m->n * n_node, sizeof *t->share, "primary beams"));
    MSI_TRY(msi_alloc(&t->power, n_node * n_pixel, sizeof *t->power, "the response of a mosaic"));
    for (int f = 0; f < m->n; f++) all += c->weight[f];
    for (int i = 0; i < m->n * n_node; i++) {
        const int f = i / n_node, k = i % n_node;
        const double one = 1;
        const msi_pb_target target = {.ra_rad = m->ra_rad,
                                      .dec_rad = m->dec_rad,
                                      .planes = c->planes,
                                      .n_plane = c->n_plane,
                                      .n_freq = 1,
                                      .freq_hz = &taylor->freq_hz[k],
                                      .weight = &one};
        if (!(c->weight[f] > 0)) continue;
        for (int n = 0; n < n_power; n++)
            t->share[i] += lagrange(taylor, k, n) * moment[f * n_power + n] / moment[f * n_power];
        MSI_TRY(add_field(m, f, c->weight[f] / all * t->share[i], &target, &t->node[i], t->power + k * n_pixel));
        MSI_TRY(msi_interrupt_check());
    }
    find_response(c);
    return MSI_OK;
}

void msi_mosaic_correct_terms(const msi_mosaic_channel *c, double limit, msi_image *term, msi_image *beam,
                              msi_image *covariance)
{
    static const double unit[2][MSI_TAYLOR_MAX_TERM] = {{1}, {0, 1}};
    const msi_mosaic_terms *t = c->terms;
    const int64_t n_pixel = msi_image_n_pixel(&c->mosaic->geometry);
    const plain_hessian all = find_plain(&t->taylor);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_pixel; i++) {
        const double r = (double)c->response[i];
        const int is_there = r > limit;
        pixel_hessian h;
        for (int k = 0; k < term->n_plane; k++) {
            const double v = msi_image_value(msi_image_plane(term, k), term->precision, i);
            msi_image_set(term, k, i, is_there ? v / r : (double)NAN);
            msi_image_set(beam, k, i, !is_there ? (double)NAN : k < c->n_plane ? r : 0);
        }
        if (!covariance) continue;
        const int is_known = is_there && invert_pixel(t, &all, n_pixel, i, &h);
        for (int m = 0; m < 3; m++)
            msi_image_set(covariance, m, i,
                          is_known ? c->peak * covariance_of(&h, t->taylor.n_term, unit[m / 2], unit[(m + 1) / 2])
                                   : (double)NAN);
    }
}

/* ---- Images ---- */

/* Return the number of Taylor terms; 1 without terms. */
static int n_term(const msi_mosaic_channel *c)
{
    return c->terms ? c->terms->taylor.n_term : 1;
}

/* Copy the part of a model with terms in a field's box. At each node, multiply its true flux by the beam; then compute
 * the polynomial through the nodes. Returned: *out  the box, [n_plane][2 n_term - 1] */
static int cut_terms(const msi_mosaic_channel *c, int field, const msi_image *model, msi_image *out)
{
    const msi_mosaic_field *f = &c->mosaic->field[field];
    const msi_clean_taylor *t = &c->terms->taylor;
    const msi_image_geometry box = box_of(c->mosaic, field);
    const int64_t nx = c->mosaic->geometry.nx, n_box = f->nx * f->ny;
    const int n_power = 2 * t->n_term - 1;
    msi_image seen = {0};
    MSI_TRY(msi_image_alloc(out, &box, c->n_plane * n_power, model->precision));
    int rc = msi_image_alloc(&seen, &box, c->n_plane, model->precision);
    for (int k = 0; !rc && k < t->n_node; k++) {
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n_box; i++) {
            const int64_t at = (f->y0 + i / f->nx) * nx + f->x0 + i % f->nx;
            const double r = (double)c->response[at];
            for (int p = 0; p < c->n_plane; p++) {
                double v = 0;
                for (int n = t->n_term - 1; n >= 0; n--)
                    v = v * t->x[k] + msi_image_value(msi_image_plane(model, p * t->n_term + n), model->precision, at);
                msi_image_set(&seen, p, i, v != 0 && r > 0 ? v / r : 0);
            }
        }
        rc = msi_pb_mean_see(&c->terms->node[field * t->n_node + k], &seen);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < (rc ? 0 : n_box); i++)
            for (int p = 0; p < c->n_plane; p++) {
                const double v = msi_image_value(msi_image_plane(&seen, p), seen.precision, i);
                for (int n = 0; n < n_power && v != 0; n++) {
                    const double old = msi_image_value(msi_image_plane(out, p * n_power + n), out->precision, i);
                    msi_image_set(out, p * n_power + n, i, old + lagrange(t, k, n) * v);
                }
            }
    }
    msi_image_free(&seen);
    if (rc) msi_image_free(out);
    return rc;
}

/* Copy the part of a model in a field's box, converted to true flux and multiplied by the beam. Returned: *out  the
 * box */
static int cut_model(const msi_mosaic_channel *c, int field, const msi_image *model, msi_image *out)
{
    const msi_mosaic_field *f = &c->mosaic->field[field];
    const msi_image_geometry box = box_of(c->mosaic, field);
    const int64_t nx = c->mosaic->geometry.nx;
    if (c->terms) return cut_terms(c, field, model, out);
    MSI_TRY(msi_image_alloc(out, &box, model->n_plane, model->precision));
    for (int k = 0; k < model->n_plane; k++) {
        const void *from = msi_image_plane(model, k);
#pragma omp parallel for schedule(static)
        for (int64_t y = 0; y < f->ny; y++)
            for (int64_t x = 0; x < f->nx; x++) {
                const int64_t at = (f->y0 + y) * nx + f->x0 + x;
                const double v = msi_image_value(from, model->precision, at), r = (double)c->response[at];
                if (v != 0 && r > 0) msi_image_set(out, k, y * f->nx + x, v / r);
            }
    }
    const int rc = msi_pb_mean_see(&c->beam[field], out);
    if (rc) msi_image_free(out);
    return rc;
}

/* Gridders of fields keep at most 1 / KEPT_PART of the memory limit between residuals. */
enum { KEPT_PART = 8 };

/* Reset a gridder if all gridders together keep too much memory. */
static void keep_or_reset(msi_mosaic_channel *c, int field)
{
    msi_gridder_report r;
    int64_t *all = &c->mosaic->kept_bytes;
    msi_gridder_report_get(c->gridder[field], &r);
    *all -= c->kept_bytes[field];
    c->kept_bytes[field] = r.kept_bytes;
    if (*all + r.kept_bytes > msi_memory_limit() / KEPT_PART) {
        msi_gridder_reset(c->gridder[field]);
        c->kept_bytes[field] = 0;
    }
    *all += c->kept_bytes[field];
}

/* Make the residual of a field. Returned: *out  the box */
static int image_field(msi_mosaic_channel *c, int field, const msi_image *model, msi_image *out)
{
    const int n_plane = c->n_plane * (2 * n_term(c) - 1);
    msi_gridder *g = c->gridder[field];
    msi_planes *planes = NULL, *seen = NULL;
    msi_image part = {0};
    const msi_image_geometry box = box_of(c->mosaic, field);
    *out = (msi_image){0};
    int rc = msi_gridder_planes(g, n_plane, &planes);
    if (!rc && model) rc = msi_gridder_planes(g, n_plane, &seen);
    if (!rc && model) rc = cut_model(c, field, model, &part);
    if (!rc && model) rc = msi_planes_upload(seen, 0, n_plane, part.pixel);
    msi_image_free(&part);
    if (!rc) rc = msi_gridder_residual(g, seen, planes);
    if (!rc) rc = msi_image_alloc(out, &box, n_plane, msi_gridder_precision(g));
    if (!rc) rc = msi_planes_fetch(planes, 0, n_plane, out->pixel);
    msi_planes_free(planes);
    msi_planes_free(seen);
    if (rc) msi_image_free(out);
    return rc;
}

/* Multiply the images of a field at the nodes by its beams, and sum them with powers of x. Given: image
 * [n_plane][2 n_term - 1]. Returned: *image  [n_plane][n_term] */
static int weigh_terms(const msi_mosaic_channel *c, int field, msi_image *image)
{
    const msi_clean_taylor *t = &c->terms->taylor;
    const int n_power = 2 * t->n_term - 1;
    const int64_t n_box = msi_image_n_pixel(&image->geometry);
    msi_image node = {0}, sum = {0};
    int rc = msi_image_alloc(&node, &image->geometry, c->n_plane, image->precision);
    if (!rc) rc = msi_image_alloc(&sum, &image->geometry, c->n_plane * t->n_term, image->precision);
    for (int k = 0; !rc && k < t->n_node; k++) {
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n_box; i++)
            for (int p = 0; p < c->n_plane; p++) {
                double v = 0;
                for (int n = 0; n < n_power; n++)
                    v += lagrange(t, k, n) *
                         msi_image_value(msi_image_plane(image, p * n_power + n), image->precision, i);
                msi_image_set(&node, p, i, v);
            }
        rc = msi_pb_mean_weigh(&c->terms->node[field * t->n_node + k], &node);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < (rc ? 0 : n_box); i++)
            for (int p = 0; p < sum.n_plane; p++) {
                const double v = msi_image_value(msi_image_plane(&node, p / t->n_term), node.precision, i),
                             old = msi_image_value(msi_image_plane(&sum, p), sum.precision, i);
                msi_image_set(&sum, p, i, old + pow(t->x[k], p % t->n_term) * v);
            }
    }
    msi_image_free(&node);
    msi_image_free(image);
    *image = sum;
    return rc;
}

/* Divide the sum of fields so that its noise is flat. */
static void flatten(const msi_mosaic_channel *c, msi_image *image)
{
    const int64_t n = msi_image_n_pixel(&image->geometry);
    for (int k = 0; k < image->n_plane; k++) {
        const void *from = msi_image_plane(image, k);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n; i++) {
            const double r = (double)c->response[i], unseen = c->seen && c->seen[i] ? 0 : (double)NAN;
            msi_image_set(image, k, i, r > 0 ? msi_image_value(from, image->precision, i) / (r * c->peak) : unseen);
        }
    }
}

/* Convert the sums R_t to the terms of an image. */
static void flatten_terms(const msi_mosaic_channel *c, msi_image *image)
{
    const msi_clean_taylor *t = &c->terms->taylor;
    const int64_t n_pixel = msi_image_n_pixel(&image->geometry);
    const plain_hessian all = find_plain(t);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_pixel; i++) {
        const double r = (double)c->response[i];
        pixel_hessian h;
        const int is_seen = r > 0 && invert_pixel(c->terms, &all, n_pixel, i, &h);
        for (int p = 0; p < c->n_plane; p++) {
            double in[MSI_TAYLOR_MAX_TERM] = {0}, flux[MSI_TAYLOR_MAX_TERM] = {0};
            for (int n = 0; n < t->n_term; n++)
                in[n] = msi_image_value(msi_image_plane(image, p * t->n_term + n), image->precision, i);
            for (int n = 0; n < t->n_term * t->n_term && is_seen; n++)
                flux[n / t->n_term] += h.inverse[n / t->n_term][n % t->n_term] * in[n % t->n_term];
            for (int n = 0; n < t->n_term; n++) {
                double sum = is_seen ? 0 : (double)NAN;
                for (int q = 0; q < t->n_term && is_seen; q++) sum += all.moment[n + q] * flux[q];
                msi_image_set(image, p * t->n_term + n, i, r * sum);
            }
        }
    }
}

/* Count the samples of this rank. Returned: sum_weight, n_vis [n_plane]; of_field [fields][n_plane] sums of weights */
static int count_samples(const msi_mosaic_channel *c, int n_plane, double *sum_weight, int64_t *n_vis,
                         double **of_field)
{
    MSI_TRY(msi_alloc(of_field, (int64_t)c->mosaic->n * n_plane, sizeof **of_field, "weights of fields"));
    for (int k = 0; k < n_plane; k++) sum_weight[k] = 0, n_vis[k] = 0;
    for (int i = 0; i < c->mosaic->n; i++) {
        double *of_this = *of_field + (int64_t)i * n_plane;
        msi_gridder_weights_add(c->gridder[i], n_plane, of_this, NULL, n_vis);
        for (int k = 0; k < n_plane; k++) sum_weight[k] += of_this[k];
    }
    return MSI_OK;
}

/* Return 1 if a field's box contains a pixel of the mosaic. Given: pixel  -1: any */
static int box_has(const msi_mosaic_channel *c, int field, int64_t pixel)
{
    const msi_mosaic_field *f = &c->mosaic->field[field];
    const int64_t x = pixel % c->mosaic->geometry.nx - f->x0, y = pixel / c->mosaic->geometry.nx - f->y0;
    return pixel < 0 || (x >= 0 && x < f->nx && y >= 0 && y < f->ny);
}

/* Fields that are imaged in parallel and added in their order. */
typedef struct field_turns {
    msi_mosaic_channel *c;
    const msi_image *model;
    double factor;
    msi_image *sum;
    int n, n_worker;
    int *field;       /* [n] */
    double *of_field; /* [fields][n_plane] sums of weights */
    msi_image *made;  /* [n_worker] */
} field_turns;

/* Image a field, less its part of the model, and multiply it by its beam. */
static int field_turn(void *of, int64_t i)
{
    const field_turns *t = of;
    msi_image *made = &t->made[i % t->n_worker];
    MSI_TRY(image_field(t->c, t->field[i], t->model, made));
    return t->c->terms ? weigh_terms(t->c, t->field[i], made) : msi_pb_mean_weigh(&t->c->beam[t->field[i]], made);
}

/* Add the image of a field to the sum. A plane is weighted by the field's share of the weights of this plane. */
static int add_field_image(void *of, int64_t i)
{
    const field_turns *t = of;
    const msi_mosaic_field *f = &t->c->mosaic->field[t->field[i]];
    msi_image *image = &t->made[i % t->n_worker], *sum = t->sum;
    for (int k = 0; k < image->n_plane; k++) {
        const double share =
            t->factor * t->of_field[t->field[i] * t->c->n_plane + k / n_term(t->c)] / sum->sum_weight[k];
        const void *from = msi_image_plane(image, k), *old = msi_image_plane(sum, k);
#pragma omp parallel for schedule(static)
        for (int64_t y = 0; y < f->ny; y++)
            for (int64_t x = 0; x < f->nx; x++) {
                const int64_t at = (f->y0 + y) * sum->geometry.nx + f->x0 + x;
                const double v = msi_image_value(from, image->precision, y * f->nx + x);
                if (v != 0) msi_image_set(sum, k, at, msi_image_value(old, sum->precision, at) + share * v);
            }
    }
    msi_image_free(image);
    keep_or_reset(t->c, t->field[i]);
    return msi_interrupt_check();
}

/* Add the images of fields, less a model, times a factor, to a sum. Given: pixel  add only fields whose box contains
 * it; -1: all; factor  must be 1 with terms */
static int add_fields(msi_mosaic_channel *c, const msi_image *model, int64_t pixel, double factor, msi_image *out)
{
    const int n_field = c->mosaic->n, n_plane = c->n_plane, terms = n_term(c);
    field_turns t = {.c = c, .model = model, .factor = factor, .sum = out, .n_worker = c->mosaic->n_worker};
    double sum_weight[MSI_MAX_PLANES];
    int64_t n_vis[MSI_MAX_PLANES];
    int rc = count_samples(c, n_plane, sum_weight, n_vis, &t.of_field);
    if (!rc) rc = msi_alloc(&t.field, n_field, sizeof *t.field, "fields");
    if (!rc) rc = msi_alloc(&t.made, t.n_worker, sizeof *t.made, "fields");
    for (int k = 0; !rc && k < n_plane * terms; k++) {
        out->sum_weight[k] = sum_weight[k / terms];
        out->n_vis[k] = n_vis[k / terms];
    }
    for (int i = 0; !rc && i < n_field; i++) {
        int has_samples = c->weight[i] > 0;
        for (int k = 0; k < n_plane; k++) has_samples &= t.of_field[i * n_plane + k] > 0;
        if (has_samples && box_has(c, i, pixel)) t.field[t.n++] = i;
    }
    const msi_ordered_parallel turns = {
        .n_item = t.n, .n_thread = t.n_worker, .work = field_turn, .finish = add_field_image, .of = &t};
    if (!rc) rc = msi_ordered_parallel_run(&turns);
    for (int i = 0; t.made && i < t.n_worker; i++) msi_image_free(&t.made[i]);
    msi_free(t.made);
    msi_free(t.field);
    msi_free(t.of_field);
    return rc;
}

int msi_mosaic_image(msi_mosaic_channel *c, const msi_image *model, msi_image *out)
{
    MSI_TRY(msi_image_alloc(out, &c->mosaic->geometry, c->n_plane * n_term(c), msi_gridder_precision(c->gridder[0])));
    const int rc = add_fields(c, model, -1, 1, out);
    if (rc) {
        msi_image_free(out);
        return rc;
    }
    if (c->terms)
        flatten_terms(c, out);
    else
        flatten(c, out);
    for (int k = 0; k < out->n_plane; k++)
        if (!out->n_vis[k]) msi_image_fill_nan(out, k);
    return MSI_OK;
}

/* ---- The PSF ---- */

/* Add the samples of plane 0 of a gridder to another one. */
static int copy_samples(msi_gridder *from, msi_gridder *to)
{
    msi_vis_store *s = msi_gridder_store(from);
    float *weight = NULL;
    int64_t n_allocated = 0;
    int rc = MSI_OK;
    for (int64_t i = 0; !rc && i < s->n_segment; i++) {
        const msi_vis_segment *g = &s->segment[i];
        const int64_t n = g->n_row * g->n_chan;
        if (n > n_allocated) {
            n_allocated = 0;
            rc = msi_grow(&weight, 0, n, sizeof *weight, "weights");
            if (rc) break;
            n_allocated = n;
        }
        for (int64_t k = 0; k < n; k++) weight[k] = (float)((double)g->weight[k] / s->weight_scale);
        const msi_vis_block block = {.n_row = g->n_row,
                                     .n_chan = g->n_chan,
                                     .n_plane = 1,
                                     .uvw_m = g->uvw_m,
                                     .freq_hz = g->freq_hz,
                                     .vis = s->precision == MSI_FP64 ? g->vis : NULL,
                                     .vis_f32 = s->precision == MSI_FP64 ? NULL : g->vis,
                                     .weight = weight};
        rc = msi_gridder_add(to, &block);
        if (!rc) rc = msi_interrupt_check();
    }
    msi_free(weight);
    return rc;
}

/* The overlap of beams at nodes, up to EDGE - 1 steps on both sides of the source along each axis. */
enum { EDGE = 40, SIDE = 2 * EDGE - 1 };

typedef struct overlap {
    double step_rad;
    double node[SIDE][SIDE]; /* at the distances (i - EDGE + 1) steps along x, (j - EDGE + 1) along y */
} overlap;

/* Add the autocorrelation of a field's beam. Given: seen [ny][nx] of its box, NaN or 0 outside */
static void add_overlap(overlap *o, const msi_mosaic *m, const msi_mosaic_field *f, const float *seen, double weight)
{
    double p[EDGE][EDGE] = {{0}};
    for (int j = 0; j < EDGE; j++)
        for (int i = 0; i < EDGE; i++) {
            const int64_t x = (int64_t)(i * o->step_rad / m->geometry.cell_x_rad),
                          y = (int64_t)(j * o->step_rad / m->geometry.cell_y_rad);
            const float v = x < f->nx && y < f->ny ? seen[y * f->nx + x] : 0;
            p[j][i] = v > 0 ? (double)v : 0;
        }
#pragma omp parallel for schedule(dynamic, 1)
    for (int dj = -EDGE + 1; dj < EDGE; dj++)
        for (int di = -EDGE + 1; di < EDGE; di++) {
            double sum = 0;
            for (int j = dj > 0 ? dj : 0; j < (dj < 0 ? EDGE + dj : EDGE); j++)
                for (int i = di > 0 ? di : 0; i < (di < 0 ? EDGE + di : EDGE); i++) sum += p[j][i] * p[j - dj][i - di];
            o->node[dj + EDGE - 1][di + EDGE - 1] += weight * sum;
        }
}

/* Interpolate the overlap linearly at a distance from the source; 0 beyond the nodes. */
static double overlap_at(const overlap *o, double l, double m)
{
    const double x = l / o->step_rad + EDGE - 1, y = m / o->step_rad + EDGE - 1;
    const int i = (int)floor(x), j = (int)floor(y);
    if (i < 0 || j < 0 || i + 1 >= SIDE || j + 1 >= SIDE) return 0;
    const double a = x - i, b = y - j, all = o->node[EDGE - 1][EDGE - 1];
    return ((1 - b) * ((1 - a) * o->node[j][i] + a * o->node[j][i + 1]) +
            b * ((1 - a) * o->node[j + 1][i] + a * o->node[j + 1][i + 1])) /
           all;
}

static int find_overlap(const msi_mosaic_channel *c, overlap *o)
{
    const msi_mosaic *m = c->mosaic;
    for (int i = 0; i < m->n; i++) {
        const double x = (double)m->field[i].nx * m->geometry.cell_x_rad,
                     y = (double)m->field[i].ny * m->geometry.cell_y_rad;
        o->step_rad = fmax(o->step_rad, fmax(x, y) / EDGE);
    }
    for (int i = 0; i < m->n; i++) {
        const msi_mosaic_field *f = &m->field[i];
        float *seen;
        if (!(c->weight[i] > 0)) continue;
        MSI_TRY(msi_alloc(&seen, f->nx * f->ny, sizeof *seen, "the primary beam of a field"));
        const int rc = msi_pb_mean_image(&c->beam[i], MSI_PB_RESPONSE, 0, -1, seen);
        if (!rc) add_overlap(o, m, f, seen, c->weight[i]);
        msi_free(seen);
        MSI_TRY(rc);
    }
    return MSI_OK;
}

/* Multiply the PSF by the overlap. */
static int apply_overlap(const msi_mosaic_channel *c, msi_planes *psf)
{
    const msi_image_geometry *g = &c->mosaic->geometry;
    overlap *o;
    msi_image image = {0};
    MSI_TRY(msi_alloc(&o, 1, sizeof *o, "the overlap of beams"));
    int rc = find_overlap(c, o);
    if (!rc) rc = msi_image_alloc(&image, g, 1, msi_planes_shape_of(psf)->precision);
    for (int k = 0; !rc && k < msi_planes_shape_of(psf)->n && o->node[EDGE - 1][EDGE - 1] > 0; k++) {
        rc = msi_planes_fetch(psf, k, 1, image.pixel);
#pragma omp parallel for schedule(static)
        for (int64_t y = 0; y < g->ny; y++)
            for (int64_t x = 0; x < g->nx; x++) {
                /* l has the direction of x here, as the nodes do. */
                const double l = ((double)x - (double)g->nx / 2) * g->cell_x_rad,
                             mm = ((double)y - (double)g->ny / 2) * g->cell_y_rad;
                const int64_t at = y * g->nx + x;
                msi_image_set(&image, 0, at, msi_image_value(image.pixel, image.precision, at) * overlap_at(o, l, mm));
            }
        if (!rc) rc = msi_planes_upload(psf, k, 1, image.pixel);
    }
    msi_image_free(&image);
    msi_free(o);
    return rc;
}

int msi_mosaic_psf(const msi_mosaic_channel *c, const msi_gridder_spec *spec, msi_planes *psf)
{
    msi_gridder_spec of = *spec;
    msi_gridder *g;
    of.n_plane = 1;
    of.residual = 1;
    of.psf = of.psf_only = of.tagged = of.predict = 0;
    of.precision = msi_gridder_precision(c->gridder[0]) == MSI_FP64 ? MSI_PRECISION_FP64 : MSI_PRECISION_FP32;
    MSI_TRY(msi_gridder_create(&g, &of));
    int rc = MSI_OK;
    for (int i = 0; !rc && i < c->mosaic->n; i++)
        if (c->weight[i] > 0) rc = copy_samples(c->gridder[i], g);
    if (!rc) rc = msi_gridder_psf(g, psf);
    msi_gridder_free(g);
    return rc ? rc : apply_overlap(c, psf);
}

/* Shift plane 0 so that pixel (x0, y0) is in the middle. Pixels from outside, and pixels that are not finite, become
 * 0. */
static void move_to_middle(const msi_image *from, int64_t x0, int64_t y0, msi_image *to)
{
    const msi_image_geometry *g = &from->geometry;
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++) {
            const int64_t at_x = x + x0 - g->nx / 2, at_y = y + y0 - g->ny / 2;
            const int is_inside = at_x >= 0 && at_x < g->nx && at_y >= 0 && at_y < g->ny;
            const double v = is_inside ? msi_image_value(from->pixel, from->precision, at_y * g->nx + at_x) : 0;
            msi_image_set(to, 0, y * g->nx + x, isfinite(v) ? v : 0);
        }
}

int msi_mosaic_sees(const msi_mosaic_channel *c, int64_t x, int64_t y)
{
    static const double LEAST_RESPONSE = 0.2;
    return (double)c->response[y * c->mosaic->geometry.nx + x] > LEAST_RESPONSE;
}

int msi_mosaic_source_psf(msi_mosaic_channel *c, int64_t x, int64_t y, msi_image *out)
{
    const msi_image_geometry *g = &c->mosaic->geometry;
    const int64_t pixel = y * g->nx + x;
    msi_image seen = {0};
    MSI_TRY(msi_image_alloc(out, g, c->n_plane, msi_gridder_precision(c->gridder[0])));
    int rc = msi_image_alloc(&seen, g, c->n_plane, out->precision);
    msi_image_set(out, 0, pixel, 1);
    if (!rc) rc = add_fields(c, NULL, pixel, 1, &seen);
    if (!rc) rc = add_fields(c, out, pixel, -1, &seen);
    if (!rc) flatten(c, &seen);
    if (!rc) move_to_middle(&seen, x, y, out);
    msi_image_free(&seen);
    if (rc) msi_image_free(out);
    return rc;
}
