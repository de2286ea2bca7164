/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Process k of n reads the blocks k, k + n, .. into slots of memory that all share, in turn; messages say which are
 * full and which are free. So blocks come in the order of one reader, whatever the processes' speeds.
 */
#include "io/ms/ms_crew.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/interrupt.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_child.h"

enum { SLOTS = 4 }; /* each process has so many */

/* A slot has so much address space, of which only what a block touches becomes memory. */
static const int64_t SLOT_BYTES = (int64_t)16 << 20;

typedef enum request_kind { OPEN, BEGIN, FREED } request_kind;

/* The parent sends requests to a process. */
typedef struct request {
    request_kind kind;
    int64_t interval_begin, interval_end; /* OPEN */
} request;

typedef enum reply_kind { OPENED, BLOCK, END, FAILED } reply_kind;

/* A process sends replies to the parent. */
typedef struct reply {
    reply_kind kind;
    int64_t n_row;    /* OPENED: all selected; BLOCK: its own */
    int64_t n_sample; /* OPENED */
    int set, data_desc_id, field_id;
    msi_ms_dropped dropped; /* on the way to this block */
    int status;             /* FAILED */
    char message[MSI_MESSAGE_BYTES];
} reply;

/* The parent's view of a process. */
typedef struct worker {
    msi_child child;
    struct msi_ms_buffer slot[SLOTS];
    int64_t n_taken; /* blocks, since BEGIN */
} worker;

struct msi_ms_crew {
    const char *const *paths;
    int n_path;
    msi_ms_selection selection;
    int n_worker;
    worker *worker;
    char *slots; /* [n_worker][SLOTS][SLOT_BYTES] */
    int64_t n_slot_bytes;
    msi_ms_reader *reader; /* whose blocks are read */
    int64_t n_block;       /* taken so far */
    int lender;            /* the process whose block the caller has; -1: none */
};

/* ---- Both sides ---- */

/* Gives the next bytes of a slot, aligned as any array may need. */
static void *take_bytes(char *slot, int64_t *at, int64_t bytes)
{
    void *room = slot + *at;
    *at += (bytes + 63) / 64 * 64;
    return room;
}

/* Lays a slot's arrays out for the largest block of the reader. Returns 0 where they do not fit. */
static int lay_out(struct msi_ms_buffer *b, char *slot, const msi_ms_reader *r)
{
    int64_t n_row = 0, n_sample = 0;
    for (int i = 0; i < r->n_set; i++)
        for (int k = 0; k < r->set[i].n_setup; k++) {
            const msi_ms_setup *s = &r->set[i].setup[k];
            if (s->n_chan == 0) continue;
            const int64_t n = s->block_rows * s->n_span * s->n_corr;
            n_row = s->block_rows > n_row ? s->block_rows : n_row;
            n_sample = n > n_sample ? n : n_sample;
        }
    *b = (struct msi_ms_buffer){.n_row_allocated = n_row, .n_sample_allocated = n_sample};
    if (n_row > SLOT_BYTES / 64 || n_sample > SLOT_BYTES / 16) return 0;
    int64_t at = 0;
    b->ms_row = take_bytes(slot, &at, n_row * (int64_t)sizeof *b->ms_row);
    b->time_s = take_bytes(slot, &at, n_row * (int64_t)sizeof *b->time_s);
    b->uvw_m = take_bytes(slot, &at, 3 * n_row * (int64_t)sizeof *b->uvw_m);
    b->data = take_bytes(slot, &at, n_sample * (int64_t)sizeof *b->data);
    b->weight = take_bytes(slot, &at, n_sample * (int64_t)sizeof *b->weight);
    b->flag = take_bytes(slot, &at, n_sample);
    return at <= SLOT_BYTES;
}

/* ---- A process ---- */

/* A process's view of itself. */
typedef struct process {
    const msi_child *parent;
    int part, n_part;
    char *slots; /* [SLOTS][SLOT_BYTES] */
} process;

/* Where the parent is gone there is nothing left to do. */
static void send_reply(const process *p, const reply *answer)
{
    if (msi_child_send(p->parent, answer, sizeof *answer) != 0) _exit(1);
}

static void send_failure(const process *p, int status)
{
    reply answer = {.kind = FAILED, .status = status};
    snprintf(answer.message, sizeof answer.message, "%s", msi_error_get());
    send_reply(p, &answer);
}

static void recv_request(const process *p, request *q)
{
    if (msi_child_receive(p->parent, q, sizeof *q) != 0) _exit(0);
}

static int read_all(const process *p, msi_ms_reader *r)
{
    struct msi_ms_buffer buffer[SLOTS];
    for (int i = 0; i < SLOTS; i++)
        if (!lay_out(&buffer[i], p->slots + i * SLOT_BYTES, r))
            return msi_error_set(MSI_EINTERNAL, "a block is too large to hand over");
    for (int64_t n_full = 0, n_freed = 0;; n_full++) {
        request q;
        for (; n_full - n_freed == SLOTS; n_freed++) recv_request(p, &q);
        msi_ms_block block = {.buffer = &buffer[n_full % SLOTS]};
        int is_end;
        memset(&r->dropped, 0, sizeof r->dropped);
        MSI_TRY(msi_ms_reader_next_of(r, p->part, p->n_part, &block, &is_end));
        send_reply(p, &(reply){.kind = is_end ? END : BLOCK,
                               .n_row = block.n_row,
                               .set = block.set,
                               .data_desc_id = block.data_desc_id,
                               .field_id = block.field_id,
                               .dropped = r->dropped});
        /* The parent frees what is still full before its next request. */
        for (; is_end && n_freed < n_full; n_freed++) recv_request(p, &q);
        if (is_end) return MSI_OK;
    }
}

static _Noreturn void serve(const process *p, const msi_ms_crew *crew, pid_t parent)
{
    msi_ms_reader *r = NULL;
    int status = MSI_OK;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    for (;;) {
        request q;
        recv_request(p, &q);
        if (q.kind == OPEN) {
            msi_ms_selection selection = crew->selection;
            selection.interval_begin = q.interval_begin;
            selection.interval_end = q.interval_end;
            msi_ms_reader_free(r);
            r = NULL;
            status = msi_ms_reader_open(&r, crew->paths, crew->n_path, &selection);
            if (status == MSI_OK) send_reply(p, &(reply){.kind = OPENED, .n_row = r->n_row, .n_sample = r->n_sample});
        } else if (q.kind == BEGIN) {
            status = read_all(p, r);
        }
        if (status != MSI_OK) {
            send_failure(p, status);
            while (msi_child_receive(p->parent, &q, sizeof q) == 0) continue;
            _exit(1);
        }
    }
}

/* ---- The parent ---- */

static int start_worker(msi_ms_crew *crew, int k)
{
    int is_child;
    const pid_t self = getpid();
    MSI_TRY(msi_child_fork(&crew->worker[k].child, "to read with", &is_child));
    if (is_child) {
        const process p = {&crew->worker[k].child, k, crew->n_worker, crew->slots + k * SLOTS * SLOT_BYTES};
        serve(&p, crew, self);
    }
    return MSI_OK;
}

int msi_ms_crew_start(msi_ms_crew **out, const char *const *paths, int n_path, const msi_ms_selection *selection,
                      int n_process)
{
    msi_ms_crew *crew;
    *out = NULL;
    MSI_TRY(msi_alloc(&crew, 1, sizeof *crew, "processes to read with"));
    *crew =
        (msi_ms_crew){.paths = paths, .n_path = n_path, .selection = *selection, .n_worker = n_process, .lender = -1};
    crew->n_slot_bytes = n_process * SLOTS * SLOT_BYTES;
    int status = msi_alloc(&crew->worker, n_process, sizeof *crew->worker, "processes to read with");
    if (status == MSI_OK) {
        for (int k = 0; k < n_process; k++) crew->worker[k].child = (msi_child){0, -1, -1};
        void *p = mmap(NULL, (size_t)crew->n_slot_bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            status = msi_error_set(MSI_ENOMEM, "memory to share with readers: %s", strerror(errno));
        else
            crew->slots = p;
    }
    for (int k = 0; k < n_process && status == MSI_OK; k++) status = start_worker(crew, k);
    if (status != MSI_OK) {
        msi_ms_crew_free(crew);
        return status;
    }
    *out = crew;
    return MSI_OK;
}

void msi_ms_crew_open(msi_ms_crew *crew, int64_t interval_begin, int64_t interval_end)
{
    const request open = {OPEN, interval_begin, interval_end};
    for (int k = 0; k < crew->n_worker; k++) msi_child_send(&crew->worker[k].child, &open, sizeof open);
}

/* Waits for the next reply of a process; *is_gone where it has ended. */
static int recv_reply(const worker *w, reply *answer, int *is_gone)
{
    int got;
    MSI_TRY(msi_child_await(&w->child, 1, answer, sizeof *answer, &got));
    *is_gone = got < 0;
    return MSI_OK;
}

int msi_ms_crew_begin(msi_ms_crew *crew, msi_ms_reader *reader, int *reads)
{
    *reads = 1;
    for (int k = 0; k < crew->n_worker; k++) {
        reply answer;
        int is_gone;
        worker *w = &crew->worker[k];
        MSI_TRY(recv_reply(w, &answer, &is_gone));
        if (is_gone || answer.kind != OPENED || answer.n_row != reader->n_row || answer.n_sample != reader->n_sample)
            *reads = 0;
        for (int i = 0; i < SLOTS; i++)
            if (!lay_out(&w->slot[i], crew->slots + (k * SLOTS + i) * SLOT_BYTES, reader)) *reads = 0;
        w->n_taken = 0;
    }
    crew->reader = reader;
    crew->n_block = 0;
    crew->lender = -1;
    const request begin = {.kind = BEGIN};
    for (int k = 0; *reads && k < crew->n_worker; k++) msi_child_send(&crew->worker[k].child, &begin, sizeof begin);
    return MSI_OK;
}

/* Makes the failure of a process that gave up, or has ended, the caller's. */
static int take_failure(msi_ms_crew *crew, worker *w, const reply *answer, int is_gone)
{
    char text[1024];
    if (!is_gone) return msi_error_set(answer->status, "%s", answer->message);
    const char *path = crew->n_path == 1 ? crew->paths[0] : "Measurement Sets";
    const int by_signal = msi_child_end_text(&w->child, path, "a process that reads", text, sizeof text);
    if (by_signal == SIGKILL)
        return msi_error_about(msi_error_set(MSI_ENOMEM, "%s; for want of memory?", text), "n_reader");
    return msi_error_set(MSI_EINPUT, "%s", text);
}

/* Waits until each of the other processes has said, in its turn, that it is done. */
static int recv_ends(msi_ms_crew *crew, int first)
{
    for (int i = 1; i < crew->n_worker; i++) {
        worker *w = &crew->worker[(first + i) % crew->n_worker];
        reply answer;
        int is_gone;
        MSI_TRY(recv_reply(w, &answer, &is_gone));
        if (is_gone || answer.kind != END) return take_failure(crew, w, &answer, is_gone);
    }
    return MSI_OK;
}

static void add_dropped(msi_ms_dropped *sum, const msi_ms_dropped *d)
{
    sum->autocorrelation += d->autocorrelation;
    sum->flag_row += d->flag_row;
    sum->uvw_not_finite += d->uvw_not_finite;
    sum->uv_limits += d->uv_limits;
}

int msi_ms_crew_next(msi_ms_crew *crew, msi_ms_block *block)
{
    const request freed = {.kind = FREED};
    block->n_row = 0;
    if (crew->lender >= 0) msi_child_send(&crew->worker[crew->lender].child, &freed, sizeof freed);
    crew->lender = -1;
    for (;; crew->n_block++) {
        const int k = (int)(crew->n_block % crew->n_worker);
        worker *w = &crew->worker[k];
        reply answer;
        int is_gone;
        MSI_TRY(recv_reply(w, &answer, &is_gone));
        if (!is_gone && answer.kind == END) return recv_ends(crew, k);
        if (is_gone || answer.kind != BLOCK) return take_failure(crew, w, &answer, is_gone);
        add_dropped(&crew->reader->dropped, &answer.dropped);
        struct msi_ms_buffer *slot = &w->slot[w->n_taken++ % SLOTS];
        if (answer.n_row == 0) {
            msi_child_send(&w->child, &freed, sizeof freed);
            continue;
        }
        msi_ms_block_describe(crew->reader, answer.set, answer.data_desc_id, answer.field_id, slot, answer.n_row,
                              block);
        crew->lender = k;
        crew->n_block++;
        return MSI_OK;
    }
}

int msi_ms_crew_size(const msi_ms_crew *crew)
{
    return crew ? crew->n_worker : 0;
}

void msi_ms_crew_free(msi_ms_crew *crew)
{
    if (!crew) return;
    for (int k = 0; crew->worker && k < crew->n_worker; k++) {
        msi_child *c = &crew->worker[k].child;
        msi_child_close(c);
        if (c->pid <= 0) continue;
        kill(c->pid, SIGKILL); /* it has nothing to lose */
        waitpid(c->pid, NULL, 0);
    }
    if (crew->slots) munmap(crew->slots, (size_t)crew->n_slot_bytes);
    msi_free(crew->worker);
    msi_free(crew);
}
