/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"

enum {
    LOOK_MS = 200,         /* interval between checks of the signal flag while waiting */
    REFUSED_TRIES = 100,   /* attempts to send a frame that the system refuses, for example for lack of buffers */
    REFUSED_PAUSE_MS = 10, /* .. and their interval */
    /* a child that should end is killed after this time, since closing files on a slow disk takes seconds */
    END_MS = 30000,
    END_PAUSE_MS = 2,
    EXIT_REFUSED = 75, /* exit code of a child to which the system refused a frame */
    MOST_DEPTH = 4     /* depth of children that have children */
};

static const rlim_t LITTLE_SPACE = 512 << 20; /* in bytes; a reader process needs about 100 MB */

struct msi_child {
    msi_child_spec spec;
    pid_t id;                 /* 0 in the child itself, and after its end */
    int socket, output_fd;    /* output_fd: a file in memory that gets the output of the child's libraries */
    int is_child, is_garbled; /* is_garbled: the other process sent something that is no frame */
    void *shared;
    double started_s;
};

/* If this process is a child: its own data; and the sockets of this process and its parents, which children inherit. */
static msi_child *self_of_process;
static int own_socket[MOST_DEPTH], n_own;
static int is_watched;

static void pause_ms(int ms)
{
    const struct timespec pause = {0, ms * 1000000L};
    nanosleep(&pause, NULL);
}

/* ---- Start ---- */

static int is_own(int fd)
{
    for (int i = 0; i < n_own; i++)
        if (own_socket[i] == fd) return 1;
    return 0;
}

/* Close the descriptors of the parent. */
static void close_others(const msi_child *c)
{
    DIR *d = opendir("/proc/self/fd");
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d));) {
        const int fd = atoi(e->d_name);
        const int is_kept = is_own(fd) || fd == c->output_fd || fd == dirfd(d);
        if (fd > STDERR_FILENO && !is_kept) close(fd);
    }
    closedir(d);
}

/* Ignore signals, because the parent decides when to stop. Redirect the output of libraries to a file. */
static void set_up_worker(const msi_child *c)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGXFSZ};
    static const int by_default[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGXCPU, SIGCHLD};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    sigprocmask(SIG_SETMASK, &action.sa_mask, NULL);
    action.sa_handler = SIG_IGN;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) sigaction(ignored[i], &action, NULL);
    action.sa_handler = SIG_DFL;
    for (size_t i = 0; i < sizeof by_default / sizeof *by_default; i++) sigaction(by_default[i], &action, NULL);
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) dup2(null, STDIN_FILENO);
    if (null >= 0) dup2(null, STDOUT_FILENO);
    dup2(c->output_fd, STDERR_FILENO);
    if (!c->spec.keeps_files) close_others(c);
}

/* Send a line of the log to the parent. If the parent has ended, exit. */
static void report_line(void *of, msi_log_level level, const char *line)
{
    msi_frame f = {.kind = MSI_CHILD_LOG, .number = (int64_t)level};
    snprintf(f.text, sizeof f.text, "%s", line);
    f.n_byte = (int64_t)strlen(f.text);
    if (msi_child_send(of, &f) != 0) _exit(0);
}

static void ignore_line(void *of, msi_log_level level, const char *line)
{
    (void)of;
    (void)level;
    (void)line;
}

/* Shortest time between frames of progress, since it is not shown more often. A frame costs both processes about 40
 * us. */
static const double PROGRESS_S = 0.05;

static void report_progress(void *of, const char *stage, double fraction)
{
    enum { TOTAL = 1000000 };
    static double sent_s;
    const double now_s = msi_wall_s();
    (void)stage;
    if (now_s - sent_s < PROGRESS_S) return;
    sent_s = now_s;
    msi_child_tell(of, MSI_CHILD_PROGRESS, (int64_t)(TOTAL * fraction), TOTAL);
}

static _Noreturn void leave(const msi_child *c, int status)
{
    msi_frame done = {.kind = MSI_CHILD_DONE, .status = status};
    if (status) msi_child_put_error(&done);
    _exit(msi_child_send(c, &done) < 0 ? EXIT_REFUSED : 0);
}

static _Noreturn void run_child(msi_child *c, pid_t parent)
{
    c->is_child = 1;
    self_of_process = c;
    if (n_own < MOST_DEPTH) own_socket[n_own++] = c->socket;
    is_watched = c->spec.cpu_s > 0;
    if (c->spec.type == MSI_CHILD_WORKER) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0);
    }
    if (c->spec.type != MSI_CHILD_PROGRAM) set_up_worker(c);
    if (c->spec.type != MSI_CHILD_PROGRAM) {
        msi_log_listen(c->spec.reports ? report_line : ignore_line, c);
        if (c->spec.reports)
            msi_progress_thread_begin(report_progress, c);
        else
            msi_progress_thread_end(); /* ends the forked process */
    }
    msi_child_progress(c->spec.cpu_s);
    leave(c, c->spec.work(c, c->spec.of));
}

static int map_shared(msi_child *c)
{
    if (c->spec.shared_bytes <= 0) return MSI_OK;
    void *p = mmap(NULL, (size_t)c->spec.shared_bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return msi_error_set(MSI_ENOMEM, "cannot map memory shared with %s: %s", c->spec.what, strerror(errno));
    c->shared = p;
    return MSI_OK;
}

static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER;

static int fork_child(msi_child *c)
{
    int ends[2];
    c->output_fd = memfd_create("msimage", MFD_CLOEXEC);
    if (c->output_fd < 0) return msi_error_set(MSI_ENOMEM, "cannot create a file in memory: %s", strerror(errno));
    fflush(stdout);
    /* Without the lock, a child that another thread forks meanwhile would inherit this child's end of the socket, and
     * the end of this child would not be noticed. */
    pthread_mutex_lock(&forking);
    const int has_ends = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0;
    if (!has_ends) {
        const int why = errno;
        pthread_mutex_unlock(&forking);
        return msi_error_set(MSI_ENOMEM, "cannot create a socket to %s: %s", c->spec.what, strerror(why));
    }
    const pid_t self = getpid(), pid = fork();
    const int why = errno;
    c->socket = ends[pid == 0];
    close(ends[pid != 0]);
    pthread_mutex_unlock(&forking);
    if (pid < 0) return msi_error_set(MSI_ENOMEM, "cannot start %s: %s", c->spec.what, strerror(why));
    if (pid == 0) run_child(c, self);
    c->id = pid;
    return MSI_OK;
}

int msi_child_start(msi_child **out, const msi_child_spec *spec)
{
    msi_child *c;
    *out = NULL;
    MSI_TRY(msi_alloc(&c, 1, sizeof *c, "a process"));
    *c = (msi_child){.spec = *spec, .socket = -1, .output_fd = -1, .started_s = msi_wall_s()};
    int status = map_shared(c);
    if (!status) status = fork_child(c);
    if (status)
        msi_child_free(c);
    else
        *out = c;
    return status;
}

int msi_child_run(const msi_child_spec *spec)
{
    msi_child *c;
    MSI_TRY(msi_child_start(&c, spec));
    const int status = msi_child_await_done(c, MSI_EINPUT);
    msi_child_free(c);
    return status;
}

void *msi_child_shared(const msi_child *c)
{
    return c->shared;
}

pid_t msi_child_id(const msi_child *c)
{
    return c->id;
}

/* ---- Frames ---- */

enum { HEAD_BYTES = offsetof(msi_frame, text) };

/* Return 1 if a call on the socket failed because the other process has ended. */
static int is_end(int failed)
{
    return failed == EPIPE || failed == ECONNRESET;
}

static int refuse(const msi_child *c, int why)
{
    if (c->is_child && c->spec.type != MSI_CHILD_PROGRAM)
        dprintf(STDERR_FILENO, "the system refused a message between processes: %s\n", strerror(why));
    if (c->is_child && c->spec.type == MSI_CHILD_WORKER) _exit(EXIT_REFUSED);
    return msi_error_set(MSI_ENOMEM, "the system refused a message between processes: %s", strerror(why));
}

int msi_child_send(const msi_child *c, const msi_frame *f)
{
    const size_t size = HEAD_BYTES + (size_t)f->n_byte;
    int why = 0;
    for (int k = 0; k < REFUSED_TRIES; k++) {
        const ssize_t n = send(c->socket, f, size, MSG_NOSIGNAL);
        if (n == (ssize_t)size) return 0;
        why = n < 0 ? errno : EMSGSIZE;
        if (is_end(why)) return 1;
        if (why != EINTR) pause_ms(REFUSED_PAUSE_MS);
    }
    return refuse(c, why);
}

int msi_child_ask(const msi_child *c, const msi_frame *f)
{
    const int sent = msi_child_send(c, f);
    return sent < 0 ? sent : MSI_OK;
}

/* Receive a frame, as msi_child_receive does. Given: flags  MSG_DONTWAIT: do not wait */
static int try_receive(msi_child *c, int flags, msi_frame *f, int *got)
{
    int why = 0;
    *got = -1;
    for (int k = 0; k < REFUSED_TRIES;) {
        const ssize_t n = recv(c->socket, f, sizeof *f, flags);
        why = n < 0 ? errno : 0;
        if (n > 0) {
            const int64_t n_byte = n - HEAD_BYTES;
            *got = n_byte >= 0 && f->n_byte == n_byte ? 1 : -1;
            c->is_garbled |= *got < 0;
            if (n_byte >= 0 && n_byte < (int64_t)sizeof f->text) f->text[n_byte] = 0;
            f->text[sizeof f->text - 1] = 0;
            return MSI_OK;
        }
        if (why == EAGAIN) *got = 0;
        if (n == 0 || why == EAGAIN || is_end(why)) return MSI_OK;
        if (why == EINTR) continue;
        pause_ms(REFUSED_PAUSE_MS);
        k++;
    }
    return refuse(c, why);
}

void msi_child_wait_briefly(const msi_child *c)
{
    struct pollfd fd = {.fd = c->socket, .events = POLLIN};
    if (poll(&fd, 1, LOOK_MS) < 0 && errno != EINTR) pause_ms(REFUSED_PAUSE_MS);
}

int msi_child_receive(msi_child *c, int wait, msi_frame *f, int *got)
{
    if (c->is_child) return try_receive(c, wait ? 0 : MSG_DONTWAIT, f, got);
    for (;;) {
        MSI_TRY(try_receive(c, MSG_DONTWAIT, f, got));
        if (*got || !wait) return MSI_OK;
        msi_child_wait_briefly(c);
        MSI_TRY(msi_interrupt_check());
        if (c->spec.wall_s > 0 && msi_wall_s() - c->started_s > c->spec.wall_s && c->id) kill(c->id, SIGKILL);
    }
}

/* ---- The parent ---- */

/* Find the last line of a child's output that is not empty; "" if there is none. */
static void last_line(int output_fd, char *text, size_t size)
{
    char tail[4096], *save;
    const off_t length = lseek(output_fd, 0, SEEK_END);
    const off_t from = length > (off_t)sizeof tail - 1 ? length - (off_t)sizeof tail + 1 : 0;
    const ssize_t n = pread(output_fd, tail, sizeof tail - 1, from);
    text[0] = 0;
    if (n <= 0) return;
    tail[n] = 0;
    for (char *line = strtok_r(tail, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        while (*line == ' ') line++;
        if (*line) snprintf(text, size, ": %s", line);
    }
}

/* Wait for the end of a child, at most for some time. Signal handlers of the caller's program, such as Python's, may
 * interrupt waitpid. Returns: 0 if the child has not ended. */
static int has_ended(msi_child *c, int64_t most_ms, int *how)
{
    *how = 0;
    for (int64_t ms = 0; c->id > 0 && ms <= most_ms; ms += END_PAUSE_MS) {
        const pid_t pid = waitpid(c->id, how, WNOHANG);
        if (pid == c->id || (pid < 0 && errno != EINTR)) c->id = 0;
        if (c->id) pause_ms(END_PAUSE_MS);
    }
    return c->id == 0;
}

/* Wait for the end of a child, and kill it after some time. If it is stuck in a system call even then, give up. */
static int reap(msi_child *c, int64_t most_ms)
{
    int how;
    if (!has_ended(c, most_ms, &how)) {
        kill(c->id, SIGKILL);
        has_ended(c, END_MS, &how);
    }
    c->id = 0;
    return how;
}

int msi_child_fail(msi_child *c, int status)
{
    const msi_child_spec *s = &c->spec;
    const int how = reap(c, c->is_garbled ? 0 : END_MS), by = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    const char *lead = status == MSI_EINPUT ? "truncated or corrupt: " : "";
    char words[520];
    last_line(c->output_fd, words, sizeof words);
    if (c->is_garbled) return msi_error_set(status, "%.300s: %s%s sent an invalid message", s->path, lead, s->what);
    if (by == SIGXCPU) { /* the user's limit of CPU time applies to each process */
        msi_interrupt_raise(SIGXCPU);
        return msi_interrupt_check();
    }
    if (by == SIGPROF)
        return msi_error_set(status, "%.300s: %s%s did not finish a step in the time that a whole set takes", s->path,
                             lead, s->what);
    if (by == SIGKILL)
        return msi_error_about(msi_error_set(MSI_ENOMEM,
                                             "%.300s: %s was ended by signal 9 (Killed), perhaps for lack of memory",
                                             s->path, s->what),
                               "killed");
    struct rlimit space;
    /* casacore 3.5 ends by such a signal in some places if an allocation fails. */
    if ((by == SIGSEGV || by == SIGABRT || by == SIGBUS) && getrlimit(RLIMIT_AS, &space) == 0 &&
        space.rlim_cur < LITTLE_SPACE)
        return msi_error_set(MSI_ENOMEM,
                             "%.300s: %s was ended by signal %d (%s), perhaps for lack of memory: the limit of the "
                             "address space is %llu MB; raise it (ulimit -v)",
                             s->path, s->what, by, strsignal(by), (unsigned long long)(space.rlim_cur >> 20));
    if (by)
        return msi_error_set(status, "%.300s: %s%s was ended by signal %d (%s)%s", s->path, lead, s->what, by,
                             strsignal(by), words);
    /* Libraries exit if the system refuses memory or a thread. */
    if (WEXITSTATUS(how) != 0) return msi_error_set(MSI_ENOMEM, "%.300s: %s has ended%s", s->path, s->what, words);
    return msi_error_set(status, "%.300s: %s%s has ended%s", s->path, lead, s->what, words);
}

void msi_child_put_error(msi_frame *f)
{
    const char *about = msi_error_about_get();
    snprintf(f->text, sizeof f->text, "%s", msi_error_get());
    const size_t n = strlen(f->text), n_about = strlen(about);
    f->n_byte = (int64_t)n;
    if (!n_about || n + 1 + n_about >= sizeof f->text) return;
    memcpy(f->text + n + 1, about, n_about);
    f->n_byte += (int64_t)(1 + n_about);
}

int msi_child_error(const msi_frame *f)
{
    static _Thread_local char about[32];
    if (f->status == MSI_OK) return MSI_OK;
    if (f->status > MSI_OK || f->status < MSI_EARGUMENT || !*f->text)
        return msi_error_set(MSI_EINTERNAL, "a process failed without an error message");
    const size_t n = strlen(f->text);
    snprintf(about, sizeof about, "%s", f->n_byte > (int64_t)n ? f->text + n + 1 : "");
    return msi_error_about(msi_error_set(f->status, "%s", f->text), about);
}

void msi_child_show(const msi_frame *f)
{
    if (f->kind == MSI_CHILD_PROGRESS)
        msi_progress_at(f->number, f->total);
    else if (f->kind == MSI_CHILD_LOG && f->number == MSI_LOG_QUIET)
        msi_log_warning("%s", f->text);
    else if (f->kind == MSI_CHILD_LOG && f->number == MSI_LOG_VERBOSE)
        msi_log_detail("%s", f->text);
    else if (f->kind == MSI_CHILD_LOG)
        msi_log_info("%s", f->text);
}

int msi_child_await(msi_child *c, msi_child_kind kind, int64_t number, int status_of_crash)
{
    msi_frame f;
    for (;;) {
        int got;
        MSI_TRY(msi_child_receive(c, 1, &f, &got));
        if (got < 0) return msi_child_fail(c, status_of_crash);
        if (f.kind == MSI_CHILD_DONE && (f.status || kind == MSI_CHILD_DONE)) return msi_child_error(&f);
        if (f.kind == (int32_t)kind && f.number == number) return MSI_OK;
        msi_child_show(&f);
    }
}

int msi_child_await_done(msi_child *c, int status_of_crash)
{
    return msi_child_await(c, MSI_CHILD_DONE, 0, status_of_crash);
}

void msi_child_stop(msi_child *c, int64_t most_ms)
{
    if (!c || c->id <= 0) return;
    shutdown(c->socket, SHUT_WR);
    reap(c, most_ms);
}

/* Wait until all processes of a child have closed their end of the socket; some may end a moment later. */
static void await_others(msi_child *c)
{
    char byte;
    for (int ms = 0; ms < END_MS; ms += LOOK_MS) {
        ssize_t n;
        do n = recv(c->socket, &byte, sizeof byte, MSG_DONTWAIT);
        while (n > 0 || (n < 0 && errno == EINTR));
        if (n == 0 || is_end(errno)) return;
        msi_child_wait_briefly(c);
    }
}

void msi_child_end(msi_child *c)
{
    if (!c || c->socket < 0) return;
    if (c->id) kill(c->id, SIGKILL);
    reap(c, END_MS);
    await_others(c);
}

void msi_child_free(msi_child *c)
{
    if (!c) return;
    if (!c->is_child) msi_child_end(c);
    if (c->socket >= 0) close(c->socket);
    if (c->output_fd >= 0) close(c->output_fd);
    if (c->shared) munmap(c->shared, (size_t)c->spec.shared_bytes);
    msi_free(c);
}

/* ---- The child ---- */

static void send_or_end(const msi_child *c, const msi_frame *f)
{
    const int sent = msi_child_send(c, f);
    if (sent) _exit(sent < 0 ? EXIT_REFUSED : 0);
}

void msi_child_tell(const msi_child *c, msi_child_kind kind, int64_t number, int64_t total)
{
    send_or_end(c, &(msi_frame){.kind = (int32_t)kind, .number = number, .total = total});
}

void msi_child_get(msi_child *c, msi_frame *f)
{
    int got;
    if (msi_child_receive(c, 1, f, &got) != MSI_OK) _exit(EXIT_REFUSED);
    if (got < 0) _exit(0);
}

int msi_child_is_orphan(const msi_child *c)
{
    struct pollfd fd = {.fd = c->socket, .events = POLLRDHUP};
    return poll(&fd, 1, 0) > 0 && fd.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

void msi_child_leave(int status)
{
    if (self_of_process) leave(self_of_process, status);
}

/* ---- Limits of the child ---- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__ /* the sanitizer's shadow memory takes terabytes of address space */
enum { LIMITS_MEMORY = 0 };
#else
enum { LIMITS_MEMORY = 1 };
#endif

int msi_child_limit_memory(int64_t bytes)
{
    long long n_page;
    struct rlimit limit;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    const int got = fscanf(f, "%lld", &n_page);
    fclose(f);
    if (!LIMITS_MEMORY || got != 1 || getrlimit(RLIMIT_AS, &limit) != 0) return 0;
    const rlim_t now = (rlim_t)n_page * (rlim_t)sysconf(_SC_PAGESIZE);
    if ((rlim_t)bytes > RLIM_INFINITY - now || now + (rlim_t)bytes >= limit.rlim_cur) return 0;
    limit.rlim_cur = now + (rlim_t)bytes;
    return setrlimit(RLIMIT_AS, &limit) == 0;
}

void msi_child_progress(double cpu_s)
{
    if (!is_watched) return;
    const struct itimerval until = {.it_value = {.tv_sec = (time_t)cpu_s + 1}};
    setitimer(ITIMER_PROF, &until, NULL);
}
