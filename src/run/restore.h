/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A residual image and a model, of files, to a restored image: without any Measurement Set. */
#ifndef MSI_SRC_RESTORE_H
#define MSI_SRC_RESTORE_H

#include "src/options/options.h"

/*
 * msi_run_restore - do what -restore or -restore-list asks for.
 * Returns: 0, MSI_EINPUT (no image; model and residual that do not fit; no beam), MSI_EOUTPUT, MSI_EUSAGE, MSI_ENOMEM,
 *          MSI_EGPU, MSI_EINTERRUPTED
 */
int msi_run_restore(const msi_options *options);

#endif
