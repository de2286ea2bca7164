/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/process.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "core/status.h"

static volatile sig_atomic_t arrived;

static void on_signal(int signal_number)
{
    arrived = signal_number;
}

/* Users, batch systems and limits of CPU time send these to end a run; left alone they would leave temporaries behind.
 */
static const int stopping[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};

void msi_interrupt_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    for (int i = 0; i < (int)(sizeof stopping / sizeof *stopping); i++) {
        struct sigaction before;
        const int is_ignored = sigaction(stopping[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (!is_ignored) sigaction(stopping[i], &action, NULL);
    }
    action.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

/* The calling thread's caller, and what it said. */
static _Thread_local struct {
    int (*ask)(void *of);
    void *of;
    int stop;
    int is_paced;
    double asked_s;
} caller;

enum { ASK_EACH_MS = 20 };

static int caller_stops(void)
{
    if (!caller.ask || caller.stop) return caller.stop;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double now_s = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (now_s - caller.asked_s < 1e-3 * ASK_EACH_MS) return 0;
    caller.asked_s = now_s;
    return caller.stop = caller.ask(caller.of) != 0;
}

void msi_interrupt_ask(int (*ask)(void *of), void *of)
{
    caller.ask = ask;
    caller.of = of;
    caller.stop = 0;
    if (!caller.is_paced) caller.asked_s = 0;
}

int msi_interrupt_pace(int is_one)
{
    const int before = caller.is_paced;
    caller.is_paced = is_one;
    if (!before) caller.asked_s = 0;
    return before;
}

int msi_interrupt_signal(void)
{
    return caller_stops() ? SIGINT : (int)arrived;
}

int msi_interrupt_check(void)
{
    if (caller_stops()) return msi_error_set(MSI_EINTERRUPTED, "stopped by the caller");
    if (!arrived) return MSI_OK;
    return msi_error_set(MSI_EINTERRUPTED, "stopped by signal %d (%s)", (int)arrived, strsignal((int)arrived));
}

void msi_interrupt_raise(int signal_number)
{
    arrived = signal_number;
}

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

/* A run takes less than 128 kB; libraries and threads of the GPU's driver are given what is usual. */
static const rlim_t NEEDED_STACK = 512 << 10, USUAL_STACK = 8 << 20;

/* casacore opens all files of a set, a conversion those of two; and one more for each column with a storage manager of
 * its own. */
static const rlim_t NEEDED_FILES = 128, USUAL_FILES = 1024;

/* Beside -j: readers, the writer's two processes, the watchdog, a writer of images, the GPU's start. */
enum { BESIDE = 9, MOST = 4096 };

int msi_process_limits_stack(int *raised)
{
    struct rlimit limit;
    *raised = 0;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= NEEDED_STACK) return MSI_OK;
    if (limit.rlim_max < NEEDED_STACK)
        return msi_error_set(MSI_ENOMEM, "the stack is limited to %llu kB; %llu kB are needed (ulimit -s)",
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
        return msi_error_set(MSI_ENOMEM, "%llu files may be open at a time; %llu are needed (ulimit -n)",
                             (unsigned long long)limit.rlim_max, (unsigned long long)NEEDED_FILES);
    limit.rlim_cur = limit.rlim_max < USUAL_FILES ? limit.rlim_max : USUAL_FILES;
    setrlimit(RLIMIT_NOFILE, &limit);
    return MSI_OK;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* Wait until all threads have been started. */
static void *wait_at_gate(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return NULL;
}

/* Give threads the stack that OMP_STACKSIZE asks for, as OpenMP's have it: a number, and B, K (which none means), M or
 * G. Return the name of the variable that did; NULL where none did. */
static const char *set_stack(pthread_attr_t *attributes)
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

int msi_process_limits_threads(int n_thread)
{
    pthread_t thread[MOST + BESIDE];
    pthread_attr_t attributes;
    const int wanted = (n_thread < MOST ? n_thread : MOST) + BESIDE;
    int n = 0;
    pthread_attr_init(&attributes);
    const char *stack = set_stack(&attributes);
    pthread_mutex_lock(&gate);
    while (n < wanted && pthread_create(&thread[n], &attributes, wait_at_gate, NULL) == 0) n++;
    pthread_mutex_unlock(&gate);
    pthread_attr_destroy(&attributes);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    if (n == wanted) return MSI_OK;
    struct rlimit space;
    const int has_space = getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY;
    return msi_error_set(
        MSI_ENOMEM,
        "%d threads and processes can be started; -j %d takes up to %d, and a smaller -j fewer (ulimit "
        "-u%s%s%s)",
        n, n_thread, wanted, has_space ? "" : ", or -v, of which their stacks are a part", stack ? "; " : "",
        stack ? stack : "");
}

/*
 * A group's limit binds all groups below it, and a job often runs in a step of the group that has the limit: so every
 * folder up to the mount's own is asked. In a container the mount may be the container's group, which the list of
 * groups names by a path that is not there; what is left of it at last is the mount.
 */

/* What is limited: the controller that does so, and how its limit is read from the files of a group's folder, which are
 * others in version 1. */
typedef struct resource {
    const char *controller;
    int64_t (*read)(const char *folder, int is_version_1);
} resource;

/* Read the first numbers of a file; returns how many there are. "max" is none. */
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

/* A group has so much processor time in each period. */
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

/* Find the least limit from a group upwards; the group's path is cut short. */
static int64_t least_upwards(const resource *r, const char *mount, int is_version_1, char *group)
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

/* Tell whether a list of words between commas has one. */
static int has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, word, length) == 0 && (p[length] == ',' || p[length] == '\0')) return 1;
    }
    return 0;
}

static int64_t least_of(const resource *r, const char *membership, const char *mount)
{
    int64_t least = INT64_MAX;
    char line[PATH_MAX + 256];
    FILE *f = fopen(membership, "re");
    if (!f) return least;
    /* A line is number:controllers:path; version 2 has no controllers there. */
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        controllers++;
        const int is_version_1 = *controllers != '\0';
        if (is_version_1 && !has_word(controllers, r->controller)) continue;
        const int64_t limit = least_upwards(r, mount, is_version_1, group);
        if (limit < least) least = limit;
    }
    fclose(f);
    return least;
}

int64_t msi_control_group_memory(const char *membership, const char *mount)
{
    const resource memory = {"memory", read_memory};
    return least_of(&memory, membership, mount);
}

int64_t msi_control_group_cpus(const char *membership, const char *mount)
{
    const resource cpu = {"cpu", read_cpus};
    return least_of(&cpu, membership, mount);
}
