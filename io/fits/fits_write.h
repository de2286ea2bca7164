/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Parts of writing FITS images that images and cubes share. Used only inside io/fits. */
#ifndef MSI_IO_FITS_WRITE_H
#define MSI_IO_FITS_WRITE_H

#include <stddef.h>

#include "io/fits/fits_image.h"

/*
 * msi_fits_make_header - make the header of output i, padded to whole blocks; several threads may.
 * Given:    least  bytes, whole blocks: a shorter header gets blank cards
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
