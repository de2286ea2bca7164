/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Chooses what a picture shows: the part of the image, the kind of its values, axes, title and caption. picture_draw.c
 * draws it.
 */
#include "io/fits/picture.h"

#include <cairo.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/image.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/picture_apart.h"
#include "io/fits/picture_axes.h"
#include "io/fits/picture_draw.h"

/* ---- Captions: parts joined by ", ", without parts that are unknown ---- */

static void add_part(char line[MSI_CAPTION_BYTES], const char *part)
{
    const size_t n = strlen(line);
    if (part[0]) snprintf(line + n, MSI_CAPTION_BYTES - n, "%s%s", n ? ", " : "", part);
}

static void add_hz(char line[MSI_CAPTION_BYTES], const char *label, int n_digit, double hz)
{
    char part[48];
    const msi_unit unit = msi_freq_unit(hz);
    if (!(hz > 0)) return;
    snprintf(part, sizeof part, "%s%.*g %s", label, n_digit, hz / unit.size, unit.name);
    add_part(line, part);
}

static void add_freq(char line[MSI_CAPTION_BYTES], double freq_hz)
{
    add_hz(line, "", 6, freq_hz);
}

void msi_caption_add_band(char line[MSI_CAPTION_BYTES], double bandwidth_hz)
{
    add_hz(line, "band ", 4, bandwidth_hz);
}

static void add_pol(char line[MSI_CAPTION_BYTES], msi_pol pol)
{
    char part[32];
    snprintf(part, sizeof part, pol <= MSI_POL_V ? "Stokes %s" : "%s", msi_pol_name(pol));
    add_part(line, part);
}

void msi_caption_add_peak(char line[MSI_CAPTION_BYTES], double peak, const char *unit)
{
    char value[96], part[112];
    if (!isfinite(peak)) return;
    msi_picture_format_value(peak, unit, value, sizeof value);
    snprintf(part, sizeof part, "peak %s", value);
    add_part(line, part);
}

/* Write an angle such as 2.15″, in °, ′, ″, mas or µas. */
static void format_angle(double rad, char *text, size_t size)
{
    static const struct {
        const char *name, *sign;
    } signs[] = {{"uas", " µas"}, {"mas", " mas"}, {"arcsec", "″"}, {"arcmin", "′"}, {"deg", "°"}};
    const msi_unit unit = msi_angle_unit(rad);
    const double v = rad / unit.size;
    const char *sign = unit.name;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strcmp(unit.name, signs[i].name) == 0) sign = signs[i].sign;
    snprintf(text, size, "%.*f%s", v >= 100 ? 0 : v >= 10 ? 1 : 2, v, sign);
}

void msi_caption_add_beam(char line[MSI_CAPTION_BYTES], const msi_beam *beam)
{
    char part[128], major[32], minor[32];
    if (!msi_beam_known(beam)) return;
    format_angle(beam->major_rad, major, sizeof major);
    format_angle(beam->minor_rad, minor, sizeof minor);
    snprintf(part, sizeof part, "beam %s × %s at %.0f°", major, minor, beam->pa_rad * 180 / MSI_PI);
    add_part(line, part);
}

/* Find the value with the largest absolute value; NaN if no pixel is finite. */
static double find_peak(int64_t n_pixel, const void *pixel, msi_precision precision)
{
    double peak = NAN;
    for (int64_t i = 0; i < n_pixel; i++) {
        const double v = msi_image_value(pixel, precision, i);
        if (isfinite(v) && !(fabs(v) <= fabs(peak))) peak = v;
    }
    return peak;
}

static void add_channel(char line[MSI_CAPTION_BYTES], const msi_fits_spec *spec)
{
    char part[64];
    if (spec->n_channel < 2) return;
    if (spec->channel < 0)
        snprintf(part, sizeof part, "all %lld channels", (long long)spec->n_channel);
    else
        snprintf(part, sizeof part, "channel %lld of %lld", (long long)spec->channel + 1, (long long)spec->n_channel);
    add_part(line, part);
}

void msi_caption_title(char line[MSI_CAPTION_BYTES], const msi_fits_spec *spec)
{
    line[0] = 0;
    add_part(line, spec->observation->object);
    add_part(line, spec->observation->telescope);
    add_freq(line, spec->freq_hz);
    add_channel(line, spec);
    if (msi_fits_is_brightness(spec->kind)) add_pol(line, spec->pol);
}

/* ---- Pictures of the images that a run writes ---- */

/* Fields narrower than this have axes of offsets, because labels of right ascension would be longer than the distance
 * between them. */
static const double TINY_FIELD_RAD = 2 * MSI_PI / 648000;

enum { PSF_BEAMS = 8, LEAST_PSF_PIXELS = 16 }; /* part of a PSF that is shown, to either side of the middle */

/* A picture, and the texts and axes that it points to. */
typedef struct composition {
    msi_picture picture;
    msi_sky_wcs *wcs;
    msi_linear_axis axis[2];
    char title[MSI_CAPTION_BYTES], detail[MSI_CAPTION_BYTES], axis_title[2][160];
} composition;

static int is_signed(msi_pol pol)
{
    return pol == MSI_POL_Q || pol == MSI_POL_U || pol == MSI_POL_V;
}

/* Cut n pixels to 2 x half pixels about their middle, if there are more. */
static void cut_about_middle(int64_t n, int64_t half, int64_t *first, int64_t *length)
{
    *length = 2 * half < n ? 2 * half : n;
    *first = n / 2 - *length / 2;
}

/* Cut a PSF to a few beams about its middle. */
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

/* Cut weights to the cells that are not empty, and a small margin. Both halves of the uv plane are stored, so the
 * middle of the picture is still u = v = 0. */
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

/* Set axes in u and v. u grows with x and v with y. A cell begins at u = v = 0. */
static void set_uv_axes(composition *c, const msi_image_geometry *g)
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

/* Set axes of offsets: l grows to the left and m upwards. Both are linear in a SIN projection. */
static void set_offset_axes(composition *c, const msi_image_geometry *shown)
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

static int set_axes(composition *c, const msi_fits_spec *spec)
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

static void write_detail(composition *c, const msi_fits_spec *spec)
{
    const msi_picture *p = &c->picture;
    char part[96], width[32], whole[32];
    add_part(c->detail, msi_fits_kind_about(spec->kind)->title);
    if (spec->kind == MSI_FITS_PSF && p->window.nx < p->nx) {
        format_angle((double)p->window.nx * spec->geometry.cell_x_rad, width, sizeof width);
        format_angle((double)p->nx * spec->geometry.cell_x_rad, whole, sizeof whole);
        snprintf(part, sizeof part, "the inner %s of %s", width, whole);
        add_part(c->detail, part);
    }
    msi_caption_add_band(c->detail, spec->bandwidth_hz);
    if (spec->weighting && spec->weighting[0] && !msi_fits_is_model(spec->kind)) {
        snprintf(part, sizeof part, "%.60s weighting", spec->weighting);
        add_part(c->detail, part);
    }
    if (msi_fits_is_brightness(spec->kind))
        msi_caption_add_peak(c->detail, find_peak(p->nx * p->ny, p->pixel, p->precision), p->unit);
    msi_caption_add_beam(c->detail, &p->beam);
}

/*
 * Convolve an image with a circular Gaussian of peak 1, so that components of one pixel become visible.
 * Given:    fwhm_rad
 * Returned: *out [ny][nx]  freed by msi_free
 * Returns:  0, MSI_ENOMEM
 */
static int blur(float **out, const msi_image_geometry *g, const void *pixel, msi_precision precision, double fwhm_rad)
{
    enum { LARGEST = 256 };
    const int64_t nx = g->nx, ny = g->ny;
    float *along_x = NULL;
    double weight[2][LARGEST + 1];
    int64_t reach[2];
    for (int k = 0; k < 2; k++) {
        const double fwhm = fwhm_rad / (k ? g->cell_y_rad : g->cell_x_rad);
        /* A Gaussian falls to 1e-3 at 1.58 times its full width. */
        reach[k] = (int64_t)fmin(LARGEST, ceil(1.58 * fwhm));
        for (int64_t j = 0; j <= reach[k]; j++) weight[k][j] = exp(-4 * log(2) * (double)(j * j) / (fwhm * fwhm));
    }
    *out = NULL;
    int rc = msi_alloc(&along_x, nx * ny, sizeof *along_x, "picture");
    if (!rc) rc = msi_alloc(out, nx * ny, sizeof **out, "picture");
    for (int64_t at = 0; !rc && at < nx * ny; at++) {
        const double value = msi_image_value(pixel, precision, at);
        const int64_t x = at % nx, row = at - x;
        if (value == 0 || !isfinite(value)) continue;
        for (int64_t j = -reach[0]; j <= reach[0]; j++)
            if (x + j >= 0 && x + j < nx) along_x[row + x + j] += (float)(value * weight[0][j < 0 ? -j : j]);
    }
    for (int64_t y = 0; !rc && y < ny; y++)
        for (int64_t j = -reach[1]; j <= reach[1]; j++) {
            if (y + j < 0 || y + j >= ny) continue;
            const float w = (float)weight[1][j < 0 ? -j : j], *from = along_x + y * nx;
            float *to = *out + (y + j) * nx;
            for (int64_t x = 0; x < nx; x++) to[x] += w * from[x];
        }
    for (int64_t at = 0; !rc && at < nx * ny; at++)
        if (isnan(msi_image_value(pixel, precision, at))) (*out)[at] = NAN;
    msi_free(along_x);
    return rc;
}

int msi_picture_write(msi_publish *p, int i, const msi_fits_spec *spec, const msi_picture_style *style,
                      const void *pixel, msi_precision precision)
{
    const msi_fits_kind_row *about = msi_fits_kind_about(spec->kind);
    const msi_image_geometry *g = &spec->geometry;
    if (!about->title) return msi_error_set(MSI_ERANGE, "pictures of transforms to the uv plane are not supported");
    const int is_weights = spec->kind == MSI_FITS_WEIGHTS, is_model = msi_fits_is_model(spec->kind);
    const int is_image = !is_model && msi_fits_is_brightness(spec->kind);
    composition c = {.picture = {.nx = g->nx,
                                 .ny = g->ny,
                                 .precision = precision,
                                 .pixel = pixel,
                                 .window = {0, 0, g->nx, g->ny},
                                 .values = is_weights                                       ? MSI_VALUES_WEIGHTS
                                           : msi_fits_is_index(spec->kind)                  ? MSI_VALUES_INDEX
                                           : (is_image || is_model) && is_signed(spec->pol) ? MSI_VALUES_SIGNED
                                                                                            : MSI_VALUES_BRIGHTNESS,
                                 .unit = spec->unit     ? spec->unit
                                         : about->scale ? about->scale
                                                        : about->unit,
                                 .cell_rad = g->cell_y_rad,
                                 .is_psf = msi_fits_is_psf(spec->kind),
                                 /* A range of brightness does not apply to a PSF or weights. */
                                 .style = is_image || is_model ? style : NULL}};
    if (is_image || c.picture.is_psf) c.picture.beam = spec->beam;
    if (!is_weights && !c.picture.is_psf) c.picture.contour = spec->contour;
    c.picture.title = c.title;
    c.picture.detail = c.detail;
    if (is_weights) cut_weights(&c.picture.window, g, pixel, precision);
    if (c.picture.is_psf) cut_psf(&c.picture.window, spec);
    MSI_TRY(set_axes(&c, spec));
    msi_caption_title(c.title, spec);
    float *blurred = NULL;
    int rc = MSI_OK;
    if (is_model && msi_beam_known(&spec->beam)) {
        rc = blur(&blurred, g, pixel, precision, 0.5 * sqrt(spec->beam.major_rad * spec->beam.minor_rad));
        c.picture.pixel = blurred;
        c.picture.precision = MSI_FP32;
        c.picture.unit = "Jy/half beam";
    }
    if (!rc) write_detail(&c, spec);
    if (!rc) rc = msi_picture_draw(p, i, &c.picture);
    msi_free(blurred);
    msi_sky_wcs_free(c.wcs);
    return rc;
}

/* ---- Pictures of any FITS image ---- */

/* Choose the kind of values. Weights span decades. Stokes Q, U and V and visibilities have both signs. */
static msi_picture_values view_values(const msi_fits_view *v)
{
    if (strcmp(v->type, "Weight") == 0) return MSI_VALUES_WEIGHTS;
    if (strcmp(v->type, "Spectral Index") == 0) return MSI_VALUES_INDEX;
    if (strcmp(v->type, "Visibility") == 0) return MSI_VALUES_SIGNED;
    if (strcmp(v->type, "Beam") == 0 || !v->has_pol) return MSI_VALUES_BRIGHTNESS;
    const int is_signed = v->pol == MSI_POL_Q || v->pol == MSI_POL_U || v->pol == MSI_POL_V;
    return is_signed ? MSI_VALUES_SIGNED : MSI_VALUES_BRIGHTNESS;
}

/* Set axis k. An axis without a name counts pixels. Otherwise its title has name and unit; u and v are in
 * wavelengths. */
static void set_view_axis(const msi_fits_view *v, int k, msi_linear_axis *axis, char title[160])
{
    const char *ctype = v->ctype[k];
    axis->title = title;
    if (!ctype[0]) {
        *axis = (msi_linear_axis){-1, 1, title};
        snprintf(title, 160, "%s (pixel)", k ? "y" : "x");
        return;
    }
    const int is_uv = strcmp(ctype, "U---WAV") == 0 || strcmp(ctype, "V---WAV") == 0;
    const double reach = fabs(v->cdelt[k]) * (double)(k ? v->ny : v->nx) / 2;
    const double unit = !is_uv ? 1 : reach >= 1e6 ? 1e6 : reach >= 1e3 ? 1e3 : 1;
    axis->per_pixel = v->cdelt[k] / unit;
    axis->zero_pixel = v->crpix[k] - 1 - v->crval[k] / v->cdelt[k];
    if (is_uv)
        snprintf(title, 160, "%c (%sλ)", k ? 'v' : 'u', unit == 1e6 ? "M" : unit == 1e3 ? "k" : "");
    else
        snprintf(title, 160, v->cunit[k][0] ? "%s (%s)" : "%s", ctype, v->cunit[k]);
}

static void write_view_captions(const msi_fits_view *v, const char *name, char title[MSI_CAPTION_BYTES],
                                char detail[MSI_CAPTION_BYTES])
{
    char part[64];
    add_part(title, v->object);
    add_part(title, v->telescope);
    add_freq(title, v->freq_hz);
    if (v->has_pol) add_pol(title, v->pol);
    add_part(title[0] ? detail : title, name);
    if (v->n_plane > 1) {
        snprintf(part, sizeof part, "plane %lld of %lld", (long long)v->plane, (long long)v->n_plane);
        add_part(detail, part);
    }
    msi_caption_add_band(detail, v->bandwidth_hz);
    msi_caption_add_peak(detail, find_peak(v->nx * v->ny, v->pixel, MSI_FP32), v->unit);
    msi_caption_add_beam(detail, &v->beam);
}

int msi_picture_write_view(msi_publish *p, int i, const msi_fits_view *view, const char *name,
                           const msi_picture_style *style, const msi_fits_contour *contour,
                           const msi_picture_tiles *tiles)
{
    msi_linear_axis axis[2];
    char title[MSI_CAPTION_BYTES] = "", detail[MSI_CAPTION_BYTES] = "", axis_title[2][160];
    for (int k = 0; k < 2; k++) set_view_axis(view, k, &axis[k], axis_title[k]);
    write_view_captions(view, name, title, detail);
    const msi_picture picture = {.title = title,
                                 .detail = detail,
                                 .nx = view->nx,
                                 .ny = view->ny,
                                 .precision = MSI_FP32,
                                 .pixel = view->pixel,
                                 .contour = contour,
                                 .tiles = tiles,
                                 .window = {0, 0, view->nx, view->ny},
                                 .values = view_values(view),
                                 .unit = view->unit,
                                 .wcs = view->wcs,
                                 .axis = axis,
                                 .beam = view->beam,
                                 .cell_rad = view->cell_rad,
                                 .style = style};
    return msi_picture_draw(p, i, &picture);
}

/* ---- Curves ---- */

/* Lengths are in canvas pixels. */
enum {
    WIDTH = 1000,
    HEIGHT = 380,
    LEFT = 130,
    TOP = 90,
    GAP = 80,
    RIGHT = 40,
    BOTTOM = 66,
    LEGEND = 12,
    TICK = 6,
    DOT = 3
};

static const uint32_t COLOURS[] = {0x1f5fa8, 0xc8501e, 0x2e8b57, 0x8a4fa3, 0xa07800, 0x4a4a4a};
enum { N_COLOUR = sizeof COLOURS / sizeof COLOURS[0] };

typedef struct range {
    double low, high;
} range;

/* The ranges of the axes of a panel. On a logarithmic axis, y is log10 of the value. */
typedef struct axes {
    range x, y;
    int logarithmic;
} axes;

static void set_colour(cairo_t *cr, int colour)
{
    const uint32_t c = COLOURS[colour % N_COLOUR];
    cairo_set_source_rgb(cr, (c >> 16 & 255) / 255.0, (c >> 8 & 255) / 255.0, (c & 255) / 255.0);
}

/* Convert a value to the scale of the axis. Returns NaN if the axis cannot show it. */
static double axis_value(double v, int logarithmic)
{
    if (!logarithmic) return isfinite(v) ? v : NAN;
    return v > 0 && isfinite(v) ? log10(v) : NAN;
}

/* Find the range of the values of a panel, with a margin; the range of x if panel is -1. */
static range find_range(const msi_picture_curves *c, int panel)
{
    range r = {INFINITY, -INFINITY};
    for (int64_t k = 0; k < c->n_curve; k++)
        for (int64_t i = 0; i < c->curve[k].n; i++) {
            if (panel >= 0 && c->curve[k].panel != panel) continue;
            const double v = panel < 0 ? c->curve[k].x[i] : axis_value(c->curve[k].y[i], c->panel[panel].logarithmic);
            r.low = fmin(r.low, v);
            r.high = fmax(r.high, v);
        }
    if (!isfinite(r.low + r.high)) r = (range){0, 1};
    double margin = 0.04 * (r.high - r.low);
    if (!(margin > 0)) margin = r.low != 0 ? 0.1 * fabs(r.low) : 0.5;
    return (range){panel < 0 ? r.low : r.low - margin, panel < 0 && r.high > r.low ? r.high : r.high + margin};
}

static void to_canvas(const msi_picture_frame *f, range x, range y, const double v[2], double at[2])
{
    at[0] = f->left + (v[0] - x.low) / (x.high - x.low) * f->width;
    at[1] = f->top + f->height - (v[1] - y.low) / (y.high - y.low) * f->height;
}

/* Find the canvas position of a point of a curve. Returns 0 if the point cannot be shown. */
static int place_point(const msi_picture_frame *f, const msi_picture_curve *c, const axes *a, int64_t i, double at[2])
{
    const double v[2] = {c->x[i], axis_value(c->y[i], a->logarithmic)};
    if (!isfinite(v[0] + v[1])) return 0;
    to_canvas(f, a->x, a->y, v, at);
    return 1;
}

/* Draw a line through the points of a curve and a dot on each, because a single point has no line. */
static void draw_curve(cairo_t *cr, const msi_picture_frame *f, const msi_picture_curve *c, const axes *a)
{
    int drawing = 0;
    double at[2];
    const double dash[] = {7, 5};
    set_colour(cr, c->colour);
    cairo_set_line_width(cr, 2);
    cairo_set_dash(cr, dash, c->dashed ? 2 : 0, 0);
    for (int64_t i = 0; i < c->n; i++) {
        const int has_place = place_point(f, c, a, i, at);
        if (has_place && drawing)
            cairo_line_to(cr, at[0], at[1]);
        else if (has_place)
            cairo_move_to(cr, at[0], at[1]);
        drawing = has_place;
    }
    cairo_stroke(cr);
    cairo_set_dash(cr, dash, 0, 0);
    for (int64_t i = 0; i < c->n; i++) {
        if (!place_point(f, c, a, i, at)) continue;
        cairo_arc(cr, at[0], at[1], DOT, 0, 2 * MSI_PI);
        cairo_fill(cr);
    }
}

/* Draw lines and labels at powers of ten, and in a narrow range also at 2 and 5 times these. */
static double draw_decades(cairo_t *cr, const msi_picture_frame *f, range y)
{
    static const int times[] = {1, 2, 5};
    double widest = 0;
    const int first = (int)floor(y.low), last = (int)ceil(y.high), step = (last - first) / 8 + 1;
    for (int k = first; k <= last; k += step)
        for (int t = 0; t < (last - first <= 3 ? 3 : 1); t++) {
            char text[64];
            const double v = k + log10(times[t]);
            if (v < y.low || v > y.high) continue;
            const double at = f->top + f->height - (v - y.low) / (y.high - y.low) * f->height;
            cairo_set_source_rgba(cr, 0, 0, 0, 0.2);
            cairo_set_line_width(cr, 0.8);
            cairo_move_to(cr, f->left - TICK, at);
            cairo_line_to(cr, f->left + f->width, at);
            cairo_stroke(cr);
            snprintf(text, sizeof text, "%g", times[t] * pow(10, k));
            cairo_set_source_rgb(cr, 0.1, 0.1, 0.1);
            msi_picture_draw_text(cr, f->left - 10, at + 5, 1, text);
            widest = fmax(widest, msi_picture_measure_text(cr, text));
        }
    return widest;
}

/* Draw the axes of a frame of nx x ny canvas pixels. The centre of the first pixel is half a pixel inside. */
static void draw_axes(cairo_t *cr, const msi_picture_curves *c, int panel, const msi_picture_frame *f, range x, range y)
{
    msi_linear_axis axis[2];
    const range of[2] = {x, y};
    const double n[2] = {(double)f->geometry.nx, (double)f->geometry.ny};
    for (int k = 0; k < 2; k++) {
        const double per_pixel = (of[k].high - of[k].low) / n[k];
        axis[k] = (msi_linear_axis){-of[k].low / per_pixel - 0.5, per_pixel, k ? c->panel[panel].title : c->x_title};
    }
    if (!c->panel[panel].logarithmic) {
        msi_picture_draw_linear(cr, f, axis);
        return;
    }
    const msi_linear_axis only_x[2] = {axis[0], {0, NAN, ""}};
    msi_picture_draw_linear(cr, f, only_x);
    msi_picture_draw_border(cr, f, "", c->panel[panel].title, draw_decades(cr, f, y));
}

static void draw_legend(cairo_t *cr, const msi_picture_curves *c, int panel, const msi_picture_frame *f)
{
    double y = f->top + 22;
    for (int64_t k = 0, n = 0; k < c->n_curve && n < LEGEND; k++) {
        const msi_picture_curve *curve = &c->curve[k];
        if (curve->panel != panel || !curve->name[0]) continue;
        set_colour(cr, curve->colour);
        msi_picture_draw_text(cr, f->left + f->width - 12, y, 1, curve->name);
        y += 20;
        n++;
    }
}

static void draw_panel(cairo_t *cr, const msi_picture_curves *c, int panel)
{
    const msi_picture_frame f = {.left = LEFT,
                                 .top = TOP + panel * (HEIGHT + GAP),
                                 .width = WIDTH,
                                 .height = HEIGHT,
                                 .scale = 1,
                                 .is_light = 1,
                                 .geometry = {.nx = WIDTH, .ny = HEIGHT}};
    const axes a = {find_range(c, -1), find_range(c, panel), c->panel[panel].logarithmic};
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, MSI_PICTURE_LABEL_SIZE);
    draw_axes(cr, c, panel, &f, a.x, a.y);
    cairo_save(cr);
    cairo_rectangle(cr, f.left - DOT, f.top - DOT, f.width + 2 * DOT, f.height + 2 * DOT);
    cairo_clip(cr);
    for (int64_t k = 0; k < c->n_curve; k++)
        if (c->curve[k].panel == panel) draw_curve(cr, &f, &c->curve[k], &a);
    cairo_restore(cr);
    draw_legend(cr, c, panel, &f);
}

static int paint(msi_publish *p, int i, const void *of)
{
    const msi_picture_curves *c = of;
    int n_panel = 0;
    while (n_panel < MSI_CURVE_PANELS && c->panel[n_panel].title) n_panel++;
    cairo_surface_t *canvas = cairo_image_surface_create(CAIRO_FORMAT_RGB24, LEFT + WIDTH + RIGHT,
                                                         TOP + n_panel * HEIGHT + (n_panel - 1) * GAP + BOTTOM);
    cairo_t *cr = cairo_create(canvas);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_paint(cr);
    cairo_set_source_rgb(cr, 0.1, 0.1, 0.1);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(cr, 22);
    msi_picture_draw_text(cr, LEFT, TOP - 35, 0, c->title);
    for (int panel = 0; panel < n_panel; panel++) draw_panel(cr, c, panel);
    const int rc = msi_picture_save(p, i, cr, canvas);
    cairo_destroy(cr);
    cairo_surface_destroy(canvas);
    return rc;
}

int msi_picture_curves_draw(msi_publish *p, int i, const msi_picture_curves *c)
{
    return msi_picture_apart(p, i, paint, c);
}
