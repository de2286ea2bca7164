/* SPDX-License-Identifier: GPL-3.0-or-later */
/* msimage-bench: times gridders and degridders on fixed workloads, each held against a double-precision reference. */
#include <fnmatch.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/bench.h"
#include "kernels/bench/bench_device.h"
#include "kernels/strategy.h"

enum { MAX_REPEAT = 1000, SLOWER_EXIT = 1 };

/* Work that the energy counter, read some tens of times a second, needs to see. */
static const double energy_s = 0.5;

static const char usage[] =
    "usage: msimage-bench [options]\n"
    "Times the gridders and degridders of msimage on fixed workloads; needs no Measurement Set.\n"
    "  -list           what there is: gridders, strategies, directions and backends; then the rows\n"
    "  -run PATTERN    the rows whose name contains PATTERN, or matches it where it has * ? or [ (default: all)\n"
    "  -layouts DIR    folder of station tables; without it procedural arrays of the same size and extent\n"
    "  -scale F        that fraction of the visibilities, 0 < F <= 1 (default 1)\n"
    "  -repeat N       runs of a row after the first; their medians count (default 5)\n"
    "  -verify         hold every row against the reference in double precision\n"
    "  -json FILE      write the results\n"
    "  -compare FILE   print ratios to an earlier run's results; exit 1 when a row is slower than\n"
    "  -factor X       X times its earlier time (default 1.1)\n"
    "  -help           this text\n";

typedef struct settings {
    msi_bench_options bench;
    const char *pattern, *json, *compare;
    double factor;
    int repeat, verify, list, help;
} settings;

static int parse_number(const char *option, const char *text, double low, double high, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || *end || !(*out >= low && *out <= high))
        return msi_error_set(MSI_EUSAGE, "%s: '%s' is not a number from %g to %g", option, text, low, high);
    return MSI_OK;
}

static int parse(settings *s, int argc, char **argv)
{
    double repeat = s->repeat;
    const struct {
        const char *name;
        int *flag;
        const char **text;
        double *number;
        double low, high;
    } option[] = {{"list", &s->list, NULL, NULL, 0, 0},
                  {"help", &s->help, NULL, NULL, 0, 0},
                  {"verify", &s->verify, NULL, NULL, 0, 0},
                  {"run", NULL, &s->pattern, NULL, 0, 0},
                  {"layouts", NULL, &s->bench.layout_dir, NULL, 0, 0},
                  {"json", NULL, &s->json, NULL, 0, 0},
                  {"compare", NULL, &s->compare, NULL, 0, 0},
                  {"scale", NULL, NULL, &s->bench.scale, 1e-9, 1},
                  {"repeat", NULL, NULL, &repeat, 1, MAX_REPEAT},
                  {"factor", NULL, NULL, &s->factor, 1e-3, 1e6}};
    const int n_option = sizeof option / sizeof option[0];
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i][0] == '-' ? argv[i] + 1 + (argv[i][1] == '-') : "";
        int k = 0;
        while (k < n_option && strcmp(name, option[k].name) != 0) k++;
        if (k == n_option) return msi_error_set(MSI_EUSAGE, "'%s' is not an option; see -help", argv[i]);
        if (option[k].flag) {
            *option[k].flag = 1;
            continue;
        }
        if (i + 1 == argc) return msi_error_set(MSI_EUSAGE, "%s needs a value", argv[i]);
        i++;
        if (option[k].text) *option[k].text = argv[i];
        if (option[k].number) MSI_TRY(parse_number(name, argv[i], option[k].low, option[k].high, option[k].number));
    }
    s->repeat = (int)repeat;
    return MSI_OK;
}

static int chosen(const char *pattern, const char *name)
{
    if (!pattern) return 1;
    return strpbrk(pattern, "*?[") ? fnmatch(pattern, name, 0) == 0 : strstr(name, pattern) != NULL;
}

static void list(const char *pattern)
{
    int n;
    const msi_strategy *strategy = msi_strategies(&n);
    puts("Gridders: method, strategy, directions, backend");
    for (int i = 0; i < n; i++)
        printf("  %-8s %-10s %-12s %s\n", strategy[i].method, strategy[i].name,
               strategy[i].image && strategy[i].predict ? "grid,degrid"
               : strategy[i].image                      ? "grid"
                                                        : "degrid",
               strategy[i].backend == MSI_BACKEND_CUDA ? "cuda" : "cpu");
    const msi_bench_table *table = msi_bench_tables(&n);
    const char *workload = "";
    for (int t = 0; t < n; t++)
        for (int i = 0; i < table[t].n_row; i++) {
            const msi_bench_row *r = &table[t].row[i];
            if (!chosen(pattern, r->name)) continue;
            if (strcmp(workload, r->workload) != 0) printf("%s\n", r->workload);
            workload = r->workload;
            printf("  %-44s %-8s %-10s %-6s %-4s %s\n", r->name, r->method, r->strategy, r->direction, r->backend,
                   r->precision);
        }
}

static void describe_host(msi_bench_host *host, double scale)
{
    memset(host, 0, sizeof *host);
    host->n_thread = omp_get_max_threads();
    host->scale = scale;
    snprintf(host->cpu, sizeof host->cpu, "unknown");
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        const char *value = strncmp(line, "model name", 10) ? NULL : strchr(line, ':');
        if (!value) continue;
        snprintf(host->cpu, sizeof host->cpu, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
        break;
    }
    if (f) fclose(f);
    if (msi_bench_device_name(host->gpu, sizeof host->gpu) && msi_bench_device_fp32_peak(&host->gpu_fp32_flops) != 0)
        host->gpu[0] = 0;
}

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

static int time_row(void *state, int repeat, msi_bench_result *r)
{
    double sort_ms[MAX_REPEAT], kernel_ms[MAX_REPEAT], all_ms[MAX_REPEAT];
    msi_bench_time t;
    MSI_TRY(r->row->run(state, &r->work, &t));
    for (int i = 0; i < repeat; i++) {
        MSI_TRY(r->row->run(state, &r->work, &t));
        sort_ms[i] = t.sort_ms;
        kernel_ms[i] = t.kernel_ms;
        all_ms[i] = t.sort_ms + t.kernel_ms;
    }
    r->time.sort_ms = median(sort_ms, repeat);
    r->time.kernel_ms = median(kernel_ms, repeat);
    r->all_ms = median(all_ms, repeat);
    return MSI_OK;
}

static int measure_energy(void *state, msi_bench_result *r)
{
    if (strcmp(r->row->backend, "cuda") != 0 || isnan(msi_bench_energy_joule())) return MSI_OK;
    msi_bench_time t;
    msi_bench_device_wait();
    int n = 0;
    double before = msi_bench_energy_joule(), start = msi_wall_s();
    while (msi_wall_s() - start < energy_s) {
        MSI_TRY(r->row->run(state, &r->work, &t));
        n++;
    }
    msi_bench_device_wait();
    r->joule_per_mvis = (msi_bench_energy_joule() - before) / (n * 1e-6 * (double)r->work.n_vis);
    return MSI_OK;
}

static int run_row(const settings *s, msi_bench_result *r)
{
    void *state = NULL;
    int status = r->row->set_up(&state, r->row, &s->bench, &r->work);
    if (status == MSI_OK) status = time_row(state, s->repeat, r);
    if (status == MSI_OK) status = measure_energy(state, r);
    if (status == MSI_OK && s->verify) status = r->row->verify(state, &r->error);
    r->row->free_state(state);
    return status;
}

static int run_rows(const settings *s, const msi_bench_host *host, msi_bench_result *result, int *n_result, int *n_bad)
{
    int n_table, name_width = 4;
    const msi_bench_table *table = msi_bench_tables(&n_table);
    *n_result = *n_bad = 0;
    for (int t = 0; t < n_table; t++)
        for (int i = 0; i < table[t].n_row; i++) {
            const msi_bench_row *row = &table[t].row[i];
            if (!chosen(s->pattern, row->name) || (strcmp(row->backend, "cuda") == 0 && !host->gpu[0])) continue;
            result[*n_result] = (msi_bench_result){.row = row, .joule_per_mvis = NAN, .error = NAN};
            *n_result += 1;
            if ((int)strlen(row->name) > name_width) name_width = (int)strlen(row->name);
        }
    if (*n_result == 0)
        return msi_error_set(MSI_EUSAGE, "no row that can run here is named '%s'; see -list",
                             s->pattern ? s->pattern : "");
    msi_bench_print_head(host, name_width);
    for (int i = 0; i < *n_result; i++) {
        MSI_TRY(run_row(s, &result[i]));
        msi_bench_print(host, &result[i], name_width);
        if (s->verify && !(result[i].error <= result[i].row->tolerance)) {
            *n_bad += 1;
            printf("  ERROR: relative L2 error %.2e, allowed %.1e\n", result[i].error, result[i].row->tolerance);
        }
    }
    return MSI_OK;
}

static int bench(const settings *s, int *exit_code)
{
    int n_table, n_row = 0, n_result, n_bad, n_common, n_slower = 0;
    const msi_bench_table *table = msi_bench_tables(&n_table);
    for (int t = 0; t < n_table; t++) n_row += table[t].n_row;
    msi_bench_result *result;
    MSI_TRY(msi_alloc(&result, n_row, sizeof *result, "results"));
    msi_bench_host host;
    describe_host(&host, s->bench.scale);
    int status = run_rows(s, &host, result, &n_result, &n_bad);
    if (status == MSI_OK && s->json) status = msi_bench_write_json(s->json, &host, result, n_result);
    if (status == MSI_OK && s->compare)
        status = msi_bench_compare(s->compare, result, n_result, s->factor, &n_common, &n_slower);
    msi_free(result);
    *exit_code = n_slower > 0 ? SLOWER_EXIT : 0;
    if (status == MSI_OK && n_bad > 0)
        return msi_error_set(MSI_EINTERNAL, "%d rows err more than they may against the reference", n_bad);
    return status;
}

int main(int argc, char **argv)
{
    settings s = {.bench = {.scale = 1}, .factor = 1.1, .repeat = 5};
    int exit_code = 0, status = parse(&s, argc, argv);
    if (status == MSI_OK && s.help)
        fputs(usage, stdout);
    else if (status == MSI_OK && s.list)
        list(s.pattern);
    else if (status == MSI_OK)
        status = bench(&s, &exit_code);
    if (status != MSI_OK) {
        fprintf(stderr, "msimage-bench: error: %s\n", msi_error_get());
        return msi_exit_code(status);
    }
    return exit_code;
}
