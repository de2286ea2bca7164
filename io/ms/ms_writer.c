/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The parent starts the child, hands it blocks, and turns whatever happens to it into a status and a line. */
#include "io/ms/ms_writer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_column_drop.h"
#include "io/ms/ms_paths.h"
#include "io/ms/ms_writer_shared.h"

enum {
    STOP_MS = 1000, /* that the child may take to stop by itself */
    PAUSE_MS = 2
};

struct msi_ms_writer {
    int n_set;
    char **paths;
    char *text; /* the strings of spec */
    msi_ms_write_spec spec;
    msi_writer_shared *shared;
    int64_t n_shared;
    msi_child child;
    int is_ready, is_prepared, is_busy[MSI_MS_WRITER_SLOTS], slot;
    int failed; /* what it failed with: nothing more can be done */
    char message[2048];
};

/* ---- Failures ---- */

/* From now on every call fails so. */
static int fail(msi_ms_writer *w, int status, const char *message)
{
    w->failed = status;
    snprintf(w->message, sizeof w->message, "%s", message);
    return msi_error_set(status, "%s", w->message);
}

/* Undo what a child that is gone has left undone. */
static void undo(msi_ms_writer *w)
{
    for (int i = 0; i < w->n_set; i++) {
        msi_ms_column_drop_abandon(&w->shared->column[i], w->paths[i]);
        msi_ms_column_abandon(&w->shared->column[i], w->paths[i], NULL, &w->spec);
    }
}

/* Wait for the end of a child that has nothing more to say. */
static int take_failure(msi_ms_writer *w)
{
    char message[1024];
    const int by_signal = msi_child_end_text(&w->child, w->paths[0], MSI_WRITER_WHAT, message, sizeof message);
    undo(w);
    if (w->shared->status != MSI_OK) return fail(w, w->shared->status, w->shared->message);
    if (!w->is_ready && by_signal && by_signal != SIGKILL) { /* it has only read so far */
        snprintf(message, sizeof message, "%.300s: truncated or corrupt: %s was ended by signal %d (%s)", w->paths[0],
                 MSI_WRITER_WHAT, by_signal, strsignal(by_signal));
        return fail(w, MSI_EINPUT, message);
    }
    return fail(w, MSI_EOUTPUT, message);
}

/* ---- Messages ---- */

/* Receive the next message; with wait 0, slot is -1 where none is there yet. A slot that becomes free is free then. */
static int recv_message(msi_ms_writer *w, int wait, msi_writer_message *m)
{
    int got;
    MSI_TRY(msi_child_await(&w->child, wait, m, sizeof *m, &got));
    if (got < 0) return take_failure(w);
    if (got == 0) {
        *m = (msi_writer_message){MSI_WRITER_FREED, -1};
        return MSI_OK;
    }
    if (m->kind == MSI_WRITER_FAILED) return take_failure(w);
    if (m->kind == MSI_WRITER_FREED) w->is_busy[m->slot] = 0;
    return MSI_OK;
}

/* Wait for a reply of this kind. */
static int recv_reply(msi_ms_writer *w, msi_writer_kind kind)
{
    msi_writer_message m;
    do MSI_TRY(recv_message(w, 1, &m));
    while (m.kind != (int)kind);
    return MSI_OK;
}

/* Send a request. Where nobody reads it, the child's last message or its end says why. */
static int send_request(msi_ms_writer *w, msi_writer_kind kind, int slot)
{
    msi_writer_message m;
    if (msi_writer_send(&w->child, kind, slot) == 0) return MSI_OK;
    for (;;) MSI_TRY(recv_message(w, 1, &m));
}

/* ---- Start ---- */

static int check_distinct(const char *const *paths, int n_path)
{
    int a, b;
    if (!msi_ms_paths_same(paths, n_path, &a, &b)) return MSI_OK;
    return msi_error_set(MSI_EARGUMENT, "%s and %s are the same Measurement Set", paths[a], paths[b]);
}

static int copy_spec(msi_ms_writer *w, const msi_ms_write_spec *spec)
{
    const char *const from[] = {spec->column, spec->input_column ? spec->input_column : "",
                                spec->description ? spec->description : "", spec->selection ? spec->selection : ""};
    const char *to[4];
    size_t size = 0, at = 0;
    for (int i = 0; i < 4; i++) size += strlen(from[i]) + 1;
    MSI_TRY(msi_alloc(&w->text, (int64_t)size, 1, "names of columns"));
    for (int i = 0; i < 4; i++) {
        to[i] = w->text + at;
        at += strlen(from[i]) + 1;
        memcpy(w->text + at - strlen(from[i]) - 1, from[i], strlen(from[i]) + 1);
    }
    w->spec = (msi_ms_write_spec){.column = to[0],
                                  .op = spec->op,
                                  .input_column = to[1],
                                  .description = to[2],
                                  .selection = to[3],
                                  .drop_old = spec->drop_old};
    return MSI_OK;
}

static int map_shared(msi_ms_writer *w)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t head = (int64_t)sizeof *w->shared + w->n_set * (int64_t)sizeof w->shared->column[0];
    const int64_t slots_at = (head + page - 1) / page * page;
    w->n_shared = slots_at + MSI_MS_WRITER_SLOTS * MSI_WRITER_SLOT_BYTES;
    void *p =
        mmap(NULL, (size_t)w->n_shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return msi_error_set(MSI_ENOMEM, "memory to share with the writer: %s", strerror(errno));
    w->shared = p;
    w->shared->slots_at = slots_at;
    w->shared->n_set = w->n_set;
    return MSI_OK;
}

static int fork_child(msi_ms_writer *w)
{
    int is_child;
    MSI_TRY(msi_child_fork(&w->child, "to write with", &is_child));
    if (is_child) msi_writer_child_run(w->shared, &w->child, (const char *const *)w->paths, &w->spec);
    MSI_TRY(recv_reply(w, MSI_WRITER_READY));
    w->is_ready = 1;
    return MSI_OK;
}

static void log_methods(const msi_ms_writer *w)
{
    for (int i = 0; i < w->n_set; i++) {
        const msi_ms_column *c = &w->shared->column[i];
        if (c->has_virtual_model)
            msi_log_warning(
                "%s: has a virtual model, which CASA would use instead of MODEL_DATA (CASA's delmod removes "
                "it)",
                w->paths[i]);
        if (c->is_shared)
            msi_log_warning(
                "%s: files of %s are linked: what is written there changes every copy of the set that has them",
                w->paths[i], w->spec.column);
        if (c->method == MSI_COLUMN_SWAPPED)
            msi_log_info("%s: %s %s: a new column takes its place, the old one stays as %s; %.1f MB more on disk",
                         w->paths[i], w->spec.column,
                         c->is_lossy ? "is stored with loss (DyscoStMan), which a model would not survive exactly"
                                     : "cannot be overwritten safely where it is stored",
                         c->old_name, 1e-6 * (double)c->disk_bytes);
        if (w->spec.drop_old && !c->n_old)
            msi_log_info("%s: no column was put aside by a prediction: there is none to remove", w->paths[i]);
        for (int k = 0; k < c->n_old; k++)
            msi_log_info("%s: when %s is complete, column %s is removed", w->paths[i], w->spec.column,
                         c->old_columns[k]);
    }
}

int msi_ms_writer_start(msi_ms_writer **out, const char *const *paths, int n_path, const msi_ms_write_spec *spec)
{
    msi_ms_writer *w = NULL;
    *out = NULL;
    if (n_path < 1) return msi_error_set(MSI_EARGUMENT, "no Measurement Set is given");
    MSI_TRY(msi_ms_column_check(spec));
    MSI_TRY(check_distinct(paths, n_path));
    MSI_TRY(msi_alloc(&w, 1, sizeof *w, "the writer"));
    w->child = MSI_CHILD_NONE;
    w->slot = -1;
    w->n_set = n_path;
    int status = msi_ms_paths_copy(&w->paths, paths, n_path);
    if (status == MSI_OK) status = copy_spec(w, spec);
    if (status == MSI_OK) status = map_shared(w);
    if (status == MSI_OK) status = fork_child(w);
    if (status != MSI_OK) {
        msi_ms_writer_free(w);
        return status;
    }
    log_methods(w);
    *out = w;
    return MSI_OK;
}

int msi_ms_writer_marked(const msi_ms_writer *w, int set, const char **text, const char **selection)
{
    const msi_ms_column *c = &w->shared->column[set];
    *text = c->was_marked ? c->mark : NULL;
    *selection = c->was_marked ? c->marked_selection : NULL;
    return c->was_marked;
}

int64_t msi_ms_writer_disk_bytes(const msi_ms_writer *w, int set)
{
    return w->shared->column[set].disk_bytes;
}

/* ---- Write ---- */

static int check_state(const msi_ms_writer *w, int is_right)
{
    if (w->failed) return msi_error_set(w->failed, "%s", w->message);
    return is_right ? MSI_OK : msi_error_set(MSI_EINTERNAL, "the writer's functions are called out of order");
}

int msi_ms_writer_prepare(msi_ms_writer *w)
{
    MSI_TRY(check_state(w, !w->is_prepared));
    MSI_TRY(send_request(w, MSI_WRITER_PREPARE, 0));
    MSI_TRY(recv_reply(w, MSI_WRITER_PREPARED));
    w->is_prepared = 1;
    return MSI_OK;
}

static int free_slot(msi_ms_writer *w)
{
    for (int i = 0; i < MSI_MS_WRITER_SLOTS; i++)
        if (!w->is_busy[i]) return i;
    return -1;
}

int msi_ms_writer_slot(msi_ms_writer *w, const msi_ms_block *block, msi_c32 **values)
{
    msi_writer_message m;
    *values = NULL;
    MSI_TRY(check_state(w, w->is_prepared && w->slot < 0 && block->set >= 0 && block->set < w->n_set));
    const int64_t n_value = block->n_row * block->n_chan * block->n_corr;
    if (n_value * (int64_t)sizeof **values > MSI_MS_WRITER_BLOCK_BYTES || block->n_row > MSI_MS_WRITER_BLOCK_ROWS)
        return msi_error_set(MSI_ERANGE, "a block of %lld rows x %d channels x %d correlations is too large to write",
                             (long long)block->n_row, block->n_chan, block->n_corr);
    do MSI_TRY(recv_message(w, 0, &m));
    while (m.slot >= 0);
    while (free_slot(w) < 0) MSI_TRY(recv_message(w, 1, &m));
    w->slot = free_slot(w);
    char *at = (char *)w->shared + w->shared->slots_at + w->slot * MSI_WRITER_SLOT_BYTES;
    msi_writer_slot_head *head = (msi_writer_slot_head *)(void *)at;
    *head = (msi_writer_slot_head){
        .set = block->set, .n_chan = block->n_chan, .n_corr = block->n_corr, .n_row = block->n_row};
    head->chan_at = (int64_t)sizeof *head + block->n_row * (int64_t)sizeof *block->ms_row;
    head->value_at = (head->chan_at + block->n_chan * (int64_t)sizeof *block->chan_index + 63) / 64 * 64;
    memcpy(at + sizeof *head, block->ms_row, (size_t)block->n_row * sizeof *block->ms_row);
    memcpy(at + head->chan_at, block->chan_index, (size_t)block->n_chan * sizeof *block->chan_index);
    *values = (msi_c32 *)(void *)(at + head->value_at);
    return MSI_OK;
}

int msi_ms_writer_submit(msi_ms_writer *w)
{
    MSI_TRY(check_state(w, w->slot >= 0));
    const int slot = w->slot;
    w->slot = -1;
    w->is_busy[slot] = 1;
    return send_request(w, MSI_WRITER_FILL, slot);
}

/* Wait for the child to end by itself; 0 where it has not in time. */
static int has_stopped(const msi_ms_writer *w)
{
    const struct timespec pause = {0, PAUSE_MS * 1000000};
    for (int ms = 0; ms < STOP_MS; ms += PAUSE_MS) {
        if (waitpid(w->child.pid, NULL, WNOHANG) == w->child.pid) return 1;
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* The child's own child, which writes, ends with it, but perhaps later. */
static void kill_child(msi_ms_writer *w)
{
    kill(w->child.pid, SIGKILL);
    msi_child_wait(&w->child);
    msi_child_await_end(&w->child);
}

static void stop_child(msi_ms_writer *w)
{
    if (w->child.pid > 0) {
        msi_child_hang_up(&w->child);
        if (!has_stopped(w)) kill_child(w);
        w->child.pid = 0;
        undo(w);
    }
    msi_child_close(&w->child);
}

int msi_ms_writer_finish(msi_ms_writer *w)
{
    MSI_TRY(check_state(w, w->is_prepared && w->slot < 0));
    MSI_TRY(msi_interrupt_check());
    MSI_TRY(send_request(w, MSI_WRITER_FINISH, 0));
    const int status = recv_reply(w, MSI_WRITER_FINISHED);
    if (status == MSI_EINTERRUPTED) {
        /* The signal may have come too late to stop anything. */
        stop_child(w);
        for (int i = 0; i < w->n_set; i++) {
            const msi_ms_column *c = &w->shared->column[i];
            if (c->stage != MSI_COLUMN_COMPLETE || (w->spec.drop_old && !c->is_dropped)) return status;
        }
        return MSI_OK;
    }
    MSI_TRY(status);
    msi_child_wait(&w->child);
    for (int i = 0; i < w->n_set; i++)
        for (int k = 0; k < w->shared->column[i].n_old; k++)
            msi_log_info("%s: column %s is removed", w->paths[i], w->shared->column[i].old_columns[k]);
    return MSI_OK;
}

void msi_ms_writer_stop(msi_ms_writer *w)
{
    if (!w || w->child.pid <= 0) return;
    stop_child(w);
    if (w->failed) return;
    w->failed = MSI_EINTERNAL;
    snprintf(w->message, sizeof w->message, "the writer was stopped");
}

int msi_ms_writer_left_mark(const msi_ms_writer *w, int set)
{
    return w->shared->column[set].stage == MSI_COLUMN_MARKED;
}

void msi_ms_writer_free(msi_ms_writer *w)
{
    if (!w) return;
    stop_child(w);
    if (w->shared) munmap(w->shared, (size_t)w->n_shared);
    msi_free(w->paths);
    msi_free(w->text);
    msi_free(w);
}
