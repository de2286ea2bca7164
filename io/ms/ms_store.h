/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files as sets of the reader: visibility stores, which have the metadata of the set of which they were made, and UVFITS
 * and FITS-IDI files. */
#ifndef MSI_MS_STORE_H
#define MSI_MS_STORE_H

#include "io/ms/ms_metadata.h"

/* An open visibility store. It is read as the set that it was made of, with the numbers of rows, fields and setups of
 * the set. */
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

/* msi_ms_store_observe - fill the part of an observation that msi_ms_set_observe reads from subtables. field_id: of the
 * first row, or -1. */
void msi_ms_store_observe(const msi_ms_set *set, int field_id, msi_observation *observation);

/* ---- UVFITS and FITS-IDI files: they have the metadata that the subtables of a set have ---- */

/* msi_ms_uv_open - open the file at a set's path. Returns: 0, MSI_EINPUT, MSI_ENOMEM, MSI_EINTERRUPTED. */
int msi_ms_uv_open(msi_ms_set *set);

/* msi_ms_uv_describe - implement msi_ms_set_describe for such a file. Returns: 0, MSI_ENOMEM, MSI_EINPUT (also if the
 * selection needs a set's tables or columns). */
int msi_ms_uv_describe(msi_ms_set *set, const msi_ms_selection *selection);

/* msi_ms_uv_observe - fill the part of an observation that msi_ms_set_observe reads from subtables. */
void msi_ms_uv_observe(const msi_ms_set *set, msi_observation *o);

#endif
