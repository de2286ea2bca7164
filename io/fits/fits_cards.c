/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/fits_cards.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status.h"

int msi_fits_failed(const char *path, int status, const char *doing)
{
    char text[FLEN_STATUS];
    fits_get_errstatus(status, text);
    if (status == MEMORY_ALLOCATION) return msi_error_set(MSI_ENOMEM, "%s: out of memory %s", path, doing);
    return msi_error_set(MSI_EINPUT, "%s: error %s: %s", path, doing, text);
}

int msi_fits_handle_open(msi_fits_handle *h, const char *path)
{
    struct stat st;
    int status = 0;
    *h = (msi_fits_handle){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (h->fd < 0) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    int rc = MSI_OK;
    unsigned char magic[2] = {0, 0};
    if (fstat(h->fd, &st) != 0 || !S_ISREG(st.st_mode)) rc = msi_error_set(MSI_EINPUT, "%s: not a regular file", path);
    if (!rc && pread(h->fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b)
        rc = msi_error_set(MSI_EINPUT, "%s: compressed file; unpack it first (gunzip)", path);
    /* Files in /proc have size 0, and reading one may block forever. */
    if (!rc && !st.st_size) rc = msi_error_set(MSI_EINPUT, "%s: not a FITS file: it is empty", path);
    /* Open the file through its descriptor, because cfitsio interprets some characters of names and limits their
     * length. */
    char by_descriptor[64];
    snprintf(by_descriptor, sizeof by_descriptor, "/proc/self/fd/%d", h->fd);
    if (!rc && fits_open_diskfile(&h->f, by_descriptor, READONLY, &status)) {
        h->f = NULL;
        rc = access(by_descriptor, F_OK) == 0
                 ? msi_error_set(MSI_EINPUT, "%s: not a FITS file", path)
                 : msi_error_set(MSI_EINPUT,
                                 "%s: cannot be opened: FITS files are opened through /proc, which is not mounted",
                                 path);
    }
    if (rc)
        msi_fits_handle_close(h);
    else
        h->bytes = st.st_size;
    return rc;
}

void msi_fits_handle_close(msi_fits_handle *h)
{
    int status = 0;
    if (h->f) fits_close_file(h->f, &status);
    fits_clear_errmsg();
    if (h->fd >= 0) close(h->fd);
    *h = (msi_fits_handle){.fd = -1};
}

int msi_fits_find_image(const msi_fits_handle *h, const char *path, int *n_axis, LONGLONG axis[MSI_FITS_MAX_AXES],
                        int *bitpix)
{
    int status = 0, type = 0;
    fitsfile *f = h->f;
    fits_get_hdu_type(f, &type, &status);
    fits_get_img_dim(f, n_axis, &status);
    if (!status && *n_axis == 0) {
        fits_movabs_hdu(f, 2, &type, &status);
        if (status == END_OF_FILE || (!status && type == BINARY_TBL && !fits_is_compressed_image(f, &status)))
            return msi_error_set(MSI_EINPUT, "%s: contains no image", path);
        if (!status) fits_get_img_dim(f, n_axis, &status);
    }
    if (status) return msi_fits_failed(path, status, "finding the image");
    if (fits_is_compressed_image(f, &status))
        return msi_error_set(MSI_EINPUT, "%s: compressed image; unpack it first (funpack)", path);
    if (type != IMAGE_HDU) return msi_error_set(MSI_EINPUT, "%s: contains no image", path);
    if (*n_axis < 2 || *n_axis > MSI_FITS_MAX_AXES)
        return msi_error_set(MSI_EINPUT, "%s: NAXIS is %d; it must be 2 to %d", path, *n_axis, MSI_FITS_MAX_AXES);
    fits_get_img_type(f, bitpix, &status);
    fits_get_img_sizell(f, MSI_FITS_MAX_AXES, axis, &status);
    if (status) return msi_fits_failed(path, status, "reading the size of the image");
    for (int k = 0; k < *n_axis; k++)
        if (axis[k] < 1)
            return msi_error_set(MSI_EINPUT, "%s: NAXIS%d is %lld; it must be positive", path, k + 1,
                                 (long long)axis[k]);
    return MSI_OK;
}

int msi_fits_check_size(const msi_fits_handle *h, const char *path, int n_axis, const LONGLONG *axis, int bitpix)
{
    LONGLONG header_start = 0, data_start = 0, data_end = 0;
    int status = 0;
    fits_get_hduaddrll(h->f, &header_start, &data_start, &data_end, &status);
    if (status) return msi_fits_failed(path, status, "reading the size of the image");
    int64_t bytes = abs(bitpix) / 8;
    for (int k = 0; k < n_axis; k++)
        if (__builtin_mul_overflow(bytes, (int64_t)axis[k], &bytes)) bytes = INT64_MAX;
    if (data_start < 0 || data_start > h->bytes || bytes > h->bytes - data_start)
        return msi_error_set(
            MSI_EINPUT,
            "%s: truncated or corrupt: the header describes %lld x %lld pixels, but the file has %lld bytes", path,
            (long long)axis[0], (long long)axis[1], (long long)h->bytes);
    return MSI_OK;
}

int msi_fits_get_number(fitsfile *f, const char *path, const char *key, double absent, double *value)
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

void msi_fits_get_text(fitsfile *f, const char *key, char text[FLEN_VALUE])
{
    int status = 0;
    if (fits_read_key(f, TSTRING, key, text, NULL, &status)) text[0] = 0;
    for (size_t n = strlen(text); n && text[n - 1] == ' ';) text[--n] = 0;
}

int msi_fits_get_axis(fitsfile *f, const char *path, int n, msi_axis_cards *a)
{
    char key[FLEN_KEYWORD];
    snprintf(key, sizeof key, "CTYPE%d", n);
    msi_fits_get_text(f, key, a->ctype);
    snprintf(key, sizeof key, "CUNIT%d", n);
    msi_fits_get_text(f, key, a->cunit);
    snprintf(key, sizeof key, "CRVAL%d", n);
    MSI_TRY(msi_fits_get_number(f, path, key, 0, &a->crval));
    snprintf(key, sizeof key, "CRPIX%d", n);
    MSI_TRY(msi_fits_get_number(f, path, key, 0, &a->crpix));
    snprintf(key, sizeof key, "CD%d_%d", n, n);
    MSI_TRY(msi_fits_get_number(f, path, key, 1, &a->cdelt));
    snprintf(key, sizeof key, "CDELT%d", n);
    return msi_fits_get_number(f, path, key, a->cdelt, &a->cdelt);
}

double msi_fits_unit_factor(const char *unit, int is_angle)
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

int msi_fits_axis_factor(const msi_axis_cards *a, const char *path, int n, int is_angle, double *factor)
{
    *factor = msi_fits_unit_factor(a->cunit, is_angle);
    if (*factor != 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: CUNIT%d is '%s', an unknown unit", path, n, a->cunit);
}
