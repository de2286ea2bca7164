/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Calls of CASA's tclean as options: `-tclean "tclean(vis='a.ms', ...)"`. Every parameter of tclean is a row of a
 * table. It is mapped to options, accepted because it has no effect here, or refused with a reason. */
#ifndef MSI_SRC_TCLEAN_WORDS_H
#define MSI_SRC_TCLEAN_WORDS_H

#include <stddef.h>

/* A command line. */
typedef struct msi_words {
    int n, capacity;
    char **word; /* [n] and a NULL; owned */
} msi_words;

/*
 * msi_tclean_expand - replace -tclean and its argument by options.
 * Given:    argc, argv  of main
 * Returned: *out  `-like tclean`, the options of the call, the other words of the command line, and the sets of the
 *                 call; freed by msi_words_free. Empty if there is no -tclean
 * Returns:  0, MSI_EUSAGE (the message names the parameter), MSI_ENOMEM
 */
int msi_tclean_expand(msi_words *out, int argc, const char *const *argv);

/* msi_words_free - free the words, and leave the list empty. */
void msi_words_free(msi_words *words);

/* msi_tclean_parameter - return the name of the i-th parameter of tclean; NULL after the last. Returned: *answer
 * "mapped", "accepted" or "refused"; *why  the option, or the reason. */
const char *msi_tclean_parameter(int i, const char **answer, const char **why);

#endif
