/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared memory and messages of the parent and the two writer processes (ms_writer.h). */
#ifndef MSI_IO_MS_WRITER_SHARED_H
#define MSI_IO_MS_WRITER_SHARED_H

#include <stddef.h>

#include "io/ms/ms_child.h"
#include "io/ms/ms_column.h"

/* The name of the child in messages. */
#define MSI_WRITER_WHAT "the writer process"

/* Address space of a slot: the head, row numbers, channel indices and values. Only pages that a block touches become
 * memory. */
#define MSI_WRITER_SLOT_BYTES (4096 + MSI_MS_WRITER_BLOCK_ROWS * 8 + MSI_MS_WRITER_BLOCK_BYTES / 2 * 3)

/* The first writer process receives messages until it has answered PREPARE, the second one after that. */
typedef enum msi_writer_kind {
    MSI_WRITER_PREPARE, /* to the first writer process */
    MSI_WRITER_FILL,    /* to the data process, with the number of a slot */
    MSI_WRITER_FINISH,  /* to the data process */
    MSI_WRITER_READY,   /* from the first writer process: checked, locked */
    MSI_WRITER_PREPARED,
    MSI_WRITER_FREED, /* from the data process, with the number of a slot */
    MSI_WRITER_FINISHED,
    MSI_WRITER_FAILED /* from the first writer process; status and message are set */
} msi_writer_kind;

typedef struct msi_writer_message {
    int kind, slot; /* msi_writer_kind */
} msi_writer_message;

/* Beginning of a slot. Row numbers, channel indices and values follow at these byte offsets. */
typedef struct msi_writer_slot_head {
    int set;
    int32_t n_chan, n_corr;
    int64_t n_row, chan_at, value_at;
} msi_writer_slot_head;

/* Beginning of the shared memory. The slots begin at slots_at. */
typedef struct msi_writer_shared {
    int status; /* error of a child; MSI_OK: no error */
    char message[2048];
    volatile int is_complete; /* the second writer process has written all values; its exit status is not reliable */
    int64_t slots_at;
    int n_set;
    msi_ms_column column[];
} msi_writer_shared;

#endif
