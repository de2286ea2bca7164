/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/fits_view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/fits/fits_cards.h"
#include "io/fits/fits_image.h"

enum { CHUNK_PIXELS = 4 * 1024 * 1024 };

/* Read a number for a picture: a card that is none counts as absent. */
static double number_of(fitsfile *f, const char *path, const char *key, double absent)
{
    double value;
    return msi_fits_get_number(f, path, key, absent, &value) == MSI_OK ? value : absent;
}

static void text_of(fitsfile *f, const char *key, char text[72])
{
    char value[FLEN_VALUE];
    msi_fits_get_text(f, key, value);
    snprintf(text, 72, "%s", value);
}

static void read_axes(msi_fits_view *v, fitsfile *f, const char *path)
{
    for (int k = 0; k < 2; k++) {
        msi_axis_cards a;
        if (msi_fits_get_axis(f, path, k + 1, &a)) a = (msi_axis_cards){.cdelt = 1};
        snprintf(v->ctype[k], sizeof v->ctype[k], "%s", a.ctype);
        snprintf(v->cunit[k], sizeof v->cunit[k], "%s", a.cunit);
        v->crpix[k] = a.crpix;
        v->crval[k] = a.crval;
        v->cdelt[k] = a.cdelt != 0 ? a.cdelt : 1;
    }
}

/* The matrix is that of the cards PC, or of CD, whose steps it then holds; or the angle of CROTA2. */
static void read_matrix(msi_sky_cards *c, fitsfile *f, const char *path)
{
    const double none = -1e300;
    char key[FLEN_KEYWORD];
    int has_cd = 0;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            snprintf(key, sizeof key, "CD%d_%d", i + 1, k + 1);
            has_cd |= number_of(f, path, key, none) > none;
        }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            snprintf(key, sizeof key, has_cd ? "CD%d_%d" : "PC%d_%d", i + 1, k + 1);
            c->pc[i][k] = number_of(f, path, key, has_cd ? 0 : i == k);
        }
    for (int i = 0; i < 2 && has_cd; i++) c->cdelt_deg[i] = 1;
    const double turn = number_of(f, path, "CROTA2", 0) * MSI_PI / 180;
    if (has_cd || turn == 0) return;
    const double ratio = c->cdelt_deg[1] / c->cdelt_deg[0];
    c->pc[0][0] = c->pc[1][1] = cos(turn);
    c->pc[0][1] = -sin(turn) * ratio;
    c->pc[1][0] = sin(turn) / ratio;
}

static int read_sky(msi_fits_view *v, fitsfile *f, const char *path)
{
    msi_sky_cards c = {0};
    char text[72], key[FLEN_KEYWORD];
    for (int k = 0; k < 2; k++) {
        const double scale = msi_fits_unit_factor(v->cunit[k], 1);
        if (scale == 0 || strlen(v->ctype[k]) >= sizeof c.ctype[k]) return MSI_OK;
        strcpy(c.ctype[k], v->ctype[k]);
        c.crval_deg[k] = v->crval[k] * scale;
        snprintf(key, sizeof key, "CDELT%d", k + 1);
        c.cdelt_deg[k] = number_of(f, path, key, v->cdelt[k]) * scale;
        c.crpix[k] = v->crpix[k];
    }
    read_matrix(&c, f, path);
    /* Pixels without a size lie nowhere. */
    if (c.cdelt_deg[0] == 0 || c.cdelt_deg[1] == 0) return MSI_OK;
    c.lonpole_deg = number_of(f, path, "LONPOLE", NAN);
    c.latpole_deg = number_of(f, path, "LATPOLE", NAN);
    for (int axis = 1; axis <= 2; axis++)
        for (int m = 0; m < 20; m++) {
            snprintf(key, sizeof key, "PV%d_%d", axis, m);
            const double value = number_of(f, path, key, NAN);
            if (!isfinite(value)) continue;
            c.pv[c.n_pv].axis = axis;
            c.pv[c.n_pv].m = m;
            c.pv[c.n_pv++].value = value;
        }
    text_of(f, "RADESYS", text);
    snprintf(c.radesys, sizeof c.radesys, "%.15s", text);
    c.equinox = number_of(f, path, "EQUINOX", number_of(f, path, "EPOCH", 0));
    MSI_TRY(msi_sky_wcs_of_cards(&v->wcs, &c));
    if (v->wcs) v->cell_rad = hypot(c.cdelt_deg[0] * c.pc[0][1], c.cdelt_deg[1] * c.pc[1][1]) * MSI_PI / 180;
    return MSI_OK;
}

/* A plane's number tells its place on the axes of frequency and polarisation. */
static void read_other_axes(msi_fits_view *v, fitsfile *f, const char *path, int n_axis, const LONGLONG *axis)
{
    int64_t rest = v->plane;
    for (int k = 2; k < n_axis; k++) {
        msi_axis_cards a;
        const double at = (double)(rest % axis[k]);
        rest /= axis[k];
        if (msi_fits_get_axis(f, path, k + 1, &a)) continue;
        const double value = a.crval + (at + 1 - a.crpix) * a.cdelt;
        if (strcmp(a.ctype, "FREQ") == 0) {
            v->freq_hz = fmax(0, value * msi_fits_unit_factor(a.cunit, 0));
            v->bandwidth_hz = fabs(a.cdelt * msi_fits_unit_factor(a.cunit, 0));
        }
        for (int pol = MSI_POL_I; pol <= MSI_POL_YY && strcmp(a.ctype, "STOKES") == 0; pol++) {
            if (fabs(msi_fits_stokes((msi_pol)pol) - value) > 1e-6) continue;
            v->pol = (msi_pol)pol;
            v->has_pol = 1;
        }
    }
}

static int read_pixels(msi_fits_view *v, fitsfile *f, const char *path)
{
    const int64_t n = v->nx * v->ny;
    float nothing = NAN;
    MSI_TRY(msi_alloc(&v->pixel, n, sizeof *v->pixel, path));
    for (int64_t first = 0; first < n; first += CHUNK_PIXELS) {
        const int64_t length = n - first < CHUNK_PIXELS ? n - first : CHUNK_PIXELS;
        int status = 0, any = 0;
        MSI_TRY(msi_interrupt_check());
        msi_progress_at(first, n);
        fits_read_img(f, TFLOAT, v->plane * n + first + 1, length, &nothing, v->pixel + first, &any, &status);
        if (status) return msi_fits_failed(path, status, "while its pixels are read");
    }
    return MSI_OK;
}

static int read_plane(msi_fits_view *v, const msi_fits_handle *h, const char *path)
{
    LONGLONG axis[MSI_FITS_MAX_AXES];
    int n_axis, bitpix;
    MSI_TRY(msi_fits_find_image(h, path, &n_axis, axis, &bitpix));
    MSI_TRY(msi_fits_check_size(h, path, n_axis, axis, bitpix));
    v->nx = axis[0];
    v->ny = axis[1];
    v->n_plane = 1;
    for (int k = 2; k < n_axis; k++) v->n_plane *= axis[k]; /* no more than the file's bytes */
    if (v->plane >= v->n_plane)
        return msi_error_set(MSI_EARGUMENT, "%s: has no plane %lld; it has %lld, counted from 0", path,
                             (long long)v->plane, (long long)v->n_plane);
    text_of(h->f, "OBJECT", v->object);
    text_of(h->f, "TELESCOP", v->telescope);
    text_of(h->f, "BTYPE", v->type);
    text_of(h->f, "BUNIT", v->unit);
    v->beam =
        (msi_beam){number_of(h->f, path, "BMAJ", 0) * MSI_PI / 180, number_of(h->f, path, "BMIN", 0) * MSI_PI / 180,
                   number_of(h->f, path, "BPA", 0) * MSI_PI / 180};
    read_axes(v, h->f, path);
    MSI_TRY(read_sky(v, h->f, path));
    read_other_axes(v, h->f, path, n_axis, axis);
    return read_pixels(v, h->f, path);
}

int msi_fits_view_read(msi_fits_view *view, const char *path, int64_t plane)
{
    msi_fits_handle h;
    *view = (msi_fits_view){.plane = plane};
    MSI_TRY(msi_fits_handle_open(&h, path));
    const int rc = read_plane(view, &h, path);
    msi_fits_handle_close(&h);
    if (rc) msi_fits_view_free(view);
    return rc;
}

void msi_fits_view_free(msi_fits_view *view)
{
    msi_free(view->pixel);
    msi_sky_wcs_free(view->wcs);
    *view = (msi_fits_view){0};
}
