/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The loop of a prediction. For each batch of blocks: add coordinates to the gridders, degrid the models, convert the
 * planes to correlations, and send these to the writer.
 */
#ifndef MSI_SRC_PREDICT_LOOP_H
#define MSI_SRC_PREDICT_LOOP_H

#include "io/ms/ms_reader.h"
#include "io/ms/ms_writer.h"
#include "kernels/gridder.h"
#include "src/facets/facet_gridding.h"
#include "src/predict/model_bands.h"
#include "src/predict/predict_beam.h"
#include "src/predict/predict_plan.h"
#include "src/sky/model_images.h"

typedef struct msi_predict_loop {
    msi_ms_reader *reader;
    msi_ms_writer *writer; /* prepared */
    msi_model_images *models;
    const msi_model_bands *bands;
    msi_predict_parts *parts; /* with gridders. The gridder of a single part has its model already; several parts load
                                 their models in the loop */
    const msi_predict_plan *plan;
    const msi_facet_work *facets; /* facets to predict; NULL: predict without facets */
    msi_facet_gains *gains;       /* gains of the facets */
    const msi_image *model;       /* model of a single part, with facets */
    int64_t n_row;                /* total, for progress */
    double no_turn_rad;           /* phase centres at most this far from that of the models need no shift */
    struct {
        int64_t n_row, n_sample, n_batch;
        double read_s, degrid_s, write_s; /* waiting for coordinates; degridding; making correlations and waiting to
                                             write them */
    } done;
} msi_predict_loop;

/*
 * msi_predict_loop_run - predict every row of the reader into the writer.
 * Given and returned: loop  sets the member done
 * Returns:  0, or any code of reader, gridder, models and writer
 */
int msi_predict_loop_run(msi_predict_loop *loop);

#endif
