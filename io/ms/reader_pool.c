/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A pool of reader processes. The first half of this file runs in a reader process, the second in the parent.
 *   1. The parent sends OPEN. Each process opens the sets and scans a part of the index columns. They exchange the
 *      results (FOUND, SHARED), and the first leaves the metadata in the shared memory (OPENED).
 *   2. The parent sends BEGIN. Process k of n reads the blocks k, k + n, .. into its slots of the shared memory in turn
 *      (BLOCK), and waits for slots that the parent frees (FREED).
 *   3. The parent takes the blocks in the order of one reader, whatever the speed of the processes.
 * The parent checks every reply, as a damaged set may have damaged the process that reads it.
 */
#include "io/ms/reader_pool.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/process.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_pack.h"
#include "io/ms/ms_select.h"

/* ---- Messages and shared memory ---- */

enum { POOL_SLOTS = 4 }; /* of each process */

typedef enum request_kind {
    POOL_OPEN,
    POOL_SHARED, /* all processes have written their results of this OPEN */
    POOL_BEGIN,
    POOL_FREED
} request_kind;

/* A request of the parent to a process. */
typedef struct pool_request {
    request_kind kind;
    int64_t number;         /* of this OPEN or BEGIN, of the OPEN that is SHARED, of the BEGIN whose slot is FREED */
    msi_ms_opening opening; /* OPEN */
    int part, n_part;       /* OPEN: its part of the rows; BEGIN: it reads the blocks part, part + n_part .. */
    int64_t n_order;        /* BEGIN: bytes of the conversion; 0: blocks as read */
} pool_request;

typedef enum reply_kind {
    POOL_FOUND, /* during OPEN: the process has written its results for a set */
    POOL_OPENED,
    POOL_BLOCK,
    POOL_END,
    POOL_FAILED
} reply_kind;

/* A reply of a process to the parent. */
typedef struct pool_reply {
    reply_kind kind;
    int64_t number;                  /* of the request that it answers */
    int64_t n_byte;                  /* OPENED: of the metadata, which the first process leaves in the shared memory */
    uint64_t hash;                   /* OPENED: of the metadata */
    uint64_t written;                /* OPENED: identifies the writing of the columns */
    int64_t n_row;                   /* BLOCK */
    int set, data_desc_id, field_id; /* BLOCK */
    msi_ms_dropped dropped;          /* since the block before */
    int status;                      /* FAILED */
    char message[MSI_MESSAGE_BYTES];
} pool_reply;

/* Beginning of the shared memory. The conversion begins a page later, the slots after the space for it. */
typedef struct pool_shared {
    _Atomic int64_t opened_ppm; /* progress of OPEN in the first process, in parts per million */
} pool_shared;

/* The conversion of blocks and its parameters; without bytes blocks are not converted. */
typedef struct block_conversion {
    const msi_reader_conversion *conversion;
    char *bytes;
    int64_t n_byte;
} block_conversion;

/* The data of a reader process. */
typedef struct reader_process {
    const msi_child *parent;
    const char *const *paths;
    int n_path;
    msi_ms_selection selection;
    pool_shared *shared;
    const char *order; /* [most_order] shared */
    int64_t most_order;
    char *slots;     /* [POOL_SLOTS][slot_bytes], shared */
    char *all_slots; /* [n_process] slots of all processes */
    int64_t slot_bytes;
    const msi_reader_conversion *conversion; /* NULL: none */
    int is_first;                            /* it writes the metadata */
} reader_process;

/* Slots at the end for exchanged results, used in turn: other processes may still read the results before. */
enum { N_EXCHANGED = 2 };

/* ---- Both sides ---- */

/* Return the next bytes of a slot, aligned for any array. */
static void *next_bytes(char *slot, int64_t *at, int64_t bytes)
{
    void *array = slot + *at;
    *at += (bytes + 63) / 64 * 64;
    return array;
}

/* Place the arrays of the largest block of a reader in a slot, which may be NULL. Returns the bytes. */
static int64_t lay_out_slot(struct msi_ms_buffer *b, char *slot, const msi_ms_reader *r, const block_conversion *order)
{
    int64_t n_row = 0, n_sample = 0, n_converted = 0, at = 0;
    for (int i = 0; i < r->n_set; i++)
        for (int k = 0; k < r->set[i].n_setup; k++) {
            const msi_ms_setup *s = &r->set[i].setup[k];
            if (s->n_chan == 0) continue;
            const int64_t n = s->block_rows * s->n_span * s->n_corr;
            n_row = s->block_rows > n_row ? s->block_rows : n_row;
            n_sample = n > n_sample ? n : n_sample;
            if (!order->n_byte) continue;
            const int64_t converted = order->conversion->bytes(order->bytes, s->block_rows, s->n_chan, s->freq_hz);
            n_converted = converted > n_converted ? converted : n_converted;
        }
    *b = (struct msi_ms_buffer){.n_row_allocated = n_row, .n_sample_allocated = n_sample};
    b->ms_row = next_bytes(slot, &at, n_row * (int64_t)sizeof *b->ms_row);
    b->time_s = next_bytes(slot, &at, n_row * (int64_t)sizeof *b->time_s);
    b->uvw_m = next_bytes(slot, &at, 3 * n_row * (int64_t)sizeof *b->uvw_m);
    if (order->n_byte) {
        b->converted = next_bytes(slot, &at, n_converted);
        return at;
    }
    b->data = next_bytes(slot, &at, n_sample * (int64_t)sizeof *b->data);
    b->weight = next_bytes(slot, &at, n_sample * (int64_t)sizeof *b->weight);
    b->flag = next_bytes(slot, &at, n_sample);
    return at;
}

/* Return the space for metadata. The slots after it are for exchanged results. */
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

/* ---- Replies ---- */

/* Send a reply. If the parent has ended, end too. */
static void send_reply(const reader_process *p, const pool_reply *answer)
{
    if (msi_child_send(p->parent, answer, sizeof *answer) != 0) _exit(1);
}

static void recv_request(const reader_process *p, pool_request *q)
{
    if (msi_child_receive(p->parent, q, sizeof *q) != 0) _exit(0);
}

static void send_failure(const reader_process *p, int64_t number, int status)
{
    const int explained = msi_ms_limit_explain(status, p->paths[0]);
    pool_reply answer = {.kind = POOL_FAILED, .number = number, .status = explained};
    snprintf(answer.message, sizeof answer.message, "%s", msi_error_get());
    send_reply(p, &answer);
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
    pool_request *next; /* the next request, if the parent has interrupted the opening */
    int is_cut_off;
    int64_t n_done;
} exchange;

/* Bytes before the exchanged bytes, with their number. */
enum { EXCHANGE_HEAD = 64 };

/* Copy bytes into the shared memory for the other processes, and wait until all have done so. */
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

/* Open the sets. Returned: *q  the next request of the parent, if *is_done is 0 */
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
    (*r)->share = open.opening.share;
    (*r)->n_share = open.opening.n_share;
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

/* Wait until a slot is free. Returns 0 if the parent has sent another request, which is in *q. */
static int await_slot(const reader_process *p, int64_t number, int64_t n_full, int64_t *n_freed, pool_request *q)
{
    while (n_full - *n_freed == POOL_SLOTS) {
        recv_request(p, q);
        if (q->kind != POOL_FREED) return 0;
        *n_freed += q->number == number;
    }
    return 1;
}

/* Copy the parameters of the conversion, which the parent may replace with its next request. */
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

/* Read the next block into a slot, as it is or converted. */
static int read_block(msi_ms_reader *r, const pool_request *q, const block_conversion *order,
                      struct msi_ms_buffer *slot, msi_ms_block *block, int *is_end)
{
    if (!order->n_byte) {
        r->lends = 0;
        block->buffer = slot;
        return msi_ms_reader_next_of(r, q->part, q->n_part, block, is_end);
    }
    r->lends = 1;
    MSI_TRY(msi_ms_reader_next_of(r, q->part, q->n_part, block, is_end));
    const size_t n = (size_t)block->n_row;
    if (!n) return MSI_OK;
    memcpy(slot->ms_row, block->ms_row, n * sizeof *slot->ms_row);
    memcpy(slot->time_s, block->time_s, n * sizeof *slot->time_s);
    memcpy(slot->uvw_m, block->uvw_m, 3 * n * sizeof *slot->uvw_m);
    return order->conversion->convert(order->conversion->of, order->bytes, block, slot->uvw_m, slot->converted);
}

/* Read all blocks of this process into the slots in turn, until the last, or until the parent sends another request,
 * which is in *q then. */
static int read_blocks(const reader_process *p, msi_ms_reader *r, const block_conversion *order, pool_request *q,
                       int *is_done)
{
    const pool_request begin = *q;
    msi_ms_block block = {0};
    int is_end = 0;
    for (int64_t n_full = 0, n_freed = 0; !is_end; n_full++) {
        if (!await_slot(p, begin.number, n_full, &n_freed, q)) {
            *is_done = 0;
            return MSI_OK;
        }
        struct msi_ms_buffer slot;
        if (lay_out_slot(&slot, p->slots + n_full % POOL_SLOTS * p->slot_bytes, r, order) > p->slot_bytes)
            return msi_error_set(MSI_ENOMEM, "a block is too large for the shared memory");
        memset(&r->dropped, 0, sizeof r->dropped);
        MSI_TRY(read_block(r, &begin, order, &slot, &block, &is_end));
        send_reply(p, &(pool_reply){.kind = is_end ? POOL_END : POOL_BLOCK,
                                    .number = begin.number,
                                    .n_row = block.n_row,
                                    .set = block.set,
                                    .data_desc_id = block.data_desc_id,
                                    .field_id = block.field_id,
                                    .dropped = r->dropped});
    }
    return MSI_OK;
}

static int read_all(const reader_process *p, msi_ms_reader *r, pool_request *q, int *is_done)
{
    block_conversion order;
    if (!r) return msi_error_set(MSI_EINTERNAL, "a reader process was asked to read sets that it has not opened");
    MSI_TRY(copy_conversion(p, q, &order));
    msi_ms_reader_rewind(r);
    const int status = read_blocks(p, r, &order, q, is_done);
    msi_free(order.bytes);
    return status;
}

/* Serve the parent until it ends. */
static _Noreturn void run_process(const reader_process *p)
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
        if (status != MSI_OK) send_failure(p, number, status);
    }
}

/* ---- The parent ---- */

/* Size of a slot. A block has about 2 MB, but a row may have more: at 13 bytes per value up to 80 million values. */
static const int64_t LARGEST_SLOT = (int64_t)1 << 30, LEAST_SLOT = (int64_t)4 << 20;

/* Place and largest size of the conversion in the shared memory. Only pages that are touched become memory. */
static const int64_t ORDER_AT = 4096, MOST_ORDER = (int64_t)64 << 20;
_Static_assert(sizeof(pool_shared) <= 4096, "it begins behind it");

/* Most blocks of a process that the caller has at a time. The process fills the other slots. */
enum { MOST_LENT = POOL_SLOTS / 2 };

/* A process as seen by the parent. */
typedef struct worker {
    msi_child child;
    char *slots; /* [POOL_SLOTS][slot_bytes] of the pool's */
    struct msi_ms_buffer slot[POOL_SLOTS];
    int64_t n_taken; /* blocks, since BEGIN */
    int n_lent;      /* of them, those that the caller has */
} worker;

struct msi_reader_pool {
    const char *const *paths;
    int n_path;
    msi_ms_selection selection;
    int n_worker;
    worker *worker;
    int64_t number, opening; /* of the last request that is answered; of the last OPEN */
    pool_shared *shared;     /* mapped, with the slots of all processes */
    int64_t slot_bytes, n_mapped;
    block_conversion order;
    int is_reading, is_at_end;
    int64_t n_block; /* taken so far */
    int has_read;    /* columns were opened to be read */
    uint64_t written;
};

/* ---- Start ---- */

/* Map the slots, as large as a row of any size needs, or as large as possible. Only pages that blocks touch become
 * memory. */
static int map_slots(msi_reader_pool *pool)
{
    void *p = MAP_FAILED;
    for (int64_t bytes = LARGEST_SLOT; p == MAP_FAILED && bytes >= LEAST_SLOT; bytes /= 4) {
        pool->slot_bytes = bytes;
        pool->n_mapped = ORDER_AT + MOST_ORDER + pool->n_worker * POOL_SLOTS * bytes;
        p = mmap(NULL, (size_t)pool->n_mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                 0);
    }
    if (p == MAP_FAILED)
        return msi_error_set(MSI_ENOMEM, "cannot map memory shared with reader processes: %s", strerror(errno));
    pool->shared = p;
    for (int k = 0; k < pool->n_worker; k++)
        pool->worker[k].slots = (char *)p + ORDER_AT + MOST_ORDER + k * POOL_SLOTS * pool->slot_bytes;
    return MSI_OK;
}

static int start_worker(msi_reader_pool *pool, int k)
{
    int is_child;
    const pid_t self = getpid();
    msi_child *child = &pool->worker[k].child;
    MSI_TRY(msi_child_fork(child, "to read with", &is_child));
    if (is_child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) _exit(1);
        reader_process p = {.parent = child,
                            .paths = pool->paths,
                            .n_path = pool->n_path,
                            .selection = pool->selection,
                            .shared = pool->shared,
                            .order = (const char *)pool->shared + ORDER_AT,
                            .most_order = MOST_ORDER,
                            .conversion = pool->order.conversion,
                            .slots = pool->worker[k].slots,
                            .all_slots = pool->worker[0].slots,
                            .slot_bytes = pool->slot_bytes,
                            .is_first = k == 0};
        msi_ms_limit_memory(p.paths, p.n_path);
        msi_child_watch();
        run_process(&p);
    }
    return MSI_OK;
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
    for (int k = 0; k < pool->n_worker; k++) pool->worker[k].child = MSI_CHILD_NONE;
    if (status == MSI_OK) status = map_slots(pool);
    for (int k = 0; k < pool->n_worker && status == MSI_OK; k++) {
        status = start_worker(pool, k);
        if (status == MSI_OK || k == 0) continue;
        msi_log_warning("%s; continuing with %d reader process%s", msi_error_get(), k, k == 1 ? "" : "es");
        msi_child_close(&pool->worker[k].child);
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

/* Set the error for a process that ended instead of sending a reply. */
static int explain_end(const msi_reader_pool *pool, worker *w)
{
    const int signal_number = msi_child_wait(&w->child);
    char what[256];
    if ((signal_number == 0 || signal_number == SIGABRT) && msi_child_refused(&w->child, what, sizeof what))
        return msi_error_set(MSI_ENOMEM, "%s: a reader process ended: %s", pool->paths[0], what);
    if (signal_number == SIGKILL)
        return msi_error_about(msi_error_set(MSI_ENOMEM,
                                             "%s: a reader process was ended by signal 9 (Killed), perhaps for lack of "
                                             "memory?",
                                             pool->paths[0]),
                               "n_reader");
    if (signal_number == SIGXCPU) {
        /* The user's limit of CPU time applies to each process. */
        msi_interrupt_raise(SIGXCPU);
        return msi_interrupt_check();
    }
    if (signal_number == SIGPROF)
        return fail_process(pool, "came to no end of one step in the time that a whole set takes");
    if (signal_number == 0) return fail_process(pool, "ended");
    snprintf(what, sizeof what, "was ended by signal %d (%s)", signal_number, strsignal(signal_number));
    return fail_process(pool, what);
}

/* Set the error that a process has sent. */
static int forward_failure(const msi_reader_pool *pool, pool_reply *answer)
{
    answer->message[sizeof answer->message - 1] = 0;
    if (answer->status >= MSI_OK || answer->status < MSI_EARGUMENT || !*answer->message)
        return fail_process(pool, "failed without an error message");
    return msi_error_set(answer->status, "%s", answer->message);
}

/* Receive the next reply of a process to the last request, if there is one. Replies to earlier requests are ignored. */
static int poll_reply(const msi_reader_pool *pool, worker *w, pool_reply *answer, int *is_there)
{
    int got;
    *is_there = 0;
    do {
        MSI_TRY(msi_child_await(&w->child, 0, answer, sizeof *answer, &got));
        if (got < 0) return explain_end(pool, w);
        if (got == 0) return MSI_OK;
    } while (answer->number != pool->number);
    *is_there = 1;
    return answer->kind == POOL_FAILED ? forward_failure(pool, answer) : MSI_OK;
}

/* Wait for the next reply of a process. */
static int recv_reply(const msi_reader_pool *pool, worker *w, pool_reply *answer)
{
    for (;;) {
        int is_there;
        MSI_TRY(poll_reply(pool, w, answer, &is_there));
        if (is_there) return MSI_OK;
        if (!pool->is_reading) msi_progress_at(pool->shared->opened_ppm, 1000000);
        msi_child_wait_briefly(&w->child);
        MSI_TRY(msi_interrupt_check());
    }
}

static int send_all(msi_reader_pool *pool, pool_request *q)
{
    q->number = ++pool->number;
    q->n_part = pool->n_worker;
    q->n_order = pool->order.n_byte;
    for (q->part = 0; q->part < pool->n_worker; q->part++)
        MSI_TRY(msi_child_request(&pool->worker[q->part].child, q, sizeof *q));
    return MSI_OK;
}

/* ---- Open ---- */

static void reset_conversion(msi_reader_pool *pool)
{
    msi_free(pool->order.bytes);
    pool->order.bytes = NULL;
    pool->order.n_byte = 0;
}

/* Unpack the metadata of the first process. It may still change the shared memory, so copy them and check the hash. */
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

/* Receive the same reply from all processes: FOUND or OPENED. */
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

/* Do msi_ms_reader_next for the reader of the last opening. Earlier blocks become invalid. */
static int next_block(void *pool, msi_ms_reader *reader, msi_ms_block *block)
{
    int n;
    block->n_row = 0;
    return msi_reader_pool_take(pool, reader, 1, block, &n);
}

/* Continue with the first block. */
static void rewind_blocks(void *pool)
{
    ((msi_reader_pool *)pool)->is_reading = 0;
}

static int count_processes(const void *pool)
{
    return msi_reader_pool_size(pool);
}

static const msi_ms_pool_ops POOL_OPS = {next_block, rewind_blocks, count_processes};

int msi_reader_pool_open(msi_reader_pool *pool, const msi_ms_opening *opening, msi_ms_reader **reader)
{
    pool_request open = {.kind = POOL_OPEN, .opening = *opening};
    pool_reply first;
    *reader = NULL;
    pool->is_reading = 0;
    reset_conversion(pool);
    pool->shared->opened_ppm = 0;
    MSI_TRY(send_all(pool, &open));
    pool->opening = pool->number;
    for (;;) {
        MSI_TRY(recv_equal_replies(pool, &first));
        if (first.kind == POOL_OPENED) break;
        const pool_request shared = {.kind = POOL_SHARED, .number = pool->number};
        for (int k = 0; k < pool->n_worker; k++)
            MSI_TRY(msi_child_request(&pool->worker[k].child, &shared, sizeof shared));
    }
    MSI_TRY(check_writing(pool, opening, &first));
    MSI_TRY(unpack_reply(pool, &first, reader));
    (*reader)->selection.coordinates_only = opening->coordinates_only;
    (*reader)->selection.keep_flagged_rows = opening->keep_flagged_rows;
    (*reader)->share = opening->share;
    (*reader)->n_share = opening->n_share;
    (*reader)->pool = pool;
    (*reader)->pool_ops = &POOL_OPS;
    (*reader)->pool_opening = pool->opening;
    return MSI_OK;
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
    pool->is_reading = 0;
    return MSI_OK;
}

/* Let the processes read all blocks of the open sets. */
static int begin_reading(msi_reader_pool *pool, msi_ms_reader *reader)
{
    struct msi_ms_buffer none;
    const int64_t bytes = lay_out_slot(&none, pool->worker[0].slots, reader, &pool->order);
    if (bytes > pool->slot_bytes || bytes > msi_memory_limit() / (POOL_SLOTS * pool->n_worker))
        return msi_error_about(
            msi_error_set(MSI_ENOMEM, "the blocks of %d reader process%s need %.3f GB; the limit is %.3f GB",
                          pool->n_worker, pool->n_worker == 1 ? "" : "es",
                          1e-9 * POOL_SLOTS * pool->n_worker * (double)bytes, 1e-9 * (double)msi_memory_limit()),
            pool->n_worker > 1 ? "n_reader" : "memory");
    for (int k = 0; k < pool->n_worker; k++) {
        worker *w = &pool->worker[k];
        w->n_taken = w->n_lent = 0;
        for (int i = 0; i < POOL_SLOTS; i++)
            lay_out_slot(&w->slot[i], w->slots + i * pool->slot_bytes, reader, &pool->order);
    }
    if (pool->order.n_byte) memcpy((char *)pool->shared + ORDER_AT, pool->order.bytes, (size_t)pool->order.n_byte);
    pool_request request = {.kind = POOL_BEGIN};
    MSI_TRY(send_all(pool, &request));
    memset(&reader->dropped, 0, sizeof reader->dropped);
    pool->n_block = 0;
    pool->is_reading = 1;
    pool->is_at_end = 0;
    return MSI_OK;
}

/* Send FREED to a process for a slot. */
static int send_freed(msi_reader_pool *pool, worker *w)
{
    const pool_request freed = {.kind = POOL_FREED, .number = pool->number};
    return msi_child_request(&w->child, &freed, sizeof freed);
}

/* Free all slots of blocks that the caller has. */
static int free_lent_slots(msi_reader_pool *pool)
{
    for (int k = 0; k < pool->n_worker; k++)
        for (; pool->worker[k].n_lent > 0; pool->worker[k].n_lent--) MSI_TRY(send_freed(pool, &pool->worker[k]));
    return MSI_OK;
}

/* Wait for the END of all other processes. */
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

/* Return whether a block and its rows are valid for the reader. */
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
    }
    return 1;
}

/* Take the next block that has rows. If the caller has blocks already, do not wait for it. *is_taken is 0 if it is not
 * read yet, and after the last block. */
static int take_next_block(msi_reader_pool *pool, msi_ms_reader *reader, int may_wait, msi_ms_block *block,
                           int *is_taken)
{
    *is_taken = 0;
    for (; !pool->is_at_end; pool->n_block++) {
        const int k = (int)(pool->n_block % pool->n_worker);
        worker *w = &pool->worker[k];
        pool_reply answer;
        int is_there = may_wait;
        if (!may_wait && w->n_lent == MOST_LENT) return MSI_OK;
        MSI_TRY(may_wait ? recv_reply(pool, w, &answer) : poll_reply(pool, w, &answer, &is_there));
        if (!is_there) return MSI_OK;
        if (!add_dropped(&reader->dropped, &answer.dropped)) return fail_process(pool, "returned invalid counts");
        if (answer.kind == POOL_END) return recv_ends(pool, k);
        struct msi_ms_buffer *slot = &w->slot[w->n_taken++ % POOL_SLOTS];
        if (answer.kind != POOL_BLOCK || !block_is_valid(reader, &answer, slot))
            return fail_process(pool, "returned an invalid block");
        /* Slots are freed in order: an empty block after one that the caller has stays in its slot until that is
         * freed. */
        if (answer.n_row == 0 && w->n_lent == 0) MSI_TRY(send_freed(pool, w));
        if (answer.n_row == 0) {
            w->n_lent += w->n_lent > 0;
            continue;
        }
        msi_ms_block_describe(reader, answer.set, answer.data_desc_id, answer.field_id, slot, answer.n_row, block);
        w->n_lent++;
        pool->n_block++;
        *is_taken = 1;
        return MSI_OK;
    }
    return MSI_OK;
}

int msi_reader_pool_take(msi_reader_pool *pool, msi_ms_reader *reader, int most, msi_ms_block *block, int *n)
{
    *n = 0;
    if (reader->pool_opening != pool->opening)
        return msi_error_set(MSI_EINTERNAL, "a reader was used after its pool opened the sets again");
    if (!pool->is_reading) MSI_TRY(begin_reading(pool, reader));
    MSI_TRY(free_lent_slots(pool));
    for (int is_taken = 1; is_taken && *n < most; *n += is_taken)
        MSI_TRY(take_next_block(pool, reader, *n == 0, &block[*n], &is_taken));
    return MSI_OK;
}

int msi_reader_pool_size(const msi_reader_pool *pool)
{
    return pool ? pool->n_worker : 0;
}

void msi_reader_pool_free(msi_reader_pool *pool)
{
    if (!pool) return;
    /* Kill all processes first and wait afterwards, so that they end in parallel. */
    for (int k = 0; k < pool->n_worker; k++) {
        msi_child *c = &pool->worker[k].child;
        msi_child_close(c);
        if (c->pid > 0) kill(c->pid, SIGKILL);
    }
    for (int k = 0; k < pool->n_worker; k++)
        if (pool->worker[k].child.pid > 0) msi_child_wait(&pool->worker[k].child);
    if (pool->shared) munmap(pool->shared, (size_t)pool->n_mapped);
    reset_conversion(pool);
    msi_free(pool->worker);
    msi_free(pool);
}
