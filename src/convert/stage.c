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

typedef enum message_kind { SAY, WARN, AT, FINISHED } message_kind;

typedef struct message {
    message_kind kind;
    int status; /* FINISHED: the work's; SAY: the level */
    int64_t done, total;
    char text[MSI_MESSAGE_BYTES];
} message;

struct msi_stage {
    const msi_child *parent;
    const char *folder;
    double told_s; /* when the parent heard last how far the work is */
    pid_t beside;  /* a process that writes for this one; 0: none */
};

/* Progress is not shown more often; a message costs both processes some 40 us. */
static const double TELL_S = 0.05;

/* ---- The child's side ---- */

static void send_message(msi_stage *s, const message *m)
{
    if (msi_child_send(s->parent, m, sizeof *m) == 0) return;
    if (s->beside > 0) {
        kill(s->beside, SIGKILL);
        waitpid(s->beside, NULL, 0);
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
    send_text(s, (message){.kind = SAY, .status = (int)level}, format, arguments);
    va_end(arguments);
}

void msi_stage_warn(msi_stage *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    send_text(s, (message){.kind = WARN}, format, arguments);
    va_end(arguments);
}

void msi_stage_at(msi_stage *s, int64_t done, int64_t total)
{
    const message m = {.kind = AT, .done = done, .total = total};
    const double now_s = msi_wall_s();
    if (now_s - s->told_s < TELL_S) return;
    s->told_s = now_s;
    send_message(s, &m);
}

int msi_stage_socket(const msi_stage *s)
{
    return s->parent->socket;
}

void msi_stage_beside(msi_stage *s, pid_t process)
{
    s->beside = process;
}

static _Noreturn void run_child(const msi_child *parent, const msi_stage_spec *spec)
{
    char folder[PATH_MAX];
    /* The work may leave the working folder. */
    msi_stage s = {.parent = parent,
                   .folder = spec->folder && realpath(spec->folder, folder) ? folder : spec->folder,
                   .told_s = msi_wall_s()};
    message m = {.kind = FINISHED};
    msi_child_watch();
    msi_child_progress(MSI_CHILD_STEP_S);
    m.status = spec->work(&s, spec->job);
    if (m.status) snprintf(m.text, sizeof m.text, "%s", msi_error_get());
    send_message(&s, &m);
    _exit(0);
}

/* ---- The parent's ---- */

static int is_full(const char *folder)
{
    enum { LITTLE = 1 << 20 };
    struct statvfs disk;
    return statvfs(folder, &disk) == 0 && disk.f_bavail * disk.f_frsize < LITTLE;
}

/* Why nothing can be written there, as far as text, disk or limit tell; 0 where they do not. casacore loses the reason
 * where it fails a second time as it closes what could not be written. */
static int reason_of(const char *text, const char *folder)
{
    static const int reasons[] = {ENOSPC, EFBIG, EDQUOT, EROFS, EIO};
    struct rlimit limit;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strstr(text, strerror(reasons[i]))) return reasons[i];
    if (is_full(folder)) return ENOSPC;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? EFBIG : 0;
}

/* Tell whether the work met the limit that it has set itself: nobody else limits files. */
static int is_own_limit(const msi_stage_spec *spec, const char *text)
{
    struct rlimit limit;
    return spec->limits_files && strstr(text, strerror(EFBIG)) && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           limit.rlim_cur == RLIM_INFINITY;
}

/* casacore's own writes of what locks a table fail without the reason. */
static int says_unwritten(const char *text)
{
    return strstr(text, "tracePWRITE") || strstr(text, "traceWRITE");
}

/* Record a failure by what the child said. Where it names the workspace, and something keeps that from being written,
 * the output is what failed; an imported set lies there, too, and may be damaged. */
static int fail(const msi_stage_spec *spec, int status, const char *text)
{
    const char *slash = spec->folder ? strrchr(spec->folder, '/') : NULL;
    if (is_own_limit(spec, text))
        return msi_error_set(MSI_EINPUT,
                             "truncated or corrupt: %s: more would be written than a file of its size can become",
                             spec->path);
    const int is_output = status == MSI_EOUTPUT || (slash && strstr(text, slash + 1));
    const int reason = spec->folder && is_output ? reason_of(text, spec->folder) : 0;
    if (reason) return msi_error_set(MSI_EOUTPUT, "%s: %s", spec->out, strerror(reason));
    if (spec->folder && says_unwritten(text))
        return msi_error_set(MSI_EOUTPUT, "%s: cannot be written: a write failed in casacore, for want of space?",
                             spec->out);
    return msi_error_set(status, "%s", text);
}

static int take_end(msi_child *child, const msi_stage_spec *spec)
{
    char text[1024];
    /* One that is not at its end, but says what is no message, would wait for ever for somebody to hear more of it. */
    kill(child->pid, SIGKILL);
    const int by = msi_child_end_text(child, spec->path, "the process that converts", text, sizeof text);
    if (by == SIGKILL) return msi_error_set(MSI_ENOMEM, "%s", text);
    const int writes = spec->folder && (strstr(text, "write") || strstr(text, "Write") || says_unwritten(text) ||
                                        is_full(spec->folder));
    if (writes) return fail(spec, MSI_EOUTPUT, text);
    char input[sizeof text + 32];
    snprintf(input, sizeof input, "truncated or corrupt: %s", text);
    return fail(spec, MSI_EINPUT, input);
}

/* Follow the child to its end. Returned: *is_gone  it has been waited for */
static int follow(msi_child *child, const msi_stage_spec *spec, int *is_gone)
{
    message m;
    for (;;) {
        int got;
        MSI_TRY(msi_child_await(child, 1, &m, sizeof m, &got));
        *is_gone = got < 0;
        if (got < 0) return take_end(child, spec);
        m.text[sizeof m.text - 1] = 0;
        if (m.kind == FINISHED) return m.status ? fail(spec, m.status, m.text) : MSI_OK;
        if (m.kind == AT)
            msi_progress_at(m.done, m.total);
        else if (m.kind == WARN)
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
        status = follow(&child, spec, &is_gone);
        if (!status) msi_progress_end();
    }
    if (child.pid && !is_gone) {
        if (status) kill(child.pid, SIGKILL);
        msi_child_wait(&child);
        /* What it wrote by a process of its own nobody writes any more. */
        msi_child_await_end(&child);
    }
    msi_child_close(&child);
    return status;
}
