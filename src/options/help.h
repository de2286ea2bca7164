/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Say what there is to say about msimage's command line. */
#ifndef MSI_SRC_HELP_H
#define MSI_SRC_HELP_H

#include <stdio.h>

/* msi_help_usage - tell how to begin, in a few lines, for a command line without arguments. */
void msi_help_usage(FILE *out);

/*
 * msi_help_print - print the help, at most 100 characters a line.
 * Given:    topic  NULL: all of it; else a section's key or an option's name with or without dashes
 * Returns:  0, MSI_EUSAGE (there is no such topic)
 * Notes:    errors of writing stay with the stream: check it with ferror
 */
int msi_help_print(FILE *out, const char *topic);

#endif
