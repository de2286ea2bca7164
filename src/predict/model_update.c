/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Three kinds of process work here. The main process checks the sets, forks the update process
 * (msi_model_update_start), and waits for it at the end (msi_model_update_run). The update process (serve_update)
 * receives the time steps of each interval and forks a process that predicts them (predict_apart). Each sends one
 * answer back.
 */
#include "src/predict/model_update.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/ms/ms_paths.h"
#include "io/ms/ms_writer.h"
#include "src/options/hints.h"
#include "src/predict/predict.h"
#include "src/run/open_sets.h"
#include "src/sky/model_images.h"

struct msi_model_update {
    msi_model_update_spec spec;
    pid_t process;
    int socket;
};

/* The result of a process, which it sends at its end. */
typedef struct answer {
    int status;
    char message[MSI_MESSAGE_BYTES];
} answer;

static const char HINT[] = "use -no-update-model-required to run without writing MODEL_DATA";

/* Refuse columns that an earlier run left incomplete with another selection. */
static int check_marks(const msi_ms_writer *writer, const msi_predict_request *q, const char *selection)
{
    for (int i = 0; i < q->n_ms && !q->force; i++) {
        const char *text, *earlier;
        if (msi_ms_writer_marked(writer, i, &text, &earlier) && strcmp(earlier, selection) != 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s: an earlier run was stopped while it wrote (%s); complete it first, with its "
                                 "selection (%s)",
                                 q->ms_paths[i], text, earlier);
    }
    return MSI_OK;
}

/* Start a writer before hours of cleaning to get the errors that it would give afterwards. A set that another process
 * is writing is not an error: that process may have ended by then. */
static int check_columns(const msi_model_update_spec *spec)
{
    const msi_predict_request *q = &spec->predict;
    char selection[MSI_MS_MAX_SELECTION];
    msi_ms_writer *writer;
    msi_options_selection_words(&q->selection, selection, sizeof selection);
    const msi_ms_write_spec write = {q->column, q->op, NULL, "", selection, 0};
    int rc = msi_ms_writer_start(&writer, q->ms_paths, q->n_ms, &write);
    /* Each interval is a separate selection. */
    if (!rc && spec->intervals_out == 1) rc = check_marks(writer, q, selection);
    msi_ms_writer_free(writer);
    if (rc == MSI_EINPUT || rc == MSI_EOUTPUT) return msi_error_append(rc, "; %s", HINT);
    return rc == MSI_ELOCKED ? MSI_OK : rc;
}

static int check_writable(const msi_model_update_spec *spec)
{
    const msi_predict_request *q = &spec->predict;
    MSI_TRY(msi_open_sets_have_columns(q->options,
                                       "it has no MODEL_DATA to write; use -no-update-model-required to run without"));
    /* A missing set is reported when the sets are opened. */
    if (!msi_ms_paths_exist(q->ms_paths, q->n_ms)) return MSI_OK;
    for (int i = 0; i < q->n_ms; i++)
        if (access(q->ms_paths[i], W_OK) != 0)
            return msi_error_set(MSI_EOUTPUT, "%s: cannot write MODEL_DATA: %s; %s", q->ms_paths[i], strerror(errno),
                                 HINT);
    return check_columns(spec);
}

/* Return 1 if a model has a channel and polarisation of the run. */
static int is_of_run(const msi_model_name *m, const msi_model_update_spec *spec)
{
    if (m->is_term != (spec->n_term > 0) || (m->is_term && m->number >= spec->n_term)) return 0;
    const int64_t most = m->is_term               ? spec->n_term - 1
                         : spec->channels_out > 1 ? spec->channels_out - 1
                                                  : MSI_MODEL_NO_CHANNEL;
    if (m->number > most || (m->number < 0) != (spec->channels_out < 2 && !m->is_term)) return 0;
    if (spec->n_plane == 1) return !m->pol;
    for (int p = 0; p < spec->n_plane; p++)
        if (spec->planes[p].pol == m->pol && spec->planes[p].imaginary == m->imaginary) return 1;
    return 0;
}

/* Make the prefix of the names of the models of an interval, NAME[-tNNNN]. */
static int name_interval(char **name, const msi_model_update_spec *spec, int64_t interval)
{
    const size_t size = strlen(spec->predict.name) + 32;
    MSI_TRY(msi_alloc(name, (int64_t)size, 1, "name of models"));
    if (spec->intervals_out > 1)
        snprintf(*name, size, "%s-t%04lld", spec->predict.name, (long long)interval);
    else
        snprintf(*name, size, "%s", spec->predict.name);
    return MSI_OK;
}

/* Refuse a model of another run. The models of the run are found by their names, so it would be predicted too. */
static int check_models(const msi_model_update_spec *spec, int64_t interval)
{
    msi_model_names names;
    char *name;
    MSI_TRY(name_interval(&name, spec, interval));
    int rc = msi_model_names_list(&names, name, spec->predict.gains || spec->predict.beam);
    msi_free(name);
    if (rc) return rc;
    for (int64_t i = 0; !rc && i < names.n; i++)
        if (names.list[i].number != MSI_MODEL_MFS && !is_of_run(&names.list[i], spec))
            rc =
                msi_error_set(MSI_EINPUT,
                              "%s: this model of another run would be predicted into MODEL_DATA too; move it away, use "
                              "another -name, or use -no-update-model-required",
                              names.list[i].path);
    msi_model_names_free(&names);
    return rc;
}

/* ---- The processes ---- */

/* Predict the models of an interval into its rows. */
static int predict_interval(const msi_model_update_spec *spec, int64_t interval, const msi_model_interval *rows,
                            void (*forked)(void))
{
    msi_predict_request q = spec->predict;
    char *name;
    MSI_TRY(name_interval(&name, spec, interval));
    q.name = name;
    if (spec->intervals_out > 1) {
        q.selection.interval_begin = rows->begin;
        q.selection.interval_end = rows->end;
    }
    const int rc = msi_run_predict_request(&q, NULL, forked);
    msi_free(name);
    return rc;
}

/* Read n bytes. Returns: 0 if there are fewer */
static int read_all(int from, void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t got = read(from, (char *)to + done, n - done);
        if (got == 0 || (got < 0 && errno != EINTR)) return 0;
        if (got > 0) done += (size_t)got;
    }
    return 1;
}

static int write_all(int to, const void *from, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t put = write(to, (const char *)from + done, n - done);
        if (put < 0 && errno != EINTR) return 0;
        if (put > 0) done += (size_t)put;
    }
    return 1;
}

/* Wait for the answer of a process. A signal to this process is sent on to it, and so is SIGTERM if the caller ends.
 * Given: caller  a socket to the process that waits for this one; -1: none. Returns: 0 if there is no answer */
static int await_answer(int from, int caller, pid_t process, answer *a)
{
    enum { POLL_MS = 100 };
    struct pollfd ends[] = {{.fd = from, .events = POLLIN}, {.fd = caller}};
    for (int is_sent = 0;;) {
        const int n = poll(ends, caller < 0 ? 1 : 2, POLL_MS);
        const int stop = ends[1].revents & (POLLHUP | POLLERR) ? SIGTERM : msi_interrupt_signal();
        if (stop && !is_sent) is_sent = kill(process, stop) == 0;
        /* The closed socket of a caller that has ended would make every poll return at once. */
        if (is_sent) ends[1].fd = -1;
        if (n > 0 && ends[0].revents) return read_all(from, a, sizeof *a);
    }
}

/* Predict an interval in a separate process: threads and a GPU context do not survive the fork of the next writer. */
static int predict_apart(int caller, const msi_model_update_spec *spec, int64_t interval,
                         const msi_model_interval *rows, void (*forked)(void))
{
    static answer a;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return msi_error_set(MSI_ENOMEM, "cannot create a pipe to the process that predicts");
    const pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        close(caller);
        a.status = msi_hint_append(predict_interval(spec, interval, rows, forked));
        snprintf(a.message, sizeof a.message, "%s", a.status ? msi_error_get() : "");
        write_all(ends[1], &a, sizeof a);
        _exit(0);
    }
    close(ends[1]);
    const int answered = process > 0 && await_answer(ends[0], caller, process, &a);
    close(ends[0]);
    if (process < 0) return msi_error_set(MSI_ENOMEM, "cannot start the process that predicts: %s", strerror(errno));
    while (waitpid(process, NULL, 0) < 0 && errno == EINTR) {
    }
    if (!answered) return msi_error_set(MSI_EOUTPUT, "MODEL_DATA: the process that predicts ended unexpectedly");
    return a.status ? msi_error_set(a.status, "%s", a.message) : MSI_OK;
}

/* Run the update process: receive the intervals, predict them, send the answer. Ends if the main process ends. */
static void serve_update(int caller, const msi_model_update_spec *spec, void (*forked)(void))
{
    static answer a;
    for (int64_t i = 0; i < spec->intervals_out; i++) {
        msi_model_interval rows;
        if (!read_all(caller, &rows, sizeof rows)) _exit(0);
        if (!a.status && !rows.is_empty) a.status = predict_apart(caller, spec, i, &rows, forked);
    }
    snprintf(a.message, sizeof a.message, "%s", a.status ? msi_error_get() : "");
    write_all(caller, &a, sizeof a);
    _exit(0);
}

int msi_model_update_start(msi_model_update **out, const msi_model_update_spec *spec, void (*forked)(void))
{
    int ends[2];
    msi_model_update *u;
    *out = NULL;
    MSI_TRY(check_writable(spec));
    for (int64_t i = 0; i < spec->intervals_out; i++) MSI_TRY(check_models(spec, i));
    MSI_TRY(msi_alloc(&u, 1, sizeof *u, "process that predicts"));
    u->spec = *spec;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        msi_free(u);
        return msi_error_set(MSI_ENOMEM, "cannot create a socket to the process that predicts: %s", strerror(errno));
    }
    u->process = fork();
    if (u->process == 0) {
        close(ends[0]);
        serve_update(ends[1], spec, forked);
    }
    close(ends[1]);
    u->socket = ends[0];
    if (u->process < 0) {
        const int why = errno;
        close(u->socket);
        msi_free(u);
        return msi_error_set(MSI_ENOMEM, "cannot start the process that predicts: %s", strerror(why));
    }
    *out = u;
    return MSI_OK;
}

int msi_model_update_run(msi_model_update *u, const msi_model_interval *interval)
{
    static answer a;
    static const char ended[] = "MODEL_DATA: the process that predicts ended unexpectedly; the images are complete";
    write_all(u->socket, interval, (size_t)u->spec.intervals_out * sizeof *interval);
    if (!await_answer(u->socket, -1, u->process, &a)) return msi_error_set(MSI_EOUTPUT, ended);
    if (!a.status) return MSI_OK;
    return msi_error_set(a.status, "%s; the images are complete", a.message);
}

void msi_model_update_free(msi_model_update *u)
{
    if (!u) return;
    close(u->socket);
    while (waitpid(u->process, NULL, 0) < 0 && errno == EINTR) {
    }
    msi_free(u);
}
