/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reading half of io/fits_image.h: every number of a header is doubted before it is used. */
#include "io/fits_image.h"

#include <errno.h>
#include <fcntl.h>
#include <fitsio.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/interrupt.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/sky_wcs.h"

static const double RAD_PER_DEG = MSI_PI / 180;

enum { MAX_AXES = 16, CHUNK_PIXELS = 4 * 1024 * 1024 };

static int cfitsio_failed(const char *path, int status, const char *doing)
{
    char text[FLEN_STATUS];
    fits_get_errstatus(status, text);
    if (status == MEMORY_ALLOCATION) return msi_error_set(MSI_ENOMEM, "%s: no memory %s", path, doing);
    return msi_error_set(MSI_EINPUT, "%s: fails %s: %s", path, doing, text);
}

/* Go to the HDU with the image, and see that it is one whose every pixel is in the file. */
static int find_image(fitsfile *f, const char *path, int64_t file_size, int *n_axis, LONGLONG *axis)
{
    int status = 0, type = 0, bitpix = 0;
    fits_get_hdu_type(f, &type, &status);
    fits_get_img_dim(f, n_axis, &status);
    if (!status && *n_axis == 0) {
        fits_movabs_hdu(f, 2, &type, &status);
        if (status == END_OF_FILE || (!status && type == BINARY_TBL && !fits_is_compressed_image(f, &status)))
            return msi_error_set(MSI_EINPUT, "%s: holds no image", path);
        if (!status) fits_get_img_dim(f, n_axis, &status);
    }
    if (status) return cfitsio_failed(path, status, "while its image is looked for");
    if (fits_is_compressed_image(f, &status))
        return msi_error_set(MSI_EINPUT, "%s: a compressed image; unpack it first (funpack)", path);
    if (type != IMAGE_HDU) return msi_error_set(MSI_EINPUT, "%s: holds no image", path);
    if (*n_axis < 2 || *n_axis > MAX_AXES)
        return msi_error_set(MSI_EINPUT, "%s: NAXIS is %d; an image has 2 to %d axes", path, *n_axis, MAX_AXES);
    fits_get_img_type(f, &bitpix, &status);
    fits_get_img_sizell(f, MAX_AXES, axis, &status);
    LONGLONG header_start = 0, data_start = 0, data_end = 0;
    fits_get_hduaddrll(f, &header_start, &data_start, &data_end, &status);
    if (status) return cfitsio_failed(path, status, "while its image's size is read");
    if (bitpix != FLOAT_IMG && bitpix != DOUBLE_IMG)
        return msi_error_set(MSI_EINPUT, "%s: BITPIX is %d; floating-point pixels (-32 or -64) expected", path, bitpix);
    int64_t bytes = -bitpix / 8;
    for (int k = 0; k < *n_axis; k++) {
        if (axis[k] < 1 || (k >= 2 && axis[k] != 1))
            return msi_error_set(MSI_EINPUT, "%s: NAXIS%d is %lld; %s expected", path, k + 1, (long long)axis[k],
                                 k < 2 ? "a positive number" : "a single plane, 1,");
        if (__builtin_mul_overflow(bytes, (int64_t)axis[k], &bytes)) bytes = INT64_MAX;
    }
    if (data_start < 0 || data_start > file_size || bytes > file_size - data_start)
        return msi_error_set(MSI_EINPUT,
                             "%s: truncated or corrupt: an image of %lld x %lld pixels, but %lld bytes in all", path,
                             (long long)axis[0], (long long)axis[1], (long long)file_size);
    return MSI_OK;
}

/* A card's number: `absent` without the card, MSI_EINPUT where it is none. */
static int get_number(fitsfile *f, const char *path, const char *key, double absent, double *value)
{
    int status = 0;
    *value = absent;
    if (fits_read_key(f, TDOUBLE, key, value, NULL, &status) == 0) {
        if (isfinite(*value)) return MSI_OK;
        return msi_error_set(MSI_EINPUT, "%s: %s is not finite", path, key);
    }
    *value = absent;
    if (status == KEY_NO_EXIST || status == VALUE_UNDEFINED) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: %s is not a number", path, key);
}

/* A card's text without trailing blanks, "" where there is none. */
static void get_text(fitsfile *f, const char *key, char text[FLEN_VALUE])
{
    int status = 0;
    if (fits_read_key(f, TSTRING, key, text, NULL, &status)) text[0] = 0;
    for (size_t n = strlen(text); n && text[n - 1] == ' ';) text[--n] = 0;
}

typedef struct axis_cards {
    char ctype[FLEN_VALUE], cunit[FLEN_VALUE];
    double crval, cdelt, crpix;
} axis_cards;

static int get_axis(fitsfile *f, const char *path, int n, axis_cards *a)
{
    char key[FLEN_KEYWORD];
    snprintf(key, sizeof key, "CTYPE%d", n);
    get_text(f, key, a->ctype);
    snprintf(key, sizeof key, "CUNIT%d", n);
    get_text(f, key, a->cunit);
    snprintf(key, sizeof key, "CRVAL%d", n);
    MSI_TRY(get_number(f, path, key, 0, &a->crval));
    snprintf(key, sizeof key, "CRPIX%d", n);
    MSI_TRY(get_number(f, path, key, 0, &a->crpix));
    snprintf(key, sizeof key, "CD%d_%d", n, n);
    MSI_TRY(get_number(f, path, key, 1, &a->cdelt));
    snprintf(key, sizeof key, "CDELT%d", n);
    return get_number(f, path, key, a->cdelt, &a->cdelt);
}

/* What a unit of angle is in degrees, or one of frequency in hertz; 0 for one not known. No unit is the standard one.
 */
static double unit_factor(const char *unit, int is_angle)
{
    static const struct {
        const char *name;
        int is_angle;
        double factor;
    } units[] = {{"", 0, 1},
                 {"Hz", 0, 1},
                 {"kHz", 0, 1e3},
                 {"MHz", 0, 1e6},
                 {"GHz", 0, 1e9},
                 {"", 1, 1},
                 {"deg", 1, 1},
                 {"degree", 1, 1},
                 {"degrees", 1, 1},
                 {"rad", 1, 180 / MSI_PI},
                 {"arcmin", 1, 1 / 60.0},
                 {"arcsec", 1, 1 / 3600.0},
                 {"mas", 1, 1 / 3.6e6}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (units[i].is_angle == is_angle && strcasecmp(unit, units[i].name) == 0) return units[i].factor;
    return 0;
}

/* Terms that would rotate or bend the plain projection must not be there. */
static int check_plain(fitsfile *f, const char *path, double dec_deg)
{
    /* Without LONPOLE the standard means 180 degrees, but 0 about the pole. */
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
        MSI_TRY(get_number(f, path, cards[i].key, cards[i].absent, &value));
        if (fabs(value - cards[i].wanted) > 1e-9)
            return msi_error_set(MSI_EINPUT, "%s: a rotated or slanted projection: %s is %g, not %g", path,
                                 cards[i].key, value, cards[i].wanted);
    }
    return MSI_OK;
}

static int read_sky(fitsfile *f, msi_fits_image *image, const char *path, const LONGLONG *axis)
{
    axis_cards a[2];
    char radesys[FLEN_VALUE];
    double equinox, scale[2];
    for (int k = 0; k < 2; k++) MSI_TRY(get_axis(f, path, k + 1, &a[k]));
    get_text(f, "RADESYS", radesys);
    if (!radesys[0]) get_text(f, "RADECSYS", radesys);
    MSI_TRY(get_number(f, path, "EPOCH", 0, &equinox));
    MSI_TRY(get_number(f, path, "EQUINOX", equinox, &equinox));
    if (!msi_sky_wcs_frame(a[0].ctype, a[1].ctype, radesys, equinox, image->dir_frame))
        return msi_error_set(MSI_EINPUT, "%s: axes 1 and 2 are '%s' and '%s'; 'RA---SIN' and 'DEC--SIN' expected", path,
                             a[0].ctype, a[1].ctype);
    for (int k = 0; k < 2; k++) {
        scale[k] = unit_factor(a[k].cunit, 1);
        if (scale[k] == 0)
            return msi_error_set(MSI_EINPUT, "%s: CUNIT%d '%s' is no unit known here", path, k + 1, a[k].cunit);
        if (fabs(a[k].crpix - (double)(axis[k] / 2 + 1)) > 1e-6)
            return msi_error_set(MSI_EINPUT, "%s: CRPIX%d is %.9g; the reference must be the centre, %lld", path, k + 1,
                                 a[k].crpix, (long long)(axis[k] / 2 + 1));
    }
    if (!(a[0].cdelt < 0) || !(a[1].cdelt > 0))
        return msi_error_set(MSI_EINPUT, "%s: CDELT1 %g must be negative and CDELT2 %g positive", path, a[0].cdelt,
                             a[1].cdelt);
    double dec_deg = a[1].crval * scale[1];
    if (fabs(dec_deg) > 90) return msi_error_set(MSI_EINPUT, "%s: CRVAL2 is %g, beyond the pole", path, a[1].crval);
    MSI_TRY(check_plain(f, path, dec_deg));
    image->ra_rad = a[0].crval * scale[0] * RAD_PER_DEG;
    image->dec_rad = dec_deg * RAD_PER_DEG;
    image->geometry = (msi_image_geometry){axis[0], axis[1], -a[0].cdelt * scale[0] * RAD_PER_DEG,
                                           a[1].cdelt * scale[1] * RAD_PER_DEG};
    return MSI_OK;
}

/* The axes of one pixel each: frequency and polarisation, in any order. */
static int read_other_axes(fitsfile *f, msi_fits_image *image, const char *path, int n_axis)
{
    image->pol = MSI_POL_I;
    for (int k = 3; k <= n_axis; k++) {
        axis_cards a;
        MSI_TRY(get_axis(f, path, k, &a));
        double value = a.crval + (1 - a.crpix) * a.cdelt;
        if (strcmp(a.ctype, "FREQ") == 0) {
            double scale = unit_factor(a.cunit, 0);
            image->freq_hz = value * scale;
            image->bandwidth_hz = fabs(a.cdelt) * scale;
            if (!(image->freq_hz > 0) || !isfinite(image->freq_hz + image->bandwidth_hz))
                return msi_error_set(MSI_EINPUT, "%s: the frequency is %g %s", path, value, a.cunit);
        } else if (strcmp(a.ctype, "STOKES") == 0) {
            image->pol = 0;
            for (int pol = MSI_POL_I; pol <= MSI_POL_YY; pol++)
                if (fabs(msi_fits_stokes((msi_pol)pol) - value) < 1e-6) image->pol = (msi_pol)pol;
            if (!image->pol)
                return msi_error_set(MSI_EINPUT, "%s: the Stokes axis is at %g, which is no polarisation", path, value);
        }
    }
    return MSI_OK;
}

/*
 * The header, card by card: wcslib's parser of whole headers writes beyond its buffers on some broken ones (7.12). The
 * plain projections accepted here are few enough to be recognised without it.
 */
static int read_header(fitsfile *f, msi_fits_image *image, const char *path, int n_axis, const LONGLONG *axis)
{
    MSI_TRY(read_sky(f, image, path, axis));
    MSI_TRY(read_other_axes(f, image, path, n_axis));
    double major, minor, pa;
    MSI_TRY(get_number(f, path, "BMAJ", 0, &major));
    MSI_TRY(get_number(f, path, "BMIN", 0, &minor));
    MSI_TRY(get_number(f, path, "BPA", 0, &pa));
    image->beam = (msi_beam){major * RAD_PER_DEG, minor * RAD_PER_DEG, pa * RAD_PER_DEG};
    get_text(f, "BUNIT", image->unit);
    return MSI_OK;
}

static int read_pixels(fitsfile *f, msi_fits_image *image, const char *path)
{
    int64_t n_pixel = msi_image_n_pixel(&image->geometry);
    size_t size = image->precision == MSI_FP32 ? sizeof(float) : sizeof(double);
    MSI_TRY(msi_alloc(&image->pixel, n_pixel, size, path));
    for (int64_t first = 0; first < n_pixel; first += CHUNK_PIXELS) {
        MSI_TRY(msi_interrupt_check());
        int64_t n = n_pixel - first < CHUNK_PIXELS ? n_pixel - first : CHUNK_PIXELS;
        char *to = (char *)image->pixel + (size_t)first * size;
        int status = 0;
        fits_read_img(f, image->precision == MSI_FP32 ? TFLOAT : TDOUBLE, first + 1, n, NULL, to, NULL, &status);
        if (status) return cfitsio_failed(path, status, "while its pixels are read");
        for (int64_t k = 0; k < n; k++) {
            double v = image->precision == MSI_FP32 ? ((float *)(void *)to)[k] : ((double *)(void *)to)[k];
            image->n_nan += isnan(v) != 0;
            image->n_inf += isinf(v) != 0;
        }
    }
    return MSI_OK;
}

int msi_fits_read(msi_fits_image *image, const char *path, msi_precision precision)
{
    memset(image, 0, sizeof *image);
    image->precision = precision;
    fitsfile *f = NULL;
    int rc = MSI_OK, status = 0, n_axis = 0;
    LONGLONG axis[MAX_AXES] = {0};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        rc = msi_error_set(MSI_EINPUT, "%s: not a plain file", path);
        goto out;
    }
    /* By descriptor: no character of the name can mean anything to cfitsio, nor can it be too long for it. */
    char by_descriptor[64];
    snprintf(by_descriptor, sizeof by_descriptor, "/proc/self/fd/%d", fd);
    if (fits_open_diskfile(&f, by_descriptor, READONLY, &status)) {
        f = NULL;
        rc = msi_error_set(MSI_EINPUT, "%s: not a FITS file", path);
        goto out;
    }
    if ((rc = find_image(f, path, st.st_size, &n_axis, axis))) goto out;
    if ((rc = read_header(f, image, path, n_axis, axis))) goto out;
    rc = read_pixels(f, image, path);
out:
    status = 0;
    if (f) fits_close_file(f, &status);
    fits_clear_errmsg();
    close(fd);
    if (rc) msi_fits_image_free(image);
    return rc;
}

void msi_fits_image_free(msi_fits_image *image)
{
    msi_free(image->pixel);
    memset(image, 0, sizeof *image);
}
