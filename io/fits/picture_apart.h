/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Drawing in a separate process: with little memory, the libraries that find and draw letters end their process by a
 * signal. Then only the picture is lost. */
#ifndef MSI_PICTURE_APART_H
#define MSI_PICTURE_APART_H

#include "io/fits/publish.h"

/* Draw output i of a plan, which is begun, and write it. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM. */
typedef int (*msi_picture_paint)(msi_publish *p, int i, const void *of);

/*
 * msi_picture_apart - begin output i of a plan, have it drawn by a forked process, and seal it.
 * Given:   of  for paint, which may read all memory of the caller, but change none
 * Returns: 0, MSI_EINTERRUPTED, MSI_EOUTPUT, and MSI_ENOMEM about "picture": there was too little memory, or the process
 *          was ended by a signal
 * Notes:   if no process can be started, the picture is drawn by the caller's.
 */
int msi_picture_apart(msi_publish *p, int i, msi_picture_paint paint, const void *of);

/* msi_picture_never_apart - draw in this process: memory that a network card writes to, as in some MPI
 * jobs, must not be shared with a forked process. */
void msi_picture_never_apart(void);

/*
 * msi_picture_spare - keep the failure of a picture from ending the run: if the status is MSI_ENOMEM about "picture",
 * warn, and drop output i of the plan.
 * Returns: status, or 0
 */
int msi_picture_spare(msi_publish *p, int i, int status);

#endif
