/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Metadata of a reader as bytes, which another process checks and unpacks. */
#ifndef MSI_MS_PACK_H
#define MSI_MS_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "io/ms/ms_reader.h"

/*
 * msi_ms_pack_metadata - pack the results of the functions of ms_reader.h for an open reader.
 * Returned: *out [*n]  owned, msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_pack_metadata(const msi_ms_reader *r, char **out, int64_t *n);

/*
 * msi_ms_unpack_metadata - make a reader with these metadata and without an open table.
 *
 * Given:    paths [n_path]  of the sets
 *           bytes [n]       aligned for any array; they may have any value, since damaged files may have damaged their
 *                           writer
 * Returned: *out  owned, msi_ms_reader_free
 * Returns:  0, MSI_EINPUT (invalid lengths, sizes or values), MSI_ENOMEM
 */
int msi_ms_unpack_metadata(msi_ms_reader **out, const char *const *paths, int n_path, const char *bytes, int64_t n);

#endif
