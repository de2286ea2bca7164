/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Hints in error messages: io and kernels name the cause of a failure, and hints name the option that helps. */
#ifndef MSI_SRC_HINTS_H
#define MSI_SRC_HINTS_H

#include <time.h>

typedef struct msi_hint_row {
    const char *about; /* the cause, as set by msi_error_about */
    const char *words; /* the advice, with options of the command line */
    int is_input;      /* the data are the cause, not the options */
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
 * msi_hint_append_writer - add to the message of MSI_EINPUT that another process writes, or may have written, into a
 *   set.
 * Given:   status  of the function that failed
 *          paths [n]  of the sets of this run
 *          began  the start of this run; NULL if it writes into the sets itself
 * Returns: status
 */
int msi_hint_append_writer(int status, const char *const *paths, int n, const struct timespec *began);

#endif
