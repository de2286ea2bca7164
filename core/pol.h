/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names Stokes parameters and correlations. */
#ifndef MSI_CORE_POL_H
#define MSI_CORE_POL_H

#include "core/types.h"

/* msi_pol_name - "I", "XX" ..; "?" for what is none. */
const char *msi_pol_name(msi_pol pol);

#endif
