/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef MSI_CLEAN_SPEC_H
#define MSI_CLEAN_SPEC_H

#include "kernels/clean/clean_state.h"

/*
 * msi_clean_spec_set - check a specification and fill all of a cleaner that follows from it alone: no memory is taken.
 * Given:    c  zero
 * Returns:  0, MSI_EARGUMENT
 */
int msi_clean_spec_set(msi_cleaner *c, const msi_cleaner_spec *spec);

#endif
