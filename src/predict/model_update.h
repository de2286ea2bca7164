/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * MODEL_DATA after cleaning: the models that were written are predicted into the sets, as -predict does it. A process
 * for it is forked at the run's beginning, before there are threads, and waits until the images are complete.
 */
#ifndef MSI_SRC_MODEL_UPDATE_H
#define MSI_SRC_MODEL_UPDATE_H

#include "src/options/options.h"

typedef struct msi_model_update msi_model_update;

/* The time steps that an interval's models are predicted into. */
typedef struct msi_model_interval {
    int64_t begin, end; /* as -interval counts them; not looked at where there is one interval alone */
    int is_empty;       /* no sample was imaged: there is no model */
} msi_model_interval;

/*
 * msi_model_update_start - check that the sets may be written and the models told from others, and fork. Before any
 * thread is started.
 * Given:    options  of the run, borrowed
 *           forked   as msi_run_predict, called in the process
 * Returned: *out     freed by msi_model_update_free; NULL on failure
 * Returns:  0, MSI_EOUTPUT (a set cannot be written), MSI_EINPUT (a set is not one to predict into, or models of another
 *           run would be taken for those of this one), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_model_update_start(msi_model_update **out, const msi_options *options, void (*forked)(void));

/*
 * msi_model_update_run - predict the models, which have their names by now: those of each interval into its own rows.
 * Given:   interval [options->intervals_out]
 * Returns: 0, or any code of msi_run_predict; the message says that the images are complete
 */
int msi_model_update_run(msi_model_update *update, const msi_model_interval *interval);

/* msi_model_update_free - end the process; NULL is fine. */
void msi_model_update_free(msi_model_update *update);

#endif
