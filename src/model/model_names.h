/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The models of a run are found among the files of a directory by their names alone. */
#ifndef MSI_SRC_MODEL_NAMES_H
#define MSI_SRC_MODEL_NAMES_H

#include "core/types.h"

/* These numbers say that a file is no channel image but one without a number, or an MFS image. */
enum { MSI_MODEL_NO_CHANNEL = -1, MSI_MODEL_MFS = -2 };

typedef struct msi_model_name {
    char *path;     /* owned by the list */
    int64_t number; /* of a channel image, or one of the above; MFS images that were chosen have no channel */
    msi_pol pol;    /* 0 where the name tells none */
} msi_model_name;

typedef struct msi_model_names {
    int64_t n;
    msi_model_name *list; /* [n] owned; channel images in order, polarisations in that of msi_pol */
} msi_model_names;

/*
 * msi_model_names_find - find the files NAME[-NNNN|-MFS][-POL]-model.fits: channel images where there are any, else
 * those without a channel, else the MFS images.
 * Given:    name  with its folder, if any
 * Returned: *out  freed by msi_model_names_free; empty on failure
 * Returns:  0, MSI_EINPUT (none; channel images and others, of which it is not clear which are meant; a channel that is
 *           left out; a folder that cannot be read), MSI_ENOMEM
 */
int msi_model_names_find(msi_model_names *out, const char *name);

/* msi_model_names_list - list all files of that form, in no order, none chosen. Returns: 0, MSI_EINPUT, MSI_ENOMEM */
int msi_model_names_list(msi_model_names *out, const char *name);

void msi_model_names_free(msi_model_names *names);

#endif
