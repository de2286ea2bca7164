/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A set of output files is published whole: written under temporary names, synced, renamed last. */
#ifndef MSI_IO_PUBLISH_H
#define MSI_IO_PUBLISH_H

#include <stddef.h>
#include <stdint.h>

/*
 * A run's outputs, numbered as they were given to msi_publish_plan. For each: msi_publish_begin, the writing,
 * msi_publish_seal; then one msi_publish_commit for all. What was not committed is removed by msi_publish_free, so
 * that every failure path ends with `msi_publish_free(p)` and nothing else. Several threads may write at once, an
 * output each.
 */
typedef struct msi_publish msi_publish;

/*
 * msi_publish_plan - check, before anything is computed, that the outputs can be made.
 *
 * Given:    name [n_name]  final names, copied; overwrite  non-zero: existing plain files may be replaced
 * Returned: *out           owned by the caller, freed by msi_publish_free
 * Returns:  0; MSI_EARGUMENT (one exists and overwrite is 0, about "overwrite"; the same name twice); MSI_EOUTPUT
 *           (directory missing or not writable, which is tried out by creating a file; the name is a directory or a
 *           device; name too long); MSI_ENOMEM
 */
int msi_publish_plan(msi_publish **out, const char *const *name, int n_name, int overwrite);

/* msi_publish_n - return the number of outputs. msi_publish_name - the final name of one, borrowed. */
int msi_publish_n(const msi_publish *p);
const char *msi_publish_name(const msi_publish *p, int i);

/*
 * msi_publish_begin - create output i's temporary, empty, in the directory of its final name (O_CREAT | O_EXCL).
 *
 * Returned: *fd  open for reading and writing; it stays the property of p
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_publish_begin(msi_publish *p, int i, int *fd);

/* msi_publish_write - write all n bytes to output i's temporary. Returns 0, MSI_EOUTPUT. */
int msi_publish_write(msi_publish *p, int i, const void *data, size_t n);

/* msi_publish_write_at - likewise from byte `at` of it on; threads may write at several places. */
int msi_publish_write_at(const msi_publish *p, int i, int64_t at, const void *data, size_t n);

/*
 * msi_publish_fail - record that writing output i failed.
 * Given:   errno_value  the system's reason; 0 where there is none, then `reason` alone is the text (it may be NULL)
 * Returns: MSI_EOUTPUT, with the final name and the reason as message
 */
int msi_publish_fail(const msi_publish *p, int i, int errno_value, const char *reason);

/* msi_publish_seal - output i is written: fsync it and close it. Returns 0, MSI_EOUTPUT. */
int msi_publish_seal(msi_publish *p, int i);

/*
 * msi_publish_commit - give all outputs their final names, then fsync their directories.
 *
 * Returns: 0; MSI_EINTERRUPTED (a signal arrived before the first rename; nothing is published); MSI_EOUTPUT (a rename
 *          failed, or without overwrite a file of that name has appeared meanwhile, which is left as it is; outputs
 *          renamed before it are complete and stay); MSI_EINTERNAL (an output was never sealed)
 */
int msi_publish_commit(msi_publish *p);

/* msi_publish_free - close and remove every temporary that was not committed; NULL is fine. */
void msi_publish_free(msi_publish *p);

/*
 * msi_publish_emergency - unlink every temporary of this process. Async-signal-safe: for a handler of a signal that
 * ends the process at once.
 */
void msi_publish_emergency(void);

#endif
