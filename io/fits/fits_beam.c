/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/fits/fits_cards.h"
#include "io/fits/fits_image.h"

static const double RAD_PER_DEG = MSI_PI / 180;

/* Read the axes of directions: those of the sky, or of a dish. */
static int read_directions(msi_fits_beam *b, const msi_fits_handle *h, const char *path)
{
    static const char *const of_dish[2][4] = {{"X", "L", "AZ", NULL}, {"Y", "M", "EL", NULL}};
    for (int k = 0; k < 2; k++) {
        msi_axis_cards a;
        MSI_TRY(msi_fits_get_axis(h->f, path, k + 1, &a));
        const char *sky = k ? "DEC--" : "RA---";
        double scale;
        int is_of_dish = 0;
        for (int i = 0; of_dish[k][i]; i++) is_of_dish |= strcmp(a.ctype, of_dish[k][i]) == 0;
        const int on_sky = strncmp(a.ctype, sky, 5) == 0;
        if ((!is_of_dish && !on_sky) || (k && on_sky != b->on_sky))
            return msi_error_set(
                MSI_EINPUT,
                "%s: CTYPE%d is '%s'; a beam has RA---SIN and DEC--SIN (fixed on the sky), or X and Y, L "
                "and M, or AZ and EL (fixed to the dish)",
                path, k + 1, a.ctype);
        MSI_TRY(msi_fits_axis_factor(&a, path, k + 1, 1, &scale));
        if (a.cdelt == 0 || !isfinite(a.cdelt) || !isfinite(a.crpix))
            return msi_error_set(MSI_EINPUT, "%s: CDELT%d is %g; pixels must have a size", path, k + 1, a.cdelt);
        b->on_sky = on_sky;
        b->is_sin = on_sky && strcmp(a.ctype + 5, "SIN") == 0;
        b->centre[k] = a.crpix - 1;
        /* An axis of a dish may be counted from another value than 0 at its reference pixel. */
        if (!on_sky) b->centre[k] -= a.crval / a.cdelt;
        b->step_rad[k] = a.cdelt * scale * RAD_PER_DEG;
    }
    return MSI_OK;
}

/* Read the frequencies of the planes: GFREQ1, GFREQ2 .., or those of the axis FREQ. */
static int read_frequencies(msi_fits_beam *b, const msi_fits_handle *h, const char *path, int n_axis,
                            const LONGLONG *axis)
{
    msi_axis_cards a = {.cdelt = 0};
    int freq_axis = -1;
    for (int k = 2; k < n_axis; k++) {
        MSI_TRY(msi_fits_get_axis(h->f, path, k + 1, &a));
        if (strcmp(a.ctype, "FREQ") == 0) {
            freq_axis = k;
            break;
        }
    }
    if (freq_axis < 0) return msi_error_set(MSI_EINPUT, "%s: a beam needs an axis FREQ; it has none", path);
    for (int k = 2; k < n_axis; k++)
        if (k != freq_axis && axis[k] != 1)
            return msi_error_set(MSI_EINPUT, "%s: NAXIS%d is %lld; apart from FREQ it must be 1", path, k + 1,
                                 (long long)axis[k]);
    double scale;
    MSI_TRY(msi_fits_axis_factor(&a, path, freq_axis + 1, 0, &scale));
    b->n_freq = axis[freq_axis];
    MSI_TRY(msi_alloc(&b->freq_hz, b->n_freq, sizeof *b->freq_hz, path));
    for (int64_t i = 0; i < b->n_freq; i++) {
        char key[32];
        snprintf(key, sizeof key, "GFREQ%lld", (long long)i + 1);
        const double of_axis = (a.crval + ((double)(i + 1) - a.crpix) * a.cdelt) * scale;
        MSI_TRY(msi_fits_get_number(h->f, path, key, of_axis, &b->freq_hz[i]));
        if (!(b->freq_hz[i] > 0) || (i && !(b->freq_hz[i] > b->freq_hz[i - 1])))
            return msi_error_set(MSI_EINPUT, "%s: plane %lld is at %g Hz; frequencies must be positive and ascend",
                                 path, (long long)i + 1, b->freq_hz[i]);
    }
    b->width_hz = fabs(a.cdelt * scale);
    return MSI_OK;
}

static int read_beam(msi_fits_beam *b, msi_fits_handle *h, const char *path)
{
    LONGLONG axis[MSI_FITS_MAX_AXES];
    int n_axis, bitpix;
    MSI_TRY(msi_fits_find_image(h, path, &n_axis, axis, &bitpix));
    MSI_TRY(msi_fits_check_size(h, path, n_axis, axis, bitpix));
    MSI_TRY(read_directions(b, h, path));
    MSI_TRY(read_frequencies(b, h, path, n_axis, axis));
    b->nx = axis[0];
    b->ny = axis[1];
    const int64_t n = b->nx * b->ny;
    if (b->nx < 4 || b->ny < 4)
        return msi_error_set(MSI_EINPUT, "%s: a beam of %lld x %lld pixels; give at least 4 x 4", path,
                             (long long)b->nx, (long long)b->ny);
    MSI_TRY(msi_alloc(&b->pixel, n * b->n_freq, sizeof *b->pixel, path));
    for (int64_t i = 0; i < b->n_freq; i++) {
        int status = 0;
        MSI_TRY(msi_interrupt_check());
        fits_read_img(h->f, TFLOAT, i * n + 1, n, NULL, b->pixel + i * n, NULL, &status);
        if (status) return msi_fits_failed(path, status, "reading pixels");
    }
    return MSI_OK;
}

int msi_fits_beam_read(msi_fits_beam *b, const char *path)
{
    msi_fits_handle h;
    *b = (msi_fits_beam){0};
    MSI_TRY(msi_fits_handle_open(&h, path));
    const int rc = read_beam(b, &h, path);
    msi_fits_handle_close(&h);
    if (rc) msi_fits_beam_free(b);
    return rc;
}

void msi_fits_beam_free(msi_fits_beam *b)
{
    msi_free(b->freq_hz);
    msi_free(b->pixel);
    *b = (msi_fits_beam){0};
}
