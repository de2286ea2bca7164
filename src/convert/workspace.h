/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A hidden directory next to the output, in which the output is made. When it is complete, it is renamed to its final
 * name. */
#ifndef MSI_SRC_WORKSPACE_H
#define MSI_SRC_WORKSPACE_H

#include <stddef.h>

typedef struct msi_workspace msi_workspace;

/*
 * msi_workspace_check - check that an output may be made: its directory is writable, no file is replaced without
 * overwrite, and it is not an input, nor inside or around one.
 * Returns: 0, MSI_EUSAGE (it exists, and overwrite is 0), MSI_EOUTPUT
 */
int msi_workspace_check(const char *out, const char *const *inputs, int n_input, int overwrite);

/*
 * msi_workspace_make - make the directory next to the output `path`.
 * Returned: *out  owned, msi_workspace_free
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 * Notes:    a child process removes the directory if this process is killed; call it before any thread is started.
 */
int msi_workspace_make(msi_workspace **out, const char *path, int overwrite);

/* msi_workspace_path - write the path of a file in the directory. Returns: 0, MSI_EOUTPUT (too long). */
int msi_workspace_path(const msi_workspace *w, const char *name, char *path, size_t size);

/* msi_workspace_folder - return the path of the directory; borrowed. */
const char *msi_workspace_folder(const msi_workspace *w);

/*
 * msi_workspace_publish - sync a file or set of the directory to the disk, and rename it to the output in one step: at
 * any time either the complete old output or the complete new one exists.
 * Returns: 0, MSI_EOUTPUT (an old output is unchanged), MSI_EINTERRUPTED
 */
int msi_workspace_publish(msi_workspace *w, const char *name);

/* msi_workspace_free - remove the directory and its contents; NULL is allowed. */
void msi_workspace_free(msi_workspace *w);

/* msi_workspace_remove - remove a tree of files as far as possible. */
void msi_workspace_remove(const char *path);

#endif
