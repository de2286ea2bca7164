/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A pool of reader processes. The first half of this file runs in a reader process, the second half in the parent.
 *   1. The parent sends OPEN. Each process opens the sets and scans a part of the index columns. The processes exchange
 *      the results (FOUND, SHARED), and the first one writes the metadata to the shared memory (OPENED).
 *   2. The parent sends BEGIN. Process k of n reads blocks k, k + n, .. into its slots of the shared memory, one slot
 *      after the other (BLOCK). It waits for slots that the parent frees (FREED).
 *   3. The parent takes blocks in the order of one reader, however fast the processes are.
 *   4. If the large columns of a set can be read without casacore, its blocks have only rows. Threads of the parent
 *      read and convert the samples. At the end the parent sends CHECK: no column may have been rewritten meanwhile.
 *
 * The parent checks every reply, because a damaged set may have corrupted the reader process.
 */
#include "io/ms/reader_pool.h"

#include <errno.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/process.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_reader.h"
#include "io/ms/ms_metadata.h"

/* ---- Messages and shared memory ---- */

enum {
    POOL_SLOTS = 4,  /* slots of each process, which the shared memory has space for, of any size */
    MOST_SLOTS = 32, /* slots for blocks without samples, which take little memory */
    MOST_QUEUE = 64  /* most blocks that threads fill at a time */
};

/* Kinds of frames. A process that fails sends MSI_CHILD_DONE, and then waits for the next request. */
typedef enum request_kind {
    POOL_OPEN = MSI_CHILD_OTHER,
    POOL_SHARED, /* all processes have written their results for this OPEN */
    POOL_BEGIN,
    POOL_FREED,
    POOL_CHECK /* check that no column that was read has been rewritten */
} request_kind;

/* A request of the parent to a process. It is the text of a frame. */
typedef struct pool_request {
    request_kind kind; /* kind of the frame */
    /* number of the frame: that of this OPEN or BEGIN; for SHARED, of its OPEN; for FREED, of its BEGIN */
    int64_t number;
    msi_ms_opening opening; /* OPEN */
    int part, n_part;       /* OPEN: index of its part of the rows; BEGIN: it reads blocks part, part + n_part .. */
    int64_t n_order;        /* BEGIN: bytes of the conversion; 0: blocks are not converted */
    int64_t slot_bytes;     /* BEGIN: size of a slot, and their number */
    int n_slot;
} pool_request;

typedef enum reply_kind {
    POOL_FOUND = POOL_CHECK + 1, /* during OPEN: the process has written its results for a set */
    POOL_OPENED,
    POOL_BLOCK,
    POOL_END,
    POOL_CHECKED
} reply_kind;

/* A reply of a process to the parent. It is the text of a frame. */
typedef struct pool_reply {
    reply_kind kind; /* kind of the frame */
    int64_t number;  /* number of the request that it answers */
    /* OPENED: bytes of the metadata, which the first process writes to the shared memory */
    int64_t n_byte;
    uint64_t hash;                   /* OPENED: hash of the metadata */
    uint64_t written;                /* OPENED: hash that identifies the writing of the columns */
    int64_t n_row;                   /* BLOCK */
    int set, data_desc_id, field_id; /* BLOCK */
    int has_row_weight;              /* BLOCK without samples */
    msi_ms_dropped dropped;          /* samples dropped since the block before */
} pool_reply;

/* The beginning of the shared memory. It is followed by a byte for each set (1: its blocks have only rows), the
 * conversion and the slots. */
typedef struct pool_shared {
    _Atomic int64_t opened_ppm; /* progress of OPEN in the first process, in parts per million */
} pool_shared;

/* The conversion of blocks, and its parameters; with n_byte 0, blocks are not converted. */
typedef struct block_conversion {
    const msi_reader_conversion *conversion;
    char *bytes;
    int64_t n_byte;
} block_conversion;

/* The state of a reader process. */
typedef struct reader_process {
    msi_child *self;
    const char *const *paths;
    int n_path;
    msi_ms_selection selection;
    pool_shared *shared;
    const uint8_t *only_rows; /* [n_path] shared */
    const char *order;        /* [most_order] shared */
    int64_t most_order;
    char *slots;     /* [POOL_SLOTS][slot_bytes], shared */
    char *all_slots; /* [n_process] slots of all processes */
    int64_t slot_bytes;
    const msi_reader_conversion *conversion; /* NULL: none */
    int is_first;                            /* 1: it writes the metadata */
} reader_process;

/* Number of places for exchanged results at the end of the slots. They are used in turn, because other processes may
 * still be reading the results of the exchange before. */
enum { N_EXCHANGED = 2 };

/* ---- Both sides ---- */

/* Return the address of the next bytes of a slot, aligned for any array. */
static void *next_bytes(char *slot, int64_t *at, int64_t bytes)
{
    void *array = slot + *at;
    *at += (bytes + 63) / 64 * 64;
    return array;
}

/* Set the addresses of the arrays of a reader's largest block in a slot, which may be NULL. Returns the size in
 * bytes. */
static int64_t lay_out_slot(struct msi_ms_buffer *b, char *slot, const msi_ms_reader *r, const block_conversion *order)
{
    int64_t n_row = 0, n_sample = 0, n_converted = 0, at = 0;
    for (int i = 0; i < r->n_set; i++)
        for (int k = 0; k < r->set[i].n_setup; k++) {
            const msi_ms_setup *s = &r->set[i].setup[k];
            if (s->n_chan == 0) continue;
            const int64_t n = s->block_rows * s->n_span * s->n_corr;
            n_row = s->block_rows > n_row ? s->block_rows : n_row;
            if (r->set[i].only_rows) continue;
            n_sample = n > n_sample ? n : n_sample;
            if (!order->n_byte) continue;
            const int64_t converted = order->conversion->bytes(order->bytes, s->block_rows, s->n_chan, s->freq_hz);
            n_converted = converted > n_converted ? converted : n_converted;
        }
    *b = (struct msi_ms_buffer){.n_row_allocated = n_row, .n_sample_allocated = n_sample};
    b->ms_row = next_bytes(slot, &at, n_row * (int64_t)sizeof *b->ms_row);
    b->time_s = next_bytes(slot, &at, n_row * (int64_t)sizeof *b->time_s);
    b->uvw_m = next_bytes(slot, &at, 3 * n_row * (int64_t)sizeof *b->uvw_m);
    b->pair = next_bytes(slot, &at, n_row);
    b->antenna = next_bytes(slot, &at, 2 * n_row * (int64_t)sizeof *b->antenna);
    b->row_weight = next_bytes(slot, &at, n_row * MSI_MAX_CORR * (int64_t)sizeof *b->row_weight);
    if (order->n_byte) {
        b->converted = next_bytes(slot, &at, n_converted);
        return at;
    }
    b->data = next_bytes(slot, &at, n_sample * (int64_t)sizeof *b->data);
    b->weight = next_bytes(slot, &at, n_sample * (int64_t)sizeof *b->weight);
    b->flag = next_bytes(slot, &at, n_sample);
    return at;
}

/* Return the size of the space for metadata. Exchanged results are stored after it. */
static int64_t metadata_bytes(int64_t slot_bytes)
{
    return (POOL_SLOTS - N_EXCHANGED) * slot_bytes;
}

/* Compute the FNV-1a hash of n bytes. */
static uint64_t hash_bytes(const char *bytes, int64_t n)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int64_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3;
    return hash;
}

/* Make a frame of a request or reply. */
static msi_frame frame_of(int kind, int64_t number, const void *bytes, size_t size)
{
    msi_frame f = {.kind = kind, .number = number, .n_byte = (int64_t)size};
    memcpy(f.text, bytes, size);
    return f;
}

/* ---- Replies ---- */

/* Send a reply. If the parent has ended, exit. */
static void send_reply(const reader_process *p, const pool_reply *answer)
{
    const msi_frame f = frame_of(answer->kind, answer->number, answer, sizeof *answer);
    if (msi_child_send(p->self, &f) != 0) _exit(0);
}

static void recv_request(const reader_process *p, pool_request *q)
{
    msi_frame f;
    msi_child_get(p->self, &f);
    memcpy(q, f.text, sizeof *q);
}

static void send_failure(const reader_process *p, int64_t number, int status)
{
    msi_frame f = {.kind = MSI_CHILD_DONE, .number = number, .status = msi_ms_limit_explain(status, p->paths[0])};
    msi_child_put_error(&f);
    if (msi_child_send(p->self, &f) != 0) _exit(0);
}

/* ---- Open ---- */

/* Report progress to the parent. */
static void report_progress(void *of, const char *stage, double fraction)
{
    (void)stage;
    pool_shared *shared = of;
    shared->opened_ppm = (int64_t)(1e6 * fraction);
}

/* The exchanges of an opening. */
typedef struct exchange {
    const reader_process *process;
    const pool_request *open;
    pool_request *next; /* receives the next request if the parent interrupts the opening */
    int is_cut_off;
    int64_t n_done;
} exchange;

/* Bytes before exchanged results; they have the number of bytes. */
enum { EXCHANGE_HEAD = 64 };

/* Copy bytes to the shared memory for the other processes, and wait until all processes have copied theirs. */
static int exchange_bytes(void *of, const char *bytes, int64_t n_byte, const char **all, int64_t *n_all)
{
    exchange *x = of;
    const reader_process *p = x->process;
    const int64_t most_bytes = p->slot_bytes - EXCHANGE_HEAD;
    const int64_t at = (POOL_SLOTS - N_EXCHANGED + x->n_done++ % N_EXCHANGED) * p->slot_bytes;
    if (n_byte > most_bytes)
        return msi_error_set(MSI_ENOMEM, "the metadata of the sets is too large for the shared memory");
    memcpy(p->slots + at, &n_byte, sizeof n_byte);
    memcpy(p->slots + at + EXCHANGE_HEAD, bytes, (size_t)n_byte);
    send_reply(p, &(pool_reply){.kind = POOL_FOUND, .number = x->open->number});
    do {
        recv_request(p, x->next);
        x->is_cut_off = x->next->kind == POOL_OPEN || x->next->kind == POOL_BEGIN;
        if (x->is_cut_off) return msi_error_set(MSI_EINTERRUPTED, "the opening of the sets was interrupted");
    } while (x->next->kind != POOL_SHARED || x->next->number != x->open->number);
    for (int k = 0; k < x->open->n_part; k++) {
        const char *slot = p->all_slots + k * POOL_SLOTS * p->slot_bytes + at;
        memcpy(&n_all[k], slot, sizeof n_all[k]);
        if (n_all[k] < 0 || n_all[k] > most_bytes) n_all[k] = 0;
        all[k] = slot + EXCHANGE_HEAD;
    }
    return MSI_OK;
}

/* Open the sets. Returned: *q  the next request of the parent, if *is_done is 0 on return */
static int open_sets(const reader_process *p, pool_request *q, msi_ms_reader **r, int *is_done)
{
    const pool_request open = *q;
    msi_ms_selection selection = p->selection;
    selection.interval_begin = open.opening.interval_begin;
    selection.interval_end = open.opening.interval_end;
    selection.may_be_empty = open.opening.may_be_empty;
    selection.coordinates_only = open.opening.coordinates_only;
    selection.keep_flagged_rows = open.opening.keep_flagged_rows;
    msi_ms_reader_free(*r);
    *r = NULL;
    msi_child_progress(MSI_CHILD_STEP_S);
    if (p->is_first) msi_progress_listen(report_progress, p->shared);
    msi_progress_begin("opening");
    exchange x = {.process = p, .open = &open, .next = q};
    const msi_ms_partners partners = {.part = open.part, .n_part = open.n_part, .of = &x, .exchange = exchange_bytes};
    const int status = msi_ms_reader_open_with(r, p->paths, p->n_path, &selection, &partners);
    *is_done = !x.is_cut_off;
    if (x.is_cut_off) return MSI_OK;
    MSI_TRY(status);
    MSI_TRY(msi_ms_reader_take_share(*r, open.opening.share, open.opening.n_share, open.opening.whole_fields));
    msi_progress_end();
    char *bytes;
    pool_reply answer = {.kind = POOL_OPENED, .number = open.number};
    MSI_TRY(msi_ms_pack_metadata(*r, &bytes, &answer.n_byte));
    answer.hash = hash_bytes(bytes, answer.n_byte);
    for (int i = 0; i < (*r)->n_set && !selection.coordinates_only; i++)
        answer.written = msi_hash(answer.written, &(*r)->set[i].watch.written, sizeof answer.written);
    const int fits = answer.n_byte <= metadata_bytes(p->slot_bytes);
    if (fits && p->is_first) memcpy(p->slots, bytes, (size_t)answer.n_byte);
    msi_free(bytes);
    if (!fits) return msi_error_set(MSI_ENOMEM, "the metadata of the sets is too large for the shared memory");
    send_reply(p, &answer);
    return MSI_OK;
}

/* ---- Read ---- */

/* Wait until a slot is free. Returns 0 if the parent has sent another request, which is then in *q. */
static int await_slot(const reader_process *p, const pool_request *begin, int64_t n_full, int64_t *n_freed,
                      pool_request *q)
{
    while (n_full - *n_freed == begin->n_slot) {
        recv_request(p, q);
        if (q->kind != POOL_FREED) return 0;
        *n_freed += q->number == begin->number;
    }
    return 1;
}

/* Copy the parameters of the conversion, because the parent may overwrite them for its next request. */
static int copy_conversion(const reader_process *p, const pool_request *q, block_conversion *order)
{
    *order = (block_conversion){.conversion = p->conversion};
    if (!q->n_order) return MSI_OK;
    if (!p->conversion || q->n_order < 0 || q->n_order > p->most_order)
        return msi_error_set(MSI_EINTERNAL, "a reader process was given an invalid conversion");
    MSI_TRY(msi_alloc(&order->bytes, q->n_order, 1, "the conversion of blocks"));
    memcpy(order->bytes, p->order, (size_t)q->n_order);
    order->n_byte = q->n_order;
    return MSI_OK;
}

/* Copy the rows of a block to other arrays. */
static void copy_rows(const msi_ms_block *block, struct msi_ms_buffer *to)
{
    const size_t n = (size_t)block->n_row;
    memcpy(to->ms_row, block->ms_row, n * sizeof *to->ms_row);
    memcpy(to->time_s, block->time_s, n * sizeof *to->time_s);
    memcpy(to->uvw_m, block->uvw_m, 3 * n * sizeof *to->uvw_m);
    memcpy(to->pair, block->pair, n);
    memcpy(to->antenna, block->antenna, 2 * n * sizeof *to->antenna);
}

/* Return whether blocks are read into slots, because they are not converted here. */
static int is_read_into(const msi_ms_reader *r, const block_conversion *order)
{
    for (int i = 0; i < r->n_set && order->n_byte; i++)
        if (!r->set[i].only_rows) return 0;
    return 1;
}

/* Read the next block into a slot: as stored, converted, or only its rows. */
static int read_block(msi_ms_reader *r, const pool_request *q, const block_conversion *order,
                      struct msi_ms_buffer *slot, msi_ms_block *block, int *is_end)
{
    r->lends = order->n_byte > 0;
    const int is_in_slot = is_read_into(r, order);
    if (is_in_slot) block->buffer = slot;
    MSI_TRY(msi_ms_reader_next_of(r, q->part, q->n_part, block, is_end));
    if (!block->n_row) return MSI_OK;
    if (r->set[block->set].only_rows) {
        if (!is_in_slot) copy_rows(block, slot);
        if (r->raw.has_row_weight)
            memcpy(slot->row_weight, r->raw.row_weight,
                   (size_t)(block->n_row * block->n_corr) * sizeof *slot->row_weight);
        return MSI_OK;
    }
    if (!order->n_byte) return MSI_OK;
    copy_rows(block, slot);
    return order->conversion->convert(order->conversion->of, order->bytes, block, slot->uvw_m, slot->converted);
}

/* Read all blocks of this process into its slots. Stop after the last block, or if the parent sends another request,
 * which is then in *q. */
static int read_blocks(const reader_process *p, msi_ms_reader *r, const block_conversion *order, pool_request *q,
                       int *is_done)
{
    const pool_request begin = *q;
    msi_ms_block block = {0};
    int is_end = 0;
    if (begin.n_slot < 1 || begin.slot_bytes < 1 || begin.n_slot > POOL_SLOTS * p->slot_bytes / begin.slot_bytes)
        return msi_error_set(MSI_EINTERNAL, "a reader process was given invalid slots");
    for (int64_t n_full = 0, n_freed = 0; !is_end; n_full++) {
        if (!await_slot(p, &begin, n_full, &n_freed, q)) {
            *is_done = 0;
            return MSI_OK;
        }
        struct msi_ms_buffer slot;
        if (lay_out_slot(&slot, p->slots + n_full % begin.n_slot * begin.slot_bytes, r, order) > begin.slot_bytes)
            return msi_error_set(MSI_ENOMEM, "a block is too large for the shared memory");
        memset(&r->dropped, 0, sizeof r->dropped);
        MSI_TRY(read_block(r, &begin, order, &slot, &block, &is_end));
        send_reply(p, &(pool_reply){.kind = is_end ? POOL_END : POOL_BLOCK,
                                    .number = begin.number,
                                    .n_row = block.n_row,
                                    .set = block.set,
                                    .data_desc_id = block.data_desc_id,
                                    .field_id = block.field_id,
                                    .has_row_weight = r->raw.has_row_weight,
                                    .dropped = r->dropped});
    }
    return MSI_OK;
}

static int read_all(const reader_process *p, msi_ms_reader *r, pool_request *q, int *is_done)
{
    block_conversion order;
    if (!r) return msi_error_set(MSI_EINTERNAL, "a reader process got a request to read sets that are not open");
    MSI_TRY(copy_conversion(p, q, &order));
    for (int i = 0; i < r->n_set; i++) r->set[i].only_rows = p->only_rows[i] != 0;
    msi_ms_reader_rewind(r);
    const int status = read_blocks(p, r, &order, q, is_done);
    msi_free(order.bytes);
    return status;
}

/* Fail if a column was rewritten since its set was first opened. */
static int check_columns(const reader_process *p, msi_ms_reader *r, const pool_request *q)
{
    for (int i = 0; r && i < r->n_set; i++) {
        const int status = msi_ms_set_recheck(&r->set[i]);
        if (r->n_set > 1) msi_ms_set_close(&r->set[i]);
        MSI_TRY(status);
    }
    send_reply(p, &(pool_reply){.kind = POOL_CHECKED, .number = q->number});
    return MSI_OK;
}

/* Handle the parent's requests until the parent ends. */
static _Noreturn void serve(const reader_process *p)
{
    msi_ms_reader *r = NULL;
    pool_request q;
    int is_done = 1;
    for (;;) {
        if (is_done) recv_request(p, &q);
        const int64_t number = q.number;
        const request_kind kind = q.kind;
        int status = MSI_OK;
        is_done = 1;
        if (kind == POOL_OPEN) status = open_sets(p, &q, &r, &is_done);
        if (kind == POOL_BEGIN) status = read_all(p, r, &q, &is_done);
        if (kind == POOL_CHECK) status = check_columns(p, r, &q);
        if (status != MSI_OK) send_failure(p, number, status);
    }
}

/* ---- The parent ---- */

/* Size of a slot. A block has about 2 MB, but a row may be larger: at 13 bytes per value, up to 80 million values. */
static const int64_t LARGEST_SLOT = (int64_t)1 << 30, LEAST_SLOT = (int64_t)4 << 20;

/* Offsets in the shared memory, and the largest size of a conversion. Only pages that are written take memory. */
static const int64_t ROWS_AT = 4096, MOST_ORDER = (int64_t)64 << 20;

static int64_t order_at(int n_path)
{
    return ROWS_AT + ((int64_t)n_path + 4095) / 4096 * 4096;
}

static int64_t slots_at(int n_path)
{
    return order_at(n_path) + MOST_ORDER;
}
_Static_assert(sizeof(pool_shared) <= 4096, "the sets' bytes begin after it");

/* A process, as the parent sees it. */
typedef struct worker {
    msi_child *child;
    char *slots; /* [POOL_SLOTS][slot_bytes] in the pool's memory */
    struct msi_ms_buffer slot[MOST_SLOTS];
    int64_t n_taken; /* blocks taken since BEGIN */
    int n_lent;      /* blocks that the caller is using */
} worker;

/* Memory of the threads that fill blocks. It is kept until the pool is freed, so that its pages are allocated once. */
typedef struct filler {
    int n_thread, open_set;                  /* set whose columns are open; -1: none */
    msi_ms_raw *raw;                         /* [n_thread] */
    struct msi_ms_buffer *sample;            /* [n_thread] samples of blocks that are converted */
    void **of;                               /* [n_thread] state of the conversion */
    const float *row_weight[MOST_QUEUE];     /* weights of the taken blocks, in their slots; NULL: not needed */
    struct msi_ms_buffer buffer[MOST_QUEUE]; /* buffers of the blocks that the caller is using */
    int64_t n_converted_allocated[MOST_QUEUE];
    msi_ms_dropped dropped[MOST_QUEUE];
} filler;

struct msi_reader_pool {
    const char *const *paths;
    int n_path;
    msi_ms_selection selection;
    int n_worker;
    worker *worker;
    int64_t number, opening; /* number of the last answered request, and of the last OPEN */
    pool_shared *shared;     /* mapped, together with the slots of all processes */
    int64_t slot_bytes, n_mapped;
    block_conversion order;
    int is_reading, is_at_end, is_checked;
    int64_t n_block; /* number of blocks taken so far */
    /* slots of each process: the caller uses the blocks of at most half of them, while the process fills the others */
    int n_slot;
    filler filler;
    msi_ms_block queue[MOST_QUEUE]; /* blocks taken in advance for next_block */
    int n_queued, queue_at;
    int has_read; /* 1: columns have been opened for reading */
    uint64_t written;
};

/* ---- Start ---- */

/* Map the slots, with space for a row of any size, or as much as possible. Only pages that blocks use take memory. */
static int map_slots(msi_reader_pool *pool)
{
    void *p = MAP_FAILED;
    for (int64_t bytes = LARGEST_SLOT; p == MAP_FAILED && bytes >= LEAST_SLOT; bytes /= 4) {
        pool->slot_bytes = bytes;
        pool->n_mapped = slots_at(pool->n_path) + pool->n_worker * POOL_SLOTS * bytes;
        p = mmap(NULL, (size_t)pool->n_mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                 0);
    }
    if (p == MAP_FAILED)
        return msi_error_set(MSI_ENOMEM, "cannot map memory shared with reader processes: %s", strerror(errno));
    pool->shared = p;
    for (int k = 0; k < pool->n_worker; k++)
        pool->worker[k].slots = (char *)p + slots_at(pool->n_path) + k * POOL_SLOTS * pool->slot_bytes;
    return MSI_OK;
}

/* Argument of run_process: the pool, and the index of the process. */
typedef struct start_task {
    msi_reader_pool *pool;
    int k;
} start_task;

static int run_process(msi_child *self, void *of)
{
    const start_task *t = of;
    const msi_reader_pool *pool = t->pool;
    const reader_process p = {.self = self,
                              .paths = pool->paths,
                              .n_path = pool->n_path,
                              .selection = pool->selection,
                              .shared = pool->shared,
                              .only_rows = (const uint8_t *)pool->shared + ROWS_AT,
                              .order = (const char *)pool->shared + order_at(pool->n_path),
                              .most_order = MOST_ORDER,
                              .conversion = pool->order.conversion,
                              .slots = pool->worker[t->k].slots,
                              .all_slots = pool->worker[0].slots,
                              .slot_bytes = pool->slot_bytes,
                              .is_first = t->k == 0};
    msi_ms_child_begin();
    msi_ms_limit_memory(p.paths, p.n_path);
    serve(&p);
}

static int start_worker(msi_reader_pool *pool, int k)
{
    start_task t = {pool, k};
    const msi_child_spec spec = {
        .work = run_process, .of = &t, .what = "a reader process", .path = pool->paths[0], .cpu_s = MSI_CHILD_STEP_S};
    return msi_child_start(&pool->worker[k].child, &spec);
}

int msi_reader_pool_start(msi_reader_pool **out, const char *const *paths, int n_path,
                          const msi_ms_selection *selection, int n_process, const msi_reader_conversion *conversion)
{
    msi_reader_pool *pool;
    *out = NULL;
    MSI_TRY(msi_alloc(&pool, 1, sizeof *pool, "reader processes"));
    *pool = (msi_reader_pool){.paths = paths,
                              .n_path = n_path,
                              .selection = *selection,
                              .n_worker = n_process,
                              .order = {.conversion = conversion}};
    int status = msi_alloc(&pool->worker, n_process, sizeof *pool->worker, "reader processes");
    if (status != MSI_OK) pool->n_worker = 0;
    if (status == MSI_OK) status = map_slots(pool);
    for (int k = 0; k < pool->n_worker && status == MSI_OK; k++) {
        status = start_worker(pool, k);
        if (status == MSI_OK || k == 0) continue;
        msi_log_warning("%s; continuing with %d reader process%s", msi_error_get(), k, k == 1 ? "" : "es");
        pool->n_worker = k;
        status = MSI_OK;
    }
    if (status != MSI_OK) {
        msi_reader_pool_free(pool);
        return status;
    }
    *out = pool;
    return MSI_OK;
}

/* ---- Replies ---- */

static int fail_process(const msi_reader_pool *pool, const char *what)
{
    return msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: a reader process %s", pool->paths[0], what);
}

/* Set the error message for a process that has ended instead of sending a reply. */
static int explain_end(const worker *w)
{
    const int status = msi_child_fail(w->child, MSI_EINPUT);
    return strcmp(msi_error_about_get(), "killed") == 0 ? msi_error_about(status, "n_reader") : status;
}

/* Receive the next reply of a process to the last request, if there is one. Ignore replies to earlier requests. */
static int poll_reply(const msi_reader_pool *pool, worker *w, pool_reply *answer, int *is_there)
{
    msi_frame f;
    int got;
    *is_there = 0;
    do {
        MSI_TRY(msi_child_receive(w->child, 0, &f, &got));
        if (got < 0) return explain_end(w);
        if (got == 0) return MSI_OK;
        /* A process that exits by itself does not answer a request. */
    } while (f.number != pool->number && !(f.kind == MSI_CHILD_DONE && f.number == 0));
    *is_there = 1;
    if (f.kind == MSI_CHILD_DONE)
        return f.status ? msi_child_error(&f) : fail_process(pool, "sent an unexpected reply");
    if (f.n_byte != (int64_t)sizeof *answer) return fail_process(pool, "sent an unexpected reply");
    memcpy(answer, f.text, sizeof *answer);
    return MSI_OK;
}

/* Wait for the next reply of a process. */
static int recv_reply(const msi_reader_pool *pool, worker *w, pool_reply *answer)
{
    for (;;) {
        int is_there;
        MSI_TRY(poll_reply(pool, w, answer, &is_there));
        if (is_there) return MSI_OK;
        if (!pool->is_reading) msi_progress_at(pool->shared->opened_ppm, 1000000);
        msi_child_wait_briefly(w->child);
        MSI_TRY(msi_interrupt_check());
    }
}

static int send_request(const worker *w, const pool_request *q)
{
    const msi_frame f = frame_of(q->kind, q->number, q, sizeof *q);
    return msi_child_ask(w->child, &f);
}

static int send_all(msi_reader_pool *pool, pool_request *q)
{
    q->number = ++pool->number;
    q->n_part = pool->n_worker;
    q->n_order = pool->order.n_byte;
    for (q->part = 0; q->part < pool->n_worker; q->part++) MSI_TRY(send_request(&pool->worker[q->part], q));
    return MSI_OK;
}

/* ---- Open ---- */

static void reset_conversion(msi_reader_pool *pool)
{
    msi_free(pool->order.bytes);
    pool->order.bytes = NULL;
    pool->order.n_byte = 0;
}

/* Unpack the metadata of the first process. A corrupted process may still write to the shared memory, so copy them
 * first and check their hash. */
static int unpack_reply(msi_reader_pool *pool, const pool_reply *answer, msi_ms_reader **reader)
{
    char *bytes;
    const int64_t n = answer->n_byte;
    if (n < 1 || n > metadata_bytes(pool->slot_bytes)) return fail_process(pool, "returned invalid metadata");
    MSI_TRY(msi_alloc(&bytes, n, 1, "metadata of the sets"));
    memcpy(bytes, pool->worker[0].slots, (size_t)n);
    const int status = hash_bytes(bytes, n) == answer->hash
                           ? msi_ms_unpack_metadata(reader, pool->paths, pool->n_path, bytes, n)
                           : fail_process(pool, "returned invalid metadata");
    msi_free(bytes);
    return status;
}

/* Receive one reply from each process, which must be equal: FOUND or OPENED. */
static int recv_equal_replies(msi_reader_pool *pool, pool_reply *first)
{
    pool_reply answer;
    MSI_TRY(recv_reply(pool, &pool->worker[0], first));
    if (first->kind != POOL_OPENED && first->kind != POOL_FOUND) return fail_process(pool, "sent an unexpected reply");
    for (int k = 1; k < pool->n_worker; k++) {
        MSI_TRY(recv_reply(pool, &pool->worker[k], &answer));
        if (answer.kind != first->kind || answer.n_byte != first->n_byte || answer.hash != first->hash ||
            answer.written != first->written)
            return msi_error_set(MSI_EINPUT, "%s: changed while it was read", pool->paths[0]);
    }
    return MSI_OK;
}

/* Fail if a column was rewritten since an earlier opening. */
static int check_writing(msi_reader_pool *pool, const msi_ms_opening *opening, const pool_reply *first)
{
    if (opening->coordinates_only) return MSI_OK;
    if (pool->has_read && first->written != pool->written)
        return msi_error_set(MSI_EINPUT, "%s: a column was rewritten while it was read; read it again", pool->paths[0]);
    pool->has_read = 1;
    pool->written = first->written;
    return MSI_OK;
}

/* Implement msi_ms_reader_next for the reader of the last opening. Earlier blocks become invalid. */
static int next_block(void *pool, msi_ms_reader *reader, msi_ms_block *block)
{
    msi_reader_pool *p = pool;
    int n;
    block->n_row = 0;
    if (msi_reader_pool_load(p, reader) > 0) {
        MSI_TRY(msi_reader_pool_take(pool, reader, 1, block, &n));
        return msi_reader_pool_fill(pool, reader, block, n);
    }
    if (p->queue_at == p->n_queued) {
        const int wanted = 2 * omp_get_max_threads();
        p->queue_at = 0;
        MSI_TRY(msi_reader_pool_take(pool, reader, wanted < MOST_QUEUE ? wanted : MOST_QUEUE, p->queue, &p->n_queued));
        MSI_TRY(msi_reader_pool_fill(pool, reader, p->queue, p->n_queued));
    }
    if (p->queue_at < p->n_queued) *block = p->queue[p->queue_at++];
    return MSI_OK;
}

/* Start again from the first block. */
static void rewind_blocks(void *pool)
{
    msi_reader_pool *p = pool;
    p->is_reading = 0;
    p->n_queued = p->queue_at = 0;
}

static int count_processes(const void *pool)
{
    return msi_reader_pool_size(pool);
}

static const msi_ms_pool_ops POOL_OPS = {next_block, rewind_blocks, count_processes};

/* Find the sets whose large columns can be read by threads of this process. */
static int choose_direct(const msi_reader_pool *pool, msi_ms_reader *r)
{
    if (pool->order.conversion && !pool->order.conversion->copy) return MSI_OK;
    for (int i = 0; i < r->n_set; i++) {
        msi_ms_set *set = &r->set[i];
        MSI_TRY(msi_ms_set_open_columns(set));
        set->only_rows = set->is_direct;
        if (r->n_set > 1) msi_ms_set_close(set); /* the number of open files is limited */
    }
    return MSI_OK;
}

int msi_reader_pool_load(const msi_reader_pool *pool, const msi_ms_reader *r)
{
    int n = 0;
    for (int i = 0; i < r->n_set; i++) n += !r->set[i].only_rows;
    return n ? pool->n_worker : 0;
}

int msi_reader_pool_open(msi_reader_pool *pool, const msi_ms_opening *opening, msi_ms_reader **reader)
{
    pool_request open = {.kind = POOL_OPEN, .opening = *opening};
    pool_reply first;
    *reader = NULL;
    rewind_blocks(pool);
    reset_conversion(pool);
    pool->shared->opened_ppm = 0;
    MSI_TRY(send_all(pool, &open));
    pool->opening = pool->number;
    for (;;) {
        MSI_TRY(recv_equal_replies(pool, &first));
        if (first.kind == POOL_OPENED) break;
        const pool_request shared = {.kind = POOL_SHARED, .number = pool->number};
        for (int k = 0; k < pool->n_worker; k++) MSI_TRY(send_request(&pool->worker[k], &shared));
    }
    MSI_TRY(check_writing(pool, opening, &first));
    MSI_TRY(unpack_reply(pool, &first, reader));
    (*reader)->selection = pool->selection;
    (*reader)->selection.coordinates_only = opening->coordinates_only;
    (*reader)->selection.keep_flagged_rows = opening->keep_flagged_rows;
    (*reader)->pool = pool;
    (*reader)->pool_ops = &POOL_OPS;
    (*reader)->pool_opening = pool->opening;
    int rc = msi_ms_reader_take_share(*reader, opening->share, opening->n_share, opening->whole_fields);
    if (!rc && !opening->coordinates_only) rc = choose_direct(pool, *reader);
    if (!rc) return MSI_OK;
    msi_ms_reader_free(*reader);
    *reader = NULL;
    return rc;
}

/* ---- Read ---- */

int msi_reader_pool_set_conversion(msi_reader_pool *pool, const void *order, int64_t n_byte)
{
    if (n_byte > MOST_ORDER)
        return msi_error_set(MSI_ENOMEM, "the conversion of blocks takes %.3f GB; at most %.3f GB are supported",
                             1e-9 * (double)n_byte, 1e-9 * (double)MOST_ORDER);
    if (!pool->order.conversion || n_byte < 1)
        return msi_error_set(MSI_EINTERNAL, "the reader pool was started without a conversion");
    reset_conversion(pool);
    MSI_TRY(msi_alloc(&pool->order.bytes, n_byte, 1, "the conversion of blocks"));
    memcpy(pool->order.bytes, order, (size_t)n_byte);
    pool->order.n_byte = n_byte;
    rewind_blocks(pool);
    return MSI_OK;
}

/* Allocate the memory of the threads that fill blocks, unless it is allocated. */
static int make_filler(msi_reader_pool *pool)
{
    filler *f = &pool->filler;
    const int n = omp_get_max_threads();
    if (n <= f->n_thread) return MSI_OK;
    MSI_TRY(msi_grow(&f->raw, f->n_thread, n, sizeof *f->raw, "threads that read"));
    MSI_TRY(msi_grow(&f->sample, f->n_thread, n, sizeof *f->sample, "threads that read"));
    MSI_TRY(msi_grow(&f->of, f->n_thread, n, sizeof *f->of, "threads that read"));
    for (; f->n_thread < n; f->n_thread++)
        if (pool->order.conversion && pool->order.conversion->copy)
            MSI_TRY(pool->order.conversion->copy(&f->of[f->n_thread]));
    return MSI_OK;
}

static void free_filler(msi_reader_pool *pool)
{
    filler *f = &pool->filler;
    for (int i = 0; i < f->n_thread; i++) {
        msi_ms_raw_free(&f->raw[i]);
        msi_ms_buffer_free(&f->sample[i]);
        if (f->of[i]) pool->order.conversion->drop(f->of[i]);
    }
    for (int i = 0; i < MOST_QUEUE; i++) msi_ms_buffer_free(&f->buffer[i]);
    msi_free(f->raw);
    msi_free(f->sample);
    msi_free(f->of);
}

/* Most bytes of the slots of all processes, if there are more than POOL_SLOTS for each process. */
static const int64_t MORE_SLOTS_BYTES = (int64_t)64 << 20;

/* Return the number of slots of a process for blocks without samples. */
static int slots_of_rows(const msi_reader_pool *pool, int64_t bytes)
{
    const int64_t fits = pool->slot_bytes * POOL_SLOTS / bytes, suits = MORE_SLOTS_BYTES / (bytes * pool->n_worker);
    const int64_t n = fits < suits ? fits : suits;
    return n < POOL_SLOTS ? POOL_SLOTS : n > MOST_SLOTS ? MOST_SLOTS : (int)n;
}

/* Request the processes to read all blocks of the open sets. */
static int begin_reading(msi_reader_pool *pool, msi_ms_reader *reader)
{
    struct msi_ms_buffer none;
    /* A reader without rows has no blocks, but slots must have a size. */
    const int64_t needed = lay_out_slot(&none, pool->worker[0].slots, reader, &pool->order),
                  bytes = needed > 0 ? needed : 64;
    const int is_direct = msi_reader_pool_load(pool, reader) == 0;
    pool->n_slot = is_direct ? slots_of_rows(pool, bytes) : POOL_SLOTS;
    if (bytes > pool->slot_bytes || bytes > msi_memory_limit() / (pool->n_slot * pool->n_worker))
        return msi_error_about(
            msi_error_set(MSI_ENOMEM, "the blocks of %d reader process%s need %.3f GB; the limit is %.3f GB",
                          pool->n_worker, pool->n_worker == 1 ? "" : "es",
                          1e-9 * pool->n_slot * pool->n_worker * (double)bytes, 1e-9 * (double)msi_memory_limit()),
            pool->n_worker > 1 ? "n_reader" : "memory");
    for (int k = 0; k < pool->n_worker; k++) {
        worker *w = &pool->worker[k];
        w->n_taken = w->n_lent = 0;
        for (int i = 0; i < pool->n_slot; i++) lay_out_slot(&w->slot[i], w->slots + i * bytes, reader, &pool->order);
    }
    char *shared = (char *)pool->shared;
    for (int i = 0; i < reader->n_set; i++) shared[ROWS_AT + i] = (char)reader->set[i].only_rows;
    if (pool->order.n_byte) memcpy(shared + order_at(pool->n_path), pool->order.bytes, (size_t)pool->order.n_byte);
    MSI_TRY(make_filler(pool));
    pool_request request = {.kind = POOL_BEGIN, .slot_bytes = bytes, .n_slot = pool->n_slot};
    MSI_TRY(send_all(pool, &request));
    memset(&reader->dropped, 0, sizeof reader->dropped);
    pool->n_block = 0;
    pool->is_reading = 1;
    pool->is_at_end = pool->is_checked = 0;
    return MSI_OK;
}

/* Send FREED to a process. */
static int send_freed(msi_reader_pool *pool, worker *w)
{
    const pool_request freed = {.kind = POOL_FREED, .number = pool->number};
    return send_request(w, &freed);
}

/* Free all slots whose blocks the caller was using. */
static int free_lent_slots(msi_reader_pool *pool)
{
    for (int k = 0; k < pool->n_worker; k++)
        for (; pool->worker[k].n_lent > 0; pool->worker[k].n_lent--) MSI_TRY(send_freed(pool, &pool->worker[k]));
    return MSI_OK;
}

/* Wait for END of all processes except the first. */
static int recv_ends(msi_reader_pool *pool, int first)
{
    pool_reply answer;
    for (int i = 1; i < pool->n_worker; i++) {
        MSI_TRY(recv_reply(pool, &pool->worker[(first + i) % pool->n_worker], &answer));
        if (answer.kind != POOL_END) return fail_process(pool, "sent an unexpected reply");
    }
    pool->is_at_end = 1;
    return MSI_OK;
}

static int add_dropped(msi_ms_dropped *sum, const msi_ms_dropped *d)
{
    if (d->autocorrelation < 0 || d->flag_row < 0 || d->uvw_not_finite < 0 || d->uv_limits < 0) return 0;
    if (d->uv_flagged < 0 || d->uv_flagged > d->uv_limits) return 0;
    sum->autocorrelation += d->autocorrelation;
    sum->flag_row += d->flag_row;
    sum->uvw_not_finite += d->uvw_not_finite;
    sum->uv_limits += d->uv_limits;
    sum->uv_flagged += d->uv_flagged;
    return 1;
}

/* Return 1 if a block and its rows are valid for the reader. */
static int block_is_valid(const msi_ms_reader *r, const pool_reply *a, const struct msi_ms_buffer *slot)
{
    if (a->n_row < 0 || a->n_row > slot->n_row_allocated) return 0;
    if (a->n_row == 0) return 1;
    if (a->set < 0 || a->set >= r->n_set) return 0;
    const msi_ms_set *set = &r->set[a->set];
    if (a->data_desc_id < 0 || a->data_desc_id >= set->n_setup || a->field_id < 0 || a->field_id >= set->n_field)
        return 0;
    const msi_ms_setup *s = &set->setup[a->data_desc_id];
    if (s->n_chan == 0 || a->n_row > s->block_rows || set->field[a->field_id].n_row == 0) return 0;
    for (int64_t i = 0; i < a->n_row; i++) {
        const double *uvw = slot->uvw_m + 3 * i;
        if (slot->ms_row[i] < (i > 0 ? slot->ms_row[i - 1] + 1 : 0) || slot->ms_row[i] >= set->n_table_row) return 0;
        if (!(fabs(uvw[0]) < MSI_MS_MAX_UVW_M && fabs(uvw[1]) < MSI_MS_MAX_UVW_M && fabs(uvw[2]) < MSI_MS_MAX_UVW_M))
            return 0;
        if (slot->pair[i] >= MSI_MS_PAIRS) return 0;
    }
    return 1;
}

/* Take the next block that has rows. If may_wait is 0, do not wait for it. *is_taken is 0 if it is not read yet, and
 * after the last block. */
static int take_next_block(msi_reader_pool *pool, msi_ms_reader *reader, int may_wait, msi_ms_block *block,
                           int *has_row_weight, int *is_taken)
{
    *is_taken = 0;
    for (; !pool->is_at_end; pool->n_block++) {
        const int k = (int)(pool->n_block % pool->n_worker);
        worker *w = &pool->worker[k];
        pool_reply answer;
        int is_there = may_wait;
        if (!may_wait && w->n_lent >= pool->n_slot / 2) return MSI_OK;
        MSI_TRY(may_wait ? recv_reply(pool, w, &answer) : poll_reply(pool, w, &answer, &is_there));
        if (!is_there) return MSI_OK;
        if (!add_dropped(&reader->dropped, &answer.dropped)) return fail_process(pool, "returned invalid counts");
        if (answer.kind == POOL_END) return recv_ends(pool, k);
        struct msi_ms_buffer *slot = &w->slot[w->n_taken++ % pool->n_slot];
        if (answer.kind != POOL_BLOCK || !block_is_valid(reader, &answer, slot))
            return fail_process(pool, "returned an invalid block");
        /* Slots are freed in order. So the slot of an empty block can be freed only if the caller uses no earlier
         * block. */
        if (answer.n_row == 0 && w->n_lent == 0) MSI_TRY(send_freed(pool, w));
        if (answer.n_row == 0) {
            w->n_lent += w->n_lent > 0;
            continue;
        }
        msi_ms_block_describe(reader, answer.set, answer.data_desc_id, answer.field_id, slot, answer.n_row, block);
        *has_row_weight = answer.has_row_weight;
        w->n_lent++;
        pool->n_block++;
        *is_taken = 1;
        return MSI_OK;
    }
    return MSI_OK;
}

/* ---- Read directly ---- */

/* Copy the rows of a block from its slot to another buffer, and let the block point there. */
static int keep_rows(struct msi_ms_buffer *b, msi_ms_block *block)
{
    MSI_TRY(msi_ms_buffer_fit_rows(b, block->n_row));
    copy_rows(block, b);
    block->ms_row = b->ms_row;
    block->time_s = b->time_s;
    block->uvw_m = b->uvw_m;
    block->pair = b->pair;
    block->antenna = b->antenna;
    return MSI_OK;
}

/* Convert a block with its samples. */
static int convert_filled(const msi_reader_pool *pool, void *of, struct msi_ms_buffer *b, int64_t *n_allocated,
                          msi_ms_block *block)
{
    const block_conversion *order = &pool->order;
    const int64_t n_row = block->into ? 0 : block->n_row,
                  bytes = order->conversion->bytes(order->bytes, n_row, block->n_chan, block->freq_hz);
    if (*n_allocated < bytes) {
        *n_allocated = 0;
        msi_free(b->converted);
        b->converted = NULL;
        MSI_TRY(msi_alloc(&b->converted, bytes, 1, "a block of visibilities"));
        *n_allocated = bytes;
    }
    MSI_TRY(order->conversion->convert(of, order->bytes, block, b->uvw_m, b->converted));
    block->data = NULL;
    block->weight = NULL;
    block->flag = NULL;
    block->converted = b->converted;
    return MSI_OK;
}

/* Argument of fill_rows. */
typedef struct fill_task {
    msi_reader_pool *pool;
    const msi_ms_reader *reader;
    int block, thread; /* index in the batch; thread */
} fill_task;

/* Implement msi_ms_block.fill. */
static int fill_rows(const msi_ms_block *block, int64_t row, int64_t n_row, msi_ms_block *part)
{
    const fill_task *t = block->fill_of;
    const msi_ms_reader *r = t->reader;
    filler *f = &t->pool->filler;
    const float *row_weight = f->row_weight[t->block];
    *part = *block;
    part->n_row = n_row;
    part->ms_row += row;
    part->time_s += row;
    part->uvw_m += 3 * row;
    part->pair += row;
    part->antenna += 2 * row;
    part->buffer = &f->sample[t->thread];
    return msi_ms_block_fill(&r->set[block->set], &r->selection, row_weight ? row_weight + row * block->n_corr : NULL,
                             &f->raw[t->thread], part, &f->dropped[t->block]);
}

/* Read the samples of block i of a batch, and convert them if a conversion is set. */
static int fill_block(msi_reader_pool *pool, const msi_ms_reader *r, msi_ms_block *block, int i)
{
    filler *f = &pool->filler;
    const int k = omp_get_thread_num();
    const int is_converted = pool->order.n_byte > 0;
    MSI_TRY(keep_rows(&f->buffer[i], block));
    fill_task task = {pool, r, i, k};
    block->buffer = is_converted ? &f->sample[k] : &f->buffer[i];
    block->data = NULL;
    block->weight = NULL;
    block->flag = NULL;
    block->fill = fill_rows;
    block->fill_of = &task;
    int status = MSI_OK;
    if (!is_converted || !pool->order.conversion->fills)
        status =
            msi_ms_block_fill(&r->set[block->set], &r->selection, f->row_weight[i], &f->raw[k], block, &f->dropped[i]);
    if (status == MSI_OK && is_converted)
        status = convert_filled(pool, f->of[k], &f->buffer[i], &f->n_converted_allocated[i], block);
    block->fill = NULL;
    block->fill_of = NULL;
    return status;
}

/* Open the columns of a set, and close the columns of the set before. */
static int open_for_fill(filler *f, msi_ms_reader *r, int set)
{
    if (r->n_set > 1 && f->open_set != set && f->open_set < r->n_set) msi_ms_set_close(&r->set[f->open_set]);
    f->open_set = set;
    MSI_TRY(msi_ms_set_open_columns(&r->set[set]));
    if (r->set[set].is_direct) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: its columns changed while it was read", r->set[set].path);
}

int msi_reader_pool_fill(msi_reader_pool *pool, msi_ms_reader *r, msi_ms_block *block, int n)
{
    filler *f = &pool->filler;
    int n_filled = 0;
    for (int i = 0, end; i < n; i = end) {
        const int set = block[i].set;
        for (end = i + 1; end < n && block[end].set == set;) end++;
        if (!block[i].is_unfilled) continue;
        msi_first_error failure = {0};
        MSI_TRY(open_for_fill(f, r, set));
        memset(f->dropped + i, 0, sizeof *f->dropped * (size_t)(end - i));
#pragma omp parallel for schedule(dynamic, 1) num_threads(end - i < f->n_thread ? end - i : f->n_thread)
        for (int k = i; k < end; k++)
            if (!msi_first_error_status(&failure)) msi_first_error_keep(&failure, fill_block(pool, r, &block[k], k));
        MSI_TRY(msi_first_error_raise(&failure));
        for (int k = i; k < end; k++) {
            add_dropped(&r->dropped, &f->dropped[k]);
            block[k].is_unfilled = 0;
        }
        n_filled += end - i;
    }
    /* Filled blocks do not use their slots any more. */
    return n_filled == n ? free_lent_slots(pool) : MSI_OK;
}

/* Fail if a column was rewritten while threads were reading it. */
static int check_at_end(msi_reader_pool *pool, const msi_ms_reader *r)
{
    pool_reply answer;
    int n = 0;
    for (int i = 0; i < r->n_set; i++) n += r->set[i].only_rows;
    if (pool->is_checked || n == 0) return MSI_OK;
    const pool_request check = {.kind = POOL_CHECK, .number = pool->number};
    MSI_TRY(send_request(&pool->worker[0], &check));
    MSI_TRY(recv_reply(pool, &pool->worker[0], &answer));
    if (answer.kind != POOL_CHECKED) return fail_process(pool, "sent an unexpected reply");
    pool->is_checked = 1;
    return MSI_OK;
}

/* Most bytes of a batch of blocks that threads fill, except a batch of one block. */
static const int64_t BATCH_BYTES = (int64_t)64 << 20;

/* Return the size in bytes of a block that threads fill. */
static int64_t filled_bytes(const msi_reader_pool *pool, const msi_ms_reader *r, const msi_ms_block *b)
{
    const int64_t value = sizeof(msi_c32) + sizeof(float) + 1;
    if (!r->set[b->set].only_rows) return 0;
    if (!pool->order.n_byte) return value * b->n_row * b->n_chan * b->n_corr;
    return pool->order.conversion->bytes(pool->order.bytes, b->n_row, b->n_chan, b->freq_hz);
}

int msi_reader_pool_take(msi_reader_pool *pool, msi_ms_reader *reader, int most, msi_ms_block *block, int *n)
{
    int64_t bytes = 0;
    *n = 0;
    if (reader->pool_opening != pool->opening)
        return msi_error_set(MSI_EINTERNAL, "a reader was used after its pool opened the sets again");
    if (!pool->is_reading) MSI_TRY(begin_reading(pool, reader));
    MSI_TRY(free_lent_slots(pool));
    most = most < MOST_QUEUE ? most : MOST_QUEUE;
    for (int is_taken = 1; is_taken && *n < most && bytes < BATCH_BYTES; *n += is_taken) {
        int has_row_weight;
        MSI_TRY(take_next_block(pool, reader, *n == 0, &block[*n], &has_row_weight, &is_taken));
        if (!is_taken) break;
        block[*n].is_unfilled = reader->set[block[*n].set].only_rows;
        pool->filler.row_weight[*n] = has_row_weight ? block[*n].buffer->row_weight : NULL;
        bytes += filled_bytes(pool, reader, &block[*n]);
    }
    return *n == 0 ? check_at_end(pool, reader) : MSI_OK;
}

int msi_reader_pool_size(const msi_reader_pool *pool)
{
    return pool ? pool->n_worker : 0;
}

void msi_reader_pool_free(msi_reader_pool *pool)
{
    if (!pool) return;
    /* Kill all processes before waiting for the first, so that they end in parallel. */
    for (int k = 0; k < pool->n_worker; k++) {
        const msi_child *c = pool->worker[k].child;
        if (c && msi_child_id(c) > 0) kill(msi_child_id(c), SIGKILL);
    }
    for (int k = 0; k < pool->n_worker; k++) msi_child_free(pool->worker[k].child);
    free_filler(pool);
    if (pool->shared) munmap(pool->shared, (size_t)pool->n_mapped);
    reset_conversion(pool);
    msi_free(pool->worker);
    msi_free(pool);
}
