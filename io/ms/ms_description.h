/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a reader has found is handed to another process, which believes none of it unchecked. */
#ifndef MSI_IO_MS_DESCRIPTION_H
#define MSI_IO_MS_DESCRIPTION_H

#include <stddef.h>

#include "io/ms/ms_reader.h"

/*
 * msi_ms_description_pack - pack what the functions of ms_reader.h tell of an open reader, as bytes.
 * Returned: *out [*n]  owned, msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_description_pack(const msi_ms_reader *r, char **out, int64_t *n);

/*
 * msi_ms_description_unpack - make a reader that has found what the bytes say, and has no table open.
 *
 * Given:    paths [n_path]  of the sets; bytes [n], aligned as any array may need: from a process that has read damaged
 *                           files, so that they may say anything
 * Returned: *out  owned, msi_ms_reader_free
 * Returns:  0, MSI_EINPUT (lengths, sizes or values that no reader finds), MSI_ENOMEM
 */
int msi_ms_description_unpack(msi_ms_reader **out, const char *const *paths, int n_path, const char *bytes, int64_t n);

#endif
