/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/join/join_map.h"

#include <math.h>
#include <pthread.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "src/pb/pb_mean.h"

static const double RAD = MSI_PI / 180;

enum { STEP = 8 }; /* pixels from node to node */

/* ---- Places ---- */

void msi_join_offset(const double sky_deg[2], const double pointing_deg[2], double off[2])
{
    const double d = (sky_deg[0] - pointing_deg[0]) * RAD, dec = sky_deg[1] * RAD, dec0 = pointing_deg[1] * RAD;
    const double l = cos(dec) * sin(d), m = sin(dec) * cos(dec0) - cos(dec) * sin(dec0) * cos(d),
                 n = sin(dec) * sin(dec0) + cos(dec) * cos(dec0) * cos(d);
    const double chord = hypot(l, m), grow = chord > 1e-9 ? atan2(chord, n) / chord : 1;
    off[0] = l * grow;
    off[1] = m * grow;
}

/* Include the pixels around a node. */
static void widen(msi_join_map *m, const msi_image_geometry *g, int64_t x, int64_t y)
{
    m->x0 = x - 2 * STEP < m->x0 ? x - 2 * STEP : m->x0;
    m->y0 = y - 2 * STEP < m->y0 ? y - 2 * STEP : m->y0;
    m->x1 = x + 2 * STEP > m->x1 ? x + 2 * STEP : m->x1;
    m->y1 = y + 2 * STEP > m->y1 ? y + 2 * STEP : m->y1;
    m->x0 = m->x0 < 0 ? 0 : m->x0;
    m->y0 = m->y0 < 0 ? 0 : m->y0;
    m->x1 = m->x1 > g->nx ? g->nx : m->x1;
    m->y1 = m->y1 > g->ny ? g->ny : m->y1;
}

/* Return whether a pixel of the image is in it, or within a few nodes of it. */
static int is_near(const double at[2], const int64_t n[2], double margin)
{
    return at[0] > -margin && at[0] < (double)n[0] + margin && at[1] > -margin && at[1] < (double)n[1] + margin;
}

int msi_join_map_make(msi_join_map *out, const msi_image_geometry *geometry, const msi_sky_wcs *wcs,
                      const msi_sky_wcs *image, const int64_t n[2], const double pointing_deg[2])
{
    msi_join_map m = {.nx = geometry->nx / STEP + 4, .ny = geometry->ny / STEP + 4, .x0 = INT64_MAX, .y0 = INT64_MAX};
    const msi_sky_axes *fine = msi_sky_wcs_axes(image);
    const double ratio = geometry->cell_y_rad / (fabs(fine->cdelt_deg[1]) * RAD);
    const double margin = 2 * STEP * fmax(1, isfinite(ratio) ? ratio : 1) + 2;
    *out = (msi_join_map){0};
    MSI_TRY(msi_alloc(&m.node, m.nx * m.ny, sizeof *m.node, "coordinates"));
    int rc = MSI_OK;
    for (int64_t j = 0; j < m.ny && !rc; j++) {
        rc = msi_interrupt_check();
        for (int64_t i = 0; i < m.nx; i++) {
            msi_join_place *p = &m.node[j * m.nx + i];
            const double at[2] = {(double)((i - 1) * STEP), (double)((j - 1) * STEP)};
            double sky[2];
            *p = (msi_join_place){{NAN, NAN}, {NAN, NAN}};
            if (!msi_sky_wcs_pixel_to_sky(wcs, at, sky)) continue;
            msi_join_offset(sky, pointing_deg, p->off);
            if (!msi_sky_wcs_sky_to_pixel(image, sky, p->at)) continue;
            if (is_near(p->at, n, margin)) widen(&m, geometry, (i - 1) * STEP, (j - 1) * STEP);
        }
    }
    if (m.x1 <= m.x0 || m.y1 <= m.y0) m.x0 = m.x1 = m.y0 = m.y1 = 0;
    if (rc)
        msi_join_map_free(&m);
    else
        *out = m;
    return rc;
}

void msi_join_map_free(msi_join_map *m)
{
    msi_free(m->node);
    *m = (msi_join_map){0};
}

/* Return the sum of four places by weights. */
static msi_join_place blend(const msi_join_place *p, int64_t stride, const double w[4])
{
    msi_join_place sum = {{0, 0}, {0, 0}};
    for (int k = 0; k < 4; k++)
        for (int c = 0; c < 2; c++) {
            sum.at[c] += w[k] * p[k * stride].at[c];
            sum.off[c] += w[k] * p[k * stride].off[c];
        }
    return sum;
}

void msi_join_map_row(const msi_join_map *m, int64_t y, msi_join_place *scratch, msi_join_place *place)
{
    double w[4];
    msi_pb_cubic((double)(y % STEP) / STEP, w);
    for (int64_t i = m->x0 / STEP; i < m->nx && i <= m->x1 / STEP + 3; i++)
        scratch[i] = blend(m->node + y / STEP * m->nx + i, m->nx, w);
    for (int64_t x = m->x0; x < m->x1; x++) {
        msi_pb_cubic((double)(x % STEP) / STEP, w);
        place[x - m->x0] = blend(scratch + x / STEP, 1, w);
    }
}

/* ---- Values ---- */

enum { ORDER = 4, TAPS = 2 * ORDER, FRACTIONS = 1024 };

static double tap_table[FRACTIONS + 1][TAPS];
static pthread_once_t tap_once = PTHREAD_ONCE_INIT;

static double sinc(double x)
{
    return fabs(x) < 1e-12 ? 1 : sin(MSI_PI * x) / (MSI_PI * x);
}

/* The modified Bessel function of order 0. */
static double bessel_i0(double x)
{
    double sum = 1, term = 1;
    for (int k = 1; term > 1e-17 * sum; k++) sum += term *= x * x / (4.0 * k * k);
    return sum;
}

/* Kaiser's window: with this width a Gaussian of three pixels is right to 1e-3 of its peak, one of four to 5e-4. */
static const double KAISER = 5.5;

static void make_taps(void)
{
    for (int i = 0; i <= FRACTIONS; i++)
        for (int k = 0; k < TAPS; k++) {
            const double x = (double)i / FRACTIONS - (k - ORDER + 1), r = x / ORDER;
            tap_table[i][k] = r * r < 1 ? sinc(x) * bessel_i0(KAISER * sqrt(1 - r * r)) : 0;
        }
}

/* Find the pixels along an axis and their weights. Returns the first pixel; *first, *end of the taps that count. */
static int64_t find_taps(double at, double tap[TAPS], int *first, int *end)
{
    /* A place this near a pixel is the pixel: images on one grid are not interpolated. */
    static const double SAME = 1e-5;
    double whole = floor(at), t = at - whole;
    if (t > 1 - SAME) whole += 1, t = 0;
    const int is_same = t < SAME;
    const double place = is_same ? 0 : t * FRACTIONS;
    const int i = place < FRACTIONS ? (int)place : FRACTIONS - 1;
    for (int k = 0; k < TAPS; k++) tap[k] = tap_table[i][k] + (place - i) * (tap_table[i + 1][k] - tap_table[i][k]);
    *first = is_same ? ORDER - 1 : 0;
    *end = is_same ? ORDER : TAPS;
    return (int64_t)whole - ORDER + 1;
}

double msi_join_sample(const float *pixel, const int64_t n[2], const double at[2])
{
    static const double EDGE = 1e-5;
    double tx[TAPS], ty[TAPS], sum = 0, weight = 0;
    int x0, x1, y0, y1;
    if (!(at[0] >= -EDGE && at[1] >= -EDGE && at[0] <= (double)(n[0] - 1) + EDGE && at[1] <= (double)(n[1] - 1) + EDGE))
        return NAN;
    pthread_once(&tap_once, make_taps);
    const int64_t first_x = find_taps(at[0], tx, &x0, &x1), first_y = find_taps(at[1], ty, &y0, &y1);
    for (int k = y0; k < y1; k++)
        for (int i = x0; i < x1; i++) {
            const int64_t x = first_x + i, y = first_y + k;
            const int is_next = (i == ORDER - 1 || i == ORDER) && (k == ORDER - 1 || k == ORDER);
            if (x < 0 || y < 0 || x >= n[0] || y >= n[1]) continue;
            const double v = (double)pixel[y * n[0] + x], w = tx[i] * ty[k];
            if (isfinite(v)) {
                sum += w * v;
                weight += w;
            } else if (is_next) {
                return NAN;
            }
        }
    return weight > 0.5 ? sum / weight : NAN;
}
