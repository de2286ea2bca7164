/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/transform/pswf.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "core/status.h"
#include "core/types.h"

/* Return the factor of the band in which the window is concentrated. The band ends a little below the first repeat of
 * the image's edge, so that the transform has a zero there. This reduces the error at the edge to a third for
 * 1.2 <= sigma <= 2 (scanned in steps of 0.01). */
static double band_factor(int width)
{
    return width <= 3 ? 0.94 : width == 4 ? 0.965 : width == 5 ? 0.98 : width < 12 ? 0.985 : 0.98;
}

enum { MOST_VALUES = 32 };

/* Sum the even Legendre series at s[0 .. n-1], each in [-1, 1], by the recurrence of P_k. All points are computed
 * together, because they share the quotients of the recurrence. */
static void series_values(const msi_pswf *window, int n, const double *s, double *sum)
{
    double p0[MOST_VALUES], p1[MOST_VALUES];
    for (int i = 0; i < n; i++) {
        p0[i] = 1;
        p1[i] = s[i];
        sum[i] = window->series[0];
    }
    for (int k = 2; k < 2 * window->n_series; k++) {
        double a = (2.0 * k - 1) / k, b = (k - 1.0) / k, weight = k % 2 ? 0 : window->series[k / 2];
        for (int i = 0; i < n; i++) {
            double p2 = a * s[i] * p1[i] - b * p0[i];
            p0[i] = p1[i];
            p1[i] = p2;
            sum[i] += weight * p2;
        }
    }
}

static double series_value(const msi_pswf *window, double s)
{
    double sum;
    series_values(window, 1, &s, &sum);
    return sum;
}

/*
 * Find the eigenvector of the smallest eigenvalue of the prolate differential operator, which is a tridiagonal matrix
 * in the basis of normalised even Legendre polynomials, by inverse iteration (the eigenvalues grow at least as 1 : 5,
 * so 25 steps reach rounding).
 */
static void solve_series(msi_pswf *window, double c)
{
    enum { N = MSI_PSWF_MAX_SERIES };
    double diagonal[N], off[N], x[N], factor[N];
    for (int i = 0; i < N; i++) {
        double k = 2.0 * i;
        diagonal[i] = k * (k + 1) + (2 * k * (k + 1) - 1) / ((2 * k + 3) * (2 * k - 1)) * c * c;
        off[i] = (k + 1) * (k + 2) / ((2 * k + 3) * sqrt((2 * k + 1) * (2 * k + 5))) * c * c;
        x[i] = i == 0;
    }
    for (int i = 1; i < N; i++) {
        factor[i] = off[i - 1] / diagonal[i - 1];
        diagonal[i] -= factor[i] * off[i - 1];
    }
    for (int i = 0; i < N; i++) diagonal[i] = 1 / diagonal[i];
    for (int step = 0; step < 25; step++) {
        double norm = 0;
        for (int i = 1; i < N; i++) x[i] -= factor[i] * x[i - 1];
        x[N - 1] *= diagonal[N - 1];
        for (int i = N - 2; i >= 0; i--) x[i] = (x[i] - off[i] * x[i + 1]) * diagonal[i];
        for (int i = 0; i < N; i++) norm += x[i] * x[i];
        norm = 1 / sqrt(norm);
        for (int i = 0; i < N; i++) x[i] *= norm;
    }
    window->n_series = N;
    while (window->n_series > 1 && fabs(x[window->n_series - 1]) < 1e-18) window->n_series--;
    for (int i = 0; i < window->n_series; i++) window->series[i] = x[i] * sqrt(2.0 * i + 0.5);
    double peak = series_value(window, 0);
    for (int i = 0; i < window->n_series; i++) window->series[i] /= peak;
}

/* Make each tap's polynomial in z: Chebyshev interpolation, rewritten in powers of z. */
static void fit_taps(msi_pswf *window)
{
    int n = window->n_coef;
    double node[MSI_PSWF_MAX_COEF], cosine[MSI_PSWF_MAX_COEF][MSI_PSWF_MAX_COEF]; /* T_k(node i): [k][i] */
    for (int i = 0; i < n; i++) {
        double theta = MSI_PI * (i + 0.5) / n;
        node[i] = cos(theta);
        for (int k = 0; k < n; k++) cosine[k][i] = cos(k * theta);
    }
    for (int tap = 0; tap < window->width; tap++) {
        double chebyshev[MSI_PSWF_MAX_COEF] = {0}, s[MSI_PSWF_MAX_COEF], value[MSI_PSWF_MAX_COEF];
        for (int i = 0; i < n; i++) s[i] = (node[i] + 1 + 2 * tap) / window->width - 1;
        series_values(window, n, s, value);
        for (int k = 0; k < n; k++)
            for (int i = 0; i < n; i++) chebyshev[k] += (k ? 2.0 : 1.0) / n * value[i] * cosine[k][i];
        double t0[MSI_PSWF_MAX_COEF] = {1}, t1[MSI_PSWF_MAX_COEF] = {0, 1}, power[MSI_PSWF_MAX_COEF] = {0};
        for (int k = 0; k < n; k++) {
            for (int i = 0; i < n; i++) power[i] += chebyshev[k] * t0[i];
            double t2[MSI_PSWF_MAX_COEF] = {0};
            for (int i = 0; i < n; i++) t2[i] = (i ? 2 * t1[i - 1] : 0) - t0[i];
            memcpy(t0, t1, sizeof t0);
            memcpy(t1, t2, sizeof t1);
        }
        for (int i = 0; i < n; i++) window->coef[n - 1 - i][tap] = power[i];
    }
}

/* Make the window without the polynomials of its taps. */
static int make_shape(msi_pswf *window, int width, double sigma)
{
    memset(window, 0, sizeof *window);
    if (width < MSI_PSWF_MIN_WIDTH || width > MSI_PSWF_MAX_WIDTH || !(sigma > 1))
        return msi_error_set(
            MSI_ERANGE,
            "window: width %d with oversampling %g is not supported (widths %d to %d, oversampling above 1)", width,
            sigma, MSI_PSWF_MIN_WIDTH, MSI_PSWF_MAX_WIDTH);
    double band = (1 - 0.5 / sigma) * band_factor(width);
    window->width = width;
    window->sigma = sigma;
    window->n_coef = msi_pswf_n_coef(width);
    solve_series(window, MSI_PI * width * band);
    window->transform_at_0 = window->width * window->series[0];
    window->omega_per_x = 1 / band;
    return MSI_OK;
}

/* Cache of the last windows and their errors, because plans of all strategies and channels need the same ones. */
typedef struct cached_window {
    msi_pswf window;
    double error;
} cached_window;

enum { N_CACHED = 256 };
static struct {
    pthread_mutex_t lock;
    int oldest;
    cached_window window[N_CACHED];
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Find a window in the cache. Returned: *to, if 1 is returned */
static int find_cached(cached_window *to, int width, double sigma)
{
    int i = 0;
    if (width < MSI_PSWF_MIN_WIDTH) return 0; /* empty entries have width 0 */
    pthread_mutex_lock(&cache.lock);
    while (i < N_CACHED && (cache.window[i].window.width != width || cache.window[i].window.sigma != sigma)) i++;
    if (i < N_CACHED) *to = cache.window[i];
    pthread_mutex_unlock(&cache.lock);
    return i < N_CACHED;
}

static void add_to_cache(const cached_window *w)
{
    pthread_mutex_lock(&cache.lock);
    cache.window[cache.oldest] = *w;
    cache.oldest = (cache.oldest + 1) % N_CACHED;
    pthread_mutex_unlock(&cache.lock);
}

static double find_error(const msi_pswf *window);

int msi_pswf_make(msi_pswf *window, int width, double sigma)
{
    cached_window w;
    if (!find_cached(&w, width, sigma)) {
        MSI_TRY(make_shape(&w.window, width, sigma));
        fit_taps(&w.window);
        w.error = find_error(&w.window);
        add_to_cache(&w);
    }
    *window = w.window;
    return MSI_OK;
}

double msi_pswf_error(const msi_pswf *window)
{
    cached_window w;
    return find_cached(&w, window->width, window->sigma) ? w.error : find_error(window);
}

double msi_pswf_value(const msi_pswf *window, double t)
{
    double s = 2 * t / window->width;
    return fabs(s) > 1 ? 0 : series_value(window, s);
}

double msi_pswf_transform(const msi_pswf *window, double x)
{
    return window->transform_at_0 * series_value(window, x * window->omega_per_x);
}

/*
 * Compute the error of a window. Outside the band the transform is summed by the midpoint rule over cells of the
 * window, which is fine enough for frequencies up to x + 3 cycles. With even = sum_t value cos(2 pi x t) cos(2 pi k t)
 * and odd the same of sines, the transform is even - odd at x + k and even + odd at x - k. Cosines and sines of
 * multiples follow by rotation.
 */
static double find_error(const msi_pswf *window)
{
    enum { N_X = 16, N_K = 3, POINTS_A_TAP = 24, HALF = POINTS_A_TAP / 2 };
    double even[N_X + 1][N_K] = {{0}}, odd[N_X + 1][N_K] = {{0}}, h = 1.0 / POINTS_A_TAP;
    for (int half_tap = 0; half_tap < window->width; half_tap++) {
        double t[HALF], s[HALF], value[HALF];
        for (int i = 0; i < HALF; i++) {
            t[i] = (half_tap * HALF + i + 0.5) * h;
            s[i] = 2 * t[i] / window->width;
        }
        series_values(window, HALF, s, value);
        for (int i = 0; i < HALF; i++) {
            double turn_x = 2 * MSI_PI * t[i] * 0.5 / window->sigma / N_X, turn_k = 2 * MSI_PI * t[i];
            double cos_dx = cos(turn_x), sin_dx = sin(turn_x), cos_x = 2 * h * value[i], sin_x = 0;
            double cos_k[N_K], sin_k[N_K];
            for (int k = 0; k < N_K; k++) {
                cos_k[k] = cos((k + 1) * turn_k);
                sin_k[k] = sin((k + 1) * turn_k);
            }
            for (int ix = 0; ix <= N_X; ix++) {
                for (int k = 0; k < N_K; k++) {
                    even[ix][k] += cos_x * cos_k[k];
                    odd[ix][k] += sin_x * sin_k[k];
                }
                double turned = cos_x * cos_dx - sin_x * sin_dx;
                sin_x = cos_x * sin_dx + sin_x * cos_dx;
                cos_x = turned;
            }
        }
    }
    double largest = 0;
    for (int ix = 0; ix <= N_X; ix++) {
        double inside = msi_pswf_transform(window, ix * 0.5 / window->sigma / N_X), outside = 0;
        for (int k = 0; k < N_K; k++) outside += even[ix][k] * even[ix][k] + odd[ix][k] * odd[ix][k];
        largest = fmax(largest, 2 * outside / (inside * inside));
    }
    return sqrt(largest);
}

void msi_pswf_amplification(const msi_pswf *window, double *rms, double *edge)
{
    enum { N = 32 };
    double all = 0, inverse = 0;
    /* By Parseval's theorem the energy of the whole band is the energy of the window; the energy outside is
     * negligible. */
    for (int i = 0; i < N; i++) {
        double t = (i + 0.5) / N, x = (i + 0.5) / N * 0.5 / window->sigma;
        double value = msi_pswf_value(window, 0.5 * window->width * t), ft = msi_pswf_transform(window, x);
        all += value * value * window->width / N;
        inverse += 1 / (ft * ft) / N;
    }
    *rms = sqrt(all * inverse);
    *edge = sqrt(all) / msi_pswf_transform(window, 0.5 / window->sigma);
}

static double find_least_sigma(int width, double error)
{
    double low = 1.1, high = 2.5;
    msi_pswf window;
    if (make_shape(&window, width, high) || find_error(&window) > error) return HUGE_VAL;
    while (high - low > 0.01) {
        double sigma = 0.5 * (low + high);
        if (make_shape(&window, width, sigma) == MSI_OK && find_error(&window) <= error)
            high = sigma;
        else
            low = sigma;
    }
    return high;
}

/* Cache of the least oversamplings for the last errors. Plans of all strategies and channels need the same ones, and
 * all threads share this table. */
enum { N_ERROR = 4 };
static struct {
    pthread_mutex_t lock;
    int oldest;
    struct {
        double error, sigma[MSI_PSWF_MAX_WIDTH + 1]; /* 0: not computed yet */
    } of[N_ERROR];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Find the entry of an error, or replace the oldest one. The caller holds the lock. */
static int entry_of(double error)
{
    for (int i = 0; i < N_ERROR; i++)
        if (known.of[i].error == error) return i;
    const int at = known.oldest;
    known.oldest = (known.oldest + 1) % N_ERROR;
    memset(&known.of[at], 0, sizeof known.of[at]);
    known.of[at].error = error;
    return at;
}

double msi_pswf_least_sigma(int width, double error)
{
    if (width < MSI_PSWF_MIN_WIDTH || width > MSI_PSWF_MAX_WIDTH) return HUGE_VAL;
    pthread_mutex_lock(&known.lock);
    double sigma = known.of[entry_of(error)].sigma[width];
    pthread_mutex_unlock(&known.lock);
    if (sigma > 0) return sigma;
    sigma = find_least_sigma(width, error);
    pthread_mutex_lock(&known.lock);
    known.of[entry_of(error)].sigma[width] = sigma;
    pthread_mutex_unlock(&known.lock);
    return sigma;
}
