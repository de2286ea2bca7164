/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The writer's child processes: the holder, which has the locks and changes headers, and the filler, its child. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_column_drop.h"
#include "io/ms/ms_fill.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_set.h"
#include "io/ms/ms_writer_shared.h"

enum { WRITEBACK_MS = 250 };

typedef struct holder {
    msi_writer_shared *shared;
    const msi_child *parent;
    const char *const *paths;
    const msi_ms_write_spec *spec;
    ccc_table **table; /* [n_set] */
    int **fd, *n_fd;   /* [n_set] data files of the columns */
    pid_t filler;      /* 0 while there is none */
} holder;

/* ---- Both ---- */

int msi_writer_send(const msi_child *other, msi_writer_kind kind, int slot)
{
    const msi_writer_message m = {kind, slot};
    return msi_child_send(other, &m, sizeof m);
}

/* Leave a failure where the parent finds it, unless an earlier one is there. */
static void keep_failure(msi_writer_shared *shared, int status)
{
    if (shared->status != MSI_OK) return;
    snprintf(shared->message, sizeof shared->message, "%s", msi_error_get());
    shared->status = status;
}

/* ---- The filler ---- */

static int fill_slot(msi_ms_fill *fills, msi_writer_shared *shared, int slot)
{
    const char *at = (const char *)shared + shared->slots_at + slot * MSI_WRITER_SLOT_BYTES;
    const msi_writer_slot_head *head = (const msi_writer_slot_head *)(const void *)at;
    const msi_ms_values values = {.n_row = head->n_row,
                                  .n_chan = head->n_chan,
                                  .n_corr = head->n_corr,
                                  .row = (const int64_t *)(const void *)(at + sizeof *head),
                                  .chan_index = (const int32_t *)(const void *)(at + head->chan_at),
                                  .value = (const msi_c32 *)(const void *)(at + head->value_at)};
    return msi_ms_fill_put(&fills[head->set], &values);
}

static int fill_all(holder *h)
{
    msi_writer_shared *shared = h->shared;
    msi_writer_message m;
    msi_ms_fill *fills;
    MSI_TRY(msi_alloc(&fills, shared->n_set, sizeof *fills, "sets"));
    for (int i = 0; i < shared->n_set; i++)
        fills[i] = (msi_ms_fill){.table = h->table[i], .column = &shared->column[i], .spec = h->spec};
    for (;;) {
        if (msi_child_receive(h->parent, &m, sizeof m) != 0) _exit(1);
        if (m.kind == MSI_WRITER_FINISH) break;
        MSI_TRY(fill_slot(fills, shared, m.slot));
        if (msi_writer_send(h->parent, MSI_WRITER_FREED, m.slot) != 0) _exit(1);
    }
    for (int i = 0; i < shared->n_set; i++) MSI_TRY(msi_ms_fill_rest(&fills[i]));
    shared->is_filled = 1;
    return MSI_OK;
}

/* End without a flush or a destructor: what was put is in the kernel, and no header may be written. */
static _Noreturn void run_filler(holder *h, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int status = fill_all(h);
    if (status != MSI_OK) keep_failure(h->shared, status);
    _exit(status != MSI_OK);
}

/* ---- The holder ---- */

/* Restore what was, or leave what is marked, and end the process. */
static _Noreturn void stop(holder *h, int status)
{
    if (h->filler) {
        kill(h->filler, SIGKILL);
        waitpid(h->filler, NULL, 0);
    }
    if (status != MSI_OK) keep_failure(h->shared, status);
    for (int i = 0; i < h->shared->n_set; i++) msi_ms_column_drop_abandon(&h->shared->column[i], h->paths[i]);
    for (int i = 0; i < h->shared->n_set; i++)
        if (h->shared->column[i].stage != MSI_COLUMN_MARKED)
            msi_ms_column_abandon(&h->shared->column[i], h->paths[i], NULL, h->spec);
    for (int i = 0; i < h->shared->n_set; i++)
        if (h->shared->column[i].stage == MSI_COLUMN_MARKED)
            msi_ms_column_abandon(&h->shared->column[i], h->paths[i], h->table[i], h->spec);
    if (status != MSI_OK) msi_writer_send(h->parent, MSI_WRITER_FAILED, 0);
    _exit(status != MSI_OK);
}

static int open_all(holder *h)
{
    const int n_set = h->shared->n_set;
    MSI_TRY(msi_alloc(&h->table, n_set, sizeof *h->table, "tables"));
    MSI_TRY(msi_alloc(&h->fd, n_set, sizeof *h->fd, "open files"));
    MSI_TRY(msi_alloc(&h->n_fd, n_set, sizeof *h->n_fd, "open files"));
    for (int i = 0; i < n_set; i++) {
        MSI_TRY(msi_ms_column_check_links(h->paths[i]));
        const int failed = ccc_table_open(&h->table[i], h->paths[i], CCC_UPDATE, CCC_LOCK_HOLD);
        if (failed == CCC_EREADONLY) return msi_ms_write_failed(failed);
        if (failed) return msi_ms_failed(failed);
        MSI_TRY(msi_ms_column_plan(&h->shared->column[i], h->table[i], h->spec));
    }
    return MSI_OK;
}

/* Columns that need disk space come first: where it is missing, no set has been marked. */
static int prepare_all(holder *h)
{
    for (int in_place = 0; in_place < 2; in_place++)
        for (int i = 0; i < h->shared->n_set; i++) {
            msi_ms_column *c = &h->shared->column[i];
            if ((c->method == MSI_COLUMN_IN_PLACE) != in_place) continue;
            MSI_TRY(msi_ms_column_prepare(c, h->table[i], h->spec));
            MSI_TRY(msi_ms_column_files(c, h->paths[i], &h->fd[i], &h->n_fd[i]));
        }
    return MSI_OK;
}

/* Let the disk begin, so that the sync at the end is short. */
static void start_writeback(const holder *h)
{
    for (int i = 0; i < h->shared->n_set; i++)
        for (int k = 0; h->shared->column[i].touched && k < h->n_fd[i]; k++)
            sync_file_range(h->fd[i][k], 0, 0, SYNC_FILE_RANGE_WRITE);
}

/* Wait for the filler's end; it holds the other end of a pipe, and nobody writes there. */
static int wait_filler(holder *h, int pipe_fd)
{
    struct pollfd fds[2] = {{.fd = pipe_fd}, {.fd = h->parent->socket, .events = POLLRDHUP}};
    for (;;) {
        const int n = poll(fds, 2, WRITEBACK_MS);
        if (n < 0 && errno != EINTR) return msi_error_set(MSI_EINTERNAL, "poll: %s", strerror(errno));
        if (n <= 0) {
            start_writeback(h);
            continue;
        }
        if (fds[1].revents && !fds[0].revents) stop(h, MSI_OK); /* the parent is gone, or gave up */
        if (fds[0].revents) break;
    }
    int how = 0;
    waitpid(h->filler, &how, 0);
    h->filler = 0;
    if (h->shared->is_filled) return MSI_OK;
    if (h->shared->status != MSI_OK) return h->shared->status;
    char text[1024];
    msi_child_status_text(h->parent->output_fd, how, h->paths[0], MSI_WRITER_WHAT, text, sizeof text);
    return msi_error_set(MSI_EOUTPUT, "%s", text);
}

static int fill(holder *h)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return msi_error_set(MSI_EOUTPUT, "a pipe: %s", strerror(errno));
    const pid_t self = getpid();
    h->filler = fork();
    if (h->filler < 0) {
        h->filler = 0;
        return msi_error_set(MSI_EOUTPUT, "a process to write with: %s", strerror(errno));
    }
    if (h->filler == 0) {
        close(ends[0]);
        run_filler(h, self);
    }
    close(ends[1]);
    if (msi_writer_send(h->parent, MSI_WRITER_PREPARED, 0) != 0) stop(h, MSI_OK);
    return wait_filler(h, ends[0]);
}

static int sync_all(const holder *h)
{
    for (int i = 0; i < h->shared->n_set; i++)
        for (int k = 0; k < h->n_fd[i]; k++)
            if (fdatasync(h->fd[i][k]) != 0)
                return msi_error_set(MSI_EOUTPUT, "%s: column %s cannot be synced: %s", h->paths[i], h->spec->column,
                                     strerror(errno));
    return MSI_OK;
}

/* Serve the parent from its request to prepare to the end. */
static int serve(holder *h)
{
    msi_writer_message m;
    if (msi_writer_send(h->parent, MSI_WRITER_READY, 0) != 0 || msi_child_receive(h->parent, &m, sizeof m) != 0)
        stop(h, MSI_OK);
    MSI_TRY(prepare_all(h));
    MSI_TRY(fill(h));
    MSI_TRY(sync_all(h));
    for (int i = 0; i < h->shared->n_set; i++)
        MSI_TRY(msi_ms_column_complete(&h->shared->column[i], h->table[i], h->spec));
    for (int i = 0; h->spec->drop_old && i < h->shared->n_set; i++)
        MSI_TRY(msi_ms_column_drop(&h->shared->column[i], h->table[i], h->spec));
    return MSI_OK;
}

_Noreturn void msi_writer_child_run(msi_writer_shared *shared, const msi_child *parent, const char *const *paths,
                                    const msi_ms_write_spec *spec)
{
    holder h = {.shared = shared, .parent = parent, .paths = paths, .spec = spec};
    msi_ms_limit_memory(paths, shared->n_set);
    int status = msi_ms_limit_explain(open_all(&h), paths[0]);
    if (status == MSI_OK) status = serve(&h);
    if (status != MSI_OK) stop(&h, status);
    msi_writer_send(h.parent, MSI_WRITER_FINISHED, 0);
    _exit(0);
}
