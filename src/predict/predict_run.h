/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A run that predicts, as its stages see it: only predict*.c include this. */
#ifndef MSI_SRC_PREDICT_RUN_H
#define MSI_SRC_PREDICT_RUN_H

#include "io/ms/ms_crew.h"
#include "io/ms/ms_reader.h"
#include "io/ms/ms_writer.h"
#include "kernels/gridder.h"
#include "src/model/model_bands.h"
#include "src/model/model_images.h"
#include "src/options/options.h"
#include "src/run/gpu_share.h"
#include "src/predict/predict_plan.h"
#include "src/team/team.h"

typedef struct msi_predict_run {
    const msi_options *options; /* of this rank: own */
    msi_team *team;             /* its ranks write whole sets each */
    const msi_options *all;     /* of the run */
    msi_options own;            /* options, with the sets that this rank writes: perhaps none */
    const char **paths;         /* [own.n_ms] owned */
    const char *column;         /* that is written */
    char input[64];             /* that is read to add to or to subtract from; "" where none is */
    msi_model_images *models;
    double start_s, models_s; /* when it began; when the models were found */
    msi_gpu_share gpus;
    msi_ms_crew *crew;     /* opens and reads the sets */
    msi_ms_writer *writer; /* NULL: this rank has no set */
    int is_stopped;        /* the writer has been, after a failure */
    msi_ms_reader *reader;
    msi_predict_scan scan;
    msi_model_bands bands;
    msi_predict_plan plan;
    msi_gridder **gridder; /* [bands.channels.n] NULL where the band is not used */
    msi_image model;       /* of the only band; empty where there are several */
} msi_predict_run;

#endif
