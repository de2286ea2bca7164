/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A run that makes images, as its stages see it: only imaging*.c include this. */
#ifndef MSI_SRC_IMAGING_RUN_H
#define MSI_SRC_IMAGING_RUN_H

#include "io/ms/ms_crew.h"
#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/clean/clean_history.h"
#include "src/clean/clean_mask.h"
#include "src/options/options.h"
#include "src/preprocess/output_channels.h"
#include "src/preprocess/stokes.h"
#include "src/run/block_forming.h"
#include "src/run/gpu_share.h"
#include "src/run/image_writer.h"
#include "src/imaging/imaging_plan.h"
#include "src/predict/model_update.h"
#include "src/run/outputs.h"
#include "src/team/team.h"

typedef struct msi_imaging_run {
    const msi_options *options;
    msi_team *team; /* all of it has the samples and the images together; its first rank writes files */
    msi_plane planes[MSI_MAX_PLANES];
    int n_plane;
    char *temp_dir;               /* owned; for visibilities that exceed the memory limit */
    char weighting[48];           /* in words, for log and headers */
    msi_model_update *update;     /* NULL: MODEL_DATA is left as it is */
    msi_model_interval *modelled; /* [intervals_out] owned; NULL without update */
    msi_gpu_share gpus;
    msi_ms_crew *crew;        /* opens and reads the sets; NULL once all is read */
    msi_block_former *former; /* by which the crew forms what it reads */
    msi_outputs *outputs;     /* of the first rank, as is the writer; NULL on others */
    msi_image_writer *writer;
    msi_clean_mask mask;       /* that the user gives; empty: none */
    msi_clean_history history; /* of all that is cleaned */
    double checkpoint_at_s;    /* when the last one was written */
    int64_t n_kept;            /* samples that were read and kept, over all intervals and channels */
    int64_t n_gridded;         /* those with a weight after weighting */

    /* The rest lives as long as an interval. */
    int64_t interval;
    msi_ms_reader *reader;
    int is_empty; /* no row of the selection lies in the interval: nothing is read, and the images are NaN */
    msi_observation observation;
    double ra_rad, dec_rad; /* the images' centre */
    msi_output_channels channels;
    msi_imaging_plan plan;
    msi_gridder **gridder; /* [channels_out] NULL once it is imaged and not needed any more */
    msi_density **density; /* [channels_out] NULL for natural weights; with -mf-weighting [0] is that of all channels */
    msi_sample_tally tally; /* from here on of all ranks */
    msi_ms_dropped dropped;
    int64_t n_loaded, n_outside; /* samples that the gridders have; that they dropped */
} msi_imaging_run;

#endif
