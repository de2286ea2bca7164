/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of gridders: method x strategy x backend. strategy.c owns it; gridder.c and the tests walk it. */
#ifndef MSI_KERNELS_STRATEGY_H
#define MSI_KERNELS_STRATEGY_H

#include "kernels/method/method.h"

#ifdef __cplusplus
extern "C" {
#endif

/* msi_strategies - the table; *n entries, in the order in which AUTO prefers them. */
const msi_strategy *msi_strategies(int *n);

/* msi_strategy_available - 1 where this process can use the strategy's backend, else 0. */
int msi_strategy_available(const msi_strategy *strategy);

#ifdef __cplusplus
}
#endif
#endif
