/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target: any bytes as the metadata from a reader process. If they are accepted, all functions of the reader
 * must work. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int is_right)
{
    if (!is_right) abort();
}

/* Read everything that the reader returns, and check the ranges on which the rest of the program relies. */
static void look_at(msi_ms_reader *r)
{
    int64_t n_row = 0, at = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(r); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(r, i);
        require(spw->set >= 0 && spw->set < 2 && spw->n_chan > 0 && spw->n_row >= 0);
        require(spw->n_corr >= 1 && spw->n_corr <= MSI_MAX_CORR);
        for (int k = 0; k < spw->n_corr; k++) require(spw->corr[k] >= MSI_POL_I && spw->corr[k] <= MSI_POL_YY);
        for (int32_t c = 0; c < spw->n_chan; c++) {
            require(spw->freq_hz[c] > 0 && isfinite(spw->freq_hz[c]) && spw->width_hz[c] >= 0);
            require(c == 0 || spw->freq_hz[c] >= spw->freq_hz[c - 1]);
        }
        n_row += spw->n_row;
    }
    require(n_row == msi_ms_reader_n_row(r) && msi_ms_reader_n_sample(r) >= 0 && msi_ms_reader_n_time(r) >= 0);
    int id;
    const char *name;
    while (msi_ms_reader_field(r, &at, &id, &name)) require(id >= 0 && strlen(name) < 64);
    const msi_observation *o = msi_ms_reader_observation(r);
    require(strlen(o->telescope) < sizeof o->telescope && strlen(o->spec_frame) < sizeof o->spec_frame);
    require(strlen(msi_ms_reader_data_column(r)) < 64);
    msi_ms_reader_one_centre(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"first.ms", "second.ms"};
    char *bytes;
    msi_ms_reader *r;
    msi_memory_limit_set((int64_t)1 << 26);
    if (msi_alloc(&bytes, (int64_t)size, 1, "input")) return 0;
    if (size) memcpy(bytes, data, size);
    const int status = msi_ms_unpack_metadata(&r, paths, 1 + (int)(size & 1), bytes, (int64_t)(size & ~(size_t)1));
    require(status == MSI_OK || status == MSI_EINPUT || status == MSI_ENOMEM);
    if (status == MSI_OK) look_at(r);
    if (status == MSI_OK) msi_ms_reader_free(r);
    msi_free(bytes);
    require(msi_memory_in_use() == 0);
    return 0;
}
