/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared memory and messages of the parent and the two writer processes (ms_writer.h). */
#ifndef MSI_IO_MS_WRITER_SHARED_H
#define MSI_IO_MS_WRITER_SHARED_H

#include <stddef.h>

#include "io/ms/ms_limit.h"
#include "io/ms/ms_column.h"

/* The name of the child in messages. */
#define MSI_WRITER_WHAT "the writer process"

/* Address space of a slot: the head, row numbers, channel indices and values. Only pages that a block touches become
 * memory. */
#define MSI_WRITER_SLOT_BYTES (4096 + MSI_MS_WRITER_BLOCK_ROWS * 8 + MSI_MS_WRITER_BLOCK_BYTES / 2 * 3)

/* The steps of the first writer process. The second one receives the frames that follow MSI_WRITER_PREPARED. */
typedef enum msi_writer_step {
    MSI_WRITER_READY,    /* checked, locked */
    MSI_WRITER_PREPARED, /* space is reserved, columns are marked */
    MSI_WRITER_COMPLETE
} msi_writer_step;

/* Beginning of a slot. Row numbers, channel indices and values follow at these byte offsets. */
typedef struct msi_writer_slot_head {
    int set;
    int32_t n_chan, n_corr;
    int64_t n_row, chan_at, value_at;
} msi_writer_slot_head;

/* Beginning of the shared memory. The slots begin at slots_at. */
typedef struct msi_writer_shared {
    int64_t slots_at;
    int n_set;
    msi_ms_column column[];
} msi_writer_shared;

#endif
