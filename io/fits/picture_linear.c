/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_linear.h"

#include <math.h>
#include <stdio.h>

#include "core/types.h"

enum { MOST_LINES = 8, TICK = 6 };

/* Choose the smallest of 1, 2 and 5 times a power of ten that gives no more than MOST_LINES; *decimals are what it
 * needs. */
static double choose_step(double range, int *decimals)
{
    const double least = range / MOST_LINES, power = pow(10, floor(log10(least))), m = least / power;
    const double step = (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * power;
    *decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
    return step;
}

static void draw_tick(cairo_t *cr, const msi_picture_frame *f, int k, double at)
{
    const double bottom = f->top + f->height;
    const int is_x = k == 0;
    cairo_set_source_rgba(cr, f->is_light ? 0 : 1, f->is_light ? 0 : 1, f->is_light ? 0 : 1, 0.28);
    cairo_set_line_width(cr, 0.8);
    cairo_move_to(cr, is_x ? at : f->left, is_x ? f->top : at);
    cairo_line_to(cr, is_x ? at : f->left + f->width, is_x ? bottom : at);
    cairo_stroke(cr);
    cairo_set_source_rgb(cr, 0.1, 0.1, 0.1);
    cairo_set_line_width(cr, 1.2);
    cairo_move_to(cr, is_x ? at : f->left, is_x ? bottom : at);
    cairo_line_to(cr, is_x ? at : f->left - TICK, is_x ? bottom + TICK : at);
    cairo_stroke(cr);
}

/* Draw the lines of axis k (0 x, 1 y). Returns the width of the widest label. */
static double draw_axis(cairo_t *cr, const msi_picture_frame *f, const msi_linear_axis *axis, int k)
{
    const double n = (double)(k ? f->geometry.ny : f->geometry.nx), length = k ? f->height : f->width;
    const double first = (-0.5 - axis->zero_pixel) * axis->per_pixel,
                 last = (n - 0.5 - axis->zero_pixel) * axis->per_pixel;
    const double low = fmin(first, last), high = fmax(first, last);
    int decimals;
    if (!(high > low) || !isfinite(low + high)) return 0;
    const double step = choose_step(high - low, &decimals);
    double widest = 0;
    if (!(fmax(-low, high) / step < 1e15)) return 0; /* a header's numbers, in which the image is lost */
    const int64_t end = (int64_t)floor(high / step + 1e-9);
    for (int64_t i = (int64_t)ceil(low / step - 1e-9); i <= end; i++) {
        const double fraction = ((double)i * step - first) / (last - first);
        const double at = k ? f->top + f->height - fraction * length : f->left + fraction * length;
        char text[48];
        snprintf(text, sizeof text, "%s%.*f", i < 0 ? "−" : "", decimals, fabs((double)i * step));
        draw_tick(cr, f, k, at);
        widest = fmax(widest, msi_picture_text_width(cr, text));
        if (k == 0)
            msi_picture_text(cr, at, f->top + f->height + 23, 0.5, text);
        else
            msi_picture_text(cr, f->left - 10, at + 5, 1, text);
    }
    return widest;
}

void msi_picture_draw_linear(cairo_t *cr, const msi_picture_frame *f, const msi_linear_axis axis[2])
{
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, MSI_PICTURE_LABEL_SIZE);
    draw_axis(cr, f, &axis[0], 0);
    const double widest = draw_axis(cr, f, &axis[1], 1);
    msi_picture_draw_border(cr, f, axis[0].title, axis[1].title, widest);
}
