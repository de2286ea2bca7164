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
 * FILE.json. msi_pb_file_is_config - return 1 if it names a configuration. */
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

/* As the functions msi_pb_model_jones .. of the whole model (pb_model.h). */
void msi_pb_file_jones(const msi_pb_file *f, double freq_hz, const msi_pb_direction *direction, msi_c64 jones[4]);
double msi_pb_file_width(const msi_pb_file *f, double freq_hz);
double msi_pb_file_limit(const msi_pb_file *f);

/* msi_pb_cubic - return the weights of four neighbouring nodes at 0 <= t < 1 between the inner two: Lagrange's cubic. */
void msi_pb_cubic(double t, double w[4]);

/*
 * Beams of several types of stations: a JSON file as DDFacet and Cattery read it,
 *
 *     {"lband": {"patterns": {"cmd::default": ["$(stype)_$(corr)_$(reim).fits"], "ska": [..]},
 *                "define-stationtypes": {"cmd::default": "meerkat", "~ska[0-9]{3}": "ska"}}}
 *
 * The type of an antenna is the one named like it; otherwise the type of the first regular expression (~) that matches
 * the beginning of its name; otherwise the default. Further blocks add patterns and rules.
 */

/* A type of stations. */
typedef struct msi_pb_station_type {
    char *name;
    int n_pattern;
    char **pattern; /* [n_pattern] of files, with $(corr) and $(reim); for different frequencies */
} msi_pb_station_type;

typedef struct msi_pb_config {
    int n_type;
    msi_pb_station_type type[MSI_PB_CLASSES];
} msi_pb_config;

/*
 * msi_pb_config_read - read a file, and find the types of a set's antennas.
 * Returned: *out      freed by msi_pb_config_free; empty on failure
 *           class_of  [set->n_antenna] types of the antennas
 * Returns:  0, MSI_EINPUT (it cannot be read or is not of this form; an antenna has no type; too many types),
 *           MSI_ENOMEM
 */
int msi_pb_config_read(msi_pb_config *out, const char *path, const msi_pb_set *set, uint8_t *class_of);

void msi_pb_config_free(msi_pb_config *c); /* leaves it empty */

/*
 * Jones matrices of stations on the sky, by antenna, frequency and time: a FITS file with the axes of screens
 * (fits_image.h), whose axis MATRIX has the real and imaginary parts of XX, XY, YX and YY. Values are cubic between
 * pixels, and linear in frequency and time.
 */

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
