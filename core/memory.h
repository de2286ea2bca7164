/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Host memory is allocated here: checked, aligned, counted against what the user allows. */
#ifndef MSI_MEMORY_H
#define MSI_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_alloc - allocate n * size zero-initialised bytes, aligned to 64, counted under `what`.
 * Given:    what  names the use in the message when it fails
 * Returned: *out  owned by the caller, freed by msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM (also where n * size overflows or the limit of msi_memory_limit_set would be passed)
 */
int msi_alloc(void *out, int64_t n, size_t size, const char *what);

/*
 * msi_grow - allocate room for n_new elements of `size` bytes anew, with the n that *array has; the others are zero.
 * Given and returned: *array  NULL or from msi_alloc; as it was on failure
 * Returns: 0, MSI_ENOMEM
 */
int msi_grow(void *array, int64_t n, int64_t n_new, size_t size, const char *what);

/* msi_free - free what msi_alloc gave; NULL is fine. */
void msi_free(void *p);

/* msi_memory_limit_set - set what msi_alloc may have out at once, bytes; 0, as at first, means msi_memory_physical. */
void msi_memory_limit_set(int64_t bytes);

/* msi_memory_limit - return the limit that holds, in bytes; never 0. */
int64_t msi_memory_limit(void);

/* msi_memory_physical - count this machine's RAM in bytes, or this batch job's or container's where that is less. */
int64_t msi_memory_physical(void);

/* msi_memory_in_use - return the bytes that msi_alloc has out now. */
int64_t msi_memory_in_use(void);

/* One hash of bytes, for checksums of files and for telling whether two processes see the same. */

/*
 * msi_hash - add n bytes to a hash, 0 at first; any change of up to eight neighbouring bytes changes it. Checksums of
 * files are made by it, so that it stays as it is. It depends on the machine's order of bytes, and is no defence
 * against someone who wants two inputs of one hash.
 */
uint64_t msi_hash(uint64_t hash, const void *data, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
