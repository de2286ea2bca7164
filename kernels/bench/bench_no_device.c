/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The GPU functions of bench.h in a build without CUDA: there is no GPU. */
#include "kernels/bench/bench.h"

#include "core/status.h"

int msi_bench_device_name(char *name, size_t size)
{
    if (size) name[0] = 0;
    return 0;
}

int msi_bench_device_count(void)
{
    return 0;
}

int msi_bench_device_fp32_peak(double *flops)
{
    *flops = 0;
    return msi_error_set(MSI_EGPU, "this program was built without CUDA");
}

void msi_bench_device_wait(void) {}

void msi_bench_device_pci_bus(int device, char *bus, int size)
{
    (void)device;
    if (size) bus[0] = 0;
}
