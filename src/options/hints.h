/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tell what a user can do about a failure: io and kernels name the cause, and options answer it. */
#ifndef MSI_SRC_HINTS_H
#define MSI_SRC_HINTS_H

#include <time.h>

typedef struct msi_remedy_row {
    const char *about; /* as msi_error_about has it */
    const char *words; /* what to do, in words of the command line */
    int is_input;      /* sets alone bring it about, whatever is asked for */
} msi_remedy_row;

extern const msi_remedy_row msi_remedy_table[];
extern const int msi_remedy_count;

/*
 * msi_remedy_append - add the remedy for the last failure of this thread to its line.
 * Given:   status  what failed returned; 0 is fine
 * Returns: status; for MSI_ERANGE whose demand it was that is out of range: MSI_EINPUT the sets', else MSI_EUSAGE
 */
int msi_remedy_append(int status);

/*
 * msi_remedy_writer - add to the line of a failure of input that another process writes into a set, where one does or
 * seems to have done.
 * Given:   status  what failed returned; paths [n] of the run's sets; began  when the run did, NULL where it writes into
 *          the sets itself
 * Returns: status
 */
int msi_remedy_writer(int status, const char *const *paths, int n, const struct timespec *began);

#endif
