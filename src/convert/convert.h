/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A conversion: which stages it takes, one after another, and the name that its result gets at the end. */
#ifndef MSI_SRC_CONVERT_H
#define MSI_SRC_CONVERT_H

#include "src/convert/convert_options.h"

/*
 * msi_convert - convert the inputs into the output.
 * Returns: 0, MSI_EUSAGE, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM, MSI_ELOCKED, MSI_EINTERRUPTED
 * Notes:   call it from a process of one thread. Until the result is whole, nothing stands or changes at its name.
 */
int msi_convert(const msi_convert_options *options);

#endif
