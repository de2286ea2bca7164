/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * HDF5 files: H5Parm, which has calibration solutions by antenna, direction, time, frequency and polarisation; and
 * files of coefficients of Hamaker's dipole model. The HDF5 library reads a file in a separate process, because a
 * damaged file may crash it. This process checks the result.
 */
#ifndef MSI_IO_H5_FILES_H
#define MSI_IO_H5_FILES_H

#include <stdint.h>

#include "core/types.h"

typedef enum msi_solution_kind {
    MSI_SOLUTION_AMPLITUDE,
    MSI_SOLUTION_PHASE,           /* rad */
    MSI_SOLUTION_TEC,             /* TECU */
    MSI_SOLUTION_CLOCK,           /* s */
    MSI_SOLUTION_ROTATION,        /* rad */
    MSI_SOLUTION_ROTATION_MEASURE /* rad / m^2 */
} msi_solution_kind;

/* A text of a file, with a terminating zero. */
typedef struct msi_h5_text {
    char text[128];
} msi_h5_text;

/* A table of solutions. If the file has no such axis, the axis has one element, which applies everywhere. */
typedef struct msi_solution_table {
    msi_h5_text name;
    msi_solution_kind kind;
    int64_t n_dir, n_time, n_freq, n_ant, n_pol; /* n_pol: 1, 2 for XX, YY, or 4 for XX, XY, YX, YY */
    int has_dir, has_ant;
    double *time_s;       /* [n_time] MJD s, ascending */
    double *freq_hz;      /* [n_freq] ascending */
    double (*dir_rad)[2]; /* [n_dir] right ascension and declination */
    msi_h5_text *dir;     /* [n_dir] */
    msi_h5_text *ant;     /* [n_ant] */
    float *value;         /* [n_dir][n_time][n_freq][n_ant][n_pol] NaN: no solution */
} msi_solution_table;

typedef struct msi_h5parm {
    int n_table;
    msi_solution_table *table;
} msi_h5parm;

enum { MSI_H5_MOST_TABLES = 8 };

/*
 * msi_h5parm_read - read tables of a file. Call it before any thread starts: it forks.
 * Given:    names  of the tables, separated by commas
 * Returned: *out   emptied by msi_h5parm_free; empty on failure
 * Returns:  0, MSI_EINPUT (no such file or table; damaged; without any solution; axes or polarisations that are not
 *           known; times or frequencies that do not ascend), MSI_EUSAGE (a build without HDF5), MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 */
int msi_h5parm_read(msi_h5parm *out, const char *path, const char *names);

/* msi_h5parm_free - free the tables and leave the struct empty. */
void msi_h5parm_free(msi_h5parm *h);

/* ---- Coefficients of Hamaker's model of a LOFAR dipole, from a file such as HamakerHBACoeff.h5 of EveryBeam ---- */

enum { MSI_HAMAKER_MOST = 1024 }; /* most coefficients */

/* The response is a sum over harmonics in azimuth. Each is a polynomial in (f - centre_hz) / range_hz and the angle
 * from the zenith. */
typedef struct msi_hamaker {
    double centre_hz, range_hz;
    int32_t n_harmonic, n_angle, n_freq;
    /* [n_harmonic][n_angle][n_freq][2]: indices are powers of angle and frequency; the last one is theta, phi */
    msi_c64 coefficient[MSI_HAMAKER_MOST];
} msi_hamaker;

/*
 * msi_hamaker_read - read a file. It forks.
 * Returns: 0, MSI_EINPUT (no such file, damaged, or another format), MSI_EUSAGE (a build without HDF5), MSI_ENOMEM,
 *          MSI_EINTERRUPTED
 */
int msi_hamaker_read(msi_hamaker *out, const char *path);

#endif
