/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/clean/clean_spectrum.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/clean/cleaner_spec.h"

enum { N = MSI_CLEAN_MAX_PLANE, K = MSI_CLEAN_MAX_TERM };

static int too_few(int n_term)
{
    return msi_error_about(
        msi_error_set(MSI_EARGUMENT, "a spectrum of %d coefficients needs as many frequencies with weight", n_term),
        "n_term");
}

/* Find the largest |x| of parts whose channel has weight: powers of x / widest are of one size. */
static double find_widest(const msi_clean_bands *b)
{
    double widest = 0;
    for (int i = 0; i < b->n_part; i++)
        if (b->weight[b->channel[i]] > 0) widest = fmax(widest, fabs(b->freq_hz[i] / b->mean_hz - 1));
    return widest > 0 ? widest : 1;
}

/* Make x^k, x in units of the widest, and its means over channels. */
static void make_powers(const msi_clean_bands *b, double widest, int k, double *part, double channel[N])
{
    for (int c = 0; c < b->n_channel; c++) channel[c] = 0;
    for (int i = 0; i < b->n_part; i++) {
        part[i] = pow((b->freq_hz[i] / b->mean_hz - 1) / widest, k);
        channel[b->channel[i]] += b->share[i] * part[i];
    }
}

/* Compute the inverse of X (weighted least squares) through X = Q R, Q orthonormal under the weights, by Gram and
 * Schmidt twice, which keeps what powers would lose to rounding: term = R^-1 Q^T W. */
static int invert(const msi_clean_bands *b, int n_term, double x[K][N], double *term)
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

int msi_clean_polynomial(const msi_clean_bands *b, int n_term, double *term, double *fit, double *expand)
{
    double x[K][N], *part;
    const int n = b->n_channel;
    const double widest = find_widest(b);
    MSI_TRY(msi_alloc(&part, (int64_t)n_term * b->n_part, sizeof *part, "a spectral fit"));
    for (int k = 0; k < n_term; k++) make_powers(b, widest, k, part + k * b->n_part, x[k]);
    const int rc = invert(b, n_term, x, term);
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
        return msi_error_about(msi_error_set(MSI_EARGUMENT, "the forced spectrum's weighted mean is %g", mean),
                               "spectrum");
    for (int c = 0; c < n; c++)
        for (int i = 0; i < n; i++) fit[c * n + i] = spectrum[c] * weight[i] / mean;
    return MSI_OK;
}
