/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The only file that knows which instruction sets were compiled in. */
#include "kernels/wgrid/wgrid_simd.h"

extern const msi_simd_table msi_simd_table_base;
#ifdef MSI_HAVE_X86_VARIANTS
extern const msi_simd_table msi_simd_table_avx2;
extern const msi_simd_table msi_simd_table_avx512;
#endif

int msi_simd_all(const msi_simd_table *out[4])
{
    int n = 0;
#ifdef MSI_HAVE_X86_VARIANTS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))
        out[n++] = &msi_simd_table_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out[n++] = &msi_simd_table_avx2;
#endif
    out[n++] = &msi_simd_table_base;
    return n;
}

static const msi_simd_table *forced;

void msi_simd_use(const msi_simd_table *table)
{
    forced = table;
}

const msi_simd_table *msi_simd_best(void)
{
    const msi_simd_table *all[4];
    msi_simd_all(all);
    return forced ? forced : all[0];
}

const char *msi_simd_name(void)
{
    return msi_simd_best()->name;
}
