/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/fits_screen.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/fits/fits_cards.h"

static const double RAD_PER_DEG = MSI_PI / 180;

/* Axes of planes, from the fastest to the slowest in memory. */
enum { MATRIX, ANTENNA, FREQ, TIME, N_KIND };
static const char *const kind_name[N_KIND] = {"MATRIX", "ANTENNA", "FREQ", "TIME"};

static int read_directions(msi_fits_screen *s, const msi_fits_handle *h, const char *path)
{
    for (int k = 0; k < 2; k++) {
        msi_axis_cards a;
        MSI_TRY(msi_fits_get_axis(h->f, path, k + 1, &a));
        double scale;
        if (strcmp(a.ctype, k ? "DEC--SIN" : "RA---SIN") != 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s: CTYPE%d is '%s'; the first axes of a screen are RA---SIN and DEC--SIN", path,
                                 k + 1, a.ctype);
        MSI_TRY(msi_fits_axis_factor(&a, path, k + 1, 1, &scale));
        if (a.cdelt == 0) return msi_error_set(MSI_EINPUT, "%s: CDELT%d is 0; pixels must have a size", path, k + 1);
        s->centre[k] = a.crpix - 1;
        s->step_rad[k] = a.cdelt * scale * RAD_PER_DEG;
        *(k ? &s->dec_rad : &s->ra_rad) = a.crval * scale * RAD_PER_DEG;
    }
    return MSI_OK;
}

/* Read the axes of planes. Returned: kind [n_axis] of each axis after the second; -1: it has one plane */
static int read_planes(msi_fits_screen *s, const msi_fits_handle *h, const char *path, int n_axis, const LONGLONG *axis,
                       int *kind)
{
    int64_t *const n[N_KIND] = {&s->n_matrix, &s->n_antenna, &s->n_freq, &s->n_time};
    for (int i = 0; i < N_KIND; i++) *n[i] = 1;
    int found = 0;
    for (int k = 2; k < n_axis; k++) {
        msi_axis_cards a;
        MSI_TRY(msi_fits_get_axis(h->f, path, k + 1, &a));
        kind[k] = -1;
        for (int i = 0; i < N_KIND; i++)
            if (strcmp(a.ctype, kind_name[i]) == 0) kind[k] = i;
        if (kind[k] < 0 && axis[k] != 1)
            return msi_error_set(MSI_EINPUT,
                                 "%s: CTYPE%d is '%s'; the axes of a screen are RA, DEC, MATRIX, ANTENNA, FREQ "
                                 "and TIME",
                                 path, k + 1, a.ctype);
        if (kind[k] < 0) continue;
        if (found >> kind[k] & 1) return msi_error_set(MSI_EINPUT, "%s: has two axes %s", path, kind_name[kind[k]]);
        found |= 1 << kind[k];
        *n[kind[k]] = axis[k];
        const double first = a.crval + (1 - a.crpix) * a.cdelt;
        if (kind[k] == FREQ) {
            double scale;
            MSI_TRY(msi_fits_axis_factor(&a, path, k + 1, 0, &scale));
            s->freq_hz = first * scale;
            s->freq_step_hz = a.cdelt * scale;
        } else if (kind[k] == TIME) {
            s->time_s = first;
            s->time_step_s = a.cdelt;
            if (axis[k] > 1 && !(a.cdelt > 0))
                return msi_error_set(MSI_EINPUT, "%s: CDELT%d is %g; times must ascend", path, k + 1, a.cdelt);
        }
    }
    return MSI_OK;
}

/* Read the pixels, plane by plane in the order of the file. */
static int read_pixels(msi_fits_screen *s, const msi_fits_handle *h, const char *path, int n_axis, const LONGLONG *axis,
                       const int *kind)
{
    const int64_t of_kind[N_KIND] = {s->n_matrix, s->n_antenna, s->n_freq, s->n_time}, n = s->nx * s->ny;
    int64_t step[N_KIND], n_plane = 1;
    for (int i = 0; i < N_KIND; i++) {
        step[i] = n_plane;
        n_plane *= of_kind[i];
    }
    MSI_TRY(msi_alloc_paged(&s->pixel, n * n_plane, sizeof *s->pixel, path));
    for (int64_t p = 0; p < n_plane; p++) {
        int64_t to = 0, rest = p;
        int status = 0;
        for (int k = 2; k < n_axis; k++) {
            if (kind[k] >= 0) to += rest % axis[k] * step[kind[k]];
            rest /= axis[k];
        }
        float *pixel = s->pixel + to * n;
        MSI_TRY(msi_interrupt_check());
        fits_read_img(h->f, TFLOAT, p * n + 1, n, NULL, pixel, NULL, &status);
        if (status) return msi_fits_failed(path, status, "reading pixels");
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(pixel[i]))
                return msi_error_set(MSI_EINPUT,
                                     "%s: pixel (%lld, %lld) of plane %lld is %g; a screen has finite values", path,
                                     (long long)(i % s->nx), (long long)(i / s->nx), (long long)p, (double)pixel[i]);
    }
    return MSI_OK;
}

/* Given: only_axes  without pixels */
static int read_screen(msi_fits_screen *s, const msi_fits_handle *h, const char *path, int only_axes)
{
    LONGLONG axis[MSI_FITS_MAX_AXES];
    int n_axis, bitpix, kind[MSI_FITS_MAX_AXES] = {0};
    MSI_TRY(msi_fits_find_image(h, path, &n_axis, axis, &bitpix));
    MSI_TRY(msi_fits_check_size(h, path, n_axis, axis, bitpix));
    MSI_TRY(read_directions(s, h, path));
    MSI_TRY(read_planes(s, h, path, n_axis, axis, kind));
    if (only_axes) return MSI_OK;
    s->nx = axis[0];
    s->ny = axis[1];
    if (s->nx < 4 || s->ny < 4)
        return msi_error_set(MSI_EINPUT, "%s: a screen of %lld x %lld pixels; give at least 4 x 4", path,
                             (long long)s->nx, (long long)s->ny);
    return read_pixels(s, h, path, n_axis, axis, kind);
}

int msi_fits_screen_read(msi_fits_screen *s, const char *path)
{
    msi_fits_handle h;
    *s = (msi_fits_screen){0};
    MSI_TRY(msi_fits_handle_open(&h, path));
    const int rc = read_screen(s, &h, path, 0);
    msi_fits_handle_close(&h);
    if (rc) msi_fits_screen_free(s);
    return rc;
}

int msi_fits_screen_planes(const char *path, int64_t *n_matrix, int64_t *n_antenna)
{
    msi_fits_handle h;
    msi_fits_screen s = {0};
    *n_matrix = *n_antenna = 0;
    MSI_TRY(msi_fits_handle_open(&h, path));
    const int rc = read_screen(&s, &h, path, 1);
    msi_fits_handle_close(&h);
    *n_matrix = s.n_matrix;
    *n_antenna = s.n_antenna;
    return rc;
}

void msi_fits_screen_free(msi_fits_screen *s)
{
    msi_free(s->pixel);
    *s = (msi_fits_screen){0};
}
