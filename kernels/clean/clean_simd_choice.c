/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/clean/clean_simd.h"

#include "kernels/method/simd_choice.h"

extern const msi_clean_simd_table msi_clean_simd_table_base, msi_clean_simd_table_avx2, msi_clean_simd_table_avx512;

const msi_clean_simd_table *msi_clean_simd(void)
{
    static const msi_clean_simd_table *const table[MSI_N_SIMD] = MSI_SIMD_TABLES(msi_clean_simd_table);
    return table[msi_simd_best()];
}
