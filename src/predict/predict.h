/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Predict the visibilities of model images into Measurement Sets. */
#ifndef MSI_SRC_PREDICT_H
#define MSI_SRC_PREDICT_H

#include "io/ms/ms_reader.h"
#include "io/ms/ms_writer.h"
#include "kernels/gridder.h"
#include "src/facets/facet_gains.h"
#include "src/options/options.h"
#include "src/run/ranks.h"
#include "src/sky/model_images.h"

/* The parameters of a prediction, from the command line or from an imaging run for MODEL_DATA. Pointers are
 * borrowed. */
typedef struct msi_predict_request {
    const char *const *ms_paths; /* [n_ms] */
    int n_ms;
    msi_ms_selection selection;
    const char *name; /* prefix of the models */
    msi_model_wanted wanted;
    const char *column; /* the column to write */
    msi_ms_write_op op;
    msi_model_interpolation interpolation;
    int drop_old;               /* 1: remove columns that former predictions renamed */
    int force;                  /* 1: also predict a model that probably does not belong to the sets */
    int dry_run;                /* 1: plan only */
    const char *beam;           /* value of -pb: multiply the models by this primary beam; NULL: do not */
    msi_gridder_spec gridder;   /* members that all gridders have in common */
    const msi_options *options; /* options of the whole run, for facets, GPUs, ranks and the log */
    msi_facet_gains *gains;     /* gains of facets that are already open; NULL: open those of the options, if any */
} msi_predict_request;

/*
 * msi_run_predict - write the visibilities of the models into every set.
 *
 * Given:   ranks   begun; every rank calls this function with the same options. NULL: one rank
 *          forked  called after the last fork of this function; threads may start after it. NULL: none
 * Returns: 0 or any code of core/status.h
 * Notes:   call it in a process of one thread, without a GPU context or an open table. A lock that another thread holds
 *          during the fork, such as one of the allocator, would never be released in the forked process.
 */
int msi_run_predict(const msi_options *options, msi_ranks *ranks, void (*forked)(void));

/* msi_run_predict_request - the same for a request. */
int msi_run_predict_request(const msi_predict_request *request, msi_ranks *ranks, void (*forked)(void));

#endif
