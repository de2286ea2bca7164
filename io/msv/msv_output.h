/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writes visibility stores, chunk by chunk. The header is written last and makes the file valid. */
#ifndef MSI_IO_MSV_OUTPUT_H
#define MSI_IO_MSV_OUTPUT_H

#include "io/msv/msv_format.h"

typedef struct msi_msv_output msi_msv_output;

/* Rows of one setup and field. Samples are stored only for rows that can be imaged: rows that are neither
 * autocorrelations nor flagged. */
typedef struct msi_msv_rows {
    int32_t data_desc_id, field_id;
    int64_t n_row;
    int32_t n_chan, n_corr;
    const int64_t *row; /* [n_row] row numbers in the set; for a setup and field they ascend, also between calls */
    const double *time_s, *uvw_m;       /* [n_row], [n_row][3] */
    const int32_t *antenna1, *antenna2; /* [n_row] */
    const uint8_t *flag_row;            /* [n_row] */
    const msi_c32 *data;                /* [n_row][n_chan][n_corr] */
    const float *weight;                /* [n_row][n_chan][n_corr] */
    const uint8_t *flag;                /* [n_row][n_chan][n_corr] */
} msi_msv_rows;

/*
 * msi_msv_output_make - create the file, which must not exist.
 * Given:    path
 *           name  for messages; borrowed until msi_msv_output_free
 * Returned: *out  owned, msi_msv_output_free; the caller keeps or removes the file
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_msv_output_make(msi_msv_output **out, const char *path, const char *name);

/* msi_msv_output_put - write a chunk of rows. Returns: 0, MSI_EOUTPUT (the disk is full ..), MSI_ENOMEM. */
int msi_msv_output_put(msi_msv_output *out, const msi_msv_rows *rows);

/* The metadata of all rows, and the set from which the store is made. */
typedef struct msi_msv_origin {
    const char *about; /* [about_bytes] */
    int64_t about_bytes;
    const char *set_path;
    uint64_t set_state; /* msi_set_state before the set was read */
} msi_msv_origin;

/* msi_msv_output_finish - write index and header. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINPUT (no row was
 * written). */
int msi_msv_output_finish(msi_msv_output *out, const msi_msv_origin *origin);

/* Numbers of rows and of rows with samples, and bytes, written so far. */
typedef struct msi_msv_counts {
    int64_t n_row, n_data_row, bytes;
} msi_msv_counts;

/* msi_msv_output_counts - return these numbers. */
msi_msv_counts msi_msv_output_counts(const msi_msv_output *out);

/* msi_msv_output_free - close the file; NULL is fine. */
void msi_msv_output_free(msi_msv_output *out);

#endif
