/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The process and its system: signals, exit codes, limits of resources, control groups. */
#ifndef MSI_PROCESS_H
#define MSI_PROCESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Signals ----
 *
 * SIGINT, SIGTERM and similar signals set a flag. Long loops check it, so that a run stops within two seconds. */

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

/* ---- Exit codes ---- */

/*
 * msi_exit_code - return the process exit code that stands for a status of core/status.h.
 * Returns: 0 done, 2 usage, 3 input, 4 output, 5 memory or GPU, 6 locked, 70 internal or out of range; an interrupted
 *          run exits 128 + the signal's number
 */
int msi_exit_code(int status);

/* ---- Limits of resources: stack, open files, threads ---- */

/*
 * msi_process_limits_stack - raise the limit of the stack, where it is below what functions need, as far as that may
 * be.
 * Returned: *raised  1 where it was: threads take the limit that the program was started with
 * Returns:  0, MSI_ENOMEM (it may not be raised far enough)
 */
int msi_process_limits_stack(int *raised);

/*
 * msi_process_limits_files - raise the limit of open files, where it is below what a Measurement Set needs, as far as
 * that may be: a set is some thirty files, all open at once, and a conversion has two of them.
 * Returns:  0, MSI_ENOMEM (it may not be raised far enough)
 */
int msi_process_limits_files(void);

/*
 * msi_process_limits_threads - try whether as many threads can be started as a run has, with its processes: OpenMP ends
 * the program by itself where one of its threads cannot.
 * Given:    n_thread  -j
 * Returns:  0, MSI_ENOMEM
 */
int msi_process_limits_threads(int n_thread);

/* ---- Control groups of Linux, which limit the memory and the processors of a batch job or a container ---- */

/*
 * msi_control_group_memory - find the least limit of a process's groups and of all above them, of either version.
 * Given:   membership  the process's list of groups: /proc/self/cgroup
 *          mount       where the groups' files are: /sys/fs/cgroup
 * Returns: bytes; INT64_MAX where nothing limits them, or nothing can be read
 * Source:  cgroups(7), Linux's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst
 *
 * msi_control_group_cpus - likewise the least quota of processor time, in processors, rounded up.
 * Source:  the same, and Linux's Documentation/scheduler/sched-bwc.rst
 */
int64_t msi_control_group_memory(const char *membership, const char *mount);
int64_t msi_control_group_cpus(const char *membership, const char *mount);

#ifdef __cplusplus
}
#endif
#endif
