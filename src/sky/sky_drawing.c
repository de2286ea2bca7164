/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/sky_drawing.h"

#include <math.h>
#include <string.h>

#include <fftw3.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"

msi_covariance msi_covariance_of(const msi_beam *b)
{
    const double s = sin(b->pa_rad), c = cos(b->pa_rad), per_fwhm = 1 / (8 * log(2));
    const double major = b->major_rad * b->major_rad * per_fwhm, minor = b->minor_rad * b->minor_rad * per_fwhm;
    return (msi_covariance){major * s * s + minor * c * c, (major - minor) * s * c, major * c * c + minor * s * s};
}

double msi_covariance_determinant(const msi_covariance *c)
{
    return c->ee * c->nn - c->en * c->en;
}

/* Extent of a gaussian in standard deviations: there it is e^-36, less than the rounding of floats. */
static const double REACH = 8.5;

void msi_draw_gaussian(double *image, const msi_image_geometry *g, const double at[2], const msi_covariance *c,
                       double peak)
{
    const double det = msi_covariance_determinant(c), rx = REACH * sqrt(c->ee) / g->cell_x_rad,
                 ry = REACH * sqrt(c->nn) / g->cell_y_rad;
    const int64_t x0 = (int64_t)fmax(0, ceil(at[0] - rx)), x1 = (int64_t)fmin((double)g->nx - 1, floor(at[0] + rx));
    const int64_t y0 = (int64_t)fmax(0, ceil(at[1] - ry)), y1 = (int64_t)fmin((double)g->ny - 1, floor(at[1] + ry));
#pragma omp parallel for
    for (int64_t y = y0; y <= y1; y++)
        for (int64_t x = x0; x <= x1; x++) {
            const double east = (at[0] - (double)x) * g->cell_x_rad, north = ((double)y - at[1]) * g->cell_y_rad;
            const double square = (east * east * c->nn - 2 * east * north * c->en + north * north * c->ee) / det;
            image[y * g->nx + x] += peak * exp(-0.5 * square);
        }
}

int msi_sky_place(double at[2], int64_t *n_outside, const msi_sky_source *s, const msi_sky_wcs *wcs,
                  const msi_image_geometry *g)
{
    const double deg = 180 / MSI_PI, sky[2] = {s->ra_rad * deg, s->dec_rad * deg};
    const int is_seen = msi_sky_wcs_sky_to_pixel(wcs, sky, at);
    *n_outside +=
        !is_seen || at[0] < -0.5 || at[1] < -0.5 || at[0] > (double)g->nx - 0.5 || at[1] > (double)g->ny - 0.5;
    return is_seen;
}

/* ---- Spectra ---- */

enum { MOST_COEFFICIENTS = MSI_SKY_MAX_TERMS + 1 };

/* Multiply a polynomial of n terms by (x - root) * scale, and add a constant. */
static void horner_step(double *c, int n, double root, double scale, double constant)
{
    for (int k = n; k > 0; k--) c[k] = scale * (c[k - 1] - (k < n ? root * c[k] : 0));
    c[0] = constant - scale * root * c[0];
}

int msi_sky_model_spectrum(const msi_sky_model *m, const msi_sky_source *s, double *c)
{
    double node[MOST_COEFFICIENTS], f[MOST_COEFFICIENTS], all[MOST_COEFFICIENTS + 1] = {0};
    int n = s->n_term + 1;
    if (!s->n_term) {
        all[0] = s->flux_jy;
    } else if (!s->is_logarithmic) {
        /* x of the reference is (x + 1) freq / reference - 1, which is zero at the root. */
        const double scale = m->freq_hz / s->reference_hz, root = s->reference_hz / m->freq_hz - 1;
        for (int k = n - 1; k >= 0; k--) horner_step(all, n - 1 - k, root, scale, k ? s->term[k - 1] : s->flux_jy);
    } else {
        /* Newton's divided differences. The nodes are in -1 .. 1, which are the ends of the band. */
        const double half = 0.5 * m->bandwidth_hz / m->freq_hz;
        if (n < m->n_term) n = m->n_term;
        if (!(half > 0)) n = 1;
        for (int k = 0; k < n; k++) {
            node[k] = n > 1 ? 2.0 * k / (n - 1) - 1 : 0;
            f[k] = msi_sky_source_flux(s, m->freq_hz * (1 + half * node[k]));
        }
        for (int order = 1; order < n; order++)
            for (int k = n - 1; k >= order; k--) f[k] = (f[k] - f[k - 1]) / (node[k] - node[k - order]);
        for (int k = n - 1; k >= 0; k--) horner_step(all, n - 1 - k, node[k], 1, f[k]);
        for (int k = 1; k < n; k++) all[k] *= pow(half, -k);
    }
    for (int k = 0; k < m->n_term; k++) c[k] = k < n ? all[k] : 0;
    return n;
}

/* ---- Points ---- */

/* Compute a point's kernel along an axis of n pixels. Returned: kernel [n], of which [*begin, *end) are set */
static void make_kernel(double *kernel, int64_t n, double at, int64_t window, int64_t *begin, int64_t *end)
{
    const double half = 0.5 * (double)window;
    *begin = window ? (int64_t)fmin(fmax(0, floor(at - half) + 1), (double)n) : 0;
    *end = window ? (int64_t)fmax(fmin((double)n, ceil(at + half)), (double)*begin) : n;
    for (int64_t i = *begin; i < *end; i++) {
        const double d = MSI_PI * ((double)i - at), taper = window ? cos(d / (double)window) : 1;
        kernel[i] = fabs(d) < 1e-8 ? 1 : taper * taper * sin(d) / d;
    }
}

/* ---- Narrow gaussians, by their spectra ---- */

/* A gaussian whose standard deviation is this many pixels along its minor axis has 3e-9 of its peak in its spectrum
 * beyond 0.4 cycles per pixel: exp(-2 pi^2 0.4^2 2.5^2). Its samples then have the same spectrum. */
static const double WIDE_PIXELS = 2.5;

/* Transforms of stamps of one width. */
typedef struct stamp {
    int64_t n; /* pixels along both axes; odd; 0: none */
    fftw_complex *spectrum;
    double *pixel; /* [n][n], the source within half a pixel of pixel 0 */
    fftw_plan plan;
} stamp;

static void free_stamp(stamp *t)
{
#pragma omp critical(msi_fftw_planner)
    fftw_destroy_plan(t->plan);
    msi_free(t->spectrum);
    msi_free(t->pixel);
    *t = (stamp){0};
}

static int make_stamp(stamp *t, int64_t n)
{
    free_stamp(t);
    MSI_TRY(msi_alloc(&t->spectrum, n * (n / 2 + 1), sizeof *t->spectrum, "the image of a gaussian"));
    int rc = msi_alloc(&t->pixel, n * n, sizeof *t->pixel, "the image of a gaussian");
#pragma omp critical(msi_fftw_planner)
    if (!rc) t->plan = fftw_plan_dft_c2r_2d((int)n, (int)n, t->spectrum, t->pixel, FFTW_ESTIMATE);
    if (!rc && !t->plan) rc = msi_error_set(MSI_ENOMEM, "FFTW cannot plan a transform of %lld pixels", (long long)n);
    if (rc) free_stamp(t);
    if (!rc) t->n = n;
    return rc;
}

static double tukey(double u)
{
    return fabs(u) <= 0.4 ? 1 : 0.5 * (1 + cos(MSI_PI * (fabs(u) - 0.4) / 0.1));
}

/* Compute a gaussian of flux 1. Given: c  in squares of pixels, of x (west), y; fraction  of a pixel, -0.5 .. 0.5 */
static void fill_stamp(stamp *t, const msi_covariance *c, const double fraction[2])
{
    const int64_t n = t->n, half = n / 2;
    const double per_pixel = 1 / (double)n, scale = per_pixel * per_pixel;
#pragma omp parallel for
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i <= half; i++) {
            const double u = (double)i * per_pixel, v = (double)(j <= half ? j : j - n) * per_pixel;
            const double exponent = -2 * MSI_PI * MSI_PI * (u * u * c->ee + 2 * u * v * c->en + v * v * c->nn);
            const double value = scale * tukey(u) * tukey(v) * exp(exponent);
            const double turns = u * fraction[0] + v * fraction[1];
            t->spectrum[j * (half + 1) + i][0] = value * cos(2 * MSI_PI * turns);
            t->spectrum[j * (half + 1) + i][1] = -value * sin(2 * MSI_PI * turns);
        }
    fftw_execute(t->plan);
}

/* ---- Models ---- */

/* The state of drawing a model. */
typedef struct drawing {
    const msi_sky_model *model;
    int64_t number; /* index of the source, from 1 */
    double *image;
    double *kernel[2]; /* [nx], [ny] */
    stamp stamp;
} drawing;

static void draw_point(drawing *d, const double at[2], double flux)
{
    const msi_image_geometry *g = &d->model->geometry;
    int64_t begin[2], end[2];
    make_kernel(d->kernel[0], g->nx, at[0], d->model->window, &begin[0], &end[0]);
    make_kernel(d->kernel[1], g->ny, at[1], d->model->window, &begin[1], &end[1]);
    for (int64_t y = begin[1]; y < end[1]; y++)
        for (int64_t x = begin[0]; x < end[0]; x++) d->image[y * g->nx + x] += flux * d->kernel[1][y] * d->kernel[0][x];
}

/* Choose the width of a stamp: the window, or about twice as much and so on if the gaussian is longer. Returns 0 if it is
 * too long. */
static int64_t stamp_width(const drawing *d, double sigma)
{
    const double needed = 2 * REACH * sigma + 1;
    int64_t n = d->model->window < 127 ? 127 : d->model->window | 1;
    while ((double)n < needed && 2 * n + 1 <= MSI_SKY_MAX_WINDOW) n = 2 * n + 1;
    return (double)n < needed ? 0 : n;
}

static int draw_narrow(drawing *d, const double at[2], const msi_covariance *c, double sigma, double flux)
{
    const msi_image_geometry *g = &d->model->geometry;
    const int64_t n = stamp_width(d, sigma), half = n / 2;
    const double middle[2] = {floor(at[0] + 0.5), floor(at[1] + 0.5)};
    const double fraction[2] = {at[0] - middle[0], at[1] - middle[1]};
    if (!n)
        return msi_error_set(
            MSI_EINPUT,
            "source %lld of the list: the gaussian is narrower than 6 pixels and longer than %.0f; use "
            "larger pixels, or take it out",
            (long long)d->number, MSI_SKY_MAX_WINDOW / (2 * REACH) * sqrt(8 * log(2)));
    if (middle[0] + (double)half < 0 || middle[1] + (double)half < 0 || middle[0] - (double)half > (double)g->nx ||
        middle[1] - (double)half > (double)g->ny)
        return MSI_OK;
    if (d->stamp.n != n) MSI_TRY(make_stamp(&d->stamp, n));
    fill_stamp(&d->stamp, c, fraction);
    const int64_t x0 = (int64_t)middle[0], y0 = (int64_t)middle[1];
    for (int64_t j = -half; j <= half; j++)
        for (int64_t i = -half; i <= half; i++) {
            const int64_t x = x0 + i, y = y0 + j;
            if (x < 0 || y < 0 || x >= g->nx || y >= g->ny) continue;
            d->image[y * g->nx + x] += flux * d->stamp.pixel[(j < 0 ? j + n : j) * n + (i < 0 ? i + n : i)];
        }
    return MSI_OK;
}

static int draw_source(drawing *d, const msi_sky_source *s, const double at[2], double flux)
{
    const msi_image_geometry *g = &d->model->geometry;
    const double area = g->cell_x_rad * g->cell_y_rad;
    const msi_covariance c = msi_covariance_of(&s->shape);
    const msi_covariance pixels = {c.ee / (g->cell_x_rad * g->cell_x_rad), -c.en / area,
                                   c.nn / (g->cell_y_rad * g->cell_y_rad)};
    /* The axes of the gaussian are the eigenvalues of its covariance. */
    const double mean = 0.5 * (pixels.ee + pixels.nn), off = hypot(0.5 * (pixels.ee - pixels.nn), pixels.en);
    if (!flux) return MSI_OK;
    if (!(mean > 0)) {
        draw_point(d, at, flux);
        return MSI_OK;
    }
    if (mean - off < WIDE_PIXELS * WIDE_PIXELS) return draw_narrow(d, at, &pixels, sqrt(mean + off), flux);
    msi_draw_gaussian(d->image, g, at, &c, flux * area / (2 * MSI_PI * sqrt(msi_covariance_determinant(&c))));
    return MSI_OK;
}

static int draw_all(drawing *d, int term, int64_t *n_outside)
{
    const msi_sky_model *m = d->model;
    *n_outside = 0;
    for (int64_t i = 0; i < m->list->n; i++) {
        const msi_sky_source *s = &m->list->source[i];
        double at[2], c[MOST_COEFFICIENTS];
        if (i % 16 == 0) MSI_TRY(msi_interrupt_check());
        if (!msi_sky_place(at, n_outside, s, m->wcs, &m->geometry)) continue;
        msi_sky_model_spectrum(m, s, c);
        if (!isfinite(c[term]) || fabs(c[term]) > MSI_SKY_MAX_JY)
            return msi_error_set(MSI_EINPUT,
                                 "source %lld of the list: its spectrum at %.6g MHz is not finite, or above 1e30 Jy",
                                 (long long)i + 1, 1e-6 * m->freq_hz);
        d->number = i + 1;
        MSI_TRY(draw_source(d, s, at, c[term]));
    }
    return MSI_OK;
}

int msi_sky_model_draw(const msi_sky_model *model, int term, double *image, int64_t *n_outside)
{
    const msi_image_geometry *g = &model->geometry;
    drawing d = {.model = model, .image = image};
    memset(image, 0, (size_t)msi_image_n_pixel(g) * sizeof *image);
    int rc = msi_alloc(&d.kernel[0], g->nx, sizeof *d.kernel[0], "the image of a point");
    if (!rc) rc = msi_alloc(&d.kernel[1], g->ny, sizeof *d.kernel[1], "the image of a point");
    if (!rc) rc = draw_all(&d, term, n_outside);
    free_stamp(&d.stamp);
    msi_free(d.kernel[0]);
    msi_free(d.kernel[1]);
    return rc;
}
