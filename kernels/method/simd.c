/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/method/simd.h"

int msi_simd_all(msi_simd out[MSI_N_SIMD])
{
    int n = 0;
#ifdef MSI_HAVE_X86_VARIANTS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))
        out[n++] = MSI_SIMD_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out[n++] = MSI_SIMD_AVX2;
#endif
    out[n++] = MSI_SIMD_BASE;
    return n;
}

static msi_simd forced = MSI_N_SIMD;

void msi_simd_use(msi_simd simd)
{
    forced = simd;
}

msi_simd msi_simd_best(void)
{
    msi_simd all[MSI_N_SIMD];
    msi_simd_all(all);
    return forced < MSI_N_SIMD ? forced : all[0];
}

const char *msi_simd_name(void)
{
    static const char *const name[MSI_N_SIMD] = {"base", "avx2", "avx512"};
    return name[msi_simd_best()];
}
