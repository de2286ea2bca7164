/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Draws pictures in a separate process. With little memory, the libraries that find and draw letters may end their
 * process by a signal. Then only the picture is lost. */
#ifndef MSI_PICTURE_APART_H
#define MSI_PICTURE_APART_H

#include "io/fits/publish.h"

/* Draws output i of a plan, which has been begun, and writes it. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM. */
typedef int (*msi_picture_paint)(msi_publish *p, int i, const void *of);

/*
 * msi_picture_apart - begin output i of a plan, let a forked process draw it, and seal it.
 * Given:   of  argument of paint, which may read all memory of the caller but cannot change it
 * Returns: 0, MSI_EINTERRUPTED, MSI_EOUTPUT, and MSI_ENOMEM about "picture" (too little memory, or a signal ended the
 *          process)
 * Notes:   if no process can be forked, the calling process draws the picture.
 */
int msi_picture_apart(msi_publish *p, int i, msi_picture_paint paint, const void *of);

/* msi_picture_never_apart - draw in this process from now on. Memory that a network card writes to, as in some MPI
 * jobs, must not be shared with a forked process. */
void msi_picture_never_apart(void);

/*
 * msi_picture_spare - let a run continue if a picture cannot be drawn: if the status is MSI_ENOMEM about "picture", log
 * a warning and drop output i of the plan.
 * Returns: status, or 0
 */
int msi_picture_spare(msi_publish *p, int i, int status);

#endif
