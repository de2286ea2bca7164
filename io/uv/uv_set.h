/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reads a UVFITS or FITS-IDI file as a set of rows. A group of UVFITS, or a row of a table UV_DATA, is one row for
 * each window (axis IF or BAND): row = group * n_if + window. Every offset is checked against the size of the file.
 *
 * Sources: E. W. Greisen, "AIPS FITS File Format", AIPS Memo 117, NRAO 2009 and later; E. W. Greisen, "The FITS
 * Interferometry Data Interchange Convention", AIPS Memo 114, NRAO 2011.
 */
#ifndef MSI_IO_UV_SET_H
#define MSI_IO_UV_SET_H

#include <stddef.h>

#include "core/types.h"

typedef enum msi_uv_format { MSI_UV_UVFITS, MSI_UV_FITSIDI } msi_uv_format;

/* A row of ANTENNA. If a number has no antenna, its row has no name. */
typedef struct msi_uv_antenna {
    char name[72], station[72]; /* name is the station, or a number if several stations have the same name */
    double itrf_m[3];
    double offset_m, diameter_m; /* 0: unknown */
    const char *mount;
    char feed[2]; /* 'R', 'L', 'X' or 'Y'; 0: unknown */
    double feed_angle_rad[2];
} msi_uv_antenna;

enum { MSI_UV_MOST_LINES = 64 };

/* A row of FIELD. */
typedef struct msi_uv_source {
    char name[64], code[16], frame[8]; /* frame: J2000, B1950 or ICRS */
    double ra_rad, dec_rad;
    int n_line;
    double line_hz[MSI_UV_MOST_LINES]; /* [n_line] distinct rest frequencies of its windows */
} msi_uv_source;

typedef struct msi_uv_window {
    double *freq_hz, *width_hz; /* [n_chan] as stored; width is positive */
} msi_uv_window;

/* The properties of a file that all its groups, or rows of tables UV_DATA, share. */
typedef struct msi_uv_set {
    msi_uv_format format;
    int64_t n_group, n_row;
    int32_t n_if, n_chan, n_corr;
    msi_pol corr[MSI_MAX_CORR];            /* [n_corr] in the order of casacore: RR RL LR LL, XX XY YX YY, I Q U V */
    int has_channel_weights;               /* 1: weights may differ between channels of a row */
    int64_t n_antenna, n_source, n_window; /* n_window: a multiple of n_if */
    msi_uv_antenna *antenna;
    msi_uv_source *source;
    msi_uv_window *window;
    char telescope[64], observer[64], project[64];
    const char *time_scale; /* UTC or TAI */
    char freq_frame[16];    /* TOPO, LSRK .., as casacore names them */
    double start_mjd_s, end_mjd_s;
    char notes[4096]; /* lines about what was assumed, ignored or corrected, each with a newline */
    struct msi_uv_state *state;
} msi_uv_set;

/* msi_uv_set_is_file - return 1 if a path is a file that begins like a FITS file, or like a file compressed by gzip. */
int msi_uv_set_is_file(const char *path);

/*
 * msi_uv_set_open - read the headers and tables of a file, and check the parameters of every group.
 * Given:    path  borrowed until the set is freed
 *           interrupt  called from time to time; if it returns a status other than 0, reading stops. May be NULL
 * Returned: *out  owned, msi_uv_set_free; NULL on failure
 * Returns:  0, MSI_EINPUT (neither UVFITS nor FITS-IDI; truncated; a group refers to a missing row of a table; values
 *           that a Measurement Set cannot have), MSI_ENOMEM, or the status of interrupt
 */
int msi_uv_set_open(msi_uv_set **out, const char *path, int (*interrupt)(void));

/* msi_uv_set_times - return the time of each group, [n_group] MJD seconds. msi_uv_set_sources - return the index of its
 * source. msi_uv_set_settings - return the index of its first window. Borrowed. */
const double *msi_uv_set_times(const msi_uv_set *s);
const int32_t *msi_uv_set_sources(const msi_uv_set *s);
const int32_t *msi_uv_set_settings(const msi_uv_set *s);

/* The parameters of a row. */
typedef struct msi_uv_row {
    double uvw_m[3], time_s, interval_s;
    int32_t antenna1, antenna2, subarray, source, window; /* indices */
    int32_t scan;                                         /* from 1; it grows when the source or the setting changes */
} msi_uv_row;

/* msi_uv_set_row - read the parameters of a row. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
int msi_uv_set_row(msi_uv_set *s, int64_t row, msi_uv_row *out);

/* The samples of a row that are read. */
typedef struct msi_uv_samples {
    int32_t n_chan;
    const int32_t *chan; /* [n_chan] indices of stored channels */
    msi_c32 *data;       /* [n_chan][n_corr] Jy; phases have the sign of Measurement Sets */
    float *weight;       /* [n_chan][n_corr] not negative */
    uint8_t *flag;       /* [n_chan][n_corr] 1: the weight is not positive and finite */
} msi_uv_samples;

/* msi_uv_set_samples - read samples of a row. Returned: to->data, weight, flag. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
int msi_uv_set_samples(msi_uv_set *s, int64_t row, const msi_uv_samples *to);

/* msi_uv_set_free - NULL is fine. */
void msi_uv_set_free(msi_uv_set *s);

#endif
