/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/convert_stages.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/ms/ms_child.h"
#include "src/convert/workspace.h"

typedef enum message_kind { LOG_LINE, WARNING, PROGRESS, FINISHED } message_kind;

typedef struct message {
    message_kind kind;
    int status; /* FINISHED: the status of the work; LOG_LINE: the level */
    int64_t done, total;
    char text[MSI_MESSAGE_BYTES];
} message;

struct msi_stage {
    const msi_child *parent;
    const char *folder;
    double sent_s; /* time of the last progress message */
    pid_t writer;  /* a process that writes for this one; 0: none */
};

/* Shortest time between progress messages, as progress is not printed more often. A message costs both processes about
 * 40 us. */
static const double PROGRESS_S = 0.05;

/* ---- The child's side ---- */

static void send_message(msi_stage *s, const message *m)
{
    if (msi_child_send(s->parent, m, sizeof *m) == 0) return;
    if (s->writer > 0) {
        kill(s->writer, SIGKILL);
        waitpid(s->writer, NULL, 0);
    }
    if (s->folder) msi_workspace_remove(s->folder);
    _exit(1);
}

__attribute__((format(printf, 3, 0))) static void send_text(msi_stage *s, message m, const char *format,
                                                            va_list arguments)
{
    vsnprintf(m.text, sizeof m.text, format, arguments);
    send_message(s, &m);
}

void msi_stage_log(msi_stage *s, msi_log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    send_text(s, (message){.kind = LOG_LINE, .status = (int)level}, format, arguments);
    va_end(arguments);
}

void msi_stage_warn(msi_stage *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    send_text(s, (message){.kind = WARNING}, format, arguments);
    va_end(arguments);
}

void msi_stage_send_progress(msi_stage *s, int64_t done, int64_t total)
{
    const message m = {.kind = PROGRESS, .done = done, .total = total};
    const double now_s = msi_wall_s();
    if (now_s - s->sent_s < PROGRESS_S) return;
    s->sent_s = now_s;
    send_message(s, &m);
}

int msi_stage_socket(const msi_stage *s)
{
    return s->parent->socket;
}

void msi_stage_set_writer(msi_stage *s, pid_t process)
{
    s->writer = process;
}

static _Noreturn void run_child(const msi_child *parent, const msi_stage_spec *spec)
{
    char folder[PATH_MAX];
    /* Use an absolute path, because the work may change the working directory. */
    msi_stage s = {.parent = parent,
                   .folder = spec->folder && realpath(spec->folder, folder) ? folder : spec->folder,
                   .sent_s = msi_wall_s()};
    message m = {.kind = FINISHED};
    msi_child_watch();
    msi_child_progress(MSI_CHILD_STEP_S);
    m.status = spec->work(&s, spec->job);
    if (m.status) snprintf(m.text, sizeof m.text, "%s", msi_error_get());
    send_message(&s, &m);
    _exit(0);
}

/* ---- The parent's side ---- */

static int is_disk_full(const char *folder)
{
    enum { LITTLE = 1 << 20 };
    struct statvfs disk;
    if (statvfs(folder, &disk) != 0) return 0;
    /* A file system without a fixed number of files has 0 of them. */
    return disk.f_bavail * disk.f_frsize < LITTLE || (disk.f_files > 0 && disk.f_favail == 0);
}

/* Return the errno of a failed write, from the text, the disk or the limit of the file size; 0 if it is unknown.
 * casacore loses the reason when it fails again while it closes the file. */
static int write_error_of(const char *text, const char *folder)
{
    static const int reasons[] = {ENOSPC, EFBIG, EDQUOT, EROFS, EIO};
    struct rlimit limit;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strstr(text, strerror(reasons[i]))) return reasons[i];
    if (is_disk_full(folder)) return ENOSPC;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? EFBIG : 0;
}

/* casacore reports a failed write of a lock file without the reason. */
static int is_casacore_write_error(const char *text)
{
    return strstr(text, "tracePWRITE") || strstr(text, "traceWRITE");
}

/* Set the error from the message of the child. If the message names the workspace, and a reason for a failed write is
 * found, the output failed. */
static int set_failure(const msi_stage_spec *spec, int status, const char *text)
{
    const char *slash = spec->folder ? strrchr(spec->folder, '/') : NULL;
    /* On a full disk casacore also fails later, in a table that was not made. */
    const int is_output = status == MSI_EOUTPUT || (slash && strstr(text, slash + 1)) ||
                          (spec->folder && strstr(text, "Table object is empty"));
    const int reason = spec->folder && is_output ? write_error_of(text, spec->folder) : 0;
    if (reason) return msi_error_set(MSI_EOUTPUT, "%s: %s", spec->out, strerror(reason));
    if (spec->folder && is_casacore_write_error(text))
        return msi_error_set(MSI_EOUTPUT, "%s: cannot be written: a write failed in casacore; the disk may be full",
                             spec->out);
    return msi_error_set(status, "%s", text);
}

static int report_early_end(msi_child *child, const msi_stage_spec *spec)
{
    char text[1024];
    /* A child that sent an invalid message may still wait for the parent. */
    kill(child->pid, SIGKILL);
    const int by = msi_child_end_text(child, spec->path, "the process that converts", text, sizeof text);
    char refused[256];
    if (by == SIGKILL || msi_child_refused(child, refused, sizeof refused))
        return msi_error_set(MSI_ENOMEM, "%s", text);
    const int writes = spec->folder && (strstr(text, "write") || strstr(text, "Write") ||
                                        is_casacore_write_error(text) || is_disk_full(spec->folder));
    if (writes) return set_failure(spec, MSI_EOUTPUT, text);
    char input[sizeof text + 32];
    snprintf(input, sizeof input, "truncated or corrupt: %s", text);
    return set_failure(spec, MSI_EINPUT, input);
}

/* Receive messages until the child ends. Returned: *is_gone  the child has ended, and was waited for */
static int receive_messages(msi_child *child, const msi_stage_spec *spec, int *is_gone)
{
    message m;
    for (;;) {
        int got;
        MSI_TRY(msi_child_await(child, 1, &m, sizeof m, &got));
        *is_gone = got < 0;
        if (got < 0) return report_early_end(child, spec);
        m.text[sizeof m.text - 1] = 0;
        if (m.kind == FINISHED) return m.status ? set_failure(spec, m.status, m.text) : MSI_OK;
        if (m.kind == PROGRESS)
            msi_progress_at(m.done, m.total);
        else if (m.kind == WARNING)
            msi_log_warning("%s", m.text);
        else if (m.status == MSI_LOG_VERBOSE)
            msi_log_detail("%s", m.text);
        else
            msi_log_info("%s", m.text);
    }
}

int msi_stage_run(const msi_stage_spec *spec)
{
    msi_child child;
    int is_child, is_gone = 0;
    fflush(stdout);
    int status = msi_child_fork(&child, "to convert with", &is_child);
    if (is_child) run_child(&child, spec);
    if (!status) {
        msi_progress_begin(spec->name);
        status = receive_messages(&child, spec, &is_gone);
        if (!status) msi_progress_end();
    }
    if (child.pid && !is_gone) {
        if (status) kill(child.pid, SIGKILL);
        msi_child_wait(&child);
        /* Wait for the processes of the child, so that they do not write any more. */
        msi_child_await_end(&child);
    }
    msi_child_close(&child);
    return status;
}
