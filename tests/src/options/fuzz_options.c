/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target: each line of the input is a word of the command line. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/options/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MAX_WORDS = 64 };
    const char *argv[MAX_WORDS + 1] = {"msimage"};
    int argc = 1;
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    for (char *p = text; p && argc < MAX_WORDS; argc++) {
        argv[argc] = p;
        p = strchr(p, '\n');
        if (p) *p++ = 0;
    }
    msi_options options;
    int rc = msi_options_parse(&options, argc, argv);
    if (rc != MSI_OK && (rc != MSI_EUSAGE || !*msi_error_get())) abort();
    if (rc == MSI_OK && options.action == MSI_ACTION_RUN &&
        (options.n_ms < 1 || options.n_threads < 1 || options.memory_limit_bytes < 1 || !options.name ||
         options.n_pol < 1 || !(options.geometry.cell_x_rad > 0) || msi_image_n_pixel(&options.geometry) < 256))
        abort();
    msi_options_free(&options);
    if (msi_memory_in_use() != 0) abort();
    free(text);
    return 0;
}
