/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file lists the tables of rows of this program; a workload is added by its files and its lines here. */
#include "kernels/bench/bench.h"
#include "kernels/bench/clean_rows.h"
#include "kernels/bench/field_rows.h"
#include "kernels/bench/lookup_rows.h"
#include "kernels/bench/workload_el56.h"
#include "kernels/bench/workload_points.h"
#include "kernels/bench/workload_stacks.h"
#include "kernels/bench/workload_tracks.h"

const msi_bench_table *msi_bench_tables(int *n_table)
{
    static msi_bench_table table[16];
    int n = 0;
    table[n++] = msi_el56_rows_cpu();
    table[n++] = msi_el56_rows_cpu_tile();
    table[n++] = msi_default_rows();
    table[n++] = msi_residual_rows();
    table[n++] = msi_team_rows();
    table[n++] = msi_random_rows();
    table[n++] = msi_stacks_rows_cpu();
    table[n++] = msi_clean_rows();
#ifdef MSI_HAVE_CUDA
    table[n++] = msi_el56_rows_cuda();
    table[n++] = msi_el56_window_rows_cuda();
    table[n++] = msi_tracks_rows_cuda();
    table[n++] = msi_lookup_rows_cuda();
    table[n++] = msi_points_rows_cuda();
    table[n++] = msi_stacks_rows_cuda();
#endif
    *n_table = n;
    return table;
}
