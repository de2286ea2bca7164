/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * msimage-bench: time gridders and degridders on fixed workloads, and compare results with a reference in double
 * precision. msi_bench_tables lists the tables of rows; a new workload needs a file and a line there.
 */
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"
#include "kernels/bench/bench.h"
#include "kernels/bench/field_rows.h"
#include "kernels/bench/workload_el56.h"
#include "kernels/bench/workload_stacks.h"
#include "kernels/bench/workload_tracks.h"
#include "kernels/strategy.h"

/* ---- Reports ---- */

/* Print the table of results, write results as JSON, and compare them with the JSON of an earlier run. */

enum { MOST_BYTES = 16 << 20, FLOPS_AN_ADDITION = 8, LONGEST_NAME = 64 };

void msi_bench_print_head(const msi_bench_host *host, int name_width)
{
    if (host->gpu[0]) printf("GPU: %s, %.1f TFLOP/s of fp32 multiply-adds\n", host->gpu, 1e-12 * host->gpu_fp32_flops);
    printf("CPU: %s, %d threads\n", host->cpu, host->n_thread);
    if (host->scale < 1) printf("Scale: %g of the visibilities of every workload\n", host->scale);
    printf("%-*s %9s %9s %9s %9s %9s %9s %6s %8s %8s  %s\n", name_width, "row", "sort ms", "kernel ms", "FFT ms",
           "all ms", "Mvis/s", "GGPA/s", "% peak", "J/Mvis", "error", "note");
}

/* Print a figure in a column; a dash if it does not apply. */
static void print_figure(int width, int digits, double x)
{
    if (isfinite(x))
        printf(" %*.*f", width, digits, x);
    else
        printf(" %*s", width, "-");
}

void msi_bench_print(const msi_bench_host *host, const msi_bench_result *r, int name_width)
{
    double rate = r->work.n_addition / (1e-3 * r->time.kernel_ms);
    int on_gpu = strcmp(r->row->backend, "cuda") == 0;
    printf("%-*s", name_width, r->row->name);
    print_figure(9, 3, r->time.sort_ms);
    print_figure(9, 3, r->time.kernel_ms);
    print_figure(9, 3, r->time.transform_ms > 0 ? r->time.transform_ms : NAN);
    print_figure(9, 3, r->all_ms);
    print_figure(9, 1, 1e-3 * (double)r->work.n_vis / (r->time.sort_ms + r->time.kernel_ms));
    print_figure(9, 1, 1e-9 * rate);
    print_figure(6, 1,
                 on_gpu && host->gpu_fp32_flops > 0 ? 100 * FLOPS_AN_ADDITION * rate / host->gpu_fp32_flops : NAN);
    print_figure(8, 4, r->joule_per_mvis);
    if (isfinite(r->error))
        printf(" %8.1e", r->error);
    else
        printf(" %8s", "-");
    printf("  %s\n", r->work.note);
    fflush(stdout);
}

static void write_number(FILE *f, const char *name, double x)
{
    if (isfinite(x))
        fprintf(f, ", \"%s\": %.6g", name, x);
    else
        fprintf(f, ", \"%s\": null", name);
}

static void write_string(FILE *f, const char *name, const char *text)
{
    fprintf(f, "\"%s\": \"", name);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', f);
        fputc((unsigned char)*text < 32 ? ' ' : *text, f);
    }
    fputc('"', f);
}

static void write_row(FILE *f, const msi_bench_result *r)
{
    fputs("  {", f);
    write_string(f, "name", r->row->name);
    fputs(", ", f);
    write_string(f, "method", r->row->method);
    fputs(", ", f);
    write_string(f, "strategy", r->row->strategy);
    fputs(", ", f);
    write_string(f, "direction", r->row->direction);
    fputs(", ", f);
    write_string(f, "backend", r->row->backend);
    fputs(", ", f);
    write_string(f, "precision", r->row->precision);
    write_number(f, "n_vis", (double)r->work.n_vis);
    write_number(f, "n_addition", r->work.n_addition);
    write_number(f, "sort_ms", r->time.sort_ms);
    write_number(f, "kernel_ms", r->time.kernel_ms);
    write_number(f, "transform_ms", r->time.transform_ms);
    write_number(f, "all_ms", r->all_ms);
    write_number(f, "joule_per_mvis", r->joule_per_mvis);
    write_number(f, "error", r->error);
    write_number(f, "tolerance", r->row->tolerance);
    if (r->row->seeded) write_number(f, "seeds", r->n_seed);
    fputs(", ", f);
    write_string(f, "note", r->work.note);
    fputc('}', f);
}

int msi_bench_write_json(const char *path, const msi_bench_host *host, const msi_bench_result *result, int n)
{
    FILE *f = fopen(path, "w");
    if (!f) return msi_error_set(MSI_EOUTPUT, "%s: %s", path, strerror(errno));
    fputs("{", f);
    write_string(f, "gpu", host->gpu);
    fputs(", ", f);
    write_string(f, "cpu", host->cpu);
    write_number(f, "threads", host->n_thread);
    write_number(f, "gpu_fp32_flops", host->gpu_fp32_flops);
    write_number(f, "scale", host->scale);
    fputs(", \"rows\": [\n", f);
    for (int i = 0; i < n; i++) {
        write_row(f, &result[i]);
        fputs(i + 1 < n ? ",\n" : "\n", f);
    }
    fputs("]}\n", f);
    int failed = ferror(f);
    if (fclose(f) || failed) return msi_error_set(MSI_EOUTPUT, "%s: cannot write: %s", path, strerror(errno));
    return MSI_OK;
}

/* Find the value after a key and its colon; NULL: not found. Files are written by this program, but may be
 * reformatted. */
static const char *value_of(const char *text, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *at = strstr(text, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    return at + strspn(at, " \t\r\n:");
}

int msi_bench_read(const char *path, char **text)
{
    FILE *f = fopen(path, "r");
    if (!f) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    int rc = msi_alloc(text, MOST_BYTES + 1, 1, "earlier results");
    if (!rc && (fread(*text, 1, MOST_BYTES, f) == MOST_BYTES || ferror(f)))
        rc = msi_error_set(MSI_EINPUT, "%s: %s", path, ferror(f) ? strerror(errno) : "too long to be results");
    fclose(f);
    if (!rc && !value_of(*text, "rows")) rc = msi_error_set(MSI_EINPUT, "%s: not a file that -json wrote", path);
    if (rc) {
        msi_free(*text);
        *text = NULL;
    }
    return rc;
}

static int is_string(const char *value, const char *text)
{
    size_t n = strlen(text);
    return value && value[0] == '"' && strncmp(value + 1, text, n) == 0 && value[n + 1] == '"';
}

/* Find the text after a row's name in the file; NULL: not found. */
static const char *find_row(const char *text, const char *name)
{
    for (const char *at = value_of(text, "name"); at; at = value_of(at, "name"))
        if (is_string(at, name)) return at;
    return NULL;
}

/* Print differences of the machine or the workload that make times incomparable. */
static void print_differences(const char *text, const msi_bench_host *host)
{
    const char *scale = value_of(text, "scale"), *threads = value_of(text, "threads");
    if (!is_string(value_of(text, "gpu"), host->gpu) || !is_string(value_of(text, "cpu"), host->cpu) ||
        (threads && (int)strtod(threads, NULL) != host->n_thread))
        puts("  measured on another machine, or on another number of threads");
    if (scale && fabs(strtod(scale, NULL) - host->scale) > 1e-6 * host->scale)
        printf("  measured at -scale %g\n", strtod(scale, NULL));
}

static int is_known(const char *value)
{
    int n_table;
    const msi_bench_table *table = msi_bench_tables(&n_table);
    for (int t = 0; t < n_table; t++)
        for (int i = 0; i < table[t].n_row; i++)
            if (is_string(value, table[t].row[i].name)) return 1;
    return 0;
}

/* Print the name of a row that this program does not have. The file may come from another program, so text that cannot
 * be the name of a row is not printed. */
static void print_unknown(const char *value)
{
    const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_.+";
    const size_t length = value[0] == '"' ? strspn(value + 1, allowed) : 0;
    if (length > 0 && length < LONGEST_NAME && value[1 + length] == '"')
        printf("%-44.*s only in the earlier run: no row of this program\n", (int)length, value + 1);
}

/* List rows of the earlier run that this program does not have, because rows may be renamed, and count other rows that
 * were not run now. */
static void print_rows_left_out(const char *text, const msi_bench_result *result, int n)
{
    int n_not_run = 0;
    for (const char *at = value_of(text, "name"); at; at = value_of(at, "name")) {
        int is_run = 0;
        for (int i = 0; i < n && !is_run; i++) is_run = is_string(at, result[i].row->name);
        if (is_run) continue;
        if (is_known(at))
            n_not_run++;
        else
            print_unknown(at);
    }
    if (n_not_run > 0)
        printf("%d more row%s of the earlier run %s not run now\n", n_not_run, n_not_run > 1 ? "s" : "",
               n_not_run > 1 ? "were" : "was");
}

void msi_bench_compare(const char *text, const msi_bench_host *host, const msi_bench_result *result, int n,
                       double factor, int *n_common, int *n_slower)
{
    *n_common = *n_slower = 0;
    puts("Against the earlier run:");
    print_differences(text, host);
    for (int i = 0; i < n; i++) {
        const char *name = result[i].row->name, *row = find_row(text, name);
        const char *earlier = row ? value_of(row, "all_ms") : NULL;
        const double before = earlier ? strtod(earlier, NULL) : NAN, ratio = result[i].all_ms / before;
        if (result[i].row->seeded) continue;
        if (!row) printf("%-44s not in the earlier run\n", name);
        if (row && !isfinite(ratio)) printf("%-44s failed in one of the runs\n", name);
        if (!isfinite(ratio)) continue;
        const int slower = ratio > factor;
        *n_common += 1;
        *n_slower += slower;
        printf("%-44s %9.3f ms, was %9.3f: %6.3f times%s\n", name, result[i].all_ms, before, ratio,
               slower ? "  SLOWER" : "");
    }
    print_rows_left_out(text, result, n);
}

const msi_bench_table *msi_bench_tables(int *n_table)
{
    static msi_bench_table table[16];
    int n = 0;
    table[n++] = msi_el56_rows_cpu();
    table[n++] = msi_el56_rows_cpu_tile();
    table[n++] = msi_default_rows();
    table[n++] = msi_residual_rows();
    table[n++] = msi_team_rows();
    table[n++] = msi_random_rows();
    table[n++] = msi_stacks_rows_cpu();
    table[n++] = msi_clean_rows();
#ifdef MSI_HAVE_CUDA
    table[n++] = msi_el56_rows_cuda();
    table[n++] = msi_el56_window_rows_cuda();
    table[n++] = msi_tracks_rows_cuda();
    table[n++] = msi_lookup_rows_cuda();
    table[n++] = msi_points_rows_cuda();
    table[n++] = msi_stacks_rows_cuda();
#endif
    *n_table = n;
    return table;
}

enum { SLOWER_EXIT = 1 };

static const char usage[] =
    "usage: msimage-bench [options]\n"
    "Times the gridders and degridders of msimage on fixed workloads; needs no Measurement Set.\n"
    "  -list           print the gridders with strategies, directions and backends; then the rows\n"
    "  -run P[,P..]    rows whose name contains a pattern P, or matches it where it has * ? or [; -run '*' runs all\n"
    "  -layouts DIR    folder of station tables; without it procedural arrays of the same size and extent\n"
    "  -scale F        that fraction of the visibilities, 0 < F <= 1 (default 1)\n"
    "  -gpus N         GPUs of the rows team/.., tracks/..-team and stacks/..-team, workers of team-small/ (default "
    "1);\n"
    "                  with fewer GPUs than N, several parts of the work go to each\n"
    "  -repeat N       runs of a row after the first; the medians are printed (default 5)\n"
    "  -verify         compare every row with a reference in double precision; exit 70 if an error is too large\n"
    "  -seeds N        random inputs of the rows random/.., which are always compared with direct sums (default 1)\n"
    "  -energy S       run each row for S seconds to measure the energy of all its GPUs; 0: do not measure (default "
    "1)\n"
    "  -json FILE      write the results\n"
    "  -compare FILE   print ratios to an earlier run's results; exit 1 if a row is slower by more than -factor\n"
    "  -factor X       largest allowed ratio of a row's time to its earlier time (default 1.1)\n"
    "  -version        the version\n"
    "  -help           this text\n"
    "\n"
    "Columns: sort: indices, sort, merging; kernel: gridding or degridding; FFT: transforms and w-screens, if the row\n"
    "has any; all: their sum. GPU times are device times and exclude the upload. Mvis/s: 1e6 visibilities per second\n"
    "of sort and kernel. GGPA/s: 1e9 complex additions to grid points per second of the kernel, counted before\n"
    "merging; % peak: the same with 8 operations each, as a part of the GPU's measured multiply-add rate. J/Mvis:\n"
    "energy of the GPU for 1e6 visibilities, by NVML. error: relative L2 distance from the reference.\n";

typedef struct settings {
    msi_bench_options bench;
    msi_bench_protocol protocol;
    const char *pattern, *json, *compare;
    double factor;
    int list, help, version;
} settings;

static int parse_number(const char *option, const char *text, double low, double high, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || *end || !(*out >= low && *out <= high))
        return msi_error_set(MSI_EUSAGE, "-%s: '%s' is not a number from %g to %g", option, text, low, high);
    return MSI_OK;
}

static int parse_count(const char *option, double number, int *out)
{
    *out = (int)number;
    return *out == number ? MSI_OK : msi_error_set(MSI_EUSAGE, "-%s: %g is not a whole number", option, number);
}

static int parse(settings *s, int argc, char **argv)
{
    double repeat = s->protocol.repeat, seeds = s->protocol.n_seed, gpus = 1;
    const struct {
        const char *name;
        int *flag;
        const char **text;
        double *number;
        double low, high;
    } option[] = {{"list", &s->list, NULL, NULL, 0, 0},
                  {"help", &s->help, NULL, NULL, 0, 0},
                  {"version", &s->version, NULL, NULL, 0, 0},
                  {"verify", &s->protocol.verify, NULL, NULL, 0, 0},
                  {"run", NULL, &s->pattern, NULL, 0, 0},
                  {"layouts", NULL, &s->bench.layout_dir, NULL, 0, 0},
                  {"json", NULL, &s->json, NULL, 0, 0},
                  {"compare", NULL, &s->compare, NULL, 0, 0},
                  {"scale", NULL, NULL, &s->bench.scale, 1e-9, 1},
                  {"repeat", NULL, NULL, &repeat, 1, MSI_BENCH_MAX_REPEAT},
                  {"gpus", NULL, NULL, &gpus, 1, MSI_BENCH_MAX_GPUS},
                  {"seeds", NULL, NULL, &seeds, 1, MSI_BENCH_MAX_SEED},
                  {"energy", NULL, NULL, &s->protocol.energy_s, 0, 60},
                  {"factor", NULL, NULL, &s->factor, 1e-3, 1e6}};
    const int n_option = sizeof option / sizeof option[0];
    for (int i = 1; i < argc; i++) {
        const char *name = msi_parse_option_name(argv[i]);
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
    MSI_TRY(parse_count("gpus", gpus, &s->bench.n_gpu));
    MSI_TRY(parse_count("repeat", repeat, &s->protocol.repeat));
    return parse_count("seeds", seeds, &s->protocol.n_seed);
}

/* Return 1 if a name matches one of the patterns, separated by commas. Without patterns all names match. */
static int chosen(const char *patterns, const char *name)
{
    char pattern[128];
    if (!patterns) return 1;
    for (const char *at = patterns;; at++) {
        const size_t n = strcspn(at, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)n, at);
        if (n > 0 && strpbrk(pattern, "*?[") ? fnmatch(pattern, name, 0) == 0 : n > 0 && strstr(name, pattern))
            return 1;
        at += n;
        if (!*at) return 0;
    }
}

static void list(const char *pattern)
{
    int n;
    const msi_strategy *strategy = msi_strategies(&n);
    puts("Gridders: method, strategy, directions, backend");
    for (int i = 0; i < n; i++)
        printf("  %-8s %-10s %-12s %s\n", strategy[i].method, strategy[i].name,
               strategy[i].ops->image && strategy[i].ops->predict ? "grid,degrid"
               : strategy[i].ops->image                           ? "grid"
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

/* Assign devices to workers in turn. */
static void choose_gpus(msi_bench_options *o)
{
    const int n_device = msi_bench_device_count();
    for (int i = 0; i < o->n_gpu; i++) o->gpu[i] = n_device ? i % n_device : 0;
    if (o->n_gpu && n_device) msi_bench_energy_of(o->n_gpu < n_device ? o->n_gpu : n_device);
}

static int run_rows(const settings *s, const msi_bench_host *host, msi_bench_result *result, int *n_result, int *n_bad)
{
    int n_table, name_width = 4, n_without_gpu = 0;
    const msi_bench_table *table = msi_bench_tables(&n_table);
    *n_result = *n_bad = 0;
    for (int t = 0; t < n_table; t++)
        for (int i = 0; i < table[t].n_row; i++) {
            const msi_bench_row *row = &table[t].row[i];
            if (!chosen(s->pattern, row->name)) continue;
            if (strcmp(row->backend, "cuda") == 0 && !host->gpu[0]) {
                n_without_gpu++;
                continue;
            }
            result[*n_result] = (msi_bench_result){.row = row};
            *n_result += 1;
            if ((int)strlen(row->name) > name_width) name_width = (int)strlen(row->name);
        }
    if (*n_result == 0 && n_without_gpu > 0)
        return msi_error_set(MSI_EGPU, "-run %s: all %d rows need a GPU, and none can be used",
                             s->pattern ? s->pattern : "*", n_without_gpu);
    if (*n_result == 0) return msi_error_set(MSI_EUSAGE, "-run %s: no row has this name; see -list", s->pattern);
    msi_bench_print_head(host, name_width);
    for (int i = 0; i < *n_result; i++) {
        const char *name = result[i].row->name;
        int status = msi_bench_measure(&result[i], &s->bench, &s->protocol);
        if (status == MSI_EINPUT || status == MSI_EINTERRUPTED) return status;
        if (status != MSI_OK) {
            *n_bad += 1;
            printf("%-*s  ERROR: %s\n", name_width, name, msi_error_get());
            continue;
        }
        msi_bench_print(host, &result[i], name_width);
        if (msi_bench_failed(&result[i], &s->protocol)) {
            *n_bad += 1;
            printf("  ERROR: relative L2 error %.2e, allowed %.1e\n", result[i].error, result[i].row->tolerance);
        }
    }
    return MSI_OK;
}

/* Open the files of -compare and -json first, because the rows may run for minutes. */
static int check_files(const settings *s, char **earlier)
{
    *earlier = NULL;
    if (s->compare) MSI_TRY(msi_bench_read(s->compare, earlier));
    FILE *f = s->json ? fopen(s->json, "a") : NULL;
    if (s->json && !f) {
        msi_free(*earlier);
        return msi_error_set(MSI_EOUTPUT, "%s: %s", s->json, strerror(errno));
    }
    if (f) fclose(f);
    return MSI_OK;
}

static int bench(const settings *s, int *exit_code)
{
    int n_table, n_row = 0, n_result, n_bad, n_common, n_slower = 0;
    const msi_bench_table *table = msi_bench_tables(&n_table);
    for (int t = 0; t < n_table; t++) n_row += table[t].n_row;
    msi_bench_result *result = NULL;
    msi_bench_host host;
    char *earlier;
    MSI_TRY(check_files(s, &earlier));
    int status = msi_alloc(&result, n_row, sizeof *result, "results");
    if (status == MSI_OK) {
        describe_host(&host, s->bench.scale);
        status = run_rows(s, &host, result, &n_result, &n_bad);
    }
    if (status == MSI_OK && s->json) status = msi_bench_write_json(s->json, &host, result, n_result);
    if (status == MSI_OK && earlier) {
        msi_bench_compare(earlier, &host, result, n_result, s->factor, &n_common, &n_slower);
        if (n_common == 0)
            status = msi_error_set(MSI_EINPUT, "%s: does not contain any of the rows that were run", s->compare);
    }
    msi_free(result);
    msi_free(earlier);
    *exit_code = n_slower > 0 ? SLOWER_EXIT : 0;
    if (status == MSI_OK && n_bad > 0) return msi_error_set(MSI_EINTERNAL, "%d of %d rows failed", n_bad, n_result);
    return status;
}

int main(int argc, char **argv)
{
    settings s = {
        .bench = {.scale = 1, .seed = 1}, .protocol = {.repeat = 5, .n_seed = 1, .energy_s = 1}, .factor = 1.1};
    msi_process_hold_standard_files();
    int exit_code = 0, status = parse(&s, argc, argv);
    msi_log_setup(MSI_LOG_QUIET, 0);
    choose_gpus(&s.bench);
    if (argc < 2) {
        fputs(usage, stderr);
        return msi_exit_code(MSI_EUSAGE);
    }
    if (status == MSI_OK && s.help)
        fputs(usage, stdout);
    else if (status == MSI_OK && s.version)
        puts("msimage-bench " MSIMAGE_VERSION);
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
