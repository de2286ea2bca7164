/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The regret of a plan: how much longer the one that the cost model chooses takes than the best of all that reach the
 * accuracy. Plans of the default gridder differ by strategy, window and subgrids; each is run, and its time stands
 * beside the model's.
 */
#ifndef MSI_BENCH_PLAN_REGRET_H
#define MSI_BENCH_PLAN_REGRET_H

#include "kernels/bench/bench.h"
#include "kernels/bench/field_strategy.h"

typedef struct msi_plan_regret msi_plan_regret;

/*
 * msi_plan_regret_begin - list the plans for a field.
 * Given:    field  borrowed; backend, predict, psf, accuracy as msi_field_strategy_begin has them
 * Returned: *out, freed by msi_plan_regret_end, also after a failure
 * Returns:  0, MSI_ERANGE (no plan), MSI_ENOMEM, MSI_EGPU
 */
int msi_plan_regret_begin(msi_plan_regret **out, msi_bench_field *field, const msi_field_request *wanted);

/*
 * msi_plan_regret_run - run every plan that the model does not take for far worse than the chosen one, a few times, and
 * print its least time; later calls run the chosen one alone.
 * Returned: *time  of the chosen plan; work->note: the regret
 * Returns:  0, what the strategies return
 */
int msi_plan_regret_run(msi_plan_regret *r, msi_bench_work *work, msi_bench_time *time);

/*
 * msi_plan_regret_row - make a row one that runs all plans: of its functions those behind set_up, which leaves an
 * msi_plan_regret as the state. It verifies nothing: rows of one strategy hold results against direct sums.
 */
void msi_plan_regret_row(msi_bench_row *row);

/* msi_plan_regret_measured - tell by what part the chosen plan took longer than the best one. */
double msi_plan_regret_measured(const msi_plan_regret *r);

/* msi_plan_regret_end - NULL-safe. */
void msi_plan_regret_end(msi_plan_regret *r);

#endif
