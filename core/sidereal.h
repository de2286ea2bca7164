/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Greenwich mean sidereal time, by the linear terms of Aoki et al. 1982, A&A 105, 359. */
#ifndef MSI_CORE_SIDEREAL_H
#define MSI_CORE_SIDEREAL_H

#include <math.h>

/* So many turns the Earth makes in a day of UT1. */
#define MSI_TURNS_PER_DAY 1.00273781191135448

/* msi_sidereal_turns - return sidereal time at Greenwich in turns, 0 .. 1. Given: mjd  of UT1. */
static inline double msi_sidereal_turns(double mjd)
{
    const double turns = 0.7790572732640 + MSI_TURNS_PER_DAY * (mjd - 51544.5);
    return turns - floor(turns);
}

#endif
