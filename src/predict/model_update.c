/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Three kinds of process work here. The main process checks the sets, starts the update process
 * (msi_model_update_start), and waits for it at the end (msi_model_update_run). The update process (serve_update)
 * receives the time steps of each interval and starts a process that predicts them (predict_rows).
 */
#include "src/predict/model_update.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/child.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/ms/ms_paths.h"
#include "io/ms/ms_writer.h"
#include "src/options/suggestion.h"
#include "src/predict/predict.h"
#include "src/run/open_sets.h"
#include "src/sky/model_images.h"

struct msi_model_update {
    msi_model_update_spec spec;
    void (*forked)(void);
    msi_child *child; /* the intervals are in its shared memory */
};

/* The rows that a process predicts. */
typedef struct job {
    const msi_model_update *update;
    int64_t interval;
    const msi_model_interval *rows;
} job;

/* Time within which a process must end after a signal. It may have to remove a column. */
static const int64_t END_MS = 3600000;

static const char HINT[] = "use -no-update-model-required to run without writing a model";

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

/* Start a writer now to detect errors before hours of cleaning. A set that another process is writing is not an error,
 * because that process may end in the meantime. */
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
    MSI_TRY(msi_open_sets_have_columns(
        q->options, "it has no column to write a model to; use -no-update-model-required to run without"));
    /* A missing set is reported when the sets are opened. */
    if (!msi_ms_paths_exist(q->ms_paths, q->n_ms)) return MSI_OK;
    for (int i = 0; i < q->n_ms; i++)
        if (access(q->ms_paths[i], W_OK) != 0)
            return msi_error_set(MSI_EOUTPUT, "%s: cannot write %s: %s; %s", q->ms_paths[i], q->column, strerror(errno),
                                 HINT);
    return check_columns(spec);
}

/* Return 1 if the channel and polarisation of a model are among those of the run. */
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
            rc = msi_error_set(MSI_EINPUT,
                               "%s: this model of another run would be predicted into %s too; move it away, use "
                               "another -name, or use -no-update-model-required",
                               names.list[i].path, spec->predict.column);
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

/* Wait until a process ends. Forward signals to it, and send it SIGTERM if the parent of this process ends.
 * Given: caller  the parent of this process; NULL: none */
static int await_prediction(msi_child *child, const msi_child *caller)
{
    msi_frame f;
    for (int is_sent = 0;;) {
        int got;
        MSI_TRY(msi_child_receive(child, 0, &f, &got));
        if (got < 0) return msi_child_fail(child, MSI_EOUTPUT);
        if (got > 0 && f.kind == MSI_CHILD_DONE) return msi_child_error(&f);
        const int stop = caller && msi_child_is_orphan(caller) ? SIGTERM : msi_interrupt_signal();
        if (stop && !is_sent) is_sent = kill(msi_child_id(child), stop) == 0;
        msi_child_wait_briefly(child);
    }
}

static int predict_rows(msi_child *self, void *of)
{
    const job *j = of;
    (void)self;
    return msi_hint_append(predict_interval(&j->update->spec, j->interval, j->rows, j->update->forked));
}

/* Predict an interval in a separate process, because the next interval forks a writer, and threads and GPU contexts do
 * not survive a fork. */
static int predict_apart(const msi_child *self, job *j)
{
    const msi_child_spec spec = {.type = MSI_CHILD_PROGRAM,
                                 .work = predict_rows,
                                 .of = j,
                                 .what = "the prediction process",
                                 .path = j->update->spec.predict.column};
    msi_child *child;
    MSI_TRY(msi_child_start(&child, &spec));
    const int status = await_prediction(child, self);
    msi_child_stop(child, END_MS);
    msi_child_free(child);
    return status;
}

/* Run the update process: wait for the intervals, and predict them. */
static int serve_update(msi_child *self, void *of)
{
    const msi_model_update *u = of;
    const msi_model_interval *rows = msi_child_shared(self);
    msi_frame begin;
    msi_child_get(self, &begin);
    for (int64_t i = 0; i < u->spec.intervals_out; i++) {
        job j = {u, i, &rows[i]};
        if (!rows[i].is_empty) MSI_TRY(predict_apart(self, &j));
    }
    return MSI_OK;
}

int msi_model_update_start(msi_model_update **out, const msi_model_update_spec *spec, void (*forked)(void))
{
    msi_model_update *u;
    *out = NULL;
    MSI_TRY(check_writable(spec));
    for (int64_t i = 0; i < spec->intervals_out; i++) MSI_TRY(check_models(spec, i));
    MSI_TRY(msi_alloc(&u, 1, sizeof *u, "prediction process"));
    u->spec = *spec;
    u->forked = forked;
    const msi_child_spec process = {.type = MSI_CHILD_PROGRAM,
                                    .work = serve_update,
                                    .of = u,
                                    .what = "the prediction process",
                                    .path = spec->predict.column,
                                    .shared_bytes = spec->intervals_out * (int64_t)sizeof(msi_model_interval)};
    const int status = msi_child_start(&u->child, &process);
    if (status)
        msi_free(u);
    else
        *out = u;
    return status;
}

int msi_model_update_run(msi_model_update *u, const msi_model_interval *interval)
{
    memcpy(msi_child_shared(u->child), interval, (size_t)u->spec.intervals_out * sizeof *interval);
    int status = msi_child_ask(u->child, &(msi_frame){.kind = MSI_CHILD_NEXT});
    if (!status) status = await_prediction(u->child, NULL);
    return status ? msi_error_append(status, "; the images are complete") : MSI_OK;
}

void msi_model_update_free(msi_model_update *u)
{
    if (!u) return;
    msi_child_stop(u->child, END_MS);
    msi_child_free(u->child);
    msi_free(u);
}
