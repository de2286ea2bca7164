/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table, and the file of results that a later run is compared with. */
#include "kernels/bench/bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"

enum { LINE_BYTES = 2048, FLOPS_AN_ADDITION = 8 };

void msi_bench_print_head(const msi_bench_host *host, int name_width)
{
    if (host->gpu[0]) printf("GPU: %s, %.1f TFLOP/s of fp32 multiply-adds\n", host->gpu, 1e-12 * host->gpu_fp32_flops);
    printf("CPU: %s, %d threads\n", host->cpu, host->n_thread);
    if (host->scale < 1) printf("Scale: %g of the visibilities of every workload\n", host->scale);
    printf("%-*s %9s %9s %9s %9s %9s %6s %8s %8s  %s\n", name_width, "row", "sort ms", "kernel ms", "all ms", "Mvis/s",
           "GGPA/s", "% peak", "J/Mvis", "error", "note");
}

/* A figure in a column, or a dash where it does not apply. */
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
    print_figure(9, 3, r->all_ms);
    print_figure(9, 1, 1e-3 * (double)r->work.n_vis / r->all_ms);
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
    write_number(f, "all_ms", r->all_ms);
    write_number(f, "joule_per_mvis", r->joule_per_mvis);
    write_number(f, "error", r->error);
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

/* all_ms of the row of this name in a file of ours, where each row has a line of its own; NaN where it is not there. */
static double earlier_ms(FILE *f, const char *name)
{
    char line[LINE_BYTES], start[256];
    double ms = NAN;
    snprintf(start, sizeof start, "  {\"name\": \"%s\"", name);
    rewind(f);
    while (fgets(line, sizeof line, f)) {
        const char *at = strncmp(line, start, strlen(start)) ? NULL : strstr(line, "\"all_ms\": ");
        if (at) ms = strtod(at + strlen("\"all_ms\": "), NULL);
    }
    return ms;
}

int msi_bench_compare(const char *path, const msi_bench_result *result, int n, double factor, int *n_common,
                      int *n_slower)
{
    FILE *f = fopen(path, "r");
    if (!f) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    *n_common = *n_slower = 0;
    printf("Against %s:\n", path);
    for (int i = 0; i < n; i++) {
        double before = earlier_ms(f, result[i].row->name), ratio = result[i].all_ms / before;
        if (!isfinite(ratio)) continue;
        int slower = ratio > factor;
        *n_common += 1;
        *n_slower += slower;
        printf("%-44s %9.3f ms, was %9.3f: %6.3f times%s\n", result[i].row->name, result[i].all_ms, before, ratio,
               slower ? "  SLOWER" : "");
    }
    fclose(f);
    if (*n_common == 0) return msi_error_set(MSI_EINPUT, "%s: has none of the rows that were run", path);
    return MSI_OK;
}
