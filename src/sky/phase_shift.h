/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Exact shifts of uvw and phases from one phase centre to another. */
#ifndef MSI_PHASE_SHIFT_H
#define MSI_PHASE_SHIFT_H

#include "core/types.h"

/* Part of the accuracy that may be lost if two centres are treated as equal. */
#define MSI_LOST_TO_CENTRE 1e-3

/* A shift: a rotation of uvw, and the direction that gives the path difference. */
typedef struct msi_phase_shift {
    double rotation[3][3]; /* new uvw = rotation * old uvw */
    double direction[3];   /* l, m, n - 1 of the new centre seen from the old one */
} msi_phase_shift;

/* msi_phase_shift_axes - compute unit vectors along the east, the north and the direction ra, dec, in equatorial
 * coordinates. Given: ra, dec  radians */
void msi_phase_shift_axes(double ra, double dec, double axes[3][3]);

/* msi_phase_shift_angle - return the angle between two directions, radians. */
double msi_phase_shift_angle(double ra_a, double dec_a, double ra_b, double dec_b);

/* msi_phase_shift_make - make the shift from one centre to another, radians, both in the same frame. */
void msi_phase_shift_make(msi_phase_shift *shift, double from_ra, double from_dec, double to_ra, double to_dec);

/*
 * msi_phase_shift_turns - return the largest phase change of a shift over rows.
 * Given:   freq_hz  highest frequency; uvw_m [n_row][3]  metres, of the old centre
 * Returns: the largest |u l + v m + w (n-1)| in turns
 */
double msi_phase_shift_turns(const msi_phase_shift *shift, int64_t n_row, double freq_hz, const double *uvw_m);

/*
 * msi_phase_shift_apply - shift visibilities and their uvw from the old centre to the new one.
 *
 * Given:              freq_hz [n_chan]
 * Given and returned: uvw_m [n_row][3]  metres
 *                     vis [n_plane][n_row][n_chan], multiplied by exp(-2 pi i (u l + v m + w (n-1))) with the old uvw
 *                     and the new centre's l, m, n
 */
void msi_phase_shift_apply(const msi_phase_shift *shift, int64_t n_row, int32_t n_chan, int n_plane,
                           const double *freq_hz, double *uvw_m, msi_c64 *vis);

/*
 * msi_phase_shift_rotate - rotate uvw only, to predict visibilities at the new centre.
 *
 * Given:    uvw_m [n_row][3]     metres, of the old centre
 * Returned: turned_m [n_row][3]  metres, of the new centre
 */
void msi_phase_shift_rotate(const msi_phase_shift *shift, int64_t n_row, const double *uvw_m, double *turned_m);

/*
 * msi_phase_shift_inverse - shift visibilities that were predicted at the new centre back to the old one: the
 * transpose of msi_phase_shift_apply.
 *
 * Given:              freq_hz [n_chan]; uvw_m [n_row][3]  metres, of the old centre
 * Given and returned: vis [n_plane][n_row][n_chan], multiplied by exp(+2 pi i (u l + v m + w (n-1)))
 */
void msi_phase_shift_inverse(const msi_phase_shift *shift, int64_t n_row, int32_t n_chan, int n_plane,
                             const double *freq_hz, const double *uvw_m, msi_c64 *vis);

#endif
