/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows of whole strategies, by the plan API: a field of SKA-Low, and random inputs. */
#ifndef MSI_BENCH_FIELD_ROWS_H
#define MSI_BENCH_FIELD_ROWS_H

#include "kernels/bench/bench.h"

/* Rows field/, field-small/ and field-8chan/: the default gridder's strategies on the coordinates of rows el56/. */
msi_bench_table msi_default_rows(void);

/* Rows residual/ and residual-small/: a deconvolution's major cycle by the default gridder's strategies. */
msi_bench_table msi_residual_rows(void);

/* Rows team/ and team-small/: images by several GPUs, or several workers of the CPU. */
msi_bench_table msi_team_rows(void);

/* Every strategy and direction on small fields drawn from a seed. */
msi_bench_table msi_random_rows(void);

#endif
