/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A hidden folder beside the output, in which it is made, and from which it gets its name when it is whole. */
#ifndef MSI_SRC_WORKSPACE_H
#define MSI_SRC_WORKSPACE_H

#include <stddef.h>

typedef struct msi_workspace msi_workspace;

/*
 * msi_workspace_check - ask whether an output may be made: its folder can be written, nothing is in its place or may be
 * replaced, and it is none of the inputs, nor in one or around one.
 * Returns: 0, MSI_EUSAGE (it exists, and overwrite is 0), MSI_EOUTPUT
 */
int msi_workspace_check(const char *out, const char *const *inputs, int n_input, int overwrite);

/* msi_workspace_make - make the folder beside the output `path`; a process of its own removes it, should this one be
 * killed. Before any thread is started. Returned: *out  owned, msi_workspace_free. Returns: 0,
 * MSI_EOUTPUT, MSI_ENOMEM. */
int msi_workspace_make(msi_workspace **out, const char *path, int overwrite);

/* msi_workspace_path - return the path of something in the folder. Returns: 0, MSI_EOUTPUT (too long). */
int msi_workspace_path(const msi_workspace *w, const char *name, char *path, size_t size);

/* msi_workspace_folder - return the folder itself; borrowed. */
const char *msi_workspace_folder(const msi_workspace *w);

/*
 * msi_workspace_publish - sync what was made to the disk, and give it the output's name in one step: at any moment
 * either the old output or the new one stands there, whole.
 * Returns: 0, MSI_EOUTPUT (what stands in the output's place is as it was), MSI_EINTERRUPTED
 */
int msi_workspace_publish(msi_workspace *w, const char *name);

/* msi_workspace_free - remove the folder with all that is in it; NULL is fine. */
void msi_workspace_free(msi_workspace *w);

/* msi_workspace_remove - remove a tree of files; what cannot be removed stays. */
void msi_workspace_remove(const char *path);

#endif
