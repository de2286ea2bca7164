/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What this build is. */
#ifndef MSI_SRC_VERSION_H
#define MSI_SRC_VERSION_H

#include <stdio.h>

/* msi_version_print - version, build, libraries, GPU, a line each. Looks for a GPU, which can take a second. */
void msi_version_print(FILE *out);

#endif
