/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows are passed in slots of shared memory. Messages report full and free slots. If the writer process fails, it
 * stores the error in the shared memory and ends, which closes the socket.
 */
#include "io/convert/set_process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory.h"
#include "io/convert/set_writer.h"
#include "io/ms/ms_child.h"

enum {
    SLOTS = 3,
    LARGEST_ROW = 4 << 20,
    FILLED_BYTES = 3 << 19, /* rows fill this much of a slot: each page costs a fault in both processes, and more would
                             * leave the second-level cache before it is read */
    SLOT_BYTES = 2 * LARGEST_ROW, /* address space; only pages that rows touch become memory */
    OFFSETS = 4                   /* offsets of the numbers of a set in the output */
};

#define WHAT "the writer process"

typedef enum message_kind { MADE, FILL, FREED, FINISH, FINISHED } message_kind;

typedef struct message {
    message_kind kind;
    int slot;
} message;

/* Beginning of the shared memory. */
typedef struct shared {
    int status; /* error of the writer process */
    char message[MSI_MESSAGE_BYTES];
    int64_t slots_at;
    int32_t offset[][OFFSETS]; /* [n_set] */
} shared;

/* Beginning of a slot. Rows and samples follow. */
typedef struct slot_head {
    int64_t n_row, capacity;
    int32_t n_chan, n_corr;
} slot_head;

/* The parts of a slot. */
typedef struct slot_parts {
    slot_head *head;
    msi_set_row *row;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
} slot_parts;

struct msi_set_process {
    msi_child child;
    shared *shared;
    int64_t n_shared;
    const char *path, *name;
    int is_busy[SLOTS];
    int filling; /* the slot that is being filled; -1: none */
};

/* ---- Both processes ---- */

static int64_t row_bytes(int32_t n_chan, int32_t n_corr)
{
    const int64_t sample = sizeof(msi_c32) + sizeof(float) + 1;
    return (int64_t)sizeof(msi_set_row) + sample * n_chan * n_corr;
}

static slot_parts lay_out(const shared *s, int k)
{
    slot_head *head = (slot_head *)(void *)((char *)s + s->slots_at + (int64_t)k * SLOT_BYTES);
    const int64_t n_sample = head->capacity * head->n_chan * head->n_corr;
    msi_set_row *row = (msi_set_row *)(void *)(head + 1);
    msi_c32 *data = (msi_c32 *)(void *)(row + head->capacity);
    float *weight = (float *)(void *)(data + n_sample);
    return (slot_parts){head, row, data, weight, (uint8_t *)(void *)(weight + n_sample)};
}

static void pass_offsets(msi_set_maps *maps, shared *s, int n_set, int is_taken)
{
    for (int i = 0; i < n_set; i++) {
        msi_set_map *m = msi_set_maps_of(maps, i);
        int32_t *const all[OFFSETS] = {&m->observation_offset, &m->processor_offset, &m->state_offset,
                                       &m->source_offset};
        for (int k = 0; k < OFFSETS; k++)
            if (is_taken)
                *all[k] = s->offset[i][k];
            else
                s->offset[i][k] = *all[k];
    }
}

static int send_message(const msi_child *other, message_kind kind, int slot)
{
    const message m = {kind, slot};
    return msi_child_send(other, &m, sizeof m);
}

/* ---- The writer process ---- */

/* Send a message to the parent. If the parent has ended, end too. */
static void send_or_exit(const msi_child *parent, message_kind kind, int slot)
{
    if (send_message(parent, kind, slot) != 0) _exit(1);
}

static int write_all(msi_set_writer *w, const shared *s, const msi_child *parent)
{
    for (;;) {
        message m;
        if (msi_child_receive(parent, &m, sizeof m) != 0) _exit(1);
        if (m.kind == FINISH) return msi_set_writer_finish(w);
        const slot_parts from = lay_out(s, m.slot);
        const slot_head *h = from.head;
        const msi_set_rows rows = {h->n_row, h->n_chan, h->n_corr, from.row, from.data, from.weight, from.flag};
        msi_child_progress(MSI_CHILD_STEP_S);
        MSI_TRY(msi_set_writer_put(w, &rows));
        send_or_exit(parent, FREED, m.slot);
    }
}

static _Noreturn void run_writer(const msi_set_process *b, const msi_ms_reader *reader, const msi_set_output_spec *spec,
                                 msi_set_maps *maps)
{
    msi_set_writer *w = NULL;
    msi_child_progress(MSI_CHILD_STEP_S);
    int status = msi_set_writer_make(&w, b->path, reader, spec, maps);
    if (!status) {
        pass_offsets(maps, b->shared, reader->n_set, 0);
        send_or_exit(&b->child, MADE, 0);
        status = write_all(w, b->shared, &b->child);
    }
    if (status) {
        snprintf(b->shared->message, sizeof b->shared->message, "%s", msi_error_get());
        b->shared->status = status;
        /* Do not close the table: this could fail again and hide the first error. */
        _exit(1);
    }
    send_or_exit(&b->child, FINISHED, 0);
    _exit(0);
}

/* ---- The parent process ---- */

int msi_set_process_fits(const msi_ms_reader *reader, const msi_channel_groups *groups)
{
    for (int i = 0; i < reader->n_spw; i++)
        if (row_bytes(groups[i].n_group, reader->spw[i].n_corr) > LARGEST_ROW) return 0;
    return 1;
}

static int get_failure(msi_set_process *b)
{
    char text[1024];
    const int by_signal = msi_child_end_text(&b->child, b->name, WHAT, text, sizeof text);
    if (b->shared->status) return msi_error_set(b->shared->status, "%s", b->shared->message);
    /* The kernel sends SIGKILL if memory runs out. */
    char refused[256];
    const int is_refused = msi_child_refused(&b->child, refused, sizeof refused);
    return msi_error_set(by_signal == SIGKILL || is_refused ? MSI_ENOMEM : MSI_EOUTPUT, "%s", text);
}

/* Wait for the next message, which may free a slot. */
static int receive(msi_set_process *b, int wait, message *m, int *got)
{
    MSI_TRY(msi_child_await(&b->child, wait, m, sizeof *m, got));
    if (*got < 0) return get_failure(b);
    if (*got && m->kind == FREED) b->is_busy[m->slot] = 0;
    return MSI_OK;
}

static int await_kind(msi_set_process *b, message_kind kind)
{
    message m;
    int got;
    do MSI_TRY(receive(b, 1, &m, &got));
    while (m.kind != kind);
    return MSI_OK;
}

/* Send a request. If it cannot be sent, return the error of the ended process. */
static int request(msi_set_process *b, message_kind kind, int slot)
{
    const int sent = send_message(&b->child, kind, slot);
    if (sent < 0) return sent;
    while (sent) MSI_TRY(await_kind(b, FINISHED));
    return MSI_OK;
}

static int map_shared(msi_set_process *b, int n_set)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t head = (int64_t)sizeof *b->shared + n_set * (int64_t)sizeof b->shared->offset[0];
    const int64_t slots_at = (head + page - 1) / page * page;
    b->n_shared = slots_at + (int64_t)SLOTS * SLOT_BYTES;
    void *p =
        mmap(NULL, (size_t)b->n_shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return msi_error_set(MSI_ENOMEM, "cannot map memory shared with %s: %s", WHAT, strerror(errno));
    b->shared = p;
    b->shared->slots_at = slots_at;
    return MSI_OK;
}

/* Close tables: files that are open across a fork share one file offset. */
static void close_tables(const msi_ms_reader *reader)
{
    for (int i = 0; i < reader->n_set; i++) {
        ccc_table_close(reader->set[i].table);
        reader->set[i].table = NULL;
    }
}

static int fork_child(msi_set_process *b, const msi_ms_reader *reader, const msi_set_output_spec *spec,
                      msi_set_maps *maps)
{
    int is_child;
    const pid_t self = getpid();
    close_tables(reader);
    MSI_TRY(msi_child_fork_keeping(&b->child, "to write with", spec->kept_fd, &is_child));
    if (!is_child) return MSI_OK;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(1);
    run_writer(b, reader, spec, maps);
}

int msi_set_process_start(msi_set_process **out, const char *path, const msi_ms_reader *reader,
                          const msi_set_output_spec *spec, msi_set_maps *maps)
{
    msi_set_process *b;
    *out = NULL;
    MSI_TRY(msi_alloc(&b, 1, sizeof *b, WHAT));
    b->child = MSI_CHILD_NONE;
    b->path = path;
    b->name = spec->name;
    b->filling = -1;
    int status = map_shared(b, reader->n_set);
    if (!status) status = fork_child(b, reader, spec, maps);
    /* The numbers of the first set have no offsets. */
    if (!status && reader->n_set > 1) {
        status = await_kind(b, MADE);
        if (!status) pass_offsets(maps, b->shared, reader->n_set, 1);
    }
    if (status) {
        msi_set_process_free(b);
        return status;
    }
    *out = b;
    return MSI_OK;
}

static int submit(msi_set_process *b)
{
    const int k = b->filling;
    if (k < 0) return MSI_OK;
    b->filling = -1;
    b->is_busy[k] = 1;
    return request(b, FILL, k);
}

static int free_slot(const msi_set_process *b)
{
    for (int k = 0; k < SLOTS; k++)
        if (!b->is_busy[k]) return k;
    return -1;
}

/* Wait for a free slot and begin it for rows of a shape. */
static int begin_slot(msi_set_process *b, int32_t n_chan, int32_t n_corr)
{
    message m;
    int got = 1;
    while (got) MSI_TRY(receive(b, 0, &m, &got));
    while (free_slot(b) < 0) MSI_TRY(receive(b, 1, &m, &got));
    b->filling = free_slot(b);
    slot_head *h = lay_out(b->shared, b->filling).head;
    const int64_t capacity = (FILLED_BYTES - (int64_t)sizeof *h) / row_bytes(n_chan, n_corr);
    *h = (slot_head){0, capacity > 1 ? capacity : 1, n_chan, n_corr};
    return MSI_OK;
}

/* Find a slot with space for a row of a shape. */
static int find_slot(msi_set_process *b, int32_t n_chan, int32_t n_corr, slot_parts *to)
{
    if (b->filling >= 0) {
        *to = lay_out(b->shared, b->filling);
        const slot_head *h = to->head;
        if (h->n_chan == n_chan && h->n_corr == n_corr && h->n_row < h->capacity) return MSI_OK;
        MSI_TRY(submit(b));
    }
    MSI_TRY(begin_slot(b, n_chan, n_corr));
    *to = lay_out(b->shared, b->filling);
    return MSI_OK;
}

int msi_set_process_next(msi_set_process *b, int32_t n_chan, int32_t n_corr, msi_set_space *space)
{
    slot_parts to;
    MSI_TRY(find_slot(b, n_chan, n_corr, &to));
    const int64_t at = to.head->n_row++, n_sample = (int64_t)n_chan * n_corr;
    *space = (msi_set_space){to.row + at, to.data + at * n_sample, to.weight + at * n_sample, to.flag + at * n_sample};
    return MSI_OK;
}

int msi_set_process_finish(msi_set_process *b)
{
    MSI_TRY(submit(b));
    MSI_TRY(request(b, FINISH, 0));
    MSI_TRY(await_kind(b, FINISHED));
    msi_child_wait(&b->child);
    return MSI_OK;
}

pid_t msi_set_process_id(const msi_set_process *b)
{
    return b->child.pid;
}

void msi_set_process_free(msi_set_process *b)
{
    if (!b) return;
    if (b->child.pid > 0) {
        kill(b->child.pid, SIGKILL);
        msi_child_wait(&b->child);
    }
    msi_child_close(&b->child);
    if (b->shared) munmap(b->shared, (size_t)b->n_shared);
    msi_free(b);
}
