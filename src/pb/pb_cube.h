/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Jones matrices of stations on the sky, by antenna, frequency and time: a FITS file with the axes of screens
 * (fits_image.h), whose axis MATRIX has the real and imaginary parts of XX, XY, YX and YY. Values are cubic between
 * pixels, and linear in frequency and time.
 */
#ifndef MSI_PB_CUBE_H
#define MSI_PB_CUBE_H

#include "src/pb/pb_model.h"

typedef struct msi_pb_cube msi_pb_cube;

/* msi_pb_cube_antennas - return the number of antennas of a file with an axis MATRIX; 0: it has none, or cannot be read. */
int64_t msi_pb_cube_antennas(const char *path);

/*
 * msi_pb_cube_read - read a file.
 * Given:    set    its antennas, channels and times
 * Returned: *out   freed by msi_pb_cube_free; NULL on failure
 *           note   for the log
 * Returns:  0, MSI_EINPUT (no such file; of other antennas; does not cover the channels or times; circular feeds),
 *           MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_pb_cube_read(msi_pb_cube **out, const char *path, const msi_pb_set *set, char note[MSI_PB_NOTE]);
void msi_pb_cube_free(msi_pb_cube *c); /* NULL-safe */

/* msi_pb_cube_has_stations - return 1 if each antenna has a separate matrix. */
int msi_pb_cube_has_stations(const msi_pb_cube *c);

/* msi_pb_cube_width - return the full width at half power of the first antenna about the middle of the file, at most a
 * quarter of the file. */
double msi_pb_cube_width(const msi_pb_cube *c, double freq_hz);

/* msi_pb_cube_covers - return 1 if a file has a direction. Given: sky  unit vector */
int msi_pb_cube_covers(const msi_pb_cube *c, const double *sky);

/*
 * msi_pb_cube_jones - find a matrix.
 * Given:    direction  sky and mjd_s
 * Returned: jones      rows feed X, Y, columns north and east; 0 outside of the file
 */
void msi_pb_cube_jones(const msi_pb_cube *c, int antenna, double freq_hz, const msi_pb_direction *direction,
                       msi_c64 jones[4]);

#endif
