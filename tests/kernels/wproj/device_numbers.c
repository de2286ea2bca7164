/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/kernels/wproj/device_numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime_api.h>
#include <cmocka.h>

#include "tests/support/wgrid_cases.h"

msi_c64 *random_numbers(uint64_t *seed, int64_t n)
{
    msi_c64 *x = calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (msi_c64){(double)(float)(2 * msi_random(seed) - 1), (double)(float)(2 * msi_random(seed) - 1)};
    return x;
}

msi_c64 *zeros(int64_t n)
{
    msi_c64 *x = calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    return x;
}

void *to_device(const void *from, int64_t bytes)
{
    void *p = NULL;
    assert_int_equal(cudaMalloc(&p, (size_t)bytes), cudaSuccess);
    assert_int_equal(cudaMemcpy(p, from, (size_t)bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

void *numbers_to_device(const msi_c64 *x, int64_t n, msi_precision precision)
{
    if (precision == MSI_FP64) return to_device(x, n * (int64_t)sizeof *x);
    msi_c32 *narrow = calloc((size_t)n, sizeof *narrow);
    assert_non_null(narrow);
    for (int64_t i = 0; i < n; i++) narrow[i] = (msi_c32){(float)x[i].re, (float)x[i].im};
    void *p = to_device(narrow, n * (int64_t)sizeof *narrow);
    free(narrow);
    return p;
}

msi_c64 *numbers_to_host(const void *from, int64_t n, msi_precision precision)
{
    msi_c64 *x = zeros(n);
    assert_int_equal(cudaMemcpy(x, from, (size_t)(n * msi_complex_bytes(precision)), cudaMemcpyDeviceToHost),
                     cudaSuccess);
    if (precision == MSI_FP32) {
        msi_c32 *narrow = calloc((size_t)n, sizeof *narrow);
        assert_non_null(narrow);
        memcpy(narrow, x, (size_t)n * sizeof *narrow);
        for (int64_t i = 0; i < n; i++) x[i] = (msi_c64){(double)narrow[i].re, (double)narrow[i].im};
        free(narrow);
    }
    return x;
}
