/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Count what the program still holds of the GPU: nothing where there is no GPU backend. */
#ifndef MSI_TESTS_FAILURE_INJECTION_CUDA_H
#define MSI_TESTS_FAILURE_INJECTION_CUDA_H

#include <stdint.h>

/* failure_cuda_live - blocks of device memory and FFT plans made and not freed. */
#ifdef MSI_HAVE_CUDA
int64_t failure_cuda_live(void);
#else
static inline int64_t failure_cuda_live(void)
{
    return 0;
}
#endif

#endif
