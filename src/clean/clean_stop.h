/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Decide when a group's cleaning goes on, goes back, or ends. */
#ifndef MSI_SRC_CLEAN_STOP_H
#define MSI_SRC_CLEAN_STOP_H

#include "src/clean/clean_field.h"

/*
 * msi_clean_judge - decide about a group whose residual is exact.
 * Given:    peak  of the residual, Jy/beam, with its sign; NaN where there is none
 * Given and returned: group  its noise and thresholds are those of this residual; stop is set where it ends
 * Returns:  1 where the last cycle made things worse and is to be taken back
 */
int msi_clean_judge(msi_clean_group *group, const msi_clean_options *options, double peak);

/* msi_clean_judge_minor - the same right after minor iterations, before a residual is made. Returns: as above */
int msi_clean_judge_minor(msi_clean_group *group);

/* msi_clean_final - tell whether the group's threshold is the one at which it ends, or -auto-mask's. */
int msi_clean_is_final(const msi_clean_group *group, const msi_clean_options *options);

#endif
