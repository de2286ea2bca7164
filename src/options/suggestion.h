/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Guess what a misspelt option may have meant. */
#ifndef MSI_SRC_SUGGESTION_H
#define MSI_SRC_SUGGESTION_H

enum { MSI_SUGGESTION_SIZE = 128 };

/* The task of CASA's whose parameters are known: what msimage does, or what msimage-convert does. */
typedef enum msi_casa_task { MSI_CASA_TCLEAN, MSI_CASA_MSTRANSFORM } msi_casa_task;

/*
 * msi_suggestion - list the options, WSClean's among them, whose names a misspelt one resembles: letter by letter in
 * each of the words between dashes, whose first letters must agree. Of several equally near ones up to three are named,
 * because options that look alike may mean different things.
 * A parameter of CASA's tclean gets the option of its meaning.
 *
 * Given:    name, without its dashes
 * Returned: out [MSI_SUGGESTION_SIZE], such as "-size" or "-interval or -intervals-out"
 * Returns:  how many are named; 0: none is near, out is ""
 */
int msi_suggestion(char *out, const char *name);

/*
 * msi_suggestion_among - do the same for another program.
 *
 * Given:    task       whose parameters get options of their meaning
 *           option_at  the i-th option's name, "" for none; NULL past the last
 */
int msi_suggestion_among(char *out, const char *name, msi_casa_task task, const char *(*option_at)(int i));

/*
 * msi_suggestion_instead - say what to do in place of a parameter of CASA's that no option stands for.
 *
 * Given:    name, without its dashes
 * Returns:  a sentence without its full stop; NULL: an option stands for it, or it is none of CASA's
 */
const char *msi_suggestion_instead(msi_casa_task task, const char *name);

#endif
