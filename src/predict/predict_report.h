/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The log of a run that predicts: its lines of many figures. */
#ifndef MSI_SRC_PREDICT_REPORT_H
#define MSI_SRC_PREDICT_REPORT_H

#include "src/predict/predict_loop.h"
#include "src/predict/predict_run.h"

/* The stages of a prediction ended at these times, by msi_wall_s. */
typedef struct msi_predict_times {
    double start_s, models_s, planned_s, prepared_s, looped_s, finished_s;
} msi_predict_times;

/* Report what is predicted: sets, fields, columns, band, times. */
void msi_predict_report_subject(const msi_predict_run *run);

/* Report memory, disk, the gridder, as planned; what there is to predict; and for a dry run how long it would take. */
void msi_predict_report_plan(const msi_predict_run *run);

/* Report what was written, and the time each stage took. */
void msi_predict_report_done(const msi_predict_run *run, const msi_predict_loop *loop, const msi_predict_times *times);

#endif
