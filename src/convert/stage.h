/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A stage of a conversion runs in a process of its own: casacore may end it, and its end is no more than an error. */
#ifndef MSI_SRC_STAGE_H
#define MSI_SRC_STAGE_H

#include <stdint.h>
#include <sys/types.h>

#include "core/log.h"

/* The child's side. */
typedef struct msi_stage msi_stage;

/* The work itself, in the child. Returns a status, with its message. */
typedef int msi_stage_work(msi_stage *stage, const void *job);

typedef struct msi_stage_spec {
    msi_stage_work *work;
    const void *job;
    const char *name;   /* for the progress; static */
    const char *path;   /* what is read, for messages */
    const char *folder; /* workspace: removed by the child where the parent is gone; NULL: nothing is written */
    const char *out;    /* what the output is called, for messages; NULL: nothing is written */
    int limits_files;   /* the work limits the size of files, by what it reads */
} msi_stage_spec;

/*
 * msi_stage_run - run the work and wait for its end.
 * Returns: what the work returned, but MSI_EOUTPUT where the workspace cannot be written; MSI_EINPUT or MSI_EOUTPUT
 *          where the process was ended, by what it said last; MSI_EINTERRUPTED, the process ended
 */
int msi_stage_run(const msi_stage_spec *spec);

/* The child calls these: a line of the log; how far the work is, which some times a second is told, and then also looks
 * whether the parent is still there. */
void msi_stage_log(msi_stage *stage, msi_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void msi_stage_warn(msi_stage *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));
void msi_stage_at(msi_stage *stage, int64_t done, int64_t total);

/* msi_stage_socket - return the child's descriptor at whose other end the parent waits for the end of all that have it;
 * msi_stage_beside - name a process that writes for the child, to be ended before the workspace is removed; 0: none. */
int msi_stage_socket(const msi_stage *stage);
void msi_stage_beside(msi_stage *stage, pid_t process);

#endif
