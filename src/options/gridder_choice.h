/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The options that choose a gridder: their checks, the gridder's specification, and the log line of its plan. */
#ifndef MSI_SRC_GRIDDER_CHOICE_H
#define MSI_SRC_GRIDDER_CHOICE_H

#include "kernels/gridder.h"
#include "src/options/options.h"

/*
 * msi_gridder_choice_methods, msi_gridder_choice_strategies - return the allowed words of -gridder, and those of
 * -strategy for all methods, from the table of strategies.
 * Returns: words separated by |; borrowed, static
 * Notes:   the first call makes the list, and must not run at the same time as another call
 */
const char *msi_gridder_choice_methods(void);
const char *msi_gridder_choice_strategies(void);

/* msi_gridder_choice_check - check that the options of the gridder are compatible. Returns: 0, MSI_EUSAGE */
int msi_gridder_choice_check(const msi_options *options);

/* msi_gridder_choice_accuracy - return the default of -accuracy for a method. */
double msi_gridder_choice_accuracy(const char *method);

/* msi_gridder_choice_spec - return a specification with the members that all gridders of a run share; the others are
 * 0. */
msi_gridder_spec msi_gridder_choice_spec(const msi_options *options);

/* msi_gridder_choice_log - log the line "gridder: .." that describes the plan, and another line if its strategy is not
 * the requested one. */
void msi_gridder_choice_log(const msi_options *options, const msi_gridder_report *report);

#endif
