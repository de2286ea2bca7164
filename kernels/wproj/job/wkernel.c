/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Kernels are even in u and in v, and only a few hundred distances |t - s / oversample| occur. So a kernel is computed
 * as a cosine sum over Gauss-Legendre nodes, by two products of small matrices. An FFT of a zero-padded plane would
 * alias in t and compute many unused values: for a half-support of 6 and 20 sub-cells it would take about 60
 * times the operations.
 *
 * The truncation error is estimated in the image. A full kernel that is summed over all taps in v is a one-dimensional
 * kernel at each fixed m, with the screen's profile along l at that m. So one-dimensional kernels give the error of
 * truncating one axis anywhere in the image. The errors of the two axes add.
 */
#include "kernels/wproj/job/wkernel.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

typedef msi_wkernel_axis axis;

static double band_of(const msi_pswf *w)
{
    return 1 / w->omega_per_x;
}

static double taper_at(const msi_pswf *w, double x)
{
    return msi_pswf_transform(w, x) / w->transform_at_0;
}

/* Return n - 1 at (l, m). Outside of the image it is continued by the parabola that fits at the edge. Continuation by
 * the tangent would leave a jump of the second derivative, which doubles the supports at an accuracy of 1e-3. The
 * curvature is limited near the horizon, because those pixels are not kept. */
static double screen(double l, double m, double half_l, double half_m)
{
    double lc = fmin(l, half_l), mc = fmin(m, half_m), value = msi_n_minus_1(lc, mc), inside = 1 - lc * lc - mc * mc;
    double dl = l - lc, dm = m - mc;
    if (inside <= 0 || (dl <= 0 && dm <= 0)) return value;
    double n = sqrt(inside), k = 1 / fmax(n, 0.3), along = lc * dl + mc * dm;
    return value - along / n - 0.5 * (k * (dl * dl + dm * dm) + k * k * k * along * along);
}

/* Return the part along one axis of a separable kernel's n - 1. It is the mean of n - 1 in the middle and at the end of
 * the other axis, less a constant. The errors at the ends of the range of l^2 m^2 are then equal and opposite. */
static double separable_screen(const msi_wkernel_spec *s, const axis *a, double l)
{
    double half_l = a->half_l, half_m = a->half_m;
    if (s->phase == MSI_WPHASE_AXIS) return screen(l, 0, half_l, half_m);
    double corners = msi_n_minus_1(half_l, half_m) + msi_n_minus_1(half_l, 0) + msi_n_minus_1(0, half_m);
    return 0.5 * (screen(l, 0, half_l, half_m) + screen(l, half_m, half_l, half_m)) - 0.125 * corners;
}

static void describe_axes(const msi_wkernel_spec *s, axis *u, axis *v)
{
    *u = (axis){.field_rad = s->field_u_rad,
                .edge = 0.5 * s->image_u_rad / s->field_u_rad,
                .half_l = 0.5 * s->image_u_rad,
                .half_m = 0.5 * s->image_v_rad,
                .pswf = s->pswf_u};
    *v = (axis){.field_rad = s->field_v_rad,
                .edge = 0.5 * s->image_v_rad / s->field_v_rad,
                .half_l = 0.5 * s->image_v_rad,
                .half_m = 0.5 * s->image_u_rad,
                .pswf = s->pswf_v};
}

/* Return whether both axes can use the same table. */
static int alike(const msi_wkernel_spec *s)
{
    return s->field_u_rad == s->field_v_rad && s->image_u_rad == s->image_v_rad &&
           s->pswf_u->width == s->pswf_v->width && s->pswf_u->sigma == s->pswf_v->sigma;
}

/* Compute nodes and weights of Gauss-Legendre quadrature on [a, b], by Newton's iteration on P_n. */
static void gauss_legendre(int n, double a, double b, double *x, double *weight)
{
    for (int i = 0; i < n; i++) {
        double z = cos(MSI_PI * (i + 0.75) / (n + 0.5)), derivative = 1;
        for (int step = 0; step < 100; step++) {
            double p0 = 1, p1 = z;
            for (int k = 2; k <= n; k++) {
                double p2 = ((2 * k - 1) * z * p1 - (k - 1) * p0) / k;
                p0 = p1;
                p1 = p2;
            }
            derivative = n * (z * p1 - p0) / (z * z - 1);
            double change = p1 / derivative;
            z -= change;
            if (fabs(change) < 1e-15) break;
        }
        x[i] = 0.5 * (a + b) - 0.5 * (b - a) * z;
        weight[i] = (b - a) / ((1 - z * z) * derivative * derivative);
    }
}

/* Return the number of nodes for an integrand whose phase turns `cycles` times. The Legendre series of exp(i k s)
 * converges beyond k terms, and n nodes integrate 2 n terms exactly. */
static int nodes_for(double cycles)
{
    return 24 + (int)ceil(0.6 * MSI_PI * cycles);
}

/* Make the nodes of an axis for planes up to w_max and distances up to t_max. */
static int lay_nodes(axis *a, double w_max, double t_max)
{
    double band = band_of(a->pswf), edge = fmin(a->edge, band);
    double to_edge = msi_n_minus_1(a->half_l, a->half_m) - msi_n_minus_1(0, 0);
    double l = band * a->field_rad;
    double beyond = fabs(screen(l, a->half_m, a->half_l, a->half_m) - msi_n_minus_1(a->half_l, a->half_m));
    beyond = fmax(beyond, fabs(screen(l, 0, a->half_l, a->half_m) - msi_n_minus_1(a->half_l, 0)));
    /* A parabola's phase turns fastest at the outer end, at twice its mean rate. */
    int n_inner = nodes_for(2 * w_max * -to_edge + t_max * edge);
    int n_outer = edge < band ? nodes_for(2 * w_max * beyond + t_max * (band - edge)) : 0;
    a->n_node = n_inner + n_outer;
    MSI_TRY(msi_alloc(&a->x, a->n_node, sizeof *a->x, "kernel nodes"));
    MSI_TRY(msi_alloc(&a->weight, a->n_node, sizeof *a->weight, "kernel nodes"));
    gauss_legendre(n_inner, 0, edge, a->x, a->weight);
    if (n_outer) gauss_legendre(n_outer, edge, band, a->x + n_inner, a->weight + n_inner);
    for (int i = 0; i < a->n_node; i++) a->weight[i] *= 2 * taper_at(a->pswf, a->x[i]);
    return MSI_OK;
}

/* Tabulate the cosines of distances q / steps up to t_max. */
static int tabulate_cosines(axis *a, double t_max, int32_t steps)
{
    a->n_distance = (int64_t)ceil(t_max * steps) + 1;
    MSI_TRY(msi_alloc(&a->cosine, a->n_distance * a->n_node, sizeof *a->cosine, "kernel nodes"));
#pragma omp parallel for schedule(static)
    for (int i = 0; i < a->n_node; i++)
        for (int64_t q = 0; q < a->n_distance; q++) {
            double turns = a->x[i] * (double)q / steps;
            a->cosine[i * a->n_distance + q] = cos(2 * MSI_PI * (turns - rint(turns)));
        }
    return MSI_OK;
}

static void free_axis(axis *a)
{
    msi_free(a->x);
    msi_free(a->weight);
    msi_free(a->cosine);
    a->x = a->weight = a->cosine = NULL;
}

/* Return weight exp(-2 pi i turns). */
static msi_c64 turned(double weight, double turns)
{
    double phase = -2 * MSI_PI * (turns - rint(turns));
    return (msi_c64){weight * cos(phase), weight * sin(phase)};
}

/* Add a node's value times its cosines to out[q], for distances q = 0 .. n - 1. */
static void add_node(const axis *a, int node, msi_c64 value, int64_t n, msi_c64 *out)
{
    const double *cosine = a->cosine + node * a->n_distance;
    for (int64_t q = 0; q < n; q++) {
        out[q].re += value.re * cosine[q];
        out[q].im += value.im * cosine[q];
    }
}

/* ---- Supports ---- */

enum { QUARTERS = 4, N_PLACE = 9 }; /* fractions of a cell that are tried, and places along half of the image */

static const double SEPARABLE = -1; /* position of a profile across the axis; separable kernels do not use it */

/* Return n - 1 at l along an axis, with the position `across` on the other axis; or the separable kernel's part. */
static double profile(const msi_wkernel_spec *s, const axis *a, double across, double l)
{
    return across < 0 ? separable_screen(s, a, l) : screen(l, across, a->half_l, a->half_m);
}

/* Memory of a search for supports. */
typedef struct search {
    int32_t most;    /* half-supports tried: 0 .. most */
    msi_c64 *kernel; /* [(most + 1) QUARTERS] at distances of a quarter */
    double *worst;   /* [most + 1] truncation error of each half-support */
} search;

/* Compute the truncation error of each half-support for a profile, at the worst place and fraction. Set s->worst to the
 * larger of this error and the old value. */
static void judge_profile(const msi_wkernel_spec *spec, const axis *a, double across, double w, search *s)
{
    int64_t n = (int64_t)(s->most + 1) * QUARTERS;
    memset(s->kernel, 0, sizeof *s->kernel * (size_t)n);
    for (int i = 0; i < a->n_node; i++)
        add_node(a, i, turned(a->weight[i], w * profile(spec, a, across, a->x[i] * a->field_rad)), n, s->kernel);
    for (int place = 0; place < N_PLACE; place++) {
        double x = fmin(a->edge, band_of(a->pswf)) * place / (N_PLACE - 1), l = x * a->field_rad;
        if (across >= 0 && l * l + across * across >= 1) continue;
        double taper = taper_at(a->pswf, x);
        msi_c64 exact = turned(taper, w * profile(spec, a, across, l));
        for (int f = -QUARTERS / 2; f <= QUARTERS / 2; f++) {
            /* Taps -h .. h, each t - f/4 cells from the sample, transformed to x. */
            double re = 0, im = 0;
            for (int32_t h = 0; h <= s->most; h++) {
                for (int side = h ? -1 : 1; side <= 1; side += 2) {
                    int32_t quarter = side * h * QUARTERS - f;
                    msi_c64 k = s->kernel[quarter < 0 ? -quarter : quarter], e = turned(1, x * quarter / QUARTERS);
                    re += k.re * e.re - k.im * e.im;
                    im += k.re * e.im + k.im * e.re;
                }
                s->worst[h] = fmax(s->worst[h], hypot(re - exact.re, im - exact.im) / taper);
            }
        }
    }
}

/* Compute the truncation error of each half-support along one axis, for plane w. */
static void judge_axis(const msi_wkernel_spec *spec, const axis *a, double w, search *s)
{
    memset(s->worst, 0, sizeof *s->worst * (size_t)(s->most + 1));
    if (spec->form == MSI_WKERNEL_SEPARABLE) {
        judge_profile(spec, a, SEPARABLE, w, s);
        return;
    }
    for (int i = 0; i <= 2; i++) judge_profile(spec, a, 0.5 * i * a->half_m, w, s);
}

/* Return the smallest half-support from which on all errors are within the limit; most + 1 if there is none. */
static int32_t least_support(const search *s, double allowed)
{
    int32_t h = s->most + 1;
    while (h > 0 && s->worst[h - 1] <= allowed) h--;
    return h;
}

typedef struct supports {
    const msi_wkernel_spec *spec;
    axis axes[2];
    int n_axis;
    search search;
    int32_t *half;
    double error;
} supports;

/* Find a plane's half-support, and update s->error, the largest error of all planes. */
static int32_t support_of_plane(supports *s, int32_t plane)
{
    int32_t h = 1;
    double left = 0;
    for (int i = 0; i < s->n_axis; i++) {
        judge_axis(s->spec, &s->axes[i], s->spec->w_lambda[plane], &s->search);
        int32_t least = least_support(&s->search, 0.5 * s->spec->truncation);
        if (least > h) h = least;
        if (h <= s->search.most) left += s->search.worst[h];
    }
    s->error = fmax(s->error, s->n_axis == 1 ? 2 * left : left);
    return h;
}

/* Supports grow with w. If both ends of a range have the same support, all planes between have it too. */
static void fill_range(supports *s, int32_t low, int32_t high)
{
    if (high - low < 2) return;
    int32_t middle = low + (high - low) / 2;
    if (s->half[low] == s->half[high]) {
        for (int32_t p = low + 1; p < high; p++) s->half[p] = s->half[low];
        return;
    }
    int32_t h = support_of_plane(s, middle);
    s->half[middle] = h < s->half[low] ? s->half[low] : h > s->half[high] ? s->half[high] : h;
    fill_range(s, low, middle);
    fill_range(s, middle, high);
}

static int search_supports(supports *s, int32_t most)
{
    const msi_wkernel_spec *spec = s->spec;
    double w_max = spec->w_lambda[spec->n_plane - 1];
    s->search = (search){.most = most};
    describe_axes(spec, &s->axes[0], &s->axes[1]);
    s->n_axis = alike(spec) ? 1 : 2;
    int rc = msi_alloc(&s->search.kernel, (int64_t)(most + 1) * QUARTERS, sizeof *s->search.kernel, "kernel supports");
    if (!rc) rc = msi_alloc(&s->search.worst, most + 1, sizeof *s->search.worst, "kernel supports");
    for (int i = 0; i < s->n_axis && !rc; i++) {
        const double t_max = most + 1 - 1.0 / QUARTERS;
        rc = lay_nodes(&s->axes[i], w_max, t_max);
        if (!rc) rc = tabulate_cosines(&s->axes[i], t_max, QUARTERS);
    }
    if (!rc) {
        s->error = 0;
        s->half[spec->n_plane - 1] = support_of_plane(s, spec->n_plane - 1);
        if (s->half[spec->n_plane - 1] <= most) {
            int32_t first = support_of_plane(s, 0), last = s->half[spec->n_plane - 1];
            s->half[0] = first < last ? first : last;
            fill_range(s, 0, spec->n_plane - 1);
        }
    }
    for (int i = 0; i < s->n_axis; i++) free_axis(&s->axes[i]);
    msi_free(s->search.kernel);
    msi_free(s->search.worst);
    return rc;
}

int msi_wkernel_supports(const msi_wkernel_spec *spec, int32_t *half, double *error)
{
    enum { BEYOND = 12 };
    int32_t limit = spec->half_limit ? spec->half_limit : MSI_WKERNEL_MAX_HALF;
    supports s = {.spec = spec, .half = half};
    /* The first guess is the width of the taper's window plus the growth by the screen, whose phase turns fastest at
     * the image's corner. It is doubled until several larger supports are within the limit too. */
    double w_max = spec->w_lambda[spec->n_plane - 1];
    double rate = fmax(spec->field_u_rad * spec->image_u_rad, spec->field_v_rad * spec->image_v_rad);
    double r2 = 0.25 * (spec->image_u_rad * spec->image_u_rad + spec->image_v_rad * spec->image_v_rad);
    double turning = w_max * 0.5 * rate / sqrt(fmax(1 - r2, 0.1));
    int32_t most = (int32_t)fmin(limit, spec->pswf_u->width + turning + BEYOND);
    for (;; most = 2 * most < limit ? 2 * most : limit) {
        MSI_TRY(search_supports(&s, most));
        int32_t found = half[spec->n_plane - 1];
        if (found <= most && (found + BEYOND / 2 <= most || most == limit)) break;
        if (most == limit)
            return msi_error_about(
                msi_error_set(MSI_ERANGE,
                              "a w-projection kernel for w = %.4g wavelengths in this field needs more than %d cells "
                              "to each side",
                              w_max, limit),
                "n_slice");
    }
    if (error) *error = s.error;
    return MSI_OK;
}

/* ---- Tables ---- */

int msi_wkernel_nodes_make(msi_wkernel_nodes *n, const msi_wkernel_spec *spec, int32_t half_max)
{
    double w_max = spec->w_lambda[spec->n_plane - 1], t_max = half_max + 0.5;
    axis *u = &n->u, *v = &n->v;
    *n = (msi_wkernel_nodes){0};
    describe_axes(spec, u, v);
    int rc = lay_nodes(u, w_max, t_max);
    if (!rc) rc = lay_nodes(v, w_max, t_max);
    if (!rc && spec->form == MSI_WKERNEL_FULL) {
        rc = msi_alloc(&n->screen, (int64_t)u->n_node * v->n_node, sizeof *n->screen, "kernel nodes");
        for (int i = 0; !rc && i < u->n_node; i++)
            for (int j = 0; j < v->n_node; j++)
                n->screen[(int64_t)i * v->n_node + j] =
                    screen(u->x[i] * u->field_rad, v->x[j] * v->field_rad, u->half_l, v->half_l);
    } else if (!rc) {
        rc = msi_alloc(&n->part_u, u->n_node, sizeof *n->part_u, "kernel nodes");
        if (!rc) rc = msi_alloc(&n->part_v, v->n_node, sizeof *n->part_v, "kernel nodes");
        for (int i = 0; !rc && i < u->n_node; i++) n->part_u[i] = separable_screen(spec, u, u->x[i] * u->field_rad);
        for (int j = 0; !rc && j < v->n_node; j++) n->part_v[j] = separable_screen(spec, v, v->x[j] * v->field_rad);
    }
    if (rc) msi_wkernel_nodes_free(n);
    return rc;
}

void msi_wkernel_nodes_free(msi_wkernel_nodes *n)
{
    free_axis(&n->u);
    free_axis(&n->v);
    msi_free(n->part_u);
    msi_free(n->part_v);
    msi_free(n->screen);
    *n = (msi_wkernel_nodes){0};
}

/* Data that the tables of all planes share while they are made. */
typedef struct maker {
    const msi_wkernel_spec *spec;
    msi_wkernel_set *set;
    msi_wkernel_nodes nodes;
    int n_thread;
    msi_c64 **scratch; /* [n_thread] */
} maker;

static void put_value(const msi_wkernel_set *set, int64_t at, msi_c64 value)
{
    if (set->precision == MSI_FP32)
        ((msi_c32 *)set->table)[at] = (msi_c32){(float)value.re, (float)value.im};
    else
        ((msi_c64 *)set->table)[at] = value;
}

static void make_separable_axis(const maker *m, int along_v, int32_t plane, msi_c64 *kernel)
{
    msi_wkernel_set *set = m->set;
    const axis *a = along_v ? &m->nodes.v : &m->nodes.u;
    const double *part = along_v ? m->nodes.part_v : m->nodes.part_u;
    int64_t offset = (along_v ? set->offset_v : set->offset_u)[plane];
    int32_t half = set->half[plane], os = set->oversample;
    int64_t n = msi_wkernel_distances(half, os);
    memset(kernel, 0, sizeof *kernel * (size_t)n);
    for (int i = 0; i < a->n_node; i++) add_node(a, i, turned(a->weight[i], set->w_lambda[plane] * part[i]), n, kernel);
    for (int32_t sub = -os / 2; sub <= os / 2; sub++) {
        int64_t row = msi_wkernel_row(offset, half, os, sub) + half;
        for (int32_t t = -half; t <= half; t++) put_value(set, row + t, kernel[msi_wkernel_distance(t, sub, os)]);
    }
}

static void make_full(const maker *m, int32_t plane, msi_c64 *scratch)
{
    msi_wkernel_set *set = m->set;
    const axis *u = &m->nodes.u, *v = &m->nodes.v;
    int32_t half = set->half[plane], os = set->oversample, taps = msi_wkernel_taps(half);
    int64_t n = msi_wkernel_distances(half, os);
    msi_c64 *kernel = scratch, *row = scratch + n * n;
    memset(kernel, 0, sizeof *kernel * (size_t)(n * n));
    for (int i = 0; i < u->n_node; i++) {
        memset(row, 0, sizeof *row * (size_t)n);
        const double *n_1 = m->nodes.screen + (int64_t)i * v->n_node;
        for (int j = 0; j < v->n_node; j++)
            add_node(v, j, turned(u->weight[i] * v->weight[j], set->w_lambda[plane] * n_1[j]), n, row);
        const double *cosine = u->cosine + i * u->n_distance;
        for (int64_t qu = 0; qu < n; qu++)
            for (int64_t qv = 0; qv < n; qv++) {
                kernel[qu * n + qv].re += cosine[qu] * row[qv].re;
                kernel[qu * n + qv].im += cosine[qu] * row[qv].im;
            }
    }
    for (int32_t su = -os / 2; su <= os / 2; su++)
        for (int32_t sv = -os / 2; sv <= os / 2; sv++) {
            int64_t at = msi_wkernel_square(set->offset_u[plane], half, os, su, sv);
            for (int32_t tv = -half; tv <= half; tv++)
                for (int32_t tu = -half; tu <= half; tu++)
                    put_value(set, at + (int64_t)(tv + half) * taps + tu + half,
                              kernel[msi_wkernel_distance(tu, su, os) * n + msi_wkernel_distance(tv, sv, os)]);
        }
}

static int prepare(maker *m)
{
    const msi_wkernel_spec *spec = m->spec;
    int64_t n = msi_wkernel_distances(m->set->half_max, spec->oversample);
    int64_t scratch = spec->form == MSI_WKERNEL_FULL ? n * n + n : n;
    MSI_TRY(msi_wkernel_nodes_make(&m->nodes, spec, m->set->half_max));
    MSI_TRY(tabulate_cosines(&m->nodes.u, m->set->half_max + 0.5, spec->oversample));
    MSI_TRY(tabulate_cosines(&m->nodes.v, m->set->half_max + 0.5, spec->oversample));
    m->n_thread = omp_get_max_threads();
    MSI_TRY(msi_alloc(&m->scratch, m->n_thread, sizeof *m->scratch, "kernel"));
    for (int i = 0; i < m->n_thread; i++) MSI_TRY(msi_alloc(&m->scratch[i], scratch, sizeof **m->scratch, "kernel"));
    return MSI_OK;
}

/* Allocate the set's arrays, without a table, from given or computed supports. */
static int lay_out(msi_wkernel_set *set, const msi_wkernel_spec *spec)
{
    int32_t *half = NULL;
    int rc = MSI_OK;
    memset(set, 0, sizeof *set);
    if (spec->n_plane < 1 || spec->oversample < 2 || spec->oversample % 2)
        return msi_error_set(MSI_EINTERNAL, "kernels: %d planes, oversampled %d times", spec->n_plane,
                             spec->oversample);
    if (!spec->half) {
        rc = msi_alloc(&half, spec->n_plane, sizeof *half, "kernel supports");
        if (!rc) rc = msi_wkernel_supports(spec, half, NULL);
    }
    if (!rc) rc = msi_wkernel_layout(set, spec, spec->half ? spec->half : half);
    msi_free(half);
    return rc;
}

int msi_wkernel_layout(msi_wkernel_set *set, const msi_wkernel_spec *spec, const int32_t *half)
{
    *set = (msi_wkernel_set){
        .form = spec->form, .precision = spec->precision, .n_plane = spec->n_plane, .oversample = spec->oversample};
    int rc = msi_alloc(&set->half, spec->n_plane, sizeof *set->half, "kernel tables");
    if (!rc) rc = msi_alloc(&set->offset_u, spec->n_plane, sizeof *set->offset_u, "kernel tables");
    if (!rc) rc = msi_alloc(&set->offset_v, spec->n_plane, sizeof *set->offset_v, "kernel tables");
    if (!rc) rc = msi_alloc(&set->w_lambda, spec->n_plane, sizeof *set->w_lambda, "kernel tables");
    if (rc) {
        msi_wkernel_free(set);
        return rc;
    }
    int full = spec->form == MSI_WKERNEL_FULL, two = !full && !alike(spec);
    for (int32_t p = 0; p < spec->n_plane; p++) {
        int64_t n = msi_wkernel_elements(full, spec->oversample, half[p]);
        set->half[p] = half[p];
        if (half[p] > set->half_max) set->half_max = half[p];
        set->w_lambda[p] = spec->w_lambda[p];
        set->offset_u[p] = set->n_element;
        set->offset_v[p] = set->n_element + (two ? n : 0);
        set->n_element += two ? 2 * n : n;
    }
    return MSI_OK;
}

int msi_wkernel_make(msi_wkernel_set *set, const msi_wkernel_spec *spec)
{
    MSI_TRY(lay_out(set, spec));
    maker m = {.spec = spec, .set = set};
    int rc = msi_alloc(&set->table, set->n_element + MSI_WKERNEL_PADDING, (size_t)msi_complex_bytes(set->precision),
                       "kernel tables");
    if (!rc) rc = prepare(&m);
    if (!rc) {
#pragma omp parallel for schedule(dynamic, 1)
        for (int32_t p = spec->n_plane - 1; p >= 0; p--) {
            msi_c64 *scratch = m.scratch[omp_get_thread_num()];
            if (!omp_get_thread_num()) msi_progress_at(spec->n_plane - 1 - p, spec->n_plane);
            if (spec->form == MSI_WKERNEL_FULL) {
                make_full(&m, p, scratch);
                continue;
            }
            make_separable_axis(&m, 0, p, scratch);
            if (set->offset_v[p] != set->offset_u[p]) make_separable_axis(&m, 1, p, scratch);
        }
    }
    msi_wkernel_nodes_free(&m.nodes);
    for (int i = 0; m.scratch && i < m.n_thread; i++) msi_free(m.scratch[i]);
    msi_free(m.scratch);
    if (rc) msi_wkernel_free(set);
    return rc;
}

void msi_wkernel_free(msi_wkernel_set *set)
{
    msi_free(set->half);
    msi_free(set->offset_u);
    msi_free(set->offset_v);
    msi_free(set->w_lambda);
    msi_free(set->table);
    memset(set, 0, sizeof *set);
}

double msi_wkernel_separable_error(const msi_wkernel_spec *spec)
{
    enum { N = 16 };
    axis u, v;
    describe_axes(spec, &u, &v);
    double worst = 0;
    for (int i = 0; i <= N; i++)
        for (int j = 0; j <= N; j++) {
            double l = u.half_l * i / N, m = v.half_l * j / N;
            if (l * l + m * m >= 1) continue;
            double sum = separable_screen(spec, &u, l) + separable_screen(spec, &v, m);
            worst = fmax(worst, fabs(msi_n_minus_1(l, m) - sum));
        }
    return worst;
}

double msi_wkernel_taper(const msi_pswf *pswf, int32_t oversample, int linear, double x)
{
    double half_turn = MSI_PI * x / oversample, sinc = half_turn != 0 ? sin(half_turn) / half_turn : 1;
    return taper_at(pswf, x) * (linear ? sinc * sinc : sinc);
}
