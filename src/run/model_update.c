/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/model_update.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/interrupt.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/model/model_names.h"
#include "src/options/remedy.h"
#include "src/run/predict.h"

struct msi_model_update {
    pid_t process;
    int socket;
};

/* What the process answers. */
typedef struct answer {
    int status;
    char message[MSI_MESSAGE_BYTES];
} answer;

static int check_writable(const msi_options *o)
{
    for (int i = 0; i < o->n_ms; i++)
        if (access(o->ms_paths[i], W_OK) != 0)
            return msi_error_set(MSI_EOUTPUT,
                                 "%s: MODEL_DATA cannot be written there: %s; -no-update-model-required "
                                 "leaves it out",
                                 o->ms_paths[i], strerror(errno));
    return MSI_OK;
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

/* The models of the run are found by their names: one of another run among them would be predicted, too. */
static int check_models(const msi_options *o)
{
    msi_plane planes[MSI_MAX_PLANES];
    const int n_plane = msi_planes_of(o->pol, o->n_pol, planes);
    msi_model_names names;
    int rc = MSI_OK;
    MSI_TRY(msi_model_names_list(&names, o->name));
    for (int64_t i = 0; !rc && i < names.n; i++)
        if (names.list[i].number != MSI_MODEL_MFS && !is_of_run(&names.list[i], o, planes, n_plane))
            rc = msi_error_set(MSI_EINPUT,
                               "%s: a model of another run, which MODEL_DATA would be made of, too: move it away, give "
                               "another -name, or -no-update-model-required",
                               names.list[i].path);
    msi_model_names_free(&names);
    return rc;
}

/* Predicts the models of the run into what it was made of. */
static int predict(const msi_options *o, void (*forked)(void))
{
    msi_options p = *o;
    p.predict = 1;
    p.predict_op = MSI_MS_WRITE_REPLACE;
    p.model_column = "MODEL_DATA";
    p.output_column = NULL;
    p.model_interpolation = MSI_MODEL_NEAREST;
    return msi_run_predict(&p, forked);
}

/* The process: waits for a byte, predicts, answers. The other side's end is its end. */
static void serve(int socket, const msi_options *o, void (*forked)(void))
{
    static answer a;
    char go;
    ssize_t n;
    do n = read(socket, &go, 1);
    while (n < 0 && errno == EINTR);
    if (n != 1) _exit(0);
    a.status = msi_remedy_append(predict(o, forked));
    snprintf(a.message, sizeof a.message, "%s", a.status ? msi_error_get() : "");
    for (size_t done = 0; done < sizeof a;) {
        n = write(socket, (const char *)&a + done, sizeof a - done);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) done += (size_t)n;
    }
    _exit(0);
}

int msi_model_update_start(msi_model_update **out, const msi_options *o, void (*forked)(void))
{
    int ends[2];
    msi_model_update *u;
    *out = NULL;
    MSI_TRY(check_writable(o));
    MSI_TRY(check_models(o));
    MSI_TRY(msi_alloc(&u, 1, sizeof *u, "process that predicts"));
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

int msi_model_update_run(msi_model_update *u)
{
    static answer a;
    size_t done = 0;
    int told = 0;
    if (write(u->socket, "g", 1) != 1) return msi_error_set(MSI_EOUTPUT, "the process that predicts has ended");
    while (done < sizeof a) {
        const ssize_t n = read(u->socket, (char *)&a + done, sizeof a - done);
        if (n == 0)
            return msi_error_set(MSI_EOUTPUT, "MODEL_DATA: the process that predicts has ended; the images are "
                                              "complete");
        if (n > 0) done += (size_t)n;
        /* A signal that this process alone was sent is the other's, too. */
        if (n < 0 && msi_interrupt_signal() && !told) told = kill(u->process, SIGTERM) == 0;
        if (n < 0 && errno != EINTR)
            return msi_error_set(MSI_EOUTPUT, "the process that predicts: %s", strerror(errno));
    }
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
