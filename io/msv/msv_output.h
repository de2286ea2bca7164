/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A visibility store is written chunk by chunk; its header, which makes it one, comes last. */
#ifndef MSI_IO_MSV_OUTPUT_H
#define MSI_IO_MSV_OUTPUT_H

#include "io/msv/msv_format.h"

typedef struct msi_msv_output msi_msv_output;

/* Rows of one setup and field: those that image a sample of it are stored with their samples. */
typedef struct msi_msv_rows {
    int32_t data_desc_id, field_id;
    int64_t n_row;
    int32_t n_chan, n_corr;
    const int64_t *row;                 /* [n_row] of the set, ascending; also from one call to the next of them */
    const double *time_s, *uvw_m;       /* [n_row], [n_row][3] */
    const int32_t *antenna1, *antenna2; /* [n_row] */
    const uint8_t *flag_row;            /* [n_row] */
    const msi_c32 *data;                /* [n_row][n_chan][n_corr] */
    const float *weight;                /* likewise */
    const uint8_t *flag;                /* likewise */
} msi_msv_rows;

/*
 * msi_msv_output_make - begin a file, where nothing stands.
 * Given:    path  where; name  what messages call it; borrowed until it is freed
 * Returned: *out  owned, msi_msv_output_free; what is on disk then is the caller's to keep or remove
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_msv_output_make(msi_msv_output **out, const char *path, const char *name);

/* msi_msv_output_put - write a chunk of rows. Returns: 0, MSI_EOUTPUT (the disk is full ..), MSI_ENOMEM. */
int msi_msv_output_put(msi_msv_output *out, const msi_msv_rows *rows);

/* Describes what the rows have in common, and of which set they are. */
typedef struct msi_msv_origin {
    const char *about; /* [about_bytes] */
    int64_t about_bytes;
    const char *set_path;
    uint64_t set_state; /* of msi_set_state before anything was read */
} msi_msv_origin;

/* msi_msv_output_finish - write index and header. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINPUT (no row was put). */
int msi_msv_output_finish(msi_msv_output *out, const msi_msv_origin *origin);

/* Counts what has been written. */
typedef struct msi_msv_tally {
    int64_t n_row, n_data_row, bytes;
} msi_msv_tally;

/* msi_msv_output_tally - so far. */
msi_msv_tally msi_msv_output_tally(const msi_msv_output *out);

/* msi_msv_output_free - close the file; NULL is fine. */
void msi_msv_output_free(msi_msv_output *out);

#endif
