/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Functions shared by the files of io/fits: opening of FITS files, reading of single cards, whose values are checked,
 * and parts of writing that images and cubes share. */
#ifndef MSI_IO_FITS_CARDS_H
#define MSI_IO_FITS_CARDS_H

#include <fitsio.h>
#include <stddef.h>

#include "core/types.h"
#include "io/fits/fits_image.h"

enum { MSI_FITS_MAX_AXES = 16 };

/* An open file. */
typedef struct msi_fits_handle {
    fitsfile *f;
    int fd;
    int64_t bytes; /* size of the file */
} msi_fits_handle;

/* The cards of one axis. */
typedef struct msi_axis_cards {
    char ctype[FLEN_VALUE], cunit[FLEN_VALUE];
    double crval, cdelt, crpix;
} msi_axis_cards;

/*
 * msi_fits_handle_open - open a regular file. No character of its name has a special meaning.
 * Returned: *h  closed by msi_fits_handle_close; after a failure it needs no closing
 * Returns:  0, MSI_EINPUT
 */
int msi_fits_handle_open(msi_fits_handle *h, const char *path);
void msi_fits_handle_close(msi_fits_handle *h);

/*
 * msi_fits_find_image - go to the first image of a file: the primary HDU, or the first extension if the primary HDU is
 * empty.
 * Returned: *n_axis 2 to MSI_FITS_MAX_AXES, axis [n_axis] positive, *bitpix
 * Returns:  0, MSI_EINPUT (no image, or a compressed one), MSI_ENOMEM
 */
int msi_fits_find_image(const msi_fits_handle *h, const char *path, int *n_axis, LONGLONG axis[MSI_FITS_MAX_AXES],
                        int *bitpix);

/* msi_fits_check_size - check that the file is long enough for the pixels of the image that msi_fits_find_image found.
 * Returns 0, MSI_EINPUT. */
int msi_fits_check_size(const msi_fits_handle *h, const char *path, int n_axis, const LONGLONG *axis, int bitpix);

/* msi_fits_get_number - read the number of a card, or set *value = absent if there is no such card. Returns 0,
 * MSI_EINPUT (not a number, or not finite). */
int msi_fits_get_number(fitsfile *f, const char *path, const char *key, double absent, double *value);

/* msi_fits_get_text - read the text of a card without trailing blanks; "" without the card. */
void msi_fits_get_text(fitsfile *f, const char *key, char text[FLEN_VALUE]);

/* msi_fits_get_axis - read the cards of axis n, counted from 1. Returns 0, MSI_EINPUT. */
int msi_fits_get_axis(fitsfile *f, const char *path, int n, msi_axis_cards *a);

/* msi_fits_unit_factor - return the size of a unit in degrees (is_angle) or hertz; 0 if the unit is unknown. "" means
 * degrees or hertz, as in the FITS standard. */
double msi_fits_unit_factor(const char *unit, int is_angle);

/* msi_fits_axis_factor - as msi_fits_unit_factor, for the unit of axis n. Returns 0, MSI_EINPUT (an unknown unit). */
int msi_fits_axis_factor(const msi_axis_cards *a, const char *path, int n, int is_angle, double *factor);

/* msi_fits_failed - convert a status of cfitsio to a code, and set the message "PATH: error DOING: ..". An example of
 * `doing` is "reading pixels". Returns MSI_EINPUT, MSI_ENOMEM. */
int msi_fits_failed(const char *path, int status, const char *doing);

/* ---- Writing ---- */

/*
 * msi_fits_make_header - make the header of output i, padded to whole blocks. Several threads may call it.
 * Given:    least  smallest size in bytes, a multiple of a block; a shorter header is filled with blank cards
 * Returned: *header  freed by free; NULL on failure. *size in bytes
 * Returns:  0, MSI_ERANGE (impossible coordinates), MSI_ENOMEM, MSI_EINTERNAL
 */
int msi_fits_make_header(const msi_publish *p, int i, const msi_fits_spec *spec, size_t least, char **header,
                         size_t *size);

/*
 * msi_fits_write_pixels - write pixels to output i from byte `at` on, as big-endian float32.
 * Returns: 0, MSI_EOUTPUT, MSI_EINTERRUPTED
 */
int msi_fits_write_pixels(const msi_publish *p, int i, int64_t at, int64_t n_pixel, const void *pixel,
                          msi_precision precision);

/* msi_fits_write_padding - write zeros from byte `end` to the end of its block. Returns: 0, MSI_EOUTPUT */
int msi_fits_write_padding(const msi_publish *p, int i, int64_t end);

/*
 * msi_fits_write_beams - write the beams of a cube's planes as the table BEAMS, which begins at byte `at`.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_fits_write_beams(const msi_publish *p, int i, int64_t at, const msi_fits_cube *cube);

/* msi_fits_spec_frame - return the frame of frequencies, as in msi_observation, of a value of SPECSYS; "" if it is
 * unknown. */
const char *msi_fits_spec_frame(const char *specsys);

#endif
