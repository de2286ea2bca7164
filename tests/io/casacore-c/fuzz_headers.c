/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target: any bytes as the files of a table, whose headers are checked before casacore opens them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/casacore-c/casacore_c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];
static const char *const files[] = {"table.dat", "table.f0", "table.f1", "table.f0i"};
enum { N_FILE = sizeof files / sizeof *files };

static void remove_folder(void)
{
    char path[128];
    for (int i = 0; i < N_FILE; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* The first bytes determine the division of the others into files. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/msimage-fuzz-XXXXXX");
        if (!mkdtemp(folder)) return -1;
        atexit(remove_folder);
    }
    if (size < N_FILE) return -1;
    size_t at = N_FILE;
    for (int i = 0; i < N_FILE; i++) {
        char path[128];
        const size_t wanted = (size_t)data[i] * 8, left = size - at, n = wanted < left ? wanted : left;
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
        if (i > 0 && data[i] == 0) continue;
        FILE *f = fopen(path, "wb");
        if (!f) return -1;
        if (n > 0) fwrite(data + at, 1, n, f);
        fclose(f);
        at += n;
    }
    const int status = ccc_table_check(folder);
    if (status != CCC_OK && status != CCC_EFAILED && status != CCC_ENOMEM) abort();
    if (status != CCC_OK && !*ccc_error()) abort();
    return 0;
}
