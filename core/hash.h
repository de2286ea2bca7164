/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One hash of bytes, for checksums of files and for telling whether two processes see the same. */
#ifndef MSI_CORE_HASH_H
#define MSI_CORE_HASH_H

#include <stdint.h>

/*
 * msi_hash - add n bytes to a hash, 0 at first; any change of up to eight neighbouring bytes changes it. Checksums of
 * files are made by it, so that it stays as it is. It depends on the machine's order of bytes, and is no defence
 * against someone who wants two inputs of one hash.
 */
uint64_t msi_hash(uint64_t hash, const void *data, int64_t n);

#endif
