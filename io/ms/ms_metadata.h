/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The metadata of a Measurement Set: its subtables, and the selected rows and channels. */
#ifndef MSI_MS_METADATA_H
#define MSI_MS_METADATA_H

#include <stddef.h>

#include "io/casacore-c/casacore_c.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_mark.h"
#include "io/ms/ms_reader.h"
#include "io/ms/scalar_column.h"
#include "io/ms/tiled_column.h"
#include "io/msv/msv_file.h"
#include "io/uv/uv_set.h"

/* A row of SPECTRAL_WINDOW. */
typedef struct msi_ms_window {
    int32_t n_chan;
    double *freq_hz;  /* [n_chan] as stored */
    double *width_hz; /* [n_chan] positive */
    char frame[16];
} msi_ms_window;

/* A row of DATA_DESCRIPTION with its selected channels. */
typedef struct msi_ms_setup {
    int spw_id;
    int32_t n_corr;
    msi_pol corr[MSI_MAX_CORR];
    int32_t n_stored; /* channels in a stored cell */
    int is_used;      /* 1: has selected rows, if times are not considered */
    int64_t n_row;    /* selected rows */
    int64_t first_row;
    int64_t block_rows;         /* rows of about 1 MB of data */
    int32_t n_chan;             /* selected channels; 0 if no row or channel is selected */
    int32_t span_first, n_span; /* range of stored channels that contains the selected ones */
    int is_identity;            /* 1: the span has exactly the selected channels, in ascending order */
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
    int64_t n_row;   /* selected rows */
    int share;       /* share that reads the field, if shares consist of whole fields */
    int64_t doppler; /* index of the field in msi_ms_set.doppler */
    msi_ms_aim aim;
} msi_ms_field;

/* Consecutive rows with one setup and field. */
typedef struct msi_ms_run {
    int64_t row, n_row;
    int data_desc_id, field_id;
} msi_ms_run;

/* The large columns. They are read without casacore if all that a set has are stored in a known way. */
typedef enum msi_ms_large { MSI_MS_DATA, MSI_MS_MODEL, MSI_MS_FLAG, MSI_MS_SPECTRUM, MSI_MS_N_LARGE } msi_ms_large;

/* Scalar columns of rows, which are read without casacore where they are stored in a known way. */
typedef enum msi_ms_scalar {
    MSI_MS_TIME,
    MSI_MS_ANTENNA1,
    MSI_MS_ANTENNA2,
    MSI_MS_FLAG_ROW,
    MSI_MS_DATA_DESC_ID,
    MSI_MS_FIELD_ID,
    MSI_MS_N_SCALAR
} msi_ms_scalar;

typedef struct msi_ms_set {
    const char *path;            /* borrowed */
    ccc_table *table;            /* NULL while closed */
    msi_scalar_columns *scalars; /* columns of the open table; NULL: casacore reads them, and so for the next two */
    msi_tiled_column *uvw, *weight;
    int has_places; /* 1: the large columns seem to be stored so that they can be read directly */
    msi_tiled_place place[MSI_MS_N_LARGE];
    int is_direct;                            /* column[] is open */
    msi_tiled_column *column[MSI_MS_N_LARGE]; /* NULL: the set has no such column */
    int only_rows;                            /* 1: another process reads the large columns directly */
    struct msi_ms_store *store; /* visibility store that is read instead of tables; NULL: tables are read */
    /* path of a set with the subtables of a UVFITS or FITS-IDI file; borrowed; NULL: path has the subtables */
    const char *tables_path;
    msi_uv_set *uv; /* UVFITS or FITS-IDI file that is read instead of tables; NULL: tables are read */
    char *notes;    /* [n_notes] lines about assumptions and corrections; NULL: none; owned */
    int64_t n_notes;
    char data_column[64], model_column[64]; /* "": not read */
    msi_ms_watch watch;                     /* watches these columns, if they are in a table */
    int has_weight_spectrum, has_flag_row;
    int64_t n_table_row;
    int n_window;
    msi_ms_window *window;
    int n_setup;
    msi_ms_setup *setup; /* [n_setup] by DATA_DESC_ID */
    int n_field;
    msi_ms_field *field;
    char telescope[64];
    int64_t n_antenna;
    double *antenna_itrf_m;     /* [n_antenna][3] */
    double *antenna_diameter_m; /* [n_antenna] 0: unknown */
    msi_ms_name *antenna_name;  /* [n_antenna] "": unknown */
    uint8_t *antenna_kind;      /* [n_antenna] below MSI_MS_KINDS, by diameter */
    int has_delay;              /* 1: the first row of MWA_TILE_POINTING was read; 2: and other rows differ from it */
    int32_t delay[MSI_MS_DELAYS];
    msi_ms_stations stations;
    msi_ms_row_times row_times; /* times of the selected rows */
    int64_t n_minute;           /* number of minutes with selected rows, and of fields with Doppler shifts; 0: none */
    int64_t n_doppler;
    int64_t *minute; /* [n_minute] ascending: MJD seconds over 60, rounded down */
    double *doppler; /* [n_doppler][n_minute][2] as msi_ms_doppler */
    int64_t n_run;
    msi_ms_run *run; /* ascending rows */
    int64_t n_row;   /* selected */
    int64_t n_time;
    int64_t n_selected_time;       /* distinct TIMEs of the selected rows */
    double start_mjd_s, end_mjd_s; /* first and last time of the selected rows, or of the interval if there are none */
} msi_ms_set;

/* msi_ms_set_tables - return the path of the set that has the subtables. */
static inline const char *msi_ms_set_tables(const msi_ms_set *set)
{
    return set->tables_path ? set->tables_path : set->path;
}

/*
 * msi_ms_set_open - open the main table for reading, without a lock, or the visibility store, UVFITS or FITS-IDI file,
 * if it is not open.
 * Returns: 0, MSI_EINPUT (also if a column that is read was written since the last time the set was open), MSI_ELOCKED
 *          (it is being written), MSI_ENOMEM
 */
int msi_ms_set_open(msi_ms_set *set);

/* msi_ms_set_close - close the table and the columns. */
void msi_ms_set_close(msi_ms_set *set);

/*
 * msi_ms_set_open_columns - open the large columns for direct reading, if they are not open. The table may be closed.
 * Returned: set->is_direct  1; or 0 if a column is not stored in a known way; has_places is then set to 0
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_set_open_columns(msi_ms_set *set);

/*
 * msi_ms_set_scalar - read rows [row, row + n_row) of a column of the open table: double (TIME), uint8_t (FLAG_ROW) or
 * int32_t.
 * Given:   end  rows before this one are probably read next
 * Returns: 0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_set_scalar(const msi_ms_set *set, msi_ms_scalar k, int64_t row, int64_t n_row, int64_t end, void *out);

/* msi_ms_read_by_casacore - read all columns through casacore, as with the environment variable MSIMAGE_READ=casacore.
 * Sets that are already open are not affected. */
void msi_ms_read_by_casacore(int only);

/*
 * msi_ms_set_recheck - fail unless all values read from the columns are complete and come from one writing. Call it
 * after reading, before the values are used.
 * Returns: 0, MSI_EINPUT, MSI_ELOCKED, MSI_ENOMEM
 */
int msi_ms_set_recheck(msi_ms_set *set);

/*
 * msi_ms_set_describe - read the subtables and choose the columns, and do the checks that need no rows.
 * Returns: 0, MSI_EINPUT (also if a column is incomplete), MSI_ELOCKED (it is being written), MSI_ENOMEM
 */
int msi_ms_set_describe(msi_ms_set *set, const msi_ms_selection *selection);

/* msi_ms_has_expression - return 1 if one of CASA's expressions is given. */
int msi_ms_has_expression(const msi_ms_selection *selection);

/* msi_ms_set_observe - fill an observation from the subtables and selected rows. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
int msi_ms_set_observe(msi_ms_set *set, msi_observation *observation);

/* msi_ms_observe_antennas - compute the mean position and the longest baseline of an observation's antennas. */
void msi_ms_observe_antennas(const msi_ms_set *set, msi_observation *observation);

/* msi_ms_set_sort_dishes - fill antenna_kind. Returns: 0, MSI_ENOMEM */
int msi_ms_set_sort_dishes(msi_ms_set *set);

/* msi_ms_set_keep_minutes - set the minutes that contain times [n], which ascend. Returns: 0, MSI_ENOMEM */
int msi_ms_set_keep_minutes(msi_ms_set *set, const double *time_s, int64_t n);

/*
 * msi_ms_set_find_doppler - compute the Doppler shifts of all fields with selected rows (ms_doppler.c).
 * Given:   o   of the set; to  the frame of frequencies
 * Returns: 0, MSI_EINPUT (no position or frame, or an unknown frame), MSI_ENOMEM
 */
int msi_ms_set_find_doppler(msi_ms_set *set, const msi_observation *o, const char *to);

/*
 * msi_ms_set_find_aims - find where the antennas pointed in all fields with selected rows, from POINTING
 * (ms_pointing.c).
 * Given:    scale  time scale of the set; is_quick  1: do not read a large table that is not sorted by time
 * Returned: set->field[].aim; if POINTING cannot be used, a note of the set gives the reason
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_set_find_aims(msi_ms_set *set, const char *scale, int is_quick);

/* msi_ms_set_doppler_is_sound - return 1 if Doppler shifts that another process has computed are valid. */
int msi_ms_set_doppler_is_sound(const msi_ms_set *set);

/* msi_ms_set_free - close and free the set, and leave it empty. */
void msi_ms_set_free(msi_ms_set *set);

/* Selection of rows and channels. One process scans the index columns of all rows, or each of several processes scans a
 * part of the rows and they exchange the results. */

/* The processes that scan the same set. All of them make the same exchanges. */
typedef struct msi_ms_partners {
    int part, n_part;
    void *of;

    /* exchange - send bytes to all processes. Returned: all [n_part], n_all [n_part], the bytes of each process,
     * borrowed until the next exchange; their contents must be checked. Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED. */
    int (*exchange)(void *of, const char *bytes, int64_t n_byte, const char **all, int64_t *n_all);
} msi_ms_partners;

/*
 * msi_ms_set_select - check the index columns of every row, and find the selected rows and channels.
 * Given:   partners  the processes that share the scan; NULL: this process scans all rows
 * Returns: 0, MSI_EINPUT (also if no row is selected), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ms_set_select(msi_ms_set *set, const msi_ms_selection *selection, const msi_ms_partners *partners);

/* Files that the reader treats as sets: visibility stores, which have the metadata of the set from which they were
 * made, and UVFITS and FITS-IDI files. */

/* An open visibility store. It is read like the set from which it was made, with its numbers of rows, fields and
 * setups. */
struct msi_ms_store {
    msi_msv_file *file;
    char telescope[64], observer[64], time_scale[16];
    double *rest_hz; /* [n_field] 0 if unknown */
};

/*
 * msi_ms_store_pack_metadata - pack the metadata for a store of the only set of a reader, with the selected channels.
 * Returned: *out [*n]  for msi_msv_origin; owned, msi_free; NULL on failure
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_store_pack_metadata(const msi_ms_reader *reader, char **out, int64_t *n);

/* msi_ms_store_open - open the store at a set's path. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
int msi_ms_store_open(msi_ms_set *set);

/* msi_ms_store_free - close and free a store; NULL is fine. */
void msi_ms_store_free(struct msi_ms_store *store);

/* msi_ms_store_describe - implement msi_ms_set_describe for a store. Returns: 0, MSI_ENOMEM, MSI_EINPUT (also if the
 * selection needs a set's tables). */
int msi_ms_store_describe(msi_ms_set *set, const msi_ms_selection *selection);

/* msi_ms_store_observe - fill the members of an observation that msi_ms_set_observe reads from subtables. field_id: of
 * the first row, or -1. */
void msi_ms_store_observe(const msi_ms_set *set, int field_id, msi_observation *observation);

/* ---- UVFITS and FITS-IDI files: they have the metadata that the subtables of a set have ---- */

/* msi_ms_uv_open - open the file at a set's path. Returns: 0, MSI_EINPUT, MSI_ENOMEM, MSI_EINTERRUPTED. */
int msi_ms_uv_open(msi_ms_set *set);

/* msi_ms_uv_describe - implement msi_ms_set_describe for such a file. Returns: 0, MSI_ENOMEM, MSI_EINPUT (also if the
 * selection needs a set's tables or columns). */
int msi_ms_uv_describe(msi_ms_set *set, const msi_ms_selection *selection);

/* msi_ms_uv_observe - fill the members of an observation that msi_ms_set_observe reads from subtables. */
void msi_ms_uv_observe(const msi_ms_set *set, msi_observation *o);

#endif
