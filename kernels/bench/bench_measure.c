/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Measure a row: its times, energy and error. NVML is a part of the driver, so it is loaded at run time, and is not
 * needed for building. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/status.h"
#include "kernels/bench/bench.h"

typedef int nvml_init(void);
typedef int nvml_handle_by_bus(const char *bus, void **device);
typedef int nvml_total_energy(void *device, unsigned long long *millijoule);

static struct {
    int tried;
    int n_wanted, n_device;
    nvml_total_energy *total_energy; /* NULL: not available */
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

/* Return the sum of the devices' total-energy counters, from NVML; NaN if not available. */
static double bench_energy_joule(void)
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

/* Longest wait for the next step of the energy counter. */
static const double longest_step_s = 0.5;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

static double sum_ms(const msi_bench_time *t)
{
    return t->sort_ms + t->kernel_ms + t->transform_ms;
}

static int run_once(void *state, msi_bench_result *r, msi_bench_time *t)
{
    memset(t, 0, sizeof *t);
    return r->row->run(state, &r->work, t);
}

static int time_row(void *state, int repeat, msi_bench_result *r)
{
    double sort_ms[MSI_BENCH_MAX_REPEAT], kernel_ms[MSI_BENCH_MAX_REPEAT], transform_ms[MSI_BENCH_MAX_REPEAT],
        all_ms[MSI_BENCH_MAX_REPEAT];
    msi_bench_time t;
    MSI_TRY(run_once(state, r, &t));
    for (int i = 0; i < repeat; i++) {
        MSI_TRY(run_once(state, r, &t));
        sort_ms[i] = t.sort_ms;
        kernel_ms[i] = t.kernel_ms;
        transform_ms[i] = t.transform_ms;
        all_ms[i] = sum_ms(&t);
    }
    r->time.sort_ms = median(sort_ms, repeat);
    r->time.kernel_ms = median(kernel_ms, repeat);
    r->time.transform_ms = median(transform_ms, repeat);
    r->all_ms = median(all_ms, repeat);
    return MSI_OK;
}

/*
 * Run a row until at least min_s have passed and the energy counter changes. The counter changes only some tens of
 * times a second; between two changes, energy and work belong to the same period.
 * Returned: *n  number of runs; *joule  the counter after its change
 */
static int run_to_step(void *state, msi_bench_result *r, double min_s, int64_t *n, double *joule)
{
    const double start = msi_wall_s(), before = bench_energy_joule();
    double passed_s, last_joule = before;
    msi_bench_time t;
    *n = 0;
    do {
        MSI_TRY(run_once(state, r, &t));
        msi_bench_device_wait();
        *n += 1;
        passed_s = msi_wall_s() - start;
        *joule = bench_energy_joule();
        /* A step before min_s have passed is too early; use the next one. */
        if (passed_s < min_s) last_joule = *joule;
    } while (passed_s < min_s || (*joule <= last_joule && passed_s < min_s + longest_step_s));
    return MSI_OK;
}

static int measure_energy(void *state, double energy_s, msi_bench_result *r)
{
    if (energy_s <= 0 || r->row->no_energy || strcmp(r->row->backend, "cuda") != 0 || isnan(bench_energy_joule()))
        return MSI_OK;
    int64_t n;
    double before, after;
    MSI_TRY(run_to_step(state, r, 0, &n, &before));
    MSI_TRY(run_to_step(state, r, energy_s, &n, &after));
    r->joule_per_mvis = (after - before) / ((double)n * 1e-6 * (double)r->work.n_vis);
    return MSI_OK;
}

static int measure(msi_bench_result *r, const msi_bench_options *options, const msi_bench_protocol *protocol)
{
    void *state = NULL;
    int rc = r->row->set_up(&state, r->row, options, &r->work);
    if (!rc) rc = time_row(state, protocol->repeat, r);
    if (!rc) rc = measure_energy(state, protocol->energy_s, r);
    if (!rc && protocol->verify) rc = r->row->verify(state, &r->error);
    r->row->free_state(state);
    return rc;
}

/* Add the figures of one seed. A seed for which the strategy has no plan is skipped. */
static int add_seed(msi_bench_result *r, const msi_bench_options *options)
{
    void *state = NULL;
    msi_bench_work work = {0};
    msi_bench_time t = {0};
    double error = 0;
    int rc = r->row->set_up(&state, r->row, options, &work), is_planned = rc == MSI_OK;
    if (!rc) rc = r->row->run(state, &work, &t);
    if (!rc) rc = r->row->verify(state, &error);
    r->row->free_state(state);
    if (!is_planned && rc == MSI_ERANGE) return MSI_OK;
    MSI_TRY(rc);
    r->n_seed++;
    r->work.n_vis += work.n_vis;
    r->work.n_addition += work.n_addition;
    r->time.sort_ms += t.sort_ms;
    r->time.kernel_ms += t.kernel_ms;
    r->time.transform_ms += t.transform_ms;
    r->all_ms += sum_ms(&t);
    /* A NaN counts as the largest error. */
    if (r->n_seed > 1 && error <= r->error) return MSI_OK;
    if (r->n_seed > 1 && isnan(r->error)) return MSI_OK;
    r->error = error;
    r->at_seed = options->seed;
    memcpy(r->work.note, work.note, sizeof work.note);
    return MSI_OK;
}

static int measure_seeds(msi_bench_result *r, const msi_bench_options *options, int n_seed)
{
    msi_bench_options with_seed = *options;
    char worst[sizeof r->work.note];
    for (int k = 1; k <= n_seed; k++) {
        with_seed.seed = (uint64_t)k;
        MSI_TRY(add_seed(r, &with_seed));
    }
    if (r->n_seed == 0) {
        snprintf(r->work.note, sizeof r->work.note, "no plan: %.140s", msi_error_get());
        return MSI_OK;
    }
    memcpy(worst, r->work.note, sizeof worst);
    snprintf(r->work.note, sizeof r->work.note, "%d of %d seeds; most at %llu: %.120s", r->n_seed, n_seed,
             (unsigned long long)r->at_seed, worst);
    return MSI_OK;
}

int msi_bench_measure(msi_bench_result *r, const msi_bench_options *options, const msi_bench_protocol *protocol)
{
    const msi_bench_row *row = r->row;
    *r = (msi_bench_result){.row = row, .joule_per_mvis = NAN, .error = NAN};
    int rc = row->seeded ? measure_seeds(r, options, protocol->n_seed) : measure(r, options, protocol);
    if (rc)
        *r =
            (msi_bench_result){.row = row, .time = {NAN, NAN, NAN}, .all_ms = NAN, .joule_per_mvis = NAN, .error = NAN};
    return rc;
}

int msi_bench_failed(const msi_bench_result *r, const msi_bench_protocol *protocol)
{
    return (protocol->verify || r->row->seeded) && !(r->error <= r->row->tolerance);
}

/* ---- A build without CUDA has no GPU ---- */

#ifndef MSI_HAVE_CUDA
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
#endif
