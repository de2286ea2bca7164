/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_apart.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"
#include "core/process.h"
#include "core/status.h"

/* A picture takes a fraction of a second, of huge images some seconds. */
enum { MOST_CPU_S = 120, MOST_WALL_S = 900, LOOK_MS = 2 };

/* The process leaves this in memory that it shares with its parent. */
typedef struct answer {
    int is_there, status;
    char message[MSI_MESSAGE_BYTES];
} answer;

static atomic_int is_never_apart;

void msi_picture_never_apart(void)
{
    is_never_apart = 1;
}

/* Only the parent decides when to stop. */
static _Noreturn void draw_and_end(msi_publish *p, int i, msi_picture_paint paint, const void *of, answer *a)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
    const struct itimerval until = {.it_value = {.tv_sec = MOST_CPU_S}};
    const struct rlimit none = {0, 0};
    for (size_t k = 0; k < sizeof ignored / sizeof *ignored; k++) signal(ignored[k], SIG_IGN);
    setrlimit(RLIMIT_CORE, &none);
    setitimer(ITIMER_PROF, &until, NULL);
    a->status = paint(p, i, of);
    snprintf(a->message, sizeof a->message, "%s", a->status ? msi_error_get() : "");
    a->is_there = 1;
    _exit(0);
}

/* Wait for the process's end. If it does not come, or this program is to stop, kill the process. */
static int await_end(pid_t process, int *wait_status)
{
    const struct timespec look = {0, LOOK_MS * 1000000L};
    int rc = MSI_OK;
    *wait_status = 0;
    for (int64_t ms = 0; !rc && ms < MOST_WALL_S * (int64_t)1000; ms += LOOK_MS) {
        const pid_t ended = waitpid(process, wait_status, WNOHANG);
        if (ended == process || (ended < 0 && errno != EINTR)) return MSI_OK;
        nanosleep(&look, NULL);
        rc = msi_interrupt_check();
    }
    kill(process, SIGKILL);
    while (waitpid(process, wait_status, 0) < 0 && errno == EINTR) continue;
    return rc;
}

static int judge(const msi_publish *p, int i, const answer *a, int wait_status)
{
    if (a->is_there) return a->status ? msi_error_set(a->status, "%s", a->message) : MSI_OK;
    if (!WIFSIGNALED(wait_status))
        return msi_error_set(MSI_ENOMEM, "%s: the process that draws it has ended", msi_publish_name(p, i));
    return msi_error_set(MSI_ENOMEM,
                         "%s: the process that draws it was ended by signal %d (%s), perhaps for lack of memory",
                         msi_publish_name(p, i), WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
}

static int draw(msi_publish *p, int i, msi_picture_paint paint, const void *of)
{
    answer *a =
        is_never_apart ? MAP_FAILED : mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED) return paint(p, i, of);
    const pid_t self = getpid(), process = fork();
    int wait_status, rc;
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) _exit(1);
        draw_and_end(p, i, paint, of, a);
    }
    if (process < 0)
        rc = paint(p, i, of);
    else if (!(rc = await_end(process, &wait_status)))
        rc = judge(p, i, a, wait_status);
    munmap(a, sizeof *a);
    return rc;
}

int msi_picture_apart(msi_publish *p, int i, msi_picture_paint paint, const void *of)
{
    int fd;
    MSI_TRY(msi_publish_begin(p, i, &fd));
    const int rc = draw(p, i, paint, of);
    if (rc == MSI_ENOMEM) return msi_error_about(rc, "picture");
    return rc ? rc : msi_publish_seal(p, i);
}

int msi_picture_spare(msi_publish *p, int i, int status)
{
    if (status != MSI_ENOMEM || strcmp(msi_error_about_get(), "picture") != 0) return status;
    const char *name = msi_publish_name(p, i), *why = msi_error_get();
    const size_t n = strlen(name);
    if (strncmp(why, name, n) == 0 && strncmp(why + n, ": ", 2) == 0) why += n + 2;
    msi_log_warning("%s: %s; this picture is not made, and no other file needs it", name, why);
    msi_publish_drop(p, i);
    return MSI_OK;
}
