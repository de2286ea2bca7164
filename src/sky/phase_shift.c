/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/phase_shift.h"

#include <math.h>

void msi_phase_shift_axes(double ra, double dec, double e[3][3])
{
    double sa = sin(ra), ca = cos(ra), sd = sin(dec), cd = cos(dec);
    double rows[3][3] = {{-sa, ca, 0}, {-sd * ca, -sd * sa, cd}, {cd * ca, cd * sa, sd}};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) e[i][j] = rows[i][j];
}

double msi_phase_shift_angle(double ra_a, double dec_a, double ra_b, double dec_b)
{
    const double half_dec = sin(0.5 * (dec_b - dec_a)), half_ra = sin(0.5 * (ra_b - ra_a));
    return 2 * asin(fmin(1, sqrt(half_dec * half_dec + cos(dec_a) * cos(dec_b) * half_ra * half_ra)));
}

void msi_phase_shift_make(msi_phase_shift *shift, double from_ra, double from_dec, double to_ra, double to_dec)
{
    double from[3][3], to[3][3];
    msi_phase_shift_axes(from_ra, from_dec, from);
    msi_phase_shift_axes(to_ra, to_dec, to);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double sum = 0;
            for (int k = 0; k < 3; k++) sum += to[i][k] * from[j][k];
            shift->rotation[i][j] = sum;
        }
    /* n is close to 1 for a small shift, so compute n - 1 from half angles, without cancellation. */
    double half_ra = sin(0.5 * (to_ra - from_ra)), half_dec = sin(0.5 * (to_dec - from_dec));
    shift->direction[0] = cos(to_dec) * sin(to_ra - from_ra);
    shift->direction[1] = sin(to_dec - from_dec) + 2 * sin(from_dec) * cos(to_dec) * half_ra * half_ra;
    shift->direction[2] = -2 * (half_dec * half_dec + cos(from_dec) * cos(to_dec) * half_ra * half_ra);
}

double msi_phase_shift_turns(const msi_phase_shift *shift, int64_t n_row, double freq_hz, const double *uvw_m)
{
    double longest_m = 0;
    for (int64_t row = 0; row < n_row; row++) {
        double path_m = 0;
        for (int j = 0; j < 3; j++) path_m += uvw_m[3 * row + j] * shift->direction[j];
        longest_m = fmax(longest_m, fabs(path_m));
    }
    return longest_m / MSI_SPEED_OF_LIGHT * freq_hz;
}

static inline void rotate_uvw(const msi_phase_shift *shift, const double *uvw, double *turned)
{
    for (int i = 0; i < 3; i++) {
        turned[i] = 0;
        for (int j = 0; j < 3; j++) turned[i] += shift->rotation[i][j] * uvw[j];
    }
}

/* The visibilities of a shift, its direction and its sign. */
typedef struct rotation {
    const double *direction; /* [3] of the shift */
    int sign;
    int n_plane;
    int64_t n_row;
    int32_t n_chan;
    const double *freq_hz; /* [n_chan] */
    msi_c64 *vis;          /* [n_plane][n_row][n_chan] */
} rotation;

/* Multiply one row by exp(sign 2 pi i (u l + v m + w (n-1))), uvw in metres. */
static inline void rotate_row(const rotation *t, int64_t row, const double *uvw)
{
    const int32_t n_chan = t->n_chan;
    double path_m = 0;
    for (int j = 0; j < 3; j++) path_m += uvw[j] * t->direction[j];
    for (int32_t c = 0; c < n_chan; c++) {
        double turns = path_m / MSI_SPEED_OF_LIGHT * t->freq_hz[c];
        double phase = 2 * MSI_PI * (turns - rint(turns)), re = cos(phase), im = t->sign * sin(phase);
        for (int p = 0; p < t->n_plane; p++) {
            msi_c64 *v = &t->vis[((int64_t)p * t->n_row + row) * n_chan + c], old = *v;
            v->re = old.re * re - old.im * im;
            v->im = old.re * im + old.im * re;
        }
    }
}

void msi_phase_shift_apply(const msi_phase_shift *shift, int64_t n_row, int32_t n_chan, int n_plane,
                           const double *freq_hz, double *uvw_m, msi_c64 *vis)
{
    const rotation t = {shift->direction, -1, n_plane, n_row, n_chan, freq_hz, vis};
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < n_row; row++) {
        double *uvw = uvw_m + 3 * row, turned[3];
        rotate_row(&t, row, uvw);
        rotate_uvw(shift, uvw, turned);
        for (int i = 0; i < 3; i++) uvw[i] = turned[i];
    }
}

void msi_phase_shift_rotate(const msi_phase_shift *shift, int64_t n_row, const double *uvw_m, double *turned_m)
{
    for (int64_t row = 0; row < n_row; row++) rotate_uvw(shift, uvw_m + 3 * row, turned_m + 3 * row);
}

void msi_phase_shift_inverse(const msi_phase_shift *shift, int64_t n_row, int32_t n_chan, int n_plane,
                             const double *freq_hz, const double *uvw_m, msi_c64 *vis)
{
    const rotation t = {shift->direction, 1, n_plane, n_row, n_chan, freq_hz, vis};
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < n_row; row++) rotate_row(&t, row, uvw_m + 3 * row);
}
