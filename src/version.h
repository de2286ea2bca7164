/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The version and build of the program are printed here. */
#ifndef MSI_SRC_VERSION_H
#define MSI_SRC_VERSION_H

#include <stdio.h>

/*
 * msi_version_print - print version, build, libraries and GPU, a line each.
 * Given: out  open for writing, the caller's; failures to write are left to its ferror
 * Notes: looks for a GPU, which can take a second.
 */
void msi_version_print(FILE *out);

#endif
