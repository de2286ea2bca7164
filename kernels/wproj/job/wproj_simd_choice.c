/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wproj/job/wproj_simd.h"

#include "kernels/method/simd.h"

extern const msi_wproj_simd_table msi_wproj_simd_table_base, msi_wproj_simd_table_avx2, msi_wproj_simd_table_avx512;

const msi_wproj_simd_table *msi_wproj_simd(void)
{
    static const msi_wproj_simd_table *const table[MSI_N_SIMD] = MSI_SIMD_TABLES(msi_wproj_simd_table);
    return table[msi_simd_best()];
}
