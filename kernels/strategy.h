/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of gridders: method x strategy x backend (strategy.c). gridder.c and the tests walk it. */
#ifndef MSI_KERNELS_STRATEGY_H
#define MSI_KERNELS_STRATEGY_H

#include <stddef.h>

#include "kernels/method/method.h"

#ifdef __cplusplus
extern "C" {
#endif

/* msi_strategies - return the table; *n entries, in the order in which AUTO prefers them. */
const msi_strategy *msi_strategies(int *n);

/* msi_strategy_serves - return 1 where a strategy goes that way: predict 0: makes images; 1: predicts visibilities. */
static inline int msi_strategy_serves(const msi_strategy *strategy, int predict)
{
    return predict ? strategy->ops->predict != NULL : strategy->ops->image != NULL;
}

/*
 * msi_strategy_next - walk the rows that serve.
 * Given:   last  the row returned before; NULL: begin
 *          method, name  as msi_gridder_spec has them
 *          predict  as msi_strategy_serves
 * Returns: the next row, NULL past the last
 */
const msi_strategy *msi_strategy_next(const msi_strategy *last, const char *method, const char *name, int predict);

/* msi_strategy_find - find the row of a method, a strategy and CPU or CUDA; NULL where none was compiled in. */
const msi_strategy *msi_strategy_find(const char *method, const char *name, msi_backend backend);

/* msi_strategy_next_for - walk the rows of a name (NULL: any) that a gridder may take, on any backend; as above. */
const msi_strategy *msi_strategy_next_for(const msi_strategy *last, const msi_gridder_spec *spec, const char *name);

/*
 * msi_strategy_first_for - find the first row that is what a specification asks for and works on this machine.
 * Returned: *out  static
 * Returns:  0, MSI_EGPU (a GPU asked for and not there), MSI_ERANGE (no such row)
 */
int msi_strategy_first_for(const msi_strategy **out, const msi_gridder_spec *spec);

/* msi_strategy_check_center - fail where a method cannot image beside the phase centre. Returns: 0, MSI_ERANGE */
int msi_strategy_check_center(const msi_gridder_spec *s, const msi_strategy *strategy);

/* msi_strategy_available - return 1 where this process can use the strategy's backend, else 0. */
int msi_strategy_available(const msi_strategy *strategy);

#ifdef __cplusplus
}
#endif
#endif
