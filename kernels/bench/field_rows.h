/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows of whole strategies, by the plan API: benchmark E, and random inputs. */
#ifndef MSI_BENCH_FIELD_ROWS_H
#define MSI_BENCH_FIELD_ROWS_H

#include "kernels/bench/bench.h"

/* Benchmark E: the default gridder's strategies on the coordinates of workload A. */
msi_bench_table msi_default_rows(void);

/* Every strategy and direction on small fields drawn from a seed. */
msi_bench_table msi_random_rows(void);

#endif
