/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows stacks/: degridding from 32 subgrids of 512 x 512 x 4 cells with separable kernels of 8 x 8 x 4 taps tabulated
 * at 16384 sub-positions, the problem of Adamek 2021 ("Implementation of 3D degridding algorithm on the NVIDIA GPUs
 * using CUDA"). Cells, tables and coordinates are functions of their indices, so that the device computes them, and the
 * reference computes the same values again.
 */
#ifndef MSI_BENCH_WORKLOAD_STACKS_H
#define MSI_BENCH_WORKLOAD_STACKS_H

#include "kernels/bench/workload_tracks.h"
#include "kernels/stacks/stack_degrid_cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MSI_STACKS_TITLE "stacks: degridding from 32 subgrids of 512 x 512 x 4, kernels of 8 x 8 x 4 taps"

enum { MSI_STACKS_SUBGRIDS = 32, MSI_STACKS_SIZE = 512, MSI_STACKS_HALF_CELLS = 240 };

/* Streams of random numbers: msi_points_bits. */
enum { MSI_STACKS_GRID = 21, MSI_STACKS_TABLE_U, MSI_STACKS_TABLE_V, MSI_STACKS_TABLE_W, MSI_STACKS_PLACE };

typedef enum msi_stacks_case {
    MSI_STACKS_RANDOM, /* anywhere within MSI_STACKS_HALF_CELLS of the centre */
    MSI_STACKS_LINE,   /* along the diagonal, with a constant step */
    MSI_STACKS_GROWING /* random; the number of visibilities grows linearly from subgrid to subgrid, from nearly 0 */
} msi_stacks_case;

/* msi_stacks_real - return a number of [-1, 1), exact in float32. */
MSI_HD double msi_stacks_real(uint64_t stream, uint64_t i)
{
    return (double)(msi_points_bits(stream, i) >> 40) * 0x1p-23 - 1;
}

/* msi_stacks_uvw - return the coordinates of visibility i of all, which is number k of n in its subgrid. */
MSI_HD msi_stack_uvw msi_stacks_uvw(msi_stacks_case which, uint64_t i, int64_t k, int64_t n)
{
    const double half = MSI_STACKS_HALF_CELLS, below_one = 1 - 0x1p-14;
    msi_stack_uvw x;
    if (which == MSI_STACKS_LINE) {
        const double step = 1 / (double)n;
        x.u = x.v = half * (2 * (double)k * step - 1);
        x.w = (double)k * step * below_one;
    } else {
        x.u = half * ((double)(msi_points_bits(MSI_STACKS_PLACE, 3 * i) >> 11) * 0x1p-52 - 1);
        x.v = half * ((double)(msi_points_bits(MSI_STACKS_PLACE, 3 * i + 1) >> 11) * 0x1p-52 - 1);
        x.w = (double)(msi_points_bits(MSI_STACKS_PLACE, 3 * i + 2) >> 11) * 0x1p-53 * below_one;
    }
    return x;
}

/* msi_stacks_counts - compute first_vis of a job with a mean of n visibilities for each subgrid. */
void msi_stacks_counts(msi_stacks_case which, int64_t n, int64_t first_vis[MSI_STACKS_SUBGRIDS + 1]);

/* msi_stacks_reference - return visibility i of all, summed in double. */
msi_c64 msi_stacks_reference(msi_stacks_case which, const int64_t first_vis[MSI_STACKS_SUBGRIDS + 1], int64_t i);

msi_bench_table msi_stacks_rows_cpu(void);
msi_bench_table msi_stacks_rows_cuda(void);

#ifdef __cplusplus
}
#endif
#endif
