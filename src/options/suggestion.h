/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Suggestions for unknown options: similar names, and the counterparts of CASA's parameters. */
#ifndef MSI_SRC_SUGGESTION_H
#define MSI_SRC_SUGGESTION_H

#include <time.h>

enum { MSI_SUGGESTION_SIZE = 128 };

/* The CASA task whose parameters are recognised: tclean for msimage, mstransform for msimage-convert. */
typedef enum msi_casa_task { MSI_CASA_TCLEAN, MSI_CASA_MSTRANSFORM } msi_casa_task;

/*
 * msi_suggestion - list options of msimage and WSClean whose names are similar to an unknown name.
 *
 * Given:    name, without dashes
 * Returned: out [MSI_SUGGESTION_SIZE], such as "-size" or "-interval or -intervals-out"; "" if no name is similar
 * Returns:  the number of names in out, at most 3
 * Notes:    names are compared word by word between the dashes. First letters must agree. If several names are equally
 *           similar, all are listed, because options with similar names may have different meanings. A parameter of
 *           CASA's tclean gets the option of the same meaning.
 */
int msi_suggestion(char *out, const char *name);

/*
 * msi_suggestion_among - list similar options of another program, as msi_suggestion does.
 *
 * Given:    task       parameters of this task get the option of the same meaning
 *           option_at  returns the name of the i-th option, or "" to skip it; NULL past the last
 */
int msi_suggestion_among(char *out, const char *name, msi_casa_task task, const char *(*option_at)(int i));

/*
 * msi_suggestion_advice - return advice for a parameter of CASA that has no corresponding option.
 *
 * Given:    name, without dashes
 * Returns:  a sentence without its full stop; NULL if there is a corresponding option, or if CASA has no such parameter
 */
const char *msi_suggestion_advice(msi_casa_task task, const char *name);

/* ---- Hints in error messages: io and kernels name the cause of a failure, hints name an option that helps ---- */

typedef struct msi_hint_row {
    const char *about; /* cause, as set by msi_error_about */
    const char *words; /* advice, with options of the command line */
    int is_input;      /* 1: the data are the cause, not the options */
} msi_hint_row;

extern const msi_hint_row msi_hint_table[];

extern const int msi_hint_count;

/*
 * msi_hint_append - add a hint to the message of the last failure of this thread.
 * Given:   status  of the function that failed; 0 is allowed and adds nothing
 * Returns: status; MSI_ERANGE becomes MSI_EINPUT if the data are the cause, else MSI_EUSAGE
 */
int msi_hint_append(int status);

/*
 * msi_hint_append_writer - add to the message of MSI_EINPUT that another process is writing into a set, or may have
 * written into it during this run.
 * Given:   status  of the function that failed
 *          paths [n]  of the sets of this run
 *          began  start of this run; NULL if it writes into the sets itself
 * Returns: status
 */
int msi_hint_append_writer(int status, const char *const *paths, int n, const struct timespec *began);

#endif
