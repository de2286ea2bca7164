/* SPDX-License-Identifier: GPL-3.0-or-later */
/* SIGINT, SIGTERM and their like set a flag that long loops look at, so that a run stops in order within two seconds.
 */
#ifndef MSI_CORE_INTERRUPT_H
#define MSI_CORE_INTERRUPT_H

#ifdef __cplusplus
extern "C" {
#endif

/* msi_interrupt_install - let SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU and SIGALRM set the flag
 * alone; SIGPIPE and SIGXFSZ are ignored, so that a closed pipe and a file-size limit arrive as errors of the write.
 * Notes: a signal that the process was started to ignore stays ignored: nohup's SIGHUP, the SIGINT of a script's job in
 * the background. But SIGCHLD is not, with which no end of a child can be waited for.
 */
void msi_interrupt_install(void);

/* msi_interrupt_signal - return the number of the signal that arrived, 0 while none has. */
int msi_interrupt_signal(void);

/* msi_interrupt_check - return MSI_OK, or MSI_EINTERRUPTED with the message set. */
int msi_interrupt_check(void);

/*
 * msi_interrupt_ask - let the calling thread stop where a function of its caller says so, as if a signal had
 * arrived. For a library, whose callers keep their own signals.
 * Given: ask  asked at most fifty times a second, by this thread alone; not 0: stop. NULL: nobody is asked any more
 */
void msi_interrupt_ask(int (*ask)(void *of), void *of);

/* msi_interrupt_pace - take the calling thread's next calls of msi_interrupt_ask for one, so that a function that has been
 * asked is not asked at once again.
 * Given: is_one  from here on; 0: each asks by itself, as at first
 * Returns: what it was
 */
int msi_interrupt_pace(int is_one);

/* msi_interrupt_raise - behave as if the signal had arrived (for tests). */
void msi_interrupt_raise(int signal_number);

#ifdef __cplusplus
}
#endif
#endif
