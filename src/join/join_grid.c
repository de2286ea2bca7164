/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/join/join_grid.h"

#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"

static const double RAD = MSI_PI / 180, DEG = 180 / MSI_PI;

enum { MOST_PIXELS = 1 << 17 }; /* along a side */

/* Return whether all inputs are SIN projections about one point. */
static int have_one_tangent(const msi_join_input *in, int n)
{
    const msi_sky_axes *a = msi_sky_wcs_axes(in[0].header.wcs);
    for (int i = 0; i < n; i++) {
        const msi_sky_axes *b = msi_sky_wcs_axes(in[i].header.wcs);
        if (strcmp(b->ctype[0] + 4, "-SIN") != 0 || fabs(remainder(a->crval_deg[0] - b->crval_deg[0], 360)) > 1e-9 ||
            fabs(a->crval_deg[1] - b->crval_deg[1]) > 1e-9)
            return 0;
    }
    return 1;
}

static void choose_centre(msi_join_grid *g, const msi_join_spec *spec, const msi_join_input *in)
{
    double sum[3] = {0, 0, 0};
    if (isfinite(spec->centre_rad[0])) {
        for (int k = 0; k < 2; k++) g->centre_deg[k] = spec->centre_rad[k] * DEG;
        return;
    }
    if (have_one_tangent(in, spec->n_file)) {
        for (int k = 0; k < 2; k++) g->centre_deg[k] = msi_sky_wcs_axes(in[0].header.wcs)->crval_deg[k];
        return;
    }
    for (int i = 0; i < spec->n_file; i++) {
        const double ra = in[i].centre_deg[0] * RAD, dec = in[i].centre_deg[1] * RAD;
        sum[0] += cos(dec) * cos(ra);
        sum[1] += cos(dec) * sin(ra);
        sum[2] += sin(dec);
    }
    g->centre_deg[0] = atan2(sum[1], sum[0]) * DEG;
    g->centre_deg[1] = atan2(sum[2], hypot(sum[0], sum[1])) * DEG;
}

static int make_wcs(msi_join_grid *g, const msi_join_input *in)
{
    msi_sky_wcs_free(g->wcs);
    return msi_sky_wcs_create(&g->wcs, &g->geometry, g->centre_deg[0] * RAD, g->centre_deg[1] * RAD, in->frame, 0);
}

/* Find how far the edge of an input is from the centre, in pixels of the mosaic. Returns 0 if part of it is beyond the
 * horizon. */
static int find_extent(const msi_join_grid *g, const msi_join_input *in, double far[2])
{
    enum { SIDE = 32 };
    const msi_fits_view *v = &in->header;
    for (int i = 0; i <= SIDE; i++)
        for (int k = 0; k <= SIDE; k++) {
            const double at[2] = {(double)(v->nx - 1) * i / SIDE, (double)(v->ny - 1) * k / SIDE};
            double sky[2], p[2];
            if (i % SIDE && k % SIDE) continue;
            if (!msi_sky_wcs_pixel_to_sky(v->wcs, at, sky) || !msi_sky_wcs_sky_to_pixel(g->wcs, sky, p)) return 0;
            const double d[2] = {p[0] - (double)(g->geometry.nx / 2), p[1] - (double)(g->geometry.ny / 2)};
            /* There is one pixel more below the centre than above. */
            for (int a = 0; a < 2; a++) far[a] = fmax(far[a], fmax(-d[a], d[a] + 1));
        }
    return 1;
}

static int choose_size(msi_join_grid *g, const msi_join_spec *spec, const msi_join_input *in)
{
    double far[2] = {0, 0};
    for (int i = 0; i < spec->n_file; i++)
        if (!find_extent(g, &in[i], far))
            return msi_error_set(MSI_EINPUT, "%s: part of it is beyond the horizon of the mosaic: give -size",
                                 in[i].path);
    for (int k = 0; k < 2; k++) {
        /* Inputs on the pixel grid of the mosaic end on whole pixels. */
        const double half = ceil(far[k] - 1e-3);
        if (!(half < MOST_PIXELS / 2))
            return msi_error_set(MSI_EINPUT,
                                 "a mosaic of all images has more than %d pixels on a side: give -size, or -scale",
                                 MOST_PIXELS);
        *(k ? &g->geometry.ny : &g->geometry.nx) = 2 * ((int64_t)half + (half < 1));
    }
    return MSI_OK;
}

int msi_join_grid_choose(msi_join_grid *out, const msi_join_spec *spec, const msi_join_input *in)
{
    msi_join_grid *g = out;
    *g = (msi_join_grid){.geometry = {2, 2, INFINITY, INFINITY}};
    choose_centre(g, spec, in);
    for (int i = 0; i < spec->n_file; i++) {
        const msi_fits_view *v = &in[i].header;
        g->geometry.cell_x_rad = fmin(g->geometry.cell_x_rad, fabs(v->cdelt[0]) * v->cell_rad / fabs(v->cdelt[1]));
        g->geometry.cell_y_rad = fmin(g->geometry.cell_y_rad, v->cell_rad);
    }
    if (spec->cell_rad > 0) g->geometry.cell_x_rad = g->geometry.cell_y_rad = spec->cell_rad;
    MSI_TRY(make_wcs(g, in));
    if (spec->nx) {
        g->geometry.nx = spec->nx;
        g->geometry.ny = spec->ny;
    } else {
        MSI_TRY(choose_size(g, spec, in));
    }
    return make_wcs(g, in);
}

void msi_join_grid_free(msi_join_grid *g)
{
    msi_sky_wcs_free(g->wcs);
    *g = (msi_join_grid){0};
}

int msi_join_grid_place(const msi_join_grid *g, msi_join_input *in)
{
    const msi_fits_view *v = &in->header;
    const int64_t n[2] = {v->nx, v->ny};
    const double middle[2] = {(double)(v->nx / 2), (double)(v->ny / 2)}, above[2] = {middle[0], middle[1] + 1};
    double sky[2], p[2], q[2];
    MSI_TRY(msi_join_map_make(&in->map, &g->geometry, g->wcs, v->wcs, n, in->pointing_deg));
    if (in->map.x1 <= in->map.x0) return msi_error_set(MSI_EINPUT, "%s: no part of it lies in the mosaic", in->path);
    if (msi_sky_wcs_pixel_to_sky(v->wcs, middle, sky) && msi_sky_wcs_sky_to_pixel(g->wcs, sky, p) &&
        msi_sky_wcs_pixel_to_sky(v->wcs, above, sky) && msi_sky_wcs_sky_to_pixel(g->wcs, sky, q))
        in->turn_rad =
            atan2((p[0] - q[0]) * g->geometry.cell_x_rad, (q[1] - p[1]) * g->geometry.cell_y_rad) - in->column_rad;
    return MSI_OK;
}
