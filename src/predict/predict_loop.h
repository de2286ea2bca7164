/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Coordinates in, correlations out: the gridders are filled, degrid, and are drained into the writer, again and again.
 */
#ifndef MSI_SRC_PREDICT_LOOP_H
#define MSI_SRC_PREDICT_LOOP_H

#include "io/ms/ms_reader.h"
#include "io/ms/ms_writer.h"
#include "kernels/gridder.h"
#include "src/predict/model_bands.h"
#include "src/sky/model_images.h"
#include "src/predict/predict_plan.h"

typedef struct msi_predict_loop {
    msi_ms_reader *reader;
    msi_ms_writer *writer; /* prepared */
    msi_model_images *models;
    const msi_model_bands *bands;
    const msi_predict_plan *plan;
    msi_gridder *const *gridder; /* [bands->channels.n] NULL for a band that is not used; the gridder of a lone band
                                    has its model, those of several are given theirs here */
    int64_t n_row;               /* in all, for progress */
    double no_turn_rad;          /* phase centres no farther from the models' are the models' */
    struct {
        int64_t n_row, n_sample, n_filling;
        double read_s, degrid_s, write_s; /* waiting for coordinates, degridding, forming correlations and waiting to
                                             write them */
    } done;
} msi_predict_loop;

/*
 * msi_predict_loop_run - predict every row of the reader into the writer.
 * Given and returned: loop->done counted
 * Returns:  0, or any code of reader, gridder, models and writer
 */
int msi_predict_loop_run(msi_predict_loop *loop);

#endif
