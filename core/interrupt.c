/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/interrupt.h"

#include <signal.h>
#include <string.h>
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
