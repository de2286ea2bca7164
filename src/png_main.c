/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The program msimage-png, which draws pictures of FITS images. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/fits_image.h"
#include "io/fits/picture.h"
#include "io/fits/publish.h"
#include "io/fits/sky_wcs.h"

/* ---- Moments: images that summarise the planes of a cube ---- */

enum { N_MOMENT = 4 };

/* The suffixes of the names of moment images. */
static const char *const moment_names[N_MOMENT] = {"moment0", "moment1", "moment2", "peak"};

/* Sums over planes for each pixel. */
typedef struct sums {
    int64_t n_pixel, n_plane;
    double *all;          /* [n_pixel] sum of all values; NaN: there is none */
    double *w, *wx, *wxx; /* [n_pixel] sums over the values above the level: of the value v, of v x, of v x^2 */
    float *peak;          /* [n_pixel] largest value; NaN: there is none */
    double x0, step;      /* x of plane k is x0 + k step */
    const char *unit_name;
} sums;

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Return the noise of a plane: the median of absolute values, divided by that of a unit Gaussian; NaN for an empty
 * plane. */
static double noise_of(const msi_fits_view *v, float *buffer)
{
    int64_t n = 0;
    for (int64_t i = 0; i < v->nx * v->ny; i++)
        if (isfinite(v->pixel[i])) buffer[n++] = fabsf(v->pixel[i]);
    if (!n) return NAN;
    qsort(buffer, (size_t)n, sizeof *buffer, compare);
    return (double)buffer[n / 2] / 0.6745;
}

/* Find the noise of a cube: the mean of the noise of its planes. */
static int find_noise(const char *path, const sums *s, double *noise)
{
    double sum = 0;
    int64_t n = 0;
    float *buffer;
    MSI_TRY(msi_alloc(&buffer, s->n_pixel, sizeof *buffer, "a plane"));
    int rc = MSI_OK;
    for (int64_t k = 0; k < s->n_plane && !rc; k++) {
        msi_fits_view v;
        rc = msi_fits_view_read(&v, path, k);
        if (rc) break;
        const double of_plane = noise_of(&v, buffer);
        if (isfinite(of_plane)) sum += of_plane, n++;
        msi_fits_view_free(&v);
    }
    msi_free(buffer);
    *noise = n ? sum / (double)n : 0;
    return rc;
}

static void add_plane(sums *s, const msi_fits_view *v, double above)
{
    const double x = s->x0 + (double)v->plane * s->step;
    for (int64_t i = 0; i < s->n_pixel; i++) {
        const double value = (double)v->pixel[i];
        if (!isfinite(value)) continue;
        s->all[i] = isnan(s->all[i]) ? value : s->all[i] + value;
        if (!(v->pixel[i] <= s->peak[i])) s->peak[i] = v->pixel[i];
        if (!(value > above)) continue;
        s->w[i] += value;
        s->wx[i] += value * x;
        s->wxx[i] += value * x * x;
    }
}

/* Make the image of a moment, with the header of the view of a plane. */
static int make_view(msi_fits_view *view, const char *path, const sums *s, int moment)
{
    static const char *const type[N_MOMENT] = {"Moment 0", "Moment 1", "Moment 2", "Peak"};
    char unit[sizeof view->unit];
    MSI_TRY(msi_fits_view_read(view, path, 0));
    for (int64_t i = 0; i < s->n_pixel; i++) {
        const double mean = s->wx[i] / s->w[i], square = s->wxx[i] / s->w[i] - mean * mean;
        view->pixel[i] = moment == 3      ? s->peak[i]
                         : moment == 0    ? (float)(s->all[i] * fabs(s->step))
                         : !(s->w[i] > 0) ? NAN
                         : moment == 1    ? (float)mean
                                          : (float)sqrt(fmax(0, square));
    }
    snprintf(unit, sizeof unit, "%.40s%s%s", moment == 0 || moment == 3 ? view->unit : "", moment == 0 ? " " : "",
             moment == 3 ? "" : s->unit_name);
    snprintf(view->unit, sizeof view->unit, "%s", unit);
    snprintf(view->type, sizeof view->type, "%s", type[moment]);
    view->freq_hz = view->bandwidth_hz = 0;
    view->n_plane = 1;
    return MSI_OK;
}

static int alloc_sums(sums *s)
{
    MSI_TRY(msi_alloc(&s->all, s->n_pixel, sizeof *s->all, "moments"));
    MSI_TRY(msi_alloc(&s->w, s->n_pixel, sizeof *s->w, "moments"));
    MSI_TRY(msi_alloc(&s->wx, s->n_pixel, sizeof *s->wx, "moments"));
    MSI_TRY(msi_alloc(&s->wxx, s->n_pixel, sizeof *s->wxx, "moments"));
    MSI_TRY(msi_alloc(&s->peak, s->n_pixel, sizeof *s->peak, "moments"));
    for (int64_t i = 0; i < s->n_pixel; i++) {
        s->all[i] = NAN;
        s->peak[i] = NAN;
    }
    return MSI_OK;
}

static void free_sums(sums *s)
{
    msi_free(s->all);
    msi_free(s->w);
    msi_free(s->wx);
    msi_free(s->wxx);
    msi_free(s->peak);
}

/* Find the planes along FREQ and their velocities. */
static int find_axis(sums *s, const char *path)
{
    msi_fits_view first, second;
    MSI_TRY(msi_fits_view_read(&first, path, 0));
    s->n_pixel = first.nx * first.ny;
    s->n_plane = first.n_freq;
    const double rest_hz = first.rest_freq_hz, hz = first.freq_hz;
    msi_fits_view_free(&first);
    if (s->n_plane < 2 || !(hz > 0))
        return msi_error_set(MSI_EINPUT, "%s: moments need a cube with several planes along FREQ, the third axis",
                             path);
    MSI_TRY(msi_fits_view_read(&second, path, 1));
    const double step_hz = second.freq_hz - hz;
    msi_fits_view_free(&second);
    s->x0 = rest_hz > 0 ? 1e-3 * MSI_SPEED_OF_LIGHT * (1 - hz / rest_hz) : 1e-6 * hz;
    s->step = rest_hz > 0 ? -1e-3 * MSI_SPEED_OF_LIGHT * step_hz / rest_hz : 1e-6 * step_hz;
    s->unit_name = rest_hz > 0 ? "km/s" : "MHz";
    return MSI_OK;
}

static int add_planes(sums *s, const char *path, double above)
{
    for (int64_t k = 0; k < s->n_plane; k++) {
        msi_fits_view v;
        MSI_TRY(msi_fits_view_read(&v, path, k));
        add_plane(s, &v, above);
        msi_fits_view_free(&v);
    }
    return MSI_OK;
}

/*
 * moments_make - compute the moments, along FREQ, of the first polarisation of a cube.
 *
 *   moment0  the sum of all planes times the distance of planes, in Jy/beam km/s, or in Jy/beam MHz without a rest
 *            frequency
 *   moment1  the mean velocity, weighted by the values above the level
 *   moment2  the standard deviation of the velocity, with the same weights
 *   peak     the largest value
 *
 * Given:    path; above  level for moments 1 and 2; NaN: three times the noise (find_noise)
 * Returned: view [N_MOMENT]  freed by msi_fits_view_free; empty on failure
 * Returns:  as msi_fits_view_read; MSI_EINPUT if there are fewer than two planes along FREQ
 * Notes:    velocities have the radio definition. Planes are read one at a time.
 */
static int moments_make(msi_fits_view view[N_MOMENT], const char *path, double above)
{
    sums s = {0};
    double noise = 0;
    memset(view, 0, N_MOMENT * sizeof *view);
    MSI_TRY(find_axis(&s, path));
    int rc = alloc_sums(&s);
    if (!rc && isnan(above)) rc = find_noise(path, &s, &noise);
    if (!rc && isnan(above)) {
        above = 3 * noise;
        msi_log_info("%s: moments 1 and 2 of values above %.3g, three times the noise", path, above);
    }
    if (!rc) rc = add_planes(&s, path, above);
    for (int m = 0; m < N_MOMENT && !rc; m++) rc = make_view(&view[m], path, &s, m);
    free_sums(&s);
    for (int m = 0; rc && m < N_MOMENT; m++) msi_fits_view_free(&view[m]);
    return rc;
}

/* ---- Channel maps and spectra of a cube ---- */

enum {
    MOST_PLACES = 12,
    MOST_PIXELS = 3000 /* along a side of the page of channel maps */
};

/* A position on the sky, in the frame of the cube. */
typedef struct sky_place {
    const char *name;
    double ra_rad, dec_rad;
} sky_place;

/* Read the first plane of a cube. Fail if there is only one. */
static int read_first(msi_fits_view *v, const char *path)
{
    MSI_TRY(msi_fits_view_read(v, path, 0));
    if (v->n_freq >= 2 && v->freq_hz > 0) return MSI_OK;
    msi_fits_view_free(v);
    return msi_error_set(
        MSI_EINPUT, "%s: channel maps and spectra need a cube with several planes along FREQ, the third axis", path);
}

/* ---- Channel maps ---- */

/* A page of tiles. Each pixel of a tile is the mean of block x block pixels. */
typedef struct page {
    msi_picture_tiles tiles;
    int64_t n_row, block;
} page;

/* Choose the number of columns that makes the page most nearly square, and a block size that makes it small enough. */
static page lay_page(const msi_fits_view *v)
{
    page p = {.tiles.n = v->n_freq, .block = 1};
    msi_picture_tiles *t = &p.tiles;
    t->n_column = (int64_t)ceil(sqrt((double)v->n_freq * (double)v->ny / (double)v->nx));
    if (t->n_column > v->n_freq) t->n_column = v->n_freq;
    p.n_row = (v->n_freq + t->n_column - 1) / t->n_column;
    while (t->n_column * (v->nx / p.block + 1) > MOST_PIXELS || p.n_row * (v->ny / p.block + 1) > MOST_PIXELS) {
        if (v->nx / p.block < 2 || v->ny / p.block < 2) break;
        p.block++;
    }
    t->nx = v->nx / p.block;
    t->ny = v->ny / p.block;
    return p;
}

/* Return the mean over a block of pixels; NaN if none of them has a value. */
static float block_mean(const msi_fits_view *v, int64_t x, int64_t y, int64_t block)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t j = y * block; j < (y + 1) * block; j++)
        for (int64_t i = x * block; i < (x + 1) * block; i++)
            if (isfinite(v->pixel[j * v->nx + i])) sum += (double)v->pixel[j * v->nx + i], n++;
    return n ? (float)(sum / (double)n) : NAN;
}

static void put_tile(msi_fits_view *view, const page *p, const msi_fits_view *v)
{
    const msi_picture_tiles *t = &p->tiles;
    const int64_t x0 = v->plane % t->n_column * (t->nx + 1), y0 = (p->n_row - 1 - v->plane / t->n_column) * (t->ny + 1);
    for (int64_t y = 0; y < t->ny; y++)
        for (int64_t x = 0; x < t->nx; x++) view->pixel[(y0 + y) * view->nx + x0 + x] = block_mean(v, x, y, p->block);
}

/* Return the radio velocity of a plane in km/s; without a rest frequency, its frequency in MHz. */
static double place_on_axis(const msi_fits_view *v)
{
    return v->rest_freq_hz > 0 ? 1e-3 * MSI_SPEED_OF_LIGHT * (1 - v->freq_hz / v->rest_freq_hz) : 1e-6 * v->freq_hz;
}

/* Write the labels, with one digit more than is needed to distinguish neighbours. */
static void write_labels(const msi_picture_tiles *t, const double *at)
{
    const int digits = (int)fmin(9, fmax(0, 1 - floor(log10(fmax(1e-9, fabs(at[1] - at[0]))))));
    for (int64_t k = 0; k < t->n; k++) snprintf(t->label[k], sizeof t->label[k], "%.*f", digits, at[k]);
}

/*
 * channel_maps_make - draw all planes of the first polarisation of a cube on one page, row by row from the top left,
 * with grey lines between them. Planes are averaged over blocks, so that the page has at most 3000 pixels per side.
 * Given:    path
 * Returned: view   without sky coordinates; freed by msi_fits_view_free; empty on failure
 *           tiles  labels are the radio velocities of the planes or, without a rest frequency, their frequencies; freed
 *                  by msi_free; NULL on failure
 *           title  [size] the file, the number of planes and their range
 * Returns:  as msi_fits_view_read; MSI_EINPUT if there are fewer than two planes along FREQ
 */
static int channel_maps_make(msi_fits_view *view, msi_picture_tiles *tiles, const char *path, char *title, size_t size)
{
    msi_fits_view v;
    double *at = NULL;
    const char *slash = strrchr(path, '/');
    *tiles = (msi_picture_tiles){0};
    MSI_TRY(read_first(view, path));
    const page p = lay_page(view);
    const int64_t n = view->n_freq;
    const int is_velocity = view->rest_freq_hz > 0;
    msi_sky_wcs_free(view->wcs);
    msi_free(view->pixel);
    view->wcs = NULL;
    view->pixel = NULL;
    view->nx = p.tiles.n_column * (p.tiles.nx + 1) - 1;
    view->ny = p.n_row * (p.tiles.ny + 1) - 1;
    view->cell_rad = view->freq_hz = view->bandwidth_hz = 0;
    view->n_plane = 1;
    view->beam = (msi_beam){0};
    *tiles = p.tiles;
    int rc = msi_alloc(&view->pixel, view->nx * view->ny, sizeof *view->pixel, "channel maps");
    if (!rc) rc = msi_alloc(&at, n, sizeof *at, "channel maps");
    if (!rc) rc = msi_alloc(&tiles->label, n, sizeof *tiles->label, "channel maps");
    for (int64_t i = 0; !rc && i < view->nx * view->ny; i++) view->pixel[i] = NAN;
    for (int64_t k = 0; k < n && !rc; k++) {
        rc = msi_fits_view_read(&v, path, k);
        if (rc) break;
        put_tile(view, &p, &v);
        at[k] = place_on_axis(&v);
        msi_fits_view_free(&v);
    }
    if (!rc) {
        write_labels(tiles, at);
        snprintf(title, size, "%.200s: %lld planes, %s, %s to %s", slash ? slash + 1 : path, (long long)n,
                 is_velocity ? "radio velocity in km/s" : "frequency in MHz", tiles->label[0], tiles->label[n - 1]);
    }
    msi_free(at);
    if (!rc) return MSI_OK;
    msi_fits_view_free(view);
    msi_free(tiles->label);
    tiles->label = NULL;
    return rc;
}

/* ---- Spectra ---- */

/* Find the pixel nearest to each place. */
static int find_pixels(const msi_fits_view *v, const char *path, const sky_place *place, int n, int64_t *at)
{
    if (!v->wcs) return msi_error_set(MSI_EINPUT, "%s: spectra at places need an image on the sky", path);
    for (int i = 0; i < n; i++) {
        const double degree = 180 / MSI_PI, sky[2] = {place[i].ra_rad * degree, place[i].dec_rad * degree};
        double pixel[2];
        const int is_seen = msi_sky_wcs_sky_to_pixel(v->wcs, sky, pixel);
        const int64_t x = is_seen ? llround(pixel[0]) : -1, y = is_seen ? llround(pixel[1]) : -1;
        if (x < 0 || y < 0 || x >= v->nx || y >= v->ny)
            return msi_error_set(MSI_EINPUT, "%s: the place %.100s is outside the image", path, place[i].name);
        at[i] = y * v->nx + x;
    }
    return MSI_OK;
}

/* Read the spectra. Returned: x [n_plane], y [n_place][n_plane] */
static int read_spectra(const char *path, int64_t n_plane, const int64_t *at, int n_place, double *x, double *y)
{
    for (int64_t k = 0; k < n_plane; k++) {
        msi_fits_view v;
        MSI_TRY(msi_fits_view_read(&v, path, k));
        x[k] = place_on_axis(&v);
        for (int i = 0; i < n_place; i++) y[i * n_plane + k] = (double)v.pixel[at[i]];
        msi_fits_view_free(&v);
    }
    return MSI_OK;
}

static int draw_spectra(msi_publish *p, int i, const char *path, const msi_fits_view *v, const sky_place *place,
                        int n_place, double *x, int64_t *at)
{
    const int64_t n = v->n_freq;
    const char *slash = strrchr(path, '/');
    msi_picture_curve curve[MOST_PLACES];
    char title[256], unit[96];
    MSI_TRY(find_pixels(v, path, place, n_place, at));
    MSI_TRY(read_spectra(path, n, at, n_place, x, x + n));
    for (int k = 0; k < n_place; k++)
        curve[k] = (msi_picture_curve){
            .name = place[k].name, .colour = k, .dashed = k >= 6, .x = x, .y = x + (1 + k) * n, .n = n};
    snprintf(title, sizeof title, "spectra of %.200s", slash ? slash + 1 : path);
    snprintf(unit, sizeof unit, "%.80s", *v->unit ? v->unit : "value");
    const msi_picture_curves curves = {.title = title,
                                       .x_title = v->rest_freq_hz > 0 ? "radio velocity, km/s" : "frequency, MHz",
                                       .panel = {{unit, 0}},
                                       .curve = curve,
                                       .n_curve = n_place};
    return msi_picture_curves_draw(p, i, &curves);
}

/*
 * channel_spectra_draw - draw output i of a plan: the spectra of the pixels nearest to some places, against radio
 * velocity or, without a rest frequency, against frequency.
 * Returns: as msi_picture_curves_draw, msi_fits_view_read; MSI_EINPUT (a place is outside; no planes along FREQ; no sky
 *          coordinates)
 */
static int channel_spectra_draw(msi_publish *p, int i, const char *path, const sky_place *place, int n_place)
{
    msi_fits_view v;
    double *x = NULL;
    int64_t *at = NULL;
    MSI_TRY(read_first(&v, path));
    int rc = msi_alloc(&x, (1 + n_place) * v.n_freq, sizeof *x, "spectra");
    if (!rc) rc = msi_alloc(&at, n_place, sizeof *at, "spectra");
    if (!rc) rc = draw_spectra(p, i, path, &v, place, n_place, x, at);
    msi_free(x);
    msi_free(at);
    msi_fits_view_free(&v);
    return rc;
}

typedef struct options {
    const char *const *file; /* [n_file] borrowed from argv */
    int n_file;
    const char *name, *contour;
    int64_t plane;
    msi_picture_style style;
    int moments, channel_maps;
    double above; /* for moments; NaN: not given */
    sky_place place[MOST_PLACES];
    int n_place; /* if not 0, spectra are drawn */
    int overwrite, quiet, version, help;
} options;

static int read_name(void *of, const char *const *argument)
{
    options *o = of;
    o->name = argument[0];
    return *o->name ? MSI_OK : msi_error_set(MSI_EUSAGE, "-name: the argument is empty");
}

static int read_contour(void *of, const char *const *argument)
{
    options *o = of;
    o->contour = argument[0];
    return MSI_OK;
}

static int read_plane(void *of, const char *const *argument)
{
    options *o = of;
    MSI_TRY(msi_parse_integer(&o->plane, "-plane", argument[0]));
    return o->plane >= 0 ? MSI_OK : msi_error_set(MSI_EUSAGE, "-plane %s: planes count from 0", argument[0]);
}

static int read_range(void *of, const char *const *argument)
{
    options *o = of;
    msi_picture_style *s = &o->style;
    MSI_TRY(msi_parse_real(&s->low, "-range", argument[0]));
    MSI_TRY(msi_parse_real(&s->high, "-range", argument[1]));
    s->has_range = 1;
    if (s->low < s->high) return MSI_OK;
    return msi_error_set(MSI_EUSAGE, "-range %s %s: the first value must be less than the second", argument[0],
                         argument[1]);
}

static int read_above(void *of, const char *const *argument)
{
    options *o = of;
    return msi_parse_real(&o->above, "-above", argument[0]);
}

static int read_place(void *of, const char *const *argument)
{
    options *o = of;
    if (o->n_place == MOST_PLACES)
        return msi_error_set(MSI_EUSAGE, "-spectrum: at most %d places can be given", MOST_PLACES);
    sky_place *p = &o->place[o->n_place++];
    p->name = argument[0];
    MSI_TRY(msi_parse_ra(&p->ra_rad, "-spectrum", argument[1]));
    return msi_parse_dec(&p->dec_rad, "-spectrum", argument[2]);
}

static const msi_small_option option_table[] = {
    {"name", 1, "FILE.png", "name of the picture, if there is one image (name of the image, with .png)", read_name, 0},
    {"plane", 1, "N", "plane of an image with several planes, counted from 0 (0)", read_plane, 0},
    {"range", 2, "LOW HIGH", "linear colours from LOW to HIGH, in the unit of the pixels (chosen from the image)",
     read_range, 0},
    {"contour", 1, "FILE.fits",
     "draw the line where this image, such as a primary beam NAME-pb.fits, is half of its peak", read_contour, 0},
    {"moments", 0, "",
     "draw and write moments 0, 1 and 2 and the peak of each cube: FILE-moment0.png, FILE-moment0.fits .. "
     "FILE-peak.fits",
     NULL, offsetof(options, moments)},
    {"above", 1, "LEVEL",
     "moments 1 and 2 are of values above LEVEL, in the unit of the pixels (three times the noise)", read_above, 0},
    {"channel-maps", 0, "", "draw all planes of each cube on one page: FILE-channels.png", NULL,
     offsetof(options, channel_maps)},
    {"spectrum", 3, "NAME RA DEC",
     "draw the spectrum of each cube at RA DEC, such as 8h24m07s -42d59m48s, with NAME in the legend: "
     "FILE-spectra.png; may be repeated",
     read_place, 0},
    {"overwrite", 0, "", "replace pictures that exist", NULL, offsetof(options, overwrite)},
    {"quiet", 0, "", "print errors only", NULL, offsetof(options, quiet)},
    {"version", 0, "", "print the version", NULL, offsetof(options, version)},
    {"help", 0, "", "print this", NULL, offsetof(options, help)},
};
enum { N_OPTION = sizeof option_table / sizeof *option_table };

static void print_help(void)
{
    puts("usage: msimage-png [options] FILE.fits [FILE.fits ..]\n"
         "Draws a picture of each FITS image: FILE.png, with axes, colour bar and beam.\n");
    msi_small_options_print(option_table, N_OPTION);
    puts("\nStokes Q, U and V are blue and red around a white zero. Weights of the uv plane have a logarithmic scale. "
         "Other\n"
         "images have an asinh scale, which is linear within a few times the noise. NaN are grey. Any pixels and any\n"
         "projection are accepted; axes that are not sky coordinates are linear.\n"
         "\nExamples:\n"
         "  msimage-png -overwrite puppis-dirty.fits puppis-psf.fits\n"
         "  msimage-png -plane 2 -range -0.001 0.01 -name stokes-u.png cube.fits");
}

static int read_options(options *o, int argc, const char *const *argv)
{
    int i;
    MSI_TRY(msi_small_options_read(option_table, N_OPTION, o, argc, argv, &i));
    o->file = argv + i;
    o->n_file = argc - i;
    if (o->help || o->version) return MSI_OK;
    if (!o->n_file) return msi_error_set(MSI_EUSAGE, "no image given; usage: msimage-png [options] FILE.fits ..");
    const char *cube = o->moments ? "moments" : o->channel_maps ? "channel-maps" : o->n_place ? "spectrum" : NULL;
    if ((o->moments != 0) + (o->channel_maps != 0) + (o->n_place > 0) > 1)
        return msi_error_set(MSI_EUSAGE, "-moments, -channel-maps, -spectrum: give one of them");
    if (cube && ((o->name && o->moments) || o->plane))
        return msi_error_set(MSI_EUSAGE, "-%s: it cannot be used with -%s", o->plane ? "plane" : "name", cube);
    if (cube && o->contour) return msi_error_set(MSI_EUSAGE, "-contour: it cannot be used with -%s", cube);
    if (!o->moments && !isnan(o->above)) return msi_error_set(MSI_EUSAGE, "-above: it needs -moments");
    if (o->name && o->n_file > 1) return msi_error_set(MSI_EUSAGE, "-name %s: it needs exactly one image", o->name);
    return MSI_OK;
}

/* Return the name of a picture: FILE.fits, FILE.fit or FILE.fts becomes FILE.png, or FILE-end.png if `end` is not NULL.
 * Owned by the caller. */
static char *picture_name(const char *file, const char *end, const char *extension)
{
    static const char *const endings[] = {".fits", ".fit", ".fts"};
    const size_t length = strlen(file);
    size_t keep = length;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(endings[i]);
        if (length > n && strcasecmp(file + length - n, endings[i]) == 0) keep = length - n;
    }
    char *name = malloc(keep + 16 + sizeof ".fits");
    if (name) sprintf(name, "%.*s%s%s%s", (int)keep, file, end ? "-" : "", end ? end : "", extension);
    return name;
}

/* Make a contour of an image with the pixels of a view. Returned: *out  owned */
static int make_contour(msi_fits_contour **out, const char *file, const msi_fits_view *of)
{
    enum { N = MSI_CONTOUR_POINTS };
    msi_fits_view view;
    float largest = 0;
    MSI_TRY(msi_fits_view_read(&view, file, 0));
    int rc = MSI_OK;
    if (view.nx != of->nx || view.ny != of->ny)
        rc = msi_error_set(MSI_EINPUT, "-contour %s: it has %lld x %lld pixels, but the image has %lld x %lld", file,
                           (long long)view.nx, (long long)view.ny, (long long)of->nx, (long long)of->ny);
    if (!rc) rc = msi_alloc(out, 1, sizeof **out, "a contour");
    for (int i = 0; !rc && i < N * N; i++) {
        const float v = view.pixel[llround(msi_fits_contour_pixel(i / N, view.ny)) * view.nx +
                                   llround(msi_fits_contour_pixel(i % N, view.nx))];
        (*out)->value[i / N][i % N] = v;
        largest = fmaxf(largest, v);
    }
    if (!rc) (*out)->level = 0.5 * (double)largest;
    msi_fits_view_free(&view);
    return rc;
}

static int draw_one(msi_publish *p, int i, const options *o)
{
    const char *file = o->file[i], *slash = strrchr(file, '/');
    msi_fits_view view;
    const msi_progress_share all = msi_progress_enter(i, i + 1, o->n_file);
    MSI_TRY(msi_fits_view_read(&view, file, o->plane));
    msi_fits_contour *contour = NULL;
    int rc = o->contour ? make_contour(&contour, o->contour, &view) : MSI_OK;
    if (!rc) rc = msi_picture_write_view(p, i, &view, slash ? slash + 1 : file, &o->style, contour, NULL);
    msi_free(contour);
    msi_fits_view_free(&view);
    msi_progress_leave(all);
    return rc;
}

/* Draw the moments of cube i, and write them as FITS images. */
static int draw_moments(msi_publish *p, int i, const options *o)
{
    msi_fits_view view[N_MOMENT];
    const char *file = o->file[i], *slash = strrchr(file, '/');
    const msi_progress_share all = msi_progress_enter(i, i + 1, o->n_file);
    char name[256];
    MSI_TRY(moments_make(view, file, o->above));
    int rc = MSI_OK;
    for (int m = 0; m < N_MOMENT; m++) {
        const int at = 2 * (N_MOMENT * i + m);
        const msi_fits_change change = {
            .unit = view[m].unit, .type = view[m].type, .one_plane = 1, .beam = view[m].beam};
        snprintf(name, sizeof name, "%s of %.200s", view[m].type, slash ? slash + 1 : file);
        if (!rc) rc = msi_picture_write_view(p, at, &view[m], name, &o->style, NULL, NULL);
        if (!rc) rc = msi_fits_write_like(p, at + 1, file, &change, view[m].pixel);
        msi_fits_view_free(&view[m]);
    }
    msi_progress_leave(all);
    return rc;
}

/* Draw the channel maps or the spectra of cube i. */
static int draw_channels(msi_publish *p, int i, const options *o)
{
    msi_fits_view view;
    msi_picture_tiles tiles;
    char title[320];
    const msi_progress_share all = msi_progress_enter(i, i + 1, o->n_file);
    int rc;
    if (o->n_place) {
        rc = channel_spectra_draw(p, i, o->file[i], o->place, o->n_place);
    } else {
        MSI_TRY(channel_maps_make(&view, &tiles, o->file[i], title, sizeof title));
        rc = msi_picture_write_view(p, i, &view, title, &o->style, NULL, &tiles);
        msi_fits_view_free(&view);
        msi_free(tiles.label);
    }
    msi_progress_leave(all);
    return rc;
}

static int n_picture(const options *o)
{
    return o->moments ? 2 * N_MOMENT * o->n_file : o->n_file;
}

/* Draw all pictures. If one fails, none is written. */
static int draw_all(const options *o, const char *const *name)
{
    msi_publish *p;
    int rc = msi_publish_plan(&p, name, n_picture(o), o->overwrite);
    if (rc && strcmp(msi_error_about_get(), "overwrite") == 0) return msi_error_append(rc, "; -overwrite replaces it");
    MSI_TRY(rc);
    msi_progress_begin("drawing");
    for (int i = 0; !rc && i < o->n_file; i++)
        rc = o->moments                      ? draw_moments(p, i, o)
             : o->channel_maps || o->n_place ? draw_channels(p, i, o)
                                             : draw_one(p, i, o);
    if (!rc) msi_progress_end();
    if (!rc) rc = msi_publish_commit(p);
    msi_publish_free(p);
    for (int i = 0; !rc && i < n_picture(o); i++) msi_log_info("wrote %s", name[i]);
    return rc;
}

static int draw(const options *o)
{
    char **name;
    const int n = n_picture(o), each = o->moments ? 2 * N_MOMENT : 1;
    MSI_TRY(msi_alloc(&name, n, sizeof *name, "file names"));
    int rc = MSI_OK;
    for (int i = 0; !rc && i < n; i++)
        if (!(name[i] = o->name ? strdup(o->name)
                                : picture_name(o->file[i / each],
                                               o->moments        ? moment_names[i % each / 2]
                                               : o->channel_maps ? "channels"
                                               : o->n_place      ? "spectra"
                                                                 : NULL,
                                               o->moments && i % 2 ? ".fits" : ".png")))
            rc = msi_error_set(MSI_ENOMEM, "no memory for file names");
    if (!rc) rc = draw_all(o, (const char *const *)name);
    for (int i = 0; i < n; i++) free(name[i]);
    msi_free(name);
    return rc;
}

static int run_program(int argc, char **argv)
{
    options o = {.above = NAN};
    int is_raised;
    MSI_TRY(msi_process_limits_stack(&is_raised));
    MSI_TRY(read_options(&o, argc, (const char *const *)argv));
    msi_log_setup(o.quiet ? MSI_LOG_QUIET : MSI_LOG_NORMAL, 0);
    if (o.help)
        print_help();
    else if (o.version)
        puts("msimage-png " MSIMAGE_VERSION);
    else {
        msi_interrupt_install();
        return draw(&o);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) return msi_error_set(MSI_EOUTPUT, "stdout: write error");
    return MSI_OK;
}

int main(int argc, char **argv)
{
    msi_process_hold_standard_files();
    msi_log_program("msimage-png");
    msi_wall_s();
    const int rc = run_program(argc, argv);
    if (rc) msi_log_error(msi_error_get());
    return msi_exit_code(rc);
}
