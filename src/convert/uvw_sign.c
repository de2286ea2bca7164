/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/uvw_sign.h"

#include <math.h>

#include "core/sidereal.h"

/* The cosine of the angle within which vectors are taken for the same. */
static const double NEAR = 0.9;

void msi_uvw_sign_add(msi_uvw_sign *s, const double *antenna_m, double ra_rad, double dec_rad, const msi_set_row *row,
                      int64_t n_row)
{
    for (int64_t i = 0; i < n_row; i++) {
        const msi_set_row *r = &row[i];
        const double *p = antenna_m + 3 * (int64_t)r->antenna1, *q = antenna_m + 3 * (int64_t)r->antenna2;
        const double x = q[0] - p[0], y = q[1] - p[1], z = q[2] - p[2];
        /* No sign hangs on the second between UTC and UT1, nor on precession and nutation. */
        const double hour_rad = 2 * MSI_PI * msi_sidereal_turns(r->time_s / 86400) - ra_rad, sh = sin(hour_rad),
                     ch = cos(hour_rad);
        const double u = sh * x + ch * y, toward = ch * x - sh * y;
        const double v = cos(dec_rad) * z - sin(dec_rad) * toward, w = sin(dec_rad) * z + cos(dec_rad) * toward;
        const double product = u * r->uvw_m[0] + v * r->uvw_m[1] + w * r->uvw_m[2];
        const double computed = u * u + v * v + w * w;
        double stored = 0;
        for (int k = 0; k < 3; k++) stored += r->uvw_m[k] * r->uvw_m[k];
        const double alike = NEAR * sqrt(stored) * sqrt(computed);
        s->n_along += product > alike;
        s->n_against += product < -alike;
        s->product += product;
        s->computed += computed;
        s->stored += stored;
    }
}

double msi_uvw_sign_cosine(const msi_uvw_sign *s)
{
    const double length = sqrt(s->stored) * sqrt(s->computed);
    return length > 0 && isfinite(length) ? s->product / length : 0;
}
