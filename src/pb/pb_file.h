/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Primary beams in FITS files: one cube of the power, or eight cubes of the real and imaginary parts of the elements of
 * the Jones matrix.
 */
#ifndef MSI_PB_FILE_H
#define MSI_PB_FILE_H

#include "src/pb/pb_model.h"

typedef struct msi_pb_file msi_pb_file;

/* msi_pb_file_is_word - return 1 if the value of -pb is a file: FILE.fits, a pattern with $(..), or a configuration
 * FILE.json. msi_pb_file_is_config - return 1 if it is a configuration. */
int msi_pb_file_is_word(const char *word);
int msi_pb_file_is_config(const char *word);

/*
 * msi_pb_file_read - read a beam.
 * Given:    word     FILE.fits with the power, or a pattern of eight files. $(corr) or $(xy) stands for xx, xy, yx, yy,
 *                    or for rr, rl, lr, ll; $(reim) for re, im; $(realimag) for real, imag. $(CORR) .. stand for
 *                    capitals
 *           set      its channels and feeds
 * Returned: *out     freed by msi_pb_file_free; NULL on failure
 *           note     for the log
 * Returns:  0, MSI_EINPUT (no such files; files for other feeds; no frequencies, or not those of the channels),
 *           MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_pb_file_read(msi_pb_file **out, const char *word, const msi_pb_set *set, char note[MSI_PB_NOTE]);
void msi_pb_file_free(msi_pb_file *f); /* NULL-safe */

msi_pb_mount msi_pb_file_mount(const msi_pb_file *f);

/* Implement msi_pb_model_jones, _width and _limit (pb_model.h) for files. */
void msi_pb_file_jones(const msi_pb_file *f, double freq_hz, const msi_pb_direction *direction, msi_c64 jones[4]);
double msi_pb_file_width(const msi_pb_file *f, double freq_hz);
double msi_pb_file_limit(const msi_pb_file *f);

/* msi_pb_cubic - compute the weights of four nodes for cubic Lagrange interpolation at 0 <= t < 1 between the inner
 * two. */
void msi_pb_cubic(double t, double w[4]);

/*
 * Beams of several types of stations: a JSON file in the format of DDFacet and Cattery,
 *
 *     {"lband": {"patterns": {"cmd::default": ["$(stype)_$(corr)_$(reim).fits"], "ska": [..]},
 *                "define-stationtypes": {"cmd::default": "meerkat", "~ska[0-9]{3}": "ska"}}}
 *
 * An antenna has the type whose key is its name; otherwise the type of the first regular expression (~) that matches
 * the beginning of its name; otherwise the default type. Further blocks add patterns and rules.
 */

/* A type of stations. */
typedef struct msi_pb_station_type {
    char *name;
    int n_pattern;
    char **pattern; /* [n_pattern] patterns of files, with $(corr) and $(reim), for different frequencies */
} msi_pb_station_type;

typedef struct msi_pb_config {
    int n_type;
    msi_pb_station_type type[MSI_PB_CLASSES];
} msi_pb_config;

/*
 * msi_pb_config_read - read a file, and find the types of a set's antennas.
 * Returned: *out      freed by msi_pb_config_free; empty on failure
 *           class_of  [set->n_antenna] types of the antennas
 * Returns:  0, MSI_EINPUT (the file cannot be read or parsed; an antenna has no type; too many types),
 *           MSI_ENOMEM
 */
int msi_pb_config_read(msi_pb_config *out, const char *path, const msi_pb_set *set, uint8_t *class_of);

void msi_pb_config_free(msi_pb_config *c); /* leaves it empty */

/*
 * Jones matrices of stations on the sky for each antenna, frequency and time: a FITS file with the axes of screens
 * (fits_image.h). Its axis MATRIX has the real and imaginary parts of XX, XY, YX and YY. Values are interpolated with
 * cubic polynomials between pixels, and linearly in frequency and time.
 */

typedef struct msi_pb_cube msi_pb_cube;

/* msi_pb_cube_antennas - return the number of antennas of a file; 0: no axis MATRIX, or the file cannot be read. */
int64_t msi_pb_cube_antennas(const char *path);

/*
 * msi_pb_cube_read - read a file.
 * Given:    set    antennas, channels and times that the file must have
 * Returned: *out   freed by msi_pb_cube_free; NULL on failure
 *           note   for the log
 * Returns:  0, MSI_EINPUT (no such file; other antennas; it does not cover the channels or times; circular feeds),
 *           MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_pb_cube_read(msi_pb_cube **out, const char *path, const msi_pb_set *set, char note[MSI_PB_NOTE]);

void msi_pb_cube_free(msi_pb_cube *c); /* NULL-safe */

/* msi_pb_cube_has_stations - return 1 if each antenna has a separate matrix. */
int msi_pb_cube_has_stations(const msi_pb_cube *c);

/* msi_pb_cube_width - return the full width at half power, in rad, of the first antenna around the middle of the image;
 * at most a quarter of the image. */
double msi_pb_cube_width(const msi_pb_cube *c, double freq_hz);

/* msi_pb_cube_covers - return 1 if the image contains a direction. Given: sky  unit vector */
int msi_pb_cube_covers(const msi_pb_cube *c, const double *sky);

/*
 * msi_pb_cube_jones - interpolate a Jones matrix.
 * Given:    direction  sky and mjd_s
 * Returned: jones      rows feed X, Y, columns north and east; 0 outside of the file
 */
void msi_pb_cube_jones(const msi_pb_cube *c, int antenna, double freq_hz, const msi_pb_direction *direction,
                       msi_c64 jones[4]);

#endif
