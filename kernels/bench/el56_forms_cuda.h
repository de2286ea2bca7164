/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These are earlier and plainer forms of tile gridding, kept to show what each step is worth. */
#ifndef MSI_BENCH_EL56_FORMS_CUDA_H
#define MSI_BENCH_EL56_FORMS_CUDA_H

#include <cuda_runtime.h>

#include "kernels/bench/el56_buckets_cuda.h"
#include "kernels/bench/workload_el56.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The layout of tabulated kernels in memory. */
typedef enum el56_layout {
    EL56_STRIDED,  /* a quarter of each, u and v at the sub-cell's step: neighbouring cells lie `oversample` apart */
    EL56_QUARTER,  /* a quarter of each, cells of one sub-offset together */
    EL56_FULL,     /* full width for every pair of sub-offsets, u fastest */
    EL56_EVEN,     /* full width for every pair of sub-offsets from 0 on; negative ones are read backwards */
    EL56_SEPARABLE /* one axis */
} el56_layout;

typedef struct el56_tables el56_tables;

/* el56_tables_create - make kernels of the workload in a layout, on the device. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int el56_tables_create(el56_tables **out, const msi_el56 *e, el56_layout layout);
void el56_tables_free(el56_tables *t);

/* el56_grid_naive - run a block for each sample in the order given, additions atomic, indices computed by each. */
int el56_grid_naive(el56_tables *t, const msi_wproj_samples_f32 *samples, msi_c32 *grid, cudaStream_t stream);

/*
 * el56_grid_buckets - warps draw runs of bucket entries, or with fixed a fixed number of warps works on each tile, more
 * in the centre. samples: compute each entry's indices anew from coordinates; NULL: take the list's.
 */
int el56_grid_buckets(el56_tables *t, const el56_buckets *buckets, const msi_wproj_samples_f32 *samples, int fixed,
                      msi_c32 *grid, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
