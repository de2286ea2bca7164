/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ms_write_driver COLUMN OP[:INPUT][+drop] SET.ms [SET.ms ..] - writes a known function of set, row, stored channel and
 * correlation into every sample of the sets, for fault injection and for measuring. Exits with the program's code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/process.h"
#include "core/log.h"
#include "core/status.h"
#include "io/ms/ms_writer.h"

static void fill(const msi_ms_block *b, msi_c32 *value)
{
    for (int64_t i = 0; i < b->n_row; i++)
        for (int32_t c = 0; c < b->n_chan; c++)
            for (int32_t p = 0; p < b->n_corr; p++)
                *value++ = (msi_c32){(float)(b->ms_row[i] % 1000 + 1000 * (p + 1)), (float)(b->chan_index[c] + 1)};
}

static int copy_blocks(msi_ms_writer *w, msi_ms_reader *r)
{
    msi_ms_block block = {0};
    for (;;) {
        msi_c32 *values;
        MSI_TRY(msi_ms_reader_next(r, &block));
        if (block.n_row == 0) return MSI_OK;
        MSI_TRY(msi_ms_writer_slot(w, &block, &values));
        fill(&block, values);
        MSI_TRY(msi_ms_writer_submit(w));
    }
}

static int run(const char *const *paths, int n_path, const msi_ms_write_spec *spec)
{
    const msi_ms_selection all = {.all_fields = 1, .coordinates_only = 1, .keep_flagged_rows = 1};
    msi_ms_writer *w = NULL;
    msi_ms_reader *r = NULL;
    const char *mark, *selection;
    const int timed = getenv("MS_WRITE_TIMES") != NULL;
    const double start = msi_wall_s();
    double at[4] = {0};
    int status = msi_ms_writer_start(&w, paths, n_path, spec);
    at[0] = msi_wall_s();
    if (status == MSI_OK) status = msi_ms_reader_open(&r, paths, n_path, &all);
    for (int i = 0; i < n_path && status == MSI_OK; i++)
        if (msi_ms_writer_marked(w, i, &mark, &selection)) msi_log_info("%s: is redone: %s", paths[i], mark);
    at[1] = msi_wall_s();
    if (status == MSI_OK) status = msi_ms_writer_prepare(w);
    at[2] = msi_wall_s();
    if (status == MSI_OK) status = copy_blocks(w, r);
    at[3] = msi_wall_s();
    if (status == MSI_OK) status = msi_ms_writer_finish(w);
    const double end = msi_wall_s();
    if (timed && status == MSI_OK)
        fprintf(stderr, "start %.3f open %.3f prepare %.3f write %.3f finish %.3f s, %.1f Mvis/s in write\n",
                at[0] - start, at[1] - at[0], at[2] - at[1], at[3] - at[2], end - at[3],
                1e-6 * (double)msi_ms_reader_n_sample(r) / (at[3] - at[2]));
    msi_ms_reader_free(r);
    msi_ms_writer_free(w);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 4) return msi_exit_code(MSI_EUSAGE);
    const char *input = strchr(argv[2], ':');
    const msi_ms_write_spec spec = {.column = argv[1],
                                    .op = !strncmp(argv[2], "add", 3)        ? MSI_MS_WRITE_ADD
                                          : !strncmp(argv[2], "subtract", 8) ? MSI_MS_WRITE_SUBTRACT
                                                                             : MSI_MS_WRITE_REPLACE,
                                    .input_column = input ? input + 1 : NULL,
                                    .description = "a known function",
                                    .drop_old = strstr(argv[2], "+drop") != NULL};
    msi_interrupt_install();
    const int status = run((const char *const *)argv + 3, argc - 3, &spec);
    if (status != MSI_OK) msi_log_error(msi_error_get());
    return msi_exit_code(status);
}
