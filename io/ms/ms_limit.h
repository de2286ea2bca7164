/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The memory of a process that opens sets: damaged numbers in their files would have casacore ask for any. */
#ifndef MSI_IO_MS_LIMIT_H
#define MSI_IO_MS_LIMIT_H

/* msi_ms_limit_memory - let a forked child that calls take what msi_memory_limit allows, or what files of the
 * size of these sets can need where that is less. */
void msi_ms_limit_memory(const char *const *paths, int n_path);

/* msi_ms_limit_lift - a set's rows lie in other sets' files: their size is no measure, and msi_memory_limit alone
 * holds. Nothing in a process without msi_ms_limit_memory. */
void msi_ms_limit_lift(void);

/*
 * msi_ms_limit_explain - a failure for want of memory, where the sets' size limits it and memory is there, is one of
 * the sets.
 * Returns: status; MSI_EINPUT, with another message, in that case
 */
int msi_ms_limit_explain(int status, const char *path);

#endif
