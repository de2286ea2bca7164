/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Headers are written card by card, and pixels behind them, for the files of this room that write FITS. */
#ifndef MSI_IO_FITS_HEADER_H
#define MSI_IO_FITS_HEADER_H

#include <fitsio.h>

#include "core/types.h"
#include "io/fits/publish.h"

/* Cards at the end of a header that cfitsio makes in memory; *status is cfitsio's, and none is written after a failure.
 * Texts may be of any characters; those that cards cannot hold are written as \xNN. */

/* msi_fits_put_string - put a card, nothing for an empty text, or NULL. */
void msi_fits_put_string(fitsfile *f, const char *key, const char *value, const char *comment, int *status);

/* msi_fits_put_number - put a card, nothing for what is not finite. */
void msi_fits_put_number(fitsfile *f, const char *key, double value, const char *comment, int *status);

/* msi_fits_put_history - write as many cards as the text needs; joined together they are the text again. */
void msi_fits_put_history(fitsfile *f, const char *text, int *status);

/*
 * msi_fits_header_text - give the header as it stands in a file, padded to whole blocks.
 * Given:    status  of cfitsio; nothing is done after a failure
 * Returned: *header  freed by free; *size in bytes
 * Returns:  a status of cfitsio
 */
int msi_fits_header_text(fitsfile *f, char **header, size_t *size, int status);

/* msi_fits_close_header - close a file of fits_create_memfile whose header alone was wanted, and free its memory. */
void msi_fits_close_header(fitsfile *f, void **memory);

/*
 * msi_fits_write_pixels - write pixels of output i, from byte `at` of it on, as big-endian float32, padded with zeros
 * to whole blocks; by the calling thread's threads of OpenMP where there are many.
 * Returns: 0, MSI_EOUTPUT, MSI_EINTERRUPTED
 */
int msi_fits_write_pixels(const msi_publish *p, int i, int64_t at, int64_t n_pixel, const void *pixel,
                          msi_precision precision);

#endif
