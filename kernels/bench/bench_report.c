/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file prints the table of results, writes them as JSON, and compares them with an earlier run's JSON. */
#include "kernels/bench/bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

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

/* Find the value after a key and its colon; NULL: none. The files were written by this program, and perhaps
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

/* Find the text after a row's name in the file; NULL: none. */
static const char *find_row(const char *text, const char *name)
{
    for (const char *at = value_of(text, "name"); at; at = value_of(at, "name"))
        if (is_string(at, name)) return at;
    return NULL;
}

/* Describe differences that make times incomparable: other processors, or another amount of work. */
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

/* Print the name of a row that this program lacks. The file may come from another program, so text that cannot be the
 * name of a row is not printed. */
static void print_unknown(const char *value)
{
    const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_.+";
    const size_t length = value[0] == '"' ? strspn(value + 1, allowed) : 0;
    if (length > 0 && length < LONGEST_NAME && value[1 + length] == '"')
        printf("%-44.*s only in the earlier run: no row of this program\n", (int)length, value + 1);
}

/* Rows get new names: those of the earlier run that this program does not know are listed, others that did not run now
 * are counted. */
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
