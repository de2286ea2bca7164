/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/clean/clean_spectrum.h"

#include <math.h>

#include "core/status.h"
#include "kernels/clean/cleaner_spec.h"

enum { N = MSI_CLEAN_MAX_PLANE, K = MSI_CLEAN_MAX_TERM };

static int too_few(int n_term)
{
    return msi_error_about(
        msi_error_set(MSI_EARGUMENT, "a spectrum of %d coefficients needs as many frequencies with weight", n_term),
        "n_term");
}

/* The terms are made orthonormal under the weights, by Gram and Schmidt twice, which keeps what powers of x would lose
 * to rounding: then F = Q Q^T W. */
static int orthonormal(int n, const double *weight, const double *x, int n_term, double q[K][N])
{
    double all = 0;
    for (int c = 0; c < n; c++) all += weight[c];
    for (int k = 0; k < n_term; k++) {
        double before = 0, norm = 0;
        for (int c = 0; c < n; c++) {
            q[k][c] = k ? q[k - 1][c] * x[c] : 1;
            before += weight[c] * q[k][c] * q[k][c];
        }
        for (int twice = 0; twice < 2; twice++)
            for (int i = 0; i < k; i++) {
                double along = 0;
                for (int c = 0; c < n; c++) along += weight[c] * q[i][c] * q[k][c];
                for (int c = 0; c < n; c++) q[k][c] -= along * q[i][c];
            }
        for (int c = 0; c < n; c++) norm += weight[c] * q[k][c] * q[k][c];
        if (!(all > 0) || !(norm > 1e-20 * before)) return too_few(n_term);
        for (int c = 0; c < n; c++) q[k][c] /= sqrt(norm);
    }
    return MSI_OK;
}

int msi_clean_polynomial(int n, const double *weight, const double *freq_hz, int n_term, double *fit)
{
    double x[N], q[K][N], sum = 0, all = 0, widest = 0;
    for (int c = 0; c < n; c++) {
        sum += weight[c] * freq_hz[c];
        all += weight[c];
    }
    for (int c = 0; c < n; c++) {
        x[c] = freq_hz[c] * all / sum - 1;
        if (weight[c] > 0 && fabs(x[c]) > widest) widest = fabs(x[c]);
    }
    /* The span of powers does not depend on the unit of x. */
    for (int c = 0; c < n && widest > 0; c++) x[c] /= widest;
    MSI_TRY(orthonormal(n, weight, x, n_term, q));
    for (int c = 0; c < n; c++)
        for (int i = 0; i < n; i++) {
            double f = 0;
            for (int k = 0; k < n_term; k++) f += q[k][c] * q[k][i];
            fit[c * n + i] = f * weight[i];
        }
    return MSI_OK;
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
