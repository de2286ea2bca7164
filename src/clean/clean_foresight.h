/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Foresee how much of cleaning is left, by the decay of the residual's peak. */
#ifndef MSI_SRC_CLEAN_FORESIGHT_H
#define MSI_SRC_CLEAN_FORESIGHT_H

#include "src/clean/clean_field.h"

/*
 * msi_clean_cycles_left - foresee a group's major cycles yet to come, if its peak falls in each as in the last one;
 * before the first one, or after one that was taken back, as -mgain asks for.
 * Given:   group      judged by its exact residual
 *          threshold  Jy/beam at which it ends, -auto-mask reached or not; 0: none
 * Returns: 0 where it has stopped, else at least 1, and no more than -nmiter and -niter leave; INFINITY where nothing
 *          limits them
 */
double msi_clean_cycles_left(const msi_clean_group *group, const msi_clean_options *options, double threshold);

#endif
