/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Counts the GPU resources that the program holds; 0 without a GPU backend. */
#ifndef MSI_TESTS_FAILURE_INJECTION_CUDA_H
#define MSI_TESTS_FAILURE_INJECTION_CUDA_H

#include <stdint.h>

/* failure_cuda_live - return the number of blocks of device memory and FFT plans that are not freed. */
#ifdef MSI_HAVE_CUDA
int64_t failure_cuda_live(void);
#else
static inline int64_t failure_cuda_live(void)
{
    return 0;
}
#endif

#endif
