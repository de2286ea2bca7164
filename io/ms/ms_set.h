/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reader knows a Measurement Set by what its subtables say, and by the rows and channels that are selected. */
#ifndef MSI_IO_MS_SET_H
#define MSI_IO_MS_SET_H

#include <stddef.h>

#include "io/casacore-c/casacore_c.h"
#include "io/ms/ms_reader.h"
#include "io/ms/ms_watch.h"

struct msi_ms_partners;

/* A row of SPECTRAL_WINDOW. */
typedef struct msi_ms_window {
    int32_t n_chan;
    double *freq_hz;  /* [n_chan] as stored */
    double *width_hz; /* [n_chan] positive */
    char frame[16];
} msi_ms_window;

/* A row of DATA_DESCRIPTION, and the channels of it that are selected. */
typedef struct msi_ms_setup {
    int spw_id;
    int32_t n_corr;
    msi_pol corr[MSI_MAX_CORR];
    int32_t n_stored; /* channels in a stored cell */
    int is_used;      /* rows have it that are selected but, where times are, for those */
    int64_t n_row;    /* selected rows */
    int64_t first_row;
    int64_t block_rows;         /* rows of about 1 MB of data */
    int32_t n_chan;             /* selected channels; 0 where nothing of it is selected */
    int32_t span_first, n_span; /* the stored channels that hold them all */
    int is_identity;            /* the span is the selection, in ascending order */
    int32_t *chan_index;        /* [n_chan] stored index */
    double *freq_hz, *width_hz; /* [n_chan] ascending frequency */
    double *inverse_lambda2;    /* [n_chan] 1 / wavelength^2, m^-2 */
} msi_ms_setup;

typedef struct msi_ms_field {
    double ra_rad, dec_rad;
    char frame[16];
    char name[64];
    int source_id;
    msi_ms_motion motion;
    int64_t n_row; /* selected rows */
} msi_ms_field;

/* Rows that follow each other and share a setup and a field. */
typedef struct msi_ms_run {
    int64_t row, n_row;
    int data_desc_id, field_id;
} msi_ms_run;

typedef struct msi_ms_set {
    const char *path;                       /* borrowed */
    ccc_table *table;                       /* NULL while closed */
    struct msi_ms_store *store;             /* what is read in the tables' stead; NULL: the tables are */
    char data_column[64], model_column[64]; /* "" where there is none to read */
    msi_ms_watch watch;                     /* of those columns, where they are a table's */
    int has_weight_spectrum, has_flag_row;
    int64_t n_table_row;
    int n_window;
    msi_ms_window *window;
    int n_setup;
    msi_ms_setup *setup; /* [n_setup] by DATA_DESC_ID */
    int n_field;
    msi_ms_field *field;
    int64_t n_antenna;
    double *antenna_itrf_m; /* [n_antenna][3] */
    int64_t n_run;
    msi_ms_run *run; /* ascending rows */
    int64_t n_row;   /* selected */
    int64_t n_time;
    int64_t n_selected_time;       /* distinct TIMEs of the selected rows */
    double start_mjd_s, end_mjd_s; /* of the selected rows; where there may be none and is none, of the interval */
} msi_ms_set;

/* msi_ms_failed - return the status for what a ccc function returned, with its message. */
int msi_ms_failed(int ccc_status);

#define MSI_CCC(expr)                                                                                                  \
    do {                                                                                                               \
        int msi_ccc_status_ = (expr);                                                                                  \
        if (msi_ccc_status_ != CCC_OK) return msi_ms_failed(msi_ccc_status_);                                          \
    } while (0)

/*
 * msi_ms_set_open - open the main table for reading, without a lock, or the visibility store; nothing where it is open.
 * Returns: 0, MSI_EINPUT (also where a column that is read was written since it was open before), MSI_ELOCKED (it is
 *          being written), MSI_ENOMEM
 */
int msi_ms_set_open(msi_ms_set *set);

/*
 * msi_ms_set_recheck - fail unless all that has been read of the columns is of one writing, and whole: after reading,
 * before it is used.
 * Returns: 0, MSI_EINPUT, MSI_ELOCKED, MSI_ENOMEM
 */
int msi_ms_set_recheck(msi_ms_set *set);

/*
 * msi_ms_set_describe - read the subtables and choose the columns, with the checks that need no row.
 * Returns: 0, MSI_EINPUT (also where a column is half written), MSI_ELOCKED (it is being written), MSI_ENOMEM
 */
int msi_ms_set_describe(msi_ms_set *set, const msi_ms_selection *selection);

/*
 * msi_ms_set_select - check the index columns of every row, and find the selected rows and channels.
 * Given:   partners  that look at the same set, each at a part of its rows (ms_found.h); NULL: none
 * Returns: 0, MSI_EINPUT (also where nothing is selected), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ms_set_select(msi_ms_set *set, const msi_ms_selection *selection, const struct msi_ms_partners *partners);

/*
 * msi_ms_channels_select - find the channels of setups that have selected rows; setups left with none lose their rows.
 * Given:   ranges [n_range] of an MSSelection, none where n_range is 0
 * Returns: 0, MSI_EINPUT (a frequency that is none; no channel is selected), MSI_ENOMEM
 */
int msi_ms_channels_select(msi_ms_set *set, const msi_ms_selection *selection, const ccc_chan_range *ranges,
                           int64_t n_range);

/* msi_ms_set_observe - fill an observation from the set's subtables and selected rows. Returns: 0, MSI_EINPUT,
 * MSI_ENOMEM. */
int msi_ms_set_observe(msi_ms_set *set, msi_observation *observation);

/* msi_ms_set_rest_frequency - read a source's SOURCE::REST_FREQUENCY; 0 where there is none. Returns: 0, MSI_ENOMEM. */
int msi_ms_set_rest_frequency(msi_ms_set *set, int source_id, double *rest_hz);

/* msi_ms_set_free - close and free all that the set holds; leaves it empty. */
void msi_ms_set_free(msi_ms_set *set);

#endif
