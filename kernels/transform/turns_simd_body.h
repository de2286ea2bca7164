/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Phases in turns in one precision. Included with REAL and SUFFIX set by loops over samples or pixels. */

/*
 * Compute sine and cosine of 2 pi x for |x| <= 1/2, by Taylor series about the nearest quarter turn. The omitted terms
 * are below 4e-9 (float) and 1e-19 (double) at an eighth of a turn. Branch-free, so that loops over it vectorise.
 */
ALWAYS_INLINE void NAME(sincos_turns)(REAL x, REAL *sine, REAL *cosine)
{
    REAL quarter = sizeof(REAL) == 4 ? (REAL)rintf((float)(4 * x)) : (REAL)rint(4 * (double)x);
    REAL a = (x - quarter * (REAL)0.25) * (REAL)(2 * MSI_PI), b = a * a, s, c;
    if (sizeof(REAL) == 4) {
        s = a *
            (1 + b * (-(REAL)(1. / 6) + b * ((REAL)(1. / 120) + b * (-(REAL)(1. / 5040) + b * (REAL)(1. / 362880)))));
        c = 1 + b * (-(REAL)0.5 + b * ((REAL)(1. / 24) + b * (-(REAL)(1. / 720) + b * (REAL)(1. / 40320))));
    } else {
        s = (REAL)(1. / 355687428096000.);
        s = s * b - (REAL)(1. / 1307674368000.);
        s = s * b + (REAL)(1. / 6227020800.);
        s = s * b - (REAL)(1. / 39916800.);
        s = s * b + (REAL)(1. / 362880.);
        s = s * b - (REAL)(1. / 5040.);
        s = s * b + (REAL)(1. / 120.);
        s = s * b - (REAL)(1. / 6.);
        s = a + a * b * s;
        c = (REAL)(1. / 20922789888000.);
        c = c * b - (REAL)(1. / 87178291200.);
        c = c * b + (REAL)(1. / 479001600.);
        c = c * b - (REAL)(1. / 3628800.);
        c = c * b + (REAL)(1. / 40320.);
        c = c * b - (REAL)(1. / 720.);
        c = c * b + (REAL)(1. / 24.);
        c = c * b - (REAL)0.5;
        c = 1 + b * c;
    }
    int turn = (int)quarter;
    int swap = turn & 1;
    REAL sine_sign = turn & 2 ? -1 : 1, cosine_sign = (turn + 1) & 2 ? -1 : 1;
    *sine = sine_sign * (swap ? c : s);
    *cosine = cosine_sign * (swap ? s : c);
}

/* Return x modulo one turn, in [-1/2, 1/2]. */
ALWAYS_INLINE REAL NAME(fraction)(double turns)
{
    return (REAL)(turns - rint(turns));
}
