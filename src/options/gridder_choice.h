/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From the words of -gridder, -strategy and their like to a gridder, and from a gridder's plan to a line of the log. */
#ifndef MSI_SRC_GRIDDER_CHOICE_H
#define MSI_SRC_GRIDDER_CHOICE_H

#include "kernels/gridder.h"
#include "src/options/options.h"

/* msi_gridder_choice_check - whether the words go together. Returns: 0, MSI_EUSAGE */
int msi_gridder_choice_check(const msi_options *options);

/* msi_gridder_choice_accuracy - what -accuracy is where it is not given. */
double msi_gridder_choice_accuracy(msi_gridding_method method);

/* msi_gridder_choice_spec - what all gridders of a run have in common; the rest is zero. */
msi_gridder_spec msi_gridder_choice_spec(const msi_options *options);

/* msi_gridder_choice_print - the line that begins with "gridder:". */
void msi_gridder_choice_print(const msi_gridder_report *report);

#endif
