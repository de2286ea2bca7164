/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The team of msimage: one rank. */
#include "src/team/team.h"

void msi_team_begin(msi_team *team)
{
    *team = MSI_TEAM_ALONE;
}
