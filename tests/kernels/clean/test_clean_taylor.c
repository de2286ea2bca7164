/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Nodes of Taylor terms against sums over the frequencies that they stand for. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/clean/clean_taylor.h"

enum { MOST = 32, MOMENTS = 4 * MSI_TAYLOR_MAX_TERM - 2 };

/* Weights at frequencies. */
typedef struct band {
    int n;
    double freq_hz[MOST], weight[MOST], reference_hz;
} band;

static band make_band(int n, double low_hz, double high_hz, double reference_hz)
{
    band b = {.n = n, .reference_hz = reference_hz};
    for (int i = 0; i < n; i++) {
        b.freq_hz[i] = n > 1 ? low_hz + (high_hz - low_hz) * i / (n - 1) : low_hz;
        b.weight[i] = 1 + 0.8 * sin(3.0 * i) + 0.1 * i;
    }
    return b;
}

static int make(msi_clean_taylor *t, const band *b, int n_term)
{
    const double low = b->freq_hz[0], high = b->freq_hz[b->n - 1], middle = 0.5 * (low + high),
                 half = b->n > 1 ? 0.5 * (high - low) : 1;
    double moment[MOMENTS] = {0};
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < 4 * n_term - 2; k++) moment[k] += b->weight[i] * pow((b->freq_hz[i] - middle) / half, k);
    return msi_clean_taylor_make(t, n_term, b->reference_hz, middle, half, moment);
}

static double x_of(const band *b, int i)
{
    return b->freq_hz[i] / b->reference_hz - 1;
}

static double sum_weights(const band *b, int power)
{
    double sum = 0;
    for (int i = 0; i < b->n; i++) sum += b->weight[i] * pow(x_of(b, i), power);
    return sum;
}

/* The moments of the nodes are those of the frequencies. The PSF of one frequency is x^n for every n; from the PSFs of
 * the nodes it comes back, and in the middle of all of them they are 1. */
static void check_nodes(const band *b, const msi_clean_taylor *t)
{
    const int n_power = 2 * t->n_term - 1;
    const double all = sum_weights(b, 0);
    for (int n = 0; n < n_power; n++) {
        double sum = 0, size = 0;
        for (int k = 0; k < t->n_node; k++) sum += t->share[k] * pow(t->x[k], n);
        for (int i = 0; i < b->n; i++) size += b->weight[i] * pow(fabs(x_of(b, i)), n) / all;
        assert_true(fabs(sum - sum_weights(b, n) / all) <= 1e-10 * size);
    }
    for (int k = 0; k < t->n_node; k++) {
        double middle = 0;
        assert_true(t->share[k] > 0);
        for (int n = 0; n < n_power; n++) middle += t->psf[k * n_power + n] * sum_weights(b, n) / all;
        assert_true(fabs(middle - 1) <= 1e-6);
    }
    for (int i = 0; i < b->n; i++)
        for (int n = 0; n < n_power; n++) {
            double sum = 0, size = 0;
            for (int k = 0; k < t->n_node; k++) {
                double psf = 0;
                for (int j = 0; j < n_power; j++) psf += t->psf[k * n_power + j] * pow(x_of(b, i), j);
                sum += t->share[k] * pow(t->x[k], n) * psf;
                size += t->share[k] * fabs(pow(t->x[k], n) * psf);
            }
            assert_true(fabs(sum - pow(x_of(b, i), n)) <= 1e-6 * size);
        }
}

/* Solve a matrix whose column n is the right side, by Gaussian elimination: x_p = a[p][n] / a[p][p]. */
static void solve(int n, double a[MSI_TAYLOR_MAX_TERM][MSI_TAYLOR_MAX_TERM + 1])
{
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++) {
            const double factor = q == p ? 0 : a[q][p] / a[p][p];
            for (int k = 0; k <= n && q != p; k++) a[q][k] -= factor * a[p][k];
        }
}

/* A spectrum of 1 / frequency: its residuals R_t become, at the nodes, the least-squares polynomial through all
 * frequencies, by normal equations and Gaussian elimination. */
static void check_terms(const band *b, const msi_clean_taylor *t)
{
    const int n = t->n_term;
    double a[MSI_TAYLOR_MAX_TERM][MSI_TAYLOR_MAX_TERM + 1], residual[MSI_TAYLOR_MAX_TERM];
    const double all = sum_weights(b, 0);
    for (int p = 0; p < n; p++) {
        for (int q = 0; q < n; q++) a[p][q] = sum_weights(b, p + q) / all;
        a[p][n] = 0;
        for (int i = 0; i < b->n; i++)
            a[p][n] += b->weight[i] / all * pow(x_of(b, i), p) * b->reference_hz / b->freq_hz[i];
        residual[p] = a[p][n];
    }
    solve(n, a);
    double value[MSI_TAYLOR_MAX_NODE] = {0};
    for (int k = 0; k < t->n_node; k++) {
        double wanted = 0;
        for (int p = 0; p < n; p++) {
            value[k] += t->residual[k * n + p] * residual[p];
            wanted += a[p][n] / a[p][p] * pow(t->x[k], p);
        }
        assert_true(fabs(value[k] - wanted) <= 1e-8);
    }
    for (int p = 0; p < n; p++) {
        double term = 0;
        for (int k = 0; k < t->n_node; k++) term += t->term[p * t->n_node + k] * value[k];
        assert_true(fabs(term - a[p][n] / a[p][p]) <= 1e-6 * fabs(a[p][n] / a[p][p]) + 1e-9);
    }
}

/* The squared length of the rows times any residuals is R^T H^-1 R of the terms in x: the fall of chi^2. */
static void check_rows(const msi_clean_taylor *t)
{
    const int n = t->n_term;
    double a[MSI_TAYLOR_MAX_TERM][MSI_TAYLOR_MAX_TERM + 1] = {{0}}, right[MSI_TAYLOR_MAX_TERM],
                                                        response[MSI_TAYLOR_MAX_NODE];
    double wanted = 0, found = 0;
    msi_clean_taylor_rows r;
    for (int k = 0; k < t->n_node; k++) {
        response[k] = 0.5 + 0.3 * sin(2.0 * k);
        for (int p = 0; p < n; p++) {
            const double weight = t->share[k] * pow(t->x[k], p);
            for (int q = 0; q < n; q++) a[p][q] += weight * response[k] * pow(t->x[k], q);
            a[p][n] += weight * cos(3.0 * k);
        }
    }
    for (int p = 0; p < n; p++) right[p] = a[p][n];
    solve(n, a);
    for (int p = 0; p < n; p++) wanted += right[p] * a[p][n] / a[p][p];
    assert_int_equal(msi_clean_taylor_rows_make(&r, n, t->n_node, t->freq_hz, t->share, response), 1);
    for (int p = 0; p < n; p++) {
        double sum = 0;
        for (int k = 0; k < t->n_node; k++) sum += r.rows[p * t->n_node + k] * cos(3.0 * k);
        found += sum * sum;
    }
    assert_true(fabs(found - wanted) <= 1e-8 * wanted);
}

/* Without a Hessian that can be inverted, keys are means over the nodes. */
static void check_singular(const msi_clean_taylor *t)
{
    double response[MSI_TAYLOR_MAX_NODE] = {0.25};
    msi_clean_taylor_rows r;
    assert_int_equal(msi_clean_taylor_rows_make(&r, t->n_term, t->n_node, t->freq_hz, t->share, response), 0);
    for (int k = 0; k < t->n_node; k++) {
        const double wanted = t->share[k] / sqrt(0.25 * t->share[0]);
        assert_true(fabs(r.rows[k] - wanted) <= 1e-12 * wanted && r.rows[t->n_node + k] == 0);
    }
}

static void test_nodes(void **state)
{
    (void)state;
    const band bands[] = {make_band(32, 1e9, 2e9, 1.5e9), make_band(16, 0.9e9, 1.7e9, 0.9e9),
                          make_band(9, 140e6, 150e6, 145e6), make_band(32, 1e9, 1.01e9, 1e9)};
    for (size_t i = 0; i < sizeof bands / sizeof *bands; i++)
        for (int n_term = 2; n_term <= MSI_TAYLOR_MAX_TERM; n_term++) {
            msi_clean_taylor t;
            assert_int_equal(make(&t, &bands[i], n_term), MSI_OK);
            assert_int_equal(t.n_node, 2 * n_term - 1);
            check_nodes(&bands[i], &t);
            if (i < 3) check_terms(&bands[i], &t);
            if (i < 3) check_rows(&t);
            check_singular(&t);
        }
}

/* With fewer frequencies than nodes, the nodes are the frequencies; with fewer than terms there is no polynomial. */
static void test_few(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (int n_term = 2; n_term <= MSI_TAYLOR_MAX_TERM; n_term++) {
            const band b = make_band(n, 1e9, 1.6e9, 1.3e9);
            msi_clean_taylor t;
            const int rc = make(&t, &b, n_term);
            assert_int_equal(rc, n < n_term ? MSI_EINPUT : MSI_OK);
            if (rc) continue;
            assert_int_equal(t.n_node, n < 2 * n_term - 1 ? n : 2 * n_term - 1);
            check_nodes(&b, &t);
            check_terms(&b, &t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nodes), cmocka_unit_test(test_few)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
