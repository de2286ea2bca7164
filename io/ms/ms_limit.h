/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Converts casacore's failures, and limits the memory of processes that use casacore, which may allocate any amount for
 * damaged files. */
#ifndef MSI_MS_LIMIT_H
#define MSI_MS_LIMIT_H

#include "core/child.h"
#include "core/status.h"
#include "io/casacore-c/casacore_c.h"

/* msi_ms_failed - convert the status of a ccc function and set its message. */
int msi_ms_failed(int ccc_status);

#define MSI_CCC(expr)                                                                                                  \
    do {                                                                                                               \
        int msi_ccc_status_ = (expr);                                                                                  \
        if (msi_ccc_status_ != CCC_OK) return msi_ms_failed(msi_ccc_status_);                                          \
    } while (0)

/* msi_ms_write_failed - convert the status of a ccc function that writes, and set its message. */
int msi_ms_write_failed(int ccc_status);

#define MSI_CCC_WRITE(expr)                                                                                            \
    do {                                                                                                               \
        int msi_ccc_status_ = (expr);                                                                                  \
        if (msi_ccc_status_ != CCC_OK) return msi_ms_write_failed(msi_ccc_status_);                                    \
    } while (0)

/* msi_ms_child_begin - prepare a child process for casacore: an exception that casacore does not catch ends the child
 * with a status and an error line. */
void msi_ms_child_begin(void);

/* msi_ms_paths_bytes - return the size of the files of main tables, and of paths that are files. Subtables are not
 * counted. Unreadable files count as 0. */
int64_t msi_ms_paths_bytes(const char *const *paths, int n_path);

/* msi_ms_limit_memory - limit the memory of this child process to msi_memory_limit, or to the most that sets of this
 * size can need, if that is less. */
void msi_ms_limit_memory(const char *const *paths, int n_path);

/* msi_ms_limit_lift - remove the limit by size, for sets whose rows are in files of other sets. msi_memory_limit still
 * applies. Does nothing without msi_ms_limit_memory. */
void msi_ms_limit_lift(void);

/*
 * msi_ms_limit_explain - replace MSI_ENOMEM by MSI_EINPUT with another message, if the limit by size was the cause.
 * Returns: status, or MSI_EINPUT
 */
int msi_ms_limit_explain(int status, const char *path);

#endif
