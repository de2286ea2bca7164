/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows lookup/ show the time and the error of kernels looked up at the nearest sub-offset, linearly, or by textures. */
#ifndef MSI_BENCH_LOOKUP_ROWS_H
#define MSI_BENCH_LOOKUP_ROWS_H

#include "kernels/bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

msi_bench_table msi_lookup_rows_cuda(void);

#ifdef __cplusplus
}
#endif
#endif
