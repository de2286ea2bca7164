/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows clean/ time the minor cycles of deconvolution. */
#ifndef MSI_BENCH_CLEAN_ROWS_H
#define MSI_BENCH_CLEAN_ROWS_H

#include "kernels/bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

msi_bench_table msi_clean_rows(void);

#ifdef __cplusplus
}
#endif
#endif
