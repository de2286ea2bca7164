/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/clean/clean_taylor.h"

#include <math.h>
#include <string.h>

#include "core/status.h"
#include "kernels/clean/clean_state.h"

enum { N = MSI_TAYLOR_MAX_NODE, T = MSI_TAYLOR_MAX_TERM };

/* ---- Gauss quadrature from moments: G. H. Golub and J. H. Welsch, Math. Comp. 23, 221 (1969), section 4 --------- */

/* A pivot of the moments' matrix below this is a rounding error. The number of pivots before it is the number of
 * frequencies. */
static const long double LEAST_PIVOT = 1e-13L;

/*
 * Factor the matrix of moments, m_(i+j) = R^T R.
 * Given:    most   rows wanted
 * Returned: r      [rows][most + 1]
 * Returns:  the number of rows
 */
static int factor_moments(const double *moment, int most, long double r[N][N + 1])
{
    for (int i = 0; i < most; i++) {
        for (int j = i; j <= most; j++) {
            /* The last row needs one moment less than the others have. */
            long double sum = i + j < 2 * most ? (long double)moment[i + j] / moment[0] : 0;
            for (int k = 0; k < i; k++) sum -= r[k][i] * r[k][j];
            if (j == i) {
                if (!(sum > LEAST_PIVOT)) return i;
                r[i][i] = sqrtl(sum);
            } else {
                r[i][j] = sum / r[i][i];
            }
        }
    }
    return most;
}

void msi_clean_diagonalise(int n, long double *m, long double *v)
{
    for (int i = 0; i < n * n; i++) v[i] = i % (n + 1) == 0;
    for (int sweep = 0; sweep < 60; sweep++)
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++) {
                long double *ij = &m[i * n + j], *ji = &m[j * n + i];
                if (*ij == 0) continue;
                const long double angle = 0.5L * atan2l(2 * *ij, m[j * n + j] - m[i * n + i]), c = cosl(angle),
                                  s = sinl(angle);
                for (int l = 0; l < n; l++) {
                    long double *row_m = m + l * n, *row_v = v + l * n;
                    const long double a = row_m[i], b = row_m[j], p = row_v[i], q = row_v[j];
                    row_m[i] = c * a - s * b;
                    row_m[j] = s * a + c * b;
                    row_v[i] = c * p - s * q;
                    row_v[j] = s * p + c * q;
                }
                for (int l = 0; l < n; l++) {
                    const long double a = m[i * n + l], b = m[j * n + l];
                    m[i * n + l] = c * a - s * b;
                    m[j * n + l] = s * a + c * b;
                }
                *ij = *ji = 0;
            }
}

/* Find at most `most` nodes y and their shares. Returns: their number */
static int find_nodes(const double *moment, int most, double y[N], double share[N])
{
    long double r[N][N + 1] = {{0}}, jacobi[N * N] = {0}, v[N * N];
    const int n = factor_moments(moment, most, r);
    for (int i = 0; i < n; i++) {
        jacobi[i * n + i] = r[i][i + 1] / r[i][i] - (i ? r[i - 1][i] / r[i - 1][i - 1] : 0);
        if (i + 1 < n) jacobi[i * n + i + 1] = jacobi[(i + 1) * n + i] = r[i + 1][i + 1] / r[i][i];
    }
    msi_clean_diagonalise(n, jacobi, v);
    for (int i = 0; i < n; i++) {
        y[i] = (double)jacobi[i * n + i];
        share[i] = (double)(v[i] * v[i]);
    }
    return n;
}

/* ---- Matrices ---------------------------------------------------------------------------------------------------- */

/* Make the matrix from P_n to the PSFs of the nodes: the coefficients of Lagrange's polynomials, over the shares. */
static void make_psf_matrix(msi_clean_taylor *t)
{
    const int n_power = 2 * t->n_term - 1;
    memset(t->psf, 0, sizeof t->psf);
    for (int k = 0; k < t->n_node; k++) {
        long double c[N + 1] = {1};
        for (int j = 0, degree = 0; j < t->n_node; j++) {
            if (j == k) continue;
            /* c = c (x - x_j) / (x_k - x_j) */
            const long double scale = 1 / ((long double)t->x[k] - t->x[j]);
            degree++;
            for (int i = degree; i >= 0; i--) c[i] = ((i ? c[i - 1] : 0) - (i < degree ? c[i] * t->x[j] : 0)) * scale;
        }
        for (int i = 0; i < t->n_node; i++) t->psf[k * n_power + i] = (double)(c[i] / t->share[k]);
    }
}

/* Make the matrices of the least-squares polynomial: X (X^T G X)^-1 from R_t to the nodes, and (X^T G X)^-1 X^T G from
 * values at the nodes to terms. X is orthonormalised under the shares by Gram-Schmidt, X = Q R. */
static void make_term_matrices(msi_clean_taylor *t)
{
    const int n = t->n_node, n_term = t->n_term;
    long double q[T][N], r[T][T] = {{0}}, inverse[T][T] = {{0}};
    for (int k = 0; k < n_term; k++) {
        for (int c = 0; c < n; c++) q[k][c] = powl(t->x[c], k);
        for (int twice = 0; twice < 2; twice++)
            for (int i = 0; i < k; i++) {
                long double along = 0;
                for (int c = 0; c < n; c++) along += t->share[c] * q[i][c] * q[k][c];
                for (int c = 0; c < n; c++) q[k][c] -= along * q[i][c];
                r[i][k] += along;
            }
        long double norm = 0;
        for (int c = 0; c < n; c++) norm += t->share[c] * q[k][c] * q[k][c];
        r[k][k] = sqrtl(norm);
        for (int c = 0; c < n; c++) q[k][c] /= r[k][k];
    }
    for (int j = 0; j < n_term; j++)
        for (int i = j; i >= 0; i--) {
            long double sum = i == j;
            for (int k = i + 1; k <= j; k++) sum -= r[i][k] * inverse[k][j];
            inverse[i][j] = sum / r[i][i];
        }
    for (int c = 0; c < n; c++)
        for (int k = 0; k < n_term; k++) {
            long double sum = 0; /* X H^-1 = Q R^-T, H^-1 X^T G = R^-1 Q^T G */
            for (int i = k; i < n_term; i++) sum += q[i][c] * inverse[k][i];
            t->residual[c * n_term + k] = (double)sum;
            t->term[k * n + c] = (double)(sum * t->share[c]);
        }
}

int msi_clean_taylor_make(msi_clean_taylor *t, int n_term, double reference_hz, double middle_hz, double half_hz,
                          const double *moment)
{
    double y[N];
    *t = (msi_clean_taylor){.n_term = n_term, .reference_hz = reference_hz};
    t->n_node = moment[0] > 0 ? find_nodes(moment, 2 * n_term - 1, y, t->share) : 0;
    if (t->n_node < n_term)
        return msi_error_about(msi_error_set(MSI_EINPUT,
                                             "%d Taylor terms need as many different frequencies with weight; the "
                                             "samples have %d",
                                             n_term, t->n_node),
                               "n_term");
    for (int k = 0; k < t->n_node; k++) {
        t->freq_hz[k] = middle_hz + half_hz * y[k];
        t->x[k] = t->freq_hz[k] / reference_hz - 1;
    }
    make_psf_matrix(t);
    make_term_matrices(t);
    return MSI_OK;
}

/* ---- Hessians of scales ------------------------------------------------------------------------------------------ */

/* Factor H = L L^T, H_tq = h[t + q]. Returned: inverse  L^-1 [n][n]. Returns 0 if H is not positive definite */
static int invert_hessian(int n, const double *h, double *inverse)
{
    double l[T][T] = {{0}};
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = h[i + j];
            for (int k = 0; k < j; k++) sum -= l[i][k] * l[j][k];
            if (i == j && !(sum > 1e-9 * h[2 * i])) return 0;
            l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = i == j;
            for (int k = j; k < i; k++) sum -= l[i][k] * inverse[k * n + j];
            inverse[i * n + j] = sum / l[i][i];
        }
    return 1;
}

int msi_clean_taylor_rows_make(msi_clean_taylor_rows *r, int n_term, int n_node, const double *freq_hz,
                               const double *share, const double *response)
{
    double low = INFINITY, high = -INFINITY, h[2 * T] = {0};
    *r = (msi_clean_taylor_rows){0};
    for (int k = 0; k < n_node; k++) {
        low = fmin(low, freq_hz[k]);
        high = fmax(high, freq_hz[k]);
    }
    for (int k = 0; k < n_node; k++) {
        const double x = high > low ? (2 * freq_hz[k] - low - high) / (high - low) : 0;
        for (int t = 0; t < n_term; t++) r->sums[t * n_node + k] = share[k] * pow(x, t);
        for (int t = 0; t < 2 * n_term - 1; t++) h[t] += share[k] * pow(x, t) * response[k];
    }
    const int is_definite = invert_hessian(n_term, h, r->inverse);
    if (!is_definite) {
        memset(r->inverse, 0, sizeof r->inverse);
        r->inverse[0] = h[0] > 0 ? 1 / sqrt(h[0]) : 0;
    }
    for (int i = 0; i < n_term; i++)
        for (int t = 0; t <= i; t++)
            for (int k = 0; k < n_node; k++)
                r->rows[i * n_node + k] += r->inverse[i * n_term + t] * r->sums[t * n_node + k];
    return is_definite;
}
