/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/process.h"
#include "io/ms/ms_paths.h"
#include "io/msv/msv_file.h"

enum { LOOK_MS = 200 }; /* interval between checks of the signal flag while waiting */

/* Number of attempts to send a message that the system refuses, for example for lack of buffers, and their interval. */
enum { REFUSED_TRIES = 100, REFUSED_PAUSE_MS = 10 };

/* A child that should end is killed after this time. Closing files on a slow disk may take several seconds. */
enum { END_MS = 30000, END_PAUSE_MS = 2 };

static const char REFUSED[] = "the system refused a message between processes";

static void pause_ms(int ms)
{
    const struct timespec pause = {0, ms * 1000000L};
    nanosleep(&pause, NULL);
}

/* ---- The child's start ---- */

/* Ignore signals, since the parent decides when to stop. Redirect the output of libraries to a file. Close the parent's
 * descriptors. */
static void set_up_child(const msi_child *c, int kept_fd)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGXFSZ};
    static const int by_default[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGXCPU, SIGCHLD};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
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
    DIR *d = opendir("/proc/self/fd");
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d));) {
        const int fd = atoi(e->d_name);
        const int is_kept = fd == c->socket || fd == c->output_fd || fd == kept_fd || fd == dirfd(d);
        if (fd > STDERR_FILENO && !is_kept) close(fd);
    }
    closedir(d);
}

int msi_child_fork(msi_child *c, const char *what, int *is_child)
{
    return msi_child_fork_keeping(c, what, -1, is_child);
}

int msi_child_fork_keeping(msi_child *c, const char *what, int kept_fd, int *is_child)
{
    int ends[2];
    *c = MSI_CHILD_NONE;
    *is_child = 0;
    c->output_fd = memfd_create("msimage", MFD_CLOEXEC);
    if (c->output_fd < 0) return msi_error_set(MSI_ENOMEM, "cannot create a file in memory: %s", strerror(errno));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return msi_error_set(MSI_ENOMEM, "cannot create a socket to a process %s: %s", what, strerror(errno));
    const pid_t pid = fork();
    c->socket = ends[pid == 0];
    close(ends[pid != 0]);
    if (pid < 0) return msi_error_set(MSI_ENOMEM, "cannot start a process %s: %s", what, strerror(errno));
    c->pid = pid;
    *is_child = pid == 0;
    if (*is_child) set_up_child(c, kept_fd);
    return MSI_OK;
}

/* ---- The child's limits ---- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__ /* its shadow takes terabytes of address space */
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

static int is_watched;

void msi_child_watch(void)
{
    is_watched = 1;
}

void msi_child_progress(double cpu_s)
{
    if (!is_watched) return;
    const struct itimerval until = {.it_value = {.tv_sec = (time_t)cpu_s + 1}};
    setitimer(ITIMER_PROF, &until, NULL);
}

/* ---- Messages ---- */

/* Return whether a call on the socket failed because the other side has ended. */
static int is_end(int failed)
{
    return failed == EPIPE || failed == ECONNRESET;
}

/* In the child, print the reason for msi_child_refused. In the parent, set the error. */
static int refuse(const msi_child *c, int why)
{
    if (c->pid == 0) dprintf(STDERR_FILENO, "%s: %s\n", REFUSED, strerror(why));
    return msi_error_set(MSI_ENOMEM, "%s: %s", REFUSED, strerror(why));
}

int msi_child_send(const msi_child *c, const void *message, size_t size)
{
    int why = 0;
    for (int k = 0; k < REFUSED_TRIES; k++) {
        const ssize_t n = send(c->socket, message, size, MSG_NOSIGNAL);
        if (n == (ssize_t)size) return 0;
        why = n < 0 ? errno : EMSGSIZE;
        if (is_end(why)) return 1;
        if (why != EINTR) pause_ms(REFUSED_PAUSE_MS);
    }
    return refuse(c, why);
}

int msi_child_request(const msi_child *c, const void *message, size_t size)
{
    const int sent = msi_child_send(c, message, size);
    return sent < 0 ? sent : MSI_OK;
}

/* Receive a message. Returned: *got  1; 0: there is none, with MSG_DONTWAIT; -1: the other side has ended, or sent
 * something else. Returns: 0, MSI_ENOMEM (the system refuses) */
static int try_receive(const msi_child *c, int flags, void *message, size_t size, int *got)
{
    int why = 0;
    *got = -1;
    for (int k = 0; k < REFUSED_TRIES;) {
        const ssize_t n = recv(c->socket, message, size, flags);
        why = n < 0 ? errno : 0;
        *got = n == (ssize_t)size ? 1 : why == EAGAIN ? 0 : -1;
        if (n >= 0 || why == EAGAIN || is_end(why)) return MSI_OK;
        if (why == EINTR) continue;
        pause_ms(REFUSED_PAUSE_MS);
        k++;
    }
    return refuse(c, why);
}

int msi_child_receive(const msi_child *c, void *message, size_t size)
{
    int got;
    return try_receive(c, 0, message, size, &got) == MSI_OK && got == 1 ? 0 : -1;
}

void msi_child_wait_briefly(const msi_child *c)
{
    struct pollfd fd = {.fd = c->socket, .events = POLLIN};
    if (poll(&fd, 1, LOOK_MS) < 0 && errno != EINTR) pause_ms(REFUSED_PAUSE_MS);
}

int msi_child_await(const msi_child *c, int wait, void *message, size_t size, int *got)
{
    for (;;) {
        MSI_TRY(try_receive(c, MSG_DONTWAIT, message, size, got));
        if (*got || !wait) return MSI_OK;
        msi_child_wait_briefly(c);
        MSI_TRY(msi_interrupt_check());
    }
}

/* ---- Its end ---- */

/* Find the last line that is not empty, without a "what():" at its beginning; "" if there is none. */
static void last_line(int output_fd, char *text, size_t size)
{
    char tail[4096];
    const off_t length = lseek(output_fd, 0, SEEK_END);
    const off_t from = length > (off_t)sizeof tail - 1 ? length - (off_t)sizeof tail + 1 : 0;
    const ssize_t n = pread(output_fd, tail, sizeof tail - 1, from);
    text[0] = 0;
    if (n <= 0) return;
    tail[n] = 0;
    char *save, *what = strstr(tail, "what():");
    for (char *line = strtok_r(what ? what + 7 : tail, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        while (*line == ' ') line++;
        if (*line) snprintf(text, size, "%s", line);
        if (what && *line) break;
    }
}

void msi_child_status_text(int output_fd, int wait_status, const char *path, const char *what, char *text, size_t size)
{
    char words[512];
    last_line(output_fd, words, sizeof words);
    if (WIFSIGNALED(wait_status))
        snprintf(text, size, "%.300s: %s was ended by signal %d (%s)%s%s", path, what, WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)), *words ? ": " : "", words);
    else
        snprintf(text, size, "%.300s: %s has ended%s%s", path, what, *words ? ": " : "", words);
}

/* Wait for a child's end, at most END_MS. Signal handlers of the caller's program, such as Python's, may interrupt
 * waitpid. Returns: 0 if it has not ended. */
static int has_ended(const msi_child *c, int *wait_status)
{
    *wait_status = 0;
    for (int ms = 0; ms < END_MS; ms += END_PAUSE_MS) {
        const pid_t pid = waitpid(c->pid, wait_status, WNOHANG);
        if (pid == c->pid || (pid < 0 && errno != EINTR)) return 1;
        pause_ms(END_PAUSE_MS);
    }
    return 0;
}

/* Wait for a child's end, and kill it after END_MS. If it is stuck in a system call even then, give up. */
static int reap(msi_child *c)
{
    int wait_status;
    if (!has_ended(c, &wait_status)) {
        kill(c->pid, SIGKILL);
        has_ended(c, &wait_status);
    }
    c->pid = 0;
    return wait_status;
}

int msi_child_refused(const msi_child *c, char *text, size_t size)
{
    static const int reasons[] = {ENOMEM, EAGAIN, EMFILE, ENFILE};
    last_line(c->output_fd, text, size);
    int is_one = strstr(text, REFUSED) || strstr(text, "bad_alloc");
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) is_one |= strstr(text, strerror(reasons[i])) != NULL;
    return is_one;
}

int msi_child_end_text(msi_child *c, const char *path, const char *what, char *text, size_t size)
{
    const int wait_status = reap(c);
    msi_child_status_text(c->output_fd, wait_status, path, what, text, size);
    return WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
}

int msi_child_wait(msi_child *c)
{
    const int wait_status = reap(c);
    return WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
}

void msi_child_await_end(const msi_child *c)
{
    char message[1];
    for (int ms = 0; ms < END_MS; ms += LOOK_MS) {
        ssize_t n;
        do n = recv(c->socket, message, sizeof message, MSG_DONTWAIT);
        while (n > 0 || (n < 0 && errno == EINTR));
        if (n == 0 || is_end(errno)) return;
        msi_child_wait_briefly(c);
    }
}

void msi_child_hang_up(const msi_child *c)
{
    shutdown(c->socket, SHUT_WR);
}

void msi_child_close(msi_child *c)
{
    if (c->socket >= 0) close(c->socket);
    if (c->output_fd >= 0) close(c->output_fd);
    c->socket = c->output_fd = -1;
}

/* Memory for libraries and buffers of blocks, and the memory per byte of the sets: about 100 bytes for a row of at
 * least 24 bytes, with a generous margin. */
static const int64_t LEAST_BYTES = (int64_t)512 << 20, TIMES_SIZE = 32;

/* casacore starts a thread for each processor and each column that DyscoStMan compresses. A set has a few such
 * columns. */
static const int64_t STACK_BYTES = (int64_t)512 << 10, GUARD_BYTES = (int64_t)64 << 10;
enum { COMPRESSED_COLUMNS = 8, MOST_DESCRIPTION = 4 << 20 };

/* Limits of this process. msi_ms_limit_explain uses them to distinguish a damaged set from a lack of memory. */
static struct {
    struct rlimit before;
    int64_t by_user, extra, all_stacks; /* all_stacks: as if each set had COMPRESSED_COLUMNS; 0: lifted, or no limit */
    int is_by_size;
} limits;

/* Mapped files and stacks take address space but no memory, so they are added to the limit. */
static int limit_space(int64_t bytes)
{
    return msi_child_limit_memory(bytes < INT64_MAX - limits.extra ? bytes + limits.extra : bytes);
}

static int limit_to(int64_t bytes)
{
    msi_memory_limit_set(bytes < INT64_MAX / 2 ? msi_memory_in_use() + bytes : bytes);
    return limit_space(bytes);
}

/* Reduce the address space of threads. By default each has a stack of 8 MB and a malloc arena of 64 MB; with a dozen
 * processors this exceeds the limit for a small set. Returns: the bytes of the stacks for one compressed column */
static int64_t make_threads_small(void)
{
    pthread_attr_t attributes;
    mallopt(M_ARENA_MAX, 1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)STACK_BYTES);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    return sysconf(_SC_NPROCESSORS_ONLN) * (STACK_BYTES + GUARD_BYTES);
}

/* Count the compressed columns in a table's description, at most COMPRESSED_COLUMNS. In a multi-MS with hundreds of
 * members, stacks for columns that do not exist would be the larger part of the limit. A column may be counted more
 * than once, because its manager's name may occur repeatedly. A description that is too long counts as
 * COMPRESSED_COLUMNS. */
static int compressed_columns(const char *path)
{
    static const char manager[] = "DyscoStMan";
    struct stat info;
    char *name, *text = NULL;
    int n = 0;
    if (asprintf(&name, "%s/table.dat", path) < 0) return COMPRESSED_COLUMNS;
    const int fd = stat(name, &info) == 0 && S_ISREG(info.st_mode) ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(name);
    if (fd < 0) return 0;
    const ssize_t length = info.st_size <= MOST_DESCRIPTION && (text = malloc((size_t)info.st_size + 1))
                               ? pread(fd, text, (size_t)info.st_size, 0)
                               : -1;
    close(fd);
    const char *end = length > 0 ? text + length : text;
    for (const char *at = text; length > 0 && n < COMPRESSED_COLUMNS; n++, at += sizeof manager - 1)
        if (!(at = memmem(at, (size_t)(end - at), manager, sizeof manager - 1))) break;
    free(text);
    return length < 0 ? COMPRESSED_COLUMNS : n;
}

void msi_ms_limit_memory(const char *const *paths, int n_path)
{
    const int64_t bytes = msi_ms_paths_bytes(paths, n_path), allowed = msi_memory_limit();
    const int64_t by_size =
        bytes < (INT64_MAX - LEAST_BYTES) / TIMES_SIZE ? LEAST_BYTES + TIMES_SIZE * bytes : INT64_MAX;
    const int64_t stacks = make_threads_small();
    limits.by_user = allowed > LEAST_BYTES ? allowed : LEAST_BYTES;
    limits.extra = 0;
    for (int i = 0; i < n_path; i++)
        limits.extra +=
            msi_msv_is_file(paths[i]) ? msi_ms_paths_bytes(&paths[i], 1) : compressed_columns(paths[i]) * stacks;
    if (getrlimit(RLIMIT_AS, &limits.before) != 0) return;
    limits.all_stacks = n_path * COMPRESSED_COLUMNS * stacks;
    limits.is_by_size = limit_to(by_size < limits.by_user ? by_size : limits.by_user) && by_size <= limits.by_user;
}

void msi_ms_limit_lift(void)
{
    if (!limits.all_stacks) return;
    /* The compressed columns are in other tables, to which this one refers. */
    limits.extra += limits.all_stacks;
    limits.all_stacks = 0;
    setrlimit(RLIMIT_AS, &limits.before);
    if (limits.is_by_size)
        limit_to(limits.by_user);
    else
        limit_space(limits.by_user);
    limits.is_by_size = 0;
}

/* Return whether an ordinary request for memory succeeds. */
static int has_memory(void)
{
    enum { BYTES = 1 << 20 };
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) munmap(p, BYTES);
    return p != MAP_FAILED;
}

/* Return whether a message names a shortage of something other than memory. */
static int names_other_shortage(const char *message)
{
    return strstr(message, strerror(EMFILE)) || strstr(message, strerror(ENFILE)) ||
           strstr(message, strerror(EAGAIN)) || strstr(message, REFUSED);
}

int msi_ms_limit_explain(int status, const char *path)
{
    if (status != MSI_ENOMEM || !limits.is_by_size || names_other_shortage(msi_error_get()) || !has_memory())
        return status;
    return msi_error_set(
        MSI_EINPUT, "%s: truncated or corrupt: reading it requests more memory than a set of its size can need", path);
}
