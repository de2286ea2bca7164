/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks of paths of Measurement Sets without opening them. */
#ifndef MSI_IO_MS_PATHS_H
#define MSI_IO_MS_PATHS_H

#include <stdint.h>

/* msi_ms_path_is_table - return 1 if a directory looks like a casacore table, such as a Measurement Set, else 0. */
int msi_ms_path_is_table(const char *path);

/* msi_ms_paths_exist - return 1 if each of paths [n_path] is a readable file or looks like a readable table, else 0. It
 * sets no message: the reader reports what is wrong. */
int msi_ms_paths_exist(const char *const *paths, int n_path);

/* msi_ms_paths_same - return 1 if two of paths [n_path] are the same set. Returned: *a, *b  their indices, a < b. */
int msi_ms_paths_same(const char *const *paths, int n_path, int *a, int *b);

/* msi_ms_paths_bytes - return the size of the files of the main tables and of paths that are files. Subtables are not
 * counted; unreadable files count 0. */
int64_t msi_ms_paths_bytes(const char *const *paths, int n_path);

/*
 * msi_ms_paths_copy - copy a list of paths.
 * Returned: *out [n_path]  one block of memory, freed by one msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_paths_copy(char ***out, const char *const *paths, int n_path);

#endif
