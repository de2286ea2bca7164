/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of methods of cleaning: method x backend. */
#ifndef MSI_CLEAN_METHODS_H
#define MSI_CLEAN_METHODS_H

#include "kernels/clean/clean_state.h"

/* msi_clean_method_find - find the row of a method and a backend, AUTO: the first that this process can use; NULL where
 * there is none. */
const msi_clean_method *msi_clean_method_find(const char *name, msi_backend backend);

#endif
