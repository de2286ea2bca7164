/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pairs w-projection's inner loops with the instruction set that the default gridder's were chosen for. */
#include "kernels/wproj/job/wproj_simd.h"

#include <string.h>

#include "kernels/wgrid/wgrid_simd.h"

extern const msi_wproj_simd_table msi_wproj_simd_table_base;
#ifdef MSI_HAVE_X86_VARIANTS
extern const msi_wproj_simd_table msi_wproj_simd_table_avx2;
extern const msi_wproj_simd_table msi_wproj_simd_table_avx512;
#endif

const msi_wproj_simd_table *msi_wproj_simd(void)
{
#ifdef MSI_HAVE_X86_VARIANTS
    if (strcmp(msi_simd_name(), "avx512") == 0) return &msi_wproj_simd_table_avx512;
    if (strcmp(msi_simd_name(), "avx2") == 0) return &msi_wproj_simd_table_avx2;
#endif
    return &msi_wproj_simd_table_base;
}
