/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The GPU under the benchmark: what it is, its fp32 peak, its energy. Without CUDA there is none. */
#ifndef MSI_BENCH_DEVICE_H
#define MSI_BENCH_DEVICE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* msi_bench_device_name - return 1 and the name of device 0, or 0 where no GPU can be used. */
int msi_bench_device_name(char *name, size_t size);

/* msi_bench_device_count - count the GPUs. */
int msi_bench_device_count(void);

/* msi_bench_device_fp32_peak - operations a second of a kernel of nothing but independent fp32 multiply-adds, each
 * counted as two. Returns: 0, MSI_EGPU. */
int msi_bench_device_fp32_peak(double *flops);

/* msi_bench_device_wait - wait until the device has done everything given to it. */
void msi_bench_device_wait(void);

/* msi_bench_device_pci_bus - return "0000:c1:00.0" of a device, or "". */
void msi_bench_device_pci_bus(int device, char *bus, int size);

/* msi_bench_energy_of - count the energy of the first n_device GPUs; until then, of one. */
void msi_bench_energy_of(int n_device);

/* msi_bench_energy_joule - read the devices' total-energy counters by NVML, loaded at run time; NaN without any. */
double msi_bench_energy_joule(void);

#ifdef __cplusplus
}
#endif
#endif
