/* SPDX-License-Identifier: GPL-3.0-or-later */
/* NVML is the driver's library, so it is looked for when it is wanted: building needs nothing of it. */
#include "kernels/bench/bench.h"
#include "kernels/bench/bench_device.h"

#include <dlfcn.h>
#include <math.h>

typedef int nvml_init(void);
typedef int nvml_handle_by_bus(const char *bus, void **device);
typedef int nvml_total_energy(void *device, unsigned long long *millijoule);

static struct {
    int tried;
    int n_wanted, n_device;
    nvml_total_energy *total_energy; /* NULL: there is none */
    void *device[MSI_BENCH_MAX_GPUS];
} nvml = {.n_wanted = 1};

static int find_device(nvml_handle_by_bus *handle, int device)
{
    char bus[32];
    msi_bench_device_pci_bus(device, bus, sizeof bus);
    return bus[0] && handle(bus, &nvml.device[device]) == 0;
}

static void load(void)
{
    nvml.tried = 1;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return;
    nvml_init *init = (nvml_init *)dlsym(library, "nvmlInit_v2");
    nvml_handle_by_bus *handle = (nvml_handle_by_bus *)dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    nvml_total_energy *energy = (nvml_total_energy *)dlsym(library, "nvmlDeviceGetTotalEnergyConsumption");
    if (!init || !handle || !energy || init() != 0) return;
    while (nvml.n_device < nvml.n_wanted && find_device(handle, nvml.n_device)) nvml.n_device++;
    if (nvml.n_device == nvml.n_wanted) nvml.total_energy = energy;
}

void msi_bench_energy_of(int n_device)
{
    nvml.n_wanted = n_device;
}

double msi_bench_energy_joule(void)
{
    double joule = 0;
    if (!nvml.tried) load();
    if (!nvml.total_energy) return NAN;
    for (int i = 0; i < nvml.n_device; i++) {
        unsigned long long millijoule;
        if (nvml.total_energy(nvml.device[i], &millijoule) != 0) return NAN;
        joule += 1e-3 * (double)millijoule;
    }
    return joule;
}
