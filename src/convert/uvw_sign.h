/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compare uvw with the antennas' positions: programs differ in which antenna a baseline points from. */
#ifndef MSI_SRC_UVW_SIGN_H
#define MSI_SRC_UVW_SIGN_H

#include "io/convert/set_output.h"

/* Holds what is known so far. Zero-initialised at first. */
typedef struct msi_uvw_sign {
    double product, stored, computed; /* sums over rows of u u' + v v' + w w', of stored and computed coordinates */
    int64_t n_along, n_against;       /* rows whose vectors lie within 26 degrees of each other, or of the opposite */
} msi_uvw_sign;

/*
 * msi_uvw_sign_add - compare rows.
 * Given: antenna_m [..][3]  geocentric positions by the rows' numbers; ra_rad, dec_rad  the phase centre; n_row
 */
void msi_uvw_sign_add(msi_uvw_sign *s, const double *antenna_m, double ra_rad, double dec_rad, const msi_set_row *row,
                      int64_t n_row);

/* msi_uvw_sign_cosine - return 1 where uvw are those of the positions, ANTENNA2 less ANTENNA1; -1 where they are the
 * opposite; between them where they are neither, and 0 where nothing could be compared. */
double msi_uvw_sign_cosine(const msi_uvw_sign *s);

#endif
