/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/format.h"
#include "core/status.h"
#include "io/fits/picture_axes.h"
#include "io/fits/picture_draw.h"
#include "io/fits/picture_words.h"

/* Fields narrower than this have offsets as axes: labels of right ascension would be longer than their distance. */
static const double TINY_FIELD_RAD = 2 * MSI_PI / 648000;

enum { PSF_BEAMS = 8, LEAST_PSF_PIXELS = 16 }; /* of a PSF about its middle, to either side */

/* The texts and axes of a picture, which its msi_picture points to. */
typedef struct composed {
    msi_picture picture;
    msi_sky_wcs *wcs;
    msi_linear_axis axis[2];
    char title[MSI_PICTURE_WORDS], detail[MSI_PICTURE_WORDS], axis_title[2][160];
} composed;

static int is_signed(msi_pol pol)
{
    return pol == MSI_POL_Q || pol == MSI_POL_U || pol == MSI_POL_V;
}

/* Cut a range of 2 x half pixels about the middle one of n, or take all. */
static void cut_about_middle(int64_t n, int64_t half, int64_t *first, int64_t *length)
{
    *length = 2 * half < n ? 2 * half : n;
    *first = n / 2 - *length / 2;
}

/* The telling part of a PSF lies within some beams of its middle. */
static void cut_psf(msi_picture_window *w, const msi_fits_spec *spec)
{
    const msi_image_geometry *g = &spec->geometry;
    if (!msi_beam_known(&spec->beam)) return;
    const double reach_rad = PSF_BEAMS * spec->beam.major_rad;
    const double half_x = fmin(ceil(reach_rad / g->cell_x_rad), (double)g->nx);
    const double half_y = fmin(ceil(reach_rad / g->cell_y_rad), (double)g->ny);
    cut_about_middle(g->nx, (int64_t)fmax(half_x, LEAST_PSF_PIXELS), &w->x, &w->nx);
    cut_about_middle(g->ny, (int64_t)fmax(half_y, LEAST_PSF_PIXELS), &w->y, &w->ny);
}

/* The cells that hold weights, and a few about them. Both halves of the plane are there, so the middle stays one. */
static void cut_weights(msi_picture_window *w, const msi_image_geometry *g, const void *pixel, msi_precision precision)
{
    int64_t half_x = 0, half_y = 0;
    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++) {
            if (!(msi_image_value(pixel, precision, y * g->nx + x) > 0)) continue;
            const int64_t dx = x < g->nx / 2 ? g->nx / 2 - x : x - g->nx / 2 + 1;
            const int64_t dy = y < g->ny / 2 ? g->ny / 2 - y : y - g->ny / 2 + 1;
            if (dx > half_x) half_x = dx;
            if (dy > half_y) half_y = dy;
        }
    cut_about_middle(g->nx, half_x + half_x / 20 + 4, &w->x, &w->nx);
    cut_about_middle(g->ny, half_y + half_y / 20 + 4, &w->y, &w->ny);
}

/* u grows with x, v with y; a cell begins at u = v = 0. */
static void set_uv_axes(composed *c, const msi_image_geometry *g)
{
    const msi_picture_window *w = &c->picture.window;
    const double du = 1 / ((double)g->nx * g->cell_x_rad), dv = 1 / ((double)g->ny * g->cell_y_rad);
    const double longest = fmax((double)w->nx * du, (double)w->ny * dv) / 2;
    const double unit = longest >= 1e6 ? 1e6 : longest >= 1e3 ? 1e3 : 1;
    const char *name = unit == 1e6 ? "Mλ" : unit == 1e3 ? "kλ" : "λ";
    c->axis[0] = (msi_linear_axis){(double)(w->nx / 2) - 0.5, du / unit, c->axis_title[0]};
    c->axis[1] = (msi_linear_axis){(double)(w->ny / 2) - 0.5, dv / unit, c->axis_title[1]};
    snprintf(c->axis_title[0], sizeof c->axis_title[0], "u (%s)", name);
    snprintf(c->axis_title[1], sizeof c->axis_title[1], "v (%s)", name);
}

/* Offsets l to the left and m upwards are straight in the SIN projection. */
static void set_offset_axes(composed *c, const msi_image_geometry *shown)
{
    const msi_sky_axes *a = msi_sky_wcs_axes(c->wcs);
    const double half_rad = 0.5 * fmax((double)shown->nx * shown->cell_x_rad, (double)shown->ny * shown->cell_y_rad);
    const msi_unit unit = msi_angle_unit(half_rad);
    const char *name = strcmp(unit.name, "uas") == 0 ? "µas" : unit.name;
    char from[2][64];
    msi_picture_format_direction(from[0], from[1], a);
    snprintf(c->axis_title[0], sizeof c->axis_title[0], "Offset from %s %s (%s)",
             a->is_equatorial ? "right ascension" : "longitude", from[0], name);
    snprintf(c->axis_title[1], sizeof c->axis_title[1], "Offset from %s %s (%s)",
             a->is_equatorial ? "declination" : "latitude", from[1], name);
    c->axis[0] = (msi_linear_axis){(double)(shown->nx / 2), -shown->cell_x_rad / unit.size, c->axis_title[0]};
    c->axis[1] = (msi_linear_axis){(double)(shown->ny / 2), shown->cell_y_rad / unit.size, c->axis_title[1]};
}

static int set_axes(composed *c, const msi_fits_spec *spec)
{
    const msi_picture_window *w = &c->picture.window;
    const msi_image_geometry *g = &spec->geometry, shown = {w->nx, w->ny, g->cell_x_rad, g->cell_y_rad};
    c->picture.axis = c->axis;
    if (spec->kind == MSI_FITS_WEIGHTS) {
        set_uv_axes(c, g);
        return MSI_OK;
    }
    MSI_TRY(msi_sky_wcs_create(&c->wcs, &shown, spec->ra_rad, spec->dec_rad, spec->observation->dir_frame,
                               spec->observation->start_mjd_s / 86400));
    if (fmax((double)shown.nx * shown.cell_x_rad, (double)shown.ny * shown.cell_y_rad) < TINY_FIELD_RAD)
        set_offset_axes(c, &shown);
    else
        c->picture.wcs = c->wcs;
    return MSI_OK;
}

static void write_detail(composed *c, const msi_fits_spec *spec)
{
    static const char *const kind[] = {[MSI_FITS_DIRTY] = "dirty image",
                                       [MSI_FITS_PSF] = "point spread function",
                                       [MSI_FITS_MODEL] = "model",
                                       [MSI_FITS_RESIDUAL] = "residual",
                                       [MSI_FITS_FIRST_RESIDUAL] = "residual of the first cycle",
                                       [MSI_FITS_IMAGE] = "restored image",
                                       [MSI_FITS_MASK] = "mask",
                                       [MSI_FITS_INDEX] = "spectral index",
                                       [MSI_FITS_WEIGHTS] = "weights in the uv plane"};
    const msi_picture *p = &c->picture;
    char part[96], width[32], whole[32];
    msi_words_add(c->detail, kind[spec->kind]);
    if (spec->kind == MSI_FITS_PSF && p->window.nx < p->nx) {
        msi_words_angle((double)p->window.nx * spec->geometry.cell_x_rad, width, sizeof width);
        msi_words_angle((double)p->nx * spec->geometry.cell_x_rad, whole, sizeof whole);
        snprintf(part, sizeof part, "the inner %s of %s", width, whole);
        msi_words_add(c->detail, part);
    }
    msi_words_add_band(c->detail, spec->bandwidth_hz);
    if (spec->weighting && spec->weighting[0] && spec->kind != MSI_FITS_MODEL) {
        snprintf(part, sizeof part, "%.60s weighting", spec->weighting);
        msi_words_add(c->detail, part);
    }
    if (msi_fits_is_brightness(spec->kind))
        msi_words_add_peak(c->detail, msi_words_peak(p->nx * p->ny, p->pixel, p->precision), p->unit);
    msi_words_add_beam(c->detail, &p->beam);
}

int msi_picture_write(msi_publish *p, int i, const msi_fits_spec *spec, const msi_picture_style *style,
                      const void *pixel, msi_precision precision)
{
    static const char *const unit[] = {
        [MSI_FITS_DIRTY] = "Jy/beam",          [MSI_FITS_PSF] = "Jy/beam",   [MSI_FITS_MODEL] = "Jy/pixel",
        [MSI_FITS_RESIDUAL] = "Jy/beam",       [MSI_FITS_IMAGE] = "Jy/beam", [MSI_FITS_WEIGHTS] = "weight",
        [MSI_FITS_FIRST_RESIDUAL] = "Jy/beam", [MSI_FITS_MASK] = "mask",     [MSI_FITS_INDEX] = "index"};
    const msi_image_geometry *g = &spec->geometry;
    if (spec->kind > MSI_FITS_WEIGHTS) return msi_error_set(MSI_ERANGE, "no picture shows a transform to the uv plane");
    const int is_weights = spec->kind == MSI_FITS_WEIGHTS, is_model = spec->kind == MSI_FITS_MODEL;
    const int is_image = !is_model && msi_fits_is_brightness(spec->kind);
    composed c = {.picture = {.nx = g->nx,
                              .ny = g->ny,
                              .precision = precision,
                              .pixel = pixel,
                              .window = {0, 0, g->nx, g->ny},
                              .values = is_weights                                       ? MSI_VALUES_WEIGHTS
                                        : spec->kind == MSI_FITS_INDEX                   ? MSI_VALUES_INDEX
                                        : (is_image || is_model) && is_signed(spec->pol) ? MSI_VALUES_SIGNED
                                                                                         : MSI_VALUES_BRIGHTNESS,
                              .unit = spec->unit ? spec->unit : unit[spec->kind],
                              .cell_rad = g->cell_y_rad,
                              .is_psf = spec->kind == MSI_FITS_PSF,
                              /* A range of brightness is none of a PSF's, or of weights. */
                              .style = is_image || is_model ? style : NULL}};
    if (is_image || c.picture.is_psf) c.picture.beam = spec->beam;
    c.picture.title = c.title;
    c.picture.detail = c.detail;
    if (is_weights) cut_weights(&c.picture.window, g, pixel, precision);
    if (c.picture.is_psf) cut_psf(&c.picture.window, spec);
    MSI_TRY(set_axes(&c, spec));
    msi_words_title(c.title, spec);
    write_detail(&c, spec);
    const int rc = msi_picture_draw(p, i, &c.picture);
    msi_sky_wcs_free(c.wcs);
    return rc;
}
