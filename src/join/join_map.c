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

/* Return whether a pixel of the image is in it, or within a few nodes of it. */
static int is_near(const double at[2], const int64_t n[2], double margin)
{
    return at[0] > -margin && at[0] < (double)n[0] + margin && at[1] > -margin && at[1] < (double)n[1] + margin;
}

/* Find the pixels of the mosaic that can be in the image, by its edge. All pixels are taken for an image that has a
 * part beyond the horizon of the mosaic. */
static void find_extent(msi_join_map *m, const msi_image_geometry *g, const msi_sky_wcs *wcs, const msi_sky_wcs *image,
                        const int64_t n[2])
{
    enum { SIDE = 64 };
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    const int64_t most[2] = {g->nx, g->ny};
    int64_t first[2] = {0, 0}, end[2] = {g->nx, g->ny};
    int is_seen = 1;
    for (int j = 0; j <= SIDE && is_seen; j++)
        for (int i = 0; i <= SIDE && is_seen; i += j % SIDE ? SIDE : 1) {
            const double at[2] = {(double)(n[0] - 1) * i / SIDE, (double)(n[1] - 1) * j / SIDE};
            double sky[2], p[2];
            is_seen = msi_sky_wcs_pixel_to_sky(image, at, sky) && msi_sky_wcs_sky_to_pixel(wcs, sky, p);
            for (int k = 0; k < 2 && is_seen; k++) {
                low[k] = fmin(low[k], p[k]);
                high[k] = fmax(high[k], p[k]);
            }
        }
    for (int k = 0; k < 2 && is_seen; k++) {
        /* Between the points a side can bend outwards. */
        const double margin = 2 * STEP + 0.02 * (high[k] - low[k]);
        first[k] = (int64_t)fmin(fmax(floor(low[k] - margin), 0), (double)most[k]);
        end[k] = (int64_t)fmax(fmin(ceil(high[k] + margin), (double)most[k]), (double)first[k]);
    }
    m->x0 = first[0];
    m->y0 = first[1];
    m->x1 = end[0];
    m->y1 = end[1];
}

/* Compute a node. Returns whether a pixel of the image can be near it. Given: margin  in pixels of the image */
static int find_node(msi_join_place *p, const double at[2], const msi_sky_wcs *wcs, const msi_sky_wcs *image,
                     const int64_t n[2], const double pointing_deg[2], double margin)
{
    double sky[2];
    *p = (msi_join_place){{NAN, NAN}, {NAN, NAN}};
    if (!msi_sky_wcs_pixel_to_sky(wcs, at, sky)) return 0;
    msi_join_offset(sky, pointing_deg, p->off);
    return msi_sky_wcs_sky_to_pixel(image, sky, p->at) && is_near(p->at, n, margin);
}

int msi_join_map_make(msi_join_map *out, const msi_image_geometry *geometry, const msi_sky_wcs *wcs,
                      const msi_sky_wcs *image, const int64_t n[2], const double pointing_deg[2])
{
    msi_join_map m = {0};
    const msi_sky_axes *fine = msi_sky_wcs_axes(image);
    const double ratio = geometry->cell_y_rad / (fabs(fine->cdelt_deg[1]) * RAD);
    const double margin = 2 * STEP * fmax(1, isfinite(ratio) ? ratio : 1) + 2;
    int is_in = 0;
    *out = m;
    find_extent(&m, geometry, wcs, image, n);
    m.first_x = m.x0 / STEP;
    m.first_y = m.y0 / STEP;
    m.nx = m.x1 / STEP - m.first_x + 4;
    m.ny = m.y1 / STEP - m.first_y + 4;
    MSI_TRY(msi_alloc(&m.node, m.nx * m.ny, sizeof *m.node, "coordinates"));
    /* wcslib does not change coordinates that are set. */
#pragma omp parallel for schedule(dynamic, 4) reduction(| : is_in)
    for (int64_t j = 0; j < m.ny; j++)
        for (int64_t i = 0; i < m.nx && !msi_interrupt_signal(); i++) {
            const double at[2] = {(double)((m.first_x + i - 1) * STEP), (double)((m.first_y + j - 1) * STEP)};
            is_in |= find_node(&m.node[j * m.nx + i], at, wcs, image, n, pointing_deg, margin);
        }
    if (!is_in || m.y1 <= m.y0) m.x1 = m.x0;
    const int rc = msi_interrupt_check();
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
    for (int64_t i = 0; i < m->nx; i++) scratch[i] = blend(m->node + (y / STEP - m->first_y) * m->nx + i, m->nx, w);
    for (int64_t x = m->x0; x <= m->x1; x++) {
        msi_pb_cubic((double)(x % STEP) / STEP, w);
        place[x - m->x0] = blend(scratch + x / STEP - m->first_x, 1, w);
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
