/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Restores an image from files of a residual and a model, without a Measurement Set. */
#ifndef MSI_SRC_RESTORE_H
#define MSI_SRC_RESTORE_H

#include "src/options/options.h"

/*
 * msi_run_restore - run -restore or -restore-list.
 * Returns: 0, MSI_EINPUT (a file is not an image; model and residual do not match; no beam), MSI_EOUTPUT, MSI_EUSAGE,
 *          MSI_ENOMEM,
 *          MSI_EGPU, MSI_EINTERRUPTED
 */
int msi_run_restore(const msi_options *options);

#endif
