/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/process_limits.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/status.h"

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
