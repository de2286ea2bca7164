/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reads samples of Measurement Sets in blocks, for msimage.read_ms of the Python package. The library is private to
 * that package; other programs can read sets with casacore-c.
 *
 * The package parses this file to declare the functions, so it must not include other headers of the tree.
 */
#ifndef MSI_READ_SET_H
#define MSI_READ_SET_H

#include <stdint.h>

/* A selection. Members are named after options of the command line; 0 or NULL selects everything. */
typedef struct msimage_read_spec {
    const char *data_column; /* NULL: CORRECTED_DATA if it exists, else DATA */
    int all_fields;
    int n_field; /* 0: field 0, or the fields of select_field */
    const int *field;
    int n_spw;
    const int *spw;
    int64_t channel_begin, channel_end;
    int64_t interval_begin, interval_end;
    double min_uv_lambda, max_uv_lambda;
    double min_uvw_m, max_uvw_m;
    const char *select_field, *select_spw, *select_antenna, *select_uvrange, *select_time;
    const char *taql;
    int n_pol;      /* 0: correlations are not converted */
    const int *pol; /* [n_pol] Stokes parameters and correlations, with CASA's numbers (CORR_TYPE) */
    /* weight of a Stokes parameter: 1: the mean of the weights of its correlations; 0: the smaller of them */
    int weight_is_mean;
    /* called at most fifty times a second; if it does not return 0, the call ends; NULL: not called */
    int (*interrupt)(void *user);
} msimage_read_spec;

/* Rows of one set, field and spectral window. Arrays are borrowed until the next call. */
typedef struct msimage_read_block {
    int set;   /* index into the paths */
    int field; /* FIELD_ID */
    int spw;   /* number of the spectral window */
    int n_pol;
    int64_t n_row; /* 0: there are no more blocks */
    int64_t n_chan;
    double ra_rad, dec_rad; /* the field's phase centre */
    int pol[16];            /* [n_pol] CASA's numbers */
    const double *freq_hz;  /* [n_chan] ascending */
    const int64_t *row;     /* [n_row] of the Measurement Set's main table */
    const double *time_s;   /* [n_row] MJD seconds */
    const double *uvw_m;    /* [n_row][3] metres */
} msimage_read_block;

typedef struct msimage_read msimage_read;

/*
 * msimage_read_open - open sets, and find the selected rows and channels.
 * Given:    paths [n_path]; spec  borrowed for the call
 * Returned: *out  owned, freed by msimage_read_free; NULL after a failure
 * Returns:  0 or a code of core/status.h
 */
int msimage_read_open(msimage_read **out, const char *const *paths, int n_path, const msimage_read_spec *spec);

/* msimage_read_next - read the next block. Returns: 0 or a code of core/status.h. */
int msimage_read_next(msimage_read *r, msimage_read_block *block);

/*
 * msimage_read_values - copy the values of the last block.
 * Returned: vis [n_pol][n_row][n_chan] complex of floats, Jy; weight, flag [n_pol][n_row][n_chan], flag is 0 or 1
 * Returns:  0, MSI_ENOMEM
 * Notes:    if correlations are not converted (n_pol of the specification is 0), values and flags are as stored.
 *           Otherwise a sample that an image would not use has visibility 0, weight 0 and flag 1.
 */
int msimage_read_values(msimage_read *r, float *vis, float *weight, uint8_t *flag);

/* msimage_read_n_row - return the number of selected rows in all sets. msimage_read_column - return the name of the
 * data column; borrowed. */
int64_t msimage_read_n_row(const msimage_read *r);
const char *msimage_read_column(const msimage_read *r);

/* msimage_read_error - return the message of the last failure of the calling thread. Borrowed until its next
 * failure. */
const char *msimage_read_error(void);

/* msimage_read_free - close the sets; NULL is fine. */
void msimage_read_free(msimage_read *r);

#endif
