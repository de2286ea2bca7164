/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/pb/pb_cube.h"

#include <math.h>
#include <stdio.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/fits_image.h"
#include "src/pb/pb_file.h"
#include "src/pb/pb_mean.h"
#include "src/sky/phase_shift.h"

enum { PARTS = 8 }; /* real and imaginary parts of a matrix */

struct msi_pb_cube {
    msi_fits_screen screen;
    double axes[3][3]; /* unit vectors along l, m and n at the reference pixel */
    double width_rad_hz;
};

int64_t msi_pb_cube_antennas(const char *path)
{
    int64_t n_matrix = 0, n_antenna = 0;
    (void)msi_fits_screen_planes(path, &n_matrix, &n_antenna);
    return n_matrix > 1 ? n_antenna : 0;
}

/* ---- The response ---- */

/* Two neighbouring planes, and the share of the second one. */
typedef struct neighbours {
    int64_t first, second;
    double part;
} neighbours;

static neighbours around(double at, int64_t n)
{
    const double inside = fmin(fmax(at, 0), (double)(n - 1));
    const int64_t first = (int64_t)inside, second = first + 1 < n ? first + 1 : first;
    return (neighbours){first, second, inside - (double)first};
}

/* Find the first of four pixels around a position, and their weights. */
static int64_t four_around(double x, int64_t n, double w[4])
{
    int64_t first = (int64_t)floor(x) - 1;
    first = first < 0 ? 0 : first > n - 4 ? n - 4 : first;
    msi_pb_cubic(x - (double)(first + 1), w);
    return first;
}

static double plane_at(const msi_fits_screen *s, int64_t plane, int64_t x, int64_t y, const double wx[4],
                       const double wy[4])
{
    const float *row = s->pixel + (plane * s->ny + y) * s->nx + x;
    double sum = 0;
    for (int i = 0; i < 4; i++, row += s->nx)
        sum +=
            wy[i] * (wx[0] * (double)row[0] + wx[1] * (double)row[1] + wx[2] * (double)row[2] + wx[3] * (double)row[3]);
    return sum;
}

/* Find the pixel of a direction. Returns: 1, or 0 outside of the file */
static int find_pixel(const msi_pb_cube *c, const double *sky, double *x, double *y)
{
    const msi_fits_screen *s = &c->screen;
    double lmn[3] = {0};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) lmn[k] += c->axes[k][i] * sky[i];
    *x = s->centre[0] + lmn[0] / s->step_rad[0];
    *y = s->centre[1] + lmn[1] / s->step_rad[1];
    return lmn[2] > 0 && *x >= 0 && *y >= 0 && *x <= (double)(s->nx - 1) && *y <= (double)(s->ny - 1);
}

int msi_pb_cube_covers(const msi_pb_cube *c, const double *sky)
{
    double x, y;
    return find_pixel(c, sky, &x, &y);
}

void msi_pb_cube_jones(const msi_pb_cube *c, int antenna, double freq_hz, const msi_pb_direction *direction,
                       msi_c64 jones[4])
{
    const msi_fits_screen *s = &c->screen;
    double value[PARTS] = {0}, wx[4], wy[4], x, y;
    if (find_pixel(c, direction->sky, &x, &y)) {
        const int64_t i = four_around(x, s->nx, wx), j = four_around(y, s->ny, wy);
        const neighbours f = around(s->n_freq > 1 ? (freq_hz - s->freq_hz) / s->freq_step_hz : 0, s->n_freq),
                         t = around(s->n_time > 1 ? (direction->mjd_s - s->time_s) / s->time_step_s : 0, s->n_time);
        for (int k = 0; k < 4; k++) {
            const int64_t time = k < 2 ? t.first : t.second, freq = k % 2 ? f.second : f.first;
            const double w = (k < 2 ? 1 - t.part : t.part) * (k % 2 ? f.part : 1 - f.part);
            for (int e = 0; w > 0 && e < PARTS; e++)
                value[e] +=
                    w * plane_at(s, ((time * s->n_freq + freq) * s->n_antenna + antenna) * PARTS + e, i, j, wx, wy);
        }
    }
    for (int e = 0; e < 4; e++) jones[e] = (msi_c64){value[2 * e], value[2 * e + 1]};
}

/* ---- Checks ---- */

static int check_antennas(const msi_pb_cube *c, const char *path, const msi_pb_set *set)
{
    const int64_t n = c->screen.n_antenna;
    if (c->screen.n_matrix != PARTS)
        return msi_error_set(MSI_EINPUT, "%s: its axis MATRIX has %lld planes; Jones matrices have %d", path,
                             (long long)c->screen.n_matrix, PARTS);
    if (set->is_circular)
        return msi_error_set(MSI_EINPUT, "%s: its beams are of linear feeds, those of the set are circular", path);
    if (n != 1 && n != set->n_antenna)
        return msi_error_set(MSI_EINPUT, "%s: has %lld antennas, the set %lld; give beams of this set", path,
                             (long long)n, (long long)set->n_antenna);
    if (n > MSI_PB_STATIONS)
        return msi_error_set(MSI_EINPUT, "%s: has beams of %lld stations; at most %d are possible", path, (long long)n,
                             MSI_PB_STATIONS);
    return MSI_OK;
}

/* Check that the channels lie within half a step of the planes. */
static int check_channels(const msi_fits_screen *s, const char *path, const msi_pb_set *set)
{
    const double half = 0.5 * fabs(s->freq_step_hz) * (1 + 1e-9),
                 end = s->freq_hz + (double)(s->n_freq - 1) * s->freq_step_hz, low = fmin(s->freq_hz, end) - half,
                 high = fmax(s->freq_hz, end) + half;
    if (!(low > 0) || (s->n_freq > 1 && s->freq_step_hz == 0))
        return msi_error_set(MSI_EINPUT,
                             "%s: its axis FREQ begins at %g Hz with steps of %g Hz; beams need frequencies", path,
                             s->freq_hz, s->freq_step_hz);
    if (set->low_hz >= low && set->high_hz <= high) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s: the beam is given from %g to %g MHz, but the channels are from %g to %g MHz; select "
                         "channels, or give a beam that covers them",
                         path, 1e-6 * low, 1e-6 * high, 1e-6 * set->low_hz, 1e-6 * set->high_hz);
}

/* Check that the samples lie within a step of the times; one time stands for half an hour. */
static int check_times(const msi_fits_screen *s, const char *path, const msi_pb_set *set)
{
    const double around_s = s->n_time > 1 ? s->time_step_s : 900,
                 end_s = s->time_s + (double)(s->n_time - 1) * s->time_step_s;
    if (set->first_s >= s->time_s - around_s && set->last_s <= end_s + around_s) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s: its times are MJD %.4f to %.4f, those of the set %.4f to %.4f; give beams of this set",
                         path, s->time_s / 86400, end_s / 86400, set->first_s / 86400, set->last_s / 86400);
}

/* Return the power of the first antenna at a distance from the middle, in the middle of the times. */
static double power_at(const msi_pb_cube *c, double freq_hz, double l, double m)
{
    const msi_fits_screen *s = &c->screen;
    const double n = sqrt(fmax(0, 1 - l * l - m * m));
    double sky[3], sum = 0;
    msi_c64 j[4];
    for (int i = 0; i < 3; i++) sky[i] = l * c->axes[0][i] + m * c->axes[1][i] + n * c->axes[2][i];
    const msi_pb_direction d = {.sky = sky, .mjd_s = s->time_s + 0.5 * (double)(s->n_time - 1) * s->time_step_s};
    msi_pb_cube_jones(c, 0, freq_hz, &d, j);
    for (int e = 0; e < 4; e++) sum += j[e].re * j[e].re + j[e].im * j[e].im;
    return sum / 2;
}

/* Find the smaller of the widths along l and m. */
static int measure(msi_pb_cube *c, const char *path, double freq_hz)
{
    enum { STEPS = 512 };
    const msi_fits_screen *s = &c->screen;
    const double here = power_at(c, freq_hz, 0, 0),
                 size = fmin((double)(s->nx - 1) * fabs(s->step_rad[0]), (double)(s->ny - 1) * fabs(s->step_rad[1]));
    double half = size / 8;
    if (!(here > 0))
        return msi_error_set(MSI_EINPUT,
                             "%s: the power at its reference pixel, %g %g, is %g at %g MHz; a beam sees that direction",
                             path, s->centre[0] + 1, s->centre[1] + 1, here, 1e-6 * freq_hz);
    for (int k = 0; k < 2; k++)
        for (int i = 1; i < STEPS; i++) {
            const double r = size / 8 * i / STEPS;
            if (r < half && power_at(c, freq_hz, k ? 0 : r, k ? r : 0) < here / 2) half = r;
        }
    c->width_rad_hz = 2 * half * freq_hz;
    return MSI_OK;
}

int msi_pb_cube_read(msi_pb_cube **out, const char *path, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    msi_pb_cube *c;
    *out = NULL;
    MSI_TRY(msi_alloc(&c, 1, sizeof *c, "primary beam"));
    int rc = msi_fits_screen_read(&c->screen, path);
    const msi_fits_screen *s = &c->screen;
    if (!rc) rc = check_antennas(c, path, set);
    if (!rc) rc = check_channels(s, path, set);
    if (!rc) rc = check_times(s, path, set);
    if (!rc) {
        msi_phase_shift_axes(s->ra_rad, s->dec_rad, c->axes);
        rc = measure(c, path, set->high_hz);
    }
    if (rc) {
        msi_pb_cube_free(c);
        return rc;
    }
    snprintf(note, MSI_PB_NOTE, "%.120s, Jones matrices of %s, %lld frequenc%s, %lld time%s", path,
             s->n_antenna > 1 ? "each station" : "all stations", (long long)s->n_freq, s->n_freq == 1 ? "y" : "ies",
             (long long)s->n_time, msi_plural(s->n_time));
    *out = c;
    return MSI_OK;
}

void msi_pb_cube_free(msi_pb_cube *c)
{
    if (!c) return;
    msi_fits_screen_free(&c->screen);
    msi_free(c);
}

int msi_pb_cube_has_stations(const msi_pb_cube *c)
{
    return c->screen.n_antenna > 1;
}

double msi_pb_cube_width(const msi_pb_cube *c, double freq_hz)
{
    return c->width_rad_hz / freq_hz;
}
