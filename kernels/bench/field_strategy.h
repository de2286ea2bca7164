/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A strategy of the plan API at work on a field. */
#ifndef MSI_BENCH_FIELD_STRATEGY_H
#define MSI_BENCH_FIELD_STRATEGY_H

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

/*
 * msi_field_strategy_begin - plan, and room for what is made.
 * Given:    field  borrowed; psf: one more image; accuracy. The field's precision is the strategy's
 * Returned: *s, freed by msi_field_strategy_end, also after a failure
 * Returns:  0, MSI_ERANGE (no plan), MSI_ENOMEM, MSI_EGPU
 */
int msi_field_strategy_begin(msi_field_strategy *s, msi_bench_field *field, const msi_strategy *strategy, int predict,
                             int psf, double accuracy);
int msi_field_strategy_run(msi_field_strategy *s);
int msi_field_strategy_error(msi_field_strategy *s, double *error);
void msi_field_strategy_end(msi_field_strategy *s);

/* msi_field_strategy_additions - cells that the samples of all images touch, by the widest kernel. */
double msi_field_strategy_additions(const msi_field_strategy *s);

#endif
