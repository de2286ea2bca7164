/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The failure of one thread, for another: of a parallel loop the first one counts. */
#ifndef MSI_CORE_FIRST_ERROR_H
#define MSI_CORE_FIRST_ERROR_H

#include "core/status.h"

/* Zero-initialised: no failure so far. */
typedef struct msi_first_error {
    int status;        /* of the first failure, set once */
    const char *about; /* as msi_error_about */
    char message[MSI_MESSAGE_BYTES];
} msi_first_error;

/*
 * msi_first_error_keep - keep this thread's failure, unless one is kept already; any number of threads at a time.
 * Given:   status  what the thread failed with; 0 keeps nothing
 */
void msi_first_error_keep(msi_first_error *e, int status);

/* msi_first_error_status - give the first failure's status, 0 while there is none; while other threads keep theirs. */
int msi_first_error_status(const msi_first_error *e);

/*
 * msi_first_error_raise - make the kept failure this thread's, message and all.
 * Notes:   call it once the threads that keep have been joined
 * Returns: its status, 0 where there is none
 */
int msi_first_error_raise(const msi_first_error *e);

#endif
