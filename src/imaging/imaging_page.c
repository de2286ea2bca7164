/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The page of -report, NAME-report.html, which shows the results of a run. It needs no other file. */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "src/imaging/imaging_run.h"

/* ---- Elements of an HTML page: text, tables, pictures, bars and curves ---- */

/* A page; zero-initialised it is empty. The first failure is stored in status, and nothing is added after it. */
typedef struct msi_html {
    char *text; /* [n] and a zero; owned, msi_free */
    int64_t n, capacity;
    int status; /* 0, MSI_ENOMEM */
} msi_html;

typedef struct html_bar {
    const char *label;
    double value;      /* 0 or more */
    const char *text;  /* shown after the bar */
    int is_emphasised; /* 1: the bar has the first colour; 0: the second */
} html_bar;

typedef struct html_curve {
    const char *name;
    const double *y; /* [n]; the curve has a gap where y is not finite */
} html_curve;

/* Allocate memory for n more bytes and a terminating zero. Returns 0 on failure. */
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

/* Add text with markup. */
static void html_add(msi_html *h, const char *format, ...)
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

/* Add plain text: markup characters are escaped, and bytes that cannot be shown are written as \xNN. */
static void html_text(msi_html *h, const char *text)
{
    while (*text) {
        const int n = msi_log_printable(text);
        if (n == 0)
            html_add(h, "\\x%02X", (unsigned char)*text);
        else if (strchr("&<>\"'", *text))
            html_add(h, "&#%d;", *text);
        else
            add_bytes(h, text, n);
        text += n ? n : 1;
    }
}

/* Embed a picture in the page. Given: alt  text for readers without pictures */
static void html_png(msi_html *h, const unsigned char *png, int64_t n, const char *alt)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    html_add(h, "<img alt=\"");
    html_text(h, alt);
    html_add(h, "\" src=\"data:image/png;base64,");
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
    html_add(h, "\">");
}

/* Add horizontal bars. The longest has the full width. */
static void html_bars(msi_html *h, const html_bar *bar, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, bar[i].value);
    html_add(h, "<table class=\"bars\">\n");
    for (int i = 0; i < n; i++) {
        const double percent = most > 0 ? 100 * bar[i].value / most : 0;
        html_add(h, "<tr><th>");
        html_text(h, bar[i].label);
        html_add(h, "</th><td class=\"track\"><div class=\"bar%s\" style=\"width:%.2f%%\"></div></td><td>",
                 bar[i].is_emphasised ? "" : " second", percent);
        html_text(h, bar[i].text);
        html_add(h, "</td></tr>\n");
    }
    html_add(h, "</table>\n");
}

/* ---- Curves, as SVG ---- */

/* Lengths in units of the SVG view box. */
enum { WIDTH = 900, HEIGHT = 300, LEFT = 90, RIGHT = 20, TOP = 20, BOTTOM = 56, MOST_CURVES = 4 };

typedef struct range {
    double low, high, step;
} range;

/* Choose round limits of an axis, and a step of 1, 2 or 5 times a power of ten that gives four to ten steps. */
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
        html_add(h, "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" class=\"middle\">%.8g</text>\n",
                 at, TOP, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 20, fabs(v) < 1e-9 * x->step ? 0 : v);
    }
    for (int i = 0; y->low + i * y->step <= y->high + 1e-6 * y->step; i++) {
        const double v = y->low + i * y->step, at = place_y(y, v);
        html_add(h, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" class=\"end\">%.6g</text>\n",
                 LEFT, at, WIDTH - RIGHT, LEFT - 8, at + 5, fabs(v) < 1e-9 * y->step ? 0 : v);
    }
}

static void add_curve(msi_html *h, const range *x, const range *y, const double *at, int64_t n, const html_curve *c,
                      int k)
{
    int is_drawing = 0;
    html_add(h, "<path class=\"curve c%d\" d=\"", k);
    for (int64_t i = 0; i < n; i++) {
        const int is_there = isfinite(c->y[i]) != 0;
        if (is_there) html_add(h, "%c%.1f %.1f", is_drawing ? 'L' : 'M', place_x(x, at[i]), place_y(y, c->y[i]));
        is_drawing = is_there;
    }
    html_add(h, "\"/>\n");
    for (int64_t i = 0; i < n; i++)
        if (isfinite(c->y[i]))
            html_add(h, "<circle class=\"c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", k, place_x(x, at[i]),
                     place_y(y, c->y[i]));
}

/*
 * Add a chart of up to four curves over the same x. The y axis begins at 0, or at the lowest value if that is negative.
 * Given: x [n]  finite
 *        x_title, y_title  with units
 */
static void html_curves(msi_html *h, const double *x, int64_t n, const html_curve *curve, int n_curve,
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
    html_add(h, "<p class=\"legend\">");
    for (int k = 0; k < n_curve && k < MOST_CURVES; k++) {
        html_add(h, "<span class=\"c%d\">", k);
        html_text(h, curve[k].name);
        html_add(h, "</span>");
    }
    html_add(h, "</p>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, HEIGHT);
    add_ticks(h, &of_x, &of_y);
    for (int k = 0; k < n_curve && k < MOST_CURVES; k++) add_curve(h, &of_x, &of_y, x, n, &curve[k], k);
    html_add(h, "<text x=\"%d\" y=\"%d\" class=\"middle\">", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
    html_text(h, x_title);
    html_add(h, "</text>\n<text x=\"18\" y=\"%d\" class=\"middle\" transform=\"rotate(-90 18 %d)\">",
             (TOP + HEIGHT - BOTTOM) / 2, (TOP + HEIGHT - BOTTOM) / 2);
    html_text(h, y_title);
    html_add(h, "</text>\n</svg>\n");
}

static const char HEAD[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>\n"
    "body{font:16px/1.5 system-ui,sans-serif;color:#1b2430;background:#f4f6f8;margin:0}\n"
    "main{max-width:1120px;margin:0 auto;padding:24px}\n"
    "h1{font-size:28px;margin:8px 0 0}h2{font-size:20px;margin:0 0 12px}\n"
    "section{background:#fff;border:1px solid #dde3ea;border-radius:8px;padding:20px;margin:20px 0}\n"
    ".sub{color:#5a6778;margin:0}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:20px 0}\n"
    ".cards div{background:#fff;border:1px solid #dde3ea;border-radius:8px;padding:10px 14px}\n"
    ".cards b{display:block;font-size:19px}.cards span{color:#5a6778;font-size:14px}\n"
    "figure{margin:0;min-width:0}figcaption{color:#5a6778;font-size:14px;overflow-wrap:anywhere}\n"
    ".pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:20px}\n"
    "#images figure:first-child{grid-column:1/-1}\n"
    "img{box-sizing:border-box;width:100%;height:auto;border:1px solid #e6eaef}\n"
    "table{border-collapse:collapse;width:100%}th{text-align:left;font-weight:600;padding:3px 14px 3px 0;"
    "white-space:nowrap;vertical-align:top}td{padding:3px 14px 3px 0;overflow-wrap:anywhere}\n"
    ".files{display:block;overflow-x:auto;font-size:14px}.files td{white-space:nowrap}\n"
    ".files td:first-child{white-space:normal;min-width:120px}.files thead th{border-bottom:1px solid #c9d2dc}.n{text-align:right}\n"
    ".bars td{white-space:nowrap}.bars .track{width:55%}.bar{height:16px;background:#1f5fa8;min-width:2px;"
    "border-radius:2px}.second{background:#c8501e}\n"
    ".warning{background:#fff6e5;border-color:#e6b04a}.warning li{margin:4px 0;overflow-wrap:anywhere}\n"
    "pre{background:#f4f6f8;padding:12px;border-radius:6px;white-space:pre-wrap;overflow-wrap:anywhere;"
    "font-size:14px;margin:0}\n"
    "svg{width:100%;height:auto}svg text{font-size:14px;fill:#1b2430}.middle{text-anchor:middle}"
    ".end{text-anchor:end}.grid{stroke:#dde3ea}.curve{fill:none;stroke-width:2}\n"
    "path.c0{stroke:#1f5fa8}path.c1{stroke:#c8501e}path.c2{stroke:#2e8b57}path.c3{stroke:#8a4fa3}\n"
    "circle.c0{fill:#1f5fa8}circle.c1{fill:#c8501e}circle.c2{fill:#2e8b57}circle.c3{fill:#8a4fa3}\n"
    ".legend span{margin-right:20px;font-weight:600}span.c0{color:#1f5fa8}span.c1{color:#c8501e}"
    "span.c2{color:#2e8b57}span.c3{color:#8a4fa3}\n"
    "</style>\n";

/* ---- Values ---- */

/* Write a value in Jy with a suitable prefix, such as "1.234 mJy/beam"; "-" if it is unknown. */
static const char *format_flux(char text[MSI_FORMAT_SIZE], double jy, const char *per)
{
    static const struct {
        double size;
        const char *name;
    } unit[] = {{1, "Jy"}, {1e-3, "mJy"}, {1e-6, "µJy"}, {1e-9, "nJy"}};
    int k = 0;
    if (!isfinite(jy)) return "-";
    while (k < 3 && fabs(jy) < unit[k].size) k++;
    if (jy == 0) k = 0;
    snprintf(text, MSI_FORMAT_SIZE, "%.4g %s%s", jy / unit[k].size, unit[k].name, per);
    return text;
}

static const char *format_beam(char text[2 * MSI_FORMAT_SIZE], const msi_beam *beam)
{
    if (!msi_beam_known(beam)) return "-";
    const msi_unit unit = msi_angle_unit(beam->major_rad);
    snprintf(text, 2 * MSI_FORMAT_SIZE, "%.4g × %.4g %s, %.1f°", beam->major_rad / unit.size,
             beam->minor_rad / unit.size, unit.name, beam->pa_rad * 180 / MSI_PI);
    return text;
}

static const char *format_frequency(char text[MSI_FORMAT_SIZE], double hz)
{
    if (!(hz > 0)) return "-";
    const msi_unit unit = msi_freq_unit(hz);
    snprintf(text, MSI_FORMAT_SIZE, "%.6g %s", hz / unit.size, unit.name);
    return text;
}

/* Return the number of the file that represents the run: the restored or dirty image of all channels; -1 if there is
 * none. */
static int main_image(const msi_imaging_run *r, msi_output_shown *s)
{
    const msi_options *o = r->options;
    const msi_fits_kind kind = o->make_psf_only ? MSI_FITS_PSF : o->clean.niter ? MSI_FITS_IMAGE : MSI_FITS_DIRTY;
    for (int i = 0; i < msi_outputs_n(r->outputs); i++) {
        msi_outputs_shown(r->outputs, i, s);
        if (!s->text && !s->is_picture && s->freq_hz > 0 && s->id.kind == kind && s->id.interval == 0 &&
            s->id.plane == 0 && s->id.term == 0 && s->id.channel == (o->channels_out > 1 ? MSI_OUTPUT_MFS : 0))
            return i;
    }
    return -1;
}

/* ---- Sections ---- */

static void add_title(msi_html *h, const msi_imaging_run *r)
{
    const msi_options *o = r->options;
    char when[32] = "", frequency[MSI_FORMAT_SIZE];
    const time_t now = time(NULL);
    struct tm utc;
    msi_output_shown s = {0};
    const int has_main = main_image(r, &s) >= 0;
    if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", &utc);
    html_add(h, "%s<title>", HEAD);
    html_text(h, o->name);
    html_add(h, "</title>\n</head>\n<body>\n<main>\n<h1>");
    html_text(h, *r->observation.object ? r->observation.object : o->name);
    html_add(h, "</h1>\n<p class=\"sub\">");
    if (*r->observation.telescope) {
        html_text(h, r->observation.telescope);
        html_add(h, ", ");
    }
    if (has_main && s.freq_hz > 0) html_add(h, "%s, ", format_frequency(frequency, s.freq_hz));
    html_add(h, "imaged by msimage " MSIMAGE_VERSION " on %s</p>\n", when);
}

static void add_card(msi_html *h, const char *what, const char *value)
{
    html_add(h, "<div><span>%s</span><b>", what);
    html_text(h, value);
    html_add(h, "</b></div>\n");
}

static void add_cards(msi_html *h, const msi_imaging_run *r)
{
    const msi_options *o = r->options;
    char text[2 * MSI_FORMAT_SIZE];
    msi_output_shown s = {.high = NAN};
    const int has_main = main_image(r, &s) >= 0;
    html_add(h, "<div class=\"cards\">\n");
    snprintf(text, sizeof text, "%lld × %lld", (long long)o->geometry.nx, (long long)o->geometry.ny);
    add_card(h, "pixels", text);
    if (has_main && msi_beam_known(&s.beam)) add_card(h, "beam", format_beam(text, &s.beam));
    if (has_main && msi_fits_is_brightness(s.id.kind)) add_card(h, "peak", format_flux(text, s.high, "/beam"));
    if (o->clean.niter && r->history.n)
        add_card(h, "noise of the residual", format_flux(text, r->history.step[r->history.n - 1].noise_jy, "/beam"));
    snprintf(text, sizeof text, "%lld", (long long)r->n_used);
    add_card(h, "samples", text);
    add_card(h, "time", msi_format_duration(text, msi_wall_s()));
    html_add(h, "</div>\n");
}

static void add_warnings(msi_html *h)
{
    msi_log_line line;
    int n = 0;
    for (int64_t i = 0; msi_log_kept(i, &line); i++) {
        if (line.level != MSI_LOG_QUIET) continue;
        html_add(h, "%s<li>", n++ ? "" : "<section class=\"warning\" id=\"warnings\"><h2>Warnings</h2><ul>\n");
        html_text(h, line.text);
        html_add(h, "</li>\n");
    }
    if (n) html_add(h, "</ul></section>\n");
}

/* Return the name, without directories, of the image that a picture shows. The picture itself may have no file. */
static const char *name_of(const msi_imaging_run *r, const msi_output_shown *picture)
{
    msi_output_shown s;
    const char *name = picture->name;
    for (int i = 0; i < msi_outputs_n(r->outputs); i++) {
        msi_outputs_shown(r->outputs, i, &s);
        if (!s.text && !s.is_picture && s.id.kind == picture->id.kind && s.id.interval == picture->id.interval &&
            s.id.channel == picture->id.channel && s.id.plane == picture->id.plane && s.id.term == picture->id.term)
            name = s.name;
    }
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static void add_figure(msi_html *h, const msi_output_shown *s, const char *caption)
{
    char peak[MSI_FORMAT_SIZE], rms[MSI_FORMAT_SIZE];
    const char *per = msi_fits_is_model(s->id.kind) ? "/pixel" : "/beam";
    html_add(h, "<figure>");
    html_png(h, s->png, s->n_png, caption);
    html_add(h, "<figcaption>");
    html_text(h, caption);
    if (!s->text && msi_fits_is_brightness(s->id.kind))
        html_add(h, ": highest %s, root mean square %s", format_flux(peak, s->high, per),
                 format_flux(rms, s->rms, per));
    html_add(h, "</figcaption></figure>\n");
}

/* Add the pictures of all images, except those of weights and PSF, which are in another section. */
static void add_pictures(msi_html *h, const msi_imaging_run *r)
{
    static const msi_fits_kind first[] = {MSI_FITS_IMAGE, MSI_FITS_PBCOR, MSI_FITS_IMAGE_PB, MSI_FITS_DIRTY};
    enum { N_FIRST = sizeof first / sizeof *first };
    int n = 0;
    for (int turn = 0; turn <= N_FIRST; turn++)
        for (int i = 0; i < msi_outputs_n(r->outputs); i++) {
            msi_output_shown s;
            int k = 0;
            msi_outputs_shown(r->outputs, i, &s);
            if (!s.png || s.text || s.id.kind == MSI_FITS_WEIGHTS || s.id.kind == MSI_FITS_PSF) continue;
            while (k < N_FIRST && s.id.kind != first[k]) k++;
            if (k != turn) continue;
            if (!n++) html_add(h, "<section id=\"images\"><h2>Images</h2><div class=\"pictures\">\n");
            add_figure(h, &s, name_of(r, &s));
        }
    if (n) html_add(h, "</div></section>\n");
}

static void add_data(msi_html *h)
{
    msi_log_line line;
    html_add(h, "<section id=\"data\"><h2>Data and image</h2><table>\n");
    for (int64_t i = 0; msi_log_kept(i, &line); i++) {
        if (!*line.label) continue;
        html_add(h, "<tr><th>");
        html_text(h, line.label);
        html_add(h, "</th><td>");
        html_text(h, line.text);
        html_add(h, "</td></tr>\n");
    }
    html_add(h, "</table></section>\n");
}

static void add_samples(msi_html *h, const msi_imaging_run *r)
{
    html_bar bar[MSI_N_REASON + 1];
    char text[MSI_N_REASON + 1][64];
    int64_t all = r->n_used;
    int n = 0;
    for (int i = 0; i < MSI_N_REASON; i++) all += r->n_dropped[i];
    for (int i = -1; i < MSI_N_REASON; i++) {
        const int64_t count = i < 0 ? r->n_used : r->n_dropped[i];
        if (i >= 0 && !count) continue;
        snprintf(text[n], sizeof text[n], "%lld (%.3g %%)", (long long)count,
                 all ? 100 * (double)count / (double)all : 0);
        bar[n] = (html_bar){i < 0 ? "imaged" : msi_imaging_reason(i), (double)count, text[n], i < 0};
        n++;
    }
    html_add(h, "<section id=\"samples\"><h2>Samples</h2><p>%s</p>\n",
             n > 1 ? "Selected samples, and why some of them were dropped." : "No selected sample was dropped.");
    html_bars(h, bar, n);
    html_add(h, "</section>\n");
}

static void add_weights(msi_html *h, const msi_imaging_run *r)
{
    html_add(h, "<section id=\"weights\"><h2>Weights and beam</h2><p>Weighting: ");
    html_text(h, r->weighting);
    html_add(h, ".</p><div class=\"pictures\">\n");
    for (int i = 0; i < msi_outputs_n(r->outputs); i++) {
        msi_output_shown s;
        char beam[2 * MSI_FORMAT_SIZE], caption[200];
        msi_outputs_shown(r->outputs, i, &s);
        if (!s.png || s.text || (s.id.kind != MSI_FITS_WEIGHTS && s.id.kind != MSI_FITS_PSF)) continue;
        if (s.id.kind == MSI_FITS_WEIGHTS)
            snprintf(caption, sizeof caption, "Weights in the uv plane");
        else
            snprintf(caption, sizeof caption, "Point spread function; fitted beam: %s",
                     msi_beam_known(&s.beam) ? format_beam(beam, &s.beam) : "none");
        add_figure(h, &s, caption);
    }
    html_add(h, "</div></section>\n");
}

/* Add the last step of each image that was cleaned separately. */
static void add_last_steps(msi_html *h, const msi_clean_history *history)
{
    char peak[MSI_FORMAT_SIZE], noise[MSI_FORMAT_SIZE], flux[MSI_FORMAT_SIZE];
    html_add(h, "<table class=\"files\"><thead><tr><th>image</th><th>major cycles</th><th>iterations</th>"
                "<th>peak of the residual</th><th>noise</th><th>flux of the model</th><th>ended by</th></tr></thead>"
                "<tbody>\n");
    for (int64_t i = 0; i < history->n; i++) {
        const msi_clean_step *s = &history->step[i];
        int is_last = 1;
        for (int64_t k = i + 1; is_last && k < history->n; k++) is_last = strcmp(history->step[k].image, s->image) != 0;
        if (!is_last) continue;
        html_add(h, "<tr><td>");
        html_text(h, *s->image ? s->image : "all");
        html_add(h, "</td><td>%lld</td><td>%lld</td><td>%s</td><td>%s</td><td>%s</td><td>", (long long)s->major,
                 (long long)s->minor, format_flux(peak, s->peak_jy, "/beam"), format_flux(noise, s->noise_jy, "/beam"),
                 format_flux(flux, s->flux_jy, ""));
        html_text(h, s->stop);
        html_add(h, "</td></tr>\n");
    }
    html_add(h, "</tbody></table>\n");
}

static void add_cleaning(msi_html *h, const msi_imaging_run *r)
{
    if (!r->options->clean.niter) return;
    html_add(h, "<section id=\"cleaning\"><h2>Cleaning</h2>\n");
    for (int i = 0; i < msi_outputs_n(r->outputs); i++) {
        msi_output_shown s;
        msi_outputs_shown(r->outputs, i, &s);
        if (s.png && s.text == MSI_OUTPUT_CURVES)
            add_figure(h, &s, "Convergence: the peak and the noise of the residual, and the flux of the model");
    }
    add_last_steps(h, &r->history);
    html_add(h, "</section>\n");
}

/* Add a chart of peak and rms against frequency, for the main images of the channels of the first interval. */
static int add_spectrum(msi_html *h, const msi_imaging_run *r)
{
    const int64_t n = r->options->channels_out;
    const msi_fits_kind kind = r->options->clean.niter ? MSI_FITS_IMAGE : MSI_FITS_DIRTY;
    double *x;
    if (n < 2 || r->options->make_psf_only) return MSI_OK;
    MSI_TRY(msi_alloc(&x, 3 * n, sizeof *x, "the report"));
    double *high = x + n, *rms = x + 2 * n, largest = 0;
    int64_t found = 0;
    for (int i = 0; i < msi_outputs_n(r->outputs); i++) {
        msi_output_shown s;
        msi_outputs_shown(r->outputs, i, &s);
        if (s.text || s.is_picture || s.id.kind != kind || s.id.channel < 0 || s.id.interval || s.id.plane || s.id.term)
            continue;
        if (!(s.freq_hz > 0) || found == n) continue;
        x[found] = 1e-6 * s.freq_hz;
        high[found] = s.high;
        rms[found] = s.rms;
        largest = isfinite(s.high) ? fmax(largest, s.high) : largest;
        found++;
    }
    const double size = largest < 1e-3 ? 1e-6 : largest < 1 ? 1e-3 : 1;
    for (int64_t i = 0; i < found; i++) {
        high[i] /= size;
        rms[i] /= size;
    }
    const html_curve curve[] = {{"highest pixel", high}, {"root mean square", rms}};
    if (found > 1)
        html_curves(h, x, found, curve, 2, "frequency (MHz)",
                    size < 1e-5 ? "µJy/beam"
                    : size < 1  ? "mJy/beam"
                                : "Jy/beam");
    msi_free(x);
    return MSI_OK;
}

/* Add the table of all image files, up to the number of files that a page can show. */
static void add_files(msi_html *h, const msi_imaging_run *r)
{
    enum { MOST = 500 };
    int n = 0, n_more = 0;
    html_add(h, "<section id=\"files\"><h2>Files</h2>\n");
    const int rc = add_spectrum(h, r);
    if (rc && !h->status) h->status = rc;
    html_add(h, "<table class=\"files\"><thead><tr><th>file</th><th>frequency</th><th>polarisation</th>"
                "<th>highest</th><th>lowest</th><th>root mean square</th><th>beam</th></tr></thead><tbody>\n");
    for (int i = 0; i < msi_outputs_n(r->outputs); i++) {
        msi_output_shown s;
        char text[4][2 * MSI_FORMAT_SIZE];
        msi_outputs_shown(r->outputs, i, &s);
        if (s.text || s.is_picture || !(s.freq_hz > 0)) continue;
        if (n++ >= MOST) {
            n_more++;
            continue;
        }
        const int is_flux = msi_fits_is_brightness(s.id.kind);
        const char *per = msi_fits_is_model(s.id.kind) ? "/pixel" : "/beam";
        html_add(h, "<tr><td>");
        html_text(h, s.name);
        html_add(h, "</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
                 format_frequency(text[0], s.freq_hz), is_flux && s.pol ? msi_pol_name(s.pol) : "",
                 is_flux ? format_flux(text[1], s.high, per) : "", is_flux ? format_flux(text[2], s.low, per) : "",
                 is_flux ? format_flux(text[3], s.rms, per) : "",
                 msi_beam_known(&s.beam) ? format_beam((char[2 *MSI_FORMAT_SIZE]){""}, &s.beam) : "");
    }
    html_add(h, "</tbody></table>\n");
    if (n_more) html_add(h, "<p>%d more files are not listed.</p>\n", n_more);
    html_add(h, "</section>\n");
}

static void add_times(msi_html *h, const msi_imaging_run *r)
{
    static const char *const stage[MSI_N_STAGE] = {"open the sets", "read and convert", "weights", "images and files"};
    html_bar bar[MSI_N_STAGE + 1];
    char text[MSI_N_STAGE + 1][MSI_FORMAT_SIZE];
    double rest = msi_wall_s();
    for (int i = 0; i < MSI_N_STAGE; i++) rest -= r->spent_s[i];
    for (int i = 0; i <= MSI_N_STAGE; i++) {
        const double s = i < MSI_N_STAGE ? r->spent_s[i] : fmax(rest, 0);
        snprintf(text[i], sizeof text[i], "%.2f s", s);
        bar[i] = (html_bar){i < MSI_N_STAGE ? stage[i] : "start, plan and end", s, text[i], 1};
    }
    html_add(h, "<section id=\"times\"><h2>Times</h2>\n");
    html_bars(h, bar, MSI_N_STAGE + 1);
    html_add(h, "</section>\n");
}

static void add_command_and_log(msi_html *h, const msi_imaging_run *r)
{
    msi_log_line line;
    html_add(h, "<section id=\"command\"><h2>Command</h2><pre>");
    html_text(h, r->options->command_line ? r->options->command_line : "");
    html_add(h, "</pre></section>\n<section id=\"log\"><details><summary>Log</summary><pre>");
    for (int64_t i = 0; msi_log_kept(i, &line); i++) {
        html_add(h, "%9.3f s  %s", line.at_s, line.level == MSI_LOG_QUIET ? "warning: " : "");
        if (*line.label) {
            html_text(h, line.label);
            html_add(h, ": ");
        }
        html_text(h, line.text);
        html_add(h, "\n");
    }
    html_add(h, "</pre></details></section>\n</main>\n</body>\n</html>\n");
}

int msi_imaging_page_write(const msi_imaging_run *r)
{
    msi_publish *publish;
    msi_html h = {0};
    int fd;
    const int i = msi_outputs_text(r->outputs, MSI_OUTPUT_REPORT, &publish);
    if (i < 0) return MSI_OK;
    add_title(&h, r);
    add_cards(&h, r);
    add_warnings(&h);
    add_pictures(&h, r);
    add_data(&h);
    add_samples(&h, r);
    add_weights(&h, r);
    add_cleaning(&h, r);
    add_files(&h, r);
    add_times(&h, r);
    add_command_and_log(&h, r);
    int rc = h.status;
    if (!rc) rc = msi_publish_begin(publish, i, &fd);
    if (!rc) rc = msi_publish_write(publish, i, h.text, (size_t)h.n);
    if (!rc) rc = msi_publish_seal(publish, i);
    msi_free(h.text);
    return rc;
}
