/* SPDX-License-Identifier: GPL-3.0-or-later */
/* NVML is the driver's library, so it is looked for when it is wanted: building needs nothing of it. */
#include "kernels/bench/bench_device.h"

#include <dlfcn.h>
#include <math.h>

typedef int nvml_init(void);
typedef int nvml_handle_by_bus(const char *bus, void **device);
typedef int nvml_total_energy(void *device, unsigned long long *millijoule);

static struct {
    int tried;
    nvml_total_energy *total_energy;
    void *device;
} nvml;

static void load(void)
{
    char bus[32];
    nvml.tried = 1;
    msi_bench_device_pci_bus(bus, sizeof bus);
    if (!bus[0]) return;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return;
    nvml_init *init = (nvml_init *)dlsym(library, "nvmlInit_v2");
    nvml_handle_by_bus *handle = (nvml_handle_by_bus *)dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    nvml_total_energy *energy = (nvml_total_energy *)dlsym(library, "nvmlDeviceGetTotalEnergyConsumption");
    if (init && handle && energy && init() == 0 && handle(bus, &nvml.device) == 0) nvml.total_energy = energy;
}

double msi_bench_energy_joule(void)
{
    unsigned long long millijoule;
    if (!nvml.tried) load();
    if (!nvml.total_energy || nvml.total_energy(nvml.device, &millijoule) != 0) return NAN;
    return 1e-3 * (double)millijoule;
}
