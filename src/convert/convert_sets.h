/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One Measurement Set is made of others: selected, averaged, turned, joined. */
#ifndef MSI_SRC_CONVERT_SETS_H
#define MSI_SRC_CONVERT_SETS_H

#include "src/convert/convert_options.h"
#include "src/convert/stage.h"

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

#endif
