/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/png_channels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/picture_curves.h"
#include "io/fits/sky_wcs.h"

enum { MOST_PIXELS = 3000 }; /* along a side of the page */

static int read_first(msi_fits_view *v, const char *path)
{
    MSI_TRY(msi_fits_view_read(v, path, 0));
    if (v->n_freq >= 2 && v->freq_hz > 0) return MSI_OK;
    msi_fits_view_free(v);
    return msi_error_set(
        MSI_EINPUT, "%s: channel maps and spectra need a cube with several planes along FREQ, the third axis", path);
}

/* ---- Channel maps ---- */

/* The tiles of a page: each has nx x ny blocks of pixels, and a line on its right and below it. */
typedef struct page {
    int64_t n_column, n_row, block, nx, ny;
} page;

/* Choose the columns of the most nearly square page, and the blocks that make it small enough. */
static page lay_page(const msi_fits_view *v)
{
    page p = {.block = 1};
    p.n_column = (int64_t)ceil(sqrt((double)v->n_freq * (double)v->ny / (double)v->nx));
    if (p.n_column > v->n_freq) p.n_column = v->n_freq;
    p.n_row = (v->n_freq + p.n_column - 1) / p.n_column;
    while (p.n_column * (v->nx / p.block + 1) > MOST_PIXELS || p.n_row * (v->ny / p.block + 1) > MOST_PIXELS) {
        if (v->nx / p.block < 2 || v->ny / p.block < 2) break;
        p.block++;
    }
    p.nx = v->nx / p.block;
    p.ny = v->ny / p.block;
    return p;
}

/* Return the mean over a block of pixels; NaN if none has a value. */
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
    const int64_t x0 = v->plane % p->n_column * (p->nx + 1), y0 = (p->n_row - 1 - v->plane / p->n_column) * (p->ny + 1);
    for (int64_t y = 0; y < p->ny; y++)
        for (int64_t x = 0; x < p->nx; x++) view->pixel[(y0 + y) * view->nx + x0 + x] = block_mean(v, x, y, p->block);
}

int msi_channel_maps_make(msi_fits_view *view, const char *path, char *title, size_t size)
{
    msi_fits_view v;
    const char *slash = strrchr(path, '/');
    MSI_TRY(read_first(view, path));
    const page p = lay_page(view);
    const int64_t n = view->n_freq;
    const double first_hz = view->freq_hz;
    double last_hz = first_hz;
    msi_sky_wcs_free(view->wcs);
    msi_free(view->pixel);
    view->wcs = NULL;
    view->pixel = NULL;
    view->nx = p.n_column * (p.nx + 1) - 1;
    view->ny = p.n_row * (p.ny + 1) - 1;
    view->cell_rad = view->freq_hz = view->bandwidth_hz = 0;
    view->n_plane = 1;
    view->beam = (msi_beam){0};
    for (int k = 0; k < 2; k++) {
        snprintf(view->ctype[k], sizeof view->ctype[k], "%s", k ? "row of channels" : "column of channels");
        view->cunit[k][0] = 0;
        view->crpix[k] = 0.5 * (double)((k ? p.ny : p.nx) + 1); /* the middle of the first tile */
        view->crval[k] = k ? (double)p.n_row : 1;
        view->cdelt[k] = (k ? -1 : 1) / (double)((k ? p.ny : p.nx) + 1);
    }
    int rc = msi_alloc(&view->pixel, view->nx * view->ny, sizeof *view->pixel, "channel maps");
    for (int64_t i = 0; !rc && i < view->nx * view->ny; i++) view->pixel[i] = NAN;
    for (int64_t k = 0; k < n && !rc; k++) {
        rc = msi_fits_view_read(&v, path, k);
        if (rc) break;
        put_tile(view, &p, &v);
        last_hz = v.freq_hz;
        msi_fits_view_free(&v);
    }
    snprintf(title, size, "%.200s: %lld planes from the top left, %.9g to %.9g MHz", slash ? slash + 1 : path,
             (long long)n, 1e-6 * first_hz, 1e-6 * last_hz);
    if (rc) msi_fits_view_free(view);
    return rc;
}

/* ---- Spectra ---- */

/* Find the nearest pixel of each place. */
static int find_pixels(const msi_fits_view *v, const char *path, const msi_png_place *place, int n, int64_t *at)
{
    if (!v->wcs) return msi_error_set(MSI_EINPUT, "%s: spectra at places need an image on the sky", path);
    for (int i = 0; i < n; i++) {
        const double degree = 180 / MSI_PI, sky[2] = {place[i].ra_rad * degree, place[i].dec_rad * degree};
        double pixel[2];
        const int is_seen = msi_sky_wcs_sky_to_pixel(v->wcs, sky, pixel);
        const int64_t x = is_seen ? llround(pixel[0]) : -1, y = is_seen ? llround(pixel[1]) : -1;
        if (x < 0 || y < 0 || x >= v->nx || y >= v->ny)
            return msi_error_set(MSI_EINPUT, "%s: the place %.100s lies outside of the image", path, place[i].name);
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
        x[k] = v.rest_freq_hz > 0 ? 1e-3 * MSI_SPEED_OF_LIGHT * (1 - v.freq_hz / v.rest_freq_hz) : 1e-6 * v.freq_hz;
        for (int i = 0; i < n_place; i++) y[i * n_plane + k] = (double)v.pixel[at[i]];
        msi_fits_view_free(&v);
    }
    return MSI_OK;
}

static int draw_spectra(msi_publish *p, int i, const char *path, const msi_fits_view *v, const msi_png_place *place,
                        int n_place, double *x, int64_t *at)
{
    const int64_t n = v->n_freq;
    const char *slash = strrchr(path, '/');
    msi_picture_curve curve[MSI_PNG_MOST_PLACES];
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

int msi_channel_spectra_draw(msi_publish *p, int i, const char *path, const msi_png_place *place, int n_place)
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
