/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Samples of Measurement Sets are handed out block by block to msimage.read_ms of the Python package. The library
 * made of it is the package's own; other programs read sets through casacore-c.
 *
 * Python declares these functions from this very file, so it includes nothing of the tree.
 */
#ifndef MSI_READ_SET_H
#define MSI_READ_SET_H

#include <stdint.h>

/* A selection in the words of the command line's options; what is 0 or NULL selects everything. */
typedef struct msimage_read_spec {
    const char *data_column; /* NULL: CORRECTED_DATA where it exists, else DATA */
    int all_fields;
    int n_field; /* 0: field 0, unless select_field names fields */
    const int *field;
    int n_spw;
    const int *spw;
    int64_t channel_begin, channel_end;
    int64_t interval_begin, interval_end;
    double min_uv_lambda, max_uv_lambda;
    double min_uvw_m, max_uvw_m;
    const char *select_field, *select_spw, *select_antenna, *select_uvrange, *select_time;
    const char *taql;
    int n_pol;                  /* 0: the correlations as stored */
    const int *pol;             /* [n_pol] Stokes parameters and correlations by CASA's numbers (CORR_TYPE) */
    int weight_is_mean;         /* of a Stokes parameter's correlations; else it is the smaller */
    int (*interrupt)(void *of); /* asked at most fifty times a second; not 0 ends the call; NULL: nobody is asked */
} msimage_read_spec;

/* A block's rows are of one set, field and spectral window. Arrays are borrowed until the next call. */
typedef struct msimage_read_block {
    int set;   /* index into the paths */
    int field; /* FIELD_ID */
    int spw;   /* spectral window's number */
    int n_pol;
    int64_t n_row; /* 0: there is no further block */
    int64_t n_chan;
    double ra_rad, dec_rad; /* the field's phase centre */
    int pol[16];            /* [n_pol] CASA's numbers */
    const double *freq_hz;  /* [n_chan] rising */
    const int64_t *row;     /* [n_row] of the Measurement Set's main table */
    const double *time_s;   /* [n_row] MJD seconds */
    const double *uvw_m;    /* [n_row][3] metres */
} msimage_read_block;

typedef struct msimage_read msimage_read;

/*
 * msimage_read_open - open sets and find the rows and channels that are selected.
 * Given:    paths [n_path]; spec  not needed any more after this
 * Returned: *out  owned, freed by msimage_read_free; NULL after a failure
 * Returns:  0 or a code of core/status.h
 */
int msimage_read_open(msimage_read **out, const char *const *paths, int n_path, const msimage_read_spec *spec);

/* msimage_read_next - read the next block. Returns: 0 or a code of core/status.h. */
int msimage_read_next(msimage_read *r, msimage_read_block *block);

/*
 * msimage_read_values - copy what was measured in the block that was read last.
 * Returned: vis [n_pol][n_row][n_chan] complex of floats, Jy; weight as many floats; flag as many, 0 or 1
 * Returns:  0, MSI_ENOMEM
 * Notes:    a correlation as stored (n_pol of the specification is 0) comes as it is, with its flag. Of what is formed,
 *           visibility and weight are 0 and the flag is 1 where the sample does not count for an image.
 */
int msimage_read_values(msimage_read *r, float *vis, float *weight, uint8_t *flag);

/* msimage_read_n_row, msimage_read_column - count the rows selected, in all sets; name the column read, borrowed. */
int64_t msimage_read_n_row(const msimage_read *r);
const char *msimage_read_column(const msimage_read *r);

/* msimage_read_error - tell the calling thread's last failure in one line. Borrowed until the thread's next one. */
const char *msimage_read_error(void);

/* msimage_read_free - close the sets; NULL is fine. */
void msimage_read_free(msimage_read *r);

#endif
