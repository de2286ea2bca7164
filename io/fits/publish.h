/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Publishes the output files of a run together: they are written under temporary names, synced, and renamed last. */
#ifndef MSI_IO_PUBLISH_H
#define MSI_IO_PUBLISH_H

#include <stddef.h>
#include <stdint.h>

/*
 * The outputs of a run, numbered as in msi_publish_plan. For each output call msi_publish_begin, write, and call
 * msi_publish_seal; then call msi_publish_commit once. msi_publish_free removes outputs that are not committed, so
 * every failure path only needs to call it. Several threads may write at the same time, each to another output.
 */
typedef struct msi_publish msi_publish;

/*
 * msi_publish_plan - check that outputs can be created, before the run computes anything.
 *
 * Given:    name [n_name]  final names, copied; overwrite  1: existing regular files may be replaced
 * Returned: *out           owned by the caller, freed by msi_publish_free
 * Returns:  0; MSI_EARGUMENT (an output exists and overwrite is 0, about "overwrite"; the same name twice);
 *           MSI_EOUTPUT (the directory is missing or not writable, which is tested by creating a file; the name is a
 *           directory or a device; the name is too long); MSI_ENOMEM
 */
int msi_publish_plan(msi_publish **out, const char *const *name, int n_name, int overwrite);

/* msi_publish_n - return the number of outputs. msi_publish_name - return the final name of output i, borrowed. */
int msi_publish_n(const msi_publish *p);
const char *msi_publish_name(const msi_publish *p, int i);

/*
 * msi_publish_begin - create the empty temporary file of output i in the directory of its final name (O_CREAT |
 * O_EXCL).
 *
 * Returned: *fd  open for reading and writing; owned by p
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_publish_begin(msi_publish *p, int i, int *fd);

/* msi_publish_write - append n bytes to output i. Returns 0, MSI_EOUTPUT. */
int msi_publish_write(msi_publish *p, int i, const void *data, size_t n);

/* msi_publish_write_at - write n bytes to output i from byte `at` on. Several threads may write at different places. */
int msi_publish_write_at(const msi_publish *p, int i, int64_t at, const void *data, size_t n);

/*
 * msi_publish_fail - set the error that output i cannot be written.
 * Given:   errno_value  reason of the system; 0 if it is unknown, then `reason` is the whole text
 *          reason       may be NULL
 * Returns: MSI_EOUTPUT, with the final name and the reason in the message
 */
int msi_publish_fail(const msi_publish *p, int i, int errno_value, const char *reason);

/* msi_publish_seal - fsync and close output i after the last write. Returns 0, MSI_EOUTPUT. */
int msi_publish_seal(msi_publish *p, int i);

/*
 * msi_publish_read - read output i, which is sealed.
 * Returned: *bytes [*n]  owned by the caller, msi_free; NULL if it is empty
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_publish_read(const msi_publish *p, int i, unsigned char **bytes, int64_t *n);

/* msi_publish_drop - remove output i, begun or not, from the outputs that are published.
 * msi_publish_is_dropped - return 1 if output i was dropped. */
void msi_publish_drop(msi_publish *p, int i);
int msi_publish_is_dropped(const msi_publish *p, int i);

/*
 * msi_publish_link - make output i a second name of output `of`, which is sealed: a hard link, or a copy if the file
 * system has no hard links. Output i is then sealed. Returns 0, MSI_EOUTPUT, MSI_ENOMEM.
 */
int msi_publish_link(msi_publish *p, int i, int of);

/* msi_publish_links - return 1 if the directory of the first output supports hard links, so that msi_publish_link takes
 * no disk space. */
int msi_publish_links(const msi_publish *p);

/*
 * msi_publish_commit - rename all outputs to their final names, then fsync their directories.
 *
 * Returns: 0; MSI_EINTERRUPTED (a signal arrived before the first rename; no output is published);
 *          MSI_EOUTPUT (a rename failed; or overwrite is 0 and another program has created the file, which is kept; the
 *          outputs renamed before are complete and stay); MSI_EINTERNAL (an output is not sealed)
 */
int msi_publish_commit(msi_publish *p);

/* msi_publish_free - close and remove every temporary file that is not committed; NULL is fine. */
void msi_publish_free(msi_publish *p);

/*
 * msi_publish_emergency - unlink every temporary file of this process. It is async-signal-safe, so that a signal
 * handler can call it before it ends the process.
 */
void msi_publish_emergency(void);

#endif
