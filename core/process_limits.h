/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ask what the system allows the process: a stack for its functions, open files, threads for its loops. */
#ifndef MSI_CORE_PROCESS_LIMITS_H
#define MSI_CORE_PROCESS_LIMITS_H

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

#endif
