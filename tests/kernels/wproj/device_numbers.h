/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Complex numbers of a test on a GPU: double on the host, of a job's precision on the device. Failures end the test. */
#ifndef MSI_TESTS_DEVICE_NUMBERS_H
#define MSI_TESTS_DEVICE_NUMBERS_H

#include "core/types.h"

/* n numbers in -1 .. 1 that are the same in either precision; n zeros. Freed by free. */
msi_c64 *random_numbers(uint64_t *seed, int64_t n);
msi_c64 *zeros(int64_t n);

/* Make copies on the device, freed by cudaFree, and on the host, freed by free. */
void *to_device(const void *from, int64_t bytes);
void *numbers_to_device(const msi_c64 *x, int64_t n, msi_precision precision);
msi_c64 *numbers_to_host(const void *from, int64_t n, msi_precision precision);

#endif
