/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_draw.h"

#include <cairo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/types.h"
#include "io/fits/picture_apart.h"

/* ---- Colours ---- */

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Fit the stretch to values [m] in ascending order, m > 0. */
static void fit_brightness(msi_stretch *s, const float *sorted, int64_t m, double sigma)
{
    double median = sorted[m / 2];
    s->low = sorted[(int64_t)(0.0005 * (double)m)];
    s->high = sorted[m - 1];
    s->centre = median;
    /* If sources are far above the noise, all noise would be black. Keep a minimum for the linear range. */
    s->softening = fmax(4 * sigma, 1e-3 * (s->high - s->low));
    s->low = fmax(s->low, median - 4 * sigma);
    if (!(s->high > s->low)) {
        double margin = median != 0 ? 0.1 * fabs(median) : 1;
        s->low = median - margin;
        s->high = median + margin;
        s->softening = margin;
    }
}

static void fit_signed(msi_stretch *s, const float *sorted, int64_t m, double sigma)
{
    const double largest = fmax(fabs((double)sorted[0]), fabs((double)sorted[m - 1]));
    s->high = largest > 0 ? largest : 1;
    s->low = -s->high;
    s->centre = 0;
    s->softening = fmax(4 * sigma, 2e-3 * s->high);
}

static void fit_weights(msi_stretch *s, const float *sorted, int64_t m)
{
    int64_t first = 0;
    while (first < m - 1 && !(sorted[first] > 0)) first++;
    s->low = s->centre = 0;
    s->high = sorted[m - 1] > 0 ? sorted[m - 1] : 1;
    s->softening = sorted[first] > 0 ? fmax(sorted[first], 1e-9 * s->high) : s->high;
}

/* Exclude the tails, because a few faint pixels have indices far from all others. */
static void fit_index(msi_stretch *s, const float *sorted, int64_t m)
{
    static const double TAIL = 0.01;
    const double median = sorted[m / 2];
    *s = (msi_stretch){sorted[(int64_t)(TAIL * (double)m)], sorted[m - 1 - (int64_t)(TAIL * (double)m)], median, 0};
    if (s->high > s->low) return;
    s->low = median - 1;
    s->high = median + 1;
}

int msi_stretch_fit(msi_stretch *s, msi_picture_values kind, const float *value, int64_t n)
{
    float *sorted;
    MSI_TRY(msi_alloc(&sorted, n, sizeof *sorted, "picture"));
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(value[i])) sorted[m++] = value[i];
    *s = (msi_stretch){kind == MSI_VALUES_SIGNED ? -1 : 0, 1, 0, 1};
    if (m > 0) {
        qsort(sorted, (size_t)m, sizeof *sorted, compare_floats);
        /* Half the width of the middle 68 %. It is the noise if sources are few. */
        const double sigma = 0.5 * (sorted[(int64_t)(0.84 * (double)m)] - sorted[(int64_t)(0.16 * (double)m)]);
        if (kind == MSI_VALUES_SIGNED)
            fit_signed(s, sorted, m, sigma);
        else if (kind == MSI_VALUES_WEIGHTS)
            fit_weights(s, sorted, m);
        else if (kind == MSI_VALUES_INDEX)
            fit_index(s, sorted, m);
        else
            fit_brightness(s, sorted, m, sigma);
    }
    msi_free(sorted);
    return MSI_OK;
}

/* Return a linear stretch from low to high > low. For signed values it goes from -m to m, where m is the larger of
 * |low| and |high|. */
static msi_stretch stretch_range(msi_picture_values kind, double low, double high)
{
    const double largest = fmax(fabs(low), fabs(high));
    return kind == MSI_VALUES_SIGNED ? (msi_stretch){-largest, largest, 0, 0} : (msi_stretch){low, high, 0, 0};
}

/* Map a value to the scale on which colours are evenly spaced. */
static double scale_value(const msi_stretch *s, double v)
{
    return s->softening > 0 ? asinh((v - s->centre) / s->softening) : v;
}

double msi_stretch_apply(const msi_stretch *s, double v)
{
    double a = scale_value(s, s->low), b = scale_value(s, s->high);
    double t = (scale_value(s, v) - a) / (b - a);
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

/* Convert OKLab (B. Ottosson 2020) to linear sRGB. */
static void oklab_to_linear(double lightness, double a, double b, double rgb[3])
{
    double l = pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
    double m = pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
    double s = pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
    rgb[0] = 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s;
    rgb[1] = -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s;
    rgb[2] = -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s;
}

static int in_gamut(const double rgb[3])
{
    for (int k = 0; k < 3; k++)
        if (rgb[k] < 0 || rgb[k] > 1) return 0;
    return 1;
}

static uint32_t srgb_byte(double linear)
{
    double v = linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;
    return (uint32_t)lround(255 * (v < 0 ? 0 : v > 1 ? 1 : v));
}

/* Compute the colour of a lightness, chroma and hue. Reduce the chroma until sRGB has the colour. */
static uint32_t colour_of(double lightness, double chroma, double hue_deg)
{
    const double hue = hue_deg * MSI_PI / 180;
    double linear[3];
    do {
        oklab_to_linear(lightness, chroma * cos(hue), chroma * sin(hue), linear);
        chroma -= 0.001;
    } while (!in_gamut(linear) && chroma > 0);
    return srgb_byte(linear[0]) << 16 | srgb_byte(linear[1]) << 8 | srgb_byte(linear[2]);
}

static uint32_t sequential_colour(double t)
{
    return colour_of(0.13 + 0.85 * t, 0.045 + 0.19 * sin(MSI_PI * pow(t, 0.8)) * (1 - 0.35 * t),
                     285 + 180 * t * (0.72 + 0.28 * t));
}

/* Half a step on either side of the middle is white, because no entry of the map is exactly in the middle. */
static uint32_t diverging_colour(double t)
{
    const double half_step = 0.5 / (MSI_N_COLOUR - 1),
                 away = 2 * fmax(0, fabs(t - 0.5) - half_step) / (1 - 2 * half_step);
    return away > 0 ? colour_of(1 - 0.65 * away, 0.26 * sin(0.5 * MSI_PI * away), t < 0.5 ? 260 : 27) : 0xffffff;
}

void msi_colour_map(uint32_t rgb[MSI_N_COLOUR], msi_picture_values kind)
{
    for (int i = 0; i < MSI_N_COLOUR; i++) {
        const double t = i / (double)(MSI_N_COLOUR - 1);
        rgb[i] = kind == MSI_VALUES_SIGNED ? diverging_colour(t) : sequential_colour(t);
    }
}

/* ---- Writing the canvas as a PNG ---- */

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

int msi_picture_save(msi_publish *p, int i, cairo_t *cr, cairo_surface_t *canvas)
{
    if (cairo_status(cr))
        return msi_error_set(MSI_ENOMEM, "%s: cannot draw the picture: %s", msi_publish_name(p, i),
                             cairo_status_to_string(cairo_status(cr)));
    cairo_surface_flush(canvas);
    png_sink sink = {p, i, MSI_OK};
    cairo_status_t status = cairo_surface_write_to_png_stream(canvas, write_png, &sink);
    if (sink.rc) return sink.rc;
    if (status == CAIRO_STATUS_NO_MEMORY) return msi_error_set(MSI_ENOMEM, "%s: out of memory", msi_publish_name(p, i));
    return status ? msi_publish_fail(p, i, 0, cairo_status_to_string(status)) : MSI_OK;
}

/* ---- The colour bar. Lengths are in canvas pixels. ---- */

enum { BAR_GAP = 16, BAR_WIDTH = 20, BAR_TICK_APART = 34 };

/* Write a unit of Jy with the prefix for which the largest value is 0.8 to 800; other units get no prefix. Returns the
 * factor from values to this unit. */
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

/* Draw a tick and its label at height y. Returns the width of the label. */
static double draw_bar_tick(cairo_t *cr, double x, double y, double value)
{
    char text[32];
    format_number(value, text, sizeof text);
    cairo_move_to(cr, x, y);
    cairo_line_to(cr, x + 5, y);
    cairo_stroke(cr);
    msi_picture_draw_text(cr, x + 9, y + 5, 0, text);
    return msi_picture_measure_text(cr, text);
}

/* Draw ticks at even steps of 1, 2 or 5 times a power of ten, if colours are linear in the values. Returns the width of
 * the widest label. */
static double draw_even_ticks(cairo_t *cr, const msi_picture_frame *f, const msi_stretch *stretch, double factor)
{
    static const double multiple[] = {1, 2, 5, 10};
    const double x = f->left + f->width + BAR_GAP + BAR_WIDTH, low = stretch->low * factor,
                 high = stretch->high * factor;
    const double least = (high - low) * 1.5 * BAR_TICK_APART / f->height, unit = pow(10, floor(log10(least)));
    int k = 0;
    while (k < 3 && multiple[k] * unit < least) k++;
    const double step = multiple[k] * unit;
    double widest = 0;
    for (double i = ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
        const double y = f->top + f->height * (1 - msi_stretch_apply(stretch, i * step / factor));
        widest = fmax(widest, draw_bar_tick(cr, x, y, i * step));
    }
    return widest;
}

/* Draw ticks if colours are not linear in the values. Round numbers are tried first; each is drawn if it is far enough
 * from the others. Returns the width of the widest label. */
static double draw_round_ticks(cairo_t *cr, const msi_picture_frame *f, const msi_stretch *stretch, double factor)
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
        widest = fmax(widest, draw_bar_tick(cr, x, y, v));
    }
    return widest;
}

/* Draw the bar to the right of the frame, with ticks at round values and the unit. */
static void draw_bar(cairo_t *cr, const msi_picture_frame *f, const msi_stretch *stretch,
                     const uint32_t colour[MSI_N_COLOUR], const char *unit)
{
    double x = f->left + f->width + BAR_GAP;
    for (int i = 0; i < MSI_N_COLOUR; i++) {
        double y0 = f->top + f->height * (1 - (i + 1) / (double)MSI_N_COLOUR);
        cairo_set_source_rgb(cr, (double)(colour[i] >> 16 & 255) / 255, (double)(colour[i] >> 8 & 255) / 255,
                             (double)(colour[i] & 255) / 255);
        /* Overlap by half a pixel, so that antialiasing does not show seams. */
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
    const int is_even = !(stretch->softening > 0) && stretch->high > stretch->low;
    const double widest = is_even ? draw_even_ticks(cr, f, stretch, factor) : draw_round_ticks(cr, f, stretch, factor);
    cairo_save(cr);
    cairo_translate(cr, x + BAR_WIDTH + 9 + widest + 24, f->top + f->height / 2);
    cairo_rotate(cr, -MSI_PI / 2);
    msi_picture_draw_text(cr, 0, 0, 0.5, scaled);
    cairo_restore(cr);
}

void msi_picture_format_value(double value, const char *unit, char *text, size_t size)
{
    char scaled[48];
    const double factor = choose_unit(unit, fabs(value), scaled, sizeof scaled);
    snprintf(text, size, "%s%.4g%s%s", value < 0 ? "−" : "", fabs(value * factor), *scaled ? " " : "", scaled);
}

/* ---- The image. Lengths are in canvas pixels. ---- */

enum {
    LARGEST_SIDE = 1200, /* larger images are averaged to this size */
    SMALLEST_SIDE = 800, /* smaller images are magnified: pixels are drawn as squares */
    MARGIN_LEFT = 150,
    MARGIN_RIGHT = 138,
    MARGIN_TOP = 100,
    MARGIN_BOTTOM = 66
};

static const uint32_t NO_VALUE = 0xd8d8d8;

/* The image averaged over blocks. */
typedef struct small_image {
    int64_t block;
    int nx, ny;
    float *value; /* [ny][nx], row 0 at the bottom; NaN if no pixel of the block has a value */
} small_image;

/* Average one block. Returns NaN if it has no value. */
static float average_block(const msi_picture *p, int64_t block, int64_t bx, int64_t by)
{
    const msi_picture_window *w = &p->window;
    double sum = 0;
    int64_t n = 0;
    for (int64_t y = by * block; y < (by + 1) * block && y < w->ny; y++)
        for (int64_t x = bx * block; x < (bx + 1) * block && x < w->nx; x++) {
            const double v = msi_image_value(p->pixel, p->precision, (w->y + y) * p->nx + w->x + x);
            if (!isfinite(v)) continue;
            sum += v;
            n++;
        }
    return n ? (float)(sum / (double)n) : NAN;
}

static int average_blocks(small_image *s, const msi_picture *p)
{
    const int64_t nx = p->window.nx, ny = p->window.ny, side = nx > ny ? nx : ny;
    s->block = (side + LARGEST_SIDE - 1) / LARGEST_SIDE;
    s->nx = (int)((nx + s->block - 1) / s->block);
    s->ny = (int)((ny + s->block - 1) / s->block);
    MSI_TRY(msi_alloc(&s->value, (int64_t)s->nx * s->ny, sizeof *s->value, "picture"));
    for (int64_t by = 0; by < s->ny; by++) {
        msi_progress_at(by, s->ny);
        for (int64_t bx = 0; bx < s->nx; bx++) s->value[by * s->nx + bx] = average_block(p, s->block, bx, by);
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

/* Append an ellipse, the beam at half maximum, to the path. */
static void trace_beam(cairo_t *cr, double x, double y, double major, double minor, double pa_rad)
{
    cairo_save(cr);
    cairo_translate(cr, x, y);
    /* East is left, so north through east is counter-clockwise. */
    cairo_rotate(cr, -pa_rad);
    cairo_scale(cr, fmax(minor, 0.8), fmax(major, 0.8));
    cairo_new_sub_path(cr);
    cairo_arc(cr, 0, 0, 1, 0, 2 * MSI_PI);
    cairo_restore(cr);
}

/* Draw the ellipse on which a PSF should have half its peak: a dark line on a wider light one, visible on any colour. */
static void outline_beam(cairo_t *cr, const msi_picture_frame *f, const msi_picture *p, double major, double minor)
{
    const double x = f->left + ((double)(p->window.nx / 2) + 0.5) * f->scale;
    const double y = f->top + f->height - ((double)(p->window.ny / 2) + 0.5) * f->scale;
    trace_beam(cr, x, y, major, minor, p->beam.pa_rad);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_set_line_width(cr, 3.5);
    cairo_stroke_preserve(cr);
    cairo_set_source_rgb(cr, 0, 0.25, 0.8);
    cairo_set_line_width(cr, 1.5);
    cairo_stroke(cr);
}

static void draw_beam(cairo_t *cr, const msi_picture_frame *f, const msi_picture *p)
{
    if (!msi_beam_known(&p->beam) || !(p->cell_rad > 0)) return;
    const double major = 0.5 * p->beam.major_rad / p->cell_rad * f->scale;
    const double minor = 0.5 * p->beam.minor_rad / p->cell_rad * f->scale;
    if (p->is_psf) {
        outline_beam(cr, f, p, major, minor);
        return;
    }
    if (major > 0.15 * f->height) return;
    const double box = fmax(2 * major + 14, 26), x = f->left + 12, y = f->top + f->height - 12 - box;
    cairo_set_source_rgba(cr, 0, 0, 0, 0.55);
    cairo_rectangle(cr, x, y, box, box);
    cairo_fill_preserve(cr);
    cairo_set_source_rgba(cr, 1, 1, 1, 0.8);
    cairo_set_line_width(cr, 1);
    cairo_stroke(cr);
    trace_beam(cr, x + box / 2, y + box / 2, major, minor, p->beam.pa_rad);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_fill(cr);
}

/* Append to the path the part of a contour line between four neighbouring points. Given: x, y, value  of the points, in
 * their order around the square */
static void trace_cell(cairo_t *cr, const double x[4], const double y[4], const double value[4], double level)
{
    double at[4][2];
    int n = 0;
    for (int k = 0; k < 4; k++) {
        const int next = (k + 1) % 4;
        if (!isfinite(value[k])) return;
        if ((value[k] < level) == (value[next] < level)) continue;
        const double t = (level - value[k]) / (value[next] - value[k]);
        at[n][0] = x[k] + t * (x[next] - x[k]);
        at[n++][1] = y[k] + t * (y[next] - y[k]);
    }
    for (int k = 0; k + 1 < n; k += 2) {
        cairo_move_to(cr, at[k][0], at[k][1]);
        cairo_line_to(cr, at[k + 1][0], at[k + 1][1]);
    }
}

/* Draw a contour line: dark on light, like the outline of a beam. */
static void draw_contour(cairo_t *cr, const msi_picture_frame *f, const msi_picture *p)
{
    const msi_fits_contour *c = p->contour;
    if (!c) return;
    cairo_save(cr);
    cairo_rectangle(cr, f->left, f->top, f->width, f->height);
    cairo_clip(cr);
    for (int j = 0; j + 1 < MSI_CONTOUR_POINTS; j++)
        for (int i = 0; i + 1 < MSI_CONTOUR_POINTS; i++) {
            double x[4], y[4], value[4];
            for (int k = 0; k < 4; k++) {
                const int px = i + (k == 1 || k == 2), py = j + k / 2;
                value[k] = (double)c->value[py][px];
                x[k] = f->left + (msi_fits_contour_pixel(px, p->nx) - (double)p->window.x + 0.5) * f->scale;
                y[k] = f->top + f->height - (msi_fits_contour_pixel(py, p->ny) - (double)p->window.y + 0.5) * f->scale;
            }
            trace_cell(cr, x, y, value, c->level);
        }
    cairo_set_line_cap(cr, CAIRO_LINE_CAP_ROUND);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_set_line_width(cr, 3);
    cairo_stroke_preserve(cr);
    cairo_set_source_rgb(cr, 0, 0.25, 0.8);
    cairo_set_line_width(cr, 1.5);
    cairo_stroke(cr);
    cairo_restore(cr);
}

/* Draw the labels of tiles, light on dark or dark on light, as large as fits into the tiles. */
static void draw_labels(cairo_t *cr, const msi_picture_frame *f, const msi_picture_tiles *t)
{
    double widest = 1;
    cairo_set_font_size(cr, MSI_PICTURE_LABEL_SIZE);
    for (int64_t k = 0; k < t->n; k++) widest = fmax(widest, msi_picture_measure_text(cr, t->label[k]));
    const double width = (double)t->nx * f->scale, height = (double)t->ny * f->scale,
                 size =
                     fmin(MSI_PICTURE_LABEL_SIZE, fmin(0.85 * width / widest * MSI_PICTURE_LABEL_SIZE, 0.3 * height));
    cairo_set_font_size(cr, size);
    for (int64_t k = 0; k < t->n; k++) {
        const double x = f->left + (double)(k % t->n_column * (t->nx + 1)) * f->scale + 0.4 * size,
                     y = f->top + (double)(k / t->n_column * (t->ny + 1)) * f->scale + 1.2 * size,
                     own = msi_picture_measure_text(cr, t->label[k]), ground = f->is_light ? 1 : 0;
        cairo_set_source_rgba(cr, ground, ground, ground, 0.55);
        cairo_rectangle(cr, x - 0.2 * size, y - size, own + 0.4 * size, 1.3 * size);
        cairo_fill(cr);
        cairo_set_source_rgb(cr, 1 - ground, 1 - ground, 1 - ground);
        msi_picture_draw_text(cr, x, y, 0, t->label[k]);
    }
}

/* Draw a line of text at the left edge of the frame. Long lines get smaller letters. */
static void draw_caption(cairo_t *cr, const msi_picture_frame *f, double y, double size, const char *text)
{
    const double space = f->width + MARGIN_RIGHT - 16;
    cairo_set_font_size(cr, size);
    const double width = msi_picture_measure_text(cr, text);
    if (width > space) cairo_set_font_size(cr, size * space / width);
    msi_picture_draw_text(cr, f->left, y, 0, text);
}

static void draw_title(cairo_t *cr, const msi_picture_frame *f, const msi_picture *p)
{
    cairo_set_source_rgb(cr, 0.1, 0.1, 0.1);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    draw_caption(cr, f, f->top - 60, 22, p->title);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_source_rgb(cr, 0.3, 0.3, 0.3);
    draw_caption(cr, f, f->top - 35, MSI_PICTURE_LABEL_SIZE, p->detail);
}

static msi_picture_frame lay_frame(const msi_picture *p, const small_image *s, int *magnify)
{
    const int side = s->nx > s->ny ? s->nx : s->ny;
    *magnify = side < SMALLEST_SIDE ? (SMALLEST_SIDE + side - 1) / side : 1;
    msi_picture_frame f = {.left = MARGIN_LEFT,
                           .top = MARGIN_TOP,
                           .scale = (double)*magnify / (double)s->block,
                           .is_light = p->values == MSI_VALUES_SIGNED,
                           .geometry = {.nx = p->window.nx, .ny = p->window.ny},
                           .wcs = p->wcs};
    f.width = (double)p->window.nx * f.scale;
    f.height = (double)p->window.ny * f.scale;
    return f;
}

static void draw_all(cairo_t *cr, const msi_picture *p, const small_image *s, const msi_stretch *stretch,
                     const msi_picture_frame *f, int magnify)
{
    uint32_t colour[MSI_N_COLOUR];
    msi_colour_map(colour, p->values);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_paint(cr);
    draw_image(cr, f, s, stretch, colour, magnify);
    if (p->tiles) {
        draw_labels(cr, f, p->tiles);
        msi_picture_draw_border(cr, f, "", "", 0);
    } else if (p->wcs)
        msi_picture_draw_axes(cr, f);
    else
        msi_picture_draw_linear(cr, f, p->axis);
    draw_bar(cr, f, stretch, colour, p->unit);
    draw_contour(cr, f, p);
    draw_beam(cr, f, p);
    draw_title(cr, f, p);
}

static int paint(msi_publish *p, int i, const void *of)
{
    const msi_picture *picture = of;
    small_image s = {0};
    msi_stretch stretch;
    cairo_surface_t *canvas = NULL;
    cairo_t *cr = NULL;
    int magnify, rc = average_blocks(&s, picture);
    if (rc) goto out;
    const msi_picture_style *style = picture->style;
    if (style && style->has_range)
        stretch = stretch_range(picture->values, style->low, style->high);
    else if ((rc = msi_stretch_fit(&stretch, picture->values, s.value, (int64_t)s.nx * s.ny)))
        goto out;
    const msi_picture_frame f = lay_frame(picture, &s, &magnify);
    canvas = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(f.width) + MARGIN_LEFT + MARGIN_RIGHT,
                                        (int)ceil(f.height) + MARGIN_TOP + MARGIN_BOTTOM);
    cr = cairo_create(canvas);
    draw_all(cr, picture, &s, &stretch, &f, magnify);
    rc = msi_picture_save(p, i, cr, canvas);
out:
    if (cr) cairo_destroy(cr);
    if (canvas) cairo_surface_destroy(canvas);
    msi_free(s.value);
    return rc;
}

int msi_picture_draw(msi_publish *p, int i, const msi_picture *picture)
{
    return msi_picture_apart(p, i, paint, picture);
}
