/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The process and its system: signals, exit codes, resource limits, control groups. */
#ifndef MSI_PROCESS_H
#define MSI_PROCESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Signals ----
 *
 * SIGINT, SIGTERM and similar signals set a flag. Long loops check it, so that a run stops within two seconds. */

/*
 * msi_interrupt_install - install handlers: SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU and SIGALRM set
 * the flag. SIGPIPE and SIGXFSZ are ignored, so that a closed pipe or a limit of file size causes a write error.
 * Notes: a signal that is ignored when the process starts stays ignored, such as SIGHUP under nohup, or SIGINT of a
 *        background job. SIGCHLD is reset to its default, because waitpid fails while it is ignored.
 */
void msi_interrupt_install(void);

/* msi_interrupt_signal - return the number of the stop signal that was received; 0: none. */
int msi_interrupt_signal(void);

/* msi_interrupt_check - return 0; after a stop signal, MSI_EINTERRUPTED with its message. */
int msi_interrupt_check(void);

/*
 * msi_interrupt_callback - set a function that can stop the calling thread, as a signal does. For libraries, whose
 * callers handle signals themselves.
 * Given: callback  called only by this thread, at most fifty times a second; if it does not return 0, the thread stops.
 *                  NULL: no callback
 *        user      argument of the callback
 */
void msi_interrupt_callback(int (*callback)(void *user), void *user);

/*
 * msi_interrupt_pace - keep the time of the last callback across calls of msi_interrupt_callback, so that several calls
 * of a library in a row do not call the function more often.
 * Given: keeps  1: the calling thread keeps it; 0, the default: the interval starts again with each
 *               msi_interrupt_callback
 * Returns: the previous value
 */
int msi_interrupt_pace(int keeps);

/* msi_interrupt_raise - set the flag as a signal does, for tests. */
void msi_interrupt_raise(int signal_number);

/* ---- Exit codes ---- */

/*
 * msi_exit_code - convert a status of core/status.h to an exit code of the process.
 * Returns: 0 success, 2 usage, 3 input, 4 output, 5 memory or GPU, 6 locked, 70 internal or out of range; 128 + the
 *          signal's number after an interrupt
 */
int msi_exit_code(int status);

/* ---- Resource limits: stack, open files, threads ---- */

/*
 * msi_process_prefer_passive - set OMP_WAIT_POLICY=passive before libgomp reads it. By default threads spin at a
 * barrier for milliseconds. On a busy machine they take cores from the threads that they wait for, and a run takes more
 * than twice as long. The environment has no spare slot, so the variable replaces `_`, which shells set and these
 * programs do not use. If there is no `_`, or the variable is set already, nothing changes.
 */
void msi_process_prefer_passive(int argc, char **argv, char **environment);

/* Used in the main file of a program. The loader calls the function before it initialises libraries. */
#define MSI_PREFER_PASSIVE_THREADS                                                                                     \
    __attribute__((section(".preinit_array"), used)) static void (*const msi_before_libraries)(                        \
        int, char **, char **) = msi_process_prefer_passive

/*
 * msi_process_hold_standard_files - open the standard descriptors that are closed when the program starts. Otherwise a
 * file that is opened later would get such a number, and printed text would be written to it. Printing still fails.
 * From then on SIGXFSZ is ignored, so that printing beyond a limit of file size is a write error too.
 */
void msi_process_hold_standard_files(void);

/*
 * msi_process_limits_stack - raise the stack limit if it is less than the program needs.
 * Returned: *raised  1: it was raised. The program must then restart itself, because threads get the limit that was set
 *                    when the program started
 * Returns:  0, MSI_ENOMEM (the hard limit is too low)
 */
int msi_process_limits_stack(int *raised);

/*
 * msi_process_limits_files - raise the limit of open files if it is less than the program needs. A Measurement Set has
 * about thirty files, which are all open at the same time, and a conversion opens two sets.
 * Returns:  0, MSI_ENOMEM (the hard limit is too low)
 */
int msi_process_limits_files(void);

/*
 * msi_process_limits_threads - check that the threads and processes of a run can be started. If OpenMP cannot start a
 * thread, it ends the program.
 * Given:    n_thread  the value of -j
 * Returns:  0, MSI_ENOMEM
 */
int msi_process_limits_threads(int n_thread);

/* ---- Control groups of Linux: limits of a batch job or a container ---- */

/*
 * msi_control_group_memory - find the smallest memory limit among a process's control groups and their parents, for
 * version 1 or 2 of control groups.
 * Given:   membership  file that lists the process's groups: /proc/self/cgroup
 *          mount       the directory of the groups' files: /sys/fs/cgroup
 * Returns: bytes; INT64_MAX if there is no limit, or if it cannot be read
 * Source:  cgroups(7), Linux's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst
 *
 * msi_control_group_cpus - find the smallest quota of processor time, in processors, rounded up; INT64_MAX as above.
 * Source:  as above, and Linux's Documentation/scheduler/sched-bwc.rst
 */
int64_t msi_control_group_memory(const char *membership, const char *mount);
int64_t msi_control_group_cpus(const char *membership, const char *mount);

/* ---- The number of processors that this process may use ---- */

/* msi_cpu_count - return the number of processors in the affinity mask, or the CPU quota of the control group, rounded
 * up, if that is smaller; at least 1. */
int msi_cpu_count(void);

/*
 * msi_cpu_share_set - set the number of processes of this run that share this host. msi_cpu_count then returns the
 * share of one process, unless the launcher has bound each process to some of the processors.
 * msi_cpu_share - return that number; 1 at first.
 */
void msi_cpu_share_set(int n);

int msi_cpu_share(void);

#ifdef __cplusplus
}
#endif
#endif
