/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_bar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/types.h"

/* Lengths are in canvas pixels. */
enum { BAR_GAP = 16, BAR_WIDTH = 20, BAR_TICK_APART = 34 };

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

/* Draw ticks of the colour bar: the roundest numbers first, each where there is still room. Returns the widest's
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

void msi_picture_draw_bar(cairo_t *cr, const msi_picture_frame *f, const msi_stretch *stretch,
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

void msi_picture_value(double value, const char *unit, char *text, size_t size)
{
    char scaled[48];
    const double factor = choose_unit(unit, fabs(value), scaled, sizeof scaled);
    snprintf(text, size, "%s%.4g%s%s", value < 0 ? "−" : "", fabs(value * factor), *scaled ? " " : "", scaled);
}
