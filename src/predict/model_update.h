/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * MODEL_DATA after cleaning: predict the written models into the sets, as -predict does. The update process is forked
 * at the start of the run, before any thread starts. It waits until the images are complete, then predicts.
 */
#ifndef MSI_SRC_MODEL_UPDATE_H
#define MSI_SRC_MODEL_UPDATE_H

#include "src/predict/predict.h"
#include "src/sky/stokes.h"

typedef struct msi_model_update msi_model_update;

/* The input of an update. Everything is borrowed. */
typedef struct msi_model_update_spec {
    msi_predict_request predict; /* request for the whole selection, with the name of the run */
    int64_t channels_out, intervals_out;
    int n_term;              /* Taylor terms; 0: none */
    const msi_plane *planes; /* [n_plane] of each output channel */
    int n_plane;
} msi_model_update_spec;

/* The time steps into which the models of an interval are predicted. */
typedef struct msi_model_interval {
    int64_t begin, end; /* as counted by -interval; unused if there is one interval */
    int is_empty;       /* no sample was imaged, so there is no model */
} msi_model_interval;

/*
 * msi_model_update_start - check that the sets can be written and that the models of the run can be identified, and
 * fork. Call it before any thread is started.
 * Given:    forked   as for msi_run_predict; called in the process that predicts
 * Returned: *out     freed by msi_model_update_free; NULL on failure
 * Returns:  0, MSI_EOUTPUT (a set cannot be written), MSI_EINPUT (a set has no column for a model, or files have the
 *           names of models of this run), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_model_update_start(msi_model_update **out, const msi_model_update_spec *spec, void (*forked)(void));

/*
 * msi_model_update_run - predict the models of each interval into its rows. The files of the models must be complete.
 * Given:   interval [intervals_out]
 * Returns: 0, or any code of msi_run_predict; the message says that the images are complete
 */
int msi_model_update_run(msi_model_update *update, const msi_model_interval *interval);

/* msi_model_update_free - end the process; NULL-safe. */
void msi_model_update_free(msi_model_update *update);

#endif
