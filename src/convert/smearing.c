/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/smearing.h"

#include <math.h>

#include "core/types.h"

/* The Earth turns by so much in a second: 2 pi in a sidereal day. */
static const double EARTH_RAD_S = 7.292115e-5;

double msi_smearing_loss(double turns)
{
    const double x = MSI_PI * turns;
    if (turns >= 1) return 1;
    /* Below this the series' next term is less than a rounding error. */
    return fabs(x) < 1e-4 ? x * x / 6 : 1 - sin(x) / x;
}

double msi_smearing_turns(double loss)
{
    double low = 0, high = 1;
    if (loss >= 1) return 1;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);
        *(msi_smearing_loss(middle) <= loss ? &low : &high) = middle;
    }
    return low;
}

double msi_smearing_time_turns(double baseline_m, double radius_rad, double time_s, double freq_hz)
{
    return EARTH_RAD_S * time_s * baseline_m * freq_hz / MSI_SPEED_OF_LIGHT * sin(radius_rad);
}

double msi_smearing_band_turns(double baseline_m, double radius_rad, double width_hz)
{
    return baseline_m * width_hz / MSI_SPEED_OF_LIGHT * sin(radius_rad);
}
