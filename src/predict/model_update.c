/* SPDX-License-Identifier: GPL-3.0-or-later */
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

#include "core/process.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_paths.h"
#include "io/ms/ms_writer.h"
#include "src/sky/model_images.h"
#include "src/options/hints.h"
#include "src/options/options.h"
#include "src/run/open_sets.h"
#include "src/predict/predict.h"

struct msi_model_update {
    const msi_options *options;
    pid_t process;
    int socket;
};

/* The process ends with one answer. */
typedef struct answer {
    int status;
    char message[MSI_MESSAGE_BYTES];
} answer;

static const char LEAVES_IT_OUT[] = "-no-update-model-required leaves MODEL_DATA out";

/* Columns that an earlier run left incomplete are completed with its selection alone. */
static int check_marks(const msi_ms_writer *writer, const msi_options *o, const char *selection)
{
    for (int i = 0; i < o->n_ms && !o->force; i++) {
        const char *text, *earlier;
        if (msi_ms_writer_marked(writer, i, &text, &earlier) && strcmp(earlier, selection) != 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s: an earlier run was stopped while it wrote (%s): complete that first, with its "
                                 "selection (%s)",
                                 o->ms_paths[i], text, earlier);
    }
    return MSI_OK;
}

/* Ask a writer, before hours of cleaning, what it would refuse after them. One that meets another at work on a set does
 * not tell: that may have ended by then. */
static int check_columns(const msi_options *o)
{
    char selection[MSI_MS_MAX_SELECTION];
    msi_ms_writer *writer;
    msi_selection_words(&o->selection, selection, sizeof selection);
    const msi_ms_write_spec spec = {"MODEL_DATA", MSI_MS_WRITE_REPLACE, NULL, "", selection, 0};
    int rc = msi_ms_writer_start(&writer, o->ms_paths, o->n_ms, &spec);
    /* Each interval is a selection of its own. */
    if (!rc && o->intervals_out == 1) rc = check_marks(writer, o, selection);
    msi_ms_writer_free(writer);
    if (rc == MSI_EINPUT || rc == MSI_EOUTPUT) return msi_error_append(rc, "; %s", LEAVES_IT_OUT);
    return rc == MSI_ELOCKED ? MSI_OK : rc;
}

static int check_writable(const msi_options *o)
{
    MSI_TRY(
        msi_open_sets_have_columns(o, "it has no MODEL_DATA to be written; -no-update-model-required leaves that out"));
    /* A set that is not there is for those to tell of who open it. */
    if (!msi_ms_paths_exist(o->ms_paths, o->n_ms)) return MSI_OK;
    for (int i = 0; i < o->n_ms; i++)
        if (access(o->ms_paths[i], W_OK) != 0)
            return msi_error_set(MSI_EOUTPUT, "%s: MODEL_DATA cannot be written there: %s; %s", o->ms_paths[i],
                                 strerror(errno), LEAVES_IT_OUT);
    return check_columns(o);
}

static int is_of_run(const msi_model_name *m, const msi_options *o, const msi_plane *planes, int n_plane)
{
    const int64_t most = o->channels_out > 1 ? o->channels_out - 1 : MSI_MODEL_NO_CHANNEL;
    if (m->number > most || (m->number < 0) != (o->channels_out < 2)) return 0;
    if (n_plane == 1) return !m->pol;
    for (int p = 0; p < n_plane; p++)
        if (planes[p].pol == m->pol) return 1;
    return 0;
}

/* NAME[-tNNNN], which the names of an interval's models begin with. */
static int name_interval(char **name, const msi_options *o, int64_t interval)
{
    const size_t size = strlen(o->name) + 32;
    MSI_TRY(msi_alloc(name, (int64_t)size, 1, "name of models"));
    if (o->intervals_out > 1)
        snprintf(*name, size, "%s-t%04lld", o->name, (long long)interval);
    else
        snprintf(*name, size, "%s", o->name);
    return MSI_OK;
}

/* The models of the run are found by their names: one of another run among them would be predicted, too. */
static int check_models(const msi_options *o, int64_t interval)
{
    msi_plane planes[MSI_MAX_PLANES];
    const int n_plane = msi_planes_of(o->pol, o->n_pol, planes);
    msi_model_names names;
    char *name;
    MSI_TRY(name_interval(&name, o, interval));
    int rc = msi_model_names_list(&names, name);
    msi_free(name);
    if (rc) return rc;
    for (int64_t i = 0; !rc && i < names.n; i++)
        if (names.list[i].number != MSI_MODEL_MFS && !is_of_run(&names.list[i], o, planes, n_plane))
            rc = msi_error_set(MSI_EINPUT,
                               "%s: a model of another run, which MODEL_DATA would be made of, too: move it away, give "
                               "another -name, or -no-update-model-required",
                               names.list[i].path);
    msi_model_names_free(&names);
    return rc;
}

/* ---- The process ---- */

/* Predict the models of an interval into its rows. */
static int predict(const msi_options *o, int64_t interval, const msi_model_interval *rows, void (*forked)(void))
{
    msi_options p = *o;
    char *name;
    MSI_TRY(name_interval(&name, o, interval));
    p.predict = 1;
    p.predict_op = MSI_MS_WRITE_REPLACE;
    p.model_column = "MODEL_DATA";
    p.output_column = NULL;
    p.model_interpolation = MSI_MODEL_NEAREST;
    p.name = name;
    if (o->intervals_out > 1) {
        p.selection.interval_begin = rows->begin;
        p.selection.interval_end = rows->end;
    }
    const int rc = msi_run_predict(&p, NULL, forked);
    msi_free(name);
    return rc;
}

/* Read n bytes. Return 0 where they end before. */
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

/* Wait for an answer. A signal that this process alone was sent is the other's, too, and so is the caller's end. */
static int await_answer(int from, int caller, pid_t process, answer *a)
{
    enum { LOOK_MS = 100 };
    struct pollfd look[] = {{.fd = from, .events = POLLIN}, {.fd = caller}};
    for (int is_sent = 0;;) {
        const int n = poll(look, caller < 0 ? 1 : 2, LOOK_MS);
        const int stop = look[1].revents & (POLLHUP | POLLERR) ? SIGTERM : msi_interrupt_signal();
        if (stop && !is_sent) is_sent = kill(process, stop) == 0;
        /* A caller that is gone would end every wait at once. */
        if (is_sent) look[1].fd = -1;
        if (n > 0 && look[0].revents) return read_all(from, a, sizeof *a);
    }
}

/* A process for each interval: threads and a GPU that one has started do not survive the fork of the next writer. */
static int predict_apart(int caller, const msi_options *o, int64_t interval, const msi_model_interval *rows,
                         void (*forked)(void))
{
    static answer a;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return msi_error_set(MSI_ENOMEM, "no pipe to a process that predicts");
    const pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        close(caller);
        a.status = msi_remedy_append(predict(o, interval, rows, forked));
        snprintf(a.message, sizeof a.message, "%s", a.status ? msi_error_get() : "");
        write_all(ends[1], &a, sizeof a);
        _exit(0);
    }
    close(ends[1]);
    const int answered = process > 0 && await_answer(ends[0], caller, process, &a);
    close(ends[0]);
    if (process < 0) return msi_error_set(MSI_ENOMEM, "no process to predict with: %s", strerror(errno));
    while (waitpid(process, NULL, 0) < 0 && errno == EINTR) {
    }
    if (!answered) return msi_error_set(MSI_EOUTPUT, "MODEL_DATA: the process that predicts has ended");
    return a.status ? msi_error_set(a.status, "%s", a.message) : MSI_OK;
}

/* The process waits for the intervals, predicts, answers. The other side's end is its end. */
static void serve(int caller, const msi_options *o, void (*forked)(void))
{
    static answer a;
    for (int64_t i = 0; i < o->intervals_out; i++) {
        msi_model_interval rows;
        if (!read_all(caller, &rows, sizeof rows)) _exit(0);
        if (!a.status && !rows.is_empty) a.status = predict_apart(caller, o, i, &rows, forked);
    }
    snprintf(a.message, sizeof a.message, "%s", a.status ? msi_error_get() : "");
    write_all(caller, &a, sizeof a);
    _exit(0);
}

int msi_model_update_start(msi_model_update **out, const msi_options *o, void (*forked)(void))
{
    int ends[2];
    msi_model_update *u;
    *out = NULL;
    MSI_TRY(check_writable(o));
    for (int64_t i = 0; i < o->intervals_out; i++) MSI_TRY(check_models(o, i));
    MSI_TRY(msi_alloc(&u, 1, sizeof *u, "process that predicts"));
    u->options = o;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        msi_free(u);
        return msi_error_set(MSI_ENOMEM, "no socket to a process that predicts: %s", strerror(errno));
    }
    u->process = fork();
    if (u->process == 0) {
        close(ends[0]);
        serve(ends[1], o, forked);
    }
    close(ends[1]);
    u->socket = ends[0];
    if (u->process < 0) {
        const int why = errno;
        close(u->socket);
        msi_free(u);
        return msi_error_set(MSI_ENOMEM, "no process to predict with: %s", strerror(why));
    }
    *out = u;
    return MSI_OK;
}

int msi_model_update_run(msi_model_update *u, const msi_model_interval *interval)
{
    static answer a;
    static const char ended[] = "MODEL_DATA: the process that predicts has ended; the images are complete";
    write_all(u->socket, interval, (size_t)u->options->intervals_out * sizeof *interval);
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
