/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/fits_like.h"

#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "io/fits/fits_cards.h"
#include "io/fits/fits_header.h"

/* Cards that say how pixels are stored, what they are checked by, and what is said anew. */
static int is_left_out(const char *card)
{
    static const char *const own[] = {"BMAJ    ", "BMIN    ", "BPA     ", "ORIGIN  ",
                                      "DATE    ", "BTYPE   ", "CASAMBM "};
    const int class = fits_get_keyclass((char *)card);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strncmp(card, own[i], 8) == 0) return 1;
    return class == TYP_STRUC_KEY || class == TYP_CMPRS_KEY || class == TYP_SCAL_KEY || class == TYP_NULL_KEY ||
           class == TYP_RANG_KEY || class == TYP_UNIT_KEY || class == TYP_CKSUM_KEY || class == TYP_DIM_KEY ||
           strncmp(card, "BUNIT   ", 8) == 0 || strncmp(card, "END     ", 8) == 0;
}

static void copy_cards(fitsfile *to, fitsfile *from, int *status)
{
    int n = 0;
    fits_get_hdrspace(from, &n, NULL, status);
    for (int i = 1; i <= n && !*status; i++) {
        char card[FLEN_CARD];
        fits_read_record(from, i, card, status);
        if (!*status && !is_left_out(card)) fits_write_record(to, card, status);
    }
}

static void put_own(fitsfile *f, const msi_fits_change *change, int *status)
{
    const double deg = 180 / MSI_PI;
    msi_fits_put_string(f, "BUNIT", change->unit, "Unit of the pixels", status);
    msi_fits_put_string(f, "BTYPE", "Intensity", NULL, status);
    msi_fits_put_number(f, "BMAJ", change->beam.major_rad * deg, "[deg] Beam's major axis, FWHM", status);
    msi_fits_put_number(f, "BMIN", change->beam.minor_rad * deg, "[deg] Beam's minor axis, FWHM", status);
    msi_fits_put_number(f, "BPA", change->beam.pa_rad * deg, "[deg] Beam's angle, north through east", status);
    msi_fits_put_string(f, "ORIGIN", "msimage " MSIMAGE_VERSION, "The program that wrote this file", status);
    if (!*status) fits_write_date(f, status);
    msi_fits_put_history(f, change->command_line, status);
}

/* Make the header in memory, of a file that never exists. Returns a status of cfitsio. */
static int make_header(const msi_fits_handle *from, int n_axis, LONGLONG *axis, const msi_fits_change *change,
                       char **header, size_t *size)
{
    fitsfile *f = NULL;
    void *memory = NULL;
    size_t memory_size = 0;
    int status = 0;
    if (fits_create_memfile(&f, &memory, &memory_size, 2880, realloc, &status)) return status;
    fits_create_imgll(f, FLOAT_IMG, n_axis, axis, &status);
    copy_cards(f, from->f, &status);
    put_own(f, change, &status);
    status = msi_fits_header_text(f, header, size, status);
    msi_fits_close_header(f, &memory);
    return status;
}

static int write_all(msi_publish *p, int i, const char *header, size_t size, int64_t n_pixel, const float *pixel)
{
    int fd;
    MSI_TRY(msi_publish_begin(p, i, &fd));
    MSI_TRY(msi_publish_write(p, i, header, size));
    MSI_TRY(msi_fits_write_pixels(p, i, (int64_t)size, n_pixel, pixel, MSI_FP32));
    return msi_publish_seal(p, i);
}

int msi_fits_write_like(msi_publish *p, int i, const char *path, const msi_fits_change *change, const float *pixel)
{
    msi_fits_handle h;
    LONGLONG axis[MSI_FITS_MAX_AXES];
    char *header = NULL;
    size_t size = 0;
    int n_axis = 0, bitpix;
    int64_t n_pixel = 1;
    MSI_TRY(msi_fits_handle_open(&h, path));
    int rc = msi_fits_find_image(&h, path, &n_axis, axis, &bitpix);
    const int status = rc ? 0 : make_header(&h, n_axis, axis, change, &header, &size);
    if (status) rc = msi_fits_failed(path, status, "while its header is copied");
    msi_fits_handle_close(&h);
    for (int k = 0; k < n_axis; k++) n_pixel *= axis[k];
    if (!rc) rc = write_all(p, i, header, size, n_pixel, pixel);
    free(header);
    return rc;
}
