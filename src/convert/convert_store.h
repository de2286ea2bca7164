/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A visibility store is made of a Measurement Set: one file with what images need, read without casacore. */
#ifndef MSI_SRC_CONVERT_STORE_H
#define MSI_SRC_CONVERT_STORE_H

#include "src/convert/convert_options.h"
#include "src/convert/stage.h"

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

#endif
