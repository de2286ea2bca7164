/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reads FITS images, in four ways:
 *   msi_fits_open, msi_fits_read  read images as this program writes them: a plain SIN projection, floating-point
 *                                 pixels. Other files are refused.
 *   msi_fits_view_read            reads one plane of any image. A card with an invalid value is ignored.
 *   msi_fits_beam_read            reads a primary beam: planes along FREQ, on the sky or fixed to the dish.
 *   msi_fits_screen_read          reads screens for each antenna, frequency and time.
 * Every number in a header is checked before it is used, because headers come from many programs.
 */
#include "io/fits/fits_image.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/fits/fits_cards.h"
#include "io/fits/sky_wcs.h"

static const double RAD_PER_DEG = MSI_PI / 180;

enum { CHUNK_PIXELS = 4 * 1024 * 1024 };

struct msi_fits_file {
    msi_fits_handle handle;
    int n_axis;
    LONGLONG axis[MSI_FITS_MAX_AXES];
    int freq_axis, pol_axis; /* counted from 0; -1: no such axis */
    msi_fits_header header;
    char path[];
};

/* Check that no card rotates or distorts the projection. */
static int check_plain(fitsfile *f, const char *path, double dec_deg)
{
    /* The default of LONPOLE is 180 degrees, but 0 at the north pole. LONPOLE = 0 turns the image by 180 degrees, so a
     * file centred on the pole must have the card. */
    const struct {
        const char *key;
        double absent, wanted;
    } cards[] = {{"PC1_1", 1, 1},
                 {"PC1_2", 0, 0},
                 {"PC2_1", 0, 0},
                 {"PC2_2", 1, 1},
                 {"CD1_2", 0, 0},
                 {"CD2_1", 0, 0},
                 {"PV2_1", 0, 0},
                 {"PV2_2", 0, 0},
                 {"CROTA1", 0, 0},
                 {"CROTA2", 0, 0},
                 {"LONPOLE", dec_deg >= 90 ? 0 : 180, 180}};
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
        double value;
        MSI_TRY(msi_fits_get_number(f, path, cards[i].key, cards[i].absent, &value));
        if (fabs(value - cards[i].wanted) > 1e-9)
            return msi_error_set(MSI_EINPUT,
                                 "%s: rotated or skewed projections are not supported: %s is %g, it must be %g", path,
                                 cards[i].key, value, cards[i].wanted);
    }
    return MSI_OK;
}

static int read_sky_axes(fitsfile *f, msi_fits_header *h, const char *path, const LONGLONG *axis)
{
    msi_axis_cards a[2];
    char radesys[FLEN_VALUE];
    double equinox, scale[2];
    for (int k = 0; k < 2; k++) MSI_TRY(msi_fits_get_axis(f, path, k + 1, &a[k]));
    msi_fits_get_text(f, "RADESYS", radesys);
    if (!radesys[0]) msi_fits_get_text(f, "RADECSYS", radesys);
    MSI_TRY(msi_fits_get_number(f, path, "EPOCH", 0, &equinox));
    MSI_TRY(msi_fits_get_number(f, path, "EQUINOX", equinox, &equinox));
    if (!msi_sky_wcs_frame(a[0].ctype, a[1].ctype, radesys, equinox, h->dir_frame))
        return msi_error_set(MSI_EINPUT, "%s: axes 1 and 2 are '%s' and '%s'; 'RA---SIN' and 'DEC--SIN' expected", path,
                             a[0].ctype, a[1].ctype);
    for (int k = 0; k < 2; k++) {
        MSI_TRY(msi_fits_axis_factor(&a[k], path, k + 1, 1, &scale[k]));
        h->reference[k] = a[k].crpix - 1;
    }
    if (!(a[0].cdelt < 0) || !(a[1].cdelt > 0))
        return msi_error_set(MSI_EINPUT, "%s: CDELT1 must be negative and CDELT2 positive, but they are %g and %g",
                             path, a[0].cdelt, a[1].cdelt);
    double dec_deg = a[1].crval * scale[1];
    if (fabs(dec_deg) > 90) return msi_error_set(MSI_EINPUT, "%s: CRVAL2 is %g, beyond the pole", path, a[1].crval);
    MSI_TRY(check_plain(f, path, dec_deg));
    h->ra_rad = a[0].crval * scale[0] * RAD_PER_DEG;
    h->dec_rad = dec_deg * RAD_PER_DEG;
    h->geometry = (msi_image_geometry){axis[0], axis[1], -a[0].cdelt * scale[0] * RAD_PER_DEG,
                                       a[1].cdelt * scale[1] * RAD_PER_DEG};
    return MSI_OK;
}

static int read_freq_axis(msi_fits_file *file, const msi_axis_cards *a)
{
    msi_fits_header *h = &file->header;
    const double scale = msi_fits_unit_factor(a->cunit, 0), first = a->crval + (1 - a->crpix) * a->cdelt,
                 last = first + (double)(h->n_freq - 1) * a->cdelt;
    h->freq_hz = first * scale;
    h->freq_step_hz = a->cdelt * scale;
    if (!(first * scale > 0) || !(last * scale > 0) || !isfinite((first + last) * scale + h->freq_step_hz))
        return msi_error_set(MSI_EINPUT, "%s: the frequency must be positive, but is %g %s", file->path,
                             first * scale > 0 ? last : first, a->cunit);
    return MSI_OK;
}

static int read_pol_axis(msi_fits_file *file, const msi_axis_cards *a, LONGLONG n)
{
    msi_fits_header *h = &file->header;
    if (n > MSI_FITS_MAX_POL)
        return msi_error_set(MSI_EINPUT, "%s: the STOKES axis has %lld planes, at most %d are supported", file->path,
                             (long long)n, MSI_FITS_MAX_POL);
    h->n_pol = (int)n;
    h->has_pol = 1;
    for (int i = 0; i < h->n_pol; i++) {
        double value = a->crval + (i + 1 - a->crpix) * a->cdelt;
        h->pol[i] = 0;
        for (int pol = MSI_POL_I; pol <= MSI_POL_YY; pol++)
            if (fabs(msi_fits_stokes((msi_pol)pol) - value) < 1e-6) h->pol[i] = (msi_pol)pol;
        if (!h->pol[i])
            return msi_error_set(MSI_EINPUT, "%s: value %g on the STOKES axis is not a polarisation", file->path,
                                 value);
    }
    return MSI_OK;
}

/* Read the axes of frequency and polarisation, in any order. Other axes must have one pixel. */
static int read_other_axes(msi_fits_file *file)
{
    msi_fits_header *h = &file->header;
    h->n_freq = h->n_pol = 1;
    h->pol[0] = MSI_POL_I;
    file->freq_axis = file->pol_axis = -1;
    for (int k = 2; k < file->n_axis; k++) {
        msi_axis_cards a;
        MSI_TRY(msi_fits_get_axis(file->handle.f, file->path, k + 1, &a));
        if (strcmp(a.ctype, "FREQ") == 0 && file->freq_axis < 0) {
            file->freq_axis = k;
            h->n_freq = file->axis[k];
            MSI_TRY(read_freq_axis(file, &a));
        } else if (strcmp(a.ctype, "STOKES") == 0 && file->pol_axis < 0) {
            file->pol_axis = k;
            MSI_TRY(read_pol_axis(file, &a, file->axis[k]));
        } else if (file->axis[k] != 1) {
            return msi_error_set(MSI_EINPUT,
                                 "%s: axis %d ('%s') has %lld planes; only FREQ and STOKES may have more than one",
                                 file->path, k + 1, a.ctype, (long long)file->axis[k]);
        }
    }
    return MSI_OK;
}

/*
 * Read the header card by card. The parser for whole headers in wcslib (7.12) writes beyond its buffers for some broken
 * headers, and the projections that are accepted here are simple enough without it.
 */
static int read_header(msi_fits_file *file)
{
    msi_fits_header *h = &file->header;
    const char *path = file->path;
    MSI_TRY(read_sky_axes(file->handle.f, h, path, file->axis));
    MSI_TRY(read_other_axes(file));
    double major, minor, pa, n_vis;
    MSI_TRY(msi_fits_get_number(file->handle.f, path, "BMAJ", 0, &major));
    MSI_TRY(msi_fits_get_number(file->handle.f, path, "BMIN", 0, &minor));
    MSI_TRY(msi_fits_get_number(file->handle.f, path, "BPA", 0, &pa));
    h->beam = (msi_beam){major * RAD_PER_DEG, minor * RAD_PER_DEG, pa * RAD_PER_DEG};
    MSI_TRY(msi_fits_get_number(file->handle.f, path, "WSCNVIS", -1, &n_vis));
    h->is_empty = n_vis == 0;
    msi_fits_get_text(file->handle.f, "BUNIT", h->unit);
    msi_fits_get_text(file->handle.f, "PBMODEL", h->primary_beam);
    char specsys[72];
    msi_fits_get_text(file->handle.f, "SPECSYS", specsys);
    snprintf(h->spec_frame, sizeof h->spec_frame, "%s", msi_fits_spec_frame(specsys));
    int bitpix = 0, status = 0;
    fits_get_img_type(file->handle.f, &bitpix, &status);
    h->precision = bitpix == FLOAT_IMG ? MSI_FP32 : MSI_FP64;
    return MSI_OK;
}

static int read_image(msi_fits_file *file, int single_plane)
{
    int bitpix = 0;
    MSI_TRY(msi_fits_find_image(&file->handle, file->path, &file->n_axis, file->axis, &bitpix));
    if (bitpix != FLOAT_IMG && bitpix != DOUBLE_IMG)
        return msi_error_set(MSI_EINPUT, "%s: BITPIX is %d; floating-point pixels (-32 or -64) expected", file->path,
                             bitpix);
    for (int k = 2; k < file->n_axis && single_plane; k++)
        if (file->axis[k] != 1)
            return msi_error_set(MSI_EINPUT, "%s: NAXIS%d is %lld; it must be 1 (a single plane)", file->path, k + 1,
                                 (long long)file->axis[k]);
    MSI_TRY(msi_fits_check_size(&file->handle, file->path, file->n_axis, file->axis, bitpix));
    return read_header(file);
}

static int open_file(msi_fits_file **out, const char *path, int single_plane)
{
    *out = NULL;
    msi_fits_file *file;
    const size_t length = strlen(path) + 1;
    MSI_TRY(msi_alloc(&file, 1, sizeof *file + length, path));
    memcpy(file->path, path, length);
    int rc = msi_fits_handle_open(&file->handle, path);
    if (!rc) rc = read_image(file, single_plane);
    if (rc)
        msi_fits_close(file);
    else
        *out = file;
    return rc;
}

int msi_fits_open(msi_fits_file **out, const char *path)
{
    return open_file(out, path, 0);
}

void msi_fits_close(msi_fits_file *file)
{
    if (!file) return;
    msi_fits_handle_close(&file->handle);
    msi_free(file);
}

const msi_fits_header *msi_fits_header_get(const msi_fits_file *file)
{
    return &file->header;
}

/* Return the number of pixels before plane (freq, pol). */
static int64_t plane_offset(const msi_fits_file *file, int64_t freq, int pol)
{
    int64_t stride = file->axis[0] * file->axis[1], offset = 0;
    for (int k = 2; k < file->n_axis; stride *= file->axis[k++]) {
        if (k == file->freq_axis) offset += freq * stride;
        if (k == file->pol_axis) offset += pol * stride;
    }
    return offset;
}

int msi_fits_read_plane(msi_fits_file *file, int64_t freq, int pol, msi_precision precision, void *pixel,
                        int64_t row_pixels)
{
    const int64_t nx = file->axis[0], ny = file->axis[1], at = plane_offset(file, freq, pol);
    const size_t size = (size_t)msi_image_pixel_bytes(precision);
    /* Read rows together if they are contiguous in memory. */
    const int64_t length = row_pixels == nx ? nx * ny : nx, chunk = length < CHUNK_PIXELS ? length : CHUNK_PIXELS;
    for (int64_t row = 0; row * length < nx * ny; row++)
        for (int64_t first = 0; first < length; first += chunk) {
            if (row % 64 == 0) MSI_TRY(msi_interrupt_check());
            msi_progress_at(row * length + first, nx * ny);
            int64_t n = length - first < chunk ? length - first : chunk;
            char *to = (char *)pixel + (size_t)(row * row_pixels + first) * size;
            int status = 0;
            fits_read_img(file->handle.f, precision == MSI_FP32 ? TFLOAT : TDOUBLE, at + row * length + first + 1, n,
                          NULL, to, NULL, &status);
            if (status) return msi_fits_failed(file->path, status, "reading pixels");
        }
    return MSI_OK;
}

/* Fail unless the reference pixel is the centre, as in images that this program writes. */
static int check_centred(const msi_fits_file *file)
{
    for (int k = 0; k < 2; k++)
        if (fabs(file->header.reference[k] - (double)(file->axis[k] / 2)) > 1e-6)
            return msi_error_set(MSI_EINPUT, "%s: CRPIX%d is %.9g; it must be the image centre, %lld", file->path,
                                 k + 1, file->header.reference[k] + 1, (long long)(file->axis[k] / 2 + 1));
    return MSI_OK;
}

int msi_fits_read(msi_fits_image *image, const char *path, msi_precision precision)
{
    memset(image, 0, sizeof *image);
    msi_fits_file *file;
    MSI_TRY(open_file(&file, path, 1));
    const msi_fits_header *h = &file->header;
    image->geometry = h->geometry;
    image->ra_rad = h->ra_rad;
    image->dec_rad = h->dec_rad;
    memcpy(image->dir_frame, h->dir_frame, sizeof image->dir_frame);
    image->freq_hz = h->freq_hz;
    image->bandwidth_hz = fabs(h->freq_step_hz);
    image->pol = h->pol[0];
    memcpy(image->unit, h->unit, sizeof image->unit);
    memcpy(image->primary_beam, h->primary_beam, sizeof image->primary_beam);
    image->beam = h->beam;
    image->precision = precision;
    const int64_t n_pixel = msi_image_n_pixel(&image->geometry);
    int rc = check_centred(file);
    if (!rc) rc = msi_alloc(&image->pixel, n_pixel, (size_t)msi_image_pixel_bytes(precision), path);
    if (!rc) rc = msi_fits_read_plane(file, 0, 0, precision, image->pixel, image->geometry.nx);
    for (int64_t k = 0; !rc && k < n_pixel; k++) {
        double v = msi_image_value(image->pixel, precision, k);
        image->n_nan += isnan(v) != 0;
        image->n_inf += isinf(v) != 0;
    }
    msi_fits_close(file);
    if (rc) msi_fits_image_free(image);
    return rc;
}

void msi_fits_image_free(msi_fits_image *image)
{
    msi_free(image->pixel);
    memset(image, 0, sizeof *image);
}

/* ---- A plane of any image ---- */

/* Return the number of a card; `absent` if there is no card or its value is invalid. */
static double number_or(fitsfile *f, const char *path, const char *key, double absent)
{
    double value;
    return msi_fits_get_number(f, path, key, absent, &value) == MSI_OK ? value : absent;
}

static void copy_text(fitsfile *f, const char *key, char text[72])
{
    char value[FLEN_VALUE];
    msi_fits_get_text(f, key, value);
    snprintf(text, 72, "%s", value);
}

static void read_view_axes(msi_fits_view *v, fitsfile *f, const char *path)
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

/* Read the matrix from the cards CD, which include the pixel size, or else from the cards PC. Without CD, CROTA2
 * overrides PC if it is not 0. */
static void read_view_matrix(msi_sky_cards *c, fitsfile *f, const char *path)
{
    const double none = -1e300;
    char key[FLEN_KEYWORD];
    int has_cd = 0;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            snprintf(key, sizeof key, "CD%d_%d", i + 1, k + 1);
            has_cd |= number_or(f, path, key, none) > none;
        }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            snprintf(key, sizeof key, has_cd ? "CD%d_%d" : "PC%d_%d", i + 1, k + 1);
            c->pc[i][k] = number_or(f, path, key, has_cd ? 0 : i == k);
        }
    for (int i = 0; i < 2 && has_cd; i++) c->cdelt_deg[i] = 1;
    const double turn = number_or(f, path, "CROTA2", 0) * MSI_PI / 180;
    if (has_cd || turn == 0) return;
    const double ratio = c->cdelt_deg[1] / c->cdelt_deg[0];
    c->pc[0][0] = c->pc[1][1] = cos(turn);
    c->pc[0][1] = -sin(turn) * ratio;
    c->pc[1][0] = sin(turn) / ratio;
}

static int read_view_sky(msi_fits_view *v, fitsfile *f, const char *path)
{
    msi_sky_cards c = {0};
    char text[72], key[FLEN_KEYWORD];
    for (int k = 0; k < 2; k++) {
        const double scale = msi_fits_unit_factor(v->cunit[k], 1);
        if (scale == 0 || strlen(v->ctype[k]) >= sizeof c.ctype[k]) return MSI_OK;
        strcpy(c.ctype[k], v->ctype[k]);
        c.crval_deg[k] = v->crval[k] * scale;
        snprintf(key, sizeof key, "CDELT%d", k + 1);
        c.cdelt_deg[k] = number_or(f, path, key, v->cdelt[k]) * scale;
        c.crpix[k] = v->crpix[k];
    }
    read_view_matrix(&c, f, path);
    /* Pixels of size 0 have no sky coordinates. */
    if (c.cdelt_deg[0] == 0 || c.cdelt_deg[1] == 0) return MSI_OK;
    c.lonpole_deg = number_or(f, path, "LONPOLE", NAN);
    c.latpole_deg = number_or(f, path, "LATPOLE", NAN);
    for (int axis = 1; axis <= 2; axis++)
        for (int m = 0; m < 20; m++) {
            snprintf(key, sizeof key, "PV%d_%d", axis, m);
            const double value = number_or(f, path, key, NAN);
            if (!isfinite(value)) continue;
            c.pv[c.n_pv].axis = axis;
            c.pv[c.n_pv].m = m;
            c.pv[c.n_pv++].value = value;
        }
    copy_text(f, "RADESYS", text);
    snprintf(c.radesys, sizeof c.radesys, "%.15s", text);
    c.equinox = number_or(f, path, "EQUINOX", number_or(f, path, "EPOCH", 0));
    MSI_TRY(msi_sky_wcs_from_cards(&v->wcs, &c));
    if (v->wcs) v->cell_rad = hypot(c.cdelt_deg[0] * c.pc[0][1], c.cdelt_deg[1] * c.pc[1][1]) * MSI_PI / 180;
    return MSI_OK;
}

/* Compute frequency and polarisation of the plane from its index. */
static void read_view_plane_axes(msi_fits_view *v, fitsfile *f, const char *path, int n_axis, const LONGLONG *axis)
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
            if (k == 2) v->n_freq = axis[k];
            v->bandwidth_hz = fabs(a.cdelt * msi_fits_unit_factor(a.cunit, 0));
        }
        for (int pol = MSI_POL_I; pol <= MSI_POL_YY && strcmp(a.ctype, "STOKES") == 0; pol++) {
            if (fabs(msi_fits_stokes((msi_pol)pol) - value) > 1e-6) continue;
            v->pol = (msi_pol)pol;
            v->has_pol = 1;
        }
    }
}

static int read_view_pixels(msi_fits_view *v, fitsfile *f, const char *path)
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
        if (status) return msi_fits_failed(path, status, "reading pixels");
    }
    return MSI_OK;
}

static int read_view_plane(msi_fits_view *v, const msi_fits_handle *h, const char *path)
{
    LONGLONG axis[MSI_FITS_MAX_AXES];
    int n_axis, bitpix;
    MSI_TRY(msi_fits_find_image(h, path, &n_axis, axis, &bitpix));
    MSI_TRY(msi_fits_check_size(h, path, n_axis, axis, bitpix));
    v->nx = axis[0];
    v->ny = axis[1];
    v->n_plane = v->n_freq = 1;
    v->rest_freq_hz = fmax(0, number_or(h->f, path, "RESTFRQ", 0));
    for (int k = 2; k < n_axis; k++) v->n_plane *= axis[k]; /* does not overflow: at most the bytes of the file */
    if (v->plane >= v->n_plane)
        return msi_error_set(MSI_EARGUMENT, "%s: has no plane %lld; it has %lld, counted from 0", path,
                             (long long)v->plane, (long long)v->n_plane);
    char specsys[72];
    copy_text(h->f, "SPECSYS", specsys);
    snprintf(v->spec_frame, sizeof v->spec_frame, "%s", msi_fits_spec_frame(specsys));
    v->pointing_deg[0] = number_or(h->f, path, "OBSRA", NAN);
    v->pointing_deg[1] = number_or(h->f, path, "OBSDEC", NAN);
    copy_text(h->f, "OBJECT", v->object);
    copy_text(h->f, "TELESCOP", v->telescope);
    copy_text(h->f, "BTYPE", v->type);
    copy_text(h->f, "BUNIT", v->unit);
    v->beam =
        (msi_beam){number_or(h->f, path, "BMAJ", 0) * MSI_PI / 180, number_or(h->f, path, "BMIN", 0) * MSI_PI / 180,
                   number_or(h->f, path, "BPA", 0) * MSI_PI / 180};
    read_view_axes(v, h->f, path);
    MSI_TRY(read_view_sky(v, h->f, path));
    const int is_header = v->plane < 0;
    if (is_header) v->plane = 0;
    read_view_plane_axes(v, h->f, path, n_axis, axis);
    return is_header ? MSI_OK : read_view_pixels(v, h->f, path);
}

int msi_fits_view_read(msi_fits_view *view, const char *path, int64_t plane)
{
    msi_fits_handle h;
    *view = (msi_fits_view){.plane = plane};
    MSI_TRY(msi_fits_handle_open(&h, path));
    const int rc = read_view_plane(view, &h, path);
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

/* ---- The beams of a cube ---- */

/* Read a column of the table BEAMS, as angles in radians. */
static int read_beam_column(fitsfile *f, const char *path, const char *name, int64_t n, double *value)
{
    int column, status = 0;
    char key[FLEN_KEYWORD], unit[FLEN_VALUE], text[16];
    snprintf(text, sizeof text, "%s", name);
    if (fits_get_colnum(f, CASEINSEN, text, &column, &status)) return msi_fits_failed(path, status, "reading BEAMS");
    snprintf(key, sizeof key, "TUNIT%d", column);
    msi_fits_get_text(f, key, unit);
    const double degrees = msi_fits_unit_factor(unit, 1);
    if (degrees == 0) return msi_error_set(MSI_EINPUT, "%s: BEAMS: %s has the unknown unit %s", path, name, unit);
    fits_read_col(f, TDOUBLE, column, 1, 1, n, NULL, value, NULL, &status);
    if (status) return msi_fits_failed(path, status, "reading BEAMS");
    for (int64_t i = 0; i < n; i++) value[i] *= degrees * RAD_PER_DEG;
    return MSI_OK;
}

static int read_beam_table(fitsfile *f, const char *path, int64_t n, msi_beam *beam)
{
    static const char *const names[] = {"BMAJ", "BMIN", "BPA"};
    double *value;
    MSI_TRY(msi_alloc(&value, n, sizeof *value, "beams"));
    int rc = MSI_OK;
    for (int k = 0; k < 3 && !rc; k++) {
        rc = read_beam_column(f, path, names[k], n, value);
        for (int64_t i = 0; i < n && !rc; i++)
            *(k == 0   ? &beam[i].major_rad
              : k == 1 ? &beam[i].minor_rad
                       : &beam[i].pa_rad) = isfinite(value[i]) ? value[i] : 0;
    }
    msi_free(value);
    return rc;
}

int msi_fits_view_beams(msi_beam *beam, int64_t n, const char *path)
{
    msi_fits_handle h;
    msi_fits_view v;
    LONGLONG rows = 0;
    int status = 0;
    char table[] = "BEAMS";
    MSI_TRY(msi_fits_view_read(&v, path, -1));
    for (int64_t i = 0; i < n; i++) beam[i] = msi_beam_known(&v.beam) ? v.beam : (msi_beam){0};
    msi_fits_view_free(&v);
    MSI_TRY(msi_fits_handle_open(&h, path));
    fits_movnam_hdu(h.f, BINARY_TBL, table, 0, &status);
    fits_get_num_rowsll(h.f, &rows, &status);
    fits_clear_errmsg();
    const int rc = status || rows != n ? MSI_OK : read_beam_table(h.f, path, n, beam);
    msi_fits_handle_close(&h);
    return rc;
}

/* ---- Primary beams ---- */

/* Read the first two axes, which are directions on the sky or relative to the dish. */
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
        /* An axis fixed to the dish may have a value other than 0 at its reference pixel. */
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
    if (freq_axis < 0)
        return msi_error_set(MSI_EINPUT, "%s: has no axis FREQ; give a beam with the frequencies of its planes", path);
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

/* ---- Screens ---- */

/* The axes of planes, from the fastest to the slowest in memory. */
enum { MATRIX, ANTENNA, FREQ, TIME, N_KIND };
static const char *const kind_name[N_KIND] = {"MATRIX", "ANTENNA", "FREQ", "TIME"};

static int read_screen_directions(msi_fits_screen *s, const msi_fits_handle *h, const char *path)
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

/* Read the axes after the first two. Returned: kind [n_axis]  MATRIX .. TIME, from element 2 on; -1 for another axis,
 * which has one pixel */
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
        if (found >> kind[k] & 1)
            return msi_error_set(MSI_EINPUT, "%s: has two axes %s; a screen has one", path, kind_name[kind[k]]);
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

/* Read the pixels plane by plane, in the order of the file. */
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
                return msi_error_set(
                    MSI_EINPUT, "%s: pixel (%lld, %lld) of plane %lld is %g; pixels of a screen must be finite", path,
                    (long long)(i % s->nx), (long long)(i / s->nx), (long long)p, (double)pixel[i]);
    }
    return MSI_OK;
}

/* Read a screen. Given: only_axes  1: do not read the pixels */
static int read_screen(msi_fits_screen *s, const msi_fits_handle *h, const char *path, int only_axes)
{
    LONGLONG axis[MSI_FITS_MAX_AXES];
    int n_axis, bitpix, kind[MSI_FITS_MAX_AXES] = {0};
    MSI_TRY(msi_fits_find_image(h, path, &n_axis, axis, &bitpix));
    MSI_TRY(msi_fits_check_size(h, path, n_axis, axis, bitpix));
    MSI_TRY(read_screen_directions(s, h, path));
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
