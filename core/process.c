/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/process.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/status.h"

/* ---- Signals ---- */

static volatile sig_atomic_t arrived_signal;

static void on_signal(int signal_number)
{
    arrived_signal = signal_number;
}

/* Users, batch systems and CPU time limits end a run by these signals. Their default action would leave temporary
 * files. */
static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};

void msi_interrupt_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    for (int i = 0; i < (int)(sizeof stop_signals / sizeof *stop_signals); i++) {
        struct sigaction before;
        const int is_ignored = sigaction(stop_signals[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (!is_ignored) sigaction(stop_signals[i], &action, NULL);
    }
    action.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

/* The callback of this thread, and its last result. */
static _Thread_local struct {
    int (*callback)(void *user);
    void *user;
    int stop;
    int is_paced;    /* 1: msi_interrupt_pace keeps called_s when a callback is set */
    double called_s; /* time of the last call */
} caller;

enum { CALLBACK_EACH_MS = 20 };

static int caller_stops(void)
{
    if (!caller.callback || caller.stop) return caller.stop;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double now_s = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (now_s - caller.called_s < 1e-3 * CALLBACK_EACH_MS) return 0;
    caller.called_s = now_s;
    return caller.stop = caller.callback(caller.user) != 0;
}

void msi_interrupt_callback(int (*callback)(void *user), void *user)
{
    caller.callback = callback;
    caller.user = user;
    caller.stop = 0;
    if (!caller.is_paced) caller.called_s = 0;
}

int msi_interrupt_pace(int keeps)
{
    const int before = caller.is_paced;
    caller.is_paced = keeps;
    if (!before) caller.called_s = 0;
    return before;
}

int msi_interrupt_signal(void)
{
    return caller_stops() ? SIGINT : (int)arrived_signal;
}

int msi_interrupt_check(void)
{
    if (caller_stops()) return msi_error_set(MSI_EINTERRUPTED, "stopped by the caller");
    if (!arrived_signal) return MSI_OK;
    return msi_error_set(MSI_EINTERRUPTED, "stopped by signal %d (%s)", (int)arrived_signal,
                         strsignal((int)arrived_signal));
}

void msi_interrupt_raise(int signal_number)
{
    arrived_signal = signal_number;
}

/* ---- Exit codes ---- */

int msi_exit_code(int status)
{
    switch (status) {
    case MSI_OK:
        return 0;
    case MSI_EUSAGE:
    case MSI_EARGUMENT:
        return 2;
    case MSI_EINPUT:
        return 3;
    case MSI_EOUTPUT:
        return 4;
    case MSI_ENOMEM:
    case MSI_EGPU:
        return 5;
    case MSI_ELOCKED:
        return 6;
    case MSI_EINTERRUPTED:
        return 128 + msi_interrupt_signal();
    default:
        return 70;
    }
}

/* ---- Resource limits ---- */

/* These functions run before libc is initialised, so AddressSanitizer must not instrument them. */
#define BEFORE_LIBRARIES __attribute__((no_sanitize_address))

/* Return 1 if a line of the environment sets this variable. */
BEFORE_LIBRARIES static int is_variable(const char *line, const char *name)
{
    while (*name && *line == *name) {
        line++;
        name++;
    }
    return !*name && *line == '=';
}

BEFORE_LIBRARIES void msi_process_prefer_passive(int argc, char **argv, char **environment)
{
    static char passive[] = "OMP_WAIT_POLICY=passive";
    char **place = NULL;
    (void)argc;
    (void)argv;
    for (char **e = environment; *e; e++) {
        if (is_variable(*e, "OMP_WAIT_POLICY") || is_variable(*e, "GOMP_SPINCOUNT")) return;
        if (is_variable(*e, "_")) place = e;
    }
    if (place) *place = passive;
}

/* The main thread needs less than 128 kB of stack. Libraries and threads of the GPU driver get the usual size. */
static const rlim_t NEEDED_STACK = 512 << 10, USUAL_STACK = 8 << 20;

/* casacore opens all files of a set, and a conversion opens two sets. Each column with its own storage manager has one
 * more file. */
static const rlim_t NEEDED_FILES = 128, USUAL_FILES = 1024;

/* Threads and processes in addition to those of -j: readers, two writer processes, the watchdog, the image writer, the
 * start of the GPU. */
enum { EXTRA_THREADS = 9, MOST_THREADS = 4096 };

void msi_process_hold_standard_files(void)
{
    int fd;
    signal(SIGXFSZ, SIG_IGN);
    do fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

int msi_process_limits_stack(int *raised)
{
    struct rlimit limit;
    *raised = 0;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= NEEDED_STACK) return MSI_OK;
    if (limit.rlim_max < NEEDED_STACK)
        return msi_error_set(MSI_ENOMEM,
                             "the stack is limited to %llu kB, but %llu kB are needed; raise the limit (ulimit -s)",
                             (unsigned long long)limit.rlim_max >> 10, (unsigned long long)NEEDED_STACK >> 10);
    limit.rlim_cur = limit.rlim_max < USUAL_STACK ? limit.rlim_max : USUAL_STACK;
    *raised = setrlimit(RLIMIT_STACK, &limit) == 0;
    return MSI_OK;
}

int msi_process_limits_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= NEEDED_FILES) return MSI_OK;
    if (limit.rlim_max < NEEDED_FILES)
        return msi_error_set(MSI_ENOMEM,
                             "only %llu files can be open at once, but %llu are needed; raise the limit (ulimit -n)",
                             (unsigned long long)limit.rlim_max, (unsigned long long)NEEDED_FILES);
    limit.rlim_cur = limit.rlim_max < USUAL_FILES ? limit.rlim_max : USUAL_FILES;
    setrlimit(RLIMIT_NOFILE, &limit);
    return MSI_OK;
}

static pthread_mutex_t start_gate = PTHREAD_MUTEX_INITIALIZER;

/* A thread that waits until all others have been started. */
static void *wait_at_gate(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&start_gate);
    pthread_mutex_unlock(&start_gate);
    return NULL;
}

/* Set the stack size of threads from OMP_STACKSIZE, as OpenMP does: a number and B, K, M or G; the default is K. Return
 * the name of the variable that was used; NULL if none is set. */
static const char *set_thread_stack(pthread_attr_t *attributes)
{
    static const char *const names[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE"};
    for (int i = 0; i < 2; i++) {
        const char *text = getenv(names[i]);
        char *end = NULL, unit = 'k';
        errno = 0;
        const unsigned long long n = text ? strtoull(text, &end, 10) : 0;
        if (!text || end == text || errno) continue;
        sscanf(end, " %c", &unit);
        const char *units = "bkmg", *at = strchr(units, tolower((unsigned char)unit));
        const int shift = at && *at ? 10 * (int)(at - units) : 0;
        if (n <= SIZE_MAX >> shift && pthread_attr_setstacksize(attributes, (size_t)n << shift) == 0) return names[i];
    }
    return NULL;
}

/* Return 1 if a stack for one more thread can be allocated: not the memory, but the number of threads is limited. */
static int has_space_for_stack(const pthread_attr_t *attributes)
{
    size_t bytes = 0;
    pthread_attr_getstacksize(attributes, &bytes);
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) munmap(p, bytes);
    return p != MAP_FAILED;
}

int msi_process_limits_threads(int n_thread)
{
    pthread_t thread[MOST_THREADS + EXTRA_THREADS];
    pthread_attr_t attributes;
    const int wanted = (n_thread < MOST_THREADS ? n_thread : MOST_THREADS) + EXTRA_THREADS;
    int n = 0;
    pthread_attr_init(&attributes);
    const char *stack = set_thread_stack(&attributes);
    pthread_mutex_lock(&start_gate);
    while (n < wanted && pthread_create(&thread[n], &attributes, wait_at_gate, NULL) == 0) n++;
    const int has_space = n == wanted || has_space_for_stack(&attributes);
    pthread_mutex_unlock(&start_gate);
    pthread_attr_destroy(&attributes);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    if (n == wanted) return MSI_OK;
    return msi_error_set(MSI_ENOMEM,
                         "only %d threads and processes can be started, but -j %d needs up to %d; use a smaller -j, or "
                         "raise the limit (%s%s%s)",
                         n, n_thread, wanted,
                         has_space ? "ulimit -u, or pids.max of the control group"
                                   : "ulimit -v, which includes their stacks",
                         stack ? "; " : "", stack ? stack : "");
}

/*
 * ---- Control groups ----
 *
 * The limit of a group applies to all groups below it, and a job often runs in a child of the group with the limit.
 * Therefore every directory from the group up to the mount is read. In a container the mount may be the container's own
 * group, and the path in the list of groups does not exist there. Then the search reaches the mount, which has the
 * limit.
 */

/* A limited resource: its controller, and the function that reads its limit from the directory of a group. Files differ
 * between versions 1 and 2. */
typedef struct resource {
    const char *controller;
    int64_t (*read)(const char *folder, int is_version_1);
} resource;

/* Read the first two numbers of a file. Return how many were read; the word "max" is not a number. */
static int read_numbers(const char *folder, const char *name, long long number[2])
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return 0;
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    const int n = fscanf(f, "%lld %lld", &number[0], &number[1]);
    fclose(f);
    return n > 0 ? n : 0;
}

static int64_t read_memory(const char *folder, int is_version_1)
{
    long long bytes[2];
    const char *name = is_version_1 ? "memory.limit_in_bytes" : "memory.max";
    return read_numbers(folder, name, bytes) > 0 && bytes[0] > 0 ? bytes[0] : INT64_MAX;
}

/* Read the quota, which is a time per period. */
static int64_t read_cpus(const char *folder, int is_version_1)
{
    long long quota[2], period[2];
    int is_there;
    if (is_version_1) {
        is_there = read_numbers(folder, "cpu.cfs_quota_us", quota) > 0;
        is_there = is_there && read_numbers(folder, "cpu.cfs_period_us", period) > 0;
    } else {
        is_there = read_numbers(folder, "cpu.max", quota) == 2;
        period[0] = quota[1];
    }
    return is_there && quota[0] > 0 && period[0] > 0 ? quota[0] / period[0] + (quota[0] % period[0] > 0) : INT64_MAX;
}

/* Find the smallest limit of a group and its parents. The string `group` is shortened. */
static int64_t least_limit_upwards(const resource *r, const char *mount, int is_version_1, char *group)
{
    int64_t least = INT64_MAX;
    for (;;) {
        char folder[PATH_MAX];
        const char *slash = is_version_1 ? "/" : "", *below = is_version_1 ? r->controller : "";
        if (snprintf(folder, sizeof folder, "%s%s%s%s", mount, slash, below, group) < (int)sizeof folder) {
            const int64_t limit = r->read(folder, is_version_1);
            if (limit < least) least = limit;
        }
        char *end = strrchr(group, '/');
        if (!end) return least;
        *end = '\0';
    }
}

/* Return 1 if a comma-separated list contains a word. */
static int has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, word, length) == 0 && (p[length] == ',' || p[length] == '\0')) return 1;
    }
    return 0;
}

/* Find the smallest limit of all groups of a process. */
static int64_t least_limit(const resource *r, const char *membership, const char *mount)
{
    int64_t least = INT64_MAX;
    char line[PATH_MAX + 256];
    FILE *f = fopen(membership, "re");
    if (!f) return least;
    /* A line is number:controllers:path. The controllers of version 2 are empty. */
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        controllers++;
        const int is_version_1 = *controllers != '\0';
        if (is_version_1 && !has_word(controllers, r->controller)) continue;
        const int64_t limit = least_limit_upwards(r, mount, is_version_1, group);
        if (limit < least) least = limit;
    }
    fclose(f);
    return least;
}

int64_t msi_control_group_memory(const char *membership, const char *mount)
{
    const resource memory = {"memory", read_memory};
    return least_limit(&memory, membership, mount);
}

int64_t msi_control_group_cpus(const char *membership, const char *mount)
{
    const resource cpu = {"cpu", read_cpus};
    return least_limit(&cpu, membership, mount);
}

/* ---- Processors ---- */

static int affinity_count(void)
{
    int n = 0;
    /* The kernel rejects a mask that is shorter than its own, so try longer masks for machines with more than 1024
     * processors. */
    for (int bits = CPU_SETSIZE; bits <= 1 << 20 && n == 0; bits *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)bits);
        if (!set) break;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE((size_t)bits), set) == 0)
            n = CPU_COUNT_S(CPU_ALLOC_SIZE((size_t)bits), set);
        CPU_FREE(set);
    }
    if (n == 0) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? n : 1;
}

static int quota_count(void)
{
    const int64_t n = msi_control_group_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    return n < INT_MAX ? (int)n : INT_MAX;
}

static int n_sharing = 1;

void msi_cpu_share_set(int n)
{
    n_sharing = n > 1 ? n : 1;
}

int msi_cpu_share(void)
{
    return n_sharing;
}

int msi_cpu_count(void)
{
    const int allowed = affinity_count(), quota = quota_count(), all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    /* Processes share the quota of the group, even if each is bound to its own processors. */
    const int of_quota = quota < INT_MAX ? quota / n_sharing : quota,
              of_mask = allowed < all ? allowed : allowed / n_sharing;
    const int n = of_quota < of_mask ? of_quota : of_mask;
    return n > 0 ? n : 1;
}
