/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Complex numbers of the moving window's tests, and their tolerances. */
#ifndef MSI_TESTS_WINDOW_NUMBERS_H
#define MSI_TESTS_WINDOW_NUMBERS_H

#include <math.h>
#include <stdint.h>

#include "kernels/wproj/job/wproj_geometry.h"
#include "tests/support/wgrid_cases.h"

/*
 * Allow for sums of some thousand products in another order: each addition rounds by 2^-24 of a partial sum, whose
 * terms are random, so the error stays near 1e-7 sqrt(10). The tolerance is ten times that. The tolerance
 * in double is found in the same way.
 */
static inline double tolerance(msi_precision precision)
{
    return precision == MSI_FP32 ? 3e-6 : 6e-15;
}

static inline int random_below(uint64_t *seed, int n)
{
    int x = (int)(msi_random(seed) * n);
    return x < n ? x : n - 1;
}

static inline msi_c64 product(msi_c64 a, msi_c64 b)
{
    return (msi_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static inline msi_c64 conjugate(msi_c64 a)
{
    return (msi_c64){a.re, -a.im};
}

static inline void add_to(msi_c64 *sum, msi_c64 x)
{
    sum->re += x.re;
    sum->im += x.im;
}

static inline double relative_error(const msi_c64 *x, const msi_c64 *truth, int64_t n)
{
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        off += (x[i].re - truth[i].re) * (x[i].re - truth[i].re) + (x[i].im - truth[i].im) * (x[i].im - truth[i].im);
        all += truth[i].re * truth[i].re + truth[i].im * truth[i].im;
    }
    return all > 0 ? sqrt(off / all) : off;
}

static inline int64_t modulo(int64_t x, int64_t n)
{
    return msi_wproj_wrap(x, n);
}

#endif
