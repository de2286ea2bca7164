/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A crew and its processes speak by these messages, and share memory laid out so. */
#ifndef MSI_IO_MS_CREW_PROCESS_H
#define MSI_IO_MS_CREW_PROCESS_H

#include "core/status.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_crew.h"

enum { MSI_CREW_SLOTS = 4 }; /* each process has so many */

typedef enum msi_crew_request_kind {
    MSI_CREW_OPEN,
    MSI_CREW_SHARED, /* all have left what they found; of the OPEN that they are at */
    MSI_CREW_BEGIN,
    MSI_CREW_FREED
} msi_crew_request_kind;

/* The parent sends requests to a process. */
typedef struct msi_crew_request {
    msi_crew_request_kind kind;
    int64_t number;         /* of this OPEN or BEGIN, of the OPEN that is SHARED, of the BEGIN whose slot is FREED */
    msi_ms_opening opening; /* OPEN */
    int part, n_part;       /* OPEN: its part of the rows; BEGIN: it reads the blocks part, part + n_part .. */
    int64_t n_order;        /* BEGIN: bytes of the order by which it forms them; 0: it leaves them as read */
} msi_crew_request;

typedef enum msi_crew_reply_kind {
    MSI_CREW_FOUND, /* on the way to OPENED: it has left what it found in its part of a set's rows */
    MSI_CREW_OPENED,
    MSI_CREW_BLOCK,
    MSI_CREW_END,
    MSI_CREW_FAILED
} msi_crew_reply_kind;

/* A process sends replies to the parent. */
typedef struct msi_crew_reply {
    msi_crew_reply_kind kind;
    int64_t number;                  /* of the request that it answers */
    int64_t n_byte;                  /* OPENED: of the description, which the first process leaves in the shared file */
    uint64_t hash;                   /* OPENED: of the description */
    uint64_t written;                /* OPENED: tells one writing of the columns from another */
    int64_t n_row;                   /* BLOCK */
    int set, data_desc_id, field_id; /* BLOCK */
    msi_ms_dropped dropped;          /* on the way to this block */
    int status;                      /* FAILED */
    char message[MSI_MESSAGE_BYTES];
} msi_crew_reply;

/* The shared memory begins so; the order begins a page later, the slots behind the room for it. */
typedef struct msi_crew_shared {
    _Atomic int64_t opened_ppm; /* how far the first process is with OPEN, in parts per million */
} msi_crew_shared;

/* An order tells the processes what to form of blocks; without bytes nothing is formed. */
typedef struct msi_crew_order {
    const msi_ms_forming *forming;
    char *bytes;
    int64_t n_byte;
} msi_crew_order;

/* A process knows this of itself. */
typedef struct msi_crew_process {
    const msi_child *parent;
    const char *const *paths;
    int n_path;
    msi_ms_selection selection;
    msi_crew_shared *shared;
    const char *order; /* [most_order] shared */
    int64_t most_order;
    char *slots;     /* [MSI_CREW_SLOTS][slot_bytes], shared */
    char *all_slots; /* [n_process] of them, of all processes */
    int64_t slot_bytes;
    const msi_ms_forming *forming; /* NULL: none */
    int is_first;                  /* it leaves the description */
} msi_crew_process;

/* msi_crew_process_run - serve the parent until it is gone. */
_Noreturn void msi_crew_process_run(const msi_crew_process *process);

/* msi_crew_lay_out - place the arrays of the largest block of the reader in a slot, which may be NULL. Returns its
 * bytes. */
int64_t msi_crew_lay_out(struct msi_ms_buffer *b, char *slot, const msi_ms_reader *r, const msi_crew_order *order);

/* msi_crew_description_bytes - room for what the first process has found, at the beginning of its slots. */
int64_t msi_crew_description_bytes(int64_t slot_bytes);

/* msi_crew_hash - FNV-1a of n bytes. */
uint64_t msi_crew_hash(const char *bytes, int64_t n);

#endif
