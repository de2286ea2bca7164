/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The stages of a conversion. Each runs in a process of its own: casacore may end it, and its end is no more than an
 * error. */
#ifndef MSI_SRC_CONVERT_STAGES_H
#define MSI_SRC_CONVERT_STAGES_H

#include <stdint.h>
#include <sys/types.h>

#include "core/log.h"
#include "src/convert/convert_options.h"
#include "src/convert/uv_file.h"

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

/* ---- One Measurement Set is made of others: selected, averaged, turned, joined ---- */

typedef struct msi_sets_job {
    const msi_convert_options *options;
    const char *const *paths; /* [n_path] */
    int n_path;
    const char *name; /* of the first path as the user knows it, for messages */
    int is_imported;  /* made by msfits: WEIGHT is a sum over channels, and which way uvw point is to be told */
    int is_exported;  /* to UVFITS afterwards, which does not hold every set */
    const char *to;   /* NULL: a dry run */
} msi_sets_job;

/* msi_convert_sets - the work of a stage; job is a msi_sets_job. */
msi_stage_work msi_convert_sets;

/* ---- A visibility store is made of a Measurement Set: one file with what images need, read without casacore ---- */

/* msi_convert_is_store - return 1 where an output's name says that it is to be a visibility store: it ends in .msv. */
int msi_convert_is_store(const char *out);

/* msi_convert_store_check - say which options and inputs a store has no use for. Returns: 0, MSI_EUSAGE. */
int msi_convert_store_check(const msi_convert_options *options);

typedef struct msi_store_job {
    const msi_convert_options *options;
    const char *to; /* NULL: a dry run */
} msi_store_job;

/* msi_convert_store - the work of a stage; job is a msi_store_job. */
msi_stage_work msi_convert_store;

/* ---- Casacore's msfits makes sets of files, with checks before and after, and a set becomes a file ---- */

typedef struct msi_import_job {
    const char *fits, *real_path; /* the file as the user names it, and where it is */
    const char *set;
    const char *folder; /* where the set comes to lie; casacore puts tables of its own there */
    const msi_uv_file *header;
    int64_t memory_bytes; /* that the process may take at most */
} msi_import_job;

typedef struct msi_export_job {
    const char *set, *fits; /* the set has DATA, and rows of selected windows alone */
    const char *name;       /* the output's, for messages */
    const char *command;    /* for HISTORY */
} msi_export_job;

/* msi_import_fits, msi_import_plan, msi_export_fits - works of stages; job is a msi_import_job, a msi_import_job without
 * set and folder, a msi_export_job. The plan looks for what an import would refuse in the file, and warns as it does. */
msi_stage_work msi_import_fits, msi_import_plan, msi_export_fits;

#endif
