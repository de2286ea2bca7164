/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A process of a crew: it opens the sets, says what it has found, and reads its share of the blocks. */
#include "io/ms/ms_crew_process.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/progress.h"
#include "io/ms/ms_description.h"
#include "io/ms/ms_found.h"
#include "io/ms/ms_limit.h"

/* What a process has found lies in its last slots, in turn: others may still read what it left before. */
enum { N_EXCHANGED = 2 };

/* ---- Both sides ---- */

/* Give the next bytes of a slot, aligned as any array may need. */
static void *take_bytes(char *slot, int64_t *at, int64_t bytes)
{
    void *room = slot + *at;
    *at += (bytes + 63) / 64 * 64;
    return room;
}

int64_t msi_crew_lay_out(struct msi_ms_buffer *b, char *slot, const msi_ms_reader *r, const msi_crew_order *order)
{
    int64_t n_row = 0, n_sample = 0, n_formed = 0, at = 0;
    for (int i = 0; i < r->n_set; i++)
        for (int k = 0; k < r->set[i].n_setup; k++) {
            const msi_ms_setup *s = &r->set[i].setup[k];
            if (s->n_chan == 0) continue;
            const int64_t n = s->block_rows * s->n_span * s->n_corr;
            n_row = s->block_rows > n_row ? s->block_rows : n_row;
            n_sample = n > n_sample ? n : n_sample;
            if (!order->n_byte) continue;
            const int64_t formed = order->forming->bytes(order->bytes, s->block_rows, s->n_chan, s->freq_hz);
            n_formed = formed > n_formed ? formed : n_formed;
        }
    *b = (struct msi_ms_buffer){.n_row_allocated = n_row, .n_sample_allocated = n_sample};
    b->ms_row = take_bytes(slot, &at, n_row * (int64_t)sizeof *b->ms_row);
    b->time_s = take_bytes(slot, &at, n_row * (int64_t)sizeof *b->time_s);
    b->uvw_m = take_bytes(slot, &at, 3 * n_row * (int64_t)sizeof *b->uvw_m);
    if (order->n_byte) {
        b->formed = take_bytes(slot, &at, n_formed);
        return at;
    }
    b->data = take_bytes(slot, &at, n_sample * (int64_t)sizeof *b->data);
    b->weight = take_bytes(slot, &at, n_sample * (int64_t)sizeof *b->weight);
    b->flag = take_bytes(slot, &at, n_sample);
    return at;
}

/* The slots behind it serve what the processes exchange. */
int64_t msi_crew_description_bytes(int64_t slot_bytes)
{
    return (MSI_CREW_SLOTS - N_EXCHANGED) * slot_bytes;
}

uint64_t msi_crew_hash(const char *bytes, int64_t n)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int64_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3;
    return hash;
}

/* ---- Replies ---- */

/* A child whose parent is gone has nothing left to do. */
static void send_reply(const msi_crew_process *p, const msi_crew_reply *answer)
{
    if (msi_child_send(p->parent, answer, sizeof *answer) != 0) _exit(1);
}

static void recv_request(const msi_crew_process *p, msi_crew_request *q)
{
    if (msi_child_receive(p->parent, q, sizeof *q) != 0) _exit(0);
}

static void send_failure(const msi_crew_process *p, int64_t number, int status)
{
    const int explained = msi_ms_limit_explain(status, p->paths[0]);
    msi_crew_reply answer = {.kind = MSI_CREW_FAILED, .number = number, .status = explained};
    snprintf(answer.message, sizeof answer.message, "%s", msi_error_get());
    send_reply(p, &answer);
}

/* ---- Open ---- */

/* Pass progress on; the parent shows it. */
static void hear(void *of, const char *stage, double fraction)
{
    (void)stage;
    msi_crew_shared *shared = of;
    shared->opened_ppm = (int64_t)(1e6 * fraction);
}

/* An exchange is a part of an opening. */
typedef struct exchange {
    const msi_crew_process *process;
    const msi_crew_request *open;
    msi_crew_request *next; /* what the parent wants instead, where it has cut the opening off */
    int is_cut_off;
    int64_t n_done;
} exchange;

/* Bytes that are exchanged have their number in front. */
enum { EXCHANGE_HEAD = 64 };

/* Leave bytes for the other processes; wait until all have. */
static int exchange_bytes(void *of, const char *bytes, int64_t n_byte, const char **all, int64_t *n_all)
{
    exchange *x = of;
    const msi_crew_process *p = x->process;
    const int64_t room = p->slot_bytes - EXCHANGE_HEAD;
    const int64_t at = (MSI_CREW_SLOTS - N_EXCHANGED + x->n_done++ % N_EXCHANGED) * p->slot_bytes;
    if (n_byte > room) return msi_error_set(MSI_ENOMEM, "what the sets hold is too much to hand over");
    memcpy(p->slots + at, &n_byte, sizeof n_byte);
    memcpy(p->slots + at + EXCHANGE_HEAD, bytes, (size_t)n_byte);
    send_reply(p, &(msi_crew_reply){.kind = MSI_CREW_FOUND, .number = x->open->number});
    do {
        recv_request(p, x->next);
        x->is_cut_off = x->next->kind == MSI_CREW_OPEN || x->next->kind == MSI_CREW_BEGIN;
        if (x->is_cut_off) return msi_error_set(MSI_EINTERRUPTED, "the opening of the sets is cut off");
    } while (x->next->kind != MSI_CREW_SHARED || x->next->number != x->open->number);
    for (int k = 0; k < x->open->n_part; k++) {
        const char *slot = p->all_slots + k * MSI_CREW_SLOTS * p->slot_bytes + at;
        memcpy(&n_all[k], slot, sizeof n_all[k]);
        if (n_all[k] < 0 || n_all[k] > room) n_all[k] = 0;
        all[k] = slot + EXCHANGE_HEAD;
    }
    return MSI_OK;
}

/* Returned: *q  the parent's next request, where *is_done is 0 */
static int open_sets(const msi_crew_process *p, msi_crew_request *q, msi_ms_reader **r, int *is_done)
{
    const msi_crew_request open = *q;
    msi_ms_selection selection = p->selection;
    selection.interval_begin = open.opening.interval_begin;
    selection.interval_end = open.opening.interval_end;
    selection.may_be_empty = open.opening.may_be_empty;
    selection.coordinates_only = open.opening.coordinates_only;
    selection.keep_flagged_rows = open.opening.keep_flagged_rows;
    msi_ms_reader_free(*r);
    *r = NULL;
    msi_child_progress(MSI_CHILD_STEP_S);
    if (p->is_first) msi_progress_listen(hear, p->shared);
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
    msi_crew_reply answer = {.kind = MSI_CREW_OPENED, .number = open.number};
    MSI_TRY(msi_ms_description_pack(*r, &bytes, &answer.n_byte));
    answer.hash = msi_crew_hash(bytes, answer.n_byte);
    for (int i = 0; i < (*r)->n_set && !selection.coordinates_only; i++)
        answer.written = msi_hash(answer.written, &(*r)->set[i].watch.written, sizeof answer.written);
    const int fits = answer.n_byte <= msi_crew_description_bytes(p->slot_bytes);
    if (fits && p->is_first) memcpy(p->slots, bytes, (size_t)answer.n_byte);
    msi_free(bytes);
    if (!fits) return msi_error_set(MSI_ENOMEM, "what the sets hold is too much to hand over");
    send_reply(p, &answer);
    return MSI_OK;
}

/* ---- Read ---- */

/* Wait until a slot is free. Returns 0 where the parent wants something else instead, which is in *q. */
static int await_slot(const msi_crew_process *p, int64_t number, int64_t n_full, int64_t *n_freed, msi_crew_request *q)
{
    while (n_full - *n_freed == MSI_CREW_SLOTS) {
        recv_request(p, q);
        if (q->kind != MSI_CREW_FREED) return 0;
        *n_freed += q->number == number;
    }
    return 1;
}

/* Copy the order of a request, which the parent may replace when it sends another. */
static int copy_order(const msi_crew_process *p, const msi_crew_request *q, msi_crew_order *order)
{
    *order = (msi_crew_order){.forming = p->forming};
    if (!q->n_order) return MSI_OK;
    if (!p->forming || q->n_order < 0 || q->n_order > p->most_order)
        return msi_error_set(MSI_EINTERNAL, "a process is to form blocks by what is no order");
    MSI_TRY(msi_alloc(&order->bytes, q->n_order, 1, "how blocks are formed"));
    memcpy(order->bytes, p->order, (size_t)q->n_order);
    order->n_byte = q->n_order;
    return MSI_OK;
}

/* Read the next block into a slot: as it is, or what is formed of it. */
static int read_block(msi_ms_reader *r, const msi_crew_request *q, const msi_crew_order *order,
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
    return order->forming->form(order->forming->of, order->bytes, block, slot->uvw_m, slot->formed);
}

/* Read all of its blocks into the slots in turn, until the last, or until the parent wants something else, which is in
 * *q then. */
static int read_blocks(const msi_crew_process *p, msi_ms_reader *r, const msi_crew_order *order, msi_crew_request *q,
                       int *is_done)
{
    const msi_crew_request begin = *q;
    msi_ms_block block = {0};
    int is_end = 0;
    for (int64_t n_full = 0, n_freed = 0; !is_end; n_full++) {
        if (!await_slot(p, begin.number, n_full, &n_freed, q)) {
            *is_done = 0;
            return MSI_OK;
        }
        struct msi_ms_buffer slot;
        if (msi_crew_lay_out(&slot, p->slots + n_full % MSI_CREW_SLOTS * p->slot_bytes, r, order) > p->slot_bytes)
            return msi_error_set(MSI_ENOMEM, "a block is too large to hand over");
        memset(&r->dropped, 0, sizeof r->dropped);
        MSI_TRY(read_block(r, &begin, order, &slot, &block, &is_end));
        send_reply(p, &(msi_crew_reply){.kind = is_end ? MSI_CREW_END : MSI_CREW_BLOCK,
                                        .number = begin.number,
                                        .n_row = block.n_row,
                                        .set = block.set,
                                        .data_desc_id = block.data_desc_id,
                                        .field_id = block.field_id,
                                        .dropped = r->dropped});
    }
    return MSI_OK;
}

static int read_all(const msi_crew_process *p, msi_ms_reader *r, msi_crew_request *q, int *is_done)
{
    msi_crew_order order;
    if (!r) return msi_error_set(MSI_EINTERNAL, "a process is to read what it has not opened");
    MSI_TRY(copy_order(p, q, &order));
    msi_ms_reader_rewind(r);
    const int status = read_blocks(p, r, &order, q, is_done);
    msi_free(order.bytes);
    return status;
}

_Noreturn void msi_crew_process_run(const msi_crew_process *p)
{
    msi_ms_reader *r = NULL;
    msi_crew_request q;
    int is_done = 1;
    for (;;) {
        if (is_done) recv_request(p, &q);
        const int64_t number = q.number;
        const msi_crew_request_kind kind = q.kind;
        int status = MSI_OK;
        is_done = 1;
        if (kind == MSI_CREW_OPEN) status = open_sets(p, &q, &r, &is_done);
        if (kind == MSI_CREW_BEGIN) status = read_all(p, r, &q, &is_done);
        if (status != MSI_OK) send_failure(p, number, status);
    }
}
