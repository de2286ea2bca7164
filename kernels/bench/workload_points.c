/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reference of rows points/, and the bound that its memory sets. */
#include "kernels/bench/workload_points.h"

#include <math.h>

static msi_c64 weight(const msi_wproj_sample *s, int32_t taps, int32_t tu, int32_t tv, const msi_gather_phase *phase)
{
    const int32_t os = MSI_POINTS_OVERSAMPLE, squares = os + 1;
    if (!phase) {
        int64_t square = (int64_t)(s->sub_u + os / 2) * squares + s->sub_v + os / 2;
        msi_c32 g = msi_points_value(MSI_POINTS_TABLE, (uint64_t)((square * taps + tv) * taps + tu));
        return (msi_c64){g.re, g.im};
    }
    double step = 2.0 / taps, x = (tu - taps / 2 - (double)s->sub_u / os) * step,
           y = (tv - taps / 2 - (double)s->sub_v / os) * step;
    double p = phase->turns * (1 - sqrt(x * x + y * y));
    for (int i = 0; i < phase->n_polynomial; i++) p += p * p / MSI_GATHER_PHASE_SCALE;
    p = 2 * MSI_PI * (p - rint(p));
    return (msi_c64){cos(p), sin(p)};
}

msi_c64 msi_points_reference(int32_t taps, uint64_t i, const msi_gather_phase *phase)
{
    const int32_t n = MSI_POINTS_CELLS;
    msi_wproj_sample s = msi_points_sample(i);
    msi_c64 sum = {0, 0};
    for (int32_t tv = 0; tv < taps; tv++)
        for (int32_t tu = 0; tu < taps; tu++) {
            int64_t u = (s.u - taps / 2 + tu + n) % n, v = (s.v - taps / 2 + tv + n) % n;
            msi_c32 x = msi_points_value(MSI_POINTS_IMAGE, (uint64_t)(v * n + u));
            msi_c64 g = weight(&s, taps, tu, tv, phase);
            sum.re += (double)x.re * g.re + (double)x.im * g.im;
            sum.im += (double)x.im * g.re - (double)x.re * g.im;
        }
    return sum;
}

double msi_points_bound_ms(int32_t taps, int64_t n, msi_precision precision, double bytes_per_s)
{
    const double sector = 32, cell = (double)msi_complex_bytes(precision);
    const double cells = (double)MSI_POINTS_CELLS * MSI_POINTS_CELLS, per_sector = sector / cell;
    /* A sector is touched by the points whose first cell lies in one of so many places. */
    double places = taps * (taps + per_sector - 1);
    double touched = cells / per_sector * -expm1(-(double)n * places / cells);
    return 1e3 * (touched * sector + (double)n * (sizeof(msi_wproj_sample) + cell)) / bytes_per_s;
}
