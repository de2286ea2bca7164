/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The man page and the shell completions, which the build makes from the option tables. */
#ifndef MSI_SRC_MANUAL_H
#define MSI_SRC_MANUAL_H

#include <stdio.h>

/* msi_manual_options - print the sections of the man page that describe the options, in man(7) macros. */
void msi_manual_options(FILE *out);

/* msi_manual_bash, msi_manual_zsh - print a completion script. */
void msi_manual_bash(FILE *out);
void msi_manual_zsh(FILE *out);

#endif
