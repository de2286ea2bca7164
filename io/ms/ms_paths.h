/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files show some faults of Measurement Sets before any is opened. */
#ifndef MSI_IO_MS_PATHS_H
#define MSI_IO_MS_PATHS_H

#include <stdint.h>

/* msi_ms_path_is_table - tell whether a folder looks like one of casacore's tables, as a Measurement Set is: 1, else
 * 0. */
int msi_ms_path_is_table(const char *path);

/* msi_ms_paths_exist - return 1 where each of paths [n_path] looks like a table, or is a file, that can be read, else
 * 0. Sets no message: the reader says what is wrong with one that does not. */
int msi_ms_paths_exist(const char *const *paths, int n_path);

/* msi_ms_paths_same - return 1 where two of paths [n_path] lead to one set. Returned: *a, *b  their indices, a < b. */
int msi_ms_paths_same(const char *const *paths, int n_path, int *a, int *b);

/* msi_ms_paths_bytes - size of the main tables' files, and of files that are no tables, together; subtables are left
 * out, and what cannot be read counts 0. */
int64_t msi_ms_paths_bytes(const char *const *paths, int n_path);

/*
 * msi_ms_paths_copy - copy a list of paths.
 * Returned: *out [n_path]  one block of memory, freed by one msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_paths_copy(char ***out, const char *const *paths, int n_path);

#endif
