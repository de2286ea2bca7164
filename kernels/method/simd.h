/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inner loops are compiled once for each instruction set; the best one for the processor is chosen at run time. */
#ifndef MSI_SIMD_H
#define MSI_SIMD_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msi_simd { MSI_SIMD_BASE, MSI_SIMD_AVX2, MSI_SIMD_AVX512, MSI_N_SIMD } msi_simd;

/* Initialise an array [MSI_N_SIMD] of pointers to the tables NAME_base, NAME_avx2 .. that were compiled in. */
#ifdef MSI_HAVE_X86_VARIANTS
#define MSI_SIMD_TABLES(name)                                                                                          \
    {                                                                                                                  \
        &name##_base, &name##_avx2, &name##_avx512                                                                     \
    }
#else
#define MSI_SIMD_TABLES(name)                                                                                          \
    {                                                                                                                  \
        &name##_base                                                                                                   \
    }
#endif

/* msi_simd_best - return the instruction set in use: the widest one of the processor, or the one forced by a test. */
msi_simd msi_simd_best(void);

/* msi_simd_name - return its name: base, avx2, avx512. Static. */
const char *msi_simd_name(void);

/* msi_simd_all - list every instruction set that this processor supports, the widest first, for tests. Returns the
 * number. */
int msi_simd_all(msi_simd out[MSI_N_SIMD]);

/* msi_simd_use - force an instruction set, for tests; MSI_N_SIMD: use the best again. */
void msi_simd_use(msi_simd simd);

#ifdef __cplusplus
}
#endif

/*
 * Names and attributes for files that are compiled once for each instruction set: MSI_ISA is its name, MSI_VECTOR_BYTES
 * its vector length. Such a file includes its body once for each precision, with SUFFIX f32 or f64.
 */
#ifdef MSI_ISA
#define MSI_CAT_(a, b, c) a##b##_##c
#define MSI_CAT(a, b, c)  MSI_CAT_(a, b, c)
#define NAME(x)           MSI_CAT(x, , SUFFIX)

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

#endif
