/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Log-polynomial spectra, exp(sum_k b_k x^k), fitted to values on a linear scale by the method of Levenberg and
 * Marquardt. This file has its own exponential and logarithm, because those of libraries round differently on each
 * backend. */
#ifndef MSI_CLEAN_LOG_FIT_H
#define MSI_CLEAN_LOG_FIT_H

#include "kernels/clean/clean_engine.h"

enum { MSI_CLEAN_LOG_TERMS = 8, MSI_CLEAN_LOG_STEPS = 40 };

/* Compute the natural logarithm of x > 0, to some units of the last place: 2 artanh((m - 1) / (m + 1)) of the
 * mantissa. */
MSI_CLEAN_FN double msi_clean_log(double x)
{
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752440) {
        m *= 2;
        exponent--;
    }
    const double s = (m - 1) / (m + 1), s2 = s * s;
    double sum = 0;
    for (int k = 27; k > 1; k -= 2) sum = fma(sum, s2, 1.0 / k);
    sum = fma(sum * s2, 2 * s, 2 * s);
    return fma((double)exponent, 0.69314718055994530942, sum);
}

/* Compute e^x to some units of the last place; 0 or infinite far outside the range. */
MSI_CLEAN_FN double msi_clean_exp(double x)
{
    if (!(x > -700)) return 0;
    if (x > 700) return HUGE_VAL;
    const double n = floor(fma(x, 1.44269504088896340736, 0.5));
    double r = fma(-n, 0.693147180369123816490, x), sum = 1;
    r = fma(-n, 1.90821492927058770002e-10, r);
    for (int k = 15; k > 0; k--) sum = fma(sum * r, 1.0 / k, 1.0);
    return ldexp(sum, (int)n);
}

/* The state of a fit. */
typedef struct msi_clean_log_state {
    double b[MSI_CLEAN_LOG_TERMS], value[MSI_CLEAN_LOG_CHANNELS], squares;
} msi_clean_log_state;

/* Return the spectrum of b at x. */
MSI_CLEAN_FN double msi_clean_log_at(const double *b, int n_term, double x)
{
    double sum = 0;
    for (int k = n_term - 1; k >= 0; k--) sum = fma(sum, x, b[k]);
    return msi_clean_exp(sum);
}

/* Evaluate the spectrum of s->b, and the weighted sum of squares of its differences from y. */
MSI_CLEAN_FN void msi_clean_log_evaluate(const msi_clean_log_table *t, const double *y, msi_clean_log_state *s)
{
    s->squares = 0;
    for (int c = 0; c < t->n_channel; c++) {
        s->value[c] = 0;
        for (int i = 0; i < t->n_node; i++)
            if (t->part[c][i] > 0)
                s->value[c] = fma(t->part[c][i], msi_clean_log_at(s->b, t->n_term, t->x[c][i]), s->value[c]);
        if (t->weight[c] > 0) {
            const double residual = y[c] - s->value[c], weighted = t->weight[c] * residual;
            s->squares = fma(weighted, residual, s->squares);
        }
    }
}

/* Solve n d = g for a symmetric n [k][k] by Cholesky's method. g becomes d, and the lower half of n its factor. Returns
 * 0 if n is not positive definite. */
MSI_CLEAN_FN int msi_clean_log_solve(int k, double n[MSI_CLEAN_LOG_TERMS][MSI_CLEAN_LOG_TERMS], double *g)
{
    for (int i = 0; i < k; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = n[i][j];
            for (int l = 0; l < j; l++) sum = fma(-n[i][l], n[j][l], sum);
            if (i == j && !(sum > 0)) return 0;
            n[i][j] = i == j ? sqrt(sum) : sum / n[j][j];
        }
        for (int l = 0; l < i; l++) g[i] = fma(-n[i][l], g[l], g[i]);
        g[i] /= n[i][i];
    }
    for (int i = k - 1; i >= 0; i--) {
        for (int l = i + 1; l < k; l++) g[i] = fma(-n[l][i], g[l], g[i]);
        g[i] /= n[i][i];
    }
    return 1;
}

/* Compute a step of b by the normal equations. If `first`, fit the logarithm of y, with weights w y^2, from b = 0;
 * otherwise fit y. Returns 0 if the equations have no solution. */
MSI_CLEAN_FN int msi_clean_log_step(const msi_clean_log_table *t, const double *y, const msi_clean_log_state *s,
                                    int first, double damp, double *step)
{
    double n[MSI_CLEAN_LOG_TERMS][MSI_CLEAN_LOG_TERMS] = {{0}};
    for (int k = 0; k < t->n_term; k++) step[k] = 0;
    for (int c = 0; c < t->n_channel; c++) {
        if (!(t->weight[c] > 0)) continue;
        const double residual = first ? y[c] * msi_clean_log(y[c]) : y[c] - s->value[c];
        double slope[MSI_CLEAN_LOG_TERMS] = {0}; /* derivatives of the value by the terms */
        for (int i = 0; i < t->n_node; i++) {
            if (!(t->part[c][i] > 0)) continue;
            double power = t->part[c][i] * (first ? y[c] : msi_clean_log_at(s->b, t->n_term, t->x[c][i]));
            for (int k = 0; k < t->n_term; k++) {
                slope[k] += power;
                power *= t->x[c][i];
            }
        }
        for (int k = 0; k < t->n_term; k++) {
            const double weighted = t->weight[c] * slope[k];
            step[k] = fma(weighted, residual, step[k]);
            for (int i = k; i < t->n_term; i++) n[i][k] = fma(weighted, slope[i], n[i][k]);
        }
    }
    for (int k = 0; k < t->n_term; k++) n[k][k] = fma(n[k][k], damp, n[k][k]);
    return msi_clean_log_solve(t->n_term, n, step);
}

/*
 * msi_clean_log_find - find the log-polynomial of values.
 * Given:    y [n_channel]
 * Returned: *at  the fit of |y|: its b, values, and sum of squares
 * Returns:  the sign of the values, 1 or -1; 0 if there is no fit, because they differ in sign or one is zero
 */
MSI_CLEAN_FN int msi_clean_log_find(const msi_clean_log_table *t, const double *y, msi_clean_log_state *at)
{
    msi_clean_log_state next;
    double damp = 1e-3, size[MSI_CLEAN_LOG_CHANNELS];
    int sign = 0;
    for (int c = 0; c < t->n_channel; c++) {
        size[c] = fabs(y[c]);
        if (!(t->weight[c] > 0)) continue;
        if (sign == 0) sign = y[c] < 0 ? -1 : 1;
        if (!(y[c] * sign > 0)) return 0;
    }
    if (!msi_clean_log_step(t, size, at, 1, 0, at->b)) return 0;
    msi_clean_log_evaluate(t, size, at);
    for (int i = 0; i < MSI_CLEAN_LOG_STEPS; i++) {
        double step[MSI_CLEAN_LOG_TERMS];
        if (!msi_clean_log_step(t, size, at, 0, damp, step)) break;
        for (int k = 0; k < t->n_term; k++) next.b[k] = at->b[k] + step[k];
        msi_clean_log_evaluate(t, size, &next);
        if (next.squares < at->squares) {
            const int small = at->squares - next.squares <= 1e-14 * at->squares;
            *at = next;
            damp *= 0.1;
            if (small) break;
        } else {
            if (damp > 1e6) break;
            damp *= 10;
        }
    }
    return sign;
}

/*
 * msi_clean_log_fit - multiply values by the correction, and replace them by their log-polynomial fit; n_term >= 1.
 * Given and returned: y [n_channel]; 0 in channels of weight 0
 * Returns: 0 if there is no fit; y is then undefined
 */
MSI_CLEAN_FN int msi_clean_log_fit(const msi_clean_log_table *t, double *y)
{
    msi_clean_log_state at;
    for (int c = 0; c < t->n_channel; c++) y[c] *= t->correction[c];
    const int sign = msi_clean_log_find(t, y, &at);
    if (!sign) return 0;
    for (int c = 0; c < t->n_channel; c++) y[c] = t->weight[c] > 0 ? sign * at.value[c] : 0;
    return 1;
}

#endif
