/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sort the rows of a set into the groups of a UVFITS file: one time, baseline and source, with a place for each
 * window. */
#ifndef MSI_IO_UVFITS_GROUPS_H
#define MSI_IO_UVFITS_GROUPS_H

#include "io/ms/ms_reader.h"

/* Describes all rows of a set without their samples. Arrays are owned. */
typedef struct msi_uvfits_rows {
    int64_t n_row;
    double *time_s, *exposure_s; /* [n_row] TIME in MJD seconds, EXPOSURE */
    double *uvw_m;               /* [n_row][3] */
    int32_t *antenna1, *antenna2, *field, *data_desc;
    uint8_t *flag_row;
} msi_uvfits_rows;

/* Tells which group a row goes to. Arrays are owned. */
typedef struct msi_uvfits_groups {
    int64_t n_group;
    int64_t *group; /* [n_row] ascending in time, antennas, field */
    uint8_t *leads; /* [n_row] 1 where the group's parameters are this row's */
} msi_uvfits_groups;

/*
 * msi_uvfits_rows_read - read the columns of a set's main table.
 * Given:    reader  of one set, opened in this process
 * Returned: *rows   freed by msi_uvfits_rows_free whatever this returns
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_uvfits_rows_read(msi_uvfits_rows *rows, const msi_ms_reader *reader);

/*
 * msi_uvfits_groups_make - sort rows into groups. Rows share one where time, antennas and field are equal, their u, v,
 * w are as near as single precision tells, and their windows differ.
 * Given:    place [n_place]  a window's place in a group by DATA_DESC_ID, below n_window
 * Returned: *groups  freed by msi_uvfits_groups_free whatever this returns
 * Returns:  0, MSI_ENOMEM
 */
int msi_uvfits_groups_make(msi_uvfits_groups *groups, const msi_uvfits_rows *rows, const int32_t *place,
                           int32_t n_window);

/* msi_uvfits_rows_free, msi_uvfits_groups_free - free what they hold. */
void msi_uvfits_rows_free(msi_uvfits_rows *rows);
void msi_uvfits_groups_free(msi_uvfits_groups *groups);

#endif
