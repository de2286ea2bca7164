/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stages between files and sets: casacore's msfits makes sets of files, with checks before and after, and a set becomes
 * a file. */
#ifndef MSI_SRC_CONVERT_FITS_H
#define MSI_SRC_CONVERT_FITS_H

#include "src/convert/uv_file.h"
#include "src/convert/stage.h"

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
