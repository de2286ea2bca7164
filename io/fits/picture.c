/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture.h"

#include <cairo.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/pol.h"
#include "core/status.h"
#include "io/fits/picture_axes.h"
#include "io/fits/picture_colour.h"
#include "io/fits/sky_wcs.h"

static const double ASEC_PER_RAD = 648000 / MSI_PI;
static const double DEG_PER_RAD = 180 / MSI_PI;

/* Lengths are in canvas pixels. */
enum {
    LARGEST_SIDE = 1200, /* of the image as drawn, and what it is averaged down to */
    SMALLEST_SIDE = 800, /* below this, pixels are drawn as squares */
    MARGIN_LEFT = 150,
    MARGIN_RIGHT = 138,
    MARGIN_TOP = 100,
    MARGIN_BOTTOM = 66,
    BAR_GAP = 16,
    BAR_WIDTH = 20,
    BAR_TICK_APART = 34
};

static const uint32_t NO_VALUE = 0xd8d8d8;

/* Averages the image over blocks. */
typedef struct small_image {
    int64_t block;
    int nx, ny;
    float *value; /* [ny][nx], row 0 at the bottom; NaN where no pixel of the block has a value */
} small_image;

static int shrink(small_image *s, const msi_image_geometry *g, const void *pixel, msi_precision precision)
{
    int64_t side = g->nx > g->ny ? g->nx : g->ny;
    s->block = (side + LARGEST_SIDE - 1) / LARGEST_SIDE;
    s->nx = (int)((g->nx + s->block - 1) / s->block);
    s->ny = (int)((g->ny + s->block - 1) / s->block);
    MSI_TRY(msi_alloc(&s->value, (int64_t)s->nx * s->ny, sizeof *s->value, "picture"));
    for (int64_t by = 0; by < s->ny; by++) {
        for (int64_t bx = 0; bx < s->nx; bx++) {
            double sum = 0;
            int64_t n = 0;
            for (int64_t y = by * s->block; y < (by + 1) * s->block && y < g->ny; y++) {
                for (int64_t x = bx * s->block; x < (bx + 1) * s->block && x < g->nx; x++) {
                    double v = msi_image_value(pixel, precision, y * g->nx + x);
                    if (!isfinite(v)) continue;
                    sum += v;
                    n++;
                }
            }
            s->value[by * s->nx + bx] = n ? (float)(sum / (double)n) : NAN;
        }
    }
    return MSI_OK;
}

static void draw_image(cairo_t *cr, const msi_picture_frame *f, const small_image *s, const msi_stretch *stretch,
                       const uint32_t colour[MSI_N_COLOUR], int magnify)
{
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, s->nx, s->ny);
    unsigned char *data = cairo_image_surface_get_data(surface);
    if (!data) {
        cairo_surface_destroy(surface);
        return;
    }
    int stride = cairo_image_surface_get_stride(surface);
    for (int y = 0; y < s->ny; y++) {
        uint32_t *row = (uint32_t *)(void *)(data + (size_t)stride * (size_t)(s->ny - 1 - y));
        for (int x = 0; x < s->nx; x++) {
            float v = s->value[(int64_t)y * s->nx + x];
            row[x] = isfinite(v) ? colour[lround(msi_stretch_apply(stretch, v) * (MSI_N_COLOUR - 1))] : NO_VALUE;
        }
    }
    cairo_surface_mark_dirty(surface);
    cairo_save(cr);
    cairo_rectangle(cr, f->left, f->top, f->width, f->height);
    cairo_clip(cr);
    cairo_translate(cr, f->left, f->top + f->height - s->ny * magnify);
    cairo_scale(cr, magnify, magnify);
    cairo_set_source_surface(cr, surface, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_NEAREST);
    cairo_paint(cr);
    cairo_restore(cr);
    cairo_surface_destroy(surface);
}

/* A unit and its factor are chosen so that the brightest value reads as 1 to 999. */
static double choose_unit(const char *unit, double largest, char *text, size_t size)
{
    static const struct {
        const char *prefix;
        double factor;
    } prefix[] = {{"k", 1e-3}, {"", 1}, {"m", 1e3}, {"µ", 1e6}, {"n", 1e9}};
    int chosen = 1;
    if (strncmp(unit, "Jy", 2) == 0) {
        chosen = 0;
        while (chosen < 4 && largest * prefix[chosen].factor < 0.8) chosen++;
        if (largest == 0) chosen = 1;
    }
    snprintf(text, size, "%s%s", prefix[chosen].prefix, unit);
    return prefix[chosen].factor;
}

static void format_number(double v, char *text, size_t size)
{
    snprintf(text, size, "%s%.6g", v < 0 ? "−" : "", fabs(v));
}

/* Draws ticks of the colour bar: the roundest numbers first, each where there is still room. Returns the widest's
 * width.
 */
static double draw_bar_ticks(cairo_t *cr, const msi_picture_frame *f, const msi_stretch *stretch, double factor)
{
    static const double multiple[] = {1, 5, 2, 3, 4, 7, 1.5};
    double x = f->left + f->width + BAR_GAP + BAR_WIDTH, taken[64], widest = 0;
    int n_taken = 0;
    double largest = fmax(fabs(stretch->low), fabs(stretch->high)) * factor;
    int power = largest > 0 ? (int)floor(log10(largest)) : 0;
    for (int step = -1; step < 6 * 7 * 2 && n_taken < 64; step++) {
        double v = 0;
        if (step >= 0) {
            v = multiple[step / 2 % 7] * pow(10, power - step / 14);
            if (step % 2) v = -v;
        }
        if (v / factor < stretch->low || v / factor > stretch->high) continue;
        double y = f->top + f->height * (1 - msi_stretch_apply(stretch, v / factor));
        int free_here = 1;
        for (int i = 0; i < n_taken; i++) free_here &= fabs(taken[i] - y) >= BAR_TICK_APART;
        if (!free_here) continue;
        taken[n_taken++] = y;
        char text[32];
        format_number(v, text, sizeof text);
        cairo_move_to(cr, x, y);
        cairo_line_to(cr, x + 5, y);
        cairo_stroke(cr);
        msi_picture_text(cr, x + 9, y + 5, 0, text);
        widest = fmax(widest, msi_picture_text_width(cr, text));
    }
    return widest;
}

static void draw_bar(cairo_t *cr, const msi_picture_frame *f, const msi_stretch *stretch,
                     const uint32_t colour[MSI_N_COLOUR], const char *unit)
{
    double x = f->left + f->width + BAR_GAP;
    for (int i = 0; i < MSI_N_COLOUR; i++) {
        double y0 = f->top + f->height * (1 - (i + 1) / (double)MSI_N_COLOUR);
        cairo_set_source_rgb(cr, (double)(colour[i] >> 16 & 255) / 255, (double)(colour[i] >> 8 & 255) / 255,
                             (double)(colour[i] & 255) / 255);
        /* Half a pixel of overlap keeps antialiasing from showing the seams. */
        cairo_rectangle(cr, x, y0, BAR_WIDTH, f->height / MSI_N_COLOUR + (i ? 0.5 : 0));
        cairo_fill(cr);
    }
    cairo_set_source_rgb(cr, 0.1, 0.1, 0.1);
    cairo_set_line_width(cr, 1.2);
    cairo_rectangle(cr, x, f->top, BAR_WIDTH, f->height);
    cairo_stroke(cr);
    cairo_set_font_size(cr, MSI_PICTURE_LABEL_SIZE);
    char scaled[48];
    double factor = choose_unit(unit, fmax(fabs(stretch->low), fabs(stretch->high)), scaled, sizeof scaled);
    double widest = draw_bar_ticks(cr, f, stretch, factor);
    cairo_save(cr);
    cairo_translate(cr, x + BAR_WIDTH + 9 + widest + 24, f->top + f->height / 2);
    cairo_rotate(cr, -MSI_PI / 2);
    msi_picture_text(cr, 0, 0, 0.5, scaled);
    cairo_restore(cr);
}

static void draw_beam(cairo_t *cr, const msi_picture_frame *f, const msi_beam *beam)
{
    double major = 0.5 * beam->major_rad / f->geometry.cell_y_rad * f->scale;
    double minor = 0.5 * beam->minor_rad / f->geometry.cell_y_rad * f->scale;
    if (!msi_beam_known(beam) || major > 0.15 * f->height) return;
    double box = fmax(2 * major + 14, 26), x = f->left + 12, y = f->top + f->height - 12 - box;
    cairo_set_source_rgba(cr, 0, 0, 0, 0.55);
    cairo_rectangle(cr, x, y, box, box);
    cairo_fill_preserve(cr);
    cairo_set_source_rgba(cr, 1, 1, 1, 0.8);
    cairo_set_line_width(cr, 1);
    cairo_stroke(cr);
    cairo_save(cr);
    cairo_translate(cr, x + box / 2, y + box / 2);
    /* East is left: from north through east turns against the clock. */
    cairo_rotate(cr, -beam->pa_rad);
    cairo_scale(cr, fmax(minor, 0.8), fmax(major, 0.8));
    cairo_arc(cr, 0, 0, 1, 0, 2 * MSI_PI);
    cairo_restore(cr);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_fill(cr);
}

/* ", " between parts; nothing for an empty one. */
static void append(char *text, size_t size, const char *part)
{
    size_t n = strlen(text);
    if (part[0]) snprintf(text + n, size - n, "%s%s", n ? ", " : "", part);
}

static void angle_text(double rad, char *text, size_t size)
{
    double asec = rad * ASEC_PER_RAD;
    const char *unit = asec >= 3600 ? "°" : asec >= 60 ? "′" : asec >= 0.1 ? "″" : " mas";
    double v = asec >= 3600 ? asec / 3600 : asec >= 60 ? asec / 60 : asec >= 0.1 ? asec : asec * 1e3;
    snprintf(text, size, "%.*f%s", v >= 100 ? 0 : v >= 10 ? 1 : v >= 1 ? 2 : 3, v, unit);
}

static void draw_title(cairo_t *cr, const msi_picture_frame *f, const msi_fits_spec *spec, double peak,
                       const char *unit)
{
    static const char *const kind[] = {"dirty image", "point spread function", "model", "", "", ""};
    const msi_observation *o = spec->observation;
    char title[256] = "", detail[320] = "", part[96], a[32], b[32];
    append(title, sizeof title, o->object);
    append(title, sizeof title, o->telescope);
    part[0] = 0;
    if (spec->freq_hz >= 1e9)
        snprintf(part, sizeof part, "%.6g GHz", spec->freq_hz * 1e-9);
    else if (spec->freq_hz > 0)
        snprintf(part, sizeof part, "%.6g MHz", spec->freq_hz * 1e-6);
    append(title, sizeof title, part);
    if (spec->kind != MSI_FITS_PSF) {
        snprintf(part, sizeof part, spec->pol <= MSI_POL_V ? "Stokes %s" : "%s", msi_pol_name(spec->pol));
        append(title, sizeof title, part);
    }
    append(detail, sizeof detail, kind[spec->kind]);
    if (spec->weighting && spec->weighting[0] && spec->kind != MSI_FITS_MODEL) {
        snprintf(part, sizeof part, "%.60s weighting", spec->weighting);
        append(detail, sizeof detail, part);
    }
    if (isfinite(peak) && spec->kind != MSI_FITS_PSF) {
        char scaled[48], number[32];
        double factor = choose_unit(unit, fabs(peak), scaled, sizeof scaled);
        snprintf(number, sizeof number, "%s%.4g", peak < 0 ? "−" : "", fabs(peak * factor));
        snprintf(part, sizeof part, "peak %s %s", number, scaled);
        append(detail, sizeof detail, part);
    }
    if (msi_beam_known(&spec->beam) && spec->kind != MSI_FITS_MODEL) {
        angle_text(spec->beam.major_rad, a, sizeof a);
        angle_text(spec->beam.minor_rad, b, sizeof b);
        snprintf(part, sizeof part, "beam %s × %s at %.0f°", a, b, spec->beam.pa_rad * DEG_PER_RAD);
        append(detail, sizeof detail, part);
    }
    cairo_set_source_rgb(cr, 0.1, 0.1, 0.1);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    /* Room from the frame's left to the canvas's right; long titles are set smaller. */
    double room = f->width + MARGIN_RIGHT - 16, size = 22;
    cairo_set_font_size(cr, size);
    double width = msi_picture_text_width(cr, title);
    if (width > room) cairo_set_font_size(cr, size * room / width);
    msi_picture_text(cr, f->left, f->top - 60, 0, title);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    size = MSI_PICTURE_LABEL_SIZE;
    cairo_set_font_size(cr, size);
    width = msi_picture_text_width(cr, detail);
    if (width > room) cairo_set_font_size(cr, size * room / width);
    cairo_set_source_rgb(cr, 0.3, 0.3, 0.3);
    msi_picture_text(cr, f->left, f->top - 35, 0, detail);
}

static double largest_by_size(const msi_image_geometry *g, const void *pixel, msi_precision precision)
{
    double peak = NAN;
    for (int64_t i = 0; i < msi_image_n_pixel(g); i++) {
        double v = msi_image_value(pixel, precision, i);
        if (isfinite(v) && !(fabs(v) <= fabs(peak))) peak = v;
    }
    return peak;
}

typedef struct png_sink {
    msi_publish *p;
    int i, rc;
} png_sink;

static cairo_status_t write_png(void *closure, const unsigned char *data, unsigned int length)
{
    png_sink *sink = closure;
    sink->rc = msi_publish_write(sink->p, sink->i, data, length);
    return sink->rc ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

static int save(msi_publish *p, int i, cairo_surface_t *canvas)
{
    int fd;
    MSI_TRY(msi_publish_begin(p, i, &fd));
    png_sink sink = {p, i, MSI_OK};
    cairo_status_t status = cairo_surface_write_to_png_stream(canvas, write_png, &sink);
    if (sink.rc) return sink.rc;
    if (status == CAIRO_STATUS_NO_MEMORY) return msi_error_set(MSI_ENOMEM, "%s: no memory", msi_publish_name(p, i));
    if (status) return msi_publish_fail(p, i, 0, cairo_status_to_string(status));
    return msi_publish_seal(p, i);
}

int msi_picture_write(msi_publish *p, int i, const msi_fits_spec *spec, const void *pixel, msi_precision precision)
{
    if (spec->kind > MSI_FITS_MODEL) return msi_error_set(MSI_ERANGE, "pictures show images on the sky only");
    const char *unit = spec->unit ? spec->unit : spec->kind == MSI_FITS_MODEL ? "Jy/pixel" : "Jy/beam";
    const msi_image_geometry *g = &spec->geometry;
    small_image s = {0};
    msi_sky_wcs *wcs = NULL;
    cairo_surface_t *canvas = NULL;
    cairo_t *cr = NULL;
    int rc = msi_sky_wcs_create(&wcs, g, spec->ra_rad, spec->dec_rad, spec->observation->dir_frame,
                                spec->observation->start_mjd_s / 86400);
    if (rc) goto out;
    if ((rc = shrink(&s, g, pixel, precision))) goto out;
    msi_stretch stretch;
    if ((rc = msi_stretch_fit(&stretch, s.value, (int64_t)s.nx * s.ny))) goto out;

    int side = s.nx > s.ny ? s.nx : s.ny;
    int magnify = side < SMALLEST_SIDE ? (SMALLEST_SIDE + side - 1) / side : 1;
    msi_picture_frame f = {
        .left = MARGIN_LEFT, .top = MARGIN_TOP, .scale = (double)magnify / (double)s.block, .geometry = *g, .wcs = wcs};
    f.width = (double)g->nx * f.scale;
    f.height = (double)g->ny * f.scale;
    canvas = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(f.width) + MARGIN_LEFT + MARGIN_RIGHT,
                                        (int)ceil(f.height) + MARGIN_TOP + MARGIN_BOTTOM);
    cr = cairo_create(canvas);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_paint(cr);
    uint32_t colour[MSI_N_COLOUR];
    msi_colour_map(colour);
    draw_image(cr, &f, &s, &stretch, colour, magnify);
    msi_picture_draw_axes(cr, &f);
    draw_bar(cr, &f, &stretch, colour, unit);
    if (spec->kind != MSI_FITS_MODEL) draw_beam(cr, &f, &spec->beam);
    draw_title(cr, &f, spec, largest_by_size(g, pixel, precision), unit);
    if (cairo_status(cr)) {
        rc = msi_error_set(MSI_ENOMEM, "%s: cannot be drawn: %s", msi_publish_name(p, i),
                           cairo_status_to_string(cairo_status(cr)));
        goto out;
    }
    cairo_surface_flush(canvas);
    rc = save(p, i, canvas);
out:
    if (cr) cairo_destroy(cr);
    if (canvas) cairo_surface_destroy(canvas);
    msi_sky_wcs_free(wcs);
    msi_free(s.value);
    return rc;
}
