/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Primary beams of FITS files: a cube of power, or the Jones matrix as eight cubes, the real and imaginary parts of its
 * elements.
 */
#ifndef MSI_PB_FILE_H
#define MSI_PB_FILE_H

#include "src/pb/pb_model.h"

typedef struct msi_pb_file msi_pb_file;

/* msi_pb_file_is_word - return 1 if a word of -pb names files: FILE.fits, a pattern with $(..), or a configuration,
 * FILE.json (pb_config.h). msi_pb_file_is_config - return 1 if it names a
 * configuration. */
int msi_pb_file_is_word(const char *word);
int msi_pb_file_is_config(const char *word);

/*
 * msi_pb_file_read - read a beam.
 * Given:    word     FILE.fits: power; with $(corr) and $(reim) a pattern of eight files: corr is xx, xy, yx, yy, or rr, rl,
 *                    lr, ll; reim is re, im. Also $(xy); $(realimag): real, imag; names in capitals give capitals
 *           set      its channels and feeds
 * Returned: *out     freed by msi_pb_file_free; NULL on failure
 *           note     for the log
 * Returns:  0, MSI_EINPUT (no such files, or of the other feeds; without frequencies; does not cover the channels),
 *           MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_pb_file_read(msi_pb_file **out, const char *word, const msi_pb_set *set, char note[MSI_PB_NOTE]);
void msi_pb_file_free(msi_pb_file *f); /* NULL-safe */

msi_pb_mount msi_pb_file_mount(const msi_pb_file *f);

/* The same as the functions of msi_pb_model with these names. */
void msi_pb_file_jones(const msi_pb_file *f, double freq_hz, const msi_pb_direction *direction, msi_c64 jones[4]);
double msi_pb_file_width(const msi_pb_file *f, double freq_hz);
double msi_pb_file_limit(const msi_pb_file *f);

/* msi_pb_cubic - return the weights of four neighbouring nodes at 0 <= t < 1 between the inner two: Lagrange's cubic. */
void msi_pb_cubic(double t, double w[4]);

#endif
