/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Process k of n reads the blocks k, k + n, .. into slots of memory that it shares with the parent, in turn; messages
 * say which are full and which are free. So blocks come in the order of one reader, whatever the processes' speeds.
 * What a process says is checked, as a damaged set may have damaged the process that reads it.
 */
#include "io/ms/ms_crew.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "io/ms/ms_crew_process.h"
#include "io/ms/ms_description.h"
#include "io/ms/ms_limit.h"

/* A slot holds a block of about 2 MB, or a row of more: at 13 bytes a value, one of 80 million values. */
static const int64_t LARGEST_SLOT = (int64_t)1 << 30, LEAST_SLOT = (int64_t)4 << 20;

/* The order begins a page behind what is shared beside it; of its room, too, only what is touched is memory. */
static const int64_t ORDER_AT = 4096, MOST_ORDER = (int64_t)64 << 20;
_Static_assert(sizeof(msi_crew_shared) <= 4096, "it begins behind it");

/* The caller has so many blocks of a process at most; the others are the process's to fill. */
enum { MOST_LENT = MSI_CREW_SLOTS / 2 };

/* The parent's view of a process. */
typedef struct worker {
    msi_child child;
    char *slots; /* [MSI_CREW_SLOTS][slot_bytes] of the crew's */
    struct msi_ms_buffer slot[MSI_CREW_SLOTS];
    int64_t n_taken; /* blocks, since BEGIN */
    int n_lent;      /* of them, those that the caller has */
} worker;

struct msi_ms_crew {
    const char *const *paths;
    int n_path;
    msi_ms_selection selection;
    int n_worker;
    worker *worker;
    int64_t number, opening; /* of the last request that is answered; of the last OPEN */
    msi_crew_shared *shared; /* mapped, with the slots of all processes */
    int64_t slot_bytes, n_mapped;
    msi_crew_order order;
    int is_reading, is_at_end;
    int64_t n_block; /* taken so far */
    int has_read;    /* columns were opened to be read */
    uint64_t written;
};

/* ---- Start ---- */

/* Map the slots, of which only what blocks touch becomes memory: of a size for any row, or for what can be had. */
static int map_slots(msi_ms_crew *crew)
{
    void *p = MAP_FAILED;
    for (int64_t bytes = LARGEST_SLOT; p == MAP_FAILED && bytes >= LEAST_SLOT; bytes /= 4) {
        crew->slot_bytes = bytes;
        crew->n_mapped = ORDER_AT + MOST_ORDER + crew->n_worker * MSI_CREW_SLOTS * bytes;
        p = mmap(NULL, (size_t)crew->n_mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                 0);
    }
    if (p == MAP_FAILED) return msi_error_set(MSI_ENOMEM, "memory to share with readers: %s", strerror(errno));
    crew->shared = p;
    for (int k = 0; k < crew->n_worker; k++)
        crew->worker[k].slots = (char *)p + ORDER_AT + MOST_ORDER + k * MSI_CREW_SLOTS * crew->slot_bytes;
    return MSI_OK;
}

static int start_worker(msi_ms_crew *crew, int k)
{
    int is_child;
    const pid_t self = getpid();
    msi_child *child = &crew->worker[k].child;
    MSI_TRY(msi_child_fork(child, "to read with", &is_child));
    if (is_child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) _exit(1);
        msi_crew_process p = {.parent = child,
                              .paths = crew->paths,
                              .n_path = crew->n_path,
                              .selection = crew->selection,
                              .shared = crew->shared,
                              .order = (const char *)crew->shared + ORDER_AT,
                              .most_order = MOST_ORDER,
                              .forming = crew->order.forming,
                              .slots = crew->worker[k].slots,
                              .all_slots = crew->worker[0].slots,
                              .slot_bytes = crew->slot_bytes,
                              .is_first = k == 0};
        msi_ms_limit_memory(p.paths, p.n_path);
        msi_child_watch();
        msi_crew_process_run(&p);
    }
    return MSI_OK;
}

int msi_ms_crew_start(msi_ms_crew **out, const char *const *paths, int n_path, const msi_ms_selection *selection,
                      int n_process, const msi_ms_forming *forming)
{
    msi_ms_crew *crew;
    *out = NULL;
    MSI_TRY(msi_alloc(&crew, 1, sizeof *crew, "processes to read with"));
    *crew = (msi_ms_crew){.paths = paths,
                          .n_path = n_path,
                          .selection = *selection,
                          .n_worker = n_process,
                          .order = {.forming = forming}};
    int status = msi_alloc(&crew->worker, n_process, sizeof *crew->worker, "processes to read with");
    if (status != MSI_OK) crew->n_worker = 0;
    for (int k = 0; k < crew->n_worker; k++) crew->worker[k].child = MSI_CHILD_NONE;
    if (status == MSI_OK) status = map_slots(crew);
    for (int k = 0; k < crew->n_worker && status == MSI_OK; k++) {
        status = start_worker(crew, k);
        if (status == MSI_OK || k == 0) continue;
        msi_log_warning("%s; %d read%s", msi_error_get(), k, k == 1 ? "s" : "");
        msi_child_close(&crew->worker[k].child);
        crew->n_worker = k;
        status = MSI_OK;
    }
    if (status != MSI_OK) {
        msi_ms_crew_free(crew);
        return status;
    }
    *out = crew;
    return MSI_OK;
}

/* ---- Replies ---- */

static int claim(const msi_ms_crew *crew, const char *what)
{
    return msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: a process that reads it %s", crew->paths[0], what);
}

/* Say why a process has ended that was to answer. */
static int take_end(const msi_ms_crew *crew, worker *w)
{
    const int signal_number = msi_child_wait(&w->child);
    char what[128];
    if (signal_number == SIGKILL)
        return msi_error_about(msi_error_set(MSI_ENOMEM,
                                             "%s: a process that reads was ended by signal 9 (Killed); for want of "
                                             "memory?",
                                             crew->paths[0]),
                               "n_reader");
    if (signal_number == SIGXCPU) {
        /* The user's limit of CPU time holds for each process. */
        msi_interrupt_raise(SIGXCPU);
        return msi_interrupt_check();
    }
    if (signal_number == SIGPROF) return claim(crew, "came to no end of one step in the time that a whole set takes");
    if (signal_number == 0) return claim(crew, "has ended");
    snprintf(what, sizeof what, "was ended by signal %d (%s)", signal_number, strsignal(signal_number));
    return claim(crew, what);
}

/* Pass on why a process has failed. */
static int take_failure(const msi_ms_crew *crew, msi_crew_reply *answer)
{
    answer->message[sizeof answer->message - 1] = 0;
    if (answer->status >= MSI_OK || answer->status < MSI_EARGUMENT || !*answer->message)
        return claim(crew, "fails without saying why");
    return msi_error_set(answer->status, "%s", answer->message);
}

/* Take the next reply of a process to the last request, if there is one; earlier ones are answered no more. */
static int poll_reply(const msi_ms_crew *crew, worker *w, msi_crew_reply *answer, int *is_there)
{
    int got;
    *is_there = 0;
    do {
        MSI_TRY(msi_child_await(&w->child, 0, answer, sizeof *answer, &got));
        if (got < 0) return take_end(crew, w);
        if (got == 0) return MSI_OK;
    } while (answer->number != crew->number);
    *is_there = 1;
    return answer->kind == MSI_CREW_FAILED ? take_failure(crew, answer) : MSI_OK;
}

/* Wait for it. */
static int recv_reply(const msi_ms_crew *crew, worker *w, msi_crew_reply *answer)
{
    for (;;) {
        int is_there;
        MSI_TRY(poll_reply(crew, w, answer, &is_there));
        if (is_there) return MSI_OK;
        if (!crew->is_reading) msi_progress_at(crew->shared->opened_ppm, 1000000);
        msi_child_wait_briefly(&w->child);
        MSI_TRY(msi_interrupt_check());
    }
}

static void send_all(msi_ms_crew *crew, msi_crew_request *q)
{
    q->number = ++crew->number;
    q->n_part = crew->n_worker;
    q->n_order = crew->order.n_byte;
    for (q->part = 0; q->part < crew->n_worker; q->part++) msi_child_send(&crew->worker[q->part].child, q, sizeof *q);
}

/* ---- Open ---- */

static void forget_order(msi_ms_crew *crew)
{
    msi_free(crew->order.bytes);
    crew->order.bytes = NULL;
    crew->order.n_byte = 0;
}

/* Take what the first process has found, of which it says the length and the hash: from a copy, which stays as it is.
 */
static int take_description(msi_ms_crew *crew, const msi_crew_reply *answer, msi_ms_reader **reader)
{
    char *bytes;
    const int64_t n = answer->n_byte;
    if (n < 1 || n > msi_crew_description_bytes(crew->slot_bytes)) return claim(crew, "has found what cannot be");
    MSI_TRY(msi_alloc(&bytes, n, 1, "what the sets hold"));
    memcpy(bytes, crew->worker[0].slots, (size_t)n);
    const int status = msi_crew_hash(bytes, n) == answer->hash
                           ? msi_ms_description_unpack(reader, crew->paths, crew->n_path, bytes, n)
                           : claim(crew, "has found what cannot be");
    msi_free(bytes);
    return status;
}

/* Take the same kind of reply of all processes, which either leave what they found, or have opened the sets. */
static int recv_alike(msi_ms_crew *crew, msi_crew_reply *first)
{
    msi_crew_reply answer;
    MSI_TRY(recv_reply(crew, &crew->worker[0], first));
    if (first->kind != MSI_CREW_OPENED && first->kind != MSI_CREW_FOUND)
        return claim(crew, "answers what it was not asked");
    for (int k = 1; k < crew->n_worker; k++) {
        MSI_TRY(recv_reply(crew, &crew->worker[k], &answer));
        if (answer.kind != first->kind || answer.n_byte != first->n_byte || answer.hash != first->hash ||
            answer.written != first->written)
            return msi_error_set(MSI_EINPUT, "%s: changes while it is read", crew->paths[0]);
    }
    return MSI_OK;
}

/* What is opened again, for another interval or another field, must be of the same writing of the columns as before. */
static int check_writing(msi_ms_crew *crew, const msi_ms_opening *opening, const msi_crew_reply *first)
{
    if (opening->coordinates_only) return MSI_OK;
    if (crew->has_read && first->written != crew->written)
        return msi_error_set(MSI_EINPUT, "%s: a column was written anew while it was read: read it again",
                             crew->paths[0]);
    crew->has_read = 1;
    crew->written = first->written;
    return MSI_OK;
}

int msi_ms_crew_open(msi_ms_crew *crew, const msi_ms_opening *opening, msi_ms_reader **reader)
{
    msi_crew_request open = {.kind = MSI_CREW_OPEN, .opening = *opening};
    msi_crew_reply first;
    *reader = NULL;
    crew->is_reading = 0;
    forget_order(crew);
    crew->shared->opened_ppm = 0;
    send_all(crew, &open);
    crew->opening = crew->number;
    for (;;) {
        MSI_TRY(recv_alike(crew, &first));
        if (first.kind == MSI_CREW_OPENED) break;
        const msi_crew_request shared = {.kind = MSI_CREW_SHARED, .number = crew->number};
        for (int k = 0; k < crew->n_worker; k++) msi_child_send(&crew->worker[k].child, &shared, sizeof shared);
    }
    MSI_TRY(check_writing(crew, opening, &first));
    MSI_TRY(take_description(crew, &first, reader));
    (*reader)->selection.coordinates_only = opening->coordinates_only;
    (*reader)->selection.keep_flagged_rows = opening->keep_flagged_rows;
    (*reader)->share = opening->share;
    (*reader)->n_share = opening->n_share;
    (*reader)->crew = crew;
    (*reader)->crew_opening = crew->opening;
    return MSI_OK;
}

/* ---- Read ---- */

int msi_ms_crew_order(msi_ms_crew *crew, const void *order, int64_t n_byte)
{
    if (n_byte > MOST_ORDER)
        return msi_error_set(MSI_ENOMEM, "%.3f GB say how blocks are formed; there is room for %.3f GB",
                             1e-9 * (double)n_byte, 1e-9 * (double)MOST_ORDER);
    if (!crew->order.forming || n_byte < 1) return msi_error_set(MSI_EINTERNAL, "a crew that forms nothing is to form");
    forget_order(crew);
    MSI_TRY(msi_alloc(&crew->order.bytes, n_byte, 1, "how blocks are formed"));
    memcpy(crew->order.bytes, order, (size_t)n_byte);
    crew->order.n_byte = n_byte;
    crew->is_reading = 0;
    return MSI_OK;
}

/* Have the processes read all blocks of what they have open. */
static int begin(msi_ms_crew *crew, msi_ms_reader *reader)
{
    struct msi_ms_buffer none;
    const int64_t bytes = msi_crew_lay_out(&none, crew->worker[0].slots, reader, &crew->order);
    if (bytes > crew->slot_bytes || bytes > msi_memory_limit() / (MSI_CREW_SLOTS * crew->n_worker))
        return msi_error_about(
            msi_error_set(MSI_ENOMEM, "the blocks of %d process%s that read%s need %.3f GB; the limit is %.3f GB",
                          crew->n_worker, crew->n_worker == 1 ? "" : "es", crew->n_worker == 1 ? "s" : "",
                          1e-9 * MSI_CREW_SLOTS * crew->n_worker * (double)bytes, 1e-9 * (double)msi_memory_limit()),
            crew->n_worker > 1 ? "n_reader" : "memory");
    for (int k = 0; k < crew->n_worker; k++) {
        worker *w = &crew->worker[k];
        w->n_taken = w->n_lent = 0;
        for (int i = 0; i < MSI_CREW_SLOTS; i++)
            msi_crew_lay_out(&w->slot[i], w->slots + i * crew->slot_bytes, reader, &crew->order);
    }
    if (crew->order.n_byte) memcpy((char *)crew->shared + ORDER_AT, crew->order.bytes, (size_t)crew->order.n_byte);
    msi_crew_request request = {.kind = MSI_CREW_BEGIN};
    send_all(crew, &request);
    memset(&reader->dropped, 0, sizeof reader->dropped);
    crew->n_block = 0;
    crew->is_reading = 1;
    crew->is_at_end = 0;
    return MSI_OK;
}

/* Free a slot of the process. */
static void send_freed(msi_ms_crew *crew, worker *w)
{
    const msi_crew_request freed = {.kind = MSI_CREW_FREED, .number = crew->number};
    msi_child_send(&w->child, &freed, sizeof freed);
}

/* Free all slots that the caller has. */
static void give_back(msi_ms_crew *crew)
{
    for (int k = 0; k < crew->n_worker; k++)
        for (; crew->worker[k].n_lent > 0; crew->worker[k].n_lent--) send_freed(crew, &crew->worker[k]);
}

/* Wait until each of the other processes has said, in its turn, that it is done. */
static int recv_ends(msi_ms_crew *crew, int first)
{
    msi_crew_reply answer;
    for (int i = 1; i < crew->n_worker; i++) {
        MSI_TRY(recv_reply(crew, &crew->worker[(first + i) % crew->n_worker], &answer));
        if (answer.kind != MSI_CREW_END) return claim(crew, "answers what it was not asked");
    }
    crew->is_at_end = 1;
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

/* Check that a block is one of the reader's, and that its rows are. */
static int block_is_sound(const msi_ms_reader *r, const msi_crew_reply *a, const struct msi_ms_buffer *slot)
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

/* Take the next block that has rows; where the caller has blocks already, only if it has been read. *is_taken is 0
 * where it has not, and behind the last one. */
static int take_block(msi_ms_crew *crew, msi_ms_reader *reader, int may_wait, msi_ms_block *block, int *is_taken)
{
    *is_taken = 0;
    for (; !crew->is_at_end; crew->n_block++) {
        const int k = (int)(crew->n_block % crew->n_worker);
        worker *w = &crew->worker[k];
        msi_crew_reply answer;
        int is_there = may_wait;
        if (!may_wait && w->n_lent == MOST_LENT) return MSI_OK;
        MSI_TRY(may_wait ? recv_reply(crew, w, &answer) : poll_reply(crew, w, &answer, &is_there));
        if (!is_there) return MSI_OK;
        if (!add_dropped(&reader->dropped, &answer.dropped)) return claim(crew, "has counted what cannot be");
        if (answer.kind == MSI_CREW_END) return recv_ends(crew, k);
        struct msi_ms_buffer *slot = &w->slot[w->n_taken++ % MSI_CREW_SLOTS];
        if (answer.kind != MSI_CREW_BLOCK || !block_is_sound(reader, &answer, slot))
            return claim(crew, "has read what cannot be");
        /* Slots are freed in their order: behind one that the caller has, an empty one waits for it. */
        if (answer.n_row == 0 && w->n_lent == 0) send_freed(crew, w);
        if (answer.n_row == 0) {
            w->n_lent += w->n_lent > 0;
            continue;
        }
        msi_ms_block_describe(reader, answer.set, answer.data_desc_id, answer.field_id, slot, answer.n_row, block);
        w->n_lent++;
        crew->n_block++;
        *is_taken = 1;
        return MSI_OK;
    }
    return MSI_OK;
}

int msi_ms_crew_take(msi_ms_crew *crew, msi_ms_reader *reader, int most, msi_ms_block *block, int *n)
{
    *n = 0;
    if (reader->crew_opening != crew->opening)
        return msi_error_set(MSI_EINTERNAL, "a reader is read after its crew has opened the sets again");
    if (!crew->is_reading) MSI_TRY(begin(crew, reader));
    give_back(crew);
    for (int is_taken = 1; is_taken && *n < most; *n += is_taken)
        MSI_TRY(take_block(crew, reader, *n == 0, &block[*n], &is_taken));
    return MSI_OK;
}

int msi_ms_crew_next(msi_ms_crew *crew, msi_ms_reader *reader, msi_ms_block *block)
{
    int n;
    block->n_row = 0;
    return msi_ms_crew_take(crew, reader, 1, block, &n);
}

void msi_ms_crew_rewind(msi_ms_crew *crew)
{
    crew->is_reading = 0;
}

int msi_ms_crew_size(const msi_ms_crew *crew)
{
    return crew ? crew->n_worker : 0;
}

void msi_ms_crew_free(msi_ms_crew *crew)
{
    if (!crew) return;
    /* They have nothing to lose, and end side by side. */
    for (int k = 0; k < crew->n_worker; k++) {
        msi_child *c = &crew->worker[k].child;
        msi_child_close(c);
        if (c->pid > 0) kill(c->pid, SIGKILL);
    }
    for (int k = 0; k < crew->n_worker; k++)
        if (crew->worker[k].child.pid > 0) msi_child_wait(&crew->worker[k].child);
    if (crew->shared) munmap(crew->shared, (size_t)crew->n_mapped);
    forget_order(crew);
    msi_free(crew->worker);
    msi_free(crew);
}
