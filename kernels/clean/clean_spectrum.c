/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Channels may be means of parts. A spectrum through the values at channels' middles would differ from its mean over a
 * channel because of its curvature. Therefore fits are made to means, and evaluated in each part; their mean over the
 * parts of a channel is the channel's value.
 */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/clean/clean_log_fit.h"
#include "kernels/clean/clean_state.h"
#include "kernels/clean/cleaner_spec.h"

/* Channels whose values are means of a spectrum over parts of them. */
typedef struct bands {
    int n_channel, n_part;
    const double *weight;  /* [n_channel] */
    const int *channel;    /* [n_part] */
    const double *share;   /* [n_part]; they sum to 1 in each channel */
    const double *freq_hz; /* [n_part] */
    double mean_hz;
} bands;

enum { N = MSI_CLEAN_CHANNELS, K = MSI_CLEAN_MAX_TERM };

static int too_few(int n_term)
{
    return msi_error_about(
        msi_error_set(MSI_EARGUMENT, "a spectrum of %d coefficients needs as many frequencies with weight", n_term),
        "n_term");
}

/* Find the largest |x| of parts whose channel has weight; powers of x / widest are of similar size. */
static double find_widest(const bands *b)
{
    double widest = 0;
    for (int i = 0; i < b->n_part; i++)
        if (b->weight[b->channel[i]] > 0) widest = fmax(widest, fabs(b->freq_hz[i] / b->mean_hz - 1));
    return widest > 0 ? widest : 1;
}

/* Compute x^k, x in units of the widest, and its means over channels. */
static void make_powers(const bands *b, double widest, int k, double *part, double channel[N])
{
    for (int c = 0; c < b->n_channel; c++) channel[c] = 0;
    for (int i = 0; i < b->n_part; i++) {
        part[i] = pow((b->freq_hz[i] / b->mean_hz - 1) / widest, k);
        channel[b->channel[i]] += b->share[i] * part[i];
    }
}

/* Compute the pseudoinverse of X for weighted least squares: term = R^-1 Q^T W with X = Q R and Q orthonormal under the
 * weights. Gram-Schmidt is applied twice to avoid the rounding errors of powers. */
static int invert_least_squares(const bands *b, int n_term, double x[K][N], double *term)
{
    double q[K][N], r[K][K] = {{0}}, all = 0;
    const int n = b->n_channel;
    for (int c = 0; c < n; c++) all += b->weight[c];
    for (int k = 0; k < n_term; k++) {
        double before = 0, norm = 0;
        for (int c = 0; c < n; c++) {
            q[k][c] = x[k][c];
            before += b->weight[c] * q[k][c] * q[k][c];
        }
        for (int twice = 0; twice < 2; twice++)
            for (int i = 0; i < k; i++) {
                double along = 0;
                for (int c = 0; c < n; c++) along += b->weight[c] * q[i][c] * q[k][c];
                for (int c = 0; c < n; c++) q[k][c] -= along * q[i][c];
                r[i][k] += along;
            }
        for (int c = 0; c < n; c++) norm += b->weight[c] * q[k][c] * q[k][c];
        if (!(all > 0) || !(norm > 1e-20 * before)) return too_few(n_term);
        r[k][k] = sqrt(norm);
        for (int c = 0; c < n; c++) q[k][c] /= r[k][k];
    }
    for (int c = 0; c < n; c++)
        for (int k = n_term - 1; k >= 0; k--) {
            double sum = q[k][c] * b->weight[c];
            for (int i = k + 1; i < n_term; i++) sum -= r[k][i] * term[i * n + c];
            term[k * n + c] = sum / r[k][k];
        }
    return MSI_OK;
}

/*
 * Make the matrices of the least-squares polynomial of n_term coefficients in x = freq / mean - 1, whose means over
 * channels fit values y with the channels' weights.
 * Given:    b  channels of weight 0 are evaluated, not fitted
 * Returned: term   [n_term][n_channel]     term y are its coefficients
 *           fit    [n_channel][n_channel]  fit y are its means over channels; F = X (X^T W X)^-1 X^T W
 *           expand [n_part][n_channel]     expand y are its values in the parts
 * Returns:  0, MSI_EARGUMENT (fewer different frequencies with weight than coefficients), MSI_ENOMEM
 */
static int make_polynomial(const bands *b, int n_term, double *term, double *fit, double *expand)
{
    double x[K][N], *part;
    const int n = b->n_channel;
    const double widest = find_widest(b);
    MSI_TRY(msi_alloc(&part, (int64_t)n_term * b->n_part, sizeof *part, "a spectral fit"));
    for (int k = 0; k < n_term; k++) make_powers(b, widest, k, part + k * b->n_part, x[k]);
    const int rc = invert_least_squares(b, n_term, x, term);
    for (int i = 0; i < n && !rc; i++) {
        for (int c = 0; c < n; c++) {
            fit[c * n + i] = 0;
            for (int k = 0; k < n_term; k++) fit[c * n + i] += x[k][c] * term[k * n + i];
        }
        for (int p = 0; p < b->n_part; p++) {
            expand[p * n + i] = 0;
            for (int k = 0; k < n_term; k++) expand[p * n + i] += part[k * b->n_part + p] * term[k * n + i];
        }
        for (int k = 0; k < n_term; k++) term[k * n + i] /= pow(widest, k);
    }
    msi_free(part);
    return rc;
}

int msi_clean_forced(int n, const double *weight, const double *spectrum, double *fit)
{
    double mean = 0;
    for (int c = 0; c < n; c++) mean += weight[c] * spectrum[c];
    if (mean == 0 || !isfinite(mean))
        return msi_error_about(
            msi_error_set(MSI_EARGUMENT, "the forced spectrum's weighted mean must be finite and not 0, got %g", mean),
            "spectrum");
    for (int c = 0; c < n; c++)
        for (int i = 0; i < n; i++) fit[c * n + i] = spectrum[c] * weight[i] / mean;
    return MSI_OK;
}

/* ---- Parts of channels ------------------------------------------------------------------------------------------ */

static int wrong_member(const char *member, const char *why, double value)
{
    return msi_error_about(msi_error_set(MSI_EARGUMENT, "the cleaner's %s must be %s, got %g", member, why, value),
                           member);
}

static int alloc_parts(msi_clean_parts *p, int n_channel)
{
    const int64_t most = p->n > n_channel ? p->n : n_channel;
    MSI_TRY(msi_alloc(&p->channel, p->n, sizeof *p->channel, "channels"));
    MSI_TRY(msi_alloc(&p->weight, p->n, sizeof(double), "channels"));
    MSI_TRY(msi_alloc(&p->freq_hz, p->n, sizeof(double), "channels"));
    MSI_TRY(msi_alloc(&p->share, p->n, sizeof(double), "channels"));
    MSI_TRY(msi_alloc(&p->term, (int64_t)MSI_CLEAN_MAX_TERM * n_channel, sizeof(double), "channels"));
    return msi_alloc(&p->expand, most * n_channel, sizeof(double), "channels");
}

static int check_parts(const msi_cleaner_spec *s)
{
    if (!s->n_part) return MSI_OK;
    if (s->n_part < s->n_channel || s->n_part > MSI_CLEAN_MAX_PART)
        return wrong_member("n_part", "n_channel to 4096", s->n_part);
    if (s->weight) return wrong_member("weight", "NULL if there are parts", s->weight[0]);
    return s->freq_hz ? wrong_member("freq_hz", "NULL if there are parts", s->freq_hz[0]) : MSI_OK;
}

int msi_clean_parts_make(msi_cleaner *c)
{
    const msi_cleaner_spec *s = &c->spec;
    msi_clean_parts *p = &c->parts;
    const int fitted = s->fit == MSI_CLEAN_FIT_POLYNOMIAL || s->fit == MSI_CLEAN_FIT_LOG;
    const double *weight = s->n_part ? s->part_weight : s->weight, *freq = s->n_part ? s->part_freq_hz : s->freq_hz;
    double sum[MSI_CLEAN_CHANNELS] = {0}, count[MSI_CLEAN_CHANNELS] = {0}, all = 0;
    MSI_TRY(check_parts(s));
    if (fitted && !freq) return wrong_member("freq_hz", "given for a fit", 0);
    p->n = s->n_part ? s->n_part : s->n_channel;
    p->n_term = fitted ? s->n_term : 1;
    MSI_TRY(alloc_parts(p, s->n_channel));
    for (int i = 0; i < p->n; i++) {
        p->channel[i] = (int)((int64_t)i * s->n_channel / p->n);
        p->weight[i] = weight ? weight[i] : 1;
        p->freq_hz[i] = freq ? freq[i] : 0;
        if (!(p->weight[i] >= 0) || !isfinite(p->weight[i]))
            return wrong_member("weight", "finite and 0 or more", p->weight[i]);
        if (fitted && !(p->freq_hz[i] > 0 && isfinite(p->freq_hz[i])))
            return wrong_member("freq_hz", "finite and positive", p->freq_hz[i]);
        sum[p->channel[i]] += p->weight[i];
        count[p->channel[i]]++;
        p->mean_hz += p->weight[i] * p->freq_hz[i];
        all += p->weight[i];
    }
    if (all > 0) p->mean_hz /= all;
    for (int i = 0; i < p->n; i++) {
        const int k = p->channel[i];
        p->share[i] = sum[k] > 0 ? p->weight[i] / sum[k] : 1 / count[k];
        /* Without a fit a part equals its channel. */
        p->expand[i * s->n_channel + k] = 1;
    }
    return MSI_OK;
}

void msi_clean_parts_free(msi_clean_parts *p)
{
    msi_free(p->channel);
    msi_free(p->weight);
    msi_free(p->freq_hz);
    msi_free(p->share);
    msi_free(p->term);
    msi_free(p->expand);
    *p = (msi_clean_parts){0};
}

int msi_clean_parts_fit(msi_cleaner *c)
{
    const msi_clean_parts *p = &c->parts;
    const bands b = {.n_channel = c->spec.n_channel,
                     .n_part = p->n,
                     .weight = c->setup.share,
                     .channel = p->channel,
                     .share = p->share,
                     .freq_hz = p->freq_hz,
                     .mean_hz = p->mean_hz};
    return make_polynomial(&b, c->spec.n_term, p->term, c->fit, p->expand);
}

int msi_clean_fit_of_scale(const msi_cleaner *c, const double *response, double *fit)
{
    const msi_clean_parts *p = &c->parts;
    const int n = c->spec.n_channel;
    double weight[N] = {0}, mean = 0, *work;
    for (int k = 0; k < n; k++) {
        if (c->setup.share[k] > 0 && !(response[k] > 0)) return MSI_OK;
        weight[k] = c->setup.share[k] * response[k];
        mean += weight[k];
    }
    const bands b = {.n_channel = n,
                     .n_part = p->n,
                     .weight = weight,
                     .channel = p->channel,
                     .share = p->share,
                     .freq_hz = p->freq_hz,
                     .mean_hz = p->mean_hz};
    MSI_TRY(msi_alloc(&work, (int64_t)(K + n) * n, sizeof *work, "a spectral fit"));
    const int rc = make_polynomial(&b, c->spec.n_term, work, fit, work + (int64_t)K * n);
    for (int i = 0; !rc && i < n * n; i++) fit[i] *= weight[i % n] > 0 ? mean / response[i % n] : 0;
    msi_free(work);
    return rc;
}

/* ---- Nodes of log-polynomials ----------------------------------------------------------------------------------- */

/* The parts of a channel: their x, and their shares. */
typedef struct measure {
    const msi_clean_parts *p;
    int first, end;
} measure;

static double x_of(const msi_clean_parts *p, int i)
{
    return log10(p->freq_hz[i] / p->mean_hz);
}

/* Compute the mean over a channel of x^times[0] (x - a[0])^times[1] ((x - a[0]) (x - a[1]) - c)^times[2]. */
static double moment(const measure *m, const double a[2], double c, const int times[3])
{
    double sum = 0;
    for (int i = m->first; i < m->end; i++) {
        const double x = x_of(m->p, i), first = x - a[0], second = first * (x - a[1]) - c;
        sum += m->p->share[i] * pow(x, times[0]) * pow(first, times[1]) * pow(second, times[2]);
    }
    return sum;
}

/* Compute the three nodes of Gauss quadrature for a channel of many parts, so that means of polynomials up to x^5 are
 * exact. They follow from the recurrence of the orthogonal polynomials: G. H. Golub and J. H. Welsch, Math. Comp. 23,
 * 221 (1969). */
static void gauss_nodes(const measure *m, double node[3], double part[3])
{
    double a[3] = {0}, b[2];
    a[0] = moment(m, a, 0, (const int[]){1, 0, 0});
    b[0] = moment(m, a, 0, (const int[]){0, 2, 0});
    a[1] = moment(m, a, 0, (const int[]){1, 2, 0}) / b[0];
    const double square = moment(m, a, b[0], (const int[]){0, 0, 2});
    b[1] = square / b[0];
    a[2] = moment(m, a, b[0], (const int[]){1, 0, 2}) / square;
    long double j[9] = {a[0], sqrt(b[0]), 0, sqrt(b[0]), a[1], sqrt(b[1]), 0, sqrt(b[1]), a[2]}, v[9];
    msi_clean_diagonalise(3, j, v);
    for (int i = 0; i < 3; i++) {
        node[i] = (double)j[4 * i];
        part[i] = (double)(v[i] * v[i]);
    }
}

/* Fill a table with the nodes of channels. Given: weight [n_channel] */
static void fill_log_table(msi_clean_log_table *t, const msi_cleaner *c, const msi_clean_parts *p, const double *weight)
{
    *t = (msi_clean_log_table){.n_channel = c->spec.n_channel, .n_term = c->spec.n_term, .n_node = 1};
    for (int k = 0, first = 0; k < t->n_channel; k++) {
        int end = first, n = 0;
        while (end < p->n && p->channel[end] == k) end++;
        t->weight[k] = weight[k];
        t->correction[k] = c->spec.correction ? c->spec.correction[k] : 1;
        for (int i = first; i < end; i++) {
            if (!(p->share[i] > 0)) continue;
            if (n < MSI_CLEAN_NODES) {
                t->x[k][n] = x_of(p, i);
                t->part[k][n] = p->share[i];
            }
            n++;
        }
        if (n > MSI_CLEAN_NODES) gauss_nodes(&(measure){p, first, end}, t->x[k], t->part[k]);
        if (n > 1) t->n_node = MSI_CLEAN_NODES;
        first = end;
    }
}

void msi_clean_log_nodes(msi_cleaner *c)
{
    fill_log_table(&c->setup.log, c, &c->parts, c->setup.share);
}

/* ---- Spectra of true flux --------------------------------------------------------------------------------------- */

enum { MOST_POL = 4 };

/* The spectrum of one polarisation of a pixel. */
typedef struct seen_spectrum {
    const msi_cleaner *c;
    msi_clean_parts parts; /* shares of parts in the channel's image */
    double share[MSI_CLEAN_MAX_PART], weight[N], value[N], term[K];
} seen_spectrum;

/* Solve a x = b for a matrix [n][n] by elimination with pivots; both are overwritten, b by x. Returns: 0 if a is
 * singular */
static int solve(int n, double *a, double *b)
{
    for (int k = 0; k < n; k++) {
        int pivot = k;
        for (int i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
        if (!(fabs(a[pivot * n + k]) > 0)) return 0;
        for (int i = 0; i < n; i++) {
            const double t = a[k * n + i];
            a[k * n + i] = a[pivot * n + i], a[pivot * n + i] = t;
        }
        const double t = b[k];
        b[k] = b[pivot], b[pivot] = t;
        for (int i = 0; i < n; i++) {
            const double f = i == k ? 0 : a[i * n + k] / a[k * n + k];
            for (int j = 0; f != 0 && j < n; j++) a[i * n + j] -= f * a[k * n + j];
            b[i] -= f * b[k];
        }
    }
    for (int k = 0; k < n; k++) b[k] /= a[k * n + k];
    return 1;
}

/* Fit a constant, so that the difference has a weighted mean of 0. */
static void fit_constant(seen_spectrum *s)
{
    double sum = 0, all = 0;
    for (int k = 0; k < s->c->spec.n_channel; k++) {
        sum += s->weight[k] * s->value[k];
        all += s->weight[k];
    }
    for (int k = 0; k < K; k++) s->term[k] = 0;
    s->term[0] = all > 0 ? sum / all : 0;
}

static void fit_polynomial(seen_spectrum *s)
{
    const int n = s->c->spec.n_channel, n_term = s->c->spec.n_term;
    const msi_clean_parts *p = &s->parts;
    double x[K][N] = {{0}}, matrix[K * N];
    const bands b = {.n_channel = n,
                     .n_part = p->n,
                     .weight = s->weight,
                     .channel = p->channel,
                     .share = p->share,
                     .freq_hz = p->freq_hz,
                     .mean_hz = p->mean_hz};
    const double widest = find_widest(&b);
    for (int i = 0; i < p->n; i++) {
        double power = p->share[i];
        for (int k = 0; k < n_term; k++) {
            x[k][p->channel[i]] += power;
            power *= (p->freq_hz[i] / p->mean_hz - 1) / widest;
        }
    }
    /* The cleaner was made with as many frequencies as terms. */
    if (invert_least_squares(&b, n_term, x, matrix)) {
        fit_constant(s);
        return;
    }
    for (int k = 0; k < n_term; k++) {
        s->term[k] = 0;
        for (int i = 0; i < n; i++) s->term[k] += matrix[k * n + i] * s->value[i];
        s->term[k] /= pow(widest, k);
    }
}

static void fit_logarithms(seen_spectrum *s)
{
    msi_clean_log_table table;
    msi_clean_log_state at;
    fill_log_table(&table, s->c, &s->parts, s->weight);
    const int sign = msi_clean_log_find(&table, s->value, &at);
    if (!sign) {
        fit_constant(s);
        return;
    }
    /* e^(b x) is 10^(b x / ln 10). */
    for (int k = 0; k < s->c->spec.n_term; k++) s->term[k] = k ? at.b[k] / log(10) : sign * exp(at.b[0]);
}

/* Return the spectrum in a part. */
static double seen_at(const seen_spectrum *s, int part)
{
    const int is_log = s->c->spec.fit == MSI_CLEAN_FIT_LOG;
    const double x = is_log ? x_of(&s->parts, part) : s->parts.freq_hz[part] / s->parts.mean_hz - 1;
    double sum = 0;
    for (int k = s->c->spec.n_term - 1; k >= is_log; k--) sum = sum * x + s->term[k];
    return is_log ? s->term[0] * pow(10, sum * x) : sum;
}

/* Scale the spectrum of these terms as msi_clean_forced does. Given: forced [n_term - 1] */
static void fit_forced(seen_spectrum *s, const double *forced)
{
    double sum = 0, all = 0;
    s->term[0] = 1;
    for (int k = 1; k < s->c->spec.n_term; k++) s->term[k] = forced[k - 1];
    for (int k = 0; k < s->c->spec.n_channel; k++) sum += s->weight[k] * s->value[k];
    for (int i = 0; i < s->parts.n; i++) all += s->weight[s->parts.channel[i]] * s->share[i] * seen_at(s, i);
    s->term[0] = all > 0 ? sum / all : 0;
}

/* Compute the mean responses of channels over their parts. Returns: 0 if the sky does not follow from the images */
static int mean_responses(const msi_cleaner *c, int n_pol, const double *response, double *mean)
{
    const int n = n_pol * n_pol;
    for (int i = 0; i < c->spec.n_channel * n; i++) mean[i] = 0;
    for (int i = 0; i < c->parts.n; i++)
        for (int k = 0; k < n; k++) mean[c->parts.channel[i] * n + k] += c->parts.share[i] * response[i * n + k];
    for (int i = 0; i < c->parts.n; i++)
        for (int p = 0; p < n_pol && c->weight[c->parts.channel[i]] > 0; p++)
            if (!(response[i * n + p * (n_pol + 1)] > 0)) return 0;
    return 1;
}

/* Replace the images' values by those of the sky. Returns: 0 if a matrix is singular */
static int find_sky(const msi_cleaner *c, int n_pol, const double *mean, const double *value, double *sky)
{
    double matrix[MOST_POL * MOST_POL];
    for (int k = 0; k < c->spec.n_channel; k++) {
        memcpy(sky + k * n_pol, value + k * n_pol, (size_t)n_pol * sizeof *sky);
        memcpy(matrix, mean + k * n_pol * n_pol, (size_t)(n_pol * n_pol) * sizeof *matrix);
        if (c->weight[k] > 0 && !solve(n_pol, matrix, sky + k * n_pol)) return 0;
    }
    return 1;
}

/* Set the share of each part in the image of its channel, and weights. Given: mean, response  NULL: 1 */
static void set_shares(seen_spectrum *s, int n_pol, int pol, const double *response, const double *mean)
{
    const int n = n_pol * n_pol, own = pol * (n_pol + 1);
    const msi_clean_parts *p = &s->c->parts;
    for (int k = 0; k < s->c->spec.n_channel; k++)
        s->weight[k] = s->c->weight[k] * (mean && s->c->weight[k] > 0 ? mean[k * n + own] : 1);
    for (int i = 0; i < p->n; i++) {
        const int k = p->channel[i];
        s->share[i] = p->share[i] * (mean && s->c->weight[k] > 0 ? response[i * n + own] / mean[k * n + own] : 1);
    }
}

void msi_clean_fit_seen(const msi_cleaner *c, int n_pol, const double *response, const double *forced, double *value,
                        double *part, double *term)
{
    double mean[N * MOST_POL * MOST_POL], sky[N * MOST_POL];
    const int n = n_pol * n_pol, n_channel = c->spec.n_channel;
    int is_seen = mean_responses(c, n_pol, response, mean);
    if (is_seen) is_seen = find_sky(c, n_pol, mean, value, sky);
    if (!is_seen) memcpy(sky, value, (size_t)(n_channel * n_pol) * sizeof *sky);
    for (int p = 0; p < n_pol; p++) {
        seen_spectrum s = {.c = c, .parts = c->parts};
        s.parts.share = s.share;
        set_shares(&s, n_pol, p, response, is_seen ? mean : NULL);
        for (int k = 0; k < n_channel; k++) s.value[k] = sky[k * n_pol + p];
        if (forced)
            fit_forced(&s, forced);
        else if (c->spec.fit == MSI_CLEAN_FIT_LOG)
            fit_logarithms(&s);
        else
            fit_polynomial(&s);
        for (int k = 0; k < c->spec.n_term; k++) term[p * c->spec.n_term + k] = s.term[k];
        for (int i = 0; i < c->parts.n; i++) part[i * n_pol + p] = seen_at(&s, i);
    }
    for (int k = 0; k < n_channel * n_pol; k++) value[k] = 0;
    for (int i = 0; i < c->parts.n; i++) {
        double of_sky[MOST_POL];
        const int k = c->parts.channel[i];
        memcpy(of_sky, part + i * n_pol, (size_t)n_pol * sizeof *of_sky);
        for (int p = 0; p < n_pol && is_seen; p++) {
            part[i * n_pol + p] = 0;
            for (int q = 0; q < n_pol; q++) part[i * n_pol + p] += response[i * n + p * n_pol + q] * of_sky[q];
            /* The response is unknown where there are no samples. */
            if (!isfinite(part[i * n_pol + p])) part[i * n_pol + p] = 0;
        }
        for (int p = 0; p < n_pol && c->weight[k] > 0; p++)
            value[k * n_pol + p] += c->parts.share[i] * part[i * n_pol + p];
    }
}

/* ---- Planes ----------------------------------------------------------------------------------------------------- */

int msi_clean_upload_matrix(msi_cleaner *c, void **to, const double *from, int64_t n)
{
    if (*to) return MSI_OK;
    float *single = NULL;
    int rc = c->ops->alloc(c->e, to, n * c->real_bytes, "spectra of channels");
    if (!rc && c->spec.precision == MSI_FP32) rc = msi_alloc(&single, n, sizeof *single, "spectra of channels");
    for (int64_t i = 0; single && i < n; i++) single[i] = (float)from[i];
    if (!rc) rc = c->ops->upload(c->e, *to, single ? (const void *)single : from, n * c->real_bytes);
    msi_free(single);
    if (!rc) return MSI_OK;
    c->ops->release(c->e, *to);
    *to = NULL;
    return rc;
}

static int make_mean_matrix(msi_cleaner *c)
{
    const msi_clean_parts *p = &c->parts;
    double *matrix;
    MSI_TRY(msi_alloc(&matrix, (int64_t)c->spec.n_channel * p->n, sizeof *matrix, "spectra of channels"));
    for (int i = 0; i < p->n; i++)
        if (c->weight[p->channel[i]] > 0) matrix[p->channel[i] * p->n + i] = p->share[i];
    const int rc = msi_clean_upload_matrix(c, &c->parts.mean_matrix, matrix, (int64_t)c->spec.n_channel * p->n);
    msi_free(matrix);
    return rc;
}

static int make_log_x(msi_cleaner *c)
{
    const msi_clean_parts *p = &c->parts;
    double *x;
    if (p->log_x || c->spec.fit != MSI_CLEAN_FIT_LOG) return MSI_OK;
    MSI_TRY(msi_alloc(&x, p->n, sizeof *x, "spectra of channels"));
    for (int i = 0; i < p->n; i++) x[i] = x_of(p, i);
    int rc = c->ops->alloc(c->e, &c->parts.log_x, p->n * (int64_t)sizeof *x, "spectra of channels");
    if (!rc) rc = c->ops->upload(c->e, c->parts.log_x, x, p->n * (int64_t)sizeof *x);
    msi_free(x);
    if (!rc) return MSI_OK;
    c->ops->release(c->e, c->parts.log_x);
    c->parts.log_x = NULL;
    return rc;
}

void msi_clean_parts_release(msi_cleaner *c)
{
    c->ops->release(c->e, c->parts.mean_matrix);
    c->ops->release(c->e, c->parts.expand_matrix);
    c->ops->release(c->e, c->parts.log_x);
}

/* Map the planes of each polarisation. */
static int map_all(msi_cleaner *c, msi_clean_map m, const msi_clean_planes *in, const msi_clean_planes *out, int n_pol)
{
    m.in_stride = in->stride * n_pol;
    m.out_stride = out->stride * n_pol;
    for (int p = 0; p < n_pol; p++) {
        m.in = msi_clean_plane(c, in, p);
        m.out = msi_clean_plane(c, out, p);
        MSI_TRY(c->ops->map(c->e, &m));
    }
    return c->ops->wait(c->e);
}

int msi_clean_mean(msi_cleaner *c, const msi_clean_planes *part, const msi_clean_planes *channel, int n_pol)
{
    MSI_TRY(make_mean_matrix(c));
    const msi_clean_map m = {
        .n_in = c->parts.n, .n_out = c->spec.n_channel, .matrix = c->parts.mean_matrix, .log_x = NULL};
    return map_all(c, m, part, channel, n_pol);
}

int msi_clean_combine(msi_cleaner *c, const double *matrix, msi_clean_map map)
{
    void *own = NULL;
    MSI_TRY(msi_clean_upload_matrix(c, &own, matrix, (int64_t)map.n_out * map.n_in));
    map.matrix = own;
    int rc = c->ops->map(c->e, &map);
    if (!rc) rc = c->ops->wait(c->e);
    c->ops->release(c->e, own);
    return rc;
}

int msi_clean_expand(msi_cleaner *c, const msi_clean_planes *channel, const msi_clean_planes *part)
{
    MSI_TRY(
        msi_clean_upload_matrix(c, &c->parts.expand_matrix, c->parts.expand, (int64_t)c->parts.n * c->spec.n_channel));
    MSI_TRY(make_log_x(c));
    const msi_clean_map m = {
        .n_in = c->spec.n_channel, .n_out = c->parts.n, .matrix = c->parts.expand_matrix, .log_x = c->parts.log_x};
    return map_all(c, m, channel, part, c->spec.n_pol);
}

void msi_clean_terms(const msi_cleaner *c, const double *value, double *term)
{
    const msi_clean_parts *p = &c->parts;
    const int n = c->spec.n_channel, is_log = c->spec.fit == MSI_CLEAN_FIT_LOG;
    const int fitted = is_log || c->spec.fit == MSI_CLEAN_FIT_POLYNOMIAL;
    msi_clean_log_state log_fit;
    const int sign = is_log ? msi_clean_log_find(&c->setup.log, value, &log_fit) : 0;
    for (int k = 0; k < p->n_term; k++) {
        term[k] = 0;
        if (sign) {
            /* e^(b x) is 10^(b x / ln 10). */
            term[k] = k ? log_fit.b[k] / log(10) : sign * exp(log_fit.b[0]);
            continue;
        }
        for (int i = 0; i < n && (!is_log || !k); i++)
            if (c->setup.share[i] > 0) term[k] += (fitted ? p->term[k * n + i] : c->setup.share[i]) * value[i];
    }
}
