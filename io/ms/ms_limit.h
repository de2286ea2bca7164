/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Limits of processes that read sets: casacore may request any amount of memory for damaged files. */
#ifndef MSI_MS_LIMIT_H
#define MSI_MS_LIMIT_H

#include "core/child.h"

/* msi_ms_child_begin - begin the work of a child that uses casacore: an exception that casacore does not catch ends the
 * child with a status and an error line. */
void msi_ms_child_begin(void);

/* msi_ms_limit_memory - limit the memory of the calling child to msi_memory_limit, or to what files of the size of
 * these sets can need if that is less. */
void msi_ms_limit_memory(const char *const *paths, int n_path);

/* msi_ms_limit_lift - ignore the size of the sets, as their rows lie in files of other sets. Only msi_memory_limit
 * applies then. Does nothing without msi_ms_limit_memory. */
void msi_ms_limit_lift(void);

/*
 * msi_ms_limit_explain - turn MSI_ENOMEM into MSI_EINPUT with another message, if the limit by size caused it.
 * Returns: status, or MSI_EINPUT
 */
int msi_ms_limit_explain(int status, const char *path);

#endif
