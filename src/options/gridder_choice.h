/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Make a gridder of the words of -gridder, -strategy and their like, and a line of the log of a gridder's plan. */
#ifndef MSI_SRC_GRIDDER_CHOICE_H
#define MSI_SRC_GRIDDER_CHOICE_H

#include "kernels/gridder.h"
#include "src/options/options.h"

/*
 * msi_gridder_choice_methods, _strategies - list the words of -gridder, and those of -strategy over all methods, as the
 * table of strategies has them.
 * Returns: words separated by |; borrowed, static
 * Notes:   made at the first call, which must not meet another
 */
const char *msi_gridder_choice_methods(void);
const char *msi_gridder_choice_strategies(void);

/* msi_gridder_choice_check - check whether the words go together. Returns: 0, MSI_EUSAGE */
int msi_gridder_choice_check(const msi_options *options);

/* msi_gridder_choice_accuracy - tell -accuracy's value where it is not given. */
double msi_gridder_choice_accuracy(const char *method);

/* msi_gridder_choice_spec - fill in what all gridders of a run have in common; the rest is zero. */
msi_gridder_spec msi_gridder_choice_spec(const msi_options *options);

/* msi_gridder_choice_print - print the line that begins with "gridder:"; and one that says where another strategy
 * serves than the one that was asked for. */
void msi_gridder_choice_print(const msi_options *options, const msi_gridder_report *report);

#endif
