/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows of the benchmark program. Each workload has a file with its rows. A row has functions that set it up, run it
 * once, compare its result with a double-precision reference, and free it. bench_main.c lists the tables of all files.
 */
#ifndef MSI_BENCH_H
#define MSI_BENCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_BENCH_MAX_GPUS = 64 };

typedef struct msi_bench_options {
    const char *layout_dir; /* station tables; NULL: generated ones of the same size and extent */
    double scale;           /* fraction of a workload's visibilities, in (0, 1] */
    int n_gpu;              /* number of workers of rows team/ and team-small/, and of devices of rows -team; 0: 1 */
    int gpu[MSI_BENCH_MAX_GPUS];
    uint64_t seed; /* seed of rows with random inputs, 1 or more */
} msi_bench_options;

/* The work of one run; set_up fills it in. */
typedef struct msi_bench_work {
    int64_t n_vis; /* number of visibilities before merging */
    double
        n_addition; /* complex additions (multiply-adds for degridding) of n_vis, all polarisations, without merging */
    char note[160]; /* remarks, such as the chosen plan; may be empty; run may change it */
} msi_bench_work;

/* Milliseconds of one run: device time where the backend is a GPU, else wall time. */
typedef struct msi_bench_time {
    double sort_ms;      /* everything before the strategy's kernel: coordinates, sort, merge */
    double kernel_ms;    /* gridding or degridding */
    double transform_ms; /* FFTs and w-screens, in rows that have them */
} msi_bench_time;

typedef struct msi_bench_row msi_bench_row;
struct msi_bench_row {
    const char *name;     /* unique; workload/.. */
    const char *workload; /* one line */
    const char *method, *strategy;
    const char *direction; /* "grid", "degrid", "residual": both, or "clean" */
    const char *backend;   /* "cpu" or "cuda" */
    const char *precision; /* "fp32" or "fp64" */
    double tolerance;      /* largest relative L2 error that verify may find */
    const void *detail;    /* parameters of the row for functions that several rows share */
    /* Functions return 0 or a code of core/status.h. set_up: *state is owned by the caller, freed by free_state. */
    int (*set_up)(void **state, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work);
    int (*run)(void *state, msi_bench_work *work, msi_bench_time *time);
    int (*verify)(void *state, double *error);
    void (*free_state)(void *state);
    int seeded;    /* 1: inputs are random, from options->seed; the row is run for each seed, and always verified */
    int no_energy; /* 1: do not measure energy, because much of a run is not timed */
};

typedef struct msi_bench_table {
    const msi_bench_row *row;
    int n_row;
} msi_bench_table;

/* msi_bench_tables - return the tables that this program was built with. */
const msi_bench_table *msi_bench_tables(int *n_table);

/* The measured figures of a row. Figures that do not apply are NaN. */
typedef struct msi_bench_result {
    const msi_bench_row *row;
    msi_bench_work work;
    msi_bench_time time; /* medians; of a seeded row, sums over the seeds */
    double all_ms;       /* median of the sums of a run's times */
    double joule_per_mvis;
    double error;     /* relative L2 error; of a seeded row, the largest */
    int n_seed;       /* seeded rows: number of seeds that have a plan */
    uint64_t at_seed; /* seeded rows: the seed with the largest error */
} msi_bench_result;

/* Options of a measurement. */
typedef struct msi_bench_protocol {
    int repeat;      /* number of runs after the first; their medians are reported */
    int verify;      /* 1: compare the last run with the reference */
    int n_seed;      /* number of seeds of seeded rows */
    double energy_s; /* seconds of runs over which energy is measured; 0: do not measure */
} msi_bench_protocol;

enum { MSI_BENCH_MAX_REPEAT = 1000, MSI_BENCH_MAX_SEED = 10000 };

/*
 * msi_bench_measure - set a row up, run it, compare it with its reference, free it.
 * Given and returned: *r, with its row set; after a failure its figures are NaN
 * Returns: 0, or any code of the row's functions
 */
int msi_bench_measure(msi_bench_result *r, const msi_bench_options *options, const msi_bench_protocol *protocol);

/* msi_bench_failed - return 1 if a row was compared with its reference and its error exceeds its tolerance. */
int msi_bench_failed(const msi_bench_result *r, const msi_bench_protocol *protocol);

/* The machine on which rows were measured. */
typedef struct msi_bench_host {
    char gpu[96]; /* "": no GPU */
    double gpu_fp32_flops;
    char cpu[96];
    int n_thread;
    double scale;
} msi_bench_host;

void msi_bench_print_head(const msi_bench_host *host, int name_width);
void msi_bench_print(const msi_bench_host *host, const msi_bench_result *result, int name_width);

/* msi_bench_write_json - write results to a file. Returns: 0, MSI_EOUTPUT */
int msi_bench_write_json(const char *path, const msi_bench_host *host, const msi_bench_result *result, int n);

/* msi_bench_read - read an earlier run. Returned: *text, freed by msi_free. Returns: 0, MSI_EINPUT, MSI_ENOMEM */
int msi_bench_read(const char *path, char **text);

/*
 * msi_bench_compare - print the times of each row in this and an earlier run, and the rows that only one run has.
 * Seeded rows are not compared.
 * Given:    text        file of the earlier run, from msi_bench_read
 *           result [n]  results of this run
 * Returned: *n_slower   number of rows whose time is more than `factor` times the earlier one
 *           *n_common   number of rows that both runs have
 */
void msi_bench_compare(const char *text, const msi_bench_host *host, const msi_bench_result *result, int n,
                       double factor, int *n_common, int *n_slower);

/* ---- The GPU of the benchmark: its name, fp32 peak and energy ---- */

/* msi_bench_device_name - return 1 and the name of device 0; 0 if no GPU can be used. */
int msi_bench_device_name(char *name, size_t size);

/* msi_bench_device_count - count the GPUs. */
int msi_bench_device_count(void);

/* msi_bench_device_fp32_peak - measure the operations per second of independent fp32 multiply-adds, each counted as
 * two.
 * Returns: 0, MSI_EGPU */
int msi_bench_device_fp32_peak(double *flops);

/* msi_bench_device_wait - wait until the device has finished all its work. */
void msi_bench_device_wait(void);

/* msi_bench_device_pci_bus - return "0000:c1:00.0" of a device, or "". */
void msi_bench_device_pci_bus(int device, char *bus, int size);

/* msi_bench_energy_of - measure the energy of the first n_device GPUs; the default is one. */
void msi_bench_energy_of(int n_device);

/* Random numbers of workloads. They are the same on all machines and for any order of threads. */

/* msi_bench_uniform - return a number in [0, 1): the SplitMix64 hash of a counter. */
static inline double msi_bench_uniform(uint64_t counter)
{
    uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Rows clean/ time the minor cycles of deconvolution. */

msi_bench_table msi_clean_rows(void);

/* Rows lookup/ show the time and the error of kernels looked up at the nearest sub-offset, linearly, or by textures. */

msi_bench_table msi_lookup_rows_cuda(void);

#ifdef __cplusplus
}
#endif
#endif
