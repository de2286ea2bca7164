/* SPDX-License-Identifier: GPL-3.0-or-later */
/* FITS files are read card by card, every number in doubt, for fits_read.c and fits_read.c alone. */
#ifndef MSI_IO_FITS_CARDS_H
#define MSI_IO_FITS_CARDS_H

#include <fitsio.h>

#include "core/types.h"

enum { MSI_FITS_MAX_AXES = 16 };

/* An open file; zero: none. */
typedef struct msi_fits_handle {
    fitsfile *f;
    int fd;
    int64_t bytes; /* of the file */
} msi_fits_handle;

/* The cards of one axis say this. */
typedef struct msi_axis_cards {
    char ctype[FLEN_VALUE], cunit[FLEN_VALUE];
    double crval, cdelt, crpix;
} msi_axis_cards;

/*
 * msi_fits_handle_open - open a plain file, whose name is taken literally.
 * Returned: *h  closed by msi_fits_handle_close; nothing is open after a failure
 * Returns:  0, MSI_EINPUT
 */
int msi_fits_handle_open(msi_fits_handle *h, const char *path);
void msi_fits_handle_close(msi_fits_handle *h);

/*
 * msi_fits_find_image - go to the first image of a file: the primary HDU, or the first extension where that is empty.
 * Returned: *n_axis 2 to MSI_FITS_MAX_AXES, axis [n_axis] positive, *bitpix
 * Returns:  0, MSI_EINPUT (no image, or a compressed one), MSI_ENOMEM
 */
int msi_fits_find_image(const msi_fits_handle *h, const char *path, int *n_axis, LONGLONG axis[MSI_FITS_MAX_AXES],
                        int *bitpix);

/* msi_fits_check_size - check that every pixel of what msi_fits_find_image found is there. Returns 0, MSI_EINPUT. */
int msi_fits_check_size(const msi_fits_handle *h, const char *path, int n_axis, const LONGLONG *axis, int bitpix);

/* msi_fits_get_number - read a card's number: `absent` without it. Returns 0, MSI_EINPUT (none, or not finite). */
int msi_fits_get_number(fitsfile *f, const char *path, const char *key, double absent, double *value);

/* msi_fits_get_text - read a card's text without trailing blanks, "" where there is none. */
void msi_fits_get_text(fitsfile *f, const char *key, char text[FLEN_VALUE]);

/* msi_fits_get_axis - read the cards of axis n, counted from 1. Returns 0, MSI_EINPUT. */
int msi_fits_get_axis(fitsfile *f, const char *path, int n, msi_axis_cards *a);

/* msi_fits_unit_factor - degrees (is_angle) or hertz in a unit; 0 for one not known. No unit is the standard's own. */
double msi_fits_unit_factor(const char *unit, int is_angle);

/* msi_fits_failed - return the status for one of cfitsio, with a message: "PATH: fails DOING: .." */
int msi_fits_failed(const char *path, int status, const char *doing);

#endif
