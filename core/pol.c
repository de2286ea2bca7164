/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/pol.h"

const char *msi_pol_name(msi_pol pol)
{
    static const char *const names[] = {"?", "I", "Q", "U", "V", "RR", "RL", "LR", "LL", "XX", "XY", "YX", "YY"};
    return names[(int)pol >= MSI_POL_I && pol <= MSI_POL_YY ? pol : 0];
}
