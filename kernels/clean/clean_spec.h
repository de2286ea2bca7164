/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef MSI_CLEAN_SPEC_H
#define MSI_CLEAN_SPEC_H

#include "kernels/clean/clean_state.h"

/*
 * msi_clean_spec_set - check a specification and fill all of a cleaner that follows from it alone.
 * Given:    c  zero; what is taken is given back by msi_clean_spec_release, whatever this returns
 * Returns:  0, MSI_EARGUMENT, MSI_ENOMEM
 */
int msi_clean_spec_set(msi_cleaner *c, const msi_cleaner_spec *spec);
void msi_clean_spec_release(msi_cleaner *c);

/* msi_clean_setup_of_plane - set up an engine that works on one plane of a shape, without lists. */
msi_clean_setup msi_clean_setup_of_plane(const msi_planes_shape *shape, int n_thread);

#endif
