/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Names and attributes for files that are compiled once for each instruction set, with MSI_ISA its name and
 * MSI_VECTOR_BYTES its vector's length, and include a body once for each precision, with SUFFIX f32 or f64.
 */
#ifndef MSI_KERNELS_SIMD_COMPILE_H
#define MSI_KERNELS_SIMD_COMPILE_H

#define MSI_CAT_(a, b, c) a##b##_##c
#define MSI_CAT(a, b, c)  MSI_CAT_(a, b, c)
#define NAME(x)           MSI_CAT(x, , SUFFIX)

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#endif
