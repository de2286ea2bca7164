/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/store/bucket_simd.h"

#include "kernels/method/simd_choice.h"

extern const msi_bucket_simd_table msi_bucket_simd_table_base, msi_bucket_simd_table_avx2, msi_bucket_simd_table_avx512;

const msi_bucket_simd_table *msi_bucket_simd(void)
{
    static const msi_bucket_simd_table *const table[MSI_N_SIMD] = MSI_SIMD_TABLES(msi_bucket_simd_table);
    return table[msi_simd_best()];
}
