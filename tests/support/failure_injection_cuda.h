/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Count what the program still holds of the GPU; linked in where there is a GPU backend. */
#ifndef MSI_TESTS_FAILURE_INJECTION_CUDA_H
#define MSI_TESTS_FAILURE_INJECTION_CUDA_H

#include <stdint.h>

/* failure_cuda_live - blocks of device memory and FFT plans made and not freed. */
int64_t failure_cuda_live(void);

#endif
