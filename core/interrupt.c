/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/interrupt.h"

#include <signal.h>
#include <string.h>

#include "core/status.h"

static volatile sig_atomic_t arrived;

static void on_signal(int signal_number)
{
    arrived = signal_number;
}

/* What users, batch systems and limits of CPU time send to end a run; left alone they would leave temporaries behind.
 */
static const int stopping[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};

void msi_interrupt_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    for (int i = 0; i < (int)(sizeof stopping / sizeof *stopping); i++) sigaction(stopping[i], &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

int msi_interrupt_signal(void)
{
    return (int)arrived;
}

int msi_interrupt_check(void)
{
    if (!arrived) return MSI_OK;
    return msi_error_set(MSI_EINTERRUPTED, "stopped by signal %d (%s)", (int)arrived, strsignal((int)arrived));
}

void msi_interrupt_raise(int signal_number)
{
    arrived = signal_number;
}
