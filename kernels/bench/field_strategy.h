/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A strategy of the plan API at work on a field. */
#ifndef MSI_BENCH_FIELD_STRATEGY_H
#define MSI_BENCH_FIELD_STRATEGY_H

#include "kernels/bench/bench.h"
#include "kernels/bench/workload_field.h"
#include "kernels/strategy.h"

typedef struct msi_field_strategy {
    msi_bench_field *field;
    const msi_strategy *strategy;
    msi_gridder_spec spec;
    msi_plan *plan;
    msi_gridder_report report;
    msi_image image; /* result, or model */
    int store_plane[MSI_BENCH_FIELD_PLANES + 1];
    msi_stage_times times; /* of the last run */
    double wall_s;
} msi_field_strategy;

/* Tells what a strategy is to do with a field, whose precision it takes. */
typedef struct msi_field_request {
    const msi_strategy *strategy;
    int predict, psf; /* psf: one more image */
    double accuracy;
    msi_plan_pins pins; /* of its plan */
} msi_field_request;

/*
 * msi_field_strategy_begin - make a plan, and room for what is made.
 * Given:    field  borrowed
 * Returned: *s, freed by msi_field_strategy_end, also after a failure
 * Returns:  0, MSI_ERANGE (no plan), MSI_ENOMEM, MSI_EGPU
 */
int msi_field_strategy_begin(msi_field_strategy *s, msi_bench_field *field, const msi_field_request *request);

/*
 * msi_field_strategy_run - image or predict once.
 * Returned: *time  of the stages; members that no stage fills stay as they are
 * Returns:  0 or what the strategy returns
 */
int msi_field_strategy_run(msi_field_strategy *s, msi_bench_time *time);

/* msi_field_strategy_error - hold the last run against direct sums; relative, of the worst image. Returns: 0,
 * MSI_ENOMEM */
int msi_field_strategy_error(msi_field_strategy *s, double *error);

/* msi_field_strategy_end - free the members; NULL-safe. */
void msi_field_strategy_end(msi_field_strategy *s);

/* msi_field_strategy_row - begin a row of a table: what names its strategy, and no function. */
msi_bench_row msi_field_strategy_row(const msi_strategy *strategy, msi_precision precision, int predict);

/* msi_field_strategy_serves - tell whether a strategy images, or predicts. */
int msi_field_strategy_serves(const msi_strategy *strategy, int predict);

/* msi_field_strategy_additions - count cells that the samples of all images touch, by the widest kernel. */
double msi_field_strategy_additions(const msi_field_strategy *s);

#endif
