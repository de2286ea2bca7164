/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"

/* Make space for n more bytes and a zero. Returns 0 if there is none. */
static int reserve(msi_html *h, int64_t n)
{
    if (h->status) return 0;
    if (h->n + n + 1 > h->capacity) {
        const int64_t capacity = 2 * h->capacity + n + 4096;
        h->status = msi_grow(&h->text, h->capacity, capacity, 1, "the report");
        if (!h->status) h->capacity = capacity;
    }
    return !h->status;
}

static void add_bytes(msi_html *h, const char *bytes, int64_t n)
{
    if (!reserve(h, n)) return;
    memcpy(h->text + h->n, bytes, (size_t)n);
    h->n += n;
    h->text[h->n] = 0;
}

void msi_html_add(msi_html *h, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    const int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n < 0 || !reserve(h, n)) return;
    va_start(ap, format);
    vsnprintf(h->text + h->n, (size_t)n + 1, format, ap);
    va_end(ap);
    h->n += n;
}

void msi_html_text(msi_html *h, const char *text)
{
    while (*text) {
        const int n = msi_log_printable(text);
        if (n == 0)
            msi_html_add(h, "\\x%02X", (unsigned char)*text);
        else if (strchr("&<>\"'", *text))
            msi_html_add(h, "&#%d;", *text);
        else
            add_bytes(h, text, n);
        text += n ? n : 1;
    }
}

void msi_html_png(msi_html *h, const unsigned char *png, int64_t n, const char *alt)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    msi_html_add(h, "<img alt=\"");
    msi_html_text(h, alt);
    msi_html_add(h, "\" src=\"data:image/png;base64,");
    if (!reserve(h, (n + 2) / 3 * 4)) return;
    char *to = h->text + h->n;
    for (int64_t i = 0; i < n; i += 3) {
        const int m = n - i < 3 ? (int)(n - i) : 3;
        const unsigned v = (unsigned)png[i] << 16 | (m > 1 ? (unsigned)png[i + 1] << 8 : 0) | (m > 2 ? png[i + 2] : 0);
        *to++ = digit[v >> 18];
        *to++ = digit[v >> 12 & 63];
        *to++ = m > 1 ? digit[v >> 6 & 63] : '=';
        *to++ = m > 2 ? digit[v & 63] : '=';
    }
    h->n = to - h->text;
    msi_html_add(h, "\">");
}

void msi_html_bars(msi_html *h, const msi_html_bar *bar, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, bar[i].value);
    msi_html_add(h, "<table class=\"bars\">\n");
    for (int i = 0; i < n; i++) {
        const double percent = most > 0 ? 100 * bar[i].value / most : 0;
        msi_html_add(h, "<tr><th>");
        msi_html_text(h, bar[i].label);
        msi_html_add(h, "</th><td class=\"track\"><div class=\"bar%s\" style=\"width:%.2f%%\"></div></td><td>",
                     bar[i].is_emphasised ? "" : " second", percent);
        msi_html_text(h, bar[i].text);
        msi_html_add(h, "</td></tr>\n");
    }
    msi_html_add(h, "</table>\n");
}

/* ---- Curves, as SVG ---- */

/* Lengths are in units of the chart's view box. */
enum { WIDTH = 900, HEIGHT = 300, LEFT = 90, RIGHT = 20, TOP = 20, BOTTOM = 56, MOST_CURVES = 4 };

typedef struct range {
    double low, high, step;
} range;

/* Choose round ends and a step of 1, 2 or 5 times a power of ten, of four to ten steps. */
static range choose_range(double low, double high)
{
    if (!(high > low)) {
        const double margin = low != 0 ? 0.1 * fabs(low) : 1;
        low -= margin;
        high += margin;
    }
    const double least = (high - low) / 8, power = pow(10, floor(log10(least)));
    const double step = power * (least / power <= 1 ? 1 : least / power <= 2 ? 2 : least / power <= 5 ? 5 : 10);
    return (range){step * floor(low / step + 1e-9), step * ceil(high / step - 1e-9), step};
}

static double place_x(const range *x, double v)
{
    return LEFT + (v - x->low) / (x->high - x->low) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const range *y, double v)
{
    return HEIGHT - BOTTOM - (v - y->low) / (y->high - y->low) * (HEIGHT - TOP - BOTTOM);
}

static void add_ticks(msi_html *h, const range *x, const range *y)
{
    for (int i = 0; x->low + i * x->step <= x->high + 1e-6 * x->step; i++) {
        const double v = x->low + i * x->step, at = place_x(x, v);
        msi_html_add(h,
                     "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" class=\"middle\">%.8g</text>\n",
                     at, TOP, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 20, fabs(v) < 1e-9 * x->step ? 0 : v);
    }
    for (int i = 0; y->low + i * y->step <= y->high + 1e-6 * y->step; i++) {
        const double v = y->low + i * y->step, at = place_y(y, v);
        msi_html_add(h, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" class=\"end\">%.6g</text>\n",
                     LEFT, at, WIDTH - RIGHT, LEFT - 8, at + 5, fabs(v) < 1e-9 * y->step ? 0 : v);
    }
}

static void add_curve(msi_html *h, const range *x, const range *y, const double *at, int64_t n, const msi_html_curve *c,
                      int k)
{
    int is_drawing = 0;
    msi_html_add(h, "<path class=\"curve c%d\" d=\"", k);
    for (int64_t i = 0; i < n; i++) {
        const int is_there = isfinite(c->y[i]) != 0;
        if (is_there) msi_html_add(h, "%c%.1f %.1f", is_drawing ? 'L' : 'M', place_x(x, at[i]), place_y(y, c->y[i]));
        is_drawing = is_there;
    }
    msi_html_add(h, "\"/>\n");
    for (int64_t i = 0; i < n; i++)
        if (isfinite(c->y[i]))
            msi_html_add(h, "<circle class=\"c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", k, place_x(x, at[i]),
                         place_y(y, c->y[i]));
}

void msi_html_curves(msi_html *h, const double *x, int64_t n, const msi_html_curve *curve, int n_curve,
                     const char *x_title, const char *y_title)
{
    double x_low = INFINITY, x_high = -INFINITY, low = 0, high = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        x_low = fmin(x_low, x[i]);
        x_high = fmax(x_high, x[i]);
        for (int k = 0; k < n_curve; k++) {
            if (!isfinite(curve[k].y[i])) continue;
            low = fmin(low, curve[k].y[i]);
            high = fmax(high, curve[k].y[i]);
        }
    }
    if (!isfinite(high)) return;
    const range of_x = choose_range(x_low, x_high), of_y = choose_range(low, high);
    msi_html_add(h, "<p class=\"legend\">");
    for (int k = 0; k < n_curve && k < MOST_CURVES; k++) {
        msi_html_add(h, "<span class=\"c%d\">", k);
        msi_html_text(h, curve[k].name);
        msi_html_add(h, "</span>");
    }
    msi_html_add(h, "</p>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, HEIGHT);
    add_ticks(h, &of_x, &of_y);
    for (int k = 0; k < n_curve && k < MOST_CURVES; k++) add_curve(h, &of_x, &of_y, x, n, &curve[k], k);
    msi_html_add(h, "<text x=\"%d\" y=\"%d\" class=\"middle\">", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
    msi_html_text(h, x_title);
    msi_html_add(h, "</text>\n<text x=\"18\" y=\"%d\" class=\"middle\" transform=\"rotate(-90 18 %d)\">",
                 (TOP + HEIGHT - BOTTOM) / 2, (TOP + HEIGHT - BOTTOM) / 2);
    msi_html_text(h, y_title);
    msi_html_add(h, "</text>\n</svg>\n");
}
