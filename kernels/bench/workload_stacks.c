/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Counts and reference of rows stacks/. */
#include "kernels/bench/workload_stacks.h"

void msi_stacks_counts(msi_stacks_case which, int64_t n, int64_t first_vis[MSI_STACKS_SUBGRIDS + 1])
{
    const int64_t m = MSI_STACKS_SUBGRIDS;
    for (int64_t s = 0; s <= m; s++)
        first_vis[s] = which == MSI_STACKS_GROWING ? m * n * (s * (s + 1)) / (m * (m + 1)) : s * n;
}

msi_c64 msi_stacks_reference(msi_stacks_case which, const int64_t first_vis[MSI_STACKS_SUBGRIDS + 1], int64_t i)
{
    const int64_t size = MSI_STACKS_SIZE;
    int64_t s = 0;
    while (first_vis[s + 1] <= i) s++;
    const msi_stack_uvw uvw = msi_stacks_uvw(which, (uint64_t)i, i - first_vis[s], first_vis[s + 1] - first_vis[s]);
    const msi_stack_place p = msi_stack_locate(&uvw, MSI_STACKS_SIZE);
    const uint64_t row_u = (uint64_t)msi_stack_sub_u(p) * MSI_STACK_TAPS;
    const uint64_t row_v = (uint64_t)msi_stack_sub_v(p) * MSI_STACK_TAPS;
    const uint64_t row_w = (uint64_t)msi_stack_sub_w(p) * MSI_STACK_PLANES;
    msi_c64 sum = {0, 0};
    for (int l = 0; l < MSI_STACK_PLANES; l++)
        for (int k = 0; k < MSI_STACK_TAPS; k++)
            for (int j = 0; j < MSI_STACK_TAPS; j++) {
                const int64_t v = msi_stack_v0(p) + k, u = msi_stack_u0(p) + j;
                const uint64_t cell = (uint64_t)(((s * MSI_STACK_PLANES + l) * size + v) * size + u);
                const double weight = msi_stacks_real(MSI_STACKS_TABLE_U, row_u + (uint64_t)j) *
                                      msi_stacks_real(MSI_STACKS_TABLE_V, row_v + (uint64_t)k) *
                                      msi_stacks_real(MSI_STACKS_TABLE_W, row_w + (uint64_t)l);
                sum.re += weight * msi_stacks_real(MSI_STACKS_GRID, 2 * cell);
                sum.im += weight * msi_stacks_real(MSI_STACKS_GRID, 2 * cell + 1);
            }
    return sum;
}
