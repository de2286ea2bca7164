/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_curves.h"

#include <cairo.h>
#include <math.h>
#include <stdio.h>

#include "core/status.h"
#include "io/fits/picture_axes.h"
#include "io/fits/picture_apart.h"
#include "io/fits/picture_draw.h"

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

/* The ranges of a panel. On a logarithmic axis y is log10. */
typedef struct axes {
    range x, y;
    int logarithmic;
} axes;

static void set_colour(cairo_t *cr, int colour)
{
    const uint32_t c = COLOURS[colour % N_COLOUR];
    cairo_set_source_rgb(cr, (c >> 16 & 255) / 255.0, (c >> 8 & 255) / 255.0, (c & 255) / 255.0);
}

/* Convert a value to the scale of the axis. Returns NaN if it has no place there. */
static double axis_value(double v, int logarithmic)
{
    if (!logarithmic) return isfinite(v) ? v : NAN;
    return v > 0 && isfinite(v) ? log10(v) : NAN;
}

/* Find the range of the values of a panel, with a margin, or of x if panel is -1. */
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

/* Find the canvas position of a point of a curve. Returns 0 if it has none. */
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

/* Draw lines and labels at powers of ten. In a narrow range draw them also at 2 and 5 times these. */
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

/* Draw the axes of a frame of nx x ny canvas pixels. The centre of the first pixel lies half a pixel inside. */
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
