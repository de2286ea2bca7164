/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The help of msimage. */
#ifndef MSI_SRC_HELP_H
#define MSI_SRC_HELP_H

#include <stdio.h>

#include "src/options/option_table.h"

/* msi_help_usage - print a short usage, for a command line without arguments. */
void msi_help_usage(FILE *out);

/*
 * msi_help_print - print the help, in lines of at most 100 characters.
 * Given:    topic  the key of a section or the name of an option, with or without dashes; NULL: everything
 * Returns:  0, MSI_EUSAGE (unknown topic)
 * Notes:    write errors are not reported here; check the stream with ferror
 */
int msi_help_print(FILE *out, const char *topic);

/* msi_help_print_option - print the help of one option: its name, arguments, text, choices and default. */
void msi_help_print_option(FILE *out, const msi_option *option);

/* ---- The man page and the shell completions, which the build makes from the option tables ---- */

/* msi_manual_options - print the sections of the man page that describe the options, in man(7) macros. */
void msi_manual_options(FILE *out);

/* msi_manual_bash, msi_manual_zsh - print a completion script. */
void msi_manual_bash(FILE *out);

void msi_manual_zsh(FILE *out);

#endif
