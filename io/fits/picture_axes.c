/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_axes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/types.h"

enum {
    LATTICE = 48,      /* points per side at which the extent of the field is computed */
    LINE_POINTS = 720, /* points of a grid line */
    MAX_LABELS = 64,
    MAX_LINES = 8
};

/* The grid lines of one coordinate. Values are in seconds of time (right ascension) or of arc. */
typedef struct coordinate {
    int is_time;
    double unit_per_deg;
    double low, high; /* limits of the field, low < high; a longitude may be below 0 or above 360 degrees */
    double step;
    int decimals; /* decimals of a second that the step needs */
} coordinate;

typedef struct placed_labels {
    int n;
    double from[MAX_LABELS], to[MAX_LABELS];
} placed_labels;

/* Draw a text, or only measure it. Returns its width. */
static double draw_or_measure(cairo_t *cr, double x, double y, const char *text, int draw)
{
    double width = 0;
    cairo_matrix_t normal, small;
    cairo_get_font_matrix(cr, &normal);
    small = normal;
    cairo_matrix_scale(&small, 0.68, 0.68);
    char run[256];
    while (*text) {
        int raised = *text == '^';
        size_t n = 0;
        if (raised) {
            text++;
            while (*text && n < 1) run[n++] = *text++;
        } else {
            while (*text && *text != '^' && n < sizeof run - 1) run[n++] = *text++;
        }
        run[n] = 0;
        cairo_text_extents_t e;
        if (raised) cairo_set_font_matrix(cr, &small);
        cairo_text_extents(cr, run, &e);
        if (draw) {
            cairo_move_to(cr, x + width, raised ? y - 0.38 * normal.yy : y);
            cairo_show_text(cr, run);
        }
        width += e.x_advance;
        if (raised) cairo_set_font_matrix(cr, &normal);
    }
    return width;
}

double msi_picture_measure_text(cairo_t *cr, const char *text)
{
    return draw_or_measure(cr, 0, 0, text, 0);
}

void msi_picture_draw_text(cairo_t *cr, double x, double y, double align, const char *text)
{
    if (align > 0) x -= align * msi_picture_measure_text(cr, text);
    draw_or_measure(cr, x, y, text, 1);
}

/* Find the canvas position of a sky position. Returns 0 if it is not in the projection. */
static int to_canvas(const msi_picture_frame *f, double lng_deg, double lat_deg, double at[2])
{
    double pixel[2];
    if (!msi_sky_wcs_sky_to_pixel(f->wcs, (double[]){lng_deg, lat_deg}, pixel)) return 0;
    at[0] = f->left + (pixel[0] + 0.5) * f->scale;
    at[1] = f->top + f->height - (pixel[1] + 0.5) * f->scale;
    return 1;
}

static int is_inside(const msi_picture_frame *f, const double at[2])
{
    return at[0] >= f->left && at[0] <= f->left + f->width && at[1] >= f->top && at[1] <= f->top + f->height;
}

/* Find the ranges of longitude and latitude that the field covers, in degrees. Longitudes are continuous about the
 * centre. *along_bottom is the range of longitudes along the labelled edge; if the field contains the horizon or a
 * pole, it is the range of the field. */
static void find_extent(const msi_picture_frame *f, double lng[2], double lat[2], double *along_bottom)
{
    double bottom[2] = {INFINITY, -INFINITY};
    int whole = 1;
    const msi_sky_axes *a = msi_sky_wcs_axes(f->wcs);
    lng[0] = lng[1] = a->crval_deg[0];
    lat[0] = lat[1] = a->crval_deg[1];
    for (int i = 0; i <= LATTICE; i++) {
        for (int j = 0; j <= LATTICE; j++) {
            double pixel[2] = {(double)f->geometry.nx * i / LATTICE - 0.5, (double)f->geometry.ny * j / LATTICE - 0.5};
            double sky[2];
            if (!msi_sky_wcs_pixel_to_sky(f->wcs, pixel, sky)) {
                whole = 0;
                continue;
            }
            double longitude = a->crval_deg[0] + remainder(sky[0] - a->crval_deg[0], 360);
            lng[0] = fmin(lng[0], longitude);
            lng[1] = fmax(lng[1], longitude);
            if (j == 0) {
                bottom[0] = fmin(bottom[0], longitude);
                bottom[1] = fmax(bottom[1], longitude);
            }
            lat[0] = fmin(lat[0], sky[1]);
            lat[1] = fmax(lat[1], sky[1]);
        }
    }
    for (int pole = -1; pole <= 1; pole += 2) {
        double at[2];
        if (!to_canvas(f, 0, 90 * pole, at) || !is_inside(f, at)) continue;
        lng[0] = a->crval_deg[0] - 180;
        lng[1] = a->crval_deg[0] + 180;
        lat[(pole + 1) / 2] = 90 * pole;
        whole = 0;
    }
    *along_bottom = whole ? bottom[1] - bottom[0] : lng[1] - lng[0];
}

/* Choose the smallest round step that gives at most MAX_LINES lines. */
static void choose_step(coordinate *c, double range)
{
    static const double time_steps[] = {1,   2,   5,    10,   15,   30,    60,    120,  300,
                                        600, 900, 1800, 3600, 7200, 10800, 14400, 21600};
    static const double arc_steps[] = {1,   2,    5,    10,   15,    30,    60,    120,   300,   600,
                                       900, 1800, 3600, 7200, 18000, 36000, 54000, 72000, 108000};
    double least = range / MAX_LINES;
    c->decimals = 0;
    if (least <= 0.5) {
        double power = pow(10, floor(log10(least)));
        double m = least / power;
        double multiple = m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10;
        c->step = multiple * power;
        c->decimals = (int)fmax(0, -floor(log10(c->step) + 1e-9));
        return;
    }
    const double *steps = c->is_time ? time_steps : arc_steps;
    int n = c->is_time ? (int)(sizeof time_steps / sizeof *steps) : (int)(sizeof arc_steps / sizeof *steps);
    c->step = steps[n - 1];
    for (int i = n - 1; i >= 0 && steps[i] >= least; i--) c->step = steps[i];
}

/* Format a label such as 05^h30^m or -42°45′, with the digits that the step needs. */
static void format_label(const coordinate *c, double value, char *text, size_t size)
{
    double scale = pow(10, c->decimals);
    double turn = 360 * c->unit_per_deg;
    if (c->is_time) value -= turn * floor(value / turn + 1e-12);
    long long ticks = llround(fabs(value) * scale), per_second = llround(scale);
    if (c->is_time && ticks >= llround(turn * scale)) ticks = 0;
    long long whole = ticks / per_second, fraction = ticks % per_second;
    int first = (int)(whole / 3600), minutes = (int)(whole / 60 % 60), seconds = (int)(whole % 60);
    const char *const *mark =
        c->is_time ? (const char *const[]){"^h", "^m", "^s"} : (const char *const[]){"°", "′", "″"};
    const char *sign = value < 0 && ticks ? "−" : "";
    int n = snprintf(text, size, c->is_time ? "%s%02d%s" : "%s%d%s", sign, first, mark[0]);
    if (c->step < 3600) n += snprintf(text + n, size - (size_t)n, "%02d%s", minutes, mark[1]);
    if (c->step < 60 && c->decimals == 0) snprintf(text + n, size - (size_t)n, "%02d%s", seconds, mark[2]);
    if (c->decimals > 0) {
        char digits[32];
        snprintf(digits, sizeof digits, "%.*f", c->decimals, (double)fraction / scale);
        snprintf(text + n, size - (size_t)n, "%02d%s%s", seconds, mark[2], digits + 1);
    }
}

/* Reserve [from, to] for a label. Returns 0 if it overlaps another label. */
static int reserve_label(placed_labels *p, double from, double to)
{
    for (int i = 0; i < p->n; i++)
        if (from < p->to[i] && to > p->from[i]) return 0;
    if (p->n == MAX_LABELS) return 0;
    p->from[p->n] = from;
    p->to[p->n++] = to;
    return 1;
}

static void draw_tick(cairo_t *cr, double x, double y, double dx, double dy)
{
    cairo_set_source_rgb(cr, 0.1, 0.1, 0.1);
    cairo_set_line_width(cr, 1.2);
    cairo_move_to(cr, x, y);
    cairo_line_to(cr, x + dx, y + dy);
    cairo_stroke(cr);
}

/* Find where segment p-q crosses the edge of the image at coordinate k = level (k 0: x, 1: y). *other is the other
 * coordinate there. Returns 0 if it does not cross. */
static int crossing(const msi_picture_frame *f, const double p[2], const double q[2], int k, double level,
                    double *other)
{
    if ((p[k] - level) * (q[k] - level) > 0 || p[k] == q[k]) return 0;
    double t = (level - p[k]) / (q[k] - p[k]);
    *other = p[1 - k] + t * (q[1 - k] - p[1 - k]);
    double from = k ? f->left : f->top, length = k ? f->width : f->height;
    return *other >= from && *other <= from + length;
}

/* A rectangle of the canvas. */
typedef struct box {
    double left, top, right, bottom;
} box;

typedef struct label_state {
    placed_labels left, bottom, top;
    double widest_left;
    box inside[MAX_LABELS]; /* labels inside the image */
    int n_inside;
} label_state;

/* A line of constant longitude or latitude, between two values of the other coordinate, and its label. */
typedef struct grid_line {
    int is_lng;
    double fixed_deg, from_deg, to_deg;
    char text[64];
    double text_width;
} grid_line;

static grid_line make_line(cairo_t *cr, const coordinate c[2], int is_lng, double value)
{
    const coordinate *fixed = &c[is_lng ? 0 : 1], *along = &c[is_lng ? 1 : 0];
    const double low = along->low / along->unit_per_deg, high = along->high / along->unit_per_deg;
    const double margin = 0.03 * (high - low);
    grid_line l = {is_lng, value / fixed->unit_per_deg, low - margin, high + margin, "", 0};
    if (is_lng) {
        l.from_deg = fmax(l.from_deg, -90);
        l.to_deg = fmin(l.to_deg, 90);
    }
    format_label(fixed, value, l.text, sizeof l.text);
    l.text_width = msi_picture_measure_text(cr, l.text);
    return l;
}

/* Find the canvas position of point i of a line, 0 to LINE_POINTS. Returns 0 if it is not in the projection. */
static int line_point(const msi_picture_frame *f, const grid_line *l, int i, double at[2])
{
    const double along_deg = l->from_deg + (l->to_deg - l->from_deg) * i / LINE_POINTS;
    return to_canvas(f, l->is_lng ? l->fixed_deg : along_deg, l->is_lng ? along_deg : l->fixed_deg, at);
}

/* Return 1 if a part of a line is in the image. */
static int is_shown(const msi_picture_frame *f, const grid_line *l)
{
    double at[2];
    for (int i = 0; i <= LINE_POINTS; i++)
        if (line_point(f, l, i, at) && is_inside(f, at)) return 1;
    return 0;
}

static void stroke_line(cairo_t *cr, const msi_picture_frame *f, const grid_line *l)
{
    int previous_valid = 0;
    double last[2] = {0, 0};
    cairo_save(cr);
    cairo_rectangle(cr, f->left, f->top, f->width, f->height);
    cairo_clip(cr);
    cairo_new_path(cr);
    for (int i = 0; i <= LINE_POINTS; i++) {
        double at[2] = {0, 0};
        const int valid = line_point(f, l, i, at);
        /* A step across much of the picture is a jump from one end of the projection to the other. Do not draw it. */
        const int is_near = fabs(at[0] - last[0]) < 0.3 * f->width && fabs(at[1] - last[1]) < 0.3 * f->height;
        if (valid && previous_valid && is_near)
            cairo_line_to(cr, at[0], at[1]);
        else if (valid)
            cairo_move_to(cr, at[0], at[1]);
        previous_valid = valid;
        memcpy(last, at, sizeof last);
    }
    cairo_set_source_rgba(cr, f->is_light ? 0 : 1, f->is_light ? 0 : 1, f->is_light ? 0 : 1, 0.28);
    cairo_set_line_width(cr, 0.8);
    cairo_stroke(cr);
    cairo_restore(cr);
}

static void label_bottom(cairo_t *cr, const msi_picture_frame *f, const grid_line *l, double x, label_state *labels)
{
    const double bottom = f->top + f->height;
    draw_tick(cr, x, bottom, 0, 6);
    if (reserve_label(&labels->bottom, x - l->text_width / 2 - 8, x + l->text_width / 2 + 8))
        msi_picture_draw_text(cr, x, bottom + 23, 0.5, l->text);
}

static void label_left(cairo_t *cr, const msi_picture_frame *f, const grid_line *l, double y, label_state *labels)
{
    draw_tick(cr, f->left, y, -6, 0);
    if (!reserve_label(&labels->left, y - 10, y + 10)) return;
    msi_picture_draw_text(cr, f->left - 10, y + 5, 1, l->text);
    labels->widest_left = fmax(labels->widest_left, l->text_width);
}

/* Label a line where it crosses the edge that has labels. Returns 1 if it does. *top_x is where it crosses the top
 * edge, or NaN. */
static int label_edges(cairo_t *cr, const msi_picture_frame *f, const grid_line *l, label_state *labels, double *top_x)
{
    int labelled = 0, previous_valid = 0;
    double previous[2] = {0, 0};
    *top_x = NAN;
    for (int i = 0; i <= LINE_POINTS; i++) {
        double at[2] = {0, 0}, other;
        const int valid = line_point(f, l, i, at), is_part = valid && previous_valid;
        if (is_part && l->is_lng && crossing(f, previous, at, 1, f->top + f->height, &other)) {
            label_bottom(cr, f, l, other, labels);
            labelled = 1;
        }
        if (is_part && l->is_lng && crossing(f, previous, at, 1, f->top, &other)) *top_x = other;
        if (is_part && !l->is_lng && crossing(f, previous, at, 0, f->left, &other)) {
            label_left(cr, f, l, other, labels);
            labelled = 1;
        }
        memcpy(previous, at, sizeof previous);
        previous_valid = valid;
    }
    return labelled;
}

/* Return 1 if a point of the canvas is in the image, away from its edge, and on the sky. */
static int is_on_sky(const msi_picture_frame *f, double x, double y)
{
    const double margin = 6;
    const double pixel[2] = {(x - f->left) / f->scale - 0.5, (f->top + f->height - y) / f->scale - 0.5};
    double sky[2];
    return x > f->left + margin && x < f->left + f->width - margin && y > f->top + margin &&
           y < f->top + f->height - margin && msi_sky_wcs_pixel_to_sky(f->wcs, pixel, sky);
}

/* Return 1 if a label fits inside the image: all of it is on the sky, and it overlaps no other label. */
static int is_free(const msi_picture_frame *f, const label_state *labels, const box *b)
{
    const double apart = 12;
    for (int i = 0; i < labels->n_inside; i++) {
        const box *o = &labels->inside[i];
        if (b->left < o->right + apart && b->right > o->left - apart && b->top < o->bottom + apart &&
            b->bottom > o->top - apart)
            return 0;
    }
    return is_on_sky(f, b->left, b->top) && is_on_sky(f, b->right, b->top) && is_on_sky(f, b->left, b->bottom) &&
           is_on_sky(f, b->right, b->bottom);
}

/* Label a line that does not reach an edge with labels. The label is white, inside the image, on the line, at the free
 * place nearest to the centre of the image. A line without a free place gets no label. */
static void label_inside(cairo_t *cr, const msi_picture_frame *f, const grid_line *l, label_state *labels)
{
    const double centre = msi_sky_wcs_axes(f->wcs)->crval_deg[l->is_lng ? 1 : 0];
    const int middle = (int)lround((centre - l->from_deg) / (l->to_deg - l->from_deg) * LINE_POINTS);
    if (labels->n_inside == MAX_LABELS) return;
    for (int k = 0; k <= 2 * LINE_POINTS; k++) {
        const int i = middle + (k % 2 ? -(k + 1) / 2 : k / 2);
        double at[2];
        if (i < 0 || i > LINE_POINTS || !line_point(f, l, i, at)) continue;
        const box b = {at[0] - l->text_width / 2 - 4, at[1] - 12, at[0] + l->text_width / 2 + 4, at[1] + 7};
        if (!is_free(f, labels, &b)) continue;
        labels->inside[labels->n_inside++] = b;
        cairo_set_source_rgba(cr, 0, 0, 0, 0.45);
        cairo_rectangle(cr, b.left, b.top, b.right - b.left, b.bottom - b.top);
        cairo_fill(cr);
        cairo_set_source_rgb(cr, 1, 1, 1);
        msi_picture_draw_text(cr, at[0], at[1] + 3, 0.5, l->text);
        return;
    }
}

/* Label a grid line, if a part of it is in the image. */
static void label_line(cairo_t *cr, const msi_picture_frame *f, const grid_line *l, label_state *labels)
{
    double top_x;
    if (!is_shown(f, l) || label_edges(cr, f, l, labels, &top_x)) return;
    if (!isfinite(top_x)) {
        label_inside(cr, f, l, labels);
        return;
    }
    draw_tick(cr, top_x, f->top, 0, -6);
    if (reserve_label(&labels->top, top_x - l->text_width / 2 - 8, top_x + l->text_width / 2 + 8))
        msi_picture_draw_text(cr, top_x, f->top - 11, 0.5, l->text);
}

void msi_picture_draw_border(cairo_t *cr, const msi_picture_frame *f, const char *title_x, const char *title_y,
                             double widest_left)
{
    cairo_set_source_rgb(cr, 0.1, 0.1, 0.1);
    cairo_set_line_width(cr, 1.2);
    cairo_rectangle(cr, f->left, f->top, f->width, f->height);
    cairo_stroke(cr);
    msi_picture_draw_text(cr, f->left + f->width / 2, f->top + f->height + 48, 0.5, title_x);
    cairo_save(cr);
    cairo_translate(cr, f->left - 10 - widest_left - 14, f->top + f->height / 2);
    cairo_rotate(cr, -MSI_PI / 2);
    msi_picture_draw_text(cr, 0, 0, 0.5, title_y);
    cairo_restore(cr);
}

void msi_picture_format_direction(char lng[64], char lat[64], const msi_sky_axes *a)
{
    const double step = 1e-6;
    const coordinate c[2] = {
        {.is_time = a->is_equatorial, .unit_per_deg = a->is_equatorial ? 240 : 3600, .step = step, .decimals = 6},
        {.unit_per_deg = 3600, .step = step, .decimals = 6}};
    format_label(&c[0], a->crval_deg[0] * c[0].unit_per_deg, lng, 64);
    format_label(&c[1], a->crval_deg[1] * c[1].unit_per_deg, lat, 64);
}

/* Draw the grid lines of coordinate k (0: longitude, 1: latitude), or if `labels` is given, their labels. */
static void draw_lines(cairo_t *cr, const msi_picture_frame *f, const coordinate c[2], int k, label_state *labels)
{
    const int64_t last = (int64_t)floor(c[k].high / c[k].step);
    for (int64_t n = (int64_t)ceil(c[k].low / c[k].step); n <= last; n++) {
        const double value = (double)n * c[k].step;
        /* The meridian 180 degrees away would be drawn from both sides; draw it once. A parallel at a pole is a
         * point. */
        if (k == 0 && value - c[0].low >= 360 * c[0].unit_per_deg * (1 - 1e-12)) continue;
        if (k == 1 && fabs(value) >= 90 * c[1].unit_per_deg) continue;
        const grid_line l = make_line(cr, c, k == 0, value);
        if (labels)
            label_line(cr, f, &l, labels);
        else
            stroke_line(cr, f, &l);
    }
}

void msi_picture_draw_axes(cairo_t *cr, const msi_picture_frame *f)
{
    const msi_sky_axes *a = msi_sky_wcs_axes(f->wcs);
    double lng[2], lat[2], along_bottom;
    find_extent(f, lng, lat, &along_bottom);
    coordinate c[2] = {
        {.is_time = a->is_equatorial, .unit_per_deg = a->is_equatorial ? 240 : 3600},
        {.is_time = 0, .unit_per_deg = 3600},
    };
    c[0].low = lng[0] * c[0].unit_per_deg;
    c[0].high = lng[1] * c[0].unit_per_deg;
    c[1].low = lat[0] * c[1].unit_per_deg;
    c[1].high = lat[1] * c[1].unit_per_deg;
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, MSI_PICTURE_LABEL_SIZE);

    label_state labels;
    memset(&labels, 0, sizeof labels);
    int has_lines[2];
    for (int k = 0; k < 2; k++) {
        const double range = k == 0 ? along_bottom * c[0].unit_per_deg : c[1].high - c[1].low;
        /* The range is empty if all pixels are beyond the horizon. */
        has_lines[k] = range > 0 && isfinite(c[k].low + c[k].high);
        if (has_lines[k]) choose_step(&c[k], range);
    }
    /* Draw all lines before the first label, so that no line crosses a label. */
    for (int k = 0; k < 2; k++)
        if (has_lines[k]) draw_lines(cr, f, c, k, NULL);
    for (int k = 0; k < 2; k++)
        if (has_lines[k]) draw_lines(cr, f, c, k, &labels);
    char frame[40];
    const int is_named = a->is_equatorial && a->frame[0];
    snprintf(frame, sizeof frame, "%s%s%s", is_named ? " (" : "", is_named ? a->frame : "", is_named ? ")" : "");
    char title[2][80];
    snprintf(title[0], sizeof title[0], "%s%s", a->is_equatorial ? "Right ascension" : "Longitude", frame);
    snprintf(title[1], sizeof title[1], "%s%s", a->is_equatorial ? "Declination" : "Latitude", frame);
    msi_picture_draw_border(cr, f, title[0], title[1], labels.widest_left);
}

/* ---- Linear axes ---- */

enum { MOST_LINEAR_LINES = 8, TICK = 6 };

/* Choose a step of 1, 2 or 5 times a power of ten: the smallest one that gives at most MOST_LINEAR_LINES lines.
 * *decimals is the number of decimals of its labels. */
static double choose_linear_step(double range, int *decimals)
{
    const double least = range / MOST_LINEAR_LINES, power = pow(10, floor(log10(least))), m = least / power;
    const double step = (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * power;
    *decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
    return step;
}

static void draw_linear_tick(cairo_t *cr, const msi_picture_frame *f, int k, double at)
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

/* Draw the grid lines and labels of axis k (0 x, 1 y). Returns the width of the widest label. */
static double draw_linear_axis(cairo_t *cr, const msi_picture_frame *f, const msi_linear_axis *axis, int k)
{
    const double n = (double)(k ? f->geometry.ny : f->geometry.nx), length = k ? f->height : f->width;
    const double first = (-0.5 - axis->zero_pixel) * axis->per_pixel,
                 last = (n - 0.5 - axis->zero_pixel) * axis->per_pixel;
    const double low = fmin(first, last), high = fmax(first, last);
    int decimals;
    if (!(high > low) || !isfinite(low + high)) return 0;
    const double step = choose_linear_step(high - low, &decimals);
    double widest = 0;
    if (!(fmax(-low, high) / step < 1e15)) return 0; /* the header gives an axis that is too long to be labelled */
    const int64_t end = (int64_t)floor(high / step + 1e-9);
    for (int64_t i = (int64_t)ceil(low / step - 1e-9); i <= end; i++) {
        const double fraction = ((double)i * step - first) / (last - first);
        const double at = k ? f->top + f->height - fraction * length : f->left + fraction * length;
        char text[48];
        snprintf(text, sizeof text, "%s%.*f", i < 0 ? "−" : "", decimals, fabs((double)i * step));
        draw_linear_tick(cr, f, k, at);
        widest = fmax(widest, msi_picture_measure_text(cr, text));
        if (k == 0)
            msi_picture_draw_text(cr, at, f->top + f->height + 23, 0.5, text);
        else
            msi_picture_draw_text(cr, f->left - 10, at + 5, 1, text);
    }
    return widest;
}

void msi_picture_draw_linear(cairo_t *cr, const msi_picture_frame *f, const msi_linear_axis axis[2])
{
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, MSI_PICTURE_LABEL_SIZE);
    draw_linear_axis(cr, f, &axis[0], 0);
    const double widest = draw_linear_axis(cr, f, &axis[1], 1);
    msi_picture_draw_border(cr, f, axis[0].title, axis[1].title, widest);
}
