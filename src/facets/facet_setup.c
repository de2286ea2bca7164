/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/facets/facet_setup.h"

#include <complex.h>
#include <math.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/ordered_parallel.h"
#include "core/process.h"
#include "core/status.h"

/* ---- The grid of a-terms ---- */

enum { MOST_SETS = 4, TIMES = 3, MOST_PAIRS = 64, LEAST_TRIALS = 6 };

/* A set, time and frequency at which the gains of a grid are compared with exact ones, for pairs of antennas. */
typedef struct trial {
    int64_t slot, n_antenna;
    double freq_hz;
} trial;

typedef struct trials {
    int n;
    trial trial[MOST_SETS * TIMES * 2];
} trials;

static int list_trials(const msi_facet_subject *s, msi_facet_gains *g, trials *out)
{
    const msi_observation *o = msi_ms_reader_observation(s->reader);
    int set_seen = -1;
    out->n = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(s->reader) && set_seen < MOST_SETS - 1; i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(s->reader, i);
        if (spw->set <= set_seen) continue;
        set_seen = spw->set;
        for (int k = 0; k < 2 * TIMES && out->n < MOST_SETS * TIMES * 2; k++) {
            trial *t = &out->trial[out->n++];
            const double part = (double)(k / 2) / (TIMES - 1),
                         time_s = o->start_mjd_s + part * (o->end_mjd_s - o->start_mjd_s);
            MSI_TRY(msi_facet_gains_slot(g, spw->set, time_s, &t->slot));
            t->freq_hz = k % 2 ? spw->freq_hz[spw->n_chan - 1] : spw->freq_hz[0];
            t->n_antenna = msi_facet_gains_n_antenna(g, t->slot);
        }
    }
    return MSI_OK;
}

/* Gains of directions at a trial. */
typedef struct trial_gains {
    msi_c64 *jones;     /* [directions][antennas][form] */
    double (*slope)[2]; /* [directions][antennas] */
} trial_gains;

static void free_trial(trial_gains *t)
{
    msi_free(t->jones);
    msi_free(t->slope);
}

static int make_trial(const msi_facet_gains *g, int64_t n, const trial *t, trial_gains *out)
{
    const int form = (int)msi_facet_gains_form(g);
    *out = (trial_gains){0};
    int rc = msi_alloc(&out->jones, n * t->n_antenna * form, sizeof *out->jones, "gains of a-terms");
    if (!rc) rc = msi_alloc(&out->slope, n * t->n_antenna, sizeof *out->slope, "gains of a-terms");
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n; i++)
        if (!rc)
            msi_facet_gains_make(g, (int)i, t->slot, 0, 1, &t->freq_hz, out->jones + i * t->n_antenna * form,
                                 out->slope + i * t->n_antenna);
    if (rc) free_trial(out);
    return rc;
}

/* Return an element of J_p times the conjugate of an element of J_q. */
static double complex product(const msi_c64 *jones, int form, int64_t p, int64_t q, int e)
{
    const msi_c64 a = jones[p * form + e], b = jones[q * form + (form > 1 ? e : 0)];
    return (a.re + a.im * I) * (b.re - b.im * I);
}

/* A trial grid: its nodes, and positions between them. */
typedef struct trial_grid {
    const msi_facet_target *target;
    int64_t n[2], m[2];
    msi_facets node, between;
} trial_grid;

static double part_between(int64_t i, int64_t m)
{
    return ((double)i + 0.5) / (double)m;
}

/* Return the distance in l or m between a position and a node. */
static double distance(const trial_grid *t, int axis, double part, int64_t node)
{
    const msi_image_geometry *g = &t->target->geometry;
    const double at = t->n[axis] > 1 ? (double)node / (double)(t->n[axis] - 1) : 0.5;
    return axis ? (part - at) * (double)(g->ny - 1) * g->cell_y_rad : (at - part) * (double)(g->nx - 1) * g->cell_x_rad;
}

/* Add the squared errors of a pair of antennas at a position. Given and returned: sum  [0] squared errors, [1] squares
 * of the exact values */
static void add_errors(const trial_grid *t, const trial_gains *node, const trial_gains *exact, int form,
                       int64_t n_antenna, int64_t p, int64_t q, int64_t at, double sum[2])
{
    double wx[MSI_STENCIL], wy[MSI_STENCIL];
    int nx, ny;
    const double part[2] = {part_between(at % t->m[0], t->m[0]), part_between(at / t->m[0], t->m[1])};
    const int64_t x0 = msi_facets_stencil(part[0], t->n[0], &nx, wx),
                  y0 = msi_facets_stencil(part[1], t->n[1], &ny, wy);
    for (int e = 0; e < form; e++) {
        double complex v = 0;
        for (int j = 0; j < ny; j++)
            for (int i = 0; i < nx; i++) {
                const int64_t k = ((y0 + j) * t->n[0] + x0 + i) * n_antenna;
                const double *sp = node->slope[k + p], *sq = node->slope[k + q];
                const double phase = (sp[0] - sq[0]) * distance(t, 0, part[0], x0 + i) +
                                     (sp[1] - sq[1]) * distance(t, 1, part[1], y0 + j);
                v += wx[i] * wy[j] * cexp(I * phase) * product(node->jones + k * form, form, p, q, e);
            }
        const double complex want = product(exact->jones + at * n_antenna * form, form, p, q, e);
        sum[0] += creal((v - want) * conj(v - want));
        sum[1] += creal(want * conj(want));
    }
}

/* Compare a grid with the gains between its nodes. Given and returned: squared [positions][2]  as add_errors */
static int compare_at_trial(const trial_grid *t, msi_facet_gains *g, const trial *one, const msi_facet_subject *s,
                            double (*squared)[2])
{
    const int64_t n = t->node.n, m = t->between.n, n_antenna = one->n_antenna, all = n_antenna * (n_antenna - 1) / 2;
    const int form = (int)msi_facet_gains_form(g);
    trial_gains node, exact;
    MSI_TRY(msi_facet_gains_assign(g, &t->between, s->reader, s->pb));
    MSI_TRY(make_trial(g, m, one, &exact));
    int rc = msi_facet_gains_assign(g, &t->node, s->reader, s->pb);
    if (!rc) rc = make_trial(g, n, one, &node);
    if (rc) {
        free_trial(&exact);
        return rc;
    }
    /* Use all pairs if there are few; otherwise pairs at equal steps of the list. */
    const int64_t n_pair = all < MOST_PAIRS ? all : MOST_PAIRS;
#pragma omp parallel for schedule(dynamic, 8)
    for (int64_t at = 0; at < m; at++)
        for (int64_t k = 0; k < n_pair; k++) {
            int64_t pair = k * all / n_pair, p = 0;
            while (pair >= n_antenna - 1 - p) pair -= n_antenna - 1 - p++;
            add_errors(t, &node, &exact, form, n_antenna, p, p + 1 + pair, at, squared[at]);
        }
    free_trial(&node);
    free_trial(&exact);
    return MSI_OK;
}

/* Find the relative error of a grid: the rms error over pairs, times and frequencies at the worst position, divided by
 * the rms of the gains. */
static int find_error(msi_facet_gains *g, const trials *all, const msi_facet_subject *s, const int64_t n[2],
                      double *error)
{
    trial_grid t = {.target = &s->target};
    double(*squared)[2] = NULL, worst = 0, total = 0;
    for (int k = 0; k < 2; k++) {
        t.n[k] = n[k];
        t.m[k] = n[k] - 1 > LEAST_TRIALS ? n[k] - 1 : LEAST_TRIALS;
    }
    int rc = msi_facets_grid(&t.node, n[0], n[1], 1, &s->target);
    if (!rc) rc = msi_facets_grid(&t.between, t.m[0], t.m[1], 1, &s->target);
    for (int i = 0; !rc && i < t.between.n; i++) {
        const double at[2] = {part_between(i % t.m[0], t.m[0]) * (double)(s->target.geometry.nx - 1),
                              part_between(i / t.m[0], t.m[1]) * (double)(s->target.geometry.ny - 1)};
        msi_facets_place(&s->target, at, &t.between.facet[i]);
    }
    if (!rc) rc = msi_alloc(&squared, t.between.n, sizeof *squared, "gains of a-terms");
    for (int i = 0; !rc && i < all->n; i++) {
        rc = compare_at_trial(&t, g, &all->trial[i], s, squared);
        if (!rc) rc = msi_interrupt_check();
    }
    for (int i = 0; !rc && i < t.between.n; i++) {
        worst = fmax(worst, squared[i][0]);
        total += squared[i][1] / t.between.n;
    }
    *error = total > 0 ? sqrt(worst / total) : 0;
    msi_free(squared);
    msi_facets_free(&t.node);
    msi_facets_free(&t.between);
    return rc;
}

/* Choose the grid of a-terms. Returned: n  columns and rows; *error  relative error of this grid */
static int choose_grid(msi_facet_gains *g, const msi_facet_subject *s, int64_t n[2], double *error)
{
    static const int64_t candidate[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 22, 24, 28, 32, 40, 48};
    const int64_t edge[2] = {s->target.geometry.nx, s->target.geometry.ny}, longer = edge[1] > edge[0];
    msi_facets one;
    trials all;
    MSI_TRY(msi_facets_grid(&one, 1, 1, 1, &s->target));
    int rc = msi_facet_gains_assign(g, &one, s->reader, s->pb);
    if (!rc) rc = list_trials(s, g, &all);
    msi_facets_free(&one);
    if (rc) return rc;
    for (size_t i = 0; i < sizeof candidate / sizeof *candidate; i++) {
        n[longer] = candidate[i];
        n[!longer] = candidate[i] > MSI_STENCIL
                         ? (int64_t)ceil((double)(candidate[i] - 1) * (double)edge[!longer] / (double)edge[longer]) + 1
                         : candidate[i];
        if (candidate[i] > MSI_STENCIL && n[!longer] < MSI_STENCIL) n[!longer] = MSI_STENCIL;
        MSI_TRY(find_error(g, &all, s, n, error));
        msi_log_detail("a-terms: %lld x %lld facets leave an error of %.2g", (long long)n[0], (long long)n[1], *error);
        if (*error <= 0.5 * s->accuracy) break;
    }
    return MSI_OK;
}

/* ---- Facets ---- */

static int make_aterm_facets(const msi_facet_subject *s, msi_facet_gains *g, msi_facets *facets)
{
    int64_t n[2];
    double error;
    MSI_TRY(msi_facet_gains_check(g, s->reader));
    MSI_TRY(choose_grid(g, s, n, &error));
    if (!s->is_quiet)
        msi_log_info("a-terms: %lld x %lld facets leave an error of %.2g", (long long)n[0], (long long)n[1], error);
    if (!s->is_quiet && error > s->accuracy)
        msi_log_warning(
            "a-terms: their gains change so much between pixels that %lld x %lld facets leave an error of %.2g; "
            "-accuracy is %.2g",
            (long long)n[0], (long long)n[1], error, s->accuracy);
    return msi_facets_grid(facets, n[0], n[1], 0, &s->target);
}

static void report(const msi_facets *f, const msi_facet_gains *g)
{
    int64_t largest = 0;
    for (int i = 0; i < f->n; i++) {
        const int64_t n = f->facet[i].nx * f->facet[i].ny;
        largest = n > largest ? n : largest;
    }
    const msi_gain_form form = g ? msi_facet_gains_form(g) : MSI_GAIN_SCALAR;
    msi_log_info("facets: %d, the largest of %.3g million pixels, edges blended over %lld pixels%s", f->n,
                 1e-6 * (double)largest, (long long)(2 * f->feather),
                 !g                          ? ", no gains"
                 : form == MSI_GAIN_SCALAR   ? ", scalar gains"
                 : form == MSI_GAIN_DIAGONAL ? ", diagonal gains"
                                             : ", gains of full matrices");
}

/* Return 1 if a set has cross-hands, or Stokes parameters. */
static int has_cross_hands(const msi_ms_reader *reader)
{
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *s = msi_ms_reader_spw(reader, i);
        for (int c = 0; c < s->n_corr; c++)
            if (msi_is_cross_hand(s->corr[c]) || s->corr[c] <= MSI_POL_V) return 1;
    }
    return 0;
}

int msi_facet_setup_make(const msi_facet_options *o, const msi_facet_subject *subject, msi_facet_gains *gains,
                         msi_facets *facets, msi_facet_work *work)
{
    const msi_gain_form most = o->scalar ? MSI_GAIN_SCALAR : o->diagonal ? MSI_GAIN_DIAGONAL : MSI_GAIN_FULL;
    msi_facet_subject s = *subject;
    int is_circular = 0;
    s.target.feather_pixel = o->feather_pixel;
    MSI_TRY(o->aterms    ? make_aterm_facets(&s, gains, facets)
            : o->regions ? msi_facets_read(facets, o->regions, &s.target)
                         : msi_facets_auto(facets, o->automatic, &s.target));
    if (gains) MSI_TRY(msi_facet_gains_assign(gains, facets, s.reader, s.pb));
    if (gains && msi_facet_gains_form(gains) != MSI_GAIN_SCALAR) MSI_TRY(msi_facet_feeds(s.reader, &is_circular));
    *work = (msi_facet_work){.facets = facets, .gains = gains};
    MSI_TRY(msi_facet_planes_choose(&work->planes, s.planes, s.n_plane, gains, is_circular, most));
    if (gains && most == MSI_GAIN_FULL && msi_facet_gains_form(gains) == MSI_GAIN_FULL && !has_cross_hands(s.reader))
        return msi_error_set(MSI_EINPUT, "gains of facets that are full matrices, as those of most beams, need the "
                                         "cross-hands, which the sets do not have; give -diagonal-visibilities");
    if (!s.is_quiet) report(facets, gains);
    return MSI_OK;
}
