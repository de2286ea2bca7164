/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The writer's processes share memory mapped before the fork, and exchange messages on one socket. */
#ifndef MSI_IO_MS_WRITER_SHARED_H
#define MSI_IO_MS_WRITER_SHARED_H

#include <stddef.h>

#include "io/ms/ms_child.h"
#include "io/ms/ms_column.h"

/* The user knows the child by this name. */
#define MSI_WRITER_WHAT "the process that writes"

/* A slot has so much address space, of which only what a block touches becomes memory: the head, a number for each row,
 * and a channel's index for each value at worst. */
#define MSI_WRITER_SLOT_BYTES (4096 + MSI_MS_WRITER_BLOCK_ROWS * 8 + MSI_MS_WRITER_BLOCK_BYTES / 2 * 3)

/* The holder listens until it has answered PREPARE, the filler after that. */
typedef enum msi_writer_kind {
    MSI_WRITER_PREPARE, /* to the holder */
    MSI_WRITER_FILL,    /* to the filler, with the number of a slot */
    MSI_WRITER_FINISH,  /* to the filler */
    MSI_WRITER_READY,   /* from the holder: checked, locked */
    MSI_WRITER_PREPARED,
    MSI_WRITER_FREED, /* from the filler, with the number of a slot */
    MSI_WRITER_FINISHED,
    MSI_WRITER_FAILED /* from the holder; status and message are set */
} msi_writer_kind;

typedef struct msi_writer_message {
    int kind, slot; /* msi_writer_kind */
} msi_writer_message;

/* A slot begins so; row numbers, channel indices and values follow at these offsets in bytes. */
typedef struct msi_writer_slot_head {
    int set;
    int32_t n_chan, n_corr;
    int64_t n_row, chan_at, value_at;
} msi_writer_slot_head;

/* The shared memory begins so; the slots begin at slots_at. */
typedef struct msi_writer_shared {
    int status; /* of what failed in a child; MSI_OK while nothing has */
    char message[2048];
    volatile int is_filled; /* the filler has put all; its exit status alone would be too little to go by */
    int64_t slots_at;
    int n_set;
    msi_ms_column column[];
} msi_writer_shared;

/*
 * msi_writer_child_run - do the child's work, from the fork to its end; it never returns.
 * Given: paths [shared->n_set]
 */
_Noreturn void msi_writer_child_run(msi_writer_shared *shared, const msi_child *parent, const char *const *paths,
                                    const msi_ms_write_spec *spec);

/* msi_writer_send - send one message; 0, or -1 where nobody is there to read it. */
int msi_writer_send(const msi_child *other, msi_writer_kind kind, int slot);

#endif
