/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Write what deconvolution says in the log. */
#ifndef MSI_SRC_CLEAN_REPORT_H
#define MSI_SRC_CLEAN_REPORT_H

#include "src/clean/clean_field.h"

/* msi_clean_report_cycle - log a line for each group that made a cycle. Given: label  begins it, such as "channel 3" */
void msi_clean_report_cycle(const char *label, msi_clean_field *field, double minor_s, double major_s);

/* msi_clean_pol_name - name a group of one polarisation: "Q", or "XYi" for the imaginary part of a cross-hand. */
const char *msi_clean_pol_name(const msi_clean_field *field, const msi_clean_group *group);

/* msi_clean_report_back - log a warning: the group's cycle is taken back. */
void msi_clean_report_back(const char *label, const msi_clean_field *field, const msi_clean_group *group);

/* msi_clean_report_left - tell what cycles are foreseen, and how long; nothing where that is one or not known. */
void msi_clean_report_left(const char *label, double n_cycle, double cycle_s);

/* msi_clean_report_end - log a line for each group: why it ended, and what it came to. */
void msi_clean_report_end(const char *label, const msi_clean_field *field);

#endif
