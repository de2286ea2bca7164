/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/watchdog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "io/fits/publish.h"

static const long LOOK_NS = 100000000;
static long grace_ns = 1500000000;
static atomic_int is_stopped;

static void pause_ns(long ns)
{
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&left, &left)) {
    }
}

/* Wait for a signal, give the run its grace, then end the process from this thread. */
static void *watch(void *unused)
{
    (void)unused;
    while (!msi_interrupt_signal()) pause_ns(LOOK_NS);
    pause_ns(grace_ns);
    if (is_stopped) return NULL;
    msi_publish_emergency();
    /* The line bypasses the log, in the middle of which another thread may be. */
    char line[128];
    int signal_number = msi_interrupt_signal();
    int n = snprintf(line, sizeof line, "msimage: error: stopped by signal %d (%s)\n", signal_number,
                     strsignal(signal_number));
    if (!msi_log_is_silent() && write(STDERR_FILENO, line, (size_t)n) < 0) line[0] = 0;
    _exit(128 + signal_number);
}

void msi_watchdog_grace(double grace_s)
{
    grace_ns = (long)(1e9 * grace_s);
}

void msi_watchdog_stop(void)
{
    is_stopped = 1;
}

void msi_watchdog_start(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, NULL) == 0) pthread_detach(thread);
}
