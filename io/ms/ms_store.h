/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A visibility store is read as the set that it was made of: it describes itself as one, lists its rows, and fills
 * blocks. Numbers of rows, fields and setups are the set's.
 */
#ifndef MSI_IO_MS_STORE_H
#define MSI_IO_MS_STORE_H

#include "io/ms/ms_block.h"
#include "io/msv/msv_file.h"

/* A store that is open. */
struct msi_ms_store {
    msi_msv_file *file;
    char telescope[64], observer[64], time_scale[16];
    double *rest_hz; /* [n_field] 0 where unknown */
};

/* msi_ms_store_open - open the store that a set's path leads to. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
int msi_ms_store_open(msi_ms_set *set);

/* msi_ms_store_describe - do as msi_ms_set_describe. MSI_EINPUT also where the selection needs a set's tables. */
int msi_ms_store_describe(msi_ms_set *set, const msi_ms_selection *selection);

/* msi_ms_store_observe - read the part of msi_ms_set_observe that subtables tell; field_id: of the first row, or -1. */
void msi_ms_store_observe(const msi_ms_set *set, int field_id, msi_observation *observation);

/*
 * msi_ms_store_rows - read the coordinates of the planned rows of a group into the buffer, but for those to be left
 * out; raw.source tells where the samples are. msi_ms_store_samples - read those.
 * Given:    g       planned rows; n_kept  of msi_ms_store_rows
 * Returned: *data   the visibilities: the buffer's, or the store's own where the reader lends them
 * Returns:  0, MSI_EINPUT (what is read is damaged), MSI_ENOMEM
 */
int msi_ms_store_rows(msi_ms_reader *r, const msi_ms_group *g, struct msi_ms_buffer *b, int64_t *n_kept);
int msi_ms_store_samples(const msi_ms_reader *r, const msi_ms_group *g, struct msi_ms_buffer *b, int64_t n_kept,
                         const msi_c32 **data);

/*
 * msi_ms_store_about - pack what a store keeps of a reader's set, whose only one it is, with the selected channels.
 * Returned: *out [*n]  for msi_msv_origin; owned, msi_free; NULL on failure
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_store_about(const msi_ms_reader *reader, char **out, int64_t *n);

/* msi_ms_store_free - NULL is fine. */
void msi_ms_store_free(struct msi_ms_store *store);

#endif
