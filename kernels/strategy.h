/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of gridders: method x strategy x backend (strategy.c). gridder.c and the tests walk it. */
#ifndef MSI_KERNELS_STRATEGY_H
#define MSI_KERNELS_STRATEGY_H

#include <stddef.h>

#include "kernels/method/method.h"

#ifdef __cplusplus
extern "C" {
#endif

/* msi_strategies - return the table of *n rows, in the order in which AUTO prefers them. */
const msi_strategy *msi_strategies(int *n);

/* msi_strategy_serves - return 1 if a strategy makes images (predict 0) or predicts visibilities (predict 1). */
static inline int msi_strategy_serves(const msi_strategy *strategy, int predict)
{
    return predict ? strategy->ops->predict != NULL : strategy->ops->image != NULL;
}

/*
 * msi_strategy_next - find the next row of a method and strategy that images or predicts.
 * Given:   last  the row that the previous call returned; NULL: find the first row
 *          method, name  as in msi_gridder_spec
 *          predict  as in msi_strategy_serves
 * Returns: the next row, NULL after the last
 */
const msi_strategy *msi_strategy_next(const msi_strategy *last, const char *method, const char *name, int predict);

/* msi_strategy_find - find the row of a method, a strategy and CPU or CUDA; NULL if it was not compiled in. */
const msi_strategy *msi_strategy_find(const char *method, const char *name, msi_backend backend);

/* msi_strategy_next_for - the same for the method and the direction of a specification, and a strategy of this name;
 * NULL: any. The backend may be any. */
const msi_strategy *msi_strategy_next_for(const msi_strategy *last, const msi_gridder_spec *spec, const char *name);

/*
 * msi_strategy_first_for - find the first row that serves a specification and works on this machine.
 * Returned: *out  static
 * Returns:  0, MSI_EGPU (a GPU was requested and is not available), MSI_ERANGE (no such row)
 */
int msi_strategy_first_for(const msi_strategy **out, const msi_gridder_spec *spec);

/* msi_strategy_check_center - check that a method can image away from the phase centre if needed. Returns: 0,
 * MSI_ERANGE */
int msi_strategy_check_center(const msi_gridder_spec *s, const msi_strategy *strategy);

/* A strategy with its plan, which is NULL after a failure, and its report. */
typedef struct msi_strategy_choice {
    const msi_strategy *strategy;
    msi_plan *plan;
    msi_gridder_report report;
} msi_strategy_choice;

/*
 * msi_strategy_plan - make the plan with the lowest estimated time, of all strategies of a backend that serve the
 * request's specification and whose grids fit into available_bytes; if none fits, the smallest. If the samples have
 * no range of w, a requested strategy that needs one is replaced. If spec.n_tile > 1, the plan is for images in tiles.
 * Given:    report  it is copied to out->report, to which the plan's figures are added
 * Returned: *out  freed by msi_strategy_choice_free
 * Returns:  0, MSI_ERANGE (no plan satisfies the request), MSI_ENOMEM, MSI_EGPU, MSI_EINTERNAL (no strategy)
 */
int msi_strategy_plan(msi_strategy_choice *out, const msi_plan_request *request, msi_backend backend,
                      int64_t available_bytes, const msi_gridder_report *report);
void msi_strategy_choice_free(msi_strategy_choice *choice);

/* msi_strategy_available - return 1 if this process can use the strategy's backend, else 0. */
int msi_strategy_available(const msi_strategy *strategy);

#ifdef __cplusplus
}
#endif
#endif
