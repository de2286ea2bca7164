/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Packing of structures into bytes and unpacking, by one function for both, so that both have the same order. Metadata
 * of a reader are passed so to another process, which checks them. */
#ifndef MSI_MS_PACK_H
#define MSI_MS_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "io/ms/ms_reader.h"

/* The position of packing or unpacking. Each value takes a multiple of 8 bytes. */
typedef struct msi_ms_cursor {
    char *to;         /* packing; NULL: only count the bytes */
    const char *from; /* unpacking: not NULL, aligned for any array */
    int64_t at, n;
} msi_ms_cursor;

/* msi_ms_transfer - pack or unpack the next bytes. Returns 1; 0 if there are not enough bytes. */
int msi_ms_transfer(msi_ms_cursor *c, void *value, int64_t bytes);

/*
 * msi_ms_transfer_array - pack or unpack an array of n elements. Unpacking allocates it after checking that its bytes
 * are there.
 * Given and returned: array  address of the pointer to it; freed by msi_free
 * Returned: *is_whole  0 if there are not enough bytes
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_transfer_array(msi_ms_cursor *c, void *array, int64_t n, size_t size, int *is_whole);

/* msi_ms_transfer_names - the same for names of antennas, which end within their texts. */
int msi_ms_transfer_names(msi_ms_cursor *c, msi_ms_name **names, int64_t n, int *is_whole);

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
